/* check_spaces.c: tests that run for every kind of memory, each described by a
 * row of functions, through public headers and on every backend. What only one
 * kind does is in check_pinned.c and check_device_memory.c. Memory of a device
 * is allocated on a stream without work, and used on others. */
/* memcheck: one process */
#include "wt.h"
#include "wt_short.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 100000, LIMIT = 32 << 20 };

struct space {
    bool on_host; /* who has a block may write there */
    warm_status (*alloc)(warm_runtime *r, warm_stream s, size_t bytes,
                         void **pointer);
    void (*stats)(warm_runtime *r, warm_space_stats *stats);
    warm_status (*trim)(warm_runtime *r, size_t target, size_t *released);
    warm_status (*reset_peaks)(warm_runtime *r);
    warm_status (*reset_totals)(warm_runtime *r);
};

static warm_status alloc_pinned(warm_runtime *r, warm_stream s, size_t bytes,
                                void **pointer)
{
    return warm_pinned_alloc(r, bytes, pointer);
}

static void pinned_stats(warm_runtime *r, warm_space_stats *stats)
{
    wt_ok(warm_pinned_get_stats(r, stats));
}

static warm_status alloc_device(warm_runtime *r, warm_stream s, size_t bytes,
                                void **pointer)
{
    return warm_device_alloc(r, 0, s, bytes, pointer);
}

/* The same figures under the names that pinned memory has for them. */
static void device_stats(warm_runtime *r, warm_space_stats *stats)
{
    warm_device_stats s = wt_device_stats(r);

    stats->live = s.all.live;
    stats->requested_bytes = s.all.requested_bytes;
    stats->live_bytes = s.all.live_bytes;
    stats->segments = s.all.segments;
    stats->held_bytes = s.all.held_bytes;
    stats->pending.current = s.all.active.current - s.all.live.current;
    stats->pending_bytes.current =
        s.all.active_bytes.current - s.all.live_bytes.current;
    stats->idle_bytes = s.all.inactive_split_bytes;
    stats->driver_alloc = s.driver_alloc;
    stats->driver_free = s.driver_free;
    stats->cache_hits = s.cache_hits;
    stats->retries = s.retries;
    stats->failures = s.failures;
    stats->lost = s.lost;
    stats->captured = s.captured;
    stats->captured_bytes = s.captured_bytes;
}

static warm_status trim_device(warm_runtime *r, size_t target, size_t *released)
{
    return warm_device_trim(r, 0, target, released);
}

static warm_status reset_device_peaks(warm_runtime *r)
{
    return warm_device_reset_peaks(r, 0);
}

static warm_status reset_device_totals(warm_runtime *r)
{
    return warm_device_reset_totals(r, 0);
}

enum { PINNED, DEVICE };

static const struct space spaces[] = {
    {true, alloc_pinned, pinned_stats, warm_pinned_trim,
     warm_pinned_reset_peaks, warm_pinned_reset_totals},
    {false, alloc_device, device_stats, trim_device, reset_device_peaks,
     reset_device_totals}};

static const struct space *space;
static warm_runtime *runtime;
static warm_stream own, stream, other;

/* ---- fixtures: a space, and what its streams are like -------------------- */

static void begin(const struct space *which, uint64_t limit)
{
    space = which;
    runtime = wt_runtime_with(.pinned_high = limit, .pinned_low = WARM_OFF);
    own = wt_stream(runtime, 0);
    stream = wt_stream(runtime, 0);
    other = wt_stream(runtime, 0);
    if (limit > 0) {
        wt_limit(runtime, (double)limit);
    }
}

static void pinned(void)
{
    begin(&spaces[PINNED], 0);
}

static void device(void)
{
    begin(&spaces[DEVICE], 0);
}

/* As streams of the program that nobody has adopted. */
static void pinned_foreign(void)
{
    pinned();
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_stream_retire(runtime, other));
}

static void device_foreign(void)
{
    device();
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_stream_retire(runtime, other));
}

static void pinned_limited(void)
{
    begin(&spaces[PINNED], LIMIT);
}

static void device_limited(void)
{
    begin(&spaces[DEVICE], LIMIT);
}

static void teardown(void)
{
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, other));
    wt_ok(warm_stream_destroy(runtime, own));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, other));
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static warm_status try(size_t bytes, void **pointer)
{
    return space->alloc(runtime, own, bytes, pointer);
}

