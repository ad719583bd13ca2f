/* workspace.c: who has which workspace, and where they come from; see
 * workspace.h, and workspace_int.h for the states. */
#include "handles/workspace_int.h"

#include "handles/kind.h"
#include "runtime/base/bytes.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

void wm_workspaces_init(wm_workspaces *workspaces, wm_driver *driver,
                        int device)
{
    workspaces->driver = driver;
    workspaces->device = device;
    wm_lock_init(&workspaces->lock, WM_RANK_WORKSPACES);
}

/* Who a workspace is to serve. */
struct wanted {
    const wm_workspace_key *user;
    size_t bytes;
    bool captures; /* the stream does, and a graph will have it */
    uint64_t pool; /* the private pool of that graph; 0 if none captures */
};

/* Graphs of two pools may run at once, whatever stream they are captured on,
 * and beside eager work. */
static bool may_serve(const wm_workspace *w, const struct wanted *wanted)
{
    if (wanted->captures) {
        return w->of_captures && w->captured &&
               wm_workspace_is_of_pool(w, wanted->pool);
    }
    return !w->of_captures && (!w->captured || w->mark == WM_MARK_ANNOUNCED);
}

static wm_workspace *find_own_locked(wm_workspaces *workspaces,
                                     const struct wanted *wanted)
{
    const wm_workspace_key *user = wanted->user;
    wm_workspace *w = *wm_workspaces_bucket(workspaces, user->handle);

    while (w != NULL &&
           (w->handle != user->handle || w->stream_id != user->stream_id ||
            w->bytes < wanted->bytes || !may_serve(w, wanted))) {
        w = w->next_serving;
    }
    return w;
}

/* One that was let go, and whose last work is on the stream: what comes there
 * runs after it. */
static wm_workspace *find_ordered_locked(wm_workspaces *workspaces,
                                         const struct wanted *wanted)
{
    wm_workspace *w = wanted->captures ? NULL : workspaces->list;

    while (w != NULL && (w->state != WM_WORKSPACE_PENDING ||
                         w->stream_id != wanted->user->stream_id ||
                         w->bytes < wanted->bytes)) {
        w = w->next;
    }
    return w;
}

/* The handle is to be bound to w: what it was bound to is in use no more. */
static void turn_to_locked(wm_workspaces *workspaces, wm_workspace *w)
{
    uint64_t now = wm_clock_ns();
    wm_workspace *latest = w;

    for (wm_workspace *o = *wm_workspaces_bucket(workspaces, w->handle);
         o != NULL; o = o->next_serving) {
        if (o->handle == w->handle && o->turn > latest->turn) {
            latest = o;
        }
    }
    latest->since_ns = now;
    w->since_ns = now;
    w->turn = ++workspaces->turn;
}

