/* check_staging.c: copies of pageable memory through a ring of page-locked
 * slices (row B26). */
#include "wt.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { SLICE = 64 << 10, SLICES = 3 };

static warm_runtime *runtime;
static warm_stream stream, other;
static warm_staging *ring;
static char *device; /* 4 MiB of device 0 */

enum { DEVICE_BYTES = 4 << 20 };

static void make_ring(unsigned wait_ms)
{
    warm_staging_options options = {.size = sizeof options,
                                    .slice_bytes = SLICE,
                                    .slices = SLICES,
                                    .wait_ms = wait_ms};

    wt_ok(warm_staging_create(runtime, 0, &options, &ring));
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    stream = wt_stream(runtime, 0);
    other = wt_stream(runtime, 0);
    device = wt_device(runtime, stream, DEVICE_BYTES);
    make_ring(0);
}

static void teardown(void)
{
    wt_ok(warm_staging_destroy(ring));
    wt_ok(warm_free(device));
    wt_stream_end(runtime, stream);
    wt_stream_end(runtime, other);
    wt_ok(warm_testing_check(runtime, 0));
    wt_runtime_end(runtime);
}

static warm_staging_stats stats_of(warm_staging *staging)
{
    warm_staging_stats stats = WARM_INIT(warm_staging_stats);

    wt_ok(warm_staging_get_stats(staging, &stats));
    return stats;
}

static warm_status to_device(void *to, const void *from, size_t bytes,
                             unsigned flags)
{
    return warm_staging_copy(ring, to, from, bytes, WARM_COPY_TO_DEVICE, stream,
                             flags);
}

static warm_status to_host(void *to, const void *from, size_t bytes,
                           unsigned flags)
{
    return warm_staging_copy(ring, to, from, bytes, WARM_COPY_TO_HOST, stream,
                             flags);
}

static void fill(char *bytes, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (char)((i * 31 + i / 251 + seed * 7) & 0xff);
    }
}

/* What the device holds, read past the ring. */
static void assert_device(const char *at, const char *expected, size_t bytes)
{
    char *seen = wt_pinned(runtime, bytes);

    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_testing_copy(runtime, seen, at, bytes, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_require(memcmp(seen, expected, bytes) == 0,
               "the device has other contents");
    wt_ok(warm_free(seen));
}

WT_CASE("staging", .setup = setup, .teardown = teardown);

/* ---- copies ------------------------------------------------------------- */

static const size_t sizes[] = {1,         63,        4 * KIB,      SLICE - 1,
                               SLICE,     SLICE + 1, 3 * SLICE,    MIB,
                               MIB + 777, 2 * MIB,   DEVICE_BYTES, 5};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

WT_LOOP_TEST(test_B26_copies_of_any_size_there_and_back, SIZES)
{
    size_t bytes = sizes[_i];
    char *from = malloc(bytes), *expected = malloc(bytes), *to = malloc(bytes);

    fill(from, bytes, 1);
    memcpy(expected, from, bytes);
    memset(to, 0, bytes);
    wt_ok(to_device(device, from, bytes, 0));
    memset(from, 0, bytes); /* at once: it was copied */
    assert_device(device, expected, bytes);
    wt_ok(to_host(to, device, bytes, 0));
    wt_ok(warm_staging_finish(ring));
    ck_assert_mem_eq(to, expected, bytes);
    ck_assert_uint_eq(stats_of(ring).copies, 2);
    ck_assert_uint_eq(stats_of(ring).bytes, 2 * bytes);
    ck_assert_uint_eq(stats_of(ring).busy_slices, 0);
    free(from);
    free(expected);
    free(to);
}

/* The coalescing rule: 512 copies of 1 KiB fill eight slices. */
WT_TEST(test_B26_small_adjacent_copies_become_few_large_ones)
{
    enum { COPIES = 512, EACH = 1 << 10 };
    static char from[COPIES][EACH], to[COPIES][EACH];
    uint64_t records = wt_calls(runtime, "event_mark");
    uint64_t copies = wt_calls(runtime, "copy");

    fill(from[0], sizeof from, 2);
    for (int i = 0; i < COPIES; i++) {
        wt_ok(to_device(device + i * EACH, from[i], EACH, WARM_STAGING_MORE));
    }
    wt_ok(warm_staging_flush(ring));
    ck_assert_uint_eq(stats_of(ring).queued, COPIES * EACH / SLICE);
    ck_assert_uint_eq(wt_calls(runtime, "copy") - copies,
                      COPIES * EACH / SLICE);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark") - records,
                      COPIES * EACH / SLICE);
    assert_device(device, from[0], sizeof from);
    /* Back, from the last to the first: the device's side is not adjacent. */
    copies = wt_calls(runtime, "copy");
    for (int i = COPIES; i-- > 0;) {
        wt_ok(to_host(to[i], device + i * EACH, EACH, WARM_STAGING_MORE));
    }
    wt_ok(warm_staging_finish(ring));
    ck_assert_uint_eq(wt_calls(runtime, "copy") - copies, COPIES);
    ck_assert_mem_eq(to[0], from[0], sizeof from);
    /* In order, to places that are anywhere. */
    copies = wt_calls(runtime, "copy");
    for (int i = 0; i < COPIES; i++) {
        wt_ok(to_host(to[COPIES - 1 - i], device + i * EACH, EACH,
                      WARM_STAGING_MORE));
    }
    wt_ok(warm_staging_finish(ring));
    ck_assert_uint_eq(wt_calls(runtime, "copy") - copies,
                      COPIES * EACH / SLICE);
    for (int i = 0; i < COPIES; i++) {
        ck_assert_mem_eq(to[COPIES - 1 - i], from[i], EACH);
    }
}

