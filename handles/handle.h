/* handle.h: what the handles' public calls share, and what the runtime calls.
 *
 * A call that may run callbacks of a kind stands in the window of its thread
 * (wm_handle_begin), so that a callback which asks for what is just being made
 * is refused instead of waiting for itself. Cancellation is off in all. */
#ifndef WM_HANDLE_H
#define WM_HANDLE_H

#include "handles/kind_table.h"
#include "runtime/thread/window.h"

/* Gives every handle of the window back: one lock for each kind and device
 * held, no call of a library, and of the driver for each device only whether it
 * was reset (row A17). For warm_runtime.window_release. */
void wm_handles_release(warm_runtime *runtime, wm_window *window);

/* Why wm_handle_check() says no; OK if it does not. */
warm_status wm_handle_check_slow(warm_runtime *runtime, warm_kind kind,
                                 int device, const void *output);

/* What a public call asks first: of the runtime, the device, an output that
 * may not be null, and the kind. */
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

/* Looks at the thread's context, and puts call, which says kind and device,
 * into its window. Each begin that worked is ended. */
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

/* INVALID_ARGUMENT if an outer call of this thread wants the handle that this
 * one wants: its callback would then wait for itself, or never come to an
 * end. */
warm_status wm_handle_check_nested(warm_runtime *runtime,
                                   const wm_window_call *call);

/* That check, and wm_pool_acquire(). */
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
