/* timeline.h: blocks that were freed while streams may still use them (rows B3
 * to B7). The contract of this folder, with stream_lane.h.
 *
 *   block ──uses──► use ──► timeline of stream 7   open: use, use, use
 *               │                                  queue: [use, use] → [use]
 *               └─► use ──► timeline of stream 9   queue: [use] → [use]
 *
 * A stream has one timeline, found by the driver's stream id. While a block is
 * LIVE its uses name the streams that were recorded on it. The free makes each
 * use an entry of its timeline's queue, behind an event; the block is idle
 * again once every queue has completed its entry. A poll queries the oldest
 * event of each queue first, so that a stuck stream delays only its own blocks.
 *
 * An *adopted* stream lives until it is retired, and its captures are
 * announced. Its timeline is found by the stream's address, without a driver
 * call. The uses of freed blocks collect in its open batch, which one event
 * covers: the batch closes, and enters the queue, when it is full or old, or
 * when memory is needed. Any other stream may be destroyed right after the
 * free: its event is recorded during the free, for a batch of one use.
 *
 * A retired stream leaves one final event, which covers all of its uses. Every
 * event is recorded before its batch enters the queue, so that a query never
 * sees an older state of the event.
 *
 * Locks: TIMELINES guards the tables and the busy list, TIMELINE the batches of
 * one stream, USES the lists of live blocks. None is held across a driver call.
 * One thread at a time runs a round of polling. A thread that calls meanwhile
 * waits for the next round, so that a poll of every stream has collected all
 * work that completed before its call. */
#ifndef WM_TIMELINE_H
#define WM_TIMELINE_H

#include "alloc/block/block.h"
#include "runtime/base/lock.h"
#include "runtime/driver/event_pool.h"
#include "runtime/thread/runtime_body.h"

/* With a thousand streams one to a bucket. */
enum { WM_TIMELINE_BITS = 10, WM_TIMELINE_BUCKETS = 1 << WM_TIMELINE_BITS };
enum { WM_USE_LOCKS = 8 }; /* a power of two */

/* An open batch with this many uses is worth an event and a query in a poll
 * that a missing allocation runs. */
enum { WM_BATCH_RIPE = 8 };

/* Uses of freed blocks that no event covers yet. */
typedef struct wm_batch {
    wm_stream_use *first, *last;
    size_t count, bytes;
    uint64_t since_ns; /* when the first use was added */
    bool due; /* while it closes: as wm_timeline_begin_record() wrote it */
} wm_batch;

/* A driver query about a stream by name, while it runs. */
typedef struct wm_named_query {
    warm_stream stream;
    struct wm_named_query *next;
} wm_named_query;

struct wm_arena_group;
typedef struct wm_timelines wm_timelines;

/* Callbacks of a runtime's timelines into the folders above. Called without a
 * lock. */
typedef struct wm_timeline_ops {
    /* Every queue has completed these PENDING blocks, chained by next_done;
     * a block with field stuck is to be leaked, one with captured retained. */
    void (*finish)(wm_block *chain);
    /* Moves the uses in threads' slots into their timelines: all uses of one
     * timeline, whose slots are detached; or, if timeline is null, all uses of
     * every thread with a use added at older_than or before. Returns whether a
     * thread's window was visited. */
    bool (*collect)(wm_timelines *set, wm_timeline *timeline,
                    uint64_t older_than);
    /* Logs, once, that finish() leaked blocks. */
    void (*report)(struct wm_arena_group *group);
} wm_timeline_ops;

