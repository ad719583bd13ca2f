/* lane.h: idle memory of an arena that only one stream may use (row C1).
 *
 * Memory that was freed in the order of a stream may be allocated for that
 * stream at once: its queue runs the new work after the old. Other streams may
 * use it once the stream has completed the work queued before the free.
 *
 *   arena ─┬─ common    idle runs and slabs that every stream may use
 *          ├─ lane 7    … that stream 7 may use: put 1, 2, … 9, 10, 11
 *          └─ lane 9                 stream 7 has completed up to 9 ┘
 *
 * A request on a stream is served from the stream's lane and from the common
 * one. Runs of one lane merge; runs of different lanes do not, until a request
 * finds room only in several runs of its own lane and the common one. A lane
 * does not know its stream, nor does an arena know what a stream has completed:
 * stream_lane.c and stream_wait.c do, and call wm_lanes_passed(). Page-locked
 * memory has the common lane only.
 *
 * A stream has a lane in each sibling arena in which it has had memory, made
 * with its first allocation there. The lane in the first sibling is made first
 * and leads to the others: a request names this first lane, whichever sibling
 * it uses. wm_lane_…() is about one lane, wm_lanes_…() about all lanes of a
 * stream.
 *
 * A stream may end while a request names its lane. The request holds the lane,
 * so that its record is not reused; a lane that has ended leads to common
 * memory. */
#ifndef WM_LANE_H
#define WM_LANE_H

#include "alloc/block/block.h"
#include "runtime/base/lock.h"

struct wm_arena;

/* fence_step of an arena whose lanes get no fences before the first miss. */
#define WM_FENCES_NEVER (SIZE_MAX / 4)

enum { WM_SIBLINGS = WM_RANK_ARENA_LAST - WM_RANK_ARENA + 1 };

/* Idle runs by size, for a good fit at a fixed cost.
 *
 *   bins     32 K │ 36 K │ 40 K │ … │ 60 K │ 64 K │ 72 K │ …   eight to a
 *                    │                                         doubling
 *                  run ↔ run ↔ run       the run freed last is first
 *
 * A run stands in the bin with the largest lower bound that it reaches. The
 * class sizes are bounds themselves (size_class.h): every run of their bin
 * serves them, with at most an eighth wasted. Runs are linked through their
 * records: no allocation. Lock arena. */
enum {
    WM_BINS_STEPS_LOG2 = 3,
    WM_BINS_COUNT = (46 - 12 + 1) << WM_BINS_STEPS_LOG2, /* WM_REQUEST_MAX */
    WM_BINS_WORDS = (WM_BINS_COUNT + 63) / 64
};

/* All zeros: empty. */
typedef struct wm_bins {
    uint64_t filled[WM_BINS_WORDS]; /* bit i: bin i has a run */
    wm_block *bin[WM_BINS_COUNT];
} wm_bins;

/* Idle runs of one kind. A search compares all of a few runs; a lane gets bins
 * when it has more than WM_RUNS_FEW, unless there is no memory for them: most
 * of a thousand streams have few. All zeros: empty. */
enum { WM_RUNS_FEW = 8 };

typedef struct wm_runs {
    wm_bins *bins; /* null: all runs are in few. The lane's own, or common */
    wm_block *few;
    size_t count;
} wm_runs;

/* Kind of segment in which a run lies (wm_arena.small_max; run.c). */
enum wm_run_kind {
    WM_RUNS_LARGE,
    WM_RUNS_SMALL,
    WM_RUNS_OVERSIZE,
    WM_RUN_KINDS
};

/* By class: slabs with at least one idle slot. */
typedef struct wm_slab_lists {
    wm_slab *of[WM_SLAB_CLASSES];
} wm_slab_lists;

/* Lock arena. All zeros: empty. */
typedef struct wm_lane {
    wm_runs idle[WM_RUN_KINDS];
    wm_slab_lists *slabs; /* null: it has had no slab. Its own, or common */
    uint64_t puts;        /* runs freed so far, numbered from 1 */
    uint64_t safe_until;  /* puts up to this one are common */
    size_t runs;          /* idle or not, slabs included */
    size_t idle_bytes;    /* of idle runs */
    uint64_t id;          /* const: lane_id of its blocks */
    /* Requests and sets that name it, and one until it has ended. Raised by a
     * holder, or under lock registry; falls to 0 under lock arena only. */
    _Atomic size_t holds;
    _Atomic bool closed;  /* the stream was retired */
    bool ended;           /* the stream and all of its work have ended */
    _Atomic bool ending;  /* first lane: all lanes of the stream are ending */
    struct wm_lane *next; /* next lane of the arena */
    void *owner;          /* set by the creator; null once it has ended */
    bool fresh; /* a run was freed: in the arena's queue of fresh lanes */
    struct wm_lane *next_fresh; /* next in that queue */
    /* By shard: the lane itself; in the stream's first lane also the lanes in
     * the siblings. Stored under lock arena of the sibling, loaded without it:
     * relaxed, since a lane that is found is read under that lock only. */
    _Atomic(struct wm_lane *) by_shard[WM_SIBLINGS];
} wm_lane;

