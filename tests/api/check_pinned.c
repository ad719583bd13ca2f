/* check_pinned.c: pinned buffers through public headers, on every backend. */
#include "wt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 100000 };

static warm_runtime *runtime;
static warm_stream stream, other;

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_stream_create(runtime, 0, &other));
}

static void teardown(void)
{
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, other));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, other));
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static void *take(size_t bytes)
{
    void *pointer = NULL;

    wt_ok(warm_pinned_alloc(runtime, bytes, &pointer));
    ck_assert_ptr_nonnull(pointer);
    return pointer;
}

static warm_space_stats stats_now(void)
{
    warm_space_stats stats = {.size = sizeof stats};

    wt_ok(warm_pinned_get_stats(runtime, &stats));
    return stats;
}

static unsigned streams_of(const void *pointer)
{
    warm_block_info info = {.size = sizeof info};

    wt_ok(warm_block_get_info(pointer, &info));
    return info.streams;
}

/* All work of a stream is done, and what it held up has come back. */
static void settle(warm_stream s)
{
    wt_ok(warm_stream_synchronize(runtime, s));
    wt_ok(warm_poll(runtime));
}

START_TEST(test_B1_no_bytes_give_null_and_null_may_be_freed)
{
    void *pointer = &pointer;

    wt_ok(warm_pinned_alloc(runtime, 0, &pointer));
    ck_assert_ptr_null(pointer);
    wt_ok(warm_free(NULL));
    ck_assert_uint_eq(stats_now().requests.allocated, 0);
}
END_TEST

START_TEST(test_B2_block_without_pending_work_is_reused)
{
    void *first = take(SIZE);
    warm_space_stats stats;

    memset(first, 1, SIZE);
    wt_ok(warm_free(first));
    ck_assert_ptr_eq(take(SIZE), first);
    stats = stats_now();
    ck_assert_uint_eq(stats.driver_alloc.count, 1);
    ck_assert_uint_eq(stats.cache_hits, 1);
    wt_ok(warm_free(first));
}
END_TEST

START_TEST(test_B3_record_answers_whether_the_pointer_is_ours)
{
    char *block = take(SIZE);
    warm_block_info info = {.size = sizeof info};
    int local = 0;
    void *heap = malloc(64);

    wt_fails(WARM_NOT_FOUND, warm_record_stream(&local, stream));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(heap, stream));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(NULL, stream));
    wt_ok(warm_block_get_info(block, &info));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block + info.bytes, stream));
    ck_assert_uint_eq(streams_of(block), 0);
    wt_ok(warm_record_stream(block, stream));
    ck_assert_uint_eq(streams_of(block), 1);
    wt_ok(warm_free(block));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
    wt_ok(warm_empty_cache(runtime, NULL));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
    free(heap);
}
END_TEST

static const size_t middle_sizes[] = {700, 6000, SIZE, 5 << 20};

START_TEST(test_B3_pointer_into_the_middle_counts)
{
    size_t bytes = middle_sizes[_i];
    char *block = take(bytes);
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_record_stream(block + bytes / 2, stream));
    wt_ok(warm_record_stream(block + bytes - 1, other));
    ck_assert_uint_eq(streams_of(block + 1), 2);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    settle(stream);
    settle(other);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}
END_TEST

START_TEST(test_B4_free_waits_for_the_stream)
{
    void *block = take(SIZE);
    wt_gate *gate = wt_gate_close(runtime, stream);
    void *second;

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    second = take(SIZE);
    ck_assert_ptr_ne(second, block);
    ck_assert_uint_eq(stats_now().pending_bytes.current >= SIZE, 1);
    wt_gate_open(gate);
    settle(stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
    wt_ok(warm_free(second));
}
END_TEST

START_TEST(test_B4_same_stream_twice_is_one_use)
{
    void *block = take(SIZE);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_record_stream(block, stream));
    ck_assert_uint_eq(streams_of(block), 1);
    wt_ok(warm_record_stream(block, other));
    ck_assert_uint_eq(streams_of(block), 2);
    wt_ok(warm_free(block));
    settle(stream);
    settle(other);
}
END_TEST

START_TEST(test_B4_every_recorded_stream_must_pass)
{
    void *block = take(SIZE);
    wt_gate *first = wt_gate_close(runtime, stream);
    wt_gate *second;

    wt_gate_await(first);
    second = wt_gate_close(runtime, other);
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_record_stream(block, other));
    wt_ok(warm_free(block));
    wt_gate_open(first);
    settle(stream);
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(second);
    settle(other);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}
