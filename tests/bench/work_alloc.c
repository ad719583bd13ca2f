/* work_alloc.c: what the threads do with memory: hot, mixed, across threads,
 * and the works whose size is scaled.
 *
 * hot64k   64 KiB, allocated and freed
 * mixed    4 KiB to 4 MiB, log-uniform; 64 live a thread; each operation
 *          frees a random one and allocates anew
 * small    as mixed, 64 B to 64 KiB
 * large    as mixed, 1 to 64 MiB
 * burst    as many allocations as slots, 4 to 256 KiB, then as many frees
 * phases   2,048 live of 4 to 64 KiB, then 64 of 256 KiB to 4 MiB, and back
 * tail     as mixed; the time of each allocation and record counts
 * short    a thread begins, allocates three buffers, frees them and exits
 * xthread  pairs: one allocates 64 KiB, the other frees, a ring of 256 between
 * live     as mixed, 4 KiB to 64 KiB, setup->size live a thread
 * streams  64 KiB, recorded on one of setup->size streams, in turn
 * foreign  the same with streams that the library does not know
 * An s at the end: the thread's own stream is recorded, or one of its
 * setup->made.streams in turn; memory of a device is allocated on that stream.
 * made.slots: another number of live buffers. */
#include "tests/bench/bench.h"
#include "tests/bench/event.h"
#include "tests/bench/sequence.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING = 256,
    FINE = 32, /* parts of a doubling in a histogram of times */
    TIMES = 40 * FINE
};

typedef struct ring {
    _Alignas(64) _Atomic uint64_t head; /* written by the producer */
    _Alignas(64) _Atomic uint64_t tail; /* written by the consumer */
    _Alignas(64) void *slot[RING];
} ring;

typedef struct worker {
    _Alignas(64) void **live; /* owner thread */
    uint32_t *bytes;          /* owner thread: of the live ones */
    bench_sequence plan;      /* const */
    uint64_t at;              /* owner thread: turns taken */
    uint32_t stream;          /* owner thread: the last one used, of its own */
    uint64_t *times;          /* owner thread: [TIMES] of tail */
} worker;

typedef struct work {
    const bench_setup *setup;
    const bench_subject *subject;
    worker *worker;
    ring *ring;
    bool record, warm_now; /* warm_now: the warm-up is over */
    bench_counts warm;
} work;

/* ---- the loops --------------------------------------------------------- */

static void hot(void *context, unsigned thread, uint64_t ops)
{
    const work *w = context;
    const bench_subject *s = w->subject;

    if (w->record) {
        for (uint64_t i = 0; i < ops; i++) {
            void *pointer = s->alloc(BENCH_HOT);

            s->record(pointer, 0);
            s->free(pointer, BENCH_HOT);
        }
        return;
    }
    for (uint64_t i = 0; i < ops; i++) {
        s->free(s->alloc(BENCH_HOT), BENCH_HOT);
    }
}

typedef void *(*obtain_fn)(const work *w, unsigned thread, size_t bytes);

static inline void *obtain(const work *w, unsigned thread, size_t bytes)
{
    void *pointer = w->subject->alloc(bytes);

    if (w->record) {
        w->subject->record(pointer, 0);
    }
    return pointer;
}

/* On one of the thread's streams, in turn. */
static inline void *obtain_on(const work *w, unsigned thread, size_t bytes)
{
    worker *me = &w->worker[thread];
    unsigned streams = w->setup->made.streams, stream;
    void *pointer;

    me->stream = me->stream + 1 < streams ? me->stream + 1 : 0;
    stream = thread * streams + me->stream + 1;
    if (w->subject->device) {
        return w->subject->place(&(bench_where){.stream = stream}, bytes);
    }
    pointer = w->subject->alloc(bytes);
    w->subject->record(pointer, stream);
    return pointer;
}

static inline void *obtain_timed(const work *w, unsigned thread, size_t bytes)
{
    uint64_t start = bench_ticks(), took;
    void *pointer = obtain(w, thread, bytes);
    unsigned doubling;

    took = bench_ticks() - start + FINE;
    doubling = 63U - (unsigned)__builtin_clzll(took / FINE);
    if (w->warm_now && doubling < TIMES / FINE) {
        w->worker[thread].times[doubling * FINE + (took >> doubling) - FINE]++;
    }
    return pointer;
}

/* Inlined with each way to obtain. uneven: turns may only free. */
static inline __attribute__((always_inline)) void
take_turns(const work *w, unsigned thread, uint64_t ops, obtain_fn get,
           bool uneven)
{
    const bench_subject *s = w->subject;
    worker *me = &w->worker[thread];

    for (uint64_t i = 0; i < ops; i++) {
        uint64_t at = me->at++ % (uneven ? me->plan.turns : BENCH_TURNS);
        const bench_turn *turn = &me->plan.turn[at];

        if (me->live[turn->slot] != NULL) {
            s->free(me->live[turn->slot], me->bytes[turn->slot]);
        }
        if (uneven && turn->bytes == 0) {
            me->live[turn->slot] = NULL;
            continue;
        }
        me->live[turn->slot] = get(w, thread, turn->bytes);
        me->bytes[turn->slot] = turn->bytes;
    }
}

