/* space_int.h: shared by the files of a space. */
#ifndef WM_SPACE_INT_H
#define WM_SPACE_INT_H

#include "alloc/arena/arena.h"
#include "alloc/space/space.h"

/* ---- space.c ------------------------------------------------------------ */

/* Brackets slow work: the last error is saved, and driver calls that allocate
 * or query are allowed while a stream captures (row B7). */
typedef struct wm_space_work {
    warm_error before;
    bool mode; /* the thread's capture mode before */
} wm_space_work;

/* begin() fails if the capture mode cannot be set; then end() must not be
 * called. recovered: end() restores the last error of the begin. */
warm_status wm_space_work_begin(wm_space *space, wm_space_work *work);
void wm_space_work_end(wm_space *space, wm_space_work *work, bool recovered);

/* Calls wm_private_tend() through a pointer: private_pool/ is a layer above. */
static inline void wm_space_tend_pools(wm_space *space,
                                       struct wm_private_arena *only)
{
    space->group.runtime->tend_pools(space->group.runtime, only);
}

/* wm_arena_take_or_steal() for a request with or without rows. */
static inline wm_block *wm_space_take_or_steal(wm_arena *arena, wm_lane *lane,
                                               size_t bytes, size_t row,
                                               bool *starved)
{
    wm_arena *a = arena;
    wm_block *block = NULL;

    if (wm_likely(row == 0)) {
        return wm_arena_take_or_steal(arena, lane, bytes, starved);
    }
    do {
        block = wm_arena_take_rows(a, bytes, row, starved);
        a = wm_arena_next(arena, a);
    } while (block == NULL && a != arena);
    return block;
}

/* ---- upkeep.c ----------------------------------------------------------- */

/* Polls all streams, so that completed blocks become idle. Within slow work. */
void wm_space_collect(wm_space *space);

/* Flushes the pending frees of all threads to their timelines and polls the
 * timelines with entries that no poll has queried. A flush needs a barrier,
 * which stops other threads for 26 us: worth it before a growth, not at each
 * miss. */
void wm_space_collect_pending(wm_space *space);

/* Returns segments that were idle for decay_ns. Within slow work. */
void wm_space_decay(wm_space *space);

/* ---- prewarm.c ---------------------------------------------------------- */

#define WM_NEVER UINT64_MAX

/* Obtains one region, unless so many bytes are idle on the node; in this
 * process's turn (turn.h), after which it pauses. No lock held. Status:
 * OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_prewarm_region(wm_background *b, int node, size_t bytes);
/* How long all jobs pause, in ns; WM_NEVER: there is none. *node: of the job
 * that is due first. */
uint64_t wm_prewarm_due_locked(const wm_background *b, int *node);
/* The background thread: obtains one region for the job that is due, if any. */
void wm_prewarm_step(wm_background *b);

/* ---- background.c ------------------------------------------------------- */

/* Wakes the thread if less than the reserve is idle, and no refusal is recent.
 */
void wm_background_check_reserve(wm_background *b);

/* Called after a block was allocated from an arena. Relaxed: as waker.h says.
 */
static inline void wm_background_note_taken(wm_background *b)
{
    if (wm_unlikely(b->reserve_bytes != 0) &&
        atomic_load_explicit(&b->waker.sleep, memory_order_relaxed) !=
            WM_SLEEP_NONE) {
        wm_background_check_reserve(b);
    }
}

/* Called after memory was obtained and counted as held; no lock held. Relaxed:
 * as waker.h says. */
static inline void wm_background_note_held(wm_background *b)
{
    if (b->on &&
        (b->space->decay_ns != 0 ||
         wm_pressure_pause(b->space) != UINT64_MAX) &&
        atomic_load_explicit(&b->waker.sleep, memory_order_relaxed) ==
            WM_SLEEP_LONG) {
        wm_waker_wake(&b->waker);
    }
}

/* ---- reclaim.c ---------------------------------------------------------- */

