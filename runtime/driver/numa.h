/* numa.h: NUMA nodes: which exist, and from which node pages come.
 *
 *   device ──► node ◄── pages of a range, as they are first touched
 *
 * Part of every driver. A node has the operating system's number, as in numactl
 * and in CUDA's HOST_NUMA_ID; numbers may have gaps. A node is usable if it has
 * ordinary memory (has_normal_memory): movable memory, a GPU's own or one that
 * can be unplugged, cannot be page-locked.
 *
 * Placing sets the node that pages should come from. If that node is full they
 * come from another one (MPOL_PREFERRED), which a query reveals. MPOL_BIND
 * would insist on the node, but a page fault on a full node then ends in the
 * out-of-memory killer, not in an error.
 *
 * If the machine has fewer nodes than an option asks for, nodes are simulated:
 * memory comes from anywhere, and records say which node it counts as. */
#ifndef WM_NUMA_H
#define WM_NUMA_H

#include "runtime/base/lock.h"
#include "runtime/base/options.h"
#include "warmpool/base.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WM_NODES_MAX = 64,
    WM_NODE_UNKNOWN = -1,
    WM_NUMA_MASK = 1024 / (8 * sizeof(unsigned long)) /* words, 1024 nodes */
};

typedef struct wm_numa {
    int nodes;       /* const: they are 0 … nodes - 1, at least 1 */
    uint64_t usable; /* const: bit k: node k has memory */
    bool simulated;  /* const */
    wm_lock lock;
    struct wm_numa_range *ranges; /* lock: simulated places */
    uint64_t room[WM_NODES_MAX];  /* lock: bytes left on a simulated node */
} wm_numa;

/* One node, and no placing. */
void wm_numa_init(wm_numa *numa);
/* wanted: how many nodes; if the machine has fewer, simulated ones. 0: those of
 * the machine; 1: one node and no placing. Const afterwards. */
void wm_numa_open(wm_numa *numa, unsigned wanted);
void wm_numa_fini(wm_numa *numa);

static inline bool wm_numa_usable(const wm_numa *numa, int node)
{
    return node >= 0 && node < numa->nodes && ((numa->usable >> node) & 1) != 0;
}

/* The first usable node that is not below node, from 0 again at the end. */
static inline int wm_numa_next(const wm_numa *numa, int node)
{
    do {
        node = node + 1 < numa->nodes ? node + 1 : 0;
    } while (!wm_numa_usable(numa, node));
    return node;
}

/* Untouched pages of the range will come from node while it has free pages.
 * pointer: page-aligned. node WM_NODE_UNKNOWN: forgets the range.
 * Status: DRIVER_ERROR (origin "system"), OUT_OF_MEMORY (no record). */
warm_status wm_numa_place(wm_numa *numa, void *pointer, size_t bytes, int node);

/* A thread's memory policy, to be restored. */
typedef struct wm_numa_policy {
    int mode; /* -1: it was not changed */
    unsigned long mask[WM_NUMA_MASK];
} wm_numa_policy;

/* Pages that a driver touches in the calling thread come from node while it has
 * free pages, until wm_numa_unprefer(): for memory that a driver call is about
 * to allocate. The kernel may refuse; does nothing for simulated nodes. */
void wm_numa_prefer(const wm_numa *numa, int node, wm_numa_policy *before);
void wm_numa_unprefer(const wm_numa_policy *before);

/* The node of all touched pages of the range, or WM_NODE_UNKNOWN if there are
 * several. Of a large range it samples evenly spread pages. */
int wm_numa_node_of(wm_numa *numa, void *pointer, size_t bytes);

/* The node next to a PCI device ("0000:3B:00.0"), or WM_NODE_UNKNOWN. */
int wm_numa_of_pci(const char *bus_id);

/* The CPUs of a node on which this thread may run. False: none is known. root:
 * before the path, "" but in tests. */
bool wm_numa_cpus(const char *root, int node, cpu_set_t *cpus);

/* Parses the kernel's list of nodes ("0-1,8"); ignores anything that is no
 * number below WM_NODES_MAX. */
uint64_t wm_numa_parse(const char *list);

/* For tests: bytes that a simulated node still has. */
void wm_numa_set_room(wm_numa *numa, int node, uint64_t bytes);

#endif
