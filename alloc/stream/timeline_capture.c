/* timeline_capture.c: captures that are known: those that are announced, and
 * what the driver says of the streams that are known. See timeline.h. */
#include "alloc/stream/timeline_int.h"

#include "runtime/base/meta.h"

/* ---- announced ---------------------------------------------------------- */

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

    (void)set->ops->collect(set, NULL, UINT64_MAX);
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

/* A thread that is in a callback is not waited for: the callback may be who
 * announces, or may wait for a lock of the program's that this thread has. */
static bool is_broken_locked(const wm_timelines *set)
{
    const wm_breaking *b = set->breaking;

    while (b != NULL && b->inside > 0) {
        b = b->next;
    }
    return b != NULL;
}

/* What began before the capture was known would break it. */
static void await_breaks(wm_timelines *set)
{
    wm_lock_acquire(&set->lock);
    while (is_broken_locked(set)) {
        wm_cond_wait(&set->unbroken, &set->lock);
    }
    wm_lock_release(&set->lock);
}

static bool is_being_named_locked(const wm_timelines *set, warm_stream stream)
{
    const wm_naming *n = set->naming;

    while (n != NULL && n->stream != stream) {
        n = n->next;
    }
    return n != NULL;
}

/* A thread that the driver has told that t's stream does not capture makes its
 * next call before the stream does. None is waited for in a callback, which may
 * be what such a thread is in. */
