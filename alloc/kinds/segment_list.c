/* segment_list.c: see segment_list.h. */
#include "alloc/kinds/segment_list.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/meta.h"

/* Counts all segments, and stores the first `room`. */
static size_t list_segments(wm_space *space, wm_smaps_range *range, size_t room)
{
    size_t count = 0;

    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_lock_acquire(&a->lock);
        for (const wm_segment *s = a->segments; s != NULL; s = s->next) {
            if (range != NULL && count < room) {
                range[count] = (wm_smaps_range){(uintptr_t)s->base,
                                                (uintptr_t)s->base + s->bytes};
            }
            count++;
        }
        wm_lock_release(&a->lock);
    }
    return count;
}

bool wm_segment_list_read(wm_space *space, wm_segment_list *list)
{
    size_t room = list_segments(space, NULL, 0), count;

    *list = (wm_segment_list){NULL, 0};
    if (room == 0) {
        return true;
    }
    list->range = wm_meta_alloc(room * sizeof *list->range);
    if (list->range == NULL) {
        return false;
    }
    count = list_segments(space, list->range, room);
    list->count = count < room ? count : room;
    return true;
}

void wm_segment_list_end(wm_segment_list *list)
{
    wm_meta_free(list->range);
}
