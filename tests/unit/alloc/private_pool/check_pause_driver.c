/* check_pause_driver.c: memory is paused on drivers that lack what that needs,
 * or fail in the middle (row C11). */
#include "alloc/kinds/device_space.h"
#include "alloc/space/space.h"

#include "wt.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

enum { FLAGS = WARM_POOL_USER | WARM_POOL_PAUSABLE };

static warm_runtime *runtime;
static warm_stream first, second;
static const wm_driver_ops *real;
static wm_driver_ops ops;
static warm_private_pool tag;
static unsigned tears; /* so many commits leave a part behind */

static warm_status no_unit(wm_driver *d, int device, size_t *bytes)
{
    *bytes = 0;
    return WARM_OK;
}

/* As a CUDA driver whose cuMemSetAccess() and cuMemUnmap() fail. */
static warm_status torn_commit(wm_driver *d, int device, void *range,
                               size_t bytes, bool *torn)
{
    warm_status status = real->range_commit(d, device, range, bytes, torn);

    if (status == WARM_OK && tears > 0) {
        tears--;
        *torn = true;
        return wm_fail(WARM_DRIVER_ERROR, "no access");
    }
    return status;
}

static void setup(void)
{
    runtime = wt_runtime_with(.host_memory = 256 * MIB, .segment = 2 * MIB,
                              .history = 512);
    first = wt_stream(runtime, 0);
    second = wt_stream(runtime, 0);
    real = runtime->driver->ops;
    ops = *real;
    ops.range_commit = torn_commit;
    runtime->driver->ops = &ops;
    tag = (warm_private_pool){0};
}

static void check(void)
{
    wt_ok(warm_testing_check(runtime, 0));
}

static void teardown(void)
{
    check();
    wt_stream_end(runtime, first);
    wt_stream_end(runtime, second);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static warm_device_stats stats_now(void)
{
    return wt_device_stats(runtime);
}

static uint64_t held_now(void)
{
    return stats_now().all.held_bytes.current;
}

/* By copies: the process may be unable to access memory of the device. */
static void fill(void *block, size_t bytes, char with)
{
    void *buffer = wt_pinned(runtime, bytes);

    memset(buffer, with, bytes);
    wt_ok(warm_copy_async(runtime, block, buffer, bytes, WARM_COPY_TO_DEVICE,
                          first));
    wt_ok(warm_free(buffer));
}

static void assert_filled(void *block, size_t bytes, char with)
{
    char *byte = wt_pinned(runtime, bytes);

    wt_ok(
        warm_copy_async(runtime, byte, block, bytes, WARM_COPY_TO_HOST, first));
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_require(byte[0] == with && byte[bytes / 2] == with &&
                   byte[bytes - 1] == with,
               "the block was overwritten");
    wt_ok(warm_free(byte));
}

static char *tagged(warm_stream stream, size_t bytes)
{
    char *block;

    wt_ok(warm_private_pool_begin(runtime, &tag, FLAGS, NULL, NULL));
    block = wt_device(runtime, stream, bytes);
    wt_ok(warm_private_pool_end(runtime, tag));
    return block;
}

static void release(unsigned times)
{
    while (times-- > 0) {
        wt_ok(warm_private_pool_release(runtime, tag));
    }
}

WT_CASE("pause", .setup = setup, .teardown = teardown);

WT_TEST(test_C11_without_virtual_memory_it_is_unsupported_and_nothing_changes)
{
    char *block;
    uint64_t held;

    ops.range_unit = no_unit;
    block = tagged(first, 3 * MIB);
    fill(block, 3 * MIB, 5);
    ck_assert(!wm_space_find(block)->segment->arena->ranged);
    held = held_now();
    wt_fails(WARM_UNSUPPORTED, warm_memory_pause(runtime, tag, 0));
    wt_says("device 0", "virtual memory");
    ck_assert_uint_eq(held_now(), held);
    ck_assert_uint_eq(stats_now().paused_bytes, 0);
    assert_filled(block, 3 * MIB, 5);
    wt_ok(warm_free(tagged(first, MIB))); /* allocations work on */
    wt_ok(warm_free(block));
    release(2);
}

/* A segment of which nobody knows whether it is mapped is unmapped first, when
 * the resume is repeated. */
WT_TEST(test_C11_a_torn_segment_is_mapped_by_a_later_resume)
{
    char *block = tagged(first, 6 * MIB);

    fill(block, 6 * MIB, 6);
    wt_ok(warm_memory_pause(runtime, tag, 0));
    tears = 2;
    for (int i = 0; i < 2; i++) {
        wt_fails(WARM_DRIVER_ERROR, warm_memory_resume(runtime, tag));
        ck_assert_uint_eq(stats_now().paused_bytes, 6 * MIB);
        ck_assert_uint_eq(held_now(), 0);
        check();
    }
    wt_ok(warm_memory_resume(runtime, tag));
    assert_filled(block, 6 * MIB, 6);
    wt_ok(warm_free(block));
    release(1);
}

/* What the driver does not take stays in the cache; and of a segment that
 * cannot be had nothing stays. */
WT_TEST(test_C8_C11_a_range_is_had_and_taken_whole)
{
    size_t released = 1;
    uint64_t calls;
    void *none = NULL;

    wt_ok(warm_free(tagged(first, 6 * MIB)));
    wt_settle(runtime, first);
    wt_ok(warm_testing_fail(runtime, "range_decommit", 1, 0));
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, 0);
    ck_assert_uint_eq(held_now(), 6 * MIB);
    check();
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, 6 * MIB);
    calls = wt_calls(runtime, "range_release");
    tears = 1; /* of the only commit */
    wt_ok(warm_private_pool_begin(runtime, &tag, FLAGS, NULL, NULL));
    wt_fails(WARM_DRIVER_ERROR,
             warm_device_alloc(runtime, 0, first, 6 * MIB, &none));
    ck_assert_uint_eq(wt_calls(runtime, "range_release"), calls + 1);
    wt_ok(warm_testing_fail(runtime, "range_reserve", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, first, 6 * MIB, &none));
    wt_ok(warm_testing_fail(runtime, "range_reserve", 0, 0));
    wt_ok(warm_private_pool_end(runtime, tag));
    ck_assert_uint_eq(held_now(), 0);
    check();
    release(2);
}

