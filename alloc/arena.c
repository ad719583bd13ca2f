/* arena.c: handing out and taking back runs and slots, and segments.
 *
 * Takes lock arena in every public function; calls nothing but the page map,
 * the fit tree and metadata allocation under it. Figures are in
 * arena_stats.c, the validity walk in arena_check.c. */
#include "alloc/arena.h"

#include "alloc/arena_stats.h"
#include "alloc/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

enum { CHUNK_RECORDS = 63 };

struct chunk {
    struct chunk *next;
    _Alignas(64) wm_block block[CHUNK_RECORDS];
};

static int state_of(wm_block *block)
{
    /* Relaxed: under lock arena, where idle states are written. */
    return atomic_load_explicit(&block->state, memory_order_relaxed);
}

static void set_state(wm_block *block, int state)
{
    /* Release pairs with the acquire of look-ups: fields before state. */
    atomic_store_explicit(&block->state, state, memory_order_release);
}

/* ---- records ---------------------------------------------------------- */

static void give_record_locked(wm_arena *arena, wm_block *block)
{
    set_state(block, WM_BLOCK_VOID);
    block->left = arena->spare_blocks;
    arena->spare_blocks = block;
}

static bool have_record_locked(wm_arena *arena)
{
    struct chunk *chunk;

    if (arena->spare_blocks != NULL) {
        return true;
    }
    chunk = wm_meta_alloc(sizeof *chunk);
    if (chunk == NULL) {
        return false;
    }
    chunk->next = arena->record_chunks;
    arena->record_chunks = chunk;
    for (int i = 0; i < CHUNK_RECORDS; i++) {
        give_record_locked(arena, &chunk->block[i]);
    }
    return true;
}

/* have_record_locked() answered true before. */
static wm_block *take_record_locked(wm_arena *arena)
{
    wm_block *block = arena->spare_blocks;

    arena->spare_blocks = block->left;
    block->left = NULL;
    return block;
}

/* ---- runs ------------------------------------------------------------- */

static void mark_start(wm_segment *segment, const char *base, bool start)
{
    size_t page = (size_t)(base - segment->base) / WM_PAGE;
    uint64_t bit = (uint64_t)1 << (page % 64);

    /* Relaxed: see struct wm_segment. */
    if (start) {
        atomic_fetch_or_explicit(&segment->starts[page / 64], bit,
                                 memory_order_relaxed);
    } else {
        atomic_fetch_and_explicit(&segment->starts[page / 64], ~bit,
                                  memory_order_relaxed);
    }
}

/* Makes the record of an idle run that starts at base known; not in the tree
 * yet. */
static void init_run(wm_block *block, wm_segment *segment, char *base,
                     size_t bytes)
{
    block->base = base;
    block->bytes = bytes;
    block->segment = segment;
    block->slab = NULL;
    set_state(block, WM_BLOCK_IDLE);
    mark_start(segment, base, true);
    wm_page_map_set(base, block, WM_ENTRY_RUN);
}

/* Cuts block, which is in no tree, to bytes; the rest becomes an idle run. */
static void split_locked(wm_arena *arena, wm_block *block, size_t bytes)
{
    wm_block *rest = take_record_locked(arena);

    init_run(rest, block->segment, block->base + bytes, block->bytes - bytes);
    rest->before = block;
    rest->after = block->after;
    if (rest->after != NULL) {
        rest->after->before = rest;
    }
    block->after = rest;
    block->bytes = bytes;
    wm_fit_tree_insert(&arena->idle, rest);
}

/* An idle run of exactly bytes, out of the tree, or null. *failed: there is
 * memory, but no record for its rest. */
static wm_block *take_run_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    wm_block *block = wm_fit_tree_find(&arena->idle, bytes);

    if (block == NULL) {
        return NULL;
    }
    if (block->bytes > bytes && !have_record_locked(arena)) {
        *failed = true;
        return NULL;
    }
    wm_fit_tree_remove(&arena->idle, block);
    if (block->bytes > bytes) {
        split_locked(arena, block, bytes);
    }
    return block;
}

/* Joins block with its neighbour after it; the neighbour's record ends. */
static void absorb_locked(wm_arena *arena, wm_block *block)
{
    wm_block *next = block->after;

    mark_start(next->segment, next->base, false);
    wm_page_map_set(next->base, next->segment, WM_ENTRY_INNER);
    block->bytes += next->bytes;
    block->after = next->after;
    if (block->after != NULL) {
        block->after->before = block;
    }
    give_record_locked(arena, next);
}

static bool is_idle(wm_block *block)
{
    return block != NULL && state_of(block) == WM_BLOCK_IDLE;
}

