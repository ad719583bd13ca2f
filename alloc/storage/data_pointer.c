/* data_pointer.c: pointers with a context and a deleter, and calls of
 * allocators (storage.h, rows D1 and D4). Takes no lock. */
#include "alloc/storage/allocators.h"

#include "alloc/space/space.h"
#include "runtime/base/bytes.h"
#include "runtime/base/process.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "warmpool/memory.h"

#include <string.h>

/* A data pointer owns memory: a struct of another size is refused. */
static warm_status check_data(const warm_data_pointer *data)
{
    warm_status status =
        wm_sized_check(data, sizeof *data, "warm_data_pointer");

    if (status == WARM_OK && data->size != sizeof *data) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "warm_data_pointer.size is %zu; set it to "
                         "sizeof(warm_data_pointer), here %zu",
                         data->size, sizeof *data);
    }
    return status;
}

warm_status wm_data_in(const warm_data_pointer *given, warm_data_pointer *data)
{
    warm_status status = check_data(given);

    if (status != WARM_OK) {
        return status;
    }
    *data = *given;
    if (!wm_memory_has_device(data->memory)) {
        data->device = WARM_NO_DEVICE;
    }
    return wm_memory_check(data->memory);
}

warm_runtime *wm_data_runtime(const void *data)
{
    const wm_block *block = wm_space_find(data);

    return block != NULL ? wm_space_of(block)->group.runtime : NULL;
}

warm_status wm_data_check_fork(warm_runtime *runtime)
{
    return runtime == NULL || runtime->generation == wm_process_generation()
               ? WARM_OK
               : wm_runtime_refuse(runtime);
}

void warm_data_pointer_free(warm_data_pointer *data)
{
    warm_data_pointer old;

    if (data == NULL || check_data(data) != WARM_OK) {
        return;
    }
    old = *data;
    /* Before the deleter, which may free the memory that holds the struct. */
    *data = wm_data_empty();
    if (old.deleter != NULL) {
        wm_data_delete(old.deleter, old.context);
    }
}

warm_status warm_data_pointer_move_context(warm_data_pointer *data,
                                           void **context,
                                           warm_deleter_fn *deleter)
{
    warm_status status = wm_check_given(check_data(data), context, "context");

    if (status != WARM_OK) {
        return status;
    }
    if (deleter == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "deleter is null");
    }
    status = wm_data_check_fork(wm_data_runtime(data->data));
    if (status != WARM_OK) {
        return status;
    }
    *context = data->context;
    *deleter = data->deleter;
    data->context = NULL;
    data->deleter = NULL;
    return WARM_OK;
}

/* ---- functions of an allocator ------------------------------------------- */

/* Returns the status of an allocator's function. If the function failed and set
 * no error, sets one that names the allocator. before: from wm_error_hush(),
 * called ahead of the function. */
static warm_status check_answer(const warm_allocator *allocator,
                                warm_status before, warm_status answer,
                                const char *what)
{
    if (wm_error_heard(before) || answer == WARM_OK) {
        return answer;
    }
    return wm_fail(answer, "allocator %s %s: %s", allocator->name, what,
                   warm_status_text(answer));
}

static warm_status call_alloc(const warm_allocator *allocator, size_t bytes,
                              warm_stream stream, warm_data_pointer *data)
{
    if (wm_allocator_is_own(allocator)) { /* no cancellation point */
        return allocator->alloc(allocator->context, bytes, stream, data);
    }
    WM_CANCEL_OFF();
    return allocator->alloc(allocator->context, bytes, stream, data);
}

warm_status wm_data_alloc(const warm_allocator *allocator, size_t bytes,
                          warm_stream stream, warm_data_pointer *data)
{
    warm_data_pointer made = {.size = sizeof made,
                              .memory = allocator->memory,
                              .device = allocator->device};

    if (bytes > 0) {
        warm_status before = wm_error_hush();
        warm_status status = call_alloc(allocator, bytes, stream, &made);

        status = check_answer(allocator, before, status, "returned no memory");
        if (status != WARM_OK) {
            return status;
        }
        made.size = sizeof made;
        if (made.data == NULL) {
            warm_data_pointer_free(&made);
            return wm_fail(WARM_UNAVAILABLE,
                           "allocator %s returned WARM_OK and no memory",
                           allocator->name);
        }
    }
    *data = made;
    return WARM_OK;
}

warm_status wm_data_use(const warm_allocator *allocator, const void *data,
                        warm_stream stream)
{
    warm_error before = wm_error_save();
    warm_status status = WARM_NOT_FOUND;

    if (allocator != NULL && allocator->record != NULL) {
        warm_status last = wm_error_hush();

        WM_CANCEL_OFF();
        status = allocator->record(allocator->context, data, stream);
        status = check_answer(allocator, last, status, "recorded no stream");
    }
    if (status == WARM_NOT_FOUND) {
        status = warm_record_stream(data, stream);
    }
    if (status != WARM_OK && status != WARM_NOT_FOUND) {
        return status;
    }
    wm_error_restore(&before); /* drops a NOT_FOUND */
    return WARM_OK;
}

/* Source and destination may be freed as soon as the copy is queued, so the
 * stream is recorded on both first. The copy function of a runtime's own
 * allocator records it itself. */
