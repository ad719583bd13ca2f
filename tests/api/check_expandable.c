/* check_expandable.c: device memory that grows in place, and goes back in
 * parts: option expandable_segments (rows C3, C8). */
/* memcheck: one process */
#include "wt_expandable.h"

static void setup(void)
{
    begin("on");
}

WT_CASE("expandable", .setup = setup, .teardown = teardown);

/* ---- growth ------------------------------------------------------------ */

WT_TEST(test_C3_C8_growth_extends_what_is_idle)
{
    char *block = take(first, 10 * MIB), *other, *base;

    ck_assert_uint_eq(held_now(), 10 * MIB);
    wt_ok(warm_free(block));
    other = take(first, 14 * MIB);
    ck_assert_ptr_eq(other, block);
    ck_assert_uint_eq(held_now(), 14 * MIB);
    ck_assert_uint_eq(stats_now().all.segments.current, 1);
    ck_assert_uint_eq(calls_of("range_reserve"), 1);
    ck_assert_uint_eq(calls_of("range_commit"), 7); /* units: little is held */
    ck_assert_uint_eq(calls_of("device_alloc"), 0);
    fill(other, 14 * MIB, 5);
    assert_filled(other, 14 * MIB, 5);
    /* Small ones have a range of their own. */
    block = take(first, 3000);
    ck_assert_uint_eq(extent_of(other, &base), 14 * MIB);
    ck_assert_ptr_eq(base, other);
    ck_assert_uint_eq(extent_of(block, &base), 2 * MIB);
    ck_assert_uint_eq(calls_of("range_reserve"), 2);
    ck_assert_uint_eq(held_now(), 16 * MIB);
    check();
    wt_free(block, other);
}

/* Each is larger than all before, and something small stays where it was: what
 * is left of a segment is of no use to the next one, unless it grows. */
static uint64_t held_after_growing_blocks(const char *expandable)
{
    enum { ROUNDS = 10 };
    char *kept[ROUNDS];
    uint64_t held;

    begin(expandable);
    for (size_t i = 0; i < ROUNDS; i++) {
        wt_ok(warm_free(take(first, (8 + 2 * i) * MIB)));
        kept[i] = take(first, 3 * MIB / 2);
    }
    held = held_now();
    wt_free_all(kept, ROUNDS);
    teardown();
    return held;
}

WT_CASE("bare");

WT_TEST(test_C3_C8_a_trace_that_fragments_segments_needs_less)
{
    uint64_t with = held_after_growing_blocks("on");
    uint64_t without = held_after_growing_blocks("off");

    /* 15 MiB stay, the largest was 26. */
    ck_assert_uint_le(with, 42 * MIB);
    ck_assert_uint_ge(without, with + 8 * MIB);
}

WT_CASE("expandable", .setup = setup, .teardown = teardown);

/* Where there is least to be added, and lowest. */
WT_TEST(test_C3_C8_holes_are_filled_where_least_is_missing)
{
    char *block[5], *got, *base;

    for (int i = 0; i < 5; i++) {
        block[i] = take(first, 10 * MIB);
        fill(block[i], 10 * MIB, (char)i);
    }
    ck_assert_ptr_eq(block[4], block[0] + 40 * MIB);
    wt_free(block[1], block[3]);
    ck_assert_uint_eq(empty(), 20 * MIB);
    ck_assert_uint_eq(held_now(), 30 * MIB);
    ck_assert_uint_eq(extent_of(block[0], &base), 10 * MIB);
    ck_assert_uint_eq(extent_of(block[2], &base), 10 * MIB);
    ck_assert_ptr_eq(base, block[2]);
    /* The lower one, and only so much of it. */
    got = take(first, 3 * MIB);
    ck_assert_ptr_eq(got, block[1]);
    ck_assert_uint_eq(held_now(), 34 * MIB);
    ck_assert_uint_eq(extent_of(block[0], &base), 14 * MIB);
    /* With the rest of what came before, behind it. */
    block[1] = take(first, 5 * MIB);
    ck_assert_ptr_eq(block[1], got + 3 * MIB);
    ck_assert_uint_eq(held_now(), 38 * MIB);
    /* Too large for a hole. */
    block[3] = take(first, 12 * MIB);
    ck_assert_ptr_eq(block[3], block[4] + 10 * MIB);
    check();
    assert_filled(block[0], 10 * MIB, 0);
    assert_filled(block[2], 10 * MIB, 2);
    assert_filled(block[4], 10 * MIB, 4);
    wt_ok(warm_free(got));
    wt_free_all(block, 5);
    ck_assert_uint_eq(empty(), 50 * MIB);
    ck_assert_uint_eq(stats_now().all.segments.current, 0);
}

