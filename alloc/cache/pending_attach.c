/* pending_attach.c: gives a thread a slot for a stream that it frees on.
 *
 * Takes the biased lock of the calling thread's window and under it the locks
 * of the timelines and of the arena. */
#include "alloc/cache/cache_int.h"

#include "runtime/base/meta.h"

/* The slot with that index, made if it is not. Null: no memory for it. */
static wm_pending_stream *make_slot(wm_magazine_set *set,
                                    const wm_arena_group *group, unsigned index)
{
    wm_pending *pending = wm_magazine_set_pending(set);
    wm_pending_stream *slot = wm_pending_stream_at(pending, index);

    if (pending == NULL) {
        pending = wm_meta_alloc(sizeof *pending);
        if (pending == NULL) {
            return NULL;
        }
        /* Release: another thread that reads it finds it zeroed. */
        atomic_store_explicit(&set->pending, pending, memory_order_release);
    }
    if (slot == NULL) {
        slot = wm_meta_alloc(sizeof *slot);
        if (slot == NULL) {
            return NULL;
        }
        slot->timelines = group->timelines;
        slot->waker = group->waker;
        atomic_store_explicit(&pending->slot[index], slot,
                              memory_order_release);
    }
    return slot;
}

static void fill_slot(wm_magazine_set *set, const wm_arena_group *group,
                      warm_stream stream, bool yields)
{
    unsigned index = wm_pending_index(stream);
    wm_pending_stream *slot = wm_pending_stream_in(set, index);
    wm_timeline *t = slot != NULL ? wm_pending_timeline(slot) : NULL;

    if (t == NULL || slot->stream != stream || wm_timeline_is_retired(t)) {
        if (t != NULL && yields) {
            return;
        }
        t = wm_timeline_get_adopted(group->timelines, stream);
        slot = t != NULL ? make_slot(set, group, index) : slot;
        if (slot != NULL) {
            wm_pending_detach(set, slot);
        }
        if (t != NULL && slot != NULL) {
            wm_pending_begin_stream(set, slot, t);
        } else if (t != NULL) {
            wm_timeline_drop(group->timelines, t);
        }
    }
    if (t != NULL && slot != NULL && slot->references == 1) {
        wm_timeline_hold_many(t, WM_PENDING_STOCK);
        slot->references += WM_PENDING_STOCK;
    }
}

void wm_pending_attach(wm_arena_group *group, warm_stream stream, bool yields)
{
    wm_window *window;
    wm_magazine_set *set;

    if (stream == NULL) {
        return; /* a default stream has no slot */
    }
    set = wm_cache_lock_mine(group, &window);
    if (set != NULL) {
        fill_slot(set, group, stream, yields);
        wm_biased_release(&window->biased);
    }
}
