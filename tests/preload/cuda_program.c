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

/* ---- frees keep CUDA's order --------------------------------------------- */

static int pin(void **pointer)
{
    return (int)cudaHostAlloc(pointer, BYTES, 0);
}

static int unpin(void *pointer)
{
    return (int)cudaFreeHost(pointer);
}

static int alloc(void **pointer)
{
    return (int)cudaMalloc(pointer, BYTES);
}

static int end(void *pointer)
{
    return (int)cudaFree(pointer);
}

/* A block is freed while another stream still works, and many are allocated:
 * none of them is that block before the stream is done. CUDA's own free waits,
 * and so the gate is opened by another thread. */
static void order(cudaStream_t busy, int (*get)(void **), int (*give)(void *))
{
    enum { MANY = 64 };
    void *block = NULL, *many[MANY];
    unsigned count = 0;
    pthread_t opener;

    for (int i = 0; i < 2; i++) { /* whatever is CUDA's own the first time */
        TRY(get(&block));
        TRY(give(block));
    }
    TRY(get(&block));
    TRY(cudaLaunchHostFunc(busy, wait_for_gate, NULL));
    MUST(pthread_create(&opener, NULL, open_later, NULL) == 0);
    TRY(give(block));
    while (!atomic_load(&open_gate) && count < MANY) {
        TRY(get(&many[count]));
        MUST(many[count] != block || atomic_load(&open_gate));
        count++;
        usleep(500);
    }
    pthread_join(opener, NULL);
    TRY(cudaStreamSynchronize(busy));
    while (count > 0) {
        TRY(give(many[--count]));
    }
    atomic_store(&open_gate, false);
}

static void orders(void)
{
    static const unsigned flags[] = {cudaStreamDefault, cudaStreamNonBlocking};
    cudaStream_t busy = NULL;

    for (int i = 0; i < 2; i++) {
        TRY(cudaStreamCreateWithFlags(&busy, flags[i]));
        order(busy, pin, unpin);
        order(busy, alloc, end);
        TRY(cudaStreamDestroy(busy));
    }
    MUST(misuses() == 0);
}

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

/* ---- threads --------------------------------------------------------------
 */

static void *use(void *sum)
{
    cudaStream_t stream = NULL;

    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned i = 0; i < 50; i++) {
        *(uint64_t *)sum += one_round(stream, i, 1 << 16);
    }
    TRY(cudaStreamDestroy(stream));
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    uint64_t sum[THREADS] = {0};

    for (int i = 0; i < THREADS; i++) {
        MUST(pthread_create(&thread[i], NULL, use, &sum[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        MUST(sum[i] == sum[0]);
    }
    printf("sum %llx\n", (unsigned long long)sum[0]);
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

/* ---- captures -------------------------------------------------------------
 */

static void captures(void)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    void *pinned = NULL, *block = NULL;

    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++) {
        TRY(cudaHostAlloc(&pinned, BYTES, 0));
        TRY(cudaFreeHost(pinned));
    }
    TRY(cudaHostAlloc(&pinned, BYTES, 0));
    TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    TRY(cudaFreeHost(pinned)); /* breaks no capture */
    TRY(cudaHostAlloc(&block, BYTES, 0));
    MUST(block != pinned);
    TRY(cudaStreamEndCapture(stream, &graph));
    TRY(cudaGraphDestroy(graph));
    TRY(cudaFreeHost(block));
    TRY(cudaStreamDestroy(stream));
    MUST(misuses() == 0);
}

/* ---- look-ups --------------------------------------------------------------
 */

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

/* ---- after fork(), and at exit ----------------------------------------------
 */

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
    } cases[] = {{"rounds", rounds},     {"waits", waits},
                 {"threads", threads},   {"errors", errors},
                 {"captures", captures}, {"lookups", lookups},
                 {"ends", ends},         {"order", orders}};
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
