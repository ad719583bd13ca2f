/* check_snapshot_fault.c: what a history tells of calls that fail (row C7): a
 * refused call records no event, and the driver is not called if the event for
 * that call cannot be recorded. check_matrix.c has calls without memory. */
#include "wt.h"
#include "wt_viz.h"

#include <string.h>

enum { N_MAX = 400, BLOCKS = 20 };
#define MIB ((size_t)1 << 20)

static warm_options options = {
    .size = sizeof options, .history = 100, .history_frames = 4};

WT_CASE("memory", .timeout = 60);

/* The events of the only memory that is used. *snapshot is owned by the caller;
 * events are a part of it. */
static const json_t *read_events(warm_runtime *runtime, json_t **snapshot)
{
    static char text[1 << 18];
    const json_t *events;
    size_t i;

    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    *snapshot = wt_json_read(text);
    ck_assert_msg(*snapshot != NULL, "not JSON: %s", text);
    json_array_foreach (wt_json_at(*snapshot, "device_traces"), i, events) {
        if (json_array_size(events) > 0) {
            return events;
        }
    }
    return wt_json_at(*snapshot, "device_traces.0");
}

static size_t allocs_told(warm_runtime *runtime)
{
    json_t *snapshot;
    const json_t *events = read_events(runtime, &snapshot), *e;
    size_t count = 0, i;

    json_array_foreach (events, i, e) {
        count += wt_json_is(json_object_get(e, "action"), "alloc");
    }
    json_decref(snapshot);
    return count;
}

WT_TEST(test_C7_what_was_refused_is_no_event)
{
    bool passed = false;

    for (uint64_t n = 1; !passed && n < N_MAX; n++) {
        warm_runtime *runtime = wt_runtime(&options);
        void *block[BLOCKS] = {NULL};
        size_t had = 0;

        warm_testing_fail_metadata(n, 1);
        for (size_t i = 0; i < BLOCKS; i++) {
            had += warm_device_alloc(runtime, 0, NULL, 3000 * (i % 4 + 1),
                                     &block[i]) == WARM_OK;
        }
        warm_testing_fail_metadata(0, 0);
        passed = had == BLOCKS;
        ck_assert_uint_eq(allocs_told(runtime), had);
        wt_free_all(block, BLOCKS);
        wt_runtime_end(runtime);
    }
    ck_assert(passed);
}

/* What is free on the device cannot be asked for: the event comes all the same,
 * and the error is that of the request. */
WT_TEST(test_C7_out_of_memory_when_the_driver_does_not_say_more)
{
    warm_runtime *runtime = wt_runtime(&options);
    json_t *snapshot;
    const json_t *events, *last;
    void *block = NULL;

    wt_ok(warm_testing_fail(runtime, "device_memory", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, NULL, (size_t)1 << 44, &block));
    wt_says("16.0 TiB");
    wt_ok(warm_testing_fail(runtime, "device_memory", 0, 1));
    events = read_events(runtime, &snapshot);
    last = json_array_get(events, json_array_size(events) - 1);
    ck_assert(wt_json_is(json_object_get(last, "action"), "oom"));
    ck_assert_uint_eq(wt_json_get_number(last, "device_free"), 0);
    json_decref(snapshot);
    wt_runtime_end(runtime);
}

/* The last two events are these. */
static void assert_last(warm_runtime *runtime, const char *before,
                        const char *last)
{
    json_t *snapshot;
    const json_t *events = read_events(runtime, &snapshot);
    size_t count = json_array_size(events);

    ck_assert_uint_ge(count, 2);
    ck_assert(wt_json_is(
        json_object_get(json_array_get(events, count - 2), "action"), before));
    ck_assert(wt_json_is(
        json_object_get(json_array_get(events, count - 1), "action"), last));
    json_decref(snapshot);
}

WT_TEST(test_C7_segment_that_the_driver_does_not_take_is_there_again)
{
    static char text[1 << 16];
    static wt_viz viz;
    warm_runtime *runtime = wt_runtime(&options);
    size_t released = 1;
    void *block = wt_device(runtime, NULL, 3 * MIB);
    json_t *all;

    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "device_free", 1, 1));
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, 0);
    assert_last(runtime, "segment_free", "segment_alloc");
    wt_ok(warm_snapshot_viz(runtime, text, sizeof text, NULL));
    all = wt_json_read(text);
    ck_assert_msg(wt_viz_check(&viz, all, 0), "%s", viz.wrong);
    ck_assert_uint_eq(viz.segments.count, 0);
    json_decref(all);
    wt_ok(warm_testing_fail(runtime, "device_free", 0, 1));
    wt_runtime_end(runtime);
}

/* It waits for the stream instead, and the block is idle at once. */
WT_TEST(test_C7_free_is_completed_where_no_event_can_be_recorded)
{
    warm_runtime *runtime = wt_runtime(&options);
    warm_stream stream = wt_stream(runtime, 0);
    void *block = wt_device(runtime, stream, 3 * MIB);

    wt_ok(warm_record_stream(block, NULL));
    wt_ok(warm_testing_fail(runtime, "event_record", 1, 1));
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 1));
    wt_ok(warm_free(block));
    assert_last(runtime, "free_requested", "free_completed");
    wt_ok(warm_testing_fail(runtime, "event_record", 0, 1));
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 1));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
}
