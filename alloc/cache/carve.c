/* carve.c: room for a request out of what its own thread keeps, so that
 * nobody else need be asked: one block that is larger, or some side by side.
 * All others stay with the thread. See magazine.h.
 *
 * Takes the section of the calling thread's window and under it lock arena.
 * Calls no driver. */
#include "alloc/cache/magazine_int.h"

#include "alloc/arena/group.h"

#include "alloc/arena/arena_int.h"
#include "alloc/arena/group.h"

static bool is_cached(const wm_magazine_set *set, const wm_block *block)
{
    /* Relaxed: the set's, or not, until the section opens. */
    return atomic_load_explicit(&block->state, memory_order_relaxed) ==
           set->cached;
}

/* Out of what was given back under the same lock. */
static wm_block *take_locked(wm_magazine_set *set, wm_arena *arena,
                             size_t bytes)
{
    bool starved = false;
    wm_block *block;

    block = wm_arena_take_locked(arena, wm_magazine_set_lane(set, arena), bytes,
                                 WM_SPLIT_NO_JOIN, &starved);
    arena->stats.cache_hits += block != NULL;
    return block;
}

/* ---- one block ---------------------------------------------------------- */

/* The oldest of the smallest class that will do, or null. */
static wm_block *find_larger(wm_magazine_set *set, size_t bytes)
{
    for (unsigned i = wm_size_class(bytes); i < WM_CLASSES; i++) {
        wm_magazine *m = &set->of[i];

        if (wm_magazine_count(m) > 0 && wm_magazine_sift(set, m, 1) > 0) {
            return wm_magazine_first(m)->block;
        }
    }
    return NULL;
}

uint64_t wm_cache_split_larger(wm_magazine_set *set, const wm_request *request,
                               wm_block **block)
{
    size_t bytes = wm_size_run_bytes(request->bytes);
    wm_block *larger = find_larger(set, bytes);
    wm_arena *arena;
    bool given;

    if (larger == NULL) {
        return 0;
    }
    arena = larger->segment->arena;
    wm_lock_acquire(&arena->lock);
    given = wm_run_suits(larger->segment, bytes);
    if (given) {
        wm_cache_flush_block_locked(set, larger);
        *block = take_locked(set, arena, request->bytes);
    }
    wm_lock_release(&arena->lock);
    return given;
}

/* ---- a row of blocks ----------------------------------------------------- */

/* Runs side by side, the set's or idle ones that its lane may have. */
typedef struct row {
    wm_block *first;
    unsigned cached; /* of the set in it; 0: there is no row */
} row;

/* A row that is good enough: no better one is looked for. And one of more
 * blocks is not worth their misses; nor is a look at it, with lock arena. */
enum { FEW_BLOCKS = 2, MOST_BLOCKS = 32 };

