/* expand.c: segments that get memory in parts, and return it in parts; see
 * arena.h. Takes lock arena in every public function. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

/* ---- pieces ------------------------------------------------------------- */

static size_t unit_at(const wm_segment *segment, const char *at)
{
    return (size_t)(at - segment->base) / segment->unit;
}

static bool is_joined(const wm_segment *segment, size_t unit)
{
    if (unit >= segment->bytes / segment->unit) {
        return false;
    }
    /* Relaxed: read under lock arena, where it is written. */
    return ((atomic_load_explicit(&segment->joined[unit / 64],
                                  memory_order_relaxed) >>
             (unit % 64)) &
            1) != 0;
}

void wm_piece_set_locked(wm_segment *segment, const char *base, size_t bytes,
                         bool mapped)
{
    size_t first = unit_at(segment, base);

    for (size_t i = first + 1; i < first + bytes / segment->unit; i++) {
        wm_bit_set_locked(segment->joined, i, mapped);
    }
}

void wm_piece_set(wm_segment *segment, const char *base, size_t bytes,
                  bool mapped)
{
    wm_lock_acquire(&segment->arena->lock);
    wm_piece_set_locked(segment, base, bytes, mapped);
    wm_lock_release(&segment->arena->lock);
}

size_t wm_piece_from_locked(const wm_segment *segment, const char *base)
{
    size_t first = unit_at(segment, base), end = first + 1;

    while (is_joined(segment, end)) {
        end++;
    }
    return (end - first) * segment->unit;
}

size_t wm_piece_from(wm_segment *segment, const char *base)
{
    size_t bytes;

    wm_lock_acquire(&segment->arena->lock);
    bytes = wm_piece_from_locked(segment, base);
    wm_lock_release(&segment->arena->lock);
    return bytes;
}

size_t wm_piece_up_to_locked(const wm_segment *segment, const char *end)
{
    size_t last = unit_at(segment, end), first = last - 1;

    while (is_joined(segment, first)) {
        first--;
    }
    return (last - first) * segment->unit;
}

size_t wm_piece_whole_locked(const wm_block *run, char **begin)
{
    const wm_segment *segment = run->segment;
    size_t unit = segment->unit, first, end;

    if (unit == 0) {
        return 0;
    }
    first = unit_at(segment, run->base + unit - 1);
    end = unit_at(segment, run->base + run->bytes);
    while (first < end && is_joined(segment, first)) {
        first++;
    }
    while (first < end && is_joined(segment, end)) {
        end--;
    }
    if (first >= end) {
        return 0;
    }
    *begin = segment->base + first * unit;
    return (end - first) * unit;
}

bool wm_piece_none_locked(const wm_block *run)
{
    size_t first = unit_at(run->segment, run->base);
    size_t end = unit_at(run->segment, run->base + run->bytes);

    for (size_t i = first; i <= end; i++) {
        if (is_joined(run->segment, i)) {
            return false;
        }
    }
    return true;
}

/* ---- gaps -------------------------------------------------------------- */

static bool is_gap(wm_block *run)
{
    return run != NULL && wm_block_state(run) == WM_BLOCK_GAP;
}

static void link_gap(wm_arena *arena, wm_block *gap)
{
    wm_block_set_state(gap, WM_BLOCK_GAP);
    wm_idle_link(&arena->gaps, gap);
}

/* Merges a gap with the gap after it. */
static void absorb_gap_locked(wm_arena *arena, wm_block *gap)
{
    wm_idle_unlink(&arena->gaps, gap->after);
    wm_run_absorb_locked(arena, gap);
}

void wm_gap_put_locked(wm_arena *arena, wm_block *run)
{
    link_gap(arena, run);
    if (is_gap(run->after)) {
        absorb_gap_locked(arena, run);
    }
    if (is_gap(run->before)) {
        absorb_gap_locked(arena, run->before);
    }
}

/* ---- ranges ------------------------------------------------------------- */

warm_status wm_expand_add(wm_arena *arena, void *base, size_t bytes,
                          size_t needed)
{
    warm_status status = wm_page_map_reserve(base, bytes);
    wm_segment *segment;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&arena->lock);
    segment = wm_segment_make_locked(arena, base, bytes, arena->unit);
    if (segment != NULL) {
        segment->small = needed <= arena->small_max;
        segment->held = 0;
        segment->made_ns = wm_clock_ns();
        wm_run_init(segment->first, segment, base, bytes);
        link_gap(arena, segment->first);
        wm_segment_link_locked(arena, segment);
    }
    wm_lock_release(&arena->lock);
    return segment != NULL ? WARM_OK
                           : wm_fail(WARM_OUT_OF_MEMORY,
                                     "no memory for the allocator's records");
}

