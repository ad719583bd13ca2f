/* completed.c: caches completed blocks in the set of the thread that freed
 * them, as far as the set has room.
 *
 * The caller has locked the set's window; takes lock arena. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

/* Pushes a block that no caller frees: the counts of blocks that callers hold
 * do not change. wm_room_cache() then adds the bytes of many such blocks at
 * once. */
static inline void push_uncounted(wm_magazine_set *set, wm_magazine *m,
                                  wm_block *block)
{
    wm_block_set_state(block, set->cached);
    *m->top++ = (wm_entry){.block = block, .base = block->base};
    wm_magazine_supply(set, m)->base++;
    block->counted = false;
}

/* most: bytes that the set may still cache. */
static bool push_completed_locked(wm_magazine_set *set, wm_block *block,
                                  int64_t most)
{
    wm_magazine *m;

    if (!wm_magazine_set_has_place(set, block)) {
        return false;
    }
    m = &set->of[block->size_class];
    if (m->top == m->end || m->bytes > most ||
        m->bytes > wm_magazine_set_block_max(set) ||
        wm_block_fate(block) != WM_BLOCK_IDLE) {
        return false;
    }
    push_uncounted(set, m, block);
    return true;
}

wm_block *wm_cache_add_completed(wm_magazine_set *set, wm_block *chain)
{
    wm_block *rest = NULL;
    size_t count = 0, bytes = 0;
    int64_t most;

    wm_magazine_set_budget(set);
    most = set->bytes_max - wm_magazine_set_bytes(set);
    wm_lock_acquire(&set->arena->lock);
    while (chain != NULL) {
        wm_block *next = chain->next_done;

        if (push_completed_locked(set, chain, most - (int64_t)bytes)) {
            bytes += chain->bytes;
            count++;
        } else {
            chain->next_done = rest;
            rest = chain;
        }
        chain = next;
    }
    wm_room_cache(set, (int64_t)bytes);
    wm_arena_end_pending_locked(set->arena, count, bytes);
    wm_lock_release(&set->arena->lock);
    return rest;
}

void wm_cache_add_pending_batch(wm_magazine_set *set,
                                const wm_pending_batch *batch)
{
    wm_block *rest[WM_PENDING_BLOCKS];
    size_t left = 0;
    int64_t bytes = 0, most;

    wm_magazine_set_budget(set);
    if (batch->counted > 0) {
        wm_lock_acquire(&set->arena->lock);
        wm_arena_end_pending_locked(set->arena, batch->counted,
                                    batch->counted_bytes);
        wm_lock_release(&set->arena->lock);
    }
    most = set->bytes_max - wm_magazine_set_bytes(set);
    for (size_t i = 0; i < batch->count; i++) {
        wm_block *block = batch->block[i];
        wm_magazine *m = &set->of[block->size_class];

        /* The free put the class to use; a magazine without entries has top ==
         * end. */
        if (m->top == m->end || m->bytes > wm_magazine_set_block_max(set) ||
            bytes + m->bytes > most) {
            rest[left++] = block;
            continue;
        }
        push_uncounted(set, m, block);
        bytes += m->bytes;
    }
    wm_room_cache(set, bytes);
    for (size_t i = 0; i < left; i++) {
        wm_cache_put_back(set, rest[i]);
    }
}
