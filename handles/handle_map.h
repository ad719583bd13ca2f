/* handle_map.h: finds a handle by a lease's serial, or something of a handle by
 * its address.
 *
 *   hash ─► entry ─► entry ─► free      open addressing, one after the other
 *
 * At most half of the entries are in use, so that a search ends after two or
 * so; an end of a lease closes the gap behind it and leaves no mark. A number
 * may be in it more than once (a kind of the user may give one handle out
 * twice). The caller guards it and brings the memory. */
#ifndef WM_HANDLE_MAP_H
#define WM_HANDLE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_handle_entry {
    uint64_t key; /* 0: free */
    void *handle;
} wm_handle_entry;

typedef struct wm_handle_map {
    wm_handle_entry *entries; /* null: no room */
    unsigned bits;            /* there are 1 << bits */
} wm_handle_map;

/* Entries that a map needs to hold as many as room, which is a power of two. */
enum { WM_HANDLE_MAP_SPARE = 2 };

/* A map over zeroed entries: WM_HANDLE_MAP_SPARE × room. */
void wm_handle_map_init(wm_handle_map *map, wm_handle_entry *entries,
                        unsigned room);

/* key is not 0, and there is room. */
void wm_handle_map_put(wm_handle_map *map, uint64_t key, void *handle);

/* Takes one entry of the key out and returns its handle, or null. */
void *wm_handle_map_take(wm_handle_map *map, uint64_t key);

/* The first entry's, or null; and puts another one there, if there is an entry.
 */
void *wm_handle_map_find(const wm_handle_map *map, uint64_t key);
void wm_handle_map_set(wm_handle_map *map, uint64_t key, void *handle);

/* How many entries the key has. */
unsigned wm_handle_map_count(const wm_handle_map *map, uint64_t key);

/* Calls fn for every entry, in any order. */
void wm_handle_map_each(const wm_handle_map *map,
                        void (*fn)(const wm_handle_entry *entry,
                                   void *argument),
                        void *argument);

#endif
