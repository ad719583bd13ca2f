/* check_capture_memory.c: no memory is returned to the driver, and no device is
 * waited for, while a stream captures without an announcement (rows B7, B11,
 * B12, C8): in CUDA these calls break the capture. On the host device they
 * break nothing, and are counted.
 *
 * backends: host standin */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/runtime.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream; /* captures; adopted at first */

static void setup_with(warm_options *options)
{
    options->size = sizeof *options;
    runtime = wt_runtime(options);
    wt_ok(warm_stream_create(runtime, 0, &stream));
}

static void setup(void)
{
    setup_with(&(warm_options){.pinned_high = 16 * MIB});
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

/* Not through the runtime, as a library would. */
static void begin(void)
{
    wt_ok(wm_driver_capture_begin(runtime->driver, stream));
}

static void end(void)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_end(runtime->driver, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Counts calls that would break a capture. */
static uint64_t breaking(void)
{
    static const char *const calls[] = {"pinned_free", "pinned_unregister",
                                        "device_free", "range_decommit",
                                        "device_synchronize"};
    uint64_t count = 0;

    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        count += wt_calls(runtime, calls[i]);
    }
    return count;
}

static uint64_t held(void)
{
    return wt_pinned_stats(runtime).held_bytes.current +
           wt_device_stats(runtime).all.held_bytes.current;
}

static void empty(void)
{
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
}

/* Leaves idle blocks of a stream, of a default stream, and of none. */
static void leave_idle(void)
{
    void *block[3] = {wt_pinned(runtime, 8 * MIB),
                      wt_device(runtime, NULL, 8 * MIB),
                      wt_device(runtime, stream, 4 * MIB)};

    wt_free_all(block, 3);
}

static void empty_elsewhere(void *argument, unsigned index)
{
    (void)argument;
    (void)index;
    (void)warm_pinned_trim(runtime, 0, NULL);
    (void)warm_device_trim(runtime, 0, 0, NULL);
    (void)warm_pinned_trim(runtime, MIB, NULL);
}

WT_CASE("any", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B7_B11_C8_memory_stays_while_a_stream_captures_unannounced, 2)
{
    uint64_t before, was;

    leave_idle();
    was = held();
    before = breaking();
    begin();
    if (_i == 0) {
        empty_elsewhere(NULL, 0);
    } else {
        wt_threads(2, empty_elsewhere, NULL);
    }
    ck_assert_uint_eq(breaking(), before);
    ck_assert_uint_eq(held(), was);
    end();
    empty();
    ck_assert_uint_gt(breaking(), before);
    ck_assert_uint_eq(held(), 0);
}

WT_TEST(test_B7_memory_stays_where_the_driver_does_not_say)
{
    uint64_t before;

    leave_idle();
    before = breaking();
    wt_ok(warm_testing_fail(runtime, "stream_capture", 1, 1));
    empty();
    ck_assert_uint_eq(breaking(), before);
    wt_ok(warm_testing_fail(runtime, "stream_capture", 0, 0));
    empty();
    ck_assert_uint_eq(held(), 0);
}

WT_CASE("segments", .setup = setup, .teardown = teardown);

/* Idle memory cannot make room: the message says so. */
WT_TEST(test_B7_B12_out_of_memory_says_what_cannot_go_back)
{
    void *block = NULL;

    leave_idle();
    begin();
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 12 * MIB, &block));
    wt_says("idle 8.0 MiB (which stays while a stream "
            "captures)");
    end();
    wt_ok(warm_pinned_alloc(runtime, 12 * MIB, &block));
    wt_ok(warm_free(block));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 64 * MIB, &block));
    ck_assert_ptr_null(strstr(warm_last_error_message(), "captures"));
}

/* A stream that is not adopted: the driver is asked when it is named. */
WT_TEST(test_B7_C2_allocation_on_a_stream_that_captures_gives_nothing_back)
{
    uint64_t before;
    void *block = NULL;

    leave_idle();
    wt_ok(warm_stream_retire(runtime, stream));
    before = breaking();
    begin();
    wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 32 * MIB, &block));
    wt_ok(warm_testing_fail(runtime, "device_alloc", 0, 0));
    ck_assert_uint_eq(breaking(), before);
    end();
}

