/* check_per_thread.c: code that was built for per-thread default streams, as
 * nvcc --default-stream per-thread does: a null stream means to warmpool what
 * it means to CUDA (row B6), on every backend. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "wt.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define BYTES ((size_t)1 << 20)
#define LARGE ((size_t)32 << 20) /* no thread keeps that for itself */

static warm_runtime *runtime;

static void setup(void)
{
    runtime = wt_runtime(NULL);
}

static void teardown(void)
{
    wt_runtime_end(runtime);
}

/* Work on a thread's own stream that is held, and a thread that has queued it
 * and stays. */
static struct {
    pthread_t thread;
    _Atomic bool open, queued, ends;
    void *block;
    warm_status status;
} other;

static void await(_Atomic bool *flag)
{
    while (!atomic_load_explicit(flag, memory_order_acquire)) {
        sched_yield();
    }
}

static void set(_Atomic bool *flag)
{
    atomic_store_explicit(flag, true, memory_order_release);
}

static void hold(void *argument)
{
    await(argument);
}

/* Allocates on its default stream, queues work there, and frees. */
static void *use_own_stream(void *argument)
{
    other.status = warm_device_alloc(runtime, 0, NULL, LARGE, &other.block);
    if (other.status == WARM_OK) {
        other.status = warm_stream_host_func(runtime, NULL, hold, &other.open);
    }
    if (other.status == WARM_OK) {
        other.status = warm_free(other.block);
    }
    set(&other.queued);
    await(&other.ends);
    if (other.status == WARM_OK) {
        other.status = warm_stream_synchronize(runtime, NULL);
    }
    return NULL;
}

WT_CASE("per_thread", .setup = setup, .teardown = teardown);

/* As one on the legacy stream the next request on it would have the block at
 * once, while the first thread's work on it still runs. */
WT_TEST(test_B6_C1_null_streams_of_two_threads_are_two)
{
    void *mine;

    ck_assert_int_eq(pthread_create(&other.thread, NULL, use_own_stream, NULL),
                     0);
    await(&other.queued);
    wt_ok(other.status);
    wt_ok(warm_stream_query(runtime, NULL));
    mine = wt_device(runtime, NULL, LARGE);
    ck_assert_ptr_ne(mine, other.block);
    set(&other.open);
    set(&other.ends);
    pthread_join(other.thread, NULL);
    wt_ok(other.status);
    wt_ok(warm_free(mine));
}

WT_TEST(test_B4_B6_a_null_stream_that_is_recorded_is_the_threads)
{
    void *block = wt_pinned(runtime, BYTES), *next;
    warm_event event;

    wt_ok(warm_event_create(runtime, 0, &event));
    wt_ok(warm_stream_host_func(runtime, NULL, hold, &other.open));
    wt_fails(WARM_NOT_READY, warm_stream_query(runtime, NULL));
    wt_ok(warm_event_record(runtime, event, NULL));
    wt_fails(WARM_NOT_READY, warm_event_query(runtime, event));
    wt_ok(warm_record_stream(block, NULL));
    wt_ok(warm_free(block));
    next = wt_pinned(runtime, BYTES);
    ck_assert_ptr_ne(next, block);
    set(&other.open);
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_ok(warm_stream_query(runtime, WARM_STREAM_PER_THREAD));
    wt_ok(warm_event_destroy(runtime, event));
    wt_ok(warm_free(next));
}

/* The legacy stream cannot be captured. */
WT_TEST(test_B6_null_is_what_captures_and_the_legacy_stream_keeps_its_name)
{
    warm_graph graph = NULL;

    ck_assert_ptr_eq(WARM_STREAM_DEFAULT, WARM_STREAM_PER_THREAD);
    ck_assert_int_ne(warm_capture_begin(runtime, WARM_STREAM_LEGACY), WARM_OK);
    wt_ok(warm_capture_begin(runtime, NULL));
    wt_ok(warm_capture_end(runtime, NULL, &graph));
    wt_ok(warm_graph_launch(runtime, graph, NULL));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, NULL)); /* does nothing */
    wt_invalid(warm_stream_destroy(runtime, WARM_STREAM_DEFAULT));
}
