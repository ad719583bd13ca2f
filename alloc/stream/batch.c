/* batch.c: the open batch of an adopted stream, how it closes, and how a batch
 * ends. See timeline.h. */
#include "alloc/stream/timeline_int.h"

#include "alloc/arena/group.h"

/* Batches that may be queued while one thread polls. After a query that found
 * the stream busy, TRUST_BUSY polls close the open batch without a query. */
enum { BEHIND = 8, TRUST_BUSY = 8 };

/* ---- begin and end ---------------------------------------------------- */

/* Begins to measure the delay of a batch that is about to enter the queue,
 * unless that of another one is being measured. */
static void sample_locked(wm_timeline *t, const wm_batch *batch)
{
    if (wm_reuse_is_sampled(batch->since_ns) &&
        atomic_load_explicit(&t->sampled, memory_order_acquire) == NULL) {
        t->sampled_ns = batch->since_ns;
        /* Relaxed: the poller gets the batch by the lock. */
        atomic_store_explicit(&t->sampled, batch->first, memory_order_relaxed);
    }
}

/* Counts the delay of a completed batch; a fence (stream_lane.h), a block of 0
 * bytes, was not freed by anybody. */
static void count_delay(const wm_stream_use *first, uint64_t since_ns)
{
    const wm_block *block = first->block;

    if (block->bytes > 0) {
        wm_reuse_count(block->segment->arena->group, since_ns);
    }
}

/* Ends the measurement of the batch, if it is the one; the caller polls t. */
static void end_sample(const wm_stream_use *first, enum wm_uses fate)
{
    wm_timeline *t = first->timeline;

    if (atomic_load_explicit(&t->sampled, memory_order_relaxed) == first) {
        if (fate == WM_USES_PENDING) {
            count_delay(first, t->sampled_ns);
        }
        atomic_store_explicit(&t->sampled, NULL, memory_order_release);
    }
}

void wm_batch_enqueue_locked(wm_timeline *t, wm_stream_use *first)
{
    first->next_in_queue = NULL;
    wm_batch_queue_move(&(wm_batch_queue){first, first}, &t->queue);
    t->queued++;
    t->behind++;
}

void wm_batch_enqueue_open_locked(wm_timeline *t)
{
    if (t->open.count > 0) {
        wm_batch_enqueue_locked(t, t->open.first);
        t->open = (wm_batch){0};
    }
}

/* One queue has completed its entry of the block. */
static void complete_entry(wm_block *block, enum wm_uses fate, wm_block **done)
{
    if (fate == WM_USES_LOST) {
        atomic_store_explicit(&block->stuck, true, memory_order_relaxed);
    } else if (fate == WM_USES_CAPTURED) {
        atomic_store_explicit(&block->captured, true, memory_order_relaxed);
    }
    /* Release: another queue that sees the count sees this queue's writes to
     * the block. Acquire: the last queue sees the writes of all, and no other
     * queue is left to change the count. */
    if (atomic_load_explicit(&block->queued, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&block->queued, 1, memory_order_acq_rel) ==
            1) {
        block->next_done = *done;
        *done = block;
    }
}

void wm_timelines_complete(wm_timelines *set, wm_block *block)
{
    wm_block *done = NULL;

    complete_entry(block, WM_USES_PENDING, &done);
    wm_timelines_hand_back(set, NULL, done);
}

void wm_batch_finish(wm_timelines *set, wm_stream_use *first, enum wm_uses fate,
                     wm_block **done)
{
    wm_timeline *t = first->timeline;
    size_t count = 0;

    end_sample(first, fate);
    while (first != NULL) {
        wm_stream_use *next = first->next_in_batch;
        wm_block *block = first->block;

        wm_stream_use_end(set, first);
        complete_entry(block, fate, done);
        count++;
        first = next;
    }
    wm_timeline_drop_many(set, t, count);
}

/* ---- closing ---------------------------------------------------------- */

/* If many batches were queued since a poll began, the poller may be preempted,
 * and no other thread queries their events: the open batch grows, and no
 * further batch is queued. */
static bool is_full_locked(const wm_timelines *set, const wm_timeline *t)
{
    if (t->polled && t->behind >= BEHIND) {
        return false;
    }
    return t->open.count >= set->batch_count ||
           t->open.bytes >= wm_timelines_batch_bytes(set);
}

/* Takes the open batch, if there is one and the stream may be named, and counts
 * it as closing; close_batch() closes it, or the caller finishes it. */
