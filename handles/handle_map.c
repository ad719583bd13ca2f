/* handle_map.c: open addressing with backward-shift deletion (handle_map.h). */
#include "handles/handle_map.h"

#include "runtime/base/status.h"

static size_t mask(const wm_handle_map *map)
{
    return ((size_t)1 << map->bits) - 1;
}

/* Fibonacci hashing, 2^64 over the golden ratio: consecutive serials and
 * equally spaced addresses spread over the table. */
static size_t home(const wm_handle_map *map, uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - map->bits));
}

void wm_handle_map_init(wm_handle_map *map, wm_handle_entry *entries,
                        unsigned room)
{
    map->entries = entries;
    map->bits = 0;
    while (1U << map->bits < room * WM_HANDLE_MAP_SPARE) {
        map->bits++;
    }
}

void wm_handle_map_put(wm_handle_map *map, uint64_t key, void *handle)
{
    size_t at = home(map, key);

    wm_assert(key != 0);
    while (map->entries[at].key != 0) {
        at = (at + 1) & mask(map);
    }
    map->entries[at] = (wm_handle_entry){key, handle};
}

/* Moves up entries that a search would miss behind the free entry. */
static void close_gap(wm_handle_map *map, size_t gap)
{
    size_t at = gap;

    for (;;) {
        uint64_t key;

        at = (at + 1) & mask(map);
        key = map->entries[at].key;
        if (key == 0) {
            break;
        }
        /* Its probe sequence passes the gap. */
        if (((at - home(map, key)) & mask(map)) >= ((at - gap) & mask(map))) {
            map->entries[gap] = map->entries[at];
            gap = at;
        }
    }
    map->entries[gap].key = 0;
}

void *wm_handle_map_take(wm_handle_map *map, uint64_t key)
{
    void *handle;
    size_t at;

    if (map->entries == NULL || key == 0) {
        return NULL;
    }
    at = home(map, key);
    while (map->entries[at].key != key) {
        if (map->entries[at].key == 0) {
            return NULL;
        }
        at = (at + 1) & mask(map);
    }
    handle = map->entries[at].handle;
    close_gap(map, at);
    return handle;
}

static wm_handle_entry *find(const wm_handle_map *map, uint64_t key)
{
    size_t at;

    if (map->entries == NULL || key == 0) {
        return NULL;
    }
    at = home(map, key);
    while (map->entries[at].key != key && map->entries[at].key != 0) {
        at = (at + 1) & mask(map);
    }
    return map->entries[at].key == key ? &map->entries[at] : NULL;
}

void *wm_handle_map_find(const wm_handle_map *map, uint64_t key)
{
    const wm_handle_entry *entry = find(map, key);

    return entry != NULL ? entry->handle : NULL;
}

void wm_handle_map_set(wm_handle_map *map, uint64_t key, void *handle)
{
    wm_handle_entry *entry = find(map, key);

    if (entry != NULL) {
        entry->handle = handle;
    }
}

unsigned wm_handle_map_count(const wm_handle_map *map, uint64_t key)
{
    unsigned count = 0;

    if (map->entries == NULL || key == 0) {
        return 0;
    }
    for (size_t at = home(map, key); map->entries[at].key != 0;
         at = (at + 1) & mask(map)) {
        count += map->entries[at].key == key;
    }
    return count;
}

void wm_handle_map_each(const wm_handle_map *map,
                        void (*fn)(const wm_handle_entry *entry,
                                   void *argument),
                        void *argument)
{
    for (size_t at = 0; map->entries != NULL && at <= mask(map); at++) {
        if (map->entries[at].key != 0) {
            fn(&map->entries[at], argument);
        }
    }
}
