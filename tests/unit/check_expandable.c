/* check_expandable.c: device memory that grows in place, and goes back in
 * parts: option expandable_segments (rows C3, C8).
 * backends: host standin */
#include "wt.h"

#include "alloc/device_space.h"
#include "alloc/page_map.h"
#include "runtime/base/status.h"
#include "runtime/runtime.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream first, second;

/* The driver's calls, of which one waits where a test wants it to. */
static wm_driver_ops ops;
static const wm_driver_ops *real;
static _Atomic bool closed, inside;
static unsigned ranges_back;

static bool is_set(_Atomic bool *flag)
{
    return atomic_load_explicit(flag, memory_order_acquire);
}

static void set(_Atomic bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_release);
}

static void await(_Atomic bool *flag, bool value)
{
    while (is_set(flag) != value) {
        sched_yield();
    }
}

/* A call that fails, and that part of what it did cannot be undone. */
static bool tears;

static warm_status tear(bool *torn)
{
    *torn = true;
    return wm_fail(WARM_DRIVER_ERROR, "torn by a test");
}

static warm_status torn_decommit(wm_driver *d, int device, void *range,
                                 size_t offset, size_t bytes, bool *torn)
{
    return tears ? tear(torn)
                 : real->range_decommit(d, device, range, offset, bytes, torn);
}

static warm_status slow_commit(wm_driver *d, int device, void *range,
                               size_t offset, size_t bytes, bool *torn)
{
    if (tears) {
        return tear(torn);
    }
    set(&inside, true);
    await(&closed, false);
    return real->range_commit(d, device, range, offset, bytes, torn);
}

static void begin(const char *expandable)
{
    warm_options options = {.size = sizeof options,
                            .host_memory = 256 * MIB,
                            .segment = 2 * MIB,
                            .history = 512,
                            .expandable_segments = expandable};

    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &first));
    wt_ok(warm_stream_create(runtime, 0, &second));
}

static void setup(void)
{
    /* Tests may share one process. */
    tears = false;
    begin("on");
    real = runtime->driver->ops;
    ops = *real;
    ops.range_commit = slow_commit;
    ops.range_decommit = torn_decommit;
    runtime->driver->ops = &ops;
}

static wm_space *space_now(void)
{
    return &runtime->device_spaces[0].space;
}

static uint64_t calls_of(const char *call)
{
    uint64_t calls = 0;

    wt_ok(warm_testing_calls(runtime, call, &calls));
    return calls;
}

static void check(void)
{
    warm_device_stats stats = {.size = sizeof stats};

    wt_require(wm_space_check(space_now()), "the arena is broken");
    wt_ok(warm_device_get_stats(runtime, 0, &stats));
    wt_require(space_now()->growth.held == stats.all.reserved_bytes.current,
               "what is held is not what came");
}

static void teardown(void)
{
    check();
    wt_stream_end(runtime, first);
    wt_stream_end(runtime, second);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static warm_status try(warm_stream stream, size_t bytes, void **pointer)
{
    return warm_device_alloc(runtime, 0, stream, bytes, pointer);
}

static char *take(warm_stream stream, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try(stream, bytes, &pointer));
    return pointer;
}

static warm_device_stats stats_now(void)
{
    return wt_device_stats(runtime);
}

static uint64_t held_now(void)
{
    return stats_now().all.reserved_bytes.current;
}

static size_t extent_of(const void *pointer, char **base)
{
    size_t bytes = 0;
    void *from = NULL;

    wt_ok(warm_device_base_allocation(pointer, &from, &bytes));
    *base = from;
    return bytes;
}

static size_t empty(void)
{
    size_t released = 0;

    wt_ok(warm_device_empty_cache(runtime, 0, &released));
    check();
    return released;
}

/* What is in memory of the device, by copies: it need not be the process's. */
static void fill(void *block, size_t bytes, char with)
{
    void *buffer = NULL;

    wt_ok(warm_pinned_alloc(runtime, bytes, &buffer));
    memset(buffer, with, bytes);
    wt_ok(warm_copy_async(runtime, block, buffer, bytes, WARM_COPY_TO_DEVICE,
                          first));
    wt_ok(warm_free(buffer));
}

static void assert_filled(void *block, size_t bytes, char with)
{
    void *buffer = NULL;
    char *byte;

    wt_ok(warm_pinned_alloc(runtime, bytes, &buffer));
    wt_ok(warm_copy_async(runtime, buffer, block, bytes, WARM_COPY_TO_HOST,
                          first));
    wt_ok(warm_stream_synchronize(runtime, first));
    byte = buffer;
    wt_require(byte[0] == with && byte[bytes / 2] == with &&
                   byte[bytes - 1] == with,
               "the block was overwritten");
    wt_ok(warm_free(buffer));
}

/* ---- growth ---------------------------------------------------------------
 */

START_TEST(test_C3_C8_growth_extends_what_is_idle)
{
    char *block = take(first, 10 * MIB), *other, *base;

    ck_assert_uint_eq(held_now(), 10 * MIB);
    wt_ok(warm_free(block));
    other = take(first, 14 * MIB);
    ck_assert_ptr_eq(other, block);
    ck_assert_uint_eq(held_now(), 14 * MIB);
    ck_assert_uint_eq(stats_now().all.segments.current, 1);
    ck_assert_uint_eq(calls_of("range_reserve"), 1);
    ck_assert_uint_eq(calls_of("range_commit"), 2);
    ck_assert_uint_eq(calls_of("device_alloc"), 0);
    fill(other, 14 * MIB, 5);
    assert_filled(other, 14 * MIB, 5);
    /* Small ones have a range of their own. */
    block = take(first, 3000);
    ck_assert_uint_eq(extent_of(other, &base), 14 * MIB);
    ck_assert_ptr_eq(base, other);
    ck_assert_uint_eq(extent_of(block, &base), 2 * MIB);
    ck_assert_uint_eq(calls_of("range_reserve"), 2);
    ck_assert_uint_eq(held_now(), 16 * MIB);
    check();
    wt_ok(warm_free(block));
    wt_ok(warm_free(other));
}
END_TEST

/* Each is larger than all before, and something small stays where it was: what
 * is left of a segment is of no use to the next one, unless it grows. */
static uint64_t held_after_growing_blocks(const char *expandable)
{
    enum { ROUNDS = 10 };
    char *kept[ROUNDS];
    uint64_t held;

    begin(expandable);
    for (size_t i = 0; i < ROUNDS; i++) {
        wt_ok(warm_free(take(first, (8 + 2 * i) * MIB)));
        kept[i] = take(first, 3 * MIB / 2);
    }
    held = held_now();
    for (size_t i = 0; i < ROUNDS; i++) {
        wt_ok(warm_free(kept[i]));
    }
    teardown();
    return held;
}

