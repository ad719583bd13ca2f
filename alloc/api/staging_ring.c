/* staging_ring.c: when a slice of a staging ring is queued, closed and used
 * again; see staging_ring.h. No slice is written while a copy that was queued
 * from it may still read it. */
#include "alloc/api/staging_ring.h"

#include "alloc/api/copy.h"
#include "alloc/kinds/pinned.h"
#include "alloc/stream/stream_lane.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

#include <string.h>

static wm_slice *open_of(warm_staging *s)
{
    return &s->slice[s->open];
}

/* ---- queue ----------------------------------------------------------------
 */

static warm_status refuse_capture(warm_stream stream)
{
    return wm_fail(WARM_CAPTURE_ERROR,
                   "stream %p captures, or a stream that captures blocks it: a "
                   "graph cannot use a staging ring, whose slices have other "
                   "contents when it is launched; use warm_copy_async() with "
                   "page-locked memory of your own",
                   stream);
}

static warm_status check_capture(warm_staging *s)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status =
        wm_driver_stream_capture(s->runtime->driver, s->stream, &capture);

    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = refuse_capture(s->stream);
    }
    return status;
}

warm_status wm_staging_queue(warm_staging *s)
{
    wm_staged_run *run = &s->run;
    bool to_device = run->direction == WARM_COPY_TO_DEVICE;
    warm_status status;

    if (run->bytes == 0) {
        return WARM_OK;
    }
    if ((status = check_capture(s)) != WARM_OK) {
        return status;
    }
    status = wm_copy_staged(s->runtime, to_device ? run->device : run->slice,
                            to_device ? run->slice : run->device, run->bytes,
                            run->direction, s->stream);
    if (status == WARM_OK) {
        open_of(s)->queued = true;
        open_of(s)->marked = false;
        wm_staged_count(&s->figures.queued, 1);
        run->bytes = 0;
    }
    return status;
}

/* ---- close ----------------------------------------------------------------
 */

warm_status wm_staging_mark(warm_staging *s)
{
    wm_slice *slice = open_of(s);
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status;

    if (!slice->queued || slice->marked || slice->stuck) {
        return WARM_OK;
    }
    status = wm_driver_event_mark(s->runtime->driver, slice->event, s->stream,
                                  &capture);
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        return refuse_capture(s->stream);
    }
    if (status == WARM_OK) {
        slice->marked = true;
        wm_staged_count(&s->figures.events, 1);
    }
    return status;
}

/* The copies of a slice have passed. */
static void complete(wm_slice *slice)
{
    for (unsigned i = 0; i < slice->count; i++) {
        const wm_staged_part *part = &slice->part[i];

        memcpy(part->to, part->from, part->bytes);
    }
    slice->count = 0;
    slice->queued = slice->marked = false;
}

warm_status wm_staging_mark_default(warm_staging *s)
{
    wm_slice *slice = open_of(s);
    warm_error before = wm_error_save(), cause;
    warm_status status = wm_staging_mark(s);

    if (status == WARM_OK) {
        return status;
    }
    cause = wm_error_save();
    if (wm_driver_stream_await(s->runtime->driver, s->stream) == WARM_OK) {
        complete(slice);
        s->used = 0;
        wm_error_restore(&before);
        return WARM_OK;
    }
    wm_error_restore(&cause);
    slice->stuck = true;
    return status;
}

/* ---- use again ---------------------------------------------------------- */

/* At most so many turns of wm_wait_turn(), of which all but the first few sleep
 * for 50 us: also where a test's clock stands still. */
static uint64_t turns_of(const warm_staging *s)
{
    return 64 + (uint64_t)s->wait_ms * 20;
}

static warm_status await(warm_staging *s, const wm_slice *slice,
                         wm_staging_wait *wait)
{
    uint64_t start = wm_clock_ns();
    warm_status status = WARM_NOT_READY;

    if (wait->until_ns == 0) {
        wait->until_ns = start + (uint64_t)s->wait_ms * 1000000;
    }
    wm_staged_count(&s->figures.waits, 1);
    for (unsigned turn = 0; status == WARM_NOT_READY && turn < turns_of(s) &&
                            wm_clock_ns() < wait->until_ns;
         turn++) {
        wm_wait_turn(turn);
        status = wm_driver_event_passed(s->runtime->driver, slice->event);
    }
    wm_staged_count(&s->figures.wait_ns, wm_clock_ns() - start);
    return status;
}

