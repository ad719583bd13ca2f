/* arena.c: blocks are allocated from an arena and freed to it, one by one or in
 * batches through the transfer cache; blocks that graphs used are retained.
 *
 * Every public function takes lock arena; nothing below it calls anything but
 * the page map, the bins and metadata allocation. arena_int.h lists the other
 * parts. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/status.h"

#include <string.h>

/* ---- the transfer cache ------------------------------------------------- */

/* Another thread has freed the block as well and owns it: the free that brought
 * it here does not count. */
static __attribute__((noinline, cold)) void drop_locked(wm_arena *arena,
                                                        unsigned size_class)
{
    const wm_tally tally = {.blocks = 1,
                            .bytes = (int64_t)wm_class_bytes(size_class)};

    wm_arena_merge_tally_locked(arena, size_class, &tally);
    wm_arena_claim(arena, tally.blocks, tally.bytes);
    arena->stats.double_frees++;
}

static void empty_class_locked(wm_arena *arena, unsigned size_class)
{
    wm_transfer_class *c = &arena->transfer_cache.of[size_class];
    wm_entry entries[64];
    unsigned count;

    while ((count = wm_transfer_take(c, 64, entries)) > 0) {
        for (unsigned i = 0; i < count; i++) {
            if (wm_likely(wm_transfer_has(entries[i].block))) {
                wm_arena_put_locked(arena, entries[i].block);
            } else {
                drop_locked(arena, size_class);
            }
        }
    }
}

bool wm_arena_empty_transfer_cache_locked(wm_arena *arena)
{
    size_t before = arena->out_bytes;

    for (unsigned i = 0; i < WM_CLASSES; i++) {
        empty_class_locked(arena, i);
    }
    return arena->out_bytes < before;
}

void wm_arena_age_transfer_cache_locked(wm_arena *arena)
{
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        if (!wm_transfer_age(&arena->transfer_cache.of[i])) {
            empty_class_locked(arena, i);
        }
    }
}

/* ---- what callers hold --------------------------------------- */

/* A caller allocates the block (n is 1) or frees it (-1). */
static inline __attribute__((always_inline)) void
count_locked(wm_arena *arena, const wm_block *block, int n)
{
    struct wm_class_figures *figures = &arena->classes[block->size_class];
    int64_t asked = n * (int64_t)wm_block_requested(block);
    int64_t bytes = n * (int64_t)block->bytes;

    wm_arena_claim(arena, n, bytes);
    wm_total_add(&figures->live, n, n > 0);
    wm_total_add(&figures->requested_bytes, asked, n > 0 ? (uint64_t)asked : 0);
    wm_total_add(&figures->live_bytes, bytes, n > 0 ? (uint64_t)bytes : 0);
}

/* Takes back the count of an allocation. */
static void uncount_locked(wm_arena *arena, const wm_block *block)
{
    struct wm_class_figures *figures = &arena->classes[block->size_class];

    count_locked(arena, block, -1);
    figures->live.allocated--;
    figures->requested_bytes.allocated -= wm_block_requested(block);
    figures->live_bytes.allocated -= block->bytes;
}

static void note_draining_locked(wm_arena *arena, const wm_block *block,
                                 int change)
{
    wm_figures *figures = &arena->figures[!block->segment->small];
    int64_t bytes = (int64_t)block->bytes;

    if (wm_arena_is_sorted(arena)) {
        wm_total_add(&figures->draining, change, 0);
        wm_total_add(&figures->draining_bytes, change * bytes, 0);
    }
}

static inline __attribute__((always_inline)) void
note_give_locked(wm_arena *arena, const wm_block *block, bool drains)
{
    if (drains) {
        note_draining_locked(arena, block, 1);
    }
    if (wm_likely(!block->counted)) {
        count_locked(arena, block, -1);
    }
}

/* ---- blocks ------------------------------------------------------------- */

static inline void put_locked(wm_arena *arena, wm_block *block)
{
    if (block->slab != NULL) {
        wm_slab_put_locked(arena, block);
    } else {
        if (wm_unlikely(wm_block_is_cut(block))) {
            wm_span_end_locked(arena, block);
        }
        wm_run_put_locked(arena, block);
    }
}

void wm_arena_put_locked(wm_arena *arena, wm_block *block)
{
    arena->out_bytes -= block->bytes;
    put_locked(arena, block);
}

static inline wm_block *find_locked(wm_arena *arena, wm_lane *lane,
                                    unsigned size_class, size_t rounded,
                                    enum wm_split split, bool *failed)
{
    wm_block *block;

    if (rounded < WM_SLAB_LIMIT) {
        return wm_slab_take_locked(arena, lane, size_class, split, failed);
    }
    block = wm_run_take_locked(arena, lane, rounded, split, failed);
    return block == NULL && wm_unlikely(wm_span_needs(arena, rounded))
               ? wm_span_take_locked(arena, rounded, failed)
               : block;
}

