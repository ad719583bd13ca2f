/* timeline.h: freed, but not yet safe (rows B3 to B7).
 *
 *   block ──uses──► use ──► timeline of stream 7   open: use, use, use
 *               │                                  queue: [use, use] → [use]
 *               └─► use ──► timeline of stream 9   queue: [use] → [use]
 *
 * One timeline a stream, found by the driver's stream id. While a block is
 * LIVE its uses name the streams that were recorded on it. Once freed they are
 * entries of the timelines' queues, each behind an event; the block is idle
 * again once every queue has let go of it. Queues are asked oldest first, so
 * that a stuck stream holds up only its own blocks.
 *
 * A stream that was *adopted* lives until it is retired, and tells of its
 * captures. It is known by its address, without a call to the driver, and the
 * uses of blocks that are freed gather in its open batch: one event for all of
 * them, recorded when the batch closes (it is full, old, or memory is wanted),
 * and only then is the batch in the queue. Any other stream may be gone right
 * after the free: its event is recorded there, a batch of one.
 *
 * A stream that was retired leaves one final event behind, which stands for
 * all of its uses. The event is recorded before the batch is in the queue: a
 * query can never see an older state of it. Where many streams were recorded on
 * a block while it is LIVE, uses of those that retired and whose final event
 * has passed are dropped now and then.
 *
 * Locks: TIMELINES for the tables and the busy list, TIMELINE for one stream's
 * batches, USES for the lists of live blocks; none across a driver call. One
 * thread at a time takes a round of polling; who comes meanwhile waits for the
 * next round, so that a call returns when all that had passed before it is
 * back. */
#ifndef WM_TIMELINE_H
#define WM_TIMELINE_H

#include "alloc/block/block.h"
#include "runtime/base/lock.h"
#include "runtime/driver/event_pool.h"
#include "runtime/thread/control.h"

enum { WM_TIMELINE_BUCKETS = 256 };
enum { WM_USE_LOCKS = 8 }; /* a power of two */

/* Frees that are worth an event, or a question: whoever misses may wait for
 * them. */
enum { WM_BATCH_RIPE = 8 };

/* Uses freed and not yet behind an event. */
typedef struct wm_batch {
    wm_stream_use *first, *last;
    size_t count, bytes;
    uint64_t since_ns; /* when the first one came */
    bool due;          /* while it closes: as wm_timeline_begin_record() says */
} wm_batch;

/* A thread that asks the driver about a stream by its name. */
typedef struct wm_naming {
    warm_stream stream;
    struct wm_naming *next;
} wm_naming;

struct wm_arena_group;
typedef struct wm_timelines wm_timelines;

/* What the floors above do for the timelines of a runtime. No lock held. */
typedef struct wm_timeline_ops {
    /* The last queue has let go of PENDING blocks, chained by next_done; stuck
     * and captured tell what became of each. */
    void (*finish)(wm_block *chain);
    /* Brings what threads have gathered for a timeline (null: for any) into it;
     * false: only what was gathered at older_than or before. */
    bool (*collect)(wm_timelines *set, wm_timeline *timeline,
                    uint64_t older_than);
    /* Logs what finish() found that is kept for ever, once. */
    void (*report)(struct wm_arena_group *group);
} wm_timeline_ops;

struct wm_timelines {
    /* What hits read: a line, in which nothing else is written. */
    _Alignas(64) warm_runtime *runtime; /* const */
    wm_driver *driver;                  /* const */
    wm_event_pool *events;              /* const */
    const wm_timeline_ops *ops;         /* const, but for tests */
    size_t batch_count, batch_bytes;    /* const: a batch of these is full */
    uint64_t batch_ns;                  /* const: one of this age is closed */
    /* Streams announced to capture, and private pools for graphs that are
     * recording. Relaxed: a thread that records or frees on such a stream
     * learnt of its capture from the thread that announced it. */
    _Atomic unsigned captures;
    _Atomic bool ending; /* relaxed: the runtime ends, announced or not */
    /* The highest of the lanes (lane.h) whose streams were retired. Relaxed:
     * see is_own() in stream_use.c. */
    _Alignas(64) _Atomic uint64_t retired;
    /* Of threads, that gather (pending.h). Relaxed: who must find what another
     * one freed was told of that, and so of its slot. */
    _Atomic size_t slots;
    /* Relaxed: windows that polls have visited since somebody took the number,
     * to count what they cost. */
    _Atomic uint64_t visits;
    /* An adopted stream that was found capturing while no capture was known, or
     * null; and whether that was logged. Relaxed: for a message. */
    _Atomic(warm_stream) unannounced;
    _Atomic size_t unannounced_bytes;
    _Atomic bool said;
    wm_lock lock;
    /* lock timelines */
    wm_timeline *bucket[WM_TIMELINE_BUCKETS];  /* by id; not the retired */
    wm_timeline *adopted[WM_TIMELINE_BUCKETS]; /* of these, by address */
    wm_timeline *busy_head, *busy_tail;        /* with batches, or polled */
    size_t busy;                               /* how many those are */
    size_t count;                              /* in the table */
    uint64_t begun, finished;                  /* rounds of polling */
    uint64_t announcements;
    wm_breaking *breaking; /* calls under way that would break captures */
    wm_naming *naming;     /* of streams of which none was announced */
    wm_cond unbroken;      /* one of those is over */
    wm_cond round_over;
    /* Of the lists of live blocks' uses, each of some of the blocks. */
    wm_lock uses[WM_USE_LOCKS];
};

