/* workspace.c: see workspace.h.
 *
 * A record is SERVING a stream, PASSING (its stream retired; work may still
 * run), IDLE, TAKEN out of the list's reach by one thread that talks to the
 * driver about it, LOST: kept, because the driver did not say when the work
 * ends, or because a graph of a stream that is gone has it; or OVER: to be
 * given back. Records stay in the list until the runtime goes, or a trim takes
 * one out. */
#include "handles/workspace_int.h"

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

/* Whose a workspace is to be. */
struct wanted {
    warm_stream stream;
    uint64_t stream_id;
    size_t bytes;
    bool captures; /* the stream does, and a graph will have it */
    uint64_t pool; /* the private pool of that graph; 0: of none */
};

/* Graphs of two pools may run at once, whatever stream they are captured on. */
static wm_workspace *serving_locked(wm_workspaces *workspaces,
                                    const struct wanted *wanted)
{
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->state == WM_WORKSPACE_SERVING &&
            w->stream_id == wanted->stream_id && w->bytes >= wanted->bytes &&
            !(wanted->captures && w->captured && w->pool != wanted->pool)) {
            return w;
        }
    }
    return NULL;
}

/* Takes an idle one, or one whose old stream may have passed; which retired at
 * before, or earlier. */
static wm_workspace *candidate_locked(wm_workspaces *workspaces, size_t bytes,
                                      uint64_t before,
                                      enum wm_workspace_state state)
{
    for (wm_workspace *w = workspaces->list; w != NULL; w = w->next) {
        if (w->state == state && w->bytes >= bytes && w->since_ns <= before) {
            w->state = WM_WORKSPACE_TAKEN;
            return w;
        }
    }
    return NULL;
}

static void set_state(wm_workspaces *workspaces, wm_workspace *workspace,
                      enum wm_workspace_state state)
{
    wm_lock_acquire(&workspaces->lock);
    workspace->state = state;
    wm_lock_release(&workspaces->lock);
}

wm_workspace *wm_workspace_take(wm_workspaces *workspaces, size_t bytes,
                                uint64_t before, enum wm_workspace_state state)
{
    wm_workspace *workspace;

    wm_lock_acquire(&workspaces->lock);
    workspace = candidate_locked(workspaces, bytes, before, state);
    wm_lock_release(&workspaces->lock);
    return workspace;
}

/* The driver failed to say when the work ends: never hand the memory out. */
static void lose(wm_workspaces *workspaces, wm_workspace *workspace)
{
    set_state(workspaces, workspace, WM_WORKSPACE_LOST);
    wm_log(WARM_LOG_WARNING,
           "a workspace of %zu bytes on device %d is kept for ever: %s",
           workspace->bytes, workspaces->device, warm_last_error_message());
}

static void put_back(wm_workspaces *workspaces, wm_workspace *asked)
{
    wm_lock_acquire(&workspaces->lock);
    for (; asked != NULL; asked = asked->next_asked) {
        asked->state = WM_WORKSPACE_PASSING;
    }
    wm_lock_release(&workspaces->lock);
}

/* Asks each passing one in turn, so that a stuck stream holds up only its
 * own; those asked in vain are chained up and put back after the search. */
static wm_workspace *take_passed(wm_workspaces *workspaces, size_t bytes,
                                 uint64_t before)
{
    wm_workspace *asked = NULL;
    wm_workspace *w;

    while ((w = wm_workspace_take(workspaces, bytes, before,
                                  WM_WORKSPACE_PASSING)) != NULL) {
        warm_status status =
            wm_driver_event_query(workspaces->driver, w->event);

        if (status == WARM_OK) {
            break;
        }
        if (status == WARM_NOT_READY) {
            w->next_asked = asked;
            asked = w;
        } else {
            lose(workspaces, w);
        }
    }
    put_back(workspaces, asked);
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
               "no workspace of %zu bytes on device %d, the library uses its "
               "own: %s",
               bytes, workspaces->device, warm_last_error_message());
    }
}

