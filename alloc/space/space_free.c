/* space_free.c: finds, frees and records blocks of all spaces. Completed blocks
 * become idle; blocks that may be in use for ever are leaked, and logged. */
#include "alloc/space/space_int.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"
#include "alloc/cache/magazine_hit.h"
#include "alloc/stream/stream_lane.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- leaked blocks ------------------------------------------------------ */

/* Logs a leaked block, once for each cause: a broken driver would fill the log.
 * Not once the process is exiting: no driver tells of streams then. segment:
 * bytes that leak with the block, or 0 if that is not known. */
static void log_leak(_Atomic bool *logged, size_t bytes, size_t segment,
                     const char *why)
{
    char with[64] = "";

    if (wm_process_exiting()) {
        return;
    }
    if (segment > 0) {
        snprintf(with, sizeof with, ", and its segment of %s with it",
                 wm_bytes(segment).text);
    }
    /* Relaxed: a flag. */
    if (!atomic_exchange_explicit(logged, true, memory_order_relaxed)) {
        wm_log(WARM_LOG_WARNING, "a block of %s is leaked%s: %s",
               wm_bytes(bytes).text, with, why);
    }
}

void wm_space_log_lost(wm_space *space)
{
    size_t bytes;
    warm_stream stream =
        wm_timelines_unannounced(space->group.timelines, &bytes);

    /* Relaxed: a size for a message. */
    if (wm_unlikely(atomic_load_explicit(&space->lost, memory_order_relaxed) !=
                    0)) {
        log_leak(
            &space->lost_logged,
            atomic_exchange_explicit(&space->lost, 0, memory_order_relaxed), 0,
            "the driver cannot tell whether it is in use");
    }
    if (wm_unlikely(stream != NULL)) {
        wm_log(WARM_LOG_WARNING,
               "%s of freed blocks are leaked: stream %p, which used them, is "
               "adopted and captures without an announcement, so that its "
               "graph may use them; call warm_capture_announce() before a "
               "capture begins",
               wm_bytes(bytes).text, stream);
    }
}

void wm_space_finish(wm_block *chain)
{
    while (chain != NULL) {
        wm_block *next = chain->next_done;
        wm_ended ended = {0};
        wm_segment *segment;
        wm_space *space, *poller;

        if (wm_fence_complete(chain)) {
            chain = next;
            continue;
        }
        space = wm_space_of(chain);
        poller = space->poller;
        segment = chain->segment;
        if (space->traits->freed != NULL) { /* called for each block */
            chain->next_done = NULL;
            (void)wm_arena_finish(segment->arena, chain, &ended);
            space->traits->freed(space, segment);
            chain = next;
        } else {
            chain = wm_arena_finish(segment->arena, chain, &ended);
        }
        /* Relaxed: a size for a message, which wm_space_log_lost() logs: the
         * log callback may call the library. */
        if (wm_unlikely(ended.lost > 0)) {
            atomic_store_explicit(&poller->lost, ended.lost,
                                  memory_order_relaxed);
        }
    }
}

/* ---- blocks ----------------------------------------------------------- */

wm_block *wm_space_find(const void *pointer)
{
    wm_block *block = wm_block_at(pointer);

    /* Acquire: the fields were written before LIVE. */
    if (block == NULL ||
        wm_state_kind(atomic_load_explicit(
            &block->state, memory_order_acquire)) != WM_BLOCK_LIVE) {
        return NULL;
    }
    /* Relaxed: of a block that another thread is freeing at this moment, what
     * it was or will be. */
    return (uintptr_t)pointer - (uintptr_t)atomic_load_explicit(
                                    &block->base_seen, memory_order_relaxed) <
                   atomic_load_explicit(&block->bytes_seen,
                                        memory_order_relaxed)
               ? block
               : NULL;
}

warm_status wm_space_check_left(const void *pointer)
{
    return wm_is_left_behind(pointer)
               ? wm_fail(WARM_RUNTIME_GONE,
                         "%p is memory of a runtime that was destroyed while "
                         "the block was in use (warm_destroy_report): it stays "
                         "usable and is never returned; free blocks before "
                         "warm_runtime_destroy()",
                         pointer)
               : WARM_OK;
}

warm_status wm_space_not_found(const void *pointer, const char *of)
{
    warm_status status = wm_space_check_left(pointer);

    if (status != WARM_OK) {
        return status;
    }
    return wm_fail(
        WARM_NOT_FOUND, "%p is not part of a live block%s%s", pointer, of,
        wm_is_imported(pointer)          ? ", but memory of another process"
        : wm_space_find(pointer) != NULL ? ", but of one of host memory"
                                         : "");
}

static void log_captured(wm_space *space, const wm_arena *arena, size_t bytes,
                         size_t with)
{
    uint64_t pool = wm_arena_pool_number(arena);
    char why[200];

    if (pool != 0) {
        snprintf(why, sizeof why,
                 "a graph capture used it, and it is of private pool %" PRIu64
                 ", which is not for graphs: begin a pool without "
                 "WARM_POOL_USER for what graphs use",
                 pool);
    }
    log_leak(&space->captured_logged, bytes, with,
             pool != 0 ? why
             : arena->pool != NULL
                 ? "a graph capture used it, and its private pool has ended; "
                   "release a pool after the graphs that use its blocks"
                 : "a graph capture used it, and it is of no private pool; "
                   "call warm_thread_set_stream() and "
                   "warm_private_pool_begin() before a capture, and allocate "
                   "what the graph uses in it");
}

