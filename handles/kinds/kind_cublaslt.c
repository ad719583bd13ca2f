/* kind_cublaslt.c: cuBLASLt handles. They have no stream and no state that a
 * user could set: both are arguments of every call. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cublasLt.h>)
#include <cublasLt.h>

typedef struct table {
    __typeof__(cublasLtCreate) *cublasLtCreate;
    __typeof__(cublasLtDestroy) *cublasLtDestroy;
    __typeof__(cublasLtGetStatusString) *cublasLtGetStatusString;
    __typeof__(cublasLtGetCudartVersion) *cublasLtGetCudartVersion;
} table;

#define ENTRY(name)                                                            \
    {                                                                          \
#name, offsetof(table, name), 0                                        \
    }
static const wm_cuda_entry entries[] = {
    ENTRY(cublasLtCreate),
    ENTRY(cublasLtDestroy),
    ENTRY(cublasLtGetStatusString),
    ENTRY(cublasLtGetCudartVersion),
};

static const wm_cuda_soname sonames[] = {{13, "libcublasLt.so.13"},
                                         {12, "libcublasLt.so.12"},
                                         {0, "libcublasLt.so"},
                                         {0, NULL}};

static int cuda_major(const void *functions)
{
    const table *t = functions;

    return (int)(t->cublasLtGetCudartVersion() / 1000);
}

static wm_cuda_answer create(const void *functions, void **handle)
{
    const table *t = functions;

    return WM_CUDA_ANSWER(cublasLtCreate, (cublasLtHandle_t *)handle);
}

static wm_cuda_answer destroy(const void *functions, void *handle)
{
    const table *t = functions;

    return WM_CUDA_ANSWER(cublasLtDestroy, handle);
}

static const char *text(const void *functions, int code)
{
    const table *t = functions;

    return t->cublasLtGetStatusString((cublasStatus_t)code);
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cublaslt, "cuBLASLt"),
};

WM_CUDA_KIND(cublaslt, NULL, NULL);
#else
WM_CUDA_KIND_LEFT_OUT(cublaslt, "cuBLASLt");
#endif
