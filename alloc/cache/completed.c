/* completed.c: caches completed blocks in the set of the thread that freed
 * them, within a budget.
 *
 * The caller has locked the set's window; takes lock arena. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

/* Pushes a block that no caller frees: the counts of blocks that callers hold
 * do not change. note_pushed() then adds the bytes of many such blocks at once.
 */
static inline void push_uncounted(wm_magazine_set *set, wm_magazine *m,
                                  wm_block *block)
{
    wm_supply *supply = wm_magazine_supply(set, m);

    wm_block_set_state(block, set->cached);
    *m->top++ = (wm_entry){.block = block, .base = block->base};
    if (++supply->base > supply->claimed) {
        wm_magazine_claim_ahead(set, m);
    }
    block->counted = false;
}

static void note_pushed(wm_magazine_set *set, int64_t bytes)
{
    /* a set that batches frees has this one only */
    wm_room *room = &set->rooms[1];

    wm_room_add(&room->bytes, bytes);
    wm_room_add(&room->low, bytes);
    wm_magazine_set_note_high(set);
}

/* Completed blocks are cached here only while the space is not growing: cached
 * blocks serve no other thread before larger runs have been split. Budget:
 * (bytes completed here since the last growth - COMPLETED_TURNS x held bytes) /
 * COMPLETED_PART; and always a COMPLETED_LITTLE-th of the set's bytes, at most
 * COMPLETED_BYTES. */
enum {
    COMPLETED_BYTES = 1 << 20,
    COMPLETED_LITTLE = 16,
    COMPLETED_TURNS = 16,
    COMPLETED_PART = 16,
    COMPLETED_LOOKS = 8 /* batches between two computations of the budget */
};

/* Computes the budget, and whether the footprint is stable. A growth subtracts
 * COMPLETED_TURNS times its bytes from the completed bytes. It does not clear
 * them: else a growth by one thread would reset the budgets of all threads. */
static void set_budget_locked(wm_magazine_set *set)
{
    uint64_t grown = atomic_load_explicit(&set->arena->siblings->grown,
                                          memory_order_relaxed);
    int64_t less = COMPLETED_TURNS * (int64_t)(grown - set->grown);
    int64_t held = (int64_t)set->arena->stats.held_bytes.current;
    int64_t least = set->bytes_max / COMPLETED_LITTLE, most;

    set->grown = grown;
    set->completed = set->completed > less ? set->completed - less : 0;
    least = least < COMPLETED_BYTES ? least : COMPLETED_BYTES;
    most = (set->completed - COMPLETED_TURNS * held) / COMPLETED_PART;
    set->footprint_stable = most > least;
    if (!set->footprint_stable) {
        most = least;
    }
    set->completed_max = most < set->bytes_max ? most : set->bytes_max;
}

/* most: bytes that the set may still cache. */
static bool push_completed_locked(wm_magazine_set *set, wm_block *block,
                                  int64_t most)
{
    wm_magazine *m;

    if (!wm_magazine_set_has_place(set, block)) {
        return false;
    }
    set->completed += (int64_t)block->bytes;
    m = &set->of[block->size_class];
    if (m->top == m->end || m->bytes > most ||
        wm_block_fate(block) != WM_BLOCK_IDLE) {
        return false;
    }
    push_uncounted(set, m, block);
    return true;
}

wm_block *wm_cache_add_completed(wm_magazine_set *set, wm_block *chain)
{
    wm_block *rest = NULL;
    size_t count = 0, bytes = 0;
    int64_t most;

    wm_lock_acquire(&set->arena->lock);
    set_budget_locked(set);
    most = set->completed_max - wm_magazine_set_bytes(set);
    while (chain != NULL) {
        wm_block *next = chain->next_done;

        if (push_completed_locked(set, chain, most - (int64_t)bytes)) {
            bytes += chain->bytes;
            count++;
        } else {
            chain->next_done = rest;
            rest = chain;
        }
        chain = next;
    }
    note_pushed(set, (int64_t)bytes);
    wm_arena_end_pending_locked(set->arena, count, bytes);
    wm_lock_release(&set->arena->lock);
    return rest;
}

/* Puts blocks that do not fit back into their arenas. */
static void put_rest(wm_block *const *rest, size_t count)
{
    while (count > 0) {
        wm_arena *home = (*rest)->segment->arena;

        wm_lock_acquire(&home->lock);
        for (; count > 0 && (*rest)->segment->arena == home; count--) {
            wm_arena_put_locked(home, *rest++);
        }
        wm_lock_release(&home->lock);
    }
}

void wm_cache_add_pending_batch(wm_magazine_set *set,
                                const wm_pending_batch *batch)
{
    wm_block *rest[WM_PENDING_BLOCKS];
    size_t left = 0;
    int64_t bytes = 0, most;

    /* Locks only if the arena counts blocks of the batch as pending, or the
     * budget is due: after a growth, and every COMPLETED_LOOKS batches. */
    if (batch->counted > 0 || set->batches++ % COMPLETED_LOOKS == 0 ||
        set->grown != atomic_load_explicit(&set->arena->siblings->grown,
                                           memory_order_relaxed)) {
        wm_lock_acquire(&set->arena->lock);
        wm_arena_end_pending_locked(set->arena, batch->counted,
                                    batch->counted_bytes);
        set_budget_locked(set);
        wm_lock_release(&set->arena->lock);
    }
    most = set->completed_max - wm_magazine_set_bytes(set);
    for (size_t i = 0; i < batch->count; i++) {
        wm_block *block = batch->block[i];
        wm_magazine *m = &set->of[block->size_class];

        /* The free put the class to use; a magazine without entries has top ==
         * end. */
        if (m->top == m->end || bytes + m->bytes > most) {
            rest[left++] = block;
            continue;
        }
        push_uncounted(set, m, block);
        bytes += m->bytes;
    }
    note_pushed(set, bytes);
    set->completed += (int64_t)batch->bytes;
    put_rest(rest, left);
}
