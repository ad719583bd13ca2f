/* timeline_capture.c: the known captures: announced ones, and ones that the
 * driver reports for streams that may be queried. See timeline.h. */
#include "alloc/stream/timeline_int.h"

/* ---- announced ---------------------------------------------------------- */

static bool is_on(const wm_timeline *t, int device, warm_stream except)
{
    return t->stream != except &&
           (device < 0 || t->device < 0 || t->device == device);
}

/* Whether the driver may be queried for the stream at any time: an adopted
 * stream lives until it is retired; a stream whose capture must end before
 * blocks get their event lives until then (warm_record_stream() demands it);
 * default streams live always. */
static bool may_be_asked(wm_timeline *t)
{
    return wm_timeline_is_adopted(t) ||
           atomic_load_explicit(&t->deferred, memory_order_relaxed) > 0 ||
           (wm_stream_is_default(t->stream) && wm_timeline_is_named_here(t));
}

/* Timelines on the device (negative: any) and not of stream except. */
struct those {
    int device;
    warm_stream except;
    bool adopted; /* adopted streams; else all streams that may be queried */
};

static wm_timeline *find_locked(wm_timelines *set, const wm_timeline *t,
                                const void *context)
{
    const struct those *those = context;
    wm_timeline *next = wm_timeline_next_locked(set, t);

    while (next != NULL && (!is_on(next, those->device, those->except) ||
                            !(those->adopted ? wm_timeline_is_adopted(next)
                                             : may_be_asked(next)))) {
        next = wm_timeline_next_locked(set, next);
    }
    return next;
}

/* Closes every batch of every adopted stream, since the capture may reach any
 * of them; waits for batches that other threads are closing. Leaves the last
 * error alone: the capture does not fail if a batch gets no event. */
static void close_all_batches(wm_timelines *set)
{
    const struct those adopted = {WM_DEVICE_UNKNOWN, NULL, true};
    wm_timeline *t = NULL;

    WM_KEEP_ERROR();
    (void)set->ops->collect(set, NULL, UINT64_MAX);
    while ((t = wm_timeline_next(set, t, find_locked, &adopted)) != NULL) {
        wm_batch_close_now(set, t);
    }
}

/* Waits for driver calls that break captures: one that began before the capture
 * was announced would break it. A thread that is in a callback is not waited
 * for: the callback itself may announce the capture, or may wait for a lock of
 * the program that the announcing thread holds. */
static void await_breaks(wm_timelines *set)
{
    const wm_breaking *b;

    wm_lock_acquire(&set->lock);
    b = set->breaking;
    while (b != NULL) {
        if (b->inside > 0) {
            b = b->next;
        } else {
            wm_cond_wait(&set->driver_call_over, &set->lock);
            b = set->breaking;
        }
    }
    wm_lock_release(&set->lock);
}

/* Waits for threads that query t's stream by name, and for recorders that began
 * before capture_due was set: a thread to which the driver reported no capture
 * makes its next call on the stream before the capture begins. In a callback
 * only sets capture_due, and does not wait, since the callback may run inside
 * such a call. */
static void await_callers(wm_timelines *set, wm_timeline *t)
{
    bool waits = !wm_callback_inside();
    const wm_named_query *n;

    wm_lock_acquire(&set->lock);
    n = waits ? set->named_queries : NULL;
    while (n != NULL) {
        if (n->stream != t->stream) {
            n = n->next;
        } else {
            wm_cond_wait(&set->driver_call_over, &set->lock);
            n = set->named_queries;
        }
    }
    wm_lock_acquire(&t->lock);
    t->capture_due = t->announced; /* unless the capture is over already */
    wm_lock_release(&t->lock);
    wm_lock_release(&set->lock);
    wm_lock_acquire(&t->lock);
    while (waits && t->capture_due && t->unwarned > 0) {
        wm_cond_wait(&t->quiet, &t->lock);
    }
    wm_lock_release(&t->lock);
}

void wm_timeline_end_announced_locked(wm_timelines *set, wm_timeline *t)
{
    t->announced = false;
    atomic_fetch_sub_explicit(&set->captures, 1, memory_order_relaxed);
    wm_lock_acquire(&t->lock);
    t->capture_due = false;
    wm_cond_broadcast(&t->quiet);
    wm_lock_release(&t->lock);
}

warm_status wm_timelines_announce(wm_timelines *set, warm_stream stream,
                                  const wm_stream_info *info, bool *already)
{
    wm_timeline *t;

    wm_timelines_want_window(set, stream);
    wm_lock_acquire(&set->lock);
    t = wm_timeline_get_locked(set, stream, info);
    if (t == NULL) {
        wm_lock_release(&set->lock);
        return wm_timeline_no_record();
    }
    *already = t->announced;
    if (!t->announced) {
        wm_timeline_hold(t); /* the announcement's own reference */
        t->announced = true;
        atomic_fetch_add_explicit(&set->captures, 1, memory_order_relaxed);
    }
    wm_lock_release(&set->lock);
    /* Blocks freed so far get their event before the capture begins: during the
     * capture none can be recorded, and the graph might use the blocks. */
    close_all_batches(set);
    await_callers(set, t);
    await_breaks(set);
    wm_timeline_drop(set, t);
    return WARM_OK;
}

