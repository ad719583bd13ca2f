/* order_share.c: a stream waits for another one, and has its memory; see
 * order.h.
 *
 * What the other one has is safe for it then, but not for anybody else before
 * it has passed that point itself. No host thread waits. But it ties streams to
 * each other that had nothing to do with each other: unless option stream_wait
 * says so it is done only where there is no memory else. The bench's traces, 8
 * streams, held / live at lag 4 and 32: mixed 2.31, 2.38, with the option 1.59,
 * 1.50 and 0.03, 0.44 waits a free; server 2.07, 2.17, and 1.27, 1.28. */
#include "alloc/order_int.h"

#include "alloc/arena_int.h"

/* Streams at most that one request waits for. */
enum { WAITS_MAX = 16 };

/* One that was not tried, with a run for the request; else one with any, or
 * null. */
static wm_order *pick_locked(wm_orders *orders, const wm_lane *lane,
                             size_t bytes, bool any)
{
    wm_order *other = NULL;

    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        for (wm_order *o = orders->bucket[i]; o != NULL; o = o->next) {
            if (o->lane == lane || o->retired || o->over ||
                o->tried == orders->tries || !wm_timeline_lives(o->timeline)) {
                continue;
            }
            if (wm_lane_has_room(orders->arena, o->lane, bytes, bytes)) {
                return o;
            }
            if (any &&
                wm_lane_has_room(orders->arena, o->lane, bytes, WM_PAGE)) {
                other = o;
            }
        }
    }
    return other;
}

/* Lets the stream wait for what came back to the lane of one until now. */
static bool wait_for(wm_orders *orders, wm_order *order, wm_lane *lane,
                     warm_stream stream)
{
    uint64_t puts = wm_lane_puts(orders->arena, order->lane);
    bool waits = wm_timelines_wait(orders->timelines, order->timeline, stream);
    wm_timeline *t;

    wm_lock_acquire(&orders->lock);
    order->waits--;
    if (waits && !order->over) {
        wm_lane_yield(orders->arena, order->lane, lane, puts);
    }
    t = wm_order_free_locked(order);
    wm_lock_release(&orders->lock);
    if (t != NULL) {
        wm_timelines_let_go(orders->timelines, t);
    }
    return waits;
}

bool wm_orders_share(wm_orders *orders, wm_lane *lane, size_t bytes, bool any)
{
    bool waited = false, enough = false;
    const wm_order *mine;
    wm_order *order;

    wm_lock_acquire(&orders->lock);
    mine = lane->owner;
    orders->tries++;
    for (int i = 0; i < WAITS_MAX && !enough; i++) {
        if (mine == NULL || mine->stream == WARM_STREAM_PER_THREAD) {
            break;
        }
        order = pick_locked(orders, lane, bytes, any);
        if (order == NULL) {
            break;
        }
        order->tried = orders->tries;
        order->waits++;
        wm_lock_release(&orders->lock);
        waited |= wait_for(orders, order, lane, mine->stream);
        enough = wm_lane_has_room(orders->arena, lane, bytes, bytes);
        wm_lock_acquire(&orders->lock);
    }
    wm_lock_release(&orders->lock);
    return waited;
}
