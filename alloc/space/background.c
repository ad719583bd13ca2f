/* background.c: the state of the background thread, and what wakes it. See
 * background.h; upkeep.c is what it does. Takes lock background, and under it
 * no other but for looking at figures. */
#include "alloc/space/background.h"

#include "alloc/space/prewarm_jobs.h"
#include "alloc/space/space.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"

#include <signal.h>
#include <string.h>

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

/* ---- what wakes it ------------------------------------------------------ */

bool wm_background_reserve_is_short(wm_background *b)
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
    if (wm_background_reserve_is_short(b)) {
        wm_waker_wake(&b->waker);
    }
}

void wm_background_note_held(wm_background *b)
{
    if (b->space->decay_ns != 0 &&
        atomic_load_explicit(&b->waker.sleep, memory_order_relaxed) ==
            WM_SLEEP_LONG) {
        wm_waker_wake(&b->waker);
    }
}

/* ---- the thread ---------------------------------------------------- */

/* Signals are for the program's own threads. */
warm_status wm_background_start_locked(wm_background *b)
{
    sigset_t all, old;

    if (!b->started) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        b->started = pthread_create(&b->thread, NULL, b->main, b) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    return b->started
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY,
                         "no thread could be started for option background");
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