END_TEST

START_TEST(test_B4_work_queued_after_the_record_counts)
{
    void *block = take(SIZE);
    wt_gate *gate;

    wt_ok(warm_record_stream(block, stream));
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    settle(stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}
END_TEST

START_TEST(test_B5_stuck_stream_delays_only_its_blocks)
{
    void *stuck = take(SIZE);
    void *block[32];
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_record_stream(stuck, stream));
    wt_ok(warm_free(stuck));
    for (int i = 0; i < 32; i++) {
        block[i] = take(SIZE);
        wt_ok(warm_record_stream(block[i], other));
    }
    for (int i = 0; i < 32; i++) {
        wt_ok(warm_free(block[i]));
    }
    settle(other);
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    settle(stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}
END_TEST

/* The stream ends while a block that it uses is live, or already pending. */
START_TEST(test_B6_blocks_outlive_their_stream)
{
    warm_stream brief;
    void *pending = take(SIZE);
    void *live = take(SIZE);
    wt_gate *gate;

    wt_ok(warm_stream_create(runtime, 0, &brief));
    gate = wt_gate_close(runtime, brief);
    wt_ok(warm_record_stream(pending, brief));
    wt_ok(warm_record_stream(live, brief));
    wt_ok(warm_free(pending));
    wt_ok(warm_stream_destroy(runtime, brief));
    wt_ok(warm_free(live));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 2);
    wt_gate_open(gate);
    while (stats_now().pending.current != 0) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(stats_now().lost, 0);
}
END_TEST

START_TEST(test_B6_retired_stream_may_go_on)
{
    void *block = take(SIZE);
    wt_gate *gate;

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_record_stream(block, stream));
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    settle(stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
    wt_ok(warm_stream_retire(runtime, stream));
}
END_TEST

/* Its last work cannot be told any more, and after this call its address may
 * be another stream's: the driver hears nothing of it when the block goes. */
START_TEST(test_B6_B7_a_stream_retired_in_a_capture_is_not_named_again)
{
    uint64_t before = 0, after = 0;
    warm_stream brief = NULL;
    warm_graph graph = NULL;
    void *block = take(SIZE);

    wt_ok(warm_stream_create(runtime, 0, &brief));
    wt_ok(warm_record_stream(block, brief));
    wt_ok(warm_capture_begin(runtime, brief));
    wt_ok(warm_stream_retire(runtime, brief));
    wt_ok(warm_testing_calls(runtime, "stream_capture", &before));
    wt_ok(warm_free(block));
    wt_ok(warm_testing_calls(runtime, "stream_capture", &after));
    ck_assert_uint_eq(after, before);
    ck_assert_uint_eq(stats_now().lost, 1);
    wt_ok(warm_capture_end(runtime, brief, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, brief));
}
END_TEST

struct per_thread {
    pthread_barrier_t barrier;
    void *block;
    wt_gate *gate;
    warm_status status;
    bool stays;
};

static void *record_per_thread(void *argument)
{
    struct per_thread *p = argument;

    p->gate = wt_gate_close(runtime, WARM_STREAM_PER_THREAD);
    p->status = warm_record_stream(p->block, WARM_STREAM_PER_THREAD);
    pthread_barrier_wait(&p->barrier);
    if (p->stays) {
        pthread_barrier_wait(&p->barrier);
    }
    return NULL;
}

/* The name is the same in every thread, the stream is not: the block waits
 * for the one of the thread that recorded it, which lives (_i 0) or is gone.
 * CUDA does not say that a thread can end before its stream has. */
START_TEST(test_B6_per_thread_stream_of_another_thread_is_waited_for)
{
    struct per_thread p = {.block = take(SIZE), .stays = _i == 0};
    pthread_t thread;

    pthread_barrier_init(&p.barrier, NULL, 2);
    pthread_create(&thread, NULL, record_per_thread, &p);
    pthread_barrier_wait(&p.barrier);
    if (!p.stays) {
        pthread_join(thread, NULL);
    }
    wt_ok(p.status);
    wt_ok(warm_free(p.block));
    wt_ok(warm_stream_synchronize(runtime, WARM_STREAM_PER_THREAD));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(p.gate);
    if (p.stays) {
        pthread_barrier_wait(&p.barrier);
        pthread_join(thread, NULL);
    }
    while (stats_now().pending.current != 0) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(stats_now().lost, 0);
    pthread_barrier_destroy(&p.barrier);
}
END_TEST