/* For each lane of a stream, the runs freed so far. */
typedef struct wm_lane_point {
    uint64_t puts[WM_SIBLINGS];
} wm_lane_point;

/* A lane without memory; null: no memory for the record. id: not 0, which is
 * the common lane's, and never used twice. */
wm_lane *wm_lane_make(struct wm_arena *arena, uint64_t id);

/* The lane with that id, made if there is none; null: no memory. For an arena
 * whose lanes do not end one by one but all at once, when it has no memory
 * left. */
wm_lane *wm_lane_get(struct wm_arena *arena, uint64_t id);
void wm_lanes_end_empty(struct wm_arena *arena);

/* From hold to drop the record of a stream's first lane stays valid, even if
 * the lane has ended. arena: any of the siblings. */
static inline void wm_lane_hold(wm_lane *lane)
{
    /* Relaxed: the caller has a hold, or lock registry. */
    atomic_fetch_add_explicit(&lane->holds, 1, memory_order_relaxed);
}
void wm_lane_drop(struct wm_arena *arena, wm_lane *lane);

/* True if a run that was freed after safe_until lies idle: polling the stream
 * may make it common. */
bool wm_lane_has_more(struct wm_arena *arena, wm_lane *lane);

/* Queue of lanes to which runs were freed since the lane was last taken from
 * it. take: the first, or null; renew: puts a lane at the end. A taken lane,
 * and its owner, stay valid only under a lock of the caller that excludes the
 * lane's end. */
wm_lane *wm_lane_take_fresh(struct wm_arena *arena);
void wm_lane_renew(struct wm_arena *arena, wm_lane *lane);

/* Fences are being queued for all lanes of the arena. They are due again when
 * lanes have step bytes more than now, or than they had meanwhile. */
void wm_lane_note_fences(struct wm_arena *arena, size_t step);

/* True if a LIVE block is still in the order of the stream with that id, so
 * that work of that stream on it need not be recorded. */
bool wm_lane_has(struct wm_arena *arena, const wm_block *block, uint64_t id);

/* ---- all lanes of a stream: lane is the first, arena the one it is in ---- */

/* True if any of the lanes has an idle run of `least` bytes or more, freed up
 * to the point (null: at any time), in a segment that serves requests of
 * `bytes`. */
bool wm_lanes_have_room(struct wm_arena *arena, const wm_lane *lane,
                        size_t bytes, size_t least, const wm_lane_point *point);
/* Bytes of idle runs that are in lanes, but not in those of lane: a request of
 * that stream cannot use them now. lane null: of all lanes. */
size_t wm_lanes_idle_beside(struct wm_arena *arena, const wm_lane *lane);
/* Runs freed so far. */
void wm_lanes_puts(struct wm_arena *arena, const wm_lane *lane,
                   wm_lane_point *point);
/* The stream has completed the work queued before the frees up to the point:
 * those runs become common, but not slabs, part of which may still be freed. */
void wm_lanes_passed(struct wm_arena *arena, const wm_lane *lane,
                     const wm_lane_point *point);
/* Queues the lanes to which runs were freed since the point. */
void wm_lanes_renew(struct wm_arena *arena, const wm_lane *lane,
                    const wm_lane_point *point);
/* The stream of lane to waits for the work that the stream of lane from queued
 * before the point: runs freed up to the point move to lane to. */
void wm_lanes_yield(struct wm_arena *arena, const wm_lane *from, wm_lane *to,
                    const wm_lane_point *point);
/* The stream is retired: its further work is not in the order of its lanes,
 * including lanes that a request is making meanwhile. */
void wm_lanes_close(struct wm_arena *arena, const wm_lane *lane);
/* The stream and all of its work have ended: idle memory, and memory that is
 * freed later, is common; a later request that names the lane has no stream
 * order. A record is spare once no run is left that could be freed and there is
 * no hold. Ends the first lane last. */
void wm_lanes_end(struct wm_arena *arena, wm_lane *lane);

#endif
