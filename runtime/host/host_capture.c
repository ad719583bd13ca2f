/* host_capture.c: stream capture, in the thread-local mode of CUDA.
 *
 * Work submitted to a capturing stream becomes a node of a graph and does not
 * run. If another stream waits for an event recorded there, that stream enters
 * the capture and has to be joined back before the end.
 *
 * These calls fail and invalidate the capture: a query of a capturing stream or
 * of an event recorded in a capture; a wait for work outside of the capture;
 * and, by a thread that captures and is not relaxed, any call that could wait
 * for the device (wm_host_unsafe_locked). */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

void wm_host_capture_invalidate_locked(wm_host *host, wm_host_capture *capture,
                                       const char *call)
{
    wm_host_thread *thread = wm_host_thread_locked(host, false);

    if (capture->broken_by == NULL) {
        capture->broken_by = call;
        capture->broken_elsewhere =
            thread == NULL || thread->token != capture->owner;
    }
}

void wm_host_capture_unref(wm_host_capture *capture)
{
    if (--capture->references == 0) {
        wm_meta_free(capture);
    }
}

/* Ends the capture in all of its streams. The caller owns the graph. */
static wm_host_graph *finish_locked(wm_host *host, wm_host_capture *capture)
{
    wm_host_graph *graph = capture->graph;

    for (unsigned i = 0; i < capture->streams; i++) {
        if (capture->stream[i] != NULL) {
            capture->stream[i]->capture = NULL;
        }
    }
    if (capture->next != NULL) {
        capture->next->previous = capture->previous;
    }
    if (capture->previous != NULL) {
        capture->previous->next = capture->next;
    } else {
        host->captures = capture->next;
    }
    capture->ended = true;
    capture->graph = NULL;
    wm_host_capture_unref(capture);
    return graph;
}

void wm_host_capture_leave_locked(wm_host *host, wm_host_core *core)
{
    wm_host_capture *capture = core->capture;

    wm_host_capture_invalidate_locked(host, capture, "stream_destroy");
    if (core->capture_index == 0) {
        wm_host_graph_close_locked(host, finish_locked(host, capture));
    } else {
        capture->stream[core->capture_index] = NULL;
        core->capture = NULL;
    }
}

warm_status wm_host_unsafe_locked(wm_host *host, const char *call)
{
    wm_host_thread *thread;
    bool found = false;

    if (host->captures == NULL) {
        return WARM_OK;
    }
    thread = wm_host_thread_locked(host, false);
    if (thread != NULL && thread->relaxed) {
        return WARM_OK;
    }
    for (wm_host_capture *c = host->captures; c != NULL; c = c->next) {
        if (c->global || (thread != NULL && c->owner == thread->token)) {
            wm_host_capture_invalidate_locked(host, c, call);
            found = true;
        }
    }
    if (found) {
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_UNSUPPORTED,
                            "%s by a thread that captures a stream", call);
    }
    return WARM_OK;
}

warm_status wm_host_unsafe(wm_host *host, const char *call)
{
    warm_status status;

    wm_host_lock(host);
    status = wm_host_unsafe_locked(host, call);
    wm_host_unlock(host);
    return status;
}

static warm_status valid(const wm_host_capture *capture)
{
    if (capture->broken_by != NULL) {
        return wm_host_fail(
            WM_HOST_ERROR_CAPTURE_INVALIDATED,
            "the stream's capture was invalidated before, by %s of %s",
            capture->broken_by,
            capture->broken_elsewhere ? "another thread" : "this thread");
    }
    return WARM_OK;
}

warm_status wm_host_capture_add_locked(wm_host_core *core,
                                       const wm_host_work *work)
{
    wm_host_capture *capture = core->capture;
    unsigned i = core->capture_index;
    warm_status status = valid(capture);

    if (status != WARM_OK) {
        return status;
    }
    if (!wm_host_graph_add(capture->graph, work)) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "no memory for another node of a graph");
    }
    if (work->kind == WM_HOST_LAUNCH) {
        work->as.graph->references++;
    }
    capture->clock[i][i]++;
    return WARM_OK;
}

warm_status wm_host_capture_mark_locked(wm_host *host, wm_host_core *core,
                                        uint32_t **clock)
{
    wm_host_capture *capture = core->capture;
    warm_status status = valid(capture);
    uint32_t *row;

    if (status != WARM_OK) {
        return status;
    }
    row = wm_host_cell_take(&host->clocks);
    if (row == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "no memory to record an event in a capture");
    }
    memcpy(row, capture->clock[core->capture_index], sizeof capture->clock[0]);
    capture->references++;
    *clock = row;
    return WARM_OK;
}

static const char wait_call[] = "stream_wait_event";

/* Adds the stream to the capture. Entering counts as an operation: the stream
 * has to be joined back even if nothing else is submitted to it. */
static warm_status join_locked(wm_host *host, wm_host_capture *capture,
                               wm_host_core *core)
{
    unsigned i = capture->streams;

    if (core->legacy || i == WM_HOST_CAPTURE_STREAMS) {
        wm_host_capture_invalidate_locked(host, capture, wait_call);
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_UNSUPPORTED,
                            core->legacy
                                ? "the legacy default stream cannot capture"
                                : "at most %d streams in one capture",
                            WM_HOST_CAPTURE_STREAMS);
    }
    capture->streams++;
    capture->stream[i] = core;
    capture->clock[i][i] = 1;
    core->capture = capture;
    core->capture_index = i;
    return WARM_OK;
}

