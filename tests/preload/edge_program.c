/* edge_program.c: what a program that knows CUDA alone may do as well (row H1):
 * handles of every library, and streams that it destroys while they work.
 *
 *   edge_program CASE: an error, or a wrong order, ends it with status 1. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cusolverDn.h>
#include <cusparse.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "program.h"

enum { BYTES = 1 << 20, TIMES = 12 };

/* The first calls are CUDA's own. */
static void begin(void)
{
    void *block = NULL;

    for (int i = 0; i < 2; i++) {
        TRY(cudaHostAlloc(&block, BYTES, 0));
        TRY(cudaFreeHost(block));
        TRY(cudaMalloc(&block, BYTES));
        TRY(cudaFree(block));
    }
}

/* ---- handles of every library ---------------------------------------------
 */

static void *destroy_blas(void *handle)
{
    TRY(cublasDestroy(handle));
    return NULL;
}

/* The handle is destroyed by another thread, and after its stream. */
static void use_blas(cudaStream_t stream, void *workspace)
{
    cublasHandle_t handle = NULL;
    cudaStream_t own = NULL, bound = NULL;
    pthread_t thread;

    TRY(cublasCreate(&handle));
    TRY(cublasGetStream(handle, &bound));
    MUST(bound == NULL); /* as a new one has it */
    TRY(cublasSetStream(handle, stream));
    TRY(cublasGetStream(handle, &bound));
    MUST(bound == stream);
    TRY(cublasSetWorkspace(handle, workspace, BYTES));
    TRY(cudaStreamCreate(&own));
    TRY(cublasSetStream(handle, own));
    TRY(cublasSetStream(handle, stream));
    TRY(cublasSetStream(handle, own));
    TRY(cublasSetStream(handle, NULL));
    TRY(cudaStreamDestroy(own));
    MUST(pthread_create(&thread, NULL, destroy_blas, handle) == 0);
    pthread_join(thread, NULL);
}

#define USE(type, create, set_stream, get_stream, destroy)                     \
    do {                                                                       \
        type handle_ = NULL;                                                   \
        cudaStream_t bound_ = NULL;                                            \
                                                                               \
        TRY(create(&handle_));                                                 \
        TRY(get_stream(handle_, &bound_));                                     \
        MUST(bound_ == NULL);                                                  \
        TRY(set_stream(handle_, stream));                                      \
        TRY(get_stream(handle_, &bound_));                                     \
        MUST(bound_ == stream);                                                \
        TRY(destroy(handle_));                                                 \
    } while (0)

static void kinds(void)
{
    cublasLtHandle_t lt = NULL, other = NULL;
    cudaStream_t stream = NULL;
    void *workspace = NULL;

    TRY(cudaStreamCreate(&stream));
    TRY(cudaMalloc(&workspace, BYTES));
    for (int i = 0; i < TIMES; i++) {
        use_blas(stream, workspace);
        TRY(cublasLtCreate(&lt));
        TRY(cublasLtCreate(&other));
        MUST(lt != other);
        TRY(cublasLtDestroy(other));
        TRY(cublasLtDestroy(lt));
        USE(cudnnHandle_t, cudnnCreate, cudnnSetStream, cudnnGetStream,
            cudnnDestroy);
        USE(cusparseHandle_t, cusparseCreate, cusparseSetStream,
            cusparseGetStream, cusparseDestroy);
        USE(cusolverDnHandle_t, cusolverDnCreate, cusolverDnSetStream,
            cusolverDnGetStream, cusolverDnDestroy);
    }
    TRY(cudaFree(workspace));
    TRY(cudaStreamDestroy(stream));
    printf("blas %llu\n", (unsigned long long)calls_of("cublasCreate_v2"));
    printf("lt %llu\n", (unsigned long long)calls_of("cublasLtCreate"));
    printf("dnn %llu\n", (unsigned long long)calls_of("cudnnCreate"));
    printf("sparse %llu\n", (unsigned long long)calls_of("cusparseCreate"));
    printf("solver %llu\n", (unsigned long long)calls_of("cusolverDnCreate"));
    MUST(misuses() == 0);
}

/* ---- order ----------------------------------------------------------------
 */

static pthread_t close_gate(cudaStream_t stream)
{
    pthread_t opener;

    atomic_store(&open_gate, false);
    TRY(cudaLaunchHostFunc(stream, wait_for_gate, NULL));
    MUST(pthread_create(&opener, NULL, open_later, NULL) == 0);
    return opener;
}

/* Sizes whose requests soon search for memory that has become idle. */
static void *alloc(bool pinned)
{
    enum { OF_HOST = 8 << 20, OF_DEVICE = 1 << 16 };
    void *block = NULL;

    TRY(pinned ? cudaHostAlloc(&block, OF_HOST, 0)
               : cudaMalloc(&block, OF_DEVICE));
    return block;
}

static void release(void *block, bool pinned)
{
    TRY(pinned ? cudaFreeHost(block) : cudaFree(block));
}

/* Frees what a stream still uses; nobody gets it before, though CUDA has no
 * name for the stream any more if it is destroyed. */
static void free_early(cudaStream_t stream, bool destroyed, bool pinned)
{
    void *block = alloc(pinned), *next[TIMES];
    pthread_t opener = close_gate(stream);

    if (destroyed) {
        TRY(cudaStreamDestroy(stream));
    }
    release(block, pinned);
    for (int i = 0; i < TIMES; i++) {
        next[i] = alloc(pinned);
        MUST(atomic_load(&open_gate) || next[i] != block);
        usleep(1000); /* to be noticed as idle */
    }
    pthread_join(opener, NULL);
    TRY(cudaDeviceSynchronize());
    for (int i = 0; i < TIMES; i++) {
        release(next[i], pinned);
    }
}

static void order(void)
{
    cudaStream_t stream = NULL;

    begin();
    for (int pinned = 0; pinned < 2; pinned++) {
        free_early(NULL, false, pinned != 0);
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        free_early(stream, true, pinned != 0);
        TRY(cudaDeviceSynchronize());
        TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
        free_early(stream, false, pinned != 0);
        TRY(cudaStreamDestroy(stream));
    }
    MUST(misuses() == 0);
    MUST(cudaGetLastError() == cudaSuccess); /* nor has warmpool left one */
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"kinds", kinds}, {"order", order}};
    const char *name = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    printf("no case %s\n", name);
    return 2;
}
