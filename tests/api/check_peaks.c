/* check_peaks.c: peaks of what callers have, with several threads (row B14):
 * never below what was live at once, and above it by no more than each thread
 * claims ahead. Threads take turns, so that each step is known.
 */
/* backends: host standin */
#include "wt.h"

#include <pthread.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum { THREADS = 4, BLOCKS = 200 };

/* Where a thread allocates: page-locked memory, or that of device 0. */
static const struct {
    const char *name;
    bool device;
    size_t bytes; /* of a block: hits of all kinds, or none */
} row[] = {
    {"pinned, small", false, 3000},     {"pinned", false, 60000},
    {"pinned, larger", false, 3 << 20}, {"pinned, no hits", false, 5 << 20},
    {"device, small", true, 3000},      {"device", true, 1 << 20},
    {"device, no hits", true, 5 << 20}};
enum { ROWS = sizeof row / sizeof row[0] };

static warm_runtime *runtime;
static pthread_barrier_t turn;

/* What the library shows, pinned or of a device. */
struct shown {
    warm_stat blocks, bytes, held;
};

static struct shown shown_now(bool device)
{
    if (device) {
        warm_device_stats s = wt_device_stats(runtime);

        return (struct shown){s.all.live, s.all.live_bytes, s.all.held_bytes};
    }
    warm_space_stats s = wt_pinned_stats(runtime);

    return (struct shown){s.live, s.live_bytes, s.held_bytes};
}

static struct worker {
    warm_stream stream;
    void *block[BLOCKS];
    bool failed;
} worker[THREADS];
static int on; /* row */

/* In the main thread. */
static void *take(const struct worker *w, size_t bytes)
{
    return row[on].device ? wt_device(runtime, w->stream, bytes)
                          : wt_pinned(runtime, bytes);
}

static void allocate(struct worker *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        w->failed |=
            (row[on].device ? warm_device_alloc(runtime, 0, w->stream,
                                                row[on].bytes, &w->block[i])
                            : warm_pinned_alloc(runtime, row[on].bytes,
                                                &w->block[i])) != WARM_OK;
    }
}

static void give(struct worker *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        w->failed |= warm_free(w->block[i]) != WARM_OK;
    }
}

static unsigned count_of(size_t bytes)
{
    return bytes > MIB / 2 ? BLOCKS / 8 : BLOCKS;
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    pthread_barrier_init(&turn, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.stream = NULL};
        worker[i].stream = wt_stream(runtime, 0);
    }
}

static void teardown(void)
{
    for (int i = 0; i < THREADS; i++) {
        ck_assert(!worker[i].failed);
        wt_stream_end(runtime, worker[i].stream);
    }
    pthread_barrier_destroy(&turn);
    wt_runtime_end(runtime);
}

static void check_peaks(uint64_t blocks, unsigned threads)
{
    struct shown now = shown_now(row[on].device);
    uint64_t bytes = now.bytes.allocated / now.blocks.allocated;

    wt_peak(now.blocks.peak, blocks, threads * WT_ROOM_BLOCKS);
    wt_peak(now.bytes.peak, blocks * bytes, threads * WT_ROOM_BYTES);
    ck_assert_uint_le(now.bytes.peak, now.held.peak);
}

/* One after the other allocates and frees: the sum of their own peaks would be
 * four times what was live at once. */
static void take_turns(void *argument, unsigned index)
{
    unsigned count = count_of(row[on].bytes);

    for (unsigned round = 0; round < 3 * THREADS; round++) {
        if (round % THREADS == index) {
            allocate(&worker[index], count);
            give(&worker[index], count);
        }
        pthread_barrier_wait(&turn);
    }
}

WT_CASE("peaks", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B14_peaks_of_threads_that_take_turns, ROWS)
{
    on = _i;
    wt_threads(THREADS, take_turns, NULL);
    check_peaks(count_of(row[on].bytes), THREADS);
}

