/* segment_list.h: the addresses of a space's segments, for what the kernel is
 * asked about them. */
#ifndef WM_SEGMENT_LIST_H
#define WM_SEGMENT_LIST_H

#include "alloc/space/space.h"
#include "runtime/base/smaps.h"

typedef struct wm_segment_list {
    wm_smaps_range *range; /* owned; null: there are none */
    size_t count;
} wm_segment_list;

/* Lists the segments; those that come meanwhile may be left out. False: no
 * memory for the list. Takes lock arena of each arena; none held afterwards. */
bool wm_segment_list_read(wm_space *space, wm_segment_list *list);
void wm_segment_list_end(wm_segment_list *list);

#endif
