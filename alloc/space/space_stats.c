/* space_stats.c: the figures of a space: sums over its arenas (row B14). */
#include "alloc/arena/arena_stats.h"
#include "alloc/cache/magazine.h"
#include "alloc/space/space.h"

/* The first arenas of the nodes, whose figures are those of all siblings. */
static wm_arena *next_node(const wm_arena *arena)
{
    wm_arena *next = arena->next_arena;

    while (next != NULL && next->siblings == arena->siblings) {
        next = next->next_arena;
    }
    return next;
}

void wm_space_node_stats(wm_space *space, int node, warm_space_stats *stats)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = next_node(a)) {
        warm_space_stats one = {.size = sizeof one};

        if (node == WM_NODE_UNKNOWN || a->node == node) {
            wm_arena_stats(a, &one);
            wm_stats_add(stats, &one);
        }
    }
    wm_stats_peaks(stats, node == WM_NODE_UNKNOWN
                              ? wm_lives_whole(space->group.arenas->live)
                              : wm_group_arena(&space->group, node)->live->all);
    if (wm_space_is_lost(space)) {
        stats->reset_bytes = stats->held_bytes.current;
    }
}

/* Exact, while nothing comes or goes. */
static void show_held_peak(wm_space *space, warm_space_stats *stats)
{
    uint64_t peak = wm_growth_peak(&space->growth);

    if (space->traits->obtain != NULL && peak >= stats->held_bytes.current &&
        peak < stats->held_bytes.peak) {
        stats->held_bytes.peak = peak;
    }
}

void wm_space_stats(wm_space *space, warm_space_stats *stats)
{
    *stats = (warm_space_stats){.size = stats->size};
    wm_space_node_stats(space, WM_NODE_UNKNOWN, stats);
    show_held_peak(space, stats);
}

void wm_space_class_stats(wm_space *space, unsigned size_class,
                          warm_class_stats *stats)
{
    wm_arena *first = wm_group_arenas(&space->group);

    wm_arena_class_stats(first, size_class, stats);
    for (wm_arena *a = next_node(first); a != NULL; a = next_node(a)) {
        warm_class_stats one = {.size = sizeof one};

        wm_arena_class_stats(a, size_class, &one);
        wm_class_stats_add(stats, &one);
    }
    wm_class_stats_peaks(stats, size_class, first->live);
}

struct reading {
    wm_space *space;
    int node;
    unsigned size_class;
    warm_space_stats *stats;
    warm_class_stats *class_stats;
};

static void read_node(void *context)
{
    const struct reading *reading = context;

    wm_space_node_stats(reading->space, reading->node, reading->stats);
}

static void read_class(void *context)
{
    const struct reading *reading = context;

    wm_space_class_stats(reading->space, reading->size_class,
                         reading->class_stats);
}

void wm_space_settled_stats(wm_space *space, int node, warm_space_stats *stats)
{
    struct reading reading = {.space = space, .node = node, .stats = stats};

    *stats = (warm_space_stats){.size = stats->size};
    wm_cache_merge_stats_and_read(&space->group, read_node, &reading);
    if (node == WM_NODE_UNKNOWN) {
        show_held_peak(space, stats);
    }
}

void wm_space_settled_class_stats(wm_space *space, unsigned size_class,
                                  warm_class_stats *stats)
{
    struct reading reading = {
        .space = space, .size_class = size_class, .class_stats = stats};

    wm_cache_merge_stats_and_read(&space->group, read_class, &reading);
}

void wm_space_reset_peaks(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_arena_reset_peaks(a);
    }
    wm_cache_reset_peaks(&space->group);
    wm_growth_reset_peak(&space->growth);
}

void wm_space_reset_totals(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_arena_reset_totals(a);
    }
}
