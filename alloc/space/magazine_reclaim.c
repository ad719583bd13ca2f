/* magazine_reclaim.c: the magazines of all threads: settled for who asks, and
 * taken back when memory is needed elsewhere. See magazine.h.
 *
 * Takes lock windows, under it the section of each window, and lock arena.
 * Calls the driver with none, where memory is in the order of streams. */
#include "alloc/cache/magazine_int.h"

#include "alloc/arena/arena_int.h"
#include "alloc/space/space_int.h"

/* Rent or buy. To take memory back costs now, and its owners miss later; to
 * grow costs page-locking, and memory held. Costs are counted in blocks taken
 * back, getting there as RECLAIM_PRICE of them, a visit to a window as
 * VISIT_PRICE (a barrier, and another thread stands still): once they come to
 * what a growth costs, a price for each segment of it, one growth goes before
 * the next reclaim. Page-locking 4 MiB takes 2 ms: on the host device two
 * threads got warm soonest at a price of 512, at 256 and 2,048 they took 6 %
 * and 25 % longer. A device has less memory than time: at 8,192 a trace of the
 * bench holds 5 % more. */
enum {
    WM_GROWTH_PRICE = 512,
    WM_DEVICE_PRICE = 16384,
    WM_RECLAIM_PRICE = 8,
    WM_VISIT_PRICE = 16
};

/* Windows that are visited one at a time before all are. */
enum { WM_RICHEST = 16 };

/* ---- all threads -------------------------------------------------------- */

wm_magazines *wm_magazines_next(const wm_window *window, const wm_space *space,
                                unsigned *at)
{
    /* Acquire pairs with the release in begin_set(), here and in
     * magazine_lane.c. */
    if (!space->traits->laned) {
        return (*at)++ == 0 ? atomic_load_explicit(&window->magazines,
                                                   memory_order_acquire)
                            : NULL;
    }
    while (*at < WM_LANE_SLOTS) {
        wm_magazines *set = atomic_load_explicit(&window->lane[(*at)++].set,
                                                 memory_order_acquire);

        if (set != NULL && set->space == space) {
            return set;
        }
    }
    return NULL;
}

/* The first of them. */
static const wm_magazines *peek(const wm_window *window, const wm_space *space)
{
    unsigned at = 0;

    return wm_magazines_next(window, space, &at);
}

static bool has_set(const wm_window *window, void *context)
{
    return peek(window, context) != NULL;
}

static int64_t bytes_of(const wm_window *window, const wm_space *space)
{
    const wm_magazines *set;
    int64_t bytes = 0;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, space, &at)) != NULL;) {
        bytes += wm_magazines_bytes(set);
    }
    return bytes;
}

static bool has_bytes(const wm_window *window, void *context)
{
    return bytes_of(window, context) > 0;
}

static void settle(wm_window *window, const wm_space *space)
{
    wm_magazines *set;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, space, &at)) != NULL;) {
        wm_gather_tell_all(set);
        wm_lock_acquire(&set->arena->lock);
        wm_magazines_settle_locked(set);
        wm_lock_release(&set->arena->lock);
        wm_magazines_drop_room(set);
    }
}

static void settle_window(wm_window *window, void *context)
{
    settle(window, context);
}

static void visit(wm_space *space, const wm_visit *visit)
{
    if (space->magazine_blocks > 0) {
        (void)wm_window_visit(space->runtime, visit);
    }
}

void wm_magazines_settle_all(wm_space *space)
{
    const wm_visit all = {has_set, settle_window, NULL, space};

    visit(space, &all);
}

struct reading {
    const wm_space *space;
    void (*read)(void *context);
    void *context;
};

static bool has_set_to_read(const wm_window *window, void *context)
{
    const struct reading *reading = context;

    return peek(window, reading->space) != NULL;
}

static void settle_to_read(wm_window *window, void *context)
{
    const struct reading *reading = context;

    settle(window, reading->space);
}

static void read_settled(void *context)
{
    const struct reading *reading = context;

    reading->read(reading->context);
}

void wm_magazines_settle_and_read(wm_space *space, void (*read)(void *context),
                                  void *context)
{
    struct reading reading = {space, read, context};
    const wm_visit all = {has_set_to_read, settle_to_read, read_settled,
                          &reading};

    if (space->magazine_blocks > 0) {
        (void)wm_window_visit(space->runtime, &all);
    } else {
        read(context);
    }
}

