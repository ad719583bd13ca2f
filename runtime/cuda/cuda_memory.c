/* cuda_memory.c: page-locked and device memory of the CUDA driver. */
#include "runtime/cuda/cuda.h"

#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/status.h"

#if WM_HAVE_CUDA

/* Portable: every device can access the memory, even if its context is made
 * later; so a single context can own all of it. Mapped: at an address that
 * cuMemHostGetDevicePointer() returns. flags: more of them. */
static warm_status host_alloc(wm_cuda *c, size_t bytes, unsigned flags,
                              void **pointer)
{
    wm_cuda_scope scope;
    void *got = NULL;
    warm_status status = wm_cuda_enter_host(c, &scope);

    flags |= CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    if (status == WARM_OK &&
        (status = WM_CUDA_CALL(c, &scope, cuMemHostAlloc, &got, bytes,
                               flags)) == WARM_OK) {
        *pointer = got;
    }
    return status;
}

static warm_status host_free(wm_cuda *c, void *pointer)
{
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter_host(c, &scope);

    return status != WARM_OK ? status
                             : WM_CUDA_CALL(c, &scope, cuMemFreeHost, pointer);
}

static void put_shifted(wm_cuda *c, wm_cuda_shifted *shifted)
{
    wm_lock_acquire(&c->shifted_lock);
    /* Relaxed: read under the lock, or only compared with null. */
    shifted->next = atomic_load_explicit(&c->shifted, memory_order_relaxed);
    atomic_store_explicit(&c->shifted, shifted, memory_order_relaxed);
    wm_lock_release(&c->shifted_lock);
}

/* Removes the record of pointer (null: of any unused region) from the list.
 * Null if there is none: then CUDA itself returned pointer. */
static wm_cuda_shifted *take_shifted(wm_cuda *c, const void *pointer)
{
    wm_cuda_shifted *found, *before = NULL;

    if (atomic_load_explicit(&c->shifted, memory_order_relaxed) == NULL) {
        return NULL;
    }
    wm_lock_acquire(&c->shifted_lock);
    found = atomic_load_explicit(&c->shifted, memory_order_relaxed);
    while (found != NULL && found->pointer != pointer) {
        before = found;
        found = found->next;
    }
    if (found != NULL && before != NULL) {
        before->next = found->next;
    } else if (found != NULL) {
        atomic_store_explicit(&c->shifted, found->next, memory_order_relaxed);
    }
    wm_lock_release(&c->shifted_lock);
    return found;
}

/* Records a region of which no part can be used. The next call that frees
 * memory frees it: a free here would break captures. */
static warm_status keep_shifted(wm_cuda *c, void *pointer, void *given)
{
    wm_cuda_shifted *made = wm_meta_alloc(sizeof *made);

    if (made == NULL) {
        (void)host_free(c, given);
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory to note where pinned memory begins");
    }
    made->given = given;
    made->pointer = pointer;
    put_shifted(c, made);
    return WARM_OK;
}

static warm_status alloc_more(wm_cuda *c, size_t bytes, unsigned flags,
                              void **pointer)
{
    size_t page = wm_os_page();
    void *given = NULL;
    char *at;
    warm_status status = host_alloc(c, bytes + page, flags, &given);

    if (status != WARM_OK) {
        return status;
    }
    at = (char *)given + (page - (uintptr_t)given % page) % page;
    if (at != given) {
        status = keep_shifted(c, at, given);
    }
    if (status == WARM_OK) {
        *pointer = at;
    }
    return status;
}

/* At the start of a page of the machine, which CUDA's manual does not promise.
 */
static warm_status alloc_pages(wm_driver *d, size_t bytes, unsigned flags,
                               void **pointer)
{
    wm_cuda *c = wm_cuda_of(d);
    void *got = NULL;
    warm_status status;

    if (atomic_load_explicit(&c->shifts, memory_order_relaxed)) {
        return alloc_more(c, bytes, flags, pointer);
    }
    status = host_alloc(c, bytes, flags, &got);
    if (status == WARM_OK && (uintptr_t)got % wm_os_page() != 0) {
        atomic_store_explicit(&c->shifts, true, memory_order_relaxed);
        status = keep_shifted(c, NULL, got);
        return status == WARM_OK ? alloc_more(c, bytes, flags, pointer)
                                 : status;
    }
    if (status == WARM_OK) {
        *pointer = got;
    }
    return status;
}

warm_status wm_cuda_pinned_alloc(wm_driver *d, size_t bytes, void **pointer)
{
    return alloc_pages(d, bytes, 0, pointer);
}

warm_status wm_cuda_combined_alloc(wm_driver *d, size_t bytes, void **pointer)
{
    return alloc_pages(d, bytes, CU_MEMHOSTALLOC_WRITECOMBINED, pointer);
}

static warm_status free_shifted(wm_cuda *c, wm_cuda_shifted *shifted)
{
    warm_status status = host_free(c, shifted->given);

    if (status == WARM_OK) {
        wm_meta_free(shifted);
    } else {
        put_shifted(c, shifted);
    }
    return status;
}

