/* timeline.c: the tables of timelines, their references, adopting and retiring.
 * See timeline.h for the picture and the locks. */
#include "alloc/gather.h"
#include "alloc/timeline_int.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

enum { KEEP_IDLE = 64 }; /* timelines kept without uses, against churn */

/* ---- the tables ------------------------------------------------------- */

static unsigned hash(uint64_t key)
{
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

static wm_timeline *find_locked(wm_timelines *set, uint64_t id)
{
    wm_timeline *t = set->bucket[hash(id)];

    while (t != NULL && t->id != id) {
        t = t->next_in_bucket;
    }
    return t;
}

static wm_timeline **adopted_bucket(wm_timelines *set, warm_stream stream)
{
    return &set->adopted[hash((uintptr_t)stream)];
}

static wm_timeline *find_adopted_locked(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t = *adopted_bucket(set, stream);

    while (t != NULL && t->stream != stream) {
        t = t->next_adopted;
    }
    return t;
}

static wm_timeline *find_any_locked(wm_timelines *set, warm_stream stream,
                                    bool announced)
{
    wm_timeline *t = NULL;

    for (int i = 0; t == NULL && i < WM_TIMELINE_BUCKETS; i++) {
        t = set->bucket[i];
        while (t != NULL &&
               (t->stream != stream || (announced && !t->announced))) {
            t = t->next_in_bucket;
        }
    }
    return t;
}

/* By its name, which others may have had: per-thread default streams of other
 * threads have it too, and streams that are gone had its address. */
static wm_timeline *find_announced_locked(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t = find_adopted_locked(set, stream);

    return t != NULL && t->announced ? t : find_any_locked(set, stream, true);
}

/* The same, whether announced and adopted or not. */
static wm_timeline *find_stream_locked(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t = find_announced_locked(set, stream);

    if (t == NULL) {
        t = find_adopted_locked(set, stream);
    }
    return t != NULL ? t : find_any_locked(set, stream, false);
}

static void insert_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **bucket = &set->bucket[hash(t->id)];

    t->next_in_bucket = *bucket;
    *bucket = t;
    t->in_table = true;
    set->count++;
}

/* Out of both tables. */
static void remove_locked(wm_timelines *set, wm_timeline *t)
{
    wm_timeline **link = &set->bucket[hash(t->id)];

    while (*link != t) {
        link = &(*link)->next_in_bucket;
    }
    *link = t->next_in_bucket;
    t->in_table = false;
    set->count--;
    link = adopted_bucket(set, t->stream);
    while (*link != NULL && *link != t) {
        link = &(*link)->next_adopted;
    }
    if (*link == t) {
        *link = t->next_adopted;
    }
}

static wm_timeline *new_timeline(warm_stream stream, const wm_stream_info *info)
{
    wm_timeline *t = wm_meta_alloc(sizeof *t);

    if (t != NULL) {
        t->id = info->id;
        t->device = info->device;
        t->stream = stream;
        wm_lock_init(&t->lock, WM_RANK_TIMELINE);
        wm_cond_init(&t->quiet);
    }
    return t;
}

static void end_timeline(wm_timelines *set, wm_timeline *t)
{
    if (t->final != NULL) {
        wm_event_pool_put(set->events, t->device, t->final);
    }
    wm_cond_fini(&t->quiet);
    wm_lock_fini(&t->lock);
    wm_meta_free(t);
}

static wm_timeline *get_locked(wm_timelines *set, warm_stream stream,
                               const wm_stream_info *info)
{
    wm_timeline *t = find_locked(set, info->id);

    if (t == NULL) {
        t = new_timeline(stream, info);
        if (t == NULL) {
            return NULL;
        }
        insert_locked(set, t);
    }
    wm_timeline_hold(t);
    return t;
}

wm_timeline *wm_timeline_get(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = get_locked(set, stream, info);
    wm_lock_release(&set->lock);
    return t;
}

