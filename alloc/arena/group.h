/* group.h: the arenas of one space, and the part of the space that caches and
 * streams see.
 *
 *   node 0   arena ─► arena ─► …  siblings
 *   node 1   arena ─► arena ─► …             ─► arenas of private pools
 *
 * The folders stream and cache lie between arenas and spaces. They need to know
 * which arenas belong together and how threads may cache their blocks: this is
 * the part of a space that they see. */
#ifndef WM_GROUP_H
#define WM_GROUP_H

#include "alloc/arena/arena.h"
#include "alloc/arena/economy.h"
#include "alloc/arena/live.h"
#include "runtime/base/clock.h"
#include "runtime/base/histogram.h"
#include "runtime/base/waker.h"

struct wm_timelines;

typedef struct wm_arena_group {
    warm_runtime *runtime;          /* const */
    struct wm_timelines *timelines; /* const, shared by a runtime's spaces */
    wm_waker *waker;                /* const: wakes the thread that polls */
    size_t segment_bytes;           /* const: least bytes obtained at once, */
    size_t large_bytes; /* const: and for large requests; 0: as many */
    size_t own_bytes; /* const: a request of so many bytes obtains a segment of
                         its own size; 0: none does */
    /* const: most bytes that the driver registers by one call: a larger block
     * spans segments (arena.h); 0: each segment is obtained whole */
    size_t piece_bytes;
    size_t magazine_bytes;    /* const: most bytes that a set caches */
    uint32_t magazine_blocks; /* const: most of one class, 0: no magazines */
    int nodes;                /* const: NUMA nodes, at least 1 */
    unsigned shards;          /* const: siblings for each node, at least 1 */
    bool parted;   /* const: threads use all siblings from the start */
    bool laned;    /* const: idle memory is ordered by stream (lane.h) */
    bool pageable; /* const: its memory is not page-locked */
    bool shared;   /* const: a device sees it as the host does */
    int device;    /* const: of its memory; WM_DEVICE_HOST: page-locked,
                    * _UNKNOWN: not from a driver */
    /* const: option debug, if the host may touch the memory at any time; or
     * null */
    struct wm_debug *debug;
    size_t guard_bytes; /* const: of each request, for debug:guard; else 0 */
    uint64_t place;     /* const: place of its first node in the history */
    wm_live live;       /* of all nodes and private pools */
    wm_economy economy; /* how much may be held and cached */
    wm_arena *arenas;   /* const: shards for each node */
    /* Lock of the first arena: magazine sets of threads that have ended. */
    struct wm_magazine_set *spare_sets;
    /* Chained by next_arena, the arenas of all nodes last. Arenas of private
     * pools are added and never removed. */
    _Atomic(wm_arena *) all_arenas;
    /* Of the driver's calls that obtain memory, and of those that free some. */
    wm_histogram driver_alloc_time, driver_free_time;
    wm_histogram reuse_delay; /* of batches of freed blocks (stats.h) */
} wm_arena_group;

/* Whether threads may cache blocks of so many bytes. */
static inline bool wm_group_may_cache(const wm_arena_group *group, size_t bytes)
{
    return bytes <= WM_CLASS_LIMIT && bytes <= group->magazine_bytes &&
           (group->piece_bytes == 0 || bytes <= group->piece_bytes);
}

/* The first arena of a node; figures are summed from there. */
static inline wm_arena *wm_group_arena(const wm_arena_group *group, int node)
{
    return &group->arenas[(size_t)node * group->shards];
}

/* The arena of a node that has the same shard as arena. */
static inline wm_arena *wm_group_arena_as(const wm_arena_group *group, int node,
                                          const wm_arena *arena)
{
    return wm_group_arena(group, node) + arena->shard;
}

/* Bytes that the caller of a LIVE block requested, and that the caller may use:
 * without the guard of option debug. */
static inline size_t wm_block_asked(const wm_block *block)
{
    return wm_block_requested(block) -
           block->segment->arena->group->guard_bytes;
}
static inline size_t wm_block_usable(const wm_block *block)
{
    return block->segment->arena->group->guard_bytes > 0 ? wm_block_asked(block)
                                                         : block->bytes;
}

/* Of those the bytes from `at` on, an address in the block. */
static inline size_t wm_block_usable_from(const wm_block *block, const void *at)
{
    size_t from = (size_t)((const char *)at - block->base);
    size_t usable = wm_block_usable(block);

    return from < usable ? usable - from : 0;
}

/* Place of an arena's memory in the history (history.h). */
static inline uint64_t wm_group_place(const wm_arena *arena)
{
    return arena->group->place + (arena->node > 0 ? (uint64_t)arena->node : 0);
}

/* Whether the delay of a batch that was begun then is counted: of about one in
 * 16, so that few calls read the clock for it. */
static inline bool wm_reuse_is_sampled(uint64_t since_ns)
{
    return (since_ns >> 10) % 16 == 0;
}

/* Counts a batch that has completed, if it is sampled. */
static inline void wm_reuse_count(wm_arena_group *group, uint64_t since_ns)
{
    if (wm_reuse_is_sampled(since_ns)) {
        uint64_t now = wm_clock_ns();

        wm_histogram_add(&group->reuse_delay,
                         now > since_ns ? now - since_ns : 0);
    }
}

/* All arenas. Acquire pairs with the release of the thread that adds one in
 * front. */
static inline wm_arena *wm_group_arenas(wm_arena_group *group)
{
    return atomic_load_explicit(&group->all_arenas, memory_order_acquire);
}

#endif
