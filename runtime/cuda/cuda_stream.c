/* cuda_stream.c: streams, events, copies and captures of the CUDA driver.
 *
 * Translation only. Streams and events work whatever device is current; a
 * context is entered all the same, because libcuda refuses calls of a thread
 * that has none. */
#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA
#include "runtime/base/status.h"
#include "runtime/base/thread_data.h"

/* ---- homes: the device of every object that the driver made --------------
 *
 * After a reset CUDA must not be called with an object of that device, not even
 * to query its device; hence this table. Objects that are not in it were made
 * by the program, or there was no memory for an entry. One lock, taken when an
 * object is made or destroyed and, once a device is lost, by calls that name an
 * object. */

/* The map's values are 1 + the device. */
static int home_of(const void *value)
{
    return value != NULL ? (int)(uintptr_t)value - 1 : WM_DEVICE_UNKNOWN;
}

void wm_cuda_homes_init(wm_cuda_homes *homes)
{
    wm_lock_init(&homes->lock, WM_RANK_DRIVER);
}

void wm_cuda_homes_fini(wm_cuda_homes *homes)
{
    wm_map_fini(&homes->devices);
}

/* Records the device of a new object; its address may be that of an object that
 * a reset destroyed. */
static void note_made(wm_cuda *c, const void *object, int device)
{
    wm_map *devices = &c->homes.devices;
    void *value = (void *)(uintptr_t)(unsigned)(device + 1);
    wm_map_entry *known;

    wm_lock_acquire(&c->homes.lock);
    known = wm_map_find(devices, (uintptr_t)object);
    if (known != NULL) {
        known->value = value;
    } else if (wm_map_reserve(devices, devices->count + 1)) {
        wm_map_put(devices, (uintptr_t)object, value);
    }
    wm_lock_release(&c->homes.lock);
}

/* Forgets an object that is about to be destroyed; returns its device. */
static int note_gone(wm_cuda *c, const void *object)
{
    void *value;

    wm_lock_acquire(&c->homes.lock);
    value = wm_map_take(&c->homes.devices, (uintptr_t)object);
    wm_map_shrink(&c->homes.devices);
    wm_lock_release(&c->homes.lock);
    return home_of(value);
}

int wm_cuda_home(wm_driver *d, const void *object)
{
    wm_cuda *c = wm_cuda_of(d);
    void *value;

    wm_lock_acquire(&c->homes.lock);
    value = wm_map_get(&c->homes.devices, (uintptr_t)object);
    wm_lock_release(&c->homes.lock);
    return home_of(value);
}

/* ---- calls --------------------------------------------------------------- */

warm_status wm_cuda_stream_create(wm_driver *d, int device, warm_stream *stream)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    CUstream made = NULL;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK &&
        (status = WM_CUDA_CALL(c, &scope, cuStreamCreate, &made,
                               CU_STREAM_NON_BLOCKING)) == WARM_OK) {
        note_made(c, made, device);
        *stream = made;
    }
    return status;
}

/* Whether a stream captures: the one query that is legal at any time. For the
 * legacy stream CUDA may answer with an error, which invalidates no capture. A
 * context is entered. */
static warm_status capture_of(wm_cuda *c, warm_stream stream,
                              wm_capture *capture)
{
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = c->cu.cuStreamIsCapturing(stream, &now);
    warm_status status;

    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
        *capture = WM_CAPTURE_BLOCKED;
        return WARM_OK;
    }
    status = wm_cuda_result(c, code, "cuStreamIsCapturing");
    if (status == WARM_OK) {
        /* An invalidated capture lasts until it is ended. */
        *capture = now == CU_STREAM_CAPTURE_STATUS_NONE ? WM_CAPTURE_NONE
                                                        : WM_CAPTURE_ACTIVE;
    }
    return status;
}

/* While a stream captures CUDA must not be queried for its context: for a
 * stream that the program made, capture_begin() notes the context under this
 * key, which is no object's address. The program may end the capture past us:
 * so a thread that uses the stream and finds that it does not capture forgets
 * the note. A thread that only polls does not: another one may have begun a
 * capture since. */
static uintptr_t capture_key(warm_stream stream)
{
    return (uintptr_t)stream + 1;
}