static void mixed(void *context, unsigned thread, uint64_t ops)
{
    take_turns(context, thread, ops, obtain, false);
}

static void mixed_on(void *context, unsigned thread, uint64_t ops)
{
    take_turns(context, thread, ops, obtain_on, true);
}

static void uneven(void *context, unsigned thread, uint64_t ops)
{
    take_turns(context, thread, ops, obtain, true);
}

static void tail(void *context, unsigned thread, uint64_t ops)
{
    take_turns(context, thread, ops, obtain_timed, false);
}

static void *live_short(void *context)
{
    static const size_t sizes[] = {4096, BENCH_HOT, 1 << 20};
    const bench_subject *s = context;
    void *pointer[3];

    for (int i = 0; i < 3; i++) {
        pointer[i] = s->alloc(sizes[i]);
    }
    for (int i = 0; i < 3; i++) {
        s->free(pointer[i], sizes[i]);
    }
    return NULL;
}

static void short_threads(void *context, unsigned thread, uint64_t ops)
{
    const work *w = context;
    bench_subject subject = *w->subject;
    pthread_t one;

    for (uint64_t i = 0; i < ops; i++) {
        if (pthread_create(&one, NULL, live_short, &subject) != 0) {
            fprintf(stderr, "bench: no thread\n");
            exit(1);
        }
        pthread_join(one, NULL);
    }
}

static void produce(const work *w, ring *r, uint64_t ops)
{
    const bench_subject *s = w->subject;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

    for (uint64_t i = 0; i < ops; i++) {
        void *pointer = s->alloc(BENCH_HOT);

        if (w->record) {
            s->record(pointer, 0);
        }
        /* Acquire, partner of the consumer's release: the slot was read. */
        while (head - atomic_load_explicit(&r->tail, memory_order_acquire) ==
               RING) {
            sched_yield();
        }
        r->slot[head % RING] = pointer;
        head++;
        /* Release, partner of the consumer's acquire: the slot is written. */
        atomic_store_explicit(&r->head, head, memory_order_release);
    }
}

static void consume(const work *w, ring *r, uint64_t ops)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

    for (uint64_t i = 0; i < ops; i++) {
        void *pointer;

        while (atomic_load_explicit(&r->head, memory_order_acquire) == tail) {
            sched_yield();
        }
        pointer = r->slot[tail % RING];
        tail++;
        atomic_store_explicit(&r->tail, tail, memory_order_release);
        w->subject->free(pointer, BENCH_HOT);
    }
}

/* Each buffer is one operation of two threads: setup->ops counts it in each,
 * so a pair moves twice that many. */
static void xthread(void *context, unsigned thread, uint64_t ops)
{
    const work *w = context;

    (thread % 2 == 0 ? produce : consume)(w, &w->ring[thread / 2], 2 * ops);
}

static void streams(void *context, unsigned thread, uint64_t ops)
{
    const work *w = context;
    const bench_subject *s = w->subject;
    worker *me = &w->worker[thread];

    for (uint64_t i = 0; i < ops; i++) {
        void *pointer = s->alloc(BENCH_HOT);

        s->record(pointer, (unsigned)(me->at++ % w->setup->size) + 1);
        s->free(pointer, BENCH_HOT);
    }
}

/* ---- making them ready ------------------------------------------------- */

/* Zeros in lines that no other thread writes. */
static void *own_lines(size_t bytes)
{
    void *lines = aligned_alloc(64, (bytes + 63) / 64 * 64);

    return lines != NULL ? memset(lines, 0, bytes) : NULL;
}

static bool make_worker(const work *w, unsigned thread, const char *name)
{
    worker *me = &w->worker[thread];

    if (!bench_sequence_make(name, w->setup, thread, &me->plan)) {
        return false;
    }
    me->live = own_lines(me->plan.slots * sizeof *me->live);
    me->bytes = own_lines(me->plan.slots * sizeof *me->bytes);
    me->times = own_lines(TIMES * sizeof *me->times);
    return me->live != NULL && me->bytes != NULL && me->times != NULL;
}

/* A million live: the plan names 65,536 of them, the rest only lie there. */
static void fill(const work *w)
{
    uint64_t state = 99;

    for (unsigned t = 0; t < w->setup->threads; t++) {
        for (unsigned i = 0; i < w->worker[t].plan.slots; i++) {
            uint32_t bytes =
                4096 + (uint32_t)(bench_random(&state) % 16) * 4096;

            w->worker[t].live[i] = w->subject->alloc(bytes);
            w->worker[t].bytes[i] = bytes;
        }
    }
}

static const struct {
    const char *name;
    bench_loop loop;
    bool planned;
} works[] = {
    {"hot64k", hot, false},      {"mixed", mixed, true},
    {"small", mixed, true},      {"large", mixed, true},
    {"burst", uneven, true},     {"phases", uneven, true},
    {"live", mixed, true},       {"tail", tail, true},
    {"xthread", xthread, false}, {"short", short_threads, false},
    {"stream", streams, false},  {"foreign", streams, false},
};

