/* pending_int.h: shared by the pending*.c files only. The caller has the
 * section of the set's window. */
#ifndef WM_PENDING_INT_H
#define WM_PENDING_INT_H

#include "alloc/cache/pending_hit.h"
#include "alloc/cache/magazine_int.h"

/* References to its timeline that a slot takes at once. */
enum { WM_PENDING_STOCK = 256 };

/* The slot with that index, or null. */
static inline wm_pending_stream *
wm_pending_stream_in(const wm_magazine_set *set, unsigned index)
{
    return wm_pending_stream_at(wm_magazine_set_pending(set), index);
}

static inline void wm_pending_clear_batch(wm_pending_batch *batch)
{
    batch->count = batch->bytes = batch->counted = batch->counted_bytes = 0;
    batch->event = NULL;
}

/* Flushes a slot to its timeline: closed batches into the queue, the open batch
 * into the timeline's open one. Returns whether that is full. one: this slot is
 * one of many flushed together. */
bool wm_pending_flush(wm_magazine_set *set, wm_pending_stream *slot, bool one);
/* Flushes the slot and frees it for another stream. If the owner is in a driver
 * call, a flush or detach is left to it as a request. */
void wm_pending_detach(wm_magazine_set *set, wm_pending_stream *slot);

/* Recomputes what other threads read, after batches left the slot. count,
 * bytes: of the blocks that completed uncounted. */
void wm_pending_recount(wm_magazine_set *set, wm_pending_stream *slot,
                        size_t count, size_t bytes);
/* Puts the references of completed uses back into the stock. */
void wm_pending_restock(wm_pending_stream *slot, size_t count);

/* Assigns an unused slot to a timeline, whose reference the slot takes over. */
void wm_pending_begin_stream(wm_magazine_set *set, wm_pending_stream *slot,
                             wm_timeline *t);

#endif
