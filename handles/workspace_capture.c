/* workspace_capture.c: workspaces that graphs have (row A10). See workspace.h.
 *
 *   SERVING ─ a capture may use it ─► marked ─ bound again in it ─► SERVING
 *                                       │
 *                       the capture ends│
 *                                       ▼
 *   for a capture ─► SERVING ──────► captured ─ stream or handle goes ─► LOST
 *                       ▲               │ the last private pool goes      │
 *                       └ still bound ──┴──────────────────────────► OVER ◄┘
 */
#include "handles/workspace_int.h"

/* Whether a graph may hold what is queued on the stream now. An error counts
 * as yes: the memory is then kept, which is safe. */
bool wm_workspaces_stream_captures(wm_workspaces *workspaces,
                                   warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_ACTIVE;

    return wm_driver_stream_capture(workspaces->driver, stream, &capture) !=
               WARM_OK ||
           capture == WM_CAPTURE_ACTIVE;
}

static unsigned find_pool(const wm_workspace *w, uint64_t pool)
{
    unsigned i = 0;

    while (i < w->pools && w->pool[i] != pool) {
        i++;
    }
    return i;
}

/* Of graphs of no pool nobody says when they go. */
void wm_workspace_add_graph_locked(wm_workspace *w, uint64_t pool)
{
    unsigned i = find_pool(w, pool);

    w->captured = true;
    if (pool == 0 || i == WM_WORKSPACE_POOLS) {
        w->for_ever = true;
    } else if (i == w->pools) {
        w->pool[w->pools++] = pool;
    }
}

bool wm_workspace_is_of_pool(const wm_workspace *w, uint64_t pool)
{
    return !w->for_ever && w->pools == 1 && w->pool[0] == pool;
}

static wm_workspace *serving_locked(wm_workspaces *workspaces,
                                    uint64_t stream_id)
{
    wm_workspace *w = workspaces->list;

    while (w != NULL &&
           (w->state != WM_WORKSPACE_SERVING || w->stream_id != stream_id)) {
        w = w->next;
    }
    return w;
}

uint64_t wm_workspaces_private_pool_of(wm_workspaces *workspaces,
                                       warm_stream stream)
{
    return workspaces->pool_of != NULL
               ? workspaces->pool_of(workspaces->pools, stream)
               : 0;
}

static void mark_locked(wm_workspace *w, uint64_t pool,
                        enum wm_workspace_mark mark)
{
    /* An earlier capture, of which nobody said that it is over, may have used
     * it: it stays captured. */
    bool again = w->mark == WM_MARK_BEGUN && mark == WM_MARK_ANNOUNCED;

    if (again || (w->captured && w->mark == WM_MARK_NONE)) {
        mark = WM_MARK_NONE;
    }
    w->mark = mark;
    wm_workspace_add_graph_locked(w, pool);
}

void wm_workspaces_begin_capture(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id, bool begun)
{
    uint64_t pool = wm_workspaces_private_pool_of(workspaces, stream);

    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->state == WM_WORKSPACE_SERVING && w->stream_id == stream_id &&
            !w->of_captures) { /* those have their graphs' pool */
            mark_locked(w, pool, begun ? WM_MARK_BEGUN : WM_MARK_ANNOUNCED);
        }
    }
    wm_lock_release(&workspaces->lock);
}

static void unmark_locked(wm_workspace *w)
{
    if (w->mark != WM_MARK_NONE) {
        w->mark = WM_MARK_NONE;
        w->captured = w->for_ever = false;
        w->pools = 0;
    }
}

void wm_workspaces_end_capture(wm_workspaces *workspaces, warm_stream stream,
                               bool begun)
{
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->state != WM_WORKSPACE_SERVING || w->stream != stream) {
            continue;
        }
        if (begun) {
            w->mark = WM_MARK_NONE;
        } else {
            unmark_locked(w);
        }
    }
    wm_lock_release(&workspaces->lock);
}

void wm_workspaces_rebound_locked(wm_workspaces *workspaces,
                                  const wm_workspace_key *user, bool captures)
{
    for (wm_workspace *w = *wm_workspaces_bucket(workspaces, user->handle);
         w != NULL; w = w->next_serving) {
        if (w->handle != user->handle || w->stream != user->stream) {
            continue;
        }
        if (captures) {
            unmark_locked(w);
        } else if (w->mark == WM_MARK_BEGUN) {
            w->mark = WM_MARK_NONE;
        }
    }
}

bool wm_workspaces_note_capture(wm_workspaces *workspaces, warm_stream stream,
                                uint64_t stream_id)
{
    warm_error before = {.size = sizeof before};
    bool noted;

    warm_last_error(&before);
    wm_lock_acquire(&workspaces->lock);
    noted = serving_locked(workspaces, stream_id) != NULL;
    wm_lock_release(&workspaces->lock);
    noted = noted && wm_workspaces_stream_captures(workspaces, stream);
    if (noted) {
        wm_workspaces_begin_capture(workspaces, stream, stream_id, true);
    }
    wm_error_restore(&before);
    return noted;
}

/* The graphs of a pool that it was of have gone. One that served a stream
 * before the capture goes on with that; and one whose handle was not bound to
 * another one since, and may be in use, serves that until it is let go. */
static void end_locked(wm_workspaces *workspaces, wm_workspace *w, unsigned at)
{
    w->pool[at] = w->pool[--w->pools];
    if (w->pools > 0 || w->for_ever) {
        return;
    }
    w->captured = false;
    w->mark = WM_MARK_NONE;
    if (w->state == WM_WORKSPACE_RETAINED ||
        (w->of_captures && !wm_workspace_is_bound(workspaces, w))) {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_UNUSED);
    }
}

static void drop_all(wm_workspaces *workspaces)
{
    warm_error before = {.size = sizeof before};
    bool mode, relaxed;
    wm_workspace *w;

    warm_last_error(&before);
    relaxed = wm_driver_relax(workspaces->driver, &mode);
    do {
        w = wm_workspace_claim(workspaces, 0, UINT64_MAX, WM_WORKSPACE_UNUSED);
    } while (w != NULL &&
             wm_workspace_free(workspaces, w, WM_WORKSPACE_UNUSED));
    if (relaxed) {
        wm_driver_unrelax(workspaces->driver, &mode);
    }
    wm_error_restore(&before);
}

void wm_workspaces_end_private_pool(wm_workspaces *workspaces, uint64_t pool,
                                    bool later)
{
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        unsigned at = find_pool(w, pool);

        if (at < w->pools) {
            end_locked(workspaces, w, at);
        }
    }
    wm_lock_release(&workspaces->lock);
    if (!later) {
        drop_all(workspaces);
    }
}
