/* waker.h: a thread that sleeps until somebody has work for it.
 *
 * The sleeper says how it sleeps before it looks for work a last time; who
 * makes work reads that afterwards, one relaxed load where the thread is awake
 * anyway. Something that both use under a lock has to lie between (the lock of
 * an arena): then one of the two sees the other. */
#ifndef WM_WAKER_H
#define WM_WAKER_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>

/* How the thread sleeps, as far as others are to wake it. */
enum wm_sleep {
    WM_SLEEP_NONE,  /* it is awake, or nothing but wm_waker_wake() wakes it */
    WM_SLEEP_SHORT, /* until the next poll */
    WM_SLEEP_DECAY, /* for decay_ms: what becomes pending wakes it */
    WM_SLEEP_LONG   /* until it is woken: so does memory that decays */
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
