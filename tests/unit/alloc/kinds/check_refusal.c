/* check_refusal.c: a refused region names the limit that it met, its value and
 * what to do (row B20): from made-up trees of files, and by limits that are
 * real in a child process. Host device; its registering locks pages or refuses.
 */
#include "wt_host.h"

#include "alloc/kinds/pin.h"
#include "alloc/kinds/refusal.h"
#include "runtime/base/status.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static char root[WT_FOLDER];

static void setup(void)
{
    wt_folder(root);
}

static void teardown(void)
{
    wt_folder_end(root);
}

static void put(const char *name, const char *text)
{
    wt_folder_put(root, name, text);
}

/* ---- made-up trees ------------------------------------------------------- */

static const char no_caps[] =
    "VmSize: 10240 kB\nVmLck: 2048 kB\nCapEff: 0000000000000000\n";
static const char has_caps[] =
    "VmSize: 10240 kB\nVmLck: 2048 kB\nCapEff: 0000000000004000\n";
static const char roomy[] =
    "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapTotal: 0 kB\n"
    "CommitLimit: 4194304 kB\nCommitted_AS: 4190208 kB\n";
static const char node[] =
    "Node 1 MemTotal: 1048576 kB\nNode 1 MemFree: 3072 kB\n";

#define NO_CAPS  "/proc/self/status", no_caps
#define HAS_CAPS "/proc/self/status", has_caps
#define ROOMY    "/proc/meminfo", roomy
#define NODE     "/sys/devices/system/node/node1/meminfo", node
#define TABLE    "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define THP      "/sys/kernel/mm/transparent_hugepage/"

enum { MOST = 10 };

