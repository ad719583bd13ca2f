/* timeline.c: the tables and the busy list of timelines, references, access to
 * a stream by name. See timeline.h for the picture and the locks. */
#include "alloc/stream/timeline_int.h"

/* Unused timelines that stay in the table, against churn. */
enum { KEEP_IDLE = 64 };

/* ---- the tables ------------------------------------------------------- */

static wm_timeline **bucket_of(wm_timeline **table, uint64_t key)
{
    return &table[(key * UINT64_C(0x9E3779B97F4A7C15)) >>
                  (64 - WM_TIMELINE_BITS)];
}

wm_timeline *wm_timeline_find_locked(wm_timelines *set, uint64_t id)
{
    wm_timeline *t = *bucket_of(set->by_id, id);

    while (t != NULL && t->id != id) {
        t = t->next_by_id;
    }
    return t;
}

wm_timeline *wm_timeline_next_named_locked(wm_timelines *set,
                                           warm_stream stream,
                                           const wm_timeline *t)
{
    wm_timeline *next = t != NULL && t->in_table
                            ? t->next_by_name
                            : *bucket_of(set->by_name, (uintptr_t)stream);

    while (next != NULL &&
           (next->stream != stream || !wm_timeline_is_named_here(next))) {
        next = next->next_by_name;
    }
    return next;
}

wm_timeline *wm_timeline_find_adopted_locked(wm_timelines *set,
                                             warm_stream stream)
{
    wm_timeline *t = *bucket_of(set->by_name, (uintptr_t)stream);

    while (t != NULL && (t->stream != stream || !wm_timeline_is_adopted(t))) {
        t = t->next_by_name;
    }
    return t;
}

wm_timeline *wm_timeline_find_stream_locked(wm_timelines *set,
                                            warm_stream stream)
{
    wm_timeline *t = NULL, *best = NULL;
    unsigned best_rank = 0;

    while ((t = wm_timeline_next_named_locked(set, stream, t)) != NULL) {
        unsigned rank = 1u + wm_timeline_is_adopted(t) + 2u * t->announced;

        if (rank > best_rank) {
            best = t;
            best_rank = rank;
        }
    }
    return best;
}

wm_timeline *wm_timeline_next_locked(wm_timelines *set, const wm_timeline *t)
{
    wm_timeline **bucket = set->by_id;

    if (t != NULL) {
        bucket = bucket_of(set->by_id, t->id);
        if (t->in_table && t->next_by_id != NULL) {
            return t->next_by_id;
        }
        bucket += t->in_table;
    }
    while (bucket < set->by_id + WM_TIMELINE_BUCKETS && *bucket == NULL) {
        bucket++;
    }
    return bucket < set->by_id + WM_TIMELINE_BUCKETS ? *bucket : NULL;
}

wm_timeline *wm_timeline_next(wm_timelines *set, wm_timeline *t,
                              wm_timeline_find_fn *find, const void *context)
{
    wm_timeline *next;

    wm_lock_acquire(&set->lock);
    next = find(set, t, context);
    if (next != NULL) {
        wm_timeline_hold(next);
    }
    wm_lock_release(&set->lock);
    if (t != NULL) {
        wm_timeline_drop(set, t);
    }
    return next;
}

static void insert_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **by_id = bucket_of(set->by_id, t->id);
    wm_timeline **by_name = bucket_of(set->by_name, (uintptr_t)t->stream);

    t->next_by_id = *by_id;
    *by_id = t;
    t->next_by_name = *by_name;
    *by_name = t;
    t->in_table = true;
    set->count++;
    if (t->stream == WARM_STREAM_PER_THREAD) {
        atomic_store_explicit(&set->any_per_thread, true, memory_order_relaxed);
    }
}

void wm_timeline_remove_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **by_id = bucket_of(set->by_id, t->id);
    wm_timeline **by_name = bucket_of(set->by_name, (uintptr_t)t->stream);

    while (*by_id != t) {
        by_id = &(*by_id)->next_by_id;
    }
    *by_id = t->next_by_id;
    while (*by_name != t) {
        by_name = &(*by_name)->next_by_name;
    }
    *by_name = t->next_by_name;
    t->in_table = false;
    set->count--;
}

static void end_timeline(wm_timelines *set, wm_timeline *t)
{
    if (t->final != NULL) {
        wm_event_pool_put(set->events, t->device, t->final);
    }
    wm_meta_free(t);
}