/* Takes back a run that is in no tree, and joins it with its neighbours. */
static void put_run_locked(wm_arena *arena, wm_block *block)
{
    set_state(block, WM_BLOCK_IDLE);
    if (is_idle(block->after)) {
        wm_fit_tree_remove(&arena->idle, block->after);
        absorb_locked(arena, block);
    }
    if (is_idle(block->before)) {
        block = block->before;
        wm_fit_tree_remove(&arena->idle, block);
        absorb_locked(arena, block);
    }
    wm_fit_tree_insert(&arena->idle, block);
    if (block->bytes == block->segment->bytes) {
        block->segment->idle_since_ns = wm_clock_ns();
    }
}

/* ---- slabs ------------------------------------------------------------ */

static void link_slab_locked(wm_arena *arena, wm_slab *slab)
{
    wm_slab **head = &arena->slabs[slab->size_class];

    slab->previous = NULL;
    slab->next = *head;
    if (*head != NULL) {
        (*head)->previous = slab;
    }
    *head = slab;
}

static void unlink_slab_locked(wm_arena *arena, wm_slab *slab)
{
    if (slab->previous != NULL) {
        slab->previous->next = slab->next;
    } else {
        arena->slabs[slab->size_class] = slab->next;
    }
    if (slab->next != NULL) {
        slab->next->previous = slab->previous;
    }
}

static wm_slab *take_slab_record_locked(wm_arena *arena, unsigned size_class)
{
    wm_slab *slab = arena->spare_slabs[size_class];
    unsigned slots = wm_slab_slots(size_class);

    if (slab != NULL) {
        arena->spare_slabs[size_class] = slab->next;
        return slab;
    }
    slab = wm_meta_alloc(sizeof *slab + slots * sizeof slab->slot[0]);
    if (slab != NULL) {
        slab->slots = slots;
        slab->size_class = size_class;
        slab->slot_bytes = wm_class_bytes(size_class);
        slab->next_made = arena->all_slabs;
        arena->all_slabs = slab;
    }
    return slab;
}

static void give_slab_record_locked(wm_arena *arena, wm_slab *slab)
{
    slab->next = arena->spare_slabs[slab->size_class];
    arena->spare_slabs[slab->size_class] = slab;
}

static void init_slab(wm_slab *slab, wm_block *run)
{
    slab->run = run;
    slab->base = run->base;
    slab->idle = slab->slots;
    slab->idle_mask = UINT64_MAX >> (64 - slab->slots);
    for (unsigned i = 0; i < slab->slots; i++) {
        wm_block *slot = &slab->slot[i];

        slot->base = run->base + i * slab->slot_bytes;
        slot->bytes = slab->slot_bytes;
        slot->segment = run->segment;
        slot->slab = slab;
        set_state(slot, WM_BLOCK_IDLE);
    }
    set_state(run, WM_BLOCK_SLAB);
    wm_page_map_fill(run->base, run->bytes, slab, WM_ENTRY_SLAB);
}

static wm_slab *new_slab_locked(wm_arena *arena, unsigned size_class,
                                bool *failed)
{
    wm_slab *slab = take_slab_record_locked(arena, size_class);
    wm_block *run;

    if (slab == NULL) {
        *failed = true;
        return NULL;
    }
    run = take_run_locked(arena, slab->slots * slab->slot_bytes, failed);
    if (run == NULL) {
        give_slab_record_locked(arena, slab);
        return NULL;
    }
    init_slab(slab, run);
    link_slab_locked(arena, slab);
    return slab;
}

static wm_block *take_slot_locked(wm_arena *arena, unsigned size_class,
                                  bool *failed)
{
    wm_slab *slab = arena->slabs[size_class];
    unsigned i;

    if (slab == NULL) {
        slab = new_slab_locked(arena, size_class, failed);
    }
    if (slab == NULL) {
        return NULL;
    }
    i = (unsigned)__builtin_ctzll(slab->idle_mask);
    slab->idle_mask &= slab->idle_mask - 1;
    slab->idle--;
    if (slab->idle == 0) {
        unlink_slab_locked(arena, slab);
    }
    return &slab->slot[i];
}

/* A slab without blocks becomes a run of pages again. */
static void end_slab_locked(wm_arena *arena, wm_slab *slab)
{
    wm_block *run = slab->run;

    unlink_slab_locked(arena, slab);
    for (unsigned i = 0; i < slab->slots; i++) {
        set_state(&slab->slot[i], WM_BLOCK_VOID);
    }
    wm_page_map_fill(run->base, run->bytes, run->segment, WM_ENTRY_INNER);
    wm_page_map_set(run->base, run, WM_ENTRY_RUN);
    give_slab_record_locked(arena, slab);
    put_run_locked(arena, run);
}

