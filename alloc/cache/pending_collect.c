/* pending_collect.c: one thread counts or flushes the batches of all threads.
 *
 * Takes lock windows, under it the biased locks of the windows, the locks of
 * the timelines and lock arena; calls no driver. */
#include "alloc/cache/cache_int.h"

struct collection {
    wm_timelines *timelines;
    wm_timeline *t; /* null: any */
    uint64_t older_than;
    bool visited;
};

/* The slots of a window's thread, for reading only; or null. */
static const wm_pending *pending_of(const wm_window *window)
{
    /* Acquire pairs with the release in begin_set(): the set is initialised. */
    const wm_magazine_set *set =
        atomic_load_explicit(&window->magazines, memory_order_acquire);

    return set != NULL ? wm_magazine_set_pending(set) : NULL;
}

static size_t blocks_of(const wm_pending_stream *slot)
{
    return atomic_load_explicit(&slot->blocks, memory_order_relaxed);
}

static bool has_wanted(const wm_window *window, void *context)
{
    const struct collection *collection = context;
    const wm_pending *pending = pending_of(window);
    const wm_pending_stream *slot;
    bool any = false;

    if (collection->t != NULL) {
        slot = wm_pending_stream_at(pending,
                                    wm_pending_index(collection->t->stream));
        return slot != NULL && wm_pending_timeline(slot) == collection->t;
    }
    for (unsigned i = 0; i < WM_PENDING_SLOTS && !any; i++) {
        slot = wm_pending_stream_at(pending, i);
        any = slot != NULL && blocks_of(slot) > 0 &&
              atomic_load_explicit(&slot->since_ns, memory_order_relaxed) <=
                  collection->older_than;
    }
    return any;
}

static void collect_window(wm_window *window, void *context)
{
    struct collection *collection = context;
    wm_magazine_set *set = wm_cache_set_of(window);

    collection->visited = true;
    if (set != NULL) {
        atomic_fetch_add_explicit(&collection->timelines->visits, 1,
                                  memory_order_relaxed);
    }
    for (unsigned i = 0; set != NULL && i < WM_PENDING_SLOTS; i++) {
        wm_pending_stream *slot = wm_pending_stream_in(set, i);

        if (slot == NULL) {
            continue;
        }
        if (collection->t == NULL) {
            (void)wm_pending_flush(set, slot, true);
        } else if (wm_pending_timeline(slot) == collection->t) {
            wm_pending_detach(set, slot);
        }
    }
}

bool wm_pending_collect_all(wm_timelines *set, wm_timeline *t,
                            uint64_t older_than)
{
    struct collection collection = {set, t, older_than, false};
    const wm_visit visit = {has_wanted, collect_window, NULL, &collection};

    /* Relaxed: a thread that looked the timeline up just before it left the
     * table may attach a slot to it now, and keep it. Such a slot records
     * nothing, and blocks freed into it wait for the stream's final event. */
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

    for (unsigned i = 0; i < WM_PENDING_SLOTS; i++) {
        const wm_pending_stream *slot = wm_pending_stream_at(pending, i);

        *blocks += slot != NULL ? blocks_of(slot) : 0;
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
