/* live.h: what callers hold of a node or a device, with peaks.
 *
 *   0 ├── with callers ──┤─ room ─┤─ room ─┤ claimed        peak
 *                         thread 1 thread 2
 *
 * A thread claims room ahead by one read-modify-write, its hits use that room,
 * and it returns room that it has beyond a bound. An arena has room from the
 * frees that it counts, and claims what it lacks. So claimed is never below
 * what callers hold, and above it by no more than the rooms. Of WM_ROOM_BLOCKS
 * and WM_ROOM_BYTES an arena has a WM_ROOM_ARENA-th and all sets of a thread
 * the rest; more bytes, WM_ROOM_LARGEST of the largest block that they cache,
 * if that is more: else each allocation of such a block would claim room. A
 * peak is raised with each claim.
 *
 * For a size class, claimed counts blocks that callers hold and blocks that
 * threads cache: a hit moves a block from one to the other and claims nothing.
 *
 * Atomic; no lock. */
#ifndef WM_LIVE_H
#define WM_LIVE_H

#include "alloc/block/size_class.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The most room in a space that a thread and its arena have together. */
enum {
    WM_ROOM_BLOCKS = 64,
    WM_ROOM_BYTES = 1 << 20,
    WM_ROOM_ARENA = 8,
    WM_ROOM_LARGEST = 2
};

enum wm_figure {
    WM_LIVE_BLOCKS,
    WM_LIVE_ASKED,        /* bytes requested */
    WM_LIVE_BYTES,        /* bytes allocated */
    WM_LIVE_ACTIVE,       /* on a device: blocks with callers or pending */
    WM_LIVE_ACTIVE_BYTES, /* and their bytes */
    WM_LIVE_FIGURES
};

typedef struct wm_claim {
    _Atomic int64_t claimed, peak;
} wm_claim;

typedef struct wm_live {
    _Alignas(64) wm_claim of[WM_LIVE_FIGURES];
    struct wm_live *whole; /* const: total that includes this; or null */
} wm_live;

/* Shared by the arenas of a node, including those of private pools. */
typedef struct wm_lives {
    wm_live small, large; /* all are large if the node does not sort */
    wm_live whole; /* of both; in the first node's record, of all nodes */
    wm_live *all;  /* const: the one that counts every request of the node */
    /* Blocks by size class, and bytes of the last class, whose blocks differ in
     * size. Those of the first node count for all nodes; classes points there
     * (const). */
    struct wm_class_claims {
        wm_claim blocks[WM_CLASSES_ALL], asked, handed;
    } of_class, *classes;
} wm_lives;

/* Initialises zeroed figures, of one node that does not sort requests. */
void wm_lives_init(wm_lives *lives);
/* The node sorts requests into small and large. */
void wm_lives_sort(wm_lives *lives);
/* The node is one of several; first is the first of them. */
void wm_lives_join(wm_lives *lives, wm_lives *first);

static inline wm_live *wm_lives_of(wm_lives *lives, bool large)
{
    return large || lives->all == &lives->large ? &lives->large : &lives->small;
}

/* The total over all nodes. */
static inline wm_live *wm_lives_whole(wm_lives *lives)
{
    return lives->all->whole != NULL ? lives->all->whole : lives->all;
}

static inline int64_t wm_claimed(const wm_claim *claim)
{
    return atomic_load_explicit(&claim->claimed, memory_order_relaxed);
}

static inline int64_t wm_claim_peak(const wm_claim *claim)
{
    return atomic_load_explicit(&claim->peak, memory_order_relaxed);
}

/* Adds n; true if the claim then exceeds the peak. Sequentially consistent with
 * the reset of the peak: at least one of the two threads sees the other's
 * store. */
static inline bool wm_claim_add(wm_claim *claim, int64_t n)
{
    int64_t before =
        atomic_fetch_add_explicit(&claim->claimed, n, memory_order_seq_cst);

    return before + n >
           atomic_load_explicit(&claim->peak, memory_order_seq_cst);
}
void wm_claim_raise(wm_claim *claim);
/* Resets the peak to what is claimed now. */
void wm_claim_reset(wm_claim *claim);
static inline void wm_claim_add_raise(wm_claim *claim, int64_t n)
{
    if (wm_claim_add(claim, n)) {
        wm_claim_raise(claim);
    }
}

/* Claims n of a figure, or returns them (n < 0), also in the totals, and raises
 * the peaks. */
void wm_lives_claim(wm_lives *lives, bool large, enum wm_figure figure,
                    int64_t n);
/* Resets all peaks, with those of the totals. */
void wm_lives_reset(wm_lives *lives);

#endif
