/* pending.c: the slots: append, count, flush, detach.
 *
 * Takes the biased lock of a window and under it the locks of the timelines and
 * of the arena; calls the driver with none of them held. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"

/* A slot's part of the byte bound where other threads have slots, too. */
enum { PARTS = 4 };

const wm_pending_stream wm_pending_no_stream;

/* ---- a batch begins ----------------------------------------------------- */

void wm_pending_begin(wm_pending_stream *slot)
{
    slot->open.since_ns = wm_clock_ns();
    /* Other threads read a time not later than that of the oldest block. */
    if (atomic_load_explicit(&slot->blocks, memory_order_relaxed) == 0) {
        atomic_store_explicit(&slot->since_ns, slot->open.since_ns,
                              memory_order_relaxed);
    }
}

warm_stream wm_pending_use_stream(wm_stream_use *uses)
{
    return wm_stream_use_is_bare(uses)
               ? wm_stream_use_bare_timeline(uses)->stream
               : NULL;
}

/* ---- counting pending blocks in the arena ------------------------------- */

static void count_batch_locked(wm_magazine_set *set, wm_pending_batch *batch)
{
    size_t count = batch->count - batch->counted, bytes = 0;

    while (batch->counted < batch->count) {
        wm_block *block = batch->block[batch->counted++];

        wm_block_set_state(block, WM_BLOCK_PENDING);
        bytes += block->bytes;
    }
    batch->counted_bytes += bytes;
    if (count > 0) {
        wm_arena_begin_pending_locked(set->arena, count, bytes);
    }
}

static void count_stream(wm_magazine_set *set, wm_pending_stream *slot)
{
    wm_lock_acquire(&set->arena->lock);
    for (unsigned i = 0; i < slot->closed; i++) {
        count_batch_locked(set, &slot->batch[i]);
    }
    count_batch_locked(set, &slot->open);
    wm_lock_release(&set->arena->lock);
}

void wm_pending_count_all(wm_magazine_set *set)
{
    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        wm_pending_stream *slot = wm_pending_stream_in(set, i);

        if (slot != NULL && (slot->open.count > 0 || slot->closed > 0)) {
            count_stream(set, slot);
        }
    }
}

void wm_pending_merge_stats_locked(wm_magazine_set *set)
{
    wm_pending *pending = wm_magazine_set_pending(set);

    if (pending != NULL && pending->completed > 0) {
        wm_arena_note_completed_locked(set->arena, pending->completed,
                                       pending->completed_bytes, pending->peak,
                                       pending->peak_bytes);
        pending->completed = pending->completed_bytes = 0;
        pending->peak = pending->peak_bytes = 0;
    }
}

/* ---- flush and detach: the caller has the biased lock -----------------------
 */

/* Most blocks of a slot's batch that other threads may want: as many as make a
 * timeline's batch worth a query, so that they are in the timeline in time. */
static size_t shared_count_max(const wm_timelines *set)
{
    return set->batch_count < WM_BATCH_RIPE ? set->batch_count : WM_BATCH_RIPE;
}

/* Sets the bounds of the next batch. bytes: at which the timeline's batch is
 * full. */
static void set_limits(const wm_magazine_set *set, wm_pending_stream *slot,
                       size_t bytes)
{
    const wm_timelines *timelines = slot->timelines;
    /* Relaxed: if two threads attach at once, each may get a full-size
     * batch. */
    bool alone = set->footprint_stable &&
                 atomic_load_explicit(&wm_pending_timeline(slot)->slots,
                                      memory_order_relaxed) == 1;

    slot->count_max =
        alone ? timelines->batch_count : shared_count_max(timelines);
    if (slot->count_max > WM_PENDING_BLOCKS) {
        slot->count_max = WM_PENDING_BLOCKS;
    }
    slot->bytes_max = alone ? bytes : bytes / PARTS;
}

/* Makes the blocks a chain of stream uses, which take the batch's
 * references. */
static wm_batch chain(wm_timeline *t, wm_pending_batch *from)
{
    wm_batch batch = {
        .since_ns = from->since_ns, .count = from->count, .bytes = from->bytes};

    for (size_t i = from->count; i-- > 0;) {
        wm_block *block = from->block[i];
        wm_stream_use *use = &block->first_use;

        *use = (wm_stream_use){
            .timeline = t, .block = block, .next_in_batch = batch.first};
        atomic_store_explicit(&block->queued, 1, memory_order_relaxed);
        batch.last = batch.first != NULL ? batch.last : use;
        batch.first = use;
        use->event = i == 0 ? from->event : NULL;
    }
    wm_pending_clear_batch(from);
    return batch;
}

/* Moves closed batches into the timeline's queue unchanged. */
static void queue_closed(wm_pending_stream *slot, uint64_t since)
{
    wm_timeline *t = wm_pending_timeline(slot);

    for (unsigned i = 0; i < slot->closed; i++) {
        wm_batch batch = chain(t, &slot->batch[i]);

        wm_batch_enqueue(slot->timelines, t, batch.first, since);
    }
    slot->closed = 0;
}

/* Leaves a request for the owner, which is in a driver call. A thread that
 * polls the timeline waits until the owner has served it. */
