/* cuda_memory.c: page-locked and device memory of the CUDA driver. */
#include "runtime/driver/cuda.h"

#if WM_HAVE_CUDA

/* Portable: every device may use the memory, also one whose context is made
 * later; so it does not matter which context the call runs in (row B13). */
warm_status wm_cuda_pinned_alloc(wm_driver *d, size_t bytes, void **pointer)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    void *got = NULL;
    warm_status status = wm_cuda_enter(c, &scope);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemHostAlloc, &got, bytes,
                              CU_MEMHOSTALLOC_PORTABLE);
    }
    if (status == WARM_OK) {
        *pointer = got;
    }
    return status;
}

warm_status wm_cuda_pinned_free(wm_driver *d, void *pointer, size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter(c, &scope);

    (void)bytes;
    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemFreeHost, pointer);
    }
    return status;
}

warm_status wm_cuda_pinned_register(wm_driver *d, void *pointer, size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter(c, &scope);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemHostRegister_v2, pointer, bytes,
                              CU_MEMHOSTREGISTER_PORTABLE);
    }
    return status;
}

warm_status wm_cuda_pinned_unregister(wm_driver *d, void *pointer)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter(c, &scope);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemHostUnregister, pointer);
    }
    return status;
}

warm_status wm_cuda_place(wm_driver *d, void *pointer, size_t bytes, int node)
{
    return wm_numa_place(&d->numa, pointer, bytes, node);
}

warm_status wm_cuda_node_of(wm_driver *d, void *pointer, size_t bytes,
                            int *node)
{
    *node = wm_numa_node_of(&d->numa, pointer, bytes);
    return WARM_OK;
}

warm_status wm_cuda_device_alloc(wm_driver *d, int device, size_t bytes,
                                 void **pointer)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    CUdeviceptr got = 0;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemAlloc_v2, &got, bytes);
    }
    if (status == WARM_OK) {
        *pointer = (void *)(uintptr_t)got;
    }
    return status;
}

warm_status wm_cuda_device_free(wm_driver *d, int device, void *pointer)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemFree_v2, (uintptr_t)pointer);
    }
    return status;
}

warm_status wm_cuda_device_memory(wm_driver *d, int device, size_t *free,
                                  size_t *total)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    size_t available = 0, all = 0;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK) {
        status = WM_CUDA_CALL(c, &scope, cuMemGetInfo_v2, &available, &all);
    }
    if (status == WARM_OK) {
        *free = available;
        *total = all;
    }
    return status;
}

warm_status wm_cuda_device_synchronize(wm_driver *d, int device)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK) {
        status = wm_cuda_leave(
            c, &scope,
            wm_cuda_result(c, c->cu.cuCtxSynchronize(), "cuCtxSynchronize"));
    }
    return status;
}
#endif
