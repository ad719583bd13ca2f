/* range.c: the stand-in libcuda's virtual memory: ranges of the host device.
 *
 * What the real one insists on is noted as misuse: memory is mapped into
 * reserved addresses, all of a handle at once, and here into all of a range;
 * and what is unmapped are whole mappings. A handle is a number of bytes, and
 * whose. A copy is refused if the device that copies has no access to a range
 * that it touches. */
#include "standin.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define ENTER(function) STANDIN_ENTER(CUresult, function)

struct range {
    struct range *next;
    CUdeviceptr base;
    size_t bytes;
    int device;      /* of the host device: that which reserved it */
    unsigned access; /* mutex: a bit for each device */
};

enum { DEVICE_SHIFT = 56 }; /* in a handle, above its bytes */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* mutex */

static CUresult result(warm_status status)
{
    return status == WARM_OK              ? CUDA_SUCCESS
           : status == WARM_OUT_OF_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
                                          : CUDA_ERROR_INVALID_VALUE;
}

/* The range; a copy, without bytes if there is none. */
static struct range find(CUdeviceptr at, size_t bytes)
{
    struct range found = {0};

    pthread_mutex_lock(&mutex);
    for (struct range *r = ranges; r != NULL; r = r->next) {
        if (at == r->base && bytes == r->bytes) {
            found = *r;
        }
    }
    pthread_mutex_unlock(&mutex);
    if (found.bytes == 0) {
        standin_note_misuse("%zu bytes at %llx are no reserved range", bytes,
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

static bool is_of_device(const CUmemAllocationProp *prop)
{
    return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE &&
           prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           prop->location.id >= 0 &&
           prop->location.id < standin_device_count() &&
           prop->win32HandleMetaData == NULL &&
           prop->allocFlags.compressionType == 0 && prop->allocFlags.usage == 0;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                       const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    wm_driver *d = standin_driver();

    ENTER(cuMemGetAllocationGranularity)
    STANDIN_DEMAND(is_of_device(prop))
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    /* Of the least the host device has none. */
    *granularity =
        option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ? unit(d) : unit(d) / 2;
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
    STANDIN_DEMAND(flags == 0 && addr == 0 &&
                   (alignment & (alignment - 1)) == 0)
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
    STANDIN_DEMAND(flags == 0 && is_of_device(prop))
    standin_flagged("cuMemCreate", prop->allocFlags.gpuDirectRDMACapable);
    if (d == NULL) {
        return CUDA_ERROR_DEINITIALIZED;
    }
    (void)d->ops->device_memory(d, prop->location.id, &available, &total);
    if (size > available) {
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
    STANDIN_DEMAND(flags == 0)
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
    return result(d->ops->range_commit(d, range.device, (void *)(uintptr_t)ptr,
                                       size, NULL));
}

/* Adds devices to those that have access to a range; 0: takes it from all. */
static void set_access(CUdeviceptr base, unsigned devices)
{
    pthread_mutex_lock(&mutex);
    for (struct range *r = ranges; r != NULL; r = r->next) {
        if (r->base == base) {
            r->access = devices != 0 ? r->access | devices : 0;
        }
    }
    pthread_mutex_unlock(&mutex);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size,
                        const CUmemAccessDesc *desc, size_t count)
{
    struct range range;
    unsigned devices = 0;

    ENTER(cuMemSetAccess)
    STANDIN_DEMAND(count > 0)
    range = find(ptr, size);
    for (size_t i = 0; i < count; i++) {
        int device = desc[i].location.id;

        if (range.bytes == 0 ||
            desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
            (device != range.device &&
             !standin_are_peers(device, range.device))) {
            standin_note_misuse("cuMemSetAccess: for device %d", device);
            return CUDA_ERROR_INVALID_VALUE;
        }
        devices |= 1u << device;
    }
    set_access(ptr, devices);
    return CUDA_SUCCESS;
}

bool standin_reaches(void *stream, CUdeviceptr at, size_t bytes)
{
    unsigned device = 1u << standin_device_of(stream);
    bool reaches = true;

    pthread_mutex_lock(&mutex);
    for (struct range *r = ranges; r != NULL; r = r->next) {
        if (bytes > 0 && at + bytes > r->base && at < r->base + r->bytes) {
            reaches = reaches && (r->access & device) != 0;
        }
    }
    pthread_mutex_unlock(&mutex);
    return reaches;
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
    code = result(
        d->ops->range_decommit(d, range.device, (void *)(uintptr_t)ptr, size));
    if (code == CUDA_SUCCESS) {
        set_access(ptr, 0);
    } else {
        standin_note_misuse("cuMemUnmap of %zu bytes: no mapping", size);
    }
    return code;
}
