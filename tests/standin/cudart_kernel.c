/* cudart_kernel.c: the stand-in libcudart: kernels, which are counted and not
 * run, since there is nothing to run them. The first launch says so. */
#include "cudart.h"

#include <stdio.h>
#include <string.h>

/* ---- What nvcc's code calls at the start ---- */

void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int limit, uint3 *tid, uint3 *bid,
                            dim3 *block, dim3 *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int extent, size_t bytes, int constant,
                       int global);
char __cudaInitModule(void **handle);

void **__cudaRegisterFatBinary(void *binary)
{
    static void *handle;

    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
}

void __cudaUnregisterFatBinary(void **handle)
{
}

void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int limit, uint3 *tid, uint3 *bid,
                            dim3 *block, dim3 *grid, int *warp)
{
}

void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int extent, size_t bytes, int constant,
                       int global)
{
}

char __cudaInitModule(void **handle)
{
    return 1;
}

/* ---- Launches ---- */

/* Between <<< >>> and the launch: of the calling thread. */
static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configured;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                     cudaStream_t stream)
{
    configured.grid = grid;
    configured.block = block;
    configured.shared = shared;
    configured.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
                                       void *stream)
{
    *grid = configured.grid;
    *block = configured.block;
    *shared = configured.shared;
    memcpy(stream, &configured.stream, sizeof configured.stream);
    return cudaSuccess;
}

static int launch(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&said)) {
        fprintf(stderr, "stand-in: kernels are counted, and not run: what they "
                        "compute is missing\n");
    }
    return cudaSuccess;
}

#define LAUNCH                                                                 \
    (const void *kernel, dim3 grid, dim3 block, void **arguments,              \
     size_t shared, cudaStream_t stream)

FUNCTION(cudaLaunchKernel, LAUNCH, launch())
FUNCTION(cudaLaunchCooperativeKernel, LAUNCH, launch())
FUNCTION(cudaLaunchKernelExC,
         (const cudaLaunchConfig_t *config, const void *kernel,
          void **arguments),
         launch())
PER_THREAD(cudaLaunchKernel_ptsz, LAUNCH, launch())
/* What nvcc 13 makes of <<< >>>. */
PER_THREAD(__cudaGetKernel, (void **kernel, const void *host),
           (memcpy(kernel, &host, sizeof host), cudaSuccess))
PER_THREAD(__cudaLaunchKernel,
           (void *kernel, dim3 grid, dim3 block, void **arguments,
            size_t shared, cudaStream_t stream),
           launch())
PER_THREAD(__cudaLaunchKernel_ptsz,
           (void *kernel, dim3 grid, dim3 block, void **arguments,
            size_t shared, cudaStream_t stream),
           launch())

/* ---- Kernels ---- */

static int describe(struct cudaFuncAttributes *a)
{
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 32;
    a->maxDynamicSharedSizeBytes = 48 << 10;
    a->ptxVersion = a->binaryVersion = standin_compute_major() * 10;
    return cudaSuccess;
}

FUNCTION(cudaFuncGetAttributes,
         (struct cudaFuncAttributes * a, const void *kernel), describe(a))
FUNCTION(cudaFuncSetAttribute,
         (const void *kernel, enum cudaFuncAttribute attribute, int value),
         cudaSuccess)
FUNCTION(cudaFuncSetCacheConfig,
         (const void *kernel, enum cudaFuncCache config), cudaSuccess)

static int blocks_of(int *blocks, int threads)
{
    enum { THREADS = 2048 };

    *blocks = threads > 0 ? THREADS / threads : 0;
    return cudaSuccess;
}

FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
         (int *blocks, const void *kernel, int threads, size_t shared),
         blocks_of(blocks, threads))
FUNCTION(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
         (int *blocks, const void *kernel, int threads, size_t shared,
          unsigned flags),
         blocks_of(blocks, threads))
