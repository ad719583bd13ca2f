/* check_smaps.c: huge pages counted from a made-up /proc/self/smaps (row B21).
 */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/smaps.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MIB ((uint64_t)1 << 20)

static char root[WT_FOLDER];

static void setup(void)
{
    wt_folder(root);
}

static void teardown(void)
{
    wt_folder_end(root);
}

static void put(const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/proc", root);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/self", root);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/self/smaps", root);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/* A name that looks like a mapping where a reader's buffer ends, whatever that
 * is; and the fields that no one counts. */
#define LONG                                                                   \
    "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"  \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"   \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"   \
    "00800000-00a00000\nAnonHugePages: 2048 kB\n"
#define ENTRY(range, anon, shared, private)                                    \
    range " rw-p 00000000 00:00 0 \n"                                          \
          "Size:               8192 kB\nRss:                8192 kB\n"         \
          "AnonHugePages:    " anon " kB\nShmemPmdMapped:        0 kB\n"       \
          "Shared_Hugetlb:   " shared                                          \
          " kB\nPrivate_Hugetlb:  " private " kB\nTHPeligible:           "     \
                                            "1\nVmFlags: rd wr mr mw me ac "   \
                                            "hg \n"

static const char file[] =
    ENTRY("00400000-00800000", "4096", "0", "0") /* 4 MiB, all huge */
    ENTRY("00800000-01000000", "6144", "0", "0") /* 8 MiB, 6 huge */
    "01000000-01200000 r--p 00000000 08:01 77    " LONG ENTRY(
        "01200000-01400000", "0", "0", "2048")
        ENTRY("01400000-01600000", "0", "2048", "0");

static const struct {
    wm_smaps_range range[3];
    size_t count;
    uint64_t huge; /* MiB */
} cases[] = {
    {{{0, 0}}, 0, 0},
    {{{0x400000, 0x800000}}, 1, 4},
    /* a part of a mapping: no more than the part */
    {{{0x400000, 0x500000}}, 1, 1},
    {{{0x800000, 0x1000000}}, 1, 6},
    {{{0x800000, 0x900000}, {0xc00000, 0xd00000}}, 2, 2},
    /* a range over two */
    {{{0x600000, 0x1000000}}, 1, 8},
    /* the long name's own entry, then hugetlb of both sorts */
    {{{0x1000000, 0x1200000}}, 1, 2},
    {{{0x1200000, 0x1400000}, {0x1400000, 0x1600000}}, 2, 4},
    /* beside all of them */
    {{{0x200000, 0x400000}, {0x1600000, 0x1700000}}, 2, 0},
    {{{0, UINTPTR_MAX}}, 1, 16},
};

WT_CASE("made up", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B21_huge_pages_are_counted_where_ranges_lie,
             sizeof cases / sizeof cases[0])
{
    uint64_t huge = 77;

    put(file);
    ck_assert(wm_smaps_huge(root, cases[_i].range, cases[_i].count, &huge));
    ck_assert_uint_eq(huge, cases[_i].huge * MIB);
}

WT_TEST(test_B21_a_file_that_cannot_be_read_says_nothing)
{
    wm_smaps_range all = {0, UINTPTR_MAX};
    uint64_t huge = 77;

    ck_assert(!wm_smaps_huge(root, &all, 1, &huge));
    ck_assert_uint_eq(huge, 77);
}

WT_TEST(test_ranges_are_sorted_by_address)
{
    wm_smaps_range range[] = {{30, 40}, {10, 20}, {50, 60}};

    wm_smaps_sort(range, 3);
    ck_assert_uint_eq(range[0].begin, 10);
    ck_assert_uint_eq(range[1].begin, 30);
    ck_assert_uint_eq(range[2].begin, 50);
}