struct wm_timelines {
    /* What hits read: a cache line in which nothing else is written. */
    _Alignas(64) warm_runtime *runtime;  /* const */
    wm_driver *driver;                   /* const */
    wm_event_pool *events;               /* const */
    const wm_timeline_ops *ops;          /* const, except for tests */
    size_t batch_count, batch_bytes_max; /* const: options */
    _Atomic size_t batch_bytes; /* a batch with as many is full; relaxed */
    uint64_t batch_ns;          /* const: a batch of this age is closed */
    /* Number of streams that are announced to capture, plus private pools for
     * graphs that record. Relaxed: a thread that records or frees on such a
     * stream synchronized with the announcing thread before. */
    _Atomic unsigned captures;
    _Atomic bool ending; /* relaxed: the runtime is being destroyed */
    /* The highest lane id (lane.h) whose stream was retired. Relaxed: a thread
     * that depends on a retirement synchronized with it (needs_no_record() in
     * stream_use.c). */
    _Alignas(64) _Atomic uint64_t retired;
    /* Slots in which threads hold uses for a timeline (pending.h). Relaxed: a
     * thread that must find another thread's free was synchronized with that
     * thread, and therefore sees its slot. */
    _Atomic size_t slots;
    /* Windows that polls visited since the count was last read. Relaxed: a
     * figure for the cost of polling. */
    _Atomic uint64_t visits;
    /* An adopted stream that was found capturing while no capture was known, or
     * null; the bytes of its batch; and whether that was logged. Relaxed: used
     * for one message. */
    _Atomic(warm_stream) unannounced;
    _Atomic size_t unannounced_bytes;
    _Atomic bool unannounced_logged;
    /* A thread's default stream was ever looked up. Relaxed: a thread that
     * looked up its own wrote it. */
    _Atomic bool any_per_thread;
    wm_lock lock;
    /* Events recorded for batches since the last round. Relaxed: an estimate.
     */
    _Atomic size_t recorded;
    /* lock timelines */
    wm_timeline *by_id[WM_TIMELINE_BUCKETS];   /* without retired streams */
    wm_timeline *by_name[WM_TIMELINE_BUCKETS]; /* the same; by the address */
    size_t count;                              /* timelines in the tables */
    wm_timeline *busy_head, *busy_tail;        /* with batches, or polled */
    _Atomic size_t busy; /* length of that list; relaxed, read without lock */
    /* Rounds of polling: begun, finished, and the last of every stream. */
    uint64_t begun, finished, complete;
    unsigned waiting; /* threads that wait to begin a round of every stream */
    wm_breaking *breaking;         /* driver calls that would break captures */
    wm_named_query *named_queries; /* of streams that are not announced */
    wm_cond driver_call_over;      /* one of these calls or queries has ended */
    wm_cond round_over;
    /* Each guards the use lists of some of the live blocks. */
    wm_lock uses[WM_USE_LOCKS];
};

void wm_timelines_init(wm_timelines *set, warm_runtime *runtime,
                       wm_event_pool *events, const wm_options *options,
                       const wm_timeline_ops *ops);
/* When a runtime is destroyed, after wm_timelines_forget() of all live blocks:
 * forget_entries() drops all entries and puts their events back into the pool;
 * fini() frees the timelines. */
void wm_timelines_forget_entries(wm_timelines *set);
void wm_timelines_fini(wm_timelines *set);

/* For tests: false if the records contradict each other. No other thread is
 * inside. */
bool wm_timelines_check(wm_timelines *set);

/* wm_driver_stream_info() for a stream that another thread may be about to
 * capture. A thread that announces the stream waits until the query is over; if
 * the stream is announced already, the driver is queried only for whether it
 * captures. */
warm_status wm_timelines_info(wm_timelines *set, warm_stream stream,
                              wm_stream_info *info);

/* Records that work on stream uses a LIVE block. owner: the calling thread's
 * cache allocated the block. On failure nothing changed. No driver call if the
 * stream is adopted and no capture is announced. Status: INVALID_STREAM,
 * DRIVER_ERROR, OUT_OF_MEMORY. */
warm_status wm_stream_record(wm_timelines *set, wm_block *block,
                             warm_stream stream, bool owner, bool *adopted);

/* Records all that was queued before on the adopted streams of a device (-1: of
 * all devices); on the calling thread's legacy default stream, which stands for
 * the streams that wait for it. A capture that is under way on such a stream is
 * no use of the block: the block waits for its end. Status as above, without
 * INVALID_STREAM; some streams may have been recorded then. */
warm_status wm_stream_record_adopted(wm_timelines *set, wm_block *block,
                                     int device);
warm_status wm_stream_record_default(wm_timelines *set, wm_block *block);

/* Result of preparing the uses of a FREEING block. */
enum wm_uses {
    WM_USES_NONE,    /* no stream uses the block any more */
    WM_USES_PENDING, /* the uses have to be published */
    WM_USES_LOST, /* the driver failed: it is unknown when the block is safe */
    WM_USES_CAPTURED /* a graph may use the block at any later time */
};

