/* private_pool.c: pools by number, their references, and the requests that are
 * routed to them while they record (private_pool.h). */
#include "alloc/private_pool/private_int.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/thread/tracing.h"

#include <inttypes.h>

/* ---- pools by number ----------------------------------------------------- */

wm_private_pool *wm_private_find_locked(wm_private_pools *pools,
                                        uint64_t number)
{
    wm_private_pool *pool = pools->list;

    while (pool != NULL && pool->number != number) {
        pool = pool->next;
    }
    return pool;
}

warm_status wm_private_unknown(uint64_t number)
{
    return wm_fail(WARM_NOT_FOUND, "there is no private pool %" PRIu64, number);
}

static wm_private_pool *make_locked(wm_private_pools *pools, unsigned flags)
{
    wm_private_pool *pool = wm_meta_alloc(sizeof *pool);

    if (pool != NULL) {
        pool->number = ++pools->last;
        pool->user = (flags & WARM_POOL_USER) != 0;
        pool->pausable = (flags & WARM_POOL_PAUSABLE) != 0;
        pool->next = pools->list;
        pools->list = pool;
    }
    return pool;
}

/* ---- recording ----------------------------------------------------------- */

static warm_status begin_locked(warm_runtime *runtime, uint64_t *number,
                                unsigned flags, warm_pool_filter_fn filter,
                                void *context)
{
    wm_private_pools *pools = runtime->private_pools;
    wm_private_pool *pool = *number != 0
                                ? wm_private_find_locked(pools, *number)
                                : make_locked(pools, flags);

    if (pool == NULL && *number != 0) {
        return wm_private_unknown(*number);
    }
    if (pool == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a private pool");
    }
    if (pool->recording) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "private pool %" PRIu64
                       " is recording already: end that with "
                       "warm_private_pool_end() first",
                       pool->number);
    }
    if (pool->user != ((flags & WARM_POOL_USER) != 0)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "private pool %" PRIu64
                       " was begun %s WARM_POOL_USER, which cannot change",
                       pool->number, pool->user ? "with" : "without");
    }
    if (pool->pausable != ((flags & WARM_POOL_PAUSABLE) != 0)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "private pool %" PRIu64
                       " was begun %s WARM_POOL_PAUSABLE, which cannot change",
                       pool->number, pool->pausable ? "with" : "without");
    }
    pool->references++;
    pool->recording = true;
    pool->filter = filter;
    pool->context = context;
    pool->thread = wm_window_thread();
    atomic_store_explicit(
        &pool->next_recording,
        atomic_load_explicit(&pools->recording, memory_order_relaxed),
        memory_order_relaxed);
    /* Release: a reader that finds the pool sees its fields. No thread waits
     * for readers that do not find it. */
    atomic_store_explicit(&pools->recording, pool, memory_order_release);
    atomic_fetch_add_explicit(&runtime->routes, 1, memory_order_relaxed);
    *number = pool->number;
    return WARM_OK;
}

warm_status warm_private_pool_begin(warm_runtime *runtime,
                                    warm_private_pool *pool, unsigned flags,
                                    warm_pool_filter_fn filter, void *context)
{
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), pool, "pool");

    if (status != WARM_OK) {
        return status;
    }
    if ((flags & ~(WARM_POOL_USER | WARM_POOL_PAUSABLE)) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT, "flags %#x are not known", flags);
    }
    if (flags == WARM_POOL_PAUSABLE) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "WARM_POOL_PAUSABLE needs WARM_POOL_USER as well: the "
                       "memory of a pool for graphs cannot be paused");
    }
    if ((flags & WARM_POOL_PAUSABLE) != 0) {
        status = wm_device_find_unit(runtime);
        if (status != WARM_OK) {
            return status;
        }
    }
    wm_lock_acquire(&runtime->private_pools->lock);
    status = begin_locked(runtime, &pool->number, flags, filter, context);
    wm_lock_release(&runtime->private_pools->lock);
    if (status != WARM_OK || (flags & WARM_POOL_USER) != 0) {
        return status;
    }
    /* A capture while a pool for graphs records need not be announced: from now
     * on each use and free queries the driver whether its stream captures. */
    wm_timelines_begin_recording(&runtime->pinned->timelines);
    /* Release pairs with the acquire in alloc() of device_memory.c: a thread
     * that reads this epoch sees that a pool records, and caches no block. */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_release);
    return WARM_OK;
}

