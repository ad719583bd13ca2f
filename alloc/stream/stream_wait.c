/* stream_wait.c: who waits for streams, so that what is idle for one of them is
 * for others; see stream_lane.h.
 *
 * A stream that waits for another one may have its memory at once, but nobody
 * else before it has passed that point itself. No thread waits for that. But it
 * ties streams to each other that had nothing to do with each other: unless
 * option stream_wait says so it is done only where there is no memory else. The
 * bench's traces, 8 streams, held / live at lag 4 and 32: mixed 2.31, 2.38,
 * with the option 1.59, 1.50 and 0.03, 0.44 waits a free; server 2.07, 2.17,
 * and 1.27, 1.28. */
#include "alloc/stream/stream_lane_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

/* The wait for what had come back to an order's lane by then is over: that is
 * the lane's whose stream waited, or where there is none common. A stream that
 * was retired meanwhile gets nothing: its last mark may be the earlier one, and
 * what is idle for it is common from that on. */
static void end_wait(wm_lane_registry *orders, wm_lane_owner *order,
                     const wm_lane_owner *to, const wm_lane_point *puts,
                     bool done)
{
    wm_timeline *t;

    wm_lock_acquire(&orders->lock);
    order->waits--;
    if (done && !order->over && to != NULL) {
        if (!to->retired) {
            wm_lanes_yield(orders->arena, order->lane, to->lane, puts);
        }
    } else if (done && !order->over) {
        wm_lanes_passed(orders->arena, order->lane, puts);
    }
    t = wm_lane_owner_free_locked(order);
    wm_lock_release(&orders->lock);
    if (t != NULL) {
        wm_timeline_put(orders->timelines, t);
    }
}

/* ---- streams wait ---------------------------------------------------------
 */

/* Streams at most that one request waits for. */
enum { WAITS_MAX = 16 };

/* One that was not tried, with a run for the request; else one with any, or
 * null. */
static wm_lane_owner *pick_locked(wm_lane_registry *orders, const wm_lane *lane,
                                  size_t bytes, bool any, uint64_t try)
{
    wm_lane_owner *other = NULL;

    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        for (wm_lane_owner *o = orders->bucket[i]; o != NULL; o = o->next) {
            if (o->lane == lane || o->over || o->tried == try ||
                !wm_timeline_lives(o->timeline)) {
                continue;
            }
            if (wm_lanes_have_room(orders->arena, o->lane, bytes, bytes)) {
                return o;
            }
            if (any &&
                wm_lanes_have_room(orders->arena, o->lane, bytes, WM_PAGE)) {
                other = o;
            }
        }
    }
    return other;
}

/* Lets the stream wait for what came back to the lane of one until now. The
 * event may serve others as soon as it is waited for. */
static bool let_wait(wm_lane_registry *orders, wm_lane_owner *order,
                     const wm_lane_owner *mine)
{
    wm_timelines *set = orders->timelines;
    wm_lane_point puts;
    warm_event event = NULL;
    bool waits;

    wm_lanes_puts(orders->arena, order->lane, &puts);
    waits =
        wm_event_pool_take(set->events, orders->device, &event) == WARM_OK &&
        wm_timelines_mark_point(set, order->timeline, event) &&
        wm_timelines_wait_point(set, mine->timeline, event);
    if (event != NULL) {
        wm_event_pool_put(set->events, orders->device, event);
    }
    end_wait(orders, order, mine, &puts, waits);
    return waits;
}

bool wm_lanes_wait_for_streams(wm_lane_registry *orders, wm_lane *lane,
                               size_t bytes, bool any)
{
    bool waited = false, enough = false;
    wm_lane_owner *mine, *order;
    uint64_t try;

    wm_lock_acquire(&orders->lock);
    mine = lane->owner;
    if (mine == NULL || mine->stream == WARM_STREAM_PER_THREAD) {
        wm_lock_release(&orders->lock);
        return false;
    }
    mine->waits++; /* it is not freed, whoever retires the stream */
    try = ++orders->tries;
    for (int i = 0; i < WAITS_MAX && !enough && !mine->retired; i++) {
        order = pick_locked(orders, lane, bytes, any, try);
        if (order == NULL) {
            break;
        }
        order->tried = try;
        order->waits++;
        wm_lock_release(&orders->lock);
        waited |= let_wait(orders, order, mine);
        enough = wm_lanes_have_room(orders->arena, lane, bytes, bytes);
        wm_lock_acquire(&orders->lock);
    }
    wm_lock_release(&orders->lock);
    end_wait(orders, mine, NULL, NULL, false);
    return waited;
}

/* ---- threads wait ---------------------------------------------------------
 */

/* A stream with something idle for itself, as of so many puts. */
struct waited {
    wm_lane_owner *order;
    wm_lane_point puts;
};

/* Of those that live, or of the others. */
static bool is_listed(wm_lane_registry *orders, wm_lane_owner *o, bool live)
{
    return !o->over && live == wm_timeline_lives(o->timeline) &&
           wm_lanes_have_more(orders->arena, o->lane);
}

