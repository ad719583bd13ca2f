/* warmpool_info.c: what warmpool finds on this machine: devices, libraries,
 * limits on memory, NUMA nodes, and the options in force.
 *
 *   warmpool-info [--help] [device:host,key:value,…]
 *
 * Sees the public headers only. Exit status: 0; 1 if no runtime could be made,
 * the rest is printed then too; 2 for what it does not understand. */
#include <warmpool/warmpool.h>

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { LINE = 4096, CAP_IPC_LOCK_BIT = 14 };

/* ---- sizes and files ------------------------------------------------------
 */

typedef struct size_text {
    char text[32];
} size_text;

static size_text size_of(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned i = 0;
    size_text out;

    while (value >= 1024 && i < sizeof units / sizeof units[0] - 1) {
        value /= 1024;
        i++;
    }
    snprintf(out.text, sizeof out.text, i > 0 ? "%.1f %s" : "%.0f %s", value,
             units[i]);
    return out;
}

/* The first line of a file without its newline; false: it cannot be read. */
static bool first_line(const char *path, char *line, size_t bytes)
{
    FILE *file = fopen(path, "r");
    bool got = file != NULL && fgets(line, (int)bytes, file) != NULL;

    if (file != NULL) {
        (void)fclose(file);
    }
    if (got) {
        line[strcspn(line, "\n")] = '\0';
    }
    return got;
}

/* The text behind key in the line of a file that contains it; false: there is
 * none. */
static bool line_with(const char *path, const char *key, char *value,
                      size_t bytes)
{
    FILE *file = fopen(path, "r");
    char line[LINE];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, key);

        found = at != NULL;
        if (found) {
            at += strlen(key);
            at += strspn(at, " \t");
            snprintf(value, bytes, "%.*s", (int)strcspn(at, "\n"), at);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* "123 kB" as bytes. */
static uint64_t kib(const char *value)
{
    return strtoull(value, NULL, 10) * 1024;
}

/* ---- devices and libraries ------------------------------------------------
 */

static void print_device(warm_runtime *runtime, int device)
{
    warm_device_info info = WARM_INIT(warm_device_info);

    if (warm_device_get_info(runtime, device, &info) != WARM_OK) {
        printf("  %d: %s\n", device, warm_last_error_message());
        return;
    }
    printf("  %d: %s, %s", device, info.name, size_of(info.total_bytes).text);
    if (info.free_bytes > 0) {
        printf(" (%s free)", size_of(info.free_bytes).text);
    }
    if (info.compute_major > 0) {
        printf(", compute capability %d.%d", info.compute_major,
               info.compute_minor);
    }
    if (info.numa_node >= 0) {
        printf(", next to node %d", info.numa_node);
    }
    printf("\n");
}

static void print_devices(warm_runtime *runtime)
{
    int count = 0;

    (void)warm_device_count(runtime, &count);
    printf("driver: %s\n", warm_runtime_driver(runtime));
    printf("devices: %d\n", count);
    for (int i = 0; i < count; i++) {
        print_device(runtime, i);
    }
}

static void print_libraries(warm_runtime *runtime)
{
    const char *name;

    printf("libraries of the kinds of handles:\n");
    for (int kind = 0; (name = warm_kind_name(runtime, kind)) != NULL; kind++) {
        char file[PATH_MAX];
        warm_status status =
            warm_kind_library(runtime, kind, file, sizeof file);

        printf("  %s: %s\n", name,
               status == WARM_OK ? file : warm_last_error_message());
    }
}

/* ---- limits ---------------------------------------------------------------
 */

static bool may_lock_all(void)
{
    char value[LINE];

    return line_with("/proc/self/status", "CapEff:", value, sizeof value) &&
           (strtoull(value, NULL, 16) >> CAP_IPC_LOCK_BIT & 1) != 0;
}

static void print_memlock(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return;
    }
    printf("  locked memory (ulimit -l): %s%s\n",
           limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                           : size_of(limit.rlim_cur).text,
           may_lock_all() ? "; the process may lock more (CAP_IPC_LOCK)" : "");
}

/* One cgroup's limit and use; false: the cgroup has no such file. */
static bool print_cgroup(const char *folder, const char *limit_file,
                         const char *use_file)
{
    char path[LINE + 32], limit[64], use[64] = "0";

    snprintf(path, sizeof path, "%s/%s", folder, use_file);
    (void)first_line(path, use, sizeof use);
    snprintf(path, sizeof path, "%s/%s", folder, limit_file);
    if (!first_line(path, limit, sizeof limit)) {
        return false;
    }
    /* Version 1 says "no limit" by a number near 2^63. */
    printf("  cgroup %s: %s, %s in use\n", folder,
           strcmp(limit, "max") == 0 || strlen(limit) > 18
               ? "no limit"
               : size_of(strtoull(limit, NULL, 10)).text,
           size_of(strtoull(use, NULL, 10)).text);
    return true;
}

