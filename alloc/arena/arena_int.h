/* arena_int.h: what the files of the arena share, and nobody else. The caller
 * of a _locked function holds lock arena.
 *
 *   arena.c    handing blocks out and taking them back; begin and end
 *   run.c      records, and runs of pages: split, merged, best fit
 *   lane.c     records of lanes; lane_pass.c: memory goes from one to another
 *   slab.c     runs that are cut into slots of one class
 *   segment.c  regions from the driver, in and out of the arena;
 *              purge.c: which of them go
 *   steal.c  and from one arena to another
 *   expand.c  segments that get memory in parts; expand_purge.c: and give
 *              it back; expand_range.c: where; expand_piece.c: in what pieces
 *   retain.c     blocks and segments that graphs have
 */
#ifndef WM_ARENA_INT_H
#define WM_ARENA_INT_H

#include "alloc/arena/arena.h"
#include "alloc/arena/arena_stats.h"
#include "runtime/base/history.h"

/* Records are made many at a time, and chained for the end. */
enum { WM_CHUNK_RECORDS = 63 };

struct wm_chunk {
    struct wm_chunk *next;
    wm_block block[WM_CHUNK_RECORDS];
    char origins[]; /* of the blocks, if there is a history */
};

static inline enum wm_block_state wm_block_state(wm_block *block)
{
    /* Relaxed: under lock arena, where idle states are written. */
    return wm_state_kind(
        atomic_load_explicit(&block->state, memory_order_relaxed));
}

static inline void wm_block_set_state(wm_block *block, wm_state state)
{
    /* Release pairs with the acquire of look-ups: fields before state. */
    atomic_store_explicit(&block->state, state, memory_order_release);
}

/* Changes a number that others read without the lock. Relaxed: nobody else
 * writes it. */
static inline void wm_count_locked(_Atomic unsigned *count, int change)
{
    atomic_store_explicit(count,
                          atomic_load_explicit(count, memory_order_relaxed) +
                              (unsigned)change,
                          memory_order_relaxed);
}

/* Gives records that were just made what their origins lie in, if there is a
 * history: at origins, wm_history_origin_bytes() for each. */
void wm_record_init_origins(const wm_arena *arena, wm_block *block,
                            unsigned count, char *origins);

/* Spare records of runs. have makes some if there are fewer than two, and
 * answers whether there are; take is called only after that. */
bool wm_record_have_locked(wm_arena *arena);
wm_block *wm_record_take_locked(wm_arena *arena);
void wm_record_give_locked(wm_arena *arena, wm_block *block);

/* Whether a run starts at base, for look-ups of addresses inside of runs. */
void wm_run_mark(wm_segment *segment, const char *base, bool start);
/* The part of a run, which is in no bin, that lies behind bytes, as one of its
 * own. */
wm_block *wm_run_cut_locked(wm_arena *arena, wm_block *block, size_t bytes);
/* Makes the record of an idle run that starts at base known; not in a bin
 * yet. */
void wm_run_init(wm_block *block, wm_segment *segment, char *base,
                 size_t bytes);
/* Whether a segment is one idle run from now on. */
void wm_segment_note_whole_locked(wm_arena *arena, wm_segment *segment,
                                  bool whole);
/* Out of the arena and its lists, all of it idle: its runs' records stay with
 * it. Back again; or those records, and its own, are spare. */
void wm_segment_detach_locked(wm_arena *arena, wm_segment *segment);
void wm_segment_attach_locked(wm_arena *arena, wm_segment *segment);
void wm_segment_give_locked(wm_arena *arena, wm_segment *segment);
/* Under the lock, so that the history and a snapshot agree. */
void wm_segment_log(const wm_segment *segment, enum wm_history_op op);
/* A record for a segment of so many bytes, in no list, or null. unit: by which
 * it is to expand, or 0. */
wm_segment *wm_segment_record_locked(wm_arena *arena, size_t bytes,
                                     size_t unit);
void wm_segment_record_give_locked(wm_arena *arena, wm_segment *segment);
/* In the list of the arena, or not. */
void wm_segment_link_locked(wm_arena *arena, wm_segment *segment);
void wm_segment_unlink_locked(wm_arena *arena, wm_segment *segment);
/* Idle pieces of segments that expand, on their way back one by one, before a
 * chain; and the rank of the first, see wm_arena_rank(). */
wm_segment *wm_expand_detach_locked(wm_arena *arena, wm_segment *chain,
                                    const wm_purge *purge);
uint64_t wm_expand_rank_locked(const wm_arena *arena, bool oldest);
static inline uint64_t wm_rank(size_t bytes, uint64_t since_ns, bool oldest)
{
    return oldest ? UINT64_MAX - since_ns : bytes;
}
static inline uint64_t wm_segment_rank(const wm_segment *segment, bool oldest)
{
    return segment->free_failed
               ? 1
               : wm_rank(segment->bytes, segment->idle_since_ns, oldest);
}
/* What wm_arena_released() and wm_arena_reattach() do with such a piece. */
void wm_expand_released_locked(wm_arena *arena, wm_segment *piece);
void wm_expand_reattach_locked(wm_arena *arena, wm_segment *piece);
/* In the list of gaps, or not. */
void wm_gap_link_locked(wm_arena *arena, wm_block *gap);
void wm_gap_unlink_locked(wm_arena *arena, wm_block *gap);
/* A run on its way has no memory: it is a gap, and joins others. It has: it is
 * an idle run, which anybody may have; or nobody knows: LOST. */
void wm_gap_put_locked(wm_arena *arena, wm_block *run);
void wm_expand_fill_locked(wm_arena *arena, wm_segment *segment,
                           wm_block *part);
