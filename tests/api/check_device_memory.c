/* check_device_memory.c: what only memory of a device does, through public
 * headers and on every backend (rows C1 to C8); check_spaces.c has what all
 * memory does. Its content is read and written by copies only. */
/* memcheck: one process */
#include "wt.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream first, second;

static void setup(void)
{
    runtime = wt_runtime_with(.segment = 2 * MIB);
    first = wt_stream(runtime, 0);
    second = wt_stream(runtime, 0);
}

static void teardown(void)
{
    wt_stream_end(runtime, first);
    wt_stream_end(runtime, second);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static warm_status try(warm_stream stream, size_t bytes, void **pointer)
{
    return warm_device_alloc(runtime, 0, stream, bytes, pointer);
}

static void *take(warm_stream stream, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try(stream, bytes, &pointer));
    ck_assert_ptr_nonnull(pointer);
    return pointer;
}

static uint64_t segments_now(void)
{
    return wt_device_stats(runtime).all.segments.current;
}

static void *segment_of(const void *pointer)
{
    void *base = NULL;
    size_t bytes = 0;

    wt_ok(warm_device_base_allocation(pointer, &base, &bytes));
    ck_assert((const char *)pointer >= (char *)base);
    ck_assert((const char *)pointer < (char *)base + bytes);
    return base;
}

static const size_t sizes[] = {700, 60 * KIB, 2 * MIB, 5 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

WT_CASE("device_memory", .setup = setup, .teardown = teardown);

/* ---- the order of streams ------------------------------------------------ */

WT_TEST(test_C1_freed_on_a_stream_is_reusable_on_it_at_once)
{
    wt_gate *gate;

    /* Behind a gate no segment may be given back, for a larger one. */
    for (size_t i = SIZES; i-- > 0;) {
        wt_ok(warm_free(take(first, sizes[i])));
    }
    gate = wt_gate_close(runtime, first);
    for (size_t i = 0; i < SIZES; i++) {
        void *block = take(first, sizes[i]);

        wt_ok(warm_free(block));
        ck_assert_ptr_eq(take(first, sizes[i]), block);
        wt_ok(warm_free(block));
    }
    wt_gate_open(gate);
}

/* A segment's worth of blocks, so that a new one needs another segment. */
enum { MANY = 64 };

static unsigned fill(warm_stream stream, size_t bytes, void *block[MANY])
{
    uint64_t segments;
    unsigned count = 1;

    block[0] = take(stream, bytes);
    segments = segments_now();
    while (count < MANY) {
        void *more = take(stream, bytes);

        if (segments_now() != segments) {
            wt_ok(warm_free(more));
            break;
        }
        block[count++] = more;
    }
    return count;
}

static bool is_one_of(void *pointer, void *block[MANY], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (block[i] == pointer) {
            return true;
        }
    }
    return false;
}

WT_LOOP_TEST(test_C1_other_streams_get_it_once_it_is_safe, SIZES)
{
    size_t bytes = sizes[_i];
    void *block[MANY], *other;
    wt_gate *gate;
    uint64_t segments;
    unsigned count = fill(first, bytes, block);

    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    gate = wt_gate_hold(runtime, first);
    wt_free_all(block, count);
    other = take(second, bytes);
    ck_assert(!is_one_of(other, block, count));
    segments = segments_now();
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, first));
    /* As much as the segment holds, without another one. */
    for (unsigned i = 0; i < count; i++) {
        block[i] = take(second, bytes);
    }
    ck_assert_uint_eq(segments_now(), segments);
    wt_free_all(block, count);
    wt_ok(warm_free(other));
}

/* What a stream leaves behind is anybody's once its work has passed: it serves
 * a request that can have nothing else. */
