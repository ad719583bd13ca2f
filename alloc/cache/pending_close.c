/* pending_close.c: what a thread does with its own batches, once one is full or
 * it misses. See pending.h.
 *
 * Where nobody else gathers for a stream, and the thread's memory is steady, a
 * batch stays in its slot from the first free to the magazines:
 *
 *   section   the slot is asking, its timeline has a recorder
 *   driver    has the oldest batch passed? an event for the open one
 *   section   what has passed is in the magazines; whoever called meanwhile
 *             finds the rest in the timeline
 *
 * The event of a batch that has passed serves the next one. Takes the section
 * of the window, and under it the locks of the timeline and of the arena; calls
 * the driver with none. */
#include "alloc/cache/pending_int.h"

#include "alloc/arena/arena_int.h"
#include "alloc/arena/group.h"

#include <limits.h>

/* ---- in the slot -------------------------------------------------------- */

/* What the owner knows while the slot is asking. */
struct cycle {
    wm_timeline *t;
    bool close;         /* the open batch is to get its event, */
    bool closed;        /* and has */
    bool queued;        /* what waits in the timeline, which is to be asked */
    bool full;          /* the timeline's own batch, which is to be closed */
    bool due;           /* as wm_timeline_begin_record() says */
    unsigned completed; /* of the closed ones, the oldest; and the open one */
    warm_event event;
};

/* Whether the open batch may be closed here. What waits in the timeline does so
 * behind what came before this, or is soon asked for. Relaxed: whoever else
 * comes has a batch of its own. */
static bool may_close_locked(const wm_magazine_set *set,
                             const wm_pending_stream *slot, wm_timeline *t)
{
    return set->footprint_stable && !t->capture_due &&
           slot->closed < WM_PENDING_CLOSED && t->queued < WM_PENDING_CLOSED &&
           t->open.count == 0 &&
           atomic_load_explicit(&t->slots, memory_order_relaxed) == 1;
}

/* With the section. must: close the open batch, or nothing. */
static bool begin_cycle(wm_magazine_set *set, wm_pending_stream *slot,
                        bool must, struct cycle *cycle)
{
    wm_timeline *t = wm_pending_timeline(slot);
    bool begun;

    wm_lock_acquire(&t->lock);
    cycle->close = cycle->close && may_close_locked(set, slot, t);
    begun = (cycle->close || (!must && slot->closed > 0)) &&
            wm_timeline_begin_record_locked(t, &cycle->due);
    t->closing += begun;
    cycle->queued = t->queued > 0;
    wm_lock_release(&t->lock);
    slot->in_driver = begun;
    cycle->t = t;
    return begun;
}

/* Without: how many have passed, of the oldest. */
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
    }
    if (cycle->event != NULL && !cycle->closed && cycle->completed == 0) {
        wm_event_pool_put(set->events, cycle->t->device, cycle->event);
    }
    /* It is the oldest, then, and nobody has asked yet. */
    if (cycle->closed && slot->closed == 0 && !cycle->queued &&
        wm_driver_event_passed(set->driver, cycle->event) == WARM_OK) {
        cycle->completed = 1;
    }
}

/* The open batch is the last of the closed ones. */
static void close_open_batch(wm_pending_stream *slot, warm_event event)
{
    wm_pending_batch *batch = &slot->batch[slot->closed++];
    const wm_pending_batch *open = &slot->open;

    batch->count = open->count;
    batch->bytes = open->bytes;
    batch->since_ns = open->since_ns;
    batch->counted = open->counted;
    batch->counted_bytes = open->counted_bytes;
    batch->event = event;
    for (unsigned i = 0; i < open->count; i++) {
        batch->block[i] = open->block[i];
    }
    wm_gathered_clear(&slot->open);
}

/* The oldest ones go home; an event of theirs may serve on. *blocks, *bytes: of
 * which the arena knew nothing. */
