/* arena_stats.c: figures of an arena (row B14): counted under lock arena, and
 * summed over its siblings for readers.
 *
 * A thread counts in one arena what it does to the blocks of all siblings: a
 * single figure may wrap below 0, their sum does not. Figures of what callers
 * hold lack the tallies that magazine sets have not merged yet. Peaks are those
 * of a space (live.h): the peak of each figure here stays 0. */
#include "alloc/arena/arena_int.h"
#include "alloc/arena/group.h"

#include "alloc/block/page_map.h"

/* ---- counting: lock arena ----------------------------------------------- */

static void stat_change(warm_stat *stat, int64_t change)
{
    if (change >= 0) {
        wm_stat_add(stat, (uint64_t)change);
    } else {
        wm_stat_sub(stat, (uint64_t)-change);
    }
}

void wm_arena_merge_tally_locked(wm_arena *arena, unsigned size_class,
                                 const wm_tally *tally)
{
    struct wm_class_figures *figures = &arena->classes[size_class];

    wm_total_add(&figures->live, tally->blocks, tally->allocs);
    wm_total_add(&figures->requested_bytes, tally->asked, tally->taken);
    wm_total_add(&figures->live_bytes, tally->bytes,
                 tally->allocs * wm_class_bytes(size_class));
    arena->stats.cache_hits += tally->allocs;
}

void wm_arena_note_pending_locked(wm_arena *arena, int64_t count, int64_t bytes)
{
    if (count >= 0) {
        wm_stat_add(&arena->stats.pending, (uint64_t)count);
        wm_stat_add(&arena->stats.pending_bytes, (uint64_t)bytes);
        arena->fresh_bytes += (size_t)bytes;
    } else {
        wm_stat_sub(&arena->stats.pending, (uint64_t)-count);
        wm_stat_sub(&arena->stats.pending_bytes, (uint64_t)-bytes);
    }
}

void wm_arena_note_completed_locked(wm_arena *arena, size_t count, size_t bytes)
{
    warm_space_stats *stats = &arena->stats;

    stats->pending.allocated += count;
    stats->pending.freed += count;
    stats->pending_bytes.allocated += bytes;
    stats->pending_bytes.freed += bytes;
    arena->fresh_bytes += bytes;
}

void wm_block_retain_locked(wm_arena *arena, wm_block *block,
                            enum wm_block_state state)
{
    if (state == WM_BLOCK_LOST) {
        arena->stats.lost++;
        arena->stats.lost_bytes += block->bytes;
    } else {
        arena->stats.captured++;
        arena->stats.captured_bytes += block->bytes;
    }
    wm_block_set_state(block, state);
}

void wm_arena_note_held_locked(wm_arena *arena, const wm_segment *segment,
                               int segments, int64_t bytes)
{
    wm_figures *figures = &arena->figures[!segment->small];

    stat_change(&arena->stats.segments, segments);
    stat_change(&arena->stats.held_bytes, bytes);
    stat_change(&figures->segments, segments);
    stat_change(&figures->held_bytes, bytes);
    if (arena->group != NULL) {
        wm_claim_add(&arena->group->live.held, bytes);
    }
}

/* Moves n from one arena's figure to another's. */
static void stat_move(warm_stat *from, warm_stat *to, uint64_t n)
{
    from->current -= n;
    from->allocated -= n;
    to->current += n;
    to->allocated += n;
}

void wm_arena_note_move_locked(wm_arena *from, wm_arena *to,
                               const wm_segment *segment)
{
    wm_figures *out = &from->figures[!segment->small];
    wm_figures *in = &to->figures[!segment->small];

    stat_move(&from->stats.segments, &to->stats.segments, 1);
    stat_move(&from->stats.held_bytes, &to->stats.held_bytes, segment->bytes);
    stat_move(&out->segments, &in->segments, 1);
    stat_move(&out->held_bytes, &in->held_bytes, segment->bytes);
}

/* min_ns and max_ns are 0 if there was no call since peaks were reset. */
static void duration_sum(warm_duration *sum, const warm_duration *one)
{
    if (sum->min_ns == 0 || (one->min_ns > 0 && one->min_ns < sum->min_ns)) {
        sum->min_ns = one->min_ns;
    }
    if (one->max_ns > sum->max_ns) {
        sum->max_ns = one->max_ns;
    }
    sum->count += one->count;
    sum->total_ns += one->total_ns;
}

