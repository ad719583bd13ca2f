/* sim.h: a rule of memory economy, simulated: what it holds, and what it would
 * cost. No threads and no memory: all that counts is the order of a trace. */
#ifndef BENCH_SIM_H
#define BENCH_SIM_H

#include "tests/bench/steps.h"

/* X(key, default, meaning); numbers may end with K or M. */
#define BENCH_SIM_RULE(X)                                                      \
    X(slack, 0.2, "of the peak that may be held before others are asked")      \
    X(floor, 0x1p24, "bytes that may be held besides")                         \
    X(keep, 0.02, "of the peak that all threads' caches hold")                 \
    X(keep_floor, 0x3p20, "bytes that they hold besides")                      \
    X(ratio, 2, "a hit may be so many times as large as the request")          \
    X(big, 4, "a cache keeps blocks up to its part divided by this")           \
    X(depot, 1, "of the peak that is kept by class, unmerged")                 \
    X(depot_most, 65536, "bytes of the largest block there")                   \
    X(merge, 0.25, "of the depot that is merged when an arena has nothing")    \
    X(take, 0.5, "of all caches that one round of visits brings")              \
    X(idle, 4096, "operations after which a thread's cache is taken")          \
    X(steps, 8, "classes to a doubling")                                       \
    X(arena_ns, 100, "of a block in or out of an arena, and of its lock")

typedef struct bench_sim_rule {
#define BENCH_SIM_FIELD(key, value, meaning) double key;
    BENCH_SIM_RULE(BENCH_SIM_FIELD)
#undef BENCH_SIM_FIELD
} bench_sim_rule;

typedef struct bench_sim_result {
    double held;         /* bytes at the peak */
    double hits, visits; /* of 100, of 1,000 operations; second half */
    double ns;           /* an operation, by prices; second half */
} bench_sim_result;

/* "key=value,…" over the defaults; false, with a line on standard error, if a
 * key is unknown. Null: the defaults. */
bool bench_sim_rule_of(const char *text, bench_sim_rule *rule);

/* Buffers that a stream uses are done after lag later uses of it. One at a
 * time. */
bench_sim_result bench_sim(const bench_trace *trace, unsigned lag,
                           const bench_sim_rule *rule);

#endif
