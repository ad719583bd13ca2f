/* check_mapping.c: huge pages behind regions, required or not, read back from
 * the kernel (row B21). Host device. Huge pages of hugetlb are set aside for
 * the tests where that is allowed, else those tests skip. */
#include "skip.h"
#include "wt_host.h"

#include "alloc/kinds/pin.h"
#include "runtime/base/budget.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static wm_driver *driver;

static wm_pin begin(const char *conf)
{
    wm_options o;
    wm_pin pin;

    wt_ok(wm_options_resolve(NULL, conf, &o));
    wt_ok(wm_host_open(&o, &driver));
    wt_ok(wm_pin_init(&pin, driver, &o));
    return pin;
}

static void end(void)
{
    wt_host_close(driver, 0);
}

static bool is_mapped(const char *base)
{
    unsigned char there;

    return mincore((void *)(uintptr_t)base, 1, &there) == 0 || errno != ENOMEM;
}

static uint64_t huge_of(const void *base, size_t bytes)
{
    wm_smaps_range range = {(uintptr_t)base, (uintptr_t)base + bytes};
    uint64_t huge = 0;

    ck_assert(wm_smaps_huge("", &range, 1, &huge));
    return huge;
}

static bool reads(const char *path, const char *word)
{
    FILE *f = fopen(path, "r");
    char line[128] = "";

    if (f != NULL) {
        (void)!fgets(line, sizeof line, f);
        fclose(f);
    }
    return strstr(line, word) != NULL;
}

#define THP "/sys/kernel/mm/transparent_hugepage/enabled"

static bool has_transparent(void)
{
    return reads(THP, "[madvise]") || reads(THP, "[always]");
}

/* ---- transparent --------------------------------------------------------- */

static const size_t sizes[] = {2 * MIB, 5 * MIB, 8 * MIB + 4096, 34 * MIB};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

WT_LOOP_TEST(test_B21_required_huge_pages_are_there, SIZES)
{
    wm_pin pin = begin("device:host,huge_pages:require");
    size_t bytes = sizes[_i];
    void *base = NULL;

    if (!has_transparent()) {
        end();
        wt_skip("needs transparent huge pages");
    }
    ck_assert(pin.maps);
    wt_ok(wm_pin_obtain(&pin, 0, bytes, &(size_t){0}, &base));
    ck_assert_uint_eq(huge_of(base, bytes), bytes / (2 * MIB) * 2 * MIB);
    memset(base, 1, bytes);
    wt_ok(wm_pin_give_back(&pin, base, bytes, false));
    /* The guards too. */
    ck_assert(!is_mapped((char *)base - 4096));
    ck_assert(!is_mapped(base));
    ck_assert(!is_mapped((char *)base + bytes));
    end();
}

/* Of a region that was locked in pieces each goes alone, and takes nothing of
 * those beside it. */
WT_LOOP_TEST(test_B19_B21_pieces_of_huge_pages_go_one_by_one, 2)
{
    wm_pin pin = begin(_i == 0 ? "device:host,huge_pages:require"
                               : "device:host,huge_pages:try");
    static const size_t order[] = {1, 2, 0};
    size_t bytes = 10 * MIB + 4096, piece = 4 * MIB;
    char *base = NULL;
    void *got = NULL;

    if (_i == 0 && !has_transparent()) {
        end();
        wt_skip("needs transparent huge pages");
    }
    wt_ok(wm_pin_obtain(&pin, 0, bytes, &(size_t){piece}, &got));
    base = got;
    if (_i == 0) {
        ck_assert_uint_eq(huge_of(base, bytes), 10 * MIB);
    }
    for (size_t i = 0; i < 3; i++) {
        size_t at = order[i] * piece;
        size_t part = bytes - at < piece ? bytes - at : piece;

        for (size_t j = i; j < 3; j++) { /* what is left is all there */
            size_t from = order[j] * piece;

            memset(base + from, 1, bytes - from < piece ? bytes - from : piece);
        }
        wt_ok(wm_pin_give_back(&pin, base + at, part, true));
        ck_assert(!is_mapped(base + at));
        ck_assert(!is_mapped(base + at + part - 4096));
    }
    ck_assert(!is_mapped(base - 4096));
    ck_assert(!is_mapped(base + bytes));
    end();
}

