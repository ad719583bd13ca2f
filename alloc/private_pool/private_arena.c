/* private_arena.c: the memory of private pools, and its return when they end
 * (private_pool.h). */
#include "alloc/private_pool/private_int.h"

#include "alloc/arena/arena.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/space/space_int.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/base/meta.h"

/* ---- arenas -------------------------------------------------------------- */

static wm_private_arena *make_arena(wm_private_pools *pools, wm_space *space,
                                    int device, wm_arena *beside, bool user,
                                    size_t unit)
{
    wm_private_arena *made = wm_meta_alloc(sizeof *made);
    wm_arena *head = wm_group_arenas(&space->group);

    if (made == NULL) {
        return NULL;
    }
    wm_arena_init(&made->arena, &space->group, beside->node);
    made->arena.pool = made;
    made->arena.user_pool = user;
    made->arena.history = beside->history;
    made->space = space;
    made->beside = beside;
    made->arena.grain = unit > beside->grain ? unit : beside->grain;
    made->arena.small_max = beside->small_max;
    made->arena.ranged = unit > 0;
    if (user && device >= 0) {
        made->arena.registry = &made->registry;
        if (wm_lane_registry_init(&made->registry, space->group.timelines,
                                  &made->arena, device) != WARM_OK) {
            wm_meta_free(made);
            return NULL;
        }
    }
    made->next = wm_private_arenas(pools);
    /* Release, twice: a thread that finds the arena sees its fields. Under lock
     * private no other thread adds one. */
    atomic_store_explicit(&pools->arenas, made, memory_order_release);
    made->arena.next_arena = head;
    atomic_store_explicit(&space->group.all_arenas, &made->arena,
                          memory_order_release);
    return made;
}

static bool is_dead(const wm_private_arena *own)
{
    return atomic_load_explicit(&own->dead, memory_order_relaxed);
}

static void set_dead_locked(wm_private_pools *pools, wm_private_arena *own,
                            bool dead)
{
    atomic_store_explicit(&own->dead, dead, memory_order_relaxed);
    if (dead) {
        atomic_fetch_add_explicit(&pools->dead, 1, memory_order_relaxed);
    } else {
        atomic_fetch_sub_explicit(&pools->dead, 1, memory_order_relaxed);
    }
}

/* Whether no request is in flight and no block is allocated or pending. */
static bool is_unused(wm_private_arena *own)
{
    warm_space_stats stats = {.size = sizeof stats};

    /* Acquire pairs with the release in wm_private_routed(). */
    if (atomic_load_explicit(&own->routed, memory_order_acquire) != 0) {
        return false;
    }
    wm_arena_stats(&own->arena, &stats);
    return stats.idle_bytes == stats.held_bytes.current;
}

/* An arena with that number that serves pools of that sort; or null. */
static wm_private_arena *find(wm_private_pools *pools, uint64_t number,
                              const wm_arena *beside, bool user, bool ranged)
{
    wm_private_arena *a = wm_private_arenas(pools);

    /* Acquire: see wm_private_arena_locked(). */
    while (a != NULL &&
           (atomic_load_explicit(&a->arena.pool_number, memory_order_acquire) !=
                number ||
            a->beside != beside || a->arena.user_pool != user ||
            a->arena.ranged != ranged || (number == 0 && is_dead(a)))) {
        a = a->next;
    }
    return a;
}

/* Revives a dead, unused arena whose memory cannot be returned because a stream
 * captures: in a program that always captures, new pools reuse the memory of
 * ended ones. */
static wm_private_arena *revive_locked(wm_private_pools *pools,
                                       const wm_arena *beside, bool user,
                                       bool ranged)
{
    wm_private_arena *a = wm_private_arenas(pools);

    if (!wm_timelines_holds_back(beside->group->timelines)) {
        return NULL;
    }
    while (a != NULL &&
           (a->beside != beside || a->arena.user_pool != user ||
            a->arena.ranged != ranged || !is_dead(a) || !is_unused(a))) {
        a = a->next;
    }
    if (a != NULL) {
        set_dead_locked(pools, a, false);
    }
    return a;
}

/* The unit of the ranges that the pool's segments on the device are; 0: its
 * segments are no ranges. */
static size_t unit_for(const wm_private_pool *pool, const wm_space *space,
                       int device)
{
    return pool->pausable && device >= 0
               ? atomic_load_explicit(&((const wm_device_space *)space)->unit,
                                      memory_order_relaxed)
               : 0;
}

wm_private_arena *wm_private_arena_find(wm_private_pools *pools,
                                        const wm_private_pool *pool,
                                        wm_space *space, int device,
                                        const wm_arena *beside)
{
    return find(pools, pool->number, beside, pool->user,
                unit_for(pool, space, device) > 0);
}

