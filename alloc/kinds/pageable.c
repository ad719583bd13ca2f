/* pageable.c: blocks of ordinary memory. Takes lock arena, through the arena.
 */
#include "alloc/kinds/pageable.h"

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <sys/mman.h>

/* Of two threads that free blocks at once one detaches the segment. */
static void give_back(wm_space *space, wm_segment *segment)
{
    wm_arena *arena = &space->group.arenas[0];

    if (wm_arena_detach_idle(arena, segment)) {
        munmap(segment->base, segment->bytes);
        wm_arena_released(arena, segment);
    }
}

const wm_space_traits wm_pageable_traits = {
    .name = "pageable", .freed = give_back, .nodeless = true, .uncached = true};

static warm_status map(wm_space *space, size_t bytes, wm_block **block)
{
    size_t whole = wm_size_run_bytes(bytes);
    void *base = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    warm_status status;

    if (base == MAP_FAILED) {
        return wm_fail_code(WARM_OUT_OF_MEMORY, "system", errno, NULL,
                            "%s cannot be mapped (errno %d)",
                            wm_bytes(whole).text, errno);
    }
    status =
        wm_arena_grow(&space->group.arenas[0], NULL, base, whole, bytes, block);
    if (status != WARM_OK) {
        munmap(base, whole);
    }
    return status;
}

warm_status wm_pageable_alloc(wm_space *space, size_t bytes, void **pointer)
{
    int cancel = wm_cancel_off();
    bool starved = false;
    /* Small blocks share a region that may have room. */
    wm_block *block = wm_arena_take(&space->group.arenas[0], NULL, bytes,
                                    WM_SPLIT_ALLOW, &starved);
    warm_status status = WARM_OK;

    if (block == NULL) {
        status = map(space, bytes, &block);
    }
    if (status == WARM_OK) {
        *pointer = block->base;
    }
    wm_cancel_restore(cancel);
    return status;
}
