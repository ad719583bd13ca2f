/* check_batch.c: adopted streams: freed blocks that share an event, and streams
 * whose program keeps or breaks its promise to retire them (rows B3 to B7,
 * B12). Host device, whose streams the test drives step by step. */
/* memcheck: one process */
#include "stream_bed.h"

enum { COUNT = 4 };

static void nothing(void *argument)
{
    (void)argument;
}

static void open_with(const warm_options *options)
{
    runtime = wt_runtime(options);
    wt_ok(warm_stream_create(runtime, 0, &stream));
}

static void setup(void)
{
    open_with(&(warm_options){.size = sizeof(warm_options),
                              .device = "host",
                              .test = wt_list("batch_count=%d", COUNT)});
}

static void teardown(void)
{
    ck_assert(wm_arena_check(&runtime->pinned->space.group.arenas[0]));
    wt_runtime_end(runtime);
}

/* Replaces the runtime by one with these options. */
#define reopen(...)                                                            \
    do {                                                                       \
        teardown();                                                            \
        open_with(&(warm_options){                                             \
            .size = sizeof(warm_options), .device = "host", __VA_ARGS__});     \
    } while (0)

static uint64_t all_calls(void)
{
    uint64_t sum = 0;

    for (int i = 0; warm_testing_call_name(i) != NULL; i++) {
        sum += wt_calls(runtime, warm_testing_call_name(i));
    }
    return sum;
}

/* The timeline of the stream. */
static const wm_timeline *timeline(void)
{
    wm_timeline *t = NULL;
    bool captured;

    wt_ok(wm_timeline_lookup(timelines(), stream, &t, &captured));
    wm_timeline_drop(timelines(), t);
    return t;
}

/* ---- one event for many ------------------------------------------------ */

WT_CASE("batch", .setup = setup, .teardown = teardown);

WT_TEST(test_B4_frees_on_an_adopted_stream_share_one_event)
{
    void *block[COUNT + 1];
    uint64_t before;

    wt_stop(runtime, stream);
    for (int i = 0; i <= COUNT; i++) {
        block[i] = take();
    }
    before = all_calls();
    for (int i = 0; i <= COUNT; i++) {
        wt_ok(warm_record_stream(block[i], stream));
        wt_ok(warm_record_stream(block[i], stream));
    }
    ck_assert_uint_eq(all_calls(), before);
    for (int i = 0; i < COUNT - 1; i++) {
        wt_ok(warm_free(block[i]));
    }
    ck_assert_uint_eq(all_calls(), before);
    ck_assert_uint_eq(pending(), COUNT - 1);
    wt_ok(warm_free(block[COUNT - 1]));
    wt_ok(warm_free(block[COUNT]));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_uint_eq(wt_calls(runtime, "event_passed"), 1);
    ck_assert_uint_eq(events_out(), 1);
    poll_leaves(COUNT + 1);
    go_and_poll(stream);
    ck_assert_uint_eq(events_out(), 0);
}

/* Blocks of no thread's cache: their frees do not wait in a thread's slot
 * first. */
WT_TEST(test_B4_other_frees_share_one_event_as_well)
{
    void *block[COUNT];

    for (int i = 0; i < COUNT; i++) {
        block[i] = take();
    }
    wt_ok(warm_thread_release(runtime));
    wt_stop(runtime, stream);
    for (int i = 0; i < COUNT; i++) {
        ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 0);
        wt_free_used(block[i], stream);
    }
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_uint_eq(pending(), COUNT);
    go_and_poll(stream);
}

/* The driver refuses what a trim needs: an open batch is left. */
WT_TEST(test_G2_B4_a_runtime_ends_with_batches_that_are_open)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_runtime *kept = runtime;

    setup();
    wt_free_used(take(), stream);
    fail_call("capture_mode", 1, 1);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.pending, 1);
    runtime = kept;
}

/* An adopted stream of which the driver does not tell whether it captures. */
WT_TEST(test_B7_a_lookup_that_fails_changes_nothing)
{
    const wm_timeline *t = timeline();
    size_t references = atomic_load(&t->references);
    wm_timeline *found = NULL;
    bool captured;

    wt_ok(warm_capture_announce(runtime, stream));
    fail_call("stream_capture", 1, 0);
    wt_fails(WARM_DRIVER_ERROR,
             wm_timeline_lookup(timelines(), stream, &found, &captured));
    ck_assert_ptr_null(found);
    wt_ok(warm_capture_announce_end(runtime, stream));
    ck_assert_uint_eq(atomic_load(&t->references), references);
}

