/* order_program.c: calls of CUDA whose order or state matters, by a program
 * that knows CUDA alone (row H1): order_program CASE. */
#include "gate.h"
#include "program.h"
#include "refuse.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <string.h>

enum {
    BYTES = 1 << 20,
    LARGE = 96 << 20,
    ROUNDS = 40,
    SMALL = 4096,
    TIMES = 12
};

/* So that warmpool serves what follows. */
static void begin(void)
{
    void *first = NULL;

    TRY(cudaFree(NULL));
    TRY(cudaMalloc(&first, BYTES));
    TRY(cudaFree(first));
    TRY(cudaMallocHost(&first, BYTES));
    TRY(cudaFreeHost(first));
}

/* What was freed is freed no second time: neither the block, nor the memory
 * around it. */
static void twice(void)
{
    static const size_t sizes[] = {4096, BYTES, LARGE};
    void *block = NULL, *next = NULL;

    begin();
    for (int i = 0; i < 3; i++) {
        TRY(cudaMalloc(&block, sizes[i]));
        TRY(cudaFree(block));
        MUST(cudaFree(block) != cudaSuccess);
        TRY(cudaMalloc(&next, sizes[i]));
        TRY(cudaMemsetAsync(next, 1, sizes[i], NULL));
        TRY(cudaStreamSynchronize(NULL));
        TRY(cudaFree(next));
        TRY(cudaMallocHost(&block, sizes[i]));
        TRY(cudaFreeHost(block));
        MUST(cudaFreeHost(block) != cudaSuccess);
        TRY(cudaMallocHost(&next, sizes[i]));
        memset(next, 1, sizes[i]);
        TRY(cudaFreeHost(next));
    }
    printf("freed twice\n");
}

static pthread_t close_gate(cudaStream_t stream)
{
    pthread_t opener;

    atomic_store(&open_gate, false);
    TRY(cudaLaunchHostFunc(stream, wait_for_gate, NULL));
    MUST(pthread_create(&opener, NULL, open_later, NULL) == 0);
    return opener;
}

/* Sizes whose requests soon search for memory that has become idle. */
static void *alloc(bool pinned)
{
    enum { OF_HOST = 8 << 20, OF_DEVICE = 1 << 16 };
    void *block = NULL;

    TRY(pinned ? cudaHostAlloc(&block, OF_HOST, 0)
               : cudaMalloc(&block, OF_DEVICE));
    return block;
}

static void release(void *block, bool pinned)
{
    TRY(pinned ? cudaFreeHost(block) : cudaFree(block));
}

/* Frees what a stream still uses; nobody gets it before, though CUDA has no
 * name for the stream any more if it is destroyed. */
static void free_early(cudaStream_t stream, bool destroyed, bool pinned)
{
    void *block = alloc(pinned), *next[TIMES];
    pthread_t opener = close_gate(stream);

    if (destroyed) {
        TRY(cudaStreamDestroy(stream));
    }
    release(block, pinned);
    for (int i = 0; i < TIMES; i++) {
        next[i] = alloc(pinned);
        MUST(atomic_load(&open_gate) || next[i] != block);
        usleep(1000); /* to be noticed as idle */
    }
    pthread_join(opener, NULL);
    TRY(cudaDeviceSynchronize());
    for (int i = 0; i < TIMES; i++) {
        release(next[i], pinned);
    }
}

static void order(void)
{
    cudaStream_t stream = NULL;

    begin();
    for (int pinned = 0; pinned < 2; pinned++) {
        free_early(NULL, false, pinned != 0);
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        free_early(stream, true, pinned != 0);
        TRY(cudaDeviceSynchronize());
        TRY(cudaStreamCreate(&stream));
        free_early(stream, false, pinned != 0);
        TRY(cudaStreamDestroy(stream));
        TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
        free_early(stream, false, pinned != 0);
        TRY(cudaStreamDestroy(stream));
    }
    MUST(misuses() == 0);
    MUST(cudaGetLastError() == cudaSuccess); /* nor has warmpool left one */
}

