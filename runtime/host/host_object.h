/* host_object.h: what is live of the host device, by address, and cells for the
 * records of it. The host device's lock guards both. */
#ifndef WM_HOST_OBJECT_H
#define WM_HOST_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wm_host_type {
    WM_HOST_STREAM = 1,
    WM_HOST_EVENT,
    WM_HOST_GRAPH,
    WM_HOST_REGION
};

typedef struct wm_host_slot {
    uintptr_t key; /* 0: empty */
    void *object;
    enum wm_host_type type;
} wm_host_slot;

/* Open addressing, at most half full, and at least an eighth unless it is small
 * or there was no memory; a lookup never follows the key. */
typedef struct wm_host_map {
    wm_host_slot *slot;
    size_t capacity, count;
} wm_host_map;

/* False if there is no memory; the map is then as it was. */
bool wm_host_map_put(wm_host_map *map, const void *key, enum wm_host_type type,
                     void *object);
/* The live object of that type, or null. */
void *wm_host_map_get(const wm_host_map *map, const void *key,
                      enum wm_host_type type);
void wm_host_map_remove(wm_host_map *map, const void *key);

/* Records of one size; the last one put back is taken first. Beside those that
 * are in use at most as many more are kept, and WM_HOST_CELLS_KEEP. */
enum { WM_HOST_CELLS_KEEP = 256 };

typedef struct wm_host_cells {
    void *free;
    size_t used, kept;
    size_t bytes; /* const */
} wm_host_cells;

void *wm_host_cell_take(wm_host_cells *cells); /* zeroed, or null */
void wm_host_cell_put(wm_host_cells *cells, void *cell);
void wm_host_cells_fini(wm_host_cells *cells);

#endif
