/* arena.c: blocks are allocated from an arena and freed to it.
 *
 * Every public function takes lock arena; nothing below it calls anything but
 * the page map, the bins and metadata allocation. arena_int.h lists the other
 * parts. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
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

static wm_block *find_locked(wm_arena *arena, wm_lane *lane,
                             unsigned size_class, size_t rounded,
                             enum wm_split split, bool *failed)
{
    return rounded < WM_SLAB_LIMIT
               ? wm_slab_take_locked(arena, lane, size_class, split, failed)
               : wm_run_take_locked(arena, lane, rounded, split, failed);
}

/* A block leaves the arena; counted in out_bytes only. */
static wm_block *get_locked(wm_arena *arena, wm_lane *lane, unsigned size_class,
                            size_t rounded, enum wm_split split, bool *failed)
{
    wm_block *block =
        find_locked(arena, lane, size_class, rounded, split, failed);

    if (block == NULL && wm_arena_empty_transfer_cache_locked(arena)) {
        block = find_locked(arena, lane, size_class, rounded, split, failed);
    }
    if (block != NULL) {
        arena->out_bytes += block->bytes;
        block->size_class = size_class;
        block->lane_id =
            (block->slab != NULL ? block->slab->run->lane : block->lane)->id;
        block->counted = false;
        /* Relaxed: published by the state that follows. */
        atomic_store_explicit(&block->owner_stream, NULL, memory_order_relaxed);
        atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
        atomic_store_explicit(&block->first_use_taken, false,
                              memory_order_relaxed);
        atomic_store_explicit(&block->captured, false, memory_order_relaxed);
        atomic_store_explicit(&block->stuck, false, memory_order_relaxed);
    }
    return block;
}

wm_block *wm_arena_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                               enum wm_split split, bool *failed)
{
    wm_block *block = get_locked(arena, lane, wm_size_class(bytes),
                                 wm_size_round(bytes), split, failed);

    if (block != NULL) {
        wm_assert(block->bytes >= bytes);
        wm_block_set_requested(block, bytes);
        wm_arena_note_take_locked(arena, block);
        wm_block_set_state(block, WM_BLOCK_LIVE);
    }
    return block;
}

unsigned wm_arena_take_batch_locked(wm_arena *arena, wm_lane *lane,
                                    unsigned size_class, unsigned count,
                                    enum wm_split split, wm_state state,
                                    wm_entry *entries)
{
    size_t bytes = wm_class_bytes(size_class);
    bool starved = false;
    unsigned taken = 0;

    arena->batched = true;
    while (taken < count) {
        wm_block *block =
            get_locked(arena, lane, size_class, bytes, split, &starved);

        if (block == NULL) {
            break;
        }
        wm_block_set_state(block, state);
        entries[taken++] = (wm_entry){block, block->base};
        if (split == WM_SPLIT_ALLOW) {
            split = WM_SPLIT_NO_JOIN; /* the other blocks are not needed now */
        }
    }
    return taken;
}

void wm_arena_put_locked(wm_arena *arena, wm_block *block)
{
    arena->out_bytes -= block->bytes;
    put_locked(arena, block);
}

wm_block *wm_arena_take(wm_arena *arena, wm_lane *lane, size_t bytes,
                        enum wm_split split, bool *starved)
{
    wm_block *block;

    wm_lock_acquire(&arena->lock);
    block = wm_arena_take_locked(arena, lane, bytes, split, starved);
    arena->stats.cache_hits += block != NULL;
    wm_lock_release(&arena->lock);
    return block;
}

void wm_arena_free(wm_arena *arena, wm_block *block)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block, false);
    wm_arena_put_locked(arena, block);
    wm_lock_release(&arena->lock);
}

void wm_arena_begin_pending_locked(wm_arena *arena, size_t count, size_t bytes)
{
    arena->out_bytes -= bytes;
    wm_arena_note_pending_locked(arena, (int64_t)count, (int64_t)bytes);
}

