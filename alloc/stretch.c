/* stretch.c: see stretch.h. Takes lock arena in every public function. */
#include "alloc/stretch.h"

#include "alloc/arena_int.h"
#include "alloc/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- holes -------------------------------------------------------------- */

static bool is_hole(wm_block *run)
{
    return run != NULL && wm_block_state(run) == WM_BLOCK_HOLE;
}

static void link_hole_locked(wm_arena *arena, wm_block *hole)
{
    wm_block_set_state(hole, WM_BLOCK_HOLE);
    hole->previous_idle = NULL;
    hole->next_idle = arena->holes;
    if (hole->next_idle != NULL) {
        hole->next_idle->previous_idle = hole;
    }
    arena->holes = hole;
}

static void unlink_hole_locked(wm_arena *arena, wm_block *hole)
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

    unlink_hole_locked(arena, next);
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

/* A run on its way has no memory: it is a hole, and joins others. */
static void put_hole_locked(wm_arena *arena, wm_block *run)
{
    link_hole_locked(arena, run);
    if (is_hole(run->after)) {
        absorb_hole_locked(arena, run);
    }
    if (is_hole(run->before)) {
        absorb_hole_locked(arena, run->before);
    }
}

/* ---- where memory is to come -------------------------------------------- */

static size_t idle_beside(const wm_arena *arena, const wm_lane *lane,
                          wm_block *run)
{
    return wm_run_is_idle(run) &&
                   (run->lane == lane || run->lane == &arena->common)
               ? run->bytes
               : 0;
}

/* A place in a hole, and how much memory it takes. */
struct place {
    wm_block *hole;
    size_t bytes, before, after; /* 0: that run is not needed */
    bool at_end;
};

/* Units that are missing to what is there. */
static size_t missing(size_t needed, size_t there, size_t unit)
{
    return needed > there ? round_up(needed - there, unit) : unit;
}

static void look_at(struct place *best, const struct place *place)
{
    if (place->bytes <= place->hole->bytes &&
        (best->hole == NULL || place->bytes < best->bytes ||
         (place->bytes == best->bytes &&
          place->hole->base < best->hole->base))) {
        *best = *place;
    }
}

/* At the hole's begin, at its end, or all of it. */
static void look_at_hole(const wm_arena *arena, const wm_lane *lane,
                         wm_block *hole, size_t needed, struct place *best)
{
    size_t before = idle_beside(arena, lane, hole->before);
    size_t after = idle_beside(arena, lane, hole->after);
    size_t unit = hole->segment->unit;

    look_at(best, &(struct place){hole, missing(needed, before, unit), before,
                                  0, false});
    if (after > 0) {
        look_at(best, &(struct place){hole, missing(needed, after, unit), 0,
                                      after, true});
    }
    if (before + hole->bytes + after >= needed) {
        look_at(best, &(struct place){hole, hole->bytes, before, after, false});
    }
}

static struct place choose_locked(const wm_arena *arena, const wm_lane *lane,
                                  size_t needed)
{
    struct place best = {.hole = NULL};

    for (wm_block *h = arena->holes; h != NULL; h = h->next_idle) {
        if (h->segment->small == (needed <= arena->small_max)) {
            look_at_hole(arena, lane, h, needed, &best);
        }
    }
    return best;
}

static wm_block *claim_run_locked(wm_block *run, size_t bytes)
{
    if (bytes == 0) {
        return NULL;
    }
    wm_fit_remove(wm_run_bins(run), run);
    wm_block_set_state(run, WM_BLOCK_CLAIMED);
    return run;
}

/* The part of the hole that is to get memory, out of the list. */
static wm_block *cut_hole_locked(wm_arena *arena, const struct place *place,
                                 size_t bytes)
{
    wm_block *hole = place->hole, *part = hole, *rest = NULL;

    unlink_hole_locked(arena, hole);
    if (bytes < hole->bytes && place->at_end) {
        part = wm_run_cut_locked(arena, hole, hole->bytes - bytes);
        rest = hole;
    } else if (bytes < hole->bytes) {
        rest = wm_run_cut_locked(arena, hole, bytes);
    }
    if (rest != NULL) {
        link_hole_locked(arena, rest);
    }
    wm_block_set_state(part, WM_BLOCK_VOID);
    return part;
}

static void claim_locked(wm_arena *arena, const struct place *place,
                         size_t wanted, wm_stretch *stretch)
{
    wm_block *hole = place->hole;
    size_t there = place->before + place->after;
    size_t bytes = missing(wanted, there, hole->segment->unit);

    bytes = bytes < place->bytes ? place->bytes : bytes;
    bytes = bytes < hole->bytes ? bytes : hole->bytes;
    stretch->segment = hole->segment;
    stretch->before = claim_run_locked(hole->before, place->before);
    stretch->after = claim_run_locked(hole->after, place->after);
    stretch->part = cut_hole_locked(arena, place, bytes);
    stretch->bytes = bytes;
    stretch->room = there + bytes;
}

