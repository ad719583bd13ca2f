/* check_testing.c: what the walk over all records finds if one is broken on
 * purpose, and what else warmpool/testing.h offers. */
/* backends: host standin */
#include "wt.h"

#include "alloc/cache/cache_int.h"
#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/space/space_int.h"
#include "alloc/stream/stream_lane.h"
#include "alloc/stream/timeline_int.h"
#include "handles/pool_int.h"
#include "handles/kind_table.h"
#include "runtime/runtime.h"

#include <stdatomic.h>
#include <string.h>

static warm_runtime *runtime;
static warm_stream stream;
static void *pinned, *far;

static void set_up(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    pinned = wt_pinned(runtime, 5000);
    far = wt_device(runtime, stream, 70000);
}

static void tear_down(void)
{
    wt_ok(warm_testing_check(runtime, 1));
    wt_free(pinned, far);
    wt_ok(warm_testing_check(runtime, 1));
    wt_runtime_end(runtime);
}

/* What is wrong is found, and named; put right it is well again. */
static void expect_broken(const char *name)
{
    wt_fails(WARM_INTERNAL, warm_testing_check(runtime, 1));
    ck_assert_msg(strstr(warm_last_error_message(), name) != NULL, "%s",
                  warm_last_error_message());
}

WT_CASE("testing", .setup = set_up, .teardown = tear_down);

WT_LOOP_TEST(test_B14_a_wrong_figure_of_memory_is_found, 2)
{
    wm_space *space =
        _i == 0 ? &runtime->pinned->space : &runtime->device_spaces[0].space;
    const char *name = _i == 0 ? "pinned" : "device";

    space->group.arenas[0].stats.pending_bytes.current += 512;
    expect_broken(name);
    wt_fails(WARM_INTERNAL, warm_testing_check(runtime, 0));
    space->group.arenas[0].stats.pending_bytes.current -= 512;
    wt_ok(warm_testing_check(runtime, 0));
    space->growth.held += 4096;
    expect_broken(name);
    wt_ok(warm_testing_check(runtime, 0));
    space->growth.held -= 4096;
    wt_ok(warm_testing_check(runtime, 1));
}

WT_TEST(test_A14_a_wrong_figure_of_handles_is_found)
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, WARM_KIND_STREAM, 0);

    pool->stats.created++;
    expect_broken("handles");
    pool->stats.created--;
}

/* The walk finds a word that is one too many, and nothing once it is right. */
#define BREAK(word, name)                                                      \
    do {                                                                       \
        ++(word);                                                              \
        expect_broken(name);                                                   \
        --(word);                                                              \
        wt_ok(warm_testing_check(runtime, 1));                                 \
    } while (0)

static wm_magazine_set *cached;

static void find_cached(wm_magazine_set *set, const void *context)
{
    (void)context;
    cached = set->classes > 0 ? set : cached;
}

WT_TEST(test_B2_B4_a_wrong_count_of_what_a_thread_caches_is_found)
{
    wm_pending_stream *slot;

    wt_ok(warm_free(wt_pinned(runtime, 6000)));
    wt_ok(warm_record_stream(pinned, stream));
    wt_ok(warm_free(pinned));
    wm_cache_visit(&runtime->pinned->space.group, find_cached, NULL);
    slot = wm_pending_first(wm_magazine_set_pending(cached));
    BREAK(cached->classes, "pinned");
    BREAK(slot->blocks, "pinned");
    BREAK(wm_magazine_set_pending(cached)->in_use, "pinned");
    pinned = wt_pinned(runtime, 5000);
}

WT_TEST(test_B4_C1_a_wrong_count_of_streams_is_found)
{
    wm_timelines *set = &runtime->pinned->timelines;
    wm_timeline *timeline = wm_timeline_next_locked(set, NULL);
    wm_lane_registry *registry =
        runtime->device_spaces[0].space.group.arenas[0].registry;

    BREAK(set->count, "streams");
    BREAK(timeline->recorders, "streams");
    BREAK(timeline->queued, "streams");
    BREAK(registry->owners, "device");
    BREAK(wm_thread_marks_now.turns, "streams");
}

WT_TEST(test_B14_a_wrong_sum_is_found)
{
    wm_arena *arena = &runtime->pinned->space.group.arenas[0];

    BREAK(arena->stats.held_bytes.allocated, "figures");
    wm_whole_add(&runtime->pinned->space, 4096);
    expect_broken("all memory");
    wm_whole_unclaim(&runtime->pinned->space, 4096);
}

/* The n-th record, once, and from then on. */
WT_TEST(test_B12_records_fail_as_they_were_told)
{
    void *more;
    uint64_t calls = wt_metadata_calls();

    warm_testing_fail_metadata(1, 1);
    for (int i = 0; i < 3; i++) {
        warm_options host = {.size = sizeof host, .device = "host"};
        warm_runtime *another = NULL;

        wt_fails(WARM_OUT_OF_MEMORY, warm_runtime_create(&host, &another));
    }
    ck_assert_uint_ge(wt_metadata_calls(), calls + 3);
    warm_testing_fail_metadata(0, 0);
    more = wt_pinned(runtime, 1 << 20);
    wt_ok(warm_free(more));
}

static _Atomic uint64_t now_ns = 1;

static uint64_t slow_clock(void)
{
    return atomic_load_explicit(&now_ns, memory_order_relaxed);
}

/* Segments go back for their age as the test's clock says. */
WT_TEST(test_B11_time_passes_as_the_test_says)
{
    warm_runtime *aging = wt_runtime_with(.decay_ms = 60000);

    warm_testing_set_clock(slow_clock);
    wt_ok(warm_free(wt_pinned(aging, 1000)));
    wt_ok(warm_thread_release(aging));
    wt_ok(warm_poll(aging));
    ck_assert_uint_gt(wt_pinned_stats(aging).held_bytes.current, 0);
    atomic_fetch_add_explicit(&now_ns, 200000000000u, memory_order_relaxed);
    wt_ok(warm_poll(aging));
    ck_assert_uint_eq(wt_pinned_stats(aging).held_bytes.current, 0);
    warm_testing_set_clock(NULL);
    wt_runtime_end(aging);
}

/* Copies and captures of testing.h bypass the runtime, which records neither.
 */
WT_TEST(test_B3_B7_what_goes_past_the_runtime_is_not_recorded)
{
    warm_block_info info;
    warm_graph graph = NULL;

    memset(pinned, 7, 5000);
    wt_ok(warm_testing_copy(runtime, far, pinned, 5000, stream));
    wt_invalid(warm_testing_copy(runtime, NULL, pinned, 1, stream));
    wt_invalid(warm_testing_copy(runtime, far, NULL, 1, stream));
    info = wt_block_info(pinned);
    ck_assert_uint_eq(info.streams, 0);
    ck_assert_uint_eq(info.pool.number, 0);
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_testing_capture_begin(runtime, stream));
    wt_invalid(warm_testing_capture_end(runtime, stream, NULL));
    wt_ok(warm_testing_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}