/* Removes the pool, *out, from the list of recording ones. */
static warm_status unlink_locked(warm_runtime *runtime, uint64_t number,
                                 wm_private_pool **out)
{
    wm_private_pools *pools = runtime->private_pools;
    wm_private_pool *pool = wm_private_find_locked(pools, number);
    _Atomic(wm_private_pool *) *link = &pools->recording;
    wm_private_pool *at;

    if (pool == NULL) {
        return wm_private_unknown(number);
    }
    if (!pool->recording || pool->ending) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "private pool %" PRIu64 " is not recording", number);
    }
    /* Relaxed: the list changes under the lock. */
    while ((at = atomic_load_explicit(link, memory_order_relaxed)) != pool) {
        link = &at->next_recording;
    }
    atomic_store_explicit(
        link, atomic_load_explicit(&pool->next_recording, memory_order_relaxed),
        memory_order_seq_cst);
    pool->ending = true;
    *out = pool;
    return WARM_OK;
}

warm_status warm_private_pool_end(warm_runtime *runtime, warm_private_pool pool)
{
    warm_status status = wm_runtime_check(runtime);
    wm_private_pools *pools;
    wm_private_pool *ended = NULL;
    bool user;

    if (status != WARM_OK) {
        return status;
    }
    pools = runtime->private_pools;
    wm_lock_acquire(&pools->lock);
    status = unlink_locked(runtime, pool.number, &ended);
    wm_lock_release(&pools->lock);
    if (status != WARM_OK) {
        return status;
    }
    wm_private_await_readers(pools);
    wm_lock_acquire(&pools->lock);
    ended->recording = ended->ending = false;
    user = ended->user;
    wm_lock_release(&pools->lock);
    atomic_fetch_sub_explicit(&runtime->routes, 1, memory_order_relaxed);
    if (!user) {
        wm_timelines_end_recording(&runtime->pinned->timelines);
    }
    wm_private_tend(runtime, NULL);
    return WARM_OK;
}

/* ---- requests ------------------------------------------------------------ */

/* The innermost recording pool whose filter accepts an allocation; or null. By
 * a reader. */
static wm_private_pool *match(wm_private_pools *pools, warm_stream stream)
{
    wm_private_pool *p =
        atomic_load_explicit(&pools->recording, memory_order_seq_cst);

    while (p != NULL && (p->filter != NULL ? p->filter(p->context, stream) == 0
                                           : p->thread != wm_window_thread())) {
        p = atomic_load_explicit(&p->next_recording, memory_order_seq_cst);
    }
    return p;
}

uint64_t wm_private_pool_of(warm_runtime *runtime, warm_stream stream)
{
    wm_private_pools *pools = runtime->private_pools;
    _Atomic unsigned *reading;
    const wm_private_pool *pool;
    uint64_t number;

    if (!wm_private_routes(runtime)) {
        return 0;
    }
    /* A thread that is cancelled in a filter would read for ever. */
    WM_CANCEL_OFF();
    reading = wm_private_read_begin(pools);
    pool = match(pools, stream);
    number = pool != NULL && !pool->user ? pool->number : 0;
    wm_private_read_end(reading);
    return number;
}

/* Warns, once for each pool, if memory of a pool for graphs is allocated on a
 * stream that does not capture (row E5). */
static void warn_unless_capturing(warm_runtime *runtime, uint64_t number,
                                  warm_stream stream)
{
    wm_private_pools *pools = runtime->private_pools;
    wm_capture capture = WM_CAPTURE_ACTIVE;
    wm_private_pool *pool;
    bool first;

    WM_KEEP_ERROR();
    (void)wm_driver_stream_capture(runtime->driver, stream, &capture);
    if (capture == WM_CAPTURE_ACTIVE) {
        return;
    }
    wm_lock_acquire(&pools->lock);
    pool = wm_private_find_locked(pools, number);
    first = pool != NULL && !atomic_exchange_explicit(&pool->warned, true,
                                                      memory_order_relaxed);
    wm_lock_release(&pools->lock);
    if (first) {
        wm_log(WARM_LOG_WARNING,
               "memory is allocated to private pool %" PRIu64
               ", which is for graphs, and stream %p does not capture; for "
               "other uses begin it with WARM_POOL_USER",
               number, stream);
    }
}

/* While the stream captures, info.id is that of captures at its address. */
static warm_status lane_for(wm_private_arena *own, int device,
                            warm_stream stream, wm_lane **lane)
{
    wm_stream_info info;
    warm_status status =
        wm_timelines_info(own->space->group.timelines, stream, &info);

    if (status != WARM_OK) {
        return status;
    }
    if (info.device != device && info.device != WM_DEVICE_UNKNOWN) {
        return wm_lane_other_device(stream, info.device, device);
    }
    *lane = wm_lane_get(&own->arena, wm_timeline_lane_id(info.id));
    return *lane != NULL
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY, "no memory for a stream's lane");
}

