/* timeline_poll.c: polls the queues of the timelines, oldest batch first;
 * closes batches that are full or old; publishes the uses of a freed block. One
 * round of polling at a time; no lock across a driver call. */
#include "alloc/stream/timeline_int.h"

#include <limits.h>

/* A batch is lost after MAX_FAILURES failed queries in a row. A thread that
 * closes a batch queries the oldest one, and every ONE_MORE-th time two of
 * them: with one only, a queue would never shrink. */
enum { MAX_FAILURES = 3, ONE_MORE = 8 };

/* A timeline for which threads hold uses in their slots, and which was polled
 * within this time, is left to those threads. */
enum { RECENT_POLL_NS = 1000000 };

/* ---- one queue -------------------------------------------------------- */

/* Merges the batches behind first that have no event either into first. */
static void merge_deferred(wm_poll *poll, wm_stream_use *first)
{
    wm_stream_use *last = first, *next;

    while ((next = first->next_in_queue) != NULL && next->event == NULL) {
        while (last->next_in_batch != NULL) {
            last = last->next_in_batch;
        }
        last->next_in_batch = next;
        first->next_in_queue = next->next_in_queue;
        poll->queue.tail = poll->queue.tail == next ? first : poll->queue.tail;
        poll->ended++;
    }
}

/* Whether an event can be recorded on t's stream. NOT_READY: not now. */
static warm_status can_record(wm_timelines *set, const wm_timeline *t)
{
    bool has_name = !wm_stream_is_default(t->stream);
    wm_stream_info info;
    warm_status status;

    if (!wm_timeline_is_named_here(t)) {
        return atomic_load_explicit(&t->orphaned, memory_order_relaxed)
                   ? wm_fail(WARM_INVALID_STREAM,
                             "the thread whose default stream uses it exited "
                             "before an event could be recorded there: in a "
                             "capture, or on a device that was not its current "
                             "one")
                   : WARM_NOT_READY;
    }
    if (!wm_driver_has_stream(set->driver, t->stream)) {
        return WARM_NOT_READY; /* it is that of another device */
    }
    status = wm_driver_stream_info(set->driver, t->stream, &info);
    if (status == WARM_INVALID_STREAM && has_name) {
        return wm_timeline_was_destroyed();
    }
    if (status != WARM_OK || info.capture != WM_CAPTURE_NONE) {
        return WARM_NOT_READY;
    }
    if (info.id == t->id) {
        return WARM_OK;
    }
    /* A default stream of another device has the same name. */
    return has_name ? wm_timeline_was_destroyed() : WARM_NOT_READY;
}

/* Records the event of a batch of the poll that was closed while its stream
 * captured, or while the capture of another stream blocked it. */
static warm_status record_deferred(wm_timelines *set, wm_timeline *t,
                                   wm_poll *poll, wm_stream_use *use)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;
    uint64_t deferred =
        atomic_load_explicit(&t->deferred, memory_order_relaxed);
    warm_status status;
    bool due;

    if (!wm_timeline_begin_record(t, &due)) {
        return WARM_NOT_READY; /* a later poll finds the final event */
    }
    status = due ? WARM_NOT_READY : can_record(set, t);
    if (status == WARM_OK &&
        wm_stream_use_record_event(set, use, t, false, &capture) == WARM_OK &&
        capture == WM_CAPTURE_NONE) {
        merge_deferred(poll, use);
        /* Unless a block was freed in another capture meanwhile. */
        (void)atomic_compare_exchange_strong_explicit(&t->deferred, &deferred,
                                                      0, memory_order_relaxed,
                                                      memory_order_relaxed);
    }
    wm_timeline_end_record(t, due);
    return status == WARM_OK ? WARM_NOT_READY : status;
}

static warm_status query(wm_timelines *set, wm_timeline *t, wm_poll *poll)
{
    wm_stream_use *use = poll->queue.head;
    warm_event event = use->event;

    if (wm_timeline_is_lost(set, t)) {
        return WARM_OK;
    }
    if (event == NULL && wm_timeline_is_retired(t)) {
        event = t->final;
        if (event == NULL) {
            return t->dead ? WARM_DRIVER_ERROR : WARM_OK;
        }
    }
    if (event == NULL) {
        return record_deferred(set, t, poll, use);
    }
    return wm_driver_event_passed(set->driver, event);
}

/* Takes the oldest batch out of the queue and ends it. */
static void finish_oldest(wm_timelines *set, wm_poll *poll, enum wm_uses fate)
{
    wm_stream_use *first = poll->queue.head;

    poll->queue.head = first->next_in_queue;
    poll->ended++;
    wm_batch_finish(set, first, fate, &poll->done);
}