/* All of a hole, and what lies on both sides of it. */
WT_TEST(test_C3_C8_a_hole_joins_what_is_idle_on_both_sides)
{
    char *block[3], *all;

    for (int i = 0; i < 3; i++) {
        block[i] = take(first, 6 * MIB);
    }
    wt_ok(warm_free(block[1]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    wt_free(block[0], block[2]);
    all = take(first, 17 * MIB);
    ck_assert_ptr_eq(all, block[0]);
    ck_assert_uint_eq(held_now(), 18 * MIB);
    wt_ok(warm_free(all));
    /* Idle memory behind a hole is used from there. */
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    block[0] = take(first, 6 * MIB);
    block[1] = take(first, 2 * MIB);
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    wt_ok(warm_free(block[1]));
    all = take(first, 4 * MIB);
    ck_assert_ptr_eq(all + 4 * MIB, block[1] + 2 * MIB);
    ck_assert_uint_eq(held_now(), 4 * MIB);
    wt_ok(warm_free(all));
}

/* What lies idle in too small a place goes when memory comes elsewhere, if much
 * is idle: the peak is what counts. */
WT_TEST(test_C8_growth_takes_the_place_of_what_is_idle)
{
    char *idle = take(first, 10 * MIB), *kept = take(first, 2 * MIB), *block;

    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(idle));
    block = take(second, 12 * MIB);
    ck_assert_ptr_eq(block, kept + 2 * MIB);
    ck_assert_uint_eq(held_now(), 14 * MIB);
    ck_assert_uint_eq(calls_of("range_decommit"), 5);
    check();
    wt_free(block, kept);
    (void)empty();
    /* A little idle memory stays. */
    kept = take(first, 40 * MIB);
    idle = take(first, 4 * MIB);
    block = take(first, 2 * MIB);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(idle));
    idle = take(second, 6 * MIB);
    ck_assert_uint_eq(held_now(), 52 * MIB);
    wt_free(idle, block, kept);
}

/* Of two places that do not do, the one that was idle longer. */
WT_TEST(test_C8_what_is_idle_longest_goes_first)
{
    char *block[4];

    for (int i = 0; i < 4; i++) {
        block[i] = take(first, (i % 2 == 0 ? 10 : 2) * MIB);
    }
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block[2]));
    wt_ok(warm_free(block[0]));
    wt_ok(warm_free(take(second, 12 * MIB)));
    ck_assert_uint_eq(held_now(), 24 * MIB);
    block[2] = take(second, 8 * MIB);
    ck_assert_ptr_eq(block[2], block[0]);
    ck_assert_uint_eq(held_now(), 24 * MIB);
    for (int i = 1; i < 4; i++) {
        wt_ok(warm_free(block[i]));
    }
}

/* Memory that is another stream's still is no part of a growth. */
WT_TEST(test_C1_C3_growth_takes_nothing_of_another_stream)
{
    char *idle = take(first, 10 * MIB), *block;
    wt_gate *gate = wt_gate_hold(runtime, first);

    fill(idle, 10 * MIB, 1);
    wt_ok(warm_free(idle));
    block = take(second, 4 * MIB);
    ck_assert_ptr_eq(block, idle + 10 * MIB);
    ck_assert_uint_eq(held_now(), 14 * MIB);
    check();
    wt_gate_open(gate);
    wt_ok(warm_free(block));
}

