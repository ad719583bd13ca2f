/* ladder.c: the ladder of an allocation; see space.h. */
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
    if (wm_unlikely(space->group.runtime->told)) {
        wm_traced_refused(space->group.runtime, request);
    }
    if (space->traits->describe != NULL) {
        space->traits->describe(space, driver, sizeof driver);
    }
    /* The driver's reason comes last: it may be long, and cut off. */
    return wm_fail_code(
        WARM_OUT_OF_MEMORY, cause.origin, cause.code, cause.code_text,
        "%s of %s memory were asked for%s and cannot be had%s; held %s, in use "
        "%s, idle %s%s, pending %s, lost %s, limit %s: %s",
        wm_bytes(request->bytes).text, space->traits->name,
        node_figures(space, request, node, sizeof node), driver,
        wm_bytes(s.held_bytes.current).text,
        wm_bytes(s.block_bytes.current).text, wm_bytes(s.idle_bytes).text,
        /* Relaxed: for a message. */
        atomic_load_explicit(&space->growth.put_off, memory_order_relaxed)
            ? " (which stays while a stream captures)"
            : "",
        wm_bytes(s.pending_bytes.current).text, wm_bytes(s.lost_bytes).text,
        limit != 0 ? wm_bytes(limit).text : "none", cause.message);
}

/* Says it, or leaves that to whoever has other memory, and no trace. */
static warm_status out_of_memory(wm_space *space, const wm_request *request,
                                 const wm_space_work *work)
{
    if (request->cause == NULL) {
        return wm_space_refuse(space, request);
    }
    warm_last_error(request->cause);
    wm_error_restore(&work->error);
    return WARM_OUT_OF_MEMORY;
}

static wm_block *take(const wm_request *request)
{
    bool starved = false;

    return wm_arena_take_or_steal(request->arena, request->lane, request->bytes,
                                  &starved);
}

/* Other threads take and free meanwhile, and may have in their magazines again
 * what was taken back from them: a few times is enough to find a moment. */
enum { RECLAIMS = 8 };

/* What waits in an arena (null: in all) for others than who asks gets an event
 * in their streams, which the poll that follows asks. */
static void note_miss(wm_arena *arena, const wm_request *request)
{
    wm_lane_registry *orders = request->arena->orders;

    if (orders != NULL) {
        wm_lanes_queue_fences(
            orders, request->arena->pool != NULL ? request->arena : arena,
            request->lane);
    }
}

/* Takes back what threads keep, once it is that or an error. Where they have
 * nothing another thread may have taken it, and given it to the driver: then it
 * is asked for again. gained: as of before the request was refused. */
static warm_status reclaim_and_obtain(wm_space *space,
                                      const wm_request *request,
                                      uint64_t gained, wm_block **block)
{
    warm_status status = WARM_OUT_OF_MEMORY;
    bool more = true;

    for (int i = 0; more && status == WARM_OUT_OF_MEMORY && i < RECLAIMS; i++) {
        more = wm_space_reclaim(space, request, true, block);
        more |= wm_growth_moves(&space->growth, &gained);
        if (*block != NULL) {
            status = WARM_OK;
        } else if (more) {
            status = wm_node_fallback_obtain(space, request, block);
        }
    }
    return status;
}

/* What is idle for other streams, once it is safe for this one. */
static warm_status share_and_take(wm_space *space, const wm_request *request,
                                  bool is_short, wm_block **block)
{
    warm_error cause = {.size = sizeof cause};

    warm_last_error(&cause);
    if (space->traits->share != NULL &&
        space->traits->share(space, request, is_short)) {
        if (is_short) {
            wm_arena_count(request->arena, WM_COUNT_RETRY);
        }
        *block = take(request);
    }
    wm_error_restore(&cause);
    return *block != NULL ? WARM_OK : WARM_OUT_OF_MEMORY;
}

/* The ladder below a cache that misses (row B12). */
static warm_status climb(wm_space *space, const wm_request *request,
                         wm_block **block)
{
    warm_status status = WARM_OK;
    bool decays = wm_space_decays(space);
    uint64_t gained = 0;

    if (decays) {
        note_miss(NULL, request);
        wm_space_poll_now(space);
    } else {
        wm_space_collect_gathered(space);
    }
    *block = take(request);
    if (*block == NULL && wm_node_fallback_in_backoff(space, request)) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "the driver had none lately, and was not asked");
    }
    if (*block == NULL && decays) { /* else: see take_quietly() */
        (void)wm_space_reclaim(space, request, false, block);
    }
    if (*block == NULL && space->shares) {
        (void)share_and_take(space, request, false, block);
    }
    if (*block == NULL) {
        (void)wm_growth_moves(&space->growth, &gained);
        status = wm_node_fallback_obtain(space, request, block);
    }
    if (status == WARM_OUT_OF_MEMORY) {
        status = reclaim_and_obtain(space, request, gained, block);
    }
    if (status == WARM_OUT_OF_MEMORY) {
        status = share_and_take(space, request, true, block);
    }
    if (status == WARM_OUT_OF_MEMORY &&
        wm_space_ask_callbacks(space, request->bytes)) {
        wm_arena_count(request->arena, WM_COUNT_RETRY);
        wm_cache_flush_all(&space->group);
        note_miss(NULL, request);
        wm_space_collect(space);
        status = wm_node_fallback_obtain(space, request, block);
    }
    return status;
}

static bool is_for_graphs(const wm_request *request)
{
    return request->arena->pool != NULL && !request->arena->user_pool;
}

/* The same for a pool of graphs: nothing is asked of streams, no event is
 * touched, and what others have is no help. */
