/* memory.c: the public functions on blocks (memory.h). The hits are here, from
 * end to end; misses go to the space. */
#include "warmpool/memory.h"

#include "alloc/device_space.h"
#include "alloc/gather_hit.h"
#include "alloc/magazine_lane.h"
#include "alloc/node.h"
#include "alloc/page_map.h"
#include "alloc/pageable.h"
#include "alloc/pinned.h"
#include "alloc/private_pool.h"
#include "alloc/traced.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

_Static_assert(WARM_NODE_ANY == WM_NODE_UNKNOWN, "passed on as it is");

static warm_status alloc_missed(wm_window *window, size_t bytes, void **pointer)
    __attribute__((noinline));
static warm_status alloc_slow(warm_runtime *runtime, size_t bytes,
                              void **pointer) __attribute__((noinline, cold));
static warm_status alloc_on_slow(warm_runtime *runtime, size_t bytes, int node,
                                 unsigned flags, void **pointer)
    __attribute__((noinline, cold));
static warm_status free_slow(void *pointer) __attribute__((noinline));
static warm_status free_used(wm_window *window, wm_block *block, void *pointer)
    __attribute__((noinline));
static warm_status free_found(wm_window *window, void *pointer)
    __attribute__((noinline));

/* Pageable memory for a request that page-locked memory cannot be had for;
 * where there is none either, it is refused as if nobody had asked for that. */
static warm_status serve_pageable(wm_pinned *pinned, wm_request *request,
                                  void **pointer)
{
    warm_error before = {.size = sizeof before};
    warm_status status;

    warm_last_error(&before);
    status = wm_pageable_alloc(&pinned->pageable, request->bytes, pointer);
    if (status == WARM_OK) {
        wm_error_restore(&before);
        return status;
    }
    wm_error_restore(request->cause);
    return wm_space_refuse(&pinned->space, request);
}

static warm_status serve(warm_runtime *runtime, wm_request *request,
                         void **pointer)
{
    warm_status status = WARM_OK;

    if (pointer == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "pointer is null");
    }
    if (request->bytes == 0) {
        *pointer = NULL;
        return WARM_OK;
    }
    if (request->bytes > WM_REQUEST_MAX) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "%zu bytes of pinned memory were asked for, more than "
                       "any machine has",
                       request->bytes);
    }
    if (!request->strict) {
        request->arena =
            wm_magazines_arena(&runtime->pinned->space, wm_node_home(runtime));
    }
    if (wm_private_routes(runtime)) {
        status = wm_private_route_pinned(&runtime->pinned->space, request);
    }
    if (status == WARM_OK) {
        status = wm_space_alloc(&runtime->pinned->space, request, pointer);
    }
    if (request->arena->pool != NULL) {
        wm_private_routed(request->arena->pool);
    }
    if (status == WARM_OUT_OF_MEMORY && request->cause != NULL) {
        status = serve_pageable(runtime->pinned, request, pointer);
    }
    if (wm_unlikely(runtime->told) && status == WARM_OK) {
        wm_traced_alloc(runtime, *pointer, request->bytes);
    }
    return status;
}

warm_status warm_pinned_alloc(warm_runtime *runtime, size_t bytes,
                              void **pointer)
{
    wm_window *window = wm_window_mine();

    if (!wm_magazine_may_hit(window, runtime, bytes, pointer)) {
        return alloc_slow(runtime, bytes, pointer);
    }
    if (wm_likely(wm_magazine_alloc(window, wm_private_routing(runtime), bytes,
                                    WM_NODE_UNKNOWN, pointer))) {
        return WARM_OK;
    }
    return alloc_missed(window, bytes, pointer);
}

/* For the window's runtime, which a hit does not keep at hand. */
static warm_status alloc_missed(wm_window *window, size_t bytes, void **pointer)
{
    warm_runtime *runtime = window->owner;

    if (wm_magazine_alloc_larger(window, wm_private_routing(runtime), bytes,
                                 pointer)) {
        return WARM_OK;
    }
    return alloc_slow(runtime, bytes, pointer);
}

static warm_status alloc_slow(warm_runtime *runtime, size_t bytes,
                              void **pointer)
{
    wm_request request = {.bytes = bytes};
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK ? serve(runtime, &request, pointer) : status;
}

warm_status warm_pinned_alloc_on(warm_runtime *runtime, size_t bytes, int node,
                                 unsigned flags, void **pointer)
{
    wm_window *window = wm_window_mine();

    if (wm_magazine_may_hit(window, runtime, bytes, pointer) &&
        (flags & ~WARM_ALLOC_PAGEABLE_OK) == 0 &&
        wm_likely(wm_magazine_alloc(window, wm_private_routing(runtime), bytes,
                                    node, pointer))) {
        return WARM_OK;
    }
    return alloc_on_slow(runtime, bytes, node, flags, pointer);
}

