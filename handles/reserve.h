/* reserve.h: what the handles' public calls share, and what the runtime calls.
 *
 * A call that may run callbacks of a kind stands in the window of its thread
 * (wm_handle_call), so that a callback which asks for what is just being made
 * is refused instead of waiting for itself. Cancellation is off in all. */
#ifndef WM_RESERVE_H
#define WM_RESERVE_H

#include "handles/pools.h"
#include "runtime/thread/window.h"

/* Gives every handle of the window back: one lock for each kind and device
 * held, no call of a driver or library. For warm_runtime.window_release. */
void wm_reserve_release(warm_runtime *runtime, wm_window *window);

/* What a public call asks first: of the runtime, the device, an output that
 * may not be null, and the kind. */
warm_status wm_handle_check(warm_runtime *runtime, warm_kind kind, int device,
                            const void *output);

typedef warm_status wm_handle_fn(warm_runtime *runtime, wm_window *window,
                                 warm_kind kind, int device, void *argument);

/* Calls fn as one that works on the thread's window and wants the handle. */
warm_status wm_handle_call(warm_runtime *runtime, warm_kind kind, int device,
                           wm_handle_fn *fn, void *argument);

/* INVALID_ARGUMENT if an outer call of this thread wants the handle that the
 * innermost one wants: its callback would then wait for itself, or never come
 * to an end. */
warm_status wm_handle_check_wanted(warm_runtime *runtime,
                                   const wm_window *window, warm_kind kind,
                                   int device);

/* That check, and wm_pool_take(). */
warm_status wm_handle_take(warm_runtime *runtime, const wm_window *window,
                           warm_kind kind, int device, void **handle);

/* Whether a handle can be bound to the stream; fills *info. */
warm_status wm_handle_check_stream(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   wm_stream_info *info);

/* The workspace for a binding, or null for the library's own: of the
 * per-thread default stream, which every thread has one of and which nobody
 * retires; and of a default stream while the thread's device is another one,
 * because its id is then that of the other device. */
void *wm_handle_workspace(warm_runtime *runtime, warm_kind number, int device,
                          warm_stream stream, const wm_stream_info *info,
                          size_t *bytes);

#endif
