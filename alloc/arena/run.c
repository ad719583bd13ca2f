/* run.c: records of blocks, and runs of pages. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/history.h"
#include "runtime/base/meta.h"

/* ---- records ---------------------------------------------------------- */

void wm_record_init_origins(const wm_arena *arena, wm_block *block,
                            unsigned count, char *origins)
{
    size_t bytes = wm_history_origin_bytes(arena->history);

    for (unsigned i = 0; i < count && bytes > 0; i++) {
        block[i].origin = (wm_origin *)(void *)(origins + i * bytes);
    }
}

bool wm_record_make_locked(wm_arena *arena)
{
    struct wm_chunk *chunk = wm_meta_alloc(
        sizeof *chunk +
        WM_CHUNK_RECORDS * wm_history_origin_bytes(arena->history));

    if (chunk == NULL) {
        return false;
    }
    chunk->next = arena->record_chunks;
    arena->record_chunks = chunk;
    wm_record_init_origins(arena, chunk->block, WM_CHUNK_RECORDS,
                           chunk->origins);
    for (int i = 0; i < WM_CHUNK_RECORDS; i++) {
        wm_record_give_locked(arena, &chunk->block[i]);
    }
    return true;
}

/* ---- runs ------------------------------------------------------------- */

bool wm_run_has_cell(const wm_block *run)
{
    const wm_segment *segment = run->segment;
    size_t cell = wm_run_cell(segment, run->base);

    return wm_run_cell(segment, run->before->base) != cell &&
           (run->after == NULL ||
            wm_run_cell(segment, run->after->base) != cell);
}

void wm_run_split_locked(wm_arena *arena, wm_block *block, size_t bytes)
{
    wm_block *rest = wm_run_cut_locked(arena, block, bytes);

    wm_run_link(rest);
}

/* The smaller of two runs, either of which may be null. */
static wm_block *smaller(wm_block *first, wm_block *second)
{
    if (first == NULL || second == NULL) {
        return first != NULL ? first : second;
    }
    return second->bytes < first->bytes ? second : first;
}

/* The best fit in the lane and in the common one: the smallest run. If all runs
 * are common, of some that fit nearly as well the one with the lowest address,
 * so that memory at high addresses becomes idle in large runs: the traces of
 * make bench-held hold up to 5 % less for it, but with lanes 1 to 2 % more. */
static inline wm_block *find_kind_locked(wm_arena *arena, wm_lane *lane,
                                         enum wm_run_kind kind, size_t bytes)
{
    const wm_runs *common = &arena->common.idle[kind];

    return lane == &arena->common
               ? wm_runs_find(common, bytes, WM_FIT_LOWEST)
               : smaller(
                     wm_runs_find(&lane->idle[kind], bytes, WM_FIT_SMALLEST),
                     wm_runs_find(common, bytes, WM_FIT_SMALLEST));
}

/* ---- oversize segments ------------------------------------------------ */

/* A segment obtained for one large request serves no smaller ones than a
 * SMALL_PART-th of it before growth would pass the bound, nor above it while it
 * is wholly idle, since the growth returns it then (obtain.c): a few small
 * blocks that live long would keep it from serving a large request again, and
 * from being returned. */
enum { OVERSIZE_MIN = 32 << 20, SMALL_PART = 32 };

/* All requests may use its runs, until it is wholly idle again. */
static void open_oversize_locked(wm_segment *segment)
{
    for (wm_block *run = segment->first; run != NULL; run = run->after) {
        if (wm_run_is_idle(run)) {
            wm_runs_remove(&run->lane->idle[WM_RUNS_OVERSIZE], run);
            wm_runs_insert(&run->lane->idle[WM_RUNS_LARGE], run);
        }
    }
    segment->oversize = false;
}

void wm_run_set_sort_locked(wm_arena *arena, wm_segment *segment, bool small)
{
    wm_figures *out = &arena->figures[!segment->small];
    wm_figures *in = &arena->figures[!small];

    wm_stat_sub(&out->segments, 1);
    wm_stat_sub(&out->held_bytes, segment->bytes);
    wm_stat_add(&in->segments, 1);
    wm_stat_add(&in->held_bytes, segment->bytes);
    segment->small = small;
}

bool wm_run_open_oversize_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                                 bool whole)
{
    wm_block *run = bytes > arena->small_max
                        ? find_kind_locked(arena, lane, WM_RUNS_OVERSIZE, bytes)
                        : NULL;

    if (run == NULL || (!whole && wm_run_outsizes(run, bytes))) {
        return false;
    }
    open_oversize_locked(run->segment);
    return true;
}

static bool is_large_for(const wm_segment *segment, size_t bytes)
{
    return segment->oversize && bytes < segment->region_bytes / SMALL_PART;
}

bool wm_run_outsizes(const wm_block *run, size_t bytes)
{
    return wm_run_is_segment(run) && is_large_for(run->segment, bytes);
}

bool wm_run_suits(const wm_segment *segment, size_t bytes)
{
    return segment->small == (bytes <= segment->arena->small_max) &&
           !is_large_for(segment, bytes);
}

/* The run to split, or null. */
static inline wm_block *find_locked(wm_arena *arena, wm_lane *lane,
                                    size_t bytes)
{
    bool small = bytes <= arena->small_max;
    wm_block *usual = find_kind_locked(
        arena, lane, small ? WM_RUNS_SMALL : WM_RUNS_LARGE, bytes);
    wm_block *run;

    if (small) {
        return usual;
    }
    run = find_kind_locked(arena, lane, WM_RUNS_OVERSIZE, bytes);
    return wm_likely(run == NULL) || !wm_run_suits(run->segment, bytes)
               ? usual
               : smaller(usual, run);
}