wm_timeline *wm_timeline_get_locked(wm_timelines *set, warm_stream stream,
                                    const wm_stream_info *info)
{
    wm_timeline *t = wm_timeline_find_locked(set, info->id);

    if (t == NULL) {
        t = wm_meta_alloc(sizeof *t);
        if (t == NULL) {
            return NULL;
        }
        t->id = info->id;
        t->device = info->device;
        t->stream = stream;
        t->thread = wm_window_thread();
        wm_lock_init(&t->lock, WM_RANK_TIMELINE);
        insert_locked(set, t);
    }
    wm_timeline_hold(t);
    return t;
}

void wm_timelines_want_window(wm_timelines *set, warm_stream stream)
{
    wm_window *window;

    if (stream == WARM_STREAM_PER_THREAD) {
        (void)wm_window_get_quietly(set->runtime, &window);
    }
}

wm_timeline *wm_timeline_get(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info)
{
    wm_timeline *t;

    wm_timelines_want_window(set, stream);
    wm_lock_acquire(&set->lock);
    t = wm_timeline_get_locked(set, stream, info);
    wm_lock_release(&set->lock);
    return t;
}

wm_timeline *wm_timeline_get_adopted(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t;

    if (wm_stream_is_default(stream)) {
        return NULL;
    }
    wm_lock_acquire(&set->lock);
    t = wm_timeline_find_adopted_locked(set, stream);
    if (t != NULL) {
        wm_timeline_hold(t);
    }
    wm_lock_release(&set->lock);
    return t;
}

void wm_timeline_drop_many(wm_timelines *set, wm_timeline *t, size_t count)
{
    size_t now = atomic_load_explicit(&t->references, memory_order_relaxed);
    bool ends;

    while (now > count) {
        /* Release: pairs with the acquire below. */
        if (atomic_compare_exchange_weak_explicit(
                &t->references, &now, now - count, memory_order_release,
                memory_order_relaxed)) {
            return;
        }
    }
    /* The last references are dropped under the lock under which look-ups add
     * them. */
    wm_lock_acquire(&set->lock);
    /* Acquire: all use of the references that were dropped before is over. */
    ends = atomic_fetch_sub_explicit(&t->references, count,
                                     memory_order_acq_rel) == count;
    /* A busy timeline is freed by its poller. Unused timelines beyond KEEP_IDLE
     * are freed: else the table would grow with every stream that the program
     * ever had. */
    ends = ends && !t->busy && (!t->in_table || set->count > KEEP_IDLE);
    if (ends && t->in_table) {
        wm_timeline_remove_locked(set, t);
    }
    wm_lock_release(&set->lock);
    if (ends) {
        end_timeline(set, t);
    }
}

/* ---- messages ----------------------------------------------------------- */

warm_status wm_timeline_no_record(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
}

warm_status wm_timeline_captures(void)
{
    return wm_fail(WARM_CAPTURE_ERROR, "a capture is under way");
}

warm_status wm_timeline_end_unknown(void)
{
    return wm_fail(WARM_DRIVER_ERROR,
                   "the end of a stream that uses it could not be recorded");
}

warm_status wm_timeline_was_destroyed(void)
{
    return wm_fail(WARM_INVALID_STREAM,
                   "a stream that uses it was destroyed before "
                   "warm_stream_retire() was called");
}

/* ---- the busy list ------------------------------------------------------- */

static void count_busy_locked(wm_timelines *set, int change)
{
    atomic_store_explicit(&set->busy, wm_timelines_busy(set) + (size_t)change,
                          memory_order_relaxed);
}

/* previous: null: t becomes the first. */
static void insert_behind_locked(wm_timelines *set, wm_timeline *t,
                                 wm_timeline *previous)
{
    wm_timeline **link =
        previous != NULL ? &previous->next_busy : &set->busy_head;

    t->previous_busy = previous;
    t->next_busy = *link;
    *(t->next_busy != NULL ? &t->next_busy->previous_busy : &set->busy_tail) =
        t;
    *link = t;
}

static void unlink_locked(wm_timelines *set, wm_timeline *t)
{
    *(t->previous_busy != NULL ? &t->previous_busy->next_busy
                               : &set->busy_head) = t->next_busy;
    *(t->next_busy != NULL ? &t->next_busy->previous_busy : &set->busy_tail) =
        t->previous_busy;
}

