/* stream_use_free.c: the free turns the streams recorded on a block into events
 * and queue entries. See timeline.h. */
#include "alloc/stream/timeline_int.h"

static void drop_event(wm_timelines *set, wm_stream_use *use)
{
    if (use->event != NULL) {
        wm_event_pool_put(set->events, use->timeline->device, use->event);
        use->event = NULL;
    }
}

/* Records the event behind the stream's present work. If the driver fails,
 * waits for the stream; if that fails too, the block is LOST. */
static enum wm_uses record_now(wm_timelines *set, wm_stream_use *use)
{
    wm_timeline *t = use->timeline;
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status =
        wm_stream_use_record_event(set, use, t, false, &capture);

    if (status != WARM_OK) {
        status = wm_timeline_synchronize(set, t, &capture);
        if (status != WARM_OK || capture == WM_CAPTURE_NONE) {
            return status == WARM_OK ? WM_USES_NONE : WM_USES_LOST;
        }
    }
    if (capture != WM_CAPTURE_NONE) {
        drop_event(set, use); /* recorded when the capture is over */
    }
    return WM_USES_PENDING;
}

/* The stream is not adopted: its address, or a default stream's name, may mean
 * another stream by now (row B6). */
static enum wm_uses record_use(wm_timelines *set, wm_stream_use *use)
{
    warm_stream stream = use->timeline->stream;
    wm_stream_info info;
    /* A thread that has no such default stream cannot ask: another one has
     * recorded its own. */
    warm_status status = wm_driver_has_stream(set->driver, stream)
                             ? wm_driver_stream_info(set->driver, stream, &info)
                             : WARM_NOT_READY;

    /* While a stream captures, the driver does not report its id. A use of
     * another thread's default stream is covered by its own event: a capture on
     * this thread's default stream does not matter. */
    if (status == WARM_OK && info.capture == WM_CAPTURE_ACTIVE &&
        wm_timeline_is_named_here(use->timeline)) {
        drop_event(set, use);
        return WM_USES_PENDING;
    }
    if (status != WARM_OK || info.id != use->timeline->id) {
        if (use->event != NULL) {
            return WM_USES_PENDING;
        }
        (void)wm_timeline_was_destroyed();
        return WM_USES_LOST;
    }
    if (info.capture == WM_CAPTURE_BLOCKED) {
        drop_event(set, use);
        return WM_USES_PENDING;
    }
    return record_now(set, use);
}

static enum wm_uses prepare_use(wm_timelines *set, wm_stream_use *use)
{
    wm_timeline *t = use->timeline;
    bool adopted = wm_timeline_is_adopted(t);
    enum wm_uses outcome = WM_USES_PENDING;
    bool due;

    if (wm_timeline_is_lost(set, t)) {
        return WM_USES_NONE;
    }
    if (adopted && use->event == NULL && !wm_timeline_is_retired(t) &&
        !wm_timelines_capture(set)) {
        return WM_USES_PENDING; /* the batch's event covers it */
    }
    if (!wm_timeline_begin_record(t, &due)) {
        drop_event(set, use); /* the final event is the later one */
        if (!wm_timeline_is_retired(t) || !t->dead) {
            return WM_USES_PENDING;
        }
        (void)wm_timeline_end_unknown();
        return WM_USES_LOST;
    }
    if (due && wm_timeline_is_named_here(t)) {
        drop_event(set, use); /* recorded when the capture is over */
    } else {
        outcome = adopted ? record_now(set, use) : record_use(set, use);
    }
    wm_timeline_end_record(t, due);
    return outcome;
}

static void end_uses(wm_timelines *set, wm_stream_use *use)
{
    while (use != NULL) {
        wm_stream_use *next = use->next_of_block;
        wm_timeline *t = use->timeline;

        wm_stream_use_end(set, use);
        wm_timeline_drop(set, t);
        use = next;
    }
}

