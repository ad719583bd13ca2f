/* space.h: a kind of memory: its arenas, and how segments are obtained from the
 * driver and returned.
 *
 * An allocation that the thread's cache cannot serve tries these sources in
 * order until one has a block (the table in ladder.c):
 *
 *   idle blocks            of the thread's cache, refilled from its arena
 *   completed blocks       that this thread freed, then of a few streams
 *   sibling arenas         an idle segment moves over, or a block is allocated
 *   completed blocks       of all streams; then the siblings once more
 *
 *   and only if the space would then hold more than its bound (economy.h):
 *   larger cached blocks   split; of a stream's lane: adjacent ones merged
 *   all threads' frees     that are batched, once their streams completed them
 *   other threads' caches  flushed: half of each, then all
 *   oversize segments      that were obtained for one large request, unless
 *                          growth returns them: idle, for a small request
 *   other streams' memory  the stream waits for them
 *
 *   and above a low watermark, what completes; what is idle is returned
 *
 *   the driver             a segment, for which idle ones are returned above
 *                          the bound; if refused those of the node are;
 *                          other nodes; idle segments of all are returned
 *   all threads' caches    flushed, whatever that costs; the driver again
 *   other spaces           with the same limit return what is idle
 *   other streams' memory  once more, at any bound
 *   the user's callbacks   free something; the driver again
 *   the limit              the request waits while frees are under way
 *   out of memory
 *
 * No lock is held across a driver call. The functions below free and record
 * blocks of every space: they find the space through the block. */
#ifndef WM_SPACE_H
#define WM_SPACE_H

#include "alloc/arena/group.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/stream/timeline.h"
#include "runtime/base/budget.h"
#include "runtime/thread/runtime_body.h"
#include "warmpool/memory.h"
#include "warmpool/pressure.h"

#include <pthread.h>

struct wm_space;

/* ---- the background thread ---------------------------------------------- */

/* The thread of a runtime that does work which allocations should not wait for
 * (rows B10 and B17).
 *
 *   always         prewarm jobs: one region after another
 *   background:on  batches of frees older than batch_ms are closed
 *                  frees whose streams have completed become idle
 *                  reserve_bytes of idle memory are obtained once short
 *                  segments idle for decay_ms are returned
 *
 *                  idle memory is returned above a low watermark, and when the
 *                  kernel reports that memory is short (pressure.c)
 *
 * The thread starts with the runtime if option background is on, else with the
 * first prewarm job. While blocks are pending it polls, at intervals that
 * double from 50 us to 10 ms as long as none completes. With nothing to do it
 * sleeps until it is woken; while memory is held it wakes once a second, or per
 * decay_ms. It is woken by a free that leaves a block pending,
 * an allocation that finds the reserve short, a prewarm job, and a growth: each
 * costs these callers a relaxed load while the thread is awake.
 *
 * The thread holds no lock while it calls the driver, sets its own capture
 * mode, blocks all signals, and is joined when the runtime ends. A forked child
 * has no such thread; once the process exits the thread sleeps. */

/* The idle memory wanted on one node; lock background. */
typedef struct wm_prewarm_job {
    size_t bytes;    /* 0: no job */
    size_t obtained; /* bytes obtained for it */
    size_t reported; /* bytes of it counted in wm_background.obtained */
    size_t told;     /* bytes that its callback was told of */
    uint64_t due_ns; /* not before: the job pauses */
    warm_prewarm_options how;
    uint64_t number; /* distinguishes a job from an earlier, cancelled one */
} wm_prewarm_job;

/* Embedded in a space; only the page-locked space's is begun. Fields belong to
 * background.c. */
typedef struct wm_background {
    /* Read by hits: this cache line is rarely written. */
    _Alignas(64) struct wm_space *space; /* const */
    bool on;                             /* const: option background */
    size_t reserve_bytes;                /* const: idle bytes wanted, if on */
    int reserve_node;                    /* const */
    _Atomic uint64_t retry_ns; /* earliest next attempt after the driver, or a
                                  limit, refused the reserve */
    uint64_t retry_pause; /* the thread's: the last pause before one, or 0 */
    wm_waker waker;       /* signalled to wake the thread or stop it */
    wm_cond over;         /* a round ended, or the last prewarm job */
    /* Lock of the waker: */
    bool started, stop;
    uint64_t rounds;            /* completed */
    uint64_t wakes;             /* ends of a sleep */
    struct wm_prewarm_job *job; /* for each node; the array is const */
    bool obtaining;             /* the thread is obtaining memory for a job */
    uint64_t wanted, obtained;  /* bytes: progress of the jobs */
    uint64_t cancels;           /* how often prewarming was cancelled */
    warm_error failure;         /* the first since the last report */
    pthread_t thread;           /* const once started */
} wm_background;

