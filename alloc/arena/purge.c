/* purge.c: wholly idle segments are detached from an arena, to be freed. Takes
 * lock arena in every public function. See arena_int.h. */
#include "alloc/arena/arena_int.h"

#include "alloc/arena/arena.h"
#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"

static uint64_t rank_of(const wm_segment *segment, bool oldest)
{
    return segment->free_failed ? 1
           : oldest             ? UINT64_MAX - segment->idle_since_ns
                                : segment->bytes;
}

/* True if all of a segment is idle and may be freed. It has several runs if
 * they are of several lanes: the driver waits for the device when it frees the
 * segment. */
static bool is_whole(wm_segment *segment)
{
    wm_block *run = segment->first;

    if (segment->arena->retaining) {
        return false;
    }
    while (wm_run_is_idle(run)) {
        run = run->after;
    }
    return run == NULL;
}

static bool may_go(wm_segment *segment, const wm_purge *purge)
{
    if (segment->arena->paused) { /* it may have no memory */
        return false;
    }
    if (purge->below > 0 &&
        (!segment->dedicated || segment->region_bytes >= purge->below)) {
        return false;
    }
    if (purge->used && segment->ahead) {
        return false;
    }
    /* The time is valid only if the segment is one run. */
    return segment->idle_since_ns <= purge->before_ns && is_whole(segment) &&
           (purge->before_ns == UINT64_MAX ||
            wm_run_is_segment(segment->first)) &&
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

/* Detaches a segment and puts it in front of chain. */
static void pull_locked(wm_arena *arena, wm_segment *segment,
                        wm_segment **chain)
{
    wm_segment_log(arena, segment->base, segment->bytes,
                   WM_HISTORY_SEGMENT_FREE);
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

static size_t most_of(const wm_purge *purge)
{
    return purge->most > 0 ? purge->most : SIZE_MAX;
}

/* Detaches segments by rank, and in one walk if all may go. */
static wm_segment *pull_some_locked(wm_arena *arena, wm_purge *purge)
{
    size_t over = 0, *left = &purge->bytes, most = most_of(purge);
    wm_segment *chain = NULL, *next;

    if (purge->keep > 0) {
        over = whole_bytes_locked(arena);
        over -= over < purge->keep ? over : purge->keep;
        left = &over;
        most = over;
    }
    if (*left == SIZE_MAX) {
        for (wm_segment *s = arena->segments; s != NULL; s = next) {
            next = s->next;
            if (may_go(s, purge)) {
                pull_locked(arena, s, &chain);
            }
        }
    } else {
        while (*left > 0 && (next = first_locked(arena, purge, most))) {
            *left -= next->bytes < *left ? next->bytes : *left;
            most -= next->bytes;
            pull_locked(arena, next, &chain);
        }
    }
    if (purge->most > 0) {
        purge->most = most;
        purge->bytes = most > 0 ? purge->bytes : 0;
    }
    if (purge->keep > 0) {
        over = whole_bytes_locked(arena);
        purge->keep -= over < purge->keep ? over : purge->keep;
    }
    return chain;
}

/* What threads pass on is not idle for long: wm_cache_flush_idle(). */
static void empty_transfer_cache_locked(wm_arena *arena, const wm_purge *purge)
{
    if (purge->before_ns == UINT64_MAX) {
        (void)wm_arena_empty_transfer_cache_locked(arena);
    }
}

wm_segment *wm_arena_purge(wm_arena *arena, wm_purge *purge)
{
    wm_segment *chain;

    wm_lock_acquire(&arena->lock);
    empty_transfer_cache_locked(arena, purge);
    chain = pull_some_locked(arena, purge);
    wm_lock_release(&arena->lock);
    return chain;
}

uint64_t wm_arena_rank(wm_arena *arena, const wm_purge *purge, size_t *detached)
{
    const wm_purge any = {.before_ns = purge->before_ns,
                          .below = purge->below,
                          .used = purge->used,
                          .oldest = purge->oldest};
    const wm_segment *first;
    uint64_t rank;

    wm_lock_acquire(&arena->lock);
    empty_transfer_cache_locked(arena, purge);
    first = first_locked(arena, &any, most_of(purge));
    rank = first != NULL ? rank_of(first, any.oldest) : 0;
    *detached = arena->detached_bytes;
    wm_lock_release(&arena->lock);
    return rank;
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
    wm_arena_note_held_locked(arena, segment, -1, -(int64_t)segment->bytes);
    wm_segment_give_locked(arena, segment);
    wm_lock_release(&arena->lock);
}

void wm_arena_reattach(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    wm_segment_attach_locked(arena, segment);
    segment->idle_since_ns =
        wm_clock_ns(); /* set for runs of several lanes as well */
    wm_segment_log(arena, segment->base, segment->bytes,
                   WM_HISTORY_SEGMENT_ALLOC);
    wm_lock_release(&arena->lock);
}
