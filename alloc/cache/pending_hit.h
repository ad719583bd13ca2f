/* pending_hit.h: hits: record a stream on a block of the calling thread, and
 * free such a block into the batch of its stream. */
#ifndef WM_PENDING_HIT_H
#define WM_PENDING_HIT_H

#include "alloc/cache/magazine_hit.h"
#include "alloc/stream/timeline_int.h"

static inline wm_timeline *wm_pending_timeline(const wm_pending_stream *slot)
{
    return atomic_load_explicit(&slot->timeline, memory_order_relaxed);
}

/* Selects the slot of the stream, if it has one, as the window's last-used one.
 * The window has a set. */
static inline __attribute__((always_inline)) wm_pending_stream *
wm_pending_look(wm_window *window, warm_stream stream)
{
    const wm_magazine_set *set =
        atomic_load_explicit(&window->magazines, memory_order_relaxed);
    wm_pending_stream *slot =
        wm_pending_find(wm_magazine_set_pending(set), stream);

    if (slot != NULL) {
        window->pending_last = slot;
    }
    return window->pending_last;
}

/* The slot for a stream, or for a timeline; most often the one used last, so
 * that a hit's loads about the stream do not depend on the block. If there is
 * none, some other slot: the caller compares. */
static inline __attribute__((always_inline)) wm_pending_stream *
wm_pending_stream_for(wm_window *window, warm_stream stream)
{
    wm_pending_stream *last = window->pending_last;

    return wm_likely(last->stream == stream) ? last
                                             : wm_pending_look(window, stream);
}

static inline __attribute__((always_inline)) wm_pending_stream *
wm_pending_stream_with(wm_window *window, const wm_timeline *t)
{
    wm_pending_stream *last = window->pending_last;

    return wm_likely(wm_pending_timeline(last) == t)
               ? last
               : wm_pending_look(window, t->stream);
}

/* Records the stream on a block that is LIVE and of the window, by its state.
 * Without a read-modify-write: other threads record in another field (block.h).
 * False: the slow path. */
static inline __attribute__((always_inline)) bool
wm_pending_record(wm_window *window, wm_block *block, warm_stream stream)
{
    wm_pending_stream *slot;
    wm_timeline *t;
    bool done = false;

    if (wm_unlikely(!wm_biased_enter(&window->biased))) {
        return false;
    }
    /* The set exists: the state names it, and the window was entered. */
    slot = wm_pending_stream_for(window, stream);
    t = wm_pending_timeline(slot);
    if (wm_likely(slot->stream == stream) && wm_likely(stream != NULL) &&
        wm_likely(!wm_timelines_capture(slot->timelines)) &&
        wm_likely(!wm_timeline_is_retired(t))) {
        wm_timeline *own =
            atomic_load_explicit(&block->owner_stream, memory_order_relaxed);

        /* The last reference is the slot's own. */
        if (wm_likely(own == NULL) && wm_likely(slot->references > 1)) {
            slot->references--;
            /* Relaxed: as in add_adopted(). */
            atomic_store_explicit(&block->owner_stream, t,
                                  memory_order_relaxed);
            own = t;
        }
        done = own == t;
    }
    wm_biased_leave(&window->biased);
    return done;
}

/* Begins a batch: reads the clock; the slot gets a turn. */
void wm_pending_begin(wm_magazine_set *set, wm_pending_stream *slot);

/* Appends a block that the calling thread has claimed. True: the batch is
 * full. */
static inline __attribute__((always_inline)) bool
wm_pending_append(wm_magazine_set *set, wm_pending_stream *slot,
                  wm_block *block)
{
    wm_pending_batch *open = &slot->open;
    size_t count = open->count;
    size_t bytes = open->bytes + block->bytes;

    wm_assert(count < WM_PENDING_BLOCKS);
    /* Relaxed: only a thread that has locked or entered the window takes the
     * block from the slot. */
    atomic_store_explicit(&block->owner_stream, NULL, memory_order_relaxed);
    wm_magazine_count_free(set, block);
    if (wm_unlikely(count == 0)) {
        wm_pending_begin(set, slot);
    }
    open->block[count] = block;
    open->count = count + 1;
    open->bytes = bytes;
    atomic_store_explicit(
        &slot->blocks,
        atomic_load_explicit(&slot->blocks, memory_order_relaxed) + 1,
        memory_order_relaxed);
    return count + 1 >= slot->count_max || bytes >= slot->bytes_max;
}

/* Whether the thread has a slot for the stream that the block's owner recorded,
 * and no capture is under way. The caller has claimed the block and with it the
 * reference: without the claim the timeline might be freed if the block was
 * freed twice. */
static inline __attribute__((always_inline)) bool
wm_pending_has_stream(wm_window *window, const wm_block *block,
                      wm_pending_stream **slot)
{
    const wm_timeline *own =
        atomic_load_explicit(&block->owner_stream, memory_order_relaxed);

    if (wm_unlikely(own == NULL)) {
        /* the block was allocated again since the caller looked */
        return false;
    }
    *slot = wm_pending_stream_with(window, own);
    return wm_likely(wm_pending_timeline(*slot) == own) &&
           wm_likely(!wm_timelines_capture((*slot)->timelines));
}

/* Claims the block and appends it to its slot; the window is entered or locked.
 * The block is LIVE and of the window, by its state, and only the
 * stream that its owner recorded uses it. If another thread frees it as well,
 * by mistake, one of the two claims it. */
static inline __attribute__((always_inline)) bool
wm_pending_add(wm_window *window, wm_magazine_set *set, wm_block *block,
               wm_pending_stream **slot, bool *full)
{
    wm_state live = set->live;
    wm_state state = live;

    /* Relaxed: a thread that takes the block from the timeline has the
     * timeline's lock. */
    if (wm_unlikely(!atomic_compare_exchange_strong_explicit(
            &block->state, &state, WM_BLOCK_BATCHED, memory_order_relaxed,
            memory_order_relaxed))) {
        return false;
    }
    if (wm_unlikely(!wm_pending_has_stream(window, block, slot))) {
        /* Release: look-ups see the fields of the LIVE block. */
        atomic_store_explicit(&block->state, live, memory_order_release);
        return false;
    }
    *full = wm_pending_append(set, *slot, block);
    return true;
}

/* After a block was appended, with the window left or unlocked: the slot stays
 * the thread's. mine: as for wm_pending_close(). */
static inline __attribute__((always_inline)) void
wm_pending_added(wm_window *window, wm_pending_stream *slot, bool full,
                 bool mine)
{
    wm_waker *waker = slot->waker;

    if (wm_unlikely(full)) {
        wm_pending_close(window, slot, mine);
    }
    /* For the compiler: the count is stored before this; wm_pending_blocks()
     * relies on the order. */
    atomic_signal_fence(memory_order_seq_cst);
    wm_waker_note_pending(waker);
}

/* A whole hit. False: the slow path. */
static inline __attribute__((always_inline)) bool
wm_pending_free(wm_window *window, wm_block *block)
{
    wm_pending_stream *slot = NULL;
    wm_magazine_set *set;
    bool done, full = false;

    if (wm_unlikely(!wm_biased_enter(&window->biased))) {
        return false;
    }
    /* The set exists: the state names it, and the window was entered. */
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    done = wm_pending_add(window, set, block, &slot, &full);
    wm_biased_leave(&window->biased);
    if (wm_likely(done)) {
        wm_pending_added(window, slot, full, true);
    }
    return done;
}

#endif
