/* kind_cusparse.c: cuSPARSE handles: a stream and a pointer mode. The logger
 * belongs to the process and is left alone. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cusparse.h>)
#include <cusparse.h>

#define FUNCTIONS(X)                                                           \
    X(cusparseCreate)                                                          \
    X(cusparseDestroy)                                                         \
    X(cusparseSetStream)                                                       \
    X(cusparseGetErrorString)                                                  \
    X(cusparseGetProperty)

typedef struct table {
    FUNCTIONS(WM_CUDA_FIELD)
    WM_CUDA_SETTING_FIELD(cusparse, PointerMode, cusparsePointerMode_t)
} table;

static const wm_cuda_entry entries[] = {FUNCTIONS(
    WM_CUDA_ENTRY) WM_CUDA_SETTING_ENTRIES(table, cusparse, PointerMode, 0)};

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

WM_CUDA_CREATE_DESTROY(cusparseCreate, cusparseDestroy, cusparseHandle_t)
WM_CUDA_BIND(cusparseSetStream)
WM_CUDA_TEXT(cusparseGetErrorString, cusparseStatus_t)

static wm_cuda_answer learn(void *functions, void *handle)
{
    table *t = functions;
    wm_cuda_answer answer = {"", 0};

    WM_CUDA_SETTING_LEARN(cusparse, PointerMode)
    return answer;
}

static wm_cuda_answer reset(const void *functions, void *handle)
{
    const table *t = functions;
    wm_cuda_answer answer = bind(functions, handle, NULL, NULL, 0);

    WM_CUDA_SETTING_RESET(cusparse, PointerMode)
    return answer;
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cusparse, "cuSPARSE"),
    .learn = learn,
    .bind = bind,
    .reset = reset,
};

WM_CUDA_KIND(cusparse, .bind = wm_cuda_kind_bind,
             .rebind = wm_cuda_kind_rebind);
#else
WM_CUDA_KIND_LEFT_OUT(cusparse, "cuSPARSE", .bind = wm_cuda_kind_bind);
#endif
