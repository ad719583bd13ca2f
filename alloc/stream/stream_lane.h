/* stream_lane.h: the streams of a device space and their lanes (lane.h): when
 * the idle memory of one stream is safe for others (rows C1, C4).
 *
 *   stream ──► owner ──► its lanes, one in each arena of the group
 *                │
 *                └──► fence ──► timeline of the stream   a block of 0 bytes
 *                               … use, use, fence, use …  that it "uses"
 *
 * Memory that was freed in the order of a stream becomes common once the stream
 * has completed the work before the free. When a request on another stream
 * misses, or what lies in lanes behind no fence has grown, a fence is queued in
 * the stream's timeline (timeline.h), as if it were a block; the fence covers
 * all runs freed to the lane by then, which become common when the timeline
 * completes it. A retired stream leaves a final fence, with which its lane
 * ends.
 *
 * Only an adopted stream gets fences before it is retired: any other stream may
 * have been destroyed already. Memory that was freed in the order of such a
 * stream, or of a default stream, stays in its lane until the stream is
 * retired, or is adopted and frees something else, or the segment is freed to
 * the driver, which waits for the device.
 *
 * Locks: REGISTRY guards a registry and its owners; lock arena is taken under
 * it. Neither is held while fences are queued or a thread waits. */
#ifndef WM_STREAM_LANE_H
#define WM_STREAM_LANE_H

#include "alloc/arena/arena.h"
#include "alloc/stream/timeline.h"

/* With a thousand streams four to a bucket: a request looks its lane up. */
enum { WM_LANE_BUCKETS = 256 };

/* Fences of a stream that may be queued at once, its final one aside: memory
 * that is freed while one waits need not wait until that one has completed. */
enum { WM_FENCES = 4 };

/* Queued on a stream as if it were a block. Owned by the thread that queues it,
 * then by the timelines; the registry has as many as were queued at once. */
typedef struct wm_fence {
    wm_block block; /* the first field: wm_fence_complete() */
    struct wm_lane_owner *owner;
    wm_lane_point point; /* frees that it covers, unless it is final */
    /* Lock registry: the owner's fence taken next, and how many fences were
     * taken before this one. */
    struct wm_fence *next_out;
    uint64_t number;
    struct wm_fence *next; /* of the spare ones, lock registry; or of those that
                              a thread queues */
    struct wm_fence *next_made; /* lock registry */
} wm_fence;

/* A stream with lanes. */
typedef struct wm_lane_owner {
    struct wm_lane_registry *all; /* const */
    uint64_t id;           /* const: id of the lane; 0: the legacy stream's */
    warm_stream stream;    /* const; never passed to the driver */
    wm_timeline *timeline; /* const, with a reference; null: legacy stream */
    wm_lane *lane;         /* const: the stream's lane in the first sibling */
    /* lock registry */
    unsigned waiters; /* threads that queue a wait in it, or for it */
    uint8_t fences;   /* ordinary ones that are out, or were lost */
    wm_fence *out;    /* those out: taken and neither complete nor lost, oldest
                         first */
    bool retired;     /* the stream was retired; look-ups skip it */
    bool lane_ended;
    uint64_t last_try;          /* value of tries when it was last looked at */
    struct wm_lane_owner *next; /* in its bucket */
} wm_lane_owner;

/* The streams of an arena and its siblings. */
typedef struct wm_lane_registry {
    wm_timelines *timelines; /* const */
    wm_arena *arena;         /* const: the first sibling */
    int device;              /* const */
    wm_segment *stub;        /* const: the segment of all fences, of no arena */
    wm_lock lock;
    wm_fence *spare_fences, *all_fences;    /* lock registry */
    wm_lane_owner *bucket[WM_LANE_BUCKETS]; /* lock registry; by id */
    /* Relaxed: their number, written under lock registry. */
    _Atomic unsigned owners;
    /* Lock registry: fences taken, calls of wm_lanes_wait_for_streams(). */
    uint64_t taken, tries;
} wm_lane_registry;

/* init(): status OUT_OF_MEMORY. forget() drops the references to timelines,
 * before those are destroyed; fini() frees the rest, afterwards. */