void wm_arena_count_driver(wm_arena *arena, bool free, uint64_t ns)
{
    const warm_duration one = {
        .count = 1, .total_ns = ns, .min_ns = ns, .max_ns = ns};

    wm_histogram_add(free ? &arena->group->driver_free_time
                          : &arena->group->driver_alloc_time,
                     ns);
    wm_lock_acquire(&arena->lock);
    duration_sum(free ? &arena->stats.driver_free : &arena->stats.driver_alloc,
                 &one);
    wm_lock_release(&arena->lock);
}

void wm_arena_count(wm_arena *arena, enum wm_count count)
{
    wm_lock_acquire(&arena->lock);
    arena->stats.retries += count == WM_COUNT_RETRY;
    arena->stats.failures += count == WM_COUNT_FAILURE;
    arena->stats.spilled += count == WM_COUNT_SPILL;
    arena->stats.overruns += count == WM_COUNT_OVERRUN;
    arena->stats.late_writes += count == WM_COUNT_LATE_WRITE;
    wm_lock_release(&arena->lock);
}

/* Memory in use stays counted as allocated (allocated = current + freed). */
static void reset_total(warm_stat *stat)
{
    stat->allocated = stat->current;
    stat->freed = 0;
}

static void reset_extremes(warm_duration *duration)
{
    duration->min_ns = duration->max_ns = 0;
}

void wm_arena_reset_peaks(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    reset_extremes(&arena->stats.driver_alloc);
    reset_extremes(&arena->stats.driver_free);
    wm_lock_release(&arena->lock);
}

static void reset_sum(warm_duration *duration)
{
    duration->count = duration->total_ns = 0;
}

/* lost and captured are states, not totals: they are not reset. */
void wm_arena_reset_totals(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
#define RESET(name, unit, meaning) reset_total(&arena->stats.name);
    WARM_SPACE_PEAK_MAP(RESET)
    WARM_SPACE_STAT_MAP(RESET)
#undef RESET
    for (int i = 0; i < 2; i++) {
        wm_figures *f = &arena->figures[i];

        reset_total(&f->segments);
        reset_total(&f->held_bytes);
        f->draining.allocated = f->draining.current;
        f->draining_bytes.allocated = f->draining_bytes.current;
    }
    for (int i = 0; i < WM_CLASSES_ALL; i++) {
        struct wm_class_figures *f = &arena->classes[i];

        f->live.allocated = f->live.current;
        f->requested_bytes.allocated = f->requested_bytes.current;
        f->live_bytes.allocated = f->live_bytes.current;
    }
    reset_sum(&arena->stats.driver_alloc);
    reset_sum(&arena->stats.driver_free);
    arena->stats.cache_hits = arena->stats.retries = arena->stats.failures = 0;
    arena->stats.spilled = arena->stats.double_frees = 0;
    arena->stats.above_bound = 0;
    arena->stats.overruns = arena->stats.late_writes = 0;
    wm_lock_release(&arena->lock);
}

/* ---- sums --------------------------------------------------------------- */

static void stat_sum(warm_stat *sum, const warm_stat *one)
{
    sum->current += one->current;
    sum->peak += one->peak;
    sum->allocated += one->allocated;
    sum->freed += one->freed;
}

void wm_stats_add(warm_space_stats *sum, const warm_space_stats *one)
{
#define STAT(name, unit, meaning)     stat_sum(&sum->name, &one->name);
#define DURATION(name, unit, meaning) duration_sum(&sum->name, &one->name);
#define COUNT(name, unit, meaning)    sum->name += one->name;
    WARM_SPACE_PEAK_MAP(STAT)
    WARM_SPACE_STAT_MAP(STAT)
    WARM_SPACE_DURATION_MAP(DURATION)
    WARM_SPACE_COUNT_MAP(COUNT)
#undef STAT
#undef DURATION
#undef COUNT
}

void wm_class_stats_add(warm_class_stats *sum, const warm_class_stats *one)
{
    stat_sum(&sum->live, &one->live);
    stat_sum(&sum->requested_bytes, &one->requested_bytes);
    stat_sum(&sum->live_bytes, &one->live_bytes);
}

static void total_to(warm_stat *sum, const wm_total *one)
{
    sum->current += one->current;
    sum->allocated += one->allocated;
}

/* A figure as a reader sees it: at least 0, at most most, and with freed =
 * allocated - current. */
