/* huge_bytes.c: looks up the segments of a space in /proc/self/smaps. Takes
 * lock growth, and lock arena of each arena; none while the file is read. */
#include "alloc/kinds/huge_bytes.h"

#include "alloc/arena/arena_int.h"
#include "runtime/base/lock.h"
#include "runtime/base/meta.h"
#include "runtime/base/smaps.h"

struct list {
    wm_smaps_range *range;
    size_t count, room; /* all are counted, the first `room` are stored */
};

static void list_segments(wm_space *space, struct list *list)
{
    list->count = 0;
    for (wm_arena *a = wm_group_arenas(&space->group); a != NULL;
         a = a->next_arena) {
        wm_lock_acquire(&a->lock);
        for (const wm_segment *s = a->segments; s != NULL; s = s->next) {
            if (list->count < list->room) {
                list->range[list->count] = (wm_smaps_range){
                    (uintptr_t)s->base, (uintptr_t)s->base + s->bytes};
            }
            list->count++;
        }
        wm_lock_release(&a->lock);
    }
}

/* Segments that come between the two turns are left out. False: there is no
 * memory, or the file cannot be read. */
static bool read_huge(wm_space *space, const char *root, uint64_t *huge)
{
    struct list list = {NULL, 0, 0};
    bool done;

    *huge = 0;
    list_segments(space, &list);
    if (list.count == 0) {
        return true;
    }
    list.room = list.count;
    list.range = wm_meta_alloc(list.room * sizeof *list.range);
    if (list.range == NULL) {
        return false;
    }
    list_segments(space, &list);
    list.count = list.count < list.room ? list.count : list.room;
    wm_smaps_sort(list.range, list.count);
    done = wm_smaps_huge(root, list.range, list.count, huge);
    wm_meta_free(list.range);
    return done;
}

uint64_t wm_huge_bytes_read(wm_space *space, const char *root,
                            wm_huge_bytes *last)
{
    wm_growth *growth = &space->growth;
    int cancel = wm_cancel_off();
    wm_huge_bytes now = {.known = false};
    bool known;

    wm_lock_acquire(&growth->lock);
    now.held = growth->held;
    now.gained = growth->gained;
    known = last->known && last->held == now.held && last->gained == now.gained;
    now.bytes = last->bytes;
    wm_lock_release(&growth->lock);
    if (!known) {
        now.known = read_huge(space, root, &now.bytes);
        wm_lock_acquire(&growth->lock);
        *last = now;
        wm_lock_release(&growth->lock);
    }
    wm_cancel_restore(cancel);
    return now.bytes;
}
