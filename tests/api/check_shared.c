/* check_shared.c: buffers that a device has to itself or shares with the host:
 * pools, answers, shapes, scalars, users, events (rows F1 to F6, D4). */
/* memcheck: one process */
#include "wt.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream, other;

static void begin(warm_options options)
{
    options.size = sizeof options;
    runtime = wt_runtime(&options);
    stream = wt_stream(runtime, 0);
    other = wt_stream(runtime, 0);
}

static void setup(void)
{
    begin((warm_options){0});
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_stream_end(runtime, other);
    wt_runtime_end(runtime);
}

static void *take(size_t bytes, warm_usage usage)
{
    void *pointer = NULL;

    wt_ok(warm_shared_alloc(runtime, 0, bytes, usage, &pointer));
    ck_assert_ptr_nonnull(pointer);
    return pointer;
}

static void *share(size_t bytes)
{
    return take(bytes, WARM_USAGE_SHARED);
}

static warm_shared_info info_of(const void *pointer)
{
    warm_shared_info info = {.size = sizeof info};

    wt_ok(warm_shared_get_info(pointer, &info));
    return info;
}

static warm_space_stats stats_of(warm_usage usage)
{
    warm_space_stats stats = {.size = sizeof stats};

    wt_ok(warm_shared_get_stats(runtime, 0, usage, &stats));
    return stats;
}

static uint64_t held(warm_usage usage)
{
    return stats_of(usage).held_bytes.current;
}

static size_t free_inactive(void)
{
    size_t freed = 12345;

    wt_ok(warm_shared_free_inactive(runtime, 0, &freed));
    return freed;
}

static size_t record(void *pointer, warm_stream on)
{
    size_t recorded = 12345;

    wt_ok(warm_shared_record(runtime, &pointer, 1, on, &recorded));
    return recorded;
}

static size_t wait_for(void *pointer)
{
    size_t waited = 12345;

    wt_ok(warm_shared_wait(runtime, &pointer, 1, &waited));
    return waited;
}

WT_CASE("buffers", .setup = setup, .teardown = teardown);

/* ---- heaps --------------------------------------------------------------- */

static const warm_usage usages[] = {WARM_USAGE_PRIVATE, WARM_USAGE_SHARED};

WT_LOOP_TEST(test_F1_small_and_large_buffers_have_segments_of_their_own, 2)
{
    warm_usage usage = usages[_i];
    void *small = take(12 * MIB, usage), *large, *own, *more;

    ck_assert_uint_eq(held(usage), 12 * MIB);
    wt_free(small);
    wt_ok(warm_shared_trim(runtime, 0, 0, NULL));
    small = take(MIB, usage);
    ck_assert_uint_eq(held(usage), 8 * MIB);
    large = take(MIB + 1, usage);
    ck_assert_uint_eq(held(usage), 40 * MIB);
    own = take(34 * MIB + 1, usage);
    ck_assert_uint_gt(held(usage), 74 * MIB);
    ck_assert_uint_le(held(usage), 76 * MIB);
    /* The rest of the segments serves later requests. */
    more = take(7 * MIB, usage);
    wt_free(small, more);
    small = take(900000, usage);
    more = take(9 * MIB, usage);
    ck_assert_uint_le(held(usage), 76 * MIB);
    ck_assert_uint_eq(stats_of(usage).segments.current, 3);
    ck_assert_uint_eq(held(usages[1 - _i]), 0);
    wt_free(small, large, own, more);
}

WT_TEST(test_F1_a_buffer_is_cut_from_the_gap_that_fits_best)
{
    void *block[5], *again;

    for (int i = 0; i < 5; i++) {
        block[i] = share(i == 1 ? 6 * MIB : i == 3 ? 3 * MIB : 2 * MIB);
    }
    wt_free(block[1], block[3]);
    again = share(3 * MIB - 100);
    ck_assert_ptr_eq(again, block[3]);
    wt_free(block[0], block[2], block[4], again);
}

WT_TEST(test_F1_a_segment_that_the_driver_refuses_is_tried_smaller)
{
    void *block;

    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 0));
    wt_ok(warm_testing_fail(runtime, "pinned_register", 1, 0));
    block = share(5000);
    ck_assert_uint_eq(held(WARM_USAGE_SHARED), 4 * MIB);
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 0, 0));
    wt_ok(warm_testing_fail(runtime, "pinned_register", 0, 0));
    wt_ok(warm_free(block));
}

/* Where one node is and blocks are allocated; where all memory is registered.
 */
static const char *const pins[] = {"auto", "register"};

