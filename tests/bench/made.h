/* made.h: two fixed sequences of allocations and frees by eight workers.
 *
 * mixed   8 workers × 64 slots, 100,000 buffers of 4 KiB to 4 MiB,
 *         log-uniform: a random worker frees a random slot and fills it anew
 * server  20,000 requests of 1 to 6 buffers: log-normal (median 150 KiB,
 *         sigma 0.9), 2 % Pareto (1.1) from 1 MiB to 32 MiB; 30 % outlive
 *         their request and are freed by another worker 1 to 64 steps later;
 *         three singles of 326.4, 180.8 and 286.4 MiB at 10, 40 and 70 % of
 *         the requests, held for 5 % of them
 * Seeded: the same on every machine (no mathematics library is used). */
#ifndef BENCH_MADE_H
#define BENCH_MADE_H

#include "tests/bench/steps.h"

/* name: "tmixed" or "tserver"; null if it is another, or no memory is left.
 * streams: every worker adopts a stream of its own (number: its own) and
 * records it on each buffer. */
bench_trace *bench_trace_make(const char *name, bool streams);
/* The same of a work: the name, with an s for streams. */
bench_trace *bench_trace_of(const char *work);

#endif
