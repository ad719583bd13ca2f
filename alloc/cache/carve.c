/* carve.c: serves a request from the blocks that the calling thread caches:
 * splits one larger block, or merges adjacent ones. All other blocks stay
 * cached.
 *
 * Locks the calling thread's window and under it lock arena. Calls no driver.
 */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

/* Allocates from blocks flushed under the same lock. */
static wm_block *take_locked(wm_magazine_set *set, wm_arena *arena,
                             size_t bytes)
{
    wm_block *block;

    block = wm_arena_take_locked(arena, wm_magazine_set_lane(set, arena), bytes,
                                 WM_SPLIT_NO_JOIN, NULL);
    arena->stats.cache_hits += block != NULL;
    return block;
}

/* ---- one block ----------------------------------------------------------- */

uint64_t wm_cache_split_larger(wm_magazine_set *set, const wm_request *request,
                               wm_block **block)
{
    size_t bytes = wm_size_run_bytes(request->bytes);
    wm_block *larger = NULL;
    wm_arena *arena;
    bool suits;

    /* The oldest block of the smallest sufficient class. */
    for (unsigned i = wm_size_class(bytes); i < WM_CLASSES && larger == NULL;
         i++) {
        wm_magazine *m = &set->of[i];

        if (wm_magazine_count(m) > 0 && wm_magazine_sift(set, m, 1) > 0) {
            larger = wm_magazine_first(m)->block;
        }
    }
    if (larger == NULL) {
        return 0;
    }
    arena = larger->segment->arena;
    wm_lock_acquire(&arena->lock);
    suits = wm_run_suits(larger->segment, bytes);
    if (suits) {
        wm_cache_flush_block_locked(set, larger);
        *block = take_locked(set, arena, request->bytes);
    }
    wm_lock_release(&arena->lock);
    return suits;
}

/* ---- a row of adjacent blocks -------------------------------------------- */

/* Adjacent runs: cached by the set, or idle and usable by its lane. */
typedef struct row {
    wm_block *first;
    unsigned cached; /* runs cached by the set; 0: there is no row */
} row;

/* A search ends at a row of at most FEW_BLOCKS cached blocks. A row of more
 * than MOST_BLOCKS costs more misses than it saves: the search, under lock
 * arena, skips it. */
enum { FEW_BLOCKS = 2, MOST_BLOCKS = 32 };

/* The row of block, a cached run: the idle runs before it, then block and the
 * runs after it. most: the most cached runs in a row. */
static row row_at_locked(const wm_magazine_set *set, const wm_arena *arena,
                         const wm_lane *lane, wm_block *block, size_t bytes,
                         unsigned most)
{
    row found = {.first = block, .cached = 1};
    size_t sum = block->bytes;

    while (wm_run_may_have(arena, lane, found.first->before)) {
        found.first = found.first->before;
        sum += found.first->bytes;
    }
    for (wm_block *run = block->after; run != NULL && sum < bytes;
         run = run->after) {
        if (wm_magazine_set_caches(set, run)) {
            found.cached++;
        } else if (!wm_run_may_have(arena, lane, run)) {
            break;
        }
        if (found.cached > most) {
            break;
        }
        sum += run->bytes;
    }
    found.cached = sum >= bytes ? found.cached : 0;
    return found;
}

/* The row of the fewest cached blocks; the search stops after a class with a
 * row of FEW_BLOCKS or fewer. Larger classes are searched first. A row may
 * begin at a cached run that is of the arena and in a segment for requests of
 * so many bytes; the run is the lane's, or the lane has ended and its blocks
 * become common. */
static row find_row_locked(const wm_magazine_set *set, const wm_arena *arena,
                           const wm_lane *lane, size_t bytes)
{
    /* Blocks of slabs have no neighbours. */
    const unsigned slabs = wm_size_class_fixed(WM_SLAB_LIMIT);
    row best = {.cached = 0};
    unsigned most = MOST_BLOCKS;

    for (unsigned i = WM_CLASSES; i-- > slabs;) {
        const wm_magazine *m = &set->of[i];

        for (const wm_entry *entry = wm_magazine_first(m); entry < m->top;
             entry++) {
            wm_block *block = entry->block;
            row one = {.cached = 0};

            /* First whether the set caches it: an entry may be stale. */
            if (wm_magazine_set_caches(set, block) &&
                block->segment->arena == arena &&
                wm_run_suits(block->segment, bytes)) {
                one = row_at_locked(set, arena, lane, block, bytes, most);
            }
            if (one.cached > 0) {
                best = one;
                most = one.cached - 1;
            }
        }
        if (best.cached > 0 && best.cached <= FEW_BLOCKS) {
            break;
        }
    }
    return best;
}

/* Flushes the row's blocks and joins them to one idle run, which may be
 * longer. */
static void join_row_locked(wm_magazine_set *set, wm_arena *arena,
                            wm_lane *lane, row found, size_t bytes)
{
    wm_block *next;

    for (wm_block *run = found.first; found.cached > 0; run = next) {
        next = run->after;
        if (wm_run_is_idle(run)) {
            continue;
        }
        /* The flush may merge run with an idle next run, whose record then
         * ends. */
        next = wm_run_may_have(arena, lane, next) ? next->after : next;
        wm_cache_flush_block_locked(set, run);
        found.cached--;
    }
    (void)wm_run_join_lanes_locked(arena, lane, found.first, bytes);
}

uint64_t wm_cache_merge_row(wm_magazine_set *set, const wm_request *request,
                            wm_block **block)
{
    size_t bytes = wm_size_run_bytes(request->bytes);
    wm_arena *arena = set->arena;
    uint64_t blocks = 0;

    do {
        wm_lane *lane;
        row found;

        wm_lock_acquire(&arena->lock);
        lane = wm_lane_look_locked(arena, wm_magazine_set_lane(set, arena));
        found = find_row_locked(set, arena, lane, bytes);
        if (found.cached > 0) {
            join_row_locked(set, arena, lane, found, bytes);
            blocks += found.cached;
            *block = take_locked(set, arena, request->bytes);
        }
        wm_lock_release(&arena->lock);
        arena = wm_arena_next(set->arena, arena);
    } while (*block == NULL && arena != set->arena);
    return blocks;
}

/* ---- for a request ------------------------------------------------------- */

/* Splits a larger block; with merge, if there is none, merges a row. */
wm_block *wm_cache_carve(wm_arena_group *group, const wm_request *request,
                         bool merge)
{
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, request, &window);
    wm_block *block = NULL;

    if (set == NULL) {
        return NULL;
    }
    if (wm_arena_is_sibling(set->arena, request->arena)) {
        (void)wm_cache_split_larger(set, request, &block);
        if (merge && block == NULL) {
            (void)wm_cache_merge_row(set, request, &block);
        }
    }
    if (block != NULL) {
        wm_magazine_set_tag_block(set, block);
    }
    wm_biased_release(&window->biased);
    return block;
}
