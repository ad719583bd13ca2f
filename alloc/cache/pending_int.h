/* pending_int.h: what the files of the slots share, and nobody else. The caller
 * has the section of the set's window. */
#ifndef WM_PENDING_INT_H
#define WM_PENDING_INT_H

#include "alloc/cache/pending_hit.h"
#include "alloc/cache/magazine_int.h"

/* References of its timeline that a slot gets at once. */
enum { WM_PENDING_STOCK = 256 };

/* The slot of that number, or null. */
static inline wm_pending_stream *
wm_pending_stream_in(const wm_magazine_set *set, unsigned index)
{
    return wm_pending_stream_at(wm_magazine_set_pending(set), index);
}

static inline void wm_gathered_clear(wm_pending_batch *batch)
{
    batch->count = batch->bytes = batch->counted = batch->counted_bytes = 0;
    batch->event = NULL;
}

/* What a slot has goes to its timeline: closed batches into the queue, the open
 * one into the timeline's own; whether that is full. one: of many that come at
 * once. */
bool wm_pending_flush(wm_magazine_set *set, wm_pending_stream *slot, bool one);
/* And the slot is none. Either is put off while the owner asks the driver. */
void wm_pending_detach(wm_magazine_set *set, wm_pending_stream *slot);

/* Batches of a slot have gone: what others peek at is counted again. count,
 * bytes: of those that have passed without a word to the arena. */
void wm_pending_recount(wm_magazine_set *set, wm_pending_stream *slot,
                        size_t count, size_t bytes);
/* References that uses had which have passed. */
void wm_pending_restock(wm_pending_stream *slot, size_t count);

/* The slot, which is empty, is for a timeline from now on, whose reference it
 * has. */
void wm_pending_begin_stream(wm_magazine_set *set, wm_pending_stream *slot,
                             wm_timeline *t);

#endif