/* Starts the thread if option background is on; else obtains the reserve now.
 * The rest of the runtime is ready. Status: OUT_OF_MEMORY, or another of the
 * driver's. */
warm_status wm_background_begin(wm_background *b);
/* Cancels the prewarm jobs, ends the thread and joins it. */
void wm_background_stop(wm_background *b);

/* Obtains idle memory ahead of demand, until bytes are idle on the node: in
 * regions of at most option pin_chunk, so that no call of the driver page-locks
 * gigabytes; no lock is held between two. The message of a failure includes the
 * idle bytes. how: checked and whole; no flag is read. Status: also NOT_READY
 * (cancelled). */
warm_status wm_prewarm_now(struct wm_space *space, int node, size_t bytes,
                           const warm_prewarm_options *how);
/* Queues such a job for the background thread. Status: OUT_OF_MEMORY (no thread
 * could be started), INVALID_ARGUMENT (the node's job has a callback, and so
 * has this one). */
warm_status wm_prewarm_queue(wm_background *b, int node, size_t bytes,
                             const warm_prewarm_options *how);
/* Waits for all jobs; returns the first failure since the last call. */
warm_status wm_prewarm_await(wm_background *b);
void wm_prewarm_cancel_locked(wm_background *b);

/* For tests: how often the thread woke; whether there is a job. */
uint64_t wm_background_wakes(wm_background *b);
bool wm_prewarm_has_jobs_locked(const wm_background *b);

/* ---- growth ------------------------------------------------------------- */

/* How a space obtains memory from the driver and returns it (rows B9, B11,
 * B12).
 *
 * Each call of the driver in flight is a record in a list under lock growth;
 * the driver itself is called with no lock held:
 *
 *   thread 1  needs 1, grows by 4  ──────► driver            room 3
 *   thread 2  needs 2: claims room, waits                    room 1
 *   thread 3  needs 9: no room, grows on its own ──────────► driver
 *   thread 4  trims: its segments are returned ────────────► driver
 *   thread 5  hits, frees, polls: does not wait
 *
 * A thread that waited for a growth retries its allocation when that growth
 * completes, and grows only if the memory does not suffice. If a request is
 * refused while another call returns memory to the driver, or holds room under
 * the limit that it may not use, the request waits for that call: out of memory
 * is reported only if no call in flight could change it.
 *
 * Warnings are logged by a thread for which no other thread waits: the user's
 * log function may allocate. */
struct wm_growth_call;
struct wm_grow_request;

/* Failures of the driver that are not logged yet. */
typedef struct wm_deferred_warning {
    size_t refused;    /* bytes that the driver refused to free */
    size_t unrecorded; /* bytes not returned that have no record: leaked */
    warm_error cause;  /* the last error of the first kind */
} wm_deferred_warning;

/* Embedded in a space. Fields: lock growth. */
typedef struct wm_growth {
    wm_lock lock;
    wm_cond over; /* a call ended; making_room was cleared; a request left the
                     line; a claim ended */
    struct wm_growth_call *calls; /* in flight */
    uint64_t begun;    /* calls begun so far: the number of the last */
    size_t coming;     /* bytes requested from the driver, not obtained yet */
    size_t held;       /* bytes obtained and not returned */
    size_t peak;       /* maximum of held */
    size_t lost;       /* part of held: regions without a record in an arena */
    size_t paused;     /* of segments that are unmapped; not part of held */
    uint64_t gained;   /* calls that freed or added memory: a refused request
                        * may retry */
    uint64_t vacated;  /* calls that failed and left room under the limit */
    bool lost_counted; /* its device was reset, and its limiter has forgotten
                          its memory */
    /* Idle memory could not be returned because a stream captures. Relaxed: for
     * messages. */
    _Atomic bool return_deferred;
    struct wm_limit_wait *line; /* of the limiter: requests that wait at the
                                   limit, the oldest first (limit.c) */
    bool making_room; /* of the limiter: a thread returns idle memory */
    wm_deferred_warning warning;
    struct wm_released *released; /* for memory callbacks, the newest first */
    unsigned log; /* const: of enum wm_log_memory, what is counted below */
    size_t grown, returned; /* bytes that option log_memory has not logged */
    wm_histogram waits; /* of threads for calls of others, and at the limit */
} wm_growth;

