/* workspace_release.c: workspaces on their way from one user to the next, or
 * back to the driver; see workspace_int.h.
 *
 * Those that are to be let go are taken out of the reach of others all at once,
 * under the lock; events are recorded outside of it. */
#include "handles/kind.h"
#include "handles/workspace_int.h"
#include "runtime/base/bytes.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

static bool is_default(warm_stream stream)
{
    return (uintptr_t)stream <= (uintptr_t)WARM_STREAM_PER_THREAD;
}

/* Which ones to take. */
struct which {
    wm_workspaces *workspaces;
    const void *handle;
    warm_stream stream;
    uint64_t stream_id, before;
    uint64_t since_ns; /* from when on they serve nobody; 0: as they say */
};

typedef bool (*is_fn)(const wm_workspace *w, const struct which *which);

static bool is_unmarked(const wm_workspace *w, const struct which *which)
{
    (void)which;
    return w->state == WM_WORKSPACE_NO_EVENT;
}

/* At the stream's address nothing else is alive; the id is another one while it
 * captures. */
static bool is_of_stream(const wm_workspace *w, const struct which *which)
{
    return w->state == WM_WORKSPACE_SERVING &&
           (w->stream_id == which->stream_id || w->stream == which->stream);
}

static bool is_of_handle(const wm_workspace *w, const struct which *which)
{
    return w->state == WM_WORKSPACE_SERVING && w->handle == which->handle;
}

static bool is_kept(const wm_workspace *w, const struct which *which)
{
    return w->state == WM_WORKSPACE_SERVING && !w->captured &&
           w->since_ns <= which->before &&
           !wm_workspace_is_bound(which->workspaces, w);
}

/* The legacy stream's name is that of another one while the calling thread's
 * device is another one. */
static bool can_name(wm_workspaces *workspaces, const wm_workspace *w)
{
    int device = -1;

    return !is_default(w->stream) ||
           (wm_driver_current_device(workspaces->driver, &device) == WARM_OK &&
            device == workspaces->device);
}

/* Records the event behind the stream's last work, unless it captures. */
static warm_status mark(wm_workspaces *workspaces, wm_workspace *w,
                        wm_capture *capture)
{
    warm_status status = WARM_OK;

    *capture = WM_CAPTURE_BLOCKED;
    if (!can_name(workspaces, w)) {
        return WARM_OK;
    }
    if (w->event == NULL) {
        status = wm_driver_event_create(workspaces->driver, workspaces->device,
                                        &w->event);
    }
    if (status == WARM_OK) {
        status = wm_driver_event_mark(workspaces->driver, w->event, w->stream,
                                      capture);
    }
    return status;
}

/* Only graphs have it from here on. True if nobody will say when they go, and
 * that is to be logged: the first on a device is. */
static bool leave_locked(wm_workspaces *workspaces, wm_workspace *w)
{
    bool first = w->for_ever && !workspaces->said;

    workspaces->said = workspaces->said || first;
    wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_RETAINED);
    return first;
}

static void log_for_ever(wm_workspaces *workspaces, size_t bytes)
{
    wm_log(WARM_LOG_WARNING,
           "a workspace of %s on device %d is kept for ever, since a graph of "
           "no private pool may use it: reserve the handle again in the "
           "capture, or capture with a private pool "
           "(warm_private_pool_begin()) and release that with the graph",
           wm_bytes(bytes).text, workspaces->device);
}

/* A capture is under way that may use it. */
static void leave_to_graph(wm_workspaces *workspaces, wm_workspace *w,
                           bool alone)
{
    uint64_t pool = wm_workspaces_private_pool_of(workspaces, w->stream);
    size_t bytes = w->bytes;
    bool first = false;

    wm_lock_acquire(&workspaces->lock);
    wm_workspace_add_graph_locked(w, pool);
    if (alone) {
        first = leave_locked(workspaces, w);
    } else {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_SERVING);
    }
    wm_lock_release(&workspaces->lock);
    if (first) {
        log_for_ever(workspaces, bytes);
    }
}

/* What becomes of one that is TAKEN and that its handle uses no more: alone:
 * since handle or stream go. */
static void let_go(wm_workspaces *workspaces, wm_workspace *w, bool alone)
{
    wm_capture capture;

    if (mark(workspaces, w, &capture) != WARM_OK) {
        wm_workspace_leak(workspaces, w);
    } else if (capture == WM_CAPTURE_ACTIVE) {
        leave_to_graph(workspaces, w, alone);
    } else {
        wm_workspace_set_state(workspaces, w,
                               capture == WM_CAPTURE_NONE
                                   ? WM_WORKSPACE_PENDING
                                   : WM_WORKSPACE_NO_EVENT);
    }
}

