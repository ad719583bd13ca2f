/* pageable.h: ordinary pages for requests with WARM_ALLOC_PAGEABLE_OK that no
 * page-locked memory can serve (row B18).
 *
 * It is a space beside the pinned one, so that its blocks are freed, recorded
 * and found like others, and figures do not mix. It caches nothing: a region is
 * mapped for the request that needs it, and unmapped once no block in it is
 * live or pending. No driver is called for either. */
#ifndef WM_PAGEABLE_H
#define WM_PAGEABLE_H

#include "alloc/space/space.h"

extern const wm_space_traits wm_pageable_traits;

/* Status: OUT_OF_MEMORY. */
warm_status wm_pageable_alloc(wm_space *space, size_t bytes, void **pointer);

#endif