static warm_status queue_copy(const warm_allocator *allocator,
                              void *destination, const void *source,
                              size_t bytes, warm_stream stream)
{
    bool own = wm_allocator_is_own(allocator);
    warm_status status, before;

    if ((!own && allocator->record != NULL &&
         (status = wm_data_use(allocator, destination, stream)) != WARM_OK) ||
        (!own && (status = wm_data_use(NULL, source, stream)) != WARM_OK)) {
        return status;
    }
    before = wm_error_hush();
    WM_CANCEL_OFF();
    status =
        allocator->copy(allocator->context, destination, source, bytes, stream);
    return check_answer(allocator, before, status, "copied nothing");
}

/* Waits for the stream, whose queued work may write the source, then copies. */
static warm_status await_and_copy(warm_runtime *runtime,
                                  const warm_allocator *allocator,
                                  void *destination, const void *source,
                                  size_t bytes, warm_stream stream)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status;

    if (allocator->memory == WARM_MEMORY_DEVICE) {
        return wm_fail(WARM_UNSUPPORTED,
                       "allocator %s cannot copy memory of a device",
                       allocator->name);
    }
    status = wm_driver_stream_capture(runtime->driver, stream, &capture);
    if (status == WARM_OK && capture != WM_CAPTURE_NONE) {
        /* Waiting for the stream would break its capture. */
        return wm_fail(WARM_CAPTURE_ERROR,
                       "a stream cannot be waited for while it captures");
    }
    if (status == WARM_OK &&
        (status = wm_driver_stream_await(runtime->driver, stream)) == WARM_OK) {
        memcpy(destination, source, bytes);
    }
    return status;
}

warm_status warm_data_pointer_alloc(const warm_allocator *allocator,
                                    size_t bytes, warm_stream stream,
                                    warm_data_pointer *data)
{
    warm_allocator full;
    warm_status status = check_data(data);

    if (status != WARM_OK ||
        (status = wm_allocator_in(allocator, &full)) != WARM_OK) {
        return status;
    }
    return wm_data_alloc(&full, bytes, stream, data);
}

/* A copy that the source's block is too short for is refused before memory is
 * allocated for it, so that no figure changes. */
static warm_status check_source(const void *source, size_t bytes)
{
    const wm_block *block;
    size_t rest;

    if (source == NULL) {
        return bytes == 0 ? WARM_OK
                          : wm_fail(WARM_INVALID_ARGUMENT, "source is null");
    }
    block = wm_space_find(source);
    rest = block != NULL ? wm_block_usable_from(block, source) : bytes;
    return bytes <= rest
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "a clone of %s from %p: that goes beyond the block by "
                         "%s",
                         wm_bytes(bytes).text, source,
                         wm_bytes(bytes - rest).text);
}

warm_status warm_data_pointer_clone(warm_runtime *runtime,
                                    const warm_allocator *allocator,
                                    const void *source, size_t bytes,
                                    warm_stream stream, warm_data_pointer *data)
{
    warm_data_pointer made = wm_data_empty();
    warm_status status = wm_runtime_check(runtime);
    warm_allocator full;

    if (status != WARM_OK || (status = check_data(data)) != WARM_OK ||
        (status = wm_allocator_in(allocator, &full)) != WARM_OK ||
        (status = check_source(source, bytes)) != WARM_OK) {
        return status;
    }
    status = wm_data_alloc(&full, bytes, stream, &made);
    if (status == WARM_OK && bytes > 0) {
        status = full.copy != NULL
                     ? queue_copy(&full, made.data, source, bytes, stream)
                     : await_and_copy(runtime, &full, made.data, source, bytes,
                                      stream);
    }
    if (status != WARM_OK) {
        warm_data_pointer_free(&made);
        return status;
    }
    *data = made;
    return WARM_OK;
}

/* ---- plain pointers ------------------------------------------------------ */

static warm_status check_raw(const warm_allocator *allocator,
                             warm_allocator *full)
{
    warm_status status = wm_allocator_in(allocator, full);

    if (status == WARM_OK && full->raw_deleter == NULL) {
        status = wm_fail(WARM_UNSUPPORTED,
                         "allocator %s has no raw_deleter: its pointers have a "
                         "context, use warm_data_pointer_alloc()",
                         full->name);
    }
    return status;
}

warm_status warm_allocator_alloc(const warm_allocator *allocator, size_t bytes,
                                 warm_stream stream, void **pointer)
{
    warm_allocator full;
    warm_data_pointer made;
    warm_status status =
        wm_check_given(check_raw(allocator, &full), pointer, "pointer");

    if (status != WARM_OK) {
        return status;
    }
    status = wm_data_alloc(&full, bytes, stream, &made);
    if (status != WARM_OK) {
        return status;
    }
    if (bytes > 0 &&
        (made.context != made.data || made.deleter != full.raw_deleter)) {
        warm_data_pointer_free(&made);
        return wm_fail(WARM_UNSUPPORTED,
                       "allocator %s has a raw_deleter and returned a pointer "
                       "with another context or deleter",
                       full.name);
    }
    *pointer = made.data;
    return WARM_OK;
}

warm_status warm_allocator_free(const warm_allocator *allocator, void *pointer)
{
    warm_allocator full;
    warm_status status = check_raw(allocator, &full);

    return status == WARM_OK && pointer != NULL
               ? wm_allocator_free(&full, pointer)
               : status;
}
