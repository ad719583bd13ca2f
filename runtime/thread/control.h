/* control.h: the body of a warm_runtime, and the check every call begins with.
 *
 * The pointer that users hold is this block. It is never freed: some 200 bytes
 * a runtime ever made buy that a call on a runtime that is gone is an error
 * and never a crash, and that a thread's link to its runtime is weak without
 * counts that could be wrong (row A5).
 *
 *   user ──► warm_runtime ──► driver, pools, pinned (null once gone)
 *                 ▲  │ windows (lock windows)
 *   thread ──► window ◄┘
 *
 * State goes LIVE → CLOSING → GONE. A thread that exits enters with
 * wm_runtime_pin(), which refuses once the state is not LIVE; destroy sets
 * CLOSING and waits until no thread is pinned, which is soon, because nobody
 * waits for user code while pinned. */
#ifndef WM_CONTROL_H
#define WM_CONTROL_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"
#include "warmpool/handle.h"
#include "warmpool/runtime.h"

typedef struct wm_window wm_window;
struct wm_pools;  /* handles/pool.h */
struct wm_pinned; /* alloc/space_pinned.h */

enum wm_runtime_state {
    WM_RUNTIME_LIVE = 1,
    WM_RUNTIME_CLOSING,
    WM_RUNTIME_GONE
};

struct warm_runtime {
    _Atomic int state;
    _Atomic unsigned pinned_threads; /* exiting threads inside */
    unsigned generation;             /* const: wm_process_generation() */
    int devices;                     /* const */
    /* Raised when a stream retires: a binding made before is not trusted any
     * more, because another stream may get the same address. */
    _Atomic uint64_t stream_epoch;
    wm_driver *driver;        /* const while LIVE */
    struct wm_pools *pools;   /* const while LIVE */
    struct wm_pinned *pinned; /* const while LIVE */
    /* Gives back what a window holds; set by runtime.c (nothing below it may
     * know the handle pool). */
    void (*window_release)(warm_runtime *runtime, wm_window *window);
    wm_lock windows_lock;
    wm_window *windows;         /* lock windows */
    warm_runtime *next_runtime; /* lock process: every runtime ever made */
};

/* What every public function asks first: INVALID_ARGUMENT for null,
 * RUNTIME_GONE, FORKED, EXITING, or OK. Takes no lock. */
warm_status wm_runtime_check(warm_runtime *runtime);

/* As wm_runtime_check(), and device is in range. */
warm_status wm_runtime_check_device(warm_runtime *runtime, int device);

#endif