static warm_status outside(wm_host *host, wm_host_capture *capture)
{
    wm_host_capture_invalidate_locked(host, capture, wait_call);
    return wm_host_fail(WM_HOST_ERROR_CAPTURE_ISOLATION,
                        "a stream that captures waits for an event recorded "
                        "outside of the capture");
}

warm_status wm_host_capture_wait_locked(wm_host *host, wm_host_core *core,
                                        wm_host_event *event)
{
    wm_host_capture *capture = event->capture;
    warm_status status;
    uint32_t *row;

    if (capture == NULL) {
        return event->recorded ? outside(host, core->capture) : WARM_OK;
    }
    if (capture->ended) {
        if (core->capture != NULL) {
            return outside(host, core->capture);
        }
        return wm_host_fail(WM_HOST_ERROR_CAPTURED_EVENT,
                            "the event was last recorded in a capture that has "
                            "ended");
    }
    if (core->capture != NULL && core->capture != capture) {
        wm_host_capture_invalidate_locked(host, core->capture, wait_call);
        wm_host_capture_invalidate_locked(host, capture, wait_call);
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_MERGE,
                            "a capture waits for an event of another one");
    }
    status = valid(capture);
    if (status == WARM_OK && core->capture == NULL) {
        status = join_locked(host, capture, core);
    }
    if (status != WARM_OK) {
        return status;
    }
    row = capture->clock[core->capture_index];
    for (unsigned i = 0; i < WM_HOST_CAPTURE_STREAMS; i++) {
        row[i] = row[i] > event->clock[i] ? row[i] : event->clock[i];
    }
    return WARM_OK;
}

static wm_host_capture *capture_make_locked(wm_host *host, wm_host_core *core)
{
    wm_host_thread *thread = wm_host_thread_locked(host, true);
    wm_host_capture *capture = wm_meta_alloc(sizeof *capture);

    if (thread == NULL || capture == NULL) {
        goto fail;
    }
    capture->graph = wm_host_graph_make_locked(host, core->device);
    if (capture->graph == NULL) {
        goto fail;
    }
    capture->references = 1;
    capture->owner = thread->token;
    capture->next = host->captures;
    if (capture->next != NULL) {
        capture->next->previous = capture;
    }
    host->captures = capture;
    return capture;

fail:
    wm_meta_free(capture);
    return NULL;
}

warm_status wm_host_capture_begin_locked(wm_host *host, wm_host_core *core)
{
    wm_host_capture *capture;

    if (core->legacy) {
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_UNSUPPORTED,
                            "the legacy default stream cannot capture");
    }
    if (core->capture != NULL) {
        return wm_host_fail(WM_HOST_ERROR_ILLEGAL_STATE,
                            "the stream captures already");
    }
    capture = capture_make_locked(host, core);
    if (capture == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY, "no memory for a capture");
    }
    return join_locked(host, capture, core);
}

/* A capture ends in the thread and on the stream where it began. */
static warm_status may_end_locked(wm_host *host, const wm_host_core *core)
{
    wm_host_thread *thread = wm_host_thread_locked(host, false);

    if (core->capture == NULL) {
        return wm_host_fail(WM_HOST_ERROR_ILLEGAL_STATE,
                            "the stream does not capture");
    }
    if (thread == NULL || core->capture->owner != thread->token) {
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_THREAD,
                            "the capture was begun by another thread");
    }
    if (core->capture_index != 0) {
        wm_host_capture_invalidate_locked(host, core->capture, "capture_end");
        return wm_host_fail(WM_HOST_ERROR_CAPTURE_UNMATCHED,
                            "the capture was begun on another stream");
    }
    return WARM_OK;
}

static bool joined(const wm_host_capture *capture)
{
    for (unsigned i = 1; i < capture->streams; i++) {
        if (capture->clock[0][i] < capture->clock[i][i]) {
            return false;
        }
    }
    return true;
}

warm_status wm_host_capture_end_locked(wm_host *host, wm_host_core *core,
                                       warm_graph *graph)
{
    warm_status status = may_end_locked(host, core);
    wm_host_graph *made;

    if (status != WARM_OK) {
        return status;
    }
    status = valid(core->capture);
    if (status == WARM_OK && !joined(core->capture)) {
        status = wm_host_fail(WM_HOST_ERROR_CAPTURE_UNJOINED,
                              "a stream entered the capture and was not joined "
                              "back before its end");
    }
    made = finish_locked(host, core->capture);
    if (status == WARM_OK) {
        *graph = (warm_graph)made;
    } else {
        wm_host_graph_close_locked(host, made);
    }
    return status;
}

warm_status wm_host_capture_mode(wm_driver *d, bool *relaxed)
{
    wm_host *host = wm_host_of(d);
    wm_host_thread *thread;
    bool old = false;

    wm_host_lock(host);
    thread = wm_host_thread_locked(host, *relaxed);
    if (thread != NULL) {
        old = thread->relaxed;
        thread->relaxed = *relaxed;
    }
    wm_host_unlock(host);
    if (thread == NULL && *relaxed) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "no memory for the capture mode of a thread");
    }
    *relaxed = old;
    return WARM_OK;
}
