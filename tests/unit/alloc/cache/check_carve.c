/* check_carve.c: requests for device memory served from what the thread itself
 * caches (rows C1 to C3, B25), once growth would pass the bound: adjacent
 * blocks and the idle runs between them are merged, no other thread is visited,
 * and all other blocks stay cached. */
/* memcheck: one process */
#include "wt.h"
#include "wt_economy.h"

#include "alloc/kinds/device_space.h"
#include "alloc/cache/cache_int.h"
#include "alloc/kinds/pinned.h"

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)
enum { SEGMENT = 64, ROW = 16, MOST = 16 };

static warm_runtime *runtime;
static warm_stream mine, its;
static void *fill; /* all of the first segment but a row */

static wm_space *space(void)
{
    return &runtime->device_spaces[0].space;
}

/* So much is in use that a thread may cache magazine_bytes, and that a second
 * segment would pass the bound. */
static void set_up(void)
{
    runtime = wt_runtime(&(warm_options){.size = sizeof(warm_options),
                                         .device = "host",
                                         .segment = SEGMENT * MIB,
                                         .test = "arenas=1:magazine_bytes=28M",
                                         .keep = 1000,
                                         .stream_wait = "off"});
    wt_ok(warm_stream_create(runtime, 0, &mine));
    wt_ok(warm_stream_create(runtime, 0, &its));
    fill = wt_device(runtime, mine, (SEGMENT - ROW) * MIB);
    wm_economy_look(&space()->group);
    wt_ok(warm_thread_release(runtime)); /* its caches begin with that */
}

static void tear_down(void)
{
    wt_ok(warm_free(fill));
    ck_assert(wm_space_check_settled(space()));
    wt_ok(warm_stream_destroy(runtime, mine));
    wt_ok(warm_stream_destroy(runtime, its));
    wt_runtime_end(runtime);
}

static uint64_t obtained(void)
{
    return wt_device_stats(runtime).driver_alloc.count;
}

static wm_magazine_set *set(void)
{
    return wm_stream_slot_set(wm_stream_slot_of(wm_window_mine(), 0, mine));
}

static unsigned kept(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < WM_CLASSES; i++) {
        count += wm_magazine_count(&set()->of[i]);
    }
    return count;
}

/* What it freed is everybody's then. */
static void other_passes(void)
{
    wm_lanes_queue_fences(&runtime->device_spaces[0].registry, NULL,
                          set()->lane);
    wt_ok(warm_stream_synchronize(runtime, its));
    wt_ok(warm_poll(runtime));
}

/* Blocks of the first segment, each behind the other: MiB, whether it is freed
 * then, and whether it is of the other stream. What threads do not keep is
 * larger than 4 MiB. The rest of the segment is nobody's. */
enum { FREED = 32, OTHER = 64, SIZE = FREED - 1 };

