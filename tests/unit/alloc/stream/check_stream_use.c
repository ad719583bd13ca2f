/* check_stream_use.c: a block that stays live while many streams use it (rows
 * B4, B6, B25): the records of streams that are gone are dropped, and no
 * others. Host device, whose streams the test stops and starts. */
#include "wt.h"

#include "alloc/kinds/pinned.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/base/meta.h"

#include <string.h>

/* FEW: uses that may wait to be dropped, and three that never are: the
 * owner's first, another thread's first, the one in the block's record. */
enum { SIZE = 5000, MANY = 1000, FEW = 8 + 3, THREADS = 4 };

static warm_runtime *runtime;
static warm_stream stream;

static void set_up(void)
{
    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    wt_ok(warm_stream_create(runtime, 0, &stream));
}

static void tear_down(void)
{
    wt_ok(warm_poll(runtime));
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
}

static void *take(bool of_device)
{
    return of_device ? wt_device(runtime, stream, SIZE)
                     : wt_pinned(runtime, SIZE);
}

static warm_status use_briefly(void *block)
{
    warm_stream brief = NULL;
    warm_status status = warm_stream_create(runtime, 0, &brief);

    if (status == WARM_OK) {
        status = warm_record_stream(block, brief);
    }
    if (status == WARM_OK) {
        status = warm_stream_synchronize(runtime, brief);
    }
    return status == WARM_OK ? warm_stream_destroy(runtime, brief) : status;
}

/* A stream that holds its work back until hold_end(). */
static warm_stream hold(void)
{
    warm_stream held;

    wt_ok(wm_driver_stream_create(runtime->driver, 0, &held));
    wt_ok(warm_testing_hold(runtime, held));
    wt_ok(warm_stream_adopt(runtime, held));
    return held;
}

static void hold_end(warm_stream held)
{
    wt_go(runtime, held);
    wt_ok(wm_driver_stream_destroy(runtime->driver, held));
}

static void use_by_many(void *block, unsigned held)
{
    for (int i = 0; i < MANY; i++) {
        wt_ok(use_briefly(block));
        wt_require(wt_block_info(block).streams <= 2 * held + FEW,
                   "%u streams after %d", wt_block_info(block).streams, i);
    }
}

static uint64_t pending(bool of_device)
{
    return of_device ? wt_device_stats(runtime).all.active_bytes.current
                     : wt_pinned_stats(runtime).pending_bytes.current;
}

WT_CASE("stream_use", .setup = set_up, .teardown = tear_down);

/* For page-locked memory, and for a device's. */
WT_LOOP_TEST(test_B6_B25_streams_that_are_gone_leave_no_record, 2)
{
    void *block = take(_i == 1);
    int64_t records;

    use_by_many(block, 0);
    records = wm_meta_live();
    use_by_many(block, 0);
    ck_assert_int_le(wm_meta_live(), records + 2 * FEW);
    ck_assert_uint_le(wt_block_info(block).streams, FEW);
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(pending(_i == 1), 0);
}

/* Some streams have work queued when they retire, among many that have none:
 * the block waits for each of them. */
WT_LOOP_TEST(test_B4_B6_stream_with_work_stays_recorded, 2)
{
    enum { HELD = 20 };
    warm_stream held[HELD];
    void *block = take(_i == 1);
    uint64_t asked;

    for (int i = 0; i < HELD; i++) {
        held[i] = hold();
        wt_ok(warm_record_stream(block, held[i]));
        wt_ok(use_briefly(block));
        wt_ok(warm_stream_retire(runtime, held[i]));
    }
    asked = wt_calls(runtime, "event_passed");
    use_by_many(block, HELD);
    /* A query for each stream that goes, and about one for the others. */
    ck_assert_uint_le(wt_calls(runtime, "event_passed") - asked, 3 * MANY);
    ck_assert_uint_ge(wt_block_info(block).streams, HELD);
    wt_ok(warm_free(block));
    for (int i = 0; i < HELD; i++) {
        wt_ok(warm_poll(runtime));
        ck_assert_uint_gt(pending(_i == 1), 0);
        hold_end(held[i]);
    }
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(pending(_i == 1), 0);
}

/* If the work completes while the block is live, its uses are dropped
 * later. */
WT_TEST(test_B6_B25_records_go_once_the_work_has_passed)
{
    enum { HELD = 100 };
    warm_stream held[HELD];
    void *block = take(false);

    for (int i = 0; i < HELD; i++) {
        held[i] = hold();
        wt_ok(warm_record_stream(block, held[i]));
        wt_ok(warm_stream_retire(runtime, held[i]));
    }
    ck_assert_uint_eq(wt_block_info(block).streams, HELD);
    for (int i = 0; i < HELD; i++) {
        hold_end(held[i]);
    }
    use_by_many(block, HELD);
    ck_assert_uint_le(wt_block_info(block).streams, FEW);
    wt_ok(warm_free(block));
}

/* The final event of a stream could not be recorded: the block is lost,
 * however many streams were recorded after it. A query that fails keeps the
 * use. */
