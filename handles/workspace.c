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

/* Workspaces beyond one for each handle or stream: a thread that alternates
 * between two streams, while another one changes to a new stream. */
enum { WM_WORKSPACES_MORE = 2 };

/* A request for a workspace. */
struct request {
    const wm_workspace_key *key;
    uint64_t stream_id; /* wm_workspace_id() */
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
    wm_workspace *w = *wm_workspaces_of_handle(workspaces, key->handle);

    while (w != NULL &&
           (w->state != WM_WORKSPACE_SERVING || w->handle != key->handle ||
            w->stream_id != request->stream_id || w->bytes < request->bytes ||
            !may_serve(w, request))) {
        w = w->of_handle.next;
    }
    return w;
}

static void begin_serving_locked(wm_workspaces *workspaces, wm_workspace *w,
                                 const struct request *request)
{
    const wm_workspace_key *key = request->key;

    w->handle = key->handle;
    w->stream_id = request->stream_id;
    w->stream = key->stream;
    w->known = key->known;
    w->captured = w->untracked = false;
    w->mark = WM_MARK_NONE;
    w->pools = 0;
    w->for_graphs = request->captures;
    w->state = WM_WORKSPACE_SERVING;
    wm_workspace_link_locked(workspaces, w);
}

/* Makes w, CLAIMED, serve the request; w null: the one that serves it already,
 * if any. */
static wm_workspace *serve(wm_workspaces *workspaces, wm_workspace *w,
                           const struct request *request)
{
    wm_lock_acquire(&workspaces->lock);
    if (w != NULL) {
        begin_serving_locked(workspaces, w, request);
    } else {
        w = find_own_locked(workspaces, request);
    }
    if (w != NULL) {
        wm_workspaces_rebound_locked(workspaces, request->key,
                                     request->captures);
        if (request->captures) {
            wm_workspace_add_graph_locked(w, request->pool);
        }
        /* Relaxed: only this thread may bind the handle, and the lock keeps
         * others from claiming. */
        atomic_store_explicit(
            &w->use, (uintptr_t)request->key->handle | WM_WORKSPACE_BOUND,
            memory_order_relaxed);
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

void *wm_workspace_memory(const wm_workspace *w)
{
    return w->memory;
}

void wm_workspaces_leave_handle(wm_workspaces *workspaces, const void *handle,
                                const wm_workspace *but, uint64_t now_ns)
{
    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = *wm_workspaces_of_handle(workspaces, handle);
         w != NULL; w = w->of_handle.next) {
        if (w->handle == handle && w != but && wm_workspace_is_bound(w)) {
            wm_workspace_leave(w, handle, now_ns);
        }
    }
    wm_lock_release(&workspaces->lock);
}

unsigned wm_workspaces_handles_for(wm_workspaces *workspaces,
                                   warm_stream stream, uint64_t stream_id,
                                   const void **handles, unsigned most)
{
    uint64_t id = wm_workspace_id(stream, stream_id);
    unsigned count = 0;

    wm_lock_acquire(&workspaces->lock);
    for (wm_workspace *w = *wm_workspaces_of_stream(workspaces, stream);
         w != NULL && count < most; w = w->of_stream.next) {
        if (w->state == WM_WORKSPACE_SERVING && w->stream_id == id &&
            !w->for_graphs && !wm_workspace_is_bound(w)) {
            handles[count++] = w->handle;
        }
    }
    wm_lock_release(&workspaces->lock);
    return count;
}

/* ---- the bound ----------------------------------------------------------- */

/* Whether w is the first in its bucket that serves its stream. */
static bool is_first_locked(wm_workspaces *workspaces, const wm_workspace *w)
{
    const wm_workspace *o = *wm_workspaces_of_stream(workspaces, w->stream);

    while (o != w && (o->state != WM_WORKSPACE_SERVING || !o->known ||
                      o->stream_id != w->stream_id)) {
        o = o->of_stream.next;
    }
    return o == w;
}

/* Whether one workspace more stays within the bound: then it counts until
 * add(). A stream that the runtime knows is in use from its first
 * workspace until it retires. */
static bool begin_making(wm_workspaces *workspaces,
                         const struct request *request)
{
    const wm_workspace_key *key = request->key;
    uint64_t count, streams = 0, most = key->handles;
    bool served = !key->known, within;

    wm_lock_acquire(&workspaces->lock);
    count = workspaces->making;
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        count += wm_workspace_is_eager(w);
        if (w->state == WM_WORKSPACE_SERVING && w->known && !w->for_graphs) {
            streams += is_first_locked(workspaces, w);
            served |= w->stream_id == request->stream_id;
        }
    }
    streams += !served;
    if (workspaces->streams_peak < streams) {
        workspaces->streams_peak = streams;
    }
    most = most < workspaces->streams_peak ? workspaces->streams_peak : most;
    most = workspaces->limit != 0 ? workspaces->limit / request->bytes
                                  : most + WM_WORKSPACES_MORE;
    within = count < most || (count == 0 && most == 0);
    workspaces->making += within;
    wm_lock_release(&workspaces->lock);
    return within;
}

