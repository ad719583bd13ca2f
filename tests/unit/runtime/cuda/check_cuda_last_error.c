/* check_cuda_last_error.c: every driver call, while any function of CUDA that
 * it calls fails, over the stand-in libraries. The program's pending error
 * stays, and the library leaves none of its own, whether the call succeeds,
 * answers "not ready" or fails (row B20); the thread's context stays, and no
 * other one is made (B13); all can be given back then (G6). backends: standin
 */
#include "runtime/cuda/cuda.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA
#include "tests/unit/standin_load.h"

#include <sched.h>

enum { DEVICE = 1 };

static wm_driver *d;

static void quiet(void *context, warm_log_level level, const char *line)
{
}

static void setup(void)
{
    standin_load();
    warm_log_set(quiet, NULL); /* of what was made to fail */
    standin.standin_devices(2);
    wt_ok(standin_open(&d));
}

/* What every call finds; what it ends is null, and what it makes is here. */
struct bed {
    warm_stream stream, made_stream;
    warm_event event, made_event;
    warm_graph graph, made_graph;
    void *pinned, *made_pinned, *memory, *made, *range, *made_range;
    size_t unit;
    wm_ipc_name name;
    bool registered, committed;
};

static _Alignas(4096) char mine[4096];

static void nothing(void *argument)
{
}

static void make(struct bed *b)
{
    *b = (struct bed){0};
    wt_ok(wm_driver_stream_create(d, DEVICE, &b->stream));
    wt_ok(wm_driver_event_create(d, DEVICE, &b->event));
    wt_ok(wm_driver_capture_begin(d, b->stream));
    wt_ok(wm_driver_host_func(d, b->stream, nothing, NULL));
    wt_ok(wm_driver_capture_end(d, b->stream, &b->graph));
    wt_ok(wm_driver_event_record(d, b->event, b->stream));
    wt_ok(wm_driver_pinned_alloc(d, 4096, &b->pinned));
    wt_ok(wm_driver_device_alloc(d, DEVICE, 4096, &b->memory));
    wt_ok(wm_driver_ipc_export(d, DEVICE, b->memory, &b->name));
    wt_ok(wm_driver_range_unit(d, DEVICE, &b->unit));
    wt_ok(wm_driver_range_reserve(d, DEVICE, b->unit, &b->range));
    wt_ok(wm_driver_stream_synchronize(d, b->stream));
}

#define END(thing, call)                                                       \
    if (thing) {                                                               \
        wt_ok(call);                                                           \
    }

/* What calls made. */
static void end_made(struct bed *b)
{
    END(b->made_range,
        wm_driver_range_release(d, DEVICE, b->made_range, 2 * b->unit))
    END(b->made, wm_driver_device_free(d, DEVICE, b->made))
    END(b->made_pinned, wm_driver_pinned_free(d, b->made_pinned, 4096))
    END(b->made_graph, wm_driver_graph_destroy(d, b->made_graph))
    END(b->made_event, wm_driver_event_destroy(d, b->made_event))
    END(b->made_stream, wm_driver_stream_destroy(d, b->made_stream))
}

static void end(struct bed *b)
{
    wm_capture capture = WM_CAPTURE_NONE;

    if (b->stream != NULL) {
        wt_ok(wm_driver_stream_capture(d, b->stream, &capture));
    }
    if (capture == WM_CAPTURE_ACTIVE) {
        wt_ok(wm_driver_capture_end(d, b->stream, &b->made_graph));
    }
    END(b->registered, wm_driver_pinned_unregister(d, mine))
    END(b->committed, wm_driver_range_decommit(d, DEVICE, b->range, b->unit))
    END(b->range, wm_driver_range_release(d, DEVICE, b->range, b->unit))
    END(b->memory, wm_driver_device_free(d, DEVICE, b->memory))
    END(b->pinned, wm_driver_pinned_free(d, b->pinned, 4096))
    END(b->graph, wm_driver_graph_destroy(d, b->graph))
    END(b->event, wm_driver_event_destroy(d, b->event))
    END(b->stream, wm_driver_stream_destroy(d, b->stream))
    end_made(b);
}

