/* use.c: streams that use a block: recorded while it is live, turned into
 * entries of their timelines when it is freed. See timeline.h. */
#include "alloc/timeline_int.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

/* ---- uses of a live block --------------------------------------------- */

static bool is_default(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

static wm_use *find_use(wm_use *from, const wm_use *until, const wm_timeline *t)
{
    for (wm_use *use = from; use != until; use = use->next_of_block) {
        if (use->timeline == t) {
            return use;
        }
    }
    return NULL;
}

static wm_use *new_use(wm_block *block, wm_timeline *t)
{
    wm_use *use = &block->first_use;

    /* Acquire pairs with the release in wm_use_end(): what another thread wrote
     * to first_use, and gave up, does not come after what is written now. */
    if (atomic_exchange_explicit(&block->first_use_taken, true,
                                 memory_order_acquire)) {
        use = wm_meta_alloc(sizeof *use);
        if (use == NULL) {
            return NULL;
        }
    }
    *use = (wm_use){.timeline = t, .block = block};
    return use;
}

/* Ends a use that is in no list and no queue. The block's own one is free to
 * be taken again: it matters only while the block is LIVE. */
void wm_use_end(wm_timelines *set, wm_use *use)
{
    wm_block *block = use->block;
    wm_timeline *t = use->timeline;

    if (use->event != NULL) {
        wm_event_pool_put(set->events, t->device, use->event);
    }
    if (use == &block->first_use) {
        /* Release: see new_use(). */
        atomic_store_explicit(&block->first_use_taken, false,
                              memory_order_release);
    } else {
        wm_meta_free(use);
    }
    wm_timeline_drop(set, t);
}

warm_status wm_use_mark(wm_timelines *set, wm_use *use, warm_stream stream)
{
    warm_event event = use->event;
    warm_status status = WARM_OK;

    if (event == NULL) {
        status = wm_event_pool_take(set->events, use->timeline->device, &event);
    }
    if (status == WARM_OK) {
        status = wm_driver_event_record(set->driver, event, stream);
    }
    /* A use that has its event may be shared by now, and is not written. */
    if (use->event == NULL && event != NULL) {
        if (status == WARM_OK) {
            use->event = event;
        } else {
            wm_event_pool_put(set->events, use->timeline->device, event);
        }
    }
    return status;
}

/* Hangs use on its block unless another thread has hung one of the same
 * timeline there; answers whether it did. */
static bool push_use(wm_block *block, wm_use *use, wm_use *seen)
{
    use->next_of_block = seen;
    /* Release publishes the use; acquire shows those of others. */
    while (!atomic_compare_exchange_weak_explicit(
        &block->uses, &use->next_of_block, use, memory_order_release,
        memory_order_acquire)) {
        if (find_use(use->next_of_block, seen, use->timeline) != NULL) {
            return false;
        }
        seen = use->next_of_block;
    }
    return true;
}

/* Adds a use on t, whose reference it takes over in any case. */
static warm_status add_use(wm_timelines *set, wm_block *block, wm_timeline *t,
                           wm_capture capture)
{
    wm_use *first = atomic_load_explicit(&block->uses, memory_order_acquire);
    wm_use *use = find_use(first, NULL, t);
    bool defaults = is_default(t->stream) && capture == WM_CAPTURE_NONE;
    warm_status status = WARM_OK;

    if (use != NULL) {
        status = defaults && use->event != NULL
                     ? wm_use_mark(set, use, t->stream)
                     : WARM_OK;
        wm_timeline_drop(set, t);
        return status;
    }
    use = new_use(block, t);
    if (use == NULL) {
        wm_timeline_drop(set, t);
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    /* A default stream means another stream in another thread or on another
     * device, from where the block may be freed: mark the point now. */
    if (defaults) {
        status = wm_use_mark(set, use, t->stream);
    }
    if (status != WARM_OK || !push_use(block, use, first)) {
        wm_use_end(set, use);
    }
    return status;
}

warm_status wm_timelines_use(wm_timelines *set, wm_block *block,
                             warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_NONE;
    wm_stream_info info;
    wm_timeline *t;
    warm_status status =
        wm_driver_stream_capture(set->driver, stream, &capture);

    if (status == WARM_OK && capture == WM_CAPTURE_ACTIVE) {
        atomic_store_explicit(&block->captured, true, memory_order_relaxed);
        return WARM_OK;
    }
    if (status == WARM_OK) {
        status = wm_driver_stream_info(set->driver, stream, &info);
    }
    if (status != WARM_OK) {
        return status;
    }
    t = wm_timeline_get(set, stream, &info);
    if (t == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    return add_use(set, block, t, capture);
}

unsigned wm_timelines_streams(wm_block *block)
{
    unsigned count = 0;

    for (wm_use *use = atomic_load_explicit(&block->uses, memory_order_acquire);
         use != NULL; use = use->next_of_block) {
        count++;
    }
    return count;
}

/* ---- freeing ---------------------------------------------------------- */

static void drop_event(wm_timelines *set, wm_use *use)
{
    if (use->event != NULL) {
        wm_event_pool_put(set->events, use->timeline->device, use->event);
        use->event = NULL;
    }
}

/* The driver failed to record: the stream is waited for, or nobody knows. */
static enum wm_uses wait_instead(wm_timelines *set, wm_use *use)
{
    warm_status status =
        wm_driver_stream_synchronize(set->driver, use->timeline->stream);

    return status == WARM_OK ? WM_USES_NONE : WM_USES_LOST;
}

static enum wm_uses record_use(wm_timelines *set, wm_use *use)
{
    wm_timeline *t = use->timeline;
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status =
        wm_driver_stream_capture(set->driver, t->stream, &capture);

    /* First: a stream that captures cannot be told from another one. */
    if (status == WARM_OK && capture == WM_CAPTURE_ACTIVE) {
        return WM_USES_CAPTURED;
    }
    if (!wm_timeline_is_same_stream(set, t)) {
        if (use->event != NULL) {
            return WM_USES_PENDING;
        }
        (void)wm_fail(WARM_INVALID_STREAM, "a stream that uses it was "
                                           "destroyed and not retired before");
        return WM_USES_LOST;
    }
    if (status != WARM_OK) {
        return wait_instead(set, use);
    }
    if (capture == WM_CAPTURE_BLOCKED) {
        drop_event(set, use); /* to be recorded once it may be */
        return WM_USES_PENDING;
    }
    if (wm_use_mark(set, use, t->stream) != WARM_OK) {
        return wait_instead(set, use);
    }
    return WM_USES_PENDING;
}

static enum wm_uses prepare_use(wm_timelines *set, wm_use *use)
{
    wm_timeline *t = use->timeline;
    enum wm_uses outcome;

    if (!wm_timeline_begin_record(t)) {
        drop_event(set, use); /* the final event is the later one */
        if (!wm_timeline_is_retired(t) || !t->dead) {
            return WM_USES_PENDING;
        }
        (void)wm_fail(WARM_DRIVER_ERROR, "the end of a stream that uses it "
                                         "could not be recorded");
        return WM_USES_LOST;
    }
    outcome = record_use(set, use);
    wm_timeline_end_record(t);
    return outcome;
}

static void end_uses(wm_timelines *set, wm_use *use)
{
    while (use != NULL) {
        wm_use *next = use->next_of_block;

        wm_use_end(set, use);
        use = next;
    }
}

void wm_timelines_forget(wm_timelines *set, wm_block *block)
{
    end_uses(set, atomic_exchange_explicit(&block->uses, NULL,
                                           memory_order_acquire));
}

static void set_uses(wm_block *block, wm_use *uses)
{
    /* Relaxed: the block is FREEING, this thread's alone. */
    atomic_store_explicit(&block->uses, uses, memory_order_relaxed);
}

enum wm_uses wm_timelines_prepare(wm_timelines *set, wm_block *block)
{
    enum wm_uses outcome = WM_USES_NONE;
    wm_use *use = atomic_load_explicit(&block->uses, memory_order_acquire);
    wm_use *kept = NULL;

    if (atomic_load_explicit(&block->captured, memory_order_relaxed)) {
        outcome = WM_USES_CAPTURED;
    }
    while (use != NULL) {
        wm_use *next = use->next_of_block;
        enum wm_uses one =
            outcome >= WM_USES_LOST ? outcome : prepare_use(set, use);

        if (one == WM_USES_NONE) {
            wm_use_end(set, use);
        } else {
            use->next_of_block = kept;
            kept = use;
            outcome = one;
        }
        use = next;
    }
    if (outcome != WM_USES_PENDING) {
        end_uses(set, kept);
        kept = NULL;
    }
    set_uses(block, kept);
    return outcome;
}

/* use may be gone when this returns, and with it its reference. */
static void enqueue(wm_timeline *t, wm_use *use)
{
    wm_lock_acquire(&t->lock);
    use->next_in_queue = NULL;
    if (t->tail != NULL) {
        t->tail->next_in_queue = use;
    } else {
        t->head = use;
    }
    t->tail = use;
    wm_lock_release(&t->lock);
}

/* Puts t on the busy list; the caller has a reference. */
static void make_busy(wm_timelines *set, wm_timeline *t)
{
    wm_lock_acquire(&set->lock);
    if (!t->busy) {
        t->busy = true;
        t->next_busy = NULL;
        if (set->busy_tail != NULL) {
            set->busy_tail->next_busy = t;
        } else {
            set->busy_head = t;
        }
        set->busy_tail = t;
    }
    wm_lock_release(&set->lock);
}

void wm_timelines_publish(wm_timelines *set, wm_block *block)
{
    wm_use *use = atomic_load_explicit(&block->uses, memory_order_relaxed);
    unsigned count = wm_timelines_streams(block);

    set_uses(block, NULL);
    /* Relaxed: the locks of the queues carry it to whoever takes from them. */
    atomic_store_explicit(&block->queued, count, memory_order_relaxed);
    while (use != NULL) {
        wm_use *next = use->next_of_block;
        wm_timeline *t = use->timeline;

        wm_timeline_hold(set, t);
        enqueue(t, use);
        make_busy(set, t);
        wm_timeline_drop(set, t);
        use = next;
    }
}
