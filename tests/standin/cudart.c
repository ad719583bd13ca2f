/* cudart.c: the stand-in libcudart.so.13. Each function needs a context as
 * the real one does, keeps the thread's last error, and passes the work on to
 * the host device, whose codes are cudart's own. */
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local cudaError_t last = cudaSuccess;

static cudaError_t answer(int code)
{
    if (code != cudaSuccess) {
        last = (cudaError_t)code;
    }
    return (cudaError_t)code;
}

/* A function without a context of its own. */
#define ENTER_PLAIN(function)                                                  \
    static standin_point point_ = {.name = #function};                         \
    int fault_ = standin_hit(&point_);                                         \
                                                                               \
    if (fault_ != 0) {                                                         \
        return answer(fault_);                                                 \
    }

/* A function that starts cudart on the thread's device; leaves d. */
#define ENTER(function)                                                        \
    wm_driver *d = standin_driver();                                           \
    ENTER_PLAIN(function)                                                      \
    if (d == NULL) {                                                           \
        return answer(cudaErrorCudartUnloading);                               \
    }                                                                          \
    standin_need_context();

#define CALL(op, ...) answer(standin_code(d->ops->op(d, __VA_ARGS__)))

cudaError_t cudaGetLastError(void)
{
    cudaError_t code = last;

    last = cudaSuccess;
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
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {205, "cudaErrorMapBufferObjectFailed", "mapping of buffer object failed"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {600, "cudaErrorNotReady", "device not ready"},
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
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    ENTER_PLAIN(cudaDriverGetVersion)
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    int devices = standin_device_count();

    ENTER_PLAIN(cudaGetDeviceCount)
    if (devices < 0) {
        return answer(cudaErrorInsufficientDriver);
    }
    *count = devices;
    return answer(devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int *device)
{
    ENTER_PLAIN(cudaGetDevice)
    *device = standin_current_device();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    ENTER_PLAIN(cudaSetDevice)
    return answer((int)standin_set_device(device));
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    ENTER(cudaMemGetInfo)
    return CALL(device_memory, standin_current_device(), available, total);
}

/* ---- Memory ---- */

/* The host device wants the bytes back with the pointer, cudart does not. */
typedef struct pinned {
    struct pinned *next;
    void *pointer;
    size_t bytes;
} pinned;

enum { BUCKETS = 1024 };

static pthread_mutex_t pinned_mutex = PTHREAD_MUTEX_INITIALIZER;
static pinned *pinned_blocks[BUCKETS]; /* pinned_mutex */

static pinned **bucket_of(const void *pointer)
{
    return &pinned_blocks[((uintptr_t)pointer >> 12) % BUCKETS];
}

static void pinned_add(pinned *p)
{
    pinned **bucket = bucket_of(p->pointer);

    pthread_mutex_lock(&pinned_mutex);
    p->next = *bucket;
    *bucket = p;
    pthread_mutex_unlock(&pinned_mutex);
}

/* Out of the table, or null; whoever takes it out is alone with it. */
static pinned *pinned_take(const void *pointer)
{
    pinned **at = bucket_of(pointer);
    pinned *p;

    pthread_mutex_lock(&pinned_mutex);
    while (*at != NULL && (*at)->pointer != pointer) {
        at = &(*at)->next;
    }
    p = *at;
    if (p != NULL) {
        *at = p->next;
    }
    pthread_mutex_unlock(&pinned_mutex);
    return p;
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    pinned *p;
    cudaError_t code;

    ENTER(cudaHostAlloc)
    standin_flagged("cudaHostAlloc", flags);
    code = CALL(pinned_alloc, bytes, pointer);
    if (code == cudaSuccess) {
        p = calloc(1, sizeof *p);
        p->pointer = *pointer;
        p->bytes = bytes;
        pinned_add(p);
    }
    return code;
}

cudaError_t cudaFreeHost(void *pointer)
{
    pinned *p;
    cudaError_t code;

    ENTER(cudaFreeHost)
    if (pointer == NULL) {
        return cudaSuccess;
    }
    p = pinned_take(pointer);
    if (p == NULL) {
        return answer(cudaErrorInvalidValue);
    }
    standin_wait_for_devices(d);
    code = CALL(pinned_free, pointer, p->bytes);
    if (code == cudaSuccess) {
        free(p);
    } else {
        pinned_add(p);
    }
    return code;
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    ENTER(cudaHostRegister)
    standin_flagged("cudaHostRegister", flags);
    return CALL(pinned_register, pointer, bytes);
}

cudaError_t cudaHostUnregister(void *pointer)
{
    ENTER(cudaHostUnregister)
    return CALL(pinned_unregister, pointer);
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    ENTER(cudaMalloc)
    return CALL(device_alloc, standin_current_device(), bytes, pointer);
}

/* A pointer does not say whose it is; a wrong guess changes nothing. */
#define ON_ITS_DEVICE(op, ...)                                                 \
    warm_status status_ = WARM_INVALID_POINTER;                                \
                                                                               \
    for (int i = 0;                                                            \
         i < STANDIN_DEVICES_MAX && status_ == WARM_INVALID_POINTER; i++) {    \
        status_ = d->ops->op(d, i, __VA_ARGS__);                               \
    }                                                                          \
    return answer(standin_code(status_));

cudaError_t cudaFree(void *pointer)
{
    ENTER(cudaFree)
    if (pointer == NULL) {
        return cudaSuccess;
    }
    standin_wait_for_devices(d);
    ON_ITS_DEVICE(device_free, pointer)
}

/* Names of the host device serve as CUDA's handles. */
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer){
    ENTER(cudaIpcGetMemHandle)
        ON_ITS_DEVICE(ipc_export, pointer, (wm_ipc_name *)(void *)handle)}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle,
                                 unsigned flags)
{
    ENTER(cudaIpcOpenMemHandle)
    standin_flagged("cudaIpcOpenMemHandle", flags);
    return CALL(ipc_open, standin_current_device(),
                (const wm_ipc_name *)(void *)&handle, pointer);
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
    ENTER(cudaIpcCloseMemHandle)
    ON_ITS_DEVICE(ipc_close, pointer)
}

struct move {
    void *destination;
    const void *source;
    size_t bytes;
    int value;
};

static void run_copy(void *argument)
{
    const struct move *m = argument;

    memmove(m->destination, m->source, m->bytes);
}

static void run_set(void *argument)
{
    const struct move *m = argument;

    memset(m->destination, m->value, m->bytes);
}

cudaError_t cudaMemcpyAsync(void *destination, const void *source, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct move m = {destination, source, bytes, 0};

    ENTER(cudaMemcpyAsync)
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost) {
        return CALL(copy, destination, source, bytes, (warm_copy_direction)kind,
                    standin_stream(stream));
    }
    return answer(standin_launch(stream, run_copy, &m, sizeof m));
}

