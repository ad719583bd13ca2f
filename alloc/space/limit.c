/* limit.c: a limit, and what a request may do that it refuses (row B12).
 *
 *   limiter ── fellows ─► the spaces whose memory counts toward its limit
 *      └── line ─► oldest ─► next ─► newest
 *                    │         └── wait until they are the oldest
 *                    └── tries all that may have become idle, pauses, tries …
 *
 * First the other spaces return what is idle. Then the request waits, if it
 * would fit beside what is live and frees are under way, in the order in which
 * requests came. A request that finds idle memory does not see the line; one
 * that would grow joins it. Every wait ends with option limit_wait_ms. Streams
 * that complete work wake nobody, so the oldest request polls, with a pause
 * after each attempt. Takes lock growth of the limiter. */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"

/* MOST: pauses, as a multiple of those that fit into the time: many end early,
 * and a test may have stopped the clock. */
enum { PAUSE_NS = 200000, MOST = 4 };

/* ---- what fits ----------------------------------------------------------- */

/* Bytes that a space has obtained; coming: and those that it is obtaining. */
static size_t held_by(wm_space *space, bool coming)
{
    size_t held;

    wm_lock_acquire(&space->growth.lock);
    held = space->growth.held + (coming ? space->growth.coming : 0);
    wm_lock_release(&space->growth.lock);
    return held;
}

static size_t held_below(wm_space *limiter)
{
    size_t bytes;

    wm_lock_acquire(&limiter->growth.lock);
    bytes =
        limiter->growth.held + limiter->growth.coming + limiter->beside_bytes;
    wm_lock_release(&limiter->growth.lock);
    return bytes;
}

/* What other spaces have claimed below the limit is counted space by space; the
 * rest is of workspaces. */
static wm_taken count_taken(wm_space *limiter)
{
    wm_taken t = {.all = held_below(limiter)};
    size_t fellows = 0;

    for (size_t i = 0; i < limiter->fellow_count; i++) {
        wm_space *space = limiter->fellows[i];
        warm_space_stats s = {.size = sizeof s};
        size_t held = held_by(space, true);

        if (held > 0) {
            wm_cache_merge_stats(&space->group);
            wm_space_stats(space, &s);
            t.live += s.live_bytes.current;
            t.lasting += s.lost_bytes + s.captured_bytes;
            t.moving |= s.pending.current > 0;
            fellows += space != limiter ? held : 0;
        }
    }
    wm_lock_acquire(&limiter->growth.lock);
    t.lasting +=
        limiter->beside_bytes > fellows ? limiter->beside_bytes - fellows : 0;
    wm_lock_release(&limiter->growth.lock);
    return t;
}

static size_t grain_bytes(const wm_space *space, const wm_request *request)
{
    return wm_round_up(wm_size_run_bytes(request->bytes),
                       space->group.arenas->grain);
}

enum wm_limit_fit wm_limit_look(wm_space *space, const wm_request *request,
                                wm_taken *taken)
{
    wm_space *limiter = space->limiter;
    size_t limit = wm_space_limit(limiter);
    size_t needed = grain_bytes(space, request), room;

    *taken = (wm_taken){0};
    if (limit == 0 || limiter->limit_wait_ns == 0 || needed > limit) {
        return WM_LIMIT_NEVER;
    }
    *taken = count_taken(limiter);
    room = limit - needed;
    if (taken->all <= room) {
        return WM_LIMIT_NOW;
    }
    return taken->lasting > room || taken->live > room - taken->lasting
               ? WM_LIMIT_LIVE
               : WM_LIMIT_LATER;
}

bool wm_limit_refuses(wm_space *space, const wm_request *request)
{
    wm_space *limiter = space->limiter;
    size_t limit = wm_space_limit(limiter);
    size_t needed = grain_bytes(space, request);

    return limit != 0 &&
           (needed > limit || held_below(limiter) > limit - needed);
}

/* ---- room from other spaces ---------------------------------------------- */

