/* lock.h: the only lock of the library, ranked.
 *
 * A thread acquires locks by rising rank only. Debug builds record the ranks
 * that a thread holds, and stop on a reversal and on a driver call under any
 * lock.
 * A callee never drops its caller's lock: work for the driver is collected
 * under the lock, done after it, written back under it.
 *
 * Deferred cancellation is safe: no code under a lock is a cancellation point,
 * nor is wm_cond_wait(). */
#ifndef WM_LOCK_H
#define WM_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The lock order, outermost first. */
enum wm_rank {
    WM_RANK_PROCESS = 1, /* log sink, list of runtimes, default runtime */
    WM_RANK_KINDS,       /* a runtime's table of kinds */
    WM_RANK_ALLOCATORS,  /* a runtime's table of allocators */
    WM_RANK_PREWARM,     /* a runtime's queue of pools to prewarm */
    WM_RANK_POOL,        /* idle handles of one kind on one device */
    WM_RANK_METER,       /* creations of handles under way on one device */
    WM_RANK_WORKSPACES,  /* workspaces of one device */
    WM_RANK_ROUTES,      /* a thread that waits for requests being routed */
    WM_RANK_PRIVATE,     /* a runtime's private pools */
    WM_RANK_LISTENERS,   /* a runtime's memory callbacks */
    WM_RANK_BACKGROUND,  /* requests to a runtime's background thread */
    WM_RANK_GROWTH,    /* memory being obtained from or returned to a driver */
    WM_RANK_IMPORTS,   /* memory of other processes on one device */
    WM_RANK_ADOPTED,   /* a runtime's adopted memory */
    WM_RANK_SHARED,    /* records of buffers shared by host and device */
    WM_RANK_WINDOWS,   /* a runtime's list of windows */
    WM_RANK_WINDOW,    /* what one thread's window caches */
    WM_RANK_REGISTRY,  /* lanes of a device's memory, by stream */
    WM_RANK_TIMELINES, /* table of timelines by stream id */
    WM_RANK_TIMELINE,  /* pending blocks of one stream */
    WM_RANK_ARENA,     /* free lists, segments and counters of an arena */
    WM_RANK_ARENA_LAST = WM_RANK_ARENA + 15, /* one rank for each sibling */
    WM_RANK_USES,    /* streams recorded on some of the live blocks */
    WM_RANK_DEBUG,   /* notes of freed memory (option debug) */
    WM_RANK_EVENTS,  /* idle events of a device */
    WM_RANK_TRACING, /* records of one thread, not yet in the file */
    WM_RANK_TRACE,   /* file, buffers and streams of a trace */
    WM_RANK_DRIVER,  /* inside a driver: never held across the table */
};

/* A futex: acquiring and releasing it is one instruction each where no other
 * thread wants it, inlined; with a pthread mutex the two calls were an eighth
 * of the time of a miss (tests/bench/PROFILE.md). Needs no end. */
typedef struct wm_lock {
    _Atomic uint32_t state; /* of enum wm_lock_state */
    enum wm_rank rank;      /* const after init */
} wm_lock;

enum wm_lock_state {
    WM_LOCK_FREE,
    WM_LOCK_HELD,
    WM_LOCK_WANTED /* held, and other threads may sleep until it is released */
};

/* Zeros are one without a waiter, and need no end. In the child of a fork it
 * may count waiters that do not exist: they cost a wake-up. */
typedef struct wm_cond {
    _Atomic uint32_t turn;    /* signals so far, modulo 2^32 */
    _Atomic uint32_t waiters; /* changed under the lock that they wait with */
} wm_cond;

#define WM_LOCK_INIT(r)                                                        \
    {                                                                          \
        .state = WM_LOCK_FREE, .rank = (r)                                     \
    }

void wm_lock_init(wm_lock *lock, enum wm_rank rank);
/* Debug builds: the lock order. */
void wm_lock_note_acquire(enum wm_rank rank);
void wm_lock_note_release(enum wm_rank rank);
/* For wm_lock_acquire(), while another thread holds the lock; and for
 * wm_lock_release(), if threads may sleep. */
void wm_lock_wait(wm_lock *lock);
void wm_lock_wake(wm_lock *lock);
/* For wm_lock_acquire() only: without the rank. */
static inline bool wm_lock_try(wm_lock *lock)
{
    uint32_t state = WM_LOCK_FREE;

    return atomic_compare_exchange_strong_explicit(
        &lock->state, &state, WM_LOCK_HELD, memory_order_acquire,
        memory_order_relaxed);
}
/* Returns whether another thread held the lock. */
static inline bool wm_lock_acquire(wm_lock *lock)
{
#ifndef NDEBUG
    wm_lock_note_acquire(lock->rank);
#endif
    if (__builtin_expect(wm_lock_try(lock), 1)) {
        return false;
    }
    wm_lock_wait(lock);
    return true;
}
static inline void wm_lock_release(wm_lock *lock)
{
#ifndef NDEBUG
    /* First: once the lock is free another thread may free its object. */
    wm_lock_note_release(lock->rank);
#endif
    if (__builtin_expect(atomic_exchange_explicit(&lock->state, WM_LOCK_FREE,
                                                  memory_order_release) ==
                             WM_LOCK_WANTED,
                         0)) {
        wm_lock_wake(lock);
    }
}

/* Not a cancellation point; may wake up early. What a thread waits for changes
 * under the lock only, and is signalled after that. */
void wm_cond_wait(wm_cond *cond, wm_lock *lock);
/* Waits at most ns nanoseconds of CLOCK_MONOTONIC. */
void wm_cond_wait_for(wm_cond *cond, wm_lock *lock, uint64_t ns);
void wm_cond_signal(wm_cond *cond);
void wm_cond_broadcast(wm_cond *cond);

/* Debug builds: false if the thread holds a lock, which must not be held across
 * a driver call. Release builds: always true. */
bool wm_lock_driver_call_allowed(void);

/* For tests: how many locks the calling thread has acquired since it began; 0
 * in release builds. */
uint64_t wm_lock_taken(void);

static inline int wm_cancel_off(void)
{
    int old = PTHREAD_CANCEL_ENABLE;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    return old;
}

static inline void wm_cancel_restore(const int *old)
{
    pthread_setcancelstate(*old, NULL);
}

/* Defers cancellation until the scope is left. For what may be a cancellation
 * point: files, sleeps, joins, libraries, functions of the program. Calls of
 * the driver and callbacks (callback.h) have it. */
#define WM_CANCEL_OFF()                                                        \
    __attribute__((cleanup(wm_cancel_restore), unused)) const int cancel_ =    \
        wm_cancel_off()

/* One turn of waiting without a lock for a thread that will finish within
 * microseconds. That thread may have been preempted, perhaps by the waiter: so
 * the first 64 turns yield, later ones sleep for 50 us, which lets a thread of
 * lower priority run. turn: turns so far. */
void wm_wait_turn(unsigned turn);

#endif