/* ---- going back -------------------------------------------------------- */

WT_TEST(test_C8_trim_takes_whole_pieces_and_no_more_than_it_must)
{
    char *block[3], *small, *base;
    size_t released = 0;

    block[0] = take(first, 5 * MIB);
    block[1] = take(first, 12 * MIB);
    block[2] = take(first, 5 * MIB);
    wt_ok(warm_free(block[1]));
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_device_trim(runtime, 0, held_now() - 3 * MIB, &released));
    ck_assert_uint_eq(released, 4 * MIB);
    check();
    ck_assert_uint_eq(extent_of(block[0], &base), 12 * MIB);
    /* From 5 to 17 MiB, of which 6 to 16 are whole pieces, units here. */
    ck_assert_uint_eq(empty(), 6 * MIB);
    ck_assert_uint_eq(empty(), 0);
    small = take(first, MIB + 1);
    wt_free(small, block[0], block[2]);
    (void)empty();
    ck_assert_uint_eq(held_now(), 0);
    /* Of a large growth they are larger. */
    block[0] = take(first, 192 * MIB);
    wt_ok(warm_free(block[0]));
    block[0] = take(first, MIB);
    wt_ok(warm_device_trim(runtime, 0, 189 * MIB, &released));
    ck_assert_uint_eq(released, 64 * MIB);
    ck_assert_uint_eq(empty(), 64 * MIB);
    ck_assert_uint_eq(held_now(), 64 * MIB);
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(empty(), 64 * MIB);
}

static void empty_cache(void *argument, unsigned index)
{
    size_t *released = argument;

    wt_ok(warm_device_trim(runtime, 0, 0, released));
}

static void nothing(void *argument, unsigned index)
{
    wt_linger linger = {0};

    while (wt_lingers(&linger)) {
    }
    wt_gate_open(argument);
}

struct pair {
    wt_gate *gate;
    size_t released;
    void *block;
};

static void empty_or_open(void *argument, unsigned index)
{
    struct pair *pair = argument;

    if (index == 0) {
        empty_cache(&pair->released, 0);
    } else {
        nothing(pair->gate, 0);
    }
}

/* Work that is queued on memory has it until it is done: an adopted stream is
 * waited for. The host device has nothing there else, and the copy crashes. */
WT_TEST(test_C4_C8_memory_goes_back_behind_the_work_on_it)
{
    struct pair pair = {NULL, 0, NULL};
    char *block = take(first, 8 * MIB);

    fill(block, 8 * MIB, 1);
    pair.gate = wt_gate_close(runtime, first);
    wt_gate_await(pair.gate);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_free(block));
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
    check();
}

struct busy {
    struct pair pair;
    wt_gate *later;
    uint64_t waits;
};

static void empty_or_go_on(void *argument, unsigned index)
{
    struct busy *busy = argument;

    if (index == 0) {
        empty_cache(&busy->pair.released, 0);
        return;
    }
    while (calls_of("event_synchronize") == busy->waits) {
        sched_yield();
    }
    busy->later = wt_gate_close(runtime, first);
    wt_gate_open(busy->pair.gate);
}

/* Not for what the stream is given to do meanwhile: or this hangs. */
WT_TEST(test_C4_C8_work_that_comes_later_is_not_waited_for)
{
    struct busy busy = {.pair = {.gate = NULL}};
    char *block = take(first, 8 * MIB);

    busy.pair.gate = wt_gate_close(runtime, first);
    wt_gate_await(busy.pair.gate);
    wt_ok(warm_free(block));
    busy.waits = calls_of("event_synchronize");
    wt_threads(2, empty_or_go_on, &busy);
    ck_assert_uint_eq(busy.pair.released, 8 * MIB);
    wt_gate_open(busy.later);
}