WT_TEST(test_B26_what_cannot_be_gathered_is_queued_first)
{
    char from[300], to[300];

    fill(from, sizeof from, 3);
    wt_ok(to_device(device, from, 100, WARM_STAGING_MORE));
    ck_assert_uint_eq(stats_of(ring).queued, 0);
    ck_assert_uint_eq(stats_of(ring).gathered_bytes, 100);
    wt_ok(to_device(device + 100, from + 100, 100, WARM_STAGING_MORE));
    ck_assert_uint_eq(stats_of(ring).queued, 0);
    ck_assert_uint_eq(stats_of(ring).gathered_bytes, 200);
    /* A gap in the device's memory. */
    wt_ok(to_device(device + 201, from + 201, 49, WARM_STAGING_MORE));
    ck_assert_uint_eq(stats_of(ring).queued, 1);
    /* Another direction. */
    wt_ok(to_host(to, device, 200, WARM_STAGING_MORE));
    ck_assert_uint_eq(stats_of(ring).queued, 2);
    wt_ok(to_host(to + 201, device + 201, 49, 0)); /* without MORE */
    ck_assert_uint_eq(stats_of(ring).queued, 4);
    /* Another stream; the slice is not shared with it. */
    wt_ok(to_device(device + 250, from + 250, 20, WARM_STAGING_MORE));
    wt_ok(warm_staging_copy(ring, device + 270, from + 270, 30,
                            WARM_COPY_TO_DEVICE, other, WARM_STAGING_MORE));
    ck_assert_uint_eq(stats_of(ring).queued, 5);
    ck_assert_uint_eq(stats_of(ring).events, 1);
    ck_assert_uint_eq(stats_of(ring).busy_slices, 1);
    wt_ok(warm_staging_flush(ring));
    ck_assert_uint_eq(stats_of(ring).queued, 6);
    ck_assert_uint_eq(stats_of(ring).events, 2);
    ck_assert_uint_eq(stats_of(ring).gathered_bytes, 0);
    wt_ok(warm_staging_finish(ring));
    ck_assert_uint_eq(stats_of(ring).events, 2); /* nothing new to record */
    ck_assert_mem_eq(to, from, 200);
    ck_assert_mem_eq(to + 201, from + 201, 49);
    assert_device(device + 250, from + 250, 50);
}

/* What failed is not gathered with what succeeded before. */
WT_LOOP_TEST(test_B26_a_refused_copy_leaves_what_was_gathered, 2)
{
    char from[200], to[200] = {0}, seen[200];

    fill(from, sizeof from, 11);
    memset(seen, 9, sizeof seen);
    wt_ok(to_device(device, seen, sizeof seen, 0));
    wt_ok(warm_staging_finish(ring));
    if (_i == 0) {
        wt_ok(to_device(device, from, 100, WARM_STAGING_MORE));
    } else {
        wt_ok(to_host(to, device, 100, WARM_STAGING_MORE));
    }
    wt_ok(warm_testing_fail(runtime, "copy", 1, 0));
    wt_fails(WARM_DRIVER_ERROR,
             _i == 0 ? to_device(device + 100, from + 100, 100, 0)
                     : to_host(to + 100, device + 100, 100, 0));
    ck_assert_uint_eq(stats_of(ring).gathered_bytes, 100);
    wt_ok(warm_staging_finish(ring));
    if (_i == 0) {
        memcpy(seen, from, 100);
        assert_device(device, seen, sizeof seen);
    } else {
        memset(seen + 100, 0, 100);
        ck_assert_mem_eq(to, seen, sizeof to);
    }
}

