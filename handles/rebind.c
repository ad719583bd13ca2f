/* rebind.c: the binding that a handle had before (row A10).
 *
 *   reserve_on ─► bound to the stream? ─► hit
 *                   │ no
 *                   ▼
 *                 bound to it before, and that is valid? ─► the library's calls
 *                   │ no                                    alone; the two
 *                   ▼                                       change places
 *                 stream and workspace looked up, library ─► wm_binding_note()
 *
 * A binding may be made again if its stream is adopted and no capture is known:
 * what was looked up then holds until the runtime's stream_epoch changes. The
 * device's context is checked each time. The workspace of the binding before is
 * idle meanwhile, and another pair may claim it at any time:
 * wm_workspace_bind() then fails. Only the owner thread of the window uses its
 * bindings. */
#include "handles/handle.h"
#include "handles/workspace_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"

/* ---- noting -------------------------------------------------------------- */

/* A legacy stream is that of the current device: with one device the handle's.
 */
static bool may_return(warm_runtime *runtime, const wm_pool *pool,
                       const wm_binding_request *want)
{
    const wm_stream_hooks *hooks = &runtime->kinds->hooks.streams;

    return want->info.capture == WM_CAPTURE_NONE &&
           want->info.device == pool->device &&
           (runtime->devices == 1 || !wm_stream_is_default(want->stream)) &&
           hooks->is_known != NULL && hooks->is_known(runtime, want->stream);
}

wm_binding *wm_binding_get(wm_window *window, wm_pool *pool)
{
    wm_binding **at =
        wm_window_binding(window, pool->kind->index, pool->device);

    if (*at == NULL) {
        *at = wm_meta_alloc(sizeof **at);
        if (*at != NULL) {
            (*at)->present = &(*at)->both[0];
            (*at)->before = &(*at)->both[1];
            (*at)->row =
                wm_window_words(window, pool->kind->index, pool->device) +
                WM_ROW_BOUND;
            (*at)->is_noted = true;
            wm_pool_add_binding(pool, *at);
        }
    }
    return *at;
}

static inline void change_places(wm_binding *b)
{
    wm_bound *present = b->present;

    b->present = b->before;
    b->before = present;
}

static void leave(const wm_bound *bound, uint64_t now_ns)
{
    if (bound->workspace != NULL) {
        wm_workspace_leave(bound->workspace, bound->again.handle, now_ns);
    }
}

void wm_binding_note(warm_runtime *runtime, wm_binding *b, wm_pool *pool,
                     const wm_binding_request *want, void *handle,
                     wm_workspace *workspace, size_t bytes, bool replaces)
{
    if (b->present->workspace != workspace) {
        leave(b->present, wm_clock_ns());
    }
    /* The binding before stays so if this one cannot be made again. */
    if (replaces && b->present->epoch != 0) {
        change_places(b);
    }
    *b->present = (wm_bound){
        .again = {.kind = pool->kind,
                  .handle = handle,
                  .stream = want->stream,
                  .workspace =
                      workspace != NULL ? wm_workspace_memory(workspace) : NULL,
                  .bytes = bytes,
                  .device = pool->device},
        .epoch = may_return(runtime, pool, want) ? want->epoch : 0,
        .stream_id = want->info.id,
        .workspace = workspace};
    b->is_noted = true;
    if (b->before->workspace == workspace && workspace != NULL) {
        b->before->epoch = 0; /* it serves this stream now */
    }
}

void wm_binding_forget(warm_runtime *runtime, wm_window *window, warm_kind kind,
                       int device, uint64_t now_ns)
{
    wm_binding *b = *wm_window_binding(window, kind, device);

    if (b == NULL) {
        return;
    }
    if (!b->is_noted) {
        wm_pool_note_bound(wm_kind_table_pool(runtime->kinds, kind, device),
                           b->present->again.handle, b->present->again.stream);
    }
    leave(b->present, now_ns);
    for (int i = 0; i < 2; i++) {
        b->both[i].epoch = 0;
        b->both[i].workspace = NULL;
    }
    b->is_noted = true;
}

