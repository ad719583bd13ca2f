/* check_stream_wait.c: which streams are waited for, and how often, when a
 * device is out of memory (rows C1, C2, C8); streams that end while a thread
 * waits for them. Host device; the test intercepts the driver's calls. */
/* memcheck: one process */
#include "alloc/kinds/device_space.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/base/status.h"
#include "runtime/runtime.h"

#include "wt_order.h"

#include <sched.h>
#include <string.h>

static wm_driver_ops ops;
static const wm_driver_ops *real;
static unsigned waits, left; /* calls; streams known after one has ended */

static wm_lane_registry *registry(void)
{
    return &runtime->device_spaces[0].registry;
}

static unsigned known(void)
{
    unsigned count = 0;
    const wm_lane_owner *o = NULL;

    while ((o = wm_lane_owner_next_locked(registry(), o)) != NULL) {
        count += o->timeline != NULL; /* not the legacy stream */
    }
    return count;
}

static void begin(void)
{
    wt_order_begin(
        (warm_options){.device = "host", .host_devices = 2, .keep = WARM_OFF});
    wt_ok(warm_free(idle));
    wt_order_limit();
    real = runtime->driver->ops;
    ops = *real;
    waits = 0;
    runtime->driver->ops = &ops;
}

static void end(void)
{
    runtime->driver->ops = real;
    if (gate != NULL) {
        wt_gate_open(gate);
        wt_ok(warm_stream_destroy(runtime, first));
    }
    wt_ok(warm_free(kept));
    wt_ok(warm_stream_destroy(runtime, second));
    wt_runtime_end(runtime);
}

static void refused_on(warm_stream stream)
{
    void *block = &block;

    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, BLOCK, &block));
    ck_assert_ptr_eq(block, &block);
}

/* ---- who waits ----------------------------------------------------------- */

static warm_status fail_wait(wm_driver *d, warm_stream stream, warm_event event)
{
    (void)d;
    (void)event;
    waits++;
    return wm_fail(WARM_DRIVER_ERROR, "%p does not wait", stream);
}

/* A stream that could not be waited for is not tried again and again: once
 * before the space would grow above its bound, and once after that failed. */
WT_TEST(test_C2_every_stream_is_tried_once)
{
    begin();
    ops.stream_wait_event = fail_wait;
    refused_on(second);
    ck_assert_uint_eq(waits, 2);
    end();
}

/* With as many as may be queued no stream gets another fence. */
static void set_fences(uint8_t count)
{
    wm_lane_owner *o = NULL;

    wm_lock_acquire(&registry()->lock);
    while ((o = wm_lane_owner_next_locked(registry(), o)) != NULL) {
        o->fences = count;
    }
    wm_lock_release(&registry()->lock);
}

/* Events recorded on `first`, and those that streams were made to wait for. */
static warm_event marked[8], waited[8];
static unsigned marks;

static warm_status note_mark(wm_driver *d, warm_event event, warm_stream stream,
                             wm_capture *capture)
{
    if (stream == first && marks < 8) {
        marked[marks++] = event;
    }
    return real->event_mark(d, event, stream, capture);
}

static warm_status note_wait(wm_driver *d, warm_stream stream, warm_event event)
{
    /* It is neither destroyed nor recorded again meanwhile. */
    ck_assert_uint_eq(registry()->timelines->events->device[0].named, 1);
    waited[waits++] = event;
    return real->stream_wait_event(d, stream, event);
}

static void await(warm_stream stream)
{
    while (warm_stream_query(runtime, stream) != WARM_OK) {
        sched_yield(); /* for ever, if it waits for too much */
    }
}

/* The stream waits for the work before the free, which has a fence, and not for
 * what was queued behind it since; so it does not get what was freed since. */