/* Bytes that the others have to return for the request; 0: that is no use. */
static size_t find_missing(wm_space *space, const wm_request *request)
{
    wm_space *limiter = space->limiter;
    size_t limit = wm_space_limit(limiter);
    size_t needed = grain_bytes(space, request), room = limit - needed;
    wm_taken t;

    if (limit == 0) {
        return needed; /* the device is full */
    }
    if (needed > limit) {
        return 0;
    }
    t = count_taken(limiter);
    if (t.lasting > room || t.live > room - t.lasting) {
        return 0;
    }
    return t.all > room ? t.all - room : needed;
}

/* Returns about so many idle bytes of a space. */
static size_t take_from(wm_space *space, size_t missing)
{
    size_t held = held_by(space, false), released = 0;

    if (held == 0 || wm_space_trim(space, held > missing ? held - missing : 0,
                                   &released) != WARM_OK) {
        return 0;
    }
    return released;
}

static bool take_from_fellows(const wm_space *space, size_t missing)
{
    const wm_space *limiter = space->limiter;
    size_t gained = 0;

    for (size_t i = limiter->fellow_count; i-- > 0;) {
        wm_space *fellow = limiter->fellows[i];

        if (fellow->traits->collect != NULL) {
            gained += fellow->traits->collect(fellow);
        }
        if (fellow != space && missing > 0) {
            size_t released = take_from(fellow, missing);

            gained += released;
            missing -= released < missing ? released : missing;
        }
    }
    return gained > 0;
}

/* One thread at a time: what it returns is for the others, too. */
bool wm_limit_make_room(wm_space *space, const wm_request *request)
{
    wm_growth *growth = &space->limiter->growth;
    warm_error cause = {.size = sizeof cause};
    bool waited = false, made = false;
    size_t missing;

    if (space->limiter->fellow_count < 2 || wm_callback_inside()) {
        return false;
    }
    warm_last_error(&cause);
    wm_lock_acquire(&growth->lock);
    while (growth->making_room) {
        wm_cond_wait(&growth->over, &growth->lock);
        waited = true;
    }
    growth->making_room = true;
    wm_lock_release(&growth->lock);
    missing = find_missing(space, request);
    if (missing > 0) {
        made = take_from_fellows(space, missing);
    }
    wm_lock_acquire(&growth->lock);
    growth->making_room = false;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
    wm_error_restore(&cause);
    return made || waited;
}

/* ---- the line ------------------------------------------------------------ */

/* False: the time is over. */
static bool pause_locked(wm_growth *growth, wm_limit_wait *wait)
{
    if (wait->left == 0 || wm_clock_ns() >= wait->until_ns) {
        return false;
    }
    wait->left--;
    wm_cond_wait_for(&growth->over, &growth->lock, PAUSE_NS);
    return true;
}

bool wm_limit_has_line(wm_space *space)
{
    wm_growth *growth = &space->limiter->growth;
    bool has;

    wm_lock_acquire(&growth->lock);
    has = growth->line != NULL;
    wm_lock_release(&growth->lock);
    return has;
}

void wm_limit_enter(wm_space *space, wm_limit_wait *wait)
{
    wm_growth *growth = &space->limiter->growth;
    struct wm_limit_wait **link = &growth->line;
    uint64_t time = space->limiter->limit_wait_ns;

    *wait = (wm_limit_wait){.until_ns = wm_clock_ns() + time,
                            .left = (unsigned)(MOST * time / PAUSE_NS)};
    wm_lock_acquire(&growth->lock);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = wait;
    while (growth->line != wait && pause_locked(growth, wait)) {
    }
    wm_lock_release(&growth->lock);
}

void wm_limit_leave(wm_space *space, wm_limit_wait *wait)
{
    wm_growth *growth = &space->limiter->growth;
    struct wm_limit_wait **link = &growth->line;

    wm_lock_acquire(&growth->lock);
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
}

bool wm_limit_pause(wm_space *space, wm_limit_wait *wait)
{
    wm_growth *growth = &space->limiter->growth;
    bool paused;

    wm_lock_acquire(&growth->lock);
    paused = pause_locked(growth, wait);
    wm_lock_release(&growth->lock);
    return paused;
}