WT_TEST(test_B4_bytes_close_a_batch)
{
    reopen(.test = wt_list("batch_count=100:batch_bytes=%d", 2 * BYTES));
    wt_stop(runtime, stream);
    for (unsigned i = 1; i <= 6; i++) {
        wt_free_used(take(), stream);
        ck_assert_uint_eq(wt_calls(runtime, "event_mark"), i / 2);
    }
    go_and_poll(stream);
}

/* Frees on a stream that completes none of them: each event is that of a whole
 * batch, however many are out. */
WT_TEST(test_B25_a_burst_of_frees_records_few_events)
{
    enum { FREES = 2000, MOST = 16 };
    static void *block[FREES];

    reopen(.test = wt_list("batch_count=4096:batch_bytes=%d", MOST * BYTES));
    for (int i = 0; i < FREES; i++) {
        block[i] = take();
        wt_ok(warm_record_stream(block[i], stream));
    }
    wt_stop(runtime, stream);
    wt_free_all(block, FREES);
    ck_assert_uint_le(wt_calls(runtime, "event_mark"), FREES / MOST);
    go_and_poll(stream);
}

/* On many streams with little out on each as well. */
WT_TEST(test_B25_few_frees_on_each_of_many_streams_share_events)
{
    enum { MANY = 40, FREES = 40 };
    static void *block[FREES][MANY];
    warm_stream all[MANY];

    reopen(.test = wt_list("batch_bytes=%d", 16 * BYTES));
    for (int i = 0; i < MANY; i++) {
        wt_ok(warm_stream_create(runtime, 0, &all[i]));
        for (int k = 0; k < FREES; k++) {
            block[k][i] = take();
            wt_ok(warm_record_stream(block[k][i], all[i]));
        }
        wt_stop(runtime, all[i]);
    }
    for (int k = 0; k < FREES; k++) {
        for (int i = 0; i < MANY; i++) {
            wt_ok(warm_free(block[k][i]));
        }
    }
    ck_assert_uint_le(wt_calls(runtime, "event_mark"), MANY * FREES / 3);
    for (int i = 0; i < MANY; i++) {
        wt_go(runtime, all[i]);
        wt_ok(warm_stream_destroy(runtime, all[i]));
    }
    poll_leaves(0);
}

/* The first event query returns late. */
static struct {
    _Atomic bool asked, open;
} slow;

static warm_status slow_query(wm_driver *d, warm_event event)
{
    warm_status status = real->event_passed(d, event);

    if (!atomic_exchange(&slow.asked, true)) {
        await_flag(&slow.open);
    }
    return status;
}

enum { WHILE_ASKED = 30 };

struct beside {
    void *block[WHILE_ASKED];
    warm_status polled, freed;
};

static void poll_or_free(void *argument, unsigned index)
{
    struct beside *beside = argument;

    if (index == 0) {
        beside->polled = warm_poll(runtime);
        return;
    }
    await_flag(&slow.asked);
    for (int i = 0; i < WHILE_ASKED && beside->freed == WARM_OK; i++) {
        beside->freed = warm_free(beside->block[i]);
    }
    atomic_store(&slow.open, true);
}

static void take_beside(struct beside *beside)
{
    for (int i = 0; i < WHILE_ASKED; i++) {
        beside->block[i] = take();
        wt_ok(warm_record_stream(beside->block[i], stream));
    }
}

static void free_beside_a_poll(struct beside *beside)
{
    atomic_store(&slow.asked, false);
    atomic_store(&slow.open, false);
    replace_ops();
    ops.event_passed = slow_query;
    wt_threads(2, poll_or_free, beside);
    restore_ops();
    wt_ok(beside->polled);
    wt_ok(beside->freed);
}

/* While a poller is in the driver, another thread frees block after block:
 * 8 batches get an event each, and the rest share one when the poller is back.
 * */