static const struct {
    unsigned piece[MOST];
    unsigned asked, at, left; /* by the thread: blocks that it keeps still */
} rows[] = {
    /* Two. */
    {{1, 1 | FREED, 1 | FREED, 1, 1 | FREED, 11}, 2, 1, 1},
    /* The fewest that will do. */
    {{1 | FREED, 1 | FREED, 1 | FREED, 1, 2 | FREED, 1 | FREED, 8}, 3, 4, 3},
    {{1, 1 | FREED, 1 | FREED, 1 | FREED, 12}, 3, 1, 0},
    {{3 | FREED, 1 | FREED, 1 | FREED, 1 | FREED, 1, 2 | FREED, 2 | FREED,
      2 | FREED, 3},
     6,
     5,
     4},
    {{2 | FREED, 3 | FREED, 4 | FREED, 1 | FREED, 6}, 9, 0, 1},
    {{2 | FREED, 2 | FREED, 2 | FREED, 1, 1 | FREED, 1 | FREED, 1 | FREED,
      1 | FREED, 1 | FREED, 1 | FREED, 3},
     6,
     0,
     6},
    /* Few enough, of large ones first. */
    {{3 | FREED, 3 | FREED, 1, 5 | FREED, 1 | FREED, 3}, 6, 0, 1},
    /* With what is idle between, or before. */
    {{1, 1 | FREED, 5 | FREED, 1 | FREED, 8}, 7, 1, 0},
    {{5 | FREED, 1 | FREED, 1, 1 | FREED, 8}, 6, 0, 1},
    /* With nobody's, or what was another stream's, who has passed it. */
    {{12, 1 | FREED}, 4, 1, 0},
    {{5 | FREED | OTHER, 1 | FREED, 10}, 6, 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void *block[MOST];

/* The next refills of a stream cut one block each. */
static void cut_single_blocks(warm_stream stream)
{
    wm_stream_slot *slot = wm_stream_slot_of(wm_window_mine(), 0, stream);

    for (unsigned i = 0; slot != NULL && i < WM_CLASSES; i++) {
        wm_stream_slot_set(slot)->supply[i].batch = 1;
    }
}

static void lay_out(const unsigned *piece)
{
    char *end = NULL;

    for (int i = 0; i < MOST && piece[i] > 0; i++) {
        size_t bytes = (piece[i] & SIZE) * MIB;
        warm_stream stream = (piece[i] & OTHER) != 0 ? its : mine;

        cut_single_blocks(stream);
        block[i] = wt_device(runtime, stream, bytes);
        ck_assert_ptr_eq(block[i],
                         i > 0 ? end : (char *)fill + (SEGMENT - ROW) * MIB);
        end = (char *)block[i] + bytes;
    }
    for (int i = 0; i < MOST && piece[i] > 0; i++) {
        if ((piece[i] & FREED) != 0) {
            wt_ok(warm_free(block[i]));
        }
    }
}

static void free_rest(const unsigned *piece)
{
    for (int i = 0; i < MOST && piece[i] > 0; i++) {
        if ((piece[i] & FREED) == 0) {
            wt_ok(warm_free(block[i]));
        }
    }
}

WT_CASE("carve", .setup = set_up, .teardown = tear_down);

WT_LOOP_TEST(test_C1_C2_C3_blocks_side_by_side_serve_a_larger_request, ROWS)
{
    uint64_t before, hits;
    void *pointer;

    lay_out(rows[_i].piece);
    other_passes();
    before = obtained();
    hits = wt_device_stats(runtime).cache_hits;
    pointer = wt_device(runtime, mine, rows[_i].asked * MIB);
    ck_assert_ptr_eq(pointer, block[rows[_i].at]);
    ck_assert_uint_eq(kept(), rows[_i].left);
    ck_assert_uint_eq(obtained(), before);
    ck_assert_uint_eq(wt_device_stats(runtime).cache_hits, hits + 1);
    wt_ok(warm_free(pointer));
    free_rest(rows[_i].piece);
}

/* What another stream has not passed is no part of a row, whether its thread
 * keeps it or not; nor is what lies behind a live block. */
WT_LOOP_TEST(test_C1_another_streams_memory_is_no_part_of_a_row, 4)
{
    static const unsigned piece[4][MOST] = {
        {1, 5 | FREED | OTHER, 1 | FREED, 9},
        {1, 1 | FREED, 5 | FREED | OTHER, 9},
        {1, 1 | FREED | OTHER, 1 | FREED, 13},
        {1, 1 | FREED, 1, 1 | FREED, 12},
    };
    uint64_t before;
    wt_gate *gate;
    void *pointer;

    gate = wt_gate_close(runtime, its);
    wt_gate_await(gate);
    lay_out(piece[_i]);
    before = obtained();
    pointer = wt_device(runtime, mine, 2 * MIB);
    ck_assert_uint_eq(obtained(), before + 1);
    wt_gate_open(gate);
    wt_ok(warm_free(pointer));
    free_rest(piece[_i]);
}

/* While growth is within the bound, the thread keeps what it caches. */
WT_LOOP_TEST(test_B25_a_row_is_merged_once_growth_would_pass_the_bound, 2)
{
    static const unsigned piece[MOST] = {1 | FREED, 1 | FREED, 14};
    bool within = _i == 1;
    uint64_t before;
    void *pointer;

    lay_out(piece);
    before = obtained();
    if (within) {
        wt_peak_at(&space()->group, 2 * SEGMENT * MIB);
    }
    pointer = wt_device(runtime, mine, 2 * MIB);
    ck_assert_uint_eq(obtained(), before + within);
    ck_assert_uint_eq(kept(), within ? 2 : 0);
    wt_ok(warm_free(pointer));
    free_rest(piece);
}

/* What another stream has passed is taken before the thread's own blocks are
 * merged. */
WT_TEST(test_C2_memory_of_others_is_taken_before_a_row)
{
    static const unsigned piece[MOST] = {5 | FREED | OTHER, 1 | FREED,
                                         1 | FREED, 9};
    uint64_t before;
    void *pointer;

    lay_out(piece);
    other_passes();
    before = obtained();
    pointer = wt_device(runtime, mine, 2 * MIB);
    ck_assert_ptr_eq(pointer, block[0]);
    ck_assert_uint_eq(obtained(), before);
    ck_assert_uint_eq(kept(), 2);
    wt_ok(warm_free(pointer));
    free_rest(piece);
}

/* ---- what a row may be of ------------------------------------------------ */

/* Small requests have segments of their own: larger blocks are no help, nor do
 * they go for it. */
WT_TEST(test_C3_a_small_request_is_served_of_small_blocks)
{
    enum { REST = 2 * SEGMENT - 1 };
    void *large = wt_device(runtime, mine, MIB);
    void *pointer, *rest[REST];

    block[0] = wt_device(runtime, mine, 224 * KIB);
    block[1] = wt_device(runtime, mine, 288 * KIB);
    for (int i = 0; i < REST; i++) {
        rest[i] = wt_device(runtime, mine, 512 * KIB);
    }
    wt_ok(warm_free(large));
    wt_free_all(block, 2);
    pointer = wt_device(runtime, mine, 512 * KIB);
    ck_assert_ptr_eq(pointer, block[0]);
    ck_assert_uint_eq(kept(), 1);
    ck_assert_uint_eq(obtained(), 2);
    wt_ok(warm_free(pointer));
    wt_free_all(rest, REST);
}

/* As one that has been looked up; the thread has a set for it. */
static wm_request request_of(size_t bytes)
{
    return (wm_request){.bytes = bytes,
                        .arena = set()->arena,
                        .lane = set()->lane,
                        .stream = mine,
                        .epoch = atomic_load(&runtime->stream_epoch)};
}

/* A region that is kept for large requests, and in it two blocks that the
 * thread has. */
enum { REGION = 96, PART = REGION / 32 };

static void lay_out_apart(void)
{
    block[3] = wt_device(runtime, mine, ROW * MIB);
    wt_ok(warm_free(wt_device(runtime, mine, REGION * MIB)));
    block[0] = wt_device(runtime, mine, 3 * MIB);
    block[1] = wt_device(runtime, mine, 3 * MIB);
    block[2] = wt_device(runtime, mine, (REGION - 6) * MIB);
    wt_free_all(block, 2);
    ck_assert_uint_eq(obtained(), 2);
}

WT_TEST(test_C2_a_row_in_a_region_for_large_requests_serves_one)
{
    void *pointer;

    lay_out_apart();
    pointer = wt_device(runtime, mine, 6 * MIB);
    ck_assert_ptr_eq(pointer, block[0]);
    ck_assert_uint_eq(obtained(), 2);
    wt_ok(warm_free(pointer));
    wt_free_all(&block[2], 2);
}

/* One that is not served there takes nothing from the thread. */
WT_TEST(test_C3_smaller_requests_leave_a_region_for_large_ones_alone)
{
    wm_request request;

    lay_out_apart();
    request = request_of(PART * MIB / 2);
    ck_assert_ptr_null(wm_cache_carve(&space()->group, &request, true));
    ck_assert_uint_eq(kept(), 2);
    wt_free_all(&block[2], 2);
}

/* The stream ends after its request looked it up: what the thread keeps for it
 * is anybody's then. */
WT_TEST(test_B6_C1_a_row_of_a_stream_that_has_ended_meanwhile)
{
    static const unsigned piece[MOST] = {5, 1 | FREED, 1 | FREED, 1 | FREED, 8};
    wm_request request;
    warm_stream old = mine;
    const wm_block *row;

    lay_out(piece);
    request = request_of(2 * MIB);
    wm_lane_hold(request.lane);
    wt_ok(warm_stream_retire(runtime, mine));
    wt_ok(wm_driver_stream_synchronize(runtime->driver, mine));
    wt_ok(warm_poll(runtime));
    ck_assert(request.lane->ended);
    row = wm_cache_carve(&space()->group, &request, true);
    ck_assert_ptr_nonnull(row);
    ck_assert_ptr_eq(row->base, block[1]);
    ck_assert_uint_eq(kept(), 1);
    wm_lane_drop(request.arena, request.lane);
    wt_ok(warm_free(block[1]));
    free_rest(piece);
    wt_ok(warm_stream_create(runtime, 0, &mine));
    wt_ok(wm_driver_stream_destroy(runtime->driver, old));
}

/* Which another thread has freed at the same moment, and has by now: as in
 * check_magazine.c. */
WT_TEST(test_C10_a_block_that_another_has_is_in_no_row)
{
    static const unsigned piece[MOST] = {1 | FREED, 1 | FREED, 14};
    wm_request request;
    const wm_block *larger;

    lay_out(piece);
    atomic_store(&wm_block_at(block[0])->state,
                 wm_state_of_set(WM_BLOCK_LIVE, 0));
    request = request_of(2 * MIB);
    ck_assert_ptr_null(wm_cache_carve(&space()->group, &request, true));
    request = request_of(640 * KIB);
    larger = wm_cache_carve(&space()->group, &request, true);
    ck_assert_ptr_nonnull(larger);
    ck_assert_ptr_eq(larger->base, block[1]);
    wt_ok(warm_free(block[0])); /* the other thread's */
    wt_ok(warm_free(block[1]));
    free_rest(piece);
}

static int any_stream(void *context, warm_stream stream)
{
    (void)context;
    (void)stream;
    return 1;
}

/* A thread cuts its larger page-locked blocks as well; but not for a pool,
 * whose memory is its own. */
WT_LOOP_TEST(test_B2_E8_a_larger_block_is_cut_but_not_for_a_pool, 2)
{
    warm_private_pool pool = {0};
    char *larger, *pointer, *most = wt_pinned(runtime, (SEGMENT - 2) * MIB);
    bool pooled = _i == 1;

    wm_economy_look(&runtime->pinned->space.group);
    wt_ok(warm_thread_release(runtime));
    larger = wt_pinned(runtime, 2 * MIB);
    wt_ok(warm_free(larger));
    if (pooled) {
        wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER,
                                      any_stream, NULL));
    }
    pointer = wt_pinned(runtime, 512 * KIB);
    ck_assert(pooled != (pointer >= larger && pointer < larger + 2 * MIB));
    wt_free(pointer, most);
    if (pooled) {
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_private_pool_release(runtime, pool));
    }
}
