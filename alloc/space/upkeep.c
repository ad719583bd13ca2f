/* upkeep.c: polls, decays and trims a space, for a caller or the background
 * thread: completed blocks become idle, and idle memory is returned. */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "runtime/base/clock.h"

void wm_space_collect(wm_space *space)
{
    wm_timelines_poll(space->group.timelines);
    wm_space_log_lost(space);
}

void wm_space_collect_pending(wm_space *space)
{
    wm_timelines *timelines = space->group.timelines;

    if (wm_timelines_any(timelines) &&
        ((!space->traits->laned &&
          wm_pending_collect_all(timelines, NULL, UINT64_MAX)) ||
         wm_timelines_unasked(timelines))) {
        wm_timelines_poll_queued(timelines);
        wm_space_log_lost(space);
    }
}

void wm_space_decay(wm_space *space)
{
    uint64_t now, before;

    if (space->decay_ns == 0) {
        return;
    }
    now = wm_clock_ns();
    before = atomic_load_explicit(&space->aged_ns, memory_order_relaxed);
    /* Unused caches are flushed first, or their segments would never be idle.
     * Relaxed: of two threads, one exchanges the time and flushes. */
    if (now - before >= space->decay_ns &&
        atomic_compare_exchange_strong_explicit(&space->aged_ns, &before, now,
                                                memory_order_relaxed,
                                                memory_order_relaxed)) {
        wm_cache_flush_idle(&space->group);
    }
    if (now > space->decay_ns) {
        wm_growth_decay(space, now - space->decay_ns);
    }
}

warm_status wm_space_poll(wm_space *space)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status != WARM_OK) {
        return status;
    }
    wm_space_collect(space);
    wm_space_decay(space);
    wm_space_tend_pools(space, NULL);
    wm_space_work_end(space, &work, true);
    return WARM_OK;
}

warm_status wm_space_trim(wm_space *space, size_t target, size_t *released)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status != WARM_OK) {
        return status;
    }
    wm_space_collect(space);
    wm_cache_flush_all(&space->group);
    wm_cache_trim(&space->group);
    *released = wm_growth_give_back(space, NULL, target);
    /* Memory was returned to the system, so the back-off of all nodes (grow.c)
     * ends. Relaxed: as in grow.c. */
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        atomic_store_explicit(&a->backoff_left, 0, memory_order_relaxed);
        atomic_store_explicit(&a->backoff_last, 0, memory_order_relaxed);
    }
    wm_space_work_end(space, &work, true);
    return WARM_OK;
}
