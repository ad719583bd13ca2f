/* order.c: see order.h. */
#include "alloc/order_int.h"

#include "alloc/arena_int.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

/* What tells a mark from a block, and which it is. */
enum { MARK = WM_CLASSES_ALL, LAST };

static bool is_legacy(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY;
}

/* ---- streams ------------------------------------------------------------- */

static wm_order **bucket_of(wm_orders *orders, uint64_t id)
{
    return &orders->bucket[id % WM_ORDER_BUCKETS];
}

static wm_order *find_locked(wm_orders *orders, uint64_t id)
{
    wm_order *order = *bucket_of(orders, id);

    while (order != NULL && (order->id != id || order->retired)) {
        order = order->next;
    }
    return order;
}

/* t: its reference goes with the order. */
static wm_order *make_locked(wm_orders *orders, uint64_t id, warm_stream stream,
                             wm_timeline *t)
{
    wm_order *order = wm_meta_alloc(sizeof *order);

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
    order->mark.size_class = MARK;
    order->last.size_class = LAST;
    return order;
}

static warm_status no_memory(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a stream's lane");
}

static warm_status legacy_lane(wm_orders *orders, wm_order_lane *found)
{
    wm_order *order;

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
static warm_status lane_of(wm_orders *orders, warm_stream stream,
                           wm_timeline *t, wm_order_lane *found)
{
    uint64_t id = wm_timeline_lane_id(wm_timeline_id(t));
    wm_order **bucket = bucket_of(orders, id);
    wm_order *order;
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
        wm_timelines_let_go(orders->timelines, t);
    }
    if (order == NULL) {
        return no_memory();
    }
    found->lane = order->lane;
    return WARM_OK;
}

warm_status wm_order_other_device(warm_stream stream, int its, int device)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "stream %p is of device %d, the memory of device %d", stream,
                   its, device);
}

warm_status wm_orders_lane(wm_orders *orders, warm_stream stream,
                           wm_order_lane *found)
{
    wm_timeline *t = NULL;
    warm_status status;
    int device;

    *found = (wm_order_lane){.lane = NULL};
    if (is_legacy(stream)) {
        return legacy_lane(orders, found);
    }
    status = wm_timelines_meet(orders->timelines, stream, &t, &found->captured);
    if (status != WARM_OK) {
        return status;
    }
    if (t == NULL) {
        return WARM_OK; /* what a graph has been given comes back to nobody */
    }
    device = wm_timeline_device(t);
    if (device != orders->device && device != WM_DEVICE_UNKNOWN) {
        wm_timelines_let_go(orders->timelines, t);
        return wm_order_other_device(stream, device, orders->device);
    }
    if (found->captured) {
        wm_timelines_let_go(orders->timelines, t);
        return WARM_OK; /* a graph may be launched on any stream */
    }
    return lane_of(orders, stream, t, found);
}

/* ---- marks -----------------------------------------------------------------
 */

/* What becomes of a mark that the timelines need not see. */
static void end_mark(wm_order *order, bool passed);

/* Queues a mark behind what is on the stream. */
static bool queue(wm_order *order, wm_block *mark)
{
    wm_timelines *timelines = order->all->timelines;

    /* Relaxed: the mark is this thread's; what publishes it shows it. */
    atomic_store_explicit(&mark->state, WM_BLOCK_PENDING, memory_order_relaxed);
    atomic_store_explicit(&mark->first_use_taken, false, memory_order_relaxed);
    atomic_store_explicit(&mark->captured, false, memory_order_relaxed);
    atomic_store_explicit(&mark->stuck, false, memory_order_relaxed);
    wm_timelines_use_known(mark, order->timeline);
    switch (wm_timelines_prepare(timelines, mark)) {
    case WM_USES_PENDING:
        wm_timelines_publish(timelines, mark);
        return true;
    case WM_USES_NONE:
        (void)wm_order_take_mark(mark);
        return true;
    case WM_USES_LOST:
    case WM_USES_CAPTURED:
        break;
    }
    return false;
}

/* lane: of the stream, to which something came back. The end of a mark under
 * way looks whether there is more. */
static bool is_to_be_marked_locked(wm_order *order, wm_arena *arena,
                                   wm_lane *lane)
{
    return !order->marking && !order->retired &&
           wm_timeline_lives(order->timeline) && wm_lane_has_more(arena, lane);
}

/* Those to be marked, before a chain; their marks are the caller's. Looks at
 * streams only to which something came back since it was looked at them. */