WT_LOOP_TEST(test_B19_page_locked_buffers_are_locked_in_pieces, 2)
{
    enum { BYTES = 10 << 20 };
    void *device = NULL, *base = NULL;
    uint64_t before;
    size_t bytes = 0;
    char *buffer, *small;

    teardown();
    begin((warm_options){
        .pin = pins[_i], .pin_chunk = MIB, .shared_memory = "mapped"});
    before = wt_calls(runtime, "pinned_register");
    buffer = share(BYTES + 4096);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register") - before, 11);
    ck_assert_uint_eq(wt_block_info(buffer).pieces, 11);
    ck_assert_ptr_eq(info_of(buffer + BYTES).address, info_of(buffer).address);
    wt_ok(warm_block_get_piece(buffer, 10, &base, &bytes));
    ck_assert_ptr_eq(base, buffer + BYTES);
    ck_assert_uint_eq(bytes, 4096);
    small = share(1000);
    ck_assert_uint_le(wt_block_info(small).segment_bytes, MIB);
    ck_assert_uint_eq(wt_block_info(small).pieces, 1);
    /* Across cuts, and from a shared buffer to itself. */
    wt_ok(warm_device_alloc(runtime, 0, stream, BYTES, &device));
    memset(buffer, 1, BYTES);
    wt_ok(warm_copy_async(runtime, device, buffer + 5, BYTES - 5,
                          WARM_COPY_TO_DEVICE, stream));
    wt_ok(warm_copy_async(runtime, buffer + 4096, device, BYTES - 5,
                          WARM_COPY_TO_HOST, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(buffer[BYTES - 1] + buffer[MIB] + buffer[4095], 3);
    wt_ok(warm_testing_check(runtime, 0));
    wt_free(device);
    /* Its pieces serve smaller requests, which adjoin no other piece. */
    wt_free(buffer);
    buffer = share(3 * MIB / 4);
    ck_assert_uint_le(held(WARM_USAGE_SHARED), BYTES + MIB + MIB / 8);
    wt_free(buffer);
    wt_free(small);
    ck_assert_uint_eq(held(WARM_USAGE_PRIVATE), 0);
    wt_ok(warm_shared_trim(runtime, 0, 0, NULL));
    ck_assert_uint_eq(held(WARM_USAGE_SHARED), 0);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"),
                      wt_calls(runtime, "pinned_unregister"));
}

WT_TEST(test_F2_empty_segments_go_back_to_the_driver)
{
    void *block[] = {share(5000), share(5 * MIB), share(20 * MIB),
                     take(5000, WARM_USAGE_PRIVATE)};
    warm_device_stats device = wt_device_stats(runtime);
    size_t released = 0;
    uint64_t all = held(WARM_USAGE_SHARED) + held(WARM_USAGE_PRIVATE);

    ck_assert_uint_eq(device.workspace_bytes, held(WARM_USAGE_PRIVATE));
    wt_ok(warm_shared_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, 0);
    wt_free_all(block, 4);
    wt_ok(warm_shared_trim(runtime, 0, all, &released));
    ck_assert_uint_eq(released, 0);
    wt_ok(warm_shared_trim(runtime, 0, all - 1, &released));
    ck_assert(released > 0 && released < all);
    all -= released;
    wt_ok(warm_shared_trim(runtime, 0, 0, &released));
    ck_assert_uint_eq(released, all);
    ck_assert_uint_eq(held(WARM_USAGE_SHARED) + held(WARM_USAGE_PRIVATE), 0);
    ck_assert_uint_eq(wt_device_stats(runtime).workspace_bytes, 0);
    wt_ok(warm_shared_trim(runtime, 0, 0, NULL));
}

/* ---- answers ------------------------------------------------------------- */

WT_TEST(test_F3_a_pointer_tells_what_its_buffer_is)
{
    char *shared = share(70001), *private = take(70001, WARM_USAGE_PRIVATE);
    warm_shared_info of_shared = info_of(shared + 70000),
                     of_private = info_of(private);

    memset(shared, 3, 70001);
    ck_assert_int_eq(of_shared.shared, 1);
    ck_assert_int_eq(of_shared.device, 0);
    ck_assert_uint_eq(of_shared.requested, 70001);
    ck_assert_uint_ge(of_shared.bytes, 70001);
    ck_assert_ptr_eq(of_shared.host, shared);
    ck_assert_ptr_nonnull(of_shared.address);
    ck_assert_uint_eq(of_shared.users, 0);
    ck_assert_int_eq(of_private.shared, 0);
    ck_assert_ptr_null(of_private.host);
    ck_assert_ptr_eq(of_private.address, private);
    ck_assert_uint_eq(of_private.requested, 70001);
    ck_assert_uint_ne(of_private.id, of_shared.id);
    ck_assert_uint_ne(of_private.id, 0);
    wt_ok(warm_free(shared));
    shared = share(70001);
    /* Another buffer, perhaps in the same place. */
    ck_assert_uint_ne(info_of(shared).id, of_shared.id);
    /* A block as any other: its memory is the host's, or the device's. */
    ck_assert_int_eq(wt_block_info(shared).device, -1);
    ck_assert_int_eq(wt_block_info(private).device, 0);
    wt_free(shared, private);
}

WT_TEST(test_F3_what_is_no_buffer_is_refused_by_name)
{
    void *pinned = wt_pinned(runtime, 5000), *gone = share(5000);
    warm_shared_info info = {.size = sizeof info, .id = 7};
    int here = 0;
    size_t count = 9;

    wt_ok(warm_free(gone));
    wt_fails(WARM_NOT_FOUND, warm_shared_get_info(pinned, &info));
    wt_says("no buffer of warm_shared_alloc()");
    wt_fails(WARM_NOT_FOUND, warm_shared_get_info(&here, &info));
    wt_fails(WARM_NOT_FOUND, warm_shared_get_info(gone, &info));
    wt_fails(WARM_NOT_FOUND, warm_shared_get_info(NULL, &info));
    ck_assert_uint_eq(info.id, 7);
    wt_fails(WARM_NOT_FOUND, warm_shared_retain(pinned));
    wt_fails(WARM_NOT_FOUND, warm_shared_retain(gone));
    wt_fails(WARM_NOT_FOUND, warm_shared_release(pinned));
    wt_fails(WARM_NOT_FOUND, warm_shared_release(gone));
    wt_fails(WARM_NOT_FOUND, warm_shared_set_shape(gone, NULL, 0));
    wt_fails(WARM_NOT_FOUND, warm_shared_get_shape(gone, NULL, 0, &count));
    wt_fails(WARM_NOT_FOUND,
             warm_shared_record(runtime, (void *const[]){pinned}, 1, stream,
                                &count));
    wt_fails(WARM_NOT_FOUND,
             warm_shared_wait(runtime, (void *const[]){gone}, 1, &count));
    ck_assert_uint_eq(count, 9);
    wt_fails(WARM_INVALID_POINTER, warm_free(gone));
    wt_ok(warm_free(pinned));
}

/* Any address: of a slot that was never used, behind a block, in the middle of
 * what is idle. */
WT_TEST(test_F3_C10_any_address_is_told_apart)
{
    warm_shared_info info = {.size = sizeof info};
    char *blocks[] = {share(100), take(100, WARM_USAGE_PRIVATE),
                      wt_pinned(runtime, 100), share(3 * MIB)};
    warm_runtime *another = wt_runtime(NULL);
    void *theirs = NULL, *list[1];
    size_t count;

    for (int i = 0; i < 4; i++) {
        size_t bytes = wt_block_info(blocks[i]).bytes;

        for (size_t at = 0; at < 256 * 1024; at += 512) {
            bool mine = at < bytes && i != 2;

            ck_assert(mine ==
                      (warm_shared_get_info(blocks[i] + at, &info) == WARM_OK));
            ck_assert_int_ne((int)warm_shared_release(blocks[i] + at),
                             (int)WARM_OK);
            ck_assert(mine == (warm_shared_set_shape(blocks[i] + at, NULL, 0) ==
                               WARM_OK));
            ck_assert(mine == (warm_shared_retain(blocks[i] + at) == WARM_OK &&
                               warm_shared_release(blocks[i] + at) == WARM_OK));
        }
    }
    wt_ok(warm_shared_alloc(another, 0, 5000, WARM_USAGE_SHARED, &theirs));
    list[0] = theirs;
    wt_fails(WARM_NOT_FOUND, warm_shared_wait(runtime, list, 1, &count));
    wt_says("another runtime");
    wt_ok(warm_free(theirs));
    wt_runtime_end(another);
    wt_free_all(blocks, 4);
}

WT_TEST(test_F2_bad_arguments_change_nothing)
{
    void *pointer = &pointer, *buffer = share(100);
    int64_t extent = -1;

    wt_invalid(warm_shared_alloc(runtime, 0, 8, (warm_usage)2, &pointer));
    wt_says("usage 2");
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_shared_alloc(runtime, 0, SIZE_MAX / 2, WARM_USAGE_SHARED,
                               &pointer));
    wt_says("device 0");
    ck_assert_ptr_eq(pointer, &pointer);
    wt_invalid(warm_shared_set_shape(buffer, &extent, 1));
    wt_says("extent 0 is -1");
    wt_invalid(warm_shared_release(buffer));
    wt_says("no user");
    wt_ok(warm_shared_alloc(runtime, 0, 0, WARM_USAGE_PRIVATE, &pointer));
    ck_assert_ptr_null(pointer);
    wt_ok(warm_free(buffer));
}

