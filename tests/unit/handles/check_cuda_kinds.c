/* check_cuda_kinds.c: the kinds of the CUDA libraries over the stand-in.
 * backends: standin
 *
 * Each test is a process of its own (Check forks), so that a library is
 * loaded, and the environment read, as in a fresh program. */
#include "runtime/cuda/cuda.h"

#include "handles/kinds/kind_cuda.h"
#include "handles/kinds/builtin.h"
#include "tests/skip.h"

#if WM_HAVE_CUDA && __has_include(<cublas_v2.h>) && \
    __has_include(<cublasLt.h>) && __has_include(<cudnn.h>) && \
    __has_include(<cusparse.h>) && __has_include(<cusolverDn.h>)
#include "tests/unit/standin_load.h"

#include "runtime/base/log.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <cusolverDn.h>
#include <cusparse.h>

enum { DEVICES = 2 };

/* One row a kind; create_call … are what the library calls them. */
static const struct kind_row {
    const wm_kind_ops *ops;
    const char *name, *what, *library;
    const char *create_call, *destroy_call;
    int code; /* to fail with, and a part of its text */
    const char *text;
} rows[] = {
    {&wm_kind_cublas, "cublas", "cuBLAS", "libcublas.so", "cublasCreate_v2",
     "cublasDestroy_v2", CUBLAS_STATUS_ALLOC_FAILED, "allocation failed"},
    {&wm_kind_cublaslt, "cublaslt", "cuBLASLt", "libcublasLt.so",
     "cublasLtCreate", "cublasLtDestroy", CUBLAS_STATUS_ALLOC_FAILED,
     "allocation failed"},
    {&wm_kind_cudnn, "cudnn", "cuDNN", "libcudnn.so", "cudnnCreate",
     "cudnnDestroy", CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
     "DEVICE_ALLOCATION_FAILED"},
    {&wm_kind_cusparse, "cusparse", "cuSPARSE", "libcusparse.so",
     "cusparseCreate", "cusparseDestroy", CUSPARSE_STATUS_ALLOC_FAILED,
     "insufficient resources"},
    {&wm_kind_cusolver, "cusolver", "cuSOLVER", "libcusolver.so",
     "cusolverDnCreate", "cusolverDnDestroy", CUSOLVER_STATUS_ALLOC_FAILED,
     "CUSOLVER_STATUS_ALLOC_FAILED"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static wm_driver *d;
static wm_options options;
static wm_kind kinds[ROWS];
static char log_lines[2048];
static unsigned warnings;

static void keep_line(void *context, warm_log_level level, const char *line)
{
    (void)context;
    warnings += level == WARM_LOG_WARNING;
    strncat(log_lines, line, sizeof log_lines - strlen(log_lines) - 1);
}

/* Nothing but option libraries leads to the stand-ins: the libraries of the
 * same name that a machine may have are out of the way. */
static void set_paths(void)
{
    static const char *const sonames[][2] = {
        {"libcublas.so.13", "libcublas.so.12"},
        {"libcublasLt.so.13", "libcublasLt.so.12"},
        {"libcudnn.so.9", "libcudnn.so.8"},
        {"libcusparse.so.12", "libcusparse.so"},
        {"libcusolver.so.12", "libcusolver.so.11"},
    };

    standin_options(&options);
    for (int i = 0; i < ROWS; i++) {
        size_t used = strlen(options.libraries);
        const char *path = standin_path(sonames[i][0]);

        if (access(path, F_OK) != 0) {
            path = standin_path(sonames[i][1]);
        }
        snprintf(options.libraries + used, sizeof options.libraries - used,
                 ":%s=%s", rows[i].name, path);
    }
}

static void setup(void)
{
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
    standin_load();
    standin.standin_devices(DEVICES);
    set_paths();
    wt_ok(wm_cuda_open(&options, &d));
    for (int i = 0; i < ROWS; i++) {
        kinds[i] =
            (wm_kind){.ops = rows[i].ops, .driver = d, .options = &options};
    }
    warm_log_set(keep_line, NULL);
}

static void end(int64_t left)
{
    char text[256];
    uint64_t misuse = standin.standin_misuse(text, sizeof text);

    ck_assert_msg(misuse == 0, "%s", text);
    for (int i = 0; i < ROWS; i++) {
        left -= standin.standin_handles_live(rows[i].name);
        rows[i].ops->close(&kinds[i]);
    }
    ck_assert_int_eq(left, 0);
    wm_driver_close(d);
}

/* Every other test ends with this: nothing misused, nothing left. */
static void teardown(void)
{
    end(0);
}

static bool is_mapped(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;

    ck_assert_ptr_nonnull(maps);
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        found = strstr(line, name) != NULL;
    }
    fclose(maps);
    return found;
}

static void *create_on(int row, int device)
{
    void *handle = NULL;

    wt_ok(rows[row].ops->create(&kinds[row], device, &handle));
    ck_assert_ptr_nonnull(handle);
    return handle;
}

/* ---- All kinds ---- */

WT_CASE("all", .once = standin_load, .setup = setup);

WT_LOOP_TEST(test_A9_library_is_loaded_by_the_first_create, ROWS)
{
    void *handle;

    ck_assert_str_eq(rows[_i].ops->name, rows[_i].name);
    ck_assert_msg(!is_mapped(rows[_i].library), "%s", rows[_i].library);
    handle = create_on(_i, 0);
    ck_assert_msg(is_mapped(rows[_i].library), "%s", rows[_i].library);
    wt_ok(rows[_i].ops->destroy(&kinds[_i], 0, handle));
    teardown();
}

WT_LOOP_TEST(test_A9_missing_library_is_named, ROWS)
{
    void *handle = NULL;
    int64_t records = 0;

    snprintf(options.libraries, sizeof options.libraries,
             "%s=/no/such/library.so", rows[_i].name);
    /* The first one makes what stays. */
    for (int i = 0; i < 2; i++) {
        wt_fails(WARM_UNAVAILABLE,
                 rows[_i].ops->create(&kinds[_i], 0, &handle));
        ck_assert_ptr_null(handle);
        ck_assert(i == 0 || wt_metadata_live() == records);
        records = wt_metadata_live();
    }
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), rows[_i].what));
    ck_assert_ptr_nonnull(
        strstr(warm_last_error_message(), "/no/such/library.so"));
    set_paths();
    handle = create_on(_i, 0);
    wt_ok(rows[_i].ops->destroy(&kinds[_i], 0, handle));
    teardown();
}

