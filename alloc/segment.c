/* segment.c: regions from the driver, in and out of an arena. Takes lock arena
 * in every public function. See arena_int.h. */
#include "alloc/arena_int.h"

#include "alloc/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

static void link_segment_locked(wm_arena *arena, wm_segment *segment)
{
    segment->previous = NULL;
    segment->next = arena->segments;
    if (segment->next != NULL) {
        segment->next->previous = segment;
    }
    arena->segments = segment;
}

static void unlink_segment_locked(wm_arena *arena, wm_segment *segment)
{
    if (segment->previous != NULL) {
        segment->previous->next = segment->next;
    } else {
        arena->segments = segment->next;
    }
    if (segment->next != NULL) {
        segment->next->previous = segment->previous;
    }
}

/* The one run of a wholly idle segment, else null. */
static wm_block *whole_run(wm_segment *segment)
{
    wm_block *block = wm_block_at(segment->base);

    return wm_run_is_idle(block) && block->bytes == segment->bytes ? block
                                                                   : NULL;
}

/* block: a record not in use, for the one run that the segment begins as. */
static void attach_locked(wm_arena *arena, wm_segment *segment, wm_block *block)
{
    wm_page_map_fill(segment->base, segment->bytes, segment, WM_ENTRY_INNER);
    wm_run_init(block, segment, segment->base, segment->bytes);
    block->before = NULL;
    block->after = NULL;
    link_segment_locked(arena, segment);
    wm_run_put_locked(arena, block);
}

/* block: the one run of the segment; its record stays with the caller. */
static void detach_locked(wm_arena *arena, wm_segment *segment, wm_block *block)
{
    wm_fit_tree_remove(&arena->idle, block);
    wm_block_set_state(block, WM_BLOCK_VOID);
    wm_page_map_fill(segment->base, segment->bytes, NULL, WM_ENTRY_RUN);
    wm_run_mark(segment, segment->base, false);
    unlink_segment_locked(arena, segment);
}

/* The pages of a recycled record all lie idle: none is a start. */
static wm_segment *take_segment_record_locked(wm_arena *arena, size_t bytes)
{
    size_t words = (bytes / WM_PAGE + 63) / 64;
    wm_segment **link = &arena->spare_segments;
    wm_segment *segment;

    while (*link != NULL && (*link)->words < words) {
        link = &(*link)->next;
    }
    segment = *link;
    if (segment != NULL) {
        *link = segment->next;
        return segment;
    }
    segment =
        wm_meta_alloc(sizeof *segment + words * sizeof segment->starts[0]);
    if (segment != NULL) {
        segment->words = words;
        segment->next_made = arena->all_segments;
        arena->all_segments = segment;
    }
    return segment;
}

static void give_segment_record_locked(wm_arena *arena, wm_segment *segment)
{
    segment->next = arena->spare_segments;
    arena->spare_segments = segment;
}

/* A block for the request from memory that joins the arena in the same step;
 * null, and nothing joined, without records. */
static wm_block *grow_locked(wm_arena *arena, void *base, size_t segment_bytes,
                             size_t bytes)
{
    wm_segment *segment = take_segment_record_locked(arena, segment_bytes);
    bool failed = false;
    wm_block *run;
    wm_block *taken;

    if (segment == NULL) {
        return NULL;
    }
    if (!wm_record_have_locked(arena)) {
        give_segment_record_locked(arena, segment);
        return NULL;
    }
    segment->base = base;
    segment->bytes = segment_bytes;
    segment->arena = arena;
    run = wm_record_take_locked(arena);
    attach_locked(arena, segment, run);
    taken = wm_arena_take_locked(arena, bytes, &failed);
    if (taken != NULL) {
        wm_arena_note_segment_locked(arena, segment_bytes, true);
        return taken;
    }
    detach_locked(arena, segment, run);
    wm_record_give_locked(arena, run);
    give_segment_record_locked(arena, segment);
    return NULL;
}

warm_status wm_arena_grow(wm_arena *arena, void *base, size_t segment_bytes,
                          size_t bytes, wm_block **block)
{
    warm_status status = wm_page_map_reserve(base, segment_bytes);
    wm_block *taken;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&arena->lock);
    taken = grow_locked(arena, base, segment_bytes, bytes);
    wm_lock_release(&arena->lock);
    if (taken == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the allocator's records");
    }
    *block = taken;
    return WARM_OK;
}

/* The next segment to go: any idle one if all may go, else the largest. */
static wm_segment *pick_locked(wm_segment *from, bool any, uint64_t before_ns)
{
    wm_segment *best = NULL;

    for (wm_segment *s = from; s != NULL; s = s->next) {
        if (whole_run(s) != NULL && s->idle_since_ns <= before_ns &&
            (best == NULL || s->bytes > best->bytes)) {
            best = s;
            if (any) {
                break;
            }
        }
    }
    return best;
}

wm_segment *wm_arena_detach(wm_arena *arena, size_t target, uint64_t before_ns)
{
    wm_segment *chain = NULL;
    wm_segment *from;

    wm_lock_acquire(&arena->lock);
    from = arena->segments;
    while (arena->stats.held_bytes.current - arena->detached_bytes > target) {
        wm_segment *segment = pick_locked(from, target == 0, before_ns);

        if (segment == NULL) {
            break;
        }
        if (target == 0 || from == segment) {
            from = segment->next;
        }
        segment->whole = whole_run(segment);
        detach_locked(arena, segment, segment->whole);
        arena->detached_bytes += segment->bytes;
        segment->next = chain;
        chain = segment;
    }
    wm_lock_release(&arena->lock);
    return chain;
}

void wm_arena_released(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    wm_arena_note_segment_locked(arena, segment->bytes, false);
    wm_record_give_locked(arena, segment->whole);
    give_segment_record_locked(arena, segment);
    wm_lock_release(&arena->lock);
}

void wm_arena_reattach(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    attach_locked(arena, segment, segment->whole);
    wm_lock_release(&arena->lock);
}

wm_block *wm_segment_first_run(wm_segment *segment)
{
    uintptr_t entry = wm_page_map_get(segment->base);

    if ((entry & 3) == WM_ENTRY_SLAB) {
        return ((wm_slab *)(entry & ~(uintptr_t)3))->run;
    }
    return (wm_block *)entry;
}
