/* refusal.h: says which limit refused a region of page-locked memory (row B20).
 *
 *   step    looked at, in this order
 *   MAP     required huge pages (size, hugetlb), locked memory, address space,
 *           number of mappings, overcommit
 *   TOUCH   cgroup, node, machine
 *   LOCK    cgroup, machine, locked memory, number of mappings, overcommit;
 *           else the driver's own bound
 *   ALLOC   as LOCK, and address space, which the driver takes itself
 *   REGISTER  nothing: the driver registers no memory at all
 *   NODE    what the node has left
 *   HUGE    what the kernel says of transparent huge pages
 *
 * A limit is named with its value, what is used of it, and what to do, if the
 * region does not fit below it. Reads files of /proc and /sys: for refused
 * calls only. Takes no lock. */
#ifndef WM_REFUSAL_H
#define WM_REFUSAL_H

#include "alloc/kinds/mapping.h"

enum wm_refusal_step {
    WM_REFUSAL_MAP,
    WM_REFUSAL_TOUCH,
    WM_REFUSAL_LOCK,
    WM_REFUSAL_ALLOC,
    WM_REFUSAL_REGISTER,
    WM_REFUSAL_NODE,
    WM_REFUSAL_HUGE
};

typedef struct wm_refusal {
    const char *root; /* before each path, "" but in tests */
    enum wm_refusal_step step;
    size_t bytes;
    size_t held; /* page-locked already */
    int node;    /* WM_NODE_UNKNOWN: any */
    enum wm_huge huge;
    int error; /* of MAP and TOUCH: errno */
} wm_refusal;

/* Adds to this thread's last error, which says what was refused, by which limit
 * and what to do. Origin and codes stay. Returns OUT_OF_MEMORY. */
warm_status wm_refusal_explain(const wm_refusal *refusal);

#endif
