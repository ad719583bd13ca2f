/* timeline_int.h: the body of a timeline, and functions that the files of this
 * folder and alloc/cache/pending*.c share.
 *
 * A closed batch is its first use, which carries the event and the link to the
 * next batch; the other uses follow by next_in_batch. */
#ifndef WM_TIMELINE_INT_H
#define WM_TIMELINE_INT_H

#include "alloc/stream/timeline.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/thread/window.h"

/* Closed batches in the order of the stream's work, by next_in_queue. */
typedef struct wm_batch_queue {
    wm_stream_use *head, *tail; /* tail: valid if head is not null */
} wm_batch_queue;

struct wm_timeline {
    /* What hits read. */
    uint64_t id;        /* const */
    warm_stream stream; /* const; not passed to the driver once retired */
    int device;      /* const; WM_DEVICE_UNKNOWN: it captured when it was first
                        looked up */
    uint64_t thread; /* const: wm_window_thread() that looked it up first */
    /* Written under lock timelines, never cleared. Relaxed: a use that began
     * before the change may see either value. */
    _Atomic bool adopted;
    /* Number of blocks that were freed without an event, since the stream
     * captured, and wait in the queue; since such blocks last got their event;
     * 0: none. Not counted if the stream is adopted. While it is not 0 the
     * stream lives. Relaxed: a hint that the stream may be queried. */
    _Atomic uint64_t deferred;
    /* The thread of this default stream exited: no thread can name the stream.
     * Relaxed: written after the thread's last event is in the queue, whose
     * lock publishes that. */
    _Atomic bool orphaned;
    /* final and dead are written before retired, and const afterwards: the
     * release store of retired pairs with the acquire load of readers without
     * the lock. */
    _Atomic bool retired;
    bool dead;        /* its end is unknown: no use ever completes */
    warm_event final; /* null: all work had completed */
    /* One for each use, for each thread that works on it, and for the adoption.
     * Raised by a thread that has one, or under lock timelines; falls to 0
     * under that lock only. */
    _Alignas(64) _Atomic size_t references;
    _Atomic size_t slots; /* in which threads hold its uses (pending.h) */
    /* Arena of the thread that attached its slot last; only compared.
     * Relaxed. */
    _Atomic(const struct wm_arena *) home;
    /* lock timelines */
    bool in_table;  /* both, as long as the stream is not retired */
    bool announced; /* counted in set->captures */
    bool unpolled;  /* polled in no round since it became busy */
    uint64_t round; /* in which it was polled last */
    uint64_t busy_since;
    wm_timeline *next_by_id, *next_by_name;
    wm_timeline *previous_busy, *next_busy;
    bool busy; /* on the list; written under both locks, read under either */
    wm_lock lock;
    wm_cond quiet; /* recorders, closing or polled fell, or it retired */
    /* lock timeline */
    unsigned recorders; /* threads about to name the stream to the driver */
    bool capture_due;   /* announced, and queries of it by name are over */
    unsigned unwarned;  /* recorders that began while none was due */
    unsigned closing;   /* batches being closed: not open, not yet queued */
    bool polled;        /* a poller takes entries out */
    bool retiring;      /* or retired */
    unsigned queued;    /* batches in the queue or with the poller */
    unsigned behind;    /* of these, queued since the poll began */
    uint64_t polled_ns; /* now of the last wm_timeline_poll_ripe() */
    wm_batch_queue queue;
    /* The batch in the queue whose delay is measured (group.h), and when it was
     * begun; null: none. Set under the lock, and cleared by the poller without
     * it: release, and acquire where it is set again. */
    _Atomic(const wm_stream_use *) sampled;
    uint64_t sampled_ns;
    wm_batch open;
    /* Owned by the poller; lock timeline orders one poller's writes before the
     * next one's reads. */
    unsigned closes;     /* polls after a batch was closed */
    unsigned failures;   /* queries of the head that failed in a row */
    unsigned busy_polls; /* polls left that need not query the stream */
};

/* What a poller works on without a lock. */
typedef struct wm_poll {
    wm_batch_queue queue; /* batches that were queued when the poll began */
    unsigned ended;       /* batches taken out of it */
    wm_block *done;       /* completed blocks, by next_done */
} wm_poll;

