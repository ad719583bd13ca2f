/* node_fallback.h: memory for a request from the driver, of one of several NUMA
 * nodes (row B15).
 *
 *   its own node grows ─► what others have idle ─► others grow
 *         ─► its own grows, once what all have idle has gone back
 *
 * A strict request skips the middle. A node that the driver had no more memory
 * of is left alone for a while, by requests that other memory will do for: to
 * ask it means to map, touch and unmap a region for nothing. It is asked again
 * after 1, then 3, 7, … at most 63 of them. */
#ifndef WM_NODE_FALLBACK_H
#define WM_NODE_FALLBACK_H

#include "alloc/space/space.h"

/* Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_node_fallback_obtain(wm_space *space, const wm_request *request,
                                    wm_block **block);

/* Whether a request that pageable memory will do for leaves the whole ladder
 * alone, and what threads keep: all nodes that it may have are. */
bool wm_node_fallback_in_backoff(wm_space *space, const wm_request *request);

/* Memory has gone back to the system: every node is asked again. */
void wm_node_fallback_reset(wm_space *space);

#endif