#undef END

/* ---- every call of the driver, which notes in the bed what it did ------ */

#define DO(name, ...)                                                          \
    static warm_status do_##name(struct bed *b)                                \
    {                                                                          \
        (void)b;                                                               \
        return wm_driver_##name(d, __VA_ARGS__);                               \
    }

/* A call that ends field, or sets it to after. */
#define DO_SET(name, field, after, ...)                                        \
    static warm_status do_##name(struct bed *b)                                \
    {                                                                          \
        warm_status status = wm_driver_##name(d, __VA_ARGS__);                 \
                                                                               \
        if (status == WARM_OK) {                                               \
            b->field = after;                                                  \
        }                                                                      \
        return status;                                                         \
    }

static warm_device_info info = {.size = sizeof info};
static wm_stream_info stream_info;
static wm_capture captures;
static wm_device_id id;
static size_t some, total;
static void *opened, *address;
static wm_managed support;
static bool maps;
static int number;

static warm_status do_capture_mode(struct bed *b)
{
    bool mode = true;
    warm_status status = wm_driver_capture_mode(d, &mode);

    return status == WARM_OK ? wm_driver_capture_mode(d, &mode) : status;
}

DO(device_info, DEVICE, &info)
DO(current_device, &number)
DO(pinned_alloc, 4096, &b->made_pinned)
DO(combined_alloc, 4096, &b->made_pinned)
DO_SET(pinned_free, pinned, NULL, b->pinned, 4096)
DO_SET(pinned_register, registered, true, mine, sizeof mine)
DO_SET(pinned_register_read, registered, true, mine, sizeof mine)
DO_SET(pinned_unregister, registered, false, mine)
DO(place, mine, sizeof mine, 0)
DO(node_of, mine, sizeof mine, &number)
DO(device_address, DEVICE, b->pinned, &address)
DO(device_alloc, DEVICE, 4096, &b->made)
DO(managed_alloc, DEVICE, 4096, &b->made)
DO(managed_support, DEVICE, &support)
DO(maps_host, DEVICE, &maps)
DO_SET(device_free, memory, NULL, DEVICE, b->memory)
DO(device_memory, DEVICE, &some, &total)
DO(range_unit, DEVICE, &some)
DO(range_reserve, DEVICE, 2 * b->unit, &b->made_range)
DO_SET(range_commit, committed, true, DEVICE, b->range, b->unit, NULL)
DO_SET(range_decommit, committed, false, DEVICE, b->range, b->unit)
DO_SET(range_release, range, NULL, DEVICE, b->range, b->unit)
DO(device_synchronize, DEVICE)
DO(device_id, DEVICE, &id)
DO(ipc_export, DEVICE, b->memory, &b->name)
DO(ipc_open, DEVICE, &b->name, &opened)
DO(ipc_close, DEVICE, b->memory)
DO(stream_create, DEVICE, &b->made_stream)
DO_SET(stream_destroy, stream, NULL, b->stream)
DO(stream_info, b->stream, &stream_info)
DO(stream_query, b->stream)
DO(stream_synchronize, b->stream)
DO(stream_wait_event, b->stream, b->event)
DO(stream_capture, b->stream, &captures)
DO(event_create, DEVICE, &b->made_event)
DO_SET(event_destroy, event, NULL, b->event)
DO(event_record, b->event, b->stream)
DO(event_query, b->event)
DO(event_synchronize, b->event)
DO(event_mark, b->event, b->stream, &captures)
DO(event_passed, b->event)
DO(stream_passed, b->stream, &captures)
DO(copy, b->memory, b->pinned, 4096, WARM_COPY_TO_DEVICE, b->stream)
DO(copy_2d, &(const wm_copy_2d){b->memory, 1024, b->pinned, 1024, 1000, 4},
   b->stream)
