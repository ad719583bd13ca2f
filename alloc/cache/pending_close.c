/* pending_close.c: closes and polls the calling thread's own batches when one
 * is full or an allocation misses; attaches slots; frees that are no hits.
 *
 * If no other thread has a slot for the stream and the thread's footprint is
 * stable, a batch stays in its slot from the first free until its blocks are
 * cached:
 *
 *   locked     slot->in_driver is set; the timeline counts a recorder
 *   unlocked   query the oldest batches' events; record one for the open batch
 *   locked     cache completed blocks; serve a request that was left meanwhile
 *
 * The event of a completed batch is reused for the next one. Takes the window's
 * lock, and under it the locks of the timeline and of the arena; calls the
 * driver with none of them held. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

#include <limits.h>
#include <string.h>

/* ---- close and query in the slot ----------------------------------------- */

/* One close-and-query cycle, on the owner's stack. */
struct cycle {
    wm_timeline *t;
    bool close;  /* record an event for the open batch, */
    bool closed; /* which succeeded */
    bool queued; /* older batches wait in the timeline and are polled first */
    bool full;   /* the timeline's open batch is full and has to be closed */
    bool due;    /* of wm_timeline_begin_record_locked() */
    unsigned completed; /* batches: the oldest closed ones, or the open one */
    warm_event event;   /* behind the open batch */
};

/* The room for closed batches, made when the first one is closed. */
static bool has_room(wm_pending_stream *slot)
{
    if (slot->batch == NULL) {
        slot->batch = wm_meta_alloc(WM_PENDING_CLOSED * sizeof *slot->batch);
    }
    return slot->batch != NULL && slot->closed < WM_PENDING_CLOSED;
}

/* Locked. False: no cycle. must: no cycle unless it closes the open batch; else
 * the slot has closed batches. */
static bool begin_cycle(const wm_magazine_set *set, wm_pending_stream *slot,
                        bool must, struct cycle *cycle)
{
    wm_timeline *t = wm_pending_timeline(slot);
    bool begun;

    wm_lock_acquire(&t->lock);
    /* The open batch is closed in the slot only if the timeline has no open
     * batch, and few queued ones, which are polled first. Relaxed: another
     * thread that attaches now has a batch of its own. */
    cycle->close = cycle->close && wm_economy_is_stable(&set->group->economy) &&
                   !t->capture_due && t->queued < WM_PENDING_CLOSED &&
                   t->open.count == 0 &&
                   atomic_load_explicit(&t->slots, memory_order_relaxed) == 1 &&
                   has_room(slot);
    begun = (cycle->close || !must) &&
            wm_timeline_begin_record_locked(t, &cycle->due);
    t->closing += begun;
    cycle->queued = t->queued > 0;
    wm_lock_release(&t->lock);
    slot->in_driver = begun;
    cycle->t = t;
    return begun;
}

/* Unlocked: counts the completed batches, oldest first. */
static void poll_batches(wm_timelines *set, const wm_pending_stream *slot,
                         unsigned most, struct cycle *cycle)
{
    bool lost = wm_timeline_is_lost(set, cycle->t);

    most = cycle->queued ? 0 : most < slot->closed ? most : slot->closed;
    while (cycle->completed < most &&
           (lost ||
            wm_driver_event_passed(
                set->driver, slot->batch[cycle->completed].event) == WARM_OK)) {
        cycle->completed++;
    }
}

/* Unlocked: records an event behind the open batch. */
static void record_event(wm_timelines *set, const wm_pending_stream *slot,
                         struct cycle *cycle)
{
    wm_capture capture = WM_CAPTURE_NONE;
    warm_status status = WARM_OK;

