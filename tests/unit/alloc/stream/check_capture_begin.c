/* check_capture_begin.c: a capture begins while another thread is in a call
 * that names its stream to the driver (rows B7, E7, E9). CUDA's driver is asked
 * whether the stream captures, and called if it does not: a capture that began
 * in between would be broken. The announcing thread waits for that call.
 *
 * backends: host standin */
/* memcheck: one process */
#include "wt_mail.h"

#include "runtime/runtime.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static warm_runtime *runtime;
static warm_stream stream, other; /* stream captures */
static bool adopted;              /* or the program owns stream */

/* The thread whose driver calls the test intercepts. */
static _Thread_local bool names_it;

static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    _Atomic bool inside, begun, ended, broken;
    _Atomic unsigned met;
    warm_status status;
} meet;

/* Between the driver's answer that nothing is captured and its call. */
static void linger(warm_stream named)
{
    wt_linger linger = {0};
    wm_capture capture = WM_CAPTURE_NONE;

    if (!names_it || named != stream) {
        return;
    }
    (void)meet.real->stream_capture(runtime->driver, named, &capture);
    if (capture != WM_CAPTURE_NONE) {
        return;
    }
    atomic_fetch_add(&meet.met, 1);
    atomic_store(&meet.inside, true);
    while (!atomic_load(&meet.begun) && wt_lingers(&linger)) {
    }
    (void)meet.real->stream_capture(runtime->driver, named, &capture);
    if (capture != WM_CAPTURE_NONE) {
        atomic_store(&meet.broken, true);
    }
}

static warm_status mark(wm_driver *d, warm_event event, warm_stream named,
                        wm_capture *capture)
{
    linger(named);
    return meet.real->event_mark(d, event, named, capture);
}

static warm_status passed(wm_driver *d, warm_stream named, wm_capture *capture)
{
    linger(named);
    return meet.real->stream_passed(d, named, capture);
}

static warm_status info(wm_driver *d, warm_stream named, wm_stream_info *out)
{
    linger(named);
    return meet.real->stream_info(d, named, out);
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    adopted = false;
    wt_ok(warm_stream_create(runtime, 0, &other));
    memset(&meet, 0, sizeof meet);
    meet.real = runtime->driver->ops;
    meet.ops = *meet.real;
    meet.ops.event_mark = mark;
    meet.ops.stream_passed = passed;
    meet.ops.stream_info = info;
}

static void make_stream(bool of_ours)
{
    adopted = of_ours;
    if (of_ours) {
        wt_ok(warm_stream_create(runtime, 0, &stream));
    } else {
        wt_ok(wm_driver_stream_create(runtime->driver, 0, &stream));
    }
}

static void teardown(void)
{
    wt_stream_end(runtime, other);
    if (adopted) {
        wt_stream_end(runtime, stream);
    } else {
        wt_ok(warm_stream_retire(runtime, stream));
        wt_ok(wm_driver_stream_destroy(runtime->driver, stream));
    }
    wt_runtime_end(runtime);
}

static void capture(void)
{
    warm_graph graph = NULL;

    meet.status = warm_capture_begin(runtime, stream);
    atomic_store(&meet.begun, true);
    while (!atomic_load(&meet.ended)) {
        sched_yield();
    }
    if (meet.status == WARM_OK) {
        meet.status = warm_capture_end(runtime, stream, &graph);
    }
    if (meet.status == WARM_OK) {
        meet.status = warm_graph_destroy(runtime, graph);
    }
}

struct way {
    const char *name;
    bool adopted;
    void (*prepare)(void);
    void (*call)(void); /* names the stream */
    uint64_t pending;   /* blocks after it that wait for a due capture's end */
};

static void name_or_capture(void *argument, unsigned index)
{
    const struct way *way = argument;

    if (index == 0) {
        names_it = true;
        way->call();
        names_it = false;
        atomic_store(&meet.inside, true); /* if it was not met */
        atomic_store(&meet.ended, true);
        return;
    }
    while (!atomic_load(&meet.inside)) {
        sched_yield();
    }
    capture();
}

static void *block;
static warm_private_pool pool;

static void have_pinned(void)
{
    block = wt_pinned(runtime, 4096);
}

