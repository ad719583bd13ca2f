/* magazine.c: misses, and frees that are no hits.
 *
 * Locks the calling thread's window and under it lock arena. Calls no
 * driver. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

/* Most bytes of one refill, and of one from the transfer cache; and how many
 * misses of the thread may lie between two misses of a class for its batch to
 * grow. */
enum {
    WM_BATCH_BYTES = 512 << 10,
    WM_TRANSFER_BATCH_BYTES = 4 << 20,
    WM_MISSED_LATELY = 4
};

/* ---- misses -------------------------------------------------------------- */

/* Limits a refill to `most` blocks, to the capacity, and to the bytes left in
 * the set; at least one block. */
static unsigned limit_batch(wm_magazine_set *set, const wm_magazine *m,
                            unsigned most)
{
    int64_t left = (set->bytes_max - wm_magazine_set_bytes(set)) / m->bytes;

    most = most < m->room ? most : m->room;
    return left >= (int64_t)most ? most : left > 1 ? (unsigned)left : 1;
}

/* Sets the class's next batch after a refill that split runs: twice the last
 * one if the class missed lately, else one block. */
static void adjust_batch(wm_magazine_set *set, wm_magazine *m)
{
    wm_supply *supply = wm_magazine_supply(set, m);
    uint32_t most = (uint32_t)(WM_BATCH_BYTES / m->bytes);
    uint32_t twice = 2u * supply->batch;
    uint16_t gap = (uint16_t)(++set->misses - supply->missed_at);

    most = most < m->room / 2 ? most : m->room / 2;
    if (gap > WM_MISSED_LATELY || most < 2) {
        supply->batch = 1;
    } else {
        supply->batch = (uint16_t)(twice < most ? twice : most);
    }
    supply->missed_at = set->misses;
}

/* Refills from the transfer cache of an arena, up to half of the capacity:
 * nothing has to be split for these blocks. Their states are set later. */
static unsigned take_transferred_locked(wm_magazine_set *set,
                                        const wm_magazine *m, wm_arena *from)
{
    unsigned half = m->room / 2;
    unsigned most = (unsigned)(WM_TRANSFER_BATCH_BYTES / m->bytes);

    most = most < half ? most : half;
    return wm_transfer_cache_take_locked(
        from, (unsigned)(m - set->of), limit_batch(set, m, most > 1 ? most : 1),
        m->top);
}

/* Refills from an arena: the set's own or a sibling of it. */
static unsigned take_from_arena(wm_magazine_set *set, wm_magazine *m,
                                wm_arena *from, enum wm_split split, bool *cut)
{
    bool held = wm_lock_acquire(&from->lock);
    unsigned count = 0;

    if (from == set->arena) {
        set->contended += held;
        set->locked++;
    }
    if (set->lane == NULL) {
        count = take_transferred_locked(set, m, from);
    }
    *cut = count == 0;
    if (*cut) {
        count = wm_arena_take_batch_locked(
            from, wm_magazine_set_lane(set, from), (unsigned)(m - set->of),
            limit_batch(set, m, wm_magazine_supply(set, m)->batch), split,
            set->cached, m->top);
    }
    wm_lock_release(&from->lock);
    return count;
}

/* Refills from the transfer caches of the siblings if the home arena has no
 * block: splits no run and polls no stream. */
static unsigned take_from_siblings(wm_magazine_set *set, wm_magazine *m,
                                   wm_arena *home)
{
    unsigned count = 0;

    for (wm_arena *a = wm_arena_next(home, home); a != home && count == 0;
         a = wm_arena_next(home, a)) {
        if (wm_transfer_cache_count(&a->transfer_cache,
                                    (unsigned)(m - set->of)) > 0) {
            wm_lock_acquire(&a->lock);
            count = take_transferred_locked(set, m, a);
            wm_lock_release(&a->lock);
        }
    }
    return count;
}

/* Allocates as a hit does, from any set, and claims room first. */
static wm_block *pop(wm_magazine_set *set, size_t bytes)
{
    const wm_magazine *m = &set->of[wm_size_class_fixed(bytes)];
    const wm_magazine *end = &set->of[WM_CLASSES];
    const wm_entry *entry;

    wm_magazine_need_room(set, m, bytes);
    entry = wm_magazine_pop(set, bytes, set->lane != NULL);
    if (entry == NULL) {
        const wm_magazine *largest = m + WM_LARGER < end ? m + WM_LARGER : m;

        wm_magazine_need_room(
            set, largest->room_offset == m->room_offset ? largest : m, bytes);
        entry = wm_magazine_pop_larger(set, bytes, set->lane != NULL);
    }
    return entry != NULL ? entry->block : NULL;
}