    if (cycle->completed > 0) {
        cycle->event = slot->batch[0].event;
    } else {
        status =
            wm_event_pool_take(set->events, cycle->t->device, &cycle->event);
    }
    if (status == WARM_OK) {
        status = wm_driver_event_mark(set->driver, cycle->event,
                                      cycle->t->stream, &capture);
        cycle->closed = status == WARM_OK && capture == WM_CAPTURE_NONE;
        atomic_fetch_add_explicit(&set->recorded, cycle->closed,
                                  memory_order_relaxed);
    }
    if (cycle->event != NULL && !cycle->closed && cycle->completed == 0) {
        wm_event_pool_put(set->events, cycle->t->device, cycle->event);
    }
    /* The batch is the oldest of the stream, and its event was not queried
     * yet. */
    if (cycle->closed && slot->closed == 0 && !cycle->queued &&
        wm_driver_event_passed(set->driver, cycle->event) == WARM_OK) {
        cycle->completed = 1;
    }
}

/* Makes the open batch the last closed one. */
static void close_open_batch(wm_pending_stream *slot, warm_event event)
{
    wm_pending_batch *batch = &slot->batch[slot->closed++];
    const wm_pending_batch *open = &slot->open;

    memcpy(
        batch, open,
        (size_t)((const char *)&open->block[open->count] - (const char *)open));
    batch->event = event;
    wm_pending_clear_batch(&slot->open);
}

/* Locked: closes the open batch if its event was recorded, and caches the
 * blocks of the completed batches. */
static void end_cycle(wm_magazine_set *set, wm_pending_stream *slot,
                      struct cycle *cycle)
{
    enum wm_pending_request requested = slot->requested;
    wm_timelines *timelines = slot->timelines;
    size_t blocks = 0, bytes = 0; /* that the arena did not count as pending */
    warm_event reused = NULL;

    if (cycle->closed) {
        close_open_batch(slot, cycle->event);
        reused = cycle->completed < slot->closed ? cycle->event : NULL;
    }
    for (unsigned i = 0; i < cycle->completed; i++) {
        const wm_pending_batch *batch = &slot->batch[i];

        if (batch->event != reused) {
            wm_event_pool_put(timelines->events, cycle->t->device,
                              batch->event);
        }
        wm_reuse_count(set->group, batch->since_ns);
        wm_cache_add_pending_batch(set, batch);
        slot->references += batch->count;
        blocks += batch->count - batch->counted;
        bytes += batch->bytes - batch->counted_bytes;
    }
    slot->closed -= cycle->completed;
    memmove(slot->batch, &slot->batch[cycle->completed],
            slot->closed * sizeof *slot->batch);
    if (wm_unlikely(slot->references > 1 + 2 * WM_PENDING_STOCK)) {
        wm_timeline_drop_many(timelines, cycle->t,
                              slot->references - (1 + WM_PENDING_STOCK));
        slot->references = 1 + WM_PENDING_STOCK;
    }
    wm_pending_recount(set, slot, blocks, bytes);
    slot->in_driver = false;
    slot->requested = WM_REQUEST_NONE;
    if (requested == WM_REQUEST_DETACH) {
        wm_pending_detach(set, slot);
    } else if (requested == WM_REQUEST_FLUSH ||
               (cycle->close && !cycle->closed)) {
        cycle->full = wm_pending_flush(set, slot, false);
    }
    wm_lock_acquire(&cycle->t->lock);
    cycle->t->closing--;
    wm_timeline_end_record_locked(cycle->t, cycle->due);
    wm_lock_release(&cycle->t->lock);
}

/* Runs the driver part and the end of a cycle. Unlocks the window, which the
 * caller has locked, and returns with a reference to cycle->t. */
static void run_cycle(wm_window *window, wm_pending_stream *slot, unsigned most,
                      struct cycle *cycle)
{
    wm_timelines *timelines = slot->timelines;

    wm_biased_release(&window->biased);
    poll_batches(timelines, slot, most, cycle);
    if (cycle->close) {
        record_event(timelines, slot, cycle);
    }
    wm_biased_acquire(&window->biased);
    /* A detach may drop the slot's references. */
    wm_timeline_hold(cycle->t);
    end_cycle(wm_cache_set_of(window), slot, cycle);
    wm_biased_release(&window->biased);
}

/* ---- completed in the timeline ------------------------------------------- */

