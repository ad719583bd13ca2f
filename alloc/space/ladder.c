/* ladder.c: the sources that an allocation tries, in the order of ladder[]. */
#include "alloc/space/space_int.h"

#include "alloc/arena/arena.h"
#include "alloc/cache/magazine.h"
#include "runtime/base/bytes.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"
#include "runtime/base/text.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the error ---------------------------------------------------------- */

/* ", workspaces 64.0 MiB (32.0 MiB idle)", if the device has some. */
static void describe_workspaces(const wm_space *space, char *text, size_t bytes)
{
    warm_runtime *runtime = space->group.runtime;
    size_t held = 0, idle = 0;

    if (space->group.device >= 0) {
        runtime->count_workspaces(runtime, space->group.device, &held, &idle);
    }
    if (held > 0) {
        snprintf(text, bytes, ", workspaces %s (%s idle)", wm_bytes(held).text,
                 wm_bytes(idle).text);
    }
}

/* " (in pieces, the largest of 2.0 MiB)", if that says why what is idle did not
 * serve. */
static void describe_largest(wm_space *space, uint64_t idle, char *text,
                             size_t bytes)
{
    size_t largest = 0;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        size_t one = wm_arena_paused(a) == 0 ? wm_arena_largest(a) : 0;

        largest = one > largest ? one : largest;
    }
    if (largest < idle) {
        snprintf(text, bytes, " (in pieces, the largest of %s)",
                 wm_bytes(largest).text);
    }
}

warm_status wm_space_refuse(wm_space *space, const wm_request *request,
                            const char *gave)
{
    warm_space_stats s = {.size = sizeof s};
    warm_error cause = wm_error_save();
    char node[96] = "", driver[160] = "", workspaces[80] = "", largest[64] = "";
    size_t limit = wm_high_bytes(&space->limiter->marks);

    wm_cache_merge_stats(&space->group);
    wm_arena_count(request->arena, WM_COUNT_FAILURE);
    if (wm_runtime_is_traced(space->group.runtime)) {
        wm_traced_refused(space->group.runtime, request);
    }
    if (request->strict && space->group.nodes > 1) {
        wm_arena_stats(request->arena, &s);
        snprintf(node, sizeof node, " on node %d (held %s, idle %s)",
                 request->arena->node, wm_bytes(s.held_bytes.current).text,
                 wm_bytes(s.idle_bytes).text);
    }
    if (space->traits->describe != NULL) {
        space->traits->describe(space, driver, sizeof driver);
    }
    describe_workspaces(space, workspaces, sizeof workspaces);
    wm_space_stats(space, &s);
    describe_largest(space, s.idle_bytes, largest, sizeof largest);
    /* The driver's reason comes last, since it may be long and be cut off. */
    return wm_fail_code(
        WARM_OUT_OF_MEMORY, cause.origin, cause.code, cause.code_text,
        "out of memory: requested %s of %s memory%s%s; held %s, live %s, idle "
        "%s%s%s, pending %s, lost %s%s, limit %s%s: %s",
        wm_bytes(wm_request_asked(request) - space->group.guard_bytes).text,
        space->traits->name, node, driver, wm_bytes(s.held_bytes.current).text,
        wm_bytes(s.live_bytes.current).text, wm_bytes(s.idle_bytes).text,
        largest,
        /* Relaxed: for a message. */
        atomic_load_explicit(&space->growth.return_deferred,
                             memory_order_relaxed)
            ? " (which stays while a stream captures)"
            : "",
        wm_bytes(s.pending_bytes.current).text, wm_bytes(s.lost_bytes).text,
        workspaces, limit != 0 ? wm_bytes(limit).text : "none", gave,
        cause.message);
}

warm_status wm_space_refuse_huge(wm_space *space, const wm_request *request)
{
    wm_listeners *listeners = &space->group.runtime->listeners;

    if (!wm_listeners_inside(listeners)) {
        (void)wm_listeners_call(listeners, WARM_MEMORY_FAILED, NULL,
                                wm_request_asked(request) -
                                    space->group.guard_bytes);
    }
    (void)wm_fail(WARM_OUT_OF_MEMORY, "no machine has more than %s",
                  wm_bytes(WM_REQUEST_MAX).text);
    return wm_space_refuse(space, request, "");
}

