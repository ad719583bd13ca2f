/* timeline_capture.c: which captures are known: announced ones, and what the
 * driver says about the streams that may be queried. See timeline.h. */
#include "alloc/stream/timeline_int.h"

#include "runtime/base/meta.h"

/* ---- announced ---------------------------------------------------------- */

/* Notes that t (null: none yet) is closed for an announcement, and drops it. An
 * announcement that came before this one need not close t either. Returns the
 * next adopted timeline that is not closed, with a reference; or null. */
static wm_timeline *next_to_close(wm_timelines *set, wm_timeline *t,
                                  uint64_t announcement)
{
    wm_timeline *next;

    wm_lock_acquire(&set->lock);
    if (t != NULL && t->announcement < announcement) {
        t->announcement = announcement;
    }
    next = t != NULL && t->in_table ? t : NULL;
    do {
        next = wm_timeline_next_locked(set, next);
    } while (next != NULL && (next->announcement >= announcement ||
                              !wm_timeline_is_adopted(next)));
    if (next != NULL) {
        wm_timeline_hold(next);
    }
    wm_lock_release(&set->lock);
    if (t != NULL) {
        wm_timeline_drop(set, t);
    }
    return next;
}

/* Closes every batch of every adopted stream, since the capture may reach any
 * of them; waits for batches that other threads are closing. */
static void close_all_batches(wm_timelines *set)
{
    wm_timeline *t = NULL;
    uint64_t announcement;

    (void)set->ops->collect(set, NULL, UINT64_MAX);
    wm_lock_acquire(&set->lock);
    announcement = ++set->announcements;
    wm_lock_release(&set->lock);
    while ((t = next_to_close(set, t, announcement)) != NULL) {
        wm_batch_close_now(set, t);
    }
}

/* Whether a driver call that breaks captures is under way. A thread that is in
 * a callback is not waited for: the callback may be what announces the capture,
 * or may wait for a lock of the program that the announcing thread holds. */
static bool is_breaking_locked(const wm_timelines *set)
{
    const wm_breaking *b = set->breaking;

    while (b != NULL && b->inside > 0) {
        b = b->next;
    }
    return b != NULL;
}

/* A call that began before the capture was announced would break it. */
static void await_breaks(wm_timelines *set)
{
    wm_lock_acquire(&set->lock);
    while (is_breaking_locked(set)) {
        wm_cond_wait(&set->driver_call_over, &set->lock);
    }
    wm_lock_release(&set->lock);
}

static bool is_queried_locked(const wm_timelines *set, warm_stream stream)
{
    const wm_named_query *n = set->named_queries;

    while (n != NULL && n->stream != stream) {
        n = n->next;
    }
    return n != NULL;
}

/* A thread which the driver told that t's stream does not capture makes its
 * next call on the stream before the capture begins. In a callback no thread is
 * waited for, since the callback may run inside such a call. */
static void await_callers(wm_timelines *set, wm_timeline *t)
{
    bool waits = !wm_callback_inside();

    wm_lock_acquire(&set->lock);
    while (waits && is_queried_locked(set, t->stream)) {
        wm_cond_wait(&set->driver_call_over, &set->lock);
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
    bool again = false;

    wm_timelines_want_window(set, stream);
    wm_lock_acquire(&set->lock);
    t = wm_timeline_get_locked(set, stream, info);
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
        return wm_timeline_no_record();
    }
    /* What was freed before gets its event before the capture begins: later
     * none can be recorded, and the graph might use the block. */
    close_all_batches(set);
    await_callers(set, t);
    await_breaks(set);
    *already = again;
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

void wm_timelines_begin_found(wm_timelines *set)
{
    atomic_fetch_add_explicit(&set->captures, 1, memory_order_relaxed);
}

void wm_timelines_begin_recording(wm_timelines *set)
{
    wm_timelines_begin_found(set);
    close_all_batches(set);
    await_breaks(set);
}

void wm_timelines_end_recording(wm_timelines *set)
{
    atomic_fetch_sub_explicit(&set->captures, 1, memory_order_relaxed);
}

/* ---- under way ---------------------------------------------------------- */

static bool is_on(const wm_timeline *t, int device, warm_stream except)
{
    return t->stream != except &&
           (device < 0 || t->device < 0 || t->device == device);
}

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
    /* Relaxed: the field's comment says why. */
    return found || atomic_load_explicit(&set->captures, memory_order_relaxed) >
                        announced;
}

