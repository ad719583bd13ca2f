/* check_host_memory.c: memory of the host device (row G3). */
#include "wt_one_host.h"

#include "runtime/base/log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <unistd.h>

static void setup(void)
{
    wt_reopen(2, 1 << 20);
}

WT_CASE("device", .setup = setup, .teardown = wt_close);

static size_t free_bytes(int device)
{
    size_t free = 0, total = 0;

    wt_ok(wm_driver_device_memory(d, device, &free, &total));
    ck_assert_uint_eq(total, 1 << 20);
    return free;
}

WT_TEST(test_G3_device_memory_is_limited_exactly)
{
    void *a = NULL, *b = NULL, *c = NULL;

    wt_ok(wm_driver_device_alloc(d, 0, 1000, &a));
    ck_assert_uint_eq(free_bytes(0), (1 << 20) - 1000);
    ck_assert_uint_eq(free_bytes(1), 1 << 20);
    wt_ok(wm_driver_device_alloc(d, 0, (1 << 20) - 1000, &b));
    ck_assert_uint_eq(free_bytes(0), 0);
    wt_fails(WARM_OUT_OF_MEMORY, wm_driver_device_alloc(d, 0, 1, &c));
    wt_host_error(2);
    wt_says("requested 1 B, but 0 B of 1.0 MiB are free");
    ck_assert_ptr_null(c);
    wt_ok(wm_driver_device_alloc(d, 1, 1 << 20, &c));
    memset(a, 1, 1000);
    memset(b, 2, (1 << 20) - 1000);
    memset(c, 3, 1 << 20);
    wt_ok(wm_driver_device_free(d, 0, a));
    ck_assert_uint_eq(free_bytes(0), 1000);
    wt_ok(wm_driver_device_free(d, 0, b));
    wt_ok(wm_driver_device_free(d, 1, c));
    ck_assert_uint_eq(free_bytes(0), 1 << 20);
    ck_assert_uint_eq(free_bytes(1), 1 << 20);
}

WT_TEST(test_F1_managed_memory_is_the_devices_and_the_hosts)
{
    wm_managed support = WM_MANAGED_NONE;
    void *managed = NULL, *address = NULL;

    wt_ok(wm_driver_managed_support(d, 1, &support));
    ck_assert_int_eq(support, WM_MANAGED_WORKS);
    wt_ok(wm_driver_managed_alloc(d, 1, 1000, &managed));
    ck_assert_uint_eq(free_bytes(1), (1 << 20) - 1000);
    memset(managed, 1, 1000);
    wt_ok(wm_driver_device_address(d, 1, managed, &address));
    ck_assert_ptr_eq(address, managed);
    wt_ok(wm_driver_device_free(d, 1, managed));
    ck_assert_uint_eq(free_bytes(1), 1 << 20);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_managed_alloc(d, 1, 2 << 20, &managed));
}

WT_TEST(test_G3_memory_is_page_aligned)
{
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    void *pointer = NULL;

    for (size_t bytes = 1; bytes < 20000; bytes += 3777) {
        wt_ok(wm_driver_device_alloc(d, 0, bytes, &pointer));
        ck_assert_uint_eq((uintptr_t)pointer & mask, 0);
        wt_ok(wm_driver_pinned_alloc(d, bytes, &pointer));
        ck_assert_uint_eq((uintptr_t)pointer & mask, 0);
        memset(pointer, 1, bytes);
        wt_ok(wm_driver_pinned_free(d, pointer, bytes));
    }
}

WT_TEST(test_G3_unknown_and_freed_pointers_are_refused)
{
    void *device = NULL, *pinned = NULL;
    char local;

    wt_ok(wm_driver_device_alloc(d, 0, 8192, &device));
    wt_ok(wm_driver_pinned_alloc(d, 8192, &pinned));
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 0, &local));
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 0, pinned));
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 1, device));
    wt_fails(WARM_INVALID_POINTER,
             wm_driver_device_free(d, 0, (char *)device + 4096));
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_free(d, device, 8192));
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_free(d, pinned, 4096));
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_unregister(d, pinned));
    wt_host_error(713);
    ck_assert_uint_eq(free_bytes(0), (1 << 20) - 8192);
    wt_ok(wm_driver_device_free(d, 0, device));
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 0, device));
    wt_ok(wm_driver_pinned_free(d, pinned, 8192));
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_free(d, pinned, 8192));
    wt_host_error(1);
    ck_assert_uint_eq(free_bytes(0), 1 << 20);
}

