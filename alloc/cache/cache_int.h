/* cache_int.h: shared by the files of the thread cache. The caller has locked
 * the window of the set; functions named `_locked` need lock arena as well. */
#ifndef WM_CACHE_INT_H
#define WM_CACHE_INT_H

#include "alloc/cache/pending_hit.h"
#include "alloc/cache/stream_slot.h"

/* Null: the window has no set of page-locked memory. */
static inline wm_magazine_set *wm_cache_set_of(wm_window *window)
{
    return atomic_load_explicit(&window->magazines, memory_order_relaxed);
}

/* The lane from which blocks of an arena are allocated. */
static inline wm_lane *wm_magazine_set_lane(const wm_magazine_set *set,
                                            wm_arena *arena)
{
    return set->lane != NULL ? set->lane : &arena->common;
}

/* Whether a set has the block cached. */
static inline bool wm_magazine_set_caches(const wm_magazine_set *set,
                                          const wm_block *block)
{
    /* Relaxed: only a thread that has locked or entered the window changes a
     * state to or from set->cached. */
    return atomic_load_explicit(&block->state, memory_order_relaxed) ==
           set->cached;
}

/* Whether a set may cache a block at all. */
static inline bool wm_magazine_set_has_place(const wm_magazine_set *set,
                                             const wm_block *block)
{
    return block->size_class < WM_CLASSES &&
           wm_arena_is_sibling(block->segment->arena, set->arena) &&
           block->bytes <= set->group->magazine_bytes &&
           !wm_block_is_cut(block);
}

/* ---- pending.c ----------------------------------------------------------- */

/* References to its timeline that a slot takes at once. */
enum { WM_PENDING_STOCK = 256 };

static inline void wm_pending_clear_batch(wm_pending_batch *batch)
{
    batch->count = batch->bytes = batch->counted = batch->counted_bytes = 0;
    batch->event = NULL;
}

/* Assigns an unused slot to a timeline, whose reference the slot takes over. */
void wm_pending_begin_stream(wm_magazine_set *set, wm_pending_stream *slot,
                             wm_timeline *t);
/* Flushes a slot to its timeline: closed batches into the queue, the open batch
 * into the timeline's open one. Returns whether that is full. one: this slot is
 * one of many flushed together. */
bool wm_pending_flush(wm_magazine_set *set, wm_pending_stream *slot, bool one);
/* Flushes the slot and frees it for another stream. If the owner is in a driver
 * call, a flush or detach is left to it as a request. */
void wm_pending_detach(wm_magazine_set *set, wm_pending_stream *slot);
/* Detaches all slots; frees the slots of a set that no thread has. */
void wm_pending_end(wm_magazine_set *set);
void wm_pending_fini(wm_pending *pending);
/* The set has moved to another arena. */
void wm_pending_note_home(wm_magazine_set *set);

/* The slot gets a turn, the last one, if it has none; or becomes idle. */
void wm_pending_want_turn(wm_pending *pending, wm_pending_stream *slot);
void wm_pending_end_turn(wm_pending *pending, wm_pending_stream *slot);

/* After batches left the slot: recomputes the slot's fields that other threads
 * read. count, bytes: of the blocks that completed uncounted. */
void wm_pending_recount(wm_magazine_set *set, wm_pending_stream *slot,
                        size_t count, size_t bytes);
/* Counts all blocks of the set's slots as pending in the arena. */
void wm_pending_count_all(wm_magazine_set *set);
/* Adds the blocks that completed uncounted to the arena's figures. */
void wm_pending_merge_stats_locked(wm_magazine_set *set);

/* ---- magazine_room.c ----------------------------------------------------- */

/* So many bytes more are cached (or less), which no caller freed. */
void wm_room_cache(wm_magazine_set *set, int64_t cached);
/* Returns all room; the next hit claims some again. */
void wm_room_return(wm_magazine_set *set);
/* Computes the bounds of the room, after bytes_max or sharers changed. */
void wm_room_bound(wm_magazine_set *set);
/* For tests: the set's test of a room is that of its bounds. */
bool wm_room_check(const wm_magazine_set *set);

/* Merges what was counted since the last merge into the arena's figures. */
void wm_magazine_set_merge_stats_locked(wm_magazine_set *set);
/* Adjusts the counts for entries that were added or removed without a
 * caller. */
void wm_magazine_recount(wm_magazine_set *set, wm_magazine *m, int64_t change);
/* Drops, among the first entries, blocks that another thread freed as well.
 * Returns how many of the first entries are left. */
unsigned wm_magazine_sift(wm_magazine_set *set, wm_magazine *m, unsigned first);

/* ---- thread_caches.c ----------------------------------------------------- */

/* Calls visit with every set of the group. */
void wm_cache_visit(wm_arena_group *group,
                    void (*visit)(wm_magazine_set *set, const void *context),
                    void *context);

/* ---- flush.c, completed.c ------------------------------------------------ */

/* Flushes the set's blocks of its home arena, whose lock the caller has. */
uint64_t wm_cache_flush_locked(wm_magazine_set *set, enum wm_part part);
/* Flushes all blocks of siblings of the home arena. Takes their locks. */
uint64_t wm_cache_flush_siblings(wm_magazine_set *set);
/* Flushes the oldest entries of one class: small blocks to the transfer caches,
 * whole, others to the arenas. */
void wm_magazine_flush(wm_magazine_set *set, wm_magazine *m, unsigned oldest);
/* Puts a block that the set does not keep into a transfer cache or its arena.
 */
void wm_cache_put_back(const wm_magazine_set *set, wm_block *block);
/* Flushes blocks of the doubling of sizes that has most bytes in the set, until
 * the set has at most so many bytes. */
void wm_cache_evict(wm_magazine_set *set, int64_t most);
/* Flushes one block of the set. Lock arena, of the block's own arena. */
void wm_cache_flush_block_locked(wm_magazine_set *set, wm_block *block);

/* Caches PENDING blocks that have left every queue, chained by next_done.
 * Returns the chain of blocks that do not fit or are retained. */
wm_block *wm_cache_add_completed(wm_magazine_set *set, wm_block *chain);
/* Caches the blocks of a completed batch of the set, which are BATCHED, or
 * PENDING as far as the arena counted them. Blocks that do not fit go to their
 * arenas. */
void wm_cache_add_pending_batch(wm_magazine_set *set,
                                const wm_pending_batch *batch);

/* ---- magazine_set.c ------------------------------------------------------ */

/* Called at misses and overflows: computes now and then how much the set may
 * cache. Takes lock arena. */
void wm_magazine_set_budget(wm_magazine_set *set);
/* Puts a class to use, if it is not. Null: its blocks are larger than option
 * magazine_bytes, or there is no memory for its entries. */
wm_magazine *wm_magazine_use(wm_magazine_set *set, unsigned size_class);
/* After so many refills a set that met a held lock arena often enough moves to
 * a sibling arena. */
enum { WM_CONTENTION_SAMPLE = 128, WM_CONTENTION_LIMIT = 4 };
void wm_cache_move_to_sibling(wm_magazine_set *set);

/* ---- magazine.c ---------------------------------------------------------- */

/* Tags a LIVE block that an arena allocated as the set's. */
void wm_magazine_set_tag_block(wm_magazine_set *set, wm_block *block);

#endif
