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
 * State goes LIVE → CLOSING → GONE. Whoever works on a runtime that its caller
 * did not name (a thread that exits, a storage that waits for a stream) enters
 * with wm_runtime_pin(), which refuses once the state is not LIVE; destroy sets
 * CLOSING and waits until no thread is pinned, which is soon, because nobody
 * waits for user code while pinned but for work of streams, for which destroy
 * waits as well. */
#ifndef WM_CONTROL_H
#define WM_CONTROL_H

#include "runtime/base/callback.h"
#include "runtime/base/lock.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver.h"
#include "warmpool/handle.h"
#include "warmpool/runtime.h"
#include "warmpool/storage.h"

#include <stdatomic.h>

/* A driver call that would break captures, while its thread makes it; on its
 * stack. Who announces a capture waits for it, but never for a callback of the
 * program: a log line, or a kind's destroy, may come in the middle. */
typedef struct wm_breaking {
    wm_callback_watch watch;
    struct wm_timelines *set;
    bool listed;     /* const: others wait for it */
    bool begun;      /* owner thread: and no callback came since */
    unsigned inside; /* lock timelines: callbacks that its thread is in */
    struct wm_breaking *next;
} wm_breaking;

typedef struct wm_window wm_window;
struct wm_pools;        /* handles/pools.h */
struct wm_pinned;       /* alloc/kinds/pinned.h */
struct wm_trace;        /* runtime/base/trace.h */
struct wm_history;      /* runtime/base/history.h */
struct wm_allocators;   /* alloc/storage/allocators.h */
struct wm_device_space; /* alloc/kinds/device_space.h */
struct wm_private_arena;
struct wm_private_pools; /* alloc/private_pool/private_pool.h */

typedef struct wm_own_allocator {
    warm_runtime *runtime;
    int device;
    warm_allocator allocator;
} wm_own_allocator;

enum wm_runtime_state {
    WM_RUNTIME_LIVE = 1,
    WM_RUNTIME_CLOSING,
    WM_RUNTIME_GONE
};

struct warm_runtime {
    _Atomic int state;
    unsigned generation; /* const: wm_process_generation() */
    int devices;         /* const */
    /* Raised when a stream retires, is adopted, or a capture is announced: what
     * was known of a stream before is not trusted any more, because another one
     * may get the same address. */
    _Atomic uint64_t stream_epoch;
    wm_driver *driver;          /* const while LIVE */
    struct wm_pools *pools;     /* const while LIVE */
    struct wm_pinned *pinned;   /* const while LIVE */
    struct wm_trace *trace;     /* const while LIVE; null: nothing is traced */
    struct wm_history *history; /* const while LIVE; null: none is kept */
    bool told;                  /* const while LIVE: there is one of the two */
    struct wm_device_space *device_spaces;  /* const while LIVE; [device] */
    struct wm_allocators *allocators;       /* const while LIVE */
    struct wm_private_pools *private_pools; /* const while LIVE */
    /* Private pools that are recording: while there are any, allocations look
     * at what they would have not to. Relaxed; see wm_private_routes(). */
    _Atomic unsigned routes;
    /* const. The graphs of a private pool (0: none) are gone. later: memory
     * must not go back now, this is called again then. No lock is held. */
    void (*pool_over)(warm_runtime *runtime, uint64_t pool, bool later);
    /* const. Memory of private pools that have gone goes back; only: of one
     * arena, null: of all. Cancellation is off. */
    void (*tend_pools)(warm_runtime *runtime, struct wm_private_arena *only);
    /* const. Handles wait for the end of captures, which may be over. No lock
     * is held. */
    void (*captures_over)(warm_runtime *runtime);
    _Atomic bool put_off; /* relaxed: a hint that captures_over has work */
    /* Gives back what a window holds; set by runtime.c (nothing below it may
     * know the handle pool). */
    void (*window_release)(warm_runtime *runtime, wm_window *window);
    /* const; may be null. Takes back what a window caches, whose section the
     * caller has, perhaps under the windows lock: takes inner locks, calls no
     * driver. */
    void (*window_empty)(warm_runtime *runtime, wm_window *window);
    unsigned window_closed; /* const: reasons that windows begin with */
    /* What births and deaths of threads write; not beside what every call
     * reads. */
    _Alignas(64) _Atomic unsigned pinned_threads; /* see above */
    _Atomic(wm_window *) ready_window; /* a spare one, or null: see window.c */
    wm_lock windows_lock;
    wm_window *windows;         /* lock windows: all that were made */
    wm_window *spare_windows;   /* lock windows: spare ones but for the ready */
    warm_runtime *next_runtime; /* lock process: every runtime ever made */
    /* const once LIVE; of pinned memory, then of each device. They are here
     * because storages may know them when the runtime is gone. */
    wm_own_allocator own[];
};

