/* host_range.c: address ranges of the host device, into which memory is
 * committed in parts.
 *
 *   range │ first│ rest │ first│······│ first│······│     ··· no access
 *         └── piece ────┴ piece┘      └ piece┘
 *
 * As in CUDA a piece is what one commit added, and only whole pieces can be
 * decommitted. A unit without memory cannot be accessed and does not count as
 * device memory. As in CUDA a decommit waits for no queued work: work that
 * accesses the part crashes, so that tests cannot miss it. */
#include "runtime/host/host.h"

#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { UNIT = WM_HOST_GRAIN };

/* State of a unit: without memory, first of a piece, or a later one. */
enum { NOTHING, FIRST, REST };

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
    if (region == NULL) {
        goto fail;
    }
    region->unit = wm_meta_alloc(bytes / UNIT * sizeof *region->unit);
    if (region->unit != NULL) {
        mapped = map_nothing(bytes);
    }
    if (mapped == MAP_FAILED) {
        goto fail;
    }
    region->kind = WM_HOST_RANGE;
    region->device = device;
    region->pointer = mapped;
    region->bytes = bytes;
    return wm_host_region_publish(wm_host_of(d), region, range);

fail:
    if (region != NULL) {
        wm_meta_free(region->unit);
    }
    wm_meta_free(region);
    return wm_host_fail(WM_HOST_ERROR_MEMORY,
                        "could not reserve %s of addresses (errno %d)",
                        wm_bytes(bytes).text, errno);
}

/* How many units of a part have memory. */
static size_t committed(const wm_host_region *region, size_t offset,
                        size_t bytes)
{
    size_t count = 0;

    for (size_t i = offset / UNIT; i < (offset + bytes) / UNIT; i++) {
        count += region->unit[i] != NOTHING;
    }
    return count;
}

/* Whether a piece continues across the start of a unit. */
static bool goes_on(const wm_host_region *region, size_t offset)
{
    return offset < region->bytes && region->unit[offset / UNIT] == REST;
}

/* The range that holds the given part. with: the part must consist of whole
 * pieces; else of units without memory. Null and *status otherwise. */
static wm_host_region *find_locked(wm_host *host, int device, const void *range,
                                   size_t offset, size_t bytes, bool with,
                                   warm_status *status)
{
    wm_host_region *r = wm_host_find_locked(host, WM_HOST_REGION, range);

    if (r == NULL || r->kind != WM_HOST_RANGE || r->device != device) {
        *status = wm_host_fail(WM_HOST_ERROR_POINTER,
                               "%p is no range of device %d", range, device);
        return NULL;
    }
    if (offset % UNIT != 0 || bytes % UNIT != 0 || offset > r->bytes ||
        bytes > r->bytes - offset ||
        committed(r, offset, bytes) != (with ? bytes / UNIT : 0)) {
        *status = wm_host_fail(
            WM_HOST_ERROR_VALUE,
            "%s at %p of the range at %p: not whole units %s memory",
            wm_bytes(bytes).text, (const void *)((const char *)range + offset),
            range, with ? "with" : "without");
        return NULL;
    }
    if (goes_on(r, offset) || goes_on(r, offset + bytes)) {
        *status = wm_host_fail(
            WM_HOST_ERROR_VALUE,
            "%s at %p of the range at %p would split a piece of memory",
            wm_bytes(bytes).text, (const void *)((const char *)range + offset),
            range);
        return NULL;
    }
    *status = WARM_OK;
    return r;
}

/* Marks a part as one piece, or as without memory. */
static void set_locked(wm_host_region *region, size_t offset, size_t bytes,
                       bool with)
{
    memset(region->unit + offset / UNIT, with ? REST : NOTHING, bytes / UNIT);
    if (with && bytes > 0) {
        region->unit[offset / UNIT] = FIRST;
    }
}

/* Checks a part and marks it. No lock held. */
static warm_status claim(wm_host *host, int device, const void *range,
                         size_t offset, size_t bytes, bool with)
{
    wm_host_region *region;
    warm_status status;

    wm_host_lock(host);
    region = find_locked(host, device, range, offset, bytes, !with, &status);
    if (region != NULL) {
        set_locked(region, offset, bytes, with);
    }
    wm_host_unlock(host);
    return status;
}

static void refund(wm_host *host, int device, size_t bytes)
{
    wm_host_lock(host);
    host->device[device].used -= bytes;
    wm_host_unlock(host);
}

static bool map_part(char *part, size_t bytes, bool with)
{
    return mmap(part, bytes, with ? PROT_READ | PROT_WRITE : PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
                    (with ? 0 : MAP_NORESERVE),
                -1, 0) != MAP_FAILED;
}

warm_status wm_host_range_commit(wm_driver *d, int device, void *range,
                                 size_t offset, size_t bytes, bool *torn)
{
    wm_host *host = wm_host_of(d);
    warm_status status = wm_host_charge(host, device, bytes, "range_commit");

    (void)torn; /* all or nothing */
    if (status != WARM_OK) {
        return status;
    }
    status = claim(host, device, range, offset, bytes, true);
    if (status == WARM_OK && !map_part((char *)range + offset, bytes, true)) {
        (void)claim(host, device, range, offset, bytes, false);
        status = wm_host_fail(WM_HOST_ERROR_MEMORY,
                              "could not map %s of a range (errno %d)",
                              wm_bytes(bytes).text, errno);
    }
    if (status != WARM_OK) {
        refund(host, device, bytes);
    }
    return status;
}

warm_status wm_host_range_decommit(wm_driver *d, int device, void *range,
                                   size_t offset, size_t bytes)
{
    wm_host *host = wm_host_of(d);
    wm_host_region *region;
    warm_status status;

    wm_host_lock(host);
    region = find_locked(host, device, range, offset, bytes, true, &status);
    if (region != NULL && map_part((char *)range + offset, bytes, false)) {
        set_locked(region, offset, bytes, false);
        host->device[device].used -= bytes;
    } else if (region != NULL) {
        status = wm_host_fail(WM_HOST_ERROR_SYSTEM,
                              "could not unmap %s of a range (errno %d)",
                              wm_bytes(bytes).text, errno);
    }
    wm_host_unlock(host);
    return status;
}

warm_status wm_host_range_release(wm_driver *d, int device, void *range,
                                  size_t bytes)
{
    wm_host *host = wm_host_of(d);
    wm_host_region *region;
    warm_status status;

    wm_host_lock(host);
    region = find_locked(host, device, range, 0, bytes, false, &status);
    if (region != NULL && region->bytes != bytes) {
        status = wm_host_fail(
            WM_HOST_ERROR_VALUE, "the range at %p has %s, not %s", range,
            wm_bytes(region->bytes).text, wm_bytes(bytes).text);
    }
    if (status == WARM_OK) {
        wm_host_remove_locked(host, WM_HOST_REGION, range);
        wm_host_region_unlink(&host->regions, region);
    }
    wm_host_unlock(host);
    if (status == WARM_OK) {
        wm_host_region_dispose(host, region);
    }
    return status;
}