/* ---- the rungs ---------------------------------------------------------- */

/* Which allocations try a rung, and the bracket that it needs. */
enum {
    POLLED = 1,  /* a background thread returns old idle segments, or no thread
                    does */
    AGED = 2,    /* allocations that miss return old idle segments */
    GRAPHS = 4,  /* for a pool of graphs: streams and threads are not touched */
    LANED = 8,   /* only if the block is for a stream's lane */
    SPARED = 16, /* only if other memory can serve the request */
    QUIET = 32,  /* the last error is saved */
    WORK = 64,   /* and driver calls are allowed while a stream captures */
    ABOVE = 128, /* only if growth would pass the bound (economy.h) */
    TAG = 256 /* the block is not from this thread's cache: it is tagged as its
                 own */
};

/* What a rung made of memory for a request that cannot be served: for the
 * message. */
typedef struct gave {
    const char *name; /* of the rung */
    uint64_t idle;    /* bytes that became idle */
    uint64_t back;    /* bytes returned to the driver, of all spaces */
} gave;

/* An allocation on its way up the ladder; on the thread's stack. */
typedef struct climb {
    wm_space *space;
    const wm_request *request;
    wm_block *block;     /* what a rung found */
    warm_status status;  /* why there is none; OK until a rung was refused */
    enum wm_split split; /* of idle runs that fit badly */
    unsigned kind;       /* POLLED, AGED or GRAPHS */
    unsigned begun;      /* QUIET, WORK */
    unsigned never;      /* flags of rungs that are skipped */
    bool in_line;        /* of those that wait at the limit, by wait */
    wm_limit_wait wait;
    bool limited; /* the limit refused it */
    gave *gave;   /* not cleared; the first `gaves` are set */
    unsigned gaves;
    wm_space_work *work;
} climb;

/* A rung tries one thing. It returns true if the ladder ends there: with a
 * block, or with a status other than OK. */
typedef bool rung_fn(climb *c);

/* Allocates idle memory: from the thread's cache, which is refilled from the
 * arena; or from the arena, if the thread has no cache for the request. */
static inline wm_block *take_idle(wm_space *space, const wm_request *request,
                                  enum wm_split split)
{
    wm_block *block = NULL;

    if (wm_unlikely(request->row != 0)) {
        return wm_arena_take_rows(request->arena, request->bytes, request->row,
                                  NULL);
    }
    return request->alignment != 0 ||
                   wm_cache_refill(&space->group, request, split, &block) ==
                       WM_REFILL_NONE
               ? wm_arena_take(request->arena, request->lane, request->bytes,
                               split, NULL)
               : block;
}

static bool take(climb *c, const wm_request *request, enum wm_split split)
{
    c->block = take_idle(c->space, request, split);
    return c->block != NULL;
}

/* What the last thread that exited left is idle, too. */
static bool take_left(climb *c)
{
    return !c->space->group.laned &&
           wm_window_empty_ready(c->space->group.runtime) &&
           take(c, c->request, WM_SPLIT_GOOD_FIT);
}

static bool take_any_fit(climb *c)
{
    return take(c, c->request, c->split);
}

static bool take_or_steal(climb *c)
{
    c->block = wm_space_take_or_steal(c->request->arena, c->request->lane,
                                      c->request->bytes, c->request->row, NULL);
    return c->block != NULL;
}

/* Queues a fence in each stream that has idle memory, so that the next poll can
 * release it to the request's stream. */
static void queue_fences(const climb *c)
{
    wm_arena *own = c->request->arena;

    if (own->registry != NULL) {
        wm_lanes_queue_fences(own->registry, own->pool != NULL ? own : NULL,
                              c->request->lane);
    }
}

/* Streams that are polled before all of them are: with a thousand streams a
 * miss costs no more than with a few, as long as some of them move on. */
enum { FEW = 8 };

/* Polls this thread's pending frees, then a few streams. */
static bool poll_few(climb *c)
{
    wm_arena_group *group = &c->space->group;
    wm_arena *arena = c->request->arena;
    uint64_t now;

    if (arena->registry == NULL && !wm_timelines_any(group->timelines)) {
        return false;
    }
    now = wm_clock_ns();
    if (wm_pending_poll_mine(group, now)) {
        wm_space_log_lost(c->space);
        if (take(c, c->request, WM_SPLIT_FORBID)) {
            return true;
        }
    }
    wm_timelines_poll_for(group->timelines, FEW, arena,
                          wm_economy_is_stable(&group->economy), now);
    wm_space_log_lost(c->space);
    return false;
}

