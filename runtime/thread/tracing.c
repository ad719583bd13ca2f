/* tracing.c: see tracing.h. */
#include "runtime/thread/tracing.h"

#include "runtime/base/status.h"
#include "runtime/thread/window.h"

static wm_trace_buffer *buffer_of(warm_runtime *runtime)
{
    warm_error before = {.size = sizeof before};
    wm_window *window = NULL;

    warm_last_error(&before);
    if (wm_window_get(runtime, &window) != WARM_OK) {
        wm_error_restore(&before);
        return wm_trace_shared(runtime->trace);
    }
    if (window->trace == NULL) {
        window->trace = wm_trace_enter(runtime->trace);
    }
    return window->trace;
}

uint32_t wm_tracing_alloc(warm_runtime *runtime, uint64_t bytes)
{
    return wm_trace_alloc(buffer_of(runtime), bytes);
}

void wm_tracing_free(warm_runtime *runtime, uint32_t block)
{
    wm_trace_put(buffer_of(runtime), WM_TRACE_FREE, block, 0);
}

void wm_tracing_use(warm_runtime *runtime, enum wm_trace_op op, uint32_t block,
                    warm_stream stream)
{
    wm_trace_buffer *buffer = buffer_of(runtime);

    wm_trace_put(buffer, op, block, wm_trace_stream(buffer, stream));
}

void wm_tracing_adopt(warm_runtime *runtime, warm_stream stream)
{
    wm_trace_buffer *buffer = buffer_of(runtime);

    wm_trace_put(buffer, WM_TRACE_ADOPT, 0, wm_trace_stream(buffer, stream));
}

void wm_tracing_retire(warm_runtime *runtime, warm_stream stream)
{
    wm_trace_buffer *buffer = buffer_of(runtime);
    uint32_t number = wm_trace_forget(buffer, stream);

    if (number != 0) {
        wm_trace_put(buffer, WM_TRACE_RETIRE, 0, number);
    }
}
