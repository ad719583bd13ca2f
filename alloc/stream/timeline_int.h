/* timeline_int.h: what the files of the timelines share, and nobody else.
 *
 *   timeline.c         the tables, references, adopting
 *   timeline_capture.c captures: announced, asked for
 *   timeline_retire.c  recording, waiting, retiring
 *   stream_use.c              uses of a live block
 *   stream_use_free.c         what a free makes of them
 *   batch.c            open batches: what gathers in them, and how they close
 *   timeline_poll.c    the queues of closed ones
 *   ready_list.c    which of them are to be asked
 *
 * A closed batch is its first use: that one carries the event, and the link to
 * the next batch; the others hang on it by next_in_batch. */
#ifndef WM_TIMELINE_INT_H
#define WM_TIMELINE_INT_H

#include "alloc/stream/timeline.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/thread/window.h"

struct wm_timeline {
    /* What hits read. */
    uint64_t id;        /* const */
    warm_stream stream; /* const; not to be used once retired */
    int device;         /* const */
    uint64_t thread;    /* const: wm_window_thread() that met it first */
    /* Written under lock timelines, never lowered; relaxed: either way is
     * right for a use that began before. */
    _Atomic bool adopted;
    /* How many blocks were freed while it captured since one last got its event
     * late: until then the stream lives. 0: none. Relaxed: a hint that it may
     * be asked. */
    _Atomic uint64_t late;
    /* final and dead: written before retired, const after; retired's release
     * pairs with the acquire of readers without the lock. */
    _Atomic bool retired;
    bool dead;        /* nobody can say whether anything has passed */
    warm_event final; /* null: everything had passed */
    /* Uses, threads that work on it, and being adopted. Raised by who has one
     * or lock timelines; falls to 0 under that lock only. */
    _Alignas(64) _Atomic size_t references;
    _Atomic size_t slots; /* of threads, that gather for it (pending.h) */
    /* Relaxed: which the last of those uses; to be compared. */
    _Atomic(const struct wm_arena *) home;
    /* lock timelines */
    bool in_table;
    bool announced;        /* one of set->captures */
    bool unasked;          /* in no round since it is busy */
    uint64_t round;        /* when it was polled last */
    uint64_t announcement; /* at which its batches were closed last */
    uint64_t busy_since;
    wm_timeline *next_in_bucket, *next_adopted;
    wm_timeline *previous_busy, *next_busy;
    bool busy; /* on the list; written under both locks, read under either */
    wm_lock lock;
    wm_cond quiet; /* recorders, closing, polled fell; or it retired */
    /* lock timeline */
    unsigned recorders; /* threads about to name the stream to the driver */
    bool capture_due;   /* announced, and those below have been waited for */
    unsigned unaware;   /* recorders that began when it was not due */
    unsigned closing;   /* batches neither open nor in the queue */
    bool polled;        /* a thread takes entries out */
    bool retiring;
    unsigned queued;    /* batches in the queue, or with who polls */
    unsigned behind;    /* of these, in the queue while somebody polls */
    uint64_t looked_ns; /* when the last one was not */
    wm_stream_use *head, *tail;
    wm_batch open;
    /* Of who polls; whoever does so next has had the lock. */
    unsigned closes;     /* polls after one */
    unsigned failures;   /* in a row, of the head */
    unsigned busy_polls; /* left that need not ask the stream */
};

/* What a poll takes out of a queue. The batches that were in it lie here
 * meanwhile, so that none needs a lock of its own. */
typedef struct wm_poll {
    wm_stream_use *head, *tail;
    unsigned ended; /* batches */
    wm_block *done; /* blocks that no queue has any more, by next_done */
} wm_poll;

/* All batches of t, after those that the caller has, who polls it. */
static inline void wm_poll_take_queue_locked(wm_timeline *t, wm_poll *poll)
{
    if (t->head == NULL) {
        return;
    }
    if (poll->head == NULL) {
        poll->head = t->head;
    } else {
        poll->tail->next_in_queue = t->head;
    }
    poll->tail = t->tail;
    t->head = t->tail = NULL;
    t->behind = 0;
}

