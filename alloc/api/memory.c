/* memory.c: the public functions of blocks (memory.h), except warm_free(). Hits
 * are inlined here; misses call the space. */
#include "warmpool/memory.h"

#include "alloc/kinds/device_space.h"
#include "alloc/cache/pending_hit.h"
#include "runtime/thread/home_node.h"
#include "alloc/block/page_map.h"
#include "alloc/kinds/adopt.h"
#include "alloc/kinds/pinned.h"
#include "alloc/private_pool/private_pool.h"
#include "alloc/arena/arena.h"
#include "runtime/base/sized.h"
#include "runtime/base/bytes.h"
#include "runtime/base/os_page.h"
#include "runtime/base/status.h"

#include <inttypes.h>

_Static_assert(WARM_NODE_ANY == WM_NODE_UNKNOWN, "passed on as it is");

/* space: the page-locked one; or the write-combined one, which private pools do
 * not serve, for a strict request. */
static inline __attribute__((always_inline)) warm_status
serve(wm_space *space, wm_request *request, void **pointer)
{
    warm_runtime *runtime = space->group.runtime;
    wm_pinned *pinned = runtime->pinned;
    warm_status status = WARM_OK;
    void *block = NULL;
    bool huge;

    if (pointer == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "pointer is null");
    }
    if (request->bytes == 0) {
        *pointer = NULL;
        return WARM_OK;
    }
    if (!request->strict) {
        request->arena = wm_cache_arena(&space->group, wm_node_home(runtime));
    }
    huge = request->bytes > WM_REQUEST_MAX;
    request->bytes += space->group.guard_bytes;
    if (huge) {
        return wm_space_refuse_huge(space, request);
    }
    if (wm_private_routes(runtime) && space == &pinned->space) {
        status = wm_private_route_pinned(space, request);
    }
    if (status == WARM_OK) {
        status = wm_space_alloc(space, request, pointer);
    }
    if (request->arena->pool != NULL) {
        wm_private_routed(request->arena->pool);
    }
    if (status == WARM_OUT_OF_MEMORY && request->cause != NULL) {
        status = wm_pageable_alloc(&pinned->pageable, request->bytes, &block);
        if (status == WARM_OK && request->alignment != 0) {
            status = wm_space_align(request, wm_space_find(block), &block);
        }
        if (status == WARM_OK) {
            *pointer = block;
        } else { /* the message is that of pinned memory */
            wm_error_restore(request->cause);
            status = wm_space_refuse(space, request, "");
        }
    }
    if (wm_runtime_is_traced(runtime) && status == WARM_OK) {
        wm_traced_alloc(runtime, *pointer, NULL);
    }
    return status;
}

static __attribute__((noinline)) warm_status
alloc_slow(warm_runtime *runtime, size_t bytes, void **pointer)
{
    wm_request request = {.bytes = bytes};
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK ? serve(&runtime->pinned->space, &request, pointer)
                             : status;
}

/* A miss on the window's runtime, read again here so that a hit need not keep
 * it in a register. */
static __attribute__((noinline)) warm_status
alloc_missed(wm_window *window, size_t bytes, void **pointer)
{
    warm_runtime *runtime = window->owner;

    if (wm_magazine_alloc_any(window, wm_private_routing(runtime), bytes,
                              pointer)) {
        return WARM_OK;
    }
    return alloc_slow(runtime, bytes, pointer);
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

/* ---- flags --------------------------------------------------------------- */

static warm_status check_mapped(const warm_runtime *runtime)
{
    for (int i = 0; i < runtime->devices; i++) {
        bool maps = false;
        warm_status status = wm_driver_maps_host(runtime->driver, i, &maps);

        if (status != WARM_OK) {
            return status;
        }
        if (!maps) {
            return wm_fail(WARM_UNSUPPORTED,
                           "WARM_ALLOC_MAPPED: device %d cannot access "
                           "page-locked memory of the host",
                           i);
        }
    }
    return WARM_OK;
}

static warm_status check_flags(const warm_runtime *runtime, int node,
                               unsigned flags)
{
    const unsigned kinds = WARM_ALLOC_WRITE_COMBINED | WARM_ALLOC_MAPPED;

    if ((flags & ~(WARM_ALLOC_PAGEABLE_OK | kinds)) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "unknown flags %#x: the flags are "
                       "WARM_ALLOC_PAGEABLE_OK, WARM_ALLOC_WRITE_COMBINED and "
                       "WARM_ALLOC_MAPPED",
                       flags);
    }
    if ((flags & WARM_ALLOC_PAGEABLE_OK) != 0 && (flags & kinds) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "flags %#x: pageable memory (WARM_ALLOC_PAGEABLE_OK) is "
                       "neither write-combined nor mapped",
                       flags);
    }
    if ((flags & WARM_ALLOC_WRITE_COMBINED) != 0 && node != WARM_NODE_ANY) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "write-combined memory of node %d: the driver chooses "
                       "where it lies; use WARM_NODE_ANY",
                       node);
    }
    return (flags & WARM_ALLOC_MAPPED) != 0 ? check_mapped(runtime) : WARM_OK;
}