warm_status wm_stretch_claim(wm_arena *arena, wm_lane *lane, size_t needed,
                             size_t wanted, wm_stretch *stretch)
{
    warm_status status = WARM_OK;
    struct place place;

    wm_lock_acquire(&arena->lock);
    place = choose_locked(arena, lane != NULL ? lane : &arena->common, needed);
    if (place.hole == NULL) {
        status = WARM_NOT_FOUND;
    } else if (!wm_record_have_locked(arena)) {
        status = wm_fail(WARM_OUT_OF_MEMORY,
                         "no memory for the allocator's records");
    } else {
        claim_locked(arena, &place, wanted, stretch);
    }
    wm_lock_release(&arena->lock);
    return status;
}

/* Idle as it was before; what its lane's stream has passed meanwhile is
 * common. */
static void put_claimed_locked(wm_arena *arena, wm_block *run)
{
    if (run == NULL) {
        return;
    }
    if (run->lane != &arena->common &&
        (run->lane->over || run->put_at <= run->lane->passed)) {
        wm_run_move(run, &arena->common);
    }
    wm_run_join_locked(arena, run);
}

/* A part has memory: it is an idle run, which anybody may have. */
static void fill_locked(wm_arena *arena, wm_segment *segment, wm_block *part)
{
    /* Its first page says RUN all along: a look-up of a stale pointer may have
     * found that a run starts there. */
    wm_page_map_fill(part->base + WM_PAGE, part->bytes - WM_PAGE, segment,
                     WM_ENTRY_INNER);
    wm_run_init(part, segment, part->base, part->bytes);
    part->put_at = 0;
    part->idle_since_ns = wm_clock_ns();
    wm_run_join_locked(arena, part);
}

static void tell_part(wm_segment *segment, char *base, size_t bytes,
                      enum wm_history_op op)
{
    const wm_segment part = {
        .base = base, .bytes = bytes, .arena = segment->arena};

    wm_segment_tell(&part, op);
}

bool wm_stretch_done(wm_arena *arena, wm_lane *lane, wm_stretch *stretch,
                     size_t bytes, wm_block **block)
{
    wm_block *part = stretch->part;
    bool failed = false;
    bool have;

    wm_lock_acquire(&arena->lock);
    have = wm_record_have_locked(arena);
    if (have) {
        /* Relaxed: a number; see struct wm_arena. */
        atomic_fetch_add_explicit(&arena->siblings->grown, stretch->bytes,
                                  memory_order_relaxed);
        wm_arena_note_part_locked(arena, stretch->segment, stretch->bytes,
                                  true);
        tell_part(stretch->segment, part->base, stretch->bytes,
                  WM_HISTORY_SEGMENT_MAP);
        fill_locked(arena, stretch->segment, part);
        put_claimed_locked(arena, stretch->before);
        put_claimed_locked(arena, stretch->after);
        *block = bytes > 0 ? wm_arena_take_locked(
                                 arena, lane != NULL ? lane : &arena->common,
                                 bytes, &failed)
                           : NULL;
    }
    wm_lock_release(&arena->lock);
    return have;
}

void wm_stretch_undo(wm_arena *arena, wm_stretch *stretch, bool lost)
{
    if (stretch->part == NULL) {
        return;
    }
    wm_lock_acquire(&arena->lock);
    if (!lost) {
        put_hole_locked(arena, stretch->part);
    }
    put_claimed_locked(arena, stretch->before);
    put_claimed_locked(arena, stretch->after);
    wm_lock_release(&arena->lock);
}

/* ---- what goes back ----------------------------------------------------- */

/* The whole units in an idle run. */
static size_t units_of(const wm_block *run, char **begin)
{
    size_t unit = run->segment->unit;
    uintptr_t first, end;

    if (unit == 0) {
        return 0;
    }
    first = round_up((uintptr_t)run->base, unit);
    end = ((uintptr_t)run->base + run->bytes) / unit * unit;
    *begin = run->base + (first - (uintptr_t)run->base);
    return end > first ? end - first : 0;
}

/* A run of which some may go: the one idle longest, or one of the largest. */
static wm_block *pick_locked(const wm_arena *arena, enum wm_sort sort,
                             uint64_t before_ns, bool oldest, wm_block *best)
{
    const wm_fit *fit = &arena->common.idle[sort];
    unsigned least = wm_fit_bin(arena->unit);
    char *begin = NULL;

    for (unsigned i = WM_FIT_BINS; i-- > least;) {
        for (wm_block *run = fit->bin[i]; run != NULL; run = run->next_idle) {
            if (run->idle_since_ns > before_ns || units_of(run, &begin) == 0) {
                continue;
            }
            if (best == NULL ||
                (oldest ? run->idle_since_ns < best->idle_since_ns
                        : run->bytes > best->bytes)) {
                best = run;
            }
        }
        if (best != NULL && !oldest) {
            break; /* those in lower bins are smaller */
        }
    }
    return best;
}

