/* expand.h: segments that get memory in parts, and give it back in parts
 * (option expandable_segments).
 *
 *   range │ live │ idle │ gap ······ │ idle │ live │ gap ················ │
 *                └─ claimed ──┘ for a request: only what is missing comes
 *
 * A range of addresses is reserved once, for small requests or for large ones,
 * and is one segment. Its gaps are runs without memory: the page map knows
 * their first page and nothing of the others. Growth puts memory where a gap
 * and the idle runs beside it do together, so that those are used up instead of
 * left over; what is idle goes back by whole pieces (expand_piece.h), wherever
 * it lies.
 *
 * The driver waits for nobody when it takes memory out of a range. So only
 * common runs go: nothing that is queued touches them (lane.h).
 *
 * A part is on its way (VOID) while the driver is called, with no lock held; so
 * are the idle runs beside it (CLAIMED), which nobody else gets meanwhile. */
#ifndef WM_EXPAND_H
#define WM_EXPAND_H

#include "alloc/arena/arena.h"

/* A place where memory is to come. */
typedef struct wm_expansion {
    wm_segment *segment;
    wm_block *before, *after; /* idle runs that it will join, or null */
    wm_block *part;           /* of a gap; null: nothing is claimed */
    size_t bytes;             /* of the part */
    size_t first;             /* of these: what the request is short of */
    size_t room;              /* of all three */
} wm_expansion;

/* Claims a place of at least needed bytes, which is to come to wanted if
 * addresses are left there: of those that will do the one that needs the least
 * memory, and of these the lowest.
 * Status: NOT_FOUND (no error is set: no gap will do), OUT_OF_MEMORY. */
warm_status wm_expand_claim(wm_arena *arena, wm_lane *lane, size_t needed,
                            size_t wanted, wm_expansion *expansion);
/* The part has memory now: all of the claim is idle, and a block for the
 * request is taken in the same step; null without a record for that, or for 0
 * bytes. False: no record at all, and nothing was done. */
bool wm_expand_done(wm_arena *arena, wm_lane *lane, wm_expansion *expansion,
                    size_t bytes, wm_block **block);
/* It has none: all is as it was. lost: it has, or some of it, and the driver
 * does not take that back: it is held, and LOST. */
void wm_expand_undo(wm_arena *arena, wm_expansion *expansion, bool lost);

/* A range of whole units joins the arena as one gap, for requests as that of
 * needed bytes. Status: OUT_OF_MEMORY, UNSUPPORTED; it is still the caller's.
 */
warm_status wm_expand_add(wm_arena *arena, void *base, size_t bytes,
                          size_t needed);
/* Takes a range out that is one gap. False: there is none. */
bool wm_expand_remove(wm_arena *arena, void **base, size_t *bytes);

/* The memory around a block of a range up to the next gaps. */
void wm_expand_extent(wm_block *block, void **base, size_t *bytes);

#endif
