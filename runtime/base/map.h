/* map.h: a hash table from a number, or an address, to a pointer.
 *
 *   hash ─► entry ─► entry ─► free      open addressing, linear probing
 *
 * At most half of the entries are in use, so that a search reads about two. A
 * removal moves later entries up and leaves no tombstone. A key may occur more
 * than once, and no lookup dereferences it. The caller holds the lock. */
#ifndef WM_MAP_H
#define WM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wm_map_entry {
    uint64_t key; /* 0: free */
    void *value;
} wm_map_entry;

/* All zeros: empty, without memory. */
typedef struct wm_map {
    wm_map_entry *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
} wm_map;

/* Bytes of the memory of a map with room for `room` keys, a power of two. */
static inline size_t wm_map_bytes(size_t room)
{
    return 2 * room * sizeof(wm_map_entry);
}

/* Moves the map into zeroed memory for `room` keys, no fewer than it has;
 * returns the memory it had. */
void *wm_map_move(wm_map *map, void *memory, size_t room);

/* Grows the map, by wm_meta_alloc(), until `room` keys fit. False: no memory,
 * and the map is as it was. */
bool wm_map_reserve(wm_map *map, size_t room);

/* Halves a map that wm_map_reserve() has grown and that is less than an eighth
 * full, unless it is small or memory is short. */
void wm_map_shrink(wm_map *map);

/* Frees memory that wm_map_reserve() allocated. */
void wm_map_fini(wm_map *map);

/* Adds an entry, for which there is room. key is not 0. */
void wm_map_put(wm_map *map, uint64_t key, void *value);

/* The first entry of the key, or null: its value may be set. */
wm_map_entry *wm_map_find(const wm_map *map, uint64_t key);

/* The value of the key's first entry, or null. */
static inline void *wm_map_get(const wm_map *map, uint64_t key)
{
    const wm_map_entry *entry = wm_map_find(map, key);

    return entry != NULL ? entry->value : NULL;
}

/* Removes one entry of the key and returns its value, or null. */
void *wm_map_take(wm_map *map, uint64_t key);

/* The entry after `entry` (null: the first), in any order; null after the
 * last. */
const wm_map_entry *wm_map_next(const wm_map *map, const wm_map_entry *entry);

#endif
