/* stream_slot.h: magazines for memory that is idle in the order of a stream
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
 * streams have sets, and none while a capture is announced; and the legacy one,
 * which cannot capture: what it is given is never a graph's by that.
 *
 * There are WM_STREAM_SLOTS for a thread. The number of a set says which it is
 * in, so that a free finds it with one compare.
 *
 * Sets are filled from one of the device's arenas: the first, or with option
 * arenas that which fewest use; until one meets other threads there often, and
 * goes to a sibling. */
#ifndef WM_STREAM_SLOT_H
#define WM_STREAM_SLOT_H

#include "alloc/cache/magazine_hit.h"

/* ---- slots: the caller is in the section -------------------------------- */

/* The slot of a stream, which is the one used last from now on; or null. */
wm_stream_slot *wm_stream_slot_of(wm_window *window, int device,
                                  warm_stream stream);

static inline wm_magazine_set *wm_stream_slot_set(const wm_stream_slot *slot)
{
    return atomic_load_explicit(&slot->set, memory_order_relaxed);
}

static inline bool wm_stream_slot_is_trusted(const warm_runtime *runtime,
                                             const wm_stream_slot *slot)
{
    /* Relaxed: who uses a new stream that got an old one's address got it from
     * a thread that retired the old one before, so that this thread sees an
     * epoch at least that late; who allocates or frees in a capture learnt of
     * it from who announced it. It is never 0. */
    return wm_likely(slot->epoch == atomic_load_explicit(&runtime->stream_epoch,
                                                         memory_order_relaxed));
}

/* ---- whole hits --------------------------------------------------------- */

/* Enters the section of a window, which is of the runtime, if the slot used
 * last may serve the stream. routing: see wm_private_routing(). */
static inline __attribute__((always_inline)) bool
wm_stream_slot_enter(wm_window *window, const warm_runtime *runtime,
                     unsigned routing, int device, warm_stream stream)
{
    const wm_stream_slot *slot;

    if (wm_unlikely(!wm_section_enter_unless(&window->section, routing))) {
        return false;
    }
    slot = window->slot_last;
    if (wm_likely(slot->stream == stream) &&
        wm_likely(slot->device == device) &&
        wm_stream_slot_is_trusted(runtime, slot)) {
        return true;
    }
    wm_section_leave(&window->section);
    return false;
}

/* After that, and leaves. False: a miss. */
static inline __attribute__((always_inline)) bool
wm_stream_slot_alloc(wm_window *window, size_t bytes, void **pointer)
{
    const wm_entry *entry =
        wm_magazine_pop(wm_stream_slot_set(window->slot_last), bytes, true);

    if (wm_likely(entry != NULL)) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* The same for who has missed: of one of the next classes. */
static inline bool wm_stream_slot_alloc_larger(wm_window *window, size_t bytes,
                                               void **pointer)
{
    const wm_entry *entry = wm_magazine_pop_larger(
        wm_stream_slot_set(window->slot_last), bytes, true);

    if (entry != NULL) {
        *pointer = entry->base;
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

_Static_assert(sizeof(wm_stream_slot) == WM_SLOT_MASK / (WM_STREAM_SLOTS - 1),
               "a state has where in the window a slot begins");

/* The slot of whose set a block is in the state, if it is one's. */
static inline wm_stream_slot *wm_stream_slot_at(wm_window *window,
                                                wm_state state)
{
    return (wm_stream_slot *)(void *)((char *)window->slot +
                                      (state & WM_SLOT_MASK));
}

/* Whether a block is live and of a set of the window in the state, and so of
 * the slot. */
static inline bool wm_stream_slot_is_of(wm_window *window, wm_state state)
{
    return wm_likely(state == atomic_load_explicit(
                                  &wm_stream_slot_at(window, state)->live_tag,
                                  memory_order_relaxed));
}

/* The same, it begins there, has no uses, and may be kept. */
static inline __attribute__((always_inline)) bool
wm_stream_slot_may_free(wm_window *window, wm_block *block, wm_state state,
                        const char *base)
{
    return wm_stream_slot_is_of(window, state) &&
           wm_likely(wm_block_starts_at(block, base)) &&
           wm_magazine_may_keep(block);
}

/* Then, in the section. False: there is no room, or its stream is to be looked
 * up. */
static inline __attribute__((always_inline)) bool
wm_stream_slot_push(wm_window *window, wm_state state, wm_block *block,
                    char *base)
{
    const wm_stream_slot *slot = wm_stream_slot_at(window, state);

    /* There is a set: the state named it, and the section is open. */
    return wm_stream_slot_is_trusted(window->owner, slot) &&
           wm_magazine_push(wm_stream_slot_set(slot), block, base, true);
}

/* What a hit could not do, if the window is still open to it. */
bool wm_stream_slot_free_slow(wm_window *window, wm_block *block);

/* ---- slow paths --------------------------------------------------------- */

/* Whether the calling thread's window knows the lane of a stream; then it is in
 * the request. And in any case the arena is that is to be asked: where the
 * thread has memory of the stream, else of others of the device. */
bool wm_stream_slot_is_known(struct wm_arena_group *group, warm_stream stream,
                             struct wm_request *request);

/* The set of the calling thread for a request that is in the order of a stream,
 * made if there is none, with the section locked by *mine; or null. */
wm_magazine_set *wm_stream_slot_lock(struct wm_arena_group *group,
                                     const struct wm_request *request,
                                     wm_window **mine);

/* With the section: all of a window end. */
void wm_stream_slots_end(wm_window *window);

#endif