/* Caches completed blocks in the calling thread's set; blocks that do not fit
 * return to the space. */
static void cache_done(wm_timelines *timelines, void *context, wm_block *done)
{
    wm_window *window = context;
    wm_block *rest = done;
    wm_magazine_set *set;

    wm_biased_acquire(&window->biased);
    set = wm_cache_set_of(window);
    if (set != NULL) {
        rest = wm_cache_add_completed(set, done);
    }
    wm_biased_release(&window->biased);
    if (rest != NULL) {
        timelines->ops->finish(rest);
    }
}

/* Closes the timeline's full batch, or polls batches older than those of the
 * slot. */
static void poll_timeline(wm_arena_group *group, struct cycle *cycle,
                          const wm_home *home)
{
    if (cycle->full) {
        wm_timeline_close_full(group->timelines, cycle->t, home);
    } else if (cycle->queued) {
        wm_timeline_poll_after_close(group->timelines, cycle->t, home);
    }
    wm_timeline_drop(group->timelines, cycle->t);
}

/* ---- a batch is full ----------------------------------------------------- */

/* Closes the full batch in the slot, or flushes it and leaves it to the
 * timeline. Unlocks the window, which the caller has locked. Returns whether
 * the timeline is to be polled: then cycle->t has a reference. */
static bool close_slot(wm_window *window, wm_pending_stream *slot,
                       struct cycle *cycle)
{
    wm_magazine_set *set = wm_cache_set_of(window);
    const wm_timelines *timelines = slot->timelines;

    cycle->close = slot->open.count >= timelines->batch_count ||
                   slot->open.bytes >= wm_timelines_batch_bytes(timelines);
    if (cycle->close && begin_cycle(set, slot, true, cycle)) {
        /* Query one closed batch for each one closed, and one more, so that
         * their number can fall. */
        run_cycle(window, slot, 2, cycle);
        return true;
    }
    /* A use of the set, as a batch that completes in the slot is. */
    wm_magazine_set_budget(set);
    cycle->t = wm_pending_timeline(slot);
    cycle->full = wm_pending_flush(set, slot, false);
    if (cycle->full) {
        wm_timeline_hold(cycle->t);
    }
    wm_biased_release(&window->biased);
    return cycle->full;
}

void wm_pending_close(wm_window *window, wm_pending_stream *slot, bool mine)
{
    const wm_home home = {cache_done, window};
    struct cycle cycle = {.t = NULL};
    wm_arena_group *group;

    WM_KEEP_ERROR();
    wm_biased_acquire(&window->biased);
    /* The window may have no set, and another thread may have flushed the slot
     * since. */
    if (wm_cache_set_of(window) == NULL || slot->open.count == 0) {
        wm_biased_release(&window->biased);
    } else {
        group = wm_cache_set_of(window)->arena->group;
        if (close_slot(window, slot, &cycle)) {
            poll_timeline(group, &cycle, mine ? &home : NULL);
            group->timelines->ops->report(group);
        }
    }
}

/* ---- a miss -------------------------------------------------------------- */

/* Detaches the slot that has been idle for longest, if that is long. */
static void detach_idle(wm_magazine_set *set, const wm_pending *pending)
{
    wm_pending_stream *slot = pending->idle;

    if (slot != NULL && pending->polls - slot->idle_since >
                            (uint64_t)WM_PENDING_IDLE * pending->in_use) {
        wm_pending_detach(set, slot);
    }
}

/* The slots that a miss polls: a few, in turn, so that with a thousand streams
 * it costs no more than with a few. Slots that have nothing to poll lose their
 * turn. The window is locked. */
static unsigned take_turn(wm_pending *pending, wm_pending_stream **few)
{
    unsigned left = pending->in_turn, count = 0;

    for (; left > 0 && count < WM_PENDING_FEW; left--) {
        wm_pending_stream *slot = pending->turn;

        pending->turn = slot->after;
        if (slot->open.count == 0 && slot->closed == 0 &&
            atomic_load_explicit(&slot->drained, memory_order_relaxed)) {
            wm_pending_end_turn(pending, slot);
        } else {
            few[count++] = slot;
        }
    }
    return count;
}