/* At most room of them, and how many there are. */
static size_t list_locked(wm_lane_registry *orders, bool live,
                          struct waited *list, size_t room)
{
    size_t count = 0;

    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        for (wm_lane_owner *o = orders->bucket[i]; o != NULL; o = o->next) {
            if (!is_listed(orders, o, live)) {
                continue;
            }
            if (count < room) {
                o->waits++;
                list[count].order = o;
                wm_lanes_puts(orders->arena, o->lane, &list[count].puts);
            }
            count++;
        }
    }
    return count;
}

/* Null: there are none, or no memory for it. One that gets something idle in
 * between is left out: it has come back too late. */
static struct waited *list_streams(wm_lane_registry *orders, bool live,
                                   size_t *count)
{
    struct waited *list = NULL;
    size_t room = 0;

    for (;;) {
        wm_lock_acquire(&orders->lock);
        *count = list_locked(orders, live, list, 0);
        if (*count > 0 && *count <= room) {
            *count = list_locked(orders, live, list, room);
            *count = *count < room ? *count : room;
        }
        wm_lock_release(&orders->lock);
        if (*count <= room) {
            return list;
        }
        wm_meta_free(list);
        room = *count;
        list = wm_meta_alloc(room * sizeof *list);
        if (list == NULL) {
            *count = 0;
            return NULL;
        }
    }
}

/* Whether the work that is queued on the stream now is done. t: null: the
 * legacy stream. */
static bool wait_for(wm_lane_registry *orders, wm_timeline *t)
{
    wm_timelines *set = orders->timelines;
    wm_capture capture = WM_CAPTURE_BLOCKED;
    warm_event event;
    bool done;

    if (wm_event_pool_take(set->events, orders->device, &event) != WARM_OK) {
        return false;
    }
    done = t != NULL
               ? wm_timelines_mark_point(set, t, event)
               : wm_driver_event_mark(set->driver, event, WARM_STREAM_LEGACY,
                                      &capture) == WARM_OK &&
                     capture == WM_CAPTURE_NONE;
    done = done && wm_driver_event_synchronize(set->driver, event) == WARM_OK;
    wm_event_pool_put(set->events, orders->device, event);
    return done;
}

/* Of the legacy stream: what is idle in its lane, as of so many puts; null:
 * nothing is. */
static wm_lane *legacy_of(wm_lane_registry *orders, wm_lane_point *puts)
{
    wm_lane *lane;

    wm_lock_acquire(&orders->lock);
    lane = orders->legacy != NULL ? orders->legacy->lane : NULL;
    wm_lock_release(&orders->lock);
    if (lane == NULL || !wm_lanes_have_more(orders->arena, lane)) {
        return NULL;
    }
    wm_lanes_puts(orders->arena, lane, puts);
    return lane;
}

/* The default stream of a device is that of the thread's own one. */
static bool wait_for_legacy(wm_lane_registry *orders)
{
    wm_lane_point puts;
    wm_lane *lane = legacy_of(orders, &puts);
    int device = WM_DEVICE_UNKNOWN;
    bool done = lane != NULL &&
                wm_driver_current_device(orders->timelines->driver, &device) ==
                    WARM_OK &&
                device == orders->device && wait_for(orders, NULL);

    if (done) {
        wm_lanes_passed(orders->arena, lane, &puts);
    }
    return done;
}

/* And then what freed blocks wait for on other adopted streams is done as well,
 * and on those that were retired: their last event is nobody else's. Any other
 * stream may have been destroyed since, and the events of its blocks belong to
 * who polls, and mark something else as soon as they have passed. */
static void wait_for_pending(wm_lane_registry *orders)
{
    wm_timelines *set = orders->timelines;
    size_t count;

    wm_timelines_poll(set); /* closes batches */
    count = wm_timelines_busy(set);
    while (count-- > 0) {
        wm_timeline *t = wm_timeline_rotate(set);

        if (t == NULL) {
            break;
        }
        if (wm_timeline_device(t) == orders->device) {
            (void)(wm_timeline_lives(t) ? wait_for(orders, t)
                                        : wm_timelines_await_end(set, t));
        }
        wm_timeline_put(set, t);
    }
    wm_timelines_poll(set);
}

bool wm_lanes_sync_streams(wm_lane_registry *orders, bool pending)
{
    bool more = pending && wm_timelines_any(orders->timelines);
    size_t count = 0;
    struct waited *list;

    if (pending) {
        wait_for_pending(orders);
    }
    list = list_streams(orders, true, &count);
    for (size_t i = 0; i < count; i++) {
        wm_lane_owner *order = list[i].order;

        end_wait(orders, order, NULL, &list[i].puts,
                 wait_for(orders, order->timeline));
    }
    wm_meta_free(list);
    more |= wait_for_legacy(orders);
    wm_timelines_poll(orders->timelines);
    return more;
}

bool wm_lanes_sync_device(wm_lane_registry *orders)
{
    wm_lane_point puts;
    wm_lane *legacy = legacy_of(orders, &puts);
    size_t count = 0;
    struct waited *list = list_streams(orders, false, &count);
    bool done = (count > 0 || legacy != NULL) &&
                wm_driver_device_synchronize(orders->timelines->driver,
                                             orders->device) == WARM_OK;

    for (size_t i = 0; i < count; i++) {
        end_wait(orders, list[i].order, NULL, &list[i].puts, done);
    }
    wm_meta_free(list);
    if (done && legacy != NULL) {
        wm_lanes_passed(orders->arena, legacy, &puts);
    }
    return done;
}
