/* check_hidden.c: page-locked memory is kept out of forked children (row B22).
 *
 * A child reports through its exit code: 0, or the number of its first check
 * that failed. */
#include "wt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;

static const char *const ways[] = {"alloc", "register"};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void begin(int way)
{
    runtime = wt_runtime_with(.segment = MIB, .pin = ways[way]);
}

static int wait_for(pid_t pid)
{
    int status = 0;

    wt_require(waitpid(pid, &status, 0) == pid, "no child %d", (int)pid);
    return status;
}

static int in_child(int (*fn)(void))
{
    pid_t pid = fork();

    wt_require(pid >= 0, "no child");
    if (pid == 0) {
        _exit(fn());
    }
    return wait_for(pid);
}

static void child_succeeds(int (*fn)(void))
{
    int status = in_child(fn);

    wt_require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
               "the child ended with %#x", (unsigned)status);
}

/* ---- what a process maps ------------------------------------------------- */

static char *region;
static size_t region_bytes;

/* Bytes of the region that this process can access, as its smaps say, and
 * bytes of it that are in memory. */
static size_t look_at_region(size_t *resident)
{
    uintptr_t first = (uintptr_t)region, last = first + region_bytes;
    FILE *file = fopen("/proc/self/smaps", "re");
    uintptr_t begin, end;
    size_t found = 0, kib;
    bool inside = false;
    char line[512], access[5];

    *resident = 0;
    if (file == NULL) {
        return SIZE_MAX;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end,
                   access) == 3) {
            inside = begin < last && first < end;
            if (inside && strncmp(access, "---", 3) != 0) {
                found +=
                    (end < last ? end : last) - (begin > first ? begin : first);
            }
        } else if (inside && sscanf(line, "Rss: %zu kB", &kib) == 1) {
            *resident += kib << 10;
        }
    }
    fclose(file);
    return found;
}

static int check_absent(void)
{
    size_t resident;

    return look_at_region(&resident) != 0 ? 1 : resident != 0 ? 2 : 0;
}

static int check_present(void)
{
    size_t resident;

    return look_at_region(&resident) == region_bytes ? 0 : 1;
}

static int touch(void)
{
    signal(SIGSEGV, SIG_DFL);
    return *(volatile char *)region;
}

WT_CASE("hidden", .timeout = 60);

WT_LOOP_TEST(test_B22_a_child_has_no_page_of_pinned_memory, WAYS)
{
    size_t resident;
    int status;

    wt_needs(!wt_emulated(), WT_EMULATED);
    begin(_i);
    region_bytes = 3 * MIB;
    region = wt_pinned(runtime, region_bytes);
    memset(region, 1, region_bytes);
    ck_assert_uint_eq(look_at_region(&resident), region_bytes);
    ck_assert_uint_ge(resident, region_bytes);
    child_succeeds(check_absent);
    status = in_child(touch);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) != 1,
                  "the child read the parent's memory");
    ck_assert_int_eq(region[region_bytes - 1], 1);
    wt_ok(warm_free(region));
    wt_runtime_end(runtime);
}

WT_TEST(test_B18_B22_nor_of_write_combined_memory)
{
    void *pointer = NULL;
    size_t resident;

    wt_needs(!wt_emulated(), WT_EMULATED);
    begin(0);
    region_bytes = 3 * MIB;
    wt_ok(warm_pinned_alloc_on(runtime, region_bytes, WARM_NODE_ANY,
                               WARM_ALLOC_WRITE_COMBINED, &pointer));
    region = pointer;
    memset(region, 1, region_bytes);
    ck_assert_uint_eq(look_at_region(&resident), region_bytes);
    child_succeeds(check_absent);
    wt_ok(warm_free(region));
    wt_runtime_end(runtime);
}

/* What lies at the addresses later is the program's, and its children's. */
/* ---- a fork while memory is locked --------------------------------------- */

/* A child of a fork right after the lock: 1: it reads the memory. */
static _Atomic int looks; /* the children to fork */
static _Atomic unsigned seen, forked;

static void look_from_child(const void *locked)
{
    int ends[2], status = 0;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        return;
    }
    if (pid == 0) { /* a system call fails where an access would end it */
        _exit(write(ends[1], locked, 1) == 1 ? 1 : 0);
    }
    if (waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
        forked++;
        seen += WEXITSTATUS(status) == 1;
    }
    close(ends[0]);
    close(ends[1]);
}

