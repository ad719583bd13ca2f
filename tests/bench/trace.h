/* trace.h: two fixed sequences of allocations and frees by eight workers.
 *
 * mixed   8 workers × 64 slots, 100,000 buffers of 4 KiB to 4 MiB,
 *         log-uniform: a random worker frees a random slot and fills it anew
 * server  20,000 requests of 1 to 6 buffers: log-normal (median 150 KiB,
 *         sigma 0.9), 2 % Pareto (1.1) from 1 MiB to 32 MiB; 30 % outlive
 *         their request and are freed by another worker 1 to 64 steps later;
 *         three singles of 326.4, 180.8 and 286.4 MiB at 10, 40 and 70 % of
 *         the requests, held for 5 % of them
 * Seeded: the same on every machine (no mathematics library is used). */
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <stddef.h>
#include <stdint.h>

typedef struct bench_step {
    uint32_t buffer; /* number of the buffer, counted from 0 */
    uint32_t worker;
    uint64_t bytes; /* to allocate; 0: it is freed */
} bench_step;

typedef struct bench_trace {
    bench_step *step;
    size_t steps, room;
    uint32_t buffers;
    uint64_t *bytes;      /* of each buffer */
    uint64_t live, peak;  /* bytes requested: at the end, at the peak */
    uint64_t peak_common; /* as peak, but for the three singles */
} bench_trace;

/* name: "tmixed" or "tserver"; null if it is another, or no memory is left. */
bench_trace *bench_trace_make(const char *name);
void bench_trace_end(bench_trace *trace);

#endif