wm_private_arena *wm_private_arena_locked(wm_private_pools *pools,
                                          const wm_private_pool *pool,
                                          wm_space *space, int device,
                                          wm_arena *beside)
{
    size_t unit = unit_for(pool, space, device);
    bool ranged = unit > 0;
    wm_private_arena *a = find(pools, pool->number, beside, pool->user, ranged);

    if (a != NULL) {
        return a;
    }
    a = find(pools, 0, beside, pool->user, ranged);
    if (a == NULL) {
        a = revive_locked(pools, beside, pool->user, ranged);
    }
    if (a == NULL) {
        a = make_arena(pools, space, device, beside, pool->user, unit);
    }
    if (a == NULL) {
        return NULL;
    }
    if (!pool->user) {
        wm_arena_retain_begin(&a->arena);
    }
    /* Release: a reader that finds the arena frees no block of it that a graph
     * used. */
    atomic_store_explicit(&a->arena.pool_number, pool->number,
                          memory_order_release);
    return a;
}

/* ---- the end of a pool --------------------------------------------------- */

/* Frees a retained block. If streams used it outside of captures, it is PENDING
 * until they complete, and until a capture under way on them has ended. */
static void put_back(wm_private_arena *own, wm_block *block)
{
    wm_arena_group *group = &own->space->group;
    bool had_uses =
        atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL;
    enum wm_block_state state = WM_BLOCK_IDLE;

    /* Relaxed: the block is this thread's. */
    atomic_store_explicit(&block->captured, false, memory_order_relaxed);
    switch (wm_timelines_prepare(group->timelines, block)) {
    case WM_USES_PENDING:
        wm_arena_put_retained(&own->arena, block, WM_BLOCK_PENDING, had_uses);
        wm_timelines_publish(group->timelines, block);
        return;
    case WM_USES_LOST:
    case WM_USES_CAPTURED: /* impossible: captured was cleared above */
        state = WM_BLOCK_LOST;
        break;
    case WM_USES_NONE:
        if (wm_runtime_is_traced(group->runtime)) {
            wm_traced_unused(group->runtime, block);
        }
        break;
    }
    wm_arena_put_retained(&own->arena, block, state, had_uses);
}

static void end_arena(wm_private_pools *pools, wm_private_arena *own,
                      uint64_t number)
{
    wm_block *chain = NULL;
    bool ended;

    wm_lock_acquire(&pools->lock);
    ended = wm_arena_pool_number(&own->arena) == number;
    if (ended) {
        atomic_store_explicit(&own->arena.pool_number, 0, memory_order_relaxed);
        set_dead_locked(pools, own, true);
        /* No other pool uses the arena until all its blocks are put back. */
        atomic_fetch_add_explicit(&own->routed, 1, memory_order_relaxed);
    }
    wm_lock_release(&pools->lock);
    if (!ended) {
        return;
    }
    if (!own->arena.user_pool) {
        chain = wm_arena_retain_end(&own->arena);
    }
    while (chain != NULL) {
        wm_block *block = chain;

        chain = block->next_done;
        put_back(own, block);
    }
    wm_private_routed(own);
}

void wm_private_end_arenas(wm_private_pools *pools, uint64_t number)
{
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;
         a = a->next) {
        end_arena(pools, a, number);
    }
}

static void tend_one(wm_private_pools *pools, wm_private_arena *own)
{
    wm_space_work work;

    if (wm_space_work_begin(own->space, &work) != WARM_OK) {
        return;
    }
    (void)wm_growth_give_back(own->space, &own->arena, WM_KEEP_NOTHING);
    wm_space_work_end(own->space, &work, true);
    wm_lock_acquire(&pools->lock);
    if (is_dead(own) && is_unused(own) && wm_arena_idle(&own->arena) == 0) {
        if (own->arena.registry == NULL) {
            wm_lanes_end_empty(&own->arena);
        }
        set_dead_locked(pools, own, false);
    }
    wm_lock_release(&pools->lock);
}

void wm_private_tend(warm_runtime *runtime, wm_private_arena *only)
{
    wm_private_pools *pools = runtime->private_pools;

    if (only != NULL && wm_likely(!is_dead(only))) {
        return;
    }
    if ((atomic_load_explicit(&pools->dead, memory_order_relaxed) == 0 &&
         !atomic_load_explicit(&runtime->put_off, memory_order_relaxed)) ||
        wm_timelines_holds_back(&runtime->pinned->timelines)) {
        return;
    }
    WM_KEEP_ERROR();
    if (atomic_exchange_explicit(&runtime->put_off, false,
                                 memory_order_relaxed)) {
        runtime->captures_over(runtime);
    }
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;
         a = a->next) {
        if (is_dead(a) && (only == NULL || a == only)) {
            tend_one(pools, a);
        }
    }
}

void wm_private_routed(wm_private_arena *arena)
{
    /* Release: a thread that reuses the arena for another pool sees the
     * request's effects. If the request's pool has ended meanwhile, the memory
     * of its block is returned after the block is freed. */
    atomic_fetch_sub_explicit(&arena->routed, 1, memory_order_release);
}

void wm_private_fini_arenas(wm_private_pools *pools)
{
    for (wm_private_arena *a = wm_private_arenas(pools); a != NULL;) {
        wm_private_arena *next = a->next;

        if (a->arena.registry != NULL) {
            wm_lane_registry_fini(a->arena.registry);
        }
        wm_meta_free(a);
        a = next;
    }
}
