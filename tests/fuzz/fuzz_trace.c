/* fuzz_trace.c: the file that `make replay` reads. It is refused with a
 * message, or each step names a block, a worker and a stream that the trace
 * has. */
#include "fuzz/fuzz.h"

#include "tests/bench/steps.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_steps(const bench_trace *trace)
{
    for (size_t i = 0; i < trace->steps; i++) {
        const bench_step *step = &trace->step[i];
        unsigned has = wm_trace_fields(step->op);

        ck_assert((has & WM_TRACE_HAS_BLOCK) == 0 ||
                  step->buffer < trace->buffers);
        ck_assert(step->pool <= trace->pools);
        if (step->op == WM_TRACE_PLACED) {
            ck_assert(step->stream == BENCH_NO_STREAM ||
                      step->stream < trace->streams);
        } else if ((has & WM_TRACE_HAS_STREAM) != 0) {
            ck_assert(step->value < trace->streams);
        }
        ck_assert(step->worker < trace->workers);
        ck_assert(i == 0 || step->ns >= step[-1].ns);
        ck_assert(bench_place_device(step->place) < (int)trace->devices);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int file = memfd_create("trace", MFD_CLOEXEC);
    char path[64], error[512] = "";
    bench_trace *trace;

    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, data, bytes), (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    trace = bench_trace_read(path, error, sizeof error);
    close(file);
    if (trace == NULL) {
        ck_assert_str_ne(error, "");
        return 0;
    }
    check_steps(trace);
    bench_trace_end(trace);
    return 0;
}
