/* handle.h: checks, brackets and bindings that the public calls of handles
 * share.
 *
 * A call that may run callbacks of a kind is recorded in its thread's window
 * (wm_handle_begin), so that a callback that reserves the very handle being
 * created is refused instead of waiting for itself. Cancellation is off in all.
 */
#ifndef WM_HANDLE_H
#define WM_HANDLE_H

#include "handles/kind_table.h"
#include "runtime/thread/window.h"

#include <stdatomic.h>

/* Releases every handle of the window: takes one lock per kind and device,
 * calls no library, and queries the driver once per device for a reset (row
 * A17). The function of warm_runtime.window_release; in reserve.c. */
void wm_handles_release(warm_runtime *runtime, wm_window *window);

/* The slow part of wm_handle_check(): sets the error. */
warm_status wm_handle_check_slow(warm_runtime *runtime, warm_kind kind,
                                 int device, const void *output);

/* Checks the runtime, the device, the kind, and an output that must not be
 * null.
 */
static inline warm_status wm_handle_check(warm_runtime *runtime, warm_kind kind,
                                          int device, const void *output)
{
    warm_status status = wm_runtime_check(runtime);

    if (wm_likely(status == WARM_OK) &&
        wm_unlikely(
            (unsigned)device >= (unsigned)runtime->devices || output == NULL ||
            (unsigned)kind >= (unsigned)wm_kind_table_count(runtime->kinds))) {
        return wm_handle_check_slow(runtime, kind, device, output);
    }
    return status;
}

/* Checks the thread's CUDA context and records call, which names kind and
 * device, in the thread's window. A begin that succeeds needs its end. */
static inline warm_status
wm_handle_begin(warm_runtime *runtime, wm_window_call *call, wm_window **window)
{
    warm_status status = wm_driver_look(runtime->driver, call->device);

    if (wm_likely(status == WARM_OK)) {
        status = wm_window_get(runtime, window);
    }
    if (wm_likely(status == WARM_OK)) {
        call->outer = (*window)->call;
        (*window)->call = call;
    }
    return status;
}

static inline void wm_handle_end(wm_window *window)
{
    window->call = window->call->outer;
}

/* INVALID_ARGUMENT if an outer call of this thread acquires a handle of the
 * same kind and device: its callback would wait for itself or recurse forever.
 */
warm_status wm_handle_check_nested(warm_runtime *runtime,
                                   const wm_window_call *call);

/* A stream to which a handle is to be bound. */
typedef struct wm_binding_request {
    warm_stream stream;
    wm_stream_info info;
    uint64_t epoch; /* the runtime's, read before info */
} wm_binding_request;

/* wm_handle_check_nested() and wm_pool_acquire(); want: null, or for a handle
 * that has a workspace for the stream, if one is idle. */
static inline warm_status wm_handle_acquire(warm_runtime *runtime,
                                            const wm_window_call *call,
                                            const wm_binding_request *want,
                                            void **handle)
{
    warm_status status = WARM_OK;
    wm_pool *pool;

    if (call->outer != NULL) {
        status = wm_handle_check_nested(runtime, call);
    }
    if (status != WARM_OK) {
        return status;
    }
    pool = wm_kind_table_pool(runtime->kinds, call->kind, call->device);
    return want != NULL
               ? wm_pool_acquire_for(pool, want->stream, want->info.id, handle)
               : wm_pool_acquire(pool, handle);
}

/* ---- bindings (row A10) ---------------------------------------------------
 *
 * A binding is valid while the runtime's stream epoch is unchanged. The epoch
 * is read before the stream is queried, so that a stream which retires in
 * between makes the binding stale. */

/* Checks that a handle can be bound to the stream and fills *info. */
warm_status wm_handle_check_stream(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   wm_stream_info *info);

/* Returns the workspace for a binding of the handle, marked as bound, or null,
 * and the library then uses its own. Null for a default stream while another
 * device is current, since its id is then that of the other device. */
wm_workspace *wm_handle_workspace(warm_runtime *runtime, wm_window *window,
                                  wm_pool *pool, const void *handle,
                                  const wm_binding_request *want,
                                  size_t *bytes);

/* Binds the handle that the window holds to the stream; makes no call of the
 * library if the handle is bound to it already. */
warm_status wm_binding_update(warm_runtime *runtime, wm_window *window,
                              const wm_window_call *call,
                              const wm_binding_request *want);

/* ---- remembered bindings: rebind.c ----------------------------------------
 */

/* Binds a handle that the window holds to the stream that it was bound to
 * before the present one, without a look-up. Status: NOT_FOUND (it was bound to
 * another stream, or not any more, or no handle is held; nothing has happened);
 * the library's failure. */
warm_status wm_binding_again(wm_window *window, wm_binding *binding,
                             warm_stream stream, void **handle);

/* The record of the row, made if there is none; null: no memory. */
wm_binding *wm_binding_get(wm_window *window, wm_pool *pool);

/* wm_kind_ops.bind has bound the held handle to the stream with the workspace
 * (null: none). replaces: the handle was bound to another stream until now,
 * which may be bound again. */
void wm_binding_note(warm_runtime *runtime, wm_binding *binding, wm_pool *pool,
                     const wm_binding_request *want, void *handle,
                     wm_workspace *workspace, size_t bytes, bool replaces);

/* The window is about to release the handle: forgets its bindings. */
void wm_binding_forget(warm_runtime *runtime, wm_window *window, warm_kind kind,
                       int device, uint64_t now_ns);

/* The thread leaves the runtime: records events behind the work of its
 * per-thread default stream, which it alone can. Cancellation is off. */
void wm_bindings_leave_thread(warm_runtime *runtime, wm_window *window);

/* Called before a stream of the device is destroyed: binds the device's handles
 * that are bound to it to the default stream, except handles that other threads
 * hold. */
void wm_binding_unbind_stream(warm_runtime *runtime, int device,
                              warm_stream stream);

#endif