/* The region beside it has huge pages: one entry of smaps would hold both. */
WT_TEST(test_B21_huge_pages_that_do_not_come_are_refused)
{
    wm_pin pin = begin("device:host,huge_pages:require");
    void *first[3] = {NULL}, *base = NULL;
    long before;

    for (int i = 0; i < 3 && has_transparent(); i++) {
        wt_ok(wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &first[i]));
    }
    before = wt_address_space();
    ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &base));
    ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    ck_assert_ptr_null(base);
    ck_assert_int_le(wt_address_space() - before, 64);
    ck_assert_uint_eq(wm_counter_read(&driver->calls[WM_CALL_pinned_register]),
                      has_transparent() ? 3 : 0);
    wt_contains(warm_last_error_message(),
                "0 B of 4.0 MiB came as huge pages (option "
                "huge_pages:require); ");
    wt_contains(warm_last_error_message(), "or use huge_pages:try");
    for (int i = 0; i < 3 && has_transparent(); i++) {
        wt_ok(wm_pin_give_back(&pin, first[i], 4 * MIB, false));
    }
    end();
}

WT_TEST(test_B21_a_part_of_the_huge_pages_is_not_enough)
{
    wm_pin pin = begin("device:host,huge_pages:require");
    const char *space = "1000-7ffffffff000 rw-p 00000000 00:00 0\n";
    char root[WT_FOLDER], path[WT_FOLDER + 16], text[128];
    void *base = NULL;

    wt_folder(root);
    snprintf(path, sizeof path, "%s/proc", root);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/proc/self", root);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    pin.root = root;
    snprintf(text, sizeof text, "%sAnonHugePages: 6144 kB\n", space);
    wt_folder_put(root, "/proc/self/smaps", text);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 8 * MIB, &(size_t){0}, &base));
    wt_contains(warm_last_error_message(),
                "6.0 MiB of 8.0 MiB came as huge pages");
    snprintf(text, sizeof text, "%sAnonHugePages: 8192 kB\n", space);
    wt_folder_put(root, "/proc/self/smaps", text);
    wt_ok(wm_pin_obtain(&pin, 0, 8 * MIB, &(size_t){0}, &base));
    wt_ok(wm_pin_give_back(&pin, base, 8 * MIB, false));
    wt_folder_end(root);
    end();
}

/* Whether they came is not known: memory is not what has to change. */
WT_TEST(test_B21_required_pages_that_cannot_be_counted_are_refused_as_such)
{
    wm_pin pin = begin("device:host,huge_pages:require");
    void *base = NULL;
    long before = wt_address_space();

    pin.root = "/nonexistent";
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, 4 * MIB, &(size_t){0}, &base));
    wt_says("is unknown (option huge_pages:require)",
            "/proc/self/smaps cannot be read", "mount /proc");
    ck_assert_ptr_null(strstr(warm_last_error_message(), "fragmented"));
    ck_assert_ptr_null(base);
    ck_assert_int_le(wt_address_space() - before, 64);
    end();
}

WT_TEST(test_B21_a_region_smaller_than_a_huge_page_is_refused_if_required)
{
    wm_pin pin = begin("device:host,huge_pages:require");
    void *base = NULL;

    wt_fails(WARM_OUT_OF_MEMORY,
             wm_pin_obtain(&pin, 0, MIB, &(size_t){0}, &base));
    ck_assert_ptr_null(base);
    wt_contains(warm_last_error_message(), "smaller than a huge page of 2 MiB");
    wt_contains(warm_last_error_message(), "option segment");
    end();
}

WT_TEST(test_B21_off_requests_none_and_try_does_without)
{
    wm_pin off = begin("device:host,pin:register,huge_pages:off");
    void *base = NULL;

    if (!reads(THP, "[always]")) {
        wt_ok(wm_pin_obtain(&off, 0, 8 * MIB, &(size_t){0}, &base));
        ck_assert_uint_eq(huge_of(base, 8 * MIB), 0);
        wt_ok(wm_pin_give_back(&off, base, 8 * MIB, false));
    }
    end();
    wm_pin try = begin("device:host,pin:register");
    ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    wt_ok(wm_pin_obtain(&try, 0, 8 * MIB, &(size_t){0}, &base));
    ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    wt_ok(wm_pin_give_back(&try, base, 8 * MIB, false));
    end();
}

