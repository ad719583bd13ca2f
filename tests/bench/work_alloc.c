/* work_alloc.c: what the threads do with memory: hot, mixed, across threads,
 * and the works whose size is scaled.
 *
 * hot64k   64 KiB, allocated and freed
 * mixed    4 KiB to 4 MiB, log-uniform; 64 live a thread; each operation
 *          frees a random one and allocates anew
 * xthread  pairs: one allocates 64 KiB, the other frees, a ring of 256 between
 * live     as mixed, 4 KiB to 64 KiB, setup->size live a thread
 * streams  64 KiB, recorded on one of setup->size streams, in turn
 * foreign  the same with streams that the library does not know
 * An s at the end of the first three: the thread's own stream is recorded. */
#include "tests/bench/bench.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN = 65536, SHORT = 1024, RING = 256 };

typedef struct plan_step {
    uint32_t slot, bytes;
} plan_step;

typedef struct ring {
    _Alignas(64) _Atomic uint64_t head; /* written by the producer */
    _Alignas(64) _Atomic uint64_t tail; /* written by the consumer */
    _Alignas(64) void *slot[RING];
} ring;

typedef struct worker {
    _Alignas(64) void **live; /* owner thread */
    uint32_t *bytes;          /* owner thread: of the live ones */
    plan_step *plan;          /* const */
    uint64_t at;              /* owner thread: next step of the plan */
} worker;

typedef struct work {
    const bench_setup *setup;
    const bench_subject *subject;
    worker *worker;
    ring *ring;
    bool record;
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

static void mixed(void *context, unsigned thread, uint64_t ops)
{
    const work *w = context;
    const bench_subject *s = w->subject;
    worker *me = &w->worker[thread];

    for (uint64_t i = 0; i < ops; i++) {
        const plan_step *step = &me->plan[me->at++ % PLAN];

        if (me->live[step->slot] != NULL) {
            s->free(me->live[step->slot], me->bytes[step->slot]);
        }
        me->live[step->slot] = s->alloc(step->bytes);
        me->bytes[step->slot] = step->bytes;
        if (w->record) {
            s->record(me->live[step->slot], 0);
        }
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

static bool make_worker(const work *w, unsigned thread, unsigned slots,
                        bool small)
{
    worker *me = &w->worker[thread];
    uint64_t state = 12345 + (uint64_t)1000003 * thread;
    /* A short run comes no further, and its sizes would take longest. */
    const unsigned drawn = w->setup->ops <= SHORT ? 4 * SHORT : PLAN;

    me->live = own_lines(slots * sizeof *me->live);
    me->bytes = own_lines(slots * sizeof *me->bytes);
    me->plan = calloc(PLAN, sizeof *me->plan);
    if (me->live == NULL || me->bytes == NULL || me->plan == NULL) {
        return false;
    }
    for (unsigned i = 0; i < drawn; i++) {
        me->plan[i].slot = (uint32_t)(bench_random(&state) % slots);
        me->plan[i].bytes =
            small ? 4096 + (uint32_t)(bench_random(&state) % 16) * 4096
                  : (uint32_t)bench_log_uniform(&state, 4096, 10);
    }
    for (unsigned i = drawn; i < PLAN; i *= 2) {
        memcpy(&me->plan[i], me->plan, i * sizeof *me->plan);
    }
    return true;
}

/* A million live: the plan names 65,536 of them, the rest only lie there. */
static void fill(const work *w, unsigned slots)
{
    uint64_t state = 99;

    for (unsigned t = 0; t < w->setup->threads; t++) {
        for (unsigned i = 0; i < slots; i++) {
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
    bool planned, record;
} works[] = {
    {"hot64k", hot, false, false},      {"hot64ks", hot, false, true},
    {"mixed", mixed, true, false},      {"mixeds", mixed, true, true},
    {"xthread", xthread, false, false}, {"xthreads", xthread, false, true},
    {"live", mixed, true, false},       {"streams", streams, false, true},
    {"foreign", streams, false, true},
};

static bool make_ready(work *w, bool planned)
{
    const bench_setup *setup = w->setup;
    bool live = strcmp(setup->work, "live") == 0;
    unsigned slots = live ? setup->size : BENCH_SLOTS;

    w->worker = aligned_alloc(64, setup->threads * sizeof *w->worker);
    w->ring = aligned_alloc(64, (setup->threads / 2 + 1) * sizeof *w->ring);
    if (w->worker == NULL || w->ring == NULL) {
        return false;
    }
    memset(w->worker, 0, setup->threads * sizeof *w->worker);
    memset(w->ring, 0, (setup->threads / 2 + 1) * sizeof *w->ring);
    for (unsigned i = 0; planned && i < setup->threads; i++) {
        if (!make_worker(w, i, slots, live)) {
            return false;
        }
    }
    if (live) {
        fill(w, slots);
    }
    return true;
}

static void after_warm_up(void *context)
{
    work *w = context;

    if (w->subject->counts != NULL) {
        w->subject->counts(&w->warm);
    }
}

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
        result->warm_obtains = (double)w->warm.obtains;
        result->peak = (double)end.peak;
    }
}

bool bench_work_alloc(const bench_setup *setup, bench_result *result)
{
    const bench_subject *subject = bench_subject_find(setup->subject);
    size_t i = 0, all = sizeof works / sizeof *works;
    work w = {.setup = setup, .subject = subject};

    while (i < all && strcmp(works[i].name, setup->work) != 0) {
        i++;
    }
    if (subject == NULL || i == all ||
        (works[i].loop == xthread && setup->threads % 2 != 0) ||
        (works[i].record && subject->record == NULL) || !subject->open(setup)) {
        return false;
    }
    w.record = works[i].record;
    if (!make_ready(&w, works[i].planned)) {
        return false;
    }
    bench_measure(setup, works[i].loop, &w, subject->enter, after_warm_up,
                  result);
    count(&w, result);
    return true;
}
