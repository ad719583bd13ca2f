/* snapshot.h: what lies in an arena and its siblings, at one moment (row C7).
 *
 * Copied under their locks into records of its own, so that it can be written
 * out without. Blocks of magazines change hands without that lock: what is told
 * of such a one is of some moment of the reading, and what is asked for in it
 * that of its caller then or of the next one. */
#ifndef WM_SNAPSHOT_H
#define WM_SNAPSHOT_H

#include "alloc/arena/arena.h"
#include "runtime/base/history.h"

/* A segment, or a block of the segment before it. */
typedef struct wm_piece {
    const char *base;
    size_t bytes;
    size_t requested;          /* blocks that are live, or were and wait */
    uint64_t lane_id;          /* blocks: of the stream, or 0 */
    enum wm_block_state state; /* VOID: a segment */
    bool depot;                /* CACHED: of no thread */
    bool small;                /* segments */
    bool expandable;           /* segments: memory between two holes */
    uint64_t made_ns;          /* segments */
    uint64_t idle_since_ns;    /* segments; 0: something is not idle */
} wm_piece;

typedef struct wm_snapshot {
    wm_piece *piece;
    size_t count;
    char *origins; /* of the pieces, or null */
    size_t origin_bytes;
    uint64_t place, pool, arena; /* in the history */
    uint64_t next; /* number of the first event that came after it */
    uint64_t now_ns;
} wm_snapshot;

/* Status: OUT_OF_MEMORY, nothing is to be ended then. */
warm_status wm_snapshot_take(wm_arena *arena, wm_snapshot *snapshot);
void wm_snapshot_end(wm_snapshot *snapshot);

/* Who allocated the block, or null: nobody knows, or it is idle. */
const wm_origin *wm_snapshot_origin(const wm_snapshot *snapshot, size_t piece);

static inline bool wm_piece_is_segment(const wm_piece *piece)
{
    return piece->state == WM_BLOCK_VOID;
}

/* With a caller, or not yet safe for the next one. */
bool wm_piece_is_active(const wm_piece *piece);

#endif