static wm_order *choose(wm_orders *orders, wm_arena *arena, const wm_lane *but,
                        wm_order *chain)
{
    size_t most = wm_lane_fresh(arena);
    wm_lane *lane;

    if (most == 0) {
        return chain;
    }
    wm_lock_acquire(&orders->lock);
    while (most-- > 0 && (lane = wm_lane_take_fresh(arena)) != NULL) {
        wm_order *o = lane->owner;

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

void wm_orders_mark(wm_orders *orders, wm_arena *arena, const wm_lane *lane)
{
    wm_order *chain = NULL;

    for (wm_arena *a = orders->arena; a != NULL; a = a->next_sibling) {
        if (arena == NULL || arena == a) {
            chain = choose(orders, a, lane, chain);
        }
    }
    while (chain != NULL) {
        wm_order *next = chain->next_to_mark;

        if (!queue(chain, &chain->mark)) {
            end_mark(chain, false); /* it captures: another time */
        }
        chain = next;
    }
}

wm_timeline *wm_order_free_locked(wm_order *order)
{
    wm_order **link = bucket_of(order->all, order->id);
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

static void let_go(wm_orders *orders, wm_timeline *t)
{
    if (t != NULL) {
        wm_timelines_let_go(orders->timelines, t);
    }
}

/* The lane may have ended before its last ordinary mark came by: another thread
 * took that. */
static void end_mark(wm_order *order, bool passed)
{
    static const wm_lane_point nothing;
    wm_orders *orders = order->all;
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
    t = wm_order_free_locked(order);
    wm_lock_release(&orders->lock);
    let_go(orders, t);
}

static void end_lane(wm_order *order)
{
    wm_orders *orders = order->all;
    wm_timeline *t;

    wm_lock_acquire(&orders->lock);
    wm_lanes_end(orders->arena, order->lane);
    order->over = true;
    t = wm_order_free_locked(order);
    wm_lock_release(&orders->lock);
    let_go(orders, t);
}

bool wm_order_take_mark(wm_block *block)
{
    bool passed = wm_block_fate(block) == WM_BLOCK_IDLE;

    if (block->size_class == MARK) {
        wm_order *order =
            (wm_order *)(void *)((char *)block - offsetof(wm_order, mark));

        /* One that is lost, or that a capture nobody announced has, never
         * passed: there is none after it until the stream is retired. */
        if (passed) {
            end_mark(order, true);
        }
        return true;
    }
    if (block->size_class == LAST) {
        if (passed) {
            end_lane(
                (wm_order *)(void *)((char *)block - offsetof(wm_order, last)));
        }
        return true;
    }
    return false;
}

/* ---- the end ----------------------------------------------------------------
 */

/* While a stream captures its id is not known; an adopted one has its address
 * to itself. */
static bool is_it(const wm_order *order, warm_stream stream,
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

static wm_order *take_out(wm_orders *orders, warm_stream stream,
                          const wm_stream_info *info)
{
    wm_order *found = NULL;

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

void wm_orders_retire(wm_orders *orders, warm_stream stream,
                      const wm_stream_info *info)
{
    wm_order *order = take_out(orders, stream, info);

    if (order != NULL) {
        /* One that cannot be queued leaves the lane as it is: nobody can say
         * when its memory is safe. */
        (void)queue(order, &order->last);
    }
}

warm_status wm_orders_init(wm_orders *orders, wm_timelines *timelines,
                           wm_arena *arena, int device)
{
    *orders =
        (wm_orders){.timelines = timelines, .arena = arena, .device = device};
    orders->stub = wm_meta_alloc(sizeof *orders->stub);
    if (orders->stub == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    orders->stub->arena = arena;
    wm_lock_init(&orders->lock, WM_RANK_ORDERS);
    return WARM_OK;
}

/* What is under way ends with the timelines. */
void wm_orders_forget(wm_orders *orders)
{
    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        for (wm_order *o = orders->bucket[i]; o != NULL; o = o->next) {
            wm_timelines_let_go(orders->timelines, o->timeline);
        }
    }
}

void wm_orders_fini(wm_orders *orders)
{
    for (int i = 0; i < WM_ORDER_BUCKETS; i++) {
        while (orders->bucket[i] != NULL) {
            wm_order *order = orders->bucket[i];

            orders->bucket[i] = order->next;
            wm_meta_free(order);
        }
    }
    wm_meta_free(orders->legacy);
    wm_meta_free(orders->stub);
    wm_lock_fini(&orders->lock);
}