/* The region has 8 MiB; soft limit on locked memory: 4 MiB. */
static const struct {
    enum wm_refusal_step step;
    const char *files[MOST]; /* name, text */
    const char *words[4];    /* in the message */
    size_t held;
    enum wm_huge huge;
    int error;
} trees[] = {
    {.step = WM_REFUSAL_LOCK,
     {ROOMY, NO_CAPS},
     {"RLIMIT_MEMLOCK allows 4.0 MiB", "2.0 MiB are locked", "no CAP_IPC_LOCK",
      "ulimit -l"}},
    /* CUDA's driver counts nothing: more than the limit is held */
    {.step = WM_REFUSAL_LOCK,
     {ROOMY, NO_CAPS},
     {"the driver's own: obtain less at once", "4.0 GiB are available",
      "pin_chunk"},
     .held = 5 * MIB},
    {.step = WM_REFUSAL_LOCK, {ROOMY, HAS_CAPS}, {"the driver's own"}},
    {.step = WM_REFUSAL_LOCK,
     {ROOMY, HAS_CAPS, "/proc/self/cgroup", "0::/a/b\n",
      "/sys/fs/cgroup/a/memory.max", "104857600\n",
      "/sys/fs/cgroup/a/memory.current", "100000000\n"},
     {"cgroup /sys/fs/cgroup/a allows 100.0 MiB (memory.max)",
      "95.4 MiB are charged", "MemoryMax="}},
    {.step = WM_REFUSAL_TOUCH,
     {ROOMY, HAS_CAPS, "/proc/self/cgroup", "4:memory:/a\n",
      "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n",
      "/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "104000000\n"},
     {"cgroup /sys/fs/cgroup/memory/a allows", "(memory.limit_in_bytes)"}},
    {.step = WM_REFUSAL_LOCK,
     {"/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 4096 kB\n",
      HAS_CAPS},
     {"4.0 MiB of the machine's 1.0 GiB are available", "pinned_high"}},
    {.step = WM_REFUSAL_TOUCH,
     {ROOMY, NODE},
     {"node 1 has 3.0 MiB of 1.0 GiB free", "WARM_NODE_ANY"}},
    {.step = WM_REFUSAL_TOUCH, {ROOMY}, {"the kernel has no pages"}},
    {.step = WM_REFUSAL_NODE,
     {ROOMY, NODE},
     {"node 1 has 3.0 MiB of 1.0 GiB free"}},
    {.step = WM_REFUSAL_NODE, {ROOMY}, {"; use another node"}},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, HAS_CAPS, "/proc/sys/vm/max_map_count", "4\n", "/proc/self/maps",
      "a\nb\n"},
     {"allows 4 mappings of a process, and 2 exist", "vm.max_map_count"}},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, HAS_CAPS, "/proc/sys/vm/max_map_count", "2\n"},
     {"allows 2 mappings of a process, and 0 exist"}},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, HAS_CAPS, "/proc/sys/vm/overcommit_memory", "2\n"},
     {"promises 4.0 GiB of memory in all", "is 2", "4.0 GiB are taken",
      "vm.overcommit_ratio"}},
    {.step = WM_REFUSAL_MAP,
     {"/proc/meminfo", "MemTotal: 4096 kB\nSwapTotal: 1024 kB\n", HAS_CAPS,
      "/proc/sys/vm/overcommit_memory", "0\n"},
     {"has 5.0 MiB of memory and swap", "is 0"}},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, NO_CAPS},
     {"RLIMIT_MEMLOCK allows 4.0 MiB"},
     .error = 11 /* EAGAIN */},
    {.step = WM_REFUSAL_MAP, {ROOMY, NO_CAPS}, {"no such range of addresses"}},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, HAS_CAPS, "/proc/sys/vm/max_map_count", "4\n", "/proc/self/maps",
      "a\nb\n"},
     {"allows 4 mappings of a process"},
     .huge = WM_HUGE_REQUIRE},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, TABLE "nr_hugepages", "10\n", TABLE "free_hugepages", "5\n",
      TABLE "resv_hugepages", "2\n"},
     {"it needs 4 huge pages of 2 MiB, and of 10 set aside 3 are free",
      "vm.nr_hugepages", "hugetlb_try"},
     .huge = WM_HUGE_TABLE_REQUIRE},
    {.step = WM_REFUSAL_MAP,
     {ROOMY, TABLE "nr_hugepages", "10\n", TABLE "free_hugepages", "3\n"},
     {"of 10 set aside 3 are free"},
     .huge = WM_HUGE_TABLE_REQUIRE},
    {.step = WM_REFUSAL_HUGE,
     {THP "enabled", "always madvise [never]\n"},
     {"huge pages are off", "always madvise [never]", "write madvise there"},
     .huge = WM_HUGE_REQUIRE},
    {.step = WM_REFUSAL_HUGE,
     {THP "enabled", "always [madvise] never\n", THP "defrag",
      "always [defer] madvise never\n"},
     {"fragmented", "defrag is always [defer] madvise", "compact_memory"},
     .huge = WM_HUGE_REQUIRE},
    {.step = WM_REFUSAL_HUGE,
     {NULL},
     {"not to be read"},
     .huge = WM_HUGE_REQUIRE},
};

WT_CASE("made up", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B20_refused_region_names_the_limit_that_it_met,
             sizeof trees / sizeof trees[0])
{
    struct rlimit limit;
    warm_error error = {.size = sizeof error};
    wm_refusal refusal = {.root = root,
                          .step = trees[_i].step,
                          .bytes = 8 * MIB,
                          .held = trees[_i].held,
                          .node = 1,
                          .huge = trees[_i].huge,
                          .error = trees[_i].error};

    for (int i = 0; i + 1 < MOST && trees[_i].files[i] != NULL; i += 2) {
        put(trees[_i].files[i], trees[_i].files[i + 1]);
    }
    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    limit.rlim_cur = 4 * MIB;
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    wm_fail_note_code(WARM_DRIVER_ERROR, "cuda", 2, "CUDA_ERROR_X",
                      "what the driver said");
    wt_fails(WARM_OUT_OF_MEMORY, wm_refusal_explain(&refusal));
    warm_last_error(&error);
    ck_assert_str_eq(error.origin, "cuda");
    ck_assert_int_eq(error.code, 2);
    ck_assert_str_eq(error.code_text, "CUDA_ERROR_X");
    ck_assert_int_eq(strncmp(error.message, "what the driver said; ", 22), 0);
    for (int i = 0; i < 4 && trees[_i].words[i] != NULL; i++) {
        wt_contains(error.message, trees[_i].words[i]);
    }
}

