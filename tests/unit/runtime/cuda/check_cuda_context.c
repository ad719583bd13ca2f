/* check_cuda_context.c: what the library does for threads whose current CUDA
 * context is not a primary one (row A17), over the stand-in libraries.
 * backends: standin
 *
 * Each test runs with a context of cuCtxCreate() and with a green one. */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include "runtime/base/process.h"
#include "runtime/runtime.h"
#include "warmpool/warmpool.h"

enum { OWN, GREEN, CONTEXTS, DEVICES = 2, BYTES = 10000 };

static warm_runtime *runtime;
static CUcontext foreign;

static void make_runtime(void)
{
    warm_options options = {.size = sizeof options, .device = "cuda"};

    options.libraries = standin.libraries;
    wt_ok(warm_runtime_create(&options, &runtime));
}

static void begin(unsigned long long first_id)
{
    standin_load();
    standin.standin_context_ids(first_id);
    standin.standin_devices(DEVICES);
    make_runtime();
}

static void setup(void)
{
    begin(1);
}

/* No context has used its id up: 0 is one as any other. */
static void setup_ids_from_0(void)
{
    begin(0);
}

static void teardown(void)
{
    char text[256];

    wt_runtime_end(runtime);
    ck_assert_msg(standin.standin_misuse(text, sizeof text) == 0, "%s", text);
}

/* Makes a context of the sort, of device 0, current. */
static void enter(int sort)
{
    CUgreenCtx green = NULL;

    if (sort == OWN) {
        cuda_ok(standin.cuCtxCreate_v4(&foreign, NULL, 0, 0));
        return;
    }
    cuda_ok(
        standin.cuGreenCtxCreate(&green, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    cuda_ok(standin.cuCtxFromGreenCtx(&foreign, green));
    cuda_ok(standin.cuCtxPushCurrent_v2(foreign));
}

static void leave(void)
{
    CUcontext popped = NULL;

    cuda_ok(standin.cuCtxPopCurrent_v2(&popped));
    ck_assert_ptr_eq(popped, foreign);
}

static void *untouched = &untouched;

/* UNSUPPORTED, in words that name the context; nothing was written, and the
 * context is current as before. */
static void refused(warm_status status, const void *output)
{
    CUcontext current = NULL;
    char name[32];

    ck_assert_msg(status == WARM_UNSUPPORTED, "%s: %s",
                  warm_status_name(status), warm_last_error_message());
    snprintf(name, sizeof name, "context %p", (void *)foreign);
    ck_assert_msg(strstr(warm_last_error_message(), name) != NULL,
                  "\"%s\" is not in: %s", name, warm_last_error_message());
    wt_says("device 0");
    ck_assert_ptr_eq(output, untouched);
    cuda_ok(standin.cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(current, foreign);
}

static uint64_t handles_created(warm_kind kind)
{
    warm_handle_stats stats = {.size = sizeof stats};

    wt_ok(warm_handle_get_stats(runtime, kind, 0, &stats));
    ck_assert_uint_eq(stats.failed, 0);
    return stats.created;
}

WT_CASE("context", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_A17_misses_in_another_context_are_refused, CONTEXTS)
{
    warm_lease lease = {0};
    void *out = untouched;
    warm_event event = untouched;

    enter(_i);
    for (warm_kind kind = WARM_KIND_STREAM; kind < WARM_KIND_ONEDNN; kind++) {
        refused(warm_handle_reserve(runtime, kind, 0, &out), out);
        refused(warm_handle_lease(runtime, kind, 0, &lease, &out), out);
        refused(warm_handle_prewarm(runtime, kind, 0, 1, 0), out);
        ck_assert_uint_eq(handles_created(kind), 0);
    }
    refused(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, NULL, &out),
            out);
    refused(warm_pinned_alloc(runtime, BYTES, &out), out);
    refused(warm_device_alloc(runtime, 0, NULL, BYTES, &out), out);
    refused(warm_device_alloc(runtime, 1, NULL, BYTES, &out), out);
    refused(warm_device_alloc_uncached(runtime, 0, BYTES, &out), out);
    refused(warm_stream_create(runtime, 0, &out), out);
    refused(warm_event_create(runtime, 0, &event), event);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    leave();
    wt_ok(warm_handle_reserve(runtime, WARM_KIND_CUBLAS, 0, &out));
    out = wt_pinned(runtime, BYTES);
    wt_ok(warm_free(out));
    out = wt_device(runtime, NULL, BYTES);
    wt_ok(warm_free(out));
    wt_ok(warm_thread_release(runtime));
}

/* Bindings that are remembered are those of a primary context. */
WT_LOOP_TEST(test_A17_A10_binding_is_made_again_in_no_other_context, CONTEXTS)
{
    warm_stream s[2] = {NULL, NULL};
    void *out = NULL;
    uint64_t calls;

    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_create(runtime, 0, &s[i]));
        wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, s[i], &out));
    }
    enter(_i);
    out = untouched;
    calls = standin.standin_calls("cublasSetStream_v2");
    refused(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, s[0], &out),
            out);
    ck_assert_uint_eq(standin.standin_calls("cublasSetStream_v2"), calls);
    leave();
    wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, s[0], &out));
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_destroy(runtime, s[i]));
    }
}

