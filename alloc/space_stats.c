/* space_stats.c: the figures of a space: sums over its nodes (row B14). */
#include "alloc/space.h"

static void add_stat(warm_stat *sum, const warm_stat *one)
{
    sum->current += one->current;
    sum->peak += one->peak;
    sum->allocated += one->allocated;
    sum->freed += one->freed;
}

static void add_duration(warm_duration *sum, const warm_duration *one)
{
    if (sum->count == 0 || (one->count > 0 && one->min_ns < sum->min_ns)) {
        sum->min_ns = one->min_ns;
    }
    if (one->max_ns > sum->max_ns) {
        sum->max_ns = one->max_ns;
    }
    sum->count += one->count;
    sum->total_ns += one->total_ns;
}

static void add(warm_space_stats *sum, const warm_space_stats *one)
{
#define STAT(name, unit, meaning)     add_stat(&sum->name, &one->name);
#define DURATION(name, unit, meaning) add_duration(&sum->name, &one->name);
#define COUNT(name, unit, meaning)    sum->name += one->name;
    WARM_SPACE_STAT_MAP(STAT)
    WARM_SPACE_DURATION_MAP(DURATION)
    WARM_SPACE_COUNT_MAP(COUNT)
#undef STAT
#undef DURATION
#undef COUNT
}

void wm_space_stats(wm_space *space, warm_space_stats *stats)
{
    wm_arena_stats(&space->arenas[0], stats);
    for (int i = 1; i < space->nodes; i++) {
        warm_space_stats one = {.size = sizeof one};

        wm_arena_stats(&space->arenas[i], &one);
        add(stats, &one);
    }
}

void wm_space_class_stats(wm_space *space, unsigned size_class,
                          warm_class_stats *stats)
{
    wm_arena_class_stats(&space->arenas[0], size_class, stats);
    for (int i = 1; i < space->nodes; i++) {
        warm_class_stats one = {.size = sizeof one};

        wm_arena_class_stats(&space->arenas[i], size_class, &one);
        add_stat(&stats->requests, &one.requests);
        add_stat(&stats->requested_bytes, &one.requested_bytes);
        add_stat(&stats->handed_bytes, &one.handed_bytes);
    }
}

void wm_space_reset_peaks(wm_space *space)
{
    for (int i = 0; i < space->nodes; i++) {
        wm_arena_reset_peaks(&space->arenas[i]);
    }
}

void wm_space_reset_totals(wm_space *space)
{
    for (int i = 0; i < space->nodes; i++) {
        wm_arena_reset_totals(&space->arenas[i]);
    }
}
