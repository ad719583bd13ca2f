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

/* wm_handle_check_nested() and wm_pool_acquire(). */
static inline warm_status wm_handle_acquire(warm_runtime *runtime,
                                            const wm_window_call *call,
                                            void **handle)
{
    warm_status status = WARM_OK;

    if (call->outer != NULL) {
        status = wm_handle_check_nested(runtime, call);
    }
    return status == WARM_OK
               ? wm_pool_acquire(wm_kind_table_pool(runtime->kinds, call->kind,
                                                    call->device),
                                 handle)
               : status;
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

/* Returns the workspace for a binding of the handle, or null, and the library
 * then uses its own. Null for the per-thread default stream, since every thread
 * has one and no call retires it; and for a default stream while another device
 * is current, since its id is then that of the other device. */
void *wm_handle_workspace(warm_runtime *runtime, warm_kind number, int device,
                          const void *handle, warm_stream stream,
                          const wm_stream_info *info, size_t *bytes);

typedef struct wm_binding_request {
    warm_stream stream;
    wm_stream_info info;
    uint64_t epoch; /* the runtime's, read before info */
} wm_binding_request;

/* Binds the handle that the window holds to the stream; makes no call of the
 * library if the handle is bound to it already. */
warm_status wm_binding_update(warm_runtime *runtime, wm_window *window,
                              const wm_window_call *call,
                              const wm_binding_request *want);

/* ---- remembered bindings: rebind.c ----------------------------------------
 */

/* Relaxed: only the owner thread adds bindings. */
static inline bool wm_handle_has_bindings(const wm_window *window)
{
    return atomic_load_explicit(&window->bindings_used, memory_order_relaxed) !=
           0;
}

/* Binds a handle that the window holds to the stream again, without a look-up.
 * held: wm_window_words() of its kind and device. Status: NOT_FOUND (no valid
 * binding to the stream is remembered, or no handle is held; nothing has
 * happened); the library's failure. */
warm_status wm_binding_again(wm_window *window, uint64_t *held, int device,
                             warm_stream stream, void **handle);

/* Around the look-up of a binding. begin() brings the records of the handle's
 * workspaces up to date. end() forgets what the look-up released, and remembers
 * the binding if one was made (null: none) and it may be made again. */
typedef struct wm_binding_made {
    void *workspace;
    size_t bytes;
} wm_binding_made;
void wm_binding_lookup_begin(warm_runtime *runtime, wm_window *window,
                             const wm_window_call *call);
void wm_binding_lookup_end(warm_runtime *runtime, wm_window *window,
                           const wm_window_call *call,
                           const wm_binding_request *want,
                           const wm_binding_made *made);

/* The window is about to release the handle: forgets its bindings. */
void wm_bindings_forget_slow(warm_runtime *runtime, wm_window *window,
                             warm_kind kind, int device);
static inline void wm_bindings_forget(warm_runtime *runtime, wm_window *window,
                                      warm_kind kind, int device)
{
    if (wm_unlikely(wm_handle_has_bindings(window))) {
        wm_bindings_forget_slow(runtime, window, kind, device);
    }
}

/* See wm_workspace_hooks.collect. */
bool wm_bindings_collect(warm_runtime *runtime, wm_workspaces *workspaces);

/* Bindings made again that the pool has not counted yet. Any thread. */
uint64_t wm_bindings_uncounted(warm_runtime *runtime, warm_kind kind,
                               int device);

/* Called before a stream of the device is destroyed: binds the device's handles
 * that are bound to it to the default stream, except handles that other threads
 * hold. */
void wm_binding_unbind_stream(warm_runtime *runtime, int device,
                              warm_stream stream);

#endif
