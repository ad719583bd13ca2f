/* expand_range.c: ranges of addresses that segments stretch in, and their
 * holes; see expand.h. */
#include "alloc/arena/expand.h"

#include "alloc/arena/arena_int.h"
#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

/* ---- holes -------------------------------------------------------------- */

static bool is_hole(wm_block *run)
{
    return run != NULL && wm_block_state(run) == WM_BLOCK_GAP;
}

void wm_gap_link_locked(wm_arena *arena, wm_block *hole)
{
    wm_block_set_state(hole, WM_BLOCK_GAP);
    hole->previous_idle = NULL;
    hole->next_idle = arena->holes;
    if (hole->next_idle != NULL) {
        hole->next_idle->previous_idle = hole;
    }
    arena->holes = hole;
}

void wm_gap_unlink_locked(wm_arena *arena, wm_block *hole)
{
    if (hole->next_idle != NULL) {
        hole->next_idle->previous_idle = hole->previous_idle;
    }
    if (hole->previous_idle != NULL) {
        hole->previous_idle->next_idle = hole->next_idle;
    } else {
        arena->holes = hole->next_idle;
    }
}

/* Its neighbour after it, a hole as well, becomes a part of it. */
static void absorb_hole_locked(wm_arena *arena, wm_block *hole)
{
    wm_block *next = hole->after;

    wm_gap_unlink_locked(arena, next);
    wm_run_mark(next->segment, next->base, false);
    wm_page_map_set(next->base, NULL, WM_ENTRY_RUN);
    hole->bytes += next->bytes;
    hole->after = next->after;
    if (hole->after != NULL) {
        hole->after->before = hole;
    }
    wm_run_move(next, NULL);
    wm_record_give_locked(arena, next);
}

void wm_gap_put_locked(wm_arena *arena, wm_block *run)
{
    wm_gap_link_locked(arena, run);
    if (is_hole(run->after)) {
        absorb_hole_locked(arena, run);
    }
    if (is_hole(run->before)) {
        absorb_hole_locked(arena, run->before);
    }
}

/* ---- ranges ------------------------------------------------------------- */

static bool add_locked(wm_arena *arena, char *base, size_t bytes, bool small)
{
    wm_segment *segment = wm_segment_record_locked(arena, bytes, arena->unit);
    wm_block *hole;

    if (segment == NULL) {
        return false;
    }
    if (!wm_record_have_locked(arena)) {
        wm_segment_record_give_locked(arena, segment);
        return false;
    }
    segment->base = base;
    segment->bytes = bytes;
    segment->arena = arena;
    segment->own = segment->whole = segment->apart = false;
    segment->small = small;
    segment->unit = arena->unit;
    segment->held = 0;
    segment->of = NULL;
    segment->made_ns = segment->idle_since_ns = wm_clock_ns();
    hole = wm_record_take_locked(arena);
    hole->before = hole->after = NULL;
    hole->put_at = 0;
    wm_run_init(hole, segment, base, bytes);
    wm_run_move(hole, &arena->common);
    wm_gap_link_locked(arena, hole);
    wm_segment_link_locked(arena, segment);
    return true;
}

warm_status wm_expand_add(wm_arena *arena, void *base, size_t bytes,
                          size_t needed)
{
    warm_status status = wm_page_map_reserve(base, bytes);
    bool added;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&arena->lock);
    added = add_locked(arena, base, bytes, needed <= arena->small_max);
    wm_lock_release(&arena->lock);
    return added ? WARM_OK
                 : wm_fail(WARM_OUT_OF_MEMORY,
                           "no memory for the allocator's records");
}

static wm_segment *find_empty_locked(wm_arena *arena)
{
    for (wm_block *h = arena->holes; h != NULL; h = h->next_idle) {
        if (h->bytes == h->segment->bytes) {
            return h->segment;
        }
    }
    return NULL;
}

bool wm_expand_remove(wm_arena *arena, void **base, size_t *bytes)
{
    wm_segment *segment;

    wm_lock_acquire(&arena->lock);
    segment = find_empty_locked(arena);
    if (segment != NULL) {
        wm_block *hole = wm_segment_first_run(segment);

        *base = segment->base;
        *bytes = segment->bytes;
        wm_gap_unlink_locked(arena, hole);
        wm_run_mark(segment, segment->base, false);
        wm_page_map_set(segment->base, NULL, WM_ENTRY_RUN);
        wm_segment_unlink_locked(arena, segment);
        wm_run_move(hole, NULL);
        wm_record_give_locked(arena, hole);
        wm_segment_record_give_locked(arena, segment);
    }
    wm_lock_release(&arena->lock);
    return segment != NULL;
}

bool wm_run_has_memory(wm_block *block)
{
    return wm_block_state(block) != WM_BLOCK_GAP &&
           wm_block_state(block) != WM_BLOCK_VOID;
}

static bool has_memory(wm_block *run)
{
    return run != NULL && wm_run_has_memory(run);
}

void wm_expand_extent(wm_block *block, void **base, size_t *bytes)
{
    wm_arena *arena = block->segment->arena;
    wm_block *first, *last;

    wm_lock_acquire(&arena->lock);
    first = last = block->slab != NULL ? block->slab->run : block;
    while (has_memory(first->before)) {
        first = first->before;
    }
    while (has_memory(last->after)) {
        last = last->after;
    }
    *base = first->base;
    *bytes = (size_t)(last->base + last->bytes - first->base);
    wm_lock_release(&arena->lock);
}
