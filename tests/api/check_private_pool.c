/* check_private_pool.c: private pools through public headers (rows E1 to E8),
 * on every backend; graphs are replayed, and what they copy is looked at. */
/* memcheck: one process */
#include "wt.h"
#include "wt_short.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream first, second;
static atomic_uint warnings, leaked;
static char warned_of[256]; /* the last one */
static char leak_of[512];

static void count_warnings(void *context, warm_log_level level,
                           const char *line)
{
    if (level == WARM_LOG_WARNING && strstr(line, "does not capture") != NULL) {
        warnings++;
        snprintf(warned_of, sizeof warned_of, "%s", line);
    }
    if (strstr(line, "leaked") != NULL) {
        leaked++;
        snprintf(leak_of, sizeof leak_of, "%s", line);
    }
}

static void setup(void)
{
    runtime = wt_runtime_with(.segment = 2 * MIB);
    first = wt_stream(runtime, 0);
    second = wt_stream(runtime, 0);
    warnings = leaked = 0;
    warm_log_set(count_warnings, NULL);
}

static void teardown(void)
{
    warm_log_set(NULL, NULL);
    wt_stream_end(runtime, first);
    wt_stream_end(runtime, second);
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

/* ---- either kind of memory ---------------------------------------------- */

enum { PINNED, DEVICE, KINDS };

static warm_status try(int kind, warm_stream stream, size_t bytes,
                       void **pointer)
{
    if (kind == DEVICE) {
        return warm_device_alloc(runtime, 0, stream, bytes, pointer);
    }
    wt_ok(warm_thread_set_stream(runtime, stream));
    return warm_pinned_alloc(runtime, bytes, pointer);
}

static void *take(int kind, warm_stream stream, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try(kind, stream, bytes, &pointer));
    ck_assert_ptr_nonnull(pointer);
    return pointer;
}

static uint64_t held_now(int kind)
{
    return kind == DEVICE ? wt_device_stats(runtime).all.held_bytes.current
                          : wt_pinned_stats(runtime).held_bytes.current;
}

static void empty(int kind)
{
    if (kind == DEVICE) {
        wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    } else {
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
    }
}

/* ---- pools --------------------------------------------------------------- */

static warm_private_pool begin(unsigned flags, warm_pool_filter_fn filter,
                               void *context)
{
    warm_private_pool pool = {0};

    wt_ok(warm_private_pool_begin(runtime, &pool, flags, filter, context));
    ck_assert_uint_ne(pool.number, 0);
    return pool;
}

static void again(warm_private_pool pool)
{
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
}

static warm_private_pool_info info_of(warm_private_pool pool)
{
    warm_private_pool_info info = WARM_INIT(warm_private_pool_info);

    wt_ok(warm_private_pool_get_info(runtime, pool, &info));
    return info;
}

static void end(warm_private_pool pool)
{
    wt_ok(warm_private_pool_end(runtime, pool));
}

static void release(warm_private_pool pool)
{
    wt_ok(warm_private_pool_release(runtime, pool));
}

static int is_stream(void *context, warm_stream stream)
{
    return stream == context;
}

static int always(void *context, warm_stream stream)
{
    return 1;
}

static warm_private_pool begin_capture(warm_stream stream)
{
    warm_private_pool pool = begin(0, NULL, NULL);

    wt_ok(warm_capture_begin(runtime, stream));
    return pool;
}

static warm_graph capture_over(warm_stream stream)
{
    warm_graph graph = NULL;

    wt_ok(warm_capture_end(runtime, stream, &graph));
    return graph;
}

static warm_graph end_capture(warm_private_pool pool, warm_stream stream)
{
    warm_graph graph = capture_over(stream);

    end(pool);
    return graph;
}

WT_CASE("private_pool", .setup = setup, .teardown = teardown, .timeout = 60);

WT_TEST(test_E1_T2_a_first_block_that_fails_leaves_no_record)
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n == 0 || n <= calls; n++) {
        int64_t records = wt_metadata_live();
        warm_runtime *own = wt_runtime_with(.segment = 2 * MIB);
        warm_private_pool pool = {0};
        void *block = NULL;

        wt_ok(warm_private_pool_begin(own, &pool, WARM_POOL_USER, NULL, NULL));
        calls = n == 0 ? wt_metadata_calls() : calls;
        warm_testing_fail_metadata(n, 0);
        if (warm_device_alloc(own, 0, NULL, 1000, &block) == WARM_OK) {
            wt_free(block);
        }
        warm_testing_fail_metadata(0, 0);
        calls = n == 0 ? wt_metadata_calls() - calls : calls;
        wt_ok(warm_private_pool_end(own, pool));
        wt_ok(warm_private_pool_release(own, pool));
        wt_runtime_end(own);
        if (wt_on_host()) { /* the body of a runtime stays */
            ck_assert_int_eq(wt_metadata_live(), records + 1);
        }
    }
    ck_assert_uint_gt(calls, 0);
}

WT_TEST(test_E1_begin_makes_a_pool_or_adds_a_reference)
{
    warm_private_pool pool, other;
    warm_private_pool_info info;

    /* Only a pool that can be paused asks the driver. */
    wt_ok(warm_testing_fail(runtime, "range_unit", 1, 0));
    pool = begin(0, always, NULL);
    wt_ok(warm_testing_fail(runtime, "range_unit", 0, 0));
    info = info_of(pool);
    ck_assert_uint_eq(info.references, 1);
    ck_assert_int_eq(info.recording, 1);
    ck_assert_uint_eq(info.held_bytes, 0);
    end(pool);
    again(pool);
    ck_assert_uint_eq(info_of(pool).references, 2);
    end(pool);
    wt_ok(warm_private_pool_retain(runtime, pool));
    ck_assert_uint_eq(info_of(pool).references, 3);
    other = begin(0, always, NULL);
    ck_assert_uint_ne(other.number, pool.number);
    end(other);
    release(other);
    for (int i = 0; i < 3; i++) {
        release(pool);
    }
    wt_fails(WARM_NOT_FOUND, warm_private_pool_release(runtime, pool));
}

WT_TEST(test_E1_what_cannot_begin_changes_nothing)
{
    warm_private_pool pool = begin(0, always, NULL), none = {0}, gone = {4711};
    warm_private_pool_info info = {.size = 3};

    wt_invalid(warm_private_pool_begin(runtime, &pool, 0, always, NULL));
    wt_says("recording");
    ck_assert_uint_eq(info_of(pool).references, 1);
    end(pool);
    wt_invalid(
        warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, always, NULL));
    ck_assert_int_eq(info_of(pool).recording, 0);
    wt_invalid(warm_private_pool_begin(runtime, &none, 8, always, NULL));
    wt_invalid(warm_private_pool_begin(runtime, NULL, 0, always, NULL));
    wt_invalid(warm_private_pool_begin(NULL, &none, 0, always, NULL));
    wt_fails(WARM_NOT_FOUND,
             warm_private_pool_begin(runtime, &gone, 0, always, NULL));
    wt_says("4711");
    ck_assert_uint_eq(none.number, 0);
    wt_fails(WARM_NOT_FOUND, warm_private_pool_retain(runtime, gone));
    wt_fails(WARM_NOT_FOUND,
             warm_private_pool_release(runtime, (warm_private_pool){0}));
    wt_invalid(warm_private_pool_get_info(runtime, pool, &info));
    release(pool);
}

