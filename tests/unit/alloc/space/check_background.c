/* check_background.c: the background thread (row B10). Host device. Tests make
 * the thread run rounds, or wait for it; that it does nothing is shown by how
 * often it wakes. */
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
    /* It does not look at the machine's pressure, which would wake it. */
    atomic_store_explicit(&wt_memory_space()->pressure.pause_ns, UINT64_MAX,
                          memory_order_relaxed);
}

/* Under the lock: before the thread sleeps it stores WM_SLEEP_LONG for a
 * moment, while it looks for work. */
static int sleep_now(void)
{
    int sleep;

    wm_lock_acquire(&background->waker.lock);
    sleep =
        atomic_load_explicit(&background->waker.sleep, memory_order_relaxed);
    wm_lock_release(&background->waker.lock);
    return sleep;
}

static void await_sleep(int sleep)
{
    while (sleep_now() != sleep) {
        sched_yield();
    }
}

static void await_none_pending(void)
{
    while (wt_memory_stats().pending.current != 0) {
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

/* A round ends even if the thread does not sleep after it. */
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
    warm_stream stream = wt_stream(runtime, 0);

    wt_ok(warm_testing_hold(runtime, stream));
    return stream;
}

/* ---- collecting ------------------------------------------------------- */

WT_TEST(test_B10_finished_work_is_collected_without_a_call)
{
    warm_stream stream;
    wm_pressure *pressure;

    begin(&(warm_options){.segment = 4 * MIB});
    stream = held_stream();
    pressure = &runtime->pinned->space.pressure;
    atomic_store(&pressure->read_ns, 0);
    step();
    ck_assert_uint_eq(atomic_load(&pressure->read_ns), 0); /* nothing is held */
    leave_pending(stream, 5000);
    step();
    ck_assert_uint_eq(wt_memory_stats().pending.current, 1);
    ck_assert_int_ne(sleep_now(), WM_SLEEP_LONG);
    wt_ok(warm_testing_resume(runtime, stream));
    await_none_pending();
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}

/* Else a batch would hold the frees of one interval only. */
WT_TEST(test_thread_closes_old_batches_only)
{
    warm_stream stream = NULL;

    begin(&(warm_options){.segment = 4 * MIB, .test = "batch_ms=3600000"});
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

/* The thread sleeps until it is woken, which the free does. */
WT_TEST(test_free_that_becomes_pending_wakes_the_thread)
{
    warm_stream stream;
    uint64_t wakes;

    begin(&(warm_options){.segment = 4 * MIB});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    for (unsigned i = 0; i < wt_scaled(200); i++) {
        await_sleep(WM_SLEEP_LONG);
        wakes = wm_background_wakes(background);
        leave_pending(stream, 5000);
        await_none_pending();
        ck_assert_uint_gt(wm_background_wakes(background), wakes);
    }
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}

/* How the thread seems to sleep while it returns a region. */
static _Atomic int while_at_work;

static warm_status note_sleep(wm_driver *d, void *pointer, size_t bytes)
{
    while_at_work = sleep_now();
    return wt_memory_free(d, pointer, bytes);
}

/* Nobody has to wake it then, though its sleep ended by itself. */
WT_TEST(test_B10_a_thread_that_works_does_not_sleep)
{
    begin(&(warm_options){.segment = 4 * MIB, .decay_ms = 20});
    wt_memory.ops.pinned_free = note_sleep;
    while_at_work = WM_SLEEP_LONG;
    wt_ok(warm_free(wt_memory_take(3 * MIB)));
    while (wt_memory.returned == 0) {
        sched_yield();
    }
    ck_assert_int_eq(while_at_work, WM_SLEEP_NONE);
    wt_memory_end();
}

WT_TEST(test_thread_does_not_wake_up_while_nothing_goes_on)
{
    uint64_t wakes;

    begin(&(warm_options){.segment = 4 * MIB, .reserve_bytes = 2 * MIB});
    step();
    wt_ok(warm_free(wt_memory_take(5000)));
    await_sleep(WM_SLEEP_LONG);
    wakes = wm_background_wakes(background);
    yield_often();
    /* Hits and frees do not wake it. */
    for (int i = 0; i < 100; i++) {
        wt_ok(warm_free(wt_memory_take(5000)));
    }
    yield_often();
    ck_assert_uint_eq(wm_background_wakes(background), wakes);
    ck_assert_int_eq(sleep_now(), WM_SLEEP_LONG);
    wt_memory_end();
}

/* The thread's calls do not break another thread's capture. */
WT_TEST(test_B7_thread_polls_while_another_captures)
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
    await_none_pending();
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, busy));
    wt_memory_end();
}

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

