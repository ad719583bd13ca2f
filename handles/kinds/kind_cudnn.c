/* kind_cudnn.c: cuDNN handles. The stream is all the state they have: the
 * logging callback belongs to the process and is left alone. */
#include "handles/kinds/kind_cuda.h"

#if WM_HAVE_CUDA && __has_include(<cudnn.h>)
#include <cudnn.h>

typedef struct table {
    __typeof__(cudnnCreate) *cudnnCreate;
    __typeof__(cudnnDestroy) *cudnnDestroy;
    __typeof__(cudnnSetStream) *cudnnSetStream;
    __typeof__(cudnnGetErrorString) *cudnnGetErrorString;
    __typeof__(cudnnGetCudartVersion) *cudnnGetCudartVersion;
} table;

#define ENTRY(name)                                                            \
    {                                                                          \
#name, offsetof(table, name), 0                                        \
    }
static const wm_cuda_entry entries[] = {
    ENTRY(cudnnCreate),           ENTRY(cudnnDestroy),
    ENTRY(cudnnSetStream),        ENTRY(cudnnGetErrorString),
    ENTRY(cudnnGetCudartVersion),
};

static const wm_cuda_soname sonames[] = {
    {0, "libcudnn.so.9"}, {12, "libcudnn.so.8"}, {0, "libcudnn.so"}, {0, NULL}};

/* Each CUDA version has its own build of cuDNN, under the same soname. */
static int cuda_major(const void *functions)
{
    const table *t = functions;

    return (int)(t->cudnnGetCudartVersion() / 1000);
}

static wm_cuda_answer create(const void *functions, void **handle)
{
    const table *t = functions;

    return WM_CUDA_ANSWER(cudnnCreate, (cudnnHandle_t *)handle);
}

static wm_cuda_answer destroy(const void *functions, void *handle)
{
    const table *t = functions;

    return WM_CUDA_ANSWER(cudnnDestroy, handle);
}

static wm_cuda_answer bind(const void *functions, void *handle,
                           warm_stream stream, void *workspace, size_t bytes)
{
    const table *t = functions;

    (void)workspace;
    (void)bytes;
    return WM_CUDA_ANSWER(cudnnSetStream, handle, stream);
}

static wm_cuda_answer reset(const void *functions, void *handle)
{
    return bind(functions, handle, NULL, NULL, 0);
}

static const char *text(const void *functions, int code)
{
    const table *t = functions;

    return t->cudnnGetErrorString((cudnnStatus_t)code);
}

static const wm_cuda_library library = {
    WM_CUDA_LIBRARY(cudnn, "cuDNN"),
    .bind = bind,
    .reset = reset,
};

WM_CUDA_KIND_BIND
WM_CUDA_KIND(cudnn, bind_handle, NULL);
#else
WM_CUDA_KIND_LEFT_OUT(cudnn, "cuDNN");
#endif