static void *take(size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try(bytes, &pointer));
    ck_assert_ptr_nonnull(pointer);
    return pointer;
}

static void touch(void *block, size_t bytes)
{
    if (space->on_host) {
        memset(block, 3, bytes);
    }
}

static warm_status trim(size_t target, size_t *released)
{
    return space->trim(runtime, target, released);
}

static warm_space_stats stats_of(warm_runtime *r)
{
    warm_space_stats stats = WARM_INIT(warm_space_stats);

    space->stats(r, &stats);
    return stats;
}

static warm_space_stats stats_now(void)
{
    return stats_of(runtime);
}

WT_CASE("any", .setup = pinned, .also = {device}, .teardown = teardown);

WT_TEST(test_B1_C1_no_bytes_give_null_and_null_may_be_freed)
{
    void *pointer = &pointer;

    wt_ok(try(0, &pointer));
    ck_assert_ptr_null(pointer);
    wt_ok(warm_free(NULL));
    ck_assert_uint_eq(stats_now().live.allocated, 0);
}

WT_TEST(test_B2_C1_block_without_pending_work_is_reused)
{
    void *first = take(SIZE);
    warm_space_stats stats;

    wt_ok(warm_free(first));
    ck_assert_ptr_eq(take(SIZE), first);
    stats = stats_now();
    ck_assert_uint_eq(stats.driver_alloc.count, 1);
    ck_assert_uint_eq(stats.cache_hits, 1);
    wt_ok(warm_free(first));
}

WT_TEST(test_B3_C4_record_answers_whether_the_pointer_is_ours)
{
    char *block = take(SIZE);
    warm_block_info info;
    int local = 0;
    void *heap = malloc(64);

    wt_fails(WARM_NOT_FOUND, warm_record_stream(&local, stream));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(heap, stream));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(NULL, stream));
    info = wt_block_info(block);
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block + info.bytes, stream));
    ck_assert_uint_eq(wt_block_info(block).streams, 0);
    wt_ok(warm_record_stream(block, stream));
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    wt_ok(warm_free(block));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
    wt_ok(trim(0, NULL));
    wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
    free(heap);
}

static const size_t middle_sizes[] = {700, 6000, SIZE, 5 << 20};

WT_LOOP_TEST(test_B3_C4_pointer_into_the_middle_counts, 4)
{
    size_t bytes = middle_sizes[_i];
    char *block = take(bytes);
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_record_stream(block + bytes / 2, stream));
    wt_ok(warm_record_stream(block + bytes - 1, other));
    ck_assert_uint_eq(wt_block_info(block + 1).streams, 2);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_settle(runtime, other);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}

/* It matters whether somebody has adopted the streams. */
WT_TEST(test_B4_C4_same_stream_twice_is_one_use)
{
    void *block = take(SIZE);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_record_stream(block, stream));
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    wt_ok(warm_record_stream(block, other));
    ck_assert_uint_eq(wt_block_info(block).streams, 2);
    wt_ok(warm_free(block));
    wt_settle(runtime, stream);
    wt_settle(runtime, other);
}

/* It matters whether somebody has adopted the streams. */
/* It matters whether somebody has adopted the streams. */
WT_CASE("streams", .setup = pinned,
        .also = {device, pinned_foreign, device_foreign}, .teardown = teardown);

WT_TEST(test_B4_C4_free_waits_for_the_stream)
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
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
    wt_ok(warm_free(second));
}

WT_TEST(test_B4_C4_every_recorded_stream_must_pass)
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
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(second);
    wt_settle(runtime, other);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}

WT_TEST(test_B4_C4_work_queued_after_the_record_counts)
{
    void *block = take(SIZE);
    wt_gate *gate;

    wt_ok(warm_record_stream(block, stream));
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}

WT_TEST(test_B5_C4_stuck_stream_delays_only_its_blocks)
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
    wt_free_all(block, 32);
    wt_settle(runtime, other);
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}

WT_CASE("any", .setup = pinned, .also = {device}, .teardown = teardown);

/* The stream ends while a block that it uses is live, or already pending. */
WT_TEST(test_B6_C4_blocks_outlive_their_stream)
{
    void *pending = take(SIZE);
    void *live = take(SIZE);
    warm_stream brief = wt_stream(runtime, 0);
    wt_gate *gate = wt_gate_close(runtime, brief);

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

WT_TEST(test_B6_C4_retired_stream_may_go_on)
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
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
    wt_ok(warm_stream_retire(runtime, stream));
}