bool wm_expand_remove(wm_arena *arena, void **base, size_t *bytes)
{
    wm_block *gap;

    wm_lock_acquire(&arena->lock);
    gap = arena->gaps;
    while (gap != NULL && gap->bytes < gap->segment->bytes) {
        gap = gap->next_idle;
    }
    if (gap != NULL) {
        wm_segment *segment = gap->segment;

        *base = segment->base;
        *bytes = segment->bytes;
        wm_idle_unlink(&arena->gaps, gap);
        wm_run_mark(segment, segment->base, false);
        wm_page_map_set_run(gap->base, gap->bytes, NULL);
        wm_segment_unlink_locked(arena, segment);
        wm_segment_give_locked(arena, segment);
    }
    wm_lock_release(&arena->lock);
    return gap != NULL;
}

bool wm_run_has_memory(wm_block *block)
{
    return wm_block_state(block) != WM_BLOCK_GAP &&
           wm_block_state(block) != WM_BLOCK_VOID;
}

void wm_expand_extent(wm_block *block, void **base, size_t *bytes)
{
    wm_arena *arena = block->segment->arena;
    wm_block *first, *last;

    wm_lock_acquire(&arena->lock);
    first = last = block->slab != NULL ? block->slab->run : block;
    while (first->before != NULL && wm_run_has_memory(first->before)) {
        first = first->before;
    }
    while (last->after != NULL && wm_run_has_memory(last->after)) {
        last = last->after;
    }
    *base = first->base;
    *bytes = (size_t)(last->base + last->bytes - first->base);
    wm_lock_release(&arena->lock);
}

/* ---- where memory is mapped --------------------------------------------- */

/* A place in a gap: at its start, at its end, or all of it. */
struct place {
    wm_block *gap, *before, *after; /* before, after: idle runs used, or null */
    size_t there, bytes;            /* bytes of those runs, bytes to map */
    bool at_end;
};

/* Bytes to map, in whole units. */
static size_t missing(size_t needed, size_t there, size_t unit)
{
    return needed > there ? (needed - there + unit - 1) / unit * unit : unit;
}

static struct place choose_locked(const wm_arena *arena, const wm_lane *lane,
                                  size_t needed)
{
    struct place best = {.gap = NULL};

    for (wm_block *gap = arena->gaps; gap != NULL; gap = gap->next_idle) {
        wm_block *before =
            wm_run_may_have(arena, lane, gap->before) ? gap->before : NULL;
        wm_block *after =
            wm_run_may_have(arena, lane, gap->after) ? gap->after : NULL;
        size_t front = before != NULL ? before->bytes : 0;
        size_t back = after != NULL ? after->bytes : 0;
        size_t unit = gap->segment->unit;
        const struct place places[] = {
            {gap, before, NULL, front, missing(needed, front, unit), false},
            {gap, NULL, after, back, missing(needed, back, unit), true},
            {gap, before, after, front + back, gap->bytes, false}};

        if (gap->segment->small != (needed <= arena->small_max)) {
            continue;
        }
        for (int i = 0; i < 3; i++) {
            const struct place *p = &places[i];

            if (p->bytes <= gap->bytes && p->there + p->bytes >= needed &&
                (best.gap == NULL || p->bytes < best.bytes ||
                 (p->bytes == best.bytes && gap->base < best.gap->base))) {
                best = *p;
            }
        }
    }
    return best;
}

static void claim_run_locked(wm_block *run)
{
    if (run != NULL) {
        wm_run_unlink(run);
        wm_block_set_state(run, WM_BLOCK_CLAIMED);
    }
}

/* Cuts the part to be mapped out of the gap, and out of the list of gaps. */
static wm_block *cut_gap_locked(wm_arena *arena, const struct place *place,
                                size_t bytes)
{
    wm_block *gap = place->gap, *part = gap, *rest = NULL;

    wm_idle_unlink(&arena->gaps, gap);
    if (bytes < gap->bytes && place->at_end) {
        part = wm_run_cut_locked(arena, gap, gap->bytes - bytes);
        rest = gap;
    } else if (bytes < gap->bytes) {
        rest = wm_run_cut_locked(arena, gap, bytes);
    }
    if (rest != NULL) {
        link_gap(arena, rest);
    }
    wm_block_set_state(part, WM_BLOCK_VOID);
    return part;
}

