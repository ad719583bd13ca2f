/* runtime_on.h: runtimes that the bench measures. */
#ifndef BENCH_RUNTIME_ON_H
#define BENCH_RUNTIME_ON_H

#include "tests/bench/bench.h"
#include "warmpool/warmpool.h"

/* A runtime on the bench driver, or on the host device; null, with a line on
 * standard error, if there is none. */
warm_runtime *bench_runtime(const bench_setup *setup, bool host);

#endif
