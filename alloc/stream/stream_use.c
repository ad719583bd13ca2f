/* stream_use.c: streams that use a block, recorded while it is live. See
 * timeline.h.
 */
#include "alloc/stream/timeline_int.h"

#include "alloc/arena/arena.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

/* Pushes onto a block's list before uses are first looked for that are no
 * more; and after each look, beside as many as were left. */
enum { USES_FEW = 8 };

/* ---- the list of a live block ------------------------------------------- */

static wm_lock *list_lock(wm_timelines *set, const wm_block *block)
{
    return &set->uses[(uintptr_t)block / sizeof *block % WM_USE_LOCKS];
}

/* Whether a use of t is there; *marked: that use if it has its event, as one of
 * a default stream has, which is never dropped. Else null. */
static bool find_use(wm_timelines *set, wm_block *block, const wm_timeline *t,
                     wm_stream_use **marked)
{
    wm_lock *lock = list_lock(set, block);
    wm_stream_use *use;

    *marked = NULL;
    /* Relaxed: an empty list has nothing to be found. */
    if (atomic_load_explicit(&block->uses, memory_order_relaxed) == NULL) {
        return false;
    }
    wm_lock_acquire(lock);
    use = wm_stream_use_find(
        atomic_load_explicit(&block->uses, memory_order_acquire), NULL, t);
    if (use != NULL && !wm_stream_use_is_bare(use) && use->event != NULL) {
        *marked = use;
    }
    wm_lock_release(lock);
    return use != NULL;
}

/* False: another thread has recorded the same stream. *due: uses that are no
 * more are to be looked for. */
static bool push_locked(wm_block *block, wm_stream_use *use, bool *due)
{
    wm_stream_use *first =
        atomic_load_explicit(&block->uses, memory_order_acquire);

    /* Again only if the list was empty, for a thread without the lock. Release
     * publishes the use; acquire shows that of the other thread. */
    do {
        if (wm_stream_use_find(first, NULL, use->timeline) != NULL) {
            return false;
        }
        use->next_of_block = first;
        use->pushes_left = USES_FEW;
        if (first != NULL && !wm_stream_use_is_bare(first)) {
            use->pushes_left =
                first->pushes_left > 0 ? first->pushes_left - 1 : 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &block->uses, &first, use, memory_order_release, memory_order_acquire));
    *due = use->pushes_left == 0;
    return true;
}

/* Out of the list: uses of streams that were retired. Not the block's own use,
 * which may be promised to a bare timeline as soon as it is in no list. *left:
 * how many stay. */
static wm_stream_use *take_retired_locked(wm_block *block, size_t *left)
{
    wm_stream_use *first =
        atomic_load_explicit(&block->uses, memory_order_acquire);
    wm_stream_use **link = &first, *taken = NULL;

    *left = 0;
    while (*link != NULL && !wm_stream_use_is_bare(*link)) {
        wm_stream_use *use = *link;

        if (use != &block->first_use && use->event == NULL &&
            wm_timeline_is_retired(use->timeline)) {
            *link = use->next_of_block;
            use->next_of_block = taken;
            taken = use;
        } else {
            link = &use->next_of_block;
            ++*left;
        }
    }
    /* Release: what is first now may be what another thread pushed. Nobody
     * pushes without the lock, since the list is not empty. */
    if (taken != NULL) {
        atomic_store_explicit(&block->uses, first, memory_order_release);
    }
    return taken;
}

static void put_back_locked(wm_block *block, wm_stream_use *kept, size_t left)
{
    wm_stream_use *first =
        atomic_load_explicit(&block->uses, memory_order_acquire);

    while (kept != NULL) {
        wm_stream_use *next = kept->next_of_block;

        /* Release and acquire as in push_locked(). */
        do {
            kept->next_of_block = first;
        } while (!atomic_compare_exchange_weak_explicit(
            &block->uses, &first, kept, memory_order_release,
            memory_order_acquire));
        first = kept;
        kept = next;
    }
    if (first != NULL && !wm_stream_use_is_bare(first)) {
        first->pushes_left = left + USES_FEW;
    }
}

/* Whether all work on a stream that was retired has passed. */
static bool has_ended(wm_timelines *set, const wm_timeline *t)
{
    return wm_timeline_is_lost(set, t) ||
           (!t->dead &&
            (t->final == NULL ||
             wm_driver_event_passed(set->driver, t->final) == WARM_OK));
}

/* Drops the uses of streams that were retired and have passed. Each costs one
 * question to the driver, and so do those that have not passed: as many pushes
 * as there are such lie between two calls, so that a push costs about one. The
 * thread is in a call that records: the block is not freed meanwhile. */