/* The teardown looks for records. */
WT_TEST(test_E1_G2_a_lost_stream_of_a_pool_leaves_no_record)
{
    warm_private_pool pool = begin(WARM_POOL_USER, always, NULL);
    warm_stream lost = wt_stream(runtime, 0);

    wt_ok(warm_free(take(DEVICE, lost, 64 * KIB)));
    end(pool);
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 1));
    wt_ok(warm_testing_fail(runtime, "stream_synchronize", 1, 1));
    wt_ok(warm_stream_retire(runtime, lost)); /* its end is not recorded */
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    wt_ok(warm_testing_fail(runtime, "stream_synchronize", 0, 0));
    wt_stream_end(runtime, lost);
}

WT_LOOP_TEST(test_E2_end_stops_the_routing_and_keeps_references, KINDS)
{
    warm_private_pool pool = begin(0, always, NULL);
    void *block = take(_i, first, 8 * KIB), *outside;

    ck_assert_uint_eq(info_of(pool).live, 1);
    end(pool);
    ck_assert_uint_eq(info_of(pool).references, 1);
    outside = take(_i, first, 8 * KIB);
    ck_assert_uint_eq(info_of(pool).live, 1);
    wt_invalid(warm_private_pool_end(runtime, pool));
    wt_says("not recording");
    wt_fails(
        WARM_NOT_FOUND,
        warm_private_pool_end(runtime, (warm_private_pool){pool.number + 1}));
    wt_free(block, outside);
    release(pool);
}

WT_LOOP_TEST(test_E1_memory_of_a_pool_is_apart, KINDS)
{
    void *outside = take(_i, first, 8 * KIB), *inside, *next;
    warm_private_pool pool;

    wt_ok(warm_free(outside));
    pool = begin(0, always, NULL);
    inside = take(_i, first, 8 * KIB);
    ck_assert_ptr_ne(inside, outside);
    wt_ok(warm_free(inside));
    end(pool);
    /* Idle in the pool, and not for others. */
    next = take(_i, first, 8 * KIB);
    ck_assert_ptr_eq(next, outside);
    wt_ok(warm_free(next));
    release(pool);
}

WT_LOOP_TEST(test_E1_filter_says_which_stream, KINDS)
{
    warm_private_pool pool = begin(0, is_stream, second);
    void *block[2];

    block[0] = take(_i, first, 8 * KIB);
    ck_assert_uint_eq(info_of(pool).live, 0);
    block[1] = take(_i, second, 8 * KIB);
    ck_assert_uint_eq(info_of(pool).live, 1);
    end(pool);
    wt_free(block[0], block[1]);
    release(pool);
}

static void *taken[2];

static void take_in_thread(void *argument, unsigned index)
{
    (void)warm_device_alloc(runtime, 0, first, 8 * KIB, &taken[DEVICE]);
    (void)warm_pinned_alloc(runtime, 8 * KIB, &taken[PINNED]);
}

WT_TEST(test_E1_without_a_filter_it_is_the_thread)
{
    warm_private_pool pool = begin(0, NULL, NULL);
    void *mine = take(DEVICE, first, 8 * KIB);

    wt_threads(1, take_in_thread, NULL);
    ck_assert_ptr_nonnull(taken[DEVICE]);
    ck_assert_ptr_nonnull(taken[PINNED]);
    ck_assert_uint_eq(info_of(pool).live, 1);
    end(pool);
    wt_free(mine, taken[DEVICE], taken[PINNED]);
    release(pool);
}

static warm_private_pool begun;

static void begin_in_thread(void *context, unsigned index)
{
    (void)warm_private_pool_begin(runtime, &begun, 0, NULL, NULL);
}

/* The next thread has the first one's place, and pthread_self(). */
WT_TEST(test_E1_E7_pool_of_a_thread_that_is_gone_gets_no_others)
{
    begun = (warm_private_pool){0};
    wt_threads(1, begin_in_thread, NULL);
    ck_assert_uint_ne(begun.number, 0);
    for (int i = 0; i < 4; i++) {
        taken[DEVICE] = taken[PINNED] = NULL;
        wt_threads(1, take_in_thread, NULL);
        ck_assert_ptr_nonnull(taken[DEVICE]);
        ck_assert_ptr_nonnull(taken[PINNED]);
        wt_free(taken[DEVICE], taken[PINNED]);
    }
    ck_assert_uint_eq(info_of(begun).held_bytes, 0);
    end(begun);
    release(begun);
}

/* Calls for another runtime come between. */
WT_TEST(test_E1_current_stream_is_that_of_the_runtime)
{
    warm_runtime *other = wt_runtime(NULL);
    warm_private_pool pool = begin(WARM_POOL_USER, is_stream, first);
    void *block = NULL, *others = NULL;

    wt_ok(warm_thread_set_stream(runtime, first));
    wt_ok(warm_thread_set_stream(other, second));
    others = wt_pinned(other, 5000);
    block = wt_pinned(runtime, 5000);
    ck_assert_uint_eq(info_of(pool).live, 1);
    wt_free(block, others);
    end(pool);
    release(pool);
    wt_runtime_end(other);
}

WT_TEST(test_E4_B18_graphs_get_no_pageable_memory)
{
    warm_runtime *small = wt_runtime_with(.pinned_high = MIB);
    warm_private_pool pool = {0};
    void *block = NULL;

    wt_ok(warm_private_pool_begin(small, &pool, 0, always, NULL));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc_on(small, 2 * MIB, WARM_NODE_ANY,
                                  WARM_ALLOC_PAGEABLE_OK, &block));
    ck_assert_ptr_null(block);
    wt_ok(warm_private_pool_end(small, pool));
    wt_ok(warm_private_pool_release(small, pool));
    wt_ok(warm_pinned_alloc_on(small, 2 * MIB, WARM_NODE_ANY,
                               WARM_ALLOC_PAGEABLE_OK, &block));
    wt_ok(warm_free(block));
    wt_runtime_end(small);
}

/* ---- the life of the memory -------------------------------------------- */

WT_LOOP_TEST(test_E3_memory_returns_with_the_last_reference, KINDS)
{
    uint64_t before = held_now(_i);
    warm_private_pool pool = begin(0, always, NULL);
    void *block = take(_i, first, 3 * MIB);

    wt_ok(warm_private_pool_retain(runtime, pool));
    wt_ok(warm_free(block));
    end(pool);
    ck_assert_uint_ge(held_now(_i), before + 3 * MIB);
    empty(_i);
    ck_assert_uint_ge(held_now(_i), 3 * MIB);
    ck_assert_uint_ge(info_of(pool).held_bytes, 3 * MIB);
    ck_assert_uint_eq(info_of(pool).segments, 1);
    release(pool);
    ck_assert_uint_ge(held_now(_i), 3 * MIB);
    release(pool);
    ck_assert_uint_eq(held_now(_i), 0);
}

WT_LOOP_TEST(test_E3_live_blocks_stay_until_they_are_freed, KINDS)
{
    warm_private_pool pool = begin(0, always, NULL);
    void *block[3];

    for (int i = 0; i < 3; i++) {
        block[i] = take(_i, first, 3 * MIB);
    }
    end(pool);
    release(pool);
    ck_assert_uint_ge(held_now(_i), 9 * MIB);
    for (int i = 0; i < 3; i++) {
        uint64_t held = held_now(_i);

        wt_ok(warm_free(block[i]));
        ck_assert_uint_lt(held_now(_i), held);
    }
    ck_assert_uint_eq(held_now(_i), 0);
}