/* The bytes held, and their maximum, of all arenas, since the last reset. */
size_t wm_growth_held(wm_growth *growth);

/* Returns idle segments of an arena and its siblings or (null) of all arenas,
 * the largest first, until at most target bytes are held. A segment that the
 * driver refused to free is tried last, in this call and later ones. Returns
 * the bytes that the driver freed. */
size_t wm_growth_give_back(struct wm_space *space, wm_arena *arena,
                           size_t target);
/* Returns the segments of an arena and its siblings that are idle longest,
 * until bytes are returned, and if most is not 0 at most so many; returns how
 * many were. The caller logs warnings. */
size_t wm_growth_collect(struct wm_space *space, wm_arena *arena, size_t bytes,
                         size_t most);
/* Unmaps a segment of a paused arena, which then counts as paused and no longer
 * as held; and maps it again, with any contents. Status of unmap: CAPTURE_ERROR
 * (a capture is known), the driver's; of map: OUT_OF_MEMORY (also if a
 * watermark leaves no room), another of the driver's. Nothing has changed then;
 * but if *torn the segment may be mapped, and a later map() of it unmaps that
 * first. No lock held. */
warm_status wm_growth_unmap(struct wm_space *space, const wm_segment *segment);
warm_status wm_growth_map(struct wm_space *space, const wm_segment *segment,
                          bool *torn);
/* Returns the addresses of an unmapped segment and ends it, if all of it is
 * idle by now; else false. */
bool wm_growth_drop_unmapped(struct wm_space *space, wm_segment *segment);

/* ---- the operations of a kind of memory --------------------------------- */

/* The operations and properties of a kind of memory. */
typedef struct wm_space_traits {
    const char *name; /* "pinned" */
    /* *piece: obtains the region in pieces of so many bytes (wm_pin_obtain()),
     * or 0; set to 0 if the region was not cut. pieced: returns one such piece.
     * Only if group.piece_bytes is set. */
    warm_status (*obtain)(struct wm_space *space, const wm_arena *arena,
                          size_t bytes, size_t *piece, void **base);
    warm_status (*give_back)(struct wm_space *space, const wm_arena *arena,
                             void *base, size_t bytes, bool pieced);
    /* Called after a block of the segment became idle; another thread may have
     * allocated it again. May be null. No lock held. */
    void (*freed)(struct wm_space *space, wm_segment *segment);
    /* Whether users hold a FREEING block (kinds/shared.h): then it becomes
     * PENDING until wm_timelines_complete(), which may be called once
     * retained() was. Both may be null. No lock held. */
    bool (*is_retained)(struct wm_space *space, const wm_block *block);
    void (*retained)(struct wm_space *space, const wm_block *block);
    /* Frees what users have released since it was freed; returns the bytes. May
     * be null. No lock held. */
    size_t (*collect)(struct wm_space *space);
    /* Makes idle memory of other streams safe for a request that missed: its
     * stream waits for one that has room, else for several. Returns whether it
     * made any memory safe. May be null. No lock held. */
    bool (*share)(struct wm_space *space, const wm_request *request);
    /* Writes what the driver reports about its memory, for the message of a
     * refused request: part of a sentence after ", ". May be null. */
    void (*describe)(struct wm_space *space, char *text, size_t bytes);
    /* Bytes that it holds and that have no pages yet, so that the kernel counts
     * them as available. May be null: none. No lock held. */
    size_t (*untouched)(struct wm_space *space);
    bool touchable; /* the host may read and write idle memory at any time */
    bool nodeless;  /* its memory has no NUMA node */
    bool uncached;  /* threads do not cache its blocks; one arena for all */
    bool laned;     /* idle memory belongs to the lane of a stream */
} wm_space_traits;

/* ---- watermarks ---------------------------------------------------------- */

/* A watermark as it was set: a ratio of the recommended maximum, or (0)
 * bytes. */
