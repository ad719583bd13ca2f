/* check_cuda_reset.c: one device of two is reset (cudaDeviceReset()) while a
 * runtime uses both (row A17), over the stand-in libraries, which note every
 * use of what a reset ended. check_cuda_context.c has what one device shows.
 * backends: standin */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "handles/kind_table.h"
#include "warmpool/warmpool.h"

#include <inttypes.h>
#include <pthread.h>

enum { HOME = 0, OTHER = 1, DEVICES = 2, BYTES = 10000, LARGE = 4 << 20 };

static warm_runtime *runtime;
static unsigned warnings;
/* A thread of the runtime was about to use what a reset ended. */
static bool races;

static void count_warning(void *context, warm_log_level level, const char *line)
{
    warnings += level == WARM_LOG_WARNING;
}

static void make_runtime(const char *conf)
{
    warm_options options = {.size = sizeof options, .device = "cuda"};

    options.libraries = standin.libraries;
    setenv("WARMPOOL_CONF", conf, 1);
    wt_ok(warm_runtime_create(&options, &runtime));
    unsetenv("WARMPOOL_CONF");
    warm_log_set(count_warning, NULL);
}

static void setup(void)
{
    standin_load();
    standin.standin_devices(DEVICES);
    make_runtime("");
}

static void teardown(void)
{
    char text[256];

    wt_runtime_end(runtime);
    ck_assert_msg(standin.standin_misuse(text, sizeof text) == 0 || races, "%s",
                  text);
}

/* What the runtime has of a device: a stream and a cuBLAS handle that the
 * thread holds, a leased and an idle one; live, cached and pending memory. */
static struct bed {
    warm_stream stream;
    warm_event event;
    void *blas, *live;
    warm_lease lease;
} bed[DEVICES];

enum { STREAMS = 1, BLAS = 3 };

/* Pinned memory first: of the context of HOME. */
static void fill(int device)
{
    struct bed *b = &bed[device];
    warm_lease idle = {0};
    void *handle = NULL, *block;

    wt_free_used(wt_pinned(runtime, BYTES), WARM_STREAM_LEGACY);
    cuda_ok(standin.cudaSetDevice(device));
    /* More of it than there is; also of that context, whichever is current. */
    wt_ok(warm_free(wt_pinned(runtime, (size_t)(16 + device) << 20)));
    wt_ok(warm_stream_reserve(runtime, device, &b->stream));
    wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, device, b->stream,
                                 &b->blas));
    wt_ok(warm_handle_lease(runtime, WARM_KIND_CUBLAS, device, &b->lease,
                            &handle));
    wt_ok(warm_handle_lease(runtime, WARM_KIND_CUBLAS, device, &idle, &handle));
    wt_ok(warm_handle_return(runtime, idle));
    wt_ok(warm_event_create(runtime, device, &b->event));
    wt_ok(warm_event_record(runtime, b->event, b->stream));
    wt_ok(warm_device_alloc(runtime, device, b->stream, BYTES, &b->live));
    wt_ok(warm_device_alloc(runtime, device, b->stream, LARGE, &block));
    wt_ok(warm_free(block));
    wt_free_used(wt_pinned(runtime, BYTES), b->stream);
    cuda_ok(standin.cudaSetDevice(HOME));
}

static void fill_all(void)
{
    for (int i = 0; i < DEVICES; i++) {
        fill(i);
    }
}

static void reset(int device)
{
    cuda_ok(standin.cudaSetDevice(device));
    cuda_ok(standin.cudaDeviceReset());
}

/* DRIVER_ERROR in words that name the device, and say what to do. */
static void lost(int device, warm_status status)
{
    char words[32];

    ck_assert_msg(status == WARM_DRIVER_ERROR, "%s: %s",
                  warm_status_name(status), warm_last_error_message());
    snprintf(words, sizeof words, "device %d was reset", device);
    ck_assert_msg(strstr(warm_last_error_message(), words) != NULL,
                  "\"%s\" is not in: %s", words, warm_last_error_message());
    wt_says("make a new one");
}

static warm_status miss(int device)
{
    warm_event event = NULL;

    return warm_event_create(runtime, device, &event);
}