WT_LOOP_TEST(test_C1_memory_of_a_stream_that_ended_is_not_lost, SIZES)
{
    size_t bytes = sizes[_i];
    void *block[MANY];
    uint64_t segments;
    warm_stream third = wt_stream(runtime, 0);
    unsigned count = fill(third, bytes, block);
    void *late = block[--count];

    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    wt_free_all(block, count);
    segments = segments_now();
    wt_ok(warm_stream_synchronize(runtime, third));
    wt_ok(warm_stream_destroy(runtime, third));
    wt_ok(warm_free(late));
    wt_ok(warm_poll(runtime));
    wt_limit(runtime, (double)wt_device_stats(runtime).all.held_bytes.current);
    for (unsigned i = 0; i <= count; i++) {
        block[i] = take(first, bytes);
    }
    ck_assert_uint_eq(segments_now(), segments);
    for (unsigned i = 0; i <= count; i++) {
        wt_ok(warm_free(block[i]));
    }
}

/* Nobody knows whether a stream of the program is still there: its memory
 * stays with it, until it is retired. */
WT_TEST(test_stream_that_was_not_adopted_keeps_its_memory)
{
    size_t bytes = 2 * MIB;
    void *block, *other;
    uint64_t segments;

    wt_ok(warm_stream_retire(runtime, first));
    block = take(first, bytes);
    wt_ok(warm_free(block));
    ck_assert_ptr_eq(take(first, bytes), block);
    wt_ok(warm_free(block));
    other = take(second, bytes);
    ck_assert_ptr_ne(other, block);
    wt_ok(warm_free(other));
    wt_ok(warm_stream_retire(runtime, first));
    wt_ok(warm_poll(runtime));
    segments = wt_device_stats(runtime).all.segments.allocated;
    other = take(second, bytes);
    block = take(second, bytes);
    ck_assert_uint_eq(wt_device_stats(runtime).all.segments.allocated,
                      segments);
    wt_free(other, block);
}

WT_TEST(test_default_streams_have_memory)
{
    warm_stream defaults[] = {NULL, WARM_STREAM_LEGACY, WARM_STREAM_PER_THREAD};

    for (int i = 0; i < 3; i++) {
        void *block = take(defaults[i], 3 * MIB);

        wt_ok(warm_free(block));
        ck_assert_ptr_eq(take(defaults[i], 3 * MIB), block);
        wt_ok(warm_free(block));
    }
}

WT_TEST(test_C4_block_used_on_another_stream_waits_for_it)
{
    void *block = take(first, 3 * MIB), *other;
    wt_gate *gate = wt_gate_hold(runtime, second);

    /* On its own stream there is nothing to be told. */
    wt_ok(warm_record_stream(block, first));
    ck_assert_uint_eq(wt_block_info(block).streams, 0);
    wt_ok(warm_record_stream((char *)block + 100, second));
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_device_stats(runtime).all.live.current, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).all.active.current, 1);
    ck_assert_uint_eq(wt_device_stats(runtime).large.active_bytes.current,
                      3 * MIB);
    other = take(first, 3 * MIB);
    ck_assert_ptr_ne(other, block);
    wt_gate_open(gate);
    wt_settle(runtime, second);
    ck_assert_uint_eq(wt_device_stats(runtime).all.active.current, 1);
    ck_assert_ptr_eq(take(first, 3 * MIB), block);
    wt_free(block, other);
}

/* What a stream does after it was retired is in no order with what it did
 * before: the block that it uses again waits for it, as any other's. */
WT_LOOP_TEST(test_B6_C4_retired_stream_may_go_on, SIZES)
{
    size_t bytes = sizes[_i];
    void *block = take(first, bytes), *other;
    wt_gate *gate;

    wt_ok(warm_stream_retire(runtime, first));
    wt_ok(warm_poll(runtime));
    if (_i % 2 == 0) {
        wt_ok(warm_stream_adopt(runtime, first));
    }
    gate = wt_gate_close(runtime, first);
    wt_ok(warm_record_stream(block, first));
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    wt_ok(warm_free(block));
    other = take(second, bytes);
    ck_assert_ptr_ne(other, block);
    wt_gate_open(gate);
    wt_ok(warm_free(other));
    /* Nothing has changed for what is allocated on it now. */
    block = take(first, bytes);
    wt_ok(warm_record_stream(block, first));
    ck_assert_uint_eq(wt_block_info(block).streams, 0);
    wt_ok(warm_free(block));
    wt_ok(warm_stream_retire(runtime, first));
}