static const warm_stream defaults[] = {NULL, (warm_stream)(uintptr_t)1,
                                       (warm_stream)(uintptr_t)2};

START_TEST(test_B6_default_streams_are_streams)
{
    void *block = take(SIZE);
    wt_gate *gate = wt_gate_close(runtime, defaults[_i]);

    wt_ok(warm_record_stream(block, defaults[_i]));
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    settle(defaults[_i]);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}
END_TEST

START_TEST(test_B7_allocator_leaves_a_capture_alone)
{
    void *waiting = take(SIZE);
    void *used = take(SIZE);
    void *more;
    warm_graph graph;

    wt_ok(warm_record_stream(waiting, other));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_record_stream(used, stream));
    wt_ok(warm_free(waiting));
    more = take((size_t)64 << 20); /* must grow, and polls before */
    wt_ok(warm_poll(runtime));
    wt_ok(warm_free(more));
    wt_ok(warm_empty_cache(runtime, NULL));
    wt_ok(warm_free(used));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_uint_eq(stats_now().captured, 1);
    ck_assert_uint_eq(stats_now().requests.current, 0);
    ck_assert_ptr_ne(more = take(SIZE), used);
    wt_ok(warm_free(more));
    settle(other);
}
END_TEST

/* Used before the capture, freed in it: the graph may use the block as well,
 * since the stream was recorded and captures. */
START_TEST(test_B7_block_freed_while_its_stream_captures_is_kept)
{
    void *used = take(SIZE);
    void *next;
    warm_graph graph;

    wt_ok(warm_record_stream(used, stream));
    wt_ok(warm_record_stream(used, other));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_free(used));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    settle(stream);
    settle(other);
    ck_assert_uint_eq(stats_now().captured, 1);
    ck_assert_uint_eq(stats_now().captured_bytes, 106496);
    ck_assert_uint_eq(stats_now().pending.allocated, 0);
    ck_assert_ptr_ne(next = take(SIZE), used);
    wt_ok(warm_free(next));
}
END_TEST

START_TEST(test_B8_odd_sizes_are_held_as_asked)
{
    /* 20.4 GiB, scaled to a machine of any size: a 1024th, and one byte. */
    size_t bytes = (size_t)(20.4 * 1024 * 1024) + 1;
    void *block = take(bytes);
    warm_space_stats stats = stats_now();

    ck_assert_uint_ge(stats.held_bytes.current, bytes);
    ck_assert_uint_lt(stats.held_bytes.current, bytes + 4096);
    ck_assert_uint_eq(stats.requested_bytes.current, bytes);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_B11_empty_cache_returns_idle_segments_only)
{
    void *live = take(8 << 20);
    void *idle = take(16 << 20);
    size_t released = 0;

    wt_ok(warm_free(idle));
    wt_ok(warm_empty_cache(runtime, &released));
    ck_assert_uint_eq(released, 16 << 20);
    ck_assert_uint_eq(stats_now().held_bytes.current, 8 << 20);
    wt_ok(warm_free(live));
    wt_ok(warm_empty_cache(runtime, &released));
    ck_assert_uint_eq(released, 8 << 20);
    ck_assert_uint_eq(stats_now().segments.current, 0);
}
END_TEST

/* Not with CUDA: what is given back waits for the device, and so for ever. */
START_TEST(test_B11_empty_cache_leaves_segments_with_pending_blocks)
{
    void *live = take(8 << 20);
    void *idle = take(16 << 20);
    void *pending = take(32 << 20);
    wt_gate *gate = wt_gate_close(runtime, stream);
    size_t released = 0;

    wt_ok(warm_record_stream(pending, stream));
    wt_ok(warm_free(pending));
    wt_ok(warm_free(idle));
    wt_ok(warm_empty_cache(runtime, &released));
    ck_assert_uint_eq(released, 16 << 20);
    ck_assert_uint_eq(stats_now().held_bytes.current, 40 << 20);
    wt_gate_open(gate);
    settle(stream);
    wt_ok(warm_free(live));
    wt_ok(warm_empty_cache(runtime, &released));
    ck_assert_uint_eq(released, 40 << 20);
    ck_assert_uint_eq(stats_now().segments.current, 0);
}
END_TEST

