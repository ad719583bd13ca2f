/* ladder.c: what an allocation tries, in which order: see the table at the end.
 */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "alloc/space/node_fallback.h"
#include "alloc/arena/arena_trace.h"
#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"

#include <stdio.h>

/* What the node alone holds, for a request that no other would do for. */
static const char *node_figures(wm_space *space, const wm_request *request,
                                char *text, size_t bytes)
{
    warm_space_stats s = {.size = sizeof s};

    if (!request->strict || space->group.nodes == 1) {
        return "";
    }
    wm_arena_stats(request->arena, &s);
    snprintf(text, bytes, " on node %d (held %s, idle %s)",
             request->arena->node, wm_bytes(s.held_bytes.current).text,
             wm_bytes(s.idle_bytes).text);
    return text;
}

warm_status wm_space_refuse(wm_space *space, const wm_request *request)
{
    warm_space_stats s = {.size = sizeof s};
    warm_error cause = {.size = sizeof cause};
    char node[96], driver[160] = "";
    size_t limit = wm_space_limit(space);

    warm_last_error(&cause);
    wm_cache_merge_stats(&space->group);
    wm_space_stats(space, &s);
    wm_arena_count(request->arena, WM_COUNT_FAILURE);
    if (wm_unlikely(space->group.runtime->traced)) {
        wm_traced_refused(space->group.runtime, request);
    }
    if (space->traits->describe != NULL) {
        space->traits->describe(space, driver, sizeof driver);
    }
    /* The driver's reason comes last: it may be long, and cut off. */
    return wm_fail_code(
        WARM_OUT_OF_MEMORY, cause.origin, cause.code, cause.code_text,
        "%s of %s memory were asked for%s and cannot be had%s; held %s, live "
        "%s, idle %s%s, pending %s, lost %s, limit %s: %s",
        wm_bytes(request->bytes).text, space->traits->name,
        node_figures(space, request, node, sizeof node), driver,
        wm_bytes(s.held_bytes.current).text,
        wm_bytes(s.live_bytes.current).text, wm_bytes(s.idle_bytes).text,
        /* Relaxed: for a message. */
        atomic_load_explicit(&space->growth.put_off, memory_order_relaxed)
            ? " (which stays while a stream captures)"
            : "",
        wm_bytes(s.pending_bytes.current).text, wm_bytes(s.lost_bytes).text,
        limit != 0 ? wm_bytes(limit).text : "none", cause.message);
}

/* An out-of-memory error is reported here, or by a caller that has other memory
 * for the request (request->cause): then the last error stays what it was. */
static warm_status out_of_memory(wm_space *space, const wm_request *request,
                                 const wm_space_work *work)
{
    if (request->cause == NULL) {
        return wm_space_refuse(space, request);
    }
    warm_last_error(request->cause);
    wm_error_restore(&work->quiet.error);
    return WARM_OUT_OF_MEMORY;
}

/* ---- the rungs ----------------------------------------------------------- */

/* An allocation on its way up the ladder; on the thread's stack. */
typedef struct climb {
    wm_space *space;
    const wm_request *request;
    wm_block *block;    /* what a rung found */
    warm_status status; /* why there is none, once the space could not grow */
    uint64_t polled_ns; /* one reading of the clock for the first two polls */
    wm_space_work *work;
    bool quiet, working; /* what of the work has begun */
} climb;

/* A rung tries one thing. It returns true if the ladder ends there: with a
 * block, or with a status other than OK. */
typedef bool rung_fn(climb *c);

/* Allocates what is idle: from the thread's cache, which is refilled from the
 * arena, or from the arena where the thread has no cache for the request. */
static bool take(climb *c, const wm_request *request, enum wm_split split)
{
    bool starved = false;

    if (wm_cache_refill(&c->space->group, request, split, &c->block) ==
        WM_REFILL_NONE) {
        c->block = wm_arena_take(request->arena, request->lane, request->bytes,
                                 split, &starved);
    }
    return c->block != NULL;
}

/* After a poll: then blocks that the poll had to give up are logged. */
static bool take_polled(climb *c, enum wm_split split)
{
    bool found = take(c, c->request, split);

    wm_space_say_ends(c->space);
    return found;
}

/* To join runs of a stream's lane takes a walk over all of them: where the
 * thread caches blocks in the order of that stream, its cache and those of
 * other threads come first. */
static enum wm_split split_for(const climb *c)
{
    return c->request->epoch != 0 ? WM_SPLIT_NO_JOIN : WM_SPLIT_ALLOW;
}

static bool take_idle(climb *c)
{
    return take(c, c->request, WM_SPLIT_GOOD_FIT);
}

/* A memory callback that allocates is refused, or it would be called again. */
static bool refuse_in_callback(climb *c)
{
    c->status = wm_space_check_asking(c->space);
    return c->status != WARM_OK;
}

static bool split_cached(climb *c)
{
    c->block = wm_cache_take_own(&c->space->group, c->request);
    return c->block != NULL;
}

/* Queues a fence in each stream that has idle memory in the arena (null: in
 * all), so that the poll that follows can give it to the request's stream. */