static void flush_window(wm_window *window, void *context)
{
    wm_magazines *set;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, context, &at)) != NULL;) {
        (void)wm_magazines_give_back(set, WM_ALL);
    }
}

void wm_magazines_flush_all(wm_space *space)
{
    const wm_visit filled = {has_bytes, flush_window, NULL, space};

    visit(space, &filled);
}

static void flush_if_idle(wm_window *window, void *context)
{
    wm_magazines *set;

    settle(window, context);
    for (unsigned at = 0;
         (set = wm_magazines_next(window, context, &at)) != NULL;) {
        if (!set->used) {
            (void)wm_magazines_give_back(set, WM_ALL);
        }
        set->used = false;
    }
}

void wm_magazines_flush_idle(wm_space *space)
{
    const wm_visit filled = {has_bytes, flush_if_idle, NULL, space};

    visit(space, &filled);
    for (wm_arena *a = wm_space_arenas(space); a != NULL; a = a->next_arena) {
        wm_lock_acquire(&a->lock);
        wm_depot_age_locked(a);
        wm_lock_release(&a->lock);
    }
}

/* ---- taking memory back ------------------------------------------------- */

struct reclaim {
    wm_space *space;
    const wm_request *request;
    wm_block *block;
    bool must;
    uint64_t blocks, windows; /* taken back, visited */
    const wm_window *richest; /* of those with something left */
    int64_t most;             /* what it has */
    uint64_t number;          /* tells sets apart that have as much */
};

static wm_arena *home_of(const struct reclaim *reclaim)
{
    return reclaim->request->arena;
}

static void try_again(struct reclaim *reclaim)
{
    bool starved = false;

    reclaim->block = wm_arena_take_any(home_of(reclaim), reclaim->request->lane,
                                       reclaim->request->bytes, &starved);
}

static bool has_some(const wm_window *window, void *context)
{
    const struct reclaim *reclaim = context;

    return has_bytes(window, reclaim->space);
}

static void reclaim_window(wm_window *window, void *context)
{
    struct reclaim *reclaim = context;
    wm_magazines *set;

    for (unsigned at = 0;
         (set = wm_magazines_next(window, reclaim->space, &at)) != NULL;) {
        /* What lies on another node helps where nothing else does: once it has
         * gone back to the driver. */
        if (reclaim->must || wm_arena_beside(set->arena, home_of(reclaim))) {
            reclaim->blocks += wm_magazines_give_back(set, WM_ALL);
        }
    }
    reclaim->windows++;
}

/* After others gave something back; in the order of their streams, perhaps,
 * which are asked how far they are. */
static void ask_and_try_again(struct reclaim *reclaim)
{
    wm_space *space = reclaim->space;

    try_again(reclaim);
    if (reclaim->block == NULL && space->traits->laned &&
        home_of(reclaim)->pool == NULL) {
        space->traits->miss(space, NULL, reclaim->request);
        wm_space_collect(space);
        try_again(reclaim);
    }
}

static bool is_richest_so_far(const wm_window *window, void *context)
{
    struct reclaim *reclaim = context;
    const wm_magazines *set = peek(window, reclaim->space);
    int64_t bytes = bytes_of(window, reclaim->space);
    uint64_t number =
        set != NULL ? atomic_load_explicit(&set->number, memory_order_relaxed)
                    : 0;

    if (bytes > reclaim->most ||
        (bytes > 0 && bytes == reclaim->most && number < reclaim->number)) {
        reclaim->most = bytes;
        reclaim->number = number;
        reclaim->richest = window;
    }
    return false; /* looks only */
}

static bool is_richest(const wm_window *window, void *context)
{
    const struct reclaim *reclaim = context;

    return window == reclaim->richest && has_bytes(window, reclaim->space);
}

/* The richest first, one at a time, so that few have to miss; then all. What
 * comes of it does not hang on the order in which threads began. */