/* Its last work cannot be told any more, and after this call its address may
 * be another stream's: the driver hears nothing of it when the block goes. */
WT_TEST(test_B6_B7_C4_a_stream_retired_in_a_capture_is_not_named_again)
{
    uint64_t before = 0, after = 0;
    void *block = take(SIZE);
    warm_stream brief = wt_stream(runtime, 0);

    wt_ok(warm_record_stream(block, brief));
    wt_ok(warm_capture_begin(runtime, brief));
    wt_ok(warm_stream_retire(runtime, brief));
    before = wt_calls(runtime, "stream_capture");
    wt_ok(warm_free(block));
    after = wt_calls(runtime, "stream_capture");
    ck_assert_uint_eq(after, before);
    ck_assert_uint_eq(stats_now().lost, 1);
    wt_capture_drop(runtime, brief);
    wt_ok(warm_stream_destroy(runtime, brief));
}

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
WT_LOOP_TEST(test_B6_C4_per_thread_stream_of_another_thread_is_waited_for,
             wt_on_gpu() ? 1 : 2)
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
    wt_settle(runtime, WARM_STREAM_PER_THREAD);
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

static const warm_stream defaults[] = {NULL, (warm_stream)(uintptr_t)1,
                                       (warm_stream)(uintptr_t)2};

WT_LOOP_TEST(test_B6_C4_default_streams_are_streams, 3)
{
    void *block = take(SIZE);
    wt_gate *gate = wt_gate_close(runtime, defaults[_i]);

    wt_ok(warm_record_stream(block, defaults[_i]));
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    wt_gate_open(gate);
    wt_settle(runtime, defaults[_i]);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}

/* It matters whether somebody has adopted the streams. */
WT_CASE("streams", .setup = pinned,
        .also = {device, pinned_foreign, device_foreign}, .teardown = teardown);

WT_TEST(test_B7_C4_allocator_leaves_a_capture_alone)
{
    void *waiting = take(SIZE);
    void *used = take(SIZE);
    void *more;

    wt_ok(warm_record_stream(waiting, other));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_record_stream(used, stream));
    wt_ok(warm_free(waiting));
    more = take((size_t)64 << 20); /* must grow, and polls before */
    wt_ok(warm_poll(runtime));
    wt_ok(warm_free(more));
    wt_ok(trim(0, NULL));
    wt_ok(warm_free(used));
    wt_capture_drop(runtime, stream);
    ck_assert_uint_eq(stats_now().captured, 1);
    ck_assert_uint_eq(stats_now().live.current, 0);
    ck_assert_ptr_ne(more = take(SIZE), used);
    wt_ok(warm_free(more));
    wt_settle(runtime, other);
}

/* Used before the capture, freed in it: the graph may use the block as well,
 * since the stream was recorded and captures. */
/* The graph may run at any time, whenever the block is freed. */
WT_TEST(test_B7_C4_block_that_a_capture_used_is_kept_when_freed_later)
{
    void *used = take(SIZE), *next;
    warm_graph graph;

    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_record_stream(used, stream));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_settle(runtime, stream);
    wt_ok(warm_free(used));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().captured, 1);
    ck_assert_ptr_ne(next = take(SIZE), used);
    wt_ok(warm_free(next));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Recorded before it: not the graph's, and back when that and the work are
 * done. */
WT_TEST(test_B7_C4_E9_block_freed_while_its_stream_captures_waits_for_it)
{
    void *used = take(SIZE);
    void *next;

    wt_ok(warm_record_stream(used, stream));
    wt_ok(warm_record_stream(used, other));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_free(used));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().pending.current, 1);
    ck_assert_ptr_ne(next = take(SIZE), used);
    wt_capture_drop(runtime, stream);
    wt_settle(runtime, stream);
    wt_settle(runtime, other);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(stats_now().captured, 0);
    ck_assert_uint_eq(stats_now().pending.current, 0);
    wt_ok(warm_free(next));
}

WT_CASE("any", .setup = pinned, .also = {device}, .teardown = teardown);

