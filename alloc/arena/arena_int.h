/* arena_int.h: shared by the files of alloc/arena only. The caller of a _locked
 * function holds lock arena.
 *
 *   arena.c    blocks are allocated and freed, also in batches; init and fini
 *   run.c      records; runs of pages: split, merged, best fit
 *   slab.c     runs that are split into slots of one class
 *   lane.c     records of lanes; lane_pass.c: memory moves between lanes
 *   segment.c  segments join, leave, move; purge.c: which memory leaves
 *   span.c     blocks that span segments; piece.c: regions in pieces
 *   bins.h     idle runs by size */
#ifndef WM_ARENA_INT_H
#define WM_ARENA_INT_H

#include "alloc/arena/arena.h"
#include "alloc/arena/bins.h"
#include "alloc/arena/group.h"
#include "alloc/block/page_map.h"

/* Records are allocated in chunks, which are freed with the arena. */
enum { WM_CHUNK_RECORDS = 63 };

struct wm_chunk {
    struct wm_chunk *next;
    wm_block block[WM_CHUNK_RECORDS];
    char origins[]; /* of the blocks, if there is a history */
};

static inline enum wm_block_state wm_block_state(wm_block *block)
{
    /* Relaxed: called under lock arena, where idle states are written. */
    return wm_state_kind(
        atomic_load_explicit(&block->state, memory_order_relaxed));
}

/* Changes a counter that is read without the lock. Relaxed: only the lock's
 * holder writes it. */
static inline void wm_count_locked(_Atomic unsigned *count, int change)
{
    atomic_store_explicit(count,
                          atomic_load_explicit(count, memory_order_relaxed) +
                              (unsigned)change,
                          memory_order_relaxed);
}

/* ---- lane.c -------------------------------------------------------------- */

/* Puts a lane at the end of the queue of lanes with new runs. */
void wm_lane_renew_locked(wm_arena *arena, wm_lane *lane);
/* A run is about to be freed to a lane other than the common one. A run as
 * large as the step waits for a second one: else a stream that frees and
 * allocates one such block in turn would get a fence at each free. */
static inline void wm_lane_note_put_locked(wm_arena *arena, const wm_block *run)
{
    size_t step = arena->fence_step, grown;

    if (arena->laned_bytes < arena->laned_least) {
        arena->laned_least = arena->laned_bytes;
    }
    grown = arena->laned_bytes - arena->laned_least;
    if (wm_unlikely(grown + run->bytes >= step) && grown >= run->bytes) {
        atomic_store_explicit(&arena->fences_due, true, memory_order_relaxed);
    }
    wm_lane_renew_locked(arena, run->lane);
}
/* Ends a lane without memory; its record is spare after the last hold. */
void wm_lane_finish_locked(wm_arena *arena, wm_lane *lane);
/* Makes the lane's table of slabs, if it has none; false: no memory. */
bool wm_lane_have_slabs_locked(wm_lane *lane);
/* Frees the bins and the table of slabs of a lane that ends. */
void wm_lane_free(wm_lane *lane);
/* Makes the record spare if the lane has ended, has no run and no hold. Called
 * after each of these changes. */
void wm_lane_retire_locked(wm_arena *arena, wm_lane *lane);

/* The stream's lane in this arena, for a search; the common lane if lane is
 * null, if the stream has no lane here, or if its lane has ended. lane: the
 * stream's first lane, or the arena's common lane. */
static inline wm_lane *wm_lane_look_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane *in = NULL;

    if (lane != NULL) {
        /* Relaxed: read under the lock, where it is written. */
        in = atomic_load_explicit(&lane->by_shard[arena->shard],
                                  memory_order_relaxed);
    }
    return in != NULL && !in->ended ? in : &arena->common;
}

/* The stream's lane in this arena, for an allocation: made if there is none;
 * null: no memory. The common lane if all lanes of the stream are ending now.
 */