WT_TEST(test_B4_batches_behind_a_poll_share_events)
{
    struct beside beside = {.polled = WARM_OK, .freed = WARM_OK};
    void *later;

    reopen(.test = "batch_count=1");
    wt_stop(runtime, stream); /* one step of work; each batch is another */
    wt_free_used(take(), stream);
    take_beside(&beside);
    later = take();
    free_beside_a_poll(&beside);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1 + 8 + 1);
    ck_assert_uint_eq(wt_calls(runtime, "event_create"), 1 + 8 + 1);
    ck_assert_uint_eq(timeline()->queued, 1 + 8 + 1);
    wt_free_used(later, stream); /* the poller is back: a batch of its own */
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1 + 8 + 1 + 1);
    wt_ok(warm_testing_step(runtime, stream, 1 + 1 + 8));
    poll_leaves(WHILE_ASKED - 8 + 1);
    ck_assert_uint_eq(timeline()->queued, 1 + 1);
    go_and_poll(stream);
    ck_assert_uint_eq(events_out(), 0);
}

WT_TEST(test_B4_age_closes_a_batch)
{
    uint64_t before;

    wt_stop(runtime, stream);
    before = wm_clock_ns();
    wt_free_used(take(), stream);
    wm_timelines_close_old(timelines(), before - 1);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 0);
    wm_timelines_close_old(timelines(), wm_clock_ns());
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    wm_timelines_close_old(timelines(), UINT64_MAX);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    go_and_poll(stream);
}

/* For an idle stream a poll makes one query and records no event. */
WT_TEST(test_B4_an_idle_stream_is_asked_once)
{
    void *block = take();

    wt_free_used(block, stream);
    ck_assert_uint_eq(pending(), 1);
    poll_leaves(0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 0);
    ck_assert_uint_eq(wt_calls(runtime, "stream_passed"), 1);
    ck_assert_ptr_eq(take(), block);
    wt_ok(warm_free(block));
}

/* If the stream is idle, the batches that were queued behind the poll are
 * complete without a query of their events. */
WT_TEST(test_B4_an_idle_stream_needs_no_event_queries)
{
    struct beside beside = {.polled = WARM_OK, .freed = WARM_OK};
    uint64_t queries, marks;

    take_beside(&beside);
    wt_stop(runtime, stream);
    free_many(COUNT, stream);
    wt_go(runtime, stream);
    queries = wt_calls(runtime, "event_passed");
    marks = wt_calls(runtime, "event_mark");
    free_beside_a_poll(&beside);
    ck_assert_uint_gt(wt_calls(runtime, "event_mark"), marks + 1);
    ck_assert_uint_eq(wt_calls(runtime, "event_passed"), queries + 1);
    ck_assert_uint_eq(wt_calls(runtime, "stream_passed"), 1);
    ck_assert_uint_eq(pending(), 0);
}

/* If the oldest batch is incomplete, a poll makes that one query, and
 * records an event for the open batch. */
WT_TEST(test_B4_a_busy_stream_is_asked_once)
{
    uint64_t queries, marks;

    wt_stop(runtime, stream);
    free_many(3 * COUNT + 1, stream);
    queries = wt_calls(runtime, "event_passed");
    marks = wt_calls(runtime, "event_mark");
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_calls(runtime, "event_passed"), queries + 1);
    ck_assert_uint_eq(wt_calls(runtime, "stream_passed"), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + 1);
    go_and_poll(stream);
}

/* A miss that grows queries the stream, and then the event that it recorded
 * there: once each. */
WT_TEST(test_B4_a_miss_asks_nobody_twice)
{
    void *grown = NULL;

    reopen(.test = NULL);
    wt_stop(runtime, stream);
    free_many(WM_BATCH_RIPE, stream);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 0);
    wt_ok(warm_pinned_alloc(runtime, 4 << 20, &grown));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_uint_eq(wt_calls(runtime, "stream_passed"), 1);
    ck_assert_uint_eq(wt_calls(runtime, "event_passed"), 1);
    wt_ok(warm_free(grown));
    wt_go(runtime, stream);
}

enum { OTHERS = 6, SMALL = 50000 };

struct others {
    void *block[OTHERS];
    size_t batched;
    uint64_t locks;
    unsigned refused;
};