/* Why wm_runtime_check() says no; OK if it does not. */
warm_status wm_runtime_refuse(warm_runtime *runtime);

/* What every public function asks first: INVALID_ARGUMENT for null,
 * RUNTIME_GONE, FORKED, EXITING, or OK. Takes no lock. */
static inline warm_status wm_runtime_check(warm_runtime *runtime)
{
    /* Acquire, partner of the release in warm_runtime_create(): a caller that
     * got the pointer through a relaxed variable still sees the fields. */
    if (wm_likely(runtime != NULL) &&
        wm_likely(atomic_load_explicit(&runtime->state, memory_order_acquire) ==
                  WM_RUNTIME_LIVE) &&
        wm_likely(runtime->generation == wm_process_generation()) &&
        wm_likely(!wm_process_exiting())) {
        return WARM_OK;
    }
    return wm_runtime_refuse(runtime);
}

/* INVALID_ARGUMENT unless device is one of a usable runtime's. */
warm_status wm_runtime_check_range(const warm_runtime *runtime, int device);

/* As wm_runtime_check(), and device is in range. */
warm_status wm_runtime_check_device(warm_runtime *runtime, int device);

/* As wm_runtime_check(), but fine while the process exits: for calls that
 * only read memory, so that what exit leaks can be counted (row A6). */
warm_status wm_runtime_check_read(warm_runtime *runtime);

/* Keeps a live runtime from being taken down until wm_runtime_unpin(); false
 * once it is not LIVE. No user code runs in between. */
static inline void wm_runtime_unpin(warm_runtime *runtime)
{
    /* Release, partner of the load in wm_runtime_begin_close(): what this
     * thread did to the pools is seen by the thread that takes them down. */
    atomic_fetch_sub_explicit(&runtime->pinned_threads, 1,
                              memory_order_release);
}

static inline bool wm_runtime_pin(warm_runtime *runtime)
{
    /* Sequentially consistent: see the top of control.c. */
    atomic_fetch_add_explicit(&runtime->pinned_threads, 1,
                              memory_order_seq_cst);
    if (wm_likely(atomic_load_explicit(&runtime->state, memory_order_seq_cst) ==
                  WM_RUNTIME_LIVE)) {
        return true;
    }
    wm_runtime_unpin(runtime);
    return false;
}

/* LIVE → CLOSING, and waits until nobody is pinned; false if it was not LIVE,
 * which happens to all but one of the threads that try. */
bool wm_runtime_begin_close(warm_runtime *runtime);
void wm_runtime_end_close(warm_runtime *runtime);

/* Adds a runtime to the list of all that were ever made. */
void wm_runtime_enlist(warm_runtime *runtime);

/* Calls fn for every live runtime of this process, pinned, under the process
 * lock: fn may take inner locks, may not log and may not call the driver. */
void wm_runtime_each(void (*fn)(warm_runtime *runtime, void *argument),
                     void *argument);

/* In the child of a fork: calls fn for every runtime of its ancestors, under
 * the process lock. Their other locks may be held for ever. */
void wm_runtime_each_inherited(void (*fn)(warm_runtime *runtime,
                                          void *argument),
                               void *argument);

#endif
