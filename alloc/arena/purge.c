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

static bool may_go(wm_segment *segment, const wm_purge *purge)
{
    if (purge->below > 0 &&
        (!segment->dedicated || segment->bytes >= purge->below)) {
        return false;
    }
    /* The time is valid only if the segment is one run. */
    return segment->idle_since_ns <= purge->before_ns && is_whole(segment) &&
           (purge->before_ns == UINT64_MAX ||
            wm_segment_first_run(segment)->bytes == segment->bytes) &&
           rank_of(segment, purge->oldest) >= purge->least;
}

/* The segment to detach first, of at most bytes_max; or null. */
static wm_segment *first_locked(const wm_arena *arena, const wm_purge *purge,
                                size_t bytes_max)
{
    wm_segment *first = NULL;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (s->bytes <= bytes_max && may_go(s, purge) &&
            (first == NULL ||
             rank_of(s, purge->oldest) > rank_of(first, purge->oldest))) {
            first = s;
        }
    }
    return first;
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

static size_t whole_bytes_locked(const wm_arena *arena)
{
    size_t bytes = 0;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        bytes += is_whole(s) ? s->bytes : 0;
    }
    return bytes;
}

/* Detaches segments by rank, and in one walk if all may go. */
static wm_segment *pull_some_locked(wm_arena *arena, wm_purge *purge)
{
    bool exact = purge->below > 0 || purge->keep > 0;
    size_t over = 0, *left = &purge->bytes;
    wm_segment *chain = NULL, *next;

    if (purge->keep > 0) {
        over = whole_bytes_locked(arena);
        over -= over < purge->keep ? over : purge->keep;
        left = &over;
    }
    if (*left == SIZE_MAX) {
        for (wm_segment *s = arena->segments; s != NULL; s = next) {
            next = s->next;
            if (may_go(s, purge)) {
                pull_locked(arena, s, &chain);
            }
        }
    } else {
        while (*left > 0 &&
               (next = first_locked(arena, purge, exact ? *left : SIZE_MAX))) {
            *left -= next->bytes < *left ? next->bytes : *left;
            pull_locked(arena, next, &chain);
        }
    }
    if (purge->keep > 0) {
        over = whole_bytes_locked(arena);
        purge->keep -= over < purge->keep ? over : purge->keep;
    }
    return chain;
}

wm_segment *wm_arena_purge(wm_arena *arena, wm_purge *purge)
{
    wm_segment *chain;

    wm_lock_acquire(&arena->lock);
    if (purge->before_ns == UINT64_MAX) {
        (void)wm_arena_empty_transfer_cache_locked(arena);
    }
    chain = pull_some_locked(arena, purge);
    if (purge->below == 0) {
        chain = wm_expand_detach_locked(arena, chain, purge);
    }
    wm_lock_release(&arena->lock);
    return chain;
}

uint64_t wm_arena_rank(wm_arena *arena, bool oldest, size_t *detached)
{
    const wm_purge any = {.before_ns = UINT64_MAX, .oldest = oldest};
    const wm_segment *first;
    uint64_t rank, other;

    wm_lock_acquire(&arena->lock);
    (void)wm_arena_empty_transfer_cache_locked(arena);
    first = first_locked(arena, &any, SIZE_MAX);
    rank = first != NULL ? rank_of(first, oldest) : 0;
    other = wm_expand_rank_locked(arena, oldest);
    *detached = arena->detached_bytes;
    wm_lock_release(&arena->lock);
    return rank > other ? rank : other;
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
        wm_arena_note_held_locked(arena, segment, -1, -(int64_t)segment->bytes);
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
