/* warmpool/testing.h: make a driver fail, a host stream wait and time pass, on
 * purpose; work that the runtime is not told of; and a walk over its records.
 *
 * For tests of programs that use warmpool, and of warmpool itself. Costs one
 * relaxed load a driver call, a record of the library's own and a look at the
 * clock while not used. Any thread.
 */
#ifndef WARMPOOL_TESTING_H
#define WARMPOOL_TESTING_H

#include "warmpool/base.h"
#include "warmpool/device.h"

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

/* ---- the library's own records --------------------------------------------
 */

/* Walks every record of the runtime's memory and handles and compares them
 * with its figures: blocks lie in one segment each and do not overlap; of each
 * arena held = live + cached + idle + pending + captured + lost; handles made =
 * idle + in use. quiet not 0: the caller promises that no other thread is
 * inside a call on the runtime; what threads count for themselves is compared
 * as well then. Slow; locks one arena and its siblings at a time, and calls no
 * driver.
 * Status: INTERNAL (the message names the first part that is wrong),
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_testing_check(warm_runtime *runtime, int quiet);

/* From now on the n-th allocation (1 = the next) of memory for the library's
 * own records fails, in whichever runtime and thread: that one alone, or all
 * from then on (persistent not 0). n 0 takes the fault away. */
WARM_API void warm_testing_fail_metadata(uint64_t n, int persistent);

/* How many such allocations were asked for so far, failures included, and how
 * many are not freed; of the whole process. Each output may be null. */
WARM_API void warm_testing_metadata(uint64_t *calls, int64_t *live);

/* Every runtime of the process takes the time (nanoseconds, never less than
 * before) from clock instead of the system's monotonic clock; null: from that
 * again. clock is called by any thread, also inside of locks, and calls nothing
 * of the library. Background threads sleep by the system's clock all the same.
 */
typedef uint64_t (*warm_testing_clock_fn)(void);
WARM_API void warm_testing_set_clock(warm_testing_clock_fn clock);

/* ---- past the runtime -----------------------------------------------------
 */

/* What a program does with CUDA itself, so that a test can do it on every
 * driver. The capture is not announced (CUDA: thread-local mode); the copy
 * (bytes from source to destination, memory of any kind) records its stream on
 * no block. Status: as warm_capture_begin(), warm_capture_end() and
 * warm_copy_async(), but for what those refuse themselves. */
WARM_API warm_status warm_testing_capture_begin(warm_runtime *runtime,
                                                warm_stream stream);
WARM_API warm_status warm_testing_capture_end(warm_runtime *runtime,
                                              warm_stream stream,
                                              warm_graph *graph);
WARM_API warm_status warm_testing_copy(warm_runtime *runtime, void *destination,
                                       const void *source, size_t bytes,
                                       warm_stream stream);

#ifdef __cplusplus
}
#endif
#endif