START_TEST(test_C3_C8_a_trace_that_fragments_segments_needs_less)
{
    uint64_t with = held_after_growing_blocks("on");
    uint64_t without = held_after_growing_blocks("off");

    /* 15 MiB stay, the largest was 26. */
    ck_assert_uint_le(with, 42 * MIB);
    ck_assert_uint_ge(without, with + 8 * MIB);
}
END_TEST

/* Where there is least to be added, and lowest. */
START_TEST(test_C3_C8_holes_are_filled_where_least_is_missing)
{
    char *block[5], *got, *base;

    for (int i = 0; i < 5; i++) {
        block[i] = take(first, 10 * MIB);
        fill(block[i], 10 * MIB, (char)i);
    }
    ck_assert_ptr_eq(block[4], block[0] + 40 * MIB);
    wt_ok(warm_free(block[1]));
    wt_ok(warm_free(block[3]));
    ck_assert_uint_eq(empty(), 20 * MIB);
    ck_assert_uint_eq(held_now(), 30 * MIB);
    ck_assert_uint_eq(extent_of(block[0], &base), 10 * MIB);
    ck_assert_uint_eq(extent_of(block[2], &base), 10 * MIB);
    ck_assert_ptr_eq(base, block[2]);
    /* The lower one, and only so much of it. */
    got = take(first, 3 * MIB);
    ck_assert_ptr_eq(got, block[1]);
    ck_assert_uint_eq(held_now(), 34 * MIB);
    ck_assert_uint_eq(extent_of(block[0], &base), 14 * MIB);
    /* With the rest of what came before, behind it. */
    block[1] = take(first, 5 * MIB);
    ck_assert_ptr_eq(block[1], got + 3 * MIB);
    ck_assert_uint_eq(held_now(), 38 * MIB);
    /* Too large for a hole. */
    block[3] = take(first, 12 * MIB);
    ck_assert_ptr_eq(block[3], block[4] + 10 * MIB);
    check();
    assert_filled(block[0], 10 * MIB, 0);
    assert_filled(block[2], 10 * MIB, 2);
    assert_filled(block[4], 10 * MIB, 4);
    wt_ok(warm_free(got));
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_free(block[i]));
    }
    ck_assert_uint_eq(empty(), 50 * MIB);
    ck_assert_uint_eq(stats_now().all.segments.current, 0);
}
END_TEST

/* All of a hole, and what lies on both sides of it. */
START_TEST(test_C3_C8_a_hole_joins_what_is_idle_on_both_sides)
{
    char *block[3], *all;

    for (int i = 0; i < 3; i++) {
        block[i] = take(first, 6 * MIB);
    }
    wt_ok(warm_free(block[1]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    wt_ok(warm_free(block[0]));
    wt_ok(warm_free(block[2]));
    all = take(first, 17 * MIB);
    ck_assert_ptr_eq(all, block[0]);
    ck_assert_uint_eq(held_now(), 18 * MIB);
    wt_ok(warm_free(all));
    /* Idle memory behind a hole is used from there. */
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    block[0] = take(first, 6 * MIB);
    block[1] = take(first, 2 * MIB);
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    wt_ok(warm_free(block[1]));
    all = take(first, 4 * MIB);
    ck_assert_ptr_eq(all + 4 * MIB, block[1] + 2 * MIB);
    ck_assert_uint_eq(held_now(), 4 * MIB);
    wt_ok(warm_free(all));
}
END_TEST

/* What lies idle in too small a place goes when memory comes elsewhere, if much
 * is idle: the peak is what counts. */
START_TEST(test_C8_growth_takes_the_place_of_what_is_idle)
{
    char *idle = take(first, 10 * MIB), *kept = take(first, 2 * MIB), *block;

    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(idle));
    block = take(second, 12 * MIB);
    ck_assert_ptr_eq(block, kept + 2 * MIB);
    ck_assert_uint_eq(held_now(), 14 * MIB);
    ck_assert_uint_eq(calls_of("range_decommit"), 1);
    check();
    wt_ok(warm_free(block));
    wt_ok(warm_free(kept));
    (void)empty();
    /* A little idle memory stays. */
    kept = take(first, 40 * MIB);
    idle = take(first, 4 * MIB);
    block = take(first, 2 * MIB);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(idle));
    idle = take(second, 6 * MIB);
    ck_assert_uint_eq(held_now(), 52 * MIB);
    wt_ok(warm_free(idle));
    wt_ok(warm_free(block));
    wt_ok(warm_free(kept));
}
END_TEST

/* Of two places that do not do, the one that was idle longer. */
START_TEST(test_C8_what_is_idle_longest_goes_first)
{
    char *block[4];

    for (int i = 0; i < 4; i++) {
        block[i] = take(first, (i % 2 == 0 ? 10 : 2) * MIB);
    }
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block[2]));
    wt_ok(warm_free(block[0]));
    wt_ok(warm_free(take(second, 12 * MIB)));
    ck_assert_uint_eq(held_now(), 24 * MIB);
    block[2] = take(second, 8 * MIB);
    ck_assert_ptr_eq(block[2], block[0]);
    ck_assert_uint_eq(held_now(), 24 * MIB);
    for (int i = 1; i < 4; i++) {
        wt_ok(warm_free(block[i]));
    }
}
END_TEST

/* Memory that is another stream's still is no part of a growth. */
START_TEST(test_C1_C3_growth_takes_nothing_of_another_stream)
{
    char *idle = take(first, 10 * MIB), *block;
    wt_gate *gate = wt_gate_close(runtime, first);

    wt_gate_await(gate);
    fill(idle, 10 * MIB, 1);
    wt_ok(warm_free(idle));
    block = take(second, 14 * MIB);
    ck_assert_ptr_eq(block, idle + 10 * MIB);
    ck_assert_uint_eq(held_now(), 24 * MIB);
    check();
    wt_gate_open(gate);
    wt_ok(warm_free(block));
}
END_TEST

/* More than one range, where one has no room. */
START_TEST(test_C3_C8_a_full_range_is_followed_by_another)
{
    char *block[8];
    size_t range;

    block[0] = take(first, 2 * MIB);
    range = wm_space_find(block[0])->segment->bytes;
    ck_assert_uint_ge(range, wm_space_find(block[0])->segment->held);
    if (wt_on_host()) {
        /* Every other of them becomes a hole: none has 90 MiB. */
        ck_assert_uint_eq(range, 288 * MIB);
        for (int i = 1; i < 8; i++) {
            block[i] = take(first, 34 * MIB);
            ck_assert(wm_space_find(block[i])->segment ==
                      wm_space_find(block[0])->segment);
        }
        for (int i = 1; i < 8; i += 2) {
            wt_ok(warm_free(block[i]));
        }
        ck_assert_uint_ge(empty(), 4 * 34 * MIB);
        block[7] = take(first, 90 * MIB);
        ck_assert(wm_space_find(block[7])->segment !=
                  wm_space_find(block[0])->segment);
        ck_assert_uint_eq(calls_of("range_reserve"), 2);
        ck_assert_uint_eq(stats_now().large.segments.current, 2);
        check();
        for (int i = 2; i < 7; i += 2) {
            wt_ok(warm_free(block[i]));
        }
        wt_ok(warm_free(block[7]));
    }
    wt_ok(warm_free(block[0]));
}
END_TEST

