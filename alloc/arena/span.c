/* span.c: blocks that span segments (arena.h), for requests larger than what
 * the driver locks by one call. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"

/* ---- segments that adjoin ------------------------------------------------ */

/* Two lists in the order of addresses become one. */
static wm_segment *merge(wm_segment *one, wm_segment *other)
{
    wm_segment *first = NULL, **end = &first;

    while (one != NULL && other != NULL) {
        wm_segment **lower = one->base < other->base ? &one : &other;

        *end = *lower;
        end = &(*lower)->next_above;
        *lower = *end;
    }
    *end = one != NULL ? one : other;
    return first;
}

/* More lists of 2^i segments than an address space has. */
enum { SIZES = 48 };

/* All segments in the order of their addresses, chained by next_above. */
static wm_segment *sort_locked(const wm_arena *arena)
{
    wm_segment *sorted[SIZES] = {NULL}; /* of 2^i segments, or null */
    wm_segment *all = NULL;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_segment *list = s;
        int i = 0;

        s->next_above = NULL;
        for (; sorted[i] != NULL; i++) {
            list = merge(sorted[i], list);
            sorted[i] = NULL;
        }
        sorted[i] = list;
    }
    for (int i = 0; i < SIZES; i++) {
        all = merge(sorted[i], all);
    }
    return all;
}

/* A place for a block: from an idle run to the end of its segment, and on. */
struct place {
    wm_block *first;
    wm_segment *last;
    size_t rest; /* bytes of the block in the last segment */
};

static bool is_idle(const wm_arena *arena, wm_block *run)
{
    return wm_run_may_have(arena, &arena->common, run);
}

/* The idle run with which a block may begin in the segment, or null. */
static wm_block *beginning(const wm_arena *arena, const wm_segment *s)
{
    wm_block *run;

    if (s->small || s->bytes <= arena->group->piece_bytes / 2 ||
        (arena->row > 0 && s->bytes % arena->row != 0)) {
        return NULL;
    }
    run = wm_block_at(s->base + s->bytes - WM_PAGE);
    return run != NULL && run->slab == NULL && is_idle(arena, run) &&
                   run->segment == s &&
                   run->base + run->bytes == s->base + s->bytes &&
                   (arena->row == 0 || run->base == s->base)
               ? run
               : NULL;
}

/* The place with the lowest address for a block that must span segments; first:
 * null if there is none. */
static struct place find_locked(const wm_arena *arena, size_t bytes)
{
    struct place place = {.first = NULL};
    size_t left = 0;

    for (wm_segment *s = sort_locked(arena); s != NULL; s = s->next_above) {
        const wm_segment *last = place.last;
        bool goes_on =
            place.first != NULL && !s->small && is_idle(arena, s->first) &&
            last->base + last->bytes == s->base && s->bytes <= last->bytes;

        place.last = s;
        if (goes_on && left <= s->first->bytes) {
            place.rest = left;
            return place;
        }
        if (!goes_on || s->bytes < last->bytes || s->first->bytes < s->bytes) {
            place.first = beginning(arena, s);
            left = bytes;
        }
        if (place.first != NULL) {
            left -= place.first->segment == s ? place.first->bytes : s->bytes;
        }
    }
    place.first = NULL;
    return place;
}

/* ---- allocate and free ----------------------------------------------------
 */

wm_block *wm_span_take_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    struct place place = {.first = NULL};
    wm_block *block;
    wm_segment *s, *next;

    /* The search sorts all segments. */
    if (arena->common.idle_bytes >= bytes) {
        place = find_locked(arena, bytes);
    }
    block = place.first;
    if (block == NULL) {
        return NULL;
    }
    if (place.rest < place.last->first->bytes &&
        !wm_record_have_locked(arena)) {
        *failed = true;
        return NULL;
    }
    wm_run_unlink(block);
    block->segment->free_failed = false;
    for (s = block->segment; s != place.last; s = next) {
        next = s->next_above;
        s->span_next = next;
        next->free_failed = false;
        wm_run_unlink(next->first);
        if (next == place.last && place.rest < next->first->bytes) {
            wm_run_split_locked(arena, next->first, place.rest);
        }
        atomic_store_explicit(&next->spanned_by, block, memory_order_relaxed);
        wm_block_set_state(next->first, WM_BLOCK_SPANNED);
    }
    wm_block_set_bytes(block, bytes);
    return block;
}

void wm_span_cut_locked(wm_arena *arena, wm_block *block, size_t bytes)
{
    const char *from = block->base + block->bytes, *to = block->base + bytes;
    wm_segment *s = block->segment, *next;

    wm_block_set_bytes(block, wm_run_extent(block));
    for (; s->base + s->bytes < from; s = next) {
        wm_block *part;

        next = s->span_next;
        part = next->first;
        if (next->base >= to) {
            s->span_next = NULL;
            atomic_store_explicit(&next->spanned_by, NULL,
                                  memory_order_relaxed);
            wm_run_put_locked(arena, part);
        } else if (to < next->base + part->bytes) {
            wm_run_put_locked(
                arena,
                wm_run_cut_locked(arena, part, (size_t)(to - next->base)));
        }
    }
    if (bytes > block->bytes) {
        wm_block_set_bytes(block, bytes);
    }
}

void wm_span_end_locked(wm_arena *arena, wm_block *block)
{
    wm_span_cut_locked(arena, block, 0);
}