WT_TEST(test_B11_C8_empty_cache_returns_idle_segments_only)
{
    void *live = take(8 << 20);
    void *idle = take(16 << 20);
    size_t released = 0;

    wt_ok(warm_free(idle));
    wt_ok(trim(0, &released));
    ck_assert_uint_eq(released, 16 << 20);
    ck_assert_uint_eq(stats_now().held_bytes.current, 8 << 20);
    wt_ok(warm_free(live));
    wt_ok(trim(0, &released));
    ck_assert_uint_eq(released, 8 << 20);
    ck_assert_uint_eq(stats_now().segments.current, 0);
}

/* Not with CUDA: what is given back waits for the device, and so for ever. */
WT_LOOP_TEST(test_B11_C8_empty_cache_leaves_segments_with_pending_blocks,
             wt_on_host())
{
    void *live = take(8 << 20);
    void *idle = take(16 << 20);
    void *pending = take(32 << 20);
    wt_gate *gate = wt_gate_close(runtime, stream);
    size_t released = 0;

    wt_ok(warm_record_stream(pending, stream));
    wt_free(pending, idle);
    wt_ok(trim(0, &released));
    ck_assert_uint_eq(released, 16 << 20);
    ck_assert_uint_eq(stats_now().held_bytes.current, 40 << 20);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_ok(warm_free(live));
    wt_ok(trim(0, &released));
    ck_assert_uint_eq(released, 40 << 20);
    ck_assert_uint_eq(stats_now().segments.current, 0);
}

WT_TEST(test_B11_C8_trim_stops_at_its_target)
{
    void *block[3];
    size_t released = 0;

    for (int i = 0; i < 3; i++) {
        block[i] = take((size_t)8 << 20);
    }
    wt_free_all(block, 3);
    wt_ok(trim(20 << 20, &released));
    ck_assert_uint_eq(released, 8 << 20);
    wt_ok(trim(20 << 20, &released));
    ck_assert_uint_eq(released, 0);
    ck_assert_uint_eq(stats_now().held_bytes.current, 16 << 20);
}

WT_TEST(test_B14_C6_statistics_follow_every_step)
{
    void *a = take(5000);
    void *b = take(SIZE);
    warm_space_stats s = stats_now();

    ck_assert_uint_eq(s.live.current, 2);
    ck_assert_uint_eq(s.requested_bytes.current, 5000 + SIZE);
    ck_assert_uint_eq(s.live_bytes.current, 5120 + 106496);
    ck_assert_uint_eq(s.segments.current, 1);
    ck_assert_uint_eq(s.held_bytes.current,
                      s.live_bytes.current + s.idle_bytes);
    ck_assert_uint_eq(s.driver_alloc.count, 1);
    ck_assert_uint_ge(s.driver_alloc.max_ns, s.driver_alloc.min_ns);
    wt_ok(warm_free(a));
    wt_ok(space->reset_peaks(runtime));
    s = stats_now();
    ck_assert_uint_eq(s.live.peak, 1);
    ck_assert_uint_eq(s.live.allocated, 2);
    ck_assert_uint_eq(s.live.freed, 1);
    wt_ok(space->reset_totals(runtime));
    s = stats_now();
    ck_assert_uint_eq(s.live.allocated, 1);
    ck_assert_uint_eq(s.live.freed, 0);
    ck_assert_uint_eq(s.driver_alloc.count, 0);
    ck_assert_uint_eq(s.live.peak, 1);
    wt_ok(warm_free(b));
    wt_ok(trim(0, NULL));
    s = stats_now();
    ck_assert_uint_eq(s.driver_free.count, 1);
    ck_assert_uint_eq(s.held_bytes.current, 0);
    ck_assert_uint_eq(s.segments.freed, 1);
}

static void assert_names(const void *pointer)
{
    char text[32];

    snprintf(text, sizeof text, "%p ", pointer);
    ck_assert_msg(strstr(warm_last_error_message(), text) != NULL,
                  "%s is not named: %s", text, warm_last_error_message());
}

