/* arena.h: segments, idle runs and slabs under one lock, with their figures.
 *
 * An arena knows nothing of streams and drivers: segments are handed in and
 * taken out by its owner (a space), who talks to the driver outside the lock.
 *
 *   held = out + idle + pending + lost + captured           (bytes, always)
 *   out = live + cached in magazines
 *
 * Several arenas may share a node, so that threads need not meet in one; they
 * are siblings. A block belongs to one of them; its thread's figures may go to
 * another: but for what is held, figures mean something as sums over siblings.
 *
 * All functions but the _locked ones take lock arena themselves. */
#ifndef WM_ARENA_H
#define WM_ARENA_H

#include "alloc/arena/transfer_cache.h"
#include "alloc/block/block.h"
#include "alloc/arena/lane.h"
#include "alloc/arena/live.h"
#include "runtime/base/lock.h"
#include "warmpool/stats.h"

/* Whether an allocation may split a run that is much larger than the request.
 */
enum wm_split {
    WM_SPLIT_ALLOW,    /* yes; where no run is large enough, join some */
    WM_SPLIT_NO_JOIN,  /* yes, but join none */
    WM_SPLIT_GOOD_FIT, /* only if little was freed since the last miss: else a
                          poll is likely to find a better run; see run.c */
    WM_SPLIT_FORBID    /* no: the caller polls more streams after a miss */
};

typedef struct wm_arena {
    /* What frees read. */
    struct wm_arena_group *group;  /* const: of its space; see group.h */
    int node;                      /* const: of its memory */
    unsigned shard;                /* const: which of its siblings it is */
    struct wm_arena *siblings;     /* const: the first of them, shard 0 */
    struct wm_arena *next_sibling; /* const: null: the last */
    struct wm_arena *next_arena;   /* const: of the space's */
    struct wm_history *history;    /* const; null: none is kept */
    wm_lives *live;                /* const: of its node; or its own */
    /* const: of the streams that its lanes belong to, or null: there are none
     */
    struct wm_lane_registry *orders;
    /* const: it is that of a private pool; null: everybody's */
    struct wm_private_arena *pool;
    /* Whose it is now, 0: of none. Lock private to change, and relaxed to
     * tell; and const: of pools that are not for graphs. */
    _Atomic uint64_t pool_number;
    bool user_pool;
    /* const: requests up to this have segments of their own, so that they do
     * not keep large ones from going; 0: all share */
    size_t small_max;
    /* const: the driver backs whole ones, so that segments are a multiple: what
     * is held is what is gone */
    size_t grain;
    /* const: its segments stretch by so much (expand.h); 0: they are regions
     * of the driver's, obtained and given back whole */
    size_t unit;
    /* Relaxed: bytes that ever came from the driver, in the first sibling. */
    _Atomic uint64_t grown;
    /* Relaxed, of node_fallback.c, in the first sibling: requests that leave
     * the driver alone, and how many did the last time. */
    _Alignas(64) _Atomic unsigned pause, paused;
    /* Relaxed: segments, and those that are one idle run each; written under
     * the lock. */
    _Atomic unsigned segment_count, idle_segments;
    /* Those of siblings are taken by rising number. */
    _Alignas(64) wm_lock lock;
    /* Sets of magazines that are filled here: lock of the first sibling. */
    unsigned sets;
    /* All below: lock arena. */
    wm_segment *segments;
    wm_segment *spare_segments; /* records, chained by next */
    wm_segment *all_segments;   /* every record made, chained by next_made */
    wm_block *gaps;             /* chained as idle runs are */
    wm_lane common;             /* what anybody may have */
    wm_lane *lanes;             /* what a stream may have, chained by next */
    wm_lane *spare_lanes;
    wm_lane *fresh_head,
        *fresh_tail;            /* runs came back, chained by next_fresh */
    _Atomic size_t fresh_lanes; /* relaxed: looked at without the lock */
    size_t dedicated_segments;  /* made for one request each */
    size_t grown_bytes;     /* obtained although a run apart would have done */
    wm_block *spare_blocks; /* records, chained by next_idle */
    void *record_chunks;    /* what they were cut from */
    wm_slab *all_slabs;     /* every record made, chained by next_made */
    size_t detached_bytes;  /* taken out, not yet with the driver */
    size_t fresh_bytes;     /* became pending since the last miss */
    size_t out_bytes;       /* with callers, or in magazines (not the cache) */
    bool batched;   /* not all that is out is with callers: see the check */
    bool retaining; /* graphs have it: nothing goes to the driver */
    wm_transfer_cache transfer_cache;    /* what full magazines gave back */
    wm_slab *spare_slabs[WM_SLAB_SORTS]; /* records, chained by next */
    /* Of what is settled: sets of magazines count for themselves meanwhile.
     * Sums are computed when read. */
    warm_space_stats stats;
    struct wm_sorted *sorted; /* by small and large as well, or null */
    struct wm_class_figures {
        warm_stat requests, requested_bytes, handed_bytes;
    } classes[WM_CLASSES_ALL];
    wm_lives own_live;
} wm_arena;

