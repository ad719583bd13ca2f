/* return_idle.c: idle segments go back to the driver; see grow.h. */
#include "alloc/space/grow_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

warm_status wm_growth_driver_free(wm_space *space, wm_arena *arena,
                                  const wm_segment *of, char *base,
                                  size_t bytes)
{
    uint64_t start = wm_clock_ns();
    warm_status status =
        of != NULL ? space->traits->ranges->decommit(
                         space, of->base, (size_t)(base - of->base), bytes)
                   : space->traits->give_back(space, base, bytes);

    wm_arena_count_driver(arena, true, wm_clock_ns() - start);
    return status;
}

/* Memory that goes back breaks captures. If one is known it stays idle, and
 * goes at a later time. */
static bool begin_break(wm_space *space, wm_breaking *breaking)
{
    bool begun = wm_space_begin_break(space, breaking);

    /* Relaxed: for a message. */
    atomic_store_explicit(&space->growth.put_off, !begun, memory_order_relaxed);
    return begun;
}

/* Ends breaking after its call. Returns the bytes that are with the driver
 * again. *refused is set if a whole
 * region is not, for the first time since it is idle. */
static size_t give_back_one(wm_space *space, wm_segment *segment,
                            wm_breaking *breaking, bool *refused)
{
    wm_growth *growth = &space->growth;
    wm_arena *arena = segment->arena;
    size_t bytes = segment->bytes;
    warm_status status = wm_growth_driver_free(space, arena, segment->parent,
                                               segment->base, bytes);

    wm_space_end_break(space, breaking);
    if (status == WARM_OK) {
        /* In one step: who trims to a target counts what is held, but for what
         * is on its way. */
        wm_lock_acquire(&growth->lock);
        growth->held -= bytes;
        wm_arena_released(arena, segment);
        wm_lock_release(&growth->lock);
        return bytes;
    }
    wm_growth_note(growth, WM_REFUSED, bytes);
    *refused |= segment->parent == NULL && !segment->free_failed;
    wm_arena_reattach(arena, segment);
    return 0;
}

size_t wm_growth_held_beside(wm_arena *arena)
{
    size_t bytes = 0;

    for (wm_arena *a = arena->siblings; a != NULL; a = a->next_sibling) {
        bytes += wm_arena_held(a);
    }
    return bytes;
}

/* Which segments go: what the functions below make of it. */
struct going {
    wm_arena *arena;    /* and its siblings; null: of all */
    size_t target;      /* bytes that may be held */
    uint64_t before_ns; /* idle since then */
    size_t below, most; /* bytes of one, of all */
    bool oldest;        /* go first, else the largest */
    bool refused;       /* out: some are not gone, which go last now */
};

static wm_segment *append(wm_segment *chain, wm_segment *more)
{
    while (more != NULL) {
        wm_segment *next = more->next;

        more->next = chain;
        chain = more;
        more = next;
    }
    return chain;
}

static size_t bytes_of(const wm_segment *chain)
{
    size_t bytes = 0;

    for (; chain != NULL; chain = chain->next) {
        bytes += chain->bytes;
    }
    return bytes;
}

static bool is_of(const struct going *going, const wm_arena *arena)
{
    return going->arena == NULL || wm_arena_is_sibling(going->arena, arena);
}

/* The arena of what goes first, or null. *least: the rank of the next one that
 * lies in another. *detached: bytes of those on their way already. */
static wm_arena *first_of(wm_space *space, const struct going *going,
                          uint64_t *least, size_t *detached)
{
    wm_arena *first = NULL;
    uint64_t highest = 0;

    *least = 0;
    *detached = 0;
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        size_t bytes = 0;
        uint64_t rank =
            is_of(going, a) ? wm_arena_rank(a, going->oldest, &bytes) : 0;

        *detached += bytes;
        if (rank <= *least) {
            continue;
        }
        *least = rank > highest ? highest : rank;
        if (rank > highest) {
            highest = rank;
            first = a;
        }
    }
    return first;
}

/* Without a choice between arenas: somebody takes what was chosen, or there are
 * no records for parts of it. */