wm_lane *wm_lane_make_beside_locked(wm_arena *arena, wm_lane *lane);
static inline wm_lane *wm_lane_in_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane *in = wm_lane_look_locked(arena, lane);

    return in != &arena->common || lane == NULL || lane == in
               ? in
               : wm_lane_make_beside_locked(arena, lane);
}

/* ---- figures ------------------------------------------------------------- */

/* What callers hold of the space, for its peaks; an arena of no group has
 * none. */
static inline void wm_arena_claim(wm_arena *arena, int64_t blocks,
                                  int64_t bytes)
{
    if (wm_likely(arena->group != NULL)) {
        wm_live_claim(&arena->group->live, blocks, bytes);
    }
}

/* One thread may count a free before another has counted the allocation:
 * current may wrap below 0 in between. */
static inline void wm_stat_add(warm_stat *stat, uint64_t n)
{
    stat->current += n;
    stat->allocated += n;
}
static inline void wm_stat_sub(warm_stat *stat, uint64_t n)
{
    stat->current -= n;
    stat->freed += n;
}

/* ---- run.c --------------------------------------------------------------- */

/* Relaxed: only the holder of the lock writes; look-ups read without it (struct
 * wm_segment). */
static inline void wm_bit_set_locked(_Atomic uint64_t *words, size_t i, bool on)
{
    uint64_t bit = (uint64_t)1 << (i % 64);
    uint64_t word = atomic_load_explicit(&words[i / 64], memory_order_relaxed);

    atomic_store_explicit(&words[i / 64], on ? word | bit : word & ~bit,
                          memory_order_relaxed);
}

/* If there is a history: points new records to their origins, which lie at
 * origins, wm_history_origin_bytes() each. */
void wm_record_init_origins(const wm_arena *arena, wm_block *block,
                            unsigned count, char *origins);
/* Spare records of runs. wm_record_have_locked() makes some if there are fewer
 * than two; false: no memory. wm_record_take_locked() only after that, at most
 * twice, which debug builds check. */
bool wm_record_make_locked(wm_arena *arena);
static inline bool wm_record_have_locked(wm_arena *arena)
{
#ifndef NDEBUG
    arena->records_had = wm_lock_taken();
    arena->records_due = 2;
#endif
    return (wm_likely(arena->spare_blocks != NULL) &&
            wm_likely(arena->spare_blocks->next_idle != NULL)) ||
           wm_record_make_locked(arena);
}
static inline wm_block *wm_record_take_locked(wm_arena *arena)
{
    wm_block *block = arena->spare_blocks;

    wm_assert(arena->records_had == wm_lock_taken() &&
              arena->records_due-- > 0);
    arena->spare_blocks = block->next_idle;
    block->trace = 0;
    return block;
}
static inline void wm_record_give_locked(wm_arena *arena, wm_block *block)
{
    wm_block_set_state(block, WM_BLOCK_VOID);
    block->next_idle = arena->spare_blocks;
    arena->spare_blocks = block;
}

/* Null is not idle. */
static inline bool wm_run_is_idle(wm_block *block)
{
    return block != NULL && wm_block_state(block) == WM_BLOCK_IDLE;
}
/* True if the run is idle and the lane may use it; run may be null. */
static inline bool wm_run_may_have(const wm_arena *arena, const wm_lane *lane,
                                   wm_block *run)
{
    return wm_run_is_idle(run) &&
           (run->lane == lane || run->lane == &arena->common);
}
/* True if the run is a whole segment. */
static inline bool wm_run_is_segment(const wm_block *run)
{
    return run->bytes == run->segment->bytes;
}
/* The cell of a segment in which base lies. */
static inline size_t wm_run_cell(const wm_segment *segment, const char *base)
{
    return (size_t)(base - segment->base) >> wm_segment_cell_shift(segment);
}
/* Sets whether a run starts in the cell of base, for look-ups of inner
 * addresses. */
