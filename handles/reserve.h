/* reserve.h: what the runtime calls of the handles' public face. */
#ifndef WM_RESERVE_H
#define WM_RESERVE_H

#include "runtime/thread/window.h"

/* Gives every handle of the window back: one lock for each kind and device
 * held, no call of a driver or library. For warm_runtime.window_release. */
void wm_reserve_release(warm_runtime *runtime, wm_window *window);

#endif