static wm_segment *detach_any(wm_space *space, const struct going *going,
                              size_t most)
{
    wm_purge leaving = {most, UINT64_MAX, 0, going->oldest};
    wm_segment *chain = NULL;

    for (wm_arena *a = wm_group_arenas(&space->group);
         a != NULL && leaving.bytes > 0; a = a->next_arena) {
        wm_segment *gone =
            is_of(going, a) ? wm_arena_detach_first(a, &leaving) : NULL;
        size_t bytes = bytes_of(gone);

        leaving.bytes -= bytes < leaving.bytes ? bytes : leaving.bytes;
        chain = append(chain, gone);
    }
    return chain;
}

/* One arena's first ones as long as no other has any that goes before them. */
static wm_segment *detach_first(wm_space *space, const struct going *going)
{
    wm_segment *chain = NULL;
    size_t most = going->most, detached;
    wm_purge leaving = {0, UINT64_MAX, 0, going->oldest};
    wm_arena *arena = first_of(space, going, &leaving.least, &detached);

    if (going->most == 0) {
        size_t stays = going->target + detached;

        most = space->growth.held > stays ? space->growth.held - stays : 0;
    }
    while (most > 0 && arena != NULL) {
        wm_segment *gone;
        size_t bytes;

        leaving.bytes = most;
        gone = wm_arena_detach_first(arena, &leaving);
        if (gone == NULL) {
            return append(chain, detach_any(space, going, most));
        }
        bytes = bytes_of(gone);
        most -= bytes < most ? bytes : most;
        chain = append(chain, gone);
        arena = first_of(space, going, &leaving.least, &detached);
    }
    return chain;
}

static wm_segment *detach_all(wm_space *space, const struct going *going)
{
    wm_segment *chain = NULL;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        if (is_of(going, a)) {
            chain = append(chain, wm_arena_detach(a, 0));
        }
    }
    return chain;
}

static wm_segment *detach_down(wm_space *space, const struct going *going)
{
    return going->target > 0 ? detach_first(space, going)
                             : detach_all(space, going);
}

static wm_segment *detach_old(wm_space *space, const struct going *going)
{
    const wm_background *b = &space->background;
    const wm_arena *reserved = wm_group_arena(&space->group, b->reserve_node);
    size_t reserve = b->reserve_bytes;
    wm_segment *chain = NULL;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        size_t none = 0;
        size_t *keep = wm_arena_is_sibling(a, reserved) ? &reserve : &none;

        chain = append(chain, wm_arena_detach_old(a, going->before_ns, keep));
    }
    return chain;
}

static wm_segment *detach_own(wm_space *space, const struct going *going)
{
    wm_segment *chain = NULL;
    size_t most = going->most;

    (void)space;
    for (wm_arena *a = going->arena->siblings; a != NULL; a = a->next_sibling) {
        wm_segment *gone = wm_arena_detach_dedicated(a, going->below, most);

        most -= bytes_of(gone);
        chain = append(chain, gone);
    }
    return chain;
}

/* Whether any segment could go, wholly or in parts. */
static bool has_idle(wm_space *space, const struct going *going)
{
    bool found = false;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL && !found;
         a = a->next_arena) {
        size_t detached = 0;

        found = is_of(going, a) && wm_arena_rank(a, false, &detached) > 0;
    }
    return found;
}

/* What a thread that announces a capture waits for is one call to the driver:
 * before each one the thread asks again, and what is left then stays. The first
 * was begun. */
static void give_back_chain(wm_space *space, wm_segment *segment,
                            wm_breaking *breaking, bool *refused, size_t *bytes)
{
    bool begun = true;

    while (segment != NULL) {
        wm_segment *next = segment->next;

        if (begun) {
            *bytes += give_back_one(space, segment, breaking, refused);
        } else {
            wm_arena_put_off(segment->arena, segment);
        }
        begun = begun && next != NULL && begin_break(space, breaking);
        segment = next;
    }
}

/* A segment on its way back is neither cached nor room under the limit: from
 * its detaching on there is an errand that others can wait for. */
