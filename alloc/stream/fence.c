/* fence.c: queues the fences of a device's streams, and handles them when they
 * complete; see stream_lane.h. */
#include "alloc/stream/stream_lane_int.h"

#include "alloc/arena/arena_int.h"

static void complete_fence(wm_lane_owner *owner, bool completed);

/* Queues a fence behind the work on the stream; false: that failed. */
static bool queue_fence(wm_lane_owner *owner, wm_block *fence)
{
    wm_timelines *timelines = owner->all->timelines;

    /* Relaxed: the fence is this thread's; publishing it makes the stores
     * visible. */
    atomic_store_explicit(&fence->state, WM_BLOCK_PENDING,
                          memory_order_relaxed);
    atomic_store_explicit(&fence->first_use_taken, false, memory_order_relaxed);
    atomic_store_explicit(&fence->stuck, false, memory_order_relaxed);
    atomic_store_explicit(&fence->captured, false, memory_order_relaxed);
    wm_timelines_use_known(fence, owner->timeline);
    switch (wm_timelines_prepare(timelines, fence)) {
    case WM_USES_PENDING:
        wm_timelines_publish(timelines, fence);
        return true;
    case WM_USES_NONE:
        (void)wm_fence_complete(fence);
        return true;
    case WM_USES_LOST:
    case WM_USES_CAPTURED:
        break;
    }
    return false;
}

/* lane: one of the stream's, to which memory came back. If a fence is under
 * way, its completion checks whether there is more. */
static bool needs_fence_locked(wm_lane_owner *owner, wm_arena *arena,
                               wm_lane *lane)
{
    return !owner->fence_queued && !owner->retired &&
           wm_timeline_lives(owner->timeline) && wm_lane_has_more(arena, lane);
}

/* Puts the owners that need a fence in front of chain, and claims their fences
 * for the caller. Looks only at streams to which memory came back since they
 * were last looked at. */
static wm_lane_owner *claim_fences(wm_lane_registry *registry, wm_arena *arena,
                                   const wm_lane *except, wm_lane_owner *chain)
{
    size_t limit = wm_lane_fresh(arena);
    wm_lane *lane;

    if (limit == 0) {
        return chain;
    }
    wm_lock_acquire(&registry->lock);
    while (limit-- > 0 && (lane = wm_lane_take_fresh(arena)) != NULL) {
        wm_lane_owner *o = lane->owner;

        if (o != NULL && o->lane == except) {
            wm_lane_renew(arena, lane);
        } else if (o != NULL && needs_fence_locked(o, arena, lane)) {
            o->fence_queued = true;
            wm_lanes_puts(registry->arena, o->lane, &o->fence_point);
            o->next_to_fence = chain;
            chain = o;
        }
    }
    wm_lock_release(&registry->lock);
    return chain;
}

void wm_lanes_queue_fences(wm_lane_registry *registry, wm_arena *arena,
                           const wm_lane *lane)
{
    wm_lane_owner *chain = NULL;

    for (wm_arena *a = registry->arena; a != NULL; a = a->next_sibling) {
        if (arena == NULL || arena == a) {
            chain = claim_fences(registry, a, lane, chain);
        }
    }
    while (chain != NULL) {
        wm_lane_owner *next = chain->next_to_fence;

        if (!queue_fence(chain, &chain->fence)) {
            complete_fence(chain, false);
        }
        chain = next;
    }
}

static void put_timeline(wm_lane_registry *registry, wm_timeline *t)
{
    if (t != NULL) {
        wm_timeline_put(registry->timelines, t);
    }
}

/* A lane may have ended before its last ordinary fence is handled, since
 * another thread can take that fence out of the timeline. */
static void complete_fence(wm_lane_owner *owner, bool completed)
{
    static const wm_lane_point nothing;
    wm_lane_registry *registry = owner->all;
    wm_timeline *t;

    wm_lock_acquire(&registry->lock);
    owner->fence_queued = false;
    if (completed && !owner->lane_ended) {
        wm_lanes_passed(registry->arena, owner->lane, &owner->fence_point);
    }
    if (!owner->lane_ended) {
        wm_lanes_renew(registry->arena, owner->lane,
                       completed ? &owner->fence_point : &nothing);
    }
    t = wm_lane_owner_free_locked(owner);
    wm_lock_release(&registry->lock);
    put_timeline(registry, t);
}

static void complete_final_fence(wm_lane_owner *owner)
{
    wm_lane_registry *registry = owner->all;
    wm_timeline *t;

    wm_lock_acquire(&registry->lock);
    wm_lanes_end(registry->arena, owner->lane);
    owner->lane_ended = true;
    t = wm_lane_owner_free_locked(owner);
    wm_lock_release(&registry->lock);
    put_timeline(registry, t);
}

bool wm_fence_complete(wm_block *block)
{
    bool completed = wm_block_fate(block) == WM_BLOCK_IDLE;
    bool is_fence = block->size_class == WM_FENCE;
    bool is_final = block->size_class == WM_FENCE_FINAL;
    char *at = (char *)block; /* the owner, and the fence in it, may go below */

    /* A lost fence never completes: the stream gets no fence any more, but a
     * final one. */
    if (is_fence && completed) {
        complete_fence(
            (wm_lane_owner *)(void *)(at - offsetof(wm_lane_owner, fence)),
            true);
    } else if (is_final && completed) {
        complete_final_fence(
            (wm_lane_owner *)(void *)(at -
                                      offsetof(wm_lane_owner, final_fence)));
    }
    return is_fence || is_final;
}

/* While a stream captures its id is unknown; no other living stream has an
 * adopted stream's address. */
static bool matches(const wm_lane_owner *owner, warm_stream stream,
                    const wm_stream_info *info)
{
    if (owner->retired) {
        return false;
    }
    return info->device != WM_DEVICE_UNKNOWN
               ? owner->id == wm_timeline_lane_id(info->id)
               : owner->stream == stream && wm_timeline_lives(owner->timeline);
}

static void raise_retired(wm_timelines *timelines, uint64_t id)
{
    uint64_t highest =
        atomic_load_explicit(&timelines->retired, memory_order_relaxed);

    while (id > highest && !atomic_compare_exchange_weak_explicit(
                               &timelines->retired, &highest, id,
                               memory_order_relaxed, memory_order_relaxed)) {
    }
}

static wm_lane_owner *remove_owner(wm_lane_registry *registry,
                                   warm_stream stream,
                                   const wm_stream_info *info)
{
    wm_lane_owner *found = NULL;

    wm_lock_acquire(&registry->lock);
    for (int i = 0; i < WM_LANE_BUCKETS && found == NULL; i++) {
        found = registry->bucket[i];
        while (found != NULL && !matches(found, stream, info)) {
            found = found->next;
        }
    }
    if (found != NULL) {
        found->retired = true;
        raise_retired(registry->timelines, found->id);
        wm_lanes_close(registry->arena, found->lane);
    }
    wm_lock_release(&registry->lock);
    return found;
}

void wm_lane_registry_retire(wm_lane_registry *registry, warm_stream stream,
                             const wm_stream_info *info)
{
    wm_lane_owner *owner = remove_owner(registry, stream, info);

    if (owner != NULL) {
        /* If the fence cannot be queued, the lane stays as it is: nobody can
         * say when its memory is safe. */
        (void)queue_fence(owner, &owner->final_fence);
    }
}
