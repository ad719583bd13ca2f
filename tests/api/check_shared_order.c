/* check_shared_order.c: if a device is full, a stream is made to wait for other
 * streams and gets their idle memory (rows C1, C2), on every backend. */
/* memcheck: one process */
#include "wt_order.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *pattern(int byte)
{
    void *source = wt_pinned(runtime, BLOCK);

    memset(source, byte, BLOCK);
    return source;
}

/* Queues a write of the whole block. */
static void write_block(void *block, int byte, warm_stream stream)
{
    void *source = pattern(byte);

    wt_ok(warm_copy_async(runtime, block, source, BLOCK, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_free(source));
}

static void begin(const char *stream_wait, uint64_t slack)
{
    wt_order_begin((warm_options){.stream_wait = stream_wait, .slack = slack});
    write_block(idle, 1, first);
    wt_ok(warm_free(idle));
}

static void setup(void)
{
    begin(NULL, 0);
    wt_order_limit();
}

static void teardown(void)
{
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_stream_synchronize(runtime, second));
    wt_ok(warm_free(kept));
    wt_ok(warm_stream_destroy(runtime, first));
    wt_ok(warm_stream_destroy(runtime, second));
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static warm_status try(void **block)
{
    return warm_device_alloc(runtime, 0, second, BLOCK, block);
}

static void refused(void)
{
    void *block = &block;

    wt_fails(WARM_OUT_OF_MEMORY, try(&block));
    ck_assert_ptr_eq(block, &block);
}

WT_CASE("shared_order", .setup = setup, .teardown = teardown);

/* What the second stream writes comes after what the first one does, though
 * that has not begun; no thread waits. */
WT_TEST(test_C1_C2_a_stream_waits_for_another_one_before_memory_runs_out)
{
    unsigned char *copy = pattern(0);
    wt_linger linger = {0};
    void *block = NULL;

    wt_ok(try(&block));
    ck_assert_ptr_eq(block, idle);
    write_block(block, 2, second);
    wt_ok(warm_copy_async(runtime, copy, block, BLOCK, WARM_COPY_TO_HOST,
                          second));
    while (wt_lingers(&linger)) {
        ck_assert_int_eq(warm_stream_query(runtime, second), WARM_NOT_READY);
    }
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, second));
    wt_ok(warm_stream_synchronize(runtime, first));
    for (size_t i = 0; i < BLOCK; i++) {
        wt_require(copy[i] == 2, "byte %zu is %d", i, copy[i]);
    }
    wt_free(copy, block);
}

static warm_status try_part(warm_stream stream, void **block)
{
    return warm_device_alloc(runtime, 0, stream, BLOCK / 4 * 3, block);
}

/* It is the second one's then, and nobody else's before that has passed: not
 * even the rest of it with what is anybody's beside. */
WT_TEST(test_C1_what_was_waited_for_is_in_the_order_of_who_waited)
{
    void *block = NULL, *other = NULL;
    warm_stream third;

    wt_ok(try_part(second, &block));
    ck_assert_int_eq(try_part(WARM_STREAM_LEGACY, &other), WARM_OUT_OF_MEMORY);
    wt_ok(warm_free(block));
    ck_assert_int_eq(try_part(WARM_STREAM_LEGACY, &other), WARM_OUT_OF_MEMORY);
    wt_ok(try(&other));
    ck_assert_ptr_eq(other, block);
    wt_ok(warm_free(other));
    wt_gate_open(gate);
    wt_settle(runtime, second);
    third = wt_stream(runtime, 0);
    other = wt_device(runtime, third, BLOCK);
    ck_assert_ptr_eq(other, block);
    wt_ok(warm_free(other));
    wt_ok(warm_stream_destroy(runtime, third));
}

/* The second stream has been asked how far it is before it waits: that it has
 * come so far does not tell that it has waited. */
