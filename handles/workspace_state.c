/* workspace_state.c: moves workspaces between states, frees them, and records
 * which graphs use them (row A10, workspace_int.h).
 *
 *   SERVING ─ a capture may use it ─► marked ─ bound again in it ─► SERVING
 *                                       │
 *                      the capture ends │
 *                                       ▼
 *   bound in a capture ─► SERVING ► captured ─ stream or handle ─► RETAINED
 *                            ▲          │      is released             │
 *                            │          │ its last private pool ends   │
 *                            └ bound ───┴──────────────────► UNUSED ◄──┘ */
#include "handles/workspace_int.h"

#include "handles/kind.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

/* ---- states ------------------------------------------------------------- */

#define LINK(w, link, list)                                                    \
    do {                                                                       \
        wm_workspace **list_ = (list);                                         \
                                                                               \
        (w)->link.next = *list_;                                               \
        (w)->link.back = list_;                                                \
        if (*list_ != NULL) {                                                  \
            (*list_)->link.back = &(w)->link.next;                             \
        }                                                                      \
        *list_ = (w);                                                          \
    } while (0)

#define UNLINK(w, link)                                                        \
    do {                                                                       \
        if ((w)->link.back != NULL) {                                          \
            *(w)->link.back = (w)->link.next;                                  \
            if ((w)->link.next != NULL) {                                      \
                (w)->link.next->link.back = (w)->link.back;                    \
            }                                                                  \
            (w)->link.back = NULL;                                             \
        }                                                                      \
    } while (0)

static void unlink_locked(wm_workspace *w)
{
    UNLINK(w, of_handle);
    UNLINK(w, of_stream);
}

void wm_workspace_link_locked(wm_workspaces *workspaces, wm_workspace *w)
{
    unlink_locked(w);
    LINK(w, of_handle, wm_workspaces_of_handle(workspaces, w->handle));
    LINK(w, of_stream, wm_workspaces_of_stream(workspaces, w->stream));
}

void wm_workspace_set_state(wm_workspaces *workspaces, wm_workspace *w,
                            enum wm_workspace_state state)
{
    wm_lock_acquire(&workspaces->lock);
    w->state = state;
    wm_lock_release(&workspaces->lock);
}

bool wm_workspace_claim_locked(wm_workspace *w)
{
    /* Relaxed: compared again. */
    uintptr_t use = atomic_load_explicit(&w->use, memory_order_relaxed);

    /* Acquire: see use. */
    if ((use & WM_WORKSPACE_BOUND) != 0 ||
        !atomic_compare_exchange_strong_explicit(
            &w->use, &use, 0, memory_order_acquire, memory_order_relaxed)) {
        return false;
    }
    w->state = WM_WORKSPACE_CLAIMED;
    return true;
}