/* Whatever is asked, and whyever it is refused. */
WT_TEST(test_C10_every_refusal_names_the_pointer)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle);
    char *block = take(SIZE), *small = take(100), *bad[4];
    int local = 0;
    void *base;
    size_t bytes;

    bad[0] = (char *)&local;
    bad[1] = block + 512;
    bad[2] = take(SIZE);
    bad[3] = small + 8;
    wt_ok(warm_free(bad[2]));
    for (int i = 0; i < 4; i++) {
        wt_fails(WARM_INVALID_POINTER, warm_free(bad[i]));
        assert_names(bad[i]);
        if (i % 2 == 1) {
            continue; /* the others do with the middle */
        }
        wt_fails(WARM_NOT_FOUND, warm_record_stream(bad[i], stream));
        assert_names(bad[i]);
        wt_fails(WARM_NOT_FOUND, warm_block_get_info(bad[i], &info));
        assert_names(bad[i]);
        wt_fails(WARM_NOT_FOUND,
                 warm_device_base_allocation(bad[i], &base, &bytes));
        assert_names(bad[i]);
        wt_fails(WARM_NOT_FOUND, warm_ipc_export(bad[i], &handle));
        assert_names(bad[i]);
    }
    wt_free(block, small);
    wt_fails(WARM_INVALID_POINTER, warm_free(small));
}

WT_TEST(test_C10_pending_block_cannot_be_freed_twice)
{
    void *block = take(SIZE);
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_now().pending.current, 0);
}

WT_TEST(test_G2_block_goes_back_to_the_runtime_it_came_from)
{
    warm_runtime *second = wt_runtime(NULL);
    void *mine = take(SIZE);
    void *theirs = NULL;

    wt_ok(space->alloc(second, NULL, SIZE, &theirs));
    wt_ok(warm_free(theirs));
    ck_assert_uint_eq(stats_now().live.freed, 0);
    ck_assert_uint_eq(stats_of(second).live.freed, 1);
    wt_runtime_end(second);
    wt_ok(warm_free(mine));
}

WT_TEST(test_G2_live_blocks_are_reported_and_stay_usable)
{
    warm_runtime *second = wt_runtime(NULL);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    void *block = NULL;

    wt_ok(space->alloc(second, NULL, SIZE, &block));
    wt_ok(warm_runtime_destroy(second, &report));
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_eq(report.live_bytes, 106496);
    touch(block, SIZE);
    wt_fails(WARM_RUNTIME_GONE, space->alloc(second, NULL, SIZE, &block));
}

/* Whatever is asked about a block that a runtime left behind: whose it was. */
WT_TEST(test_G2_a_block_of_a_destroyed_runtime_is_known_as_such)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle);
    warm_runtime *second = wt_runtime(NULL);
    char *block[2] = {NULL, NULL};
    void *base;
    size_t bytes;

    for (int i = 0; i < 2; i++) {
        void *got = NULL;

        wt_ok(space->alloc(second, NULL, i == 0 ? SIZE : 100, &got));
        block[i] = got;
    }
    wt_ok(warm_runtime_destroy(second, NULL));
    for (int i = 0; i < 4; i++) {
        char *pointer = block[i / 2] + (i % 2 == 0 ? 0 : 8);

        wt_fails(WARM_RUNTIME_GONE, warm_free(pointer));
        assert_names(pointer);
        wt_says("a runtime that was destroyed");
        wt_fails(WARM_RUNTIME_GONE, warm_record_stream(pointer, stream));
        assert_names(pointer);
        wt_fails(WARM_RUNTIME_GONE, warm_block_get_info(pointer, &info));
        wt_fails(WARM_RUNTIME_GONE,
                 warm_device_base_allocation(pointer, &base, &bytes));
        wt_fails(WARM_RUNTIME_GONE, warm_ipc_export(pointer, &handle));
    }
    /* Others go on beside it. */
    wt_ok(warm_free(take(SIZE)));
}

/* ---- threads ------------------------------------------------------------- */

struct brief {
    void *freed, *taken;
    warm_status status;
};

static void free_and_take(void *argument, unsigned index)
{
    struct brief *b = argument;

    b->status = warm_free(b->freed);
    if (b->status == WARM_OK) {
        b->status = try(SIZE, &b->taken);
    }
}

/* What a thread frees, and keeps, is there for others once it has gone; what
 * it was given stays. */