typedef struct wm_watermark_set {
    double ratio;
    size_t bytes;
} wm_watermark_set;

/* The watermarks of memory that counts together (row F7), in bytes; 0: none.
 * Relaxed: set at any time. */
typedef struct wm_watermarks {
    _Atomic size_t high; /* no more is obtained */
    _Atomic size_t low;  /* above it idle memory is returned before a growth */
    /* Lock growth: what they are computed of. */
    wm_watermark_set high_set, low_set;
} wm_watermarks;

/* All memory of a runtime; of the space that polls the others. */
typedef struct wm_whole {
    wm_watermarks marks;
    /* Held, being obtained, and claimed. Relaxed: it is compared with the
     * watermarks alone. */
    _Atomic size_t taken;
} wm_whole;

/* How short the host's memory is (pressure.c); of the space that polls the
 * others. */
typedef struct wm_pressure {
    const char *root;         /* before the paths that are read; tests set it */
    _Atomic uint64_t read_ns; /* when the watermarks were last computed */
    _Atomic uint64_t pause_ns;  /* between two looks at the kernel's counts;
                                   tests set it */
    _Atomic uint64_t looked_ns; /* when the last look at them ended; UINT64_MAX:
                                   a thread looks, which has watch for itself */
    wm_budget_watch watch;
} wm_pressure;

/* ---- a space ------------------------------------------------------------ */

typedef struct wm_space {
    wm_arena_group group;          /* first: an arena leads to its space */
    const wm_space_traits *traits; /* const */
    wm_driver *driver;             /* const */
    size_t chunk_bytes;            /* const: most obtained ahead at once */
    wm_watermarks marks;           /* of a limiter */
    wm_whole whole;                /* of the poller, as is pressure */
    wm_pressure pressure;
    size_t beside_bytes; /* lock growth: bytes that count toward the watermarks
                            and are not the space's: of workspaces, and of other
                            spaces whose limiter it is */
    uint64_t limit_wait_ns;   /* const: a refused request waits so long */
    uint64_t decay_ns;        /* const: age of segments to return; 0: none */
    _Atomic uint64_t aged_ns; /* time of the last flush of unused caches */
    /* When a miss next returns idle segments, since a growth passed a low
     * watermark; 0: none does. */
    _Atomic uint64_t shrink_ns;
    /* A leaked block was logged: the driver cannot tell whether it is in use;
     * or a graph may use it. */
    _Atomic bool lost_logged, captured_logged;
    _Atomic size_t lost; /* bytes that a timeline leaked, to be logged */
    wm_growth growth;
    wm_background background;
    /* const: the space whose background thread polls this one */
    struct wm_space *poller;
    /* const: a space that the background thread of this one polls as well, or
     * null */
    struct wm_space *beside;
    /* const: memory of the program that serves requests before this space
     * grows (kinds/adopt.h), or null */
    struct wm_space *adopted;
    /* const after the runtime is made: the space whose watermarks count this
     * one's memory, itself or another one; and of such a space all whose memory
     * it counts, itself the first; and of the poller all spaces (limit.c). */
    struct wm_space *limiter;
    struct wm_space *const *fellows, *const *all;
    size_t fellow_count, all_count;
} wm_space;

/* Held, being obtained, and claimed: what a limiter's watermarks count. */
static inline size_t wm_taken_locked(const wm_space *space)
{
    return space->growth.held + space->growth.coming + space->beside_bytes;
}

/* The same of all memory. Relaxed: a count. */
static inline size_t wm_whole_taken(const wm_whole *whole)
{
    return atomic_load_explicit(&whole->taken, memory_order_relaxed);
}

static inline wm_space *wm_space_of(const wm_block *block)
{
    return (wm_space *)block->segment->arena->group;
}

/* Relaxed, here and below: watermarks are set at any time. */
static inline size_t wm_high_bytes(const wm_watermarks *marks)
{
    return atomic_load_explicit(&marks->high, memory_order_relaxed);
}

static inline size_t wm_low_bytes(const wm_watermarks *marks)
{
    return atomic_load_explicit(&marks->low, memory_order_relaxed);
}

/* The memory ended with the context of a device that was reset (row A17). The
 * records stay, since users may free their blocks; only blocks that threads
 * have cached are still allocated, and nothing is returned to the driver. */