WT_TEST(test_C1_C2_a_stream_waits_for_no_more_than_the_free)
{
    void *between, *last, *block[2];
    wt_gate *later;

    begin();
    marks = 0;
    ops.event_mark = note_mark;
    ops.stream_wait_event = note_wait;
    between = wt_device(runtime, first, 2 * MIB);
    last = wt_device(runtime, first, 6 * MIB);
    wm_lanes_queue_fences(registry(), NULL, NULL);
    wm_timelines_poll_queued(registry()->timelines); /* records its event */
    later = wt_gate_close(runtime, first);
    wt_ok(warm_free(last));
    block[0] = wt_device(runtime, second, BLOCK);
    ck_assert_ptr_eq(block[0], idle);
    ck_assert_uint_eq(waits, 1);
    ck_assert_ptr_eq(waited[0], marked[0]);
    ck_assert_int_eq(warm_stream_query(runtime, second), WARM_NOT_READY);
    block[1] = wt_device(runtime, second, 6 * MIB);
    ck_assert_ptr_eq(block[1], last);
    ck_assert_uint_eq(waits, 2);
    ck_assert_ptr_eq(waited[1], marked[1]);
    wt_gate_open(gate);
    gate = later;
    ck_assert_int_eq(warm_stream_query(runtime, second), WARM_NOT_READY);
    ck_assert_uint_eq(registry()->timelines->events->device[0].named, 0);
    wt_free_all(block, 2);
    wt_ok(warm_free(between));
    end();
}

/* Only the one that it waits for has to be done. */
WT_TEST(test_C1_C2_a_stream_goes_on_before_what_was_queued_since)
{
    wt_gate *later;
    void *block;

    begin();
    wm_lanes_queue_fences(registry(), NULL, NULL);
    wm_timelines_poll_queued(registry()->timelines);
    later = wt_gate_close(runtime, first);
    block = wt_device(runtime, second, BLOCK);
    wt_gate_open(gate);
    gate = later;
    await(second);
    ck_assert_int_eq(warm_stream_query(runtime, first), WARM_NOT_READY);
    wt_ok(warm_free(block));
    end();
}

/* A fence that is complete or lost is no longer out. */
static unsigned fences_out(void)
{
    const wm_lane_owner *o = NULL;
    unsigned count = 0;

    while ((o = wm_lane_owner_next_locked(registry(), o)) != NULL) {
        for (const wm_fence *f = o->out; f != NULL; f = f->next_out) {
            count++;
        }
    }
    return count;
}

WT_LOOP_TEST(test_C1_fences_that_are_over_are_not_waited_for, 2)
{
    begin();
    wm_lanes_queue_fences(registry(), NULL, NULL);
    wm_timelines_poll_queued(registry()->timelines);
    ck_assert_uint_eq(fences_out(), 1);
    if (_i == 1) {
        wt_ok(warm_testing_fail(runtime, "event_passed", 1, 3));
        for (int i = 0; i < 3; i++) {
            wt_ok(warm_poll(runtime));
        }
        wt_ok(warm_testing_fail(runtime, "event_passed", 0, 0));
    } else {
        wt_gate_open(gate);
        gate = NULL;
        wt_ok(warm_stream_synchronize(runtime, first));
        wt_ok(warm_poll(runtime));
        wt_ok(warm_stream_destroy(runtime, first));
    }
    ck_assert_uint_eq(fences_out(), 0);
    end();
}

/* A fence covers a small run, and no other fence may be queued: the room that
 * is asked for was freed later. */
WT_TEST(test_C2_what_no_fence_covers_is_waited_for_as_well)
{
    void *small, *between, *block;

    begin();
    wt_gate_open(gate);
    gate = NULL;
    wt_ok(warm_stream_synchronize(runtime, first));
    block = wt_device(runtime, first, BLOCK);
    small = wt_device(runtime, first, 2 * MIB);
    between = wt_device(runtime, first, 2 * MIB);
    gate = wt_gate_close(runtime, first);
    wt_gate_await(gate);
    wt_ok(warm_free(small));
    wm_lanes_queue_fences(registry(), NULL, NULL);
    set_fences(WM_FENCES);
    wm_timelines_poll_queued(registry()->timelines);
    wt_ok(warm_free(block));
    block = wt_device(runtime, second, BLOCK);
    ck_assert_ptr_eq(block, idle);
    set_fences(1);
    wt_free(block, between);
    end();
}

static warm_status say_blocked(wm_driver *d, warm_stream stream,
                               wm_capture *capture)
{
    (void)d;
    (void)stream;
    *capture = WM_CAPTURE_BLOCKED;
    return WARM_OK;
}

/* Nothing may be queued while another stream captures. */
WT_TEST(test_B7_C2_no_stream_waits_beside_a_capture)
{
    begin();
    ops.stream_capture = say_blocked;
    ops.stream_wait_event = fail_wait;
    refused_on(second);
    ck_assert_uint_eq(waits, 0);
    end();
}

