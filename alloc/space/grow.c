/* grow.c: grows the space for a request, until that is served or refused: on
 * which node, by how much, and how room is made. Takes lock growth.
 *
 * The order of nodes (row B15):
 *
 *   its own node grows ─► idle memory of other nodes ─► other nodes grow
 *         ─► its own grows, once the idle segments of all are returned
 *
 * A strict request skips the middle. A node that refused is in back-off:
 * requests that other memory can serve skip it, since an attempt would map,
 * touch and unmap a region for nothing. 1 request skips it, after the next
 * failure 3, then 7, at most 63. */
#include "alloc/space/space_int.h"

#include "runtime/base/probe.h"
#include "runtime/base/status.h"

/* ---- by how much -------------------------------------------------------- */

/* Obtains *bytes; if that is refused half as much, and so on, down to least.
 * Sets *bytes to the last number requested. */
static warm_status step_down(wm_space *space, struct wm_grow_request *request,
                             size_t least, size_t *bytes)
{
    size_t grain = request->arena->grain;
    warm_status status;

    least = wm_round_up(least, grain);
    *bytes = wm_round_up(*bytes, grain);
    request->tried = 0;
    status = wm_growth_obtain(space, request, *bytes);
    while (status == WARM_OUT_OF_MEMORY && *bytes > least) {
        /* The limit may have left less than *bytes. */
        if (request->tried > least && request->tried < *bytes) {
            *bytes = request->tried;
        }
        *bytes = wm_round_up(*bytes / 2, grain);
        *bytes = *bytes > least ? *bytes : least;
        status = wm_growth_obtain(space, request, *bytes);
    }
    return status;
}

/* Bytes of a whole segment, but at least what the request needs. */
static size_t growth_bytes(const wm_space *space, const wm_arena *arena,
                           size_t needed)
{
    const wm_arena_group *group = &space->group;
    size_t least = group->segment_bytes;

    if (group->own_bytes > 0 && needed >= group->own_bytes) {
        least = 0;
    } else if (group->large_bytes > 0 && needed > arena->small_max) {
        least = group->large_bytes;
    }

    return least > needed ? least : needed;
}

bool wm_growth_is_within_bound(wm_space *space, const wm_request *request)
{
    size_t held;

    wm_lock_acquire(&space->growth.lock);
    held = space->growth.held + space->growth.coming;
    wm_lock_release(&space->growth.lock);
    return wm_economy_allows(
        request->arena, request->lane,
        held + growth_bytes(space, request->arena,
                            wm_size_run_bytes(request->bytes)));
}

warm_status wm_growth_ahead(wm_space *space, wm_arena *arena, size_t bytes,
                            size_t least, size_t *obtained)
{
    struct wm_grow_request request = {.arena = arena};
    warm_status status = step_down(space, &request, least, &bytes);

    wm_growth_log_deferred(space);
    *obtained = status == WARM_OK ? bytes : 0;
    return status;
}

/* ---- one attempt -------------------------------------------------------- */

static warm_status try_once(wm_space *space, struct wm_grow_request *request)
{
    warm_status status;
    size_t bytes;

    request->wanted = bytes =
        growth_bytes(space, request->arena, request->needed);
    status = step_down(space, request, request->needed, &bytes);
    wm_growth_log_deferred(space);
    return status;
}

/* ---- what makes room for a refused request ------------------------------ */

/* Waits for a call in flight that may let a refused request succeed; false:
 * there is none. Requests that the driver refuses do not wait for each other,
 * or they would retry forever. */
static bool wait_for_others(wm_space *space,
                            const struct wm_grow_request *request)
{
    wm_growth *growth = &space->growth;
    const struct wm_growth_call *e;
    bool changed;

    wm_lock_acquire(&growth->lock);
    changed = growth->gained != request->gained ||
              (request->by_limit && growth->vacated != request->vacated);
    /* A call whose end may help: one that returns segments; if the limit
     * refused, any. */
    e = growth->calls;
    while (e != NULL && e->bytes > 0 && !request->by_limit) {
        e = e->next;
    }
    if (!changed && e != NULL) {
        wm_growth_call_wait_locked(growth, e->number);
        changed = true;
    }
    wm_lock_release(&growth->lock);
    return changed;
}

/* Returns idle segments, or waits for calls in flight: whether a refused
 * request may retry. */
static bool make_room(wm_space *space, struct wm_grow_request *request)
{
    bool again;

    WM_KEEP_ERROR(); /* the request reports its own */
    WM_USDT2(wait_begin, "room", request->needed);
    wm_range_begin("make room");
    again =
        wm_growth_give_back(space, request->give_back, WM_KEEP_NOTHING) > 0 ||
        wait_for_others(space, request);
    if (again) {
        wm_arena_count(request->arena, WM_COUNT_RETRY);
    }
    wm_range_end();
    WM_USDT2(wait_end, "room", (int)again);
    return again;
}

