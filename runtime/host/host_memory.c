/* host_memory.c: page-locked and device memory of the host device.
 *
 * Both are mappings of their own, so page-aligned and zeroed; device memory is
 * mapped from a file that other processes can map too (host_ipc.c). Pinned
 * pages are locked if the limit on locked memory (RLIMIT_MEMLOCK) allows it;
 * otherwise they are ordinary pages, counted in host.unlocked and reported when
 * the driver is closed. Option host_memory limits device memory, which is
 * backed in grains of 2 MiB. host_region.c frees. */
#include "runtime/host/host.h"

#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"

#include <errno.h>
#include <sys/mman.h>

/* Locks the pages, or counts them as unlocked. */
static void lock_pages(wm_host *host, wm_host_region *region)
{
    region->locked = mlock(region->pointer, region->bytes) == 0;
    if (!region->locked) {
        /* Relaxed: a count, tied to no other data. */
        atomic_fetch_add_explicit(&host->unlocked, region->bytes,
                                  memory_order_relaxed);
    }
}

/* Maps a pinned or device region and publishes it. No lock held. */
static warm_status map_region(wm_host *host, enum wm_host_region_kind kind,
                              int device, size_t bytes, void **pointer)
{
    wm_host_region *region = wm_meta_alloc(sizeof *region);
    size_t pages = wm_host_pages(host, bytes);
    int error = ENOMEM;
    void *mapped = MAP_FAILED;

    if (region != NULL && pages != 0) {
        mapped = kind == WM_HOST_DEVICE
                     ? wm_host_file_map(host, pages, region)
                     : mmap(NULL, pages, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        error = errno;
    }
    if (mapped == MAP_FAILED) {
        wm_meta_free(region);
        return wm_host_fail(
            WM_HOST_ERROR_MEMORY, "could not map %s of %s memory (errno %d)",
            wm_bytes(bytes).text, kind == WM_HOST_PINNED ? "pinned" : "device",
            error);
    }
    region->kind = kind;
    region->device = device;
    region->pointer = mapped;
    region->bytes = bytes;
    if (kind == WM_HOST_PINNED) {
        /* No child shares what work of a stream writes to. */
        (void)madvise(mapped, pages, MADV_DONTFORK);
        lock_pages(host, region);
    }
    return wm_host_region_publish(host, region, pointer);
}

/* Bytes that a region counts against the device's memory. As with a GPU's
 * driver, a large region counts whole grains; small ones share grains and count
 * their size. */
static size_t backed(size_t bytes)
{
    return bytes < WM_HOST_GRAIN
               ? bytes
               : (bytes + WM_HOST_GRAIN - 1) / WM_HOST_GRAIN * WM_HOST_GRAIN;
}

warm_status wm_host_region_release(wm_host *host, void *pointer,
                                   enum wm_host_region_kind kind,
                                   const char *call, const wm_host_region *like)
{
    wm_host_region *region;
    warm_status status;

    wm_host_lock(host);
    status = wm_host_unsafe_locked(host, call);
    if (status != WARM_OK) {
        goto out;
    }
    region = wm_host_find_locked(host, WM_HOST_REGION, pointer);
    if (region == NULL || region->kind != kind ||
        region->device != like->device ||
        (like->bytes != 0 && region->bytes != like->bytes)) {
        status = wm_host_fail(
            kind == WM_HOST_REGISTERED ? WM_HOST_ERROR_NOT_REGISTERED
                                       : WM_HOST_ERROR_POINTER,
            "%s: %p was not allocated by the matching call, or has been freed",
            call, pointer);
        goto out;
    }
    wm_host_remove_locked(host, WM_HOST_REGION, pointer);
    wm_host_region_unlink(&host->regions, region);
    host->registered -= kind == WM_HOST_REGISTERED;
    if (kind == WM_HOST_DEVICE) {
        host->device[region->device].used -= backed(region->bytes);
    }
    wm_host_region_bury_locked(host, region);
    wm_host_memory_reap_locked(host);

out:
    wm_host_unlock(host);
    return status;
}

warm_status wm_host_pinned_alloc(wm_driver *d, size_t bytes, void **pointer)
{
    wm_host *host = wm_host_of(d);
    warm_status status = wm_host_unsafe(host, "pinned_alloc");

    if (status != WARM_OK) {
        return status;
    }
    if (bytes == 0) {
        return wm_host_fail(WM_HOST_ERROR_VALUE, "pinned_alloc of 0 bytes");
    }
    return map_region(host, WM_HOST_PINNED, 0, bytes, pointer);
}

/* The host's memory is ordinary memory, as the processor caches it. */
warm_status wm_host_combined_alloc(wm_driver *d, size_t bytes, void **pointer)
{
    return wm_host_pinned_alloc(d, bytes, pointer);
}

warm_status wm_host_pinned_free(wm_driver *d, void *pointer, size_t bytes)
{
    wm_host_region like = {.bytes = bytes};

    return wm_host_region_release(wm_host_of(d), pointer, WM_HOST_PINNED,
                                  "pinned_free", &like);
}

/* Walks the list: registering is rare, and slow anyway. */
static bool overlaps_locked(const wm_host *host, const char *pointer,
                            size_t bytes)
{
    uintptr_t begin = (uintptr_t)pointer, end = begin + bytes;

    for (wm_host_region *r = host->regions; r != NULL; r = r->next) {
        uintptr_t first = (uintptr_t)r->pointer;

        if (begin < first + r->bytes && first < end) {
            return true;
        }
    }
    return false;
}

/* Walks the list, which programs without registered memory are spared. */
bool wm_host_region_cuts_locked(const wm_host *host, const void *pointer,
                                size_t bytes)
{
    uintptr_t begin = (uintptr_t)pointer, end = begin + bytes;
    bool cuts = false;

    if (host->registered == 0) {
        return false;
    }
    for (wm_host_region *r = host->regions; r != NULL && !cuts; r = r->next) {
        uintptr_t first = (uintptr_t)r->pointer, last = first + r->bytes;

        cuts = r->kind != WM_HOST_DEVICE && begin < last && first < end &&
               (begin < first || end > last);
    }
    return cuts;
}

static warm_status register_locked(wm_host *host, wm_host_region *region)
{
    if (overlaps_locked(host, region->pointer, region->bytes)) {
        return wm_host_fail(WM_HOST_ERROR_REGISTERED,
                            "cannot register %s at %p: they overlap memory "
                            "that is registered or allocated",
                            wm_bytes(region->bytes).text,
                            (void *)region->pointer);
    }
    if (!wm_host_add_locked(host, WM_HOST_REGION, region->pointer, region)) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY, "no memory to register %s",
                            wm_bytes(region->bytes).text);
    }
    wm_host_region_link(&host->regions, region);
    host->registered++;
    return WARM_OK;
}