/* ---- real limits --------------------------------------------------------- */

static const wm_driver_ops *real;

/* What a driver does that counts locked memory. Sanitizers replace mlock(). */
static warm_status lock_or_refuse(wm_driver *d, void *pointer, size_t bytes)
{
    if (syscall(SYS_mlock, pointer, bytes) != 0) {
        return wm_fail_code(WARM_DRIVER_ERROR, "cuda", 1,
                            "CUDA_ERROR_INVALID_VALUE", "invalid argument");
    }
    return real->pinned_register(d, pointer, bytes);
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};

    (void)syscall(SYS_capset, &head, none);
}

static void set_limit(int which, size_t bytes)
{
    struct rlimit limit = {bytes, bytes};

    if (setrlimit((__rlimit_resource_t)which, &limit) != 0) {
        _exit(2);
    }
}

static void limit_locked(void)
{
    drop_capabilities();
    set_limit(RLIMIT_MEMLOCK, 1 * MIB);
}

static void limit_addresses(void)
{
    long pages = wt_address_space();

    set_limit(RLIMIT_AS,
              (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) + 4 * MIB);
}

/* Neighbours that differ are a mapping each. */
static void limit_mappings(void)
{
    int access = PROT_READ;

    while (mmap(NULL, 4096, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED) {
        access ^= PROT_READ;
    }
}

static const struct {
    const char *name;
    void (*set)(void);
    const char *words;
    bool sanitized; /* sanitizers need none of what is limited */
} limits[] = {
    {"locked memory", limit_locked, "RLIMIT_MEMLOCK allows 1.0 MiB", true},
    {"addresses", limit_addresses, "RLIMIT_AS allows ", false},
    {"mappings", limit_mappings, "raise sysctl vm.max_map_count", false},
};

/* Shared with the child, which is killed by nothing but itself. */
struct result {
    warm_status status;
    bool nothing; /* *base is untouched */
    long pages;   /* of addresses that stayed */
    char message[1024];
};

static void run_limited(int which, struct result *result)
{
    wm_driver_ops ops;
    wm_driver *d = NULL;
    void *base = NULL;
    wm_options o;
    wm_pin pin;
    long before;

    if (wm_options_resolve(NULL, "device:host,pin:register,test:pin_threads=1",
                           &o) != WARM_OK ||
        wm_host_open(&o, &d) != WARM_OK ||
        wm_pin_init(&pin, d, &o) != WARM_OK) {
        _exit(3);
    }
    (void)warm_last_error_message(); /* the record is there */
    real = d->ops;
    ops = *real;
    ops.pinned_register = lock_or_refuse;
    d->ops = &ops;
    limits[which].set();
    before = wt_address_space();
    result->status = wm_pin_obtain(&pin, 0, 8 * MIB, &(size_t){0}, &base);
    result->nothing = base == NULL;
    result->pages = wt_address_space() - before;
    snprintf(result->message, sizeof result->message, "%s",
             warm_last_error_message());
    _exit(0);
}

WT_CASE("real", .tags = "programs");

WT_LOOP_TEST(test_B20_real_limit_is_named_and_nothing_stays,
             sizeof limits / sizeof limits[0])
{
    struct result *result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ended = 0;
    pid_t child;

    if ((WT_ASAN || WT_TSAN) && !limits[_i].sanitized) {
        wt_skip("not under a sanitizer");
    }
    ck_assert_ptr_ne(result, MAP_FAILED);
    child = fork();
    if (child == 0) {
        run_limited(_i, result);
    }
    ck_assert_int_eq(waitpid(child, &ended, 0), child);
    wt_require(WIFEXITED(ended) && WEXITSTATUS(ended) == 0,
               "%s: the child ended with %d", limits[_i].name, ended);
    ck_assert_int_eq(result->status, WARM_OUT_OF_MEMORY);
    ck_assert(result->nothing);
    ck_assert_int_le(result->pages, 64);
    wt_contains(result->message, limits[_i].words);
    munmap(result, sizeof *result);
}
