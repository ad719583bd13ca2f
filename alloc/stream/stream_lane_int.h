/* stream_lane_int.h: what stream_lane.c, fence.c and stream_wait.c share. */
#ifndef WM_STREAM_LANE_INT_H
#define WM_STREAM_LANE_INT_H

#include "alloc/stream/stream_lane.h"

typedef struct wm_lane_owner {
    wm_lane_registry *all; /* const */
    uint64_t id;           /* const: id of the lane; 0: the legacy stream's */
    warm_stream stream;    /* const; not named to the driver */
    wm_timeline *timeline; /* const, with a reference; null: legacy stream */
    wm_lane *lane;         /* const: the stream's lane in the first sibling */
    wm_block fence, final_fence; /* owned by the thread that queues it, then by
                                    the timelines */
    /* lock orders */
    wm_lane_point fence_point; /* what the fence stands for */
    bool fence_queued;         /* fence is under way, or was lost */
    bool retired;              /* the stream was; look-ups skip it */
    bool lane_ended;           /* the lane has ended */
    unsigned waiters;  /* threads that wait for the stream, or let it wait */
    uint64_t last_try; /* the last try that looked at this stream */
    struct wm_lane_owner *next;          /* in its bucket */
    struct wm_lane_owner *next_to_fence; /* of the thread that queues fences */
} wm_lane_owner;

/* size_class of a fence, which no block has. */
enum { WM_FENCE = WM_CLASSES_ALL, WM_FENCE_FINAL };

/* Frees an owner whose lane has ended, unless its fence is under way or a
 * thread waits with it, since that thread reads the owner and its timeline.
 * Returns the owner's timeline, whose reference the caller then drops, or
 * null. */
wm_timeline *wm_lane_owner_free_locked(wm_lane_owner *owner);

#endif
