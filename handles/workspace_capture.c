/* workspace_capture.c: workspaces that graphs use (row A10, workspace.h).
 *
 *   SERVING ─ a capture may use it ─► marked ─ bound again in it ─► SERVING
 *                                       │
 *                      the capture ends │
 *                                       ▼
 *   bound in a capture ─► SERVING ► captured ─ stream or handle ─► RETAINED
 *                            ▲          │      is released             │
 *                            │          │ its last private pool ends   │
 *                            └ bound ───┴──────────────────► UNUSED ◄──┘
 */
#include "handles/workspace_int.h"

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

/* No call reports the end of graphs of no private pool. */
void wm_workspace_add_graph_locked(wm_workspace *w, uint64_t pool)
{
    unsigned i = find_pool(w, pool);

    w->captured = true;
    if (pool == 0 || i == WM_WORKSPACE_POOLS) {
        w->untracked = true;
    } else if (i == w->pools) {
        w->pool[w->pools++] = pool;
    }
}

bool wm_workspace_is_of_pool(const wm_workspace *w, uint64_t pool)
{
    return !w->untracked && w->pools == 1 && w->pool[0] == pool;
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
    /* An earlier capture whose end was not reported may have used it: it stays
     * captured. */
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
            !w->for_graphs) { /* for_graphs: its private pool is known */
            mark_locked(w, pool, begun ? WM_MARK_BEGUN : WM_MARK_ANNOUNCED);
        }
    }
    wm_lock_release(&workspaces->lock);
}

static void unmark_locked(wm_workspace *w)
{
    if (w->mark != WM_MARK_NONE) {
        w->mark = WM_MARK_NONE;
        w->captured = w->untracked = false;
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
                                  const wm_workspace_key *key, bool captures)
{
    for (wm_workspace *w = *wm_workspaces_bucket(workspaces, key->handle);
         w != NULL; w = w->next_of_handle) {
        if (w->handle != key->handle || w->stream != key->stream) {
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

/* The graphs of private pool w->pool[at] are gone. If w served a stream before
 * the capture it serves that stream on; if its handle is still bound to it, it
 * serves the handle until it is released. */
static void end_locked(wm_workspaces *workspaces, wm_workspace *w, unsigned at)
{
    w->pool[at] = w->pool[--w->pools];
    if (w->pools > 0 || w->untracked) {
        return;
    }
    w->captured = false;
    w->mark = WM_MARK_NONE;
    if (w->state == WM_WORKSPACE_RETAINED ||
        (w->for_graphs && !wm_workspace_is_bound(workspaces, w))) {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_UNUSED);
    }
}

static void free_unused(wm_workspaces *workspaces)
{
    warm_error before = {.size = sizeof before};
    bool mode, relaxed;
    wm_workspace *w;

    warm_last_error(&before);
    relaxed = wm_driver_capture_relaxed_begin(workspaces->driver, &mode);
    do {
        w = wm_workspace_claim(workspaces, 0, UINT64_MAX, WM_WORKSPACE_UNUSED);
    } while (w != NULL &&
             wm_workspace_free(workspaces, w, WM_WORKSPACE_UNUSED));
    if (relaxed) {
        wm_driver_capture_relaxed_end(workspaces->driver, &mode);
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
        free_unused(workspaces);
    }
}
