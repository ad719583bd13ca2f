/* host_submit.c: driver calls that queue work on a stream of the host device
 * (copies, host functions, graph launches), that query streams and that wait
 * for them. */
#include "runtime/host/host.h"

#include "runtime/base/bytes.h"

/* Queues work, or records it where the stream captures. */
static warm_status submit_locked(wm_host *host, warm_stream stream,
                                 const wm_host_work *work)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);

    if (status != WARM_OK) {
        return status;
    }
    return core->capture != NULL
               ? wm_host_capture_add_locked(core, work)
               : wm_host_queue_locked(host, core, work, NULL, 0);
}

static warm_status submit(wm_driver *d, warm_stream stream,
                          const wm_host_work *work)
{
    wm_host *host = wm_host_of(d);
    warm_status status;

    wm_host_lock(host);
    status = submit_locked(host, stream, work);
    wm_host_unlock(host);
    return status;
}

/* Fails as CUDA does for memory that is page-locked in part, or by two calls.
 */
static warm_status check_range_locked(const wm_host *host, const void *pointer,
                                      size_t bytes)
{
    if (!wm_host_region_cuts_locked(host, pointer, bytes)) {
        return WARM_OK;
    }
    return wm_host_fail(WM_HOST_ERROR_VALUE,
                        "copy: %s at %p lie across two registrations, or are "
                        "registered in part",
                        wm_bytes(bytes).text, pointer);
}

/* Queues a copy; bytes of both ranges. */
static warm_status submit_copy(wm_driver *d, warm_stream stream,
                               const wm_host_work *work, size_t to_bytes,
                               size_t from_bytes)
{
    wm_host *host = wm_host_of(d);
    bool rows = work->kind == WM_HOST_COPY_2D;
    warm_status status;

    wm_host_lock(host);
    status = check_range_locked(
        host, rows ? work->as.copy_2d.destination : work->as.copy.destination,
        to_bytes);
    if (status == WARM_OK) {
        status = check_range_locked(
            host, rows ? work->as.copy_2d.source : work->as.copy.source,
            from_bytes);
    }
    if (status == WARM_OK) {
        status = submit_locked(host, stream, work);
    }
    wm_host_unlock(host);
    return status;
}

warm_status wm_host_copy(wm_driver *d, void *destination, const void *source,
                         size_t bytes, warm_copy_direction direction,
                         warm_stream stream)
{
    wm_host_work work = {.kind = WM_HOST_COPY};

    if (direction != WARM_COPY_TO_DEVICE && direction != WARM_COPY_TO_HOST &&
        direction != WM_COPY_ANY) {
        return wm_host_fail(WM_HOST_ERROR_VALUE, "%d is not a direction",
                            (int)direction);
    }
    work.as.copy.destination = destination;
    work.as.copy.source = source;
    work.as.copy.bytes = bytes;
    return submit_copy(d, stream, &work, bytes, bytes);
}

warm_status wm_host_copy_2d(wm_driver *d, const wm_copy_2d *copy,
                            warm_stream stream)
{
    wm_host_work work = {.kind = WM_HOST_COPY_2D};

    if (copy->width > copy->destination_pitch ||
        copy->width > copy->source_pitch) {
        return wm_host_fail(WM_HOST_ERROR_VALUE, "a row passes its pitch");
    }
    work.as.copy_2d = *copy;
    return submit_copy(d, stream, &work,
                       wm_copy_2d_extent(copy, copy->destination_pitch),
                       wm_copy_2d_extent(copy, copy->source_pitch));
}

warm_status wm_host_host_func(wm_driver *d, warm_stream stream,
                              warm_host_fn function, void *argument)
{
    wm_host_work work = {.kind = WM_HOST_FUNC};

    if (function == NULL) {
        return wm_host_fail(WM_HOST_ERROR_VALUE, "the function is null");
    }
    work.as.func.function = function;
    work.as.func.argument = argument;
    return submit(d, stream, &work);
}

/* Launches of one graph run one after another, also on different streams. */
static warm_status launch_locked(wm_host *host, wm_host_graph *graph,
                                 wm_host_core *core)
{
    wm_host_work work = {.kind = WM_HOST_LAUNCH, .as.graph = graph};
    warm_status status;

    if (graph->device != core->device) {
        return wm_host_fail(WM_HOST_ERROR_VALUE,
                            "a graph of device %d cannot be launched on a "
                            "stream of device %d",
                            graph->device, core->device);
    }
    if (core->capture != NULL) {
        return wm_host_capture_add_locked(core, &work);
    }
    status = wm_host_queue_locked(host, core, &work, graph->core, graph->done);
    if (status == WARM_OK) {
        core->references++;
        if (graph->core != NULL) {
            wm_host_core_unref_locked(host, graph->core);
        }
        graph->core = core;
        graph->done = core->queued;
    }
    return status;
}

