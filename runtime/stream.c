/* stream.c: adopts streams of the program, and retires them before they are
 * destroyed; see warmpool/memory.h. Takes no lock itself. */
#include "runtime/runtime.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "handles/handle.h"
#include "runtime/base/status.h"
#include "runtime/thread/tracing.h"

#include <stdatomic.h>

void wm_runtime_retire(warm_runtime *runtime, warm_stream stream,
                       const wm_stream_info *info)
{
    /* Relaxed: see warm_handle_reserve_on(). */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_relaxed);
    /* The device of a capturing stream is unknown: on each device only the
     * workspaces of its graphs are found, by the stream's address. */
    for (int i = 0; i < runtime->devices; i++) {
        if (info->device == i || info->device == WM_DEVICE_UNKNOWN) {
            wm_binding_unbind_stream(runtime, i, stream);
            wm_workspaces_retire_stream(
                wm_kind_table_workspaces(runtime->kinds, i), stream, info->id);
        }
    }
    wm_device_spaces_retire(runtime, stream, info);
    wm_space_retire(&runtime->pinned->space, stream, info);
    if (runtime->trace != NULL) {
        wm_tracing_retire(runtime, stream);
    }
}

warm_status wm_runtime_retire_stream(warm_runtime *runtime, warm_stream stream)
{
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    warm_status status = wm_driver_stream_info(runtime->driver, stream, &info);

    if (status == WARM_OK) {
        wm_runtime_retire(runtime, stream, &info);
    }
    return status;
}

static warm_status adopt_known(warm_runtime *runtime, warm_stream stream,
                               const wm_stream_info *info)
{
    warm_status status =
        wm_timelines_adopt(&runtime->pinned->timelines, stream, info);

    /* Relaxed: as above. An earlier stream at the same address may have been
     * adopted and never retired. */
    atomic_fetch_add_explicit(&runtime->stream_epoch, 1, memory_order_relaxed);
    if (status == WARM_OK && runtime->trace != NULL) {
        wm_tracing_adopt(runtime, stream, info->device);
    }
    return status;
}

bool wm_runtime_knows_stream(warm_runtime *runtime, warm_stream stream)
{
    return wm_timelines_knows(&runtime->pinned->timelines, stream);
}

warm_status wm_runtime_adopt(warm_runtime *runtime, warm_stream stream)
{
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    warm_status status = wm_driver_stream_info(runtime->driver, stream, &info);

    return status == WARM_OK ? adopt_known(runtime, stream, &info) : status;
}

static warm_status adopt(warm_runtime *runtime, warm_stream stream)
{
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    warm_status status = wm_driver_stream_info(runtime->driver, stream, &info);

    if (status == WARM_OK && info.capture != WM_CAPTURE_NONE) {
        return wm_fail(WARM_CAPTURE_ERROR,
                       "stream %p cannot be adopted while it captures", stream);
    }
    return status == WARM_OK ? adopt_known(runtime, stream, &info) : status;
}

warm_status warm_stream_adopt(warm_runtime *runtime, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && wm_stream_is_default(stream)) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a default stream cannot be adopted: its name means "
                       "several streams");
    }
    return status != WARM_OK ? status : adopt(runtime, stream);
}

warm_status warm_stream_retire(warm_runtime *runtime, warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);

    return status != WARM_OK ? status
                             : wm_runtime_retire_stream(runtime, stream);
}