/* Makes w, or one that there is already, serve the user. w: TAKEN, or null. */
static wm_workspace *serve(wm_workspaces *workspaces, wm_workspace *w,
                           const struct wanted *wanted)
{
    wm_lock_acquire(&workspaces->lock);
    if (w == NULL) {
        w = find_own_locked(workspaces, wanted);
    }
    if (w != NULL && w->state != WM_WORKSPACE_SERVING) {
        w->handle = wanted->user->handle;
        w->stream_id = wanted->user->stream_id;
        w->stream = wanted->user->stream;
        w->captured = w->for_ever = false;
        w->mark = WM_MARK_NONE;
        w->pools = 0;
        w->of_captures = wanted->captures;
        w->turn = 0;
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_SERVING);
    }
    if (w != NULL) {
        wm_workspaces_rebound_locked(workspaces, wanted->user,
                                     wanted->captures);
        if (wanted->captures) {
            wm_workspace_add_graph_locked(w, wanted->pool);
        }
        turn_to_locked(workspaces, w);
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

/* Nobody says when a graph of no private pool goes, and two of them may run at
 * once: none is set, and the library obtains one for each. */
static wm_workspace *serve_none(wm_workspaces *workspaces,
                                const wm_workspace_key *user)
{
    wm_lock_acquire(&workspaces->lock);
    wm_workspaces_rebound_locked(workspaces, user, true);
    wm_lock_release(&workspaces->lock);
    return NULL;
}

static wm_workspace *take_ordered(wm_workspaces *workspaces,
                                  const struct wanted *wanted)
{
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    w = find_ordered_locked(workspaces, wanted);
    if (w != NULL) {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_CLAIMED);
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

static void warn_once(wm_workspaces *workspaces, size_t bytes)
{
    bool warned;

    wm_lock_acquire(&workspaces->lock);
    warned = workspaces->warned;
    workspaces->warned = true;
    wm_lock_release(&workspaces->lock);
    if (!warned) {
        wm_log(WARM_LOG_WARNING,
               "no workspace of %s on device %d, the library uses its own: %s",
               wm_bytes(bytes).text, workspaces->device,
               warm_last_error_message());
    }
}

static bool claim(wm_workspaces *workspaces, size_t bytes)
{
    const wm_workspace_limit *room = &workspaces->room;

    if (room->claim != NULL &&
        !room->claim(room->context, workspaces->device, bytes)) {
        (void)wm_fail(WARM_OUT_OF_MEMORY,
                      "the memory fraction that is set leaves no room for it");
        return false;
    }
    return true;
}

static wm_workspace *make(wm_workspaces *workspaces, size_t bytes)
{
    wm_workspace *w = wm_meta_alloc(sizeof *w);

    if (w == NULL) {
        (void)wm_fail(WARM_OUT_OF_MEMORY, "no memory to keep a workspace");
        return NULL;
    }
    if (!claim(workspaces, bytes)) {
        wm_meta_free(w);
        return NULL;
    }
    if (wm_driver_device_alloc(workspaces->driver, workspaces->device, bytes,
                               &w->memory) != WARM_OK) {
        wm_workspaces_unreserve(workspaces, bytes);
        wm_meta_free(w);
        return NULL;
    }
    w->bytes = bytes;
    w->state = WM_WORKSPACE_CLAIMED;
    wm_lock_acquire(&workspaces->lock);
    w->next = workspaces->list;
    workspaces->list = w;
    workspaces->count++;
    workspaces->held_bytes += bytes;
    wm_lock_release(&workspaces->lock);
    return w;
}

/* Calls the driver: in CUDA's relaxed mode, or while nothing captures. */
static wm_workspace *obtain_now(wm_workspaces *workspaces,
                                const struct wanted *wanted)
{
    wm_workspace *w;

    wm_workspaces_evict_oldest(workspaces, wanted->user);
    w = take_ordered(workspaces, wanted);
    if (w == NULL) {
        w = wm_workspace_claim_completed(workspaces, wanted->bytes, UINT64_MAX);
    }
    if (w == NULL) {
        w = make(workspaces, wanted->bytes);
    }
    if (w == NULL) {
        /* Memory is short: rather what handles keep in store than none. */
        wm_workspaces_record_events(workspaces);
        wm_workspaces_release_unbound(workspaces, UINT64_MAX);
        w = wm_workspace_claim_completed(workspaces, wanted->bytes, UINT64_MAX);
    }
    return w;
}

/* A workspace in state TAKEN, or null. The relaxed mode lets the thread
 * allocate and query while it, or another one in global mode, captures (row
 * B7). Where the driver refuses that mode, such a call would break captures. */
static wm_workspace *obtain(wm_workspaces *workspaces,
                            const struct wanted *wanted)
{
    wm_breaking breaking;
    wm_workspace *w = NULL;
    bool mode;

    if (wm_driver_relax(workspaces->driver, &mode)) {
        w = obtain_now(workspaces, wanted);
        wm_driver_unrelax(workspaces->driver, &mode);
    } else if (!wanted->captures &&
               wm_captures_begin_break(workspaces->captures, &breaking,
                                       workspaces->device, NULL)) {
        w = obtain_now(workspaces, wanted);
        wm_captures_end_break(workspaces->captures, &breaking);
    } else {
        (void)wm_fail(WARM_CAPTURE_ERROR,
                      "a stream captures, and the driver refused its relaxed "
                      "mode");
    }
    return w;
}

void wm_workspaces_get(wm_workspaces *workspaces, const wm_workspace_key *user,
                       size_t bytes, void **memory)
{
    warm_error before = {.size = sizeof before};
    struct wanted wanted = {user, bytes, false, 0};
    bool of_no_pool;
    wm_workspace *w;

    *memory = NULL;
    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return;
    }
    warm_last_error(&before);
    wanted.captures = wm_workspaces_stream_captures(workspaces, user->stream);
    if (wanted.captures) {
        wanted.pool = wm_workspaces_private_pool_of(workspaces, user->stream);
    }
    of_no_pool = wanted.captures && wanted.pool == 0;
    w = of_no_pool ? serve_none(workspaces, user)
                   : serve(workspaces, NULL, &wanted);
    if (w == NULL && !of_no_pool) {
        w = obtain(workspaces, &wanted);
        if (w == NULL) {
            warn_once(workspaces, bytes);
        } else {
            w = serve(workspaces, w, &wanted);
        }
    }
    wm_error_restore(&before);
    *memory = w != NULL ? w->memory : NULL;
}

void wm_workspaces_get_stats(wm_workspaces *workspaces, uint64_t *count,
                             uint64_t *bytes)
{
    wm_lock_acquire(&workspaces->lock);
    *count = workspaces->count;
    *bytes = workspaces->held_bytes;
    wm_lock_release(&workspaces->lock);
}

void wm_workspaces_leave_allocated(wm_workspaces *workspaces, bool events)
{
    workspaces->keep = true;
    workspaces->events = workspaces->events || events;
}

void wm_workspaces_close(wm_workspaces *workspaces)
{
    wm_driver *driver = workspaces->driver;
    bool lost = wm_driver_is_lost(driver, workspaces->device);

    while (workspaces->list != NULL) {
        wm_workspace *w = workspaces->list;

        workspaces->list = w->next;
        if (w->event != NULL && !workspaces->events && !lost) {
            (void)wm_driver_event_destroy(driver, w->event);
        }
        if (!workspaces->keep && !lost) {
            (void)wm_driver_device_free(driver, workspaces->device, w->memory);
        }
        wm_meta_free(w);
    }
    wm_lock_fini(&workspaces->lock);
}
