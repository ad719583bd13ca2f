/* refusal.c: looks for the limit that refused a region (refusal.h). */
#include "alloc/kinds/refusal.h"

#include "runtime/base/budget.h"
#include "runtime/base/bytes.h"
#include "runtime/base/lock.h"
#include "runtime/base/status.h"
#include "runtime/driver/numa.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Room for what a message adds. */
enum { WORDS = 512, CAP_IPC_LOCK_BIT = 14 };

/* Whether a limit refuses the region; then its words are in text. */
typedef bool limit_fn(const wm_refusal *r, char text[WORDS]);

/* ---- files --------------------------------------------------------------- */

static FILE *open_file(const wm_refusal *r, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s%s", r->root, name);
    return fopen(path, "re");
}

/* The number behind a word, in any line of a file, in the given base. */
static bool find(const wm_refusal *r, const char *name, const char *word,
                 int base, uint64_t *value)
{
    FILE *file = open_file(r, name);
    char line[256];
    const char *at = NULL;

    while (file != NULL && at == NULL &&
           fgets(line, sizeof line, file) != NULL) {
        at = strstr(line, word);
    }
    if (at != NULL) {
        *value = strtoull(at + strlen(word), NULL, base);
    }
    if (file != NULL) {
        fclose(file);
    }
    return at != NULL;
}

static uint64_t find_kib(const wm_refusal *r, const char *name,
                         const char *word)
{
    uint64_t value = 0;

    return find(r, name, word, 10, &value) ? value * 1024 : 0;
}

static uint64_t count_lines(const wm_refusal *r, const char *name)
{
    FILE *file = open_file(r, name);
    uint64_t lines = 0;
    char part[256];

    while (file != NULL && fgets(part, sizeof part, file) != NULL) {
        lines += strchr(part, '\n') != NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    return lines;
}

/* The first line of a file without its newline, or "". */
static void first_line(const wm_refusal *r, const char *name, char *line,
                       int bytes)
{
    FILE *file = open_file(r, name);

    if (file == NULL || fgets(line, bytes, file) == NULL) {
        line[0] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
}

/* Whether so much more does not fit below a limit. */
static bool is_above(uint64_t used, uint64_t more, uint64_t limit)
{
    return used > limit || more > limit - used;
}

/* ---- the limits ---------------------------------------------------------- */

static bool may_lock_all(const wm_refusal *r)
{
    uint64_t caps = 0;

    return find(r, "/proc/self/status", "CapEff:", 16, &caps) &&
           ((caps >> CAP_IPC_LOCK_BIT) & 1) != 0;
}

/* CUDA's driver page-locks without counting; more than the limit is held then.
 */
static bool by_locked(const wm_refusal *r, char text[WORDS])
{
    uint64_t locked = find_kib(r, "/proc/self/status", "VmLck:");
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || r->held > limit.rlim_cur ||
        may_lock_all(r) || !is_above(locked, r->bytes, limit.rlim_cur)) {
        return false;
    }
    snprintf(text, WORDS,
             "RLIMIT_MEMLOCK allows %s of locked memory, %s are locked, and "
             "the process has no CAP_IPC_LOCK: raise the limit (ulimit -l, "
             "LimitMEMLOCK=, docker --ulimit memlock) or grant the capability",
             wm_bytes(limit.rlim_cur).text, wm_bytes(locked).text);
    return true;
}

static bool by_addresses(const wm_refusal *r, char text[WORDS])
{
    uint64_t used = find_kib(r, "/proc/self/status", "VmSize:");
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        !is_above(used, r->bytes, limit.rlim_cur)) {
        return false;
    }
    snprintf(text, WORDS,
             "RLIMIT_AS allows %s of addresses, %s are in use: raise the limit "
             "(ulimit -v)",
             wm_bytes(limit.rlim_cur).text, wm_bytes(used).text);
    return true;
}

/* A region takes up to three mappings. */
enum { MAPPINGS = 3 };

static bool by_mappings(const wm_refusal *r, char text[WORDS])
{
    uint64_t most = 0, count;

    if (!find(r, "/proc/sys/vm/max_map_count", "", 10, &most)) {
        return false;
    }
    count = count_lines(r, "/proc/self/maps");
    if (!is_above(count, MAPPINGS, most)) {
        return false;
    }
    snprintf(text, WORDS,
             "the kernel allows %" PRIu64 " mappings of a process, and %" PRIu64
             " exist: raise sysctl vm.max_map_count",
             most, count);
    return true;
}

