/* reclaim.c: flushes blocks from the caches of threads for a request that
 * missed.
 *
 * Takes lock windows, under it the biased lock of each window, and lock arena.
 * In a space with lanes it polls streams, with no lock held. */
#include "alloc/cache/magazine.h"

#include "alloc/arena/arena_int.h"
#include "alloc/space/space_int.h"

struct reclaim {
    wm_space *space;
    const wm_request *request;
    wm_block *block;
    bool must;
    enum wm_part part; /* of each cache that goes */
    uint64_t blocks;   /* flushed */
};

static void try_again(struct reclaim *reclaim)
{
    const wm_request *request = reclaim->request;

    reclaim->block = wm_space_take_or_steal(request->arena, request->lane,
                                            request->bytes, request->row, NULL);
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
            reclaim->blocks += wm_cache_flush(set, reclaim->part);
        }
    }
}

/* Half of what each thread caches, then all: a visit brings a share of
 * everything, and costs each thread few misses. */
static void reclaim_others(struct reclaim *reclaim)
{
    const wm_visit visit = {has_some, reclaim_window, NULL, reclaim};
    static const enum wm_part parts[] = {WM_HALF, WM_ALL};

    for (int i = 0; i < 2 && reclaim->block == NULL; i++) {
        reclaim->part = parts[i];
        (void)wm_window_visit(reclaim->space->group.runtime, &visit);
        /* Also if no window caches anything: since the miss, other threads may
         * have flushed or allocated the blocks that they cached then. */
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
        reclaim->blocks += wm_cache_flush(set, WM_ALL);
    } else {
        reclaim->blocks += wm_cache_split_larger(set, request, &reclaim->block);
        if (reclaim->block == NULL) {
            reclaim->blocks +=
                wm_cache_merge_row(set, request, &reclaim->block);
        }
        if (reclaim->block == NULL && request->row > 0) {
            reclaim->blocks += wm_cache_flush(set, WM_ALL);
        } else if (reclaim->block == NULL) {
            reclaim->blocks +=
                wm_cache_trade(set, request->bytes, &reclaim->block);
        }
    }
    wm_biased_release(&window->biased);
}

bool wm_space_reclaim(wm_space *space, const wm_request *request, bool must,
                      wm_block **block)
{
    struct reclaim reclaim = {.space = space, .request = request, .must = must};
    bool flush = space->group.magazine_blocks > 0;

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
    *block = reclaim.block;
    return reclaim.blocks > 0;
}
