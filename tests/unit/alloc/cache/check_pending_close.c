/* check_pending_close.c: batches that the freeing thread closes and polls in
 * its own slot (row B4), and how other threads get them nevertheless; and
 * streams recorded by several threads. Host device; the tests drive time and
 * streams. */
/* memcheck: one process */
#include "pending_bed.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"

enum { FULL = 10 };

static wm_magazine_set *mine(void)
{
    return atomic_load(&wm_window_mine()->magazines);
}

/* A whole batch, of which the last free closes it. */
static void fill(void)
{
    for (int i = 0; i < FULL; i++) {
        wt_free_used(take(), stream);
    }
}

static void set_up_steady(void)
{
    set_up();
    become_steady(FULL, 256);
}

/* ---- in the slot --------------------------------------------------------- */

WT_CASE("steady", .setup = set_up_steady, .teardown = tear_down);

/* Each batch has its event, and is asked for by the next one; more than there
 * is room for are in the timeline, in order. */
WT_LOOP_TEST(test_B4_closed_batches_stay_in_their_slot, 2)
{
    wm_pending_stream *slot = slot_of(stream);
    uint64_t marks = wt_calls(runtime, "event_mark");
    uint64_t asked = wt_calls(runtime, "event_passed");

    wt_stop(runtime, stream);
    for (unsigned i = 1; i <= WM_PENDING_CLOSED; i++) {
        now_ns++;
        wt_free_used(take(), stream);
        ck_assert(wm_cache_check(&runtime->pinned->space.group));
        for (int k = 1; k < FULL; k++) {
            wt_free_used(take(), stream);
        }
        ck_assert_uint_eq(slot->closed, i);
        ck_assert_uint_eq(batched_blocks(), i * FULL);
        ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + i);
        ck_assert_uint_le(wt_calls(runtime, "event_passed"), asked + i + 1);
        ck_assert_uint_eq(timeline_of(stream)->queued, 0);
        if (_i == 0) {
            check_pending((uint64_t)i * FULL);
        }
    }
    fill();
    ck_assert_uint_eq(slot->closed, 0);
    ck_assert_uint_eq(timeline_of(stream)->queued, WM_PENDING_CLOSED + 1);
    check_pending((WM_PENDING_CLOSED + 1) * FULL);
    check_references(stream, (WM_PENDING_CLOSED + 1) * FULL);
    pass_all();
    check_references(stream, 0);
}

/* Work that is over when the batch is full is not asked for again. */
WT_TEST(test_B4_a_full_batch_of_an_idle_stream_is_cached_at_once)
{
    uint64_t asked = wt_calls(runtime, "event_passed");

    fill();
    ck_assert_uint_eq(batched_blocks(), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_passed"), asked + 1);
    check_references(stream, 0);
}

WT_TEST(test_B4_a_full_batch_asks_for_older_ones_in_the_timeline)
{
    void *block[FULL];

    wt_stop(runtime, stream);
    fill();
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(timeline_of(stream)->queued, 1);
    for (int i = 0; i < FULL; i++) {
        block[i] = take();
    }
    wt_go(runtime, stream);
    for (int i = 0; i < FULL; i++) {
        wt_free_used(block[i], stream);
    }
    ck_assert_uint_eq(timeline_of(stream)->queued, 0);
    wt_ok(warm_poll(runtime));
    check_pending(0);
}

/* Its first block is freed at a time that is sampled (group.h), the next batch
 * is not. */
WT_TEST(test_G7_delay_of_a_batch_that_completes_in_its_slot)
{
    warm_space_histograms times = WARM_INIT(warm_space_histograms);
    const uint64_t turn = 16 << 10, delay = 5 * turn + 1024;

    now_ns = (now_ns / turn + 1) * turn;
    wt_ok(warm_pinned_reset_totals(runtime));
    wt_stop(runtime, stream);
    fill();
    now_ns += delay;
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    fill();
    ck_assert_uint_eq(timeline_of(stream)->queued, 0);
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_eq(times.reuse_delay.count, 1);
    ck_assert_uint_eq(times.reuse_delay.total_ns, delay);
    pass_all();
}

/* What has passed is handed out again, nothing of it lost or twice; an event
 * serves the next batch. told: somebody read the figures meanwhile. */
WT_LOOP_TEST(test_B4_a_batch_passes_in_its_slot, 2)
{
    static void *block[FULL];
    uint64_t events, allocated = wt_pinned_stats(runtime).pending.allocated;
    bool told = _i == 1;

    fill();
    events = wt_calls(runtime, "event_create");
    for (unsigned round = 0; round < 10; round++) {
        wt_stop(runtime, stream);
        for (int i = 0; i < FULL; i++) {
            block[i] = take();
            for (int k = 0; k < i; k++) {
                ck_assert_ptr_ne(block[i], block[k]);
            }
        }
        for (int i = 0; i < FULL; i++) {
            wt_free_used(block[i], stream);
        }
        ck_assert_uint_ge(slot_of(stream)->closed, 1);
        if (told) {
            check_pending(batched_blocks());
        }
        wt_go(runtime, stream);
        fill();
    }
    ck_assert_uint_le(wt_calls(runtime, "event_create"), events + 1);
    wt_ok(warm_poll(runtime));
    check_pending(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.allocated,
                      allocated + 21 * FULL);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.freed,
                      allocated + 21 * FULL);
    check_references(stream, 0);
}

