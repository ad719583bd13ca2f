/* runtime_body.h: the body of a warm_runtime, and the check every call begins
 * with.
 *
 * The pointer that users hold is this block. It is never freed: for some 200
 * bytes per runtime, a call on a destroyed runtime is an error and never a
 * crash, and a thread's link to its runtime is weak without reference counts.
 *
 *   user ──► warm_runtime ──► driver, pools, pinned (null once gone)
 *                 ▲  │ windows (lock windows)
 *   thread ──► window ◄┘
 *
 * State goes LIVE → CLOSING → GONE. A thread that works on a runtime which no
 * caller named (a thread that exits) first calls wm_runtime_pin(), which fails
 * unless the state is LIVE. Destroy sets CLOSING and waits until no thread is
 * pinned. That wait is short: a pinned thread waits for no user code except
 * work of streams, for which destroy waits too. */
#ifndef WM_RUNTIME_BODY_H
#define WM_RUNTIME_BODY_H

#include "runtime/base/callback.h"
#include "runtime/base/listeners.h"
#include "runtime/base/lock.h"
#include "runtime/base/process.h"
#include "runtime/base/segment_ids.h"
#include "runtime/base/status.h"
#include "runtime/base/turn.h"
#include "runtime/driver/driver.h"
#include "warmpool/handle.h"
#include "warmpool/runtime.h"
#include "warmpool/storage.h"

#include <stdatomic.h>

/* A driver call that would break captures, while it is under way; lives on the
 * stack of its thread. A thread that announces a capture waits for such calls,
 * but never while a call is inside a callback of the program: the log's, or a
 * kind's destroy. */
typedef struct wm_breaking {
    wm_callback_watch watch;
    struct wm_timelines *set;
    bool listed;     /* const: it is in set's list, so announcers wait for it */
    bool begun;      /* owner thread: begun, and no callback ran since */
    unsigned inside; /* lock timelines: nested callbacks of its thread */
    struct wm_breaking *next;
    /* If the call must not be made: why a query of a stream failed, or
     * status OK if a capture is known. */
    warm_error why;
} wm_breaking;

typedef struct wm_window wm_window;
struct wm_kind_table;     /* handles/kind_table.h */
struct wm_pinned;         /* alloc/kinds/pinned.h */
struct wm_trace;          /* runtime/base/trace.h */
struct wm_debug;          /* runtime/base/debug.h */
struct wm_history;        /* runtime/base/history.h */
struct wm_allocators;     /* alloc/storage/allocators.h */
struct wm_device_space;   /* alloc/kinds/device_space.h */
struct wm_shared;         /* alloc/kinds/shared.h */
struct wm_stats_file;     /* runtime/stats_file.h */
struct wm_snapshot_watch; /* runtime/snapshot_signal.h */
struct wm_private_arena;
struct wm_private_pools; /* alloc/private_pool/private_pool.h */

typedef struct wm_own_allocator {
    warm_runtime *runtime;
    int device;
    warm_allocator allocator;
} wm_own_allocator;

/* Words of option log_memory. */
enum wm_log_memory {
    WM_LOG_PROFILE = 1,
    WM_LOG_ALLOC = 2,
    WM_LOG_RECYCLE = 4,
    WM_LOG_FREE = 8,
    WM_LOG_RELEASE = 16,
    WM_LOG_LARGE = 32
};
enum { WM_LOG_LARGE_BYTES = 1 << 20 };

/* Whether bytes are large enough for a line of option log_memory. */
static inline bool wm_log_memory_fits(unsigned words, size_t bytes)
{
    return (words & WM_LOG_LARGE) == 0 || bytes >= WM_LOG_LARGE_BYTES;
}

enum wm_runtime_state {
    WM_RUNTIME_LIVE = 1,
    WM_RUNTIME_CLOSING,
    WM_RUNTIME_GONE
};

