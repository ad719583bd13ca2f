/* check_standin.c: the stand-in libraries themselves: that they note misuse,
 * or tests that count on it would show nothing, and that their maths is right.
 * backends: standin */
#include "tests/skip.h"

#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA && __has_include(<cublas_v2.h>) && __has_include(<cudnn.h>)
#include "tests/unit/standin_load.h"

#include <cublas_v2.h>
#include <cudnn.h>
#include <math.h>
#include <sched.h>

/* X(function): what the tests call */
#define CUDART_CALLS(X)                                                        \
    X(cudaStreamCreate)                                                        \
    X(cudaStreamDestroy)                                                       \
    X(cudaStreamSynchronize)                                                   \
    X(cudaStreamBeginCapture)                                                  \
    X(cudaStreamEndCapture)                                                    \
    X(cudaGraphInstantiateWithFlags)                                           \
    X(cudaGraphLaunch)                                                         \
    X(cudaGraphExecDestroy)                                                    \
    X(cudaGraphDestroy)                                                        \
    X(cudaMemsetAsync)                                                         \
    X(cudaLaunchHostFunc)                                                      \
    X(cudaHostAlloc)                                                           \
    X(cudaFreeHost)                                                            \
    X(cudaMalloc)                                                              \
    X(cudaFree)
#define CUBLAS_CALLS(X)                                                        \
    X(cublasCreate_v2)                                                         \
    X(cublasDestroy_v2)                                                        \
    X(cublasSetStream_v2)                                                      \
    X(cublasSetWorkspace_v2)                                                   \
    X(cublasSetPointerMode_v2)                                                 \
    X(cublasSgemm_v2)                                                          \
    X(cublasSgemv_v2)                                                          \
    X(cublasSaxpy_v2)                                                          \
    X(cublasSscal_v2)
#define CUDNN_CALLS(X)                                                         \
    X(cudnnCreate)                                                             \
    X(cudnnDestroy)                                                            \
    X(cudnnCreateTensorDescriptor)                                             \
    X(cudnnSetTensor4dDescriptor)                                              \
    X(cudnnDestroyTensorDescriptor)                                            \
    X(cudnnCreateActivationDescriptor)                                         \
    X(cudnnSetActivationDescriptor)                                            \
    X(cudnnDestroyActivationDescriptor)                                        \
    X(cudnnAddTensor)                                                          \
    X(cudnnActivationForward)                                                  \
    X(cudnnActivationBackward)                                                 \
    X(cudnnSoftmaxForward)

static struct {
#define POINTER(name) __typeof__(name) *name;
    CUDART_CALLS(POINTER) CUBLAS_CALLS(POINTER) CUDNN_CALLS(POINTER)
#undef POINTER
} call;

static cudaStream_t stream;
static cublasHandle_t blas;
static cudnnHandle_t dnn;

static void find(void *library, const char *name, void **slot)
{
    ck_assert_msg(library != NULL, "%s", name);
    *slot = dlsym(library, name);
    ck_assert_msg(*slot != NULL, "%s", name);
}

