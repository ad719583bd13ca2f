/* node_fallback.h: the NUMA node on which the space grows for a request (row
 * B15).
 *
 *   its own node grows ─► idle memory of other nodes ─► other nodes grow
 *         ─► its own grows, once the idle segments of all are returned
 *
 * A strict request skips the middle. After a node was found full, requests that
 * other memory can serve skip it: an attempt maps, touches and unmaps a region
 * for nothing. 1 request skips it, after the next failure 3, then 7, at most
 * 63. */
#ifndef WM_NODE_FALLBACK_H
#define WM_NODE_FALLBACK_H

#include "alloc/space/space.h"

/* Status: OUT_OF_MEMORY, or another of the driver's. */
warm_status wm_node_fallback_obtain(wm_space *space, const wm_request *request,
                                    wm_block **block);

/* Whether a request that pageable memory can serve is to skip the driver and
 * other threads' caches: all its nodes are in back-off, which counts it. */
bool wm_node_fallback_in_backoff(wm_space *space, const wm_request *request);

/* Ends the back-off of all nodes: memory was returned to the system. */
void wm_node_fallback_reset(wm_space *space);

#endif
