/* arena_bed.h: what the tests of arenas share: memory from mmap() instead of a
 * driver. */
#ifndef ARENA_BED_H
#define ARENA_BED_H

#include "wt.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

#include <sys/mman.h>

static inline void *bed_map(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert(base != MAP_FAILED);
    return base;
}

/* A block from a new segment; null without metadata. */
static inline wm_block *bed_grow(wm_arena *arena, wm_lane *lane, size_t segment,
                                 size_t bytes)
{
    void *base = bed_map(segment);
    wm_block *block = NULL;

    if (wm_arena_grow(arena, lane, base, segment, bytes, &block) != WARM_OK) {
        munmap(base, segment);
        return NULL;
    }
    return block;
}

static inline wm_block *bed_try(wm_arena *arena, wm_lane *lane, size_t bytes)
{
    bool starved = false;

    return wm_arena_take(arena, lane, bytes, WM_SPLIT_ALLOW, &starved);
}

static inline void bed_give(wm_block *block)
{
    ck_assert_ptr_nonnull(block);
    atomic_store_explicit(&block->state, WM_BLOCK_FREEING,
                          memory_order_relaxed);
    wm_arena_free(block->segment->arena, block, WM_BLOCK_IDLE);
}

/* Runs freed so far to the lane in the first arena. */
static inline uint64_t bed_puts(wm_arena *arena, const wm_lane *lane)
{
    wm_lane_point point;

    wm_lanes_puts(arena, lane, &point);
    return point.puts[0];
}

static inline void bed_pass(wm_arena *arena, const wm_lane *lane, uint64_t puts)
{
    wm_lanes_passed(arena, lane, &(wm_lane_point){{puts}});
}

/* Detaches bytes of idle memory; SIZE_MAX: all of it. */
static inline wm_segment *bed_detach(wm_arena *arena, size_t bytes)
{
    wm_purge purge = {.bytes = bytes, .before_ns = UINT64_MAX};

    return wm_arena_purge(arena, &purge);
}

static inline void bed_unmap(wm_arena *arena, size_t bytes)
{
    wm_segment *segment = bed_detach(arena, bytes);

    while (segment != NULL) {
        wm_segment *next = segment->next;

        munmap(segment->base, segment->bytes);
        wm_arena_released(arena, segment);
        segment = next;
    }
}

/* Of siblings in which nothing is live. */
static inline void bed_end(wm_arena *arenas, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ck_assert(wm_arena_check(arenas));
        bed_unmap(&arenas[i], SIZE_MAX);
        ck_assert_ptr_null(arenas[i].segments);
    }
    ck_assert(wm_arena_check(arenas));
    for (unsigned i = 0; i < count; i++) {
        wm_arena_fini(&arenas[i]);
    }
    ck_assert_int_eq(wm_meta_live(), 0);
}

#endif