/* ---- slices ------------------------------------------------------------- */

/* Fills the ring behind a gate: each copy is a slice of its own, and its source
 * is overwritten at once. */
static void fill_ring(char *from, char *expected)
{
    for (unsigned i = 0; i < SLICES; i++) {
        fill(from, SLICE, i + 10);
        memcpy(expected + i * SLICE, from, SLICE);
        wt_ok(to_device(device + i * SLICE, from, SLICE, WARM_STAGING_TRY));
    }
}

WT_TEST(test_B26_a_slice_is_not_written_while_its_copy_is_queued)
{
    static char from[SLICE], expected[(SLICES + 1) * SLICE];
    wt_gate *gate = wt_gate_hold(runtime, stream);
    warm_staging_stats before;

    fill_ring(from, expected);
    before = stats_of(ring);
    ck_assert_uint_eq(before.busy_slices, SLICES);
    fill(from, SLICE, 99);
    for (int i = 0; i < 3; i++) {
        wt_fails(WARM_NOT_READY, to_device(device + SLICES * SLICE, from, SLICE,
                                           WARM_STAGING_TRY));
        wt_says("3 slices", "still queued");
    }
    ck_assert_uint_eq(stats_of(ring).copies, before.copies);
    ck_assert_uint_eq(stats_of(ring).bytes, before.bytes);
    ck_assert_uint_eq(stats_of(ring).queued, before.queued);
    wt_gate_open(gate);
    memcpy(expected + SLICES * SLICE, from, SLICE);
    wt_ok(to_device(device + SLICES * SLICE, from, SLICE, 0));
    assert_device(device, expected, sizeof expected);
}

struct late {
    wt_gate *gate;
    warm_status status;
    char *from;
    _Atomic bool over;
};

/* Waits in the full ring. */
static void *copy_late(void *argument)
{
    struct late *late = argument;

    late->status = to_device(device + SLICES * SLICE, late->from, SLICE, 0);
    atomic_store_explicit(&late->over, true, memory_order_release);
    return NULL;
}

static void await_inside(void)
{
    while (stats_of(ring).waits == 0) {
        sched_yield();
    }
}

WT_TEST(test_B26_a_copy_waits_for_a_slice_and_keeps_other_threads_out)
{
    static char from[SLICE], last[SLICE], expected[(SLICES + 1) * SLICE];
    struct late late = {.gate = wt_gate_hold(runtime, stream), .from = last};
    pthread_t thread;

    fill_ring(from, expected);
    fill(last, SLICE, 77);
    memcpy(expected + SLICES * SLICE, last, SLICE);
    ck_assert_int_eq(pthread_create(&thread, NULL, copy_late, &late), 0);
    await_inside();
    wt_invalid(to_device(device, from, 1, 0));
    wt_says("another thread", "one thread at a time");
    wt_invalid(warm_staging_flush(ring));
    wt_invalid(warm_staging_finish(ring));
    wt_invalid(warm_staging_destroy(ring));
    wt_require(!atomic_load_explicit(&late.over, memory_order_acquire),
               "a slice was used too early");
    wt_gate_open(late.gate);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(late.status, WARM_OK);
    ck_assert_uint_ge(stats_of(ring).waits, 1);
    assert_device(device, expected, sizeof expected);
}

/* Slices pass from the device to the host in order, and as they are needed. */
WT_TEST(test_B26_copies_to_the_host_arrive_by_the_finish)
{
    static char expected[8 * SLICE], to[8 * SLICE];
    wt_gate *gate;

    fill(expected, sizeof expected, 4);
    wt_ok(to_device(device, expected, sizeof expected, 0));
    wt_ok(warm_staging_finish(ring));
    gate = wt_gate_hold(runtime, stream);
    for (unsigned i = 0; i < SLICES; i++) {
        wt_ok(to_host(to + i * SLICE, device + i * SLICE, SLICE, 0));
    }
    wt_fails(WARM_NOT_READY,
             to_host(to + SLICES * SLICE, device + SLICES * SLICE, SLICE,
                     WARM_STAGING_TRY));
    ck_assert_int_eq(to[1], 0);
    wt_gate_open(gate);
    wt_ok(to_host(to + SLICES * SLICE, device + SLICES * SLICE,
                  (8 - SLICES) * SLICE, 0));
    ck_assert_mem_eq(to, expected, (8 - SLICES) * SLICE);
    wt_ok(warm_staging_finish(ring));
    ck_assert_mem_eq(to, expected, sizeof to);
}