static uint64_t lost_of(warm_kind kind, int device)
{
    warm_handle_stats stats = {.size = sizeof stats};

    wt_ok(warm_handle_get_stats(runtime, kind, device, &stats));
    ck_assert(wm_kind_table_check(runtime->kinds));
    if (stats.lost > 0) {
        ck_assert_uint_eq(stats.idle + stats.in_use + stats.leased, 0);
        ck_assert_uint_eq(stats.created, stats.lost);
    }
    return stats.lost;
}

static warm_device_stats memory_of(int device)
{
    warm_device_stats stats = {.size = sizeof stats};

    wt_ok(warm_device_get_stats(runtime, device, &stats));
    return stats;
}

/* Copies there and back, on memory that is obtained now; and handles. */
static void use(int device)
{
    struct bed *b = &bed[device];
    warm_lease lease = {0};
    void *handle = NULL, *there;
    char *here = wt_pinned(runtime, LARGE), *back = wt_pinned(runtime, LARGE);

    memset(here, 7, LARGE);
    memset(back, 0, LARGE);
    wt_ok(warm_device_alloc(runtime, device, b->stream, 2 * LARGE, &there));
    wt_ok(warm_copy_async(runtime, there, here, LARGE, WARM_COPY_TO_DEVICE,
                          b->stream));
    wt_ok(warm_copy_async(runtime, back, there, LARGE, WARM_COPY_TO_HOST,
                          b->stream));
    wt_ok(warm_stream_synchronize(runtime, b->stream));
    ck_assert_int_eq(memcmp(here, back, LARGE), 0);
    wt_free(here, back, there);
    wt_ok(
        warm_handle_lease(runtime, WARM_KIND_CUBLAS, device, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, device, b->stream,
                                 &handle));
    ck_assert_ptr_eq(handle, b->blas);
    wt_ok(warm_event_query(runtime, b->event));
    wt_ok(warm_poll(runtime));
}

/* Ends what the test has of a device that works on. */
static void end(int device)
{
    wt_ok(warm_handle_return(runtime, bed[device].lease));
    wt_ok(warm_event_destroy(runtime, bed[device].event));
    wt_ok(warm_free(bed[device].live));
}

/* What it has of one that was reset: a free of it is fine. */
static void end_lost(int device)
{
    wt_ok(warm_handle_return(runtime, bed[device].lease));
    wt_ok(warm_free(bed[device].live));
}

/* The thread's device after the reset: another one; that one, whose context is
 * dead; that one, which the program uses again. */
enum { AWAY, DEAD, AGAIN, PLACES };

static void go(int place)
{
    if (place == AWAY) {
        cuda_ok(standin.cudaSetDevice(HOME));
    } else if (place == AGAIN) {
        cuda_ok(standin.cudaSetDevice(OTHER));
        ck_assert_uint_eq(standin.standin_contexts(OTHER), 2);
    }
}

WT_CASE("reset", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_A17_I4_reset_of_one_device_leaves_the_other, PLACES)
{
    warm_destroy_report report = {.size = sizeof report};
    int64_t handles;

    fill_all();
    reset(OTHER);
    go(_i);
    lost(OTHER, miss(OTHER));
    ck_assert_uint_eq(warnings, 1);
    use(HOME);
    lost(OTHER, miss(OTHER));
    end(HOME);
    end_lost(OTHER);
    wt_invalid(warm_handle_return(runtime, bed[OTHER].lease));
    handles = standin.standin_handles_live("cublas");
    wt_ok(warm_runtime_destroy(runtime, &report));
    runtime = NULL;
    ck_assert_uint_eq(report.lost_handles, STREAMS + BLAS);
    ck_assert_uint_gt(report.lost_bytes, LARGE);
    ck_assert_uint_eq(report.handles + report.live + report.pending, 0);
    /* What is left is that of the device which was reset. */
    ck_assert_int_eq(handles, 2 * BLAS);
    ck_assert_int_eq(standin.standin_handles_live("cublas"), BLAS);
    make_runtime("");
    fill_all();
    use(HOME);
    use(OTHER);
    end(HOME);
    end(OTHER);
}

