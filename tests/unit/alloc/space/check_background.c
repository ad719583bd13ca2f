/* check_background.c: the thread that works so that requests need not (row
 * B10). Host device. The thread is made to do its rounds, or is waited for;
 * that it does nothing is told by counting how often it wakes up. */
#include "wt_memory.h"

#include "runtime/base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static warm_runtime *runtime;
static wm_background *background;

static void begin(warm_options *options)
{
    options->background = "on";
    runtime = wt_memory_begin(options);
    background = &wt_memory_space()->background;
}

/* Under the lock: between two rests the thread says for a moment that it
 * would rest long, and looks whether it may. */
static int rest_now(void)
{
    int rest;

    wm_lock_acquire(&background->waker.lock);
    rest = atomic_load_explicit(&background->waker.sleep, memory_order_relaxed);
    wm_lock_release(&background->waker.lock);
    return rest;
}

static void await_rest(int rest)
{
    while (rest_now() != rest) {
        sched_yield();
    }
}

/* Wakes the thread for a whole round and waits for its end: the round under
 * way may have begun too early. */
static void step(void)
{
    uint64_t until;

    wm_lock_acquire(&background->waker.lock);
    until = background->rounds + 2;
    while (background->rounds < until) {
        wm_waker_wake_locked(&background->waker);
        wm_cond_wait(&background->over, &background->waker.lock);
    }
    wm_lock_release(&background->waker.lock);
}

/* A rest that comes to nothing is a round all the same. */
static uint64_t rounds_now(void)
{
    uint64_t rounds;

    wm_lock_acquire(&background->waker.lock);
    rounds = background->rounds;
    wm_lock_release(&background->waker.lock);
    return rounds;
}

static void yield_often(void)
{
    wt_linger linger = {0};

    while (wt_lingers(&linger)) {
    }
}

/* A freed block that waits for the stream, which is held. */
static void leave_pending(warm_stream stream, size_t bytes)
{
    void *block = wt_memory_take(bytes);

    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
}

static warm_stream held_stream(void)
{
    warm_stream stream = NULL;

    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_testing_hold(runtime, stream));
    return stream;
}

/* ---- collecting ------------------------------------------------------- */

START_TEST(test_B10_finished_work_is_collected_without_a_call)
{
    warm_stream stream;

    begin(&(warm_options){.segment = 4 * MIB});
    stream = held_stream();
    leave_pending(stream, 5000);
    step();
    ck_assert_uint_eq(wt_memory_stats().pending.current, 1);
    ck_assert_int_ne(rest_now(), WM_SLEEP_LONG);
    wt_ok(warm_testing_resume(runtime, stream));
    while (wt_memory_stats().pending.current != 0) {
        sched_yield();
    }
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}
END_TEST

/* What gathers under one event would be torn apart by who comes often. */
START_TEST(test_thread_closes_old_batches_only)
{
    warm_stream stream = NULL;

    begin(&(warm_options){.segment = 4 * MIB, .batch_ms = 3600000});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    for (int i = 0; i < 10; i++) {
        leave_pending(stream, 5000);
        step();
    }
    ck_assert_uint_eq(wt_memory_calls("event_record"), 0);
    ck_assert_uint_gt(wt_memory_stats().pending.current, 0);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().pending.current, 0);
    wt_memory_end();
}
END_TEST

/* Asleep for good, and woken by the free itself. */
START_TEST(test_free_that_becomes_pending_wakes_the_thread)
{
    warm_stream stream;
    uint64_t wakes;

    begin(&(warm_options){.segment = 4 * MIB});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    for (unsigned i = 0; i < wt_scaled(200); i++) {
        await_rest(WM_SLEEP_LONG);
        wakes = wm_background_wakes(background);
        leave_pending(stream, 5000);
        while (wt_memory_stats().pending.current != 0) {
            sched_yield();
        }
        ck_assert_uint_gt(wm_background_wakes(background), wakes);
    }
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}
END_TEST

START_TEST(test_thread_does_not_wake_up_while_nothing_goes_on)
{
    uint64_t wakes;

    begin(&(warm_options){.segment = 4 * MIB, .reserve_bytes = 2 * MIB});
    step();
    wt_ok(warm_free(wt_memory_take(5000)));
    await_rest(WM_SLEEP_LONG);
    wakes = wm_background_wakes(background);
    yield_often();
    /* Hits and frees are none of its business. */
    for (int i = 0; i < 100; i++) {
        wt_ok(warm_free(wt_memory_take(5000)));
    }
    yield_often();
    ck_assert_uint_eq(wm_background_wakes(background), wakes);
    ck_assert_int_eq(rest_now(), WM_SLEEP_LONG);
    wt_memory_end();
}
END_TEST