/* Memory that a default stream got would stay its own for ever. */
WT_TEST(test_C2_default_streams_wait_for_nobody)
{
    begin();
    ops.stream_wait_event = fail_wait;
    refused_on(WARM_STREAM_PER_THREAD);
    refused_on(WARM_STREAM_LEGACY);
    ck_assert_uint_eq(waits, 0);
    end();
}

/* ---- streams that end meanwhile ------------------------------------------ */

/* The stream's work is done, it is retired, and its lane has ended; its
 * owner record stays for the thread that waits with it. */
static void end_first(void)
{
    if (waits++ == 0) {
        wt_gate_open(gate);
        gate = NULL;
        wt_ok(warm_stream_retire(runtime, first));
        wt_ok(wm_driver_stream_synchronize(runtime->driver, first));
        wt_ok(warm_poll(runtime));
        left = known();
        wt_ok(wm_driver_stream_destroy(runtime->driver, first));
    }
}

static warm_status wait_and_end(wm_driver *d, warm_stream stream,
                                warm_event event)
{
    warm_status status = real->stream_wait_event(d, stream, event);

    if (fences_out() == 0) {
        set_fences(0);
    }
    end_first();
    return status;
}

/* It waits for all work so far, or for a fence. */
WT_LOOP_TEST(test_C2_a_stream_ends_while_another_one_waits_for_it, 2)
{
    void *block;

    begin();
    if (_i == 0) {
        set_fences(WM_FENCES);
    }
    ops.stream_wait_event = wait_and_end;
    block = wt_device(runtime, second, BLOCK);
    ck_assert_ptr_eq(block, idle);
    ck_assert_uint_eq(waits, 1);
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(known(), 1);
    wt_ok(warm_free(block));
    end();
}

/* Whether a request lets a stream wait. */
static bool is_waited_for(void)
{
    const wm_lane_owner *o = NULL;
    bool is = false;

    wm_lock_acquire(&registry()->lock);
    while ((o = wm_lane_owner_next_locked(registry(), o)) != NULL) {
        is |= o->waiters > 0;
    }
    wm_lock_release(&registry()->lock);
    return is;
}

/* Retires the stream that is to wait, against the rules: it is not named to
 * the driver any more. */
static warm_status end_second(wm_driver *d, warm_event event,
                              warm_stream stream, wm_capture *capture)
{
    if (left == 0 && stream == first && is_waited_for()) {
        set_fences(0);
        wt_ok(warm_stream_retire(runtime, second));
        wt_ok(wm_driver_stream_synchronize(runtime->driver, second));
        wt_ok(warm_poll(runtime));
        left = known();
    }
    return real->event_mark(d, event, stream, capture);
}

WT_TEST(test_C2_a_stream_ends_before_it_waits_for_another_one)
{
    begin();
    set_fences(WM_FENCES);
    left = 0;
    ops.event_mark = end_second;
    ops.stream_wait_event = fail_wait;
    refused_on(second);
    ck_assert_uint_eq(waits, 0);
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(known(), 1);
    end();
}

static pthread_t ender;
static warm_status end_status;
static _Atomic bool ended;

static void *retire_second(void *unused)
{
    end_status = warm_stream_retire(runtime, second);
    atomic_store_explicit(&ended, true, memory_order_release);
    return unused;
}

static bool is_retiring(wm_timeline *t)
{
    bool retiring;

    wm_lock_acquire(&t->lock);
    retiring = t->retiring;
    wm_lock_release(&t->lock);
    return retiring;
}

/* Another thread retires it, and returns only when the wait is queued: the
 * stream may be destroyed after that. */
static warm_status wait_beside_end(wm_driver *d, warm_stream stream,
                                   warm_event event)
{
    wm_timeline *t = wm_timeline_get_adopted(registry()->timelines, second);
    wt_linger linger = {0};

    waits++;
    ck_assert_int_eq(pthread_create(&ender, NULL, retire_second, NULL), 0);
    while (!is_retiring(t)) {
        sched_yield();
    }
    while (wt_lingers(&linger)) {
    }
    ck_assert(!atomic_load_explicit(&ended, memory_order_acquire));
    wm_timeline_drop(registry()->timelines, t);
    return real->stream_wait_event(d, stream, event);
}

