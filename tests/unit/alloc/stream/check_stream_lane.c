/* check_stream_lane.c: what a miss costs if the memory of a device is used in
 * the order of many streams. */
/* memcheck: one process */
#include "wt.h"

#include "alloc/kinds/device_space.h"
#include "alloc/private_pool/private_pool.h"
#include "runtime/base/lock.h"
#include "runtime/runtime.h"

enum { STREAMS = 300, SIZE = 64 << 10 };

static warm_runtime *runtime;
static warm_stream stream[STREAMS];

static void *take(warm_stream on, size_t bytes)
{
    return wt_device(runtime, on, bytes);
}

/* Every stream gets memory back and completes its work. */
static void use_all(void)
{
    void *block[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        block[i] = take(stream[i], SIZE);
    }
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_free(block[i]));
        wt_ok(warm_stream_synchronize(runtime, stream[i]));
    }
}

/* Locks that a request takes if no idle memory serves it. */
static uint64_t cost_of_miss(size_t bytes)
{
    uint64_t before = wm_lock_taken();
    void *block = take(stream[0], bytes);
    uint64_t locks = wm_lock_taken() - before;

    wt_ok(warm_free(block));
    return locks;
}

WT_CASE("stream_lane", .timeout = 60);

/* A stream is looked at by the first miss after memory came back to it, and
 * not by later ones. */
WT_TEST(test_C4_a_miss_looks_at_streams_with_something_new_only)
{
    uint64_t first, next;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
    }
    use_all();
    first = cost_of_miss((size_t)40 << 20);
    ck_assert(first == 0 || first > STREAMS); /* 0: they are not counted */
    do { /* until all marks have been seen to pass */
        for (int i = 0; i < STREAMS; i++) {
            wt_ok(warm_stream_synchronize(runtime, stream[i]));
        }
        wt_ok(warm_poll(runtime));
        wt_ok(warm_device_trim(runtime, 0, 0, NULL));
        next = cost_of_miss((size_t)60 << 20);
    } while (next > STREAMS / 3);
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_runtime_end(runtime);
}

/* Memory that comes back while a fence is under way gets a fence later. */
WT_TEST(test_C4_what_comes_back_behind_a_mark_is_marked_later)
{
    const size_t large = (size_t)20 << 20;
    warm_device_stats before = {.size = sizeof before};
    warm_device_stats after = {.size = sizeof after};
    void *block[2], *small[2];
    wt_gate *gate;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
        block[i] = take(stream[0], large);
    }
    gate = wt_gate_close(runtime, stream[0]);
    wt_gate_await(gate);
    wt_ok(warm_free(block[0]));
    small[0] = take(stream[1], 1 << 20); /* misses, and marks */
    wt_ok(warm_free(block[1]));
    small[1] = take(stream[1], 4 << 20); /* cannot, right now */
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream[0]));
    wt_ok(warm_poll(runtime));
    wt_ok(warm_device_get_stats(runtime, 0, &before));
    for (int i = 0; i < 2; i++) {
        block[i] = take(stream[1], large);
    }
    wt_ok(warm_device_get_stats(runtime, 0, &after));
    ck_assert_uint_eq(after.all.segments.allocated,
                      before.all.segments.allocated);
    for (int i = 0; i < 2; i++) {
        wt_free(block[i], small[i]);
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_runtime_end(runtime);
}

/* ---- fences at frees ----------------------------------------------------- */

/* Two streams of a runtime without caches, of which none waits for the other.
 * Lanes may have 4 MiB, and a little more, before fences are queued. */
static void begin_two(void)
{
    runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options),
                                         .device = "host",
                                         .keep = WARM_OFF,
                                         .stream_wait = "off"});
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
    }
    wt_ok(warm_free(take(stream[1], SIZE)));
}

static void end_two(void)
{
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    wt_runtime_end(runtime);
}

static uint64_t segments(void)
{
    warm_device_stats stats = {.size = sizeof stats};

    wt_ok(warm_device_get_stats(runtime, 0, &stats));
    return stats.all.segments.allocated;
}

/* Each second free of so much leaves an event behind it, while the events of
 * earlier ones wait: the memory is common although the stream goes on to work.
 */
WT_TEST(test_C1_B25_freed_memory_is_common_while_the_stream_works)
{
    enum { BLOCKS = 4 };
    const size_t large = (size_t)20 << 20;
    void *block[BLOCKS];
    wt_gate *gate[BLOCKS + 1];
    uint64_t before;

    begin_two();
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = take(stream[0], large);
    }
    gate[0] = wt_gate_close(runtime, stream[0]);
    wt_gate_await(gate[0]);
    for (int i = 0; i < BLOCKS; i++) {
        wt_ok(warm_free(block[i]));
        gate[i + 1] = wt_gate_close(runtime, stream[0]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        wt_gate_open(gate[i]);
    }
    wt_gate_await(gate[BLOCKS]);
    before = segments();
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = take(stream[1], large);
    }
    ck_assert_uint_eq(segments(), before);
    wt_gate_open(gate[BLOCKS]);
    wt_ok(warm_stream_synchronize(runtime, stream[0]));
    wt_free_all(block, BLOCKS);
    end_two();
}