/* The first free makes a slot, the others are hits in it. */
static void free_others(void *argument, unsigned index)
{
    struct others *o = argument;
    uint64_t before;

    (void)index;
    o->refused += warm_free(o->block[0]) != WARM_OK;
    before = wm_lock_taken();
    for (int i = 1; i < OTHERS; i++) {
        o->refused += warm_free(o->block[i]) != WARM_OK;
    }
    o->locks = wm_lock_taken() - before;
    o->batched = wm_pending_blocks(timelines());
    o->refused += warm_free(o->block[1]) != WARM_OK;
}

WT_TEST(test_B4_frees_of_what_another_thread_has_batch_too)
{
    struct others o = {.refused = 0};

    reopen(.test = NULL);
    wt_stop(runtime, stream);
    for (int i = 0; i < OTHERS; i++) {
        wt_ok(warm_pinned_alloc(runtime, SMALL, &o.block[i]));
        wt_ok(warm_record_stream(o.block[i], stream));
    }
    wt_threads(1, free_others, &o);
    ck_assert_uint_eq(o.refused, 1);
    ck_assert_uint_eq(o.locks, 0);
    ck_assert_uint_eq(o.batched, OTHERS - 1);
    ck_assert_uint_eq(pending(), OTHERS);
    poll_leaves(OTHERS);
    go_and_poll(stream);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.current, 0);
}

struct two {
    void *block[2];
    warm_status status[2];
};

static void free_two(void *argument, unsigned index)
{
    struct two *two = argument;

    (void)index;
    two->status[0] = warm_free(two->block[0]);
    two->status[1] = warm_free(two->block[1]);
}

/* Also in a class that the freeing thread has not used before. */
WT_TEST(test_B14_frees_of_others_count_in_their_class)
{
    const size_t bytes[] = {SMALL, SMALL / 4};
    warm_class_stats stats = {.size = sizeof stats};
    struct two two;

    for (int i = 0; i < 2; i++) {
        wt_ok(warm_pinned_alloc(runtime, bytes[i], &two.block[i]));
        wt_ok(warm_record_stream(two.block[i], stream));
    }
    wt_threads(1, free_two, &two);
    wt_ok(warm_poll(runtime));
    wm_cache_merge_stats(&runtime->pinned->space.group);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(two.status[i], WARM_OK);
        wm_arena_class_stats(&runtime->pinned->space.group.arenas[0],
                             wm_size_class(bytes[i]), &stats);
        ck_assert_uint_eq(stats.live.allocated, 1);
        ck_assert_uint_eq(stats.live.current, 0);
    }
}

/* The memory is in an open batch: the allocation takes it, does not grow,
 * and does not fail under a limit. */
WT_TEST(test_B12_an_allocation_takes_from_the_open_batch)
{
    void *block = NULL;

    reopen(.pinned_high = 8 << 20);
    wt_ok(warm_pinned_alloc(runtime, 8 << 20, &block));
    wt_free_used(block, stream);
    block = NULL;
    wt_ok(warm_pinned_alloc(runtime, 8 << 20, &block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 1);
    wt_ok(warm_free(block));
}

WT_TEST(test_B5_a_stuck_adopted_stream_delays_only_its_blocks)
{
    warm_stream other;

    wt_ok(warm_stream_create(runtime, 0, &other));
    wt_stop(runtime, stream);
    for (int i = 0; i < 2 * COUNT + 1; i++) {
        wt_free_used(take(), stream);
        wt_free_used(take(), other);
    }
    poll_leaves(2 * COUNT + 1);
    go_and_poll(stream);
}

/* Batches of one stream complete in the order of its work: none waits for a
 * later one, however many were not queried. */
WT_TEST(test_B5_an_early_batch_does_not_wait_for_a_late_one)
{
    const unsigned batches = 12;

    wt_stop(runtime, stream);
    for (unsigned i = 0; i < batches; i++) {
        wt_free_used(take(), stream);
        wm_timelines_close_old(timelines(), UINT64_MAX);
        wt_ok(warm_stream_host_func(runtime, stream, nothing, NULL));
    }
    for (unsigned i = 1; i <= batches; i++) {
        wt_ok(warm_testing_step(runtime, stream, 2)); /* work, event */
        poll_leaves(batches - i);
    }
    wt_go(runtime, stream);
}

/* An adopted and a retired stream in every combination and order: the block
 * waits for both streams. */
WT_LOOP_TEST(test_B4_a_block_of_several_streams_waits_for_each, 8)
{
    warm_stream pair[2];
    void *block = take();
    warm_block_info info = {.size = sizeof info};

    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_create(runtime, 0, &pair[i]));
        if ((_i >> i & 1) != 0) {
            wt_ok(warm_stream_retire(runtime, pair[i]));
        }
        wt_stop(runtime, pair[i]);
    }
    wt_ok(warm_record_stream(block, pair[0]));
    wt_ok(warm_record_stream(block, pair[1]));
    wt_ok(warm_record_stream(block, pair[0]));
    wt_ok(warm_record_stream(block, pair[1]));
    wt_ok(warm_block_get_info(block, &info));
    ck_assert_uint_eq(info.streams, 2);
    wt_ok(warm_free(block));
    wt_go(runtime, pair[_i >> 2]);
    poll_leaves(1);
    go_and_poll(pair[!(_i >> 2)]);
}