static CUcontext take_capture(wm_cuda *c, warm_stream stream)
{
    CUcontext context;

    if (atomic_load_explicit(&c->homes.captures, memory_order_relaxed) == 0) {
        return NULL;
    }
    wm_lock_acquire(&c->homes.lock);
    context = wm_map_take(&c->homes.devices, capture_key(stream));
    if (context != NULL) {
        atomic_fetch_sub_explicit(&c->homes.captures, 1, memory_order_relaxed);
    }
    wm_lock_release(&c->homes.lock);
    return context;
}

static void note_capture(wm_cuda *c, warm_stream stream, CUcontext context)
{
    wm_map *devices = &c->homes.devices;

    (void)take_capture(c, stream);
    if (context == NULL) {
        return;
    }
    wm_lock_acquire(&c->homes.lock);
    if (wm_map_reserve(devices, devices->count + 1)) {
        wm_map_put(devices, capture_key(stream), context);
        atomic_fetch_add_explicit(&c->homes.captures, 1, memory_order_relaxed);
    }
    wm_lock_release(&c->homes.lock);
}

/* The context of a stream that the program made; null: the stream captures, and
 * that capture began elsewhere. A context is entered. */
static warm_status context_of(wm_cuda *c, warm_stream stream,
                              CUcontext *context)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = capture_of(c, stream, &capture);

    if (status == WARM_OK && capture == WM_CAPTURE_NONE) {
        (void)take_capture(c, stream);
        return WM_CUDA_RESULT(c, cuStreamGetCtx, stream, context);
    }
    wm_lock_acquire(&c->homes.lock);
    *context = wm_map_get(&c->homes.devices, capture_key(stream));
    wm_lock_release(&c->homes.lock);
    return status;
}

/* Enters the context of the stream. CUDA allows most calls that name a stream
 * whichever context is current; of those that use this function it is not
 * documented. *own: that of a stream that the program made; may be null. */
static warm_status enter_own(wm_cuda *c, warm_stream stream,
                             wm_cuda_scope *scope, CUcontext *own)
{
    int device = wm_stream_is_default(stream) ? WM_DEVICE_UNKNOWN
                                              : wm_cuda_home(&c->base, stream);
    CUcontext current = NULL;
    warm_status status;

    *own = NULL;
    if (device != WM_DEVICE_UNKNOWN) {
        return wm_cuda_device_push(&c->base, device, scope);
    }
    status = wm_cuda_enter_stream(c, stream, scope);
    if (status != WARM_OK || wm_stream_is_default(stream)) {
        return status;
    }
    status = context_of(c, stream, own);
    if (status == WARM_OK) {
        status = WM_CUDA_RESULT(c, cuCtxGetCurrent, &current);
    }
    if (status != WARM_OK || *own == NULL || *own == current) {
        return status == WARM_OK ? status : wm_cuda_leave(c, scope, status);
    }
    wm_cuda_device_pop(&c->base, scope);
    status = WM_CUDA_RESULT(c, cuCtxPushCurrent_v2, *own);
    scope->pushed = status == WARM_OK;
    return status;
}

#define ON_STREAM   wm_cuda_enter_stream(c, stream, &scope)
#define ON_OWN      enter_own(c, stream, &scope, &(CUcontext){NULL})
#define ON_ANYTHING wm_cuda_enter(c, &scope)

/* Destroys an object. Its home and capture are forgotten before the call,
 * because after the call another thread may get an object at the same address;
 * if the call fails they are recorded again. */
#define END_OP(op, parameters, object, call, enters)                           \
    warm_status wm_cuda_##op parameters                                        \
    {                                                                          \
        wm_cuda *c = wm_cuda_of(d);                                            \
        wm_cuda_scope scope;                                                   \
        warm_status status = (enters);                                         \
        CUcontext captures;                                                    \
        int device;                                                            \
                                                                               \
        if (status == WARM_OK) {                                               \
            device = note_gone(c, object);                                     \
            captures = take_capture(c, (warm_stream)object);                   \
            status = WM_CUDA_CALL(c, &scope, call, object);                    \
            if (status != WARM_OK && device != WM_DEVICE_UNKNOWN) {            \
                note_made(c, object, device);                                  \
            }                                                                  \
            if (status != WARM_OK) {                                           \
                note_capture(c, (warm_stream)object, captures);                \
            }                                                                  \
        }                                                                      \
        return status;                                                         \
    }

END_OP(stream_destroy, (wm_driver * d, warm_stream stream), stream,
       cuStreamDestroy_v2, ON_STREAM)
END_OP(event_destroy, (wm_driver * d, warm_event event), event,
       cuEventDestroy_v2, ON_ANYTHING)