/* Memory without a record, and memory that was never cached. */
WT_TEST(test_B7_memory_that_nobody_can_use_stays_while_a_stream_captures)
{
    void *block = NULL, *memory = NULL;
    uint64_t before;

    wt_ok(warm_device_alloc_uncached(runtime, 0, 4096, &memory));
    wt_ok(warm_capture_begin(runtime, stream));
    before = breaking();
    for (unsigned n = 1; n < 12; n++) { /* none fits what came before it */
        block = NULL;
        wm_meta_fail(n, true);
        (void)warm_device_alloc(runtime, 0, NULL, (8 + 2 * n) * MIB, &block);
        wm_meta_fail(0, false);
        wt_ok(warm_free(block));
    }
    wt_fails(WARM_CAPTURE_ERROR, warm_device_free_uncached(runtime, 0, memory));
    ck_assert_uint_eq(breaking(), before);
    end();
    wt_ok(warm_capture_announce_end(runtime, stream));
    wt_ok(warm_device_free_uncached(runtime, 0, memory));
}

/* ---- more streams than there is room for -------------------------------- */

enum { STREAMS = 40, MORE = 100 };

static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    warm_stream stream[STREAMS + MORE];
    unsigned count;
} crowd;

static void add_streams(unsigned count)
{
    while (count-- > 0) {
        wt_ok(warm_stream_create(runtime, 0, &crowd.stream[crowd.count++]));
    }
}

/* While the driver is asked about the first streams others are created. */
static warm_status add_meanwhile(wm_driver *d, warm_stream asked,
                                 wm_capture *capture)
{
    if (crowd.count == STREAMS) {
        add_streams(MORE);
    }
    return crowd.real->stream_capture(d, asked, capture);
}

WT_TEST(test_B7_C8_streams_that_come_meanwhile_are_asked_as_well)
{
    memset(&crowd, 0, sizeof crowd);
    crowd.real = runtime->driver->ops;
    crowd.ops = *crowd.real;
    crowd.ops.stream_capture = add_meanwhile;
    leave_idle();
    add_streams(STREAMS);
    runtime->driver->ops = &crowd.ops;
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    runtime->driver->ops = crowd.real;
    ck_assert_uint_eq(crowd.count, STREAMS + MORE);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_ok(warm_free(wt_pinned(runtime, 8 * MIB)));
    for (unsigned i = 0; i < crowd.count; i++) {
        warm_graph graph = NULL;

        wt_ok(wm_driver_capture_begin(runtime->driver, crowd.stream[i]));
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
        ck_assert_uint_gt(wt_pinned_stats(runtime).held_bytes.current, 0);
        wt_ok(wm_driver_capture_end(runtime->driver, crowd.stream[i], &graph));
        wt_ok(warm_graph_destroy(runtime, graph));
    }
    while (crowd.count > 0) {
        wt_ok(warm_stream_destroy(runtime, crowd.stream[--crowd.count]));
    }
}

/* ---- a capture that is announced meanwhile ------------------------------- */

static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    warm_status status; /* of the thread that captures */
    _Atomic bool inside, begun, broken;
    warm_private_pool pool;
} meet;

/* The test replaces functions of meet.ops. */
static void intercept(void)
{
    memset(&meet, 0, sizeof meet);
    meet.real = runtime->driver->ops;
    meet.ops = *meet.real;
    runtime->driver->ops = &meet.ops;
}

static warm_status linger_in_free(wm_driver *d, void *pointer, size_t bytes)
{
    wt_linger linger = {0};

    atomic_store(&meet.inside, true);
    while (!atomic_load(&meet.begun) && wt_lingers(&linger)) {
    }
    atomic_store(&meet.broken, atomic_load(&meet.begun));
    return meet.real->pinned_free(d, pointer, bytes);
}

enum { CAPTURE, POOL, ANNOUNCE }; /* what thread 1 begins */

/* Thread 0 returns memory, thread 1 begins to capture, as *argument says. */
static void give_back_or_capture(void *argument, unsigned index)
{
    warm_graph graph = NULL;
    const int *way = argument;

    if (index == 0) {
        (void)warm_pinned_trim(runtime, 0, NULL);
        return;
    }
    while (!atomic_load(&meet.inside)) {
        sched_yield();
    }
    meet.status = *way == CAPTURE ? warm_capture_begin(runtime, stream)
                  : *way == POOL  ? warm_private_pool_begin(runtime, &meet.pool,
                                                            0, NULL, NULL)
                                  : warm_capture_announce(runtime, stream);
    atomic_store(&meet.begun, true);
    if (meet.status == WARM_OK && *way == CAPTURE) {
        meet.status = warm_capture_end(runtime, stream, &graph);
        (void)warm_graph_destroy(runtime, graph);
    }
}

