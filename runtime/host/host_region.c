/* host_region.c: the file that holds the memory of all devices, and how
 * allocations are freed.
 *
 *   host.file  │ region │ region │ hole │ region │ …    never used twice
 *                  │        └── mapped in this process
 *                  └── mapped here, and by its name in another process
 *
 * One sparse file without a name (memfd); a region is a part of it, after a
 * page whose end says whether the region was exported. A freed region becomes a
 * hole with that page, even if another process still maps it: as with CUDA, the
 * process that frees memory vouches that nobody uses it. Where such a file
 * cannot be made, device memory is private to the process.
 *
 * cudaFree() waits for the device. Here a free returns at once, and the pages
 * stay mapped until all work queued before has finished: a copy under way never
 * meets unmapped pages, and a held stream blocks no free. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"

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
    region->offset = host->file_used + host->page;
    host->file_used = region->offset + pages;
    wm_host_unlock(host);
    return mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, host->file,
                (off_t)region->offset);
}

/* If punching the hole fails, the memory stays until the file is closed. */
static void file_drop(wm_host *host, const wm_host_region *region)
{
    if (host->file >= 0) {
        (void)fallocate(
            host->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            (off_t)(region->offset - host->page),
            (off_t)(host->page + wm_host_pages(host, region->bytes)));
    }
}

bool wm_host_file_mark(const wm_host *host, uint64_t offset)
{
    return pwrite(host->file, &offset, sizeof offset,
                  (off_t)(offset - sizeof offset)) == sizeof offset;
}

bool wm_host_file_marked(int file, uint64_t offset)
{
    uint64_t mark = 0;

    return offset > sizeof mark &&
           pread(file, &mark, sizeof mark, (off_t)(offset - sizeof mark)) ==
               sizeof mark &&
           mark == offset;
}

/* ---- regions ------------------------------------------------------------- */

void wm_host_region_link(wm_host_region **list, wm_host_region *region)
{
    region->previous = NULL;
    region->next = *list;
    if (region->next != NULL) {
        region->next->previous = region;
    }
    *list = region;
}

void wm_host_region_unlink(wm_host_region **list, wm_host_region *region)
{
    if (region->next != NULL) {
        region->next->previous = region->previous;
    }
    if (region->previous != NULL) {
        region->previous->next = region->next;
    } else {
        *list = region->next;
    }
}

void wm_host_region_dispose(wm_host *host, wm_host_region *region)
{
    if (region->kind != WM_HOST_REGISTERED) {
        munmap(region->pointer, wm_host_pages(host, region->bytes));
        if (region->kind == WM_HOST_DEVICE) {
            file_drop(host, region);
        }
    } else if (region->locked) {
        munlock(region->pointer, region->bytes);
    }
    wm_meta_free(region);
}

warm_status wm_host_region_publish(wm_host *host, wm_host_region *region,
                                   void **pointer)
{
    void *mapped = region->pointer;
    bool known;

    wm_host_lock(host);
    known = wm_host_add_locked(host, WM_HOST_REGION, mapped, region);
    if (known) {
        wm_host_region_link(&host->regions, region);
    }
    wm_host_unlock(host);
    if (!known) {
        wm_host_region_dispose(host, region);
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "no memory for a record of memory");
    }
    *pointer = mapped;
    return WARM_OK;
}

static void unmark_locked(wm_host *host, wm_host_region *region)
{
    for (size_t i = 0; i < region->marks; i++) {
        wm_host_core_unref_locked(host, region->mark[i].core);
    }
    wm_meta_free(region->mark);
    region->mark = NULL;
    region->marks = 0;
}

/* Marks the position that each busy core has to reach. Without memory for the
 * marks the region stays mapped until close. Registered memory needs no marks:
 * it stays mapped in any case. */
void wm_host_region_bury_locked(wm_host *host, wm_host_region *region)
{
    size_t busy = 0;

    for (wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        busy += c->done < c->queued;
    }
    if (busy == 0 || region->kind == WM_HOST_REGISTERED) {
        wm_host_region_link(&host->reaped, region);
        return;
    }
    region->mark = wm_meta_alloc(busy * sizeof *region->mark);
    for (wm_host_core *c = host->all_cores; c != NULL && region->mark != NULL;
         c = c->next) {
        if (c->done < c->queued) {
            region->mark[region->marks++] = (wm_host_mark){c, c->queued};
            c->references++;
        }
    }
    wm_host_region_link(&host->zombies, region);
}

static bool is_done(const wm_host_region *region)
{
    for (size_t i = 0; i < region->marks; i++) {
        if (region->mark[i].core->done < region->mark[i].done) {
            return false;
        }
    }
    return region->mark != NULL;
}

void wm_host_memory_progress_locked(wm_host *host)
{
    wm_host_region *next;

    for (wm_host_region *r = host->zombies; r != NULL; r = next) {
        next = r->next;
        if (is_done(r)) {
            wm_host_region_unlink(&host->zombies, r);
            unmark_locked(host, r);
            wm_host_region_link(&host->reaped, r);
        }
    }
}

void wm_host_memory_reap_locked(wm_host *host)
{
    wm_host_region *region;

    while ((region = host->reaped) != NULL) {
        wm_host_region_unlink(&host->reaped, region);
        wm_host_unlock(host);
        wm_host_region_dispose(host, region);
        wm_host_lock(host);
    }
}

static void dispose_all(wm_host *host, wm_host_region *list)
{
    while (list != NULL) {
        wm_host_region *next = list->next;

        unmark_locked(host, list);
        wm_host_region_dispose(host, list);
        list = next;
    }
}

/* Memory that the program has not freed stays mapped; only its record ends. */
static void forget_all(wm_host_region *list)
{
    while (list != NULL) {
        wm_host_region *next = list->next;

        wm_meta_free(list);
        list = next;
    }
}

/* At close: all workers have ended and no other thread uses the driver. */
void wm_host_memory_fini(wm_host *host)
{
    forget_all(host->regions);
    dispose_all(host, host->zombies);
    host->regions = host->zombies = NULL;
}
