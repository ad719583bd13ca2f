/* check_space.c: the ladder of an allocation when several threads stand on it,
 * and decay (rows B7, B11, B12, G6). Host device; its memory calls take as long
 * as a test wants them to, and time passes when a test says so. */
/* memcheck: one process */
#include "wt.h"

#include "alloc/kinds/pinned.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;

static _Atomic uint64_t now_ms;

static uint64_t clock_of_test(void)
{
    return atomic_load_explicit(&now_ms, memory_order_relaxed) * 1000000;
}

static void pass_ms(uint64_t ms)
{
    atomic_fetch_add_explicit(&now_ms, ms, memory_order_relaxed);
}

/* ---- memory calls that wait ------------------------------------------- */

static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    _Atomic bool closed;  /* the next call waits inside the driver */
    _Atomic bool inside;  /* one does */
    _Atomic bool settled; /* the other thread is done with its part */
} door;

static bool flag(_Atomic bool *value)
{
    return atomic_load_explicit(value, memory_order_acquire);
}

static void set(_Atomic bool *value, bool to)
{
    atomic_store_explicit(value, to, memory_order_release);
}

static void pass_door(void)
{
    if (flag(&door.closed)) {
        set(&door.inside, true);
        while (flag(&door.closed)) {
            sched_yield();
        }
    }
}

static warm_status slow_alloc(wm_driver *d, size_t bytes, void **pointer)
{
    pass_door();
    return door.real->pinned_alloc(d, bytes, pointer);
}

static warm_status slow_free(wm_driver *d, void *pointer, size_t bytes)
{
    pass_door();
    return door.real->pinned_free(d, pointer, bytes);
}

/* Thread 0 goes into the driver and waits there, 1 does its part meanwhile, 2
 * opens the door once 1 is done, or has had the time to. */
static struct {
    void (*first)(void);
    void (*second)(void);
    warm_status status[2];
    void *pointer[2];
    bool beside; /* the second must get through, however long that takes */
} act;

static void begin(warm_options *options)
{
    /* Tests may share a process. */
    memset(&door, 0, sizeof door);
    memset(&act, 0, sizeof act);
    pass_ms(5000);
    wm_clock_set(clock_of_test);
    options->device = "host";
    runtime = wt_runtime(options);
    door.real = runtime->driver->ops;
    door.ops = *door.real;
    door.ops.pinned_alloc = slow_alloc;
    door.ops.pinned_free = slow_free;
    runtime->driver->ops = &door.ops;
}

static void end(void)
{
    ck_assert(wm_space_check_settled(&runtime->pinned->space));
    wt_runtime_end(runtime);
    wm_clock_set(NULL);
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

/* ---- several threads -------------------------------------------------- */

static void play(void *argument, unsigned index)
{
    wt_linger linger = {0};

    (void)argument;
    if (index == 0) {
        act.first();
        return;
    }
    while (!flag(&door.inside)) {
        sched_yield();
    }
    if (index == 1) {
        act.second();
        set(&door.settled, true);
        return;
    }
    while ((wt_lingers(&linger) || act.beside) && !flag(&door.settled)) {
    }
    set(&door.closed, false);
}

static void play_both(void (*first)(void), void (*second)(void))
{
    act.first = first;
    act.second = second;
    set(&door.closed, true);
    wt_threads(3, play, NULL);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
}

static void first_trims(void)
{
    act.status[0] = warm_pinned_empty_cache(runtime, NULL);
}

static void first_grows(void)
{
    act.status[0] = warm_pinned_alloc(runtime, 24 * MIB, &act.pointer[0]);
}

static void second_allocates(void)
{
    act.status[1] = warm_pinned_alloc(runtime, 24 * MIB, &act.pointer[1]);
}

/* Memory on its way back to the system is waited for: it is neither out of
 * reach nor gone. */
START_TEST(test_B12_segment_that_another_thread_gives_back_is_room)
{
    begin(&(warm_options){.size = sizeof(warm_options),
                          .pinned_limit = 32 * MIB});
    wt_ok(warm_free(take(20 * MIB)));
    play_both(first_trims, second_allocates);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 24 * MIB);
    wt_ok(warm_free(act.pointer[1]));
    end();
}
END_TEST

/* As above, but the ladder of another request gives it back. */
START_TEST(test_B12_segment_that_another_request_gives_back_is_room)
{
    begin(&(warm_options){.size = sizeof(warm_options),
                          .pinned_limit = 48 * MIB});
    wt_ok(warm_free(take(20 * MIB)));
    wt_ok(warm_free(take(22 * MIB)));
    play_both(first_grows, second_allocates);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 48 * MIB);
    wt_ok(warm_free(act.pointer[0]));
    wt_ok(warm_free(act.pointer[1]));
    end();
}
END_TEST

/* One grows, which may take seconds; hits, frees, polls and figures go on. */
static void second_is_served(void)
{
    void *pointer = NULL;
    warm_space_stats stats = {.size = sizeof stats};

    pass_ms(5000);
    act.status[1] = warm_pinned_alloc(runtime, 5000, &pointer);
    if (act.status[1] == WARM_OK) {
        act.status[1] = warm_free(pointer);
    }
    if (act.status[1] == WARM_OK) {
        act.status[1] = warm_poll(runtime);
    }
    if (act.status[1] == WARM_OK) {
        act.status[1] = warm_pinned_get_stats(runtime, &stats);
    }
    /* Whatever waited for the growth has met an open door. */
    act.pointer[1] = flag(&door.closed) ? &act : NULL;
}

START_TEST(test_B12_others_are_served_while_one_grows)
{
    begin(&(warm_options){.size = sizeof(warm_options), .decay_ms = 1000});
    wt_ok(warm_free(take(5000)));
    act.beside = true;
    play_both(first_grows, second_is_served);
    ck_assert_ptr_nonnull(act.pointer[1]);
    wt_ok(warm_free(act.pointer[0]));
    end();
}
END_TEST

