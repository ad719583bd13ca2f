/* timeline.c: uses, the table of timelines, and polling them. See timeline.h
 * for the picture and the locks. */
#include "alloc/timeline.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

enum {
    KEEP_IDLE = 64,  /* timelines kept without uses, against churn */
    MAX_FAILURES = 3 /* queries of one entry that may fail before it is lost */
};

struct wm_timeline {
    uint64_t id;        /* const */
    int device;         /* const */
    warm_stream stream; /* const; not to be used once retired */
    /* lock timelines */
    unsigned references; /* uses, and threads that work on it */
    bool in_table, busy;
    uint64_t round; /* when it was polled last */
    wm_timeline *next_in_bucket, *next_busy;
    wm_lock lock;
    wm_cond no_recorders;
    /* lock timeline */
    unsigned recorders; /* threads about to record on stream */
    bool retiring;
    unsigned failures; /* in a row, of the head */
    wm_use *head, *tail;
    /* Written before retired, const after; retired's release pairs with the
     * acquire of readers without the lock. */
    warm_event final; /* null: everything had passed */
    bool dead;        /* nobody can say whether anything has passed */
    _Atomic bool retired;
};

static bool is_default(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

static bool is_retired(wm_timeline *t)
{
    /* Acquire: final and dead were written before. */
    return atomic_load_explicit(&t->retired, memory_order_acquire);
}

/* ---- the table -------------------------------------------------------- */

static wm_timeline **bucket_of(wm_timelines *set, uint64_t id)
{
    return &set->bucket[(id * UINT64_C(0x9E3779B97F4A7C15)) >> 56];
}

static wm_timeline *find_locked(wm_timelines *set, uint64_t id)
{
    wm_timeline *t = *bucket_of(set, id);

    while (t != NULL && t->id != id) {
        t = t->next_in_bucket;
    }
    return t;
}

static void insert_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **bucket = bucket_of(set, t->id);

    t->next_in_bucket = *bucket;
    *bucket = t;
    t->in_table = true;
    set->count++;
}

static void remove_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **link = bucket_of(set, t->id);

    while (*link != t) {
        link = &(*link)->next_in_bucket;
    }
    *link = t->next_in_bucket;
    t->in_table = false;
    set->count--;
}

static wm_timeline *new_timeline(warm_stream stream, const wm_stream_info *info)
{
    wm_timeline *t = wm_meta_alloc(sizeof *t);

    if (t != NULL) {
        t->id = info->id;
        t->device = info->device;
        t->stream = stream;
        wm_lock_init(&t->lock, WM_RANK_TIMELINE);
        wm_cond_init(&t->no_recorders);
    }
    return t;
}

static void end_timeline(wm_timelines *set, wm_timeline *t)
{
    if (t->final != NULL) {
        wm_event_pool_put(set->events, t->device, t->final);
    }
    wm_cond_fini(&t->no_recorders);
    wm_lock_fini(&t->lock);
    wm_meta_free(t);
}

/* The stream's timeline with a reference, or null without memory. */
static wm_timeline *get_timeline(wm_timelines *set, warm_stream stream,
                                 const wm_stream_info *info)
{
    wm_timeline *fresh = NULL;
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = find_locked(set, info->id);
    if (t == NULL) {
        t = fresh = new_timeline(stream, info);
        if (fresh != NULL) {
            insert_locked(set, fresh);
        }
    }
    if (t != NULL) {
        t->references++;
    }
    wm_lock_release(&set->lock);
    return t;
}

static void drop_reference(wm_timelines *set, wm_timeline *t)
{
    bool ends;

    wm_lock_acquire(&set->lock);
    t->references--;
    /* A busy one is dropped by its poller. Without a limit the table would
     * grow with every stream that the program ever had. */
    ends = t->references == 0 && !t->busy &&
           (!t->in_table || set->count > KEEP_IDLE);
    if (ends && t->in_table) {
        remove_locked(set, t);
    }
    wm_lock_release(&set->lock);
    if (ends) {
        end_timeline(set, t);
    }
}

