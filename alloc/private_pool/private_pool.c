/* private_pool.c: pools by number, their references and where they record. See
 * private_pool.h. */
#include "alloc/private_pool/private_int.h"

#include "alloc/kinds/pinned.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/thread/tracing.h"
#include "runtime/thread/window.h"

#include <inttypes.h>

/* ---- pools by number ------------------------------------------------ */

wm_private_pool *wm_private_find_locked(wm_private_pools *pools,
                                        uint64_t number)
{
    wm_private_pool *pool = pools->list;

    while (pool != NULL && pool->number != number) {
        pool = pool->next;
    }
    return pool;
}

static warm_status unknown(uint64_t number)
{
    return wm_fail(WARM_NOT_FOUND, "there is no private pool %" PRIu64, number);
}

static wm_private_pool *make_locked(wm_private_pools *pools, unsigned flags)
{
    wm_private_pool *pool = wm_meta_alloc(sizeof *pool);

    if (pool != NULL) {
        pool->number = ++pools->last;
        pool->user = (flags & WARM_POOL_USER) != 0;
        pool->next = pools->list;
        pools->list = pool;
    }
    return pool;
}

static void unlink_locked(wm_private_pools *pools, wm_private_pool *pool)
{
    wm_private_pool **link = &pools->list;

    while (*link != pool) {
        link = &(*link)->next;
    }
    *link = pool->next;
}

/* ---- recording ------------------------------------------------------ */

static void record_locked(warm_runtime *runtime, wm_private_pool *pool,
                          warm_pool_filter_fn filter, void *context)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);

    pool->references++;
    pool->recording = true;
    pool->filter = filter;
    pool->context = context;
    pool->thread = wm_window_thread();
    pool->next_recording = pools->recording;
    pools->recording = pool;
    atomic_fetch_add_explicit(&runtime->routes, 1, memory_order_relaxed);
}

static warm_status begin_locked(warm_runtime *runtime, uint64_t *number,
                                unsigned flags, warm_pool_filter_fn filter,
                                void *context)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);
    wm_private_pool *pool = *number != 0
                                ? wm_private_find_locked(pools, *number)
                                : make_locked(pools, flags);

    if (pool == NULL && *number != 0) {
        return unknown(*number);
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
                       " was begun %s WARM_POOL_USER, and stays so",
                       pool->number, pool->user ? "with" : "without");
    }
    record_locked(runtime, pool, filter, context);
    *number = pool->number;
    return WARM_OK;
}

/* What is captured while a pool for graphs records may be announced by nobody:
 * from now on the driver is asked at every use and free. */
static void begin_captures(warm_runtime *runtime)
{
    int cancel = wm_cancel_off();

    wm_timelines_begin_recording(&runtime->pinned->timelines);
    /* Release: as in announce(), device.c. */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_release);
    wm_cancel_restore(cancel);
}

warm_status warm_private_pool_begin(warm_runtime *runtime,
                                    warm_private_pool *pool, unsigned flags,
                                    warm_pool_filter_fn filter, void *context)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    if (pool == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "pool is null");
    }
    if ((flags & ~WARM_POOL_USER) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT, "flags %#x are not known", flags);
    }
    wm_lock_acquire(&wm_private_pools_of(runtime)->lock);
    status = begin_locked(runtime, &pool->number, flags, filter, context);
    wm_lock_release(&wm_private_pools_of(runtime)->lock);
    if (status == WARM_OK && (flags & WARM_POOL_USER) == 0) {
        begin_captures(runtime);
    }
    return status;
}

static void unrecord_locked(warm_runtime *runtime, wm_private_pool *pool)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);
    wm_private_pool **link = &pools->recording;

    while (*link != pool) {
        link = &(*link)->next_recording;
    }
    *link = pool->next_recording;
    pool->recording = false;
    atomic_fetch_sub_explicit(&runtime->routes, 1, memory_order_relaxed);
}

warm_status warm_private_pool_end(warm_runtime *runtime, warm_private_pool pool)
{
    warm_status status = wm_runtime_check(runtime);
    wm_private_pools *pools;
    wm_private_pool *found;
    bool graphs = false;

    if (status != WARM_OK) {
        return status;
    }
    pools = wm_private_pools_of(runtime);
    wm_lock_acquire(&pools->lock);
    found = wm_private_find_locked(pools, pool.number);
    if (found == NULL) {
        status = unknown(pool.number);
    } else if (!found->recording) {
        status =
            wm_fail(WARM_INVALID_ARGUMENT,
                    "private pool %" PRIu64 " is not recording", pool.number);
    } else {
        unrecord_locked(runtime, found);
        graphs = !found->user;
    }
    wm_lock_release(&pools->lock);
    if (graphs) {
        wm_timelines_end_recording(&runtime->pinned->timelines);
    }
    if (status == WARM_OK) {
        wm_private_tend(runtime, NULL);
    }
    return status;
}

