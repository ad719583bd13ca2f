/* check_cuda.c: what a program on CUDA sees, on the stand-in and on a GPU:
 * handles of every library through the typed headers, and real work. Skipped
 * on the host device, and where the toolkit's headers are missing. */
#include "wt.h"

#include "tests/skip.h"

#if !defined(WM_NO_CUDA) && __has_include(<cublas_v2.h>) && \
    __has_include(<cublasLt.h>) && __has_include(<cudnn.h>) && \
    __has_include(<cusparse.h>) && __has_include(<cusolverDn.h>)
#include "warmpool/cublas.h"
#include "warmpool/cublaslt.h"
#include "warmpool/cudnn.h"
#include "warmpool/cusolver.h"
#include "warmpool/cusparse.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static warm_runtime *runtime;

static void setup(void)
{
    runtime = wt_runtime(NULL);
}

static void teardown(void)
{
    wt_runtime_end(runtime);
}

/* A function of a library that warmpool has loaded already. */
static void *function_of(const char *const *sonames, const char *name)
{
    void *library = NULL;
    void *found;

    for (; library == NULL && *sonames != NULL; sonames++) {
        library = dlopen(*sonames, RTLD_NOW | RTLD_NOLOAD);
    }
    ck_assert_msg(library != NULL, "no library for %s", name);
    found = dlsym(library, name);
    ck_assert_msg(found != NULL, "%s", name);
    return found;
}

static const char *const cublas_names[] = {"libcublas.so.13", "libcublas.so.12",
                                           NULL};
static const char *const cudart_names[] = {"libcudart.so.13", "libcudart.so.12",
                                           NULL};
static const char *const cuda_names[] = {"libcuda.so.1", NULL};

