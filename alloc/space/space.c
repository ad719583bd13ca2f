/* space.c: begins and ends a space; sums its statistics; brackets slow work;
 * holds the program's memory callbacks. */
#include "alloc/space/space_int.h"

#include "alloc/arena/arena.h"
#include "alloc/cache/magazine.h"
#include "alloc/stream/stream_lane.h"
#include "runtime/base/bytes.h"
#include "runtime/base/debug.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/process.h"

#include <string.h>

/* ---- begin and end ------------------------------------------------------ */

/* Between two looks at the kernel's counts of pressure. */
enum { WATCH_NS = 1000000000 };

/* Of a low and a high watermark that are both set, in bytes or as ratios. */
static bool is_ordered(uint64_t high, uint64_t low)
{
    return high == 0 || low == WARM_OFF ||
           wm_option_is_ratio(high) != wm_option_is_ratio(low) || low <= high;
}

static warm_status init_background(wm_space *space,
                                   const wm_space_traits *traits,
                                   const wm_options *options)
{
    wm_background *b = &space->background;

    if (options->pinned_high != 0 &&
        options->reserve_bytes > options->pinned_high) {
        return wm_fail(WARM_INVALID_OPTION,
                       "reserve_bytes (%s) are more than pinned_high (%s)",
                       wm_bytes(options->reserve_bytes).text,
                       wm_bytes(options->pinned_high).text);
    }
    if (!is_ordered(options->pinned_high, options->pinned_low) ||
        !is_ordered(options->device_high, options->device_low) ||
        !is_ordered(options->total_high, options->total_low)) {
        return wm_fail(WARM_INVALID_OPTION,
                       "a low watermark is above the high one: pinned_low, "
                       "device_low or total_low");
    }
    b->job = wm_meta_alloc((size_t)space->group.nodes * sizeof *b->job);
    if (b->job == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    b->space = space;
    /* Only the page-locked space has a reserve and a thread, which polls frees
     * of all spaces but returns idle segments of its own only. A device's idle
     * segments are returned when allocations of the device miss. */
    if (!traits->nodeless) {
        b->on = strcmp(options->background, "on") == 0;
        b->reserve_bytes = wm_page_round(options->reserve_bytes);
        b->reserve_node = wm_driver_device_node(space->driver, 0);
        space->group.economy.reserve = b->reserve_bytes;
    }
    wm_lock_init(&b->waker.lock, WM_RANK_BACKGROUND);
    return WARM_OK;
}

/* Arenas of a node: test:arenas=N; if that is 0, one per usable CPU of the
 * node. */
static unsigned count_shards(const wm_space *space, const wm_options *options)
{
    unsigned nodes = (unsigned)space->group.nodes;
    unsigned shards = options->arenas != 0
                          ? (unsigned)options->arenas
                          : (wm_process_cpus() + nodes - 1) / nodes;

    return shards < WM_SIBLINGS ? shards : WM_SIBLINGS;
}

static void init_arenas(wm_space *space, wm_arena *arenas, int node)
{
    wm_arena *after = wm_group_arenas(&space->group);

    for (unsigned i = space->group.shards; i-- > 0;) {
        wm_arena_init(&arenas[i], &space->group, node);
        arenas[i].history = space->group.runtime->history;
        arenas[i].next_arena = after;
        after = &arenas[i];
    }
    wm_arena_join(arenas, space->group.shards);
    /* Relaxed: no other thread has the space yet. */
    atomic_store_explicit(&space->group.all_arenas, after,
                          memory_order_relaxed);
}

warm_status wm_space_init(wm_space *space, const wm_space_traits *traits,
                          warm_runtime *runtime, wm_timelines *timelines,
                          const wm_options *options)
{
    warm_status status;

    memset(space, 0, sizeof *space);
    space->group.nodes = traits->nodeless ? 1 : runtime->driver->numa.nodes;
    space->group.shards = traits->uncached ? 1 : count_shards(space, options);
    space->group.parted = options->arenas != 0;
    space->group.arenas = wm_meta_alloc((size_t)space->group.nodes *
                                        space->group.shards * sizeof(wm_arena));
    if (space->group.arenas == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a runtime");
    }
    space->driver = runtime->driver;
    space->group.device = WM_DEVICE_UNKNOWN;
    status = init_background(space, traits, options);
    if (status != WARM_OK) {
        wm_meta_free(space->group.arenas);
        return status;
    }
    space->poller = space;
    space->limiter = space;
    space->fellows = space->all = &space->limiter;
    space->fellow_count = space->all_count = 1;
    space->pressure.root = "";
    atomic_store_explicit(&space->pressure.pause_ns, WATCH_NS,
                          memory_order_relaxed);
    space->group.waker = &space->background.waker;
    space->group.laned = traits->laned;
    space->traits = traits;
    space->group.runtime = runtime;
    space->growth.log =
        runtime->log_memory & (WM_LOG_PROFILE | WM_LOG_RELEASE | WM_LOG_LARGE);
    if (traits->touchable && runtime->debug != NULL) {
        space->group.debug = runtime->debug;
        space->group.guard_bytes = runtime->debug->guard ? WM_GUARD_BYTES : 0;
    }
    space->group.timelines = timelines;
    space->group.segment_bytes = wm_os_page_round(options->segment);
    space->chunk_bytes = options->pin_chunk & ~(wm_os_page() - 1);
    space->group.economy.slack = (size_t)options->slack * 10;
    space->group.economy.keep =
        options->keep != WARM_OFF ? (size_t)options->keep : 0;
    space->limit_wait_ns = options->limit_wait_ms != WARM_OFF
                               ? options->limit_wait_ms * 1000000u
                               : 0;
    space->decay_ns = options->decay_ms * 1000000u;
    if (options->keep != WARM_OFF && !traits->uncached) {
        space->group.magazine_blocks = (uint32_t)options->magazine_blocks;
        space->group.magazine_bytes = options->magazine_bytes;
    }
    wm_lock_init(&space->growth.lock, WM_RANK_GROWTH);
    for (int i = space->group.nodes - 1; i >= 0; i--) {
        init_arenas(space, wm_group_arena(&space->group, i),
                    traits->nodeless ? WM_NODE_UNKNOWN : i);
    }
    return WARM_OK;
}

static void forget_block(void *context, wm_block *block)
{
    wm_space *space = context;

    wm_timelines_forget(space->group.timelines, block);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void wm_space_cut(wm_space *space)
{
    wm_arena_group *group = &space->group;
    size_t piece = space->chunk_bytes;

    group->piece_bytes = piece;
    group->segment_bytes = smaller(group->segment_bytes, piece);
    group->large_bytes = smaller(group->large_bytes, piece);
    for (wm_arena *a = wm_group_arenas(group); a != NULL; a = a->next_arena) {
        a->small_max = smaller(a->small_max, piece);
    }
}

void wm_space_forget(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_arena_each_left(a, forget_block, space);
    }
}

void wm_space_fini(wm_space *space)
{
    wm_background *b = &space->background;

    wm_growth_report_released(space);

    wm_cache_fini(&space->group);
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;) {
        wm_arena *next = a->next_arena;

        wm_arena_fini(a);
        a = next;
    }
    wm_meta_free(space->group.arenas);
    wm_meta_free(b->job);
}