/* Debug builds count locks: a batch takes a few, and its arena's seldom. */
WT_TEST(test_a_batch_in_its_slot_takes_few_locks)
{
    enum { BATCHES = 16, MOST = 10 };
    uint64_t before;

    for (int i = 0; i < 4; i++) {
        fill();
    }
    before = wm_lock_taken();
    for (int i = 0; i < BATCHES; i++) {
        fill();
    }
    ck_assert_uint_le(wm_lock_taken() - before, BATCHES * MOST);
}

/* A miss finds what has passed there, before memory is obtained or others are
 * asked; and the open batch gets its event where the older one has not. */
WT_TEST(test_a_miss_asks_for_what_the_slot_has)
{
    uint64_t marks;

    wt_stop(runtime, stream);
    fill();
    for (unsigned i = 0; i < WM_BATCH_RIPE; i++) {
        wt_free_used(take(), stream);
    }
    marks = wt_calls(runtime, "event_mark");
    ck_assert(!wm_pending_poll_mine(&runtime->pinned->space.group, ++now_ns));
    ck_assert_uint_eq(slot_of(stream)->closed, 2);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks + 1);
    wt_go(runtime, stream);
    ck_assert(wm_pending_poll_mine(&runtime->pinned->space.group, ++now_ns));
    ck_assert_uint_eq(slot_of(stream)->closed, 0);
    check_pending(0);
}

static const wm_driver_ops *host_ops;
static warm_status released = WARM_NOT_READY;

static void release_thread(void *context, warm_log_level level,
                           const char *line)
{
    (void)level;
    (void)line;
    released = warm_thread_release(context);
}

static warm_status query_aloud(wm_driver *d, warm_event event)
{
    wm_log(WARM_LOG_WARNING, "a driver may find that a device was reset");
    return host_ops->event_passed(d, event);
}

/* Its slots are in the driver then. */
WT_TEST(test_A4_a_log_callback_does_not_release_a_thread_that_polls)
{
    warm_stream both[] = {stream, stream_beside()};
    wm_driver_ops ops = *runtime->driver->ops;

    host_ops = runtime->driver->ops;
    ops.event_passed = query_aloud;
    for (int i = 0; i < 2; i++) {
        wt_stop(runtime, both[i]);
        while (slot_of(both[i]) == NULL || slot_of(both[i])->closed == 0) {
            wt_free_used(take(), both[i]);
        }
    }
    runtime->driver->ops = &ops;
    warm_log_set(release_thread, runtime);
    (void)wm_pending_poll_mine(&runtime->pinned->space.group, ++now_ns);
    warm_log_set(NULL, NULL);
    runtime->driver->ops = host_ops;
    ck_assert_int_eq(released, WARM_INVALID_ARGUMENT);
    ck_assert_uint_eq(slot_of(both[0])->closed, 1);
    wt_go(runtime, both[1]);
    pass_all();
}

