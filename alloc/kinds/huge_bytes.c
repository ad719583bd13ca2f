/* huge_bytes.c: looks up the segments of a space in /proc/self/smaps. Takes
 * lock growth, and lock arena of each arena; none while the file is read. */
#include "alloc/kinds/huge_bytes.h"

#include "alloc/kinds/segment_list.h"
#include "runtime/base/lock.h"

/* False: there is no memory, or the file cannot be read. */
static bool read_huge(wm_space *space, const char *root, uint64_t *huge)
{
    wm_segment_list list;
    bool done;

    *huge = 0;
    if (!wm_segment_list_read(space, &list)) {
        return false;
    }
    wm_smaps_sort(list.range, list.count);
    done = list.count == 0 || wm_smaps_huge(root, list.range, list.count, huge);
    wm_segment_list_end(&list);
    return done;
}

uint64_t wm_huge_bytes_read(wm_space *space, const char *root,
                            wm_huge_bytes *last)
{
    wm_growth *growth = &space->growth;
    wm_huge_bytes now = {.known = false};
    bool known;

    wm_lock_acquire(&growth->lock);
    now.gained = growth->gained;
    known = last->known && last->gained == now.gained;
    now.bytes = last->bytes;
    wm_lock_release(&growth->lock);
    if (!known) {
        now.known = read_huge(space, root, &now.bytes);
        wm_lock_acquire(&growth->lock);
        *last = now;
        wm_lock_release(&growth->lock);
    }
    return now.bytes;
}
