/* work_handle.c: reserving a handle that is held, and a thread's life.
 *
 * tls         one call that reads a thread-local pointer: the yardstick
 * reserve     warm_handle_reserve() of a held handle
 * reserve_on  warm_handle_reserve_on() of one bound to that stream already
 * reserve_two the same on two streams in turn, of a kind with two calls and a
 *             workspace like cuBLAS; "floor": these two calls alone
 * leases      setup->size leases are out; any one is returned and another taken
 * churn       threads that reserve once and exit, and bare ones, in turns: from
 *             their first line to the end of what their exit gives back; the
 *             difference of the medians is a thread's price */
#include "tests/bench/runtime_on.h"
#include "tests/bench/tls.h"

#include "handles/kind_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static warm_runtime *runtime; /* const once the threads run */
static warm_kind kind;        /* const once the threads run */
static warm_stream stream;    /* const once the threads run */

static int make(void *context, int device, void **handle)
{
    *handle = malloc(64);
    return *handle == NULL;
}

static int end(void *context, int device, void *handle)
{
    free(handle);
    return 0;
}

static int bind(void *context, int device, void *handle, warm_stream to)
{
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

    runtime = bench_runtime(setup, NULL);
    return runtime != NULL &&
           warm_kind_register(runtime, &ops, &kind) == WARM_OK &&
           warm_stream_create(runtime, 0, &stream) == WARM_OK;
}

/* A library like cuBLAS: its calls check the handle and store. */
typedef struct library_handle {
    uint64_t magic;
    void *stream, *workspace;
    size_t bytes;
} library_handle;

enum { MAGIC = 0x5afe };

static __attribute__((noinline)) int set_stream(library_handle *handle,
                                                void *to)
{
    if (handle == NULL || handle->magic != MAGIC) {
        return 1;
    }
    handle->stream = to;
    handle->workspace = NULL;
    return 0;
}

static __attribute__((noinline)) int
set_workspace(library_handle *handle, void *workspace, size_t bytes)
{
    if (handle == NULL || handle->magic != MAGIC) {
        return 1;
    }
    handle->workspace = workspace;
    handle->bytes = bytes;
    return 0;
}

/* As functions of a loaded library are called. */
static int (*volatile stream_call)(library_handle *, void *) = set_stream;
static int (*volatile workspace_call)(library_handle *, void *,
                                      size_t) = set_workspace;

static warm_status library_rebind(const wm_rebind *to)
{
    return stream_call(to->handle, to->stream) == 0 &&
                   workspace_call(to->handle, to->workspace, to->bytes) == 0
               ? WARM_OK
               : WARM_LIBRARY_ERROR;
}

static warm_status library_bind(wm_kind *of, int device, void *handle,
                                warm_stream to, void *workspace, size_t bytes)
{
    const wm_rebind rebind = {
        .handle = handle, .stream = to, .workspace = workspace, .bytes = bytes};

    return library_rebind(&rebind);
}

