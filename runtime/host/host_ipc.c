/* host_ipc.c: memory of host devices that other processes map.
 *
 * A name holds the path of the file of device memory (host_region.c) in /proc,
 * and the region's offset in that file. Without such a file export fails. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The content of a wm_ipc_name. Device and inode show whether the file
 * descriptor still refers to the same file. */
struct place {
    uint64_t pid, file, device, inode, offset, bytes;
};

_Static_assert(sizeof(struct place) <= sizeof(wm_ipc_name), "fits in a name");

warm_status wm_host_device_id(wm_driver *d, int device, wm_device_id *id)
{
    (void)d;
    memset(id, 0, sizeof *id);
    snprintf((char *)id->bytes, sizeof id->bytes, "host%d", device);
    return WARM_OK;
}

static warm_status find_locked(wm_host *host, int device, const void *pointer,
                               struct place *place)
{
    wm_host_region *region = wm_host_find_locked(host, WM_HOST_REGION, pointer);

    if (region == NULL || region->kind != WM_HOST_DEVICE ||
        region->device != device) {
        return wm_host_fail(WM_HOST_ERROR_POINTER,
                            "ipc_export: %p is no memory of device %d", pointer,
                            device);
    }
    if (host->file >= 0 && !wm_host_file_mark(host, region->offset)) {
        return wm_host_fail(WM_HOST_ERROR_SYSTEM,
                            "ipc_export: the region could not be marked");
    }
    place->offset = region->offset;
    place->bytes = wm_host_pages(host, region->bytes);
    return WARM_OK;
}

warm_status wm_host_ipc_export(wm_driver *d, int device, void *pointer,
                               wm_ipc_name *name)
{
    wm_host *host = wm_host_of(d);
    struct place place = {.pid = (uint64_t)getpid(),
                          .file = (uint64_t)host->file};
    struct stat found;
    warm_status status;

    wm_host_lock(host);
    status = find_locked(host, device, pointer, &place);
    wm_host_unlock(host);
    if (status != WARM_OK) {
        return status;
    }
    if (host->file < 0 || fstat(host->file, &found) != 0) {
        return wm_host_fail(WM_HOST_ERROR_SYSTEM,
                            "ipc_export: this system, or a limit on the size "
                            "of files, does not allow shared device memory");
    }
    place.device = found.st_dev;
    place.inode = found.st_ino;
    memset(name, 0, sizeof *name);
    memcpy(name->bytes, &place, sizeof place);
    return WARM_OK;
}

static bool is_file_of(int file, const struct place *place)
{
    struct stat found;

    return fstat(file, &found) == 0 && found.st_dev == place->device &&
           found.st_ino == place->inode &&
           place->offset <= (uint64_t)found.st_size &&
           place->bytes <= (uint64_t)found.st_size - place->offset &&
           wm_host_file_marked(file, place->offset);
}

/* Maps a region of another process. Null if the process, the file or the region
 * is gone, or the file may not be opened. */
static void *map_place(const struct place *place)
{
    char path[64];
    void *mapped = MAP_FAILED;
    int file;

    snprintf(path, sizeof path, "/proc/%llu/fd/%llu",
             (unsigned long long)place->pid, (unsigned long long)place->file);
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        return NULL;
    }
    if (is_file_of(file, place)) {
        mapped = mmap(NULL, place->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      file, (off_t)place->offset);
    }
    close(file);
    return mapped != MAP_FAILED ? mapped : NULL;
}

warm_status wm_host_ipc_open(wm_driver *d, int device, const wm_ipc_name *name,
                             void **pointer)
{
    wm_host *host = wm_host_of(d);
    warm_status status = wm_host_unsafe(host, "ipc_open");
    wm_host_region *region;
    struct place place;

    if (status != WARM_OK) {
        return status;
    }
    memcpy(&place, name->bytes, sizeof place);
    region = wm_meta_alloc(sizeof *region);
    if (region == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "ipc_open: no memory for a record");
    }
    region->kind = WM_HOST_IMPORTED;
    region->device = device;
    region->bytes = place.bytes;
    region->pointer =
        place.pid != (uint64_t)getpid() ? map_place(&place) : NULL;
    if (region->pointer == NULL) {
        wm_meta_free(region);
        return wm_host_fail(WM_HOST_ERROR_NAME,
                            "ipc_open: process %llu shares no such memory, or "
                            "has freed it",
                            (unsigned long long)place.pid);
    }
    return wm_host_region_publish(host, region, pointer);
}

warm_status wm_host_ipc_close(wm_driver *d, int device, void *pointer)
{
    wm_host_region like = {.device = device};

    return wm_host_region_release(wm_host_of(d), pointer, WM_HOST_IMPORTED,
                                  "ipc_close", &like);
}