/* ---- figures: sums over the arenas (row B14) ----------------------------- */

/* The first arena of the next node. Reading it reads the sums of its siblings.
 */
static wm_arena *next_node(const wm_arena *arena)
{
    wm_arena *next = arena->next_arena;

    while (next != NULL && next->siblings == arena->siblings) {
        next = next->next_arena;
    }
    return next;
}

bool wm_space_check(wm_space *space)
{
    bool good = true;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = next_node(a)) {
        good = wm_arena_check(a) && good;
    }
    return good;
}

bool wm_space_check_settled(wm_space *space)
{
    size_t piece = space->group.piece_bytes;
    bool good = wm_cache_check(&space->group);

    wm_cache_merge_stats(&space->group);
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL && good;
         a = next_node(a)) {
        good = wm_arena_check_settled(a) &&
               (piece == 0 || a->small_max <= piece) &&
               (a->registry == NULL || space->poller->background.on ||
                wm_lane_registry_check(a->registry));
    }
    return good;
}

/* The arena of a private pool for graphs that has references. */
static bool is_of_graphs(const wm_arena *arena)
{
    return arena->pool != NULL && !arena->user_pool &&
           wm_arena_pool_number(arena) != 0;
}

size_t wm_space_report_used(wm_space *space, warm_destroy_report *report)
{
    warm_space_stats stats = {.size = sizeof stats};

    wm_space_stats(space, &stats);
    report->live += stats.live.current;
    report->live_bytes += stats.live_bytes.current;
    report->pending += stats.pending.current;
    if (wm_space_is_lost(space)) {
        return stats.reset_bytes;
    }
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        warm_space_stats of_pool = {.size = sizeof of_pool};

        if (is_of_graphs(a)) {
            wm_arena_stats(a, &of_pool);
            report->pool_bytes += of_pool.held_bytes.current;
            stats.captured -= of_pool.captured;
            stats.captured_bytes -= of_pool.captured_bytes;
        }
    }
    report->captured += stats.captured;
    report->captured_bytes += stats.captured_bytes;
    return 0;
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
    wm_arena_group *group = &reading->space->group;

    for (wm_arena *a = wm_group_arenas(group); a != NULL; a = next_node(a)) {
        warm_space_stats one = {.size = sizeof one};

        if (reading->node == WM_NODE_UNKNOWN || a->node == reading->node) {
            wm_arena_stats(a, &one);
            wm_stats_add(reading->stats, &one);
        }
    }
    if (reading->node == WM_NODE_UNKNOWN) { /* a node has no peaks */
        wm_live_show(&group->live, &reading->stats->live,
                     &reading->stats->live_bytes, &reading->stats->held_bytes);
    }
    if (wm_space_is_lost(reading->space)) {
        reading->stats->reset_bytes = reading->stats->held_bytes.current;
    }
}

