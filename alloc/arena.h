/* arena.h: segments, idle runs and slabs under one lock, with their figures.
 *
 * An arena knows nothing of streams and drivers: segments are handed in and
 * taken out by its owner (a space), who talks to the driver outside the lock.
 *
 *   held = live + idle + pending + lost + captured          (bytes, always)
 *
 * All functions but the _locked ones take lock arena themselves. */
#ifndef WM_ARENA_H
#define WM_ARENA_H

#include "alloc/block.h"
#include "alloc/fit_tree.h"
#include "runtime/base/lock.h"
#include "warmpool/stats.h"

typedef struct wm_arena {
    wm_lock lock;
    void *owner; /* const: the space */
    /* All below: lock arena. */
    wm_segment *segments;
    wm_segment *spare_segments; /* records, chained by next */
    wm_segment *all_segments;   /* every record made, chained by next_made */
    wm_fit_tree idle;
    wm_block *spare_blocks;     /* records, chained by left */
    void *record_chunks;        /* what they were cut from */
    wm_slab *all_slabs;         /* every record made, chained by next_made */
    size_t detached_bytes;      /* taken out, not yet with the driver */
    wm_slab *slabs[WM_CLASSES]; /* with at least one idle slot */
    wm_slab *spare_slabs[WM_CLASSES]; /* records, chained by next */
    warm_space_stats stats;           /* idle_bytes is computed when read */
    struct wm_class_figures {
        warm_stat requests, requested_bytes, handed_bytes;
    } classes[WM_CLASSES_ALL];
} wm_arena;

void wm_arena_init(wm_arena *arena, void *owner);
/* Gives the records back. Segments still in the arena are forgotten: their
 * entries leave the page map, their memory stays as it is. */
void wm_arena_fini(wm_arena *arena);

/* A LIVE block of at least bytes (1 … WM_REQUEST_MAX), counted as served from
 * the cache, or null on a miss. *starved is set if there was memory for it,
 * but none for a record. */
wm_block *wm_arena_take(wm_arena *arena, size_t bytes, bool *starved);

/* Bytes of the run that a request needs: its own, or a slab for it. */
size_t wm_arena_run_bytes(size_t bytes);

/* Adds a segment that the driver gave, and takes a block for the request from
 * it in the same step, so that nobody else does.
 * Status: OUT_OF_MEMORY, UNSUPPORTED; the memory is still the caller's. */
warm_status wm_arena_grow(wm_arena *arena, void *base, size_t segment_bytes,
                          size_t bytes, wm_block **block);

/* What becomes of a block that its caller frees; FREEING → idle, PENDING,
 * LOST or CAPTURED. Ends its time with the caller in the figures. */
void wm_arena_free(wm_arena *arena, wm_block *block);
void wm_arena_free_pending(wm_arena *arena, wm_block *block);
void wm_arena_free_kept(wm_arena *arena, wm_block *block, int state);

/* The last timeline has let go of a PENDING block: idle, or LOST. */
void wm_arena_finish(wm_arena *arena, wm_block *block, bool lost);

/* Takes wholly idle segments out, the largest first, until at most target
 * bytes are held, and only those idle since before_ns or earlier; chained by
 * next. They still count as held. */
wm_segment *wm_arena_detach(wm_arena *arena, size_t target, uint64_t before_ns);
/* The driver took one back, its record ends; or it did not, and it is idle in
 * the arena again. */
void wm_arena_released(wm_arena *arena, wm_segment *segment);
void wm_arena_reattach(wm_arena *arena, wm_segment *segment);

/* Calls fn for every LIVE block; fn takes no lock below arena. For the end of
 * a runtime, when nobody else is inside: takes no lock itself. */
void wm_arena_each_live(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context);

/* A walk over everything in debug tests: true if all invariants hold. */
bool wm_arena_check(wm_arena *arena);

/* Counts a call to the driver that obtained memory or gave it back. */
void wm_arena_count_driver(wm_arena *arena, bool free, uint64_t ns);
/* stats->size is the caller's. */
void wm_arena_stats(wm_arena *arena, warm_space_stats *stats);
void wm_arena_class_stats(wm_arena *arena, unsigned size_class,
                          warm_class_stats *stats);
void wm_arena_count_retry(wm_arena *arena);
void wm_arena_count_failure(wm_arena *arena);
void wm_arena_reset_peaks(wm_arena *arena);
void wm_arena_reset_totals(wm_arena *arena);

#endif