bool wm_timelines_over(wm_timelines *set, warm_stream stream)
{
    wm_timeline *t;
    bool found;

    wm_lock_acquire(&set->lock);
    t = wm_timeline_find_stream_locked(set, stream);
    found = t != NULL && t->announced;
    if (found) {
        wm_timeline_end_announced_locked(set, t);
    }
    wm_lock_release(&set->lock);
    if (found) {
        (void)wm_timeline_poll_deferred(set, t);
        wm_timeline_drop(set, t);
    }
    return found;
}

void wm_timelines_begin_recording(wm_timelines *set)
{
    wm_timelines_begin_found(set);
    close_all_batches(set);
    await_breaks(set);
}

/* ---- under way ---------------------------------------------------------- */

/* Whether a capture is announced on another stream than except, or a private
 * pool for graphs records. */
static bool is_announced_locked(wm_timelines *set, int device,
                                warm_stream except)
{
    unsigned announced = 0;
    bool found = false;

    for (const wm_timeline *t = wm_timeline_next_locked(set, NULL); t != NULL;
         t = wm_timeline_next_locked(set, t)) {
        announced += t->announced;
        found = found || (t->announced && is_on(t, device, except));
    }
    /* Relaxed: see the field's comment. */
    return found || atomic_load_explicit(&set->captures, memory_order_relaxed) >
                        announced;
}

/* A stream that the driver does not know captures nothing. A default stream
 * belongs to the thread's current device: once any device is lost, a failed
 * query of a default stream may be due to that and counts as no. One of a
 * device that the process has not used captures nothing. */
static bool may_capture(wm_timelines *set, wm_timeline *t, warm_status *answer)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    bool due;

    if (!wm_timeline_is_lost(set, t) &&
        wm_driver_has_stream(set->driver, t->stream) &&
        wm_timeline_begin_record(t, &due)) {
        status = wm_driver_stream_capture(set->driver, t->stream, &capture);
        wm_timeline_end_record(t, due);
    }
    *answer = status;
    if (status == WARM_OK) {
        return capture != WM_CAPTURE_NONE;
    }
    return status != WARM_INVALID_STREAM && !(wm_driver_any_lost(set->driver) &&
                                              wm_stream_is_default(t->stream));
}

bool wm_timelines_ask(wm_timelines *set, int device, warm_stream except,
                      warm_error *why)
{
    const struct those asked = {device, except, false};
    wm_timeline *t = NULL;
    warm_status answer = WARM_OK;
    bool captures = false;

    WM_KEEP_ERROR();
    while (!captures &&
           (t = wm_timeline_next(set, t, find_locked, &asked)) != NULL) {
        captures = may_capture(set, t, &answer);
    }
    if (t != NULL) {
        wm_timeline_drop(set, t);
    }
    if (captures && answer != WARM_OK && why != NULL) {
        *why = wm_error_save();
    }
    return captures;
}

/* Ends the break, also when a callback begins: after a callback the driver's
 * earlier report may be wrong. */
static void end_driver_break(wm_breaking *breaking)
{
    if (breaking->begun) {
        breaking->begun = false;
        wm_driver_break_end();
    }
}

static void on_callback(wm_callback_watch *watch, bool inside)
{
    wm_breaking *breaking =
        (wm_breaking *)(void *)watch; /* watch is its first field */
    wm_timelines *set = breaking->set;

    end_driver_break(breaking);
    wm_lock_acquire(&set->lock);
    breaking->inside += inside ? 1U : -1U;
    wm_cond_broadcast(&set->driver_call_over);
    wm_lock_release(&set->lock);
}

bool wm_timelines_begin_break(wm_timelines *set, wm_breaking *breaking,
                              int device, warm_stream except, bool announced)
{
    *breaking = (wm_breaking){.watch.tell = on_callback,
                              .set = set,
                              .why.size = sizeof breaking->why};
    wm_lock_acquire(&set->lock);
    if (announced && is_announced_locked(set, device, except)) {
        wm_lock_release(&set->lock);
        return false;
    }
    if (set->driver->breaks_captures) {
        breaking->listed = true;
        breaking->next = set->breaking;
        set->breaking = breaking;
    }
    wm_lock_release(&set->lock);
    if (breaking->listed) {
        wm_callback_watch_begin(&breaking->watch);
    }
    if (wm_timelines_ask(set, device, except, &breaking->why)) {
        wm_timelines_end_break(set, breaking);
        return false;
    }
    breaking->begun = true;
    wm_driver_break_begin();
    return true;
}

warm_status wm_timelines_refuse(const wm_breaking *breaking, const char *what)
{
    const warm_error *why = &breaking->why;

    if (why->status == WARM_OK) {
        return wm_fail(WARM_CAPTURE_ERROR,
                       "%s while a stream captures: end the capture first",
                       what);
    }
    return wm_fail_code(why->status, why->origin, why->code, why->code_text,
                        "%s, since the driver cannot report whether a stream "
                        "captures: %s",
                        what, why->message);
}

void wm_timelines_end_break(wm_timelines *set, wm_breaking *breaking)
{
    wm_breaking **link = &set->breaking;

    end_driver_break(breaking);
    if (!breaking->listed) {
        return;
    }
    wm_callback_watch_end(&breaking->watch);
    wm_lock_acquire(&set->lock);
    while (*link != breaking) {
        link = &(*link)->next;
    }
    *link = breaking->next;
    wm_cond_broadcast(&set->driver_call_over);
    wm_lock_release(&set->lock);
}
