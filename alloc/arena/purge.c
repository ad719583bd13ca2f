/* purge.c: idle memory is detached from an arena, to be freed: whole segments,
 * and pieces of segments that expand (arena.h). Takes lock arena in every
 * public function. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"

static uint64_t rank_of(size_t bytes, uint64_t since_ns, bool oldest)
{
    return oldest ? UINT64_MAX - since_ns : bytes;
}

/* ---- whole segments ----------------------------------------------------- */

static uint64_t segment_rank(const wm_segment *segment, bool oldest)
{
    return segment->free_failed
               ? 1
               : rank_of(segment->bytes, segment->idle_since_ns, oldest);
}

/* True if all of a segment is idle and may be freed. It has several runs if
 * they are of several lanes: the driver waits for the device when it frees the
 * segment. */
static bool is_whole(wm_segment *segment)
{
    wm_block *run = segment->first;

    if (segment->arena->retaining || segment->unit > 0) {
        return false;
    }
    while (wm_run_is_idle(run)) {
        run = run->after;
    }
    return run == NULL;
}

static bool may_go(wm_segment *segment, const wm_purge *purge)
{
    if (segment->arena->paused) { /* it may have no memory */
        return false;
    }
    if (purge->below > 0 &&
        (!segment->dedicated || segment->region_bytes >= purge->below)) {
        return false;
    }
    if (purge->used && segment->ahead) {
        return false;
    }
    /* The time is valid only if the segment is one run. */
    return segment->idle_since_ns <= purge->before_ns && is_whole(segment) &&
           (purge->before_ns == UINT64_MAX ||
            wm_run_is_segment(segment->first)) &&
           segment_rank(segment, purge->oldest) >= purge->least;
}

/* The segment to detach first, of at most bytes_max; or null. */
static wm_segment *first_locked(const wm_arena *arena, const wm_purge *purge,
                                size_t bytes_max)
{
    wm_segment *first = NULL;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (s->bytes <= bytes_max && may_go(s, purge) &&
            (first == NULL || segment_rank(s, purge->oldest) >
                                  segment_rank(first, purge->oldest))) {
            first = s;
        }
    }
    return first;
}

/* Detaches a segment and puts it in front of chain. */
static void pull_locked(wm_arena *arena, wm_segment *segment,
                        wm_segment **chain)
{
    wm_segment_log(arena, segment->base, segment->bytes,
                   WM_HISTORY_SEGMENT_FREE);
    wm_segment_detach_locked(arena, segment);
    arena->detached_bytes += segment->bytes;
    segment->next = *chain;
    *chain = segment;
}

static size_t whole_bytes_locked(const wm_arena *arena)
{
    size_t bytes = 0;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        bytes += is_whole(s) ? s->bytes : 0;
    }
    return bytes;
}

static size_t most_of(const wm_purge *purge)
{
    return purge->most > 0 ? purge->most : SIZE_MAX;
}

/* Detaches segments by rank, and in one walk if all may go. */
static wm_segment *pull_some_locked(wm_arena *arena, wm_purge *purge)
{
    size_t over = 0, *left = &purge->bytes, most = most_of(purge);
    wm_segment *chain = NULL, *next;

    if (purge->keep > 0) {
        over = whole_bytes_locked(arena);
        over -= over < purge->keep ? over : purge->keep;
        left = &over;
        most = over;
    }
    if (*left == SIZE_MAX) {
        for (wm_segment *s = arena->segments; s != NULL; s = next) {
            next = s->next;
            if (may_go(s, purge)) {
                pull_locked(arena, s, &chain);
            }
        }
    } else {
        while (*left > 0 && (next = first_locked(arena, purge, most))) {
            *left -= next->bytes < *left ? next->bytes : *left;
            most -= next->bytes;
            pull_locked(arena, next, &chain);
        }
    }
    if (purge->most > 0) {
        purge->most = most;
        purge->bytes = most > 0 ? purge->bytes : 0;
    }
    if (purge->keep > 0) {
        over = whole_bytes_locked(arena);
        purge->keep -= over < purge->keep ? over : purge->keep;
    }
    return chain;
}

