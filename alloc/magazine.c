/* magazine.c: misses, and frees that are no hits. See magazine.h.
 *
 * Takes the section of the calling thread's window and under it lock arena.
 * Calls no driver. */
#include "alloc/magazine_int.h"

#include "alloc/arena_int.h"
#include "alloc/space.h"

/* Most bytes that one miss brings, to a class that missed as recently as that,
 * counted in misses of the thread. */
enum { WM_BATCH_BYTES = 512 << 10, WM_MISSED_LATELY = 4 };
/* Most bytes from the depot. */
enum { WM_DEPOT_BATCH_BYTES = 4 << 20 };

/* ---- misses ------------------------------------------------------------ */

/* At least one, however little there is left. */
static unsigned fitting(wm_magazines *set, const wm_magazine *m, unsigned most)
{
    int64_t left = (set->bytes_max - wm_magazines_bytes(set)) / m->bytes;

    most = most < m->room ? most : m->room;
    return left >= (int64_t)most ? most : left > 1 ? (unsigned)left : 1;
}

static unsigned batch_of(wm_magazines *set, const wm_magazine *m)
{
    return fitting(set, m, wm_magazine_supply(set, m)->batch);
}

/* What nothing has to be cut for: half of what there is room for. */
static unsigned depot_batch_of(wm_magazines *set, const wm_magazine *m)
{
    unsigned half = m->room / 2,
             most = (unsigned)(WM_DEPOT_BATCH_BYTES / m->bytes);

    most = most < half ? most : half;
    return fitting(set, m, most > 1 ? most : 1);
}

/* After a miss that brought something. */
static void set_batch(wm_magazines *set, wm_magazine *m)
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

static void make_mine(const wm_magazines *set, const wm_magazine *m,
                      unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        wm_block_set_state(m->top[i].block, set->cached);
    }
}

/* Blocks of an arena, which may be a sibling of the set's own. */
static unsigned bring(wm_magazines *set, wm_magazine *m, wm_arena *from,
                      enum wm_cut how, bool *cut)
{
    unsigned size_class = (unsigned)(m - set->of);
    unsigned count;

    if (from != set->arena) {
        wm_magazine_settle(set, m);
        wm_lock_acquire(&from->lock);
    } else {
        set->met += wm_lock_acquire(&from->lock);
        set->takings++;
        wm_magazine_settle_locked(set, m);
        wm_magazines_settle_sums_locked(set);
    }
    count = set->lane != NULL
                ? 0
                : wm_depot_take_locked(from, size_class, depot_batch_of(set, m),
                                       m->top);
    *cut = count == 0;
    if (*cut) {
        count = wm_arena_take_batch_locked(from, wm_magazines_lane(set, from),
                                           size_class, batch_of(set, m), how,
                                           set->cached, m->top);
    }
    wm_lock_release(&from->lock);
    if (!*cut) {
        make_mine(set, m, count);
    }
    return count;
}

/* What siblings have in their depots, once there is nothing at home: no run is
 * cut for it, and nothing asked. The class and the sums have settled. */
static unsigned bring_beside(wm_magazines *set, wm_magazine *m, wm_arena *home)
{
    unsigned size_class = (unsigned)(m - set->of), count = 0;

    for (wm_arena *a = wm_arena_next(home, home); a != home && count == 0;
         a = wm_arena_next(home, a)) {
        if (wm_depot_count(&a->depot, size_class) > 0) {
            wm_lock_acquire(&a->lock);
            count = wm_depot_take_locked(a, size_class, depot_batch_of(set, m),
                                         m->top);
            wm_lock_release(&a->lock);
            make_mine(set, m, count);
        }
    }
    return count;
}

/* A hit's, of any set. */
static wm_block *pop(wm_magazines *set, size_t bytes)
{
    const wm_entry *entry = wm_magazine_pop(set, bytes, set->lane != NULL);

    if (entry == NULL) {
        entry = wm_magazine_pop_larger(set, bytes, set->lane != NULL);
    }
    return entry != NULL ? entry->block : NULL;
}

static enum wm_refill refill(wm_magazines *set, const wm_request *request,
                             enum wm_cut how, wm_block **block)
{
    size_t bytes = request->bytes;
    wm_magazine *m = wm_magazine_use(set, wm_size_class_fixed(bytes));
    unsigned count;
    bool cut;

    (void)wm_magazine_sift(set, m, wm_magazine_count(m));
    *block = pop(set, bytes);
    if (*block != NULL) {
        return WM_REFILL_DONE;
    }
    count = bring(set, m, request->arena, how, &cut);
    if (count == 0 && set->lane == NULL) {
        count = bring_beside(set, m, request->arena);
        cut = false;
    }
    if (count == 0) {
        return WM_REFILL_MISSED;
    }
    wm_magazine_recount(set, m, count);
    if (cut) {
        set_batch(set, m);
    }
    *block = pop(set, bytes);
    return WM_REFILL_DONE;
}

