/* device.c: the driver's functions for programs (warmpool/device.h).
 *
 * Checks arguments, then calls the driver; driver.c does what is common to all
 * driver calls. Takes no lock. */
#include "runtime/runtime.h"

#include "alloc/kinds/pinned.h"
#include "handles/kind_table.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

static warm_status check(warm_runtime *runtime, const void *given,
                         const char *what)
{
    return wm_check_given(wm_runtime_check(runtime), given, what);
}

/* check(), the range of device and wm_driver_look(): for calls that create
 * something in the thread's context. */
static warm_status check_new(warm_runtime *runtime, int device,
                             const void *given, const char *what)
{
    warm_status status =
        wm_check_given(wm_runtime_check_device(runtime, device), given, what);

    return status == WARM_OK ? wm_driver_look(runtime->driver, device) : status;
}

warm_status warm_device_count(warm_runtime *runtime, int *count)
{
    warm_status status = check(runtime, count, "count");

    if (status == WARM_OK) {
        *count = runtime->devices;
    }
    return status;
}

warm_status warm_device_current(warm_runtime *runtime, int *device)
{
    warm_status status = check(runtime, device, "device");

    return status == WARM_OK ? wm_driver_current_device(runtime->driver, device)
                             : status;
}

warm_status warm_device_get_info(warm_runtime *runtime, int device,
                                 warm_device_info *info)
{
    warm_device_info all = {.size = sizeof all};
    warm_status status = wm_check_out(wm_runtime_check_device(runtime, device),
                                      info, sizeof all, "warm_device_info");

    if (status == WARM_OK && (status = wm_driver_device_info(
                                  runtime->driver, device, &all)) == WARM_OK) {
        wm_sized_out(info, &all, sizeof all);
    }
    return status;
}

/* A stream that cannot be adopted is destroyed. */
static warm_status create_adopted(warm_runtime *runtime, int device,
                                  warm_stream *stream)
{
    warm_stream made = NULL;
    warm_status status =
        wm_driver_stream_create(runtime->driver, device, &made);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_runtime_adopt(runtime, made);
    if (status == WARM_OK) {
        *stream = made;
        return status;
    }
    WM_KEEP_ERROR();
    (void)wm_driver_stream_destroy(runtime->driver, made);
    return status;
}

warm_status warm_stream_create(warm_runtime *runtime, int device,
                               warm_stream *stream)
{
    warm_status status = check_new(runtime, device, stream, "stream");

    return status != WARM_OK ? status : create_adopted(runtime, device, stream);
}

static bool is_pooled(warm_runtime *runtime, warm_stream stream)
{
    bool found = false;

    for (int i = 0; i < runtime->devices && !found; i++) {
        found = wm_kind_table_owns_stream(runtime->kinds, i, stream);
    }
    return found;
}

static warm_status check_destroy(warm_runtime *runtime, warm_stream stream,
                                 wm_stream_info *info)
{
    warm_status status;

    if (wm_stream_is_default(stream)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a default stream cannot be destroyed");
    }
    status = wm_driver_stream_info(runtime->driver, stream, info);
    if (status == WARM_OK && is_pooled(runtime, stream)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "the stream belongs to the pool (warm_stream_reserve)");
    }
    return status;
}

warm_status warm_stream_destroy(warm_runtime *runtime, warm_stream stream)
{
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK || stream == NULL) {
        return status;
    }
    status = check_destroy(runtime, stream, &info);
    if (status == WARM_OK) {
        wm_runtime_retire(runtime, stream, &info);
        status = wm_driver_stream_destroy(runtime->driver, stream);
    }
    return status;
}

/* Defines a call that is a check and a call of the driver. */
#define DEFINE(name, parameters, check, call, ...)                             \
    warm_status name parameters                                                \
    {                                                                          \
        warm_status status = (check);                                          \
                                                                               \
        return status == WARM_OK ? call(runtime->driver, __VA_ARGS__)          \
                                 : status;                                     \
    }

