/* least.h: how little an allocator could hold in a trace, whatever it does. */
#ifndef BENCH_LEAST_H
#define BENCH_LEAST_H

#include "tests/bench/steps.h"

/* The peak of the bytes that are live or pending: freed, but fewer than lag
 * uses later of the stream that used them last. 0: no memory. */
uint64_t bench_least(const bench_trace *trace, unsigned lag);

#endif