/* Users have no name of a graph whose capture is still under way. */
static warm_status graph_find_locked(wm_host *host, warm_graph name,
                                     wm_host_graph **graph)
{
    *graph = wm_host_find_locked(host, WM_HOST_GRAPH, name);
    if (*graph == NULL) {
        wm_host_fail(WM_HOST_ERROR_HANDLE,
                     "%p is not a live graph of the host device", (void *)name);
        return WARM_INVALID_STREAM;
    }
    return WARM_OK;
}

static warm_status graph_launch_locked(wm_host *host, warm_graph name,
                                       warm_stream stream)
{
    wm_host_graph *graph = NULL;
    wm_host_core *core = NULL;
    warm_status status = graph_find_locked(host, name, &graph);

    if (status == WARM_OK) {
        status = wm_host_core_find_locked(host, stream, &core);
    }
    return status == WARM_OK ? launch_locked(host, graph, core) : status;
}
WM_HOST_LOCKED(graph_launch,
               (wm_driver * d, warm_graph name, warm_stream stream),
               (host, name, stream))

static warm_status graph_destroy_locked(wm_host *host, warm_graph name)
{
    wm_host_graph *graph = NULL;
    warm_status status = graph_find_locked(host, name, &graph);

    if (status == WARM_OK) {
        wm_host_graph_close_locked(host, graph);
    }
    return status;
}
WM_HOST_LOCKED(graph_destroy, (wm_driver * d, warm_graph name), (host, name))

/* Finds a stream for a query or a wait, which invalidates its capture. */
static warm_status find_uncaptured_locked(wm_host *host, warm_stream stream,
                                          const char *call, wm_host_core **core)
{
    warm_status status = wm_host_core_find_locked(host, stream, core);

    if (status != WARM_OK) {
        return status;
    }
    if ((*core)->capture != NULL) {
        wm_host_capture_invalidate_locked(host, (*core)->capture, call);
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_UNSUPPORTED,
                            "%s of a stream that captures", call);
    }
    return wm_host_unsafe_locked(host, call);
}

static warm_status stream_query_locked(wm_host *host, warm_stream stream)
{
    wm_host_core *core = NULL;
    warm_status status =
        find_uncaptured_locked(host, stream, "stream_query", &core);

    return status == WARM_OK && core->done < core->queued ? WARM_NOT_READY
                                                          : status;
}
WM_HOST_LOCKED(stream_query, (wm_driver * d, warm_stream stream),
               (host, stream))

static warm_status stream_passed_locked(wm_host *host, warm_stream stream,
                                        wm_capture *capture)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);

    if (status != WARM_OK) {
        return status;
    }
    *capture = core->capture != NULL ? WM_CAPTURE_ACTIVE : WM_CAPTURE_NONE;
    /* An event recorded now would not complete on a held stream. */
    return core->done < core->queued || core->limit != UINT64_MAX
               ? WARM_NOT_READY
               : WARM_OK;
}
WM_HOST_LOCKED(stream_passed,
               (wm_driver * d, warm_stream stream, wm_capture *capture),
               (host, stream, capture))

static warm_status stream_synchronize_locked(wm_host *host, warm_stream stream)
{
    wm_host_core *core = NULL;
    warm_status status =
        find_uncaptured_locked(host, stream, "stream_synchronize", &core);

    if (status == WARM_OK) {
        wm_host_wait_locked(host, core, core->queued);
    }
    return status;
}
WM_HOST_LOCKED(stream_synchronize, (wm_driver * d, warm_stream stream),
               (host, stream))

/* Waits for all devices: work of one may wait for work of another. */
static warm_status device_synchronize_locked(wm_host *host, int device)
{
    warm_status status = wm_host_unsafe_locked(host, "device_synchronize");

    if (status != WARM_OK) {
        return status;
    }
    wm_host_quiet_locked(host);
    for (wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        if (c->device == device && c->done < c->queued) {
            return WARM_NOT_READY;
        }
    }
    return WARM_OK;
}
WM_HOST_LOCKED(device_synchronize, (wm_driver * d, int device), (host, device))

static warm_status control_locked(wm_host *host, warm_stream stream,
                                  unsigned count)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);
    uint64_t target;

    if (status != WARM_OK) {
        return status;
    }
    if (count == WM_CONTROL_RESUME) {
        core->limit = UINT64_MAX;
        wm_host_schedule_locked(host, core);
        return WARM_OK;
    }
    if (count == WM_CONTROL_HOLD) {
        core->limit = core->started;
        return WARM_OK;
    }
    if (core->limit == UINT64_MAX) {
        return wm_host_fail(WM_HOST_ERROR_VALUE,
                            "a step of a stream that is not held");
    }
    target = core->limit + count;
    target = target < core->queued ? target : core->queued;
    core->limit = target;
    wm_host_schedule_locked(host, core);
    wm_host_wait_locked(host, core, target);
    return WARM_OK;
}

WM_HOST_LOCKED(control, (wm_driver * d, warm_stream stream, unsigned count),
               (host, stream, count))