/* Finishes at most `most` completed batches, oldest first. completed: all are
 * known to be complete; else each one's event is queried. */
static void poll_queue(wm_timelines *set, wm_timeline *t, bool completed,
                       unsigned most, wm_poll *poll)
{
    while (poll->queue.head != NULL && most-- > 0) {
        warm_status status = completed ? WARM_OK : query(set, t, poll);
        bool failed = status != WARM_OK && status != WARM_NOT_READY;

        t->failures = failed ? t->failures + 1 : 0;
        if (status != WARM_OK && t->failures < MAX_FAILURES) {
            break;
        }
        t->failures = 0;
        finish_oldest(set, poll, failed ? WM_USES_LOST : WM_USES_PENDING);
    }
}

/* Makes the caller the one poller of t: only the poller removes entries from
 * its queue. */
static void begin_poll_locked(wm_timeline *t, wm_poll *poll)
{
    t->polled = true;
    *poll = (wm_poll){0};
    wm_poll_take_queue_locked(t, poll);
}

/* Unless tries is set, waits for another poller, and for batches that other
 * threads are closing. */
static bool begin_poll(wm_timeline *t, bool tries, wm_poll *poll)
{
    bool ours;

    wm_lock_acquire(&t->lock);
    while ((t->polled || t->closing > 0) && !tries) {
        wm_cond_wait(&t->quiet, &t->lock);
    }
    ours = !t->polled;
    if (ours) {
        begin_poll_locked(t, poll);
    }
    wm_lock_release(&t->lock);
    return ours;
}

/* Hands the completed blocks to their arenas or caches before the poll ends: a
 * thread that waits for the poll may look for them. Returns whether any entry
 * is left in t. */
static bool end_poll(wm_timelines *set, wm_timeline *t, const wm_home *home,
                     wm_poll *poll)
{
    bool left;

    wm_timelines_hand_back(set, home, poll->done);
    wm_lock_acquire(&t->lock);
    /* Entries that the poll left precede entries that were queued meanwhile. */
    wm_batch_queue_move(&t->queue, &poll->queue);
    t->queue = poll->queue;
    t->queued -= poll->ended;
    t->polled = false;
    left = t->queue.head != NULL || t->open.count > 0;
    wm_cond_broadcast(&t->quiet);
    wm_lock_release(&t->lock);
    return left;
}

/* Resolves the open batch. While an older batch is incomplete the open one is
 * too: it gets its event, and no query. */
static void resolve_open(wm_timelines *set, wm_timeline *t, wm_poll *poll)
{
    if (poll->queue.head != NULL) {
        wm_batch_close_older(set, t, UINT64_MAX);
    } else {
        poll_queue(set, t, wm_batch_resolve_open(set, t, poll), UINT_MAX, poll);
    }
}

/* Collects everything that has completed, including the open batch. Returns
 * whether any entry is left. */
static bool poll_all(wm_timelines *set, wm_timeline *t)
{
    wm_poll poll;

    (void)begin_poll(t, false, &poll);
    poll_queue(set, t, false, UINT_MAX, &poll);
    resolve_open(set, t, &poll);
    return end_poll(set, t, NULL, &poll);
}

/* Records the events that are missing, also those behind a batch whose event
 * has not completed: perhaps only this thread can name the stream, and only
 * now. False: some are still missing. */
static bool record_all_deferred(wm_timelines *set, wm_timeline *t)
{
    wm_stream_use *use;
    wm_poll poll;

    (void)begin_poll(t, false, &poll);
    use = poll.queue.head;
    while (use != NULL && !wm_timeline_is_lost(set, t)) {
        if (use->event == NULL) {
            (void)record_deferred(set, t, &poll, use);
        }
        if (use->event == NULL) {
            break;
        }
        use = use->next_in_queue;
    }
    (void)end_poll(set, t, NULL, &poll);
    return use == NULL || wm_timeline_is_lost(set, t);
}

bool wm_timeline_poll_deferred(wm_timelines *set, wm_timeline *t)
{
    bool recorded;

    WM_KEEP_ERROR();
    recorded = record_all_deferred(set, t);
    (void)poll_all(set, t);
    return recorded;
}

