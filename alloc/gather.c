/* gather.c: see gather.h. Takes the section of a window and under it the locks
 * of the timelines; calls the driver with none. */
#include "alloc/gather.h"

#include "alloc/arena_int.h"
#include "alloc/magazine_hit.h"
#include "alloc/space.h"
#include "alloc/timeline_int.h"

/* References that a slot gets at once; and the part of a batch's bytes that it
 * may gather. */
enum { STOCK = 256, PARTS = 4 };

static wm_magazines *set_of(wm_window *window)
{
    return atomic_load_explicit(&window->magazines, memory_order_relaxed);
}

static wm_timeline *timeline_of(const wm_gather_slot *slot)
{
    return atomic_load_explicit(&slot->timeline, memory_order_relaxed);
}

static void count_blocks(wm_gather *gather, size_t more, size_t less)
{
    size_t blocks = atomic_load_explicit(&gather->blocks, memory_order_relaxed);

    atomic_store_explicit(&gather->blocks, blocks + more - less,
                          memory_order_relaxed);
}

/* ---- hits --------------------------------------------------------------- */

/* Whether t may be recorded without a word with the driver. */
static bool is_quiet(const wm_gather *gather, wm_timeline *t)
{
    return wm_likely(!wm_timelines_capture(gather->timelines)) &&
           wm_likely(!wm_timeline_is_retired(t));
}

static bool record(wm_gather_slot *slot, wm_block *block)
{
    wm_use *bare = wm_use_bare(timeline_of(slot));
    wm_use *seen = NULL;

    if (atomic_load_explicit(&block->uses, memory_order_relaxed) == bare) {
        return true;
    }
    /* One is the slot's own. Release: whoever finds the timeline there sees
     * what made it. */
    if (wm_unlikely(slot->references == 1) ||
        !atomic_compare_exchange_strong_explicit(&block->uses, &seen, bare,
                                                 memory_order_release,
                                                 memory_order_relaxed)) {
        return false;
    }
    slot->references--;
    return true;
}

bool wm_gather_record(wm_window *window, wm_block *block, warm_stream stream)
{
    wm_magazines *set;
    bool done = false;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    set = set_of(window);
    if (wm_likely(set != NULL)) {
        wm_gather_slot *slot = wm_gather_slot_of(&set->gather, stream);

        done = wm_likely(slot->stream == stream) && stream != NULL &&
               is_quiet(&set->gather, timeline_of(slot)) && record(slot, block);
    }
    wm_section_leave(&window->section);
    return done;
}

/* For others: when the oldest batch was begun, or before. */
static void note_since(wm_gather *gather, uint64_t ns)
{
    if (atomic_load_explicit(&gather->blocks, memory_order_relaxed) == 0) {
        atomic_store_explicit(&gather->since_ns, ns, memory_order_relaxed);
    }
}

/* The block is nobody else's any more. */
static void gather_block(wm_magazines *set, wm_gather_slot *slot,
                         wm_block *block)
{
    wm_gather *gather = &set->gather;
    wm_use *use = &block->first_use;

    *use = (wm_use){.timeline = timeline_of(slot), .block = block};
    atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
    atomic_store_explicit(&block->queued, 1, memory_order_relaxed);
    wm_magazine_count_free(set, block);
    wm_batch_append(&slot->open, use);
    if (slot->open.count == 1) {
        note_since(gather, slot->open.since_ns);
    }
    count_blocks(gather, 1, 0);
}

/* False: it is not this thread's any more. */
static bool append(wm_magazines *set, wm_gather_slot *slot, wm_block *block)
{
    wm_state live = set->live;

    /* Another thread may free it as well, by mistake: one of them gets it.
     * Relaxed: who takes it from the timeline has its lock. */
    if (wm_unlikely(!atomic_compare_exchange_strong_explicit(
            &block->state, &live, WM_BLOCK_GATHERED, memory_order_relaxed,
            memory_order_relaxed))) {
        return false;
    }
    gather_block(set, slot, block);
    return true;
}

enum free_result { REFUSED, GATHERED, FULL };

/* The slot for t where it may have the block, or null. */
static wm_gather_slot *slot_for(wm_magazines *set, const wm_block *block,
                                wm_timeline *t)
{
    wm_gather_slot *slot = wm_gather_slot_of(&set->gather, t->stream);

    return wm_unlikely(timeline_of(slot) != t) ||
                   wm_unlikely(
                       !wm_arena_beside(block->segment->arena, set->arena)) ||
                   wm_unlikely(wm_timelines_capture(set->gather.timelines))
               ? NULL
               : slot;
}

static enum free_result result_of(wm_gather_slot *slot, wm_gather_slot **full)
{
    if (slot->open.count >= slot->count_max ||
        slot->open.bytes >= slot->bytes_max) {
        *full = slot;
        return FULL;
    }
    return GATHERED;
}

