/* gather_hit.h: records and frees of a thread's own blocks on streams that it
 * has slots for, whole hits. See gather.h. */
#ifndef WM_GATHER_HIT_H
#define WM_GATHER_HIT_H

#include "alloc/cache/magazine_hit.h"
#include "alloc/stream/timeline_int.h"

static inline wm_timeline *wm_gather_timeline(const wm_gather_slot *slot)
{
    return atomic_load_explicit(&slot->timeline, memory_order_relaxed);
}

/* The window, which has a set, looks at the slot where a stream's would be from
 * now on, if that is made. */
static inline __attribute__((always_inline)) wm_gather_slot *
wm_gather_look(wm_window *window, warm_stream stream)
{
    const wm_magazines *set =
        atomic_load_explicit(&window->magazines, memory_order_relaxed);
    wm_gather_slot *slot =
        wm_gather_slot_at(wm_magazines_gather(set), wm_gather_index(stream));

    if (slot != NULL) {
        window->gather_last = slot;
    }
    return window->gather_last;
}

/* The slot for a stream, if there is one, and for a timeline: most often that
 * which was looked for last. Then what a hit has to know of its stream does not
 * hang on the block. Else some other slot, which the caller compares. */
static inline __attribute__((always_inline)) wm_gather_slot *
wm_gather_slot_for(wm_window *window, warm_stream stream)
{
    wm_gather_slot *last = window->gather_last;

    return wm_likely(last->stream == stream) ? last
                                             : wm_gather_look(window, stream);
}

static inline __attribute__((always_inline)) wm_gather_slot *
wm_gather_slot_with(wm_window *window, const wm_timeline *t)
{
    wm_gather_slot *last = window->gather_last;

    return wm_likely(wm_gather_timeline(last) == t)
               ? last
               : wm_gather_look(window, t->stream);
}

/* Records the stream on a block that is LIVE and of the window, by its state.
 * No read-modify-write: other threads record elsewhere (block.h). False: the
 * slow path. */
static inline __attribute__((always_inline)) bool
wm_gather_record(wm_window *window, wm_block *block, warm_stream stream)
{
    wm_gather_slot *slot;
    wm_timeline *t;
    bool done = false;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    slot = wm_gather_slot_for(window, stream);
    t = wm_gather_timeline(slot);
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
void wm_gather_begin(wm_gather_slot *slot);

/* The block is nobody else's any more. True: the batch is full. */
static inline __attribute__((always_inline)) bool
wm_gather_append(wm_magazines *set, wm_gather_slot *slot, wm_block *block)
{
    wm_gathered *open = &slot->open;
    size_t count = open->count;
    size_t bytes = open->bytes + block->bytes;

    wm_assert(count < WM_GATHER_BLOCKS);
    /* Relaxed: who takes it from the slot has the section. */
    atomic_store_explicit(&block->own, NULL, memory_order_relaxed);
    wm_magazine_count_free(set, block, false);
    if (wm_unlikely(count == 0)) {
        wm_gather_begin(slot);
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
wm_gather_has_slot(wm_window *window, const wm_block *block,
                   wm_gather_slot **slot)
{
    const wm_timeline *own =
        atomic_load_explicit(&block->own, memory_order_relaxed);

    if (wm_unlikely(own == NULL)) {
        return false; /* it was handed out anew since it was looked at */
    }
    *slot = wm_gather_slot_with(window, own);
    return wm_likely(wm_gather_timeline(*slot) == own) &&
           wm_likely(!wm_timelines_capture((*slot)->timelines));
}

/* What frees in a slot come to; with the section, or within. The block is LIVE
 * and of the window, by its state, and only one stream uses it, its own.
 * Another thread may free it as well, by mistake: one of them gets it. */
static inline __attribute__((always_inline)) bool
wm_gather_take(wm_window *window, wm_magazines *set, wm_block *block,
               wm_gather_slot **slot, bool *full)
{
    wm_state live = set->live;
    wm_state state = live;

    /* Relaxed: who takes it from the timeline has its lock. */
    if (wm_unlikely(!atomic_compare_exchange_strong_explicit(
            &block->state, &state, WM_BLOCK_GATHERED, memory_order_relaxed,
            memory_order_relaxed))) {
        return false;
    }
    if (wm_unlikely(!wm_gather_has_slot(window, block, slot))) {
        /* Release: look-ups see what made it LIVE. */
        atomic_store_explicit(&block->state, live, memory_order_release);
        return false;
    }
    *full = wm_gather_append(set, *slot, block);
    return true;
}

/* After it, without the section: the slot is the thread's all the same. */
static inline __attribute__((always_inline)) void
wm_gather_taken(wm_window *window, wm_gather_slot *slot, bool full)
{
    wm_waker *waker = slot->waker;

    if (wm_unlikely(full)) {
        wm_gather_full(window, slot, true);
    }
    /* After the count: see wm_gather_blocks(). For the compiler. */
    atomic_signal_fence(memory_order_seq_cst);
    wm_waker_note_pending(waker);
}

/* Frees such a block. False: the slow path. */
static inline __attribute__((always_inline)) bool
wm_gather_free(wm_window *window, wm_block *block)
{
    wm_gather_slot *slot = NULL;
    wm_magazines *set;
    bool done, full = false;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    done = wm_gather_take(window, set, block, &slot, &full);
    wm_section_leave(&window->section);
    if (wm_likely(done)) {
        wm_gather_taken(window, slot, full);
    }
    return done;
}

#endif
