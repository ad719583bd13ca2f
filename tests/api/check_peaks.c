/* check_peaks.c: peaks of what callers have, with several threads (row B14):
 * never below what was live at once, and above it by no more than each thread
 * claims ahead. Threads take turns, so that each step is known.
 */
/* backends: host standin */
#include "wt.h"

#include <pthread.h>

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
    warm_stat blocks, asked, bytes;
};

static struct shown shown_now(bool device)
{
    if (device) {
        warm_device_stats s = wt_device_stats(runtime);

        return (struct shown){s.all.live, s.all.requested_bytes,
                              s.all.live_bytes};
    }
    warm_space_stats s = wt_pinned_stats(runtime);

    return (struct shown){s.live, s.requested_bytes, s.live_bytes};
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
    wt_peak(now.asked.peak, blocks * row[on].bytes, threads * wt_room(bytes));
    wt_peak(now.bytes.peak, blocks * bytes, threads * wt_room(bytes));
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

static void check_one_room(uint64_t blocks)
{
    warm_device_stats now = wt_device_stats(runtime);
    const warm_device_figures *f =
        row[on].bytes <= 512 << 10 ? &now.small : &now.large;

    check_peaks(blocks, 1);
    wt_peak(now.all.active.peak, blocks, WT_ROOM_BLOCKS);
    wt_peak(f->live.peak, blocks, WT_ROOM_BLOCKS / 2);
    wt_peak(f->active.peak, blocks, WT_ROOM_BLOCKS / 2);
    wt_peak(f->requested_bytes.peak, blocks * row[on].bytes, WT_ROOM_BYTES / 2);
}

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
    check_one_room(count);
    /* What frees leave of room on one of them is gone when another rises. */
    for (unsigned i = 0; i < count; i++) {
        w->stream = stream[i];
        allocate(w, most);
        give(w, most);
    }
    check_one_room(most);
    for (unsigned i = 0; i < 2 * most; i++) {
        w->stream = stream[i % count];
        w->block[i] = take(w, row[on].bytes);
    }
    give(w, 2 * most);
    check_one_room(2 * most);
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
                 now.asked.peak == THREADS * row[on].bytes &&
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
 * rises: bytes asked for, in blocks of one class; bytes handed out, for less
 * that is asked; blocks, of fewer bytes. */
enum { PAIRS = 10, EIGHT = 8 };
static const struct {
    size_t before[2];
    unsigned count;                    /* of those that come for these two: */
    size_t after[EIGHT], bytes[EIGHT]; /* bytes: handed out */
} change[] = {
    {{(15 << 18) + 1, (15 << 18) + 1},
     2,
     {4 << 20, 4 << 20},
     {4 << 20, 4 << 20}},
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
    uint64_t asked = 0, bytes = 0;
    struct shown now;

    on = _i % 2 == 1 ? ROWS - 1 : 0;
    for (unsigned i = 0; i < PAIRS * each; i++) { /* ready for hits */
        w->block[i] = take(w, after[i % each]);
        asked += after[i % each];
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
    ck_assert_uint_ge(now.asked.peak, asked);
    ck_assert_uint_ge(now.bytes.peak, bytes);
}

static warm_class_stats class_of(size_t bytes)
{
    warm_class_stats s;
    int i = 0;

    do {
        s.size = sizeof s;
        wt_ok(warm_pinned_get_class_stats(runtime, i++, &s));
    } while (s.block_bytes < bytes);
    return s;
}

/* A class: also by what threads keep ready of it. */
WT_TEST(test_B14_peaks_of_a_class)
{
    warm_class_stats s;

    on = 1;
    wt_threads(THREADS, take_turns, NULL);
    s = class_of(row[on].bytes);
    wt_peak(s.live.peak, BLOCKS, THREADS * (32 + WT_ROOM_BLOCKS));
    ck_assert_uint_eq(s.live_bytes.peak, s.live.peak * s.block_bytes);
    ck_assert_uint_ge(s.requested_bytes.peak, BLOCKS * row[on].bytes);
    ck_assert_uint_le(s.requested_bytes.peak, s.live_bytes.peak);
}

/* After a reset, the peak of a class contains nothing that threads claimed
 * ahead, whether those threads have exited or not. */
static void come_at_once(void *argument, unsigned index)
{
    allocate(&worker[index], 32);
    pthread_barrier_wait(&turn);
    give(&worker[index], 32);
}

WT_TEST(test_B14_peaks_of_a_class_without_threads_that_have_gone)
{
    on = 0;
    for (int i = 0; i < 10; i++) {
        wt_threads(THREADS, come_at_once, NULL);
    }
    wt_ok(warm_pinned_reset_peaks(runtime));
    ck_assert_uint_eq(class_of(row[on].bytes).live.peak, 0);
}

/* Magazines that overflow: a free that finds no place there is counted where
 * its block belongs, so that small and large requests keep peaks apart. */
static const uint64_t little[] = {64 << 10, 1 << 20, 16 << 20};
enum { LITTLES = sizeof little / sizeof little[0], SIZED = 400, LARGE = 100 };

static void check_figures(const warm_device_figures *f, uint64_t blocks,
                          uint64_t bytes)
{
    wt_peak(f->live.peak, blocks, WT_ROOM_BLOCKS);
    wt_peak(f->active.peak, blocks, WT_ROOM_BLOCKS);
    wt_peak(f->requested_bytes.peak, bytes, WT_ROOM_BYTES);
    wt_peak(f->live_bytes.peak, bytes, WT_ROOM_BYTES);
}

WT_LOOP_TEST(test_B14_peaks_of_small_and_large_with_little_to_keep, LITTLES)
{
    warm_runtime *few = wt_runtime_with(.magazine_bytes = little[_i]);
    uint64_t random = wt_seed();
    void *block[SIZED];
    warm_device_stats now;
    warm_stream stream = wt_stream(few, 0);

    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < SIZED; i++) {
            block[i] =
                wt_device(few, stream, 4096 + wt_random(&random) % 500000);
        }
        wt_free_all(block, SIZED);
    }
    wt_ok(warm_device_reset_peaks(few, 0));
    for (unsigned i = 0; i < LARGE; i++) {
        block[i] = wt_device(few, stream, 3 * MIB);
    }
    wt_free_all(block, LARGE);
    now = wt_device_stats(few);
    check_figures(&now.large, LARGE, LARGE * 3 * MIB);
    check_figures(&now.small, 0, 0);
    check_figures(&now.all, LARGE, LARGE * 3 * MIB);
    wt_stream_end(few, stream);
    wt_runtime_end(few);
}