static void have_used(void)
{
    have_pinned();
    wt_ok(warm_record_stream(block, stream));
}

/* Each free records its event at once. */
static void have_used_beside_a_capture(void)
{
    have_used();
    wt_ok(warm_capture_announce(runtime, other));
}

static void have_freed(void)
{
    have_used();
    wt_ok(warm_free(block));
}

/* A block that is freed while the stream captures gets its event later. */
static void have_freed_late(void)
{
    warm_graph graph = NULL;

    have_used();
    wt_ok(wm_driver_capture_begin(runtime->driver, stream));
    wt_ok(warm_free(block));
    wt_ok(wm_driver_capture_end(runtime->driver, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 1);
}

static void have_pool(void)
{
    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
}

static void free_it(void)
{
    wt_expect_ok(warm_free(block));
}

static void poll(void)
{
    wt_expect_ok(warm_poll(runtime));
}

static void free_and_poll(void)
{
    free_it();
    poll();
}

static void record(void)
{
    wt_expect_ok(warm_record_stream(block, stream));
    wt_expect_ok(warm_free(block));
}

static void allocate(void)
{
    void *made = NULL;

    wt_expect_ok(warm_device_alloc(runtime, 0, stream, 4096, &made));
    wt_expect_ok(warm_free(made));
}

static const struct way ways[] = {
    {"a free marks it", true, have_used_beside_a_capture, free_it, 1},
    {"a free marks one not adopted", false, have_used, free_it, 1},
    {"a poll asks whether it has passed", true, have_freed, poll, 0},
    {"a poll after a free", true, have_used, free_and_poll, 1},
    {"a poll marks what was freed in a capture", false, have_freed_late, poll,
     1},
    {"a record asks which it is", false, have_pinned, record, 1},
    {"an allocation asks which it is", false, NULL, allocate, 0},
    {"an allocation of a private pool", false, have_pool, allocate, 0},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

/* Freed blocks are idle again, and none is retained. */
static void end(const struct way *way)
{
    wt_mail_end();
    if (pool.number != 0) {
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_private_pool_release(runtime, pool));
        pool = (warm_private_pool){0};
    }
    if (way->prepare == have_used_beside_a_capture) {
        wt_ok(warm_capture_announce_end(runtime, other));
    }
    wt_ok(warm_poll(runtime));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 0);
}

WT_CASE("capture_begin", .setup = setup, .teardown = teardown);

static warm_status refuse_mark(wm_driver *d, warm_event event,
                               warm_stream named, wm_capture *capture)
{
    (void)d;
    (void)event;
    (void)named;
    (void)capture;
    return wm_fail(WARM_DRIVER_ERROR, "no event");
}

/* A batch that gets no event is no failure of the capture that is announced. */
WT_TEST(test_G6_B7_what_a_capture_closes_leaves_the_last_error)
{
    warm_error error = {.size = sizeof error};

    block = wt_pinned(runtime, 4096);
    make_stream(true);
    wt_ok(warm_record_stream(block, other));
    wt_ok(warm_free(block));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(&error, other));
    meet.ops.event_mark = refuse_mark;
    runtime->driver->ops = &meet.ops;
    wt_ok(warm_capture_announce(runtime, stream));
    runtime->driver->ops = meet.real;
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_NOT_FOUND);
    wt_ok(warm_capture_announce_end(runtime, stream));
}

WT_LOOP_TEST(test_B7_E7_E9_capture_begins_beside_a_call_that_names_its_stream,
             WAYS)
{
    const struct way *way = &ways[_i];

    make_stream(way->adopted);
    if (way->prepare != NULL) {
        way->prepare();
    }
    runtime->driver->ops = &meet.ops;
    wt_threads(2, name_or_capture, (void *)(uintptr_t)way);
    runtime->driver->ops = meet.real;
    wt_ok(meet.status);
    ck_assert_msg(!meet.broken, "%s", way->name);
    ck_assert_uint_gt(meet.met, 0);
    end(way);
}