WT_TEST(test_stream_of_another_device_is_refused)
{
    void *pointer = &pointer;
    warm_runtime *two;
    warm_stream there;

    if (!wt_on_host()) {
        wt_skip("needs the host device");
    }
    two = wt_runtime_with(.host_devices = 2);
    there = wt_stream(two, 1);
    wt_invalid(warm_device_alloc(two, 0, there, 100, &pointer));
    wt_says("device 1");
    ck_assert_ptr_eq(pointer, &pointer);
    wt_ok(warm_device_alloc(two, 1, there, 100, &pointer));
    ck_assert_int_eq(wt_block_info(pointer).device, 1);
    wt_ok(warm_free(pointer));
    /* The name of a default stream means that of the memory's device. */
    wt_ok(warm_device_alloc(two, 1, NULL, 100, &pointer));
    ck_assert_int_eq(wt_block_info(pointer).device, 1);
    wt_ok(warm_free(pointer));
    wt_ok(warm_stream_destroy(two, there));
    wt_runtime_end(two);
}

/* ---- shape ------------------------------------------------------- */

WT_TEST(test_C3_blocks_split_and_neighbours_merge)
{
    void *whole = take(first, 8 * MIB), *part[4];
    void *segment = segment_of(whole);

    wt_ok(warm_free(whole));
    for (int i = 0; i < 4; i++) {
        part[i] = take(first, 2 * MIB);
        ck_assert_ptr_eq(segment_of(part[i]), segment);
        ck_assert_uint_eq((uintptr_t)part[i] % 512, 0);
    }
    ck_assert_uint_eq(wt_device_stats(runtime).large.inactive_split, 0);
    wt_free(part[1], part[3]);
    ck_assert_uint_eq(wt_device_stats(runtime).large.inactive_split, 2);
    ck_assert_uint_eq(wt_device_stats(runtime).all.inactive_split_bytes,
                      4 * MIB);
    wt_ok(warm_free(part[2]));
    ck_assert_uint_eq(wt_device_stats(runtime).large.inactive_split, 1);
    wt_ok(warm_free(part[0]));
    ck_assert_uint_eq(wt_device_stats(runtime).large.inactive_split, 0);
    ck_assert_ptr_eq(take(first, 8 * MIB), whole);
    ck_assert_uint_eq(segments_now(), 1);
    wt_ok(warm_free(whole));
}

WT_TEST(test_C3_small_and_large_requests_are_kept_apart)
{
    void *large = take(first, 8 * MIB), *small, *odd;

    wt_ok(warm_free(large));
    small = take(first, 900);
    odd = take(first, MIB / 2);
    ck_assert_ptr_ne(segment_of(small), large);
    ck_assert_ptr_eq(segment_of(small), segment_of(odd));
    ck_assert_uint_eq((uintptr_t)small % 512, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).small.segments.current, 1);
    ck_assert_uint_eq(wt_device_stats(runtime).large.segments.current, 1);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(wt_device_stats(runtime).large.segments.current, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).small.segments.current, 1);
    wt_free(small, odd);
}

WT_TEST(test_C5_base_allocation_of_any_pointer)
{
    char *block = take(first, 5000), *behind = take(first, 5000);
    void *base = NULL, *other = NULL;
    size_t bytes = 0, again = 0;

    wt_ok(warm_device_base_allocation(block, &base, &bytes));
    wt_ok(warm_device_base_allocation(behind + 4999, &other, &again));
    ck_assert_ptr_eq(base, other);
    ck_assert_uint_eq(bytes, again);
    ck_assert_uint_eq(bytes, wt_device_stats(runtime).all.held_bytes.current);
    wt_invalid(warm_device_base_allocation(block, NULL, &bytes));
    wt_invalid(warm_device_base_allocation(block, &base, NULL));
    wt_ok(warm_free(block));
    wt_fails(WARM_NOT_FOUND, warm_device_base_allocation(block, &base, &bytes));
    wt_fails(WARM_NOT_FOUND,
             warm_device_base_allocation(&bytes, &base, &bytes));
    other = wt_pinned(runtime, 100);
    wt_fails(WARM_NOT_FOUND, warm_device_base_allocation(other, &base, &bytes));
    ck_assert_int_eq(wt_block_info(other).device, -1);
    wt_ok(warm_free(other));
    ck_assert_int_eq(wt_block_info(behind).device, 0);
    wt_ok(warm_free(behind));
}