/* prepare() records an event for every use of a stream that is not adopted, and
 * may be destroyed at once; waits for a stream if the driver fails to record.
 * Unless the result is PENDING, prepare() has dropped the uses. publish() makes
 * the uses of a PENDING block entries of the timelines; the block may be idle,
 * or allocated by another thread, when it returns. forget() drops the uses of a
 * block that will not be freed any more. */
enum wm_uses wm_timelines_prepare(wm_timelines *set, wm_block *block);
void wm_timelines_publish(wm_timelines *set, wm_block *block);
/* A prepared block also waits for one call of wm_timelines_complete(), from any
 * thread, which completes as a queue does. */
static inline void wm_timelines_retain(wm_block *block)
{
    /* Relaxed: before publish(), the block is this thread's alone. */
    atomic_fetch_add_explicit(&block->queued, 1, memory_order_relaxed);
}
void wm_timelines_complete(wm_timelines *set, wm_block *block);
void wm_timelines_forget(wm_timelines *set, wm_block *block);
/* The uses of a block that the caller owns exclusively, including the stream
 * that its owner recorded (block->owner_stream); null: no stream was recorded.
 */
wm_stream_use *wm_block_detach_uses(wm_block *block);

/* poll() collects what completed before the call: it closes the open batches
 * and queries every queue with entries, or waits while another thread does.
 * Never waits for a stream. poll_queued() leaves the uses in threads' slots
 * where they are. */
void wm_timelines_poll(wm_timelines *set);
void wm_timelines_poll_queued(wm_timelines *set);
/* poll_queued() of the streams that were polled longest ago: half as many as
 * events were recorded since the last call, and a few. For growth that is free:
 * few of a thousand streams have completed anything since the last miss, and
 * all of them would be queried ten times for each free
 * (tests/bench/PROFILE.md).
 */
enum { WM_POLLS_LEAST = 32 };
void wm_timelines_poll_due(wm_timelines *set);
/* Whether a timeline became busy and no round has queried it since. */
bool wm_timelines_unasked(wm_timelines *set);

/* Polls at most count timelines, the one that was polled longest ago first, and
 * closes a batch only if it is old or has WM_BATCH_RIPE uses. Skips timelines
 * that were polled with the same now, the current time. poll_for(): skips
 * timelines for which threads hold uses and which were polled within the last
 * millisecond, if their last blocks went to another arena than this one of the
 * caller's, since the blocks of this poll would go there too; with steady,
 * whichever the arena, since those threads reuse their blocks themselves. */
void wm_timelines_poll_some(wm_timelines *set, size_t count, uint64_t now);
void wm_timelines_poll_for(wm_timelines *set, size_t count,
                           const struct wm_arena *arena, bool steady,
                           uint64_t now);
/* busy(): number of timelines with entries. any(): there are some, or entries
 * may wait in a thread's slot; else a poll finds nothing. */
static inline size_t wm_timelines_busy(const wm_timelines *set)
{
    return atomic_load_explicit(&set->busy, memory_order_relaxed);
}
bool wm_timelines_any(wm_timelines *set);

/* The calling thread releases the runtime, or exits. Records the missing events
 * on its per-thread default streams, since no other thread can name them. If
 * the thread exits, their announced captures end, and blocks without an event
 * are lost. True: blocks still wait for an event, or a capture is announced,
 * and the thread does not exit. Calls the driver. */
bool wm_timelines_leave_thread(wm_timelines *set, bool exits);

/* close_old(): closes the batches that were opened at older_than
 * (wm_clock_ns()) or before, except batches that another thread is closing.
 * tend(): housekeeping of a background thread: closes batches older than
 * batch_ms, and polls every timeline once. */
void wm_timelines_close_old(wm_timelines *set, uint64_t older_than);
void wm_timelines_tend(wm_timelines *set);

/* The stream was looked up as info. adopt(): it is no default stream, and lives
 * until it is retired. Status: OUT_OF_MEMORY. retire(): it is about to be
 * destroyed: its final event is recorded and stands for its uses, and the
 * stream is not adopted any more. */
warm_status wm_timelines_adopt(wm_timelines *set, warm_stream stream,
                               const wm_stream_info *info);
void wm_timelines_retire(wm_timelines *set, warm_stream stream,
                         const wm_stream_info *info);

