/* check_pageable.c: pageable memory, for requests with WARM_ALLOC_PAGEABLE_OK
 * and no others (row B18). Page-locking is made to fail. */
/* memcheck: one process */
#include "wt.h"
#include "wt_short.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIZE = 100000, OK = WARM_ALLOC_PAGEABLE_OK };
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream, other;

static void begin(warm_options *options)
{
    options->size = sizeof *options;
    options->segment = MIB;
    runtime = wt_runtime(options);
    stream = wt_stream(runtime, 0);
    other = wt_stream(runtime, 0);
}

static void setup(void)
{
    warm_options options = {0};

    begin(&options);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_stream_end(runtime, other);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

/* Page-locked memory cannot be had any more, or again. */
static void dry(bool on)
{
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", on, 1));
    wt_ok(warm_testing_fail(runtime, "pinned_register", on, 1));
}

static warm_status try(size_t bytes, unsigned flags, void **pointer)
{
    return warm_pinned_alloc_on(runtime, bytes, WARM_NODE_ANY, flags, pointer);
}

static void *take(size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try(bytes, OK, &pointer));
    ck_assert_ptr_nonnull(pointer);
    memset(pointer, 7, bytes);
    return pointer;
}

/* Whether the page of an address is still there. */
static bool is_mapped(void *address)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char resident;

    return mincore((void *)((uintptr_t)address & ~(page - 1)), page,
                   &resident) == 0 ||
           errno != ENOMEM;
}

WT_CASE("asked", .setup = setup, .teardown = teardown);

/* ---- only where it was asked for -------------------------------------- */

WT_TEST(test_B18_without_the_flag_it_is_an_error)
{
    void *pointer = &pointer;

    dry(true);
    wt_fails(WARM_OUT_OF_MEMORY, try(SIZE, 0, &pointer));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, SIZE, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable.allocated, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 2);
}

WT_TEST(test_B18_with_the_flag_page_locked_memory_comes_first)
{
    void *block = take(SIZE), *again;

    ck_assert_int_eq(wt_block_info(block).pageable, 0);
    ck_assert_int_eq(wt_block_info(block).node, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable.allocated, 0);
    /* And what is idle in the cache, when nothing can be obtained. */
    dry(true);
    wt_ok(warm_free(block));
    again = take(SIZE);
    ck_assert_ptr_eq(again, block);
    ck_assert_int_eq(wt_block_info(again).pageable, 0);
    wt_ok(warm_free(again));
    /* Memory of a device is of no node, and not pageable either. */
    block = wt_device(runtime, stream, SIZE);
    ck_assert_int_eq(wt_block_info(block).pageable, 0);
    wt_ok(warm_free(block));
}

static const size_t sizes[] = {1, 700, 6000, SIZE, 5 * MIB + 1};

WT_LOOP_TEST(test_B18_pageable_memory_is_visible,
             sizeof sizes / sizeof sizes[0])
{
    size_t bytes = sizes[_i];
    warm_space_stats stats;
    char *block;

    dry(true);
    block = take(bytes);
    ck_assert_int_eq(wt_block_info(block).pageable, 1);
    ck_assert_int_eq(wt_block_info(block).node, -1);
    ck_assert_ptr_eq(wt_block_info(block + bytes - 1).base, block);
    ck_assert_uint_eq(wt_block_info(block).requested, bytes);
    ck_assert_uint_eq((uintptr_t)block % 512, 0);
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.pageable.current, 1);
    ck_assert_uint_eq(stats.pageable_bytes.current, wt_block_info(block).bytes);
    ck_assert_uint_ge(stats.pageable_held.current,
                      stats.pageable_bytes.current);
    /* Nowhere among page-locked memory, and not a failure. */
    ck_assert_uint_eq(stats.live.allocated, 0);
    ck_assert_uint_eq(stats.held_bytes.allocated, 0);
    ck_assert_uint_eq(stats.failures, 0);
    wt_ok(warm_free(block));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.pageable.current, 0);
    ck_assert_uint_eq(stats.pageable.peak, 1);
    ck_assert_uint_eq(stats.pageable.freed, 1);
    ck_assert_uint_eq(stats.pageable_bytes.current, 0);
    ck_assert_uint_eq(stats.pageable_held.current, 0);
    ck_assert_uint_eq(stats.pageable_held.freed, stats.pageable_held.peak);
    ck_assert(!is_mapped(block));
    wt_ok(warm_pinned_reset_peaks(runtime));
    wt_ok(warm_pinned_reset_totals(runtime));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.pageable.peak + stats.pageable.allocated, 0);
}