static warm_event find_event(const wm_poll *poll, const wm_block *block)
{
    const wm_stream_use *first, *use;

    for (first = poll->queue.head; first != NULL;
         first = first->next_in_queue) {
        for (use = first; use != NULL; use = use->next_in_batch) {
            if (use->block == block) {
                return first->event;
            }
        }
    }
    return NULL;
}

/* Only the poller of t ends its batches: their events are in no pool before the
 * poll ends. */
warm_event wm_timeline_name_event(wm_timelines *set, wm_timeline *t,
                                  const wm_block *block)
{
    warm_event event;
    wm_poll poll;

    (void)begin_poll(t, false, &poll);
    event = find_event(&poll, block);
    if (event != NULL) {
        wm_event_pool_name(set->events, t->device);
    }
    (void)end_poll(set, t, NULL, &poll);
    return event;
}

void wm_timeline_poll_after_close(wm_timelines *set, wm_timeline *t,
                                  const wm_home *home)
{
    wm_poll poll;

    if (begin_poll(t, true, &poll)) {
        poll_queue(set, t, false, 1 + (++t->closes % ONE_MORE == 0), &poll);
        (void)end_poll(set, t, home, &poll);
    }
}

bool wm_timeline_poll_ripe(wm_timelines *set, wm_timeline *t, uint64_t now,
                           const wm_home *home, bool *left)
{
    bool free, ripe, begun;
    wm_poll poll;

    wm_lock_acquire(&t->lock);
    free = !t->polled && t->closing == 0 && t->polled_ns != now;
    t->polled_ns = free ? now : t->polled_ns;
    ripe = free &&
           (t->open.count >= WM_BATCH_RIPE ||
            (t->open.count > 0 && (t->open.since_ns >= now ||
                                   now - t->open.since_ns >= set->batch_ns)));
    begun = ripe || (free && t->queue.head != NULL);
    *left = !free || t->open.count > 0;
    if (begun) {
        begin_poll_locked(t, &poll);
    }
    wm_lock_release(&t->lock);
    if (!begun) {
        return false;
    }
    /* With many streams the batch behind a completed one seldom is complete. */
    poll_queue(set, t, false,
               wm_timelines_busy(set) > WM_POLLS_LEAST ? 1 : UINT_MAX, &poll);
    if (ripe && t->busy_polls > 0 && poll.queue.head == NULL) {
        /* The stream was busy a moment ago: an event, and no query. */
        t->busy_polls--;
        wm_batch_close_older(set, t, UINT64_MAX);
    } else if (ripe) {
        resolve_open(set, t, &poll);
    }
    *left = end_poll(set, t, home, &poll);
    return poll.done != NULL;
}

/* ---- rounds ----------------------------------------------------------- */

void wm_timelines_poll(wm_timelines *set)
{
    (void)set->ops->collect(set, NULL, UINT64_MAX);
    wm_timelines_poll_queued(set);
}

/* One round at a time: of every stream, or of half as many as events were
 * recorded since the last one, and a few. Returns at once if a round that began
 * after the call has finished, and polled every stream or was not asked to. */
static void poll_round(wm_timelines *set, bool all)
{
    const uint64_t *last = all ? &set->complete : &set->finished;
    wm_timeline *t = NULL;
    size_t recorded;
    uint64_t round;

    wm_lock_acquire(&set->lock);
    round = set->begun + 1;
    set->waiting += all;
    while (set->begun != set->finished && *last < round) {
        wm_cond_wait(&set->round_over, &set->lock);
    }
    set->waiting -= all;
    if (*last >= round) {
        wm_lock_release(&set->lock);
        return;
    }
    round = ++set->begun;
    /* A thread that waits for a round of every stream shall wait for one. */
    all = all || set->waiting > 0;
    recorded =
        atomic_exchange_explicit(&set->recorded, 0, memory_order_relaxed);
    wm_lock_release(&set->lock);
    for (size_t most = all ? SIZE_MAX : recorded / 2 + WM_POLLS_LEAST;
         most > 0 && (t = wm_timeline_next_busy(set, round)) != NULL; most--) {
        wm_timeline_end_turn(set, t, poll_all(set, t));
    }
    wm_lock_acquire(&set->lock);
    set->finished = round;
    set->complete = t == NULL ? round : set->complete;
    wm_cond_broadcast(&set->round_over);
    wm_lock_release(&set->lock);
}

void wm_timelines_poll_queued(wm_timelines *set)
{
    poll_round(set, true);
}

void wm_timelines_poll_due(wm_timelines *set)
{
    poll_round(set, false);
}

/* A caller of wm_timelines_poll_for(). */
struct poller {
    const struct wm_arena *arena;
    bool steady;
};