static void await_callers(wm_timelines *set, wm_timeline *t)
{
    bool waits = !wm_callback_inside();

    wm_lock_acquire(&set->lock);
    while (waits && is_being_named_locked(set, t->stream)) {
        wm_cond_wait(&set->unbroken, &set->lock);
    }
    wm_lock_acquire(&t->lock);
    t->capture_due = t->announced; /* unless it is over already */
    wm_lock_release(&t->lock);
    wm_lock_release(&set->lock);
    wm_lock_acquire(&t->lock);
    while (waits && t->capture_due && t->unaware > 0) {
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
    /* What was freed before is behind an event before the capture begins:
     * later none could be recorded, and the graph might use it. */
    close_all(set);
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
    t = wm_timeline_find_announced_locked(set, stream);
    found = t != NULL;
    if (found) {
        wm_timeline_end_announced_locked(set, t);
    }
    wm_lock_release(&set->lock);
    if (found) {
        wm_timeline_poll_late(set, t);
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
    close_all(set);
    await_breaks(set);
}

void wm_timelines_end_recording(wm_timelines *set)
{
    atomic_fetch_sub_explicit(&set->captures, 1, memory_order_relaxed);
}

/* ---- asked by name ------------------------------------------------------ */

/* ---- under way ---------------------------------------------------------- */

static bool is_on(const wm_timeline *t, int device, warm_stream but)
{
    return t->stream != but &&
           (device < 0 || t->device < 0 || t->device == device);
}

/* Whether one is announced, or a private pool for graphs records. */
static bool is_announced_locked(wm_timelines *set, int device, warm_stream but)
{
    unsigned announced = 0;
    bool found = false;

    for (int i = 0; i < WM_TIMELINE_BUCKETS; i++) {
        for (wm_timeline *t = set->bucket[i]; t != NULL;
             t = t->next_in_bucket) {
            announced += t->announced;
            found = found || (t->announced && is_on(t, device, but));
        }
    }
    /* Relaxed: see the field. */
    return found || atomic_load_explicit(&set->captures, memory_order_relaxed) >
                        announced;
}

/* Whether the driver may be asked about the stream at any time: one that is
 * adopted lives until it is retired, one that blocks wait for whose capture is
 * to end does as well (warm_record_stream()), and default streams always do. */
static bool may_be_asked(wm_timeline *t)
{
    return wm_timeline_is_adopted(t) ||
           atomic_load_explicit(&t->late, memory_order_relaxed) > 0 ||
           t->stream == NULL || t->stream == WARM_STREAM_LEGACY ||
           (t->stream == WARM_STREAM_PER_THREAD &&
            wm_timeline_is_named_here(t));
}

/* At most room of them, with a reference each; and how many there are. */
static size_t list_locked(wm_timelines *set, int device, warm_stream but,
                          wm_timeline **list, size_t room)
{
    size_t count = 0;

    for (int i = 0; i < WM_TIMELINE_BUCKETS; i++) {
        for (wm_timeline *t = set->bucket[i]; t != NULL;
             t = t->next_in_bucket) {
            if (!is_on(t, device, but) || !may_be_asked(t)) {
                continue;
            }
            if (count < room) {
                wm_timeline_hold(t);
                list[count] = t;
            }
            count++;
        }
    }
    return count;
}

/* A default stream is that of the thread's device, which nobody may be asked
 * about once the device is lost. */
static bool is_unnamable(const wm_timelines *set, const wm_timeline *t)
{
    return wm_driver_any_lost(set->driver) &&
           (t->stream == NULL || t->stream == WARM_STREAM_LEGACY ||
            t->stream == WARM_STREAM_PER_THREAD);
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
               : status != WARM_INVALID_STREAM && !is_unnamable(set, t);
}

/* Asks those that were listed, and drops them. */
static bool any_captures(wm_timelines *set, wm_timeline **list, size_t count)
{
    bool captures = false;

    for (size_t i = 0; i < count; i++) {
        captures = captures || may_capture(set, list[i]);
        wm_timeline_drop(set, list[i]);
    }
    return captures;
}

/* Streams that are asked without memory for a list; and room in a larger one
 * for streams that come while it is made. Without memory the answer is yes. */
enum { FEW = 32, SPARE = 64 };

bool wm_timelines_ask(wm_timelines *set, int device, warm_stream but)
{
    warm_error before = {.size = sizeof before};
    wm_timeline *few[FEW];
    wm_timeline **list = few;
    size_t room = FEW, count = 0;
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
        count = list_locked(set, device, but, list, room);
        wm_lock_release(&set->lock);
        /* Also those of a list that turned out too short: one that captures is
         * enough to know. */
        captures = any_captures(set, list, count < room ? count : room);
        if (list != few) {
            wm_meta_free(list);
        }
    } while (!captures && count > room);
    wm_error_restore(&before);
    return captures;
}

/* What is known before a callback may not be so after it. */
static void end_permit(wm_breaking *breaking)
{
    if (breaking->begun) {
        breaking->begun = false;
        wm_driver_break_end();
    }
}

static void tell(wm_callback_watch *watch, bool inside)
{
    wm_breaking *breaking = (wm_breaking *)(void *)watch; /* its first field */
    wm_timelines *set = breaking->set;

    end_permit(breaking);
    wm_lock_acquire(&set->lock);
    breaking->inside += inside ? 1U : -1U;
    wm_cond_broadcast(&set->unbroken);
    wm_lock_release(&set->lock);
}

bool wm_timelines_begin_break(wm_timelines *set, wm_breaking *breaking,
                              int device, warm_stream but, bool announced)
{
    bool refused;

    *breaking = (wm_breaking){.watch.tell = tell, .set = set};
    wm_lock_acquire(&set->lock);
    refused = announced && is_announced_locked(set, device, but);
    if (!refused && set->driver->breaks_captures) {
        breaking->listed = true;
        breaking->next = set->breaking;
        set->breaking = breaking;
    }
    wm_lock_release(&set->lock);
    if (breaking->listed) {
        wm_callback_watch_begin(&breaking->watch);
    }
    if (!refused && wm_timelines_ask(set, device, but)) {
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

    end_permit(breaking);
    if (!breaking->listed) {
        return;
    }
    wm_callback_watch_end(&breaking->watch);
    wm_lock_acquire(&set->lock);
    while (*link != breaking) {
        link = &(*link)->next;
    }
    *link = breaking->next;
    wm_cond_broadcast(&set->unbroken);
    wm_lock_release(&set->lock);
}