static warm_status climb_for_graphs(wm_space *space, const wm_request *request,
                                    wm_block **block)
{
    warm_status status = wm_node_fallback_obtain(space, request, block);

    if (status == WARM_OUT_OF_MEMORY &&
        wm_space_ask_callbacks(space, request->bytes)) {
        wm_arena_count(request->arena, WM_COUNT_RETRY);
        status = wm_node_fallback_obtain(space, request, block);
    }
    return status;
}

/* One that is idle: of the thread's magazine, with others for it, or of the
 * arena where it has none. cut: unless ANY a poll comes after a miss. */
static wm_block *take_idle(wm_space *space, const wm_request *request,
                           enum wm_split cut)
{
    bool starved = false;
    wm_block *block = NULL;

    if (wm_cache_refill(&space->group, request, cut, &block) !=
        WM_REFILL_NONE) {
        return block;
    }
    return wm_arena_take(request->arena, request->lane, request->bytes, cut,
                         &starved);
}

/* Before neighbours are joined for a request, which takes a walk, the thread's
 * own magazines are looked into, and others': see wm_space_reclaim(). */
static enum wm_split cut_for(const wm_request *request)
{
    return request->epoch != 0 ? WM_SPLIT_NO_JOIN : WM_SPLIT_ALLOW;
}

/* One that is idle in a sibling: of a region that moves over, all of it, or
 * that stays there. */
static wm_block *take_beside(wm_space *space, const wm_request *request)
{
    wm_request beside = *request;
    wm_block *block = NULL;

    if (wm_arena_steal_segment(request->arena, request->bytes)) {
        block = take_idle(space, request, cut_for(request));
    }
    beside.arena = wm_arena_next(request->arena, request->arena);
    while (block == NULL && beside.arena != request->arena) {
        block = take_idle(space, &beside, cut_for(request));
        beside.arena = wm_arena_next(request->arena, beside.arena);
    }
    return block;
}

/* Queues asked by a miss before all of them are: a miss costs no more with a
 * thousand streams than with a few, as long as some of them move on. */
enum { FEW = 8 };

/* What has passed, and a block of it: nothing that surrounds slow work is
 * needed for that but silence. */
static wm_block *take_passed(wm_space *space, const wm_request *request)
{
    enum wm_split cut = cut_for(request);
    wm_block *block = NULL;
    uint64_t now = wm_clock_ns();

    note_miss(request->arena, request);
    if (wm_pending_poll_mine(&space->group, now)) {
        block = take_idle(space, request, WM_SPLIT_FORBID);
    }
    if (block == NULL) {
        wm_timelines_poll_some(space->group.timelines, FEW, request->arena,
                               wm_cache_is_footprint_stable(&space->group),
                               now);
        block = take_idle(space, request, cut);
    }
    if (block == NULL) {
        block = wm_cache_take_larger(&space->group, request);
    }
    if (block == NULL) {
        block = take_beside(space, request);
    }
    if (block == NULL) {
        block = wm_cache_take_row(&space->group, request);
    }
    if (block == NULL) {
        note_miss(NULL, request);
    }
    if (block == NULL && wm_timelines_busy(space->group.timelines) > 0) {
        wm_timelines_poll_queued(space->group.timelines);
        block = take_idle(space, request, cut);
    }
    if (block == NULL && request->lane != NULL) {
        block = take_beside(space, request); /* what siblings' streams passed */
    }
    wm_space_say_ends(space);
    return block;
}

static wm_block *take_quietly(wm_space *space, const wm_request *request)
{
    warm_error before = {.size = sizeof before};
    int cancel = wm_cancel_off();
    wm_block *block;

    warm_last_error(&before);
    block = take_passed(space, request);
    if (block == NULL) {
        (void)wm_space_reclaim(space, request, false, &block);
        if (block != NULL) {
            wm_cache_tag_block(&space->group, request, block);
        }
    }
    wm_error_restore(&before);
    wm_cancel_restore(cancel);
    return block;
}

/* Before anything is obtained: of what its own thread has, or that others have
 * not, or do not need any more. */
static wm_block *take_around(wm_space *space, const wm_request *request)
{
    wm_block *block;

    if (wm_space_decays(space)) {
        return take_beside(space, request);
    }
    block = wm_cache_take_own(&space->group, request);
    return block != NULL ? block : take_quietly(space, request);
}

static warm_status alloc_slow(wm_space *space, const wm_request *request,
                              void **pointer)
{
    wm_space_work work;
    bool apart = is_for_graphs(request);
    wm_block *block = NULL;
    warm_status status = wm_space_check_asking(space);

    if (status != WARM_OK) {
        return status;
    }
    block = apart ? NULL : take_around(space, request);
    if (block != NULL) {
        *pointer = block->base;
        return WARM_OK;
    }
    status = wm_space_work_begin(space, &work);
    if (status == WARM_OUT_OF_MEMORY) {
        return out_of_memory(space, request, &work);
    }
    if (status != WARM_OK) {
        return status;
    }
    status = apart ? climb_for_graphs(space, request, &block)
                   : climb(space, request, &block);
    if (status == WARM_OK) {
        wm_cache_tag_block(&space->group, request, block);
        *pointer = block->base;
    } else if (status == WARM_OUT_OF_MEMORY) {
        status = out_of_memory(space, request, &work);
    }
    wm_space_work_end(space, &work, status == WARM_OK);
    return status;
}

warm_status wm_space_alloc(wm_space *space, const wm_request *request,
                           void **pointer)
{
    warm_status status = wm_driver_look(space->driver, space->group.device);
    wm_block *block;

    if (wm_unlikely(status != WARM_OK)) {
        return status;
    }
    block = take_idle(space, request, WM_SPLIT_GOOD_FIT);
    if (block != NULL) {
        *pointer = block->base;
    } else {
        status = alloc_slow(space, request, pointer);
    }
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