struct warm_runtime {
    _Atomic int state;
    unsigned generation; /* const: wm_process_generation() */
    int devices;         /* const */
    /* Raised when a stream retires or is adopted, or a capture is announced:
     * whatever a thread remembers of streams from an earlier epoch is invalid,
     * since another stream may have the same address. */
    _Atomic uint64_t stream_epoch;
    wm_driver *driver;           /* const while LIVE */
    struct wm_kind_table *kinds; /* const while LIVE */
    struct wm_pinned *pinned;    /* const while LIVE */
    struct wm_trace *trace;      /* const while LIVE; null: nothing is traced */
    struct wm_history *history;  /* const while LIVE; null: none is kept */
    struct wm_debug *debug; /* const while LIVE; null: option debug is off */
    _Atomic bool traced;    /* relaxed: each allocation and free takes the
                               slow path, for the trace, the history, options
                               debug and log_memory, or from when a memory
                               callback first asked for blocks */
    unsigned log_memory;    /* const: of enum wm_log_memory */
    struct wm_stats_file *stats_file; /* const while LIVE; null: no option
                                         stats_at_exit */
    struct wm_snapshot_watch *watch;  /* const while LIVE; null: no option
                                         snapshot_signal */
    wm_listeners listeners;           /* memory callbacks */
    wm_segment_ids segment_ids;       /* has a lock of its own */
    wm_turn turn; /* its users: lock of the background thread's waker */
    struct wm_device_space *device_spaces;  /* const while LIVE; [device] */
    struct wm_shared *shared;               /* const while LIVE */
    struct wm_allocators *allocators;       /* const while LIVE */
    struct wm_private_pools *private_pools; /* const while LIVE */
    /* Private pools that record: while there are any, allocations look up the
     * pool that they belong to. Relaxed; see wm_private_routes(). */
    _Atomic unsigned routes;
    /* const. The graphs of a private pool are gone: frees the workspaces that
     * only they used, and those that earlier calls could not free (pool 0: only
     * these). later: a stream captures, so nothing is freed yet; the caller
     * sets put_off. Call without a lock. */
    void (*pool_over)(warm_runtime *runtime, uint64_t pool, bool later);
    /* const. Frees memory of ended private pools. only: the arena whose memory
     * is freed; null: all. Cancellation is off. */
    void (*tend_pools)(warm_runtime *runtime, struct wm_private_arena *only);
    /* const. Captures may have ended: makes the calls that were put off (frees
     * workspaces, destroys handles, closes imports). Call without a lock. */
    void (*captures_over)(warm_runtime *runtime);
    /* const. Frees the idle workspaces of a device (WM_DEVICE_UNKNOWN: of all),
     * and returns the bytes; counts the bytes of workspaces, and of those that
     * are idle. Call without a lock. */
    size_t (*trim_workspaces)(warm_runtime *runtime, int device);
    void (*count_workspaces)(warm_runtime *runtime, int device, size_t *held,
                             size_t *idle);
    _Atomic bool put_off; /* relaxed: a hint that captures_over has work */
    /* const. Releases the handles of a window; set by runtime.c, since this
     * folder must not know the handle pools. */
    void (*window_release)(warm_runtime *runtime, wm_window *window);
    /* const; may be null. Flushes the caches of a window. The caller holds the
     * window's biased lock, perhaps under the windows lock; the function takes
     * inner locks and calls no driver. */
    void (*window_empty)(warm_runtime *runtime, wm_window *window);
    /* const; may be null: no. Whether what the window caches may wait in it for
     * the next thread. Called by its thread, which exits. */
    bool (*window_may_wait)(warm_runtime *runtime, wm_window *window);
    /* const; may be null. Called by a thread that releases the runtime, or
     * exits: records the events that only this thread can record, on its own
     * default stream. True: some frees still wait or a capture of that stream
     * is announced, and the thread calls again when it exits. Call without a
     * lock; calls the driver. */
    bool (*thread_leaves)(warm_runtime *runtime, bool exits);
    unsigned window_revoked; /* lock windows_lock: reasons that close new
                                windows */
    /* Written when threads start and end, so on another cache line than the
     * fields that every call reads. */
    _Alignas(64) _Atomic unsigned pinned_threads; /* see above */
    _Atomic(wm_window *) ready_window; /* a spare one, or null: see window.c */
    wm_lock windows_lock;
    wm_window *windows;         /* lock windows: all that were made */
    wm_window *spare_windows;   /* lock windows: spare, except ready_window */
    warm_runtime *next_runtime; /* lock process: every runtime ever made */
    /* const once LIVE: the allocator of pinned memory, then of each device's
     * own memory, then of what each shares. Here, because storages may name
     * them after the runtime is gone. */
    wm_own_allocator own[];
};

