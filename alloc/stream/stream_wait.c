/* stream_wait.c: makes a stream wait for other streams, so that idle memory of
 * one stream can be used on another; see stream_lane.h.
 *
 * If stream A waits for stream B, A may use B's memory at once, any other
 * stream only after A has completed that wait. No thread waits. The price:
 * streams that were independent wait for each other. Therefore a stream is made
 * to wait only before growth above the bound (economy.h), or if there is no
 * other memory. And if B queued a fence that
 * covers a run with room for the request, A waits for that, and not for the
 * work that B has queued since. */
#include "alloc/stream/stream_lane.h"

#include "alloc/stream/timeline_int.h"
#include "runtime/base/meta.h"

/* Ends a wait for the work that precedes the first puts frees to owner's lane.
 * done: the wait succeeded, and the idle runs of these frees move to the lane
 * of the stream that waited (to). If the stream that waited was retired
 * meanwhile, no run moves: its final fence may lie before the wait, and the
 * lane's idle memory is common after that fence. */
static void end_wait(wm_lane_owner *owner, const wm_lane_owner *to,
                     const wm_lane_point *puts, bool done)
{
    wm_lane_registry *registry = owner->all;

    wm_lock_acquire(&registry->lock);
    owner->waiters--;
    if (done && !owner->lane_ended && !to->retired) {
        wm_lanes_yield(registry->arena, owner->lane, to->lane, puts);
    }
    wm_lane_owner_unlock(owner);
}

/* Records event on t's stream; or, with waits, makes the stream wait for event.
 * False: the stream is retired or captures, or the driver failed. A thread that
 * retires the stream meanwhile waits until this call is over. */
static bool queue_event(wm_timelines *set, wm_timeline *t, warm_event event,
                        bool waits)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;
    warm_status status = WARM_NOT_READY;
    bool due;

    if (wm_timeline_is_lost(set, t) || !wm_timeline_begin_record(t, &due)) {
        return false;
    }
    if (!due) {
        status =
            waits
                ? wm_driver_stream_capture(set->driver, t->stream, &capture)
                : wm_driver_event_mark(set->driver, event, t->stream, &capture);
    }
    if (status == WARM_OK && capture == WM_CAPTURE_NONE && waits) {
        status = wm_driver_stream_wait_event(set->driver, t->stream, event);
    }
    wm_timeline_end_record(t, due);
    return status == WARM_OK && capture == WM_CAPTURE_NONE;
}

/* ---- streams wait -------------------------------------------------------- */

/* Most streams that a stream is made to wait for by one request. */
enum { WAITS_MAX = 16 };

/* The owner's oldest fence that covers an idle run of the request's size, or
 * null. */
static wm_fence *find_fence_locked(const wm_lane_owner *owner, size_t bytes)
{
    wm_fence *fence = owner->out;

    while (fence != NULL && !wm_lanes_have_room(owner->all->arena, owner->lane,
                                                bytes, bytes, &fence->point)) {
        fence = fence->next_out;
    }
    return fence;
}

/* A stream that this try has not looked at and whose lanes have an idle run of
 * `least` bytes for a request of `bytes`; or null. *fence: the oldest fence of
 * all of them that covers one for the whole request; null: none does, and all
 * work of the stream has to be waited for. */
static wm_lane_owner *pick_locked(wm_lane_registry *registry,
                                  const wm_lane *lane, size_t bytes,
                                  size_t least, uint64_t try, wm_fence **fence)
{
    wm_lane_owner *any = NULL;

    *fence = NULL;
    for (wm_lane_owner *o = wm_lane_owner_next_locked(registry, NULL);
         o != NULL; o = wm_lane_owner_next_locked(registry, o)) {
        wm_fence *oldest;

        if (o->lane == lane || o->lane_ended || o->last_try == try ||
            !wm_lane_owner_lives(o) ||
            !wm_lanes_have_room(registry->arena, o->lane, bytes, least, NULL)) {
            continue;
        }
        any = o;
        oldest = least == bytes ? find_fence_locked(o, bytes) : NULL;
        if (oldest != NULL &&
            (*fence == NULL || oldest->number < (*fence)->number)) {
            *fence = oldest;
        }
    }
    return *fence != NULL ? (*fence)->owner : any;
}

/* Makes the stream wait for all work that is on owner's stream now. The event
 * can be reused as soon as the wait is queued. */
static bool wait_for_all(const wm_lane_owner *owner, wm_timeline *mine)
{
    const wm_lane_registry *registry = owner->all;
    wm_timelines *set = registry->timelines;
    warm_event event = NULL;
    bool waits =
        wm_event_pool_take(set->events, registry->device, &event) == WARM_OK &&
        queue_event(set, owner->timeline, event, false) &&
        queue_event(set, mine, event, true);

    if (event != NULL) {
        wm_event_pool_put(set->events, registry->device, event);
    }
    return waits;
}

/* Makes the stream of mine wait for the work that precedes frees to owner's
 * lane: with a fence for that before the first *puts, behind which there may be
 * much more work; without one, or if it has no event, for that before all frees
 * so far. Another thread may reuse the fence meanwhile: for the same stream,
 * then its event is a later one, or for another, then it is not found. */
static bool wait_for_stream(wm_lane_owner *owner, const wm_fence *fence,
                            wm_lane_point *puts, const wm_lane_owner *mine)
{
    wm_timelines *set = owner->all->timelines;
    warm_event event = NULL;
    bool waits;

    if (fence != NULL) {
        event = wm_timeline_name_event(set, owner->timeline, &fence->block);
    }
    if (event != NULL) {
        waits = queue_event(set, mine->timeline, event, true);
        wm_event_pool_unname(set->events, owner->timeline->device);
    } else {
        wm_lanes_puts(owner->all->arena, owner->lane, puts);
        waits = wait_for_all(owner, mine->timeline);
    }
    end_wait(owner, mine, puts, waits);
    return waits;
}

bool wm_lanes_wait_for_streams(wm_lane_registry *registry, wm_lane *lane,
                               size_t bytes)
{
    bool waited = false, enough = false;
    wm_lane_owner *mine, *owner;
    wm_lane_point puts = {{0}};
    wm_fence *fence;
    uint64_t try;

    wm_lock_acquire(&registry->lock);
    mine = lane->owner;
    if (mine == NULL || mine->stream == WARM_STREAM_PER_THREAD) {
        wm_lock_release(&registry->lock);
        return false;
    }
    mine->waiters++; /* keeps mine from being freed if the stream is retired */
    try = ++registry->tries;
    for (int i = 0; i < WAITS_MAX && !enough && !mine->retired; i++) {
        owner = pick_locked(registry, lane, bytes, bytes, try, &fence);
        if (owner == NULL) {
            owner = pick_locked(registry, lane, bytes, WM_PAGE, try, &fence);
        }
        if (owner == NULL) {
            break;
        }
        owner->last_try = try;
        owner->waiters++;
        if (fence != NULL) {
            puts = fence->point;
        }
        wm_lock_release(&registry->lock);
        waited |= wait_for_stream(owner, fence, &puts, mine);
        enough = wm_lanes_have_room(registry->arena, lane, bytes, bytes, NULL);
        wm_lock_acquire(&registry->lock);
    }
    mine->waiters--;
    wm_lane_owner_unlock(mine);
    return waited;
}