/* Cuts the part out of a run that is in no bin; what is left of that is idle
 * still. */
static wm_block *cut_part_locked(wm_arena *arena, wm_block *run, char *begin,
                                 size_t bytes)
{
    wm_block *part = run, *rest = NULL;

    if (begin > run->base) {
        part = wm_run_cut_locked(arena, run, (size_t)(begin - run->base));
        wm_fit_insert(wm_run_bins(run), run);
    }
    if (part->bytes > bytes) {
        rest = wm_run_cut_locked(arena, part, bytes);
        wm_fit_insert(wm_run_bins(rest), rest);
    }
    return part;
}

/* Takes units out of an idle run, from its end, on a chain of segments. */
static wm_segment *detach_locked(wm_arena *arena, wm_block *run, size_t most,
                                 wm_segment *chain)
{
    wm_segment *segment = run->segment, *part;
    char *begin = NULL;
    size_t bytes = units_of(run, &begin);

    if (!wm_record_have_locked(arena) ||
        (part = wm_segment_record_locked(arena, 0)) == NULL) {
        return NULL;
    }
    if (most < bytes) {
        begin += bytes - round_up(most, segment->unit);
        bytes = round_up(most, segment->unit);
    }
    wm_fit_remove(wm_run_bins(run), run);
    run = cut_part_locked(arena, run, begin, bytes);
    wm_block_set_state(run, WM_BLOCK_VOID);
    wm_page_map_fill(begin, bytes, NULL, WM_ENTRY_RUN);
    wm_page_map_set(begin, run, WM_ENTRY_RUN);
    tell_part(segment, begin, bytes, WM_HISTORY_SEGMENT_UNMAP);
    arena->detached_bytes += bytes;
    part->base = begin;
    part->bytes = bytes;
    part->arena = arena;
    part->unit = 0;
    part->first = run;
    part->of = segment;
    part->next = chain;
    return part;
}

wm_segment *wm_stretch_detach_locked(wm_arena *arena, wm_segment *chain,
                                     size_t bytes, uint64_t before_ns,
                                     bool oldest)
{
    while (arena->unit > 0 && bytes > 0) {
        wm_block *run =
            pick_locked(arena, WM_SORT_LARGE, before_ns, oldest, NULL);
        wm_segment *part;

        run = pick_locked(arena, WM_SORT_SMALL, before_ns, oldest, run);
        part = run != NULL ? detach_locked(arena, run, bytes, chain) : NULL;
        if (part == NULL) {
            break;
        }
        chain = part;
        bytes -= part->bytes < bytes ? part->bytes : bytes;
    }
    return chain;
}

void wm_stretch_released_locked(wm_arena *arena, wm_segment *part)
{
    wm_arena_note_part_locked(arena, part->of, part->bytes, false);
    put_hole_locked(arena, part->first);
    wm_segment_record_give_locked(arena, part);
}

void wm_stretch_reattach_locked(wm_arena *arena, wm_segment *part)
{
    fill_locked(arena, part->of, part->first);
    tell_part(part->of, part->base, part->bytes, WM_HISTORY_SEGMENT_MAP);
    wm_segment_record_give_locked(arena, part);
}

/* ---- ranges ------------------------------------------------------------- */

static bool add_locked(wm_arena *arena, char *base, size_t bytes, bool small)
{
    wm_segment *segment = wm_segment_record_locked(arena, bytes);
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
    link_hole_locked(arena, hole);
    wm_segment_link_locked(arena, segment);
    return true;
}

warm_status wm_stretch_add(wm_arena *arena, void *base, size_t bytes,
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

bool wm_stretch_remove(wm_arena *arena, void **base, size_t *bytes)
{
    wm_segment *segment;

    wm_lock_acquire(&arena->lock);
    segment = find_empty_locked(arena);
    if (segment != NULL) {
        wm_block *hole = wm_segment_first_run(segment);

        *base = segment->base;
        *bytes = segment->bytes;
        unlink_hole_locked(arena, hole);
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
    return wm_block_state(block) != WM_BLOCK_HOLE &&
           wm_block_state(block) != WM_BLOCK_VOID;
}

static bool has_memory(wm_block *run)
{
    return run != NULL && wm_run_has_memory(run);
}

void wm_stretch_extent(wm_block *block, void **base, size_t *bytes)
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
