/* lane.c: see lane.h. Takes lock arena in every public function. */
#include "alloc/arena/arena_int.h"

#include "runtime/base/meta.h"

#include <string.h>

/* ---- records ------------------------------------------------------------ */

static wm_lane *make_locked(wm_arena *arena, uint64_t id)
{
    wm_lane *lane = arena->spare_lanes;

    if (lane != NULL) {
        arena->spare_lanes = lane->next;
        memset(lane, 0, sizeof *lane);
    } else {
        lane = wm_meta_alloc(sizeof *lane);
    }
    if (lane != NULL) {
        lane->id = id;
        atomic_store_explicit(&lane->holds, 1, memory_order_relaxed);
        lane->next = arena->lanes;
        arena->lanes = lane;
        /* Relaxed: see the field. */
        atomic_store_explicit(&lane->by_shard[arena->shard], lane,
                              memory_order_relaxed);
    }
    return lane;
}

/* The stream may be retired meanwhile. Relaxed: the thread that closes or ends
 * all lanes of the stream sets the flag before it takes this lock and looks for
 * a lane here; either that thread finds the new lane, or this thread sees the
 * flag. */
wm_lane *wm_lane_make_beside_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane *made;

    if (atomic_load_explicit(&lane->ending, memory_order_relaxed)) {
        return &arena->common;
    }
    made = make_locked(arena, lane->id);
    if (made != NULL) {
        made->owner = lane->owner;
        atomic_store_explicit(
            &made->closed,
            atomic_load_explicit(&lane->closed, memory_order_relaxed),
            memory_order_relaxed);
        /* Relaxed: see the field. */
        atomic_store_explicit(&lane->by_shard[arena->shard], made,
                              memory_order_relaxed);
    }
    return made;
}

wm_lane *wm_lane_make(wm_arena *arena, uint64_t id)
{
    wm_lane *lane;

    wm_lock_acquire(&arena->lock);
    lane = make_locked(arena, id);
    wm_lock_release(&arena->lock);
    return lane;
}

wm_lane *wm_lane_get(wm_arena *arena, uint64_t id)
{
    wm_lane *lane;

    wm_lock_acquire(&arena->lock);
    lane = arena->lanes;
    while (lane != NULL && lane->id != id) {
        lane = lane->next;
    }
    if (lane == NULL) {
        lane = make_locked(arena, id);
    }
    wm_lock_release(&arena->lock);
    return lane;
}

bool wm_lane_have_slabs_locked(wm_lane *lane)
{
    if (lane->slabs == NULL) {
        lane->slabs = wm_meta_alloc(sizeof *lane->slabs);
    }
    return lane->slabs != NULL;
}

__attribute__((cold)) void wm_runs_add_bins(wm_runs *runs)
{
    wm_bins *bins = wm_meta_alloc(sizeof *bins);

    if (bins == NULL) {
        return;
    }
    for (wm_block *run = runs->few, *next; run != NULL; run = next) {
        next = run->next_idle;
        wm_bins_insert(bins, run);
    }
    runs->few = NULL;
    runs->bins = bins;
}

void wm_lane_free(wm_lane *lane)
{
    for (int kind = 0; kind < WM_RUN_KINDS; kind++) {
        wm_meta_free(lane->idle[kind].bins);
        lane->idle[kind].bins = NULL;
    }
    wm_meta_free(lane->slabs);
    lane->slabs = NULL;
}

/* ---- lanes with new runs ------------------------------------------------- */

void wm_lane_renew_locked(wm_arena *arena, wm_lane *lane)
{
    if (lane->fresh || lane->ended) {
        return;
    }
    lane->fresh = true;
    lane->next_fresh = NULL;
    *(arena->fresh_tail != NULL ? &arena->fresh_tail->next_fresh
                                : &arena->fresh_head) = lane;
    arena->fresh_tail = lane;
    wm_count_locked(&arena->fresh_lanes, 1);
}

void wm_lane_renew(wm_arena *arena, wm_lane *lane)
{
    wm_lock_acquire(&arena->lock);
    wm_lane_renew_locked(arena, lane);
    wm_lock_release(&arena->lock);
}

static void unlink_fresh_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane **link = &arena->fresh_head, *previous = NULL;

    while (*link != lane) {
        previous = *link;
        link = &previous->next_fresh;
    }
    *link = lane->next_fresh;
    if (arena->fresh_tail == lane) {
        arena->fresh_tail = previous;
    }
    wm_count_locked(&arena->fresh_lanes, -1);
    lane->fresh = false;
}

wm_lane *wm_lane_take_fresh(wm_arena *arena)
{
    wm_lane *lane;

    wm_lock_acquire(&arena->lock);
    lane = arena->fresh_head;
    if (lane != NULL) {
        unlink_fresh_locked(arena, lane);
    }
    wm_lock_release(&arena->lock);
    return lane;
}

void wm_lane_note_fences(wm_arena *arena, size_t step)
{
    wm_lock_acquire(&arena->lock);
    atomic_store_explicit(&arena->fences_due, false, memory_order_relaxed);
    arena->fence_step = step;
    arena->laned_least = arena->laned_bytes;
    wm_lock_release(&arena->lock);
}

/* ---- holds, and the end -------------------------------------------------- */

void wm_lane_retire_locked(wm_arena *arena, wm_lane *lane)
{
    wm_lane **link = &arena->lanes;

    /* Relaxed: it falls to 0 under the lock. */
    if (!lane->ended || lane->runs > 0 ||
        atomic_load_explicit(&lane->holds, memory_order_relaxed) > 0) {
        return;
    }
    while (*link != lane) {
        link = &(*link)->next;
    }
    *link = lane->next;
    wm_lane_free(lane);
    lane->next = arena->spare_lanes;
    arena->spare_lanes = lane;
}

bool wm_lane_has(wm_arena *arena, const wm_block *block, uint64_t id)
{
    const wm_lane *lane;
    bool has;

    wm_lock_acquire(&arena->lock);
    lane = block->slab != NULL ? block->slab->run->lane : block->lane;
    /* Relaxed: written under the lock. */
    has = lane->id == id &&
          !atomic_load_explicit(&lane->closed, memory_order_relaxed);
    wm_lock_release(&arena->lock);
    return has;
}

/* Acquire pairs with the release of earlier drops: those holders no longer
 * access the lane. */
static void drop_locked(wm_arena *arena, wm_lane *lane)
{
    atomic_fetch_sub_explicit(&lane->holds, 1, memory_order_acq_rel);
    wm_lane_retire_locked(arena, lane);
}

void wm_lane_drop(wm_arena *arena, wm_lane *lane)
{
    size_t now = atomic_load_explicit(&lane->holds, memory_order_relaxed);

    arena = arena->siblings;
    while (now > 1) {
        /* Release: pairs with the acquire of drop_locked(). */
        if (atomic_compare_exchange_weak_explicit(&lane->holds, &now, now - 1,
                                                  memory_order_release,
                                                  memory_order_relaxed)) {
            return;
        }
    }
    wm_lock_acquire(&arena->lock);
    drop_locked(arena, lane);
    wm_lock_release(&arena->lock);
}

void wm_lane_finish_locked(wm_arena *arena, wm_lane *lane)
{
    lane->ended = true;
    lane->owner = NULL;
    if (lane->fresh) {
        unlink_fresh_locked(arena, lane);
    }
    drop_locked(arena, lane);
}

void wm_lanes_end_empty(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    for (wm_lane *lane = arena->lanes, *next; lane != NULL; lane = next) {
        next = lane->next;
        wm_lane_finish_locked(arena, lane);
    }
    wm_lock_release(&arena->lock);
}
