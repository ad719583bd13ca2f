/* timeline_poll.c: asking the queues of the timelines, oldest entry first. One
 * round of polling at a time; no lock across a driver call. */
#include "alloc/timeline_int.h"

#include "runtime/base/status.h"

/* Queries of one entry that may fail before it is lost. */
enum { MAX_FAILURES = 3 };

/* The oldest entry. */
static wm_use *first(wm_timeline *t)
{
    wm_use *use;

    wm_lock_acquire(&t->lock);
    use = t->head;
    wm_lock_release(&t->lock);
    return use;
}

/* Takes the head off and answers the new one. */
static wm_use *pop(wm_timeline *t)
{
    wm_use *head;

    wm_lock_acquire(&t->lock);
    t->head = t->head->next_in_queue;
    if (t->head == NULL) {
        t->tail = NULL;
    }
    t->failures = 0;
    head = t->head;
    wm_lock_release(&t->lock);
    return head;
}

static void complete(wm_timelines *set, wm_use *use, bool lost)
{
    wm_block *block = use->block;

    if (lost) {
        atomic_store_explicit(&block->stuck, true, memory_order_relaxed);
    }
    wm_use_end(set, use);
    /* Release: what this queue did to the block is over before another one
     * sees the count; acquire: the last one sees all of it. */
    if (atomic_fetch_sub_explicit(&block->queued, 1, memory_order_acq_rel) ==
        1) {
        set->finish(block,
                    atomic_load_explicit(&block->stuck, memory_order_relaxed));
    }
}

/* An entry whose stream could not be recorded on at its free. */
static warm_status record_late(wm_timelines *set, wm_timeline *t, wm_use *use)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;

    if (!wm_timeline_begin_record(t)) {
        return WARM_NOT_READY; /* a later poll finds the final event */
    }
    if (wm_timeline_is_same_stream(set, t) &&
        wm_driver_stream_capture(set->driver, t->stream, &capture) == WARM_OK &&
        capture == WM_CAPTURE_NONE) {
        (void)wm_use_mark(set, use, t->stream);
    }
    wm_timeline_end_record(t);
    return WARM_NOT_READY;
}

static warm_status query(wm_timelines *set, wm_timeline *t, wm_use *use)
{
    warm_event event = use->event;

    if (event == NULL && wm_timeline_is_retired(t)) {
        event = t->final;
        if (event == NULL) {
            return t->dead ? WARM_DRIVER_ERROR : WARM_OK;
        }
    }
    if (event == NULL) {
        return record_late(set, t, use);
    }
    return wm_driver_event_query(set->driver, event);
}

/* Whether the head is given up: its queries failed too often in a row. */
static bool gives_up(wm_timeline *t, warm_status status)
{
    bool lost;

    wm_lock_acquire(&t->lock);
    t->failures = status == WARM_NOT_READY ? 0 : t->failures + 1;
    lost = t->failures >= MAX_FAILURES;
    wm_lock_release(&t->lock);
    return lost;
}

static void poll_timeline(wm_timelines *set, wm_timeline *t)
{
    wm_use *use = first(t);

    while (use != NULL) {
        warm_status status = query(set, t, use);
        bool lost = status != WARM_OK && gives_up(t, status);
        wm_use *done = use;

        if (status != WARM_OK && !lost) {
            break;
        }
        use = pop(t);
        complete(set, done, lost);
    }
}

/* The next busy timeline not asked in this round, with a reference; it goes to
 * the end of the list. */
static wm_timeline *next_busy(wm_timelines *set, uint64_t round)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->busy_head;
    if (t != NULL && t->round >= round) {
        t = NULL;
    }
    if (t != NULL) {
        t->round = round;
        t->references++;
        if (t->next_busy != NULL) {
            set->busy_head = t->next_busy;
            set->busy_tail->next_busy = t;
            set->busy_tail = t;
            t->next_busy = NULL;
        }
    }
    wm_lock_release(&set->lock);
    return t;
}

static void remove_busy_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **link = &set->busy_head;
    wm_timeline *previous = NULL;

    while (*link != t) {
        previous = *link;
        link = &previous->next_busy;
    }
    *link = t->next_busy;
    if (set->busy_tail == t) {
        set->busy_tail = previous;
    }
    t->busy = false;
}

/* Off the busy list if its queue is empty. An entry that is added now finds
 * the flag down and puts it back on. */
static void drop_polled(wm_timelines *set, wm_timeline *t)
{
    bool empty;

    wm_lock_acquire(&set->lock);
    wm_lock_acquire(&t->lock);
    empty = t->head == NULL;
    wm_lock_release(&t->lock);
    if (empty && t->busy) {
        remove_busy_locked(set, t);
    }
    wm_lock_release(&set->lock);
    wm_timeline_drop(set, t);
}

/* True: a round begins, and is the caller's. False: one that began after the
 * call has finished. */
static bool begin_round(wm_timelines *set, uint64_t *round)
{
    uint64_t wanted;
    bool ours;

    wm_lock_acquire(&set->lock);
    wanted = set->begun + 1;
    while (set->begun != set->finished && set->finished < wanted) {
        wm_cond_wait(&set->round_over, &set->lock);
    }
    ours = set->finished < wanted;
    set->begun += ours;
    *round = set->begun;
    wm_lock_release(&set->lock);
    return ours;
}

static void end_round(wm_timelines *set)
{
    wm_lock_acquire(&set->lock);
    set->finished = set->begun;
    wm_cond_broadcast(&set->round_over);
    wm_lock_release(&set->lock);
}

void wm_timelines_poll(wm_timelines *set)
{
    uint64_t round;
    wm_timeline *t;

    if (!begin_round(set, &round)) {
        return;
    }
    while ((t = next_busy(set, round)) != NULL) {
        poll_timeline(set, t);
        drop_polled(set, t);
    }
    end_round(set);
}

void wm_timelines_forget_entries(wm_timelines *set)
{
    while (set->busy_head != NULL) {
        wm_timeline *t = set->busy_head;

        wm_timeline_hold(set, t);
        while (t->head != NULL) {
            wm_use *use = t->head;

            (void)pop(t);
            wm_use_end(set, use);
        }
        drop_polled(set, t);
    }
}
