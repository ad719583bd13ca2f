/* preload_program.c: a program that knows CUDA alone, for preload_gpu.sh, which
 * runs it with and without warmpool-run (row H1).
 *
 *   preload_program rounds   rounds of create, pin, copy, multiply, free and
 *                            destroy: the sum of the results, microseconds each
 *   preload_program order    what a busy stream still uses is freed, and
 *                            allocated and written again at once
 *   preload_program errors   what CUDA refuses, and its last error
 *
 * An error, or a wrong result, ends it with status 1. */
#include "tests/preload/program.h"
#include "tests/preload/refuse.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string.h>
#include <time.h>

enum {
    ROUNDS = 200,
    RUNS = 3,
    SIDE = 64,
    NUMBERS = SIDE * SIDE,
    BYTES = 1 << 20,
    LARGE = 8192
};

/* ---- rounds -------------------------------------------------------------- */

enum part { HANDLES, PINNED, DEVICE, ROUND, PARTS };

static double spent[PARTS]; /* microseconds of this run */

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

#define TIMED(part, call)                                                      \
    do {                                                                       \
        double start_ = now_us();                                              \
                                                                               \
        TRY(call);                                                             \
        spent[part] += now_us() - start_;                                      \
    } while (0)

/* Whole numbers, so that every order of sums has the same result. */
static uint64_t multiply(cublasHandle_t blas, cudaStream_t stream, float *host,
                         float *device, unsigned round)
{
    const float one = 1, zero = 0;
    uint64_t sum = 0;

    for (unsigned i = 0; i < NUMBERS; i++) {
        host[i] = (float)((i * 7 + round) % 16);
    }
    TRY(cudaMemcpyAsync(device, host, BYTES / 2, cudaMemcpyHostToDevice,
                        stream));
    TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one,
                    device, SIDE, device, SIDE, &zero, device + NUMBERS, SIDE));
    TRY(cudaMemcpyAsync(host + NUMBERS, device + NUMBERS,
                        NUMBERS * sizeof(float), cudaMemcpyDeviceToHost,
                        stream));
    TRY(cudaStreamSynchronize(stream));
    for (unsigned i = 0; i < NUMBERS; i++) {
        sum = sum * 31 + (uint64_t)host[NUMBERS + i];
    }
    return sum;
}

static uint64_t one_round(cudaStream_t stream, unsigned round)
{
    cublasHandle_t blas = NULL;
    cublasPointerMode_t mode = CUBLAS_POINTER_MODE_DEVICE;
    void *host = NULL, *device = NULL;
    uint64_t sum;
    double start = now_us();

    TIMED(HANDLES, cublasCreate(&blas));
    TIMED(HANDLES, cublasSetStream(blas, stream));
    TIMED(PINNED, cudaHostAlloc(&host, BYTES, cudaHostAllocDefault));
    TIMED(DEVICE, cudaMalloc(&device, BYTES));
    TRY(cublasGetPointerMode(blas, &mode));
    MUST(mode == CUBLAS_POINTER_MODE_HOST); /* as a new one has it */
    sum = multiply(blas, stream, host, device, round);
    TRY(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
    TIMED(DEVICE, cudaFree(device));
    TIMED(PINNED, cudaFreeHost(host));
    TIMED(HANDLES, cublasDestroy(blas));
    spent[ROUND] += now_us() - start;
    return sum;
}

static double median(double values[RUNS])
{
    double low = values[0] < values[1] ? values[0] : values[1];
    double high = values[0] < values[1] ? values[1] : values[0];

    return values[2] < low ? low : values[2] > high ? high : values[2];
}

static void rounds(void)
{
    static const char *const names[PARTS] = {"handles", "pinned", "device",
                                             "round"};
    double found[PARTS][RUNS];
    cudaStream_t stream = NULL;
    uint64_t sum = 0;

    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned i = 0; i < 4; i++) {
        (void)one_round(stream, i); /* contexts, modules; warmpool starts */
    }
    for (int run = 0; run < RUNS; run++) {
        memset(spent, 0, sizeof spent);
        for (unsigned i = 0; i < ROUNDS; i++) {
            sum = sum * 37 + one_round(stream, i);
        }
        for (int part = 0; part < PARTS; part++) {
            found[part][run] = spent[part] / ROUNDS;
        }
    }
    TRY(cudaStreamDestroy(stream));
    printf("sum %llx\n", (unsigned long long)sum);
    for (int part = 0; part < PARTS; part++) {
        printf("%s %.1f\n", names[part], median(found[part]));
    }
}

