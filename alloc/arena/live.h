/* live.h: what callers have, of a node or a device, and the most that it was.
 *
 *   0 ├── with callers ──┤─ room ─┤─ room ─┤ claimed        peak
 *                         thread 1 thread 2
 *
 * A thread's hits take room that the thread claimed before; it claims more by
 * one read-modify-write, and gives back what it does not need. So claimed is
 * never below what callers have, and its peak never below theirs. Above it the
 * peak is by the rooms there are when it is raised. Before a peak is raised or
 * reset, every thread's window is closed and still (section.h), and the rooms
 * of a thread's sets are cut to WM_ROOM_BLOCKS and WM_ROOM_BYTES at most, all
 * of them together; the windows open again after that (magazine_room.c).
 *
 * Of a class claimed are blocks with callers, and those that threads keep
 * ready: a hit moves one from there to here, and claims nothing.
 *
 * Atomic, all without a lock. */
#ifndef WM_LIVE_H
#define WM_LIVE_H

#include "alloc/block/size_class.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a thread's rooms in a space when a peak is raised. */
enum { WM_ROOM_BLOCKS = 64, WM_ROOM_BYTES = 1 << 20 };

enum wm_figure {
    WM_LIVE_BLOCKS,
    WM_LIVE_ASKED,        /* bytes asked for */
    WM_LIVE_BYTES,        /* bytes handed out */
    WM_LIVE_ACTIVE,       /* of a device: blocks, and freed ones that wait, */
    WM_LIVE_ACTIVE_BYTES, /* and their bytes */
    WM_LIVE_FIGURES
};

typedef struct wm_claim {
    _Atomic int64_t claimed, peak;
} wm_claim;

typedef struct wm_live {
    _Alignas(64) wm_claim of[WM_LIVE_FIGURES];
    struct wm_live *whole; /* const: which this is a part of; or null */
} wm_live;

/* What the arenas of a node share, private pools' too. */
typedef struct wm_lives {
    wm_live small, large; /* requests; all are large where nobody sorts them */
    wm_live whole;        /* of both; or of all nodes, in the first one's */
    wm_live *all;         /* const: of those that of every request */
    /* Blocks by size class; and bytes of the last one, in which they differ. Of
     * all nodes in the first one's, to which classes leads (const). */
    struct wm_class_claims {
        wm_claim blocks[WM_CLASSES_ALL], asked, handed;
    } of_class, *classes;
    /* Const: threads have rooms, which are cut before a peak is raised, by who
     * has no lock. */
    bool roomy;
    _Atomic unsigned sets; /* relaxed: that have such rooms */
} wm_lives;

/* Zeros become those of one node, which does not sort requests. */
void wm_lives_init(wm_lives *lives);
/* It does. */
void wm_lives_sort(wm_lives *lives);
/* It is one of several nodes, of which this is the first. */
void wm_lives_join(wm_lives *lives, wm_lives *first);

static inline wm_live *wm_lives_of(wm_lives *lives, bool large)
{
    return large || lives->all == &lives->large ? &lives->large : &lives->small;
}

/* Of all nodes. */
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

/* Whether that is more than ever. The order is that of who resets the peak: one
 * of both sees the other. */
static inline bool wm_claim_add(wm_claim *claim, int64_t n)
{
    int64_t before =
        atomic_fetch_add_explicit(&claim->claimed, n, memory_order_seq_cst);

    return before + n >
           atomic_load_explicit(&claim->peak, memory_order_seq_cst);
}
void wm_claim_raise(wm_claim *claim);
static inline void wm_claim_add_raise(wm_claim *claim, int64_t n)
{
    if (wm_claim_add(claim, n)) {
        wm_claim_raise(claim);
    }
}
void wm_claim_reset(wm_claim *claim);

/* Blocks, bytes asked for, and bytes: with callers, and active. Whether a peak
 * is to be raised for it. */
bool wm_live_add(wm_live *live, int64_t blocks, int64_t asked, int64_t bytes);
bool wm_live_add_active(wm_live *live, int64_t blocks, int64_t bytes);
/* All of them, and what they are parts of. */
void wm_lives_raise(wm_lives *lives);
void wm_lives_raise_some(wm_lives *lives, const bool some[WM_LIVE_FIGURES]);
void wm_lives_reset(wm_lives *lives);

#endif
