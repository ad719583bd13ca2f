/* check_space.c: the ladder of an allocation when several threads are on it,
 * and decay (rows B7, B11, B12, G6). Host device; its memory calls take as long
 * as a test wants them to, and time passes when a test says so. */
/* memcheck: one process */
#include "wt_memory.h"
#include "wt_short.h"

#include "alloc/kinds/device_space.h"
#include "runtime/base/clock.h"

#include <pthread.h>
#include <string.h>

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

/* Thread 0 goes into the driver and waits there, 1 does its part meanwhile, 2
 * opens the door once 1 is done, or has had the time to. */
static struct {
    void (*first)(void);
    void (*second)(void);
    _Atomic bool second_done;
    warm_status status[2];
    void *pointer[2];
    bool beside; /* the second must get through, however long that takes */
} act;

static warm_status free_at_door(wm_driver *d, void *pointer, size_t bytes)
{
    if (wt_flag(&wt_memory.closed)) {
        wt_set(&wt_memory.inside, true);
        while (wt_flag(&wt_memory.closed)) {
            sched_yield();
        }
    }
    return wt_memory_free(d, pointer, bytes);
}

static void begin(const warm_options *options)
{
    memset(&act, 0, sizeof act); /* tests may share a process */
    pass_ms(5000);
    wm_clock_set(clock_of_test);
    runtime = wt_memory_begin(options);
    wt_memory.ops.pinned_free = free_at_door;
}

static void end(void)
{
    ck_assert(wm_space_check_settled(wt_memory_space()));
    wt_memory_end();
    wm_clock_set(NULL);
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
    wt_await(&wt_memory.inside);
    if (index == 1) {
        act.second();
        wt_set(&act.second_done, true);
        return;
    }
    while ((wt_lingers(&linger) || act.beside) && !wt_flag(&act.second_done)) {
    }
    wt_set(&wt_memory.closed, false);
}

static void play_both(void (*first)(void), void (*second)(void))
{
    act.first = first;
    act.second = second;
    wt_set(&wt_memory.closed, true);
    wt_threads(3, play, NULL);
    wt_ok(act.status[0]);
    wt_ok(act.status[1]);
}

static void first_trims(void)
{
    act.status[0] = warm_pinned_trim(runtime, 0, NULL);
}

static void first_grows(void)
{
    act.status[0] = warm_pinned_alloc(runtime, 24 * MIB, &act.pointer[0]);
}

static void second_allocates(void)
{
    act.status[1] = warm_pinned_alloc(runtime, 24 * MIB, &act.pointer[1]);
}

/* A request waits for a segment that a trim is returning. */
WT_TEST(test_B12_segment_that_another_thread_gives_back_is_room)
{
    begin(&(warm_options){.pinned_high = 32 * MIB});
    wt_ok(warm_free(wt_memory_take(20 * MIB)));
    play_both(first_trims, second_allocates);
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 24 * MIB);
    wt_ok(warm_free(act.pointer[1]));
    end();
}

/* As above, but another request returns the segment. */
WT_TEST(test_B12_segment_that_another_request_gives_back_is_room)
{
    begin(&(warm_options){.pinned_high = 48 * MIB});
    wt_ok(warm_free(wt_memory_take(20 * MIB)));
    wt_ok(warm_free(wt_memory_take(22 * MIB)));
    play_both(first_grows, second_allocates);
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 48 * MIB);
    wt_free(act.pointer[0], act.pointer[1]);
    end();
}

/* While a thread grows, another one hits, frees, polls and reads figures. */
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
    /* If any of these waited for the growth, the door is open by now. */
    act.pointer[1] = wt_flag(&wt_memory.closed) ? &act : NULL;
}

WT_TEST(test_B12_others_are_served_while_one_grows)
{
    begin(&(warm_options){.decay_ms = 1000});
    wt_ok(warm_free(wt_memory_take(5000)));
    act.beside = true;
    play_both(first_grows, second_is_served);
    ck_assert_ptr_nonnull(act.pointer[1]);
    wt_ok(warm_free(act.pointer[0]));
    end();
}

/* ---- what a call leaves behind ---------------------------------------- */

/* False if the thread's capture mode is relaxed. */
static bool mode_is_back(void)
{
    bool relaxed = true;
    bool before;

    wt_ok(wm_driver_capture_mode(runtime->driver, &relaxed));
    before = relaxed;
    wt_ok(wm_driver_capture_mode(runtime->driver, &relaxed));
    return !before;
}

WT_TEST(test_B7_threads_capture_mode_is_as_before)
{
    warm_stream stream = NULL;
    void *block, *pointer = NULL;

    begin(&(warm_options){.pinned_high = 32 * MIB});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    block = wt_memory_take(20 * MIB);
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
    /* And the thread can be cancelled as before, though the mode is refused. */
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    wt_fails(WARM_DRIVER_ERROR, warm_pinned_trim(runtime, 0, NULL));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    wt_ok(warm_stream_destroy(runtime, stream));
    end();
}

WT_TEST(test_G6_request_that_recovers_leaves_no_error)
{
    void *block;

    begin(NULL);
    wt_fails(WARM_INVALID_POINTER, warm_free(&block));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 0));
    block = wt_memory_take(5000);
    ck_assert_uint_eq(wt_memory_stats().driver_alloc.count, 2);
    wt_says("was not allocated by warmpool");
    wt_ok(warm_free(block));
    end();
}

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

