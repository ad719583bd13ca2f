/* made.h: fixed sequences of allocations and frees, drawn from a seed.
 *
 * tmixed   8 threads × 64 slots, 100,000 buffers of 4 KiB to 4 MiB,
 *          log-uniform: a random thread frees a random slot and fills it anew
 * tsmall   as tmixed, 64 B to 64 KiB
 * tlarge   as tmixed, 20,000 buffers of 1 to 64 MiB
 * tserver  20,000 requests of 1 to 6 buffers: log-normal (median 150 KiB,
 *          sigma 0.9), 2 % Pareto (1.1) from 1 MiB to 32 MiB; 30 % outlive
 *          their request and are freed by another thread 1 to 64 steps later;
 *          three singles of 326.4, 180.8 and 286.4 MiB at 10, 40 and 70 % of
 *          the requests, held for 5 % of them
 * tburst   a random thread allocates 1,000 buffers of 4 to 256 KiB, then
 *          frees them all
 * tphases  eight phases: 2,048 live buffers a thread of 4 to 64 KiB, then 64
 *          of 256 KiB to 4 MiB, and back; all are freed between two phases
 * trotate  as tmixed, but eight of 64 threads at a time are at work; then they
 *          free all, and the next eight begin
 * tleave   as trotate, but the eight exit, and their memory stays behind
 * An s at the end: each buffer is used by a stream of its thread.
 * The same on every machine: no mathematics library is used. Seed 0 makes the
 * traces that BASELINES were published for. */
#ifndef BENCH_MADE_H
#define BENCH_MADE_H

#include "tests/bench/bench.h"
#include "tests/bench/steps.h"

/* Null if there is no such work, or no memory. made: null for no difference.
 * Streams are numbered from 0, those of a thread next to each other. */
bool bench_trace_known(const char *name);
bench_trace *bench_trace_make(const char *name, const bench_made *made);

#endif