static inline void wm_run_mark(wm_segment *segment, const char *base,
                               bool start)
{
    wm_bit_set_locked(segment->starts, wm_run_cell(segment, base), start);
}
/* Initialises the record of an idle run at base and enters it in the map; the
 * run is in no bin yet. */
static inline void wm_run_init(wm_block *block, wm_segment *segment, char *base,
                               size_t bytes)
{
    wm_block_set_base(block, base);
    wm_block_set_bytes(block, bytes);
    wm_block_set_segment(block, segment);
    wm_block_set_state(block, WM_BLOCK_IDLE);
    wm_run_mark(segment, base, true);
    wm_page_map_set_run(base, bytes, block);
}
/* The runs to which the run belongs while idle. link: adds it there; unlink:
 * removes it. */
static inline wm_runs *wm_run_kind(const wm_block *run)
{
    const wm_segment *segment = run->segment;

    return &run->lane->idle[segment->oversize ? WM_RUNS_OVERSIZE
                            : segment->small  ? WM_RUNS_SMALL
                                              : WM_RUNS_LARGE];
}
static inline void wm_run_link(wm_block *run)
{
    wm_arena *arena = run->segment->arena;

    wm_assert(wm_run_extent(run) == run->bytes);
    wm_runs_insert(wm_run_kind(run), run);
    run->lane->idle_bytes += run->bytes;
    arena->laned_bytes += run->lane != &arena->common ? run->bytes : 0;
    if (wm_run_is_segment(run)) {
        wm_count_locked(&arena->idle_segments, 1);
    }
}
static inline void wm_run_unlink(wm_block *run)
{
    wm_arena *arena = run->segment->arena;

    wm_runs_remove(wm_run_kind(run), run);
    run->lane->idle_bytes -= run->bytes;
    arena->laned_bytes -= run->lane != &arena->common ? run->bytes : 0;
    if (wm_run_is_segment(run)) {
        wm_count_locked(&arena->idle_segments, -1);
    }
}
/* Moves a run, which is in no bin, to another lane; from or to null when its
 * record begins or ends. */
static inline void wm_run_move(wm_block *run, wm_lane *lane)
{
    wm_lane *old = run->lane;

    run->lane = lane;
    if (lane != NULL) {
        lane->runs++;
    }
    if (old != NULL) {
        old->runs--;
        if (wm_unlikely(old->ended)) {
            wm_lane_retire_locked(run->segment->arena, old);
        }
    }
}
/* Cuts a run, which is in no bin, to bytes. cut: returns the rest, in no bin;
 * split: the rest is idle. */
static inline wm_block *wm_run_cut_locked(wm_arena *arena, wm_block *block,
                                          size_t bytes)
{
    wm_block *rest = wm_record_take_locked(arena);

    /* First, since large runs that begin in one granule share an entry. */
    wm_page_map_resize_run(block, bytes);
    wm_run_init(rest, block->segment, block->base + bytes,
                block->bytes - bytes);
    wm_run_move(rest, block->lane);
    rest->put_at = block->put_at;
    rest->before = block;
    rest->after = block->after;
    if (rest->after != NULL) {
        rest->after->before = rest;
    }
    block->after = rest;
    wm_block_set_bytes(block, bytes);
    return rest;
}
void wm_run_split_locked(wm_arena *arena, wm_block *block, size_t bytes);
/* True if neither neighbour of a run, which is not the segment's first, starts
 * in the same cell. */
bool wm_run_has_cell(const wm_block *run);
/* A run starts no more; a cell in which another one starts stays marked. */
static inline void wm_run_unmark(const wm_block *run)
{
    wm_segment *segment = run->segment;

    if (wm_likely(wm_segment_cell_shift(segment) == WM_PAGE_SHIFT) ||
        wm_run_has_cell(run)) {
        wm_run_mark(segment, run->base, false);
    }
}
/* Merges the run with the next one, which is in no bin and whose record becomes
 * spare. */