/* Housekeeping polls every timeline. */
WT_TEST(test_tending_asks_all_queues)
{
    warm_stream all[3];

    for (int s = 0; s < 3; s++) {
        wt_ok(warm_stream_create(runtime, 0, &all[s]));
        wt_stop(runtime, all[s]);
        for (int i = 0; i < COUNT; i++) {
            wt_free_used(take(), all[s]);
        }
    }
    wm_timelines_tend(timelines());
    ck_assert_uint_eq(pending(), 3 * COUNT);
    for (int s = 0; s < 3; s++) {
        wt_go(runtime, all[s]);
    }
    wm_timelines_tend(timelines());
    ck_assert_uint_eq(pending(), 0);
}

/* ---- adopting, retiring ------------------------------------------------ */

WT_TEST(test_B6_a_stream_of_the_program_is_adopted_and_retired)
{
    warm_stream mine;
    void *block = take();
    uint64_t before;

    make_stream(&mine);
    wt_ok(warm_stream_adopt(runtime, mine));
    wt_ok(warm_stream_adopt(runtime, mine));
    wt_stop(runtime, mine);
    before = all_calls();
    wt_free_used(block, mine);
    ck_assert_uint_eq(all_calls(), before);
    wt_ok(warm_stream_retire(runtime, mine));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1); /* the final one */
    poll_leaves(1);
    /* From here on each free records its own event. */
    wt_free_used(take(), mine);
    wt_free_used(take(), mine);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 3);
    go_and_poll(mine);
    wt_ok(warm_stream_retire(runtime, mine));
    destroy_unannounced(mine);
}

static const warm_stream defaults[] = {NULL, (warm_stream)(uintptr_t)1,
                                       (warm_stream)(uintptr_t)2};

WT_LOOP_TEST(test_B6_default_streams_are_not_adopted, 3)
{
    uint64_t before = all_calls();

    wt_fails(WARM_INVALID_ARGUMENT, warm_stream_adopt(runtime, defaults[_i]));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "several"));
    ck_assert_uint_eq(all_calls(), before);
    wt_fails(WARM_INVALID_ARGUMENT, warm_stream_adopt(NULL, stream));
    wt_fails(WARM_INVALID_STREAM,
             warm_stream_adopt(runtime, (warm_stream)(uintptr_t)0xdead00));
}

/* The program destroys the stream itself after it was retired: its blocks
 * are idle again once its work is done. */
