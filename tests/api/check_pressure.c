/* check_pressure.c: watermarks, totals and the trim of everything (rows F7, F8,
 * F11), through the public interface. */
#include "wt.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;

static void begin(warm_options options)
{
    options.size = sizeof options;
    options.segment = 2 * MIB;
    options.limit_wait_ms = 1;
    runtime = wt_runtime(&options);
    stream = wt_stream(runtime, 0);
}

static void setup(void)
{
    begin((warm_options){.size = 0});
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static warm_watermarks marks_of(int memory)
{
    warm_watermarks marks = WARM_INIT(warm_watermarks);

    wt_ok(warm_watermarks_get(runtime, memory, &marks));
    return marks;
}

static uint64_t left_of(int memory)
{
    uint64_t bytes = 1;

    wt_ok(warm_low_watermark_value(runtime, memory, &bytes));
    return bytes;
}

static warm_memory_totals totals_of(int memory)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);

    wt_ok(warm_memory_get_totals(runtime, memory, &totals));
    return totals;
}

static uint64_t held_of(int memory)
{
    return totals_of(memory).held_bytes;
}

/* Of any memory: a block, idle again at once if it is freed. */
static warm_status take(int memory, size_t bytes, void **block)
{
    return memory == WARM_MEMORY_OF_HOST
               ? warm_pinned_alloc(runtime, bytes, block)
               : warm_device_alloc(runtime, 0, stream, bytes, block);
}

static void *taken(int memory, size_t bytes)
{
    void *block = NULL;

    wt_ok(take(memory, bytes, &block));
    return block;
}

enum { MEMORIES = 2 };
static const int memories[MEMORIES] = {WARM_MEMORY_OF_HOST, 0};

/* ---- watermarks ---------------------------------------------------------- */

WT_CASE("watermarks", .setup = setup, .teardown = teardown);

/* The budget of the host changes while other programs run. */
WT_LOOP_TEST(test_F7_default_watermarks_are_ratios, MEMORIES)
{
    warm_watermarks marks = marks_of(memories[_i]);
    double rest = memories[_i] == 0 ? 0 : 0.1;

    ck_assert(marks.high_ratio == 1.7 && marks.low_ratio == 1.0);
    ck_assert_uint_gt(marks.recommended_bytes, 0);
    ck_assert(fabs((double)marks.high_bytes / (double)marks.recommended_bytes -
                   1.7) <= rest + 1e-6);
    ck_assert(fabs((double)marks.low_bytes / (double)marks.recommended_bytes -
                   1) <= rest + 1e-6);
    marks = marks_of(WARM_MEMORY_OF_ALL);
    ck_assert_uint_eq(marks.high_bytes + marks.low_bytes, 0);
    ck_assert_uint_gt(marks.recommended_bytes, 0);
    ck_assert_uint_eq(left_of(WARM_MEMORY_OF_ALL), UINT64_MAX);
}

WT_LOOP_TEST(test_F7_watermarks_are_read_back_in_ratios_and_bytes, MEMORIES)
{
    int memory = memories[_i];
    warm_watermarks marks;

    wt_ok(warm_watermarks_set(runtime, memory, 64 * MIB, 32 * MIB));
    marks = marks_of(memory);
    ck_assert_uint_eq(marks.high_bytes, 64 * MIB);
    ck_assert_uint_eq(marks.low_bytes, 32 * MIB);
    ck_assert(fabs(marks.high_ratio * (double)marks.recommended_bytes -
                   64.0 * MIB) < 1);
    wt_ok(warm_watermarks_set_ratio(runtime, memory, 2, 0.5));
    marks = marks_of(memory);
    ck_assert(marks.high_ratio == 2 && marks.low_ratio == 0.5);
    ck_assert_uint_gt(marks.high_bytes, 3 * marks.low_bytes);
    wt_ok(warm_watermarks_set_ratio(runtime, memory, 0, 0));
    marks = marks_of(memory);
    ck_assert_uint_eq(marks.high_bytes + marks.low_bytes, 0);
    ck_assert_uint_eq(left_of(memory), UINT64_MAX);
    /* However little: that is not the same as none. */
    wt_ok(warm_watermarks_set_ratio(runtime, memory, 1e-30, 1e-30));
    ck_assert_uint_eq(marks_of(memory).high_bytes, 1);
    ck_assert_uint_eq(marks_of(memory).low_bytes, 1);
}

