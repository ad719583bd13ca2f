/* ready_list.c: the list of busy timelines: those with batches, and those that
 * a thread polls. */
#include "alloc/stream/timeline_int.h"

/* previous: null: t becomes the first. */
static void insert_after_locked(wm_timelines *set, wm_timeline *t,
                                wm_timeline *previous)
{
    wm_timeline **link =
        previous != NULL ? &previous->next_busy : &set->busy_head;

    t->previous_busy = previous;
    t->next_busy = *link;
    *(t->next_busy != NULL ? &t->next_busy->previous_busy : &set->busy_tail) =
        t;
    *link = t;
}

static void append_locked(wm_timelines *set, wm_timeline *t)
{
    insert_after_locked(set, t, set->busy_tail);
}

static void unlink_locked(wm_timelines *set, wm_timeline *t)
{
    *(t->previous_busy != NULL ? &t->previous_busy->next_busy
                               : &set->busy_head) = t->next_busy;
    *(t->next_busy != NULL ? &t->next_busy->previous_busy : &set->busy_tail) =
        t->previous_busy;
}

/* Behind all timelines that are not younger; those may be out of order. */
static void insert_by_age_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline *previous = NULL;

    for (wm_timeline *at = set->busy_head; at != NULL; at = at->next_busy) {
        previous = at->busy_since <= t->busy_since ? at : previous;
    }
    insert_after_locked(set, t, previous);
}

void wm_timeline_make_busy(wm_timelines *set, wm_timeline *t, uint64_t since)
{
    wm_lock_acquire(&set->lock);
    if (!t->busy) {
        wm_lock_acquire(&t->lock);
        t->busy = true;
        wm_lock_release(&t->lock);
        t->busy_since = since;
        t->unpolled = true;
        if (since == 0) {
            append_locked(set, t);
        } else {
            insert_by_age_locked(set, t);
        }
        set->busy++;
    }
    wm_lock_release(&set->lock);
}

size_t wm_timelines_busy(wm_timelines *set)
{
    size_t busy;

    wm_lock_acquire(&set->lock);
    busy = set->busy;
    wm_lock_release(&set->lock);
    return busy;
}

bool wm_timelines_any(wm_timelines *set)
{
    return wm_timelines_busy(set) > 0 ||
           atomic_load_explicit(&set->slots, memory_order_relaxed) > 0;
}

bool wm_timelines_unasked(wm_timelines *set)
{
    const wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->busy_head;
    while (t != NULL && !t->unpolled) {
        t = t->next_busy;
    }
    wm_lock_release(&set->lock);
    return t != NULL;
}

wm_timeline *wm_timeline_next_busy(wm_timelines *set, uint64_t round)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->busy_head;
    while (t != NULL && t->round >= round) {
        t = t->next_busy;
    }
    if (t != NULL) {
        wm_timeline_hold(t);
        unlink_locked(set, t);
        append_locked(set, t);
        if (round != UINT64_MAX) {
            t->round = round;
            t->unpolled = false;
        }
    }
    wm_lock_release(&set->lock);
    return t;
}

wm_timeline *wm_timeline_rotate(wm_timelines *set)
{
    return wm_timeline_next_busy(set, UINT64_MAX);
}

/* Takes t off the list if nothing is left in it. A use that is added afterwards
 * sees busy == false and puts t back. A timeline that another thread polls
 * stays on the list, and that thread removes it: a call that waits for
 * completed work must find it. */
static void drop_polled(wm_timelines *set, wm_timeline *t)
{
    bool empty;

    wm_lock_acquire(&set->lock);
    wm_lock_acquire(&t->lock);
    empty = t->busy && t->head == NULL && t->open.count == 0 && !t->polled &&
            t->closing == 0;
    if (empty) {
        t->busy = false;
    }
    wm_lock_release(&t->lock);
    if (empty) {
        unlink_locked(set, t);
        set->busy--;
    }
    wm_lock_release(&set->lock);
    wm_timeline_drop(set, t);
}

void wm_timeline_end_turn(wm_timelines *set, wm_timeline *t, bool left)
{
    (left ? wm_timeline_drop : drop_polled)(set, t);
}