/* ---- what a call leaves behind ---------------------------------------- */

/* False also while the thread's captures may be disturbed. */
static bool mode_is_back(void)
{
    bool relaxed = true;
    bool before;

    wt_ok(wm_driver_capture_mode(runtime->driver, &relaxed));
    before = relaxed;
    wt_ok(wm_driver_capture_mode(runtime->driver, &relaxed));
    return !before;
}

START_TEST(test_B7_threads_capture_mode_is_as_before)
{
    warm_stream stream = NULL;
    void *block, *pointer = NULL;

    begin(&(warm_options){.size = sizeof(warm_options),
                          .pinned_limit = 32 * MIB});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    block = take(20 * MIB);
    ck_assert(mode_is_back());
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_free(block));
    ck_assert(mode_is_back());
    wt_ok(warm_stream_retire(runtime, stream));
    ck_assert(mode_is_back());
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 40 * MIB, &pointer));
    ck_assert(mode_is_back());
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_poll(runtime));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert(mode_is_back());
    wt_ok(warm_stream_destroy(runtime, stream));
    end();
}
END_TEST

START_TEST(test_G6_request_that_recovers_leaves_no_error)
{
    void *block;

    begin(&(warm_options){.size = sizeof(warm_options)});
    wt_fails(WARM_INVALID_POINTER, warm_free(&block));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 0));
    block = take(5000);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 2);
    ck_assert_ptr_nonnull(
        strstr(warm_last_error_message(), "was not allocated by warmpool"));
    wt_ok(warm_free(block));
    end();
}
END_TEST

static bool returned;

static int be_cancelled(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    pthread_testcancel();
    return 0;
}

static void *allocate_cancelled(void *argument)
{
    void *pointer = NULL;

    (void)pthread_cancel(pthread_self());
    act.status[0] = warm_pinned_alloc(runtime, 40 * MIB, &pointer);
    returned = true;
    pthread_testcancel();
    return argument;
}

/* No call is a cancellation point, whatever a callback of the user is. */
START_TEST(test_B12_cancelled_thread_finishes_its_call)
{
    pthread_t thread;
    void *result = NULL;

    begin(&(warm_options){.size = sizeof(warm_options),
                          .pinned_limit = 32 * MIB});
    wt_ok(warm_memory_callback_add(runtime, be_cancelled, NULL));
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_cancelled, NULL),
                     0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert(returned);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    wt_fails(WARM_OUT_OF_MEMORY, act.status[0]);
    end();
}
END_TEST

/* ---- decay ------------------------------------------------------------ */

START_TEST(test_B11_segments_idle_for_decay_ms_go_back_at_a_poll)
{
    void *early, *late;

    begin(&(warm_options){.size = sizeof(warm_options), .decay_ms = 1000});
    early = take(8 * MIB);
    late = take(9 * MIB);
    wt_ok(warm_free(early));
    pass_ms(600);
    wt_ok(warm_free(late));
    pass_ms(399);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 17 * MIB);
    pass_ms(1);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 9 * MIB);
    /* What is used in between begins anew; a miss polls by itself. */
    late = take(9 * MIB);
    pass_ms(2000);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_free(late));
    pass_ms(999);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 9 * MIB);
    pass_ms(1);
    early = take(16 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 16 * MIB);
    wt_ok(warm_free(early));
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_free.count, 2);
    end();
}
END_TEST

START_TEST(test_B11_nothing_decays_unless_asked)
{
    begin(&(warm_options){.size = sizeof(warm_options)});
    wt_ok(warm_free(take(100)));
    pass_ms((uint64_t)1 << 40);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 1);
    end();
}
END_TEST

static warm_status talk(wm_space *space, int node, size_t bytes, void **base)
{
    (void)space;
    (void)node;
    (void)bytes;
    (void)base;
    return wm_fail(WARM_OUT_OF_MEMORY, "%0500d", 0);
}

/* A driver may have much to say; the figures are there all the same. */
START_TEST(test_B12_long_reason_does_not_hide_the_figures)
{
    const wm_space_traits talkative = {.name = "pinned", .obtain = talk};
    const wm_space_traits *real;
    const char *message = warm_last_error_message();
    void *pointer = NULL;

    begin(&(warm_options){.size = sizeof(warm_options)});
    real = runtime->pinned->space.traits;
    runtime->pinned->space.traits = &talkative;
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 3000, &pointer));
    runtime->pinned->space.traits = real;
    ck_assert_ptr_nonnull(strstr(message, "held 0 B"));
    ck_assert_ptr_nonnull(strstr(message, "pending 0 B"));
    ck_assert_ptr_nonnull(strstr(message, "limit none: 000"));
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("space");
    TCase *tcase = tcase_create("space");

    tcase_add_test(tcase,
                   test_B12_segment_that_another_thread_gives_back_is_room);
    tcase_add_test(tcase,
                   test_B12_segment_that_another_request_gives_back_is_room);
    tcase_add_test(tcase, test_B12_others_are_served_while_one_grows);
    tcase_add_test(tcase, test_B7_threads_capture_mode_is_as_before);
    tcase_add_test(tcase, test_G6_request_that_recovers_leaves_no_error);
    tcase_add_test(tcase, test_B12_cancelled_thread_finishes_its_call);
    tcase_add_test(tcase,
                   test_B11_segments_idle_for_decay_ms_go_back_at_a_poll);
    tcase_add_test(tcase, test_B11_nothing_decays_unless_asked);
    tcase_add_test(tcase, test_B12_long_reason_does_not_hide_the_figures);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
