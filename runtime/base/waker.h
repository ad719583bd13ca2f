/* waker.h: a thread that sleeps until another thread has work for it.
 *
 * The sleeper stores how it sleeps, then looks for work one last time. The
 * producer publishes work, then reads how the sleeper sleeps: one relaxed load,
 * which costs nothing while the sleeper is awake. Both must use a common lock
 * in between (the lock of an arena): then either the sleeper sees the work or
 * the producer sees the sleep. */
#ifndef WM_WAKER_H
#define WM_WAKER_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

/* How the thread sleeps; it decides which events wake the thread. */
enum wm_sleep {
    WM_SLEEP_NONE,  /* awake, or asleep until wm_waker_wake() alone */
    WM_SLEEP_SHORT, /* until the next poll */
    WM_SLEEP_DECAY, /* for decay_ms; a block that becomes pending wakes it */
    WM_SLEEP_LONG   /* until woken; memory that begins to decay wakes it too */
};

typedef struct wm_waker {
    _Alignas(64) _Atomic int sleep; /* enum wm_sleep; written under the lock */
    _Alignas(64) wm_lock lock;      /* WM_RANK_BACKGROUND */
    wm_cond wake;
    bool woken; /* lock */
} wm_waker;

void wm_waker_wake_locked(wm_waker *waker);
void wm_waker_wake(wm_waker *waker);

/* A block has become pending. Relaxed: see above. */
static inline void wm_waker_note_pending(wm_waker *waker)
{
    if (wm_unlikely(atomic_load_explicit(&waker->sleep, memory_order_relaxed) >=
                    WM_SLEEP_DECAY)) {
        wm_waker_wake(waker);
    }
}

#endif
