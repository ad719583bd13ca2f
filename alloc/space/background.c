/* background.c: the thread; see background.h. Takes lock background, and under
 * it no other but for looking at figures. */
#include "alloc/space/background.h"

#include "alloc/space/ahead.h"
#include "alloc/cache/gather.h"
#include "alloc/space/space.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/process.h"

#include <signal.h>
#include <string.h>

/* Between two polls, in ns. */
#define SHORTEST ((uint64_t)50000)
#define LONGEST  ((uint64_t)10000000)

/* Before a reserve that could not be had is asked for again, in ns. */
#define RETRY ((uint64_t)100000000)

#define NEVER UINT64_MAX

warm_status wm_background_init(wm_background *b, wm_space *space,
                               const wm_options *options)
{
    if (options->pinned_limit != 0 &&
        options->reserve_bytes > options->pinned_limit) {
        return wm_fail(WARM_INVALID_OPTION,
                       "reserve_bytes (%s) are more than pinned_limit (%s)",
                       wm_bytes(options->reserve_bytes).text,
                       wm_bytes(options->pinned_limit).text);
    }
    b->want = wm_meta_alloc((size_t)space->group.nodes * sizeof *b->want);
    if (b->want == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    b->space = space;
    b->on = strcmp(options->background, "on") == 0;
    b->reserve_bytes = wm_page_round(options->reserve_bytes);
    b->reserve_node = wm_driver_device_node(space->driver, 0);
    wm_lock_init(&b->waker.lock, WM_RANK_BACKGROUND);
    wm_cond_init(&b->waker.wake);
    wm_cond_init(&b->over);
    return WARM_OK;
}

void wm_background_fini(wm_background *b)
{
    wm_cond_fini(&b->over);
    wm_cond_fini(&b->waker.wake);
    wm_lock_fini(&b->waker.lock);
    wm_meta_free(b->want);
}

/* ---- what there is to do ---------------------------------------------- */

static void look(wm_background *b, uint64_t *pending, uint64_t *finished,
                 uint64_t *held)
{
    warm_space_stats s = {.size = sizeof s};

    wm_space_stats(b->space, &s);
    *pending = s.pending.current + wm_gather_blocks(b->space->group.timelines);
    *finished = s.pending.freed;
    *held = s.held_bytes.current;
    if (b->space->beside != NULL) {
        wm_space_stats(b->space->beside, &s);
        *pending += s.pending.current;
        *finished += s.pending.freed;
    }
}

static bool reserve_is_short(wm_background *b)
{
    if (!b->on || b->reserve_bytes == 0) {
        return false;
    }
    /* Relaxed: a time, tied to no other data. */
    return wm_arena_idle(wm_group_arena(&b->space->group, b->reserve_node)) <
               b->reserve_bytes &&
           wm_clock_ns() >=
               atomic_load_explicit(&b->retry_ns, memory_order_relaxed);
}

void wm_background_check_reserve(wm_background *b)
{
    if (reserve_is_short(b)) {
        wm_waker_wake(&b->waker);
    }
}

/* How long the thread may rest. pause: between the last two polls. */
static uint64_t may_rest_locked(wm_background *b, uint64_t *pause)
{
    uint64_t pending, finished, held;

    if (wm_ahead_wanted_locked(b) || reserve_is_short(b)) {
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

void wm_background_note_held(wm_background *b)
{
    if (b->space->decay_ns != 0 &&
        atomic_load_explicit(&b->waker.sleep, memory_order_relaxed) ==
            WM_SLEEP_LONG) {
        wm_waker_wake(&b->waker);
    }
}

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

    if (wm_ahead_step(b->space, b->reserve_node, b->reserve_bytes, &got,
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
        if (reserve_is_short(b)) {
            fill_reserve(b);
        }
        wm_ahead_serve(b);
    } while (rest(b, &pause));
    return NULL;
}

/* ---- begin and end ---------------------------------------------------- */

/* Signals are for the program's own threads. */
warm_status wm_background_start_locked(wm_background *b)
{
    sigset_t all, old;

    if (!b->started) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        b->started = pthread_create(&b->thread, NULL, thread_main, b) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    return b->started
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY,
                         "no thread could be started for option background");
}

warm_status wm_background_begin(wm_background *b)
{
    warm_status status;

    if (!b->on) {
        return b->reserve_bytes > 0
                   ? wm_ahead_now(b->space, b->reserve_node, b->reserve_bytes)
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
    wm_ahead_cancel_locked(b);
    wm_waker_wake_locked(&b->waker);
    wm_lock_release(&b->waker.lock);
    if (started) {
        pthread_join(b->thread, NULL);
    }
}

/* ---- for tests -------------------------------------------------------- */

void wm_background_step(wm_background *b)
{
    uint64_t until;

    wm_lock_acquire(&b->waker.lock);
    /* The round under way may have begun too early. */
    until = b->rounds + 2;
    while (b->rounds < until) {
        wm_waker_wake_locked(&b->waker);
        wm_cond_wait(&b->over, &b->waker.lock);
    }
    wm_lock_release(&b->waker.lock);
}

uint64_t wm_background_wakes(wm_background *b)
{
    uint64_t wakes;

    wm_lock_acquire(&b->waker.lock);
    wakes = b->wakes;
    wm_lock_release(&b->waker.lock);
    return wakes;
}
