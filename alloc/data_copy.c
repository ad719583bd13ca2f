/* data_copy.c: contents of memory that moves, in the order of a stream
 * (storage.h). What the host copies it copies once the stream has passed. Takes
 * no lock: allocators are the user's code. */
#include "alloc/allocators.h"

#include "alloc/space.h"
#include "runtime/base/status.h"

#include <string.h>

/* Waiting would break a capture, and those that are not to be disturbed. */
static warm_status check_waits(wm_driver *driver, warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = wm_driver_stream_capture(driver, stream, &capture);

    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = wm_fail(WARM_CAPTURE_ERROR,
                         "a stream cannot be waited for while it captures");
    }
    return status;
}

warm_status wm_data_wait(const warm_allocator *given, const void *memory,
                         warm_stream stream)
{
    const wm_block *block = wm_space_find(memory);
    warm_runtime *runtime = NULL;
    warm_status status = WARM_OK;

    if (block != NULL) {
        runtime = wm_space_of(block)->runtime;
    } else {
        status = wm_allocator_runtime(given, &runtime);
    }
    if (status != WARM_OK || (runtime == NULL && stream == NULL)) {
        return status;
    }
    if (runtime == NULL) {
        return wm_fail(WARM_UNSUPPORTED,
                       "no runtime lives whose stream %p could be", stream);
    }
    status = wm_runtime_check(runtime);
    if (status == WARM_OK) {
        status = check_waits(runtime->driver, stream);
    }
    return status == WARM_OK ? wm_driver_stream_await(runtime->driver, stream)
                             : status;
}

warm_status wm_data_record(const warm_allocator *allocator, const void *data,
                           warm_stream stream)
{
    warm_status before = wm_error_hush();
    warm_status status = allocator->record(allocator->context, data, stream);

    return wm_allocator_said(allocator, before, status, "recorded no stream");
}

/* Its target may be freed at once, so it is recorded before it is written. */
static warm_status copy_queued(const warm_allocator *allocator,
                               void *destination, const void *source,
                               size_t bytes, warm_stream stream)
{
    warm_status before, status = WARM_OK;

    if (allocator->record != NULL) {
        status = wm_data_record(allocator, destination, stream);
    }
    if (status != WARM_OK) {
        return status;
    }
    before = wm_error_hush();
    status =
        allocator->copy(allocator->context, destination, source, bytes, stream);
    return wm_allocator_said(allocator, before, status, "copied nothing");
}

warm_status wm_data_copy(const warm_allocator *given,
                         const warm_allocator *allocator, void *destination,
                         const void *source, size_t bytes, warm_stream stream)
{
    warm_status status;

    if (bytes == 0) {
        return WARM_OK;
    }
    if (allocator->copy != NULL) {
        return copy_queued(allocator, destination, source, bytes, stream);
    }
    if (allocator->memory == WARM_MEMORY_DEVICE) {
        return wm_fail(WARM_UNSUPPORTED,
                       "allocator %s cannot copy memory of a device",
                       allocator->name);
    }
    /* Work that is queued may write the source. */
    status = wm_data_wait(given, source, stream);
    if (status == WARM_OK) {
        memcpy(destination, source, bytes);
    }
    return status;
}
