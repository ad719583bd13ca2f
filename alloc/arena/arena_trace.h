/* arena_trace.h: what the spaces tell the trace (runtime/base/trace.h) and the
 * history (history.h).
 *
 * Cold: each is called where runtime->told was seen to be set, which it is if
 * there is one of the two; or, by an arena, where it has a history. */
#ifndef WM_ARENA_TRACE_H
#define WM_ARENA_TRACE_H

#include "alloc/block/block.h"
#include "runtime/base/history.h"
#include "runtime/thread/tracing.h"

struct wm_request;

/* pointer was just allocated, and is still the caller's alone. stream: in whose
 * order, of a device's memory. */
void wm_traced_alloc(warm_runtime *runtime, const void *pointer, size_t bytes,
                     warm_stream stream) __attribute__((cold, noinline));
/* The block is FREEING: nobody else can get it yet. */
void wm_traced_free(warm_runtime *runtime, wm_block *block)
    __attribute__((cold, noinline));
/* The stream was recorded on it; op: USE or COPY. */
void wm_traced_use(warm_runtime *runtime, const wm_block *block,
                   warm_stream stream, enum wm_trace_op op)
    __attribute__((cold, noinline));

/* Nothing is queued on a FREEING block that had uses; or on PENDING ones,
 * chained by next_done: nobody else can get them yet. */
void wm_traced_unused(warm_runtime *runtime, wm_block *block)
    __attribute__((cold, noinline));
void wm_traced_done(warm_runtime *runtime, wm_block *chain)
    __attribute__((cold, noinline));

/* A segment has come, or goes; the caller holds lock arena. */
void wm_traced_segment(const wm_segment *segment, enum wm_history_op op)
    __attribute__((cold, noinline));

/* A request cannot be served. */
void wm_traced_refused(warm_runtime *runtime, const struct wm_request *request)
    __attribute__((cold, noinline));

#endif
