/* check_budget.c: what a process may still have of the host's memory, and
 * whether the kernel counts pressure (row F12), from a made-up tree of files.
 */
#include "wt.h"

#include "runtime/base/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define SEC ((uint64_t)1000000000)

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

#define MACHINE(mib)                                                           \
    "MemTotal: 1 kB\nMemAvailable:  " #mib "000 kB\nCached: 1 kB\n"
#define M(mib) #mib "000000\n"

/* A tree: pairs of name and text; and what may be had of it. */
static const struct {
    const char *files[16];
    uint64_t available;
} trees[] = {
    /* nothing can be read */
    {{NULL}, UINT64_MAX},
    {{"/proc/meminfo", "MemTotal: 8 kB\n"}, UINT64_MAX},
    /* the machine alone */
    {{"/proc/meminfo", MACHINE(500)}, 500000 * 1024},
    {{"/proc/meminfo", MACHINE(0)}, 0},
    /* a cgroup without a limit, and with one; page cache and slab count */
    {{"/proc/meminfo", MACHINE(500), "/proc/self/cgroup", "0::/a\n",
      "/sys/fs/cgroup/a/memory.max", "max\n", "/sys/fs/cgroup/a/memory.current",
      M(100)},
     500000 * 1024},
    {{"/proc/meminfo", MACHINE(500), "/proc/self/cgroup", "0::/a\n",
      "/sys/fs/cgroup/a/memory.max", M(300), "/sys/fs/cgroup/a/memory.current",
      M(100)},
     200000000},
    {{"/proc/self/cgroup", "0::/a\n", "/sys/fs/cgroup/a/memory.max", M(300),
      "/sys/fs/cgroup/a/memory.current", M(290), "/sys/fs/cgroup/a/memory.stat",
      "anon 100000000\nfile 190000000\nunevictable 7000000\n"
      "slab_reclaimable 10000000\ninactive_file 50000000\n"
      "active_file 30000000\nworkingset_active_file 9000000\n"},
     100000000},
    /* full */
    {{"/proc/self/cgroup", "0::/a\n", "/sys/fs/cgroup/a/memory.max", M(300),
      "/sys/fs/cgroup/a/memory.current", M(301)},
     0},
    /* the soft limit; the tightest of those above, and of the machine */
    {{"/proc/self/cgroup", "0::/a\n", "/sys/fs/cgroup/a/memory.max", M(300),
      "/sys/fs/cgroup/a/memory.high", M(200), "/sys/fs/cgroup/a/memory.current",
      M(150)},
     50000000},
    {{"/proc/self/cgroup", "0::/a/b/c\n", "/sys/fs/cgroup/a/b/c/memory.max",
      M(900), "/sys/fs/cgroup/a/b/c/memory.current", M(100),
      "/sys/fs/cgroup/a/b/memory.max", M(500),
      "/sys/fs/cgroup/a/b/memory.current", M(450),
      "/sys/fs/cgroup/a/memory.max", M(800), "/sys/fs/cgroup/a/memory.current",
      M(500)},
     50000000},
    {{"/proc/meminfo", MACHINE(20), "/proc/self/cgroup", "0::/a\n",
      "/sys/fs/cgroup/a/memory.max", M(300), "/sys/fs/cgroup/a/memory.current",
      M(100)},
     20000 * 1024},
    /* a container sees its own cgroup at the root of the mount */
    {{"/proc/self/cgroup", "0::/\n", "/sys/fs/cgroup/memory.max", M(300),
      "/sys/fs/cgroup/memory.current", M(100)},
     200000000},
    {{"/proc/self/cgroup", "0::/docker/1234\n", "/sys/fs/cgroup/memory.max",
      M(300), "/sys/fs/cgroup/memory.current", M(100)},
     200000000},
    /* version 1, with and without a limit; both versions at once */
    {{"/proc/self/cgroup", "12:cpu,memory:/x\n1:name=systemd:/memory\n",
      "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", M(300),
      "/sys/fs/cgroup/memory/x/memory.usage_in_bytes", M(250),
      "/sys/fs/cgroup/memory/x/memory.stat",
      "inactive_file 1\ntotal_inactive_file 20000000\n"
      "total_active_file 30000000\n"},
     100000000},
    {{"/proc/meminfo", MACHINE(500), "/proc/self/cgroup", "3:memory:/x\n",
      "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n",
      "/sys/fs/cgroup/memory/x/memory.usage_in_bytes", M(250)},
     500000 * 1024},
    {{"/proc/self/cgroup", "3:memory:/x\n0::/y\n",
      "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", M(300),
      "/sys/fs/cgroup/memory/x/memory.usage_in_bytes", M(100),
      "/sys/fs/cgroup/unified/y/memory.max", M(200),
      "/sys/fs/cgroup/unified/y/memory.current", M(190)},
     10000000},
    /* no line of a cgroup, and half of one */
    {{"/proc/meminfo", MACHINE(500), "/proc/self/cgroup",
      "\nnonsense\n7:memory\n0:\n:\n"},
     500000 * 1024}};