/* What a stream frees in its order, it may allocate at once, and no other. */
static void async(void)
{
    cudaStream_t one = NULL, other = NULL;
    void *block = NULL, *elsewhere = NULL, *again = NULL;

    begin();
    TRY(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    TRY(cudaMallocAsync(&block, BYTES, one));
    TRY(cudaLaunchHostFunc(one, wait_for_gate, NULL));
    TRY(cudaFreeAsync(block, one));
    TRY(cudaMallocAsync(&elsewhere, BYTES, other));
    MUST(elsewhere != block);
    TRY(cudaMallocAsync(&again, BYTES, one));
    MUST(again == block);
    /* By another stream than it was allocated for, which has not waited. */
    TRY(cudaFreeAsync(elsewhere, one));
    TRY(cudaMallocAsync(&block, BYTES, other));
    MUST(block != elsewhere);
    /* By the default stream, which waits for no stream of these: no wait. */
    TRY(cudaFreeAsync(again, NULL));
    TRY(cudaMalloc(&elsewhere, BYTES));
    MUST(elsewhere != again);
    MUST(!atomic_load(&open_gate));
    atomic_store(&open_gate, true);
    TRY(cudaStreamSynchronize(one));
    TRY(cudaFreeAsync(block, other));
    TRY(cudaFree(elsewhere));
    TRY(cudaStreamDestroy(one));
    TRY(cudaStreamDestroy(other));
    TRY(cudaMalloc(&block, BYTES)); /* no stream of it is left */
    TRY(cudaFree(block));
    MUST(cudaPeekAtLastError() == cudaSuccess);
    MUST(misuses() == 0);
    printf("in order\n");
}

/* In a capture the memory is the graph's, which only CUDA can make. */
static void capture_memory(cudaStream_t stream)
{
    cudaGraph_t graph = NULL;
    void *block = NULL, *before = NULL;

    TRY(cudaMallocAsync(&before, BYTES, stream));
    TRY(cudaMallocAsync(&block, BYTES, stream));
    TRY(cudaFreeAsync(block, stream)); /* to be had without CUDA */
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    /* The stand-ins make none. */
    MUST(cudaMallocAsync(&block, BYTES, stream) == cudaErrorNotSupported);
    /* CUDA takes none but the graph's here. */
    MUST(cudaFreeAsync(before, stream) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaFreeAsync(before, stream));
}

static void graph_memory(void)
{
    cudaStream_t stream = NULL;

    begin();
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    capture_memory(stream);
    capture_memory(cudaStreamPerThread);
    TRY(cudaStreamDestroy(stream));
    MUST(misuses() == 0);
    printf("the graph's\n");
}

/* A capture of a stream that waits for the legacy one, which nothing may be
 * queued on meanwhile. */
static void blocking_capture(void)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    void *pinned = NULL, *device = NULL, *block = NULL;

    begin();
    TRY(cudaStreamCreate(&stream));
    TRY(cudaMallocHost(&pinned, BYTES));
    TRY(cudaMalloc(&device, BYTES));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    TRY(cudaFreeHost(pinned));
    TRY(cudaFree(device));
    TRY(cudaMallocHost(&block, BYTES));
    MUST(block != pinned);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaFreeHost(block));
    TRY(cudaStreamDestroy(stream));
    MUST(cudaPeekAtLastError() == cudaSuccess);
    MUST(misuses() == 0);
    printf("whole\n");
}

static void errors(void)
{
    begin();
    refuse_all(BYTES);
    MUST(misuses() == 0);
}

/* One that CUDA's own allocations would break. */
static void capture_error(void)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;

    begin();
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    say_error("in a capture", (int)cudaMalloc(&(void *){NULL}, SIZE_MAX / 4));
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaStreamDestroy(stream));
    MUST(misuses() == 0);
}

static void one_round(void)
{
    cudaStream_t stream = NULL;
    cublasHandle_t blas = NULL;
    void *pinned = NULL, *device = NULL;

    TRY(cudaStreamCreate(&stream));
    TRY(cublasCreate(&blas));
    TRY(cublasSetStream(blas, stream));
    TRY(cudaMallocHost(&pinned, SMALL));
    TRY(cudaMalloc(&device, SMALL));
    memset(pinned, 1, SMALL);
    TRY(cudaMemcpyAsync(device, pinned, SMALL, cudaMemcpyHostToDevice, stream));
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaFree(device));
    TRY(cudaFreeHost(pinned));
    TRY(cublasDestroy(blas));
    TRY(cudaStreamDestroy(stream));
}

