/* arena_trace.h: events of blocks and segments for the trace
 * (runtime/base/trace.h) and the history (history.h).
 *
 * Cold: called only where the runtime has a trace or a history
 * (runtime->traced), or by an arena that has a history. */
#ifndef WM_ARENA_TRACE_H
#define WM_ARENA_TRACE_H

#include "alloc/block/block.h"
#include "runtime/base/history.h"
#include "runtime/thread/tracing.h"

struct wm_request;

/* pointer was just allocated and is known to the caller alone. stream: in whose
 * order, for device memory. */
void wm_traced_alloc(warm_runtime *runtime, const void *pointer, size_t bytes,
                     warm_stream stream) __attribute__((cold, noinline));
/* The block is FREEING: no other thread can allocate it yet. */
void wm_traced_free(warm_runtime *runtime, wm_block *block)
    __attribute__((cold, noinline));
/* The stream was recorded on the block; op: USE or COPY. */
void wm_traced_use(warm_runtime *runtime, const wm_block *block,
                   warm_stream stream, enum wm_trace_op op)
    __attribute__((cold, noinline));

/* wm_traced_unused(): a FREEING block that had uses is complete.
 * wm_traced_done(): PENDING blocks, chained by next_done, are complete. No
 * other thread can allocate them yet. */
void wm_traced_unused(warm_runtime *runtime, wm_block *block)
    __attribute__((cold, noinline));
void wm_traced_done(warm_runtime *runtime, wm_block *chain)
    __attribute__((cold, noinline));

/* Memory was obtained, or is going to be freed; the caller holds lock arena. */
void wm_traced_segment(const struct wm_arena *arena, const char *base,
                       size_t bytes, enum wm_history_op op)
    __attribute__((cold, noinline));

/* A request cannot be served. */
void wm_traced_refused(warm_runtime *runtime, const struct wm_request *request)
    __attribute__((cold, noinline));

#endif
