/* check_economy.c: the rule of memory economy (row B25): the peak of what is
 * needed and its decay, the bound, each cache's part of the budget, what was
 * obtained above the bound. Host device; the tests drive time. */
#include "wt.h"
#include "wt_economy.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/clock.h"

#include <string.h>

#define MIB    ((size_t)1 << 20)
#define SECOND UINT64_C(1000000000)
enum { SLACK = 20, KEEP = 100, SHARES = 4 };

static warm_runtime *runtime;
static uint64_t now_ns;

static uint64_t now(void)
{
    return now_ns;
}

static wm_arena_group *group(void)
{
    return &runtime->pinned->space.group;
}

static wm_economy *economy(void)
{
    return &group()->economy;
}

static void begin(warm_options options)
{
    now_ns = 1000 * SECOND;
    wm_clock_set(now);
    options.size = sizeof options;
    options.device = "host";
    options.keep = KEEP;
    options.slack = SLACK;
    runtime = wt_runtime(&options);
    wm_economy_look(group()); /* from here on the peak decays */
}

static void set_up(void)
{
    begin((warm_options){0});
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
    wm_clock_set(NULL);
}

static size_t peak(void)
{
    wm_economy_look(group());
    return atomic_load(&economy()->peak);
}

static size_t bound_of(size_t bytes)
{
    return bytes + bytes / (100 / SLACK) + WM_ECONOMY_FLOOR;
}

WT_CASE("economy", .setup = set_up, .teardown = tear_down);

/* ---- the peak ------------------------------------------------------------ */

/* What callers hold, what waits for streams, and what threads cache is needed.
 * Idle memory is not. */
WT_TEST(test_B25_peak_counts_what_is_needed)
{
    warm_stream stream = wt_stream(runtime, 0);
    void *small = wt_pinned(runtime, MIB / 8), *large = wt_pinned(runtime, MIB);

    ck_assert_uint_eq(peak(), MIB + MIB / 8);
    wt_ok(warm_free(small));
    ck_assert_uint_eq(wt_pinned_stats(runtime).cached_bytes, MIB / 8);
    wt_stop(runtime, stream);
    wt_free_used(large, stream);
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), MIB + MIB / 8);
    wt_go(runtime, stream);
    wt_ok(warm_poll(runtime));
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), MIB / 8);
    wt_ok(warm_thread_release(runtime));
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), 0);
    ck_assert_uint_gt(wt_pinned_stats(runtime).idle_bytes, 0);
    wt_ok(warm_stream_destroy(runtime, stream));
}

/* Memory obtained ahead of demand is needed until it was used, once: as idle
 * memory or as that of a caller. */
WT_TEST(test_B25_prewarmed_memory_is_needed_until_it_is_used)
{
    void *block;

    wt_ok(warm_pinned_prewarm(runtime, 64 * MIB, WARM_NODE_ANY, 0));
    for (int i = 0; i < 3; i++) {
        wt_peak_at(group(), 0);
        ck_assert_uint_eq(peak(), 64 * MIB);
        now_ns += 100 * SECOND;
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).above_bound, 0);
    block = wt_pinned(runtime, 48 * MIB);
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), 64 * MIB);
    wt_ok(warm_free(block));
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), 16 * MIB);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), 0);
}

/* It is wanted again as soon as it is idle. */
WT_TEST(test_B25_the_reserve_is_needed)
{
    void *block;

    tear_down();
    begin((warm_options){.reserve_bytes = 32 * MIB});
    ck_assert_uint_eq(peak(), 32 * MIB);
    block = wt_pinned(runtime, 32 * MIB);
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), 32 * MIB);
    wt_ok(warm_free(block));
    wt_peak_at(group(), 0);
    ck_assert_uint_eq(peak(), 32 * MIB);
}

/* Although the request is served after the peak was read for it. */
WT_TEST(test_B25_peak_counts_the_block_that_growth_was_for)
{
    wt_ok(warm_free(wt_pinned(runtime, 80 * MIB)));
    ck_assert_uint_eq(atomic_load(&economy()->peak), 80 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).above_bound, 0);
}

/* By an eighth of what is above the need in each second, and not to less than
 * that. */