/* Also where idle memory and handles of the primary context are there. */
WT_LOOP_TEST(test_A17_what_is_idle_is_not_handed_out_in_another_context,
             CONTEXTS)
{
    warm_lease lease = {0};
    void *out = NULL;

    wt_ok(warm_handle_lease(runtime, WARM_KIND_CUBLAS, 0, &lease, &out));
    wt_ok(warm_handle_return(runtime, lease));
    out = wt_pinned(runtime, BYTES);
    wt_ok(warm_free(out));
    wt_ok(warm_thread_release(runtime)); /* its magazines are empty now */
    out = untouched;
    enter(_i);
    refused(warm_handle_lease(runtime, WARM_KIND_CUBLAS, 0, &lease, &out), out);
    refused(warm_pinned_alloc(runtime, BYTES, &out), out);
    leave();
    ck_assert_uint_eq(handles_created(WARM_KIND_CUBLAS), 1);
}

/* A hit looks at nothing, and what is given back comes back. */
WT_LOOP_TEST(test_A17_hits_and_frees_in_another_context_work, CONTEXTS)
{
    warm_stream stream = NULL, again = NULL;
    void *blas = NULL, *held = NULL;
    void *block = wt_pinned(runtime, BYTES);
    void *device;
    size_t released = 0;

    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, stream, &blas));
    device = wt_device(runtime, stream, BYTES);
    wt_ok(warm_record_stream(block, stream));
    enter(_i);
    wt_ok(warm_stream_reserve(runtime, 0, &again));
    ck_assert_ptr_eq(again, stream);
    wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, stream, &held));
    ck_assert_ptr_eq(held, blas);
    wt_free(block, device);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_handle_trim(runtime, WARM_KIND_CUBLAS, 0, 0, 0, NULL));
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    leave();
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).lost_bytes, 0);
    ck_assert_int_eq(standin.standin_handles_live("cublas"), 0);
}

/* Ahead it is obtained in a primary one, and good for all. */
WT_LOOP_TEST(test_A17_memory_obtained_ahead_is_of_a_primary_context, CONTEXTS)
{
    enter(_i);
    wt_ok(warm_pinned_prewarm(runtime, 4 << 20, WARM_NODE_ANY, 0));
    leave();
    ck_assert_uint_gt(wt_pinned_stats(runtime).held_bytes.current, 0);
}

