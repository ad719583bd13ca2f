/* range.c: the stand-in libcuda's virtual memory: ranges of the host device.
 *
 * What the real one insists on is noted as misuse: memory is mapped into
 * reserved addresses, all of a handle at once, and what is unmapped are whole
 * mappings, which the host device knows. A handle is a number of bytes, and
 * whose. */
#include "standin.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define ENTER(function) STANDIN_ENTER(CUresult, function)

struct range {
    struct range *next;
    CUdeviceptr base;
    size_t bytes;
    int device; /* of the host device: that which reserved it */
};

enum { DEVICE_SHIFT = 56 }; /* in a handle, above its bytes */

static _Atomic size_t create_most = SIZE_MAX;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* mutex */

void standin_create_most(size_t bytes)
{
    create_most = bytes;
}

static CUresult result(warm_status status)
{
    return status == WARM_OK              ? CUDA_SUCCESS
           : status == WARM_OUT_OF_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
                                          : CUDA_ERROR_INVALID_VALUE;
}

/* The range that holds a part; a copy, without bytes if there is none. */
static struct range find(CUdeviceptr at, size_t bytes)
{
    struct range found = {0};

    pthread_mutex_lock(&mutex);
    for (struct range *r = ranges; r != NULL; r = r->next) {
        if (at >= r->base && at - r->base < r->bytes &&
            bytes <= r->bytes - (at - r->base)) {
            found = *r;
        }
    }
    pthread_mutex_unlock(&mutex);
    if (found.bytes == 0) {
        standin_note_misuse("%zu bytes at %llx are not reserved", bytes,
                            (unsigned long long)at);
    }
    return found;
}

static size_t unit(wm_driver *d)
{
    size_t bytes = 0;

    (void)d->ops->range_unit(d, 0, &bytes);
    return bytes;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                       const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    wm_driver *d = standin_driver();

    ENTER(cuMemGetAllocationGranularity)
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    *granularity = unit(d);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                             CUdeviceptr addr, unsigned long long flags)
{
    wm_driver *d = standin_driver();
    struct range *made;
    void *base = NULL;
    warm_status status;

    ENTER(cuMemAddressReserve)
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    status = d->ops->range_reserve(d, standin_current_device(), size, &base);
    if (status != WARM_OK) {
        return result(status);
    }
    made = calloc(1, sizeof *made);
    made->base = (uintptr_t)base;
    made->bytes = size;
    made->device = standin_current_device();
    pthread_mutex_lock(&mutex);
    made->next = ranges;
    ranges = made;
    pthread_mutex_unlock(&mutex);
    *ptr = (uintptr_t)base;
    return CUDA_SUCCESS;
}

static void forget(CUdeviceptr base)
{
    struct range **link = &ranges;
    struct range *gone;

    pthread_mutex_lock(&mutex);
    while ((*link)->base != base) {
        link = &(*link)->next;
    }
    gone = *link;
    *link = gone->next;
    pthread_mutex_unlock(&mutex);
    free(gone);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    wm_driver *d = standin_driver();
    struct range range;
    warm_status status;

    ENTER(cuMemAddressFree)
    range = find(ptr, size);
    if (d == NULL || range.bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    status =
        d->ops->range_release(d, range.device, (void *)(uintptr_t)ptr, size);
    if (status == WARM_OK) {
        forget(ptr);
    }
    return result(status);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    wm_driver *d = standin_driver();
    size_t available = 0, total = 0;

    ENTER(cuMemCreate)
    standin_flagged("cuMemCreate", prop->allocFlags.gpuDirectRDMACapable);
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    (void)d->ops->device_memory(d, prop->location.id, &available, &total);
    if (size > available || size > create_most) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (size % unit(d) != 0) {
        standin_note_misuse("cuMemCreate of %zu bytes", size);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *handle =
        (CUmemGenericAllocationHandle)prop->location.id << DEVICE_SHIFT | size;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER(cuMemRelease)
    return CUDA_SUCCESS;
}

/* A range is of one device here, and has memory of no other. */
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    wm_driver *d = standin_driver();
    struct range range;

    ENTER(cuMemMap)
    range = find(ptr, size);
    if (d == NULL || range.bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (offset != 0 ||
        handle != ((CUmemGenericAllocationHandle)range.device << DEVICE_SHIFT |
                   size)) {
        standin_note_misuse("cuMemMap of %zu bytes: not the handle's", size);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return result(d->ops->range_commit(d, range.device,
                                       (void *)(uintptr_t)range.base,
                                       ptr - range.base, size, NULL));
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size,
                        const CUmemAccessDesc *desc, size_t count)
{
    struct range range;

    ENTER(cuMemSetAccess)
    range = find(ptr, size);
    if (range.bytes == 0 || count != 1 || desc->location.id != range.device ||
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        standin_note_misuse("cuMemSetAccess: not for its own device");
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    wm_driver *d = standin_driver();
    struct range range;
    CUresult code;

    ENTER(cuMemUnmap)
    range = find(ptr, size);
    if (d == NULL || range.bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    code = result(d->ops->range_decommit(d, range.device,
                                         (void *)(uintptr_t)range.base,
                                         ptr - range.base, size));
    if (code != CUDA_SUCCESS) {
        standin_note_misuse("cuMemUnmap of %zu bytes: no whole mappings", size);
    }
    return code;
}
