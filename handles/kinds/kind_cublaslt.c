/* kind_cublaslt.c: cuBLASLt handles. They have no stream and no state that a
 * user could set: both are arguments of every call. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cublasLt.h>)
#include <cublasLt.h>

#define FUNCTIONS(X)                                                           \
    X(cublasLtCreate)                                                          \
    X(cublasLtDestroy)                                                         \
    X(cublasLtGetStatusString)                                                 \
    X(cublasLtGetCudartVersion)

typedef struct table {
    FUNCTIONS(WM_CUDA_FIELD)
} table;

static const wm_cuda_entry entries[] = {FUNCTIONS(WM_CUDA_ENTRY)};

static const wm_cuda_soname sonames[] = {{13, "libcublasLt.so.13"},
                                         {12, "libcublasLt.so.12"},
                                         {0, "libcublasLt.so"},
                                         {0, NULL}};

WM_CUDA_CREATE_DESTROY(cublasLtCreate, cublasLtDestroy, cublasLtHandle_t)
WM_CUDA_TEXT(cublasLtGetStatusString, cublasStatus_t)
WM_CUDA_CUDART(cublasLtGetCudartVersion)

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cublaslt, "cuBLASLt"),
};

WM_CUDA_KIND(cublaslt, );
#else
WM_CUDA_KIND_LEFT_OUT(cublaslt, "cuBLASLt", );
#endif