/* The streams for which frees are queued, and those for which this thread has
 * batched some: with more than a few streams most of its frees are there. All
 * of them, unless growth is free: then as many as are worth it. */
static bool poll_streams(climb *c)
{
    wm_timelines *timelines = c->space->group.timelines;

    wm_pending_flush_rest(&c->space->group);
    queue_fences(c);
    if (wm_timelines_busy(timelines) == 0) {
        return false;
    }
    if ((c->never & ABOVE) != 0) {
        wm_timelines_poll_due(timelines);
    } else {
        wm_timelines_poll_queued(timelines);
    }
    wm_space_log_lost(c->space);
    return take_any_fit(c);
}

static bool poll_and_decay(climb *c)
{
    queue_fences(c);
    wm_space_collect(c->space);
    wm_space_decay(c->space);
    return take_or_steal(c);
}

static bool carve(climb *c)
{
    c->block =
        wm_cache_carve(&c->space->group, c->request, c->request->epoch != 0);
    return c->block != NULL;
}

/* A segment of a sibling that is wholly idle moves to the request's arena; else
 * the block is allocated from the sibling. */
static bool steal(climb *c)
{
    wm_arena *own = c->request->arena;
    wm_request request = *c->request;
    bool found = wm_arena_steal_segment(own, request.bytes) &&
                 take(c, &request, c->split);

    request.arena = wm_arena_next(own, own);
    while (!found && request.arena != own) {
        found = take(c, &request, c->split);
        request.arena = wm_arena_next(own, request.arena);
    }
    return found;
}

/* Memory of the program, which costs nothing to hold. The block is not of this
 * space: no thread caches it. */
static bool take_adopted(climb *c)
{
    const wm_arena *own = c->request->arena;
    int node = c->request->strict ? own->node : WM_NODE_UNKNOWN;

    if (c->space->adopted == NULL || own->pool != NULL) {
        return false;
    }
    for (wm_arena *a = wm_group_arenas(&c->space->adopted->group);
         a != NULL && c->block == NULL; a = a->next_arena) {
        c->block = wm_arena_serve(a, node, c->request->bytes);
    }
    return c->block != NULL;
}

/* Whether growth is free, or all that is idle is to be tried before. */
static bool check_bound(climb *c)
{
    if (wm_growth_is_within_bound(c->space, c->request)) {
        c->never |= ABOVE;
    }
    return false;
}

static bool reclaim(climb *c)
{
    (void)wm_space_reclaim(c->space, c->request, false, &c->block);
    return c->block != NULL;
}

/* Segments that were obtained for one large request, or for requests of the
 * other sort and are idle, serve this one as well; not those that are wholly
 * idle and much too large, if a growth returns them. */
static bool open_segment(climb *c)
{
    wm_arena *own = c->request->arena, *a = own;
    bool whole = !wm_growth_may_replace(c->space, own), open;

    do {
        open = wm_arena_open(a, c->request->lane,
                             wm_size_run_bytes(c->request->bytes), whole);
        a = wm_arena_next(own, a);
    } while (!open && a != own);
    return open && take_or_steal(c);
}

static bool refuse_in_backoff(climb *c)
{
    if (wm_growth_in_backoff(c->space, c->request)) {
        c->status = wm_fail(WARM_OUT_OF_MEMORY,
                            "the driver refused memory a moment ago; it is not "
                            "called for this request");
    }
    return c->status != WARM_OK;
}

/* Allocates idle memory of other streams, after the request's stream has been
 * made to wait for one that has room, else for several. */
static bool share(climb *c, bool is_short)
{
    const wm_space_traits *traits = c->space->traits;

    WM_KEEP_ERROR();
    if (traits->share != NULL && traits->share(c->space, c->request)) {
        if (is_short) {
            wm_arena_count(c->request->arena, WM_COUNT_RETRY);
        }
        (void)take_or_steal(c);
    }
    return c->block != NULL;
}

