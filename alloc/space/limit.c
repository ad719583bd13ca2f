/* limit.c: what a request may do that a high watermark refuses (row B12), and
 * what is returned above a low one (row F7).
 *
 *   limiter ── fellows ─► the spaces whose memory counts toward its watermarks
 *      └── line ─► oldest ─► next ─► newest
 *                    │         └── wait until they are the oldest
 *                    └── tries all that may have become idle, pauses, tries …
 *
 * First the other spaces return what is idle. Then the request waits, if it
 * would fit beside what is live and frees are under way, in the order in which
 * requests came. A request that finds idle memory does not see the line; one
 * that would grow joins it. Every wait ends with option limit_wait_ms. Streams
 * that complete work wake nobody, so the oldest request polls, with a pause
 * after each attempt. Takes lock growth of a space at a time. */
#include "alloc/space/space_int.h"

#include "alloc/cache/magazine.h"
#include "runtime/base/callback.h"
#include "runtime/base/clock.h"
#include "runtime/base/probe.h"

/* MOST: pauses, as a multiple of those that fit into the time: many end early,
 * and a test may have stopped the clock. */
enum { PAUSE_NS = 200000, MOST = 4 };

/* Between two shrinks by misses, of which each flushes the caches of all
 * threads. */
enum { SHRINK_PAUSE_NS = 10000000 };

/* Pauses for which a thread waits for another one that makes room: not for
 * ever, since that one may be in a log function that waits for this one. */
enum { ROOM_PAUSES = 500 };

/* ---- which limit --------------------------------------------------------- */

/* A high watermark: of a limiter, or of all memory. Its line is the owner's. */
struct limit {
    wm_space *owner;
    wm_space *const *spaces; /* whose memory it counts */
    size_t count, high;      /* high, bytes; 0: none */
    bool whole;
};

static struct limit own_limit(const wm_space *space)
{
    wm_space *limiter = space->limiter;

    return (struct limit){limiter, limiter->fellows, limiter->fellow_count,
                          wm_high_bytes(&limiter->marks), false};
}

static struct limit whole_limit(const wm_space *space)
{
    wm_space *poller = space->poller;

    return (struct limit){poller, poller->all, poller->all_count,
                          wm_high_bytes(&poller->whole.marks), true};
}

/* Held, being obtained, and claimed. */
static size_t taken_below(const struct limit *limit)
{
    size_t bytes;

    if (limit->whole) {
        return wm_whole_taken(&limit->owner->whole);
    }
    wm_lock_acquire(&limit->owner->growth.lock);
    bytes = wm_taken_locked(limit->owner);
    wm_lock_release(&limit->owner->growth.lock);
    return bytes;
}

static bool refuses(const struct limit *limit, size_t needed)
{
    return limit->high != 0 &&
           (needed > limit->high || taken_below(limit) > limit->high - needed);
}

static size_t grain_bytes(const wm_space *space, const wm_request *request)
{
    return wm_round_up(wm_size_run_bytes(request->bytes),
                       space->group.arenas->grain);
}

/* The limit that refuses so many bytes; else the space's own. */
static struct limit find_limit(const wm_space *space, size_t needed)
{
    struct limit own = own_limit(space), whole = whole_limit(space);

    return refuses(&own, needed) || !refuses(&whole, needed) ? own : whole;
}

bool wm_limit_refuses(wm_space *space, const wm_request *request)
{
    size_t needed = grain_bytes(space, request);
    struct limit limit = find_limit(space, needed);

    return refuses(&limit, needed);
}

static bool is_above(const struct limit *limit, size_t needed)
{
    return limit->high != 0 && needed > limit->high;
}

bool wm_limit_never(const wm_space *space, const wm_request *request)
{
    size_t needed = grain_bytes(space, request);
    struct limit own = own_limit(space), whole = whole_limit(space);

    return is_above(&own, needed) || is_above(&whole, needed);
}

/* ---- what fits ----------------------------------------------------------- */

/* Of a space, at one moment. */
typedef struct figures {
    size_t held, coming, paused;
    size_t beside;   /* claimed for other spaces, and workspaces */
    uint64_t gained; /* driver calls that obtained or returned memory */
    bool in_flight;  /* one of them has not ended */
} figures;

static figures read_figures(wm_space *space)
{
    const wm_growth *growth = &space->growth;
    figures f;

    wm_lock_acquire(&space->growth.lock);
    f = (figures){.held = growth->held,
                  .coming = growth->coming,
                  .paused = growth->paused,
                  .beside = space->beside_bytes,
                  .gained = growth->gained,
                  .in_flight = growth->calls != NULL};
    wm_lock_release(&space->growth.lock);
    return f;
}

/* What is claimed for other spaces is counted space by space; the rest is of
 * workspaces. What is live in paused memory takes no room. */
