/* work_trace.c: eight threads that take turns along a trace, so that every
 * subject sees the same order, and what it holds at the peak.
 *
 * A name's last s: every buffer's worker records its own stream on it. */
#include "tests/bench/bench.h"
#include "tests/bench/trace.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

typedef struct replay {
    const bench_trace *trace;
    const bench_subject *subject;
    bool record;
    size_t steps;  /* const: to be played */
    size_t at;     /* of the thread whose turn it is */
    void **buffer; /* of the thread whose turn it is */
    sem_t turn[BENCH_WORKERS];
} replay;

typedef struct player {
    replay *replay;
    uint32_t worker;
} player;

static void step(replay *r, const bench_step *s)
{
    if (s->bytes == 0) {
        r->subject->free(r->buffer[s->buffer], r->trace->bytes[s->buffer]);
        return;
    }
    r->buffer[s->buffer] = r->subject->alloc(s->bytes);
    if (r->record) {
        r->subject->record(r->buffer[s->buffer], 0);
    }
}

/* Hands the turn to whoever has the next step; at the end, to all. */
static void hand_over(replay *r)
{
    if (r->at < r->steps) {
        sem_post(&r->turn[r->trace->step[r->at].worker]);
        return;
    }
    for (unsigned i = 0; i < BENCH_WORKERS; i++) {
        sem_post(&r->turn[i]);
    }
}

static void *play(void *argument)
{
    player *p = argument;
    replay *r = p->replay;

    if (r->subject->enter != NULL) {
        r->subject->enter();
    }
    for (;;) {
        while (sem_wait(&r->turn[p->worker]) != 0) {
        }
        if (r->at == r->steps) {
            return NULL;
        }
        while (r->at < r->steps && r->trace->step[r->at].worker == p->worker) {
            step(r, &r->trace->step[r->at]);
            r->at++;
        }
        hand_over(r);
    }
}

static void play_all(replay *r)
{
    pthread_t thread[BENCH_WORKERS];
    player one[BENCH_WORKERS];

    for (uint32_t i = 0; i < BENCH_WORKERS; i++) {
        one[i].replay = r;
        one[i].worker = i;
        sem_init(&r->turn[i], 0, 0);
        if (pthread_create(&thread[i], NULL, play, &one[i]) != 0) {
            fprintf(stderr, "bench: no thread\n");
            exit(1);
        }
    }
    hand_over(r);
    for (unsigned i = 0; i < BENCH_WORKERS; i++) {
        pthread_join(thread[i], NULL);
    }
}

/* Bytes requested at the peak of what was played. */
static uint64_t peak_live(const replay *r)
{
    const bench_trace *t = r->trace;
    uint64_t live = 0, peak = 0;

    for (size_t i = 0; i < r->steps; i++) {
        const bench_step *s = &t->step[i];

        live += s->bytes;
        live -= s->bytes == 0 ? t->bytes[s->buffer] : 0;
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void count(const replay *r, uint64_t ns, bench_result *result)
{
    bench_counts counts = {0};
    double frees = (double)(r->trace->steps - r->trace->buffers);

    result->ns = result->min = result->max = (double)ns / r->trace->buffers;
    result->live = (double)peak_live(r);
    if (r->subject->counts != NULL) {
        r->subject->counts(&counts);
        result->peak = (double)counts.peak;
        result->records = (double)counts.records / frees;
        result->queries = (double)counts.queries / frees;
        result->others = (double)counts.others / frees;
        result->obtains = (double)counts.obtains;
    }
}

bool bench_work_trace(const bench_setup *setup, bench_result *result)
{
    const bench_subject *subject = bench_subject_find(setup->subject);
    char name[16] = "";
    replay r = {.subject = subject};
    bench_trace *trace;
    uint64_t start;

    strncpy(name, setup->work, sizeof name - 1);
    if (name[0] != '\0' && name[strlen(name) - 1] == 's') {
        name[strlen(name) - 1] = '\0';
        r.record = true;
    }
    trace = bench_trace_make(name);
    if (trace == NULL || subject == NULL ||
        (r.record && subject->record == NULL) || !subject->open(setup)) {
        bench_trace_end(trace);
        return false;
    }
    r.trace = trace;
    r.steps = setup->ops < trace->steps ? setup->ops : trace->steps;
    r.buffer = calloc(trace->buffers, sizeof *r.buffer);
    start = bench_now_ns();
    if (r.buffer != NULL) {
        play_all(&r);
        count(&r, bench_now_ns() - start, result);
    }
    free(r.buffer);
    bench_trace_end(trace);
    return r.buffer != NULL;
}