warm_status wm_host_pinned_register(wm_driver *d, void *pointer, size_t bytes)
{
    wm_host *host = wm_host_of(d);
    warm_status status = wm_host_unsafe(host, "pinned_register");
    wm_host_region *region;

    if (status != WARM_OK) {
        return status;
    }
    if (pointer == NULL || bytes == 0) {
        return wm_host_fail(WM_HOST_ERROR_VALUE, "cannot register %s at %p",
                            wm_bytes(bytes).text, pointer);
    }
    region = wm_meta_alloc(sizeof *region);
    if (region == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY, "no memory to register %s",
                            wm_bytes(bytes).text);
    }
    region->kind = WM_HOST_REGISTERED;
    region->pointer = pointer;
    region->bytes = bytes;
    wm_host_lock(host);
    status = register_locked(host, region);
    wm_host_unlock(host);
    if (status == WARM_OK) {
        lock_pages(host, region);
    } else {
        wm_meta_free(region);
    }
    return status;
}

/* The device reads and writes by the host's own mapping. */
warm_status wm_host_pinned_register_read(wm_driver *d, void *pointer,
                                         size_t bytes)
{
    return wm_host_pinned_register(d, pointer, bytes);
}

warm_status wm_host_pinned_unregister(wm_driver *d, void *pointer)
{
    wm_host_region like = {0};

    return wm_host_region_release(wm_host_of(d), pointer, WM_HOST_REGISTERED,
                                  "pinned_unregister", &like);
}

