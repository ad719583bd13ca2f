/* snapshot.c: copies the state of an arena group (snapshot.h). */
#include "alloc/snapshot/snapshot.h"

#include "alloc/arena/arena_int.h"
#include "alloc/block/page_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <string.h>

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

bool wm_piece_is_active(const wm_piece *piece)
{
    return piece->state == WM_BLOCK_LIVE || piece->state == WM_BLOCK_PENDING ||
           piece->state == WM_BLOCK_CAPTURED || piece->state == WM_BLOCK_LOST;
}

/* Maps states that only the engine distinguishes to those that readers know. */
static enum wm_block_state shown(enum wm_block_state state)
{
    return state == WM_BLOCK_FREEING    ? WM_BLOCK_LIVE
           : state == WM_BLOCK_GATHERED ? WM_BLOCK_PENDING
           : state == WM_BLOCK_CLAIMED  ? WM_BLOCK_IDLE
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
                      .depot = wm_state_of_set(WM_BLOCK_CACHED, 0) == state};

    if (piece.state == WM_BLOCK_IDLE) {
        piece.lane_id = lane->id;
    } else if (wm_piece_is_active(&piece)) {
        piece.requested = wm_block_requested(block);
    }
    add(list, &piece, wm_piece_is_active(&piece) ? block->origin : NULL);
}

/* Adds the blocks of a run; true: the run is idle. */
static bool add_run(struct list *list, wm_block *run)
{
    wm_slab *slab;

    if (wm_block_state(run) != WM_BLOCK_SLAB) {
        add_block(list, run, run->lane);
        return wm_run_is_idle(run);
    }
    slab = wm_block_at(run->base)->slab;
    for (unsigned i = 0; i < slab->slots; i++) {
        add_block(list, &slab->slot[i], run->lane);
    }
    return false;
}

/* Adds the committed runs of an expandable segment from `run` on; returns the
 * next run without memory. */
static wm_block *add_extent(struct list *list, wm_block *run)
{
    wm_piece piece = {.base = run->base,
                      .state = WM_BLOCK_VOID,
                      .small = run->segment->small,
                      .expandable = true,
                      .made_ns = run->segment->made_ns};
    wm_block *first = run;

    while (run != NULL && wm_run_has_memory(run)) {
        piece.bytes += run->bytes;
        run = run->after;
    }
    add(list, &piece, NULL);
    while (first != run) {
        (void)add_run(list, first);
        first = first->after;
    }
    return run;
}

static void add_extents(struct list *list, wm_segment *segment)
{
    wm_block *run = wm_segment_first_run(segment);

    while (run != NULL) {
        run = wm_run_has_memory(run) ? add_extent(list, run) : run->after;
    }
}

static void add_segment(struct list *list, wm_segment *segment)
{
    const wm_piece piece = {.base = segment->base,
                            .bytes = segment->bytes,
                            .state = WM_BLOCK_VOID,
                            .small = segment->small,
                            .made_ns = segment->made_ns};
    size_t place = list->to->count;
    bool idle = true;

    add(list, &piece, NULL);
    for (wm_block *run = wm_segment_first_run(segment); run != NULL;
         run = run->after) {
        idle = add_run(list, run) && idle;
    }
    if (idle && place < list->room) {
        list->to->piece[place].idle_since_ns = segment->idle_since_ns;
    }
}

/* Holds the locks of all siblings, since regions move between them. */
static void fill_locked(const wm_arena *arena, struct list *list)
{
    const wm_arena *a = arena;

    list->to->count = 0;
    do {
        for (wm_segment *s = a->segments; s != NULL; s = s->next) {
            if (s->unit > 0) {
                add_extents(list, s);
            } else {
                add_segment(list, s);
            }
        }
        a = a->next_sibling;
    } while (a != NULL);
    list->to->now_ns = wm_clock_ns();
    if (arena->history != NULL) {
        list->to->next = wm_history_next(arena->history);
    }
}

static void fill(wm_arena *arena, struct list *list)
{
    wm_arena_lock_all(arena);
    fill_locked(arena->siblings, list);
    wm_arena_unlock_all(arena);
}

static bool make_room(struct list *list)
{
    wm_snapshot *to = list->to;

    /* An eighth more, for pieces that are added meanwhile. */
    list->room = to->count + to->count / 8 + 8;
    to->piece = wm_meta_alloc(list->room * sizeof *to->piece);
    if (to->piece != NULL && to->origin_bytes > 0) {
        to->origins = wm_meta_alloc(list->room * to->origin_bytes);
    }
    return to->piece != NULL && (to->origin_bytes == 0 || to->origins != NULL);
}

warm_status wm_snapshot_take(wm_arena *arena, wm_snapshot *snapshot)
{
    struct list list = {.to = snapshot};

    *snapshot =
        (wm_snapshot){.origin_bytes = wm_history_origin_bytes(arena->history)};
    for (;;) {
        fill(arena->siblings, &list);
        if (snapshot->count <= list.room) {
            return WARM_OK;
        }
        wm_snapshot_end(snapshot);
        if (!make_room(&list)) {
            wm_snapshot_end(snapshot);
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot");
        }
    }
}

void wm_snapshot_end(wm_snapshot *snapshot)
{
    wm_meta_free(snapshot->piece);
    wm_meta_free(snapshot->origins);
    snapshot->piece = NULL;
    snapshot->origins = NULL;
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
