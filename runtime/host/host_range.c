/* host_range.c: address ranges of the host device, which are committed and
 * decommitted whole.
 *
 * A range without memory cannot be accessed and does not count as device
 * memory. As in CUDA a decommit waits for no queued work: work that accesses
 * the range crashes, so that tests cannot miss it. */
#include "runtime/host/host.h"

#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"

#include <errno.h>
#include <sys/mman.h>

enum { UNIT = WM_HOST_GRAIN };

warm_status wm_host_range_unit(wm_driver *d, int device, size_t *bytes)
{
    (void)d;
    (void)device;
    *bytes = UNIT;
    return WARM_OK;
}

/* Addresses that begin at a unit, or MAP_FAILED. */
static char *map_nothing(size_t bytes)
{
    char *all = mmap(NULL, bytes + UNIT, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (all == MAP_FAILED) {
        return all;
    }
    before = (UNIT - ((uintptr_t)all & (UNIT - 1))) & (UNIT - 1);
    munmap(all, before); /* fails, and does nothing, if that is 0 */
    munmap(all + before + bytes, UNIT - before);
    return all + before;
}

warm_status wm_host_range_reserve(wm_driver *d, int device, size_t bytes,
                                  void **range)
{
    wm_host_region *region;
    char *mapped = MAP_FAILED;

    if (bytes == 0 || bytes % UNIT != 0) {
        return wm_host_fail(WM_HOST_ERROR_VALUE,
                            "cannot reserve a range of %s: not a multiple of "
                            "%s",
                            wm_bytes(bytes).text, wm_bytes(UNIT).text);
    }
    region = wm_meta_alloc(sizeof *region);
    if (region != NULL) {
        mapped = map_nothing(bytes);
    }
    if (mapped == MAP_FAILED) {
        wm_meta_free(region);
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "could not reserve %s of addresses (errno %d)",
                            wm_bytes(bytes).text, errno);
    }
    region->kind = WM_HOST_RANGE;
    region->device = device;
    region->pointer = mapped;
    region->bytes = bytes;
    return wm_host_region_publish(wm_host_of(d), region, range);
}

/* The range, if it is as large and has memory (with), or none. Null and *status
 * otherwise. */
static wm_host_region *find_locked(wm_host *host, int device, const void *range,
                                   size_t bytes, bool with, warm_status *status)
{
    wm_host_region *r = wm_host_find_locked(host, WM_HOST_REGION, range);

    *status = WARM_OK;
    if (r == NULL || r->kind != WM_HOST_RANGE || r->device != device) {
        *status = wm_host_fail(WM_HOST_ERROR_POINTER,
                               "%p is no range of device %d", range, device);
        return NULL;
    }
    if (bytes != r->bytes || r->committed != with) {
        *status = wm_host_fail(
            WM_HOST_ERROR_VALUE, "%s at %p: not all of a range %s memory",
            wm_bytes(bytes).text, range, with ? "with" : "without");
        return NULL;
    }
    return r;
}

static void refund(wm_host *host, int device, size_t bytes)
{
    wm_host_lock(host);
    host->device[device].used -= bytes;
    wm_host_unlock(host);
}

static bool map(char *range, size_t bytes, bool with)
{
    return mmap(range, bytes, with ? PROT_READ | PROT_WRITE : PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
                    (with ? 0 : MAP_NORESERVE),
                -1, 0) != MAP_FAILED;
}

/* Maps memory into a range without, or takes it from a range with memory. */
static warm_status change(wm_host *host, int device, void *range, size_t bytes,
                          bool with)
{
    wm_host_region *region;
    warm_status status;

    wm_host_lock(host);
    region = find_locked(host, device, range, bytes, !with, &status);
    if (region != NULL && map(range, bytes, with)) {
        region->committed = with;
    } else if (region != NULL) {
        status =
            wm_host_fail(with ? WM_HOST_ERROR_MEMORY : WM_HOST_ERROR_SYSTEM,
                         "could not %s %s of a range (errno %d)",
                         with ? "map" : "unmap", wm_bytes(bytes).text, errno);
    }
    wm_host_unlock(host);
    return status;
}

warm_status wm_host_range_commit(wm_driver *d, int device, void *range,
                                 size_t bytes, bool *torn)
{
    wm_host *host = wm_host_of(d);
    warm_status status = wm_host_charge(host, device, bytes, "range_commit");

    (void)torn; /* all or nothing */
    if (status != WARM_OK) {
        return status;
    }
    status = change(host, device, range, bytes, true);
    if (status != WARM_OK) {
        refund(host, device, bytes);
    }
    return status;
}

warm_status wm_host_range_decommit(wm_driver *d, int device, void *range,
                                   size_t bytes)
{
    wm_host *host = wm_host_of(d);
    warm_status status = change(host, device, range, bytes, false);

    if (status == WARM_OK) {
        refund(host, device, bytes);
    }
    return status;
}

warm_status wm_host_range_release(wm_driver *d, int device, void *range,
                                  size_t bytes)
{
    wm_host *host = wm_host_of(d);
    wm_host_region *region;
    warm_status status;

    wm_host_lock(host);
    region = find_locked(host, device, range, bytes, false, &status);
    if (region != NULL) {
        wm_host_remove_locked(host, WM_HOST_REGION, range);
        wm_host_region_unlink(&host->regions, region);
    }
    wm_host_unlock(host);
    if (region != NULL) {
        wm_host_region_dispose(host, region);
    }
    return status;
}
