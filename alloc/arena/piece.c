/* piece.c: regions that the driver locked in pieces join an arena, and requests
 * with rows are served (arena.h). Takes lock arena in every public function.
 * See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/status.h"

wm_block *wm_arena_take_rows(wm_arena *arena, size_t bytes, size_t row,
                             bool *starved)
{
    wm_block *block;

    wm_lock_acquire(&arena->lock);
    arena->row = row;
    block = wm_arena_take_locked(arena, NULL, bytes, WM_SPLIT_ALLOW, starved);
    arena->row = 0;
    arena->stats.cache_hits += block != NULL;
    wm_lock_release(&arena->lock);
    return block;
}

/* ---- a new region ----------------------------------------------------------
 */

/* Removes the segments of a region, which are idle. */
static void undo_locked(wm_arena *arena, const char *base, size_t bytes)
{
    wm_segment *next;

    for (wm_segment *s = arena->segments; s != NULL; s = next) {
        next = s->next;
        if (s->base >= base && s->base < base + bytes) {
            wm_segment_detach_locked(arena, s);
            wm_segment_give_locked(arena, s);
        }
    }
}

/* From the last piece to the first, so that the list of segments has them in
 * the order of their addresses. All are for large requests, the last and
 * smallest one too. */
static bool join_pieces_locked(wm_arena *arena, char *base, size_t bytes,
                               size_t piece)
{
    for (size_t end = bytes, begin; end > 0; end = begin) {
        wm_segment *segment;

        begin = (end - 1) / piece * piece;
        segment = wm_segment_join_locked(arena, base + begin, end - begin,
                                         end - begin, false);
        if (segment == NULL) {
            undo_locked(arena, base + end, bytes - end);
            return false;
        }
        /* Of the only piece that is left of a region as well. */
        segment->region_bytes = bytes > piece ? bytes : piece + WM_PAGE;
    }
    return true;
}

static bool grow_locked(wm_arena *arena, char *base, size_t region_bytes,
                        size_t piece, size_t bytes, wm_block **block)
{
    bool failed = false;

    /* Relaxed: see struct wm_arena. */
    atomic_fetch_add_explicit(&arena->siblings->grown, region_bytes,
                              memory_order_relaxed);
    if (!join_pieces_locked(arena, base, region_bytes, piece)) {
        return false;
    }
    if (bytes > 0) {
        *block =
            wm_arena_take_locked(arena, NULL, bytes, WM_SPLIT_ALLOW, &failed);
        if (*block == NULL) {
            undo_locked(arena, base, region_bytes);
            return false;
        }
    }
    wm_arena_note_held_locked(arena, wm_block_at(base)->segment,
                              (int)((region_bytes + piece - 1) / piece),
                              (int64_t)region_bytes);
    for (size_t at = 0; at < region_bytes; at += piece) {
        size_t left = region_bytes - at;

        wm_segment_log(arena, base + at, left < piece ? left : piece,
                       WM_HISTORY_SEGMENT_ALLOC);
    }
    return true;
}

warm_status wm_arena_grow_pieces(wm_arena *arena, char *base,
                                 size_t region_bytes, size_t piece,
                                 size_t bytes, size_t row, wm_block **block)
{
    warm_status status = wm_page_map_reserve(base, region_bytes);
    wm_block *taken = NULL;
    bool grown;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&arena->lock);
    arena->row = row;
    grown = grow_locked(arena, base, region_bytes, piece, bytes, &taken);
    arena->row = 0;
    wm_lock_release(&arena->lock);
    if (!grown) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the allocator's records");
    }
    *block = taken;
    return WARM_OK;
}
