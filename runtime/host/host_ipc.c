/* host_ipc.c: memory of host devices that other processes map (row C9).
 *
 *   host.file  │ region │ region │ hole │ region │ …    never used twice
 *                  │        └── mapped in this process
 *                  └── mapped here, and by its name in another process
 *
 * All device memory of a driver is one file without a name, and without an
 * end; a region is a part of it. What another process gets is the place of the
 * file descriptor in /proc and the part's place in the file. A region that is
 * freed leaves a hole, whoever maps it still: as with CUDA, whoever frees says
 * that nobody uses it. Where there is no such file, memory is the process's
 * own, and naming it is an error. */
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

/* More than is ever given out: the file has no size of its own. */
enum { FILE_BITS = 60 };

/* A file this long is a signal where the size of files is limited. */
static bool may_be_long(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           limit.rlim_cur == RLIM_INFINITY;
}

void wm_host_file_open(wm_host *host)
{
    host->file =
        may_be_long() ? memfd_create("warmpool device", MFD_CLOEXEC) : -1;
    if (host->file >= 0 && ftruncate(host->file, (off_t)1 << FILE_BITS) != 0) {
        wm_host_file_close(host);
    }
}

void wm_host_file_close(wm_host *host)
{
    if (host->file >= 0) {
        close(host->file);
        host->file = -1;
    }
}

void *wm_host_file_map(wm_host *host, size_t pages, wm_host_region *region)
{
    if (host->file < 0 || pages >> FILE_BITS != 0) {
        return mmap(NULL, pages, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    wm_host_lock(host);
    region->offset = host->file_used;
    host->file_used += pages;
    wm_host_unlock(host);
    return mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, host->file,
                (off_t)region->offset);
}

/* What the kernel does not take stays until the file is closed. */
void wm_host_file_drop(wm_host *host, const wm_host_region *region)
{
    if (host->file >= 0) {
        (void)fallocate(host->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)region->offset,
                        (off_t)wm_host_region_pages(host, region->bytes));
    }
}

/* What is in a wm_ipc_name. The inode tells whether the number of the file is
 * still that file's. */
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
    wm_host_region *region =
        wm_host_map_get(&host->map, pointer, WM_HOST_REGION);

    if (region == NULL || region->kind != WM_HOST_DEVICE ||
        region->device != device) {
        return wm_host_fail(WM_HOST_ERROR_POINTER,
                            "ipc_export: %p is no memory of device %d", pointer,
                            device);
    }
    place->offset = region->offset;
    place->bytes = wm_host_region_pages(host, region->bytes);
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
                            "of files, lets no memory be shared");
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
           place->bytes <= (uint64_t)found.st_size - place->offset;
}

/* Null if the process or its file is not there, or is not for us. */
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

static warm_status allowed(wm_host *host)
{
    warm_status status;

    wm_host_lock(host);
    status = wm_host_unsafe_locked(host, "ipc_open");
    wm_host_unlock(host);
    return status;
}

warm_status wm_host_ipc_open(wm_driver *d, int device, const wm_ipc_name *name,
                             void **pointer)
{
    wm_host *host = wm_host_of(d);
    warm_status status = allowed(host);
    wm_host_region *region;
    struct place place;

    if (status != WARM_OK) {
        return status;
    }
    memcpy(&place, name->bytes, sizeof place);
    region = wm_meta_alloc(sizeof *region);
    if (region == NULL) {
        goto no_memory;
    }
    region->kind = WM_HOST_IMPORTED;
    region->device = device;
    region->bytes = place.bytes;
    region->pointer =
        place.pid != (uint64_t)getpid() ? map_place(&place) : NULL;
    if (region->pointer == NULL) {
        wm_meta_free(region);
        return wm_host_fail(WM_HOST_ERROR_NAME,
                            "ipc_open: process %llu has no such memory for "
                            "others",
                            (unsigned long long)place.pid);
    }
    if (!wm_host_region_publish(host, region)) {
        munmap(region->pointer, region->bytes);
        goto no_memory;
    }
    *pointer = region->pointer;
    return WARM_OK;

no_memory:
    wm_meta_free(region);
    return wm_host_fail(WM_HOST_ERROR_MEMORY,
                        "ipc_open: no memory for a record");
}

warm_status wm_host_ipc_close(wm_driver *d, int device, void *pointer)
{
    wm_host_region like = {.device = device};

    return wm_host_region_release(wm_host_of(d), pointer, WM_HOST_IMPORTED,
                                  "ipc_close", &like);
}