WT_TEST(test_F4_a_shape_stays_with_its_buffer)
{
    enum { MANY = 70 };
    int64_t many[MANY], read[MANY] = {0}, two[] = {640, 480};
    char *buffer = share(100000);
    size_t dimensions = 12345;

    for (int i = 0; i < MANY; i++) {
        many[i] = i;
    }
    wt_fails(WARM_NOT_FOUND,
             warm_shared_get_shape(buffer, read, MANY, &dimensions));
    wt_says("no shape");
    wt_ok(warm_shared_set_shape(buffer, many, MANY));
    many[3] = 77; /* it was copied */
    /* By a pointer of a view. */
    wt_ok(warm_shared_get_shape(buffer + 4321, read, MANY, &dimensions));
    ck_assert_uint_eq(dimensions, MANY);
    ck_assert_int_eq(read[3], 3);
    ck_assert_int_eq(read[MANY - 1], MANY - 1);
    wt_ok(warm_shared_set_shape(buffer + 4321, two, 2));
    read[1] = read[2] = -5;
    wt_ok(warm_shared_get_shape(buffer, read, 1, &dimensions));
    ck_assert_uint_eq(dimensions, 2);
    ck_assert_int_eq(read[0], 640);
    ck_assert_int_eq(read[1], -5);
    wt_ok(warm_shared_set_shape(buffer, NULL, 0));
    wt_ok(warm_shared_get_shape(buffer, NULL, 0, &dimensions));
    ck_assert_uint_eq(dimensions, 0);
    /* It ends with the buffer. */
    wt_ok(warm_free(buffer));
    buffer = share(100000);
    wt_fails(WARM_NOT_FOUND,
             warm_shared_get_shape(buffer, read, MANY, &dimensions));
    wt_ok(warm_free(buffer));
}

