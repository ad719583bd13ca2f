/* traced.c: see traced.h. */
#include "alloc/traced.h"

#include "alloc/page_map.h"

void wm_traced_alloc(warm_runtime *runtime, const void *pointer, size_t bytes)
{
    wm_block *block = wm_block_at(pointer);

    block->trace = wm_tracing_alloc(runtime, bytes);
}

void wm_traced_free(warm_runtime *runtime, const wm_block *block)
{
    if (block->trace != 0) { /* what is not page-locked is not traced */
        wm_tracing_free(runtime, block->trace);
    }
}

void wm_traced_use(warm_runtime *runtime, const wm_block *block,
                   warm_stream stream, enum wm_trace_op op)
{
    if (block->trace != 0) {
        wm_tracing_use(runtime, op, block->trace, stream);
    }
}
