/* expand_purge.c: idle pieces of expandable segments are detached; see expand.h
 * and expand_piece.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/arena/expand_piece.h"
#include "alloc/block/page_map.h"

/* A run with a whole piece: the one idle longest, or one of the largest. */
static wm_block *pick_locked(const wm_arena *arena, enum wm_run_kind kind,
                             uint64_t before_ns, bool oldest, wm_block *best)
{
    const wm_bins *bins = &arena->common.idle[kind];
    unsigned least = wm_bins_index(arena->unit);
    char *begin = NULL;

    for (unsigned i = WM_BINS_COUNT; i-- > least;) {
        for (wm_block *run = bins->bin[i]; run != NULL; run = run->next_idle) {
            if (run->idle_since_ns > before_ns ||
                wm_piece_whole_locked(run, &begin) == 0) {
                continue;
            }
            if (best == NULL ||
                (oldest ? run->idle_since_ns < best->idle_since_ns
                        : run->bytes > best->bytes)) {
                best = run;
            }
        }
        if (best != NULL && !oldest) {
            break; /* runs in lower bins are smaller */
        }
    }
    return best;
}

/* Cuts the part out of a run that is in no bin; the rest stays idle. */
static wm_block *cut_part_locked(wm_arena *arena, wm_block *run, char *begin,
                                 size_t bytes)
{
    wm_block *part = run, *rest = NULL;

    if (begin > run->base) {
        part = wm_run_cut_locked(arena, run, (size_t)(begin - run->base));
        wm_bins_insert(wm_run_bins(run), run);
    }
    if (part->bytes > bytes) {
        rest = wm_run_cut_locked(arena, part, bytes);
        wm_bins_insert(wm_run_bins(rest), rest);
    }
    return part;
}

/* Detaches a whole piece of an idle run, in front of chain; null without
 * records. */
static wm_segment *detach_piece_locked(wm_arena *arena, wm_block *run,
                                       char *begin, size_t bytes,
                                       wm_segment *chain)
{
    wm_segment *segment = run->segment, *piece;

    if (!wm_record_have_locked(arena) ||
        (piece = wm_segment_record_locked(arena, 0, 0)) == NULL) {
        return NULL;
    }
    wm_bins_remove(wm_run_bins(run), run);
    run = cut_part_locked(arena, run, begin, bytes);
    wm_block_set_state(run, WM_BLOCK_VOID);
    wm_page_map_fill(begin, bytes, NULL, WM_ENTRY_RUN);
    wm_page_map_set(begin, run, WM_ENTRY_RUN);
    wm_expand_log(segment, begin, bytes, WM_HISTORY_SEGMENT_UNMAP);
    arena->detached_bytes += bytes;
    piece->base = begin;
    piece->bytes = bytes;
    piece->arena = arena;
    piece->unit = 0;
    piece->first = run;
    piece->parent = segment;
    piece->next = chain;
    return piece;
}

/* Detaches pieces of a run, from its end, until most bytes are out (*bytes) or
 * none is left; returns the chain. */
static wm_segment *detach_locked(wm_arena *arena, wm_block *run, size_t most,
                                 wm_segment *chain, size_t *bytes)
{
    char *begin = NULL;
    size_t left = wm_piece_whole_locked(run, &begin);

    *bytes = 0;
    while (left > 0 && *bytes < most) {
        size_t last = wm_piece_up_to_locked(run->segment, begin + left);
        wm_segment *piece =
            detach_piece_locked(arena, run, begin + left - last, last, chain);

        if (piece == NULL) {
            break;
        }
        chain = piece;
        *bytes += last;
        left -= last;
    }
    return chain;
}

/* Detaches all that may be. The rest of a run stands in a lower bin. */
static wm_segment *detach_all_locked(wm_arena *arena, enum wm_run_kind kind,
                                     uint64_t before_ns, wm_segment *chain)
{
    const wm_bins *bins = &arena->common.idle[kind];
    unsigned least = wm_bins_index(arena->unit);

    for (unsigned i = WM_BINS_COUNT; i-- > least;) {
        for (wm_block *run = bins->bin[i], *next; run != NULL; run = next) {
            size_t bytes;

            next = run->next_idle;
            if (run->idle_since_ns <= before_ns) {
                chain = detach_locked(arena, run, SIZE_MAX, chain, &bytes);
            }
        }
    }
    return chain;
}

static uint64_t rank_of(const wm_block *run, bool oldest)
{
    return wm_rank(run->bytes, run->idle_since_ns, oldest);
}

/* The run to detach from first, or null. */
static wm_block *first_locked(const wm_arena *arena, uint64_t before_ns,
                              bool oldest)
{
    wm_block *run = pick_locked(arena, WM_RUNS_LARGE, before_ns, oldest, NULL);

    return pick_locked(arena, WM_RUNS_SMALL, before_ns, oldest, run);
}

uint64_t wm_expand_rank_locked(const wm_arena *arena, bool oldest)
{
    const wm_block *run =
        arena->unit > 0 ? first_locked(arena, UINT64_MAX, oldest) : NULL;

    return run != NULL ? rank_of(run, oldest) : 0;
}

wm_segment *wm_expand_detach_locked(wm_arena *arena, wm_segment *chain,
                                    wm_purge *purge)
{
    uint64_t before_ns = purge->before_ns;

    if (arena->unit > 0 && purge->bytes == SIZE_MAX) {
        chain = detach_all_locked(arena, WM_RUNS_LARGE, before_ns, chain);
        return detach_all_locked(arena, WM_RUNS_SMALL, before_ns, chain);
    }
    while (arena->unit > 0 && purge->bytes > 0) {
        wm_block *run = first_locked(arena, before_ns, purge->oldest);
        size_t gone = 0;

        if (run != NULL && rank_of(run, purge->oldest) >= purge->least) {
            chain = detach_locked(arena, run, purge->bytes, chain, &gone);
        }
        if (gone == 0) {
            break;
        }
        purge->bytes -= gone < purge->bytes ? gone : purge->bytes;
    }
    return chain;
}

void wm_expand_released_locked(wm_arena *arena, wm_segment *piece)
{
    wm_arena_note_part_locked(arena, piece->parent, -(int64_t)piece->bytes);
    wm_piece_go_locked(piece->parent, piece->base, piece->bytes);
    wm_gap_put_locked(arena, piece->first);
    wm_segment_record_give_locked(arena, piece);
}

void wm_expand_reattach_locked(wm_arena *arena, wm_segment *piece)
{
    wm_expand_fill_locked(arena, piece->parent, piece->first);
    wm_expand_log(piece->parent, piece->base, piece->bytes,
                  WM_HISTORY_SEGMENT_MAP);
    wm_segment_record_give_locked(arena, piece);
}