WT_TEST(test_F5_scalars_have_their_value_and_their_own_segments)
{
    double value = 2.5, pair[2] = {1, -1};
    void *scalar = NULL, *both = NULL, *block = share(16);
    warm_shared_info info;
    uint64_t before = held(WARM_USAGE_SHARED);

    wt_ok(warm_shared_alloc_scalar(runtime, 0, &value, sizeof value, &scalar));
    wt_ok(warm_shared_alloc_scalar(runtime, 0, pair, sizeof pair, &both));
    ck_assert_mem_eq(scalar, &value, sizeof value);
    ck_assert_mem_eq(both, pair, sizeof pair);
    ck_assert_uint_eq(held(WARM_USAGE_SHARED), before + (64 << 10));
    info = info_of(scalar);
    ck_assert_int_eq(info.shared, 1);
    ck_assert_uint_eq(info.requested, sizeof value);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).live.current, 3);
    wt_free(scalar, both, block);
}

/* ---- users --------------------------------------------------------------- */

WT_TEST(test_F2_F3_a_freed_buffer_stays_until_its_last_user_releases_it)
{
    char *buffer = share(5 * MIB), *next;

    memset(buffer, 9, 5 * MIB);
    wt_ok(warm_shared_retain(buffer));
    wt_ok(warm_shared_retain(buffer + 100));
    ck_assert_uint_eq(info_of(buffer).users, 2);
    wt_ok(warm_free(buffer));
    wt_fails(WARM_INVALID_POINTER, warm_free(buffer));
    wt_fails(WARM_NOT_FOUND, warm_shared_retain(buffer));
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).live.current, 0);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 1);
    ck_assert_uint_eq(free_inactive(), 0);
    next = share(5 * MIB);
    ck_assert_ptr_ne(next, buffer);
    memset(next, 1, 5 * MIB);
    wt_ok(warm_shared_release(buffer));
    ck_assert_uint_eq(free_inactive(), 0);
    ck_assert_int_eq(buffer[5 * MIB - 1], 9); /* still the user's */
    wt_ok(warm_shared_release(buffer + 5));
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 1);
    ck_assert_uint_eq(free_inactive(), 5 * MIB);
    ck_assert_uint_eq(free_inactive(), 0);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 0);
    wt_fails(WARM_NOT_FOUND, warm_shared_release(buffer));
    wt_ok(warm_free(next));
}

WT_TEST(test_F2_a_buffer_released_before_its_free_is_free_at_once)
{
    void *buffer = share(5 * MIB);

    wt_ok(warm_shared_retain(buffer));
    wt_ok(warm_shared_release(buffer));
    wt_ok(warm_free(buffer));
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 0);
    ck_assert_uint_eq(free_inactive(), 0);
}