static wm_workspace *make(wm_workspaces *workspaces, size_t bytes)
{
    wm_workspace *w = wm_meta_alloc(sizeof *w);

    if (w == NULL) {
        (void)wm_fail(WARM_OUT_OF_MEMORY, "no memory to keep a workspace");
        return NULL;
    }
    if (wm_driver_device_alloc(workspaces->driver, workspaces->device, bytes,
                               &w->memory) != WARM_OK) {
        wm_meta_free(w);
        return NULL;
    }
    w->bytes = bytes;
    w->state = WM_WORKSPACE_TAKEN;
    wm_lock_acquire(&workspaces->lock);
    w->next = workspaces->list;
    workspaces->list = w;
    workspaces->count++;
    workspaces->held_bytes += bytes;
    wm_lock_release(&workspaces->lock);
    return w;
}

/* A workspace in state TAKEN, or null. The relaxed mode lets the thread
 * allocate and query while it, or another one in global mode, captures (row
 * B7). */
static wm_workspace *obtain(wm_workspaces *workspaces, size_t bytes)
{
    bool mode;
    bool relaxed = wm_driver_relax(workspaces->driver, &mode);
    wm_workspace *w =
        wm_workspace_take(workspaces, bytes, UINT64_MAX, WM_WORKSPACE_IDLE);

    if (w == NULL) {
        w = take_passed(workspaces, bytes, UINT64_MAX);
    }
    if (w == NULL) {
        w = make(workspaces, bytes);
    }
    if (relaxed) {
        wm_driver_unrelax(workspaces->driver, &mode);
    }
    return w;
}

/* Makes w serve the stream, unless there is one, or another thread gave it one
 * meanwhile. w: TAKEN, or null. */
