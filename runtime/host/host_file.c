/* host_file.c: the file that holds the memory of all devices of a host driver.
 *
 *   host.file  │ region │ region │ hole │ region │ …    never used twice
 *                  │        └── mapped in this process
 *                  └── mapped here, and by its name in another process
 *
 * One sparse file without a name (memfd); a region is a part of it. A freed
 * region becomes a hole even if another process still maps it: as with CUDA,
 * the process that frees memory vouches that nobody uses it. Where such a file
 * cannot be made, device memory is private to the process. */
#include "runtime/host/host.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Size of the file, larger than all offsets ever used: holes take no memory. */
enum { FILE_BITS = 60 };

/* Extending the file beyond a limit on file sizes would raise SIGXFSZ. */
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

/* If punching the hole fails, the memory stays until the file is closed. */
void wm_host_file_drop(wm_host *host, const wm_host_region *region)
{
    if (host->file >= 0) {
        (void)fallocate(host->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)region->offset,
                        (off_t)wm_host_pages(host, region->bytes));
    }
}