static char *export_here(size_t bytes, wm_ipc_name *name)
{
    void *pointer = NULL;

    wt_ok(wm_driver_device_alloc(d, 0, bytes, &pointer));
    wt_ok(wm_driver_ipc_export(d, 0, pointer, name));
    return pointer;
}

WT_TEST(test_C9_only_memory_of_its_device_is_named)
{
    wm_ipc_name name = {{0}}, other = {{0}};
    void *pinned = NULL, *got = &got;
    char *first = export_here(8192, &name);
    char *second = export_here(8192, &other);

    ck_assert(memcmp(&name, &other, sizeof name) != 0);
    memset(&other, 0, sizeof other);
    wt_ok(wm_driver_pinned_alloc(d, 8192, &pinned));
    wt_fails(WARM_INVALID_POINTER, wm_driver_ipc_export(d, 1, first, &other));
    wt_fails(WARM_INVALID_POINTER, wm_driver_ipc_export(d, 0, pinned, &other));
    wt_fails(WARM_INVALID_POINTER,
             wm_driver_ipc_export(d, 0, first + 4096, &other));
    /* It is this process's own, and no one's, and none that was opened. */
    wt_fails(WARM_UNAVAILABLE, wm_driver_ipc_open(d, 0, &name, &got));
    wt_host_error(205);
    wt_fails(WARM_UNAVAILABLE, wm_driver_ipc_open(d, 0, &other, &got));
    ck_assert_ptr_eq(got, &got);
    wt_fails(WARM_INVALID_POINTER, wm_driver_ipc_close(d, 0, first));
    wt_ok(wm_driver_device_free(d, 0, first));
    wt_fails(WARM_INVALID_POINTER, wm_driver_ipc_export(d, 0, first, &other));
    wt_ok(wm_driver_device_free(d, 0, second));
    wt_ok(wm_driver_pinned_free(d, pinned, 8192));
}

/* A process that has the file as well; it ends when told is closed. */
static pid_t fork_idle(int *told)
{
    int ends[2];
    pid_t pid;
    char byte;

    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        _exit(0);
    }
    close(ends[0]);
    *told = ends[1];
    return pid;
}

/* What a name consists of: see host_ipc.c. */
enum { PID, FILE_NUMBER, FILE_DEVICE, INODE, OFFSET, LENGTH, WORDS };

static wm_ipc_name altered(const wm_ipc_name *name, int word, uint64_t value)
{
    wm_ipc_name other = *name;

    memcpy(other.bytes + (size_t)word * sizeof value, &value, sizeof value);
    return other;
}

WT_TEST(test_C9_name_leads_to_that_file_alone)
{
    static const struct {
        int word;
        uint64_t value;
    } wrong[] = {{FILE_NUMBER, 0},
                 {FILE_NUMBER, 99},
                 {FILE_DEVICE, UINT64_MAX},
                 {INODE, 1},
                 {OFFSET, (uint64_t)1 << 62},
                 /* half of it beyond the file's end */
                 {OFFSET, ((uint64_t)1 << 60) - 4096},
                 {LENGTH, (uint64_t)1 << 62},
                 {LENGTH, UINT64_MAX}};
    wm_ipc_name name = {{0}}, bad;
    char *block = export_here(8192, &name);
    void *got = NULL;
    int told = -1;
    pid_t pid = fork_idle(&told);

    name = altered(&name, PID, (uint64_t)pid);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bad = altered(&name, wrong[i].word, wrong[i].value);
        wt_fails(WARM_UNAVAILABLE, wm_driver_ipc_open(d, 0, &bad, &got));
        ck_assert_ptr_null(got);
    }
    wt_ok(wm_driver_ipc_open(d, 0, &name, &got));
    close(told);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    block[5] = 7;
    ck_assert_int_eq(((char *)got)[5], 7);
    ((char *)got)[8191] = 9;
    ck_assert_int_eq(block[8191], 9);
    ck_assert_uint_eq(free_bytes(0), (1 << 20) - 8192);
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 0, got));
    wt_fails(WARM_INVALID_POINTER, wm_driver_ipc_export(d, 0, got, &bad));
    wt_ok(wm_driver_ipc_close(d, 0, got));
    wt_fails(WARM_INVALID_POINTER, wm_driver_ipc_close(d, 0, got));
    ck_assert_int_eq(block[8191], 9);
    wt_ok(wm_driver_device_free(d, 0, block));
}

