/* background.h: a thread of the runtime for what requests should not pay for
 * (rows B10 and B17).
 *
 *   memory that was asked for ahead     region by region        always
 *   batches of frees older than         there is one            background:on
 *   batch_ms get their event
 *   frees whose streams have passed     while there are some    background:on
 *   reserve_bytes kept idle             once there are fewer    background:on
 *   what was idle for decay_ms          goes back               background:on
 *
 * It starts with the runtime if option background is on, else with the first
 * memory that is to be had in the background. While something is pending it
 * polls, at intervals that double from 50 us to 10 ms as long as nothing
 * comes. With nothing to do it sleeps until it is woken, however long that is;
 * only with decay_ms, and as long as memory is held, it looks once per that
 * time. It is woken by a free that leaves a block pending, by an allocation
 * that finds the reserve short, by memory to be had, and with decay_ms by
 * memory that has come: a relaxed load each while it is awake.
 *
 * It holds no lock while it calls the driver, sets its own capture mode, is no
 * target of signals, and is joined when the runtime ends. A forked child has
 * no such thread and never comes here; once the process exits it sleeps. */
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
    /* What hits read: a line, in which little else is written. */
    _Alignas(64) struct wm_space *space; /* const */
    bool on;                             /* const: option background */
    size_t reserve_bytes;                /* const: to be kept idle if on */
    int reserve_node;                    /* const */
    _Atomic uint64_t retry_ns; /* the reserve is short, and not to be had */
    wm_waker waker;            /* woken, or stop */
    wm_cond over;              /* a round is, or nothing is wanted any more */
    /* Lock of the waker: */
    bool started, stop;
    uint64_t rounds;             /* finished */
    uint64_t wakes;              /* ends of a rest */
    struct wm_prewarm_job *want; /* for each node; the array is const */
    bool getting;                /* memory for one of them, right now */
    uint64_t asked, had;         /* bytes: progress of what is wanted */
    warm_error failure;          /* the first since it was told */
    void *(*main)(void *b);      /* const once begun: upkeep.c */
    pthread_t thread;            /* const once started */
} wm_background;

/* Status: OUT_OF_MEMORY, INVALID_OPTION; nothing is to be ended then. */
warm_status wm_background_init(wm_background *b, struct wm_space *space,
                               const wm_options *options);
void wm_background_fini(wm_background *b);

/* Starts the thread if option background is on; else has the reserve now.
 * The runtime is complete. Status: OUT_OF_MEMORY, or another of the driver's.
 */
warm_status wm_background_begin(wm_background *b);
/* Calls off what is wanted, ends the thread and waits for it. */
void wm_background_stop(wm_background *b);

/* Lock background. Status: OUT_OF_MEMORY (no thread). */
warm_status wm_background_start_locked(wm_background *b);
/* The idle memory that is to be kept is not there. */
bool wm_background_reserve_is_short(wm_background *b);
void wm_background_check_reserve(wm_background *b);

/* Memory has come, which is counted as held; no lock held. Relaxed: as
 * waker.h says. */
void wm_background_note_held(wm_background *b);

/* A block was taken from an arena. Relaxed: as waker.h says. */
static inline void wm_background_note_taken(wm_background *b)
{
    if (wm_unlikely(b->reserve_bytes != 0) &&
        atomic_load_explicit(&b->waker.sleep, memory_order_relaxed) !=
            WM_SLEEP_NONE) {
        wm_background_check_reserve(b);
    }
}

/* For tests: has the thread do a whole round, and waits for it. */
void wm_background_step(wm_background *b);
/* For tests: how often a rest has ended. */
uint64_t wm_background_wakes(wm_background *b);

#endif