WT_LOOP_TEST(test_A9_kind_needs_a_cuda_device, ROWS)
{
    static const wm_driver_ops no_ops;
    wm_driver other = {.ops = &no_ops, .name = "host", .devices = 1};
    wm_kind kind = {.ops = rows[_i].ops, .driver = &other, .options = &options};
    char expected[64];
    void *handle = NULL;

    snprintf(expected, sizeof expected, "%s needs a CUDA device",
             rows[_i].what);
    wt_fails(WARM_UNAVAILABLE, kind.ops->create(&kind, 0, &handle));
    ck_assert_str_eq(warm_last_error_message(), expected);
    ck_assert(!is_mapped(rows[_i].library));
    if (kind.ops->workspace_bytes != NULL) {
        ck_assert_uint_eq(kind.ops->workspace_bytes(&kind, 0), 0);
    }
    teardown();
}

/* The first creation, which also loads, and a later one. */
WT_LOOP_TEST(test_A8_failed_create_gives_the_librarys_code_and_text, ROWS)
{
    int64_t records = 0;

    /* The first one makes what stays. */
    for (int later = 0; later < 3; later++) {
        warm_error error = {.size = sizeof error};
        void *handle = NULL;

        standin.standin_fail(rows[_i].create_call, 1, 0, rows[_i].code);
        wt_fails(WARM_LIBRARY_ERROR,
                 rows[_i].ops->create(&kinds[_i], 1, &handle));
        ck_assert_ptr_null(handle);
        warm_last_error(&error);
        ck_assert_int_eq(error.code, rows[_i].code);
        ck_assert_str_eq(error.origin, rows[_i].name);
        ck_assert_ptr_nonnull(strstr(error.code_text, rows[_i].text));
        ck_assert_ptr_nonnull(strstr(error.message, rows[_i].create_call));
        ck_assert_int_eq(standin.standin_handles_live(rows[_i].name), 0);
        if (later == 1) {
            ck_assert_int_eq(wt_metadata_live(), records);
            handle = create_on(_i, 1);
            wt_ok(rows[_i].ops->destroy(&kinds[_i], 1, handle));
        }
        records = wt_metadata_live();
    }
    teardown();
}