/* A refused call names what is wrong, and changes nothing. */
WT_TEST(test_F7_watermarks_out_of_range_are_refused)
{
    warm_watermarks before, after;
    warm_watermarks cut = {.size = 3};
    uint64_t bytes = 7;

    wt_ok(warm_watermarks_set(runtime, 0, 64 * MIB, 32 * MIB));
    before = marks_of(0);
    wt_invalid(warm_watermarks_set(runtime, 0, 8 * MIB, 9 * MIB));
    wt_says("low watermark 9.0 MiB", "8.0 MiB");
    wt_invalid(warm_watermarks_set_ratio(runtime, 0, 2.01, 1));
    wt_says("high watermark 2.01", "0 to 2");
    wt_invalid(warm_watermarks_set_ratio(runtime, 0, 1, 2.01));
    wt_invalid(warm_watermarks_set_ratio(runtime, 0, 1, 1.1));
    wt_says("low watermark 1.1 is above");
    wt_invalid(warm_watermarks_set_ratio(runtime, 0, -0.1, 0));
    wt_invalid(warm_watermarks_set_ratio(runtime, 0, (double)NAN, 0));
    wt_invalid(warm_watermarks_set_ratio(runtime, 0, 1, (double)NAN));
    wt_invalid(warm_watermarks_set(runtime, -3, 0, 0));
    wt_invalid(warm_watermarks_set_ratio(runtime, 4096, 0, 0));
    wt_invalid(warm_watermarks_set(NULL, 0, 0, 0));
    wt_invalid(warm_watermarks_get(runtime, 0, NULL));
    wt_invalid(warm_watermarks_get(runtime, 0, &cut));
    wt_invalid(warm_low_watermark_value(runtime, 0, NULL));
    wt_invalid(warm_low_watermark_value(runtime, 77, &bytes));
    ck_assert_uint_eq(bytes, 7);
    after = marks_of(0);
    ck_assert_mem_eq(&before, &after, sizeof after);
}

/* What the driver refuses meanwhile is no failure of the call. */
WT_TEST(test_F7_watermarks_are_set_though_nothing_goes)
{
    wt_free(taken(WARM_MEMORY_OF_HOST, 8 * MIB));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 4 * MIB, 4 * MIB));
    wt_fails(WARM_DRIVER_ERROR, warm_poll(runtime));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    ck_assert_uint_eq(marks_of(WARM_MEMORY_OF_HOST).high_bytes, 4 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_HOST), 8 * MIB);
}

/* Memory that is idle in a stream's order goes, too. */
WT_TEST(test_F7_idle_memory_of_a_stream_goes)
{
    wt_free(taken(0, 64 * MIB));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_watermarks_set(runtime, 0, 0, 8 * MIB));
    ck_assert_uint_le(held_of(0), 8 * MIB);
}

/* Off: the low one may then be any. */
WT_TEST(test_F7_low_watermark_alone)
{
    wt_ok(warm_watermarks_set(runtime, 0, 0, 32 * MIB));
    ck_assert_uint_eq(marks_of(0).low_bytes, 32 * MIB);
    wt_ok(warm_watermarks_set_ratio(runtime, 0, 0, 1.5));
    ck_assert(marks_of(0).low_ratio == 1.5);
}

WT_LOOP_TEST(test_F7_distance_from_the_low_watermark, MEMORIES)
{
    int memory = memories[_i];
    void *block[3];

    wt_ok(warm_watermarks_set(runtime, memory, 0, 12 * MIB));
    ck_assert_uint_eq(left_of(memory), 12 * MIB);
    for (int i = 0; i < 3; i++) {
        block[i] = taken(memory, 4 * MIB);
        ck_assert_uint_eq(left_of(memory), 12 * MIB - held_of(memory));
    }
    wt_free(taken(memory, 2 * MIB));
    ck_assert_uint_eq(left_of(memory), 0); /* beyond it */
    wt_free_all(block, 3);
}

