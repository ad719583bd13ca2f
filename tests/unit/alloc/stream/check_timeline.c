/* check_timeline.c: frees with streams if the driver fails, streams are
 * destroyed or their addresses are used again (rows B4 to B6). Host device,
 * whose streams the test drives step by step. The streams are not adopted
 * (check_batch.c has the adopted ones). */
/* memcheck: one process */
#include "stream_bed.h"

#include "alloc/block/page_map.h"
#include "wt_economy.h"

static void setup(void)
{
    warm_options options = {.size = sizeof options, .device = "host"};

    runtime = wt_runtime(&options);
    make_stream(&stream);
}

static void teardown(void)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_space_stats last = wt_pinned_stats(runtime);

    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 0);
    ck_assert_uint_eq(report.captured, last.captured);
    ck_assert_uint_eq(report.captured_bytes, last.captured_bytes);
}

static const char *const record_calls[] = {"event_create", "event_mark"};

WT_CASE("timeline", .setup = setup, .teardown = teardown);

/* If no event can be recorded, the stream is waited for. */
WT_LOOP_TEST(test_B4_failed_record_waits_for_the_stream, 2)
{
    void *block = take();
    uint64_t waits = wt_calls(runtime, "stream_synchronize");

    wt_ok(warm_record_stream(block, stream));
    fail_call(record_calls[_i], 1, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_calls(runtime, "stream_synchronize"), waits + 1);
    ck_assert_uint_eq(events_out(), 0);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    ck_assert_ptr_eq(take(), block);
    wt_ok(warm_free(block));
}

WT_LOOP_TEST(test_B4_block_is_lost_when_waiting_fails_as_well, 2)
{
    void *block = take();
    void *next;

    wt_ok(warm_record_stream(block, stream));
    fail_call(record_calls[_i], 1, 1);
    fail_call("stream_synchronize", 1, 0);
    wt_ok(warm_free(block));
    fail_call(record_calls[_i], 0, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost_bytes, 106496);
    ck_assert_ptr_ne(next = take(), block);
    wt_fails(WARM_INVALID_POINTER, warm_free(block));
    wt_ok(warm_free(next));
}

