/* cuda_program.c: a program that knows CUDA alone, for the tests of the preload
 * (row H1): nothing here is warmpool's.
 *
 *   cuda_program CASE: prints what it found; an error ends it with status 1.
 *
 * Over the stand-ins it counts calls of theirs, which it looks up by name. */
#include "gate.h"
#include "program.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#ifndef LIBCUDART /* to be opened */
#define LIBCUDART ""
#endif

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200, BYTES = 1 << 20 };

static uint64_t pins(void)
{
    /* cudart's functions end in these. */
    return calls_of("cuMemHostAlloc") + calls_of("cuMemHostRegister_v2");
}

/* ---- work ---------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A handle, a page-locked buffer and a buffer of the device; a copy there and
 * back; all is given up again. Returns the sum of what came back. */
static uint64_t one_round(cudaStream_t stream, unsigned round, size_t bytes)
{
    cublasHandle_t blas = NULL;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_DEVICE;
    unsigned char *host = NULL, *back = NULL;
    void *device = NULL;
    uint64_t sum = 0;

    TRY(cublasCreate(&blas));
    TRY(cublasGetPointerMode(blas, &mode));
    MUST(mode == CUBLAS_POINTER_MODE_HOST); /* as a new one has it */
    TRY(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
    TRY(cublasSetStream(blas, stream));
    TRY(cudaHostAlloc((void **)&host, bytes, cudaHostAllocDefault));
    TRY(cudaMallocHost((void **)&back, bytes));
    TRY(cudaMalloc(&device, bytes));
    for (size_t i = 0; i < bytes; i += 4096) {
        host[i] = (unsigned char)(round + i / 4096);
        back[i] = 0;
    }
    TRY(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
    TRY(cudaMemcpyAsync(back, device, bytes, cudaMemcpyDeviceToHost, stream));
    TRY(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < bytes; i += 4096) {
        sum = sum * 31 + back[i];
    }
    TRY(cudaFree(device));
    TRY(cudaFreeHost(back));
    TRY(cudaFreeHost(host));
    TRY(cublasDestroy(blas));
    return sum;
}

static void rounds(void)
{
    cudaStream_t stream = NULL;
    uint64_t sum = 0;
    double start;

    TRY(cudaStreamCreate(&stream));
    start = now_ms();
    for (unsigned i = 0; i < ROUNDS; i++) {
        sum = sum * 37 + one_round(stream, i, BYTES);
    }
    start = now_ms() - start;
    TRY(cudaStreamDestroy(stream));
    printf("sum %llx\n", (unsigned long long)sum);
    printf("creates %llu\n", (unsigned long long)calls_of("cublasCreate_v2"));
    printf("pins %llu\n", (unsigned long long)pins());
    printf("ms %.1f\n", start);
    printf("misuses %llu\n", (unsigned long long)misuses());
}

/* ---- frees --------------------------------------------------------------- */

/* With free:wait the caller waits, as with CUDA. */
static void waits(void)
{
    cudaStream_t busy = NULL;
    void *block = NULL;
    pthread_t opener;

    TRY(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        TRY(cudaHostAlloc(&block, BYTES, 0));
        TRY(cudaFreeHost(block));
    }
    TRY(cudaHostAlloc(&block, BYTES, 0));
    TRY(cudaLaunchHostFunc(busy, wait_for_gate, NULL));
    MUST(pthread_create(&opener, NULL, open_later, NULL) == 0);
    TRY(cudaFreeHost(block));
    printf("the free %s\n",
           atomic_load(&open_gate) ? "waited" : "did not wait");
    pthread_join(opener, NULL);
    TRY(cudaStreamSynchronize(busy));
    TRY(cudaStreamDestroy(busy));
}

/* ---- threads ------------------------------------------------------------- */

/* What a thread works with, and leaves to one that comes after its end. */
struct work {
    uint64_t sum;
    cublasHandle_t blas;
    void *pinned, *device;
};

static void end_left(struct work *work)
{
    if (work->blas != NULL) {
        TRY(cublasDestroy(work->blas));
        TRY(cudaFreeHost(work->pinned));
        TRY(cudaFree(work->device));
    }
}

static void *use(void *argument)
{
    enum { TIMES = 20, EACH = 1 << 16 };
    struct work *work = argument;
    cudaStream_t stream = NULL;

    end_left(work);
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned i = 0; i < TIMES; i++) {
        work->sum += one_round(stream, i, EACH);
    }
    TRY(cublasCreate(&work->blas));
    TRY(cublasSetStream(work->blas, stream));
    TRY(cudaMallocHost(&work->pinned, EACH));
    TRY(cudaMalloc(&work->device, EACH));
    TRY(cudaMemcpyAsync(work->device, work->pinned, EACH,
                        cudaMemcpyHostToDevice, stream));
    TRY(cublasSetStream(work->blas, NULL));
    TRY(cudaStreamDestroy(stream));
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 6, WAVES = 4 };
    pthread_t thread[THREADS];
    struct work work[THREADS] = {{.sum = 0}};

    for (int wave = 0; wave < WAVES; wave++) {
        for (int i = 0; i < THREADS; i++) {
            MUST(pthread_create(&thread[i], NULL, use,
                                &work[(i + wave) % THREADS]) == 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        end_left(&work[i]);
        MUST(work[i].sum == work[0].sum);
    }
    printf("sum %llx\n", (unsigned long long)work[0].sum);
    printf("creates %llu\n", (unsigned long long)calls_of("cublasCreate_v2"));
    MUST(misuses() == 0);
}

/* ---- errors, and memory that is not served ------------------------------- */

static void errors(void)
{
    void *pinned = NULL, *device = NULL, *combined = NULL, *large = NULL;
    char outside;

    for (int i = 0; i < 2; i++) {
        TRY(cudaHostAlloc(&pinned, BYTES, 0));
        TRY(cudaFreeHost(pinned));
        TRY(cudaMalloc(&device, BYTES));
        TRY(cudaFree(device));
    }
    MUST(cudaFreeHost(&outside) != 0);
    TRY(cudaHostAlloc(&combined, BYTES, cudaHostAllocWriteCombined));
    TRY(cudaFreeHost(combined));
    TRY(cudaHostAlloc(&pinned, BYTES, cudaHostAllocPortable));
    MUST(cudaFreeHost((char *)pinned + 64) != 0);
    MUST(cudaFree(pinned) != 0);
    TRY(cudaFreeHost(pinned));
    /* Larger than one registration: no copy of it may be refused. */
    TRY(cudaHostAlloc(&large, (size_t)20 << 20, 0));
    TRY(cudaMalloc(&device, (size_t)20 << 20));
    TRY(cudaMemcpyAsync(device, large, (size_t)20 << 20, cudaMemcpyHostToDevice,
                        NULL));
    TRY(cudaStreamSynchronize(NULL));
    TRY(cudaFree(device));
    TRY(cudaFreeHost(large));
    TRY(cudaFree(NULL));
    TRY(cudaFreeHost(NULL));
    MUST(misuses() == 0);
}

/* ---- captures ------------------------------------------------------------ */

/* Code for per-thread default streams calls these. */
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                        enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream,
                                               cudaGraph_t graph,
                                               const cudaGraphNode_t *nodes,
                                               const cudaGraphEdgeData *edges,
                                               size_t count,
                                               enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t bytes,
                                 cudaStream_t stream);
cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream);

