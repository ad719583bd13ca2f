/* arena_stats.c: figures of an arena, kept under lock arena (row B14). Figures
 * of what callers hold lack the tallies that magazine sets have not merged yet;
 * their peaks are not shown, readers get those of live.h. */
#include "alloc/arena/arena_int.h"

#include <string.h>

/* One thread may count a free before another has counted the allocation:
 * current may wrap below 0 in between. */
static void stat_raise(warm_stat *stat, uint64_t highest)
{
    if ((int64_t)highest > (int64_t)stat->peak) {
        stat->peak = highest;
    }
}

static void stat_add(warm_stat *stat, uint64_t n)
{
    stat->current += n;
    stat->allocated += n;
    stat_raise(stat, stat->current);
}

static void stat_sub(warm_stat *stat, uint64_t n)
{
    stat->current -= n;
    stat->freed += n;
}

static void stat_settle(warm_stat *stat, uint64_t allocated, int64_t change)
{
    stat->current += (uint64_t)change;
    stat->allocated += allocated;
    stat->freed += allocated - (uint64_t)change;
}

/* A block that a caller holds is active; pending and retained blocks are
 * counted in the arena, not in a tally. */
static void sorted_settle(warm_device_figures *f, const wm_tally *tally,
                          uint64_t bytes)
{
    stat_settle(&f->live, tally->allocs, tally->blocks);
    stat_settle(&f->requested_bytes, tally->taken, tally->asked);
    stat_settle(&f->live_bytes, bytes, tally->bytes);
    stat_settle(&f->active, tally->allocs, tally->blocks);
    stat_settle(&f->active_bytes, bytes, tally->bytes);
}

void wm_arena_merge_tally_locked(wm_arena *arena, unsigned size_class,
                                 const wm_tally *tally)
{
    struct wm_class_figures *figures = &arena->classes[size_class];
    warm_space_stats *stats = &arena->stats;
    size_t bytes = wm_class_bytes(size_class);
    uint64_t handed = tally->allocs * bytes;

    stat_settle(&stats->live, tally->allocs, tally->blocks);
    stat_settle(&stats->live_bytes, handed, tally->bytes);
    stat_settle(&stats->requested_bytes, tally->taken, tally->asked);
    stat_settle(&figures->live, tally->allocs, tally->blocks);
    stat_settle(&figures->live_bytes, handed, tally->bytes);
    stat_settle(&figures->requested_bytes, tally->taken, tally->asked);
    arena->stats.cache_hits += tally->allocs;
    if (arena->sorted != NULL) {
        sorted_settle(&arena->sorted->all, tally, handed);
        sorted_settle(bytes > arena->small_max ? &arena->sorted->large
                                               : &arena->sorted->small,
                      tally, handed);
    }
}

/* Calls fn for the figures of all requests, and of small or large ones. */
static void sort_locked(wm_sorted *sorted, bool small,
                        void (*fn)(warm_device_figures *figures,
                                   uint64_t requested, uint64_t bytes),
                        uint64_t requested, uint64_t bytes)
{
    if (sorted != NULL) {
        fn(&sorted->all, requested, bytes);
        fn(small ? &sorted->small : &sorted->large, requested, bytes);
    }
}

static void sorted_take(warm_device_figures *f, uint64_t requested,
                        uint64_t bytes)
{
    stat_add(&f->live, 1);
    stat_add(&f->requested_bytes, requested);
    stat_add(&f->live_bytes, bytes);
    stat_add(&f->active, 1);
    stat_add(&f->active_bytes, bytes);
}

static void sorted_give(warm_device_figures *f, uint64_t requested,
                        uint64_t bytes)
{
    stat_sub(&f->live, 1);
    stat_sub(&f->requested_bytes, requested);
    stat_sub(&f->live_bytes, bytes);
}

static void sorted_passive(warm_device_figures *f, uint64_t requested,
                           uint64_t bytes)
{
    (void)requested;
    stat_sub(&f->active, 1);
    stat_sub(&f->active_bytes, bytes);
}

static void sorted_segment(warm_device_figures *f, uint64_t count,
                           uint64_t bytes)
{
    stat_add(&f->segments, count);
    stat_add(&f->held_bytes, bytes);
}

static void sorted_no_segment(warm_device_figures *f, uint64_t count,
                              uint64_t bytes)
{
    stat_sub(&f->segments, count);
    stat_sub(&f->held_bytes, bytes);
}

static bool is_small(const wm_block *block)
{
    return block->segment->small;
}