static void show(warm_stat *stat, uint64_t most)
{
    if ((int64_t)stat->current < 0) {
        stat->current = 0;
    }
    if (stat->current > most) {
        stat->current = most;
    }
    stat->freed = stat->allocated - stat->current;
}

/* A peak is at least the current value, since a thread may have claimed more
 * since the peak was raised. */
static uint64_t peak_of(const wm_claim *claim, uint64_t current)
{
    uint64_t peak = (uint64_t)wm_claim_peak(claim);

    return peak > current ? peak : current;
}

/* What is held is read last: at any time it was at least what callers had. */
void wm_live_show(const wm_live *live, warm_stat *blocks, warm_stat *bytes,
                  warm_stat *held)
{
    uint64_t most;

    blocks->peak = peak_of(&live->blocks, blocks->current);
    bytes->peak = peak_of(&live->bytes, bytes->current);
    atomic_thread_fence(memory_order_acquire);
    held->peak = most = peak_of(&live->held, held->current);
    if (bytes->peak > most) {
        bytes->peak = most > bytes->current ? most : bytes->current;
    }
}

void wm_arena_stats(wm_arena *arena, warm_space_stats *stats)
{
    size_t out = 0;

    *stats = (warm_space_stats){.size = stats->size};
    wm_arena_lock_all(arena);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        out += a->out_bytes - wm_transfer_bytes(&a->transfer_cache);
        wm_stats_add(stats, &a->stats);
        for (int i = 0; i < WM_CLASSES_ALL; i++) {
            total_to(&stats->live, &a->classes[i].live);
            total_to(&stats->requested_bytes, &a->classes[i].requested_bytes);
            total_to(&stats->live_bytes, &a->classes[i].live_bytes);
        }
    }
    wm_arena_unlock_all(arena);
    /* Below 0 if a transfer cache has a block that was freed twice. */
    out = (int64_t)out > 0 ? out : 0;
    show(&stats->live, UINT64_MAX);
    show(&stats->requested_bytes, out);
    show(&stats->live_bytes, out);
    stats->cached_bytes = out - stats->live_bytes.current;
    stats->idle_bytes = stats->held_bytes.current - out + stats->cached_bytes -
                        stats->pending_bytes.current - stats->lost_bytes -
                        stats->captured_bytes;
}

size_t wm_arena_idle(wm_arena *arena)
{
    size_t idle = 0;

    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        wm_lock_acquire(&a->lock);
        idle += a->stats.held_bytes.current - a->out_bytes +
                wm_transfer_bytes(&a->transfer_cache) -
                a->stats.pending_bytes.current - a->stats.lost_bytes -
                a->stats.captured_bytes;
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
        wm_lock_acquire(&a->lock);
        total_to(&stats->live, &a->classes[size_class].live);
        total_to(&stats->requested_bytes,
                 &a->classes[size_class].requested_bytes);
        total_to(&stats->live_bytes, &a->classes[size_class].live_bytes);
        wm_lock_release(&a->lock);
    }
    show(&stats->live, UINT64_MAX);
    show(&stats->requested_bytes, UINT64_MAX);
    show(&stats->live_bytes, UINT64_MAX);
}

size_t wm_arena_largest(wm_arena *arena)
{
    size_t largest = 0;

    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        wm_lock_acquire(&a->lock);
        for (wm_segment *s = a->segments; s != NULL; s = s->next) {
            for (wm_block *run = s->first; run != NULL; run = run->after) {
                if (run->bytes > largest &&
                    (wm_block_state(run) == WM_BLOCK_IDLE ||
                     wm_block_state(run) == WM_BLOCK_CACHED)) {
                    largest = run->bytes;
                }
            }
        }
        wm_lock_release(&a->lock);
    }
    return largest;
}

/* ---- by small and large requests ---------------------------------------- */

static void add_figures(warm_device_figures *sum,
                        const warm_device_figures *one)
{
#define STAT(name, unit, meaning)  stat_sum(&sum->name, &one->name);
#define COUNT(name, unit, meaning) sum->name += one->name;
    WARM_DEVICE_PEAK_MAP(STAT)
    WARM_DEVICE_STAT_MAP(STAT)
    WARM_DEVICE_COUNT_MAP(COUNT)
#undef STAT
#undef COUNT
}