/* ---- order --------------------------------------------------------------- */

/* Keeps the stream busy for some milliseconds at least. */
static void occupy(cublasHandle_t blas, const float *from, float *to, int side)
{
    const float one = 1, zero = 0;

    for (int i = 0; i < 4; i++) {
        TRY(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one,
                        from, side, from, side, &zero, to, side));
    }
}

static bool holds(unsigned char *copy, const void *device, cudaStream_t stream,
                  int value)
{
    TRY(cudaMemcpyAsync(copy, device, BYTES, cudaMemcpyDeviceToHost, stream));
    TRY(cudaStreamSynchronize(stream));
    return copy[0] == value && memcmp(copy, copy + 1, BYTES - 1) == 0;
}

/* What the busy stream will read, and where it will write, is freed; whoever
 * gets the memory writes on another stream. */
static void free_early(cublasHandle_t blas, cudaStream_t busy,
                       cudaStream_t other, float *matrices, int side)
{
    unsigned char *host = NULL, *again = NULL, *result = NULL, *kept = NULL;
    void *device = NULL, *next = NULL;

    TRY(cudaMallocHost((void **)&result, BYTES));
    TRY(cudaMalloc((void **)&kept, BYTES));
    TRY(cudaMallocHost((void **)&host, BYTES));
    TRY(cudaMalloc(&device, BYTES));
    memset(host, 1, BYTES);
    occupy(blas, matrices, matrices + (size_t)side * (size_t)side, side);
    TRY(cudaMemcpyAsync(kept, host, BYTES, cudaMemcpyHostToDevice, busy));
    TRY(cudaMemsetAsync(device, 2, BYTES, busy));
    TRY(cudaFreeHost(host));
    TRY(cudaFree(device));
    TRY(cudaMallocHost((void **)&again, BYTES));
    memset(again, 3, BYTES);
    TRY(cudaMalloc(&next, BYTES));
    TRY(cudaMemsetAsync(next, 4, BYTES, other));
    TRY(cudaStreamSynchronize(other));
    TRY(cudaStreamSynchronize(busy));
    MUST(holds(result, kept, other, 1));
    MUST(holds(result, next, other, 4));
    TRY(cudaFree(next));
    TRY(cudaFree(kept));
    TRY(cudaFreeHost(again));
    TRY(cudaFreeHost(result));
}

static void order(int side)
{
    cudaStream_t busy = NULL, other = NULL;
    cublasHandle_t blas = NULL;
    float *matrices = NULL;
    size_t bytes = 2 * (size_t)side * (size_t)side * sizeof(float);

    TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&matrices, bytes));
    TRY(cudaMemsetAsync(matrices, 0, bytes, NULL));
    TRY(cudaStreamSynchronize(NULL));
    TRY(cublasCreate(&blas));
    for (int i = 0; i < 20; i++) {
        TRY(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
        TRY(cublasSetStream(blas, busy));
        free_early(blas, busy, other, matrices, side);
        TRY(cudaStreamDestroy(busy));
    }
    TRY(cublasDestroy(blas));
    TRY(cudaFree(matrices));
    TRY(cudaStreamDestroy(other));
    TRY(cudaDeviceSynchronize());
    printf("in order\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "rounds";

    if (strcmp(name, "rounds") == 0) {
        rounds();
    } else if (strcmp(name, "order") == 0) {
        order(argc > 2 ? atoi(argv[2]) : LARGE);
    } else if (strcmp(name, "errors") == 0) {
        TRY(cudaFree(NULL));
        refuse_all(BYTES);
    } else {
        printf("no case %s\n", name);
        return 2;
    }
    return 0;
}
