/* prewarm.h: handles made ahead of the first request (row A11).
 *
 * Pools that want handles in the background stand in a queue; one thread of
 * the runtime, started by the first request, serves its head and makes one
 * handle at a time, with no lock held. It sleeps on a condition while the queue
 * is empty. A request is cancelled by wanting 0: the thread takes it out.
 * destroy ends the thread before anything else. A forked child never comes
 * here, and has no such thread. */
#ifndef WM_PREWARM_H
#define WM_PREWARM_H

#include "handles/pool.h"

/* Embedded in the table of pools; fields belong to prewarm.c. */
typedef struct wm_prewarm {
    wm_lock lock;           /* WM_RANK_PREWARM */
    wm_cond work;           /* something came into the queue, or stop */
    wm_cond done;           /* the queue has run empty */
    wm_pool *first, **last; /* lock prewarm: the queue */
    bool started, stop;     /* lock prewarm */
    pthread_t thread;       /* const once started */
    warm_error failure;     /* lock prewarm: the first since asked for */
} wm_prewarm;

static inline void wm_prewarm_init(wm_prewarm *prewarm)
{
    wm_lock_init(&prewarm->lock, WM_RANK_PREWARM);
    wm_cond_init(&prewarm->work);
    wm_cond_init(&prewarm->done);
    prewarm->last = &prewarm->first;
}

static inline void wm_prewarm_fini(wm_prewarm *prewarm)
{
    wm_cond_fini(&prewarm->done);
    wm_cond_fini(&prewarm->work);
    wm_lock_fini(&prewarm->lock);
}

/* Ends the thread and waits for it; for destroy, before the pools close. */
void wm_prewarm_stop(wm_prewarm *prewarm);

#endif