static wm_taken count_taken(const struct limit *limit)
{
    wm_taken t = {.all = taken_below(limit)};
    size_t claimed = 0, below = 0;

    for (size_t i = 0; i < limit->count; i++) {
        wm_space *space = limit->spaces[i];
        warm_space_stats s = {.size = sizeof s};
        figures f = read_figures(space);
        size_t held = f.held + f.coming;

        if (held > 0) {
            wm_cache_merge_stats(&space->group);
            wm_space_stats(space, &s);
            t.live += s.live_bytes.current;
            t.live -= f.paused < t.live ? f.paused : t.live;
            t.lasting += s.lost_bytes + s.captured_bytes;
        }
        t.gained += f.gained;
        t.moving |= f.in_flight || s.pending.current > 0;
        if (space->limiter == space) {
            claimed += f.beside;
        } else {
            below += held;
        }
    }
    t.lasting += claimed > below ? claimed - below : 0;
    return t;
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
    size_t needed = grain_bytes(space, request);
    struct limit limit = find_limit(space, needed);

    if (limit.high == 0 || space->limit_wait_ns == 0 ||
        wm_limit_never(space, request)) {
        return WM_LIMIT_NEVER;
    }
    *taken = count_taken(&limit);
    return fits(limit.high, needed, taken) ? WM_LIMIT_FITS : WM_LIMIT_LIVE;
}

/* ---- room from other spaces ---------------------------------------------- */

/* Bytes that other spaces have to return for the request; 0: that is no use. */
static size_t find_missing(const struct limit *limit, size_t needed)
{
    wm_taken taken;

    if (limit->high == 0) {
        return needed; /* the driver has no more */
    }
    if (needed > limit->high) {
        return 0;
    }
    taken = count_taken(limit);
    if (!fits(limit->high, needed, &taken)) {
        return 0;
    }
    return taken.all > limit->high - needed ? taken.all - (limit->high - needed)
                                            : needed;
}

size_t wm_limit_take(wm_space *space, size_t bytes)
{
    size_t held = wm_growth_held(&space->growth), released;

    if (held == 0 || wm_space_trim(space, held > bytes ? held - bytes : 0,
                                   &released) != WARM_OK) {
        return 0;
    }
    return released;
}

