/* prewarm.h: handles made ahead of the first request (row A11).
 *
 * Pools with a background request are in a queue. One thread per runtime,
 * started by the first request, serves the head and creates one handle at a
 * time, with no lock held; it waits on a condition while the queue is empty. A
 * cancelled request wants 0 handles, and the thread removes it.
 * warm_runtime_destroy() stops the thread first. A forked child has no such
 * thread: its call is refused earlier. */
#ifndef WM_PREWARM_H
#define WM_PREWARM_H

#include "handles/pool.h"

/* Embedded in the table of kinds; fields belong to prewarm.c. */
typedef struct wm_prewarm {
    wm_lock lock;           /* WM_RANK_PREWARM */
    wm_cond work;           /* the queue is not empty, or stop */
    wm_cond done;           /* the queue is empty */
    wm_pool *first, **last; /* lock prewarm: the queue */
    bool started, stop;     /* lock prewarm */
    pthread_t thread;       /* const once started */
    warm_error failure;     /* lock prewarm: the first since the last wait */
} wm_prewarm;

static inline void wm_prewarm_init(wm_prewarm *prewarm)
{
    wm_lock_init(&prewarm->lock, WM_RANK_PREWARM);
    prewarm->last = &prewarm->first;
}

/* Stops the thread and joins it, before the pools close. */
void wm_prewarm_stop(wm_prewarm *prewarm);

#endif