static warm_status alloc_on_slow(warm_runtime *runtime, size_t bytes, int node,
                                 unsigned flags, void **pointer)
{
    warm_error cause = {.size = sizeof cause};
    wm_request request = {
        .bytes = bytes,
        .strict = node != WARM_NODE_ANY,
        .cause = (flags & WARM_ALLOC_PAGEABLE_OK) != 0 ? &cause : NULL};
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && (flags & ~WARM_ALLOC_PAGEABLE_OK) != 0) {
        status =
            wm_fail(WARM_INVALID_ARGUMENT, "flags %#x are not known", flags);
    }
    if (status == WARM_OK && request.strict) {
        status = wm_node_check(runtime, node);
    }
    if (status == WARM_OK && request.strict) {
        request.arena = wm_magazines_arena(&runtime->pinned->space, node);
    }
    return status == WARM_OK ? serve(runtime, &request, pointer) : status;
}

static warm_status not_a_block(const void *pointer, const wm_block *block)
{
    if (wm_is_imported(pointer)) {
        return wm_fail(WARM_INVALID_POINTER,
                       "%p is memory of another process: it is closed with "
                       "warm_ipc_close()",
                       pointer);
    }
    if (block != NULL) {
        return wm_fail(WARM_INVALID_POINTER,
                       "%p is not the start of a live block: it points into "
                       "one, or was freed already",
                       pointer);
    }
    return wm_fail(WARM_INVALID_POINTER,
                   "%p was not allocated here, or its runtime is gone",
                   pointer);
}

/* LIVE → FREEING, so that of two frees of one pointer one is refused. The base
 * is looked at again: the record of a stale pointer may serve another block. */
static bool claim(wm_block *block, const void *pointer)
{
    wm_state live = atomic_load_explicit(&block->state, memory_order_relaxed);

    if (wm_state_kind(live) != WM_BLOCK_LIVE ||
        !atomic_compare_exchange_strong_explicit(
            &block->state, &live, WM_BLOCK_FREEING, memory_order_acquire,
            memory_order_relaxed)) {
        return false;
    }
    if (block->base != pointer) {
        atomic_store_explicit(&block->state, live, memory_order_release);
        return false;
    }
    (void)wm_use_own(block);
    return true;
}

/* What comes of a free by the thread's own means. */
enum free_result {
    FREED,
    NOT_OURS,
    USED,   /* by streams, perhaps */
    NO_ROOM /* or it is not to be kept, or not known whether */
};

/* In the section. block: that starts at pointer, if it is the thread's. */
static inline __attribute__((always_inline)) enum free_result
free_ours(wm_window *window, wm_block *block, void *pointer)
{
    /* Before the state: what this thread recorded is missing only if another
     * one frees the block as well, and the state told that before. */
    const wm_timeline *own = wm_block_own(block);
    /* Acquire: its other fields are those of its owner then. */
    wm_state state = atomic_load_explicit(&block->state, memory_order_acquire);

    if (wm_magazine_is_of(window, state)) {
        if (wm_unlikely(!wm_block_starts_at(block, pointer))) {
            return NOT_OURS;
        }
        /* No other thread has recorded, and no capture has it: the state says
         * it. */
        if (own != NULL) {
            return USED;
        }
        return wm_likely(wm_magazine_free(window, block, pointer)) ? FREED
                                                                   : NO_ROOM;
    }
    if (wm_lane_may_free(window, block, state, pointer)) {
        return wm_likely(wm_lane_push(window, state, block, pointer)) ? FREED
                                                                      : NO_ROOM;
    }
    return NOT_OURS;
}

/* A hit has nothing to come back to: all else are calls at its end. */
warm_status warm_free(void *pointer)
{
    wm_window *window = wm_window_mine();
    wm_block *block = wm_magazine_guess(window, pointer);

    if (wm_likely(block != NULL) &&
        wm_likely(wm_section_enter(&window->section))) {
        enum free_result result = free_ours(window, block, pointer);

        wm_section_leave(&window->section);
        if (wm_likely(result == FREED)) {
            return WARM_OK;
        }
        if (result == USED) {
            return free_used(window, block, pointer);
        }
    }
    return free_found(window, pointer);
}

/* By its state. */
static bool is_ours(wm_window *window, wm_block *block)
{
    wm_state state = atomic_load_explicit(&block->state, memory_order_relaxed);

    return wm_magazine_is_of(window, state) || wm_lane_is_of(window, state);
}

static warm_status free_used(wm_window *window, wm_block *block, void *pointer)
{
    /* Relaxed: as above. */
    const wm_timeline *own =
        atomic_load_explicit(&block->own, memory_order_relaxed);

    return wm_likely(own != NULL) && wm_likely(wm_gather_free(window, block))
               ? WARM_OK
               : free_slow(pointer);
}

static warm_status free_other(wm_window *window, wm_block *block, void *pointer)
{
    /* Acquire: its other fields are those of its owner then. */
    wm_state state = atomic_load_explicit(&block->state, memory_order_acquire);

    return wm_likely(wm_magazine_free_other(window, block, state, pointer))
               ? WARM_OK
               : free_slow(pointer);
}