static inline bool wm_timeline_is_retired(wm_timeline *t)
{
    /* Acquire: final and dead were written before. */
    return atomic_load_explicit(&t->retired, memory_order_acquire);
}

static inline bool wm_timeline_is_adopted(wm_timeline *t)
{
    return atomic_load_explicit(&t->adopted, memory_order_relaxed);
}

/* The stream's device was reset: what was queued there is over, and neither the
 * stream nor an event of it is named to the driver any more. */
static inline bool wm_timeline_is_lost(const wm_timelines *set,
                                       const wm_timeline *t)
{
    return wm_driver_is_lost(set->driver, t->device);
}

/* Whether this thread names the stream when it names t->stream: one name stands
 * for the per-thread default streams of all threads. */
static inline bool wm_timeline_is_named_here(const wm_timeline *t)
{
    return t->stream != WARM_STREAM_PER_THREAD ||
           t->thread == wm_window_thread();
}

/* A bare timeline at the end of a block's list: see block.h. */
static inline wm_stream_use *wm_stream_use_bare(wm_timeline *t)
{
    return (wm_stream_use *)((char *)t + 1);
}

static inline bool wm_stream_use_is_bare(const wm_stream_use *use)
{
    return ((uintptr_t)use & 1) != 0;
}

static inline wm_timeline *wm_stream_use_bare_timeline(wm_stream_use *use)
{
    return (wm_timeline *)(void *)((char *)use - 1);
}

static inline wm_timeline *wm_stream_use_timeline(wm_stream_use *use)
{
    return wm_stream_use_is_bare(use) ? wm_stream_use_bare_timeline(use)
                                      : use->timeline;
}

static inline wm_stream_use *wm_stream_use_next(const wm_stream_use *use)
{
    return wm_stream_use_is_bare(use) ? NULL : use->next_of_block;
}

static inline wm_stream_use *wm_stream_use_find(wm_stream_use *from,
                                                const wm_stream_use *until,
                                                const wm_timeline *t)
{
    for (wm_stream_use *use = from; use != until;
         use = wm_stream_use_next(use)) {
        if (wm_stream_use_timeline(use) == t) {
            return use;
        }
    }
    return NULL;
}

/* What the thread that has the block recorded, or null. Acquire, for a thread
 * that records as well: what made it is seen. */
static inline wm_timeline *wm_block_own(wm_block *block)
{
    return atomic_load_explicit(&block->own, memory_order_acquire);
}

static inline bool wm_timelines_capture(wm_timelines *set)
{
    return atomic_load_explicit(&set->captures, memory_order_relaxed) != 0;
}

/* The stream's timeline with a reference, or null without memory. */
wm_timeline *wm_timeline_get(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info);
/* The same if the stream is adopted, else null. */
wm_timeline *wm_timeline_get_adopted(wm_timelines *set, warm_stream stream);

static inline void wm_timeline_hold_many(wm_timeline *t, size_t count)
{
    /* Relaxed: who adds a reference has one, or the lock. */
    atomic_fetch_add_explicit(&t->references, count, memory_order_relaxed);
}

static inline void wm_timeline_hold(wm_timeline *t)
{
    wm_timeline_hold_many(t, 1);
}

/* t may be gone when these return. */
void wm_timeline_drop_many(wm_timelines *set, wm_timeline *t, size_t count);
static inline void wm_timeline_drop(wm_timelines *set, wm_timeline *t)
{
    wm_timeline_drop_many(set, t, 1);
}

/* The tables; lock timelines. By the stream's id, by its name, which others may
 * have had, by that of an adopted one; or null. */
wm_timeline *wm_timeline_find_locked(wm_timelines *set, uint64_t id);
wm_timeline *wm_timeline_find_stream_locked(wm_timelines *set,
                                            warm_stream stream);
wm_timeline *wm_timeline_find_adopted_locked(wm_timelines *set,
                                             warm_stream stream);