static void complete_batches(wm_magazine_set *set, wm_pending_stream *slot,
                             unsigned count, warm_event serves, size_t *blocks,
                             size_t *bytes)
{
    const wm_timelines *timelines = slot->timelines;

    for (unsigned i = 0; i < count; i++) {
        wm_pending_batch *batch = &slot->batch[i];

        if (batch->event != serves) {
            wm_event_pool_put(timelines->events,
                              wm_pending_timeline(slot)->device, batch->event);
        }
        wm_pending_restock(slot, batch->count);
        wm_cache_add_pending_batch(set, batch);
        *blocks += batch->count - batch->counted;
        *bytes += batch->bytes - batch->counted_bytes;
    }
    slot->closed -= count;
    for (unsigned i = 0; i < slot->closed; i++) {
        slot->batch[i] = slot->batch[i + count];
    }
}

/* Whoever called finds the rest in the timeline; as does who could not close
 * the open batch. Whether that is to be closed there. */
static bool serve_request(wm_magazine_set *set, wm_pending_stream *slot,
                          bool failed)
{
    enum wm_pending_request called = slot->requested;
    bool full = false;

    slot->in_driver = false;
    slot->requested = WM_REQUEST_NONE;
    if (called == WM_REQUEST_DETACH) {
        wm_pending_detach(set, slot);
    } else if (called == WM_REQUEST_FLUSH || failed) {
        full = wm_pending_flush(set, slot, false);
    }
    return full;
}

/* With the section. */
static void end_cycle(wm_magazine_set *set, wm_pending_stream *slot,
                      struct cycle *cycle)
{
    unsigned older =
        cycle->completed < slot->closed ? cycle->completed : slot->closed;
    size_t blocks = 0, bytes = 0;

    complete_batches(set, slot, older, cycle->closed ? cycle->event : NULL,
                     &blocks, &bytes);
    if (cycle->closed) {
        close_open_batch(slot, cycle->event);
    }
    complete_batches(set, slot, cycle->completed - older, NULL, &blocks,
                     &bytes);
    wm_pending_recount(set, slot, blocks, bytes);
    cycle->full = serve_request(set, slot, cycle->close && !cycle->closed);
    wm_lock_acquire(&cycle->t->lock);
    cycle->t->closing--;
    wm_timeline_end_record_locked(cycle->t, cycle->due);
    wm_lock_release(&cycle->t->lock);
}

/* The caller has the section, and has it not after that, but a reference to the
 * timeline. */
static void run_cycle(wm_window *window, wm_pending_stream *slot, unsigned most,
                      struct cycle *cycle)
{
    wm_timelines *timelines = slot->timelines;

    wm_section_unlock(&window->section);
    poll_batches(timelines, slot, most, cycle);
    if (cycle->close) {
        record_event(timelines, slot, cycle);
    }
    wm_section_lock(&window->section);
    /* The slot's references may go with it. */
    wm_timeline_hold(cycle->t);
    end_cycle(wm_cache_set_of(window), slot, cycle);
    wm_section_unlock(&window->section);
}

/* ---- in the timeline ---------------------------------------------------- */

/* What has passed goes into the calling thread's magazines, as far as there is
 * room, and else where it belongs. */
static void cache_done(void *context, wm_block *done)
{
    wm_window *window = context;
    wm_arena_group *group = done->segment->arena->group;
    wm_block *rest = done;
    wm_magazine_set *set;

    wm_section_lock(&window->section);
    set = wm_cache_set_of(window);
    if (set != NULL) {
        rest = wm_cache_add_completed(set, done);
    }
    wm_section_unlock(&window->section);
    if (rest != NULL) {
        group->timelines->ops->finish(rest);
    }
}

/* ---- a batch is full ---------------------------------------------------- */

/* Closes what is full, in the slot or as part of the timeline's. With the
 * section, which the caller has not after that. cycle->t: to be gone on with,
 * with a reference, or null. */
static void close_slot(wm_window *window, wm_pending_stream *slot,
                       struct cycle *cycle)
{
    wm_magazine_set *set = wm_cache_set_of(window);
    const wm_timelines *timelines = slot->timelines;

