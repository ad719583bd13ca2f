/* wt_fault.h: plays one flow for n = 1, 2, …, each time with the n-th driver
 * call or allocation of a record failing, until a flow is over before its fault
 * occurs. */
#ifndef WT_FAULT_H
#define WT_FAULT_H

#include "wt.h"

typedef struct wt_flow {
    void (*begin)(uint64_t n); /* makes *runtime */
    void (*play)(void);
    void (*end)(void); /* asserts, and destroys *runtime */
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

/* The step of n: larger under sanitizers (wt_scaled()). */
static inline uint64_t wt_fault_stride(const wt_flow *flow)
{
    return flow->every * (20 / wt_scaled(20));
}

/* Fails a driver call, by its name; persistent: all calls from the n-th on. */
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

/* Fails an allocation of the library's records. */
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