/* Without memory for the list of segments the figure is 0, once. */
WT_TEST(test_B21_figure_that_could_not_be_read_is_read_again)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .pin = "register",
                            .huge_pages = "try"};
    warm_space_stats stats = {.size = sizeof stats};
    warm_runtime *runtime = NULL;
    uint64_t there;

    wt_ok(warm_runtime_create(&options, &runtime));
    wt_ok(warm_pinned_prewarm(runtime, 8 * MIB, 0, 0));
    wm_meta_fail(1, true);
    wt_ok(warm_pinned_get_stats(runtime, &stats));
    wm_meta_fail(0, false);
    ck_assert_uint_eq(stats.huge_bytes, 0);
    wt_ok(warm_pinned_get_stats(runtime, &stats));
    there = stats.huge_bytes;
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, 0, 0));
    wt_ok(warm_pinned_get_stats(runtime, &stats));
    /* What is the kernel's to give, it gives to both or to none. */
    ck_assert_int_eq(stats.huge_bytes > there, there > 0);
    wt_runtime_end(runtime);
}

static uint64_t huge_after(warm_runtime *runtime, size_t prewarmed)
{
    if (prewarmed > 0) {
        wt_ok(warm_pinned_prewarm(runtime, prewarmed, 0, 0));
    } else {
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
    }
    return wt_pinned_stats(runtime).huge_bytes;
}

/* Also once as much is held again as when it was read last. */
WT_TEST(test_B21_figure_is_that_of_the_memory_held_now)
{
    warm_runtime *runtime = wt_runtime_with(.device = "host", .pin = "register",
                                            .huge_pages = "try");

    if (huge_after(runtime, 16 * MIB) == 0) {
        wt_runtime_end(runtime);
        wt_skip("needs transparent huge pages");
    }
    ck_assert_uint_eq(huge_after(runtime, 0), 0);
    ck_assert_uint_gt(huge_after(runtime, 16 * MIB), 0);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    ck_assert_uint_eq(huge_after(runtime, 16 * MIB), 0);
    ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    wt_runtime_end(runtime);
}

/* cudaHostAlloc() cannot request huge pages. */
static const struct {
    const char *conf;
    bool locks;
} refused[] = {
    {"device:host,pin:alloc,huge_pages:require", true},
    {"device:host,pin:alloc,huge_pages:hugetlb_require", true},
    {"device:host,huge_pages:require", false},
};

WT_LOOP_TEST(test_B21_what_the_driver_maps_cannot_require_huge_pages,
             sizeof refused / sizeof refused[0])
{
    wm_options o;
    wm_pin pin;

    wt_ok(wm_options_resolve(NULL, refused[_i].conf, &o));
    wt_ok(wm_host_open(&o, &driver));
    driver->register_locks = refused[_i].locks;
    wt_fails(WARM_INVALID_OPTION, wm_pin_init(&pin, driver, &o));
    wt_contains(warm_last_error_message(), "use it with pin:register");
    end();
}

/* ---- hugetlb ------------------------------------------------------------- */

#define TABLE "/proc/sys/vm/nr_hugepages"

static uint64_t table(const char *name)
{
    uint64_t value = 0;

    (void)wm_budget_figure("", name, &value);
    return value;
}

static void set_table(uint64_t pages)
{
    FILE *f = fopen(TABLE, "w");

    if (f != NULL) {
        fprintf(f, "%lu\n", (unsigned long)pages);
        fclose(f);
    }
}

static uint64_t unused(void)
{
    return table("HugePages_Free:") - table("HugePages_Rsvd:");
}

enum { WANTED = 4 };

static int test_lives = -1; /* the end of a pipe that closes with the test */

/* A process of its own session writes the number back once the test has ended,
 * be it killed with all of its group. The lock of the table, which is the
 * machine's, ends with that process. */
static void put_back_after_the_test(uint64_t pages)
{
    int ends[2];
    pid_t pid;
    char byte;

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)setsid();
        (void)close(ends[1]);
        while (read(ends[0], &byte, 1) != 0) {
        }
        set_table(pages);
        _exit(0);
    }
    (void)close(ends[0]);
    test_lives = ends[1];
}

static void table_is_done(void)
{
    (void)close(test_lives);
    (void)wait(NULL);
}

/* Sets pages aside; false: there are none for the test. */
static bool have_table(void)
{
    int lock = open(TABLE, O_RDONLY | O_CLOEXEC);
    uint64_t pages;

    (void)flock(lock, LOCK_EX);
    pages = table("HugePages_Total:");
    put_back_after_the_test(pages);
    (void)close(lock);
    if (unused() < WANTED) {
        set_table(pages + WANTED);
    }
    if (unused() < WANTED) {
        table_is_done();
        printf("skip: huge pages of hugetlb: %s cannot be raised\n", TABLE);
        return false;
    }
    return true;
}

static const char *const tables[] = {"device:host,huge_pages:hugetlb_try",
                                     "device:host,huge_pages:hugetlb_require"};