/* One that was announced, by its name; or null. */
wm_timeline *wm_timeline_find_announced_locked(wm_timelines *set,
                                               warm_stream stream);
/* Its announced capture is over. */
void wm_timeline_end_announced_locked(wm_timelines *set, wm_timeline *t);
/* The stream's, made if there is none, with a reference; null without memory.
 */
wm_timeline *wm_timeline_get_locked(wm_timelines *set, warm_stream stream,
                                    const wm_stream_info *info);
warm_status wm_timeline_no_record(void);
/* It is adopted from now on, and found by its address. */
void wm_timeline_adopt_locked(wm_timelines *set, wm_timeline *t);
/* Out of all of them. */
void wm_timeline_remove_locked(wm_timelines *set, wm_timeline *t);

/* The end of an adopted stream at the address of another one, if there is one:
 * it was destroyed and not retired. */
void wm_timeline_drop_stale(wm_timelines *set, warm_stream stream,
                            const wm_stream_info *info);

/* Between begin and end the stream is not retired, so that it may be named to
 * the driver. False: it is retired, or about to be; its final event counts.
 * *due is written: a capture of the stream is announced. Another thread may
 * begin it at any moment, also between the driver's answer that nothing is
 * captured and a call that would break the capture: so there is no such call,
 * and the stream counts as one that captures. Where no capture is due none
 * begins before the end, unless nobody announces it. */
bool wm_timeline_begin_record_locked(wm_timeline *t, bool *due);
bool wm_timeline_begin_record(wm_timeline *t, bool *due);
void wm_timeline_end_record_locked(wm_timeline *t, bool due);
void wm_timeline_end_record(wm_timeline *t, bool due);
/* Waits for the stream, for which the driver failed to record, between begin
 * and end, when no capture is due; not if it captures, which that would end.
 * *capture is written on success; nothing was waited for if it is not NONE. */
warm_status wm_timeline_synchronize(wm_timelines *set, wm_timeline *t,
                                    wm_capture *capture);
/* Waits for what is on the stream by now; of one that is retired for its end,
 * or nobody knows. The caller holds no recording, and no lock. */
warm_status wm_timeline_await(wm_timelines *set, wm_timeline *t);

/* Puts t on the busy list; the caller has a reference. since: in the order of
 * these, where many come at once in an order that means nothing; 0: as it
 * comes.
 */
void wm_timeline_make_busy(wm_timelines *set, wm_timeline *t, uint64_t since);
/* The first busy one that was not asked in this round, or the first at all
 * for round UINT64_MAX; with a reference, and now the last of the list. */
wm_timeline *wm_timeline_next_busy(wm_timelines *set, uint64_t round);
/* After it was asked: left: something is in it yet. Drops the reference. */
void wm_timeline_end_turn(wm_timelines *set, wm_timeline *t, bool left);

/* Records on t's stream, with a fresh event if the use has none. *capture is
 * written on success; nothing was recorded if it is not NONE. Between begin and
 * end of a recording, and due as that says; or the stream is a default one, of
 * this thread. */
warm_status wm_stream_use_mark(wm_timelines *set, wm_stream_use *use,
                               wm_timeline *t, bool due, wm_capture *capture);
/* Gives up the record of a use, which holds nothing. */
static inline void wm_stream_use_give_up(wm_block *block, wm_stream_use *use)
{
    if (wm_likely(use == &block->first_use)) {
        /* Release: see new_use(). It matters only while the block is LIVE. */
        atomic_store_explicit(&block->first_use_taken, false,
                              memory_order_release);
    } else {
        wm_meta_free(use);
    }
}

/* Uses of a block that is the caller's alone; or with lock uses. */
unsigned wm_stream_use_count(wm_block *block);

/* Ends a use that is in no list and no queue; its reference is left. */
static inline void wm_stream_use_end(wm_timelines *set, wm_stream_use *use)
{
    if (use->event != NULL) {
        wm_event_pool_put(set->events, use->timeline->device, use->event);
    }
    wm_stream_use_give_up(use->block, use);
}