/* Above it what is idle goes before more comes; what is live stays. */
WT_LOOP_TEST(test_F7_idle_memory_goes_above_the_low_watermark, MEMORIES)
{
    int memory = memories[_i];
    void *block[4];

    wt_ok(warm_watermarks_set(runtime, memory, 0, 40 * MIB));
    for (int i = 0; i < 4; i++) {
        block[i] = taken(memory, 8 * MIB);
    }
    wt_free(block[0], block[1]);
    ck_assert_uint_eq(held_of(memory), 32 * MIB);
    block[0] = taken(memory, 20 * MIB);
    ck_assert_uint_eq(held_of(memory), 36 * MIB);
    /* Set below what is held, it has its effect at once. */
    wt_free(block[2]);
    wt_ok(warm_watermarks_set(runtime, memory, 0, 30 * MIB));
    ck_assert_uint_eq(held_of(memory), 28 * MIB);
    block[1] = taken(memory, 20 * MIB);
    ck_assert_uint_eq(held_of(memory), 48 * MIB);
    wt_free(block[0], block[1], block[3]);
}

static _Atomic uint64_t readings;

/* 20 ms later at each reading. */
static uint64_t jump(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
           (atomic_fetch_add(&readings, 1) + 1) * 20000000;
}

/* A growth that passes it ends, and frees come later: the next requests that
 * miss return what is idle, although none of them grows. */
WT_LOOP_TEST(test_F7_misses_return_what_a_growth_passed_low_by, MEMORIES)
{
    int memory = memories[_i];
    void *block[4];

    wt_ok(warm_watermarks_set(runtime, memory, 0, 16 * MIB));
    for (int i = 0; i < 4; i++) {
        block[i] = taken(memory, 8 * MIB);
    }
    ck_assert_uint_eq(held_of(memory), 32 * MIB);
    wt_free_all(block, 4);
    ck_assert_uint_eq(held_of(memory), 32 * MIB);
    warm_testing_set_clock(jump);
    wt_free(taken(memory, 8 * MIB));
    ck_assert_uint_eq(held_of(memory), 16 * MIB);
    /* What is left is below, and stays. */
    wt_free(taken(memory, 8 * MIB));
    warm_testing_set_clock(NULL);
    ck_assert_uint_eq(held_of(memory), 16 * MIB);
}

/* Frees in an open batch get their event at once. */
WT_TEST(test_F7_open_batches_close_above_the_low_watermark)
{
    void *block;

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 0, 20 * MIB));
    for (int i = 0; i < 20; i++) {
        block = taken(WARM_MEMORY_OF_HOST, 8 * MIB);
        wt_ok(warm_record_stream(block, stream));
        wt_ok(warm_free(block));
        wt_ok(warm_stream_synchronize(runtime, stream));
        ck_assert_uint_le(held_of(WARM_MEMORY_OF_HOST), 20 * MIB);
    }
}

/* Shared buffers are host memory: idle ones make room, and go. */
WT_TEST(test_F7_F11_low_watermark_counts_shared_buffers)
{
    void *shared = NULL, *block;

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 0, 32 * MIB));
    wt_ok(warm_shared_alloc(runtime, 0, 12 * MIB, WARM_USAGE_SHARED, &shared));
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_HOST), 12 * MIB);
    wt_free(shared);
    block = taken(WARM_MEMORY_OF_HOST, 24 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_HOST), 24 * MIB);
    wt_free(block);
}

/* ---- all memory together ------------------------------------------------- */

/* Exact to the byte; what is idle in one memory makes room for another. */
WT_TEST(test_F7_F11_high_watermark_of_all_memory)
{
    void *host, *device, *refused = NULL;

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL, 32 * MIB, 0));
    host = taken(WARM_MEMORY_OF_HOST, 12 * MIB);
    device = taken(0, 20 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_ALL), 32 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, take(0, 2 * MIB, &refused));
    wt_says("limit of 32.0 MiB for all memory");
    wt_fails(WARM_OUT_OF_MEMORY, take(WARM_MEMORY_OF_HOST, 4096, &refused));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_SHARED, &refused));
    ck_assert_ptr_null(refused);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_ALL), 32 * MIB);
    wt_free(host);
    refused = taken(0, 8 * MIB);
    ck_assert_uint_le(held_of(WARM_MEMORY_OF_ALL), 32 * MIB);
    wt_free(device, refused);
    host = taken(WARM_MEMORY_OF_HOST, 30 * MIB);
    wt_free(host);
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL, 0, 0));
    wt_free(taken(0, 32 * MIB));
}

/* A device's memory is obtained in grains of 2 MiB: the last MiB is left. */
WT_TEST(test_F7_the_limit_that_refuses_is_named)
{
    void *refused = NULL;

    wt_ok(warm_watermarks_set(runtime, 0, 5 * MIB, 0));
    wt_fails(WARM_OUT_OF_MEMORY, take(0, 5 * MIB, &refused));
    wt_says("limit of 5.0 MiB is reached");
    wt_ok(warm_watermarks_set(runtime, 0, 0, 0));
}