void wm_timeline_make_busy(wm_timelines *set, wm_timeline *t, uint64_t since)
{
    wm_timeline *previous;

    wm_lock_acquire(&set->lock);
    if (t->busy) {
        wm_lock_release(&set->lock);
        return;
    }
    wm_lock_acquire(&t->lock);
    t->busy = true;
    wm_lock_release(&t->lock);
    t->busy_since = since;
    t->unpolled = true;
    /* Behind the last timeline that is not younger. The list may be out of
     * order, but a thread that flushes its slots makes them busy oldest first:
     * the search from the end is short, with a thousand streams, too. */
    previous = set->busy_tail;
    while (since != 0 && previous != NULL && previous->busy_since > since) {
        previous = previous->previous_busy;
    }
    insert_behind_locked(set, t, previous);
    count_busy_locked(set, 1);
    wm_lock_release(&set->lock);
}

bool wm_timelines_any(wm_timelines *set)
{
    return atomic_load_explicit(&set->slots, memory_order_relaxed) > 0 ||
           wm_timelines_busy(set) > 0;
}

bool wm_timelines_unasked(wm_timelines *set)
{
    const wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->busy_head;
    while (t != NULL && !t->unpolled) {
        t = t->next_busy;
    }
    wm_lock_release(&set->lock);
    return t != NULL;
}

wm_timeline *wm_timeline_next_busy(wm_timelines *set, uint64_t round)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->busy_head;
    while (t != NULL && t->round >= round) {
        t = t->next_busy;
    }
    if (t != NULL) {
        wm_timeline_hold(t);
        unlink_locked(set, t);
        insert_behind_locked(set, t, set->busy_tail);
        if (round != UINT64_MAX) {
            t->round = round;
            t->unpolled = false;
        }
    }
    wm_lock_release(&set->lock);
    return t;
}

/* A use that is added after t left the list sees busy == false and puts t back.
 * A timeline that another thread polls stays on the list, and that thread
 * removes it: a call that waits for completed work must find it. */
void wm_timeline_end_turn(wm_timelines *set, wm_timeline *t, bool left)
{
    if (!left) {
        wm_lock_acquire(&set->lock);
        wm_lock_acquire(&t->lock);
        if (t->busy && t->queue.head == NULL && t->open.count == 0 &&
            !t->polled && t->closing == 0) {
            t->busy = false;
            unlink_locked(set, t);
            count_busy_locked(set, -1);
        }
        wm_lock_release(&t->lock);
        wm_lock_release(&set->lock);
    }
    wm_timeline_drop(set, t);
}

/* ---- recording, and waiting --------------------------------------------- */

bool wm_timeline_begin_record_locked(wm_timeline *t, bool *due)
{
    *due = t->capture_due;
    t->recorders += !t->retiring;
    t->unwarned += !t->retiring && !*due;
    return !t->retiring;
}

bool wm_timeline_begin_record(wm_timeline *t, bool *due)
{
    bool begun;

    wm_lock_acquire(&t->lock);
    begun = wm_timeline_begin_record_locked(t, due);
    wm_lock_release(&t->lock);
    return begun;
}

void wm_timeline_end_record_locked(wm_timeline *t, bool due)
{
    t->recorders--;
    t->unwarned -= !due;
    wm_cond_broadcast(&t->quiet);
}

void wm_timeline_end_record(wm_timeline *t, bool due)
{
    wm_lock_acquire(&t->lock);
    wm_timeline_end_record_locked(t, due);
    wm_lock_release(&t->lock);
}

warm_status wm_timeline_synchronize(wm_timelines *set, wm_timeline *t,
                                    wm_capture *capture)
{
    warm_status status;

    *capture = WM_CAPTURE_NONE;
    if (wm_timeline_is_lost(set, t)) {
        return WARM_OK;
    }
    status = wm_driver_stream_capture(set->driver, t->stream, capture);
    return status == WARM_OK && *capture == WM_CAPTURE_NONE
               ? wm_driver_stream_await(set->driver, t->stream)
               : status;
}