/* ---- figures ----------------------------------------------------- */

/* Figures of all requests have peaks, others do not. */
static void check_stat(const warm_stat *stat, uint64_t current,
                       uint64_t allocated)
{
    ck_assert_uint_eq(stat->current, current);
    ck_assert_uint_eq(stat->peak, 0);
    ck_assert_uint_eq(stat->allocated, allocated);
    ck_assert_uint_eq(stat->freed, allocated - current);
}

static void check_blocks(const warm_stat *stat, uint64_t current, uint64_t peak,
                         uint64_t allocated)
{
    warm_stat totals = *stat;

    wt_peak(stat->peak, peak, WT_ROOM_BLOCKS);
    totals.peak = 0;
    check_stat(&totals, current, allocated);
}

WT_TEST(test_C6_figures_of_all_small_and_large)
{
    void *small = take(first, 1000), *large = take(first, 3 * MIB);
    void *again = take(first, 100);
    warm_device_stats s;

    wt_ok(warm_free(again));
    s = wt_device_stats(runtime);
    check_blocks(&s.all.live, 2, 3, 3);
    wt_peak(s.all.live_bytes.peak, 1536 + 3 * MIB, WT_ROOM_BYTES);
    ck_assert_uint_eq(s.all.held_bytes.peak, s.all.held_bytes.current);
    check_stat(&s.small.live, 1, 2);
    check_stat(&s.large.live, 1, 1);
    check_stat(&s.small.requested_bytes, 1000, 1100);
    check_stat(&s.small.live_bytes, 1024, 1536);
    check_stat(&s.large.requested_bytes, 3 * MIB, 3 * MIB);
    check_stat(&s.all.active, 2, 3);
    check_stat(&s.all.active_bytes, 1024 + 3 * MIB, 1536 + 3 * MIB);
    check_stat(&s.all.segments, 2, 2);
    ck_assert_uint_eq(s.all.held_bytes.current,
                      s.small.held_bytes.current + s.large.held_bytes.current);
    ck_assert_uint_eq(s.all.inactive_split_bytes,
                      s.all.held_bytes.current - s.all.live_bytes.current);
    /* Small ones share a run; each idle one of them counts. */
    again = take(first, 1000);
    ck_assert_uint_eq(wt_device_stats(runtime).small.inactive_split,
                      s.small.inactive_split - 1);
    ck_assert_uint_eq(wt_device_stats(runtime).all.inactive_split,
                      s.all.inactive_split - 1);
    wt_ok(warm_free(again));
    ck_assert_uint_eq(wt_device_stats(runtime).small.inactive_split,
                      s.small.inactive_split);
    wt_ok(warm_free(large));
    wt_ok(warm_device_reset_peaks(runtime, 0));
    s = wt_device_stats(runtime);
    check_blocks(&s.all.live, 1, 1, 4);
    check_stat(&s.large.active_bytes, 0, 3 * MIB);
    wt_ok(warm_device_reset_totals(runtime, 0));
    s = wt_device_stats(runtime);
    check_blocks(&s.all.live, 1, 1, 1);
    check_stat(&s.large.live, 0, 0);
    wt_ok(warm_free(small));
    ck_assert_uint_eq(wt_device_stats(runtime).all.active_bytes.current, 0);
}