/* Where nothing is to go nobody is waited for: or this hangs. */
WT_TEST(test_C8_a_trim_that_is_met_waits_for_nobody)
{
    char *block = take(first, 8 * MIB);
    wt_gate *gate = wt_gate_close(runtime, first);
    size_t back = 1;

    wt_gate_await(gate);
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 8 * MIB, &back));
    ck_assert_uint_eq(back, 0);
    wt_gate_open(gate);
}

/* A stream that is not adopted may be gone, so CUDA cannot be asked about it: a
 * thread that empties the cache waits for the device instead. */
WT_TEST(test_C4_C8_for_a_stream_that_is_not_adopted_the_device_is_waited_for)
{
    struct pair pair = {NULL, 0, NULL};
    char *block;

    wt_ok(warm_stream_retire(runtime, second));
    block = take(second, 8 * MIB);
    pair.gate = wt_gate_close(runtime, second);
    wt_gate_await(pair.gate);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block));
    /* Nobody waits where nothing is to go. */
    wt_ok(warm_device_trim(runtime, 0, 8 * MIB, &pair.released));
    ck_assert_uint_eq(pair.released, 0);
    ck_assert_uint_eq(calls_of("device_synchronize"), 0);
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
    ck_assert_uint_eq(calls_of("device_synchronize"), 1);
    check();
    /* Once it has. */
    ck_assert_uint_eq(empty(), 0);
    ck_assert_uint_eq(calls_of("device_synchronize"), 1);
}

/* But not while a capture is announced, nor for a request: or this hangs. */
WT_TEST(test_B7_C8_the_device_is_not_waited_for_beside_a_capture)
{
    void *pointer = NULL;
    wt_gate *gate;
    char *block;

    wt_ok(warm_stream_retire(runtime, second));
    block = take(second, 8 * MIB);
    gate = wt_gate_hold(runtime, second);
    fill(block, 8 * MIB, 2);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_free(block));
    wt_ok(warm_capture_announce(runtime, first));
    ck_assert_uint_eq(empty(), 0);
    wt_ok(warm_capture_announce_end(runtime, first));
    wt_limit(runtime, 8.0 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 2 * MIB, &pointer));
    ck_assert_uint_eq(calls_of("device_synchronize"), 0);
    wt_gate_open(gate);
}

/* No copy of ours: that would record the stream. A GPU's memory is not the
 * process's, and then the work only takes its time. */
static void touch(void *block)
{
    if (!wt_on_gpu()) {
        memset(block, 3, 8 * MIB);
    }
}

/* The default stream lives for ever. */
WT_TEST(test_C4_C8_the_legacy_stream_is_waited_for)
{
    struct pair pair = {NULL, 0, NULL};
    char *block = take(NULL, 8 * MIB);

    pair.gate = wt_gate_close(runtime, NULL);
    wt_gate_await(pair.gate);
    wt_ok(warm_stream_host_func(runtime, NULL, touch, block));
    wt_ok(warm_free(block));
    wt_threads(2, empty_or_open, &pair);
    ck_assert_uint_eq(pair.released, 8 * MIB);
}

/* ---- out of memory, and calls that fail -------------------------------- */

/* Too little is idle to be given back for what comes. */
WT_TEST(test_C8_what_is_idle_goes_above_a_threshold)
{
    warm_device_info device = WARM_INIT(warm_device_info);
    char *block[4];

    wt_ok(warm_device_get_info(runtime, 0, &device));
    block[0] = take(first, 34 * MIB);
    block[1] = take(first, 2 * MIB);
    block[2] = take(first, 16 * MIB);
    wt_ok(warm_free(block[1]));
    block[1] = take(second, 4 * MIB);
    ck_assert_uint_eq(held_now(), 56 * MIB);
    wt_ok(warm_stream_synchronize(runtime, first));
    wt_ok(warm_watermarks_set(runtime, 0, 0, 60 * MIB));
    block[3] = take(second, 4 * MIB);
    ck_assert_uint_eq(held_now(), 60 * MIB);
    wt_ok(warm_free(block[3]));
    block[3] = take(second, 8 * MIB);
    ck_assert_uint_eq(held_now(), 62 * MIB);
    wt_free_all(block, 4);
}

