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

static void put(wm_trace_buffer *b, const bench_step *s)
{
    switch (s->op) {
    case WM_TRACE_ALLOC:
        (void)wm_trace_alloc(b, s->value);
        break;
    case WM_TRACE_USE:
    case WM_TRACE_COPY:
    case WM_TRACE_ADOPT:
        wm_trace_put(b, s->op, s->buffer + 1,
                     wm_trace_stream(b, address(s->value)));
        break;
    case WM_TRACE_RETIRE:
        wm_trace_put(b, s->op, 0, wm_trace_forget(b, address(s->value)));
        break;
    case WM_TRACE_FREE:
        wm_trace_put(b, s->op, s->buffer + 1, 0);
        break;
    case WM_TRACE_LEAVE:
        wm_trace_leave(b);
        break;
    }
}

static bool write_all(const bench_trace *t, wm_trace *file)
{
    wm_trace_buffer **buffer = calloc(t->workers + 1, sizeof *buffer);

    for (size_t i = 0; buffer != NULL && i < t->steps; i++) {
        uint32_t w = t->step[i].worker;

        if (buffer[w] == NULL) {
            buffer[w] = wm_trace_enter(file);
        }
        at = t->step[i].ns;
        put(buffer[w], &t->step[i]);
    }
    free(buffer);
    return wm_trace_exit(file) && buffer != NULL;
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