static void leave_request(wm_pending_stream *slot,
                          enum wm_pending_request called)
{
    if (slot->requested < called) {
        slot->requested = called;
    }
    wm_timeline_make_busy(slot->timelines, wm_pending_timeline(slot), 0);
}

bool wm_pending_flush(wm_magazine_set *set, wm_pending_stream *slot, bool one)
{
    uint64_t since = 0;
    size_t bytes;
    bool full = false;

    if (slot->in_driver) {
        leave_request(slot, WM_REQUEST_FLUSH);
        return false;
    }
    if (slot->open.count == 0 && slot->closed == 0) {
        return false;
    }
    count_stream(set, slot);
    if (one) {
        since = (slot->closed > 0 ? &slot->batch[0] : &slot->open)->since_ns;
    }
    queue_closed(slot, since);
    if (slot->open.count > 0) {
        wm_batch batch = chain(wm_pending_timeline(slot), &slot->open);

        full = wm_batch_join(slot->timelines, wm_pending_timeline(slot), &batch,
                             since, &bytes);
        set_limits(set, slot, bytes);
    }
    wm_pending_recount(set, slot, 0, 0);
    return full;
}

/* Sums over batches. */
struct sum {
    size_t blocks, untold, untold_bytes;
    uint64_t since;
};

static void add_batch(struct sum *sum, const wm_pending_batch *batch)
{
    sum->blocks += batch->count;
    sum->untold += batch->count - batch->counted;
    sum->untold_bytes += batch->bytes - batch->counted_bytes;
    if (batch->since_ns < sum->since) {
        sum->since = batch->since_ns;
    }
}

static void add_slot(struct sum *sum, const wm_pending_stream *slot)
{
    for (unsigned k = 0; slot != NULL && k < slot->closed; k++) {
        add_batch(sum, &slot->batch[k]);
    }
    if (slot != NULL && slot->open.count > 0) {
        add_batch(sum, &slot->open);
    }
}

/* Adds blocks that completed before the arena counted them as pending. */
static void note_completed(wm_magazine_set *set, size_t count, size_t bytes)
{
    wm_pending *pending = wm_magazine_set_pending(set);
    struct sum sum = {0, count, bytes, UINT64_MAX};

    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        add_slot(&sum, wm_pending_stream_at(pending, i));
    }
    pending->completed += count;
    pending->completed_bytes += bytes;
    if (sum.untold > pending->peak) {
        pending->peak = sum.untold;
    }
    if (sum.untold_bytes > pending->peak_bytes) {
        pending->peak_bytes = sum.untold_bytes;
    }
}

void wm_pending_recount(wm_magazine_set *set, wm_pending_stream *slot,
                        size_t count, size_t bytes)
{
    struct sum sum = {0, 0, 0, UINT64_MAX};

    add_slot(&sum, slot);
    atomic_store_explicit(&slot->since_ns, sum.since, memory_order_relaxed);
    atomic_store_explicit(&slot->blocks, sum.blocks, memory_order_relaxed);
    if (count > 0) {
        note_completed(set, count, bytes);
    }
}

static void change_slot_count(wm_timelines *timelines, wm_timeline *t,
                              int change)
{
    /* Relaxed: statistics; -1 wraps. */
    atomic_fetch_add_explicit(&t->slots, (size_t)change, memory_order_relaxed);
    atomic_fetch_add_explicit(&timelines->slots, (size_t)change,
                              memory_order_relaxed);
}

void wm_pending_detach(wm_magazine_set *set, wm_pending_stream *slot)
{
    wm_timeline *t = wm_pending_timeline(slot);

    if (slot->in_driver) {
        leave_request(slot, WM_REQUEST_DETACH);
    } else if (t != NULL) {
        (void)wm_pending_flush(set, slot, false);
        slot->stream = NULL;
        atomic_store_explicit(&slot->timeline, NULL, memory_order_relaxed);
        change_slot_count(slot->timelines, t, -1);
        wm_timeline_drop_many(slot->timelines, t, slot->references);
        slot->references = 0;
    }
}

void wm_pending_note_home(wm_magazine_set *set)
{
    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        const wm_pending_stream *slot = wm_pending_stream_in(set, i);
        wm_timeline *t = slot != NULL ? wm_pending_timeline(slot) : NULL;

        if (t != NULL) {
            atomic_store_explicit(&t->home, set->arena, memory_order_relaxed);
        }
    }
}

void wm_pending_end(wm_magazine_set *set)
{
    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        wm_pending_stream *slot = wm_pending_stream_in(set, i);

        if (slot != NULL) {
            wm_pending_detach(set, slot);
        }
    }
}

void wm_pending_fini(wm_magazine_set *set)
{
    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        wm_meta_free(wm_pending_stream_in(set, i));
    }
    wm_meta_free(wm_magazine_set_pending(set));
}

/* ---- references and assignment ------------------------------------------ */

void wm_pending_begin_stream(wm_magazine_set *set, wm_pending_stream *slot,
                             wm_timeline *t)
{
    slot->stream = t->stream;
    slot->references = 1;
    change_slot_count(slot->timelines, t, 1);
    atomic_store_explicit(&t->home, set->arena, memory_order_relaxed);
    atomic_store_explicit(&slot->timeline, t, memory_order_relaxed);
    set_limits(set, slot, slot->timelines->batch_bytes);
}
