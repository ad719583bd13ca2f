/* check_grain.c: what is held of a device is what is gone of it (row C8): the
 * driver backs memory in grains of 2 MiB, and segments are whole ones. Alone on
 * a device, or its figures would be of others as well.
 */
/* backends: host standin */
#include "wt.h"

#include "alloc/block/page_map.h"
#include "alloc/kinds/device_space.h"
#include "runtime/driver/driver.h"
#include "runtime/runtime.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;
static size_t total, before; /* bytes; before: that were free */

static size_t free_now(void)
{
    size_t bytes = 0;

    wt_ok(wm_driver_device_memory(runtime->driver, 0, &bytes, &total));
    return bytes;
}

static size_t held_now(void)
{
    return wt_device_stats(runtime).all.held_bytes.current;
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    before = free_now();
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static const size_t size[] = {
    1,           700 << 10,      3 * MIB,      5 * MIB,
    5 * MIB + 1, 7 * MIB - 4096, 21 * MIB + 1, 33 * MIB};
enum { SIZES = sizeof size / sizeof size[0] };

WT_CASE("grain", .setup = setup, .teardown = teardown);

WT_TEST(test_C8_what_is_held_is_what_is_gone)
{
    void *block[SIZES];

    for (int i = 0; i < SIZES; i++) {
        block[i] = wt_device(runtime, stream, size[i]);
        ck_assert_uint_eq(held_now(), before - free_now());
        ck_assert_uint_eq(held_now() % (2 * MIB), 0);
        /* A large one has a segment of its own, but for a rest of a grain. */
        ck_assert(size[i] < 20 * MIB ||
                  wm_block_at(block[i])->segment->dedicated);
    }
    wt_free_all(block, SIZES);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(held_now(), before - free_now());
    ck_assert_uint_eq(held_now(), 0);
}

static const wm_driver_ops *real;
static void *odd;
static unsigned odd_freed;

static warm_status alloc_odd(wm_driver *d, int device, size_t bytes,
                             void **pointer)
{
    warm_status status = real->device_alloc(d, device, bytes, &odd);

    *pointer = (char *)odd + 1;
    return status;
}

static warm_status free_odd(wm_driver *d, int device, void *pointer)
{
    odd_freed++;
    return real->device_free(d, device, (char *)pointer - 1);
}

/* The free would break a capture. */
WT_LOOP_TEST(test_B7_C8_memory_that_starts_no_page_goes_back_or_is_leaked, 2)
{
    void *block = NULL;
    wm_driver_ops ops = *runtime->driver->ops;

    real = runtime->driver->ops;
    ops.device_alloc = alloc_odd;
    ops.device_free = free_odd;
    runtime->driver->ops = &ops;
    if (_i == 1) {
        wt_ok(warm_capture_announce(runtime, stream));
    }
    wt_fails(WARM_UNSUPPORTED,
             warm_device_alloc(runtime, 0, stream, 8 * MIB, &block));
    ck_assert_uint_eq(odd_freed, _i == 0);
    runtime->driver->ops = real;
    if (_i == 1) {
        wt_ok(warm_capture_announce_end(runtime, stream));
        wt_ok(real->device_free(runtime->driver, 0, odd));
    }
}

/* A limit serves all of it; a byte less a grain less. The device has a number
 * of bytes of which so small a part is exact. */
WT_LOOP_TEST(test_C8_fraction_is_exact_at_its_edge, 5)
{
    static const struct {
        size_t limit, blocks; /* of 2 MiB */
    } row[] = {{22 * MIB, 11},
               {22 * MIB - 1, 10},
               {22 * MIB + 1, 11},
               {2 * MIB, 1},
               {2 * MIB - 1, 0}};
    enum { MOST = 16 };
    void *block[MOST] = {NULL};
    size_t count = 0;

    wt_limit(runtime, (double)row[_i].limit);
    while (count < MOST && warm_device_alloc(runtime, 0, stream, 2 * MIB,
                                             &block[count]) == WARM_OK) {
        count++;
        ck_assert_uint_le(held_now(), row[_i].limit);
        ck_assert_uint_eq(held_now(), before - free_now());
    }
    ck_assert_uint_eq(count, row[_i].blocks);
    ck_assert_uint_eq(held_now(), row[_i].blocks * 2 * MIB);
    while (count > 0) {
        wt_ok(warm_free(block[--count]));
    }
}

/* Workspaces take their part of a limit: who is refused is told of them, and
 * where one goes there is room to try again. */
WT_TEST(test_C8_A12_refusal_tells_of_workspaces_below_the_limit)
{
    wm_growth *growth = &runtime->device_spaces[0].space.growth;
    void *block = NULL;
    uint64_t vacated;

    wt_limit(runtime, 10.0 * MIB);
    ck_assert(wm_device_space_claim(runtime, 0, 4 * MIB));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 8 * MIB, &block));
    wt_says("workspaces of handles and shared buffers have "
            "4.0 MiB of it");
    vacated = growth->vacated;
    wm_device_space_unclaim(runtime, 0, 4 * MIB);
    ck_assert_uint_gt(growth->vacated, vacated);
    wt_ok(warm_device_alloc(runtime, 0, stream, 8 * MIB, &block));
    wt_ok(warm_free(block));
}
