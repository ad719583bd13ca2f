/* use.c: streams that use a block, recorded while it is live. See timeline.h.
 */
#include "alloc/magazine_hit.h"
#include "alloc/private_pool.h"
#include "alloc/timeline_int.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

/* ---- uses of a live block --------------------------------------------- */

static bool is_default(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

/* seen: the block's list. The block's own use may stand in an empty one only:
 * where a bare timeline ends the list, or is its own, it is promised to that.
 */
static wm_use *new_use(wm_block *block, wm_timeline *t, const wm_use *seen)
{
    wm_use *use = &block->first_use;

    /* Acquire pairs with the release in wm_use_end(): what another thread wrote
     * to first_use, and gave up, does not come after what is written now. */
    if (seen != NULL || wm_block_own(block) != NULL ||
        atomic_exchange_explicit(&block->first_use_taken, true,
                                 memory_order_acquire)) {
        use = wm_meta_alloc(sizeof *use);
        if (use == NULL) {
            return NULL;
        }
    }
    *use = (wm_use){.timeline = t, .block = block};
    return use;
}

warm_status wm_use_mark(wm_timelines *set, wm_use *use, wm_timeline *t,
                        wm_capture *capture)
{
    warm_event event = use->event;
    warm_status status = WARM_OK;

    if (event == NULL) {
        status = wm_event_pool_take(set->events, t->device, &event);
    }
    if (status == WARM_OK) {
        status = wm_driver_event_mark(set->driver, event, t->stream, capture);
    }
    /* A use that has its event may be shared by now, and is not written. */
    if (use->event == NULL && event != NULL) {
        if (status == WARM_OK && *capture == WM_CAPTURE_NONE) {
            use->event = event;
        } else {
            wm_event_pool_put(set->events, t->device, event);
        }
    }
    return status;
}

/* Hangs *use on its block unless another thread has hung one of the same
 * timeline there; *pushed tells. */
static warm_status push_use(wm_block *block, wm_use **use, wm_use *seen,
                            bool *pushed)
{
    (*use)->next_of_block = seen;
    /* Release publishes the use; acquire shows those of others. */
    while (!atomic_compare_exchange_weak_explicit(
        &block->uses, &(*use)->next_of_block, *use, memory_order_release,
        memory_order_acquire)) {
        wm_use *now = (*use)->next_of_block;

        if (wm_use_find(now, seen, (*use)->timeline) != NULL) {
            *pushed = false;
            return WARM_OK;
        }
        seen = now;
        if (now != NULL && *use == &block->first_use) {
            wm_use *moved = wm_meta_alloc(sizeof *moved);

            if (moved == NULL) {
                return wm_fail(WARM_OUT_OF_MEMORY,
                               "no memory to record a stream");
            }
            *moved = **use;
            wm_use_give_up(block, *use);
            *use = moved;
        }
    }
    *pushed = true;
    return WARM_OK;
}

/* A LIVE block is no set's any more: its free is no hit, which would not look
 * at the list. The caller orders that free after this. */
static void disown(wm_block *block)
{
    wm_state state = atomic_load_explicit(&block->state, memory_order_relaxed);

    /* Release, as a read-modify-write: look-ups still see what made it LIVE. */
    while (wm_state_kind(state) == WM_BLOCK_LIVE && state != WM_BLOCK_LIVE &&
           !atomic_compare_exchange_weak_explicit(
               &block->state, &state, wm_state_of_set(WM_BLOCK_LIVE, 0),
               memory_order_acq_rel, memory_order_relaxed)) {
    }
}

/* Adds a use on t, whose reference it takes over in any case. capture: of its
 * stream. */
static warm_status add_use(wm_timelines *set, wm_block *block, wm_timeline *t,
                           wm_capture capture)
{
    wm_use *first = atomic_load_explicit(&block->uses, memory_order_acquire);
    wm_use *use = wm_use_find(first, NULL, t);
    /* A default stream means another stream in another thread or on another
     * device, from where the block may be freed: mark the point now. */
    bool defaults = is_default(t->stream) && capture == WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    bool pushed = false;

    if (use != NULL) {
        status = defaults && use->event != NULL
                     ? wm_use_mark(set, use, t, &capture)
                     : WARM_OK;
        wm_timeline_drop(set, t);
        return status;
    }
    disown(block);
    use = new_use(block, t, first);
    if (use == NULL) {
        wm_timeline_drop(set, t);
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    if (defaults) {
        status = wm_use_mark(set, use, t, &capture);
    }
    if (status == WARM_OK) {
        status = push_use(block, &use, first, &pushed);
    }
    if (!pushed) {
        wm_use_end(set, use);
        wm_timeline_drop(set, t);
    }
    return status;
}

/* As add_use(), for an adopted stream: nothing is written but a word. */
static warm_status add_adopted(wm_timelines *set, wm_block *block,
                               wm_timeline *t)
{
    wm_timeline *own = wm_block_own(block);
    wm_use *seen = NULL;

    if (own == t) {
        wm_timeline_drop(set, t);
        return WARM_OK;
    }
    /* Release: whoever finds t there sees what made it. */
    if (own == NULL && wm_magazine_owns(wm_window_mine(), block)) {
        atomic_store_explicit(&block->own, t, memory_order_release);
        return WARM_OK;
    }
    disown(block);
    if (atomic_compare_exchange_strong_explicit(
            &block->uses, &seen, wm_use_bare(t), memory_order_release,
            memory_order_acquire)) {
        return WARM_OK;
    }
    return add_use(set, block, t, WM_CAPTURE_NONE);
}

/* Whether work on the stream of that id needs no record. Of one that was not
 * retired that is known by the id alone, else the block may have been allocated
 * before; as it may if its pool has gone, before a later capture. */
static bool is_own(wm_timelines *set, const wm_block *block, uint64_t id)
{
    const wm_arena *arena = block->segment->arena;
    uint64_t lane = wm_timeline_lane_id(id);

    /* Relaxed: who retired the stream, or told this thread, has set it. */
    return block->lane_id == lane &&
           (arena->pool == NULL || wm_private_number(arena) != 0) &&
           (lane > atomic_load_explicit(&set->retired, memory_order_relaxed) ||
            wm_lane_has(block->segment->arena, block, lane));
}

/* A graph may use the block at any later time. */
static void note_captured(wm_block *block)
{
    atomic_store_explicit(&block->captured, true, memory_order_relaxed);
    disown(block);
}

/* The stream captures: it has another id then, and what was allocated on it in
 * a capture is in its order. */
static warm_status use_captured(wm_timelines *set, wm_block *block,
                                warm_stream stream)
{
    wm_stream_info info;
    warm_status status = wm_driver_stream_info(set->driver, stream, &info);

    if (status == WARM_OK && !is_own(set, block, info.id)) {
        note_captured(block);
    }
    return status;
}

static warm_status use_adopted(wm_timelines *set, wm_block *block,
                               wm_timeline *t)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;

    if (wm_timelines_capture(set)) {
        status = wm_driver_stream_capture(set->driver, t->stream, &capture);
    }
    if (status == WARM_OK && capture == WM_CAPTURE_NONE &&
        !is_own(set, block, t->id)) {
        return add_adopted(set, block, t);
    }
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = use_captured(set, block, t->stream);
    }
    wm_timeline_drop(set, t);
    return status;
}

