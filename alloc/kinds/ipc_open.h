/* ipc_open.h: what was opened of other processes' memory, by pointer.
 *
 * A table of chains that widens as it fills; where there is no memory for that
 * the chains get longer. All of it: lock imports, which the caller holds. */
#ifndef WM_IPC_OPEN_H
#define WM_IPC_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wm_mapping; /* ipc_import.c */

/* A place in a mapping, opened count times. */
typedef struct wm_ipc_opening {
    struct wm_ipc_opening *next; /* of its chain */
    struct wm_mapping *mapping;
    const void *pointer;
    uint64_t count;
} wm_ipc_opening;

typedef struct wm_ipc_openings {
    wm_ipc_opening **chain; /* null until the first one */
    size_t chains;          /* a power of 2, or 0 */
    size_t count;           /* of places */
} wm_ipc_openings;

/* Room for one more; false without memory for any table. */
bool wm_ipc_openings_widen(wm_ipc_openings *places);
/* There is room, and no place of that pointer. */
void wm_ipc_openings_insert(wm_ipc_openings *places, wm_ipc_opening *place);
/* The link to a place, for wm_ipc_openings_remove(), or null. */
wm_ipc_opening **wm_ipc_openings_find(const wm_ipc_openings *places,
                                      const void *pointer);
wm_ipc_opening *wm_ipc_openings_remove(wm_ipc_openings *places,
                                       wm_ipc_opening **link);

/* How often all of them were opened. */
uint64_t wm_places_opened(const wm_ipc_openings *places);
/* Ends the table and all records in it. */
void wm_ipc_openings_fini(wm_ipc_openings *places);

#endif
