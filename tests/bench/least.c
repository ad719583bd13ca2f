/* least.c: see least.h. A buffer's event is recorded as soon as it is freed,
 * and it may be handed out again as soon as that can be known. */
#include "tests/bench/least.h"

#include <stdlib.h>

/* Numbers of buffers and streams are those of the trace, and one: 0 is none. */
typedef struct pending {
    uint32_t stream; /* that used it last */
    uint32_t next;   /* freed after it, of those that this stream used */
    uint64_t done;   /* freed: the uses of the stream at which it has passed */
} pending;

typedef struct queue {
    uint64_t uses;
    uint32_t head, tail;
} queue;

typedef struct count {
    const bench_trace *trace;
    unsigned lag;
    pending *of;   /* [buffer] */
    queue *stream; /* [stream] */
    uint64_t held;
} count;

static void use(count *c, uint32_t buffer, uint32_t stream)
{
    queue *q = &c->stream[stream];

    c->of[buffer + 1].stream = stream;
    q->uses++;
    while (q->head != 0 && c->of[q->head].done <= q->uses) {
        c->held -= c->trace->bytes[q->head - 1];
        q->head = c->of[q->head].next;
    }
}

static void give_back(count *c, const bench_step *s)
{
    pending *p = &c->of[s->buffer + 1];
    queue *q = &c->stream[p->stream];

    if (p->stream == 0 || c->lag == 0) {
        c->held -= c->trace->bytes[s->buffer];
        return;
    }
    p->done = q->uses + c->lag;
    if (q->head == 0) {
        q->head = s->buffer + 1;
    } else {
        c->of[q->tail].next = s->buffer + 1;
    }
    q->tail = s->buffer + 1;
}

static void step(count *c, const bench_step *s)
{
    if (bench_step_allocates(s)) {
        c->held += s->value;
    }
    if (s->op == WM_TRACE_PLACED) {
        use(c, s->buffer, s->stream + 1);
    } else if (s->op == WM_TRACE_USE) {
        use(c, s->buffer, (uint32_t)s->value + 1);
    } else if (s->op == WM_TRACE_FREE) {
        give_back(c, s);
    }
}

uint64_t bench_least(const bench_trace *trace, unsigned lag)
{
    count c = {.trace = trace, .lag = lag};
    uint64_t peak = 0;

    c.of = calloc(trace->buffers + 1, sizeof *c.of);
    c.stream = calloc(trace->streams + 1, sizeof *c.stream);
    for (size_t i = 0; c.of != NULL && c.stream != NULL && i < trace->steps;
         i++) {
        step(&c, &trace->step[i]);
        peak = c.held > peak ? c.held : peak;
    }
    free(c.of);
    free(c.stream);
    return peak;
}
