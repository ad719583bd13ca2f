/* arena.h: segments, idle runs and slabs under one lock, with their figures.
 *
 * An arena does not know streams or the driver. The space that owns it adds
 * segments to it, detaches segments from it, and calls the driver outside the
 * lock.
 *
 *   held = out + idle + pending + lost + captured           (bytes, always)
 *   out = live + cached in magazines
 *
 * Several arenas may serve one node so that threads do not contend for one
 * lock; they are called siblings. A block belongs to one arena, but its thread
 * may count it in the figures of another: except for held bytes, a figure is
 * meaningful only as the sum over all siblings.
 *
 * Every function takes lock arena itself, except those whose name ends in
 * _locked. */
#ifndef WM_ARENA_H
#define WM_ARENA_H

#include "alloc/arena/lane.h"
#include "alloc/arena/live.h"
#include "alloc/arena/transfer_cache.h"
#include "alloc/block/block.h"
#include "runtime/base/history.h"
#include "runtime/base/lock.h"
#include "runtime/thread/tracing.h"
#include "warmpool/device_memory.h"
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

/* A figure; freed so far: allocated - current. */
typedef struct wm_total {
    uint64_t current, allocated;
} wm_total;

/* Figures of small or of large requests. */
typedef struct wm_figures {
    warm_stat segments, held_bytes;
    /* If the arena has small and large segments: freed blocks that streams may
     * still use. Active blocks are these and the blocks that callers hold. */
    wm_total draining, draining_bytes;
} wm_figures;

typedef struct wm_arena {
    /* Fields that frees read. */
    struct wm_arena_group *group;  /* const: arenas of its space (group.h) */
    int node;                      /* const: NUMA node of its memory */
    unsigned shard;                /* const: its index among its siblings */
    struct wm_arena *siblings;     /* const: the first sibling, shard 0 */
    struct wm_arena *next_sibling; /* const; null: the last sibling */
    struct wm_arena *next_arena;   /* const: next arena of the space */
    struct wm_history *history;    /* const; null: no history is recorded */
    /* const: registry of the streams that its lanes belong to; null: it has no
     * lanes */
    struct wm_lane_registry *registry;
    /* const: the private pool it serves; null: none */
    struct wm_private_arena *pool;
    /* Number of the private pool that uses it now, 0: none. Written under lock
     * private; relaxed to read. const if user_pool: a pool that is not for
     * graphs. */
    _Atomic uint64_t pool_number;
    bool user_pool;
    /* Of adopted memory (kinds/adopt.h), written while the arena is empty.
     * lent: its one block is the program's memory, which warm_free() does not
     * free. read_only: devices must not write to it. */
    bool lent, read_only;
    /* Requests for page-locked memory may use it. Written under lock arena;
     * relaxed to read without it. */
    _Atomic bool serves;
    /* const: requests up to this size have segments of their own, so that small
     * blocks do not occupy segments of large requests; 0: all requests share
     * segments */
    size_t small_max;
    /* const: unit in which the driver backs memory: segments are a multiple of
     * it, so that held bytes are the device memory used */
    size_t grain;
    /* const: each segment is a range of addresses with memory mapped into it,
     * which can be unmapped while the addresses stay (paused.c) */
    bool ranged;
    /* Relaxed, in the first sibling: bytes obtained from the driver, in total.
     */
    _Atomic uint64_t grown;
    /* Relaxed, in the first sibling, for grow.c: after the driver refused
     * memory, the number of requests left that do not call it; and that number
     * at the start of the last back-off. */
    _Alignas(64) _Atomic unsigned backoff_left, backoff_last;
    /* Relaxed: segments, and segments that are one idle run; written under the
     * lock. */
    _Atomic unsigned segment_count, idle_segments;
    /* The locks of siblings are taken in the order of their shards. */
    _Alignas(64) wm_lock lock;
    /* Magazine sets that are refilled from this arena: lock of the first
     * sibling. */
    unsigned sets;
    /* All fields below: lock arena. */
    wm_segment *segments;
    wm_segment *spare_segments; /* spare records, chained by next */
    wm_segment *all_segments;   /* all records made, chained by next_made */
    wm_lane common;             /* memory that every stream may use */
    wm_bins common_bins[WM_RUN_KINDS];
    wm_slab_lists common_slabs;
    wm_lane *lanes; /* memory that one stream may use, chained by next */
    wm_lane *spare_lanes;
    /* Lanes with new runs, chained by next_fresh; and their number, relaxed:
     * read without the lock. */
    wm_lane *fresh_head, *fresh_tail;
    _Atomic unsigned fresh_lanes;
    /* Bytes of idle runs in lanes, and the least of them since fences were last
     * queued. Fences are due (stream_lane.h) when there are fence_step more
     * than that. due: relaxed, read without the lock. */
    size_t laned_bytes, laned_least, fence_step;
    _Atomic bool fences_due;
    wm_block *spare_blocks; /* spare records, chained by next_idle */
    /* Debug builds: records that may be taken, if the thread has acquired no
     * lock since (wm_lock_taken()). */
    uint64_t records_had;
    unsigned records_due;
    void *record_chunks;   /* the allocations that records were made in */
    wm_slab *all_slabs;    /* all records ever made, chained by next_made */
    size_t detached_bytes; /* removed from the arena, not yet freed */
    size_t fresh_bytes;    /* became pending since the last miss */
    /* With callers, in magazines or in the transfer cache. */
    size_t out_bytes;
    size_t row; /* rows of the request that is being served (wm_request.row) */
    bool batched;   /* callers may hold less than out_bytes (arena_check.c) */
    bool retaining; /* graphs use the memory: no segment is detached */
    bool paused;    /* no segment is detached to be returned */
    /* Bytes of unmapped segments, of small and of large requests: they count as
     * held here, and not in what readers see. */
    size_t paused_bytes[2];
    wm_transfer_cache transfer_cache;    /* has locks of its own */
    wm_slab *spare_slabs[WM_SLAB_SORTS]; /* spare records by number of slots,
                                            chained by next */
    /* Figures without the counts that magazine sets have not merged yet. Blocks
     * that callers hold are counted by class only: readers sum over classes and
     * siblings, and those fields of stats stay 0. */
    warm_space_stats stats;
    wm_figures figures[2]; /* small, large; only large if small_max is 0 */
    struct wm_class_figures {
        wm_total live, requested_bytes, live_bytes;
    } classes[WM_CLASSES_ALL];
} wm_arena;