/* Moves all batches of one queue behind those of another. */
static inline void wm_batch_queue_move(wm_batch_queue *from, wm_batch_queue *to)
{
    if (from->head != NULL) {
        *(to->head != NULL ? &to->tail->next_in_queue : &to->head) = from->head;
        to->tail = from->tail;
        from->head = NULL;
    }
}

/* Moves t's queue into the poll; the caller is the poller of t. */
static inline void wm_poll_take_queue_locked(wm_timeline *t, wm_poll *poll)
{
    wm_batch_queue_move(&t->queue, &poll->queue);
    t->behind = 0;
}

static inline bool wm_timeline_is_retired(wm_timeline *t)
{
    /* Acquire: pairs with the release store after final and dead. */
    return atomic_load_explicit(&t->retired, memory_order_acquire);
}

static inline bool wm_timeline_is_adopted(wm_timeline *t)
{
    return atomic_load_explicit(&t->adopted, memory_order_relaxed);
}

/* The stream is adopted and not retired. It may be retired a moment later. */
static inline bool wm_timeline_lives(wm_timeline *t)
{
    return wm_timeline_is_adopted(t) && !wm_timeline_is_retired(t);
}

/* The stream's device was reset: its work is over, and neither the stream nor
 * its events are named to the driver any more. */
static inline bool wm_timeline_is_lost(const wm_timelines *set,
                                       const wm_timeline *t)
{
    return wm_driver_is_lost(set->driver, t->device);
}

/* Whether t->stream means this stream in the calling thread: the per-thread
 * default streams of all threads have one name. */
static inline bool wm_timeline_is_named_here(const wm_timeline *t)
{
    return t->stream != WARM_STREAM_PER_THREAD ||
           t->thread == wm_window_thread();
}

/* A bare timeline stands for a use at the end of a block's list (block.h). */
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

/* The use of t in a list that begins with use, or null. */
wm_stream_use *wm_stream_use_find(wm_stream_use *use, const wm_timeline *t);

/* The stream that the block's owner recorded, or null. Acquire: pairs with
 * wm_block_detach_uses(): a state read after null shows that free. */
static inline wm_timeline *wm_block_own(wm_block *block)
{
    return atomic_load_explicit(&block->owner_stream, memory_order_acquire);
}

static inline bool wm_timelines_capture(wm_timelines *set)
{
    return atomic_load_explicit(&set->captures, memory_order_relaxed) != 0;
}

/* Called before the timeline of a thread's default stream is made: with a
 * window the thread's exit calls wm_timelines_leave_thread(). */
void wm_timelines_want_window(wm_timelines *set, warm_stream stream);

/* The stream's timeline with a reference. get(): made if there is none; null:
 * no memory. get_adopted(): null unless the stream is adopted. lookup(): the
 * one or the other; *captured: the stream captures now, and *timeline is null
 * unless the stream is adopted; no driver call if it is adopted and no capture
 * is announced. Status: INVALID_STREAM, OUT_OF_MEMORY, DRIVER_ERROR. */
wm_timeline *wm_timeline_get(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info);
wm_timeline *wm_timeline_get_locked(wm_timelines *set, warm_stream stream,
                                    const wm_stream_info *info);
wm_timeline *wm_timeline_get_adopted(wm_timelines *set, warm_stream stream);
warm_status wm_timeline_lookup(wm_timelines *set, warm_stream stream,
                               wm_timeline **timeline, bool *captured);

static inline void wm_timeline_hold_many(wm_timeline *t, size_t count)
{
    /* Relaxed: the thread has a reference already, or the lock. */
    atomic_fetch_add_explicit(&t->references, count, memory_order_relaxed);
}

static inline void wm_timeline_hold(wm_timeline *t)
{
    wm_timeline_hold_many(t, 1);
}

/* t may be freed when these return. count: 0 only if the caller has another
 * reference. */
void wm_timeline_drop_many(wm_timelines *set, wm_timeline *t, size_t count);
static inline void wm_timeline_drop(wm_timelines *set, wm_timeline *t)
{
    wm_timeline_drop_many(set, t, 1);
}

/* Look-ups under lock timelines, by the stream's id or its name; null: not
 * found. Several timelines may have one name: the per-thread default streams of
 * all threads, of which only the calling thread's is found, and destroyed
 * streams whose address is in use again. find_stream() prefers an announced
 * one, then an adopted one. */