void wm_timelines_init(wm_timelines *set, warm_runtime *runtime,
                       wm_event_pool *events, const wm_options *options,
                       const wm_timeline_ops *ops);
/* At the end of a runtime: forgets all entries, whose events go back to the
 * pool; then the timelines. The uses of live blocks were forgotten before. */
void wm_timelines_forget_entries(wm_timelines *set);
void wm_timelines_fini(wm_timelines *set);

/* wm_driver_stream_info(), for a stream that another thread may be about to
 * capture: who announces that waits for the answer, and what is announced is
 * asked only whether it captures. */
warm_status wm_timelines_info(wm_timelines *set, warm_stream stream,
                              wm_stream_info *info);

/* Records that work on stream uses a LIVE block, which the calling thread owns
 * (it was handed the block by its own cache) or not. On failure nothing
 * changed. No driver call if the stream is adopted and no capture is announced.
 * Status: INVALID_STREAM, DRIVER_ERROR, OUT_OF_MEMORY. */
warm_status wm_stream_record(wm_timelines *set, wm_block *block,
                             warm_stream stream, bool owner, bool *adopted);

/* What the uses of a FREEING block come to. */
enum wm_uses {
    WM_USES_NONE,    /* nothing is queued on it any more */
    WM_USES_PENDING, /* to be published */
    WM_USES_LOST,    /* the driver could not say when it is safe */
    WM_USES_CAPTURED /* a graph uses it, at any later time */
};

/* Records an event for every use of a stream that may go at once. Unless the
 * answer is PENDING the uses are gone afterwards. May wait for a stream if the
 * driver fails to record. */
enum wm_uses wm_timelines_prepare(wm_timelines *set, wm_block *block);

/* Makes the uses of a PENDING block entries. The block may be idle, and with
 * somebody else, when this returns. */
void wm_timelines_publish(wm_timelines *set, wm_block *block);

/* The uses of a block that is the caller's alone, with what stands apart as
 * long as it is LIVE: null only if there are none. */
wm_stream_use *wm_block_detach_uses(wm_block *block);

/* Drops the uses of a block that nobody will free any more. */
void wm_timelines_forget(wm_timelines *set, wm_block *block);

/* Takes back what had passed when the call began: closes the open batches and
 * asks every queue with entries, or waits while another thread does. Never
 * waits for a stream. Queued: but for what threads have gathered. */
void wm_timelines_poll(wm_timelines *set);
void wm_timelines_poll_queued(wm_timelines *set);
/* Whether a queue has entries that none of those has asked for since the first
 * came. */
bool wm_timelines_unasked(wm_timelines *set);

/* Asks at most count queues, the one asked longest ago first, and closes
 * batches only that are old, or worth their event by what is in them. now: the
 * time; where it is that of an earlier call nobody is asked again. arena: of
 * who misses, or null: that of a thread of another one is left out if that has
 * been asked just before, whose blocks would come back there. steady: that of
 * any thread, which would miss them. */
void wm_timelines_poll_some(wm_timelines *set, unsigned count,
                            const struct wm_arena *arena, bool steady,
                            uint64_t now);
/* Whether anything waits in a timeline, or may in a thread's slot. If not a
 * poll finds nothing. */
bool wm_timelines_any(wm_timelines *set);

/* What a thread does that has time: closes batches older than option batch_ms,
 * and asks every queue once. */
void wm_timelines_tend(wm_timelines *set);

/* Closes the batches that were opened at older_than (wm_clock_ns()) or before,
 * but for some that another thread is about to. */
void wm_timelines_close_old(wm_timelines *set, uint64_t older_than);

/* The stream, not a default one and looked at as info, lives until it is
 * retired. Status: OUT_OF_MEMORY. */
warm_status wm_timelines_adopt(wm_timelines *set, warm_stream stream,
                               const wm_stream_info *info);

/* The stream will be destroyed: from now on its final event counts, and it is
 * adopted no more. */
void wm_timelines_retire(wm_timelines *set, warm_stream stream,
                         const wm_stream_info *info);

/* A capture will begin on the stream, looked at as info; it has ended. Until
 * then the driver is asked at every use and free. Status: OUT_OF_MEMORY.
 * *already: written on success: it was announced before.
 * over: false if none was announced. */