/* Clears block->owner_stream and drops its reference. */
static void end_own(wm_timelines *set, wm_block *block)
{
    wm_timeline *t = wm_block_own(block);

    if (t != NULL) {
        /* Release: as in wm_block_detach_uses(). */
        atomic_store_explicit(&block->owner_stream, NULL, memory_order_release);
        wm_timeline_drop(set, t);
    }
}

wm_stream_use *wm_block_detach_uses(wm_block *block)
{
    wm_stream_use *uses =
        atomic_load_explicit(&block->uses, memory_order_acquire);
    wm_timeline *own = wm_block_own(block);

    /* Release: if the program frees the block twice, the thread that recorded
     * own sees in its own free that the block was claimed. Relaxed: the list is
     * this thread's alone. */
    if (own != NULL && uses == NULL) {
        uses = wm_stream_use_bare(own);
        atomic_store_explicit(&block->owner_stream, NULL, memory_order_release);
        atomic_store_explicit(&block->uses, uses, memory_order_relaxed);
    }
    return uses;
}

/* The uses of a FREEING block; the bare timeline that may end the list becomes
 * a use in first_use. */
static wm_stream_use *take_uses(wm_block *block)
{
    wm_stream_use *first = wm_block_detach_uses(block), **link = &first;

    while (*link != NULL && !wm_stream_use_is_bare(*link)) {
        link = &(*link)->next_of_block;
    }
    if (*link != NULL) {
        block->first_use = (wm_stream_use){
            .timeline = wm_stream_use_bare_timeline(*link), .block = block};
        /* Relaxed: the block is this thread's alone. */
        atomic_store_explicit(&block->first_use_taken, true,
                              memory_order_relaxed);
        *link = &block->first_use;
    }
    return first;
}

void wm_timelines_forget(wm_timelines *set, wm_block *block)
{
    end_uses(set, take_uses(block));
    atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
    end_own(set, block);
}

/* Adds a use for the stream that the block's owner recorded, if there are uses
 * of other threads beside it. Without memory for the use, waits for the
 * stream. */
static enum wm_uses join_own(wm_timelines *set, wm_block *block,
                             wm_stream_use **uses)
{
    wm_timeline *t = wm_block_own(block);
    enum wm_uses outcome = WM_USES_NONE;
    wm_stream_use *use;

    if (t != NULL && wm_stream_use_find(*uses, t) == NULL) {
        use = wm_meta_alloc(sizeof *use);
        if (use != NULL) {
            *use = (wm_stream_use){
                .timeline = t, .block = block, .next_of_block = *uses};
            wm_timeline_hold(t);
            *uses = use;
        } else if (wm_timeline_await(set, t) != WARM_OK) {
            outcome = WM_USES_LOST;
        }
    }
    end_own(set, block);
    return outcome;
}

enum wm_uses wm_timelines_prepare(wm_timelines *set, wm_block *block)
{
    wm_stream_use *use = take_uses(block);
    enum wm_uses outcome = join_own(set, block, &use);
    wm_stream_use *pending = NULL, *ended = NULL;
    unsigned count = 0;

    /* Relaxed, here and below: the block is FREEING, this thread's alone. */
    if (atomic_load_explicit(&block->captured, memory_order_relaxed)) {
        outcome = WM_USES_CAPTURED;
    }
    while (use != NULL) {
        wm_stream_use *next = use->next_of_block;
        enum wm_uses one = outcome;

        if (outcome < WM_USES_LOST) {
            one = prepare_use(set, use);
        }
        if (one == WM_USES_NONE) {
            use->next_of_block = ended;
            ended = use;
        } else {
            use->next_of_block = pending;
            pending = use;
            outcome = one;
            count++;
        }
        use = next;
    }
    end_uses(set, ended);
    if (outcome != WM_USES_PENDING) {
        end_uses(set, pending);
        pending = NULL;
    }
    /* The locks of the queues publish the count to the threads that take
     * entries out. */
    atomic_store_explicit(&block->queued, count, memory_order_relaxed);
    atomic_store_explicit(&block->uses, pending, memory_order_relaxed);
    return outcome;
}
