/* handle_map.h: a hash table from a lease's serial to its handle, and from a
 * handle's address to the stream it is bound to.
 *
 *   hash ─► entry ─► entry ─► free      open addressing, linear probing
 *
 * At most half of the entries are in use, so that a search reads about two. A
 * removal moves later entries up and leaves no tombstone. A key may occur more
 * than once: the create callback of a user's kind may return one handle twice.
 * The caller holds the lock and provides the memory. */
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

/* Table entries per key: a map for `room` keys, a power of two, has room ×
 * this.
 */
enum { WM_HANDLE_MAP_SPARE = 2 };

/* Makes a map of WM_HANDLE_MAP_SPARE × room zeroed entries. */
void wm_handle_map_init(wm_handle_map *map, wm_handle_entry *entries,
                        unsigned room);

/* Adds an entry. key is not 0, and the map is not full. */
void wm_handle_map_put(wm_handle_map *map, uint64_t key, void *handle);

/* Removes one entry of the key and returns its handle, or null. */
void *wm_handle_map_take(wm_handle_map *map, uint64_t key);

/* Returns the handle of the key's first entry, or null; sets it, if the key has
 * an entry. */
void *wm_handle_map_find(const wm_handle_map *map, uint64_t key);
void wm_handle_map_set(wm_handle_map *map, uint64_t key, void *handle);

/* Counts the entries of the key. */
unsigned wm_handle_map_count(const wm_handle_map *map, uint64_t key);

/* Calls fn for every entry, in any order. */
void wm_handle_map_each(const wm_handle_map *map,
                        void (*fn)(const wm_handle_entry *entry,
                                   void *argument),
                        void *argument);

#endif