static bool take_open_locked(wm_timeline *t, wm_batch *batch)
{
    bool due;

    if (t->open.count == 0 || !wm_timeline_begin_record_locked(t, &due)) {
        return false;
    }
    *batch = t->open;
    batch->due = due;
    t->open = (wm_batch){0};
    t->closing++;
    return true;
}

static void join_locked(wm_timeline *t, const wm_batch *batch)
{
    if (t->retiring) {
        wm_batch_enqueue_locked(t, batch->first);
        return;
    }
    if (t->open.count == 0) {
        t->open = *batch;
        if (batch->since_ns == UINT64_MAX) {
            t->open.since_ns = wm_clock_ns();
        }
        return;
    }
    t->open.last->next_in_batch = batch->first;
    t->open.last = batch->last;
    t->open.count += batch->count;
    t->open.bytes += batch->bytes;
    if (batch->since_ns < t->open.since_ns) {
        t->open.since_ns = batch->since_ns;
    }
}

/* Unlocks t, and puts it on the busy list unless it is there. */
static void unlock_busy(wm_timelines *set, wm_timeline *t, uint64_t since)
{
    bool listed = t->busy;

    wm_lock_release(&t->lock);
    if (!listed) {
        wm_timeline_make_busy(set, t, since);
    }
}

void wm_batch_enqueue(wm_timelines *set, wm_timeline *t, const wm_batch *batch,
                      uint64_t since)
{
    wm_lock_acquire(&t->lock);
    sample_locked(t, batch);
    wm_batch_enqueue_locked(t, batch->first);
    unlock_busy(set, t, since);
}

bool wm_batch_join(wm_timelines *set, wm_timeline *t, const wm_batch *batch,
                   uint64_t since)
{
    bool full;

    wm_lock_acquire(&t->lock);
    join_locked(t, batch);
    full = is_full_locked(set, t);
    unlock_busy(set, t, since);
    return full;
}

/* True if a stream captures although no capture is known, which the contract
 * forbids. The blocks of the batch are then retained, since the graph may use
 * them. */
static bool is_unannounced(wm_timelines *set, const wm_timeline *t,
                           const wm_batch *batch, wm_capture capture)
{
    warm_stream none = NULL;

    if (capture != WM_CAPTURE_ACTIVE || batch->due ||
        wm_timelines_capture(set)) {
        return false;
    }
    /* Relaxed: a name and a size for one message; the first ones stay. */
    if (atomic_compare_exchange_strong_explicit(&set->unannounced, &none,
                                                t->stream, memory_order_relaxed,
                                                memory_order_relaxed)) {
        atomic_store_explicit(&set->unannounced_bytes, batch->bytes,
                              memory_order_relaxed);
    }
    return true;
}

warm_stream wm_timelines_unannounced(wm_timelines *set, size_t *bytes)
{
    warm_stream stream =
        atomic_load_explicit(&set->unannounced, memory_order_relaxed);

    *bytes =
        atomic_load_explicit(&set->unannounced_bytes, memory_order_relaxed);
    return stream != NULL && *bytes > 0 &&
                   !atomic_exchange_explicit(&set->unannounced_logged, true,
                                             memory_order_relaxed)
               ? stream
               : NULL;
}

/* The counterpart of take_open_locked(): finishes the batch with its fate, or
 * puts it into the queue (NONE). waited: the caller has already subtracted it
 * from t->closing. */
static void end_close(wm_timelines *set, wm_timeline *t, const wm_batch *batch,
                      enum wm_uses fate, bool waited, wm_block **done)
{
    if (fate == WM_USES_PENDING) {
        count_delay(batch->first, batch->since_ns);
    }
    if (fate != WM_USES_NONE) {
        wm_batch_finish(set, batch->first, fate, done);
    }
    wm_lock_acquire(&t->lock);
    t->closing -= !waited;
    wm_timeline_end_record_locked(t, batch->due);
    if (fate == WM_USES_NONE) {
        sample_locked(t, batch);
        wm_batch_enqueue_locked(t, batch->first);
        unlock_busy(set, t, 0);
    } else {
        wm_lock_release(&t->lock);
    }
}

/* Records the event, and puts the batch into the queue behind it. If the driver
 * fails to record, waits for the stream; polls do not wait for the batch then.
 * While the stream captures, the batch enters the queue without an event; if
 * the capture was not announced, the blocks are retained. */
