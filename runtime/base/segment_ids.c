/* segment_ids.c: a map under a lock. */
#include "runtime/base/segment_ids.h"

#include "runtime/base/status.h"

void wm_segment_ids_init(wm_segment_ids *ids)
{
    *ids = (wm_segment_ids){.last = 0};
    wm_lock_init(&ids->lock, WM_RANK_LISTENERS);
}

void wm_segment_ids_fini(wm_segment_ids *ids)
{
    wm_map_fini(&ids->map);
}

bool wm_segment_ids_reserve(wm_segment_ids *ids)
{
    bool reserved;

    wm_lock_acquire(&ids->lock);
    reserved = wm_map_reserve(&ids->map, ids->map.count + ids->reserved + 1);
    ids->reserved += reserved;
    wm_lock_release(&ids->lock);
    return reserved;
}

void wm_segment_ids_unreserve(wm_segment_ids *ids)
{
    wm_lock_acquire(&ids->lock);
    wm_assert(ids->reserved > 0);
    ids->reserved--;
    wm_lock_release(&ids->lock);
}

uint64_t wm_segment_ids_add(wm_segment_ids *ids, const void *base)
{
    uint64_t id;

    wm_lock_acquire(&ids->lock);
    wm_assert(ids->reserved > 0);
    ids->reserved--;
    id = ++ids->last;
    wm_map_put(&ids->map, (uintptr_t)base, (void *)(uintptr_t)id);
    wm_lock_release(&ids->lock);
    return id;
}

uint64_t wm_segment_ids_get(wm_segment_ids *ids, const void *base)
{
    uint64_t id;

    wm_lock_acquire(&ids->lock);
    id = (uintptr_t)wm_map_get(&ids->map, (uintptr_t)base);
    wm_lock_release(&ids->lock);
    return id;
}

uint64_t wm_segment_ids_take(wm_segment_ids *ids, const void *base)
{
    uint64_t id;

    wm_lock_acquire(&ids->lock);
    id = (uintptr_t)wm_map_take(&ids->map, (uintptr_t)base);
    ids->reserved += id != 0;
    wm_lock_release(&ids->lock);
    return id;
}