/* Before the space grows above its bound. */
static bool share_above(climb *c)
{
    return share(c, false);
}

static bool share_when_short(climb *c)
{
    return share(c, true);
}

static bool obtain(climb *c)
{
    c->status = wm_growth_alloc(c->space, c->request, &c->block);
    if (c->status == WARM_OUT_OF_MEMORY) {
        c->limited |= wm_limit_refuses(c->space, c->request);
    }
    return c->status != WARM_OUT_OF_MEMORY;
}

/* Attempts to flush and allocate: other threads may cache the flushed blocks
 * again before this thread allocates them. */
enum { RECLAIMS = 8 };

/* Flushes the caches of all threads, whatever that costs, and grows again:
 * their idle segments are returned to the driver, which then may have enough.
 * If the caches have nothing, another thread may have flushed them and returned
 * the memory to the driver since the refusal: then the space grows again as
 * well. */
static bool grow(climb *c)
{
    uint64_t gained = 0;
    bool more = true;

    (void)wm_growth_moves(&c->space->growth, &gained);
    if (obtain(c)) {
        return true;
    }
    if ((c->never & ABOVE) != 0) { /* poll_streams() has left some out */
        wm_timelines_poll_queued(c->space->group.timelines);
        wm_space_log_lost(c->space);
        if (take_or_steal(c)) {
            return true;
        }
    }
    for (int i = 0; more && i < RECLAIMS; i++) {
        more = wm_space_reclaim(c->space, c->request, true, &c->block);
        more |= wm_growth_moves(&c->space->growth, &gained);
        if (c->block != NULL || (more && obtain(c))) {
            return true;
        }
    }
    return false;
}

/* Idle memory of other spaces goes back, and this one grows. A request that
 * other memory can serve leaves them alone. */
static bool grow_into_room(climb *c)
{
    if (c->request->cause != NULL ||
        !wm_limit_make_room(c->space, c->request)) {
        return false;
    }
    wm_arena_count(c->request->arena, WM_COUNT_RETRY);
    return obtain(c);
}

/* The device whose idle workspaces may make room; or all of them. */
static int find_crowded(const climb *c)
{
    wm_space *space = c->space;

    return c->limited && (space->group.device < 0 ||
                          wm_limit_owner(space, c->request) != space->limiter)
               ? WM_DEVICE_UNKNOWN
               : space->group.device;
}

/* Idle workspaces of handles go back, and the space grows. */
static bool grow_over_workspaces(climb *c)
{
    warm_runtime *runtime = c->space->group.runtime;
    warm_error cause;
    int device = find_crowded(c);
    size_t bytes;

    if (c->request->cause != NULL || device == WM_DEVICE_HOST) {
        return false;
    }
    cause = wm_error_save();
    bytes = runtime->trim_workspaces(runtime, device);
    wm_error_restore(&cause);
    if (bytes == 0) {
        return false;
    }
    wm_arena_count(c->request->arena, WM_COUNT_RETRY);
    return obtain(c);
}

/* Before a growth beyond a low watermark: open batches of frees get their
 * events, and if what completed does not serve the request, idle memory is
 * returned. */
static bool shrink_above_low(climb *c)
{
    if (!wm_limit_is_above_low(c->space, c->request)) {
        return false;
    }
    wm_pending_flush_rest(&c->space->group);
    queue_fences(c);
    wm_space_collect(c->space);
    if (take_any_fit(c) || take_or_steal(c)) {
        return true;
    }
    wm_limit_shrink(c->space, c->request);
    return false;
}

/* ---- the line at the limit ---------------------------------------------- */

/* Whether the request may wait: one in a callback of the program would wait for
 * its own thread, if that waits already. */
static bool may_wait(const climb *c)
{
    return c->request->cause == NULL && !wm_callback_inside();
}

static void enter_line(climb *c, wm_space *owner)
{
    if (!c->in_line) {
        c->in_line = true;
        wm_limit_enter(owner, &c->wait);
    }
}

static void leave_line(climb *c)
{
    if (c->in_line) {
        wm_limit_leave(c->space, &c->wait);
        c->in_line = false;
    }
}

/* Below the limit a request that would grow goes after those that wait for
 * memory already; one that no limit would ever let grow waits for nobody. */
