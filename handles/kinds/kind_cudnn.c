/* kind_cudnn.c: cuDNN handles. The stream is all the state they have: the
 * logging callback belongs to the process and is left alone. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cudnn.h>)
#include <cudnn.h>

#define FUNCTIONS(X)                                                           \
    X(cudnnCreate)                                                             \
    X(cudnnDestroy)                                                            \
    X(cudnnSetStream)                                                          \
    X(cudnnGetErrorString)                                                     \
    X(cudnnGetCudartVersion)

typedef struct table {
    FUNCTIONS(WM_CUDA_FIELD)
} table;

static const wm_cuda_entry entries[] = {FUNCTIONS(WM_CUDA_ENTRY)};

static const wm_cuda_soname sonames[] = {
    {0, "libcudnn.so.9"}, {12, "libcudnn.so.8"}, {0, "libcudnn.so"}, {0, NULL}};

WM_CUDA_CREATE_DESTROY(cudnnCreate, cudnnDestroy, cudnnHandle_t)
WM_CUDA_BIND(cudnnSetStream)
WM_CUDA_TEXT(cudnnGetErrorString, cudnnStatus_t)
/* Each CUDA version has its own build of cuDNN, under the same soname. */
WM_CUDA_CUDART(cudnnGetCudartVersion)

static wm_cuda_answer reset(const void *functions, void *handle)
{
    return bind(functions, handle, NULL, NULL, 0);
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cudnn, "cuDNN"),
    .bind = bind,
    .reset = reset,
};

WM_CUDA_KIND(cudnn, .bind = wm_cuda_kind_bind, .rebind = wm_cuda_kind_rebind);
#else
WM_CUDA_KIND_LEFT_OUT(cudnn, "cuDNN", .bind = wm_cuda_kind_bind);
#endif