/* Each frees a half while the next one allocates as much: what is live moves
 * from thread to thread, and their rooms with it. */
static void hand_on(void *argument, unsigned index)
{
    unsigned count = count_of(row[on].bytes);

    for (unsigned round = 0; round < 4 * THREADS; round++) {
        if (round % THREADS == index) {
            allocate(&worker[index], count);
        }
        pthread_barrier_wait(&turn);
        if (round % THREADS == index) {
            give(&worker[index], count);
        }
        pthread_barrier_wait(&turn);
    }
}

WT_LOOP_TEST(test_B14_peaks_of_memory_that_moves_between_threads, ROWS)
{
    on = _i;
    wt_threads(THREADS, hand_on, NULL);
    check_peaks(count_of(row[on].bytes), THREADS);
}

/* Nothing is missed: all threads have theirs at once. */
static void hold(void *argument, unsigned index)
{
    unsigned count = count_of(row[on].bytes);

    allocate(&worker[index], count / 2);
    give(&worker[index], count / 2); /* and is ready for hits */
    pthread_barrier_wait(&turn);
    allocate(&worker[index], count);
    pthread_barrier_wait(&turn);
    give(&worker[index], count);
}

WT_LOOP_TEST(test_B14_peaks_of_threads_that_hold_at_once, ROWS)
{
    on = _i;
    wt_threads(THREADS, hold, NULL);
    check_peaks(THREADS * count_of(row[on].bytes), THREADS);
}

/* A thread has one room of a device, however many streams it allocates on: more
 * than it keeps memory for, one after the other, and in turn. */
static const unsigned streams_of[] = {1, 2, 3, 4, 7, 8, 12};
enum { STREAMS = 12, COUNTS = sizeof streams_of / sizeof streams_of[0] };

WT_LOOP_TEST(test_B14_peaks_of_a_thread_with_many_streams, 2 * COUNTS)
{
    unsigned count = streams_of[_i / 2], most = 30;
    struct worker *w = &worker[0];
    warm_stream stream[STREAMS] = {NULL}, own = w->stream;

    ck_assert_uint_gt(count, 0);
    on = 4 + _i % 2;
    for (unsigned i = 0; i < count; i++) {
        stream[i] = wt_stream(runtime, 0);
        w->stream = stream[i];
        w->block[i] = take(w, row[on].bytes);
    }
    give(w, count);
    check_peaks(count, 1);
    /* What frees leave of room on one of them is gone when another rises. */
    for (unsigned i = 0; i < count; i++) {
        w->stream = stream[i];
        allocate(w, most);
        give(w, most);
    }
    check_peaks(most, 1);
    for (unsigned i = 0; i < 2 * most; i++) {
        w->stream = stream[i % count];
        w->block[i] = take(w, row[on].bytes);
    }
    give(w, 2 * most);
    check_peaks(2 * most, 1);
    w->stream = own;
    for (unsigned i = 0; i < count; i++) {
        wt_stream_end(runtime, stream[i]);
    }
}

/* After a reset they are what is live, and rise again from there. */
static void reset_between(void *argument, unsigned index)
{
    unsigned count = count_of(row[on].bytes);
    bool *exact = argument;

    allocate(&worker[index], count);
    pthread_barrier_wait(&turn);
    give(&worker[index], count - 1);
    pthread_barrier_wait(&turn);
    if (index == 0) {
        struct shown now;

        worker[0].failed |=
            (row[on].device ? warm_device_reset_peaks(runtime, 0)
                            : warm_pinned_reset_peaks(runtime)) != WARM_OK;
        now = shown_now(row[on].device);
        *exact = now.blocks.peak == THREADS && now.blocks.current == THREADS &&
                 now.bytes.peak == now.bytes.current;
    }
    pthread_barrier_wait(&turn);
    if (index == 1) {
        allocate(&worker[index], count - 1);
        give(&worker[index], count - 1);
    }
    pthread_barrier_wait(&turn);
    worker[index].failed |=
        warm_free(worker[index].block[count - 1]) != WARM_OK;
}

