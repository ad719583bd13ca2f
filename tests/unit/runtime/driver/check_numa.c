/* check_numa.c: nodes of memory, simulated and the machine's own. */
/* memcheck: one process */
#include "wt_host.h"

#include "runtime/driver/numa.h"

#include <dirent.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES = 3 };
#define BYTES ((size_t)1 << 22)

static wm_numa numa;

static void open_nodes(unsigned wanted)
{
    wm_numa_init(&numa);
    wm_numa_open(&numa, wanted);
}

static void close_nodes(void)
{
    wm_numa_fini(&numa);
    ck_assert_int_eq(wm_meta_live(), 0);
}

/* More nodes than any machine has that runs this. */
static void open_simulated(void)
{
    open_nodes(WM_NODES_MAX);
    ck_assert(numa.simulated);
}

static char *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(memory, MAP_FAILED);
    return memory;
}

/* ---- lists of the kernel ---------------------------------------------- */

static const struct {
    const char *list;
    uint64_t mask;
} lists[] = {
    {"0\n", 1},
    {"0-1\n", 3},
    {"0,8\n", 0x101},
    {"0-2,4,6-7\n", 0xd7},
    {"63\n", UINT64_C(1) << 63},
    {"", 0},
    {"\n", 0},
    {"none\n", 0},
    {"1,x\n", 2},
    {"0-63\n", UINT64_MAX},
    {"0,64,255\n", 1},
    {"62-70\n", UINT64_C(3) << 62},
    {"3-1\n", 0},
    {"0-99999999999999999999\n", UINT64_MAX},
};

WT_LOOP_TEST(test_numa_lists_of_the_kernel_are_read,
             sizeof lists / sizeof lists[0])
{
    ck_assert_uint_eq(wm_numa_parse(lists[_i].list), lists[_i].mask);
}

/* ---- how many nodes there are ----------------------------------------- */

WT_TEST(test_numa_one_node_is_neither_placed_nor_simulated)
{
    open_nodes(1);
    ck_assert_int_eq(numa.nodes, 1);
    ck_assert_uint_eq(numa.usable, 1);
    ck_assert(!numa.simulated);
    ck_assert(wm_numa_usable(&numa, 0));
    ck_assert(!wm_numa_usable(&numa, 1));
    ck_assert(!wm_numa_usable(&numa, -1));
    ck_assert_int_eq(wm_numa_next(&numa, 0), 0);
    close_nodes();
}

WT_TEST(test_numa_machine_has_a_usable_node)
{
    open_nodes(0);
    ck_assert_int_ge(numa.nodes, 1);
    ck_assert(!numa.simulated);
    ck_assert_uint_ne(numa.usable, 0);
    ck_assert(wm_numa_usable(&numa, numa.nodes - 1));
    close_nodes();
}

WT_TEST(test_numa_gaps_between_nodes_are_skipped)
{
    open_nodes(1);
    numa.nodes = 9;
    numa.usable = 0x111;
    ck_assert_int_eq(wm_numa_next(&numa, 0), 4);
    ck_assert_int_eq(wm_numa_next(&numa, 4), 8);
    ck_assert_int_eq(wm_numa_next(&numa, 8), 0);
    ck_assert_int_eq(wm_numa_next(&numa, 5), 8);
    ck_assert(!wm_numa_usable(&numa, 5));
    close_nodes();
}

/* ---- simulated nodes -------------------------------------------------- */

WT_TEST(test_numa_simulated_place_is_told_until_it_goes)
{
    char *memory = map(BYTES);

    open_simulated();
    ck_assert_int_eq(numa.nodes, WM_NODES_MAX);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, 1), WM_NODE_UNKNOWN);
    wt_ok(wm_numa_place(&numa, memory, BYTES, 2));
    wt_ok(wm_numa_place(&numa, memory + BYTES, BYTES, 1));
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), 2);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + BYTES - 1, 1), 2);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + BYTES, 1), 1);
    /* What is placed anew is placed there only. */
    wt_ok(wm_numa_place(&numa, memory, BYTES, 0));
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), 0);
    wt_ok(wm_numa_place(&numa, memory, BYTES, WM_NODE_UNKNOWN));
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), WM_NODE_UNKNOWN);
    close_nodes();
    munmap(memory, BYTES);
}

WT_TEST(test_numa_full_node_passes_memory_on)
{
    char *memory = map(4 * BYTES);

    open_simulated();
    wm_numa_set_room(&numa, 5, 2 * BYTES);
    wm_numa_set_room(&numa, 6, 0);
    for (size_t i = 0; i < 3; i++) {
        wt_ok(wm_numa_place(&numa, memory + i * BYTES, BYTES, 5));
    }
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), 5);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + BYTES, BYTES), 5);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + 2 * BYTES, BYTES), 7);
    /* What goes makes room again. */
    wt_ok(wm_numa_place(&numa, memory, BYTES, WM_NODE_UNKNOWN));
    wt_ok(wm_numa_place(&numa, memory + 3 * BYTES, BYTES, 5));
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + 3 * BYTES, BYTES), 5);
    close_nodes();
    munmap(memory, 4 * BYTES);
}

