/* cuda_range.c: ranges of addresses of the CUDA driver, through libcuda's
 * virtual memory: addresses are reserved once, memory is mapped into them.
 *
 * A mapping goes whole or not at all, so each unit is one of its own. Its
 * handle is released at once: memory lives as long as it is mapped. None of
 * these calls is tied to a stream, and cuMemUnmap() waits for none. */
#include "runtime/driver/cuda.h"

#if WM_HAVE_CUDA

#define ONE(c, call, ...)                                                      \
    wm_cuda_api_result((c), (c)->cu.call(__VA_ARGS__), #call)

static CUmemAllocationProp memory_of(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

static warm_status unit_of(wm_cuda *c, int device, size_t *bytes)
{
    CUmemAllocationProp prop = memory_of(device);

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

static warm_status map_unit(wm_cuda *c, int device, CUdeviceptr at,
                            size_t bytes)
{
    CUmemAllocationProp prop = memory_of(device);
    CUmemGenericAllocationHandle handle = 0;
    warm_status status = ONE(c, cuMemCreate, &handle, bytes, &prop, 0);

    if (status != WARM_OK) {
        return status;
    }
    status = ONE(c, cuMemMap, at, bytes, 0, handle, 0);
    (void)c->cu.cuMemRelease(handle);
    return status;
}

static warm_status map_all(wm_cuda *c, int device, CUdeviceptr at, size_t bytes,
                           size_t unit)
{
    CUmemAccessDesc access = {.location = memory_of(device).location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    warm_status status = WARM_OK;
    size_t done = 0;

    while (done < bytes && status == WARM_OK) {
        status = map_unit(c, device, at + done, unit);
        done += status == WARM_OK ? unit : 0;
    }
    if (status == WARM_OK) {
        status = ONE(c, cuMemSetAccess, at, bytes, &access, 1);
    }
    if (status != WARM_OK && done > 0) {
        (void)c->cu.cuMemUnmap(at, done);
    }
    return status;
}

warm_status wm_cuda_range_commit(wm_driver *d, int device, void *range,
                                 size_t offset, size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    size_t unit = 0;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status != WARM_OK) {
        return status;
    }
    status = unit_of(c, device, &unit);
    if (status == WARM_OK) {
        status = map_all(c, device, (uintptr_t)range + offset, bytes, unit);
    }
    return wm_cuda_leave(c, &scope, status);
}

warm_status wm_cuda_range_decommit(wm_driver *d, int device, void *range,
                                   size_t offset, size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    return status != WARM_OK
               ? status
               : wm_cuda_leave(
                     c, &scope,
                     ONE(c, cuMemUnmap, (uintptr_t)range + offset, bytes));
}

warm_status wm_cuda_range_release(wm_driver *d, int device, void *range,
                                  size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);

    (void)device;
    return ONE(c, cuMemAddressFree, (uintptr_t)range, bytes);
}
#endif