/* ---- pieces of segments that expand ------------------------------------- */

/* The idle run with a whole piece that ranks highest, or null. The driver does
 * not wait for the device when it unmaps: only common runs may go. */
static wm_block *first_run_locked(const wm_arena *arena, uint64_t before_ns,
                                  bool oldest)
{
    unsigned least = wm_bins_index(arena->unit);
    wm_block *best = NULL;
    char *begin = NULL;

    for (int kind = WM_RUNS_LARGE; kind <= WM_RUNS_SMALL; kind++) {
        const wm_bins *bins = &arena->common_bins[kind];

        for (unsigned i = WM_BINS_COUNT; i-- > least;) {
            if (best != NULL && !oldest && i < wm_bins_index(best->bytes)) {
                break; /* runs in lower bins are smaller */
            }
            for (wm_block *run = bins->bin[i]; run != NULL;
                 run = run->next_idle) {
                if (run->idle_since_ns <= before_ns &&
                    wm_piece_whole_locked(run, &begin) > 0 &&
                    (best == NULL ||
                     (oldest ? run->idle_since_ns < best->idle_since_ns
                             : run->bytes > best->bytes))) {
                    best = run;
                }
            }
        }
    }
    return best;
}

/* Detaches a whole piece of an idle run, in front of chain; false without
 * records. The rest of the run stays idle, in lower bins. */
static bool pull_piece_locked(wm_arena *arena, wm_block *run, char *begin,
                              size_t bytes, wm_segment **chain)
{
    wm_segment *segment = run->segment, *piece;

    if (!wm_record_have_locked(arena) ||
        (piece = wm_segment_record_locked(arena, 0, 0)) == NULL) {
        return false;
    }
    wm_run_unlink(run);
    if (begin > run->base) {
        wm_block *front = run;

        run = wm_run_cut_locked(arena, front, (size_t)(begin - front->base));
        wm_run_link(front);
    }
    if (run->bytes > bytes) {
        wm_run_split_locked(arena, run, bytes);
    }
    wm_block_set_state(run, WM_BLOCK_VOID);
    wm_page_map_cover(begin, bytes, NULL);
    wm_segment_log(arena, begin, bytes, WM_HISTORY_SEGMENT_UNMAP);
    arena->detached_bytes += bytes;
    wm_segment_place(piece, begin, bytes);
    piece->arena = arena;
    piece->first = run;
    piece->parent = segment;
    piece->next = *chain;
    *chain = piece;
    return true;
}

/* Detaches whole pieces of a run, from its end, until these are `most` bytes or
 * more, no piece is left, or there is no memory for a record; returns their
 * bytes. */
static size_t pull_pieces_locked(wm_arena *arena, wm_block *run, size_t most,
                                 wm_segment **chain)
{
    char *begin = NULL;
    size_t left = wm_piece_whole_locked(run, &begin), bytes = 0;

    while (left > 0 && bytes < most) {
        size_t last = wm_piece_up_to_locked(run->segment, begin + left);

        if (!pull_piece_locked(arena, run, begin + left - last, last, chain)) {
            break;
        }
        bytes += last;
        left -= last;
    }
    return bytes;
}

static void pull_all_pieces_locked(wm_arena *arena, uint64_t before_ns,
                                   wm_segment **chain)
{
    unsigned least = wm_bins_index(arena->unit);

    for (int kind = WM_RUNS_LARGE; kind <= WM_RUNS_SMALL; kind++) {
        const wm_bins *bins = &arena->common_bins[kind];

        for (unsigned i = WM_BINS_COUNT; i-- > least;) {
            for (wm_block *run = bins->bin[i], *next; run != NULL; run = next) {
                next = run->next_idle;
                if (run->idle_since_ns <= before_ns) {
                    (void)pull_pieces_locked(arena, run, SIZE_MAX, chain);
                }
            }
        }
    }
}

