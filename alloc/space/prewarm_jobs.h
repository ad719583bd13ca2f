/* prewarm_jobs.h: memory that is obtained before anybody asks for it (rows B9,
 * B17).
 *
 * It comes in regions of at most option pin_chunk, so that no call to the
 * driver page-locks gigabytes, and lies idle in the cache of its node. */
#ifndef WM_PREWARM_JOBS_H
#define WM_PREWARM_JOBS_H

#include "alloc/space/background.h"

/* What one node is to have idle; lock background. */
typedef struct wm_prewarm_job {
    size_t bytes;    /* 0: nothing is wanted */
    size_t got;      /* obtained for it */
    size_t told;     /* of it counted in had */
    uint64_t number; /* of this wish; one that was called off has its own */
} wm_prewarm_job;

/* Obtains one region, unless bytes are idle on the node, or were freed and are
 * done, or were obtained for this (*got). *enough: nothing more is to be done.
 * No lock held. Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_prewarm_step(struct wm_space *space, int node, size_t bytes,
                            size_t *got, bool *enough);

/* All of it, now. The message of a failure says what was had. */
warm_status wm_prewarm_now(struct wm_space *space, int node, size_t bytes);

/* The same by the background thread. Status: OUT_OF_MEMORY (no thread). */
warm_status wm_prewarm_queue(wm_background *b, int node, size_t bytes);
/* Waits for all that is wanted; the first failure since the last call. */
warm_status wm_prewarm_await(wm_background *b);

/* For the thread: whether something is wanted; a region for one of those. */
bool wm_prewarm_has_jobs_locked(const wm_background *b);
void wm_prewarm_run_job(wm_background *b);
void wm_prewarm_cancel_locked(wm_background *b);

#endif
