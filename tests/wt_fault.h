/* wt_fault.h: one flow is played for n = 1, 2, …, each time with the n-th call
 * of something failing, until it passes without meeting the fault. */
#ifndef WT_FAULT_H
#define WT_FAULT_H

#include "wt.h"

typedef struct wt_flow {
    void (*begin)(uint64_t n); /* makes *runtime */
    void (*play)(void);
    void (*end)(void); /* asserts, and ends it */
    warm_runtime **runtime;
    uint64_t most;  /* calls of one name that a flow may make */
    uint64_t every; /* 1: every n, 3: every third */
} wt_flow;

/* How many functions a driver has. */
static inline int wt_driver_calls(void)
{
    int count = 0;

    while (warm_testing_call_name(count) != NULL) {
        count++;
    }
    return count;
}

/* Under sanitizers, one in a few of those. */
static inline uint64_t wt_fault_stride(const wt_flow *flow)
{
    return flow->every * (20 / wt_scaled(20));
}

/* A call of the driver by its name; persistent: from the n-th on. */
static inline void wt_fail_every_call(const wt_flow *flow, const char *call,
                                      int persistent)
{
    uint64_t calls = 0;

    for (uint64_t n = 1; n < flow->most; n += wt_fault_stride(flow)) {
        flow->begin(n);
        wt_ok(warm_testing_fail(*flow->runtime, call, n, persistent));
        flow->play();
        wt_ok(warm_testing_fail(*flow->runtime, call, 0, 0));
        wt_ok(warm_testing_calls(*flow->runtime, call, &calls));
        flow->end();
        if (n > calls) {
            return;
        }
    }
    ck_abort_msg("%s is called more than %lu times", call,
                 (unsigned long)flow->most);
}

/* An allocation of a record. */
static inline void wt_fail_every_record(const wt_flow *flow, bool persistent)
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n < 2; n++) {
        uint64_t before;

        flow->begin(n);
        before = wt_metadata_calls();
        flow->play();
        before = wt_metadata_calls() - before;
        calls = calls > before ? calls : before;
        flow->end();
    }
    ck_assert_uint_gt(calls, 10);
    for (uint64_t n = 1; n <= calls; n += wt_fault_stride(flow)) {
        flow->begin(n);
        warm_testing_fail_metadata(n, persistent);
        flow->play();
        warm_testing_fail_metadata(0, 0);
        flow->end();
    }
}

#endif