static bool take_from_others(const struct limit *limit, const wm_space *space,
                             size_t missing)
{
    size_t gained = 0;

    for (size_t i = limit->count; i-- > 0;) {
        wm_space *other = limit->spaces[i];

        if (other->traits->collect != NULL) {
            gained += other->traits->collect(other);
        }
        if (other != space && missing > 0) {
            size_t released = wm_limit_take(other, missing);

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
    while (growth->making_room && pauses != ROOM_PAUSES) {
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

bool wm_limit_trim_for(wm_space *limiter, size_t bytes)
{
    struct limit own = own_limit(limiter), whole = whole_limit(limiter);
    struct limit *limits[] = {&own, &whole};
    bool gained = false;

    for (int k = 0; k < 2; k++) {
        struct limit *limit = limits[k];

        for (size_t i = 0; i < limit->count && refuses(limit, bytes); i++) {
            size_t taken = taken_below(limit);

            if (bytes > limit->high) {
                return false;
            }
            taken -= taken < limit->high - bytes ? taken : limit->high - bytes;
            gained |= wm_limit_take(limit->spaces[i], taken) > 0;
        }
    }
    return gained;
}

bool wm_limit_make_room(wm_space *space, const wm_request *request)
{
    size_t needed = grain_bytes(space, request), missing;
    struct limit limit = find_limit(space, needed);
    wm_growth *growth = &limit.owner->growth;
    bool waited, mine, made;

    if (limit.count < 2 || wm_callback_inside()) {
        return false;
    }
    WM_KEEP_ERROR();
    waited = begin_room(growth, &mine);
    missing = find_missing(&limit, needed);
    made = missing > 0 && take_from_others(&limit, space, missing);
    if (mine) {
        end_room(growth);
    }
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

static bool has_line(wm_growth *growth)
{
    bool has;

    wm_lock_acquire(&growth->lock);
    has = growth->line != NULL;
    wm_lock_release(&growth->lock);
    return has;
}

wm_space *wm_limit_line(wm_space *space)
{
    if (has_line(&space->limiter->growth)) {
        return space->limiter;
    }
    return wm_high_bytes(&space->poller->whole.marks) != 0 &&
                   has_line(&space->poller->growth)
               ? space->poller
               : NULL;
}

wm_space *wm_limit_owner(wm_space *space, const wm_request *request)
{
    return find_limit(space, grain_bytes(space, request)).owner;
}

void wm_limit_enter(wm_space *owner, wm_limit_wait *wait)
{
    wm_growth *growth = &owner->growth;
    struct wm_limit_wait **link = &growth->line;
    uint64_t time = owner->limit_wait_ns, now = wm_clock_ns();

    *wait = (wm_limit_wait){.owner = owner,
                            .since_ns = now,
                            .until_ns = now + time,
                            .left = (unsigned)(MOST * time / PAUSE_NS)};
    WM_USDT2(wait_begin, "limit", time);
    wm_range_begin("wait at the limit");
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
    wm_growth *growth = &wait->owner->growth;
    struct wm_limit_wait **link = &growth->line;

    wm_histogram_add(&space->growth.waits, wm_clock_ns() - wait->since_ns);
    wm_lock_acquire(&growth->lock);
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    wm_cond_broadcast(&growth->over);
    wm_lock_release(&growth->lock);
    wm_range_end();
    WM_USDT2(wait_end, "limit", wait->left);
}

bool wm_limit_pause(wm_limit_wait *wait)
{
    wm_growth *growth = &wait->owner->growth;
    bool paused;

    wm_lock_acquire(&growth->lock);
    paused = pause_locked(growth, wait);
    wm_lock_release(&growth->lock);
    return paused;
}

/* ---- the low watermark --------------------------------------------------- */

static size_t low_of(const struct limit *limit)
{
    return wm_low_bytes(limit->whole ? &limit->owner->whole.marks
                                     : &limit->owner->marks);
}

/* Bytes by which a growth would pass a low watermark. What the high one never
 * allows grows nothing. */
static size_t find_excess(const struct limit *limit, size_t more)
{
    size_t low = low_of(limit), taken;

    if (low == 0 || (limit->high != 0 && more > limit->high)) {
        return 0;
    }
    taken = taken_below(limit) + more;
    return taken > low ? taken - low : 0;
}

bool wm_limit_is_above_low(wm_space *space, const wm_request *request)
{
    struct limit own = own_limit(space), whole = whole_limit(space);
    size_t more = request != NULL ? grain_bytes(space, request) : 0;

    return find_excess(&own, more) > 0 || find_excess(&whole, more) > 0;
}

/* Bytes of a node that are idle, also in threads' caches, and not of the
 * reserve. */
static size_t spare_on(const wm_space *space, int node)
{
    const wm_background *b = &space->background;
    size_t reserve = node == b->reserve_node ? b->reserve_bytes : 0;
    warm_space_stats s = {.size = sizeof s};

    wm_arena_stats(wm_group_arena(&space->group, node), &s);
    return s.idle_bytes > reserve ? (size_t)s.idle_bytes - reserve : 0;
}

static size_t find_spare(wm_space *space)
{
    size_t spare = 0;

    if (wm_growth_held(&space->growth) == 0) {
        return 0;
    }
    wm_cache_merge_stats(&space->group);
    for (int i = 0; i < space->group.nodes; i++) {
        spare += spare_on(space, i);
    }
    return spare;
}

size_t wm_limit_return_spare(wm_space *space, size_t bytes)
{
    const wm_background *b = &space->background;
    size_t returned = 0;

    if (find_spare(space) < space->group.arenas->grain) {
        return 0;
    }
    wm_cache_flush_all(&space->group);
    for (int i = 0; i < space->group.nodes && returned < bytes; i++) {
        size_t spare = spare_on(space, i), wanted = bytes - returned;
        bool reserve = i == b->reserve_node && b->reserve_bytes > 0;

        /* Beside the reserve no segment goes that is larger than the rest. */
        returned += wm_growth_collect(space, wm_group_arena(&space->group, i),
                                      wanted < spare ? wanted : spare,
                                      reserve ? spare : 0);
    }
    wm_growth_log_deferred(space);
    return returned;
}

static void shrink_one(const struct limit *limit, wm_space *space, size_t more)
{
    size_t excess = find_excess(limit, more);

    if (excess > 0) {
        (void)wm_limit_return_spare(space, excess);
    }
}

static void shrink(const struct limit *limit, wm_space *space, size_t more)
{
    shrink_one(limit, space, more);
    for (size_t i = limit->count; i-- > 0;) {
        if (limit->spaces[i] != space) {
            shrink_one(limit, limit->spaces[i], more);
        }
    }
}

/* While low stays passed, misses look for memory that has become idle since, if
 * no background thread does. */
static void shrink_later(const struct limit *limit)
{
    if (limit->owner->poller->background.on) {
        return;
    }
    for (size_t i = 0; i < limit->count; i++) {
        atomic_store_explicit(&limit->spaces[i]->shrink_ns,
                              wm_clock_ns() + SHRINK_PAUSE_NS,
                              memory_order_relaxed);
    }
}

void wm_limit_shrink(wm_space *space, const wm_request *request)
{
    struct limit limits[] = {own_limit(space), whole_limit(space)};
    size_t more = request != NULL ? grain_bytes(space, request) : 0;

    for (int k = 0; k < 2; k++) {
        shrink(&limits[k], space, more);
        if (find_excess(&limits[k], more) > 0) {
            shrink_later(&limits[k]);
        }
    }
}