/* What finds no room in the magazines is in the arena. */
WT_TEST(test_what_has_no_room_goes_where_it_belongs)
{
    static void *block[2 * FULL];

    become_steady(FULL, 16);
    for (int i = 0; i < 2 * FULL; i++) {
        block[i] = take();
    }
    wt_stop(runtime, stream);
    for (int i = 0; i < 2 * FULL; i++) {
        wt_free_used(block[i], stream);
    }
    ck_assert_uint_eq(slot_of(stream)->closed, 2);
    wt_go(runtime, stream);
    ck_assert(wm_pending_poll_mine(&runtime->pinned->space.group, ++now_ns));
    check_pending(0);
    ck_assert_uint_le(wt_pinned_stats(runtime).cached_bytes, 16 * BYTES);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live_bytes.current, 0);
}

/* A block in a closed batch is nobody's. */
WT_TEST(test_a_block_of_a_closed_batch_is_freed_once)
{
    void *block = take();

    wt_stop(runtime, stream);
    wt_free_used(block, stream);
    for (int i = 1; i < FULL; i++) {
        wt_free_used(take(), stream);
    }
    ck_assert_uint_eq(slot_of(stream)->closed, 1);
    for (int i = 0; i < 2; i++) {
        wt_fails(WARM_INVALID_POINTER, warm_free(block));
        wt_fails(WARM_NOT_FOUND, warm_record_stream(block, stream));
        check_pending(FULL);
    }
    wt_go(runtime, stream);
}

/* Without an event, or room for one, the timeline waits for the stream. */
WT_LOOP_TEST(test_B4_a_batch_that_cannot_be_marked, 2)
{
    wt_fails(WARM_INVALID_POINTER, warm_free(&runtime));
    for (int i = 1; i < FULL; i++) {
        wt_free_used(take(), stream);
    }
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, _i == 0));
    wt_free_used(take(), stream);
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), "not allocated"));
    ck_assert_uint_eq(slot_of(stream)->closed, 0);
    ck_assert_uint_eq(slot_of(stream)->open.count, 0);
    wt_ok(warm_poll(runtime));
    check_pending(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    check_references(stream, 0);
}

/* A batch that the driver cannot answer for is the timeline's to give up. */
WT_TEST(test_B4_a_batch_that_cannot_be_asked_for)
{
    wt_stop(runtime, stream);
    fill();
    wt_ok(warm_testing_fail(runtime, "event_passed", 1, 1));
    for (int i = 0; i < 5; i++) {
        wt_ok(warm_poll(runtime));
    }
    wt_ok(warm_testing_fail(runtime, "event_passed", 0, 0));
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, FULL);
    wt_go(runtime, stream);
}

/* ---- others want them ---------------------------------------------------- */

WT_TEST(test_a_slot_with_closed_batches_is_emptied)
{
    warm_stream other;

    wt_stop(runtime, stream);
    fill();
    wt_free_used(take(), stream);
    other = take_slot_of(stream);
    ck_assert_ptr_eq(slot_of(other)->stream, other);
    ck_assert_ptr_null(slot_of(stream)->stream);
    ck_assert_uint_eq(timeline_of(stream)->queued, 1);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 1);
    check_references(stream, FULL + 1);
    check_pending(FULL + 1 + WM_PENDING_PROBES);
    wt_go(runtime, stream);
}

static void *close_batches(void *argument)
{
    struct idler *idler = argument;

    wt_stop(runtime, stream);
    while (slot_of(stream)->closed == 0 && idler->status == WARM_OK) {
        free_some(idler, 1);
    }
    free_some(idler, 3);
    return NULL;
}

