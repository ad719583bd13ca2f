/* resident.c: see resident.h. */
#include "runtime/base/resident.h"

#include "runtime/base/os_page.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

/* A driver backs managed memory by 2 MiB. */
#define STEP ((size_t)2 << 20)

static bool is_resident(uintptr_t at, uintptr_t page)
{
    unsigned char there = 0;

    return mincore((void *)(at & ~(page - 1)), (size_t)page, &there) == 0 &&
           (there & 1) != 0;
}

size_t wm_untouched_bytes(const void *base, size_t bytes)
{
    uintptr_t page = wm_os_page(), from = (uintptr_t)base;
    size_t samples = bytes / STEP + 1, none = 0;
    int before = errno;

    if (samples > WM_RESIDENT_SAMPLES) {
        samples = WM_RESIDENT_SAMPLES;
    }
    for (size_t i = 0; i < samples; i++) {
        none += !is_resident(from + bytes / samples * i, page);
    }
    errno = before;
    return none == samples ? bytes : bytes / samples * none;
}
