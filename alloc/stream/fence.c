/* fence.c: marks on the streams of a device, queued and come back; see
 * stream_lane.h. */
#include "alloc/stream/stream_lane_int.h"

#include "alloc/arena/arena_int.h"

/* What becomes of a mark that the timelines need not see. */
static void end_mark(wm_lane_owner *order, bool passed);

bool wm_fence_queue(wm_lane_owner *order, wm_block *mark)
{
    wm_timelines *timelines = order->all->timelines;

    /* Relaxed: the mark is this thread's; what publishes it shows it. */
    atomic_store_explicit(&mark->state, WM_BLOCK_PENDING, memory_order_relaxed);
    atomic_store_explicit(&mark->first_use_taken, false, memory_order_relaxed);
    atomic_store_explicit(&mark->stuck, false, memory_order_relaxed);
    atomic_store_explicit(&mark->captured, false, memory_order_relaxed);
    wm_timelines_use_known(mark, order->timeline);
    switch (wm_timelines_prepare(timelines, mark)) {
    case WM_USES_PENDING:
        wm_timelines_publish(timelines, mark);
        return true;
    case WM_USES_NONE:
        (void)wm_fence_complete(mark);
        return true;
    case WM_USES_LOST:
    case WM_USES_CAPTURED:
        break;
    }
    return false;
}

/* lane: of the stream, to which something came back. The end of a mark under
 * way looks whether there is more. */
static bool is_to_be_marked_locked(wm_lane_owner *order, wm_arena *arena,
                                   wm_lane *lane)
{
    return !order->marking && !order->retired &&
           wm_timeline_lives(order->timeline) && wm_lane_has_more(arena, lane);
}

/* Those to be marked, before a chain; their marks are the caller's. Looks at
 * streams only to which something came back since it was looked at them. */
static wm_lane_owner *choose(wm_lane_registry *orders, wm_arena *arena,
                             const wm_lane *but, wm_lane_owner *chain)
{
    size_t most = wm_lane_fresh(arena);
    wm_lane *lane;

    if (most == 0) {
        return chain;
    }
    wm_lock_acquire(&orders->lock);
    while (most-- > 0 && (lane = wm_lane_take_fresh(arena)) != NULL) {
        wm_lane_owner *o = lane->owner;

        if (o != NULL && o->lane == but) {
            wm_lane_renew(arena, lane);
        } else if (o != NULL && is_to_be_marked_locked(o, arena, lane)) {
            o->marking = true;
            wm_lanes_puts(orders->arena, o->lane, &o->marked);
            o->next_to_mark = chain;
            chain = o;
        }
    }
    wm_lock_release(&orders->lock);
    return chain;
}

void wm_lanes_queue_fences(wm_lane_registry *orders, wm_arena *arena,
                           const wm_lane *lane)
{
    wm_lane_owner *chain = NULL;

    for (wm_arena *a = orders->arena; a != NULL; a = a->next_sibling) {
        if (arena == NULL || arena == a) {
            chain = choose(orders, a, lane, chain);
        }
    }
    while (chain != NULL) {
        wm_lane_owner *next = chain->next_to_mark;

        if (!wm_fence_queue(chain, &chain->mark)) {
            end_mark(chain, false);
        }
        chain = next;
    }
}

static void let_go(wm_lane_registry *orders, wm_timeline *t)
{
    if (t != NULL) {
        wm_timeline_put(orders->timelines, t);
    }
}

/* The lane may have ended before its last ordinary mark came by: another thread
 * took that. */
static void end_mark(wm_lane_owner *order, bool passed)
{
    static const wm_lane_point nothing;
    wm_lane_registry *orders = order->all;
    wm_timeline *t;

    wm_lock_acquire(&orders->lock);
    order->marking = false;
    if (passed && !order->over) {
        wm_lanes_passed(orders->arena, order->lane, &order->marked);
    }
    if (!order->over) {
        wm_lanes_renew(orders->arena, order->lane,
                       passed ? &order->marked : &nothing);
    }
    t = wm_lane_owner_free_locked(order);
    wm_lock_release(&orders->lock);
    let_go(orders, t);
}

static void end_lane(wm_lane_owner *order)
{
    wm_lane_registry *orders = order->all;
    wm_timeline *t;

    wm_lock_acquire(&orders->lock);
    wm_lanes_end(orders->arena, order->lane);
    order->over = true;
    t = wm_lane_owner_free_locked(order);
    wm_lock_release(&orders->lock);
    let_go(orders, t);
}

bool wm_fence_complete(wm_block *block)
{
    bool passed = wm_block_fate(block) == WM_BLOCK_IDLE;

    if (block->size_class == WM_ORDER_MARK) {
        wm_lane_owner *order =
            (wm_lane_owner *)(void *)((char *)block -
                                      offsetof(wm_lane_owner, mark));

        /* One that is lost never passed: there is none after it until the
         * stream is retired. */
        if (passed) {
            end_mark(order, true);
        }
        return true;
    }
    if (block->size_class == WM_ORDER_LAST) {
        if (passed) {
            end_lane((wm_lane_owner *)(void *)((char *)block -
                                               offsetof(wm_lane_owner, last)));
        }
        return true;
    }
    return false;
}

/* While a stream captures its id is not known; an adopted one has its address
 * to itself. */
static bool is_it(const wm_lane_owner *order, warm_stream stream,
                  const wm_stream_info *info)
{
    if (order->retired) {
        return false;
    }
    return info->device != WM_DEVICE_UNKNOWN
               ? order->id == wm_timeline_lane_id(info->id)
               : order->stream == stream && wm_timeline_lives(order->timeline);
}

static void note_retired(wm_timelines *timelines, uint64_t id)
{
    uint64_t most =
        atomic_load_explicit(&timelines->retired, memory_order_relaxed);

    while (id > most && !atomic_compare_exchange_weak_explicit(
                            &timelines->retired, &most, id,
                            memory_order_relaxed, memory_order_relaxed)) {
    }
}

static wm_lane_owner *take_out(wm_lane_registry *orders, warm_stream stream,
                               const wm_stream_info *info)
{
    wm_lane_owner *found = NULL;

    wm_lock_acquire(&orders->lock);
    for (int i = 0; i < WM_ORDER_BUCKETS && found == NULL; i++) {
        found = orders->bucket[i];
        while (found != NULL && !is_it(found, stream, info)) {
            found = found->next;
        }
    }
    if (found != NULL) {
        found->retired = true;
        note_retired(orders->timelines, found->id);
        wm_lanes_close(orders->arena, found->lane);
    }
    wm_lock_release(&orders->lock);
    return found;
}

void wm_lane_registry_retire(wm_lane_registry *orders, warm_stream stream,
                             const wm_stream_info *info)
{
    wm_lane_owner *order = take_out(orders, stream, info);

    if (order != NULL) {
        /* One that cannot be queued leaves the lane as it is: nobody can say
         * when its memory is safe. */
        (void)wm_fence_queue(order, &order->last);
    }
}
