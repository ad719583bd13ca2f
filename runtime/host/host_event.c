/* host_event.c: events of the host device.
 *
 * An event names the core it was recorded on and a position there; it is
 * complete when the core has done that many items. A record on an idle stream
 * is complete at once and queues nothing. A record on a capturing stream marks
 * a position in the capture instead. */
#include "runtime/host/host.h"

#include "runtime/base/status.h"

/* Forgets the last record: the event is complete. */
static void clear_locked(wm_host *host, wm_host_event *event)
{
    if (event->core != NULL) {
        wm_host_core_unref_locked(host, event->core);
        event->core = NULL;
    }
    if (event->capture != NULL) {
        wm_host_capture_unref(event->capture);
        event->capture = NULL;
        wm_host_cell_put(&host->clocks, event->clock);
        event->clock = NULL;
    }
}

static warm_status find_locked(wm_host *host, warm_event name,
                               wm_host_event **event)
{
    *event = wm_host_find_locked(host, WM_HOST_EVENT, name);
    if (*event == NULL) {
        wm_host_fail(WM_HOST_ERROR_HANDLE,
                     "%p is not a live event of the host device", (void *)name);
        return WARM_INVALID_STREAM;
    }
    return WARM_OK;
}

/* Whether the last record is not done yet; clears the event if it is. */
static bool pending_locked(wm_host *host, wm_host_event *event)
{
    if (event->core == NULL) {
        return false;
    }
    if (event->core->done < event->done) {
        return true;
    }
    clear_locked(host, event);
    return false;
}

warm_status wm_host_event_create(wm_driver *d, int device, warm_event *event)
{
    wm_host *host = wm_host_of(d);
    wm_host_event *made;

    wm_host_lock(host);
    made = wm_host_cell_take(&host->events);
    if (made != NULL) {
        made->device = device;
        if (!wm_host_add_locked(host, WM_HOST_EVENT, made, made)) {
            wm_host_cell_put(&host->events, made);
            made = NULL;
        }
    }
    wm_host_unlock(host);
    if (made == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY, "no memory for an event");
    }
    *event = (warm_event)made;
    return WARM_OK;
}

void wm_host_event_close_locked(wm_host *host, wm_host_event *event)
{
    clear_locked(host, event);
    wm_host_remove_locked(host, WM_HOST_EVENT, event);
    wm_host_cell_put(&host->events, event);
}

/* Queued waits name the core, not the event, and stay valid. */
static warm_status event_destroy_locked(wm_host *host, warm_event name)
{
    wm_host_event *event = NULL;
    warm_status status = find_locked(host, name, &event);

    if (event != NULL) {
        wm_host_event_close_locked(host, event);
    }
    return status;
}
WM_HOST_LOCKED(event_destroy, (wm_driver * d, warm_event name), (host, name))

static warm_status record_locked(wm_host *host, wm_host_event *event,
                                 wm_host_core *core)
{
    static const wm_host_work nothing = {.kind = WM_HOST_NOTHING};
    warm_status status;

    if (core->queued == core->done && core->limit == UINT64_MAX) {
        clear_locked(host, event);
        event->recorded = true;
        return WARM_OK;
    }
    status = wm_host_queue_locked(host, core, &nothing, NULL, 0);
    if (status == WARM_OK) {
        clear_locked(host, event);
        event->recorded = true;
        event->core = core;
        event->done = core->queued;
        core->references++;
    }
    return status;
}

static warm_status record_captured_locked(wm_host *host, wm_host_event *event,
                                          wm_host_core *core)
{
    uint32_t *clock = NULL;
    warm_status status = wm_host_capture_mark_locked(host, core, &clock);

    /* The mark comes first: the event may hold the last reference of this
     * capture, from an earlier record. */
    if (status == WARM_OK) {
        clear_locked(host, event);
        event->capture = core->capture;
        event->clock = clock;
    }
    return status;
}

/* Finds event and stream of a record, which must be of one device. */
static warm_status find_ends_locked(wm_host *host, warm_event name,
                                    warm_stream stream, wm_host_event **event,
                                    wm_host_core **core)
{
    warm_status status = find_locked(host, name, event);

    if (status == WARM_OK) {
        status = wm_host_core_find_locked(host, stream, core);
    }
    if (status == WARM_OK && (*event)->device != (*core)->device) {
        status = wm_host_fail(WM_HOST_ERROR_HANDLE,
                              "an event of device %d cannot be recorded on "
                              "a stream of device %d",
                              (*event)->device, (*core)->device);
    }
    return status;
}

