/* check_cuda_driver.c: the CUDA driver over the stand-in libraries.
 * backends: standin
 *
 * Each test is a process of its own (Check forks), and so starts without any
 * context. */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include "alloc/kinds/pinned.h"
#include "runtime/base/process.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum { DEVICES = 4 };

static wm_driver *d;

static void setup(void)
{
    standin_load();
    standin.standin_devices(DEVICES);
}

static void setup_open(void)
{
    setup();
    wt_ok(standin_open(&d));
    ck_assert_int_eq(d->devices, DEVICES);
}

static void close_driver(void)
{
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

static warm_stream stream_of(int device)
{
    warm_stream stream = NULL;

    wt_ok(wm_driver_stream_create(d, device, &stream));
    return stream;
}

/* Contexts created on each device so far, as decimal digits. */
static unsigned contexts(void)
{
    unsigned digits = 0;

    for (int i = 0; i < DEVICES; i++) {
        digits = digits * 10 + (unsigned)standin.standin_contexts(i);
    }
    return digits;
}

static bool has_context(void)
{
    CUcontext context = NULL;

    cuda_ok(standin.cuCtxGetCurrent(&context));
    return context != NULL;
}

WT_CASE("starting", .once = standin_load, .setup = setup);

/* ---- Starting ---- */

WT_TEST(test_G3_driver_too_old_says_so_in_words)
{
    warm_error error = {.size = sizeof error};

    standin.standin_driver_version(11080);
    wt_fails(WARM_UNAVAILABLE, standin_open(&d));
    warm_last_error(&error);
    ck_assert_int_eq(error.code, cudaErrorInsufficientDriver);
    ck_assert_str_eq(error.origin, "cudart");
    wt_contains(error.message,
                "CUDA driver version is insufficient for CUDA runtime version");
}

WT_TEST(test_G3_no_device_says_so_in_words)
{
    standin.standin_devices(0);
    wt_fails(WARM_UNAVAILABLE, standin_open(&d));
    wt_says("no CUDA-capable device is detected");
}

WT_TEST(test_A9_missing_runtime_library_is_named)
{
    wm_options options;

    standin_options(&options);
    strcpy(options.libraries, "cudart=/no/libcudart.so.13");
    wt_fails(WARM_UNAVAILABLE, wm_cuda_open(&options, &d));
    wt_says("/no/libcudart.so.13");
}

/* A library that is no CUDA runtime: libcuda has none of its functions. */
WT_TEST(test_A9_wrong_runtime_library_names_the_function)
{
    wm_options options;

    standin_options(&options);
    snprintf(options.libraries, sizeof options.libraries, "cudart=%s",
             standin_path("libcuda.so.1"));
    wt_fails(WARM_UNAVAILABLE, wm_cuda_open(&options, &d));
    wt_says("cudaRuntimeGetVersion");
}

WT_TEST(test_G3_driver_that_cannot_start_says_why)
{
    standin.standin_fail("cuInit", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    wt_fails(WARM_UNAVAILABLE, standin_open(&d));
    wt_says("out of memory");
}

static warm_status first_use[2];

static void use_first(void *argument, unsigned index)
{
    size_t available = 0, total = 0;

    first_use[index] = wm_driver_device_memory(d, 0, &available, &total);
}

WT_CASE("open", .once = standin_load, .setup = setup_open,
        .teardown = close_driver);

/* Two threads meet at a device's first use: both retain its context, and the
 * one that comes second drops its reference. */
WT_TEST(test_B13_a_driver_holds_one_reference_to_a_context)
{
    standin.standin_meet("cuDevicePrimaryCtxRetain", 2);
    wt_threads(2, use_first, NULL);
    standin.standin_meet("cuDevicePrimaryCtxRetain", 0);
    wt_ok(first_use[0]);
    wt_ok(first_use[1]);
    ck_assert_uint_eq(standin.standin_calls("cuDevicePrimaryCtxRetain"), 2);
    ck_assert_int_eq(standin.standin_references(0), 1);
    ck_assert_uint_eq(contexts(), 1000);
}

static void open_with_nodes(unsigned nodes)
{
    wm_options options;

    standin_options(&options);
    options.numa_nodes = nodes;
    wt_ok(wm_cuda_open(&options, &d));
}

static int node_told(int device)
{
    warm_device_info info = {.size = sizeof info};

    wt_ok(wm_driver_device_info(d, device, &info));
    ck_assert(!info.host_memory); /* nor if the attributes are unknown */
    return info.numa_node;
}

WT_CASE("starting", .once = standin_load, .setup = setup);

/* A driver that does not know the attribute knows the bus. */
WT_TEST(test_B15_node_of_a_device_is_the_attribute_or_the_bus)
{
    char bus_id[16];

    open_with_nodes(0);
    ck_assert(!d->numa.simulated);
    for (int i = 0; i < DEVICES; i++) {
        ck_assert_int_eq(node_told(i), 0);
        ck_assert(wm_numa_usable(&d->numa, wm_driver_device_node(d, i)));
    }
    standin.standin_fail("cuDeviceGetAttribute", 1, 1,
                         CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < DEVICES; i++) {
        snprintf(bus_id, sizeof bus_id, "0000:00:%02x.0", (unsigned)i);
        ck_assert_int_eq(node_told(i), wm_numa_of_pci(bus_id));
    }
    standin.standin_fail("cuDeviceGetPCIBusId", 1, 1, CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(node_told(0), WM_NODE_UNKNOWN);
    ck_assert_uint_eq(contexts(), 0);
    close_driver();
}

WT_TEST(test_G6_a_device_without_a_name_is_refused)
{
    warm_device_info info = {.size = sizeof info};

    open_with_nodes(0);
    standin.standin_fail("cuDeviceGetName", 1, 1, CUDA_ERROR_INVALID_VALUE);
    wt_fails(WARM_DRIVER_ERROR, wm_driver_device_info(d, 0, &info));
    ck_assert_uint_eq(info.total_bytes, 0);
    standin.standin_fail("cuDeviceGetName", 0, 0, 0);
    close_driver();
}

WT_TEST(test_B15_devices_share_simulated_nodes)
{
    open_with_nodes(WM_NODES_MAX - 1);
    ck_assert(d->numa.simulated);
    for (int i = 0; i < DEVICES; i++) {
        ck_assert_int_eq(node_told(i), i);
        ck_assert_int_eq(wm_driver_device_node(d, i), i);
    }
    close_driver();
    open_with_nodes(1);
    ck_assert_int_eq(d->numa.nodes, 1);
    ck_assert_int_eq(wm_driver_device_node(d, DEVICES - 1), 0);
    close_driver();
}

/* ---- Contexts and current devices ---- */

WT_CASE("open", .once = standin_load, .setup = setup_open,
        .teardown = close_driver);

/* Codes that libcuda has not, too. */
WT_LOOP_TEST(test_A8_failure_of_cudart_has_its_words, 3)
{
    static const cudaError_t of_cudart[] = {cudaErrorInsufficientDriver,
                                            cudaErrorIncompatibleDriverContext,
                                            cudaErrorUnknown};
    warm_error error = {.size = sizeof error};
    int device = -7;

    standin.standin_fail("cudaGetDevice", 1, 0, (int)of_cudart[_i]);
    wt_fails(WARM_DRIVER_ERROR, wm_driver_current_device(d, &device));
    warm_last_error(&error);
    ck_assert_int_eq(error.code, (int)of_cudart[_i]);
    ck_assert_str_eq(error.origin, "cudart");
    wt_contains(error.message, "cudaGetDevice: ", error.code_text);
    ck_assert_int_eq(device, -7);
    cuda_ok(standin.cudaGetLastError());
}

WT_TEST(test_B13_asking_about_devices_makes_no_context)
{
    warm_device_info info = {.size = sizeof info};
    bool relaxed = true;
    int device = -1;

    for (int i = 0; i < DEVICES; i++) {
        wt_ok(wm_driver_device_info(d, i, &info));
        ck_assert_int_eq(info.compute_major, 9);
        ck_assert_uint_gt(info.total_bytes, 0);
        ck_assert_uint_eq(info.free_bytes, 0);
        ck_assert_uint_eq(info.size, sizeof info);
    }
    wt_ok(wm_driver_current_device(d, &device));
    ck_assert_int_eq(device, 0);
    wt_ok(wm_driver_capture_mode(d, &relaxed));
    wt_ok(wm_driver_capture_mode(d, &relaxed));
    ck_assert_uint_eq(contexts(), 0);
    ck_assert(!has_context());
}

static void pin_and_unpin(void)
{
    static _Alignas(4096) char mine[8192];
    void *pinned = NULL;

    wt_ok(wm_driver_pinned_alloc(d, 10000, &pinned));
    wt_ok(wm_driver_pinned_register(d, mine, sizeof mine));
    wt_ok(wm_driver_pinned_unregister(d, mine));
    wt_ok(wm_driver_pinned_free(d, pinned, 10000));
}

WT_TEST(test_B13_pinning_uses_the_context_that_is_there)
{
    warm_device_info info = {.size = sizeof info};
    warm_stream stream = stream_of(2);

    ck_assert_uint_eq(contexts(), 10);
    pin_and_unpin();
    ck_assert_uint_eq(contexts(), 10);
    ck_assert(!has_context());
    wt_ok(wm_driver_device_info(d, 2, &info));
    ck_assert_uint_gt(info.free_bytes, 0);
    wt_ok(wm_driver_stream_destroy(d, stream));
}

WT_TEST(test_B13_pinning_first_uses_the_threads_device_only)
{
    cuda_ok(standin.cudaSetDevice(1));
    pin_and_unpin();
    ck_assert_uint_eq(contexts(), 100);
}

WT_TEST(test_B13_pinning_with_no_context_at_all_makes_one)
{
    pin_and_unpin();
    ck_assert_uint_eq(contexts(), 1000);
    ck_assert(!has_context());
}

static _Atomic int ran;

static void count_run(void *argument)
{
    atomic_fetch_add(&ran, 1);
}

/* ---- Streams ---- */

WT_TEST(test_B6_stream_ids_are_never_used_twice)
{
    wm_stream_info first, second;
    warm_stream stream;

    /* Another device than the stream's is current. */
    cuda_ok(standin.cudaSetDevice(0));
    wt_ok(wm_driver_stream_create(d, 1, &stream));
    wt_ok(wm_driver_stream_info(d, stream, &first));
    wt_ok(wm_driver_stream_destroy(d, stream));
    wt_ok(wm_driver_stream_create(d, 1, &stream));
    wt_ok(wm_driver_stream_info(d, stream, &second));
    ck_assert_uint_ne(first.id, second.id);
    ck_assert_int_eq(first.device, 1);
    ck_assert_int_eq(second.device, 1);
    wt_ok(wm_driver_stream_destroy(d, stream));
}

WT_TEST(test_B6_default_streams_are_those_of_the_current_device)
{
    wm_stream_info zero, legacy, own;

    cuda_ok(standin.cudaSetDevice(2));
    wt_ok(wm_driver_stream_info(d, NULL, &zero));
    wt_ok(wm_driver_stream_info(d, WARM_STREAM_LEGACY, &legacy));
    wt_ok(wm_driver_stream_info(d, WARM_STREAM_PER_THREAD, &own));
    ck_assert_int_eq(zero.device, 2);
    ck_assert_int_eq(own.device, 2);
    ck_assert_uint_eq(zero.id, legacy.id);
    ck_assert_uint_ne(zero.id, own.id);
}

WT_TEST(test_B13_default_stream_means_the_threads_own_device)
{
    wm_stream_info info;
    warm_stream other = stream_of(2);

    wt_ok(wm_driver_stream_info(d, NULL, &info));
    ck_assert_int_eq(info.device, 0);
    wt_ok(wm_driver_stream_destroy(d, other));
}

static void wait_for_flag(void *argument)
{
    _Atomic int *open = argument;

    while (!atomic_load(open)) {
        sched_yield();
    }
}

/* What the flags promise cannot be seen over the stand-in: memory for devices
 * used later, streams that the legacy one does not hold up, events that cost
 * little, captures that other threads do not spoil. */
WT_TEST(test_B7_B13_G3_calls_carry_the_flags_that_the_contract_needs)
{
    static _Alignas(4096) char memory[4096];
    warm_stream stream;
    warm_event event;
    warm_graph graph = NULL;
    void *pinned = NULL;

    wt_ok(wm_driver_pinned_alloc(d, 4096, &pinned));
    wt_ok(wm_driver_pinned_register(d, memory, sizeof memory));
    wt_ok(wm_driver_stream_create(d, 0, &stream));
    wt_ok(wm_driver_event_create(d, 0, &event));
    wt_ok(wm_driver_capture_begin(d, stream));
    wt_ok(wm_driver_capture_end(d, stream, &graph));
    ck_assert_uint_eq(standin.standin_flags("cuMemHostAlloc"),
                      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    ck_assert_uint_eq(standin.standin_flags("cuMemHostRegister_v2"),
                      CU_MEMHOSTREGISTER_PORTABLE |
                          CU_MEMHOSTREGISTER_DEVICEMAP);
    ck_assert_uint_eq(standin.standin_flags("cuStreamCreate"),
                      CU_STREAM_NON_BLOCKING);
    ck_assert_uint_eq(standin.standin_flags("cuEventCreate"),
                      CU_EVENT_DISABLE_TIMING);
    ck_assert_uint_eq(standin.standin_flags("cuStreamBeginCapture_v2"),
                      CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ck_assert_uint_eq(standin.standin_flags("cuGraphInstantiateWithFlags"), 0);
    wt_ok(wm_driver_graph_destroy(d, graph));
    wt_ok(wm_driver_event_destroy(d, event));
    wt_ok(wm_driver_stream_destroy(d, stream));
    wt_ok(wm_driver_pinned_unregister(d, memory));
    wt_ok(wm_driver_pinned_free(d, pinned, 4096));
}

/* ---- Captures ---- */

/* CUDA refuses to name a stream that captures, and spoils the capture. */
WT_TEST(test_B7_asking_about_a_stream_that_captures_spoils_nothing)
{
    wm_stream_info before, during, legacy, during_legacy, after;
    warm_graph graph = NULL;
    warm_stream stream = stream_of(1);

    wt_ok(wm_driver_stream_info(d, stream, &before));
    wt_ok(wm_driver_stream_info(d, NULL, &legacy));
    wt_ok(wm_driver_capture_begin(d, stream));
    wt_ok(wm_driver_stream_info(d, stream, &during));
    wt_ok(wm_driver_stream_info(d, NULL, &during_legacy));
    wt_ok(wm_driver_capture_end(d, stream, &graph));
    wt_ok(wm_driver_stream_info(d, stream, &after));
    ck_assert_int_eq(during.device, WM_DEVICE_UNKNOWN);
    ck_assert_uint_ne(during.id, before.id);
    ck_assert_uint_eq(after.id, before.id);
    ck_assert_int_eq(after.device, 1);
    ck_assert_uint_eq(during_legacy.id, legacy.id);
    ck_assert_int_eq(during_legacy.device, legacy.device);
    ck_assert_uint_ne(legacy.id, during.id);
    wt_ok(wm_driver_graph_destroy(d, graph));
    wt_ok(wm_driver_stream_destroy(d, stream));
}

/* A stream of device 1: of the driver, or of the program. */
static warm_stream stream_there(bool own)
{
    CUstream made = NULL;
    CUcontext popped;

    if (!own) {
        return stream_of(1);
    }
    cuda_ok(standin.cudaSetDevice(1));
    cuda_ok(standin.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    cuda_ok(standin.cuCtxPopCurrent_v2(&popped));
    return made;
}

/* With device 0 current: calls of which CUDA does not say that they work in
 * another context than the stream's. */
WT_LOOP_TEST(test_A17_I3_calls_are_made_in_the_context_of_their_stream, 2)
{
    warm_stream there = stream_there(_i == 1);
    CUcontext before = NULL, after = NULL;
    warm_graph graph = NULL;

    cuda_ok(standin.cudaSetDevice(0));
    cuda_ok(standin.cuCtxGetCurrent(&before));
    wt_ok(wm_driver_host_func(d, there, count_run, NULL));
    standin.standin_fail("cuCtxGetCurrent", 1, 0, CUDA_ERROR_UNKNOWN);
    wt_fails(WARM_DRIVER_ERROR, wm_driver_host_func(d, there, count_run, NULL));
    wt_ok(wm_driver_capture_begin(d, there));
    wt_ok(wm_driver_host_func(d, there, count_run, NULL));
    wt_ok(wm_driver_capture_end(d, there, &graph));
    wt_ok(wm_driver_graph_launch(d, graph, there));
    wt_ok(wm_driver_graph_launch(d, graph, there));
    wt_ok(wm_driver_stream_synchronize(d, there));
    ck_assert_int_eq(atomic_load(&ran), 3);
    ck_assert_int_eq(d->ops->home(d, graph), 1);
    wt_ok(wm_driver_graph_destroy(d, graph));
    wt_ok(wm_driver_stream_destroy(d, there));
    cuda_ok(standin.cuCtxGetCurrent(&after));
    ck_assert_ptr_eq(after, before);
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
}

static CUstream created_again;

static CUresult create_again(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = created_again;
    return CUDA_SUCCESS;
}

/* A reset destroyed the stream, and one of another device has its address. */
WT_TEST(test_A17_an_address_is_of_the_device_where_it_was_made_last)
{
    wm_cuda *c = (wm_cuda *)d;
    __typeof__(c->cu.cuStreamCreate) real = c->cu.cuStreamCreate;
    warm_stream stream = NULL, again = NULL;

    wt_ok(wm_driver_stream_create(d, 0, &stream));
    created_again = stream;
    c->cu.cuStreamCreate = create_again;
    wt_ok(wm_driver_stream_create(d, 1, &again));
    c->cu.cuStreamCreate = real;
    ck_assert_ptr_eq(again, stream);
    ck_assert_int_eq(d->ops->home(d, stream), 1);
    wt_ok(wm_driver_stream_destroy(d, stream));
}

/* The context that was noted for the capture is not that of a later stream at
 * the address: it is forgotten once the stream is found not to capture. */
WT_LOOP_TEST(test_A17_I3_the_program_ends_a_capture_that_the_driver_began, 2)
{
    const wm_cuda_homes *homes = &((wm_cuda *)d)->homes;
    warm_stream there = stream_there(true);
    wm_stream_info info;
    CUgraph graph = NULL;

    cuda_ok(standin.cudaSetDevice(0));
    wt_ok(wm_driver_capture_begin(d, there));
    ck_assert_uint_eq(homes->devices.count, 1);
    cuda_ok(standin.cuStreamEndCapture(there, &graph));
    cuda_ok(standin.cuGraphDestroy(graph));
    /* A look, as a poll's, leaves the note to those who use the stream. */
    wt_ok(wm_driver_stream_info(d, there, &info));
    ck_assert_uint_eq(homes->devices.count, 1);
    if (_i == 0) {
        wt_ok(wm_driver_host_func(d, there, count_run, NULL));
        wt_ok(wm_driver_stream_synchronize(d, there));
    } else {
        wt_ok(wm_driver_stream_destroy(d, there));
    }
    ck_assert_uint_eq(homes->devices.count, 0);
    ck_assert_uint_eq(atomic_load(&homes->captures), 0);
    if (_i == 0) {
        wt_ok(wm_driver_stream_destroy(d, there));
    }
}

/* The legacy stream has an id though nothing may be asked about it now. */
WT_TEST(test_B6_B7_a_blocked_legacy_stream_is_told_apart_by_device)
{
    wm_stream_info zero, two;

    standin.standin_fail("cuStreamGetId", 1, 1, cudaErrorStreamCaptureImplicit);
    standin.standin_fail("cuStreamGetCtx", 1, 1, 906);
    wt_ok(wm_driver_stream_info(d, NULL, &zero));
    cuda_ok(standin.cudaSetDevice(2));
    wt_ok(wm_driver_stream_info(d, NULL, &two));
    ck_assert_int_eq(zero.device, 0);
    ck_assert_int_eq(two.device, 2);
    ck_assert_uint_ne(zero.id, two.id);
}

WT_TEST(test_B7_legacy_stream_is_blocked_while_another_captures)
{
    wm_capture capture = WM_CAPTURE_NONE;

    standin.standin_fail("cuStreamIsCapturing", 1, 0,
                         cudaErrorStreamCaptureImplicit);
    wt_ok(wm_driver_stream_capture(d, NULL, &capture));
    ck_assert_int_eq(capture, WM_CAPTURE_BLOCKED);
    cuda_ok(standin.cudaPeekAtLastError());
    wt_ok(wm_driver_stream_capture(d, NULL, &capture));
    ck_assert_int_eq(capture, WM_CAPTURE_NONE);
}

WT_TEST(test_B7_relaxed_mode_gives_the_users_mode_back)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    bool outer = true, inner = true;

    cuda_ok(standin.cudaThreadExchangeStreamCaptureMode(&mode));
    wt_ok(wm_driver_capture_mode(d, &outer));
    wt_ok(wm_driver_capture_mode(d, &inner));
    ck_assert(!outer);
    ck_assert(inner);
    wt_ok(wm_driver_capture_mode(d, &inner));
    wt_ok(wm_driver_capture_mode(d, &outer));
    mode = cudaStreamCaptureModeGlobal;
    cuda_ok(standin.cudaThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
}

/* What is asked, or waited for, beside captures: the call, and CUDA's. */
static warm_status ask_event(warm_stream stream, warm_event event)
{
    return wm_driver_event_passed(d, event);
}

static warm_status ask_stream(warm_stream stream, warm_event event)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;

    return wm_driver_stream_passed(d, stream, &capture);
}

static warm_status await_stream(warm_stream stream, warm_event event)
{
    return wm_driver_stream_await(d, stream);
}

static warm_status await_event(warm_stream stream, warm_event event)
{
    return wm_driver_event_await(d, event);
}

static const struct {
    warm_status (*call)(warm_stream stream, warm_event event);
    const char *function;
    bool waits;
} beside[] = {
    {ask_event, "cuEventQuery", false},
    {ask_stream, "cuStreamQuery", false},
    {await_stream, "cuStreamSynchronize", true},
    {await_event, "cuEventSynchronize", true},
};

static const enum cudaStreamCaptureMode modes[] = {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed};

/* Sets the thread's mode and gives what it was. */
static enum cudaStreamCaptureMode exchange(enum cudaStreamCaptureMode mode)
{
    cuda_ok(standin.cudaThreadExchangeStreamCaptureMode(&mode));
    return mode;
}

/* It is relaxed while CUDA is asked, or a capture of this thread, and a global
 * one of any, is spoiled; and then the user's, whatever the answer was. */
WT_LOOP_TEST(test_B7_mode_is_relaxed_for_the_call_and_the_users_afterwards,
             sizeof beside / sizeof beside[0])
{
    const char *function = beside[_i].function;
    _Atomic int open;
    warm_event event;
    warm_stream stream = stream_of(0);

    wt_ok(wm_driver_event_create(d, 0, &event));
    for (unsigned m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        open = beside[_i].waits;
        wt_ok(wm_driver_host_func(d, stream, wait_for_flag, &open));
        wt_ok(wm_driver_event_record(d, event, stream));
        (void)exchange(modes[m]);
        wt_fails(beside[_i].waits ? WARM_OK : WARM_NOT_READY,
                 beside[_i].call(stream, event));
        ck_assert_uint_eq(standin.standin_flags(function),
                          cudaStreamCaptureModeRelaxed);
        ck_assert_int_eq(exchange(modes[m]), modes[m]);
        open = 1;
        wt_ok(wm_driver_event_synchronize(d, event));
        wt_ok(wm_driver_stream_synchronize(d, stream));
        wt_ok(beside[_i].call(stream, event));
        ck_assert_int_eq(exchange(modes[m]), modes[m]);
        standin.standin_fail(function, 1, 0, cudaErrorUnknown);
        wt_fails(WARM_DRIVER_ERROR, beside[_i].call(stream, event));
        ck_assert_int_eq(exchange(modes[m]), modes[m]);
    }
    wt_ok(wm_driver_event_destroy(d, event));
    wt_ok(wm_driver_stream_destroy(d, stream));
}

/* Nothing is asked where the mode cannot be had, and nothing has passed. */
WT_LOOP_TEST(test_B7_without_the_relaxed_mode_nothing_is_asked,
             sizeof beside / sizeof beside[0])
{
    const char *function = beside[_i].function;
    warm_event event;
    uint64_t calls;
    warm_stream stream = stream_of(0);

    wt_ok(wm_driver_event_create(d, 0, &event));
    calls = standin.standin_calls(function);
    standin.standin_fail("cuThreadExchangeStreamCaptureMode", 1, 0,
                         cudaErrorUnknown);
    wt_fails(WARM_DRIVER_ERROR, beside[_i].call(stream, event));
    ck_assert_uint_eq(standin.standin_calls(function), calls);
    wt_ok(beside[_i].call(stream, event));
    /* That it is still relaxed is worth an error, but where work is done. */
    standin.standin_fail("cuThreadExchangeStreamCaptureMode", 2, 0,
                         cudaErrorUnknown);
    wt_fails(beside[_i].waits ? WARM_OK : WARM_DRIVER_ERROR,
             beside[_i].call(stream, event));
    wt_ok(wm_driver_event_destroy(d, event));
    wt_ok(wm_driver_stream_destroy(d, stream));
}

WT_TEST(test_B7_failed_end_of_a_capture_gives_no_graph)
{
    warm_graph graph = NULL;
    warm_stream stream = stream_of(0);

    wt_ok(wm_driver_capture_begin(d, stream));
    standin.standin_fail("cuGraphInstantiateWithFlags", 1, 0,
                         cudaErrorMemoryAllocation);
    wt_fails(WARM_OUT_OF_MEMORY, wm_driver_capture_end(d, stream, &graph));
    ck_assert_ptr_null(graph);
    ck_assert_uint_eq(standin.standin_calls("cuGraphDestroy"), 1);
    wt_ok(wm_driver_stream_destroy(d, stream));
}

/* ---- Errors ---- */

static const struct {
    int code;
    warm_status status;
} codes[] = {
    {cudaErrorMemoryAllocation, WARM_OUT_OF_MEMORY},
    {cudaErrorInvalidResourceHandle, WARM_INVALID_STREAM},
    {cudaErrorStreamCaptureUnsupported, WARM_CAPTURE_ERROR},
    {cudaErrorStreamCaptureInvalidated, WARM_CAPTURE_ERROR},
    {cudaErrorStreamCaptureWrongThread, WARM_CAPTURE_ERROR},
    {cudaErrorTimeout, WARM_DRIVER_ERROR},
    {cudaErrorUnknown, WARM_DRIVER_ERROR},
};

WT_LOOP_TEST(test_B20_G6_code_becomes_a_status_and_none_of_cudarts,
             sizeof codes / sizeof codes[0])
{
    warm_error error = {.size = sizeof error};
    void *memory = &memory;

    standin.standin_fail("cuMemAlloc_v2", 1, 0, codes[_i].code);
    wt_fails(codes[_i].status, wm_driver_device_alloc(d, 0, 4096, &memory));
    ck_assert_ptr_eq(memory, &memory);
    warm_last_error(&error);
    ck_assert_int_eq(error.code, codes[_i].code);
    ck_assert_str_eq(error.origin, "cuda");
    ck_assert_str_ne(error.code_text, "");
    wt_contains(error.message, "cuMemAlloc:");
    cuda_ok(standin.cudaPeekAtLastError());
    ck_assert(!has_context());
}

static const struct {
    int code;
    warm_status status;
} open_codes[] = {
    {cudaErrorInvalidValue, WARM_UNAVAILABLE},
    {cudaErrorMemoryAllocation, WARM_OUT_OF_MEMORY},
    {cudaErrorDeviceUninitialized, WARM_UNAVAILABLE},
    {cudaErrorMapBufferObjectFailed, WARM_UNAVAILABLE},
    {cudaErrorInvalidResourceHandle, WARM_UNAVAILABLE},
    {cudaErrorUnknown, WARM_DRIVER_ERROR},
};

/* A handle that names nothing, or this process's own memory. */
WT_LOOP_TEST(test_C9_memory_that_cannot_be_opened_is_unavailable,
             sizeof open_codes / sizeof open_codes[0])
{
    warm_error error = {.size = sizeof error};
    void *memory = NULL, *pointer = &pointer;
    wm_ipc_name name;

    wt_ok(wm_driver_device_alloc(d, 1, 4096, &memory));
    wt_ok(wm_driver_ipc_export(d, 1, memory, &name));
    wt_fails(WARM_UNAVAILABLE, wm_driver_ipc_open(d, 1, &name, &pointer));
    ck_assert_uint_eq(standin.standin_flags("cuIpcOpenMemHandle_v2"),
                      CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    standin.standin_fail("cuIpcOpenMemHandle_v2", 1, 0, open_codes[_i].code);
    wt_fails(open_codes[_i].status, wm_driver_ipc_open(d, 1, &name, &pointer));
    warm_last_error(&error);
    ck_assert_int_eq(error.code, open_codes[_i].code);
    ck_assert_str_eq(error.origin, "cuda");
    wt_contains(error.message, "cuIpcOpenMemHandle:");
    ck_assert_ptr_eq(pointer, &pointer);
    wt_fails(WARM_DRIVER_ERROR, wm_driver_ipc_close(d, 1, memory));
    cuda_ok(standin.cudaPeekAtLastError());
    ck_assert(!has_context());
    wt_ok(wm_driver_device_free(d, 1, memory));
}

WT_TEST(test_A6_driver_that_unloads_is_not_called_any_more)
{
    void *memory = NULL;
    uint64_t calls;

    standin.standin_fail("cuMemAlloc_v2", 1, 0, cudaErrorCudartUnloading);
    wt_fails(WARM_EXITING, wm_driver_device_alloc(d, 0, 4096, &memory));
    ck_assert(wm_process_exiting());
    calls = standin.standin_calls("cuMemAlloc_v2");
    wt_fails(WARM_EXITING, wm_driver_device_alloc(d, 0, 4096, &memory));
    ck_assert_uint_eq(standin.standin_calls("cuMemAlloc_v2"), calls);
}

static size_t free_bytes(void)
{
    size_t available = 0, total;

    wt_ok(wm_driver_device_memory(d, 1, &available, &total));
    return available;
}

/* Reserves four units of a range of device 1. */
static void *reserve_units(size_t *unit)
{
    void *range = NULL;

    *unit = 0;
    wt_ok(wm_driver_range_unit(d, 1, unit));
    ck_assert_uint_gt(*unit, 0);
    ck_assert_uint_eq(contexts(), 0);
    wt_ok(wm_driver_range_reserve(d, 1, 4 * *unit, &range));
    ck_assert_uint_eq((uintptr_t)range % *unit, 0);
    return range;
}

/* One mapping of one allocation, whose handle does not outlive the call. What
 * cannot be used is not there any more. */
WT_TEST(test_C8_a_range_is_one_allocation_and_one_mapping)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap",
                                        "cuMemSetAccess"};
    bool torn = false;
    size_t unit;
    void *range = reserve_units(&unit);
    size_t before = free_bytes();

    for (int i = 0; i < 3; i++) {
        standin.standin_fail(calls[i], 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
        wt_fails(WARM_OUT_OF_MEMORY,
                 wm_driver_range_commit(d, 1, range, 4 * unit, &torn));
        wt_says(calls[i]);
        ck_assert(!torn);
        ck_assert_uint_eq(free_bytes(), before);
    }
    wt_ok(wm_driver_range_commit(d, 1, range, 4 * unit, &torn));
    ck_assert_uint_eq(free_bytes(), before - 4 * unit);
    ck_assert_uint_eq(standin.standin_calls("cuMemCreate"), 4);
    ck_assert_uint_eq(standin.standin_calls("cuMemRelease"), 3);
    ck_assert_uint_eq(standin.standin_calls("cuMemMap"), 3);
    ck_assert_uint_eq(standin.standin_calls("cuMemUnmap"), 1);
    wt_ok(wm_driver_range_decommit(d, 1, range, 4 * unit));
    ck_assert_uint_eq(standin.standin_calls("cuMemUnmap"), 2);
    wt_ok(wm_driver_range_release(d, 1, range, 4 * unit));
    ck_assert_uint_eq(free_bytes(), before);
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
}

/* Nor is it taken for memory that can be had again if it stays there. */
WT_TEST(test_C8_a_commit_that_cannot_be_undone_says_so)
{
    bool torn = false;
    size_t unit;
    void *range = reserve_units(&unit);

    standin.standin_fail("cuMemSetAccess", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    standin.standin_fail("cuMemUnmap", 1, 0, CUDA_ERROR_UNKNOWN);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_range_commit(d, 1, range, 4 * unit, &torn));
    wt_says("cuMemSetAccess");
    ck_assert(torn);
    wt_ok(wm_driver_range_decommit(d, 1, range, 4 * unit));
    wt_ok(wm_driver_range_release(d, 1, range, 4 * unit));
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
}

/* What the driver does not take is there still. */
WT_TEST(test_C8_a_range_that_is_not_unmapped_has_its_memory)
{
    size_t unit, before;
    void *range = reserve_units(&unit);

    wt_ok(wm_driver_range_commit(d, 1, range, 4 * unit, NULL));
    before = free_bytes();
    standin.standin_fail("cuMemUnmap", 1, 0, CUDA_ERROR_UNKNOWN);
    wt_fails(WARM_DRIVER_ERROR,
             wm_driver_range_decommit(d, 1, range, 4 * unit));
    wt_says("cuMemUnmap");
    ck_assert_uint_eq(free_bytes(), before);
    wt_ok(wm_driver_range_decommit(d, 1, range, 4 * unit));
    wt_ok(wm_driver_range_release(d, 1, range, 4 * unit));
}

/* Where the device has that network cards may reach memory directly. */
WT_TEST(test_C8_memory_of_ranges_is_for_network_cards_too)
{
    size_t unit;
    void *range = reserve_units(&unit);

    for (int has = 1; has <= 2; has++) {
        standin.standin_ranges(has);
        wt_ok(wm_driver_range_commit(d, 1, range, 4 * unit, NULL));
        ck_assert_uint_eq(standin.standin_flags("cuMemCreate"),
                          (unsigned)has - 1);
        wt_ok(wm_driver_range_decommit(d, 1, range, 4 * unit));
    }
    wt_ok(wm_driver_range_release(d, 1, range, 4 * unit));
}

static warm_status copy_on(warm_stream stream, void *range, void *block)
{
    warm_status there =
        wm_driver_copy(d, range, block, 100, WM_COPY_ANY, stream);
    warm_status back =
        wm_driver_copy(d, block, range, 100, WM_COPY_ANY, stream);

    ck_assert_int_eq(there, back);
    wt_ok(wm_driver_stream_synchronize(d, stream));
    return there;
}

/* CUDA copies memory of ranges only by devices that have access to it. */
WT_TEST(test_C11_I2_I5_ranges_are_accessible_to_peers_without_their_context)
{
    size_t unit;
    void *range = reserve_units(&unit), *block = NULL;
    warm_stream own, other;

    for (int peers = 1; peers >= 0; peers--) {
        standin.standin_peers(peers);
        wt_ok(wm_driver_range_commit(d, 1, range, 4 * unit, NULL));
        ck_assert_uint_eq(contexts(), peers == 1 ? 100 : 1100);
        own = stream_of(1);
        other = stream_of(0);
        wt_ok(wm_driver_device_alloc(d, 0, 100, &block));
        wt_ok(copy_on(own, range, block));
        ck_assert_int_eq(copy_on(other, range, block),
                         peers == 1 ? WARM_OK : WARM_DRIVER_ERROR);
        wt_ok(wm_driver_device_free(d, 0, block));
        wt_ok(wm_driver_stream_destroy(d, own));
        wt_ok(wm_driver_stream_destroy(d, other));
        wt_ok(wm_driver_range_decommit(d, 1, range, 4 * unit));
    }
    wt_ok(wm_driver_range_release(d, 1, range, 4 * unit));
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
}

/* If CUDA refuses the peers, the memory still serves its own device. */
WT_TEST(test_C11_I2_range_whose_peers_are_refused_serves_its_device)
{
    size_t unit;
    void *range = reserve_units(&unit);
    warm_stream own = stream_of(1), other = stream_of(0);

    standin.standin_fail("cuMemSetAccess", 2, 0, CUDA_ERROR_OUT_OF_MEMORY);
    wt_ok(wm_driver_range_commit(d, 1, range, 4 * unit, NULL));
    wt_contains(atomic_load(&d->warning), "cuMemSetAccess");
    wt_ok(copy_on(own, range, range));
    ck_assert_int_eq(copy_on(other, range, range), WARM_DRIVER_ERROR);
    wt_ok(wm_driver_stream_destroy(d, own));
    wt_ok(wm_driver_stream_destroy(d, other));
    wt_ok(wm_driver_range_decommit(d, 1, range, 4 * unit));
    wt_ok(wm_driver_range_release(d, 1, range, 4 * unit));
}

/* A device without virtual memory is no error. */
WT_TEST(test_C8_a_device_may_have_no_ranges)
{
    size_t unit = 1;

    standin.standin_ranges(0);
    wt_ok(wm_driver_range_unit(d, 0, &unit));
    ck_assert_uint_eq(unit, 0);
}

WT_CASE("starting", .once = standin_load, .setup = setup);

static char shared_log[2048];

static void keep_log(void *context, warm_log_level level, const char *line)
{
    strncat(shared_log, line, sizeof shared_log - strlen(shared_log) - 1);
}

/* By option and device: the memory that host and device share, and what the log
 * says about it. */
WT_TEST(test_F1_managed_memory_where_the_option_or_the_device_wants_it)
{
    static const struct {
        const char *option;
        int at_once, host_tables;
        int managed;
        const char *says; /* null: nothing */
    } cases[] = {
        {"auto", 1, 0, 0, NULL},
        {"auto", 0, 0, 0, NULL},
        {"auto", 1, 1, 1, "device 0 uses the host's page tables"},
        {"mapped", 1, 1, 0, NULL},
        {"managed", 1, 0, 1, NULL},
        {"managed", 0, 0, 0, "must not touch managed memory at once"},
    };
    warm_options options = {.size = sizeof options,
                            .device = "cuda",
                            .libraries = standin.libraries,
                            .log = "info"};

    warm_log_set(keep_log, NULL);
    standin.standin_devices(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        warm_shared_info info = {.size = sizeof info};
        uint64_t calls = standin.standin_calls("cuMemAllocManaged");
        warm_runtime *runtime = NULL;
        void *buffer = NULL;

        shared_log[0] = '\0';
        standin.standin_managed(cases[i].at_once);
        standin.standin_host_tables(cases[i].host_tables);
        options.shared_memory = cases[i].option;
        wt_ok(warm_runtime_create(&options, &runtime));
        wt_ok(warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_SHARED, &buffer));
        wt_ok(warm_shared_get_info(buffer, &info));
        ck_assert_int_eq(info.managed, cases[i].managed);
        ck_assert_ptr_eq(info.address, buffer);
        ck_assert(standin.standin_calls("cuMemAllocManaged") ==
                  calls + (cases[i].managed ? 1 : 0));
        if (cases[i].says != NULL) {
            wt_contains(shared_log, cases[i].says);
        } else {
            ck_assert_ptr_null(strstr(shared_log, "managed"));
        }
        wt_ok(warm_free(buffer));
        wt_runtime_end(runtime);
    }
    ck_assert_uint_eq(standin.standin_flags("cuMemAllocManaged"),
                      CU_MEM_ATTACH_GLOBAL);
    standin.standin_managed(1);
    standin.standin_host_tables(0);
    warm_log_set(NULL, NULL);
}

static unsigned locking;

static void count_locking(void *context, warm_log_level level, const char *line)
{
    locking += level == WARM_LOG_WARNING &&
               strstr(line, "pin:register page-locks nothing") != NULL;
}

static uint64_t held_of(warm_runtime *runtime, int memory)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);

    wt_ok(warm_memory_get_totals(runtime, memory, &totals));
    return totals.held_bytes;
}

/* One budget for both, in which nothing counts twice. */
WT_LOOP_TEST(test_F7_F12_memory_of_a_device_that_is_the_hosts_counts_once, 2)
{
    warm_options options = {.size = sizeof options,
                            .device = "cuda",
                            .libraries = standin.libraries,
                            .segment = 2 << 20,
                            .limit_wait_ms = 1};
    warm_device_info info = WARM_INIT(warm_device_info);
    warm_watermarks marks = WARM_INIT(warm_watermarks);
    warm_runtime *runtime = NULL;
    warm_stream stream;
    void *block, *pinned, *refused = NULL;
    int device = 1;

    standin.standin_devices(2);
    standin.standin_host_tables(1 + _i);
    wt_ok(warm_runtime_create(&options, &runtime));
    wt_ok(warm_device_get_info(runtime, device, &info));
    ck_assert_uint_eq(info.host_memory, 1);
    wt_ok(warm_watermarks_get(runtime, WARM_MEMORY_OF_HOST, &marks));
    ck_assert(marks.low_ratio == 1.4);
    stream = wt_stream(runtime, device);
    wt_ok(warm_watermarks_set(runtime, device, 32 << 20, 0));
    pinned = wt_pinned(runtime, 12 << 20);
    wt_ok(warm_device_alloc(runtime, device, stream, 16 << 20, &block));
    ck_assert_uint_eq(held_of(runtime, device), 28 << 20);
    ck_assert_uint_eq(held_of(runtime, WARM_MEMORY_OF_HOST), 28 << 20);
    ck_assert_uint_eq(held_of(runtime, WARM_MEMORY_OF_ALL), 28 << 20);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, device, stream, 8 << 20, &refused));
    wt_says("limit of pinned memory");
    /* What is idle of either makes room for the other. */
    wt_ok(warm_free(pinned));
    wt_ok(warm_device_alloc(runtime, device, stream, 8 << 20, &refused));
    ck_assert_uint_eq(held_of(runtime, WARM_MEMORY_OF_HOST), 24 << 20);
    wt_ok(warm_free(block));
    wt_ok(warm_free(refused));
    wt_ok(warm_stream_synchronize(runtime, stream));
    pinned = wt_pinned(runtime, 30 << 20);
    ck_assert_uint_le(held_of(runtime, WARM_MEMORY_OF_HOST), 32 << 20);
    wt_ok(warm_free(pinned));
    wt_ok(warm_trim(runtime, 0, NULL));
    ck_assert_uint_eq(held_of(runtime, WARM_MEMORY_OF_ALL), 0);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static uint64_t recommended(warm_runtime *runtime)
{
    warm_watermarks marks = WARM_INIT(warm_watermarks);

    wt_ok(warm_watermarks_get(runtime, WARM_MEMORY_OF_HOST, &marks));
    return marks.recommended_bytes;
}

static void put_available(const char *root, size_t bytes)
{
    char text[64];

    snprintf(text, sizeof text, "MemAvailable: %zu kB\n", bytes / 1024);
    wt_folder_put(root, "/proc/meminfo", text);
}

/* Managed memory holds nothing of the machine until it is touched, all of it
 * or a part. */
WT_TEST(test_F12_managed_memory_does_not_raise_the_recommended_maximum)
{
    const size_t mib = 1 << 20, there = 1024 * mib;
    warm_options options = {.size = sizeof options,
                            .device = "cuda",
                            .libraries = standin.libraries};
    warm_shared_info info = WARM_INIT(warm_shared_info);
    char root[WT_FOLDER], proc[WT_FOLDER + 8];
    warm_runtime *runtime = NULL;
    void *buffer, *more, *least;

    wt_folder(root);
    snprintf(proc, sizeof proc, "%s/proc", root);
    ck_assert_int_eq(mkdir(proc, 0700), 0);
    standin.standin_devices(1);
    standin.standin_host_tables(1);
    wt_ok(warm_runtime_create(&options, &runtime));
    runtime->pinned->space.pressure.root = root;
    put_available(root, there);
    ck_assert_uint_eq(recommended(runtime), there);
    wt_ok(warm_shared_alloc(runtime, 0, 64 * mib, WARM_USAGE_SHARED, &buffer));
    wt_ok(warm_shared_get_info(buffer, &info));
    ck_assert_int_eq(info.managed, 1);
    wt_ok(warm_shared_alloc(runtime, 0, 32 * mib, WARM_USAGE_SHARED, &more));
    wt_ok(warm_shared_alloc(runtime, 0, 1000, WARM_USAGE_SHARED, &least));
    ck_assert_uint_eq(recommended(runtime), there);
    /* What has pages is sampled. */
    memset(buffer, 1, 64 * mib);
    put_available(root, there - 64 * mib);
    ck_assert_uint_le(recommended(runtime), there + 4 * mib);
    ck_assert_uint_ge(recommended(runtime), there - 4 * mib);
    memset(more, 1, 16 * mib);
    put_available(root, there - 80 * mib);
    ck_assert_uint_le(recommended(runtime), there + 4 * mib);
    ck_assert_uint_ge(recommended(runtime), there - 4 * mib);
    wt_free(buffer, more, least);
    wt_runtime_end(runtime);
    standin.standin_host_tables(0);
    wt_folder_end(root);
}

/* GH200 and GB200 have several nodes: one device that reads through the host's
 * page tables is enough. */
WT_TEST(test_B9_what_page_locks_nothing_is_the_programs_choice_only)
{
    static const char *const pins[] = {"auto", "register"};
    warm_options options = {.size = sizeof options,
                            .device = "cuda",
                            .libraries = standin.libraries,
                            .test = "numa_nodes=2"};
    warm_runtime *runtime = NULL;
    void *block = NULL;

    standin.standin_host_tables(1);
    warm_log_set(count_locking, NULL);
    for (unsigned i = 0; i < 2; i++) {
        options.pin = pins[i];
        wt_ok(warm_runtime_create(&options, &runtime));
        ck_assert_uint_eq(locking, i);
        block = wt_pinned(runtime, 1 << 20);
        ck_assert_uint_eq(standin.standin_calls("cuMemHostAlloc"), 1);
        ck_assert_uint_eq(standin.standin_calls("cuMemHostRegister_v2"), i);
        wt_ok(warm_free(block));
        wt_runtime_end(runtime);
    }
    standin.standin_host_tables(0);
    options.pin = "auto";
    wt_ok(warm_runtime_create(&options, &runtime));
    block = wt_pinned(runtime, 1 << 20);
    ck_assert_uint_eq(standin.standin_calls("cuMemHostRegister_v2"), 2);
    wt_ok(warm_free(block));
    wt_runtime_end(runtime);
    ck_assert_uint_eq(locking, 1);
    warm_log_set(NULL, NULL);
}

WT_CASE("open", .once = standin_load, .setup = setup_open,
        .teardown = close_driver);

WT_TEST(test_F3_a_device_has_an_address_for_page_locked_memory_only)
{
    static _Alignas(4096) char memory[4096];
    void *pinned = NULL, *address = NULL;

    wt_ok(wm_driver_pinned_alloc(d, 8192, &pinned));
    wt_ok(wm_driver_device_address(d, 0, (char *)pinned + 5000, &address));
    ck_assert_ptr_eq(address, (char *)pinned + 5000);
    address = NULL;
    wt_fails(WARM_DRIVER_ERROR,
             wm_driver_device_address(d, 0, memory, &address));
    ck_assert_ptr_null(address);
    wt_says("cuMemHostGetDevicePointer");
    wt_ok(wm_driver_pinned_register(d, memory, sizeof memory));
    wt_ok(wm_driver_device_address(d, 0, memory + 7, &address));
    ck_assert_ptr_eq(address, memory + 7);
    wt_ok(wm_driver_pinned_unregister(d, memory));
    wt_fails(WARM_DRIVER_ERROR,
             wm_driver_device_address(d, 0, memory, &address));
    wt_ok(wm_driver_pinned_free(d, pinned, 8192));
}

/* CUDA promises no alignment of page-locked memory: where it does not begin at
 * a page it does for us, a page of it is not used, and it goes back as it came.
 * Nothing goes back in an allocation: that would break captures.
 */
WT_TEST(test_B8_pinned_memory_begins_at_a_page)
{
    static const size_t shift[] = {512, 256, 4095, 0};
    enum { REGIONS = 4, BYTES = 3 * 4096 + 1 };
    char *region[REGIONS];

    for (int i = 0; i < REGIONS; i++) {
        standin.standin_host_shift(shift[i]);
        wt_ok(wm_driver_pinned_alloc(d, BYTES, (void **)&region[i]));
        ck_assert_uint_eq((uintptr_t)region[i] % 4096, 0);
        memset(region[i], i, BYTES);
    }
    ck_assert_uint_eq(standin.standin_calls("cuMemHostAlloc"), REGIONS + 1);
    ck_assert_uint_eq(standin.standin_calls("cuMemFreeHost"), 0);
    for (int i = 0; i < REGIONS; i++) {
        ck_assert_int_eq(region[i][0] + region[i][BYTES - 1], 2 * i);
    }
    /* One that CUDA does not take stays what it was. */
    standin.standin_fail("cuMemFreeHost", 1, 0, CUDA_ERROR_UNKNOWN);
    wt_fails(WARM_DRIVER_ERROR, wm_driver_pinned_free(d, region[1], BYTES));
    for (int i = 0; i < REGIONS; i++) {
        wt_ok(wm_driver_pinned_free(d, region[(i + 2) % REGIONS], BYTES));
    }
    wt_fails(WARM_DRIVER_ERROR, wm_driver_pinned_free(d, region[1], BYTES));
    standin.standin_host_shift(512);
    standin.standin_fail("cuMemHostAlloc", 1, 0, CUDA_ERROR_OUT_OF_MEMORY);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_pinned_alloc(d, BYTES, (void **)&region[0]));
    standin.standin_host_shift(0);
}

