/* stream_lane_int.h: what the files of a device's streams share. */
#ifndef WM_STREAM_LANE_INT_H
#define WM_STREAM_LANE_INT_H

#include "alloc/stream/stream_lane.h"

typedef struct wm_lane_owner {
    wm_lane_registry *all; /* const */
    uint64_t id;           /* const: of the lane; 0: the legacy stream's */
    warm_stream stream;    /* const; not to be used */
    wm_timeline *timeline; /* const, with a reference; null: legacy */
    wm_lane *lane;         /* const: the first of the stream's */
    wm_block mark, last;   /* the thread that queues it, then the timelines' */
    /* lock orders */
    wm_lane_point marked;       /* of its lanes, what mark stands for */
    bool marking;               /* mark is under way, or never comes back */
    bool retired;               /* the stream: nobody finds it any more */
    bool over;                  /* the lane has ended */
    unsigned waits;             /* threads that let it wait, or others */
    uint64_t tried;             /* the last that did, or looked at it */
    struct wm_lane_owner *next; /* in its bucket */
    struct wm_lane_owner *next_to_mark; /* of the thread that does */
} wm_lane_owner;

/* What tells a mark from a block, and which it is. */
enum { WM_ORDER_MARK = WM_CLASSES_ALL, WM_ORDER_LAST };

/* Queues a mark behind what is on the stream; false: it cannot be. */
bool wm_fence_queue(wm_lane_owner *order, wm_block *mark);

/* Ends an order whose lane has ended, unless its mark is still under way, or a
 * thread waits for it: who does has the order, and names its timeline. Returns
 * that timeline, whose reference is the caller's then, or null. */
wm_timeline *wm_lane_owner_free_locked(wm_lane_owner *order);

#endif
