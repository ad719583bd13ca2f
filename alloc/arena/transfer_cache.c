/* transfer_cache.c: see transfer_cache.h. Calls only metadata allocation. */
#include "alloc/arena/transfer_cache.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

static wm_entry *stack_of(wm_transfer_cache *cache, unsigned size_class)
{
    wm_entry **stack = &cache->of[size_class];

    if (*stack == NULL) {
        *stack = wm_meta_alloc(WM_TRANSFER_CACHE_BLOCKS * sizeof **stack);
    }
    return *stack;
}

/* Blocks that there is room for. */
static unsigned room(const wm_transfer_cache *cache, unsigned size_class,
                     size_t bytes_max)
{
    size_t left = bytes_max > cache->bytes ? bytes_max - cache->bytes : 0;
    size_t fit = left / wm_class_bytes(size_class);
    unsigned free =
        WM_TRANSFER_CACHE_BLOCKS - wm_transfer_cache_count(cache, size_class);

    return fit < free ? (unsigned)fit : free;
}

static void note(wm_arena *arena, unsigned size_class, int change)
{
    wm_transfer_cache *cache = &arena->transfer_cache;
    size_t bytes = (size_t)change * wm_class_bytes(size_class);

    atomic_store_explicit(
        &cache->count[size_class],
        (uint16_t)((int)wm_transfer_cache_count(cache, size_class) + change),
        memory_order_relaxed);
    cache->bytes += bytes;
    arena->out_bytes -= bytes;
    cache->used = true;
}

unsigned wm_transfer_cache_put_locked(wm_arena *arena, unsigned size_class,
                                      const wm_entry *entries, unsigned count,
                                      size_t bytes_max)
{
    wm_transfer_cache *cache = &arena->transfer_cache;
    unsigned most = room(cache, size_class, bytes_max);
    wm_entry *stack;

    count = count < most ? count : most;
    stack = count > 0 ? stack_of(cache, size_class) : NULL;
    if (stack == NULL) {
        return 0;
    }
    stack += wm_transfer_cache_count(cache, size_class);
    for (unsigned i = 0; i < count; i++) {
        stack[i] = entries[i];
        wm_block_set_state(stack[i].block, wm_state_of_set(WM_BLOCK_CACHED, 0));
    }
    note(arena, size_class, (int)count);
    return count;
}

unsigned wm_transfer_cache_take_locked(wm_arena *arena, unsigned size_class,
                                       unsigned count, wm_entry *entries)
{
    wm_transfer_cache *cache = &arena->transfer_cache;
    unsigned have = wm_transfer_cache_count(cache, size_class);

    count = count < have ? count : have;
    if (count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        entries[i] = cache->of[size_class][have - 1 - i];
    }
    note(arena, size_class, -(int)count);
    return count;
}

void wm_transfer_cache_fini(wm_transfer_cache *cache)
{
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        wm_meta_free(cache->of[i]);
    }
}