    cycle->close = slot->open.count >= timelines->batch_count ||
                   slot->open.bytes >= timelines->batch_bytes;
    if (cycle->close && begin_cycle(set, slot, true, cycle)) {
        /* One for one; and one more, or there would never be fewer. */
        run_cycle(window, slot, slot->closed > 1 ? 2 : 1, cycle);
        return;
    }
    cycle->full = wm_pending_flush(set, slot, false);
    cycle->t = cycle->full ? wm_pending_timeline(slot) : NULL;
    if (cycle->full) {
        wm_timeline_hold(cycle->t);
    }
    wm_section_unlock(&window->section);
}

/* In the timeline: what is full there, or older than what the slot has. */
static void poll_timeline(wm_arena_group *group, struct cycle *cycle,
                          const wm_home *home)
{
    if (cycle->t == NULL) {
        return;
    }
    if (cycle->full) {
        wm_timeline_close_full(group->timelines, cycle->t, home);
    } else if (cycle->queued) {
        wm_timeline_poll_after_close(group->timelines, cycle->t, home);
    }
    wm_timeline_drop(group->timelines, cycle->t);
    group->timelines->ops->report(group);
}

void wm_pending_close(wm_window *window, wm_pending_stream *slot, bool mine)
{
    const wm_home home = {cache_done, window};
    struct cycle cycle = {.t = NULL};
    wm_arena_group *group = NULL;
    warm_error before;
    int cancel = wm_cancel_off();

    before.size = sizeof before;
    warm_last_error(&before);
    wm_section_lock(&window->section);
    /* Of a set of its own, or somebody has taken it since. */
    if (wm_cache_set_of(window) != NULL && slot->open.count > 0) {
        group = wm_cache_set_of(window)->arena->group;
        close_slot(window, slot, &cycle);
    } else {
        wm_section_unlock(&window->section);
    }
    poll_timeline(group, &cycle, mine ? &home : NULL);
    wm_error_restore(&before);
    wm_cancel_restore(cancel);
}

/* ---- a miss ------------------------------------------------------------- */

/* Those of the thread's slots that have closed batches are asked for those, and
 * get an event for an open one that is worth it. Whether anything passed. */
static bool poll_slots(wm_arena_group *group, wm_window *window)
{
    wm_home home = {cache_done, window};
    bool any = false;

    for (unsigned i = 0; i < WM_PENDING_SLOTS && !any; i++) {
        wm_pending_stream *slot;
        struct cycle cycle = {.t = NULL};

        wm_section_lock(&window->section);
        slot = wm_pending_stream_in(wm_cache_set_of(window), i);
        cycle.close = slot != NULL && slot->open.count >= WM_BATCH_RIPE;
        if (slot != NULL && slot->closed > 0 &&
            begin_cycle(wm_cache_set_of(window), slot, false, &cycle)) {
            run_cycle(window, slot, UINT_MAX, &cycle);
            poll_timeline(group, &cycle, &home);
            any = cycle.completed > 0;
        } else {
            wm_section_unlock(&window->section);
        }
    }
    return any;
}

struct mine {
    wm_timeline *timeline;
    bool full; /* its open batch */
};

static bool has_closed(const wm_magazine_set *set)
{
    bool any = false;

    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        const wm_pending_stream *slot = wm_pending_stream_in(set, i);

        any |= slot != NULL && slot->closed > 0;
    }
    return any;
}

/* The timelines of the calling thread's slots, into which their batches go; but
 * for those that wait for older ones in the slot, which are asked for first,
 * unless the stream has retired: then nobody would ask for them here. *any: of
 * those something has passed, and no other one is looked at. */
