/* spill.c: see spill.h. Takes no lock of its own. */
#include "alloc/spill.h"

#include <stdatomic.h>

enum { LONGEST = 63 };

/* Whether this request leaves the node alone. Relaxed, here and below: several
 * threads may count one step, and nothing hangs on it. */
static bool is_left_alone(wm_arena *arena)
{
    unsigned left = atomic_load_explicit(&arena->pause, memory_order_relaxed);

    if (left == 0) {
        return false;
    }
    atomic_store_explicit(&arena->pause, left - 1, memory_order_relaxed);
    return true;
}

static int next_for(const wm_space *space, const wm_request *request, int node)
{
    return request->strict || space->nodes == 1
               ? request->node
               : wm_numa_next(&space->driver->numa, node);
}

bool wm_spill_is_futile(wm_space *space, const wm_request *request)
{
    int node = request->node;

    do {
        if (request->cause == NULL ||
            atomic_load_explicit(&space->arenas[node].pause,
                                 memory_order_relaxed) == 0) {
            return false;
        }
        node = next_for(space, request, node);
    } while (node != request->node);
    do {
        (void)is_left_alone(&space->arenas[node]);
        node = next_for(space, request, node);
    } while (node != request->node);
    return true;
}

/* The limit is ours, and costs nothing to ask about. */
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
    unsigned next =
        2 * atomic_load_explicit(&arena->paused, memory_order_relaxed) + 1;

    if (status == WARM_OK) {
        atomic_store_explicit(&arena->paused, 0, memory_order_relaxed);
        atomic_store_explicit(&arena->pause, 0, memory_order_relaxed);
    } else if (status == WARM_OUT_OF_MEMORY && !is_by_limit(space, bytes)) {
        next = next < LONGEST ? next : LONGEST;
        atomic_store_explicit(&arena->paused, next, memory_order_relaxed);
        atomic_store_explicit(&arena->pause, next, memory_order_relaxed);
    }
}

static warm_status grow(wm_space *space, const wm_request *request, int node,
                        int give_back, wm_block **block)
{
    warm_status status =
        wm_growth_alloc(space, request, node, give_back, block);

    note(space, &space->arenas[node], request->bytes, status);
    return status;
}

void wm_spill_reset(wm_space *space)
{
    for (int i = 0; i < space->nodes; i++) {
        atomic_store_explicit(&space->arenas[i].pause, 0, memory_order_relaxed);
        atomic_store_explicit(&space->arenas[i].paused, 0,
                              memory_order_relaxed);
    }
}

/* What other nodes have idle, and then what they can get. */
static warm_status spill(wm_space *space, const wm_request *request,
                         wm_block **block)
{
    const wm_numa *numa = &space->driver->numa;
    int first = wm_numa_next(numa, request->node);
    warm_status status = WARM_OUT_OF_MEMORY;

    for (int i = first; i != request->node && status != WARM_OK;
         i = wm_numa_next(numa, i)) {
        bool starved = false;

        *block =
            wm_arena_take(&space->arenas[i], NULL, request->bytes, &starved);
        status = *block != NULL ? WARM_OK : status;
    }
    for (int i = first; i != request->node && status == WARM_OUT_OF_MEMORY;
         i = wm_numa_next(numa, i)) {
        if (!is_left_alone(&space->arenas[i])) {
            status = grow(space, request, i, i, block);
        }
    }
    if (status == WARM_OK) {
        wm_arena_count_spill((*block)->segment->arena);
    }
    return status;
}

static warm_status spill_or_grow(wm_space *space, const wm_request *request,
                                 wm_block **block)
{
    warm_status status = WARM_OUT_OF_MEMORY;

    if (!is_left_alone(&space->arenas[request->node])) {
        status = grow(space, request, request->node, request->node, block);
    }
    return status == WARM_OUT_OF_MEMORY ? spill(space, request, block) : status;
}

warm_status wm_spill_obtain(wm_space *space, const wm_request *request,
                            wm_block **block)
{
    int node = request->node;
    warm_status status;

    if (space->nodes == 1) {
        return grow(space, request, node, node, block);
    }
    status = request->strict ? grow(space, request, node, node, block)
                             : spill_or_grow(space, request, block);
    if (status == WARM_OUT_OF_MEMORY) {
        status = grow(space, request, node, WM_NODE_UNKNOWN, block);
    }
    return status;
}
