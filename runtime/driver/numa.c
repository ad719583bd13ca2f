/* numa.c: the nodes of the machine, through /sys and system calls.
 *
 * No libnuma: three calls are all that is needed, and their numbers and flags
 * are the kernel's own. Simulated nodes take lock numa, all else none. */
#include "runtime/driver/numa.h"

#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SAMPLES = 256, /* pages that are queried of a larger range */
    BATCH = 64,    /* pages in one system call */
    KERNEL_MAX = sizeof(unsigned long) * 8 * WM_NUMA_MASK /* nodes in a mask */
};

/* ---- simulated nodes ----------------------------------------------------
 *
 * A record says which node a range counts as; the memory is the machine's. If a
 * node has no room left, the range counts as the next node's, as the kernel
 * does with pages. */

struct wm_numa_range {
    struct wm_numa_range *next;
    uintptr_t begin, end;
    int node;
};

static void leave_locked(wm_numa *numa, int node, uint64_t bytes)
{
    if (node != WM_NODE_UNKNOWN && numa->room[node] != UINT64_MAX) {
        numa->room[node] += bytes;
    }
}

static void drop_locked(wm_numa *numa, struct wm_numa_range **link)
{
    struct wm_numa_range *range = *link;

    *link = range->next;
    leave_locked(numa, range->node, range->end - range->begin);
    wm_meta_free(range);
}

/* Cuts [begin, end), which overlaps it, out of a record. If there are rests on
 * both sides, the record of the one behind is *spare (null afterwards); without
 * a spare one that rest counts as no node's. Returns the link to the next. */
static struct wm_numa_range **cut_locked(wm_numa *numa,
                                         struct wm_numa_range **link,
                                         uintptr_t begin, uintptr_t end,
                                         struct wm_numa_range **spare)
{
    struct wm_numa_range *range = *link, *rest = *spare;
    bool front = begin > range->begin, back = end < range->end;

    if (!front && !back) {
        drop_locked(numa, link);
        return link;
    }
    if (front && back && rest != NULL) {
        *rest = *range;
        rest->begin = end;
        range->next = rest;
        range->end = end;
        *spare = NULL;
    }
    if (front) {
        leave_locked(numa, range->node, range->end - begin);
        range->end = begin;
    } else {
        leave_locked(numa, range->node, end - range->begin);
        range->begin = end;
    }
    return &range->next;
}

/* Removes what the records have of a range that is unmapped or placed again:
 * a region may be unmapped piece by piece. */
static void forget_locked(wm_numa *numa, uintptr_t begin, uintptr_t end,
                          struct wm_numa_range **spare)
{
    struct wm_numa_range **link = &numa->ranges;

