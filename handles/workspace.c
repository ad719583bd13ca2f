/* workspace.c: finds or allocates the workspace of a handle on a stream
 * (workspace.h; states in workspace_int.h). */
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

/* A request for a workspace. */
struct request {
    const wm_workspace_key *key;
    size_t bytes;
    bool captures; /* the stream captures: a graph will use it */
    uint64_t pool; /* the private pool of that capture; 0: none */
};

/* Graphs of two private pools may run at the same time, whichever stream they
 * were captured on, and concurrently with eager work. */
static bool may_serve(const wm_workspace *w, const struct request *request)
{
    if (request->captures) {
        return w->for_graphs && w->captured &&
               wm_workspace_is_of_pool(w, request->pool);
    }
    return !w->for_graphs && (!w->captured || w->mark == WM_MARK_ANNOUNCED);
}

static wm_workspace *find_own_locked(wm_workspaces *workspaces,
                                     const struct request *request)
{
    const wm_workspace_key *key = request->key;
    wm_workspace *w = *wm_workspaces_bucket(workspaces, key->handle);

    while (w != NULL &&
           (w->handle != key->handle || w->stream_id != key->stream_id ||
            w->bytes < request->bytes || !may_serve(w, request))) {
        w = w->next_of_handle;
    }
    return w;
}

static wm_workspace *find_memory_locked(wm_workspaces *workspaces,
                                        const wm_workspace_key *key,
                                        const void *memory)
{
    wm_workspace *w = *wm_workspaces_bucket(workspaces, key->handle);

    while (w != NULL &&
           (w->handle != key->handle || w->stream_id != key->stream_id ||
            w->memory != memory)) {
        w = w->next_of_handle;
    }
    return w;
}

bool wm_workspaces_serves_locked(wm_workspaces *workspaces,
                                 const wm_workspace_key *key,
                                 const void *memory, bool latest)
{
    wm_workspace *w = find_memory_locked(workspaces, key, memory);

    return w != NULL &&
           (!latest || wm_workspace_latest_locked(workspaces, w) == w);
}

void wm_workspaces_used_locked(wm_workspaces *workspaces,
                               const wm_workspace_key *key, const void *memory,
                               uint64_t left_ns)
{
    wm_workspace *w = find_memory_locked(workspaces, key, memory);

    if (w != NULL) {
        w->binding_number = ++workspaces->binding_number;
        w->since_ns = left_ns > w->since_ns ? left_ns : w->since_ns;
    }
}

/* Makes w, CLAIMED, serve the request; w null: the one that serves it already,
 * if any. */
