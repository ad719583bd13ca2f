/* places.h: what was opened of other processes' memory, by pointer.
 *
 * A table of chains that widens as it fills; where there is no memory for that
 * the chains get longer. All of it: lock imports, which the caller holds. */
#ifndef WM_PLACES_H
#define WM_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wm_mapping; /* imports.c */

/* A place in a mapping, opened count times. */
typedef struct wm_place {
    struct wm_place *next; /* of its chain */
    struct wm_mapping *mapping;
    const void *pointer;
    uint64_t count;
} wm_place;

typedef struct wm_places {
    wm_place **chain; /* null until the first one */
    size_t chains;    /* a power of 2, or 0 */
    size_t count;     /* of places */
} wm_places;

/* Room for one more; false without memory for any table. */
bool wm_places_widen(wm_places *places);
/* There is room, and no place of that pointer. */
void wm_places_insert(wm_places *places, wm_place *place);
/* The link to a place, for wm_places_remove(), or null. */
wm_place **wm_places_find(const wm_places *places, const void *pointer);
wm_place *wm_places_remove(wm_places *places, wm_place **link);

/* How often all of them were opened. */
uint64_t wm_places_opened(const wm_places *places);
/* Ends the table and all records in it. */
void wm_places_fini(wm_places *places);

#endif