WT_TEST(test_B4_failed_query_is_asked_again)
{
    wt_free_used(take(), stream);
    wt_ok(warm_stream_synchronize(runtime, stream));
    fail_call("event_passed", 1, 0);
    poll_leaves(1);
    poll_leaves(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

WT_TEST(test_B4_query_that_always_fails_loses_the_block)
{
    void *block = take();
    void *next;

    wt_free_used(block, stream);
    fail_call("event_passed", 1, 1);
    for (int i = 0; i < 10; i++) {
        wt_ok(warm_poll(runtime));
    }
    fail_call("event_passed", 0, 0);
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_ptr_ne(next = take(), block);
    wt_ok(warm_free(next));
}

/* Failed queries, with an answer between any two of them. */
WT_TEST(test_B4_failures_count_in_a_row_only)
{
    wt_ok(warm_testing_hold(runtime, stream));
    wt_free_used(take(), stream);
    for (int i = 0; i < 5; i++) {
        fail_call("event_passed", 1, 0);
        wt_ok(warm_poll(runtime));
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    go_and_poll(stream);
}

/* ---- several threads poll --------------------------------------------- */

/* What a replaced call and the other threads tell each other. */
static struct {
    _Atomic bool asked, open, done;
    _Atomic unsigned queries;
} slow;

static void replace_slow(void)
{
    memset(&slow, 0, sizeof slow); /* tests may share a process */
    replace_ops();
}

/* The first event query returns late. */
static warm_status slow_query(wm_driver *d, warm_event event)
{
    warm_status status = real->event_passed(d, event);

    if (atomic_fetch_add(&slow.queries, 1) == 0) {
        atomic_store(&slow.asked, true);
        await_flag(&slow.open);
    }
    return status;
}

static void poll_both(void *argument, unsigned index)
{
    warm_status *status = argument;
    wt_linger linger = {0};

    if (index == 0) {
        status[0] = warm_poll(runtime);
        return;
    }
    if (index == 2) {
        /* The second poll returns too early, or waits for the first. */
        while (wt_lingers(&linger) && !atomic_load(&slow.done)) {
        }
        atomic_store(&slow.open, true);
        return;
    }
    await_flag(&slow.asked);
    status[1] = warm_testing_resume(runtime, stream);
    if (status[1] == WARM_OK) {
        status[1] = warm_stream_synchronize(runtime, stream);
    }
    if (status[1] == WARM_OK) {
        status[1] = warm_poll(runtime);
    }
    atomic_store(&slow.done, true);
}

/* A poll collects what completed before its call, although another thread
 * polls, and its query came before that. */
WT_TEST(test_B4_B12_poll_beside_a_slow_one_takes_back_what_has_passed)
{
    warm_status status[3] = {WARM_OK, WARM_OK, WARM_OK};

    wt_ok(warm_testing_hold(runtime, stream));
    wt_free_used(take(), stream);
    replace_slow();
    ops.event_passed = slow_query;
    wt_threads(3, poll_both, status);
    restore_ops();
    wt_ok(status[0]);
    wt_ok(status[1]);
    ck_assert_uint_eq(pending(), 0);
}

/* ---- many streams ------------------------------------------------------ */

enum { CROWD = 3 * WM_POLLS_LEAST };
static warm_stream many[CROWD];

static uint64_t queries_of(void (*poll)(wm_timelines *set))
{
    uint64_t before = wt_calls(runtime, "event_passed");

    poll(timelines());
    return wt_calls(runtime, "event_passed") - before;
}

/* Streams that complete nothing, each with a pending block. */
static void begin_many(void)
{
    for (int i = 0; i < CROWD; i++) {
        make_stream(&many[i]);
        wt_stop(runtime, many[i]);
        wt_free_used(take(), many[i]);
    }
    wm_timelines_poll_due(timelines()); /* forgets that they were recorded */
}

static void end_many(void)
{
    for (int i = 0; i < CROWD; i++) {
        wt_go(runtime, many[i]);
    }
    poll_leaves(0);
    for (int i = 0; i < CROWD; i++) {
        destroy_unannounced(many[i]);
    }
}

/* Of many streams few are queried if few events were recorded, all of them in
 * turn; a full poll queries every one. */
WT_TEST(test_B25_streams_are_polled_in_turn_as_events_are_recorded)
{
    begin_many();
    ck_assert_uint_eq(pending(), CROWD);
    ck_assert_uint_eq(queries_of(wm_timelines_poll_queued), CROWD);
    ck_assert_uint_eq(queries_of(wm_timelines_poll_due), WM_POLLS_LEAST);
    free_many(20, many[0]);
    ck_assert_uint_eq(queries_of(wm_timelines_poll_due), WM_POLLS_LEAST + 10);
    ck_assert_uint_eq(queries_of(wm_timelines_poll_due), WM_POLLS_LEAST);
    ck_assert_uint_eq(pending(), CROWD + 20);
    for (int i = 0; i < CROWD; i++) {
        wt_go(runtime, many[i]);
    }
    for (int i = 0; i < CROWD / WM_POLLS_LEAST; i++) {
        wm_timelines_poll_due(timelines());
    }
    ck_assert_uint_eq(pending(), 0);
    end_many();
}

/* With many streams a round queries one batch of each, though all have
 * completed. */
WT_TEST(test_B25_a_round_queries_the_oldest_batch_of_each_of_many_streams)
{
    uint64_t queries;

    begin_many();
    wt_free_used(take(), many[0]);
    wm_timelines_poll_queued(timelines()); /* its batch is closed */
    wt_go(runtime, many[0]);
    queries = wt_calls(runtime, "event_passed");
    for (uint64_t round = 1; round <= 2; round++) {
        wm_timelines_poll_some(timelines(), CROWD, round);
        ck_assert_uint_eq(pending(), CROWD + 1 - round);
    }
    queries = wt_calls(runtime, "event_passed") - queries;
    ck_assert_uint_eq(queries, 2 * CROWD);
    end_many();
}

/* A miss queries few of them while growth is free, and every one beyond the
 * bound: then it finds the block that has completed. */
WT_TEST(test_B25_a_miss_polls_every_stream_beyond_the_bound)
{
    wm_arena_group *group = &runtime->pinned->space.group;
    void *large = wt_pinned(runtime, (size_t)8 << 20), *other;
    uint64_t obtained, before;

    wt_ok(warm_record_stream(large, stream));
    wt_stop(runtime, stream);
    wt_ok(warm_free(large));
    begin_many();
    obtained = wt_pinned_stats(runtime).driver_alloc.count;
    wt_peak_at(group, (size_t)1 << 30);
    before = wt_calls(runtime, "event_passed");
    other = wt_pinned(runtime, (size_t)8 << 20);
    ck_assert_uint_lt(wt_calls(runtime, "event_passed") - before, CROWD);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count,
                      obtained + 1);
    wt_go(runtime, stream);
    wt_peak_at(group, 0);
    before = wt_calls(runtime, "event_passed");
    ck_assert_ptr_eq(wt_pinned(runtime, (size_t)8 << 20), large);
    ck_assert_uint_ge(wt_calls(runtime, "event_passed") - before, CROWD);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count,
                      obtained + 1);
    wt_free(large, other);
    end_many();
}

/* Nor is a request refused while the block of a stream that was not polled
 * would do. */
WT_TEST(test_B12_C2_a_refused_miss_polls_every_stream)
{
    void *large = wt_pinned(runtime, (size_t)8 << 20), *again = NULL;

    wt_ok(warm_record_stream(large, stream));
    wt_stop(runtime, stream);
    wt_ok(warm_free(large));
    begin_many();
    wm_timelines_poll_queued(timelines()); /* none is new */
    /* It is polled last from now on. */
    for (int i = 0; timelines()->busy_tail->stream != stream; i++) {
        ck_assert_int_lt(i, CROWD + 1);
        wm_timelines_poll_some(timelines(), 1, 1000 + (unsigned)i);
    }
    wt_peak_at(&runtime->pinned->space.group, (size_t)1 << 30);
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST,
                              wt_pinned_stats(runtime).held_bytes.current, 0));
    wt_go(runtime, stream);
    wt_ok(warm_pinned_alloc(runtime, (size_t)8 << 20, &again));
    ck_assert_ptr_eq(again, large);
    wt_ok(warm_free(again));
    end_many();
}

