/* check_lanes.c: all lanes of a stream, in sibling arenas (rows C1, C4): a
 * stream has a lane in each, and what it completes holds for all of them. No
 * driver. */
/* memcheck: one process */
#include "tests/unit/alloc/arena/arena_bed.h"

enum { BYTES = 1 << 20, ARENAS = 2 };

static wm_arena arenas[ARENAS];
static wm_lane *mine, *its; /* the first ones of two streams */

static void setup(void)
{
    for (int i = 0; i < ARENAS; i++) {
        wm_arena_init(&arenas[i], NULL, 0);
    }
    wm_arena_join(arenas, ARENAS);
    mine = wm_lane_make(arenas, 1);
    its = wm_lane_make(arenas, 2);
}

static void teardown(void)
{
    bed_end(arenas, ARENAS);
}

static wm_block *try(unsigned i, wm_lane *lane)
{
    return bed_try(&arenas[i], lane, BYTES);
}

/* From a new segment. */
static wm_block *grow(unsigned i, wm_lane *lane)
{
    wm_block *block = bed_grow(&arenas[i], lane, BYTES, BYTES);

    ck_assert_ptr_nonnull(block);
    return block;
}

static wm_lane *in(unsigned i, const wm_lane *lane)
{
    return atomic_load_explicit(&lane->by_shard[i], memory_order_relaxed);
}

START_TEST(test_C1_lanes_are_made_by_who_takes)
{
    wm_block *block;

    ck_assert_ptr_eq(in(0, mine), mine);
    ck_assert_ptr_null(try(1, mine));
    ck_assert(!wm_arena_open_oversize(&arenas[1], mine, BYTES));
    ck_assert_ptr_null(in(1, mine));
    bed_give(grow(1, NULL));
    block = try(1, mine);
    ck_assert_ptr_eq(block->lane, in(1, mine));
    ck_assert_uint_eq(block->lane_id, 1);
    bed_give(block);
    ck_assert_ptr_null(try(1, its));
    ck_assert_ptr_null(in(1, its));
}
END_TEST

/* Without memory for a lane there is no block, and nothing changes. */
START_TEST(test_C1_no_memory_for_a_lane)
{
    wm_block *block = grow(1, NULL);
    bool starved = false;

    bed_give(block);
    wm_meta_fail(1, true);
    ck_assert_ptr_null(
        wm_arena_take(&arenas[1], mine, BYTES, WM_SPLIT_ALLOW, &starved));
    wm_meta_fail(0, false);
    ck_assert(starved);
    ck_assert_ptr_null(in(1, mine));
    ck_assert(wm_arena_check(arenas));
    ck_assert_ptr_eq(try(1, mine), block);
    bed_give(block);
}
END_TEST

/* In each sibling: there is more until the stream has completed its work. */
START_TEST(test_C1_what_came_back_in_any_is_known)
{
    wm_lane_point point;
    wm_block *block = grow((unsigned)_i, mine);

    ck_assert(!wm_lanes_have_more(arenas, mine));
    bed_give(block);
    ck_assert(wm_lanes_have_more(arenas, mine));
    ck_assert(!wm_lanes_have_more(arenas, its));
    ck_assert(wm_lanes_have_room(arenas, mine, BYTES, BYTES));
    wm_lanes_puts(arenas, mine, &point);
    wm_lanes_passed(arenas, mine, &point);
    ck_assert(!wm_lanes_have_more(arenas, mine));
    ck_assert_ptr_eq(try((unsigned)_i, its), block);
    bed_give(block);
}
END_TEST

