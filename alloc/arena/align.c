/* align.c: blocks that begin at a multiple of more than WM_GRAIN bytes. Takes
 * lock arena. See arena_int.h.
 *
 *   run of the request   │ front │ block               │ rest │
 *                                ▲ aligned
 *
 * The request was for as many bytes as the worst front needs. Front and rest
 * become idle runs before the block is handed out, the rest of a block over
 * several segments as well. A slot of a slab is aligned
 * already. A block of less than WM_SLAB_LIMIT bytes is a run all the same, of
 * whole pages, and may become a thread's block of that class. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"

/* The run behind the first bytes of a block, which stays in no bin; the block
 * may lie over several segments, and then is longer than its first part. */
static wm_block *cut_front_locked(wm_arena *arena, wm_block *block,
                                  size_t front)
{
    size_t behind = block->bytes - front;
    bool spans = wm_block_is_cut(block);
    wm_segment *s = block->segment, *next;
    wm_block *rest;

    wm_block_set_bytes(block, wm_run_extent(block));
    wm_assert(front < block->bytes);
    rest = wm_run_cut_locked(arena, block, front);
    wm_block_set_bytes(rest, behind);
    rest->trace = block->trace;
    block->trace = 0;
    for (; spans && s->base + s->bytes < rest->base + behind; s = next) {
        next = s->span_next;
        /* Relaxed: no other thread looks the block up before it is LIVE. */
        atomic_store_explicit(&next->spanned_by, rest, memory_order_relaxed);
    }
    return rest;
}

/* What lies behind the bytes becomes idle, in every segment. */
static void cut_rest_locked(wm_arena *arena, wm_block *block, size_t bytes)
{
    if (wm_block_is_cut(block)) {
        wm_span_cut_locked(arena, block, bytes);
    }
    if (block->bytes > bytes) {
        wm_run_put_locked(arena, wm_run_cut_locked(arena, block, bytes));
    }
}

wm_block *wm_arena_align(wm_block *block, size_t asked, size_t alignment)
{
    wm_arena *arena = block->segment->arena;
    size_t front = -(uintptr_t)block->base & (alignment - 1);
    size_t bytes = wm_arena_align_bytes(asked, WM_PAGE);
    wm_block *aligned = block;

    wm_lock_acquire(&arena->lock);
    if (!wm_record_have_locked(arena)) {
        wm_lock_release(&arena->lock);
        return NULL;
    }
    wm_arena_leave_locked(arena, block);
    if (front > 0) {
        aligned = cut_front_locked(arena, block, front);
        /* Not IDLE, or the front would merge with it again. */
        wm_block_set_state(aligned, WM_BLOCK_FREEING);
        wm_run_put_locked(arena, block);
    }
    if (aligned->slab == NULL && aligned->bytes > bytes) {
        cut_rest_locked(arena, aligned, bytes);
    }
    wm_arena_enter_locked(arena, aligned, asked);
    wm_lock_release(&arena->lock);
    return aligned;
}