/* A thread that ends leaves them to the timeline. */
WT_TEST(test_a_thread_ends_with_closed_batches)
{
    struct idler idler = {.status = WARM_OK};

    wm_pending_end(mine()); /* nobody else batches for the stream */
    ck_assert_int_eq(pthread_create(&idler.thread, NULL, close_batches, &idler),
                     0);
    pthread_join(idler.thread, NULL);
    wt_ok(idler.status);
    ck_assert_uint_ge(timeline_of(stream)->queued, 1);
    ck_assert_uint_eq(timeline_of(stream)->open.count, 3);
    ck_assert_uint_eq(atomic_load(&timeline_of(stream)->slots), 0);
    pass_all();
}

/* What another thread does while the owner is with the driver. */
enum { POLLS, RETIRES, ANNOUNCES, READS };

static struct {
    int what;
    _Atomic bool begun, done, early;
    uint64_t pending;
    warm_status status;
} other;

static void *call(void *nothing_of_it)
{
    warm_space_stats stats = {.size = sizeof stats};

    await_inside();
    atomic_store(&other.begun, true);
    switch (other.what) {
    case POLLS:
        other.status = warm_poll(runtime);
        break;
    case RETIRES:
        other.status = warm_stream_retire(runtime, stream);
        break;
    case ANNOUNCES:
        other.status = warm_capture_announce(runtime, stream);
        break;
    case READS:
        other.status = warm_pinned_get_stats(runtime, &stats);
        other.pending = stats.pending.current;
        break;
    default:
        break;
    }
    atomic_store(&other.done, true);
    return nothing_of_it;
}

/* Opens the door once the other has been given time to come too early. */
static void *open_door(void *nothing_of_it)
{
    wt_linger linger = {0};

    while (!atomic_load(&other.begun)) {
        sched_yield();
    }
    if (other.what == READS) {
        while (!atomic_load(&other.done)) {
            sched_yield();
        }
    } else {
        while (wt_lingers(&linger)) {
        }
    }
    atomic_store(&other.early, atomic_load(&other.done));
    atomic_store(&door.open, true);
    return nothing_of_it;
}

/* Who polls, retires the stream or announces a capture waits for the event, and
 * finds all batches in the timeline; who reads figures waits for nobody. asks:
 * the owner asks for an older batch, in place of that. */
WT_LOOP_TEST(test_who_wants_batches_that_their_owner_asks_for, 8)
{
    bool asks = _i % 2 == 1;
    pthread_t thread[2];
    void *last;

    memset(&other, 0, sizeof other);
    other.what = _i / 2;
    wt_stop(runtime, stream);
    if (asks) {
        fill();
    }
    for (int i = 1; i < FULL; i++) {
        wt_free_used(take(), stream);
    }
    last = take();
    wt_ok(warm_record_stream(last, stream));
    close_door(asks);
    ck_assert_int_eq(pthread_create(&thread[0], NULL, call, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread[1], NULL, open_door, NULL), 0);
    wt_ok(warm_free(last));
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    runtime->driver->ops = door.real;
    wt_ok(other.status);
    ck_assert(atomic_load(&other.early) == (other.what == READS));
    if (other.what == READS) {
        ck_assert_uint_eq(other.pending, (1u + asks) * FULL);
        ck_assert_uint_eq(slot_of(stream)->closed, 1u + asks);
    } else {
        ck_assert_uint_eq(slot_of(stream)->closed, 0);
        ck_assert_uint_eq(batched_blocks(), 0);
    }
    ck_assert(!slot_of(stream)->in_driver);
    ck_assert_ptr_eq(slot_of(stream)->stream,
                     other.what == RETIRES ? NULL : stream);
    check_pending((1u + asks) * FULL);
    if (other.what == ANNOUNCES) {
        wt_ok(warm_capture_announce_end(runtime, stream));
    }
    pass_all();
}

/* ---- uses that several threads record ------------------------------------ */

static warm_status recorded;
static warm_stream recorded_on;

static void record_it(void *block, unsigned index)
{
    (void)index;
    recorded = warm_record_stream(block, recorded_on);
}

static void record_elsewhere(void *block, warm_stream s)
{
    recorded_on = s;
    wt_threads(1, record_it, block);
    wt_ok(recorded);
}

static unsigned streams_of(void *block)
{
    warm_block_info info = {.size = sizeof info};

    wt_ok(warm_block_get_info(block, &info));
    return info.streams;
}

