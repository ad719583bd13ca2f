/* space_stats.c: the figures of a space: sums over its arenas (row B14). */
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
    wm_arena *first = space->all_arenas;

    wm_arena_stats(first, stats);
    for (wm_arena *a = first->next_arena; a != NULL; a = a->next_arena) {
        warm_space_stats one = {.size = sizeof one};

        wm_arena_stats(a, &one);
        add(stats, &one);
    }
}

void wm_space_class_stats(wm_space *space, unsigned size_class,
                          warm_class_stats *stats)
{
    wm_arena *first = space->all_arenas;

    wm_arena_class_stats(first, size_class, stats);
    for (wm_arena *a = first->next_arena; a != NULL; a = a->next_arena) {
        warm_class_stats one = {.size = sizeof one};

        wm_arena_class_stats(a, size_class, &one);
        add_stat(&stats->requests, &one.requests);
        add_stat(&stats->requested_bytes, &one.requested_bytes);
        add_stat(&stats->handed_bytes, &one.handed_bytes);
    }
}

void wm_space_reset_peaks(wm_space *space)
{
    for (wm_arena *a = space->all_arenas; a != NULL; a = a->next_arena) {
        wm_arena_reset_peaks(a);
    }
}

void wm_space_reset_totals(wm_space *space)
{
    for (wm_arena *a = space->all_arenas; a != NULL; a = a->next_arena) {
        wm_arena_reset_totals(a);
    }
}