WM_CUDA_DEFINE(stream_query, (wm_driver * d, warm_stream stream), ON_STREAM,
               cuStreamQuery, stream)
WM_CUDA_DEFINE(stream_synchronize, (wm_driver * d, warm_stream stream),
               ON_STREAM, cuStreamSynchronize, stream)
WM_CUDA_DEFINE(stream_wait_event,
               (wm_driver * d, warm_stream stream, warm_event event), ON_STREAM,
               cuStreamWaitEvent, stream, event, 0)
WM_CUDA_DEFINE(event_record,
               (wm_driver * d, warm_event event, warm_stream stream), ON_STREAM,
               cuEventRecord, event, stream)
WM_CUDA_DEFINE(host_func,
               (wm_driver * d, warm_stream stream, warm_host_fn function,
                void *argument),
               ON_OWN, cuLaunchHostFunc, stream, function, argument)
WM_CUDA_DEFINE(graph_launch,
               (wm_driver * d, warm_graph graph, warm_stream stream), ON_OWN,
               cuGraphLaunch, graph, stream)
WM_CUDA_DEFINE(event_query, (wm_driver * d, warm_event event), ON_ANYTHING,
               cuEventQuery, event)
WM_CUDA_DEFINE(event_synchronize, (wm_driver * d, warm_event event),
               ON_ANYTHING, cuEventSynchronize, event)

warm_status wm_cuda_copy(wm_driver *d, void *destination, const void *source,
                         size_t bytes, warm_copy_direction direction,
                         warm_stream stream)
{
    wm_cuda *c = wm_cuda_of(d);
    CUdeviceptr to = (uintptr_t)destination, from = (uintptr_t)source;
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter_stream(c, stream, &scope);

    if (status != WARM_OK) {
        return status;
    }
    if (direction == WARM_COPY_TO_DEVICE) {
        return WM_CUDA_CALL(c, &scope, cuMemcpyHtoDAsync_v2, to, source, bytes,
                            stream);
    }
    if (direction == WARM_COPY_TO_HOST) {
        return WM_CUDA_CALL(c, &scope, cuMemcpyDtoHAsync_v2, destination, from,
                            bytes, stream);
    }
    return WM_CUDA_CALL(c, &scope, cuMemcpyAsync, to, from, bytes, stream);
}

warm_status wm_cuda_copy_2d(wm_driver *d, const wm_copy_2d *copy,
                            warm_stream stream)
{
    wm_cuda *c = wm_cuda_of(d);
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = (uintptr_t)copy->source,
                                .srcPitch = copy->source_pitch,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = (uintptr_t)copy->destination,
                                .dstPitch = copy->destination_pitch,
                                .WidthInBytes = copy->width,
                                .Height = copy->height};
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter_stream(c, stream, &scope);

    return status != WARM_OK
               ? status
               : WM_CUDA_CALL(c, &scope, cuMemcpy2DAsync_v2, &rows, stream);
}

warm_status wm_cuda_event_create(wm_driver *d, int device, warm_event *event)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    CUevent made = NULL;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK &&
        (status = WM_CUDA_CALL(c, &scope, cuEventCreate, &made,
                               CU_EVENT_DISABLE_TIMING)) == WARM_OK) {
        note_made(c, made, device);
        *event = made;
    }
    return status;
}

/* The device of a stream, from the stream's context: cudart has a call for it
 * only since 12.8. */
static warm_status device_of(wm_cuda *c, warm_stream stream, int *device)
{
    CUcontext context = NULL, popped;
    CUdevice found = 0;
    warm_status status = WM_CUDA_RESULT(c, cuStreamGetCtx, stream, &context);

    if (status != WARM_OK ||
        (status = WM_CUDA_RESULT(c, cuCtxPushCurrent_v2, context)) != WARM_OK) {
        return status;
    }
    status = wm_cuda_is_foreign(c, context)
                 ? wm_cuda_foreign(c, context, "the stream's")
                 : WM_CUDA_RESULT(c, cuCtxGetDevice, &found);
    (void)c->cu.cuCtxPopCurrent_v2(&popped);
    if (status == WARM_OK) {
        *device = found;
    }
    return status;
}

/* Marks the legacy stream's id, made here because libcuda must not be queried
 * for one. libcuda's ids count up from 1, and no address has the highest bits
 * set. */
static const uint64_t legacy_id = UINT64_C(3) << 62;

/* Describes the legacy stream of the current context without a call that names
 * the stream: while another stream captures, such a call fails and invalidates
 * that capture. */