/* What the thread calls is legal, and does not break a capture of another. */
START_TEST(test_B7_thread_polls_while_another_captures)
{
    warm_stream stream, busy;
    warm_graph graph = NULL;

    begin(&(warm_options){.segment = 4 * MIB});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    busy = held_stream();
    wt_ok(warm_capture_begin(runtime, stream));
    leave_pending(busy, 5000);
    step();
    wt_ok(warm_testing_resume(runtime, busy));
    while (wt_memory_stats().pending.current != 0) {
        sched_yield();
    }
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, busy));
    wt_memory_end();
}
END_TEST

/* Signals are for the program's own threads. */
static _Atomic bool signalled;

static warm_status alloc_unless_signalled(wm_driver *d, size_t bytes,
                                          void **pointer)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    wt_set(&signalled,
           !sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR1));
    return wt_memory_alloc(d, bytes, pointer);
}

START_TEST(test_B10_thread_takes_no_signals)
{
    begin(&(warm_options){.segment = 4 * MIB});
    wt_memory.ops.pinned_alloc = alloc_unless_signalled;
    wt_set(&signalled, true);
    wt_ok(warm_pinned_prewarm(runtime, 4 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert(!wt_flag(&signalled));
    wt_ok(warm_pinned_prewarm(runtime, 8 * MIB, 0, 0));
    ck_assert(wt_flag(&signalled)); /* of this one */
    wt_memory_end();
}
END_TEST

/* ---- the reserve ------------------------------------------------------ */

static void await_reserve(size_t bytes)
{
    /* What a thread keeps for itself does not count. */
    while (wt_memory_stats().idle_bytes - wt_memory_stats().cached_bytes <
           bytes) {
        sched_yield();
    }
}

enum { BLOCKS = 10 };

START_TEST(test_B10_reserve_is_kept_ahead_of_demand)
{
    void *block[BLOCKS];

    begin(&(warm_options){.segment = 4 * MIB, .reserve_bytes = 16 * MIB});
    for (int i = 0; i < BLOCKS; i++) {
        await_reserve(16 * MIB);
        block[i] = wt_memory_take(4 * MIB);
    }
    await_reserve(16 * MIB);
    /* None of the requests has paid. */
    ck_assert_uint_eq(wt_memory_stats().cache_hits, BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        wt_ok(warm_free(block[i]));
    }
    wt_memory_end();
}
END_TEST

/* Requests are served while the thread is inside the driver. */
START_TEST(test_B10_requests_go_on_while_the_reserve_is_filled)
{
    void *block, *other;

    begin(&(warm_options){.segment = 4 * MIB, .reserve_bytes = 8 * MIB});
    await_reserve(8 * MIB);
    wt_set(&wt_memory.closed, true);
    block = wt_memory_take(4 * MIB);
    wt_await(&wt_memory.inside);
    other = wt_memory_take(2 * MIB);
    wt_ok(warm_free(other));
    wt_ok(warm_poll(runtime));
    ck_assert(wt_flag(&wt_memory.inside));
    wt_set(&wt_memory.closed, false);
    await_reserve(8 * MIB);
    wt_ok(warm_free(block));
    wt_memory_end();
}
END_TEST

static _Atomic uint64_t now_ms;

static uint64_t clock_of_test(void)
{
    return atomic_load_explicit(&now_ms, memory_order_relaxed) * 1000000;
}

/* It is not asked for again and again. Time stands still: later it would be. */
START_TEST(test_reserve_that_cannot_be_had_is_given_up_for_a_while)
{
    uint64_t wakes, rounds;
    void *block;

    now_ms = 5000;
    wm_clock_set(clock_of_test);
    begin(&(warm_options){.segment = 4 * MIB,
                          .reserve_bytes = 16 * MIB,
                          .pinned_limit = 16 * MIB});
    await_reserve(16 * MIB);
    block = wt_memory_take(8 * MIB);
    step();
    await_rest(WM_SLEEP_LONG);
    wakes = wm_background_wakes(background);
    rounds = rounds_now();
    yield_often();
    ck_assert_uint_eq(wm_background_wakes(background), wakes);
    ck_assert_uint_eq(rounds_now(), rounds);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    wt_memory_end();
    wm_clock_set(NULL);
}
END_TEST

/* Then it is asked for again, once a request finds it short. */
START_TEST(test_B10_reserve_that_could_not_be_had_is_had_later)
{
    void *block[3];

    now_ms = 5000;
    wm_clock_set(clock_of_test);
    begin(&(warm_options){
        .segment = 4 * MIB, .magazines = "off", .reserve_bytes = 8 * MIB});
    await_reserve(8 * MIB);
    atomic_store_explicit(&wt_memory.refusing, 1, memory_order_relaxed);
    block[0] = wt_memory_take(4 * MIB);
    step();
    ck_assert_uint_gt(wt_memory.refused, 0);
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 4 * MIB);
    atomic_store_explicit(&wt_memory.refusing, 0, memory_order_relaxed);
    block[1] = wt_memory_take(MIB);
    step();
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 3 * MIB);
    atomic_fetch_add_explicit(&now_ms, 1000, memory_order_relaxed);
    block[2] = wt_memory_take(MIB);
    await_reserve(8 * MIB);
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_free(block[i]));
    }
    wt_memory_end();
    wm_clock_set(NULL);
}
END_TEST