/* The index of the name without an s, or with one: something is recorded. */
static size_t find_work(const char *name, bool *record)
{
    size_t i, all = sizeof works / sizeof *works;

    for (i = 0; i < all; i++) {
        size_t length = strlen(works[i].name);

        if (strncmp(works[i].name, name, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, "s") == 0)) {
            *record = name[length] == 's' || works[i].loop == streams;
            break;
        }
    }
    return i;
}

static bool make_ready(work *w, size_t kind)
{
    unsigned threads = w->setup->threads;

    w->worker = own_lines(threads * sizeof *w->worker);
    w->ring = own_lines((threads / 2 + 1) * sizeof *w->ring);
    if (w->worker == NULL || w->ring == NULL) {
        return false;
    }
    for (unsigned i = 0; works[kind].planned && i < threads; i++) {
        if (!make_worker(w, i, works[kind].name)) {
            return false;
        }
    }
    if (strcmp(works[kind].name, "live") == 0) {
        fill(w);
    }
    return true;
}

static void after_warm_up(void *context)
{
    work *w = context;

    w->warm_now = true;
    if (w->subject->counts != NULL) {
        w->subject->counts(&w->warm);
    }
}

/* ---- what was measured --------------------------------------------------- */

static void count(const work *w, bench_result *result)
{
    bench_counts end;
    double ops = result->ops;

    if (w->subject->counts != NULL) {
        w->subject->counts(&end);
        result->records = (double)(end.records - w->warm.records) / ops;
        result->queries = (double)(end.queries - w->warm.queries) / ops;
        result->others = (double)(end.others - w->warm.others) / ops;
        result->obtains = (double)(end.obtains - w->warm.obtains);
        result->waits = (double)(end.waits - w->warm.waits) / ops;
        result->delay = 100 * (double)(end.delayed - w->warm.delayed) / ops;
        result->metadata = (double)end.metadata;
        result->warm_obtains = (double)w->warm.obtains;
        result->peak = (double)end.peak;
    }
}

/* The time that so many of 10,000 did not exceed, in ns. */
static double percentile(const uint64_t *times, double of_10000)
{
    double all = 0, seen = 0;
    unsigned i = 0;

    for (unsigned k = 0; k < TIMES; k++) {
        all += (double)times[k];
    }
    while (i < TIMES - 1 && (seen += (double)times[i]) < all * of_10000 / 1e4) {
        i++;
    }
    return ((double)((i % FINE + FINE + 1) * (UINT64_C(1) << i / FINE)) -
            FINE) /
           bench_ticks_per_ns();
}

static void find_tail(const work *w, bench_result *result)
{
    uint64_t *times = w->worker[0].times;

    for (unsigned t = 1; t < w->setup->threads; t++) {
        for (unsigned i = 0; i < TIMES; i++) {
            times[i] += w->worker[t].times[i];
        }
    }
    result->p50 = percentile(times, 5000);
    result->p90 = percentile(times, 9000);
    result->p99 = percentile(times, 9900);
    result->p999 = percentile(times, 9990);
    result->p9999 = percentile(times, 9999);
}

static void find_least(const work *w, bench_result *result)
{
    bench_sequence *all = calloc(w->setup->threads, sizeof *all);

    for (unsigned t = 0; all != NULL && t < w->setup->threads; t++) {
        all[t] = w->worker[t].plan;
    }
    if (all != NULL) {
        result->least = (double)bench_sequence_least(all, w->setup, w->record);
    }
    free(all);
}

/* An allocation and its free are one operation, where they are two turns. */
static void count_pairs(bench_result *result)
{
    result->ops /= 2;
    result->ns *= 2;
    result->min *= 2;
    result->max *= 2;
    result->cpu *= 2;
    result->warm_ns *= 2;
}

bool bench_work_alloc(const bench_setup *setup, bench_result *result)
{
    const bench_subject *subject = bench_subject_find(setup->subject);
    work w = {.setup = setup, .subject = subject};
    size_t kind = find_work(setup->work, &w.record);
    bench_loop loop;

    if (subject == NULL || kind == sizeof works / sizeof *works) {
        return false;
    }
    loop = works[kind].loop;
    if ((loop == xthread && setup->threads % 2 != 0) ||
        (w.record && subject->record == NULL) || !subject->open(setup) ||
        !make_ready(&w, kind)) {
        return false;
    }
    loop =
        (loop == mixed || loop == uneven) && w.record && setup->made.streams > 1
            ? mixed_on
            : loop;
    bench_measure(setup, loop, &w, subject->enter, after_warm_up, result);
    if (strcmp(works[kind].name, "burst") == 0) {
        count_pairs(result);
    }
    count(&w, result);
    if (loop == tail) {
        find_tail(&w, result);
    }
    if (works[kind].planned && w.worker[0].plan.slots < 1 << 16) {
        find_least(&w, result);
    }
    return true;
}