/* An event behind the thread's default stream of a device is recorded while the
 * device is current. One that this process has not used has no such stream. */
static void leave_device(warm_runtime *runtime, int device)
{
    wm_driver *driver = runtime->driver;
    bool entered;
    warm_status status;

    WM_KEEP_ERROR();
    status = wm_driver_enter(driver, device, &entered);
    if (status != WARM_NOT_READY) {
        wm_workspaces_retire_stream(
            wm_kind_table_workspaces(runtime->kinds, device),
            WARM_STREAM_PER_THREAD, 0);
    }
    wm_driver_leave(driver, entered);
}

void wm_bindings_leave_thread(warm_runtime *runtime, wm_window *window)
{
    window->uses_default = false;
    for (int i = 0; i < runtime->devices && !wm_process_exiting(); i++) {
        if (!wm_driver_is_lost(runtime->driver, i)) {
            leave_device(runtime, i);
        }
    }
}

/* ---- binding again ------------------------------------------------------- */

/* Calls a callback of the program. */
static warm_status bind_by_callback(wm_window *window, const wm_rebind *to)
    __attribute__((noinline));
static warm_status bind_by_callback(wm_window *window, const wm_rebind *to)
{
    wm_window_call call = {window->call, to->kind->index, to->device};
    warm_status status;

    WM_CANCEL_OFF();
    window->call = &call;
    status = to->kind->ops->bind(to->kind, to->device, to->handle, to->stream,
                                 to->workspace, to->bytes);
    window->call = call.outer;
    return status;
}

static warm_status failed(warm_runtime *runtime, const wm_bound *to,
                          warm_status status) __attribute__((noinline, cold));
static warm_status failed(warm_runtime *runtime, const wm_bound *to,
                          warm_status status)
{
    leave(to, wm_clock_ns());
    wm_pool_note_bound(wm_kind_table_pool(runtime->kinds, to->again.kind->index,
                                          to->again.device),
                       to->again.handle, to->again.before);
    return status;
}

warm_status wm_binding_again(wm_window *window, wm_binding *b,
                             warm_stream stream, void **handle)
{
    warm_runtime *runtime = window->owner;
    wm_bound *to = b->before;
    wm_unchanged unchanged;
    warm_status status;

    /* Relaxed: as in a hit. */
    if (to->again.stream != stream || b->row[WM_ROW_SECOND] == 0 ||
        to->epoch != atomic_load_explicit(&runtime->stream_epoch,
                                          memory_order_relaxed) ||
        handle == NULL) {
        return WARM_NOT_FOUND;
    }
    unchanged = wm_driver_is_unchanged(runtime->driver, to->again.device);
    if (unchanged == WM_UNCHANGED_UNKNOWN ||
        (to->workspace != NULL &&
         !wm_workspace_bind(to->workspace, to->again.handle))) {
        return WARM_NOT_FOUND;
    }
    to->again.before = b->present->again.stream;
    to->again.is_current = unchanged == WM_UNCHANGED_CURRENT;
    /* Unbound until the library's calls succeed. */
    b->row[WM_ROW_SECOND] = 0;
    /* Relaxed: only this thread writes. */
    atomic_store_explicit(
        &b->again, atomic_load_explicit(&b->again, memory_order_relaxed) + 1,
        memory_order_relaxed);
    status = wm_likely(to->again.kind->ops->rebind != NULL)
                 ? to->again.kind->ops->rebind(&to->again)
                 : bind_by_callback(window, &to->again);
    if (wm_unlikely(status != WARM_OK)) {
        return failed(runtime, to, status);
    }
    b->row[0] = (uintptr_t)stream;
    b->row[WM_ROW_SECOND] = to->epoch;
    change_places(b);
    b->is_noted = false;
    *handle = to->again.handle;
    if (b->before->workspace != NULL) {
        wm_workspace_leave(b->before->workspace, to->again.handle,
                           wm_clock_rough_ns());
    }
    return WARM_OK;
}