/* ---- going back -----------------------------------------------------------
 */

START_TEST(test_C8_trim_takes_whole_units_and_no_more_than_it_must)
{
    char *block[3], *small, *base;
    size_t released = 0;

    block[0] = take(first, 5 * MIB);
    block[1] = take(first, 12 * MIB);
    block[2] = take(first, 5 * MIB);
    wt_ok(warm_free(block[1]));
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_device_trim(runtime, 0, held_now() - 3 * MIB, &released));
    ck_assert_uint_eq(released, 4 * MIB);
    check();
    ck_assert_uint_eq(extent_of(block[0], &base), 12 * MIB);
    /* From 5 to 17 MiB, of which 6 to 16 are whole units. */
    ck_assert_uint_eq(empty(), 6 * MIB);
    ck_assert_uint_eq(empty(), 0);
    small = take(first, MIB + 1);
    wt_ok(warm_free(small));
    wt_ok(warm_free(block[0]));
    wt_ok(warm_free(block[2]));
    (void)empty();
    ck_assert_uint_eq(held_now(), 0);
}
END_TEST

static void empty_cache(void *argument, unsigned index)
{
    size_t *released = argument;

    (void)index;
    wt_ok(warm_device_empty_cache(runtime, 0, released));
}

static void nothing(void *argument, unsigned index)
{
    wt_linger linger = {0};

    (void)index;
    while (wt_lingers(&linger)) {
    }
    wt_gate_open(argument);
}

struct pair {
    wt_gate *gate;
    size_t released;
    void *block;
};

static void empty_or_open(void *argument, unsigned index)
{
    struct pair *pair = argument;

    if (index == 0) {
        empty_cache(&pair->released, 0);
    } else {
        nothing(pair->gate, 0);
    }
}

/* Work that is queued on memory has it until it is done: an adopted stream is
 * waited for. The host device has nothing there else, and the copy crashes. */
START_TEST(test_C4_C8_memory_goes_back_behind_the_work_on_it)
{
    struct pair pair = {NULL, 0, NULL};
    char *block = take(first, 8 * MIB);

    fill(block, 8 * MIB, 1);
    pair.gate = wt_gate_close(runtime, first);
    wt_gate_await(pair.gate);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_free(block));
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
    check();
}
END_TEST

struct busy {
    struct pair pair;
    wt_gate *later;
    uint64_t waits;
};

static void empty_or_go_on(void *argument, unsigned index)
{
    struct busy *busy = argument;

    if (index == 0) {
        empty_cache(&busy->pair.released, 0);
        return;
    }
    while (calls_of("event_synchronize") == busy->waits) {
        sched_yield();
    }
    busy->later = wt_gate_close(runtime, first);
    wt_gate_open(busy->pair.gate);
}

/* Not for what the stream is given to do meanwhile: or this hangs. */
START_TEST(test_C4_C8_work_that_comes_later_is_not_waited_for)
{
    struct busy busy = {.pair = {.gate = NULL}};
    char *block = take(first, 8 * MIB);

    busy.pair.gate = wt_gate_close(runtime, first);
    wt_gate_await(busy.pair.gate);
    wt_ok(warm_free(block));
    busy.waits = calls_of("event_synchronize");
    wt_threads(2, empty_or_go_on, &busy);
    ck_assert_uint_eq(busy.pair.released, 8 * MIB);
    wt_gate_open(busy.later);
}
END_TEST

/* Where nothing is to go nobody is waited for: or this hangs. */
START_TEST(test_C8_a_trim_that_is_met_waits_for_nobody)
{
    char *block = take(first, 8 * MIB);
    wt_gate *gate = wt_gate_close(runtime, first);
    size_t back = 1;

    wt_gate_await(gate);
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 8 * MIB, &back));
    ck_assert_uint_eq(back, 0);
    wt_gate_open(gate);
}
END_TEST

/* Of a stream that nobody promised to live nothing can be asked: who empties
 * the cache waits for the device. */
START_TEST(test_C4_C8_for_a_stream_that_is_not_adopted_the_device_is_waited_for)
{
    struct pair pair = {NULL, 0, NULL};
    char *block;

    wt_ok(warm_stream_retire(runtime, second));
    block = take(second, 8 * MIB);
    pair.gate = wt_gate_close(runtime, second);
    wt_gate_await(pair.gate);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block));
    /* Nobody waits where nothing is to go. */
    wt_ok(warm_device_trim(runtime, 0, 8 * MIB, &pair.released));
    ck_assert_uint_eq(pair.released, 0);
    ck_assert_uint_eq(calls_of("device_synchronize"), 0);
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
    ck_assert_uint_eq(calls_of("device_synchronize"), 1);
    check();
    /* Once it has. */
    ck_assert_uint_eq(empty(), 0);
    ck_assert_uint_eq(calls_of("device_synchronize"), 1);
}
END_TEST

/* But not while a capture is announced, nor for a request: or this hangs. */
START_TEST(test_B7_C8_the_device_is_not_waited_for_beside_a_capture)
{
    warm_device_info device = {.size = sizeof device};
    void *pointer = NULL;
    wt_gate *gate;
    char *block;

    wt_ok(warm_stream_retire(runtime, second));
    block = take(second, 8 * MIB);
    gate = wt_gate_close(runtime, second);
    wt_gate_await(gate);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block));
    wt_ok(warm_capture_announce(runtime, first));
    ck_assert_uint_eq(empty(), 0);
    wt_ok(warm_capture_over(runtime, first));
    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 8.0 * MIB / (double)device.total_bytes));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 2 * MIB, &pointer));
    ck_assert_uint_eq(calls_of("device_synchronize"), 0);
    wt_gate_open(gate);
}
END_TEST

/* No copy of ours: that would record the stream. Here memory is the process's
 * own on both backends. */
static void touch(void *block)
{
    memset(block, 3, 8 * MIB);
}

/* The default stream lives for ever. */
START_TEST(test_C4_C8_the_legacy_stream_is_waited_for)
{
    struct pair pair = {NULL, 0, NULL};
    char *block = take(NULL, 8 * MIB);

    pair.gate = wt_gate_close(runtime, NULL);
    wt_gate_await(pair.gate);
    wt_ok(warm_stream_host_func(runtime, NULL, touch, block));
    wt_ok(warm_free(block));
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
}
END_TEST

static warm_status counting_release(wm_driver *d, int device, void *range,
                                    size_t bytes)
{
    ranges_back++;
    return real->range_release(d, device, range, bytes);
}