WT_LOOP_TEST(test_B7_E1_announced_capture_waits_for_memory_that_goes_back, 2)
{
    leave_idle();
    intercept();
    meet.ops.pinned_free = linger_in_free;
    runtime->driver->breaks_captures = true; /* the host device, too */
    wt_threads(2, give_back_or_capture, &(int){_i});
    runtime->driver->ops = meet.real;
    wt_ok(meet.status);
    ck_assert(meet.begun && !meet.broken);
    if (_i == POOL) {
        wt_ok(warm_private_pool_end(runtime, meet.pool));
        wt_ok(warm_private_pool_release(runtime, meet.pool));
    }
}

/* A driver function may log. */
static warm_status log_in_free(wm_driver *d, void *pointer, size_t bytes)
{
    wm_log(WARM_LOG_WARNING, "memory goes back");
    return meet.real->pinned_free(d, pointer, bytes);
}

/* The program's log waits for a lock of the thread that captures. */
static void hear(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    if (strcmp(line, "memory goes back") == 0) {
        atomic_store(&meet.inside, true);
        while (!atomic_load(&meet.begun)) {
            sched_yield();
        }
    }
}

/* The capture has begun then: no more memory is returned. */
WT_TEST(test_B7_announced_capture_does_not_wait_for_a_callback)
{
    void *other = wt_pinned(runtime, 2 * MIB);
    uint64_t before;

    leave_idle();
    wt_ok(warm_free(other));
    intercept();
    meet.ops.pinned_free = log_in_free;
    runtime->driver->breaks_captures = true;
    warm_log_set(hear, NULL);
    before = wt_calls(runtime, "pinned_free");
    wt_threads(2, give_back_or_capture, &(int){ANNOUNCE});
    wt_ok(meet.status);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_free"), before + 1);
    ck_assert_uint_gt(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_ok(warm_capture_announce_end(runtime, stream));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    warm_log_set(NULL, NULL);
    runtime->driver->ops = meet.real;
}

/* A free while a stream captures finds out that it does. */
WT_TEST(test_B7_E9_capture_that_a_free_has_met_is_known)
{
    void *block = wt_pinned(runtime, 4096);
    uint64_t before;

    leave_idle();
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_record_stream(block, stream));
    begin();
    wt_ok(warm_free(block));
    before = breaking();
    empty();
    ck_assert_uint_eq(breaking(), before);
    end();
    wt_ok(warm_poll(runtime));
    wt_ok(warm_poll(runtime));
    empty();
    ck_assert_uint_eq(held(), 0);
}

static void *in_mark; /* to be freed in a capture that begins right then */

static warm_status mark_then_begin(wm_driver *d, warm_event event,
                                   warm_stream on, wm_capture *capture)
{
    warm_status status = meet.real->event_mark(d, event, on, capture);
    void *block = in_mark;

    in_mark = NULL;
    if (block != NULL) {
        begin();
        wt_ok(warm_free(block));
    }
    return status;
}

/* While a poll records the event of blocks that an earlier capture held up. */
WT_TEST(test_B7_E9_capture_that_a_free_has_met_during_a_poll_is_known)
{
    void *block[2] = {wt_pinned(runtime, 4096), wt_pinned(runtime, 4096)};
    uint64_t before;

    leave_idle();
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_record_stream(block[0], stream));
    wt_ok(warm_record_stream(block[1], stream));
    begin();
    wt_ok(warm_free(block[0]));
    end();
    intercept();
    meet.ops.event_mark = mark_then_begin;
    in_mark = block[1];
    wt_ok(warm_poll(runtime));
    runtime->driver->ops = meet.real;
    ck_assert_ptr_null(in_mark);
    before = breaking();
    empty();
    ck_assert_uint_eq(breaking(), before);
    end();
    wt_ok(warm_poll(runtime));
    wt_ok(warm_poll(runtime));
    empty();
    ck_assert_uint_eq(held(), 0);
}

/* A stream that was destroyed without a retire holds nothing up. */
WT_TEST(test_B7_stream_that_is_gone_captures_nothing)
{
    warm_stream brief;

    if (wt_on_gpu()) {
        wt_skip("not on a GPU"); /* it must not be named there */
    }
    wt_ok(warm_stream_create(runtime, 0, &brief));
    wt_ok(wm_driver_stream_destroy(runtime->driver, brief));
    leave_idle();
    empty();
    ck_assert_uint_eq(held(), 0);
}