WT_TEST(test_B10_thread_takes_no_signals)
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

/* ---- the reserve ------------------------------------------------------ */

static void await_reserve(size_t bytes)
{
    /* Cached blocks do not count as reserve. */
    while (wt_memory_stats().idle_bytes - wt_memory_stats().cached_bytes <
           bytes) {
        sched_yield();
    }
}

enum { BLOCKS = 10 };

WT_TEST(test_B10_reserve_is_kept_ahead_of_demand)
{
    void *block[BLOCKS];

    begin(&(warm_options){.segment = 4 * MIB, .reserve_bytes = 16 * MIB});
    for (int i = 0; i < BLOCKS; i++) {
        await_reserve(16 * MIB);
        block[i] = wt_memory_take(4 * MIB);
    }
    await_reserve(16 * MIB);
    /* No request called the driver. */
    ck_assert_uint_eq(wt_memory_stats().cache_hits, BLOCKS);
    wt_free_all(block, BLOCKS);
    wt_memory_end();
}

/* Requests are served while the thread is inside the driver. */
WT_TEST(test_B10_requests_go_on_while_the_reserve_is_filled)
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

/* ---- ages ---------------------------------------------------------------- */

/* The thread sleeps by the real clock; ages of segments, and when the reserve
 * is tried again, are by this one. */
static _Atomic uint64_t now_ms;

static uint64_t clock_of_test(void)
{
    return atomic_load_explicit(&now_ms, memory_order_relaxed) * 1000000;
}

static void pass_ms(uint64_t ms)
{
    atomic_fetch_add_explicit(&now_ms, ms, memory_order_relaxed);
}

static void set_clock(void)
{
    now_ms = 5000;
    wm_clock_set(clock_of_test);
}

static void reset_clock(void)
{
    wm_clock_set(NULL);
}

static uint64_t retry_now(void)
{
    return atomic_load_explicit(&background->retry_ns, memory_order_relaxed);
}

WT_CASE("ages", .setup = set_clock, .teardown = reset_clock);

/* It is not tried again until RETRY is over; time stands still. */
WT_TEST(test_reserve_that_cannot_be_had_is_given_up_for_a_while)
{
    uint64_t retry;
    void *block;

    begin(&(warm_options){.segment = 4 * MIB,
                          .reserve_bytes = 16 * MIB,
                          .pinned_high = 16 * MIB});
    await_reserve(16 * MIB);
    block = wt_memory_take(8 * MIB);
    step();
    await_sleep(WM_SLEEP_DECAY);
    retry = retry_now();
    yield_often();
    step();
    ck_assert_uint_eq(retry_now(), retry);
    pass_ms(1000);
    step();
    ck_assert_uint_gt(retry_now(), retry);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    wt_memory_end();
}

/* Though no request finds it short. */
WT_TEST(test_B10_reserve_is_tried_again_while_nothing_is_held)
{
    begin(&(warm_options){.segment = 4 * MIB, .reserve_bytes = 8 * MIB});
    await_reserve(8 * MIB);
    atomic_store_explicit(&wt_memory.refusing, 1, memory_order_relaxed);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    step();
    ck_assert_uint_gt(wt_memory.refused, 0);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 0);
    atomic_store_explicit(&wt_memory.refusing, 0, memory_order_relaxed);
    await_sleep(WM_SLEEP_DECAY);
    pass_ms(1000);
    await_reserve(8 * MIB);
    wt_memory_end();
}

/* After that the next request that finds it short wakes the thread. */
WT_TEST(test_B10_reserve_that_could_not_be_had_is_had_later)
{
    void *block[3];

    begin(&(warm_options){
        .segment = 4 * MIB, .keep = WARM_OFF, .reserve_bytes = 8 * MIB});
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
    pass_ms(1000);
    block[2] = wt_memory_take(MIB);
    await_reserve(8 * MIB);
    wt_free_all(block, 3);
    wt_memory_end();
}

