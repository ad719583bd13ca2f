/* transfer_cache.h: idle blocks of an arena that are not merged, by size class:
 * what magazines have too much of, and where they look first.
 *
 *   freeing thread ──► transfer cache ──► allocating thread
 *
 * A block that one thread frees and another allocates would else be merged with
 * its neighbours and split off again, under lock arena; here it is an entry
 * that is pushed and popped, under a lock of its class that is held for a few
 * instructions. Its blocks are CACHED, of no set, and count as idle: they are
 * merged as soon as a request finds no run in the arena, and before idle memory
 * is detached.
 *
 * A thread may hold its window and lock arena, and takes the lock of one class
 * at a time. */
#ifndef WM_TRANSFER_CACHE_H
#define WM_TRANSFER_CACHE_H

#include "alloc/block/block.h"
#include "alloc/block/size_class.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WM_TRANSFER_CACHE_BLOCKS = 512 }; /* most of a class */

typedef struct wm_transfer_class {
    _Alignas(32) _Atomic bool locked;
    bool used; /* since the last wm_transfer_class_age() */
    /* Relaxed: written under the lock, also read without it. */
    _Atomic uint16_t count;
    uint16_t room;     /* entries allocated */
    wm_entry *entries; /* null: never used; owned */
} wm_transfer_class;

typedef struct wm_transfer_cache {
    wm_transfer_class of[WM_CLASSES];
} wm_transfer_cache;

/* Exact under the lock; else the value of a moment ago. */
static inline unsigned wm_transfer_count(const wm_transfer_class *c)
{
    return atomic_load_explicit(&c->count, memory_order_relaxed);
}

/* False: another thread has the lock. */
static inline bool wm_transfer_try(wm_transfer_class *c)
{
    return !atomic_load_explicit(&c->locked, memory_order_relaxed) &&
           !atomic_exchange_explicit(&c->locked, true, memory_order_acquire);
}

static inline void wm_transfer_unlock(wm_transfer_class *c)
{
    atomic_store_explicit(&c->locked, false, memory_order_release);
}

static inline void wm_transfer_set_count_locked(wm_transfer_class *c,
                                                unsigned count)
{
    atomic_store_explicit(&c->count, (uint16_t)count, memory_order_relaxed);
    c->used = true;
}

/* Pushes one block, whose caller has claimed it. */
static inline void wm_transfer_push_locked(wm_transfer_class *c,
                                           wm_block *block, char *base)
{
    unsigned count = wm_transfer_count(c);

    c->entries[count] = (wm_entry){.block = block, .base = base};
    block->counted = false;
    wm_block_set_state(block, wm_state_of_set(WM_BLOCK_CACHED, 0));
    wm_transfer_set_count_locked(c, count + 1);
}

/* Whether a block is in the transfer cache: an entry is stale if another thread
 * has freed the block as well. */
static inline bool wm_transfer_has(const wm_block *block)
{
    return atomic_load_explicit(&block->state, memory_order_relaxed) ==
           wm_state_of_set(WM_BLOCK_CACHED, 0);
}

/* Removes up to count entries, the last ones first, and returns how many. Does
 * not access their blocks, which usually lie in another core's cache and are
 * slow to load: the caller looks whether they are stale, and sets their states.
 */
static inline unsigned
wm_transfer_take_locked(wm_transfer_class *c, unsigned count, wm_entry *entries)
{
    unsigned have = wm_transfer_count(c);

    count = count < have ? count : have;
    for (unsigned i = 0; i < count; i++) {
        entries[i] = c->entries[have - 1 - i];
    }
    wm_transfer_set_count_locked(c, have - count);
    return count;
}

/* The same; takes none if another thread has the lock. */
static inline unsigned wm_transfer_take_try(wm_transfer_class *c,
                                            unsigned count, wm_entry *entries)
{
    if (wm_transfer_count(c) == 0 || !wm_transfer_try(c)) {
        return 0;
    }
    count = wm_transfer_take_locked(c, count, entries);
    wm_transfer_unlock(c);
    return count;
}

/* The same; waits for the lock. */
unsigned wm_transfer_take(wm_transfer_class *c, unsigned count,
                          wm_entry *entries);

/* Pushes CACHED blocks, as many as there is room for, the first ones; waits for
 * the lock. Returns how many. */
unsigned wm_transfer_put(wm_transfer_class *c, const wm_entry *entries,
                         unsigned count);
/* Whether the class was used since the last call; and the other way round. */
bool wm_transfer_age(wm_transfer_class *c);
/* Bytes of all entries; a sum of values of a moment ago. */
size_t wm_transfer_bytes(const wm_transfer_cache *cache);
void wm_transfer_fini(wm_transfer_cache *cache);

#endif