/* Only the lanes to which runs were freed since the point. */
START_TEST(test_C4_lanes_with_something_new_are_found_again_in_all)
{
    static const wm_lane_point nothing;
    wm_block *block[ARENAS] = {grow(0, mine), grow(1, mine)};
    wm_lane_point point;

    bed_give(block[1 - _i]);
    wm_lanes_puts(arenas, mine, &point);
    bed_give(block[_i]);
    for (int i = 0; i < ARENAS; i++) {
        ck_assert_ptr_nonnull(wm_lane_take_fresh(&arenas[i]));
    }
    wm_lanes_renew(arenas, mine, &point);
    ck_assert_ptr_eq(wm_lane_take_fresh(&arenas[_i]), in((unsigned)_i, mine));
    ck_assert_uint_eq(wm_lane_fresh(&arenas[1 - _i]), 0);
    wm_lanes_renew(arenas, mine, &nothing);
    for (int i = 0; i < ARENAS; i++) {
        ck_assert_uint_eq(wm_lane_fresh(&arenas[i]), 1);
    }
}
END_TEST

/* A stream is retired: its lanes are closed, also one that is made later. */
START_TEST(test_C4_all_lanes_are_closed)
{
    wm_block *block[2] = {grow(1, its), NULL};

    wm_lanes_close(arenas, its);
    wm_lanes_close(arenas, mine);
    block[1] = grow(1, mine);
    ck_assert(!wm_lane_has(&arenas[1], block[0], 2));
    ck_assert(!wm_lane_has(&arenas[1], block[1], 1));
    ck_assert_ptr_eq(block[1]->lane, in(1, mine));
    bed_give(block[0]);
    bed_give(block[1]);
}
END_TEST

/* A block allocated after all lanes of a stream have ended is in no stream's
 * order, whether the stream had a lane in that arena or not. */
START_TEST(test_C4_who_comes_after_the_end_is_in_nobodys_order)
{
    unsigned i = (unsigned)_i / 2;
    wm_block *block;

    if (_i % 2 == 1) {
        bed_give(grow(i, mine));
    }
    wm_lanes_close(arenas, mine);
    wm_lanes_end(arenas, mine);
    block = grow(i, mine);
    ck_assert_ptr_eq(block->lane, &arenas[i].common);
    ck_assert_uint_eq(block->lane_id, 0);
    ck_assert(wm_arena_check(arenas));
    bed_give(block);
    ck_assert_ptr_eq(arenas[i].lanes, i == 0 ? its : NULL);
}
END_TEST

/* A lane's record is recycled, but not while a request holds the lane. */
START_TEST(test_C4_a_lane_that_is_held_is_no_other_streams)
{
    wm_lane *third;
    wm_block *block;

    bed_give(grow(1, mine));
    wm_lane_hold(mine);
    wm_lanes_close(arenas, mine);
    wm_lanes_end(arenas, mine);
    third = wm_lane_make(arenas, 3);
    ck_assert_ptr_ne(third, mine);
    bed_give(try(1, third));
    ck_assert_ptr_null(try(1, mine));
    block = grow(0, mine);
    ck_assert_ptr_eq(block->lane, &arenas[0].common);
    bed_give(block);
    ck_assert(wm_arena_check(arenas));
    wm_lane_hold(mine);
    wm_lane_drop(&arenas[1], mine);
    ck_assert_ptr_ne(wm_lane_make(arenas, 4), mine);
    wm_lane_drop(&arenas[1], mine);
    ck_assert_ptr_eq(wm_lane_make(arenas, 5), mine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lanes");
    TCase *tcase = tcase_create("lanes");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_C1_lanes_are_made_by_who_takes);
    tcase_add_test(tcase, test_C1_no_memory_for_a_lane);
    tcase_add_loop_test(tcase, test_C1_what_came_back_in_any_is_known, 0, 2);
    tcase_add_loop_test(
        tcase, test_C4_lanes_with_something_new_are_found_again_in_all, 0, 2);
    tcase_add_test(tcase, test_C4_all_lanes_are_closed);
    tcase_add_loop_test(
        tcase, test_C4_who_comes_after_the_end_is_in_nobodys_order, 0, 4);
    tcase_add_test(tcase, test_C4_a_lane_that_is_held_is_no_other_streams);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
