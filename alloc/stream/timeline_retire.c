/* timeline_retire.c: adopts and retires streams, and waits for one. See
 * timeline.h for the locks. */
#include "alloc/stream/timeline_int.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* ---- waiting ------------------------------------------------------------- */

static warm_status no_wait_in_capture(void)
{
    return wm_fail(WARM_CAPTURE_ERROR, "a capture is under way");
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
                                                  : no_wait_in_capture();
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
        return wm_fail(WARM_DRIVER_ERROR, "the end of a stream that uses it "
                                          "could not be recorded");
    }
    return t->final == NULL ? WARM_OK
                            : wm_driver_event_await(set->driver, t->final);
}

/* ---- retiring ----------------------------------------------------------- */

/* Removes t from the tables, so that nobody else finds it. The references of
 * its adoption and announcement become the caller's; returns how many the
 * caller has. */
static size_t detach_locked(wm_timelines *set, wm_timeline *t)
{
    size_t references = 1u + wm_timeline_is_adopted(t) + t->announced;

    wm_timeline_hold(t);
    wm_timeline_remove_locked(set, t);
    if (t->announced) {
        wm_timeline_end_announced_locked(set, t);
    }
    return references;
}

/* Removes the stream's timeline from the tables: by id, or by address while it
 * captures and has no id. A living stream is the only one at its address,
 * unless an earlier one there was destroyed without being retired. */
static wm_timeline *detach(wm_timelines *set, warm_stream stream,
                           const wm_stream_info *info, size_t *references)
{
    wm_timeline *t;

    wm_lock_acquire(&set->lock);
    t = info->device != WM_DEVICE_UNKNOWN
            ? wm_timeline_find_locked(set, info->id)
            : wm_timeline_find_stream_locked(set, stream);
    if (t != NULL) {
        *references = detach_locked(set, t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* Removes the timeline of an adopted stream at whose address another stream
 * lives now: the program broke its promise to retire the first, whose name is
 * invalid. */
static wm_timeline *detach_stale(wm_timelines *set, warm_stream stream,
                                 const wm_stream_info *info, size_t *references)
{
    wm_timeline *t = NULL;

    if (info->device == WM_DEVICE_UNKNOWN) {
        return NULL;
    }
    wm_lock_acquire(&set->lock);
    t = wm_timeline_find_adopted_locked(set, stream);
    if (t != NULL && t->id == info->id) {
        t = NULL;
    }
    if (t != NULL) {
        *references = detach_locked(set, t);
    }
    wm_lock_release(&set->lock);
    return t;
}

/* Records the final event; if the driver fails, waits for the stream
 * instead. */
static warm_status record_final(wm_timelines *set, wm_timeline *t)
{
    wm_stream_use last = {.timeline = t};
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status =
        wm_stream_use_record_event(set, &last, t, false, &capture);

    if (status != WARM_OK) {
        status = wm_timeline_synchronize(set, t, &capture);
    }
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        return no_wait_in_capture();
    }
    t->final = last.event;
    return status;
}

/* Afterwards no thread names the stream to the driver, and its open batch waits
 * in the queue for the final event. */
static void stop_recording(wm_timelines *set, wm_timeline *t)
{
    (void)set->ops->collect(set, t, UINT64_MAX);
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
    t->dead =
        gone && !wm_timeline_is_lost(set, t)
            ? wm_fail(
                  WARM_INVALID_STREAM,
                  "it was destroyed before; call warm_stream_retire() first")
            : record_final(set, t) != WARM_OK;
    wm_lock_acquire(&t->lock);
    /* Release: publishes final and dead. */
    atomic_store_explicit(&t->retired, true, memory_order_release);
    t->retiring = false;
    wm_cond_broadcast(&t->quiet);
    wm_lock_release(&t->lock);
    /* Not earlier: the log callback may free a block of the stream. */
    if (t->dead) {
        wm_log(WARM_LOG_WARNING,
               "a stream was retired, but its end could not be recorded (%s); "
               "blocks that it uses will not be handed out again",
               warm_last_error_message());
    }
}

/* Retires an adopted stream at whose address another stream lives now, if there
 * is one: it was destroyed without being retired. */
static void drop_stale(wm_timelines *set, warm_stream stream,
                       const wm_stream_info *info)
{
    size_t references = 0;
    wm_timeline *t = detach_stale(set, stream, info, &references);

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

    drop_stale(set, stream, info);
    t = detach(set, stream, info, &references);
    if (t != NULL) {
        end_stream(set, t, false);
        wm_timeline_drop_many(set, t, references);
    }
}

warm_status wm_timelines_adopt(wm_timelines *set, warm_stream stream,
                               const wm_stream_info *info)
{
    wm_timeline *t;
    bool again = false;

    drop_stale(set, stream, info);
    wm_lock_acquire(&set->lock);
    t = wm_timeline_get_locked(set, stream, info);
    if (t != NULL) {
        again = wm_timeline_is_adopted(t);
        if (!again) {
            atomic_store_explicit(&t->adopted, true, memory_order_relaxed);
        }
    }
    wm_lock_release(&set->lock);
    if (again) {
        wm_timeline_drop(set, t); /* the adoption has one already */
    }
    return t != NULL ? WARM_OK : wm_timeline_no_record();
}