WT_TEST(test_F7_F11_low_watermark_of_all_memory)
{
    void *host = taken(WARM_MEMORY_OF_HOST, 12 * MIB);

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL, 0, 20 * MIB));
    wt_free(host);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_ALL), 12 * MIB);
    host = taken(0, 16 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_ALL), 16 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_HOST), 0);
    wt_free(host);
}

/* ---- options ------------------------------------------------------------- */

WT_CASE("options");

WT_TEST(test_F7_options_set_watermarks)
{
    begin((warm_options){.pinned_high = 9 * MIB,
                         .pinned_low = 8 * MIB,
                         .device_high = WARM_OFF,
                         .device_low = 7 * MIB,
                         .total_high = 90 * MIB});
    ck_assert_uint_eq(marks_of(WARM_MEMORY_OF_HOST).high_bytes, 9 * MIB);
    ck_assert_uint_eq(marks_of(WARM_MEMORY_OF_HOST).low_bytes, 8 * MIB);
    ck_assert_uint_eq(marks_of(0).high_bytes, 0);
    ck_assert_uint_eq(marks_of(0).low_bytes, 7 * MIB);
    ck_assert_uint_eq(marks_of(WARM_MEMORY_OF_ALL).high_bytes, 90 * MIB);
    ck_assert_uint_eq(marks_of(WARM_MEMORY_OF_ALL).low_bytes, 0);
    teardown();
    /* A default low one stays below. */
    begin((warm_options){.pinned_high = 9 * MIB});
    ck_assert_uint_eq(marks_of(WARM_MEMORY_OF_HOST).low_bytes, 9 * MIB);
    teardown();
}

WT_TEST(test_F7_options_out_of_order_are_refused)
{
    static const warm_options wrong[] = {{.pinned_high = 8, .pinned_low = 9},
                                         {.device_high = 8, .device_low = 9},
                                         {.total_high = 8, .total_low = 9}};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        warm_options options = wrong[i];

        options.size = sizeof options;
        options.device = "host";
        runtime = NULL;
        wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
        wt_says("low watermark is above the high one");
        ck_assert_ptr_null(runtime);
    }
}

/* As a ratio, as bytes, by a call and by an option: twice the recommended
 * maximum is the most, and what is read back can be set again. */
WT_LOOP_TEST(test_F7_no_watermark_is_beyond_twice_the_recommended, 2)
{
    int memory = _i == 0 ? 0 : WARM_MEMORY_OF_ALL;
    warm_watermarks marks;
    uint64_t most;

    begin((warm_options){.host_memory = 64 * MIB});
    marks = marks_of(memory);
    most = 2 * marks.recommended_bytes + (_i == 0 ? 0 : (uint64_t)1 << 40);
    wt_invalid(warm_watermarks_set(runtime, memory, most + 1, 0));
    wt_says("high watermark", "more than 2 times the recommended maximum");
    wt_invalid(warm_watermarks_set(runtime, memory, 0, most + 1));
    wt_says("low watermark", "more than 2 times the recommended maximum");
    ck_assert_uint_eq(marks_of(memory).high_bytes, marks.high_bytes);
    ck_assert_uint_eq(marks_of(memory).low_bytes, marks.low_bytes);
    if (_i == 0) {
        wt_ok(warm_watermarks_set(runtime, memory, most, most));
        marks = marks_of(memory);
        ck_assert(marks.high_ratio == 2.0);
        wt_ok(warm_watermarks_set_ratio(runtime, memory, marks.high_ratio,
                                        marks.low_ratio));
        ck_assert_uint_eq(marks_of(memory).high_bytes, most);
    }
    teardown();
}