START_TEST(test_B11_trim_stops_at_its_target)
{
    void *block[3];
    size_t released = 0;

    for (int i = 0; i < 3; i++) {
        block[i] = take((size_t)8 << 20);
    }
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_free(block[i]));
    }
    wt_ok(warm_trim(runtime, 20 << 20, &released));
    ck_assert_uint_eq(released, 8 << 20);
    wt_ok(warm_trim(runtime, 20 << 20, &released));
    ck_assert_uint_eq(released, 0);
    ck_assert_uint_eq(stats_now().held_bytes.current, 16 << 20);
}
END_TEST

START_TEST(test_B14_statistics_follow_every_step)
{
    void *a = take(5000);
    void *b = take(SIZE);
    warm_space_stats s = stats_now();

    ck_assert_uint_eq(s.requests.current, 2);
    ck_assert_uint_eq(s.requested_bytes.current, 5000 + SIZE);
    ck_assert_uint_eq(s.block_bytes.current, 5120 + 106496);
    ck_assert_uint_eq(s.segments.current, 1);
    ck_assert_uint_eq(s.held_bytes.current,
                      s.block_bytes.current + s.idle_bytes);
    ck_assert_uint_eq(s.driver_alloc.count, 1);
    ck_assert_uint_ge(s.driver_alloc.max_ns, s.driver_alloc.min_ns);
    wt_ok(warm_free(a));
    wt_ok(warm_stats_reset_peaks(runtime));
    s = stats_now();
    ck_assert_uint_eq(s.requests.peak, 1);
    ck_assert_uint_eq(s.requests.allocated, 2);
    ck_assert_uint_eq(s.requests.freed, 1);
    wt_ok(warm_stats_reset_totals(runtime));
    s = stats_now();
    ck_assert_uint_eq(s.requests.allocated, 1);
    ck_assert_uint_eq(s.requests.freed, 0);
    ck_assert_uint_eq(s.driver_alloc.count, 0);
    ck_assert_uint_eq(s.requests.peak, 1);
    wt_ok(warm_free(b));
    wt_ok(warm_empty_cache(runtime, NULL));
    s = stats_now();
    ck_assert_uint_eq(s.driver_free.count, 1);
    ck_assert_uint_eq(s.held_bytes.current, 0);
    ck_assert_uint_eq(s.segments.freed, 1);
}
END_TEST

START_TEST(test_B14_classes_sum_to_the_whole)
{
    void *block[20];
    uint64_t requests = 0, requested = 0, handed = 0;
    warm_space_stats all;

    for (int i = 0; i < 20; i++) {
        block[i] = take((size_t)300 << i);
    }
    for (int i = 0; i < warm_pinned_class_count(); i++) {
        warm_class_stats c = {.size = sizeof c};

        wt_ok(warm_pinned_get_class_stats(runtime, i, &c));
        requests += c.requests.current;
        requested += c.requested_bytes.current;
        handed += c.handed_bytes.current;
    }
    all = stats_now();
    ck_assert_uint_eq(requests, all.requests.current);
    ck_assert_uint_eq(requested, all.requested_bytes.current);
    ck_assert_uint_eq(handed, all.block_bytes.current);
    for (int i = 0; i < 20; i++) {
        wt_ok(warm_free(block[i]));
    }
}
END_TEST

/* The commonest mistake: free right after queueing the copy. */
START_TEST(test_B16_copy_keeps_its_buffer_until_it_has_run)
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
    ck_assert_uint_eq(streams_of(in), 1);
    wt_gate_open(gate);
    settle(stream);
    for (int i = 0; i < SIZE; i++) {
        wt_require(in[i] == 7, "byte %d is %d", i, in[i]);
    }
    wt_ok(warm_free(in));
    wt_ok(warm_free(thief));
    settle(stream);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
}
END_TEST

