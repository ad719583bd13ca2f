/* measure.c: threads behind a barrier, a warm-up, timed runs, the median; and
 * the few tools that the works share. */
#include "tests/bench/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BITS = 40, PART_NS = 20000000 /* the first of a warm-up */ };

static const uint64_t MILLION = 1000000;

typedef struct run_time {
    uint64_t start, end, cpu;
} run_time;

struct team;

typedef struct member {
    struct team *team;
    unsigned index;
    pthread_t thread;
    run_time run[BENCH_FIGURES_MAX]; /* owner, read after the join */
} member;

typedef struct team {
    const bench_setup *setup;
    bench_loop loop;
    void *context;
    void (*enter)(void);
    void (*warm)(void *context);
    pthread_barrier_t barrier;
    /* Written by one thread between two barriers. */
    uint64_t ops, start_ns, cpu_ns, last_cpu_ns, warm_ns, warm_ops;
    bench_warmth warmth;
    bool more;
} team;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t bench_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

unsigned bench_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0
               ? (unsigned)CPU_COUNT(&set)
               : (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

static unsigned cores_for(unsigned threads)
{
    unsigned cores = bench_cores();

    return threads < cores ? threads : cores;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *value, size_t count)
{
    qsort(value, count, sizeof *value, compare);
    return count % 2 != 0 ? value[count / 2]
                          : (value[count / 2 - 1] + value[count / 2]) / 2;
}

/* 2^u for 0 <= u < 1 from the square roots of 2: no mathematics library, the
 * same on every machine. Without branches, which nobody could foretell: by 1
 * for a bit of u that is 0, by the root for one that is 1. */
static double power_of_two(double u)
{
    static double roots[BITS][2];
    uint64_t bits = (uint64_t)(u * (double)(UINT64_C(1) << BITS));
    double power = 1, factor = 2;

    while (roots[BITS - 1][1] == 0) {
        for (int i = 0; i < BITS; i++) {
            double root = factor;

            for (int step = 0; step < 8; step++) {
                root = (root + factor / root) / 2; /* Newton */
            }
            roots[i][0] = 1;
            factor = roots[i][1] = root;
        }
    }
    for (int i = 0; i < BITS; i++) {
        power *= roots[i][bits >> (BITS - 1 - i) & 1];
    }
    return power;
}

size_t bench_log_uniform(uint64_t *state, size_t least, unsigned doublings)
{
    double u = bench_uniform(state) * doublings;
    int whole = (int)u;

    return (size_t)((double)least * power_of_two(u - whole) *
                    (double)(1U << whole));
}

void *bench_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

void bench_unmap(void *pointer, size_t bytes)
{
    munmap(pointer, bytes);
}

static void timed(member *m, unsigned run)
{
    team *t = m->team;
    run_time *time = &m->run[run];
    uint64_t cpu;

    pthread_barrier_wait(&t->barrier);
    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    time->start = bench_now_ns();
    t->loop(t->context, m->index, t->ops);
    time->end = bench_now_ns();
    time->cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    pthread_barrier_wait(&t->barrier);
}

/* Each part of a warm-up but the first is as long as all before it. Two in a
 * row that were hardly cheaper than the last show that there is no more to
 * gain; a single one may be due to other load on the machine. Subjects that are
 * warm at once and those that need long obey the same rule. */
bool bench_is_warm(bench_warmth *w, uint64_t ns, uint64_t ops)
{
    double last = w->cost;

    if (ns < w->end || ns < PART_NS || ops == w->ops) {
        return false;
    }
    w->cost = (double)(ns - w->ns) / (double)(ops - w->ops);
    w->ns = ns;
    w->ops = ops;
    w->end = 2 * ns;
    w->steady = last > 0 && w->cost > 0.92 * last ? w->steady + 1 : 0;
    return w->steady == 2;
}

/* Another round of the warm-up? And how much a run may do, from what the last
 * round cost. Both by processor time, or a machine with others on it would be
 * less warm; that of a thread, or many threads would be. */
static void after_round(team *t, uint64_t round)
{
    const bench_setup *setup = t->setup;
    uint64_t cpu = bench_cpu_ns() / cores_for(setup->threads);
    uint64_t last = cpu - t->last_cpu_ns + 1;
    uint64_t warm =
        (cpu - t->cpu_ns) * cores_for(setup->threads) / setup->threads;
    uint64_t fit = setup->ms * MILLION * round / last;

    t->last_cpu_ns = cpu;
    t->warm_ops += round;
    t->more = t->warm_ops < setup->warm &&
              (setup->warm_ms == 0 ||
               (warm < setup->warm_ms * MILLION &&
                !bench_is_warm(&t->warmth, warm, t->warm_ops)));
    t->ops = setup->ms != 0 && fit < setup->ops ? fit + 1 : setup->ops;
    if (t->more) {
        return;
    }
    t->warm_ns = bench_now_ns() - t->start_ns;
    if (t->warm != NULL) {
        t->warm(t->context);
    }
}

/* So many operations that tables and lists are there, but where only a few of
 * them are to be measured, and each costs as much as a thread. */
static uint64_t round_of(uint64_t ops)
{
    return ops / 4 + (ops < 64 ? 16 * ops : 1024);
}

static void warm_up(member *m)
{
    team *t = m->team;
    uint64_t round = round_of(t->setup->ops);

    /* Not 0 in one of them. */
    if (pthread_barrier_wait(&t->barrier) != 0) {
        t->cpu_ns = bench_cpu_ns() / cores_for(t->setup->threads);
        t->last_cpu_ns = t->cpu_ns;
        t->start_ns = bench_now_ns();
    }
    do {
        pthread_barrier_wait(&t->barrier);
        t->loop(t->context, m->index, round);
        if (pthread_barrier_wait(&t->barrier) != 0) {
            after_round(t, round);
        }
        pthread_barrier_wait(&t->barrier);
    } while (t->more);
}

static void *work(void *argument)
{
    member *m = argument;
    team *t = m->team;

    if (t->enter != NULL) {
        t->enter();
    }
    warm_up(m);
    for (unsigned i = 0; i < t->setup->runs; i++) {
        timed(m, i);
    }
    return NULL;
}

/* Wall time of a run: from the first start to the last end. */
static double wall(const member *m, unsigned threads, unsigned run, double *cpu)
{
    uint64_t start = UINT64_MAX, end = 0, sum = 0;

    for (unsigned i = 0; i < threads; i++) {
        const run_time *time = &m[i].run[run];

        start = time->start < start ? time->start : start;
        end = time->end > end ? time->end : end;
        sum += time->cpu;
    }
    *cpu = (double)sum;
    return (double)(end - start);
}

static void sum_up(const team *t, const member *m, bench_result *result)
{
    const bench_setup *setup = t->setup;
    double ns[BENCH_FIGURES_MAX] = {0}, cpu[BENCH_FIGURES_MAX] = {0};
    double ops = (double)t->ops * setup->threads;
    double share = cores_for(setup->threads);

    for (unsigned i = 0; i < setup->runs; i++) {
        ns[i] = wall(m, setup->threads, i, &cpu[i]) * share / ops;
        cpu[i] /= ops;
    }
    result->ns = bench_median(ns, setup->runs);
    result->min = ns[0];
    result->max = ns[setup->runs - 1];
    result->cpu = bench_median(cpu, setup->runs);
    result->ops = ops * setup->runs;
    result->warm_ops = (double)t->warm_ops;
    result->warm_ns =
        (double)t->warm_ns * share / ((double)t->warm_ops * setup->threads);
}

void bench_measure(const bench_setup *setup, bench_loop loop, void *context,
                   void (*enter)(void), void (*warm)(void *context),
                   bench_result *result)
{
    member *m = calloc(setup->threads, sizeof *m);
    team t = {.setup = setup,
              .loop = loop,
              .context = context,
              .enter = enter,
              .warm = warm};
    pthread_attr_t attr;

    if (m == NULL) {
        return;
    }
    pthread_barrier_init(&t.barrier, NULL, setup->threads);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    for (unsigned i = 0; i < setup->threads; i++) {
        m[i].team = &t;
        m[i].index = i;
        if (pthread_create(&m[i].thread, &attr, work, &m[i]) != 0) {
            fprintf(stderr, "bench: no thread %u\n", i);
            _exit(1);
        }
    }
    for (unsigned i = 0; i < setup->threads; i++) {
        pthread_join(m[i].thread, NULL);
    }
    pthread_attr_destroy(&attr);
    pthread_barrier_destroy(&t.barrier);
    sum_up(&t, m, result);
    free(m);
}