void wm_arena_init(wm_arena *arena, struct wm_arena_group *group, int node);
/* Makes count arenas of an array siblings (1 … WM_SIBLINGS). */
void wm_arena_join(wm_arena *arenas, unsigned count);
static inline bool wm_arena_is_sibling(const wm_arena *one,
                                       const wm_arena *other)
{
    return one == other || one->siblings == other->siblings;
}
/* The next one after a that has memory, in the circle of siblings that ends
 * with arena. Relaxed: what comes to one right now is missed. */
static inline wm_arena *wm_arena_next(const wm_arena *arena, wm_arena *a)
{
    do {
        a = a->next_sibling != NULL ? a->next_sibling : a->siblings;
    } while (a != arena && atomic_load_explicit(&a->segment_count,
                                                memory_order_relaxed) == 0);
    return a;
}

/* The number of the private pool whose an arena is; 0: everybody's. */
static inline uint64_t wm_arena_pool_number(const wm_arena *arena)
{
    return atomic_load_explicit(&arena->pool_number, memory_order_relaxed);
}

/* Gives the records back. Segments still in the arena are forgotten: their
 * entries leave the page map, their memory stays as it is. */
void wm_arena_fini(wm_arena *arena);

/* What somebody asks a space for. */
typedef struct wm_request {
    size_t bytes;    /* 1 … WM_REQUEST_MAX */
    wm_arena *arena; /* one of the space's, of a usable node */
    wm_lane *lane;   /* in whose order; null: in nobody's */
    /* Of a space that is laned: the stream of the lane, and the runtime's
     * stream_epoch before it was looked up; 0: no thread keeps such. */
    warm_stream stream;
    uint64_t epoch;
    bool strict; /* no other node will do */
    /* Null, or where the reason goes for which it cannot be served: nothing is
     * said and counted of it then, but see wm_space_refuse(). */
    warm_error *cause;
} wm_request;

/* A LIVE block of at least bytes (1 … WM_REQUEST_MAX), counted as served from
 * the cache, or null on a miss. *starved is set if there was memory for it,
 * but none for a record.
 * lane, here and below: in whose order it will be used and freed, the first of
 * that stream; null: in nobody's, it is common again once it is freed. */
wm_block *wm_arena_take(wm_arena *arena, wm_lane *lane, size_t bytes,
                        enum wm_split split, bool *starved);

/* Adds a segment that the driver gave, and takes a block for the request from
 * it in the same step, so that nobody else does; none for 0 bytes.
 * Status: OUT_OF_MEMORY, UNSUPPORTED; the memory is still the caller's. */
warm_status wm_arena_grow(wm_arena *arena, wm_lane *lane, void *base,
                          size_t segment_bytes, size_t bytes, wm_block **block);

/* A block as wm_arena_take(), or where there is none of a sibling: cut from a
 * region that is wholly idle and moves over, or one that stays there. */
wm_block *wm_arena_take_or_steal(wm_arena *arena, wm_lane *lane, size_t bytes,
                                 bool *starved);
/* Moves such a region, the smallest that a request fits into; whether there was
 * one. */
bool wm_arena_steal_segment(wm_arena *arena, size_t bytes);
/* An arena has grown by so much for a request for which a sibling has a region
 * apart. */
void wm_arena_note_growth_beside(wm_arena *arena, size_t needed, size_t bytes);

/* Lets requests of any size have a region that has room for bytes and is kept
 * for large ones, if there is one: for who gets nothing from the driver. */
bool wm_arena_open_oversize(wm_arena *arena, wm_lane *lane, size_t bytes);

/* What becomes of a block that its caller frees; FREEING → idle, PENDING,
 * LOST or CAPTURED. Ends its time with the caller in the figures. */
void wm_arena_free(wm_arena *arena, wm_block *block);
void wm_arena_free_pending(wm_arena *arena, wm_block *block);
void wm_arena_free_retained(wm_arena *arena, wm_block *block,
                            enum wm_block_state state);

/* While the arena is keeping: CAPTURED, to come back at the end of that; false,
 * and nothing done, if it is not. */
bool wm_arena_retain(wm_arena *arena, wm_block *block);
/* Keeps from now on. The arena has no blocks. */
void wm_arena_retain_begin(wm_arena *arena);
/* Keeps no more: blocks kept come back as FREEING ones, still out, chained by
 * next_done. */