/* More places on the host than a slice keeps. */
WT_TEST(test_B26_many_small_copies_to_the_host)
{
    enum { COPIES = 1000 };
    static char expected[COPIES * 3], to[COPIES][5];

    fill(expected, sizeof expected, 5);
    wt_ok(to_device(device, expected, sizeof expected, 0));
    for (int i = 0; i < COPIES; i++) {
        wt_ok(to_host(to[i], device + i * 3, 3, WARM_STAGING_MORE));
    }
    wt_ok(warm_staging_finish(ring));
    for (int i = 0; i < COPIES; i++) {
        wt_require(memcmp(to[i], expected + i * 3, 3) == 0 && to[i][3] == 0,
                   "copy %d", i);
    }
}

/* ---- bounded waits ------------------------------------------------------ */

WT_TEST(test_B26_a_wait_for_a_stuck_stream_ends)
{
    static char from[SLICE], expected[SLICES * SLICE];
    wt_gate *gate;

    wt_ok(warm_staging_destroy(ring));
    make_ring(1);
    gate = wt_gate_hold(runtime, stream);
    fill_ring(from, expected);
    wt_fails(WARM_NOT_READY, to_device(device, from, SLICE, 0));
    wt_says("wait_ms");
    wt_fails(WARM_NOT_READY, warm_staging_finish(ring));
    wt_fails(WARM_NOT_READY, warm_staging_destroy(ring)); /* it lives on */
    ck_assert_uint_ge(stats_of(ring).waits, 3);
    ck_assert_uint_gt(stats_of(ring).wait_ns, 0);
    wt_gate_open(gate);
    assert_device(device, expected, sizeof expected);
}

/* ---- streams ------------------------------------------------------------ */

/* Once flushed a stream may go; another one may get its address. */
WT_TEST(test_B26_a_stream_may_be_destroyed_after_a_flush)
{
    static char from[32 * KIB];
    wt_gate *gate;

    fill(from, sizeof from, 6);
    for (int i = 0; i < 12; i++) {
        warm_stream brief = wt_stream(runtime, 0);
        wt_gate *own = i % 3 == 0 ? wt_gate_close(runtime, brief) : NULL;

        wt_ok(warm_staging_copy(ring, device + i * 1024, from + i * 1024, 1024,
                                WARM_COPY_TO_DEVICE, brief, WARM_STAGING_MORE));
        wt_ok(warm_staging_flush(ring));
        if (own != NULL) {
            wt_gate_await(own);
            wt_gate_open(own);
        }
        wt_ok(warm_stream_destroy(runtime, brief));
    }
    wt_ok(warm_staging_finish(ring));
    assert_device(device, from, 12 * 1024);
    gate = wt_gate_hold(runtime, stream); /* held up is this one alone */
    wt_ok(to_device(device, from, 100, 0));
    wt_ok(warm_staging_copy(ring, device + 5000, from, 100, WARM_COPY_TO_DEVICE,
                            other, 0));
    wt_ok(warm_stream_synchronize(runtime, other));
    wt_gate_open(gate);
}

WT_LOOP_TEST(test_B26_default_streams_are_never_gathered, 3)
{
    const warm_stream streams[] = {NULL, WARM_STREAM_LEGACY,
                                   WARM_STREAM_PER_THREAD};
    char from[500];

    fill(from, sizeof from, 7);
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_staging_copy(ring, device + i * 100, from + i * 100, 100,
                                WARM_COPY_TO_DEVICE, streams[_i],
                                WARM_STAGING_MORE));
        ck_assert_uint_eq(stats_of(ring).gathered_bytes, 0);
    }
    ck_assert_uint_eq(stats_of(ring).events, 5);
    ck_assert_uint_eq(stats_of(ring).queued, 5);
    wt_ok(warm_staging_finish(ring));
    assert_device(device, from, sizeof from);
}

