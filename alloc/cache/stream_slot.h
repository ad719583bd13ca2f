/* stream_slot.h: magazines for memory that is idle in stream order (rows C1,
 * C4): one set for each device and stream that the thread uses.
 *
 *   alloc hit   window ─► slot: this device and stream, epoch? ─► set ─► entry
 *   free hit    block ─► state: number ─► slot of the window, epoch? ─► entry
 *
 * A block that a thread frees on a stream is at once free for the same stream:
 * the stream runs the new work after the old. Blocks of such a set belong to a
 * lane of the arena (lane.h). Before another stream can use them, they are
 * flushed to the lane and wait there for a fence, as any block of the lane.
 *
 * A slot is trusted while the runtime's stream_epoch is what it was before the
 * stream was looked up. After a change the thread looks the stream up again: if
 * the lane is another one, the thread flushes the set. If the stream retired in
 * between, no allocation uses the set any more: it is flushed when the slot or
 * the memory is needed. Only adopted streams have sets, and none while a
 * capture is announced; the legacy stream has one also then, as it cannot be
 * captured.
 *
 * A thread has WM_STREAM_SLOTS slots. The number of a set names its slot, so
 * that a free finds the slot by one compare. Memory of the thread's other
 * streams is allocated from the arena and freed to it (magazine_set.c).
 *
 * A set refills from one of the device's arenas: the first one, or with
 * test:arenas=N the one that fewest sets use. It moves to a sibling arena if it
 * often meets a held lock there. */
#ifndef WM_STREAM_SLOT_H
#define WM_STREAM_SLOT_H

#include "alloc/cache/magazine_hit.h"

/* ---- slots: in a hit of the window, or with its lock --------------------- */

/* The slot of a stream, which becomes the window's last one; or null. */
wm_stream_slot *wm_stream_slot_of(wm_window *window, int device,
                                  warm_stream stream);

static inline wm_magazine_set *wm_stream_slot_set(const wm_stream_slot *slot)
{
    return atomic_load_explicit(&slot->set, memory_order_relaxed);
}

static inline bool wm_stream_slot_is_trusted(const warm_runtime *runtime,
                                             const wm_stream_slot *slot)
{
    /* Relaxed: a new stream may get the address of an old one. A thread that
     * uses the new stream synchronized with the thread that retired the old
     * one, so it sees the epoch of that retirement. A thread that allocates or
     * frees in a capture synchronized with the thread that announced the
     * capture. The epoch is never 0. */
    return wm_likely(slot->epoch == atomic_load_explicit(&runtime->stream_epoch,
                                                         memory_order_relaxed));
}

/* ---- whole hits ---------------------------------------------------------- */

/* Enters a window of the runtime, if the slot used last may serve the stream.
 * routing: of wm_private_routing(). */
static inline __attribute__((always_inline)) bool
wm_stream_slot_enter(wm_window *window, const warm_runtime *runtime,
                     unsigned routing, int device, warm_stream stream)
{
    const wm_stream_slot *slot;

    if (wm_unlikely(!wm_biased_enter_unless(&window->biased, routing))) {
        return false;
    }
    slot = window->slot_last;
    if (wm_likely(slot->stream == stream) &&
        wm_likely(slot->device == device) &&
        wm_stream_slot_is_trusted(runtime, slot)) {
        return true;
    }
    wm_biased_leave(&window->biased);
    return false;
}

/* After wm_stream_slot_enter(): allocates, and leaves the window. False: a
 * miss. */
static inline __attribute__((always_inline)) bool
wm_stream_slot_alloc(wm_window *window, size_t bytes, void **pointer)
{
    const wm_entry *entry =
        wm_magazine_pop(wm_stream_slot_set(window->slot_last), bytes);

    if (wm_likely(entry != NULL)) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_biased_leave(&window->biased);
    return entry != NULL;
}

/* After a miss: a hit in one of the next classes. */
static inline bool wm_stream_slot_alloc_larger(wm_window *window, size_t bytes,
                                               void **pointer)
{
    const wm_entry *entry =
        wm_magazine_pop_any(wm_stream_slot_set(window->slot_last), bytes, true);

    if (entry != NULL) {
        *pointer = entry->base;
    }
    wm_biased_leave(&window->biased);
    return entry != NULL;
}

_Static_assert(sizeof(wm_stream_slot) == WM_SLOT_MASK / (WM_STREAM_SLOTS - 1),
               "a state has where in the window a slot begins");

/* The slot that the state of a block names, if it names one. */
static inline wm_stream_slot *wm_stream_slot_at(wm_window *window,
                                                wm_state state)
{
    return (wm_stream_slot *)(void *)((char *)window->slot +
                                      (state & WM_SLOT_MASK));
}

/* Whether the state is that of a LIVE block of the window's sets, and so of
 * that slot. */
static inline bool wm_stream_slot_is_of(wm_window *window, wm_state state)
{
    return wm_likely(state == atomic_load_explicit(
                                  &wm_stream_slot_at(window, state)->live_tag,
                                  memory_order_relaxed));
}

/* True if state is that of a LIVE block of the window's sets, the block starts
 * at base, and no stream or capture uses it. */
static inline __attribute__((always_inline)) bool
wm_stream_slot_may_free(wm_window *window, wm_block *block, wm_state state,
                        const char *base)
{
    return wm_stream_slot_is_of(window, state) &&
           wm_likely(wm_block_starts_at(block, base)) &&
           wm_magazine_may_keep(block);
}

/* Caches a block that wm_stream_slot_may_free() accepted; the window is
 * entered. False: no room, or the stream has to be looked up again. */
static inline __attribute__((always_inline)) bool
wm_stream_slot_push(wm_window *window, wm_state state, wm_block *block,
                    char *base)
{
    const wm_stream_slot *slot = wm_stream_slot_at(window, state);

    /* The set exists: the state names it, and the window was entered. */
    return wm_stream_slot_is_trusted(window->owner, slot) &&
           wm_magazine_push(wm_stream_slot_set(slot), block, base);
}

/* Caches a block after the hit failed, unless the window is closed for good. */
bool wm_stream_slot_free_slow(wm_window *window, wm_block *block);

/* ---- slow paths ---------------------------------------------------------- */

/* True if the calling thread's window has a trusted slot for the stream: then
 * sets lane (held: the caller drops it), stream and epoch of the request.
 * Always sets request->arena: the arena of the thread's set for the stream,
 * else of one of its sets for other streams of the device, else the first arena
 * or, with test:arenas=N, one of its siblings. */
bool wm_stream_slot_is_known(struct wm_arena_group *group, warm_stream stream,
                             struct wm_request *request);

#endif
