/* snapshot.c: copies the state of arena groups, and the events up to then
 * (snapshot.h). */
#include "alloc/snapshot/snapshot.h"

#include "alloc/arena/arena_int.h"
#include "alloc/block/page_map.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/shared.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

/* ---- an arena and its siblings ------------------------------------------- */

/* Pieces to copy: all are counted, the first `room` are stored. */
struct list {
    wm_snapshot *to;
    size_t room;
};

static void add(struct list *list, const wm_piece *piece,
                const wm_origin *origin)
{
    wm_snapshot *to = list->to;

    if (to->count < list->room) {
        to->piece[to->count] = *piece;
        if (origin != NULL && to->origins != NULL) {
            memcpy(to->origins + to->count * to->origin_bytes, origin,
                   to->origin_bytes);
        }
    }
    to->count++;
}

/* Maps internal states to the states that a snapshot shows. */
static enum wm_block_state shown(enum wm_block_state state)
{
    return state == WM_BLOCK_FREEING   ? WM_BLOCK_LIVE
           : state == WM_BLOCK_BATCHED ? WM_BLOCK_PENDING
                                       : state;
}

static void add_block(struct list *list, wm_block *block, const wm_lane *lane)
{
    /* Acquire: the requested size was written before the state LIVE. */
    wm_state state = atomic_load_explicit(&block->state, memory_order_acquire);
    wm_piece piece = {.base = block->base,
                      .bytes = block->bytes,
                      .lane_id = block->lane_id,
                      .state = shown(wm_state_kind(state)),
                      .in_transfer_cache =
                          wm_state_of_set(WM_BLOCK_CACHED, 0) == state};

    if (piece.state == WM_BLOCK_IDLE) {
        piece.lane_id = lane->id;
    } else if (wm_piece_is_active(&piece)) {
        piece.requested = wm_block_asked(block);
    }
    add(list, &piece, wm_piece_is_active(&piece) ? block->origin : NULL);
}

/* Adds the blocks of a run; true: the run is idle. */
static bool add_run(struct list *list, wm_block *run)
{
    wm_slab *slab;
    size_t used;

    if (wm_block_state(run) != WM_BLOCK_SLAB) {
        add_block(list, run, run->lane);
        return wm_run_is_idle(run);
    }
    slab = wm_slab_of_run_locked(run);
    used = slab->slots * slab->slot_bytes;
    for (unsigned i = 0; i < slab->slots; i++) {
        add_block(list, &slab->slot[i], run->lane);
    }
    if (used < run->bytes) { /* a rest that no slot has */
        add(list,
            &(wm_piece){.base = run->base + used,
                        .bytes = run->bytes - used,
                        .lane_id = run->lane->id,
                        .state = WM_BLOCK_IDLE},
            NULL);
    }
    return false;
}

/* Adds the runs of a segment. *bytes, *idle: of the runs. */
static void add_runs(struct list *list, wm_block *run, size_t *bytes,
                     bool *idle)
{
    for (; run != NULL; run = run->after) {
        *bytes += wm_run_extent(run);
        if (wm_block_state(run) != WM_BLOCK_SPANNED) {
            *idle = add_run(list, run) && *idle;
        }
    }
}

/* Segments that one block spans are shown as one. */
static void add_segment(struct list *list, const wm_segment *segment)
{
    wm_piece piece = {.base = segment->base,
                      .state = WM_BLOCK_VOID,
                      .small = segment->small,
                      .made_ns = segment->made_ns};
    size_t place = list->to->count;
    bool idle = true;

    if (wm_block_state(segment->first) == WM_BLOCK_SPANNED) {
        return; /* shown with the segment in which the block begins */
    }
    add(list, &piece, NULL);
    add_runs(list, segment->first, &piece.bytes, &idle);
    for (const wm_segment *s = segment->span_next; s != NULL;
         s = s->span_next) {
        add_runs(list, s->first, &piece.bytes, &idle);
        piece.cuts++;
    }
    piece.idle_since_ns = idle ? segment->idle_since_ns : 0;
    if (place < list->room) {
        list->to->piece[place] = piece;
    }
}

/* Holds the locks of all siblings, since regions move between them. */
static void fill(wm_arena *arena, struct list *list)
{
    wm_snapshot *to = list->to;

    to->count = 0;
    wm_arena_lock_all(arena);
    for (const wm_arena *a = arena; a != NULL; a = a->next_sibling) {
        for (wm_segment *s = a->segments; s != NULL; s = s->next) {
            add_segment(list, s);
        }
    }
    to->now_ns = wm_clock_ns();
    if (arena->history != NULL) {
        to->next_event = wm_history_next(arena->history);
    }
    wm_arena_unlock_all(arena);
}

static void free_pieces(wm_snapshot *snapshot)
{
    wm_meta_free(snapshot->piece);
    wm_meta_free(snapshot->origins);
    snapshot->piece = NULL;
    snapshot->origins = NULL;
}