static void queue_fences(const climb *c, wm_arena *arena)
{
    wm_arena *own = c->request->arena;

    if (own->orders != NULL) {
        wm_lanes_queue_fences(own->orders, own->pool != NULL ? own : arena,
                              c->request->lane);
    }
}

static bool poll_own(climb *c)
{
    c->polled_ns = wm_clock_ns();
    queue_fences(c, c->request->arena);
    return wm_pending_poll_mine(&c->space->group, c->polled_ns) &&
           take_polled(c, WM_SPLIT_FORBID);
}

/* Streams that are polled before all of them are: with a thousand streams a
 * miss costs no more than with a few, as long as some of them move on. */
enum { FEW = 8 };

static bool poll_few(climb *c)
{
    wm_arena_group *group = &c->space->group;

    wm_timelines_poll_some(group->timelines, FEW, c->request->arena,
                           wm_cache_is_footprint_stable(group), c->polled_ns);
    return take_polled(c, split_for(c));
}

static bool split_larger(climb *c)
{
    c->block = wm_cache_take_larger(&c->space->group, c->request);
    return c->block != NULL;
}

/* A segment of a sibling that is wholly idle moves to the request's arena; else
 * the block is allocated from the sibling. */
static bool steal(climb *c)
{
    wm_arena *own = c->request->arena;
    wm_request request = *c->request;
    bool found = wm_arena_steal_segment(own, request.bytes) &&
                 take(c, &request, split_for(c));

    request.arena = wm_arena_next(own, own);
    while (!found && request.arena != own) {
        found = take(c, &request, split_for(c));
        request.arena = wm_arena_next(own, request.arena);
    }
    return found;
}

static bool merge_cached(climb *c)
{
    c->block = wm_cache_take_row(&c->space->group, c->request);
    return c->block != NULL;
}

static bool poll_all(climb *c)
{
    wm_timelines *timelines = c->space->group.timelines;

    queue_fences(c, NULL);
    if (wm_timelines_busy(timelines) > 0) {
        wm_timelines_poll_queued(timelines);
        (void)take_polled(c, split_for(c));
    }
    return c->block != NULL;
}

static bool reclaim(climb *c)
{
    (void)wm_space_reclaim(c->space, c->request, false, &c->block);
    return c->block != NULL;
}

static bool take_any(climb *c)
{
    bool starved = false;

    c->block = wm_arena_take_or_steal(c->request->arena, c->request->lane,
                                      c->request->bytes, &starved);
    return c->block != NULL;
}

static bool collect_pending(climb *c)
{
    wm_space_collect_gathered(c->space);
    return take_any(c);
}

static bool poll_and_decay(climb *c)
{
    queue_fences(c, NULL);
    wm_space_poll_now(c->space);
    return take_any(c);
}

static bool refuse_in_backoff(climb *c)
{
    if (wm_node_fallback_in_backoff(c->space, c->request)) {
        c->status = wm_fail(WARM_OUT_OF_MEMORY,
                            "the driver had none lately, and was not asked");
    }
    return c->status != WARM_OK;
}

/* Idle memory of other streams, for which the request's stream waits. */
static bool share(climb *c, bool is_short)
{
    const wm_space_traits *traits = c->space->traits;
    warm_error cause = {.size = sizeof cause};

    warm_last_error(&cause);
    if (traits->share != NULL &&
        traits->share(c->space, c->request, is_short)) {
        if (is_short) {
            wm_arena_count(c->request->arena, WM_COUNT_RETRY);
        }
        (void)take_any(c);
    }
    wm_error_restore(&cause);
    return c->block != NULL;
}

static bool share_before_growth(climb *c)
{
    return c->space->shares && share(c, false);
}

static bool obtain(climb *c)
{
    c->status = wm_node_fallback_obtain(c->space, c->request, &c->block);
    return c->status != WARM_OUT_OF_MEMORY;
}

/* While this thread reclaims, other threads allocate and free, and may cache
 * again what was flushed: so many attempts are enough to find a moment. */
enum { RECLAIMS = 8 };

/* Flushes the caches of all threads, whatever that costs, and grows again: by
 * what their idle segments gave back to the driver, too. If the caches have
 * nothing, another thread may have flushed them and returned the memory to the
 * driver since the refusal: then the space grows again as well. */
