/* warmpool/testing.h: make a driver fail, and a host stream wait, on purpose.
 *
 * For tests of programs that use warmpool, and of warmpool itself. Costs one
 * relaxed load a driver call while not used. Any thread.
 */
#ifndef WARMPOOL_TESTING_H
#define WARMPOOL_TESTING_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the n-th call (1 = the next) of the named driver function fails
 * with DRIVER_ERROR (pinned_alloc, pinned_register, device_alloc, range_reserve
 * and range_commit with OUT_OF_MEMORY) before it does anything: that call
 * alone, or all from then on. n 0 takes the fault away. Names are those of
 * warm_testing_call_name(), "event_record" for example. Status:
 * INVALID_ARGUMENT (no such name), RUNTIME_GONE. */
WARM_API warm_status warm_testing_fail(warm_runtime *runtime, const char *call,
                                       uint64_t n, int persistent);

/* How often the named driver function was called, failures included.
 * Status: INVALID_ARGUMENT (no such name, count null), RUNTIME_GONE. */
WARM_API warm_status warm_testing_calls(warm_runtime *runtime, const char *call,
                                        uint64_t *count);

/* The name of the i-th driver function, or null past the last. */
WARM_API const char *warm_testing_call_name(int index);

/* Host device only (else UNSUPPORTED): the stream stops before its next piece
 * of work; work that is running finishes. Status of the three: also
 * INVALID_STREAM, RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_testing_hold(warm_runtime *runtime,
                                       warm_stream stream);
/* Lets a held stream run its next count pieces of work, and waits for them to
 * finish (fewer if there are fewer). An event record is a piece of work. */
WARM_API warm_status warm_testing_step(warm_runtime *runtime,
                                       warm_stream stream, unsigned count);
/* Lets the stream run freely again. */
WARM_API warm_status warm_testing_resume(warm_runtime *runtime,
                                         warm_stream stream);

#ifdef __cplusplus
}
#endif
#endif
