/* handles_program.c: handles of every library that is replaced, by a program
 * that knows CUDA alone (row H1). Prints how many each library has made, of
 * ROUNDS or more that the program asks for, and how many cuBLAS has ended. */
#include "program.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cusolverDn.h>
#include <cusparse.h>

#include <pthread.h>

enum { ROUNDS = 20 };

/* A handle is as a new one, works on the stream it was told, and is destroyed
 * by another thread than made it, while another one is in use. */
#define LIBRARY(name, type, create, destroy, set, get)                         \
    static void *name##_end(void *handle)                                      \
    {                                                                          \
        TRY(destroy((type)handle));                                            \
        return NULL;                                                           \
    }                                                                          \
                                                                               \
    static void name(cudaStream_t stream)                                      \
    {                                                                          \
        type first = NULL, handle = NULL;                                      \
        cudaStream_t of = NULL;                                                \
        pthread_t thread;                                                      \
                                                                               \
        TRY(create(&first));                                                   \
        for (int i = 1; i < ROUNDS; i++) {                                     \
            TRY(create(&handle));                                              \
            MUST(handle != first);                                             \
            of = stream;                                                       \
            TRY(get(handle, &of));                                             \
            MUST(of == NULL);                                                  \
            TRY(set(handle, stream));                                          \
            TRY(get(handle, &of));                                             \
            MUST(of == stream);                                                \
            MUST(pthread_create(&thread, NULL, name##_end, handle) == 0);      \
            pthread_join(thread, NULL);                                        \
        }                                                                      \
        TRY(set(first, stream));                                               \
        TRY(get(first, &of));                                                  \
        MUST(of == stream);                                                    \
        TRY(destroy(first));                                                   \
        printf(#name " %llu\n", (unsigned long long)calls_of(#create));        \
    }

#undef cublasCreate
#undef cublasDestroy
LIBRARY(cublas, cublasHandle_t, cublasCreate_v2, cublasDestroy_v2,
        cublasSetStream_v2, cublasGetStream_v2)
LIBRARY(cudnn, cudnnHandle_t, cudnnCreate, cudnnDestroy, cudnnSetStream,
        cudnnGetStream)
LIBRARY(cusparse, cusparseHandle_t, cusparseCreate, cusparseDestroy,
        cusparseSetStream, cusparseGetStream)
LIBRARY(cusolver, cusolverDnHandle_t, cusolverDnCreate, cusolverDnDestroy,
        cusolverDnSetStream, cusolverDnGetStream)

/* Both may be one handle. */
static void cublaslt(void)
{
    cublasLtHandle_t handle = NULL, other = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        TRY(cublasLtCreate(&handle));
        TRY(cublasLtCreate(&other));
        TRY(cublasLtDestroy(handle));
        TRY(cublasLtDestroy(other));
    }
    printf("cublaslt %llu\n", (unsigned long long)calls_of("cublasLtCreate"));
}

/* A workspace of the program is its own, and gone from the handle that it gets
 * next: work with that one uses no memory that was freed. Nor does it use a
 * stream that was destroyed before the handle. */
static void workspace(cudaStream_t stream)
{
    enum { SIDE = 64, BYTES = SIDE * SIDE * (int)sizeof(float) };
    const float one = 1, zero = 0;
    cublasHandle_t handle = NULL;
    cudaStream_t own = NULL;
    float *numbers = NULL;
    void *space = NULL;

    TRY(cudaMalloc((void **)&numbers, BYTES));
    TRY(cudaMemsetAsync(numbers, 0, BYTES, stream));
    for (int i = 0; i < 3; i++) {
        TRY(cudaMalloc(&space, 1 << 20));
        TRY(cudaStreamCreate(&own));
        TRY(cublasCreate_v2(&handle));
        TRY(cublasSetStream_v2(handle, stream));
        TRY(cublasSetWorkspace_v2(handle, space, 1 << 20));
        TRY(cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE,
                           &one, numbers, SIDE, numbers, SIDE, &zero, numbers,
                           SIDE));
        TRY(cudaStreamSynchronize(stream));
        TRY(cublasSetStream_v2(handle, own)); /* the library's own workspace */
        TRY(cudaFree(space));
        TRY(cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE,
                           &one, numbers, SIDE, numbers, SIDE, &zero, numbers,
                           SIDE));
        TRY(cudaStreamSynchronize(own));
        TRY(cublasSetStream_v2(handle, NULL));
        TRY(cudaStreamDestroy(own));
        TRY(cublasDestroy_v2(handle));
    }
    TRY(cudaFree(numbers));
}

int main(void)
{
    uint64_t made;
    cudaStream_t stream = NULL;
    cudnnHandle_t early = NULL; /* CUDA's: nothing has been called yet */

    TRY(cudnnCreate(&early));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cublas(stream);
    cublaslt();
    cudnn(stream);
    cusparse(stream);
    cusolver(stream);
    workspace(stream);
    TRY(cudnnSetStream(early, NULL));
    TRY(cudaStreamDestroy(stream));
    made = calls_of("cudnnDestroy");
    MUST(made == 0 || made == ROUNDS);
    TRY(cudnnDestroy(early));
    MUST(calls_of("cudnnDestroy") == made + 1);
    printf("ends %llu\n", (unsigned long long)calls_of("cublasDestroy_v2"));
    printf("misuses %llu\n", (unsigned long long)misuses());
    return 0;
}