wm_timeline *wm_timeline_get_adopted(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = find_adopted_locked(set, stream);
    if (t != NULL) {
        wm_timeline_hold(t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* The last references go under the lock, under which the next is given. */
static void drop_last(wm_timelines *set, wm_timeline *t, size_t count)
{
    bool ends;

    wm_lock_acquire(&set->lock);
    /* Acquire: what was done with the references dropped before is over. */
    ends = atomic_fetch_sub_explicit(&t->references, count,
                                     memory_order_acq_rel) == count;
    /* A busy one is dropped by its poller. Without a limit the table would
     * grow with every stream that the program ever had. */
    ends = ends && !t->busy && (!t->in_table || set->count > KEEP_IDLE);
    if (ends && t->in_table) {
        remove_locked(set, t);
    }
    wm_lock_release(&set->lock);
    if (ends) {
        end_timeline(set, t);
    }
}

void wm_timeline_drop_many(wm_timelines *set, wm_timeline *t, size_t count)
{
    size_t now = atomic_load_explicit(&t->references, memory_order_relaxed);

    while (now > count) {
        /* Release: see drop_last(). */
        if (atomic_compare_exchange_weak_explicit(
                &t->references, &now, now - count, memory_order_release,
                memory_order_relaxed)) {
            return;
        }
    }
    if (count > 0) {
        drop_last(set, t, count);
    }
}

/* ---- recording, and retiring ------------------------------------------ */

bool wm_timeline_begin_record_locked(wm_timeline *t)
{
    bool refused = t->retiring || wm_timeline_is_retired(t);

    t->recorders += !refused;
    return !refused;
}

bool wm_timeline_begin_record(wm_timeline *t)
{
    bool begun;

    wm_lock_acquire(&t->lock);
    begun = wm_timeline_begin_record_locked(t);
    wm_lock_release(&t->lock);
    return begun;
}

void wm_timeline_end_record(wm_timeline *t)
{
    wm_lock_acquire(&t->lock);
    t->recorders--;
    wm_cond_broadcast(&t->quiet);
    wm_lock_release(&t->lock);
}

static warm_status await_stream(wm_timelines *set, wm_timeline *t)
{
    bool mode = false;
    bool relaxed = wm_driver_relax(set->driver, &mode);
    warm_status status = wm_driver_stream_synchronize(set->driver, t->stream);

    if (relaxed) {
        wm_driver_unrelax(set->driver, &mode);
    }
    return status;
}

warm_status wm_timeline_synchronize(wm_timelines *set, wm_timeline *t,
                                    wm_capture *capture)
{
    warm_status status;

    *capture = WM_CAPTURE_NONE;
    status = wm_driver_stream_capture(set->driver, t->stream, capture);
    return status == WARM_OK && *capture == WM_CAPTURE_NONE
               ? await_stream(set, t)
               : status;
}

static warm_status no_wait_in_capture(void)
{
    return wm_fail(WARM_CAPTURE_ERROR, "a capture is under way");
}

static warm_status await_event(wm_timelines *set, warm_event event)
{
    bool mode = false;
    bool relaxed = wm_driver_relax(set->driver, &mode);
    warm_status status = wm_driver_event_synchronize(set->driver, event);

    if (relaxed) {
        wm_driver_unrelax(set->driver, &mode);
    }
    return status;
}

warm_status wm_timeline_await(wm_timelines *set, wm_timeline *t)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status;

    if (wm_timeline_begin_record(t)) {
        status = wm_timeline_synchronize(set, t, &capture);
        wm_timeline_end_record(t);
        return capture == WM_CAPTURE_NONE ? status : no_wait_in_capture();
    }
    wm_lock_acquire(&t->lock);
    while (!wm_timeline_is_retired(t)) {
        wm_cond_wait(&t->quiet, &t->lock);
    }
    wm_lock_release(&t->lock);
    if (t->dead) {
        return wm_fail(WARM_DRIVER_ERROR, "the end of a stream that uses it "
                                          "could not be recorded");
    }
    return t->final == NULL ? WARM_OK : await_event(set, t->final);
}

bool wm_timelines_await_end(wm_timelines *set, wm_timeline *t)
{
    return wm_timeline_is_retired(t) && wm_timeline_await(set, t) == WARM_OK;
}

/* Nobody else finds it any more. What it was announced and adopted with goes
 * into the caller's references, whose number is returned. */
static size_t take_out_locked(wm_timelines *set, wm_timeline *t)
{
    size_t references = 1u + wm_timeline_is_adopted(t) + t->announced;

    wm_timeline_hold(t);
    remove_locked(set, t);
    if (t->announced) {
        t->announced = false;
        atomic_fetch_sub_explicit(&set->captures, 1, memory_order_relaxed);
    }
    return references;
}

/* The stream's timeline, out of the tables. By its address while it captures
 * and has no id: a stream that lives is its only owner, unless an earlier one
 * there was destroyed and not retired. */
static wm_timeline *take_out(wm_timelines *set, warm_stream stream,
                             const wm_stream_info *info, size_t *references)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = info->device != WM_DEVICE_UNKNOWN ? find_locked(set, info->id)
                                          : find_stream_locked(set, stream);
    if (t != NULL) {
        *references = take_out_locked(set, t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* An adopted stream at the address of another one: somebody broke the promise
 * to retire it, and nobody can name it any more. */
static wm_timeline *take_out_stale(wm_timelines *set, warm_stream stream,
                                   const wm_stream_info *info,
                                   size_t *references)
{
    wm_timeline *t = NULL;

    if (info->device == WM_DEVICE_UNKNOWN) {
        return NULL;
    }
    wm_lock_acquire(&set->lock);
    t = find_adopted_locked(set, stream);
    if (t != NULL && t->id == info->id) {
        t = NULL;
    }
    if (t != NULL) {
        *references = take_out_locked(set, t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* The final event of a stream, or what stands for it. */
static warm_status record_final(wm_timelines *set, wm_timeline *t)
{
    wm_use last = {.timeline = t};
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = wm_use_mark(set, &last, t, &capture);

    if (status != WARM_OK) {
        status = wm_timeline_synchronize(set, t, &capture);
    }
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        return no_wait_in_capture();
    }
    t->final = last.event;
    return status;
}

/* Nobody names the stream any more, and what gathered waits in the queue for
 * the final event. */
static void stop_recording(wm_timelines *set, wm_timeline *t)
{
    (void)wm_gather_fetch(set, t, UINT64_MAX);
    wm_lock_acquire(&t->lock);
    t->retiring = true;
    while (t->recorders > 0) {
        wm_cond_wait(&t->quiet, &t->lock);
    }
    if (t->open.count > 0) {
        wm_batch_enqueue_locked(t, t->open.first);
        t->open = (wm_batch){0};
    }
    wm_lock_release(&t->lock);
}

/* gone: the stream was destroyed before. */
static void end_stream(wm_timelines *set, wm_timeline *t, bool gone)
{
    stop_recording(set, t);
    t->dead = gone ? wm_fail(WARM_INVALID_STREAM,
                             "it was destroyed and not retired before")
                   : record_final(set, t) != WARM_OK;
    wm_lock_acquire(&t->lock);
    /* Release: final and dead before it. */
    atomic_store_explicit(&t->retired, true, memory_order_release);
    t->retiring = false;
    wm_cond_broadcast(&t->quiet);
    wm_lock_release(&t->lock);
    /* Not before: the callback may free a block of the stream. */
    if (t->dead) {
        wm_log(WARM_LOG_WARNING,
               "a stream was retired, but its end could not be recorded (%s); "
               "blocks that it uses will not be handed out again",
               warm_last_error_message());
    }
}

static void bury_stale(wm_timelines *set, warm_stream stream,
                       const wm_stream_info *info)
{
    size_t references = 0;
    wm_timeline *t = take_out_stale(set, stream, info, &references);

    if (t != NULL) {
        end_stream(set, t, true);
        wm_timeline_drop_many(set, t, references);
    }
}

void wm_timelines_retire(wm_timelines *set, warm_stream stream,
                         const wm_stream_info *info)
{
    size_t references = 0;
    wm_timeline *t;

    bury_stale(set, stream, info);
    t = take_out(set, stream, info, &references);
    if (t != NULL) {
        end_stream(set, t, false);
        wm_timeline_drop_many(set, t, references);
    }
}

/* ---- adopting, and captures ------------------------------------------- */

static warm_status no_record(void)
{
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a record of the stream");
}

warm_status wm_timelines_adopt(wm_timelines *set, warm_stream stream,
                               const wm_stream_info *info)
{
    wm_timeline **bucket = adopted_bucket(set, stream);
    wm_timeline *t;
    bool again = false;

    bury_stale(set, stream, info);
    wm_lock_acquire(&set->lock);
    t = get_locked(set, stream, info);
    if (t != NULL) {
        again = wm_timeline_is_adopted(t);
        if (!again) {
            t->next_adopted = *bucket;
            *bucket = t;
            atomic_store_explicit(&t->adopted, true, memory_order_relaxed);
        }
    }
    wm_lock_release(&set->lock);
    if (again) {
        wm_timeline_drop(set, t); /* else it is the adoption's */
    }
    return t != NULL ? WARM_OK : no_record();
}

static wm_timeline *next_to_close(wm_timelines *set, unsigned bucket,
                                  uint64_t announcement)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = set->bucket[bucket];
    while (t != NULL &&
           (t->announcement >= announcement || !wm_timeline_is_adopted(t))) {
        t = t->next_in_bucket;
    }
    if (t != NULL) {
        wm_timeline_hold(t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* Nobody whose announcement came before need close it. */
static void note_closed(wm_timelines *set, wm_timeline *t,
                        uint64_t announcement)
{
    wm_lock_acquire(&set->lock);
    if (t->announcement < announcement) {
        t->announcement = announcement;
    }
    wm_lock_release(&set->lock);
}

/* Every batch, those too that other threads are about to close: of any stream,
 * since the capture may reach it. */
static void close_all(wm_timelines *set)
{
    uint64_t announcement;

    (void)wm_gather_fetch(set, NULL, UINT64_MAX);
    wm_lock_acquire(&set->lock);
    announcement = ++set->announcements;
    wm_lock_release(&set->lock);
    for (unsigned i = 0; i < WM_TIMELINE_BUCKETS; i++) {
        wm_timeline *t;

        while ((t = next_to_close(set, i, announcement)) != NULL) {
            wm_batch_close_now(set, t);
            note_closed(set, t, announcement);
            wm_timeline_drop(set, t);
        }
    }
}

warm_status wm_timelines_announce(wm_timelines *set, warm_stream stream,
                                  const wm_stream_info *info)
{
    wm_timeline *t;
    bool again = false;

    wm_lock_acquire(&set->lock);
    t = get_locked(set, stream, info);
    if (t != NULL) {
        again = t->announced;
        t->announced = true;
        atomic_fetch_add_explicit(&set->captures, !again, memory_order_relaxed);
    }
    wm_lock_release(&set->lock);
    if (again) {
        wm_timeline_drop(set, t);
    }
    if (t == NULL) {
        return no_record();
    }
    /* What was freed before is behind an event before the capture begins:
     * later none could be recorded, and the graph might use it. */
    close_all(set);
    return WARM_OK;
}

bool wm_timelines_over(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t;
    bool found;

    wm_lock_acquire(&set->lock);
    t = find_announced_locked(set, stream);
    found = t != NULL;
    if (found) {
        t->announced = false;
        atomic_fetch_sub_explicit(&set->captures, 1, memory_order_relaxed);
    }
    wm_lock_release(&set->lock);
    if (found) {
        wm_timeline_drop(set, t);
    }
    return found;
}

/* ---- begin and end ---------------------------------------------------- */

void wm_timelines_init(wm_timelines *set, warm_runtime *runtime,
                       wm_event_pool *events, const wm_options *options,
                       void (*finish)(wm_block *chain))
{
    memset(set, 0, sizeof *set);
    set->runtime = runtime;
    set->driver = runtime->driver;
    set->events = events;
    set->finish = finish;
    set->batch_count = options->batch_count;
    set->batch_bytes = options->batch_bytes;
    set->batch_ns = options->batch_ms * 1000000u;
    wm_lock_init(&set->lock, WM_RANK_TIMELINES);
    wm_cond_init(&set->round_over);
}

void wm_timelines_fini(wm_timelines *set)
{
    wm_timelines_forget_entries(set);
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
