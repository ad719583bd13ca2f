/* arena.c: handing blocks out and taking them back.
 *
 * Takes lock arena in every public function; nothing below it calls anything
 * but the page map, the fit tree and metadata allocation. Its parts are in
 * arena_int.h, its figures in arena_stats.c, its walk in arena_check.c. */
#include "alloc/arena_int.h"

#include "alloc/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

/* ---- blocks ----------------------------------------------------------- */

static void put_locked(wm_arena *arena, wm_block *block)
{
    if (block->slab != NULL) {
        wm_slab_put_locked(arena, block);
    } else {
        wm_run_put_locked(arena, block);
    }
}

wm_block *wm_arena_take_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    unsigned size_class = wm_size_class(bytes);
    size_t rounded = wm_size_round(bytes);
    wm_block *block;

    block = rounded < WM_SLAB_LIMIT
                ? wm_slab_take_locked(arena, size_class, failed)
                : wm_run_take_locked(arena, rounded, failed);
    if (block != NULL) {
        wm_assert(block->bytes >= bytes);
        block->requested = bytes;
        block->size_class = size_class;
        /* Relaxed: published by the state below. */
        atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
        atomic_store_explicit(&block->first_use_taken, false,
                              memory_order_relaxed);
        atomic_store_explicit(&block->captured, false, memory_order_relaxed);
        atomic_store_explicit(&block->stuck, false, memory_order_relaxed);
        wm_arena_note_take_locked(arena, block);
        wm_block_set_state(block, WM_BLOCK_LIVE);
    }
    return block;
}

wm_block *wm_arena_take(wm_arena *arena, size_t bytes, bool *starved)
{
    wm_block *block;

    wm_lock_acquire(&arena->lock);
    block = wm_arena_take_locked(arena, bytes, starved);
    arena->stats.cache_hits += block != NULL;
    wm_lock_release(&arena->lock);
    return block;
}

size_t wm_arena_run_bytes(size_t bytes)
{
    size_t rounded = wm_size_round(bytes);

    return rounded < WM_SLAB_LIMIT
               ? wm_slab_slots(wm_size_class(bytes)) * rounded
               : rounded;
}

void wm_arena_free(wm_arena *arena, wm_block *block)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block);
    put_locked(arena, block);
    wm_lock_release(&arena->lock);
}

void wm_arena_free_pending(wm_arena *arena, wm_block *block)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block);
    wm_arena_note_pending_locked(arena, block, true);
    wm_block_set_state(block, WM_BLOCK_PENDING);
    wm_lock_release(&arena->lock);
}

void wm_arena_free_kept(wm_arena *arena, wm_block *block, int state)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block);
    wm_arena_note_kept_locked(arena, block, state);
    wm_block_set_state(block, state);
    wm_lock_release(&arena->lock);
}

void wm_arena_finish(wm_arena *arena, wm_block *block, bool lost)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_pending_locked(arena, block, false);
    if (lost) {
        wm_arena_note_kept_locked(arena, block, WM_BLOCK_LOST);
        wm_block_set_state(block, WM_BLOCK_LOST);
    } else {
        put_locked(arena, block);
    }
    wm_lock_release(&arena->lock);
}

/* ---- begin and end ---------------------------------------------------- */

void wm_arena_init(wm_arena *arena, void *owner)
{
    memset(arena, 0, sizeof *arena);
    wm_lock_init(&arena->lock, WM_RANK_ARENA);
    arena->owner = owner;
}

void wm_arena_each_live(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context)
{
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        for (wm_block *run = wm_segment_first_run(s); run != NULL;
             run = run->after) {
            wm_block *slot = wm_block_at(run->base);

            if (wm_block_state(run) == WM_BLOCK_LIVE) {
                fn(context, run);
            }
            for (unsigned i = 0;
                 wm_block_state(run) == WM_BLOCK_SLAB && i < slot->slab->slots;
                 i++) {
                if (wm_block_state(&slot->slab->slot[i]) == WM_BLOCK_LIVE) {
                    fn(context, &slot->slab->slot[i]);
                }
            }
        }
    }
}

void wm_arena_fini(wm_arena *arena)
{
    struct wm_chunk *chunk = arena->record_chunks;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_page_map_fill(s->base, s->bytes, NULL, WM_ENTRY_RUN);
    }
    while (arena->all_segments != NULL) {
        wm_segment *segment = arena->all_segments;

        arena->all_segments = segment->next_made;
        wm_meta_free(segment);
    }
    while (arena->all_slabs != NULL) {
        wm_slab *slab = arena->all_slabs;

        arena->all_slabs = slab->next_made;
        wm_meta_free(slab);
    }
    while (chunk != NULL) {
        struct wm_chunk *next = chunk->next;

        wm_meta_free(chunk);
        chunk = next;
    }
    wm_lock_fini(&arena->lock);
}
