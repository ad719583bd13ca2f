/* check_texts.c: one rule for every function that writes a text (rows C7, G4,
 * G7): the size that it answers is enough for the next call while nothing
 * happens, however old blocks become; a text that is cut is TRUNCATED. */
#include "wt.h"

#include <stdlib.h>
#include <string.h>

static warm_runtime *runtime;
static void *pinned[100], *device[20], *buffer;

static const struct {
    warm_status (*write)(warm_runtime *r, char *text, size_t bytes,
                         size_t *needed);
} row[] = {{warm_snapshot_viz},
           {warm_stats_json},
           {warm_stats_prometheus},
           {warm_runtime_options}};

enum { ROWS = sizeof row / sizeof row[0] };

static void allocate(void)
{
    for (size_t i = 0; i < 100; i++) {
        pinned[i] = wt_pinned(runtime, 5000 * (i + 1));
    }
    for (size_t i = 0; i < 20; i++) {
        wt_ok(warm_device_alloc(runtime, 0, NULL, 5000 * (i + 1), &device[i]));
    }
    wt_ok(warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_SHARED, &buffer));
}

static void release(void)
{
    wt_free_all(pinned, 100);
    wt_free_all(device, 20);
    wt_free(buffer);
}

static void setup(void)
{
    runtime = wt_runtime_with(.history = 1000);
}

static void teardown(void)
{
    wt_runtime_end(runtime);
}

WT_CASE("texts", .setup = setup, .teardown = teardown);

/* Blocks, and idle segments, are some microseconds old here: their ages have
 * more digits from one call to the next. */
WT_LOOP_TEST(test_C7_G4_G7_two_calls_are_enough, ROWS)
{
    for (int round = 0; round < 20; round++) {
        size_t needed = 0, same = 0;
        char *text;

        allocate();
        if (round % 2 == 0) {
            release();
        }
        wt_ok(row[_i].write(runtime, NULL, 0, &needed));
        text = malloc(needed);
        ck_assert_ptr_nonnull(text);
        wt_ok(row[_i].write(runtime, text, needed, &same));
        ck_assert_uint_eq(same, needed);
        ck_assert_uint_eq(strlen(text) + 1, needed);
        free(text);
        if (round % 2 != 0) {
            release();
        }
    }
}

WT_LOOP_TEST(test_C7_G4_G7_a_text_that_is_cut_is_a_status, ROWS)
{
    size_t needed = 0, same = 0;
    char *text;

    allocate();
    wt_ok(row[_i].write(runtime, NULL, 0, &needed));
    text = malloc(needed);
    ck_assert_ptr_nonnull(text);
    text[needed - 1] = 'x';
    wt_fails(WARM_TRUNCATED, row[_i].write(runtime, text, needed - 1, &same));
    wt_says("and was cut; needed is its whole size");
    ck_assert_uint_eq(same, needed);
    ck_assert_uint_eq(strlen(text), needed - 2);
    ck_assert_int_eq(text[needed - 1], 'x');
    wt_fails(WARM_TRUNCATED, row[_i].write(runtime, text, 1, NULL));
    ck_assert_uint_eq(strlen(text), 0);
    same = 7;
    wt_invalid(row[_i].write(runtime, NULL, 8, &same));
    wt_says("text is null");
    wt_invalid(row[_i].write(NULL, text, needed, &same));
    ck_assert_uint_eq(same, 7);
    free(text);
    release();
}

/* It has no status, and its text never changes. */
WT_TEST(test_G4_the_table_of_options_says_how_long_it_is)
{
    size_t needed = warm_options_help(NULL, 0);
    char *text = malloc(needed);

    ck_assert_ptr_nonnull(text);
    text[99] = 'x';
    ck_assert_uint_eq(warm_options_help(text, 99), needed);
    ck_assert_uint_eq(strlen(text), 98);
    ck_assert_int_eq(text[99], 'x');
    ck_assert_uint_eq(warm_options_help(text, needed), needed);
    ck_assert_uint_eq(strlen(text) + 1, needed);
    free(text);
}