/* The limit is of memory, not of addresses; what is idle counts once. */
WT_TEST(test_C2_C8_the_limit_is_of_what_is_committed)
{
    void *pointer = &pointer;
    char *block = take(first, 10 * MIB);

    wt_ok(warm_free(block));
    wt_limit(runtime, 16.0 * MIB);
    block = take(first, 16 * MIB);
    ck_assert_uint_eq(held_now(), 16 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 2 * MIB, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert(!wt_on_host() ||
              strstr(warm_last_error_message(),
                     "on device 0, of 256.0 MiB, 240.0 MiB of them free"));
    wt_says("limit 16.0 MiB");
    check();
    /* The place that was looked at is there still. */
    wt_ok(warm_watermarks_set(runtime, 0, 0, 0));
    pointer = take(first, 2 * MIB);
    ck_assert_ptr_eq(pointer, block + 16 * MIB);
    wt_free(pointer, block);
    (void)empty();
    wt_limit(runtime, 16.0 * MIB);
    /* Of another sort: what is idle goes for it. */
    block = take(first, 3000);
    ck_assert_uint_le(held_now(), 16 * MIB);
    check();
    wt_ok(warm_free(block));
}

WT_TEST(test_C2_C8_a_commit_that_fails_changes_nothing)
{
    char *block = take(first, 10 * MIB), *base;
    void *pointer = NULL;

    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 1, 1));
    wt_ok(warm_testing_fail(runtime, "range_commit", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 14 * MIB, &pointer));
    /* Once: nobody was beside it. */
    ck_assert_uint_eq(calls_of("range_commit"), 6);
    ck_assert_ptr_null(pointer);
    check();
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ck_assert_uint_eq(stats_now().all.held_bytes.allocated, 10 * MIB);
    /* What was claimed for it is still there. */
    ck_assert_ptr_eq(take(first, 10 * MIB), block);
    ck_assert_uint_eq(extent_of(block, &base), 10 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "range_commit", 0, 0));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    ck_assert_ptr_eq(take(first, 14 * MIB), block);
    wt_ok(warm_free(block));
}

WT_TEST(test_C8_what_the_driver_does_not_take_stays_in_the_cache)
{
    char *block = take(first, 10 * MIB);

    fill(block, 10 * MIB, 7);
    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 1, 1));
    ck_assert_uint_eq(empty(), 0);
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    ck_assert_uint_eq(held_now(), 10 * MIB);
    ck_assert_ptr_eq(take(first, 10 * MIB), block);
    assert_filled(block, 10 * MIB, 7);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 10 * MIB);
}