static inline bool wm_space_is_lost(const wm_space *space)
{
    return wm_driver_is_lost(space->driver, space->group.device);
}

/* Makes idle memory of pieces that cannot be returned, since a stream captures:
 * those that were locked before a piece of the same region was refused. False:
 * there is no memory for their records. No lock held. */
bool wm_growth_keep(wm_space *space, int node, void *base, size_t bytes,
                    size_t piece);

/* wm_timelines_begin_break() for a call that returns the space's memory or
 * waits for its device. While the runtime is destroyed, announced captures do
 * not count, since they may be over; captures that the driver reports do. */
static inline bool wm_space_begin_break(wm_space *space, wm_breaking *breaking)
{
    wm_timelines *timelines = space->group.timelines;
    bool ending =
        atomic_load_explicit(&timelines->ending, memory_order_relaxed);

    return wm_timelines_begin_break(timelines, breaking, space->group.device,
                                    NULL, !ending);
}

static inline void wm_space_end_break(wm_space *space, wm_breaking *breaking)
{
    wm_timelines_end_break(space->group.timelines, breaking);
}

/* Status: OUT_OF_MEMORY; then wm_space_fini() must not be called. */
warm_status wm_space_init(wm_space *space, const wm_space_traits *traits,
                          warm_runtime *runtime, wm_timelines *timelines,
                          const wm_options *options);
/* At its beginning: the driver registers the space's memory in pieces of at
 * most chunk_bytes (arena.h). What serves small requests is never cut. */
void wm_space_cut(wm_space *space);
/* After the reset of a device: tells memory callbacks that the segments have
 * ended, if the space is lost. No lock held. */
void wm_space_tell_lost(wm_space *space);
/* At the end of a runtime: adds what stays of the space to the report. Returns
 * the bytes that were lost with a device. */
size_t wm_space_report_used(wm_space *space, warm_destroy_report *report);
/* Called before the timelines end: drops the uses of blocks that stay. */
void wm_space_forget(wm_space *space);
/* Frees the records; segments with live blocks stay mapped for their users. */
void wm_space_fini(wm_space *space);

/* Status: OUT_OF_MEMORY, or that of wm_driver_look(). */
warm_status wm_space_alloc(wm_space *space, const wm_request *request,
                           void **pointer);

/* INVALID_ARGUMENT unless the alignment is a power of two up to
 * WARM_ALIGNMENT_MAX. */
warm_status wm_space_check_alignment(size_t alignment);
/* Sets pointer to the aligned block (wm_request.alignment) in a block that only
 * the caller knows. Status: OUT_OF_MEMORY; the block is free then. */
warm_status wm_space_align(const wm_request *request, wm_block *block,
                           void **pointer);

/* Counts a request that cannot be served, and returns an error with the space's
 * figures and what rungs of the ladder gave ("; …", or ""). A caller that set
 * request->cause calls it once its other memory has failed as well. */
warm_status wm_space_refuse(wm_space *space, const wm_request *request,
                            const char *gave);

/* wm_space_refuse() of a request of more than WM_REQUEST_MAX, which no source
 * can serve: the callbacks hear of it, too. */
warm_status wm_space_refuse_huge(wm_space *space, const wm_request *request);

/* Sums over the arenas, of private pools too; stats->size is the caller's. */
void wm_space_stats(wm_space *space, warm_space_stats *stats);
/* The figures of one moment, with the counts in threads' caches, whose biased
 * locks are revoked meanwhile. (Sums of figures read at different moments could
 * exceed every real value.) A peak is at least the current value. node: its
 * arenas only, or WM_NODE_UNKNOWN for all. */
void wm_space_settled_stats(wm_space *space, int node, warm_space_stats *stats);
void wm_space_settled_class_stats(wm_space *space, unsigned size_class,
                                  warm_class_stats *stats);
/* Adds the space's histograms to *sum. */
void wm_space_histograms(const wm_space *space, warm_space_histograms *sum);
void wm_space_reset_peaks(wm_space *space);
void wm_space_reset_totals(wm_space *space);

/* For tests: wm_arena_check() of every arena. _settled: called while no other
 * thread uses the space; merges the counts of caches and checks that the
 * figures equal those of the live blocks. */
bool wm_space_check(wm_space *space);
bool wm_space_check_settled(wm_space *space);

/* The LIVE block that holds pointer, else null. */
wm_block *wm_space_find(const void *pointer);