/* From a thread whose own context is primary, too. */
WT_LOOP_TEST(test_A17_stream_of_another_context_is_refused, CONTEXTS)
{
    void *block = wt_pinned(runtime, BYTES);
    void *blas = untouched;
    CUstream stream = NULL;
    warm_status status;

    enter(_i);
    cuda_ok(standin.cuStreamCreate(&stream, 0));
    refused(warm_stream_adopt(runtime, stream), untouched);
    refused(warm_record_stream(block, stream), untouched);
    refused(warm_record_stream(block, NULL), untouched);
    leave();
    status = warm_stream_adopt(runtime, stream);
    ck_assert_int_eq(status, WARM_UNSUPPORTED);
    ck_assert_int_eq(warm_record_stream(block, stream), WARM_UNSUPPORTED);
    ck_assert_int_eq(
        warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, stream, &blas),
        WARM_UNSUPPORTED);
    ck_assert_ptr_eq(blas, untouched);
    ck_assert_int_eq(warm_device_alloc(runtime, 0, stream, BYTES, &blas),
                     WARM_UNSUPPORTED);
    wt_says("the stream's CUDA context");
    wt_ok(warm_free(block));
    wt_ok(warm_thread_release(runtime));
}

static void set(void *flag)
{
    *(bool *)flag = true;
}

/* What CUDA is merely handed a stream for works on any; an event does not, and
 * the words say what may be wrong. */
WT_LOOP_TEST(test_A17_stream_of_another_context_may_be_waited_for, CONTEXTS)
{
    warm_event event = NULL;
    CUcontext current = NULL;
    CUstream stream = NULL;
    bool ran = false;

    wt_ok(warm_event_create(runtime, 0, &event));
    enter(_i);
    cuda_ok(standin.cuStreamCreate(&stream, 0));
    leave();
    wt_ok(warm_stream_query(runtime, stream));
    wt_ok(warm_stream_host_func(runtime, stream, set, &ran));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert(ran);
    cuda_ok(standin.cuCtxGetCurrent(&current));
    ck_assert_ptr_null(current); /* as before the calls */
    standin.standin_fail("cuEventRecord", 1, 0, CUDA_ERROR_INVALID_HANDLE);
    wt_fails(WARM_INVALID_STREAM, warm_event_record(runtime, event, stream));
    wt_says("is of another context");
    wt_ok(warm_event_destroy(runtime, event));
}

/* One that the runtime has not retained yet is learnt; no other one is made. */
WT_TEST(test_A17_B13_primary_context_of_the_program_is_accepted)
{
    bool entered = true;
    void *block;

    cuda_ok(standin.cudaSetDevice(1));
    block = wt_pinned(runtime, BYTES);
    wt_ok(warm_free(block));
    ck_assert_int_eq(wm_driver_enter(runtime->driver, 0, &entered),
                     WARM_NOT_READY);
    ck_assert(!entered);
    ck_assert_uint_eq(standin.standin_contexts(0), 0);
    ck_assert_uint_eq(standin.standin_contexts(1), 1);
}

/* ---- cudaDeviceReset() ---- */

static char warning[600];
static unsigned warnings;

static void keep_warning(void *context, warm_log_level level, const char *line)
{
    warnings += level == WARM_LOG_WARNING;
    if (level == WARM_LOG_WARNING && warning[0] == '\0') {
        snprintf(warning, sizeof warning, "%s", line);
    }
}

/* DRIVER_ERROR in words that say what to do. */
static void lost(warm_status status)
{
    ck_assert_msg(status == WARM_DRIVER_ERROR, "%s: %s",
                  warm_status_name(status), warm_last_error_message());
    wt_says("device 0 was reset", "make a new one");
}

/* Calls that end something, or look at what may be gone. */
static uint64_t calls_on_the_dead(void)
{
    static const char *const names[] = {
        "cuMemFree_v2",        "cuMemFreeHost",
        "cuMemHostUnregister", "cuEventDestroy_v2",
        "cuStreamDestroy_v2",  "cublasDestroy_v2",
        "cublasSetStream_v2",  "cuEventQuery",
        "cuEventRecord",       "cuEventSynchronize",
        "cuStreamQuery",       "cuStreamSynchronize",
        "cuStreamIsCapturing", "cuMemHostAlloc",
        "cuMemAlloc_v2",       "cuMemUnmap",
        "cuMemAddressFree",    "cuStreamGetId",
        "cuStreamWaitEvent",   "cuMemHostRegister_v2",
        "cuMemAllocManaged",   "cuMemHostGetDevicePointer_v2"};
    uint64_t calls = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        calls += standin.standin_calls(names[i]);
    }
    return calls;
}