warm_status wm_timelines_use(wm_timelines *set, wm_block *block,
                             warm_stream stream, bool *adopted)
{
    wm_stream_info info;
    wm_timeline *t = wm_timeline_get_adopted(set, stream);
    warm_status status;

    *adopted = t != NULL;
    if (t != NULL) {
        return use_adopted(set, block, t);
    }
    status = wm_driver_stream_info(set->driver, stream, &info);
    if (status != WARM_OK || is_own(set, block, info.id)) {
        return status;
    }
    if (info.capture == WM_CAPTURE_ACTIVE) {
        note_captured(block);
        return WARM_OK;
    }
    t = wm_timeline_get(set, stream, &info);
    if (t == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    return add_use(set, block, t, info.capture);
}

/* ---- for who asks later what a stream has passed ------------------------ */

warm_status wm_timelines_meet(wm_timelines *set, warm_stream stream,
                              wm_timeline **timeline, bool *captured)
{
    wm_stream_info info = {.capture = WM_CAPTURE_NONE};
    wm_timeline *t = wm_timeline_get_adopted(set, stream);
    warm_status status = WARM_OK;

    if (t == NULL) {
        status = wm_driver_stream_info(set->driver, stream, &info);
    } else if (wm_timelines_capture(set)) {
        status = wm_driver_stream_capture(set->driver, stream, &info.capture);
    }
    if (status == WARM_OK && t == NULL && info.capture != WM_CAPTURE_ACTIVE) {
        t = wm_timeline_get(set, stream, &info);
        status = t != NULL ? WARM_OK
                           : wm_fail(WARM_OUT_OF_MEMORY,
                                     "no memory to know a stream");
    } else if (status != WARM_OK && t != NULL) {
        wm_timeline_drop(set, t);
    }
    if (status == WARM_OK) {
        *timeline = t;
        *captured = info.capture == WM_CAPTURE_ACTIVE;
    }
    return status;
}

void wm_timelines_let_go(wm_timelines *set, wm_timeline *timeline)
{
    wm_timeline_drop(set, timeline);
}

uint64_t wm_timeline_id(const wm_timeline *timeline)
{
    return timeline->id;
}

int wm_timeline_device(const wm_timeline *timeline)
{
    return timeline->device;
}

bool wm_timeline_lives(wm_timeline *timeline)
{
    return wm_timeline_is_adopted(timeline) &&
           !wm_timeline_is_retired(timeline);
}

bool wm_timeline_is_known(wm_timelines *set, wm_timeline *timeline)
{
    return wm_timeline_lives(timeline) && !wm_timelines_capture(set);
}

bool wm_timelines_mark_point(wm_timelines *set, wm_timeline *timeline,
                             warm_event event)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;
    bool marked;

    if (!wm_timeline_begin_record(timeline)) {
        return false;
    }
    marked = wm_driver_event_mark(set->driver, event, timeline->stream,
                                  &capture) == WARM_OK &&
             capture == WM_CAPTURE_NONE;
    wm_timeline_end_record(timeline);
    return marked;
}

bool wm_timelines_wait_point(wm_timelines *set, wm_timeline *timeline,
                             warm_event event)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;
    bool waits;

    if (!wm_timeline_begin_record(timeline)) {
        return false;
    }
    waits = wm_driver_stream_capture(set->driver, timeline->stream, &capture) ==
                WARM_OK &&
            capture == WM_CAPTURE_NONE &&
            wm_driver_stream_wait_event(set->driver, timeline->stream, event) ==
                WARM_OK;
    wm_timeline_end_record(timeline);
    return waits;
}

void wm_timelines_use_known(wm_block *block, wm_timeline *timeline)
{
    wm_timeline_hold(timeline);
    /* Relaxed: nobody else has the block. */
    atomic_store_explicit(&block->uses, wm_use_bare(timeline),
                          memory_order_relaxed);
}

unsigned wm_timelines_streams(wm_block *block)
{
    wm_use *uses = atomic_load_explicit(&block->uses, memory_order_acquire);
    const wm_timeline *own = wm_block_own(block);
    unsigned count = own != NULL && wm_use_find(uses, NULL, own) == NULL;

    for (wm_use *use = uses; use != NULL; use = wm_use_next(use)) {
        count++;
    }
    return count;
}
