/* snapshot_set.c: snapshots of all arenas (snapshot_set.h). Takes no lock of
 * its own. */
#include "alloc/snapshot/snapshot_set.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/private_pool/private_pool.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

static size_t count_arenas(wm_space *space)
{
    size_t count = 0;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        count++;
    }
    return count;
}

static size_t count_all(const warm_runtime *runtime)
{
    size_t count = count_arenas(&runtime->pinned->space) +
                   count_arenas(&runtime->pinned->pageable);

    for (int i = 0; i < runtime->devices; i++) {
        count += count_arenas(&runtime->device_spaces[i].space);
    }
    return count;
}

static warm_status add_arena(wm_snapshot_set *set, wm_arena *arena)
{
    wm_snapshot *snapshot = &set->all[set->count];
    uint64_t place = wm_group_place(arena);
    warm_status status;

    /* One snapshot covers all siblings. */
    if (arena != arena->siblings || place < set->from || place >= set->to ||
        set->count == set->room) {
        return WARM_OK;
    }
    status = wm_snapshot_take(arena, snapshot);
    if (status == WARM_OK) {
        snapshot->place = place;
        snapshot->pool = wm_arena_pool_number(arena);
        snapshot->arena = (uintptr_t)arena;
        set->first = set->count == 0 ? snapshot->next : set->first;
        set->next = snapshot->next;
        set->now_ns = snapshot->now_ns;
        set->count++;
    }
    return status;
}

static warm_status add_space(wm_snapshot_set *set, wm_space *space)
{
    warm_status status = WARM_OK;

    for (wm_arena *a = wm_group_arenas(&space->group);
         a != NULL && status == WARM_OK; a = a->next_arena) {
        status = add_arena(set, a);
    }
    return status;
}

static warm_status add_all(wm_snapshot_set *set, const warm_runtime *runtime)
{
    warm_status status = WARM_OK;

    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        status = add_space(set, &runtime->device_spaces[i].space);
    }
    if (status == WARM_OK) {
        status = add_space(set, &runtime->pinned->space);
    }
    if (status == WARM_OK) {
        status = add_space(set, &runtime->pinned->pageable);
    }
    return status;
}

/* Whether the event precedes the snapshot of its arena. */
static bool is_before_snapshot(const wm_snapshot_set *set, uint64_t number,
                               const wm_history_event *event)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->all[i].arena == event->arena) {
            return number < set->all[i].next;
        }
    }
    return event->place >= set->from && event->place < set->to &&
           number < set->first;
}

/* Reads from the newest event on, since a concurrent writer overwrites the
 * oldest first. A gap between two readable events is an event that was dropped.
 */
static void read_events(wm_snapshot_set *set, wm_history *history)
{
    uint64_t oldest = wm_history_oldest(history, set->next);
    wm_history_event event;
    size_t missing_at = SIZE_MAX; /* events read before the first gap */

    for (uint64_t number = set->next; number-- > oldest;) {
        if (!wm_history_read(history, number, &event)) {
            missing_at = missing_at < set->events ? missing_at : set->events;
        } else if (is_before_snapshot(set, number, &event)) {
            char *at = set->event +
                       (set->event_room - ++set->events) * set->event_bytes;

            memcpy(at, &number, sizeof number);
            memcpy(at + sizeof number, &event,
                   set->event_bytes - sizeof number);
        }
    }
    set->whole = missing_at < set->events ? set->events - missing_at : 0;
}

static warm_status take_events(wm_snapshot_set *set, wm_history *history)
{
    if (history == NULL || set->next == 0) {
        return WARM_OK;
    }
    set->event_bytes = sizeof(uint64_t) + wm_history_event_bytes(history);
    set->event_room =
        (size_t)(set->next - wm_history_oldest(history, set->next));
    set->event = wm_meta_alloc(set->event_room * set->event_bytes);
    if (set->event == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot's events");
    }
    read_events(set, history);
    return WARM_OK;
}

const wm_history_event *wm_snapshot_set_event(const wm_snapshot_set *set,
                                              size_t i, uint64_t *number)
{
    const char *at =
        set->event + (set->event_room - set->events + i) * set->event_bytes;

    memcpy(number, at, sizeof *number);
    return (const wm_history_event *)(const void *)(at + sizeof *number);
}

warm_status wm_snapshot_set_take(warm_runtime *runtime, uint64_t from,
                                 uint64_t to, wm_snapshot_set *set)
{
    warm_status status;

    *set = (wm_snapshot_set){.from = from, .to = to};
    /* A private pool created from here on is left out. */
    set->room = count_all(runtime);
    set->all = wm_meta_alloc(set->room * sizeof *set->all);
    if (set->all == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot");
    }
    status = add_all(set, runtime);
    if (status == WARM_OK) {
        status = take_events(set, runtime->history);
    }
    if (status != WARM_OK) {
        wm_snapshot_set_end(set);
    }
    return status;
}

void wm_snapshot_set_end(wm_snapshot_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        wm_snapshot_end(&set->all[i]);
    }
    wm_meta_free(set->all);
    wm_meta_free(set->event);
}
