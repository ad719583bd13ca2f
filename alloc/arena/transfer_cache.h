/* transfer_cache.h: batches flushed from full magazines, by size class, for
 * magazines that refill; a part of the arena.
 *
 *   freeing thread ──► half a magazine ──► transfer cache ──► allocating thread
 *
 * Without it every block that one thread allocates and another frees would be
 * split off a run and merged again under the lock; here the block is a pointer
 * pushed and a pointer popped. Its blocks are CACHED, of no set, and count as
 * idle: they are merged with their neighbours as soon as a request finds no run
 * in the arena, and before idle memory is detached. Everything here: lock
 * arena, except wm_transfer_cache_count(). */
#ifndef WM_TRANSFER_CACHE_H
#define WM_TRANSFER_CACHE_H

#include "alloc/block/block.h"

struct wm_arena;

enum { WM_TRANSFER_CACHE_BLOCKS = 512 }; /* most of a class */

typedef struct wm_transfer_cache {
    size_t bytes;
    bool used; /* since wm_arena_age_transfer_cache_locked() */
    /* Relaxed: written under the lock, also read without it. */
    _Atomic uint16_t count[WM_CLASSES];
    wm_entry *of[WM_CLASSES]; /* null: never used; owned */
} wm_transfer_cache;

/* Exact under the lock; else the value of a moment ago. */
static inline unsigned wm_transfer_cache_count(const wm_transfer_cache *cache,
                                               unsigned size_class)
{
    return atomic_load_explicit(&cache->count[size_class],
                                memory_order_relaxed);
}

/* Caches the caller's CACHED blocks of a class, as many as there is room for if
 * the cache may hold bytes_max. Returns how many: the first ones. */
unsigned wm_transfer_cache_put_locked(struct wm_arena *arena,
                                      unsigned size_class,
                                      const wm_entry *entries, unsigned count,
                                      size_t bytes_max);

/* Takes up to count blocks, without touching their records; returns how many.
 * The caller sets their states outside the lock, and until then they look as if
 * they were still in the cache: the records are usually in another core's
 * cache, and each load of one is slow. */
unsigned wm_transfer_cache_take_locked(struct wm_arena *arena,
                                       unsigned size_class, unsigned count,
                                       wm_entry *entries);

/* Frees its arrays; the blocks are forgotten. */
void wm_transfer_cache_fini(wm_transfer_cache *cache);

#endif