WT_TEST(test_C1_what_was_waited_for_comes_after_earlier_marks)
{
    void *block = NULL, *other = NULL;
    wt_linger linger = {0};
    wt_gate *own;

    if (!wt_on_host()) { /* one thread runs the functions of all streams */
        wt_gate_open(gate);
        return;
    }
    own = wt_gate_hold(runtime, second);
    for (int i = 0; i < 20; i++) {
        block = wt_device(runtime, second, 2 * MIB);
        wt_ok(warm_free(block));
    }
    ck_assert_int_eq(try_part(WARM_STREAM_LEGACY, &other), WARM_OUT_OF_MEMORY);
    wt_ok(try_part(second, &block));
    wt_gate_open(own);
    while (wt_lingers(&linger)) {
        wt_ok(warm_poll(runtime));
        ck_assert_int_eq(try_part(WARM_STREAM_LEGACY, &other),
                         WARM_OUT_OF_MEMORY);
    }
    wt_ok(warm_free(block));
    wt_gate_open(gate);
}

/* Nobody knows whether it is still there. */
WT_TEST(test_C2_no_stream_waits_for_one_that_is_not_adopted)
{
    void *block;

    wt_gate_open(gate);
    wt_ok(warm_stream_retire(runtime, first));
    wt_settle(runtime, first);
    block = wt_device(runtime, first, BLOCK);
    wt_ok(warm_free(block));
    refused();
}

/* Nor may a graph come to depend on what is outside of it, or be spoilt. */
WT_TEST(test_C2_no_stream_waits_for_one_that_captures)
{
    void *block;

    wt_ok(warm_capture_begin(runtime, second));
    refused();
    wt_capture_drop(runtime, second);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, first));
    block = wt_device(runtime, first, BLOCK);
    wt_ok(warm_free(block));
    wt_ok(warm_capture_begin(runtime, first));
    refused();
    wt_capture_drop(runtime, first);
    wt_ok(try(&block));
    wt_ok(warm_free(block));
}

/* A call of the driver that fails leaves all as it was. */
WT_LOOP_TEST(test_C2_a_wait_that_fails_changes_nothing, 2)
{
    static const char *const calls[] = {"stream_capture", "stream_wait_event"};
    void *block = NULL;

    wt_ok(warm_testing_fail(runtime, calls[_i], 1, 1));
    refused();
    wt_ok(warm_testing_fail(runtime, calls[_i], 0, 0));
    ck_assert_int_eq(warm_stream_query(runtime, second), WARM_OK);
    wt_ok(try(&block));
    ck_assert_ptr_eq(block, idle);
    ck_assert_int_eq(warm_stream_query(runtime, second), WARM_NOT_READY);
    wt_ok(warm_free(block));
    wt_gate_open(gate);
}

static uint64_t segments(void)
{
    return wt_device_stats(runtime).all.segments.current;
}

WT_CASE("growing", .teardown = teardown);

/* Slack with which another segment is above the bound, and within it. */
enum { ABOVE = 1, WITHIN = 1000 };

/* Above the bound a stream waits before there is another segment, unless the
 * option forbids it. */
WT_LOOP_TEST(test_C1_B25_streams_wait_for_each_other_above_the_bound, 2)
{
    bool off = _i == 1;
    void *block = NULL;

    begin(off ? "off" : "short", ABOVE);
    wt_ok(try(&block));
    ck_assert_uint_eq(segments(), off ? 2 : 1);
    ck_assert_int_eq(warm_stream_query(runtime, second),
                     off ? WARM_OK : WARM_NOT_READY);
    wt_gate_open(gate);
    wt_free(block);
}

/* What one stream left is then put together with what is anybody's. */
WT_TEST(test_C1_B25_what_is_waited_for_above_the_bound_may_be_a_part)
{
    void *large;

    begin(NULL, ABOVE);
    large = wt_device(runtime, second, BLOCK + MIB);
    ck_assert_uint_eq(segments(), 1);
    ck_assert_int_eq(warm_stream_query(runtime, second), WARM_NOT_READY);
    wt_gate_open(gate);
    wt_free(large);
}

/* Within the bound no stream waits. */
WT_TEST(test_C1_no_stream_waits_within_the_bound)
{
    void *block = NULL;

    begin(NULL, WITHIN);
    wt_ok(try(&block));
    ck_assert_ptr_ne(block, idle);
    ck_assert_uint_eq(segments(), 2);
    ck_assert_int_eq(warm_stream_query(runtime, second), WARM_OK);
    wt_gate_open(gate);
    wt_free(block);
}
