/* kind_cusparse.c: cuSPARSE handles: a stream and a pointer mode. The logger
 * belongs to the process and is left alone. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cusparse.h>)
#include <cusparse.h>

typedef struct table {
    __typeof__(cusparseCreate) *cusparseCreate;
    __typeof__(cusparseDestroy) *cusparseDestroy;
    __typeof__(cusparseSetStream) *cusparseSetStream;
    __typeof__(cusparseGetErrorString) *cusparseGetErrorString;
    __typeof__(cusparseGetProperty) *cusparseGetProperty;
    WM_CUDA_SETTING_FIELD(cusparse, PointerMode, cusparsePointerMode_t)
} table;

#define ENTRY(name)                                                            \
    {                                                                          \
#name, offsetof(table, name), 0                                        \
    }
static const wm_cuda_entry entries[] = {
    ENTRY(cusparseCreate),
    ENTRY(cusparseDestroy),
    ENTRY(cusparseSetStream),
    ENTRY(cusparseGetErrorString),
    ENTRY(cusparseGetProperty),
    WM_CUDA_SETTING_ENTRIES(table, cusparse, PointerMode, 0)};

static const wm_cuda_soname sonames[] = {
    {0, "libcusparse.so.12"}, {0, "libcusparse.so"}, {0, NULL}};

/* CUDA 12 and 13 have libraries of the same soname: 12.0 to 12.5, and 12.6 or
 * later. */
static int cuda_major(const void *functions)
{
    const table *t = functions;
    int major = 0, minor = 0;

    if (t->cusparseGetProperty(MAJOR_VERSION, &major) !=
            CUSPARSE_STATUS_SUCCESS ||
        t->cusparseGetProperty(MINOR_VERSION, &minor) !=
            CUSPARSE_STATUS_SUCCESS) {
        return 0;
    }
    return major == 12 ? (minor < 6 ? 12 : 13) : major;
}

static wm_cuda_answer create(const void *functions, void **handle)
{
    const table *t = functions;

    return WM_CUDA_ANSWER(cusparseCreate, (cusparseHandle_t *)handle);
}

static wm_cuda_answer destroy(const void *functions, void *handle)
{
    const table *t = functions;

    return WM_CUDA_ANSWER(cusparseDestroy, handle);
}

static wm_cuda_answer learn(void *functions, void *handle)
{
    table *t = functions;
    wm_cuda_answer answer = {"", 0};

    WM_CUDA_SETTING_LEARN(cusparse, PointerMode)
    return answer;
}

static wm_cuda_answer bind(const void *functions, void *handle,
                           warm_stream stream, void *workspace, size_t bytes)
{
    const table *t = functions;

    (void)workspace;
    (void)bytes;
    return WM_CUDA_ANSWER(cusparseSetStream, handle, stream);
}

static wm_cuda_answer reset(const void *functions, void *handle)
{
    const table *t = functions;
    wm_cuda_answer answer = bind(functions, handle, NULL, NULL, 0);

    WM_CUDA_SETTING_RESET(cusparse, PointerMode)
    return answer;
}

static const char *text(const void *functions, int code)
{
    const table *t = functions;

    return t->cusparseGetErrorString((cusparseStatus_t)code);
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cusparse, "cuSPARSE"),
    .learn = learn,
    .bind = bind,
    .reset = reset,
};

WM_CUDA_KIND_BIND
WM_CUDA_KIND(cusparse, bind_handle, NULL);
#else
WM_CUDA_KIND_LEFT_OUT(cusparse, "cuSPARSE");
#endif