/* Lets go of all that are such; graphs keep what they have. */
static void let_go_of(wm_workspaces *workspaces, is_fn is,
                      const struct which *which, bool alone)
{
    warm_error before = {.size = sizeof before};
    wm_workspace *taken = NULL;
    size_t first = 0;

    warm_last_error(&before);
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (!is(w, which)) {
            continue;
        }
        if (which->since_ns != 0) {
            w->since_ns = which->since_ns;
        }
        if (w->captured) {
            first = leave_locked(workspaces, w) ? w->bytes : first;
            continue;
        }
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_CLAIMED);
        w->next_taken = taken;
        taken = w;
    }
    wm_lock_release(&workspaces->lock);
    if (first != 0) {
        log_for_ever(workspaces, first);
    }
    while (taken != NULL) {
        wm_workspace *w = taken;

        taken = w->next_taken;
        let_go(workspaces, w, alone);
    }
    wm_error_restore(&before);
}

void wm_workspaces_record_events(wm_workspaces *workspaces)
{
    const struct which which = {.workspaces = workspaces};

    let_go_of(workspaces, is_unmarked, &which, true);
}

void wm_workspaces_release_unbound(wm_workspaces *workspaces, uint64_t before)
{
    const struct which which = {.workspaces = workspaces, .before = before};

    let_go_of(workspaces, is_kept, &which, false);
}

void wm_workspaces_detach(wm_workspaces *workspaces, const void *handle)
{
    const struct which which = {.handle = handle};
    bool mode;
    bool relaxed = wm_driver_relax(workspaces->driver, &mode);

    let_go_of(workspaces, is_of_handle, &which, true);
    if (relaxed) {
        wm_driver_unrelax(workspaces->driver, &mode);
    }
}

void wm_workspaces_retire_stream(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id)
{
    const struct which which = {
        .stream = stream, .stream_id = stream_id, .since_ns = wm_clock_ns()};

    let_go_of(workspaces, is_of_stream, &which, true);
}

/* What the handle has kept longest, if it keeps too many. That of a default
 * stream is one at most, and does not count. */
static wm_workspace *take_oldest(wm_workspaces *workspaces, const void *handle)
{
    wm_workspace *oldest = NULL, *w;
    unsigned count = 0;

    wm_lock_acquire(&workspaces->lock);
    for (w = *wm_workspaces_bucket(workspaces, handle); w != NULL;
         w = w->next_serving) {
        if (w->handle == handle && !w->captured && !is_default(w->stream)) {
            count++;
            oldest = oldest == NULL || w->turn < oldest->turn ? w : oldest;
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
                                const wm_workspace_key *user)
{
    wm_workspace *w;

    while (!is_default(user->stream) &&
           (w = take_oldest(workspaces, user->handle)) != NULL) {
        let_go(workspaces, w, false);
    }
}

static void put_back(wm_workspaces *workspaces, wm_workspace *asked)
{
    wm_lock_acquire(&workspaces->lock);
    for (; asked != NULL; asked = asked->next_taken) {
        wm_workspace_set_state_locked(workspaces, asked, WM_WORKSPACE_PENDING);
    }
    wm_lock_release(&workspaces->lock);
}

/* Asks each passing one in turn, so that a stuck stream holds up only its
 * own; those asked in vain are chained up and put back after the search. */
wm_workspace *wm_workspace_claim_completed(wm_workspaces *workspaces,
                                           size_t bytes, uint64_t before)
{
    wm_workspace *asked = NULL;
    wm_workspace *w;

    while ((w = wm_workspace_claim(workspaces, bytes, before,
                                   WM_WORKSPACE_PENDING)) != NULL) {
        warm_status status =
            wm_driver_event_query(workspaces->driver, w->event);

        if (status == WARM_OK) {
            break;
        }
        if (status == WARM_NOT_READY) {
            w->next_taken = asked;
            asked = w;
        } else {
            wm_workspace_leak(workspaces, w);
        }
    }
    put_back(workspaces, asked);
    return w;
}

void wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns)
{
    warm_error before = {.size = sizeof before};
    uint64_t now = wm_clock_ns();
    uint64_t last = now >= idle_ns ? now - idle_ns : 0;
    wm_workspace *w;
    bool mode, relaxed, dropped;

    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return;
    }
    warm_last_error(&before);
    relaxed = wm_driver_relax(workspaces->driver, &mode);
    wm_workspaces_record_events(workspaces);
    wm_workspaces_release_unbound(workspaces, last);
    do {
        enum wm_workspace_state was = WM_WORKSPACE_UNUSED;

        w = wm_workspace_claim(workspaces, 0, UINT64_MAX, was);
        if (w == NULL) {
            was = WM_WORKSPACE_PENDING;
            w = wm_workspace_claim_completed(workspaces, 0, last);
        }
        dropped = w != NULL && wm_workspace_free(workspaces, w, was);
    } while (dropped);
    if (relaxed) {
        wm_driver_unrelax(workspaces->driver, &mode);
    }
    wm_error_restore(&before);
}