static unsigned flush_mine(wm_arena_group *group, struct mine *mine,
                           wm_home *home, bool *any)
{
    unsigned count = 0;
    wm_window *window;
    wm_magazine_set *set = wm_cache_lock_mine(group, &window);

    if (set != NULL && has_closed(set)) {
        wm_section_unlock(&window->section);
        *any = poll_slots(group, window);
        set = *any ? NULL : wm_cache_lock_mine(group, &window);
    }
    if (set == NULL) {
        return 0;
    }
    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        wm_pending_stream *slot = wm_pending_stream_in(set, i);
        wm_timeline *t = slot != NULL ? wm_pending_timeline(slot) : NULL;

        if (t != NULL && (slot->closed == 0 || wm_timeline_is_retired(t))) {
            mine[count].full = wm_pending_flush(set, slot, false);
            mine[count].timeline = t;
            wm_timeline_hold(mine[count++].timeline);
        }
    }
    *home = (wm_home){cache_done, window};
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

bool wm_pending_poll_mine(wm_arena_group *group, uint64_t now)
{
    wm_timelines *set = group->timelines;
    struct mine mine[WM_PENDING_SLOTS] = {{NULL, false}};
    wm_home home = {NULL, NULL};
    bool any = false;
    unsigned count = flush_mine(group, mine, &home, &any);

    any = any || poll_mine(set, mine, count, true, now, &home) ||
          poll_mine(set, mine, count, false, now, &home);
    for (unsigned i = 0; i < count; i++) {
        wm_timeline_drop(set, mine[i].timeline);
    }
    return any;
}

/* ---- a block that no hit took ------------------------------------------- */

/* The slot for t where it may have a block that the window may not have handed
 * out, or null. The class must be in use, or what is counted is never told. */
static wm_pending_stream *slot_for(wm_window *window, wm_magazine_set *set,
                                   const wm_block *block, wm_timeline *t)
{
    wm_pending_stream *slot = wm_pending_stream_with(window, t);

    return wm_pending_timeline(slot) == t &&
                   block->bytes <= WM_PENDING_OTHERS &&
                   wm_arena_is_sibling(block->segment->arena, set->arena) &&
                   set->of[block->size_class].room > 0 &&
                   !wm_timelines_capture(slot->timelines)
               ? slot
               : NULL;
}

bool wm_pending_free_other(wm_arena_group *group, wm_block *block,
                           wm_stream_use *uses)
{
    wm_window *window = wm_window_mine();
    wm_pending_stream *slot = NULL;
    wm_magazine_set *set;
    bool full = false;

    if (!wm_stream_use_is_bare(uses) ||
        atomic_load_explicit(&block->own, memory_order_relaxed) != NULL ||
        atomic_load_explicit(&block->captured, memory_order_relaxed) ||
        window->owner != group->runtime ||
        !wm_section_enter(&window->section)) {
        return false;
    }
    set = wm_cache_set_of(window);
    if (set != NULL) {
        slot = slot_for(window, set, block, wm_stream_use_bare_timeline(uses));
    }
    if (slot != NULL) {
        atomic_store_explicit(&block->uses, NULL, memory_order_relaxed);
        full = wm_pending_append(set, slot, block);
        wm_block_set_state(block, WM_BLOCK_GATHERED);
    }
    wm_section_leave(&window->section);
    if (full) {
        wm_pending_close(window, slot, false);
    }
    /* After the count: see wm_pending_blocks(). For the compiler. */
    atomic_signal_fence(memory_order_seq_cst);
    wm_waker_note_pending(group->waker);
    return slot != NULL;
}

bool wm_pending_free_visited(wm_window *window, wm_block *block,
                             const void *base)
{
    wm_pending_stream *slot = NULL;
    bool done = false, full = false;
    wm_magazine_set *set;

    wm_section_lock(&window->section);
    set = wm_cache_set_of(window);
    if (set != NULL && wm_section_is_hittable(&window->section) &&
        wm_block_starts_at(block, base)) {
        if (block->size_class < WM_CLASSES) {
            wm_magazine_trim_room(set, &set->of[block->size_class]);
        }
        done = wm_pending_add(window, set, block, &slot, &full);
    }
    wm_section_unlock(&window->section);
    if (done) {
        wm_pending_added(window, slot, full);
    }
    return done;
}