static wm_workspace *serve(wm_workspaces *workspaces, wm_workspace *w,
                           const struct wanted *wanted)
{
    wm_workspace *other;

    wm_lock_acquire(&workspaces->lock);
    other = serving_locked(workspaces, wanted);
    if (other != NULL) {
        if (w != NULL) {
            w->state = WM_WORKSPACE_IDLE;
        }
        w = other;
    } else if (w != NULL) {
        w->state = WM_WORKSPACE_SERVING;
        w->stream_id = wanted->stream_id;
        w->stream = wanted->stream;
        w->captured = false;
        w->of_captures = wanted->captures;
    }
    if (w != NULL && wanted->captures) {
        wm_workspace_capture_locked(w, wanted->pool);
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

void wm_workspaces_get(wm_workspaces *workspaces, warm_stream stream,
                       uint64_t stream_id, size_t bytes, void **memory)
{
    warm_error before = {.size = sizeof before};
    struct wanted wanted = {stream, stream_id, bytes, false, 0};
    wm_workspace *w;

    warm_last_error(&before);
    wanted.captures = wm_workspace_captures(workspaces, stream);
    if (wanted.captures) {
        wanted.pool = wm_workspace_pool_of(workspaces, stream);
    }
    w = serve(workspaces, NULL, &wanted);
    if (w == NULL) {
        w = obtain(workspaces, bytes);
        if (w == NULL) {
            warn_once(workspaces, bytes);
        } else {
            w = serve(workspaces, w, &wanted);
        }
    }
    wm_error_restore(&before);
    *memory = w != NULL ? w->memory : NULL;
}

/* A workspace of the stream that may serve another one later, as TAKEN. */
static wm_workspace *take_of_stream(wm_workspaces *workspaces,
                                    uint64_t stream_id)
{
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    for (w = workspaces->list; w != NULL; w = w->next) {
        if (w->state == WM_WORKSPACE_SERVING && w->stream_id == stream_id &&
            !w->captured) {
            w->state = WM_WORKSPACE_TAKEN;
            break;
        }
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

/* Records the event behind the stream's last work. */
static warm_status mark(wm_workspaces *workspaces, wm_workspace *w,
                        warm_stream stream)
{
    warm_status status = WARM_OK;

    if (w->event == NULL) {
        status = wm_driver_event_create(workspaces->driver, workspaces->device,
                                        &w->event);
    }
    if (status == WARM_OK) {
        status = wm_driver_event_record(workspaces->driver, w->event, stream);
    }
    return status;
}

void wm_workspaces_retire(wm_workspaces *workspaces, warm_stream stream,
                          uint64_t stream_id)
{
    warm_error before = {.size = sizeof before};
    wm_workspace *w;

    warm_last_error(&before);
    /* A capture under way takes the workspace into its graph, and an event
     * recorded now would not tell when the graph runs. */
    (void)wm_workspaces_note(workspaces, stream, stream_id);
    while ((w = take_of_stream(workspaces, stream_id)) != NULL) {
        w->since_ns = wm_clock_ns();
        if (mark(workspaces, w, stream) == WARM_OK) {
            set_state(workspaces, w, WM_WORKSPACE_PASSING);
        } else {
            lose(workspaces, w);
        }
    }
    wm_workspaces_leave_to_graphs(workspaces, stream);
    wm_error_restore(&before);
}

static void unlink_workspace(wm_workspaces *workspaces, wm_workspace *w)
{
    wm_workspace **at = &workspaces->list;

    wm_lock_acquire(&workspaces->lock);
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    workspaces->count--;
    workspaces->held_bytes -= w->bytes;
    wm_lock_release(&workspaces->lock);
}

/* Gives the memory of one that is TAKEN back. */
void wm_workspace_drop(wm_workspaces *workspaces, wm_workspace *w)
{
    if (wm_driver_device_free(workspaces->driver, workspaces->device,
                              w->memory) != WARM_OK) {
        lose(workspaces, w);
        return;
    }
    if (w->event != NULL) {
        (void)wm_driver_event_destroy(workspaces->driver, w->event);
    }
    unlink_workspace(workspaces, w);
    wm_meta_free(w);
}

void wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns)
{
    warm_error before = {.size = sizeof before};
    uint64_t now = wm_clock_ns();
    uint64_t last = now >= idle_ns ? now - idle_ns : 0;
    wm_workspace *w;
    bool mode, relaxed;

    warm_last_error(&before);
    relaxed = wm_driver_relax(workspaces->driver, &mode);
    do {
        w = wm_workspace_take(workspaces, 0, UINT64_MAX, WM_WORKSPACE_OVER);
        if (w == NULL) {
            w = wm_workspace_take(workspaces, 0, last, WM_WORKSPACE_IDLE);
        }
        if (w == NULL) {
            w = take_passed(workspaces, 0, last);
        }
        if (w != NULL) {
            wm_workspace_drop(workspaces, w);
        }
    } while (w != NULL);
    if (relaxed) {
        wm_driver_unrelax(workspaces->driver, &mode);
    }
    wm_error_restore(&before);
}

void wm_workspaces_get_stats(wm_workspaces *workspaces, uint64_t *count,
                             uint64_t *bytes)
{
    wm_lock_acquire(&workspaces->lock);
    *count = workspaces->count;
    *bytes = workspaces->held_bytes;
    wm_lock_release(&workspaces->lock);
}

void wm_workspaces_keep(wm_workspaces *workspaces)
{
    workspaces->keep = true;
}

void wm_workspaces_close(wm_workspaces *workspaces)
{
    wm_driver *driver = workspaces->driver;

    while (workspaces->list != NULL) {
        wm_workspace *w = workspaces->list;

        workspaces->list = w->next;
        if (w->event != NULL) {
            (void)wm_driver_event_destroy(driver, w->event);
        }
        if (!workspaces->keep) {
            (void)wm_driver_device_free(driver, workspaces->device, w->memory);
        }
        wm_meta_free(w);
    }
    wm_lock_fini(&workspaces->lock);
}
