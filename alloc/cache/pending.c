/* pending.c: the slots of a thread's pending batches: count, flush, attach and
 * detach; and counts and flushes of all threads' slots by any thread.
 *
 * Takes lock windows to visit other threads, the lock of a window, and under it
 * the locks of the timelines and of the arena. Calls no driver. */
#include "alloc/cache/cache_int.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

/* A slot's part of the byte bound where other threads have slots, too. */
enum { PARTS = 4 };

const wm_pending_stream wm_pending_no_stream;

/* ---- turns, and how a batch begins --------------------------------------- */

static void insert_last(wm_pending_stream **ring, wm_pending_stream *slot)
{
    wm_pending_stream *first = *ring != NULL ? *ring : slot;

    slot->after = first;
    slot->before = *ring != NULL ? first->before : slot;
    slot->before->after = slot;
    first->before = slot;
    *ring = first;
}

static void leave_ring(wm_pending *pending, wm_pending_stream *slot)
{
    wm_pending_stream **ring = slot->in_turn ? &pending->turn : &pending->idle;

    slot->before->after = slot->after;
    slot->after->before = slot->before;
    if (*ring == slot) {
        *ring = slot->after != slot ? slot->after : NULL;
    }
    slot->before = slot->after = NULL;
    pending->in_turn -= slot->in_turn;
    slot->in_turn = false;
}

void wm_pending_want_turn(wm_pending *pending, wm_pending_stream *slot)
{
    atomic_store_explicit(&slot->drained, false, memory_order_relaxed);
    if (!slot->in_turn) {
        if (slot->after != NULL) {
            leave_ring(pending, slot);
        }
        insert_last(&pending->turn, slot);
        slot->in_turn = true;
        pending->in_turn++;
    }
}

void wm_pending_end_turn(wm_pending *pending, wm_pending_stream *slot)
{
    leave_ring(pending, slot);
    insert_last(&pending->idle, slot);
    slot->idle_since = pending->polls;
}