/* Freed, it is no memory that another process can open, whatever comes after
 * it. */
WT_TEST(test_C9_name_of_memory_that_is_gone_opens_nothing)
{
    wm_ipc_name name = {{0}}, later = {{0}};
    char *block = export_here(8192, &name), *next;
    void *got = NULL;
    int told = -1;
    pid_t pid = fork_idle(&told);

    name = altered(&name, PID, (uint64_t)pid);
    wt_ok(wm_driver_device_free(d, 0, block));
    wt_fails(WARM_UNAVAILABLE, wm_driver_ipc_open(d, 0, &name, &got));
    wt_says("shares no such memory, or has freed it");
    next = export_here(8192, &later);
    wt_fails(WARM_UNAVAILABLE, wm_driver_ipc_open(d, 0, &name, &got));
    later = altered(&later, PID, (uint64_t)pid);
    close(STDIN_FILENO); /* 0 is a descriptor as any other */
    wt_ok(wm_driver_ipc_open(d, 0, &later, &got));
    wt_ok(wm_driver_ipc_close(d, 0, got));
    close(told);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    wt_ok(wm_driver_device_free(d, 0, next));
}

/* The file of all devices is longer than such a limit lets one be. */
WT_TEST(test_C9_without_long_files_memory_is_not_shared)
{
    struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
    wm_ipc_name name;
    void *pointer = NULL;

    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    wt_reopen(1, 1 << 20);
    wt_ok(wm_driver_device_alloc(d, 0, 8192, &pointer));
    memset(pointer, 1, 8192);
    wt_fails(WARM_DRIVER_ERROR, wm_driver_ipc_export(d, 0, pointer, &name));
    wt_host_error(304);
    wt_ok(wm_driver_device_free(d, 0, pointer));
}

/* What is freed is with the system again, and what comes next is zeroed. */
WT_TEST(test_G3_device_memory_goes_back)
{
    struct stat file;
    char *first = NULL;

    for (int i = 0; i < 3; i++) {
        void *pointer = NULL;

        wt_ok(wm_driver_device_alloc(d, 0, 1 << 20, &pointer));
        first = pointer;
        ck_assert_int_eq(first[12345], 0);
        memset(first, 1, 1 << 20);
        ck_assert_int_eq(fstat(wm_host_of(d)->file, &file), 0);
        ck_assert_int_eq(file.st_blocks, (1 << 20) / 512);
        wt_ok(wm_driver_device_free(d, 0, pointer));
        ck_assert_int_eq(fstat(wm_host_of(d)->file, &file), 0);
        ck_assert_int_eq(file.st_blocks, 0);
    }
}

WT_TEST(test_G3_impossible_sizes_are_out_of_memory)
{
    void *pointer = NULL;

    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_pinned_alloc(d, (size_t)1 << 60, &pointer));
    wt_says("1048576.0 TiB");
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_pinned_alloc(d, SIZE_MAX - 5, &pointer));
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_device_alloc(d, 0, SIZE_MAX - 5, &pointer));
    wt_invalid(wm_driver_pinned_alloc(d, 0, &pointer));
    wt_invalid(wm_driver_device_alloc(d, 0, 0, &pointer));
    ck_assert_ptr_null(pointer);
    ck_assert_uint_eq(free_bytes(0), 1 << 20);
}

