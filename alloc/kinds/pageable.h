/* pageable.h: memory for those who said that page-locked memory need not be
 * had (row B18): ordinary pages, in blocks as all others.
 *
 * A space of its own beside the pinned one, so that blocks are freed, recorded
 * on and found as everywhere, and figures never mix. It keeps nothing: a
 * region is mapped for the request that needs it, and unmapped as soon as no
 * block in it is live or waits for streams. No driver is called for either. */
#ifndef WM_PAGEABLE_H
#define WM_PAGEABLE_H

#include "alloc/space/space.h"

extern const wm_space_traits wm_pageable_traits;

/* Status: OUT_OF_MEMORY. */
warm_status wm_pageable_alloc(wm_space *space, size_t bytes, void **pointer);

/* Fills the figures that tell of pageable memory. */
void wm_pageable_stats(wm_space *space, warm_space_stats *stats);

#endif
