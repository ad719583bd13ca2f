/* numa.h: nodes of memory: which there are, and where pages come from.
 *
 *   device ──► node ◄── pages of a range, as they are first touched
 *
 * Part of every driver. A node has the number that the operating system gives
 * it, as in numactl and in CUDA's HOST_NUMA_ID; numbers may have gaps. Usable
 * are the nodes with ordinary memory (has_normal_memory): what lies in movable
 * memory only, a GPU's own or such as can be unplugged, cannot be page-locked.
 *
 * Placing says where pages are to come from and never fails for want of
 * memory: they then come from another node (MPOL_PREFERRED), and asking where
 * they lie tells. MPOL_BIND would keep to the node, but a page fault that finds
 * it full ends in the out-of-memory killer, not in an error.
 *
 * Where the machine has fewer nodes than an option asks for they are simulated:
 * all memory is the machine's, and what node it counts as is written down. */
#ifndef WM_NUMA_H
#define WM_NUMA_H

#include "runtime/base/lock.h"
#include "runtime/base/options.h"
#include "warmpool/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WM_NODES_MAX = 64,
    WM_NODE_UNKNOWN = -1,
    WM_NUMA_MASK = 1024 / (8 * sizeof(unsigned long)) /* a kernel's, at most */
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
/* The machine's nodes if it has that many, else simulated ones. wanted: 0 for
 * those of the machine, 1 for one node and no placing. Const afterwards. */
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

/* Pages of the range that nobody has touched yet will come from node while it
 * has some. pointer: of a page. node WM_NODE_UNKNOWN: the range goes.
 * Status: DRIVER_ERROR (origin "system"), OUT_OF_MEMORY (no record). */
warm_status wm_numa_place(wm_numa *numa, void *pointer, size_t bytes, int node);

/* What a thread's pages come from, to be put back. */
typedef struct wm_numa_policy {
    int mode; /* -1: it was not changed */
    unsigned long mask[WM_NUMA_MASK];
} wm_numa_policy;

/* Pages that the calling thread makes a driver touch come from node while it
 * has some, until wm_numa_unprefer(): for memory that is not there yet. It may
 * be refused; nothing is for simulated nodes. */
void wm_numa_prefer(const wm_numa *numa, int node, wm_numa_policy *before);
void wm_numa_unprefer(const wm_numa_policy *before);

/* The node that all touched pages of the range lie on, or WM_NODE_UNKNOWN if
 * they lie on several. Of a large range evenly spread pages are looked at. */
int wm_numa_node_of(wm_numa *numa, void *pointer, size_t bytes);

/* The node next to a PCI device ("0000:3B:00.0"), or WM_NODE_UNKNOWN. */
int wm_numa_of_pci(const char *bus_id);

/* The nodes in a list as the kernel writes it ("0-1,8"); what is wrong, or no
 * number below WM_NODES_MAX, is left out. */
uint64_t wm_numa_parse(const char *list);

/* For tests: bytes that a simulated node still has. */
void wm_numa_set_room(wm_numa *numa, int node, uint64_t bytes);

/* numa_simulated.c */
warm_status wm_numa_simulate_place(wm_numa *numa, void *pointer, size_t bytes,
                                   int node);
int wm_numa_simulated_node(wm_numa *numa, const void *pointer);
void wm_numa_simulate_end(wm_numa *numa);

#endif