static bool open_any(const struct wm_grow_request *request)
{
    wm_arena *a = request->arena;
    bool open;

    do {
        open = wm_arena_open(a, request->lane, request->needed, true);
        a = wm_arena_next(request->arena, a);
    } while (!open && a != request->arena);
    return open;
}

/* ---- on which node ------------------------------------------------------ */

enum { LONGEST_BACKOFF = 63 };

/* Grows a node, and begins or ends its back-off; relaxed, here and below: two
 * threads may count one step, which is harmless. A refusal by the limit costs
 * no driver call, so it begins no back-off. give_back: the arena whose idle
 * segments, with its siblings', may be returned; null: all. */
static warm_status grow(wm_space *space, const wm_request *request,
                        wm_arena *arena, wm_arena *give_back, wm_block **block)
{
    struct wm_grow_request growing = {.arena = arena,
                                      .give_back = give_back,
                                      .lane = request->lane,
                                      .bytes = request->bytes,
                                      .row = request->row,
                                      .needed =
                                          wm_size_run_bytes(request->bytes)};
    wm_arena *node = arena->siblings;
    unsigned skip = 0;
    warm_status status;

    do {
        status = try_once(space, &growing);
    } while (status == WARM_OUT_OF_MEMORY &&
             (open_any(&growing) || make_room(space, &growing)));
    *block = growing.block;
    if (status == WARM_OUT_OF_MEMORY && !growing.by_limit) {
        skip = 2 * atomic_load_explicit(&node->backoff_last,
                                        memory_order_relaxed) +
               1;
        skip = skip < LONGEST_BACKOFF ? skip : LONGEST_BACKOFF;
    } else if (status != WARM_OK) {
        return status;
    }
    atomic_store_explicit(&node->backoff_last, skip, memory_order_relaxed);
    atomic_store_explicit(&node->backoff_left, skip, memory_order_relaxed);
    return status;
}

/* Whether this request skips the node; counts it. */
static bool skips(wm_arena *arena)
{
    unsigned left = atomic_load_explicit(&arena->siblings->backoff_left,
                                         memory_order_relaxed);

    if (left == 0) {
        return false;
    }
    atomic_store_explicit(&arena->siblings->backoff_left, left - 1,
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

bool wm_growth_in_backoff(wm_space *space, const wm_request *request)
{
    wm_arena *arena = request->arena;

    if (arena->pool != NULL) {
        return false;
    }
    do {
        if (atomic_load_explicit(&arena->siblings->backoff_left,
                                 memory_order_relaxed) == 0) {
            return false;
        }
        arena = next_for(space, request, arena);
    } while (arena != request->arena);
    do {
        (void)skips(arena);
        arena = next_for(space, request, arena);
    } while (arena != request->arena);
    return true;
}

/* Allocates idle memory of other nodes; else grows one of them. */
static warm_status spill(wm_space *space, const wm_request *request,
                         wm_block **block)
{
    wm_arena *own = request->arena;
    wm_arena *first = next_for(space, request, own);
    warm_status status = WARM_OUT_OF_MEMORY;

    for (wm_arena *a = first; a != own && status != WARM_OK;
         a = next_for(space, request, a)) {

        *block =
            wm_space_take_or_steal(a, NULL, request->bytes, request->row, NULL);
        status = *block != NULL ? WARM_OK : status;
    }
    for (wm_arena *a = first; a != own && status == WARM_OUT_OF_MEMORY;
         a = next_for(space, request, a)) {
        if (!skips(a)) {
            status = grow(space, request, a, a, block);
        }
    }
    if (status == WARM_OK) {
        wm_arena_count((*block)->segment->arena, WM_COUNT_SPILL);
    }
    return status;
}

warm_status wm_growth_alloc(wm_space *space, const wm_request *request,
                            wm_block **block)
{
    wm_arena *own = request->arena;
    bool own_only = request->strict || space->group.nodes == 1;
    warm_status status = WARM_OUT_OF_MEMORY;

    if (own->pool != NULL) {
        return grow(space, request, own, NULL, block);
    }
    if (own_only || !skips(own)) {
        status = grow(space, request, own, own, block);
    }
    if (status != WARM_OUT_OF_MEMORY || space->group.nodes == 1) {
        return status;
    }
    if (!own_only) {
        status = spill(space, request, block);
    }
    return status == WARM_OUT_OF_MEMORY ? grow(space, request, own, NULL, block)
                                        : status;
}