/* The retired stream's lane gets nothing of the other one's memory. */
WT_TEST(test_C1_C2_a_stream_that_ends_while_it_waits_gets_nothing)
{
    begin();
    ops.stream_wait_event = wait_beside_end;
    atomic_store_explicit(&ended, false, memory_order_relaxed);
    refused_on(second);
    ck_assert_uint_eq(waits, 1);
    pthread_join(ender, NULL);
    wt_ok(end_status);
    end();
}

static warm_status wait_after_end(wm_driver *d, warm_stream stream,
                                  warm_event event)
{
    waits++;
    wt_ok(warm_stream_retire(runtime, first));
    wt_gate_open(gate);
    gate = NULL;
    wt_ok(wm_driver_stream_synchronize(runtime->driver, first));
    wt_ok(wm_driver_stream_destroy(runtime->driver, first));
    return real->stream_wait_event(d, stream, event);
}

/* A stream may be made to wait for the event of one that has been retired and
 * destroyed since. */
WT_TEST(test_C1_C2_a_fence_outlasts_its_stream)
{
    void *block;

    begin();
    ops.stream_wait_event = wait_after_end;
    block = wt_device(runtime, second, BLOCK);
    ck_assert_ptr_eq(block, idle);
    ck_assert_uint_eq(waits, 1);
    wt_ok(warm_free(block));
    end();
}

/* ---- while a request looks around ---------------------------------------- */

static const wm_timeline_ops *real_timeline_ops;
static wm_timeline_ops timeline_ops;
static pthread_t giver;
static size_t given;
static _Atomic bool going; /* what is given back is with the driver */
static bool goes_slowly;

static warm_status free_slowly(wm_driver *d, int device, void *base)
{
    wt_linger linger = {0};

    atomic_store_explicit(&going, true, memory_order_release);
    while (goes_slowly && wt_lingers(&linger)) { /* for the request */
    }
    return real->device_free(d, device, base);
}

static void *give_back(void *unused)
{
    (void)warm_free(kept);
    (void)warm_device_trim(runtime, 0, 0, &given);
    return unused;
}

/* A request was refused under the limit, and found nothing in the threads'
 * slots: another thread frees its memory to the driver before the request
 * looks again. */
static bool collect_and_give_back(wm_timelines *set, wm_timeline *timeline,
                                  uint64_t older_than)
{
    bool found = real_timeline_ops->collect(set, timeline, older_than);

    if (strstr(warm_last_error_message(), "limit") == NULL ||
        atomic_load_explicit(&going, memory_order_relaxed)) {
        return found;
    }
    ck_assert_int_eq(pthread_create(&giver, NULL, give_back, NULL), 0);
    if (!goes_slowly) {
        pthread_join(giver, NULL);
    }
    while (!atomic_load_explicit(&going, memory_order_acquire)) {
        sched_yield();
    }
    return found;
}

/* The memory is with the driver, or on its way there. */
WT_LOOP_TEST(test_C2_what_goes_back_meanwhile_is_asked_for, 2)
{
    wm_timelines *timelines;

    wt_order_begin((warm_options){.device = "host"});
    wt_ok(warm_free(idle));
    wt_gate_open(gate);
    gate = NULL;
    wt_order_limit();
    real = runtime->driver->ops;
    ops = *real;
    ops.device_free = free_slowly;
    runtime->driver->ops = &ops;
    timelines = runtime->device_spaces[0].space.group.timelines;
    real_timeline_ops = timelines->ops;
    timeline_ops = *real_timeline_ops;
    timeline_ops.collect = collect_and_give_back;
    timelines->ops = &timeline_ops;
    goes_slowly = _i == 1;
    atomic_store_explicit(&going, false, memory_order_relaxed);
    wt_ok(warm_free(wt_device(runtime, second, HELD)));
    ck_assert(atomic_load_explicit(&going, memory_order_relaxed));
    if (goes_slowly) {
        pthread_join(giver, NULL);
    }
    ck_assert_uint_eq(given, HELD);
    timelines->ops = real_timeline_ops;
    runtime->driver->ops = real;
    wt_ok(warm_stream_destroy(runtime, first));
    wt_ok(warm_stream_destroy(runtime, second));
    wt_runtime_end(runtime);
}