static uint64_t driver_calls(void)
{
    uint64_t alloc = wt_calls(runtime, "pinned_alloc");
    uint64_t place = wt_calls(runtime, "pinned_register");

    return alloc + place;
}

WT_TEST(test_B18_driver_that_has_none_is_asked_now_and_then)
{
    enum { COUNT = 300, AGAIN = 64 };
    uint64_t first, all;
    int asked = 0, pageable;
    void *block;

    dry(true);
    first = driver_calls();
    wt_ok(warm_free(take(SIZE)));
    first = driver_calls() - first;
    all = driver_calls();
    for (int i = 0; i < COUNT; i++) {
        block = take(SIZE);
        ck_assert_int_eq(wt_block_info(block).pageable, 1);
        wt_ok(warm_free(block));
    }
    all = driver_calls() - all;
    ck_assert_uint_gt(all, 0);
    ck_assert_uint_le(all, 10 * first);
    /* Those without the flag ask. */
    wt_fails(WARM_OUT_OF_MEMORY, try(SIZE, 0, &block));
    dry(false);
    do {
        block = take(SIZE);
        pageable = wt_block_info(block).pageable;
        wt_ok(warm_free(block));
    } while (pageable && ++asked < AGAIN);
    ck_assert_int_eq(pageable, 0);
}

WT_TEST(test_B18_page_locked_again_once_memory_has_gone_back)
{
    void *first, *second;

    dry(true);
    first = take(SIZE);
    dry(false);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    second = take(SIZE);
    ck_assert_int_eq(wt_block_info(first).pageable, 1);
    ck_assert_int_eq(wt_block_info(second).pageable, 0);
    wt_free(first, second);
    /* What was pageable is not in the cache. */
    second = take(SIZE);
    ck_assert_int_eq(wt_block_info(second).pageable, 0);
    wt_ok(warm_free(second));
}

WT_TEST(test_B18_limit_is_a_reason_too)
{
    warm_options options = {.pinned_high = 4 * MIB};
    void *locked, *pageable;

    teardown();
    begin(&options);
    locked = take(3 * MIB);
    pageable = take(3 * MIB);
    ck_assert_int_eq(wt_block_info(locked).pageable, 0);
    ck_assert_int_eq(wt_block_info(pageable).pageable, 1);
    ck_assert_uint_le(wt_pinned_stats(runtime).held_bytes.current, 4 * MIB);
    wt_free(locked, pageable);
}

/* It is ours, and costs nothing to ask about: nobody is left alone for it. */
WT_TEST(test_B18_limit_with_room_again_is_seen_at_once)
{
    warm_options options = {.pinned_high = 8 * MIB};
    void *first, *second, *block;

    teardown();
    begin(&options);
    first = take(4 * MIB);
    second = take(4 * MIB);
    block = take(2 * MIB);
    ck_assert_int_eq(wt_block_info(block).pageable, 1);
    wt_free(block, first, second);
    block = take(6 * MIB);
    ck_assert_int_eq(wt_block_info(block).pageable, 0);
    wt_ok(warm_free(block));
}

/* While the driver is left alone, too. */
WT_TEST(test_B10_B18_what_streams_have_passed_is_page_locked)
{
    warm_options options = {.decay_ms = 1000000, .background = "off"};
    void *locked, *pageable;

    teardown();
    begin(&options);
    locked = take(3 * MIB);
    dry(true);
    pageable = take(3 * MIB);
    ck_assert_int_eq(wt_block_info(pageable).pageable, 1);
    wt_free_used(locked, stream);
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_ptr_eq(take(3 * MIB), locked);
    wt_free(locked, pageable);
    dry(false);
}

WT_TEST(test_B15_B18_full_node_is_a_reason_too)
{
    warm_options options = {.pinned_high = 4 * MIB, .test = "numa_nodes=2"};
    void *locked = NULL, *pageable = NULL;

    teardown();
    begin(&options);
    wt_ok(warm_pinned_alloc_on(runtime, 4 * MIB, 0, OK, &locked));
    wt_ok(warm_pinned_alloc_on(runtime, SIZE, 1, OK, &pageable));
    ck_assert_int_eq(wt_block_info(locked).node, 0);
    ck_assert_int_eq(wt_block_info(pageable).pageable, 1);
    ck_assert_int_eq(wt_block_info(pageable).node, -1);
    wt_free(locked, pageable);
}