DEFINE(warm_stream_synchronize, (warm_runtime * runtime, warm_stream stream),
       wm_runtime_check(runtime), wm_driver_stream_synchronize, stream)
DEFINE(warm_stream_query, (warm_runtime * runtime, warm_stream stream),
       wm_runtime_check(runtime), wm_driver_stream_query, stream)
DEFINE(warm_stream_host_func,
       (warm_runtime * runtime, warm_stream stream, warm_host_fn function,
        void *argument),
       check(runtime, (const void *)(uintptr_t)function, "function"),
       wm_driver_host_func, stream, function, argument)
DEFINE(warm_event_create,
       (warm_runtime * runtime, int device, warm_event *event),
       check_new(runtime, device, event, "event"), wm_driver_event_create,
       device, event)
DEFINE(warm_event_record,
       (warm_runtime * runtime, warm_event event, warm_stream stream),
       check(runtime, event, "event"), wm_driver_event_record, event, stream)
DEFINE(warm_event_query, (warm_runtime * runtime, warm_event event),
       check(runtime, event, "event"), wm_driver_event_query, event)
DEFINE(warm_event_synchronize, (warm_runtime * runtime, warm_event event),
       check(runtime, event, "event"), wm_driver_event_synchronize, event)
DEFINE(warm_graph_launch,
       (warm_runtime * runtime, warm_graph graph, warm_stream stream),
       check(runtime, graph, "graph"), wm_driver_graph_launch, graph, stream)

warm_status warm_event_destroy(warm_runtime *runtime, warm_event event)
{
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK && event != NULL
               ? wm_driver_event_destroy(runtime->driver, event)
               : status;
}

warm_status warm_graph_destroy(warm_runtime *runtime, warm_graph graph)
{
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK && graph != NULL
               ? wm_driver_graph_destroy(runtime->driver, graph)
               : status;
}

/* Invalidates bindings, which the next reserve makes again: while the stream
 * captures its handles have another workspace than before and after. */
static void invalidate_bindings(warm_runtime *runtime)
{
    /* Release pairs with the acquire in warm_device_alloc(): a thread that sees
     * this epoch sees that a capture was announced. */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_release);
}

/* An event of a capture makes the waiting stream enter the capture. The driver
 * is queried about the stream first: it cannot answer afterwards. */
warm_status warm_stream_wait_event(warm_runtime *runtime, warm_stream stream,
                                   warm_event event)
{
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    warm_status status = check(runtime, event, "event");

    if (status != WARM_OK || (status = wm_driver_stream_info(
                                  runtime->driver, stream, &info)) != WARM_OK) {
        return status;
    }
    status = wm_driver_stream_wait_event(runtime->driver, stream, event);
    if (status == WARM_OK && info.device != WM_DEVICE_UNKNOWN &&
        wm_workspaces_note_capture(
            wm_kind_table_workspaces(runtime->kinds, info.device), stream,
            info.id)) {
        invalidate_bindings(runtime);
    }
    return status;
}

/* Workspaces of handles that are bound to the stream may become part of the
 * graph. */
static void mark_workspaces(warm_runtime *runtime, warm_stream stream,
                            const wm_stream_info *info, bool begun)
{
    if (info->device != WM_DEVICE_UNKNOWN) {
        wm_workspaces_begin_capture(
            wm_kind_table_workspaces(runtime->kinds, info->device), stream,
            info->id, begun);
    }
}

static void end_marks(warm_runtime *runtime, warm_stream stream, bool begun)
{
    for (int i = 0; i < runtime->devices; i++) {
        wm_workspaces_end_capture(wm_kind_table_workspaces(runtime->kinds, i),
                                  stream, begun);
    }
    invalidate_bindings(runtime);
}

/* Queries the stream first: the driver cannot answer during a capture.
 */
