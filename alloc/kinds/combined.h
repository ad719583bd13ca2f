/* combined.h: write-combined memory of the host, for requests with
 * WARM_ALLOC_WRITE_COMBINED: a space of its own, so that it never serves other
 * requests, nor ordinary memory its own. Threads do not cache it. Its figures
 * count with those of page-locked memory. */
#ifndef WM_COMBINED_H
#define WM_COMBINED_H

#include "alloc/space/space.h"

/* pinned: the page-locked space, whose watermarks count the memory. Status:
 * OUT_OF_MEMORY; then wm_space_fini() must not be called. */
warm_status wm_combined_init(wm_space *combined, wm_space *pinned,
                             wm_timelines *timelines,
                             const wm_options *options);

#endif