WT_CASE("tree", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_F12_budget_is_the_tightest_less_what_must_stay,
             sizeof trees / sizeof *trees)
{
    const char *const *file = trees[_i].files;

    for (; *file != NULL; file += 2) {
        put(file[0], file[1]);
    }
    ck_assert_uint_eq(wm_budget_available(root), trees[_i].available);
}

/* Of a path that is too long the mount alone is read. */
WT_TEST(test_F12_cgroup_with_a_long_path_is_not_cut)
{
    static char text[6000];

    strcpy(text, "0::/");
    memset(text + 4, 'a', 5000);
    put("/proc/self/cgroup", text);
    put("/sys/fs/cgroup/memory.max", M(300));
    put("/sys/fs/cgroup/memory.current", M(100));
    put("/proc/meminfo", MACHINE(500));
    ck_assert_uint_eq(wm_budget_available(root), 200000000);
}

WT_TEST(test_F12_real_machine_has_a_budget)
{
    ck_assert_uint_gt(wm_budget_available(""), 0);
}

#define SOME(us)                                                               \
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=" #us                        \
    "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
#define EVENTS "/sys/fs/cgroup/a/memory.events.local"
#define STALL  "/sys/fs/cgroup/a/memory.pressure"

WT_TEST(test_F11_F12_events_and_stalls_are_pressure)
{
    wm_budget_watch watch = {0};

    put("/proc/self/cgroup", "0::/a\n");
    put(EVENTS, "low 9\nhigh 4\nmax 0\noom 0\noom_kill 5\n");
    put(STALL, SOME(1000));
    /* The first reading has nothing to compare with. */
    ck_assert_uint_eq(0, wm_budget_look(root, SEC, &watch));
    ck_assert_uint_eq(0, wm_budget_look(root, 2 * SEC, &watch));
    put(EVENTS, "low 10\nhigh 4\nmax 0\noom 0\noom_kill 6\n");
    ck_assert_uint_eq(0, wm_budget_look(root, 3 * SEC, &watch));
    put(EVENTS, "low 10\nhigh 4\nmax 1\noom 0\noom_kill 6\n");
    ck_assert_uint_eq(WM_BUDGET_EVENT, wm_budget_look(root, 4 * SEC, &watch));
    ck_assert_uint_eq(0, wm_budget_look(root, 5 * SEC, &watch));
    /* 50 ms of a second are not more than a twentieth. */
    put(STALL, SOME(51000));
    ck_assert_uint_eq(0, wm_budget_look(root, 6 * SEC, &watch));
    put(STALL, SOME(101001));
    ck_assert_uint_eq(WM_BUDGET_STALL, wm_budget_look(root, 7 * SEC, &watch));
}

WT_LOOP_TEST(test_F11_F12_each_event_is_pressure, 3)
{
    const char *after[] = {"high 5\nmax 2\noom 3\n", "high 4\nmax 3\noom 3\n",
                           "high 4\nmax 2\noom 4\n"};
    wm_budget_watch watch = {0};

    put("/proc/self/cgroup", "0::/a\n");
    put(EVENTS, "high 4\nmax 2\noom 3\n");
    ck_assert_uint_eq(0, wm_budget_look(root, SEC, &watch));
    put(EVENTS, after[_i]);
    ck_assert_uint_eq(WM_BUDGET_EVENT, wm_budget_look(root, 2 * SEC, &watch));
}

WT_TEST(test_F12_figures_of_the_machine_are_in_bytes)
{
    uint64_t value = 1;

    put("/proc/meminfo", "MemTotal: 3 kB\nHugePages_Total:    5\n");
    ck_assert(wm_budget_figure(root, "MemTotal:", &value));
    ck_assert_uint_eq(value, 3 * 1024);
    ck_assert(wm_budget_figure(root, "HugePages_Total:", &value));
    ck_assert_uint_eq(value, 5);
    ck_assert(!wm_budget_figure(root, "MemFree:", &value));
}

/* Without a cgroup that counts, the machine's. */
WT_TEST(test_F11_F12_machine_stalls_are_pressure)
{
    wm_budget_watch watch = {0};

    put("/proc/pressure/memory", SOME(0));
    ck_assert_uint_eq(0, wm_budget_look(root, SEC, &watch));
    put("/proc/pressure/memory", SOME(100000));
    ck_assert_uint_eq(WM_BUDGET_STALL, wm_budget_look(root, 2 * SEC, &watch));
    put("/proc/pressure/memory", "nonsense\n");
    ck_assert_uint_eq(0, wm_budget_look(root, 3 * SEC, &watch));
}