WT_TEST(test_B6_an_open_batch_outlives_its_stream)
{
    warm_stream brief;
    void *live = take();

    wt_ok(warm_stream_create(runtime, 0, &brief));
    wt_stop(runtime, brief);
    wt_ok(warm_record_stream(live, brief));
    wt_free_used(take(), brief);
    wt_ok(warm_stream_retire(runtime, brief));
    wt_ok(warm_free(live));
    poll_leaves(2);
    wt_go(runtime, brief);
    destroy_unannounced(brief);
    poll_leaves(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

/* The program destroys an adopted stream without retiring it, and another
 * stream gets the address: blocks of the first are lost, and the second is a
 * stream like any other. */
WT_TEST(test_B6_a_stream_that_vanished_is_noticed_at_its_address)
{
    warm_stream first, second;
    void *live = take();

    wt_ok(warm_stream_create(runtime, 0, &first));
    wt_ok(warm_record_stream(live, first));
    wt_free_used(take(), first);
    destroy_unannounced(first);
    second = make_again(first, true);
    wt_ok(warm_free(live));
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 2);
    ck_assert_uint_eq(pending(), 0);
    wt_free_used(take(), second);
    poll_leaves(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 2);
}

/* The same if the second stream is not adopted: the library notices when it
 * is retired. */
WT_TEST(test_B6_a_stream_that_vanished_is_noticed_by_the_next_that_retires)
{
    warm_stream first, second;

    wt_ok(warm_stream_create(runtime, 0, &first));
    wt_free_used(take(), first);
    destroy_unannounced(first);
    second = make_again(first, false);
    wt_ok(warm_stream_retire(runtime, second));
    destroy_unannounced(second);
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 0);
}

WT_TEST(test_B6_adopted_streams_that_are_gone_leave_nothing_behind)
{
    for (int i = 0; i < 300; i++) {
        warm_stream brief;

        wt_ok(warm_stream_create(runtime, 0, &brief));
        wt_free_used(take(), brief);
        wt_ok(warm_stream_destroy(runtime, brief));
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_le(timelines()->count, 64);
    ck_assert_uint_eq(events_out(), 0);
}

/* Streams of the pool are adopted. */
WT_TEST(test_B6_pooled_streams_are_adopted)
{
    warm_stream pooled;
    void *block = take();
    uint64_t before;

    wt_ok(warm_stream_reserve(runtime, 0, &pooled));
    before = all_calls();
    wt_free_used(block, pooled);
    ck_assert_uint_eq(all_calls(), before);
    poll_leaves(0);
}

/* ---- captures ---------------------------------------------------------- */

static void begin_capture(warm_stream s)
{
    wt_ok(wm_driver_capture_begin(runtime->driver, s));
}

static void end_capture(warm_stream s)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_end(runtime->driver, s, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Blocks that were freed before the capture, or in it without a record
 * there, are idle again after it. Blocks that were recorded in it are
 * retained. */
WT_TEST(test_B7_an_announced_capture)
{
    void *before = take(), *in = take(), *after = take(), *used = take();

    wt_stop(runtime, stream);
    wt_ok(warm_record_stream(used, stream));
    wt_free_used(before, stream);
    wt_ok(warm_capture_announce(runtime, stream));
    wt_ok(warm_capture_announce(runtime, stream));
    begin_capture(stream);
    wt_free_used(in, stream);
    wt_ok(warm_record_stream(after, stream));
    wt_ok(warm_free(used));
    ck_assert_uint_eq(pending(), 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 1);
    end_capture(stream);
    wt_ok(warm_capture_announce_end(runtime, stream));
    wt_fails(WARM_INVALID_ARGUMENT, warm_capture_announce_end(runtime, stream));
    ck_assert_uint_eq(captures(), 0);
    wt_ok(warm_free(after));
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 2);
    go_and_poll(stream);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

/* While another stream captures, each free on this one records its event,
 * and the capture is not broken. */
WT_TEST(test_B7_frees_during_the_capture_of_another_stream)
{
    warm_stream other;
    uint64_t marks;

    wt_ok(warm_stream_create(runtime, 0, &other));
    wt_stop(runtime, stream);
    wt_ok(warm_capture_begin(runtime, other));
    marks = wt_calls(runtime, "event_mark");
    for (int i = 0; i < COUNT; i++) {
        wt_free_used(take(), stream);
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + COUNT);
    end_capture(other); /* by another call than ours: it is not over yet */
    wt_free_used(take(), stream);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + COUNT + 1);
    wt_ok(warm_capture_announce_end(runtime, other));
    wt_free_used(take(), stream);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + COUNT + 1);
    go_and_poll(stream);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 0);
}

/* A capture that was not announced is noticed when a batch closes, since it
 * is full or for a poll, and logged once. No event is recorded into it, and
 * the blocks are retained, since its graph may use them. */