/* What the runtime has of everything: a stream and a cuBLAS handle that are
 * held and one that is idle; live, cached and pending memory, pinned and not.
 */
static struct bed {
    warm_stream stream, other; /* one pooled, one created */
    void *blas, *live, *live_device;
} bed;

static void fill(void)
{
    warm_lease lease = {0};
    void *handle = NULL, *block;

    wt_ok(warm_stream_reserve(runtime, 0, &bed.stream));
    wt_ok(warm_stream_create(runtime, 0, &bed.other));
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0,
                                     i == 1 ? bed.other : bed.stream,
                                     &bed.blas));
    }
    wt_ok(warm_handle_lease(runtime, WARM_KIND_CUBLAS, 0, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    bed.live = wt_pinned(runtime, BYTES);
    bed.live_device = wt_device(runtime, bed.stream, BYTES);
    block = wt_pinned(runtime, BYTES);
    wt_free_used(block, bed.stream);
    wt_ok(warm_free(wt_device(runtime, bed.stream, 2 * BYTES)));
    warm_log_set(keep_warning, NULL);
}

/* How a miss finds out; each finds memory and handles in its way. */
static warm_status miss(int way)
{
    warm_lease lease = {0};
    warm_event event = NULL;
    void *out = NULL;

    switch (way) {
    case 0:
        return warm_pinned_alloc(runtime, 64 << 20, &out);
    case 1:
        return warm_device_alloc(runtime, 0, bed.stream, 64 << 20, &out);
    case 2:
        return warm_handle_lease(runtime, WARM_KIND_CUBLAS, 0, &lease, &out);
    case 3:
        return warm_stream_create(runtime, 0, &out);
    case 4:
        return warm_event_create(runtime, 0, &event);
    default: /* held, and bound before */
        return warm_handle_reserve_on(runtime, WARM_KIND_CUBLAS, 0, bed.other,
                                      &out);
    }
}

enum { WAYS = 6 };

/* The rest of a runtime that is lost: it answers, calls nothing, and says what
 * it had. */
static void end_lost(void)
{
    warm_destroy_report report = {.size = sizeof report};
    uint64_t before = calls_on_the_dead(), destroyed = 0;
    warm_stream stream = NULL;

    wt_contains(warning, "device 0 was reset");
    for (int way = 0; way < WAYS; way++) {
        lost(miss(way));
    }
    /* A hit gets what is there. */
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    ck_assert_ptr_eq(stream, bed.stream);
    wt_free(bed.live, bed.live_device);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_handle_trim(runtime, WARM_KIND_CUBLAS, 0, 0, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 0);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(calls_on_the_dead(), before);
    ck_assert_uint_eq(report.lost_handles, 3);
    ck_assert_uint_gt(report.lost_bytes, 0);
    ck_assert_uint_eq(report.handles, 0);
    ck_assert_uint_eq(warnings, 2); /* that it was reset, and what was lost */
}

static void use_all_sorts(void)
{
    void *block = wt_pinned(runtime, BYTES);

    wt_ok(warm_free(block));
    block = wt_device(runtime, NULL, BYTES);
    wt_ok(warm_free(block));
    wt_ok(warm_handle_reserve(runtime, WARM_KIND_CUBLAS, 0, &block));
    wt_ok(warm_thread_release(runtime));
}

static void expect_a_new_one_works(void)
{
    make_runtime();
    use_all_sorts();
}

/* The first of them keeps a context for the process, and has the exit handler
 * run before those of CUDA; what comes later adds nothing. */
WT_TEST(test_G2_runtimes_that_come_and_go_leave_nothing_behind)
{
    unsigned handlers;

    use_all_sorts();
    wt_ok(warm_runtime_destroy(runtime, NULL));
    handlers = wm_process.handlers;
    ck_assert_uint_gt(handlers, 3);
    ck_assert_int_eq(standin.standin_references(0), 1);
    for (int i = 0; i < 50; i++) {
        expect_a_new_one_works();
        wt_ok(warm_runtime_destroy(runtime, NULL));
    }
    runtime = NULL;
    ck_assert_uint_eq(wm_process.handlers, handlers);
    ck_assert_int_eq(standin.standin_references(0), 1);
    ck_assert_uint_eq(standin.standin_contexts(0), 1);
}

/* A context that came after a reset is another one, which has to be kept. */
WT_TEST(test_G2_context_after_a_reset_is_kept_as_well)
{
    int64_t references;

    use_all_sorts();
    wt_ok(warm_runtime_destroy(runtime, NULL));
    cuda_ok(standin.cudaDeviceReset());
    references = standin.standin_references(0);
    expect_a_new_one_works();
    ck_assert_int_eq(standin.standin_references(0), references + 1);
    wt_ok(warm_runtime_destroy(runtime, NULL));
    expect_a_new_one_works();
    ck_assert_int_eq(standin.standin_references(0), references + 1);
}

WT_LOOP_TEST(test_A17_next_miss_after_a_reset_notices_it, WAYS)
{
    uint64_t before;

    fill();
    before = calls_on_the_dead();
    cuda_ok(standin.cudaDeviceReset());
    lost(miss(_i));
    ck_assert_uint_eq(calls_on_the_dead(), before);
    end_lost();
    expect_a_new_one_works();
}

WT_CASE("ids", .setup = setup, .also = {setup_ids_from_0},
        .teardown = teardown);

/* The program has used the device again, whose context may have its old
 * handle. */
WT_LOOP_TEST(test_A17_reset_is_noticed_by_the_contexts_id, WAYS)
{
    fill();
    cuda_ok(standin.cudaDeviceReset());
    cuda_ok(standin.cudaSetDevice(0));
    ck_assert_uint_eq(standin.standin_contexts(0), 2);
    lost(miss(_i));
    end_lost();
    expect_a_new_one_works();
}

WT_CASE("context", .setup = setup, .teardown = teardown);

static CUstreamCaptureMode mode_of_thread(void)
{
    CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;

    /* Nothing else tells it: it is set, and set back. */
    cuda_ok(standin.cuThreadExchangeStreamCaptureMode(&now));
    {
        CUstreamCaptureMode back = now;

        cuda_ok(standin.cuThreadExchangeStreamCaptureMode(&back));
    }
    return now;
}

/* Another thread finds out while this one is in relaxed mode. */
WT_TEST(test_A17_capture_mode_is_put_back_after_a_reset)
{
    warm_options options = {.size = sizeof options, .device = "cuda"};
    wm_options resolved;
    wm_driver *d = NULL;
    bool mode = true;

    options.libraries = standin.libraries;
    wt_ok(wm_options_resolve(&options, NULL, &resolved));
    wt_ok(wm_cuda_open(&resolved, &d));
    ck_assert(wm_driver_capture_relaxed_begin(d, &mode));
    ck_assert_int_eq(mode_of_thread(), CU_STREAM_CAPTURE_MODE_RELAXED);
    wm_driver_lose(d, 0);
    wm_driver_capture_relaxed_end(d, &mode);
    ck_assert_int_eq(mode_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert(wm_driver_capture_relaxed_begin(d, &mode));
    wm_driver_capture_relaxed_end(d, &mode);
    ck_assert_int_eq(mode_of_thread(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    (void)wm_driver_close(d);
}

WT_TEST(test_A17_question_that_is_not_answered_is_no_reset)
{
    static const char *const questions[] = {"cuDevicePrimaryCtxGetState",
                                            "cuCtxGetId"};
    void *block = NULL;

    fill();
    for (int i = 0; i < 2; i++) {
        standin.standin_fail(questions[i], 1, 0, CUDA_ERROR_UNKNOWN);
        block = wt_pinned(runtime, 64 << 20);
        wt_ok(warm_free(block));
    }
    ck_assert_int_eq(warning[0], '\0');
    wt_free(bed.live, bed.live_device);
    wt_ok(warm_thread_release(runtime));
}

/* No miss comes before: what gives things back, or asks about them, finds out
 * by itself and calls nothing that is gone. */
enum { END_HERE = 6, END_ELSEWHERE, ENDS };

static void give_back(int way)
{
    warm_status status = WARM_OK;

    switch (way) {
    case 0:
        status = warm_handle_trim(runtime, WARM_KIND_CUBLAS, 0, 0, 0, NULL);
        break;
    case 1:
        status = warm_pinned_trim(runtime, 0, NULL);
        break;
    case 2:
        status = warm_pinned_trim(runtime, BYTES, NULL);
        break;
    case 3:
        status = warm_device_trim(runtime, 0, 0, NULL);
        break;
    case 4:
        status = warm_poll(runtime);
        break;
    case 5:
        status = warm_thread_release(runtime);
        break;
    case END_HERE: /* it is destroyed at once */
        return;
    default: /* so it is, where the thread's context is none to work in */
        cuda_ok(standin.cuCtxCreate_v4(&foreign, NULL, 0, 0));
        return;
    }
    ck_assert(status == WARM_OK || status == WARM_DRIVER_ERROR);
    ck_assert_uint_eq(warnings, 1);
}

WT_LOOP_TEST(test_A17_reset_is_noticed_before_anything_goes_back, ENDS)
{
    warm_destroy_report report = {.size = sizeof report};
    uint64_t before;

    fill();
    cuda_ok(standin.cudaDeviceReset());
    before = calls_on_the_dead();
    give_back(_i);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(calls_on_the_dead(), before);
    ck_assert_uint_eq(report.lost_handles, 3);
    ck_assert_uint_gt(report.lost_bytes, 0);
    ck_assert_uint_eq(report.live, 2);
    ck_assert_uint_eq(warnings, 3); /* that it was reset, what was lost, and
                                       what was in use */
    wt_contains(warning, "device 0 was reset");
    if (_i == END_ELSEWHERE) {
        leave();
    }
    expect_a_new_one_works();
}

/* Calls of the driver log nothing: a log callback may call the library, which
 * is in the middle of a batch then, or ends the thread's cache. The next check
 * of the context logs what happened. */
WT_TEST(test_G6_a_call_of_the_driver_logs_nothing)
{
    warm_event event = NULL;
    CUcontext popped;

    use_all_sorts();
    cuda_ok(standin.cuCtxPushCurrent_v2(NULL));
    warm_log_set(keep_warning, NULL);
    standin.standin_fail("cuCtxPopCurrent_v2", 1, 0, CUDA_ERROR_UNKNOWN);
    wt_ok(warm_event_create(runtime, 0, &event));
    standin.standin_fail("cuCtxPopCurrent_v2", 0, 0, 0);
    ck_assert_uint_eq(warnings, 0);
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_poll(runtime));
        ck_assert_uint_eq(warnings, 1);
        wt_contains(warning, "cuCtxPopCurrent failed");
    }
    cuda_ok(standin.cuCtxPopCurrent_v2(&popped));
    wt_ok(warm_event_destroy(runtime, event));
}

/* Of a device that the runtime never used it is nothing to it. */
WT_TEST(test_A17_reset_of_another_device_is_no_loss)
{
    void *block;

    cuda_ok(standin.cudaSetDevice(1));
    cuda_ok(standin.cudaDeviceReset());
    cuda_ok(standin.cudaSetDevice(0));
    block = wt_device(runtime, NULL, BYTES);
    wt_ok(warm_free(block));
    cuda_ok(standin.cudaSetDevice(1));
    cuda_ok(standin.cudaDeviceReset());
    cuda_ok(standin.cudaSetDevice(0));
    block = wt_pinned(runtime, 64 << 20);
    wt_ok(warm_free(block));
    ck_assert_int_eq(warning[0], '\0');
}

#else
SKIP_MAIN("CUDA's headers are not here")
#endif
