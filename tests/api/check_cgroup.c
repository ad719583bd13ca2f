/* check_cgroup.c: two processes in a cgroup whose limit is real (rows F7, F12).
 *
 *   the cgroup, LIMIT ┌─ allocator: a runtime, in which much memory is idle
 *                     └─ eater: takes STEP more each time it is told to
 *
 * What the eater takes and what the allocator has idle are too much together
 * with the next request: the kernel would end one of them, had the allocator
 * not returned idle memory first. The allocator reads the limit before each
 * growth: its clock jumps. */
#include "skip.h"
#include "wt.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

#define LIMIT (112 * MIB)
#define STEP  (8 * MIB)
enum { STEPS = 7 };

/* ---- a cgroup ------------------------------------------------------------ */

static const struct version {
    const char *mount, *line; /* line: its path in /proc/self/cgroup follows */
    const char *limit;
} versions[] = {{"/sys/fs/cgroup", "0::", "memory.max"},
                {"/sys/fs/cgroup/unified", "0::", "memory.max"},
                {"/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes"}};

static char group[1024]; /* its folder */

static bool put(const char *name, const char *text)
{
    char path[1100];
    int file;
    bool good;

    snprintf(path, sizeof path, "%s/%s", group, name);
    file = open(path, O_WRONLY | O_CLOEXEC);
    good = file >= 0 && write(file, text, strlen(text)) > 0;
    if (file >= 0) {
        close(file);
    }
    return good;
}

/* A new cgroup in a folder, with the limit. */
static bool make_in(const struct version *version, const char *folder)
{
    char bytes[32];

    snprintf(group, sizeof group, "%.900s/warmpool-check-%d", folder,
             (int)getpid());
    snprintf(bytes, sizeof bytes, "%zu", LIMIT);
    if (mkdir(group, 0755) != 0) {
        return false;
    }
    if (put(version->limit, bytes)) {
        return true;
    }
    rmdir(group);
    return false;
}

/* In this process's cgroup or, since version 2 wants none beside processes, in
 * one above it. */
static bool make_of(const struct version *version, const char *groups)
{
    const char *line = strstr(groups, version->line);
    char folder[900];
    size_t base = strlen(version->mount);
    const char *path = line != NULL ? line + strlen(version->line) : NULL;

    if (path == NULL) {
        return false;
    }
    snprintf(folder, sizeof folder, "%s%.*s", version->mount,
             (int)strcspn(path, "\n"), path);
    while (!make_in(version, folder)) {
        char *slash = strrchr(folder, '/');

        if (slash < folder + base) {
            return false;
        }
        *slash = '\0';
    }
    return true;
}

static bool make_group(void)
{
    char groups[4096];
    int file = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file >= 0 ? read(file, groups, sizeof groups - 1) : -1;

    if (file >= 0) {
        close(file);
    }
    groups[bytes > 0 ? bytes : 0] = '\0';
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        if (make_of(&versions[i], groups)) {
            return true;
        }
    }
    return false;
}

static bool can_make_group(void)
{
    bool can = make_group();

    if (can) {
        rmdir(group);
    }
    return can;
}

/* ---- the two processes --------------------------------------------------- */

/* What the allocator reports; shared with the test. */
struct report {
    int steps; /* done */
    uint64_t most_held, last_held;
    char why[400];
};

/* Takes STEP for each byte that it receives, and answers it. */
static _Noreturn void eat(int peer)
{
    char byte;

    if (!put("cgroup.procs", "0")) {
        _exit(1);
    }
    while (read(peer, &byte, 1) == 1) {
        char *more = mmap(NULL, STEP, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (more == MAP_FAILED || write(peer, &byte, 1) != 1) {
            _exit(1);
        }
    }
    _exit(0);
}

static uint64_t jump(void)
{
    static _Atomic uint64_t now;

    /* Relaxed: a count. A second each time. */
    return atomic_fetch_add_explicit(&now, 1000000000, memory_order_relaxed);
}

static bool allocate(warm_runtime *runtime, size_t bytes, void **block,
                     struct report *report)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);

    if (warm_pinned_alloc(runtime, bytes, block) != WARM_OK ||
        warm_memory_get_totals(runtime, WARM_MEMORY_OF_HOST, &totals) !=
            WARM_OK) {
        snprintf(report->why, sizeof report->why, "%s",
                 warm_last_error_message());
        return false;
    }
    memset(*block, 1, bytes);
    report->last_held = totals.held_bytes;
    if (totals.held_bytes > report->most_held) {
        report->most_held = totals.held_bytes;
    }
    return true;
}

/* After each step of the eater a block is allocated for which no idle segment
 * is large enough. */
static void take_steps(warm_runtime *runtime, int peer, struct report *report)
{
    void *block[4];
    char byte = 0;

    for (int i = 0; i < 4; i++) {
        if (!allocate(runtime, 16 * MIB, &block[i], report)) {
            return;
        }
    }
    for (int i = 0; i < 4; i++) {
        warm_free(block[i]);
    }
    for (size_t i = 1; i <= STEPS; i++) {
        if (write(peer, &byte, 1) != 1 || read(peer, &byte, 1) != 1) {
            snprintf(report->why, sizeof report->why, "the eater has ended");
            return;
        }
        if (!allocate(runtime, (20 + 2 * i) * MIB, block, report)) {
            return;
        }
        warm_free(block[0]);
        report->steps++;
    }
}

static _Noreturn void run_allocator(int peer, struct report *report)
{
    warm_runtime *runtime;

    if (!put("cgroup.procs", "0")) {
        _exit(1);
    }
    warm_testing_set_clock(jump);
    runtime = wt_runtime_with(.segment = 2 * MIB);
    take_steps(runtime, peer, report);
    warm_runtime_destroy(runtime, NULL);
    _exit(0);
}

/* ---- the test ------------------------------------------------------------ */

WT_CASE("cgroup", .tags = "programs");

WT_TEST(test_F7_F12_idle_memory_goes_as_another_program_eats_the_limit)
{
    struct report *report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2], status[2];
    pid_t child[2];

    ck_assert(report != MAP_FAILED);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ck_assert(make_group());
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        ck_assert_int_ge(child[i], 0);
        if (child[i] == 0) {
            close(ends[1 - i]);
            if (i == 0) {
                eat(ends[0]);
            }
            run_allocator(ends[1], report);
        }
    }
    close(ends[0]);
    close(ends[1]);
    for (int i = 1; i >= 0; i--) {
        waitpid(child[i], &status[i], 0);
    }
    rmdir(group);
    ck_assert_msg(report->steps == STEPS, "after %d steps: %s", report->steps,
                  report->why);
    ck_assert_int_eq(status[0], 0);
    ck_assert_int_eq(status[1], 0);
    /* It held more while there was more. */
    ck_assert_uint_gt(report->most_held, LIMIT - STEPS * STEP);
    ck_assert_uint_le(report->last_held, LIMIT - STEPS * STEP);
    munmap(report, sizeof *report);
}

/* Its only case is left out by its tag under memcheck. A sanitizer's shadow
 * memory counts, too; and what CUDA page-locks is not known to. */
SKIP_MAIN_IF(getenv("CK_EXCLUDE_TAGS") != NULL || WT_TSAN || WT_ASAN ||
                 wt_on_gpu() || !can_make_group(),
             "no cgroup with a limit of memory can be made here, or the "
             "checker's own memory would count")
