/* magazine.c: misses, and frees that are no hits.
 *
 * Locks the calling thread's window and under it lock arena. Calls no
 * driver. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

/* Most bytes of one refill; and how many misses of the thread may lie between
 * two misses of a class for its batch to grow. */
enum { WM_BATCH_BYTES = 512 << 10, WM_MISSED_LATELY = 4 };
/* Most bytes of a refill from the transfer cache. */
enum { WM_TRANSFER_BATCH_BYTES = 4 << 20 };

/* ---- misses ------------------------------------------------------------ */

/* At least one, however little room is left. */
static unsigned limit_batch(wm_magazine_set *set, const wm_magazine *m,
                            unsigned most)
{
    int64_t left = (set->bytes_max - wm_magazine_set_bytes(set)) / m->bytes;

    most = most < m->room ? most : m->room;
    return left >= (int64_t)most ? most : left > 1 ? (unsigned)left : 1;
}

/* Half of the capacity: nothing has to be split for these blocks. */
static unsigned transfer_batch(wm_magazine_set *set, const wm_magazine *m)
{
    unsigned half = m->room / 2,
             most = (unsigned)(WM_TRANSFER_BATCH_BYTES / m->bytes);

    most = most < half ? most : half;
    return limit_batch(set, m, most > 1 ? most : 1);
}

/* After a refill. */
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

static void tag_cached(const wm_magazine_set *set, const wm_magazine *m,
                       unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        wm_block_set_state(m->top[i].block, set->cached);
    }
}

/* Refills from an arena: the set's own or a sibling of it. */
static unsigned take_from_arena(wm_magazine_set *set, wm_magazine *m,
                                wm_arena *from, enum wm_split split, bool *cut)
{
    unsigned size_class = (unsigned)(m - set->of);
    unsigned count;

    if (from != set->arena) {
        wm_lock_acquire(&from->lock);
    } else {
        set->contended += wm_lock_acquire(&from->lock);
        set->locked++;
    }
    count = set->lane != NULL
                ? 0
                : wm_transfer_cache_take_locked(from, size_class,
                                                transfer_batch(set, m), m->top);
    *cut = count == 0;
    if (*cut) {
        count = wm_arena_take_batch_locked(
            from, wm_magazine_set_lane(set, from), size_class,
            limit_batch(set, m, wm_magazine_supply(set, m)->batch), split,
            set->cached, m->top);
    }
    wm_lock_release(&from->lock);
    if (!*cut) {
        tag_cached(set, m, count);
    }
    return count;
}

/* Refills from the transfer caches of the siblings after the home arena had
 * nothing: splits no run and polls nothing. */
static unsigned take_from_siblings(wm_magazine_set *set, wm_magazine *m,
                                   wm_arena *home)
{
    unsigned size_class = (unsigned)(m - set->of), count = 0;

    for (wm_arena *a = wm_arena_next(home, home); a != home && count == 0;
         a = wm_arena_next(home, a)) {
        if (wm_transfer_cache_count(&a->transfer_cache, size_class) > 0) {
            wm_lock_acquire(&a->lock);
            count = wm_transfer_cache_take_locked(
                a, size_class, transfer_batch(set, m), m->top);
            wm_lock_release(&a->lock);
            tag_cached(set, m, count);
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
    size_t bytes = request->bytes;
    unsigned count;
    bool cut;

    if (may_pop(set, m)) {
        (void)wm_magazine_sift(set, m, wm_magazine_count(m));
        *block = pop(set, bytes);
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
    wm_magazine_recount(set, m, count);
    if (cut) {
        adjust_batch(set, m);
    }
    *block = pop(set, bytes);
    return WM_REFILL_DONE;
}

/* The magazine that can serve a request, or null. */
static wm_magazine *magazine_for(wm_magazine_set *set,
                                 const wm_request *request)
{
    return request->bytes <= WM_CLASS_LIMIT &&
                   wm_arena_is_sibling(set->arena, request->arena)
               ? wm_magazine_use(set, wm_size_class_fixed(request->bytes))
               : NULL;
}

enum wm_refill wm_cache_refill(wm_arena_group *group, const wm_request *request,
                               enum wm_split split, wm_block **block)
{
    enum wm_refill result = WM_REFILL_NONE;
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, request, &window);
    wm_magazine *m;

    if (set == NULL) {
        return WM_REFILL_NONE;
    }
    m = magazine_for(set, request);
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
        /* Relaxed: the caller has not got the block yet. */
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

/* ---- frees -------------------------------------------------------------- */

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
