/* snapshot_set.h: snapshots of all arenas of a range of places (history.h), and
 * the events up to them. */
#ifndef WM_SNAPSHOT_SET_H
#define WM_SNAPSHOT_SET_H

#include "alloc/snapshot/snapshot.h"
#include "runtime/thread/runtime_body.h"

typedef struct wm_snapshot_set {
    wm_snapshot *all;
    size_t count, room;
    uint64_t from, to; /* const: places from ≤ place < to */
    /* Event numbers: events of a place without arenas end before `first`. */
    uint64_t first, next;
    uint64_t now_ns; /* of the last snapshot */
    /* Events of the set, oldest first, at the end of the buffer; none is
     * missing from index `whole` on. */
    char *event;
    size_t event_bytes, event_room;
    size_t events, whole;
} wm_snapshot_set;

/* Status: OUT_OF_MEMORY, and wm_snapshot_set_end() is not called then. */
warm_status wm_snapshot_set_take(warm_runtime *runtime, uint64_t from,
                                 uint64_t to, wm_snapshot_set *set);
void wm_snapshot_set_end(wm_snapshot_set *set);

/* Returns the i-th event and its number. */
const wm_history_event *wm_snapshot_set_event(const wm_snapshot_set *set,
                                              size_t i, uint64_t *number);

#endif
