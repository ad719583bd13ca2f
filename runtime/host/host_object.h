/* host_object.h: the map of live objects of the host device by address, and
 * free lists of their records. The host device's lock guards both. */
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

/* Open addressing, at most half full. Shrinks below one eighth, unless it is
 * small or there is no memory. A lookup never dereferences the key. */
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

/* A free list of records of one size, last in first out. It keeps at most as
 * many free records as are in use, plus WM_HOST_CELLS_KEEP. */
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
