/* arena_sum.c: figures of an arena and its siblings, for readers (row B14). A
 * thread counts in one arena what it does to the blocks of all siblings: a
 * single figure may wrap below 0, their sum does not. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"

void wm_stat_add(warm_stat *sum, const warm_stat *one)
{
    sum->current += one->current;
    sum->peak += one->peak;
    sum->allocated += one->allocated;
    sum->freed += one->freed;
}

void wm_duration_add(warm_duration *sum, const warm_duration *one)
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

void wm_stats_add(warm_space_stats *sum, const warm_space_stats *one)
{
#define STAT(name, unit, meaning)     wm_stat_add(&sum->name, &one->name);
#define DURATION(name, unit, meaning) wm_duration_add(&sum->name, &one->name);
#define COUNT(name, unit, meaning)    sum->name += one->name;
    WARM_SPACE_STAT_MAP(STAT)
    WARM_SPACE_DURATION_MAP(DURATION)
    WARM_SPACE_COUNT_MAP(COUNT)
#undef STAT
#undef DURATION
#undef COUNT
}

void wm_class_stats_add(warm_class_stats *sum, const warm_class_stats *one)
{
    wm_stat_add(&sum->live, &one->live);
    wm_stat_add(&sum->requested_bytes, &one->requested_bytes);
    wm_stat_add(&sum->live_bytes, &one->live_bytes);
}

warm_stat wm_stat_shown(const warm_stat *stat, uint64_t most)
{
    warm_stat all = *stat;

    if ((int64_t)all.current < 0) {
        all.current = 0;
    }
    if (all.current > most) {
        all.current = most;
    }
    all.freed = all.allocated - all.current;
    return all;
}

void wm_stat_peak(warm_stat *stat, const wm_claim *claim)
{
    int64_t peak = wm_claim_peak(claim);

    /* While a reader adds, more may be claimed than when the peak was raised.
     */
    stat->peak = peak > (int64_t)stat->current ? (uint64_t)peak : stat->current;
}

void wm_stats_peaks(warm_space_stats *stats, const wm_live *live)
{
    wm_stat_peak(&stats->live, &live->of[WM_LIVE_BLOCKS]);
    wm_stat_peak(&stats->requested_bytes, &live->of[WM_LIVE_ASKED]);
    wm_stat_peak(&stats->live_bytes, &live->of[WM_LIVE_BYTES]);
}

void wm_arena_stats(wm_arena *arena, warm_space_stats *stats)
{
    size_t out = 0;

    *stats = (warm_space_stats){.size = stats->size};
    wm_arena_lock_all(arena);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        out += a->out_bytes;
        wm_stats_add(stats, &a->stats);
    }
    wm_arena_unlock_all(arena);
    stats->live = wm_stat_shown(&stats->live, UINT64_MAX);
    stats->requested_bytes = wm_stat_shown(&stats->requested_bytes, out);
    stats->live_bytes = wm_stat_shown(&stats->live_bytes, out);
    wm_stats_peaks(stats, arena->live->all);
    stats->cached_bytes = out - stats->live_bytes.current;
    stats->idle_bytes = stats->held_bytes.current - out + stats->cached_bytes -
                        stats->pending_bytes.current - stats->lost_bytes -
                        stats->captured_bytes;
}

static size_t idle_locked(const wm_arena *arena)
{
    const warm_space_stats *stats = &arena->stats;

    return stats->held_bytes.current - arena->out_bytes -
           stats->pending_bytes.current - stats->lost_bytes -
           stats->captured_bytes;
}

size_t wm_arena_idle(wm_arena *arena)
{
    size_t idle = 0;

    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        wm_lock_acquire(&a->lock);
        idle += idle_locked(a);
        wm_lock_release(&a->lock);
    }
    return idle;
}

size_t wm_arena_held(wm_arena *arena)
{
    size_t held;

    wm_lock_acquire(&arena->lock);
    held = arena->stats.held_bytes.current;
    wm_lock_release(&arena->lock);
    return held;
}

void wm_arena_class_stats(wm_arena *arena, unsigned size_class,
                          warm_class_stats *stats)
{
    *stats = (warm_class_stats){.size = stats->size,
                                .block_bytes = wm_class_bytes(size_class)};
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        struct wm_class_figures figures;
        warm_class_stats one;

        wm_lock_acquire(&a->lock);
        figures = a->classes[size_class];
        wm_lock_release(&a->lock);
        one.live = figures.live;
        one.requested_bytes = figures.requested_bytes;
        one.live_bytes = figures.live_bytes;
        wm_class_stats_add(stats, &one);
    }
    stats->live = wm_stat_shown(&stats->live, UINT64_MAX);
    stats->requested_bytes = wm_stat_shown(&stats->requested_bytes, UINT64_MAX);
    stats->live_bytes = wm_stat_shown(&stats->live_bytes, UINT64_MAX);
    wm_class_stats_peaks(stats, size_class, arena->live);
}

void wm_class_stats_peaks(warm_class_stats *stats, unsigned size_class,
                          const wm_lives *lives)
{
    const wm_claim *blocks = &lives->classes->blocks[size_class];

    wm_stat_peak(&stats->live, blocks);
    if (size_class == WM_CLASS_PAGES) {
        wm_stat_peak(&stats->requested_bytes, &lives->classes->asked);
        wm_stat_peak(&stats->live_bytes, &lives->classes->handed);
    } else {
        stats->live_bytes.peak = stats->live.peak * wm_class_bytes(size_class);
        stats->requested_bytes.peak = stats->live_bytes.peak;
    }
}

static size_t largest_locked(const wm_arena *arena)
{
    size_t largest = 0;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        for (wm_block *run = wm_segment_first_run(s); run != NULL;
             run = run->after) {
            bool idle =
                wm_run_is_idle(run) || wm_block_state(run) == WM_BLOCK_CACHED;

            if (idle && run->bytes > largest) {
                largest = run->bytes;
            }
        }
    }
    return largest;
}

size_t wm_arena_largest(wm_arena *arena)
{
    size_t largest = 0;

    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        size_t one;

        wm_lock_acquire(&a->lock);
        one = largest_locked(a);
        wm_lock_release(&a->lock);
        largest = one > largest ? one : largest;
    }
    return largest;
}

/* ---- by small and large requests ---------------------------------------- */

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

    wm_arena_lock_all(arena);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        add_one_locked(a, &sum, stats);
    }
    wm_arena_unlock_all(arena);
    show(&stats->all, &sum.all);
    show(&stats->small, &sum.small);
    show(&stats->large, &sum.large);
}

static void add_splits_locked(const wm_arena *arena, warm_device_stats *stats)
{
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        warm_device_figures one = {.inactive_split = 0};

        add_segment_split(s, &one);
        add_figures(&stats->all, &one);
        add_figures(s->small ? &stats->small : &stats->large, &one);
    }
}

void wm_arena_split_stats(wm_arena *arena, warm_device_stats *stats)
{
    wm_arena_lock_all(arena);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        add_splits_locked(a, stats);
    }
    wm_arena_unlock_all(arena);
}
