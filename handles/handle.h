/* handle.h: checks and brackets that the public calls of handles share.
 *
 * A call that may run callbacks of a kind is recorded in its thread's window
 * (wm_handle_begin), so that a callback that reserves the very handle being
 * created is refused instead of waiting for itself. Cancellation is off in all.
 */
#ifndef WM_HANDLE_H
#define WM_HANDLE_H

#include "handles/kind_table.h"
#include "runtime/thread/window.h"

/* Releases every handle of the window: one lock per kind and device held, no
 * library call, and one driver call per device, whether it was reset (row A17).
 * For warm_runtime.window_release; in reserve.c. */
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

#endif