DO(host_func, b->stream, nothing, NULL)
DO(capture_begin, b->stream)
DO_SET(graph_destroy, graph, NULL, b->graph)
DO(graph_launch, b->graph, b->stream)

DO(capture_end, b->stream, &b->made_graph)

static void ready_pinned_unregister(struct bed *b)
{
    wt_ok(do_pinned_register(b));
}

static void ready_range_decommit(struct bed *b)
{
    wt_ok(do_range_commit(b));
}

static void ready_capture_end(struct bed *b)
{
    wt_ok(do_capture_begin(b));
}

static warm_status (*const call_of[WM_CALLS])(struct bed *b) = {
#define ROW(name, parameters, arguments, on) do_##name,
    WM_DRIVER_CALLS(ROW)
#undef ROW
};

/* Brings the bed into the state that the call needs; null: it is. */
static void (*const ready_of[WM_CALLS])(struct bed *b) = {
    [WM_CALL_pinned_unregister] = ready_pinned_unregister,
    [WM_CALL_range_decommit] = ready_range_decommit,
    [WM_CALL_capture_end] = ready_capture_end,
};

/* Without a fault; no process opens its own memory. */
static const warm_status answer_of[WM_CALLS] = {
    [WM_CALL_ipc_open] = WARM_UNAVAILABLE,
    [WM_CALL_ipc_close] = WARM_DRIVER_ERROR,
};

/* ---- what is pending --------------------------------------------------- */

/* Makes one of the program's pending, or none. */
static cudaError_t pend(bool one)
{
    cudaError_t code = one ? cudaErrorInvalidDevice : cudaSuccess;

    (void)standin.cudaGetLastError();
    if (one) {
        ck_assert_int_eq(standin.cudaSetDevice(99), code);
    }
    return code;
}

/* Every function of both libraries that an op needs. */
static const char *const functions[] = {
#define NAME(name) #name,
    WM_CUDART_CALLS(NAME) WM_CUDA_API_CALLS(NAME)
#undef NAME
};

enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* A function of cudart that fails puts its error in the place of the one that
 * is pending, and none puts that back: the driver calls cudaGetDevice() only
 * where no context is current, and does not clear what is pending then. */
static void expect_pending(cudaError_t code, int call, const char *function,
                           int fault)
{
    bool own = strncmp(function, "cuda", 4) == 0;
    cudaError_t expected =
        own && code != cudaSuccess ? (cudaError_t)fault : code;
    cudaError_t now = standin.cudaPeekAtLastError();

    wt_require(now == expected, "%s: %d is pending, not %d, after %s: %d",
               wm_driver_call_name(call), (int)now, (int)expected, function,
               fault);
}

/* Bytes of the device that nobody has. */
static size_t free_bytes(void)
{
    size_t available = 0, all;

    wt_ok(wm_driver_device_memory(d, DEVICE, &available, &all));
    return available;
}

/* A function fails at its n-th call; n 0: at every one. */
static warm_status call_once(int call, bool pending, const char *function,
                             int fault, uint64_t n)
{
    struct bed b;
    cudaError_t code;
    CUcontext before = NULL, after = NULL;
    size_t held = free_bytes();
    warm_status status;

    make(&b);
    if (ready_of[call] != NULL) {
        ready_of[call](&b);
    }
    code = pend(pending);
    cuda_ok(standin.cuCtxGetCurrent(&before));
    if (function != NULL) {
        standin.standin_fail(function, n > 0 ? n : 1, n == 0, fault);
    }
    status = call_of[call](&b);
    if (function != NULL) {
        standin.standin_fail(function, 0, 0, 0);
    }
    expect_pending(code, call, function != NULL ? function : "nothing", fault);
    /* What cuCtxPopCurrent() did not take away. */
    cuda_ok(standin.cuCtxGetCurrent(&after));
    if (after != before) {
        ck_assert_str_eq(function, "cuCtxPopCurrent_v2");
        while (after != before) {
            cuda_ok(standin.cuCtxPopCurrent_v2(&after));
            cuda_ok(standin.cuCtxGetCurrent(&after));
        }
    }
    end(&b);
    ck_assert_uint_eq(free_bytes(), held);
    return status;
}