/* A code that this library does not know is told without a name. */
WT_LOOP_TEST(test_A8_a_code_without_a_name_is_told, 2)
{
    static const int codes[] = {-7, 9999};
    warm_error error = {.size = sizeof error};
    int cusolver = ROWS - 1;
    void *handle = NULL;

    standin.standin_fail(rows[cusolver].create_call, 1, 0, codes[_i]);
    wt_fails(WARM_LIBRARY_ERROR,
             rows[cusolver].ops->create(&kinds[cusolver], 1, &handle));
    warm_last_error(&error);
    ck_assert_int_eq(error.code, codes[_i]);
    ck_assert_str_eq(error.code_text, "");
    teardown();
}

/* The defaults are read from the first handle; if they cannot be, that handle
 * goes again and the next create is the first. */
WT_TEST(test_A8_failed_first_look_at_the_defaults_leaves_nothing)
{
    void *handle = NULL;

    standin.standin_fail("cublasGetMathMode", 1, 0,
                         CUBLAS_STATUS_INVALID_VALUE);
    wt_fails(WARM_LIBRARY_ERROR, wm_kind_cublas.create(&kinds[0], 0, &handle));
    ck_assert_ptr_null(handle);
    ck_assert_ptr_null(wm_cuda_kind_table(&kinds[0], 0));
    ck_assert_int_eq(standin.standin_handles_live("cublas"), 0);
    handle = create_on(0, 0);
    wt_ok(wm_kind_cublas.destroy(&kinds[0], 0, handle));
    teardown();
}

static bool capture_goes_on(warm_runtime *runtime, wm_breaking *breaking,
                            int device, warm_stream but)
{
    (void)runtime;
    (void)breaking;
    (void)but;
    ck_assert_int_eq(device, 0);
    return false;
}

/* To destroy it would break the capture. */
WT_TEST(test_A8_A16_beside_a_capture_that_handle_is_leaked)
{
    static const wm_captures captures = {.begin = capture_goes_on};
    void *handle = NULL;

    kinds[0].captures = &captures;
    standin.standin_fail("cublasGetMathMode", 1, 0,
                         CUBLAS_STATUS_INVALID_VALUE);
    wt_fails(WARM_LIBRARY_ERROR, wm_kind_cublas.create(&kinds[0], 0, &handle));
    ck_assert_uint_eq(warnings, 1);
    wt_contains(log_lines, "a handle of cuBLAS is leaked: reading its default "
                           "settings failed, and destroying it would break a "
                           "capture");
    end(1);
}

WT_LOOP_TEST(test_A8_failed_destroy_gives_the_librarys_code, ROWS)
{
    warm_error error = {.size = sizeof error};
    void *handle = create_on(_i, 0);

    standin.standin_fail(rows[_i].destroy_call, 1, 0, rows[_i].code);
    wt_fails(WARM_LIBRARY_ERROR, rows[_i].ops->destroy(&kinds[_i], 0, handle));
    warm_last_error(&error);
    ck_assert_int_eq(error.code, rows[_i].code);
    wt_ok(rows[_i].ops->destroy(&kinds[_i], 0, handle));
    teardown();
}