WT_TEST(test_A17_statistics_show_what_a_reset_took)
{
    warm_destroy_report report = {.size = sizeof report};
    char text[65536];
    uint64_t held, workspaces;

    fill_all();
    held = memory_of(OTHER).all.held_bytes.current;
    workspaces = memory_of(OTHER).workspace_bytes;
    reset(OTHER);
    go(AWAY);
    /* Nobody has noticed. */
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, OTHER), 0);
    ck_assert_uint_eq(memory_of(OTHER).reset_bytes, 0);
    lost(OTHER, miss(OTHER));
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, OTHER), BLAS);
    ck_assert_uint_eq(lost_of(WARM_KIND_STREAM, OTHER), STREAMS);
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, HOME), 0);
    ck_assert_uint_eq(lost_of(WARM_KIND_STREAM, HOME), 0);
    ck_assert_uint_gt(held, LARGE);
    ck_assert_uint_gt(workspaces, 0);
    ck_assert_uint_eq(memory_of(OTHER).workspace_bytes, workspaces);
    ck_assert_uint_eq(memory_of(OTHER).reset_bytes, held + workspaces);
    ck_assert_uint_eq(memory_of(OTHER).all.held_bytes.current, held);
    ck_assert_uint_eq(memory_of(HOME).reset_bytes, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).reset_bytes, 0);
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    wt_contains(text, "\"lost\":3");
    snprintf(text + sizeof text - 64, 64, "\"reset_bytes\":%" PRIu64,
             held + workspaces);
    wt_contains(text, text + sizeof text - 64);
    end(HOME);
    end_lost(OTHER);
    wt_ok(warm_runtime_destroy(runtime, &report));
    runtime = NULL;
    ck_assert_uint_eq(report.lost_bytes, held + workspaces);
}

/* As when another thread resets the device between the two queries: whether
 * its context is active, and which id that has. */
WT_TEST(test_A17_context_destroyed_between_two_queries_is_a_reset)
{
    fill_all();
    standin.standin_fail("cuCtxGetId", 1, 0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    lost(OTHER, miss(OTHER));
    ck_assert_uint_eq(warnings, 1);
    use(HOME);
    end(HOME);
    end_lost(OTHER);
}

/* The pinned memory is of the context of the device on which it began. */
WT_TEST(test_A17_pinned_memory_goes_with_its_context_only)
{
    void *block = NULL;
    uint64_t held;

    fill_all();
    held = wt_pinned_stats(runtime).held_bytes.current;
    reset(HOME);
    cuda_ok(standin.cudaSetDevice(OTHER));
    lost(HOME, warm_pinned_alloc(runtime, 64 << 20, &block));
    wt_says("pinned memory");
    ck_assert_uint_gt(held, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).reset_bytes, held);
    lost(HOME, miss(HOME));
    wt_ok(warm_device_alloc(runtime, OTHER, bed[OTHER].stream, 2 * LARGE,
                            &block));
    wt_ok(warm_free(block));
    wt_ok(warm_stream_synchronize(runtime, bed[OTHER].stream));
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, OTHER), 0);
    end(OTHER);
    end_lost(HOME);
}

/* ---- a thread exits ---- */

static pthread_barrier_t around_the_reset;

static void hold_through_the_reset(void *argument, unsigned index)
{
    void *handle = NULL;

    if (index == 0) {
        (void)warm_handle_reserve(runtime, WARM_KIND_CUBLAS, OTHER, &handle);
        (void)warm_handle_reserve(runtime, WARM_KIND_CUBLAS, HOME, &handle);
        pthread_barrier_wait(&around_the_reset);
        pthread_barrier_wait(&around_the_reset);
    } else {
        pthread_barrier_wait(&around_the_reset);
        (void)standin.cudaSetDevice(OTHER);
        (void)standin.cudaDeviceReset();
        pthread_barrier_wait(&around_the_reset);
    }
}

WT_TEST(test_A17_thread_that_exits_after_a_reset_looks)
{
    warm_handle_stats stats = {.size = sizeof stats};

    pthread_barrier_init(&around_the_reset, NULL, 2);
    wt_threads(2, hold_through_the_reset, NULL);
    /* The exit has noticed, and nothing but that. */
    ck_assert_uint_eq(warnings, 1);
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, OTHER), 1);
    wt_ok(warm_handle_get_stats(runtime, WARM_KIND_CUBLAS, HOME, &stats));
    ck_assert_uint_eq(stats.idle, 1);
    ck_assert_uint_eq(stats.lost, 0);
    lost(OTHER, miss(OTHER));
}