/* The slow path of wm_runtime_check(): finds out what is wrong, if anything. */
warm_status wm_runtime_refuse(warm_runtime *runtime);

/* The first check of every public function: INVALID_ARGUMENT for null,
 * RUNTIME_GONE, FORKED, EXITING, or OK. Takes no lock. */
static inline warm_status wm_runtime_check(warm_runtime *runtime)
{
    /* Acquire pairs with the release in warm_runtime_create(): a caller that
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

/* INVALID_ARGUMENT unless the runtime, which is usable, has the device. */
warm_status wm_runtime_check_range(const warm_runtime *runtime, int device);

/* wm_runtime_check() and wm_runtime_check_range(). */
warm_status wm_runtime_check_device(warm_runtime *runtime, int device);

/* wm_runtime_check() without EXITING: for calls that only read memory, so that
 * a program can count at exit what it leaks. */
warm_status wm_runtime_check_read(warm_runtime *runtime);

static inline bool wm_runtime_is_traced(const warm_runtime *runtime)
{
    /* Relaxed: see the field. */
    return wm_unlikely(
        atomic_load_explicit(&runtime->traced, memory_order_relaxed));
}

/* wm_runtime_pin() keeps a live runtime from being destroyed until
 * wm_runtime_unpin(); false if it is not LIVE. No user code runs in between. */
static inline void wm_runtime_unpin(warm_runtime *runtime)
{
    /* Release pairs with the load in wm_runtime_begin_close(): the thread that
     * frees the pools sees all that this thread did to them. */
    atomic_fetch_sub_explicit(&runtime->pinned_threads, 1,
                              memory_order_release);
}

static inline bool wm_runtime_pin(warm_runtime *runtime)
{
    /* Sequentially consistent: see the top of runtime_body.c. */
    atomic_fetch_add_explicit(&runtime->pinned_threads, 1,
                              memory_order_seq_cst);
    if (wm_likely(atomic_load_explicit(&runtime->state, memory_order_seq_cst) ==
                  WM_RUNTIME_LIVE)) {
        return true;
    }
    wm_runtime_unpin(runtime);
    return false;
}

/* LIVE → CLOSING, then waits until no thread is pinned. False if the state was
 * not LIVE: of several threads only one succeeds. */
bool wm_runtime_begin_close(warm_runtime *runtime);
void wm_runtime_end_close(warm_runtime *runtime);

/* Adds a runtime to the list of all that were ever made. */
void wm_runtime_enlist(warm_runtime *runtime);

/* Calls fn for every live runtime of this process, pinned, under the process
 * lock: fn may take inner locks, may not log and may not call the driver. */
void wm_runtime_each(void (*fn)(warm_runtime *runtime, void *argument),
                     void *argument);

/* The next live runtime of this process after the given one (null: the first),
 * pinned; null: there is none. */
warm_runtime *wm_runtime_next(const warm_runtime *after);

/* In the child of a fork: calls fn for every runtime of its ancestors, under
 * the process lock. Their other locks may be held for ever. */
void wm_runtime_each_inherited(void (*fn)(warm_runtime *runtime,
                                          void *argument),
                               void *argument);

#endif
