/* lanes.c: all lanes of a stream, in an arena and its siblings; see lane.h.
 * Takes lock arena, of one arena at a time. */
#include "alloc/arena/arena_int.h"

/* The stream's lane in an arena, or null. */
static wm_lane *in(const wm_arena *arena, const wm_lane *lane)
{
    return atomic_load_explicit(&lane->by_shard[arena->shard],
                                memory_order_acquire);
}

bool wm_lanes_have_more(wm_arena *arena, const wm_lane *lane)
{
    bool more = false;

    for (wm_arena *a = arena; a != NULL && !more; a = a->next_sibling) {
        more = in(a, lane) != NULL && wm_lane_has_more(a, in(a, lane));
    }
    return more;
}

bool wm_lanes_have_room(wm_arena *arena, const wm_lane *lane, size_t bytes,
                        size_t least)
{
    bool has = false;

    for (wm_arena *a = arena; a != NULL && !has; a = a->next_sibling) {
        has = in(a, lane) != NULL &&
              wm_lane_has_room(a, in(a, lane), bytes, least);
    }
    return has;
}

/* A lane that is made meanwhile has no puts yet. */
void wm_lanes_puts(wm_arena *arena, const wm_lane *lane, wm_lane_point *point)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        point->puts[a->shard] =
            in(a, lane) != NULL ? wm_lane_puts(a, in(a, lane)) : 0;
    }
}

void wm_lanes_passed(wm_arena *arena, const wm_lane *lane,
                     const wm_lane_point *point)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        if (in(a, lane) != NULL) {
            wm_lane_passed(a, in(a, lane), point->puts[a->shard]);
        }
    }
}

void wm_lanes_renew(wm_arena *arena, const wm_lane *lane,
                    const wm_lane_point *point)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        wm_lane *one = in(a, lane);

        if (one != NULL) {
            wm_lock_acquire(&a->lock);
            if (one->puts > point->puts[a->shard]) {
                wm_lane_renew_locked(a, one);
            }
            wm_lock_release(&a->lock);
        }
    }
}

void wm_lanes_yield(wm_arena *arena, const wm_lane *from, wm_lane *to,
                    const wm_lane_point *point)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        wm_lane *its = in(a, from), *mine = NULL;

        if (its != NULL) {
            wm_lock_acquire(&a->lock);
            mine = wm_lane_in_locked(a, to);
            wm_lock_release(&a->lock);
        }
        if (mine != NULL && mine != &a->common) {
            wm_lane_yield(a, its, mine, point->puts[a->shard]);
        }
    }
}

/* As in(), including a lane that is being made (wm_lane_make_beside_locked()).
 */
static wm_lane *made_in(wm_arena *arena, const wm_lane *lane)
{
    wm_lane *one;

    wm_lock_acquire(&arena->lock);
    one = in(arena, lane);
    wm_lock_release(&arena->lock);
    return one;
}

void wm_lanes_close(wm_arena *arena, const wm_lane *lane)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        wm_lane *one = made_in(a, lane);

        if (one != NULL) {
            wm_lane_close(a, one);
        }
    }
}

/* From the same moment on, a holder of the first lane finds common memory in
 * this arena, and what is freed to this lane is common. */
static void end_beside(wm_arena *arena, wm_lane *lane)
{
    wm_lane *one;

    wm_lock_acquire(&arena->lock);
    one = in(arena, lane);
    if (one != NULL) {
        atomic_store_explicit(&lane->by_shard[arena->shard], NULL,
                              memory_order_relaxed);
        wm_lane_end_locked(arena, one);
    }
    wm_lock_release(&arena->lock);
}

void wm_lanes_end(wm_arena *arena, wm_lane *lane)
{
    /* Relaxed: the locks below order it. */
    atomic_store_explicit(&lane->ending, true, memory_order_relaxed);
    for (wm_arena *a = arena->next_sibling; a != NULL; a = a->next_sibling) {
        end_beside(a, lane);
    }
    wm_lane_end(arena, lane);
}
