/* timeline_retire.c: adopts and retires streams; records the last events of
 * per-thread default streams when their thread exits or releases the runtime.
 * See timeline.h for the locks. */
#include "alloc/stream/timeline_int.h"

#include "runtime/base/log.h"

/* ---- retiring ----------------------------------------------------------- */

/* Removes the stream's timeline from the tables, so that no other thread finds
 * it: by id, or by name while the stream captures and has no id. stale: removes
 * instead the timeline of an adopted stream that was destroyed without being
 * retired: another stream has its address now, and no two living streams share
 * one. Null: there is none. *references: references that the caller now has,
 * those of the adoption and the announcement included. */
static wm_timeline *detach(wm_timelines *set, warm_stream stream,
                           const wm_stream_info *info, bool stale,
                           size_t *references)
{
    wm_timeline *t = NULL;

    wm_lock_acquire(&set->lock);
    if (!stale) {
        t = info->device != WM_DEVICE_UNKNOWN
                ? wm_timeline_find_locked(set, info->id)
                : wm_timeline_find_stream_locked(set, stream);
    } else if (info->device != WM_DEVICE_UNKNOWN) {
        t = wm_timeline_find_adopted_locked(set, stream);
        t = t != NULL && t->id != info->id ? t : NULL;
    }
    if (t != NULL) {
        *references = 1u + wm_timeline_is_adopted(t) + t->announced;
        wm_timeline_hold(t);
        wm_timeline_remove_locked(set, t);
        if (t->announced) {
            wm_timeline_end_announced_locked(set, t);
        }
    }
    wm_lock_release(&set->lock);
    return t;
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
    wm_batch_enqueue_open_locked(t);
    wm_lock_release(&t->lock);
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
    t->final = last.event; /* none in a capture */
    return status == WARM_OK && capture != WM_CAPTURE_NONE
               ? wm_timeline_captures()
               : status;
}

/* stale: see detach(). */
static void retire(wm_timelines *set, warm_stream stream,
                   const wm_stream_info *info, bool stale)
{
    size_t references = 0;
    wm_timeline *t = detach(set, stream, info, stale, &references);
    warm_status status;

    if (t == NULL) {
        return;
    }
    stop_recording(set, t);
    if (stale && !wm_timeline_is_lost(set, t)) {
        status =
            wm_fail(WARM_INVALID_STREAM,
                    "it was destroyed before; call warm_stream_retire() first");
    } else {
        status = record_final(set, t);
    }
    t->dead = status != WARM_OK;
    wm_lock_acquire(&t->lock);
    /* Release: publishes final and dead. */
    atomic_store_explicit(&t->retired, true, memory_order_release);
    wm_cond_broadcast(&t->quiet);
    wm_lock_release(&t->lock);
    /* Logged without the lock: the log callback may free a block of the stream.
     */
    if (t->dead) {
        wm_log(WARM_LOG_WARNING,
               "a stream was retired, but its end could not be recorded (%s); "
               "blocks that it uses will not be allocated again",
               warm_last_error_message());
    }
    wm_timeline_drop_many(set, t, references);
}

void wm_timelines_retire(wm_timelines *set, warm_stream stream,
                         const wm_stream_info *info)
{
    retire(set, stream, info, true);
    retire(set, stream, info, false);
}

warm_status wm_timelines_adopt(wm_timelines *set, warm_stream stream,
                               const wm_stream_info *info)
{
    wm_timeline *t;
    bool again = false;

    retire(set, stream, info, true);
    wm_lock_acquire(&set->lock);
    t = wm_timeline_get_locked(set, stream, info);
    if (t != NULL) {
        again = wm_timeline_is_adopted(t);
        atomic_store_explicit(&t->adopted, true, memory_order_relaxed);
    }
    wm_lock_release(&set->lock);
    if (again) {
        wm_timeline_drop(set, t); /* the adoption has one already */
    }
    return t != NULL ? WARM_OK : wm_timeline_no_record();
}

/* ---- a thread exits ----------------------------------------------------- */

/* The calling thread's next per-thread default stream behind t. */
static wm_timeline *find_own_locked(wm_timelines *set, const wm_timeline *t,
                                    const void *context)
{
    (void)context;
    return wm_timeline_next_named_locked(set, WARM_STREAM_PER_THREAD, t);
}

bool wm_timelines_leave_thread(wm_timelines *set, bool exits)
{
    wm_timeline *t = NULL;
    bool waits = false;

    if (!atomic_load_explicit(&set->any_per_thread, memory_order_relaxed)) {
        return false;
    }
    while ((t = wm_timeline_next(set, t, find_own_locked, NULL)) != NULL) {
        bool announced;

        wm_lock_acquire(&set->lock);
        announced = t->announced;
        if (announced && exits) {
            /* The capture ends with its thread. */
            wm_timeline_end_announced_locked(set, t);
        }
        wm_lock_release(&set->lock);
        waits |= !wm_timeline_poll_deferred(set, t) || announced;
        if (exits) {
            atomic_store_explicit(&t->orphaned, true, memory_order_relaxed);
            wm_timeline_drop_many(set, t, announced);
        }
    }
    return waits && !exits;
}
