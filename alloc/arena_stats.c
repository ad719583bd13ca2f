/* arena_stats.c: exact figures, kept under lock arena (row B14). */
#include "alloc/arena_stats.h"

#include <string.h>

static void stat_add(warm_stat *stat, uint64_t n)
{
    stat->current += n;
    stat->allocated += n;
    if (stat->current > stat->peak) {
        stat->peak = stat->current;
    }
}

static void stat_sub(warm_stat *stat, uint64_t n)
{
    stat->current -= n;
    stat->freed += n;
}

void wm_arena_note_take_locked(wm_arena *arena, const wm_block *block)
{
    struct wm_class_figures *figures = &arena->classes[block->size_class];

    stat_add(&arena->stats.requests, 1);
    stat_add(&arena->stats.requested_bytes, block->requested);
    stat_add(&arena->stats.block_bytes, block->bytes);
    stat_add(&figures->requests, 1);
    stat_add(&figures->requested_bytes, block->requested);
    stat_add(&figures->handed_bytes, block->bytes);
}

void wm_arena_note_give_locked(wm_arena *arena, const wm_block *block)
{
    struct wm_class_figures *figures = &arena->classes[block->size_class];

    stat_sub(&arena->stats.requests, 1);
    stat_sub(&arena->stats.requested_bytes, block->requested);
    stat_sub(&arena->stats.block_bytes, block->bytes);
    stat_sub(&figures->requests, 1);
    stat_sub(&figures->requested_bytes, block->requested);
    stat_sub(&figures->handed_bytes, block->bytes);
}

void wm_arena_note_pending_locked(wm_arena *arena, const wm_block *block,
                                  bool begins)
{
    if (begins) {
        stat_add(&arena->stats.pending, 1);
        stat_add(&arena->stats.pending_bytes, block->bytes);
    } else {
        stat_sub(&arena->stats.pending, 1);
        stat_sub(&arena->stats.pending_bytes, block->bytes);
    }
}

void wm_arena_note_kept_locked(wm_arena *arena, const wm_block *block,
                               int state)
{
    if (state == WM_BLOCK_LOST) {
        arena->stats.lost++;
        arena->stats.lost_bytes += block->bytes;
    } else {
        arena->stats.captured++;
        arena->stats.captured_bytes += block->bytes;
    }
}

void wm_arena_note_segment_locked(wm_arena *arena, size_t bytes, bool added)
{
    if (added) {
        stat_add(&arena->stats.segments, 1);
        stat_add(&arena->stats.held_bytes, bytes);
    } else {
        stat_sub(&arena->stats.segments, 1);
        stat_sub(&arena->stats.held_bytes, bytes);
    }
}

void wm_arena_count_driver(wm_arena *arena, bool free, uint64_t ns)
{
    warm_duration *duration;

    wm_lock_acquire(&arena->lock);
    duration = free ? &arena->stats.driver_free : &arena->stats.driver_alloc;
    if (duration->count == 0 || ns < duration->min_ns) {
        duration->min_ns = ns;
    }
    if (ns > duration->max_ns) {
        duration->max_ns = ns;
    }
    duration->count++;
    duration->total_ns += ns;
    wm_lock_release(&arena->lock);
}

void wm_arena_count_retry(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    arena->stats.retries++;
    wm_lock_release(&arena->lock);
}

void wm_arena_count_failure(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    arena->stats.failures++;
    wm_lock_release(&arena->lock);
}

void wm_arena_stats(wm_arena *arena, warm_space_stats *stats)
{
    size_t size = stats->size;

    wm_lock_acquire(&arena->lock);
    *stats = arena->stats;
    wm_lock_release(&arena->lock);
    stats->size = size;
    stats->idle_bytes = stats->held_bytes.current - stats->block_bytes.current -
                        stats->pending_bytes.current - stats->lost_bytes -
                        stats->captured_bytes;
}

void wm_arena_class_stats(wm_arena *arena, unsigned size_class,
                          warm_class_stats *stats)
{
    struct wm_class_figures figures;

    wm_lock_acquire(&arena->lock);
    figures = arena->classes[size_class];
    wm_lock_release(&arena->lock);
    stats->block_bytes = wm_class_bytes(size_class);
    stats->requests = figures.requests;
    stats->requested_bytes = figures.requested_bytes;
    stats->handed_bytes = figures.handed_bytes;
}

static void reset_peak(warm_stat *stat)
{
    stat->peak = stat->current;
}

/* What is in use stays counted as allocated, so that the sums hold. */
static void reset_total(warm_stat *stat)
{
    stat->allocated = stat->current;
    stat->freed = 0;
}

static void each_stat_locked(wm_arena *arena, void (*fn)(warm_stat *stat))
{
#define EACH(name, unit, meaning) fn(&arena->stats.name);
    WARM_SPACE_STAT_MAP(EACH)
#undef EACH
    for (int i = 0; i < WM_CLASSES_ALL; i++) {
        fn(&arena->classes[i].requests);
        fn(&arena->classes[i].requested_bytes);
        fn(&arena->classes[i].handed_bytes);
    }
}

void wm_arena_reset_peaks(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    each_stat_locked(arena, reset_peak);
    wm_lock_release(&arena->lock);
}

/* lost and captured are states, not totals: they stay. */
void wm_arena_reset_totals(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    each_stat_locked(arena, reset_total);
    memset(&arena->stats.driver_alloc, 0, sizeof arena->stats.driver_alloc);
    memset(&arena->stats.driver_free, 0, sizeof arena->stats.driver_free);
    arena->stats.cache_hits = 0;
    arena->stats.retries = 0;
    arena->stats.failures = 0;
    wm_lock_release(&arena->lock);
}