#define FIND(pointer, sonames, name)                                           \
    __typeof__(name) *pointer;                                                 \
    *(void **)(void *)&pointer = function_of(sonames, #name)

WT_CASE("program", .setup = setup, .teardown = teardown);

WT_TEST(test_A1_A9_every_library_gives_the_same_handle_again)
{
    warm_stream stream;
    cublasHandle_t blas = NULL, blas_again = NULL;
    cublasLtHandle_t light = NULL, light_again = NULL;
    cudnnHandle_t dnn = NULL, dnn_again = NULL;
    cusparseHandle_t sparse = NULL, sparse_again = NULL;
    cusolverDnHandle_t solver = NULL, solver_again = NULL;

    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    for (int again = 0; again < 2; again++) {
        wt_ok(warm_cublas_handle(runtime, 0, stream,
                                 again ? &blas_again : &blas));
        wt_ok(warm_cublaslt_handle(runtime, 0, again ? &light_again : &light));
        wt_ok(warm_cudnn_handle(runtime, 0, stream, again ? &dnn_again : &dnn));
        wt_ok(warm_cusparse_handle(runtime, 0, stream,
                                   again ? &sparse_again : &sparse));
        wt_ok(warm_cusolver_handle(runtime, 0, stream,
                                   again ? &solver_again : &solver));
    }
    ck_assert(blas != NULL && blas == blas_again);
    ck_assert(light != NULL && light == light_again);
    ck_assert(dnn != NULL && dnn == dnn_again);
    ck_assert(sparse != NULL && sparse == sparse_again);
    ck_assert(solver != NULL && solver == solver_again);
    wt_ok(warm_thread_release(runtime));
}

WT_TEST(test_A9_G6_a_helper_without_an_output_is_refused)
{
    wt_invalid(warm_cublas_handle(runtime, 0, NULL, NULL));
    wt_invalid(warm_cublaslt_handle(runtime, 0, NULL));
    wt_invalid(warm_cudnn_handle(runtime, 0, NULL, NULL));
    wt_invalid(warm_cusparse_handle(runtime, 0, NULL, NULL));
    wt_invalid(warm_cusolver_handle(runtime, 0, NULL, NULL));
}

struct setting {
    cublasHandle_t handle;
    cublasMath_t found;
    int bad;
};

/* Finds the handle's math mode and leaves another one behind. */
static void leave_a_setting(void *argument, unsigned index)
{
    struct setting *s = argument;
    __typeof__(cublasGetMathMode) *get;
    __typeof__(cublasSetMathMode) *set;
    void *library = NULL;

    if (warm_cublas_handle(runtime, 0, NULL, &s->handle) != WARM_OK) {
        s->bad = 1;
        return;
    }
    for (int i = 0; library == NULL && cublas_names[i] != NULL; i++) {
        library = dlopen(cublas_names[i], RTLD_NOW | RTLD_NOLOAD);
    }
    *(void **)(void *)&get = dlsym(library, "cublasGetMathMode");
    *(void **)(void *)&set = dlsym(library, "cublasSetMathMode");
    s->bad = get(s->handle, &s->found) != CUBLAS_STATUS_SUCCESS ||
             set(s->handle, CUBLAS_PEDANTIC_MATH) != CUBLAS_STATUS_SUCCESS;
}

WT_TEST(test_A4_next_thread_gets_the_handle_without_its_settings)
{
    struct setting first = {0}, second = {0};

    wt_threads(1, leave_a_setting, &first);
    wt_threads(1, leave_a_setting, &second);
    ck_assert(!first.bad && !second.bad);
    ck_assert_ptr_eq(first.handle, second.handle);
    ck_assert_int_eq(first.found, CUBLAS_DEFAULT_MATH);
    ck_assert_int_eq(second.found, CUBLAS_DEFAULT_MATH);
}

enum { M = 37, N = 29, K = 53 };

static float value(int i)
{
    return (float)(i * 7 % 13 - 6);
}

static float element(const float *matrix, bool transposed, int row, int column,
                     int leading)
{
    return matrix[transposed ? column + row * leading : row + column * leading];
}

/* What cublasSgemm() promises, in the slowest way. */
static float expected(const float *a, bool of_a, const float *b, bool of_b,
                      int row, int column)
{
    float sum = 0;

    for (int l = 0; l < K; l++) {
        sum += element(a, of_a, row, l, of_a ? K : M) *
               element(b, of_b, l, column, of_b ? N : K);
    }
    return 2 * sum + 3 * value(row + column * M);
}

/* Pinned buffers, copies and a product on one stream: whole numbers, so that
 * every order of adding gives the same. _i chooses the two transposes. */
WT_LOOP_TEST(test_A10_B16_product_of_pinned_matrices_is_right, 4)
{
    static const float alpha = 2, beta = 3;
    bool of_a = (_i & 1) != 0, of_b = (_i & 2) != 0;
    size_t bytes[] = {sizeof(float) * M * K, sizeof(float) * K * N,
                      sizeof(float) * M * N};
    float *host[3];
    void *device[3];
    warm_stream stream;
    cublasHandle_t handle;

    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_pinned_alloc(runtime, bytes[i], (void **)&host[i]));
        wt_ok(warm_device_alloc_uncached(runtime, 0, bytes[i], &device[i]));
        for (size_t j = 0; j < bytes[i] / sizeof(float); j++) {
            host[i][j] = value((int)j);
        }
        wt_ok(warm_copy_async(runtime, device[i], host[i], bytes[i],
                              WARM_COPY_TO_DEVICE, stream));
    }
    {
        FIND(gemm, cublas_names, cublasSgemm_v2);
        ck_assert_int_eq(gemm(handle, of_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                              of_b ? CUBLAS_OP_T : CUBLAS_OP_N, M, N, K, &alpha,
                              device[0], of_a ? K : M, device[1], of_b ? N : K,
                              &beta, device[2], M),
                         CUBLAS_STATUS_SUCCESS);
    }
    wt_ok(warm_copy_async(runtime, host[2], device[2], bytes[2],
                          WARM_COPY_TO_HOST, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    for (int column = 0; column < N; column++) {
        for (int row = 0; row < M; row++) {
            ck_assert_float_eq(
                host[2][row + column * M],
                expected(host[0], of_a, host[1], of_b, row, column));
        }
    }
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_device_free_uncached(runtime, 0, device[i]));
        wt_ok(warm_free(host[i]));
    }
    wt_ok(warm_thread_release(runtime));
}

/* Two threads, a handle each, and a stream for both: what the second queues
 * comes between the two steps of the first one's product. */