/* What a program has after a reset is new, whatever was kept at hand before. */
static void reset(void)
{
    uint64_t allocs, frees, pins, unpins, creates;
    void *lost[2] = {NULL};

    TRY(cudaFree(NULL));
    TRY(cudaDeviceReset()); /* before anything was served: ends nothing */
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        one_round();
    }
    printf("creates %llu\n", (unsigned long long)calls_of("cublasCreate_v2"));
    TRY(cudaMallocHost(&lost[0], SMALL));
    TRY(cudaMalloc(&lost[1], SMALL));
    TRY(cudaDeviceReset());
    allocs = calls_of("cuMemAlloc_v2");
    frees = calls_of("cuMemFree_v2");
    pins = calls_of("cuMemHostAlloc");
    unpins = calls_of("cuMemFreeHost");
    creates = calls_of("cublasCreate_v2");
    for (int i = 0; i < ROUNDS; i++) {
        one_round();
    }
    MUST(calls_of("cuMemAlloc_v2") - allocs == ROUNDS);
    MUST(calls_of("cuMemFree_v2") - frees == ROUNDS);
    MUST(calls_of("cuMemHostAlloc") - pins == ROUNDS);
    MUST(calls_of("cuMemFreeHost") - unpins == ROUNDS);
    MUST(calls_of("cublasCreate_v2") - creates == ROUNDS);
    MUST(misuses() == 0);
    /* CUDA knows no more of these, and answers itself. */
    MUST(cudaFreeHost(lost[0]) != cudaSuccess);
    MUST(cudaFree(lost[1]) != cudaSuccess);
    printf("new\n");
}

/* ---- warmpool's own calls fail ------------------------------------------- */

typedef void fail_metadata_fn(uint64_t n, int persistent);
typedef int fail_fn(void *runtime, const char *call, uint64_t n,
                    int persistent);

static void fail_metadata(uint64_t n)
{
    ((fail_metadata_fn *)(uintptr_t)dlsym(RTLD_DEFAULT,
                                          "warm_testing_fail_metadata"))(n, 0);
}

/* The n-th call of the driver fails, and maybe all that follow. */
static void fail_call(const char *call, uint64_t n, int persistent)
{
    int (*runtime_of)(void **) = (int (*)(void **))(uintptr_t)dlsym(
        RTLD_DEFAULT, "warm_runtime_default");
    void *runtime = NULL;

    TRY(runtime_of(&runtime));
    TRY(((fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "warm_testing_fail"))(
        runtime, call, n, persistent));
}

/* Whether the call failed. Its code is then CUDA's last error as well. */
static bool has_failed(cudaError_t code)
{
    MUST(code == cudaGetLastError());
    return code != cudaSuccess;
}

/* A stream that warmpool cannot see is not made, or is seen all the same. */
static void unseen(void)
{
    enum { MOST = 10 };
    unsigned failures = 0;

    begin();
    for (uint64_t n = 0; n <= MOST; n++) {
        cudaStream_t stream = NULL;

        if (n == 0) {
            fail_call("stream_info", 1, 0);
        } else {
            fail_metadata(n);
        }
        if (!has_failed(
                cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))) {
            fail_metadata(0);
            free_early(stream, false, true);
            TRY(cudaStreamDestroy(stream));
        } else {
            failures++;
        }
        fail_metadata(0);
    }
    MUST(failures > 0);
    MUST(calls_of("cuStreamDestroy_v2") == MOST + 1);
    MUST(misuses() == 0);
    printf("seen\n");
}

static void fail_marks(uint64_t n)
{
    static const char *const calls[] = {"stream_query", "event_record",
                                        "stream_synchronize"};

    for (int i = 0; i < 3; i++) {
        fail_call(calls[i], n, n != 0);
    }
}

/* One that cannot retire is not destroyed, and retires later. */
static void unretired(void)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;

    begin();
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    fail_call("stream_info", 1, 0);
    MUST(has_failed(
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphDestroy(graph));
    fail_call("stream_info", 1, 0);
    MUST(has_failed(cudaStreamDestroy(stream)));
    fail_marks(1); /* nor one whose work would be forgotten */
    MUST(has_failed(cudaStreamDestroy(stream)));
    fail_marks(0);
    free_early(stream, false, true);
    TRY(cudaStreamDestroy(stream));
    MUST(misuses() == 0);
    printf("retired\n");
}

static bool ends_late;

/* What would start to serve only now is not served. */
static void late(void)
{
    void *block = NULL;

    TRY(cudaHostAlloc(&block, 5000, 0));
    ends_late = true;
}

__attribute__((destructor)) static void ask_late(void)
{
    void *block = NULL;

    if (ends_late) {
        MUST(cudaHostAlloc(&block, 5000, 0) == cudaErrorCudartUnloading);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"twice", twice},
                 {"order", order},
                 {"async", async},
                 {"graph_memory", graph_memory},
                 {"blocking_capture", blocking_capture},
                 {"errors", errors},
                 {"capture_error", capture_error},
                 {"reset", reset},
                 {"unseen", unseen},
                 {"unretired", unretired},
                 {"late", late}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 2;
}