WT_TEST(test_F2_an_allocation_uses_what_has_no_user_left)
{
    void *buffer = share(20 * MIB), *next;

    wt_ok(warm_shared_retain(buffer));
    wt_ok(warm_free(buffer));
    wt_ok(warm_shared_release(buffer));
    next = share(20 * MIB);
    ck_assert_ptr_eq(next, buffer);
    wt_ok(warm_free(next));
}

/* Of both, whichever comes last frees it. */
WT_LOOP_TEST(test_F2_B4_a_freed_buffer_waits_for_streams_and_for_users, 2)
{
    void *buffer = share(20 * MIB), *next;
    wt_gate *gate = wt_gate_hold(runtime, stream);

    wt_ok(warm_shared_retain(buffer));
    wt_ok(warm_record_stream(buffer, stream));
    wt_ok(warm_free(buffer));
    if (_i == 0) {
        wt_ok(warm_shared_release(buffer));
        (void)free_inactive();
    } else {
        wt_gate_open(gate);
        wt_settle(runtime, stream);
    }
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 1);
    next = share(20 * MIB);
    ck_assert_ptr_ne(next, buffer);
    wt_ok(warm_free(next));
    if (_i == 0) {
        wt_gate_open(gate);
        wt_settle(runtime, stream);
    } else {
        wt_ok(warm_shared_release(buffer));
        ck_assert_uint_eq(free_inactive(), 20 * MIB);
    }
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 0);
}

static void release(void *buffer)
{
    (void)warm_shared_release(buffer);
}

WT_TEST(test_F2_a_host_function_may_release_a_buffer)
{
    void *buffer = share(5000);
    size_t bytes = info_of(buffer).bytes;
    wt_gate *gate = wt_gate_hold(runtime, stream);

    wt_ok(warm_shared_retain(buffer));
    wt_ok(warm_stream_host_func(runtime, stream, release, buffer));
    wt_ok(warm_free(buffer));
    ck_assert_uint_eq(free_inactive(), 0);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 1);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_uint_eq(free_inactive(), bytes);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 0);
}

/* ---- events -------------------------------------------------------------- */

struct waiter {
    void *buffer;
    _Atomic bool done;
    warm_status status;
    size_t waited;
};

static void *wait_in_thread(void *argument)
{
    struct waiter *w = argument;

    w->status = warm_shared_wait(runtime, &w->buffer, 1, &w->waited);
    atomic_store(&w->done, true);
    return NULL;
}

WT_TEST(test_F6_a_wait_ends_with_the_work_that_was_recorded)
{
    void *buffers[] = {share(5000), take(5000, WARM_USAGE_PRIVATE),
                       share(6000)};
    struct waiter w = {.buffer = buffers[0]};
    wt_linger linger = {0};
    size_t recorded = 0;
    wt_gate *gate;
    pthread_t thread;

    ck_assert_uint_eq(wait_for(buffers[0]), 0);
    gate = wt_gate_hold(runtime, stream);
    wt_ok(warm_shared_record(runtime, buffers, 3, stream, &recorded));
    ck_assert_uint_eq(recorded, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_in_thread, &w), 0);
    while (!atomic_load(&w.done) && wt_lingers(&linger)) {
    }
    ck_assert(!atomic_load(&w.done));
    ck_assert_uint_eq(wait_for(buffers[1]), 0); /* it is private */
    wt_gate_open(gate);
    pthread_join(thread, NULL);
    ck_assert_int_eq(w.status, WARM_OK);
    ck_assert_uint_eq(w.waited, 1);
    /* One event for the list: what the thread has seen pass, has. */
    ck_assert_uint_eq(wait_for(buffers[2]), 0);
    ck_assert_uint_eq(wait_for(buffers[0]), 0);
    wt_free_all(buffers, 3);
    wt_settle(runtime, stream);
}

WT_TEST(test_F6_a_wait_is_for_every_stream_and_its_last_record)
{
    void *buffer = share(5000);
    uint64_t events;

    ck_assert_uint_eq(record(buffer, stream), 1);
    ck_assert_uint_eq(record(buffer, stream), 1);
    ck_assert_uint_eq(record(buffer, other), 1);
    events = wt_calls(runtime, "event_synchronize");
    ck_assert_uint_eq(wait_for(buffer), 1);
    ck_assert_uint_eq(wt_calls(runtime, "event_synchronize") - events, 2);
    ck_assert_uint_eq(wait_for(buffer), 0);
    wt_ok(warm_free(buffer));
    wt_settle(runtime, stream);
    wt_settle(runtime, other);
}