void wm_arena_init(wm_arena *arena, struct wm_arena_group *group, int node);
/* Makes an array of count arenas siblings (1 … WM_SIBLINGS). */
void wm_arena_join(wm_arena *arenas, unsigned count);
static inline bool wm_arena_is_sibling(const wm_arena *one,
                                       const wm_arena *other)
{
    return one == other || one->siblings == other->siblings;
}
/* The next sibling after a that has segments, in the circle that ends with
 * arena. Relaxed: a sibling that is getting its first segment now may be
 * skipped. */
static inline wm_arena *wm_arena_next(const wm_arena *arena, wm_arena *a)
{
    do {
        a = a->next_sibling != NULL ? a->next_sibling : a->siblings;
    } while (a != arena && atomic_load_explicit(&a->segment_count,
                                                memory_order_relaxed) == 0);
    return a;
}

/* Lock arena of all siblings, in the order of their shards, and back. Segments
 * move between siblings: only under all locks do sums over them hold. */
static inline void wm_arena_lock_all(wm_arena *arena)
{
    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        wm_lock_acquire(&a->lock);
    }
}
static inline void wm_arena_unlock_all(wm_arena *arena)
{
    wm_arena *a = arena->siblings;

    while (a->next_sibling != NULL) {
        a = a->next_sibling;
    }
    for (; a->shard > 0; a--) { /* an array: wm_arena_join() */
        wm_lock_release(&a->lock);
    }
    wm_lock_release(&a->lock);
}

/* True if it has small and large segments, with figures for each. */
static inline bool wm_arena_is_sorted(const wm_arena *arena)
{
    return arena->small_max > 0;
}

/* Lanes with new runs, a moment ago. */
static inline unsigned wm_lane_fresh(const wm_arena *arena)
{
    return atomic_load_explicit(&arena->fresh_lanes, memory_order_relaxed);
}

/* Number of the private pool that uses the arena; 0: none. */
static inline uint64_t wm_arena_pool_number(const wm_arena *arena)
{
    return atomic_load_explicit(&arena->pool_number, memory_order_relaxed);
}

/* Frees the records. Segments that are still in the arena leave the page map;
 * their memory is not freed. */
void wm_arena_fini(wm_arena *arena);