static warm_status legacy_info(wm_cuda *c, wm_stream_info *info)
{
    CUcontext context = NULL;
    CUdevice device = 0;
    warm_status status = WM_CUDA_RESULT(c, cuCtxGetCurrent, &context);

    if (status == WARM_OK &&
        (status = WM_CUDA_RESULT(c, cuCtxGetDevice, &device)) == WARM_OK) {
        *info = (wm_stream_info){.id = legacy_id | (uintptr_t)context,
                                 .device = device};
        status = capture_of(c, NULL, &info->capture);
    }
    return status;
}

static warm_status created_info(wm_cuda *c, warm_stream stream,
                                wm_stream_info *info)
{
    unsigned long long id = 0;
    int device = 0;
    warm_status status = WM_CUDA_RESULT(c, cuStreamGetId, stream, &id);

    if (status == WARM_OK &&
        (status = device_of(c, stream, &device)) == WARM_OK &&
        /* made after a reset of the device? */
        (status = wm_driver_check_lost(&c->base, device)) == WARM_OK) {
        *info = (wm_stream_info){.id = id, .device = device};
    }
    return status;
}

/* While a stream captures, a query of its id or context fails and invalidates
 * the capture: so whether it captures is queried first. */
warm_status wm_cuda_stream_info(wm_driver *d, warm_stream stream,
                                wm_stream_info *info)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = wm_cuda_enter_stream(c, stream, &scope);

    if (status != WARM_OK) {
        return status;
    }
    if (stream == NULL || stream == WARM_STREAM_LEGACY) {
        return wm_cuda_leave(c, &scope, legacy_info(c, info));
    }
    status = capture_of(c, stream, &capture);
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        *info = (wm_stream_info){.id = wm_stream_capture_id(stream),
                                 .device = WM_DEVICE_UNKNOWN,
                                 .capture = capture};
    } else if (status == WARM_OK) {
        status = created_info(c, stream, info);
    }
    return wm_cuda_leave(c, &scope, status);
}

warm_status wm_cuda_stream_capture(wm_driver *d, warm_stream stream,
                                   wm_capture *capture)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter_stream(c, stream, &scope);

    return status == WARM_OK
               ? wm_cuda_leave(c, &scope, capture_of(c, stream, capture))
               : status;
}

/* ---- queries that are legal during captures ----------------------------- */

warm_status wm_cuda_event_mark(wm_driver *d, warm_event event,
                               warm_stream stream, wm_capture *capture)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    wm_capture now = WM_CAPTURE_NONE;
    warm_status status = wm_cuda_enter_known(c, stream, &scope);

    if (status != WARM_OK) {
        return status;
    }
    status = capture_of(c, stream, &now);
    if (status == WARM_OK && now == WM_CAPTURE_NONE) {
        status = WM_CUDA_RESULT(c, cuEventRecord, event, stream);
    }
    if (status == WARM_OK) {
        *capture = now;
    }
    return wm_cuda_leave(c, &scope, status);
}

/* ---- relaxed capture mode ------------------------------------------------ */

static warm_status swap_mode(wm_cuda *c, CUstreamCaptureMode *mode)
{
    return WM_CUDA_RESULT(c, cuThreadExchangeStreamCaptureMode, mode);
}

/* The mode is a thread-local value in libcuda. In another one the calls in
 * between would be refused beside a capture of this thread or a global one, and
 * would invalidate it. */
static warm_status relax(wm_cuda *c, CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return swap_mode(c, mode);
}

static warm_status restore(wm_cuda *c, CUstreamCaptureMode mode,
                           warm_status status)
{
    warm_status swapped = swap_mode(c, &mode);

    return swapped != WARM_OK ? swapped : status;
}

/* The same after a call that cannot be taken back. */
static void must_restore(wm_cuda *c, CUstreamCaptureMode mode)
{
    if (c->cu.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) {
        wm_driver_warn(&c->base, "cuThreadExchangeStreamCaptureMode failed: "
                                 "the thread stays in relaxed capture mode");
    }
}

/* The event or, if it is null, the stream. */
static warm_status query_relaxed(wm_cuda *c, warm_event event,
                                 warm_stream stream)
{
    CUstreamCaptureMode mode;
    warm_status status = relax(c, &mode);

    if (status != WARM_OK) {
        return status;
    }
    return restore(c, mode,
                   event != NULL ? WM_CUDA_RESULT(c, cuEventQuery, event)
                                 : WM_CUDA_RESULT(c, cuStreamQuery, stream));
}

