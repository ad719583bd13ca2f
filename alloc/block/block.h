/* block.h: the records that describe memory. A record never lies inside the
 * memory that it describes.
 *
 *   segment   base ├──────────────────────────────────────────┤ base + bytes
 *   runs           │ live │ idle    │ slab           │ pending │   by pages
 *   slots                           │s0│s1│s2│ … │s15│             by class
 *
 * The page map leads from the first address of every run to the run's block;
 * from a page of a slab to the slot if exactly one slot begins in that page,
 * else to the slab; and from all other addresses to the segment. The record of
 * a block is stable while the block is not IDLE. Records are recycled only as
 * records of the same type and are released only with their arena: a look-up of
 * a pointer that was freed before reads a record, possibly of another block,
 * and never reads outside it.
 *
 * The fields of a block belong to its arena while IDLE (lock arena), to the
 * thread whose magazine holds it while CACHED, to the caller while LIVE, to the
 * free that changed LIVE to FREEING, and to the timelines while PENDING. A LIVE
 * block that no caller has seen is freed without FREEING. */
#ifndef WM_BLOCK_H
#define WM_BLOCK_H

#include "alloc/block/size_class.h"
#include "runtime/driver/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_block wm_block;
typedef struct wm_segment wm_segment;
typedef struct wm_slab wm_slab;
typedef struct wm_timeline wm_timeline;
struct wm_arena;

enum wm_block_state {
    WM_BLOCK_VOID,     /* record not in use, or a slot of no slab */
    WM_BLOCK_IDLE,     /* in its arena, available */
    WM_BLOCK_LIVE,     /* allocated by a caller */
    WM_BLOCK_FREEING,  /* inside warm_free() */
    WM_BLOCK_PENDING,  /* in the queues of timelines */
    WM_BLOCK_SLAB,     /* a run that is split into slots */
    WM_BLOCK_LOST,     /* leaked: the driver failed */
    WM_BLOCK_CAPTURED, /* a graph capture used it: retained (arena.c) */
    WM_BLOCK_CACHED,   /* in a magazine or transfer cache, available */
    WM_BLOCK_BATCHED,  /* freed, in the pending batch of a thread */
    WM_BLOCK_SPANNED,  /* a run that is part of a block of an earlier segment */
};

/* The low 6 bits of a state are one of these kinds. Above them CACHED and LIVE
 * carry the number of the magazine set that caches the block or allocated it
 * (0: the arena allocated it): by one compare a thread knows whether a block is
 * live and of its own set. The low 3 bits of the number are the index of the
 * set's slot in the thread's window (stream_slot.h); in the state they are that
 * index times 64, the size of a slot. */
typedef uint64_t wm_state;

enum { WM_STATE_SHIFT = 6, WM_STATE_MASK = 63, WM_SLOT_MASK = 7 << 6 };

/* No number in a trace, of wm_block.trace. */
#define WM_TRACE_FRESH UINT32_MAX

static inline wm_state wm_state_of_set(enum wm_block_state state, uint64_t set)
{
    return (set << WM_STATE_SHIFT) | (wm_state)state;
}

static inline enum wm_block_state wm_state_kind(wm_state state)
{
    return (enum wm_block_state)(state & WM_STATE_MASK);
}

/* One stream that uses a block. While the block is LIVE the record is in the
 * list block->uses; after the free it is an entry in the queue of its timeline.
 */
typedef struct wm_stream_use {
    wm_timeline *timeline; /* holds a reference */
    wm_block *block;
    /* The point to wait for. Before the free: set only for a use recorded on a
     * default stream, by the thread whose default stream it is. After the free:
     * null if the timeline is retired (its final event counts) or if no event
     * could be recorded yet. */
    warm_event event;
    union {
        struct wm_stream_use *next_of_block; /* before the use is queued */
        struct wm_stream_use *next_in_batch; /* once it is queued */
    };
    union {
        /* In the first use of a block's list: pushes until the list is searched
         * for uses of destroyed streams (stream_use.c). Lock uses. */
        size_t pushes_left;
        /* In the first use of a batch: the next batch (lock timeline). */
        struct wm_stream_use *next_in_queue;
    };
} wm_stream_use;