static enum free_result free_hit(wm_magazines *set, wm_block *block,
                                 wm_timeline *t, wm_gather_slot **full)
{
    wm_gather_slot *slot = slot_for(set, block, t);

    return wm_likely(slot != NULL) && append(set, slot, block)
               ? result_of(slot, full)
               : REFUSED;
}

/* The class must be in use, or what is counted is never told. */
static enum free_result free_of_other(wm_magazines *set, wm_block *block,
                                      wm_timeline *t, wm_gather_slot **full)
{
    wm_gather_slot *slot = slot_for(set, block, t);

    if (slot == NULL || block->bytes > WM_GATHER_OTHERS ||
        set->of[block->size_class].room == 0) {
        return REFUSED;
    }
    gather_block(set, slot, block);
    wm_block_set_state(block, WM_BLOCK_GATHERED);
    return result_of(slot, full);
}

static void spill_slot(wm_space *space, wm_window *window, wm_gather_slot *slot,
                       bool mine) __attribute__((noinline));

static void after_free(wm_space *space, wm_window *window, wm_gather_slot *full,
                       bool mine)
{
    if (wm_unlikely(full != NULL)) {
        spill_slot(space, window, full, mine);
    }
    /* After the count: see wm_gather_blocks(). For the compiler. */
    atomic_signal_fence(memory_order_seq_cst);
    wm_background_note_pending(space->polled_by);
}

