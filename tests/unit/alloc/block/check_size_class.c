/* check_size_class.c: the size to which a request is rounded up (row B8). */
#include "wt.h"

#include "alloc/block/size_class.h"

WT_TEST(test_B8_slabs_have_the_classes_below_their_limit)
{
    ck_assert_uint_eq(wm_class_bytes(WM_SLAB_CLASSES), WM_SLAB_LIMIT);
}

WT_TEST(test_B8_every_size_wastes_at_most_an_eighth_above_4_kib)
{
    size_t bytes = 4097;

    while (bytes <= WM_CLASS_LIMIT + WM_PAGE && wm_size_round(bytes) >= bytes &&
           (wm_size_round(bytes) - bytes) * 8 <= bytes) {
        bytes++;
    }
    ck_assert_msg(bytes > WM_CLASS_LIMIT + WM_PAGE, "%zu is rounded to %zu",
                  bytes, wm_size_round(bytes));
}

WT_TEST(test_B8_huge_sizes_are_rounded_to_a_page_only)
{
    /* 20.4 GiB and an odd byte, and its neighbours. */
    static const size_t huge[] = {
        (size_t)21904333210,   (size_t)21904333209, ((size_t)5 << 30) + 1,
        ((size_t)4 << 20) + 1, WM_REQUEST_MAX,
    };

    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        size_t rounded = wm_size_round(huge[i]);

        ck_assert_uint_eq(rounded % WM_PAGE, 0);
        ck_assert(rounded >= huge[i] && rounded - huge[i] < WM_PAGE);
    }
}

WT_TEST(test_B8_small_sizes_are_rounded_to_512)
{
    for (size_t bytes = 1; bytes <= WM_PAGE; bytes++) {
        size_t rounded = wm_size_round(bytes);

        ck_assert(rounded >= bytes && rounded - bytes < WM_GRAIN);
    }
}

WT_TEST(test_B8_classes_rise_and_are_their_own_size)
{
    size_t last = 0;

    for (unsigned i = 0; i < WM_CLASSES; i++) {
        size_t bytes = wm_class_bytes(i);

        ck_assert_uint_gt(bytes, last);
        ck_assert_uint_eq(wm_size_class(bytes), i);
        ck_assert_uint_eq(wm_size_class(last + 1), i);
        ck_assert_uint_eq(bytes % WM_GRAIN, 0);
        ck_assert(bytes < WM_SLAB_LIMIT || bytes % WM_PAGE == 0);
        last = bytes;
    }
    ck_assert_uint_eq(last, WM_CLASS_LIMIT);
    ck_assert_uint_eq(wm_size_class(last + 1), WM_CLASS_PAGES);
}

WT_TEST(test_B25_slabs_are_as_few_whole_pages_as_reach_16_kib)
{
    for (unsigned i = 0; wm_class_bytes(i) < WM_SLAB_LIMIT; i++) {
        size_t bytes = wm_class_bytes(i);
        unsigned slots = 1;

        while (slots * bytes < (16 << 10) ||
               (slots * bytes % WM_PAGE != 0 && bytes <= WM_SLAB_PAGED)) {
            slots++;
        }
        ck_assert_uint_eq(wm_slab_run_bytes(i) % WM_PAGE, 0);
        ck_assert_uint_eq(wm_slab_run_bytes(i) - wm_slab_slots(i) * bytes,
                          bytes <= WM_SLAB_PAGED ? 0 : (size_t)2048);
        ck_assert_uint_ge(wm_slab_slots(i), slots);
        ck_assert_uint_lt(wm_slab_slots(i), 2 * slots);
        ck_assert_uint_le(wm_slab_slots(i), WM_SLAB_MOST);
    }
}
