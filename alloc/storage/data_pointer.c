/* data_pointer.c: pointers with a context and a deleter, and calls of
 * allocators (storage.h, rows D1 and D4). Takes no lock: deleters and
 * allocators are user code. */
#include "alloc/storage/allocators.h"

#include "runtime/base/sized.h"
#include "runtime/base/status.h"

/* A data pointer owns memory: a struct of another size is refused. */
warm_status wm_data_check(const warm_data_pointer *data)
{
    warm_status status =
        wm_sized_check(data, sizeof *data, "warm_data_pointer");

    if (status == WARM_OK && data->size < sizeof *data) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "warm_data_pointer.size is %zu; set it to "
                         "sizeof(warm_data_pointer), "
                         "here %zu",
                         data->size, sizeof *data);
    }
    return status;
}

warm_status wm_data_in(const warm_data_pointer *given, warm_data_pointer *data)
{
    warm_status status = wm_data_check(given);

    if (status == WARM_OK) {
        wm_sized_in(data, given, sizeof *data);
        data->size = sizeof *data;
        status = wm_memory_check(data->memory);
    }
    if (status == WARM_OK && !wm_memory_has_device(data->memory)) {
        data->device = WARM_NO_DEVICE;
    }
    return status;
}

void wm_data_out(warm_data_pointer *given, const warm_data_pointer *data)
{
    wm_sized_out(given, data, sizeof *data);
}

void warm_data_pointer_free(warm_data_pointer *data)
{
    const warm_data_pointer empty = {.device = WARM_NO_DEVICE};
    warm_data_pointer old;

    if (data == NULL || wm_data_check(data) != WARM_OK) {
        return;
    }
    wm_sized_in(&old, data, sizeof old);
    /* Before the deleter, which may free the memory that holds the struct. */
    wm_data_out(data, &empty);
    if (old.deleter != NULL) {
        old.deleter(old.context);
    }
}

warm_status warm_data_pointer_move_context(warm_data_pointer *data,
                                           void **context,
                                           warm_deleter_fn *deleter)
{
    warm_status status = wm_data_check(data);

    if (status != WARM_OK) {
        return status;
    }
    if (context == NULL || deleter == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "%s is null",
                       context == NULL ? "context" : "deleter");
    }
    *context = data->context;
    *deleter = data->deleter;
    data->context = NULL;
    data->deleter = NULL;
    return WARM_OK;
}

void *warm_data_pointer_cast_context(const warm_data_pointer *data,
                                     warm_deleter_fn deleter)
{
    return data != NULL && wm_data_check(data) == WARM_OK &&
                   data->deleter == deleter
               ? data->context
               : NULL;
}

warm_status warm_data_pointer_exchange_deleter(warm_data_pointer *data,
                                               warm_deleter_fn expected,
                                               warm_deleter_fn desired,
                                               int *exchanged)
{
    warm_status status = wm_data_check(data);
    bool same;

    if (status != WARM_OK) {
        return status;
    }
    same = data->deleter == expected;
    if (same) {
        data->deleter = desired;
    }
    if (exchanged != NULL) {
        *exchanged = same;
    }
    return WARM_OK;
}

/* ---- through an allocator ----------------------------------------------- */

/* allocator: as wm_allocator_in() filled it. */
warm_status wm_data_alloc(const warm_allocator *allocator, size_t bytes,
                          warm_stream stream, warm_data_pointer *data)
{
    warm_data_pointer made = {.size = sizeof made,
                              .memory = allocator->memory,
                              .device = allocator->device};
    warm_status status = WARM_OK;

    if (bytes > 0) {
        warm_status before = wm_error_hush();

        status = allocator->alloc(allocator->context, bytes, stream, &made);
        status =
            wm_allocator_said(allocator, before, status, "returned no memory");
    }
    if (status == WARM_OK && bytes > 0 && made.data == NULL) {
        warm_data_pointer_free(&made);
        status = wm_fail(WARM_UNAVAILABLE,
                         "allocator %s answered WARM_OK and gave no memory",
                         allocator->name);
    }
    if (status == WARM_OK) {
        *data = made;
    }
    return status;
}

warm_status warm_data_pointer_alloc(const warm_allocator *allocator,
                                    size_t bytes, warm_stream stream,
                                    warm_data_pointer *data)
{
    warm_allocator full;
    warm_data_pointer made;
    warm_status status = wm_data_check(data);

    if (status == WARM_OK) {
        status = wm_allocator_in(allocator, &full);
    }
    if (status == WARM_OK) {
        status = wm_data_alloc(&full, bytes, stream, &made);
    }
    if (status == WARM_OK) {
        wm_data_out(data, &made);
    }
    return status;
}

static warm_status check_raw(const warm_allocator *allocator,
                             warm_allocator *full)
{
    warm_status status = wm_allocator_in(allocator, full);

    if (status == WARM_OK && full->raw_deleter == NULL) {
        status = wm_fail(WARM_UNSUPPORTED,
                         "allocator %s gives pointers with a context, where "
                         "plain ones were asked for",
                         full->name);
    }
    return status;
}

warm_status warm_allocator_alloc(const warm_allocator *allocator, size_t bytes,
                                 warm_stream stream, void **pointer)
{
    warm_allocator full;
    warm_data_pointer made;
    warm_status status = check_raw(allocator, &full);

    if (status == WARM_OK && pointer == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "pointer is null");
    }
    if (status == WARM_OK) {
        status = wm_data_alloc(&full, bytes, stream, &made);
    }
    if (status != WARM_OK) {
        return status;
    }
    if (bytes > 0 &&
        (made.context != made.data || made.deleter != full.raw_deleter)) {
        warm_data_pointer_free(&made);
        return wm_fail(WARM_UNSUPPORTED,
                       "allocator %s promises plain pointers and gave one that "
                       "has a context",
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
