/* stream_lane.c: see stream_lane.h. */
#include "alloc/stream/stream_lane_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

static bool is_legacy(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY;
}

/* ---- streams ------------------------------------------------------------- */

static wm_lane_owner **bucket_of(wm_lane_registry *orders, uint64_t id)
{
    return &orders->bucket[id % WM_ORDER_BUCKETS];
}

static wm_lane_owner *find_locked(wm_lane_registry *orders, uint64_t id)
{
    wm_lane_owner *order = *bucket_of(orders, id);

    while (order != NULL && (order->id != id || order->retired)) {
        order = order->next;
    }
    return order;
}

/* t: its reference goes with the order. */
static wm_lane_owner *make_locked(wm_lane_registry *orders, uint64_t id,
                                  warm_stream stream, wm_timeline *t)
{
    wm_lane_owner *order = wm_meta_alloc(sizeof *order);

    if (order == NULL) {
        return NULL;
    }
    order->lane = wm_lane_make(orders->arena, id);
    if (order->lane == NULL) {
        wm_meta_free(order);
        return NULL;
    }
    order->lane->owner = t != NULL ? order : NULL;
    order->all = orders;
    order->id = id;
    order->stream = stream;
    order->timeline = t;
    order->mark.segment = order->last.segment = orders->stub;
    order->mark.size_class = WM_ORDER_MARK;
    order->last.size_class = WM_ORDER_LAST;
    return order;
}

wm_timeline *wm_lane_owner_free_locked(wm_lane_owner *order)
{
    wm_lane_owner **link = bucket_of(order->all, order->id);
    wm_timeline *t = order->timeline;

    if (!order->over || order->marking || order->waits > 0) {
        return NULL;
    }
    while (*link != order) {
        link = &(*link)->next;
    }
    *link = order->next;
    wm_meta_free(order);
    return t;
}

static warm_status no_memory(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a stream's lane");
}

static warm_status legacy_lane(wm_lane_registry *orders, wm_found_lane *found)
{
    wm_lane_owner *order;

    wm_lock_acquire(&orders->lock);
    if (orders->legacy == NULL) {
        orders->legacy = make_locked(orders, 0, NULL, NULL);
    }
    order = orders->legacy;
    if (order != NULL) {
        wm_lane_hold(order->lane);
    }
    wm_lock_release(&orders->lock);
    if (order == NULL) {
        return no_memory();
    }
    found->lane = order->lane;
    found->known = true;
    return WARM_OK;
}

/* t: taken. */
static warm_status lane_of(wm_lane_registry *orders, warm_stream stream,
                           wm_timeline *t, wm_found_lane *found)
{
    uint64_t id = wm_timeline_lane_id(wm_timeline_id(t));
    wm_lane_owner **bucket = bucket_of(orders, id);
    wm_lane_owner *order;
    bool kept = false;

    found->known = wm_timeline_is_known(orders->timelines, t);
    wm_lock_acquire(&orders->lock);
    order = find_locked(orders, id);
    if (order == NULL) {
        order = make_locked(orders, id, stream, t);
        kept = order != NULL;
    }
    if (kept) {
        order->next = *bucket;
        *bucket = order;
    }
    if (order != NULL) {
        wm_lane_hold(order->lane); /* which is not over: nor is it retired */
    }
    wm_lock_release(&orders->lock);
    if (!kept) {
        wm_timeline_put(orders->timelines, t);
    }
    if (order == NULL) {
        return no_memory();
    }
    found->lane = order->lane;
    return WARM_OK;
}

warm_status wm_lane_other_device(warm_stream stream, int its, int device)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "stream %p is of device %d, the memory of device %d", stream,
                   its, device);
}

warm_status wm_lanes_of_stream(wm_lane_registry *orders, warm_stream stream,
                               wm_found_lane *found)
{
    wm_timeline *t = NULL;
    warm_status status;
    int device;

    *found = (wm_found_lane){.lane = NULL};
    if (is_legacy(stream)) {
        return legacy_lane(orders, found);
    }
    status =
        wm_timeline_lookup(orders->timelines, stream, &t, &found->captured);
    if (status != WARM_OK) {
        return status;
    }
    if (t == NULL) {
        return WARM_OK; /* what a graph has been given comes back to nobody */
    }
    device = wm_timeline_device(t);
    if (device != orders->device && device != WM_DEVICE_UNKNOWN) {
        wm_timeline_put(orders->timelines, t);
        return wm_lane_other_device(stream, device, orders->device);
    }
    if (found->captured) {
        wm_timeline_put(orders->timelines, t);
        return WARM_OK; /* a graph may be launched on any stream */
    }
    return lane_of(orders, stream, t, found);
}

/* ---- the end ----------------------------------------------------------------
 */

warm_status wm_lane_registry_init(wm_lane_registry *orders,
                                  wm_timelines *timelines, wm_arena *arena,
                                  int device)
{
    *orders = (wm_lane_registry){
        .timelines = timelines, .arena = arena, .device = device};
    orders->stub = wm_meta_alloc(sizeof *orders->stub);
    if (orders->stub == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    orders->stub->arena = arena;
    wm_lock_init(&orders->lock, WM_RANK_ORDERS);
    return WARM_OK;
}

/* What is under way ends with the timelines. */
void wm_lane_registry_forget(wm_lane_registry *orders)
{
    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        for (wm_lane_owner *o = orders->bucket[i]; o != NULL; o = o->next) {
            wm_timeline_put(orders->timelines, o->timeline);
        }
    }
}

void wm_lane_registry_fini(wm_lane_registry *orders)
{
    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        while (orders->bucket[i] != NULL) {
            wm_lane_owner *order = orders->bucket[i];

            orders->bucket[i] = order->next;
            wm_meta_free(order);
        }
    }
    wm_meta_free(orders->legacy);
    wm_meta_free(orders->stub);
    wm_lock_fini(&orders->lock);
}