static int count_calls(void *context, size_t bytes)
{
    *(size_t *)context += bytes;
    return 0;
}

WT_TEST(test_B12_B18_everything_else_is_tried_before)
{
    size_t asked = 0;
    void *idle = take(3 * MIB), *block;

    wt_ok(warm_free(idle));
    wt_ok(wt_short_add(runtime, count_calls, &asked));
    dry(true);
    block = take(5 * MIB);
    ck_assert_int_eq(wt_block_info(block).pageable, 1);
    ck_assert_uint_eq(asked, 5 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    wt_ok(warm_free(block));
}

/* No machine has that much of either; but some kernels promise any amount of
 * what is not page-locked, unless a limit says otherwise. */
WT_TEST(test_B18_without_any_memory_the_error_is_that_of_page_locked)
{
    void *pointer = &pointer, *block = take(SIZE);
    warm_error error = WARM_INIT(warm_error);
    struct rlimit before, limit;

    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 45;
    if (!WT_TSAN) { /* which needs more addresses than that */
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    }
    wt_fails(WARM_OUT_OF_MEMORY, try((size_t)1 << 46, OK, &pointer));
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_ptr_eq(pointer, &pointer);
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_OUT_OF_MEMORY);
    wt_contains(error.message, "requested 64.0 TiB of pinned memory",
                "held 1.0 MiB");
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable.allocated, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_held.current, 0);
    wt_ok(warm_free(block));
}

WT_TEST(test_G6_B18_what_was_recovered_from_leaves_no_error)
{
    warm_error before = WARM_INIT(warm_error), after = before;
    void *block;

    wt_invalid(warm_pinned_alloc(runtime, 1, NULL));
    warm_last_error(&before);
    dry(true);
    block = take(SIZE);
    warm_last_error(&after);
    ck_assert_int_eq(after.status, before.status);
    ck_assert_str_eq(after.message, before.message);
    wt_ok(warm_free(block));
}

/* ---- as every block --------------------------------------------------- */

WT_TEST(test_B4_B18_memory_stays_until_the_streams_have_passed)
{
    wt_gate *gate;
    char *block;

    dry(true);
    block = take(SIZE);
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_record_stream(block + SIZE / 2, stream));
    wt_ok(warm_record_stream(block, other));
    ck_assert_uint_eq(wt_block_info(block).streams, 2);
    wt_ok(warm_free(block));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
    wt_settle(runtime, other);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_pending.current, 1);
    ck_assert_uint_ge(wt_pinned_stats(runtime).pageable_held.current, SIZE);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    ck_assert_int_eq(block[SIZE - 1], 7);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_pending.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_held.current, 0);
    ck_assert(!is_mapped(block));
}

WT_TEST(test_B10_B18_background_thread_gives_it_back)
{
    warm_options options = {.background = "on"};
    wt_gate *gate;
    void *block;

    teardown();
    begin(&options);
    dry(true);
    block = take(SIZE);
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_gate_open(gate);
    while (wt_pinned_stats(runtime).pageable_held.current != 0) {
        sched_yield();
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_pending.current, 0);
    ck_assert(!is_mapped(block));
}

WT_TEST(test_B6_B18_stream_may_end_before_the_block)
{
    warm_stream brief;
    void *block;

    dry(true);
    block = take(SIZE);
    brief = wt_stream(runtime, 0);
    wt_ok(warm_record_stream(block, brief));
    wt_ok(warm_record_stream(block, NULL));
    wt_ok(warm_stream_destroy(runtime, brief));
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    do {
        wt_ok(warm_poll(runtime));
    } while (wt_pinned_stats(runtime).pageable_pending.current != 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_held.current, 0);
}