/* And when the runtime ends: all of it, and the addresses. */
START_TEST(test_C8_G2_at_the_end_of_a_runtime_all_goes_back)
{
    char *block;

    wt_ok(warm_stream_retire(runtime, second));
    block = take(second, 8 * MIB);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block));
    wt_ok(warm_free(take(WARM_STREAM_PER_THREAD, 5000)));
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ops.range_release = counting_release;
    wt_ok(warm_stream_destroy(runtime, first));
    wt_runtime_end(runtime);
    ck_assert_uint_eq(ranges_back, 2);
}
END_TEST

/* ---- out of memory, and calls that fail -----------------------------------
 */

/* The limit is of memory, not of addresses; what is idle counts once. */
/* Too little is idle to be given back for what comes. */
START_TEST(test_C8_what_is_idle_goes_above_a_threshold)
{
    warm_device_info device = {.size = sizeof device};
    char *block[4];

    wt_ok(warm_device_get_info(runtime, 0, &device));
    block[0] = take(first, 34 * MIB);
    block[1] = take(first, 2 * MIB);
    block[2] = take(first, 16 * MIB);
    wt_ok(warm_free(block[1]));
    block[1] = take(second, 4 * MIB);
    ck_assert_uint_eq(held_now(), 56 * MIB);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_device_set_collect_threshold(
        runtime, 0, 60.0 * MIB / (double)device.total_bytes));
    block[3] = take(second, 4 * MIB);
    ck_assert_uint_eq(held_now(), 60 * MIB);
    wt_ok(warm_free(block[3]));
    block[3] = take(second, 8 * MIB);
    ck_assert_uint_eq(held_now(), 62 * MIB);
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_free(block[i]));
    }
}
END_TEST

START_TEST(test_C2_C8_the_limit_is_of_what_is_committed)
{
    warm_device_info device = {.size = sizeof device};
    void *pointer = &pointer;
    char *block = take(first, 10 * MIB);

    wt_ok(warm_free(block));
    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 16.0 * MIB / (double)device.total_bytes));
    block = take(first, 16 * MIB);
    ck_assert_uint_eq(held_now(), 16 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 2 * MIB, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert(!wt_on_host() ||
              strstr(warm_last_error_message(),
                     "on device 0, of 256.0 MiB, 240.0 MiB of them free"));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "limit 16.0 MiB"));
    check();
    /* The place that was looked at is there still. */
    wt_ok(warm_device_set_memory_fraction(runtime, 0, 1));
    pointer = take(first, 2 * MIB);
    ck_assert_ptr_eq(pointer, block + 16 * MIB);
    wt_ok(warm_free(pointer));
    wt_ok(warm_free(block));
    (void)empty();
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 16.0 * MIB / (double)device.total_bytes));
    /* Of another sort: what is idle goes for it. */
    block = take(first, 3000);
    ck_assert_uint_le(held_now(), 16 * MIB);
    check();
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_C2_C8_a_commit_that_fails_changes_nothing)
{
    char *block = take(first, 10 * MIB), *base;
    void *pointer = NULL;

    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 1, 1));
    wt_ok(warm_testing_fail(runtime, "range_commit", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 14 * MIB, &pointer));
    /* Once: nobody was beside it. */
    ck_assert_uint_eq(calls_of("range_commit"), 2);
    ck_assert_ptr_null(pointer);
    check();
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ck_assert_uint_eq(stats_now().all.reserved_bytes.allocated, 10 * MIB);
    /* What was claimed for it is still there. */
    ck_assert_ptr_eq(take(first, 10 * MIB), block);
    ck_assert_uint_eq(extent_of(block, &base), 10 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "range_commit", 0, 0));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    ck_assert_ptr_eq(take(first, 14 * MIB), block);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_C8_what_the_driver_does_not_take_stays_in_the_cache)
{
    char *block = take(first, 10 * MIB);

    fill(block, 10 * MIB, 7);
    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 1, 1));
    ck_assert_uint_eq(empty(), 0);
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ck_assert_ptr_eq(take(first, 10 * MIB), block);
    assert_filled(block, 10 * MIB, 7);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 10 * MIB);
}
END_TEST

/* What nobody knows to have memory or not is held, lost, and never touched. */
START_TEST(test_C2_B14_what_a_commit_leaves_behind_is_lost)
{
    void *pointer = NULL;
    char *block = take(first, 10 * MIB), *other, *base;

    wt_ok(warm_free(block));
    tears = true;
    wt_fails(WARM_DRIVER_ERROR, try(first, 14 * MIB, &pointer));
    tears = false;
    check();
    ck_assert_uint_eq(held_now(), 14 * MIB);
    ck_assert_uint_eq(stats_now().lost, 1);
    ck_assert_uint_eq(stats_now().lost_bytes, 4 * MIB);
    wt_fails(WARM_INVALID_POINTER, warm_free(block + 11 * MIB));
    /* What was claimed for it is there, what comes goes elsewhere. */
    ck_assert_ptr_eq(take(first, 10 * MIB), block);
    other = take(first, 4 * MIB);
    ck_assert_ptr_eq(other, block + 14 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_free(other));
    ck_assert_uint_eq(empty(), 14 * MIB);
    ck_assert_uint_eq(held_now(), 4 * MIB);
    ck_assert_uint_gt(extent_of(take(first, 3000), &base), 0);
    wt_ok(warm_free(base));
}
END_TEST

START_TEST(test_C8_B14_what_a_decommit_leaves_behind_is_lost)
{
    char *block = take(first, 10 * MIB), *other;

    wt_ok(warm_free(block));
    tears = true;
    ck_assert_uint_eq(empty(), 0);
    tears = false;
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ck_assert_uint_eq(stats_now().lost_bytes, 10 * MIB);
    ck_assert_uint_eq(empty(), 0);
    other = take(first, 10 * MIB);
    ck_assert_ptr_eq(other, block + 10 * MIB);
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    wt_ok(warm_free(other));
    ck_assert_uint_eq(empty(), 10 * MIB);
}
END_TEST

/* Nobody allocated what is lost, whose record was somebody's before. */
START_TEST(test_C7_C8_what_is_lost_is_nobodys)
{
    static char text[1 << 16];
    char *block[3], *lost;
    void *pointer = NULL;

    wt_ok(warm_memory_tag_set("somebody"));
    for (int i = 0; i < 3; i++) {
        block[i] = take(second, 6 * MIB);
    }
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_free(block[i]));
    }
    wt_ok(warm_stream_synchronize(runtime, second));
    (void)empty();
    wt_ok(warm_memory_tag_set(NULL));
    tears = true;
    wt_fails(WARM_DRIVER_ERROR, try(first, 3 * MIB, &pointer));
    tears = false;
    wt_ok(warm_device_snapshot(runtime, 0, text, sizeof text, NULL));
    lost = strstr(text, "\"state\":\"lost\"");
    ck_assert_ptr_nonnull(lost);
    *strchr(lost, '}') = '\0';
    ck_assert_ptr_nonnull(strstr(lost, "\"stream\":null"));
    ck_assert_ptr_null(strstr(lost, "\"thread\""));
    ck_assert_ptr_null(strstr(lost, "somebody"));
}
END_TEST

