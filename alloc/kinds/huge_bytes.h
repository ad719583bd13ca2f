/* huge_bytes.h: how much of a space's memory are huge pages (row B21). */
#ifndef WM_HUGE_BYTES_H
#define WM_HUGE_BYTES_H

#include "alloc/space/space.h"

/* What was last read, and of which memory. Lock growth of the space. */
typedef struct wm_huge_bytes {
    bool known;
    uint64_t gained; /* of the space's growth, when it was read */
    uint64_t bytes;
} wm_huge_bytes;

/* Bytes of huge pages behind the segments of the space. Reads the system's file
 * (smaps.h) only if memory was obtained or returned since the last call: pages
 * that a driver has page-locked stay as they are. 0 if the file cannot be read.
 * No lock held. */
uint64_t wm_huge_bytes_read(wm_space *space, const char *root,
                            wm_huge_bytes *last);

#endif
