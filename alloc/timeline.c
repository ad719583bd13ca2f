/* timeline.c: the table of timelines, their references, and retiring. See
 * timeline.h for the picture and the locks. */
#include "alloc/timeline_int.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

enum { KEEP_IDLE = 64 }; /* timelines kept without uses, against churn */

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

wm_timeline *wm_timeline_get(wm_timelines *set, warm_stream stream,
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

void wm_timeline_drop(wm_timelines *set, wm_timeline *t)
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

void wm_timeline_hold(wm_timelines *set, wm_timeline *t)
{
    wm_lock_acquire(&set->lock);
    t->references++;
    wm_lock_release(&set->lock);
}

/* ---- recording, and retiring ------------------------------------------ */

bool wm_timeline_begin_record(wm_timeline *t)
{
    bool refused;

    wm_lock_acquire(&t->lock);
    refused = t->retiring || wm_timeline_is_retired(t);
    t->recorders += !refused;
    wm_lock_release(&t->lock);
    return !refused;
}

void wm_timeline_end_record(wm_timeline *t)
{
    wm_lock_acquire(&t->lock);
    t->recorders--;
    if (t->recorders == 0) {
        wm_cond_broadcast(&t->no_recorders);
    }
    wm_lock_release(&t->lock);
}

bool wm_timeline_is_same_stream(wm_timelines *set, const wm_timeline *t)
{
    wm_stream_info info;

    return wm_driver_stream_info(set->driver, t->stream, &info) == WARM_OK &&
           info.id == t->id;
}

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
        status = wm_use_mark(set, &last, t->stream);
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
    wm_timeline_drop(set, t);
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