/* Whoever listens to the log may allocate, also where memory is what comes for
 * the request that the log speaks of. */
static struct {
    size_t bytes;
    void *got;
    warm_status status;
    bool called;
} listener;

static void allocate(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    if (!listener.called) {
        listener.called = true;
        tears = false;
        listener.status = try(second, listener.bytes, &listener.got);
    }
}

static unsigned commits;

/* As if another growth had failed beside the first, so that there is a second
 * one alone: that one is torn. */
static warm_status commit_torn_alone(wm_driver *d, int device, void *range,
                                     size_t offset, size_t bytes, bool *torn)
{
    wm_growth *growth = &space_now()->growth;

    switch (commits++) {
    case 0:
        wm_lock_acquire(&growth->lock);
        growth->vacated++;
        wm_lock_release(&growth->lock);
        return wm_fail(WARM_OUT_OF_MEMORY, "refused by a test");
    case 1:
        return tear(torn);
    default:
        return real->range_commit(d, device, range, offset, bytes, torn);
    }
}

/* A part that does not come, one that does not for who tries alone, and one
 * that does not go where another comes: runs of the loop. Or these hang. */
START_TEST(test_C2_B14_who_is_told_of_trouble_may_allocate)
{
    void *pointer = NULL;
    char *idle = take(first, 2 * MIB), *kept = take(first, 2 * MIB);

    if (_i == 1) {
        ops.range_commit = commit_torn_alone;
    } else if (_i == 2) {
        ops.range_commit = real->range_commit;
        wt_ok(warm_stream_synchronize(runtime, first));
        wt_ok(warm_free(idle));
        idle = NULL;
    }
    listener.called = false;
    listener.bytes = _i == 1 ? 6 * MIB : MIB;
    commits = 0;
    tears = true;
    warm_log_set(allocate, NULL);
    if (_i < 2) {
        wt_fails(WARM_DRIVER_ERROR, try(second, 3 * MIB, &pointer));
        ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "torn"));
    } else {
        pointer = take(second, 3 * MIB);
    }
    warm_log_set(NULL, NULL);
    ck_assert(listener.called);
    wt_ok(listener.status);
    check();
    wt_ok(warm_free(listener.got));
    wt_ok(warm_free(pointer));
    wt_ok(warm_free(idle));
    wt_ok(warm_free(kept));
}
END_TEST

START_TEST(test_C8_addresses_that_cannot_be_had_are_out_of_memory)
{
    void *pointer = NULL;

    wt_ok(warm_testing_fail(runtime, "range_reserve", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 3000, &pointer));
    wt_ok(warm_testing_fail(runtime, "range_reserve", 0, 0));
    ck_assert_uint_eq(held_now(), 0);
    wt_ok(warm_free(take(first, 3000)));
}
END_TEST

/* ---- while one grows --------------------------------------------------------
 */

struct growing {
    char *idle, *before, *got;
};

/* What a growth has claimed is idle for who looks. */
static void require_idle(const char *address)
{
    static char text[1 << 16];
    char wanted[64];
    const char *block;

    wt_ok(warm_device_snapshot(runtime, 0, text, sizeof text, NULL));
    snprintf(wanted, sizeof wanted, "{\"address\":\"%p\",\"bytes\":%zu,\"state",
             (const void *)address, 10 * MIB);
    block = strstr(text, wanted);
    wt_require(block != NULL && strncmp(strstr(block, "\"state\":"),
                                        "\"state\":\"idle\"", 14) == 0,
               "%s is not in %s, or not idle", wanted, text);
}

static void grow_beside(void *argument, unsigned index)
{
    struct growing *g = argument;
    void *got = NULL;
    char *other;

    if (index == 0) {
        wt_ok(try(first, 14 * MIB, &got));
        g->got = got;
        return;
    }
    await(&inside, true);
    check();
    require_idle(g->idle);
    /* What is claimed is nobody else's, and what comes back beside it is no
     * part of it; the small ones grow meanwhile, if that is asked for. */
    wt_ok(warm_free(g->before));
    wt_ok(warm_testing_fail(runtime, "range_commit", 1, 1));
    if (try(first, 4 * MIB, &got) == WARM_OK) {
        other = got;
        wt_require(other < g->idle || other >= g->idle + 10 * MIB,
                   "claimed memory was handed out");
        wt_ok(warm_free(other));
    }
    wt_ok(warm_testing_fail(runtime, "range_commit", 0, 0));
    check();
    set(&closed, false);
}

START_TEST(test_C3_C8_others_go_on_while_one_grows)
{
    struct growing g = {0};

    g.before = take(first, 6 * MIB);
    g.idle = take(first, 10 * MIB);
    wt_ok(warm_free(g.idle));
    set(&inside, false);
    set(&closed, true);
    wt_threads(2, grow_beside, &g);
    check();
    ck_assert_ptr_eq(g.got, g.before);
    ck_assert_uint_eq(held_now(), 20 * MIB);
    fill(g.got, 14 * MIB, 1);
    assert_filled(g.got, 14 * MIB, 1);
    wt_ok(warm_free(g.got));
}
END_TEST

/* A stream that has gone, and how often the driver was told of it. */
static warm_stream gone;
static unsigned named;

/* A growth of much more than there is, which has had some of it. */
enum { MUCH = 100 };
static _Atomic bool refused;

static warm_status doomed_commit(wm_driver *d, int device, void *range,
                                 size_t offset, size_t bytes, bool *torn)
{
    void *some = NULL;
    size_t available = 0, total = 0;
    warm_status status;

    if (bytes < MUCH * MIB) {
        status = real->range_commit(d, device, range, offset, bytes, torn);
        set(&refused, status != WARM_OK || is_set(&refused));
        return status;
    }
    if (!is_set(&inside)) {
        wt_ok(real->device_memory(d, device, &available, &total));
        wt_ok(real->device_alloc(d, device, available - MIB, &some));
        set(&inside, true);
        await(&refused, true);
        wt_ok(real->device_free(d, device, some));
    }
    return wm_fail(WARM_OUT_OF_MEMORY, "the device has not so much");
}

struct two {
    warm_status status[2];
    void *got[2];
};

static void ask_for_much_or_little(void *argument, unsigned index)
{
    struct two *two = argument;

    if (index == 1) {
        await(&inside, true);
    }
    two->status[index] = try(index == 0 ? first : second,
                             (index == 0 ? MUCH : 10) * MIB, &two->got[index]);
}

