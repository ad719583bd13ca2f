/* traced.h: what the spaces tell the trace (runtime/base/trace.h).
 *
 * Cold: each is called where runtime->trace was seen not to be null. */
#ifndef WM_TRACED_H
#define WM_TRACED_H

#include "alloc/block.h"
#include "runtime/thread/tracing.h"

/* pointer was just allocated, and is still the caller's alone. */
void wm_traced_alloc(warm_runtime *runtime, const void *pointer, size_t bytes)
    __attribute__((cold, noinline));
/* The block is FREEING: nobody else can get it yet. */
void wm_traced_free(warm_runtime *runtime, const wm_block *block)
    __attribute__((cold, noinline));
/* The stream was recorded on it; op: USE or COPY. */
void wm_traced_use(warm_runtime *runtime, const wm_block *block,
                   warm_stream stream, enum wm_trace_op op)
    __attribute__((cold, noinline));

#endif