/* After the pool was released and the stream has gone, not the last first. */
WT_LOOP_TEST(test_E3_E8_blocks_outlive_their_pool_in_any_order, 2 * KINDS)
{
    enum { BLOCKS = 12, STEP = 5 };
    int kind = _i % KINDS;
    warm_stream mine = wt_stream(runtime, 0);
    warm_private_pool pool =
        begin(_i / KINDS == 0 ? 0 : WARM_POOL_USER, always, NULL);
    void *block[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = take(kind, mine, (1 + i % STEP) * 100 * KIB);
    }
    wt_ok(warm_free(block[BLOCKS - 1]));
    end(pool);
    release(pool);
    wt_ok(warm_thread_set_stream(runtime, NULL));
    wt_stream_end(runtime, mine);
    for (size_t i = 0; i < BLOCKS; i++) { /* 0, 5, 10, 3, 8, 1, … */
        if (i * STEP % BLOCKS != BLOCKS - 1) {
            wt_ok(warm_free(block[i * STEP % BLOCKS]));
        }
    }
    wt_ok(warm_poll(runtime));
    empty(kind);
    ck_assert_uint_eq(held_now(kind), 0);
}

WT_TEST(test_E3_last_reference_of_a_recording_pool_stays)
{
    warm_private_pool pool = begin(0, always, NULL);

    wt_invalid(warm_private_pool_release(runtime, pool));
    ck_assert_uint_eq(info_of(pool).references, 1);
    wt_ok(warm_private_pool_retain(runtime, pool));
    release(pool);
    end(pool);
    release(pool);
}

/* Pools come and go: their records serve the next ones. */
WT_TEST(test_E3_many_pools_one_after_the_other)
{
    warm_private_pool last = {0};

    for (int i = 0; i < 50; i++) {
        warm_private_pool pool =
            begin((i & 1) != 0 ? WARM_POOL_USER : 0, always, NULL);
        void *pinned = take(PINNED, first, 5000);
        void *device = take(DEVICE, (i & 2) != 0 ? first : second, 5000);

        ck_assert_uint_gt(pool.number, last.number);
        last = pool;
        ck_assert_uint_eq(info_of(pool).live, 2);
        ck_assert_uint_eq(info_of(pool).segments, 2);
        end(pool);
        release(pool);
        wt_free(pinned, device);
        ck_assert_uint_eq(held_now(PINNED) + held_now(DEVICE), 0);
    }
}

/* A graph may be launched after the runtime has ended: what its pool holds
 * stays, and is reported; the memory of a pool without references does not. */
WT_TEST(test_E3_G2_runtime_ends_before_its_pools)
{
    warm_runtime *other = wt_runtime(NULL);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_private_pool_info info = WARM_INIT(warm_private_pool_info);
    warm_private_pool pool = {0}, gone = {0}, user = {0};
    char *block = NULL;
    void *device = NULL, *live = NULL;
    warm_stream stream = wt_stream(other, 0);

    wt_ok(warm_private_pool_begin(other, &user, WARM_POOL_USER, always, NULL));
    wt_ok(warm_free(wt_pinned(other, 5000)));
    wt_ok(warm_private_pool_end(other, user));
    wt_ok(warm_private_pool_begin(other, &gone, 0, always, NULL));
    block = wt_pinned(other, 5000);
    wt_ok(warm_private_pool_end(other, gone));
    wt_free_used(block, stream);
    wt_ok(warm_private_pool_begin(other, &pool, 0, always, NULL));
    /* Its memory would go if nothing recorded. */
    wt_ok(warm_private_pool_release(other, gone));
    block = wt_pinned(other, 5000);
    memset(block, 7, 5000);
    live = wt_pinned(other, 4096);
    device = wt_device(other, stream, 5000);
    wt_ok(warm_record_stream(block, stream));
    wt_free(block, device);
    wt_ok(warm_private_pool_get_info(other, pool, &info));
    wt_ok(warm_stream_destroy(other, stream));
    wt_ok(warm_runtime_destroy(other, &report));
    ck_assert_uint_eq(report.pools, 1);
    ck_assert_uint_eq(report.pool_bytes, info.held_bytes);
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_eq(report.pending, 0);
    ck_assert_uint_eq(report.captured, 0);
    ck_assert_uint_eq(report.captured_bytes, 0);
    for (int i = 0; i < 5000; i++) {
        ck_assert_int_eq(block[i], 7);
    }
    wt_fails(WARM_RUNTIME_GONE, warm_private_pool_end(other, pool));
    wt_fails(WARM_RUNTIME_GONE, warm_private_pool_release(other, pool));
    wt_fails(WARM_RUNTIME_GONE, warm_free(live));
}

/* The same for blocks that a graph of no pool uses. */
WT_TEST(test_E9_G2_blocks_of_graphs_without_a_pool_are_reported)
{
    warm_runtime *other = wt_runtime(NULL);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_space_stats stats = WARM_INIT(warm_space_stats);
    warm_device_stats there;
    warm_stream stream = wt_stream(other, 0);
    void *block = wt_pinned(other, 5000);
    void *device = wt_device(other, stream, 5000);
    warm_graph graph = NULL;

    memset(block, 7, 5000);
    wt_ok(warm_capture_begin(other, stream));
    wt_ok(warm_copy_async(other, device, block, 5000, WARM_COPY_TO_DEVICE,
                          stream));
    wt_free(block, device);
    wt_ok(warm_capture_end(other, stream, &graph));
    wt_ok(warm_pinned_get_stats(other, &stats));
    there = wt_device_stats(other);
    wt_ok(warm_graph_destroy(other, graph));
    wt_ok(warm_stream_destroy(other, stream));
    wt_ok(warm_runtime_destroy(other, &report));
    ck_assert_uint_eq(stats.captured, 1);
    ck_assert_uint_eq(report.captured, 1 + there.captured);
    ck_assert_uint_eq(report.captured_bytes,
                      stats.captured_bytes + there.captured_bytes);
    ck_assert_uint_eq(report.pools, 0);
    ck_assert_uint_eq(report.pool_bytes, 0);
    ck_assert_uint_eq(report.live, 0);
    ck_assert_int_eq(*(char *)block, 7);
}

/* ---- while none records -------------------------------------------------- */

static uint64_t all_driver_calls(void)
{
    const char *name;
    uint64_t calls = 0;

    for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
        calls += wt_calls(runtime, name);
    }
    return calls;
}

static int count_calls(void *context, warm_stream stream)
{
    ++*(unsigned *)context;
    return 0;
}

static uint64_t hits(int kind)
{
    return kind == DEVICE ? wt_device_stats(runtime).cache_hits
                          : wt_pinned_stats(runtime).cache_hits;
}

enum { ROUNDS = 1000 };

/* A graph and its pool exist, and no capture is under way: an allocation asks
 * no filter and no driver, and its thread's cache serves it. */
