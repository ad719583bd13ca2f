/* workspace_release.c: releases workspaces of handles and streams, reuses them
 * once their work has completed, and trims them (workspace_int.h).
 *
 * All workspaces of a release are claimed at once under the lock; their events
 * are recorded outside of it. Meanwhile `marking` says so, and the retirement
 * of the stream waits: no event is recorded behind a stream that is destroyed.
 */
#include "handles/kind.h"
#include "handles/workspace_int.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

/* Selects the workspaces to release: those that meet every condition. */
struct which {
    enum wm_workspace_state state;
    const void *handle; /* the workspace serves it; null: any */
    bool of_stream;     /* it serves this stream */
    warm_stream stream;
    uint64_t stream_id;
    bool idle;    /* it is idle since `before` or earlier, no graph may use
                     it, and this thread can record an event behind its
                     work */
    bool current; /* the device is the thread's current one */
    uint64_t before;
    uint64_t since_ns; /* not a condition: time of the release; 0: unchanged */
};

static bool is_current(wm_workspaces *workspaces)
{
    int device = -1;

    return wm_driver_current_device(workspaces->driver, &device) == WARM_OK &&
           device == workspaces->device;
}

/* Whether the calling thread can record an event behind the work of w: the name
 * of a default stream means that of the current device, or of the thread. */
static bool may_record(const wm_workspace *w, bool current)
{
    return !wm_stream_is_default(w->stream) ||
           (current && (w->stream != WARM_STREAM_PER_THREAD ||
                        w->stream_id == wm_workspace_thread_id()));
}

/* Id or address: the id differs while the stream captures, and no other live
 * stream has its address. */
static bool is_of_stream(const wm_workspace *w, const struct which *which)
{
    return w->stream_id == which->stream_id ||
           (w->stream == which->stream &&
            which->stream != WARM_STREAM_PER_THREAD);
}

static bool matches(const wm_workspace *w, const struct which *which)
{
    if (w->state != which->state ||
        (which->handle != NULL && w->handle != which->handle) ||
        (which->of_stream && !is_of_stream(w, which))) {
        return false;
    }
    return !which->idle ||
           (wm_workspace_is_eager(w) && !wm_workspace_is_bound(w) &&
            wm_workspace_since(w) <= which->before &&
            may_record(w, which->current));
}

/* Records the workspace's event behind the stream's last work; *capture: the
 * stream captures and no event was recorded. */
static warm_status record_event(wm_workspaces *workspaces, wm_workspace *w,
                                wm_capture *capture)
{
    warm_status status;

    *capture = WM_CAPTURE_BLOCKED;
    if (wm_stream_is_default(w->stream) &&
        !may_record(w, is_current(workspaces))) {
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
    w->state = WM_WORKSPACE_RETAINED;
    return first;
}

/* Workspaces that a release has leaked. They are logged after its last mark,
 * since the program's log callback may retire a stream. */
struct leaks {
    size_t bytes;     /* the driver refused an event */
    size_t of_graphs; /* of one that graphs of no private pool may use */
};

static void log_leaks(wm_workspaces *workspaces, const struct leaks *leaks)
{
    if (leaks->of_graphs != 0) {
        wm_log(WARM_LOG_WARNING,
               "a workspace of %s on device %d is leaked, since a graph of no "
               "private pool may use it: reserve the handle again in the "
               "capture, or capture with a private pool "
               "(warm_private_pool_begin()) and release that with the graph",
               wm_bytes(leaks->of_graphs).text, workspaces->device);
    }
    if (leaks->bytes != 0) {
        wm_workspaces_log_leak(workspaces, leaks->bytes);
    }
}

/* The capture under way on w's stream may use w. */
static void retain_for_graph_locked(wm_workspaces *workspaces, wm_workspace *w,
                                    uint64_t pool, bool alone,
                                    struct leaks *leaks)
{
    wm_workspace_add_graph_locked(w, pool);
    if (!alone) {
        w->state = WM_WORKSPACE_SERVING;
    } else if (retain_locked(workspaces, w)) {
        leaks->of_graphs = w->bytes;
    }
}

/* Claimed to record its event. */
static void begin_marking_locked(wm_workspace *w)
{
    w->marking = wm_window_thread();
    w->ended = false;
}

/* Records the event of a CLAIMED workspace. alone: its handle or stream ends,
 * and then only graphs may use w. False: that cannot be now, and w has the
 * state that says why. */
static bool mark_claimed(wm_workspaces *workspaces, wm_workspace *w, bool alone,
                         struct leaks *leaks)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;
    bool done = record_event(workspaces, w, &capture) == WARM_OK;
    uint64_t pool;

    /* Calls filters of the program; the stream is not destroyed meanwhile. */
    pool = done && capture == WM_CAPTURE_ACTIVE
               ? wm_workspaces_private_pool_of(workspaces, w->stream)
               : 0;
    wm_lock_acquire(&workspaces->lock);
    w->marking = 0;
    wm_cond_broadcast(&workspaces->marked);
    if (!done) {
        w->state = WM_WORKSPACE_RETAINED;
        leaks->bytes += w->bytes;
    } else if (capture == WM_CAPTURE_ACTIVE) {
        retain_for_graph_locked(workspaces, w, pool, alone || w->ended, leaks);
    } else if (capture != WM_CAPTURE_NONE) {
        w->state = WM_WORKSPACE_NO_EVENT;
    }
    wm_lock_release(&workspaces->lock);
    return done && capture == WM_CAPTURE_NONE;
}

