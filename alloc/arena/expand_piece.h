/* expand_piece.h: the pieces in which a range of addresses has memory
 * (expand.h).
 *
 *   range   │ unit │ unit │ unit │ unit │······│ unit │ unit │······│
 *   pieces  ├────────────────────┼──────┤      ├─────────────┤
 *   joined     0      1      1      0      0      0      1      0
 *
 * The driver maps a piece by one call and takes it back by one, whole: what is
 * idle in a piece of which a part is in use stays, and serves requests. Memory
 * comes in steps of WM_PIECE_MAX, and what is less than one in smaller pieces
 * (obtain_piece.c); where the driver refuses those, in halves of them.
 *
 * A unit that is joined is one piece with the unit before it; no unit without
 * memory is. The bits lie in the segment's record, under lock arena. */
#ifndef WM_EXPAND_PIECE_H
#define WM_EXPAND_PIECE_H

#include "alloc/arena/arena.h"

enum { WM_PIECE_MAX = 64 << 20 };

/* One piece came, or has gone. Both take lock arena. */
void wm_piece_come(wm_segment *segment, const char *base, size_t bytes);
void wm_piece_go(wm_segment *segment, const char *base, size_t bytes);
void wm_piece_go_locked(wm_segment *segment, const char *base, size_t bytes);

/* Bytes of the piece that begins at base (takes lock arena), or that ends at
 * end. */
size_t wm_piece_from(wm_segment *segment, const char *base);
size_t wm_piece_up_to_locked(const wm_segment *segment, const char *end);

/* Bytes of the whole pieces in a run, from *begin on; 0: there is none, or the
 * segment does not expand. */
size_t wm_piece_whole_locked(const wm_block *run, char **begin);

/* Whether the units of a run, and the one after it, are joined to none: for the
 * walker, of runs without memory. */
bool wm_piece_none_locked(const wm_block *run);

#endif