static uint64_t event_calls(void)
{
    return wt_calls(runtime, "event_record") + wt_calls(runtime, "event_mark") +
           wt_calls(runtime, "stream_passed");
}

/* An event for what frees leave, not for each of them; and none if there is no
 * other stream that could use it. A fence that is queued for a miss is left to
 * the poll. */
WT_TEST(test_C1_frees_of_little_record_no_event)
{
    enum { BLOCKS = 7 };
    const wm_arena *arena;
    void *block[BLOCKS];
    uint64_t before;

    begin_two();
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = take(stream[0], (size_t)512 << 10);
    }
    arena = wm_space_find(block[0])->segment->arena;
    before = event_calls();
    wt_free_all(block, BLOCKS);
    wm_lanes_queue_fences(arena->registry, NULL, NULL);
    ck_assert_uint_eq(event_calls(), before);
    wt_ok(warm_free(take(stream[0], (size_t)8 << 20)));
    ck_assert_uint_gt(event_calls(), before);
    end_two();
}

/* While a stream captures, each fence gets an event of its own. */
WT_TEST(test_C1_E7_what_cannot_be_fenced_is_fenced_later)
{
    const size_t large = (size_t)20 << 20;
    const wm_arena *arena;
    warm_graph graph = NULL;
    void *block;

    begin_two();
    block = take(stream[0], large);
    arena = wm_space_find(block)->segment->arena;
    wt_ok(warm_capture_begin(runtime, stream[1]));
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 1));
    wt_ok(warm_testing_fail(runtime, "stream_synchronize", 1, 1));
    wt_ok(warm_free(block));
    wm_lanes_queue_fences(arena->registry, NULL, NULL);
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    wt_ok(warm_testing_fail(runtime, "stream_synchronize", 0, 0));
    wt_ok(warm_capture_end(runtime, stream[1], &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_ptr_eq(take(stream[1], large), block);
    wt_ok(warm_free(block));
    end_two();
}

/* Blocks that are smaller than what is fenced at once, and larger. */
WT_LOOP_TEST(test_C1_streams_with_enough_of_their_own_record_no_event, 2)
{
    enum { OFTEN = 400 };
    size_t bytes = (size_t)(_i == 0 ? 2 : 8) << 20;
    uint64_t before;
    void *own[2];

    begin_two();
    for (int i = 0; i < 2; i++) {
        own[i] = take(stream[i], bytes);
    }
    wt_free_all(own, 2);
    for (int i = 0; i < 2 * OFTEN; i++) {
        wt_ok(warm_free(take(stream[i % 2], bytes)));
    }
    before = event_calls();
    for (int i = 0; i < OFTEN; i++) {
        wt_ok(warm_free(take(stream[i % 2], bytes)));
    }
    ck_assert_uint_eq(event_calls(), before);
    end_two();
}

WT_TEST(test_C1_a_lone_stream_records_no_event)
{
    wm_arena *arena;
    uint64_t before;
    void *block[8];

    begin_two();
    wt_ok(warm_stream_retire(runtime, stream[1]));
    wt_ok(warm_poll(runtime));
    before = event_calls();
    for (int i = 0; i < 8; i++) {
        block[i] = take(stream[0], (size_t)2 << 20);
    }
    arena = wm_space_find(block[0])->segment->arena;
    wt_free_all(block, 8);
    ck_assert_uint_eq(event_calls(), before);
    ck_assert(!atomic_load(&arena->fences_due));
    end_two();
}

/* An arena serves one private pool after another: the lanes of earlier
 * pools have ended. */
WT_TEST(test_E3_lanes_end_with_their_pool)
{
    enum { POOLS = 3 };
    unsigned arenas = 0;

    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    for (int i = 0; i < POOLS; i++) {
        warm_private_pool pool = {0};

        wt_ok(warm_stream_create(runtime, 0, &stream[i]));
        wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
        wt_ok(warm_free(take(stream[i], SIZE)));
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_private_pool_release(runtime, pool));
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
    for (wm_arena *a = wm_group_arenas(&runtime->device_spaces[0].space.group);
         a != NULL; a = a->next_arena) {
        arenas += a->pool != NULL;
        ck_assert(a->pool == NULL || a->lanes == NULL);
    }
    ck_assert_uint_eq(arenas, 1);
    wt_runtime_end(runtime);
}
