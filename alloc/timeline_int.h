/* timeline_int.h: what the three files of the timelines share, and nobody else.
 *
 *   timeline.c       the table, references, recording against retiring
 *   use.c            uses of a live block, and what a free makes of them
 *   timeline_poll.c  the queues: publishing aside, all that happens to entries
 */
#ifndef WM_TIMELINE_INT_H
#define WM_TIMELINE_INT_H

#include "alloc/timeline.h"

struct wm_timeline {
    uint64_t id;        /* const */
    int device;         /* const */
    warm_stream stream; /* const; not to be used once retired */
    /* lock timelines */
    unsigned references; /* uses, and threads that work on it */
    bool in_table, busy;
    uint64_t round; /* when it was polled last */
    wm_timeline *next_in_bucket, *next_busy;
    wm_lock lock;
    wm_cond no_recorders;
    /* lock timeline */
    unsigned recorders; /* threads about to record on stream */
    bool retiring;
    unsigned failures; /* in a row, of the head */
    wm_use *head, *tail;
    /* Written before retired, const after; retired's release pairs with the
     * acquire of readers without the lock. */
    warm_event final; /* null: everything had passed */
    bool dead;        /* nobody can say whether anything has passed */
    _Atomic bool retired;
};

static inline bool wm_timeline_is_retired(wm_timeline *t)
{
    /* Acquire: final and dead were written before. */
    return atomic_load_explicit(&t->retired, memory_order_acquire);
}

/* The stream's timeline with a reference, or null without memory. */
wm_timeline *wm_timeline_get(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info);
void wm_timeline_hold(wm_timelines *set, wm_timeline *t);
/* t may be gone when this returns. */
void wm_timeline_drop(wm_timelines *set, wm_timeline *t);

/* Between begin and end the stream is not retired, so that it may be named to
 * the driver. False: it is retired, or about to be; its final event counts. */
bool wm_timeline_begin_record(wm_timeline *t);
void wm_timeline_end_record(wm_timeline *t);
/* Whether t's stream can be named by this thread: an address, or a default
 * stream, may stand for another stream by now (row B6). */
bool wm_timeline_is_same_stream(wm_timelines *set, const wm_timeline *t);

/* Records on stream, with a fresh event if the use has none. */
warm_status wm_use_mark(wm_timelines *set, wm_use *use, warm_stream stream);
/* Ends a use that is in no list and no queue. */
void wm_use_end(wm_timelines *set, wm_use *use);

/* Ends every entry; for the end of a runtime. */
void wm_timelines_forget_entries(wm_timelines *set);

#endif
