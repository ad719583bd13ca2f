/* transfer_cache.h: what full magazines gave back, kept by size class for those
 * that miss; a part of the arena.
 *
 *   thread that frees ──► half a magazine ──► depot ──► thread that allocates
 *
 * Between an arena and its magazines a block is split off and joined again,
 * under the lock; where one thread allocates what another frees, that would be
 * done for every block. Here it is a pointer in, a pointer out. The blocks are
 * CACHED, of no set, and count as idle: they are joined with their neighbours
 * as soon as a request finds nothing in the arena, and before idle memory is
 * looked for to be given back. All of it: lock arena, but a look at how many
 * there are. */
#ifndef WM_TRANSFER_CACHE_H
#define WM_TRANSFER_CACHE_H

#include "alloc/block/block.h"

struct wm_arena;

enum { WM_TRANSFER_CACHE_BLOCKS = 512 }; /* most of a class */

typedef struct wm_transfer_cache {
    size_t bytes;
    bool used; /* since wm_arena_age_transfer_cache_locked() */
    /* Relaxed: written under the lock, peeked at without. */
    _Atomic uint16_t count[WM_CLASSES];
    wm_entry *of[WM_CLASSES]; /* null: never used; owned */
} wm_transfer_cache;

/* Exact under the lock; else what it was a moment ago. */
static inline unsigned wm_transfer_cache_count(const wm_transfer_cache *cache,
                                               unsigned size_class)
{
    return atomic_load_explicit(&cache->count[size_class],
                                memory_order_relaxed);
}

/* Takes CACHED blocks of a class, the caller's, that are out of the arena, as
 * many as find room if the depot is to keep bytes_max at most. Answers how
 * many: the first ones. */
unsigned wm_transfer_cache_put_locked(struct wm_arena *arena,
                                      unsigned size_class,
                                      const wm_entry *entries, unsigned count,
                                      size_t bytes_max);

/* Hands out up to count blocks, in the state that they have. Answers how many.
 * What the caller makes of them it does without the lock, and until then they
 * look as if the depot had them: their records are in another processor's
 * cache, most often, and each takes its time to come. */
unsigned wm_transfer_cache_take_locked(struct wm_arena *arena,
                                       unsigned size_class, unsigned count,
                                       wm_entry *entries);

/* Frees what it is made of; blocks are forgotten. */
void wm_transfer_cache_fini(wm_transfer_cache *cache);

#endif
