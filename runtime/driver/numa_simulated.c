/* numa_simulated.c: nodes that the machine does not have, for tests.
 *
 * A record says which node a range counts as; the memory is the machine's. If a
 * node has no room left, the range counts as the next node's, as the kernel
 * does with pages. Every function takes lock numa. */
#include "runtime/driver/numa.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

struct wm_numa_range {
    struct wm_numa_range *next;
    uintptr_t begin, end;
    int node;
};

static void drop_locked(wm_numa *numa, struct wm_numa_range **link)
{
    struct wm_numa_range *range = *link;

    *link = range->next;
    if (range->node != WM_NODE_UNKNOWN &&
        numa->room[range->node] != UINT64_MAX) {
        numa->room[range->node] += range->end - range->begin;
    }
    wm_meta_free(range);
}

/* Removes the record of a range that is unmapped or placed again. */
static void forget_locked(wm_numa *numa, uintptr_t begin, uintptr_t end)
{
    struct wm_numa_range **link = &numa->ranges;

    while (*link != NULL) {
        if ((*link)->begin < end && begin < (*link)->end) {
            drop_locked(numa, link);
        } else {
            link = &(*link)->next;
        }
    }
}

static int with_room_locked(const wm_numa *numa, int node, uint64_t bytes)
{
    for (int i = 0; i < numa->nodes; i++) {
        if (numa->room[node] >= bytes) {
            return node;
        }
        node = wm_numa_next(numa, node);
    }
    return WM_NODE_UNKNOWN;
}

static void put_locked(wm_numa *numa, struct wm_numa_range *range)
{
    uint64_t bytes = range->end - range->begin;

    range->node = with_room_locked(numa, range->node, bytes);
    if (range->node != WM_NODE_UNKNOWN &&
        numa->room[range->node] != UINT64_MAX) {
        numa->room[range->node] -= bytes;
    }
    range->next = numa->ranges;
    numa->ranges = range;
}

warm_status wm_numa_simulate_place(wm_numa *numa, void *pointer, size_t bytes,
                                   int node)
{
    uintptr_t begin = (uintptr_t)pointer;
    struct wm_numa_range *range = NULL;

    if (node != WM_NODE_UNKNOWN) {
        range = wm_meta_alloc(sizeof *range);
        if (range == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY,
                           "no memory for the record of a place");
        }
        range->begin = begin;
        range->end = begin + bytes;
        range->node = node;
    }
    wm_lock_acquire(&numa->lock);
    forget_locked(numa, begin, begin + bytes);
    if (range != NULL) {
        put_locked(numa, range);
    }
    wm_lock_release(&numa->lock);
    return WARM_OK;
}

int wm_numa_simulated_node(wm_numa *numa, const void *pointer)
{
    uintptr_t at = (uintptr_t)pointer;
    int node = WM_NODE_UNKNOWN;

    wm_lock_acquire(&numa->lock);
    for (struct wm_numa_range *r = numa->ranges; r != NULL; r = r->next) {
        if (r->begin <= at && at < r->end) {
            node = r->node;
        }
    }
    wm_lock_release(&numa->lock);
    return node;
}

void wm_numa_set_room(wm_numa *numa, int node, uint64_t bytes)
{
    wm_lock_acquire(&numa->lock);
    numa->room[node] = bytes;
    wm_lock_release(&numa->lock);
}

void wm_numa_simulate_end(wm_numa *numa)
{
    while (numa->ranges != NULL) {
        drop_locked(numa, &numa->ranges);
    }
}