WT_LOOP_TEST(test_B14_peaks_rise_again_after_a_reset, ROWS)
{
    bool exact = false;

    on = _i;
    wt_threads(THREADS, reset_between, &exact);
    ck_assert(exact);
    check_peaks(THREADS + count_of(row[on].bytes) - 1, THREADS);
}

/* Threads come and go: what they claimed goes with them. */
static void come_and_go(void *argument, unsigned index)
{
    allocate(&worker[0], 3);
    give(&worker[0], 3);
}

WT_LOOP_TEST(test_B14_peaks_of_threads_that_come_and_go, ROWS)
{
    on = _i;
    for (int i = 0; i < 50; i++) {
        wt_threads(1, come_and_go, NULL);
    }
    check_peaks(3, 1);
}

/* Blocks are exchanged for others, two at a time, by hits, and one figure
 * rises: bytes, or blocks of fewer bytes. */
enum { PAIRS = 10, EIGHT = 8 };
static const struct {
    size_t before[2];
    unsigned count;                    /* of those that come for these two: */
    size_t after[EIGHT], bytes[EIGHT]; /* bytes: handed out */
} change[] = {
    {{15 << 18, 2 << 20},
     2,
     {(7 << 19) + 1, (2 << 20) + 1},
     {15 << 18, 9 << 18}},
    {{512 << 10, 512 << 10},
     EIGHT,
     {512, 1024, 1536, 2048, 2560, 3072, 3584, 4096},
     {512, 1024, 1536, 2048, 2560, 3072, 3584, 4096}},
};
enum { CHANGES = sizeof change / sizeof change[0] };

WT_LOOP_TEST(test_B14_each_figure_has_a_peak_of_its_own, 2 * CHANGES)
{
    const size_t *before = change[_i / 2].before, *after = change[_i / 2].after;
    unsigned each = change[_i / 2].count;
    struct worker *w = &worker[0], *more = &worker[1];
    uint64_t bytes = 0;
    struct shown now;

    on = _i % 2 == 1 ? ROWS - 1 : 0;
    for (unsigned i = 0; i < PAIRS * each; i++) { /* ready for hits */
        w->block[i] = take(w, after[i % each]);
        bytes += change[_i / 2].bytes[i % each];
    }
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        more->block[i] = take(w, before[i % 2]);
    }
    give(w, PAIRS * each);
    give(more, 2 * PAIRS);
    wt_ok(row[on].device ? warm_device_reset_peaks(runtime, 0)
                         : warm_pinned_reset_peaks(runtime));
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        more->block[i] = take(w, before[i % 2]);
    }
    for (unsigned i = 0, k = 0; i < 2 * PAIRS; i += 2) {
        wt_free(more->block[i], more->block[i + 1]);
        for (unsigned end = k + each; k < end; k++) {
            w->block[k] = take(w, after[k % each]);
        }
    }
    give(w, PAIRS * each);
    now = shown_now(row[on].device);
    ck_assert_uint_ge(now.blocks.peak, PAIRS * each);
    ck_assert_uint_ge(now.bytes.peak, bytes);
}

/* One block at a time, in one thread after the other: each keeps its block
 * ready, and all of these were never live at once. */
enum { CROWD = 32, LARGE = 4 << 20 };

static void one_at_a_time(void *argument, unsigned index)
{
    pthread_barrier_t *step = argument;
    void *block;

    for (unsigned i = 0; i < 2 * CROWD; i++) {
        if (i % CROWD == index &&
            (warm_pinned_alloc(runtime, LARGE, &block) != WARM_OK ||
             warm_free(block) != WARM_OK)) {
            worker[0].failed = true;
        }
        pthread_barrier_wait(step);
    }
}