struct product {
    warm_stream stream;
    pthread_barrier_t *queued;
    __typeof__(cublasSgemm_v2) *gemm;
    float *host[2][3]; /* of each thread: a, b and c */
    void *device[2][3];
    bool bad[2];
};

static void meet(void *context)
{
    pthread_barrier_wait(context);
}

static void multiply(void *argument, unsigned index)
{
    static const float alpha = 2, beta = 3;
    struct product *p = argument;
    cublasHandle_t handle = NULL;
    warm_status status = warm_cublas_handle(runtime, 0, p->stream, &handle);

    pthread_barrier_wait(p->queued);
    p->bad[index] =
        status != WARM_OK ||
        p->gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha,
                p->device[index][0], M, p->device[index][1], K, &beta,
                p->device[index][2], M) != CUBLAS_STATUS_SUCCESS;
    pthread_barrier_wait(p->queued);
}

static void set_between_steps(void (*function)(void *context), void *context)
{
    void (*set)(void (*)(void *), void *) = NULL;
    void *library = dlopen(cuda_names[0], RTLD_NOW | RTLD_NOLOAD);

    *(void **)(void *)&set = dlsym(library, "standin_set_between_steps");
    if (set != NULL) { /* a GPU has its own way */
        set(function, context);
    }
}

static void prepare_product(struct product *p, const size_t *bytes)
{
    for (int k = 0; k < 6; k++) {
        int i = k % 3, thread = k / 3;

        wt_ok(
            warm_pinned_alloc(runtime, bytes[i], (void **)&p->host[thread][i]));
        wt_ok(warm_device_alloc_uncached(runtime, 0, bytes[i],
                                         &p->device[thread][i]));
        for (size_t j = 0; j < bytes[i] / sizeof(float); j++) {
            p->host[thread][i][j] = value((int)j) + (float)(thread * (i == 0));
        }
        wt_ok(warm_copy_async(runtime, p->device[thread][i], p->host[thread][i],
                              bytes[i], WARM_COPY_TO_DEVICE, p->stream));
    }
}

WT_TEST(test_A10_products_of_two_threads_on_one_stream_are_right)
{
    size_t bytes[] = {sizeof(float) * M * K, sizeof(float) * K * N,
                      sizeof(float) * M * N};
    struct product p = {.stream = NULL};
    pthread_barrier_t queued;
    cublasHandle_t handle = NULL;

    wt_ok(warm_cublas_handle(runtime, 0, NULL, &handle)); /* loads cuBLAS */
    {
        FIND(gemm, cublas_names, cublasSgemm_v2);
        p.gemm = gemm;
    }
    p.stream = wt_stream(runtime, 0);
    prepare_product(&p, bytes);
    pthread_barrier_init(&queued, NULL, 2);
    p.queued = &queued;
    set_between_steps(meet, &queued);
    wt_threads(2, multiply, &p);
    set_between_steps(NULL, NULL);
    for (int thread = 0; thread < 2; thread++) {
        ck_assert(!p.bad[thread]);
        wt_ok(warm_copy_async(runtime, p.host[thread][2], p.device[thread][2],
                              bytes[2], WARM_COPY_TO_HOST, p.stream));
    }
    wt_ok(warm_stream_synchronize(runtime, p.stream));
    for (int k = 0; k < 2 * M * N; k++) {
        int thread = k / (M * N), at = k % (M * N);

        ck_assert_float_eq(p.host[thread][2][at],
                           expected(p.host[thread][0], false, p.host[thread][1],
                                    false, at % M, at / M));
    }
    for (int k = 0; k < 6; k++) {
        wt_ok(warm_device_free_uncached(runtime, 0, p.device[k / 3][k % 3]));
        wt_ok(warm_free(p.host[k / 3][k % 3]));
    }
    pthread_barrier_destroy(&queued);
    wt_ok(warm_stream_destroy(runtime, p.stream));
    wt_ok(warm_thread_release(runtime));
}