/* No call is a cancellation point, even if a user's callback is. */
WT_TEST(test_B12_cancelled_thread_finishes_its_call)
{
    pthread_t thread;
    void *result = NULL;

    begin(&(warm_options){.pinned_high = 32 * MIB});
    wt_ok(wt_short_add(runtime, be_cancelled, NULL));
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_cancelled, NULL),
                     0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert(returned);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    wt_fails(WARM_OUT_OF_MEMORY, act.status[0]);
    end();
}

/* ---- decay ------------------------------------------------------------ */

WT_TEST(test_B11_segments_idle_for_decay_ms_go_back_at_a_poll)
{
    void *early, *late;

    begin(&(warm_options){.decay_ms = 1000});
    early = wt_memory_take(8 * MIB);
    late = wt_memory_take(9 * MIB);
    wt_ok(warm_free(early));
    pass_ms(600);
    wt_ok(warm_free(late));
    pass_ms(399);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 17 * MIB);
    pass_ms(1);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 9 * MIB);
    /* A segment used in between ages anew; a miss polls by itself. */
    late = wt_memory_take(9 * MIB);
    pass_ms(2000);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_free(late));
    pass_ms(999);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 9 * MIB);
    pass_ms(1);
    early = wt_memory_take(16 * MIB);
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 16 * MIB);
    wt_ok(warm_free(early));
    ck_assert_uint_eq(wt_memory_stats().driver_free.count, 2);
    end();
}

WT_TEST(test_B11_nothing_decays_unless_asked)
{
    begin(NULL);
    wt_ok(warm_free(wt_memory_take(100)));
    pass_ms((uint64_t)1 << 40);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().segments.current, 1);
    end();
}

/* Memory of a device is of no node, whichever is next to the device. */
WT_TEST(test_B11_B15_C8_what_a_device_beside_another_node_has_goes_back)
{
    warm_options given = {.size = sizeof given,
                          .test = "numa_nodes=2:arenas=1"};
    const wm_space *space;
    size_t released = 0;
    wm_options all;
    wm_driver *driver = NULL;

    wt_ok(wm_options_resolve(&given, NULL, &all));
    wt_ok(wm_host_open(&all, &driver));
    wm_driver_set_device_node(driver, 0, 1);
    wt_ok(wm_runtime_create_on(driver, &given, &runtime));
    ck_assert_int_eq(runtime->pinned->space.background.reserve_node, 1);
    space = &runtime->device_spaces[0].space;
    ck_assert_int_lt(space->background.reserve_node, space->group.nodes);
    wt_ok(warm_free(wt_device(runtime, NULL, MIB)));
    wt_ok(warm_device_trim(runtime, 0, 0, &released));
    ck_assert_uint_gt(released, 0);
    wt_runtime_end(runtime);
}

/* Idle memory beyond the reserve decays, the reserve does not. */
WT_TEST(test_B11_B17_the_reserve_does_not_decay)
{
    begin(&(warm_options){.decay_ms = 1000, .reserve_bytes = 16 * MIB});
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 16 * MIB);
    wt_ok(warm_free(wt_pinned(runtime, 32 * MIB)));
    ck_assert_uint_ge(wt_memory_stats().held_bytes.current, 48 * MIB);
    pass_ms(1000);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 16 * MIB);
    pass_ms(5000);
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 16 * MIB);
    end();
}

/* The background thread serves page-locked memory: a device's decays although
 * there is one. */
WT_TEST(test_B11_C8_a_device_decays_beside_a_background_thread)
{
    void *block;

    begin(&(warm_options){.decay_ms = 1000, .background = "on"});
    wt_ok(warm_free(wt_device(runtime, NULL, 16 * MIB)));
    pass_ms(1000);
    block = wt_device(runtime, NULL, 100); /* misses */
    ck_assert_uint_eq(wt_device_stats(runtime).large.held_bytes.current, 0);
    wt_ok(warm_free(block));
    end();
}

/* A device has none of the reserve: all of its idle memory goes back. */
WT_TEST(test_B11_B17_C8_the_reserve_is_page_locked_memory)
{
    void *block;

    begin(&(warm_options){.decay_ms = 1000, .reserve_bytes = 16 * MIB});
    wt_ok(warm_free(wt_device(runtime, NULL, 16 * MIB)));
    pass_ms(1000);
    block = wt_device(runtime, NULL, 100); /* misses */
    ck_assert_uint_eq(wt_device_stats(runtime).large.held_bytes.current, 0);
    ck_assert_uint_ge(wt_memory_stats().idle_bytes, 16 * MIB);
    wt_ok(warm_free(block));
    end();
}

static warm_status talk(wm_space *space, const wm_arena *arena, size_t bytes,
                        size_t *piece, void **base)
{
    (void)space;
    (void)arena;
    (void)bytes;
    (void)piece;
    (void)base;
    return wm_fail(WARM_OUT_OF_MEMORY, "%0500d", 0);
}

/* The figures precede the driver's reason, which may be cut off. */
WT_TEST(test_B12_long_reason_does_not_hide_the_figures)
{
    const wm_space_traits talkative = {.name = "pinned", .obtain = talk};
    const wm_space_traits *real;
    const char *message = warm_last_error_message();
    void *pointer = NULL;

    begin(&(warm_options){.pinned_high = WARM_OFF});
    real = wt_memory_space()->traits;
    wt_memory_space()->traits = &talkative;
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 3000, &pointer));
    wt_memory_space()->traits = real;
    ck_assert_ptr_nonnull(strstr(message, "held 0 B"));
    ck_assert_ptr_nonnull(strstr(message, "pending 0 B"));
    ck_assert_ptr_nonnull(strstr(message, "limit none; gave nothing: "));
    end();
}