void wm_workspaces_reset_peak(wm_workspaces *workspaces)
{
    wm_lock_acquire(&workspaces->lock);
    workspaces->streams_peak = 0;
    wm_lock_release(&workspaces->lock);
}

/* ---- obtaining ----------------------------------------------------------- */

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

/* A record without memory; null: no memory for one. */
static wm_workspace *get_record(wm_workspaces *workspaces)
{
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    w = workspaces->spare;
    if (w != NULL) {
        workspaces->spare = w->next;
    }
    wm_lock_release(&workspaces->lock);
    return w != NULL ? w : wm_meta_alloc(sizeof *w);
}

static void put_record(wm_workspaces *workspaces, wm_workspace *w)
{
    wm_lock_acquire(&workspaces->lock);
    w->next = workspaces->spare;
    workspaces->spare = w;
    wm_lock_release(&workspaces->lock);
}

/* CLAIMED, and not in the list yet; null: no memory. */
static wm_workspace *make(wm_workspaces *workspaces, size_t bytes)
{
    wm_workspace *w = get_record(workspaces);

    if (w == NULL) {
        (void)wm_fail(WARM_OUT_OF_MEMORY,
                      "no memory for the record of a workspace");
        return NULL;
    }
    if (!reserve(workspaces, bytes)) {
        put_record(workspaces, w);
        return NULL;
    }
    if (wm_driver_device_alloc(workspaces->driver, workspaces->device, bytes,
                               &w->memory) != WARM_OK) {
        wm_workspaces_unreserve(workspaces, bytes);
        put_record(workspaces, w);
        return NULL;
    }
    w->bytes = bytes;
    w->state = WM_WORKSPACE_CLAIMED;
    return w;
}

/* Adds what make() returned, which may be null; returns it. within: it counts
 * since begin_making(). */
static wm_workspace *add(wm_workspaces *workspaces, wm_workspace *w,
                         bool within, bool above)
{
    wm_lock_acquire(&workspaces->lock);
    workspaces->making -= within;
    if (w != NULL) {
        w->next = workspaces->list;
        workspaces->list = w;
        workspaces->count++;
        workspaces->held_bytes += w->bytes;
        workspaces->above += above;
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

/* An event behind the work of an idle workspace cannot be waited for in a
 * capture. */
static wm_workspace *obtain_for_graph(wm_workspaces *workspaces, size_t bytes)
{
    wm_workspace *w =
        wm_workspace_claim_completed(workspaces, bytes, UINT64_MAX);

    if (w == NULL) {
        w = add(workspaces, make(workspaces, bytes), false, false);
    }
    if (w == NULL) {
        wm_workspaces_release_idle(workspaces, UINT64_MAX);
        w = wm_workspace_claim_completed(workspaces, bytes, UINT64_MAX);
    }
    return w;
}

static wm_workspace *obtain_eager(wm_workspaces *workspaces,
                                  const struct request *request)
{
    warm_stream stream = request->key->stream;
    size_t bytes = request->bytes;
    bool within;
    wm_workspace *w = wm_workspace_claim_of_stream(workspaces, stream,
                                                   request->stream_id, bytes);

    if (w == NULL) {
        w = wm_workspace_claim_completed(workspaces, bytes, UINT64_MAX);
    }
    if (w != NULL) {
        return w;
    }
    within = begin_making(workspaces, request);
    w = within ? add(workspaces, make(workspaces, bytes), true, false)
               : wm_workspace_claim_oldest(workspaces, stream, bytes);
    if (w == NULL) { /* memory is short, or none is idle */
        w = within ? wm_workspace_claim_oldest(workspaces, stream, bytes)
                   : add(workspaces, make(workspaces, bytes), false, true);
    }
    return w;
}

/* Calls the driver: in relaxed capture mode, or while no stream captures. */
static wm_workspace *obtain_now(wm_workspaces *workspaces,
                                const struct request *request)
{
    return request->captures ? obtain_for_graph(workspaces, request->bytes)
                             : obtain_eager(workspaces, request);
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

wm_workspace *wm_workspaces_get(wm_workspaces *workspaces,
                                const wm_workspace_key *key, size_t bytes)
{
    struct request request = {.key = key,
                              .stream_id =
                                  wm_workspace_id(key->stream, key->stream_id),
                              .bytes = bytes};
    wm_workspace *w = NULL;

    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return NULL;
    }
    WM_KEEP_ERROR();
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
        return NULL;
    }
    w = serve(workspaces, NULL, &request);
    if (w != NULL) {
        return w;
    }
    w = obtain(workspaces, &request);
    if (w != NULL) {
        w = serve(workspaces, w, &request);
    } else {
        log_shortage_once(workspaces, bytes);
    }
    return w;
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
    while (workspaces->spare != NULL) {
        wm_workspace *w = workspaces->spare;

        workspaces->spare = w->next;
        wm_meta_free(w);
    }
}
