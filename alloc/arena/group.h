/* group.h: the arenas of one space, and what caches and streams know of it.
 *
 *   node 0   arena ─► arena ─► …  siblings
 *   node 1   arena ─► arena ─► …               ─► those of private pools
 *
 * Floors above the arenas and below the spaces need to know which arenas
 * belong together, whose they are and how threads may cache their blocks; they
 * know a space by this part of it alone. */
#ifndef WM_GROUP_H
#define WM_GROUP_H

#include "alloc/arena/arena.h"
#include "runtime/base/waker.h"

struct wm_timelines;

typedef struct wm_arena_group {
    warm_runtime *runtime;          /* const */
    struct wm_timelines *timelines; /* const, shared by a runtime's spaces */
    wm_waker *waker;                /* const: of the thread that polls */
    size_t segment_bytes;           /* const: least that is obtained */
    size_t magazine_bytes;          /* const: most that a thread keeps */
    uint32_t magazine_blocks;       /* const: of one class, 0: no magazines */
    int nodes;                      /* const: of NUMA, at least 1 */
    unsigned shards;                /* const: siblings a node has, at least 1 */
    bool parted;    /* const: threads use them from the first on */
    bool laned;     /* const: what is idle is so in the order of a stream */
    bool pageable;  /* const: its memory is not page-locked */
    int device;     /* const: whose memory it is, WM_DEVICE_HOST: page-locked,
                     * _UNKNOWN: no driver's */
    uint64_t place; /* const: in the history, of its first node */
    /* Cost of taking memory back since a growth; see reclaim.c. */
    _Atomic uint64_t reclaimed;
    wm_arena *arenas; /* const: shards for each node */
    /* Lock of the first arena: sets of magazines whose threads have gone. */
    struct wm_magazine_set *spare_sets;
    /* Chained by next_arena, those above last; private pools' come and stay. */
    _Atomic(wm_arena *) all_arenas;
} wm_arena_group;

/* The first arena of a node, whose figures are those of all its siblings. */
static inline wm_arena *wm_group_arena(const wm_arena_group *group, int node)
{
    return &group->arenas[(size_t)node * group->shards];
}

/* The one of a node that is to an arena's siblings as that is to its own. */
static inline wm_arena *wm_group_arena_as(const wm_arena_group *group, int node,
                                          const wm_arena *arena)
{
    return wm_group_arena(group, node) + arena->shard;
}

/* Where memory of an arena is, for the history (history.h). */
static inline uint64_t wm_group_place(const wm_arena *arena)
{
    return arena->group->place + (arena->node > 0 ? (uint64_t)arena->node : 0);
}

/* All of them. Acquire pairs with the release of who puts one before them. */
static inline wm_arena *wm_group_arenas(wm_arena_group *group)
{
    return atomic_load_explicit(&group->all_arenas, memory_order_acquire);
}

#endif
