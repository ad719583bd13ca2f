/* stream_lane.h: in whose order the memory of a device is safe (rows C1, C4):
 * the streams of a device space, and their lanes (lane.h).
 *
 *   stream ──► order ──► lanes, one in each of the arenas
 *                │
 *                └──► mark ──► timeline of the stream    a block of no bytes
 *                              … use, use, mark, use …   that is used there
 *
 * What the stream has passed is asked as it is for blocks: a mark says how much
 * had come back to the lane when it was queued, and goes through the stream's
 * timeline (timeline.h); once that has let go of it, so much is common. A mark
 * is queued when somebody else misses. A stream that is retired leaves a last
 * mark behind, with which its lane ends.
 *
 * Only an adopted stream is marked before it is retired: of another one nobody
 * knows whether it is still there. What was freed in its order stays with it,
 * until it is retired, or adopted and something else freed in its order, or the
 * segment goes back to the driver, which waits for the device. The same holds
 * for default streams.
 *
 * Lock orders, and under it lock arena; neither is held while marks are queued.
 */
#ifndef WM_STREAM_LANE_H
#define WM_STREAM_LANE_H

#include "alloc/arena/arena.h"
#include "alloc/stream/timeline.h"

struct wm_lane_owner;

enum { WM_ORDER_BUCKETS = 64 };

/* Of one arena and its siblings. */
typedef struct wm_lane_registry {
    wm_timelines *timelines; /* const */
    wm_arena *arena;         /* const: the first of them */
    int device;              /* const */
    wm_segment *stub;        /* const: where marks lie */
    wm_lock lock;
    struct wm_lane_owner
        *bucket[WM_ORDER_BUCKETS]; /* lock orders; by stream id */
    struct wm_lane_owner
        *legacy;    /* lock orders; of the legacy stream, or null */
    uint64_t tries; /* lock orders; of wm_lanes_wait_for_streams() */
} wm_lane_registry;

/* Status: OUT_OF_MEMORY. */
warm_status wm_lane_registry_init(wm_lane_registry *orders,
                                  wm_timelines *timelines, wm_arena *arena,
                                  int device);
/* Before the timelines end: lets go of them. And after: of the rest. */
void wm_lane_registry_forget(wm_lane_registry *orders);
void wm_lane_registry_fini(wm_lane_registry *orders);

/* What is known of a stream. */
typedef struct wm_found_lane {
    wm_lane *lane; /* held: the caller drops it */
    bool captured; /* it captures now; the lane may be null then */
    /* It says before it ends, and nobody captures; or is the legacy one, which
     * never ends and never captures: until the runtime's stream_epoch changes
     * all of this stays as it is. */
    bool known;
} wm_found_lane;

/* The lane of a stream, made if there is none. Calls no driver if the stream is
 * adopted, or the legacy one. Status: INVALID_STREAM, INVALID_ARGUMENT (of
 * another device), OUT_OF_MEMORY, DRIVER_ERROR. */
warm_status wm_lanes_of_stream(wm_lane_registry *orders, warm_stream stream,
                               wm_found_lane *found);

/* INVALID_ARGUMENT: the stream is not of the device. */
warm_status wm_lane_other_device(warm_stream stream, int its, int device);

/* Queues a mark on every stream but that of lane (null: on all) that has
 * something idle for itself in an arena (null: in any), and none under way. A
 * mark is for all that the stream has. What has passed is common after the next
 * poll. The cost goes by the streams to which memory came back since the last
 * time, and not by all there are. */
void wm_lanes_queue_fences(wm_lane_registry *orders, wm_arena *arena,
                           const wm_lane *lane);

/* Waits until the streams have passed what has come back by now, all of it that
 * is still idle: that is common then. Not for streams that capture, nor for
 * those that nobody knows to live; of default streams for the legacy one, if
 * the device is the thread's. pending: and before, for adopted streams that
 * freed blocks wait for, and the ends of those that were retired. Whether there
 * may be more than marks tell of: of the legacy one, and pending. */
bool wm_lanes_sync_streams(wm_lane_registry *orders, bool pending);
/* The same for those that nobody knows to live, and all default streams: where
 * one has something idle the device is waited for. Nobody captures. Whether it
 * was. */
bool wm_lanes_sync_device(wm_lane_registry *orders);

/* Lets the stream of a lane wait for other ones that have idle memory, which is
 * the lane's then: for one that has a run of bytes; or where there is none, and
 * any: for several, until theirs do together or none is left. Only of adopted
 * streams, none of which captures; a default stream waits for nobody. Whether
 * anything came. */
bool wm_lanes_wait_for_streams(wm_lane_registry *orders, wm_lane *lane,
                               size_t bytes, bool any);

/* The stream, looked at as info, is about to be retired: before its timeline
 * is. */
void wm_lane_registry_retire(wm_lane_registry *orders, warm_stream stream,
                             const wm_stream_info *info);

/* Whether a PENDING block that the timelines let go of is a mark; then it has
 * been dealt with. */
bool wm_fence_complete(wm_block *block);

#endif