/* Fails for a pointer that is no such block; the message names what it is. of:
 * "" or " of a device", the kind of block. Returns RUNTIME_GONE if a destroyed
 * runtime left the memory behind, else NOT_FOUND. */
warm_status wm_space_not_found(const void *pointer, const char *of);
/* RUNTIME_GONE in that case, with a message; else OK. */
warm_status wm_space_check_left(const void *pointer);

/* Frees a chain (next_done) of PENDING blocks whose streams have completed. */
void wm_space_finish(wm_block *chain);
/* Logs that the timelines leaked blocks, once for each cause. No lock held: the
 * log function is the program's and may call the library. */
void wm_space_log_lost(wm_space *space);

/* Claims bytes below the space's high watermark, its limiter's and that of all
 * memory, for memory that is not the space's; trims: returns idle segments if
 * that makes room. False: a watermark leaves no room. unclaim() ends the claim.
 * No lock held. */
bool wm_space_claim(wm_space *space, size_t bytes, bool trims);
void wm_space_unclaim(wm_space *space, size_t bytes);

/* The default ratios; of a low watermark also where a device's memory is the
 * host's. */
#define WM_HIGH_RATIO     1.7
#define WM_LOW_RATIO      1.0
#define WM_LOW_RATIO_BOTH 1.4

/* What an option says; ratio: if it says nothing. */
wm_watermark_set wm_watermark_from(uint64_t option, double ratio);
/* Its bytes. A ratio above 0 of what is known is at least one byte. */
size_t wm_watermark_bytes(const wm_watermark_set *set, size_t recommended);
/* Sets the watermarks of the owner, or of all memory, and computes them. A null
 * high and low leave them as they were set. recommended: 0: unknown, then those
 * that are ratios are off. */
void wm_watermarks_set(wm_space *owner, wm_watermarks *marks,
                       const wm_watermark_set *high,
                       const wm_watermark_set *low, size_t recommended);
/* host: the poller. The recommended maximum of host memory in bytes; 0:
 * unknown. Reads files. refresh(): computes its watermarks again, if the last
 * reading is old. No lock held. */
size_t wm_pressure_recommended(wm_space *host);
void wm_pressure_refresh(wm_space *host);
/* refresh() at once. */
void wm_pressure_refresh_now(wm_space *host);
/* For the background thread, at most once in pause_ns: if the kernel reports
 * that memory is short, returns what is idle; bytes. at_miss(): for requests
 * where no such thread runs, at most every 100 ms. No lock held. */
size_t wm_pressure_look(wm_space *host);
void wm_pressure_look_at_miss(wm_space *host);
static inline uint64_t wm_pressure_pause(const wm_space *host)
{
    return atomic_load_explicit(&host->pressure.pause_ns, memory_order_relaxed);
}
/* Tries the sources of warm_trim() that are memory of spaces, all of the
 * poller's, until at most target bytes are held in all. Status: that of
 * wm_space_trim(). */
warm_status wm_pressure_trim(wm_space *host, size_t target,
                             warm_trim_report *report);

/* Frees a block whose state this thread changed from LIVE to FREEING; or a LIVE
 * one that no caller has seen. */
void wm_space_free(wm_space *space, wm_block *block);

warm_status wm_space_record(wm_space *space, wm_block *block,
                            warm_stream stream);

/* Called before the stream is destroyed; leaves the last error alone. */
void wm_space_retire(wm_space *space, warm_stream stream,
                     const wm_stream_info *info);

/* Makes completed blocks idle and returns segments that were idle for decay_ns.
 * Fails only if the driver does not let this thread set its capture mode;
 * nothing was done then. */
warm_status wm_space_poll(wm_space *space);
/* Returns idle segments of the space and its limiter, until neither is above a
 * low watermark, or none is left. again(): the same after a miss, at most once
 * in a while, and until no low watermark is passed; the last error stays. */
warm_status wm_space_shrink(wm_space *space);
void wm_space_shrink_again(wm_space *space);
static inline bool wm_space_passed_low(const wm_space *space)
{
    return atomic_load_explicit(&space->shrink_ns, memory_order_relaxed) != 0;
}
/* Returns idle segments until at most target bytes are held. */
warm_status wm_space_trim(wm_space *space, size_t target, size_t *released);

#endif