static void leak(wm_space *space, wm_block *block, enum wm_block_state state)
{
    wm_segment *segment = block->segment;
    size_t bytes = block->bytes;
    /* The rest of a block in pieces is less than one. */
    bool whole = !wm_block_is_cut(block);
    size_t with = whole ? segment->bytes : 0;

    wm_cache_count_free(&space->group, block);
    wm_arena_free(segment->arena, block, state);
    if (state == WM_BLOCK_LOST) {
        log_leak(&space->lost_logged, bytes, with, warm_last_error_message());
    } else {
        log_captured(space, segment->arena, bytes, with);
    }
    if (space->traits->freed != NULL) {
        space->traits->freed(space, segment);
    }
}

static inline void free_unused(wm_space *space, wm_block *block)
{
    wm_segment *segment = block->segment;
    wm_arena *arena = segment->arena;

    if (wm_cache_free(&space->group, block)) {
        return;
    }
    wm_arena_free(arena, block, WM_BLOCK_IDLE);
    wm_lanes_cover(arena);
    if (space->traits->freed != NULL) {
        space->traits->freed(space, segment);
    }
}

/* Allowed while a stream captures: the only forbidden step is to wait for a
 * stream, and the timeline relaxes the capture mode for that. */
static void free_used(wm_space *space, wm_block *block, wm_stream_use *uses)
{
    warm_stream one =
        block->bytes <= WM_PENDING_OTHERS ? wm_pending_use_stream(uses) : NULL;

    WM_KEEP_ERROR();
    switch (wm_timelines_prepare(space->group.timelines, block)) {
    case WM_USES_NONE:
        if (wm_runtime_is_traced(space->group.runtime)) {
            wm_traced_unused(space->group.runtime, block);
        }
        free_unused(space, block);
        break;
    case WM_USES_PENDING:
        wm_cache_count_free(&space->group, block);
        wm_arena_free(block->segment->arena, block, WM_BLOCK_PENDING);
        wm_timelines_publish(space->group.timelines, block);
        wm_waker_note_pending(space->group.waker);
        break;
    case WM_USES_LOST:
        leak(space, block, WM_BLOCK_LOST);
        break;
    case WM_USES_CAPTURED:
        leak(space, block, WM_BLOCK_CAPTURED);
        break;
    }
    wm_pending_attach(&space->group, one,
                      true); /* batches the next such free */
    wm_space_log_lost(space);
}

/* Users hold the block: it waits for them as it waits for streams. */
static void free_retained(wm_space *space, wm_block *block)
{
    wm_timelines *timelines = space->group.timelines;
    enum wm_uses fate;

    WM_KEEP_ERROR();
    fate = wm_timelines_prepare(timelines, block);
    if (fate == WM_USES_LOST || fate == WM_USES_CAPTURED) {
        leak(space, block,
             fate == WM_USES_LOST ? WM_BLOCK_LOST : WM_BLOCK_CAPTURED);
    } else {
        wm_timelines_retain(block);
        wm_arena_free(block->segment->arena, block, WM_BLOCK_PENDING);
        wm_timelines_publish(timelines, block); /* its uses, if any */
        wm_waker_note_pending(space->group.waker);
    }
    space->traits->retained(space, block);
    wm_space_log_lost(space);
}

/* A block that users may hold; it is of no private pool, and never batched. */
static void free_retainable(wm_space *space, wm_block *block,
                            wm_stream_use *uses)
{
    bool captured =
        atomic_load_explicit(&block->captured, memory_order_relaxed);

    if (space->traits->is_retained(space, block)) {
        free_retained(space, block);
    } else if (uses != NULL || captured) {
        free_used(space, block, uses);
    } else {
        if (wm_unlikely(space->group.debug != NULL)) {
            wm_debug_idle(block);
        }
        free_unused(space, block);
    }
}

static void free_of_pool(wm_space *space, wm_block *block, wm_stream_use *uses)
{
    struct wm_private_arena *own = block->segment->arena->pool;
    bool captured =
        atomic_load_explicit(&block->captured, memory_order_relaxed);

    if ((uses != NULL || captured) &&
        wm_arena_retain(block->segment->arena, block)) {
        return;
    }
    if (uses == NULL &&
        !atomic_load_explicit(&block->captured, memory_order_relaxed)) {
        if (wm_runtime_is_traced(space->group.runtime) && captured) {
            wm_traced_unused(space->group.runtime, block);
        }
        free_unused(space, block);
    } else {
        free_used(space, block, uses);
    }
    wm_space_tend_pools(space, own);
}

void wm_space_free(wm_space *space, wm_block *block)
{
    /* Acquire pairs with the push of a use by another thread. */
    wm_stream_use *uses =
        atomic_load_explicit(&block->uses, memory_order_acquire);

    if (wm_unlikely(space->traits->is_retained != NULL)) {
        free_retainable(space, block, uses);
    } else if (wm_unlikely(block->segment->arena->pool != NULL)) {
        free_of_pool(space, block, uses);
    } else if (uses == NULL &&
               !atomic_load_explicit(&block->captured, memory_order_relaxed)) {
        free_unused(space, block);
    } else if (!wm_pending_free_other(&space->group, block, uses)) {
        free_used(space, block, uses);
    }
}

warm_status wm_space_record(wm_space *space, wm_block *block,
                            warm_stream stream)
{
    bool adopted = false;
    warm_status status =
        wm_stream_record(space->group.timelines, block, stream,
                         wm_magazine_owns(wm_window_mine(), block), &adopted);

    if (adopted) {
        /* The next record on the stream is a hit. */
        wm_pending_attach(&space->group, stream, false);
    }
    return status;
}

void wm_space_retire(wm_space *space, warm_stream stream,
                     const wm_stream_info *info)
{
    WM_KEEP_ERROR();
    wm_timelines_retire(space->group.timelines, stream, info);
}
