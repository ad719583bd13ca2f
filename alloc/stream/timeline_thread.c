/* timeline_thread.c: per-thread default streams when their thread goes. Their
 * one name stands for another stream in every thread, so that what is to be
 * recorded there is recorded by the thread itself. See timeline.h. */
#include "alloc/stream/timeline_int.h"

/* The next per-thread default stream of the calling thread behind t, whose
 * reference is dropped, or the first one (t null); with a reference, or null.
 */
static wm_timeline *next_own(wm_timelines *set, wm_timeline *t)
{
    wm_timeline *next;

    wm_lock_acquire(&set->lock);
    next = wm_timeline_next_named_locked(set, WARM_STREAM_PER_THREAD, t);
    if (next != NULL) {
        wm_timeline_hold(next);
    }
    wm_lock_release(&set->lock);
    if (t != NULL) {
        wm_timeline_drop(set, t);
    }
    return next;
}

/* Whether the stream stays announced; once its thread exits the capture is
 * over, whatever became of it. */
static bool stays_announced(wm_timelines *set, wm_timeline *t, bool exits)
{
    bool announced;

    wm_lock_acquire(&set->lock);
    announced = t->announced;
    if (announced && exits) {
        wm_timeline_end_announced_locked(set, t);
    }
    wm_lock_release(&set->lock);
    if (announced && exits) {
        wm_timeline_drop(set, t);
    }
    return announced && !exits;
}

bool wm_timelines_leave_thread(wm_timelines *set, bool exits)
{
    wm_timeline *t = NULL;
    bool waits = false;

    if (!atomic_load_explicit(&set->any_per_thread, memory_order_relaxed)) {
        return false;
    }
    while ((t = next_own(set, t)) != NULL) {
        bool announced = stays_announced(set, t, exits);
        bool recorded = wm_timeline_poll_deferred(set, t);

        waits = waits || announced || !recorded;
        if (exits) {
            atomic_store_explicit(&t->orphaned, true, memory_order_relaxed);
        }
    }
    return waits && !exits;
}
