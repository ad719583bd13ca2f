/* return_idle.c: idle segments are returned to the driver. */
#include "alloc/space/space_int.h"

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/probe.h"
#include "runtime/base/status.h"

warm_status wm_growth_driver_free(wm_space *space, wm_arena *arena, char *base,
                                  size_t bytes, bool pieced)
{
    uint64_t start = wm_clock_ns();
    warm_status status;

    if (wm_unlikely(space->group.debug != NULL)) {
        wm_debug_leave(arena, base, bytes);
    }
    status = space->traits->give_back(space, arena, base, bytes, pieced);
    wm_arena_count_driver(arena, true, wm_clock_ns() - start);
    if (status == WARM_OK) {
        wm_space_unclaim_below(space, bytes);
    }
    return status;
}

/* Returning memory breaks captures: while a capture is known, the memory stays
 * idle. */
static bool begin_break(wm_space *space, wm_breaking *breaking)
{
    bool begun = wm_space_begin_break(space, breaking);

    /* Relaxed: for a message. */
    atomic_store_explicit(&space->growth.return_deferred, !begun,
                          memory_order_relaxed);
    return begun;
}

/* Which segments are returned. */
struct purge {
    wm_arena *arena; /* and its siblings; null: of all */
    size_t target;   /* bytes that may stay held, if what.bytes is 0 */
    bool by_rank;    /* the arena with the highest rank first; else in turn */
    /* Not of private pools, which count as needed, nor of the reserve's node,
     * unless more is idle there than the reserve and most. */
    bool spares;
    bool refused; /* out: the driver refused segments, which rank last now */
    wm_purge what;
};

/* ---- detached segments -------------------------------------------------- */

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

static bool is_spared(wm_space *space, const wm_purge *what,
                      const wm_arena *arena)
{
    const wm_background *b = &space->background;
    wm_arena *reserved = wm_group_arena(&space->group, b->reserve_node);

    return arena->pool != NULL ||
           (b->reserve_bytes > 0 && wm_arena_is_sibling(arena, reserved) &&
            wm_arena_idle(reserved) < b->reserve_bytes + what->most);
}

static bool is_of(wm_space *space, const struct purge *purge,
                  const wm_arena *arena)
{
    return (purge->arena == NULL || wm_arena_is_sibling(purge->arena, arena)) &&
           !(purge->spares && is_spared(space, &purge->what, arena));
}

/* The arena with the memory that ranks highest; null: nothing is idle. Sets
 * what->least to the highest rank in any other arena. *detached: bytes of
 * segments in flight. */
static wm_arena *first_of(wm_space *space, const struct purge *purge,
                          wm_purge *what, size_t *detached)
{
    wm_arena *first = NULL;
    uint64_t highest = 0;

    what->least = 0;
    *detached = 0;
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        size_t bytes = 0;
        uint64_t rank =
            is_of(space, purge, a) ? wm_arena_rank(a, what, &bytes) : 0;

        *detached += bytes;
        if (rank <= what->least) {
            continue;
        }
        what->least = rank > highest ? highest : rank;
        if (rank > highest) {
            highest = rank;
            first = a;
        }
    }
    return first;
}

static bool has_idle(wm_space *space, const struct purge *purge)
{
    size_t detached = 0;
    wm_arena *a = wm_group_arenas(&space->group);

    while (a != NULL && (!is_of(space, purge, a) ||
                         wm_arena_rank(a, &purge->what, &detached) == 0)) {
        a = a->next_arena;
    }
    return a != NULL;
}

/* Detaches from the arenas in turn. A purge by age (before_ns) spares option
 * reserve_bytes on the reserve's node. */
static wm_segment *detach_each(wm_space *space, const struct purge *purge,
                               wm_purge *what)
{
    const wm_background *b = &space->background;
    const wm_arena *reserved = wm_group_arena(&space->group, b->reserve_node);
    size_t reserve = what->before_ns < UINT64_MAX ? b->reserve_bytes : 0;
    wm_segment *chain = NULL;

    for (wm_arena *a = wm_group_arenas(&space->group);
         a != NULL && what->bytes > 0; a = a->next_arena) {
        if (is_of(space, purge, a)) {
            bool keeps = wm_arena_is_sibling(a, reserved);

            what->keep = keeps ? reserve : 0;
            chain = append(chain, wm_arena_purge(a, what));
            reserve = keeps ? what->keep : reserve;
        }
    }
    return chain;
}

/* Detaches from one arena as long as no other has a higher rank; and from all
 * in turn if that fails: another thread has allocated from the chosen segment.
 */
static wm_segment *detach_first(wm_space *space, const struct purge *purge,
                                wm_purge *what)
{
    wm_segment *chain = NULL;
    size_t detached;
    wm_arena *arena = first_of(space, purge, what, &detached);

    if (what->bytes == 0) {
        size_t stays = purge->target + detached;

        what->bytes =
            space->growth.held > stays ? space->growth.held - stays : 0;
    }
    while (what->bytes > 0 && arena != NULL) {
        wm_segment *gone = wm_arena_purge(arena, what);

        if (gone == NULL) {
            what->least = 0;
            return append(chain, detach_each(space, purge, what));
        }
        chain = append(chain, gone);
        arena = first_of(space, purge, what, &detached);
    }
    return chain;
}