cudaError_t cudaMemsetAsync(void *destination, int value, size_t bytes,
                            cudaStream_t stream)
{
    struct move m = {destination, NULL, bytes, value};

    ENTER(cudaMemsetAsync)
    return answer(standin_launch(stream, run_set, &m, sizeof m));
}

/* ---- Streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    ENTER(cudaStreamCreateWithFlags)
    standin_flagged("cudaStreamCreateWithFlags", flags);
    return CALL(stream_create, standin_current_device(),
                (warm_stream *)(void *)stream);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    ENTER(cudaStreamDestroy)
    return CALL(stream_destroy, stream);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    wm_stream_info info = {0};
    cudaError_t code;

    ENTER(cudaStreamGetId)
    code = answer(standin_stream_info(d, standin_stream(stream), &info));
    *id = info.id;
    return code;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
    wm_stream_info info = {0};
    cudaError_t code;

    ENTER(cudaStreamGetDevice)
    code = answer(standin_stream_info(d, standin_stream(stream), &info));
    *device = info.device;
    return code;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    ENTER(cudaStreamQuery)
    return CALL(stream_query, standin_stream(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ENTER(cudaStreamSynchronize)
    return CALL(stream_synchronize, standin_stream(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags)
{
    ENTER(cudaStreamWaitEvent)
    (void)flags;
    return CALL(stream_wait_event, standin_stream(stream), event);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    ENTER(cudaEventCreateWithFlags)
    standin_flagged("cudaEventCreateWithFlags", flags);
    return CALL(event_create, standin_current_device(),
                (warm_event *)(void *)event);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    ENTER(cudaEventDestroy)
    return CALL(event_destroy, event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTER(cudaEventRecord)
    return CALL(event_record, event, standin_stream(stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    ENTER(cudaEventQuery)
    return CALL(event_query, event);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ENTER(cudaEventSynchronize)
    return CALL(event_synchronize, event);
}

/* CUDA may run the host functions of all streams one after another. */
struct call {
    cudaHostFn_t function;
    void *argument;
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void run_call(void *argument)
{
    const struct call *c = argument;

    pthread_mutex_lock(&one_at_a_time);
    c->function(c->argument);
    pthread_mutex_unlock(&one_at_a_time);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void *argument)
{
    struct call c = {function, argument};

    ENTER(cudaLaunchHostFunc)
    (void)d;
    return answer(standin_launch(stream, run_call, &c, sizeof c));
}

/* ---- Captures and graphs ---- */

/* The host device makes an executable graph at once; a graph here keeps it
 * until it is instantiated, which works once. Never freed, and in a list, so
 * that one whose destruction was made to fail is no leak of the stand-in. */
struct CUgraph_st {
    struct CUgraph_st *next;
    warm_graph exec;
};

static _Atomic(struct CUgraph_st *) graphs;

static cudaGraph_t graph_of(warm_graph exec)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);

    graph->exec = exec;
    graph->next = atomic_load(&graphs);
    while (!atomic_compare_exchange_weak(&graphs, &graph->next, graph)) {
    }
    return graph;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode wanted)
{
    ENTER(cudaStreamBeginCapture)
    /* The host device has the thread-local mode only. */
    standin_flagged("cudaStreamBeginCapture", (unsigned)wanted);
    return CALL(capture_begin, standin_stream(stream));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    warm_graph exec = NULL;
    cudaError_t code;

    ENTER(cudaStreamEndCapture)
    code = CALL(capture_end, standin_stream(stream), &exec);
    *graph = NULL;
    if (code == cudaSuccess) {
        *graph = graph_of(exec);
    }
    return code;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status)
{
    wm_capture capture = WM_CAPTURE_NONE;
    cudaError_t code;

    ENTER(cudaStreamIsCapturing)
    code = CALL(stream_capture, standin_stream(stream), &capture);
    if (capture == WM_CAPTURE_BLOCKED) {
        return answer(cudaErrorStreamCaptureImplicit);
    }
    *status = capture == WM_CAPTURE_ACTIVE ? cudaStreamCaptureStatusActive
                                           : cudaStreamCaptureStatusNone;
    return code;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec,
                                          cudaGraph_t graph,
                                          unsigned long long flags)
{
    ENTER(cudaGraphInstantiateWithFlags)
    (void)flags;
    if (graph->exec == NULL) {
        return answer(cudaErrorNotSupported);
    }
    *exec = graph->exec;
    graph->exec = NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    warm_graph exec;

    ENTER(cudaGraphDestroy)
    exec = graph->exec;
    graph->exec = NULL;
    return exec != NULL ? CALL(graph_destroy, exec) : cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    ENTER(cudaGraphExecDestroy)
    return CALL(graph_destroy, exec);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ENTER(cudaGraphLaunch)
    return CALL(graph_launch, exec, standin_stream(stream));
}

/* The values of the modes are the same in both interfaces. */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *m)
{
    CUstreamCaptureMode mode = (CUstreamCaptureMode)*m;
    cudaError_t code;

    ENTER_PLAIN(cudaThreadExchangeStreamCaptureMode)
    code = answer((int)cuThreadExchangeStreamCaptureMode(&mode));
    *m = (enum cudaStreamCaptureMode)mode;
    return code;
}