/* What none of could be used goes back with the next one that does; where CUDA
 * does not take it that one's end is no failure, and a later one tries again.
 */
WT_TEST(test_B7_B8_memory_that_nobody_has_goes_back_later)
{
    void *region[2];

    standin.standin_host_shift(512);
    wt_ok(wm_driver_pinned_alloc(d, 4096, &region[0]));
    wt_ok(wm_driver_pinned_alloc(d, 4096, &region[1]));
    standin.standin_fail("cuMemFreeHost", 2, 0, CUDA_ERROR_UNKNOWN);
    wt_ok(wm_driver_pinned_free(d, region[0], 4096));
    ck_assert_uint_eq(standin.standin_calls("cuMemFreeHost"), 2);
    wt_ok(wm_driver_pinned_free(d, region[1], 4096));
    ck_assert_uint_eq(standin.standin_calls("cuMemFreeHost"), 4);
    standin.standin_host_shift(0);
}

WT_CASE("starting", .once = standin_load, .setup = setup);

/* All of a runtime's memory is, and none of it is lost. */
WT_TEST(test_B8_blocks_begin_at_a_page_whatever_cuda_gives)
{
    warm_options options = {.size = sizeof options,
                            .device = "cuda",
                            .libraries = standin.libraries,
                            .pin = "alloc"};
    warm_runtime *runtime = NULL;
    void *block[3];

    standin.standin_host_shift(512);
    wt_ok(warm_runtime_create(&options, &runtime));
    for (int i = 0; i < 3; i++) {
        block[i] = wt_pinned(runtime, (size_t)5 << 20);
        ck_assert_uint_eq((uintptr_t)block[i] % 4096, 0);
    }
    wt_free_all(block, 3);
    wt_runtime_end(runtime);
    standin.standin_host_shift(0);
    /* The first was asked for twice, and both went back. */
    ck_assert_uint_eq(standin.standin_calls("cuMemHostAlloc"), 4);
    ck_assert_uint_eq(standin.standin_calls("cuMemFreeHost"), 4);
}

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