static void put_slot_locked(wm_arena *arena, wm_block *slot)
{
    wm_slab *slab = slot->slab;

    set_state(slot, WM_BLOCK_IDLE);
    slab->idle_mask |= (uint64_t)1 << (slot - slab->slot);
    slab->idle++;
    if (slab->idle == 1) {
        link_slab_locked(arena, slab);
    }
    if (slab->idle == slab->slots) {
        end_slab_locked(arena, slab);
    }
}

/* ---- blocks ----------------------------------------------------------- */

static void put_locked(wm_arena *arena, wm_block *block)
{
    if (block->slab != NULL) {
        put_slot_locked(arena, block);
    } else {
        put_run_locked(arena, block);
    }
}

static wm_block *take_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    unsigned size_class = wm_size_class(bytes);
    size_t rounded = wm_size_round(bytes);
    wm_block *block;

    block = rounded < WM_SLAB_LIMIT
                ? take_slot_locked(arena, size_class, failed)
                : take_run_locked(arena, rounded, failed);
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
        set_state(block, WM_BLOCK_LIVE);
    }
    return block;
}

wm_block *wm_arena_take(wm_arena *arena, size_t bytes, bool *starved)
{
    wm_block *block;

    wm_lock_acquire(&arena->lock);
    block = take_locked(arena, bytes, starved);
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
    set_state(block, WM_BLOCK_PENDING);
    wm_lock_release(&arena->lock);
}

void wm_arena_free_kept(wm_arena *arena, wm_block *block, int state)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_give_locked(arena, block);
    wm_arena_note_kept_locked(arena, block, state);
    set_state(block, state);
    wm_lock_release(&arena->lock);
}

void wm_arena_finish(wm_arena *arena, wm_block *block, bool lost)
{
    wm_lock_acquire(&arena->lock);
    wm_arena_note_pending_locked(arena, block, false);
    if (lost) {
        wm_arena_note_kept_locked(arena, block, WM_BLOCK_LOST);
        set_state(block, WM_BLOCK_LOST);
    } else {
        put_locked(arena, block);
    }
    wm_lock_release(&arena->lock);
}

/* ---- segments --------------------------------------------------------- */

static void link_segment_locked(wm_arena *arena, wm_segment *segment)
{
    segment->previous = NULL;
    segment->next = arena->segments;
    if (segment->next != NULL) {
        segment->next->previous = segment;
    }
    arena->segments = segment;
}

static void unlink_segment_locked(wm_arena *arena, wm_segment *segment)
{
    if (segment->previous != NULL) {
        segment->previous->next = segment->next;
    } else {
        arena->segments = segment->next;
    }
    if (segment->next != NULL) {
        segment->next->previous = segment->previous;
    }
}

/* The one run of a wholly idle segment, else null. */
static wm_block *whole_run(wm_segment *segment)
{
    wm_block *block = wm_block_at(segment->base);

    return is_idle(block) && block->bytes == segment->bytes ? block : NULL;
}

/* block: a record not in use, for the one run that the segment begins as. */
static void attach_locked(wm_arena *arena, wm_segment *segment, wm_block *block)
{
    wm_page_map_fill(segment->base, segment->bytes, segment, WM_ENTRY_INNER);
    init_run(block, segment, segment->base, segment->bytes);
    block->before = NULL;
    block->after = NULL;
    link_segment_locked(arena, segment);
    put_run_locked(arena, block);
}

/* block: the one run of the segment; its record stays with the caller. */
static void detach_locked(wm_arena *arena, wm_segment *segment, wm_block *block)
{
    wm_fit_tree_remove(&arena->idle, block);
    set_state(block, WM_BLOCK_VOID);
    wm_page_map_fill(segment->base, segment->bytes, NULL, WM_ENTRY_RUN);
    mark_start(segment, segment->base, false);
    unlink_segment_locked(arena, segment);
}

/* The pages of a recycled record all lie idle: none is a start. */
static wm_segment *take_segment_record_locked(wm_arena *arena, size_t bytes)
{
    size_t words = (bytes / WM_PAGE + 63) / 64;
    wm_segment **link = &arena->spare_segments;
    wm_segment *segment;

    while (*link != NULL && (*link)->words < words) {
        link = &(*link)->next;
    }
    segment = *link;
    if (segment != NULL) {
        *link = segment->next;
        return segment;
    }
    segment =
        wm_meta_alloc(sizeof *segment + words * sizeof segment->starts[0]);
    if (segment != NULL) {
        segment->words = words;
        segment->next_made = arena->all_segments;
        arena->all_segments = segment;
    }
    return segment;
}

static void give_segment_record_locked(wm_arena *arena, wm_segment *segment)
{
    segment->next = arena->spare_segments;
    arena->spare_segments = segment;
}

/* A block for the request from memory that joins the arena in the same step;
 * null, and nothing joined, without records. */
