/* stream_check.c: checks the records of streams: timelines and what is queued
 * there, and the owners of lanes and their fences.
 *
 * For tests: no other thread is inside a call. Takes locks REGISTRY, and
 * TIMELINES and under it TIMELINE. */
#include "alloc/stream/stream_lane.h"
#include "alloc/stream/timeline_int.h"

/* ---- timelines ------------------------------------------------------------
 */

static size_t count_uses(const wm_timeline *t, const wm_stream_use *use,
                         bool *good)
{
    size_t count = 0;

    for (; use != NULL; use = use->next_in_batch) {
        *good = *good && use->timeline == t;
        count++;
    }
    return count;
}

/* Nobody polls, records or closes; and what is queued has its references. */
static bool check_timeline(wm_timeline *t)
{
    bool good = true;
    size_t uses, batches = 0;

    wm_lock_acquire(&t->lock);
    uses = count_uses(t, t->open.first, &good);
    good = good && uses == t->open.count;
    for (const wm_stream_use *b = t->queue.head; b != NULL && good;
         b = b->next_in_queue) {
        uses += count_uses(t, b, &good);
        good = good && (b->next_in_queue != NULL || b == t->queue.tail);
        batches++;
    }
    good = good && batches == t->queued && t->behind <= t->queued &&
           !t->polled && t->recorders == 0 && t->unwarned == 0 &&
           t->closing == 0 && (t->busy || uses == 0) &&
           atomic_load_explicit(&t->references, memory_order_relaxed) >= uses;
    wm_lock_release(&t->lock);
    return good;
}

bool wm_timelines_check(wm_timelines *set)
{
    const wm_timeline *previous = NULL;
    size_t count = 0, busy = 0;
    bool good = true;

    wm_lock_acquire(&set->lock);
    for (wm_timeline *t = wm_timeline_next_locked(set, NULL); t != NULL && good;
         t = wm_timeline_next_locked(set, t)) {
        good = t->in_table && check_timeline(t);
        count++;
    }
    for (wm_timeline *t = set->busy_head; t != NULL && good; t = t->next_busy) {
        good = t->busy && t->previous_busy == previous && check_timeline(t);
        previous = t;
        busy++;
    }
    good = good && count == set->count && busy == wm_timelines_busy(set) &&
           previous == (busy > 0 ? set->busy_tail : NULL) &&
           set->waiting == 0 && set->breaking == NULL &&
           set->named_queries == NULL;
    wm_lock_release(&set->lock);
    return good;
}

/* ---- owners of lanes ------------------------------------------------------
 */

static bool check_owner(const wm_lane_registry *registry,
                        const wm_lane_owner *owner, size_t *out)
{
    unsigned count = 0;
    bool good = owner->all == registry && owner->waiters == 0 &&
                owner->fences <= WM_FENCES;

    for (const wm_fence *f = owner->out; f != NULL && good; f = f->next_out) {
        good = f->owner == owner;
        count++;
    }
    *out += count;
    return good && count <= owner->fences;
}

bool wm_lane_registry_check(wm_lane_registry *registry)
{
    size_t owners = 0, out = 0, made = 0;
    bool good = true;

    wm_lock_acquire(&registry->lock);
    for (const wm_lane_owner *o = wm_lane_owner_next_locked(registry, NULL);
         o != NULL && good; o = wm_lane_owner_next_locked(registry, o)) {
        good = check_owner(registry, o, &out);
        owners++;
    }
    for (const wm_fence *f = registry->all_fences; f != NULL;
         f = f->next_made) {
        made++;
    }
    /* A fence that is spare twice would end no list. */
    for (const wm_fence *f = registry->spare_fences; f != NULL && out <= made;
         f = f->next) {
        out++;
    }
    good =
        good && out <= made &&
        owners == atomic_load_explicit(&registry->owners, memory_order_relaxed);
    wm_lock_release(&registry->lock);
    return good;
}