static bool stand_in_line(climb *c)
{
    wm_space *owner = wm_limit_line(c->space);

    wm_pressure_refresh(c->space->poller);
    c->limited = wm_limit_refuses(c->space, c->request);
    if (owner != NULL && may_wait(c) && !wm_limit_never(c->space, c->request)) {
        enter_line(c, owner);
    }
    return false;
}

/* Turns in which nothing moved, before a request at the limit gives up: another
 * thread may be between its cache and the arena. */
enum { STILL_TURNS = 3 };

static bool try_all(climb *c, bool moves)
{
    wm_space_collect(c->space);
    (void)wm_space_reclaim(c->space, c->request, true, &c->block);
    if (c->block != NULL || take_adopted(c) ||
        (moves && c->request->lane != NULL && share(c, false))) {
        return true;
    }
    (void)wm_limit_make_room(c->space, c->request);
    return obtain(c);
}

/* A request that would fit below the limit, had other threads' frees got so
 * far; or that fits by now. */
static bool wait_at_limit(climb *c)
{
    enum wm_limit_fit fit;
    wm_taken taken, before;
    unsigned still = 0;
    bool ends, moves;

    if (!may_wait(c) || !c->limited) {
        return false;
    }
    fit = wm_limit_look(c->space, c->request, &taken);
    if (fit == WM_LIMIT_NEVER) {
        return false;
    }
    enter_line(c, wm_limit_owner(c->space, c->request));
    do {
        before = taken;
        ends = try_all(c, taken.moving);
        fit = wm_limit_look(c->space, c->request, &taken);
        moves = taken.moving || taken.all != before.all ||
                taken.live != before.live || taken.gained != before.gained;
        still = moves && fit != WM_LIMIT_LIVE ? 0 : still + 1;
    } while (!ends && fit != WM_LIMIT_NEVER && still < STILL_TURNS &&
             wm_limit_pause(&c->wait));
    return ends;
}

/* ---- memory callbacks --------------------------------------------------- */

/* Refuses an allocation by a memory callback, which would be called again for
 * its own request, without end. */
static bool refuse_in_callback(climb *c)
{
    bool refuses = wm_listeners_inside(&c->space->group.runtime->listeners);

    if (refuses) {
        c->status = wm_fail(WARM_INVALID_ARGUMENT,
                            "a memory callback allocates %s memory from the "
                            "runtime that called it, and no idle block serves: "
                            "a callback may only free there",
                            c->space->traits->name);
    }
    return refuses;
}

static bool ask_callbacks(climb *c)
{
    /* A callback may wait for a thread that stands behind this one. */
    leave_line(c);
    if (!wm_listeners_call(
            &c->space->group.runtime->listeners, WARM_MEMORY_FAILED, NULL,
            wm_request_asked(c->request) - c->space->group.guard_bytes)) {
        return false;
    }
    wm_arena_count(c->request->arena, WM_COUNT_RETRY);
    /* Not for graphs: streams and threads are not touched. */
    if (c->kind != GRAPHS) {
        wm_cache_flush_all(&c->space->group);
        queue_fences(c);
        wm_space_collect(c->space);
        (void)wm_limit_make_room(c->space, c->request);
    }
    return take_adopted(c) || obtain(c);
}

/* ---- the ladder --------------------------------------------------------- */