START_TEST(test_B16_bad_copies_are_refused_and_change_nothing)
{
    char *block = take(SIZE);
    void *device = NULL;
    warm_block_info info = {.size = sizeof info};

    wt_ok(warm_device_alloc_uncached(runtime, 0, 2 * SIZE, &device));
    wt_ok(warm_block_get_info(block, &info));
    wt_fails(
        WARM_INVALID_ARGUMENT,
        warm_copy_async(runtime, device, NULL, 1, WARM_COPY_TO_DEVICE, stream));
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_copy_async(runtime, device, block, info.bytes + 1,
                             WARM_COPY_TO_DEVICE, stream));
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_copy_async(runtime, device, block + 10, info.bytes,
                             WARM_COPY_TO_DEVICE, stream));
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_copy_async(runtime, device, block, 1, (warm_copy_direction)9,
                             stream));
    ck_assert_uint_eq(streams_of(block), 0);
    wt_ok(warm_copy_async(runtime, device, block, 0, WARM_COPY_TO_DEVICE,
                          stream));
    ck_assert_uint_eq(streams_of(block), 0);
    wt_ok(warm_free(block));
    wt_ok(warm_device_free_uncached(runtime, 0, device));
}
END_TEST

/* One end is good, the other is not: neither block has a use then. */
START_TEST(test_B16_copy_refused_for_one_end_records_on_neither)
{
    char *from = take(SIZE);
    char *to = take(SIZE);

    wt_fails(WARM_INVALID_ARGUMENT,
             warm_copy_async(runtime, to + 10000, from, SIZE, WARM_COPY_TO_HOST,
                             stream));
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_copy_async(runtime, to, from + 10000, SIZE, WARM_COPY_TO_HOST,
                             stream));
    ck_assert_uint_eq(streams_of(from), 0);
    ck_assert_uint_eq(streams_of(to), 0);
    wt_ok(warm_free(from));
    wt_ok(warm_free(to));
}
END_TEST

START_TEST(test_C10_bad_frees_are_refused_and_corrupt_nothing)
{
    char *block = take(SIZE);
    char *small = take(100);
    int local = 0;
    warm_space_stats before = stats_now(), after;

    wt_fails(WARM_INVALID_POINTER, warm_free(&local));
    wt_fails(WARM_INVALID_POINTER, warm_free(block + 1));
    wt_fails(WARM_INVALID_POINTER, warm_free(block + 8192));
    wt_fails(WARM_INVALID_POINTER, warm_free(small + 8));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "0x"));
    after = stats_now();
    ck_assert_int_eq(memcmp(&before, &after, sizeof before), 0);
    wt_ok(warm_free(block));
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    wt_ok(warm_free(small));
    wt_fails(WARM_INVALID_POINTER, warm_free(small));
    ck_assert_uint_eq(stats_now().requests.freed, 2);
}
END_TEST

START_TEST(test_C10_pending_block_cannot_be_freed_twice)
{
    void *block = take(SIZE);
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    wt_gate_open(gate);
    settle(stream);
    ck_assert_uint_eq(stats_now().pending.freed, 1);
}
END_TEST

START_TEST(test_G2_block_goes_back_to_the_runtime_it_came_from)
{
    warm_runtime *second = wt_runtime(NULL);
    void *mine = take(SIZE);
    void *theirs = NULL;
    warm_space_stats stats = {.size = sizeof stats};

    wt_ok(warm_pinned_alloc(second, SIZE, &theirs));
    wt_ok(warm_free(theirs));
    ck_assert_uint_eq(stats_now().requests.freed, 0);
    wt_ok(warm_pinned_get_stats(second, &stats));
    ck_assert_uint_eq(stats.requests.freed, 1);
    wt_runtime_end(second);
    wt_ok(warm_free(mine));
}
END_TEST

START_TEST(test_G2_live_blocks_are_reported_and_stay_usable)
{
    warm_runtime *second = wt_runtime(NULL);
    warm_destroy_report report = {.size = sizeof report};
    void *block = NULL;

    wt_ok(warm_pinned_alloc(second, SIZE, &block));
    wt_ok(warm_runtime_destroy(second, &report));
    ck_assert_uint_eq(report.blocks, 1);
    ck_assert_uint_eq(report.block_bytes, 106496);
    memset(block, 3, SIZE);
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
    wt_fails(WARM_RUNTIME_GONE, warm_pinned_alloc(second, SIZE, &block));
}
END_TEST