/* In front of the C library's, which the host device calls. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
WARM_API int mlock(const void *base, size_t bytes)
{
    int result = (int)syscall(SYS_mlock, base, bytes);

    if (looks > 0) {
        looks--;
        look_from_child(base);
    }
    return result;
}

WT_LOOP_TEST(test_B22_a_child_of_a_fork_during_the_lock_has_no_page, 2 * WAYS)
{
    void *block = NULL;

    wt_needs(!wt_emulated(), WT_EMULATED);
    begin(_i % WAYS);
    seen = forked = 0;
    looks = 1;
    if (_i / WAYS == 0) {
        block = wt_pinned(runtime, 3 * MIB);
    } else {
        wt_ok(
            warm_shared_alloc(runtime, 0, 3 * MIB, WARM_USAGE_SHARED, &block));
    }
    looks = 0;
    ck_assert(forked == 1 || !wt_on_host());
    ck_assert_uint_eq(seen, 0);
    wt_ok(warm_free(block));
    wt_runtime_end(runtime);
}

WT_LOOP_TEST(test_B22_B11_memory_that_went_back_leaves_no_mark, WAYS)
{
    void *base;

    begin(_i);
    region_bytes = 3 * MIB;
    region = wt_pinned(runtime, region_bytes);
    wt_ok(warm_free(region));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    base = mmap(region, region_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    region = base;
    child_succeeds(check_present);
    munmap(base, region_bytes);
    wt_runtime_end(runtime);
}

/* ---- copies of pages ----------------------------------------------------- */

static void write_pages(char *base, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4096) {
        ((volatile char *)base)[i]++;
    }
}

/* Page faults while the parent writes to pages that it had when it forked: each
 * page that it shares with the child is copied. */
static long faults_beside_child(char *base, size_t bytes)
{
    struct rusage before, after;
    int ends[2];
    char byte;
    pid_t pid;

    write_pages(base, bytes);
    wt_require(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
    pid = fork();
    wt_require(pid >= 0, "no child");
    if (pid == 0) { /* lives until the parent has written */
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(ends[0]);
    getrusage(RUSAGE_SELF, &before);
    write_pages(base, bytes);
    getrusage(RUSAGE_SELF, &after);
    close(ends[1]);
    ck_assert_int_eq(wait_for(pid), 0);
    return after.ru_minflt - before.ru_minflt;
}

/* ThreadSanitizer's own pages are copied. */
WT_LOOP_TEST(test_B22_the_parents_pages_are_not_copied, WT_TSAN ? 0 : WAYS)
{
    enum { PAGES = 256 };
    size_t bytes = PAGES * (size_t)4096;
    char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *pinned;

    wt_needs(!wt_emulated(), WT_EMULATED);
    begin(_i);
    pinned = wt_pinned(runtime, bytes);
    ck_assert_ptr_ne(own, MAP_FAILED);
    madvise(own, bytes, MADV_NOHUGEPAGE);
    ck_assert_int_ge(faults_beside_child(own, bytes), PAGES);
    ck_assert_int_lt(faults_beside_child(pinned, bytes), PAGES / 4);
    munmap(own, bytes);
    wt_ok(warm_free(pinned));
    wt_runtime_end(runtime);
}

/* ---- the addresses ------------------------------------------------------- */

enum { BLOCKS = 32 };
static void *parents[BLOCKS];

static bool overlaps_parents(const char *base, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++) {
        const char *other = parents[i];

        if (base < other + MIB && other < base + bytes) {
            return true;
        }
    }
    return false;
}

static int use_own_memory(void)
{
    warm_options options = {
        .size = sizeof options, .device = "host", .segment = MIB};
    warm_runtime *own = NULL;
    void *blocks[BLOCKS];

    if (warm_runtime_create(&options, &own) != WARM_OK) {
        return 1;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (warm_pinned_alloc(own, MIB, &blocks[i]) != WARM_OK) {
            return 2;
        }
        memset(blocks[i], i, MIB);
        if (overlaps_parents(blocks[i], MIB)) {
            return 3;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (warm_free(blocks[i]) != WARM_OK ||
            warm_free(parents[i]) != WARM_FORKED) {
            return 4;
        }
    }
    return warm_runtime_destroy(own, NULL) == WARM_OK ? 0 : 5;
}

WT_LOOP_TEST(test_B22_G5_the_childs_memory_lies_at_other_addresses,
             WT_TSAN ? 0 : WAYS)
{
    wt_needs(!wt_emulated(), WT_EMULATED);
    begin(_i);
    for (int i = 0; i < BLOCKS; i++) {
        parents[i] = wt_pinned(runtime, MIB);
    }
    child_succeeds(use_own_memory);
    wt_free_all(parents, BLOCKS);
    wt_runtime_end(runtime);
}