WT_LOOP_TEST(test_E6_pools_cost_nothing_while_none_records, KINDS)
{
    unsigned filtered = 0;
    warm_private_pool pool = begin(0, count_calls, &filtered);
    warm_graph graph;
    uint64_t calls, before;

    wt_ok(warm_capture_begin(runtime, second));
    graph = end_capture(pool, second);
    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    filtered = 0;
    calls = all_driver_calls();
    before = hits(_i);
    for (int i = 0; i < ROUNDS; i++) {
        wt_ok(warm_free(take(_i, first, 8 * KIB)));
    }
    ck_assert_uint_eq(filtered, 0);
    ck_assert_uint_eq(all_driver_calls(), calls);
    ck_assert_uint_eq(hits(_i), before + ROUNDS);
    wt_ok(warm_graph_destroy(runtime, graph));
    release(pool);
}

/* ---- filters of several threads ----------------------------------------- */

/* A filter that stays behind a door in the thread that says so. */
static _Thread_local bool stays;

struct stay {
    wt_door door;
    warm_private_pool pool;
    void *block;
    warm_status allocated, ended;
    bool left; /* the filter had returned when the recording's end did */
};

static int stay_inside(void *context, warm_stream stream)
{
    struct stay *s = context;

    if (stays) {
        wt_door_run(&s->door);
    }
    return 1;
}

static void *allocate_and_stay(void *context)
{
    struct stay *s = context;

    stays = true;
    s->allocated = warm_pinned_alloc(runtime, 100, &s->block);
    return NULL;
}

static void *end_meanwhile(void *context)
{
    struct stay *s = context;

    s->ended = warm_private_pool_end(runtime, s->pool);
    s->left = s->door.left;
    return NULL;
}

/* A filter that takes its time delays no other thread, except the end of the
 * recording: after that it is not called. */
WT_TEST(test_E1_E5_filters_of_several_threads_run_at_the_same_time)
{
    struct stay s = {.door = WT_DOOR_INIT};
    pthread_t worker, ender;
    void *first_block, *second_block;

    s.pool = begin(WARM_POOL_USER, stay_inside, &s);
    first_block = wt_pinned(runtime, 100);
    ck_assert_int_eq(pthread_create(&worker, NULL, allocate_and_stay, &s), 0);
    wt_door_wait_entered(&s.door);
    second_block = wt_pinned(runtime, 100);
    ck_assert_uint_eq(info_of(s.pool).live, 2);
    ck_assert_int_eq(pthread_create(&ender, NULL, end_meanwhile, &s), 0);
    wt_door_open(&s.door);
    pthread_join(ender, NULL);
    pthread_join(worker, NULL);
    wt_ok(s.allocated);
    wt_ok(s.ended);
    ck_assert(s.left);
    ck_assert_uint_eq(info_of(s.pool).live, 3);
    wt_free(first_block, second_block, s.block);
    release(s.pool);
}

struct change {
    warm_runtime *runtime;
    warm_private_pool from, to;
    void *room, *block;
    bool done;
};

/* In another thread: a callback must not allocate. */
static void take_of_next(void *context, unsigned index)
{
    struct change *c = context;

    (void)warm_pinned_alloc(c->runtime, 8 * KIB, &c->block);
}

static int change_pools(void *context, size_t bytes)
{
    struct change *c = context;

    if (c->done) {
        return 0;
    }
    c->done = true;
    wt_ok(warm_private_pool_end(c->runtime, c->from));
    wt_ok(warm_private_pool_release(c->runtime, c->from));
    wt_ok(warm_free(c->room));
    wt_ok(warm_pinned_trim(c->runtime, 0, NULL));
    wt_ok(warm_private_pool_begin(c->runtime, &c->to, 0, always, NULL));
    wt_threads(1, take_of_next, c);
    return 1;
}

/* A request is under way while its pool goes and another one comes: what it
 * gets is not the other's. */
WT_TEST(test_E3_request_of_a_pool_that_goes_meanwhile)
{
    struct change c = {
        .runtime = wt_runtime_with(.segment = 64 * KIB, .pinned_high = MIB)};
    warm_private_pool_info info = WARM_INIT(warm_private_pool_info);
    warm_space_stats stats;
    void *block;

    c.room = wt_pinned(c.runtime, 768 * KIB);
    wt_ok(wt_short_add(c.runtime, change_pools, &c));
    wt_ok(warm_private_pool_begin(c.runtime, &c.from, 0, always, NULL));
    block = wt_pinned(c.runtime, 512 * KIB);
    ck_assert(c.done);
    wt_ok(warm_private_pool_get_info(c.runtime, c.to, &info));
    ck_assert_uint_eq(info.live, 1);
    wt_ok(warm_private_pool_end(c.runtime, c.to));
    wt_free(block, c.block);
    wt_ok(warm_private_pool_release(c.runtime, c.to));
    stats = wt_pinned_stats(c.runtime);
    ck_assert_uint_eq(stats.held_bytes.current, 0);
    wt_runtime_end(c.runtime);
}

/* ---- captures ---------------------------------------------------------- */

WT_LOOP_TEST(test_E4_block_that_was_not_used_is_reused_in_its_pool, KINDS)
{
    warm_private_pool pool = begin_capture(first);
    void *block = take(_i, first, 8 * KIB), *large = take(_i, first, 3 * MIB);
    warm_graph graph;

    wt_free(block, large);
    ck_assert_ptr_eq(take(_i, first, 8 * KIB), block);
    ck_assert_ptr_eq(take(_i, first, 3 * MIB), large);
    wt_free(block, large);
    ck_assert_uint_eq(info_of(pool).captured, 0);
    graph = end_capture(pool, first);
    wt_ok(warm_graph_destroy(runtime, graph));
    release(pool);
    ck_assert_uint_eq(held_now(_i), 0);
}

WT_LOOP_TEST(test_E4_block_that_was_used_is_kept_while_its_pool_lives, KINDS)
{
    static const char *const names[] = {"event_record", "event_query",
                                        "event_mark",   "event_passed",
                                        "stream_query", "stream_passed"};
    enum { NAMES = sizeof names / sizeof names[0] };
    void *block, *next;
    uint64_t before[NAMES];
    warm_graph graph;
    warm_private_pool pool = begin_capture(first);

    for (int i = 0; i < NAMES; i++) {
        before[i] = wt_calls(runtime, names[i]);
    }
    block = take(_i, first, 8 * KIB);
    /* For memory of a device the stream of the allocation is no other use. */
    wt_ok(warm_record_stream(block, _i == DEVICE ? second : first));
    wt_ok(warm_free(block));
    next = take(_i, first, 8 * KIB);
    ck_assert_ptr_ne(next, block);
    wt_ok(warm_free(next));
    for (int i = 0; i < NAMES; i++) {
        ck_assert_msg(wt_calls(runtime, names[i]) == before[i], "%s", names[i]);
    }
    ck_assert_uint_eq(info_of(pool).captured, 1);
    ck_assert_uint_eq(info_of(pool).captured_bytes, 8 * KIB);
    ck_assert_uint_eq(leaked, 0);
    graph = end_capture(pool, first);
    again(pool);
    next = take(_i, first, 8 * KIB);
    ck_assert_ptr_ne(next, block);
    wt_ok(warm_free(next));
    end(pool);
    release(pool);
    ck_assert_uint_eq(info_of(pool).captured, 1);
    wt_ok(warm_graph_destroy(runtime, graph));
    release(pool);
    wt_settle(runtime, second);
    ck_assert_uint_eq(held_now(_i), 0);
}

