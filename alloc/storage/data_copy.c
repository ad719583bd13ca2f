/* data_copy.c: copies between allocations in stream order (storage.h). Where
 * the host copies, it first waits for the stream. Takes no lock: allocators are
 * user code. */
#include "alloc/storage/allocators.h"

#include "alloc/space/space.h"
#include "runtime/base/status.h"

#include <string.h>

/* Waiting for a capturing stream would break the capture. */
static warm_status check_capture(wm_driver *driver, warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = wm_driver_stream_capture(driver, stream, &capture);

    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        status = wm_fail(WARM_CAPTURE_ERROR,
                         "a stream cannot be waited for while it captures");
    }
    return status;
}

/* Pins the runtime of the stream; null: no runtime is live. */
static warm_status pin_runtime(const warm_allocator *given, const void *memory,
                               warm_runtime **runtime)
{
    const wm_block *block = wm_space_find(memory);

    if (block == NULL) {
        return wm_allocator_runtime(given, runtime);
    }
    *runtime = wm_space_of(block)->group.runtime;
    return wm_runtime_pin(*runtime) ? WARM_OK : wm_runtime_refuse(*runtime);
}

static warm_status reach_pinned(warm_runtime *runtime, warm_stream stream,
                                bool wait)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = check_capture(runtime->driver, stream);
    }
    return status == WARM_OK && wait
               ? wm_driver_stream_await(runtime->driver, stream)
               : status;
}

/* Checks the stream and waits for it. The caller names no runtime, so another
 * thread may destroy it: it is pinned, also during the wait. */
static warm_status reach(const warm_allocator *given, const void *memory,
                         warm_stream stream, bool wait)
{
    warm_runtime *runtime;
    warm_status status = pin_runtime(given, memory, &runtime);

    if (status == WARM_OK && runtime != NULL) {
        status = reach_pinned(runtime, stream, wait);
        wm_runtime_unpin(runtime);
    } else if (status == WARM_OK && stream != NULL) {
        status = wm_fail(WARM_UNSUPPORTED,
                         "stream %p cannot be waited for: no runtime is left "
                         "that it could belong to",
                         stream);
    }
    return status;
}

static warm_status await(const warm_allocator *given, const void *memory,
                         warm_stream stream)
{
    return reach(given, memory, stream, true);
}

static warm_status can_wait(const warm_allocator *given, const void *memory,
                            warm_stream stream)
{
    return reach(given, memory, stream, false);
}

static warm_status record(const warm_allocator *allocator, const void *data,
                          warm_stream stream)
{
    warm_status before = wm_error_hush();
    warm_status status = allocator->record(allocator->context, data, stream);

    return wm_allocator_said(allocator, before, status, "recorded no stream");
}

/* Memory that the allocator does not know may still be a block of ours; memory
 * that neither knows is its owner's responsibility. allocator: checked, or
 * null. */
warm_status wm_data_use(const warm_allocator *allocator, const void *data,
                        warm_stream stream, bool *known)
{
    warm_error before = {.size = sizeof before};
    warm_status status;

    warm_last_error(&before);
    status = allocator != NULL && allocator->record != NULL
                 ? record(allocator, data, stream)
                 : WARM_NOT_FOUND;
    if (status == WARM_NOT_FOUND) {
        status = warm_record_stream(data, stream);
    }
    *known = status != WARM_NOT_FOUND;
    if (status != WARM_OK && *known) {
        return status;
    }
    wm_error_restore(&before); /* drops the NOT_FOUND */
    return WARM_OK;
}

/* The destination may be freed right after, so the stream is recorded first. */
static warm_status copy_queued(const warm_allocator *allocator,
                               void *destination, const void *source,
                               size_t bytes, warm_stream stream)
{
    warm_status before, status = WARM_OK;
    bool known;

    if (allocator->record != NULL && !wm_allocator_is_own(allocator)) {
        status = wm_data_use(allocator, destination, stream, &known);
    }
    if (status != WARM_OK) {
        return status;
    }
    before = wm_error_hush();
    status =
        allocator->copy(allocator->context, destination, source, bytes, stream);
    return wm_allocator_said(allocator, before, status, "copied nothing");
}

static warm_status can_copy(const warm_allocator *given,
                            const warm_allocator *allocator, const void *source,
                            size_t bytes, warm_stream stream)
{
    if (bytes == 0 || allocator->copy != NULL) {
        return WARM_OK;
    }
    if (allocator->memory == WARM_MEMORY_DEVICE) {
        return wm_fail(WARM_UNSUPPORTED,
                       "allocator %s cannot copy memory of a device",
                       allocator->name);
    }
    return can_wait(given, source, stream);
}

warm_status wm_data_copy(const warm_allocator *given,
                         const warm_allocator *allocator, void *destination,
                         const void *source, size_t bytes, warm_stream stream)
{
    warm_status status = can_copy(given, allocator, source, bytes, stream);

    if (status != WARM_OK || bytes == 0) {
        return status;
    }
    if (allocator->copy != NULL) {
        return copy_queued(allocator, destination, source, bytes, stream);
    }
    /* Queued work may write the source. */
    status = await(given, source, stream);
    if (status == WARM_OK) {
        memcpy(destination, source, bytes);
    }
    return status;
}

/* Whether freeing unknown old memory must wait for the stream. An allocator
 * that queues copies and has no record function orders its frees itself. */
static bool must_wait(const warm_allocator *allocator)
{
    return allocator->record != NULL || allocator->copy == NULL;
}

/* Records the stream on the old memory, which is freed next; a runtime's own
 * copy records it itself. */
static warm_status use_old(const warm_allocator *allocator, const void *old,
                           size_t bytes, warm_stream stream, bool *known)
{
    if (bytes > 0 && wm_allocator_is_own(allocator)) {
        *known = wm_space_find(old) != NULL;
        return WARM_OK;
    }
    return wm_data_use(allocator, old, stream, known);
}

/* All checks precede the first recording, so that a refused call records
 * nothing.
 */
warm_status wm_data_replace(const warm_allocator *given,
                            const warm_allocator *allocator, void *made,
                            const void *old, size_t bytes, warm_stream stream)
{
    bool known = true, wait;
    warm_status status;

    if (old == NULL) {
        return WARM_OK;
    }
    status = can_copy(given, allocator, old, bytes, stream);
    if (status == WARM_OK) {
        status = use_old(allocator, old, bytes, stream, &known);
    }
    wait = !known && must_wait(allocator);
    if (status == WARM_OK && wait) {
        status = can_wait(given, old, stream);
    }
    if (status == WARM_OK) {
        status = wm_data_copy(given, allocator, made, old, bytes, stream);
    }
    return status == WARM_OK && wait ? await(given, old, stream) : status;
}

warm_status warm_data_pointer_clone(const warm_allocator *allocator,
                                    const void *source, size_t bytes,
                                    warm_stream stream, warm_data_pointer *data)
{
    warm_allocator full;
    warm_data_pointer made;
    warm_status status = wm_data_check(data);

    if (status == WARM_OK && source == NULL && bytes > 0) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "source is null");
    }
    if (status == WARM_OK) {
        status = wm_allocator_in(allocator, &full);
    }
    if (status == WARM_OK) {
        status = wm_data_alloc(&full, bytes, stream, &made);
    }
    if (status != WARM_OK) {
        return status;
    }
    status = wm_data_copy(allocator, &full, made.data, source, bytes, stream);
    if (status != WARM_OK) {
        warm_data_pointer_free(&made);
        return status;
    }
    wm_data_out(data, &made);
    return WARM_OK;
}