wm_timeline *wm_timeline_find_locked(wm_timelines *set, uint64_t id);
wm_timeline *wm_timeline_find_adopted_locked(wm_timelines *set,
                                             warm_stream stream);
wm_timeline *wm_timeline_find_stream_locked(wm_timelines *set,
                                            warm_stream stream);
/* Walks the tables: returns the timeline behind t, or the first one (t null).
 * next(): all timelines; next_named(): those with the name of stream. If t has
 * left the tables since, some timelines are returned twice. */
wm_timeline *wm_timeline_next_locked(wm_timelines *set, const wm_timeline *t);
wm_timeline *wm_timeline_next_named_locked(wm_timelines *set,
                                           warm_stream stream,
                                           const wm_timeline *t);
/* A walk without the lock: the timeline that find() returns, with a reference;
 * null: the end. t, behind which it searches, or null, has a reference that is
 * dropped. */
typedef wm_timeline *wm_timeline_find_fn(wm_timelines *set,
                                         const wm_timeline *t,
                                         const void *context);
wm_timeline *wm_timeline_next(wm_timelines *set, wm_timeline *t,
                              wm_timeline_find_fn *find, const void *context);
/* Removes t from both tables; ends its announcement. */
void wm_timeline_remove_locked(wm_timelines *set, wm_timeline *t);
void wm_timeline_end_announced_locked(wm_timelines *set, wm_timeline *t);
/* Each returns the status of its message: OUT_OF_MEMORY; CAPTURE_ERROR: the
 * stream captures; DRIVER_ERROR: the end of a retired stream is unknown;
 * INVALID_STREAM: it was destroyed and not retired. */
warm_status wm_timeline_no_record(void);
warm_status wm_timeline_captures(void);
warm_status wm_timeline_end_unknown(void);
warm_status wm_timeline_was_destroyed(void);

/* Between begin and end the stream is not retired, and may be named to the
 * driver. False: it is retired or retiring, and its final event counts.
 *
 * *due is written: a capture of the stream is announced. Another thread may
 * begin that capture at any moment, also between the driver's answer that the
 * stream does not capture and a call that would break the capture; therefore no
 * such call is made, and the stream is treated as capturing. If no capture is
 * due, none begins before the end of the recording, unless it is not announced.
 */
bool wm_timeline_begin_record_locked(wm_timeline *t, bool *due);
bool wm_timeline_begin_record(wm_timeline *t, bool *due);
void wm_timeline_end_record_locked(wm_timeline *t, bool due);
void wm_timeline_end_record(wm_timeline *t, bool due);
/* Waits for a stream on which the driver failed to record, between begin and
 * end, if no capture is due. *capture is written on success; if it is not NONE,
 * nothing was waited for, since waiting would end the capture. */
warm_status wm_timeline_synchronize(wm_timelines *set, wm_timeline *t,
                                    wm_capture *capture);
/* Waits for the work that is on the stream now; for a retired stream waits for
 * its end, which may be unknown. The caller holds no recording and no lock. */
warm_status wm_timeline_await(wm_timelines *set, wm_timeline *t);

/* Puts t on the busy list; the caller has a reference. since: position in order
 * of these values, for timelines that become busy together in arbitrary order;
 * 0: at the end. */
void wm_timeline_make_busy(wm_timelines *set, wm_timeline *t, uint64_t since);
/* The first busy timeline that was not polled in this round (rotate(): in any),
 * with a reference; it becomes the last of the list. */
wm_timeline *wm_timeline_next_busy(wm_timelines *set, uint64_t round);
static inline wm_timeline *wm_timeline_rotate(wm_timelines *set)
{
    return wm_timeline_next_busy(set, UINT64_MAX);
}
/* Takes t off the list unless left is set, and drops the reference. */
void wm_timeline_end_turn(wm_timelines *set, wm_timeline *t, bool left);

/* Records the use's event, or a fresh one, on t's stream. *capture is written
 * on success; if it is not NONE, nothing was recorded. Called between begin and
 * end of a recording that wrote due, or for a default stream of this thread. */
warm_status wm_stream_use_record_event(wm_timelines *set, wm_stream_use *use,
                                       wm_timeline *t, bool due,
                                       wm_capture *capture);