/* Queries the closed batches of the slots, and closes an open batch that is
 * large enough for a query. Returns whether any batch completed. The window is
 * locked, and unlocked meanwhile. */
static bool poll_closed(wm_arena_group *group, wm_window *window,
                        wm_pending_stream *const *few, unsigned count)
{
    const wm_home home = {cache_done, window};
    const wm_magazine_set *set = wm_cache_set_of(window);
    bool any = false;

    for (unsigned i = 0; i < count && !any; i++) {
        wm_pending_stream *slot = few[i];
        struct cycle cycle = {.close = slot->open.count >= WM_BATCH_RIPE};

        if (slot->closed > 0 && begin_cycle(set, slot, false, &cycle)) {
            run_cycle(window, slot, UINT_MAX, &cycle);
            poll_timeline(group, &cycle, &home);
            any = cycle.completed > 0;
            wm_biased_acquire(&window->biased);
        }
    }
    return any;
}

struct mine {
    wm_pending_stream *slot;
    wm_timeline *timeline; /* with a reference */
    bool full;             /* its open batch is full */
};

/* Flushes the slots and returns their timelines in mine. Skips slots with
 * closed batches, except those of a retired stream, whose batches no thread
 * would poll otherwise. */
static unsigned flush_mine(wm_magazine_set *set, wm_pending_stream *const *few,
                           unsigned count, struct mine *mine)
{
    unsigned found = 0;

    for (unsigned i = 0; i < count; i++) {
        wm_timeline *t = wm_pending_timeline(few[i]);

        if (t != NULL && (few[i]->closed == 0 || wm_timeline_is_retired(t))) {
            mine[found].slot = few[i];
            mine[found].full = wm_pending_flush(set, few[i], false);
            mine[found++].timeline = t;
            wm_timeline_hold(t);
        }
    }
    return found;
}

/* Polls the timelines whose open batch is full (full) or not full, until a
 * block completes. */
static bool poll_mine(wm_timelines *set, const struct mine *mine,
                      unsigned count, bool full, uint64_t now,
                      wm_window *window)
{
    const wm_home home = {cache_done, window};
    bool any = false, left;

    for (unsigned i = 0; i < count && !any; i++) {
        if (mine[i].full != full) {
            continue;
        }
        if (full) {
            wm_batch_close_older(set, mine[i].timeline, UINT64_MAX);
        }
        any = wm_timeline_poll_ripe(set, mine[i].timeline, now, &home, &left);
        if (!left) {
            atomic_store_explicit(&mine[i].slot->drained, true,
                                  memory_order_relaxed);
        }
    }
    return any;
}

bool wm_pending_poll_mine(wm_arena_group *group, uint64_t now)
{
    wm_timelines *timelines = group->timelines;
    wm_pending_stream *few[WM_PENDING_FEW];
    struct mine mine[WM_PENDING_FEW] = {{NULL, NULL, false}};
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, NULL, &window);
    wm_pending *pending;
    unsigned count;
    bool any;

    if (set == NULL) {
        return false;
    }
    pending = wm_magazine_set_pending(set);
    if (pending == NULL) {
        wm_biased_release(&window->biased);
        return false;
    }
    pending->polls++;
    detach_idle(set, pending);
    count = take_turn(pending, few);
    if (poll_closed(group, window, few, count)) {
        wm_biased_release(&window->biased); /* nothing is flushed */
        return true;
    }
    count = flush_mine(set, few, count, mine);
    wm_biased_release(&window->biased);
    any = poll_mine(timelines, mine, count, true, now, window) ||
          poll_mine(timelines, mine, count, false, now, window);
    for (unsigned i = 0; i < count; i++) {
        wm_timeline_drop(timelines, mine[i].timeline);
    }
    return any;
}