void wm_expand_lost_locked(wm_arena *arena, wm_segment *segment,
                           wm_block *part);
/* Tells the history of a part of a segment. */
void wm_expand_log(wm_segment *segment, char *base, size_t bytes,
                   enum wm_history_op op);
/* Takes a segment out of the page map, with whatever is in it. */
void wm_segment_forget(wm_segment *segment);
/* Memory that joins the arena as one run, idle and common; null, and nothing
 * joined, without records. needed: of it, for a request. */
wm_segment *wm_segment_join_locked(wm_arena *arena, void *base, size_t bytes,
                                   size_t needed);
/* Where a run stands while it is idle. */
wm_bins *wm_run_bins(const wm_block *run);
/* It is another lane's from now on, or counts for its lane for the first time
 * or the last (null). In no bin. */
void wm_run_move(wm_block *run, wm_lane *lane);
/* So many bytes come for a run of needed, or for none in particular (0). */
void wm_run_note_growth_locked(wm_arena *arena, wm_lane *lane, size_t needed,
                               size_t bytes);
/* Whether a request of bytes finds those that are idle there, without more ado
 * if it is a region apart. */
bool wm_run_suits(const wm_segment *segment, size_t bytes);
/* It is no gap, nor on its way to be one or from that. */
bool wm_run_has_memory(wm_block *block);
/* Null is not idle. */
static inline bool wm_run_is_idle(wm_block *block)
{
    return block != NULL && wm_block_state(block) == WM_BLOCK_IDLE;
}
/* Whether a run may be joined with a neighbour, or null; and joins it with that
 * after it, whose record ends. */
static inline bool wm_run_may_join(const wm_block *block, wm_block *neighbour)
{
    return wm_run_is_idle(neighbour) && neighbour->lane == block->lane;
}
void wm_run_absorb_locked(wm_arena *arena, wm_block *block);
/* Whether a run, or null, is one that is idle and that the lane may have. */
static inline bool wm_run_may_have(const wm_arena *arena, const wm_lane *lane,
                                   wm_block *run)
{
    return wm_run_is_idle(run) &&
           (run->lane == lane || run->lane == &arena->common);
}
/* Such runs from first on, together of at least bytes, as one of the lane's;
 * and what lies behind them if that is the lane's. */
wm_block *wm_run_join_lanes_locked(wm_arena *arena, wm_lane *lane,
                                   wm_block *first, size_t bytes);
/* The same of the first that will do for a request, or null: no single run
 * does. Walks all runs: for who has asked all others, and would grow. */
wm_block *wm_run_join_any_locked(wm_arena *arena, wm_lane *lane, size_t bytes);
/* An idle run of exactly bytes, out of its bin, or null. *failed: there is
 * memory, but no record for its rest, or for a lane. lane, here and below: the
 * first of the stream, or the arena's own, or null. */
wm_block *wm_run_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                             enum wm_split split, bool *failed);
/* Takes back a run that is in no bin, and joins it with its neighbours. */
void wm_run_put_locked(wm_arena *arena, wm_block *block);
/* The same of one that was idle before, in another bin or segment. */
void wm_run_join_locked(wm_arena *arena, wm_block *block);

/* A slot of the class, or null; *failed as above. */
wm_block *wm_slab_take_locked(wm_arena *arena, wm_lane *lane,
                              unsigned size_class, enum wm_split split,
                              bool *failed);
void wm_slab_put_locked(wm_arena *arena, wm_block *slot);
/* Gives the slabs of a lane to another one. */
void wm_slab_move_all_locked(wm_lane *from, wm_lane *to);

/* The run at a segment's begin; the others follow by after. */
wm_block *wm_segment_first_run(wm_segment *segment);

/* The lane of a stream in an arena, or the common one for null. lane: the first
 * of the stream, or the arena's own. To look for something: where there is
 * none, or it is over, what is common. */
static inline wm_lane *wm_lane_look_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane *in = NULL;

    if (lane != NULL) {
        /* Relaxed: under the lock, where it is written. */
        in = atomic_load_explicit(&lane->by_shard[arena->shard],
                                  memory_order_relaxed);
    }
    return in != NULL && !in->ended ? in : &arena->common;
}

/* To take what was found: made if there is none; null: no memory for that. Of a
 * stream all of whose lanes end right now the common one. */
wm_lane *wm_lane_make_beside_locked(wm_arena *arena, wm_lane *lane);
static inline wm_lane *wm_lane_in_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane *in = wm_lane_look_locked(arena, lane);

    return in != &arena->common || lane == NULL || lane == in
               ? in
               : wm_lane_make_beside_locked(arena, lane);
}

/* A LIVE block for a request, or null; *failed as above. */
wm_block *wm_arena_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                               enum wm_split split, bool *failed);

/* Joins all with their neighbours; false: there was none. */
bool wm_arena_empty_transfer_cache_locked(wm_arena *arena);
/* Does so if it was not used since the last time. */
void wm_arena_age_transfer_cache_locked(wm_arena *arena);

/* For magazines: up to count blocks of a fixed class, in no figure yet but
 * that of what is out; answers how many. state is given to each. */
unsigned wm_arena_take_batch_locked(wm_arena *arena, wm_lane *lane,
                                    unsigned size_class, unsigned count,
                                    enum wm_split split, wm_state state,
                                    wm_entry *entries);
/* Takes such a block back, or another whose free is in the figures. */
void wm_arena_put_locked(wm_arena *arena, wm_block *block);
/* Blocks that are out wait now, or have passed and are out again; their states
 * are the caller's. */
void wm_arena_begin_pending_locked(wm_arena *arena, size_t count, size_t bytes);
void wm_arena_end_pending_locked(wm_arena *arena, size_t count, size_t bytes);

#endif
