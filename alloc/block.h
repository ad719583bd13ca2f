/* block.h: the records that describe memory; never inside it.
 *
 *   segment   base ├──────────────────────────────────────────┤ base + bytes
 *   runs           │ live │ idle    │ slab           │ pending │   by pages
 *   slots                           │s0│s1│s2│ … │s15│             by class
 *
 * The page map leads from the first page of every run to its block, from all
 * pages of a slab to the slab, and from the other pages to the segment. A
 * block's record is stable while it is not IDLE. All records are recycled as
 * what they are, and never given back before their arena ends, so that a look-
 * up of a pointer freed already reads a record, if the wrong one; it stays
 * inside the record, whatever the address.
 *
 * Whoever owns a block owns its fields: the arena while IDLE (lock arena), the
 * caller while LIVE, the free that took it LIVE → FREEING, the timelines
 * while PENDING. */
#ifndef WM_BLOCK_H
#define WM_BLOCK_H

#include "alloc/size_class.h"
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
    WM_BLOCK_CAPTURED, /* kept for ever: a graph capture used it */
};

/* One stream that uses a block. While the block is LIVE it hangs on
 * block->uses; once freed it is an entry in its timeline's queue. */
typedef struct wm_use {
    wm_timeline *timeline; /* holds a reference */
    wm_block *block;
    /* Marks the point to wait for. Before the free: only on a default stream,
     * recorded in the thread that meant it. After: null if the timeline is
     * retired (its final event counts) or nothing could be recorded yet. */
    warm_event event;
    struct wm_use *next_of_block;
    struct wm_use *next_in_queue; /* lock timeline */
} wm_use;

struct wm_block {
    char *base;
    size_t bytes;
    wm_segment *segment;
    wm_slab *slab; /* null: a run of pages */
    size_t requested;
    /* Acquire on look-up pairs with release when a block is handed out: the
     * fields above are read only after LIVE was seen. */
    _Atomic int state;
    unsigned size_class;
    /* Pushed with release, walked with acquire: any thread may record. */
    _Atomic(wm_use *) uses;
    wm_use first_use;             /* spares an allocation for the usual case */
    _Atomic bool first_use_taken; /* acquire to claim, release to give up */
    _Atomic bool captured;        /* relaxed: read by the free, which the
                                     caller orders after its records */
    _Atomic unsigned queued;      /* timelines that still hold it */
    _Atomic bool stuck;           /* one of them failed: LOST when done */
    /* Runs only; lock arena. */
    wm_block *before, *after; /* neighbours by address */
    wm_block *left, *right;   /* fit tree; left chains spare records */
    uint32_t weight;          /* heap order in the fit tree */
};

struct wm_slab {
    wm_block *run;     /* of state SLAB */
    char *base;        /* of the run */
    size_t slot_bytes; /* const: slabs are recycled within their class */
    unsigned slots, size_class; /* const */
    unsigned idle;              /* lock arena */
    uint64_t idle_mask;         /* lock arena: bit i: slot[i] is IDLE */
    wm_slab *previous, *next;   /* lock arena: slabs of the class with room */
    wm_slab *next_made;         /* lock arena */
    wm_block slot[];
};

struct wm_segment {
    char *base;
    size_t bytes;
    struct wm_arena *arena;
    wm_segment *previous, *next; /* lock arena; next chains spare ones */
    uint64_t idle_since_ns;      /* lock arena: valid while wholly idle */
    wm_block *whole;             /* its run's record while detached */
    size_t words;                /* const: of starts */
    wm_segment *next_made;       /* lock arena */
    /* Bit i: a run starts at page i. Written under lock arena; read without,
     * relaxed: the caller of a look-up knows that its own block is live, and
     * its bit was set before the block was handed out. */
    _Atomic uint64_t starts[];
};

#endif