warm_status wm_timeline_await(wm_timelines *set, wm_timeline *t)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    bool due;

    if (wm_timeline_begin_record(t, &due)) {
        if (!due) {
            status = wm_timeline_synchronize(set, t, &capture);
        }
        wm_timeline_end_record(t, due);
        return !due && capture == WM_CAPTURE_NONE ? status
                                                  : wm_timeline_captures();
    }
    wm_lock_acquire(&t->lock);
    while (!wm_timeline_is_retired(t)) {
        wm_cond_wait(&t->quiet, &t->lock);
    }
    wm_lock_release(&t->lock);
    if (wm_timeline_is_lost(set, t)) {
        return WARM_OK;
    }
    if (t->dead) {
        return wm_timeline_end_unknown();
    }
    return t->final == NULL ? WARM_OK
                            : wm_driver_event_await(set->driver, t->final);
}

/* ---- begin and end ---------------------------------------------------- */

void wm_timelines_init(wm_timelines *set, warm_runtime *runtime,
                       wm_event_pool *events, const wm_options *options,
                       const wm_timeline_ops *ops)
{
    *set = (wm_timelines){.runtime = runtime,
                          .driver = runtime->driver,
                          .events = events,
                          .ops = ops,
                          .batch_count = options->batch_count,
                          .batch_bytes_max = options->batch_bytes,
                          .batch_bytes = options->batch_bytes,
                          .batch_ns = options->batch_ms * 1000000u};
    wm_lock_init(&set->lock, WM_RANK_TIMELINES);
    for (int i = 0; i < WM_USE_LOCKS; i++) {
        wm_lock_init(&set->uses[i], WM_RANK_USES);
    }
}

void wm_timelines_fini(wm_timelines *set)
{
    wm_timeline *next = wm_timeline_next_locked(set, NULL);

    while (next != NULL) {
        wm_timeline *t = next;

        next = wm_timeline_next_locked(set, t);
        wm_timeline_remove_locked(set, t);
        end_timeline(set, t);
    }
}

/* ---- queries by name ---------------------------------------------------- */

bool wm_timelines_knows(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t;
    bool lives;

    if (wm_stream_is_default(stream)) {
        return stream != WARM_STREAM_PER_THREAD;
    }
    wm_lock_acquire(&set->lock);
    t = wm_timeline_find_stream_locked(set, stream);
    lives = t != NULL && wm_timeline_lives(t);
    wm_lock_release(&set->lock);
    return lives && !wm_timelines_capture(set);
}

/* The info of an announced stream. *info: on entry, the info that its timeline
 * has. */
static warm_status announced_info(wm_timelines *set, warm_stream stream,
                                  wm_stream_info *info)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status =
        wm_driver_stream_capture(set->driver, stream, &capture);

    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        *info = (wm_stream_info){.id = wm_stream_capture_id(stream),
                                 .device = WM_DEVICE_UNKNOWN,
                                 .capture = capture};
    } else if (status == WARM_OK && info->device == WM_DEVICE_UNKNOWN) {
        /* Announced while it captured; that capture is over. */
        status = wm_driver_stream_info(set->driver, stream, info);
    }
    return status;
}

warm_status wm_timelines_info(wm_timelines *set, warm_stream stream,
                              wm_stream_info *info)
{
    wm_named_query query = {.stream = stream}, *listed = &query, **link;
    const wm_timeline *t = NULL;
    warm_status status;

    /* The legacy stream never captures, a per-thread one only in its thread. */
    if (wm_stream_is_default(stream)) {
        return wm_driver_stream_info(set->driver, stream, info);
    }
    wm_lock_acquire(&set->lock);
    if (wm_timelines_capture(set)) {
        t = wm_timeline_find_stream_locked(set, stream);
    }
    if (t != NULL && t->announced) {
        *info = (wm_stream_info){.id = t->id, .device = t->device};
        wm_lock_release(&set->lock);
        return announced_info(set, stream, info);
    }
    /* A thread that announces the stream waits from now on. */
    listed->next = set->named_queries;
    set->named_queries = listed;
    wm_lock_release(&set->lock);
    status = wm_driver_stream_info(set->driver, stream, info);
    wm_lock_acquire(&set->lock);
    link = &set->named_queries;
    while (*link != listed) {
        link = &(*link)->next;
    }
    *link = listed->next;
    wm_cond_broadcast(&set->driver_call_over);
    wm_lock_release(&set->lock);
    return status;
}