/* The poller, if there is one, leaves t to the threads that hold uses for it.
 */
static bool is_polled_elsewhere(wm_timeline *t, const struct poller *poller,
                                uint64_t now)
{
    bool recent;

    /* Relaxed: slots and home are only compared. */
    if (poller == NULL ||
        atomic_load_explicit(&t->slots, memory_order_relaxed) == 0 ||
        (!poller->steady &&
         atomic_load_explicit(&t->home, memory_order_relaxed) ==
             poller->arena)) {
        return false;
    }
    wm_lock_acquire(&t->lock);
    recent = (int64_t)(now - t->polled_ns) < RECENT_POLL_NS;
    wm_lock_release(&t->lock);
    return recent;
}

static void poll_some(wm_timelines *set, size_t count,
                      const struct poller *poller, uint64_t now)
{
    const wm_timeline *seen = NULL;
    wm_timeline *t;

    while (count-- > 0 && (t = wm_timeline_rotate(set)) != NULL) {
        bool again = t == seen, left = true;

        seen = seen == NULL ? t : seen; /* only compared: no reference */
        if (!again && !is_polled_elsewhere(t, poller, now)) {
            (void)wm_timeline_poll_ripe(set, t, now, NULL, &left);
        }
        wm_timeline_end_turn(set, t, left);
        if (again) {
            break;
        }
    }
}

void wm_timelines_poll_some(wm_timelines *set, size_t count, uint64_t now)
{
    poll_some(set, count, NULL, now);
}

void wm_timelines_poll_for(wm_timelines *set, size_t count,
                           const struct wm_arena *arena, bool steady,
                           uint64_t now)
{
    poll_some(set, count, &(struct poller){arena, steady}, now);
}

void wm_timelines_tend(wm_timelines *set)
{
    uint64_t now = wm_clock_ns();

    if (now > set->batch_ns) {
        wm_timelines_close_old(set, now - set->batch_ns);
    }
    wm_timelines_poll_some(set, wm_timelines_busy(set), now);
}

void wm_timelines_forget_entries(wm_timelines *set)
{
    wm_timeline *t;

    while ((t = wm_timeline_rotate(set)) != NULL) {
        wm_poll poll;

        wm_batch_enqueue_open_locked(t);
        (void)begin_poll(t, false, &poll);
        while (poll.queue.head != NULL) {
            finish_oldest(set, &poll, WM_USES_PENDING);
        }
        poll.done = NULL;
        (void)end_poll(set, t, NULL, &poll);
        wm_timeline_end_turn(set, t, false);
    }
}

/* ---- closing what is full or old, and publishing ------------------------ */

void wm_timeline_close_full(wm_timelines *set, wm_timeline *t,
                            const wm_home *home)
{
    if (wm_batch_close_full(set, t)) {
        wm_timeline_poll_after_close(set, t, home);
    }
}

void wm_timelines_close_old(wm_timelines *set, uint64_t older_than)
{
    wm_timeline *t;
    size_t count;

    (void)set->ops->collect(set, NULL, older_than);
    count = wm_timelines_busy(set);
    while (count-- > 0 && (t = wm_timeline_rotate(set)) != NULL) {
        wm_batch_close_older(set, t, older_than);
        wm_timeline_drop(set, t);
    }
}

void wm_timelines_publish(wm_timelines *set, wm_block *block)
{
    wm_stream_use *use =
        atomic_load_explicit(&block->uses, memory_order_relaxed);

    /* Relaxed: this thread alone has the block. */
    atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
    while (use != NULL) {
        wm_stream_use *next = use->next_of_block;
        wm_timeline *t = use->timeline;
        wm_batch batch = {.first = use,
                          .last = use,
                          .count = 1,
                          .bytes = block->bytes,
                          .since_ns = UINT64_MAX};
        bool adopted = wm_timeline_is_adopted(t);

        use->next_in_batch = NULL;
        /* The use's own reference may be dropped as soon as the use is
         * published. */
        wm_timeline_hold(t);
        if (use->event == NULL && !adopted) {
            /* Here: a block that is lost for another stream waits for none. */
            atomic_fetch_add_explicit(&t->deferred, 1, memory_order_relaxed);
        }
        if (use->event != NULL || !adopted) {
            wm_batch_enqueue(set, t, &batch, 0);
        } else if (wm_batch_join(set, t, &batch, 0)) {
            wm_timeline_close_full(set, t, NULL);
        }
        wm_timeline_drop(set, t);
        use = next;
    }
}