static wm_workspace *serve(wm_workspaces *workspaces, wm_workspace *w,
                           const struct request *request)
{
    uint64_t now = wm_clock_ns();

    wm_lock_acquire(&workspaces->lock);
    if (w == NULL) {
        w = find_own_locked(workspaces, request);
    }
    if (w != NULL && w->state != WM_WORKSPACE_SERVING) {
        w->handle = request->key->handle;
        w->stream_id = request->key->stream_id;
        w->stream = request->key->stream;
        w->captured = w->untracked = false;
        w->mark = WM_MARK_NONE;
        w->pools = 0;
        w->for_graphs = request->captures;
        w->binding_number = 0;
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_SERVING);
    }
    if (w != NULL) {
        wm_workspaces_rebound_locked(workspaces, request->key,
                                     request->captures);
        if (request->captures) {
            wm_workspace_add_graph_locked(w, request->pool);
        }
        /* The handle is bound to w next: the unused time of its previous
         * workspace begins. */
        wm_workspace_latest_locked(workspaces, w)->since_ns = now;
        w->since_ns = now;
        w->binding_number = ++workspaces->binding_number;
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

static void log_shortage_once(wm_workspaces *workspaces, size_t bytes)
{
    bool logged;

    wm_lock_acquire(&workspaces->lock);
    logged = workspaces->shortage_logged;
    workspaces->shortage_logged = true;
    wm_lock_release(&workspaces->lock);
    if (!logged) {
        wm_log(WARM_LOG_WARNING,
               "no workspace of %s on device %d, the library uses its own: %s",
               wm_bytes(bytes).text, workspaces->device,
               warm_last_error_message());
    }
}

static bool reserve(wm_workspaces *workspaces, size_t bytes)
{
    const wm_workspace_hooks *hooks = &workspaces->hooks;

    if (hooks->reserve != NULL &&
        !hooks->reserve(hooks->runtime, workspaces->device, bytes)) {
        (void)wm_fail(WARM_OUT_OF_MEMORY,
                      "the watermarks of the device leave no room for it");
        return false;
    }
    return true;
}

static wm_workspace *make(wm_workspaces *workspaces, size_t bytes)
{
    wm_workspace *w = wm_meta_alloc(sizeof *w);

    if (w == NULL) {
        (void)wm_fail(WARM_OUT_OF_MEMORY,
                      "no memory for the record of a workspace");
        return NULL;
    }
    if (!reserve(workspaces, bytes)) {
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

/* Calls the driver: in relaxed capture mode, or while no stream captures. */
static wm_workspace *obtain_now(wm_workspaces *workspaces,
                                const struct request *request)
{
    wm_workspace *w = NULL;

    wm_workspaces_evict_oldest(workspaces, request->key);
    if (!request->captures) {
        /* Work on this stream runs after the workspace's last work there, so
         * its event need not complete. */
        w = wm_workspace_claim(workspaces, WM_WORKSPACE_PENDING, request->bytes,
                               UINT64_MAX, &request->key->stream_id);
    }
    if (w == NULL) {
        w = wm_workspace_claim_completed(workspaces, request->bytes,
                                         UINT64_MAX);
    }
    if (w == NULL) {
        w = make(workspaces, request->bytes);
    }
    if (w == NULL) {
        /* Memory is short: reuse workspaces that handles cache. */
        wm_workspaces_record_events(workspaces);
        wm_workspaces_release_unbound(workspaces, UINT64_MAX);
        w = wm_workspace_claim_completed(workspaces, request->bytes,
                                         UINT64_MAX);
    }
    return w;
}

/* Returns a CLAIMED workspace or null. Relaxed mode lets the thread allocate
 * and query events while it, or another thread in global mode, captures (row
 * B7). Where the driver refuses that mode, these calls would break captures. */
static wm_workspace *obtain(wm_workspaces *workspaces,
                            const struct request *request)
{
    wm_breaking breaking;
    wm_workspace *w = NULL;
    bool mode;

    if (wm_driver_capture_relaxed_begin(workspaces->driver, &mode)) {
        w = obtain_now(workspaces, request);
        wm_driver_capture_relaxed_end(workspaces->driver, &mode);
    } else if (!request->captures &&
               wm_captures_begin_break(workspaces->captures, &breaking,
                                       workspaces->device, NULL)) {
        w = obtain_now(workspaces, request);
        wm_captures_end_break(workspaces->captures, &breaking);
    } else {
        (void)wm_fail(WARM_CAPTURE_ERROR,
                      "a stream captures, and the driver refused its relaxed "
                      "mode");
    }
    return w;
}

void wm_workspaces_get(wm_workspaces *workspaces, const wm_workspace_key *key,
                       size_t bytes, void **memory)
{
    warm_error before = {.size = sizeof before};
    struct request request = {key, bytes, false, 0};
    wm_workspace *w = NULL;

    *memory = NULL;
    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return;
    }
    warm_last_error(&before);
    request.captures = wm_workspaces_stream_captures(workspaces, key->stream);
    if (request.captures) {
        request.pool = wm_workspaces_private_pool_of(workspaces, key->stream);
    }
    if (request.captures && request.pool == 0) {
        /* No call reports the end of a graph of no private pool, and two such
         * graphs may run at the same time: no workspace is set, and the library
         * allocates one for each. */
        wm_lock_acquire(&workspaces->lock);
        wm_workspaces_rebound_locked(workspaces, key, true);
        wm_lock_release(&workspaces->lock);
        goto out;
    }
    w = serve(workspaces, NULL, &request);
    if (w != NULL) {
        goto out;
    }
    w = obtain(workspaces, &request);
    if (w != NULL) {
        w = serve(workspaces, w, &request);
    } else {
        log_shortage_once(workspaces, bytes);
    }

out:
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
    workspaces->leak_memory = true;
    workspaces->leak_events = workspaces->leak_events || events;
}

void wm_workspaces_report_graphs(wm_workspaces *workspaces,
                                 warm_destroy_report *report)
{
    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return;
    }
    wm_lock_acquire(&workspaces->lock);
    for (const wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->captured && w->pools > 0) {
            report->pool_bytes += w->bytes;
        } else if (w->captured) {
            report->captured++;
            report->captured_bytes += w->bytes;
        }
    }
    wm_lock_release(&workspaces->lock);
}

void wm_workspaces_close(wm_workspaces *workspaces)
{
    wm_driver *driver = workspaces->driver;
    bool lost = wm_driver_is_lost(driver, workspaces->device);

    while (workspaces->list != NULL) {
        wm_workspace *w = workspaces->list;

        workspaces->list = w->next;
        if (w->event != NULL && !workspaces->leak_events && !lost) {
            (void)wm_driver_event_destroy(driver, w->event);
        }
        if (!workspaces->leak_memory && !lost && !w->captured) {
            (void)wm_driver_device_free(driver, workspaces->device, w->memory);
        }
        wm_meta_free(w);
    }
    wm_lock_fini(&workspaces->lock);
}