WT_TEST(test_F6_C4_a_recorded_buffer_is_not_reused_while_the_work_runs)
{
    void *buffer = share(20 * MIB), *next;
    void *twice[] = {buffer, buffer};
    wt_gate *gate = wt_gate_hold(runtime, stream);
    size_t recorded = 0;

    wt_ok(warm_shared_record(runtime, twice, 2, stream, &recorded));
    ck_assert_uint_eq(recorded, 2);
    wt_ok(warm_free(buffer));
    next = share(20 * MIB);
    ck_assert_ptr_ne(next, buffer);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_ok(warm_free(next));
}

WT_TEST(test_F6_nothing_is_recorded_in_a_capture)
{
    void *buffer = share(5000);
    warm_graph graph = NULL;
    void *list = buffer;
    size_t recorded = 9;

    wt_ok(warm_capture_begin(runtime, other));
    wt_fails(WARM_CAPTURE_ERROR,
             warm_shared_record(runtime, &list, 1, other, &recorded));
    ck_assert_uint_eq(recorded, 9);
    wt_ok(warm_capture_end(runtime, other, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    ck_assert_uint_eq(wait_for(buffer), 0);
    wt_ok(warm_free(buffer));
    /* No graph uses it. */
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).captured_bytes, 0);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 0);
}

WT_TEST(test_F6_marks_of_streams_that_come_and_go_do_not_pile_up)
{
    void *buffer = share(5000);
    uint64_t events = wt_calls(runtime, "event_create");

    for (int i = 0; i < 300; i++) {
        warm_stream brief = wt_stream(runtime, 0);

        ck_assert_uint_eq(record(buffer, brief), 1);
        wt_stream_end(runtime, brief);
    }
    ck_assert_uint_le(wt_calls(runtime, "event_create") - events, 60);
    (void)wait_for(buffer);
    wt_ok(warm_free(buffer));
}

/* A wait is over although other threads record more and more. */
WT_TEST(test_F6_a_wait_is_for_what_was_recorded_before_it)
{
    void *buffer = share(5000);
    wt_gate *gate;

    ck_assert_uint_eq(record(buffer, stream), 1);
    wt_ok(warm_stream_synchronize(runtime, stream));
    gate = wt_gate_hold(runtime, other);
    ck_assert_uint_eq(wait_for(buffer), 1);
    ck_assert_uint_eq(record(buffer, other), 1);
    wt_gate_open(gate);
    ck_assert_uint_eq(wait_for(buffer), 1);
    wt_ok(warm_free(buffer));
    wt_settle(runtime, other);
}

WT_TEST(test_F6_empty_lists_do_nothing)
{
    void *private = take(100, WARM_USAGE_PRIVATE);
    size_t count = 9;

    wt_ok(warm_shared_record(runtime, NULL, 0, stream, &count));
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(record(private, stream), 0);
    count = 9;
    wt_ok(warm_shared_wait(runtime, NULL, 0, &count));
    ck_assert_uint_eq(count, 0);
    wt_ok(warm_free(private));
}

/* ---- one interface ------------------------------------------------------- */

WT_TEST(test_D4_shared_memory_is_an_allocator_like_the_others)
{
    const warm_allocator *allocator = NULL, *device = NULL;
    void *pointer = NULL, *pinned = wt_pinned(runtime, 5000);
    void *private = take(5000, WARM_USAGE_PRIVATE);
    warm_storage *storage = NULL;

    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_SHARED, 0, &allocator));
    ck_assert_str_eq(allocator->name, "warmpool shared");
    ck_assert_int_eq(allocator->memory, WARM_MEMORY_SHARED);
    wt_ok(warm_allocator_alloc(allocator, 5000, stream, &pointer));
    ck_assert_int_eq(info_of(pointer).shared, 1);
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(allocator, pinned));
    wt_ok(warm_allocator_get(runtime, WARM_MEMORY_DEVICE, 0, &device));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(device, private));
    wt_fails(WARM_INVALID_POINTER, warm_allocator_free(allocator, private));
    wt_ok(warm_free(private));
    wt_ok(warm_allocator_free(allocator, pointer));
    wt_ok(warm_storage_create(allocator, 5000, stream, &storage));
    ck_assert_int_eq(info_of(warm_storage_data(storage)).shared, 1);
    warm_storage_release(storage);
    wt_ok(warm_free(pinned));
}

/* ---- limits and options -------------------------------------------------- */

WT_CASE("limits", .timeout = 60);