START_TEST(test_G6_null_arguments_are_named)
{
    void *pointer = &pointer;

    wt_fails(WARM_INVALID_ARGUMENT, warm_pinned_alloc(NULL, 1, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    wt_fails(WARM_INVALID_ARGUMENT, warm_pinned_alloc(runtime, 1, NULL));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, SIZE_MAX, &pointer));
    wt_fails(WARM_INVALID_ARGUMENT, warm_pinned_get_stats(runtime, NULL));
    wt_fails(WARM_INVALID_ARGUMENT, warm_block_get_info(pointer, NULL));
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_memory_callback_add(runtime, NULL, NULL));
    ck_assert_uint_eq(stats_now().requests.allocated, 0);
}
END_TEST

/* ---- out of memory: runtimes with a limit ----------------------------- */

static void limited(void)
{
    warm_options options = {.size = sizeof options,
                            .pinned_limit = (uint64_t)32 << 20};

    runtime = wt_runtime(&options);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_stream_create(runtime, 0, &other));
}

START_TEST(test_B12_error_says_what_is_held_idle_and_pending)
{
    void *block = take(10 << 20);
    void *pointer = NULL;
    warm_space_stats before = stats_now(), after;

    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 30 << 20, &pointer));
    ck_assert_ptr_null(pointer);
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "30.0 MiB"));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "held 10.0 MiB"));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "idle 0 B"));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "pending 0 B"));
    after = stats_now();
    ck_assert_uint_eq(after.failures, 1);
    ck_assert_uint_eq(after.requests.allocated, before.requests.allocated);
    ck_assert_uint_eq(after.held_bytes.current, before.held_bytes.current);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_B12_idle_segments_go_back_before_an_error)
{
    void *block = take(20 << 20);

    wt_ok(warm_free(block));
    block = take(28 << 20);
    ck_assert_uint_eq(stats_now().retries, 1);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_B12_finished_work_is_collected_before_an_error)
{
    void *block = take(20 << 20);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, stream));
    block = take(20 << 20);
    ck_assert_uint_eq(stats_now().driver_alloc.count, 1);
    wt_ok(warm_free(block));
}
END_TEST

START_TEST(test_B12_small_request_fits_where_a_segment_does_not)
{
    void *big = take(30 << 20);
    void *small = take(1 << 20);

    /* Of a segment of 4 MiB half is below the limit. */
    ck_assert_uint_eq(stats_now().held_bytes.current, 32 << 20);
    wt_ok(warm_free(small));
    wt_ok(warm_free(big));
}
END_TEST

struct hoard {
    void *block;
    int calls;
    size_t asked;
};

static int give_hoard(void *context, size_t bytes)
{
    struct hoard *hoard = context;
    void *block = hoard->block;

    hoard->calls++;
    hoard->asked = bytes;
    hoard->block = NULL;
    return block != NULL && warm_free(block) == WARM_OK;
}

START_TEST(test_B12_callbacks_are_asked_before_an_error)
{
    struct hoard hoard = {.block = take(20 << 20)};
    void *pointer = NULL;

    wt_ok(warm_memory_callback_add(runtime, give_hoard, &hoard));
    pointer = take(28 << 20);
    ck_assert_int_eq(hoard.calls, 1);
    ck_assert_uint_eq(hoard.asked, 28 << 20);
    wt_ok(warm_free(pointer));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 40 << 20, &pointer));
    ck_assert_int_eq(hoard.calls, 2);
    wt_ok(warm_memory_callback_remove(runtime, give_hoard, &hoard));
    wt_fails(WARM_NOT_FOUND,
             warm_memory_callback_remove(runtime, give_hoard, &hoard));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 40 << 20, &pointer));
    ck_assert_int_eq(hoard.calls, 2);
}
END_TEST

/* What a callback frees serves the request; it does not go to the system and
 * come back. */
START_TEST(test_B12_block_freed_by_a_callback_is_handed_out)
{
    struct hoard hoard = {.block = take(20 << 20)};
    void *freed = hoard.block;
    void *pointer;

    wt_ok(warm_memory_callback_add(runtime, give_hoard, &hoard));
    pointer = take(20 << 20);
    ck_assert_ptr_eq(pointer, freed);
    ck_assert_uint_eq(stats_now().driver_free.count, 0);
    ck_assert_uint_eq(stats_now().driver_alloc.count, 1);
    ck_assert_uint_eq(stats_now().retries, 1);
    wt_ok(warm_free(pointer));
}
END_TEST

/* As above, but a stream used the block. */
static int give_hoard_used(void *context, size_t bytes)
{
    return give_hoard(context, bytes) &&
           warm_stream_synchronize(runtime, stream) == WARM_OK;
}