bool wm_gather_free(wm_window *window, wm_block *block, wm_use *uses)
{
    wm_gather_slot *full = NULL;
    enum free_result result;
    wm_space *space;

    if (wm_unlikely(!wm_use_is_bare(uses)) ||
        wm_unlikely(
            atomic_load_explicit(&block->captured, memory_order_relaxed)) ||
        wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    space = wm_space_of(block);
    result = free_hit(set_of(window), block, wm_use_bare_timeline(uses), &full);
    wm_section_leave(&window->section);
    if (wm_unlikely(result == REFUSED)) {
        return false;
    }
    after_free(space, window, full, true);
    return true;
}

warm_stream wm_gather_stream(wm_use *uses)
{
    return wm_use_is_bare(uses) ? wm_use_bare_timeline(uses)->stream : NULL;
}

bool wm_gather_free_other(wm_space *space, wm_block *block, wm_use *uses)
{
    wm_window *window = wm_window_mine();
    enum free_result result = REFUSED;
    wm_gather_slot *full = NULL;
    wm_magazines *set;

    if (!wm_use_is_bare(uses) ||
        atomic_load_explicit(&block->captured, memory_order_relaxed) ||
        window->owner != space->runtime ||
        !wm_section_enter(&window->section)) {
        return false;
    }
    set = set_of(window);
    if (set != NULL) {
        result = free_of_other(set, block, wm_use_bare_timeline(uses), &full);
    }
    wm_section_leave(&window->section);
    if (result == REFUSED) {
        return false;
    }
    after_free(space, window, full, false);
    return true;
}

/* ---- telling the arena -------------------------------------------------- */

void wm_gather_tell(wm_magazines *set, wm_gather_slot *slot)
{
    size_t count = 0, bytes = 0;

    wm_lock_acquire(&set->arena->lock);
    for (wm_use *use = slot->open.first; use != NULL;
         use = use->next_in_batch) {
        /* Some were told before, when somebody read the figures. */
        if (wm_block_state(use->block) == WM_BLOCK_GATHERED) {
            wm_block_set_state(use->block, WM_BLOCK_PENDING);
            bytes += use->block->bytes;
            count++;
        }
    }
    wm_arena_begin_pending_locked(set->arena, count, bytes);
    wm_lock_release(&set->arena->lock);
}

void wm_gather_tell_all(wm_magazines *set)
{
    for (int i = 0; i < WM_GATHER_SLOTS; i++) {
        if (set->gather.slot[i].open.count > 0) {
            wm_gather_tell(set, &set->gather.slot[i]);
        }
    }
}

/* ---- out of a slot: the caller has the section -------------------------- */

/* Bounds of the next batch; bytes: with which one of the timeline is full. */
static void bound(const wm_magazines *set, wm_gather_slot *slot, size_t bytes)
{
    const wm_timelines *timelines = set->gather.timelines;
    /* Relaxed: of two threads that come at once each may have a whole one. */
    bool alone = set->steady && atomic_load_explicit(&timeline_of(slot)->slots,
                                                     memory_order_relaxed) == 1;

    slot->count_max =
        alone ? timelines->batch_count : wm_gather_count_max(timelines);
    slot->bytes_max = alone ? bytes : bytes / PARTS;
}

/* Into the timeline's open batch; whether that is full. one: of many that come
 * at once. */
static bool spill(wm_magazines *set, wm_gather_slot *slot, bool one)
{
    size_t count = slot->open.count;
    size_t bytes;
    bool full;

    if (count == 0) {
        return false;
    }
    wm_gather_tell(set, slot);
    full = wm_batch_join(set->gather.timelines, timeline_of(slot), &slot->open,
                         one ? slot->open.since_ns : 0, &bytes);
    bound(set, slot, bytes);
    slot->open = (wm_batch){0};
    count_blocks(&set->gather, 0, count);
    return full;
}

static void count_slot(wm_timelines *timelines, wm_timeline *t, int change)
{
    /* Relaxed: numbers; -1 as it wraps. */
    atomic_fetch_add_explicit(&t->slots, (size_t)change, memory_order_relaxed);
    atomic_fetch_add_explicit(&timelines->slots, (size_t)change,
                              memory_order_relaxed);
}

static void empty_slot(wm_magazines *set, wm_gather_slot *slot)
{
    wm_timeline *t = timeline_of(slot);

    if (t != NULL) {
        (void)spill(set, slot, false);
        slot->stream = NULL;
        atomic_store_explicit(&slot->timeline, NULL, memory_order_relaxed);
        count_slot(set->gather.timelines, t, -1);
        wm_timeline_drop_many(set->gather.timelines, t, slot->references);
        slot->references = 0;
    }
}

void wm_gather_note_home(wm_magazines *set)
{
    for (int i = 0; i < WM_GATHER_SLOTS; i++) {
        wm_timeline *t = timeline_of(&set->gather.slot[i]);

        if (t != NULL) {
            atomic_store_explicit(&t->home, set->arena, memory_order_relaxed);
        }
    }
}

void wm_gather_end(wm_magazines *set)
{
    for (int i = 0; i < WM_GATHER_SLOTS; i++) {
        empty_slot(set, &set->gather.slot[i]);
    }
}

/* ---- the calling thread's slots ----------------------------------------- */

static void fill_slot(wm_magazines *set, wm_gather_slot *slot,
                      warm_stream stream)
{
    wm_timelines *timelines = set->gather.timelines;
    wm_timeline *t = timeline_of(slot);

    if (slot->stream != stream || wm_timeline_is_retired(t)) {
        empty_slot(set, slot);
        t = wm_timeline_get_adopted(timelines, stream);
        if (t == NULL) {
            return;
        }
        slot->stream = stream;
        slot->references = 1;
        count_slot(timelines, t, 1);
        atomic_store_explicit(&t->home, set->arena, memory_order_relaxed);
        atomic_store_explicit(&slot->timeline, t, memory_order_relaxed);
        bound(set, slot, timelines->batch_bytes);
    }
    if (slot->references == 1) {
        wm_timeline_hold_many(t, STOCK);
        slot->references += STOCK;
    }
}

void wm_gather_meet(wm_space *space, warm_stream stream, bool yields)
{
    wm_window *window;
    wm_gather_slot *slot;
    wm_magazines *set;

    if (stream == NULL) {
        return; /* a default stream, and no slot's */
    }
    set = wm_magazines_lock_mine(space, &window);
    if (set != NULL) {
        slot = wm_gather_slot_of(&set->gather, stream);
        if (!yields || slot->stream == NULL) {
            fill_slot(set, slot, stream);
        }
        wm_section_unlock(&window->section);
    }
}

/* What has passed goes into the calling thread's magazines, as far as there is
 * room, and else where it belongs. */
static void take_home(void *context, wm_block *done)
{
    wm_window *window = context;
    wm_space *space = wm_space_of(done);
    wm_block *rest = done;
    wm_magazines *set;

    wm_section_lock(&window->section);
    set = set_of(window);
    if (set != NULL) {
        rest = wm_magazines_put_passed(set, done);
    }
    wm_section_unlock(&window->section);
    if (rest != NULL) {
        space->timelines->finish(rest);
    }
}

/* mine: what passes stays with this thread, which allocates such. */
static void spill_slot(wm_space *space, wm_window *window, wm_gather_slot *slot,
                       bool mine)
{
    const wm_home home = {take_home, window};
    wm_timeline *t = NULL;
    warm_error before;
    int cancel;

    wm_section_lock(&window->section);
    /* Of a set of its own, or somebody has taken it since. */
    if (set_of(window) != NULL && spill(set_of(window), slot, false)) {
        t = timeline_of(slot);
        wm_timeline_hold(t);
    }
    wm_section_unlock(&window->section);
    if (t == NULL) {
        return;
    }
    cancel = wm_cancel_off();
    before.size = sizeof before;
    warm_last_error(&before);
    wm_batch_close_full(space->timelines, t, mine ? &home : NULL);
    wm_timeline_drop(space->timelines, t);
    wm_space_say_ends(space);
    wm_error_restore(&before);
    wm_cancel_restore(cancel);
}

struct mine {
    wm_timeline *timeline;
    bool full; /* its open batch */
};

/* The timelines of the calling thread's slots, into which their batches go. */
static unsigned spill_mine(wm_space *space, struct mine *mine, wm_home *home)
{
    unsigned count = 0;
    wm_window *window;
    wm_magazines *set = wm_magazines_lock_mine(space, &window);

    if (set == NULL) {
        return 0;
    }
    for (int i = 0; i < WM_GATHER_SLOTS; i++) {
        wm_gather_slot *slot = &set->gather.slot[i];

        if (timeline_of(slot) != NULL) {
            mine[count].full = spill(set, slot, false);
            mine[count].timeline = timeline_of(slot);
            wm_timeline_hold(mine[count++].timeline);
        }
    }
    *home = (wm_home){take_home, window};
    wm_section_unlock(&window->section);
    return count;
}

/* Those that are full, or the others, until something has come home. */
static bool poll_mine(wm_timelines *set, const struct mine *mine,
                      unsigned count, bool full, uint64_t now,
                      const wm_home *home)
{
    bool any = false, left;

    for (unsigned i = 0; i < count && !any; i++) {
        if (mine[i].full && full) {
            wm_batch_close_older(set, mine[i].timeline, UINT64_MAX);
        }
        if (mine[i].full == full) {
            any =
                wm_timeline_poll_ripe(set, mine[i].timeline, now, home, &left);
        }
    }
    return any;
}

bool wm_gather_poll_mine(wm_space *space, uint64_t now)
{
    wm_timelines *set = space->timelines;
    struct mine mine[WM_GATHER_SLOTS] = {{NULL, false}};
    wm_home home = {NULL, NULL};
    unsigned count = spill_mine(space, mine, &home);
    bool any = poll_mine(set, mine, count, true, now, &home) ||
               poll_mine(set, mine, count, false, now, &home);

    for (unsigned i = 0; i < count; i++) {
        wm_timeline_drop(set, mine[i].timeline);
    }
    return any;
}

/* ---- others ------------------------------------------------------------- */

struct fetch {
    wm_timeline *t; /* null: any */
    uint64_t older_than;
};

static bool has_some(const wm_window *window, void *context)
{
    const struct fetch *fetch = context;
    /* Acquire: it was made before. */
    wm_magazines *set =
        atomic_load_explicit(&window->magazines, memory_order_acquire);

    if (set == NULL) {
        return false;
    }
    if (fetch->t != NULL) {
        return timeline_of(wm_gather_slot_of(&set->gather, fetch->t->stream)) ==
               fetch->t;
    }
    return atomic_load_explicit(&set->gather.blocks, memory_order_relaxed) >
               0 &&
           atomic_load_explicit(&set->gather.since_ns, memory_order_relaxed) <=
               fetch->older_than;
}

static void give_up(wm_window *window, void *context)
{
    const struct fetch *fetch = context;
    wm_magazines *set = set_of(window);

    if (set != NULL) {
        atomic_fetch_add_explicit(&set->gather.timelines->visits, 1,
                                  memory_order_relaxed);
    }
    for (int i = 0; set != NULL && i < WM_GATHER_SLOTS; i++) {
        wm_gather_slot *slot = &set->gather.slot[i];

        if (fetch->t == NULL) {
            (void)spill(set, slot, true);
        } else if (timeline_of(slot) == fetch->t) {
            empty_slot(set, slot);
        }
    }
}

void wm_gather_fetch(wm_timelines *set, wm_timeline *t, uint64_t older_than)
{
    struct fetch fetch = {t, older_than};
    const wm_visit visit = {has_some, give_up, &fetch};

    /* Relaxed: a thread that found the timeline in the table just before it
     * left may fill a slot with it right now, and keep that. Such a slot
     * records nothing, and what is freed into it waits for the final event. */
    if (t == NULL ||
        atomic_load_explicit(&t->slots, memory_order_relaxed) > 0) {
        (void)wm_window_visit(set->runtime, &visit);
    }
}

static bool add_blocks(const wm_window *window, void *context)
{
    size_t *blocks = context;
    const wm_magazines *set =
        atomic_load_explicit(&window->magazines, memory_order_acquire);

    if (set != NULL) {
        *blocks +=
            atomic_load_explicit(&set->gather.blocks, memory_order_relaxed);
    }
    return false; /* looks only */
}

size_t wm_gather_blocks(wm_timelines *set)
{
    size_t blocks = 0;
    const wm_visit visit = {add_blocks, NULL, &blocks};

    /* Pairs with a hit's order of its own: the count, then whatever it reads.
     * Without barriers no hit was ever let in, or a few are missed. */
    (void)wm_section_barrier();
    (void)wm_window_visit(set->runtime, &visit);
    return blocks;
}
