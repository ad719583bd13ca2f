/* prewarm_jobs.h: memory that is obtained ahead of demand (rows B9, B17).
 *
 * It comes in regions of at most option pin_chunk, so that no call of the
 * driver page-locks gigabytes, and is idle memory of its node's arenas. */
#ifndef WM_PREWARM_JOBS_H
#define WM_PREWARM_JOBS_H

#include "alloc/space/background.h"

/* The idle memory wanted on one node; lock background. */
typedef struct wm_prewarm_job {
    size_t bytes;    /* 0: no job */
    size_t got;      /* bytes obtained for it */
    size_t told;     /* bytes of it counted in had */
    uint64_t number; /* tells a job from a cancelled one before it */
} wm_prewarm_job;

/* Obtains one region, unless so many bytes are idle on the node, or completed,
 * or were obtained for this job (*got). *enough: the job is done. No lock held.
 * Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_prewarm_step(struct wm_space *space, int node, size_t bytes,
                            size_t *got, bool *enough);

/* Obtains all of it now. A failure's message says how much is idle. */
warm_status wm_prewarm_now(struct wm_space *space, int node, size_t bytes);

/* The same by the background thread. Status: OUT_OF_MEMORY (no thread). */
warm_status wm_prewarm_queue(wm_background *b, int node, size_t bytes);
/* Waits for all jobs; returns the first failure since the last call. */
warm_status wm_prewarm_await(wm_background *b);

/* For the background thread: whether there is a job; obtains one region. */
bool wm_prewarm_has_jobs_locked(const wm_background *b);
void wm_prewarm_run_job(wm_background *b);
void wm_prewarm_cancel_locked(wm_background *b);

#endif