WT_TEST(test_C8_addresses_that_cannot_be_had_are_out_of_memory)
{
    void *pointer = NULL;

    wt_ok(warm_testing_fail(runtime, "range_reserve", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, try(first, 3000, &pointer));
    wt_ok(warm_testing_fail(runtime, "range_reserve", 0, 0));
    ck_assert_uint_eq(held_now(), 0);
    wt_ok(warm_free(take(first, 3000)));
}

/* ---- while one grows --------------------------------------------------- */

static void ask_or_open(void *argument, unsigned index)
{
    struct pair *pair = argument;

    if (index == 0) {
        pair->released = (size_t)try(first, 14 * MIB, &pair->block);
    } else {
        nothing(pair->gate, 0);
    }
}

/* What is freed and waits for a stream is waited for before memory is out, be
 * that retired or not. */
WT_LOOP_TEST(test_C2_C8_a_request_waits_for_what_waits_for_streams, 2)
{
    struct pair pair = {NULL, 0, NULL};
    char *block = take(first, 10 * MIB);

    wt_limit(runtime, 16.0 * MIB);
    pair.gate = wt_gate_close(runtime, second);
    wt_gate_await(pair.gate);
    wt_ok(warm_record_stream(block, second));
    wt_ok(warm_free(block));
    if (_i == 1) {
        wt_ok(warm_stream_retire(runtime, second));
    }
    wt_threads(2, ask_or_open, &pair);
    ck_assert_int_eq((int)pair.released, WARM_OK);
    ck_assert_uint_le(held_now(), 16 * MIB);
    check();
    wt_ok(warm_free(pair.block));
}

/* What makes room is no whole unit, which could go, but does for the request:
 * of a default stream, whose memory no poll brings. */
WT_TEST(test_C2_C8_what_is_waited_for_to_make_room_is_looked_for)
{
    char *block[2];

    wt_limit(runtime, 4.0 * MIB);
    block[0] = take(NULL, MIB);
    block[1] = take(NULL, MIB);
    wt_ok(warm_free(block[1]));
    block[1] = take(first, 3 * MIB);
    ck_assert_ptr_eq(block[1], block[0] + MIB);
    ck_assert_uint_eq(held_now(), 4 * MIB);
    wt_free(block[0], block[1]);
}

/* ---- what else sees segments ------------------------------------------- */

WT_TEST(test_C8_C9_it_cannot_be_shared_and_says_why)
{
    warm_ipc_handle handle = WARM_INIT(warm_ipc_handle);
    char *block = take(first, 3 * MIB);

    wt_fails(WARM_UNSUPPORTED, warm_ipc_export(block, &handle));
    wt_says("expandable_segments");
    ck_assert_uint_eq(handle.pid, 0);
    wt_ok(warm_free(block));
}

/* What is idle elsewhere goes for a user's own, once its stream has passed. */
WT_TEST(test_C8_E3_for_a_private_pool_streams_are_waited_for)
{
    warm_private_pool pool = {0};
    char *block = take(NULL, 10 * MIB);

    wt_limit(runtime, 16.0 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
    block = take(first, 8 * MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_uint_eq(held_now(), 8 * MIB);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_release(runtime, pool));
}

/* Of a pool that has gone blocks come back one by one: none of them waits for
 * streams, whose ranges those of the pool are not. */
WT_TEST(test_C8_E3_blocks_of_a_pool_that_has_gone_wait_for_no_stream)
{
    warm_private_pool pool = {0};
    char *of_pool[2], *block;
    wt_gate *gate;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    of_pool[0] = take(first, MIB);
    of_pool[1] = take(first, MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    block = take(second, 3 * MIB);
    gate = wt_gate_hold(runtime, second);
    wt_free(block, of_pool[0]);
    wt_ok(warm_poll(runtime));
    wt_gate_open(gate);
    wt_ok(warm_free(of_pool[1]));
}

WT_TEST(test_C2_C8_no_addresses_are_had_for_what_no_device_has)
{
    void *pointer = &pointer;

    wt_fails(WARM_OUT_OF_MEMORY, try(first, (size_t)1 << 44, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(calls_of("range_reserve"), 0);
    ck_assert_uint_eq(calls_of("range_commit"), 0);
}

static unsigned extents_in(char *text, size_t bytes)
{
    const char *at = text;
    unsigned expandable = 0;

    wt_ok(warm_snapshot_viz(runtime, text, bytes, NULL));
    while ((at = strstr(at, "\"is_expandable\":true")) != NULL) {
        expandable++;
        at++;
    }
    return expandable;
}

/* Memory in two extents, as PyTorch's visualiser wants it; then in the second
 * alone. */
WT_TEST(test_C7_C8_snapshots_show_what_has_memory)
{
    static char text[1 << 16];
    char *block[3];

    for (int i = 0; i < 3; i++) {
        block[i] = take(first, 6 * MIB);
    }
    wt_ok(warm_free(block[1]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    ck_assert_uint_eq(extents_in(text, sizeof text), 2);
    wt_contains(text, "\"action\":\"segment_map\"",
                "\"action\":\"segment_unmap\"");
    wt_ok(warm_free(block[0]));
    ck_assert_uint_eq(empty(), 6 * MIB);
    ck_assert_uint_eq(extents_in(text, sizeof text), 1);
    wt_ok(warm_free(block[2]));
}

/* A pointer into a hole is nobody's, also to its first byte. */
WT_TEST(test_C8_C10_pointers_into_holes_are_refused)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    char *block = take(first, 6 * MIB), *kept = take(first, 2 * MIB);

    wt_ok(warm_free(block));
    ck_assert_uint_eq(empty(), 6 * MIB);
    for (size_t at = 0; at < 6 * MIB; at += MIB) {
        wt_fails(WARM_INVALID_POINTER, warm_free(block + at));
    }
    wt_fails(WARM_NOT_FOUND, warm_block_get_info(kept + 8 * MIB, &info));
    check();
    wt_ok(warm_free(kept));
}

/* ---- random runs ------------------------------------------------------- */

enum { HELD = 40 };

WT_TEST(test_C3_C8_random_sizes_and_trims)
{
    uint64_t random = wt_seed();
    char *block[HELD] = {NULL};
    size_t bytes[HELD] = {0};

    for (unsigned step = 0; step < wt_scaled(1500); step++) {
        size_t i = wt_random(&random) % HELD;
        warm_stream stream = wt_random(&random) % 3 == 0 ? second : first;
        void *got = NULL;

        if (block[i] != NULL) {
            wt_ok(warm_free(block[i]));
            block[i] = NULL;
        } else {
            bytes[i] = ((size_t)1 << (10 + wt_random(&random) % 14)) +
                       wt_random(&random) % 5000;
            if (try(stream, bytes[i], &got) == WARM_OK) {
                block[i] = got;
            }
        }
        if (step % 50 == 0) {
            wt_ok(warm_device_trim(runtime, 0, wt_random(&random) % (64 * MIB),
                                   NULL));
        }
        if (step % 70 == 0) {
            wt_ok(warm_testing_fail(runtime, "range_commit", 3, 0));
            wt_ok(warm_testing_fail(runtime, "range_decommit", 3, 0));
        }
        check();
        for (size_t k = 0; k < HELD; k++) {
            wt_require(k == i || block[k] == NULL || block[i] == NULL ||
                           block[k] + bytes[k] <= block[i] ||
                           block[i] + bytes[i] <= block[k],
                       "two blocks overlap");
        }
    }
    wt_ok(warm_testing_fail(runtime, "range_commit", 0, 0));
    wt_ok(warm_testing_fail(runtime, "range_decommit", 0, 0));
    wt_free_all(block, HELD);
    (void)empty();
    /* A piece that did not go when its growth failed. */
    ck_assert_uint_eq(held_now(), stats_now().lost_bytes);
}

/* ---- several devices ----------------------------------------------------- */

WT_CASE("two devices");

/* Of each device, whichever is the thread's current one. */
WT_TEST(test_C2_C8_idle_memory_of_each_default_stream_is_waited_for)
{
    void *block[3];

    runtime = wt_two_devices(&(warm_options){.size = sizeof(warm_options),
                                             .segment = 2 * MIB,
                                             .expandable_segments = "on"});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    for (int i = 0; i < 2; i++) {
        first = wt_stream(runtime, i);
        wt_ok(warm_watermarks_set(runtime, i, 4 * MIB, 0));
        wt_ok(warm_device_alloc(runtime, i, NULL, MIB, &block[0]));
        wt_ok(warm_device_alloc(runtime, i, NULL, MIB, &block[1]));
        wt_ok(warm_free(block[1]));
        wt_ok(warm_device_alloc(runtime, i, first, 3 * MIB, &block[2]));
        ck_assert_ptr_eq(block[2], block[1]);
        wt_free(block[0], block[2]);
        wt_stream_end(runtime, first);
    }
    wt_runtime_end(runtime);
}
