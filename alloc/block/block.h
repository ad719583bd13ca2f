/* block.h: the records that describe memory; never inside it.
 *
 *   segment   base ├──────────────────────────────────────────┤ base + bytes
 *   runs           │ live │ idle    │ slab           │ pending │   by pages
 *   slots                           │s0│s1│s2│ … │s15│             by class
 *
 * The page map leads from the first page of every run to its block, from pages
 * of a slab to the one slot that begins there, if it is one, else to the slab,
 * and from the other pages to the segment. A block's record is stable while it
 * is not IDLE. All records are recycled as what they are, and never given back
 * before their arena ends, so that a look-up of a pointer freed already reads a
 * record, if the wrong one; it stays inside the record, whatever the address.
 *
 * Whoever owns a block owns its fields: the arena while IDLE (lock arena), the
 * thread whose magazine it is in while CACHED, the caller while LIVE, the free
 * that took it LIVE → FREEING, the timelines while PENDING. */
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
    WM_BLOCK_IDLE,     /* in its arena, free to be handed out */
    WM_BLOCK_LIVE,     /* with its caller */
    WM_BLOCK_FREEING,  /* inside warm_free() */
    WM_BLOCK_PENDING,  /* waits in timelines */
    WM_BLOCK_SLAB,     /* a run that is cut into slots */
    WM_BLOCK_LOST,     /* kept for ever: the driver failed */
    WM_BLOCK_CAPTURED, /* kept: a graph capture used it; see retain.c */
    WM_BLOCK_CACHED,   /* in a magazine, free to be handed out */
    WM_BLOCK_GATHERED, /* freed, in a thread's open batch; see pending.h */
    WM_BLOCK_CLAIMED,  /* idle, and part of a growth under way */
    WM_BLOCK_GAP,      /* a run without memory; see expand.h */
};

/* A state is one of these in its low bits. Above them CACHED and LIVE carry the
 * number of the set of magazines that has the block, or handed it out (0: the
 * arena did): one compare tells a thread that a block is live, and its own. The
 * number's low bits are that of the slot of the thread's window which the set
 * is in (stream_slot.h), here times 64, as large as a slot is. */
typedef uint64_t wm_state;

enum { WM_STATE_SHIFT = 6, WM_STATE_MASK = 63, WM_SLOT_MASK = 7 << 6 };

static inline wm_state wm_state_of_set(enum wm_block_state state, uint64_t set)
{
    return (set << WM_STATE_SHIFT) | (wm_state)state;
}

static inline enum wm_block_state wm_state_kind(wm_state state)
{
    return (enum wm_block_state)(state & WM_STATE_MASK);
}

/* One stream that uses a block. While the block is LIVE it hangs on
 * block->uses; once freed it is an entry in its timeline's queue. */
typedef struct wm_stream_use {
    wm_timeline *timeline; /* holds a reference */
    wm_block *block;
    /* Marks the point to wait for. Before the free: only on a default stream,
     * recorded in the thread that meant it. After: null if the timeline is
     * retired (its final event counts) or nothing could be recorded yet. */
    warm_event event;
    union {
        struct wm_stream_use *next_of_block; /* before it is in a queue */
        struct wm_stream_use *next_in_batch; /* once it is, or will be */
    };
    union {
        /* Of the first of a block's list: pushes until records of streams that
         * are no more are looked for; see stream_use.c. Lock uses. */
        size_t pushes_left;
        /* Of the first of a batch: the next batch (lock timeline). */
        struct wm_stream_use *next_in_queue;
    };
} wm_stream_use;