/* From a run of the set's on, and what is idle before it. most: of the set. */
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
        if (is_cached(set, run)) {
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

/* Whether a block that the set has, perhaps, is one of the arena where requests
 * of bytes are served. It is the lane's; or that has ended, and what comes back
 * is common. A slot has no neighbours, and is smaller than that. */
static bool may_begin(const wm_magazine_set *set, const wm_arena *arena,
                      const wm_block *block, size_t bytes)
{
    /* First that it is the set's: an entry may be stale. */
    return is_cached(set, block) && block->segment->arena == arena &&
           wm_run_suits(block->segment, bytes);
}

/* That of the fewest blocks, or of few enough; large ones are looked at
 * first. */
static row find_row_locked(const wm_magazine_set *set, const wm_arena *arena,
                           const wm_lane *lane, size_t bytes)
{
    row best = {.cached = 0};
    unsigned most = MOST_BLOCKS;

    for (unsigned i = WM_CLASSES; i-- > 0;) {
        const wm_magazine *m = &set->of[i];

        for (const wm_entry *entry = wm_magazine_first(m); entry < m->top;
             entry++) {
            row one =
                may_begin(set, arena, entry->block, bytes)
                    ? row_at_locked(set, arena, lane, entry->block, bytes, most)
                    : (row){.cached = 0};

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

/* The row is one idle run then, or more if it is longer. */
static void join_row_locked(wm_magazine_set *set, wm_arena *arena,
                            wm_lane *lane, row given, size_t bytes)
{
    wm_block *next;

    for (wm_block *run = given.first; given.cached > 0; run = next) {
        next = run->after;
        if (wm_run_is_idle(run)) {
            continue;
        }
        /* What is joined has no record any more. */
        next = wm_run_may_have(arena, lane, next) ? next->after : next;
        wm_cache_flush_block_locked(set, run);
        given.cached--;
    }
    (void)wm_run_join_lanes_locked(arena, lane, given.first, bytes);
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

uint64_t wm_cache_growth_cost(const wm_arena_group *group, size_t bytes)
{
    return (1 + bytes / group->segment_bytes) *
           (group->laned ? WM_DEVICE_PRICE : WM_GROWTH_PRICE);
}

static bool growth_is_cheaper(const wm_arena_group *group, size_t bytes)
{
    /* Relaxed: an estimate that several threads add to. */
    return atomic_load_explicit(&group->reclaimed, memory_order_relaxed) >=
           wm_cache_growth_cost(group, bytes);
}

/* ---- for a request ------------------------------------------------------- */

typedef uint64_t carve_fn(wm_magazine_set *set, const wm_request *request,
                          wm_block **block);

/* One that is larger; or a row, until growth is the better deal. */
static uint64_t carve_any(wm_magazine_set *set, const wm_request *request,
                          wm_block **block)
{
    uint64_t blocks = wm_cache_split_larger(set, request, block);

    return *block == NULL && !growth_is_cheaper(set->group, request->bytes)
               ? blocks + wm_cache_merge_row(set, request, block)
               : blocks;
}

/* Every so many times that a thread could serve itself others are asked first:
 * what has passed goes to whoever wants it, and before larger runs are cut. To
 * ask each time costs twice as much as all the rest of a miss, and saves less
 * than 1 % of memory. */
enum { OWN_TURNS = 16 };

static bool is_others_turn(wm_magazine_set *set)
{
    return ++set->self_served % OWN_TURNS == 0;
}

/* alone: not in the turn of others. */
static wm_block *carve(wm_arena_group *group, const wm_request *request,
                       carve_fn *split, bool in_turns)
{
    uint64_t blocks = 0;
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, request, &window);
    wm_block *block = NULL;

    if (set == NULL) {
        return NULL;
    }
    if ((set->lane != NULL || set->footprint_stable) &&
        wm_arena_is_sibling(set->arena, request->arena) &&
        !(in_turns && is_others_turn(set))) {
        blocks = split(set, request, &block);
    }
    if (block != NULL) {
        wm_magazine_set_tag_block(set, block);
    }
    wm_section_unlock(&window->section);
    /* Nothing found costs a look at a dozen entries, 3 % of what misses do:
     * charged as well a device's traces hold 1 % and 3 % more, for as many
     * instructions. */
    if (blocks > 0 && group->laned) {
        /* Relaxed: an estimate that several threads add to. */
        atomic_fetch_add_explicit(&group->reclaimed, WM_RECLAIM_PRICE + blocks,
                                  memory_order_relaxed);
    }
    return block;
}

wm_block *wm_cache_take_own(wm_arena_group *group, const wm_request *request)
{
    return request->epoch != 0 ? carve(group, request, carve_any, true) : NULL;
}

wm_block *wm_cache_take_larger(wm_arena_group *group, const wm_request *request)
{
    return carve(group, request, wm_cache_split_larger, false);
}

wm_block *wm_cache_take_row(wm_arena_group *group, const wm_request *request)
{
    return request->epoch != 0 ? carve(group, request, carve_any, false) : NULL;
}
