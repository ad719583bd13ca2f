/* plain_program.c: what ordinary programs call of CUDA, for the stand-ins, over
 * which it runs though it is linked with NVIDIA's libraries.
 *
 *   plain_program: an error, or a wrong result, ends it with status 1. */
#include "program.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string.h>

enum { BYTES = 1 << 16, WIDTH = 100, PITCH = 128, ROWS = 8 };

static void devices(void)
{
    struct cudaDeviceProp p;
    int count = 0, device = -1, value = 0, runtime = 0, driver = 0;
    char bus_id[32];
    size_t available = 0, total = 0;

    TRY(cudaGetDeviceCount(&count));
    TRY(cudaSetDevice(count - 1));
    TRY(cudaGetDevice(&device));
    TRY(cudaGetDeviceProperties(&p, device));
    TRY(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    MUST(value > 0 && value == p.multiProcessorCount && p.warpSize == 32);
    MUST(p.major > 0 && p.maxThreadsPerBlock > 0 && p.name[0] != '\0');
    TRY(cudaMemGetInfo(&available, &total));
    MUST(total == p.totalGlobalMem && available <= total);
    TRY(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device));
    TRY(cudaDeviceGetByPCIBusId(&value, bus_id));
    MUST(value == device);
    TRY(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    TRY(cudaDeviceGetLimit(&available, cudaLimitStackSize));
    MUST(available == 4096);
    TRY(cudaRuntimeGetVersion(&runtime));
    TRY(cudaDriverGetVersion(&driver));
    MUST(driver >= runtime / 1000 * 1000);
    TRY(cudaSetDevice(0));
}

static void copies(cudaStream_t stream)
{
    unsigned char *host = NULL, back[BYTES];
    char *device = NULL, *other = NULL;
    size_t pitch = 0;

    TRY(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocDefault));
    TRY(cudaMalloc((void **)&device, BYTES));
    memset(host, 5, BYTES);
    TRY(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice));
    TRY(cudaMemset(device, 7, BYTES / 2));
    TRY(cudaMemcpy(back, device, BYTES, cudaMemcpyDefault));
    MUST(back[0] == 7 && back[BYTES - 1] == 5);
    TRY(cudaMallocPitch((void **)&other, &pitch, WIDTH, ROWS));
    TRY(cudaMemset2D(other, pitch, 9, WIDTH, ROWS));
    TRY(cudaMemcpy2D(device, PITCH, other, pitch, WIDTH, ROWS,
                     cudaMemcpyDeviceToDevice));
    TRY(cudaMemcpy2DAsync(host, PITCH, device, PITCH, WIDTH, ROWS,
                          cudaMemcpyDeviceToHost, stream));
    TRY(cudaMemsetAsync(device, 1, 1, stream));
    TRY(cudaMemcpyPeerAsync(other, 0, device, 0, 1, stream));
    TRY(cudaMemcpyAsync(back, other, 1, cudaMemcpyDeviceToHost, stream));
    TRY(cudaStreamSynchronize(stream));
    MUST(host[WIDTH - 1] == 9 && host[WIDTH] == 5 && back[0] == 1);
    TRY(cudaFree(other));
    TRY(cudaFree(device));
    TRY(cudaFreeHost(host));
}

