/* purge.c: which segments are detached from an arena, to be freed. Takes lock
 * arena in every public function. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "runtime/base/clock.h"

static uint64_t rank_of(const wm_segment *segment, bool oldest)
{
    return segment->free_failed
               ? 1
               : wm_rank(segment->bytes, segment->idle_since_ns, oldest);
}

/* True if all of a segment is idle and may be freed. It has several runs if
 * they are of several lanes: the driver waits for the device when it frees the
 * segment. */
static bool is_whole(wm_segment *segment)
{
    wm_block *run = wm_segment_first_run(segment);

    if (segment->arena->retaining || segment->unit > 0) {
        return false;
    }
    while (wm_run_is_idle(run)) {
        run = run->after;
    }
    return run == NULL;
}

/* True if it is one run, and so idle_since_ns is valid. */
static bool is_one(wm_segment *segment)
{
    return wm_segment_first_run(segment)->bytes == segment->bytes;
}

/* Which segments may be detached. */
struct pick {
    size_t bytes_max;
    uint64_t before_ns;
    bool any;       /* the first that may: all will be */
    bool dedicated; /* only dedicated segments */
};

/* The next segment to detach: the largest, or any. */
static wm_segment *pick_locked(wm_segment *from, const struct pick *pick)
{
    wm_segment *best = NULL;

    for (wm_segment *s = from; s != NULL; s = s->next) {
        if (s->bytes <= pick->bytes_max && (s->dedicated || !pick->dedicated) &&
            s->idle_since_ns <= pick->before_ns && is_whole(s) &&
            (pick->before_ns == UINT64_MAX || is_one(s)) &&
            (best == NULL || s->bytes > best->bytes)) {
            best = s;
            if (pick->any) {
                break;
            }
        }
    }
    return best;
}

/* Detaches a segment, in front of chain. */
static void pull_locked(wm_arena *arena, wm_segment *segment,
                        wm_segment **chain)
{
    wm_segment_log(segment, WM_HISTORY_SEGMENT_FREE);
    wm_segment_detach_locked(arena, segment);
    arena->detached_bytes += segment->bytes;
    segment->next = *chain;
    *chain = segment;
}

static wm_segment *first_locked(const wm_arena *arena, bool oldest)
{
    wm_segment *first = NULL;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (is_whole(s) &&
            (first == NULL || rank_of(s, oldest) > rank_of(first, oldest))) {
            first = s;
        }
    }
    return first;
}

static wm_segment *detach_locked(wm_arena *arena, const wm_purge *purge)
{
    wm_segment *chain = NULL;
    wm_purge rest = *purge;

    while (rest.bytes > 0) {
        wm_segment *first = first_locked(arena, purge->oldest);

        if (first == NULL || rank_of(first, purge->oldest) < purge->least) {
            break;
        }
        rest.bytes -= first->bytes < rest.bytes ? first->bytes : rest.bytes;
        pull_locked(arena, first, &chain);
    }
    return wm_expand_detach_locked(arena, chain, &rest);
}

uint64_t wm_arena_rank(wm_arena *arena, bool oldest, size_t *detached)
{
    const wm_segment *first;
    uint64_t rank, other;

    wm_lock_acquire(&arena->lock);
    (void)wm_arena_empty_transfer_cache_locked(arena);
    first = first_locked(arena, oldest);
    rank = first != NULL ? rank_of(first, oldest) : 0;
    other = wm_expand_rank_locked(arena, oldest);
    *detached = arena->detached_bytes;
    wm_lock_release(&arena->lock);
    return rank > other ? rank : other;
}

wm_segment *wm_arena_detach_first(wm_arena *arena, const wm_purge *purge)
{
    wm_segment *chain;

    wm_lock_acquire(&arena->lock);
    (void)wm_arena_empty_transfer_cache_locked(arena);
    chain = detach_locked(arena, purge);
    wm_lock_release(&arena->lock);
    return chain;
}

