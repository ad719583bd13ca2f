/* workspace_release.c: releases workspaces of handles and streams, reuses them
 * once their work has completed, and trims them (workspace_int.h).
 *
 * All workspaces of a release are claimed at once under the lock; their events
 * are recorded outside of it. */
#include "handles/kind.h"
#include "handles/workspace_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

/* Selects the workspaces to release: those that meet every condition. */
struct which {
    enum wm_workspace_state state;
    const void *handle;        /* the workspace serves it; null: any */
    const uint64_t *stream_id; /* it serves this stream; null: any */
    warm_stream stream;        /* the stream of that id */
    /* No graph may use the workspace, and its handle is bound to another one
     * since `before` or earlier. */
    bool unbound;
    uint64_t before;
    uint64_t since_ns; /* not a condition: time of the release; 0: unchanged */
};

static bool matches(wm_workspaces *workspaces, wm_workspace *w,
                    const struct which *which)
{
    if (w->state != which->state ||
        (which->handle != NULL && w->handle != which->handle)) {
        return false;
    }
    /* Id or address: the id differs while the stream captures, and no other
     * live stream has its address. */
    if (which->stream_id != NULL && w->stream_id != *which->stream_id &&
        w->stream != which->stream) {
        return false;
    }
    return !which->unbound || (!w->captured && w->since_ns <= which->before &&
                               wm_workspace_latest_locked(workspaces, w) != w);
}

/* Records the workspace's event behind the stream's last work; *capture: the
 * stream captures and no event was recorded. */
static warm_status record_event(wm_workspaces *workspaces, wm_workspace *w,
                                wm_capture *capture)
{
    warm_status status;
    int device = -1;

    *capture = WM_CAPTURE_BLOCKED;
    /* The name of a default stream means that of the current device. */
    if (wm_stream_is_default(w->stream) &&
        (wm_driver_current_device(workspaces->driver, &device) != WARM_OK ||
         device != workspaces->device)) {
        return WARM_OK;
    }
    if (w->event == NULL) {
        status = wm_driver_event_create(workspaces->driver, workspaces->device,
                                        &w->event);
        if (status != WARM_OK) {
            return status;
        }
    }
    return wm_driver_event_mark(workspaces->driver, w->event, w->stream,
                                capture);
}

/* Only graphs use w from here on. True: no call will report the end of these
 * graphs, and this first leak on the device must be logged. */
static bool retain_locked(wm_workspaces *workspaces, wm_workspace *w)
{
    bool first = w->untracked && !workspaces->leak_logged;

    workspaces->leak_logged = workspaces->leak_logged || first;
    wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_RETAINED);
    return first;
}

static void log_leak(wm_workspaces *workspaces, size_t bytes)
{
    wm_log(WARM_LOG_WARNING,
           "a workspace of %s on device %d is leaked, since a graph of no "
           "private pool may use it: reserve the handle again in the "
           "capture, or capture with a private pool "
           "(warm_private_pool_begin()) and release that with the graph",
           wm_bytes(bytes).text, workspaces->device);
}

/* Records that the capture under way on w's stream may use w. */
static void retain_for_graph(wm_workspaces *workspaces, wm_workspace *w,
                             bool alone)
{
    uint64_t pool = wm_workspaces_private_pool_of(workspaces, w->stream);
    size_t bytes = w->bytes;
    bool first = false;

    wm_lock_acquire(&workspaces->lock);
    wm_workspace_add_graph_locked(w, pool);
    if (alone) {
        first = retain_locked(workspaces, w);
    } else {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_SERVING);
    }
    wm_lock_release(&workspaces->lock);
    if (first) {
        log_leak(workspaces, bytes);
    }
}

/* Releases a CLAIMED workspace. alone: its handle or stream ends, and then only
 * graphs may use w. */
static void release(wm_workspaces *workspaces, wm_workspace *w, bool alone)
{
    wm_capture capture;

    if (record_event(workspaces, w, &capture) != WARM_OK) {
        wm_workspace_leak(workspaces, w);
    } else if (capture == WM_CAPTURE_ACTIVE) {
        retain_for_graph(workspaces, w, alone);
    } else {
        wm_workspace_set_state(workspaces, w,
                               capture == WM_CAPTURE_NONE
                                   ? WM_WORKSPACE_PENDING
                                   : WM_WORKSPACE_NO_EVENT);
    }
}

static bool collect(wm_workspaces *workspaces)
{
    const wm_workspace_hooks *hooks = &workspaces->hooks;

    return hooks->collect == NULL || hooks->collect(hooks->runtime, workspaces);
}

/* Releases all that match; captured ones are retained for their graphs. */
static void release_matching(wm_workspaces *workspaces,
                             const struct which *which, bool alone)
{
    warm_error before = {.size = sizeof before};
    wm_workspace *claimed = NULL, *list;
    size_t first = 0;

    warm_last_error(&before);
    wm_lock_acquire(&workspaces->lock);
    list = which->unbound && !collect(workspaces) ? NULL : workspaces->list;
    for (wm_workspace *w = list; w != NULL; w = w->next) {
        if (!matches(workspaces, w, which)) {
            continue;
        }
        if (which->since_ns != 0) {
            w->since_ns = which->since_ns;
        }
        if (w->captured) {
            first = retain_locked(workspaces, w) ? w->bytes : first;
            continue;
        }
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_CLAIMED);
        w->next_claimed = claimed;
        claimed = w;
    }
    wm_lock_release(&workspaces->lock);
    if (first != 0) {
        log_leak(workspaces, first);
    }
    while (claimed != NULL) {
        wm_workspace *w = claimed;

        claimed = w->next_claimed;
        release(workspaces, w, alone);
    }
    wm_error_restore(&before);
}