/* The same of a block that the page map tells. */
static warm_status free_found(wm_window *window, void *pointer)
{
    wm_block *block = wm_block_from(pointer);
    enum free_result result = NOT_OURS;

    if (block != NULL && !is_ours(window, block)) {
        return free_other(window, block, pointer);
    }
    if (block == NULL || !wm_section_enter(&window->section)) {
        return free_slow(pointer);
    }
    result = free_ours(window, block, pointer);
    wm_section_leave(&window->section);
    switch (result) {
    case FREED:
        return WARM_OK;
    case USED:
        return free_used(window, block, pointer);
    case NO_ROOM:
        return wm_lane_free_slow(window, block) ? WARM_OK : free_slow(pointer);
    case NOT_OURS:
    default:
        return free_slow(pointer);
    }
}

static warm_status free_slow(void *pointer)
{
    warm_runtime *runtime;
    wm_block *block;
    warm_status status;

    if (pointer == NULL) {
        return WARM_OK;
    }
    block = wm_block_from(pointer);
    /* The state first: only a live block says truly whose it is (acquire: the
     * fields were written before). And nothing is claimed for a pointer into
     * the middle, not even for a moment: the block's owner may free it right
     * now. */
    if (block == NULL ||
        wm_state_kind(atomic_load_explicit(
            &block->state, memory_order_acquire)) != WM_BLOCK_LIVE ||
        block->base != pointer) {
        return not_a_block(pointer, wm_block_at(pointer));
    }
    runtime = wm_space_of(block)->runtime;
    status = wm_runtime_check(runtime);
    if (status != WARM_OK) {
        return status;
    }
    if (!claim(block, pointer)) {
        return not_a_block(pointer, block);
    }
    if (wm_unlikely(runtime->told)) {
        wm_traced_free(runtime, block);
    }
    wm_space_free(wm_space_of(block), block);
    return WARM_OK;
}

static warm_status find_live(const void *pointer, wm_block **block)
{
    *block = wm_space_find(pointer);
    if (*block == NULL) {
        return wm_fail(
            WARM_NOT_FOUND, "%p is not part of a live block%s", pointer,
            wm_is_imported(pointer) ? ", but memory of another process" : "");
    }
    return wm_runtime_check(wm_space_of(*block)->runtime);
}

static warm_status record_slow(const void *pointer, warm_stream stream)
    __attribute__((noinline));

/* The block that starts at pointer if the thread was handed it; or null. */
static inline __attribute__((always_inline)) wm_block *
guess(wm_window *window, const void *pointer)
{
    wm_block *block = wm_magazine_guess(window, pointer);
    bool ours = false;

    if (wm_likely(block != NULL) &&
        wm_likely(wm_section_enter(&window->section))) {
        ours = wm_magazine_owns(window, block) &&
               wm_likely(wm_block_starts_at(block, pointer));
        wm_section_leave(&window->section);
    }
    return ours ? block : NULL;
}

warm_status warm_record_stream(const void *pointer, warm_stream stream)
{
    wm_window *window = wm_window_mine();
    wm_block *block = guess(window, pointer);

    if (wm_unlikely(block == NULL)) {
        block = wm_block_from(pointer);
    }
    /* A block of the window's own: its runtime is the window's. */
    if (wm_magazine_owns(window, block) &&
        wm_likely((size_t)((const char *)pointer - block->base) <
                  block->bytes) &&
        wm_likely(wm_gather_record(window, block, stream))) {
        return WARM_OK;
    }
    return record_slow(pointer, stream);
}

static warm_status record_slow(const void *pointer, warm_stream stream)
{
    wm_block *block;
    warm_status status = find_live(pointer, &block);

    if (status == WARM_OK) {
        status = wm_space_record(wm_space_of(block), block, stream);
    }
    if (status == WARM_OK && wm_unlikely(wm_space_of(block)->runtime->told)) {
        wm_traced_use(wm_space_of(block)->runtime, block, stream, WM_TRACE_USE);
    }
    return status;
}

warm_status warm_block_get_info(const void *pointer, warm_block_info *info)
{
    wm_block *block;
    warm_status status = wm_sized_check(info, sizeof *info, "warm_block_info");

    if (status == WARM_OK) {
        status = find_live(pointer, &block);
    }
    if (status == WARM_OK) {
        warm_block_info all = {.base = block->base,
                               .bytes = block->bytes,
                               .requested = wm_block_requested(block),
                               .runtime = wm_space_of(block)->runtime,
                               .streams = wm_timelines_streams(block),
                               .node = block->segment->arena->node,
                               .device = wm_device_of_block(block),
                               .pageable = wm_space_of(block)->traits ==
                                           &wm_pageable_traits};

        wm_sized_out(info, &all, sizeof all);
    }
    return status;
}