/* The second event is that of the slice: the stream is waited for instead. */
WT_TEST(test_B26_G6_a_copy_without_an_event_leaves_the_last_error)
{
    char from[100] = {7}, before[512];

    wt_invalid(warm_staging_create(runtime, 0, NULL, NULL));
    snprintf(before, sizeof before, "%s", warm_last_error_message());
    wt_ok(warm_testing_fail(runtime, "event_mark", 2, 0));
    wt_ok(warm_staging_copy(ring, device, from, sizeof from,
                            WARM_COPY_TO_DEVICE, WARM_STREAM_LEGACY, 0));
    ck_assert_str_eq(warm_last_error_message(), before);
    ck_assert_uint_eq(stats_of(ring).events, 0);
}

static void *copy_on_own_default(void *argument)
{
    static char from[64];

    *(warm_status *)argument =
        warm_staging_copy(ring, device, from, sizeof from, WARM_COPY_TO_DEVICE,
                          WARM_STREAM_PER_THREAD, 0);
    return NULL;
}

/* One name, two streams: the second thread's event says nothing of the first
 * one's copies. */
WT_TEST(test_B26_per_thread_streams_of_two_threads_are_two)
{
    warm_status status = WARM_INTERNAL;
    static char from[64];
    pthread_t thread;

    wt_ok(warm_staging_copy(ring, device, from, sizeof from,
                            WARM_COPY_TO_DEVICE, WARM_STREAM_PER_THREAD, 0));
    ck_assert_int_eq(
        pthread_create(&thread, NULL, copy_on_own_default, &status), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(status, WARM_OK);
    ck_assert_uint_eq(stats_of(ring).busy_slices, 2);
}

/* ---- captures ----------------------------------------------------------- */

WT_TEST(test_B26_a_stream_that_captures_is_refused_and_its_capture_stays_valid)
{
    char from[300];
    warm_graph graph = NULL;

    fill(from, sizeof from, 8);
    wt_ok(to_device(device, from, 100, WARM_STAGING_MORE));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_fails(WARM_CAPTURE_ERROR, to_device(device + 100, from + 100, 100, 0));
    wt_says("graph", "staging ring");
    wt_fails(WARM_CAPTURE_ERROR, warm_staging_flush(ring));
    wt_fails(WARM_CAPTURE_ERROR, warm_staging_finish(ring));
    wt_fails(WARM_CAPTURE_ERROR, warm_staging_destroy(ring));
    ck_assert_uint_eq(stats_of(ring).gathered_bytes, 100);
    ck_assert_uint_eq(stats_of(ring).queued, 0);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(to_device(device + 100, from + 100, 200, 0));
    ck_assert_uint_eq(stats_of(ring).queued, 1); /* both */
    assert_device(device, from, sizeof from);
}

/* Another stream captures: nothing that the ring does breaks that. */
WT_TEST(test_B26_a_capture_of_another_stream_is_not_disturbed)
{
    static char from[6 * SLICE];
    warm_graph graph = NULL;

    fill(from, sizeof from, 9);
    wt_ok(warm_capture_begin(runtime, other));
    wt_ok(to_device(device, from, sizeof from, 0));
    wt_ok(warm_staging_finish(ring));
    wt_ok(warm_capture_end(runtime, other, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    assert_device(device, from, sizeof from);
}

/* ---- refusals ----------------------------------------------------------- */

WT_TEST(test_B26_wrong_arguments_change_nothing)
{
    static const struct {
        unsigned slices;
        size_t slice_bytes;
        const char *says[2];
    } wrong[] = {{1, 0, {"slices is 1", "2 to 256"}},
                 {2, 100, {"slice_bytes is 100 B", "4.0 KiB"}},
                 {2, (size_t)2 << 30, {"pin_chunk", ""}}};
    warm_staging_stats before = stats_of(ring), after;
    warm_staging *made = NULL;
    char byte[2] = {1, 2};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        warm_staging_options options = {.size = sizeof options,
                                        .slices = wrong[i].slices,
                                        .slice_bytes = wrong[i].slice_bytes};

        wt_invalid(warm_staging_create(runtime, 0, &options, &made));
        wt_says(wrong[i].says[0], wrong[i].says[1]);
    }
    ck_assert_ptr_null(made);
    wt_invalid(to_device(device + DEVICE_BYTES - 1, byte, 2, 0));
    wt_says("passes the end of its destination");
    wt_invalid(to_host(byte, device + DEVICE_BYTES - 1, 2, WARM_STAGING_MORE));
    wt_says("passes the end of its source");
    wt_ok(to_device(NULL, NULL, 0, 0));
    after = stats_of(ring);
    ck_assert_mem_eq(&after, &before, sizeof before);
}

/* ---- the end ------------------------------------------------------------ */

WT_TEST(test_B26_a_ring_that_outlives_its_runtime_frees_its_records)
{
    warm_options given = WARM_INIT(warm_options);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_staging *left = NULL;
    warm_runtime *brief = wt_runtime(&given);
    int64_t before = wt_metadata_live();
    char byte = 0;

    wt_ok(warm_staging_create(brief, 0, NULL, &left));
    wt_ok(warm_runtime_destroy(brief, &report));
    ck_assert_uint_eq(report.live, 4); /* its slices */
    wt_fails(WARM_RUNTIME_GONE,
             warm_staging_copy(left, device, &byte, 1, WARM_COPY_TO_DEVICE,
                               stream, 0));
    wt_fails(WARM_RUNTIME_GONE, warm_staging_flush(left));
    wt_fails(WARM_RUNTIME_GONE, warm_staging_destroy(left));
    ck_assert_int_lt(wt_metadata_live(), before);
}

/* A block that is freed before its gathered copy is queued. */
WT_TEST(test_B26_a_ring_whose_copies_cannot_be_queued_can_be_destroyed)
{
    char *block = wt_device(runtime, stream, 40 * MIB), *again;
    char from[4096] = {0};

    wt_ok(to_device(block + 20 * MIB - 1, from, 4096, WARM_STAGING_MORE));
    wt_ok(warm_free(block));
    again = wt_device(runtime, stream, 20 * MIB); /* the first half of it */
    ck_assert_ptr_eq(again, block);
    wt_invalid(warm_staging_flush(ring));
    wt_fails(WARM_INVALID_POINTER, warm_staging_destroy(ring));
    wt_says("dropped", "passes the end");
    make_ring(0);
    wt_ok(warm_free(again));
}

/* Random copies against a plain model, on two streams. */
WT_TEST(test_B26_random_copies_arrive)
{
    enum { BYTES = 1 << 18 };
    static char model[BYTES], source[BYTES], to[BYTES];
    uint64_t seed = wt_seed();

    memset(model, 0, sizeof model);
    wt_ok(to_device(device, model, BYTES, 0));
    for (unsigned i = 0; i < wt_scaled(2000); i++) {
        size_t at = (size_t)(wt_random(&seed) % BYTES);
        size_t most = wt_random(&seed) % 16 == 0 ? BYTES : 3000;
        size_t bytes = (size_t)(wt_random(&seed) % most);
        unsigned flags =
            wt_random(&seed) % 4 != 0 ? WARM_STAGING_MORE : (unsigned)0;

        bytes = bytes < BYTES - at ? bytes : BYTES - at;
        if (wt_random(&seed) % 4 != 0) {
            fill(source, bytes, i);
            memcpy(model + at, source, bytes);
            wt_ok(to_device(device + at, source, bytes, flags));
        } else {
            wt_ok(to_host(to, device + at, bytes, flags));
            wt_ok(warm_staging_finish(ring));
            wt_require(memcmp(to, model + at, bytes) == 0,
                       "copy %u: other contents", i);
        }
    }
    wt_ok(warm_staging_flush(ring));
    assert_device(device, model, BYTES);
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

WT_TEST(test_B26_a_ring_is_of_its_own_device)
{
    char from[3000], to[3000] = {0};
    void *block[2] = {NULL};
    warm_stream on[2];

    runtime = wt_two_devices(&(warm_options){.size = sizeof(warm_options)});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    fill(from, sizeof from, 3);
    for (int i = 0; i < 2; i++) {
        on[i] = wt_stream(runtime, i);
        wt_ok(warm_device_alloc(runtime, i, on[i], sizeof from, &block[i]));
    }
    wt_ok(warm_staging_create(runtime, 1, NULL, &ring));
    wt_invalid(warm_staging_copy(ring, block[0], from, sizeof from,
                                 WARM_COPY_TO_DEVICE, on[0], 0));
    wt_ok(warm_staging_copy(ring, block[1], from, sizeof from,
                            WARM_COPY_TO_DEVICE, on[1], 0));
    wt_ok(warm_staging_copy(ring, to, block[1], sizeof to, WARM_COPY_TO_HOST,
                            on[1], 0));
    wt_ok(warm_staging_finish(ring));
    ck_assert_mem_eq(to, from, sizeof from);
    wt_ok(warm_staging_destroy(ring));
    wt_free(block[0], block[1]);
    wt_stream_end(runtime, on[0]);
    wt_stream_end(runtime, on[1]);
    wt_runtime_end(runtime);
}
