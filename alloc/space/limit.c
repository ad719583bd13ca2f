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

/* Pauses for which a thread waits for another one that makes room: not for
 * ever, since that one may be in a log function that waits for this one. */
enum { ROOM_PAUSES = 500 };

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

/* Whether so many bytes, at most the limit, fit beside what stays. */
static bool fits(size_t limit, size_t needed, const wm_taken *taken)
{
    size_t room = limit - needed;

    return taken->all <= room ||
           (taken->lasting <= room && taken->live <= room - taken->lasting);
}

enum wm_limit_fit wm_limit_look(wm_space *space, const wm_request *request,
                                wm_taken *taken)
{
    wm_space *limiter = space->limiter;
    size_t limit = wm_space_limit(limiter);
    size_t needed = grain_bytes(space, request);

    *taken = (wm_taken){0};
    if (limit == 0 || limiter->limit_wait_ns == 0 || needed > limit) {
        return WM_LIMIT_NEVER;
    }
    *taken = count_taken(limiter);
    return fits(limit, needed, taken) ? WM_LIMIT_FITS : WM_LIMIT_LIVE;
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
    size_t needed = grain_bytes(space, request);
    wm_taken taken;

    if (limit == 0) {
        return needed; /* the driver has no more */
    }
    if (needed > limit) {
        return 0;
    }
    taken = count_taken(limiter);
    if (!fits(limit, needed, &taken)) {
        return 0;
    }
    return taken.all > limit - needed ? taken.all - (limit - needed) : needed;
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

/* Waits while another thread makes room: what that returns is for this one,
 * too. Returns whether it waited. */
static bool begin_room(wm_growth *growth, bool *mine)
{
    int pauses = 0;

    wm_lock_acquire(&growth->lock);
    while (growth->making_room && pauses < ROOM_PAUSES) {
        wm_cond_wait_for(&growth->over, &growth->lock, PAUSE_NS);
        pauses++;
    }
    *mine = !growth->making_room;
    growth->making_room = true;
    wm_lock_release(&growth->lock);
    return pauses > 0;
}

static void end_room(wm_growth *growth)
{
    wm_lock_acquire(&growth->lock);
    growth->making_room = false;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
}

bool wm_limit_make_room(wm_space *space, const wm_request *request)
{
    wm_growth *growth = &space->limiter->growth;
    warm_error cause = {.size = sizeof cause};
    bool waited, mine, made;
    size_t missing;

    if (space->limiter->fellow_count < 2 || wm_callback_inside()) {
        return false;
    }
    warm_last_error(&cause);
    waited = begin_room(growth, &mine);
    missing = find_missing(space, request);
    made = missing > 0 && take_from_fellows(space, missing);
    if (mine) {
        end_room(growth);
    }
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