void wm_pending_begin(wm_magazine_set *set, wm_pending_stream *slot)
{
    wm_pending_want_turn(wm_magazine_set_pending(set), slot);
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

/* The closed batches, oldest first, then the open one. */
static wm_pending_batch *batch_at(wm_pending_stream *slot, unsigned k)
{
    return k < slot->closed ? &slot->batch[k] : &slot->open;
}

/* ---- counting pending blocks in the arena -------------------------------- */

static void count_stream(wm_magazine_set *set, wm_pending_stream *slot)
{
    wm_lock_acquire(&set->arena->lock);
    for (unsigned k = 0; k <= slot->closed; k++) {
        wm_pending_batch *batch = batch_at(slot, k);
        size_t count = batch->count - batch->counted, bytes = 0;

        while (batch->counted < batch->count) {
            wm_block *block = batch->block[batch->counted++];

            wm_block_set_state(block, WM_BLOCK_PENDING);
            bytes += block->bytes;
        }
        batch->counted_bytes += bytes;
        wm_arena_begin_pending_locked(set->arena, count, bytes);
    }
    wm_lock_release(&set->arena->lock);
}

void wm_pending_count_all(wm_magazine_set *set)
{
    const wm_pending *pending = wm_magazine_set_pending(set);
    wm_pending_stream *slot = pending != NULL ? pending->turn : NULL;

    for (; slot != NULL; slot = wm_pending_after(pending, slot)) {
        if (slot->open.count > 0 || slot->closed > 0) {
            count_stream(set, slot);
        }
    }
}

void wm_pending_merge_stats_locked(wm_magazine_set *set)
{
    wm_pending *pending = wm_magazine_set_pending(set);

    if (pending != NULL) {
        wm_arena_note_completed_locked(set->arena, pending->completed,
                                       pending->completed_bytes);
        pending->completed = pending->completed_bytes = 0;
    }
}

void wm_pending_recount(wm_magazine_set *set, wm_pending_stream *slot,
                        size_t count, size_t bytes)
{
    wm_pending *pending = wm_magazine_set_pending(set);
    uint64_t since_ns = UINT64_MAX;
    size_t blocks = 0;

    for (unsigned k = 0; k <= slot->closed; k++) {
        const wm_pending_batch *batch = batch_at(slot, k);

        blocks += batch->count;
        if (batch->count > 0 && batch->since_ns < since_ns) {
            since_ns = batch->since_ns;
        }
    }
    atomic_store_explicit(&slot->since_ns, since_ns, memory_order_relaxed);
    atomic_store_explicit(&slot->blocks, blocks, memory_order_relaxed);
    pending->completed += count;
    pending->completed_bytes += bytes;
}

/* ---- flush, attach, detach ----------------------------------------------- */

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sets the bounds of the next batch. If only this thread uses the stream and no
 * memory is obtained for what a batch holds: batch_count and batch_bytes. Else
 * other threads may need the blocks: as many as make the timeline's batch worth
 * a query, and a part of bytes, with which that is full. A miss polls few
 * slots: if there are more, each holds less. */
static void set_limits(const wm_magazine_set *set, wm_pending_stream *slot)
{
    const wm_timelines *timelines = slot->timelines;
    size_t bytes = wm_timelines_batch_bytes(timelines);
    bool few = wm_magazine_set_pending(set)->in_turn <= WM_PENDING_FEW;
    size_t most = timelines->batch_count;

    /* Relaxed: if two threads attach at once, each may get a full-size
     * batch. */
    if (!few || !wm_economy_is_stable(&set->group->economy) ||
        atomic_load_explicit(&wm_pending_timeline(slot)->slots,
                             memory_order_relaxed) != 1) {
        most = lesser(most, few ? WM_BATCH_RIPE : WM_BATCH_RIPE / 2);
        bytes =
            lesser(bytes / PARTS,
                   few ? SIZE_MAX : (size_t)WM_BATCH_RIPE * WM_PENDING_OTHERS);
    }
    slot->count_max = lesser(most, WM_PENDING_BLOCKS);
    slot->bytes_max = bytes;
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
    wm_timeline *t = wm_pending_timeline(slot);
    uint64_t since = 0;
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
        since = batch_at(slot, 0)->since_ns;
    }
    for (unsigned i = 0; i < slot->closed; i++) {
        wm_batch batch = chain(t, &slot->batch[i]);

        wm_batch_enqueue(slot->timelines, t, &batch, since);
    }
    slot->closed = 0;
    if (slot->open.count > 0) {
        wm_batch batch = chain(t, &slot->open);

        full = wm_batch_join(slot->timelines, t, &batch, since);
        set_limits(set, slot);
    }
    wm_pending_recount(set, slot, 0, 0);
    return full;
}

static void change_slot_count(wm_timelines *timelines, wm_timeline *t,
                              int change)
{
    /* Relaxed: statistics; -1 wraps. */
    atomic_fetch_add_explicit(&t->slots, (size_t)change, memory_order_relaxed);
    atomic_fetch_add_explicit(&timelines->slots, (size_t)change,
                              memory_order_relaxed);
}

void wm_pending_begin_stream(wm_magazine_set *set, wm_pending_stream *slot,
                             wm_timeline *t)
{
    wm_magazine_set_pending(set)->in_use++;
    slot->stream = t->stream;
    slot->references = 1;
    change_slot_count(slot->timelines, t, 1);
    atomic_store_explicit(&t->home, set->arena, memory_order_relaxed);
    atomic_store_explicit(&slot->timeline, t, memory_order_relaxed);
    set_limits(set, slot);
}

void wm_pending_detach(wm_magazine_set *set, wm_pending_stream *slot)
{
    wm_timeline *t = wm_pending_timeline(slot);

    if (slot->in_driver) {
        leave_request(slot, WM_REQUEST_DETACH);
    } else if (t != NULL) {
        (void)wm_pending_flush(set, slot, false);
        slot->stream = NULL;
        leave_ring(wm_magazine_set_pending(set), slot);
        wm_magazine_set_pending(set)->in_use--;
        atomic_store_explicit(&slot->timeline, NULL, memory_order_relaxed);
        change_slot_count(slot->timelines, t, -1);
        wm_timeline_drop_many(slot->timelines, t, slot->references);
        slot->references = 0;
    }
}

void wm_pending_note_home(wm_magazine_set *set)
{
    const wm_pending *pending = wm_magazine_set_pending(set);
    const wm_pending_stream *slot;

    for (slot = wm_pending_first(pending); slot != NULL; slot = slot->next) {
        wm_timeline *t = wm_pending_timeline(slot);

        if (t != NULL) {
            atomic_store_explicit(&t->home, set->arena, memory_order_relaxed);
        }
    }
}

