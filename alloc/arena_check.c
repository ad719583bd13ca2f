/* arena_check.c: walks an arena and tells whether its invariants hold.
 *
 * For tests: takes lock arena for the whole walk. Prints nothing; the first
 * broken rule stops the walk, and a debugger shows where. */
#include "alloc/arena_int.h"

#include "alloc/page_map.h"
#include "runtime/base/status.h"

struct tally {
    uint64_t held, live, pending, lost, captured, idle;
    size_t idle_runs, slabs_with_room;
};

static bool tally_block(struct tally *tally, wm_block *block)
{
    switch (atomic_load_explicit(&block->state, memory_order_relaxed)) {
    case WM_BLOCK_IDLE:
        tally->idle += block->bytes;
        return true;
    case WM_BLOCK_LIVE:
    case WM_BLOCK_FREEING:
        tally->live += block->bytes;
        return block->requested <= block->bytes;
    case WM_BLOCK_PENDING:
        tally->pending += block->bytes;
        return true;
    case WM_BLOCK_LOST:
        tally->lost += block->bytes;
        return true;
    case WM_BLOCK_CAPTURED:
        tally->captured += block->bytes;
        return true;
    default:
        return false;
    }
}

static bool check_slab(struct tally *tally, const wm_block *run)
{
    uintptr_t entry = wm_page_map_get(run->base + run->bytes - 1);
    wm_slab *slab = (wm_slab *)(entry & ~(uintptr_t)3);
    unsigned idle = 0;

    if ((entry & 3) != WM_ENTRY_SLAB || slab->run != run ||
        slab->base != run->base ||
        slab->slots * slab->slot_bytes != run->bytes) {
        return false;
    }
    for (unsigned i = 0; i < slab->slots; i++) {
        wm_block *slot = &slab->slot[i];
        bool is_idle = atomic_load_explicit(
                           &slot->state, memory_order_relaxed) == WM_BLOCK_IDLE;

        if (is_idle != (((slab->idle_mask >> i) & 1) != 0) ||
            slot->base != slab->base + i * slab->slot_bytes ||
            wm_block_at(slot->base + slot->bytes - 1) != slot ||
            !tally_block(tally, slot)) {
            return false;
        }
        idle += is_idle;
    }
    tally->slabs_with_room += idle > 0;
    return idle == slab->idle && idle < slab->slots;
}

static bool check_run(struct tally *tally, wm_block *run)
{
    int state = atomic_load_explicit(&run->state, memory_order_relaxed);
    int next = run->after == NULL ? WM_BLOCK_VOID
                                  : atomic_load_explicit(&run->after->state,
                                                         memory_order_relaxed);

    if (state == WM_BLOCK_SLAB) {
        return check_slab(tally, run);
    }
    tally->idle_runs += state == WM_BLOCK_IDLE;
    return wm_block_at(run->base) == run &&
           wm_block_at(run->base + run->bytes - 1) == run &&
           !(state == WM_BLOCK_IDLE && next == WM_BLOCK_IDLE) &&
           tally_block(tally, run);
}

static bool check_segment(struct tally *tally, wm_segment *segment)
{
    char *at = segment->base;

    tally->held += segment->bytes;
    for (wm_block *run = wm_segment_first_run(segment); run != NULL;
         run = run->after) {
        if (run->base != at || run->segment != segment || run->slab != NULL ||
            !check_run(tally, run)) {
            return false;
        }
        at += run->bytes;
    }
    return at == segment->base + segment->bytes;
}

static size_t count_tree(const wm_block *node, bool *ordered)
{
    if (node == NULL) {
        return 0;
    }
    *ordered = *ordered &&
               (node->left == NULL || (node->left->bytes <= node->bytes &&
                                       node->left->weight <= node->weight)) &&
               (node->right == NULL || (node->right->bytes >= node->bytes &&
                                        node->right->weight <= node->weight));
    return 1 + count_tree(node->left, ordered) +
           count_tree(node->right, ordered);
}

static size_t count_slabs(wm_arena *arena)
{
    size_t count = 0;

    for (int i = 0; i < WM_CLASSES; i++) {
        for (wm_slab *slab = arena->slabs[i]; slab != NULL; slab = slab->next) {
            count++;
        }
    }
    return count;
}

static bool check_locked(wm_arena *arena)
{
    struct tally tally = {0};
    bool ordered = true;
    const warm_space_stats *stats = &arena->stats;

    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (!check_segment(&tally, s)) {
            return false;
        }
    }
    return count_tree(arena->idle.root, &ordered) == tally.idle_runs &&
           ordered && count_slabs(arena) == tally.slabs_with_room &&
           tally.held + arena->detached_bytes == stats->held_bytes.current &&
           tally.pending == stats->pending_bytes.current &&
           tally.lost == stats->lost_bytes &&
           tally.captured == stats->captured_bytes &&
           tally.live == stats->block_bytes.current &&
           tally.held == tally.idle + tally.live + tally.pending + tally.lost +
                             tally.captured;
}

bool wm_arena_check(wm_arena *arena)
{
    bool good;

    wm_lock_acquire(&arena->lock);
    good = check_locked(arena);
    wm_lock_release(&arena->lock);
    return good;
}
