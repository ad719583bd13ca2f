/* memory_free.c: warm_free() of blocks of every kind (memory.h). A hit is
 * inlined here; a miss calls the space. */
#include "warmpool/memory.h"

#include "alloc/kinds/device_space.h"
#include "alloc/cache/pending_hit.h"
#include "alloc/cache/stream_slot.h"
#include "alloc/block/page_map.h"
#include "alloc/arena/arena.h"
#include "runtime/base/status.h"

static warm_status not_a_block(const void *pointer, const wm_block *block)
{
    warm_status status = wm_space_check_left(pointer);

    if (status != WARM_OK) {
        return status;
    }
    return wm_fail(
        WARM_INVALID_POINTER, "%p %s", pointer,
        wm_is_imported(pointer)
            ? "is memory of another process: it is closed with "
              "warm_ipc_close()"
        : block != NULL
            ? "is not the start of a live block: it points into one, or was "
              "freed already"
            : "was not allocated by warmpool, or its memory was returned to "
              "the system after an earlier free");
}

/* LIVE → FREEING, so that the second of two frees of a pointer is refused. The
 * base is compared again: the record of a stale pointer may describe another
 * block. */
static bool claim(wm_block *block, const void *pointer)
{
    wm_state live = atomic_load_explicit(&block->state, memory_order_relaxed);

    if (wm_state_kind(live) != WM_BLOCK_LIVE ||
        !atomic_compare_exchange_strong_explicit(
            &block->state, &live, WM_BLOCK_FREEING, memory_order_acquire,
            memory_order_relaxed)) {
        return false;
    }
    if (block->base != pointer) {
        atomic_store_explicit(&block->state, live, memory_order_release);
        return false;
    }
    (void)wm_block_detach_uses(block);
    return true;
}

/* block: the record that the page map has for pointer. */
static __attribute__((noinline)) warm_status free_slow(wm_block *block,
                                                       void *pointer)
{
    if (pointer == NULL) {
        return WARM_OK;
    }
    /* The state first: only a live block's fields identify its owner (acquire:
     * they were written before). A pointer into the middle of a block claims
     * nothing, since the block's owner may free it at the same time. */
    if (block == NULL ||
        wm_state_kind(atomic_load_explicit(
            &block->state, memory_order_acquire)) != WM_BLOCK_LIVE ||
        block->base != pointer) {
        return not_a_block(pointer, wm_block_at(pointer));
    }
    warm_runtime *runtime = wm_space_of(block)->group.runtime;
    warm_status status = wm_runtime_check(runtime);
    if (status != WARM_OK) {
        return status;
    }
    if (block->segment->arena->lent) {
        return wm_fail(WARM_INVALID_POINTER,
                       "%p is memory of the program that was adopted: it is "
                       "given up by warm_pinned_adopt_end()",
                       pointer);
    }
    if (!claim(block, pointer)) {
        return not_a_block(pointer, block);
    }
    if (wm_runtime_is_traced(runtime)) {
        wm_traced_free(runtime, block);
    }
    wm_space_free(wm_space_of(block), block);
    return WARM_OK;
}

/* Result of a free into the thread's own cache. */
enum free_result {
    FREED,
    NOT_OURS,
    USED,   /* a stream may use it */
    NO_ROOM /* or the block must not be cached, or that is unknown */
};

/* Frees into the caches of this thread, which holds the biased lock. block: the
 * record that the pointer cache or the page map has for pointer. */
