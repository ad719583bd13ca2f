/* node.h: which NUMA node a thread means (row B15). What is of a node comes to
 * it through pin.h. */
#ifndef WM_NODE_H
#define WM_NODE_H

#include "runtime/thread/control.h"

/* The node of the device that the calling thread uses; see memory.h. */
int wm_node_home(warm_runtime *runtime);

/* INVALID_ARGUMENT unless node is one of the runtime's; and usable. */
warm_status wm_node_check_range(warm_runtime *runtime, int node);
warm_status wm_node_check(warm_runtime *runtime, int node);

#endif