static warm_status refuse_paused(uint64_t number)
{
    return wm_fail(WARM_UNAVAILABLE,
                   "the memory of private pool %" PRIu64
                   " is paused: call warm_memory_resume() before allocations "
                   "that belong to it",
                   number);
}

/* What a reader finds out for a request. */
struct route {
    uint64_t number;       /* of the pool; 0: of none */
    wm_private_arena *own; /* null: no memory for it */
    bool paused, warned;
};

static struct route look(wm_private_pools *pools, wm_space *space, int device,
                         warm_stream stream, wm_arena *beside)
{
    WM_CANCEL_OFF(); /* as in wm_private_pool_of() */
    _Atomic unsigned *reading = wm_private_read_begin(pools);
    const wm_private_pool *pool = match(pools, stream);
    struct route route = {0};

    if (pool != NULL) {
        route.number = pool->number;
        route.warned = pool->user || atomic_load_explicit(&pool->warned,
                                                          memory_order_relaxed);
        route.paused = device >= 0 &&
                       atomic_load_explicit(&pool->pause,
                                            memory_order_seq_cst) != WM_RUNNING;
        route.own = wm_private_arena_find(pools, pool, space, device, beside);
        if (route.own == NULL && !route.paused) {
            wm_lock_acquire(&pools->lock);
            route.own =
                wm_private_arena_locked(pools, pool, space, device, beside);
            wm_lock_release(&pools->lock);
        }
    }
    if (route.own != NULL && !route.paused) {
        atomic_fetch_add_explicit(&route.own->routed, 1, memory_order_relaxed);
    }
    wm_private_read_end(reading);
    return route;
}

warm_status wm_private_route(wm_space *space, int device, warm_stream stream,
                             wm_request *request)
{
    warm_runtime *runtime = space->group.runtime;
    const struct route route = look(runtime->private_pools, space, device,
                                    stream, request->arena->siblings);

    if (route.number == 0) {
        return WARM_OK;
    }
    if (route.paused) {
        return refuse_paused(route.number);
    }
    if (route.own == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the records of private pool %" PRIu64,
                       route.number);
    }
    if (!route.warned) {
        warn_unless_capturing(runtime, route.number, stream);
    }
    request->arena = &route.own->arena;
    return route.own->arena.user_pool || device < 0
               ? WARM_OK
               : lane_for(route.own, device, stream, &request->lane);
}

warm_status wm_private_route_pinned(wm_space *space, wm_request *request)
{
    const wm_window *window = wm_window_find(space->group.runtime);
    warm_stream stream = window != NULL ? window->stream : NULL;
    warm_status status =
        wm_private_route(space, WM_DEVICE_UNKNOWN, stream, request);

    /* No pageable memory: the pool would not retain it, and a graph would use
     * it after it was freed. */
    if (request->arena->pool != NULL && !request->arena->user_pool) {
        request->cause = NULL;
    }
    return status;
}

warm_status warm_thread_set_stream(warm_runtime *runtime, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);
    wm_window *window;

    if (status == WARM_OK) {
        status = wm_window_get(runtime, &window);
    }
    if (status == WARM_OK) {
        window->stream = stream;
    }
    return status;
}

/* ---- references ---------------------------------------------------------- */

warm_status warm_private_pool_retain(warm_runtime *runtime,
                                     warm_private_pool pool)
{
    warm_status status = wm_runtime_check(runtime);
    wm_private_pool *found;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&runtime->private_pools->lock);
    found = wm_private_find_locked(runtime->private_pools, pool.number);
    if (found != NULL) {
        found->references++;
    }
    wm_lock_release(&runtime->private_pools->lock);
    return found != NULL ? WARM_OK : wm_private_unknown(pool.number);
}

/* *last: the pool, if this was its last reference: it is removed from the list,
 * and the caller ends it. */