/* Before a space grows above its bound: flushes this thread's cache to the
 * arena, one larger block if that suffices, else more; polls pending frees;
 * then flushes half of the caches of all threads, then the rest, until the
 * arena has a block for the request: *block, or null. must: caches of other
 * nodes are flushed too. Returns whether blocks were flushed. */
bool wm_space_reclaim(wm_space *space, const wm_request *request, bool must,
                      wm_block **block);

/* ---- growth_call.c: driver calls in flight ------------------------------ */

/* A call of the driver in flight; on the stack of the thread that makes it. */
struct wm_growth_call {
    struct wm_growth_call *next;
    uint64_t number;
    wm_arena *arena;
    size_t bytes; /* to be obtained; 0: segments are returned */
    size_t room;  /* part of bytes that no request has claimed */
    bool held;    /* bytes were obtained, and count as held */
};

/* What a call changed for the requests that wait for its end. */
enum wm_outcome { WM_CALL_NOTHING, WM_CALL_MADE_ROOM, WM_CALL_FREED };

void wm_growth_call_begin_locked(wm_growth *growth,
                                 struct wm_growth_call *call);
/* Counts the bytes as held: before another thread can find and return them. */
void wm_growth_call_arrive(wm_growth *growth, struct wm_growth_call *call);
void wm_growth_call_end(wm_space *space, struct wm_growth_call *call,
                        enum wm_outcome outcome);
/* Waits for a change of the calls in flight, and counts the time. */
void wm_growth_wait_locked(wm_growth *growth);
/* Waits until the call of that number has ended. */
void wm_growth_call_wait_locked(wm_growth *growth, uint64_t number);

/* Whether memory was obtained or returned to the driver since *gained was read,
 * or a call of the driver is in flight: then a request that was refused
 * meanwhile may retry. Sets *gained to growth->gained. */
bool wm_growth_moves(wm_growth *growth, uint64_t *gained);

/* defer_warning() records a failure, with this thread's last error;
 * log_deferred() logs the recorded ones, once the thread's call has ended. The
 * last error is unchanged. */
enum wm_warning_kind { WM_REFUSED, WM_UNRECORDED };
void wm_growth_defer_warning(wm_growth *growth, enum wm_warning_kind kind,
                             size_t bytes);
void wm_growth_log_deferred(wm_space *space);
/* Memory was returned to the driver: memory callbacks hear of it when warnings
 * are logged. Without memory for that they do not. */
void wm_growth_note_released(wm_space *space, void *base, size_t bytes);
void wm_growth_report_released(wm_space *space);

/* ---- segment_event.c ----------------------------------------------------- */

/* Reserves room for the number of a segment that the driver is asked for.
 * Status: OUT_OF_MEMORY. Followed by wm_segment_obtained() if the driver had
 * it, else by expect_none(). */
warm_status wm_segment_expect(wm_space *space);
void wm_segment_expect_none(wm_space *space);
/* Gives a region its number, and tells the memory callbacks. */
void wm_segment_obtained(wm_space *space, int node, void *base, size_t bytes);
/* The opposite: before the driver gets the memory back. False: it has no
 * number. True: room for another one is reserved; returned(): it is not. */
bool wm_segment_returning(wm_space *space, int node, void *base, size_t bytes);
void wm_segment_returned(wm_space *space, int node, void *base, size_t bytes);
/* wm_segment_returning() for a detached segment, which has a number, inside of
 * a break: ends it while callbacks run, and begins it again. Waits for the
 * device first if streams may have work on the memory, for which the driver
 * does not wait when it unmaps a range. False: the segment stays (obtained,
 * with a number), and the break has ended. */
bool wm_segment_leaves(wm_space *space, const wm_segment *segment,
                       wm_breaking *breaking);

/* ---- return_idle.c ------------------------------------------------------ */

/* Returns idle oversize segments smaller than `below` bytes, of an arena and
 * its siblings, at most `most` bytes in all. Logs nothing. */