/* Who is refused beside it tries again without it. */
START_TEST(test_C2_C8_a_growth_that_fails_takes_no_other_with_it)
{
    struct two two = {{WARM_OK, WARM_OK}, {NULL, NULL}};

    set(&inside, false);
    set(&refused, false);
    ops.range_commit = doomed_commit;
    wt_threads(2, ask_for_much_or_little, &two);
    ck_assert_int_eq(two.status[0], WARM_OUT_OF_MEMORY);
    wt_ok(two.status[1]);
    ck_assert_uint_eq(held_now(), 10 * MIB);
    wt_ok(warm_free(two.got[1]));
    /* Nobody waits for one that has tried. */
    ck_assert_ptr_null(space_now()->growth.alone);
    wt_ok(warm_free(take(first, 20 * MIB)));
}
END_TEST

static void ask_or_open(void *argument, unsigned index)
{
    struct pair *pair = argument;

    if (index == 0) {
        pair->released = (size_t)try(first, 14 * MIB, &pair->block);
    } else {
        nothing(pair->gate, 0);
    }
}

/* What is freed and waits for a stream is waited for before memory is out, be
 * that retired or not. */
START_TEST(test_C2_C8_a_request_waits_for_what_waits_for_streams)
{
    struct pair pair = {NULL, 0, NULL};
    warm_device_info device = {.size = sizeof device};
    char *block = take(first, 10 * MIB);

    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 16.0 * MIB / (double)device.total_bytes));
    pair.gate = wt_gate_close(runtime, second);
    wt_gate_await(pair.gate);
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    if (_i == 1) {
        wt_ok(warm_stream_retire(runtime, second));
    }
    wt_threads(2, ask_or_open, &pair);
    ck_assert_int_eq((int)pair.released, WARM_OK);
    ck_assert_uint_le(held_now(), 16 * MIB);
    check();
    wt_ok(warm_free(pair.block));
}
END_TEST

/* Of the stream that is waited for to make room; meanwhile the other one goes
 * on, and what waited for that comes back. */
static wt_gate *other;

static warm_status synchronize_beside(wm_driver *d, warm_event event)
{
    if (other != NULL) {
        wt_gate_open(other);
        other = NULL;
        wt_ok(real->stream_synchronize(d, second));
    }
    return real->event_synchronize(d, event);
}

/* It came after the request had looked, and before it would have waited. */
START_TEST(test_C2_C8_what_comes_back_while_room_is_made_is_looked_for)
{
    warm_device_info device = {.size = sizeof device};
    char *block = take(first, 10 * MIB), *idle = take(first, MIB);
    char *kept = take(first, MIB);

    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 16.0 * MIB / (double)device.total_bytes));
    other = wt_gate_close(runtime, second);
    wt_gate_await(other);
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    wt_ok(warm_free(idle)); /* no whole unit */
    ops.event_synchronize = synchronize_beside;
    block = take(first, 14 * MIB);
    ck_assert_ptr_null(other);
    ck_assert_uint_eq(held_now(), 16 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_free(kept));
}
END_TEST

/* What makes room is no whole unit, which could go, but does for the request:
 * of a default stream, whose memory no poll brings. */
START_TEST(test_C2_C8_what_is_waited_for_to_make_room_is_looked_for)
{
    warm_device_info device = {.size = sizeof device};
    char *block[2];

    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 4.0 * MIB / (double)device.total_bytes));
    block[0] = take(NULL, MIB);
    block[1] = take(NULL, MIB);
    wt_ok(warm_free(block[1]));
    block[1] = take(first, 3 * MIB);
    ck_assert_ptr_eq(block[1], block[0] + MIB);
    ck_assert_uint_eq(held_now(), 4 * MIB);
    wt_ok(warm_free(block[0]));
    wt_ok(warm_free(block[1]));
}
END_TEST

static warm_status counting_mark(wm_driver *d, warm_event event,
                                 warm_stream stream, wm_capture *capture)
{
    named += stream == gone;
    return real->event_mark(d, event, stream, capture);
}

/* But not for a stream that nobody promised to live: it may have gone, once the
 * block is freed, and is not named any more. */
START_TEST(test_C2_C4_a_stream_that_is_not_adopted_is_not_waited_for)
{
    warm_device_info device = {.size = sizeof device};
    warm_stream raw;
    void *pointer = NULL, *block = take(first, 10 * MIB);
    wt_gate *gate;

    wt_ok(wm_driver_stream_create(runtime->driver, 0, &raw));
    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 16.0 * MIB / (double)device.total_bytes));
    gate = wt_gate_close(runtime, raw);
    wt_gate_await(gate);
    wt_ok(warm_record_stream(block, raw));
    wt_ok(warm_free(block));
    gone = raw;
    ops.event_mark = counting_mark;
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 14 * MIB, &pointer));
    ck_assert_uint_eq(named, 0);
    ops.event_mark = real->event_mark;
    wt_gate_open(gate);
    wt_ok(wm_driver_stream_synchronize(runtime->driver, raw));
    wt_ok(warm_poll(runtime));
    wt_ok(wm_driver_stream_destroy(runtime->driver, raw));
}
END_TEST

/* The growth of much is refused twice, the second time alone: then another
 * thread has taken care that it has a stream to wait for. */
static warm_status alone_commit(wm_driver *d, int device, void *range,
                                size_t offset, size_t bytes, bool *torn)
{
    wm_growth *growth = &space_now()->growth;

    if (bytes < MUCH * MIB || commits == 2) {
        return real->range_commit(d, device, range, offset, bytes, torn);
    }
    if (commits++ == 0) {
        wm_lock_acquire(&growth->lock);
        growth->vacated++;
        wm_lock_release(&growth->lock);
    } else {
        set(&inside, true);
        await(&closed, false);
    }
    return wm_fail(WARM_OUT_OF_MEMORY, "refused by a test");
}

struct held_up {
    struct two two;
    wt_gate *gate;
    void *idle;
};

static void ask_for_much_or_hold_up(void *argument, unsigned index)
{
    struct held_up *h = argument;

    if (index == 0) {
        h->two.status[0] = try(second, MUCH * MIB, &h->two.got[0]);
        return;
    }
    await(&inside, true);
    h->gate = wt_gate_close(runtime, first);
    wt_gate_await(h->gate);
    (void)warm_free(h->idle);
    set(&closed, false);
    h->two.status[1] = try(second, 6 * MIB, &h->two.got[1]);
    wt_gate_open(h->gate);
}

/* Who waits for a stream keeps nobody from growing, who lets that stream go on
 * then: or this hangs. */