/* Frees the record of a use that has no event and no reference. */
static inline void wm_stream_use_give_up(wm_block *block, wm_stream_use *use)
{
    if (wm_likely(use == &block->first_use)) {
        /* Relaxed: the block is freed, and its next allocation is ordered
         * after this. */
        atomic_store_explicit(&block->first_use_taken, false,
                              memory_order_relaxed);
    } else {
        wm_meta_free(use);
    }
}

/* Frees a use that is in no list and no queue, without its reference. */
static inline void wm_stream_use_end(wm_timelines *set, wm_stream_use *use)
{
    if (use->event != NULL) {
        wm_event_pool_put(set->events, use->timeline->device, use->event);
    }
    wm_stream_use_give_up(use->block, use);
}

/* Put a closed batch into the queue. _locked: t may be freed
 * once the lock is released. Without it: the caller has a reference to t, and t
 * goes on the busy list (since: see wm_timeline_make_busy()). */
void wm_batch_enqueue_locked(wm_timeline *t, wm_stream_use *first);
void wm_batch_enqueue(wm_timelines *set, wm_timeline *t, const wm_batch *batch,
                      uint64_t since);
/* Puts the open batch, if there is one, into the queue without an event. */
void wm_batch_enqueue_open_locked(wm_timeline *t);
/* Adds a batch, without an event, to the open one of t, to which the caller has
 * a reference; since_ns UINT64_MAX: its blocks are freed now. True: the open
 * batch is full. since: see wm_timeline_make_busy(). */
bool wm_batch_join(wm_timelines *set, wm_timeline *t, const wm_batch *batch,
                   uint64_t since);
/* Ends a batch that is in no queue; adds the blocks that are in no other queue
 * either to *done. fate: PENDING: the stream has completed it; else LOST or
 * CAPTURED. */
void wm_batch_finish(wm_timelines *set, wm_stream_use *first, enum wm_uses fate,
                     wm_block **done);
/* Resolves the open batch of t, which the caller polls: ends it if the stream
 * has completed all work, else closes it. The poll receives the queue as it was
 * before, and the open batch too if it is unknown whether the stream has
 * completed it. Returns whether the stream has completed all batches. */
bool wm_batch_resolve_open(wm_timelines *set, wm_timeline *t, wm_poll *poll);
/* Close the open batch of t. older: if it was opened at older_than or before.
 * full: if it is full; returns whether one was closed. now: in any case, after
 * waiting for threads that close other batches of t. */
void wm_batch_close_older(wm_timelines *set, wm_timeline *t,
                          uint64_t older_than);
bool wm_batch_close_full(wm_timelines *set, wm_timeline *t);
void wm_batch_close_now(wm_timelines *set, wm_timeline *t);

/* Where completed blocks, chained by next_done, go; null: set->ops->finish().
 * Called without a lock, before the poll ends. */
typedef struct wm_home {
    void (*take)(wm_timelines *set, void *context, wm_block *done);
    void *context;
} wm_home;
void wm_timelines_hand_back(wm_timelines *set, const wm_home *home,
                            wm_block *done); /* done may be null */

/* After a full batch of t was closed: polls the oldest batches, unless another
 * thread polls. close_full(): closes the open batch first; only if it is full.
 */
void wm_timeline_poll_after_close(wm_timelines *set, wm_timeline *t,
                                  const wm_home *home);
void wm_timeline_close_full(wm_timelines *set, wm_timeline *t,
                            const wm_home *home);
/* Records an event for the blocks that were freed while t's stream captured,
 * and collects the completed batches. The capture is over; the caller has a
 * reference. False: some of these blocks still have no event. */
bool wm_timeline_poll_deferred(wm_timelines *set, wm_timeline *t);
/* Collects completed batches of t, and closes its open batch if that has
 * WM_BATCH_RIPE uses or is as old as batch_ms; not if t was polled with
 * the same now, or another thread polls. Returns whether any block completed;
 * *left: a later poll may find more. */
bool wm_timeline_poll_ripe(wm_timelines *set, wm_timeline *t, uint64_t now,
                           const wm_home *home, bool *left);

/* The recorded event behind which block waits in t's queue, or null: the block
 * waits no more, or has no event yet. Not null: the caller names the event, and
 * calls wm_event_pool_unname() afterwards. */
warm_event wm_timeline_name_event(wm_timelines *set, wm_timeline *t,
                                  const wm_block *block);

#endif