START_TEST(test_B12_used_block_freed_by_a_callback_is_collected)
{
    struct hoard hoard = {.block = take(20 << 20)};
    void *freed = hoard.block;
    void *pointer;

    wt_ok(warm_record_stream(freed, stream));
    wt_ok(warm_memory_callback_add(runtime, give_hoard_used, &hoard));
    pointer = take(20 << 20);
    ck_assert_ptr_eq(pointer, freed);
    wt_ok(warm_free(pointer));
}
END_TEST

START_TEST(test_B12_callbacks_are_told_apart_by_their_context)
{
    struct hoard first = {.calls = 0}, second = {.calls = 0};
    void *pointer = NULL;

    wt_ok(warm_memory_callback_add(runtime, give_hoard, &first));
    wt_ok(warm_memory_callback_add(runtime, give_hoard, &second));
    wt_ok(warm_memory_callback_remove(runtime, give_hoard, &second));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 40 << 20, &pointer));
    ck_assert_int_eq(first.calls, 1);
    ck_assert_int_eq(second.calls, 0);
}
END_TEST

START_TEST(test_B14_totals_begin_at_what_is_current)
{
    void *block = take(20 << 20);
    void *pointer = NULL;
    warm_space_stats s;

    wt_ok(warm_free(block));
    block = take(20 << 20);
    wt_ok(warm_free(block));
    block = take(28 << 20);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 28 << 20, &pointer));
    s = stats_now();
    ck_assert(s.cache_hits == 1 && s.retries == 1 && s.failures == 1);
    wt_ok(warm_stats_reset_totals(runtime));
    s = stats_now();
    ck_assert(s.cache_hits == 0 && s.retries == 0 && s.failures == 0);
    ck_assert_uint_eq(s.held_bytes.allocated, 28 << 20);
    ck_assert_uint_eq(s.held_bytes.freed, 0);
    wt_ok(warm_free(block));
}
END_TEST

static int fail_inside(void *context, size_t bytes)
{
    (void)bytes;
    return warm_free(context) == WARM_OK;
}

START_TEST(test_B12_failure_inside_a_callback_is_not_the_cause)
{
    void *block = take(20 << 20);
    void *pointer = NULL;
    int local = 0;

    wt_ok(warm_memory_callback_add(runtime, fail_inside, &local));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 20 << 20, &pointer));
    ck_assert_ptr_nonnull(
        strstr(warm_last_error_message(), "the limit of 32.0 MiB is reached"));
    wt_ok(warm_free(block));
}
END_TEST

/* Three threads with one block each, of many sizes: there is always room for
 * all three, if what is idle goes back in time. */
enum { SHARERS = 3 };

static void share_limit(void *argument, unsigned index)
{
    unsigned *failures = argument;
    uint64_t random = wt_seed() + index;
    unsigned rounds = wt_scaled(150);

    for (unsigned i = 0; i < rounds; i++) {
        size_t pages = 2200 + (size_t)wt_random(&random) % 500;
        void *pointer = NULL;

        failures[index] +=
            warm_pinned_alloc(runtime, pages * 4096, &pointer) != WARM_OK;
        (void)warm_free(pointer);
    }
}

START_TEST(test_B12_threads_within_the_limit_never_run_out)
{
    unsigned failures[SHARERS] = {0};

    wt_threads(SHARERS, share_limit, failures);
    for (int i = 0; i < SHARERS; i++) {
        ck_assert_uint_eq(failures[i], 0);
    }
    ck_assert_uint_eq(stats_now().failures, 0);
    ck_assert_uint_eq(stats_now().requests.current, 0);
}
END_TEST

START_TEST(test_B12_G6_capture_mode_that_fails_does_not_hide_the_reason)
{
    warm_options options = {.size = sizeof options, .pinned_limit = 1 << 20};
    warm_runtime *r = wt_runtime(&options);
    warm_error error = {.size = sizeof error};
    void *pointer = NULL;

    wt_ok(warm_testing_fail(r, "capture_mode", 2, 0));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(r, 2 << 20, &pointer));
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.message, "2.0 MiB"));
    wt_ok(warm_testing_fail(r, "capture_mode", 0, 0));
    wt_runtime_end(r);
}
END_TEST