static cudaError_t begin(cudaStream_t stream, bool own, bool to_graph)
{
    static cudaGraph_t graph; /* null: the stand-ins do not look at it */
    const enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;

    if (to_graph) {
        return (own ? cudaStreamBeginCaptureToGraph_ptsz
                    : cudaStreamBeginCaptureToGraph)(stream, graph, NULL, NULL,
                                                     0, mode);
    }
    return (own ? cudaStreamBeginCapture_ptsz : cudaStreamBeginCapture)(stream,
                                                                        mode);
}

/* What is freed before or meanwhile breaks no capture, and what is freed
 * meanwhile is not to be had before its end. */
static void capture(cudaStream_t stream, bool own, bool to_graph)
{
    cudaGraph_t graph = NULL;
    void *pinned = NULL, *block = NULL, *device = NULL;

    TRY(cudaHostAlloc(&pinned, BYTES, 0));
    TRY(cudaMallocAsync(&device, BYTES, stream));
    TRY(cudaFreeAsync(device, stream));
    TRY(begin(stream, own, to_graph));
    MUST(begin(stream, own, to_graph) != cudaSuccess); /* ends nothing */
    TRY(cudaFreeHost(pinned));
    TRY(cudaHostAlloc(&block, BYTES, 0));
    MUST(block != pinned);
    TRY(cudaMalloc(&device, BYTES));
    TRY((own ? cudaStreamEndCapture_ptsz : cudaStreamEndCapture)(stream,
                                                                 &graph));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaFreeHost(block));
    TRY(cudaFree(device));
    (void)cudaGetLastError();
}

static void captures(void)
{
    cudaStream_t stream = NULL;
    void *pinned = NULL;

    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        TRY(cudaHostAlloc(&pinned, BYTES, 0));
        TRY(cudaFreeHost(pinned));
    }
    for (int i = 0; i < 4; i++) {
        capture(stream, false, i % 2 != 0);
        capture(stream, true, i % 2 != 0);
        capture(NULL, true, i % 2 != 0); /* the thread's own */
    }
    TRY(cudaStreamDestroy(stream));
    MUST(misuses() == 0);
}