static bool grow(climb *c)
{
    uint64_t gained = 0;
    bool more = true;

    (void)wm_growth_moves(&c->space->growth, &gained);
    if (obtain(c)) {
        return true;
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

static bool share_when_short(climb *c)
{
    return share(c, true);
}

static bool is_for_graphs(const wm_request *request)
{
    return request->arena->pool != NULL && !request->arena->user_pool;
}

static bool ask_callbacks(climb *c)
{
    if (!wm_space_ask_callbacks(c->space, c->request->bytes)) {
        return false;
    }
    wm_arena_count(c->request->arena, WM_COUNT_RETRY);
    if (!is_for_graphs(c->request)) {
        wm_cache_flush_all(&c->space->group);
        queue_fences(c, NULL);
        wm_space_collect(c->space);
    }
    return obtain(c);
}

/* ---- the ladder ---------------------------------------------------------- */

/* Which allocations try a rung, and what surrounds it. */
enum {
    POLLED = 1, /* a background thread returns idle segments, or nobody does */
    AGED = 2,   /* the allocations that miss return them, once they are old */
    GRAPHS = 4, /* for a pool of graphs: streams and threads are left alone */
    LANED = 8,  /* only if the block is for a stream's lane */
    QUIET = 16, /* the last error is kept, the thread cannot be cancelled */
    WORK = 32,  /* and driver calls are allowed while a stream captures */
    TAG = 64    /* the block is not from this thread's cache: marked as its */
};

/* In this order, until one of them ends the allocation. */
static const struct rung {
    rung_fn *try;
    unsigned flags;
} ladder[] = {
    {take_idle, POLLED | AGED | GRAPHS},
    {refuse_in_callback, POLLED | AGED | GRAPHS},
    {split_cached, POLLED | LANED},
    {poll_own, POLLED | QUIET},
    {poll_few, POLLED | QUIET},
    {split_larger, POLLED | QUIET},
    {steal, POLLED | AGED | QUIET},
    {merge_cached, POLLED | LANED | QUIET},
    {poll_all, POLLED | QUIET},
    {steal, POLLED | LANED | QUIET}, /* what that poll brought to siblings */
    {reclaim, POLLED | QUIET | TAG},
    {collect_pending, POLLED | WORK | TAG},
    {poll_and_decay, AGED | WORK | TAG},
    {refuse_in_backoff, POLLED | AGED | WORK},
    {reclaim, AGED | WORK | TAG},
    {share_before_growth, POLLED | AGED | WORK | TAG},
    {grow, POLLED | AGED | WORK | TAG},
    {obtain, GRAPHS | WORK | TAG},
    {share_when_short, POLLED | AGED | WORK | TAG},
    {ask_callbacks, POLLED | AGED | GRAPHS | WORK | TAG},
};

static bool tries(const climb *c, const struct rung *rung)
{
    unsigned kind = wm_space_decays(c->space) ? AGED : POLLED;

    if (is_for_graphs(c->request)) {
        kind = GRAPHS;
    }
    return (rung->flags & kind) != 0 &&
           ((rung->flags & LANED) == 0 || c->request->lane != NULL);
}

/* Begins what surrounds a rung, once. False: the driver does not allow it. */
static bool surround(climb *c, unsigned flags)
{
    if ((flags & (QUIET | WORK)) != 0 && !c->quiet) {
        wm_quiet_begin(&c->work->quiet);
        c->quiet = true;
    }
    if ((flags & WORK) != 0 && !c->working) {
        c->work->mode = true;
        c->status = wm_driver_capture_mode(c->space->driver, &c->work->mode);
        c->working = c->status == WARM_OK;
    }
    return (flags & WORK) == 0 || c->working;
}

static bool try_rung(climb *c, const struct rung *rung)
{
    bool over = !surround(c, rung->flags) || rung->try(c);

    if (c->block != NULL && (rung->flags & TAG) != 0) {
        wm_cache_tag_block(&c->space->group, c->request, c->block);
    }
    return over;
}

static warm_status end(climb *c, void **pointer)
{
    if (c->block != NULL) {
        *pointer = c->block->base;
        c->status = WARM_OK;
    } else if (c->status == WARM_OUT_OF_MEMORY) {
        c->status = out_of_memory(c->space, c->request, c->work);
    }
    if (c->working) {
        wm_driver_capture_relaxed_end(c->space->driver, &c->work->mode);
    }
    if (c->quiet && c->status == WARM_OK) {
        wm_quiet_end(&c->work->quiet);
    } else if (c->quiet) {
        wm_quiet_fail(&c->work->quiet);
    }
    return c->status;
}

warm_status wm_space_alloc(wm_space *space, const wm_request *request,
                           void **pointer)
{
    enum { RUNGS = sizeof ladder / sizeof *ladder };
    wm_space_work work; /* large: not cleared */
    climb c = {.space = space,
               .request = request,
               .work = &work,
               .status = wm_driver_look(space->driver, space->group.device)};
    warm_status status;

    if (wm_unlikely(c.status != WARM_OK)) {
        return c.status;
    }
    for (unsigned i = 0; i < RUNGS; i++) {
        if (tries(&c, &ladder[i]) && try_rung(&c, &ladder[i])) {
            break;
        }
    }
    status = end(&c, pointer);
    wm_cache_raise_peaks(&space->group);
    wm_background_note_taken(&space->background);
    return status;
}

warm_status wm_space_ahead(wm_space *space, int node, size_t bytes,
                           size_t least, size_t *obtained)
{
    wm_space_work work;
    warm_status status = wm_space_work_begin(space, &work);

    if (status == WARM_OK) {
        status = wm_growth_ahead(space, wm_group_arena(&space->group, node),
                                 bytes, least, obtained);
        wm_space_work_end(space, &work, status == WARM_OK);
    }
    return status;
}
