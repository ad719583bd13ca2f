/* span.c: blocks that span segments (arena.h), for requests larger than what
 * the driver locks by one call. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "runtime/base/status.h"

/* ---- segments that adjoin ------------------------------------------------ */

/* The segment that begins where s ends, or null. Pieces of one region are next
 * to each other in the list, the lowest address first. */
static wm_segment *after_locked(const wm_arena *arena, const wm_segment *s)
{
    const char *end = s->base + s->bytes;

    for (wm_segment *n = s->next; n != NULL; n = n->next) {
        if (n->base == end) {
            return n;
        }
    }
    for (wm_segment *n = arena->segments; n != s; n = n->next) {
        if (n->base == end) {
            return n;
        }
    }
    return NULL;
}

static bool is_part(const wm_arena *arena, const wm_segment *s)
{
    return wm_run_is_segment(s->first) && wm_run_is_idle(s->first) &&
           s->first->lane == &arena->common;
}

/* Whether a block of so many bytes may begin at s; *last: the segment in which
 * it ends, *rest: its bytes there. */
static bool fits_locked(const wm_arena *arena, const wm_segment *s,
                        size_t bytes, wm_segment **last, size_t *rest)
{
    size_t piece = s->bytes, left = bytes - piece;
    wm_segment *n;

    if (piece <= arena->group->piece_bytes / 2 || piece >= bytes ||
        (arena->row > 0 && piece % arena->row != 0) || !is_part(arena, s)) {
        return false;
    }
    while ((n = after_locked(arena, s)) != NULL && is_part(arena, n) &&
           n->bytes <= piece) {
        if (left <= n->bytes) {
            *last = n;
            *rest = left;
            return true;
        }
        if (n->bytes != piece) {
            return false;
        }
        left -= piece;
        s = n;
    }
    return false;
}

/* ---- allocate and free ----------------------------------------------------
 */

/* The segment's idle run leaves its bin, and becomes part of the block. */
static void span_locked(wm_segment *segment, wm_block *block)
{
    wm_run_unlink(segment->first);
    segment->free_failed = false;
    if (segment->first == block) {
        return;
    }
    atomic_store_explicit(&segment->spanned_by, block, memory_order_relaxed);
    wm_block_set_state(segment->first, WM_BLOCK_SPANNED);
}

/* Of several places the one with the lowest address. */
wm_block *wm_span_take_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    wm_segment *first = NULL, *last = NULL, *end, *next;
    size_t rest = 0, left;
    wm_block *block;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if ((first == NULL || s->base < first->base) &&
            fits_locked(arena, s, bytes, &end, &left)) {
            first = s;
            last = end;
            rest = left;
        }
    }
    if (first == NULL) {
        return NULL;
    }
    if (rest < last->bytes && !wm_record_have_locked(arena)) {
        *failed = true;
        return NULL;
    }
    block = first->first;
    for (wm_segment *s = first; s != last; s = next) {
        next = after_locked(arena, s);
        span_locked(s, block);
        s->span_next = next;
    }
    span_locked(last, block);
    if (rest < last->bytes) {
        wm_run_split_locked(arena, last->first, rest);
    }
    block->bytes = bytes;
    return block;
}

void wm_span_end_locked(wm_arena *arena, wm_block *block)
{
    wm_segment *s = block->segment->span_next, *next;

    block->segment->span_next = NULL;
    block->bytes = block->segment->bytes;
    for (; s != NULL; s = next) {
        next = s->span_next;
        s->span_next = NULL;
        atomic_store_explicit(&s->spanned_by, NULL, memory_order_relaxed);
        wm_run_put_locked(arena, s->first);
    }
}
