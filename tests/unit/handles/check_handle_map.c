/* check_handle_map.c: the map of handles against a plain list. */
/* memcheck: one process */
#include "wt.h"

#include "handles/handle_map.h"

#include <stdlib.h>

enum { ROOM = 64, ENTRIES = ROOM * WM_HANDLE_MAP_SPARE };

static wm_handle_entry entries[ENTRIES];
static wm_handle_map map;
static char things[1000];

static void set_up(void)
{
    memset(entries, 0, sizeof entries);
    wm_handle_map_init(&map, entries, ROOM);
}

START_TEST(test_no_room_holds_nothing)
{
    wm_handle_map none = {NULL, 0};

    ck_assert_ptr_null(wm_handle_map_take(&none, 1));
    ck_assert_ptr_null(wm_handle_map_find(&none, 1));
    ck_assert_uint_eq(wm_handle_map_count(&none, 1), 0);
    ck_assert_ptr_null(wm_handle_map_take(&map, 0));
    ck_assert_uint_eq(wm_handle_map_count(&map, 0), 0);
}
END_TEST

START_TEST(test_a_key_may_be_in_it_twice)
{
    wm_handle_map_put(&map, 7, &things[0]);
    wm_handle_map_put(&map, 7, &things[0]);
    ck_assert_uint_eq(wm_handle_map_count(&map, 7), 2);
    ck_assert_ptr_eq(wm_handle_map_take(&map, 7), &things[0]);
    ck_assert_uint_eq(wm_handle_map_count(&map, 7), 1);
    ck_assert_ptr_eq(wm_handle_map_find(&map, 7), &things[0]);
    wm_handle_map_set(&map, 7, &things[1]);
    wm_handle_map_set(&map, 8, &things[2]); /* is not there, nor is it after */
    ck_assert_ptr_eq(wm_handle_map_find(&map, 7), &things[1]);
    ck_assert_ptr_null(wm_handle_map_find(&map, 8));
    ck_assert_ptr_null(wm_handle_map_find(&map, 0));
    wm_handle_map_set(&map, 7, &things[0]);
    ck_assert_ptr_eq(wm_handle_map_take(&map, 7), &things[0]);
    ck_assert_ptr_null(wm_handle_map_take(&map, 7));
}
END_TEST

static void note(const wm_handle_entry *entry, void *argument)
{
    unsigned *seen = argument;

    seen[(char *)entry->handle - things]++;
}

/* Keys that lie apart, side by side, and by their hash on one another: taken
 * out in any order, none is lost and none stays. */
START_TEST(test_against_a_list)
{
    static const uint64_t steps[] = {1, 32, 64, 4096, UINT64_C(1) << 32, 0};
    uint64_t keys[ROOM];
    unsigned count = 0, next = 0;
    uint64_t seed = wt_seed();

    for (unsigned i = 0; i < wt_scaled(20000); i++) {
        bool put = count == 0 ||
                   (count < ROOM && wt_random(&seed) % 64 >= count / 2 + 16);

        if (put) {
            uint64_t key = next + 1;

            key = steps[_i] != 0 ? key * steps[_i] : wt_random(&seed) | 1;
            wm_handle_map_put(&map, key, &things[next % sizeof things]);
            keys[count++] = key;
            next++;
        } else {
            unsigned k = (unsigned)(wt_random(&seed) % count);

            wt_require(wm_handle_map_take(&map, keys[k]) != NULL,
                       "step %u: key %ju is lost", i, (uintmax_t)keys[k]);
            wt_require(wm_handle_map_count(&map, keys[k]) == 0,
                       "step %u: key %ju stays", i, (uintmax_t)keys[k]);
            keys[k] = keys[--count];
        }
        for (unsigned k = 0; k < count && i % 16 == 0; k++) {
            wt_require(wm_handle_map_count(&map, keys[k]) == 1,
                       "step %u: key %ju", i, (uintmax_t)keys[k]);
        }
    }
    while (count > 0) {
        ck_assert_ptr_nonnull(wm_handle_map_take(&map, keys[--count]));
    }
    for (unsigned i = 0; i < ENTRIES; i++) {
        wt_require(entries[i].key == 0, "entry %u is left", i);
    }
}
END_TEST

START_TEST(test_each_comes_once)
{
    unsigned seen[sizeof things] = {0};

    for (unsigned i = 0; i < ROOM; i++) {
        wm_handle_map_put(&map, i + 1, &things[i]);
    }
    wm_handle_map_each(&map, note, seen);
    for (unsigned i = 0; i < sizeof things; i++) {
        wt_require(seen[i] == (i < ROOM ? 1 : 0), "handle %u", i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handle_map");
    TCase *tcase = tcase_create("map");

    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, test_no_room_holds_nothing);
    tcase_add_test(tcase, test_a_key_may_be_in_it_twice);
    tcase_add_loop_test(tcase, test_against_a_list, 0, 6);
    tcase_add_test(tcase, test_each_comes_once);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