/* The stand-in notes a handle that is used while another device is current. */
WT_LOOP_TEST(test_A9_B13_every_call_is_made_on_the_handles_device, ROWS)
{
    standin_state state;
    warm_stream stream;
    void *handle;
    int device = -1;

    ck_assert_int_eq(standin.cudaSetDevice(0), cudaSuccess);
    handle = create_on(_i, 1);
    standin.standin_handle_state(handle, &state);
    ck_assert_int_eq(state.device, 1);
    wt_ok(wm_driver_stream_create(d, 1, &stream));
    if (rows[_i].ops->bind != NULL) {
        wt_ok(rows[_i].ops->bind(&kinds[_i], 1, handle, stream, NULL, 0));
        standin.standin_handle_state(handle, &state);
        ck_assert_ptr_eq(state.stream, stream);
    }
    wt_ok(rows[_i].ops->reset(&kinds[_i], 1, handle));
    standin.standin_handle_state(handle, &state);
    ck_assert_ptr_null(state.stream);
    wt_ok(rows[_i].ops->destroy(&kinds[_i], 1, handle));
    wt_ok(wm_driver_stream_destroy(d, stream));
    ck_assert_int_eq(standin.cudaGetDevice(&device), cudaSuccess);
    ck_assert_int_eq(device, 0);
    teardown();
}

struct maker {
    int row;
    void *handle;
    warm_status status;
};

static void create_one(void *argument, unsigned index)
{
    struct maker *maker = argument;
    wm_kind *kind = &kinds[maker->row];

    (void)index;
    maker->status = kind->ops->create(kind, 0, &maker->handle);
}

/* Creation allocates, which would spoil a capture of the same thread, and one
 * in the global mode for any thread. What it destroys it leaves to the pool. */
WT_LOOP_TEST(test_A16_B7_create_spoils_no_capture, 2 * ROWS)
{
    struct maker maker = {.row = _i % ROWS};
    warm_stream stream;
    warm_graph graph = NULL;

    wt_ok(wm_driver_stream_create(d, 0, &stream));
    if (_i < ROWS) {
        wt_ok(wm_driver_capture_begin(d, stream));
        create_one(&maker, 0);
    } else {
        ck_assert_int_eq(
            standin.cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
            cudaSuccess);
        wt_threads(1, create_one, &maker);
    }
    wt_ok(maker.status);
    wt_ok(wm_driver_capture_end(d, stream, &graph));
    wt_ok(rows[maker.row].ops->destroy(&kinds[maker.row], 0, maker.handle));
    wt_ok(wm_driver_graph_destroy(d, graph));
    wt_ok(wm_driver_stream_destroy(d, stream));
    teardown();
}

struct crowd {
    int row;
    _Atomic int failed;
};

static void create_and_destroy(void *argument, unsigned index)
{
    struct crowd *crowd = argument;
    wm_kind *kind = &kinds[crowd->row];
    int device = (int)(index % DEVICES);
    void *handle = NULL;

    for (int i = 0; i < 20; i++) {
        if (kind->ops->create(kind, device, &handle) != WARM_OK ||
            kind->ops->reset(kind, device, handle) != WARM_OK ||
            kind->ops->destroy(kind, device, handle) != WARM_OK) {
            atomic_fetch_add(&crowd->failed, 1);
        }
    }
}

WT_LOOP_TEST(test_A8_first_creates_of_many_threads_load_one_table, ROWS)
{
    struct crowd crowd = {.row = _i};

    wt_threads(6, create_and_destroy, &crowd);
    ck_assert_int_eq(crowd.failed, 0);
    teardown();
}