/* The space that serves a request on any node with these flags. */
static wm_space *space_for(warm_runtime *runtime, unsigned flags,
                           wm_request *request)
{
    wm_pinned *pinned = runtime->pinned;

    if ((flags & WARM_ALLOC_WRITE_COMBINED) == 0) {
        return &pinned->space;
    }
    request->strict = true;
    request->arena = pinned->combined.group.arenas;
    return &pinned->combined;
}

static __attribute__((noinline, cold)) warm_status
alloc_on_slow(warm_runtime *runtime, size_t bytes, int node, unsigned flags,
              void **pointer)
{
    warm_error cause = {.size = sizeof cause};
    wm_request request = {
        .bytes = bytes,
        .strict = node != WARM_NODE_ANY,
        .cause = (flags & WARM_ALLOC_PAGEABLE_OK) != 0 ? &cause : NULL};
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK ||
        (status = check_flags(runtime, node, flags)) != WARM_OK) {
        return status;
    }
    wm_space *space = space_for(runtime, flags, &request);
    if (node != WARM_NODE_ANY) {
        status = wm_node_check(runtime, node);
        if (status != WARM_OK) {
            return status;
        }
        request.arena = wm_cache_arena(&space->group, node);
    }
    return serve(space, &request, pointer);
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

/* ---- aligned blocks ------------------------------------------------------ */

/* A block that needs several pieces begins where a segment does, so that its
 * aligned start lies in the first piece; its bytes are more than a piece. */
static warm_status align_pieces(const wm_arena_group *group,
                                wm_request *request)
{
    size_t most = group->piece_bytes;
    size_t asked = request->asked > most ? request->asked : most + 1;

    if (most == 0 ||
        wm_arena_align_bytes(request->asked, request->alignment) <= most) {
        return WARM_OK;
    }
    if (request->alignment > most / 2) {
        return wm_fail(WARM_UNSUPPORTED,
                       "%s of pinned memory cannot be aligned to %s: it needs "
                       "several pieces, and a piece of at most %s (option "
                       "pin_chunk) is less than twice the alignment",
                       wm_bytes(request->asked - group->guard_bytes).text,
                       wm_bytes(request->alignment).text, wm_bytes(most).text);
    }
    request->row = WM_PAGE;
    request->bytes =
        wm_arena_align_bytes(asked, request->alignment) - group->guard_bytes;
    return WARM_OK;
}

static warm_status alloc_aligned(warm_runtime *runtime, size_t bytes,
                                 size_t alignment, unsigned flags,
                                 void **pointer)
{
    warm_error cause = {.size = sizeof cause};
    wm_request request = {
        .alignment = alignment,
        .cause = (flags & WARM_ALLOC_PAGEABLE_OK) != 0 ? &cause : NULL};
    wm_space *space = space_for(runtime, flags, &request);
    const wm_arena_group *group = &space->group;
    warm_status status = check_flags(runtime, WARM_NODE_ANY, flags);

    if (status != WARM_OK) {
        return status;
    }
    request.asked = bytes + group->guard_bytes;
    /* serve() adds the guard. */
    request.bytes =
        wm_arena_align_bytes(request.asked, alignment) - group->guard_bytes;
    status = align_pieces(group, &request);
    return status == WARM_OK ? serve(space, &request, pointer) : status;
}

warm_status warm_pinned_alloc_aligned(warm_runtime *runtime, size_t bytes,
                                      size_t alignment, unsigned flags,
                                      void **pointer)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK ||
        (status = wm_space_check_alignment(alignment)) != WARM_OK) {
        return status;
    }
    /* 0 and too many bytes are answered there, too. */
    return bytes == 0 || bytes > WM_REQUEST_MAX ||
                   wm_arena_is_aligned(bytes, alignment)
               ? warm_pinned_alloc_on(runtime, bytes, WARM_NODE_ANY, flags,
                                      pointer)
               : alloc_aligned(runtime, bytes, alignment, flags, pointer);
}

/* ---- pieces (row B19) --------------------------------------------------- */

/* For a block that needs several pieces, sets the request's rows. */
static warm_status cut_between_rows(const wm_arena_group *group, size_t row,
                                    wm_request *request)
{
    size_t most = group->piece_bytes;

    if (row == 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "rows of 0 bytes: a row has at least 1");
    }
    if (most == 0 || request->bytes == 0 || request->bytes > WM_REQUEST_MAX ||
        wm_size_run_bytes(request->bytes + group->guard_bytes) <= most) {
        return WARM_OK;
    }
    if (wm_size_piece(most, row, wm_os_page()) == 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%s of pinned memory cannot be cut between rows of %s: "
                       "no piece of at most %s (option pin_chunk) is both "
                       "whole rows and whole pages; pad the rows, or set "
                       "pin_chunk to a multiple of both",
                       wm_bytes(request->bytes).text, wm_bytes(row).text,
                       wm_bytes(most).text);
    }
    request->row = row;
    return WARM_OK;
}

