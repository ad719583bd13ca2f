/* lane_pass.c: idle memory moves to another lane when a stream has completed
 * work, or ends. See lane.h. Takes lock arena in every public function. */
#include "alloc/arena/arena_int.h"

/* Calls fn for every idle run until it returns true; fn may move the run to
 * lane to. */
static bool each_idle_locked(wm_lane *lane,
                             bool (*fn)(wm_arena *arena, wm_block *run,
                                        uint64_t puts, wm_lane *to),
                             wm_arena *arena, uint64_t puts, wm_lane *to)
{
    for (int kind = 0; kind < WM_RUN_KINDS; kind++) {
        const wm_bins *bins = &lane->idle[kind];

        for (unsigned i = wm_bins_next(bins, 0); i < WM_BINS_COUNT;
             i = wm_bins_next(bins, i + 1)) {
            wm_block *run = bins->bin[i];

            while (run != NULL) {
                wm_block *next = run->next_idle;

                if (fn(arena, run, puts, to)) {
                    return true;
                }
                run = next;
            }
        }
    }
    return false;
}

static bool is_later(wm_arena *arena, wm_block *run, uint64_t puts, wm_lane *to)
{
    (void)arena;
    (void)to;
    return run->put_at > puts;
}

bool wm_lane_has_more(wm_arena *arena, wm_lane *lane)
{
    bool more;

    wm_lock_acquire(&arena->lock);
    more = lane->puts > lane->safe_until &&
           each_idle_locked(lane, is_later, arena, lane->safe_until, NULL);
    wm_lock_release(&arena->lock);
    return more;
}

/* Moves a run that was freed up to puts, as if it were freed to that lane now.
 * A run that has merged with a later one waits for that. */
static bool give_to(wm_arena *arena, wm_block *run, uint64_t puts, wm_lane *to)
{
    if (run->put_at <= puts) {
        wm_bins_remove(wm_run_bins(run), run);
        wm_run_move(run, to);
        run->put_at = ++to->puts;
        wm_run_join_locked(arena, run);
    }
    return false;
}

void wm_lane_passed(wm_arena *arena, wm_lane *lane, uint64_t puts)
{
    wm_lock_acquire(&arena->lock);
    if (puts > lane->safe_until) {
        lane->safe_until = puts;
        (void)each_idle_locked(lane, give_to, arena, puts, &arena->common);
    }
    wm_lock_release(&arena->lock);
}

void wm_lane_yield(wm_arena *arena, wm_lane *from, wm_lane *to, uint64_t puts)
{
    wm_lock_acquire(&arena->lock);
    (void)each_idle_locked(from, give_to, arena, puts, to);
    wm_lane_renew_locked(arena, to);
    wm_lock_release(&arena->lock);
}

void wm_lane_end_locked(wm_arena *arena, wm_lane *lane)
{
    (void)each_idle_locked(lane, give_to, arena, UINT64_MAX, &arena->common);
    wm_slab_move_all_locked(lane, &arena->common);
    wm_lane_finish_locked(arena, lane);
}

void wm_lane_end(wm_arena *arena, wm_lane *lane)
{
    wm_lock_acquire(&arena->lock);
    wm_lane_end_locked(arena, lane);
    wm_lock_release(&arena->lock);
}