struct wm_block {
    /* All that a hit reads and writes: one cache line, shared with no other
     * block. */
    _Alignas(64) union {
        char *base;
        /* The base as read by a thread that may not own the block. Relaxed: the
         * thread checks the state as well. */
        _Atomic(char *) base_seen;
    };
    /* The next two as base. */
    union {
        size_t bytes;
        _Atomic size_t bytes_seen;
    };
    union {
        wm_segment *segment;
        _Atomic(wm_segment *) segment_seen;
    };
    /* First adopted stream that the owning thread recorded; holds a reference.
     * While LIVE written only by that thread, without read-modify-write: a
     * freeing thread received the pointer after the write. Relaxed; release
     * where wm_block_detach_uses() clears it, for wm_block_own(). */
    _Atomic(wm_timeline *) owner_stream;
    /* Relaxed: written by the allocating thread, also read by snapshots; see
     * wm_block_requested(). */
    _Atomic size_t requested;
    /* A look-up loads with acquire, the allocation stores with release: the
     * other fields are read only after LIVE was seen. */
    _Atomic(wm_state) state;
    /* Pushed with release, walked with acquire: any thread may record. The push
     * onto an empty list takes no lock; later pushes, and walks while the block
     * is LIVE, hold lock uses, because uses are also removed while the block is
     * LIVE. The use pushed first, last in the list, may be a tagged timeline:
     * the address of an adopted stream's timeline with its lowest bit set,
     * which the free turns into a use in first_use. Before the first push the
     * state loses the number of its magazine set, because hits of that set do
     * not look at the list. */
    _Atomic(wm_stream_use *) uses;
    unsigned size_class;
    _Atomic bool first_use_taken; /* relaxed: claimed once while LIVE */
    _Atomic bool captured; /* relaxed: read by the free, which the caller orders
                              after its records */
    _Atomic bool stuck;    /* a timeline failed: becomes LOST when completed */
    bool counted;          /* the free is already counted in a magazine set */
    wm_stream_use first_use; /* saves an allocation in the usual case */
    _Atomic unsigned queued; /* queues that still hold an entry */
    uint32_t trace; /* number in the trace, the last one of a block that is not
                       LIVE; 0: it was never traced. WM_TRACE_FRESH until the
                       request for which its memory was obtained is served */
    uint64_t lane_id; /* const while LIVE: id of the stream in whose order the
                         block was allocated, 0: none */
    struct wm_origin *origin; /* const pointer; lock arena for what it points
                                 to. Null: no history */
    wm_slab *slab;            /* const; null: a run of pages */
    union {
        wm_block *next_done;     /* chains completed blocks */
        wm_block *previous_idle; /* in a bin; lock arena */
    };
    /* Runs only; lock arena. */
    wm_block *before, *after; /* neighbours by address */
    wm_block *next_idle;      /* in a bin; or chains spare records */
    struct wm_lane *lane; /* the lane that may allocate it; while LIVE, the lane
                             it returns to */
    uint64_t put_at;      /* lane->puts when the run was last freed */
};
_Static_assert(sizeof(wm_block) == 192, "whole lines, and no more");

static inline void wm_block_set_state(wm_block *block, wm_state state)
{
    /* Release pairs with the acquire of look-ups: the fields before the state.
     */
    atomic_store_explicit(&block->state, state, memory_order_release);
}

static inline void wm_block_set_base(wm_block *block, char *base)
{
    atomic_store_explicit(&block->base_seen, base, memory_order_relaxed);
}

static inline void wm_block_set_bytes(wm_block *block, size_t bytes)
{
    atomic_store_explicit(&block->bytes_seen, bytes, memory_order_relaxed);
}

static inline void wm_block_set_segment(wm_block *block, wm_segment *segment)
{
    atomic_store_explicit(&block->segment_seen, segment, memory_order_relaxed);
}

static inline bool wm_block_starts_at(wm_block *block, const void *base)
{
    return atomic_load_explicit(&block->base_seen, memory_order_relaxed) ==
           base;
}

/* Bytes that the caller of a LIVE block requested. */
static inline size_t wm_block_requested(const wm_block *block)
{
    return atomic_load_explicit(&block->requested, memory_order_relaxed);
}

static inline void wm_block_set_requested(wm_block *block, size_t bytes)
{
    atomic_store_explicit(&block->requested, bytes, memory_order_relaxed);
}

/* A block in a magazine. The base is stored beside it so that the address of
 * the next block does not depend on a load from the block's record. */