WT_TEST(test_B4_B6_stream_whose_end_is_unknown_stays_recorded)
{
    warm_stream brief;
    void *block = take(false);

    wt_ok(use_briefly(block));
    wt_ok(use_briefly(block));
    wt_ok(use_briefly(block));
    wt_ok(warm_stream_create(runtime, 0, &brief));
    wt_ok(warm_record_stream(block, brief));
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, true));
    wt_ok(warm_testing_fail(runtime, "stream_synchronize", 1, true));
    wt_ok(warm_stream_destroy(runtime, brief));
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, false));
    wt_ok(warm_testing_fail(runtime, "stream_synchronize", 0, false));
    wt_ok(warm_testing_fail(runtime, "event_passed", 1, true));
    for (int i = 0; i < MANY / 10; i++) {
        wt_ok(use_briefly(block));
    }
    ck_assert_str_eq(warm_last_error_message(), "");
    ck_assert_uint_ge(wt_block_info(block).streams, MANY / 10);
    wt_ok(warm_testing_fail(runtime, "event_passed", 0, false));
    use_by_many(block, MANY / 10);
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
}

/* Another stream is recorded while uses of retired streams are out of the
 * list, and their events are queried. One use of the list is in the block's
 * own record. */
static struct {
    const wm_driver_ops *real;
    wm_driver_ops ops;
    void *block;
    warm_status status;
    unsigned asked;
} meanwhile;

static warm_status record_and_ask(wm_driver *d, warm_event event)
{
    if (meanwhile.asked++ == 0) {
        meanwhile.status = warm_record_stream(meanwhile.block, stream);
    }
    return meanwhile.real->event_passed(d, event);
}

static void in_other(void *argument, unsigned index)
{
    warm_stream *held = argument;
    warm_status status = WARM_OK;

    (void)index;
    /* The stream is not adopted, and this thread is not the owner: the use
     * is in the block's record. */
    status = warm_record_stream(meanwhile.block, held[0]);
    for (int i = 1; i < 2 * FEW && status == WARM_OK; i++) {
        status = warm_stream_adopt(runtime, held[i]);
        if (status == WARM_OK) {
            status = warm_record_stream(meanwhile.block, held[i]);
        }
        if (status == WARM_OK) {
            status = warm_stream_retire(runtime, held[i - 1]);
        }
    }
    meanwhile.status = status != WARM_OK ? status : meanwhile.status;
}

WT_TEST(test_B4_stream_recorded_while_others_are_asked_about)
{
    warm_stream held[2 * FEW];

    memset(&meanwhile, 0, sizeof meanwhile);
    meanwhile.real = runtime->driver->ops;
    meanwhile.ops = *meanwhile.real;
    meanwhile.ops.event_passed = record_and_ask;
    meanwhile.block = take(false);
    for (int i = 0; i < 2 * FEW; i++) {
        wt_ok(wm_driver_stream_create(runtime->driver, 0, &held[i]));
    }
    wt_ok(warm_testing_hold(runtime, stream));
    wt_ok(warm_testing_hold(runtime, held[0]));
    runtime->driver->ops = &meanwhile.ops;
    wt_threads(1, in_other, held);
    runtime->driver->ops = meanwhile.real;
    wt_ok(meanwhile.status);
    ck_assert_uint_gt(meanwhile.asked, 0);
    wt_ok(warm_free(meanwhile.block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 1);
    wt_go(runtime, stream);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 1);
    wt_go(runtime, held[0]);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    wt_ok(warm_stream_retire(runtime, held[2 * FEW - 1]));
    for (int i = 0; i < 2 * FEW; i++) {
        wt_ok(wm_driver_stream_destroy(runtime->driver, held[i]));
    }
}

/* ---- several threads ----------------------------------------------------- */

static struct {
    void *block[2];
    warm_status status[THREADS];
    _Atomic unsigned most;
} many;

static void use_one(void *argument, unsigned index)
{
    (void)argument;
    for (unsigned i = 0; i < wt_scaled(MANY); i++) {
        warm_block_info info = {.size = sizeof info};
        void *block = many.block[i % 2];
        warm_status status = use_briefly(block);

        if (status == WARM_OK) {
            status = warm_block_get_info(block, &info);
        }
        if (info.streams > many.most) {
            many.most = info.streams;
        }
        many.status[index] = status != WARM_OK ? status : many.status[index];
    }
}

WT_TEST(test_B4_B25_threads_record_while_others_drop)
{
    warm_stream held = hold();

    many.most = 0;
    for (int i = 0; i < 2; i++) {
        many.block[i] = take(i == 1);
        wt_ok(warm_record_stream(many.block[i], stream));
        wt_ok(warm_record_stream(many.block[i], WARM_STREAM_LEGACY));
        wt_ok(warm_record_stream(many.block[i], held));
    }
    wt_ok(warm_stream_retire(runtime, held));
    wt_threads(THREADS, use_one, NULL);
    for (int i = 0; i < THREADS; i++) {
        wt_ok(many.status[i]);
    }
    /* Uses of the threads, in the list or out of it to be queried. */
    ck_assert_uint_le(many.most, 4 * FEW + 4 * THREADS);
    wt_free(many.block[0], many.block[1]);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_gt(pending(false), 0);
    ck_assert_uint_gt(pending(true), 0);
    hold_end(held);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(pending(false), 0);
    ck_assert_uint_eq(pending(true), 0);
}
