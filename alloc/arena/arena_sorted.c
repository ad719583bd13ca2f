/* arena_sorted.c: figures of an arena and its siblings by small and large
 * requests, for readers (arena_sum.c). */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"

static void add_split(warm_device_figures *figures, uint64_t blocks,
                      uint64_t bytes)
{
    figures->inactive_split += blocks;
    figures->inactive_split_bytes += bytes;
}

/* Idle in the arena, or cached by a thread. */
static bool is_inactive(wm_block *block)
{
    return wm_block_state(block) == WM_BLOCK_IDLE ||
           wm_block_state(block) == WM_BLOCK_CACHED;
}

/* Adjacent inactive runs count as one: they merge once the thread caches are
 * flushed. */
static bool is_part_of(const wm_block *run, wm_block *before)
{
    return before != NULL && wm_block_state(before) != WM_BLOCK_SLAB &&
           is_inactive(before) && before->lane == run->lane;
}

static void add_slab_split(wm_slab *slab, warm_device_figures *figures)
{
    for (unsigned i = 0; i < slab->slots; i++) {
        if (is_inactive(&slab->slot[i])) {
            add_split(figures, 1, slab->slot_bytes);
        }
    }
}

/* Adds the idle memory of a segment that is not wholly idle. */
static void add_segment_split(wm_segment *segment, warm_device_figures *figures)
{
    warm_device_figures own = {.inactive_split = 0};

    for (wm_block *run = wm_segment_first_run(segment); run != NULL;
         run = run->after) {
        if (wm_block_state(run) == WM_BLOCK_SLAB) {
            add_slab_split(wm_block_at(run->base)->slab, &own);
        } else if (is_inactive(run)) {
            add_split(&own, !is_part_of(run, run->before), run->bytes);
        }
    }
    if (own.inactive_split_bytes < segment->held) {
        add_split(figures, own.inactive_split, own.inactive_split_bytes);
    }
}

static void add_figures(warm_device_figures *sum,
                        const warm_device_figures *one)
{
#define STAT(name, unit, meaning)  wm_stat_add(&sum->name, &one->name);
#define COUNT(name, unit, meaning) sum->name += one->name;
    WARM_DEVICE_STAT_MAP(STAT)
    WARM_DEVICE_COUNT_MAP(COUNT)
#undef STAT
#undef COUNT
}

static void add_one_locked(const wm_arena *arena, wm_sorted *sum,
                           warm_device_stats *stats)
{
    stats->retries += arena->stats.retries;
    stats->failures += arena->stats.failures;
    stats->captured += arena->stats.captured;
    stats->captured_bytes += arena->stats.captured_bytes;
    stats->lost += arena->stats.lost;
    stats->lost_bytes += arena->stats.lost_bytes;
    stats->cache_hits += arena->stats.cache_hits;
    wm_duration_add(&stats->driver_alloc, &arena->stats.driver_alloc);
    wm_duration_add(&stats->driver_free, &arena->stats.driver_free);
    add_figures(&sum->all, &arena->sorted->all);
    add_figures(&sum->small, &arena->sorted->small);
    add_figures(&sum->large, &arena->sorted->large);
}

/* From arena on, in the order of the shards. All locks are held at once because
 * segments move between siblings. */
static void add_all(wm_arena *arena, wm_sorted *sum, warm_device_stats *stats)
{
    wm_lock_acquire(&arena->lock);
    add_one_locked(arena, sum, stats);
    if (arena->next_sibling != NULL) {
        add_all(arena->next_sibling, sum, stats);
    }
    wm_lock_release(&arena->lock);
}

/* Adds the sum as readers see it. */
static void show(warm_device_figures *figures, warm_device_figures *sum)
{
#define SHOW(name, unit, meaning)                                              \
    sum->name = wm_stat_shown(&sum->name, UINT64_MAX);
    WARM_DEVICE_STAT_MAP(SHOW)
#undef SHOW
    add_figures(figures, sum);
}

void wm_arena_sorted_stats(wm_arena *arena, warm_device_stats *stats)
{
    wm_sorted sum = {.all = {.inactive_split = 0}};

    add_all(arena->siblings, &sum, stats);
    show(&stats->all, &sum.all);
    show(&stats->small, &sum.small);
    show(&stats->large, &sum.large);
}

/* Locks as add_all(). */
static void add_splits(wm_arena *arena, warm_device_stats *stats)
{
    wm_lock_acquire(&arena->lock);
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        warm_device_figures one = {.inactive_split = 0};

        add_segment_split(s, &one);
        add_figures(&stats->all, &one);
        add_figures(s->small ? &stats->small : &stats->large, &one);
    }
    if (arena->next_sibling != NULL) {
        add_splits(arena->next_sibling, stats);
    }
    wm_lock_release(&arena->lock);
}

void wm_arena_split_stats(wm_arena *arena, warm_device_stats *stats)
{
    add_splits(arena->siblings, stats);
}