/* A capture that is announced may begin at any moment. */
WT_LOOP_TEST(test_B7_E9_announced_stream_is_asked_only_whether_it_captures,
             WAYS)
{
    static const char *const calls[] = {"event_mark", "stream_passed",
                                        "stream_info", "stream_synchronize"};
    const struct way *way = &ways[_i];
    uint64_t before[4];

    make_stream(way->adopted);
    if (way->prepare != NULL) {
        way->prepare();
    }
    wt_ok(warm_capture_announce(runtime, stream));
    for (int i = 0; i < 4; i++) {
        before[i] = wt_calls(runtime, calls[i]);
    }
    way->call();
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(wt_calls(runtime, calls[i]) == before[i], "%s: %s",
                      way->name, calls[i]);
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, way->pending);
    wt_ok(warm_capture_announce_end(runtime, stream));
    end(way);
}

/* A capture begins between the driver's answer that there is none and the
 * record of the event. The use of a default stream has an event from before,
 * which does not cover what was queued since. */
static warm_status mark_as_one_begins(wm_driver *d, warm_event event,
                                      warm_stream named, wm_capture *capture)
{
    if (named == WARM_STREAM_PER_THREAD &&
        !atomic_exchange(&meet.begun, true)) {
        wt_ok(meet.real->capture_begin(d, named));
    }
    return meet.real->event_mark(d, event, named, capture);
}

WT_TEST(test_B4_E9_a_use_gets_its_event_anew_if_a_capture_begins_at_its_free)
{
    enum { UP_TO_THE_EVENT = 2 };
    warm_stream named = WARM_STREAM_PER_THREAD;
    void *used, *from, *to;
    warm_graph graph = NULL;

    make_stream(true);
    if (!wt_on_host()) { /* streams are held where they are */
        wt_skip("needs the host device");
    }
    used = wt_pinned(runtime, 5000);
    from = wt_pinned(runtime, 64);
    to = wt_device(runtime, other, 64);
    wt_ok(warm_testing_hold(runtime, named));
    wt_ok(warm_testing_copy(runtime, to, from, 64, named));
    wt_ok(warm_record_stream(used, named));
    wt_ok(warm_testing_copy(runtime, to, from, 64, named));
    meet.ops.event_mark = mark_as_one_begins;
    runtime->driver->ops = &meet.ops;
    wt_ok(warm_free(used));
    runtime->driver->ops = meet.real;
    ck_assert(atomic_load(&meet.begun));
    wt_ok(warm_testing_step(runtime, named, UP_TO_THE_EVENT));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 1);
    wt_ok(wm_driver_capture_end(runtime->driver, named, &graph));
    wt_ok(wm_driver_graph_destroy(runtime->driver, graph));
    wt_ok(warm_testing_resume(runtime, named));
    wt_settle(runtime, named); /* records it */
    wt_settle(runtime, named);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    wt_free(from, to);
}

/* ---- what broke a capture ----------------------------------------------- */

static void query(void *argument, unsigned index)
{
    (void)argument;
    (void)index;
    (void)wm_driver_stream_query(runtime->driver, stream);
}

static void free_memory(void *argument, unsigned index)
{
    (void)index;
    wm_driver_break_begin();
    (void)wm_driver_device_free(runtime->driver, 0, argument);
    wm_driver_break_end();
}

static void ends_broken_by(const char *call)
{
    warm_graph graph = NULL;

    wt_fails(WARM_CAPTURE_ERROR, warm_capture_end(runtime, stream, &graph));
    wt_require(strstr(warm_last_error_message(), call) != NULL, "%s",
               warm_last_error_message());
}

WT_TEST(test_E7_end_of_a_broken_capture_says_which_call_it_was)
{
    void *memory = NULL;

    make_stream(true);
    wt_ok(wm_driver_device_alloc(runtime->driver, 0, 4096, &memory));
    wt_ok(warm_capture_begin(runtime, stream));
    query(NULL, 0);
    wt_threads(1, query, NULL); /* the first one counts */
    ends_broken_by("by stream_query of this thread");
    wt_ok(warm_capture_begin(runtime, stream));
    wt_threads(1, query, NULL);
    ends_broken_by("by stream_query of another thread");
    if (!wt_on_host()) {
        wt_ok(warm_capture_begin(runtime, stream));
        wt_threads(1, free_memory, memory);
        ends_broken_by("by cuMemFree_v2 of another thread");
    }
    wt_ok(warm_device_free_uncached(runtime, 0, memory));
}
