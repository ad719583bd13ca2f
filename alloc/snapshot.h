/* snapshot.h: what lies in an arena, at one moment (row C7).
 *
 * Copied under lock arena into records of its own, so that it can be written
 * out without. */
#ifndef WM_SNAPSHOT_H
#define WM_SNAPSHOT_H

#include "alloc/arena.h"

/* A segment, or a block of the segment before it. */
typedef struct wm_piece {
    const char *base;
    size_t bytes;
    size_t requested;          /* LIVE blocks */
    uint64_t lane_id;          /* blocks: of the stream, or 0 */
    enum wm_block_state state; /* VOID: a segment */
    bool small;                /* segments */
} wm_piece;

/* Of an arena whose blocks never go through magazines: what is asked for in a
 * live block is written under the lock there.
 * pieces: owned, ended by wm_meta_free(). Status: OUT_OF_MEMORY. */
warm_status wm_snapshot_take(wm_arena *arena, wm_piece **pieces, size_t *count);

#endif