/* ---- references ----------------------------------------------------- */

warm_status warm_private_pool_retain(warm_runtime *runtime,
                                     warm_private_pool pool)
{
    warm_status status = wm_runtime_check(runtime);
    wm_private_pool *found;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&wm_private_pools_of(runtime)->lock);
    found = wm_private_find_locked(wm_private_pools_of(runtime), pool.number);
    if (found != NULL) {
        found->references++;
    }
    wm_lock_release(&wm_private_pools_of(runtime)->lock);
    return found != NULL ? WARM_OK : unknown(pool.number);
}

/* *last: out of the list, and the caller's. */
static warm_status drop_locked(wm_private_pools *pools, uint64_t number,
                               wm_private_pool **last)
{
    wm_private_pool *pool = wm_private_find_locked(pools, number);

    if (pool == NULL) {
        return unknown(number);
    }
    if (pool->references == 1 && pool->recording) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "private pool %" PRIu64
                       " is recording, and this is its last reference: call "
                       "warm_private_pool_end() first",
                       number);
    }
    if (--pool->references == 0) {
        unlink_locked(pools, pool);
        *last = pool;
    }
    return WARM_OK;
}

static void end_pool(warm_runtime *runtime, wm_private_pool *pool)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);
    warm_error before = {.size = sizeof before};
    int cancel = wm_cancel_off();
    bool later;

    warm_last_error(&before);
    if (runtime->trace != NULL) {
        wm_tracing_pool(runtime, pool->number, pool->user);
    }
    wm_private_end_arenas(pools, pool->number);
    later = wm_timelines_holds_back(&runtime->pinned->timelines);
    runtime->pool_over(runtime, pool->number, later);
    if (later) {
        atomic_store_explicit(&pools->later, true, memory_order_relaxed);
    }
    wm_meta_free(pool);
    wm_private_tend(runtime, NULL);
    wm_error_restore(&before);
    wm_cancel_restore(cancel);
}

warm_status warm_private_pool_release(warm_runtime *runtime,
                                      warm_private_pool pool)
{
    warm_status status = wm_runtime_check(runtime);
    wm_private_pool *last = NULL;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&wm_private_pools_of(runtime)->lock);
    status = drop_locked(wm_private_pools_of(runtime), pool.number, &last);
    wm_lock_release(&wm_private_pools_of(runtime)->lock);
    if (last != NULL) {
        end_pool(runtime, last);
    }
    return status;
}

static void add_arena(warm_private_pool_info *info, wm_arena *arena)
{
    warm_space_stats stats = {.size = sizeof stats};

    wm_arena_stats(arena, &stats);
    info->segments += stats.segments.current;
    info->held_bytes += stats.held_bytes.current;
    info->live += stats.live.current;
    info->live_bytes += stats.live_bytes.current;
    info->captured += stats.captured;
    info->captured_bytes += stats.captured_bytes;
}

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
        if (wm_arena_pool_number(&a->arena) == number) {
            add_arena(info, &a->arena);
        }
    }
    return true;
}

warm_status warm_private_pool_get_info(warm_runtime *runtime,
                                       warm_private_pool pool,
                                       warm_private_pool_info *info)
{
    warm_private_pool_info all = {.size = sizeof all};
    warm_status status = wm_runtime_check(runtime);
    bool found;

    if (status == WARM_OK) {
        status = wm_sized_check(info, sizeof all, "warm_private_pool_info");
    }
    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&wm_private_pools_of(runtime)->lock);
    found = read_locked(wm_private_pools_of(runtime), pool.number, &all);
    wm_lock_release(&wm_private_pools_of(runtime)->lock);
    if (!found) {
        return unknown(pool.number);
    }
    wm_sized_out(info, &all, sizeof all);
    return WARM_OK;
}

/* ---- begin and end -------------------------------------------------- */

warm_status wm_private_open(warm_runtime *runtime)
{
    wm_private_pools *pools = wm_meta_alloc(sizeof *pools);

    if (pools == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    wm_lock_init(&pools->lock, WM_RANK_PRIVATE);
    runtime->private_pools = pools;
    return WARM_OK;
}

void wm_private_close(warm_runtime *runtime)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);

    wm_timelines_set_ending(&runtime->pinned->timelines);
    while (pools->list != NULL) {
        wm_private_pool *pool = pools->list;

        pools->list = pool->next;
        wm_private_end_arenas(pools, pool->number);
        wm_meta_free(pool);
    }
}

void wm_private_fini(warm_runtime *runtime)
{
    wm_private_fini_arenas(wm_private_pools_of(runtime));
    wm_lock_fini(&wm_private_pools_of(runtime)->lock);
    wm_meta_free(runtime->private_pools);
    runtime->private_pools = NULL;
}