/* The stream and a workspace are set, and memory is obtained for it. */
WT_TEST(test_A10_B7_cublas_can_be_bound_to_a_stream_that_captures)
{
    warm_graph graph = NULL;
    cublasHandle_t handle = NULL, again = NULL;
    warm_stream before = wt_stream(runtime, 0);
    warm_stream captured = wt_stream(runtime, 0);

    wt_ok(warm_cublas_handle(runtime, 0, before, &handle));
    wt_ok(warm_capture_begin(runtime, captured));
    wt_ok(warm_cublas_handle(runtime, 0, captured, &again));
    wt_ok(warm_capture_end(runtime, captured, &graph));
    ck_assert_ptr_eq(handle, again);
    wt_ok(warm_cublas_handle(runtime, 0, before, &handle));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, before));
    wt_ok(warm_stream_destroy(runtime, captured));
}

/* On a GPU: nobody counts it. */
static uint64_t misuse_now(char *text, size_t bytes)
{
    uint64_t (*misuse)(char *, size_t) = NULL;
    void *library = dlopen(cuda_names[0], RTLD_NOW | RTLD_NOLOAD);

    *(void **)(void *)&misuse = dlsym(library, "standin_misuse");
    return misuse != NULL ? misuse(text, bytes) : 0;
}

static const warm_kind bound_kinds[] = {WARM_KIND_CUBLAS, WARM_KIND_CUDNN,
                                        WARM_KIND_CUSPARSE, WARM_KIND_CUSOLVER};

struct held {
    warm_kind kind;
    warm_stream stream;
    warm_status status;
};

static void hold_bound(void *argument, unsigned index)
{
    struct held *h = argument;
    void *handle = NULL;

    h->status = warm_handle_reserve_on(runtime, h->kind, 0, h->stream, &handle);
}

/* A handle is bound to a stream and held by this thread, leased, idle since the
 * lease or its thread ended, or to go with it; the stream goes first. */
WT_LOOP_TEST(test_A10_B6_no_handle_stays_bound_to_a_stream_that_goes, 24)
{
    warm_kind kind = bound_kinds[_i % 4];
    struct held other = {.kind = kind, .status = WARM_OK};
    char text[200] = "none";
    uint64_t misuse = misuse_now(text, sizeof text);
    warm_lease lease = {0}, of_stream = {0};
    void *handle = NULL;
    warm_stream stream = wt_stream(runtime, 0);
    warm_stream second = wt_stream(runtime, 0);

    switch (_i / 4) {
    case 0:
        wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
        wt_ok(warm_stream_destroy(runtime, stream));
        wt_ok(warm_handle_reserve_on(runtime, kind, 0, second, &handle));
        wt_ok(warm_thread_release(runtime));
        break;
    case 1:
    case 2:
        wt_ok(warm_handle_lease_on(runtime, kind, 0, stream, &lease, &handle));
        if (_i / 4 == 1) {
            wt_ok(warm_handle_return(runtime, lease));
            wt_ok(warm_stream_destroy(runtime, stream));
        } else {
            wt_ok(warm_stream_destroy(runtime, stream));
            wt_ok(warm_handle_return(runtime, lease));
        }
        break;
    case 4: /* its end is deferred, to after that of the stream */
        wt_ok(warm_handle_lease_on(runtime, kind, 0, stream, &lease, &handle));
        wt_ok(warm_handle_return(runtime, lease));
        wt_ok(warm_capture_begin(runtime, second));
        wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
        wt_ok(warm_stream_destroy(runtime, stream));
        wt_capture_drop(runtime, second);
        break;
    case 3:
        other.stream = stream;
        wt_threads(1, hold_bound, &other);
        wt_ok(other.status);
        wt_ok(warm_stream_destroy(runtime, stream));
        wt_ok(warm_handle_reserve(runtime, kind, 0, &handle)); /* is reset */
        wt_ok(warm_thread_release(runtime));
        break;
    default:
        wt_ok(warm_stream_destroy(runtime, stream));
        wt_ok(warm_handle_lease(runtime, WARM_KIND_STREAM, 0, &of_stream,
                                &stream));
        wt_ok(warm_handle_lease_on(runtime, kind, 0, stream, &lease, &handle));
        wt_ok(warm_handle_return(runtime, lease));
        wt_ok(warm_handle_return(runtime, of_stream));
        wt_ok(warm_handle_trim(runtime, WARM_KIND_STREAM, 0, 0, 0, NULL));
        break;
    }
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_msg(misuse_now(text, sizeof text) == misuse, "%s", text);
    wt_ok(warm_stream_destroy(runtime, second));
}