static __attribute__((noinline, cold)) wm_block *
find_again_locked(wm_arena *arena, wm_lane *lane, unsigned size_class,
                  size_t rounded, enum wm_split split, bool *failed)
{
    return (split == WM_SPLIT_ALLOW || split == WM_SPLIT_NO_JOIN) &&
                   wm_arena_empty_transfer_cache_locked(arena)
               ? find_locked(arena, lane, size_class, rounded, split, failed)
               : NULL;
}

/* A block, which is in no list, is out. */
static inline __attribute__((always_inline)) void
note_out_locked(wm_arena *arena, wm_block *block, unsigned size_class)
{
    arena->out_bytes += block->bytes;
    block->size_class = size_class;
    block->lane_id =
        (block->slab != NULL ? block->slab->run->lane : block->lane)->id;
    block->counted = false;
    /* Relaxed: published by the state that follows. */
    atomic_store_explicit(&block->owner_stream, NULL, memory_order_relaxed);
    atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
    atomic_store_explicit(&block->first_use_taken, false, memory_order_relaxed);
    atomic_store_explicit(&block->captured, false, memory_order_relaxed);
    atomic_store_explicit(&block->stuck, false, memory_order_relaxed);
}

/* A block leaves the arena; counted in out_bytes only. */
static inline wm_block *get_locked(wm_arena *arena, wm_lane *lane,
                                   unsigned size_class, size_t rounded,
                                   enum wm_split split, bool *starved)
{
    bool failed = false;
    wm_block *block =
        find_locked(arena, lane, size_class, rounded, split, &failed);

    if (wm_unlikely(block == NULL)) {
        block =
            find_again_locked(arena, lane, size_class, rounded, split, &failed);
        if (starved != NULL && failed) {
            *starved = true;
        }
        if (block == NULL) {
            return NULL;
        }
    }
    note_out_locked(arena, block, size_class);
    return block;
}

static inline __attribute__((always_inline)) wm_block *
take_locked(wm_arena *arena, wm_lane *lane, size_t bytes, enum wm_split split,
            bool *starved)
{
    unsigned size_class = wm_size_class(bytes);
    size_t rounded = size_class == WM_CLASS_PAGES ? wm_page_round(bytes)
                                                  : wm_class_bytes(size_class);
    wm_block *block =
        get_locked(arena, lane, size_class, rounded, split, starved);

    if (wm_likely(block != NULL)) {
        wm_assert(block->bytes >= bytes);
        wm_block_set_requested(block, bytes);
        count_locked(arena, block, 1);
        wm_block_set_state(block, WM_BLOCK_LIVE);
    }
    return block;
}

void wm_arena_leave_locked(wm_arena *arena, const wm_block *block)
{
    uncount_locked(arena, block);
    arena->out_bytes -= block->bytes;
}

void wm_arena_enter_locked(wm_arena *arena, wm_block *block, size_t bytes)
{
    note_out_locked(arena, block,
                    wm_block_is_cut(block) ? (unsigned)WM_CLASS_PAGES
                                           : wm_size_class(block->bytes));
    wm_block_set_requested(block, bytes);
    count_locked(arena, block, 1);
    wm_block_set_state(block, WM_BLOCK_LIVE);
}

wm_block *wm_arena_take_locked(wm_arena *arena, wm_lane *lane, size_t bytes,
                               enum wm_split split, bool *starved)
{
    return take_locked(arena, lane, bytes, split, starved);
}