void wm_growth_return_oversize(wm_space *space, wm_arena *arena, size_t below,
                               size_t most);
/* Returns wholly idle segments, the largest first, until `bytes` are returned,
 * at most `most`, both above 0: none of private pools, nor the reserve, nor
 * what was prewarmed and not used yet. Logs nothing. */
void wm_growth_return_excess(wm_space *space, size_t bytes, size_t most);
/* Returns the segments of all arenas that are idle since before_ns or earlier,
 * except the reserve. */
void wm_growth_decay(wm_space *space, uint64_t before_ns);
/* A target of bytes to hold: all that is idle is returned. */
enum { WM_KEEP_NOTHING = 0 };

/* Returns a region to the driver, and counts the call. pieced: the region was
 * obtained as a piece of a larger one. */
warm_status wm_growth_driver_free(wm_space *space, wm_arena *arena, char *base,
                                  size_t bytes, bool pieced);

/* ---- obtain.c ----------------------------------------------------------- */

/* The state of one request while the space grows for it. */
struct wm_grow_request {
    wm_arena *arena;
    wm_arena *give_back; /* the arena whose idle segments, with its siblings',
                            may be returned; null: all */
    wm_lane *lane;
    size_t bytes;  /* 0: no request, memory is obtained ahead of demand */
    size_t needed; /* bytes of a run for it */
    size_t row;    /* as wm_request.row */
    size_t wanted; /* bytes to obtain, if neither driver nor limit refuses */
    size_t tried;  /* bytes last requested from the driver; 0: none */
    wm_block *block;
    bool by_limit;            /* the limit refused last, not the driver */
    uint64_t gained, vacated; /* wm_growth's, when it last looked for memory */
};

/* Whether a growth above the bound returns what is wholly idle. */
bool wm_growth_may_replace(wm_space *space, const wm_arena *arena);
/* Obtains `bytes`, or fewer if the limit leaves fewer and they suffice for the
 * request; or serves the request from memory that other threads obtained
 * meanwhile. */
warm_status wm_growth_obtain(wm_space *space, struct wm_grow_request *request,
                             size_t bytes);

/* ---- watermark.c --------------------------------------------------------- */

/* Bytes below the space's own high watermark; SIZE_MAX: it has none. */
size_t wm_room_below_locked(const wm_space *space);
/* The same of all memory, toward which only limiters count. */
size_t wm_whole_left(const wm_space *space);
/* Counts bytes toward all memory; claim: false if they do not fit. Any lock may
 * be held. */
void wm_whole_add(wm_space *space, size_t bytes);
bool wm_whole_claim(wm_space *space, size_t bytes);
void wm_whole_unclaim(wm_space *space, size_t bytes);

/* Claims bytes, for memory that is not the space's, below its own watermark and
 * that of all memory. No lock held, here and below. */
bool wm_space_claim_own(wm_space *space, size_t bytes);
void wm_space_unclaim_own(wm_space *space, size_t bytes);
/* Claims bytes of a space's memory of its limiter, if that is another space.
 * Status: OUT_OF_MEMORY. */
warm_status wm_space_claim_below(const wm_space *space, size_t bytes);
void wm_space_unclaim_below(const wm_space *space, size_t bytes);

/* ---- limit.c ------------------------------------------------------------ */

/* A request in the line of those that wait at the limit; on its thread's stack.
 */
typedef struct wm_limit_wait {
    wm_space *owner;            /* const: whose line it is */
    struct wm_limit_wait *next; /* lock growth of the owner: who came next */
    uint64_t since_ns;          /* when it entered the line */
    uint64_t until_ns;          /* when its time is over */
    unsigned left;              /* pauses that it may still make */
} wm_limit_wait;

enum wm_limit_fit {
    WM_LIMIT_NEVER, /* it is larger; or there is no limit, or no waiting */
    WM_LIMIT_FITS,  /* at the latest once frees that are under way are done */
    WM_LIMIT_LIVE   /* not unless something live is freed */
};

