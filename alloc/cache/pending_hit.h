/* pending_hit.h: records and frees of a thread's own blocks on streams that it
 * has slots for, whole hits. See pending.h. */
#ifndef WM_PENDING_HIT_H
#define WM_PENDING_HIT_H

#include "alloc/cache/magazine_hit.h"
#include "alloc/stream/timeline_int.h"

static inline wm_timeline *wm_pending_timeline(const wm_pending_stream *slot)
{
    return atomic_load_explicit(&slot->timeline, memory_order_relaxed);
}

/* The window, which has a set, looks at the slot where a stream's would be from
 * now on, if that is made. */
static inline __attribute__((always_inline)) wm_pending_stream *
wm_pending_look(wm_window *window, warm_stream stream)
{
    const wm_magazine_set *set =
        atomic_load_explicit(&window->magazines, memory_order_relaxed);
    wm_pending_stream *slot = wm_pending_stream_at(wm_magazine_set_pending(set),
                                                   wm_pending_index(stream));

    if (slot != NULL) {
        window->pending_last = slot;
    }
    return window->pending_last;
}

/* The slot for a stream, if there is one, and for a timeline: most often that
 * which was looked for last. Then what a hit has to know of its stream does not
 * hang on the block. Else some other slot, which the caller compares. */
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
 * No read-modify-write: other threads record elsewhere (block.h). False: the
 * slow path. */
static inline __attribute__((always_inline)) bool
wm_pending_record(wm_window *window, wm_block *block, warm_stream stream)
{
    wm_pending_stream *slot;
    wm_timeline *t;
    bool done = false;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    slot = wm_pending_stream_for(window, stream);
    t = wm_pending_timeline(slot);
    if (wm_likely(slot->stream == stream) && wm_likely(stream != NULL) &&
        wm_likely(!wm_timelines_capture(slot->timelines)) &&
        wm_likely(!wm_timeline_is_retired(t))) {
        wm_timeline *own =
            atomic_load_explicit(&block->own, memory_order_relaxed);

        /* One reference is the slot's own. */
        if (wm_likely(own == NULL) && wm_likely(slot->references > 1)) {
            slot->references--;
            /* Release: a thread that records as well sees what made it. */
            atomic_store_explicit(&block->own, t, memory_order_release);
            own = t;
        }
        done = own == t;
    }
    wm_section_leave(&window->section);
    return done;
}

/* The first of a batch: reads the clock. */
void wm_pending_begin(wm_pending_stream *slot);

/* The block is nobody else's any more. True: the batch is full. */
static inline __attribute__((always_inline)) bool
wm_pending_append(wm_magazine_set *set, wm_pending_stream *slot,
                  wm_block *block)
{
    wm_pending_batch *open = &slot->open;
    size_t count = open->count;
    size_t bytes = open->bytes + block->bytes;

    wm_assert(count < WM_PENDING_BLOCKS);
    /* Relaxed: who takes it from the slot has the section. */
    atomic_store_explicit(&block->own, NULL, memory_order_relaxed);
    wm_magazine_count_free(set, block, false);
    if (wm_unlikely(count == 0)) {
        wm_pending_begin(slot);
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

/* Whether the thread gathers for the stream that a block's own thread recorded,
 * and nobody captures.
 * The block is the caller's alone, with its reference: else, if it was freed
 * twice, there may be no such timeline any more. */
static inline __attribute__((always_inline)) bool
wm_pending_has_stream(wm_window *window, const wm_block *block,
                      wm_pending_stream **slot)
{
    const wm_timeline *own =
        atomic_load_explicit(&block->own, memory_order_relaxed);

    if (wm_unlikely(own == NULL)) {
        return false; /* it was handed out anew since it was looked at */
    }
    *slot = wm_pending_stream_with(window, own);
    return wm_likely(wm_pending_timeline(*slot) == own) &&
           wm_likely(!wm_timelines_capture((*slot)->timelines));
}

/* What frees in a slot come to; with the section, or within. The block is LIVE
 * and of the window, by its state, and only one stream uses it, its own.
 * Another thread may free it as well, by mistake: one of them gets it. */
static inline __attribute__((always_inline)) bool
wm_pending_add(wm_window *window, wm_magazine_set *set, wm_block *block,
               wm_pending_stream **slot, bool *full)
{
    wm_state live = set->live;
    wm_state state = live;

    /* Relaxed: who takes it from the timeline has its lock. */
    if (wm_unlikely(!atomic_compare_exchange_strong_explicit(
            &block->state, &state, WM_BLOCK_GATHERED, memory_order_relaxed,
            memory_order_relaxed))) {
        return false;
    }
    if (wm_unlikely(!wm_pending_has_stream(window, block, slot))) {
        /* Release: look-ups see what made it LIVE. */
        atomic_store_explicit(&block->state, live, memory_order_release);
        return false;
    }
    *full = wm_pending_append(set, *slot, block);
    return true;
}

/* After it, without the section: the slot is the thread's all the same. */
static inline __attribute__((always_inline)) void
wm_pending_added(wm_window *window, wm_pending_stream *slot, bool full)
{
    wm_waker *waker = slot->waker;

    if (wm_unlikely(full)) {
        wm_pending_close(window, slot, true);
    }
    /* After the count: see wm_pending_blocks(). For the compiler. */
    atomic_signal_fence(memory_order_seq_cst);
    wm_waker_note_pending(waker);
}

/* Frees such a block. False: the slow path. */
static inline __attribute__((always_inline)) bool
wm_pending_free(wm_window *window, wm_block *block)
{
    wm_pending_stream *slot = NULL;
    wm_magazine_set *set;
    bool done, full = false;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    done = wm_pending_add(window, set, block, &slot, &full);
    wm_section_leave(&window->section);
    if (wm_likely(done)) {
        wm_pending_added(window, slot, full);
    }
    return done;
}

#endif