/* Detaches all that may be. */
static wm_segment *detach_all_locked(wm_arena *arena)
{
    const wm_purge purge = {SIZE_MAX, UINT64_MAX, 0, false};
    wm_segment *chain = NULL, *next;

    for (wm_segment *s = arena->segments; s != NULL; s = next) {
        next = s->next;
        if (is_whole(s)) {
            pull_locked(arena, s, &chain);
        }
    }
    return wm_expand_detach_locked(arena, chain, &purge);
}

wm_segment *wm_arena_detach(wm_arena *arena, size_t target)
{
    wm_segment *chain = NULL;
    size_t held;

    wm_lock_acquire(&arena->lock);
    (void)wm_arena_empty_transfer_cache_locked(arena);
    held = arena->stats.held_bytes.current - arena->detached_bytes;
    if (target == 0) {
        chain = detach_all_locked(arena);
    } else if (held > target) {
        chain = detach_locked(arena,
                              &(wm_purge){held - target, UINT64_MAX, 0, false});
    }
    wm_lock_release(&arena->lock);
    return chain;
}

static size_t whole_bytes_locked(const wm_arena *arena)
{
    size_t bytes = 0;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        bytes += is_whole(s) ? s->bytes : 0;
    }
    return bytes;
}

wm_segment *wm_arena_detach_old(wm_arena *arena, uint64_t before_ns,
                                size_t *keep)
{
    const wm_purge parts = {SIZE_MAX, before_ns, 0, true};
    struct pick pick = {0, before_ns, *keep == 0, false};
    wm_segment *chain = NULL;
    wm_segment *segment;
    size_t whole;

    wm_lock_acquire(&arena->lock);
    whole = whole_bytes_locked(arena);
    do {
        pick.bytes_max = whole > *keep ? whole - *keep : 0;
        segment = pick_locked(arena->segments, &pick);
        if (segment != NULL) {
            whole -= segment->bytes;
            pull_locked(arena, segment, &chain);
        }
    } while (segment != NULL);
    chain = wm_expand_detach_locked(arena, chain, &parts);
    wm_lock_release(&arena->lock);
    *keep -= whole < *keep ? whole : *keep;
    return chain;
}

wm_segment *wm_arena_detach_dedicated(wm_arena *arena, size_t below,
                                      size_t most)
{
    struct pick pick = {below - 1, UINT64_MAX, false, true};
    wm_segment *chain = NULL;
    wm_segment *segment;

    wm_lock_acquire(&arena->lock);
    (void)wm_arena_empty_transfer_cache_locked(arena);
    do {
        pick.bytes_max = pick.bytes_max < most ? pick.bytes_max : most;
        segment = pick_locked(arena->segments, &pick);
        if (segment != NULL) {
            most -= segment->bytes;
            pull_locked(arena, segment, &chain);
        }
    } while (segment != NULL);
    wm_lock_release(&arena->lock);
    return chain;
}

bool wm_arena_detach_idle(wm_arena *arena, wm_segment *segment)
{
    wm_segment *chain = NULL;

    wm_lock_acquire(&arena->lock);
    if (segment->base != NULL && is_whole(segment)) {
        pull_locked(arena, segment, &chain);
    }
    wm_lock_release(&arena->lock);
    return chain != NULL;
}

void wm_arena_released(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    if (segment->parent != NULL) {
        wm_expand_released_locked(arena, segment);
    } else {
        wm_arena_note_segment_locked(arena, segment, false);
        wm_segment_give_locked(arena, segment);
    }
    wm_lock_release(&arena->lock);
}

static void reattach(wm_arena *arena, wm_segment *segment, bool refused)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    if (segment->parent != NULL) {
        wm_expand_reattach_locked(arena, segment);
    } else {
        wm_segment_attach_locked(arena, segment);
        segment->idle_since_ns =
            wm_clock_ns(); /* set for runs of several lanes as well */
        segment->free_failed |= refused;
        wm_segment_log(segment, WM_HISTORY_SEGMENT_ALLOC);
    }
    wm_lock_release(&arena->lock);
}

void wm_arena_reattach(wm_arena *arena, wm_segment *segment)
{
    reattach(arena, segment, true);
}

void wm_arena_put_off(wm_arena *arena, wm_segment *segment)
{
    reattach(arena, segment, false);
}