/* Bytes below a limit. */
typedef struct wm_taken {
    size_t all;     /* held and claimed */
    size_t lasting; /* of these: lost, kept for graphs, workspaces */
    size_t live;
    uint64_t gained; /* driver calls that obtained or returned memory */
    bool moving;     /* one is in flight, or freed blocks wait for streams */
} wm_taken;

/* Whether the request fits below the limit, in which so much is taken. LIVE may
 * be wrong for a moment: the spaces are read one after the other. NEVER leaves
 * *taken unset. */
enum wm_limit_fit wm_limit_look(wm_space *space, const wm_request *request,
                                wm_taken *taken);
/* Whether the request is larger than a limit of its space. */
bool wm_limit_never(const wm_space *space, const wm_request *request);
/* Whether the limit refuses the request, if it cannot be served otherwise. */
bool wm_limit_refuses(wm_space *space, const wm_request *request);
/* For a request that was refused: returns idle memory of the other spaces with
 * the same limit, or of the same device, as far as it helps. Returns whether
 * the request may try again. No lock held, no growth of this thread in flight.
 */
bool wm_limit_make_room(wm_space *space, const wm_request *request);
/* Returns idle memory of all spaces that count, until the watermarks leave room
 * for bytes that the limiter is to claim. Returns whether any went. */
bool wm_limit_trim_for(wm_space *limiter, size_t bytes);
/* Returns about so many idle bytes of a space, the largest segments first;
 * returns how many went. */
size_t wm_limit_take(wm_space *space, size_t bytes);
/* As wm_limit_take(), but those that are idle longest first, and neither the
 * reserve nor memory of private pools. */
size_t wm_limit_return_spare(wm_space *space, size_t bytes);
/* The space with a line of requests that wait at a limit of this space, or null
 * if none waits. owner: the space with the line of the limit that refuses the
 * request. */
wm_space *wm_limit_line(wm_space *space);
wm_space *wm_limit_owner(wm_space *space, const wm_request *request);
/* Joins the line and waits until it is the oldest, or until its time is over.
 * leave() in either case. */
void wm_limit_enter(wm_space *owner, wm_limit_wait *wait);
void wm_limit_leave(wm_space *space, wm_limit_wait *wait);
/* Waits for a moment, perhaps less. False: the time is over. */
bool wm_limit_pause(wm_limit_wait *wait);

/* Whether a low watermark of the space would be passed if the space grew for
 * the request (null: is passed). shrink(): returns idle segments until it would
 * not, or none is left: the space's own that are idle longest first, then those
 * of the other spaces that count. No lock held, no growth of this thread in
 * flight. */
bool wm_limit_is_above_low(wm_space *space, const wm_request *request);
void wm_limit_shrink(wm_space *space, const wm_request *request);

/* ---- grow.c ------------------------------------------------------------- */

/* Allocates a block after a miss: looks again, waits for a growth in flight
 * that has room, or grows. If the driver refuses, requests less, and returns
 * idle segments. grow.c lists the order of nodes (row B15). Status:
 * OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_growth_alloc(wm_space *space, const wm_request *request,
                            wm_block **block);

/* Whether the space may grow for the request before it tries whatever else is
 * idle (economy.h). */
bool wm_growth_is_within_bound(wm_space *space, const wm_request *request);

/* Whether a request that pageable memory can serve (request->cause) must skip
 * the driver and other threads' caches: true if all its nodes are in back-off.
 * Each node counts the skip. */
bool wm_growth_in_backoff(wm_space *space, const wm_request *request);

/* Obtains a region ahead of demand: bytes, or if refused half of that, and so
 * on down to least; both whole pages. Requests can claim room in it as in any
 * other growth.
 * Status: OUT_OF_MEMORY, or another of the driver's; nothing is obtained. */
warm_status wm_growth_ahead(wm_space *space, wm_arena *arena, size_t bytes,
                            size_t least, size_t *obtained);

#endif