static bool by_overcommit(const wm_refusal *r, char text[WORDS])
{
    uint64_t mode = UINT64_MAX, most, used, swap;

    (void)find(r, "/proc/sys/vm/overcommit_memory", "", 10, &mode);
    if (mode == 2 && wm_budget_figure(r->root, "CommitLimit:", &most) &&
        wm_budget_figure(r->root, "Committed_AS:", &used) &&
        is_above(used, r->bytes, most)) {
        snprintf(text, WORDS,
                 "the kernel promises %s of memory in all "
                 "(vm.overcommit_memory is 2), of which %s are taken: raise "
                 "sysctl vm.overcommit_ratio or add swap",
                 wm_bytes(most).text, wm_bytes(used).text);
        return true;
    }
    if (mode == 0 && wm_budget_figure(r->root, "MemTotal:", &most) &&
        wm_budget_figure(r->root, "SwapTotal:", &swap) &&
        is_above(0, r->bytes, most + swap)) {
        snprintf(text, WORDS,
                 "the machine has %s of memory and swap, and the kernel maps "
                 "no more at once (vm.overcommit_memory is 0): request less",
                 wm_bytes(most + swap).text);
        return true;
    }
    return false;
}

static bool by_cgroup(const wm_refusal *r, char text[WORDS])
{
    wm_budget_limit tight = {"", NULL, 0, 0};

    if (!wm_budget_tightest(r->root, &tight) ||
        !is_above(tight.used, r->bytes, tight.limit)) {
        return false;
    }
    snprintf(text, WORDS,
             "cgroup %s allows %s (%s), of which %s are charged that cannot "
             "be taken back: raise that limit (docker --memory, MemoryMax=) "
             "or hold less (option pinned_high)",
             tight.folder + strlen(r->root), wm_bytes(tight.limit).text,
             tight.file, wm_bytes(tight.used).text);
    return true;
}

static bool by_machine(const wm_refusal *r, char text[WORDS])
{
    uint64_t left = 0, all = 0;

    if (!wm_budget_figure(r->root, "MemAvailable:", &left) ||
        !wm_budget_figure(r->root, "MemTotal:", &all) ||
        !is_above(0, r->bytes, left)) {
        return false;
    }
    snprintf(text, WORDS,
             "%s of the machine's %s are available: end other programs or "
             "hold less (option pinned_high)",
             wm_bytes(left).text, wm_bytes(all).text);
    return true;
}

static bool say_node(const wm_refusal *r, bool always, char text[WORDS])
{
    char name[96];
    uint64_t left, all;

    if (r->node < 0) {
        return false;
    }
    snprintf(name, sizeof name, "/sys/devices/system/node/node%d/meminfo",
             r->node);
    left = find_kib(r, name, "MemFree:");
    all = find_kib(r, name, "MemTotal:");
    if (all == 0 || (!always && !is_above(0, r->bytes, left))) {
        return false;
    }
    snprintf(text, WORDS,
             "node %d has %s of %s free: use another node (WARM_NODE_ANY), or "
             "free page cache that lies there",
             r->node, wm_bytes(left).text, wm_bytes(all).text);
    return true;
}

static bool by_node(const wm_refusal *r, char text[WORDS])
{
    return say_node(r, false, text);
}

/* ---- huge pages ---------------------------------------------------------- */

/* Not of /proc/meminfo, which has the default size. */
#define TABLE_FOLDER "/sys/kernel/mm/hugepages/hugepages-2048kB"
#define THP_FOLDER   "/sys/kernel/mm/transparent_hugepage"

static bool by_table(const wm_refusal *r, char text[WORDS])
{
    uint64_t all = 0, unused = 0, promised = 0;

    (void)find(r, TABLE_FOLDER "/nr_hugepages", "", 10, &all);
    (void)find(r, TABLE_FOLDER "/free_hugepages", "", 10, &unused);
    (void)find(r, TABLE_FOLDER "/resv_hugepages", "", 10, &promised);
    unused -= promised < unused ? promised : unused;
    if (r->huge != WM_HUGE_TABLE_REQUIRE ||
        wm_huge_part(r->bytes) / WM_HUGE_PAGE <= unused) {
        return false;
    }
    snprintf(
        text, WORDS,
        "it needs %s of 2 MiB, and of %" PRIu64 " set aside %" PRIu64
        " are free: write more to " TABLE_FOLDER
        "/nr_hugepages (vm.nr_hugepages), or use huge_pages:hugetlb_try",
        wm_counted(wm_huge_part(r->bytes) / WM_HUGE_PAGE, "huge page").text,
        all, unused);
    return true;
}

