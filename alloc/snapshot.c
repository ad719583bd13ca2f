/* snapshot.c: see snapshot.h. */
#include "alloc/snapshot.h"

#include "alloc/arena_int.h"
#include "alloc/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

/* Pieces, of which the first room are kept. */
struct list {
    wm_piece *piece;
    size_t room, count;
};

static void add(struct list *list, const wm_piece *piece)
{
    if (list->count < list->room) {
        list->piece[list->count] = *piece;
    }
    list->count++;
}

static void add_block(struct list *list, wm_block *block, const wm_lane *lane)
{
    wm_piece piece = {.base = block->base,
                      .bytes = block->bytes,
                      .state = wm_block_state(block)};

    if (piece.state == WM_BLOCK_FREEING) {
        piece.state = WM_BLOCK_LIVE; /* to the arena it still is */
    }
    if (piece.state == WM_BLOCK_IDLE) {
        piece.lane_id = lane->id;
    } else {
        piece.lane_id = block->lane_id;
        piece.requested = block->requested;
    }
    add(list, &piece);
}

static void add_run(struct list *list, wm_block *run)
{
    wm_slab *slab;

    if (wm_block_state(run) != WM_BLOCK_SLAB) {
        add_block(list, run, run->lane);
        return;
    }
    slab = wm_block_at(run->base)->slab;
    for (unsigned i = 0; i < slab->slots; i++) {
        add_block(list, &slab->slot[i], run->lane);
    }
}

static void fill_locked(wm_arena *arena, struct list *list)
{
    for (wm_segment *s = arena->segments; s != NULL; s = s->next) {
        const wm_piece piece = {.base = s->base,
                                .bytes = s->bytes,
                                .state = WM_BLOCK_VOID,
                                .small = s->small};

        add(list, &piece);
        for (wm_block *run = wm_segment_first_run(s); run != NULL;
             run = run->after) {
            add_run(list, run);
        }
    }
}

warm_status wm_snapshot_take(wm_arena *arena, wm_piece **pieces, size_t *count)
{
    struct list list = {NULL, 0, 0};

    for (;;) {
        list.count = 0;
        wm_lock_acquire(&arena->lock);
        fill_locked(arena, &list);
        wm_lock_release(&arena->lock);
        if (list.count <= list.room) {
            break;
        }
        /* And some more, for what comes meanwhile. */
        wm_meta_free(list.piece);
        list.room = list.count + list.count / 8 + 8;
        list.piece = wm_meta_alloc(list.room * sizeof *list.piece);
        if (list.piece == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a snapshot");
        }
    }
    *pieces = list.piece;
    *count = list.count;
    return WARM_OK;
}