/* One request to a space. */
typedef struct wm_request {
    size_t bytes;    /* 1 … WM_REQUEST_MAX */
    wm_arena *arena; /* one of the space's arenas, on a usable node */
    wm_lane *lane;   /* lane of the stream; null: no stream order */
    /* In a space with lanes: the stream of the lane, and the runtime's
     * stream_epoch before the look-up of the lane; 0: no thread caches memory
     * for the stream. */
    warm_stream stream;
    uint64_t epoch;
    bool strict; /* only memory of this node will do */
    /* Bytes of a row: no piece of the block may end inside one; 0: anywhere, or
     * the block needs no second piece. */
    size_t row;
    /* The block begins at a multiple of so many bytes, a power of two above
     * WM_GRAIN; 0: of WM_GRAIN. Then bytes leave room for that, and the caller
     * asked for `asked`. See wm_arena_align(). */
    size_t alignment, asked;
    /* Null, or receives the reason of a failure, which then is neither logged
     * nor counted, unless the caller calls wm_space_refuse() later. */
    warm_error *cause;
} wm_request;

/* Bytes that the caller asked for, with the guard of option debug. */
static inline size_t wm_request_asked(const wm_request *request)
{
    return request->alignment != 0 ? request->asked : request->bytes;
}

/* Allocates: a LIVE block of at least bytes (1 … WM_REQUEST_MAX), counted as a
 * cache hit; null on a miss. *starved (or null) is set if there was memory but
 * no metadata for a record. lane, here and below: the first lane of the stream
 * in whose order the block will be used and freed; null: none, and the block is
 * common when freed. */
wm_block *wm_arena_take(wm_arena *arena, wm_lane *lane, size_t bytes,
                        enum wm_split split, bool *starved);

/* Adds a segment obtained from the driver and allocates a block for the request
 * in the same step, so that no other thread gets the memory first; no block for
 * 0 bytes. Status: OUT_OF_MEMORY, UNSUPPORTED: the memory stays the caller's.
 */
warm_status wm_arena_grow(wm_arena *arena, wm_lane *lane, void *base,
                          size_t segment_bytes, size_t bytes, wm_block **block);

/* wm_arena_take() while the arena serves; node: of its memory, or
 * WM_NODE_UNKNOWN for any. set: whether it does from now on. */
wm_block *wm_arena_serve(wm_arena *arena, int node, size_t bytes);
void wm_arena_set_serves(wm_arena *arena, bool serves);
/* Makes one LIVE block of the only run of an arena, whatever its size. */
wm_block *wm_arena_take_whole(wm_arena *arena);

/* wm_arena_take() for a request with rows (wm_request.row). */
wm_block *wm_arena_take_rows(wm_arena *arena, size_t bytes, size_t row,
                             bool *starved);

/* Bytes of a request for a block of asked bytes that begins at a multiple of
 * alignment, a power of two above WM_GRAIN: up to a page a slot of a class of
 * such multiples; else in a run of so many bytes there is one, from a page on.
 */
static inline size_t wm_arena_align_bytes(size_t asked, size_t alignment)
{
    size_t least = asked > WM_SLAB_LIMIT ? asked : WM_SLAB_LIMIT;

    if (alignment <= WM_PAGE && asked <= WM_SLAB_PAGED) {
        return wm_round_up(asked, alignment);
    }
    return wm_size_round(least) +
           (alignment > WM_PAGE ? alignment - WM_PAGE : 0);
}
/* Whether every block of so many bytes begins at a multiple of alignment. */
static inline bool wm_arena_is_aligned(size_t asked, size_t alignment)
{
    return alignment <= WM_GRAIN ||
           (alignment <= WM_PAGE && asked > WM_SLAB_PAGED);
}
/* Turns a LIVE block of a request for so many bytes, which only the caller
 * knows, into the aligned block in it: what lies before and behind is idle
 * again. Null, and no effect: no memory for a record. */
wm_block *wm_arena_align(wm_block *block, size_t asked, size_t alignment);

/* As wm_arena_grow(), for a region that was locked in pieces of so many bytes,
 * the last one perhaps smaller: each becomes a segment. A region may be what is
 * left of one, down to a single piece. row: of the request. */
warm_status wm_arena_grow_pieces(wm_arena *arena, char *base,
                                 size_t region_bytes, size_t piece,
                                 size_t bytes, size_t row, wm_block **block);

/* As wm_arena_take(), then from the siblings: from a wholly idle segment, which
 * moves to this arena, else from a sibling's idle memory. */
