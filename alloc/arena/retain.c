/* retain.c: an arena whose memory graphs use (row E4): used blocks are not
 * allocated again, and no segment is detached, until the last graph is gone.
 * See arena_int.h. Takes lock arena in every function. */
#include "alloc/arena/arena_int.h"

#include "alloc/block/page_map.h"

/* If so, the space looks at the uses after wm_arena_retain_end(). */
static bool has_uses(wm_block *block)
{
    /* Relaxed: this thread freed the block, or took it over from the one that
     * did. */
    return atomic_load_explicit(&block->uses, memory_order_relaxed) != NULL;
}

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
        wm_arena_note_give_locked(arena, block, has_uses(block));
        arena->out_bytes -= block->bytes;
        wm_block_retain_locked(arena, block, WM_BLOCK_CAPTURED);
    }
    wm_lock_release(&arena->lock);
    return kept;
}

/* The graphs that used the block are gone; captures from now on count. Relaxed:
 * a thread that is freeing it reads the flag again after the lock. */
static void forget_captures(wm_block *block)
{
    atomic_store_explicit(&block->captured, false, memory_order_relaxed);
}

static void release_locked(wm_arena *arena, wm_block *block, wm_block **chain)
{
    enum wm_block_state state = wm_block_state(block);

    if (state == WM_BLOCK_LIVE || state == WM_BLOCK_FREEING) {
        forget_captures(block);
    }
    if (state != WM_BLOCK_CAPTURED) {
        return;
    }
    arena->stats.captured--;
    arena->stats.captured_bytes -= block->bytes;
    arena->out_bytes += block->bytes;
    wm_block_set_state(block, WM_BLOCK_FREEING);
    block->next_done = *chain;
    *chain = block;
}

static void release_all_locked(wm_arena *arena, wm_segment *segment,
                               wm_block **chain)
{
    for (wm_block *run = wm_segment_first_run(segment); run != NULL;
         run = run->after) {
        if (wm_block_state(run) == WM_BLOCK_SLAB) {
            wm_slab *slab = wm_block_at(run->base)->slab;

            for (unsigned i = 0; i < slab->slots; i++) {
                release_locked(arena, &slab->slot[i], chain);
            }
        } else {
            release_locked(arena, run, chain);
        }
    }
}

wm_block *wm_arena_retain_end(wm_arena *arena)
{
    wm_block *chain = NULL;

    wm_lock_acquire(&arena->lock);
    arena->retaining = false;
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        release_all_locked(arena, s, &chain);
    }
    /* Until wm_arena_put_retained() they are out, and no caller holds them. */
    arena->batched = arena->batched || chain != NULL;
    wm_lock_release(&arena->lock);
    return chain;
}

void wm_arena_put_retained(wm_arena *arena, wm_block *block,
                           enum wm_block_state state, bool had_uses)
{
    wm_lock_acquire(&arena->lock);
    if (state == WM_BLOCK_PENDING) {
        wm_arena_begin_pending_locked(arena, 1, block->bytes);
        wm_block_set_state(block, state);
        wm_lock_release(&arena->lock);
        return;
    }
    if (had_uses) {
        wm_arena_note_drained_locked(arena, block);
    }
    if (state == WM_BLOCK_IDLE) {
        wm_arena_put_locked(arena, block);
    } else {
        arena->out_bytes -= block->bytes;
        wm_block_retain_locked(arena, block, state);
    }
    wm_lock_release(&arena->lock);
}