/* Of two devices the larger one decides; both have the same memory here. */
WT_TEST(test_F7_options_beyond_twice_the_recommended_are_refused)
{
    static const struct {
        warm_options options;
        const char *name;
    } wrong[] = {{{.device_high = 128 * MIB + 1}, "device_high"},
                 {{.device_low = 128 * MIB + 1}, "device_low"},
                 {{.pinned_high = (uint64_t)1 << 50}, "pinned_high"},
                 {{.pinned_low = (uint64_t)1 << 50}, "pinned_low"},
                 {{.total_high = (uint64_t)1 << 50}, "total_high"},
                 {{.total_low = (uint64_t)1 << 50}, "total_low"}};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        warm_options options = wrong[i].options;

        options.size = sizeof options;
        options.device = "host";
        options.host_devices = 2;
        options.host_memory = 64 * MIB;
        runtime = NULL;
        wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &runtime));
        wt_says(wrong[i].name, "more than 2 times the recommended maximum");
        ck_assert_ptr_null(runtime);
    }
    begin((warm_options){.host_memory = 64 * MIB, .device_high = 128 * MIB});
    ck_assert_uint_eq(marks_of(0).high_bytes, 128 * MIB);
    teardown();
}

WT_TEST(test_F7_G4_watermarks_are_ratios_in_the_environment)
{
    uint64_t there;

    setenv("WARMPOOL_CONF",
           "device_high:0.75,device_low:0.5,total_high:1.0,pinned_high:0.50",
           1);
    begin((warm_options){.host_memory = 64 * MIB});
    there = marks_of(0).recommended_bytes;
    ck_assert_uint_eq(marks_of(0).high_bytes, there / 4 * 3);
    ck_assert_uint_eq(marks_of(0).low_bytes, there / 2);
    ck_assert(marks_of(0).high_ratio == 0.75);
    ck_assert(marks_of(WARM_MEMORY_OF_HOST).high_ratio == 0.5);
    ck_assert_uint_gt(marks_of(WARM_MEMORY_OF_ALL).high_bytes, there);
    teardown();
    unsetenv("WARMPOOL_CONF");
}

/* ---- totals -------------------------------------------------------------- */

WT_CASE("totals", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_F8_totals_of_each_memory, MEMORIES)
{
    int memory = memories[_i];
    void *block = taken(memory, 4 * MIB - 4096);
    warm_memory_totals totals = totals_of(memory);

    ck_assert_uint_ge(totals.in_use_bytes, 4 * MIB - 4096);
    ck_assert_uint_le(totals.in_use_bytes, 4 * MIB);
    ck_assert_uint_eq(totals.held_bytes, 4 * MIB);
    ck_assert_uint_ge(totals.process_bytes, totals.held_bytes);
    ck_assert_uint_gt(totals.recommended_bytes, totals.held_bytes);
    ck_assert_uint_eq(totals.largest_bytes, 0);
    wt_free(block);
    totals = totals_of(memory);
    ck_assert_uint_eq(totals.in_use_bytes, 0);
    ck_assert_uint_eq(totals.held_bytes, 4 * MIB);
    totals = totals_of(WARM_MEMORY_OF_ALL);
    ck_assert_uint_eq(totals.held_bytes, 4 * MIB);
    ck_assert_uint_eq(totals.in_use_bytes, 0);
    wt_invalid(warm_memory_get_totals(runtime, -3, &totals));
    wt_invalid(warm_memory_get_totals(runtime, 0, NULL));
}

WT_TEST(test_F8_totals_include_shared_buffers)
{
    void *shared = NULL, *private = NULL;

    wt_ok(warm_shared_alloc(runtime, 0, MIB, WARM_USAGE_SHARED, &shared));
    wt_ok(warm_shared_alloc(runtime, 0, MIB, WARM_USAGE_PRIVATE, &private));
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_HOST), 8 * MIB);
    ck_assert_uint_eq(held_of(0), 8 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_ALL), 16 * MIB);
    ck_assert_uint_ge(totals_of(WARM_MEMORY_OF_HOST).in_use_bytes, MIB);
    ck_assert_uint_ge(totals_of(0).in_use_bytes, MIB);
    wt_free(shared, private);
}

/* ---- the trim of everything ---------------------------------------------- */

WT_CASE("trim", .setup = setup, .teardown = teardown);

static warm_trim_report trim(uint64_t target)
{
    warm_trim_report report = WARM_INIT(warm_trim_report);

    wt_ok(warm_trim(runtime, target, &report));
    ck_assert_uint_eq(report.held_bytes, held_of(WARM_MEMORY_OF_ALL));
    return report;
}