    while (*link != NULL) {
        if ((*link)->begin < end && begin < (*link)->end) {
            link = cut_locked(numa, link, begin, end, spare);
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

static warm_status simulate_place(wm_numa *numa, void *pointer, size_t bytes,
                                  int node)
{
    uintptr_t begin = (uintptr_t)pointer;
    struct wm_numa_range *range = NULL, *spare;

    if (node != WM_NODE_UNKNOWN) {
        range = wm_meta_alloc(sizeof *range);
        if (range == NULL) {
            return wm_fail(WARM_OUT_OF_MEMORY,
                           "no memory to record the node of a range");
        }
        range->begin = begin;
        range->end = begin + bytes;
        range->node = node;
    }
    spare = wm_meta_alloc(sizeof *spare);
    wm_lock_acquire(&numa->lock);
    forget_locked(numa, begin, begin + bytes, &spare);
    if (range != NULL) {
        put_locked(numa, range);
    }
    wm_lock_release(&numa->lock);
    wm_meta_free(spare);
    return WARM_OK;
}

static int simulated_node(wm_numa *numa, const void *pointer)
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

static void simulate_end(wm_numa *numa)
{
    while (numa->ranges != NULL) {
        drop_locked(numa, &numa->ranges);
    }
}

/* ---- which nodes there are -------------------------------------------- */

/* Adds the numbers of a list to a set. */
static void parse(const char *list, cpu_set_t *numbers)
{
    while (isdigit((unsigned char)*list)) {
        char *end;
        unsigned long first = strtoul(list, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

        for (; first <= last && first < CPU_SETSIZE; first++) {
            CPU_SET(first, numbers);
        }
        list = *end == ',' ? end + 1 : end;
    }
}

uint64_t wm_numa_parse(const char *list)
{
    uint64_t mask = 0;
    cpu_set_t nodes;

    CPU_ZERO(&nodes);
    parse(list, &nodes);
    for (unsigned k = 0; k < WM_NODES_MAX; k++) {
        mask |= (uint64_t)(CPU_ISSET(k, &nodes) != 0) << k;
    }
    return mask;
}

/* The first line of a file, or "". */
static void read_line(const char *path, char *line, int bytes)
{
    WM_CANCEL_OFF();
    FILE *file = fopen(path, "re");

    line[0] = '\0';
    if (file != NULL) {
        if (fgets(line, bytes, file) == NULL) {
            line[0] = '\0';
        }
        fclose(file);
    }
}

/* The nodes that a cpuset allows this process; all if the kernel refuses the
 * query. */
static uint64_t allowed(void)
{
    unsigned long mask[WM_NUMA_MASK] = {ULONG_MAX};

    (void)syscall(SYS_get_mempolicy, NULL, mask, (unsigned long)KERNEL_MAX,
                  NULL, (unsigned long)MPOL_F_MEMS_ALLOWED);
    return mask[0];
}

static long prefer(void *pointer, size_t bytes, int node)
{
    uint64_t mask = (uint64_t)1 << node;

    /* The kernel uses one bit less than the given count. */
    return syscall(SYS_mbind, pointer, bytes, (unsigned long)MPOL_PREFERRED,
                   &mask, (unsigned long)WM_NODES_MAX + 1, 0UL);
}

/* Containers often refuse mbind() to processes without CAP_SYS_NICE. */
static bool may_place(int node)
{
    size_t bytes = wm_os_page();
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool may;

    if (page == MAP_FAILED) {
        return false;
    }
    may = prefer(page, bytes, node) == 0;
    munmap(page, bytes);
    return may;
}

static int nodes_of(uint64_t mask)
{
    int nodes = 0;

    while (nodes < WM_NODES_MAX && mask >> nodes != 0) {
        nodes++;
    }
    return nodes;
}

/* The machine's usable nodes, or 0 if memory cannot be placed. */
static uint64_t machine(void)
{
    char line[256];
    uint64_t mask;

    read_line("/sys/devices/system/node/has_normal_memory", line, sizeof line);
    mask = wm_numa_parse(line) & allowed();
    if (nodes_of(mask) > 1 && !may_place(nodes_of(mask) - 1)) {
        wm_log(WARM_LOG_WARNING,
               "memory is not placed on NUMA nodes: the system refuses mbind() "
               "(errno %d); a container needs CAP_SYS_NICE",
               errno);
        return 0;
    }
    return mask;
}

void wm_numa_init(wm_numa *numa)
{
    memset(numa, 0, sizeof *numa);
    numa->nodes = 1;
    numa->usable = 1;
    wm_lock_init(&numa->lock, WM_RANK_DRIVER);
    for (int i = 0; i < WM_NODES_MAX; i++) {
        numa->room[i] = UINT64_MAX;
    }
}

void wm_numa_open(wm_numa *numa, unsigned wanted)
{
    uint64_t all =
        wanted < WM_NODES_MAX ? ((uint64_t)1 << wanted) - 1 : UINT64_MAX;
    uint64_t found = wanted == 1 ? 1 : machine();

    if (wanted > 1) {
        numa->simulated = (found & all) != all;
        found = all;
    }
    if (found != 0) {
        numa->usable = found;
        numa->nodes = nodes_of(found);
    }
}

void wm_numa_fini(wm_numa *numa)
{
    simulate_end(numa);
}

int wm_numa_of_pci(const char *bus_id)
{
    char path[128], line[32];
    char *end;
    long node;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.32s/numa_node", bus_id);
    for (char *c = path; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    read_line(path, line, sizeof line);
    node = strtol(line, &end, 10);
    return end != line && node >= 0 && node < WM_NODES_MAX ? (int)node
                                                           : WM_NODE_UNKNOWN;
}

bool wm_numa_cpus(const char *root, int node, cpu_set_t *cpus)
{
    char path[PATH_MAX], line[1024];
    cpu_set_t own;

    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist",
             root, node);
    read_line(path, line, sizeof line);
    CPU_ZERO(cpus);
    parse(line, cpus);
    if (sched_getaffinity(0, sizeof own, &own) == 0) {
        CPU_AND(cpus, cpus, &own);
    }
    return CPU_COUNT(cpus) > 0;
}

/* ---- where pages are -------------------------------------------------- */

warm_status wm_numa_place(wm_numa *numa, void *pointer, size_t bytes, int node)
{
    if (numa->simulated) {
        return simulate_place(numa, pointer, bytes, node);
    }
    if (node == WM_NODE_UNKNOWN || prefer(pointer, bytes, node) == 0) {
        return WARM_OK;
    }
    return wm_fail_code(WARM_DRIVER_ERROR, "system", errno, NULL,
                        "memory cannot be placed on node %d (mbind: errno %d)",
                        node, errno);
}

void wm_numa_prefer(const wm_numa *numa, int node, wm_numa_policy *before)
{
    unsigned long mask[WM_NUMA_MASK] = {1UL << node};

    if (numa->simulated ||
        syscall(SYS_get_mempolicy, &before->mode, before->mask,
                (unsigned long)KERNEL_MAX, NULL, 0UL) != 0 ||
        syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask,
                (unsigned long)WM_NODES_MAX + 1) != 0) {
        before->mode = -1;
    }
}

void wm_numa_unprefer(const wm_numa_policy *before)
{
    bool has_nodes = false;

    if (before->mode == -1) {
        return;
    }
    for (int i = 0; i < WM_NUMA_MASK; i++) {
        has_nodes = has_nodes || before->mask[i] != 0;
    }
    /* A policy without nodes needs a null mask, not an empty one. */
    (void)syscall(SYS_set_mempolicy, before->mode,
                  has_nodes ? before->mask : NULL,
                  has_nodes ? (unsigned long)KERNEL_MAX + 1 : 0UL);
}

/* The common node of these pages and of node, unless that is still unknown;
 * -EXDEV if they differ. Pages that were never touched have no node. */
static int node_of_pages(void **pages, unsigned long count, int node)
{
    int status[BATCH];

    if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) != 0) {
        return -EXDEV;
    }
    for (unsigned long i = 0; i < count; i++) {
        if (status[i] < 0 || (node >= 0 && status[i] != node)) {
            return -EXDEV;
        }
        node = status[i];
    }
    return node;
}

int wm_numa_node_of(wm_numa *numa, void *pointer, size_t bytes)
{
    size_t page = wm_os_page();
    size_t pages = (bytes + page - 1) / page;
    size_t samples = pages < SAMPLES ? pages : SAMPLES;
    int node = WM_NODE_UNKNOWN;
    void *batch[BATCH];

    if (numa->simulated) {
        return simulated_node(numa, pointer);
    }
    for (size_t at = 0; at < samples && node != -EXDEV; at += BATCH) {
        size_t count = samples - at < BATCH ? samples - at : BATCH;

        /* The last page is among the samples: if a node was full before the
         * end, the rest came from another node. */
        for (size_t i = 0; i < count; i++) {
            size_t index = (at + i + 1) * pages / samples - 1;

            batch[i] = (char *)pointer + index * page;
        }
        node = node_of_pages(batch, count, node);
    }
    return node < 0 ? WM_NODE_UNKNOWN : node;
}