void wm_space_stats(wm_space *space, warm_space_stats *stats)
{
    *stats = (warm_space_stats){.size = stats->size};
    read_node(&(struct reading){
        .space = space, .node = WM_NODE_UNKNOWN, .stats = stats});
}

void wm_space_settled_stats(wm_space *space, int node, warm_space_stats *stats)
{
    struct reading reading = {.space = space, .node = node, .stats = stats};

    *stats = (warm_space_stats){.size = stats->size};
    wm_cache_merge_stats_and_read(&space->group, read_node, &reading);
}

static void read_class(void *context)
{
    const struct reading *reading = context;
    wm_arena *first = wm_group_arenas(&reading->space->group);

    wm_arena_class_stats(first, reading->size_class, reading->class_stats);
    for (wm_arena *a = next_node(first); a != NULL; a = next_node(a)) {
        warm_class_stats one = {.size = sizeof one};

        wm_arena_class_stats(a, reading->size_class, &one);
        wm_class_stats_add(reading->class_stats, &one);
    }
}

void wm_space_settled_class_stats(wm_space *space, unsigned size_class,
                                  warm_class_stats *stats)
{
    struct reading reading = {
        .space = space, .size_class = size_class, .class_stats = stats};

    wm_cache_merge_stats_and_read(&space->group, read_class, &reading);
}

size_t wm_growth_held(wm_growth *growth)
{
    size_t held;

    wm_lock_acquire(&growth->lock);
    held = growth->held;
    wm_lock_release(&growth->lock);
    return held;
}

void wm_space_reset_peaks(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_arena_reset_peaks(a);
    }
    wm_cache_reset_peaks(&space->group);
    wm_lock_acquire(&space->growth.lock);
    space->growth.peak = space->growth.held;
    wm_lock_release(&space->growth.lock);
}

void wm_space_reset_totals(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_arena_reset_totals(a);
    }
    wm_histogram_reset(&space->group.driver_alloc_time);
    wm_histogram_reset(&space->group.driver_free_time);
    wm_histogram_reset(&space->growth.waits);
    wm_histogram_reset(&space->group.reuse_delay);
}

void wm_space_histograms(const wm_space *space, warm_space_histograms *sum)
{
    wm_histogram_sum(&space->group.driver_alloc_time, &sum->driver_alloc_time);
    wm_histogram_sum(&space->group.driver_free_time, &sum->driver_free_time);
    wm_histogram_sum(&space->growth.waits, &sum->growth_wait);
    wm_histogram_sum(&space->group.reuse_delay, &sum->reuse_delay);
}

/* ---- slow work ---------------------------------------------------------- */

warm_status wm_space_work_begin(wm_space *space, wm_space_work *work)
{
    work->before = wm_error_save();
    work->mode = true;
    return wm_driver_capture_mode(space->driver, &work->mode);
}

void wm_space_work_end(wm_space *space, wm_space_work *work, bool recovered)
{
    wm_driver_capture_relaxed_end(space->driver, &work->mode);
    if (recovered) {
        wm_error_restore(&work->before);
    }
}