static void *in_log;

static void allocate(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    (void)warm_device_alloc(runtime, 0, first, 512 * MIB, &in_log);
}

/* If a line is logged while the segment is in flight, a log function that
 * allocates waits for its own thread. */
WT_TEST(test_C8_C11_G6_addresses_that_stay_reserved_stop_nobody)
{
    size_t released = 0;

    wt_ok(warm_free(tagged(first, 6 * MIB)));
    wt_settle(runtime, first);
    wt_ok(warm_testing_fail(runtime, "range_release", 1, 0));
    warm_log_set(allocate, NULL);
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(released, 6 * MIB);
    ck_assert_ptr_null(in_log);
    release(1);
}

/* Two streams' idle memory, freed while it is paused. */
WT_TEST(test_C11_idle_memory_of_several_streams_is_not_mapped_again)
{
    char *block[4];
    uint64_t commits;

    for (int i = 0; i < 4; i++) {
        block[i] = tagged(i % 2 == 0 ? first : second, 3 * MIB);
        fill(block[i], 3 * MIB, (char)i);
    }
    wt_ok(warm_memory_pause(runtime, tag, 0));
    wt_free(block[1], block[2]);
    wt_settle(runtime, first);
    wt_settle(runtime, second);
    check();
    commits = wt_calls(runtime, "range_commit");
    wt_ok(warm_memory_resume(runtime, tag));
    ck_assert_uint_lt(wt_calls(runtime, "range_commit") - commits, 5);
    ck_assert_uint_le(held_now(), 8 * MIB);
    check();
    assert_filled(block[0], 3 * MIB, 0);
    assert_filled(block[3], 3 * MIB, 3);
    block[1] = tagged(second, 5 * MIB);
    fill(block[1], 5 * MIB, 9);
    assert_filled(block[1], 5 * MIB, 9);
    wt_free(block[0], block[1], block[3]);
    release(5);
}

/* Idle memory of a pool that ended goes back, whichever stream had it: what is
 * idle when it ends, and what is freed later. */
WT_LOOP_TEST(test_C11_E3_a_pausable_pool_that_ends_leaves_nothing, 2)
{
    char *one = tagged(first, 3 * MIB), *other = tagged(second, 4 * MIB);
    bool later = _i == 1;

    fill(one, 3 * MIB, 1);
    fill(other, 4 * MIB, 2);
    wt_free(one, later ? NULL : other);
    wt_settle(runtime, first);
    wt_settle(runtime, second);
    ck_assert_uint_eq(held_now(), 8 * MIB);
    release(2); /* waits for the streams */
    if (later) {
        wt_ok(warm_free(other));
        wt_settle(runtime, first);
        wt_settle(runtime, second);
    }
    ck_assert_uint_eq(held_now(), 0);
}