typedef struct wm_entry {
    wm_block *block;
    char *base;
} wm_entry;

struct wm_slab {
    wm_block *run; /* in state SLAB */
    /* Base of the run. Relaxed: a second free may compute a slot's base while
     * the record becomes another slab's (wm_slot_index()). */
    _Atomic(char *) base;
    _Atomic uint32_t
        inverse;       /* wm_slot_inverse(slot_bytes). Relaxed: as base */
    size_t slot_bytes; /* lock arena, as all fields below except slots */
    unsigned size_class;
    unsigned slots; /* const: a record is recycled among classes with this
                       number of slots */
    /* The first slots, whose records and pages are made; the others are idle,
     * and are made by their first use: to make a slab does not touch all of its
     * records. */
    unsigned carved;
    uint64_t idle_mask;       /* bit i: slot[i] is IDLE or not carved */
    wm_slab *previous, *next; /* slabs of the class with idle slots */
    wm_slab *next_made;
    wm_block slot[];
};

static inline char *wm_slab_base(const wm_slab *slab)
{
    return atomic_load_explicit(&slab->base, memory_order_relaxed);
}

struct wm_segment {
    /* Also read by look-ups of addresses outside. Relaxed: the caller of a
     * look-up checks the block that it finds. */
    union {
        char *base;
        _Atomic(char *) base_seen;
    };
    union {
        size_t bytes;
        _Atomic size_t bytes_seen;
    };
    _Atomic unsigned cell_shift; /* log2 of the bytes of a cell; as base */
    struct wm_arena *arena;
    wm_segment *previous,
        *next;              /* lock arena; next also chains spare records */
    uint64_t idle_since_ns; /* lock arena: valid while it is one idle run */
    uint64_t made_ns;       /* const */
    bool dedicated;         /* lock arena: obtained for one request */
    /* Lock arena: for small requests (wm_arena.small_max). */
    bool small;
    /* Lock arena: its idle runs serve only large requests (run.c). */
    bool oversize;
    /* Lock arena: the driver failed to free it and it was not used since: other
     * segments are purged first. */
    bool free_failed;
    bool ahead;      /* lock arena: obtained ahead of demand and not used yet */
    wm_block *first; /* of its runs: the same record from begin to end */
    size_t words;    /* const: words of starts */
    /* Const: bytes of the region that it was obtained in: more than its own if
     * the region was locked in pieces. */
    size_t region_bytes;
    /* The block of an earlier segment that lies over the first run (arena.h),
     * or null. Written under lock arena; a look-up reads it without the lock,
     * relaxed: that of a live block was set before the block was allocated. */
    _Atomic(wm_block *) spanned_by;
    /* Lock arena: the next segment of the block that begins in this one and
     * ends in another, or spans it; null: there is none. */
    wm_segment *span_next;
    wm_segment *next_above; /* lock arena: during a search (span.c) */
    wm_segment *next_made;  /* lock arena */
    /* The number under which other processes know the segment (ipc.c), 0: none.
     * Relaxed. */
    _Atomic uint64_t shared_as;
    /* Bit i: a run starts in cell i. Written under lock arena; a look-up reads
     * it without the lock, relaxed: the bit of a live block was set before the
     * block was allocated. */
    _Atomic uint64_t starts[];
};

/* As a look-up of any address reads them. */
static inline char *wm_segment_base(const wm_segment *segment)
{
    return atomic_load_explicit(&segment->base_seen, memory_order_relaxed);
}

static inline unsigned wm_segment_cell_shift(const wm_segment *segment)
{
    return atomic_load_explicit(&segment->cell_shift, memory_order_relaxed);
}

/* Sets where a segment lies, whose record is in no list. Release: see holds()
 * of page_map.c. */
static inline void wm_segment_place(wm_segment *segment, char *base,
                                    size_t bytes)
{
    atomic_store_explicit(&segment->base_seen, base, memory_order_release);
    atomic_store_explicit(&segment->bytes_seen, bytes, memory_order_release);
}

/* Bytes of a run within its own segment (arena.h: blocks that span segments).
 */
static inline size_t wm_run_extent(const wm_block *run)
{
    size_t left =
        (size_t)(run->segment->base + run->segment->bytes - run->base);

    return run->bytes < left ? run->bytes : left;
}

#endif
