/* expand_range.c: address ranges of expandable segments, and their gaps; see
 * expand.h. */
#include "alloc/arena/expand.h"

#include "alloc/arena/arena_int.h"
#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

/* ---- gaps -------------------------------------------------------------- */

static bool is_gap(wm_block *run)
{
    return run != NULL && wm_block_state(run) == WM_BLOCK_GAP;
}

void wm_gap_link_locked(wm_arena *arena, wm_block *gap)
{
    wm_block_set_state(gap, WM_BLOCK_GAP);
    gap->previous_idle = NULL;
    gap->next_idle = arena->gaps;
    if (gap->next_idle != NULL) {
        gap->next_idle->previous_idle = gap;
    }
    arena->gaps = gap;
}

void wm_gap_unlink_locked(wm_arena *arena, wm_block *gap)
{
    if (gap->next_idle != NULL) {
        gap->next_idle->previous_idle = gap->previous_idle;
    }
    if (gap->previous_idle != NULL) {
        gap->previous_idle->next_idle = gap->next_idle;
    } else {
        arena->gaps = gap->next_idle;
    }
}

/* Merges a gap with the gap after it. */
static void absorb_gap_locked(wm_arena *arena, wm_block *gap)
{
    wm_block *next = gap->after;

    wm_gap_unlink_locked(arena, next);
    wm_run_mark(next->segment, next->base, false);
    wm_page_map_set(next->base, NULL, WM_ENTRY_RUN);
    gap->bytes += next->bytes;
    gap->after = next->after;
    if (gap->after != NULL) {
        gap->after->before = gap;
    }
    wm_run_move(next, NULL);
    wm_record_give_locked(arena, next);
}

void wm_gap_put_locked(wm_arena *arena, wm_block *run)
{
    wm_gap_link_locked(arena, run);
    if (is_gap(run->after)) {
        absorb_gap_locked(arena, run);
    }
    if (is_gap(run->before)) {
        absorb_gap_locked(arena, run->before);
    }
}

/* ---- ranges ------------------------------------------------------------- */

static bool add_locked(wm_arena *arena, char *base, size_t bytes, bool small)
{
    wm_segment *segment = wm_segment_record_locked(arena, bytes, arena->unit);
    wm_block *gap;

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
    segment->dedicated = segment->one_run = segment->oversize = false;
    segment->small = small;
    segment->unit = arena->unit;
    segment->held = 0;
    segment->parent = NULL;
    segment->made_ns = segment->idle_since_ns = wm_clock_ns();
    gap = wm_record_take_locked(arena);
    gap->before = gap->after = NULL;
    gap->put_at = 0;
    wm_run_init(gap, segment, base, bytes);
    wm_run_move(gap, &arena->common);
    wm_gap_link_locked(arena, gap);
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
    for (wm_block *h = arena->gaps; h != NULL; h = h->next_idle) {
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
        wm_block *gap = wm_segment_first_run(segment);

        *base = segment->base;
        *bytes = segment->bytes;
        wm_gap_unlink_locked(arena, gap);
        wm_run_mark(segment, segment->base, false);
        wm_page_map_set(segment->base, NULL, WM_ENTRY_RUN);
        wm_segment_unlink_locked(arena, segment);
        wm_run_move(gap, NULL);
        wm_record_give_locked(arena, gap);
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
