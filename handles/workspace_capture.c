/* workspace_capture.c: workspaces that graphs have (row A10). See workspace.h.
 *
 *   SERVING ─ a capture uses it ─► captured ─ stream or handle goes ─► LOST
 *                                     └──── the last private pool goes ──┴►
 * OVER
 */
#include "handles/workspace_int.h"

/* Whether a graph may hold what is queued on the stream now. An error counts
 * as yes: the memory is then kept, which is safe. */
bool wm_workspace_captures(wm_workspaces *workspaces, warm_stream stream)
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
void wm_workspace_capture_locked(wm_workspace *w, uint64_t pool)
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
    return pool == 0 ? w->for_ever && w->pools == 0
                     : !w->for_ever && w->pools == 1 && w->pool[0] == pool;
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

uint64_t wm_workspace_pool_of(wm_workspaces *workspaces, warm_stream stream)
{
    return workspaces->pool_of != NULL
               ? workspaces->pool_of(workspaces->pools, stream)
               : 0;
}

void wm_workspaces_captured(wm_workspaces *workspaces, warm_stream stream,
                            uint64_t stream_id)
{
    uint64_t pool = wm_workspace_pool_of(workspaces, stream);

    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->state == WM_WORKSPACE_SERVING && w->stream_id == stream_id &&
            !w->of_captures) { /* those have their graphs' pool */
            wm_workspace_capture_locked(w, pool);
        }
    }
    wm_lock_release(&workspaces->lock);
}

bool wm_workspaces_note(wm_workspaces *workspaces, warm_stream stream,
                        uint64_t stream_id)
{
    warm_error before = {.size = sizeof before};
    bool noted;

    warm_last_error(&before);
    wm_lock_acquire(&workspaces->lock);
    noted = serving_locked(workspaces, stream_id) != NULL;
    wm_lock_release(&workspaces->lock);
    noted = noted && wm_workspace_captures(workspaces, stream);
    if (noted) {
        wm_workspaces_captured(workspaces, stream, stream_id);
    }
    wm_error_restore(&before);
    return noted;
}

/* The graphs of a pool that it was of have gone. One that serves a stream
 * outside of captures, too, goes on with that. */
static void end_locked(wm_workspaces *workspaces, wm_workspace *w, unsigned at)
{
    w->pool[at] = w->pool[--w->pools];
    if (w->pools > 0 || w->for_ever) {
        return;
    }
    w->captured = false;
    if (w->state == WM_WORKSPACE_LOST || w->of_captures) {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_OVER);
    }
}

static void drop_all(wm_workspaces *workspaces)
{
    warm_error before = {.size = sizeof before};
    bool mode, relaxed;
    wm_workspace *w;

    warm_last_error(&before);
    relaxed = wm_driver_relax(workspaces->driver, &mode);
    while ((w = wm_workspace_take(workspaces, 0, UINT64_MAX,
                                  WM_WORKSPACE_OVER)) != NULL) {
        wm_workspace_drop(workspaces, w);
    }
    if (relaxed) {
        wm_driver_unrelax(workspaces->driver, &mode);
    }
    wm_error_restore(&before);
}

void wm_workspaces_pool_over(wm_workspaces *workspaces, uint64_t pool,
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
