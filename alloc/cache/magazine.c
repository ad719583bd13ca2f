/* magazine.c: misses, and frees that are no hits.
 *
 * Locks the calling thread's window and under it lock arena. Calls no
 * driver. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"
#include "alloc/stream/stream_lane.h"

/* Most bytes of one refill, as a part of the set's; and how many misses of the
 * thread may lie between two misses of a class for its batch to grow. */
enum { WM_BATCH_PART = 8, WM_MISSED_LATELY = 4 };

/* ---- misses -------------------------------------------------------------- */

/* Limits a refill to `most` blocks, to the capacity, and to the bytes left in
 * the set; at least one block. */
static unsigned limit_batch(wm_magazine_set *set, const wm_magazine *m,
                            unsigned most)
{
    int64_t left;

    most = most < m->room ? most : m->room;
    if (most <= 1) {
        return 1;
    }
    left = (set->bytes_max - wm_magazine_set_bytes(set)) / m->bytes;
    return left >= (int64_t)most ? most : left > 1 ? (unsigned)left : 1;
}

/* Blocks of a class in the largest refill. */
static unsigned batch_max(const wm_magazine_set *set, const wm_magazine *m)
{
    int64_t most = set->bytes_max / WM_BATCH_PART / m->bytes;

    return most < m->room / 2 ? (unsigned)most : m->room / 2;
}

/* Sets the class's next batch after a refill that split runs: twice the last
 * one if the class missed lately, else one block. */
static void adjust_batch(wm_magazine_set *set, wm_magazine *m)
{
    wm_supply *supply = wm_magazine_supply(set, m);
    uint16_t gap = (uint16_t)(++set->misses - supply->missed_at);
    unsigned batch = 1;

    if (gap <= WM_MISSED_LATELY) {
        batch = batch_max(set, m);
        batch = 2u * supply->batch < batch ? 2u * supply->batch : batch;
    }
    supply->batch = (uint16_t)(batch > 1 ? batch : 1);
    supply->missed_at = set->misses;
}

/* Drops blocks that another thread freed as well and owns: the frees that
 * brought them into the transfer cache do not count. */
static __attribute__((noinline, cold)) void
drop_transferred(wm_magazine_set *set, wm_magazine *m, unsigned count)
{
    wm_room_change(set, m, -(int64_t)count, 0);
    wm_magazine_supply(set, m)->base += (int32_t)count;
    set->stale += count;
}

/* Refills from the transfer cache of an arena, up to half of the capacity:
 * nothing has to be split for these blocks. In a hit of the window, or with its
 * lock. */
static bool take_transferred(wm_magazine_set *set, wm_magazine *m,
                             wm_arena *from)
{
    wm_transfer_class *c = &from->transfer_cache.of[m - set->of];
    unsigned count, fresh = 0;

    /* A magazine that is not in use has top == end. */
    if (wm_transfer_count(c) == 0 || m->top == m->end) {
        return false;
    }
    count =
        wm_transfer_take_try(c, limit_batch(set, m, batch_max(set, m)), m->top);
    for (unsigned i = 0; i < count; i++) {
        if (wm_likely(wm_transfer_has(m->top[i].block))) {
            wm_block_set_state(m->top[i].block, set->cached);
            m->top[fresh++] = m->top[i];
        }
    }
    if (wm_unlikely(fresh < count)) {
        drop_transferred(set, m, count - fresh);
    }
    wm_magazine_recount(set, m, fresh);
    return fresh > 0;
}

/* Refills from an arena: the set's own or a sibling of it. */
static unsigned take_from_arena(wm_magazine_set *set, wm_magazine *m,
                                wm_arena *from, enum wm_split split)
{
    bool held = wm_lock_acquire(&from->lock);
    unsigned count;

    if (from == set->arena) {
        set->contended += held;
        set->locked++;
    }
    count = wm_arena_take_batch_locked(
        from, wm_magazine_set_lane(set, from), (unsigned)(m - set->of),
        limit_batch(set, m, wm_magazine_supply(set, m)->batch), split,
        set->cached, m->top);
    wm_lock_release(&from->lock);
    return count;
}

/* A block of the transfer cache serves a request that is smaller by this part
 * of what a block of the thread's own may be: the arena can cut it to measure.
 */
enum { TRANSFERRED_LARGER = 4 };

/* Counts a use of the cache in a hit. False: the budget is due, which only the
 * slow path computes. */
static bool count_use(wm_magazine_set *set)
{
    if (set->slow + 1 == WM_ECONOMY_STEP) {
        return false;
    }
    set->slow++;
    return true;
}

/* The next class whose blocks may serve a request, which are of at most so many
 * bytes; or null. */