/* As many blocks with callers as before, of other sizes. */
WT_TEST(test_C6_bytes_follow_what_a_thread_exchanges)
{
    void *one = take(first, 600), *two = take(first, 1400);

    wt_ok(warm_free(take(first, 1000)));
    ck_assert_uint_eq(wt_device_stats(runtime).all.live_bytes.current,
                      1024 + 1536);
    wt_free(one, two);
    one = take(first, 1000);
    two = take(first, 1000);
    ck_assert_uint_eq(wt_device_stats(runtime).all.live_bytes.current,
                      2 * 1024);
    ck_assert_uint_eq(wt_device_stats(runtime).small.active_bytes.current,
                      2 * 1024);
    wt_free(one, two);
}

WT_TEST(test_C6_hits_and_calls_of_the_driver)
{
    void *block = take(first, 3 * MIB);
    warm_device_stats s = wt_device_stats(runtime);
    size_t released = 0;

    ck_assert_uint_eq(s.cache_hits, 0);
    ck_assert_uint_eq(s.driver_alloc.count, 1);
    ck_assert_uint_ge(s.driver_alloc.max_ns, s.driver_alloc.min_ns);
    wt_ok(warm_free(block));
    wt_ok(warm_free(take(first, 3 * MIB)));
    s = wt_device_stats(runtime);
    ck_assert_uint_eq(s.cache_hits, 1);
    ck_assert_uint_eq(s.driver_alloc.count, 1);
    ck_assert_uint_eq(s.driver_free.count, 0);
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_gt(released, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).driver_free.count, 1);
    wt_ok(warm_device_reset_totals(runtime, 0));
    s = wt_device_stats(runtime);
    ck_assert_uint_eq(s.cache_hits, 0);
    ck_assert_uint_eq(s.driver_alloc.count, 0);
    ck_assert_uint_eq(s.driver_free.count, 0);
}

WT_TEST(test_C7_cache_info_says_what_is_idle)
{
    warm_device_cache info = WARM_INIT(warm_device_cache);
    void *block = take(first, 6 * MIB), *other = take(first, 6 * MIB);

    wt_ok(warm_free(block));
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.idle_bytes,
                      wt_device_stats(runtime).all.held_bytes.current -
                          6 * MIB);
    ck_assert_uint_ge(info.largest_bytes, 6 * MIB);
    ck_assert_uint_le(info.largest_bytes, info.idle_bytes);
    wt_ok(warm_free(other));
    wt_invalid(warm_device_cache_info(runtime, 0, NULL));
    wt_invalid(warm_device_cache_info(runtime, 99, &info));
}

/* A number that stands behind a name, from a place on. */
static uint64_t number_after(const char **at, const char *name)
{
    *at = strstr(*at, name);
    ck_assert_ptr_nonnull(*at);
    *at += strlen(name);
    return strtoull(*at, NULL, 0);
}

WT_TEST(test_figures_are_in_the_json)
{
    void *block = take(first, 3000);
    char text[65536];
    const char *at = text;

    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    wt_contains(text, "\"device_memory\":[{\"device\":0");
    (void)number_after(&at, "\"device_memory\":");
    ck_assert_uint_eq(number_after(&at, "\"requested_bytes\":{\"current\":"),
                      3000);
    (void)number_after(&at, "\"captured\":");
    ck_assert_uint_eq(number_after(&at, "\"cache_hits\":"), 0);
    ck_assert_uint_eq(number_after(&at, "\"driver_alloc\":{\"count\":"), 1);
    ck_assert_uint_eq(number_after(&at, "\"driver_free\":{\"count\":"), 0);
    wt_ok(warm_free(block));
}

/* Of all arenas the largest, and what threads keep is idle as well. */
WT_TEST(test_C7_cache_info_counts_what_pools_and_threads_keep)
{
    warm_device_cache info = WARM_INIT(warm_device_cache);
    warm_private_pool pool = {0};
    void *small = take(first, 64 * KIB), *large = take(first, 6 * MIB);
    uint64_t held;

    for (int i = 0; i < 2; i++) {
        /* The second time it is there. */
        wt_ok(warm_free(small));
        small = take(first, 64 * KIB);
    }
    held = wt_device_stats(runtime).all.held_bytes.current;
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.idle_bytes, held - 6 * MIB - 64 * KIB);
    wt_ok(warm_free(small));
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.idle_bytes, held - 6 * MIB);
    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
    wt_ok(warm_free(take(first, 8 * MIB)));
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.idle_bytes, held + 2 * MIB);
    ck_assert_uint_eq(info.largest_bytes, 8 * MIB);
    wt_ok(warm_free(large));
    wt_ok(warm_free(take(first, 12 * MIB)));
    wt_ok(warm_device_cache_info(runtime, 0, &info));
    ck_assert_uint_eq(info.largest_bytes, 12 * MIB);
    wt_ok(warm_private_pool_release(runtime, pool));
}

