/* snapshot.h: the segments and blocks of an arena and its siblings (row C7).
 *
 * Copied under the arenas' locks into pieces, which are written out without a
 * lock. Threads allocate and free blocks of their magazines without these
 * locks: the state of such a block is of some moment of the copy, and its
 * requested size of the caller then or of the next one. */
#ifndef WM_SNAPSHOT_H
#define WM_SNAPSHOT_H

#include "alloc/arena/arena.h"
#include "runtime/base/history.h"

/* A segment, or a block of the last segment before it. */
typedef struct wm_piece {
    const char *base;
    size_t bytes;
    size_t requested;          /* blocks: live, or pending */
    uint64_t lane_id;          /* blocks: the stream's, or 0 */
    enum wm_block_state state; /* VOID: a segment */
    bool depot;                /* CACHED: in the transfer cache */
    bool small;                /* segments */
    bool expandable;           /* segments: committed memory between two gaps */
    uint64_t made_ns;          /* segments */
    uint64_t idle_since_ns;    /* segments; 0: a block is not idle */
} wm_piece;

typedef struct wm_snapshot {
    wm_piece *piece;
    size_t count;
    char *origins; /* one per piece, or null */
    size_t origin_bytes;
    uint64_t place, pool, arena; /* as the history numbers them */
    uint64_t next; /* number of the first event after the snapshot */
    uint64_t now_ns;
} wm_snapshot;

/* Status: OUT_OF_MEMORY, and wm_snapshot_end() is not called then. */
warm_status wm_snapshot_take(wm_arena *arena, wm_snapshot *snapshot);
void wm_snapshot_end(wm_snapshot *snapshot);

/* The origin of a block's allocation; null: idle, or not recorded. */
const wm_origin *wm_snapshot_origin(const wm_snapshot *snapshot, size_t piece);

static inline bool wm_piece_is_segment(const wm_piece *piece)
{
    return piece->state == WM_BLOCK_VOID;
}

/* Whether the block is live or pending. */
bool wm_piece_is_active(const wm_piece *piece);

#endif