void wm_pending_flush_rest(wm_arena_group *group)
{
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_for(group, NULL, &window);
    const wm_pending *pending;

    if (set == NULL) {
        return;
    }
    pending = wm_magazine_set_pending(set);
    if (pending != NULL) {
        wm_pending_stream *slot = pending->turn;

        for (unsigned i = WM_PENDING_FEW; i < pending->in_turn; i++) {
            (void)wm_pending_flush(set, slot, true);
            slot = slot->after;
        }
    }
    wm_biased_release(&window->biased);
}

/* ---- a slot for a stream ------------------------------------------------- */

/* The entry of a table where a stream's slot may lie, empty or of an unused
 * slot; or null. */
static wm_pending_stream **free_entry(const wm_pending *pending,
                                      warm_stream stream)
{
    wm_pending_stream **entry =
        &pending->table[wm_pending_index(pending, stream)];

    for (int i = 0; i < WM_PENDING_PROBES; i++) {
        if (entry[i] == NULL || entry[i]->stream == NULL) {
            return &entry[i];
        }
    }
    return NULL;
}

/* Inserts all slots in use into an empty table, and makes the others spare.
 * False: some slot finds no entry. */
static bool fill_table(wm_pending *pending)
{
    wm_pending_stream *slot, *spare = NULL;

    for (slot = wm_pending_first(pending); slot != NULL; slot = slot->next) {
        if (slot->stream != NULL) {
            wm_pending_stream **entry = free_entry(pending, slot->stream);

            if (entry == NULL) {
                return false;
            }
            *entry = slot;
        }
    }
    for (slot = wm_pending_first(pending); slot != NULL; slot = slot->next) {
        if (slot->stream == NULL) {
            slot->next_spare = spare;
            spare = slot;
        }
    }
    pending->spare = spare;
    return true;
}

/* Makes the table, or one twice as large. False: no memory, or it is as large
 * as it may be. */
static bool grow_table(wm_pending *pending)
{
    wm_pending before = {.table = pending->table, .bits = pending->bits};

    do {
        pending->bits = pending->table != NULL ? pending->bits + 1
                                               : (unsigned)WM_PENDING_BITS;
        if (pending->table != before.table) {
            wm_meta_free(pending->table);
        }
        pending->table = pending->bits <= WM_PENDING_BITS_MAX
                             ? wm_meta_alloc((((size_t)1 << pending->bits) +
                                              WM_PENDING_PROBES - 1) *
                                             sizeof(wm_pending_stream *))
                             : NULL;
        if (pending->table == NULL) {
            pending->table = before.table;
            pending->bits = before.bits;
            return false;
        }
    } while (!fill_table(pending));
    wm_meta_free(before.table);
    return true;
}

/* A slot that no stream has, and that is in no entry; or null: no memory. */
static wm_pending_stream *make_slot(wm_pending *pending,
                                    const wm_arena_group *group)
{
    wm_pending_stream *slot = pending->spare;

    if (slot != NULL) {
        pending->spare = slot->next_spare;
        return slot;
    }
    slot = wm_meta_alloc(sizeof *slot);
    if (slot != NULL) {
        slot->timelines = group->timelines;
        slot->waker = group->waker;
        slot->next = wm_pending_first(pending);
        atomic_store_explicit(&pending->first, slot, memory_order_release);
    }
    return slot;
}

/* An unused slot in the table for the stream. Null: no memory for one; or, with
 * yields, no slot but those of other streams. */
static wm_pending_stream *slot_for(wm_magazine_set *set,
                                   const wm_arena_group *group,
                                   warm_stream stream, bool yields)
{
    wm_pending *pending = wm_magazine_set_pending(set);
    wm_pending_stream **entry;

    if (pending == NULL) {
        pending = wm_meta_alloc(sizeof *pending);
        if (pending == NULL) {
            return NULL;
        }
        /* Release: another thread that reads it finds it zeroed. */
        atomic_store_explicit(&set->pending, pending, memory_order_release);
    }
    if (pending->table == NULL && !grow_table(pending)) {
        return NULL;
    }
    do {
        entry = free_entry(pending, stream);
    } while (entry == NULL && grow_table(pending));
    if (entry == NULL && !yields) {
        entry = &pending->table[wm_pending_index(pending, stream)];
        wm_pending_detach(set, *entry);
    }
    if (entry == NULL) {
        return NULL;
    }
    if (*entry == NULL) {
        *entry = make_slot(pending, group);
    }
    return *entry;
}