/* ---- limits ------------------------------------------------------ */

WT_TEST(test_C8_empty_cache_returns_all_that_is_idle)
{
    void *block = take(first, 4 * MIB), *kept = take(second, 900 * KIB);
    size_t released = 0;

    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_ge(released, 4 * MIB);
    ck_assert_uint_eq(segments_now(), 1);
    wt_ok(warm_free(kept));
    /* Of two streams: the device is waited for. */
    block = take(first, 5000);
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 100 * MIB, &released));
    ck_assert_uint_eq(released, 0);
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_gt(released, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, 0);
}

WT_TEST(test_C8_fraction_is_a_limit)
{
    void *pointer = &pointer;
    void *block = take(first, 3 * MIB);

    wt_ok(warm_free(block));
    wt_limit(runtime, 16.0 * MIB);
    /* Room is made for it: what is idle goes, under the limit as elsewhere. */
    block = take(second, 15 * MIB);
    ck_assert_uint_eq(segments_now(), 1);
    ck_assert_uint_ge(wt_device_stats(runtime).retries, 1);
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 2 * MIB, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_device_stats(runtime).failures, 1);
    wt_ok(warm_watermarks_set_ratio(runtime, 0, 1, 1));
    wt_ok(try(first, 2 * MIB, &pointer));
    wt_free(pointer, block);
}

WT_TEST(test_C8_what_is_held_above_a_limit_stays)
{
    void *block = take(first, 15 * MIB), *pointer = &pointer;
    void *idle = take(first, 64 * KIB);
    uint64_t held = wt_device_stats(runtime).all.held_bytes.current;

    wt_limit(runtime, 8 * MIB);
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, held);
    /* What is there is handed out, and nothing comes. */
    wt_ok(warm_free(idle));
    idle = take(first, 64 * KIB);
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 4 * MIB, &pointer));
    /* However little: that is not the same as none. */
    wt_ok(warm_watermarks_set_ratio(runtime, 0, 1e-30, 0));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 4 * MIB, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    wt_free(idle, block);
}

/* What is idle longest goes before the space grows beyond the threshold. */
WT_TEST(test_C8_old_segments_are_collected_above_a_threshold)
{
    void *old, *later, *base, *small[5];

    wt_ok(warm_watermarks_set(runtime, 0, 49 * MIB, 49 * MIB / 2));
    old = take(first, 10 * MIB);
    later = take(first, 12 * MIB);
    base = segment_of(later);
    wt_free(old, later);
    /* 22 MiB and 2 more are not above 24, and 2 more are. */
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(wt_device_stats(runtime).all.segments.freed, 0);
        small[i] = take(second, MIB / 2);
    }
    ck_assert_uint_eq(wt_device_stats(runtime).large.segments.freed, 1);
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current,
                      16 * MIB);
    /* The younger one is still there. */
    later = take(first, 12 * MIB);
    ck_assert_ptr_eq(segment_of(later), base);
    wt_ok(warm_free(later));
    wt_free_all(small, 5);
}

/* Small requests grow by 2 MiB, for four of them, and a large segment that is
 * idle is in nobody's way. */
static void take_small(void *small[4])
{
    for (int i = 0; i < 4; i++) {
        small[i] = take(second, MIB / 2);
    }
}

/* What threads cache is idle as well, and with next to no watermark nothing
 * stays idle. */