/* What functions answer when they fail, "not ready" among them. */
static const int faults[] = {
    cudaErrorMemoryAllocation,
    cudaErrorInvalidResourceHandle,
    cudaErrorNotReady,
    cudaErrorStreamCaptureUnsupported,
    cudaErrorHostMemoryAlreadyRegistered,
    cudaErrorUnknown,
};

enum { FAULTS = sizeof faults / sizeof faults[0] };

static void call_with_faults(int call, bool pending)
{
    uint64_t before[FUNCTIONS];
    struct bed b;

    make(&b);
    if (ready_of[call] != NULL) {
        ready_of[call](&b);
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        before[i] = standin.standin_calls(functions[i]);
    }
    (void)call_of[call](&b);
    for (int i = 0; i < FUNCTIONS; i++) {
        before[i] = standin.standin_calls(functions[i]) - before[i];
    }
    end(&b);
    for (int i = 0; i < FUNCTIONS; i++) {
        for (int f = 0; f < FAULTS && before[i] > 0; f++) {
            for (uint64_t n = 0; n <= before[i]; n++) {
                (void)call_once(call, pending, functions[i], faults[f], n);
            }
        }
    }
}

WT_CASE("calls", .once = standin_load, .setup = setup);

/* In a thread without a current context, then in one that has a device's. */
WT_LOOP_TEST(test_B13_B20_G6_a_call_leaves_the_programs_state_alone, WM_CALLS)
{
    CUcontext context;

    for (int current = 0; current < 2; current++) {
        if (current == 1) {
            cuda_ok(standin.cudaSetDevice(0));
        }
        for (int pending = 0; pending < 2; pending++) {
            wt_fails(answer_of[_i], call_once(_i, pending == 1, NULL, 0, 0));
            call_with_faults(_i, pending == 1);
        }
    }
    cuda_ok(standin.cuCtxPopCurrent_v2(&context));
    ck_assert_uint_eq(standin.standin_contexts(0), 1);
    ck_assert_uint_eq(standin.standin_contexts(DEVICE), 1);
    ck_assert_uint_eq(standin.standin_misuse(NULL, 0), 0);
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

/* ---- not ready, and broken --------------------------------------------- */

static void wait_for_flag(void *argument)
{
    _Atomic int *open = argument;

    while (!*open) {
        sched_yield();
    }
}

static const int queries[] = {WM_CALL_stream_query, WM_CALL_event_query,
                              WM_CALL_stream_passed, WM_CALL_event_passed};

WT_LOOP_TEST(test_B4_B20_not_ready_leaves_the_programs_last_error_alone,
             sizeof queries / sizeof queries[0])
{
    struct bed b;
    cudaError_t code;

    for (int pending = 0; pending < 2; pending++) {
        _Atomic int open = 0;

        make(&b);
        wt_ok(wm_driver_host_func(d, b.stream, wait_for_flag, &open));
        wt_ok(wm_driver_event_record(d, b.event, b.stream));
        code = pend(pending == 1);
        wt_fails(WARM_NOT_READY, call_of[queries[_i]](&b));
        expect_pending(code, queries[_i], "nothing", 0);
        open = 1;
        wt_ok(wm_driver_stream_synchronize(d, b.stream));
        wt_ok(call_of[queries[_i]](&b));
        expect_pending(code, queries[_i], "nothing", 0);
        end(&b);
    }
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

/* After a kernel that broke its context everything fails. What the program has
 * seen of that it sees again, and what it has not we do not show it. */
WT_LOOP_TEST(test_B20_a_broken_context_is_the_programs_to_find, WM_CALLS)
{
    struct bed b;
    int count = 0;

    make(&b);
    if (ready_of[_i] != NULL) {
        ready_of[_i](&b);
    }
    (void)pend(false);
    standin.standin_stick(cudaErrorIllegalAddress);
    (void)call_of[_i](&b);
    expect_pending(cudaSuccess, _i, "everything", cudaErrorIllegalAddress);
    ck_assert_int_eq(standin.cudaStreamQuery(b.stream),
                     cudaErrorIllegalAddress);
    (void)call_of[_i](&b);
    for (count = 0; count < 2; count++) {
        expect_pending(cudaErrorIllegalAddress, _i, "everything",
                       cudaErrorIllegalAddress);
        ck_assert_int_eq(standin.cudaGetLastError(), cudaErrorIllegalAddress);
    }
}

/* A request of a program, whichever way memory is page-locked. */
static const struct {
    const char *pin, *function;
} pins[] = {{"alloc", "cuMemHostAlloc"}, {"register", "cuMemHostRegister_v2"}};

WT_LOOP_TEST(test_B20_refused_pin_names_a_limit_and_leaves_no_error, 4)
{
    warm_options options = {.size = sizeof options,
                            .device = "cuda",
                            .libraries = standin.libraries,
                            .pin = pins[_i % 2].pin};
    warm_runtime *runtime = NULL;
    void *block = NULL;
    cudaError_t code;

    ck_assert_uint_eq(wm_driver_close(d), 0);
    wt_ok(warm_runtime_create(&options, &runtime));
    code = pend(_i < 2);
    standin.standin_fail(pins[_i % 2].function, 1, 1,
                         cudaErrorMemoryAllocation);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 1 << 20, &block));
    standin.standin_fail(pins[_i % 2].function, 0, 0, 0);
    ck_assert_int_eq(standin.cudaPeekAtLastError(), code);
    ck_assert_ptr_null(block);
    /* Where locked memory is limited, that; else what is nobody else's. */
    ck_assert(strstr(warm_last_error_message(), "RLIMIT_MEMLOCK") != NULL ||
              strstr(warm_last_error_message(), "the driver's own") != NULL);
    wt_ok(warm_pinned_alloc(runtime, 1 << 20, &block));
    wt_ok(warm_free(block));
    wt_runtime_end(runtime);
}