warm_status wm_cuda_event_passed(wm_driver *d, warm_event event)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter(c, &scope);

    return status == WARM_OK
               ? wm_cuda_leave(c, &scope, query_relaxed(c, event, NULL))
               : status;
}

warm_status wm_cuda_stream_passed(wm_driver *d, warm_stream stream,
                                  wm_capture *capture)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter_known(c, stream, &scope);

    if (status != WARM_OK) {
        return status;
    }
    status = capture_of(c, stream, capture);
    if (status == WARM_OK && *capture == WM_CAPTURE_NONE) {
        status = query_relaxed(c, NULL, stream);
    }
    return wm_cuda_leave(c, &scope, status);
}

static warm_status instantiate(wm_cuda *c, CUgraph graph, warm_graph *exec)
{
    CUgraphExec made = NULL;
    CUstreamCaptureMode mode;
    warm_status status = relax(c, &mode);

    if (status == WARM_OK) {
        status =
            WM_CUDA_RESULT(c, cuGraphInstantiateWithFlags, &made, graph, 0);
        must_restore(c, mode);
    }
    if (c->cu.cuGraphDestroy(graph) != CUDA_SUCCESS) {
        wm_driver_warn(&c->base, "cuGraphDestroy failed: a graph leaks");
    }
    if (status == WARM_OK) {
        *exec = made;
    }
    return status;
}

warm_status wm_cuda_capture_begin(wm_driver *d, warm_stream stream)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    CUcontext own = NULL;
    warm_status status = enter_own(c, stream, &scope, &own);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuStreamBeginCapture_v2, stream,
                              CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    }
    if (status == WARM_OK) {
        note_capture(c, stream, own);
    }
    return status;
}

/* The device of the current context, for a graph of a stream that the program
 * made. */
static int current_home(wm_cuda *c)
{
    CUdevice device = 0;

    return c->cu.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device
                                                         : WM_DEVICE_UNKNOWN;
}

warm_status wm_cuda_capture_end(wm_driver *d, warm_stream stream,
                                warm_graph *graph)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    CUgraph captured = NULL;
    CUcontext own = NULL;
    warm_status status = enter_own(c, stream, &scope, &own);

    if (status != WARM_OK) {
        return status;
    }
    note_capture(c, stream, NULL);
    status = WM_CUDA_RESULT(c, cuStreamEndCapture, stream, &captured);
    if (status == WARM_OK && captured == NULL) {
        status = wm_fail(WARM_CAPTURE_ERROR,
                         "cuStreamEndCapture: the capture was invalidated");
    }
    if (status == WARM_OK) {
        status = instantiate(c, captured, graph);
    }
    if (status == WARM_OK) {
        note_made(c, *graph,
                  own != NULL ? current_home(c) : wm_cuda_home(d, stream));
    }
    return wm_cuda_leave(c, &scope, status);
}

static warm_status destroy_relaxed(wm_cuda *c, warm_graph graph)
{
    CUstreamCaptureMode mode;
    warm_status status = relax(c, &mode);

    if (status == WARM_OK) {
        status = WM_CUDA_RESULT(c, cuGraphExecDestroy, graph);
        must_restore(c, mode);
    }
    return status;
}

warm_status wm_cuda_graph_destroy(wm_driver *d, warm_graph graph)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter(c, &scope);
    int device;

    if (status != WARM_OK) {
        return status;
    }
    device = note_gone(c, graph);
    status = wm_cuda_leave(c, &scope, destroy_relaxed(c, graph));
    if (status != WARM_OK && device != WM_DEVICE_UNKNOWN) {
        note_made(c, graph, device);
    }
    return status;
}

/* Exchanges the thread's capture mode; libcuda needs no context for that. The
 * contract has two modes, CUDA has three: the thread's marks store the mode
 * that the user had chosen (0: global), which is restored later. */
warm_status wm_cuda_capture_mode(wm_driver *d, bool *relaxed)
{
    wm_cuda *c = wm_cuda_of(d);
    CUstreamCaptureMode mode =
        *relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED
                 : (CUstreamCaptureMode)wm_thread_marks_now.capture_mode;
    warm_status status = swap_mode(c, &mode);

    if (status != WARM_OK) {
        return status;
    }
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        wm_thread_marks_now.capture_mode = (unsigned char)mode;
    }
    *relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    return WARM_OK;
}
#endif
