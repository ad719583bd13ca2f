/* snapshot.h: the segments and blocks of all arenas, and the events up to then
 * (row C7).
 *
 * An arena and its siblings are copied under their locks into pieces, which are
 * written out without a lock. Threads allocate and free blocks of their
 * magazines without these locks: the state of such a block is that of some
 * moment during the copy, and its requested size may be that of a later
 * allocation. */
#ifndef WM_SNAPSHOT_H
#define WM_SNAPSHOT_H

#include "alloc/block/block.h"
#include "runtime/base/history.h"
#include "runtime/thread/text_call.h"

/* A segment, or a block of the last segment before it. */
typedef struct wm_piece {
    const char *base;
    size_t bytes;
    size_t requested;          /* blocks: live, or pending */
    uint64_t lane_id;          /* blocks: the stream's, or 0 */
    enum wm_block_state state; /* VOID: a segment */
    bool in_transfer_cache;    /* CACHED: in the transfer cache */
    bool small;                /* segments */
    unsigned cuts;             /* segments: places between two registrations */
    uint64_t made_ns;          /* segments */
    uint64_t idle_since_ns;    /* segments; 0: a block is not idle */
} wm_piece;

/* The copy of an arena and its siblings. */
typedef struct wm_snapshot {
    wm_piece *piece;
    size_t count;
    char *origins; /* one per piece, or null */
    size_t origin_bytes;
    uint64_t place, pool, arena; /* as the history numbers them */
    uint64_t next_event;         /* number of the first event after it */
    uint64_t now_ns;
    struct wm_snapshot *next; /* of the set */
} wm_snapshot;

typedef struct wm_snapshot_set {
    wm_snapshot *first, *last; /* not null: each space has an arena */
    /* Events of the set, oldest first, at the end of the buffer; none is
     * missing from index `whole` on. */
    char *event;
    size_t event_bytes, event_room;
    size_t events, whole;
} wm_snapshot_set;

/* Status: OUT_OF_MEMORY, and wm_snapshot_set_end() is not called then. */
warm_status wm_snapshot_set_take(warm_runtime *runtime, wm_snapshot_set *set);
void wm_snapshot_set_end(wm_snapshot_set *set);

/* Appends the JSON object of warmpool/snapshot.h. what: null. */
wm_text_writer wm_snapshot_put;

/* Returns the i-th event and its number. */
const wm_history_event *wm_snapshot_set_event(const wm_snapshot_set *set,
                                              size_t i, uint64_t *number);

/* The origin of a block's allocation; null: idle, or not recorded. */
const wm_origin *wm_snapshot_origin(const wm_snapshot *snapshot, size_t piece);

static inline bool wm_piece_is_segment(const wm_piece *piece)
{
    return piece->state == WM_BLOCK_VOID;
}

/* Whether the block is allocated, or freed and not reusable yet. */
static inline bool wm_piece_is_active(const wm_piece *piece)
{
    return piece->state == WM_BLOCK_LIVE || piece->state == WM_BLOCK_PENDING ||
           piece->state == WM_BLOCK_CAPTURED || piece->state == WM_BLOCK_LOST;
}

#endif