/* ---- a stream is retired while a block of it is freed ------------------ */

static struct {
    warm_stream stream;
    void *block;
    bool retires_first;
    _Atomic bool gone;
    warm_status freed, retired;
} meeting;

/* The first thread that records waits until the other one records or has
 * finished; the second until the stream is destroyed; both for a while at
 * most. */
static warm_status slow_mark(wm_driver *d, warm_event event, warm_stream s,
                             wm_capture *capture)
{
    unsigned n = atomic_fetch_add(&slow.queries, 1);
    _Atomic bool *until = n == 0 ? &slow.done : &meeting.gone;
    wt_linger linger = {0};

    atomic_store(&slow.asked, true);
    while (wt_lingers(&linger) && !atomic_load(until) &&
           (n > 0 || atomic_load(&slow.queries) == 1)) {
    }
    return real->event_mark(d, event, s, capture);
}

static void meet(void *argument, unsigned index)
{
    (void)argument;
    if (index == 1) {
        await_flag(&slow.asked);
    }
    if (meeting.retires_first == (index == 0)) {
        meeting.retired = warm_stream_destroy(runtime, meeting.stream);
        atomic_store(&meeting.gone, true);
    } else {
        meeting.freed = warm_free(meeting.block);
    }
    if (index == 1) {
        atomic_store(&slow.done, true);
    }
}

/* In either order no stream is named to the driver after its end, and no
 * block is lost. */
