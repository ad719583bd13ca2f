/* private_arena.c: the memory of private pools, and what becomes of it when
 * they go. See private_pool.h. */
#include "alloc/private_pool/private_int.h"

#include "alloc/kinds/pinned.h"
#include "alloc/space/space_int.h"
#include "alloc/stream/timeline_int.h"
#include "alloc/arena/arena_trace.h"
#include "runtime/base/meta.h"

static int state_of(wm_private_arena *arena)
{
    return atomic_load_explicit(&arena->state, memory_order_relaxed);
}

/* ---- arenas --------------------------------------------------------- */

static wm_private_arena *make_arena(wm_private_pools *pools, wm_space *space,
                                    int device, wm_arena *beside, bool user)
{
    wm_private_arena *made = wm_meta_alloc(sizeof *made);
    wm_arena *head = wm_group_arenas(&space->group);

    if (made == NULL) {
        return NULL;
    }
    wm_arena_init(&made->arena, &space->group, beside->node);
    made->arena.live = beside->live;
    made->arena.pool = made;
    made->arena.user_pool = user;
    made->arena.history = beside->history;
    made->space = space;
    made->beside = beside;
    made->user = user;
    if (device >= 0) {
        made->arena.grain = beside->grain;
        made->arena.small_max = beside->small_max;
    }
    if (user && device >= 0) {
        made->arena.orders = &made->orders;
        if (wm_lane_registry_init(&made->orders, space->group.timelines,
                                  &made->arena, device) != WARM_OK) {
            wm_arena_fini(&made->arena);
            wm_meta_free(made);
            return NULL;
        }
    }
    made->next = wm_private_arenas(pools);
    /* Release, twice: who finds it finds it made. Under lock private nobody
     * else puts one in front. */
    atomic_store_explicit(&pools->arenas, made, memory_order_release);
    made->arena.next_arena = head;
    atomic_store_explicit(&space->group.all_arenas, &made->arena,
                          memory_order_release);
    return made;
}

static wm_private_arena *find_arena(wm_private_pools *pools,
                                    const wm_arena *beside, int state,
                                    uint64_t number, bool user)
{
    wm_private_arena *a = wm_private_arenas(pools);

    while (a != NULL &&
           (a->beside != beside || state_of(a) != state ||
            wm_arena_pool_number(&a->arena) != number || a->user != user)) {
        a = a->next;
    }
    return a;
}

/* Nobody has, or is about to get, any of its memory. */
static bool is_quiet(wm_private_arena *own)
{
    warm_space_stats stats = {.size = sizeof stats};

    /* Acquire pairs with the release in wm_private_routed(). */
    if (atomic_load_explicit(&own->routed, memory_order_acquire) != 0) {
        return false;
    }
    wm_arena_stats(&own->arena, &stats);
    return stats.idle_bytes == stats.held_bytes.current;
}

/* One that is DEAD, and whose memory cannot go since something is captured:
 * while there always is, pools come and go in what is held already. */
static wm_private_arena *find_quiet(wm_private_pools *pools,
                                    const wm_arena *beside, bool user)
{
    wm_private_arena *a = wm_private_arenas(pools);

    if (!wm_timelines_holds_back(beside->group->timelines)) {
        return NULL;
    }
    while (a != NULL && (a->beside != beside || a->user != user ||
                         state_of(a) != WM_PRIVATE_DEAD || !is_quiet(a))) {
        a = a->next;
    }
    if (a != NULL) {
        atomic_fetch_sub_explicit(&pools->dead, 1, memory_order_relaxed);
    }
    return a;
}

wm_private_arena *wm_private_arena_locked(wm_private_pools *pools,
                                          const wm_private_pool *pool,
                                          wm_space *space, int device,
                                          wm_arena *beside)
{
    wm_private_arena *a =
        find_arena(pools, beside, WM_PRIVATE_LIVE, pool->number, pool->user);

    if (a != NULL) {
        return a;
    }
    a = find_arena(pools, beside, WM_PRIVATE_SPARE, 0, pool->user);
    if (a == NULL) {
        a = find_quiet(pools, beside, pool->user);
    }
    if (a == NULL) {
        a = make_arena(pools, space, device, beside, pool->user);
    }
    if (a != NULL) {
        atomic_store_explicit(&a->arena.pool_number, pool->number,
                              memory_order_relaxed);
        atomic_store_explicit(&a->state, WM_PRIVATE_LIVE, memory_order_relaxed);
        if (!pool->user) {
            wm_arena_retain_begin(&a->arena);
        }
    }
    return a;
}

/* ---- the end of a pool ---------------------------------------------- */

/* What a stream outside of captures may still use waits for that, from now on,
 * and for the end of a capture that is under way there. */