/* Page-locked memory is unmapped piece by piece. */
WT_LOOP_TEST(test_B15_B19_a_part_that_goes_leaves_the_rest_on_its_node, 4)
{
    char *memory = map(8 * BYTES);

    open_simulated();
    wm_numa_set_room(&numa, 5, 4 * BYTES);
    wt_ok(wm_numa_place(&numa, memory, 4 * BYTES, 5));
    wt_ok(wm_numa_place(&numa, memory + (size_t)_i * BYTES, BYTES,
                        WM_NODE_UNKNOWN));
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(
            wm_numa_node_of(&numa, memory + (size_t)i * BYTES, BYTES),
            i == _i ? WM_NODE_UNKNOWN : 5);
    }
    /* Room for that part, and for no more. */
    wt_ok(wm_numa_place(&numa, memory + 4 * BYTES, BYTES, 5));
    wt_ok(wm_numa_place(&numa, memory + 5 * BYTES, BYTES, 5));
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + 4 * BYTES, BYTES), 5);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + 5 * BYTES, BYTES), 6);
    wt_ok(wm_numa_place(&numa, memory, 4 * BYTES, WM_NODE_UNKNOWN));
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), WM_NODE_UNKNOWN);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + 3 * BYTES, BYTES),
                     WM_NODE_UNKNOWN);
    ck_assert_uint_eq(numa.room[5], 3 * BYTES);
    close_nodes();
    munmap(memory, 8 * BYTES);
}

WT_TEST(test_numa_place_without_a_record_fails_and_changes_nothing)
{
    char *memory = map(BYTES);

    open_simulated();
    wt_ok(wm_numa_place(&numa, memory, BYTES, 1));
    wm_meta_fail(1, false);
    wt_fails(WARM_OUT_OF_MEMORY, wm_numa_place(&numa, memory, BYTES, 2));
    wm_meta_fail(0, false);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), 1);
    close_nodes();
    munmap(memory, BYTES);
}

/* ---- the machine's own ------------------------------------------------ */

/* A container may refuse what these need; then it says so. */
static bool refused(void)
{
    warm_error error = {.size = sizeof error};
    wm_numa one;
    char *memory = map(BYTES);
    bool is_refused;

    wm_numa_init(&one);
    is_refused = wm_numa_place(&one, memory, BYTES, 0) != WARM_OK;
    warm_last_error(&error);
    munmap(memory, BYTES);
    wm_numa_fini(&one);
    if (is_refused && (error.code == EPERM || error.code == ENOSYS)) {
        printf("skip: places: the system refuses mbind()\n");
        return true;
    }
    return false;
}

/* On a machine with one node this shows the calls, on others the places. */
WT_TEST(test_numa_pages_lie_where_they_were_placed)
{
    char *memory = map(BYTES);
    int node;

    if (refused()) {
        wt_skip("the system refuses it");
    }
    open_nodes(0);
    node = numa.nodes - 1;
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), WM_NODE_UNKNOWN);
    wt_ok(wm_numa_place(&numa, memory, BYTES, node));
    memset(memory, 1, BYTES);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), node);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory + 4096, 4096), node);
    close_nodes();
    munmap(memory, BYTES);
}

WT_TEST(test_numa_pages_that_are_not_all_there_lie_nowhere)
{
    char *memory;

    wt_needs(!wt_emulated(), WT_EMULATED);
    memory = map(BYTES);
    open_nodes(0);
    memset(memory, 1, BYTES - 4096);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES), WM_NODE_UNKNOWN);
    munmap(memory, BYTES);
    /* Few enough for every page to be looked at: all but the first. */
    memory = map(BYTES);
    memset(memory + 4096, 1, 15 * 4096);
    ck_assert_int_eq(wm_numa_node_of(&numa, memory, 16 * 4096),
                     WM_NODE_UNKNOWN);
    ck_assert_int_ge(wm_numa_node_of(&numa, memory + 4096, 15 * 4096), 0);
    close_nodes();
    munmap(memory, BYTES);
}

WT_TEST(test_numa_place_that_the_system_refuses_is_an_error)
{
    warm_error error = {.size = sizeof error};
    char *memory = map(BYTES);

    if (refused()) {
        wt_skip("the system refuses it");
    }
    open_nodes(0);
    wt_fails(WARM_DRIVER_ERROR, wm_numa_place(&numa, memory + 1, BYTES, 0));
    warm_last_error(&error);
    ck_assert_str_eq(error.origin, "system");
    wt_contains(error.message, "node 0");
    close_nodes();
    munmap(memory, BYTES);
}

/* The calling thread's policy, and the first nodes of its mask. */
static int policy_now(unsigned long *nodes)
{
    unsigned long mask[WM_NUMA_MASK] = {0};
    int mode = -1;

    if (syscall(SYS_get_mempolicy, &mode, mask, sizeof mask * 8UL, NULL, 0UL) !=
        0) {
        return -1;
    }
    *nodes = mask[0];
    return mode;
}

