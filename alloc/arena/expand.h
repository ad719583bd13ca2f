/* expand.h: segments that get memory in parts and return it in parts (option
 * expandable_segments).
 *
 *   range │ live │ idle │ gap ······· │ idle │ live │ gap ················· │
 *                └─ claimed ───┘ for a request: only the missing part is mapped
 *
 * A range of addresses is reserved once, for small or for large requests, and
 * is one segment. Its gaps are runs without memory: the page map knows the
 * first page of a gap and none of the others. Growth maps memory where a gap
 * and the idle runs beside it serve the request together, so that these runs
 * are used instead of left over. Idle memory is unmapped by whole pieces
 * (below), anywhere in the range.
 *
 * The driver unmaps without waiting for the device. Therefore only common runs
 * are unmapped: no queued work uses them (lane.h).
 *
 * While the driver is called, without a lock, the part that it maps or unmaps
 * is VOID and the idle runs beside it are CLAIMED: no other thread gets them.
 */
#ifndef WM_EXPAND_H
#define WM_EXPAND_H

#include "alloc/arena/arena.h"

/* A place where memory is being mapped. */
typedef struct wm_expansion {
    wm_segment *segment;
    wm_block *before, *after; /* idle runs to merge with, or null */
    wm_block *part;           /* part of a gap; null: nothing is claimed */
    size_t bytes;             /* bytes of the part */
    size_t first;             /* of these, what the request lacks */
    size_t room;              /* bytes of all three */
} wm_expansion;

/* Claims a place of at least needed bytes, up to wanted where addresses are
 * left: the place that needs the least memory, then the lowest address. Status:
 * NOT_FOUND (no error is set: no gap is large enough), OUT_OF_MEMORY. */
warm_status wm_expand_claim(wm_arena *arena, wm_lane *lane, size_t needed,
                            size_t wanted, wm_expansion *expansion);
/* The part has memory: the whole claim becomes idle, and a block for the
 * request is allocated in the same step; null without a record for it, or for 0
 * bytes. False: no record at all, and no effect. */
bool wm_expand_done(wm_arena *arena, wm_lane *lane, wm_expansion *expansion,
                    size_t bytes, wm_block **block);
/* The part has no memory: the claim is undone. lost: the part has memory, or
 * some, that the driver does not take back: it is held, and LOST. */
void wm_expand_undo(wm_arena *arena, wm_expansion *expansion, bool lost);

/* Adds a range of whole units as one gap, for requests of the kind of needed
 * bytes. Status: OUT_OF_MEMORY, UNSUPPORTED; the caller keeps the range. */
warm_status wm_expand_add(wm_arena *arena, void *base, size_t bytes,
                          size_t needed);
/* Removes a range that is one gap. False: there is none. */
bool wm_expand_remove(wm_arena *arena, void **base, size_t *bytes);

/* The memory around a block, up to the gaps on both sides. */
void wm_expand_extent(wm_block *block, void **base, size_t *bytes);

/* The pieces in which a range has memory.
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
enum { WM_PIECE_MAX = 64 << 20 };

/* A piece was mapped, or unmapped. */
void wm_piece_come(wm_segment *segment, const char *base, size_t bytes);
void wm_piece_go(wm_segment *segment, const char *base, size_t bytes);
/* Bytes of the piece that begins at base. */
size_t wm_piece_from(wm_segment *segment, const char *base);

#endif
