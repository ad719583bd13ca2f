/* tracing.c: see tracing.h. */
#include "runtime/thread/tracing.h"

#include "runtime/base/status.h"
#include "runtime/thread/window.h"

static wm_trace_buffer *buffer_of(warm_runtime *runtime)
{
    wm_window *window = NULL;

    if (wm_window_get_quietly(runtime, &window) != WARM_OK) {
        return wm_trace_shared(runtime->trace);
    }
    if (window->trace == NULL) {
        window->trace = wm_trace_enter(runtime->trace);
    }
    return window->trace;
}

static void put(wm_trace_buffer *buffer, wm_trace_record record)
{
    wm_trace_put(buffer, &record);
}

uint32_t wm_tracing_alloc(warm_runtime *runtime, wm_trace_record record,
                          warm_stream stream)
{
    wm_trace_buffer *buffer = buffer_of(runtime);

    if (wm_trace_is_device(record.place)) {
        record.stream = wm_trace_stream(buffer, stream);
    }
    return wm_trace_alloc(buffer, record);
}

void wm_tracing_free(warm_runtime *runtime, uint32_t block)
{
    put(buffer_of(runtime),
        (wm_trace_record){.op = WM_TRACE_FREE, .block = block});
}

void wm_tracing_use(warm_runtime *runtime, enum wm_trace_op op, uint32_t block,
                    warm_stream stream)
{
    wm_trace_buffer *buffer = buffer_of(runtime);

    put(buffer, (wm_trace_record){.op = op,
                                  .block = block,
                                  .stream = wm_trace_stream(buffer, stream)});
}

void wm_tracing_adopt(warm_runtime *runtime, warm_stream stream, int device)
{
    wm_trace_buffer *buffer = buffer_of(runtime);

    put(buffer,
        (wm_trace_record){
            .op = WM_TRACE_ADOPT,
            .stream = wm_trace_stream(buffer, stream),
            .place = device < 0 ? 0 : WM_TRACE_DEVICE + (unsigned)device});
}

void wm_tracing_retire(warm_runtime *runtime, warm_stream stream)
{
    wm_trace_buffer *buffer = buffer_of(runtime);
    uint32_t number = wm_trace_forget(buffer, stream);

    if (number != 0) {
        put(buffer, (wm_trace_record){.op = WM_TRACE_RETIRE, .stream = number});
    }
}

void wm_tracing_pool(warm_runtime *runtime, uint64_t number, bool user)
{
    put(buffer_of(runtime),
        (wm_trace_record){.op = WM_TRACE_POOL, .pool = 2 * number + user});
}