static wm_block *grow_locked(wm_arena *arena, void *base, size_t segment_bytes,
                             size_t bytes)
{
    wm_segment *segment = take_segment_record_locked(arena, segment_bytes);
    bool failed = false;
    wm_block *run;
    wm_block *taken;

    if (segment == NULL) {
        return NULL;
    }
    if (!have_record_locked(arena)) {
        give_segment_record_locked(arena, segment);
        return NULL;
    }
    segment->base = base;
    segment->bytes = segment_bytes;
    segment->arena = arena;
    run = take_record_locked(arena);
    attach_locked(arena, segment, run);
    taken = take_locked(arena, bytes, &failed);
    if (taken != NULL) {
        wm_arena_note_segment_locked(arena, segment_bytes, true);
        return taken;
    }
    detach_locked(arena, segment, run);
    give_record_locked(arena, run);
    give_segment_record_locked(arena, segment);
    return NULL;
}

warm_status wm_arena_grow(wm_arena *arena, void *base, size_t segment_bytes,
                          size_t bytes, wm_block **block)
{
    warm_status status = wm_page_map_reserve(base, segment_bytes);
    wm_block *taken;

    if (status != WARM_OK) {
        return status;
    }
    wm_lock_acquire(&arena->lock);
    taken = grow_locked(arena, base, segment_bytes, bytes);
    wm_lock_release(&arena->lock);
    if (taken == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the allocator's records");
    }
    *block = taken;
    return WARM_OK;
}

/* The next segment to go: any idle one if all may go, else the largest. */
static wm_segment *pick_locked(wm_segment *from, bool any, uint64_t before_ns)
{
    wm_segment *best = NULL;

    for (wm_segment *s = from; s != NULL; s = s->next) {
        if (whole_run(s) != NULL && s->idle_since_ns <= before_ns &&
            (best == NULL || s->bytes > best->bytes)) {
            best = s;
            if (any) {
                break;
            }
        }
    }
    return best;
}

wm_segment *wm_arena_detach(wm_arena *arena, size_t target, uint64_t before_ns)
{
    wm_segment *chain = NULL;
    wm_segment *from;

    wm_lock_acquire(&arena->lock);
    from = arena->segments;
    while (arena->stats.held_bytes.current - arena->detached_bytes > target) {
        wm_segment *segment = pick_locked(from, target == 0, before_ns);

        if (segment == NULL) {
            break;
        }
        if (target == 0 || from == segment) {
            from = segment->next;
        }
        segment->whole = whole_run(segment);
        detach_locked(arena, segment, segment->whole);
        arena->detached_bytes += segment->bytes;
        segment->next = chain;
        chain = segment;
    }
    wm_lock_release(&arena->lock);
    return chain;
}

void wm_arena_released(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    wm_arena_note_segment_locked(arena, segment->bytes, false);
    give_record_locked(arena, segment->whole);
    give_segment_record_locked(arena, segment);
    wm_lock_release(&arena->lock);
}

void wm_arena_reattach(wm_arena *arena, wm_segment *segment)
{
    wm_lock_acquire(&arena->lock);
    arena->detached_bytes -= segment->bytes;
    attach_locked(arena, segment, segment->whole);
    wm_lock_release(&arena->lock);
}

/* ---- the arena -------------------------------------------------------- */

void wm_arena_init(wm_arena *arena, void *owner)
{
    memset(arena, 0, sizeof *arena);
    wm_lock_init(&arena->lock, WM_RANK_ARENA);
    arena->owner = owner;
}

static wm_block *first_run(wm_segment *segment)
{
    uintptr_t entry = wm_page_map_get(segment->base);
    wm_block *block = wm_block_at(segment->base);

    return (entry & 3) == WM_ENTRY_SLAB ? block->slab->run : block;
}

void wm_arena_each_live(wm_arena *arena,
                        void (*fn)(void *context, wm_block *block),
                        void *context)
{
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        for (wm_block *run = first_run(s); run != NULL; run = run->after) {
            wm_block *slot = wm_block_at(run->base);

            if (state_of(run) == WM_BLOCK_LIVE) {
                fn(context, run);
            }
            for (unsigned i = 0;
                 state_of(run) == WM_BLOCK_SLAB && i < slot->slab->slots; i++) {
                if (state_of(&slot->slab->slot[i]) == WM_BLOCK_LIVE) {
                    fn(context, &slot->slab->slot[i]);
                }
            }
        }
    }
}

void wm_arena_fini(wm_arena *arena)
{
    struct chunk *chunk = arena->record_chunks;

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
        struct chunk *next = chunk->next;

        wm_meta_free(chunk);
        chunk = next;
    }
    wm_lock_fini(&arena->lock);
}
