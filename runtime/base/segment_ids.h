/* segment_ids.h: the numbers of a runtime's segments, by address (row B24).
 *
 * A number is given when the driver has obtained the memory, and ends when the
 * memory is about to be returned; it is never used twice in a runtime. */
#ifndef WM_SEGMENT_IDS_H
#define WM_SEGMENT_IDS_H

#include "runtime/base/lock.h"
#include "runtime/base/map.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct wm_segment_ids {
    wm_lock lock;
    wm_map map;      /* lock: by base, the number as a pointer */
    size_t reserved; /* lock */
    uint64_t last;   /* lock */
} wm_segment_ids;

void wm_segment_ids_init(wm_segment_ids *ids);
void wm_segment_ids_fini(wm_segment_ids *ids);

/* Reserves room for one number; false: no memory. Followed by
 * wm_segment_ids_add() or wm_segment_ids_unreserve(). */
bool wm_segment_ids_reserve(wm_segment_ids *ids);
void wm_segment_ids_unreserve(wm_segment_ids *ids);

/* Gives the next number to what begins at base. */
uint64_t wm_segment_ids_add(wm_segment_ids *ids, const void *base);
/* The number of what begins at base; 0: it has none. take: which ends, and room
 * is reserved for another. */
uint64_t wm_segment_ids_get(wm_segment_ids *ids, const void *base);
uint64_t wm_segment_ids_take(wm_segment_ids *ids, const void *base);

#endif
