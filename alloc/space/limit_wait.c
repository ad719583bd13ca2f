/* limit_wait.c: requests that the limit of a space refuses, and that would fit
 * below it (row B12), wait in a line, in the order in which they came.
 *
 *   growth.line ─► oldest ─► next ─► newest
 *                    │         └── wait until they are the oldest
 *                    └── tries all that may have become idle, pauses, tries …
 *
 * A request that finds idle memory does not see the line; one that would grow
 * joins it. Every wait ends with option limit_wait_ms. Streams that complete
 * work wake nobody: the oldest request polls, with a pause after each attempt.
 * Takes lock growth. */
#include "alloc/space/space_int.h"

#include "runtime/base/clock.h"

/* MOST: pauses, as a multiple of those that fit into the time: many end early,
 * and a test may have stopped the clock. */
enum { PAUSE_NS = 200000, MOST = 4 };

/* False: the time is over. */
static bool pause_locked(wm_space *space, wm_limit_wait *wait)
{
    if (wait->left == 0 || wm_clock_ns() >= wait->until_ns) {
        return false;
    }
    wait->left--;
    wm_cond_wait_for(&space->growth.over, &space->growth.lock, PAUSE_NS);
    return true;
}

bool wm_limit_may_fit(wm_space *space, const wm_request *request)
{
    size_t limit = wm_space_limit(space);
    size_t needed = wm_size_run_bytes(request->bytes), beside, held;

    if (limit == 0 || space->limit_wait_ns == 0) {
        return false;
    }
    wm_lock_acquire(&space->growth.lock);
    beside = space->beside_bytes;
    held = space->growth.held + space->growth.coming;
    wm_lock_release(&space->growth.lock);
    return needed <= limit && beside <= limit - needed &&
           held > limit - needed - beside;
}

bool wm_limit_has_line(wm_space *space)
{
    bool has;

    wm_lock_acquire(&space->growth.lock);
    has = space->growth.line != NULL;
    wm_lock_release(&space->growth.lock);
    return has;
}

bool wm_limit_enter(wm_space *space, wm_limit_wait *wait)
{
    struct wm_limit_wait **link = &space->growth.line;
    bool first;

    *wait = (wm_limit_wait){
        .until_ns = wm_clock_ns() + space->limit_wait_ns,
        .left = (unsigned)(MOST * space->limit_wait_ns / PAUSE_NS)};
    wm_lock_acquire(&space->growth.lock);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = wait;
    while (space->growth.line != wait && pause_locked(space, wait)) {
    }
    first = space->growth.line == wait;
    wm_lock_release(&space->growth.lock);
    return first;
}

void wm_limit_leave(wm_space *space, wm_limit_wait *wait)
{
    struct wm_limit_wait **link = &space->growth.line;

    wm_lock_acquire(&space->growth.lock);
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    wm_cond_broadcast(&space->growth.over);
    wm_lock_release(&space->growth.lock);
}

bool wm_limit_pause(wm_space *space, wm_limit_wait *wait)
{
    bool paused;

    wm_lock_acquire(&space->growth.lock);
    paused = pause_locked(space, wait);
    wm_lock_release(&space->growth.lock);
    return paused;
}
