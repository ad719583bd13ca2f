/* play.h: a trace played on a subject, by threads that take turns, so that
 * every subject sees the same order. The library's clock is the trace's: what
 * it does when something is old it does in every run at the same step. */
#ifndef BENCH_PLAY_H
#define BENCH_PLAY_H

#include "tests/bench/bench.h"
#include "tests/bench/steps.h"

typedef struct bench_play {
    const bench_trace *trace;
    const bench_subject *subject; /* open already */
    size_t steps;                 /* of the trace, to be played */
    bool own;   /* streams are the threads' own (0), else 1, 2, … */
    bool alone; /* one thread plays all */
} bench_play;

/* The time of the step that is played: nanoseconds. */
uint64_t bench_play_clock(void);

/* False, with a line on standard error, if there are no threads or memory for
 * it. result: ns and driver calls, a block and a free; bytes. */
bool bench_play_all(const bench_play *play, bench_result *result);

#endif