/* Memory above the reserve goes back by the thread, not by a request. */
START_TEST(test_B10_B11_what_decays_goes_back_but_for_the_reserve)
{
    void *block[4];

    now_ms = 5000;
    wm_clock_set(clock_of_test);
    begin(&(warm_options){.segment = 4 * MIB,
                          .reserve_bytes = 8 * MIB,
                          .magazines = "off",
                          .decay_ms = 3600000});
    await_reserve(8 * MIB);
    for (int i = 0; i < 4; i++) {
        block[i] = wt_memory_take(4 * MIB);
    }
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_free(block[i]));
    }
    step();
    ck_assert_uint_ge(wt_memory_stats().held_bytes.current, 16 * MIB);
    await_rest(WM_SLEEP_DECAY); /* else it may be about to look once more */
    atomic_fetch_add_explicit(&now_ms, 2 * 3600000, memory_order_relaxed);
    wt_ok(warm_free(wt_memory_take(4 * MIB)));
    ck_assert_uint_eq(wt_memory_calls("pinned_free"), 0);
    step();
    ck_assert_uint_ge(wt_memory_stats().idle_bytes, 8 * MIB);
    ck_assert_uint_le(wt_memory_stats().held_bytes.current, 12 * MIB);
    wt_memory_end();
    wm_clock_set(NULL);
}
END_TEST

/* On its own node. */
START_TEST(test_B10_B11_B15_what_other_nodes_have_idle_decays_whole)
{
    warm_space_stats stats = {.size = sizeof stats};

    now_ms = 5000;
    wm_clock_set(clock_of_test);
    begin(&(warm_options){.segment = 1 * MIB,
                          .numa_nodes = 2,
                          .reserve_bytes = 4 * MIB,
                          .decay_ms = 1000});
    await_reserve(4 * MIB);
    wt_ok(warm_pinned_prewarm(runtime, 4 * MIB, 1, 0));
    atomic_fetch_add_explicit(&now_ms, 5000, memory_order_relaxed);
    step();
    wt_ok(warm_pinned_get_node_stats(runtime, 1, &stats));
    ck_assert_uint_eq(stats.held_bytes.current, 0);
    wt_ok(warm_pinned_get_node_stats(runtime, 0, &stats));
    ck_assert_uint_eq(stats.idle_bytes, 4 * MIB);
    wt_ok(warm_pinned_empty_cache(runtime, NULL));
    wt_runtime_end(runtime);
    wm_clock_set(NULL);
}
END_TEST

/* The thread's clock is the real one, the ages of segments are the test's. */
static void begin_decay(uint64_t decay_ms)
{
    now_ms = 5000;
    wm_clock_set(clock_of_test);
    begin(&(warm_options){
        .segment = 4 * MIB, .magazines = "off", .decay_ms = decay_ms});
}

/* Nothing was held when it fell asleep, and no stream is about. */
START_TEST(test_B10_B11_memory_that_comes_later_decays_too)
{
    begin_decay(1);
    await_rest(WM_SLEEP_LONG);
    wt_ok(warm_free(wt_memory_take(5000)));
    atomic_fetch_add_explicit(&now_ms, 1000, memory_order_relaxed);
    while (wt_memory_stats().held_bytes.current != 0) {
        sched_yield();
    }
    await_rest(WM_SLEEP_LONG);
    wt_memory_end();
    wm_clock_set(NULL);
}
END_TEST

/* A long wait for the age of segments is no reason to leave frees alone. */
START_TEST(test_B10_decay_does_not_put_off_what_is_pending)
{
    warm_stream stream = NULL;

    begin_decay((uint64_t)1 << 40);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_free(wt_memory_take(5000)));
    await_rest(WM_SLEEP_DECAY);
    leave_pending(stream, 5000);
    atomic_fetch_add_explicit(&now_ms, 1000, memory_order_relaxed);
    while (wt_memory_stats().pending.current != 0) {
        sched_yield();
    }
    await_rest(WM_SLEEP_DECAY);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
    wm_clock_set(NULL);
}
END_TEST

/* ---- begin and end ---------------------------------------------------- */

START_TEST(test_there_is_no_thread_unless_asked_for)
{
    warm_stream stream;

    runtime = wt_memory_begin(NULL);
    background = &wt_memory_space()->background;
    stream = held_stream();
    leave_pending(stream, 5000);
    ck_assert(!background->started);
    ck_assert_int_eq(rest_now(), WM_SLEEP_NONE);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
    wt_memory_end();
}
END_TEST