WT_TEST(test_B20_G3_finding_no_device_clears_only_its_own_error)
{
    wm_driver *none = NULL;
    cudaError_t code;

    standin.standin_devices(0);
    (void)pend(false);
    wt_fails(WARM_UNAVAILABLE, standin_open(&none));
    ck_assert_int_eq(standin.cudaPeekAtLastError(), cudaSuccess);
    code = pend(true);
    wt_fails(WARM_UNAVAILABLE, standin_open(&none));
    ck_assert_int_eq(standin.cudaPeekAtLastError(), code);
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

WT_LOOP_TEST(test_B20_G3_driver_too_old_leaves_the_programs_error_pending, 2)
{
    wm_driver *none = NULL;
    cudaError_t code;

    standin.standin_driver_version(CUDART_VERSION - 1000);
    code = pend(_i == 1);
    wt_fails(WARM_UNAVAILABLE, standin_open(&none));
    ck_assert_int_eq(standin.cudaPeekAtLastError(), code);
    wt_refuse_threads(true); /* then some error of the program's stays */
    (void)pend(_i == 1);
    wt_fails(WARM_UNAVAILABLE, standin_open(&none));
    ck_assert_int_eq(standin.cudaPeekAtLastError() != cudaSuccess, _i == 1);
    wt_refuse_threads(false);
    ck_assert_uint_eq(wm_driver_close(d), 0);
}

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