WT_TEST(test_F1_B11_shared_buffers_count_toward_the_limit_of_pinned_memory)
{
    void *pinned, *buffer, *refused = NULL;

    begin((warm_options){.pinned_high = 24 * MIB, .segment = MIB});
    buffer = share(5000);
    pinned = wt_pinned(runtime, 12 * MIB);
    wt_fails(
        WARM_OUT_OF_MEMORY,
        warm_shared_alloc(runtime, 0, 5 * MIB, WARM_USAGE_SHARED, &refused));
    wt_says("5.0 MiB of shared memory for device 0", "limit of pinned memory");
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 6 * MIB, &refused));
    ck_assert_ptr_null(refused);
    /* Idle memory of either makes room for the other; what is inactive, too. */
    wt_ok(warm_free(pinned));
    refused = share(12 * MIB);
    wt_ok(warm_shared_retain(refused));
    wt_free(refused);
    wt_ok(warm_shared_release(refused));
    pinned = wt_pinned(runtime, 14 * MIB);
    wt_free(pinned, buffer);
    teardown();
}

WT_TEST(test_F1_C6_private_buffers_count_toward_the_limit_of_the_device)
{
    void *block, *refused = NULL, *buffer;

    begin((warm_options){.host_memory = 256 * MIB});
    wt_limit(runtime, 40.0 * (double)MIB);
    block = wt_device(runtime, stream, 20 * MIB);
    wt_fails(
        WARM_OUT_OF_MEMORY,
        warm_shared_alloc(runtime, 0, 21 * MIB, WARM_USAGE_PRIVATE, &refused));
    wt_says("private memory for device 0", "limit of device memory");
    buffer = take(12 * MIB, WARM_USAGE_PRIVATE);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, stream, 10 * MIB, &refused));
    ck_assert_ptr_null(refused);
    wt_free(block);
    block = take(20 * MIB, WARM_USAGE_PRIVATE);
    wt_free(block, buffer);
    block = wt_device(runtime, stream, 36 * MIB);
    wt_free(block);
    teardown();
}

/* Without a limit: what is idle elsewhere goes back before the device is full.
 */
WT_TEST(test_F2_C2_idle_memory_of_a_full_device_serves_either)
{
    void *block;

    if (!wt_on_host()) {
        wt_skip("needs the host device"); /* a device of its size cannot be
                                             filled */
    }
    begin((warm_options){.host_memory = 64 * MIB});
    wt_free(take(40 * MIB, WARM_USAGE_PRIVATE));
    block = wt_device(runtime, stream, 40 * MIB);
    wt_ok(warm_free(block));
    wt_free(take(40 * MIB, WARM_USAGE_PRIVATE));
    teardown();
}

static warm_status status_in_log;

static void allocate_in_log(void *context, warm_log_level level,
                            const char *line)
{
    void *buffer = NULL;

    (void)context;
    if (level == WARM_LOG_WARNING && strstr(line, "could not return") != NULL) {
        status_in_log =
            warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_SHARED, &buffer);
        (void)warm_free(buffer);
    }
}

/* The log function may call the library, also while a request makes room. */
WT_TEST(test_F2_G6_a_log_function_allocates_while_room_is_made)
{
    void *buffer = NULL;

    begin((warm_options){.pinned_high = 24 * MIB, .segment = MIB});
    wt_ok(warm_free(wt_pinned(runtime, 18 * MIB)));
    status_in_log = WARM_INTERNAL;
    warm_log_set(allocate_in_log, NULL);
    wt_ok(warm_testing_fail(runtime, "pinned_free", 1, 0));
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", 1, 0));
    (void)warm_shared_alloc(runtime, 0, 12 * MIB, WARM_USAGE_SHARED, &buffer);
    warm_log_set(NULL, NULL);
    wt_ok(warm_testing_fail(runtime, "pinned_free", 0, 0));
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", 0, 0));
    ck_assert_int_ne((int)status_in_log, (int)WARM_INTERNAL);
    wt_ok(warm_free(buffer));
    teardown();
}

WT_TEST(test_F1_managed_memory_is_an_option)
{
    void *buffer;

    begin((warm_options){.shared_memory = "managed"});
    buffer = share(5000);
    if (!wt_on_gpu()) { /* there it depends on the device */
        ck_assert_int_eq(info_of(buffer).managed, 1);
        ck_assert_uint_eq(wt_calls(runtime, "managed_alloc"), 1);
        ck_assert_uint_eq(wt_device_stats(runtime).workspace_bytes, 8 * MIB);
    }
    memset(buffer, 1, 5000);
    ck_assert_ptr_eq(info_of(buffer).address, buffer);
    ck_assert_int_eq(wt_block_info(buffer).device, -1);
    wt_ok(warm_free(buffer));
    teardown();
    begin((warm_options){.shared_memory = "mapped"});
    buffer = share(5000);
    ck_assert_int_eq(info_of(buffer).managed, 0);
    ck_assert_uint_eq(wt_calls(runtime, "device_address"), 1);
    wt_ok(warm_free(buffer));
    teardown();
}