WT_TEST(test_G1_B2_C1_threads_leave_their_memory_to_others)
{
    struct brief b = {.freed = take(SIZE)};
    void *second = take(SIZE), *first = b.freed;

    wt_threads(1, free_and_take, &b);
    wt_ok(b.status);
    ck_assert_ptr_eq(b.taken, first);
    ck_assert_uint_eq(stats_now().live.current, 2);
    wt_ok(warm_free(b.taken));
    b.freed = second;
    wt_threads(1, free_and_take, &b);
    wt_ok(b.status);
    wt_ok(warm_free(b.taken));
    first = take(SIZE);
    second = take(SIZE);
    ck_assert_uint_eq(stats_now().driver_alloc.count, 1);
    wt_free(first, second);
    ck_assert_uint_eq(stats_now().live.allocated, 6);
}

/* At most an eighth more than was asked for from 4 KiB on. */
WT_TEST(test_B8_C3_sizes_are_rounded_a_little_and_aligned)
{
    const size_t sizes[] = {1, 511, 513, 5000, 100001, (5 << 20) + 1};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t bytes = sizes[i];
        void *block = take(bytes);
        warm_block_info info = wt_block_info(block);

        ck_assert_ptr_eq(info.base, block);
        ck_assert_uint_eq(info.requested, bytes);
        ck_assert_uint_ge(info.bytes, bytes);
        ck_assert_uint_le(info.bytes, bytes < 4096 ? (bytes + 511) / 512 * 512
                                                   : bytes + bytes / 8);
        ck_assert_uint_eq((uintptr_t)block % 512, 0);
        ck_assert_uint_eq(info.bytes % 512, 0);
        wt_ok(warm_free(block));
    }
}

/* ---- out of memory: runtimes with a limit ----------------------------- */

WT_CASE("limit", .setup = pinned_limited, .also = {device_limited},
        .teardown = teardown);

WT_TEST(test_B12_C2_error_says_what_is_held_idle_and_pending)
{
    void *gone = take(28 << 20), *block, *part, *used;
    void *pointer = NULL;
    warm_space_stats before, after;
    wt_gate *gate;

    /* What was held at most is not what is. */
    wt_ok(warm_free(gone));
    wt_ok(trim(0, NULL));
    block = take(10 << 20);
    part = take(1 << 20); /* of a segment of 4 MiB */
    used = take(6 << 20);
    gate = wt_gate_close(runtime, stream);
    wt_ok(warm_record_stream(used, stream));
    wt_ok(warm_free(used));
    before = stats_now();
    wt_fails(WARM_OUT_OF_MEMORY, try(30 << 20, &pointer));
    ck_assert_ptr_null(pointer);
    wt_says("30.0 MiB", "held 20.0 MiB", "live 11.0 MiB", "idle 3.0 MiB",
            "pending 6.0 MiB");
    after = stats_now();
    ck_assert_uint_eq(after.failures, 1);
    ck_assert_uint_eq(after.live.allocated, before.live.allocated);
    ck_assert_uint_eq(after.held_bytes.current, before.held_bytes.current);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_free(part, block);
}

WT_TEST(test_B12_C2_idle_segments_go_back_before_an_error)
{
    void *block = take(20 << 20);

    wt_ok(warm_free(block));
    block = take(28 << 20);
    ck_assert_uint_eq(stats_now().retries, 1);
    wt_ok(warm_free(block));
}

WT_TEST(test_B12_C2_finished_work_is_collected_before_an_error)
{
    void *block = take(20 << 20);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, stream));
    block = take(20 << 20);
    ck_assert_uint_eq(stats_now().driver_alloc.count, 1);
    wt_ok(warm_free(block));
}

WT_TEST(test_B12_C2_small_request_fits_where_a_segment_does_not)
{
    void *big = take(30 << 20);
    void *small = take(1 << 20);

    /* Of a segment of 4 MiB half is below the limit. */
    ck_assert_uint_eq(stats_now().held_bytes.current, 32 << 20);
    wt_free(small, big);
}

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