/* Whether a class, or one whose blocks may serve its requests, has entries. */
static bool may_pop(const wm_magazine_set *set, const wm_magazine *m)
{
    const wm_magazine *end = &set->of[WM_CLASSES];
    uint32_t count = 0;

    for (int i = 0; i <= WM_LARGER && m + i < end; i++) {
        count += wm_magazine_count(m + i);
    }
    return count > 0;
}

static enum wm_refill refill(wm_magazine_set *set, wm_magazine *m,
                             const wm_request *request, enum wm_split split,
                             wm_block **block)
{
    unsigned count;
    bool cut;

    if (may_pop(set, m)) {
        (void)wm_magazine_sift(set, m, wm_magazine_count(m));
        *block = pop(set, request->bytes);
        if (*block != NULL) {
            return WM_REFILL_DONE;
        }
    }
    count = take_from_arena(set, m, request->arena, split, &cut);
    if (count == 0 && set->lane == NULL) {
        count = take_from_siblings(set, m, request->arena);
        cut = false;
    }
    if (count == 0) {
        return WM_REFILL_MISSED;
    }
    for (unsigned i = 0; !cut && i < count; i++) {
        wm_block_set_state(m->top[i].block, set->cached);
    }
    wm_magazine_recount(set, m, count);
    if (cut) {
        adjust_batch(set, m);
    }
    *block = pop(set, request->bytes);
    return WM_REFILL_DONE;
}

enum wm_refill wm_cache_refill(wm_arena_group *group, const wm_request *request,
                               enum wm_split split, wm_block **block)
{
    enum wm_refill result = WM_REFILL_NONE;
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, request, &window);
    wm_magazine *m = NULL;

    if (set == NULL) {
        return WM_REFILL_NONE;
    }
    if (request->bytes <= WM_CLASS_LIMIT &&
        wm_arena_is_sibling(set->arena, request->arena)) {
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
    if (wm_arena_is_sibling(block->segment->arena, set->arena)) {
        wm_magazine_set_use_room(set, block);
    }
    if (wm_magazine_set_has_place(set, block) &&
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

/* Caches a block as a hit does, and flushes others if it does not fit. False:
 * there is no memory for entries of the class; the block is not cached. */
static bool push_slow(wm_magazine_set *set, wm_block *block)
{
    bool laned = set->lane != NULL;
    wm_magazine *m = wm_magazine_use(set, block->size_class);
    wm_room *room;
    bool taken;

    if (m == NULL) {
        return false;
    }
    wm_magazine_trim_room(set, m);
    if (m->top == m->end) {
        wm_magazine_flush_half(set, m);
    }
    if (wm_magazine_set_bytes(set) + m->bytes > set->bytes_max) {
        (void)wm_cache_flush(set, WM_HALF);
    }
    /* This block may fill all of the set's bytes, beyond the share of small or
     * of large requests. */
    room = wm_magazine_room(set, m, laned);
    room->high =
        wm_room_get(&room->bytes) + set->bytes_max - wm_magazine_set_bytes(set);
    taken = wm_magazine_push(set, block, block->base, laned);
    wm_magazine_set_note_high(set);
    if (!taken) {
        wm_arena *home = block->segment->arena;

        wm_magazine_count_free(set, block, laned);
        block->counted = true;
        wm_lock_acquire(&home->lock);
        wm_arena_put_locked(home, block);
        wm_lock_release(&home->lock);
    }
    return true;
}

bool wm_cache_free(wm_arena_group *group, wm_block *block)
{
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, NULL, &window);
    bool taken;

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
    bool taken = false;
    wm_state state;

    wm_biased_acquire(&window->biased);
    state = atomic_load_explicit(&block->state, memory_order_relaxed);
    slot = wm_stream_slot_at(window, state);
    if (wm_stream_slot_is_of(window, state) &&
        wm_stream_slot_is_trusted(window->owner, slot) &&
        wm_biased_is_hittable(&window->biased)) {
        taken = push_slow(wm_stream_slot_set(slot), block);
    }
    wm_biased_release(&window->biased);
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
        wm_magazine_trim_room(set, &set->of[block->size_class]);
        wm_magazine_count_free(set, block, false);
        block->counted = true;
    }
    wm_biased_release(&window->biased);
}