static void pull_first_pieces_locked(wm_arena *arena, wm_purge *purge,
                                     wm_segment **chain)
{
    while (purge->bytes > 0) {
        wm_block *run =
            first_run_locked(arena, purge->before_ns, purge->oldest);
        size_t bytes = 0;

        if (run != NULL && rank_of(run->bytes, run->idle_since_ns,
                                   purge->oldest) >= purge->least) {
            bytes = pull_pieces_locked(arena, run, purge->bytes, chain);
        }
        if (bytes == 0) {
            return;
        }
        purge->bytes -= bytes < purge->bytes ? bytes : purge->bytes;
    }
}

/* ---- both --------------------------------------------------------------- */

/* What threads pass on is not idle for long: wm_cache_flush_idle(). */
static void empty_transfer_cache_locked(wm_arena *arena, const wm_purge *purge)
{
    if (purge->before_ns == UINT64_MAX) {
        (void)wm_arena_empty_transfer_cache_locked(arena);
    }
}

static bool has_pieces_locked(const wm_arena *arena)
{
    return arena->unit > 0;
}

wm_segment *wm_arena_purge(wm_arena *arena, wm_purge *purge)
{
    wm_segment *chain;

    wm_lock_acquire(&arena->lock);
    empty_transfer_cache_locked(arena, purge);
    chain = pull_some_locked(arena, purge);
    if (has_pieces_locked(arena) && purge->bytes == SIZE_MAX) {
        pull_all_pieces_locked(arena, purge->before_ns, &chain);
    } else if (has_pieces_locked(arena) && purge->most == 0) {
        pull_first_pieces_locked(arena, purge, &chain);
    }
    wm_lock_release(&arena->lock);
    return chain;
}

uint64_t wm_arena_rank(wm_arena *arena, const wm_purge *purge, size_t *detached)
{
    const wm_purge any = {.before_ns = purge->before_ns,
                          .below = purge->below,
                          .used = purge->used,
                          .oldest = purge->oldest};
    const wm_segment *first;
    const wm_block *run = NULL;
    uint64_t rank, other = 0;

    wm_lock_acquire(&arena->lock);
    empty_transfer_cache_locked(arena, purge);
    first = first_locked(arena, &any, most_of(purge));
    rank = first != NULL ? segment_rank(first, any.oldest) : 0;
    if (has_pieces_locked(arena) && purge->most == 0) {
        run = first_run_locked(arena, any.before_ns, any.oldest);
    }
    if (run != NULL) {
        other = rank_of(run->bytes, run->idle_since_ns, any.oldest);
    }
    *detached = arena->detached_bytes;
    wm_lock_release(&arena->lock);
    return rank > other ? rank : other;
}

bool wm_arena_detach_idle(wm_arena *arena, wm_segment *segment)
{
    wm_segment *chain = NULL;

    wm_lock_acquire(&arena->lock);
    if (segment->base != NULL && is_whole(segment)) {
        pull_locked(arena, segment, &chain);
    }
    wm_lock_release(&arena->lock);
    return chain != NULL;
}

void wm_arena_released(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    if (segment->parent != NULL) {
        wm_arena_note_part_locked(arena, segment->parent,
                                  -(int64_t)segment->bytes);
        wm_piece_set_locked(segment->parent, segment->base, segment->bytes,
                            false);
        wm_gap_put_locked(arena, segment->first);
        wm_segment_record_give_locked(arena, segment);
    } else {
        wm_arena_note_held_locked(arena, segment, -1, -(int64_t)segment->bytes);
        wm_segment_give_locked(arena, segment);
    }
    wm_lock_release(&arena->lock);
}

void wm_arena_reattach(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    if (segment->parent != NULL) {
        wm_expand_fill_locked(arena, segment->parent, segment->first);
        wm_segment_log(arena, segment->base, segment->bytes,
                       WM_HISTORY_SEGMENT_MAP);
        wm_segment_record_give_locked(arena, segment);
    } else {
        wm_segment_attach_locked(arena, segment);
        segment->idle_since_ns =
            wm_clock_ns(); /* set for runs of several lanes as well */
        wm_segment_log(arena, segment->base, segment->bytes,
                       WM_HISTORY_SEGMENT_ALLOC);
    }
    wm_lock_release(&arena->lock);
}