/* While a stream captures, the driver reveals only its address. */
WT_TEST(test_E4_captures_at_one_address_are_of_one_stream)
{
    warm_stream gone = wt_stream(runtime, 0), next;
    warm_private_pool pool = begin_capture(gone);
    void *block = take(DEVICE, gone, 8 * KIB);
    warm_graph before = capture_over(gone), graph;

    wt_ok(warm_stream_destroy(runtime, gone));
    next = wt_stream(runtime, 0);
    if (next != gone) {
        ck_assert(!wt_on_host()); /* CUDA chooses */
        printf("skip: no stream at the address of the one before\n");
    } else {
        wt_ok(warm_capture_begin(runtime, next));
        wt_ok(warm_record_stream(block, next));
        wt_ok(warm_free(block));
        ck_assert_uint_eq(info_of(pool).captured, 0);
        ck_assert_ptr_eq(take(DEVICE, next, 8 * KIB), block);
        graph = capture_over(next);
        /* Outside of captures the driver tells the streams apart. */
        wt_ok(warm_record_stream(block, next));
        wt_ok(warm_graph_destroy(runtime, graph));
        ck_assert_uint_eq(info_of(pool).captured, 0);
    }
    wt_ok(warm_free(block));
    ck_assert_uint_eq(info_of(pool).captured, next == gone);
    wt_ok(warm_graph_destroy(runtime, before));
    end(pool);
    release(pool);
    wt_stream_end(runtime, next);
}

/* What others have is no help to a graph: nobody is asked for it, though some
 * of it has passed by now. */
WT_LOOP_TEST(test_E4_a_miss_for_a_graph_asks_no_stream, KINDS)
{
    static const char *const names[] = {"event_record", "event_query",
                                        "event_mark",   "event_passed",
                                        "stream_query", "stream_passed"};
    enum { NAMES = sizeof names / sizeof names[0] };
    warm_stream foreign[] = {second, WARM_STREAM_LEGACY};
    warm_private_pool pool;
    uint64_t before[NAMES];
    void *block;

    for (int i = 0; i < 2; i++) {
        block = take(_i, first, 4 * MIB);
        wt_ok(warm_record_stream(block, foreign[i]));
        wt_ok(warm_free(block));
    }
    pool = begin_capture(first);
    for (int i = 0; i < NAMES; i++) {
        before[i] = wt_calls(runtime, names[i]);
    }
    block = take(_i, first, 4 * MIB);
    for (int i = 0; i < NAMES; i++) {
        ck_assert_msg(wt_calls(runtime, names[i]) == before[i], "%s", names[i]);
    }
    wt_ok(warm_free(block));
    wt_ok(warm_graph_destroy(runtime, end_capture(pool, first)));
    release(pool);
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_settle(runtime, second);
}

/* Used outside of the capture, too: that work is waited for at the end. */
WT_LOOP_TEST(test_E4_B4_work_outside_of_captures_is_waited_for, KINDS)
{
    warm_private_pool pool = begin_capture(first);
    void *block = take(_i, first, 8 * KIB);
    warm_graph graph = end_capture(pool, first);
    wt_gate *gate = wt_gate_close(runtime, second);
    uint64_t before;

    wt_ok(warm_record_stream(block, second));
    before =
        wt_calls(runtime, "event_record") + wt_calls(runtime, "event_mark");
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_calls(runtime, "event_record") +
                          wt_calls(runtime, "event_mark"),
                      before);
    ck_assert_uint_eq(info_of(pool).captured, 1);
    wt_ok(warm_graph_destroy(runtime, graph));
    release(pool);
    ck_assert_uint_gt(held_now(_i), 0);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_gt(held_now(_i), 0);
    wt_gate_open(gate);
    wt_settle(runtime, second);
    ck_assert_uint_eq(held_now(_i), 0);
}

/* Captures that the library hears nothing of, while a pool records. */
static void capture_begins_unseen(void)
{
    wt_ok(warm_testing_capture_begin(runtime, first));
}

