/* adopt_check.c: what the kernel says of memory that is to be adopted. */
#include "alloc/kinds/adopt.h"

#include <stdio.h>
#include <stdlib.h>

static warm_status refuse(uintptr_t at, const char *why)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "the memory at %p cannot be adopted: %s", (void *)at, why);
}

/* The mappings are listed by address. */
static warm_status check_list(FILE *maps, uintptr_t at, uintptr_t end,
                              bool write)
{
    char *line = NULL;
    size_t room = 0;
    warm_status status = WARM_OK;

    while (at < end && status == WARM_OK && getline(&line, &room, maps) != -1) {
        char *rest;
        uintptr_t first = strtoull(line, &rest, 16); /* 7f00-7f08 rw-p … */
        uintptr_t last = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;

        if (last <= at || *rest != ' ') {
            continue;
        }
        if (first > at) {
            break;
        }
        if (rest[1] != 'r') {
            status = refuse(at, "it is mapped without read access");
        } else if (write && rest[2] != 'w') {
            status = refuse(at, "it is mapped read-only; use "
                                "WARM_ADOPT_READ_ONLY if devices only read "
                                "it");
        }
        at = last;
    }
    free(line);
    if (status == WARM_OK && at < end) {
        status = refuse(at, "nothing is mapped there");
    }
    return status;
}

/* Where there is no /proc, the driver finds out. */
warm_status wm_adopt_check(const char *base, size_t bytes, bool write)
{
    WM_CANCEL_OFF();
    FILE *maps = fopen("/proc/self/maps", "re");
    warm_status status = WARM_OK;

    if (maps != NULL) {
        status =
            check_list(maps, (uintptr_t)base, (uintptr_t)base + bytes, write);
        fclose(maps);
    }
    return status;
}
