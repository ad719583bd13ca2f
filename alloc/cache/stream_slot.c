/* stream_slot.c: the slots of a thread's streams: look up, begin, end.
 *
 * The caller has locked the calling thread's window; takes lock arena. Calls no
 * driver. */
#include "alloc/cache/cache_int.h"

wm_stream_slot *wm_stream_slot_of(wm_window *window, int device,
                                  warm_stream stream)
{
    for (unsigned i = 0; i < WM_STREAM_SLOTS; i++) {
        wm_stream_slot *slot = &window->slot[i];

        if (slot->stream == stream && slot->device == device) {
            window->slot_last = slot;
            return slot;
        }
    }
    return NULL;
}

/* The sets of a window share the thread's room in the space. */
static void share_room(const wm_window *window, const wm_arena_group *group)
{
    unsigned count = 0, at = 0;
    wm_magazine_set *set;

    while (wm_cache_next_set(window, group, &at) != NULL) {
        count++;
    }
    for (at = 0; (set = wm_cache_next_set(window, group, &at)) != NULL;) {
        set->sharers = count;
    }
}

static void end_slot(wm_window *window, wm_stream_slot *slot)
{
    wm_magazine_set *set = wm_stream_slot_set(slot);

    if (set != NULL) {
        const wm_arena_group *group = set->group;
        wm_arena *arena = set->arena;
        wm_lane *lane = set->lane;

        wm_magazine_set_retire(set, &slot->set, &slot->live_tag);
        wm_lane_drop(arena, lane);
        wm_window_clear_slot(slot);
        window->slots_used--;
        share_room(window, group);
    }
}

void wm_stream_slots_end(wm_window *window)
{
    for (unsigned i = 0; i < WM_STREAM_SLOTS; i++) {
        end_slot(window, &window->slot[i]);
    }
}

/* A slot without a set; else one that is not trusted; else the next in turn. */
static wm_stream_slot *choose_slot(wm_window *window)
{
    wm_stream_slot *best = NULL;

    for (unsigned i = 0; i < WM_STREAM_SLOTS; i++) {
        wm_stream_slot *slot = &window->slot[i];

        if (wm_stream_slot_set(slot) == NULL) {
            return slot;
        }
        if (best == NULL && !wm_stream_slot_is_trusted(window->owner, slot)) {
            best = slot;
        }
    }
    return best != NULL ? best
                        : &window->slot[window->slot_next++ % WM_STREAM_SLOTS];
}

void wm_stream_slot_make_room(wm_window *window)
{
    wm_biased_acquire(&window->biased);
    end_slot(window, choose_slot(window));
    wm_biased_release(&window->biased);
}

void wm_stream_slot_begin(wm_arena_group *group, const wm_request *request,
                          wm_window *window)
{
    wm_stream_slot *slot = choose_slot(window);
    wm_magazine_set *set = wm_magazine_set_create(
        group, request->arena, (unsigned)(slot - window->slot),
        &slot->live_tag);

    if (set == NULL) {
        return;
    }
    set->lane = request->lane;
    wm_lane_hold(set->lane);
    slot->stream = request->stream;
    slot->device = (int)group->place;
    slot->epoch = request->epoch;
    window->slot_last = slot;
    window->slots_used++;
    /* Release: a thread that reads it under lock windows sees an initialised
     * set. */
    atomic_store_explicit(&slot->set, set, memory_order_release);
    share_room(window, group);
}

wm_magazine_set *wm_stream_slot_find(const wm_arena_group *group,
                                     const wm_request *request,
                                     wm_window *window)
{
    wm_stream_slot *slot =
        wm_stream_slot_of(window, (int)group->place, request->stream);

    if (slot == NULL) {
        return NULL;
    }
    if (wm_stream_slot_set(slot)->lane != request->lane) {
        end_slot(window, slot);
        return NULL;
    }
    slot->epoch = request->epoch;
    return wm_stream_slot_set(slot);
}

bool wm_stream_slot_is_known(wm_arena_group *group, warm_stream stream,
                             wm_request *request)
{
    wm_window *window = wm_window_mine();
    const wm_magazine_set *set = NULL;
    const wm_stream_slot *slot;
    unsigned at = 0;
    bool known = false;

    if (window->owner == group->runtime && wm_biased_enter(&window->biased)) {
        slot = wm_stream_slot_of(window, (int)group->place, stream);
        set = slot != NULL ? wm_stream_slot_set(slot)
                           : wm_cache_next_set(window, group, &at);
        known = slot != NULL && wm_stream_slot_is_trusted(window->owner, slot);
        if (known) {
            request->lane = set->lane;
            wm_lane_hold(request->lane);
            request->stream = stream;
            request->epoch = slot->epoch;
        }
        request->arena = set != NULL ? set->arena : NULL;
        wm_biased_leave(&window->biased);
    }
    if (set == NULL) {
        request->arena = wm_cache_first_arena(group);
    }
    return known;
}
