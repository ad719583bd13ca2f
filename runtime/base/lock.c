/* lock.c: ranked locks; the order is checked in debug builds. */
#include "runtime/base/lock.h"

#include "runtime/base/status.h"

#include <sched.h>
#include <time.h>

#ifndef NDEBUG
enum { MAX_HELD = 24 };
static _Thread_local struct {
    enum wm_rank rank[MAX_HELD];
    unsigned count;
    uint64_t taken; /* locks acquired since the thread began */
} held;

static void note_acquire(enum wm_rank rank)
{
    wm_assert(held.count < MAX_HELD);
    wm_assert(held.count == 0 || held.rank[held.count - 1] < rank);
    held.rank[held.count++] = rank;
    held.taken++;
}

static void note_release(enum wm_rank rank)
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
static void note_acquire(enum wm_rank rank)
{
    (void)rank;
}

static void note_release(enum wm_rank rank)
{
    (void)rank;
}

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
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
}

void wm_lock_fini(wm_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
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

bool wm_lock_acquire(wm_lock *lock)
{
    unsigned pauses = 1;

    note_acquire(lock->rank);
    if (pthread_mutex_trylock(&lock->mutex) == 0) {
        return false;
    }
    for (int i = 1; i < TRIES; i++) {
        pause_a_while(pauses);
        pauses = pauses < PAUSES ? 2 * pauses : PAUSES;
        if (pthread_mutex_trylock(&lock->mutex) == 0) {
            return true;
        }
    }
    pthread_mutex_lock(&lock->mutex);
    return true;
}

void wm_lock_release(wm_lock *lock)
{
    /* First: once the mutex is free another thread may free its object. */
    note_release(lock->rank);
    pthread_mutex_unlock(&lock->mutex);
}

void wm_cond_init(wm_cond *cond)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&cond->cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void wm_cond_fini(wm_cond *cond)
{
    pthread_cond_destroy(&cond->cond);
}

void wm_cond_wait(wm_cond *cond, wm_lock *lock)
{
    int cancel = wm_cancel_off();

    pthread_cond_wait(&cond->cond, &lock->mutex);
    wm_cancel_restore(cancel);
}

void wm_cond_wait_for(wm_cond *cond, wm_lock *lock, uint64_t ns)
{
    const uint64_t second = 1000000000;
    int cancel = wm_cancel_off();
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / second);
    until.tv_nsec = (long)(ns % second);
    pthread_cond_timedwait(&cond->cond, &lock->mutex, &until);
    wm_cancel_restore(cancel);
}

void wm_cond_signal(wm_cond *cond)
{
    pthread_cond_signal(&cond->cond);
}

void wm_cond_broadcast(wm_cond *cond)
{
    pthread_cond_broadcast(&cond->cond);
}

void wm_wait_turn(unsigned turn)
{
    const struct timespec moment = {.tv_nsec = 50000};
    int cancel;

    if (turn < 64) {
        sched_yield();
    } else {
        cancel = wm_cancel_off();
        nanosleep(&moment, NULL);
        wm_cancel_restore(cancel);
    }
}