static void drop_ended(wm_timelines *set, wm_block *block)
{
    wm_lock *lock = list_lock(set, block);
    wm_stream_use *use, *kept = NULL;
    warm_error before = {.size = sizeof before};
    int cancel = wm_cancel_off();
    size_t left;

    warm_last_error(&before);
    wm_lock_acquire(lock);
    use = take_retired_locked(block, &left);
    wm_lock_release(lock);
    while (use != NULL) {
        wm_stream_use *next = use->next_of_block;
        wm_timeline *t = use->timeline;

        if (has_ended(set, t)) {
            wm_stream_use_end(set, use);
            wm_timeline_drop(set, t);
        } else {
            use->next_of_block = kept;
            kept = use;
            left++;
        }
        use = next;
    }
    wm_lock_acquire(lock);
    put_back_locked(block, kept, left);
    wm_lock_release(lock);
    wm_error_restore(&before);
    wm_cancel_restore(cancel);
}

/* ---- uses of a live block --------------------------------------------- */

static bool is_default(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

/* The block's own use may stand in an empty list only: where a bare timeline
 * ends the list, or is its own, it is promised to that. */
static wm_stream_use *new_use(wm_block *block, wm_timeline *t)
{
    wm_stream_use *use = &block->first_use;

    /* Acquire pairs with the release in wm_stream_use_end(): what another
     * thread wrote to first_use, and gave up, does not come after what is
     * written now. */
    if (atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL ||
        wm_block_own(block) != NULL ||
        atomic_exchange_explicit(&block->first_use_taken, true,
                                 memory_order_acquire)) {
        use = wm_meta_alloc(sizeof *use);
        if (use == NULL) {
            return NULL;
        }
    }
    *use = (wm_stream_use){.timeline = t, .block = block};
    return use;
}

warm_status wm_stream_use_mark(wm_timelines *set, wm_stream_use *use,
                               wm_timeline *t, bool due, wm_capture *capture)
{
    warm_event event = use->event;
    warm_status status = WARM_OK;

    if (wm_timeline_is_lost(set, t)) { /* who asks hears that it has passed */
        *capture = WM_CAPTURE_NONE;
        return WARM_OK;
    }
    if (due) {
        *capture = WM_CAPTURE_ACTIVE;
        return WARM_OK;
    }
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

/* The block's own use may not be pushed onto others. */
static warm_status leave_first_use(wm_block *block, wm_stream_use **use)
{
    wm_stream_use *moved;

    if (*use != &block->first_use) {
        return WARM_OK;
    }
    moved = wm_meta_alloc(sizeof *moved);
    if (moved == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    *moved = **use;
    wm_stream_use_give_up(block, *use);
    *use = moved;
    return WARM_OK;
}

/* Hangs *use on its block unless another thread has hung one of the same
 * timeline there; *pushed tells. */
static warm_status push_use(wm_timelines *set, wm_block *block,
                            wm_stream_use **use, bool *pushed)
{
    wm_stream_use *seen = NULL;
    warm_status status;
    bool due = false;

    (*use)->next_of_block = NULL;
    (*use)->pushes_left = USES_FEW;
    /* Release publishes the use. */
    *pushed = atomic_compare_exchange_strong_explicit(
        &block->uses, &seen, *use, memory_order_release, memory_order_relaxed);
    if (*pushed) {
        return WARM_OK;
    }
    status = leave_first_use(block, use);
    if (status == WARM_OK) {
        wm_lock_acquire(list_lock(set, block));
        *pushed = push_locked(block, *use, &due);
        wm_lock_release(list_lock(set, block));
    }
    if (due) {
        drop_ended(set, block);
    }
    return status;
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
    wm_stream_use *use;
    bool found = find_use(set, block, t, &use);
    /* A default stream means another stream in another thread or on another
     * device, from where the block may be freed: mark the point now. */
    bool defaults = is_default(t->stream) && capture == WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    bool pushed = false;

    if (found) {
        status = defaults && use != NULL
                     ? wm_stream_use_mark(set, use, t, false, &capture)
                     : WARM_OK;
        wm_timeline_drop(set, t);
        return status;
    }
    disown(block);
    use = new_use(block, t);
    if (use == NULL) {
        wm_timeline_drop(set, t);
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    if (defaults) {
        status = wm_stream_use_mark(set, use, t, false, &capture);
    }
    if (status == WARM_OK) {
        status = push_use(set, block, &use, &pushed);
    }
    if (!pushed) {
        wm_stream_use_end(set, use);
        wm_timeline_drop(set, t);
    }
    return status;
}

/* As add_use(), for an adopted stream: nothing is written but a word. */
static warm_status add_adopted(wm_timelines *set, wm_block *block,
                               wm_timeline *t, bool owner)
{
    wm_timeline *own = wm_block_own(block);
    wm_stream_use *seen = NULL;

    if (own == t) {
        wm_timeline_drop(set, t);
        return WARM_OK;
    }
    /* Release: whoever finds t there sees what made it. */
    if (own == NULL && owner) {
        atomic_store_explicit(&block->own, t, memory_order_release);
        return WARM_OK;
    }
    disown(block);
    if (atomic_compare_exchange_strong_explicit(
            &block->uses, &seen, wm_stream_use_bare(t), memory_order_release,
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
           (arena->pool == NULL || wm_arena_pool_number(arena) != 0) &&
           (lane > atomic_load_explicit(&set->retired, memory_order_relaxed) ||
            wm_lane_has(block->segment->arena, block, lane));
}

/* A graph may use the block at any later time. */
static void note_captured(wm_block *block)
{
    atomic_store_explicit(&block->captured, true, memory_order_relaxed);
    disown(block);
}

static warm_status use_adopted(wm_timelines *set, wm_block *block,
                               wm_timeline *t, bool owner)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = wm_driver_check_lost(set->driver, t->device);

    if (status == WARM_OK && wm_timelines_capture(set)) {
        status = wm_driver_stream_capture(set->driver, t->stream, &capture);
    }
    if (status == WARM_OK && capture == WM_CAPTURE_NONE &&
        !is_own(set, block, t->id)) {
        return add_adopted(set, block, t, owner);
    }
    /* It has another id then, and what was allocated on it in a capture is in
     * its order. */
    if (status == WARM_OK && capture != WM_CAPTURE_NONE &&
        !is_own(set, block, wm_stream_capture_id(t->stream))) {
        note_captured(block);
    }
    wm_timeline_drop(set, t);
    return status;
}

warm_status wm_stream_record(wm_timelines *set, wm_block *block,
                             warm_stream stream, bool owner, bool *adopted)
{
    wm_stream_info info;
    wm_timeline *t = wm_timeline_get_adopted(set, stream);
    warm_status status;

    *adopted = t != NULL;
    if (t != NULL) {
        return use_adopted(set, block, t, owner);
    }
    status = wm_timelines_info(set, stream, &info);
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

warm_status wm_timeline_lookup(wm_timelines *set, warm_stream stream,
                               wm_timeline **timeline, bool *captured)
{
    wm_stream_info info = {.capture = WM_CAPTURE_NONE};
    wm_timeline *t = wm_timeline_get_adopted(set, stream);
    warm_status status = WARM_OK;

    if (t == NULL) {
        status = wm_timelines_info(set, stream, &info);
    } else {
        status = wm_driver_check_lost(set->driver, t->device);
    }
    if (status == WARM_OK && t != NULL && wm_timelines_capture(set)) {
        status = wm_driver_stream_capture(set->driver, stream, &info.capture);
    }
    if (status == WARM_OK && t == NULL && info.capture != WM_CAPTURE_ACTIVE) {
        t = wm_timeline_get(set, stream, &info);
        status = t != NULL ? WARM_OK
                           : wm_fail(WARM_OUT_OF_MEMORY,
                                     "no memory for the record of a stream");
    } else if (status != WARM_OK && t != NULL) {
        wm_timeline_drop(set, t);
    }
    if (status == WARM_OK) {
        *timeline = t;
        *captured = info.capture == WM_CAPTURE_ACTIVE;
    }
    return status;
}

void wm_timeline_put(wm_timelines *set, wm_timeline *timeline)
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
    bool marked, due;

    if (wm_timeline_is_lost(set, timeline) ||
        !wm_timeline_begin_record(timeline, &due)) {
        return false;
    }
    marked = !due &&
             wm_driver_event_mark(set->driver, event, timeline->stream,
                                  &capture) == WARM_OK &&
             capture == WM_CAPTURE_NONE;
    wm_timeline_end_record(timeline, due);
    return marked;
}

bool wm_timelines_wait_point(wm_timelines *set, wm_timeline *timeline,
                             warm_event event)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;
    bool waits, due;

    if (wm_timeline_is_lost(set, timeline) ||
        !wm_timeline_begin_record(timeline, &due)) {
        return false;
    }
    waits = !due &&
            wm_driver_stream_capture(set->driver, timeline->stream, &capture) ==
                WARM_OK &&
            capture == WM_CAPTURE_NONE &&
            wm_driver_stream_wait_event(set->driver, timeline->stream, event) ==
                WARM_OK;
    wm_timeline_end_record(timeline, due);
    return waits;
}

void wm_timelines_use_known(wm_block *block, wm_timeline *timeline)
{
    wm_timeline_hold(timeline);
    /* Relaxed: nobody else has the block. */
    atomic_store_explicit(&block->uses, wm_stream_use_bare(timeline),
                          memory_order_relaxed);
}

unsigned wm_stream_use_count(wm_block *block)
{
    wm_stream_use *uses =
        atomic_load_explicit(&block->uses, memory_order_acquire);
    const wm_timeline *own = wm_block_own(block);
    unsigned count = own != NULL && wm_stream_use_find(uses, NULL, own) == NULL;

    for (wm_stream_use *use = uses; use != NULL;
         use = wm_stream_use_next(use)) {
        count++;
    }
    return count;
}

unsigned wm_timelines_streams(wm_timelines *set, wm_block *block)
{
    unsigned count;

    wm_lock_acquire(list_lock(set, block));
    count = wm_stream_use_count(block);
    wm_lock_release(list_lock(set, block));
    return count;
}
