/* cuda_range.c: ranges of addresses of the CUDA driver, through libcuda's
 * virtual memory: addresses are reserved once, memory is mapped into them.
 *
 * A mapping goes whole or not at all, so each unit is one of its own, mapped
 * and unmapped by a call for it alone. Its handle is released at once: memory
 * lives as long as it is mapped. None of these calls is tied to a stream, and
 * cuMemUnmap() waits for none. */
#include "runtime/driver/cuda.h"

#include "runtime/base/status.h"

#if WM_HAVE_CUDA

#define ONE(c, call, ...) wm_cuda_result((c), (c)->cu.call(__VA_ARGS__), #call)

/* Network cards may reach it directly, where the device has that. */
static CUmemAllocationProp memory_of(wm_cuda *c, int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    int direct = 0;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    if (c->cu.cuDeviceGetAttribute(
            &direct,
            CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
            device) == CUDA_SUCCESS &&
        direct) {
        prop.allocFlags.gpuDirectRDMACapable = 1;
    }
    return prop;
}

static warm_status unit_of(wm_cuda *c, int device, size_t *bytes)
{
    CUmemAllocationProp prop = memory_of(c, device);

    return ONE(c, cuMemGetAllocationGranularity, bytes, &prop,
               CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
}

warm_status wm_cuda_range_unit(wm_driver *d, int device, size_t *bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    int has = 0;
    size_t found = 0;
    warm_status status =
        ONE(c, cuDeviceGetAttribute, &has,
            CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);

    if (status == WARM_OK && has) {
        status = unit_of(c, device, &found);
    }
    if (status == WARM_OK) {
        *bytes = found;
    }
    return status;
}

warm_status wm_cuda_range_reserve(wm_driver *d, int device, size_t bytes,
                                  void **range)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    CUdeviceptr got = 0;
    size_t unit = 0;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status != WARM_OK) {
        return status;
    }
    status = unit_of(c, device, &unit);
    if (status == WARM_OK) {
        status = ONE(c, cuMemAddressReserve, &got, bytes, unit, 0, 0);
    }
    if (status == WARM_OK) {
        *range = (void *)(uintptr_t)got;
    }
    return wm_cuda_leave(c, &scope, status);
}

static warm_status map_unit(wm_cuda *c, const CUmemAllocationProp *prop,
                            CUdeviceptr at, size_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    warm_status status = ONE(c, cuMemCreate, &handle, bytes, prop, 0);

    if (status != WARM_OK) {
        return status;
    }
    status = ONE(c, cuMemMap, at, bytes, 0, handle, 0);
    (void)c->cu.cuMemRelease(handle);
    return status;
}

/* Up to the first that stays; done: bytes that went. */
static warm_status unmap_all(wm_cuda *c, CUdeviceptr at, size_t bytes,
                             size_t unit, size_t *done)
{
    warm_status status = WARM_OK;

    *done = 0;
    while (*done < bytes && status == WARM_OK) {
        status = ONE(c, cuMemUnmap, at + *done, unit);
        *done += status == WARM_OK ? unit : 0;
    }
    return status;
}

/* Where it fails nothing is mapped, but see *torn. */
static warm_status map_all(wm_cuda *c, int device, CUdeviceptr at, size_t bytes,
                           size_t unit, bool *torn)
{
    CUmemAllocationProp prop = memory_of(c, device);
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    warm_error cause = {.size = sizeof cause};
    warm_status status = WARM_OK;
    size_t done = 0, undone;

    while (done < bytes && status == WARM_OK) {
        status = map_unit(c, &prop, at + done, unit);
        done += status == WARM_OK ? unit : 0;
    }
    if (status == WARM_OK) {
        status = ONE(c, cuMemSetAccess, at, bytes, &access, 1);
    }
    if (status != WARM_OK) {
        warm_last_error(&cause);
        *torn = unmap_all(c, at, done, unit, &undone) != WARM_OK;
        wm_error_restore(&cause);
    }
    return status;
}

/* Where it fails all of it is mapped, but see *torn: what was there is not, but
 * nobody has it. */
static warm_status unmap_or_keep(wm_cuda *c, int device, CUdeviceptr at,
                                 size_t bytes, size_t unit, bool *torn)
{
    warm_error cause = {.size = sizeof cause};
    size_t done;
    warm_status status = unmap_all(c, at, bytes, unit, &done);

    if (status != WARM_OK && done > 0) {
        warm_last_error(&cause);
        *torn = map_all(c, device, at, done, unit, torn) != WARM_OK;
        wm_error_restore(&cause);
    }
    return status;
}

/* One of the two, for a part of a range. */
static warm_status
change(wm_driver *d, int device, CUdeviceptr at, size_t bytes, bool *torn,
       warm_status (*how)(wm_cuda *c, int device, CUdeviceptr at, size_t bytes,
                          size_t unit, bool *torn))
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    size_t unit = 0;
    bool is_torn = false;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status != WARM_OK) {
        return status;
    }
    status = unit_of(c, device, &unit);
    if (status == WARM_OK) {
        status = how(c, device, at, bytes, unit, &is_torn);
    }
    if (is_torn && torn != NULL) {
        *torn = true;
    }
    return wm_cuda_leave(c, &scope, status);
}

warm_status wm_cuda_range_commit(wm_driver *d, int device, void *range,
                                 size_t offset, size_t bytes, bool *torn)
{
    return change(d, device, (uintptr_t)range + offset, bytes, torn, map_all);
}

warm_status wm_cuda_range_decommit(wm_driver *d, int device, void *range,
                                   size_t offset, size_t bytes, bool *torn)
{
    return change(d, device, (uintptr_t)range + offset, bytes, torn,
                  unmap_or_keep);
}

warm_status wm_cuda_range_release(wm_driver *d, int device, void *range,
                                  size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);

    (void)device;
    return ONE(c, cuMemAddressFree, (uintptr_t)range, bytes);
}
#endif