/* ---- what the program has ---- */

static warm_graph capture(warm_stream stream, void *from, void *to)
{
    warm_graph graph = NULL;

    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_copy_async(runtime, to, from, 16, WARM_COPY_TO_DEVICE, stream));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    return graph;
}

static void nothing(void *argument)
{
}

/* None of them reaches CUDA: teardown asks. */
WT_TEST(test_A17_objects_of_a_lost_device_are_refused)
{
    struct bed *b = &bed[OTHER];
    void *block, *handle = NULL;
    warm_graph graph;

    fill_all();
    block = wt_pinned(runtime, BYTES);
    graph = capture(b->stream, block, b->live);
    reset(OTHER);
    go(AWAY);
    lost(OTHER, miss(OTHER));
    lost(OTHER, warm_stream_query(runtime, b->stream));
    lost(OTHER, warm_stream_synchronize(runtime, b->stream));
    lost(OTHER, warm_stream_host_func(runtime, b->stream, nothing, NULL));
    lost(OTHER, warm_stream_wait_event(runtime, bed[HOME].stream, b->event));
    lost(OTHER, warm_stream_wait_event(runtime, b->stream, bed[HOME].event));
    lost(OTHER, warm_stream_retire(runtime, b->stream));
    lost(OTHER, warm_stream_destroy(runtime, b->stream));
    lost(OTHER, warm_event_record(runtime, b->event, bed[HOME].stream));
    lost(OTHER, warm_event_query(runtime, b->event));
    lost(OTHER, warm_event_synchronize(runtime, b->event));
    lost(OTHER, warm_event_destroy(runtime, b->event));
    lost(OTHER, warm_capture_begin(runtime, b->stream));
    lost(OTHER, warm_graph_launch(runtime, graph, bed[HOME].stream));
    lost(OTHER, warm_graph_destroy(runtime, graph));
    lost(OTHER, warm_record_stream(block, b->stream));
    lost(OTHER, warm_copy_async(runtime, b->live, block, 16,
                                WARM_COPY_TO_DEVICE, b->stream));
    lost(OTHER, warm_device_alloc(runtime, OTHER, b->stream, 16, &handle));
    lost(OTHER, warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, OTHER,
                                       b->stream, &handle));
    lost(OTHER, warm_device_alloc_uncached(runtime, OTHER, 16, &handle));
    wt_ok(warm_device_trim(runtime, OTHER, 0, NULL));
    wt_ok(warm_handle_trim(runtime, WARM_KIND_CUBLAS, OTHER, 0, 0, NULL));
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, OTHER), BLAS);
    wt_ok(warm_free(block));
    use(HOME);
    end(HOME);
    end_lost(OTHER);
}

/* Before the runtime has noticed it as well; of a stream that it did not make
 * CUDA cannot tell which. */
WT_TEST(test_A17_call_on_a_stream_after_a_reset_names_the_reset)
{
    CUstream foreign = NULL;

    fill_all();
    cuda_ok(standin.cudaSetDevice(OTHER));
    cuda_ok(standin.cuStreamCreate(&foreign, CU_STREAM_NON_BLOCKING));
    cuda_ok(standin.cudaDeviceReset());
    go(AWAY);
    races = true; /* it is named once more, on purpose */
    wt_fails(WARM_DRIVER_ERROR, warm_stream_query(runtime, bed[OTHER].stream));
    wt_says("device 1 was reset");
    wt_fails(WARM_DRIVER_ERROR, warm_stream_query(runtime, foreign));
    wt_says("device 1 was reset");
    ck_assert_uint_eq(warnings, 0);
    lost(OTHER, miss(OTHER));
    lost(OTHER, warm_stream_query(runtime, bed[OTHER].stream));
    wt_fails(WARM_INVALID_STREAM, warm_stream_query(runtime, foreign));
    wt_says("its device was reset");
    end(HOME);
    end_lost(OTHER);
}

