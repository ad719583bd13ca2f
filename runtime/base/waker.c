/* waker.c: see waker.h. */
#include "runtime/base/waker.h"

void wm_waker_wake_locked(wm_waker *waker)
{
    waker->woken = true;
    atomic_store_explicit(&waker->sleep, WM_SLEEP_NONE, memory_order_relaxed);
    wm_cond_signal(&waker->wake);
}

void wm_waker_wake(wm_waker *waker)
{
    wm_lock_acquire(&waker->lock);
    wm_waker_wake_locked(waker);
    wm_lock_release(&waker->lock);
}