/* The process's cgroup and those above it, the innermost first. */
static void print_cgroups(void)
{
    char own[LINE], folder[LINE + 32];
    bool any = false;

    if (line_with("/proc/self/cgroup", "0::", own, sizeof own)) {
        while (snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", own) > 0) {
            char *slash = strrchr(own, '/');

            any |= print_cgroup(folder, "memory.max", "memory.current");
            if (slash == NULL || own[1] == '\0') {
                break;
            }
            slash[slash == own] = '\0';
        }
    }
    if (!any && line_with("/proc/self/cgroup", ":memory:", own, sizeof own)) {
        snprintf(folder, sizeof folder, "/sys/fs/cgroup/memory%s", own);
        any = print_cgroup(folder, "memory.limit_in_bytes",
                           "memory.usage_in_bytes") ||
              print_cgroup("/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                           "memory.usage_in_bytes");
    }
    if (!any) {
        printf("  cgroup: no limit on memory found\n");
    }
}

static void print_overcommit(void)
{
    static const char *const modes[] = {"0, heuristic", "1, always",
                                        "2, never"};
    char mode[16], limit[64] = "0", used[64] = "0";

    if (!first_line("/proc/sys/vm/overcommit_memory", mode, sizeof mode) ||
        mode[0] < '0' || mode[0] > '2') {
        return;
    }
    (void)line_with("/proc/meminfo", "CommitLimit:", limit, sizeof limit);
    (void)line_with("/proc/meminfo", "Committed_AS:", used, sizeof used);
    printf("  overcommit (vm.overcommit_memory): %s; %s committed of %s\n",
           modes[mode[0] - '0'], size_of(kib(used)).text,
           size_of(kib(limit)).text);
}

/* What stands in brackets: the kernel's choice. */
static void print_choice(const char *path)
{
    char line[96], *choice;

    if (!first_line(path, line, sizeof line)) {
        printf("not to be had");
        return;
    }
    choice = strchr(line, '[');
    choice = choice != NULL ? choice + 1 : line;
    printf("%.*s", (int)strcspn(choice, "]"), choice);
}

static void print_huge_pages(void)
{
    static const char folder[] = "/sys/kernel/mm/transparent_hugepage";
    char path[96], total[64] = "0", unused[64] = "0";

    printf("  huge pages: transparent ");
    snprintf(path, sizeof path, "%s/enabled", folder);
    print_choice(path);
    printf(" (defrag ");
    snprintf(path, sizeof path, "%s/defrag", folder);
    print_choice(path);
    (void)line_with("/proc/meminfo", "HugePages_Total:", total, sizeof total);
    (void)line_with("/proc/meminfo", "HugePages_Free:", unused, sizeof unused);
    printf("); set aside (vm.nr_hugepages) %s, %s of them free\n", total,
           unused);
}

static void print_memory(void)
{
    char total[64], available[64] = "0";

    if (line_with("/proc/meminfo", "MemTotal:", total, sizeof total)) {
        (void)line_with("/proc/meminfo", "MemAvailable:", available,
                        sizeof available);
        printf("  memory: %s, %s available\n", size_of(kib(total)).text,
               size_of(kib(available)).text);
    }
}

/* ---- nodes ----------------------------------------------------------------
 */

static void print_nodes(void)
{
    char nodes[256];

    if (!first_line("/sys/devices/system/node/online", nodes, sizeof nodes)) {
        printf("nodes: the kernel tells none\n");
        return;
    }
    printf("nodes: %s\n", nodes);
    for (int i = 0; i < 1024; i++) {
        char path[96], cpus[256] = "", total[64];

        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist",
                 i);
        if (!first_line(path, cpus, sizeof cpus)) {
            continue;
        }
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo",
                 i);
        if (!line_with(path, "MemTotal:", total, sizeof total)) {
            strcpy(total, "0");
        }
        printf("  %d: %s, CPUs %s\n", i, size_of(kib(total)).text,
               *cpus != '\0' ? cpus : "none");
    }
}

/* ---- options --------------------------------------------------------------
 */

static void print_options(warm_runtime *runtime)
{
    const char *conf = secure_getenv("WARMPOOL_CONF");
    size_t needed = 0;
    char *text;

    printf("WARMPOOL_CONF: %s\n", conf != NULL ? conf : "not set");
    if (warm_runtime_options(runtime, NULL, 0, &needed) != WARM_OK ||
        (text = malloc(needed)) == NULL) {
        return;
    }
    (void)warm_runtime_options(runtime, text, needed, NULL);
    printf("options in force (none that write files: this program only "
           "looks):\n");
    for (char *line = strtok(text, "\n"); line != NULL;
         line = strtok(NULL, "\n")) {
        printf("  %s\n", line);
    }
    free(text);
}

static int usage(FILE *to)
{
    fprintf(to,
            "usage: warmpool-info [--help] [key:value,...]\n"
            "\n"
            "Prints what warmpool %s finds on this machine: devices, the "
            "libraries of the\n"
            "kinds of handles, limits on memory, NUMA nodes, and the options "
            "in force. Options\n"
            "are those of WARMPOOL_CONF, or the argument instead of it; "
            "WARMPOOL_CONF=help\n"
            "prints what there is.\n",
            warm_version());
    return to == stdout ? 0 : 2;
}

/* Writes no file, whatever WARMPOOL_CONF says. */
static warm_status make(warm_runtime **runtime)
{
    warm_options options = WARM_INIT(warm_options);

    options.trace = "";
    options.log_file = "";
    options.stats_at_exit = "";
    options.pin_lock_file = "";
    options.snapshot_signal = "none";
    return warm_runtime_create(&options, runtime);
}

int main(int argc, char **argv)
{
    warm_runtime *runtime = NULL;
    warm_status status;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        return usage(stdout);
    }
    if (argc > 2 || (argc == 2 && argv[1][0] == '-') ||
        (argc == 2 && setenv("WARMPOOL_CONF", argv[1], 1) != 0)) {
        return usage(stderr);
    }
    printf("warmpool %s\n", warm_version());
    status = make(&runtime);
    if (status == WARM_OK) {
        print_devices(runtime);
        print_libraries(runtime);
    } else {
        printf("no runtime: %s\n", warm_last_error_message());
    }
    printf("limits:\n");
    print_memory();
    print_memlock();
    print_cgroups();
    print_overcommit();
    print_huge_pages();
    print_nodes();
    if (status == WARM_OK) {
        print_options(runtime);
        (void)warm_runtime_destroy(runtime, NULL);
    }
    return status == WARM_OK ? 0 : 1;
}