/* The device's work ended with it: pinned memory waits for it no more. */
WT_TEST(test_A17_memory_that_waits_for_a_lost_device_comes_back)
{
    wt_gate *gate;
    void *block;

    fill(HOME);
    fill(OTHER);
    wt_ok(warm_poll(runtime));
    gate = wt_gate_hold(runtime, bed[OTHER].stream);
    wt_free_used(wt_pinned(runtime, BYTES), bed[OTHER].stream);
    wt_ok(warm_poll(runtime)); /* behind an event now, which has not passed */
    ck_assert_uint_gt(wt_pinned_stats(runtime).pending.current, 0);
    wt_gate_open(gate);
    wt_free_used(wt_pinned(runtime, BYTES), bed[OTHER].stream);
    block = wt_pinned(runtime, BYTES);
    wt_ok(warm_record_stream(block, bed[OTHER].stream));
    reset(OTHER);
    go(AWAY);
    lost(OTHER, miss(OTHER));
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost, 0);
    use(HOME);
    end(HOME);
    end_lost(OTHER);
}

/* Where the records of lost blocks are nothing else may be. What the driver
 * gives there goes back (_i 0); or, where that might break a capture, stays
 * held and is counted. */
WT_LOOP_TEST(test_A17_addresses_of_what_is_lost_name_nothing_new, 2)
{
    const wm_growth *growth = &runtime->device_spaces[HOME].space.growth;
    char *before = NULL, *after = NULL;
    size_t bytes = _i == 0 ? 0 : 32 << 20;
    uint64_t calls;

    fill(HOME);
    fill(OTHER);
    wt_ok(warm_device_alloc(runtime, OTHER, bed[OTHER].stream, 32 << 20,
                            (void **)&before));
    reset(OTHER);
    go(AWAY);
    lost(OTHER, miss(OTHER));
    if (_i == 1) {
        wt_ok(warm_capture_announce(runtime, bed[HOME].stream));
    }
    calls = standin.standin_calls("cuMemAlloc_v2");
    wt_ok(warm_device_alloc(runtime, HOME, bed[HOME].stream, 32 << 20,
                            (void **)&after));
    if (_i == 1) {
        wt_ok(warm_capture_announce_end(runtime, bed[HOME].stream));
    }
    ck_assert_uint_eq(growth->lost, bytes);
    ck_assert_uint_eq(growth->held,
                      memory_of(HOME).all.held_bytes.current + bytes);
    ck_assert_uint_eq(warnings, 1 + (unsigned)_i);
    /* The stand-in gives the lost address first. */
    ck_assert_uint_eq(standin.standin_calls("cuMemAlloc_v2"), calls + 2);
    ck_assert_ptr_ne(before, after);
    wt_ok(warm_free(before));
    wt_fails(WARM_INVALID_POINTER, warm_free(before));
    wt_ok(warm_free(after));
    end(HOME);
    end_lost(OTHER);
}

/* ---- buffers ---- */

static void *buffer_of(int device, warm_usage usage)
{
    void *pointer = NULL;

    wt_ok(warm_shared_alloc(runtime, device, BYTES, usage, &pointer));
    return pointer;
}

/* Private and managed buffers end with their device, page-locked ones with that
 * of all page-locked memory; a wait is for work of devices that live. Lost
 * memory is reported once. */
/* Its slices are page-locked memory of the context that works on. */
WT_TEST(test_A17_B26_a_staging_ring_of_a_device_that_was_reset_can_be_ended)
{
    warm_staging *ring = NULL;
    char byte[100] = {1};

    fill_all();
    wt_ok(warm_staging_create(runtime, OTHER, NULL, &ring));
    wt_ok(warm_staging_copy(ring, bed[OTHER].live, byte, sizeof byte,
                            WARM_COPY_TO_DEVICE, bed[OTHER].stream, 0));
    wt_ok(warm_staging_copy(ring, bed[OTHER].live, byte, sizeof byte,
                            WARM_COPY_TO_DEVICE, bed[OTHER].stream,
                            WARM_STAGING_MORE));
    reset(OTHER);
    go(AWAY);
    lost(OTHER, miss(OTHER));
    lost(OTHER, warm_staging_copy(ring, bed[OTHER].live, byte, sizeof byte,
                                  WARM_COPY_TO_DEVICE, bed[OTHER].stream, 0));
    lost(OTHER, warm_staging_finish(ring));
    lost(OTHER, warm_staging_destroy(ring));
    use(HOME);
    end(HOME);
    end_lost(OTHER);
}

