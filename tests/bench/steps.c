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
        t->devices = 1;
        t->legacy = BENCH_NO_STREAM;
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
        free(trace->device_of);
        free(trace->options);
        free(trace);
    }
}

bool bench_step_allocates(const bench_step *step)
{
    return step->op == WM_TRACE_ALLOC || step->op == WM_TRACE_PLACED;
}

static void count_place(bench_trace *t, const bench_step *step)
{
    int device = bench_place_device(step->place);

    if (device >= (int)t->devices) {
        t->devices = (uint32_t)device + 1;
    }
    if (step->op == WM_TRACE_PLACED) {
        t->on_device += wm_trace_is_device(step->place);
        t->shared += step->place >= WM_TRACE_SHARED;
        t->pageable += step->place == WM_TRACE_PAGEABLE;
        t->pools = step->pool > t->pools ? step->pool : t->pools;
    }
}

static void count_stream(bench_trace *t, uint64_t stream)
{
    if (stream >= t->streams) {
        t->streams = (uint32_t)stream + 1;
    }
}

static void count_block(bench_trace *t, const bench_step *step)
{
    if (bench_step_allocates(step)) {
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
    count_place(trace, &step);
    if ((wm_trace_fields(step.op) & WM_TRACE_HAS_STREAM) != 0) {
        if (step.op != WM_TRACE_PLACED) {
            count_stream(trace, step.value);
        } else if (step.stream != BENCH_NO_STREAM) {
            count_stream(trace, step.stream);
        }
    }
    return true;
}