/* Frees one unused region as well: there are several only if threads met the
 * first unaligned one at once. If CUDA fails, a later call tries again. */
warm_status wm_cuda_pinned_free(wm_driver *d, void *pointer, size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_shifted *shifted = take_shifted(c, pointer);
    warm_status status =
        shifted != NULL ? free_shifted(c, shifted) : host_free(c, pointer);

    (void)bytes;
    if (status == WARM_OK && (shifted = take_shifted(c, NULL)) != NULL) {
        WM_KEEP_ERROR();
        (void)free_shifted(c, shifted);
    }
    return status;
}

WM_CUDA_DEFINE(pinned_register, (wm_driver * d, void *pointer, size_t bytes),
               wm_cuda_enter_host(c, &scope), cuMemHostRegister_v2, pointer,
               bytes,
               CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

/* Every device maps the memory: all of them must be able to. */
static warm_status check_read_only(wm_cuda *c)
{
    for (int i = 0; i < c->base.devices; i++) {
        int can = 0;
        warm_status status = WM_CUDA_RESULT(
            c, cuDeviceGetAttribute, &can,
            CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, i);

        if (status != WARM_OK) {
            return status;
        }
        if (can == 0) {
            return wm_fail(WARM_UNSUPPORTED,
                           "device %d cannot read host memory that is "
                           "registered read-only",
                           i);
        }
    }
    return WARM_OK;
}

static warm_status register_read(wm_cuda *c, void *pointer, size_t bytes)
{
    wm_cuda_scope scope;
    warm_status status = wm_cuda_enter_host(c, &scope);

    return status != WARM_OK
               ? status
               : WM_CUDA_CALL(c, &scope, cuMemHostRegister_v2, pointer, bytes,
                              CU_MEMHOSTREGISTER_PORTABLE |
                                  CU_MEMHOSTREGISTER_DEVICEMAP |
                                  CU_MEMHOSTREGISTER_READ_ONLY);
}

warm_status wm_cuda_pinned_register_read(wm_driver *d, void *pointer,
                                         size_t bytes)
{
    wm_cuda *c = wm_cuda_of(d);
    warm_status status = check_read_only(c);

    return status == WARM_OK ? register_read(c, pointer, bytes) : status;
}

WM_CUDA_DEFINE(pinned_unregister, (wm_driver * d, void *pointer),
               wm_cuda_enter_host(c, &scope), cuMemHostUnregister, pointer)

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

/* Defines an op that is one call of libcuda in the device's context, whose
 * first argument gets an address. */
#define DEFINE_ADDRESS(op, parameters, out, call, ...)                         \
    warm_status wm_cuda_##op parameters                                        \
    {                                                                          \
        wm_cuda *c = wm_cuda_of(d);                                            \
        wm_cuda_scope scope;                                                   \
        CUdeviceptr got = 0;                                                   \
        warm_status status = wm_cuda_device_push(d, device, &scope);           \
                                                                               \
        if (status == WARM_OK &&                                               \
            (status = WM_CUDA_CALL(c, &scope, call, &got, __VA_ARGS__)) ==     \
                WARM_OK) {                                                     \
            *(out) = (void *)(uintptr_t)got;                                   \
        }                                                                      \
        return status;                                                         \
    }

DEFINE_ADDRESS(device_alloc,
               (wm_driver * d, int device, size_t bytes, void **pointer),
               pointer, cuMemAlloc_v2, bytes)
DEFINE_ADDRESS(device_address,
               (wm_driver * d, int device, void *pointer, void **address),
               address, cuMemHostGetDevicePointer_v2, pointer, 0)
/* Global: visible to all streams, of all devices that may touch it at once. */
DEFINE_ADDRESS(managed_alloc,
               (wm_driver * d, int device, size_t bytes, void **pointer),
               pointer, cuMemAllocManaged, bytes, CU_MEM_ATTACH_GLOBAL)

WM_CUDA_DEFINE(device_free, (wm_driver * d, int device, void *pointer),
               wm_cuda_device_push(d, device, &scope), cuMemFree_v2,
               (uintptr_t)pointer)

warm_status wm_cuda_device_memory(wm_driver *d, int device, size_t *free,
                                  size_t *total)
{
    wm_cuda *c = wm_cuda_of(d);
    wm_cuda_scope scope;
    size_t available = 0, all = 0;
    warm_status status = wm_cuda_device_push(d, device, &scope);

    if (status == WARM_OK &&
        (status = WM_CUDA_CALL(c, &scope, cuMemGetInfo_v2, &available, &all)) ==
            WARM_OK) {
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

    if (status != WARM_OK) {
        return status;
    }
    return wm_cuda_leave(
        c, &scope,
        wm_cuda_result(c, c->cu.cuCtxSynchronize(), "cuCtxSynchronize"));
}
#endif