WT_LOOP_TEST(test_B7_a_capture_that_was_not_announced_is_noticed, 2)
{
    unsigned count = _i == 0 ? COUNT : 1;

    lines = 0;
    warm_log_set(hear, NULL);
    begin_capture(stream);
    for (int round = 0; round < 2; round++) {
        free_many(count, stream);
        wt_ok(warm_poll(runtime));
    }
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last_line, "announce"));
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 2 * count);
    ck_assert_uint_eq(events_out(), 0);
    end_capture(stream);
    wt_free_used(take(), stream);
    wt_ok(warm_poll(runtime));
    poll_leaves(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 2 * count);
}

/* A capture is over when it ends, fails to begin, or its stream retires. */
WT_TEST(test_B7_nothing_stays_announced)
{
    warm_graph graph = NULL;
    warm_stream brief;

    wt_ok(warm_capture_begin(runtime, stream));
    ck_assert_uint_eq(captures(), 1);
    wt_fails(WARM_CAPTURE_ERROR, warm_capture_begin(runtime, stream));
    wt_fails(WARM_CAPTURE_ERROR, warm_stream_adopt(runtime, stream));
    ck_assert_uint_eq(captures(), 1);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_uint_eq(captures(), 0);
    fail_call("capture_begin", 1, 0);
    wt_fails(WARM_DRIVER_ERROR, warm_capture_begin(runtime, stream));
    ck_assert_uint_eq(captures(), 0);
    wt_ok(warm_stream_create(runtime, 0, &brief));
    wt_ok(warm_capture_announce(runtime, brief));
    wt_ok(warm_stream_destroy(runtime, brief));
    ck_assert_uint_eq(captures(), 0);
}

/* The announcement was the program's, before a capture that could not
 * begin. */
WT_TEST(test_B7_failed_begin_leaves_what_was_announced_before)
{

    wt_ok(warm_capture_announce(runtime, stream));
    fail_call("capture_begin", 1, 0);
    wt_fails(WARM_DRIVER_ERROR, warm_capture_begin(runtime, stream));
    ck_assert_uint_eq(captures(), 1);
    wt_ok(warm_capture_announce_end(runtime, stream));
    ck_assert_uint_eq(captures(), 0);
}

/* The capture ends while its announcement closes a batch of another stream: the
 * announcement keeps the timeline, which nothing else uses, until it has waited
 * for all callers. */
static warm_stream announced;
static size_t counted;

static warm_status end_and_mark(wm_driver *d, warm_event event, warm_stream s,
                                wm_capture *capture)
{
    d->ops = real;
    wt_ok(warm_capture_announce_end(runtime, announced));
    counted = timelines()->count;
    return real->event_mark(d, event, s, capture);
}

WT_TEST(test_B7_a_capture_ends_while_it_is_announced)
{
    enum { ADOPTED = 64 }; /* with as many an idle timeline is freed */
    warm_stream other;
    size_t before;

    for (int i = 0; i < ADOPTED; i++) {
        wt_ok(warm_stream_create(runtime, 0, &other));
    }
    make_stream(&announced);
    wt_free_used(take(), stream);
    before = timelines()->count;
    replace_ops();
    ops.event_mark = end_and_mark;
    wt_ok(warm_capture_announce(runtime, announced));
    ck_assert_ptr_eq(runtime->driver->ops, real);
    ck_assert_uint_eq(counted, before + 1);
    ck_assert_uint_eq(timelines()->count, before);
    ck_assert_uint_eq(captures(), 0);
    destroy_unannounced(announced);
    poll_leaves(0);
}

/* The default streams of all threads have one name: the end of a capture
 * finds the one that was announced. */
struct of_thread {
    void *block;
    warm_status status;
};

static void *record_per_thread(void *argument)
{
    struct of_thread *of = argument;

    of->status = warm_record_stream(of->block, WARM_STREAM_PER_THREAD);
    if (of->status == WARM_OK) {
        of->status = warm_free(of->block);
    }
    return NULL;
}

WT_TEST(test_B7_the_end_of_a_capture_finds_the_stream_that_was_announced)
{

    for (int i = 0; i < 40; i++) {
        struct of_thread of = {.block = take()};
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, record_per_thread, &of),
                         0);
        pthread_join(thread, NULL);
        wt_ok(of.status);
    }
    wt_ok(warm_poll(runtime));
    wt_ok(warm_capture_announce(runtime, WARM_STREAM_PER_THREAD));
    ck_assert_uint_eq(captures(), 1);
    wt_ok(warm_capture_announce_end(runtime, WARM_STREAM_PER_THREAD));
    ck_assert_uint_eq(captures(), 0);
}