/* announce(): a capture of the stream, looked up as info, is about to begin;
 * *already: the stream was announced before. Status: OUT_OF_MEMORY. over(): the
 * capture has ended; false: the stream was not announced. In between the driver
 * is queried at every use and free. */
warm_status wm_timelines_announce(wm_timelines *set, warm_stream stream,
                                  const wm_stream_info *info, bool *already);
bool wm_timelines_over(wm_timelines *set, warm_stream stream);

/* Whether what was looked up of the stream before the call, and after the
 * runtime's stream_epoch was read, holds until that changes: the stream is
 * adopted and no capture is known, or it is the legacy stream, which never ends
 * and never captures. Calls no driver. */
bool wm_timelines_knows(wm_timelines *set, warm_stream stream);

/* Between begin and end any stream may capture, announced or not.
 * begin_recording(): a private pool for graphs records; all open batches get
 * their events first. begin_found(): a stream was found capturing without an
 * announcement; batches stay as they are. */
void wm_timelines_begin_recording(wm_timelines *set);
static inline size_t wm_timelines_batch_bytes(const wm_timelines *set)
{
    return atomic_load_explicit(&set->batch_bytes, memory_order_relaxed);
}

static inline void wm_timelines_begin_found(wm_timelines *set)
{
    atomic_fetch_add_explicit(&set->captures, 1, memory_order_relaxed);
}

static inline void wm_timelines_end_recording(wm_timelines *set)
{
    atomic_fetch_sub_explicit(&set->captures, 1, memory_order_relaxed);
}

/* Whether driver memory must not be freed now, since graphs are being captured
 * as far as the program has announced. While a runtime is being destroyed
 * announced captures do not count: they may be over. */
static inline bool wm_timelines_holds_back(wm_timelines *set)
{
    return atomic_load_explicit(&set->captures, memory_order_relaxed) != 0 &&
           !atomic_load_explicit(&set->ending, memory_order_relaxed);
}

static inline void wm_timelines_set_ending(wm_timelines *set)
{
    atomic_store_explicit(&set->ending, true, memory_order_relaxed);
}

/* Brackets a driver call that breaks captures of a device (negative: of all
 * devices), in whichever thread it is made. begin returns false, and the call
 * must not be made, if a capture is known to be under way on another stream
 * than except (null: on any stream): the stream is announced, a private pool
 * records, or the driver reports that a stream which may be queried captures; a
 * query that fails counts as yes, see wm_timelines_refuse().
 *
 * If the driver's calls break captures, a thread that announces a capture
 * meanwhile waits for the end of the call, unless the calling thread is in a
 * callback of the program. Callbacks therefore come after the last such call,
 * or the thread begins again. No lock held. announced false: only the driver's
 * reports count. */
bool wm_timelines_begin_break(wm_timelines *set, wm_breaking *breaking,
                              int device, warm_stream except, bool announced);
void wm_timelines_end_break(wm_timelines *set, wm_breaking *breaking);
/* Fails for a caller whose begin returned false: with CAPTURE_ERROR, or, if the
 * driver could not report whether a stream captures, as the driver did; with
 * CAPTURE_ERROR also for an empty one. what: "memory cannot be freed". */
warm_status wm_timelines_refuse(const wm_breaking *breaking, const char *what);
/* True if the driver reports that any of the streams that may be queried
 * captures, or a query fails: then *why (null: not wanted) is the reason.
 * Leaves the last error alone. */
bool wm_timelines_ask(wm_timelines *set, int device, warm_stream except,
                      warm_error *why);

/* The name of an adopted stream that was found capturing while no capture was
 * known; once in the life of the set, else null. */
warm_stream wm_timelines_unannounced(wm_timelines *set, size_t *bytes);

/* The lane_id of blocks that are allocated in the order of a stream; never 0. A
 * use on that stream need not be recorded. */
static inline uint64_t wm_timeline_lane_id(uint64_t stream_id)
{
    return stream_id + 1;
}

static inline uint64_t wm_timeline_stream_id(uint64_t lane_id)
{
    return lane_id - 1;
}

/* Number of streams recorded on a LIVE block, without dropped ones. */
unsigned wm_timelines_streams(wm_timelines *set, wm_block *block);

#endif