wm_block *wm_arena_take_or_steal(wm_arena *arena, wm_lane *lane, size_t bytes,
                                 bool *starved);
/* Moves the smallest wholly idle segment of a sibling that fits the request to
 * this arena; false: there is none. */
bool wm_arena_steal_segment(wm_arena *arena, size_t bytes);
/* Called before growth passes the bound, and after the driver refused memory:
 * lets large requests of any size use an oversize segment with room for bytes;
 * or lets small requests use an idle segment for large ones, or large requests
 * one for small ones; an oversize segment is for large ones again once it is
 * idle. whole: also a wholly idle oversize segment for a request much smaller.
 * False: the lane can use none now; but one of another lane may have been
 * opened, whose stream the request's stream can wait for. */
bool wm_arena_open(wm_arena *arena, wm_lane *lane, size_t bytes, bool whole);

/* Ends a caller's ownership of a block, which is FREEING, or LIVE if no caller
 * has seen it: it becomes IDLE, PENDING, or (retained) LOST or CAPTURED. Counts
 * the free. */
void wm_arena_free(wm_arena *arena, wm_block *block, enum wm_block_state state);

/* If graphs use the arena: the block becomes CAPTURED, until
 * wm_arena_retain_end(). Else false and no effect. */
bool wm_arena_retain(wm_arena *arena, wm_block *block);
/* From now on graphs use the arena. It has no blocks. */
void wm_arena_retain_begin(wm_arena *arena);
/* Graphs no longer use the arena: the retained blocks become FREEING, still
 * out, and are returned chained by next_done. */
wm_block *wm_arena_retain_end(wm_arena *arena);
/* Makes a block from that chain IDLE, PENDING or LOST. had_uses: it had stream
 * uses when it was returned and has none now. */
void wm_arena_put_retained(wm_arena *arena, wm_block *block,
                           enum wm_block_state state, bool had_uses);

/* No work is left on the LOST blocks: they become IDLE. */
void wm_arena_find_lost(wm_arena *arena);

/* Bytes of a PENDING block that became LOST, or 0. */
typedef struct wm_ended {
    size_t lost;
} wm_ended;

/* The last timelines completed PENDING blocks, chained by next_done: each
 * becomes IDLE, LOST or CAPTURED. Returns the first block of another arena, or
 * null. */
wm_block *wm_arena_finish(wm_arena *arena, wm_block *chain, wm_ended *ended);
static inline enum wm_block_state wm_block_fate(wm_block *block)
{
    /* Relaxed: the last queue has released the block. */
    if (wm_unlikely(
            atomic_load_explicit(&block->stuck, memory_order_relaxed))) {
        return WM_BLOCK_LOST;
    }
    return wm_unlikely(
               atomic_load_explicit(&block->captured, memory_order_relaxed))
               ? WM_BLOCK_CAPTURED
               : WM_BLOCK_IDLE;
}

/* Which wholly idle segments to detach from an arena, the highest rank first.
 */
typedef struct wm_purge {
    /* Bytes to detach at least; SIZE_MAX: all. wm_arena_purge() subtracts the
     * bytes that it detached, except from SIZE_MAX. */
    size_t bytes;
    /* Bytes of wholly idle segments that stay. wm_arena_purge() subtracts the
     * bytes that stayed. */
    size_t keep;
    /* Only memory that has been idle since this time or longer; UINT64_MAX:
     * any. */
    uint64_t before_ns;
    uint64_t least; /* only memory of this rank or a higher one */
    size_t below;   /* if not 0: only dedicated segments of smaller regions */
    /* If not 0: at most so many bytes. wm_arena_purge() subtracts the bytes
     * that it detached. */
    size_t most;
    bool oldest; /* rank by idle time, the longest first; else by size */
    bool used;   /* none that was obtained ahead of demand and not used yet */
} wm_purge;

/* Returns the detached memory, chained by next; it still counts as held.
 * Empties the transfer cache first, except for a purge by idle time. */
wm_segment *wm_arena_purge(wm_arena *arena, wm_purge *purge);
/* Highest rank of the memory that a purge may detach, 0: there is none; fields
 * least, keep and bytes do not count. *detached: bytes detached already.
 * Empties the transfer cache as the purge does. */
uint64_t wm_arena_rank(wm_arena *arena, const wm_purge *purge,
                       size_t *detached);