unsigned wm_arena_take_batch_locked(wm_arena *arena, wm_lane *lane,
                                    unsigned size_class, unsigned count,
                                    enum wm_split split, wm_state state,
                                    wm_entry *entries)
{
    size_t bytes = wm_class_bytes(size_class);
    unsigned taken = 0;

    while (taken < count) {
        wm_block *block =
            get_locked(arena, lane, size_class, bytes, split, NULL);

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

wm_block *wm_arena_take(wm_arena *arena, wm_lane *lane, size_t bytes,
                        enum wm_split split, bool *starved)
{
    wm_block *block;

    wm_lock_acquire(&arena->lock);
    block = take_locked(arena, lane, bytes, split, starved);
    arena->stats.cache_hits += block != NULL;
    wm_lock_release(&arena->lock);
    return block;
}

wm_block *wm_arena_serve(wm_arena *arena, int node, size_t bytes)
{
    wm_block *block = NULL;

    if (!atomic_load_explicit(&arena->serves, memory_order_relaxed)) {
        return NULL;
    }
    wm_lock_acquire(&arena->lock);
    if (atomic_load_explicit(&arena->serves, memory_order_relaxed) &&
        (node == WM_NODE_UNKNOWN || arena->node == node)) {
        block = take_locked(arena, NULL, bytes, WM_SPLIT_ALLOW, NULL);
        arena->stats.cache_hits += block != NULL;
    }
    wm_lock_release(&arena->lock);
    return block;
}

void wm_arena_set_serves(wm_arena *arena, bool serves)
{
    wm_lock_acquire(&arena->lock);
    atomic_store_explicit(&arena->serves, serves, memory_order_relaxed);
    wm_lock_release(&arena->lock);
}

wm_block *wm_arena_take_whole(wm_arena *arena)
{
    wm_block *block;

    wm_lock_acquire(&arena->lock);
    block = arena->segments->first;
    wm_assert(wm_run_is_segment(block) && wm_run_is_idle(block));
    wm_run_unlink(block);
    note_out_locked(arena, block, WM_CLASS_PAGES);
    wm_block_set_requested(block, block->bytes);
    count_locked(arena, block, 1);
    wm_block_set_state(block, WM_BLOCK_LIVE);
    wm_lock_release(&arena->lock);
    return block;
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

/* A block that is out becomes IDLE, PENDING, LOST or CAPTURED. */
static inline void end_locked(wm_arena *arena, wm_block *block,
                              enum wm_block_state state)
{
    if (state == WM_BLOCK_IDLE) {
        wm_arena_put_locked(arena, block);
    } else if (state == WM_BLOCK_PENDING) {
        wm_arena_begin_pending_locked(arena, 1, block->bytes);
        wm_block_set_state(block, state);
    } else {
        arena->out_bytes -= block->bytes;
        wm_block_retain_locked(arena, block, state);
    }
}

void wm_arena_free(wm_arena *arena, wm_block *block, enum wm_block_state state)
{
    wm_lock_acquire(&arena->lock);
    note_give_locked(arena, block, state == WM_BLOCK_PENDING);
    end_locked(arena, block, state);
    wm_lock_release(&arena->lock);
}

wm_block *wm_arena_finish(wm_arena *arena, wm_block *chain, wm_ended *ended)
{
    int64_t count = 0, bytes = 0;

    wm_lock_acquire(&arena->lock);
    while (chain != NULL && chain->segment->arena == arena) {
        wm_block *next = chain->next_done;
        enum wm_block_state fate = wm_block_fate(chain);

        count++;
        bytes += (int64_t)chain->bytes;
        note_draining_locked(arena, chain, -1);
        if (wm_likely(fate == WM_BLOCK_IDLE)) {
            put_locked(arena, chain);
        } else {
            ended->lost = fate == WM_BLOCK_LOST ? chain->bytes : ended->lost;
            wm_block_retain_locked(arena, chain, fate);
        }
        chain = next;
    }
    if (count > 0) {
        wm_arena_note_pending_locked(arena, -count, -bytes);
    }
    wm_lock_release(&arena->lock);
    return chain;
}

/* Calls fn for every block whose state is in the set of bits. */
static void each_block(wm_arena *arena, unsigned states,
                       void (*fn)(void *context, wm_block *block),
                       void *context)
{
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        for (wm_block *run = s->first; run != NULL; run = run->after) {
            bool split = wm_block_state(run) == WM_BLOCK_SLAB;
            wm_slab *slab = split ? wm_slab_of_run_locked(run) : NULL;

            for (unsigned i = 0; i < (split ? slab->slots : 1); i++) {
                wm_block *block = split ? &slab->slot[i] : run;

                if (((states >> wm_block_state(block)) & 1) != 0) {
                    fn(context, block);
                }
            }
        }
    }
}

void wm_arena_each_live(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context)
{
    each_block(arena, 1u << WM_BLOCK_LIVE, fn, context);
}

void wm_arena_each_left(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context)
{
    each_block(arena, 1u << WM_BLOCK_LIVE | 1u << WM_BLOCK_CAPTURED, fn,
               context);
}

static void chain_lost(void *chain, wm_block *block)
{
    block->next_done = *(wm_block **)chain;
    *(wm_block **)chain = block;
}

void wm_arena_find_lost(wm_arena *arena)
{
    wm_block *chain = NULL, *next;

    wm_lock_acquire(&arena->lock);
    each_block(arena, 1u << WM_BLOCK_LOST, chain_lost, &chain);
    for (; chain != NULL; chain = next) {
        next = chain->next_done;
        arena->stats.lost--;
        arena->stats.lost_bytes -= chain->bytes;
        /* Relaxed: nobody else has the block. */
        atomic_store_explicit(&chain->stuck, false, memory_order_relaxed);
        put_locked(arena, chain);
    }
    wm_lock_release(&arena->lock);
}

/* ---- memory that graphs use (row E4) ------------------------------------ */

void wm_arena_retain_begin(wm_arena *arena)
{
    wm_lock_acquire(&arena->lock);
    arena->retaining = true;
    wm_lock_release(&arena->lock);
}

bool wm_arena_retain(wm_arena *arena, wm_block *block)
{
    bool kept;

    wm_lock_acquire(&arena->lock);
    kept = arena->retaining;
    if (kept) {
        /* Relaxed: this thread freed the block, or received it from the thread
         * that did. The space reads the uses again after wm_arena_retain_end().
         */
        bool used =
            atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL;

        note_give_locked(arena, block, used);
        end_locked(arena, block, WM_BLOCK_CAPTURED);
    }
    wm_lock_release(&arena->lock);
    return kept;
}

/* The graphs no longer exist: a CAPTURED block becomes FREEING, in front of the
 * chain. Other blocks are no longer marked as captured; a later capture marks
 * them again. */
static void release_locked(void *chain, wm_block *block)
{
    wm_arena *arena = block->segment->arena;

    if (wm_block_state(block) != WM_BLOCK_CAPTURED) {
        /* Relaxed: a thread that is freeing the block reads the flag again
         * after the lock. */
        atomic_store_explicit(&block->captured, false, memory_order_relaxed);
        return;
    }
    arena->stats.captured--;
    arena->stats.captured_bytes -= block->bytes;
    arena->out_bytes += block->bytes;
    wm_block_set_state(block, WM_BLOCK_FREEING);
    block->next_done = *(wm_block **)chain;
    *(wm_block **)chain = block;
}

wm_block *wm_arena_retain_end(wm_arena *arena)
{
    wm_block *chain = NULL;

    wm_lock_acquire(&arena->lock);
    arena->retaining = false;
    each_block(arena,
               1u << WM_BLOCK_LIVE | 1u << WM_BLOCK_FREEING |
                   1u << WM_BLOCK_CAPTURED,
               release_locked, &chain);
    /* Until wm_arena_put_retained() these blocks count as out, although no
     * caller holds them. */
    arena->batched = arena->batched || chain != NULL;
    wm_lock_release(&arena->lock);
    return chain;
}

void wm_arena_put_retained(wm_arena *arena, wm_block *block,
                           enum wm_block_state state, bool had_uses)
{
    wm_lock_acquire(&arena->lock);
    if (had_uses && state != WM_BLOCK_PENDING) {
        note_draining_locked(arena, block, -1);
    }
    end_locked(arena, block, state);
    wm_lock_release(&arena->lock);
}

/* ---- begin and end ------------------------------------------------------ */

void wm_arena_init(wm_arena *arena, struct wm_arena_group *group, int node)
{
    memset(arena, 0, sizeof *arena);
    wm_lock_init(&arena->lock, WM_RANK_ARENA);
    arena->group = group;
    arena->node = node;
    arena->grain = wm_os_page();
    arena->fence_step = WM_FENCES_NEVER;
    for (int kind = 0; kind < WM_RUN_KINDS; kind++) {
        arena->common.idle[kind].bins = &arena->common_bins[kind];
    }
    arena->common.slabs = &arena->common_slabs;
    wm_arena_join(arena, 1);
}

void wm_arena_join(wm_arena *arenas, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        arenas[i].lock.rank = (enum wm_rank)(WM_RANK_ARENA + i);
        arenas[i].shard = i;
        arenas[i].siblings = arenas;
        arenas[i].next_sibling = i + 1 < count ? &arenas[i + 1] : NULL;
        /* Relaxed: no other thread has them yet. */
        atomic_store_explicit(&arenas[i].common.by_shard[i], &arenas[i].common,
                              memory_order_relaxed);
    }
}

static void free_lanes(wm_lane *lane)
{
    for (wm_lane *next; lane != NULL; lane = next) {
        next = lane->next;
        wm_lane_free(lane);
        wm_meta_free(lane);
    }
}

void wm_arena_fini(wm_arena *arena)
{
    struct wm_chunk *next_chunk;
    wm_segment *next_segment;
    wm_slab *next_slab;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        wm_segment_forget(s);
    }
    for (wm_segment *s = arena->all_segments; s != NULL; s = next_segment) {
        next_segment = s->next_made;
        wm_meta_free(s);
    }
    free_lanes(arena->lanes);
    free_lanes(arena->spare_lanes);
    for (wm_slab *s = arena->all_slabs; s != NULL; s = next_slab) {
        next_slab = s->next_made;
        wm_meta_free(s);
    }
    for (struct wm_chunk *c = arena->record_chunks; c != NULL; c = next_chunk) {
        next_chunk = c->next;
        wm_meta_free(c);
    }
    wm_transfer_fini(&arena->transfer_cache);
}