static uint64_t workspaces_now(void)
{
    warm_handle_stats stats = WARM_INIT(warm_handle_stats);

    wt_ok(warm_handle_get_stats(runtime, WARM_KIND_CUBLAS, 0, &stats));
    return (uint64_t)stats.workspaces;
}

/* One that graphs have goes with their pool, and not with their stream; one
 * that serves the stream outside of captures as well stays. */
WT_TEST(test_A10_E3_workspace_of_a_capture_goes_with_its_pool)
{
    warm_private_pool pool = {0};
    warm_graph graph = NULL;
    cublasHandle_t handle = NULL;
    uint64_t eager;
    warm_stream stream = wt_stream(runtime, 0);

    wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
    eager = workspaces_now();
    ck_assert_uint_eq(eager, 1);
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
        wt_ok(warm_capture_begin(runtime, stream));
        wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
        wt_ok(warm_capture_end(runtime, stream, &graph));
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_graph_destroy(runtime, graph));
        ck_assert_uint_eq(workspaces_now(), eager + 1);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(workspaces_now(), eager + 1);
        wt_ok(warm_private_pool_release(runtime, pool));
    }
    /* The handle is bound to it until it is bound to another one. */
    ck_assert_uint_eq(workspaces_now(), eager + 1);
    wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
    wt_ok(warm_handle_trim(runtime, WARM_KIND_CUBLAS, 0, 9, 0, NULL));
    ck_assert_uint_eq(workspaces_now(), eager);
    /* Again, and the stream goes first; and one is captured meanwhile. */
    pool = (warm_private_pool){0};
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_stream_destroy(runtime, stream));
    stream = wt_stream(runtime, 0);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_private_pool_release(runtime, pool));
    ck_assert_uint_eq(workspaces_now(), eager + 1);
    wt_capture_drop(runtime, stream);
    /* No graph had the other one, which waits for the next user. */
    ck_assert_uint_eq(workspaces_now(), 1);
    wt_ok(warm_handle_trim(runtime, WARM_KIND_CUBLAS, 0, 9, 0, NULL));
    ck_assert_uint_eq(workspaces_now(), 0);
    wt_ok(warm_stream_destroy(runtime, stream));
}

WT_TEST(test_A10_G4_workspace_limit_below_one_workspace_is_refused)
{
    warm_options options = WARM_INIT(warm_options);
    warm_runtime *other = NULL;

    options.device = "cuda";
    options.workspace_limit = 4096;
    wt_invalid(warm_runtime_create(&options, &other));
    wt_says("workspace_limit", "4.0 KiB", "cublas", "device 0");
    ck_assert_ptr_null(other);
    options.workspace_limit = (uint64_t)64 << 20;
    wt_ok(warm_runtime_create(&options, &other));
    wt_ok(warm_runtime_destroy(other, NULL));
}

/* Workspaces of handles count against the device's limit: the statistics show
 * them beside what is reserved, and so does the error of a refused request. */
WT_TEST(test_C6_C8_workspaces_are_in_the_figures_of_their_device)
{
    warm_handle_stats handles = WARM_INIT(warm_handle_stats);
    warm_device_stats older = {.size =
                                   offsetof(warm_device_stats, workspace_bytes),
                               .workspace_bytes = 7};
    warm_error error = WARM_INIT(warm_error);
    static char text[1 << 18];
    cublasHandle_t handle = NULL;
    void *block = NULL;
    char field[64];
    uint64_t bytes;
    warm_stream stream = wt_stream(runtime, 0);

    ck_assert_uint_eq(wt_device_stats(runtime).workspace_bytes, 0);
    wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
    wt_ok(warm_handle_get_stats(runtime, WARM_KIND_CUBLAS, 0, &handles));
    bytes = wt_device_stats(runtime).workspace_bytes;
    ck_assert_uint_gt(bytes, 0);
    ck_assert_uint_eq(bytes, handles.workspace_bytes);
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, 0);
    /* A program that was built before there was the field. */
    wt_ok(warm_device_get_stats(runtime, 0, &older));
    ck_assert_uint_eq(older.workspace_bytes, 7);
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    snprintf(field, sizeof field, "\"workspace_bytes\":%lu,",
             (unsigned long)bytes);
    wt_contains(text, field);
    wt_limit(runtime, (double)(bytes + (4 << 20)));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 8 << 20, &block));
    warm_last_error(&error);
    wt_contains(error.message, "workspaces of handles and shared buffers have");
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_handle_trim(runtime, WARM_KIND_CUBLAS, 0, 0, 0, NULL));
    ck_assert_uint_eq(wt_device_stats(runtime).workspace_bytes, 0);
}

