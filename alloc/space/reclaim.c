/* reclaim.c: flushes blocks from the caches of threads for a request that
 * missed.
 *
 * Takes lock windows, under it the biased lock of each window, and lock arena.
 * In a space with lanes it polls streams, with no lock held. */
#include "alloc/cache/magazine.h"

#include "alloc/arena/arena_int.h"
#include "alloc/space/space_int.h"

/* Windows that are flushed one at a time before all are flushed. */
enum { WM_RICHEST = 16 };

struct reclaim {
    wm_space *space;
    const wm_request *request;
    wm_block *block;
    bool must;
    uint64_t blocks, windows; /* flushed, visited */
    const wm_window *richest; /* the window that caches the most bytes */
    int64_t most;             /* those bytes */
    uint64_t number;          /* of its set: the lower one wins a tie */
};

static void try_again(struct reclaim *reclaim)
{
    const wm_request *request = reclaim->request;

    reclaim->block = wm_arena_take_or_steal(request->arena, request->lane,
                                            request->bytes, NULL);
}

/* After a flush. The flushed blocks may be in lanes of other streams: then
 * these streams are polled. */
static void poll_and_try_again(struct reclaim *reclaim)
{
    wm_arena *arena = reclaim->request->arena;

    try_again(reclaim);
    if (reclaim->block == NULL && reclaim->space->traits->laned &&
        arena->pool == NULL) {
        wm_lanes_queue_fences(arena->registry, NULL, reclaim->request->lane);
        wm_space_collect(reclaim->space);
        try_again(reclaim);
    }
}

/* ---- other threads ------------------------------------------------------ */

static bool has_some(const wm_window *window, void *context)
{
    const struct reclaim *reclaim = context;

    return wm_cache_bytes_of(window, &reclaim->space->group) > 0;
}

static void reclaim_window(wm_window *window, void *context)
{
    struct reclaim *reclaim = context;
    wm_magazine_set *set;

    for (unsigned at = 0; (set = wm_cache_next_set(
                               window, &reclaim->space->group, &at)) != NULL;) {
        /* Blocks of another node cannot serve the request. If it must be
         * served, they are flushed too, so that their segments can be returned
         * to the driver, which then has memory for it. */
        if (reclaim->must ||
            wm_arena_is_sibling(set->arena, reclaim->request->arena)) {
            reclaim->blocks += wm_cache_flush(set, WM_ALL);
        }
    }
    reclaim->windows++;
}

static bool is_richest_so_far(const wm_window *window, void *context)
{
    struct reclaim *reclaim = context;
    const wm_arena_group *group = &reclaim->space->group;
    unsigned at = 0;
    const wm_magazine_set *set = wm_cache_next_set(window, group, &at);
    int64_t bytes = wm_cache_bytes_of(window, group);
    uint64_t number =
        set != NULL ? atomic_load_explicit(&set->number, memory_order_relaxed)
                    : 0;

    if (bytes > reclaim->most ||
        (bytes > 0 && bytes == reclaim->most && number < reclaim->number)) {
        reclaim->most = bytes;
        reclaim->number = number;
        reclaim->richest = window;
    }
    return false; /* no window is visited */
}

static bool is_richest(const wm_window *window, void *context)
{
    const struct reclaim *reclaim = context;

    return window == reclaim->richest && has_some(window, context);
}

/* Flushes the cache with the most bytes, up to WM_RICHEST times, so that few
 * threads miss later; then all caches. The outcome does not depend on the order
 * in which threads began. */
static void reclaim_others(struct reclaim *reclaim)
{
    const wm_visit look = {is_richest_so_far, NULL, NULL, reclaim};
    const wm_visit one = {is_richest, reclaim_window, NULL, reclaim};
    const wm_visit all = {has_some, reclaim_window, NULL, reclaim};

    for (int i = 0; i < WM_RICHEST && reclaim->block == NULL; i++) {
        reclaim->most = 0;
        (void)wm_window_visit(reclaim->space->group.runtime, &look);
        if (reclaim->most > 0) {
            (void)wm_window_visit(reclaim->space->group.runtime, &one);
        }
        /* Also if no window caches anything: since the miss, other threads may
         * have flushed or allocated the blocks that they cached then. */
        poll_and_try_again(reclaim);
        if (reclaim->most == 0) {
            return;
        }
    }
    if (reclaim->block == NULL) {
        (void)wm_window_visit(reclaim->space->group.runtime, &all);
        poll_and_try_again(reclaim);
    }
}

/* ---- this thread -------------------------------------------------------- */

static void reclaim_mine(struct reclaim *reclaim)
{
    const wm_request *request = reclaim->request;
    wm_window *window;
    wm_magazine_set *set =
        wm_cache_lock_for(&reclaim->space->group, request, &window);

    if (set == NULL) {
        return;
    }
    if (!wm_arena_is_sibling(set->arena, request->arena)) {
        if (wm_magazine_set_bytes(set) > 0) {
            reclaim->blocks += wm_cache_flush(set, WM_ALL);
        }
    } else {
        reclaim->blocks += wm_cache_split_larger(set, request, &reclaim->block);
        if (reclaim->block == NULL) {
            reclaim->blocks +=
                wm_cache_merge_row(set, request, &reclaim->block);
        }
        if (reclaim->block == NULL) {
            reclaim->blocks +=
                wm_cache_trade(set, request->bytes, &reclaim->block);
        }
    }
    wm_biased_release(&window->biased);
}

/* Rent or buy: whether flushing has cost as much as a growth since the space
 * last grew; then it grows instead of flushing. */
static bool growth_is_cheaper(wm_space *space, size_t bytes)
{
    /* Relaxed, both: an estimate to which several threads add. */
    uint64_t cost = WM_VISIT_PRICE *
                    atomic_exchange_explicit(&space->group.timelines->visits, 0,
                                             memory_order_relaxed);

    cost += atomic_fetch_add_explicit(&space->group.reclaimed, cost,
                                      memory_order_relaxed);
    if (cost < wm_cache_growth_cost(&space->group, bytes)) {
        return false;
    }
    atomic_store_explicit(&space->group.reclaimed, 0, memory_order_relaxed);
    return true;
}

bool wm_space_reclaim(wm_space *space, const wm_request *request, bool must,
                      wm_block **block)
{
    struct reclaim reclaim = {.space = space, .request = request, .must = must};
    bool flush = space->group.magazine_blocks > 0 &&
                 (must || !growth_is_cheaper(space, request->bytes));

    if (flush) {
        reclaim_mine(&reclaim);
    }
    if (reclaim.block == NULL) {
        /* Pending frees come before the caches of other threads: flushing a
         * cache makes its thread miss, collecting a pending free does not. */
        wm_space_collect_pending(space);
        try_again(&reclaim);
    }
    if (flush && reclaim.block == NULL) {
        reclaim_others(&reclaim);
    }
    if (flush && reclaim.block == NULL) {
        /* The space grows next: the cost restarts at 0. Relaxed: as above. */
        atomic_store_explicit(&space->group.reclaimed, 0, memory_order_relaxed);
    } else if (flush) {
        atomic_fetch_add_explicit(&space->group.reclaimed,
                                  WM_RECLAIM_PRICE + reclaim.blocks +
                                      WM_VISIT_PRICE * reclaim.windows,
                                  memory_order_relaxed);
    }
    *block = reclaim.block;
    return reclaim.blocks > 0;
}