static warm_status event_record_locked(wm_host *host, warm_event name,
                                       warm_stream stream)
{
    wm_host_event *event = NULL;
    wm_host_core *core = NULL;
    warm_status status = find_ends_locked(host, name, stream, &event, &core);

    if (status != WARM_OK) {
        return status;
    }
    return core->capture != NULL ? record_captured_locked(host, event, core)
                                 : record_locked(host, event, core);
}
WM_HOST_LOCKED(event_record,
               (wm_driver * d, warm_event name, warm_stream stream),
               (host, name, stream))

static warm_status event_mark_locked(wm_host *host, warm_event name,
                                     warm_stream stream, wm_capture *capture)
{
    wm_host_event *event = NULL;
    wm_host_core *core = NULL;
    warm_status status = find_ends_locked(host, name, stream, &event, &core);

    if (status != WARM_OK) {
        return status;
    }
    if (core->capture != NULL) {
        *capture = WM_CAPTURE_ACTIVE;
        return WARM_OK;
    }
    status = record_locked(host, event, core);
    if (status == WARM_OK) {
        *capture = WM_CAPTURE_NONE;
    }
    return status;
}
WM_HOST_LOCKED(event_mark,
               (wm_driver * d, warm_event name, warm_stream stream,
                wm_capture *capture),
               (host, name, stream, capture))

static warm_status wait_locked(wm_host *host, wm_host_core *core,
                               wm_host_event *event)
{
    static const wm_host_work nothing = {.kind = WM_HOST_NOTHING};

    if (event->capture != NULL || core->capture != NULL) {
        return wm_host_capture_wait_locked(host, core, event);
    }
    if (!pending_locked(host, event)) {
        return WARM_OK;
    }
    return wm_host_queue_locked(host, core, &nothing, event->core, event->done);
}

/* A complete event queues nothing. */
static warm_status stream_wait_event_locked(wm_host *host, warm_stream stream,
                                            warm_event name)
{
    wm_host_event *event = NULL;
    wm_host_core *core = NULL;
    warm_status status = find_locked(host, name, &event);

    if (status == WARM_OK) {
        status = wm_host_core_find_locked(host, stream, &core);
    }
    return status == WARM_OK ? wait_locked(host, core, event) : status;
}
WM_HOST_LOCKED(stream_wait_event,
               (wm_driver * d, warm_stream stream, warm_event name),
               (host, stream, name))

/* Finds an event for a query or a wait. If it was last recorded in a capture,
 * the call is refused and invalidates the capture. */
static warm_status find_uncaptured_locked(wm_host *host, warm_event name,
                                          const char *call,
                                          wm_host_event **event)
{
    warm_status status = find_locked(host, name, event);

    if (*event == NULL) {
        return status;
    }
    if ((*event)->capture != NULL) {
        wm_host_capture_invalidate_locked(host, (*event)->capture, call);
        return wm_host_fail(WM_HOST_ERROR_CAPTURED_EVENT,
                            "%s of an event last recorded in a capture", call);
    }
    return wm_host_unsafe_locked(host, call);
}

static warm_status event_query_locked(wm_host *host, warm_event name)
{
    wm_host_event *event = NULL;
    warm_status status =
        find_uncaptured_locked(host, name, "event_query", &event);

    return status == WARM_OK && pending_locked(host, event) ? WARM_NOT_READY
                                                            : status;
}
WM_HOST_LOCKED(event_query, (wm_driver * d, warm_event name), (host, name))

/* As CUDA's event query in relaxed capture mode: legal at any time. */
static warm_status event_passed_locked(wm_host *host, warm_event name)
{
    wm_host_event *event = NULL;
    warm_status status = find_locked(host, name, &event);

    if (event == NULL) {
        return status;
    }
    if (event->capture != NULL) {
        return wm_host_fail(WM_HOST_ERROR_CAPTURED_EVENT,
                            "event_passed of an event that was last recorded "
                            "in a capture");
    }
    return pending_locked(host, event) ? WARM_NOT_READY : WARM_OK;
}
WM_HOST_LOCKED(event_passed, (wm_driver * d, warm_event name), (host, name))

static warm_status event_synchronize_locked(wm_host *host, warm_event name)
{
    wm_host_event *event = NULL;
    warm_status status =
        find_uncaptured_locked(host, name, "event_synchronize", &event);

    if (status == WARM_OK && pending_locked(host, event)) {
        wm_host_wait_locked(host, event->core, event->done);
    }
    return status;
}
WM_HOST_LOCKED(event_synchronize, (wm_driver * d, warm_event name),
               (host, name))