static void capture_ends_unseen(void)
{
    warm_graph graph = NULL;

    wt_ok(warm_testing_capture_end(runtime, first, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

static int never(void *context, warm_stream stream)
{
    return 0;
}

/* A thread that keeps blocks of the stream from before the pool begins looks at
 * the stream anew: what it gets in a capture that no pool matches is the
 * graph's. */
WT_TEST(test_E4_E9_a_thread_looks_at_its_streams_anew_when_a_pool_begins)
{
    warm_private_pool pool;
    void *block, *other;

    wt_ok(warm_free(take(DEVICE, first, 8 * KIB)));
    pool = begin(0, never, NULL);
    capture_begins_unseen();
    block = take(DEVICE, first, 8 * KIB);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_device_stats(runtime).captured, 1);
    capture_ends_unseen();
    end(pool);
    other = take(DEVICE, first, 8 * KIB);
    ck_assert_ptr_ne(other, block);
    wt_ok(warm_free(other));
    release(pool);
}

/* Two branches of a capture may run at once. */
WT_TEST(test_E4_C1_branches_of_a_capture_share_nothing)
{
    warm_private_pool pool = begin_capture(first);
    warm_event fork = NULL, join = NULL;
    void *block, *other;
    warm_graph graph;

    wt_ok(warm_event_create(runtime, 0, &fork));
    wt_ok(warm_event_create(runtime, 0, &join));
    wt_ok(warm_event_record(runtime, fork, first));
    wt_ok(warm_stream_wait_event(runtime, second, fork));
    block = take(DEVICE, first, 8 * KIB);
    wt_ok(warm_free(block));
    other = take(DEVICE, second, 8 * KIB);
    ck_assert_ptr_ne(other, block);
    wt_ok(warm_free(other));
    ck_assert_ptr_eq(take(DEVICE, first, 8 * KIB), block);
    wt_ok(warm_free(block));
    wt_ok(warm_event_record(runtime, join, second));
    wt_ok(warm_stream_wait_event(runtime, first, join));
    graph = end_capture(pool, first);
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_event_destroy(runtime, fork));
    wt_ok(warm_event_destroy(runtime, join));
    release(pool);
}

WT_LOOP_TEST(test_E5_allocation_without_a_capture_warns_once, KINDS)
{
    warm_private_pool pool = begin(0, always, NULL);
    char names[64];
    void *block[3];

    /* Where the driver does not tell, nothing is said, and no error is left. */
    wt_fails(WARM_INVALID_POINTER, warm_free(&pool));
    wt_ok(warm_testing_fail(runtime, "stream_capture", 1, 0));
    block[0] = take(_i, first, 8 * KIB);
    wt_ok(warm_testing_fail(runtime, "stream_capture", 0, 0));
    wt_says("not allocated");
    ck_assert_uint_eq(warnings, 0);
    for (int i = 1; i < 3; i++) {
        block[i] = take(_i, first, 8 * KIB);
    }
    ck_assert_uint_eq(warnings, 1);
    snprintf(names, sizeof names, "private pool %llu,",
             (unsigned long long)pool.number);
    wt_contains(warned_of, names);
    snprintf(names, sizeof names, "stream %p", first);
    wt_contains(warned_of, names);
    end(pool);
    wt_free_all(block, 3);
    release(pool);
    pool = begin_capture(first);
    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    wt_ok(warm_graph_destroy(runtime, end_capture(pool, first)));
    release(pool);
    pool = begin(WARM_POOL_USER, always, NULL);
    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    end(pool);
    release(pool);
    ck_assert_uint_eq(warnings, 1);
}

/* What a stream may use is active until the pool has gone, and the stream has
 * passed, or was waited for as no event could be recorded; what only graphs use
 * is not. */
WT_LOOP_TEST(test_E4_C6_what_graphs_keep_is_active_while_streams_use_it, 2)
{
    warm_private_pool pool = begin_capture(first);
    void *used = take(DEVICE, first, 8 * KIB);
    void *captured = take(DEVICE, first, 3 * MIB);
    warm_device_stats s;

    wt_ok(warm_record_stream(used, _i == 0 ? second : WARM_STREAM_LEGACY));
    wt_ok(warm_graph_destroy(runtime, end_capture(pool, first)));
    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(warm_record_stream(captured, second));
    wt_ok(warm_graph_destroy(runtime, capture_over(second)));
    wt_free(used, captured);
    s = wt_device_stats(runtime);
    ck_assert_uint_eq(s.captured, 2);
    ck_assert_uint_eq(s.all.active.current, 1);
    ck_assert_uint_eq(s.large.active.current, 0);
    wt_ok(warm_testing_fail(runtime, "event_mark", (uint64_t)_i, _i));
    wt_ok(warm_testing_fail(runtime, "event_record", (uint64_t)_i, _i));
    release(pool);
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    wt_ok(warm_testing_fail(runtime, "event_record", 0, 0));
    wt_settle(runtime, second);
    s = wt_device_stats(runtime);
    ck_assert_uint_eq(s.all.active.current, 0);
    ck_assert_uint_eq(s.all.active_bytes.current, 0);
    ck_assert_uint_eq(held_now(DEVICE), 0);
}

/* The stream may not be asked while it captures: that breaks it. */
WT_LOOP_TEST(test_E7_capture_that_fails_leaves_nothing, KINDS)
{
    warm_private_pool pool = begin_capture(first);
    void *kept = take(_i, first, 8 * KIB), *used = take(_i, first, 3 * MIB);
    warm_graph graph = NULL;

    wt_ok(warm_record_stream(used, first));
    wt_fails(WARM_CAPTURE_ERROR, warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(used));
    wt_fails(WARM_CAPTURE_ERROR, warm_capture_end(runtime, first, &graph));
    end(pool);
    wt_ok(warm_free(kept));
    release(pool);
    ck_assert_uint_eq(held_now(_i), 0);
    /* And the next one is as if nothing had been. */
    pool = begin_capture(first);
    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    wt_ok(warm_graph_destroy(runtime, end_capture(pool, first)));
    release(pool);
    ck_assert_uint_eq(held_now(_i), 0);
}

/* Memory goes back to the driver when no capture is under way. */
WT_LOOP_TEST(test_E3_B7_driver_frees_wait_for_the_end_of_captures, KINDS)
{
    warm_private_pool pool = begin(0, always, NULL);
    const char *name = _i == DEVICE ? "device_free" : "pinned_free";
    uint64_t before = wt_calls(runtime, name);
    warm_graph graph = NULL;

    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    end(pool);
    wt_ok(warm_capture_begin(runtime, second));
    release(pool);
    empty(_i);
    ck_assert_uint_eq(wt_calls(runtime, name), before);
    ck_assert_uint_gt(held_now(_i), 0);
    wt_ok(warm_capture_end(runtime, second, &graph));
    ck_assert_uint_eq(wt_calls(runtime, name), before + 1);
    ck_assert_uint_eq(held_now(_i), 0);
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Nor while a pool for graphs is recording. */
WT_LOOP_TEST(test_E3_E2_driver_frees_wait_for_the_end_of_a_recording, KINDS)
{
    warm_private_pool pool = begin(0, always, NULL), other;

    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    end(pool);
    other = begin(0, always, NULL);
    release(pool);
    ck_assert_uint_gt(held_now(_i), 0);
    end(other);
    ck_assert_uint_eq(held_now(_i), 0);
    release(other);
}

/* A stream that used it before captures something else: nothing can be recorded
 * there now, and what is captured has nothing to do with the block. */
WT_LOOP_TEST(test_E3_B7_used_memory_waits_for_the_end_of_captures, KINDS)
{
    warm_private_pool pool = begin(0, always, NULL);
    void *block = take(_i, first, 8 * KIB);

    end(pool);
    wt_free_used(block, second);
    wt_ok(warm_capture_begin(runtime, second));
    release(pool);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_gt(held_now(_i), 0);
    wt_ok(warm_graph_destroy(runtime, capture_over(second)));
    wt_settle(runtime, second);
    ck_assert_uint_eq(held_now(_i), 0);
}

/* The graph that used it went with the pool. */
WT_LOOP_TEST(test_E3_E4_captured_block_is_free_when_its_pool_has_gone, KINDS)
{
    warm_private_pool pool = begin_capture(first);
    void *block = take(_i, first, 8 * KIB);

    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_graph_destroy(runtime, capture_over(second)));
    wt_ok(warm_graph_destroy(runtime, end_capture(pool, first)));
    release(pool);
    ck_assert_uint_gt(held_now(_i), 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(held_now(_i), 0);
}

/* But what is captured from then on is another graph's. */
WT_LOOP_TEST(test_E3_E4_block_of_a_pool_that_has_gone_is_kept_for_later_graphs,
             KINDS)
{
    warm_private_pool pool = begin_capture(first);
    void *block = take(_i, first, 8 * KIB);
    warm_graph graph;

    wt_ok(warm_graph_destroy(runtime, end_capture(pool, first)));
    release(pool);
    wt_ok(warm_capture_begin(runtime, first));
    wt_ok(warm_record_stream(block, first));
    graph = capture_over(first);
    wt_ok(warm_free(block));
    empty(_i);
    ck_assert_uint_gt(held_now(_i), 0);
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Where something is always captured, nothing ever goes back; but what is held
 * is enough for all that come. */
WT_LOOP_TEST(test_E3_B7_pools_in_turn_need_the_memory_of_one, KINDS)
{
    warm_graph graph = NULL;
    uint64_t held = 0;
    void *kept;

    wt_ok(warm_capture_begin(runtime, second));
    for (int i = 0; i < 20; i++) {
        warm_private_pool pool = begin(0, always, NULL);

        wt_ok(warm_free(take(_i, first, 8 * KIB)));
        end(pool);
        release(pool);
        held = i == 0 ? held_now(_i) : held;
        ck_assert_uint_gt(held, 0);
        ck_assert_uint_eq(held_now(_i), held);
    }
    /* But not if a block of it is with its caller. */
    begun = begin(0, always, NULL);
    kept = take(_i, first, 8 * KIB);
    end(begun);
    release(begun);
    begun = begin(0, always, NULL);
    wt_ok(warm_free(take(_i, first, 8 * KIB)));
    ck_assert_uint_eq(info_of(begun).live, 0);
    end(begun);
    release(begun);
    wt_ok(warm_free(kept));
    wt_ok(warm_capture_end(runtime, second, &graph));
    ck_assert_uint_eq(held_now(_i), 0);
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* ---- nesting, and pools of users --------------------------------------- */

WT_LOOP_TEST(test_E8_innermost_pool_that_matches_wins, KINDS)
{
    warm_private_pool outer = begin(WARM_POOL_USER, always, NULL);
    warm_private_pool inner = begin(WARM_POOL_USER, is_stream, second);
    void *block[4];

    block[0] = take(_i, first, 8 * KIB);
    block[1] = take(_i, second, 8 * KIB);
    ck_assert_uint_eq(info_of(outer).live, 1);
    ck_assert_uint_eq(info_of(inner).live, 1);
    end(inner);
    block[2] = take(_i, second, 8 * KIB);
    ck_assert_uint_eq(info_of(outer).live, 2);
    end(outer);
    block[3] = take(_i, second, 8 * KIB);
    ck_assert_uint_eq(info_of(outer).live, 2);
    ck_assert_uint_eq(info_of(inner).live, 1);
    wt_free_all(block, 4);
    release(outer);
    release(inner);
}

WT_LOOP_TEST(test_E8_outer_pool_may_end_first, KINDS)
{
    warm_private_pool outer = begin(WARM_POOL_USER, always, NULL);
    warm_private_pool inner = begin(WARM_POOL_USER, always, NULL);
    void *block;

    end(outer);
    block = take(_i, first, 8 * KIB);
    ck_assert_uint_eq(info_of(inner).live, 1);
    ck_assert_uint_eq(info_of(outer).live, 0);
    end(inner);
    wt_ok(warm_free(block));
    release(outer);
    release(inner);
}

WT_LOOP_TEST(test_E8_B4_user_pool_behaves_like_ordinary_memory, KINDS)
{
    warm_private_pool pool = begin(WARM_POOL_USER, always, NULL);
    void *block = take(_i, first, 8 * KIB), *next;
    wt_gate *gate = wt_gate_close(runtime, second);

    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    ck_assert_uint_eq(info_of(pool).captured, 0);
    next = take(_i, first, 8 * KIB);
    ck_assert_ptr_ne(next, block);
    wt_gate_open(gate);
    wt_settle(runtime, second);
    ck_assert_ptr_eq(take(_i, first, 8 * KIB), block);
    wt_free(block, next);
    empty(_i);
    ck_assert_uint_eq(info_of(pool).held_bytes, 0);
    end(pool);
    release(pool);
}

/* Its memory is not for graphs: what a capture uses is leaked, and the warning
 * names the pool; or says that it has ended. */
WT_LOOP_TEST(test_E8_E9_block_of_a_user_pool_that_a_capture_used, 2 * KINDS)
{
    bool ends_first = _i >= KINDS;
    warm_private_pool pool = begin(WARM_POOL_USER, always, NULL);
    void *block = take(_i % KINDS, first, 8 * KIB);
    warm_graph graph = NULL;
    char name[48];

    snprintf(name, sizeof name, "of private pool %d,", (int)pool.number);
    end(pool);
    if (ends_first) {
        release(pool);
    }
    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    wt_ok(warm_capture_end(runtime, second, &graph));
    ck_assert_uint_eq(leaked, 1);
    wt_contains(leak_of, ends_first ? "its private pool has ended" : name);
    if (!ends_first) {
        ck_assert_uint_eq(info_of(pool).captured, 1);
        release(pool);
    }
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* One stream's idle memory serves the other once that has passed. */
WT_TEST(test_E8_C1_user_pool_is_shared_by_streams)
{
    warm_private_pool pool = begin(WARM_POOL_USER, always, NULL);
    void *block = take(DEVICE, first, 2 * MIB);

    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, first));
    ck_assert_ptr_eq(take(DEVICE, second, 2 * MIB), block);
    ck_assert_uint_eq(info_of(pool).segments, 1);
    wt_ok(warm_free(block));
    end(pool);
    release(pool);
}

/* What others hold idle goes for a request of the pool. */
WT_TEST(test_E8_B12_pool_gets_what_others_have_idle)
{
    warm_runtime *limited =
        wt_runtime_with(.segment = 2 * MIB, .pinned_high = 8 * MIB);
    warm_private_pool pool = {0};
    void *block = wt_pinned(limited, 6 * MIB);

    wt_ok(warm_free(block));
    wt_ok(
        warm_private_pool_begin(limited, &pool, WARM_POOL_USER, always, NULL));
    block = wt_pinned(limited, 6 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(limited, 6 * MIB, &(void *){NULL}));
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_end(limited, pool));
    wt_ok(warm_private_pool_release(limited, pool));
    wt_runtime_end(limited);
}

/* ---- real graphs ------------------------------------------------------- */

enum { BYTES = 64 * 1024 };

typedef struct round_trip {
    unsigned char *in, *out; /* page-locked, of no pool */
    void *between;           /* where it lay on the device */
    warm_graph graph;
} round_trip;

static void prepare(round_trip *trip)
{
    void *in = wt_pinned(runtime, BYTES);
    void *out = wt_pinned(runtime, BYTES);

    trip->in = in;
    trip->out = out;
}

/* in ─► memory of the pool ─► out, as a graph; the memory is freed in it. */
static void capture(round_trip *trip, warm_private_pool *pool)
{
    wt_ok(warm_private_pool_begin(runtime, pool, 0, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, first));
    trip->between = take(DEVICE, first, BYTES);
    wt_ok(warm_copy_async(runtime, trip->between, trip->in, BYTES,
                          WARM_COPY_TO_DEVICE, first));
    wt_ok(warm_copy_async(runtime, trip->out, trip->between, BYTES,
                          WARM_COPY_TO_HOST, first));
    wt_ok(warm_free(trip->between));
    wt_ok(warm_capture_end(runtime, first, &trip->graph));
    wt_ok(warm_private_pool_end(runtime, *pool));
}

static void launch(round_trip *trip, unsigned char value)
{
    memset(trip->in, value, BYTES);
    memset(trip->out, 0, BYTES);
    wt_ok(warm_graph_launch(runtime, trip->graph, first));
}

static void is_through(const round_trip *trip, unsigned char value)
{
    for (size_t i = 0; i < BYTES; i++) {
        wt_require(trip->out[i] == value, "byte %zu is %u, not %u", i,
                   trip->out[i], value);
    }
}

static void end_trip(round_trip *trip)
{
    wt_ok(warm_graph_destroy(runtime, trip->graph));
    wt_free(trip->in, trip->out);
}

WT_TEST(test_E3_E4_two_graphs_in_turn_share_a_pool)
{
    warm_private_pool pool = {0};
    round_trip trip[2];

    for (int i = 0; i < 2; i++) {
        prepare(&trip[i]);
        capture(&trip[i], &pool);
    }
    ck_assert_uint_eq(info_of(pool).references, 2);
    ck_assert_uint_eq(info_of(pool).segments, 1);
    ck_assert_ptr_eq(trip[0].between, trip[1].between);
    for (unsigned char round = 1; round < 20; round++) {
        launch(&trip[0], round);
        launch(&trip[1], (unsigned char)(100 + round));
        wt_ok(warm_stream_synchronize(runtime, first));
        is_through(&trip[0], round);
        is_through(&trip[1], (unsigned char)(100 + round));
    }
    end_trip(&trip[0]);
    release(pool);
    launch(&trip[1], 77);
    wt_ok(warm_stream_synchronize(runtime, first));
    is_through(&trip[1], 77);
    ck_assert_uint_gt(held_now(DEVICE), 0);
    end_trip(&trip[1]);
    release(pool);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(held_now(DEVICE), 0);
}

/* With pools of their own, in any order, and at the same time. */
WT_TEST(test_E3_E4_graphs_with_pools_of_their_own_in_any_order)
{
    static const int order[] = {0, 2, 1, 2, 0, 1, 1, 0, 2};
    warm_private_pool pool[3] = {{0}};
    round_trip trip[3];

    for (int i = 0; i < 3; i++) {
        prepare(&trip[i]);
        capture(&trip[i], &pool[i]);
    }
    ck_assert_ptr_ne(trip[0].between, trip[1].between);
    ck_assert_ptr_ne(trip[1].between, trip[2].between);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i += 3) {
        for (size_t k = i; k < i + 3; k++) {
            launch(&trip[order[k]], (unsigned char)(1 + k));
        }
        wt_ok(warm_stream_synchronize(runtime, first));
        for (size_t k = i; k < i + 3; k++) {
            is_through(&trip[order[k]], (unsigned char)(1 + k));
        }
    }
    for (int i = 0; i < 3; i++) {
        end_trip(&trip[i]);
        release(pool[i]);
    }
}

static struct {
    round_trip trip;
    warm_private_pool pool;
    bool done;
} made;

/* Does not assert in the thread; wt_ok() fails the test by the process. */
static void capture_in_thread(void *argument, unsigned index)
{
    capture(&made.trip, &made.pool);
    made.done = true;
}

WT_TEST(test_E3_graph_outlives_the_thread_that_made_it)
{
    prepare(&made.trip);
    wt_threads(1, capture_in_thread, NULL);
    ck_assert(made.done);
    for (unsigned char round = 1; round < 5; round++) {
        void *other = take(DEVICE, first, BYTES);

        ck_assert_ptr_ne(other, made.trip.between);
        launch(&made.trip, round);
        wt_ok(warm_free(other));
        wt_ok(warm_stream_synchronize(runtime, first));
        is_through(&made.trip, round);
    }
    end_trip(&made.trip);
    release(made.pool);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(held_now(DEVICE), 0);
}

/* A result that the caller holds is there when the graph is gone. */
WT_TEST(test_E3_result_outlives_its_graph)
{
    warm_private_pool pool = {0};
    unsigned char *out;
    void *result;
    warm_graph graph = NULL;
    void *memory = wt_pinned(runtime, BYTES);
    unsigned char *in = memory;

    memory = wt_pinned(runtime, BYTES);
    out = memory;
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, first));
    result = take(DEVICE, first, BYTES);
    wt_ok(warm_copy_async(runtime, result, in, BYTES, WARM_COPY_TO_DEVICE,
                          first));
    wt_ok(warm_capture_end(runtime, first, &graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    memset(in, 42, BYTES);
    wt_ok(warm_graph_launch(runtime, graph, first));
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_graph_destroy(runtime, graph));
    release(pool);
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    wt_ok(warm_copy_async(runtime, out, result, BYTES, WARM_COPY_TO_HOST,
                          second));
    wt_ok(warm_free(result)); /* recorded on second by the copy */
    wt_ok(warm_stream_synchronize(runtime, second));
    for (size_t i = 0; i < BYTES; i++) {
        wt_require(out[i] == 42, "byte %zu is %u", i, out[i]);
    }
    wt_free(in, out);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(held_now(DEVICE), 0);
}