WT_LOOP_TEST(test_A3_failed_reset_gives_the_librarys_code, ROWS)
{
    static const char *const set_stream[ROWS] = {
        "cublasSetStream_v2", NULL, "cudnnSetStream", "cusparseSetStream",
        "cusolverDnSetStream"};
    void *handle = create_on(_i, 0);

    if (set_stream[_i] != NULL) {
        standin.standin_fail(set_stream[_i], 1, 0, rows[_i].code);
        wt_fails(WARM_LIBRARY_ERROR,
                 rows[_i].ops->reset(&kinds[_i], 0, handle));
        ck_assert_ptr_nonnull(
            strstr(warm_last_error_message(), set_stream[_i]));
    }
    wt_ok(rows[_i].ops->reset(&kinds[_i], 0, handle));
    wt_ok(rows[_i].ops->destroy(&kinds[_i], 0, handle));
    teardown();
}

/* ---- Settings ---- */

/* Typed by hand: X(row, prefix, name, type, value). value is no default. */
#define SETTINGS(X)                                                            \
    X(0, cublas, PointerMode_v2, cublasPointerMode_t,                          \
      CUBLAS_POINTER_MODE_DEVICE)                                              \
    X(0, cublas, MathMode, cublasMath_t, CUBLAS_TF32_TENSOR_OP_MATH)           \
    X(0, cublas, AtomicsMode, cublasAtomicsMode_t, CUBLAS_ATOMICS_ALLOWED)     \
    X(0, cublas, SmCountTarget, int, 24)                                       \
    X(3, cusparse, PointerMode, cusparsePointerMode_t,                         \
      CUSPARSE_POINTER_MODE_DEVICE)                                            \
    NEWER_CUBLAS(X) NEWER_CUSOLVER(X) NEWEST_CUSOLVER(X)

#if CUBLAS_VERSION >= 130100
static int bit_count;
#define NEWER_CUBLAS(X)                                                        \
    X(0, cublas, EmulationStrategy, cublasEmulationStrategy_t,                 \
      CUBLAS_EMULATION_STRATEGY_EAGER)                                         \
    X(0, cublas, EmulationSpecialValuesSupport,                                \
      cudaEmulationSpecialValuesSupport,                                       \
      CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_NONE)                              \
    X(0, cublas, FixedPointEmulationMantissaControl,                           \
      cudaEmulationMantissaControl, CUDA_EMULATION_MANTISSA_CONTROL_FIXED)     \
    X(0, cublas, FixedPointEmulationMaxMantissaBitCount, int, 23)              \
    X(0, cublas, FixedPointEmulationMantissaBitOffset, int, 3)                 \
    X(0, cublas, FixedPointEmulationMantissaBitCountPointer, int *, &bit_count)
#else
#define NEWER_CUBLAS(X)
#endif
#if CUSOLVER_VERSION >= 11600
#define NEWER_CUSOLVER(X)                                                      \
    X(4, cusolverDn, DeterministicMode, cusolverDeterministicMode_t,           \
      CUSOLVER_ALLOW_NON_DETERMINISTIC_RESULTS)
#else
#define NEWER_CUSOLVER(X)
#endif
#if CUSOLVER_VERSION >= 12004
#define NEWEST_CUSOLVER(X)                                                     \
    X(4, cusolverDn, MathMode, cusolverMathMode_t, (cusolverMathMode_t)1)      \
    X(4, cusolverDn, EmulationStrategy, cudaEmulationStrategy_t,               \
      CUDA_EMULATION_STRATEGY_EAGER)
#else
#define NEWEST_CUSOLVER(X)
#endif

static void *symbol(const char *name)
{
    static const char *const option_of[] = {"cublas", "cusparse", "cusolver"};
    char path[300];
    void *found = NULL;

    for (int i = 0; i < 3; i++) {
        if (strncmp(name, option_of[i], strlen(option_of[i])) == 0) {
            ck_assert(wm_options_part(options.libraries, option_of[i], path,
                                      sizeof path));
            found = dlsym(dlopen(path, RTLD_NOW), name);
        }
    }
    ck_assert_msg(found != NULL, "%s", name);
    return found;
}

/* For each setting: a fresh handle's value, another one set, reset, and the
 * fresh value is back. */