WT_TEST(test_B12_C2_callbacks_are_asked_before_an_error)
{
    struct hoard hoard = {.block = take(20 << 20)};
    void *pointer = NULL;
    uint64_t retries;

    wt_ok(wt_short_add(runtime, give_hoard, &hoard));
    pointer = take(28 << 20);
    ck_assert_int_eq(hoard.calls, 1);
    ck_assert_uint_eq(hoard.asked, 28 << 20);
    wt_ok(warm_free(pointer));
    wt_fails(WARM_OUT_OF_MEMORY, try(40 << 20, &pointer));
    ck_assert_int_eq(hoard.calls, 2);
    retries = stats_now().retries;
    wt_fails(WARM_OUT_OF_MEMORY, try(40 << 20, &pointer));
    ck_assert_int_eq(hoard.calls, 3);
    ck_assert_uint_eq(stats_now().retries, retries); /* it freed nothing */
    wt_ok(wt_short_remove(runtime, give_hoard, &hoard));
    wt_fails(WARM_NOT_FOUND, wt_short_remove(runtime, give_hoard, &hoard));
    wt_fails(WARM_OUT_OF_MEMORY, try(40 << 20, &pointer));
    ck_assert_int_eq(hoard.calls, 3);
}

/* What a callback frees serves the request; it does not go to the system and
 * come back. */
WT_TEST(test_B12_C2_block_freed_by_a_callback_is_handed_out)
{
    struct hoard hoard = {.block = take(20 << 20)};
    void *freed = hoard.block;
    void *pointer;

    wt_ok(wt_short_add(runtime, give_hoard, &hoard));
    pointer = take(20 << 20);
    ck_assert_ptr_eq(pointer, freed);
    ck_assert_uint_eq(stats_now().driver_free.count, 0);
    ck_assert_uint_eq(stats_now().driver_alloc.count, 1);
    ck_assert_uint_eq(stats_now().retries, 1);
    wt_ok(warm_free(pointer));
}

/* As above, but a stream used the block. */
static int give_hoard_used(void *context, size_t bytes)
{
    return give_hoard(context, bytes) &&
           warm_stream_synchronize(runtime, stream) == WARM_OK;
}

WT_TEST(test_B12_C2_used_block_freed_by_a_callback_is_collected)
{
    struct hoard hoard = {.block = take(20 << 20)};
    void *freed = hoard.block;
    void *pointer;

    wt_ok(warm_record_stream(freed, stream));
    wt_ok(wt_short_add(runtime, give_hoard_used, &hoard));
    pointer = take(20 << 20);
    ck_assert_ptr_eq(pointer, freed);
    wt_ok(warm_free(pointer));
}

WT_TEST(test_B12_C2_callbacks_are_told_apart_by_their_context)
{
    struct hoard first = {.calls = 0}, second = {.calls = 0};
    void *pointer = NULL;

    wt_ok(wt_short_add(runtime, give_hoard, &first));
    wt_ok(wt_short_add(runtime, give_hoard, &second));
    wt_ok(wt_short_remove(runtime, give_hoard, &second));
    wt_fails(WARM_OUT_OF_MEMORY, try(40 << 20, &pointer));
    ck_assert_int_eq(first.calls, 1);
    ck_assert_int_eq(second.calls, 0);
}

/* What it frees is kept ready for its thread, and goes back for the request. */
struct many {
    void *block[24];
    int calls;
};

static int free_many(void *context, size_t bytes)
{
    struct many *many = context;

    for (int i = 0; i < 24; i++) {
        wt_ok(warm_free(many->block[i]));
        many->block[i] = NULL;
    }
    return many->calls++ == 0;
}

WT_TEST(test_B12_C2_small_blocks_freed_by_a_callback_make_room)
{
    struct many many = {.calls = 0};

    for (int i = 0; i < 24; i++) {
        many.block[i] = take(1 << 20);
    }
    wt_ok(wt_short_add(runtime, free_many, &many));
    wt_ok(warm_free(take(20 << 20)));
    ck_assert_int_eq(many.calls, 1);
    ck_assert_uint_eq(stats_now().failures, 0);
}

static int ask_inside(void *context, size_t bytes)
{
    struct hoard *hoard = context;
    void *pointer = hoard;

    hoard->calls++;
    wt_invalid(try(bytes, &pointer));
    ck_assert_ptr_eq(pointer, hoard);
    wt_says("a memory callback");
    return 1;
}