WT_TEST(test_B25_peak_decays_to_the_need)
{
    void *block = wt_pinned(runtime, MIB);
    size_t expected = 9 * MIB;

    wt_peak_at(group(), 9 * MIB);
    now_ns += SECOND - 1;
    ck_assert_uint_eq(peak(), 9 * MIB);
    for (int i = 0; i < 3; i++) {
        now_ns += SECOND;
        expected -= (expected - MIB) / 8;
        ck_assert_uint_eq(peak(), expected);
        ck_assert_uint_eq(peak(), expected);
    }
    now_ns += 2 * SECOND;
    expected -= (expected - MIB) / 8;
    expected -= (expected - MIB) / 8;
    ck_assert_uint_eq(peak(), expected);
    now_ns += 3600 * SECOND;
    ck_assert_uint_ge(peak(), MIB);
    ck_assert_uint_lt(peak(), MIB + 16);
    wt_ok(warm_free(block));
}

/* ---- the bound ----------------------------------------------------------- */

WT_TEST(test_B25_growth_is_free_up_to_the_bound)
{
    static const size_t peaks[] = {0, 1000, 100 * MIB, (size_t)1 << 40};

    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        wt_peak_at(group(), peaks[i]);
        ck_assert(wm_economy_allows(wm_group_arena(group(), 0), NULL,
                                    bound_of(peaks[i])));
        ck_assert(!wm_economy_allows(wm_group_arena(group(), 0), NULL,
                                     bound_of(peaks[i]) + 1));
    }
}

/* Of each growth. */
WT_TEST(test_B25_the_part_above_the_bound_is_counted)
{
    size_t bound = bound_of(100 * MIB);
    wm_arena *arena = wm_group_arena(group(), 0);

    wt_peak_at(group(), 100 * MIB);
    wm_economy_note_growth(arena, NULL, 10, bound, false);
    ck_assert_uint_eq(wt_pinned_stats(runtime).above_bound, 0);
    wm_economy_note_growth(arena, NULL, 10, bound + 4, false);
    ck_assert_uint_eq(wt_pinned_stats(runtime).above_bound, 4);
    wm_economy_note_growth(arena, NULL, 10, bound + 100, false);
    ck_assert_uint_eq(wt_pinned_stats(runtime).above_bound, 14);
}

/* ---- caches -------------------------------------------------------------- */

static wm_share share[SHARES];

static int64_t part_of(int i)
{
    return wm_economy_part(group(), &share[i]);
}

static int64_t keep(void)
{
    return (int64_t)wm_economy_keep(economy());
}

/* Ends a period by uses of one cache. */
static void end_period(int i)
{
    uint32_t period = atomic_load(&economy()->period);

    while (atomic_load(&economy()->period) == period) {
        (void)part_of(i);
    }
}

static void set_up_caches(void)
{
    memset(share, 0, sizeof share);
    set_up();
}

WT_CASE("caches", .setup = set_up_caches, .teardown = tear_down);

WT_TEST(test_B25_budget_of_all_caches_follows_the_peak)
{
    ck_assert_int_eq(keep(), WM_KEEP_FLOOR);
    wt_peak_at(group(), 1000 * MIB);
    ck_assert_int_eq(keep(), WM_KEEP_FLOOR + 100 * (int64_t)MIB);
    ck_assert_int_eq(part_of(0), WM_KEEP_EACH + keep());
}

/* Within 2 %, for the step in which uses are counted. All parts together are
 * the budget, and a little for each. */
WT_TEST(test_B25_a_cache_has_its_part_by_use)
{
    static const int uses[SHARES] = {1, 1, 2, 4};
    int64_t all = 0, sum = 0, near;

    wt_peak_at(group(), 1000 * MIB);
    for (int i = 0; i < SHARES; i++) {
        all += uses[i];
    }
    for (int k = 0; k < 1000; k++) {
        for (int i = 0; i < SHARES; i++) {
            for (int u = 0; u < uses[i]; u++) {
                (void)part_of(i);
            }
        }
    }
    near = keep() / 50;
    for (int i = 0; i < SHARES; i++) {
        int64_t part = part_of(i) - WM_KEEP_EACH;
        int64_t expected = keep() / 4 / SHARES + keep() * 3 / 4 * uses[i] / all;

        ck_assert_int_ge(part, expected - near);
        ck_assert_int_le(part, expected + near);
        sum += part;
    }
    ck_assert_int_le(sum, keep() + near);
}

