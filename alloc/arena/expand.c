/* expand.c: see expand.h. Takes lock arena in every public function. */
#include "alloc/arena/expand.h"

#include "alloc/arena/arena_int.h"
#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- where memory is mapped --------------------------------------------- */

static size_t idle_beside(const wm_arena *arena, const wm_lane *lane,
                          wm_block *run)
{
    return wm_run_is_idle(run) &&
                   (run->lane == lane || run->lane == &arena->common)
               ? run->bytes
               : 0;
}

/* A place in a gap, and how much memory it needs. */
struct place {
    wm_block *gap;
    size_t bytes, before, after; /* before, after: bytes used, or 0 */
    bool at_end;
};

/* Bytes to map, in whole units. */
static size_t missing(size_t needed, size_t there, size_t unit)
{
    return needed > there ? round_up(needed - there, unit) : unit;
}

static void look_at(struct place *best, const struct place *place)
{
    if (place->bytes <= place->gap->bytes &&
        (best->gap == NULL || place->bytes < best->bytes ||
         (place->bytes == best->bytes && place->gap->base < best->gap->base))) {
        *best = *place;
    }
}

/* At the start of the gap, at its end, or all of it. */
static void look_at_gap(const wm_arena *arena, const wm_lane *lane,
                        wm_block *gap, size_t needed, struct place *best)
{
    size_t before = idle_beside(arena, lane, gap->before);
    size_t after = idle_beside(arena, lane, gap->after);
    size_t unit = gap->segment->unit;

    look_at(best, &(struct place){gap, missing(needed, before, unit), before, 0,
                                  false});
    if (after > 0) {
        look_at(best, &(struct place){gap, missing(needed, after, unit), 0,
                                      after, true});
    }
    if (before + gap->bytes + after >= needed) {
        look_at(best, &(struct place){gap, gap->bytes, before, after, false});
    }
}

static struct place choose_locked(const wm_arena *arena, const wm_lane *lane,
                                  size_t needed)
{
    struct place best = {.gap = NULL};

    for (wm_block *h = arena->gaps; h != NULL; h = h->next_idle) {
        if (h->segment->small == (needed <= arena->small_max)) {
            look_at_gap(arena, lane, h, needed, &best);
        }
    }
    return best;
}

static wm_block *claim_run_locked(wm_block *run, size_t bytes)
{
    if (bytes == 0) {
        return NULL;
    }
    wm_bins_remove(wm_run_bins(run), run);
    wm_block_set_state(run, WM_BLOCK_CLAIMED);
    return run;
}

/* Cuts the part to be mapped out of the gap, and out of the list of gaps. */
static wm_block *cut_gap_locked(wm_arena *arena, const struct place *place,
                                size_t bytes)
{
    wm_block *gap = place->gap, *part = gap, *rest = NULL;

    wm_gap_unlink_locked(arena, gap);
    if (bytes < gap->bytes && place->at_end) {
        part = wm_run_cut_locked(arena, gap, gap->bytes - bytes);
        rest = gap;
    } else if (bytes < gap->bytes) {
        rest = wm_run_cut_locked(arena, gap, bytes);
    }
    if (rest != NULL) {
        wm_gap_link_locked(arena, rest);
    }
    wm_block_set_state(part, WM_BLOCK_VOID);
    return part;
}

static void claim_locked(wm_arena *arena, const struct place *place,
                         size_t wanted, wm_expansion *expansion)
{
    wm_block *gap = place->gap;
    size_t there = place->before + place->after;
    size_t bytes = missing(wanted, there, gap->segment->unit);

    bytes = bytes < place->bytes ? place->bytes : bytes;
    bytes = bytes < gap->bytes ? bytes : gap->bytes;
    expansion->segment = gap->segment;
    expansion->before = claim_run_locked(gap->before, place->before);
    expansion->after = claim_run_locked(gap->after, place->after);
    expansion->part = cut_gap_locked(arena, place, bytes);
    expansion->bytes = bytes;
    expansion->first = place->bytes;
    expansion->room = there + bytes;
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

/* Idle again; common if the stream has completed the work on it meanwhile. */
static void put_claimed_locked(wm_arena *arena, wm_block *run)
{
    if (run == NULL) {
        return;
    }
    if (run->lane != &arena->common &&
        (run->lane->ended || run->put_at <= run->lane->safe_until)) {
        wm_run_move(run, &arena->common);
    }
    wm_run_join_locked(arena, run);
}

/* The entry of its first page is a RUN all along: a look-up of a stale pointer
 * may have found it. */
static void map_pages(wm_segment *segment, const wm_block *part)
{
    wm_page_map_fill(part->base + WM_PAGE, part->bytes - WM_PAGE, segment,
                     WM_ENTRY_INNER);
}

void wm_expand_fill_locked(wm_arena *arena, wm_segment *segment, wm_block *part)
{
    map_pages(segment, part);
    wm_run_init(part, segment, part->base, part->bytes);
    part->put_at = 0;
    part->idle_since_ns = wm_clock_ns();
    wm_run_join_locked(arena, part);
}

/* It is unknown whether the part has memory. */
static void lose_locked(wm_arena *arena, wm_segment *segment, wm_block *part)
{
    map_pages(segment, part);
    part->slab = NULL;
    /* The record may have served another block. */
    part->lane_id = 0;
    if (part->origin != NULL) {
        part->origin->ns = 0;
    }
    wm_block_set_requested(part, 0);
    wm_block_retain_locked(arena, part, WM_BLOCK_LOST);
}

void wm_expand_log(wm_segment *segment, char *base, size_t bytes,
                   enum wm_history_op op)
{
    const wm_segment part = {
        .base = base, .bytes = bytes, .arena = segment->arena};

    wm_segment_log(&part, op);
}

static void note_come_locked(wm_arena *arena, const wm_expansion *expansion)
{
    /* Relaxed: see struct wm_arena. */
    atomic_fetch_add_explicit(&arena->siblings->grown, expansion->bytes,
                              memory_order_relaxed);
    wm_arena_note_part_locked(arena, expansion->segment,
                              (int64_t)expansion->bytes);
    wm_expand_log(expansion->segment, expansion->part->base, expansion->bytes,
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