warm_status warm_pinned_alloc_rows(warm_runtime *runtime, size_t bytes,
                                   size_t row, void **pointer)
{
    wm_request request = {.bytes = bytes};
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK ||
        (status = cut_between_rows(&runtime->pinned->space.group, row,
                                   &request)) != WARM_OK) {
        return status;
    }
    return request.row == 0 ? warm_pinned_alloc(runtime, bytes, pointer)
                            : serve(&runtime->pinned->space, &request, pointer);
}

/* ---- live blocks -------------------------------------------------------- */

static warm_status find_live(const void *pointer, wm_block **block)
{
    *block = wm_space_find(pointer);
    if (*block == NULL) {
        return wm_space_not_found(pointer, "");
    }
    return wm_runtime_check(wm_space_of(*block)->group.runtime);
}

int warm_owns(const void *pointer)
{
    return wm_space_find(pointer) != NULL;
}

int warm_holds(const void *pointer)
{
    return wm_page_map_holds(pointer);
}

static __attribute__((noinline)) warm_status record_slow(const void *pointer,
                                                         warm_stream stream)
{
    wm_block *block;
    warm_status status = find_live(pointer, &block);

    if (status != WARM_OK) {
        return status;
    }
    wm_space *space = wm_space_of(block);
    status = wm_space_record(space, block, stream);
    if (status == WARM_OK && wm_runtime_is_traced(space->group.runtime)) {
        wm_traced_use(space->group.runtime, block, stream, WM_TRACE_USE);
    }
    return status;
}

/* The block that starts at pointer if the pointer cache has it; or null. */
static inline __attribute__((always_inline)) wm_block *
guess(wm_window *window, const void *pointer)
{
    wm_block *block = wm_pointer_cache_entry(window, pointer);
    bool ours = false;

    if (wm_likely(block != NULL) &&
        wm_likely(wm_biased_enter(&window->biased))) {
        ours = wm_magazine_owns(window, block) &&
               wm_likely(wm_block_starts_at(block, pointer));
        wm_biased_leave(&window->biased);
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
    /* A block of this window's cache: its runtime is the window's. */
    if (wm_magazine_owns(window, block) &&
        wm_likely((size_t)((const char *)pointer - block->base) <
                  block->bytes) &&
        wm_likely(wm_pending_record(window, block, stream))) {
        return WARM_OK;
    }
    return record_slow(pointer, stream);
}

static uint64_t segment_id(const wm_block *block)
{
    const wm_segment *segment = block->segment;
    warm_runtime *runtime = segment->arena->group->runtime;

    return wm_segment_ids_get(&runtime->segment_ids, segment->base);
}

/* Bytes from an address in a block up to its next cut; SIZE_MAX: there is none.
 */
static size_t to_cut(const wm_block *block, const char *at)
{
    return wm_block_is_cut(block) ? wm_block_to_cut(block, at)
                                  : wm_adopt_to_cut(block, at);
}

/* Pieces of a live block. */
static size_t pieces_of(const wm_block *block)
{
    size_t bytes = wm_block_usable(block);
    size_t first = to_cut(block, block->base), piece;

    if (bytes <= first) {
        return 1;
    }
    piece = to_cut(block, block->base + first);
    return 1 + (bytes - first + piece - 1) / piece;
}

warm_status warm_block_get_piece(const void *pointer, size_t index, void **base,
                                 size_t *bytes)
{
    wm_block *block;
    warm_status status = find_live(pointer, &block);
    size_t pieces, begin = 0, end;

    status = wm_check_given(status, base, "base");
    status = wm_check_given(status, bytes, "bytes");
    if (status != WARM_OK) {
        return status;
    }
    pieces = pieces_of(block);
    if (index >= pieces) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "there is no piece %" PRIu64 ": the block has %" PRIu64
                       ", numbered from 0",
                       (uint64_t)index, (uint64_t)pieces);
    }
    end = wm_block_usable(block);
    if (index > 0) {
        size_t first = to_cut(block, block->base);

        begin = first + (index - 1) * to_cut(block, block->base + first);
    }
    if (index + 1 < pieces) {
        end = begin + to_cut(block, block->base + begin);
    }
    *base = block->base + begin;
    *bytes = end - begin;
    return WARM_OK;
}

warm_status warm_block_get_info(const void *pointer, warm_block_info *info)
{
    wm_block *block;
    warm_status status = wm_sized_check(info, sizeof *info, "warm_block_info");

    if (status != WARM_OK || (status = find_live(pointer, &block)) != WARM_OK) {
        return status;
    }
    const wm_arena *arena = block->segment->arena;
    const wm_arena_group *group = arena->group;
    warm_block_info all = {.base = block->base,
                           .bytes = wm_block_usable(block),
                           .requested = wm_block_asked(block),
                           .runtime = group->runtime,
                           .streams =
                               wm_timelines_streams(group->timelines, block),
                           .node = arena->node,
                           .device = wm_device_of_block(block),
                           .pool = {wm_arena_pool_number(arena)},
                           .pageable = group->pageable,
                           .segment = block->segment->base,
                           .segment_bytes = block->segment->bytes,
                           .segment_id = segment_id(block),
                           .pieces = pieces_of(block)};
    wm_sized_out(info, &all, sizeof all);
    return WARM_OK;
}