/* It is not asked for what it asks for, and so on without an end. */
WT_TEST(test_B12_C2_G6_callback_that_allocates_is_refused)
{
    warm_space_stats before, after;
    struct hoard hoard = {.calls = 0};
    void *pointer = NULL;

    wt_ok(wt_short_add(runtime, ask_inside, &hoard));
    before = stats_now();
    wt_fails(WARM_OUT_OF_MEMORY, try(40 << 20, &pointer));
    after = stats_now();
    ck_assert_int_eq(hoard.calls, 1);
    ck_assert_uint_eq(after.failures, before.failures + 1);
    ck_assert_uint_eq(after.live.allocated, before.live.allocated);
    wt_says("the limit of 32.0 MiB is reached");
    ck_assert_ptr_null(strstr(warm_last_error_message(), "of handles"));
    wt_ok(wt_short_remove(runtime, ask_inside, &hoard));
    pointer = take(20 << 20); /* the thread is in no callback any more */
    wt_ok(warm_free(pointer));
}

/* From another runtime it may: what its callbacks ask for of the first one is
 * refused all the same. */
static int ask_other(void *context, size_t bytes)
{
    struct hoard *hoard = context;
    void *pointer = NULL;

    hoard->calls++;
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(hoard->block, bytes, &pointer));
    wt_ok(warm_pinned_alloc(hoard->block, 1000, &pointer));
    return warm_free(pointer) == WARM_OK;
}

WT_TEST(test_B12_G2_callback_may_allocate_from_another_runtime)
{
    struct hoard inner = {.calls = 0};
    struct hoard outer = {.block = wt_runtime_with(.pinned_high = 32 << 20)};
    void *pointer = NULL;

    wt_ok(wt_short_add(runtime, ask_other, &outer));
    wt_ok(wt_short_add(outer.block, ask_inside, &inner));
    wt_fails(WARM_OUT_OF_MEMORY, try(40 << 20, &pointer));
    ck_assert_int_eq(outer.calls, 1);
    ck_assert_int_eq(inner.calls, 1);
    wt_runtime_end(outer.block);
}

/* A thread counts hits by itself, and is asked before figures are reset. */
WT_TEST(test_B14_C6_totals_forget_what_threads_counted)
{
    void *block = take(SIZE);
    warm_space_stats s;

    for (int i = 0; i < 10; i++) {
        wt_ok(warm_free(block));
        block = take(SIZE);
    }
    wt_ok(space->reset_totals(runtime));
    s = stats_now();
    ck_assert_uint_eq(s.live.allocated, 1);
    ck_assert_uint_eq(s.live.freed, 0);
    ck_assert_uint_eq(s.requested_bytes.allocated, SIZE);
    ck_assert_uint_eq(s.cache_hits, 0);
    wt_ok(warm_free(block));
}

WT_TEST(test_B14_C6_totals_begin_at_what_is_current)
{
    void *block = take(20 << 20);
    void *pointer = NULL;
    warm_space_stats s;

    wt_ok(warm_free(block));
    block = take(20 << 20);
    wt_ok(warm_free(block));
    block = take(28 << 20);
    wt_fails(WARM_OUT_OF_MEMORY, try(28 << 20, &pointer));
    s = stats_now();
    ck_assert(s.cache_hits == 1 && s.retries == 1 && s.failures == 1);
    wt_ok(space->reset_totals(runtime));
    s = stats_now();
    ck_assert(s.cache_hits == 0 && s.retries == 0 && s.failures == 0);
    ck_assert_uint_eq(s.held_bytes.allocated, 28 << 20);
    ck_assert_uint_eq(s.held_bytes.freed, 0);
    wt_ok(warm_free(block));
}

static int fail_inside(void *context, size_t bytes)
{
    return warm_free(context) == WARM_OK;
}

WT_TEST(test_B12_C2_failure_inside_a_callback_is_not_the_cause)
{
    void *block = take(20 << 20);
    void *pointer = NULL;
    int local = 0;

    wt_ok(wt_short_add(runtime, fail_inside, &local));
    wt_fails(WARM_OUT_OF_MEMORY, try(20 << 20, &pointer));
    wt_says("the limit of 32.0 MiB is reached");
    wt_ok(warm_free(block));
}

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

        failures[index] += try(pages * 4096, &pointer) != WARM_OK;
        (void)warm_free(pointer);
    }
}

WT_TEST(test_B12_C2_threads_within_the_limit_never_run_out)
{
    unsigned failures[SHARERS] = {0};

    wt_threads(SHARERS, share_limit, failures);
    for (int i = 0; i < SHARERS; i++) {
        ck_assert_uint_eq(failures[i], 0);
    }
    ck_assert_uint_eq(stats_now().failures, 0);
    ck_assert_uint_eq(stats_now().live.current, 0);
}