WT_LOOP_TEST(test_B6_retire_and_free_of_one_stream_at_once, 2)
{
    memset(&meeting, 0, sizeof meeting);
    meeting.block = take();
    meeting.retires_first = _i != 0;
    make_stream(&meeting.stream);
    wt_ok(warm_record_stream(meeting.block, meeting.stream));
    replace_slow();
    ops.event_mark = slow_mark;
    wt_threads(2, meet, NULL);
    restore_ops();
    wt_ok(meeting.freed);
    wt_ok(meeting.retired);
    while (pending() != 0) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

/* ---- a capture begins while a thread closes a batch ---------------------- */

static void announce_meanwhile(void *argument, unsigned index)
{
    warm_status *status = argument;
    wt_linger linger = {0};

    if (index == 0) {
        status[0] = warm_poll(runtime);
        return;
    }
    await_flag(&slow.asked);
    if (index == 2) {
        /* The capture has begun too early, or waits for the event. */
        await_flag(&meeting.gone);
        while (wt_lingers(&linger) && !atomic_load(&slow.done)) {
        }
        atomic_store(&slow.open, true);
        return;
    }
    atomic_store(&meeting.gone, true);
    status[1] = warm_capture_announce(runtime, stream);
    if (status[1] == WARM_OK) {
        status[1] = wm_driver_capture_begin(runtime->driver, stream);
    }
    atomic_store(&slow.done, true);
    await_flag(&slow.open);
    if (status[1] == WARM_OK) {
        warm_graph graph = NULL;

        status[1] = warm_capture_end(runtime, stream, &graph);
        (void)warm_graph_destroy(runtime, graph);
    }
}

static warm_status mark_late(wm_driver *d, warm_event event, warm_stream s,
                             wm_capture *capture)
{
    atomic_store(&slow.asked, true);
    await_flag(&slow.open);
    return real->event_mark(d, event, s, capture);
}

/* Blocks that were freed before a capture are not retained, whichever
 * thread records their event. */
WT_TEST(test_B7_capture_waits_for_a_batch_that_is_being_closed)
{
    warm_status status[3] = {WARM_OK, WARM_OK, WARM_OK};

    memset(&meeting, 0, sizeof meeting);
    wt_ok(warm_stream_adopt(runtime, stream));
    wt_stop(runtime, stream);
    wt_free_used(take(), stream);
    replace_slow();
    ops.event_mark = mark_late;
    wt_threads(3, announce_meanwhile, status);
    restore_ops();
    wt_ok(status[0]);
    wt_ok(status[1]);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 0);
    go_and_poll(stream);
}

/* The use of a default stream gets an event when it is recorded; more work
 * may be queued before the stream is retired. */
WT_TEST(test_B6_final_event_is_later_than_that_of_a_record)
{
    void *block = take();

    wt_ok(warm_record_stream(block, NULL));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_ok(warm_testing_hold(runtime, NULL));
    wt_ok(warm_stream_retire(runtime, NULL));
    wt_ok(warm_free(block));
    poll_leaves(1);
    go_and_poll(NULL);
}

/* No event is recorded into the capture; the block is lost. */
WT_TEST(test_B6_B7_stream_retired_while_it_captures)
{
    void *block = take();
    warm_graph graph = NULL;

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_stream_retire(runtime, stream));
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(events_out(), 0); /* it was refused */
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
}

static uint64_t deferred_of(warm_stream s)
{
    uint64_t deferred = 0;
    wm_timeline *t = NULL;

    while ((t = wm_timeline_next_named_locked(timelines(), s, t)) != NULL) {
        deferred += atomic_load(&t->deferred);
    }
    return deferred;
}

/* A block waits for the end of one stream's capture, but the driver fails for
 * its other stream: it is lost, and waits for nothing. The first stream may be
 * destroyed, and is not queried any more. */