static inline __attribute__((always_inline)) void
wm_run_absorb_locked(wm_arena *arena, wm_block *block)
{
    wm_block *next = block->after;

    wm_run_unmark(next);
    wm_page_map_set_run(next->base, next->bytes, NULL);
    wm_page_map_resize_run(block, block->bytes + next->bytes);
    wm_block_set_bytes(block, block->bytes + next->bytes);
    if (next->put_at > block->put_at) {
        block->put_at = next->put_at;
    }
    block->after = next->after;
    if (block->after != NULL) {
        block->after->before = block;
    }
    wm_run_move(next, NULL);
    wm_record_give_locked(arena, next);
}
/* Makes an idle segment, whose run is in no bin, one for small requests or one
 * for large ones, and counts it there. */
void wm_run_set_sort_locked(wm_arena *arena, wm_segment *segment, bool small);
/* Lets large requests of any size use an oversize segment in which the lane has
 * room for a large request of so many bytes; false: there is none. */
bool wm_run_open_oversize_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                                 bool whole);
/* True if the run is a whole oversize segment, in which a block of so many
 * bytes would be a small one. */
bool wm_run_outsizes(const wm_block *run, size_t bytes);
/* True if a request of bytes may use idle runs of the segment without opening
 * it first, if it is an oversize one. */
bool wm_run_suits(const wm_segment *segment, size_t bytes);
/* Merges idle runs that the lane may use, from first on, to at least bytes, and
 * with further idle runs of the lane behind them; the result is the lane's. */
wm_block *wm_run_join_lanes_locked(wm_arena *arena, wm_lane *lane,
                                   wm_block *first, size_t bytes);
/* An idle run of exactly bytes, out of its bin, or null. *failed: there is
 * memory, but no metadata for a record or a lane. lane, here and below: the
 * stream's first lane, the arena's common lane, or null. */
wm_block *wm_run_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                             enum wm_split split, bool *failed);
/* Frees a run that is in no bin and merges it with its neighbours. join: the
 * run was idle before, in another bin or segment. */
void wm_run_put_locked(wm_arena *arena, wm_block *block);
void wm_run_join_locked(wm_arena *arena, wm_block *block);
/* Removes a segment, with its runs, from the page map. */
void wm_segment_forget(wm_segment *segment);

/* ---- span.c -------------------------------------------------------------- */

/* Whether a block of so many bytes spans segments, unless a segment was
 * obtained whole that has room for it. */
static inline bool wm_span_needs(const wm_arena *arena, size_t bytes)
{
    return arena->group != NULL && arena->group->piece_bytes > 0 &&
           bytes > arena->group->piece_bytes;
}
/* A block over segments that adjoin, out of their bins, or null. *failed: there
 * is no metadata for a record. */
wm_block *wm_span_take_locked(wm_arena *arena, size_t bytes, bool *failed);
/* Frees what such a block has behind so many bytes in all segments but the
 * first. The block keeps these bytes, and at least its part of the first one.
 * There is a spare record for a part that is cut. end: all of it. */
void wm_span_cut_locked(wm_arena *arena, wm_block *block, size_t bytes);
void wm_span_end_locked(wm_arena *arena, wm_block *block);

/* ---- slab.c -------------------------------------------------------------- */

/* A slot of the class, or null; *failed as above. */
wm_block *wm_slab_take_locked(wm_arena *arena, wm_lane *lane,
                              unsigned size_class, enum wm_split split,
                              bool *failed);
void wm_slab_put_locked(wm_arena *arena, wm_block *slot);
/* The slab of a run in state SLAB, for a walk over all slots: carves the rest
 * of them. */
wm_slab *wm_slab_of_run_locked(const wm_block *run);
/* Moves all slabs of one lane to another. */
void wm_slab_move_all_locked(wm_lane *from, wm_lane *to);

/* ---- arena.c ------------------------------------------------------------- */

/* leave: a LIVE block is not counted any more, as if it had not been allocated.
 * enter: a run, in no bin, becomes LIVE, of bytes requested, and is counted. */
