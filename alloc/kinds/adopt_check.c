/* adopt_check.c: what the kernel says of memory that is to be adopted. */
#include "alloc/kinds/adopt.h"

#include <inttypes.h>
#include <stdio.h>

static warm_status refuse(uintptr_t at, const char *why)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "the memory at %p cannot be adopted: %s", (void *)at, why);
}

/* The mappings are listed by address. */
static warm_status check_list(FILE *maps, uintptr_t at, uintptr_t end,
                              bool write)
{
    uintptr_t first, last;
    char access[5];

    while (at < end && fscanf(maps, "%" SCNxPTR "-%" SCNxPTR " %4s%*[^\n]",
                              &first, &last, access) == 3) {
        if (last <= at) {
            continue;
        }
        if (first > at) {
            break;
        }
        if (access[0] != 'r') {
            return refuse(at, "it is mapped without read access");
        }
        if (write && access[1] != 'w') {
            return refuse(at, "it is mapped read-only; use "
                              "WARM_ADOPT_READ_ONLY if devices only read it");
        }
        at = last;
    }
    return at < end ? refuse(at, "nothing is mapped there") : WARM_OK;
}

/* Where there is no /proc, the driver finds out. */
warm_status wm_adopt_check(const char *base, size_t bytes, bool write)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    warm_status status = WARM_OK;

    if (maps != NULL) {
        status =
            check_list(maps, (uintptr_t)base, (uintptr_t)base + bytes, write);
        fclose(maps);
    }
    return status;
}