WT_LOOP_TEST(test_B6_B7_a_lost_block_waits_for_no_capture, 2)
{
    void *block = take();
    warm_graph graph = NULL;
    warm_stream other;

    make_stream(&other);
    wt_ok(warm_record_stream(block, _i == 0 ? stream : other));
    wt_ok(warm_record_stream(block, _i == 0 ? other : stream));
    wt_ok(wm_driver_capture_begin(runtime->driver, stream));
    fail_call("event_mark", 1, 1);
    fail_call("stream_synchronize", 1, 1);
    wt_ok(warm_free(block));
    fail_call("event_mark", 0, 0);
    fail_call("stream_synchronize", 0, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_uint_eq(deferred_of(stream), 0);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    destroy_unannounced(other);
}

/* ---- the end ---------------------------------------------------------- */

/* The timeline where a walk stands leaves the tables, and then the next one:
 * the walk goes on in the tables, and by name misses none. */
WT_LOOP_TEST(test_a_walk_goes_on_when_its_timeline_has_left_the_tables, 2)
{
    enum { MANY = 4 * WM_TIMELINE_BUCKETS };
    wm_timelines *set = timelines();
    wm_timeline *t[MANY], *at = NULL, *next;
    unsigned named = 0;

    for (uint64_t i = 0; i < MANY; i++) {
        t[i] =
            wm_timeline_get(set, &set, &(wm_stream_info){.id = (1 << 20) + i});
        ck_assert_ptr_nonnull(t[i]);
        if (i >= WM_TIMELINE_BUCKETS && t[i]->next_by_id != NULL) {
            at = t[i];
        }
    }
    ck_assert_ptr_nonnull(at);
    ck_assert(wm_timelines_check(set));
    wm_lock_acquire(&set->lock);
    next = _i == 0 ? at->next_by_id : at->next_by_name;
    wm_timeline_remove_locked(set, at);
    wm_timeline_remove_locked(set, next);
    if (_i == 0) {
        for (wm_timeline *n = wm_timeline_next_locked(set, at); n != NULL;
             n = wm_timeline_next_locked(set, n)) {
            ck_assert(n->in_table);
        }
    } else {
        for (wm_timeline *n = wm_timeline_next_named_locked(set, &set, at);
             n != NULL; n = wm_timeline_next_named_locked(set, &set, n)) {
            ck_assert(n->in_table);
            named++;
        }
        ck_assert_uint_eq(named, MANY - 2);
    }
    wm_lock_release(&set->lock);
    for (unsigned i = 0; i < MANY; i++) {
        wm_timeline_drop(set, t[i]);
    }
}

/* Blocks with uses of two streams, some freed and some not: all records are
 * freed. */
WT_TEST(test_G2_runtime_ends_with_live_and_pending_blocks)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_destroy_report report = {.size = sizeof report};
    warm_runtime *first = runtime;
    int64_t records = wm_meta_live();
    warm_stream pair[2];
    void *block[6];

    runtime = wt_runtime(&options);
    for (int i = 0; i < 2; i++) {
        make_stream(&pair[i]);
        wt_ok(warm_testing_hold(runtime, pair[i]));
    }
    for (int i = 0; i < 6; i++) {
        block[i] = take();
        wt_ok(warm_record_stream(block[i], pair[0]));
        wt_ok(warm_record_stream(block[i], pair[1]));
        wt_ok(warm_record_stream(block[i], NULL));
    }
    wt_free(block[0], block[1]);
    wt_ok(warm_stream_destroy(runtime, pair[1]));
    wt_ok(warm_free(block[2]));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 3);
    ck_assert_uint_eq(report.pending, 3);
    runtime = first;
    /* The body of the runtime is never freed, nor the list of what forked
     * children do not get, while there is some: it may have been there. */
    ck_assert_int_ge(wm_meta_live(), records + 1);
    ck_assert_int_le(wm_meta_live(), records + 2);
}

/* ---- nothing may be recorded for a while ------------------------------ */

static warm_status say_blocked(wm_driver *d, warm_stream s,
                               wm_stream_info *info)
{
    warm_status status = real->stream_info(d, s, info);

    info->capture = WM_CAPTURE_BLOCKED;
    return status;
}

/* Another stream's capture blocks this one: the event is recorded after
 * that capture, and waited for. */
WT_LOOP_TEST(test_B7_blocked_stream_is_recorded_on_later, 2)
{
    warm_stream used = _i == 0 ? NULL : stream;
    uint64_t records;

    replace_slow();
    ops.stream_info = say_blocked;
    records = wt_calls(runtime, "event_mark");
    wt_free_used(take(), used);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), records);
    ck_assert_uint_eq(pending(), 1);
    ops.stream_info = real->stream_info;
    wt_ok(warm_testing_hold(runtime, used));
    wt_ok(warm_poll(runtime));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), records + 1);
    ck_assert_uint_eq(pending(), 1);
    go_and_poll(used);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

static warm_status mark_blocked(wm_driver *d, warm_event event, warm_stream s,
                                wm_capture *capture)
{
    (void)d;
    (void)event;
    (void)s;
    *capture = WM_CAPTURE_BLOCKED;
    return WARM_OK;
}

static warm_status capture_blocks(wm_driver *d, warm_stream s,
                                  wm_capture *capture)
{
    (void)d;
    (void)s;
    *capture = WM_CAPTURE_BLOCKED;
    return WARM_OK;
}

/* A capture blocks the stream between the query of the stream and the
 * event: the event of the record would be too early. Or the event fails, and
 * the stream cannot be waited for. */