static wm_magazine *next_larger(wm_magazine_set *set, wm_magazine *m,
                                int64_t most)
{
    int64_t small = (int64_t)set->arena->small_max;
    const wm_magazine *before = m++;

    return m < &set->of[WM_CLASSES] && m->bytes <= most &&
                   (m->bytes <= small) == (before->bytes <= small)
               ? m
               : NULL;
}

/* The first such class, from m on, that has blocks in the transfer cache of an
 * arena, or of a sibling of it; some of them are in its magazine now. */
static wm_magazine *refill_from_transfer_caches(wm_magazine_set *set,
                                                wm_magazine *first,
                                                int64_t most)
{
    wm_arena *from = set->arena;

    do {
        for (wm_magazine *m = first; m != NULL; m = next_larger(set, m, most)) {
            if (take_transferred(set, m, from)) {
                return m;
            }
        }
        from = wm_arena_next(set->arena, from);
    } while (from != set->arena);
    return NULL;
}

const wm_entry *wm_magazine_pop_any(wm_magazine_set *set, size_t bytes,
                                    bool laned)
{
    size_t more = bytes < WM_LARGER_BYTES ? bytes : WM_LARGER_BYTES;
    wm_magazine *first = &set->of[wm_size_class_fixed(bytes)], *m = first;
    wm_entry *entry;
    wm_block *block;

    while (m != NULL && wm_magazine_count(m) == 0) {
        m = next_larger(set, m, (int64_t)(bytes + more));
    }
    if (m == NULL && !laned) {
        if (!count_use(set)) {
            return NULL;
        }
        m = refill_from_transfer_caches(
            set, first, (int64_t)(bytes + more / TRANSFERRED_LARGER));
    }
    if (m == NULL) {
        set->empty = first;
        return NULL;
    }
    entry = m->top - 1;
    block = entry->block;
    if (!wm_magazine_is_fresh(set, block)) {
        return NULL;
    }
    if (!wm_room_take(set, m)) {
        wm_room_change(set, m, -1, -m->bytes);
    }
    return wm_magazine_pop_entry(set, m, entry, block, bytes);
}

static wm_block *pop(wm_magazine_set *set, size_t bytes)
{
    const wm_entry *entry = wm_magazine_pop_any(set, bytes, set->lane != NULL);

    return entry != NULL ? entry->block : NULL;
}

/* Frees a block of the set to the transfer cache of its arena. In a hit of the
 * window, or with its lock. False: another thread has the class, or there is no
 * room. */
static bool transfer_one(wm_magazine_set *set, wm_block *block, char *base)
{
    wm_state live = set->live;
    wm_transfer_class *c =
        &block->segment->arena->transfer_cache.of[block->size_class];
    bool taken;

    if (!wm_transfer_try(c)) {
        return false;
    }
    /* Claimed, as by the slow path: another thread may free the block too. */
    taken = wm_transfer_count(c) < c->room &&
            atomic_compare_exchange_strong_explicit(
                &block->state, &live, WM_BLOCK_FREEING, memory_order_acquire,
                memory_order_relaxed);
    if (taken) {
        wm_magazine_count_free(set, block);
        wm_transfer_push_locked(c, block, base);
    }
    wm_transfer_unlock(c);
    return taken;
}

bool wm_magazine_push_any(wm_magazine_set *set, wm_block *block, char *base,
                          bool laned)
{
    wm_magazine *m = &set->of[block->size_class];

    /* A full magazine flushes its older half, on the slow path. */
    if (m->top == m->end) {
        return false;
    }
    if (m->bytes <= wm_magazine_set_block_max(set) &&
        wm_magazine_set_bytes(set) + m->bytes <= set->bytes_max) {
        wm_room_change(set, m, 1, m->bytes);
        wm_magazine_push_entry(set, m, m->top, block, base);
        return true;
    }
    return !laned && m->bytes <= set->transfer_max && count_use(set) &&
           transfer_one(set, block, base);
}

static enum wm_refill refill(wm_magazine_set *set, wm_magazine *m,
                             const wm_request *request, enum wm_split split,
                             wm_block **block)
{
    bool looked = set->empty == m && wm_magazine_count(m) == 0;
    unsigned count;

    set->empty = NULL;
    if (!looked) {
        (void)wm_magazine_sift(set, m, wm_magazine_count(m));
        *block = pop(set, request->bytes);
    }
    if (*block != NULL) {
        return WM_REFILL_DONE;
    }
    if (m->bytes > wm_magazine_set_block_max(set)) {
        return WM_REFILL_NONE;
    }
    count = take_from_arena(set, m, request->arena, split);
    if (count == 0) {
        return WM_REFILL_MISSED;
    }
    wm_magazine_recount(set, m, count);
    adjust_batch(set, m);
    *block = pop(set, request->bytes);
    return WM_REFILL_DONE;
}