static warm_status drop_locked(wm_private_pools *pools, uint64_t number,
                               wm_private_pool **last)
{
    wm_private_pool *pool = wm_private_find_locked(pools, number);
    wm_private_pool **link = &pools->list;

    if (pool == NULL) {
        return wm_private_unknown(number);
    }
    if (pool->references == 1 && pool->recording) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "private pool %" PRIu64
                       " is recording, and this is its last reference: call "
                       "warm_private_pool_end() first",
                       number);
    }
    if (pool->references == 1 &&
        atomic_load_explicit(&pool->pause, memory_order_relaxed) !=
            WM_RUNNING) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "the memory of private pool %" PRIu64
                       " is paused, and this is its last reference: call "
                       "warm_memory_resume() first",
                       number);
    }
    if (--pool->references == 0) {
        while (*link != pool) {
            link = &(*link)->next;
        }
        *link = pool->next;
        *last = pool;
    }
    return WARM_OK;
}

static void end_pool(warm_runtime *runtime, wm_private_pool *pool)
{
    bool later;

    WM_KEEP_ERROR();
    if (runtime->trace != NULL) {
        wm_tracing_pool(runtime, pool->number, pool->user);
    }
    wm_private_end_arenas(runtime->private_pools, pool->number);
    later = wm_timelines_holds_back(&runtime->pinned->timelines);
    runtime->pool_over(runtime, pool->number, later);
    if (later) {
        /* After pool_over(): a thread that resets the hint must find the work
         * that pool_over() has put off. */
        atomic_store_explicit(&runtime->put_off, true, memory_order_relaxed);
    }
    wm_meta_free(pool);
    wm_private_tend(runtime, NULL);
}

warm_status warm_private_pool_release(warm_runtime *runtime,
                                      warm_private_pool pool)
{
    warm_status status = wm_runtime_check(runtime);
    wm_private_pool *last = NULL;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&runtime->private_pools->lock);
    status = drop_locked(runtime->private_pools, pool.number, &last);
    wm_lock_release(&runtime->private_pools->lock);
    if (last != NULL) {
        end_pool(runtime, last);
    }
    return status;
}

/* ---- figures ------------------------------------------------------------- */

static bool read_locked(wm_private_pools *pools, uint64_t number,
                        warm_private_pool_info *info)
{
    const wm_private_pool *pool = wm_private_find_locked(pools, number);

    if (pool == NULL) {
        return false;
    }
    info->references = pool->references;
    info->recording = pool->recording;
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;
         a = a->next) {
        warm_space_stats stats = {.size = sizeof stats};

        if (wm_arena_pool_number(&a->arena) == number) {
            wm_arena_stats(&a->arena, &stats);
            info->segments += stats.segments.current;
            info->paused_bytes += wm_arena_paused(&a->arena);
            info->held_bytes += stats.held_bytes.current;
            info->live += stats.live.current;
            info->live_bytes += stats.live_bytes.current;
            info->captured += stats.captured;
            info->captured_bytes += stats.captured_bytes;
        }
    }
    /* Read at two moments. */
    info->held_bytes -= info->paused_bytes < info->held_bytes
                            ? info->paused_bytes
                            : info->held_bytes;
    return true;
}

warm_status warm_private_pool_get_info(warm_runtime *runtime,
                                       warm_private_pool pool,
                                       warm_private_pool_info *info)
{
    warm_private_pool_info all = {.size = sizeof all};
    warm_status status = wm_check_out(wm_runtime_check(runtime), info,
                                      sizeof all, "warm_private_pool_info");
    bool found;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&runtime->private_pools->lock);
    found = read_locked(runtime->private_pools, pool.number, &all);
    wm_lock_release(&runtime->private_pools->lock);
    if (!found) {
        return wm_private_unknown(pool.number);
    }
    wm_sized_out(info, &all, sizeof all);
    return WARM_OK;
}

/* ---- begin and end ------------------------------------------------------- */

warm_status wm_private_open(warm_runtime *runtime)
{
    wm_private_pools *pools = wm_meta_alloc(sizeof *pools);

    if (pools == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    wm_lock_init(&pools->lock, WM_RANK_PRIVATE);
    wm_lock_init(&pools->writer, WM_RANK_ROUTES);
    runtime->private_pools = pools;
    return WARM_OK;
}

uint64_t wm_private_close(warm_runtime *runtime)
{
    wm_private_pools *pools = runtime->private_pools;
    uint64_t retained = 0;

    wm_timelines_set_ending(&runtime->pinned->timelines);
    while (pools->list != NULL) {
        wm_private_pool *pool = pools->list;

        pools->list = pool->next;
        if (pool->user) {
            wm_private_end_arenas(pools, pool->number);
        } else {
            retained++;
        }
        wm_meta_free(pool);
    }
    return retained;
}

void wm_private_fini(warm_runtime *runtime)
{
    wm_private_fini_arenas(runtime->private_pools);
    wm_meta_free(runtime->private_pools);
    runtime->private_pools = NULL;
}