START_TEST(test_C2_C8_others_grow_while_one_that_tried_alone_waits)
{
    struct held_up h = {.gate = NULL};

    h.idle = take(first, 8 * MIB);
    set(&inside, false);
    set(&closed, true);
    ops.range_commit = alone_commit;
    wt_threads(2, ask_for_much_or_hold_up, &h);
    for (int i = 0; i < 2; i++) {
        wt_ok(h.two.status[i]);
        wt_ok(warm_free(h.two.got[i]));
    }
    ck_assert_uint_eq(commits, 2);
    ck_assert_ptr_null(space_now()->growth.alone);
}
END_TEST

static warm_status slow_reserve(wm_driver *d, int device, size_t bytes,
                                void **range)
{
    wt_linger linger = {0};

    set(&inside, true);
    await(&closed, false);
    while (wt_lingers(&linger)) { /* for the other one, if it comes */
    }
    return real->range_reserve(d, device, bytes, range);
}

static void ask_for_some(void *argument, unsigned index)
{
    struct two *two = argument;

    if (index == 1) {
        await(&inside, true);
        set(&closed, false);
    }
    two->status[index] =
        try(index == 0 ? first : second, 6 * MIB, &two->got[index]);
}

START_TEST(test_C3_C8_two_first_growths_have_one_range)
{
    struct two two = {{WARM_OK, WARM_OK}, {NULL, NULL}};

    set(&inside, false);
    set(&closed, true);
    ops.range_reserve = slow_reserve;
    wt_threads(2, ask_for_some, &two);
    for (int i = 0; i < 2; i++) {
        wt_ok(two.status[i]);
        wt_ok(warm_free(two.got[i]));
    }
    ck_assert_uint_eq(calls_of("range_reserve"), 1);
    ck_assert_uint_eq(stats_now().large.segments.current, 1);
}
END_TEST

/* ---- what else sees segments ------------------------------------------------
 */

START_TEST(test_C8_C9_it_cannot_be_shared_and_says_why)
{
    warm_ipc_handle handle = {.size = sizeof handle};
    char *block = take(first, 3 * MIB);

    wt_fails(WARM_UNSUPPORTED, warm_ipc_export(block, &handle));
    ck_assert_ptr_nonnull(
        strstr(warm_last_error_message(), "expandable_segments"));
    ck_assert_uint_eq(handle.pid, 0);
    wt_ok(warm_free(block));
}
END_TEST

/* Private pools have segments of their own: those go back whole, with the
 * pool. */
START_TEST(test_C8_E3_private_pools_have_ordinary_segments)
{
    warm_private_pool pool = 0;
    char *block;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    block = take(first, 3 * MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_uint_eq(wm_space_find(block)->segment->unit, 0);
    ck_assert_uint_eq(calls_of("range_reserve"), 0);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_release(runtime, pool));
    block = take(first, 3 * MIB);
    ck_assert_uint_gt(wm_space_find(block)->segment->unit, 0);
    wt_ok(warm_free(block));
}
END_TEST

/* What is idle elsewhere goes for a user's own, once its stream has passed. */
START_TEST(test_C8_E3_for_a_private_pool_streams_are_waited_for)
{
    warm_device_info device = {.size = sizeof device};
    warm_private_pool pool = 0;
    char *block = take(NULL, 10 * MIB);

    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_device_set_memory_fraction(
        runtime, 0, 16.0 * MIB / (double)device.total_bytes));
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
    block = take(first, 8 * MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_uint_eq(held_now(), 8 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_release(runtime, pool));
}
END_TEST

/* Of a pool that has gone blocks come back one by one: none of them waits for
 * streams, whose ranges those of the pool are not. */
