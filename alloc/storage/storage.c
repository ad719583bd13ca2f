/* storage.c: reference-counted memory (storage.h, rows D2 and D3).
 *
 * All strong references together count as one weak reference; the last weak one
 * frees the record. Takes no lock. */
#include "alloc/storage/allocators.h"

#include "alloc/space/space.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

enum { STRONG_ONES = 1, WEAK_ONE = 2 }; /* what each adds to weak */

struct warm_storage {
    _Atomic size_t strong;
    _Atomic size_t weak; /* 2 per weak reference, 1 for all strong ones */
    /* Accessed by holders of a strong reference, one thread at a time. */
    warm_data_pointer data; /* all fields */
    size_t bytes;
    warm_runtime *runtime;           /* whose block the data is in, or null */
    const warm_allocator *allocator; /* const; may be null */
};

/* ---- begin --------------------------------------------------------------- */

static warm_status make(const warm_data_pointer *data, size_t bytes,
                        const warm_allocator *allocator, warm_storage **storage)
{
    warm_storage *made = wm_meta_alloc(sizeof *made);

    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a storage");
    }
    /* Relaxed: no other thread has it yet. */
    atomic_store_explicit(&made->strong, 1, memory_order_relaxed);
    atomic_store_explicit(&made->weak, STRONG_ONES, memory_order_relaxed);
    made->data = *data;
    made->bytes = bytes;
    made->runtime = wm_data_runtime(data->data);
    made->allocator = allocator;
    *storage = made;
    return WARM_OK;
}

warm_status warm_storage_create(const warm_allocator *allocator, size_t bytes,
                                warm_stream stream, warm_storage **storage)
{
    warm_allocator full;
    warm_data_pointer data;
    warm_status status =
        wm_check_given(wm_allocator_in(allocator, &full), storage, "storage");

    if (status != WARM_OK ||
        (status = wm_data_alloc(&full, bytes, stream, &data)) != WARM_OK) {
        return status;
    }
    status = make(&data, bytes, allocator, storage);
    if (status != WARM_OK) {
        warm_data_pointer_free(&data);
    }
    return status;
}

/* Checks that the allocator allocates memory of the data's kind and device. */
static warm_status check_same(const warm_data_pointer *data,
                              const warm_allocator *allocator)
{
    warm_allocator full;
    warm_status status = wm_allocator_in(allocator, &full);

    if (status == WARM_OK &&
        (full.memory != data->memory || full.device != data->device)) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "the data is %s memory of device %d, that of "
                         "allocator %s is %s memory of device %d",
                         warm_memory_name(data->memory), data->device,
                         full.name, warm_memory_name(full.memory), full.device);
    }
    return status;
}

/* Checks a size against the block that holds the data, if it is ours. */
static warm_status check_bytes(const warm_data_pointer *data, size_t bytes)
{
    const wm_block *block = wm_space_find(data->data);
    warm_status status;
    size_t rest;

    if (data->data == NULL && bytes > 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a storage of %s needs memory, and the data pointer is "
                       "null",
                       wm_bytes(bytes).text);
    }
    if (block == NULL) {
        return WARM_OK;
    }
    status = wm_data_check_fork(wm_space_of(block)->group.runtime);
    if (status != WARM_OK) {
        return status;
    }
    rest = wm_block_usable_from(block, data->data);
    if (bytes > rest) {
        return wm_fail(
            WARM_INVALID_ARGUMENT,
            "a storage of %s at %p goes beyond its block by %s: that "
            "begins at %p",
            wm_bytes(bytes).text, data->data, wm_bytes(bytes - rest).text,
            (void *)block->base);
    }
    return WARM_OK;
}

warm_status warm_storage_wrap(warm_data_pointer *data, size_t bytes,
                              const warm_allocator *allocator,
                              warm_storage **storage)
{
    warm_data_pointer full;
    warm_status status = wm_data_in(data, &full);

    if (status != WARM_OK ||
        (allocator != NULL &&
         (status = check_same(&full, allocator)) != WARM_OK) ||
        (status = check_bytes(&full, bytes)) != WARM_OK ||
        (status = wm_check_given(WARM_OK, storage, "storage")) != WARM_OK) {
        return status;
    }
    status = make(&full, bytes, allocator, storage);
    if (status == WARM_OK) {
        *data = wm_data_empty();
    }
    return status;
}

/* ---- references ---------------------------------------------------------- */

