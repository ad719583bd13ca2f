/* timeline.h: freed, but not yet safe (rows B3 to B7).
 *
 *   block ──uses──► use ──► timeline of stream 7   queue: use → use → use
 *               └─► use ──► timeline of stream 9   queue: use
 *
 * One timeline a stream, found by the driver's stream id. While a block is
 * LIVE its uses name the streams that were recorded on it. Freeing records an
 * event for each use, then publishes the uses as entries of the timelines'
 * queues; the block is idle again once every queue has let go of it. Queues
 * are asked oldest first, so that a stuck stream holds up only its own blocks.
 *
 * A stream that was retired leaves one final event behind, which stands for
 * all of its uses. The event is recorded before the block is published: a
 * query can never see an older state of it.
 *
 * Locks: TIMELINES for the table, references and the busy list, TIMELINE for
 * one queue; none across a driver call. One thread at a time polls; who comes
 * meanwhile waits for the next round, so that a call returns when all that had
 * passed before it is back. */
#ifndef WM_TIMELINE_H
#define WM_TIMELINE_H

#include "alloc/block.h"
#include "runtime/base/lock.h"
#include "runtime/driver/event_pool.h"

enum { WM_TIMELINE_BUCKETS = 256 };

typedef struct wm_timelines {
    wm_driver *driver;     /* const */
    wm_event_pool *events; /* const */
    /* const: the last queue has let go of a PENDING block; no lock held */
    void (*finish)(wm_block *block, bool lost);
    wm_lock lock;
    /* lock timelines */
    wm_timeline *bucket[WM_TIMELINE_BUCKETS]; /* by id; not the retired */
    wm_timeline *busy_head, *busy_tail;       /* with entries, or polled */
    size_t count;                             /* in the table */
    uint64_t begun, finished;                 /* rounds of polling */
    wm_cond round_over;
} wm_timelines;

void wm_timelines_init(wm_timelines *set, wm_driver *driver,
                       wm_event_pool *events,
                       void (*finish)(wm_block *block, bool lost));
/* Forgets all entries; their events go back to the pool. The uses of live
 * blocks were forgotten before. */
void wm_timelines_fini(wm_timelines *set);

/* Records that work on stream uses a LIVE block. On failure nothing changed.
 * Status: INVALID_STREAM, DRIVER_ERROR, OUT_OF_MEMORY. */
warm_status wm_timelines_use(wm_timelines *set, wm_block *block,
                             warm_stream stream);

/* What the uses of a FREEING block come to. */
enum wm_uses {
    WM_USES_NONE,    /* nothing is queued on it any more */
    WM_USES_PENDING, /* events are recorded: to be published */
    WM_USES_LOST,    /* the driver could not say when it is safe */
    WM_USES_CAPTURED /* a graph may use it at any later time */
};

/* Records an event for every use. Unless the answer is PENDING the uses are
 * gone afterwards. May wait for a stream if the driver fails to record. */
enum wm_uses wm_timelines_prepare(wm_timelines *set, wm_block *block);

/* Makes the uses of a PENDING block entries. The block may be idle, and with
 * somebody else, when this returns. */
void wm_timelines_publish(wm_timelines *set, wm_block *block);

/* Drops the uses of a block that nobody will free any more. */
void wm_timelines_forget(wm_timelines *set, wm_block *block);

/* Takes back what had passed when the call began: asks every queue with
 * entries, or waits while another thread does. Never waits for a stream. */
void wm_timelines_poll(wm_timelines *set);

/* The stream will be destroyed: from now on its final event counts. */
void wm_timelines_retire(wm_timelines *set, warm_stream stream,
                         const wm_stream_info *info);

/* Streams recorded on a LIVE block. */
unsigned wm_timelines_streams(wm_block *block);

/* For tests: timelines in the table. */
size_t wm_timelines_count(wm_timelines *set);

#endif