/* Whatever it is about: waiting, polling or page-locking. */
START_TEST(test_B10_thread_ends_with_the_runtime)
{
    for (unsigned i = 0; i < wt_scaled(50); i++) {
        warm_options options = {.size = sizeof options,
                                .device = "host",
                                .background = "on",
                                .segment = 1 * MIB,
                                .reserve_bytes = i % 3 * MIB};
        warm_stream stream = NULL;

        runtime = wt_runtime(&options);
        wt_ok(warm_stream_create(runtime, 0, &stream));
        for (unsigned k = 0; k < i % 7; k++) {
            void *block = NULL;

            wt_ok(warm_pinned_alloc(runtime, 5000, &block));
            wt_ok(warm_record_stream(block, stream));
            wt_ok(warm_free(block));
        }
        if (i % 5 == 0) {
            wt_ok(warm_pinned_prewarm(runtime, 4 * MIB, 0,
                                      WARM_PREWARM_BACKGROUND));
        }
        wt_ok(warm_stream_destroy(runtime, stream));
        wt_ok(warm_runtime_destroy(runtime, NULL));
    }
}
END_TEST

/* Runs after the library's own handler. The thread, which had something to
 * poll every 10 ms, ends the round that it may be in, and begins no other
 * however often it is woken. */
static void after_exit_began(void)
{
    uint64_t before = rounds_now();
    wt_linger linger = {0};

    while (wt_lingers(&linger)) {
        wm_waker_wake(&background->waker);
    }
    _exit(rounds_now() <= before + 1 ? 0 : 1);
}

static void leave_with_work(void)
{
    atexit(after_exit_began);
    begin(&(warm_options){.segment = 1 * MIB, .reserve_bytes = 2 * MIB});
    leave_pending(held_stream(), 5000);
    await_rest(WM_SLEEP_SHORT);
    exit(2);
}

static void use_parents_runtime(void)
{
    void *block = NULL;

    _exit(warm_pinned_alloc(runtime, 1, &block) == WARM_FORKED &&
                  warm_pinned_prewarm_wait(runtime) == WARM_FORKED &&
                  warm_runtime_destroy(runtime, NULL) == WARM_FORKED
              ? 0
              : 1);
}

static void in_child(void (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();

    wt_require(pid >= 0, "no child");
    if (pid == 0) {
        fn();
        _exit(3);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

START_TEST(test_A6_thread_calls_no_driver_once_the_process_exits)
{
    in_child(leave_with_work);
}
END_TEST

START_TEST(test_G5_forked_child_has_no_thread_and_does_not_wait_for_it)
{
    warm_stream stream;

    begin(&(warm_options){.segment = 1 * MIB, .reserve_bytes = 2 * MIB});
    stream = held_stream();
    leave_pending(stream, 5000);
    in_child(use_parents_runtime);
    wt_ok(warm_testing_resume(runtime, stream));
    while (wt_memory_stats().pending.current != 0) {
        sched_yield();
    }
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("background");
    TCase *tcase = tcase_create("background");

    tcase_add_test(tcase, test_B10_finished_work_is_collected_without_a_call);
    tcase_add_test(tcase, test_thread_closes_old_batches_only);
    tcase_add_test(tcase, test_free_that_becomes_pending_wakes_the_thread);
    tcase_add_test(tcase, test_thread_does_not_wake_up_while_nothing_goes_on);
    tcase_add_test(tcase, test_B7_thread_polls_while_another_captures);
    tcase_add_test(tcase, test_B10_thread_takes_no_signals);
    tcase_add_test(tcase, test_B10_reserve_is_kept_ahead_of_demand);
    tcase_add_test(tcase, test_B10_requests_go_on_while_the_reserve_is_filled);
    tcase_add_test(tcase, test_B10_reserve_that_could_not_be_had_is_had_later);
    tcase_add_test(tcase,
                   test_reserve_that_cannot_be_had_is_given_up_for_a_while);
    tcase_add_test(tcase,
                   test_B10_B11_what_decays_goes_back_but_for_the_reserve);
    tcase_add_test(tcase,
                   test_B10_B11_B15_what_other_nodes_have_idle_decays_whole);
    tcase_add_test(tcase, test_B10_B11_memory_that_comes_later_decays_too);
    tcase_add_test(tcase, test_B10_decay_does_not_put_off_what_is_pending);
    tcase_add_test(tcase, test_there_is_no_thread_unless_asked_for);
    tcase_add_test(tcase, test_B10_thread_ends_with_the_runtime);
    tcase_add_test(tcase,
                   test_A6_thread_calls_no_driver_once_the_process_exits);
    tcase_add_test(tcase,
                   test_G5_forked_child_has_no_thread_and_does_not_wait_for_it);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