WT_TEST(test_F2_G2_buffers_in_use_are_reported_and_stay)
{
    warm_destroy_report report = {.size = sizeof report};
    char *live, *freed;

    begin((warm_options){0});
    live = share(5000);
    freed = share(20 * MIB);
    memset(live, 1, 5000);
    memset(freed, 2, 20 * MIB);
    wt_ok(warm_shared_set_shape(live, (const int64_t[]){5000}, 1));
    ck_assert_uint_eq(record(live, stream), 1);
    wt_ok(warm_shared_retain(freed));
    wt_ok(warm_free(freed));
    wt_stream_end(runtime, stream);
    wt_stream_end(runtime, other);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_eq(report.pending, 1);
    ck_assert_int_eq(live[4999], 1);
    ck_assert_int_eq(freed[20 * MIB - 1], 2);
    wt_fails(WARM_RUNTIME_GONE, warm_free(live));
    wt_fails(WARM_RUNTIME_GONE, warm_shared_release(freed));
    wt_fails(WARM_RUNTIME_GONE, warm_shared_retain(live));
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 4, TURNS = 2000 };

struct crowd {
    _Atomic(void *) shelf[8];
    _Atomic unsigned failed;
};

static void check(struct crowd *c, warm_status status)
{
    if (status != WARM_OK) {
        atomic_fetch_add(&c->failed, 1);
    }
}

/* Retains a buffer for another thread, which releases it after this one has
 * freed it, or before. */
static void work(void *argument, unsigned index)
{
    struct crowd *c = argument;
    uint64_t state = 77 + index;

    for (unsigned i = 0; i < wt_scaled(TURNS); i++) {
        size_t bytes = 1 + wt_random(&state) % 100000;
        void *buffer = NULL, *before;

        check(c,
              warm_shared_alloc(runtime, 0, bytes, WARM_USAGE_SHARED, &buffer));
        if (buffer == NULL) {
            continue;
        }
        memset(buffer, (int)index, bytes);
        check(c, warm_shared_retain(buffer));
        before = atomic_exchange(&c->shelf[wt_random(&state) % 8], buffer);
        if (wt_random(&state) % 4 == 0) {
            void *list = buffer;

            check(c, warm_shared_record(runtime, &list, 1,
                                        index % 2 ? stream : other, NULL));
            check(c, warm_shared_wait(runtime, &list, 1, NULL));
            for (size_t at = 0; at < bytes; at += 4096) {
                atomic_fetch_add(&c->failed,
                                 ((char *)buffer)[at] != (char)index);
            }
        }
        check(c, warm_free(buffer));
        if (before != NULL) {
            check(c, warm_shared_release(before));
        }
    }
}

WT_CASE("threads", .timeout = 120);

WT_TEST(test_F2_F6_threads_share_free_and_release_buffers)
{
    struct crowd c = {.failed = 0};

    begin((warm_options){0});
    wt_threads(THREADS, work, &c);
    ck_assert_uint_eq(atomic_load(&c.failed), 0);
    for (int i = 0; i < 8; i++) {
        void *buffer = atomic_load(&c.shelf[i]);

        if (buffer != NULL) {
            wt_ok(warm_shared_release(buffer));
        }
    }
    wt_settle(runtime, stream);
    wt_settle(runtime, other);
    (void)free_inactive();
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).live.current, 0);
    ck_assert_uint_eq(stats_of(WARM_USAGE_SHARED).pending.current, 0);
    teardown();
}

/* ---- two devices --------------------------------------------------------- */

WT_CASE("two devices");

WT_TEST(test_F1_F2_buffers_are_of_their_own_device)
{
    void *buffer[2] = {NULL};

    runtime = wt_two_devices(&(warm_options){.size = sizeof(warm_options)});
    if (runtime == NULL) {
        wt_skip("needs two devices");
    }
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_shared_alloc(runtime, i, 5000, WARM_USAGE_PRIVATE,
                                &buffer[i]));
        ck_assert_int_eq(wt_block_info(buffer[i]).device, i);
        ck_assert_uint_gt(wt_stats_of_device(runtime, i).workspace_bytes, 0);
    }
    wt_free(buffer[1]);
    wt_ok(warm_shared_trim(runtime, 1, 0, NULL));
    ck_assert_uint_eq(wt_stats_of_device(runtime, 1).workspace_bytes, 0);
    ck_assert_uint_gt(wt_stats_of_device(runtime, 0).workspace_bytes, 0);
    ck_assert_uint_eq(stats_of(WARM_USAGE_PRIVATE).live.current, 1);
    wt_free(buffer[0]);
    wt_runtime_end(runtime);
}