WT_TEST(test_F11_trim_empties_everything_idle)
{
    void *live = taken(0, 3 * MIB), *shared = NULL;
    warm_trim_report report;

    wt_ok(warm_shared_alloc(runtime, 0, MIB, WARM_USAGE_SHARED, &shared));
    wt_free(taken(WARM_MEMORY_OF_HOST, 64 * 1024));
    wt_free(taken(0, 64 * 1024));
    wt_free(taken(WARM_MEMORY_OF_HOST, 8 * MIB));
    wt_free(shared);
    report = trim(0);
    ck_assert_uint_gt(report.cached, 0);
    ck_assert_uint_ge(report.segments, 8 * MIB);
    ck_assert_uint_eq(report.held_bytes, 4 * MIB);
    report = trim(0);
    ck_assert_uint_eq(report.segments, 0);
    wt_free(live);
}

/* It stops once the target is met: what comes later in the order stays. */
WT_TEST(test_F11_trim_stops_at_its_target)
{
    void *block[2] = {taken(WARM_MEMORY_OF_HOST, 8 * MIB), taken(0, 8 * MIB)};
    warm_trim_report report;

    wt_free(taken(WARM_MEMORY_OF_HOST, 64 * 1024));
    wt_free_all(block, 2);
    report = trim(64 * MIB);
    ck_assert_uint_eq(report.segments + report.cached + report.completed, 0);
    report = trim(10 * MIB);
    ck_assert_uint_eq(report.segments, 8 * MIB);
    ck_assert_uint_eq(report.cached, 0); /* the thread keeps what it caches */
    ck_assert_uint_eq(report.held_bytes, 10 * MIB);
    report = trim(0);
    ck_assert_uint_eq(report.held_bytes, 0);
}

/* Frees whose streams have completed come before caches. */
WT_TEST(test_F11_trim_completes_frees)
{
    void *block = taken(WARM_MEMORY_OF_HOST, 8 * MIB);
    warm_trim_report report;

    if (!wt_on_host()) {
        wt_free(block);
        return; /* only the host device can hold a stream */
    }
    wt_ok(warm_testing_hold(runtime, stream));
    wt_free_used(block, stream);
    report = trim(0);
    ck_assert_uint_eq(report.completed + report.segments, 0);
    ck_assert_uint_eq(report.held_bytes, 8 * MIB);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    report = trim(0);
    ck_assert_uint_eq(report.completed, 8 * MIB);
    ck_assert_uint_eq(report.segments, 8 * MIB);
    ck_assert_uint_eq(report.held_bytes, 0);
}

WT_TEST(test_F11_trim_destroys_idle_handles_last)
{
    warm_stream pooled = NULL;
    warm_trim_report report;

    wt_ok(warm_stream_reserve(runtime, 0, &pooled));
    ck_assert_uint_eq(trim(0).handles, 0); /* in use */
    wt_ok(warm_thread_release(runtime));
    wt_free(taken(WARM_MEMORY_OF_HOST, 8 * MIB));
    report = trim(100 * MIB);
    ck_assert_uint_eq(report.handles, 0);
    report = trim(0);
    ck_assert_uint_eq(report.handles, 1);
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

WT_TEST(test_F7_F8_devices_have_watermarks_and_totals_of_their_own)
{
    void *block[2] = {NULL}, *refused = NULL;
    warm_stream on[2];

    runtime = wt_two_devices(&(warm_options){
        .size = sizeof(warm_options), .segment = 2 * MIB, .limit_wait_ms = 1});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    for (int i = 0; i < 2; i++) {
        on[i] = wt_stream(runtime, i);
    }
    wt_ok(warm_watermarks_set(runtime, 1, 8 * MIB, 0));
    ck_assert_uint_ne(marks_of(0).high_bytes, 8 * MIB);
    ck_assert_uint_eq(marks_of(1).high_bytes, 8 * MIB);
    wt_ok(warm_device_alloc(runtime, 0, on[0], 16 * MIB, &block[0]));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 1, on[1], 16 * MIB, &refused));
    wt_ok(warm_device_alloc(runtime, 1, on[1], 4 * MIB, &block[1]));
    ck_assert_uint_eq(held_of(0), 16 * MIB);
    ck_assert_uint_eq(held_of(1), 4 * MIB);
    ck_assert_uint_eq(held_of(WARM_MEMORY_OF_ALL), 20 * MIB);
    wt_free(block[0], block[1]);
    for (int i = 0; i < 2; i++) {
        wt_settle(runtime, on[i]);
    }
    wt_ok(warm_trim(runtime, 0, NULL));
    ck_assert_uint_eq(held_of(0) + held_of(1), 0);
    wt_stream_end(runtime, on[0]);
    wt_stream_end(runtime, on[1]);
    wt_runtime_end(runtime);
}