void warm_storage_retain(warm_storage *storage)
{
    /* Relaxed: the caller holds a reference. */
    if (storage != NULL) {
        atomic_fetch_add_explicit(&storage->strong, 1, memory_order_relaxed);
    }
}

void warm_storage_weak_retain(warm_storage *storage)
{
    /* Relaxed: as above. */
    if (storage != NULL) {
        atomic_fetch_add_explicit(&storage->weak, WEAK_ONE,
                                  memory_order_relaxed);
    }
}

/* True: that was the last reference. Release by every thread and acquire by the
 * last: all accesses happen before the free. */
static bool drop(_Atomic size_t *count, size_t by)
{
    return atomic_fetch_sub_explicit(count, by, memory_order_acq_rel) == by;
}

static void drop_weak(warm_storage *storage, size_t by)
{
    if (drop(&storage->weak, by)) {
        wm_meta_free(storage);
    }
}

void warm_storage_weak_release(warm_storage *storage)
{
    if (storage != NULL) {
        drop_weak(storage, WEAK_ONE);
    }
}

void warm_storage_release(warm_storage *storage)
{
    if (storage != NULL && drop(&storage->strong, 1)) {
        warm_data_pointer_free(&storage->data);
        drop_weak(storage, STRONG_ONES);
    }
}

int warm_storage_lock(warm_storage *storage)
{
    size_t count;

    if (storage == NULL) {
        return 0;
    }
    count = atomic_load_explicit(&storage->strong, memory_order_relaxed);
    /* Acquire: the caller sees what other holders wrote. */
    while (count != 0) {
        if (atomic_compare_exchange_weak_explicit(
                &storage->strong, &count, count + 1, memory_order_acquire,
                memory_order_relaxed)) {
            return 1;
        }
    }
    return 0;
}

size_t warm_storage_use_count(const warm_storage *storage)
{
    /* Acquire: a caller that reads 1 sees what former holders wrote. */
    return storage == NULL
               ? 0
               : atomic_load_explicit(&storage->strong, memory_order_acquire);
}

size_t warm_storage_weak_count(const warm_storage *storage)
{
    return storage == NULL
               ? 0
               : atomic_load_explicit(&storage->weak, memory_order_acquire) /
                     WEAK_ONE;
}

/* ---- what it holds --------------------------------------------------------
 */

void *warm_storage_data(const warm_storage *storage)
{
    return storage == NULL || wm_data_check_fork(storage->runtime) != WARM_OK
               ? NULL
               : storage->data.data;
}

warm_status warm_storage_get_info(const warm_storage *storage,
                                  warm_storage_info *info)
{
    warm_storage_info all = {.size = sizeof all};
    warm_status status =
        wm_check_given(wm_sized_check(info, sizeof all, "warm_storage_info"),
                       storage, "storage");

    if (status != WARM_OK ||
        (status = wm_data_check_fork(storage->runtime)) != WARM_OK) {
        return status;
    }
    all.data = storage->data.data;
    all.bytes = storage->bytes;
    all.memory = storage->data.memory;
    all.device = storage->data.device;
    all.allocator = storage->allocator;
    wm_sized_out(info, &all, sizeof all);
    return WARM_OK;
}

warm_status warm_storage_record(const warm_storage *storage, warm_stream stream)
{
    warm_allocator full;
    warm_status status;

    if (storage == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "storage is null");
    }
    if (storage->data.data == NULL) {
        return WARM_OK;
    }
    if (storage->allocator == NULL) {
        return wm_data_use(NULL, storage->data.data, stream);
    }
    status = wm_allocator_in(storage->allocator, &full);
    return status == WARM_OK ? wm_data_use(&full, storage->data.data, stream)
                             : status;
}

warm_status warm_storage_exchange(warm_storage *storage,
                                  warm_data_pointer *data, size_t bytes)
{
    warm_runtime *runtime;
    warm_data_pointer full;
    warm_status status =
        wm_check_given(wm_data_in(data, &full), storage, "storage");

    if (status != WARM_OK ||
        (status = wm_data_check_fork(storage->runtime)) != WARM_OK ||
        (status = check_bytes(&full, bytes)) != WARM_OK) {
        return status;
    }
    runtime = wm_data_runtime(full.data);
    *data = storage->data;
    storage->data = full;
    storage->bytes = bytes;
    storage->runtime = runtime;
    return WARM_OK;
}