WT_TEST(test_G3_register_and_unregister)
{
    char *memory = aligned_alloc(4096, 16384);
    void *pinned = NULL;

    ck_assert_ptr_nonnull(memory);
    wt_ok(wm_driver_pinned_alloc(d, 4096, &pinned));
    wt_ok(wm_driver_pinned_register(d, memory, 8192));
    wt_invalid(wm_driver_pinned_register(d, memory, 8192));
    wt_host_error(712);
    wt_invalid(wm_driver_pinned_register(d, memory + 8191, 10));
    wt_invalid(wm_driver_pinned_register(d, pinned, 10));
    wt_invalid(wm_driver_pinned_register(d, NULL, 10));
    wt_invalid(wm_driver_pinned_register(d, memory, 0));
    wt_ok(wm_driver_pinned_register(d, memory + 8192, 10));
    wt_ok(wm_driver_pinned_unregister(d, memory));
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_unregister(d, memory));
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_free(d, memory, 8192));
    wt_ok(wm_driver_pinned_register(d, memory, 8192));
    /* The memory stays its owner's; close unregisters the rest. */
    wt_close();
    memset(memory, 1, 16384);
    free(memory);
}

#if WT_MLOCK_WORKS
/* Bytes of this process that are locked, as the kernel tells it. */
static unsigned long locked_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    unsigned long kib = 0;
    char line[256];

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "VmLck: %lu", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return kib;
}

static uint64_t unlocked(void)
{
    return atomic_load_explicit(&wm_host_of(d)->unlocked, memory_order_relaxed);
}

/* Honest: what the device says of its pages is what the kernel says. */
WT_TEST(test_G3_pinned_pages_are_locked_or_counted)
{
    enum { BYTES = 1 << 18 };
    unsigned long before = locked_kib();
    void *pointer = NULL;

    wt_ok(wm_driver_pinned_alloc(d, BYTES, &pointer));
    ck_assert_uint_eq((locked_kib() - before) * 1024 + unlocked(), BYTES);
    wt_ok(wm_driver_pinned_free(d, pointer, BYTES));
    ck_assert_uint_eq(locked_kib(), before);
}

static struct {
    unsigned count;
    char line[512];
} told;

static void tell(void *context, warm_log_level level, const char *line)
{
    if (level == WARM_LOG_INFO && strstr(line, "not page-locked") != NULL) {
        told.count++;
        snprintf(told.line, sizeof told.line, "%s", line);
    }
}

/* mlock of pages that cannot be had fails for everybody, also for root. */
WT_TEST(test_G3_pages_that_cannot_be_locked_are_told)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *hole =
        mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(hole, MAP_FAILED);
    wm_log_set_level(WARM_LOG_INFO);
    warm_log_set(tell, NULL);
    munmap(hole, 2 * page);
    wt_ok(wm_driver_pinned_register(d, hole, page));
    ck_assert_uint_eq(unlocked(), page);
    wt_ok(wm_driver_pinned_unregister(d, hole));
    wt_close();
    ck_assert_uint_eq(told.count, 1);
    wt_contains(told.line, "4.0 KiB");
}
#endif

/* The pages stay until the copy that uses them is done, the count does not. */
WT_TEST(test_G3_free_with_work_queued_waits_for_nobody)
{
    warm_stream s = wt_host_stream(d, 0), held = wt_host_stream(d, 0);
    void *device = NULL, *pinned = NULL;
    char back[4096] = "";

    wt_ok(wm_driver_device_alloc(d, 0, 4096, &device));
    wt_ok(wm_driver_pinned_alloc(d, 4096, &pinned));
    strcpy(pinned, "kept");
    wt_hold(d, s);
    wt_hold(d, held);
    wt_ok(wm_driver_event_record(d, wt_host_event(d, 0), held));
    wt_ok(wm_driver_copy(d, device, pinned, 4096, WARM_COPY_TO_DEVICE, s));
    wt_ok(wm_driver_copy(d, back, device, 4096, WARM_COPY_TO_HOST, s));
    wt_ok(wm_driver_device_free(d, 0, device));
    wt_ok(wm_driver_pinned_free(d, pinned, 4096));
    ck_assert_uint_eq(free_bytes(0), 1 << 20);
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 0, device));
    wt_resume(d, s);
    wt_ok(wm_driver_stream_synchronize(d, s));
    ck_assert_str_eq(back, "kept");
    ck_assert_ptr_nonnull(wm_host_of(d)->zombies);
    wt_resume(d, held);
    wt_ok(wm_driver_stream_synchronize(d, held));
    wm_host_lock(wm_host_of(d));
    ck_assert_ptr_null(wm_host_of(d)->zombies);
    wm_host_unlock(wm_host_of(d));
}