WT_TEST(test_B13_a_runtime_alone_makes_no_context)
{
    warm_device_info info = WARM_INIT(warm_device_info);
    unsigned flags = 0;
    int devices = 0, active = 1;
    FIND(state, cuda_names, cuDevicePrimaryCtxGetState);

    wt_ok(warm_device_count(runtime, &devices));
    for (int i = 0; i < devices; i++) {
        wt_ok(warm_device_get_info(runtime, i, &info));
        ck_assert_uint_gt(info.total_bytes, 0);
        ck_assert_uint_eq(info.free_bytes, 0);
        ck_assert_int_eq(state(i, &flags, &active), CUDA_SUCCESS);
        ck_assert_int_eq(active, 0);
    }
}

WT_TEST(test_B13_a_thread_keeps_having_no_context)
{
    warm_stream stream;
    cublasHandle_t handle;
    CUcontext context = NULL;
    void *buffer;
    FIND(current, cuda_names, cuCtxGetCurrent);

    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(warm_cublas_handle(runtime, 0, stream, &handle));
    buffer = wt_pinned(runtime, 100000);
    wt_ok(warm_free(buffer));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(current(&context), CUDA_SUCCESS);
    ck_assert_ptr_null(context);
    wt_ok(warm_thread_release(runtime));
}

WT_TEST(test_B4_query_of_a_busy_stream_leaves_no_error_in_cudart)
{
    warm_stream stream;
    wt_gate *gate;
    FIND(peek, cudart_names, cudaPeekAtLastError);

    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    gate = wt_gate_close(runtime, stream);
    wt_fails(WARM_NOT_READY, warm_stream_query(runtime, stream));
    ck_assert_int_eq(peek(), cudaSuccess);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_thread_release(runtime));
}

/* A context of the program's own, current until it is popped. */
static void enter_own_context(void)
{
    FIND(create, cuda_names, cuCtxCreate_v4);
    CUcontext made = NULL;

    ck_assert_int_eq(create(&made, NULL, 0, 0), CUDA_SUCCESS);
}

static void leave_own_context(void)
{
    FIND(pop, cuda_names, cuCtxPopCurrent_v2);
    CUcontext popped = NULL;

    ck_assert_int_eq(pop(&popped), CUDA_SUCCESS);
}

enum { LARGE = 40 << 20 };

/* Nothing of another context is handed out, and nothing changes. */
WT_TEST(test_A17_misses_in_a_context_of_the_program_are_refused)
{
    void *pointer = &pointer, *handle = &handle;
    warm_event event = NULL;
    warm_lease lease;
    uint64_t held;

    wt_ok(warm_free(wt_device(runtime, NULL, 100)));
    held = wt_device_stats(runtime).all.held_bytes.current;
    enter_own_context();
    wt_fails(WARM_UNSUPPORTED,
             warm_device_alloc(runtime, 0, NULL, LARGE, &pointer));
    wt_says("cudaSetDevice");
    wt_fails(WARM_UNSUPPORTED, warm_pinned_alloc(runtime, LARGE, &pointer));
    wt_fails(WARM_UNSUPPORTED, warm_event_create(runtime, 0, &event));
    wt_fails(WARM_UNSUPPORTED,
             warm_handle_lease(runtime, WARM_KIND_CUBLAS, 0, &lease, &handle));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_ptr_eq(handle, &handle);
    ck_assert_ptr_null(event);
    leave_own_context();
    ck_assert_uint_eq(wt_device_stats(runtime).all.held_bytes.current, held);
    wt_ok(warm_device_alloc(runtime, 0, NULL, LARGE, &pointer));
    wt_ok(warm_free(pointer));
}