static void say_transparent(const wm_refusal *r, char text[WORDS])
{
    static const char folder[] = THP_FOLDER;
    char enabled[80], defrag[80];

    first_line(r, THP_FOLDER "/enabled", enabled, sizeof enabled);
    first_line(r, THP_FOLDER "/defrag", defrag, sizeof defrag);
    if (strstr(enabled, "[never]") != NULL || enabled[0] == '\0') {
        snprintf(text, WORDS,
                 "transparent huge pages are off (%s/enabled is %s): write "
                 "madvise there, or use huge_pages:try",
                 folder, enabled[0] != '\0' ? enabled : "not to be read");
    } else {
        snprintf(text, WORDS,
                 "memory is fragmented, or the process refuses huge pages "
                 "(%s/defrag is %s): write 1 to /proc/sys/vm/compact_memory, "
                 "or use huge_pages:try or hugetlb_require",
                 folder, defrag);
    }
}

static bool by_huge_size(const wm_refusal *r, char text[WORDS])
{
    char enabled[80], defrag[80];
    uint64_t unused = 0;

    if (!wm_huge_is_required(r->huge) || r->bytes >= WM_HUGE_PAGE) {
        return false;
    }
    (void)find(r, TABLE_FOLDER "/free_hugepages", "", 10, &unused);
    first_line(r, THP_FOLDER "/enabled", enabled, sizeof enabled);
    first_line(r, THP_FOLDER "/defrag", defrag, sizeof defrag);
    snprintf(text, WORDS,
             "a region of %s is smaller than a huge page of 2 MiB, and a "
             "larger one was refused before, or option segment is too small "
             "(transparent huge pages: %s, defrag: %s, free ones of hugetlb: "
             "%" PRIu64 "): raise it, or use huge_pages:try",
             wm_bytes(r->bytes).text, enabled, defrag, unused);
    return true;
}

/* ---- which of them ------------------------------------------------------- */

static limit_fn *const of_map[] = {by_huge_size, by_table,      by_addresses,
                                   by_mappings,  by_overcommit, NULL};
static limit_fn *const of_touch[] = {by_cgroup, by_node, by_machine, NULL};
static limit_fn *const of_lock[] = {by_cgroup,   by_machine,    by_locked,
                                    by_mappings, by_overcommit, NULL};
static limit_fn *const of_alloc[] = {by_addresses, by_cgroup,   by_machine,
                                     by_locked,    by_mappings, by_overcommit,
                                     NULL};

static bool find_limit(limit_fn *const *limit, const wm_refusal *r,
                       char text[WORDS])
{
    while (*limit != NULL && !(*limit)(r, text)) {
        limit++;
    }
    return *limit != NULL;
}

static void say_driver(const wm_refusal *r, char text[WORDS])
{
    uint64_t left = 0;

    (void)wm_budget_figure(r->root, "MemAvailable:", &left);
    snprintf(text, WORDS,
             "no limit of the process, its cgroups or the kernel is met (%s "
             "are available), so the bound is the driver's own: obtain less at "
             "once (options pin_chunk, segment)",
             wm_bytes(left).text);
}

/* Whoever could have memory allocated instead does not come here. */
static void say_register(const wm_refusal *r, char text[WORDS])
{
    bool huge = wm_huge_is_required(r->huge);

    snprintf(text, WORDS,
             "the driver registers no memory of the host, not even a page, as "
             "with confidential computing: use %spin:auto, so that "
             "cudaHostAlloc() allocates it",
             huge ? "huge_pages:try and " : "");
}

static void look(const wm_refusal *r, char text[WORDS])
{
    switch (r->step) {
    case WM_REFUSAL_MAP:
        /* EAGAIN: mlockall() locks what is mapped. */
        if (!(r->error == EAGAIN && by_locked(r, text)) &&
            !find_limit(of_map, r, text)) {
            snprintf(text, WORDS, "the kernel has no such range of addresses");
        }
        break;
    case WM_REFUSAL_TOUCH:
        if (!find_limit(of_touch, r, text)) {
            snprintf(text, WORDS,
                     "the kernel has no pages, though no limit is met");
        }
        break;
    case WM_REFUSAL_REGISTER:
        say_register(r, text);
        break;
    case WM_REFUSAL_NODE:
        if (!say_node(r, true, text)) {
            snprintf(text, WORDS, "use another node (WARM_NODE_ANY)");
        }
        break;
    case WM_REFUSAL_HUGE:
        say_transparent(r, text);
        break;
    case WM_REFUSAL_ALLOC:
    case WM_REFUSAL_LOCK:
    default:
        if (!find_limit(r->step == WM_REFUSAL_ALLOC ? of_alloc : of_lock, r,
                        text)) {
            say_driver(r, text);
        }
    }
}

warm_status wm_refusal_explain(const wm_refusal *refusal)
{
    warm_error e = wm_error_save();
    char text[WORDS] = "";

    WM_CANCEL_OFF();
    look(refusal, text);
    return wm_fail_code(WARM_OUT_OF_MEMORY, e.origin, e.code, e.code_text,
                        "%.480s; %s", e.message, text);
}