enum { RANGE_MEMORY = 8 << 20 };

static size_t free_of(void)
{
    size_t free = 0, total = 0;

    wt_ok(wm_driver_device_memory(d, 0, &free, &total));
    return free;
}

/* The limit counts what has memory; that comes as zeros, and goes at once. */
WT_TEST(test_C8_G3_a_range_gets_memory_and_loses_it)
{
    size_t unit = 0;
    void *range = NULL, *other = NULL;
    char *at;

    wt_reopen(1, RANGE_MEMORY);
    wt_ok(wm_driver_range_unit(d, 0, &unit));
    wt_ok(wm_driver_range_reserve(d, 0, 3 * unit, &range));
    wt_ok(wm_driver_range_reserve(d, 0, 2 * unit, &other));
    ck_assert_uint_eq((uintptr_t)range % unit, 0);
    ck_assert_uint_eq(free_of(), RANGE_MEMORY);
    for (int i = 0; i < 2; i++) {
        wt_ok(wm_driver_range_commit(d, 0, range, 3 * unit, NULL));
        ck_assert_uint_eq(free_of(), RANGE_MEMORY - 3 * unit);
        at = range;
        ck_assert_int_eq(at[0] + at[3 * unit - 1], 0);
        memset(at, 1, 3 * unit);
        wt_fails(WARM_OUT_OF_MEMORY,
                 wm_driver_range_commit(d, 0, other, 2 * unit, NULL));
        wt_invalid(wm_driver_range_release(d, 0, range, 3 * unit));
        wt_ok(wm_driver_range_decommit(d, 0, range, 3 * unit));
        ck_assert_uint_eq(free_of(), RANGE_MEMORY);
    }
    wt_ok(wm_driver_range_release(d, 0, range, 3 * unit));
    wt_ok(wm_driver_range_release(d, 0, other, 2 * unit));
}

#if !WT_TSAN
static char *place; /* of the next mapping */

/* The C library names its parameters otherwise. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) void *
mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    static __typeof__(&mmap) real;

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    }
    if (place != NULL) {
        at = place;
        flags |= MAP_FIXED_NOREPLACE;
        place = NULL;
    }
    return real(at, bytes, prot, flags, fd, offset);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* It is cut out of a mapping that need not begin at a unit. */
WT_TEST(test_C8_G3_a_range_leaves_its_neighbours)
{
    size_t unit = 0, behind;
    unsigned char pages[4096];
    void *range = NULL;
    char *all, *at;

    wt_needs(!wt_emulated(), WT_EMULATED);
    wt_ok(wm_driver_range_unit(d, 0, &unit));
    all = mmap(NULL, 8 * unit, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    at = all + (unit - (uintptr_t)all % unit) + unit / 2;
    ck_assert_int_eq(munmap(at, 2 * unit), 0);
    place = at;
    wt_ok(wm_driver_range_reserve(d, 0, unit, &range));
    ck_assert_ptr_eq(range, at + unit / 2);
    ck_assert_int_eq(mincore(range, unit, pages), 0);
    ck_assert_int_eq(mincore(at, unit / 2, pages), -1);
    ck_assert_int_eq(mincore(at + 3 * unit / 2, unit / 2, pages), -1);
    behind = (size_t)(all + 8 * unit - (at + 2 * unit));
    ck_assert_int_eq(mincore(all, (size_t)(at - all), pages), 0);
    ck_assert_int_eq(mincore(at + 2 * unit, behind, pages), 0);
    wt_ok(wm_driver_range_release(d, 0, range, unit));
    ck_assert_int_eq(munmap(all, 8 * unit), 0);
}
#endif

WT_TEST(test_C8_G3_a_range_without_addresses_is_refused)
{
    struct rlimit before, limit;
    void *range = NULL;

    wt_needs(!wt_emulated(), WT_EMULATED);
    wt_reopen(1, RANGE_MEMORY);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)1 << 45;
    if (!WT_TSAN) { /* which needs more addresses than that */
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    }
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_range_reserve(d, 0, (size_t)1 << 46, &range));
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    ck_assert_ptr_null(range);
}

