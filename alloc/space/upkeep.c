/* upkeep.c: what the background thread of a runtime does, and how it begins and
 * ends. See background.h.
 *
 * The thread is woken from floors below (background.c); what it does calls all
 * of them. */
#include "alloc/space/background.h"

#include "alloc/cache/pending.h"
#include "alloc/space/prewarm_jobs.h"
#include "alloc/space/space.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"

#include <pthread.h>

/* Between two polls, in ns. */
#define SHORTEST ((uint64_t)50000)
#define LONGEST  ((uint64_t)10000000)

/* Before a reserve that could not be had is asked for again, in ns. */
#define RETRY ((uint64_t)100000000)

#define NEVER UINT64_MAX

/* ---- how long it may rest ----------------------------------------------- */

static void look(wm_background *b, uint64_t *pending, uint64_t *finished,
                 uint64_t *held)
{
    warm_space_stats s = {.size = sizeof s};

    wm_space_stats(b->space, &s);
    *pending = s.pending.current + wm_pending_blocks(b->space->group.timelines);
    *finished = s.pending.freed;
    *held = s.held_bytes.current;
    if (b->space->beside != NULL) {
        wm_space_stats(b->space->beside, &s);
        *pending += s.pending.current;
        *finished += s.pending.freed;
    }
}

/* How long the thread may rest. pause: between the last two polls. */
static uint64_t may_rest_locked(wm_background *b, uint64_t *pause)
{
    uint64_t pending, finished, held;

    if (wm_prewarm_has_jobs_locked(b) || wm_background_reserve_is_short(b)) {
        return 0;
    }
    if (!b->on) {
        return NEVER;
    }
    look(b, &pending, &finished, &held);
    if (pending > 0) {
        *pause = *pause < SHORTEST      ? SHORTEST
                 : *pause < LONGEST / 2 ? *pause * 2
                                        : LONGEST;
        return *pause;
    }
    *pause = 0;
    return b->space->decay_ns > 0 && held > 0 ? b->space->decay_ns : NEVER;
}

/* ---- rest ------------------------------------------------------------- */

static void rest_locked(wm_background *b, uint64_t *pause)
{
    uint64_t ns;

    /* Before the look: who makes work after it sees the rest. */
    atomic_store_explicit(&b->waker.sleep,
                          b->on ? WM_SLEEP_LONG : WM_SLEEP_NONE,
                          memory_order_relaxed);
    ns = may_rest_locked(b, pause);
    if (ns != NEVER && ns > 0 && b->on) {
        atomic_store_explicit(&b->waker.sleep,
                              *pause > 0 ? WM_SLEEP_SHORT : WM_SLEEP_DECAY,
                              memory_order_relaxed);
    }
    if (ns == NEVER) {
        while (!b->waker.woken && !b->stop) {
            wm_cond_wait(&b->waker.wake, &b->waker.lock);
        }
    } else if (ns > 0) {
        wm_cond_wait_for(&b->waker.wake, &b->waker.lock, ns);
    }
    b->wakes += ns > 0;
    atomic_store_explicit(&b->waker.sleep, WM_SLEEP_NONE, memory_order_relaxed);
}

/* The last round is over; false if there is to be no other. */
static bool rest(wm_background *b, uint64_t *pause)
{
    bool goes_on;

    wm_lock_acquire(&b->waker.lock);
    b->rounds++;
    wm_cond_broadcast(&b->over);
    if (!b->waker.woken && !b->stop) {
        rest_locked(b, pause);
    }
    b->waker.woken = false;
    /* No driver may be called any more, and nobody will join. */
    while (wm_process_exiting() && !b->stop) {
        wm_cond_wait(&b->waker.wake, &b->waker.lock);
    }
    goes_on = !b->stop;
    wm_lock_release(&b->waker.lock);
    return goes_on;
}

/* ---- work ------------------------------------------------------------- */

/* What has come back makes the next pause a short one. */
static void collect(wm_background *b, uint64_t *pause)
{
    uint64_t pending, before, after, held;

    look(b, &pending, &before, &held);
    if (pending > 0 || b->space->decay_ns > 0) {
        wm_driver_notice_reset(b->space->driver, WM_DEVICE_UNKNOWN);
        wm_space_tend(b->space);
        look(b, &pending, &after, &held);
        *pause = after != before ? 0 : *pause;
    }
}

static void fill_reserve(wm_background *b)
{
    bool enough = false;
    size_t got = 0;

    if (wm_prewarm_step(b->space, b->reserve_node, b->reserve_bytes, &got,
                        &enough) != WARM_OK) {
        atomic_store_explicit(&b->retry_ns, wm_clock_ns() + RETRY,
                              memory_order_relaxed);
        wm_log(WARM_LOG_INFO, "the reserve cannot be kept: %s",
               warm_last_error_message());
    }
}

static void *thread_main(void *argument)
{
    wm_background *b = argument;
    uint64_t pause = 0;

    (void)wm_cancel_off();
    do {
        if (b->on) {
            collect(b, &pause);
        }
        if (wm_background_reserve_is_short(b)) {
            fill_reserve(b);
        }
        wm_prewarm_run_job(b);
    } while (rest(b, &pause));
    return NULL;
}

/* ---- begin and end ---------------------------------------------------- */

warm_status wm_background_begin(wm_background *b)
{
    warm_status status;

    b->main = thread_main;
    if (!b->on) {
        return b->reserve_bytes > 0
                   ? wm_prewarm_now(b->space, b->reserve_node, b->reserve_bytes)
                   : WARM_OK;
    }
    wm_lock_acquire(&b->waker.lock);
    status = wm_background_start_locked(b);
    wm_lock_release(&b->waker.lock);
    return status;
}

void wm_background_stop(wm_background *b)
{
    bool started;

    wm_lock_acquire(&b->waker.lock);
    started = b->started;
    b->stop = true;
    wm_prewarm_cancel_locked(b);
    wm_waker_wake_locked(&b->waker);
    wm_lock_release(&b->waker.lock);
    if (started) {
        pthread_join(b->thread, NULL);
    }
}