/* The thread returns memory above the reserve; a request does not. */
WT_TEST(test_B10_B11_what_decays_goes_back_but_for_the_reserve)
{
    void *block[4];

    begin(&(warm_options){.segment = 4 * MIB,
                          .reserve_bytes = 8 * MIB,
                          .keep = WARM_OFF,
                          .decay_ms = 3600000});
    await_reserve(8 * MIB);
    for (int i = 0; i < 4; i++) {
        block[i] = wt_memory_take(4 * MIB);
    }
    wt_free_all(block, 4);
    step();
    ck_assert_uint_ge(wt_memory_stats().held_bytes.current, 16 * MIB);
    await_sleep(WM_SLEEP_DECAY); /* else it may begin another round */
    pass_ms(2 * 3600000);
    wt_ok(warm_free(wt_memory_take(4 * MIB)));
    ck_assert_uint_eq(wt_memory_calls("pinned_free"), 0);
    step();
    ck_assert_uint_ge(wt_memory_stats().idle_bytes, 8 * MIB);
    ck_assert_uint_le(wt_memory_stats().held_bytes.current, 12 * MIB);
    wt_memory_end();
}

/* The reserve is on one node. */
WT_TEST(test_B10_B11_B15_what_other_nodes_have_idle_decays_whole)
{
    warm_space_stats stats = {.size = sizeof stats};

    begin(&(warm_options){.segment = 1 * MIB,
                          .test = "numa_nodes=2",
                          .reserve_bytes = 4 * MIB,
                          .decay_ms = 1000});
    await_reserve(4 * MIB);
    wt_ok(warm_pinned_prewarm(runtime, 4 * MIB, 1, 0));
    pass_ms(5000);
    step();
    wt_ok(warm_pinned_get_node_stats(runtime, 1, &stats));
    ck_assert_uint_eq(stats.held_bytes.current, 0);
    wt_ok(warm_pinned_get_node_stats(runtime, 0, &stats));
    ck_assert_uint_eq(stats.idle_bytes, 4 * MIB);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_runtime_end(runtime);
}

static void begin_decay(uint64_t decay_ms)
{
    begin(&(warm_options){
        .segment = 4 * MIB, .keep = WARM_OFF, .decay_ms = decay_ms});
}

/* Nothing was held when the thread fell asleep; no stream is used. */
WT_TEST(test_B10_B11_memory_that_comes_later_decays_too)
{
    begin_decay(1);
    await_sleep(WM_SLEEP_LONG);
    wt_ok(warm_free(wt_memory_take(5000)));
    pass_ms(1000);
    while (wt_memory_stats().held_bytes.current != 0) {
        sched_yield();
    }
    await_sleep(WM_SLEEP_LONG);
    wt_memory_end();
}

/* A pending free wakes the thread though no segment is old for long. */
WT_TEST(test_B10_decay_does_not_put_off_what_is_pending)
{
    warm_stream stream = NULL;

    begin_decay((uint64_t)1 << 40);
    wt_ok(warm_stream_create(runtime, 0, &stream));
    wt_ok(warm_free(wt_memory_take(5000)));
    await_sleep(WM_SLEEP_DECAY);
    leave_pending(stream, 5000);
    pass_ms(1000);
    await_none_pending();
    await_sleep(WM_SLEEP_DECAY);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}

/* ---- begin and end ------------------------------------------------------- */

WT_CASE("begin and end");

WT_TEST(test_there_is_no_thread_unless_asked_for)
{
    warm_stream stream;

    runtime = wt_memory_begin(NULL);
    background = &wt_memory_space()->background;
    stream = held_stream();
    leave_pending(stream, 5000);
    ck_assert(!background->started);
    ck_assert_int_eq(sleep_now(), WM_SLEEP_NONE);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
    wt_memory_end();
}

/* Whatever it does: sleep, poll or page-lock. */
WT_TEST(test_B10_thread_ends_with_the_runtime)
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

/* Runs after the library's own handler. The thread, which polled every 10 ms,
 * ends the round that it may be in, and begins no other however often it is
 * woken. */
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
    await_sleep(WM_SLEEP_SHORT);
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

WT_TEST(test_A6_thread_calls_no_driver_once_the_process_exits)
{
    in_child(leave_with_work);
}

WT_TEST(test_G5_forked_child_has_no_thread_and_does_not_wait_for_it)
{
    warm_stream stream;

    begin(&(warm_options){.segment = 1 * MIB, .reserve_bytes = 2 * MIB});
    stream = held_stream();
    leave_pending(stream, 5000);
    in_child(use_parents_runtime);
    wt_ok(warm_testing_resume(runtime, stream));
    await_none_pending();
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}