/* Of a device with held work it is not waited for. */
WT_TEST(test_C8_G3_a_device_is_waited_for)
{
    warm_stream s = wt_host_stream(d, 0), held = wt_host_stream(d, 1);
    void *pinned = NULL, *device = NULL;

    wt_ok(wm_driver_pinned_alloc(d, 4096, &pinned));
    wt_ok(wm_driver_device_alloc(d, 0, 4096, &device));
    wt_hold(d, held);
    for (int i = 0; i < 100; i++) {
        wt_ok(wm_driver_copy(d, device, pinned, 4096, WARM_COPY_TO_DEVICE, s));
    }
    wt_ok(wm_driver_event_record(d, wt_host_event(d, 1), held));
    wt_ok(wm_driver_device_synchronize(d, 0));
    wt_ok(wm_driver_stream_query(d, s));
    wt_fails(WARM_NOT_READY, wm_driver_device_synchronize(d, 1));
    wt_resume(d, held);
    wt_ok(wm_driver_device_synchronize(d, 1));
    wt_ok(wm_driver_pinned_free(d, pinned, 4096));
    wt_ok(wm_driver_device_free(d, 0, device));
}

WT_TEST(test_C8_G3_what_is_no_range_is_refused)
{
    size_t unit = 0;
    void *range = NULL;

    wt_reopen(2, RANGE_MEMORY);
    wt_ok(wm_driver_range_unit(d, 0, &unit));
    wt_invalid(wm_driver_range_reserve(d, 0, unit + 4096, &range));
    wt_invalid(wm_driver_range_reserve(d, 0, 0, &range));
    ck_assert_ptr_null(range);
    wt_ok(wm_driver_range_reserve(d, 0, 2 * unit, &range));
    wt_fails(WARM_INVALID_POINTER,
             wm_driver_range_commit(d, 1, range, unit, NULL));
    wt_fails(WARM_INVALID_POINTER,
             wm_driver_range_commit(d, 0, (char *)range + unit, unit, NULL));
    wt_invalid(wm_driver_range_commit(d, 0, range, unit, NULL));
    wt_invalid(wm_driver_range_decommit(d, 0, range, 2 * unit));
    wt_ok(wm_driver_range_commit(d, 0, range, 2 * unit, NULL));
    wt_invalid(wm_driver_range_commit(d, 0, range, 2 * unit, NULL));
    wt_invalid(wm_driver_range_decommit(d, 0, range, unit));
    wt_fails(WARM_INVALID_POINTER, wm_driver_device_free(d, 0, range));
    ck_assert_uint_eq(free_of(), RANGE_MEMORY - 2 * unit);
    wt_ok(wm_driver_range_decommit(d, 0, range, 2 * unit));
    wt_invalid(wm_driver_range_release(d, 0, range, unit));
    wt_ok(wm_driver_range_release(d, 0, range, 2 * unit));
    wt_fails(WARM_INVALID_POINTER,
             wm_driver_range_release(d, 0, range, 2 * unit));
    wm_meta_fail(1, false);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_range_reserve(d, 0, 2 * unit, &range));
    wm_meta_fail(0, false);
    ck_assert_uint_eq(free_of(), RANGE_MEMORY);
}

/* Without memory to note what it waits for, it is kept until close. */
WT_TEST(test_G3_free_without_memory_keeps_the_pages)
{
    warm_stream s = wt_host_stream(d, 0);
    void *device = NULL;
    char back[4] = "", again[4] = "";

    wt_ok(wm_driver_device_alloc(d, 0, 4096, &device));
    strcpy(device, "abc");
    wt_hold(d, s);
    wt_ok(wm_driver_copy(d, back, device, 4, WARM_COPY_TO_HOST, s));
    wt_ok(wm_driver_copy(d, again, device, 4, WARM_COPY_TO_HOST, s));
    wm_meta_fail(1, true);
    wt_ok(wm_driver_device_free(d, 0, device));
    wm_meta_fail(0, false);
    wt_resume(d, s);
    wt_ok(wm_driver_stream_synchronize(d, s));
    ck_assert_str_eq(back, "abc");
    ck_assert_str_eq(again, "abc");
}

