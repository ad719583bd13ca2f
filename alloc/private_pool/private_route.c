/* private_route.c: which requests a private pool gets. See private_pool.h. */
#include "alloc/private_pool/private_int.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/thread/window.h"

#include <inttypes.h>

/* The innermost one that wants an allocation; or null. */
static wm_private_pool *match_locked(wm_private_pools *pools,
                                     warm_stream stream)
{
    for (wm_private_pool *p = pools->recording; p != NULL;
         p = p->next_recording) {
        if (p->filter != NULL ? p->filter(p->context, stream) != 0
                              : p->thread == wm_window_thread()) {
            return p;
        }
    }
    return NULL;
}

uint64_t wm_private_pool_of(warm_runtime *runtime, warm_stream stream)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);
    const wm_private_pool *pool;
    uint64_t number;

    if (!wm_private_routes(runtime)) {
        return 0;
    }
    wm_lock_acquire(&pools->lock);
    pool = match_locked(pools, stream);
    number = pool != NULL && !pool->user ? pool->number : 0;
    wm_lock_release(&pools->lock);
    return number;
}

/* Row E5: a pool for graphs whose stream does not capture. */
static void say_no_capture(warm_runtime *runtime, uint64_t number,
                           warm_stream stream)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);
    warm_error before = {.size = sizeof before};
    wm_capture capture = WM_CAPTURE_ACTIVE;
    wm_private_pool *pool;
    bool first;

    warm_last_error(&before);
    (void)wm_driver_stream_capture(runtime->driver, stream, &capture);
    wm_error_restore(&before);
    if (capture == WM_CAPTURE_ACTIVE) {
        return;
    }
    wm_lock_acquire(&pools->lock);
    pool = wm_private_find_locked(pools, number);
    first = pool != NULL && !pool->warned;
    if (first) {
        pool->warned = true;
    }
    wm_lock_release(&pools->lock);
    if (first) {
        wm_log(WARM_LOG_WARNING,
               "memory is allocated to private pool %" PRIu64
               ", which is for graphs, and stream %p does not capture; for "
               "other ends begin it with WARM_POOL_USER",
               number, stream);
    }
}

/* In a graph the stream has the id of captures at its address. */
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

warm_status wm_private_route(wm_space *space, int device, warm_stream stream,
                             wm_request *request)
{
    wm_private_pools *pools = wm_private_pools_of(space->group.runtime);
    wm_private_arena *own = NULL;
    wm_private_pool *pool;
    bool warned = true;
    uint64_t number = 0;

    wm_lock_acquire(&pools->lock);
    pool = match_locked(pools, stream);
    if (pool != NULL) {
        own = wm_private_arena_locked(pools, pool, space, device,
                                      request->arena->siblings);
        warned = pool->warned || pool->user;
        number = pool->number;
    }
    if (own != NULL) {
        atomic_fetch_add_explicit(&own->routed, 1, memory_order_relaxed);
    }
    wm_lock_release(&pools->lock);
    if (number == 0) {
        return WARM_OK;
    }
    if (own == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the records of private pool %" PRIu64,
                       number);
    }
    if (!warned) {
        say_no_capture(space->group.runtime, number, stream);
    }
    request->arena = &own->arena;
    return own->user || device < 0
               ? WARM_OK
               : lane_for(own, device, stream, &request->lane);
}

warm_status wm_private_route_pinned(wm_space *space, wm_request *request)
{
    int cancel = wm_cancel_off();
    const wm_window *window = wm_window_find(space->group.runtime);
    warm_stream stream = window != NULL ? window->stream : NULL;
    warm_status status =
        wm_private_route(space, WM_DEVICE_UNKNOWN, stream, request);

    /* What is not page-locked is not the pool's, and a graph would use it after
     * it was freed. */
    if (request->arena->pool != NULL && !request->arena->pool->user) {
        request->cause = NULL;
    }
    wm_cancel_restore(cancel);
    return status;
}

warm_status warm_thread_set_stream(warm_runtime *runtime, warm_stream stream)
{
    int cancel = wm_cancel_off();
    warm_status status = wm_runtime_check(runtime);
    wm_window *window;

    if (status == WARM_OK) {
        status = wm_window_get(runtime, &window);
    }
    if (status == WARM_OK) {
        window->stream = stream;
    }
    wm_cancel_restore(cancel);
    return status;
}
