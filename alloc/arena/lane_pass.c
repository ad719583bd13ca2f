/* lane_pass.c: idle memory moves to another lane when a stream has completed
 * work, or ends. See lane.h. Takes lock arena in every public function. */
#include "alloc/arena/arena_int.h"

bool wm_lane_has_more(wm_arena *arena, wm_lane *lane)
{
    bool more = false;

    wm_lock_acquire(&arena->lock);
    for (int k = 0; k < WM_RUN_KINDS && lane->puts > lane->safe_until; k++) {
        const wm_block *run;

        for (unsigned at = 0;
             !more && (run = wm_runs_next(&lane->idle[k], &at)) != NULL;) {
            for (; run != NULL && !more; run = run->next_idle) {
                more = run->put_at > lane->safe_until;
            }
        }
    }
    wm_lock_release(&arena->lock);
    return more;
}

/* Moves the runs of a list that were freed up to puts to another lane, as if
 * they were freed to that lane now; but a segment is idle since it was freed. A
 * run that has merged with a later one stays. */
static void move_list_locked(wm_arena *arena, wm_block *run, uint64_t puts,
                             wm_lane *to)
{
    for (wm_block *next; run != NULL; run = next) {
        wm_segment *segment = run->segment;
        uint64_t since_ns = segment->idle_since_ns;
        bool whole = wm_run_is_segment(run);

        next = run->next_idle;
        if (run->put_at <= puts) {
            wm_run_unlink(run);
            wm_run_move(run, to);
            run->put_at = ++to->puts;
            wm_run_join_locked(arena, run);
            segment->idle_since_ns = whole ? since_ns : segment->idle_since_ns;
        }
    }
}

static void move_idle_locked(wm_arena *arena, const wm_lane *lane,
                             uint64_t puts, wm_lane *to)
{
    for (int k = 0; k < WM_RUN_KINDS; k++) {
        wm_block *run;

        for (unsigned at = 0;
             (run = wm_runs_next(&lane->idle[k], &at)) != NULL;) {
            move_list_locked(arena, run, puts, to);
        }
    }
}

static void end_locked(wm_arena *arena, wm_lane *lane)
{
    move_idle_locked(arena, lane, UINT64_MAX, &arena->common);
    wm_slab_move_all_locked(lane, &arena->common);
    wm_lane_finish_locked(arena, lane);
}

/* ---- all lanes of a stream --------------------------------------------- */

/* The stream's lane in an arena, or null. Without lock arena a lane that is
 * being made (wm_lane_make_beside_locked()) may not be found. */
static wm_lane *in(const wm_arena *arena, const wm_lane *lane)
{
    /* Relaxed: see the field. */
    return atomic_load_explicit(&lane->by_shard[arena->shard],
                                memory_order_relaxed);
}

static bool has_run(const wm_runs *runs, size_t least, uint64_t puts)
{
    unsigned at = runs->bins != NULL ? wm_bins_index(least) : 0;
    const wm_block *run = wm_runs_find(runs, least, WM_FIT_SMALLEST);

    if (run == NULL || run->put_at <= puts) {
        return run != NULL;
    }
    while ((run = wm_runs_next(runs, &at)) != NULL) {
        while (run != NULL && (run->bytes < least || run->put_at > puts)) {
            run = run->next_idle;
        }
        if (run != NULL) {
            return true;
        }
    }
    return false;
}

bool wm_lanes_have_room(wm_arena *arena, const wm_lane *lane, size_t bytes,
                        size_t least, const wm_lane_point *point)
{
    bool small = bytes <= arena->small_max, has = false;

    for (wm_arena *a = arena; a != NULL && !has; a = a->next_sibling) {
        const wm_lane *one = in(a, lane);
        uint64_t puts = point != NULL ? point->puts[a->shard] : UINT64_MAX;

        if (one == NULL) {
            continue;
        }
        wm_lock_acquire(&a->lock);
        has = has_run(&one->idle[small ? WM_RUNS_SMALL : WM_RUNS_LARGE], least,
                      puts) ||
              (!small && has_run(&one->idle[WM_RUNS_OVERSIZE], least, puts));
        wm_lock_release(&a->lock);
    }
    return has;
}

size_t wm_lanes_idle_beside(wm_arena *arena, const wm_lane *lane)
{
    size_t bytes = 0;

    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        const wm_lane *own = lane != NULL ? in(a, lane) : NULL;

        wm_lock_acquire(&a->lock);
        bytes += a->laned_bytes - (own != NULL ? own->idle_bytes : 0);
        wm_lock_release(&a->lock);
    }
    return bytes;
}

/* A lane that is made meanwhile has no puts yet. */
void wm_lanes_puts(wm_arena *arena, const wm_lane *lane, wm_lane_point *point)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        const wm_lane *one = in(a, lane);

        point->puts[a->shard] = 0;
        if (one != NULL) {
            wm_lock_acquire(&a->lock);
            point->puts[a->shard] = one->puts;
            wm_lock_release(&a->lock);
        }
    }
}

void wm_lanes_passed(wm_arena *arena, const wm_lane *lane,
                     const wm_lane_point *point)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        uint64_t puts = point->puts[a->shard];
        wm_lane *one = in(a, lane);

        if (one == NULL) {
            continue;
        }
        wm_lock_acquire(&a->lock);
        if (puts > one->safe_until) {
            one->safe_until = puts;
            move_idle_locked(a, one, puts, &a->common);
        }
        wm_lock_release(&a->lock);
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
        wm_lane *its = in(a, from), *mine;

        if (its == NULL) {
            continue;
        }
        wm_lock_acquire(&a->lock);
        mine = wm_lane_in_locked(a, to);
        if (mine != NULL && mine != &a->common) {
            move_idle_locked(a, its, point->puts[a->shard], mine);
            wm_lane_renew_locked(a, mine);
        }
        wm_lock_release(&a->lock);
    }
}

void wm_lanes_close(wm_arena *arena, const wm_lane *lane)
{
    for (wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        wm_lane *one;

        wm_lock_acquire(&a->lock);
        one = in(a, lane);
        if (one != NULL) {
            /* Relaxed: written under the lock, where it is read. */
            atomic_store_explicit(&one->closed, true, memory_order_relaxed);
        }
        wm_lock_release(&a->lock);
    }
}

void wm_lanes_end(wm_arena *arena, wm_lane *lane)
{
    /* Relaxed: the locks below order it. */
    atomic_store_explicit(&lane->ending, true, memory_order_relaxed);
    for (wm_arena *a = arena->next_sibling; a != NULL; a = a->next_sibling) {
        wm_lane *one;

        wm_lock_acquire(&a->lock);
        one = in(a, lane);
        if (one != NULL) {
            /* From now on a holder of the first lane finds common memory in
             * this arena, and memory freed to this lane is common. */
            atomic_store_explicit(&lane->by_shard[a->shard], NULL,
                                  memory_order_relaxed);
            end_locked(a, one);
        }
        wm_lock_release(&a->lock);
    }
    wm_lock_acquire(&arena->lock);
    end_locked(arena, lane);
    wm_lock_release(&arena->lock);
}
