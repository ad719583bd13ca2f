/* magazine_lane.h: magazines for memory that is idle in the order of a stream
 * (rows C1, C4): sets of a window, one for each device and stream.
 *
 *   alloc hit   window ─► slot: this device and stream, epoch? ─► set ─► entry
 *   free hit    block ─► state: number ─► slot of the window, epoch? ─► entry
 *
 * What a thread frees on a stream it hands out on that stream again at once:
 * the stream's queue puts the new work behind the old. A set knows nothing
 * else: its blocks are of the lane (lane.h), where they go when somebody else
 * is to have them, and wait for marks as any.
 *
 * A set serves only as long as its stream is the one that was looked up: while
 * the runtime's stream_epoch is what it was before. After that the thread looks
 * the stream up again, and goes on with the set if it is the same one; or gives
 * its blocks back. A stream that is retired in between leaves a set that serves
 * nobody: it is given back when the slot is wanted, or memory is. Only adopted
 * streams, and the legacy one, have sets, and none while a capture is
 * announced.
 *
 * There are WM_LANE_SLOTS for a thread. The number of a set says which it is
 * in, so that a free finds it with one compare. */
#ifndef WM_MAGAZINE_LANE_H
#define WM_MAGAZINE_LANE_H

#include "alloc/magazine.h"

/* ---- figures by small and large ----------------------------------------- */

static inline void wm_magazine_sort_take(wm_magazines *set,
                                         const wm_block *block,
                                         size_t requested)
{
    wm_tally *tally = &set->sort[block->bytes > set->small_max];

    WM_ONE_ADDRESS(tally);
    tally->blocks++;
    tally->bytes += (int64_t)block->bytes;
    tally->asked += (int64_t)requested;
    if (wm_unlikely(tally->blocks > tally->most_blocks)) {
        tally->most_blocks = tally->blocks;
    }
    if (wm_unlikely(tally->bytes > tally->most_bytes)) {
        tally->most_bytes = tally->bytes;
    }
    if (wm_unlikely(tally->asked > tally->most_asked)) {
        tally->most_asked = tally->asked;
    }
}

static inline void wm_magazine_sort_give(wm_magazines *set,
                                         const wm_block *block)
{
    wm_tally *tally = &set->sort[block->bytes > set->small_max];

    WM_ONE_ADDRESS(tally);
    tally->blocks--;
    tally->bytes -= (int64_t)block->bytes;
    tally->asked -= (int64_t)wm_block_requested(block);
}

/* ---- slots: the caller is in the section -------------------------------- */

/* The slot of a stream, which is the one used last from now on; or null. */
wm_lane_slot *wm_lane_slot_of(wm_window *window, int device,
                              warm_stream stream);

static inline wm_magazines *wm_lane_set(const wm_lane_slot *slot)
{
    return atomic_load_explicit(&slot->set, memory_order_relaxed);
}

static inline bool wm_lane_is_trusted(const wm_window *window,
                                      const wm_lane_slot *slot)
{
    /* Relaxed: who uses a new stream that got an old one's address got it from
     * a thread that retired the old one before, so that this thread sees an
     * epoch at least that late; who allocates or frees in a capture learnt of
     * it from who announced it. It is never 0. */
    return wm_likely(slot->epoch ==
                     atomic_load_explicit(&window->owner->stream_epoch,
                                          memory_order_relaxed));
}

/* ---- whole hits --------------------------------------------------------- */

/* For the stream that was allocated for last. False: a miss, or another one. */
static inline __attribute__((always_inline)) bool
wm_lane_alloc(wm_window *window, int device, warm_stream stream, size_t bytes,
              void **pointer)
{
    const wm_entry *entry = NULL;
    wm_lane_slot *slot;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    slot = &window->lane[window->lane_last];
    if (wm_likely(slot->stream == stream) &&
        wm_likely(slot->device == device) && wm_lane_is_trusted(window, slot)) {
        entry = wm_magazine_pop(wm_lane_set(slot), bytes);
    }
    if (wm_likely(entry != NULL)) {
        wm_magazine_sort_take(wm_lane_set(slot), entry->block, bytes);
        *pointer = entry->base;
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* What a hit could not do, if the window is still open to it. */
bool wm_lane_free_slow(wm_window *window, wm_block *block);

/* A block of the slot, by its state. False: its stream is to be looked up. */
static inline __attribute__((always_inline)) bool
wm_lane_push(wm_window *window, const wm_lane_slot *slot, wm_block *block,
             char *base)
{
    bool cached = false;

    if (wm_unlikely(!wm_section_enter(&window->section))) {
        return false;
    }
    /* There is a set: the state named it, and the section is open. */
    if (wm_lane_is_trusted(window, slot)) {
        wm_magazines *set = wm_lane_set(slot);

        cached = wm_magazine_push(set, block, base);
        if (wm_likely(cached)) {
            wm_magazine_sort_give(set, block);
        }
    }
    wm_section_leave(&window->section);
    return cached;
}

/* The slot of whose set a block is in the state, or null. */
static inline wm_lane_slot *wm_lane_slot_by(wm_window *window, wm_state state)
{
    wm_lane_slot *slot = &window->lane[(state >> 8) % WM_LANE_SLOTS];

    return wm_likely(state == atomic_load_explicit(&slot->live_tag,
                                                   memory_order_relaxed))
               ? slot
               : NULL;
}

/* Of a block that is in the state. False: it is not live, not of a set of the
 * window, or does not begin there; or it has uses, or must not be kept. */
static inline __attribute__((always_inline)) bool
wm_lane_free(wm_window *window, wm_block *block, wm_state state, char *base)
{
    const wm_lane_slot *slot = wm_lane_slot_by(window, state);

    /* Acquire pairs with the record of another thread. */
    if (slot == NULL || wm_unlikely(block->base != base) ||
        wm_unlikely(atomic_load_explicit(&block->uses, memory_order_acquire) !=
                    NULL) ||
        wm_unlikely(
            atomic_load_explicit(&block->captured, memory_order_relaxed))) {
        return false;
    }
    return wm_likely(wm_lane_push(window, slot, block, base)) ||
           wm_lane_free_slow(window, block);
}

/* ---- slow paths --------------------------------------------------------- */

/* Whether the calling thread's window, which is of the runtime, knows the lane
 * of a stream; then it is in the request. */
bool wm_lane_is_known(wm_window *window, int device, warm_stream stream,
                      struct wm_request *request);

/* The set of the calling thread for a request that is in the order of a stream,
 * made if there is none, with the section locked by *mine; or null: then what
 * it has of the space has settled. */
wm_magazines *wm_lane_lock(struct wm_space *space,
                           const struct wm_request *request, wm_window **mine);

/* The calling thread is about to give something to an arena of the space by
 * itself: or peaks would be missed. */
void wm_lane_settle(struct wm_space *space);

/* With the section: all of a window end. */
void wm_lane_end_all(wm_window *window);

#endif