/* Where threads claim room ahead the peak is raised later (live.h). */
static void live_take(wm_arena *arena, const wm_block *block)
{
    wm_lives *lives = arena->live;
    wm_live *live = wm_lives_of(lives, !is_small(block));
    int64_t asked = (int64_t)wm_block_requested(block);
    int64_t bytes = (int64_t)block->bytes;

    (void)wm_live_add(live, 1, asked, bytes);
    if (arena->sorted != NULL) {
        (void)wm_live_add_active(live, 1, bytes);
    }
    if (!lives->roomy) {
        wm_lives_raise(lives);
    }
    wm_claim_add_raise(&lives->classes->blocks[block->size_class], 1);
    if (block->size_class == WM_CLASS_PAGES) {
        wm_claim_add_raise(&lives->classes->asked, asked);
        wm_claim_add_raise(&lives->classes->handed, bytes);
    }
}

static void live_give(wm_arena *arena, const wm_block *block)
{
    wm_lives *lives = arena->live;
    int64_t asked = (int64_t)wm_block_requested(block);
    int64_t bytes = (int64_t)block->bytes;

    (void)wm_live_add(wm_lives_of(lives, !is_small(block)), -1, -asked, -bytes);
    (void)wm_claim_add(&lives->classes->blocks[block->size_class], -1);
    if (block->size_class == WM_CLASS_PAGES) {
        (void)wm_claim_add(&lives->classes->asked, -asked);
        (void)wm_claim_add(&lives->classes->handed, -bytes);
    }
}

void wm_arena_note_take_locked(wm_arena *arena, const wm_block *block)
{
    struct wm_class_figures *figures = &arena->classes[block->size_class];

    live_take(arena, block);
    sort_locked(arena->sorted, is_small(block), sorted_take,
                wm_block_requested(block), block->bytes);
    stat_add(&arena->stats.live, 1);
    stat_add(&arena->stats.requested_bytes, wm_block_requested(block));
    stat_add(&arena->stats.live_bytes, block->bytes);
    stat_add(&figures->live, 1);
    stat_add(&figures->requested_bytes, wm_block_requested(block));
    stat_add(&figures->live_bytes, block->bytes);
}

void wm_arena_note_give_locked(wm_arena *arena, const wm_block *block)
{
    struct wm_class_figures *figures = &arena->classes[block->size_class];

    if (block->counted) {
        return;
    }
    live_give(arena, block);
    sort_locked(arena->sorted, is_small(block), sorted_give,
                wm_block_requested(block), block->bytes);
    stat_sub(&arena->stats.live, 1);
    stat_sub(&arena->stats.requested_bytes, wm_block_requested(block));
    stat_sub(&arena->stats.live_bytes, block->bytes);
    stat_sub(&figures->live, 1);
    stat_sub(&figures->requested_bytes, wm_block_requested(block));
    stat_sub(&figures->live_bytes, block->bytes);
}

void wm_arena_note_passive_locked(wm_arena *arena, const wm_block *block)
{
    if (arena->sorted == NULL) {
        return;
    }
    sort_locked(arena->sorted, is_small(block), sorted_passive, 0,
                block->bytes);
    (void)wm_live_add_active(wm_lives_of(arena->live, !is_small(block)), -1,
                             -(int64_t)block->bytes);
}

void wm_arena_note_pending_locked(wm_arena *arena, int64_t count, int64_t bytes)
{
    if (count >= 0) {
        stat_add(&arena->stats.pending, (uint64_t)count);
        stat_add(&arena->stats.pending_bytes, (uint64_t)bytes);
        arena->fresh_bytes += (size_t)bytes;
    } else {
        stat_sub(&arena->stats.pending, (uint64_t)-count);
        stat_sub(&arena->stats.pending_bytes, (uint64_t)-bytes);
    }
}

void wm_arena_note_completed_locked(wm_arena *arena, size_t count, size_t bytes,
                                    size_t most, size_t most_bytes)
{
    warm_space_stats *stats = &arena->stats;

    stat_raise(&stats->pending, stats->pending.current + most);
    stat_raise(&stats->pending_bytes,
               stats->pending_bytes.current + most_bytes);
    stat_settle(&stats->pending, count, 0);
    stat_settle(&stats->pending_bytes, bytes, 0);
    arena->fresh_bytes += bytes;
}

void wm_arena_note_retained_locked(wm_arena *arena, const wm_block *block,
                                   enum wm_block_state state)
{
    if (state == WM_BLOCK_LOST) {
        arena->stats.lost++;
        arena->stats.lost_bytes += block->bytes;
    } else {
        arena->stats.captured++;
        arena->stats.captured_bytes += block->bytes;
    }
}

