/* handles.c: create, destroy and set-stream of CUDA's libraries become leases.
 *
 * A handle on lease is in the library's default state, as a new one. Whatever
 * warmpool refuses, and every handle that is none of its leases, is the real
 * library's, with its own status. */
#include "preload.h"

/* Of every library here, when its own function is missing. */
enum { NOT_INITIALIZED = 1 };

static bool lease(warm_kind kind, void **handle)
{
    void *leased = NULL;
    warm_lease number = {0};
    int device = 0;
    bool served = handle != NULL && wp_enter(WP_HANDLES);

    if (!served) {
        return false;
    }
    served = warm_device_current(wp_runtime(), &device) == WARM_OK &&
             warm_handle_lease(wp_runtime(), kind, device, &number, &leased) ==
                 WARM_OK;
    wp_leave();
    if (served) {
        *handle = leased;
    }
    return served;
}

/* Whether the handle is on lease; then the thread is inside, until wp_out(). A
 * thread that is inside is asked as well: a library that is destroyed may
 * destroy a handle that it was served. */
static bool enter_lease(warm_kind kind, const void *handle, warm_lease *number)
{
    if (handle == NULL || !wp_has_served(WP_HANDLES)) {
        return false;
    }
    wp_in();
    if (warm_handle_find_lease(wp_runtime(), kind, handle, number) == WARM_OK) {
        return true;
    }
    wp_out();
    return false;
}

static bool give_back(warm_kind kind, const void *handle)
{
    warm_lease number = {0};
    bool served = enter_lease(kind, handle, &number);

    if (served) {
        served = warm_handle_return(wp_runtime(), number) == WARM_OK;
        wp_out();
    }
    return served;
}

static bool bind(warm_kind kind, const void *handle, void *stream)
{
    warm_lease number = {0};
    bool served = enter_lease(kind, handle, &number);

    if (served) {
        served = warm_lease_bind(wp_runtime(), number, stream) == WARM_OK;
        wp_out();
    }
    return served;
}

typedef int create_fn(void **handle);
typedef int destroy_fn(void *handle);
typedef int stream_fn(void *handle, void *stream);

#define CREATE(name, kind)                                                     \
    WP_EXPORT int name(void **handle);                                         \
    WP_EXPORT int name(void **handle)                                          \
    {                                                                          \
        if (lease(kind, handle)) {                                             \
            return 0;                                                          \
        }                                                                      \
        WP_RETURN_REAL(name, create_fn, NOT_INITIALIZED, handle);              \
    }

#define DESTROY(name, kind)                                                    \
    WP_EXPORT int name(void *handle);                                          \
    WP_EXPORT int name(void *handle)                                           \
    {                                                                          \
        if (give_back(kind, handle)) {                                         \
            return 0;                                                          \
        }                                                                      \
        WP_RETURN_REAL(name, destroy_fn, NOT_INITIALIZED, handle);             \
    }

#define SET_STREAM(name, kind)                                                 \
    WP_EXPORT int name(void *handle, void *stream);                            \
    WP_EXPORT int name(void *handle, void *stream)                             \
    {                                                                          \
        if (bind(kind, handle, stream)) {                                      \
            return 0;                                                          \
        }                                                                      \
        WP_RETURN_REAL(name, stream_fn, NOT_INITIALIZED, handle, stream);      \
    }

CREATE(cublasCreate_v2, WARM_KIND_CUBLAS)
DESTROY(cublasDestroy_v2, WARM_KIND_CUBLAS)
SET_STREAM(cublasSetStream_v2, WARM_KIND_CUBLAS)
CREATE(cublasLtCreate, WARM_KIND_CUBLASLT)
DESTROY(cublasLtDestroy, WARM_KIND_CUBLASLT)
CREATE(cudnnCreate, WARM_KIND_CUDNN)
DESTROY(cudnnDestroy, WARM_KIND_CUDNN)
SET_STREAM(cudnnSetStream, WARM_KIND_CUDNN)
CREATE(cusparseCreate, WARM_KIND_CUSPARSE)
DESTROY(cusparseDestroy, WARM_KIND_CUSPARSE)
SET_STREAM(cusparseSetStream, WARM_KIND_CUSPARSE)
CREATE(cusolverDnCreate, WARM_KIND_CUSOLVER)
DESTROY(cusolverDnDestroy, WARM_KIND_CUSOLVER)
SET_STREAM(cusolverDnSetStream, WARM_KIND_CUSOLVER)
