/* lane.h: idle memory of an arena that is safe for one stream only (row C1).
 *
 * What was freed in the order of a stream may be handed out on that stream at
 * once: its queue puts the new work behind the old. Anybody else may have it
 * once the stream has passed the point of the free.
 *
 *   arena ─┬─ common    idle runs and slabs that anybody may have
 *          ├─ lane 7    … that stream 7 may have: put 1, 2, … 9, 10, 11
 *          └─ lane 9                   stream 7 has passed ──────► └ not yet
 *
 * A request in a lane is served from that and from the common one. Runs of one
 * lane join with each other; those of different lanes stay apart, until a
 * request finds no room but in several of its own and the common ones. A lane
 * does not know its stream, nor an arena what has passed: the space does (see
 * stream_lane.h), and says so with wm_lane_passed(). Page-locked memory has the
 * common lane only.
 *
 * A stream has a lane in each of the siblings where it has had memory, made
 * when it first takes some there. The one in the first of them is made first,
 * stands for all, and leads to them: a request names that one, whichever of the
 * siblings it asks. wm_lane_…() is about one lane, wm_lanes_…() about all of a
 * stream.
 *
 * A stream may end while a request names its lane. Who names one holds it: it
 * is over then, and leads to what is common, but is no other stream's yet. */
#ifndef WM_LANE_H
#define WM_LANE_H

#include "alloc/arena/bins.h"
#include "runtime/base/lock.h"

struct wm_arena;

enum { WM_SIBLINGS = WM_RANK_ARENA_LAST - WM_RANK_ARENA + 1 };

/* Which segment a run lies in; see wm_arena.small_max and run.c. */
enum wm_run_kind {
    WM_RUNS_LARGE,
    WM_RUNS_SMALL,
    WM_RUNS_OVERSIZE,
    WM_RUN_KINDS
};

/* Lock arena. All zeros: empty. */
typedef struct wm_lane {
    wm_bins idle[WM_RUN_KINDS];
    wm_slab *slabs[WM_CLASSES]; /* with at least one idle slot */
    uint64_t puts;              /* runs that came back */
    uint64_t safe_until;        /* so many of those anybody may have */
    size_t runs;                /* idle or not, slabs among them */
    uint64_t id;                /* const: what its blocks say they are of */
    /* Requests and sets that name it, and one until it is over. Raised by who
     * has one, or lock orders; falls to 0 under lock arena only. */
    _Atomic size_t holds;
    _Atomic bool closed;        /* the stream was retired */
    bool ended;                 /* and all of its work has ended */
    _Atomic bool ending;        /* of the first one: its lanes are over */
    struct wm_lane *next;       /* of the arena's */
    void *owner;                /* of whoever made it; null once it is over */
    bool fresh;                 /* a run came back: in the arena's queue */
    struct wm_lane *next_fresh; /* there */
    /* By shard; of the first one of a stream those in siblings, too. Release
     * under lock arena of that sibling, acquire without: made when found. */
    _Atomic(struct wm_lane *) by_shard[WM_SIBLINGS];
} wm_lane;

/* How many runs had come back to each lane of a stream. */
typedef struct wm_lane_point {
    uint64_t puts[WM_SIBLINGS];
} wm_lane_point;

/* A lane without memory; null: no memory for that. id: never used twice, not 0,
 * which is the common lane's. */
wm_lane *wm_lane_make(struct wm_arena *arena, uint64_t id);

/* The lane of that id, made if there is none; null: no memory. For an arena
 * whose lanes never end, but all at once, when it has no memory left. */
wm_lane *wm_lane_get(struct wm_arena *arena, uint64_t id);
void wm_lanes_end_empty(struct wm_arena *arena);

/* The first lane of a stream is named until it is dropped, be it over or not.
 * arena: any of the siblings. */
static inline void wm_lane_hold(wm_lane *lane)
{
    /* Relaxed: who adds one has one, or lock orders. */
    atomic_fetch_add_explicit(&lane->holds, 1, memory_order_relaxed);
}
void wm_lane_drop(struct wm_arena *arena, wm_lane *lane);

/* How many runs came back so far. */
uint64_t wm_lane_puts(struct wm_arena *arena, wm_lane *lane);
/* Whether anything came back since as many did as have passed, and lies idle:
 * it is worth asking the stream. */
bool wm_lane_has_more(struct wm_arena *arena, wm_lane *lane);

/* How many lanes had runs come back since they were taken here, as of a moment
 * ago; takes the first of them, or null; and puts one back, the last. Who takes
 * one, and what its owner is, agree on a lock of their own with who ends it. */
size_t wm_lane_fresh(const struct wm_arena *arena);
wm_lane *wm_lane_take_fresh(struct wm_arena *arena);
void wm_lane_renew(struct wm_arena *arena, wm_lane *lane);
void wm_lane_renew_locked(struct wm_arena *arena, wm_lane *lane);

/* The stream has passed what had come back when puts were counted: it is
 * common now. But not slabs, parts of which may still come back. */
void wm_lane_passed(struct wm_arena *arena, wm_lane *lane, uint64_t puts);

/* The stream is retired: what it does from now on is not in the lane's order.
 */
void wm_lane_close(struct wm_arena *arena, wm_lane *lane);

/* Whether a LIVE block is in the order of the stream with that id still, so
 * that its work need not be recorded. */
bool wm_lane_has(struct wm_arena *arena, const wm_block *block, uint64_t id);

/* The stream of another lane waits for what had come back to one when puts were
 * counted: it is that lane's. */
void wm_lane_yield(struct wm_arena *arena, wm_lane *from, wm_lane *to,
                   uint64_t puts);

/* Whether a run of at least so much is idle in it, where requests of bytes find
 * one. */
bool wm_lane_has_room(struct wm_arena *arena, wm_lane *lane, size_t bytes,
                      size_t least);

/* The stream has ended, and all of its work has: all that is idle, and what
 * will come back, is common. The lane is spare once nothing is left that could
 * come back, and nobody holds it. */
void wm_lane_end(struct wm_arena *arena, wm_lane *lane);
void wm_lane_end_locked(struct wm_arena *arena, wm_lane *lane);
/* The record of one that has no memory: it is over, and goes once nobody names
 * it. */
void wm_lane_finish_locked(struct wm_arena *arena, wm_lane *lane);

/* The last run of a lane that is over has left it, or its last hold: it is
 * spare if both have. Lock arena. */
void wm_lane_retire_locked(struct wm_arena *arena, wm_lane *lane);

/* ---- all of a stream: lane is the first, arena the one it is in ---------- */

/* Any of them. */
bool wm_lanes_have_more(struct wm_arena *arena, const wm_lane *lane);
bool wm_lanes_have_room(struct wm_arena *arena, const wm_lane *lane,
                        size_t bytes, size_t least);
void wm_lanes_puts(struct wm_arena *arena, const wm_lane *lane,
                   wm_lane_point *point);
void wm_lanes_passed(struct wm_arena *arena, const wm_lane *lane,
                     const wm_lane_point *point);
/* Those to which anything came back since are in their arena's queue. */
void wm_lanes_renew(struct wm_arena *arena, const wm_lane *lane,
                    const wm_lane_point *point);
void wm_lanes_yield(struct wm_arena *arena, const wm_lane *from, wm_lane *to,
                    const wm_lane_point *point);
/* And those that a request makes meanwhile. */
void wm_lanes_close(struct wm_arena *arena, const wm_lane *lane);
/* The first one last. A request that comes later yet is in nobody's order. */
void wm_lanes_end(struct wm_arena *arena, wm_lane *lane);

#endif
