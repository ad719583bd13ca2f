/* check_limit.c: requests that a limit refuses wait while frees are under
 * way, in the order in which they came (row B12). Host device. A request that
 * must not wait would do so for a minute: the test would time out. */
/* memcheck: one process */
#include "wt.h"
#include "wt_short.h"

#include "alloc/kinds/pinned.h"
#include "alloc/space/space_int.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;

/* A request of a thread of its own. */
typedef struct caller {
    size_t bytes;
    bool shared;
    warm_stream on; /* of device memory; null: of no such memory */
    void *pointer;
    warm_status status;
    _Atomic bool done;
    pthread_t thread;
} caller;

static void *call(void *argument)
{
    caller *c = argument;

    if (c->on != NULL) {
        c->status = warm_device_alloc(runtime, 0, c->on, c->bytes, &c->pointer);
    } else if (c->shared) {
        c->status = warm_shared_alloc(runtime, 0, c->bytes, WARM_USAGE_SHARED,
                                      &c->pointer);
    } else {
        c->status = warm_pinned_alloc(runtime, c->bytes, &c->pointer);
    }
    atomic_store(&c->done, true);
    return NULL;
}

static void start_one(caller *c, size_t bytes, bool shared, warm_stream on)
{
    *c = (caller){.bytes = bytes, .shared = shared, .on = on};
    ck_assert_int_eq(pthread_create(&c->thread, NULL, call, c), 0);
}

static void start(caller *c, size_t bytes)
{
    start_one(c, bytes, false, NULL);
}

static warm_status end(caller *c)
{
    pthread_join(c->thread, NULL);
    return c->status;
}

static bool is_done(caller *c)
{
    return atomic_load(&c->done);
}

/* Requests in the line. */
static unsigned in_line(void)
{
    wm_growth *growth = &runtime->pinned->space.growth;
    unsigned count = 0;

    wm_lock_acquire(&growth->lock);
    for (const wm_limit_wait *w = growth->line; w != NULL; w = w->next) {
        count++;
    }
    wm_lock_release(&growth->lock);
    return count;
}

static void await_line(unsigned count)
{
    while (in_line() != count) {
        sched_yield();
    }
}

/* For as long as a test lingers none of them is done. */
static void stay(caller *a, caller *b)
{
    wt_linger linger = {0};

    while (wt_lingers(&linger)) {
        ck_assert(!is_done(a) && (b == NULL || !is_done(b)));
    }
}

static void begin(uint64_t wait_ms)
{
    runtime = wt_runtime_with(.pinned_high = 16 * MIB, .segment = MIB,
                              .limit_wait_ms = wait_ms);
    stream = wt_stream(runtime, 0);
}

static void setup(void)
{
    begin(60000);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    ck_assert_uint_eq(in_line(), 0);
    wt_runtime_end(runtime);
}

/* Holds the stream, which uses a freed block. */
static void pend(size_t bytes)
{
    void *block = wt_pinned(runtime, bytes);

    wt_stop(runtime, stream);
    wt_free_used(block, stream);
}

WT_CASE("waits", .setup = setup, .teardown = teardown, .timeout = 50);

/* Beside what is live it fits exactly. */
WT_TEST(test_B12_a_request_waits_for_streams_that_are_at_work)
{
    void *live = wt_pinned(runtime, 8 * MIB);
    caller one;

    pend(4 * MIB);
    start(&one, 8 * MIB);
    await_line(1);
    stay(&one, NULL);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&one));
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    wt_free(live, one.pointer);
}

/* Growth that nobody stands before is no wait. */
WT_LOOP_TEST(test_B12_G7_a_wait_at_the_limit_is_in_the_histogram, 2)
{
    warm_space_histograms times = WARM_INIT(warm_space_histograms);
    uint64_t before;
    caller one;

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL,
                              (size_t)_i * 64 * MIB, 0));
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    before = times.growth_wait.count;
    pend(12 * MIB);
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_eq(times.growth_wait.count, before);
    start(&one, 8 * MIB);
    await_line(1);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&one));
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_ge(times.growth_wait.count, before + 1);
    ck_assert_uint_gt(times.growth_wait.total_ns, 0);
    wt_ok(warm_free(one.pointer));
}