/* Detaches the segment if it is in the arena and wholly idle. The record may
 * serve another segment by now, or none. */
bool wm_arena_detach_idle(wm_arena *arena, wm_segment *segment);
/* Ends a detach. released: the driver freed the segment, and its record ends.
 * reattach: it is idle in the arena again, since the driver refused to free it,
 * or was not called. */
void wm_arena_released(wm_arena *arena, wm_segment *segment);
void wm_arena_reattach(wm_arena *arena, wm_segment *segment);

/* Call fn for every LIVE block, or for every LIVE and CAPTURED one; fn takes no
 * lock below arena. For the end of a runtime, when no other thread is inside:
 * they take no lock. */
void wm_arena_each_live(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context);
void wm_arena_each_left(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context);

/* Debug: checks all invariants of the arena and its siblings. wm_arena_check()
 * compares the figures with the live blocks only where no magazines are;
 * wm_arena_check_settled() always, after wm_space_check_settled() has merged
 * the tallies. */
bool wm_arena_check(wm_arena *arena);
bool wm_arena_check_settled(wm_arena *arena);

/* Counts a driver call that obtained or freed memory. */
void wm_arena_count_driver(wm_arena *arena, bool free, uint64_t ns);
/* Sums over the arena and its siblings; the caller sets stats->size. */
void wm_arena_stats(wm_arena *arena, warm_space_stats *stats);
void wm_arena_class_stats(wm_arena *arena, unsigned size_class,
                          warm_class_stats *stats);
/* Idle bytes in all siblings; and bytes of their largest idle run. */
size_t wm_arena_idle(wm_arena *arena);
size_t wm_arena_largest(wm_arena *arena);
/* Bytes of this arena's own segments. */
size_t wm_arena_held(wm_arena *arena);
/* Counts an event of a request. SPILL: it was served from another node than the
 * preferred one. */
enum wm_count {
    WM_COUNT_RETRY,
    WM_COUNT_FAILURE,
    WM_COUNT_SPILL,
    WM_COUNT_OVERRUN,   /* option debug: a guard was written */
    WM_COUNT_LATE_WRITE /* freed memory was written */
};
void wm_arena_count(wm_arena *arena, enum wm_count count);
/* Resets the minima and maxima of times; other peaks are of a space (live.h).
 */
void wm_arena_reset_peaks(wm_arena *arena);
void wm_arena_reset_totals(wm_arena *arena);
/* Sums; a peak is the sum of the peaks. */
void wm_stats_add(warm_space_stats *sum, const warm_space_stats *one);
void wm_class_stats_add(warm_class_stats *sum, const warm_class_stats *one);
/* Sets the peaks of a space, whose current values the caller has set. */
void wm_live_show(const wm_live *live, warm_stat *blocks, warm_stat *bytes,
                  warm_stat *held);

/* Sums over the siblings, by small and large requests. sorted: all figures
 * except inactive_split. split: inactive_split, the idle memory in segments
 * that are in use, by a walk over every block. */
void wm_arena_sorted_stats(wm_arena *arena, warm_device_stats *stats);
void wm_arena_split_stats(wm_arena *arena, warm_device_stats *stats);

/* ---- events for the trace and the history -------------------------------- */

/* Cold: called only where the runtime has a trace (runtime/base/trace.h) or a
 * history (history.h; wm_runtime_is_traced()), or by an arena that has a
 * history.
 * Option debug implies a history. */

/* Only the calling thread knows pointer, which it has just allocated. stream:
 * for device memory, the stream in whose order. */
void wm_traced_alloc(warm_runtime *runtime, const void *pointer,
                     warm_stream stream) __attribute__((cold, noinline));
/* The block is FREEING: no other thread can allocate it yet. */
void wm_traced_free(warm_runtime *runtime, wm_block *block)
    __attribute__((cold, noinline));
/* The stream was recorded on the block; op: USE or COPY. */
void wm_traced_use(warm_runtime *runtime, const wm_block *block,
                   warm_stream stream, enum wm_trace_op op)
    __attribute__((cold, noinline));

/* wm_traced_unused(): a FREEING block that had uses is complete.
 * wm_traced_done(): PENDING blocks, chained by next_done, are complete. No
 * other thread can allocate them yet. */
void wm_traced_unused(warm_runtime *runtime, wm_block *block)
    __attribute__((cold, noinline));
void wm_traced_done(warm_runtime *runtime, wm_block *chain)
    __attribute__((cold, noinline));

