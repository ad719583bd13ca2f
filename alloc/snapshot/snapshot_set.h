/* snapshot_set.h: snapshots of all arenas of some places (history.h), and the
 * events that go with them. */
#ifndef WM_SNAPSHOT_SET_H
#define WM_SNAPSHOT_SET_H

#include "alloc/snapshot/snapshot.h"
#include "runtime/thread/control.h"

typedef struct wm_snapshot_set {
    wm_snapshot *all;
    size_t count, room;
    uint64_t from, to; /* const: places, to excluded */
    /* Numbers of events: those of a place that has no arena any more end
     * before first. */
    uint64_t first, next;
    uint64_t now_ns; /* of the last one */
    /* Events of the set, oldest first, at the end of room for more; of them
     * those from whole on are without a gap in the history. */
    char *event;
    size_t event_bytes, event_room;
    size_t events, whole;
} wm_snapshot_set;

/* Status: OUT_OF_MEMORY; nothing is to be ended then. */
warm_status wm_snapshot_set_take(warm_runtime *runtime, uint64_t from,
                                 uint64_t to, wm_snapshot_set *set);
void wm_snapshot_set_end(wm_snapshot_set *set);

/* The i-th event that is there; its number. */
const wm_history_event *wm_snapshot_set_event(const wm_snapshot_set *set,
                                              size_t i, uint64_t *number);

#endif