/* ---- uses of a live block --------------------------------------------- */

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

    /* Acquire pairs with the release in end_use(): what another thread wrote
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
static void end_use(wm_timelines *set, wm_use *use)
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
    drop_reference(set, t);
}

/* Records on stream, with a fresh event if the use has none. */
static warm_status mark(wm_timelines *set, wm_use *use, warm_stream stream)
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
        status = defaults && use->event != NULL ? mark(set, use, t->stream)
                                                : WARM_OK;
        drop_reference(set, t);
        return status;
    }
    use = new_use(block, t);
    if (use == NULL) {
        drop_reference(set, t);
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory to record a stream");
    }
    /* A default stream means another stream in another thread or on another
     * device, from where the block may be freed: mark the point now. */
    if (defaults) {
        status = mark(set, use, t->stream);
    }
    if (status != WARM_OK || !push_use(block, use, first)) {
        end_use(set, use);
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
    t = get_timeline(set, stream, &info);
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

/* Between begin and end the stream is not retired, so that it may be named to
 * the driver. False: it is retired, or about to be; its final event counts. */
static bool begin_record(wm_timeline *t)
{
    bool refused;

    wm_lock_acquire(&t->lock);
    refused = t->retiring || is_retired(t);
    t->recorders += !refused;
    wm_lock_release(&t->lock);
    return !refused;
}

static void end_record(wm_timeline *t)
{
    wm_lock_acquire(&t->lock);
    t->recorders--;
    if (t->recorders == 0) {
        wm_cond_broadcast(&t->no_recorders);
    }
    wm_lock_release(&t->lock);
}

static void drop_event(wm_timelines *set, wm_use *use)
{
    if (use->event != NULL) {
        wm_event_pool_put(set->events, use->timeline->device, use->event);
        use->event = NULL;
    }
}

/* Whether t's stream can be named by this thread: an address, or a default
 * stream, may stand for another stream by now (row B6). */
static bool is_same_stream(wm_timelines *set, const wm_timeline *t)
{
    wm_stream_info info;

    return wm_driver_stream_info(set->driver, t->stream, &info) == WARM_OK &&
           info.id == t->id;
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
    if (!is_same_stream(set, t)) {
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
    if (mark(set, use, t->stream) != WARM_OK) {
        return wait_instead(set, use);
    }
    return WM_USES_PENDING;
}

static enum wm_uses prepare_use(wm_timelines *set, wm_use *use)
{
    wm_timeline *t = use->timeline;
    enum wm_uses outcome;

    if (!begin_record(t)) {
        drop_event(set, use); /* the final event is the later one */
        if (!is_retired(t) || !t->dead) {
            return WM_USES_PENDING;
        }
        (void)wm_fail(WARM_DRIVER_ERROR, "the end of a stream that uses it "
                                         "could not be recorded");
        return WM_USES_LOST;
    }
    outcome = record_use(set, use);
    end_record(t);
    return outcome;
}

static void end_uses(wm_timelines *set, wm_use *use)
{
    while (use != NULL) {
        wm_use *next = use->next_of_block;

        end_use(set, use);
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
            end_use(set, use);
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

static void take_reference(wm_timelines *set, wm_timeline *t)
{
    wm_lock_acquire(&set->lock);
    t->references++;
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

        take_reference(set, t);
        enqueue(t, use);
        make_busy(set, t);
        drop_reference(set, t);
        use = next;
    }
}

/* ---- polling ---------------------------------------------------------- */

/* The oldest entry. */
static wm_use *first(wm_timeline *t)
{
    wm_use *use;

    wm_lock_acquire(&t->lock);
    use = t->head;
    wm_lock_release(&t->lock);
    return use;
}

/* Takes the head off and answers the new one. */
static wm_use *pop(wm_timeline *t)
{
    wm_use *head;

    wm_lock_acquire(&t->lock);
    t->head = t->head->next_in_queue;
    if (t->head == NULL) {
        t->tail = NULL;
    }
    t->failures = 0;
    head = t->head;
    wm_lock_release(&t->lock);
    return head;
}

static void complete(wm_timelines *set, wm_use *use, bool lost)
{
    wm_block *block = use->block;

    if (lost) {
        atomic_store_explicit(&block->stuck, true, memory_order_relaxed);
    }
    end_use(set, use);
    /* Release: what this queue did to the block is over before another one
     * sees the count; acquire: the last one sees all of it. */
    if (atomic_fetch_sub_explicit(&block->queued, 1, memory_order_acq_rel) ==
        1) {
        set->finish(block,
                    atomic_load_explicit(&block->stuck, memory_order_relaxed));
    }
}

/* An entry whose stream could not be recorded on at its free. */
static warm_status record_late(wm_timelines *set, wm_timeline *t, wm_use *use)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;

    if (!begin_record(t)) {
        return WARM_NOT_READY; /* a later poll finds the final event */
    }
    if (is_same_stream(set, t) &&
        wm_driver_stream_capture(set->driver, t->stream, &capture) == WARM_OK &&
        capture == WM_CAPTURE_NONE) {
        (void)mark(set, use, t->stream);
    }
    end_record(t);
    return WARM_NOT_READY;
}

static warm_status query(wm_timelines *set, wm_timeline *t, wm_use *use)
{
    warm_event event = use->event;

    if (event == NULL && is_retired(t)) {
        event = t->final;
        if (event == NULL) {
            return t->dead ? WARM_DRIVER_ERROR : WARM_OK;
        }
    }
    if (event == NULL) {
        return record_late(set, t, use);
    }
    return wm_driver_event_query(set->driver, event);
}

/* Whether the head is given up: its queries failed too often in a row. */
static bool gives_up(wm_timeline *t, warm_status status)
{
    bool lost;

    wm_lock_acquire(&t->lock);
    t->failures = status == WARM_NOT_READY ? 0 : t->failures + 1;
    lost = t->failures >= MAX_FAILURES;
    wm_lock_release(&t->lock);
    return lost;
}

static void poll_timeline(wm_timelines *set, wm_timeline *t)
{
    wm_use *use = first(t);

    while (use != NULL) {
        warm_status status = query(set, t, use);
        bool lost = status != WARM_OK && gives_up(t, status);
        wm_use *done = use;

        if (status != WARM_OK && !lost) {
            break;
        }
        use = pop(t);
        complete(set, done, lost);
    }
}

/* The next busy timeline not asked in this round, with a reference; it goes to
 * the end of the list. */
static wm_timeline *next_busy(wm_timelines *set, uint64_t round)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->busy_head;
    if (t != NULL && t->round >= round) {
        t = NULL;
    }
    if (t != NULL) {
        t->round = round;
        t->references++;
        if (t->next_busy != NULL) {
            set->busy_head = t->next_busy;
            set->busy_tail->next_busy = t;
            set->busy_tail = t;
            t->next_busy = NULL;
        }
    }
    wm_lock_release(&set->lock);
    return t;
}

static void remove_busy_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **link = &set->busy_head;
    wm_timeline *previous = NULL;

    while (*link != t) {
        previous = *link;
        link = &previous->next_busy;
    }
    *link = t->next_busy;
    if (set->busy_tail == t) {
        set->busy_tail = previous;
    }
    t->busy = false;
}