WT_LOOP_TEST(test_B4_B7_stream_that_is_blocked_meanwhile_is_recorded_on_later,
             2)
{
    void *block = take();

    replace_ops();
    wt_ok(warm_record_stream(block, NULL));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    ops.event_mark = mark_blocked;
    ops.stream_capture = capture_blocks;
    fail_call("event_mark", (uint64_t)_i, 0);
    wt_ok(warm_free(block));
    poll_leaves(1);
    ops.stream_capture = real->stream_capture;
    ops.event_mark = real->event_mark;
    wt_ok(warm_testing_hold(runtime, NULL));
    wt_ok(warm_poll(runtime));
    poll_leaves(1);
    go_and_poll(NULL);
}

static void *poll_twice(void *status)
{
    warm_status *of = status;

    *of = warm_poll(runtime);
    if (*of == WARM_OK) {
        *of = warm_poll(runtime);
    }
    return NULL;
}

/* The polling thread's own default stream has the same name: no event is
 * recorded there. */
WT_TEST(test_B7_unrecorded_use_is_recorded_on_its_own_stream)
{
    warm_status status = WARM_INVALID_ARGUMENT;
    pthread_t thread;
    uint64_t records;

    replace_slow();
    ops.stream_info = say_blocked;
    wt_free_used(take(), WARM_STREAM_PER_THREAD);
    ops.stream_info = real->stream_info;
    wt_ok(warm_testing_hold(runtime, WARM_STREAM_PER_THREAD));
    records = wt_calls(runtime, "event_mark");
    pthread_create(&thread, NULL, poll_twice, &status);
    pthread_join(thread, NULL);
    wt_ok(status);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), records);
    ck_assert_uint_eq(pending(), 1);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), records + 1);
    ck_assert_uint_eq(pending(), 1);
    go_and_poll(WARM_STREAM_PER_THREAD);
}

/* The stream is retired before the event of the use was recorded: its final
 * event counts. */
WT_TEST(test_B6_B7_final_event_stands_for_an_unrecorded_use)
{
    warm_stream brief;
    void *block = take();

    make_stream(&brief);
    wt_ok(warm_record_stream(block, brief));
    replace_slow();
    ops.stream_info = say_blocked;
    wt_ok(warm_free(block));
    ops.stream_info = real->stream_info;
    wt_ok(warm_testing_hold(runtime, brief));
    wt_ok(warm_stream_retire(runtime, brief));
    poll_leaves(1);
    go_and_poll(brief);
    destroy_unannounced(brief);
}

struct other_use {
    void *block;
    warm_stream stream;
    warm_status status;
};

static void free_it(void *argument, unsigned index)
{
    struct other_use *use = argument;

    (void)index;
    use->status = warm_free(use->block);
}

/* If a default stream is recorded again, work that was queued in between is
 * waited for, also if another thread frees the block, whose default stream is
 * another one. */
WT_TEST(test_B4_C4_default_stream_recorded_again_is_the_later_point)
{
    warm_stream defaults = WARM_STREAM_PER_THREAD;
    void *block = take();
    struct other_use use = {block, defaults, WARM_NOT_FOUND};
    wt_gate *gate;

    wt_ok(warm_record_stream(block, defaults));
    gate = wt_gate_close(runtime, defaults);
    wt_ok(warm_record_stream(block, defaults));
    wt_threads(1, free_it, &use);
    wt_ok(use.status);
    poll_leaves(1);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, defaults));
    poll_leaves(0);
}

static void record_other(void *argument, unsigned index)
{
    struct other_use *use = argument;

    (void)index;
    use->status = warm_record_stream(use->block, use->stream);
}

/* Two threads recorded streams, and the free has no memory for uses: both
 * streams are waited for, or the block is lost if a wait fails. */
WT_LOOP_TEST(test_B4_C4_streams_that_cannot_be_kept_in_mind_are_waited_for, 2)
{
    struct other_use use = {NULL, NULL, WARM_NOT_FOUND};
    bool fails = _i != 0;
    uint64_t waits;

    wt_ok(warm_free(take()));
    use.block = take(); /* from the thread's own */
    make_stream(&use.stream);
    wt_ok(warm_stream_adopt(runtime, stream));
    wt_ok(warm_record_stream(use.block, stream));
    ck_assert_ptr_nonnull(wm_block_at(use.block)->owner_stream);
    wt_threads(1, record_other, &use);
    wt_ok(use.status);
    if (fails) {
        fail_call("stream_synchronize", 1, 0);
    }
    waits = wt_calls(runtime, "stream_synchronize");
    wm_meta_fail(1, true);
    wt_ok(warm_free(use.block));
    wm_meta_fail(0, false);
    waits = wt_calls(runtime, "stream_synchronize") - waits;
    ck_assert_uint_eq(waits, fails ? 1 : 2);
    fail_call("stream_synchronize", 0, 0);
    wt_ok(warm_stream_synchronize(runtime, use.stream));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, fails);
    ck_assert_uint_eq(pending(), 0);
    wt_ok(warm_stream_destroy(runtime, use.stream));
}