WT_TEST(test_B14_a_peak_is_within_that_of_what_was_held)
{
    pthread_barrier_t step;
    struct shown now;

    pthread_barrier_init(&step, NULL, CROWD);
    wt_threads(CROWD, one_at_a_time, &step);
    pthread_barrier_destroy(&step);
    now = shown_now(false);
    ck_assert_uint_ge(now.bytes.peak, LARGE);
    ck_assert_uint_le(now.bytes.peak, now.held.peak);
    wt_peak(now.blocks.peak, 1, CROWD * WT_ROOM_BLOCKS);
}

/* Figures of parts of a space have no peak. */
WT_TEST(test_B14_peaks_are_those_of_a_space)
{
    void *host = wt_pinned(runtime, 3000);
    void *device = wt_device(runtime, worker[0].stream, 3000);
    warm_space_stats pinned = wt_pinned_stats(runtime), node = pinned;
    warm_device_stats of = wt_device_stats(runtime);
    char text[1 << 16];

    wt_ok(warm_pinned_get_node_stats(runtime, 0, &node));
    ck_assert_uint_gt(pinned.live.peak, 0);
    ck_assert_uint_eq(pinned.requested_bytes.peak + pinned.segments.peak, 0);
    ck_assert_uint_eq(node.live.peak + node.held_bytes.peak, 0);
    ck_assert_uint_gt(of.all.live.peak, 0);
    ck_assert_uint_eq(of.small.live.peak + of.all.active.peak, 0);
    for (int i = 0; i < warm_pinned_class_count(); i++) {
        warm_class_stats one = {.size = sizeof one};

        wt_ok(warm_pinned_get_class_stats(runtime, i, &one));
        ck_assert_uint_eq(one.live.peak + one.live_bytes.peak, 0);
    }
    wt_ok(warm_stats_prometheus(runtime, text, sizeof text, NULL));
    wt_contains(text, "\nwarmpool_live_peak_blocks{space=\"pinned\"}");
    ck_assert_ptr_null(strstr(text, "warmpool_class_live_peak"));
    ck_assert_ptr_null(strstr(text, "warmpool_node_live_peak"));
    ck_assert_ptr_null(strstr(text, "warmpool_size_live_peak"));
    ck_assert_ptr_null(strstr(text, "warmpool_segments_peak"));
    wt_free(host, device);
}

/* The shortest and the longest call go with peaks, their number and sum with
 * totals; and the next call counts for both. */
WT_TEST(test_B14_a_reset_of_peaks_resets_minima_and_maxima)
{
    void *block[2] = {wt_pinned(runtime, 3000),
                      wt_device(runtime, worker[0].stream, 3000)};
    warm_duration before[2], now[2];

    before[0] = wt_pinned_stats(runtime).driver_alloc;
    before[1] = wt_device_stats(runtime).driver_alloc;
    wt_ok(warm_pinned_reset_peaks(runtime));
    wt_ok(warm_device_reset_peaks(runtime, 0));
    now[0] = wt_pinned_stats(runtime).driver_alloc;
    now[1] = wt_device_stats(runtime).driver_alloc;
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_gt(before[i].min_ns, 0);
        ck_assert_uint_eq(now[i].min_ns + now[i].max_ns, 0);
        ck_assert_uint_eq(now[i].count, before[i].count);
        ck_assert_uint_eq(now[i].total_ns, before[i].total_ns);
    }
    wt_free(block[0], block[1]);
    block[0] = wt_pinned(runtime, 64 * MIB);
    wt_ok(warm_pinned_reset_totals(runtime));
    now[0] = wt_pinned_stats(runtime).driver_alloc;
    ck_assert_uint_gt(now[0].min_ns, 0);
    ck_assert_uint_ge(now[0].max_ns, now[0].min_ns);
    ck_assert_uint_eq(now[0].count + now[0].total_ns, 0);
    wt_ok(warm_free(block[0]));
}
