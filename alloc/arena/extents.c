/* extents.c: the regions of an arena that the driver knows: its segments, and
 * of an expandable one the pieces that have memory.
 *
 * Takes the arena's lock. A device that was reset has none of them any more,
 * and memory callbacks are told of each (space/segment_event.c). */
#include "alloc/arena/arena.h"
#include "alloc/arena/arena_int.h"

struct extents {
    wm_extent *extent;
    size_t skip, room, count;
};

static void add_extent(struct extents *list, char *base, size_t bytes)
{
    if (list->skip > 0) {
        list->skip--;
    } else if (list->count < list->room) {
        list->extent[list->count++] = (wm_extent){base, bytes};
    }
}

static void add_pieces_locked(struct extents *list, const wm_segment *segment)
{
    wm_block *run = segment->first;
    char *at = segment->base;

    while (run != NULL) {
        if (wm_run_has_memory(run)) {
            size_t bytes = wm_piece_from_locked(segment, at);

            add_extent(list, at, bytes);
            at += bytes;
        } else {
            at = run->base + run->bytes;
        }
        while (run != NULL && run->base + run->bytes <= at) {
            run = run->after;
        }
    }
}

size_t wm_arena_extents(wm_arena *arena, size_t skip, wm_extent *extent,
                        size_t room)
{
    struct extents list = {.extent = extent, .skip = skip, .room = room};

    wm_lock_acquire(&arena->lock);
    for (const wm_segment *s = arena->segments; s != NULL; s = s->next) {
        if (s->unit > 0) {
            add_pieces_locked(&list, s);
        } else {
            add_extent(&list, s->base, s->bytes);
        }
    }
    wm_lock_release(&arena->lock);
    return list.count;
}