static void attach(wm_magazine_set *set, const wm_arena_group *group,
                   warm_stream stream, bool yields)
{
    wm_pending_stream *slot =
        wm_pending_find(wm_magazine_set_pending(set), stream);

    if (slot != NULL && wm_timeline_is_retired(wm_pending_timeline(slot))) {
        wm_pending_detach(set, slot);
        slot = NULL;
    }
    if (slot == NULL) {
        wm_timeline *t = wm_timeline_get_adopted(group->timelines, stream);

        slot = t != NULL ? slot_for(set, group, stream, yields) : NULL;
        if (slot == NULL) {
            if (t != NULL) {
                wm_timeline_drop(group->timelines, t);
            }
            return;
        }
        wm_pending_begin_stream(set, slot, t);
    }
    wm_pending_want_turn(wm_magazine_set_pending(set), slot);
    if (slot->references == 1) {
        wm_timeline_hold_many(wm_pending_timeline(slot), WM_PENDING_STOCK);
        slot->references += WM_PENDING_STOCK;
    }
}

void wm_pending_attach(wm_arena_group *group, warm_stream stream, bool yields)
{
    wm_window *window;
    wm_magazine_set *set;

    if (stream == NULL) {
        return; /* a default stream has no slot */
    }
    set = wm_cache_lock_for(group, NULL, &window);
    if (set != NULL) {
        attach(set, group, stream, yields);
        wm_biased_release(&window->biased);
    }
}

/* ---- frees that were no hit ---------------------------------------------- */

bool wm_pending_free_other(wm_arena_group *group, wm_block *block,
                           wm_stream_use *uses)
{
    wm_window *window = wm_window_mine();
    wm_pending_stream *slot;
    wm_magazine_set *set;
    const wm_timeline *t;
    bool done, full = false;

    if (!wm_stream_use_is_bare(uses) ||
        atomic_load_explicit(&block->owner_stream, memory_order_relaxed) !=
            NULL ||
        atomic_load_explicit(&block->captured, memory_order_relaxed) ||
        block->bytes > WM_PENDING_OTHERS || window->owner != group->runtime ||
        !wm_biased_enter(&window->biased)) {
        return false;
    }
    set = wm_cache_set_of(window);
    if (set == NULL) {
        wm_biased_leave(&window->biased);
        return false;
    }
    t = wm_stream_use_bare_timeline(uses);
    slot = wm_pending_stream_with(window, t);
    /* The class has to be in use: else its counts are never merged. */
    done = wm_pending_timeline(slot) == t &&
           wm_arena_is_sibling(block->segment->arena, set->arena) &&
           set->of[block->size_class].room > 0 &&
           !wm_timelines_capture(slot->timelines);
    if (done) {
        atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
        full = wm_pending_append(set, slot, block);
        wm_block_set_state(block, WM_BLOCK_BATCHED);
    }
    wm_biased_leave(&window->biased);
    if (done) {
        wm_pending_added(window, slot, full, false);
    }
    return done;
}

bool wm_pending_free_visited(wm_window *window, wm_block *block,
                             const void *base)
{
    wm_pending_stream *slot = NULL;
    bool done = false, full = false;
    wm_magazine_set *set;

    wm_biased_acquire(&window->biased);
    set = wm_cache_set_of(window);
    if (set != NULL && wm_biased_is_hittable(&window->biased) &&
        wm_block_starts_at(block, base)) {
        done = wm_pending_add(window, set, block, &slot, &full);
    }
    wm_biased_release(&window->biased);
    if (done) {
        wm_pending_added(window, slot, full, true);
    }
    return done;
}