static void note_held_locked(wm_arena *arena, bool small, uint64_t segments,
                             uint64_t bytes, bool added)
{
    sort_locked(arena->sorted, small,
                added ? sorted_segment : sorted_no_segment, segments, bytes);
    if (added) {
        stat_add(&arena->stats.segments, segments);
        stat_add(&arena->stats.held_bytes, bytes);
    } else {
        stat_sub(&arena->stats.segments, segments);
        stat_sub(&arena->stats.held_bytes, bytes);
    }
}

void wm_arena_note_segment_locked(wm_arena *arena, const wm_segment *segment,
                                  bool added)
{
    note_held_locked(arena, segment->small, 1, segment->bytes, added);
}

void wm_arena_note_part_locked(wm_arena *arena, wm_segment *segment,
                               size_t bytes, bool added)
{
    size_t before = segment->held;

    segment->held = added ? before + bytes : before - bytes;
    note_held_locked(arena, segment->small, before == 0 || segment->held == 0,
                     bytes, added);
}

/* Moves its part of the peak as well: the sum of the peaks, which readers see,
 * does not change, and is at least the peak of the sum. */
static void stat_move(warm_stat *from, warm_stat *to, uint64_t n)
{
    from->current -= n;
    from->allocated -= n;
    from->peak -= n;
    to->current += n;
    to->allocated += n;
    to->peak += n;
}

static void sorted_move(warm_device_figures *from, warm_device_figures *to,
                        uint64_t bytes)
{
    stat_move(&from->segments, &to->segments, 1);
    stat_move(&from->held_bytes, &to->held_bytes, bytes);
}

void wm_arena_note_move_locked(wm_arena *from, wm_arena *to,
                               const wm_segment *segment)
{
    size_t bytes = segment->bytes;

    stat_move(&from->stats.segments, &to->stats.segments, 1);
    stat_move(&from->stats.held_bytes, &to->stats.held_bytes, bytes);
    if (from->sorted != NULL && to->sorted != NULL) {
        sorted_move(&from->sorted->all, &to->sorted->all, bytes);
        sorted_move(
            segment->small ? &from->sorted->small : &from->sorted->large,
            segment->small ? &to->sorted->small : &to->sorted->large, bytes);
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

void wm_arena_count(wm_arena *arena, enum wm_count count)
{
    wm_lock_acquire(&arena->lock);
    arena->stats.retries += count == WM_COUNT_RETRY;
    arena->stats.failures += count == WM_COUNT_FAILURE;
    arena->stats.spilled += count == WM_COUNT_SPILL;
    wm_lock_release(&arena->lock);
}

static void reset_peak(warm_stat *stat)
{
    stat->peak = stat->current;
}

/* What is in use stays counted as allocated: allocated = current + freed. */
static void reset_total(warm_stat *stat)
{
    stat->allocated = stat->current;
    stat->freed = 0;
}

static void each_sorted(warm_device_figures *figures,
                        void (*fn)(warm_stat *stat))
{
#define EACH(name, unit, meaning) fn(&figures->name);
    WARM_DEVICE_STAT_MAP(EACH)
#undef EACH
}

static void each_stat_locked(wm_arena *arena, void (*fn)(warm_stat *stat))
{
    if (arena->sorted != NULL) {
        each_sorted(&arena->sorted->all, fn);
        each_sorted(&arena->sorted->small, fn);
        each_sorted(&arena->sorted->large, fn);
    }
#define EACH(name, unit, meaning) fn(&arena->stats.name);
    WARM_SPACE_STAT_MAP(EACH)
#undef EACH
    for (int i = 0; i < WM_CLASSES_ALL; i++) {
        fn(&arena->classes[i].live);
        fn(&arena->classes[i].requested_bytes);
        fn(&arena->classes[i].live_bytes);
    }
}

void wm_arena_reset_peaks(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    each_stat_locked(arena, reset_peak);
    wm_lock_release(&arena->lock);
}

/* lost and captured are states, not totals: they are not reset. */
void wm_arena_reset_totals(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    each_stat_locked(arena, reset_total);
    memset(&arena->stats.driver_alloc, 0, sizeof arena->stats.driver_alloc);
    memset(&arena->stats.driver_free, 0, sizeof arena->stats.driver_free);
    arena->stats.cache_hits = 0;
    arena->stats.retries = 0;
    arena->stats.failures = 0;
    arena->stats.spilled = 0;
    arena->stats.double_frees = 0;
    wm_lock_release(&arena->lock);
}
