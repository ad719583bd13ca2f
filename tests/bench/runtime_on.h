/* runtime_on.h: runtimes that the bench measures. */
#ifndef BENCH_RUNTIME_ON_H
#define BENCH_RUNTIME_ON_H

#include "tests/bench/bench.h"
#include "warmpool/warmpool.h"

/* A runtime on the bench driver (null), or on a device as options name it;
 * null, with a line on standard error, if there is none. */
warm_runtime *bench_runtime(const bench_setup *setup, const char *device);

/* What the subject warmpool, or warmpool-device, allocates from, once open. */
struct wm_arena *bench_arena(void);

#endif