/* Whether the driver may be asked about the stream at any time: an adopted
 * stream lives until it is retired; a stream whose capture must end before
 * blocks get their event lives until then (warm_record_stream() demands it);
 * default streams live always. */
static bool may_be_asked(wm_timeline *t)
{
    return wm_timeline_is_adopted(t) ||
           atomic_load_explicit(&t->deferred, memory_order_relaxed) > 0 ||
           (wm_stream_is_default(t->stream) && wm_timeline_is_named_here(t));
}

/* Lists at most room timelines, each with a reference; returns how many there
 * are. */
static size_t list_locked(wm_timelines *set, int device, warm_stream except,
                          wm_timeline **list, size_t room)
{
    size_t count = 0;

    for (wm_timeline *t = wm_timeline_next_locked(set, NULL); t != NULL;
         t = wm_timeline_next_locked(set, t)) {
        if (!is_on(t, device, except) || !may_be_asked(t)) {
            continue;
        }
        if (count < room) {
            wm_timeline_hold(t);
            list[count] = t;
        }
        count++;
    }
    return count;
}

/* A default stream is that of the thread's current device. Once a device is
 * lost, that may be the lost one, which the driver is not asked about. */
static bool may_be_lost_default(const wm_timelines *set, const wm_timeline *t)
{
    return wm_driver_any_lost(set->driver) && wm_stream_is_default(t->stream);
}

/* A stream that the driver does not know captures nothing. */
static bool may_capture(wm_timelines *set, wm_timeline *t)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;
    bool due;

    if (!wm_timeline_is_lost(set, t) && wm_timeline_begin_record(t, &due)) {
        status = wm_driver_stream_capture(set->driver, t->stream, &capture);
        wm_timeline_end_record(t, due);
    }
    return status == WARM_OK
               ? capture != WM_CAPTURE_NONE
               : status != WARM_INVALID_STREAM && !may_be_lost_default(set, t);
}

/* Queries the listed streams, and drops their references. */
static bool any_captures(wm_timelines *set, wm_timeline **list, size_t count)
{
    bool captures = false;

    for (size_t i = 0; i < count; i++) {
        captures = captures || may_capture(set, list[i]);
        wm_timeline_drop(set, list[i]);
    }
    return captures;
}

/* ON_STACK streams are listed without an allocation. A larger list has SPARE
 * entries for streams that come meanwhile. If it cannot be allocated, the
 * answer is yes. */
enum { ON_STACK = 32, SPARE = 64 };

bool wm_timelines_ask(wm_timelines *set, int device, warm_stream except)
{
    warm_error before = {.size = sizeof before};
    wm_timeline *few[ON_STACK];
    wm_timeline **list = few;
    size_t room = ON_STACK, count = 0;
    bool captures;

    warm_last_error(&before);
    do {
        if (count > room) {
            room = count + SPARE;
            list = wm_meta_alloc(room * sizeof(wm_timeline *));
            if (list == NULL) {
                return true;
            }
        }
        wm_lock_acquire(&set->lock);
        count = list_locked(set, device, except, list, room);
        wm_lock_release(&set->lock);
        /* Queries a list that turned out too short as well: one capture is
         * enough for an answer. */
        captures = any_captures(set, list, count < room ? count : room);
        if (list != few) {
            wm_meta_free(list);
        }
    } while (!captures && count > room);
    wm_error_restore(&before);
    return captures;
}

/* What was found out before a callback may be wrong after it. */
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
    bool refused;

    *breaking = (wm_breaking){.watch.tell = on_callback, .set = set};
    wm_lock_acquire(&set->lock);
    refused = announced && is_announced_locked(set, device, except);
    if (!refused && set->driver->breaks_captures) {
        breaking->listed = true;
        breaking->next = set->breaking;
        set->breaking = breaking;
    }
    wm_lock_release(&set->lock);
    if (breaking->listed) {
        wm_callback_watch_begin(&breaking->watch);
    }
    if (!refused && wm_timelines_ask(set, device, except)) {
        wm_timelines_end_break(set, breaking);
        refused = true;
    }
    if (!refused) {
        breaking->begun = true;
        wm_driver_break_begin();
    }
    return !refused;
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