/* Off the busy list if its queue is empty. An entry that is added now finds
 * the flag down and puts it back on. */
static void drop_polled(wm_timelines *set, wm_timeline *t)
{
    bool empty;

    wm_lock_acquire(&set->lock);
    wm_lock_acquire(&t->lock);
    empty = t->head == NULL;
    wm_lock_release(&t->lock);
    if (empty && t->busy) {
        remove_busy_locked(set, t);
    }
    wm_lock_release(&set->lock);
    drop_reference(set, t);
}

/* True: a round begins, and is the caller's. False: one that began after the
 * call has finished. */
static bool begin_round(wm_timelines *set, uint64_t *round)
{
    uint64_t wanted;
    bool ours;

    wm_lock_acquire(&set->lock);
    wanted = set->begun + 1;
    while (set->begun != set->finished && set->finished < wanted) {
        wm_cond_wait(&set->round_over, &set->lock);
    }
    ours = set->finished < wanted;
    set->begun += ours;
    *round = set->begun;
    wm_lock_release(&set->lock);
    return ours;
}

static void end_round(wm_timelines *set)
{
    wm_lock_acquire(&set->lock);
    set->finished = set->begun;
    wm_cond_broadcast(&set->round_over);
    wm_lock_release(&set->lock);
}

void wm_timelines_poll(wm_timelines *set)
{
    uint64_t round;
    wm_timeline *t;

    if (!begin_round(set, &round)) {
        return;
    }
    while ((t = next_busy(set, round)) != NULL) {
        poll_timeline(set, t);
        drop_polled(set, t);
    }
    end_round(set);
}