/* Figures after each step, as a program with one graph sees them. */
WT_TEST(test_E3_C6_figures_of_a_graphs_memory)
{
    static const size_t sizes[] = {512, MIB / 2, MIB / 2 + 512, 10 * MIB - 512,
                                   10 * MIB + 512};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        warm_private_pool pool = begin_capture(first);
        void *block = take(DEVICE, first, sizes[i]);
        warm_private_pool_info info = info_of(pool);
        warm_graph graph;
        warm_device_stats s = wt_device_stats(runtime);

        ck_assert_uint_eq(s.all.live.current, 1);
        ck_assert_uint_eq(s.all.requested_bytes.current, sizes[i]);
        ck_assert_uint_eq(s.all.segments.current, 1);
        ck_assert_uint_eq(s.small.segments.current, sizes[i] <= MIB / 2);
        ck_assert_uint_eq(s.all.held_bytes.current, info.held_bytes);
        ck_assert_uint_ge(info.held_bytes, sizes[i]);
        ck_assert_uint_eq(info.live, 1);
        graph = end_capture(pool, first);
        wt_ok(warm_graph_destroy(runtime, graph));
        release(pool);
        s = wt_device_stats(runtime);
        ck_assert_uint_eq(s.all.segments.current, 1);
        ck_assert_uint_eq(s.all.active.current, 1);
        wt_ok(warm_free(block));
        s = wt_device_stats(runtime);
        ck_assert_uint_eq(s.all.segments.current, 0);
        ck_assert_uint_eq(s.all.active.current, 0);
        ck_assert_uint_eq(s.all.held_bytes.current, 0);
    }
}

