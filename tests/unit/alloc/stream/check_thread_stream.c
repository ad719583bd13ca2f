/* check_thread_stream.c: per-thread default streams whose thread exits while
 * blocks wait for an event there, which no other thread can record (rows B4,
 * B6, B7).
 *
 * backends: host standin */
#include "wt.h"

#include "alloc/kinds/pinned.h"
#include "alloc/stream/timeline_int.h"
#include "runtime/runtime.h"

#include <stdatomic.h>

enum { SIZE = 100000, BYTES = 106496, OTHERS = 8 };

static warm_runtime *runtime;

static void setup(void)
{
    runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options)});
}

static void teardown(void)
{
    wt_runtime_end(runtime);
}

static wm_timelines *timelines(void)
{
    return &runtime->pinned->timelines;
}

/* ---- a thread and its stream -------------------------------------------- */

static struct {
    void *block[2];
    wt_gate *gate;
    warm_status status;
    bool stays_captured, releases;
    pthread_barrier_t barrier; /* twice: freed; and may exit */
} of;

static void note(warm_status status)
{
    of.status = of.status == WARM_OK ? status : of.status;
}

static void begin(void)
{
    note(wm_driver_capture_begin(runtime->driver, WARM_STREAM_PER_THREAD));
}

static void end(void)
{
    warm_graph graph = NULL;

    note(
        wm_driver_capture_end(runtime->driver, WARM_STREAM_PER_THREAD, &graph));
    note(warm_graph_destroy(runtime, graph));
}

/* The first block is freed behind an event that has not completed, the
 * second while the stream captures without an announcement. */
static void *free_in_capture(void *argument)
{
    (void)argument;
    note(warm_record_stream(of.block[0], WARM_STREAM_PER_THREAD));
    note(warm_record_stream(of.block[1], WARM_STREAM_PER_THREAD));
    of.gate = wt_gate_close(runtime, WARM_STREAM_PER_THREAD);
    note(warm_free(of.block[0]));
    begin();
    note(warm_free(of.block[1]));
    if (of.releases && of.stays_captured) {
        note(warm_thread_release(runtime));
    }
    if (!of.stays_captured || of.releases) {
        end();
    }
    if (of.releases && !of.stays_captured) {
        note(warm_thread_release(runtime));
    }
    pthread_barrier_wait(&of.barrier);
    pthread_barrier_wait(&of.barrier);
    return NULL;
}

static pthread_t start(bool stays_captured, bool releases)
{
    pthread_t thread;

    of.status = WARM_OK;
    of.stays_captured = stays_captured;
    of.releases = releases;
    for (int i = 0; i < 2; i++) {
        of.block[i] = wt_pinned(runtime, SIZE);
    }
    pthread_barrier_init(&of.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, free_in_capture, NULL), 0);
    pthread_barrier_wait(&of.barrier);
    return thread;
}

static void finish(pthread_t thread)
{
    pthread_barrier_wait(&of.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&of.barrier);
    wt_ok(of.status);
}

static void poll_often(void)
{
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_poll(runtime));
    }
}

static uint64_t pending(void)
{
    return wt_pinned_stats(runtime).pending.current;
}

/* The stream's work goes on after its thread's exit. */
static void await_none_pending(void)
{
    for (int i = 0; i < 100000 && pending() != 0; i++) {
        wt_ok(warm_poll(runtime));
    }
    ck_assert_uint_eq(pending(), 0);
}

/* Both blocks wait for the work of the stream, and for nothing else. */
static void both_come_back(void)
{
    poll_often();
    ck_assert_uint_eq(pending(), 2);
    wt_gate_open(of.gate);
    await_none_pending();
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
}

WT_CASE("thread_stream", .setup = setup, .teardown = teardown);

WT_TEST(test_B4_B7_a_thread_that_exits_records_what_a_capture_put_off)
{
    finish(start(false, false));
    both_come_back();
}

WT_TEST(test_B4_B7_a_thread_that_releases_records_what_a_capture_put_off)
{
    pthread_t thread = start(false, true);

    both_come_back();
    finish(thread);
}

/* The thread releases while it captures, ends the capture and exits. */
WT_TEST(test_B4_B7_a_thread_that_released_in_a_capture_records_at_its_exit)
{
    finish(start(true, true));
    both_come_back();
}

/* No thread can name the stream or end its capture: the block that waits
 * for that end is lost, the other one is not. */
WT_TEST(test_B4_B6_a_thread_that_exits_in_a_capture_loses_what_waits_for_it)
{
    finish(start(true, false));
    wt_gate_open(of.gate);
    await_none_pending();
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost_bytes, BYTES);
}

/* ---- announced ----------------------------------------------------------- */

static struct {
    pthread_barrier_t barrier;
    warm_status status[OTHERS];
    bool ends;
} others;

static void *announce(void *argument)
{
    warm_status *status = argument;

    *status = warm_capture_announce(runtime, WARM_STREAM_PER_THREAD);
    pthread_barrier_wait(&others.barrier);
    pthread_barrier_wait(&others.barrier);
    if (*status == WARM_OK && others.ends) {
        *status = warm_capture_announce_end(runtime, WARM_STREAM_PER_THREAD);
    }
    return NULL;
}

/* All other threads have announced their streams when meanwhile() is
 * called. */
static void announce_others(bool end, void (*meanwhile)(void))
{
    pthread_t thread[OTHERS];

    others.ends = end;
    pthread_barrier_init(&others.barrier, NULL, OTHERS + 1);
    for (int i = 0; i < OTHERS; i++) {
        ck_assert_int_eq(
            pthread_create(&thread[i], NULL, announce, &others.status[i]), 0);
    }
    pthread_barrier_wait(&others.barrier);
    meanwhile();
    pthread_barrier_wait(&others.barrier);
    for (int i = 0; i < OTHERS; i++) {
        pthread_join(thread[i], NULL);
        wt_ok(others.status[i]);
    }
    pthread_barrier_destroy(&others.barrier);
}

static void end_own(void)
{
    wm_timelines *set = timelines();

    ck_assert_uint_eq(atomic_load(&set->captures), OTHERS);
    wt_invalid(warm_capture_announce_end(runtime, WARM_STREAM_PER_THREAD));
    wt_ok(warm_capture_announce(runtime, WARM_STREAM_PER_THREAD));
    wt_ok(warm_capture_announce_end(runtime, WARM_STREAM_PER_THREAD));
    wt_invalid(warm_capture_announce_end(runtime, WARM_STREAM_PER_THREAD));
    ck_assert_uint_eq(atomic_load(&set->captures), OTHERS);
}

WT_TEST(test_B7_the_end_of_a_capture_is_that_of_the_threads_own_stream)
{
    announce_others(true, end_own);
    ck_assert_uint_eq(atomic_load(&timelines()->captures), 0);
}

static void nothing(void)
{
}

WT_TEST(test_B7_an_announced_capture_ends_with_the_thread_of_its_stream)
{
    announce_others(false, nothing);
    ck_assert_uint_eq(atomic_load(&timelines()->captures), 0);
}