wm_magazines *wm_magazines_lock_for(wm_space *space, const wm_request *request,
                                    wm_window **mine)
{
    return space->traits->laned ? wm_lane_lock(space, request, mine)
                                : wm_magazines_lock_mine(space, mine);
}

static bool can_serve(const wm_magazines *set, const wm_request *request)
{
    return request->bytes <= WM_CLASS_LIMIT &&
           wm_arena_beside(set->arena, request->arena) &&
           set->supply[wm_size_class_fixed(request->bytes)].room > 0;
}

enum wm_refill wm_magazines_refill(wm_space *space, const wm_request *request,
                                   enum wm_cut cut, wm_block **block)
{
    enum wm_refill result = WM_REFILL_NONE;
    wm_window *window;
    wm_magazines *set = wm_magazines_lock_for(space, request, &window);

    if (set == NULL) {
        return WM_REFILL_NONE;
    }
    if (can_serve(set, request)) {
        result = refill(set, request, cut, block);
        if (wm_unlikely(set->takings >= WM_MEET_TAKINGS)) {
            wm_magazines_spread(set);
        }
    } else {
        wm_magazines_settle_mine(set);
    }
    wm_section_unlock(&window->section);
    return result;
}

static bool has_place(const wm_magazines *set, const wm_block *block)
{
    return block->size_class < WM_CLASSES &&
           wm_arena_beside(block->segment->arena, set->arena) &&
           set->supply[block->size_class].room > 0;
}

void wm_magazines_make_own(wm_magazines *set, wm_block *block)
{
    if (has_place(set, block)) {
        (void)wm_magazine_use(set, block->size_class);
        /* Relaxed: the caller has not got it yet. */
        atomic_store_explicit(&block->state, set->live, memory_order_relaxed);
    }
}

void wm_magazines_adopt(wm_space *space, const wm_request *request,
                        wm_block *block)
{
    wm_window *window;
    wm_magazines *set = wm_magazines_lock_for(space, request, &window);

    if (set == NULL) {
        return;
    }
    wm_magazines_make_own(set, block);
    wm_section_unlock(&window->section);
}

/* ---- frees -------------------------------------------------------------- */

void wm_magazines_count_free(wm_space *space, wm_block *block)
{
    wm_window *window;
    wm_magazines *set;

    if (space->traits->laned) {
        wm_lane_settle(space); /* the rest is for the arena to say */
        return;
    }
    set = wm_magazines_lock_mine(space, &window);
    if (set == NULL) {
        return;
    }
    if (has_place(set, block)) {
        (void)wm_magazine_use(set, block->size_class);
        wm_magazine_count_free(set, block);
        block->counted = true;
    } else {
        wm_magazines_settle_mine(set);
    }
    wm_section_unlock(&window->section);
}

void wm_magazines_push_slow(wm_magazines *set, wm_block *block)
{
    wm_magazine *m = wm_magazine_use(set, block->size_class);

    if (m->top == m->end) {
        wm_magazine_give_back_half(set, m);
    }
    if (wm_magazines_bytes(set) + m->bytes > set->bytes_max) {
        (void)wm_magazines_give_back(set, WM_HALF);
    }
    if (!wm_magazine_push(set, block, block->base, set->lane != NULL)) {
        wm_arena *home = block->segment->arena;

        wm_magazine_count_free(set, block);
        block->counted = true;
        wm_lock_acquire(&home->lock);
        wm_arena_put_locked(home, block);
        wm_lock_release(&home->lock);
    }
}

/* As a hit, of a block that another thread allocated. */
static bool push_quickly(const wm_space *space, wm_block *block)
{
    wm_window *window = wm_window_mine();
    wm_magazines *set;
    bool taken;

    if (window->owner != space->runtime ||
        !wm_section_enter(&window->section)) {
        return false;
    }
    set = wm_magazines_of(window);
    taken = set != NULL && has_place(set, block) &&
            wm_magazine_push(set, block, block->base, false);
    wm_section_leave(&window->section);
    return taken;
}

bool wm_magazines_free(wm_space *space, wm_block *block)
{
    wm_window *window;
    wm_magazines *set;
    bool taken;

    if (space->traits->laned) {
        wm_lane_settle(space);
        return false;
    }
    if (push_quickly(space, block)) {
        return true;
    }
    set = wm_magazines_lock_mine(space, &window);
    if (set == NULL) {
        return false;
    }
    taken = has_place(set, block);
    if (taken) {
        wm_magazines_push_slow(set, block);
    } else {
        wm_magazines_settle_mine(set);
    }
    wm_section_unlock(&window->section);
    return taken;
}

/* A block that comes from nobody: what callers have does not change. The sums
 * follow, of all such at once. */
static void put_from_nobody(wm_magazines *set, wm_magazine *m, wm_block *block)
{
    *m->top++ = (wm_entry){.block = block, .base = block->base};
    wm_magazine_supply(set, m)->base++;
    m->low += (intptr_t)sizeof(wm_entry);
    block->counted = false;
}