/* Captured again and again with the same pool, it holds no more. */
WT_TEST(test_E4_memory_is_flat_over_captures)
{
    warm_private_pool pool = {0};
    uint64_t held = 0;

    for (int i = 0; i < 10; i++) {
        round_trip trip;

        prepare(&trip);
        capture(&trip, &pool);
        if (i == 0) {
            held = held_now(DEVICE);
        }
        ck_assert_uint_eq(held_now(DEVICE), held);
        end_trip(&trip);
    }
    for (int i = 0; i < 10; i++) {
        release(pool);
    }
}

/* Each is a call that CUDA refuses in a thread that captures, and that would
 * invalidate the capture. */
WT_TEST(test_B7_graphs_are_made_and_destroyed_beside_a_capture)
{
    warm_graph beside = NULL, graph = NULL;

    wt_ok(warm_capture_begin(runtime, first));
    wt_ok(warm_capture_begin(runtime, second));
    wt_ok(warm_capture_end(runtime, second, &beside));
    wt_ok(warm_graph_destroy(runtime, beside));
    wt_ok(warm_capture_end(runtime, first, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* What lies there; 0: nothing. */
static uint64_t read_word(void *page)
{
    uint64_t found = 0;
    struct iovec to = {&found, sizeof found}, from = {page, sizeof found};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) > 0 ? found : 0;
}

/* There is no later then: what nobody said is over does not matter. Only what
 * the driver says captures would be broken, and the memory stays. */
WT_LOOP_TEST(test_E7_G2_B7_memory_goes_back_with_the_runtime, 2)
{
    bool captures = _i == 1;
    warm_private_pool pool = {0};
    uint64_t *pinned, *device, words[2];
    warm_runtime *brief;
    warm_stream stream;

    wt_needs(!wt_emulated(), WT_EMULATED);
    brief = wt_runtime_with(.device = "host", .segment = MIB);
    stream = wt_stream(brief, 0);
    wt_ok(warm_private_pool_begin(brief, &pool, 0, NULL, NULL));
    wt_ok(captures ? warm_capture_begin(brief, stream)
                   : warm_capture_announce(brief, stream));
    pinned = wt_pinned(brief, MIB);
    device = wt_device(brief, stream, MIB);
    *pinned = *device = 12345; /* other memory may come to lie there */
    wt_free(pinned, device);
    wt_ok(warm_private_pool_end(brief, pool));
    wt_ok(warm_private_pool_release(brief, pool));
    words[0] = read_word(pinned);
    words[1] = read_word(device);
    ck_assert(words[0] != 0 && words[1] != 0);
    wt_runtime_end(brief);
    ck_assert_int_eq(read_word(pinned) == words[0], captures);
    if (!captures) { /* else it goes with the host device */
        ck_assert_uint_ne(read_word(device), words[1]);
    }
}