/* ---- the log callback comes back in ----------------------------------- */

static void *freed_by_log;

static void free_from_log(void *context, warm_log_level level, const char *line)
{
    void *block = freed_by_log;
    void *more = NULL;

    hear(context, level, line);
    freed_by_log = NULL;
    if (block != NULL) {
        wt_ok(warm_free(block));
        wt_ok(warm_pinned_alloc(runtime, (size_t)16 << 20, &more));
        wt_ok(warm_free(more));
    }
}

/* The log frees block, or null. */
static void hear_and_free(void *block)
{
    lines = 0;
    freed_by_log = block;
    warm_log_set(free_from_log, NULL);
}

WT_TEST(test_B6_log_of_a_failed_retire_may_free_its_blocks)
{
    warm_stream brief;
    void *block = take();

    make_stream(&brief);
    wt_ok(warm_record_stream(block, brief));
    hear_and_free(block);
    fail_call("event_mark", 1, 0);
    fail_call("stream_synchronize", 1, 0);
    wt_ok(warm_stream_destroy(runtime, brief));
    warm_log_set(NULL, NULL);
    ck_assert_ptr_nonnull(strstr(last_line, "leaked"));
    ck_assert_uint_eq(lines, 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
}

/* Logged once, while no thread waits for the logging thread. */
WT_TEST(test_B4_block_lost_by_polling_is_said_once)
{
    void *block = take(), *other = take();

    wt_free_used(block, stream);
    hear_and_free(other);
    fail_call("event_passed", 1, 1);
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_poll(runtime));
    }
    fail_call("event_passed", 0, 0);
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last_line, "leaked"));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
}

/* The log names the segment that stays with the block. */
WT_TEST(test_B4_B7_block_of_a_capture_is_said_with_its_segment)
{
    void *block[2] = {take(), take()};
    warm_graph graph = NULL;

    hear_and_free(NULL);
    wt_ok(warm_capture_begin(runtime, stream));
    for (int i = 0; i < 2; i++) {
        wt_free_used(block[i], stream);
    }
    wt_ok(warm_capture_end(runtime, stream, &graph));
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(lines, 1);
    ck_assert_ptr_nonnull(strstr(last_line, "a graph capture used it"));
    ck_assert_ptr_nonnull(strstr(last_line, "and its segment of 4.0 MiB"));
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 2);
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* A success leaves the last error as it was, although the driver failed. */
WT_TEST(test_G6_recovered_failures_leave_no_error)
{
    warm_stream brief;
    void *block = take();
    void *other = take();

    make_stream(&brief);
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_record_stream(other, brief));
    wt_fails(WARM_INVALID_POINTER, warm_free((char *)block + 1));
    fail_call("event_mark", 1, 0);
    wt_ok(warm_free(block));
    wt_says("not the start");
    fail_call("event_mark", 1, 0);
    wt_ok(warm_stream_destroy(runtime, brief));
    wt_says("not the start");
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    wt_ok(warm_free(other));
    wt_ok(warm_poll(runtime));
}

WT_TEST(test_B6_block_of_a_stream_that_vanished_is_kept)
{
    warm_stream brief;
    void *block = take();

    make_stream(&brief);
    wt_ok(warm_record_stream(block, brief));
    destroy_unannounced(brief);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
}

/* A new stream at a destroyed one's address is another stream: its events
 * do not cover the old one's work. */
WT_TEST(test_B6_address_that_returns_is_another_stream)
{
    warm_stream first, second;
    wm_stream_info info = {0}, again = {0};
    void *block = take();

    make_stream(&first);
    wt_ok(wm_driver_stream_info(runtime->driver, first, &info));
    wt_ok(warm_record_stream(block, first));
    destroy_unannounced(first);
    second = make_again(first, false);
    wt_ok(wm_driver_stream_info(runtime->driver, second, &again));
    ck_assert_uint_ne(info.id, again.id);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_uint_eq(pending(), 0);
}