warm_status wm_timelines_announce(wm_timelines *set, warm_stream stream,
                                  const wm_stream_info *info, bool *already);
bool wm_timelines_over(wm_timelines *set, warm_stream stream);

/* Some stream may capture, announced or not, and does no more: a private pool
 * for graphs records, or, without the frees of before getting their events, a
 * stream that nobody announced was found to. */
void wm_timelines_begin_recording(wm_timelines *set);
void wm_timelines_begin_found(wm_timelines *set);
void wm_timelines_end_recording(wm_timelines *set);
/* Whether driver memory must not be given back now: graphs are being captured,
 * as far as anybody has said. At the end of a runtime what was announced may be
 * over, and does not count. */
static inline bool wm_timelines_holds_back(wm_timelines *set)
{
    return atomic_load_explicit(&set->captures, memory_order_relaxed) != 0 &&
           !atomic_load_explicit(&set->ending, memory_order_relaxed);
}

static inline void wm_timelines_set_ending(wm_timelines *set)
{
    atomic_store_explicit(&set->ending, true, memory_order_relaxed);
}

/* Before and after a call that breaks captures of a device (negative: of all),
 * whichever thread makes it. False, and not begun: one is known to be under way
 * there, of another stream than but (null: of any): announced, or perhaps by a
 * private pool that records, or the driver says so of a stream that may be
 * asked; no answer counts as yes. One that is announced in between waits for
 * the end of the call, where the driver's calls break captures, but not while
 * the thread is in a callback of the program: so callbacks come after the last
 * call, or the thread asks again. No lock held.
 * announced: false: only what the driver says counts. */
bool wm_timelines_begin_break(wm_timelines *set, wm_breaking *breaking,
                              int device, warm_stream but, bool announced);
void wm_timelines_end_break(wm_timelines *set, wm_breaking *breaking);
/* Whether the driver says that a stream which may be asked captures. */
bool wm_timelines_ask(wm_timelines *set, int device, warm_stream but);

/* The name of an adopted stream that was found capturing while no capture was
 * known, once in the life of the set; else null. */
warm_stream wm_timelines_unannounced(wm_timelines *set, size_t *bytes);

/* The lane_id of blocks that are allocated in the order of a stream; never 0.
 * A use on that very stream need not be recorded. */
static inline uint64_t wm_timeline_lane_id(uint64_t stream_id)
{
    return stream_id + 1;
}

static inline uint64_t wm_timeline_stream_id(uint64_t lane_id)
{
    return lane_id - 1;
}

/* The timeline of a stream, with a reference, for who wants to know later what
 * it has passed. *captured: the stream captures now; then the timeline is null
 * unless the stream is adopted. No driver call if it is, and no capture is
 * announced.
 * Status: INVALID_STREAM, OUT_OF_MEMORY, DRIVER_ERROR. */
warm_status wm_timeline_lookup(wm_timelines *set, warm_stream stream,
                               wm_timeline **timeline, bool *captured);
/* Records on an adopted stream. False: it is retired, captures, or the driver
 * did not. */
bool wm_timelines_mark_point(wm_timelines *set, wm_timeline *timeline,
                             warm_event event);
/* Lets any stream wait for an event. False: it is retired, captures, or the
 * driver did not. Who retires it meanwhile waits for that. */
bool wm_timelines_wait_point(wm_timelines *set, wm_timeline *timeline,
                             warm_event event);
/* Waits for the end of a stream that was retired. False: it was not, or nobody
 * knows. */
bool wm_timelines_await_end(wm_timelines *set, wm_timeline *timeline);
void wm_timeline_put(wm_timelines *set, wm_timeline *timeline);
/* How many have entries; the first of them with a reference, now the last. */
size_t wm_timelines_busy(wm_timelines *set);
wm_timeline *wm_timeline_rotate(wm_timelines *set);
uint64_t wm_timeline_id(const wm_timeline *timeline);
/* WM_DEVICE_UNKNOWN: it was first met while it captured. */
int wm_timeline_device(const wm_timeline *timeline);
/* The stream is adopted, and not retired. It may be a moment later. */
bool wm_timeline_lives(wm_timeline *timeline);
/* And nobody captures: until the runtime's stream_epoch changes it stays so. */
bool wm_timeline_is_known(wm_timelines *set, wm_timeline *timeline);
/* The only use of a PENDING block is that of the timeline, whether it is
 * retired or not: for prepare and publish. */
void wm_timelines_use_known(wm_block *block, wm_timeline *timeline);

/* Streams recorded on a LIVE block, but for those that were dropped. */
unsigned wm_timelines_streams(wm_timelines *set, wm_block *block);

/* For tests: timelines in the table. */
size_t wm_timelines_count(wm_timelines *set);

#endif
