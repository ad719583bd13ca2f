/* check_map.c: the map against a plain list. */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/map.h"
#include "runtime/base/meta.h"

enum { ROOM = 64 };

static wm_map map;
static char things[1000];

static void set_up(void)
{
    map = (wm_map){0};
    ck_assert(wm_map_reserve(&map, ROOM));
}

static void tear_down(void)
{
    wm_map_fini(&map);
}

WT_CASE("map", .setup = set_up, .teardown = tear_down);

WT_TEST(test_no_room_holds_nothing)
{
    wm_map none = {0};

    ck_assert_ptr_null(wm_map_take(&none, 1));
    ck_assert_ptr_null(wm_map_get(&none, 1));
    ck_assert_ptr_null(wm_map_next(&none, NULL));
    ck_assert_ptr_null(wm_map_take(&map, 0));
    ck_assert_ptr_null(wm_map_find(&map, 0));
}

WT_TEST(test_a_key_may_be_in_it_twice)
{
    wm_map_put(&map, 7, &things[0]);
    wm_map_put(&map, 7, &things[0]);
    ck_assert_ptr_eq(wm_map_take(&map, 7), &things[0]);
    ck_assert_ptr_eq(wm_map_get(&map, 7), &things[0]);
    wm_map_find(&map, 7)->value = &things[1];
    ck_assert_ptr_eq(wm_map_get(&map, 7), &things[1]);
    ck_assert_ptr_null(wm_map_find(&map, 8));
    ck_assert_ptr_eq(wm_map_take(&map, 7), &things[1]);
    ck_assert_ptr_null(wm_map_take(&map, 7));
}

/* Keys that lie apart, side by side, and by their hash on one another: taken
 * out in any order, none is lost and none stays. */
WT_LOOP_TEST(test_against_a_list, 6)
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
            wm_map_put(&map, key, &things[next % sizeof things]);
            keys[count++] = key;
            next++;
        } else {
            unsigned k = (unsigned)(wt_random(&seed) % count);

            wt_require(wm_map_take(&map, keys[k]) != NULL,
                       "step %u: key %ju is lost", i, (uintmax_t)keys[k]);
            wt_require(wm_map_find(&map, keys[k]) == NULL,
                       "step %u: key %ju stays", i, (uintmax_t)keys[k]);
            keys[k] = keys[--count];
        }
        for (unsigned k = 0; k < count && i % 16 == 0; k++) {
            wt_require(wm_map_find(&map, keys[k]) != NULL, "step %u: key %ju",
                       i, (uintmax_t)keys[k]);
        }
    }
    while (count > 0) {
        ck_assert_ptr_nonnull(wm_map_take(&map, keys[--count]));
    }
    ck_assert_uint_eq(map.count, 0);
    ck_assert_ptr_null(wm_map_next(&map, NULL));
}

WT_TEST(test_each_comes_once)
{
    unsigned seen[sizeof things] = {0};
    const wm_map_entry *e = NULL;

    for (unsigned i = 0; i < ROOM; i++) {
        wm_map_put(&map, i + 1, &things[i]);
    }
    while ((e = wm_map_next(&map, e)) != NULL) {
        seen[(char *)e->value - things]++;
    }
    for (unsigned i = 0; i < sizeof things; i++) {
        wt_require(seen[i] == (i < ROOM ? 1 : 0), "handle %u", i);
    }
}

/* Grows and shrinks with its entries, loses none, and stays as it was where
 * memory is short. */
WT_TEST(test_room_follows_the_entries)
{
    size_t full;

    for (unsigned i = 0; i < sizeof things; i++) {
        ck_assert(wm_map_reserve(&map, map.count + 1));
        wm_map_put(&map, i + 1, &things[i]);
    }
    full = map.capacity;
    ck_assert_uint_ge(full, 2 * sizeof things);
    wm_meta_fail(1, false);
    ck_assert(!wm_map_reserve(&map, full));
    ck_assert_uint_eq(map.capacity, full);
    ck_assert(wm_map_reserve(&map, full));
    ck_assert_uint_eq(map.capacity, 2 * full); /* no more than it takes */
    for (unsigned i = 0; i < sizeof things; i++) {
        ck_assert_ptr_eq(wm_map_take(&map, i + 1), &things[i]);
        wm_meta_fail(i == 0, false);
        wm_map_shrink(&map);
        wm_meta_fail(0, false);
    }
    ck_assert_uint_lt(map.capacity, full / 8);
}