wm_workspace *wm_workspace_claim(wm_workspaces *workspaces,
                                 enum wm_workspace_state state, size_t bytes,
                                 uint64_t before)
{
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    w = workspaces->list;
    while (w != NULL &&
           (w->state != state || w->bytes < bytes ||
            wm_workspace_since(w) > before || !wm_workspace_claim_locked(w))) {
        w = w->next;
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

bool wm_workspace_is_eager(const wm_workspace *w)
{
    return !w->captured && w->state != WM_WORKSPACE_RETAINED &&
           w->state != WM_WORKSPACE_UNUSED;
}

void wm_workspaces_get_stats(wm_workspaces *workspaces,
                             wm_workspace_stats *stats)
{
    *stats = (wm_workspace_stats){0};
    wm_lock_acquire(&workspaces->lock);
    stats->count = workspaces->count;
    stats->bytes = workspaces->held_bytes;
    stats->above = workspaces->above;
    for (const wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (wm_workspace_is_eager(w) && !wm_workspace_is_bound(w)) {
            stats->idle++;
            stats->idle_bytes += w->bytes;
        }
    }
    wm_lock_release(&workspaces->lock);
}

/* No stream of a driver has such an id, nor has a capture. */
uint64_t wm_workspace_thread_id(void)
{
    return UINT64_C(1) << 62 | wm_window_thread();
}

uint64_t wm_workspace_id(warm_stream stream, uint64_t stream_id)
{
    return stream == WARM_STREAM_PER_THREAD &&
                   stream_id != wm_stream_capture_id(stream)
               ? wm_workspace_thread_id()
               : stream_id;
}

void wm_workspaces_log_leak(wm_workspaces *workspaces, size_t bytes)
{
    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return; /* the loss of the device was logged */
    }
    wm_log(WARM_LOG_WARNING,
           "workspace memory of %s on device %d is leaked: %s",
           wm_bytes(bytes).text, workspaces->device, warm_last_error_message());
}

void wm_workspace_leak(wm_workspaces *workspaces, wm_workspace *w)
{
    wm_workspace_set_state(workspaces, w, WM_WORKSPACE_RETAINED);
    wm_workspaces_log_leak(workspaces, w->bytes);
}

void wm_workspaces_unreserve(wm_workspaces *workspaces, size_t bytes)
{
    const wm_workspace_hooks *hooks = &workspaces->hooks;

    if (hooks->unreserve != NULL) {
        hooks->unreserve(hooks->runtime, workspaces->device, bytes);
    }
}

bool wm_workspace_free(wm_workspaces *workspaces, wm_workspace *w,
                       enum wm_workspace_state else_state)
{
    const wm_captures *captures = workspaces->captures;
    wm_workspace **at = &workspaces->list;
    wm_breaking breaking;
    warm_status status;

    if (!wm_captures_begin_break(captures, &breaking, workspaces->device,
                                 NULL)) {
        wm_workspace_set_state(workspaces, w, else_state);
        captures->note(captures->runtime);
        return false;
    }
    status = wm_driver_device_free(workspaces->driver, workspaces->device,
                                   w->memory);
    wm_captures_end_break(captures, &breaking);
    if (status != WARM_OK) {
        wm_workspace_leak(workspaces, w);
        return true;
    }
    if (w->event != NULL) {
        (void)wm_driver_event_destroy(workspaces->driver, w->event);
    }
    wm_workspaces_unreserve(workspaces, w->bytes);
    wm_lock_acquire(&workspaces->lock);
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    workspaces->count--;
    workspaces->held_bytes -= w->bytes;
    unlink_locked(w);
    w->event = NULL;
    w->next = workspaces->spare;
    workspaces->spare = w;
    wm_lock_release(&workspaces->lock);
    return true;
}

/* ---- captures and graphs ------------------------------------------------ */

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

/* pool 0, or one too many: no call will report the end of this graph, so the
 * workspace is untracked. */
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

/* The next workspace, from w on, that serves the stream. */
static wm_workspace *serving_locked(wm_workspace *w, uint64_t stream_id)
{
    while (w != NULL &&
           (w->state != WM_WORKSPACE_SERVING || w->stream_id != stream_id)) {
        w = w->of_stream.next;
    }
    return w;
}

uint64_t wm_workspaces_private_pool_of(wm_workspaces *workspaces,
                                       warm_stream stream)
{
    const wm_workspace_hooks *hooks = &workspaces->hooks;

    return hooks->pool_of != NULL ? hooks->pool_of(hooks->runtime, stream) : 0;
}

static void mark_locked(wm_workspace *w, uint64_t pool,
                        enum wm_workspace_mark mark)
{
    /* An earlier capture whose end was not reported may have used the
     * workspace, which therefore stays captured. */
    bool again = w->mark == WM_MARK_BEGUN && mark == WM_MARK_ANNOUNCED;

    if (again || (w->captured && w->mark == WM_MARK_NONE)) {
        mark = WM_MARK_NONE;
    }
    w->mark = mark;
    wm_workspace_add_graph_locked(w, pool);
}

static void unmark_locked(wm_workspace *w)
{
    if (w->mark != WM_MARK_NONE) {
        w->mark = WM_MARK_NONE;
        w->captured = w->untracked = false;
        w->pools = 0;
    }
}

void wm_workspaces_begin_capture(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id, bool begun)
{
    uint64_t pool = wm_workspaces_private_pool_of(workspaces, stream);
    uint64_t id = wm_workspace_id(stream, stream_id);
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    w = *wm_workspaces_of_stream(workspaces, stream);
    while ((w = serving_locked(w, id)) != NULL) {
        if (w->for_graphs) { /* its private pool is known */
        } else if (!begun || wm_workspace_is_bound(w)) {
            mark_locked(w, pool, begun ? WM_MARK_BEGUN : WM_MARK_ANNOUNCED);
        } else {
            unmark_locked(w); /* its handle must be bound again to be used */
        }
        w = w->of_stream.next;
    }
    wm_lock_release(&workspaces->lock);
}

void wm_workspaces_end_capture(wm_workspaces *workspaces, warm_stream stream,
                               bool begun)
{
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = *wm_workspaces_of_stream(workspaces, stream);
         w != NULL; w = w->of_stream.next) {
        if (w->state != WM_WORKSPACE_SERVING || w->stream != stream ||
            (w->stream_id != wm_workspace_thread_id() &&
             stream == WARM_STREAM_PER_THREAD)) {
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
    for (wm_workspace *w = *wm_workspaces_of_handle(workspaces, key->handle);
         w != NULL; w = w->of_handle.next) {
        if (w->state != WM_WORKSPACE_SERVING || w->handle != key->handle ||
            w->stream != key->stream) {
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
    bool noted;

    WM_KEEP_ERROR();
    wm_lock_acquire(&workspaces->lock);
    noted = serving_locked(*wm_workspaces_of_stream(workspaces, stream),
                           wm_workspace_id(stream, stream_id)) != NULL;
    wm_lock_release(&workspaces->lock);
    noted = noted && wm_workspaces_stream_captures(workspaces, stream);
    if (noted) {
        wm_workspaces_begin_capture(workspaces, stream, stream_id, true);
    }
    return noted;
}

/* The graphs of private pool w->pool[at] are gone. If w served a stream before
 * the capture, it continues to serve that stream. If its handle is still bound
 * to w, w serves the handle until it is released. */
static void end_locked(wm_workspace *w, unsigned at)
{
    w->pool[at] = w->pool[--w->pools];
    if (w->pools > 0 || w->untracked) {
        return;
    }
    w->captured = false;
    w->mark = WM_MARK_NONE;
    if (w->state == WM_WORKSPACE_RETAINED ||
        (w->for_graphs && wm_workspace_claim_locked(w))) {
        w->state = WM_WORKSPACE_UNUSED;
    }
}

static void free_unused(wm_workspaces *workspaces)
{
    bool mode, relaxed;
    wm_workspace *w;

    WM_KEEP_ERROR();
    relaxed = wm_driver_capture_relaxed_begin(workspaces->driver, &mode);
    do {
        w = wm_workspace_claim(workspaces, WM_WORKSPACE_UNUSED, 0, UINT64_MAX);
    } while (w != NULL &&
             wm_workspace_free(workspaces, w, WM_WORKSPACE_UNUSED));
    if (relaxed) {
        wm_driver_capture_relaxed_end(workspaces->driver, &mode);
    }
}

void wm_workspaces_end_private_pool(wm_workspaces *workspaces, uint64_t pool,
                                    bool later)
{
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        unsigned at = find_pool(w, pool);

        if (at < w->pools) {
            end_locked(w, at);
        }
    }
    wm_lock_release(&workspaces->lock);
    if (!later) {
        free_unused(workspaces);
    }
}
