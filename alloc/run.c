/* run.c: records of blocks, and runs of pages. See arena_int.h. */
#include "alloc/arena_int.h"

#include "alloc/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"

/* ---- records ---------------------------------------------------------- */

void wm_record_give_locked(wm_arena *arena, wm_block *block)
{
    wm_block_set_state(block, WM_BLOCK_VOID);
    block->left = arena->spare_blocks;
    arena->spare_blocks = block;
}

bool wm_record_have_locked(wm_arena *arena)
{
    struct wm_chunk *chunk;

    if (arena->spare_blocks != NULL) {
        return true;
    }
    chunk = wm_meta_alloc(sizeof *chunk);
    if (chunk == NULL) {
        return false;
    }
    chunk->next = arena->record_chunks;
    arena->record_chunks = chunk;
    for (int i = 0; i < WM_CHUNK_RECORDS; i++) {
        wm_record_give_locked(arena, &chunk->block[i]);
    }
    return true;
}

wm_block *wm_record_take_locked(wm_arena *arena)
{
    wm_block *block = arena->spare_blocks;

    arena->spare_blocks = block->left;
    block->left = NULL;
    return block;
}

/* ---- runs ------------------------------------------------------------- */

void wm_run_mark(wm_segment *segment, const char *base, bool start)
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

void wm_run_init(wm_block *block, wm_segment *segment, char *base, size_t bytes)
{
    block->base = base;
    block->bytes = bytes;
    block->segment = segment;
    block->slab = NULL;
    wm_block_set_state(block, WM_BLOCK_IDLE);
    wm_run_mark(segment, base, true);
    wm_page_map_set(base, block, WM_ENTRY_RUN);
}

/* Cuts block, which is in no tree, to bytes; the rest becomes an idle run. */
static void split_locked(wm_arena *arena, wm_block *block, size_t bytes)
{
    wm_block *rest = wm_record_take_locked(arena);

    wm_run_init(rest, block->segment, block->base + bytes,
                block->bytes - bytes);
    rest->before = block;
    rest->after = block->after;
    if (rest->after != NULL) {
        rest->after->before = rest;
    }
    block->after = rest;
    block->bytes = bytes;
    wm_fit_tree_insert(&arena->idle, rest);
}

wm_block *wm_run_take_locked(wm_arena *arena, size_t bytes, bool *failed)
{
    wm_block *block = wm_fit_tree_find(&arena->idle, bytes);

    if (block == NULL) {
        return NULL;
    }
    if (block->bytes > bytes && !wm_record_have_locked(arena)) {
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

    wm_run_mark(next->segment, next->base, false);
    wm_page_map_set(next->base, next->segment, WM_ENTRY_INNER);
    block->bytes += next->bytes;
    block->after = next->after;
    if (block->after != NULL) {
        block->after->before = block;
    }
    wm_record_give_locked(arena, next);
}

bool wm_run_is_idle(wm_block *block)
{
    return block != NULL && wm_block_state(block) == WM_BLOCK_IDLE;
}

void wm_run_put_locked(wm_arena *arena, wm_block *block)
{
    wm_block_set_state(block, WM_BLOCK_IDLE);
    if (wm_run_is_idle(block->after)) {
        wm_fit_tree_remove(&arena->idle, block->after);
        absorb_locked(arena, block);
    }
    if (wm_run_is_idle(block->before)) {
        block = block->before;
        wm_fit_tree_remove(&arena->idle, block);
        absorb_locked(arena, block);
    }
    wm_fit_tree_insert(&arena->idle, block);
    if (block->bytes == block->segment->bytes) {
        block->segment->idle_since_ns = wm_clock_ns();
    }
}