/* ---- returned segments -------------------------------------------------- */

/* Calls the driver, then ends *breaking. Returns the bytes that the driver
 * freed. Sets purge->refused if the driver refuses a segment for the first time
 * since it became idle. */
static size_t return_one(wm_space *space, struct purge *purge,
                         wm_segment *segment, wm_breaking *breaking)
{
    wm_growth *growth = &space->growth;
    wm_arena *arena = segment->arena;
    char *base = segment->base;
    size_t bytes = segment->bytes;
    warm_status status;

    if (!wm_segment_leaves(space, segment, breaking)) {
        wm_arena_reattach(arena, segment);
        return 0;
    }
    status = wm_growth_driver_free(space, arena, base, bytes,
                                   wm_segment_is_piece(segment));
    wm_space_end_break(space, breaking);
    if (status == WARM_OK) {
        wm_segment_expect_none(space);
        /* Both under lock growth: a trim to a target subtracts the bytes of
         * detached segments from the bytes held. */
        wm_lock_acquire(&growth->lock);
        growth->held -= bytes;
        wm_whole_unclaim(space, bytes);
        if ((growth->log & WM_LOG_RELEASE) != 0 &&
            wm_log_memory_fits(growth->log, bytes)) {
            growth->returned += bytes;
        }
        wm_arena_released(arena, segment);
        wm_lock_release(&growth->lock);
        wm_growth_note_released(space, base, bytes);
        return bytes;
    }
    wm_growth_defer_warning(growth, WM_REFUSED, bytes);
    wm_segment_obtained(space, arena->node, base, bytes);
    purge->refused |= !segment->free_failed;
    segment->free_failed = true;
    wm_arena_reattach(arena, segment);
    return 0;
}

/* A detached segment is neither idle memory nor room below the limit: until it
 * is returned a call is in the list, for which other threads can wait.
 *
 * A thread that announces a capture waits for one call of the driver at most:
 * breaking is begun for each segment anew, and if that is refused the remaining
 * segments stay. */
static size_t return_segments(wm_space *space, struct purge *purge)
{
    struct wm_growth_call call = {.bytes = 0};
    wm_purge what = purge->what;
    wm_breaking breaking;
    wm_segment *segment, *next;
    size_t bytes = 0;
    bool begun = true;

    purge->refused = false;
    if (wm_space_is_lost(space) || !has_idle(space, purge) ||
        !begin_break(space, &breaking)) {
        return 0;
    }
    wm_lock_acquire(&space->growth.lock);
    segment = purge->by_rank ? detach_first(space, purge, &what)
                             : detach_each(space, purge, &what);
    if (segment != NULL) {
        wm_growth_call_begin_locked(&space->growth, &call);
    }
    wm_lock_release(&space->growth.lock);
    if (segment == NULL) {
        wm_space_end_break(space, &breaking);
        return 0;
    }
    for (; segment != NULL; segment = next) {
        next = segment->next;
        if (begun) {
            bytes += return_one(space, purge, segment, &breaking);
        } else {
            wm_arena_reattach(segment->arena, segment);
        }
        begun = begun && next != NULL && begin_break(space, &breaking);
    }
    wm_growth_call_end(space, &call,
                       bytes > 0 ? WM_CALL_FREED : WM_CALL_NOTHING);
    return bytes;
}

size_t wm_growth_give_back(wm_space *space, wm_arena *arena, size_t target)
{
    struct purge purge = {
        .arena = arena,
        .target = target,
        .by_rank = target > 0,
        .what = {.bytes = target > 0 ? 0 : SIZE_MAX, .before_ns = UINT64_MAX}};
    size_t bytes = 0;

    do {
        bytes += return_segments(space, &purge);
    } while (purge.refused && target > 0); /* others instead of the refused */
    wm_growth_log_deferred(space);
    return bytes;
}

size_t wm_growth_collect(wm_space *space, wm_arena *arena, size_t bytes,
                         size_t most)
{
    struct purge purge = {.arena = arena,
                          .by_rank = true,
                          .what = {.bytes = bytes,
                                   .before_ns = UINT64_MAX,
                                   .most = most,
                                   .oldest = true}};

    return bytes > 0 ? return_segments(space, &purge) : 0;
}

void wm_growth_decay(wm_space *space, uint64_t before_ns)
{
    struct purge purge = {.what = {.bytes = SIZE_MAX, .before_ns = before_ns}};

    (void)return_segments(space, &purge);
    wm_growth_log_deferred(space);
}

void wm_growth_return_oversize(wm_space *space, wm_arena *arena, size_t below,
                               size_t most)
{
    struct purge purge = {.arena = arena,
                          .what = {.bytes = most,
                                   .before_ns = UINT64_MAX,
                                   .below = below,
                                   .most = most}};

    (void)return_segments(space, &purge);
}

void wm_growth_return_excess(wm_space *space, size_t bytes, size_t most)
{
    struct purge purge = {.by_rank = true,
                          .spares = true,
                          .what = {.bytes = bytes,
                                   .before_ns = UINT64_MAX,
                                   .most = most,
                                   .used = true}};

    (void)return_segments(space, &purge);
}