void wm_arena_end_pending_locked(wm_arena *arena, size_t count, size_t bytes)
{
    arena->out_bytes += bytes;
    wm_arena_note_pending_locked(arena, -(int64_t)count, -(int64_t)bytes);
}

void wm_arena_free_pending(wm_arena *arena, wm_block *block)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block, true);
    wm_arena_begin_pending_locked(arena, 1, block->bytes);
    wm_block_set_state(block, WM_BLOCK_PENDING);
    wm_lock_release(&arena->lock);
}

void wm_arena_free_retained(wm_arena *arena, wm_block *block,
                            enum wm_block_state state)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block, false);
    arena->out_bytes -= block->bytes;
    wm_block_retain_locked(arena, block, state);
    wm_lock_release(&arena->lock);
}

wm_block *wm_arena_finish(wm_arena *arena, wm_block *chain, wm_ended *ended)
{
    wm_lock_acquire(&arena->lock);
    while (chain != NULL && chain->segment->arena == arena &&
           chain->bytes > 0) { /* a fence: see stream_lane.h */
        wm_block *next = chain->next_done;
        enum wm_block_state fate = wm_block_fate(chain);

        wm_arena_note_pending_locked(arena, -1, -(int64_t)chain->bytes);
        wm_arena_note_drained_locked(arena, chain);
        if (wm_likely(fate == WM_BLOCK_IDLE)) {
            put_locked(arena, chain);
        } else {
            ended->lost = fate == WM_BLOCK_LOST ? chain->bytes : ended->lost;
            wm_block_retain_locked(arena, chain, fate);
        }
        chain = next;
    }
    wm_lock_release(&arena->lock);
    return chain;
}

/* ---- begin and end ---------------------------------------------------- */

void wm_arena_init(wm_arena *arena, struct wm_arena_group *group, int node)
{
    memset(arena, 0, sizeof *arena);
    wm_lock_init(&arena->lock, WM_RANK_ARENA);
    arena->group = group;
    arena->node = node;
    arena->grain = WM_PAGE;
    wm_lives_init(&arena->own_live);
    wm_arena_join(arena, 1);
}

void wm_arena_join(wm_arena *arenas, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        arenas[i].lock.rank = (enum wm_rank)(WM_RANK_ARENA + i);
        arenas[i].shard = i;
        arenas[i].siblings = arenas;
        arenas[i].live = &arenas[0].own_live;
        arenas[i].next_sibling = i + 1 < count ? &arenas[i + 1] : NULL;
        /* Relaxed: no other thread has them yet. */
        atomic_store_explicit(&arenas[i].common.by_shard[i], &arenas[i].common,
                              memory_order_relaxed);
    }
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

static void free_lanes(wm_lane *lane)
{
    while (lane != NULL) {
        wm_lane *next = lane->next;

        wm_meta_free(lane);
        lane = next;
    }
}

void wm_arena_fini(wm_arena *arena)
{
    struct wm_chunk *chunk = arena->record_chunks;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_segment_forget(s);
    }
    while (arena->all_segments != NULL) {
        wm_segment *segment = arena->all_segments;

        arena->all_segments = segment->next_made;
        wm_meta_free(segment);
    }
    free_lanes(arena->lanes);
    free_lanes(arena->spare_lanes);
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
    wm_transfer_cache_fini(&arena->transfer_cache);
    wm_lock_fini(&arena->lock);
}

bool wm_arena_empty_transfer_cache_locked(wm_arena *arena)
{
    wm_entry entries[64];
    unsigned count;

    if (arena->transfer_cache.bytes == 0) {
        return false;
    }
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        while ((count = wm_transfer_cache_take_locked(arena, i, 64, entries)) >
               0) {
            for (unsigned k = 0; k < count; k++) {
                wm_arena_put_locked(arena, entries[k].block);
            }
        }
    }
    return true;
}

void wm_arena_age_transfer_cache_locked(wm_arena *arena)
{
    if (!arena->transfer_cache.used) {
        (void)wm_arena_empty_transfer_cache_locked(arena);
    }
    arena->transfer_cache.used = false;
}
