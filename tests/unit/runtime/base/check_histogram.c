/* check_histogram.c: times counted by powers of two (histogram.h, row G7). */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/histogram.h"

static const struct {
    uint64_t ns;
    unsigned bucket;
} rows[] = {{0, 0},
            {1, 0},
            {1024, 0},
            {1025, 1},
            {2048, 1},
            {2049, 2},
            {1 << 20, 10},
            {(1 << 20) + 1, 11},
            {UINT64_C(1) << 32, 22},
            {(UINT64_C(1) << 32) + 1, 23},
            {UINT64_MAX, 23}};

WT_LOOP_TEST(test_G7_a_time_is_in_the_bucket_that_it_does_not_exceed,
             sizeof rows / sizeof rows[0])
{
    wm_histogram histogram = {0};
    warm_histogram sum = {0};

    wm_histogram_add(&histogram, rows[_i].ns);
    wm_histogram_sum(&histogram, &sum);
    ck_assert_uint_eq(sum.bucket[rows[_i].bucket], 1);
    ck_assert_uint_eq(sum.count, 1);
    ck_assert_uint_eq(sum.total_ns, rows[_i].ns);
    wm_histogram_reset(&histogram);
    sum = (warm_histogram){0};
    wm_histogram_sum(&histogram, &sum);
    ck_assert_uint_eq(sum.count + sum.total_ns, 0);
}
