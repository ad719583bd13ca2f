/* os_page.h: the pages of the machine: 4 KiB, or 64 KiB on some arm64 kernels.
 *
 * A range for mmap, munmap, mprotect, madvise or a registration is whole such
 * pages: the kernel rounds its size up to them, and so unmaps the start of what
 * lies behind a smaller one. WM_PAGE (size_class.h) is another thing: the grain
 * of the sizes of blocks, the same on every machine. Any thread, no lock. */
#ifndef WM_OS_PAGE_H
#define WM_OS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a page: a power of two, at least 4096. */
size_t wm_os_page(void);

/* Rounds up to whole pages. */
static inline size_t wm_os_page_round(size_t bytes)
{
    size_t page = wm_os_page();

    return (bytes + page - 1) & ~(page - 1);
}

static inline bool wm_os_page_is_whole(const void *base, size_t bytes)
{
    return (((uintptr_t)base | bytes) & (wm_os_page() - 1)) == 0;
}

#endif