WT_TEST(test_B16_B18_pageable_memory_is_copied_from_and_to)
{
    char *from, *to;
    void *device = NULL;

    dry(true);
    from = take(SIZE);
    to = take(SIZE);
    memset(to, 1, SIZE);
    wt_ok(warm_device_alloc_uncached(runtime, 0, SIZE, &device));
    wt_ok(warm_copy_async(runtime, device, from, SIZE, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(
        warm_copy_async(runtime, to, device, SIZE, WARM_COPY_TO_HOST, stream));
    ck_assert_uint_eq(wt_block_info(from).streams, 1);
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(memcmp(from, to, SIZE), 0);
    wt_free(from, to);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
}

WT_TEST(test_C10_B18_wrong_frees_are_refused)
{
    char *block;

    dry(true);
    block = take(SIZE);
    wt_fails(WARM_INVALID_POINTER, warm_free(block + 1));
    wt_ok(warm_free(block));
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable.freed, 1);
}

WT_TEST(test_B18_small_blocks_share_pages_which_go_with_the_last)
{
    enum { COUNT = 64 };
    void *block[COUNT];
    uint64_t held;

    dry(true);
    block[0] = take(3000);
    held = wt_pinned_stats(runtime).pageable_held.current;
    for (int i = 1; i < COUNT; i++) {
        block[i] = take(3000);
    }
    ck_assert_uint_lt(wt_pinned_stats(runtime).pageable_held.current,
                      COUNT * held);
    for (int i = 1; i < COUNT; i++) {
        wt_ok(warm_free(block[i]));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_held.current, held);
    ck_assert(is_mapped(block[0]));
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pageable_held.current, 0);
}

WT_TEST(test_G2_B18_end_of_the_runtime_reports_what_is_in_use)
{
    warm_options options = WARM_INIT(warm_options);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_runtime *kept = runtime;
    char *block;

    runtime = wt_runtime(&options);
    dry(true);
    block = take(SIZE);
    wt_ok(warm_runtime_destroy(runtime, &report));
    runtime = kept;
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_ge(report.live_bytes, SIZE);
    ck_assert_int_eq(block[SIZE - 1], 7); /* left alone */
    wt_fails(WARM_RUNTIME_GONE, warm_free(block));
}

/* A user's own pool is no reason against it. */
WT_TEST(test_B18_E8_pool_of_a_user_has_pageable_memory_too)
{
    warm_private_pool pool = {0};
    warm_block_info info;
    void *block;

    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
    dry(true);
    block = take(SIZE);
    dry(false);
    info = wt_block_info(block);
    ck_assert_int_eq(info.pageable, 1);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_release(runtime, pool));
}

WT_TEST(test_B14_B18_json_tells_of_pageable_memory)
{
    char text[32768];
    void *block;

    dry(true);
    block = take(SIZE);
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    wt_contains(text, "\"pageable\":{\"current\":1,");
    wt_ok(warm_free(block));
}

/* Pageable memory that there is no record for is unmapped again. */
WT_TEST(test_B12_B18_memory_without_a_record_goes_back)
{
    const size_t bytes = (size_t)1 << 30;
    unsigned failed = 0;

    for (uint64_t n = 1; n <= 12; n++) {
        warm_runtime *brief = wt_runtime_with(.pin_chunk = 2 * bytes);
        void *pointer = NULL;
        long before;

        wt_ok(warm_testing_fail(brief, "pinned_alloc", 1, 1));
        before = wt_address_space();
        warm_testing_fail_metadata(n, 0);
        if (warm_pinned_alloc_on(brief, bytes, WARM_NODE_ANY,
                                 WARM_ALLOC_PAGEABLE_OK, &pointer) != WARM_OK) {
            failed++;
            warm_testing_fail_metadata(0, 0);
            ck_assert_int_lt(wt_address_space() - before, (long)(bytes / 8192));
        }
        warm_testing_fail_metadata(0, 0);
        wt_ok(warm_free(pointer));
        wt_runtime_end(brief);
    }
    ck_assert_uint_gt(failed, 0);
}

/* Each allocation of a record fails once; some are those of the part in front
 * of the aligned one. */
WT_TEST(test_B18_B19_a_refused_aligned_request_leaves_the_pointer_as_it_is)
{
    enum { MANY = 1500 };
    static void *held[MANY];
    size_t count = 0, refused = 0;

    dry(true);
    for (int i = 0; i < MANY; i++) {
        void *pointer = held;
        warm_status status;

        warm_testing_fail_metadata(i < 20 ? 0 : 1 + (uint64_t)i % 4, 0);
        status = warm_pinned_alloc_aligned(runtime, 20480, 32768, OK, &pointer);
        warm_testing_fail_metadata(0, 0);
        if (status == WARM_OK) {
            held[count++] = pointer;
        } else {
            ck_assert_ptr_eq(pointer, held);
            refused++;
        }
    }
    ck_assert_uint_gt(refused, 0);
    dry(false);
    wt_free_all(held, count);
}