static warm_status announce(warm_runtime *runtime, warm_stream stream,
                            wm_stream_info *info, bool *already)
{
    warm_status status = wm_driver_stream_info(runtime->driver, stream, info);

    if (status != WARM_OK) {
        return status;
    }
    if (info->capture == WM_CAPTURE_ACTIVE) {
        return wm_fail(WARM_CAPTURE_ERROR, "stream %p captures already",
                       stream);
    }
    status = wm_timelines_announce(&runtime->pinned->timelines, stream, info,
                                   already);
    if (status == WARM_OK) {
        mark_workspaces(runtime, stream, info, false);
        invalidate_bindings(runtime);
    }
    return status;
}

warm_status warm_capture_announce(warm_runtime *runtime, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    bool already;

    return status != WARM_OK ? status
                             : announce(runtime, stream, &info, &already);
}

warm_status warm_capture_announce_end(warm_runtime *runtime, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && !wm_pinned_capture_over(runtime->pinned, stream)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "no capture of stream %p was announced; call "
                       "warm_capture_announce() before it begins",
                       stream);
    }
    if (status == WARM_OK) {
        end_marks(runtime, stream, true);
    }
    return status;
}

warm_status warm_capture_begin(warm_runtime *runtime, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    bool already = false;

    if (status != WARM_OK ||
        (status = announce(runtime, stream, &info, &already)) != WARM_OK) {
        return status;
    }
    status = wm_driver_capture_begin(runtime->driver, stream);
    if (status == WARM_OK) {
        /* Includes handles bound since the capture was announced. */
        mark_workspaces(runtime, stream, &info, true);
        invalidate_bindings(runtime);
    } else if (!already) {
        end_marks(runtime, stream, false);
        (void)wm_pinned_capture_over(runtime->pinned, stream);
    }
    return status;
}

/* Does nothing while the capture continues: only the thread that began it can
 * end it. */
static void end_announced(warm_runtime *runtime, warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_NONE;

    WM_KEEP_ERROR();
    if (wm_driver_stream_capture(runtime->driver, stream, &capture) !=
            WARM_OK ||
        capture != WM_CAPTURE_ACTIVE) {
        end_marks(runtime, stream, true);
        (void)wm_pinned_capture_over(runtime->pinned, stream);
    }
}

warm_status warm_capture_end(warm_runtime *runtime, warm_stream stream,
                             warm_graph *graph)
{
    warm_status status = check(runtime, graph, "graph");

    if (status == WARM_OK) {
        status = wm_driver_capture_end(runtime->driver, stream, graph);
        invalidate_bindings(runtime);
        end_announced(runtime, stream);
    }
    return status;
}

warm_status warm_device_alloc_uncached(warm_runtime *runtime, int device,
                                       size_t bytes, void **pointer)
{
    warm_error before = wm_error_save();
    warm_status status = check_new(runtime, device, pointer, "pointer");

    if (status != WARM_OK) {
        return status;
    }
    if (bytes == 0) {
        *pointer = NULL;
        return WARM_OK;
    }
    status = wm_driver_device_alloc(runtime->driver, device, bytes, pointer);
    if (status == WARM_OUT_OF_MEMORY &&
        runtime->trim_workspaces(runtime, device) > 0) {
        status =
            wm_driver_device_alloc(runtime->driver, device, bytes, pointer);
        if (status == WARM_OK) {
            wm_error_restore(&before);
        }
    }
    return status;
}

warm_status warm_device_free_uncached(warm_runtime *runtime, int device,
                                      void *pointer)
{
    warm_status status = wm_runtime_check_device(runtime, device);
    wm_timelines *timelines;
    wm_breaking breaking;

    if (status != WARM_OK || pointer == NULL) {
        return status;
    }
    timelines = &runtime->pinned->timelines;
    if (!wm_timelines_begin_break(timelines, &breaking, device, NULL, true)) {
        return wm_timelines_refuse(&breaking, "memory cannot be freed");
    }
    status = wm_driver_device_free(runtime->driver, device, pointer);
    wm_timelines_end_break(timelines, &breaking);
    return status;
}