#define TRY(row, prefix, name, type, other)                                    \
    static void try_##prefix##name(void)                                       \
    {                                                                          \
        __typeof__(prefix##Get##name) *get;                                    \
        __typeof__(prefix##Set##name) *set;                                    \
        void *handle = create_on(row, 0);                                      \
        type fresh = other;                                                    \
        type now = other;                                                      \
                                                                               \
        *(void **)(void *)&get = symbol(#prefix "Get" #name);                  \
        *(void **)(void *)&set = symbol(#prefix "Set" #name);                  \
        ck_assert_int_eq(get(handle, &fresh), 0);                              \
        ck_assert_msg(fresh != (type)(other), #name " is " #other);            \
        ck_assert_int_eq(set(handle, other), 0);                               \
        ck_assert_int_eq(get(handle, &now), 0);                                \
        ck_assert_msg(now == (type)(other), #name " was not set");             \
        wt_ok(rows[row].ops->reset(&kinds[row], 0, handle));                   \
        ck_assert_int_eq(get(handle, &now), 0);                                \
        ck_assert_msg(now == fresh, #name " was not put back");                \
        wt_ok(rows[row].ops->destroy(&kinds[row], 0, handle));                 \
    }
SETTINGS(TRY)
#undef TRY

static void (*const tries[])(void) = {
#define TRY(row, prefix, name, type, other) try_##prefix##name,
    SETTINGS(TRY)
#undef TRY
};

WT_LOOP_TEST(test_A3_every_setting_is_put_back, sizeof tries / sizeof tries[0])
{
    tries[_i]();
    teardown();
}

static const struct {
    int row;
    const char *function;
    int code;
} refusals[] = {
    {0, "cublasGetEmulationStrategy", CUBLAS_STATUS_NOT_SUPPORTED},
    {0, "cublasSetEmulationStrategy", CUBLAS_STATUS_NOT_SUPPORTED},
    {0, "cublasSetFixedPointEmulationMantissaBitCountPointer",
     CUBLAS_STATUS_INVALID_VALUE},
    {4, "cusolverDnGetDeterministicMode", CUSOLVER_STATUS_NOT_SUPPORTED},
    {4, "cusolverDnSetMathMode", CUSOLVER_STATUS_INVALID_VALUE},
};

/* A function that is there need not work on every device. */
WT_LOOP_TEST(test_A3_a_late_setting_that_is_refused_is_left_alone,
             sizeof refusals / sizeof refusals[0])
{
    int row = refusals[_i].row;
    void *handle;

    standin.standin_fail(refusals[_i].function, 1, 1, refusals[_i].code);
    handle = create_on(row, 0);
    wt_ok(rows[row].ops->reset(&kinds[row], 0, handle));
    wt_ok(rows[row].ops->destroy(&kinds[row], 0, handle));
    ck_assert_uint_eq(warnings, 0);
    standin.standin_fail(refusals[_i].function, 0, 0, 0);
    teardown();
}

/* Two models of GPU: what one of them refuses is put back on the other, in
 * whatever order they are used first. */
WT_LOOP_TEST(test_A3_settings_are_learnt_on_each_device, 2)
{
    static const char *const refused = "cublasSetEmulationStrategy";
    cublasStatus_t (*get)(cublasHandle_t, cublasEmulationStrategy_t *);
    cublasStatus_t (*set)(cublasHandle_t, cublasEmulationStrategy_t);
    cublasEmulationStrategy_t fresh = 0, now = 0;
    void *handle[2] = {NULL};
    int poor = _i, rich = 1 - _i;
    wm_cuda_scope scope;

    if (_i == 1) {
        handle[rich] = create_on(0, rich);
    }
    standin.standin_fail(refused, 1, 1, CUBLAS_STATUS_NOT_SUPPORTED);
    handle[poor] = create_on(0, poor);
    wt_ok(rows[0].ops->reset(&kinds[0], poor, handle[poor]));
    standin.standin_fail(refused, 0, 0, 0);
    if (_i == 0) {
        handle[rich] = create_on(0, rich);
    }
    *(void **)(void *)&get = symbol("cublasGetEmulationStrategy");
    *(void **)(void *)&set = symbol("cublasSetEmulationStrategy");
    wt_ok(wm_cuda_device_push(d, rich, &scope));
    ck_assert_int_eq(get(handle[rich], &fresh), 0);
    ck_assert_int_ne(fresh, CUBLAS_EMULATION_STRATEGY_EAGER);
    ck_assert_int_eq(set(handle[rich], CUBLAS_EMULATION_STRATEGY_EAGER), 0);
    wt_ok(rows[0].ops->reset(&kinds[0], rich, handle[rich]));
    ck_assert_int_eq(get(handle[rich], &now), 0);
    ck_assert_int_eq(now, fresh);
    wm_cuda_device_pop(d, &scope);
    for (int i = 0; i < 2; i++) {
        wt_ok(rows[0].ops->destroy(&kinds[0], i, handle[i]));
    }
    teardown();
}

/* ---- Workspace ---- */

static const struct {
    const char *text;
    bool good;
    size_t bytes;
} configs[] = {
    {":4096:2:16:8", true, (size_t)1024 * (4096 * 2 + 16 * 8)},
    {":4096:8", true, (size_t)1024 * 4096 * 8},
    {":16:8", true, (size_t)1024 * 16 * 8},
    {":0:0", true, 0},
    {":1073741824:1", true, (size_t)1 << 40},
    {":1073741824:1:1:1", false, 0},
    {":18446744073709551615:2", false, 0},
    {":99999999999999999999:1", false, 0},
    {"", false, 0},
    {":", false, 0},
    {":4096", false, 0},
    {"4096:2", false, 0},
    {":4096:2:", false, 0},
    {":4096:2:16", false, 0},
    {":4096:-2", false, 0},
    {": 4096:2", false, 0},
    {":4096:2 ", false, 0},
    {":4K:2", false, 0},
};

static const struct {
    int major;
    size_t mib;
} recommended[] = {{7, 4}, {8, 4}, {9, 32}, {10, 32}, {11, 4}, {12, 12}};

WT_CASE("workspace", .once = standin_load, .setup = setup);

WT_LOOP_TEST(test_A10_workspace_is_the_vendors_size_for_the_device,
             sizeof recommended / sizeof recommended[0])
{
    standin.standin_compute(recommended[_i].major);
    ck_assert_uint_eq(wm_kind_cublas.workspace_bytes(&kinds[0], 1),
                      recommended[_i].mib << 20);
    teardown();
}

/* It is read once; a bad one is named in one warning and ignored. */
WT_LOOP_TEST(test_A10_workspace_config_wins_unless_it_is_bad,
             sizeof configs / sizeof configs[0])
{
    bool good = configs[_i].good;
    void *first, *second;

    setenv("CUBLAS_WORKSPACE_CONFIG", configs[_i].text, 1);
    first = create_on(0, 0);
    setenv("CUBLAS_WORKSPACE_CONFIG", ":17:1", 1);
    second = create_on(0, 1);
    ck_assert_uint_eq(wm_kind_cublas.workspace_bytes(&kinds[0], 0),
                      good ? configs[_i].bytes : 32 << 20);
    ck_assert_uint_eq(warnings, good ? 0 : 1);
    ck_assert_msg(good || strstr(log_lines, configs[_i].text) != NULL, "%s",
                  log_lines);
    wt_ok(wm_kind_cublas.destroy(&kinds[0], 0, first));
    wt_ok(wm_kind_cublas.destroy(&kinds[0], 1, second));
    teardown();
}

WT_TEST(test_A10_workspace_is_set_after_the_stream_that_resets_it)
{
    void *handle = create_on(0, 0), *workspace = NULL;
    warm_stream stream;
    standin_state state;

    wt_ok(wm_driver_stream_create(d, 0, &stream));
    wt_ok(wm_driver_device_alloc(d, 0, 8192, &workspace));
    wt_ok(wm_kind_cublas.bind(&kinds[0], 0, handle, stream, workspace, 8192));
    standin.standin_handle_state(handle, &state);
    ck_assert_ptr_eq(state.stream, stream);
    ck_assert_ptr_eq(state.workspace, workspace);
    ck_assert_uint_eq(state.workspace_bytes, 8192);
    wt_ok(wm_kind_cublas.reset(&kinds[0], 0, handle));
    standin.standin_handle_state(handle, &state);
    ck_assert_ptr_null(state.stream);
    ck_assert_ptr_null(state.workspace);
    wt_ok(wm_kind_cublas.destroy(&kinds[0], 0, handle));
    wt_ok(wm_driver_device_free(d, 0, workspace));
    wt_ok(wm_driver_stream_destroy(d, stream));
    teardown();
}

WT_TEST(test_A10_A8_failed_workspace_leaves_the_stream_as_it_was)
{
    void *handle = create_on(0, 0), *workspace = NULL;
    warm_stream first, second;
    standin_state state;

    wt_ok(wm_driver_stream_create(d, 0, &first));
    wt_ok(wm_driver_stream_create(d, 0, &second));
    wt_ok(wm_driver_device_alloc(d, 0, 8192, &workspace));
    wt_ok(wm_kind_cublas.bind(&kinds[0], 0, handle, first, NULL, 0));
    standin.standin_fail("cublasSetWorkspace_v2", 1, 0,
                         CUBLAS_STATUS_INVALID_VALUE);
    wt_fails(WARM_LIBRARY_ERROR, wm_kind_cublas.bind(&kinds[0], 0, handle,
                                                     second, workspace, 8192));
    standin.standin_handle_state(handle, &state);
    ck_assert_ptr_eq(state.stream, first);
    wt_ok(wm_kind_cublas.destroy(&kinds[0], 0, handle));
    wt_ok(wm_driver_device_free(d, 0, workspace));
    wt_ok(wm_driver_stream_destroy(d, first));
    wt_ok(wm_driver_stream_destroy(d, second));
    teardown();
}

/* The stream before is known: the library is not asked for it. */
WT_TEST(test_A10_A8_binding_again_makes_two_calls)
{
    void *handle = create_on(0, 0), *workspace = NULL;
    wm_rebind to = {.kind = &kinds[0], .handle = handle, .bytes = 8192};
    warm_stream first;
    standin_state state;
    uint64_t reads = standin.standin_calls("cublasGetStream_v2");

    wt_ok(wm_driver_stream_create(d, 0, &first));
    wt_ok(wm_driver_stream_create(d, 0, &to.stream));
    wt_ok(wm_driver_device_alloc(d, 0, 8192, &workspace));
    to.before = first;
    to.workspace = workspace;
    wt_ok(wm_kind_cublas.rebind(&to));
    ck_assert_uint_eq(standin.standin_calls("cublasGetStream_v2"), reads);
    standin.standin_handle_state(handle, &state);
    ck_assert_ptr_eq(state.stream, to.stream);
    ck_assert_ptr_eq(state.workspace, workspace);
    standin.standin_fail("cublasSetWorkspace_v2", 1, 0,
                         CUBLAS_STATUS_INVALID_VALUE);
    wt_fails(WARM_LIBRARY_ERROR, wm_kind_cublas.rebind(&to));
    standin.standin_handle_state(handle, &state);
    ck_assert_ptr_eq(state.stream, first);
    wt_ok(wm_kind_cublas.destroy(&kinds[0], 0, handle));
    wt_ok(wm_driver_device_free(d, 0, workspace));
    wt_ok(wm_driver_stream_destroy(d, first));
    wt_ok(wm_driver_stream_destroy(d, to.stream));
    teardown();
}

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