WT_TEST(test_C8_F7_idle_memory_goes_above_a_low_watermark)
{
    void *small[4][4], *large;

    wt_ok(warm_watermarks_set(runtime, 0, 32 * MIB, 16 * MIB));
    wt_ok(warm_free(take(first, 14 * MIB)));
    take_small(small[0]);
    ck_assert_uint_eq(segments_now(), 2);
    take_small(small[1]);
    ck_assert_uint_eq(segments_now(), 2);
    wt_ok(warm_watermarks_set(runtime, 0, 100 * MIB, 50 * MIB));
    wt_ok(warm_free(take(first, 14 * MIB)));
    take_small(small[2]);
    ck_assert_uint_eq(segments_now(), 4);
    wt_ok(warm_watermarks_set(runtime, 0, 0, 1)); /* collects at once */
    ck_assert_uint_eq(segments_now(), 3);
    take_small(small[3]);
    ck_assert_uint_eq(segments_now(), 4);
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_free(small[0][i]));
    }
    large = take(first, 3 * MIB);
    ck_assert_uint_eq(segments_now(), 4);
    /* 0: nothing is collected. */
    wt_ok(warm_watermarks_set(runtime, 0, 0, 0));
    wt_ok(warm_free(take(first, 80 * MIB)));
    take_small(small[0]);
    ck_assert_uint_eq(segments_now(), 6);
    for (int i = 0; i < 16; i++) {
        wt_ok(warm_free(small[i / 4][i % 4]));
    }
    wt_ok(warm_free(large));
}

WT_TEST(test_C2_error_tells_of_the_device)
{
    void *block[2], *pointer = &pointer;

    wt_limit(runtime, 24.0 * MIB);
    block[0] = take(first, 10 * MIB);
    block[1] = take(first, 12 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, try(second, 12 * MIB, &pointer));
    wt_says("12.0 MiB of device memory", "on device 0", "free", "held",
            "live 22.0 MiB", "limit 24.0 MiB");
    wt_free(block[0], block[1]);
}

/* ---- graphs, and the end ----------------------------------------- */

/* A graph may use it at any later time. */
WT_TEST(test_block_of_a_capture_is_kept)
{
    warm_graph graph = NULL;
    void *block = NULL, *used = take(first, 4 * MIB), *other;

    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(try(second, 3 * MIB, &block));
    wt_ok(warm_record_stream(used, second));
    wt_ok(warm_capture_end(runtime, second, &graph));
    wt_free(block, used);
    ck_assert_uint_eq(wt_device_stats(runtime).captured, 2);
    ck_assert_uint_eq(wt_device_stats(runtime).captured_bytes, 7 * MIB);
    ck_assert_uint_eq(wt_device_stats(runtime).all.active.current, 0);
    other = take(second, 3 * MIB);
    ck_assert_ptr_ne(other, block);
    wt_ok(warm_free(other));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* It may be launched on a stream that waits for nobody. */
WT_TEST(test_C1_graph_gets_nothing_that_its_stream_may_still_use)
{
    void *block = take(first, 3 * MIB), *captured = NULL;
    wt_gate *gate = wt_gate_close(runtime, first);
    warm_graph graph = NULL;

    wt_ok(warm_free(block));
    wt_ok(warm_capture_begin(runtime, first));
    wt_ok(try(first, 3 * MIB, &captured));
    ck_assert_ptr_ne(captured, block);
    wt_ok(warm_capture_end(runtime, first, &graph));
    wt_gate_open(gate);
    wt_ok(warm_free(captured));
    ck_assert_uint_eq(wt_device_stats(runtime).captured, 1);
    ck_assert_ptr_eq(take(first, 3 * MIB), block);
    wt_ok(warm_free(block));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* ---- storage ----------------------------------------------------- */

WT_TEST(test_device_memory_is_an_allocator)
{
    const warm_allocator *allocator = NULL;
    warm_storage *storage = NULL;
    warm_storage_info info = WARM_INIT(warm_storage_info);

    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_DEVICE, 0, &allocator));
    wt_ok(warm_storage_create(allocator, 5 * MIB, first, &storage));
    wt_ok(warm_storage_get_info(storage, &info));
    ck_assert_int_eq(info.memory, WARM_MEMORY_DEVICE);
    ck_assert_int_eq(info.device, 0);
    ck_assert_int_eq(wt_block_info(info.data).device, 0);
    wt_ok(warm_storage_record(storage, second));
    ck_assert_uint_eq(wt_block_info(info.data).streams, 1);
    warm_storage_release(storage);
    ck_assert_uint_eq(wt_device_stats(runtime).all.live.current, 0);
}

