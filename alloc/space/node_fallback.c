/* node_fallback.c: on which node a space grows. Takes no lock of its own. */
#include "alloc/space/node_fallback.h"

#include <stdatomic.h>

enum { LONGEST = 63 };

/* Whether this request skips the node; counts it. Relaxed, here and below: two
 * threads may count one step, which is harmless. */
static bool is_left_alone(wm_arena *arena)
{
    unsigned left =
        atomic_load_explicit(&arena->siblings->pause, memory_order_relaxed);

    if (left == 0) {
        return false;
    }
    atomic_store_explicit(&arena->siblings->pause, left - 1,
                          memory_order_relaxed);
    return true;
}

/* The arena of the next node, in the circle that ends with the request's own.
 */
static wm_arena *next_for(const wm_space *space, const wm_request *request,
                          const wm_arena *arena)
{
    return request->strict || space->group.nodes == 1
               ? request->arena
               : wm_group_arena_as(
                     &space->group,
                     wm_numa_next(&space->driver->numa, arena->node),
                     request->arena);
}

bool wm_node_fallback_in_backoff(wm_space *space, const wm_request *request)
{
    wm_arena *arena = request->arena;

    if (request->arena->pool != NULL) {
        return false;
    }
    do {
        if (request->cause == NULL ||
            atomic_load_explicit(&arena->siblings->pause,
                                 memory_order_relaxed) == 0) {
            return false;
        }
        arena = next_for(space, request, arena);
    } while (arena != request->arena);
    do {
        (void)is_left_alone(arena);
        arena = next_for(space, request, arena);
    } while (arena != request->arena);
    return true;
}

/* A refusal by the limit costs no driver call, so it begins no back-off. */
static bool is_by_limit(wm_space *space, size_t bytes)
{
    warm_space_stats s = {.size = sizeof s};
    size_t limit = wm_space_limit(space);

    if (limit == 0) {
        return false;
    }
    wm_space_stats(space, &s);
    return s.held_bytes.current + bytes > limit;
}

static void note(wm_space *space, wm_arena *arena, size_t bytes,
                 warm_status status)
{
    unsigned next = 2 * atomic_load_explicit(&arena->siblings->paused,
                                             memory_order_relaxed) +
                    1;

    if (status == WARM_OK) {
        atomic_store_explicit(&arena->siblings->paused, 0,
                              memory_order_relaxed);
        atomic_store_explicit(&arena->siblings->pause, 0, memory_order_relaxed);
    } else if (status == WARM_OUT_OF_MEMORY && !is_by_limit(space, bytes)) {
        next = next < LONGEST ? next : LONGEST;
        atomic_store_explicit(&arena->siblings->paused, next,
                              memory_order_relaxed);
        atomic_store_explicit(&arena->siblings->pause, next,
                              memory_order_relaxed);
    }
}

static warm_status grow(wm_space *space, const wm_request *request,
                        wm_arena *arena, wm_arena *give_back, wm_block **block)
{
    warm_status status =
        wm_growth_alloc(space, request, arena, give_back, block);

    note(space, arena, request->bytes, status);
    return status;
}

/* Allocates idle memory of other nodes; else lets those grow. */
static warm_status spill(wm_space *space, const wm_request *request,
                         wm_block **block)
{
    wm_arena *first = next_for(space, request, request->arena);
    warm_status status = WARM_OUT_OF_MEMORY;

    for (wm_arena *a = first; a != request->arena && status != WARM_OK;
         a = next_for(space, request, a)) {
        bool starved = false;

        *block = wm_arena_take_or_steal(a, NULL, request->bytes, &starved);
        status = *block != NULL ? WARM_OK : status;
    }
    for (wm_arena *a = first;
         a != request->arena && status == WARM_OUT_OF_MEMORY;
         a = next_for(space, request, a)) {
        if (!is_left_alone(a)) {
            status = grow(space, request, a, a, block);
        }
    }
    if (status == WARM_OK) {
        wm_arena_count((*block)->segment->arena, WM_COUNT_SPILL);
    }
    return status;
}

static warm_status spill_or_grow(wm_space *space, const wm_request *request,
                                 wm_block **block)
{
    warm_status status = WARM_OUT_OF_MEMORY;

    if (!is_left_alone(request->arena)) {
        status = grow(space, request, request->arena, request->arena, block);
    }
    return status == WARM_OUT_OF_MEMORY ? spill(space, request, block) : status;
}

warm_status wm_node_fallback_obtain(wm_space *space, const wm_request *request,
                                    wm_block **block)
{
    wm_arena *own = request->arena;
    warm_status status;

    if (own->pool != NULL) {
        return grow(space, request, own, NULL, block);
    }
    if (space->group.nodes == 1) {
        return grow(space, request, own, own, block);
    }
    status = request->strict ? grow(space, request, own, own, block)
                             : spill_or_grow(space, request, block);
    if (status == WARM_OUT_OF_MEMORY) {
        status = grow(space, request, own, NULL, block);
    }
    return status;
}