WT_TEST(test_B12_requests_are_served_in_the_order_in_which_they_came)
{
    caller first, second;

    pend(16 * MIB);
    start(&first, 12 * MIB);
    await_line(1);
    start(&second, 6 * MIB);
    await_line(2);
    stay(&first, &second);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&first));
    ck_assert(!is_done(&second) || second.status == WARM_OUT_OF_MEMORY);
    wt_ok(warm_free(first.pointer));
    /* Nothing is under way any more but this free. */
    if (end(&second) == WARM_OK) {
        wt_ok(warm_free(second.pointer));
    }
}

WT_TEST(test_B12_a_request_that_would_grow_lets_older_ones_go_first)
{
    caller old, young;

    pend(14 * MIB);
    start(&old, 12 * MIB);
    await_line(1);
    start(&young, MIB); /* there is room for it */
    await_line(2);
    stay(&young, &old);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&old));
    wt_ok(end(&young));
    wt_free(old.pointer, young.pointer);
}

/* Nor does a growth that another limit counts. */
WT_TEST(test_B12_idle_memory_serves_without_a_look_at_the_line)
{
    void *small = wt_pinned(runtime, 100000), *again, *device;
    caller one;

    pend(12 * MIB);
    start(&one, 8 * MIB);
    await_line(1);
    again = wt_pinned(runtime, 100000);
    device = wt_device(runtime, stream, MIB);
    ck_assert(!is_done(&one));
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&one));
    wt_free(small, again, device, one.pointer);
}

/* Spaces with the same limit stand in the same line, and wait for each other's
 * frees. */
WT_TEST(test_B12_F1_shared_buffers_and_pinned_memory_wait_for_each_other)
{
    void *also = wt_pinned(runtime, 8 * MIB);
    caller pinned, shared;

    pend(8 * MIB);
    wt_free_used(also, stream);
    start(&pinned, 9 * MIB);
    await_line(1);
    start_one(&shared, 6 * MIB, true, NULL);
    await_line(2);
    stay(&pinned, &shared);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&pinned));
    wt_ok(end(&shared));
    wt_free(pinned.pointer);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    /* A freed buffer, which the stream still uses. */
    wt_stop(runtime, stream);
    wt_free_used(shared.pointer, stream);
    start(&pinned, 14 * MIB);
    await_line(1);
    stay(&pinned, NULL);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&pinned));
    wt_ok(warm_free(pinned.pointer));
}

/* What is freed while its stream works on is not common: the stream of the
 * request waits for that one. */
WT_TEST(test_B12_C2_memory_of_a_stream_that_works_on_is_waited_for)
{
    warm_stream works = wt_stream(runtime, 0), asks = wt_stream(runtime, 0);
    void *block = wt_device(runtime, works, 12 * MIB);
    wt_gate *gate = wt_gate_hold(runtime, works);
    caller one;

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL, 16 * MIB, 0));
    wt_stop(runtime, stream);
    wt_free_used(block, stream);
    start_one(&one, 8 * MIB, false, asks);
    await_line(1);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&one));
    wt_gate_open(gate);
    ck_assert_ptr_eq(one.pointer, block);
    ck_assert_uint_eq(wt_device_stats(runtime).retries, 0);
    wt_ok(warm_free(one.pointer));
    wt_stream_end(runtime, works);
    wt_stream_end(runtime, asks);
}

/* Memory that another thread is returning is under way, too. */
static _Atomic bool returning, may_return;

static void hold_return(void *context, warm_memory_event event,
                        const warm_segment *segment)
{
    (void)context;
    (void)event;
    (void)segment;
    atomic_store(&returning, true);
    while (!atomic_load(&may_return)) {
        sched_yield();
    }
}

