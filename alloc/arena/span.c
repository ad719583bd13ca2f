/* span.c: blocks that span segments (arena.h), for requests larger than what
 * the driver locks by one call. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "runtime/base/status.h"

/* ---- segments that adjoin ------------------------------------------------ */

/* Two lists in the order of addresses become one; chained by span_next, which
 * idle segments do not use. */
static wm_segment *merge(wm_segment *one, wm_segment *other)
{
    wm_segment *first = NULL, **end = &first;

    while (one != NULL && other != NULL) {
        wm_segment **lower = one->base < other->base ? &one : &other;

        *end = *lower;
        end = &(*lower)->span_next;
        *lower = *end;
    }
    *end = one != NULL ? one : other;
    return first;
}

/* More lists of 2^i segments than an address space has. */
enum { SIZES = 48 };

/* The wholly idle segments that any stream may use, in the order of their
 * addresses. */
static wm_segment *list_locked(const wm_arena *arena)
{
    wm_segment *sorted[SIZES] = {NULL}; /* of 2^i segments, or null */
    wm_segment *all = NULL;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_segment *list = s;
        int i = 0;

        if (!wm_run_is_segment(s->first) ||
            !wm_run_may_have(arena, &arena->common, s->first)) {
            continue;
        }
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

/* A place for a block. */
struct place {
    wm_segment *first, *last;
    size_t rest; /* bytes of the block in the last */
};

static bool may_begin(const wm_arena *arena, const wm_segment *s)
{
    return s->bytes > arena->group->piece_bytes / 2 &&
           (arena->row == 0 || s->bytes % arena->row == 0);
}

/* The place with the lowest address for a block that must span segments; first:
 * null if there is none. */
static struct place find_locked(const wm_arena *arena, wm_segment *list,
                                size_t bytes)
{
    struct place place = {.first = NULL};
    size_t left = 0;

    for (wm_segment *s = list; s != NULL; s = s->span_next) {
        const wm_segment *last = place.last;
        bool goes_on =
            place.first != NULL && last->base + last->bytes == s->base &&
            last->bytes == place.first->bytes && s->bytes <= last->bytes;

        if (goes_on && left <= s->bytes) {
            place.last = s;
            place.rest = left;
            return place;
        }
        if (!goes_on || s->bytes < last->bytes) {
            place.first = may_begin(arena, s) ? s : NULL;
            left = bytes;
        }
        place.last = s;
        left -= s->bytes < left ? s->bytes : left;
    }
    place.first = NULL;
    return place;
}

/* Leaves the chain of the place's segments alone. */
static void unchain(wm_segment *list, const struct place *place)
{
    bool inside = false;

    for (wm_segment *s = list, *next; s != NULL; s = next) {
        next = s->span_next;
        inside |= s == place->first;
        if (!inside || s == place->last) {
            s->span_next = NULL;
            inside = false;
        }
    }
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

wm_block *wm_span_take_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    wm_segment *list = list_locked(arena);
    struct place place = find_locked(arena, list, bytes);
    bool cuts = place.first != NULL && place.rest < place.last->bytes;
    wm_block *block;

    if (cuts && !wm_record_have_locked(arena)) {
        *failed = true;
        place.first = NULL;
    }
    unchain(list, &place);
    if (place.first == NULL) {
        return NULL;
    }
    block = place.first->first;
    for (wm_segment *s = place.first; s != NULL; s = s->span_next) {
        span_locked(s, block);
    }
    if (cuts) {
        wm_run_split_locked(arena, place.last->first, place.rest);
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