static size_t send_back(wm_space *space, struct going *going,
                        wm_segment *(*detach)(wm_space *space,
                                              const struct going *going))
{
    struct wm_growth_call errand = {.bytes = 0};
    wm_breaking breaking;
    wm_segment *segment;
    size_t bytes = 0;

    going->refused = false;
    if (wm_space_is_lost(space)) {
        return 0;
    }
    if (!has_idle(space, going) || !begin_break(space, &breaking)) {
        return 0;
    }
    wm_lock_acquire(&space->growth.lock);
    segment = detach(space, going);
    if (segment != NULL) {
        wm_growth_call_begin_locked(&space->growth, &errand);
    }
    wm_lock_release(&space->growth.lock);
    if (segment == NULL) {
        wm_space_end_break(space, &breaking);
        return 0;
    }
    give_back_chain(space, segment, &breaking, &going->refused, &bytes);
    wm_growth_call_end(&space->growth, &errand,
                       bytes > 0 ? WM_CALL_FREED : WM_CALL_NOTHING);
    return bytes;
}

/* Else nobody need be waited for. */
static bool is_above(wm_growth *growth, size_t target)
{
    bool above;

    wm_lock_acquire(&growth->lock);
    above = growth->held > target;
    wm_lock_release(&growth->lock);
    return above;
}

bool wm_growth_settle(wm_space *space, const wm_arena *of, size_t target,
                      enum wm_settle whose)
{
    wm_breaking breaking;
    bool more;

    of = of != NULL ? of : space->group.arenas;
    if (wm_space_is_lost(space) || of->unit == 0 ||
        !is_above(&space->growth, target)) {
        return false;
    }
    if (whose != WM_SETTLE_DEVICE) {
        return !wm_timelines_holds_back(space->group.timelines) &&
               space->traits->ranges->settle(space, whose);
    }
    if (!begin_break(space, &breaking)) {
        return false;
    }
    more = space->traits->ranges->settle(space, whose);
    wm_space_end_break(space, &breaking);
    return more;
}

size_t wm_growth_give_back(wm_space *space, wm_arena *arena, size_t target)
{
    struct going going = {.arena = arena, .target = target};
    size_t bytes = 0;

    do {
        bytes += send_back(space, &going, detach_down);
    } while (going.refused && target > 0); /* others go in their place */
    wm_growth_say(space);
    return bytes;
}

size_t wm_growth_trim(wm_space *space, size_t target)
{
    struct going going = {.target = target};
    size_t bytes;

    (void)wm_growth_settle(space, NULL, target, WM_SETTLE_IDLE);
    bytes = wm_growth_give_back(space, NULL, target);
    if (wm_growth_settle(space, NULL, target, WM_SETTLE_DEVICE)) {
        bytes += send_back(space, &going, detach_down);
        wm_growth_say(space);
    }
    return bytes;
}

void wm_growth_collect(wm_space *space, wm_arena *arena, size_t bytes)
{
    struct going going = {.arena = arena, .most = bytes, .oldest = true};

    if (bytes > 0) {
        (void)send_back(space, &going, detach_first);
    }
}

void wm_growth_decay(wm_space *space, uint64_t before_ns)
{
    struct going going = {.before_ns = before_ns};

    (void)send_back(space, &going, detach_old);
    wm_growth_say(space);
}

void wm_growth_give_own(wm_space *space, wm_arena *arena, size_t below,
                        size_t most)
{
    struct going going = {.arena = arena, .below = below, .most = most};

    (void)send_back(space, &going, detach_own);
}

void wm_growth_end_ranges(wm_space *space)
{
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        void *base = NULL;
        size_t bytes = 0;

        while (!wm_space_is_lost(space) && wm_expand_remove(a, &base, &bytes)) {
            if (space->traits->ranges->release(space, base, bytes) != WARM_OK) {
                wm_log(WARM_LOG_WARNING,
                       "%s of addresses for %s memory stay reserved: %s",
                       wm_bytes(bytes).text, space->traits->name,
                       warm_last_error_message());
            }
        }
    }
}
