/* warmpool/testing.h: faults, held streams and a clock for tests; driver work
 * that bypasses the runtime; and a check of the runtime's records.
 *
 * For tests of programs that use warmpool, and of warmpool itself. While unused
 * it costs one relaxed load for each driver call, for each record that the
 * library allocates and for each reading of the clock. Any thread.
 */
#ifndef WARMPOOL_TESTING_H
#define WARMPOOL_TESTING_H

#include "warmpool/base.h"
#include "warmpool/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a driver function fail in its n-th call from now on, before it does
 * anything: with OUT_OF_MEMORY for pinned_alloc, pinned_register, device_alloc,
 * range_reserve and range_commit, else with DRIVER_ERROR. n is 1 for the next
 * call. call: a name from warm_testing_call_name(), such as
 * "event_record". n: 0 removes the fault. persistent: not 0: all later calls
 * fail too. Status: INVALID_ARGUMENT (no such name), RUNTIME_GONE. */
WARM_API warm_status warm_testing_fail(warm_runtime *runtime, const char *call,
                                       uint64_t n, int persistent);

/* Counts the calls of the named driver function, failures included.
 * Status: INVALID_ARGUMENT (no such name, count null), RUNTIME_GONE. */
WARM_API warm_status warm_testing_calls(warm_runtime *runtime, const char *call,
                                        uint64_t *count);

/* The name of the i-th driver function, or null past the last. */
WARM_API const char *warm_testing_call_name(int index);

/* Stops a stream before its next piece of work; work that is running finishes.
 * Status of hold, step and resume: also UNSUPPORTED (not the host device),
 * INVALID_STREAM, RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_testing_hold(warm_runtime *runtime,
                                       warm_stream stream);
/* Lets a held stream run its next count pieces of work, or all if there are
 * fewer, and waits for them. An event record is a piece of work. */
WARM_API warm_status warm_testing_step(warm_runtime *runtime,
                                       warm_stream stream, unsigned count);
/* Lets the stream run freely again. */
WARM_API warm_status warm_testing_resume(warm_runtime *runtime,
                                         warm_stream stream);

/* ---- the library's own records --------------------------------------------
 */

/* Compares every record of the runtime's memory and handles with its figures:
 * each block lies in one segment and overlaps no other; in each arena held =
 * live + cached + idle + pending + captured + lost; handles created and not
 * destroyed = idle + in use. Slow; locks one arena and its siblings at a time,
 * and calls no driver.
 * quiet: not 0: the caller guarantees that no other thread is inside a call on
 * the runtime; then the threads' own counts are compared as well.
 * Status: INTERNAL (the message names the first part that is wrong),
 * RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_testing_check(warm_runtime *runtime, int quiet);

/* Makes the n-th allocation from now on (1: the next) of memory for the
 * library's own records fail, in any runtime and thread. n: 0 removes the
 * fault. persistent: not 0: all later ones fail too. */
WARM_API void warm_testing_fail_metadata(uint64_t n, int persistent);

/* Returns how many such allocations the process has made so far, failures
 * included, and how many of them are not freed. Each output may be null. */
WARM_API void warm_testing_metadata(uint64_t *calls, int64_t *live);

/* Makes every runtime of the process read the time (nanoseconds, never less
 * than before) from clock instead of the system's monotonic clock; null
 * restores the system's clock. Any thread calls clock, also while it holds
 * locks; clock must not call the library. Background threads always sleep by
 * the system's clock. */
typedef uint64_t (*warm_testing_clock_fn)(void);
WARM_API void warm_testing_set_clock(warm_testing_clock_fn clock);

/* ---- bypassing the runtime ------------------------------------------------
 */

/* Work that a program would queue by calling CUDA directly, for tests on any
 * driver. warm_testing_capture_begin() begins a capture that is not announced
 * (CUDA: thread-local mode). warm_testing_capture_end() ends such a capture and
 * makes a graph of it. warm_testing_copy() copies bytes from source to
 * destination, memory of any kind, and records its stream on no block. Status:
 * as warm_capture_begin(), warm_capture_end() and warm_copy_async(), without
 * the checks of those functions themselves. */
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