static void setup(void)
{
    char soname[32];
    void *cublas, *cudnn;

    standin_load();
    standin.standin_devices(2);
    snprintf(soname, sizeof soname, "libcublas.so.%d", CUDART_VERSION / 1000);
    cublas = dlopen(standin_path(soname), RTLD_NOW);
    cudnn = dlopen(standin_path("libcudnn.so.9"), RTLD_NOW);
#define FIND_CUDART(name)                                                      \
    find(standin.cudart_library, #name, (void **)(void *)&call.name);
#define FIND_CUBLAS(name) find(cublas, #name, (void **)(void *)&call.name);
#define FIND_CUDNN(name)  find(cudnn, #name, (void **)(void *)&call.name);
    CUDART_CALLS(FIND_CUDART)
    CUBLAS_CALLS(FIND_CUBLAS)
    CUDNN_CALLS(FIND_CUDNN)
    cuda_ok(call.cudaStreamCreate(&stream));
    cuda_ok(call.cublasCreate_v2(&blas));
    cuda_ok(call.cublasSetStream_v2(blas, stream));
    cuda_ok(call.cudnnCreate(&dnn));
}

static void wait_for_work(void)
{
    cuda_ok(call.cudaStreamSynchronize(stream));
    cuda_ok(call.cudaStreamSynchronize(NULL));
}

/* How often, and for the last time how, something was misused. */
static void expect_misuse(uint64_t count, const char *words)
{
    char text[256];

    ck_assert_uint_eq(standin.standin_misuse(text, sizeof text), count);
    ck_assert_msg(strstr(text, words) != NULL, "%s", text);
}

WT_CASE("misuse", .once = standin_load, .setup = setup);

/* ---- Misuse ---- */

WT_TEST(test_misuse_handle_of_another_device)
{
    cuda_ok(standin.cudaSetDevice(1));
    expect_misuse(0, "none");
    cuda_ok(call.cublasSetStream_v2(blas, NULL));
    expect_misuse(1, "handle of device 0 used on device 1");
}

WT_TEST(test_misuse_handle_that_was_destroyed)
{
    cuda_ok(call.cublasDestroy_v2(blas));
    ck_assert_int_eq(call.cublasSetStream_v2(blas, NULL),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    expect_misuse(1, "was destroyed");
    ck_assert_int_eq(call.cublasDestroy_v2(blas),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    expect_misuse(2, "was destroyed");
}

WT_TEST(test_misuse_handle_of_another_library)
{
    ck_assert_int_eq(call.cublasSetStream_v2((cublasHandle_t)(void *)dnn, NULL),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    expect_misuse(1, "not a handle of cublas");
}

/* Whatever was made before the reset: a handle, a stream, memory of the host
 * and of the device. What is made after it may be used. */
WT_TEST(test_misuse_objects_of_a_context_that_was_reset)
{
    void *pinned = NULL, *memory = NULL;
    cudaStream_t later = NULL;

    cuda_ok(call.cudaHostAlloc(&pinned, 100, 0));
    cuda_ok(call.cudaMalloc(&memory, 100));
    expect_misuse(0, "none");
    cuda_ok(standin.cudaDeviceReset());
    cuda_ok(standin.cudaSetDevice(0));
    (void)call.cudnnDestroy(dnn);
    expect_misuse(1, "cudnnDestroy: of a context that was reset");
    (void)call.cudaStreamSynchronize(stream);
    expect_misuse(2, "cuStreamSynchronize: of a context that was reset");
    (void)call.cudaFreeHost(pinned);
    expect_misuse(3, "cuMemFreeHost: of a context that was reset");
    (void)call.cudaFree(memory);
    expect_misuse(4, "cuMemFree_v2: of a context that was reset");
    cuda_ok(call.cudaStreamCreate(&later));
    cuda_ok(call.cudaStreamSynchronize(later));
    cuda_ok(call.cudaStreamDestroy(later));
    expect_misuse(4, "cuMemFree_v2");
}

/* A use that has begun and not ended is what another thread would meet. */
WT_TEST(test_misuse_handle_used_by_two_threads_at_once)
{
    __typeof__(standin_handle_use) *use;

    find(standin.cuda_library, "standin_handle_use", (void **)(void *)&use);
    ck_assert(
        use("the other thread", "cublas", (standin_handle *)(void *)blas));
    expect_misuse(0, "none");
    cuda_ok(call.cublasSetStream_v2(blas, NULL));
    expect_misuse(1, "two threads at once");
}

WT_TEST(test_misuse_workspace_that_is_not_aligned)
{
    cuda_ok(call.cublasSetWorkspace_v2(blas, (void *)4100, 4096));
    expect_misuse(1, "not aligned");
}

WT_TEST(test_A10_set_stream_resets_the_workspace)
{
    standin_state state;

    cuda_ok(call.cublasSetWorkspace_v2(blas, (void *)4096, 4096));
    standin.standin_handle_state(blas, &state);
    ck_assert_ptr_eq(state.workspace, (void *)4096);
    cuda_ok(call.cublasSetStream_v2(blas, stream));
    standin.standin_handle_state(blas, &state);
    ck_assert_ptr_null(state.workspace);
}

/* ---- Maths ---- */

WT_TEST(test_vectors_and_matrix_times_vector)
{
    float x[] = {1, 2, 3}, y[] = {10, 20, 30};
    float matrix[] = {1, 4, 2, 5, 3, 6}; /* 2 × 3 */
    float ones[] = {1, 1, 1}, sums[2] = {NAN, NAN}, thrice[3] = {0};
    const float two = 2, one = 1, zero = 0;

    cuda_ok(call.cublasSaxpy_v2(blas, 3, &two, x, 1, y, 1));
    cuda_ok(call.cublasSscal_v2(blas, 3, &two, x, 1));
    cuda_ok(call.cublasSgemv_v2(blas, CUBLAS_OP_N, 2, 3, &one, matrix, 2, ones,
                                1, &zero, sums, 1));
    cuda_ok(call.cublasSgemv_v2(blas, CUBLAS_OP_T, 2, 3, &one, matrix, 2, ones,
                                1, &one, thrice, 1));
    wait_for_work();
    ck_assert_float_eq(y[0], 12);
    ck_assert_float_eq(y[2], 36);
    ck_assert_float_eq(x[2], 6);
    ck_assert_float_eq(sums[0], 6);
    ck_assert_float_eq(sums[1], 15);
    ck_assert_float_eq(thrice[0], 5);
    ck_assert_float_eq(thrice[2], 9);
}

/* In the device's pointer mode the scalar is read when the work runs. */
WT_TEST(test_scalar_in_device_memory_is_read_late)
{
    float y[] = {1}, factor = 3;

    cuda_ok(call.cublasSetPointerMode_v2(blas, CUBLAS_POINTER_MODE_DEVICE));
    cuda_ok(call.cudaMemsetAsync(&factor, 0, sizeof factor, stream));
    cuda_ok(call.cublasSscal_v2(blas, 1, &factor, y, 1));
    wait_for_work();
    ck_assert_float_eq(y[0], 0);
}

/* A captured product runs once for each launch, and not before. */
WT_TEST(test_captured_product_runs_with_each_launch)
{
    float a[] = {2}, b[] = {3}, c[] = {0};
    const float one = 1;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;

    cuda_ok(
        call.cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cuda_ok(call.cublasSgemm_v2(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one,
                                a, 1, b, 1, &one, c, 1));
    cuda_ok(call.cudaStreamEndCapture(stream, &graph));
    cuda_ok(call.cudaGraphInstantiateWithFlags(&exec, graph, 0));
    cuda_ok(call.cudaGraphDestroy(graph));
    wait_for_work();
    ck_assert_float_eq(c[0], 0);
    cuda_ok(call.cudaGraphLaunch(exec, stream));
    cuda_ok(call.cudaGraphLaunch(exec, stream));
    wait_for_work();
    ck_assert_float_eq(c[0], 12);
    cuda_ok(call.cudaGraphExecDestroy(exec));
}

static const float one = 1, zero = 0;

/* images rows of channels values each. */
static cudnnTensorDescriptor_t shape(int images, int channels)
{
    cudnnTensorDescriptor_t tensor = NULL;

    cuda_ok(call.cudnnCreateTensorDescriptor(&tensor));
    cuda_ok(call.cudnnSetTensor4dDescriptor(
        tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, channels, 1, 1));
    return tensor;
}

WT_TEST(test_bias_relu_and_softmax)
{
    cudnnTensorDescriptor_t row = shape(1, 3), matrix = shape(2, 3);
    cudnnActivationDescriptor_t relu = NULL;
    float bias[] = {1, -5, 0};
    float x[] = {1, 2, 3, -4, 5, 6}, dy[] = {7, 7, 7, 7, 7, 7}, soft[6];

    cuda_ok(call.cudnnCreateActivationDescriptor(&relu));
    cuda_ok(call.cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU,
                                              CUDNN_PROPAGATE_NAN, 0));
    cuda_ok(call.cudnnAddTensor(dnn, &one, row, bias, &one, matrix, x));
    cuda_ok(call.cudnnActivationForward(dnn, relu, &one, matrix, x, &zero,
                                        matrix, x));
    cuda_ok(call.cudnnActivationBackward(dnn, relu, &one, matrix, x, matrix, dy,
                                         matrix, x, &zero, matrix, dy));
    cuda_ok(call.cudnnSoftmaxForward(dnn, CUDNN_SOFTMAX_ACCURATE,
                                     CUDNN_SOFTMAX_MODE_CHANNEL, &one, matrix,
                                     x, &zero, matrix, soft));
    wait_for_work();
    ck_assert_float_eq(x[0], 2);
    ck_assert_float_eq(x[1], 0);
    ck_assert_float_eq(x[3], 0);
    ck_assert_float_eq(x[4], 0);
    ck_assert_float_eq(x[5], 6);
    ck_assert_float_eq(dy[0], 7);
    ck_assert_float_eq(dy[1], 0);
    ck_assert_float_eq_tol(soft[0], expf(2) / (expf(2) + 1 + expf(3)), 1e-6F);
    ck_assert_float_eq_tol(soft[3] + soft[4] + soft[5], 1, 1e-6F);
    call.cudnnDestroyActivationDescriptor(relu);
    call.cudnnDestroyTensorDescriptor(row);
    call.cudnnDestroyTensorDescriptor(matrix);
}

/* Host functions as CUDA runs them at worst: never two at the same time. */
struct tally {
    _Atomic int inside, together, done;
};

static void count_call(void *argument)
{
    struct tally *t = argument;

    if (atomic_fetch_add(&t->inside, 1) != 0) {
        t->together++;
    }
    sched_yield();
    t->inside--;
    t->done++;
}

static void launch(struct tally *t, cudaStream_t other)
{
    t->done = 0;
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(
            call.cudaLaunchHostFunc(i % 2 ? stream : other, count_call, t),
            cudaSuccess);
    }
}

/* And what CUDA gives back, or destroys, waits for the whole device. */
WT_TEST(test_frees_and_destroys_wait_for_host_functions_in_turn)
{
    struct tally t = {0};
    cudaStream_t other;
    void *pinned = NULL, *memory = NULL;

    ck_assert_int_eq(call.cudaStreamCreate(&other), cudaSuccess);
    ck_assert_int_eq(call.cudaHostAlloc(&pinned, 4096, 0), cudaSuccess);
    ck_assert_int_eq(call.cudaMalloc(&memory, 4096), cudaSuccess);
    launch(&t, other);
    ck_assert_int_eq(call.cudaFreeHost(pinned), cudaSuccess);
    ck_assert_int_eq(t.done, 100);
    launch(&t, other);
    ck_assert_int_eq(call.cudaFree(memory), cudaSuccess);
    ck_assert_int_eq(t.done, 100);
    launch(&t, other);
    ck_assert_int_eq(call.cublasDestroy_v2(blas), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(t.done, 100);
    ck_assert_int_eq(t.together, 0);
    ck_assert_int_eq(call.cudaStreamDestroy(other), cudaSuccess);
}

/* ---- Captures ---- */

struct beside {
    void *memory;
    int code;
};

static void free_it(void *argument, unsigned index)
{
    struct beside *b = argument;

    b->code = (int)call.cudaFree(b->memory);
}

static void allocate_it(void *argument, unsigned index)
{
    struct beside *b = argument;

    b->code = (int)call.cudaMalloc(&b->memory, 4096);
}

static void destroy_it(void *argument, unsigned index)
{
    struct beside *b = argument;

    b->code = (int)call.cublasDestroy_v2(b->memory);
}

/* A thread that waits for the device breaks every capture of it; a thread that
 * allocates breaks those in the global mode. */
WT_LOOP_TEST(test_A16_B7_captures_are_broken_by_other_threads, 5)
{
    static const struct {
        void (*does)(void *argument, unsigned index);
        enum cudaStreamCaptureMode mode;
        bool breaks;
        int code;
    } row[] = {
        {free_it, cudaStreamCaptureModeThreadLocal, true, 900},
        {free_it, cudaStreamCaptureModeRelaxed, true, 900},
        {destroy_it, cudaStreamCaptureModeThreadLocal, true, 0},
        {allocate_it, cudaStreamCaptureModeThreadLocal, false, 0},
        {allocate_it, cudaStreamCaptureModeGlobal, true, 900},
    };
    struct beside beside = {NULL, -1};
    cudaGraph_t graph = NULL;

    if (row[_i].does == destroy_it) {
        beside.memory = blas;
    } else if (row[_i].does == free_it) {
        cuda_ok(call.cudaMalloc(&beside.memory, 4096));
    }
    cuda_ok(call.cudaStreamBeginCapture(stream, row[_i].mode));
    wt_threads(1, row[_i].does, &beside);
    ck_assert_int_eq(beside.code, row[_i].code);
    ck_assert_int_eq((int)call.cudaStreamEndCapture(stream, &graph),
                     row[_i].breaks ? 901 : 0);
    ck_assert(row[_i].breaks == (graph == NULL));
}

SKIP_MAIN_IF(!standin_find(), "the stand-in libraries are not built")

#else
SKIP_MAIN("built without CUDA's headers")
#endif