static inline void wm_batch_append(wm_batch *batch, wm_stream_use *use)
{
    use->next_in_batch = NULL;
    if (batch->last != NULL) {
        batch->last->next_in_batch = use;
    } else {
        batch->first = use;
        batch->since_ns = wm_clock_ns();
    }
    batch->last = use;
    batch->count++;
    batch->bytes += use->block->bytes;
}

/* Puts a closed batch into the queue. t may be gone when this returns. */
void wm_batch_enqueue_locked(wm_timeline *t, wm_stream_use *first);
/* The same, of one that comes from elsewhere; the caller has a reference.
 * since: see wm_timeline_make_busy(). */
void wm_batch_enqueue(wm_timelines *set, wm_timeline *t, wm_stream_use *first,
                      uint64_t since);
/* Adds a batch to the open one of t, to which the caller has a reference.
 * True: that is full. *bytes_max: bytes with which it is. since: see
 * wm_timeline_make_busy(). */
bool wm_batch_join(wm_timelines *set, wm_timeline *t, const wm_batch *batch,
                   uint64_t since, size_t *bytes_max);
/* Ends a batch that is in no queue; what is then in no other one is added to
 * *done. fate: PENDING: it has passed; else LOST or CAPTURED. */
void wm_batch_finish(wm_timelines *set, wm_stream_use *first, enum wm_uses fate,
                     wm_block **done);
/* What is known of a poll's batches, and of the one that was open. */
enum wm_settled {
    WM_SETTLED_PASSED, /* all have passed */
    WM_SETTLED_BUSY,   /* that one has not */
    WM_SETTLED_ASK     /* nothing; it is in the queue of t */
};

/* The open batch of t, which the caller polls: is closed, or ended if the
 * stream has nothing to do. The caller gets the queue as it is before. */
enum wm_settled wm_batch_settle(wm_timelines *set, wm_timeline *t,
                                wm_poll *poll);
/* Closes the open batch of t if it was opened at older_than or before. */
void wm_batch_close_older(wm_timelines *set, wm_timeline *t,
                          uint64_t older_than);
/* Closes it, and waits for who closes another one of t. */
void wm_batch_close_now(wm_timelines *set, wm_timeline *t);

/* Where blocks go that have passed, chained by next_done. Null: set->finish().
 * No lock is held; who polls the timeline next finds them there. */
typedef struct wm_home {
    void (*take)(void *context, wm_block *done);
    void *context;
} wm_home;

/* A batch of t was closed because it is full: asks for the oldest ones, unless
 * another thread does. */
void wm_timeline_poll_after_close(wm_timelines *set, wm_timeline *t,
                                  const wm_home *home);
/* Closes the open batch of t if it is full, and asks for the oldest one. */
void wm_timeline_close_full(wm_timelines *set, wm_timeline *t,
                            const wm_home *home);
/* The first half of that, with lock timeline and without; *done: blocks that
 * came back since the stream was found to capture, or is gone. */
bool wm_batch_is_full_locked(const wm_timelines *set, const wm_timeline *t);
bool wm_batch_close_if_full(wm_timelines *set, wm_timeline *t, wm_block **done);
/* Records an event for the blocks that were freed while t's stream captured,
 * which it does no more, and returns those that have passed. The caller has a
 * reference. */
void wm_timeline_poll_late(wm_timelines *set, wm_timeline *t);
/* Gives blocks that no queue has any more, chained by next_done, or null, to
 * where they go; home: null or not. No lock is held. */
void wm_timelines_hand_back(wm_timelines *set, const wm_home *home,
                            wm_block *done);
/* Takes what has passed out of t's queue, and closes its open batch if that is
 * ripe or older than option batch_ms at now; unless that was done at the same
 * now, or another thread does so. Whether any block came back; *left: whether
 * there is anything that may pass. */
bool wm_timeline_poll_ripe(wm_timelines *set, wm_timeline *t, uint64_t now,
                           const wm_home *home, bool *left);

#endif