/* ---- the driver fails -------------------------------------------------- */

/* If the event of a batch cannot be recorded, the stream is waited for. */
WT_LOOP_TEST(test_B4_a_batch_without_an_event_waits_for_its_stream, 2)
{
    uint64_t waits = wt_calls(runtime, "stream_synchronize");

    fail_call(_i == 0 ? "event_mark" : "event_create", 1, 0);
    free_many(COUNT, stream);
    ck_assert_uint_eq(wt_calls(runtime, "stream_synchronize"), waits + 1);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    ck_assert_uint_eq(events_out(), 0);
}

/* A poll while the stream is waited for finds nothing in the timeline, and
 * takes it off the busy list; when the wait is over nothing is left to poll. */
static warm_status poll_and_wait(wm_driver *d, warm_stream s)
{
    d->ops = real;
    wt_ok(warm_poll(runtime));
    return real->stream_synchronize(d, s);
}

WT_TEST(test_a_batch_that_was_waited_for_leaves_nothing_to_poll)
{
    replace_ops();
    ops.stream_synchronize = poll_and_wait;
    fail_call("event_mark", 1, 0);
    free_many(COUNT, stream);
    ck_assert_ptr_eq(runtime->driver->ops, real);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wm_timelines_busy(timelines()), 0);
}

WT_TEST(test_B4_a_batch_is_lost_when_waiting_fails_as_well)
{
    lines = 0;
    warm_log_set(hear, NULL);
    wt_fails(WARM_INVALID_POINTER, warm_free(&lines));
    fail_call("event_mark", 1, 0);
    fail_call("stream_synchronize", 1, 0);
    free_many(COUNT, stream);
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, COUNT);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost_bytes, COUNT * BYTES);
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "not allocated"));
}

/* If the driver fails for one of its streams the block is lost; the event
 * of the other stream is put back, and the reference to it dropped. */
WT_TEST(test_a_lost_block_keeps_no_event)
{
    warm_stream pair[2];
    void *block = take();

    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_create(runtime, 0, &pair[i]));
        wt_ok(warm_stream_retire(runtime, pair[i]));
        wt_ok(warm_record_stream(block, pair[i]));
    }
    fail_call("event_mark", 2, 0);
    fail_call("stream_synchronize", 1, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(events_out(), 0);
}

/* If the query of the stream fails, the batch gets an event. */
WT_TEST(test_B4_a_failed_question_records_an_event)
{
    wt_free_used(take(), stream);
    fail_call("stream_passed", 1, 0);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 1);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

/* Failures are counted by batch: those of one batch do not count for the
 * next. */
WT_TEST(test_each_batch_may_fail_to_answer_twice)
{
    wt_stop(runtime, stream);
    free_many(2 * COUNT, stream);
    wt_go(runtime, stream);
    for (int i = 0; i < 2; i++) {
        fail_call("event_passed", 1, 0);
        poll_leaves(2 * COUNT);
    }
    fail_call("event_passed", 2, 0); /* the second batch's first */
    poll_leaves(COUNT);
    poll_leaves(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

/* More work is queued, and more blocks are freed, after the driver said
 * that the stream is idle and before its queue is taken. */
static warm_status pass_and_go_on(wm_driver *d, warm_stream s,
                                  wm_capture *capture)
{
    warm_status status = real->stream_passed(d, s, capture);

    d->ops = real;
    wt_stop(runtime, s);
    free_many(COUNT, s);
    return status;
}

WT_TEST(test_an_idle_stream_says_nothing_of_what_comes_later)
{
    wt_stop(runtime, stream);
    free_many(COUNT, stream);
    wt_go(runtime, stream);
    wt_free_used(take(), stream);
    replace_ops();
    ops.stream_passed = pass_and_go_on;
    wt_ok(warm_poll(runtime));
    ck_assert_ptr_eq(runtime->driver->ops, real);
    ck_assert_uint_eq(pending(), COUNT);
    go_and_poll(stream);
}