WT_TEST(test_B6_retired_stream_is_never_named_again)
{
    warm_stream brief;
    void *block = take();

    make_stream(&brief);
    wt_ok(warm_testing_hold(runtime, brief));
    wt_ok(warm_record_stream(block, brief));
    wt_ok(warm_stream_retire(runtime, brief));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    wt_ok(warm_free(block));
    poll_leaves(1);
    wt_go(runtime, brief);
    destroy_unannounced(brief);
    poll_leaves(0);
}

WT_TEST(test_B6_retire_that_cannot_record_waits)
{
    warm_stream brief;
    void *block = take();

    make_stream(&brief);
    wt_ok(warm_record_stream(block, brief));
    fail_call("event_mark", 1, 0);
    wt_ok(warm_stream_destroy(runtime, brief));
    wt_ok(warm_free(block));
    poll_leaves(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

WT_TEST(test_B6_retire_that_fails_keeps_its_blocks)
{
    warm_stream brief;
    void *block = take();

    make_stream(&brief);
    wt_ok(warm_record_stream(block, brief));
    fail_call("event_mark", 1, 1);
    fail_call("stream_synchronize", 1, 1);
    wt_ok(warm_stream_destroy(runtime, brief));
    fail_call("event_mark", 0, 0);
    fail_call("stream_synchronize", 0, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
}

/* RMM's map of streams grows with every stream ever seen (PEERS §1f). */
WT_TEST(test_B6_streams_that_are_gone_leave_nothing_behind)
{
    wm_event_counts events;

    for (int i = 0; i < 1000; i++) {
        warm_stream brief;
        void *block = take();

        make_stream(&brief);
        wt_free_used(block, brief);
        wt_ok(warm_stream_synchronize(runtime, brief));
        if (i % 2 == 0) {
            wt_ok(warm_stream_destroy(runtime, brief));
        } else {
            destroy_unannounced(brief);
        }
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(pending(), 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 1);
    ck_assert_uint_le(runtime->pinned->timelines.count, 64);
    wm_event_pool_counts(&runtime->pinned->events, 0, &events);
    ck_assert_uint_le(events.created, 4);
    ck_assert_uint_eq(events.out, 0);
}

WT_TEST(test_B4_refused_record_changes_nothing)
{
    void *block = take();
    warm_block_info info = {.size = sizeof info};

    fail_call("stream_info", 1, 0);
    wt_fails(WARM_DRIVER_ERROR, warm_record_stream(block, stream));
    wt_fails(WARM_INVALID_STREAM,
             warm_record_stream(block, (warm_stream)(uintptr_t)0xdead00));
    fail_call("event_mark", 1, 0);
    wt_fails(WARM_DRIVER_ERROR, warm_record_stream(block, NULL));
    wt_ok(warm_block_get_info(block, &info));
    ck_assert_uint_eq(info.streams, 0);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.allocated, 0);
}

/* The event of a default stream is recorded before the use gets its record: if
 * there is no memory for that, the event goes back. */
WT_TEST(test_B4_record_without_memory_keeps_no_event)
{
    void *block = take();

    wt_free_used(take(), NULL); /* the timeline is made */
    poll_leaves(0);
    wt_ok(warm_record_stream(block, stream));
    wm_meta_fail(1, false);
    wt_fails(WARM_OUT_OF_MEMORY, warm_record_stream(block, NULL));
    wm_meta_fail(0, false);
    ck_assert_uint_eq(wt_block_info(block).streams, 1);
    ck_assert_uint_eq(events_out(), 0);
    wt_ok(warm_record_stream(block, NULL));
    ck_assert_uint_eq(wt_block_info(block).streams, 2);
    wt_ok(warm_free(block));
    poll_leaves(0);
    ck_assert_uint_eq(events_out(), 0);
}

/* The event is recorded before the block is published: no thread sees an
 * older state of a reused event. */
WT_TEST(test_B4_reused_event_does_not_free_early)
{
    void *first = take();
    void *second;

    wt_free_used(first, stream);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
    second = take();
    wt_ok(warm_testing_hold(runtime, stream));
    wt_free_used(second, stream);
    poll_leaves(1);
    wt_ok(warm_testing_step(runtime, stream, 1));
    poll_leaves(0);
    wt_ok(warm_testing_resume(runtime, stream));
}