static bool make_room(struct list *list)
{
    wm_snapshot *to = list->to;

    free_pieces(to);
    /* An eighth more, for pieces that are added meanwhile. */
    list->room = to->count + to->count / 8 + 8;
    to->piece = wm_meta_alloc(list->room * sizeof *to->piece);
    if (to->origin_bytes > 0) {
        to->origins = wm_meta_alloc(list->room * to->origin_bytes);
    }
    return to->piece != NULL && (to->origin_bytes == 0 || to->origins != NULL);
}

const wm_origin *wm_snapshot_origin(const wm_snapshot *snapshot, size_t piece)
{
    const wm_origin *origin;

    if (snapshot->origins == NULL) {
        return NULL;
    }
    origin = (const wm_origin *)(const void *)(snapshot->origins +
                                               piece * snapshot->origin_bytes);
    return origin->ns != 0 ? origin : NULL;
}

/* ---- all arenas ---------------------------------------------------------- */

/* arena: the first of its siblings. */
static warm_status add_arena(wm_snapshot_set *set, wm_arena *arena)
{
    wm_snapshot *made = wm_meta_alloc(sizeof *made);
    struct list list = {.to = made};

    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot");
    }
    made->place = wm_group_place(arena);
    made->arena = (uintptr_t)arena;
    made->origin_bytes = wm_history_origin_bytes(arena->history);
    *(set->last != NULL ? &set->last->next : &set->first) = made;
    set->last = made;
    fill(arena, &list);
    while (made->count > list.room) {
        if (!make_room(&list)) {
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot");
        }
        fill(arena, &list);
    }
    made->pool = wm_arena_pool_number(arena);
    return WARM_OK;
}

static warm_status add_space(wm_snapshot_set *set, wm_space *space)
{
    /* A private pool that is created from here on is left out. */
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        warm_status status = a == a->siblings ? add_arena(set, a) : WARM_OK;

        if (status != WARM_OK) {
            return status;
        }
    }
    return WARM_OK;
}

static warm_status add_all(wm_snapshot_set *set, const warm_runtime *runtime)
{
    warm_status status = WARM_OK;

    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        status = add_space(set, &runtime->device_spaces[i].space);
    }
    if (status != WARM_OK ||
        (status = add_space(set, &runtime->pinned->space)) != WARM_OK ||
        (status = add_space(set, &runtime->pinned->pageable)) != WARM_OK ||
        (status = add_space(set, &runtime->pinned->combined)) != WARM_OK ||
        (status = add_space(set, &runtime->pinned->adopted.space)) != WARM_OK) {
        return status;
    }
    for (int i = 0; i < runtime->devices * WM_SHARED_KINDS && status == WARM_OK;
         i++) {
        status = add_space(
            set,
            &runtime->shared->spaces[i / WM_SHARED_KINDS][i % WM_SHARED_KINDS]
                 .space);
    }
    return status;
}

/* ---- events -------------------------------------------------------------- */

/* Whether the event precedes the snapshot of its arena; of an arena that is not
 * in the set, whether it precedes the set. */
static bool is_before_snapshot(const wm_snapshot_set *set, uint64_t number,
                               const wm_history_event *event)
{
    for (const wm_snapshot *s = set->first; s != NULL; s = s->next) {
        if (s->arena == event->arena) {
            return number < s->next_event;
        }
    }
    return number < set->first->next_event;
}

/* Reads from the newest event on, since a concurrent writer overwrites the
 * oldest first. A gap between two readable events is an event that was dropped.
 */
static void read_events(wm_snapshot_set *set, wm_history *history,
                        uint64_t oldest)
{
    wm_history_event event;
    size_t missing_at = SIZE_MAX; /* events read before the first gap */

    for (uint64_t number = set->last->next_event; number-- > oldest;) {
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
    uint64_t oldest;

    if (history == NULL || set->last->next_event == 0) {
        return WARM_OK;
    }
    oldest = wm_history_oldest(history, set->last->next_event);
    set->event_bytes = sizeof(uint64_t) + wm_history_event_bytes(history);
    set->event_room = (size_t)(set->last->next_event - oldest);
    set->event = wm_meta_alloc(set->event_room * set->event_bytes);
    if (set->event == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot's events");
    }
    read_events(set, history, oldest);
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

/* ---- the set ------------------------------------------------------------- */

warm_status wm_snapshot_set_take(warm_runtime *runtime, wm_snapshot_set *set)
{
    warm_status status;

    *set = (wm_snapshot_set){0};
    if ((status = add_all(set, runtime)) != WARM_OK ||
        (status = take_events(set, runtime->history)) != WARM_OK) {
        wm_snapshot_set_end(set);
    }
    return status;
}

void wm_snapshot_set_end(wm_snapshot_set *set)
{
    while (set->first != NULL) {
        wm_snapshot *snapshot = set->first;

        set->first = snapshot->next;
        free_pieces(snapshot);
        wm_meta_free(snapshot);
    }
    wm_meta_free(set->event);
}