/* Claims w for a release. A workspace whose stream ends while a handle is bound
 * to it gets its event now, and is free once the handle has left it. */
static bool claim_locked(wm_workspace *w, const struct which *which)
{
    if (which->handle != NULL) { /* that ends: no thread binds it */
        atomic_store_explicit(&w->use, 0, memory_order_relaxed);
    }
    if (!wm_workspace_claim_locked(w)) {
        if (!which->of_stream) {
            return false;
        }
        w->state = WM_WORKSPACE_CLAIMED;
    }
    begin_marking_locked(w);
    return true;
}

/* Releases all that match; captured ones are retained for their graphs. */
static void release_matching(wm_workspaces *workspaces,
                             const struct which *which, bool alone)
{
    wm_workspace *claimed = NULL;
    struct leaks leaks = {0, 0};

    WM_KEEP_ERROR();
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (!matches(w, which)) {
            continue;
        }
        if (which->since_ns != 0) {
            atomic_store_explicit(&w->since_ns, which->since_ns,
                                  memory_order_relaxed);
        }
        if (w->captured) {
            if (retain_locked(workspaces, w)) {
                leaks.of_graphs = w->bytes;
            }
        } else if (claim_locked(w, which)) {
            w->next_claimed = claimed;
            claimed = w;
        }
    }
    wm_lock_release(&workspaces->lock);
    while (claimed != NULL) {
        wm_workspace *w = claimed;

        claimed = w->next_claimed;
        if (mark_claimed(workspaces, w, alone, &leaks)) {
            wm_workspace_set_state(workspaces, w, WM_WORKSPACE_PENDING);
        }
    }
    log_leaks(workspaces, &leaks);
}

void wm_workspaces_record_events(wm_workspaces *workspaces)
{
    const struct which which = {.state = WM_WORKSPACE_NO_EVENT};

    release_matching(workspaces, &which, true);
}

void wm_workspaces_release_idle(wm_workspaces *workspaces, uint64_t before)
{
    const struct which which = {.state = WM_WORKSPACE_SERVING,
                                .idle = true,
                                .current = is_current(workspaces),
                                .before = before};

    wm_workspaces_record_events(workspaces);
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

/* Whether another thread records an event behind the stream; a mark of this
 * thread is around this call, which a callback makes. Whoever has claimed a
 * workspace of the stream is told of the stream's end. */
static bool is_marked_locked(const wm_workspaces *workspaces,
                             const struct which *which)
{
    bool found = false;

    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->state == WM_WORKSPACE_CLAIMED && is_of_stream(w, which)) {
            w->ended = true;
            found |= w->marking != 0 && w->marking != wm_window_thread();
        }
    }
    return found;
}

/* Waits until no other thread records an event behind the stream. Returns
 * whether one did: its workspace may serve the stream again. */
static bool await_marks(wm_workspaces *workspaces, const struct which *which)
{
    bool waited = false;

    wm_lock_acquire(&workspaces->lock);
    while (is_marked_locked(workspaces, which)) {
        wm_cond_wait(&workspaces->marked, &workspaces->lock);
        waited = true;
    }
    wm_lock_release(&workspaces->lock);
    return waited;
}

void wm_workspaces_retire_stream(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id)
{
    struct which which = {.state = WM_WORKSPACE_SERVING,
                          .of_stream = true,
                          .stream = stream,
                          .stream_id = wm_workspace_id(stream, stream_id),
                          .since_ns = wm_clock_ns()};

    do {
        which.state = WM_WORKSPACE_SERVING;
        release_matching(workspaces, &which, true);
        if (stream == WARM_STREAM_PER_THREAD) { /* no other can record */
            which.state = WM_WORKSPACE_NO_EVENT;
            release_matching(workspaces, &which, true);
        }
    } while (await_marks(workspaces, &which));
}

