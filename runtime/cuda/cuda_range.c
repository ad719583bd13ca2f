/* cuda_range.c: address ranges of the CUDA driver, by libcuda's virtual memory
 * management: addresses are reserved, and one physical allocation is mapped
 * into all of them: cuMemMap() cannot map a part of an allocation, and
 * cuMemUnmap() unmaps whole mappings only. These calls belong to no stream, and
 * cuMemUnmap() waits for none. */
#include "runtime/cuda/cuda.h"

#include "runtime/base/status.h"

#if WM_HAVE_CUDA

/* With GPUDirect RDMA for network cards, if the device supports it. */
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

    return WM_CUDA_RESULT(c, cuMemGetAllocationGranularity, bytes, &prop,
                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
}

warm_status wm_cuda_range_unit(wm_driver *d, int device, size_t *bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    int has = 0;
    size_t found = 0;
    warm_status status = WM_CUDA_RESULT(
        c, cuDeviceGetAttribute, &has,
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
    if ((status = unit_of(c, device, &unit)) == WARM_OK &&
        (status = WM_CUDA_RESULT(c, cuMemAddressReserve, &got, bytes, unit, 0,
                                 0)) == WARM_OK) {
        *range = (void *)(uintptr_t)got;
    }
    return wm_cuda_leave(c, &scope, status);
}

/* Releases the handle at once: the memory lives as long as it is mapped. */
static warm_status create_and_map(wm_cuda *c, int device, CUdeviceptr at,
                                  size_t bytes)
{
    CUmemAllocationProp prop = memory_of(c, device);
    CUmemGenericAllocationHandle handle = 0;
    warm_status status =
        WM_CUDA_RESULT(c, cuMemCreate, &handle, bytes, &prop, 0);

    if (status == WARM_OK) {
        status = WM_CUDA_RESULT(c, cuMemMap, at, bytes, 0, handle, 0);
        (void)c->cu.cuMemRelease(handle);
    }
    return status;
}

static CUmemAccessDesc access_by(int device)
{
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    return access;
}

/* Makes memory of a device accessible to every device that can be its peer:
 * CUDA refuses copies by a device that has no access, though it copies other
 * memory for any device. Needs no context of the peers. If CUDA refuses, the
 * memory serves its own device. */
static void admit_peers(wm_cuda *c, int device, CUdeviceptr at, size_t bytes)
{
    CUmemAccessDesc access[WM_NODE_DEVICES];
    size_t count = 0;

    for (int i = 0; i < c->base.devices && count < WM_NODE_DEVICES; i++) {
        int can = 0;

        if (i != device && !wm_driver_is_lost(&c->base, i) &&
            c->cu.cuDeviceCanAccessPeer(&can, i, device) == CUDA_SUCCESS &&
            can) {
            access[count++] = access_by(i);
        }
    }
    if (count > 0 &&
        c->cu.cuMemSetAccess(at, bytes, access, count) != CUDA_SUCCESS) {
        wm_driver_warn(&c->base,
                       "cuMemSetAccess failed for other devices: copies of "
                       "pausable memory between devices may be refused");
    }
}

/* Unmaps memory that could not be made accessible to its own device. */
static warm_status give_access(wm_cuda *c, int device, CUdeviceptr at,
                               size_t bytes, bool *torn)
{
    CUmemAccessDesc access = access_by(device);
    warm_status status;

    status = WM_CUDA_RESULT(c, cuMemSetAccess, at, bytes, &access, 1);
    if (status != WARM_OK) {
        WM_KEEP_ERROR();
        if (WM_CUDA_RESULT(c, cuMemUnmap, at, bytes) != WARM_OK &&
            torn != NULL) {
            *torn = true;
        }
    } else {
        admit_peers(c, device, at, bytes);
    }
    return status;
}

warm_status wm_cuda_range_commit(wm_driver *d, int device, void *range,
                                 size_t bytes, bool *torn)
{
    wm_cuda *c = wm_cuda_of(d);
    CUdeviceptr at = (uintptr_t)range;
    wm_cuda_scope scope;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status != WARM_OK) {
        return status;
    }
    if ((status = create_and_map(c, device, at, bytes)) == WARM_OK) {
        status = give_access(c, device, at, bytes, torn);
    }
    return wm_cuda_leave(c, &scope, status);
}

WM_CUDA_DEFINE(range_decommit,
               (wm_driver * d, int device, void *range, size_t bytes),
               wm_cuda_device_push(d, device, &scope), cuMemUnmap,
               (uintptr_t)range, bytes)

warm_status wm_cuda_range_release(wm_driver *d, int device, void *range,
                                  size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);

    (void)device;
    return WM_CUDA_RESULT(c, cuMemAddressFree, (uintptr_t)range, bytes);
}
#endif