/* Threads that allocate, copy and free at once; frees come while copies of
 * others are queued. */
struct churn {
    unsigned rounds;
    uint64_t seed;
    _Atomic unsigned failed;
};

static void churn_memory(void *argument, unsigned index)
{
    struct churn *c = argument;
    uint64_t random = c->seed + index;
    warm_stream s = NULL;
    unsigned bad = wm_driver_stream_create(d, 0, &s) != WARM_OK;

    for (unsigned i = 0; i < c->rounds; i++) {
        size_t bytes = 1 + wt_random(&random) % 30000;
        void *device = NULL, *pinned = NULL;

        bad += wm_driver_device_alloc(d, 0, bytes, &device) != WARM_OK;
        bad += wm_driver_pinned_alloc(d, bytes, &pinned) != WARM_OK;
        if (bad > 0) {
            break;
        }
        memset(pinned, (int)i, bytes);
        bad += wm_driver_copy(d, device, pinned, bytes, WARM_COPY_TO_DEVICE,
                              s) != WARM_OK;
        if (wt_random(&random) % 2 == 0) {
            bad += wm_driver_copy(d, pinned, device, bytes, WARM_COPY_TO_HOST,
                                  s) != WARM_OK;
            bad += wm_driver_stream_synchronize(d, s) != WARM_OK;
            bad += ((unsigned char *)pinned)[bytes - 1] != (i & 255);
        }
        bad += wm_driver_device_free(d, 0, device) != WARM_OK;
        bad += wm_driver_pinned_free(d, pinned, bytes) != WARM_OK;
    }
    atomic_fetch_add_explicit(&c->failed, bad, memory_order_relaxed);
}

WT_TEST(test_G3_memory_by_many_threads)
{
    struct churn c = {.rounds = wt_scaled(1000), .seed = wt_seed()};

    wt_threads(4, churn_memory, &c);
    ck_assert_uint_eq(c.failed, 0);
    ck_assert_uint_eq(free_bytes(0), 1 << 20);
}

/* As CUDA's manual says of a copy: memory that is registered in part, or by two
 * calls, is refused. */
WT_TEST(test_B19_a_copy_across_two_registrations_is_refused)
{
    enum { PAGE = 4096 };
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char other[2 * PAGE] = {0};
    warm_stream s = wt_host_stream(d, 0);
    const struct {
        size_t at, bytes;
        bool good;
    } tries[] = {{0, PAGE, true},         {PAGE, PAGE, true},
                 {100, PAGE - 100, true}, {100, PAGE, false},
                 {0, 2 * PAGE, false},    {2 * PAGE - 1, 2, false},
                 {2 * PAGE, PAGE, true},  {PAGE - 1, 1, true}};

    ck_assert(memory != MAP_FAILED);
    wt_ok(wm_driver_copy(d, other, memory, 2 * PAGE, WARM_COPY_TO_HOST, s));
    wt_ok(wm_driver_pinned_register(d, memory, PAGE));
    wt_ok(wm_driver_pinned_register(d, memory + PAGE, PAGE));
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        char *at = memory + tries[i].at;
        size_t bytes = tries[i].bytes;
        const wm_copy_2d rows = {other, 1, at, 1, 1, bytes};
        warm_status expected = tries[i].good ? WARM_OK : WARM_INVALID_ARGUMENT;

        wt_fails(expected,
                 wm_driver_copy(d, other, at, bytes, WARM_COPY_TO_DEVICE, s));
        wt_fails(expected, wm_driver_copy(d, at, other, bytes, WM_COPY_ANY, s));
        wt_fails(expected, wm_driver_copy_2d(d, &rows, s));
        if (!tries[i].good) {
            wt_host_error(1);
        }
    }
    wt_ok(wm_driver_stream_synchronize(d, s));
    wt_ok(wm_driver_pinned_unregister(d, memory));
    wt_ok(wm_driver_pinned_unregister(d, memory + PAGE));
    wt_ok(wm_driver_copy(d, other, memory, 2 * PAGE, WARM_COPY_TO_HOST, s));
    wt_ok(wm_driver_stream_synchronize(d, s));
    wt_ok(wm_driver_stream_destroy(d, s));
    munmap(memory, 4 * PAGE);
}