WT_CASE("reset", .setup = setup);

/* What was cached is lost and counted; a new runtime works. */
WT_TEST(test_A17_after_a_reset_memory_is_lost_and_a_new_runtime_works)
{
    FIND(reset, cudart_names, cudaDeviceReset);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    void *live = wt_device(runtime, NULL, 5000), *pointer = NULL;
    warm_lease lease;
    uint64_t held;

    wt_ok(warm_free(wt_pinned(runtime, 5000)));
    wt_ok(warm_handle_lease(runtime, WARM_KIND_CUBLAS, 0, &lease, &pointer));
    held = wt_device_stats(runtime).all.held_bytes.current;
    ck_assert_int_eq(reset(), cudaSuccess);
    wt_fails(WARM_DRIVER_ERROR,
             warm_device_alloc(runtime, 0, NULL, LARGE, &pointer));
    wt_says("device 0 was reset");
    ck_assert_uint_ge(wt_device_stats(runtime).reset_bytes, held);
    wt_ok(warm_free(live));
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 0);
    ck_assert_uint_ge(report.lost_bytes, held);
    ck_assert_uint_ge(report.lost_handles, 1);
    setup();
    live = wt_device(runtime, NULL, 5000);
    pointer = wt_pinned(runtime, 5000);
    wt_ok(warm_copy_async(runtime, live, pointer, 5000, WARM_COPY_TO_DEVICE,
                          NULL));
    wt_ok(warm_stream_synchronize(runtime, NULL));
    wt_free(live, pointer);
    teardown();
}

/* The destroying call is the first after the reset. */
WT_TEST(test_A17_E3_destroy_reports_what_a_reset_took)
{
    FIND(reset, cudart_names, cudaDeviceReset);
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    void *handle = NULL;
    uint64_t held;

    wt_ok(warm_free(wt_device(runtime, NULL, 5000)));
    wt_ok(warm_handle_reserve(runtime, WARM_KIND_CUBLAS, 0, &handle));
    held = wt_device_stats(runtime).all.held_bytes.current;
    ck_assert_int_eq(reset(), cudaSuccess);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_ge(report.lost_bytes, held);
    ck_assert_uint_ge(report.lost_handles, 1);
}

static void setup_two(void)
{
    setenv("STANDIN_DEVICES", "2", 1);
    setup();
}

WT_CASE("devices", .setup = setup_two, .teardown = teardown);

/* A thread that works on another device's default stream. */
typedef struct far {
    wt_gate *gate;
    pthread_barrier_t barrier;
} far;

static void *work_far(void *argument)
{
    far *f = argument;
    FIND(set, cudart_names, cudaSetDevice);

    ck_assert_int_eq(set(1), cudaSuccess);
    f->gate = wt_gate_hold(runtime, WARM_STREAM_LEGACY);
    pthread_barrier_wait(&f->barrier);
    pthread_barrier_wait(&f->barrier);
    wt_gate_open(f->gate);
    wt_ok(warm_stream_synchronize(runtime, WARM_STREAM_LEGACY));
    return NULL;
}

/* Page-locked memory may be used by every device, whichever is current. */
WT_TEST(test_H1_a_deferred_free_waits_for_the_default_streams_of_all_devices)
{
    void *block, *next;
    pthread_t thread;
    int devices = 0;
    far f;

    wt_ok(warm_device_count(runtime, &devices));
    if (devices < 2) {
        wt_skip("needs two devices");
    }
    wt_ok(warm_stream_synchronize(runtime, WARM_STREAM_LEGACY));
    block = wt_pinned(runtime, 100000);
    pthread_barrier_init(&f.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, work_far, &f), 0);
    pthread_barrier_wait(&f.barrier);
    wt_ok(warm_free_deferred(block));
    wt_ok(warm_poll(runtime));
    next = wt_pinned(runtime, 100000);
    ck_assert_ptr_ne(next, block);
    pthread_barrier_wait(&f.barrier);
    pthread_join(thread, NULL);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_free(next));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    pthread_barrier_destroy(&f.barrier);
}

SKIP_MAIN_IF(wt_on_host(), "the host device has no cuBLAS")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