/* The memory of the other device is mapped again, with its contents. */
WT_TEST(test_A17_C11_paused_memory_of_a_device_that_was_reset_is_lost)
{
    const unsigned flags = WARM_POOL_USER | WARM_POOL_PAUSABLE;
    warm_private_pool tag = {0};
    char *here = wt_pinned(runtime, LARGE), *back = wt_pinned(runtime, LARGE);
    void *block[DEVICES];

    fill_all();
    wt_ok(warm_private_pool_begin(runtime, &tag, flags, NULL, NULL));
    for (int i = 0; i < DEVICES; i++) {
        wt_ok(warm_device_alloc(runtime, i, bed[i].stream, LARGE, &block[i]));
    }
    wt_ok(warm_private_pool_end(runtime, tag));
    memset(here, 9, LARGE);
    wt_ok(warm_copy_async(runtime, block[HOME], here, LARGE,
                          WARM_COPY_TO_DEVICE, bed[HOME].stream));
    wt_ok(warm_memory_pause(runtime, tag, 0));
    reset(OTHER);
    go(AWAY);
    lost(OTHER, miss(OTHER));
    lost(OTHER, warm_memory_resume(runtime, tag));
    wt_invalid(warm_memory_resume(runtime, tag)); /* it is not paused */
    lost(OTHER, warm_memory_pause(runtime, tag, 0));
    wt_ok(warm_copy_async(runtime, back, block[HOME], LARGE, WARM_COPY_TO_HOST,
                          bed[HOME].stream));
    wt_ok(warm_stream_synchronize(runtime, bed[HOME].stream));
    ck_assert_mem_eq(back, here, LARGE);
    wt_free(block[HOME], block[OTHER], here, back);
    wt_ok(warm_private_pool_release(runtime, tag));
    use(HOME);
    end(HOME);
    end_lost(OTHER);
}

WT_TEST(test_A17_F1_F6_buffers_of_a_device_that_was_reset)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_shared_info info = {.size = sizeof info};
    warm_stream stream[DEVICES];
    void *page_locked, *private[DEVICES], *lost_one = NULL;
    size_t waited = 0;

    for (int i = 0; i < DEVICES; i++) {
        wt_ok(warm_stream_create(runtime, i, &stream[i]));
        private[i] = buffer_of(i, WARM_USAGE_PRIVATE);
    }
    page_locked = buffer_of(HOME, WARM_USAGE_SHARED);
    for (int i = 0; i < DEVICES; i++) {
        wt_ok(warm_shared_record(runtime, &page_locked, 1, stream[i], NULL));
    }
    reset(OTHER);
    go(AWAY);
    lost(OTHER, warm_shared_alloc(runtime, OTHER, BYTES, WARM_USAGE_SHARED,
                                  &lost_one));
    lost(OTHER, warm_shared_alloc(runtime, OTHER, BYTES, WARM_USAGE_PRIVATE,
                                  &lost_one));
    lost(OTHER, warm_shared_get_info(private[OTHER], &info));
    wt_ok(warm_shared_get_info(page_locked, &info));
    wt_ok(warm_shared_wait(runtime, &page_locked, 1, &waited));
    ck_assert_uint_eq(waited, 1);
    wt_ok(warm_shared_wait(runtime, &page_locked, 1, &waited));
    ck_assert_uint_eq(waited, 0);
    wt_free(page_locked, private[HOME], private[OTHER]);
    wt_ok(warm_stream_destroy(runtime, stream[HOME]));
    wt_ok(warm_poll(runtime));
    wt_ok(warm_shared_trim(runtime, HOME, 0, NULL));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live + report.pending, 0);
    ck_assert_uint_eq(report.lost_bytes, 8 << 20);
    make_runtime(""); /* for the teardown */
}

WT_TEST(test_A17_F1_page_locked_buffers_end_with_all_page_locked_memory)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_shared_info info = {.size = sizeof info};
    void *buffer, *of_other;

    wt_ok(warm_free(wt_pinned(runtime, BYTES))); /* in the context of HOME */
    buffer = buffer_of(HOME, WARM_USAGE_SHARED);
    of_other = buffer_of(OTHER, WARM_USAGE_SHARED);
    reset(HOME);
    cuda_ok(standin.cudaSetDevice(OTHER));
    lost(HOME, miss(HOME));
    lost(HOME, warm_shared_get_info(of_other, &info));
    wt_free(buffer, of_other);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.lost_bytes, (16 << 20) + (4 << 20));
    make_runtime("");
}

