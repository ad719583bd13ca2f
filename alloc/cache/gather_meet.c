/* gather_meet.c: a thread gets a slot for a stream that it frees on. See
 * gather.h. */
#include "alloc/cache/gather_int.h"

#include "alloc/arena/group.h"
#include "runtime/base/meta.h"

/* The slot of that number, made if it is not; null: no memory for it. */
static wm_gather_slot *make_slot(wm_magazines *set, const wm_arena_group *group,
                                 unsigned index)
{
    wm_gather *gather = wm_magazines_gather(set);
    wm_gather_slot *slot = wm_gather_slot_at(gather, index);

    if (gather == NULL) {
        gather = wm_meta_alloc(sizeof *gather);
        if (gather == NULL) {
            return NULL;
        }
        /* Release: others who peek at it find it zeroed. */
        atomic_store_explicit(&set->gather, gather, memory_order_release);
    }
    if (slot == NULL) {
        slot = wm_meta_alloc(sizeof *slot);
        if (slot == NULL) {
            return NULL;
        }
        slot->timelines = group->timelines;
        slot->waker = group->waker;
        atomic_store_explicit(&gather->slot[index], slot, memory_order_release);
    }
    return slot;
}

static void fill_slot(wm_magazines *set, const wm_arena_group *group,
                      warm_stream stream, bool yields)
{
    unsigned index = wm_gather_index(stream);
    wm_gather_slot *slot = wm_gather_slot_in(set, index);
    wm_timeline *t = slot != NULL ? wm_gather_timeline(slot) : NULL;

    if (t == NULL || slot->stream != stream || wm_timeline_is_retired(t)) {
        if (t != NULL && yields) {
            return;
        }
        t = wm_timeline_get_adopted(group->timelines, stream);
        slot = t != NULL ? make_slot(set, group, index) : slot;
        if (slot != NULL) {
            wm_gather_empty(set, slot);
        }
        if (t != NULL && slot != NULL) {
            wm_gather_begin_slot(set, slot, t);
        } else if (t != NULL) {
            wm_timeline_drop(group->timelines, t);
        }
    }
    if (t != NULL && slot != NULL && slot->references == 1) {
        wm_timeline_hold_many(t, WM_GATHER_STOCK);
        slot->references += WM_GATHER_STOCK;
    }
}

void wm_gather_meet(wm_arena_group *group, warm_stream stream, bool yields)
{
    wm_window *window;
    wm_magazines *set;

    if (stream == NULL) {
        return; /* a default stream, and no slot's */
    }
    set = wm_magazines_lock_mine(group, &window);
    if (set != NULL) {
        fill_slot(set, group, stream, yields);
        wm_section_unlock(&window->section);
    }
}
