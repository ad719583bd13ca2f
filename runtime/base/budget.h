/* budget.h: how much memory of the host a process may still have, and whether
 * the kernel says that memory is short (row F12).
 *
 *   the machine  ──► available = MemAvailable
 *   each cgroup  ──► available = limit - (used - page cache and the like)
 *   above the process            └── what the kernel can take back
 *
 * The budget is the least of these. Used memory that cannot be given up is
 * anonymous and page-locked memory, shared memory, stacks and page tables. The
 * cgroups are read where distributions mount them: version 2 at /sys/fs/cgroup
 * or /sys/fs/cgroup/unified, version 1 at /sys/fs/cgroup/memory. A cgroup whose
 * files are not visible (the path is of another namespace) is skipped; the root
 * of the mount is always read. Takes no lock, leaves errno. */
#ifndef WM_BUDGET_H
#define WM_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that may still be had; UINT64_MAX if nothing can be read. root: before
 * every path, "" but in tests. */
uint64_t wm_budget_available(const char *root);

/* The limit of memory that leaves the least room. */
typedef struct wm_budget_limit {
    char folder[256];     /* of the cgroup, its beginning */
    const char *file;     /* the limit's name in it */
    uint64_t limit, used; /* used: what the kernel cannot take back */
} wm_budget_limit;

/* False: no cgroup above the process has a limit. */
bool wm_budget_tightest(const char *root, wm_budget_limit *tightest);
/* A number of /proc/meminfo, in bytes if it is followed by kB; name with its
 * colon. False: there is none. */
bool wm_budget_figure(const char *root, const char *name, uint64_t *value);

/* What the kernel had counted at the time from which signs count: of the last
 * sign, or of a look at least a second ago. */
typedef struct wm_budget_watch {
    uint64_t ns;       /* when; 0: never */
    uint64_t events;   /* of the cgroups: high, max, oom */
    uint64_t stall_us; /* tasks waited for memory so long */
} wm_budget_watch;

/* Reads memory.events.local of the cgroups, and memory.pressure of the
 * innermost one, or of the machine. EVENT: a limit was met since watch. STALL:
 * tasks waited for memory for more than a twentieth of the time since, and for
 * more than 50 ms.
 * now_ns: of a monotonic clock. */
enum { WM_BUDGET_EVENT = 1, WM_BUDGET_STALL = 2 };
unsigned wm_budget_look(const char *root, uint64_t now_ns,
                        wm_budget_watch *watch);

#endif