START_TEST(test_C8_E3_blocks_of_a_pool_that_has_gone_wait_for_no_stream)
{
    warm_private_pool pool = 0;
    char *of_pool[2], *block;
    wt_gate *gate;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    of_pool[0] = take(first, MIB);
    of_pool[1] = take(first, MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    block = take(second, 3 * MIB);
    gate = wt_gate_close(runtime, second);
    wt_gate_await(gate);
    wt_ok(warm_free(block));
    wt_ok(warm_free(of_pool[0]));
    wt_ok(warm_poll(runtime));
    wt_gate_open(gate);
    wt_ok(warm_free(of_pool[1]));
}
END_TEST

/* Fewer of them will do: there may be several ranges. */
START_TEST(test_C8_fewer_addresses_will_do)
{
    warm_device_info device = {.size = sizeof device};
    warm_error before = {.size = sizeof before}, after = {.size = sizeof after};
    void *small;
    size_t all;

    wt_ok(warm_device_get_info(runtime, 0, &device));
    wt_ok(warm_testing_fail(runtime, "range_reserve", 1, 0));
    warm_last_error(&before);
    small = take(first, 3000);
    warm_last_error(&after);
    ck_assert_int_eq(after.status, before.status);
    wt_ok(warm_testing_fail(runtime, "range_reserve", 0, 0));
    ck_assert_uint_eq(calls_of("range_reserve"), 2);
    all = device.total_bytes + device.total_bytes / 8;
    ck_assert_uint_ge(wm_space_find(small)->segment->bytes, all / 2);
    ck_assert_uint_lt(wm_space_find(small)->segment->bytes, all / 2 + 4 * MIB);
    check();
    wt_ok(warm_free(small));
}
END_TEST

START_TEST(test_C2_C8_no_addresses_are_had_for_what_no_device_has)
{
    void *pointer = &pointer;

    wt_fails(WARM_OUT_OF_MEMORY, try(first, (size_t)1 << 44, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(calls_of("range_reserve"), 0);
    ck_assert_uint_eq(calls_of("range_commit"), 0);
}
END_TEST

static unsigned extents_in(char *text, size_t bytes)
{
    const char *at = text;
    unsigned expandable = 0;

    wt_ok(warm_memory_viz(runtime, text, bytes, NULL));
    while ((at = strstr(at, "\"is_expandable\":true")) != NULL) {
        expandable++;
        at++;
    }
    return expandable;
}

/* Memory in two extents, as PyTorch's visualiser wants it; then in the second
 * alone. */
START_TEST(test_C7_C8_snapshots_show_what_has_memory)
{
    static char text[1 << 16];
    char *block[3];

    for (int i = 0; i < 3; i++) {
        block[i] = take(first, 6 * MIB);
    }
    wt_ok(warm_free(block[1]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    ck_assert_uint_eq(extents_in(text, sizeof text), 2);
    ck_assert_ptr_nonnull(strstr(text, "\"action\":\"segment_map\""));
    ck_assert_ptr_nonnull(strstr(text, "\"action\":\"segment_unmap\""));
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    ck_assert_uint_eq(extents_in(text, sizeof text), 1);
    wt_ok(warm_free(block[2]));
}
END_TEST

/* A pointer into a hole is nobody's, also to its first byte. */
START_TEST(test_C8_C10_pointers_into_holes_are_refused)
{
    char *block = take(first, 6 * MIB), *kept = take(first, 2 * MIB);

    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 6 * MIB);
    for (size_t at = 0; at < 6 * MIB; at += MIB) {
        wt_fails(WARM_INVALID_POINTER, warm_free(block + at));
    }
    ck_assert_ptr_null(wm_space_find(kept + 8 * MIB));
    check();
    wt_ok(warm_free(kept));
}
END_TEST

/* ---- random runs ------------------------------------------------------------
 */

enum { HELD = 40 };

START_TEST(test_C3_C8_random_sizes_and_trims)
{
    uint64_t random = wt_seed();
    char *block[HELD] = {NULL};
    size_t bytes[HELD] = {0};

    for (unsigned step = 0; step < wt_scaled(1500); step++) {
        size_t i = wt_random(&random) % HELD;
        warm_stream stream = wt_random(&random) % 3 == 0 ? second : first;
        void *got = NULL;

        if (block[i] != NULL) {
            wt_ok(warm_free(block[i]));
            block[i] = NULL;
        } else {
            bytes[i] = ((size_t)1 << (10 + wt_random(&random) % 14)) +
                       wt_random(&random) % 5000;
            if (try(stream, bytes[i], &got) == WARM_OK) {
                block[i] = got;
            }
        }
        if (step % 50 == 0) {
            wt_ok(warm_device_trim(runtime, 0, wt_random(&random) % (64 * MIB),
                                   NULL));
        }
        if (step % 70 == 0) {
            wt_ok(warm_testing_fail(runtime, "range_commit", 3, 0));
            wt_ok(warm_testing_fail(runtime, "range_decommit", 3, 0));
        }
        check();
        for (size_t k = 0; k < HELD; k++) {
            wt_require(k == i || block[k] == NULL || block[i] == NULL ||
                           block[k] + bytes[k] <= block[i] ||
                           block[i] + bytes[i] <= block[k],
                       "two blocks overlap");
        }
    }
    wt_ok(warm_testing_fail(runtime, "range_commit", 0, 0));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    for (size_t i = 0; i < HELD; i++) {
        wt_ok(warm_free(block[i]));
    }
    (void)empty();
    ck_assert_uint_eq(held_now(), 0);
    ck_assert_uint_eq(stats_now().all.segments.current, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("expandable");
    TCase *tcase = tcase_create("expandable");
    TCase *bare = tcase_create("bare");
    TCase *last = tcase_create("last");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_checked_fixture(last, setup, NULL);
    tcase_add_test(last, test_C8_G2_at_the_end_of_a_runtime_all_goes_back);
    suite_add_tcase(suite, last);
    tcase_add_test(tcase, test_C3_C8_growth_extends_what_is_idle);
    tcase_add_test(tcase, test_C3_C8_holes_are_filled_where_least_is_missing);
    tcase_add_test(tcase, test_C3_C8_a_hole_joins_what_is_idle_on_both_sides);
    tcase_add_test(tcase, test_C8_growth_takes_the_place_of_what_is_idle);
    tcase_add_test(tcase, test_C8_what_is_idle_longest_goes_first);
    tcase_add_test(tcase, test_C1_C3_growth_takes_nothing_of_another_stream);
    tcase_add_test(tcase, test_C3_C8_a_full_range_is_followed_by_another);
    tcase_add_test(tcase,
                   test_C8_trim_takes_whole_units_and_no_more_than_it_must);
    tcase_add_test(tcase, test_C4_C8_memory_goes_back_behind_the_work_on_it);
    tcase_add_test(
        tcase,
        test_C4_C8_for_a_stream_that_is_not_adopted_the_device_is_waited_for);
    tcase_add_test(tcase,
                   test_B7_C8_the_device_is_not_waited_for_beside_a_capture);
    tcase_add_test(tcase, test_C2_B14_what_a_commit_leaves_behind_is_lost);
    tcase_add_test(tcase, test_C8_B14_what_a_decommit_leaves_behind_is_lost);
    tcase_add_test(tcase,
                   test_C2_C8_a_growth_that_fails_takes_no_other_with_it);
    tcase_add_loop_test(
        tcase, test_C2_C8_a_request_waits_for_what_waits_for_streams, 0, 2);
    tcase_add_test(tcase,
                   test_C2_C8_what_comes_back_while_room_is_made_is_looked_for);
    tcase_add_test(tcase,
                   test_C2_C8_what_is_waited_for_to_make_room_is_looked_for);
    tcase_add_test(tcase,
                   test_C2_C4_a_stream_that_is_not_adopted_is_not_waited_for);
    tcase_add_test(tcase,
                   test_C2_C8_others_grow_while_one_that_tried_alone_waits);
    tcase_add_test(tcase, test_C7_C8_what_is_lost_is_nobodys);
    tcase_add_loop_test(tcase, test_C2_B14_who_is_told_of_trouble_may_allocate,
                        0, 3);
    tcase_add_test(tcase, test_C3_C8_two_first_growths_have_one_range);
    tcase_add_test(tcase, test_C4_C8_the_legacy_stream_is_waited_for);
    tcase_add_test(tcase, test_C4_C8_work_that_comes_later_is_not_waited_for);
    tcase_add_test(tcase, test_C8_a_trim_that_is_met_waits_for_nobody);
    tcase_add_test(tcase, test_C8_what_is_idle_goes_above_a_threshold);
    tcase_add_test(tcase, test_C2_C8_the_limit_is_of_what_is_committed);
    tcase_add_test(tcase, test_C2_C8_a_commit_that_fails_changes_nothing);
    tcase_add_test(tcase,
                   test_C8_what_the_driver_does_not_take_stays_in_the_cache);
    tcase_add_test(tcase,
                   test_C8_addresses_that_cannot_be_had_are_out_of_memory);
    tcase_add_test(tcase, test_C8_fewer_addresses_will_do);
    tcase_add_test(tcase, test_C3_C8_others_go_on_while_one_grows);
    tcase_add_test(tcase, test_C8_C9_it_cannot_be_shared_and_says_why);
    tcase_add_test(tcase, test_C8_E3_private_pools_have_ordinary_segments);
    tcase_add_test(tcase, test_C8_E3_for_a_private_pool_streams_are_waited_for);
    tcase_add_test(
        tcase, test_C8_E3_blocks_of_a_pool_that_has_gone_wait_for_no_stream);
    tcase_add_test(tcase,
                   test_C2_C8_no_addresses_are_had_for_what_no_device_has);
    tcase_add_test(tcase, test_C7_C8_snapshots_show_what_has_memory);
    tcase_add_test(tcase, test_C8_C10_pointers_into_holes_are_refused);
    tcase_add_test(tcase, test_C3_C8_random_sizes_and_trims);
    suite_add_tcase(suite, tcase);
    tcase_add_test(bare, test_C3_C8_a_trace_that_fragments_segments_needs_less);
    suite_add_tcase(suite, bare);
    return wt_main(suite);
}