static void claim_locked(wm_arena *arena, const struct place *place,
                         size_t wanted, wm_expansion *expansion)
{
    wm_block *gap = place->gap;
    size_t bytes = missing(wanted, place->there, gap->segment->unit);

    bytes = bytes < place->bytes ? place->bytes : bytes;
    bytes = bytes < gap->bytes ? bytes : gap->bytes;
    claim_run_locked(place->before);
    claim_run_locked(place->after);
    *expansion = (wm_expansion){.segment = gap->segment,
                                .before = place->before,
                                .after = place->after,
                                .bytes = bytes,
                                .first = place->bytes,
                                .room = place->there + bytes};
    expansion->part = cut_gap_locked(arena, place, bytes);
}

warm_status wm_expand_claim(wm_arena *arena, wm_lane *lane, size_t needed,
                            size_t wanted, wm_expansion *expansion)
{
    warm_status status = WARM_OK;
    struct place place;

    wm_lock_acquire(&arena->lock);
    place = choose_locked(arena, wm_lane_look_locked(arena, lane), needed);
    if (place.gap == NULL) {
        status = WARM_NOT_FOUND;
    } else if (wm_lane_in_locked(arena, lane) == NULL ||
               !wm_record_have_locked(arena)) {
        status = wm_fail(WARM_OUT_OF_MEMORY,
                         "no memory for the allocator's records");
    } else {
        claim_locked(arena, &place, wanted, expansion);
    }
    wm_lock_release(&arena->lock);
    return status;
}

/* A claimed run becomes idle again; common if its stream has completed the work
 * on it meanwhile. */
static void put_claimed_locked(wm_arena *arena, wm_block *run)
{
    if (run == NULL) {
        return;
    }
    if (run->lane->ended || run->put_at <= run->lane->safe_until) {
        wm_run_move(run, &arena->common);
    }
    wm_run_join_locked(arena, run);
}

void wm_expand_fill_locked(wm_arena *arena, wm_segment *segment, wm_block *part)
{
    wm_page_map_cover(part->base, part->bytes, segment);
    wm_run_init(part, segment, part->base, part->bytes);
    part->idle_since_ns = wm_clock_ns();
    wm_run_join_locked(arena, part);
}

/* The part becomes LOST: it is unknown whether it has memory. */
static void lose_locked(wm_arena *arena, wm_segment *segment, wm_block *part)
{
    wm_page_map_cover(part->base, part->bytes, segment);
    /* The record may have served another block. */
    part->lane_id = 0;
    if (part->origin != NULL) {
        part->origin->ns = 0;
    }
    wm_block_set_requested(part, 0);
    wm_block_retain_locked(arena, part, WM_BLOCK_LOST);
}

static void note_come_locked(wm_arena *arena, const wm_expansion *expansion)
{
    /* Relaxed: see struct wm_arena. */
    atomic_fetch_add_explicit(&arena->siblings->grown, expansion->bytes,
                              memory_order_relaxed);
    wm_arena_note_part_locked(arena, expansion->segment,
                              (int64_t)expansion->bytes);
    wm_segment_log(arena, expansion->part->base, expansion->bytes,
                   WM_HISTORY_SEGMENT_MAP);
}

bool wm_expand_done(wm_arena *arena, wm_lane *lane, wm_expansion *expansion,
                    size_t bytes, wm_block **block)
{
    wm_block *part = expansion->part;
    bool failed = false;
    bool have;

    wm_lock_acquire(&arena->lock);
    have = wm_record_have_locked(arena);
    if (have) {
        note_come_locked(arena, expansion);
        wm_expand_fill_locked(arena, expansion->segment, part);
        put_claimed_locked(arena, expansion->before);
        put_claimed_locked(arena, expansion->after);
        *block = bytes > 0 ? wm_arena_take_locked(arena, lane, bytes,
                                                  WM_SPLIT_ALLOW, &failed)
                           : NULL;
    }
    wm_lock_release(&arena->lock);
    return have;
}

void wm_expand_undo(wm_arena *arena, wm_expansion *expansion, bool lost)
{
    wm_block *part = expansion->part;

    if (part == NULL) {
        return;
    }
    wm_lock_acquire(&arena->lock);
    if (lost) {
        note_come_locked(arena, expansion);
        lose_locked(arena, expansion->segment, part);
    } else {
        wm_gap_put_locked(arena, part);
    }
    put_claimed_locked(arena, expansion->before);
    put_claimed_locked(arena, expansion->after);
    wm_lock_release(&arena->lock);
}
