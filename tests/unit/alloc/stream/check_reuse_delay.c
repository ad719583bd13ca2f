/* check_reuse_delay.c: the histogram of the time from a free until the stream
 * that used the block has completed its work (row G7). Host device. */
/* memcheck: one process */
#include "wt.h"

#include <stdatomic.h>

static warm_runtime *runtime;
static warm_stream stream;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    stream = wt_stream(runtime, 0);
}

static void teardown(void)
{
    warm_testing_set_clock(NULL);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

WT_CASE("delays", .setup = setup, .teardown = teardown);

/* Times of which the first is sampled and the second is not. */
enum { SAMPLED = 1 << 30, PASSED_OVER = SAMPLED + 1024, DELAY = 5000000 };

/* Relaxed: the tests' thread writes it; any thread reads some value. */
static _Atomic uint64_t clock_now;

static uint64_t read_clock(void)
{
    return atomic_load_explicit(&clock_now, memory_order_relaxed);
}

/* A block that a stream uses is freed at a time, and DELAY later the stream has
 * completed its work. */
static void free_and_complete(uint64_t at)
{
    void *block = wt_pinned(runtime, 70000);

    atomic_store_explicit(&clock_now, at, memory_order_relaxed);
    wt_stop(runtime, stream);
    wt_free_used(block, stream);
    atomic_store_explicit(&clock_now, at + DELAY, memory_order_relaxed);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
}

WT_TEST(test_G7_delay_of_reuse_is_sampled)
{
    warm_space_histograms times = WARM_INIT(warm_space_histograms);

    warm_testing_set_clock(read_clock);
    atomic_store_explicit(&clock_now, SAMPLED, memory_order_relaxed);
    wt_ok(warm_pinned_reset_totals(runtime));
    free_and_complete(SAMPLED);
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_eq(times.reuse_delay.count, 1);
    ck_assert_uint_eq(times.reuse_delay.total_ns, DELAY);
    free_and_complete(PASSED_OVER + UINT64_C(2) * SAMPLED);
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_eq(times.reuse_delay.count, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
}

/* Several closed batches that leave their thread. */
WT_TEST(test_G7_delay_of_closed_batches_is_sampled)
{
    warm_space_histograms times = WARM_INIT(warm_space_histograms);

    warm_testing_set_clock(read_clock);
    atomic_store_explicit(&clock_now, SAMPLED, memory_order_relaxed);
    wt_ok(warm_pinned_reset_totals(runtime));
    wt_stop(runtime, stream);
    for (int i = 0; i < 200; i++) {
        wt_free_used(wt_pinned(runtime, 3000), stream);
    }
    atomic_store_explicit(&clock_now, SAMPLED + DELAY, memory_order_relaxed);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_ge(times.reuse_delay.count, 2);
    ck_assert_uint_le(times.reuse_delay.count, 200);
    ck_assert_uint_eq(times.reuse_delay.total_ns,
                      times.reuse_delay.count * DELAY);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
}