void wm_pending_end(wm_magazine_set *set)
{
    const wm_pending *pending = wm_magazine_set_pending(set);
    wm_pending_stream *slot;

    for (slot = wm_pending_first(pending); slot != NULL; slot = slot->next) {
        wm_pending_detach(set, slot);
    }
}

void wm_pending_fini(wm_pending *pending)
{
    for (wm_pending_stream *slot = wm_pending_first(pending), *next;
         slot != NULL; slot = next) {
        next = slot->next;
        wm_meta_free(slot->batch);
        wm_meta_free(slot);
    }
    if (pending != NULL) {
        wm_meta_free(pending->table);
    }
    wm_meta_free(pending);
}

/* ---- the batches of all threads ------------------------------------------ */

struct collection {
    wm_timelines *timelines;
    wm_timeline *t; /* null: any */
    uint64_t older_than;
    bool visited;
};

/* The slots of a window's thread, for reading only; or null. Under lock
 * windows. */
static const wm_pending *pending_of(const wm_window *window)
{
    /* Relaxed: as in wm_cache_next_set(). */
    const wm_magazine_set *set =
        atomic_load_explicit(&window->magazines, memory_order_relaxed);

    return set != NULL ? wm_magazine_set_pending(set) : NULL;
}

static bool has_wanted(const wm_window *window, void *context)
{
    const struct collection *collection = context;
    const wm_pending *pending = pending_of(window);
    const wm_pending_stream *slot;

    for (slot = wm_pending_first(pending); slot != NULL; slot = slot->next) {
        if (collection->t != NULL
                ? wm_pending_timeline(slot) == collection->t
                : atomic_load_explicit(&slot->blocks, memory_order_relaxed) >
                          0 &&
                      atomic_load_explicit(&slot->since_ns,
                                           memory_order_relaxed) <=
                          collection->older_than) {
            return true;
        }
    }
    return false;
}

static void collect_window(wm_window *window, void *context)
{
    struct collection *collection = context;
    wm_magazine_set *set = wm_cache_set_of(window);
    const wm_pending *pending;
    wm_pending_stream *slot;

    collection->visited = true;
    if (set == NULL) {
        return;
    }
    atomic_fetch_add_explicit(&collection->timelines->visits, 1,
                              memory_order_relaxed);
    pending = wm_magazine_set_pending(set);
    if (collection->t != NULL) {
        slot = wm_pending_find(pending, collection->t->stream);
        if (slot != NULL && wm_pending_timeline(slot) == collection->t) {
            wm_pending_detach(set, slot);
        }
        return;
    }
    slot = pending != NULL ? pending->turn : NULL;
    for (; slot != NULL; slot = wm_pending_after(pending, slot)) {
        (void)wm_pending_flush(set, slot, true);
    }
}

bool wm_pending_collect_all(wm_timelines *set, wm_timeline *t,
                            uint64_t older_than)
{
    struct collection collection = {set, t, older_than, false};
    const wm_visit visit = {has_wanted, collect_window, NULL, &collection};

    /* Relaxed: a thread that looked the timeline up just before it left the
     * table may attach a slot to it now, which stays attached. Such a slot
     * records nothing, and blocks freed into it wait for the stream's final
     * event. */
    if (t == NULL ||
        atomic_load_explicit(&t->slots, memory_order_relaxed) > 0) {
        (void)wm_window_visit(set->runtime, &visit);
    }
    return collection.visited;
}

static bool add_blocks(const wm_window *window, void *context)
{
    size_t *blocks = context;
    const wm_pending *pending = pending_of(window);
    const wm_pending_stream *slot;

    for (slot = wm_pending_first(pending); slot != NULL; slot = slot->next) {
        *blocks += atomic_load_explicit(&slot->blocks, memory_order_relaxed);
    }
    return false; /* no window is visited */
}

size_t wm_pending_blocks(wm_timelines *set)
{
    size_t blocks = 0;
    const wm_visit visit = {add_blocks, NULL, NULL, &blocks};

    /* Pairs with the order of a hit, which stores the count before it reads
     * anything else. If the barrier is refused, hits were never allowed, or a
     * few are missed. */
    (void)wm_biased_barrier();
    (void)wm_window_visit(set->runtime, &visit);
    return blocks;
}