/* ---- splits and merges ------------------------------------------------- */

/* True if a poll is worth more than splitting the run for bytes: the run is
 * much larger, and since the last miss CUT_POLLS times these bytes became
 * pending: a block that fits may be complete but not polled. Without that 1.39
 * is held of the least, with 16 times 1.31, with 8 or 4 times 1.28 (base of
 * make bench-held); the fewer, the more polls. */
enum { CUT_POLLS = 8 };

static inline bool is_bad_cut(const wm_arena *arena, const wm_block *run,
                              size_t bytes, enum wm_split split)
{
    if (split == WM_SPLIT_ALLOW || split == WM_SPLIT_NO_JOIN ||
        run->bytes - bytes <= bytes / 8) {
        return false;
    }
    return split == WM_SPLIT_FORBID || arena->fresh_bytes > CUT_POLLS * bytes;
}

/* True if the neighbour, or null, can be merged with the run. */
static bool may_join(const wm_block *block, wm_block *neighbour)
{
    return wm_run_is_idle(neighbour) && neighbour->lane == block->lane;
}

/* ---- runs of several lanes ---------------------------------------------- */

wm_block *wm_run_join_lanes_locked(wm_arena *arena, wm_lane *lane,
                                   wm_block *first, size_t bytes)
{
    wm_run_unlink(first);
    if (first->lane != lane) {
        first->put_at = 0;
        wm_run_move(first, lane);
    }
    while (first->bytes < bytes || may_join(first, first->after)) {
        wm_block *next = first->after;

        wm_run_unlink(next);
        if (next->lane != lane) {
            next->put_at = 0;
        }
        wm_run_absorb_locked(arena, first);
    }
    wm_run_link(first);
    return first;
}

/* Merges the first adjacent runs of a segment that together have room for the
 * request, or null. Called when no single run fits. Walks all runs: only before
 * the arena grows. */
static wm_block *join_any_locked(wm_arena *arena, wm_lane *lane, size_t bytes)
{
    bool small = bytes <= arena->small_max;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_block *first = NULL;
        size_t sum = 0;

        if (s->small != small || s->oversize || s->bytes < bytes) {
            continue;
        }
        for (wm_block *run = s->first; run != NULL; run = run->after) {
            bool may = wm_run_may_have(arena, lane, run);

            first = may && sum > 0 ? first : run;
            sum = may ? sum + run->bytes : 0;
            if (sum >= bytes) {
                return wm_run_join_lanes_locked(arena, lane, first, bytes);
            }
        }
    }
    return NULL;
}

/* ---- allocate and free ------------------------------------------------- */

wm_block *wm_run_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                             enum wm_split split, bool *failed)
{
    wm_lane *in = wm_lane_look_locked(arena, lane);
    wm_block *block = find_locked(arena, in, bytes);

    if (block == NULL && in != &arena->common && split == WM_SPLIT_ALLOW) {
        block = join_any_locked(arena, in, bytes);
    }
    if (block == NULL || is_bad_cut(arena, block, bytes, split)) {
        arena->fresh_bytes = 0;
        return NULL;
    }
    if (wm_unlikely(in == &arena->common && lane != NULL && lane != in)) {
        in = wm_lane_in_locked(arena, lane); /* a new one */
    }
    if (in == NULL || (block->bytes > bytes && !wm_record_have_locked(arena))) {
        *failed = true;
        return NULL;
    }
    wm_run_unlink(block);
    block->segment->free_failed = block->segment->ahead = false;
    if (block->bytes > bytes) {
        wm_run_link(wm_run_cut_locked(arena, block, bytes));
    }
    if (block->lane != in) {
        wm_run_move(block, in);
    }
    return block;
}

static inline __attribute__((always_inline)) void join_locked(wm_arena *arena,
                                                              wm_block *block)
{
    wm_block_set_state(block, WM_BLOCK_IDLE);
    if (may_join(block, block->after)) {
        wm_run_unlink(block->after);
        wm_run_absorb_locked(arena, block);
    }
    if (may_join(block, block->before)) {
        block = block->before;
        wm_run_unlink(block);
        wm_run_absorb_locked(arena, block);
    }
    if (wm_run_is_segment(block)) {
        wm_segment *segment = block->segment;

        segment->oversize =
            segment->dedicated && segment->region_bytes >= OVERSIZE_MIN;
        if (wm_unlikely(segment->oversize && segment->small)) {
            wm_run_set_sort_locked(arena, segment, false);
        }
        segment->idle_since_ns = wm_clock_ns();
    }
    wm_run_link(block);
}

void wm_run_join_locked(wm_arena *arena, wm_block *block)
{
    join_locked(arena, block);
}

void wm_run_put_locked(wm_arena *arena, wm_block *block)
{
    if (wm_unlikely(block->lane->ended)) {
        wm_run_move(block, &arena->common);
    }
    block->put_at = ++block->lane->puts;
    if (block->lane != &arena->common) {
        wm_lane_note_put_locked(arena, block);
    }
    join_locked(arena, block);
}

void wm_segment_forget(wm_segment *segment)
{
    wm_page_map_cover(segment->base, segment->bytes, NULL);
    for (wm_block *run = segment->first; run != NULL; run = run->after) {
        size_t bytes = wm_run_extent(run);

        wm_page_map_set_run(run->base, bytes, NULL);
        wm_page_map_fill(run->base, bytes, &wm_page_gone);
    }
}