void wm_workspaces_record_events(wm_workspaces *workspaces)
{
    const struct which which = {.state = WM_WORKSPACE_NO_EVENT};

    release_matching(workspaces, &which, true);
}

void wm_workspaces_release_unbound(wm_workspaces *workspaces, uint64_t before)
{
    const struct which which = {
        .state = WM_WORKSPACE_SERVING, .unbound = true, .before = before};

    release_matching(workspaces, &which, false);
}

void wm_workspaces_detach(wm_workspaces *workspaces, const void *handle)
{
    const struct which which = {.state = WM_WORKSPACE_SERVING,
                                .handle = handle};
    bool mode;
    bool relaxed = wm_driver_capture_relaxed_begin(workspaces->driver, &mode);

    release_matching(workspaces, &which, true);
    if (relaxed) {
        wm_driver_capture_relaxed_end(workspaces->driver, &mode);
    }
}

void wm_workspaces_retire_stream(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id)
{
    const struct which which = {.state = WM_WORKSPACE_SERVING,
                                .stream = stream,
                                .stream_id = &stream_id,
                                .since_ns = wm_clock_ns()};

    release_matching(workspaces, &which, true);
}

/* Claims the handle's least recently bound workspace if it caches too many. The
 * workspace of a default stream does not count; there is at most one. */
static wm_workspace *claim_oldest(wm_workspaces *workspaces, const void *handle)
{
    wm_workspace *oldest = NULL, *w;
    unsigned count = 0;

    wm_lock_acquire(&workspaces->lock);
    for (w = *wm_workspaces_bucket(workspaces, handle); w != NULL;
         w = w->next_of_handle) {
        if (w->handle == handle && !w->captured &&
            !wm_stream_is_default(w->stream)) {
            count++;
            oldest =
                oldest == NULL || w->binding_number < oldest->binding_number
                    ? w
                    : oldest;
        }
    }
    oldest = count < WM_WORKSPACES_CACHED ? NULL : oldest;
    if (oldest != NULL) {
        wm_workspace_set_state_locked(workspaces, oldest, WM_WORKSPACE_CLAIMED);
    }
    wm_lock_release(&workspaces->lock);
    return oldest;
}

void wm_workspaces_evict_oldest(wm_workspaces *workspaces,
                                const wm_workspace_key *key)
{
    wm_workspace *w;

    while (!wm_stream_is_default(key->stream) &&
           (w = claim_oldest(workspaces, key->handle)) != NULL) {
        release(workspaces, w, false);
    }
}

/* Queries the event of each PENDING workspace, so that a stuck stream delays
 * only its own workspaces. Workspaces that have not completed are chained, and
 * become PENDING again after the search. */
wm_workspace *wm_workspace_claim_completed(wm_workspaces *workspaces,
                                           size_t bytes, uint64_t before)
{
    wm_workspace *queried = NULL;
    wm_workspace *w;

    while ((w = wm_workspace_claim(workspaces, WM_WORKSPACE_PENDING, bytes,
                                   before, NULL)) != NULL) {
        warm_status status =
            wm_driver_event_query(workspaces->driver, w->event);

        if (status == WARM_OK) {
            break;
        }
        if (status == WARM_NOT_READY) {
            w->next_claimed = queried;
            queried = w;
        } else {
            wm_workspace_leak(workspaces, w);
        }
    }
    wm_lock_acquire(&workspaces->lock);
    for (; queried != NULL; queried = queried->next_claimed) {
        wm_workspace_set_state_locked(workspaces, queried,
                                      WM_WORKSPACE_PENDING);
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

void wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns)
{
    warm_error before = {.size = sizeof before};
    uint64_t now = wm_clock_ns();
    /* 0 means all: the end of a binding may be known to a tick only. */
    uint64_t last = idle_ns == 0     ? UINT64_MAX
                    : now >= idle_ns ? now - idle_ns
                                     : 0;
    wm_workspace *w;
    bool mode, relaxed, dropped;

    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return;
    }
    warm_last_error(&before);
    relaxed = wm_driver_capture_relaxed_begin(workspaces->driver, &mode);
    wm_workspaces_record_events(workspaces);
    wm_workspaces_release_unbound(workspaces, last);
    do {
        enum wm_workspace_state was = WM_WORKSPACE_UNUSED;

        w = wm_workspace_claim(workspaces, was, 0, UINT64_MAX, NULL);
        if (w == NULL) {
            was = WM_WORKSPACE_PENDING;
            w = wm_workspace_claim_completed(workspaces, 0, last);
        }
        dropped = w != NULL && wm_workspace_free(workspaces, w, was);
    } while (dropped);
    if (relaxed) {
        wm_driver_capture_relaxed_end(workspaces->driver, &mode);
    }
    wm_error_restore(&before);
}
