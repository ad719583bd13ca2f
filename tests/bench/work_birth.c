/* work_birth.c: what a thread pays in its first reserves and at its exit, with
 * others that come and go at the same time.
 *
 *   birth1, birth5   of one kind; of five kinds
 *
 * warmpool     the library
 * mutex-stack  a plain pool, as a yardstick: for each kind a mutex and a stack,
 *              for each thread a record from malloc, given back by a destructor
 * bare         nothing
 *
 * The threads stamp the time around their calls, and before and after the
 * destructors in between: those of a key that was made before the subject's and
 * of one made after it. So the figure is that of the calls alone, and not the
 * small difference of two large ones. What a key costs by itself (the C library
 * looks through all of them) is not in it; instr.sh counts it. */
#include "tests/bench/runtime_on.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 5, SAMPLES = 1 << 18 };

static unsigned kinds;              /* const once the threads run */
static pthread_key_t before, after; /* const once the threads run */
static void (*reserve_all)(void);   /* const once the threads run */
static uint64_t stamps_ns;          /* const once the threads run */
static double *sample;              /* [SAMPLES]; each is written once */
static atomic_uint samples;

/* ---- a plain pool ------------------------------------------------------ */

static struct {
    pthread_mutex_t mutex;
    void **stack; /* lock mutex */
    unsigned count, room, made;
} plain[KINDS];

static pthread_key_t plain_key;

static void plain_give(void *window)
{
    void **held = window;

    for (unsigned i = 0; i < kinds; i++) {
        pthread_mutex_lock(&plain[i].mutex);
        plain[i].stack[plain[i].count++] = held[i];
        pthread_mutex_unlock(&plain[i].mutex);
    }
    free(window);
}

/* Under the lock. */
static void *plain_make(unsigned i)
{
    if (plain[i].made == plain[i].room) {
        plain[i].room = plain[i].room * 2 + 16;
        plain[i].stack =
            realloc(plain[i].stack, plain[i].room * sizeof(void *));
        if (plain[i].stack == NULL) {
            exit(1);
        }
    }
    plain[i].made++;
    return malloc(64);
}

static void plain_reserve(void)
{
    void **held = calloc(kinds, sizeof *held);

    if (held == NULL) {
        exit(1);
    }
    for (unsigned i = 0; i < kinds; i++) {
        pthread_mutex_lock(&plain[i].mutex);
        held[i] = plain[i].count > 0 ? plain[i].stack[--plain[i].count]
                                     : plain_make(i);
        pthread_mutex_unlock(&plain[i].mutex);
    }
    pthread_setspecific(plain_key, held);
}

static bool plain_open(void)
{
    for (int i = 0; i < KINDS; i++) {
        pthread_mutex_init(&plain[i].mutex, NULL);
    }
    reserve_all = plain_reserve;
    return pthread_key_create(&plain_key, plain_give) == 0;
}

/* ---- the library ------------------------------------------------------- */

static warm_runtime *runtime; /* const once the threads run */
static warm_kind kind[KINDS]; /* const once the threads run */

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

static void warm_reserve_all(void)
{
    void *handle = NULL;

    for (unsigned i = 0; i < kinds; i++) {
        if (warm_handle_reserve(runtime, kind[i], 0, &handle) != WARM_OK) {
            exit(1);
        }
    }
}

static bool warm_open(const bench_setup *setup)
{
    static const char *const names[KINDS] = {"a", "b", "c", "d", "e"};
    bool open;

    runtime = bench_runtime(setup, false);
    open = runtime != NULL;
    for (int i = 0; i < KINDS && open; i++) {
        const warm_kind_ops ops = {.size = sizeof ops,
                                   .name = names[i],
                                   .create = make,
                                   .destroy = end};

        open = warm_kind_register(runtime, &ops, &kind[i]) == WARM_OK;
    }
    reserve_all = warm_reserve_all;
    return open;
}

/* ---- threads ----------------------------------------------------------- */

static void nothing(void)
{
}

static _Thread_local struct life {
    uint64_t birth, death; /* ns of its calls; when its destructors begin */
} life;

static void death_begins(void *value)
{
    life.death = bench_now_ns();
}

static void death_ends(void *value)
{
    uint64_t ns = bench_now_ns() - life.death + life.birth;
    unsigned at = atomic_fetch_add_explicit(&samples, 1, memory_order_relaxed);

    if (at < SAMPLES) {
        sample[at] = ns > stamps_ns ? (double)(ns - stamps_ns) : 0;
    }
}

static void *live(void *argument)
{
    uint64_t start;

    pthread_setspecific(before, &life);
    pthread_setspecific(after, &life);
    start = bench_now_ns();
    reserve_all();
    life.birth = bench_now_ns() - start;
    return argument;
}

static void come_and_go(void *context, unsigned thread, uint64_t ops)
{
    pthread_t one;

    for (uint64_t i = 0; i < ops; i++) {
        if (pthread_create(&one, NULL, live, NULL) != 0) {
            fprintf(stderr, "bench: no thread\n");
            exit(1);
        }
        pthread_join(one, NULL);
    }
}

static bool open_subject(const bench_setup *setup)
{
    if (strcmp(setup->subject, "mutex-stack") == 0) {
        return plain_open();
    }
    if (strcmp(setup->subject, "warmpool") == 0) {
        return warm_open(setup);
    }
    reserve_all = nothing;
    return strcmp(setup->subject, "bare") == 0;
}

/* Two pairs of stamps with nothing in between. */
static void measure_stamps(void)
{
    stamps_ns = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t start = bench_now_ns(), ns = bench_now_ns() - start;

        stamps_ns = 2 * ns < stamps_ns ? 2 * ns : stamps_ns;
    }
}

bool bench_work_birth(const bench_setup *setup, bench_result *result)
{
    unsigned count;

    kinds = strcmp(setup->work, "birth5") == 0 ? KINDS : 1;
    sample = calloc(SAMPLES, sizeof *sample);
    if (sample == NULL || pthread_key_create(&before, death_begins) != 0 ||
        !open_subject(setup) || pthread_key_create(&after, death_ends) != 0) {
        return false;
    }
    measure_stamps();
    bench_measure(setup, come_and_go, NULL, NULL, NULL, result);
    count = samples < SAMPLES ? samples : SAMPLES;
    result->ns = bench_median(sample, count);
    result->min = sample[count / 10];
    result->max = sample[count - 1 - count / 10];
    result->cpu = -1;
    return true;
}