/* Tried in this order, after take_idle(), until one ends the allocation. */
static const struct rung {
    rung_fn *try;
    unsigned flags;
    const char *name; /* in the message of a request that is refused, or null */
} ladder[] = {
    {take_left, POLLED | AGED | GRAPHS, NULL},
    {refuse_in_callback, POLLED | AGED | GRAPHS, NULL},
    {poll_few, POLLED | QUIET, NULL},
    {take_any_fit, POLLED | QUIET, NULL},
    {steal, POLLED | AGED | QUIET, NULL},
    {take_adopted, POLLED | AGED | QUIET, NULL},
    {check_bound, POLLED, NULL},
    {poll_streams, POLLED | QUIET, NULL},
    {steal, POLLED | LANED | QUIET, NULL}, /* what that released to siblings */
    {poll_and_decay, AGED | WORK | TAG, NULL},
    {check_bound, AGED, NULL},
    {carve, POLLED | AGED | ABOVE | QUIET, NULL},
    {reclaim, POLLED | ABOVE | QUIET | TAG, NULL},
    {refuse_in_backoff, POLLED | AGED | SPARED | WORK, NULL},
    {reclaim, AGED | ABOVE | WORK | TAG, NULL},
    {open_segment, POLLED | AGED | ABOVE | QUIET | TAG, NULL},
    {stand_in_line, POLLED | AGED, NULL},
    {share_above, POLLED | AGED | LANED | ABOVE | WORK | TAG, NULL},
    {shrink_above_low, POLLED | AGED | WORK | TAG, NULL},
    {grow, POLLED | AGED | WORK | TAG, "caches, frees and segments"},
    {obtain, GRAPHS | WORK | TAG, NULL},
    {grow_into_room, POLLED | AGED | WORK | TAG, "other spaces"},
    {grow_over_workspaces, POLLED | AGED | WORK | TAG, "idle workspaces"},
    {share_when_short, POLLED | AGED | LANED | WORK | TAG, "other streams"},
    {ask_callbacks, POLLED | AGED | GRAPHS | WORK | TAG, "callbacks"},
    {wait_at_limit, POLLED | AGED | WORK | TAG, "waiting"},
};

/* Begins the brackets of a rung. False: the driver refused the capture mode. */
static bool begin_work(climb *c, unsigned flags)
{
    if ((c->begun & QUIET) == 0) {
        c->work->before = wm_error_save();
        c->begun |= QUIET;
    }
    if ((flags & WORK) != 0) {
        c->work->mode = true;
        c->status = wm_driver_capture_mode(c->space->driver, &c->work->mode);
        c->begun |= c->status == WARM_OK ? WORK : 0;
    }
    return c->status == WARM_OK;
}

static void end_work(const climb *c)
{
    if ((c->begun & WORK) != 0) {
        wm_driver_capture_relaxed_end(c->space->driver, &c->work->mode);
    }
    if (c->status == WARM_OK) {
        wm_error_restore(&c->work->before);
    }
}

/* ---- what the rungs gave ------------------------------------------------- */

enum { NAMED = 6 }; /* rungs with a name */

static gave read_gave(const climb *c, const char *name)
{
    warm_space_stats s = {.size = sizeof s};

    wm_space_stats(c->space, &s);
    return (gave){name, s.idle_bytes, wm_whole_taken(&c->space->poller->whole)};
}

