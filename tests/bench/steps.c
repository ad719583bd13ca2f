/* steps.c: see steps.h. */
#include "tests/bench/steps.h"

#include <stdlib.h>

bench_trace *bench_trace_new(size_t steps, size_t buffers)
{
    bench_trace *t = calloc(1, sizeof *t);

    if (t != NULL) {
        t->step = calloc(steps + 1, sizeof *t->step);
        t->bytes = calloc(buffers + 1, sizeof *t->bytes);
        t->room = steps;
    }
    if (t != NULL && (t->step == NULL || t->bytes == NULL)) {
        bench_trace_end(t);
        t = NULL;
    }
    return t;
}

void bench_trace_end(bench_trace *trace)
{
    if (trace != NULL) {
        free(trace->step);
        free(trace->bytes);
        free(trace->options);
        free(trace);
    }
}

static void count_block(bench_trace *t, const bench_step *step)
{
    if (step->op == WM_TRACE_ALLOC) {
        t->buffers = step->buffer + 1;
        t->bytes[step->buffer] = step->value;
        t->live += step->value;
        t->peak = t->live > t->peak ? t->live : t->peak;
    } else if (step->op == WM_TRACE_FREE) {
        t->live -= t->bytes[step->buffer];
    }
}

bool bench_trace_add(bench_trace *trace, bench_step step)
{
    if (trace->steps == trace->room) {
        return false;
    }
    if (trace->steps > 0 && step.ns <= trace->step[trace->steps - 1].ns) {
        step.ns = trace->step[trace->steps - 1].ns + (step.ns == 0 ? 1000 : 0);
    }
    trace->step[trace->steps++] = step;
    count_block(trace, &step);
    if (step.worker >= trace->workers) {
        trace->workers = step.worker + 1;
    }
    if (step.op != WM_TRACE_ALLOC && step.op != WM_TRACE_FREE &&
        step.op != WM_TRACE_LEAVE && step.value >= trace->streams) {
        trace->streams = (uint32_t)step.value + 1;
    }
    return true;
}