/* Memory was obtained, or is going to be freed; the caller holds lock arena. */
void wm_traced_segment(const wm_arena *arena, const char *base, size_t bytes,
                       enum wm_history_op op) __attribute__((cold, noinline));

/* A request cannot be served. */
void wm_traced_refused(warm_runtime *runtime, const wm_request *request)
    __attribute__((cold, noinline));

/* ---- option debug (arena_debug.c) ---------------------------------------- */

/* Cold, no lock held: they log. The first three are called by the functions
 * above if the runtime has option debug, and idle() also by a space whose
 * blocks users retain. */

/* Only the calling thread knows the block, which it has just allocated. */
void wm_debug_alloc(wm_block *block) __attribute__((cold));
/* The block is FREEING; here: the thread that frees it. */
void wm_debug_free(wm_block *block, const struct wm_origin *here)
    __attribute__((cold));
/* No work uses the freed block any more; no other thread can allocate it yet.
 */
void wm_debug_idle(const wm_block *block) __attribute__((cold));
/* Memory of a group that has debug leaves the arena; what is found is logged
 * by wm_debug_log_stored(), where the caller may log. */
void wm_debug_leave(wm_arena *arena, char *base, size_t bytes)
    __attribute__((cold));
void wm_debug_log_stored(warm_runtime *runtime) __attribute__((cold));

/* ---- blocks that span segments --------------------------------------------
 */

/* The driver locks memory in regions of at most wm_arena_group.piece_bytes, and
 * each is a segment. A larger block spans segments that adjoin:
 *
 *   segments  ├─ C ───────┤├─ C ───────┤├─ C ───────┤├─ C or less ─┤
 *   runs      │live│ block ││ SPANNED   ││ SPANNED   ││ SPANNED│ idle│
 *                     ▲            └─ spanned_by ─┘
 *                     └─ bytes: of all parts
 *
 * The block is the last run of a segment, and is as large as all of its parts;
 * it covers the segments after that one, and ends in the first run of one. All
 * these segments but the last have the same size, so the cuts lie at multiples
 * of it from the first segment's start. Once the block is freed its parts are
 * idle runs of their own segments, which serve other requests and are returned
 * one by one. Other blocks never lie across segments.
 *
 * Segments of half a piece or less are not the first of a block, so that a
 * block has few pieces. If the request has rows the block begins where a
 * segment does, and the segments are whole rows.
 *
 * A driver that registers nothing allocates a larger region by one call
 * (pin.h): it is one segment, whose blocks are not cut. */

static inline bool wm_segment_is_piece(const wm_segment *segment)
{
    return segment->region_bytes > segment->bytes;
}
/* Whether the block has several pieces. */
static inline bool wm_block_is_cut(const wm_block *block)
{
    return (size_t)(block->base - block->segment->base) + block->bytes >
           block->segment->bytes;
}
/* Bytes from an address in such a block up to the next cut. */
static inline size_t wm_block_to_cut(const wm_block *block, const char *at)
{
    size_t piece = block->segment->bytes;

    return piece - (size_t)(at - block->segment->base) % piece;
}

/* ---- paused arenas (paused.c) -------------------------------------------- */

/* An arena of a private pool whose segments are unmapped while their blocks
 * stay allocated (row C11). No thread allocates from it meanwhile; blocks are
 * freed as ever. */
typedef struct wm_paused_segment {
    wm_segment *segment;
    char *used;        /* first byte of a run that is not idle */
    size_t used_bytes; /* up to the end of the last one; 0: all is idle */
} wm_paused_segment;

/* Writes the segments, at most room of them, and returns how many there are. If
 * all were written the arena is paused, until wm_arena_unpause(). */
size_t wm_arena_pause(wm_arena *arena, wm_paused_segment *list, size_t room);
void wm_arena_unpause(wm_arena *arena);
/* A segment was unmapped, or it is mapped again or leaves the arena. */
void wm_arena_note_unmapped(const wm_segment *segment, bool unmapped);
size_t wm_arena_paused(wm_arena *arena); /* bytes of unmapped segments */

/* A segment, as the driver knows it. */
typedef struct wm_extent {
    char *base;
    size_t bytes;
} wm_extent;

/* Writes the segments of the arena but the first `skip`, at most room of them,
 * and returns how many these are. */
size_t wm_arena_extents(wm_arena *arena, size_t skip, wm_extent *extent,
                        size_t room);

#endif