static uint64_t grown(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

/* Tries a rung, and measures it if the request is refused all the same. Other
 * threads' frees meanwhile count, too. */
static bool try_measured(climb *c, const struct rung *rung)
{
    gave before = read_gave(c, rung->name), after;

    if (rung->try(c)) {
        return true;
    }
    after = read_gave(c, rung->name);
    after.back = grown(after.back, before.back);
    after.idle = grown(before.idle, after.idle + after.back);
    c->gave[c->gaves++] = after;
    return false;
}

static bool gave_any(const gave *g)
{
    return g->idle > 0 || g->back > 0;
}

/* "; gave: callbacks 2.0 MiB idle, 4.0 MiB returned; gave nothing: waiting" */
static void describe_gave(const climb *c, char *text, size_t bytes)
{
    wm_text out = {text, bytes, 0};
    const char *separator = "; gave: ";

    text[0] = '\0';
    for (unsigned i = 0; i < c->gaves; i++) {
        const gave *g = &c->gave[i];

        if (gave_any(g)) {
            wm_text_put(&out, "%s%s %s idle, %s returned", separator, g->name,
                        wm_bytes(g->idle).text, wm_bytes(g->back).text);
            separator = ", ";
        }
    }
    separator = "; gave nothing: ";
    for (unsigned i = 0; i < c->gaves; i++) {
        if (!gave_any(&c->gave[i])) {
            wm_text_put(&out, "%s%s", separator, c->gave[i].name);
            separator = ", ";
        }
    }
}

/* Reports out of memory; or, for a caller that has other memory for the
 * request, stores the error in *request->cause and restores the last error. */
static warm_status fail(const climb *c)
{
    char text[320];

    if (c->request->cause == NULL) {
        describe_gave(c, text, sizeof text);
        return wm_space_refuse(c->space, c->request, text);
    }
    *c->request->cause = wm_error_save();
    wm_error_restore(&c->work->before);
    return WARM_OUT_OF_MEMORY;
}

static bool is_for_graphs(const wm_request *request)
{
    return request->arena->pool != NULL && !request->arena->user_pool;
}

static __attribute__((noinline)) warm_status
climb_ladder(wm_space *space, const wm_request *request, wm_block **block)
{
    const struct rung *end = ladder + sizeof ladder / sizeof *ladder;
    const struct rung *rung = ladder;
    wm_space_work work; /* large: not cleared */
    gave gaves[NAMED];
    /* Merging runs of a stream's lane walks over all of them: if the thread
     * caches blocks of that stream (epoch is not 0), its cache and those of
     * other threads are tried first. */
    climb c = {.space = space,
               .request = request,
               .status = WARM_OK,
               .split = request->epoch != 0 ? WM_SPLIT_NO_JOIN : WM_SPLIT_ALLOW,
               .kind = POLLED,
               .never = (request->lane == NULL ? LANED : 0) |
                        (request->cause == NULL ? SPARED : 0),
               .gave = gaves,
               .work = &work};

    if (is_for_graphs(request)) {
        c.kind = GRAPHS;
    } else if (space->decay_ns != 0 && !space->background.on) {
        c.kind = AGED;
    }
    for (; rung < end; rung++) {
        if ((rung->flags & c.kind) == 0 || (rung->flags & c.never) != 0) {
            continue;
        }
        if ((rung->flags & ~c.begun & (QUIET | WORK)) != 0 &&
            !begin_work(&c, rung->flags)) {
            break;
        }
        if (rung->name != NULL ? try_measured(&c, rung) : rung->try(&c)) {
            break;
        }
    }
    if (c.block != NULL) {
        if ((rung->flags & TAG) != 0 && request->alignment == 0 &&
            wm_space_of(c.block) == space) {
            wm_cache_tag_block(&space->group, request, c.block);
        }
        c.status = WARM_OK;
    } else if (c.status == WARM_OUT_OF_MEMORY) {
        c.status = fail(&c);
    }
    leave_line(&c);
    if (c.begun != 0) {
        end_work(&c);
    }
    *block = c.block;
    return c.status;
}

warm_status wm_space_check_alignment(size_t alignment)
{
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "alignment %" PRIu64 " is no power of two",
                       (uint64_t)alignment);
    }
    return alignment <= WARM_ALIGNMENT_MAX
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "alignment %s is too large: the most is %s",
                         wm_bytes(alignment).text,
                         wm_bytes(WARM_ALIGNMENT_MAX).text);
}

warm_status wm_space_align(const wm_request *request, wm_block *block,
                           void **pointer)
{
    wm_block *aligned =
        wm_arena_align(block, request->asked, request->alignment);

    if (aligned == NULL) {
        wm_space_free(wm_space_of(block), block);
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the record of an aligned block");
    }
    *pointer = aligned->base;
    return WARM_OK;
}

warm_status wm_space_alloc(wm_space *space, const wm_request *request,
                           void **pointer)
{
    warm_status status = wm_driver_look(space->driver, space->group.device);
    wm_block *block;

    if (wm_unlikely(status != WARM_OK)) {
        return status;
    }
    /* Before the request takes a part of a segment that is wholly idle. */
    if (wm_likely(!space->poller->background.on) && !is_for_graphs(request)) {
        wm_pressure_look_at_miss(space->poller);
    }
    block = take_idle(space, request, WM_SPLIT_GOOD_FIT);
    if (wm_unlikely(block == NULL)) {
        status = climb_ladder(space, request, &block);
    }
    if (wm_unlikely(request->alignment != 0) && block != NULL) {
        status = wm_space_align(request, block, pointer);
    } else if (wm_likely(block != NULL)) {
        *pointer = block->base;
    }
    if (wm_unlikely(wm_economy_must_sweep(&space->group.economy))) {
        wm_cache_sweep(&space->group);
    }
    if (wm_unlikely(wm_space_passed_low(space)) && status == WARM_OK &&
        !is_for_graphs(request)) {
        wm_space_shrink_again(space);
    }
    wm_background_note_taken(&space->background);
    return status;
}