static void pointers(void)
{
    struct cudaPointerAttributes a;
    void *host = NULL, *device = NULL, *managed = NULL;
    unsigned flags = 0;

    TRY(cudaMallocHost(&host, BYTES));
    TRY(cudaMalloc(&device, BYTES));
    TRY(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
    TRY(cudaPointerGetAttributes(&a, host));
    MUST(a.type == cudaMemoryTypeHost && a.hostPointer == host);
    TRY(cudaHostGetFlags(&flags, host));
    TRY(cudaPointerGetAttributes(&a, (char *)device + 8));
    MUST(a.type == cudaMemoryTypeDevice && a.device == 0);
    TRY(cudaPointerGetAttributes(&a, managed));
    MUST(a.type == cudaMemoryTypeManaged);
    TRY(cudaPointerGetAttributes(&a, &a));
    MUST(a.type == cudaMemoryTypeUnregistered);
    TRY(cudaFree(managed));
    TRY(cudaFree(device));
    TRY(cudaFreeHost(host));
}

static void count_call(void *counter)
{
    ++*(int *)counter;
}

static void count_callback(cudaStream_t stream, cudaError_t status, void *data)
{
    MUST(stream != NULL);
    if (status == cudaSuccess) {
        count_call(data);
    }
}

static void streams(void)
{
    cudaStream_t stream = NULL;
    cudaEvent_t from = NULL, to = NULL;
    int least = 0, greatest = 0, priority = 1, called = 0;
    unsigned flags = 0;
    float ms = -1;

    TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    TRY(cudaStreamGetPriority(stream, &priority));
    TRY(cudaStreamGetFlags(stream, &flags));
    MUST(priority == greatest && flags == cudaStreamNonBlocking);
    TRY(cudaEventCreate(&from));
    TRY(cudaEventCreateWithFlags(&to, cudaEventDefault));
    MUST(cudaEventElapsedTime(&ms, from, to) != cudaSuccess);
    (void)cudaGetLastError();
    TRY(cudaEventRecord(from, stream));
    TRY(cudaLaunchHostFunc(stream, count_call, &called));
    TRY(cudaStreamAddCallback(stream, count_callback, &called, 0));
    TRY(cudaEventRecordWithFlags(to, stream, cudaEventRecordDefault));
    TRY(cudaStreamWaitEvent(NULL, to, 0));
    TRY(cudaEventSynchronize(to));
    TRY(cudaEventElapsedTime(&ms, from, to));
    MUST(called == 2 && ms >= 0);
    copies(stream);
    TRY(cudaEventDestroy(from));
    TRY(cudaEventDestroy(to));
    TRY(cudaStreamDestroy(stream));
}

static void graphs(void)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    int called = 0;

    TRY(cudaStreamCreate(&stream));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    TRY(cudaLaunchHostFunc(stream, count_call, &called));
    TRY(cudaStreamIsCapturing(stream, &status));
    MUST(status == cudaStreamCaptureStatusActive);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphInstantiate(&exec, graph, 0));
    TRY(cudaGraphLaunch(exec, stream));
    TRY(cudaGraphLaunch(exec, stream));
    TRY(cudaStreamSynchronize(stream));
    MUST(called == 2);
    TRY(cudaGraphExecDestroy(exec));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaStreamDestroy(stream));
}

static void pools(void)
{
    cudaMemPool_t pool = NULL, own = NULL;
    struct cudaMemPoolProps props = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    uint64_t threshold = UINT64_MAX, kept = 0;
    void *block = NULL;

    TRY(cudaDeviceGetDefaultMemPool(&pool, 0));
    TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold,
                                &threshold));
    TRY(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
    MUST(kept == threshold);
    TRY(cudaMemPoolCreate(&own, &props));
    TRY(cudaMallocFromPoolAsync(&block, BYTES, own, NULL));
    TRY(cudaFreeAsync(block, NULL));
    TRY(cudaMallocAsync(&block, BYTES, NULL));
    TRY(cudaFreeAsync(block, NULL));
    TRY(cudaMemPoolTrimTo(pool, 0));
    TRY(cudaMemPoolDestroy(own));
}

static void blas(void)
{
    const float two = 2, ones[4] = {1, 1, 1, 1};
    cublasHandle_t handle = NULL;
    float *device = NULL, back[4];

    for (int i = 0; i < 3; i++) {
        TRY(cublasCreate(&handle));
        TRY(cudaMalloc((void **)&device, sizeof ones));
        TRY(cudaMemcpy(device, ones, sizeof ones, cudaMemcpyHostToDevice));
        TRY(cublasSscal(handle, 4, &two, device, 1));
        TRY(cudaMemcpy(back, device, sizeof ones, cudaMemcpyDeviceToHost));
        MUST(back[3] > 1.5F);
        TRY(cudaFree(device));
        TRY(cublasDestroy(handle));
    }
}

/* Functions that the stand-ins do not have answer so. */
static void rest(void)
{
    cudaTextureObject_t texture = 0;

    MUST(cudaDestroyTextureObject(texture) == cudaErrorNotSupported);
    MUST(cudaGetLastError() == cudaErrorNotSupported);
}

int main(void)
{
    devices();
    streams();
    pointers();
    graphs();
    pools();
    blas();
    TRY(cudaDeviceSynchronize());
    MUST(cudaGetLastError() == cudaSuccess);
    rest();
    MUST(misuses() == 0);
    printf("all as expected\n");
    return 0;
}