warm_status wm_host_place(wm_driver *d, void *pointer, size_t bytes, int node)
{
    return wm_numa_place(&d->numa, pointer, bytes, node);
}

warm_status wm_host_node_of(wm_driver *d, void *pointer, size_t bytes,
                            int *node)
{
    *node = wm_numa_node_of(&d->numa, pointer, bytes);
    return WARM_OK;
}

warm_status wm_host_charge(wm_host *host, int device, size_t bytes,
                           const char *call)
{
    warm_status status;
    uint64_t used;

    wm_host_lock(host);
    status = wm_host_unsafe_locked(host, call);
    used = host->device[device].used;
    if (status == WARM_OK && bytes <= host->memory - used) {
        host->device[device].used += bytes;
    } else if (status == WARM_OK) {
        status = wm_host_fail(WM_HOST_ERROR_MEMORY,
                              "host device %d: requested %s, but %s of %s are "
                              "free; option host_memory sets its size",
                              device, wm_bytes(bytes).text,
                              wm_bytes(host->memory - used).text,
                              wm_bytes(host->memory).text);
    }
    wm_host_unlock(host);
    return status;
}

warm_status wm_host_device_alloc(wm_driver *d, int device, size_t bytes,
                                 void **pointer)
{
    wm_host *host = wm_host_of(d);
    warm_status status;

    if (bytes == 0) {
        return wm_host_fail(WM_HOST_ERROR_VALUE, "device_alloc of 0 bytes");
    }
    status = wm_host_charge(host, device, backed(bytes), "device_alloc");
    if (status != WARM_OK) {
        return status;
    }
    status = map_region(host, WM_HOST_DEVICE, device, bytes, pointer);
    if (status != WARM_OK) {
        wm_host_lock(host);
        host->device[device].used -= backed(bytes);
        wm_host_unlock(host);
    }
    return status;
}

/* Host and device use one address for all memory. */
warm_status wm_host_device_address(wm_driver *d, int device, void *pointer,
                                   void **address)
{
    (void)d;
    (void)device;
    *address = pointer;
    return WARM_OK;
}

warm_status wm_host_maps_host(wm_driver *d, int device, bool *maps)
{
    (void)d;
    (void)device;
    *maps = true;
    return WARM_OK;
}

/* The host can touch a device's memory in any case. */
warm_status wm_host_managed_alloc(wm_driver *d, int device, size_t bytes,
                                  void **pointer)
{
    return wm_host_device_alloc(d, device, bytes, pointer);
}

warm_status wm_host_managed_support(wm_driver *d, int device,
                                    wm_managed *support)
{
    (void)d;
    (void)device;
    *support = WM_MANAGED_WORKS;
    return WARM_OK;
}

warm_status wm_host_device_free(wm_driver *d, int device, void *pointer)
{
    wm_host_region like = {.device = device};

    return wm_host_region_release(wm_host_of(d), pointer, WM_HOST_DEVICE,
                                  "device_free", &like);
}

warm_status wm_host_device_memory(wm_driver *d, int device, size_t *free,
                                  size_t *total)
{
    wm_host *host = wm_host_of(d);

    wm_host_lock(host);
    *free = (size_t)(host->memory - host->device[device].used);
    *total = (size_t)host->memory;
    wm_host_unlock(host);
    return WARM_OK;
}
