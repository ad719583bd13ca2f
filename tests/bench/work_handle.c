/* work_handle.c: reserving a handle that is held, and a thread's life.
 *
 * tls         one call that reads a thread-local pointer: the yardstick
 * reserve     warm_reserve() of a held handle
 * reserve_on  warm_reserve_on() of one bound to that stream already
 * churn       threads that reserve once and exit, against bare ones, in turns;
 *             the median difference of the pairs is a thread's price */
#include "tests/bench/runtime_on.h"
#include "tests/bench/tls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>


static warm_runtime *runtime; /* const once the threads run */
static warm_kind kind;        /* const once the threads run */
static warm_stream stream;    /* const once the threads run */

static int make(void *context, int device, void **handle)
{
    (void)context;
    (void)device;
    *handle = malloc(64);
    return *handle == NULL;
}

static int end(void *context, int device, void *handle)
{
    (void)context;
    (void)device;
    free(handle);
    return 0;
}

static int bind(void *context, int device, void *handle, warm_stream to)
{
    (void)context;
    (void)device;
    (void)handle;
    (void)to;
    return 0;
}

/* A kind whose library costs nothing: the price is the pool's own. */
static bool open_kind(const bench_setup *setup)
{
    const warm_kind_ops ops = {.size = sizeof ops,
                               .name = "bench",
                               .create = make,
                               .destroy = end,
                               .bind_stream = bind};

    runtime = bench_runtime(setup, false);
    return runtime != NULL &&
           warm_kind_register(runtime, &ops, &kind) == WARM_OK &&
           warm_stream_create(runtime, 0, &stream) == WARM_OK;
}

static void read_loop(void *context, unsigned thread, uint64_t ops)
{
    (void)context;
    (void)thread;
    for (uint64_t i = 0; i < ops; i++) {
        void *value = bench_tls_read();

        __asm__ volatile("" : : "r"(value) : "memory");
    }
}

static void reserve_loop(void *context, unsigned thread, uint64_t ops)
{
    void *handle = NULL;

    (void)context;
    (void)thread;
    for (uint64_t i = 0; i < ops; i++) {
        (void)warm_reserve(runtime, kind, 0, &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
}

static void reserve_on_loop(void *context, unsigned thread, uint64_t ops)
{
    void *handle = NULL;

    (void)context;
    (void)thread;
    for (uint64_t i = 0; i < ops; i++) {
        (void)warm_reserve_on(runtime, kind, 0, stream, &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
}

bool bench_work_handle(const bench_setup *setup, bench_result *result)
{
    bench_loop loop = strcmp(setup->work, "tls") == 0       ? read_loop
                      : strcmp(setup->work, "reserve") == 0 ? reserve_loop
                                                            : reserve_on_loop;

    if (loop != read_loop && !open_kind(setup)) {
        return false;
    }
    bench_measure(setup, loop, NULL, NULL, NULL, result);
    return true;
}

/* ---- a thread's life ------------------------------------------------------ */

static void *bare(void *argument)
{
    return argument;
}

static void *reading(void *argument)
{
    (void)argument;
    return bench_tls_read();
}

static void *reserving(void *argument)
{
    void *handle = NULL;

    (void)argument;
    (void)warm_reserve(runtime, kind, 0, &handle);
    return handle;
}

/* ns a thread, for rounds of threads at once. */
static double rounds(uint64_t count, unsigned threads, void *(*fn)(void *))
{
    pthread_t thread[BENCH_THREADS];
    uint64_t start = bench_now_ns();

    for (uint64_t i = 0; i < count; i++) {
        for (unsigned t = 0; t < threads; t++) {
            if (pthread_create(&thread[t], NULL, fn, NULL) != 0) {
                fprintf(stderr, "bench: no thread\n");
                exit(1);
            }
        }
        for (unsigned t = 0; t < threads; t++) {
            pthread_join(thread[t], NULL);
        }
    }
    return (double)(bench_now_ns() - start) / (double)(count * threads);
}

/* setup->ops rounds a half of a pair, setup->runs pairs; which half comes
 * first changes from pair to pair. min and max: the middle half of them. */
bool bench_work_churn(const bench_setup *setup, bench_result *result)
{
    void *(*fn)(void *) = strcmp(setup->subject, "bare") == 0  ? bare
                          : strcmp(setup->subject, "tls") == 0 ? reading
                                                               : reserving;
    double *difference = calloc(setup->runs, sizeof *difference);

    if (difference == NULL || (fn == reserving && !open_kind(setup))) {
        free(difference);
        return false;
    }
    (void)rounds(setup->ops / 4 + 1, setup->threads, bare);
    (void)rounds(setup->ops / 4 + 1, setup->threads, fn);
    for (unsigned i = 0; i < setup->runs; i++) {
        double one = rounds(setup->ops, setup->threads, i % 2 ? fn : bare);
        double two = rounds(setup->ops, setup->threads, i % 2 ? bare : fn);

        difference[i] = i % 2 ? one - two : two - one;
    }
    result->ns = bench_median(difference, setup->runs);
    result->min = difference[setup->runs / 4];
    result->max = difference[setup->runs - 1 - setup->runs / 4];
    free(difference);
    return true;
}
