/* map.c: open addressing with backward-shift deletion (map.h). */
#include "runtime/base/map.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

enum { FIRST_ROOM = 32 };

/* Fibonacci hashing, 2^64 over the golden ratio: consecutive numbers and
 * equally spaced addresses spread over the table. */
static size_t home(const wm_map *map, uint64_t key)
{
    uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(mixed >> 32) & (map->capacity - 1);
}

void *wm_map_move(wm_map *map, void *memory, size_t room)
{
    void *old = map->entries;
    wm_map moved = {.entries = memory, .capacity = 2 * room};

    for (const wm_map_entry *e = wm_map_next(map, NULL); e != NULL;
         e = wm_map_next(map, e)) {
        wm_map_put(&moved, e->key, e->value);
    }
    *map = moved;
    return old;
}

bool wm_map_reserve(wm_map *map, size_t room)
{
    size_t grown = map->capacity > 0 ? map->capacity / 2 : FIRST_ROOM;
    void *memory;

    if (2 * room <= map->capacity) {
        return true;
    }
    while (grown < room) {
        grown *= 2;
    }
    memory = wm_meta_alloc(wm_map_bytes(grown));
    if (memory != NULL) {
        wm_meta_free(wm_map_move(map, memory, grown));
    }
    return memory != NULL;
}

void wm_map_shrink(wm_map *map)
{
    size_t room = map->capacity / 4;
    void *memory;

    if (room < FIRST_ROOM || map->count >= room / 2) {
        return;
    }
    memory = wm_meta_alloc(wm_map_bytes(room));
    if (memory != NULL) {
        wm_meta_free(wm_map_move(map, memory, room));
    }
}

void wm_map_fini(wm_map *map)
{
    wm_meta_free(map->entries);
    *map = (wm_map){0};
}

void wm_map_put(wm_map *map, uint64_t key, void *value)
{
    size_t at = home(map, key);

    wm_assert(key != 0 && map->count < map->capacity / 2);
    while (map->entries[at].key != 0) {
        at = (at + 1) & (map->capacity - 1);
    }
    map->entries[at] = (wm_map_entry){key, value};
    map->count++;
}

wm_map_entry *wm_map_find(const wm_map *map, uint64_t key)
{
    size_t at;

    if (map->capacity == 0 || key == 0) {
        return NULL;
    }
    at = home(map, key);
    while (map->entries[at].key != key) {
        if (map->entries[at].key == 0) {
            return NULL;
        }
        at = (at + 1) & (map->capacity - 1);
    }
    return &map->entries[at];
}

void *wm_map_take(wm_map *map, uint64_t key)
{
    wm_map_entry *gap = wm_map_find(map, key);
    size_t mask = map->capacity - 1;
    void *value;

    if (gap == NULL) {
        return NULL;
    }
    value = gap->value;
    /* Moves up entries that a search would miss behind the gap: those whose
     * probe sequence passes it. */
    for (size_t at = (size_t)(gap - map->entries + 1) & mask;
         map->entries[at].key != 0; at = (at + 1) & mask) {
        size_t probed = (at - home(map, map->entries[at].key)) & mask;

        if (probed >= ((at - (size_t)(gap - map->entries)) & mask)) {
            *gap = map->entries[at];
            gap = &map->entries[at];
        }
    }
    *gap = (wm_map_entry){0, NULL};
    map->count--;
    return value;
}

const wm_map_entry *wm_map_next(const wm_map *map, const wm_map_entry *entry)
{
    size_t at = entry != NULL ? (size_t)(entry - map->entries) + 1 : 0;

    while (at < map->capacity && map->entries[at].key == 0) {
        at++;
    }
    return at < map->capacity ? &map->entries[at] : NULL;
}