/* None, the null pointer, is the thread's own stream: what is freed there is
 * there until that stream has passed, and while it captures memory is the
 * graph's. */
static void per_thread(void)
{
    cudaGraph_t graph = NULL;
    void *block = NULL, *next = NULL;
    pthread_t opener;

    for (int i = 0; i < 2; i++) {
        TRY(cudaMallocAsync_ptsz(&block, BYTES, NULL));
        TRY(cudaFreeAsync_ptsz(block, NULL));
    }
    TRY(cudaMallocAsync_ptsz(&block, BYTES, NULL));
    TRY(cudaStreamBeginCapture_ptsz(NULL, cudaStreamCaptureModeThreadLocal));
    MUST(cudaMallocAsync_ptsz(&next, BYTES, NULL) == cudaErrorNotSupported);
    MUST(cudaFreeAsync_ptsz(block, NULL) == cudaErrorInvalidValue);
    TRY(cudaStreamEndCapture_ptsz(NULL, &graph));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaLaunchHostFunc(cudaStreamPerThread, wait_for_gate, NULL));
    MUST(pthread_create(&opener, NULL, open_later, NULL) == 0);
    TRY(cudaFreeAsync_ptsz(block, NULL));
    TRY(cudaMalloc(&next, BYTES));
    MUST(next != block || atomic_load(&open_gate));
    pthread_join(opener, NULL);
    TRY(cudaFree(next));
    printf("allocs %llu\n", (unsigned long long)calls_of("cuMemAlloc_v2"));
    MUST(misuses() == 0);
}

/* ---- write-combined memory ----------------------------------------------- */

static void combined(void)
{
    void *block = NULL, *first = NULL, *plain = NULL;

    TRY(cudaHostAlloc(&first, BYTES, 0)); /* CUDA's own */
    for (int i = 0; i < 20; i++) {
        TRY(cudaHostAlloc(&block, 32 * BYTES, cudaHostAllocWriteCombined));
        TRY(cudaHostAlloc(&plain, 16 * BYTES, cudaHostAllocMapped));
        TRY(cudaFreeHost(block));
        TRY(cudaFreeHost(plain));
    }
    TRY(cudaFreeHost(first));
    printf("pins %llu\n", (unsigned long long)pins());
    MUST(misuses() == 0);
}

/* ---- look-ups ------------------------------------------------------------ */

/* Opens the library for itself, as Python does. */
static void lookups(void)
{
    void *cudart = dlopen(LIBCUDART, RTLD_NOW | RTLD_LOCAL);
    int (*alloc)(void **, size_t, unsigned) = NULL;
    int (*end)(void *) = NULL;
    void *block = NULL, *first = NULL;

    MUST(cudart != NULL);
    *(void **)(void *)&alloc = dlsym(cudart, "cudaHostAlloc");
    *(void **)(void *)&end = dlsym(cudart, "cudaFreeHost");
    MUST(alloc != NULL && end != NULL);
    MUST(dlsym(cudart, "cudaNoSuchFunction") == NULL);
    MUST(dlerror() != NULL);
    for (int i = 0; i < 20; i++) {
        MUST(alloc(&block, BYTES, 0) == 0);
        first = i == 1 ? block : first;
        MUST(end(block) == 0);
    }
    MUST(dlsym(RTLD_DEFAULT, "malloc") != NULL);
    /* The next one behind this program: that of the C library. */
    MUST(dlsym(RTLD_NEXT, "dlopen") != NULL);
    printf("pins %llu\n", (unsigned long long)pins());
}

/* ---- after fork(), and at exit ------------------------------------------- */

static void *kept;

static void free_late(void)
{
    (void)cudaFreeHost(kept); /* whatever it answers, nothing crashes */
}

static void ends(void)
{
    int status = 1;
    pid_t child;

    atexit(free_late);
    for (int i = 0; i < 3; i++) {
        TRY(cudaHostAlloc(&kept, BYTES, 0));
        if (i < 2) {
            TRY(cudaFreeHost(kept));
        }
    }
    child = fork();
    if (child == 0) {
        _exit(cudaFreeHost(kept) == 0 ? 3 : 0); /* CUDA is over in a child */
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"rounds", rounds}, {"waits", waits},       {"threads", threads},
        {"errors", errors}, {"captures", captures}, {"lookups", lookups},
        {"ends", ends},     {"combined", combined}, {"per_thread", per_thread}};
    const char *name = argc > 1 ? argv[1] : "rounds";

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    printf("no case %s\n", name);
    return 2;
}