static void note_from_nobody(wm_magazines *set, int64_t bytes)
{
    wm_magazines_set_bytes(set, wm_magazines_bytes(set) + bytes);
    set->bytes_base += bytes;
    set->bytes_low += bytes;
}

/* What has passed is kept where memory does not grow, and given to whoever asks
 * where it does: before larger runs have been cut nobody else finds it here. A
 * part of what has passed in this thread beyond some turns of all that is held;
 * and always a little. */
enum {
    PASSED_BYTES = 1 << 20,
    PASSED_LITTLE = 16,
    PASSED_TURNS = 16,
    PASSED_PART = 16,
    PASSED_LOOKS = 8 /* batches until it is looked at again */
};

static int64_t least_of(const wm_magazines *set)
{
    int64_t part = set->bytes_max / PASSED_LITTLE;

    return part < PASSED_BYTES ? part : PASSED_BYTES;
}

/* What comes counts against what has passed, as often as what is there: not all
 * that has passed, or many threads would begin anew with each growth of one. */
static void note_growth(wm_magazines *set)
{
    uint64_t grown = atomic_load_explicit(&set->arena->siblings->grown,
                                          memory_order_relaxed);
    int64_t less = PASSED_TURNS * (int64_t)(grown - set->grown);

    set->grown = grown;
    set->passed = set->passed > less ? set->passed - less : 0;
}

static int64_t passed_max_locked(wm_magazines *set)
{
    const warm_space_stats *stats = &set->arena->stats;
    int64_t most;

    note_growth(set);
    most = (set->passed - PASSED_TURNS * (int64_t)stats->held_bytes.current) /
           PASSED_PART;
    set->steady = most > least_of(set);
    if (!set->steady) {
        return least_of(set);
    }
    return most < set->bytes_max ? most : set->bytes_max;
}

/* most: bytes that the set may keep then. */
static bool put_passed_locked(wm_magazines *set, wm_block *block, int64_t most)
{
    wm_magazine *m;

    if (!has_place(set, block)) {
        return false;
    }
    set->passed += (int64_t)block->bytes;
    m = &set->of[block->size_class];
    if (m->top == m->end || m->bytes > most ||
        wm_block_fate(block) != WM_BLOCK_IDLE) {
        return false;
    }
    wm_block_set_state(block, set->cached);
    put_from_nobody(set, m, block);
    return true;
}

wm_block *wm_magazines_put_passed(wm_magazines *set, wm_block *chain)
{
    wm_block *rest = NULL;
    size_t count = 0, bytes = 0;
    int64_t most;

    wm_lock_acquire(&set->arena->lock);
    set->passed_max = passed_max_locked(set);
    most = set->passed_max - wm_magazines_bytes(set);
    while (chain != NULL) {
        wm_block *next = chain->next_done;

        if (put_passed_locked(set, chain, most - (int64_t)bytes)) {
            bytes += chain->bytes;
            count++;
        } else {
            chain->next_done = rest;
            rest = chain;
        }
        chain = next;
    }
    note_from_nobody(set, (int64_t)bytes);
    wm_arena_end_pending_locked(set->arena, count, bytes);
    wm_lock_release(&set->arena->lock);
    return rest;
}

/* Blocks that find no room. */
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

/* Before a batch passes: what the arena was told of it is out again; and what
 * the set may keep is looked at anew, after a growth and now and then. */
static void note_batch(wm_magazines *set, const wm_gathered *batch)
{
    if (batch->told == 0 && set->batches++ % PASSED_LOOKS != 0 &&
        set->grown == atomic_load_explicit(&set->arena->siblings->grown,
                                           memory_order_relaxed)) {
        return;
    }
    wm_lock_acquire(&set->arena->lock);
    wm_arena_end_pending_locked(set->arena, batch->told, batch->told_bytes);
    set->passed_max = passed_max_locked(set);
    wm_lock_release(&set->arena->lock);
}

void wm_magazines_put_gathered(wm_magazines *set, const wm_gathered *batch)
{
    wm_block *rest[WM_GATHER_BLOCKS];
    size_t left = 0;
    int64_t bytes = 0, most;

    note_batch(set, batch);
    most = set->passed_max - wm_magazines_bytes(set);
    for (size_t i = 0; i < batch->count; i++) {
        wm_block *block = batch->block[i];
        wm_magazine *m = &set->of[block->size_class];

        /* Its place was looked at when it came; one without room is full. */
        if (m->top == m->end || bytes + m->bytes > most) {
            rest[left++] = block;
            continue;
        }
        wm_block_set_state(block, set->cached);
        put_from_nobody(set, m, block);
        bytes += m->bytes;
    }
    note_from_nobody(set, bytes);
    set->passed += (int64_t)batch->bytes;
    put_rest(rest, left);
}