static void *empty_shared(void *unused)
{
    wt_ok(warm_shared_trim(runtime, 0, 0, NULL));
    return unused;
}

WT_TEST(test_B12_F1_memory_that_another_thread_returns_is_waited_for)
{
    warm_memory_callback callback = WARM_INIT(warm_memory_callback);
    void *shared = NULL;
    pthread_t returner;
    caller one;

    callback.name = "hold";
    callback.events = WARM_MEMORY_RETURNING;
    callback.segment = hold_return;
    wt_ok(warm_memory_callback_add(runtime, &callback));
    wt_ok(warm_shared_alloc(runtime, 0, 12 * MIB, WARM_USAGE_SHARED, &shared));
    wt_ok(warm_free(shared));
    ck_assert_int_eq(pthread_create(&returner, NULL, empty_shared, NULL), 0);
    while (!atomic_load(&returning)) {
        sched_yield();
    }
    start(&one, 8 * MIB);
    await_line(1);
    stay(&one, NULL);
    atomic_store(&may_return, true);
    wt_ok(end(&one));
    pthread_join(returner, NULL);
    wt_ok(warm_free(one.pointer));
    wt_ok(warm_memory_callback_remove(runtime, "hold"));
}

/* ---- no wait ------------------------------------------------------------- */

WT_TEST(test_B12_what_can_never_fit_is_refused_at_once)
{
    void *pointer = NULL, *idle;
    warm_space_stats shared = WARM_INIT(warm_space_stats);

    wt_ok(warm_shared_alloc(runtime, 0, MIB, WARM_USAGE_SHARED, &idle));
    wt_ok(warm_free(idle));
    pend(4 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 17 * MIB, &pointer));
    wt_says("limit of 16.0 MiB");
    wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_SHARED, &shared));
    ck_assert_uint_gt(shared.held_bytes.current, 0); /* its return is no use */
    wt_ok(warm_testing_resume(runtime, stream));
}

/* Though another request waits: at its own limit, or at that of all memory. */
WT_LOOP_TEST(test_B12_what_can_never_fit_joins_no_line, 2)
{
    void *pointer = NULL;
    caller one;

    if (_i == 1) {
        wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL, 16 * MIB, 0));
        wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 32 * MIB, 0));
    }
    pend(12 * MIB);
    start(&one, 8 * MIB);
    await_line(1);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 17 * MIB, &pointer));
    ck_assert_uint_eq(in_line(), 1);
    ck_assert(!is_done(&one));
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(end(&one));
    wt_ok(warm_free(one.pointer));
}

WT_TEST(test_B12_without_frees_under_way_a_request_is_refused)
{
    void *live = wt_pinned(runtime, 12 * MIB), *pointer = NULL;

    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 8 * MIB, &pointer));
    ck_assert_ptr_null(pointer);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 1);
    wt_ok(warm_free(live));
}

/* What is live stays; that something else is freed does not help. */
WT_TEST(test_B12_what_does_not_fit_beside_live_memory_is_refused_at_once)
{
    void *live = wt_pinned(runtime, 10 * MIB), *pointer = NULL;

    pend(4 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 8 * MIB, &pointer));
    wt_ok(warm_testing_resume(runtime, stream));
    wt_ok(warm_free(live));
}

static void *live_one;

static int free_and_deny(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    (void)warm_free(live_one);
    live_one = NULL;
    (void)warm_pinned_trim(runtime, 0, NULL);
    return 0;
}

static int free_and_tell(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    (void)warm_free(live_one);
    live_one = NULL;
    return 1;
}

/* What a callback frees serves, also if it says nothing, and also if it was a
 * buffer of another space. */