static void reclaim_others(struct reclaim *reclaim)
{
    const wm_visit look = {is_richest_so_far, NULL, NULL, reclaim};
    const wm_visit one = {is_richest, reclaim_window, NULL, reclaim};
    const wm_visit all = {has_some, reclaim_window, NULL, reclaim};

    for (int i = 0; i < WM_RICHEST && reclaim->block == NULL; i++) {
        reclaim->most = 0;
        (void)wm_window_visit(reclaim->space->runtime, &look);
        if (reclaim->most == 0) {
            /* What somebody kept when the arena had nothing is with a caller
             * by now, perhaps, and what lies beside it will do. */
            ask_and_try_again(reclaim);
            return;
        }
        (void)wm_window_visit(reclaim->space->runtime, &one);
        ask_and_try_again(reclaim);
    }
    if (reclaim->block == NULL) {
        (void)wm_window_visit(reclaim->space->runtime, &all);
        ask_and_try_again(reclaim);
    }
}

static void reclaim_mine(struct reclaim *reclaim)
{
    wm_window *window;
    wm_magazines *set =
        wm_magazines_lock_for(reclaim->space, reclaim->request, &window);

    if (set == NULL) {
        return;
    }
    if (wm_arena_beside(set->arena, home_of(reclaim))) {
        reclaim->blocks +=
            wm_magazines_cut_larger(set, reclaim->request, &reclaim->block);
    }
    if (reclaim->block == NULL &&
        wm_arena_beside(set->arena, home_of(reclaim))) {
        reclaim->blocks +=
            wm_magazines_cut_row(set, reclaim->request, &reclaim->block);
    }
    if (reclaim->block == NULL &&
        wm_arena_beside(set->arena, home_of(reclaim))) {
        reclaim->blocks +=
            wm_magazines_trade(set, reclaim->request->bytes, &reclaim->block);
    } else if (reclaim->block == NULL && wm_magazines_bytes(set) > 0) {
        reclaim->blocks += wm_magazines_give_back(set, WM_ALL);
    }
    wm_section_unlock(&window->section);
}

static uint64_t price_of(const wm_space *space, size_t bytes)
{
    return (1 + bytes / space->segment_bytes) *
           (space->traits->laned ? WM_DEVICE_PRICE : WM_GROWTH_PRICE);
}

bool wm_magazines_is_dear(const wm_space *space, size_t bytes)
{
    /* Relaxed: as in is_dear(). */
    return atomic_load_explicit(&space->reclaimed, memory_order_relaxed) >=
           price_of(space, bytes);
}

void wm_magazines_note_own(wm_space *space, uint64_t blocks)
{
    /* Relaxed: as in is_dear(). */
    atomic_fetch_add_explicit(&space->reclaimed, WM_RECLAIM_PRICE + blocks,
                              memory_order_relaxed);
}

/* Whether it is growth's turn; see above. */
static bool is_dear(wm_space *space, size_t bytes)
{
    /* Relaxed, both: an estimate that several threads add to. */
    uint64_t cost =
        WM_VISIT_PRICE * atomic_exchange_explicit(&space->timelines->visits, 0,
                                                  memory_order_relaxed);

    cost += atomic_fetch_add_explicit(&space->reclaimed, cost,
                                      memory_order_relaxed);
    if (cost < price_of(space, bytes)) {
        return false;
    }
    atomic_store_explicit(&space->reclaimed, 0, memory_order_relaxed);
    return true;
}

/* Where nothing was found the space grows next. */
static void note_cost(wm_space *space, const struct reclaim *reclaim)
{
    if (reclaim->block == NULL) {
        atomic_store_explicit(&space->reclaimed, 0, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&space->reclaimed,
                              WM_RECLAIM_PRICE + reclaim->blocks +
                                  WM_VISIT_PRICE * reclaim->windows,
                              memory_order_relaxed);
}

bool wm_magazines_reclaim(wm_space *space, const wm_request *request, bool must,
                          wm_block **block)
{
    struct reclaim reclaim = {.space = space, .request = request, .must = must};

    if (space->magazine_blocks == 0) {
        return false;
    }
    if (!must && is_dear(space, request->bytes)) {
        return false;
    }
    reclaim_mine(&reclaim);
    if (reclaim.block == NULL) {
        /* What others gathered before what they keep, which they would miss. */
        wm_space_collect_gathered(space);
        try_again(&reclaim);
    }
    if (reclaim.block == NULL) {
        reclaim_others(&reclaim);
    }
    note_cost(space, &reclaim);
    *block = reclaim.block;
    return reclaim.blocks > 0;
}