wm_block *wm_arena_retain_end(wm_arena *arena);
/* What becomes of these: IDLE, PENDING or LOST. had_uses: when it came back,
 * and has none any more. */
void wm_arena_put_retained(wm_arena *arena, wm_block *block,
                           enum wm_block_state state, bool had_uses);

/* What became of PENDING blocks: bytes of one that is kept for ever, or 0. */
typedef struct wm_ended {
    size_t lost;
} wm_ended;

/* The last timelines have let go of PENDING blocks, chained by next_done: IDLE,
 * LOST, or CAPTURED. Returns the first one of another arena, or null. */
wm_block *wm_arena_finish(wm_arena *arena, wm_block *chain, wm_ended *ended);
static inline enum wm_block_state wm_block_fate(wm_block *block)
{
    /* Relaxed: the last queue has let go of the block. */
    if (wm_unlikely(
            atomic_load_explicit(&block->stuck, memory_order_relaxed))) {
        return WM_BLOCK_LOST;
    }
    return wm_unlikely(
               atomic_load_explicit(&block->captured, memory_order_relaxed))
               ? WM_BLOCK_CAPTURED
               : WM_BLOCK_IDLE;
}

/* Takes wholly idle segments out, the largest first, until at most target
 * bytes are held; chained by next. They still count as held. */
wm_segment *wm_arena_detach(wm_arena *arena, size_t target);
/* The same for those idle since before_ns or earlier, as long as *keep bytes of
 * wholly idle ones stay; less what stays. */
wm_segment *wm_arena_detach_old(wm_arena *arena, uint64_t before_ns,
                                size_t *keep);
/* The same for those made for one request, of its size, and smaller than below
 * (1 …), until there is none within most bytes. */
wm_segment *wm_arena_detach_dedicated(wm_arena *arena, size_t below,
                                      size_t most);

/* What goes of an arena: until bytes are out, but not what is idle since later
 * than before_ns (of segments that expand), nor what ranks below least. */
typedef struct wm_purge {
    size_t bytes;
    uint64_t before_ns;
    uint64_t least;
    bool oldest; /* those idle longest rank highest, else the largest */
} wm_purge;

/* The rank of what is wholly idle and would go first, 0: nothing. *detached:
 * bytes on their way already. */
uint64_t wm_arena_rank(wm_arena *arena, bool oldest, size_t *detached);
/* The same as above, highest ranks first. */
wm_segment *wm_arena_detach_first(wm_arena *arena, const wm_purge *purge);
/* Takes the segment out, as above, if it is in the arena and wholly idle. Its
 * record may be of another one by now, or of none. */
bool wm_arena_detach_idle(wm_arena *arena, wm_segment *segment);
/* The driver took one back, its record ends; or it did not, and it is idle in
 * the arena again. put_off: it was not asked, and may be at any time. */
void wm_arena_released(wm_arena *arena, wm_segment *segment);
void wm_arena_reattach(wm_arena *arena, wm_segment *segment);
void wm_arena_put_off(wm_arena *arena, wm_segment *segment);

/* Calls fn for every LIVE block; fn takes no lock below arena. For the end of
 * a runtime, when nobody else is inside: takes no lock itself. */
void wm_arena_each_live(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context);

/* A walk over everything in debug tests, of the arena and its siblings: true if
 * all invariants hold. That the
 * figures are those of the live blocks too is asked only where no magazines
 * are, else by wm_space_check_settled(). */
bool wm_arena_check(wm_arena *arena);
bool wm_arena_check_settled(wm_arena *arena);

/* Counts a call to the driver that obtained memory or gave it back. */
void wm_arena_count_driver(wm_arena *arena, bool free, uint64_t ns);
/* Sums over the arena and its siblings; stats->size is the caller's. */
void wm_arena_stats(wm_arena *arena, warm_space_stats *stats);
void wm_arena_class_stats(wm_arena *arena, unsigned size_class,
                          warm_class_stats *stats);
/* Bytes that are idle in the arenas themselves, and those of the largest run.
 */
size_t wm_arena_idle(wm_arena *arena);
size_t wm_arena_largest(wm_arena *arena);
/* Bytes of the arena's own segments. */
size_t wm_arena_held(wm_arena *arena);
void wm_arena_count_retry(wm_arena *arena);
void wm_arena_count_failure(wm_arena *arena);
/* A request that would rather have had memory of another node. */
void wm_arena_count_spill(wm_arena *arena);
void wm_arena_reset_peaks(wm_arena *arena);
void wm_arena_reset_totals(wm_arena *arena);

#endif