WT_CASE("uses", .setup = set_up, .teardown = tear_down);

/* The same stream is one use, whoever recorded it, in whatever order. */
WT_LOOP_TEST(test_B4_two_threads_record_one_stream, 2)
{
    void *block = take();

    if (_i == 0) {
        wt_ok(warm_record_stream(block, stream));
        record_elsewhere(block, stream);
    } else {
        record_elsewhere(block, stream);
        wt_ok(warm_record_stream(block, stream));
    }
    ck_assert_uint_eq(streams_of(block), 1);
    wt_ok(warm_record_stream(block, stream));
    ck_assert_uint_eq(streams_of(block), 1);
    wt_stop(runtime, stream);
    wt_ok(warm_free(block));
    check_pending(1);
    check_references(stream, 1);
    pass_all();
    check_references(stream, 0);
}

/* A block waits for the streams that others recorded as well, whichever passes
 * first; without memory for a use, too. */
WT_LOOP_TEST(test_B4_two_threads_record_two_streams, 3)
{
    enum { FIRST, SECOND, NO_MEMORY };
    warm_stream beside = stream_beside();
    void *block = take();

    wt_stop(runtime, beside);
    wt_ok(warm_record_stream(block, stream));
    record_elsewhere(block, beside);
    record_elsewhere(block, beside);
    ck_assert_uint_eq(streams_of(block), 2);
    if (_i == NO_MEMORY) {
        wm_meta_fail(1, true);
    } else {
        wt_stop(runtime, stream);
    }
    wt_ok(warm_free(block));
    wm_meta_fail(0, false);
    check_pending(1);
    if (_i != NO_MEMORY) {
        wt_go(runtime, _i == FIRST ? stream : beside);
        wt_ok(warm_poll(runtime));
        check_pending(1);
    }
    wt_go(runtime, _i == SECOND ? stream : beside);
    wt_ok(warm_poll(runtime));
    check_pending(0);
    check_references(stream, 0);
}

/* The same without memory for a use, of a stream that has gone: nobody names
 * it, and its end is known. */
WT_TEST(test_B4_B6_two_threads_record_and_one_stream_goes)
{
    warm_stream beside = stream_beside(), gone;
    void *block = take();

    wt_ok(warm_stream_create(runtime, 0, &gone));
    wt_stop(runtime, beside);
    wt_ok(warm_record_stream(block, gone));
    record_elsewhere(block, beside);
    wt_ok(warm_stream_destroy(runtime, gone));
    wm_meta_fail(1, true);
    wt_ok(warm_free(block));
    wm_meta_fail(0, false);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    check_pending(1);
    wt_go(runtime, beside);
    wt_ok(warm_poll(runtime));
    check_pending(0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

/* And of a stream that captures: it is not waited for, so that the capture goes
 * on; and nobody can say when the block is safe. */
WT_TEST(test_B4_B7_two_threads_record_and_one_stream_captures)
{
    warm_stream beside = stream_beside();
    void *block = take();
    warm_graph graph;

    wt_ok(warm_record_stream(block, stream));
    record_elsewhere(block, beside);
    wt_ok(warm_capture_begin(runtime, stream));
    wm_meta_fail(1, true);
    wt_ok(warm_free(block));
    wm_meta_fail(0, false);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* What ends what was recorded, a free or the stream's own end, gets no event
 * while the stream captures: that goes on. */
WT_LOOP_TEST(test_B4_B7_what_cannot_be_marked_leaves_a_capture_alone, 2)
{
    bool retires = _i == 1;
    void *block = take();
    warm_graph graph;
    uint64_t waits;

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_capture_begin(runtime, stream));
    waits = wt_calls(runtime, "stream_synchronize");
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 1));
    wt_ok(retires ? warm_stream_retire(runtime, stream) : warm_free(block));
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    ck_assert_uint_eq(wt_calls(runtime, "stream_synchronize"), waits);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    if (retires) {
        wt_ok(warm_free(block));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, retires);
    ck_assert_uint_eq(wt_pinned_stats(runtime).captured, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
}