wm_workspace *wm_workspace_claim_of_stream(wm_workspaces *workspaces,
                                           warm_stream stream,
                                           uint64_t stream_id, size_t bytes)
{
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    w = *wm_workspaces_of_stream(workspaces, stream);
    while (w != NULL && ((w->state != WM_WORKSPACE_SERVING &&
                          w->state != WM_WORKSPACE_PENDING &&
                          w->state != WM_WORKSPACE_NO_EVENT) ||
                         w->captured || w->stream_id != stream_id ||
                         w->bytes < bytes || !wm_workspace_claim_locked(w))) {
        w = w->of_stream.next;
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

/* Claims the workspace that was left longest ago. *pending: an event is
 * recorded behind its work. */
static wm_workspace *claim_left_first(wm_workspaces *workspaces, size_t bytes,
                                      bool current, bool *pending)
{
    wm_workspace *oldest;

    wm_lock_acquire(&workspaces->lock);
    do {
        oldest = NULL;
        for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
            bool may = w->state == WM_WORKSPACE_PENDING ||
                       (w->state == WM_WORKSPACE_SERVING && !w->captured &&
                        may_record(w, current));

            if (may && w->bytes >= bytes && !wm_workspace_is_bound(w) &&
                (oldest == NULL ||
                 wm_workspace_since(w) < wm_workspace_since(oldest))) {
                oldest = w;
            }
        }
        *pending = oldest != NULL && oldest->state == WM_WORKSPACE_PENDING;
        /* A thread may bind its handle to it again meanwhile. */
    } while (oldest != NULL && !wm_workspace_claim_locked(oldest));
    if (oldest != NULL && !*pending) {
        begin_marking_locked(oldest);
    }
    wm_lock_release(&workspaces->lock);
    return oldest;
}

wm_workspace *wm_workspace_claim_oldest(wm_workspaces *workspaces,
                                        warm_stream stream, size_t bytes)
{
    bool current = is_current(workspaces), pending;
    wm_workspace *w;

    wm_workspaces_record_events(workspaces);
    while ((w = claim_left_first(workspaces, bytes, current, &pending)) !=
           NULL) {
        struct leaks leaks = {0, 0};

        if (!pending && !mark_claimed(workspaces, w, false, &leaks)) {
            log_leaks(workspaces, &leaks);
            continue;
        }
        if (wm_driver_stream_wait_event(workspaces->driver, stream, w->event) ==
            WARM_OK) {
            return w;
        }
        wm_workspace_set_state(workspaces, w, WM_WORKSPACE_PENDING);
        return NULL;
    }
    return NULL;
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
                                   before)) != NULL) {
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
        queried->state = WM_WORKSPACE_PENDING;
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

size_t wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns)
{
    uint64_t now = wm_clock_ns();
    /* 0 means all: the end of a binding may be known to a tick only. */
    uint64_t last = idle_ns == 0     ? UINT64_MAX
                    : now >= idle_ns ? now - idle_ns
                                     : 0;
    wm_workspace_stats held, left;
    enum wm_workspace_state was;
    wm_workspace *w;
    bool mode, relaxed;
    wm_breaking breaking;

    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return 0;
    }
    WM_KEEP_ERROR();
    wm_workspaces_get_stats(workspaces, &held);
    relaxed = wm_driver_capture_relaxed_begin(workspaces->driver, &mode);
    if (!relaxed && !wm_captures_begin_break(workspaces->captures, &breaking,
                                             workspaces->device, NULL)) {
        return 0; /* the query of an event would break a capture */
    }
    wm_workspaces_release_idle(workspaces, last);
    do {
        was = WM_WORKSPACE_UNUSED;
        w = wm_workspace_claim(workspaces, was, 0, UINT64_MAX);
        if (w == NULL) {
            was = WM_WORKSPACE_PENDING;
            w = wm_workspace_claim_completed(workspaces, 0, last);
        }
    } while (w != NULL && wm_workspace_free(workspaces, w, was));
    if (relaxed) {
        wm_driver_capture_relaxed_end(workspaces->driver, &mode);
    } else {
        wm_captures_end_break(workspaces->captures, &breaking);
    }
    wm_workspaces_get_stats(workspaces, &left);
    return left.bytes < held.bytes ? (size_t)(held.bytes - left.bytes) : 0;
}