/* A cache is idle once it was not used for a whole period; when it is used
 * again, it has an even share at first. */
WT_TEST(test_B25_a_cache_that_is_not_used_is_idle)
{
    wt_peak_at(group(), 1000 * MIB);
    for (int k = 0; k < 10; k++) {
        (void)part_of(0);
        (void)part_of(1);
    }
    end_period(1);
    ck_assert(!wm_economy_is_idle(economy(), &share[0]));
    end_period(1);
    ck_assert(wm_economy_is_idle(economy(), &share[0]));
    ck_assert(!wm_economy_is_idle(economy(), &share[1]));
    end_period(1);
    ck_assert_int_gt(part_of(1), keep() * 9 / 10);
    ck_assert_int_lt(part_of(0), keep() / 4 + keep() / 50);
    ck_assert(!wm_economy_is_idle(economy(), &share[0]));
}

/* Whose growth it was does not matter. */
WT_TEST(test_B25_memory_is_stable_after_a_period_without_growth)
{
    end_period(0);
    end_period(0);
    ck_assert(wm_economy_is_stable(economy()));
    wt_ok(warm_free(wt_pinned(runtime, 8 * MIB)));
    ck_assert(!wm_economy_is_stable(economy()));
    end_period(0);
    ck_assert(!wm_economy_is_stable(economy()));
    end_period(0);
    ck_assert(wm_economy_is_stable(economy()));
}

/* ---- segments of large requests ------------------------------------------ */

/* Small requests of a device have segments of their own (row C3); beyond the
 * bound they get an idle one of large requests, before memory is obtained, if
 * it is not much too large for them. */
WT_TEST(test_C3_B25_small_requests_get_an_idle_segment_beyond_the_bound)
{
    wm_arena_group *device = &runtime->device_spaces[0].space.group;
    warm_stream stream = wt_stream(runtime, 0);
    void *small;

    wt_ok(warm_free(wt_device(runtime, stream, 24 * MIB)));
    small = wt_device(runtime, stream, 5000);
    ck_assert_uint_eq(wt_device_stats(runtime).driver_alloc.count, 2);
    wt_ok(warm_free(small));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    wt_ok(warm_free(wt_device(runtime, stream, 24 * MIB)));
    wt_peak_at(device, 0);
    small = wt_device(runtime, stream, 5000);
    ck_assert_uint_eq(wt_device_stats(runtime).driver_alloc.count, 3);
    ck_assert(wm_arena_check(device->arenas));
    wt_ok(warm_free(small));
    wt_ok(warm_stream_destroy(runtime, stream));
}

/* Freed on another stream that has not passed: needed now, since this request
 * cannot have it, but not remembered in the peak. */
WT_TEST(test_B25_memory_of_other_streams_is_needed_for_the_moment)
{
    wm_arena_group *device = &runtime->device_spaces[0].space.group;
    warm_stream first = wt_stream(runtime, 0), second = wt_stream(runtime, 0);
    const wm_lane *lane;

    wt_stop(runtime, first);
    wt_ok(warm_free(wt_device(runtime, first, 80 * MIB)));
    wt_ok(warm_free(wt_device(runtime, second, 2 * MIB)));
    wt_ok(warm_thread_release(runtime));
    lane = device->arenas->lanes; /* the second one's: the last made */
    ck_assert_uint_eq(wm_lanes_idle_beside(device->arenas, lane), 80 * MIB);
    wt_peak_at(device, 0);
    ck_assert(wm_economy_allows(device->arenas, lane, bound_of(80 * MIB)));
    ck_assert(!wm_economy_allows(device->arenas, lane, bound_of(80 * MIB) + 1));
    ck_assert(!wm_economy_allows(device->arenas, NULL, bound_of(0) + 1));
    ck_assert_uint_eq(atomic_load(&device->economy.peak), 0);
    wm_economy_note_growth(device->arenas, lane, 10, bound_of(80 * MIB), false);
    ck_assert_uint_eq(wt_device_stats(runtime).above_bound, 0);
    ck_assert_uint_eq(atomic_load(&device->economy.peak), 0);
    wt_go(runtime, first);
    wt_ok(warm_stream_destroy(runtime, first));
    wt_ok(warm_stream_destroy(runtime, second));
}