/* of: figures of small and of large requests. */
static void add_kinds_locked(const wm_arena *arena, warm_device_figures of[2])
{
    for (unsigned i = 0; i < WM_CLASSES_ALL; i++) {
        const struct wm_class_figures *f = &arena->classes[i];
        warm_device_figures *sum =
            &of[i == WM_CLASS_PAGES || wm_class_bytes(i) > arena->small_max];

        total_to(&sum->live, &f->live);
        total_to(&sum->requested_bytes, &f->requested_bytes);
        total_to(&sum->live_bytes, &f->live_bytes);
        total_to(&sum->active, &f->live);
        total_to(&sum->active_bytes, &f->live_bytes);
    }
    for (int i = 0; i < 2; i++) {
        total_to(&of[i].active, &arena->figures[i].draining);
        total_to(&of[i].active_bytes, &arena->figures[i].draining_bytes);
        stat_sum(&of[i].segments, &arena->figures[i].segments);
        stat_sum(&of[i].held_bytes, &arena->figures[i].held_bytes);
        of[i].held_bytes.current -= arena->paused_bytes[i];
    }
}

static void add_shown(warm_device_figures *figures, warm_device_figures *sum)
{
#define SHOW(name, unit, meaning) show(&sum->name, UINT64_MAX);
    WARM_DEVICE_PEAK_MAP(SHOW)
    WARM_DEVICE_STAT_MAP(SHOW)
#undef SHOW
    add_figures(figures, sum);
}

void wm_arena_sorted_stats(wm_arena *arena, warm_device_stats *stats)
{
    warm_device_figures of[2] = {{.inactive_split = 0}}, all = of[0];
    warm_space_stats sum = {.size = sizeof sum};
    size_t paused = 0;

    wm_arena_lock_all(arena);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        wm_stats_add(&sum, &a->stats);
        paused += a->paused_bytes[0] + a->paused_bytes[1];
        add_kinds_locked(a, of);
    }
    wm_arena_unlock_all(arena);
    stats->retries += sum.retries;
    stats->failures += sum.failures;
    stats->captured += sum.captured;
    stats->captured_bytes += sum.captured_bytes;
    stats->lost += sum.lost;
    stats->lost_bytes += sum.lost_bytes;
    stats->cache_hits += sum.cache_hits;
    stats->above_bound += sum.above_bound;
    duration_sum(&stats->driver_alloc, &sum.driver_alloc);
    duration_sum(&stats->driver_free, &sum.driver_free);
    add_figures(&all, &of[0]);
    add_figures(&all, &of[1]);
    /* A segment that changed its sort counts as obtained twice in both. */
    all.segments = sum.segments;
    all.held_bytes = sum.held_bytes;
    all.held_bytes.current -= paused;
    add_shown(&stats->all, &all);
    add_shown(&stats->small, &of[0]);
    add_shown(&stats->large, &of[1]);
}

/* Idle in the arena, or cached by a thread. */
static bool is_inactive(wm_block *block)
{
    return wm_block_state(block) == WM_BLOCK_IDLE ||
           wm_block_state(block) == WM_BLOCK_CACHED;
}

/* The idle memory of a segment that is not wholly idle. */
static warm_device_figures split_of(wm_segment *segment)
{
    warm_device_figures split = {.inactive_split = 0};

    for (wm_block *run = segment->first; run != NULL; run = run->after) {
        wm_block *before = run->before;

        if (wm_block_state(run) == WM_BLOCK_SLAB) {
            wm_slab *slab = wm_slab_of_run_locked(run);

            for (unsigned i = 0; i < slab->slots; i++) {
                bool inactive = is_inactive(&slab->slot[i]);

                split.inactive_split += inactive;
                split.inactive_split_bytes += inactive ? slab->slot_bytes : 0;
            }
        } else if (is_inactive(run)) {
            /* Adjacent inactive runs count as one: they merge once the thread
             * caches are flushed. */
            split.inactive_split += before == NULL || !is_inactive(before) ||
                                    before->lane != run->lane;
            split.inactive_split_bytes += run->bytes;
        }
    }
    return split.inactive_split_bytes < segment->bytes
               ? split
               : (warm_device_figures){.inactive_split = 0};
}

void wm_arena_split_stats(wm_arena *arena, warm_device_stats *stats)
{
    wm_arena_lock_all(arena);
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        for (wm_segment *s = a->segments; s != NULL; s = s->next) {
            const warm_device_figures split = split_of(s);

            add_figures(&stats->all, &split);
            add_figures(s->small ? &stats->small : &stats->large, &split);
        }
    }
    wm_arena_unlock_all(arena);
}