struct wm_block {
    /* What a hit reads and writes: a line, which no other block is in. */
    _Alignas(64) union {
        char *base;
        /* The same for who does not know yet whether the block is its own;
         * relaxed: see wm_pointer_cache_entry(). */
        _Atomic(char *) base_seen;
    };
    size_t bytes;
    wm_segment *segment;
    /* The stream that the thread that was handed the block records first, an
     * adopted one, with a reference. While LIVE that thread alone writes it,
     * relaxed: who frees the block was told of it. See wm_block_detach_uses().
     */
    _Atomic(wm_timeline *) owner_stream;
    /* Relaxed: written by who takes the block, read by snapshots as well; see
     * wm_block_requested(). */
    _Atomic size_t requested;
    /* Acquire on look-up pairs with release when a block is handed out: the
     * fields around it are read only after LIVE was seen. */
    _Atomic(wm_state) state;
    /* Pushed with release, walked with acquire: any thread may record. An empty
     * list is pushed onto without a lock; with lock uses others are, and are
     * walked while the block is LIVE, since records are dropped meanwhile. The
     * first one pushed, the last of the list, may be a bare timeline: that of
     * an adopted stream, with its lowest bit set. A use is made of it, in
     * first_use, when the block is freed. Before the first is pushed the state
     * loses the number of its set: hits of that know nothing of the list. */
    _Atomic(wm_stream_use *) uses;
    unsigned size_class;
    _Atomic bool first_use_taken; /* acquire to claim, release to give up */
    _Atomic bool captured;        /* relaxed: read by the free, which the
                                     caller orders after its records */
    _Atomic bool stuck;           /* a timeline failed: LOST when done */
    bool counted;                 /* its free is in a thread's figures */
    wm_stream_use first_use;      /* spares an allocation for the usual case */
    _Atomic unsigned queued;      /* timelines that still hold it */
    uint32_t trace;               /* its number there, 0: none */
    uint64_t lane_id;             /* const while LIVE: of the stream in whose
                                     order it was allocated, 0: of none */
    struct wm_origin *origin;     /* const; lock arena: what it points to.
                                     Null: there is no history */
    wm_slab *slab;                /* const; null: a run of pages */
    union {
        wm_block *next_done;     /* of those that are done */
        wm_block *previous_idle; /* of those in a bin; lock arena */
    };
    /* Runs only; lock arena. */
    wm_block *before, *after; /* neighbours by address */
    wm_block *next_idle;      /* in a bin; or chains spare records */
    struct wm_lane *lane;     /* who may have it; while LIVE, in whose order */
    uint64_t put_at;          /* puts of its lane when it came back last */
    uint64_t idle_since_ns;   /* where segments expand, while IDLE */
};
_Static_assert(sizeof(wm_block) == 192, "whole lines, and no more");

static inline void wm_block_set_base(wm_block *block, char *base)
{
    atomic_store_explicit(&block->base_seen, base, memory_order_relaxed);
}

static inline bool wm_block_starts_at(wm_block *block, const void *base)
{
    return atomic_load_explicit(&block->base_seen, memory_order_relaxed) ==
           base;
}

/* Bytes that the caller of a LIVE block asked for. */
static inline size_t wm_block_requested(const wm_block *block)
{
    return atomic_load_explicit(&block->requested, memory_order_relaxed);
}

static inline void wm_block_set_requested(wm_block *block, size_t bytes)
{
    atomic_store_explicit(&block->requested, bytes, memory_order_relaxed);
}

/* A block in a magazine. With its base, so that the next pointer hangs on the
 * free before it, and not on what that free had to look up. */
typedef struct wm_entry {
    wm_block *block;
    char *base;
} wm_entry;

struct wm_slab {
    wm_block *run; /* of state SLAB */
    /* Of the run. Relaxed: a second free may ask where a slot begins while the
     * record becomes another slab's; see wm_slot_index(). */
    _Atomic(char *) base;
    _Atomic uint32_t inverse; /* of slot_bytes, see there. Relaxed: as base */
    size_t slot_bytes;        /* lock arena, as all below but slots */
    unsigned size_class;
    unsigned slots; /* const: slabs are recycled among classes of as many */
    unsigned idle;
    uint64_t idle_mask;       /* bit i: slot[i] is IDLE */
    wm_slab *previous, *next; /* slabs of the class with room */
    wm_slab *next_made;
    wm_block slot[];
};

static inline char *wm_slab_base(const wm_slab *slab)
{
    return atomic_load_explicit(&slab->base, memory_order_relaxed);
}

struct wm_segment {
    char *base;
    size_t bytes;
    struct wm_arena *arena;
    wm_segment *previous, *next; /* lock arena; next chains spare ones */
    uint64_t idle_since_ns;      /* lock arena: valid while wholly idle */
    uint64_t made_ns;            /* const */
    bool dedicated;              /* lock arena: made for one request */
    bool one_run;                /* lock arena: it is one idle run */
    bool small;         /* const: for small requests; see wm_arena.small_max */
    bool oversize;      /* lock arena: its idle runs are kept for large ones */
    bool free_failed;   /* lock arena: the driver did not take it back, and
                       nothing   of it was used since: others go before it */
    wm_block *first;    /* its first run's record while detached */
    size_t unit;        /* const: it stretches by this (expand.h); 0: not */
    size_t held;        /* lock arena: bytes that have memory; else all */
    wm_segment *parent; /* a part on its way back: of this one; else null */
    size_t words;       /* const: of starts, and of joined behind them */
    /* Const: where it stretches, bits of its units; see expand_piece.h. */
    _Atomic uint64_t *joined;
    wm_segment *next_made; /* lock arena */
    /* 0, then the number that other processes know it by: ipc.c. Relaxed. */
    _Atomic uint64_t shared_as;
    /* Bit i: a run starts at page i. Written under lock arena; read without,
     * relaxed: the caller of a look-up knows that its own block is live, and
     * its bit was set before the block was handed out. */
    _Atomic uint64_t starts[];
};

#endif