warm_status wm_lane_registry_init(wm_lane_registry *registry,
                                  wm_timelines *timelines, wm_arena *arena,
                                  int device);
void wm_lane_registry_forget(wm_lane_registry *registry);
void wm_lane_registry_fini(wm_lane_registry *registry);
/* For tests: false if the owners contradict the fences. No other thread is
 * inside. */
bool wm_lane_registry_check(wm_lane_registry *registry);

/* Result of looking up the lane of a stream. */
typedef struct wm_found_lane {
    wm_lane *lane; /* held: the caller drops it */
    bool captured; /* the stream captures now; the lane may be null */
    /* The result holds until the runtime's stream_epoch changes: the stream is
     * adopted and no capture is known, or it is the legacy stream, which never
     * ends and never captures. */
    bool known;
} wm_found_lane;

/* The lane of a stream, made if there is none. No driver call if the stream is
 * adopted, or the legacy stream. Status: INVALID_STREAM, INVALID_ARGUMENT
 * (stream of another device), OUT_OF_MEMORY, DRIVER_ERROR. */
warm_status wm_lanes_of_stream(wm_lane_registry *registry, warm_stream stream,
                               wm_found_lane *found);

/* Returns INVALID_ARGUMENT with its message: the stream is not of the
 * device. */
warm_status wm_lane_other_device(warm_stream stream, int stream_device,
                                 int device);

/* Queues a fence on every stream, except the one of lane (null: no exception),
 * that has idle memory of its own in arena (null: in any sibling) and a fence
 * that is not queued. A fence stands for the stream's lanes in all siblings;
 * runs whose work the stream has completed are common after the next poll. The
 * cost grows with the number of lanes to which runs were freed since the last
 * call, not with that of all streams. Called when a request missed. */
void wm_lanes_queue_fences(wm_lane_registry *registry, wm_arena *arena,
                           const wm_lane *lane);

/* Called after frees: if what is idle in the arena's lanes has grown by a part
 * of the caches' budget (economy.h) since fences were last queued, queues
 * fences as above, on every stream, and polls streams. So memory that one
 * stream has left is common when another one needs it; and no event is recorded
 * while each stream uses its own memory again. No lock held. */
void wm_lanes_cover_slow(wm_arena *arena);
static inline void wm_lanes_cover(wm_arena *arena)
{
    /* Relaxed: fences may be queued a free late. */
    if (wm_unlikely(
            atomic_load_explicit(&arena->fences_due, memory_order_relaxed))) {
        wm_lanes_cover_slow(arena);
    }
}

/* Makes the stream of a lane wait for streams with idle memory, which moves to
 * the lane: for a stream that has a run of bytes, up to its oldest fence that
 * covers one; if there is none, for several streams, until their
 * memory together has room, or no stream is left. Only adopted streams that do
 * not capture are waited for; a per-thread default stream waits for none.
 * Returns whether any memory moved. */
bool wm_lanes_wait_for_streams(wm_lane_registry *registry, wm_lane *lane,
                               size_t bytes);

/* The stream, looked up as info, is about to be retired; called before its
 * timeline is retired. */
void wm_lane_registry_retire(wm_lane_registry *registry, warm_stream stream,
                             const wm_stream_info *info);

/* Handles a PENDING block that the timelines completed, if it is a fence;
 * false: it is none. */
bool wm_fence_complete(wm_block *block);

/* ---- for stream_wait.c: under lock registry ----------------------------- */

/* Walks the registry: the owner behind one, or the first one (null). */
wm_lane_owner *wm_lane_owner_next_locked(wm_lane_registry *registry,
                                         const wm_lane_owner *owner);
/* Whether the stream is adopted and not retired. */
bool wm_lane_owner_lives(const wm_lane_owner *owner);
/* Unlocks the owner's registry. Frees the owner if its lane has ended, unless
 * a fence is queued, or a thread queues a wait in its stream or for it: that
 * thread reads the owner and its timeline. */
void wm_lane_owner_unlock(wm_lane_owner *owner);

#endif