/* What a thread's pages come from is the thread's own again afterwards. */
static const int policies[] = {MPOL_DEFAULT, MPOL_BIND, MPOL_INTERLEAVE};

WT_LOOP_TEST(test_B15_a_thread_prefers_a_node_for_a_while,
             sizeof policies / sizeof policies[0])
{
    unsigned long first = 1, before = 0, during = 0, after = 0;
    bool has_nodes = policies[_i] != MPOL_DEFAULT;
    wm_numa_policy kept;
    int mode;

    open_nodes(1);
    if (syscall(SYS_set_mempolicy, policies[_i], has_nodes ? &first : NULL,
                has_nodes ? 65UL : 0UL) == 0 &&
        (mode = policy_now(&before)) != -1) {
        wm_numa_prefer(&numa, 0, &kept);
        ck_assert_int_eq(policy_now(&during), MPOL_PREFERRED);
        ck_assert_uint_eq(during, 1);
        wm_numa_unprefer(&kept);
        ck_assert_int_eq(policy_now(&after), mode);
        ck_assert_uint_eq(after, before);
    }
    numa.simulated = true;
    wm_numa_prefer(&numa, 0, &kept);
    ck_assert_int_eq(kept.mode, -1);
    wm_numa_unprefer(&kept);
    numa.simulated = false;
    close_nodes();
}

WT_TEST(test_numa_two_nodes_of_the_machine_are_told_apart)
{
    char *memory = map(BYTES);
    int first, second;

    open_nodes(0);
    first = wm_numa_next(&numa, numa.nodes - 1);
    second = wm_numa_next(&numa, first);
    if (first == second) {
        printf("skip: two nodes: this machine has one\n");
    } else {
        wt_ok(wm_numa_place(&numa, memory, BYTES / 2, first));
        wt_ok(wm_numa_place(&numa, memory + BYTES / 2, BYTES / 2, second));
        memset(memory, 1, BYTES);
        ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES / 2), first);
        ck_assert_int_eq(wm_numa_node_of(&numa, memory + BYTES / 2, BYTES / 2),
                         second);
        ck_assert_int_eq(wm_numa_node_of(&numa, memory, BYTES),
                         WM_NODE_UNKNOWN);
    }
    close_nodes();
    munmap(memory, BYTES);
}

/* Every device of the bus that /sys tells of, as CUDA would write its name. */
WT_TEST(test_numa_node_of_a_pci_device)
{
    DIR *folder = opendir("/sys/bus/pci/devices");
    struct dirent *entry;

    ck_assert_int_eq(wm_numa_of_pci("FFFF:FF:1F.7"), WM_NODE_UNKNOWN);
    ck_assert_int_eq(wm_numa_of_pci(""), WM_NODE_UNKNOWN);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[300];
        int node = WM_NODE_UNKNOWN;
        FILE *file;

        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node",
                 entry->d_name);
        file = fopen(path, "r");
        if (file != NULL) {
            ck_assert_int_eq(fscanf(file, "%d", &node), 1);
            fclose(file);
            for (char *c = entry->d_name; *c != '\0'; c++) {
                *c = *c >= 'a' && *c <= 'f' ? (char)(*c - 'a' + 'A') : *c;
            }
            ck_assert_int_eq(wm_numa_of_pci(entry->d_name), node);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* ---- drivers ---------------------------------------------------------- */

WT_TEST(test_B15_host_devices_share_simulated_nodes)
{
    warm_options given = {
        .size = sizeof given, .host_devices = 4, .test = "numa_nodes=3"};
    warm_device_info info = {.size = sizeof info};
    wm_driver *d = NULL;
    wm_options o;
    int node = 7;

    wt_ok(wm_options_resolve(&given, NULL, &o));
    wt_ok(wm_host_open(&o, &d));
    ck_assert_int_eq(d->numa.nodes, NODES);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(wm_driver_device_node(d, i), i % NODES);
        wt_ok(wm_driver_device_info(d, i, &info));
        ck_assert_int_eq(info.numa_node, i % NODES);
    }
    wt_ok(wm_driver_node_of(d, &node, sizeof node, &node));
    ck_assert_int_eq(node, WM_NODE_UNKNOWN);
    wt_host_close(d, 0);
}

WT_TEST(test_numa_host_device_has_one_node_by_default)
{
    warm_device_info info = {.size = sizeof info};
    wm_driver *d = wt_host_open(2, 0);

    ck_assert_int_eq(d->numa.nodes, 1);
    wt_ok(wm_driver_device_info(d, 1, &info));
    ck_assert_int_eq(info.numa_node, -1);
    ck_assert_int_eq(wm_driver_device_node(d, 1), 0);
    ck_assert_int_eq(wm_driver_device_node(d, WM_NODE_DEVICES + 5), 0);
    wt_host_close(d, 0);
}