/* ---- everything at once ---- */

static const char *const ways_of_life[] = {
    "background:on,decay_ms:1,test:batch_ms=1", "pin:register", "keep:off",
    "history:100,test:arenas=4"};

WT_LOOP_TEST(test_A17_destroy_names_nothing_of_the_lost_device,
             sizeof ways_of_life / sizeof ways_of_life[0])
{
    warm_destroy_report report = {.size = sizeof report};
    warm_private_pool pool = {0};

    wt_ok(warm_runtime_destroy(runtime, NULL));
    races = _i == 0; /* option background */
    make_runtime(ways_of_life[_i]);
    fill_all();
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_free(wt_device(runtime, bed[HOME].stream, BYTES)));
    wt_ok(warm_private_pool_end(runtime, pool));
    reset(OTHER);
    go(AWAY);
    lost(OTHER, miss(OTHER));
    wt_ok(warm_private_pool_release(runtime, pool));
    use(HOME);
    end(HOME);
    wt_ok(warm_runtime_destroy(runtime, &report));
    runtime = NULL;
    ck_assert_uint_eq(report.lost_handles, STREAMS + BLAS);
    ck_assert_uint_eq(report.live, 1); /* not freed, of the lost device */
    ck_assert_uint_eq(report.handles, 0);
}

WT_TEST(test_A17_destroy_notices_a_reset_that_no_call_has)
{
    warm_destroy_report report = {.size = sizeof report};

    fill_all();
    wt_ok(warm_thread_release(runtime)); /* its end would notice it */
    reset(OTHER);
    go(AWAY);
    wt_ok(warm_runtime_destroy(runtime, &report));
    runtime = NULL;
    ck_assert_uint_eq(report.lost_handles, STREAMS + BLAS);
}

enum { WORKERS = 3, ROUNDS = 200 };

static struct worked {
    warm_status status;
    char message[200];
} worked[WORKERS + 1];

/* One round on HOME: nothing of it may fail, whatever becomes of OTHER. */
static warm_status work(void)
{
    warm_stream stream = NULL;
    void *block = NULL, *there = NULL;
    warm_status status = warm_stream_reserve(runtime, HOME, &stream);

    if (status == WARM_OK) {
        status = warm_pinned_alloc(runtime, BYTES, &block);
    }
    if (status == WARM_OK) {
        status = warm_device_alloc(runtime, HOME, stream, BYTES, &there);
    }
    if (status == WARM_OK) {
        status = warm_copy_async(runtime, there, block, BYTES,
                                 WARM_COPY_TO_DEVICE, stream);
    }
    (void)warm_free(block);
    (void)warm_free(there);
    if (status == WARM_OK) {
        status = warm_thread_release(runtime);
    }
    return status;
}

static void work_or_reset(void *argument, unsigned index)
{
    struct worked *w = &worked[index];
    warm_event event = NULL;

    if (index == WORKERS) {
        (void)standin.cudaSetDevice(OTHER);
        (void)standin.cudaDeviceReset();
        (void)standin.cudaSetDevice(HOME);
        w->status = warm_event_create(runtime, OTHER, &event);
        return;
    }
    (void)standin.cudaSetDevice(HOME);
    for (int i = 0; i < ROUNDS && w->status == WARM_OK; i++) {
        w->status = work();
        if (w->status != WARM_OK) {
            snprintf(w->message, sizeof w->message, "%s",
                     warm_last_error_message());
        }
    }
}