static void close_batch(wm_timelines *set, wm_timeline *t,
                        const wm_batch *batch, wm_block **done)
{
    wm_capture capture = WM_CAPTURE_NONE;
    enum wm_uses fate = WM_USES_NONE;
    bool waited = wm_stream_use_record_event(set, batch->first, t, batch->due,
                                             &capture) != WARM_OK;

    if (waited) {
        wm_lock_acquire(&t->lock);
        t->closing--;
        wm_cond_broadcast(&t->quiet);
        wm_lock_release(&t->lock);
        fate = wm_timeline_synchronize(set, t, &capture) != WARM_OK
                   ? WM_USES_LOST
               : capture == WM_CAPTURE_NONE ? WM_USES_PENDING
                                            : WM_USES_NONE;
    }
    if (fate != WM_USES_LOST && is_unannounced(set, t, batch, capture)) {
        fate = WM_USES_CAPTURED;
    }
    end_close(set, t, batch, fate, waited, done);
}

/* Takes the open batch, and waits first until batches that other threads close
 * are in the queue. Returns whether one was open. poll, if not null, receives
 * the queue. */
static bool take_open(wm_timeline *t, wm_batch *batch, wm_poll *poll)
{
    bool taken;

    wm_lock_acquire(&t->lock);
    while (t->closing > 0) {
        wm_cond_wait(&t->quiet, &t->lock);
    }
    taken = take_open_locked(t, batch);
    if (poll != NULL) {
        wm_poll_take_queue_locked(t, poll);
    }
    wm_lock_release(&t->lock);
    return taken;
}

bool wm_batch_resolve_open(wm_timelines *set, wm_timeline *t, wm_poll *poll)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    wm_batch batch;
    bool lost;

    t->busy_polls = TRUST_BUSY;
    if (!take_open(t, &batch, poll)) {
        return false;
    }
    lost = wm_timeline_is_lost(set, t);
    if (!lost && !batch.due) {
        status = wm_driver_stream_passed(set->driver, t->stream, &capture);
    }
    t->busy_polls = status == WARM_NOT_READY ? TRUST_BUSY : 0;
    if (lost ||
        (!batch.due && status == WARM_OK && capture == WM_CAPTURE_NONE)) {
        /* No event: it would complete later than the stream did. */
        end_close(set, t, &batch, WM_USES_PENDING, false, &poll->done);
        return true;
    }
    close_batch(set, t, &batch, &poll->done);
    if (status != WARM_NOT_READY) {
        wm_lock_acquire(&t->lock);
        wm_poll_take_queue_locked(t, poll);
        wm_lock_release(&t->lock);
    }
    return false;
}

/* Closes the batch if taken is set. If its event could not be recorded, its
 * blocks, now complete, lost or captured, go to finish(). */
static bool close_taken(wm_timelines *set, wm_timeline *t, bool taken,
                        const wm_batch *batch)
{
    wm_block *done = NULL;

    if (taken) {
        close_batch(set, t, batch, &done);
        wm_timelines_hand_back(set, NULL, done);
    }
    return taken;
}

void wm_batch_close_older(wm_timelines *set, wm_timeline *t,
                          uint64_t older_than)
{
    wm_batch batch;
    bool taken;

    wm_lock_acquire(&t->lock);
    taken = t->open.since_ns <= older_than && take_open_locked(t, &batch);
    wm_lock_release(&t->lock);
    (void)close_taken(set, t, taken, &batch);
}

bool wm_batch_close_full(wm_timelines *set, wm_timeline *t)
{
    wm_batch batch;
    bool taken;

    wm_lock_acquire(&t->lock);
    taken = is_full_locked(set, t) && take_open_locked(t, &batch);
    wm_lock_release(&t->lock);
    return close_taken(set, t, taken, &batch);
}

void wm_batch_close_now(wm_timelines *set, wm_timeline *t)
{
    wm_batch batch;

    (void)close_taken(set, t, take_open(t, &batch, NULL), &batch);
}

void wm_timelines_hand_back(wm_timelines *set, const wm_home *home,
                            wm_block *done)
{
    if (done == NULL) {
        return;
    }
    if (wm_runtime_is_traced(set->runtime)) {
        wm_traced_done(set->runtime, done);
    }
    if (home != NULL) {
        home->take(set, home->context, done);
    } else {
        set->ops->finish(done);
    }
}