WT_LOOP_TEST(test_B21_pages_set_aside_are_used_and_go_back, 2)
{
    wm_pin pin = begin(tables[_i]);
    uint64_t left;
    void *base = NULL;

    if (!have_table()) {
        end();
        wt_skip("needs huge pages set aside");
    }
    left = unused();
    /* The rest is small pages. */
    for (size_t rest = 0; rest <= MIB; rest += MIB / 2) {
        wt_ok(wm_pin_obtain(&pin, 0, 6 * MIB + rest, &(size_t){0}, &base));
        ck_assert_uint_eq((uintptr_t)base % (2 * MIB), 0);
        memset(base, 1, 6 * MIB + rest);
        ck_assert_uint_eq(huge_of(base, 6 * MIB + rest), 6 * MIB);
        ck_assert_uint_eq(unused(), left - 3);
        wt_ok(wm_pin_give_back(&pin, base, 6 * MIB + rest, false));
        ck_assert_uint_eq(unused(), left);
        ck_assert(!is_mapped(base));
        ck_assert(!is_mapped((char *)base + 6 * MIB + rest - 4096));
    }
    table_is_done();
    end();
}

/* Those set aside go back by whole huge pages alone: pieces that are none get
 * other pages, or are refused. */
WT_LOOP_TEST(test_B19_B21_pieces_of_pages_set_aside, 2)
{
    wm_pin pin = begin(tables[_i]);
    size_t piece = 3 * MIB;
    uint64_t left;
    void *base = NULL;

    if (!have_table()) {
        end();
        wt_skip("needs huge pages set aside");
    }
    left = unused();
    if (_i == 0) {
        wt_ok(wm_pin_obtain(&pin, 0, 2 * piece, &(size_t){piece}, &base));
        ck_assert_uint_eq(unused(), left);
        for (size_t i = 0; i < 2; i++) {
            wt_ok(
                wm_pin_give_back(&pin, (char *)base + i * piece, piece, true));
        }
        ck_assert(!is_mapped(base));
    } else {
        wt_fails(WARM_OUT_OF_MEMORY,
                 wm_pin_obtain(&pin, 0, 2 * piece, &(size_t){piece}, &base));
        wt_says("pieces of 3.0 MiB are no whole huge pages");
    }
    wt_ok(wm_pin_obtain(&pin, 0, 6 * MIB, &(size_t){4 * MIB}, &base));
    ck_assert_uint_eq(unused(), left - 3);
    wt_ok(wm_pin_give_back(&pin, base, 4 * MIB, true));
    ck_assert_uint_eq(unused(), left - 1);
    memset((char *)base + 4 * MIB, 1, 2 * MIB);
    wt_ok(wm_pin_give_back(&pin, (char *)base + 4 * MIB, 2 * MIB, true));
    ck_assert_uint_eq(unused(), left);
    table_is_done();
    end();
}

/* More than there are. */
WT_LOOP_TEST(test_B21_without_pages_set_aside_require_is_refused, 2)
{
    wm_pin pin = begin(tables[_i]);
    size_t bytes = ((size_t)unused() + 2) * 2 * MIB + 4096;
    void *base = NULL;
    long before = 0;

    /* The first turn leaves stacks of the threads that touch the memory. */
    for (int turn = 0; turn < 2; turn++) {
        before = wt_address_space();
        if (_i == 0) {
            wt_ok(wm_pin_obtain(&pin, 0, bytes, &(size_t){0}, &base));
            wt_ok(wm_pin_give_back(&pin, base, bytes, false));
            continue;
        }
        wt_fails(WARM_OUT_OF_MEMORY,
                 wm_pin_obtain(&pin, 0, bytes, &(size_t){0}, &base));
        ck_assert_ptr_null(base);
        wt_contains(warm_last_error_message(), "huge pages of 2 MiB, and of ");
        wt_contains(warm_last_error_message(), "vm.nr_hugepages");
    }
    ck_assert_int_le(wt_address_space() - before, 64);
    end();
}

WT_CASE("pages");

WT_TEST(test_sizes_are_rounded_up_to_whole_pages)
{
    size_t page = wm_os_page();

    ck_assert_uint_eq(wm_os_page_round(0), 0);
    ck_assert_uint_eq(wm_os_page_round(1), page);
    ck_assert_uint_eq(wm_os_page_round(page), page);
    ck_assert_uint_eq(wm_os_page_round(page + 1), 2 * page);
}

SKIP_MAIN_IF(wt_emulated(), WT_EMULATED)