WT_LOOP_TEST(test_B12_memory_that_came_back_meanwhile_serves, 2)
{
    wt_short_fn callback = _i == 0 ? free_and_deny : free_and_tell;
    void *pointer = NULL;

    if (_i == 0) {
        live_one = wt_pinned(runtime, 12 * MIB);
    } else {
        wt_ok(warm_shared_alloc(runtime, 0, 12 * MIB, WARM_USAGE_SHARED,
                                &live_one));
    }
    wt_ok(wt_short_add(runtime, callback, NULL));
    wt_ok(warm_pinned_alloc(runtime, 14 * MIB, &pointer));
    wt_ok(wt_short_remove(runtime, callback, NULL));
    wt_ok(warm_free(pointer));
}

WT_TEST(test_B12_what_the_driver_refuses_does_not_wait)
{
    void *pointer = NULL;

    pend(4 * MIB);
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
    wt_ok(warm_testing_fail(runtime, "pinned_register", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 8 * MIB, &pointer));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 0, 0));
    wt_ok(warm_testing_fail(runtime, "pinned_register", 0, 0));
    wt_ok(warm_testing_resume(runtime, stream));
}

WT_TEST(test_B12_B18_a_request_that_may_be_pageable_does_not_wait)
{
    void *pointer = NULL;

    pend(12 * MIB);
    wt_ok(warm_pinned_alloc_on(runtime, 8 * MIB, WARM_NODE_ANY,
                               WARM_ALLOC_PAGEABLE_OK, &pointer));
    ck_assert_int_eq(wt_block_info(pointer).pageable, 1);
    wt_ok(warm_free(pointer));
    wt_ok(warm_testing_resume(runtime, stream));
}

static const uint64_t waits[] = {WARM_OFF, 1};

WT_CASE("short", .timeout = 50);

/* Off, or over: the error, and nothing stays in the line. */
WT_LOOP_TEST(test_B12_the_wait_has_an_end, 2)
{
    void *pointer = NULL;

    begin(waits[_i]);
    pend(12 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 8 * MIB, &pointer));
    wt_says("limit of 16.0 MiB", "pending 12.0 MiB");
    ck_assert_uint_eq(in_line(), 0);
    wt_ok(warm_testing_resume(runtime, stream));
    wt_settle(runtime, stream);
    wt_ok(warm_pinned_alloc(runtime, 8 * MIB, &pointer));
    wt_ok(warm_free(pointer));
    teardown();
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 8, TURNS = 40 };

static void nothing(void *argument)
{
    (void)argument;
}

/* Threads that together need all that the limit allows, in both spaces, each
 * with work of its stream; each block has a segment of its own. */
static void use(void *argument, unsigned index)
{
    _Atomic unsigned *failed = argument;
    warm_stream mine = NULL;
    void *pointer;

    if (warm_stream_create(runtime, 0, &mine) != WARM_OK) {
        atomic_fetch_add(failed, 1);
        return;
    }
    for (unsigned i = 0; i < wt_scaled(TURNS); i++) {
        warm_status status;

        pointer = NULL;
        status = index % 2 == 0
                     ? warm_pinned_alloc(runtime, 10 * MIB, &pointer)
                     : warm_shared_alloc(runtime, 0, 10 * MIB,
                                         WARM_USAGE_SHARED, &pointer);
        if (status != WARM_OK ||
            warm_stream_host_func(runtime, mine, nothing, NULL) != WARM_OK ||
            warm_record_stream(pointer, mine) != WARM_OK ||
            warm_free(pointer) != WARM_OK) {
            atomic_fetch_add(failed, 1);
        }
    }
    (void)warm_stream_destroy(runtime, mine);
}

static void play(uint64_t wait_ms, _Atomic unsigned *failed)
{
    runtime = wt_runtime_with(.pinned_high = 80 * MIB, .segment = MIB,
                              .limit_wait_ms = wait_ms);
    stream = wt_stream(runtime, 0);
    wt_threads(THREADS, use, failed);
    wt_settle(runtime, stream);
    teardown();
}

WT_TEST(test_B12_threads_at_the_limit_are_never_refused)
{
    _Atomic unsigned failed = 0;

    play(60000, &failed);
    ck_assert_uint_eq(atomic_load(&failed), 0);
}
