/* sized.h: structs that cross the interface and begin with their size_t size.
 *
 *   older program     size │ a │ b            missing inputs are read as zero,
 *   this library      size │ a │ b │ c        missing outputs are not written
 *
 * Such a struct grows at its end only, and a new field begins at the old
 * sizeof, never in the padding before it. No lock, no allocation. */
#ifndef WM_SIZED_H
#define WM_SIZED_H

#include "warmpool/base.h"

#include <string.h>

/* INVALID_ARGUMENT, with the struct's name in the message, if given is null or
 * its size is larger than known or is not that of any struct. */
warm_status wm_sized_check(const void *given, size_t known, const char *name);

/* Checks after others, of which status is the answer, and theirs unless it is
 * WARM_OK: out: wm_sized_check(); given: INVALID_ARGUMENT if it is null. */
warm_status wm_check_out(warm_status status, const void *out, size_t known,
                         const char *name);
warm_status wm_check_given(warm_status status, const void *given,
                           const char *name);

/* For structs that passed the check. wm_sized_in() fills *full (known bytes)
 * from an input; wm_sized_out() copies a result back, all but its size. */
void wm_sized_in(void *full, const void *given, size_t known);
static inline void wm_sized_out(void *given, const void *full, size_t known)
{
    size_t size, bytes;

    memcpy(&size, given, sizeof size);
    bytes = size < known ? size : known;
    memcpy((char *)given + sizeof size, (const char *)full + sizeof size,
           bytes - sizeof size);
}

#endif