static void put_back(wm_private_arena *own, wm_block *block)
{
    wm_timelines *timelines = own->space->group.timelines;
    bool had_uses =
        atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL;
    enum wm_block_state state = WM_BLOCK_IDLE;

    /* Relaxed: the block is this thread's. */
    atomic_store_explicit(&block->captured, false, memory_order_relaxed);
    switch (wm_timelines_prepare(timelines, block)) {
    case WM_USES_PENDING:
        wm_arena_put_retained(&own->arena, block, WM_BLOCK_PENDING, had_uses);
        wm_timelines_publish(timelines, block);
        return;
    case WM_USES_LOST:
    case WM_USES_CAPTURED: /* not: that was forgotten above */
        state = WM_BLOCK_LOST;
        break;
    case WM_USES_NONE:
        if (own->space->group.runtime->traced) {
            wm_traced_unused(own->space->group.runtime, block);
        }
        break;
    }
    wm_arena_put_retained(&own->arena, block, state, had_uses);
}

static void put_all_back(wm_private_arena *own, wm_block *chain)
{
    while (chain != NULL) {
        wm_block *next = chain->next_done;

        chain->next_done = NULL;
        put_back(own, chain);
        chain = next;
    }
}

void wm_private_end_arenas(wm_private_pools *pools, uint64_t number)
{
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;
         a = a->next) {
        bool ended;

        wm_lock_acquire(&pools->lock);
        ended = wm_arena_pool_number(&a->arena) == number;
        if (ended) {
            atomic_store_explicit(&a->arena.pool_number, 0,
                                  memory_order_relaxed);
            atomic_store_explicit(&a->state, WM_PRIVATE_DEAD,
                                  memory_order_relaxed);
            atomic_fetch_add_explicit(&pools->dead, 1, memory_order_relaxed);
            /* Nobody else's before it keeps no more. */
            atomic_fetch_add_explicit(&a->routed, 1, memory_order_relaxed);
        }
        wm_lock_release(&pools->lock);
        if (ended) {
            if (!a->user) {
                put_all_back(a, wm_arena_retain_end(&a->arena));
            }
            atomic_fetch_sub_explicit(&a->routed, 1, memory_order_release);
        }
    }
}

static bool is_empty(wm_private_arena *own)
{
    return is_quiet(own) && wm_arena_idle(&own->arena) == 0;
}

static void tend_one(wm_private_pools *pools, wm_private_arena *own)
{
    wm_space_work work;

    if (wm_space_work_begin(own->space, &work) != WARM_OK) {
        return;
    }
    (void)wm_growth_give_back(own->space, &own->arena, 0);
    wm_space_work_end(own->space, &work, true);
    wm_lock_acquire(&pools->lock);
    if (state_of(own) == WM_PRIVATE_DEAD && is_empty(own)) {
        if (own->arena.orders == NULL) {
            wm_lanes_end_empty(&own->arena);
        }
        atomic_store_explicit(&own->state, WM_PRIVATE_SPARE,
                              memory_order_relaxed);
        atomic_fetch_sub_explicit(&pools->dead, 1, memory_order_relaxed);
    }
    wm_lock_release(&pools->lock);
}

void wm_private_tend(warm_runtime *runtime, wm_private_arena *only)
{
    wm_private_pools *pools = wm_private_pools_of(runtime);
    warm_error before = {.size = sizeof before};
    int cancel;

    if (only != NULL && wm_likely(state_of(only) != WM_PRIVATE_DEAD)) {
        return;
    }
    if ((atomic_load_explicit(&pools->dead, memory_order_relaxed) == 0 &&
         !atomic_load_explicit(&pools->later, memory_order_relaxed) &&
         !atomic_load_explicit(&runtime->put_off, memory_order_relaxed)) ||
        wm_timelines_holds_back(&runtime->pinned->timelines)) {
        return;
    }
    cancel = wm_cancel_off();
    warm_last_error(&before);
    if (atomic_exchange_explicit(&pools->later, false, memory_order_relaxed)) {
        runtime->pool_over(runtime, 0, false);
    }
    if (atomic_exchange_explicit(&runtime->put_off, false,
                                 memory_order_relaxed)) {
        runtime->captures_over(runtime);
    }
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;
         a = a->next) {
        if (state_of(a) == WM_PRIVATE_DEAD && (only == NULL || a == only)) {
            tend_one(pools, a);
        }
    }
    wm_error_restore(&before);
    wm_cancel_restore(cancel);
}

void wm_private_routed(wm_private_arena *arena)
{
    /* Release: who gives the arena to another pool finds what came of it. If
     * its own has gone meanwhile, a block that came of it goes when it is
     * freed. */
    atomic_fetch_sub_explicit(&arena->routed, 1, memory_order_release);
}

void wm_private_fini_arenas(wm_private_pools *pools)
{
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;) {
        wm_private_arena *next = a->next;

        if (a->arena.orders != NULL) {
            wm_lane_registry_fini(a->arena.orders);
        }
        wm_meta_free(a);
        a = next;
    }
}
