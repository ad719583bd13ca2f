/* trace_write.c: a trace as a file, through the library's own recorder. */
#include "tests/bench/steps.h"

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <stdlib.h>

/* The time of the step that is written. */
static uint64_t at;

static uint64_t made_clock(void)
{
    return at;
}

/* Streams are known to the recorder by their addresses. */
static warm_stream address(uint64_t stream)
{
    return (warm_stream)(uintptr_t)(4096 + 64 * stream);
}

static uint64_t number(const bench_trace *t, wm_trace_buffer *b,
                       uint64_t stream)
{
    return wm_trace_stream(b, stream == t->legacy ? NULL : address(stream));
}

static void put_alloc(const bench_trace *t, wm_trace_buffer *b,
                      const bench_step *s)
{
    wm_trace_record record = {.op = s->op, .bytes = s->value};

    if (s->op == WM_TRACE_PLACED) {
        record.place = s->place;
        record.pool = 2 * (uint64_t)s->pool + s->user;
        record.stream =
            s->stream != BENCH_NO_STREAM ? number(t, b, s->stream) : 0;
    }
    (void)wm_trace_alloc(b, record);
}

static void put(const bench_trace *t, wm_trace_buffer *b, const bench_step *s)
{
    wm_trace_record record = {.op = s->op};

    switch (s->op) {
    case WM_TRACE_ALLOC:
    case WM_TRACE_PLACED:
        put_alloc(t, b, s);
        return;
    case WM_TRACE_LEAVE:
        wm_trace_leave(b);
        return;
    case WM_TRACE_USE:
    case WM_TRACE_COPY:
        record.block = s->buffer + 1;
        record.stream = number(t, b, s->value);
        break;
    case WM_TRACE_ADOPT:
        record.place = s->place;
        record.stream = number(t, b, s->value);
        break;
    case WM_TRACE_RETIRE:
        record.stream = wm_trace_forget(b, address(s->value));
        break;
    case WM_TRACE_FREE:
        record.block = s->buffer + 1;
        break;
    case WM_TRACE_POOL:
        record.pool = 2 * (s->value + 1) + s->user;
        break;
    case WM_TRACE_OPS:
        return;
    }
    wm_trace_put(b, &record);
}

static bool write_all(const bench_trace *t, wm_trace *file)
{
    wm_trace_buffer **buffer = calloc(t->workers + 1, sizeof *buffer);
    char why[512];

    for (size_t i = 0; buffer != NULL && i < t->steps; i++) {
        uint32_t w = t->step[i].worker;

        if (buffer[w] == NULL) {
            buffer[w] = wm_trace_enter(file);
        }
        at = t->step[i].ns;
        put(t, buffer[w], &t->step[i]);
    }
    free(buffer);
    if (!wm_trace_exit(file, why, sizeof why)) {
        fprintf(stderr, "bench: %s\n", why);
        return false;
    }
    return buffer != NULL;
}

bool bench_trace_write(const bench_trace *trace, const char *path)
{
    wm_options options;
    warm_options given = {.size = sizeof given, .trace = path};
    wm_trace *file = NULL;
    bool written;

    if (wm_options_resolve(&given, NULL, &options) != WARM_OK ||
        wm_trace_open(&options, &file) != WARM_OK) {
        fprintf(stderr, "bench: %s\n", warm_last_error_message());
        return false;
    }
    at = 0;
    wm_clock_set(made_clock);
    written = write_all(trace, file);
    wm_trace_close(file);
    wm_clock_set(NULL);
    return written;
}
