/* stream_use.c: records streams on a live block; records the event of a use.
 * See timeline.h for the locks. */
#include "alloc/stream/timeline_int.h"

#include "alloc/arena/arena.h"

/* Pushes onto a block's list before a search for uses of retired streams; the
 * next search comes after USES_FEW pushes more than there are uses left. */
enum { USES_FEW = 8 };

/* ---- the list of a live block ------------------------------------------- */

static wm_lock *list_lock(wm_timelines *set, const wm_block *block)
{
    return &set->uses[(uintptr_t)block / sizeof *block % WM_USE_LOCKS];
}

wm_stream_use *wm_stream_use_find(wm_stream_use *use, const wm_timeline *t)
{
    while (use != NULL && !wm_stream_use_is_bare(use) && use->timeline != t) {
        use = use->next_of_block;
    }
    return use != NULL && wm_stream_use_is_bare(use) &&
                   wm_stream_use_bare_timeline(use) != t
               ? NULL
               : use;
}

/* False: another thread has recorded the same stream. *due: uses of retired
 * streams should be searched for. */
static bool push_locked(wm_block *block, wm_stream_use *use, bool *due)
{
    wm_stream_use *first =
        atomic_load_explicit(&block->uses, memory_order_acquire);

    /* Loops only if the list was empty, which a thread without the lock may
     * push onto. Release: publishes the use. Acquire: shows the use that the
     * other thread pushed. */
    do {
        if (wm_stream_use_find(first, use->timeline) != NULL) {
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

/* Takes the uses of retired streams out of the list. Leaves first_use, which
 * may be reserved for a bare timeline as soon as it is in no list. *left:
 * number of uses that stay. */
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
    /* Release: the first use may now be one that another thread pushed. No
     * thread pushes without the lock, since the list is not empty. */
    if (taken != NULL) {
        atomic_store_explicit(&block->uses, first, memory_order_release);
    }
    return taken;
}

/* Whether all work on a retired stream has completed. */
static bool has_completed(wm_timelines *set, const wm_timeline *t)
{
    return wm_timeline_is_lost(set, t) ||
           (!t->dead &&
            (t->final == NULL ||
             wm_driver_event_passed(set->driver, t->final) == WARM_OK));
}

/* Drops the uses of retired streams whose work has completed. Each retired
 * stream costs one query, whether completed or not; since as many pushes as
 * uses were left lie between two searches, a push costs about one query. The
 * calling thread is recording on the block, which is therefore not freed
 * meanwhile. */
static void drop_completed(wm_timelines *set, wm_block *block)
{
    wm_lock *lock = list_lock(set, block);
    wm_stream_use *use, *first, *pending = NULL, *last = NULL;
    size_t left;

    WM_KEEP_ERROR();
    wm_lock_acquire(lock);
    use = take_retired_locked(block, &left);
    wm_lock_release(lock);
    while (use != NULL) {
        wm_stream_use *next = use->next_of_block;
        wm_timeline *t = use->timeline;

        if (has_completed(set, t)) {
            wm_stream_use_end(set, use);
            wm_timeline_drop(set, t);
        } else {
            last = last == NULL ? use : last;
            use->next_of_block = pending;
            pending = use;
            left++;
        }
        use = next;
    }
    wm_lock_acquire(lock);
    first = atomic_load_explicit(&block->uses, memory_order_acquire);
    if (pending != NULL) {
        /* Release and acquire as in push_locked(). */
        do {
            last->next_of_block = first;
        } while (!atomic_compare_exchange_weak_explicit(
            &block->uses, &first, pending, memory_order_release,
            memory_order_acquire));
        first = pending;
    }
    if (first != NULL && !wm_stream_use_is_bare(first)) {
        first->pushes_left = left + USES_FEW;
    }
    wm_lock_release(lock);
}

/* ---- uses of a live block --------------------------------------------- */

warm_status wm_stream_use_record_event(wm_timelines *set, wm_stream_use *use,
                                       wm_timeline *t, bool due,
                                       wm_capture *capture)
{
    warm_event event = use->event;
    warm_status status = WARM_OK;

    if (wm_timeline_is_lost(set, t)) { /* a query finds it complete */
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
        atomic_fetch_add_explicit(&set->recorded, status == WARM_OK,
                                  memory_order_relaxed);
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

/* Pushes a copy of *use onto its block's list, unless another thread has pushed
 * one of the same timeline. *pushed: the copy was pushed.
 *
 * The copy is in first_use only if the list is empty: if a bare timeline ends
 * the list, or is in block->owner_stream, first_use is reserved for that one.
 */
static warm_status push_use(wm_timelines *set, const wm_stream_use *use,
                            bool *pushed)
{
    wm_block *block = use->block;
    wm_stream_use *copy = &block->first_use, *seen = NULL;
    bool due = false;

    /* Relaxed: one thread claims first_use while the block is LIVE, and none
     * gives it back. */
    if (atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL ||
        wm_block_own(block) != NULL ||
        atomic_exchange_explicit(&block->first_use_taken, true,
                                 memory_order_relaxed)) {
        copy = wm_meta_alloc(sizeof *copy);
    }
    if (copy == NULL) {
        return wm_timeline_no_record();
    }
    *copy = *use;
    /* Release: publishes the use. */
    *pushed = atomic_compare_exchange_strong_explicit(
        &block->uses, &seen, copy, memory_order_release, memory_order_relaxed);
    if (*pushed) {
        return WARM_OK;
    }
    if (copy == &block->first_use) {
        copy = wm_meta_alloc(sizeof *copy);
        if (copy == NULL) {
            return wm_timeline_no_record();
        }
        *copy = *use;
    }
    wm_lock_acquire(list_lock(set, block));
    *pushed = push_locked(block, copy, &due);
    wm_lock_release(list_lock(set, block));
    if (!*pushed) {
        wm_meta_free(copy);
    }
    if (due) {
        drop_completed(set, block);
    }
    return WARM_OK;
}

/* Clears the magazine set's number in the state of a LIVE block: a free that
 * hits in that set would not look at the list. The caller orders the free after
 * this. */
static void clear_set_number(wm_block *block)
{
    wm_state state = atomic_load_explicit(&block->state, memory_order_relaxed);

    /* Relaxed: a read-modify-write is part of the release sequence of the store
     * of LIVE, so that look-ups still see the writes before that. */
    while (wm_state_kind(state) == WM_BLOCK_LIVE && state != WM_BLOCK_LIVE &&
           !atomic_compare_exchange_weak_explicit(
               &block->state, &state, wm_state_of_set(WM_BLOCK_LIVE, 0),
               memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Adds a use on t, and takes over the reference in any case. capture: state of
 * the stream. */
static warm_status add_use(wm_timelines *set, wm_block *block, wm_timeline *t,
                           wm_capture capture)
{
    wm_stream_use use = {
        .timeline = t, .block = block, .pushes_left = USES_FEW};
    wm_stream_use *found = NULL, *marked = &use;
    /* The name of a default stream means another stream in another thread or on
     * another device, where the block may be freed: record the event now. */
    bool defaults =
        wm_stream_is_default(t->stream) && capture == WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    bool pushed = false;

    /* Relaxed: an empty list has no use of t. */
    if (atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL) {
        wm_lock_acquire(list_lock(set, block));
        found = wm_stream_use_find(
            atomic_load_explicit(&block->uses, memory_order_acquire), t);
        if (found != NULL) {
            /* Only the use of a default stream has an event before the free,
             * and it is never dropped. */
            marked = !wm_stream_use_is_bare(found) && found->event != NULL
                         ? found
                         : NULL;
        }
        wm_lock_release(list_lock(set, block));
    }
    if (found == NULL) {
        clear_set_number(block);
    }
    if (defaults && marked != NULL) {
        status = wm_stream_use_record_event(set, marked, t, false, &capture);
    }
    if (found == NULL && status == WARM_OK) {
        status = push_use(set, &use, &pushed);
    }
    if (!pushed) {
        if (use.event != NULL) {
            wm_event_pool_put(set->events, t->device, use.event);
        }
        wm_timeline_drop(set, t);
    }
    return status;
}

/* add_use() for an adopted stream. The first record writes one word only. */
static warm_status add_adopted(wm_timelines *set, wm_block *block,
                               wm_timeline *t, bool owner)
{
    wm_timeline *own = wm_block_own(block);
    wm_stream_use *seen = NULL;

    if (own == t) {
        wm_timeline_drop(set, t);
        return WARM_OK;
    }
    /* Relaxed: compared only, until the free, which the caller orders after its
     * records. */
    if (own == NULL && owner) {
        atomic_store_explicit(&block->owner_stream, t, memory_order_relaxed);
        return WARM_OK;
    }
    clear_set_number(block);
    if (atomic_compare_exchange_strong_explicit(
            &block->uses, &seen, wm_stream_use_bare(t), memory_order_release,
            memory_order_acquire)) {
        return WARM_OK;
    }
    return add_use(set, block, t, WM_CAPTURE_NONE);
}

/* True if work on the stream with that id needs no record, since the block was
 * allocated in its order. If no stream with that id or a higher one was
 * retired, equal ids suffice; else the lane must still be open. A block of a
 * private pool that has ended needs a record: a later capture may use the same
 * id. */
static bool needs_no_record(wm_timelines *set, const wm_block *block,
                            uint64_t id)
{
    const wm_arena *arena = block->segment->arena;
    uint64_t lane = wm_timeline_lane_id(id);

    /* Relaxed: this thread retired the stream, or synchronized with the thread
     * that did. */
    return block->lane_id == lane &&
           (arena->pool == NULL || wm_arena_pool_number(arena) != 0) &&
           (lane > atomic_load_explicit(&set->retired, memory_order_relaxed) ||
            wm_lane_has(block->segment->arena, block, lane));
}

/* A graph may use the block at any later time. */
static void note_captured(wm_block *block)
{
    atomic_store_explicit(&block->captured, true, memory_order_relaxed);
    clear_set_number(block);
}

/* Whether an adopted stream captures. No driver call if no capture is known. */
static inline warm_status
adopted_capture(wm_timelines *set, const wm_timeline *t, wm_capture *capture)
{
    warm_status status = wm_driver_check_lost(set->driver, t->device);

    *capture = WM_CAPTURE_NONE;
    return status == WARM_OK && wm_timelines_capture(set)
               ? wm_driver_stream_capture(set->driver, t->stream, capture)
               : status;
}

/* Takes over the reference to t. */
static warm_status record_adopted(wm_timelines *set, wm_block *block,
                                  wm_timeline *t, bool owner)
{
    wm_capture capture;
    warm_status status = adopted_capture(set, t, &capture);
    /* While it captures, the stream has another id; a block that was allocated
     * on it in the capture is in its order. */
    uint64_t id =
        capture == WM_CAPTURE_NONE ? t->id : wm_stream_capture_id(t->stream);

    if (status == WARM_OK && !needs_no_record(set, block, id)) {
        if (capture == WM_CAPTURE_NONE) {
            return add_adopted(set, block, t, owner);
        }
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
        return record_adopted(set, block, t, owner);
    }
    if (!wm_driver_has_stream(set->driver, stream)) {
        return WARM_OK;
    }
    status = wm_timelines_info(set, stream, &info);
    if (status != WARM_OK || needs_no_record(set, block, info.id)) {
        return status;
    }
    if (info.capture == WM_CAPTURE_ACTIVE) {
        note_captured(block);
        return WARM_OK;
    }
    t = wm_timeline_get(set, stream, &info);
    return t != NULL ? add_use(set, block, t, info.capture)
                     : wm_timeline_no_record();
}

/* ---- all that was queued ------------------------------------------------ */

static wm_timeline *next_adopted_locked(wm_timelines *set, const wm_timeline *t,
                                        const void *device)
{
    int of = *(const int *)device;
    wm_timeline *next = wm_timeline_next_locked(set, t);

    while (next != NULL &&
           (!wm_timeline_is_adopted(next) || (of >= 0 && next->device != of))) {
        next = wm_timeline_next_locked(set, next);
    }
    return next;
}

warm_status wm_stream_record_adopted(wm_timelines *set, wm_block *block,
                                     int device)
{
    warm_status status = WARM_OK;
    wm_timeline *t = NULL;

    while ((t = wm_timeline_next(set, t, next_adopted_locked, &device)) !=
           NULL) {
        if (wm_timeline_is_lost(set, t)) {
            continue;
        }
        wm_timeline_hold(t);
        status = add_adopted(set, block, t, false);
        if (status != WARM_OK) {
            wm_timeline_drop(set, t);
            break;
        }
    }
    return status;
}

warm_status wm_stream_record_default(wm_timelines *set, wm_block *block)
{
    wm_stream_info info;
    warm_status status = wm_timelines_info(set, WARM_STREAM_LEGACY, &info);
    wm_timeline *t;

    if (status != WARM_OK) {
        return status;
    }
    t = wm_timeline_get(set, WARM_STREAM_LEGACY, &info);
    return t != NULL ? add_use(set, block, t, info.capture)
                     : wm_timeline_no_record();
}

/* ---- for the owners of lanes -------------------------------------------- */

warm_status wm_timeline_lookup(wm_timelines *set, warm_stream stream,
                               wm_timeline **timeline, bool *captured)
{
    wm_stream_info info;
    wm_timeline *t = wm_timeline_get_adopted(set, stream);
    warm_status status = t != NULL ? adopted_capture(set, t, &info.capture)
                                   : wm_timelines_info(set, stream, &info);

    if (status == WARM_OK && t == NULL && info.capture != WM_CAPTURE_ACTIVE) {
        t = wm_timeline_get(set, stream, &info);
        status = t != NULL ? WARM_OK : wm_timeline_no_record();
    }
    if (status == WARM_OK) {
        *timeline = t;
        *captured = info.capture == WM_CAPTURE_ACTIVE;
    } else if (t != NULL) {
        wm_timeline_drop(set, t);
    }
    return status;
}

unsigned wm_timelines_streams(wm_timelines *set, wm_block *block)
{
    wm_lock *lock = list_lock(set, block);
    const wm_timeline *own;
    wm_stream_use *use;
    unsigned count;

    wm_lock_acquire(lock);
    use = atomic_load_explicit(&block->uses, memory_order_acquire);
    own = wm_block_own(block);
    count = own != NULL && wm_stream_use_find(use, own) == NULL;
    while (use != NULL && !wm_stream_use_is_bare(use)) {
        use = use->next_of_block;
        count++;
    }
    count += use != NULL;
    wm_lock_release(lock);
    return count;
}