static inline __attribute__((always_inline)) enum free_result
free_ours(wm_window *window, wm_block *block, void *pointer)
{
    /* Read before the state: only another thread's free of this block removes
     * the stream that this thread recorded, and the state, read next, shows
     * that free. */
    const wm_timeline *own = wm_block_own(block);
    /* Acquire: the block's other fields are those of its owner. */
    wm_state state = atomic_load_explicit(&block->state, memory_order_acquire);

    if (wm_magazine_is_of(window, state)) {
        if (wm_unlikely(!wm_block_starts_at(block, pointer))) {
            return NOT_OURS;
        }
        /* The state means that no other thread recorded a stream and no capture
         * uses the block. */
        if (own != NULL) {
            return USED;
        }
        return wm_likely(wm_magazine_free(window, block, pointer)) ? FREED
                                                                   : NO_ROOM;
    }
    if (wm_stream_slot_may_free(window, block, state, pointer)) {
        return wm_likely(wm_stream_slot_push(window, state, block, pointer))
                   ? FREED
                   : NO_ROOM;
    }
    return NOT_OURS;
}

static __attribute__((noinline)) warm_status
free_used(wm_window *window, wm_block *block, void *pointer)
{
    return wm_likely(wm_block_own(block) != NULL) &&
                   wm_likely(wm_pending_free(window, block))
               ? WARM_OK
               : free_slow(block, pointer);
}

/* Caches a block for which free_ours() found no room, if its set is not full.
 */
static bool push_any(wm_window *window, wm_state state, wm_block *block,
                     char *base)
{
    const wm_stream_slot *slot;

    if (wm_magazine_is_of(window, state)) {
        return wm_magazine_push_any(
            atomic_load_explicit(&window->magazines, memory_order_relaxed),
            block, base, false);
    }
    slot = wm_stream_slot_at(window, state);
    return wm_stream_slot_is_trusted(window->owner, slot) &&
           wm_magazine_push_any(wm_stream_slot_set(slot), block, base, true);
}

/* Frees a block that the pointer cache does not have, or not as one that can be
 * cached. */
static __attribute__((noinline)) warm_status free_found(wm_window *window,
                                                        void *pointer)
{
    wm_block *block = wm_block_from(pointer);
    enum free_result result;
    wm_state state;

    /* 1. Null, or not in our memory. */
    if (block == NULL) {
        return free_slow(block, pointer);
    }
    /* 2. Another thread's block: cached here if no stream used it. Acquire: the
     * block's other fields are those of its owner. */
    state = atomic_load_explicit(&block->state, memory_order_acquire);
    if (!wm_magazine_is_of(window, state) &&
        !wm_stream_slot_is_of(window, state)) {
        return wm_likely(wm_magazine_free_other(window, block, state, pointer))
                   ? WARM_OK
                   : free_slow(block, pointer);
    }
    /* 3. This thread's block, but a visitor holds the biased lock: a used block
     * is batched under the lock. The slow path would bypass this thread's
     * batches for as long as the visitor is preempted. */
    if (!wm_biased_enter(&window->biased)) {
        return wm_block_own(block) != NULL &&
                       wm_pending_free_visited(window, block, pointer)
                   ? WARM_OK
                   : free_slow(block, pointer);
    }
    /* 4. This thread's block: as in warm_free(). */
    result = free_ours(window, block, pointer);
    if (result == NO_ROOM && push_any(window, state, block, pointer)) {
        result = FREED;
    }
    wm_biased_leave(&window->biased);
    if (result == FREED) {
        return WARM_OK;
    }
    if (result == USED) {
        return free_used(window, block, pointer);
    }
    /* 5. Its magazine has no room; or a capture uses the block; or pointer is
     * not the start of a live one. */
    return result == NO_ROOM && wm_stream_slot_free_slow(window, block)
               ? WARM_OK
               : free_slow(block, pointer);
}

/* All slow paths are tail calls, so that a hit saves no register. */
warm_status warm_free(void *pointer)
{
    wm_window *window = wm_window_mine();
    wm_block *block = wm_pointer_cache_entry(window, pointer);

    if (wm_likely(block != NULL) &&
        wm_likely(wm_biased_enter(&window->biased))) {
        enum free_result result = free_ours(window, block, pointer);

        wm_biased_leave(&window->biased);
        if (wm_likely(result == FREED)) {
            return WARM_OK;
        }
        if (result == USED) {
            return free_used(window, block, pointer);
        }
    }
    return free_found(window, pointer);
}
