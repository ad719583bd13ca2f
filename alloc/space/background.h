/* background.h: the thread of a runtime that does work which allocations should
 * not wait for (rows B10 and B17).
 *
 *   prewarm jobs                        one region after another   always
 *   batches of frees older than         are closed background:on batch_ms frees
 * whose streams have completed  become idle                background:on
 *   reserve_bytes of idle memory        obtained once short background:on
 *   segments idle for decay_ms          are returned background:on
 *
 * The thread starts with the runtime if option background is on, else with the
 * first prewarm job. While blocks are pending it polls, at intervals that
 * double from 50 us to 10 ms as long as none completes. With nothing to do it
 * sleeps until it is woken; only with decay_ms, and while memory is held, it
 * wakes once per decay_ms. A free that leaves a block pending wakes it, an
 * allocation that finds the reserve short, a prewarm job, and with decay_ms a
 * growth: each costs these callers a relaxed load while the thread is awake.
 *
 * The thread holds no lock while it calls the driver, sets its own capture
 * mode, blocks all signals, and is joined when the runtime ends. A forked child
 * has no such thread; once the process exits the thread sleeps. */
#ifndef WM_BACKGROUND_H
#define WM_BACKGROUND_H

#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/waker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct wm_space;
struct wm_prewarm_job; /* prewarm_jobs.h */

/* Embedded in a space; fields belong to background.c, upkeep.c and
 * prewarm_jobs.c. */
typedef struct wm_background {
    /* Read by hits: a cache line in which little is written. */
    _Alignas(64) struct wm_space *space; /* const */
    bool on;                             /* const: option background */
    size_t reserve_bytes;                /* const: idle bytes wanted, if on */
    int reserve_node;                    /* const */
    _Atomic uint64_t retry_ns; /* when to try again for a reserve refused */
    wm_waker waker;            /* signalled to wake the thread or stop it */
    wm_cond over;              /* a round ended, or the last prewarm job */
    /* Lock of the waker: */
    bool started, stop;
    uint64_t rounds;             /* completed */
    uint64_t wakes;              /* ends of a sleep */
    struct wm_prewarm_job *want; /* for each node; the array is const */
    bool getting;                /* it obtains memory for a job right now */
    uint64_t asked, had;         /* bytes: progress of the jobs */
    warm_error failure;          /* the first since the last report */
    void *(*main)(void *b);      /* const once begun: upkeep.c */
    pthread_t thread;            /* const once started */
} wm_background;

/* Status: OUT_OF_MEMORY, INVALID_OPTION; then it must not be ended. */
warm_status wm_background_init(wm_background *b, struct wm_space *space,
                               const wm_options *options);
void wm_background_fini(wm_background *b);

/* Starts the thread if option background is on; else obtains the reserve now.
 * The runtime is complete. Status: OUT_OF_MEMORY, or another of the driver's.
 */
warm_status wm_background_begin(wm_background *b);
/* Cancels the prewarm jobs, ends the thread and joins it. */
void wm_background_stop(wm_background *b);

/* Lock background. Status: OUT_OF_MEMORY (no thread). */
warm_status wm_background_start_locked(wm_background *b);
/* Whether less than the reserve is idle, and no refusal is recent; the second
 * wakes the thread then. */
bool wm_background_reserve_is_short(wm_background *b);
void wm_background_check_reserve(wm_background *b);

/* Called after memory was obtained and counted as held; no lock held. Relaxed:
 * as waker.h says. */
void wm_background_note_held(wm_background *b);

/* Called after a block was allocated from an arena. Relaxed: as waker.h says.
 */
static inline void wm_background_note_taken(wm_background *b)
{
    if (wm_unlikely(b->reserve_bytes != 0) &&
        atomic_load_explicit(&b->waker.sleep, memory_order_relaxed) !=
            WM_SLEEP_NONE) {
        wm_background_check_reserve(b);
    }
}

/* For tests: wakes the thread for a whole round and waits for its end. */
void wm_background_step(wm_background *b);
/* For tests: how often the thread woke. */
uint64_t wm_background_wakes(wm_background *b);

#endif