/* A device whose memory is the host's: what a reset took of it makes room. */
WT_TEST(test_A17_F12_memory_that_a_reset_took_counts_no_more)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);
    warm_stream stream;
    void *block = NULL, *pinned;

    wt_runtime_end(runtime);
    standin.standin_host_tables(1);
    make_runtime("");
    pinned = wt_pinned(runtime, 1 << 20); /* of the context of HOME */
    wt_ok(warm_watermarks_set(runtime, OTHER, 64 << 20, 0));
    stream = wt_stream(runtime, OTHER);
    wt_ok(warm_device_alloc(runtime, OTHER, stream, 40 << 20, &block));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 40 << 20, &block));
    /* A workspace counts toward the host's watermarks, and is the device's. */
    ck_assert(wm_device_space_claim(runtime, OTHER, 8 << 20));
    ck_assert_uint_eq(memory_of(OTHER).workspace_bytes, 8 << 20);
    wm_device_space_unclaim(runtime, OTHER, 8 << 20);
    ck_assert_uint_eq(memory_of(OTHER).workspace_bytes, 0);
    reset(OTHER);
    cuda_ok(standin.cudaSetDevice(HOME));
    lost(OTHER, miss(OTHER));
    wm_pressure_refresh_now(&runtime->pinned->space);
    wt_ok(warm_memory_get_totals(runtime, WARM_MEMORY_OF_HOST, &totals));
    ck_assert_uint_lt(totals.held_bytes, 8 << 20);
    wt_free(pinned, block, wt_pinned(runtime, 40 << 20));
    standin.standin_host_tables(0);
}

WT_TEST(test_A17_I4_threads_work_on_while_another_device_is_reset)
{
    fill_all();
    memset(worked, 0, sizeof worked);
    wt_threads(WORKERS + 1, work_or_reset, NULL);
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_msg(worked[i].status == WARM_OK, "%s", worked[i].message);
    }
    ck_assert_int_eq(worked[WORKERS].status, WARM_DRIVER_ERROR);
    ck_assert_uint_eq(lost_of(WARM_KIND_CUBLAS, OTHER), BLAS);
    ck_assert_uint_eq(warnings, 1);
    end(HOME);
    end_lost(OTHER);
}

/* What a NIC has registered: of the host, and of each device. */
static struct {
    int64_t now[1 + DEVICES];
    uint64_t bytes[1 + DEVICES];
} nic;

static void register_segment(void *context, warm_memory_event event,
                             const warm_segment *segment)
{
    bool obtained = event == WARM_MEMORY_OBTAINED;

    nic.now[1 + segment->device] += obtained ? 1 : -1;
    nic.bytes[1 + segment->device] +=
        obtained ? segment->bytes : -segment->bytes;
}

static void add_nic(void)
{
    const warm_memory_callback callback = {.size = sizeof callback,
                                           .name = "nic",
                                           .segment = register_segment,
                                           .events = WARM_MEMORY_OBTAINED |
                                                     WARM_MEMORY_RETURNING};

    wt_ok(warm_memory_callback_add(runtime, &callback));
}

/* Also pieces of memory that can be paused, and more segments than are told at
 * once. */
static void fill_nic(int device)
{
    warm_private_pool pool = {0};
    void *block;

    wt_ok(warm_private_pool_begin(
        runtime, &pool, WARM_POOL_USER | WARM_POOL_PAUSABLE, NULL, NULL));
    wt_ok(warm_device_alloc(runtime, device, NULL, 3 * LARGE, &block));
    wt_ok(warm_private_pool_end(runtime, pool));
    for (int i = 0; i < 200; i++) {
        wt_ok(warm_device_alloc(runtime, device, NULL, 1 << 20, &block));
    }
}

static void setup_nic(void)
{
    standin_load();
    standin.standin_devices(DEVICES);
    make_runtime("segment:1M");
    add_nic();
}

static void teardown_nic(void)
{
    warm_destroy_report report = {.size = sizeof report};

    wt_ok(warm_runtime_destroy(runtime, &report));
}

WT_CASE("segments", .setup = setup_nic, .teardown = teardown_nic);

WT_LOOP_TEST(test_B24_A17_segments_that_a_reset_took_are_returned, DEVICES)
{
    int other = 1 - _i;
    uint64_t left;

    fill_all();
    fill_nic(_i);
    ck_assert_int_gt(nic.now[1 + _i], 64);
    ck_assert_int_gt(nic.now[0], 0);
    left = nic.bytes[1 + other];
    reset(_i);
    cuda_ok(standin.cudaSetDevice(other));
    lost(_i, miss(_i));
    ck_assert_int_eq(nic.now[1 + _i], 0);
    ck_assert_uint_eq(nic.bytes[1 + _i], 0);
    ck_assert_uint_eq(nic.bytes[1 + other], left);
    ck_assert_int_eq(nic.now[0] == 0, _i == HOME);
    ck_assert_int_eq(nic.bytes[0] == 0, _i == HOME);
}

#else
SKIP_MAIN("CUDA's headers are not here")
#endif