static void add_limited(Suite *suite)
{
    TCase *tcase = tcase_create("limit");

    tcase_add_checked_fixture(tcase, limited, teardown);
    tcase_add_test(tcase, test_B12_error_says_what_is_held_idle_and_pending);
    tcase_add_test(tcase, test_B12_idle_segments_go_back_before_an_error);
    tcase_add_test(tcase, test_B12_finished_work_is_collected_before_an_error);
    tcase_add_test(tcase, test_B12_small_request_fits_where_a_segment_does_not);
    tcase_add_test(tcase, test_B12_callbacks_are_asked_before_an_error);
    tcase_add_test(tcase, test_B12_block_freed_by_a_callback_is_handed_out);
    tcase_add_test(tcase, test_B12_used_block_freed_by_a_callback_is_collected);
    tcase_add_test(tcase, test_B12_callbacks_are_told_apart_by_their_context);
    tcase_add_test(tcase, test_B14_totals_begin_at_what_is_current);
    tcase_add_test(tcase, test_B12_failure_inside_a_callback_is_not_the_cause);
    tcase_add_test(tcase, test_B12_threads_within_the_limit_never_run_out);
    suite_add_tcase(suite, tcase);
}

static void add_streams(Suite *suite)
{
    TCase *tcase = tcase_create("streams");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_B3_record_answers_whether_the_pointer_is_ours);
    tcase_add_loop_test(tcase, test_B3_pointer_into_the_middle_counts, 0, 4);
    tcase_add_test(tcase, test_B4_free_waits_for_the_stream);
    tcase_add_test(tcase, test_B4_same_stream_twice_is_one_use);
    tcase_add_test(tcase, test_B4_every_recorded_stream_must_pass);
    tcase_add_test(tcase, test_B4_work_queued_after_the_record_counts);
    tcase_add_test(tcase, test_B5_stuck_stream_delays_only_its_blocks);
    tcase_add_test(tcase, test_B6_blocks_outlive_their_stream);
    tcase_add_test(tcase, test_B6_retired_stream_may_go_on);
    tcase_add_loop_test(
        tcase, test_B6_per_thread_stream_of_another_thread_is_waited_for, 0,
        wt_on_gpu() ? 1 : 2);
    tcase_add_loop_test(tcase, test_B6_default_streams_are_streams, 0, 3);
    tcase_add_test(tcase, test_B7_allocator_leaves_a_capture_alone);
    tcase_add_test(tcase,
                   test_B6_B7_a_stream_retired_in_a_capture_is_not_named_again);
    tcase_add_test(tcase,
                   test_B7_block_freed_while_its_stream_captures_is_kept);
    tcase_add_test(tcase, test_B16_copy_keeps_its_buffer_until_it_has_run);
    tcase_add_test(tcase, test_B16_bad_copies_are_refused_and_change_nothing);
    tcase_add_test(tcase, test_B16_copy_refused_for_one_end_records_on_neither);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("pinned");
    TCase *tcase = tcase_create("blocks");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_B1_no_bytes_give_null_and_null_may_be_freed);
    tcase_add_test(tcase, test_B2_block_without_pending_work_is_reused);
    tcase_add_test(tcase, test_B8_odd_sizes_are_held_as_asked);
    tcase_add_test(tcase, test_B11_empty_cache_returns_idle_segments_only);
    if (wt_on_host()) {
        tcase_add_test(
            tcase, test_B11_empty_cache_leaves_segments_with_pending_blocks);
    }
    tcase_add_test(tcase, test_B11_trim_stops_at_its_target);
    tcase_add_test(tcase, test_B14_statistics_follow_every_step);
    tcase_add_test(tcase, test_B14_classes_sum_to_the_whole);
    tcase_add_test(tcase, test_C10_bad_frees_are_refused_and_corrupt_nothing);
    tcase_add_test(tcase, test_C10_pending_block_cannot_be_freed_twice);
    tcase_add_test(tcase, test_G2_block_goes_back_to_the_runtime_it_came_from);
    tcase_add_test(tcase, test_G2_live_blocks_are_reported_and_stay_usable);
    tcase_add_test(tcase, test_G6_null_arguments_are_named);
    tcase_add_test(
        tcase, test_B12_G6_capture_mode_that_fails_does_not_hide_the_reason);
    suite_add_tcase(suite, tcase);
    add_streams(suite);
    add_limited(suite);
    return wt_main(suite);
}