static warm_status library_create(wm_kind *of, int device, void **handle)
{
    library_handle *made = calloc(1, sizeof *made);

    *handle = made;
    if (made == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    made->magic = MAGIC;
    return WARM_OK;
}

static warm_status library_destroy(wm_kind *of, int device, void *handle)
{
    free(handle);
    return WARM_OK;
}

static size_t library_bytes(wm_kind *of, int device)
{
    return 4 << 20;
}

static const wm_kind_ops library_ops = {.name = "library",
                                        .create = library_create,
                                        .destroy = library_destroy,
                                        .bind = library_bind,
                                        .rebind = library_rebind,
                                        .workspace_bytes = library_bytes};

static warm_stream other; /* const once the threads run */

static bool open_library(const bench_setup *setup)
{
    runtime = bench_runtime(setup, NULL);
    return runtime != NULL &&
           wm_kind_table_add(runtime->kinds, &library_ops, NULL, &kind) ==
               WARM_OK &&
           warm_stream_create(runtime, 0, &stream) == WARM_OK &&
           warm_stream_create(runtime, 0, &other) == WARM_OK;
}

static void rebind_loop(void *context, unsigned thread, uint64_t ops)
{
    warm_runtime *of = runtime;
    warm_kind the = kind;
    warm_stream on[] = {stream, other};
    void *handle = NULL;

    for (uint64_t i = 0; i < ops; i++) {
        (void)warm_handle_reserve_on(of, the, 0, on[i & 1], &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
}

static void library_loop(void *context, unsigned thread, uint64_t ops)
{
    library_handle handle = {.magic = MAGIC};
    char on[2], workspace[2];

    for (uint64_t i = 0; i < ops; i++) {
        (void)stream_call(&handle, &on[i & 1]);
        (void)workspace_call(&handle, &workspace[i & 1], 4 << 20);
        __asm__ volatile("" : : "r"(&handle) : "memory");
    }
}

static void read_loop(void *context, unsigned thread, uint64_t ops)
{
    for (uint64_t i = 0; i < ops; i++) {
        void *value = bench_tls_read();

        __asm__ volatile("" : : "r"(value) : "memory");
    }
}

static void reserve_loop(void *context, unsigned thread, uint64_t ops)
{
    /* Arguments are where a caller has them. */
    warm_runtime *of = runtime;
    warm_kind the = kind;
    void *handle = NULL;

    for (uint64_t i = 0; i < ops; i++) {
        (void)warm_handle_reserve(of, the, 0, &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
}

static void reserve_on_loop(void *context, unsigned thread, uint64_t ops)
{
    warm_runtime *of = runtime;
    warm_kind the = kind;
    warm_stream on = stream;
    void *handle = NULL;

    for (uint64_t i = 0; i < ops; i++) {
        (void)warm_handle_reserve_on(of, the, 0, on, &handle);
        __asm__ volatile("" : : "r"(handle) : "memory");
    }
}

static warm_lease *leases; /* [setup->size]; one thread's */
static unsigned lease_count;

static void lease_loop(void *context, unsigned thread, uint64_t ops)
{
    uint64_t seed = 1;
    void *handle = NULL;

    for (uint64_t i = 0; i < ops; i++) {
        warm_lease *one = &leases[bench_random(&seed) % lease_count];

        if (warm_handle_return(runtime, *one) != WARM_OK ||
            warm_handle_lease(runtime, kind, 0, one, &handle) != WARM_OK) {
            exit(1);
        }
    }
}

static bool take_leases(const bench_setup *setup)
{
    void *handle = NULL;
    bool done;

    lease_count = setup->size;
    leases = calloc(lease_count, sizeof *leases);
    done = leases != NULL && lease_count > 0 && setup->threads == 1;
    for (unsigned i = 0; i < lease_count && done; i++) {
        done =
            warm_handle_lease(runtime, kind, 0, &leases[i], &handle) == WARM_OK;
    }
    return done;
}

static bool work_two(const bench_setup *setup, bench_result *result)
{
    bool floor = strcmp(setup->subject, "floor") == 0;

    if (!floor && !open_library(setup)) {
        return false;
    }
    bench_measure(setup, floor ? library_loop : rebind_loop, NULL, NULL, NULL,
                  result);
    return true;
}

bool bench_work_handle(const bench_setup *setup, bench_result *result)
{
    bool lease = strcmp(setup->work, "leases") == 0;
    bench_loop loop = strcmp(setup->work, "tls") == 0       ? read_loop
                      : strcmp(setup->work, "reserve") == 0 ? reserve_loop
                                                            : reserve_on_loop;

    if (strcmp(setup->work, "reserve_two") == 0) {
        return work_two(setup, result);
    }
    if ((loop != read_loop && !open_kind(setup)) ||
        (lease && !take_leases(setup))) {
        return false;
    }
    bench_measure(setup, lease ? lease_loop : loop, NULL, NULL, NULL, result);
    return true;
}

/* ---- a thread's life --------------------------------------------------- */

/* One thread's own time, which its making and its end by the system, many times
 * as long and as unsure, are not part of. */
typedef struct life {
    uint64_t start;
    double *ns; /* where it goes */
    void *(*fn)(void);
} life;

static pthread_key_t last_key; /* const once the threads run */

/* Made after the library's key, and so its destructor comes after that. */
static void end_of_life(void *argument)
{
    life *l = argument;

    *l->ns = (double)(bench_now_ns() - l->start);
}

static void *live(void *argument)
{
    life *l = argument;

    (void)pthread_setspecific(last_key, l);
    l->start = bench_now_ns();
    return l->fn();
}

static void *bare(void)
{
    return NULL;
}

static void *reserving(void)
{
    void *handle = NULL;

    (void)warm_handle_reserve(runtime, kind, 0, &handle);
    return handle;
}

/* The lives of count rounds of threads at once. */
static void rounds(uint64_t count, unsigned threads, void *(*fn)(void),
                   double *ns)
{
    pthread_t thread[BENCH_THREADS];
    life l[BENCH_THREADS];

    for (uint64_t i = 0; i < count; i++) {
        for (unsigned t = 0; t < threads; t++) {
            l[t] = (life){.ns = &ns[i * threads + t], .fn = fn};
            if (pthread_create(&thread[t], NULL, live, &l[t]) != 0) {
                fprintf(stderr, "bench: no thread\n");
                exit(1);
            }
        }
        for (unsigned t = 0; t < threads; t++) {
            pthread_join(thread[t], NULL);
        }
    }
}

/* The median of sorted values is as sure as two standard errors; from the
 * middle half, so that what the machine did in between does not count. */
static double unsure(const double *sorted, size_t count)
{
    double middle = sorted[count - 1 - count / 4] - sorted[count / 4];
    double root = (double)count;

    for (int i = 0; i < 40; i++) {
        root = (root + (double)count / root) / 2;
    }
    return 2 * 0.93 * middle / root;
}

/* setup->ops rounds a half of a pair, setup->runs pairs; which half comes
 * first changes from pair to pair. */
static void measure_pairs(const bench_setup *setup, void *(*fn)(void),
                          double *mine, double *others)
{
    size_t step = (size_t)setup->ops * setup->threads;

    for (unsigned i = 0; i < 2 * setup->runs; i++) {
        if (i % 4 == 0 || i % 4 == 3) {
            rounds(setup->ops, setup->threads, fn, mine + i / 2 * step);
        } else {
            rounds(setup->ops, setup->threads, bare, others + i / 2 * step);
        }
    }
}

/* min and max: how sure the difference is. */
bool bench_work_churn(const bench_setup *setup, bench_result *result)
{
    void *(*fn)(void) = strcmp(setup->subject, "bare") == 0  ? bare
                        : strcmp(setup->subject, "tls") == 0 ? bench_tls_read
                                                             : reserving;
    size_t count = (size_t)setup->ops * setup->threads * setup->runs;
    double *mine = calloc(count, sizeof *mine);
    double *others = calloc(count, sizeof *others);
    bool done = mine != NULL && others != NULL &&
                (fn != reserving || open_kind(setup)) &&
                pthread_key_create(&last_key, end_of_life) == 0;

    if (done) {
        double sure;

        rounds(setup->ops / 4 + 1, setup->threads, bare, others);
        rounds(setup->ops / 4 + 1, setup->threads, fn, mine);
        measure_pairs(setup, fn, mine, others);
        result->ns = bench_median(mine, count) - bench_median(others, count);
        sure = unsure(mine, count) + unsure(others, count);
        result->min = result->ns - sure;
        result->max = result->ns + sure;
    }
    free(mine);
    free(others);
    return done;
}
