/* host_object.c: the map of live objects of the host device; its errors.
 *
 * Every handle that a user passes in is looked up here first, so that a stale
 * or wrong pointer is refused and never dereferenced. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

static const struct {
    int code;
    warm_status status;
    const char *text;
} errors[] = {
#define ROW(name, code, status, text) {code, WARM_##status, text},
    WM_HOST_ERROR_MAP(ROW)
#undef ROW
};

warm_status wm_host_fail(enum wm_host_error error, const char *format, ...)
{
    char message[384];
    va_list list;

    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return wm_fail_code(errors[error].status, "host", errors[error].code,
                        errors[error].text, "%s", message);
}

/* Addresses are multiples of 64 or more: their low bits are no hash. */
static size_t home(const wm_host_map *map, uintptr_t key)
{
    uint64_t mixed = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(mixed >> 32) & (map->capacity - 1);
}

static wm_host_slot *find(const wm_host_map *map, uintptr_t key)
{
    size_t i = home(map, key);

    while (map->slot[i].key != 0 && map->slot[i].key != key) {
        i = (i + 1) & (map->capacity - 1);
    }
    return &map->slot[i];
}

/* False if there is no memory; the map is then as it was. */
static bool resize(wm_host_map *map, size_t capacity)
{
    wm_host_map other = {.count = map->count, .capacity = capacity};

    other.slot = wm_meta_alloc(other.capacity * sizeof *other.slot);
    if (other.slot == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slot[i].key != 0) {
            *find(&other, map->slot[i].key) = map->slot[i];
        }
    }
    wm_meta_free(map->slot);
    *map = other;
    return true;
}

static bool grow(wm_host_map *map)
{
    return resize(map, map->capacity > 0 ? map->capacity * 2 : FIRST_CAPACITY);
}

bool wm_host_map_put(wm_host_map *map, const void *key, enum wm_host_type type,
                     void *object)
{
    if ((map->count + 1) * 2 > map->capacity && !grow(map)) {
        return false;
    }
    *find(map, (uintptr_t)key) = (wm_host_slot){(uintptr_t)key, object, type};
    map->count++;
    return true;
}

void *wm_host_map_get(const wm_host_map *map, const void *key,
                      enum wm_host_type type)
{
    const wm_host_slot *slot;

    if (key == NULL || map->capacity == 0) {
        return NULL;
    }
    slot = find(map, (uintptr_t)key);
    return slot->key != 0 && slot->type == type ? slot->object : NULL;
}

/* Moves later entries of the probe run back into the hole, so that no lookup
 * stops too early and no tombstone is needed. */
void wm_host_map_remove(wm_host_map *map, const void *key)
{
    size_t mask = map->capacity - 1;
    size_t hole = (size_t)(find(map, (uintptr_t)key) - map->slot);
    size_t i = hole;

    wm_assert(map->slot[hole].key == (uintptr_t)key);
    for (;;) {
        i = (i + 1) & mask;
        if (map->slot[i].key == 0) {
            break;
        }
        if (((i - home(map, map->slot[i].key)) & mask) >= ((i - hole) & mask)) {
            map->slot[hole] = map->slot[i];
            hole = i;
        }
    }
    map->slot[hole] = (wm_host_slot){0};
    map->count--;
    if (map->capacity > FIRST_CAPACITY && map->count < map->capacity / 8) {
        (void)resize(map, map->capacity / 2);
    }
}

static void *pop(wm_host_cells *cells)
{
    void *cell = cells->free;

    if (cell != NULL) {
        memcpy(&cells->free, cell, sizeof cells->free);
        cells->kept--;
    }
    return cell;
}

void *wm_host_cell_take(wm_host_cells *cells)
{
    void *cell = pop(cells);

    if (cell != NULL) {
        memset(cell, 0, cells->bytes);
    } else {
        cell = wm_meta_alloc(cells->bytes);
    }
    cells->used += cell != NULL;
    return cell;
}

/* One record more is free and one fewer in use, so the bound may be exceeded
 * by two. */
void wm_host_cell_put(wm_host_cells *cells, void *cell)
{
    memcpy(cell, &cells->free, sizeof cells->free);
    cells->free = cell;
    cells->kept++;
    cells->used--;
    for (int i = 0; i < 2 && cells->kept > cells->used + WM_HOST_CELLS_KEEP;
         i++) {
        wm_meta_free(pop(cells));
    }
}

void wm_host_cells_fini(wm_host_cells *cells)
{
    while (cells->free != NULL) {
        wm_meta_free(pop(cells));
    }
}
