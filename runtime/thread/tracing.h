/* tracing.h: adds records of the calling thread to its runtime's trace.
 *
 * runtime->trace is null unless the option asked for one. Paths test that, or
 * runtime->told (arena_trace.h), and nothing else of tracing is on them. The
 * thread's buffer hangs on its window and ends with it; a thread that can get
 * no window any more (its last destructors run) shares one. Call without a
 * lock. */
#ifndef WM_TRACING_H
#define WM_TRACING_H

#include "runtime/base/trace.h"
#include "runtime/thread/control.h"

/* As wm_trace_alloc() and wm_trace_put(). stream: of an allocation on a device,
 * where it goes into the record. */
uint32_t wm_tracing_alloc(warm_runtime *runtime, wm_trace_record record,
                          warm_stream stream);
void wm_tracing_free(warm_runtime *runtime, uint32_t block);
/* op: USE or COPY. */
void wm_tracing_use(warm_runtime *runtime, enum wm_trace_op op, uint32_t block,
                    warm_stream stream);
/* The stream of a device, or of WM_DEVICE_UNKNOWN, is adopted; or it ends,
 * whether it was or not. */
void wm_tracing_adopt(warm_runtime *runtime, warm_stream stream, int device);
void wm_tracing_retire(warm_runtime *runtime, warm_stream stream);
/* The last reference to a private pool is gone. */
void wm_tracing_pool(warm_runtime *runtime, uint64_t number, bool user);

#endif
