/* home_node.h: the NUMA node that a thread means if it names none. */
#ifndef WM_NODE_H
#define WM_NODE_H

#include "runtime/thread/runtime_body.h"

/* The node next to the device that the calling thread uses; see memory.h. */
int wm_node_home(warm_runtime *runtime);

/* INVALID_ARGUMENT unless the runtime has the node; wm_node_check() also unless
 * the node has memory that can be page-locked. */
warm_status wm_node_check_range(warm_runtime *runtime, int node);
warm_status wm_node_check(warm_runtime *runtime, int node);

#endif