enum wm_refill wm_cache_refill(wm_arena_group *group, const wm_request *request,
                               enum wm_split split, wm_block **block)
{
    enum wm_refill result = WM_REFILL_NONE;
    wm_window *window;
    wm_magazine_set *set;
    wm_magazine *m = NULL;

    if (!wm_group_may_cache(group, request->bytes)) {
        return WM_REFILL_NONE;
    }
    set = wm_cache_lock_for(group, request, &window);
    if (set == NULL) {
        return WM_REFILL_NONE;
    }
    if (wm_arena_is_sibling(set->arena, request->arena)) {
        wm_magazine_set_budget(set);
        m = wm_magazine_use(set, wm_size_class_fixed(request->bytes));
    }
    if (m != NULL) {
        result = refill(set, m, request, split, block);
        if (wm_unlikely(set->locked >= WM_CONTENTION_SAMPLE)) {
            wm_cache_move_to_sibling(set);
        }
    }
    wm_biased_release(&window->biased);
    return result;
}

void wm_magazine_set_tag_block(wm_magazine_set *set, wm_block *block)
{
    if (wm_magazine_set_has_place(set, block) &&
        (int64_t)block->bytes <= wm_magazine_set_block_max(set) &&
        wm_magazine_use(set, block->size_class) != NULL) {
        /* Relaxed: no other thread knows the block's pointer yet. */
        atomic_store_explicit(&block->state, set->live, memory_order_relaxed);
    }
}

void wm_cache_tag_block(wm_arena_group *group, const wm_request *request,
                        wm_block *block)
{
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, request, &window);

    if (set == NULL) {
        return;
    }
    wm_magazine_set_tag_block(set, block);
    wm_biased_release(&window->biased);
}

/* ---- frees --------------------------------------------------------------- */

/* A set that has more than its part is evicted to so much below it. */
enum { EVICT_PART = 8 };

/* Caches a block as a hit does, and flushes others if it does not fit; or frees
 * it to its arena, if it is larger than the set may cache. False: the set has
 * no magazine for the class, and the block is unchanged. */
static bool push_slow(wm_magazine_set *set, wm_block *block)
{
    wm_magazine *m = wm_magazine_use(set, block->size_class);

    if (m == NULL) {
        return false;
    }
    wm_magazine_set_budget(set);
    if (m->bytes <= wm_magazine_set_block_max(set)) {
        if (m->top == m->end) {
            wm_magazine_flush(set, m, (wm_magazine_count(m) + 1) / 2);
        }
        /* For a moment the set may have more than its part, so that this block
         * is among those of which the largest sort is evicted. */
        wm_room_change(set, m, 1, m->bytes);
        wm_magazine_push_entry(set, m, m->top, block, block->base);
        if (wm_magazine_set_bytes(set) > set->bytes_max) {
            wm_cache_evict(set, set->bytes_max - set->bytes_max / EVICT_PART);
        }
    } else {
        wm_magazine_count_free(set, block);
        wm_cache_put_back(set, block);
    }
    return true;
}

bool wm_cache_free(wm_arena_group *group, wm_block *block)
{
    wm_window *window;
    wm_magazine_set *set;
    bool taken;

    if (!wm_group_may_cache(group, block->bytes)) {
        return false;
    }
    set = wm_cache_lock_for(group, NULL, &window);
    if (set == NULL) {
        return false;
    }
    taken = wm_magazine_set_has_place(set, block) && push_slow(set, block);
    wm_biased_release(&window->biased);
    return taken;
}

bool wm_stream_slot_free_slow(wm_window *window, wm_block *block)
{
    const wm_stream_slot *slot;
    wm_arena *arena = NULL;
    bool taken = false;

    wm_biased_acquire(&window->biased);
    const wm_state state =
        atomic_load_explicit(&block->state, memory_order_relaxed);
    slot = wm_stream_slot_at(window, state);
    if (wm_stream_slot_is_of(window, state) &&
        wm_stream_slot_is_trusted(window->owner, slot) &&
        wm_biased_is_hittable(&window->biased)) {
        arena = wm_stream_slot_set(slot)->arena;
        taken = push_slow(wm_stream_slot_set(slot), block);
    }
    wm_biased_release(&window->biased);
    if (arena != NULL) {
        wm_lanes_cover(arena);
    }
    return taken;
}

void wm_cache_count_free(wm_arena_group *group, wm_block *block)
{
    wm_window *window;
    /* Null for a laned group, whose frees the arena counts. */
    wm_magazine_set *set = wm_cache_lock_for(group, NULL, &window);

    if (set == NULL) {
        return;
    }
    if (wm_magazine_set_has_place(set, block) &&
        wm_magazine_use(set, block->size_class) != NULL) {
        wm_magazine_count_free(set, block);
        block->counted = true;
    }
    wm_biased_release(&window->biased);
}
