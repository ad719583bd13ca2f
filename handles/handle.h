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

/* Called before a stream of the device is destroyed: binds the device's handles
 * that are bound to it to the default stream, except handles that other threads
 * hold. */
void wm_binding_unbind_stream(warm_runtime *runtime, int device,
                              warm_stream stream);

#endif