/* ---- a random run ------------------------------------------------ */

enum { STREAMS = 3, LIVE = 24, STEPS = 3000, BYTES = 64 << 10 };

static struct live {
    void *block;
    int stream;
    uint32_t pattern;
} live[LIVE];

/* What a stream finds in a block before it is freed. */
struct look {
    uint32_t *copy; /* page-locked */
    uint32_t pattern;
};

static _Atomic unsigned wrong, looked;

static void compare(void *argument)
{
    struct look *look = argument;

    for (size_t i = 0; i < BYTES / sizeof *look->copy; i += 509) {
        if (look->copy[i] != look->pattern) {
            atomic_fetch_add_explicit(&wrong, 1, memory_order_relaxed);
            break;
        }
    }
    atomic_fetch_add_explicit(&looked, 1, memory_order_relaxed);
    free(look);
}

static void begin_block(struct live *l, warm_stream stream, uint32_t pattern)
{
    void *source = wt_pinned(runtime, BYTES);

    for (size_t i = 0; i < BYTES / sizeof pattern; i++) {
        ((uint32_t *)source)[i] = pattern;
    }
    l->block = take(stream, BYTES);
    l->pattern = pattern;
    wt_ok(warm_copy_async(runtime, l->block, source, BYTES, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_free(source));
}

/* The block is freed while its copies wait. */
static void end_block(struct live *l, warm_stream stream)
{
    struct look *look = malloc(sizeof *look);
    void *copy = wt_pinned(runtime, BYTES);

    *look = (struct look){copy, l->pattern};
    wt_ok(warm_copy_async(runtime, copy, l->block, BYTES, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_stream_host_func(runtime, stream, compare, look));
    wt_ok(warm_record_stream(copy, stream));
    wt_free(copy, l->block);
    l->block = NULL;
}

WT_TEST(test_C1_C4_no_block_is_written_while_a_stream_reads_it)
{
    warm_stream stream[STREAMS] = {first, second};
    uint64_t random = wt_seed();
    unsigned ended = 0;

    stream[2] = wt_stream(runtime, 0);
    for (unsigned step = 0; step < wt_scaled(STEPS); step++) {
        struct live *l = &live[wt_random(&random) % LIVE];

        if (l->block != NULL) {
            /* On its own stream, or handed to another one. */
            int other = (int)(wt_random(&random) % STREAMS);

            if (wt_random(&random) % 4 == 0 && other != l->stream) {
                wt_ok(warm_stream_synchronize(runtime, stream[l->stream]));
                end_block(l, stream[other]);
            } else {
                end_block(l, stream[l->stream]);
            }
            ended++;
        } else {
            l->stream = (int)(wt_random(&random) % STREAMS);
            begin_block(l, stream[l->stream], (uint32_t)wt_random(&random));
        }
        if (step % 500 == 499) {
            wt_ok(warm_stream_synchronize(runtime, stream[2]));
            for (int i = 0; i < LIVE; i++) {
                if (live[i].block != NULL && live[i].stream == 2) {
                    end_block(&live[i], stream[2]);
                    ended++;
                }
            }
            wt_ok(warm_stream_destroy(runtime, stream[2]));
            stream[2] = wt_stream(runtime, 0);
        }
    }
    for (int i = 0; i < LIVE; i++) {
        if (live[i].block != NULL) {
            end_block(&live[i], stream[live[i].stream]);
            ended++;
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_synchronize(runtime, stream[i]));
    }
    wt_ok(warm_stream_destroy(runtime, stream[2]));
    while (atomic_load_explicit(&looked, memory_order_relaxed) < ended) {
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(wt_device_stats(runtime).all.live.current, 0);
}