void wm_arena_leave_locked(wm_arena *arena, const wm_block *block);
void wm_arena_enter_locked(wm_arena *arena, wm_block *block, size_t bytes);
/* As wm_arena_take(); counted as no hit. */
wm_block *wm_arena_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                               enum wm_split split, bool *starved);
/* Frees all blocks of the transfer cache to the arena; false: there were none.
 * age: if the cache was not used since the last call. */
bool wm_arena_empty_transfer_cache_locked(wm_arena *arena);
void wm_arena_age_transfer_cache_locked(wm_arena *arena);
/* Refills a magazine: allocates up to count blocks of a fixed class, counted
 * only in out_bytes, and sets the state of each. Returns their number. */
unsigned wm_arena_take_batch_locked(wm_arena *arena, wm_lane *lane,
                                    unsigned size_class, unsigned count,
                                    enum wm_split split, wm_state state,
                                    wm_entry *entries);
/* Frees a block of such a batch, or another block whose free is already
 * counted. */
void wm_arena_put_locked(wm_arena *arena, wm_block *block);
/* begin: blocks that are out become pending. end: pending blocks have completed
 * and are out again. The caller sets their states. */
void wm_arena_begin_pending_locked(wm_arena *arena, size_t count, size_t bytes);
void wm_arena_end_pending_locked(wm_arena *arena, size_t count, size_t bytes);

/* ---- arena_stats.c ------------------------------------------------------- */

static inline void wm_total_add(wm_total *total, int64_t change,
                                uint64_t allocated)
{
    total->current += (uint64_t)change;
    total->allocated += allocated;
}

/* Counts of a magazine set for one class since its last merge. */
typedef struct wm_tally {
    int64_t blocks, bytes, asked; /* change of what callers hold */
    uint64_t allocs, taken; /* blocks allocated, and bytes requested in them */
} wm_tally;

void wm_arena_merge_tally_locked(wm_arena *arena, unsigned size_class,
                                 const wm_tally *tally);

/* Counts freed blocks that became pending (> 0) or complete (< 0). */
void wm_arena_note_pending_locked(wm_arena *arena, int64_t count,
                                  int64_t bytes);
/* Counts blocks that became pending and completed since the last call. */
void wm_arena_note_completed_locked(wm_arena *arena, size_t count,
                                    size_t bytes);
/* The block becomes LOST for good, or CAPTURED, and is counted. */
void wm_block_retain_locked(wm_arena *arena, wm_block *block,
                            enum wm_block_state state);
/* Counts segments and bytes that the arena gained (> 0) or lost (< 0): all or
 * part of segment. */
void wm_arena_note_held_locked(wm_arena *arena, const wm_segment *segment,
                               int segments, int64_t bytes);

/* Counts the move of a segment to a sibling. The caller holds both locks. */
void wm_arena_note_move_locked(wm_arena *from, wm_arena *to,
                               const wm_segment *segment);

/* ---- segment.c ----------------------------------------------------------- */

/* Adds memory as a segment of one idle, common run; null, and no effect, if
 * there is no record. needed: bytes of the request that it was obtained for, or
 * 0. small: it is for small requests. */
wm_segment *wm_segment_join_locked(wm_arena *arena, void *base, size_t bytes,
                                   size_t needed, bool small);
/* detach: takes a wholly idle segment out of the arena; the records of its runs
 * stay with it. attach: adds it again. give: its record and those of its runs
 * become spare. */
void wm_segment_detach_locked(wm_arena *arena, wm_segment *segment);
void wm_segment_attach_locked(wm_arena *arena, wm_segment *segment);
void wm_segment_give_locked(wm_arena *arena, wm_segment *segment);
/* Logs in the history memory that was obtained or is going to be freed; under
 * the lock, so that the history and a snapshot agree. */
static inline void wm_segment_log(const wm_arena *arena, const char *base,
                                  size_t bytes, enum wm_history_op op)
{
    if (arena->history != NULL) {
        wm_traced_segment(arena, base, bytes, op);
    }
}

#endif
