/* check_pinned.c: what only pinned memory does, through public headers and on
 * every backend; check_spaces.c has what all memory does. */
#include "wt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 100000 };

static warm_runtime *runtime;
static warm_stream stream, other;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    stream = wt_stream(runtime, 0);
    other = wt_stream(runtime, 0);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_stream_end(runtime, other);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

WT_CASE("pinned", .setup = setup, .teardown = teardown);

WT_TEST(test_B8_odd_sizes_are_held_as_asked)
{
    /* 20.4 GiB, scaled to a machine of any size: a 1024th, and one byte. */
    size_t bytes = (size_t)(20.4 * 1024 * 1024) + 1;
    void *block = take(bytes);
    warm_space_stats stats = wt_pinned_stats(runtime);

    ck_assert_uint_ge(stats.held_bytes.current, bytes);
    ck_assert_uint_lt(stats.held_bytes.current,
                      bytes + (size_t)sysconf(_SC_PAGESIZE));
    ck_assert_uint_eq(stats.requested_bytes.current, bytes);
    wt_ok(warm_free(block));
}

WT_TEST(test_B14_classes_sum_to_the_whole)
{
    void *block[20];
    uint64_t requests = 0, requested = 0, handed = 0;
    warm_space_stats all;

    for (int i = 0; i < 20; i++) {
        block[i] = take((size_t)300 << i);
    }
    for (int i = 0; i < warm_pinned_class_count(); i++) {
        warm_class_stats c = WARM_INIT(warm_class_stats);

        wt_ok(warm_pinned_get_class_stats(runtime, i, &c));
        requests += c.live.current;
        requested += c.requested_bytes.current;
        handed += c.live_bytes.current;
    }
    all = wt_pinned_stats(runtime);
    ck_assert_uint_eq(requests, all.live.current);
    ck_assert_uint_eq(requested, all.requested_bytes.current);
    ck_assert_uint_eq(handed, all.live_bytes.current);
    wt_free_all(block, 20);
}

/* ---- frees by host functions, in which no driver may be called ----------- */

static _Atomic unsigned refused;

static void give_back(void *block)
{
    refused += warm_free(block) != WARM_OK;
}

/* They end by themselves, and serve again. */
WT_TEST(test_B2_B7_host_functions_free_what_their_stream_used)
{
    enum { ROUNDS = 400, EVERY = 50 };
    void *device = wt_device(runtime, stream, SIZE);

    refused = 0;
    for (int i = 1; i <= ROUNDS; i++) {
        void *block = take(4000);

        wt_ok(warm_copy_async(runtime, device, block, 4000, WARM_COPY_TO_DEVICE,
                              stream));
        wt_ok(warm_stream_host_func(runtime, stream, give_back, block));
        if (i % EVERY == 0) {
            wt_ok(warm_stream_synchronize(runtime, stream));
        }
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.allocated, 1);
    wt_ok(warm_testing_check(runtime, 1));
    wt_free(device);
}

/* While the main thread's frees return memory at once, and its requests are at
 * the limit: nothing hangs, and what they free serves. */
WT_TEST(test_B11_B12_host_functions_free_while_memory_is_returned)
{
    enum { STREAMS = 4, ROUNDS = 40 };
    warm_runtime *small =
        wt_runtime_with(.decay_ms = 1, .segment = 1 << 20,
                        .pinned_high = 16 << 20, .limit_wait_ms = 60000);
    warm_stream streams[STREAMS];

    refused = 0;
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = wt_stream(small, 0);
    }
    for (int i = 0; i < STREAMS * ROUNDS; i++) {
        warm_stream one = streams[i % STREAMS];
        void *block = NULL;

        wt_ok(warm_pinned_alloc(small, (size_t)(1 + i % 3) << 20, &block));
        wt_ok(warm_record_stream(block, one));
        if (i / STREAMS % 2 == 0) {
            wt_ok(warm_stream_host_func(small, one, give_back, block));
            wt_ok(warm_stream_synchronize(small, one));
        } else {
            wt_ok(warm_free(block));
        }
        wt_ok(warm_poll(small));
    }
    for (int i = 0; i < STREAMS; i++) {
        wt_stream_end(small, streams[i]);
    }
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_eq(wt_pinned_stats(small).live.current, 0);
    wt_ok(warm_testing_check(small, 1));
    wt_runtime_end(small);
}

/* The commonest mistake: free right after queueing the copy. */
WT_TEST(test_B16_copy_keeps_its_buffer_until_it_has_run)
{
    unsigned char *out = take(SIZE);
    unsigned char *in, *thief;
    void *device = NULL;
    wt_gate *gate;

    wt_ok(warm_device_alloc_uncached(runtime, 0, SIZE, &device));
    memset(out, 7, SIZE);
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_copy_async(runtime, device, out, SIZE, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_free(out));
    thief = take(SIZE);
    ck_assert_ptr_ne(thief, out);
    memset(thief, 9, SIZE);
    in = take(SIZE);
    memset(in, 0, SIZE);
    wt_ok(
        warm_copy_async(runtime, in, device, SIZE, WARM_COPY_TO_HOST, stream));
    ck_assert_uint_eq(wt_block_info(in).streams, 1);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    for (int i = 0; i < SIZE; i++) {
        wt_require(in[i] == 7, "byte %d is %d", i, in[i]);
    }
    wt_free(in, thief);
    wt_settle(runtime, stream);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
}

/* One end is good, the other is not: neither block has a use then. */
WT_TEST(test_B16_copy_refused_for_one_end_records_on_neither)
{
    char *from = take(SIZE);
    char *to = take(SIZE);

    wt_invalid(warm_copy_async(runtime, to + 10000, from, SIZE,
                               WARM_COPY_TO_HOST, stream));
    wt_invalid(warm_copy_async(runtime, to, from + 10000, SIZE,
                               WARM_COPY_TO_HOST, stream));
    wt_ok(warm_copy_async(runtime, to, from, 0, WARM_COPY_TO_HOST, stream));
    ck_assert_uint_eq(wt_block_info(from).streams, 0);
    ck_assert_uint_eq(wt_block_info(to).streams, 0);
    wt_free(from, to);
}

WT_TEST(test_B12_G6_capture_mode_that_fails_does_not_hide_the_reason)
{
    warm_runtime *r = wt_runtime_with(.pinned_high = 1 << 20);
    warm_error error = WARM_INIT(warm_error);
    void *pointer = NULL;

    wt_ok(warm_testing_fail(r, "capture_mode", 2, 0));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(r, 2 << 20, &pointer));
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_OUT_OF_MEMORY);
    wt_contains(error.message, "2.0 MiB");
    wt_ok(warm_testing_fail(r, "capture_mode", 0, 0));
    wt_runtime_end(r);
}