/* ---- retiring --------------------------------------------------------- */

static wm_timeline *find_stream_locked(wm_timelines *set, warm_stream stream)
{
    for (int i = 0; i < WM_TIMELINE_BUCKETS; i++) {
        for (wm_timeline *t = set->bucket[i]; t != NULL;
             t = t->next_in_bucket) {
            if (t->stream == stream) {
                return t;
            }
        }
    }
    return NULL;
}

/* The stream's timeline, out of the table, with a reference. By its address
 * while it captures and has no id: a stream that lives is its only owner,
 * unless an earlier one there was destroyed and not retired. */
static wm_timeline *take_out(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = info->device != WM_DEVICE_UNKNOWN ? find_locked(set, info->id)
                                          : find_stream_locked(set, stream);
    if (t != NULL) {
        t->references++;
        remove_locked(set, t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* The final event of a stream, or what stands for it. */
static void record_final(wm_timelines *set, wm_timeline *t)
{
    wm_use last = {.timeline = t};
    wm_capture capture = WM_CAPTURE_ACTIVE;
    warm_status status =
        wm_driver_stream_capture(set->driver, t->stream, &capture);

    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = wm_fail(WARM_CAPTURE_ERROR, "a capture is under way");
    } else {
        status = mark(set, &last, t->stream);
        t->final = last.event;
        if (status != WARM_OK) {
            status = wm_driver_stream_synchronize(set->driver, t->stream);
        }
    }
    t->dead = status != WARM_OK;
}

void wm_timelines_retire(wm_timelines *set, warm_stream stream,
                         const wm_stream_info *info)
{
    wm_timeline *t = take_out(set, stream, info);

    if (t == NULL) {
        return; /* no use depends on it */
    }
    wm_lock_acquire(&t->lock);
    t->retiring = true;
    while (t->recorders > 0) {
        wm_cond_wait(&t->no_recorders, &t->lock);
    }
    wm_lock_release(&t->lock);
    record_final(set, t);
    wm_lock_acquire(&t->lock);
    /* Release: final and dead before it. */
    atomic_store_explicit(&t->retired, true, memory_order_release);
    t->retiring = false;
    wm_lock_release(&t->lock);
    /* Not before: the callback may free a block of the stream. */
    if (t->dead) {
        wm_log(WARM_LOG_WARNING,
               "a stream was retired, but its end could not be recorded (%s); "
               "blocks that it uses will not be handed out again",
               warm_last_error_message());
    }
    drop_reference(set, t);
}

/* ---- begin and end ---------------------------------------------------- */

void wm_timelines_init(wm_timelines *set, wm_driver *driver,
                       wm_event_pool *events,
                       void (*finish)(wm_block *block, bool lost))
{
    memset(set, 0, sizeof *set);
    set->driver = driver;
    set->events = events;
    set->finish = finish;
    wm_lock_init(&set->lock, WM_RANK_TIMELINES);
    wm_cond_init(&set->round_over);
}

static void forget_entries(wm_timelines *set, wm_timeline *t)
{
    while (t->head != NULL) {
        wm_use *use = t->head;

        (void)pop(t);
        end_use(set, use);
    }
}

void wm_timelines_fini(wm_timelines *set)
{
    while (set->busy_head != NULL) {
        wm_timeline *t = set->busy_head;

        take_reference(set, t);
        forget_entries(set, t);
        drop_polled(set, t);
    }
    for (int i = 0; i < WM_TIMELINE_BUCKETS; i++) {
        while (set->bucket[i] != NULL) {
            wm_timeline *t = set->bucket[i];

            remove_locked(set, t);
            end_timeline(set, t);
        }
    }
    wm_cond_fini(&set->round_over);
    wm_lock_fini(&set->lock);
}

size_t wm_timelines_count(wm_timelines *set)
{
    size_t count;

    wm_lock_acquire(&set->lock);
    count = set->count;
    wm_lock_release(&set->lock);
    return count;
}