/* Makes a slice idle whose copies have passed, or pass while it waits. */
static warm_status reclaim(warm_staging *s, wm_slice *slice,
                           wm_staging_wait *wait)
{
    warm_status status;

    if (slice->stuck) {
        return wm_fail(WARM_DRIVER_ERROR,
                       "a slice of the staging ring cannot be used again: the "
                       "driver recorded no event behind its copies; destroy "
                       "the ring");
    }
    status = wm_driver_event_passed(s->runtime->driver, slice->event);
    if (status == WARM_NOT_READY && !wait->never) {
        status = await(s, slice, wait);
    }
    if (status == WARM_NOT_READY) {
        return wm_fail(WARM_NOT_READY,
                       "copies of all %u slices of the staging ring are still "
                       "queued%s",
                       s->closed + 1,
                       wait->never ? "" : ", after a wait of wait_ms");
    }
    if (status == WARM_OK) {
        complete(slice);
    }
    return status;
}

warm_status wm_staging_turn(warm_staging *s, wm_staging_wait *wait)
{
    unsigned next = (s->open + 1) % s->slices;
    warm_status status = WARM_OK;

    wm_assert(s->run.bytes == 0);
    if (s->closed == s->slices - 1) { /* the next one is the oldest closed */
        status = reclaim(s, &s->slice[next], wait);
        s->closed -= status == WARM_OK;
    }
    if (status == WARM_OK && (status = wm_staging_mark(s)) == WARM_OK) {
        s->closed++;
        s->open = next;
        s->used = 0;
    }
    return status;
}

warm_status wm_staging_await_all(warm_staging *s, wm_staging_wait *wait)
{
    warm_status status = WARM_OK;

    while (s->closed > 0 && status == WARM_OK) {
        unsigned oldest = (s->open + s->slices - s->closed) % s->slices;

        status = reclaim(s, &s->slice[oldest], wait);
        s->closed -= status == WARM_OK;
    }
    if (status == WARM_OK && open_of(s)->queued) {
        status = reclaim(s, open_of(s), wait);
        s->used = status == WARM_OK ? 0 : s->used;
    }
    return status;
}

/* ---- the stream -----------------------------------------------------------
 */

static warm_status change_stream(warm_staging *s, wm_staging_wait *wait)
{
    warm_status status = wm_staging_queue(s);

    if (status == WARM_OK && open_of(s)->queued) {
        status = wm_staging_turn(s, wait);
    }
    return status;
}

warm_status wm_staging_use_stream(warm_staging *s, warm_stream stream,
                                  wm_staging_wait *wait)
{
    /* Acquire: pairs with the release of a thread that retires a stream: what
     * the address names from then on is looked up. */
    uint64_t epoch =
        atomic_load_explicit(&s->runtime->stream_epoch, memory_order_acquire);
    wm_stream_info info = {.id = 0};
    warm_status status;

    stream = stream == NULL ? WARM_STREAM_LEGACY : stream;
    if (s->known && stream == s->stream && epoch == s->epoch) {
        return WARM_OK;
    }
    status = wm_timelines_info(&s->runtime->pinned->timelines, stream, &info);
    if (status != WARM_OK) {
        return status;
    }
    if (info.capture != WM_CAPTURE_NONE) {
        return refuse_capture(stream);
    }
    if (info.device != s->device) {
        return wm_lane_other_device(stream, info.device, s->device);
    }
    if (info.id != s->stream_id) {
        status = change_stream(s, wait);
    }
    if (status == WARM_OK) {
        s->stream = stream;
        s->stream_id = info.id;
        s->epoch = epoch;
        s->known = !wm_stream_is_default(stream);
    }
    return status;
}
