/* tracing.h: adds records of the calling thread to its runtime's trace.
 *
 * runtime->trace is null unless option trace names a file. Callers test that,
 * or wm_runtime_is_traced(): that test is the only cost while tracing is off.
 * The thread's buffer belongs to its window and ends with it; a thread that can
 * get no window any more (its last destructors run) uses the shared buffer.
 * Call without a lock. */
#ifndef WM_TRACING_H
#define WM_TRACING_H

#include "runtime/base/trace.h"
#include "runtime/thread/runtime_body.h"

/* wm_trace_alloc() and wm_trace_put() with the calling thread's buffer. stream:
 * recorded for device memory only. */
uint32_t wm_tracing_alloc(warm_runtime *runtime, wm_trace_record record,
                          warm_stream stream);
void wm_tracing_free(warm_runtime *runtime, uint32_t block);
/* op: USE or COPY. */
void wm_tracing_use(warm_runtime *runtime, enum wm_trace_op op, uint32_t block,
                    warm_stream stream);
/* wm_tracing_adopt(): a stream of a device (or WM_DEVICE_UNKNOWN) is adopted.
 * wm_tracing_retire(): a stream ends, adopted or not. */
void wm_tracing_adopt(warm_runtime *runtime, warm_stream stream, int device);
void wm_tracing_retire(warm_runtime *runtime, warm_stream stream);
/* The last reference to a private pool was released. */
void wm_tracing_pool(warm_runtime *runtime, uint64_t number, bool user);

#endif
