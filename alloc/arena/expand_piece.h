/* expand_piece.h: the pieces in which a range of addresses has memory
 * (expand.h).
 *
 *   range   │ unit │ unit │ unit │ unit │······│ unit │ unit │······│
 *   pieces  ├────────────────────┼──────┤      ├─────────────┤
 *   joined     0      1      1      0      0      0      1      0
 *
 * The driver maps a piece by one call and unmaps it by one call, whole: idle
 * memory in a piece that is partly in use stays and serves requests. Memory is
 * mapped in pieces of WM_PIECE_MAX, and a rest in smaller pieces
 * (obtain_piece.c); if the driver refuses a piece, in halves of it.
 *
 * A joined unit is in the same piece as the unit before it; a unit without
 * memory is not joined. The bits lie in the segment's record, under lock arena.
 */
#ifndef WM_EXPAND_PIECE_H
#define WM_EXPAND_PIECE_H

#include "alloc/arena/arena.h"

enum { WM_PIECE_MAX = 64 << 20 };

/* A piece was mapped, or unmapped. wm_piece_come() and wm_piece_go() take lock
 * arena. */
void wm_piece_come(wm_segment *segment, const char *base, size_t bytes);
void wm_piece_go(wm_segment *segment, const char *base, size_t bytes);
void wm_piece_go_locked(wm_segment *segment, const char *base, size_t bytes);

/* Bytes of the piece that begins at base (takes lock arena), or that ends at
 * end. */
size_t wm_piece_from(wm_segment *segment, const char *base);
size_t wm_piece_up_to_locked(const wm_segment *segment, const char *end);

/* Bytes of the whole pieces in a run, from *begin on; 0: there are none, or the
 * segment does not expand. */
size_t wm_piece_whole_locked(const wm_block *run, char **begin);

/* True if no unit of the run, nor the unit after it, is joined: must hold for a
 * run without memory. */
bool wm_piece_none_locked(const wm_block *run);

#endif
