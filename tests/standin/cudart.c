/* cudart.c: the stand-in libcudart. Each function makes a context current as
 * the real one does, passes the work on to libcuda, whose codes are its own,
 * and keeps the thread's last error: whatever is no success is one, "not ready"
 * as well. */
#include "cudart.h"

#include <stdio.h>

static _Thread_local cudaError_t last = cudaSuccess;

cudaError_t standin_answer(int code)
{
    if (code != cudaSuccess) {
        last = (cudaError_t)code;
    }
    return (cudaError_t)code;
}

int standin_begin(void)
{
    if (standin_driver() == NULL) {
        return cudaErrorCudartUnloading;
    }
    if (!standin_version_works(standin_version())) {
        return cudaErrorInsufficientDriver;
    }
    standin_need_context();
    return cudaSuccess;
}

int standin_not_there(const char *function)
{
    standin_point point = {.name = function};

    if (standin_calls(function) == 0) {
        fprintf(stderr, "stand-in: %s() is not there\n", function);
    }
    (void)standin_hit(&point);
    return (int)standin_answer(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last;

    if (code != cudaSuccess && (int)code != standin_stuck()) {
        last = cudaSuccess;
    }
    return code;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {4, "cudaErrorCudartUnloading", "driver shutting down"},
    {35, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {205, "cudaErrorMapBufferObjectFailed", "mapping of buffer object failed"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {600, "cudaErrorNotReady", "device not ready"},
    {704, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {709, "cudaErrorContextIsDestroyed", "context is destroyed"},
    {712, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {906, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking "
     "stream"},
    {999, "cudaErrorUnknown", "unknown error"},
};

enum { ERRORS = sizeof errors / sizeof errors[0] };

const char *cudaGetErrorString(cudaError_t code)
{
    for (int i = 0; i < ERRORS; i++) {
        if (errors[i].code == (int)code) {
            return errors[i].text;
        }
    }
    return "an error of the stand-in";
}

const char *cudaGetErrorName(cudaError_t code)
{
    for (int i = 0; i < ERRORS; i++) {
        if (errors[i].code == (int)code) {
            return errors[i].name;
        }
    }
    return "cudaErrorOfTheStandIn";
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    ENTER_PLAIN(cudaRuntimeGetVersion)
    *version = standin_version();
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    ENTER_PLAIN(cudaDriverGetVersion)
    *version = standin_driver_serves();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    int devices = standin_device_count();

    ENTER_PLAIN(cudaGetDeviceCount)
    if (standin_driver() == NULL) {
        return standin_answer(cudaErrorCudartUnloading);
    }
    if (!standin_version_works(standin_version())) {
        return standin_answer(cudaErrorInsufficientDriver);
    }
    *count = devices;
    return standin_answer(devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
    ENTER_PLAIN(cudaGetDevice)
    *device = standin_current_device();
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    ENTER_PLAIN(cudaDeviceReset)
    return standin_answer(
        (int)cuDevicePrimaryCtxReset_v2(standin_current_device()));
}

FUNCTION(cudaDeviceSynchronize, (void), cuCtxSynchronize())

cudaError_t cudaSetDevice(int device)
{
    ENTER_PLAIN(cudaSetDevice)
    return standin_answer((int)standin_set_device(device));
}

/* ---- Memory ---- */

FUNCTION(cudaMemGetInfo, (size_t * available, size_t *total),
         cuMemGetInfo_v2(available, total))
FUNCTION(cudaHostAlloc, (void **pointer, size_t bytes, unsigned flags),
         cuMemHostAlloc(pointer, bytes, flags))
FUNCTION(cudaMallocHost, (void **pointer, size_t bytes),
         cuMemHostAlloc(pointer, bytes, 0))
FUNCTION(cudaFreeHost, (void *pointer),
         pointer == NULL ? CUDA_SUCCESS : cuMemFreeHost(pointer))
FUNCTION(cudaHostRegister, (void *pointer, size_t bytes, unsigned flags),
         cuMemHostRegister_v2(pointer, bytes, flags))
FUNCTION(cudaHostGetDevicePointer,
         (void **address, void *pointer, unsigned flags),
         cuMemHostGetDevicePointer_v2((CUdeviceptr *)(void *)address, pointer,
                                      flags))
FUNCTION(cudaMallocManaged, (void **pointer, size_t bytes, unsigned flags),
         cuMemAllocManaged((CUdeviceptr *)(void *)pointer, bytes, flags))
FUNCTION(cudaHostUnregister, (void *pointer), cuMemHostUnregister(pointer))
FUNCTION(cudaMalloc, (void **pointer, size_t bytes),
         cuMemAlloc_v2((CUdeviceptr *)(void *)pointer, bytes))
FUNCTION(cudaFree, (void *pointer),
         pointer == NULL ? CUDA_SUCCESS : cuMemFree_v2((uintptr_t)pointer))
FUNCTION(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *pointer),
         cuIpcGetMemHandle((CUipcMemHandle *)(void *)handle,
                           (uintptr_t)pointer))
FUNCTION(cudaIpcOpenMemHandle,
         (void **pointer, cudaIpcMemHandle_t handle, unsigned flags),
         cuIpcOpenMemHandle_v2((CUdeviceptr *)(void *)pointer,
                               *(CUipcMemHandle *)(void *)&handle, flags))
FUNCTION(cudaIpcCloseMemHandle, (void *pointer),
         cuIpcCloseMemHandle((uintptr_t)pointer))

/* ---- Streams and events ---- */

FUNCTION(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id),
         cuStreamGetId(stream, id))
FUNCTION(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
FUNCTION(cudaStreamSynchronize, (cudaStream_t stream),
         cuStreamSynchronize(stream))
FUNCTION(cudaStreamWaitEvent,
         (cudaStream_t stream, cudaEvent_t event, unsigned flags),
         cuStreamWaitEvent(stream, event, flags))

static CUresult device_of(cudaStream_t stream, int *device)
{
    wm_stream_info info = {0};
    int code =
        standin_stream_info(standin_driver(), standin_stream(stream), &info);

    *device = info.device;
    return (CUresult)code;
}

/* Memory of the stream's order: it is there at once, and gone when the stream
 * has finished. In a capture it is the graph's: the stand-in has none, and says
 * so. */
int standin_alloc_async(void **pointer, size_t bytes, cudaStream_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = cuStreamIsCapturing(stream, &status);

    if (code == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) {
        code = CUDA_ERROR_NOT_SUPPORTED;
    }
    return (int)(code != CUDA_SUCCESS
                     ? code
                     : cuMemAlloc_v2((CUdeviceptr *)(void *)pointer, bytes));
}

static CUresult free_async(void *pointer, cudaStream_t stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = cuStreamIsCapturing(stream, &status);

    if (code == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) {
        return CUDA_ERROR_INVALID_VALUE; /* no memory of that graph */
    }
    code = code != CUDA_SUCCESS ? code : cuStreamSynchronize(stream);
    return code != CUDA_SUCCESS ? code : cuMemFree_v2((uintptr_t)pointer);
}

FUNCTION(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream),
         standin_alloc_async(pointer, bytes, stream))
FUNCTION(cudaFreeAsync, (void *pointer, cudaStream_t stream),
         free_async(pointer, stream))

FUNCTION(cudaStreamGetDevice, (cudaStream_t stream, int *device),
         device_of(stream, device))
FUNCTION(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
         cuEventCreate(event, flags))
FUNCTION(cudaEventCreate, (cudaEvent_t * event),
         cuEventCreate(event, CU_EVENT_DEFAULT))
FUNCTION(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy_v2(event))
FUNCTION(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
         cuEventRecord(event, stream))
FUNCTION(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
FUNCTION(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
FUNCTION(cudaLaunchHostFunc,
         (cudaStream_t stream, cudaHostFn_t function, void *argument),
         cuLaunchHostFunc(stream, function, argument))

/* ---- Captures and graphs; the values are the same in both interfaces ---- */

FUNCTION(cudaStreamBeginCapture,
         (cudaStream_t stream, enum cudaStreamCaptureMode mode),
         cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode))
FUNCTION(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
         cuStreamEndCapture(stream, graph))
/* The capture makes a graph of its own: the caller's gets no nodes. */
FUNCTION(cudaStreamBeginCaptureToGraph,
         (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *nodes,
          const cudaGraphEdgeData *edges, size_t count,
          enum cudaStreamCaptureMode mode),
         cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode))
FUNCTION(cudaStreamIsCapturing,
         (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
         cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)(void *)status))
FUNCTION(cudaGraphInstantiate,
         (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
         cuGraphInstantiateWithFlags(exec, graph, flags))
FUNCTION(cudaGraphInstantiateWithFlags,
         (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
         cuGraphInstantiateWithFlags(exec, graph, flags))
FUNCTION(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
FUNCTION(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy(exec))
FUNCTION(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
         cuGraphLaunch(exec, stream))

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *m)
{
    ENTER_PLAIN(cudaThreadExchangeStreamCaptureMode)
    return standin_answer((int)cuThreadExchangeStreamCaptureMode(
        (CUstreamCaptureMode *)(void *)m));
}

/* ---- What code for per-thread default streams calls ---- */

PER_THREAD(cudaMallocAsync_ptsz,
           (void **pointer, size_t bytes, cudaStream_t stream),
           standin_alloc_async(pointer, bytes, OWN(stream)))
PER_THREAD(cudaFreeAsync_ptsz, (void *pointer, cudaStream_t stream),
           free_async(pointer, OWN(stream)))
PER_THREAD(cudaStreamBeginCapture_ptsz,
           (cudaStream_t stream, enum cudaStreamCaptureMode mode),
           cuStreamBeginCapture_v2(OWN(stream), (CUstreamCaptureMode)mode))
PER_THREAD(cudaStreamBeginCaptureToGraph_ptsz,
           (cudaStream_t stream, cudaGraph_t graph,
            const cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges,
            size_t count, enum cudaStreamCaptureMode mode),
           cuStreamBeginCapture_v2(OWN(stream), (CUstreamCaptureMode)mode))
PER_THREAD(cudaStreamEndCapture_ptsz, (cudaStream_t stream, cudaGraph_t *graph),
           cuStreamEndCapture(OWN(stream), graph))
