/* order_int.h: what the files of a device's streams share. */
#ifndef WM_ORDER_INT_H
#define WM_ORDER_INT_H

#include "alloc/stream/order.h"

typedef struct wm_order {
    wm_orders *all;        /* const */
    uint64_t id;           /* const: of the lane; 0: the legacy stream's */
    warm_stream stream;    /* const; not to be used */
    wm_timeline *timeline; /* const, with a reference; null: legacy */
    wm_lane *lane;         /* const: the first of the stream's */
    wm_block mark, last;   /* the thread that queues it, then the timelines' */
    /* lock orders */
    wm_lane_point marked;          /* of its lanes, what mark stands for */
    bool marking;                  /* mark is under way, or never comes back */
    bool retired;                  /* the stream: nobody finds it any more */
    bool over;                     /* the lane has ended */
    unsigned waits;                /* threads that let it wait, or others */
    uint64_t tried;                /* the last that did, or looked at it */
    struct wm_order *next;         /* in its bucket */
    struct wm_order *next_to_mark; /* of the thread that does */
} wm_order;

/* What tells a mark from a block, and which it is. */
enum { WM_ORDER_MARK = WM_CLASSES_ALL, WM_ORDER_LAST };

/* Queues a mark behind what is on the stream; false: it cannot be. */
bool wm_order_queue(wm_order *order, wm_block *mark);

/* Ends an order whose lane has ended, unless its mark is still under way, or a
 * thread waits for it: who does has the order, and names its timeline. Returns
 * that timeline, whose reference is the caller's then, or null. */
wm_timeline *wm_order_free_locked(wm_order *order);

#endif
