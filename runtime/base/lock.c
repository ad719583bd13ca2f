/* lock.c: ranked locks; the order is checked in debug builds. */
#include "runtime/base/lock.h"

#include "runtime/base/status.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef NDEBUG
enum { MAX_HELD = 24 };
static _Thread_local struct {
    enum wm_rank rank[MAX_HELD];
    unsigned count;
    uint64_t taken; /* locks acquired since the thread began */
} held;

void wm_lock_note_acquire(enum wm_rank rank)
{
    wm_assert(held.count < MAX_HELD);
    wm_assert(rank > 0); /* wm_lock_init() was called */
    wm_assert(held.count == 0 || held.rank[held.count - 1] < rank);
    held.rank[held.count++] = rank;
    held.taken++;
}

void wm_lock_note_release(enum wm_rank rank)
{
    wm_assert(held.count > 0 && held.rank[held.count - 1] == rank);
    held.count--;
}

bool wm_lock_driver_call_allowed(void)
{
    return held.count == 0;
}

uint64_t wm_lock_taken(void)
{
    return held.taken;
}
#else
bool wm_lock_driver_call_allowed(void)
{
    return true;
}

uint64_t wm_lock_taken(void)
{
    return 0;
}
#endif

void wm_lock_init(wm_lock *lock, enum wm_rank rank)
{
    *lock = (wm_lock)WM_LOCK_INIT(rank);
}

/* Attempts before a thread sleeps, and the longest pause between two attempts,
 * in pause instructions. Critical sections are shorter than a sleep and a
 * wake-up. */
enum { TRIES = 50, PAUSES = 32 };

static void pause_a_while(unsigned count)
{
    while (count-- > 0) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#else
        __asm__ volatile("" ::: "memory");
#endif
    }
}

/* Sleeps while *word is value; may wake up early. timeout: null, none. Not a
 * cancellation point. */
static void sleep_while(_Atomic uint32_t *word, uint32_t value,
                        const struct timespec *timeout)
{
    int error = errno;

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
    errno = error;
}

static void wake(_Atomic uint32_t *word, int threads)
{
    int error = errno;

    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
    errno = error;
}

void wm_lock_wait(wm_lock *lock)
{
    unsigned pauses = 1;

    for (int i = 1; i < TRIES; i++) {
        pause_a_while(pauses);
        pauses = pauses < PAUSES ? 2 * pauses : PAUSES;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) ==
                WM_LOCK_FREE &&
            wm_lock_try(lock)) {
            return;
        }
    }
    /* A thread that slept leaves WANTED: others may sleep, too. */
    while (atomic_exchange_explicit(&lock->state, WM_LOCK_WANTED,
                                    memory_order_acquire) != WM_LOCK_FREE) {
        sleep_while(&lock->state, WM_LOCK_WANTED, NULL);
    }
}

void wm_lock_wake(wm_lock *lock)
{
    wake(&lock->state, 1);
}

static void wait_for(wm_cond *cond, wm_lock *lock,
                     const struct timespec *timeout)
{
    /* Relaxed, here and below: the lock orders them. */
    uint32_t turn = atomic_load_explicit(&cond->turn, memory_order_relaxed);

    atomic_fetch_add_explicit(&cond->waiters, 1, memory_order_relaxed);
    wm_lock_release(lock);
    sleep_while(&cond->turn, turn, timeout);
    (void)wm_lock_acquire(lock);
    atomic_fetch_sub_explicit(&cond->waiters, 1, memory_order_relaxed);
}

void wm_cond_wait(wm_cond *cond, wm_lock *lock)
{
    wait_for(cond, lock, NULL);
}

void wm_cond_wait_for(wm_cond *cond, wm_lock *lock, uint64_t ns)
{
    const uint64_t second = 1000000000;
    const struct timespec timeout = {.tv_sec = (time_t)(ns / second),
                                     .tv_nsec = (long)(ns % second)};

    wait_for(cond, lock, &timeout);
}

static void signal_some(wm_cond *cond, int threads)
{
    if (atomic_load_explicit(&cond->waiters, memory_order_relaxed) > 0) {
        atomic_fetch_add_explicit(&cond->turn, 1, memory_order_relaxed);
        wake(&cond->turn, threads);
    }
}

void wm_cond_signal(wm_cond *cond)
{
    signal_some(cond, 1);
}

void wm_cond_broadcast(wm_cond *cond)
{
    signal_some(cond, INT_MAX);
}

void wm_wait_turn(unsigned turn)
{
    const struct timespec moment = {.tv_nsec = 50000};

    if (turn < 64) {
        sched_yield();
    } else {
        WM_CANCEL_OFF();
        nanosleep(&moment, NULL);
    }
}
