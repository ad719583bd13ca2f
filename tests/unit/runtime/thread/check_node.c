/* check_node.c: nodes that are full (row B15). The kernel places such pages on
 * another node without an error, which the library must notice. On the host
 * device with simulated nodes. */
#include "wt.h"
#include "wt_short.h"

#include "alloc/kinds/pinned.h"
#include "runtime/base/meta.h"

#include <string.h>

enum { NODES = 2, SIZE = 100000 };
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static int64_t made; /* runtimes */

static void setup(void)
{
    runtime = wt_runtime_with(.device = "host", .segment = MIB,
                              .test = "numa_nodes=2");
    made++;
    ck_assert(runtime->driver->numa.simulated ||
              runtime->driver->numa.nodes == NODES);
    /* Full nodes can be had of simulated ones alone. */
    runtime->driver->numa.simulated = true;
}

static void teardown(void)
{
    wt_runtime_end(runtime);
    ck_assert_int_eq(wm_meta_live(), made); /* what a runtime's users hold */
}

static void reopen(int nodes)
{
    teardown();
    runtime =
        wt_runtime_with(.device = "host", .segment = MIB, .keep = WARM_OFF,
                        .test = wt_list("numa_nodes=%d", nodes));
    made++;
    runtime->driver->numa.simulated = true;
}

static void set_room(int node, uint64_t bytes)
{
    wm_numa_set_room(&runtime->driver->numa, node, bytes);
}

static warm_status try_on(int node, size_t bytes, void **pointer)
{
    return warm_pinned_alloc_on(runtime, bytes, node, 0, pointer);
}

static void *take_on(int node, size_t bytes)
{
    void *pointer = NULL;

    wt_ok(try_on(node, bytes, &pointer));
    return pointer;
}

static int node_told(void *pointer)
{
    return wt_block_info(pointer).node;
}

static int node_really(void *pointer)
{
    int node = WM_NODE_UNKNOWN;

    wt_ok(wm_driver_node_of(runtime->driver, pointer, 1, &node));
    return node;
}

WT_CASE("full", .setup = setup, .teardown = teardown);

WT_TEST(test_B15_memory_lies_on_the_node_that_is_told)
{
    for (int i = 0; i < NODES; i++) {
        void *small = take_on(i, 700), *large = take_on(i, 3 * MIB);

        ck_assert_int_eq(node_told(small), i);
        ck_assert_int_eq(node_really(small), i);
        ck_assert_int_eq(node_really(large), i);
        wt_free(small, large);
    }
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_ptr_null(runtime->driver->numa.ranges);
}

WT_TEST(test_B12_B15_full_node_is_an_error_and_nothing_is_lost)
{
    void *pointer = &pointer;

    set_room(1, 0);
    wt_fails(WARM_OUT_OF_MEMORY, try_on(1, SIZE, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    wt_says("node 1 has no memory left");
    /* Noticed before it was page-locked, and unmapped again. */
    ck_assert_uint_eq(wt_calls(runtime, "pinned_register"), 0);
    ck_assert_ptr_null(runtime->driver->numa.ranges);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.allocated, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 1);
    set_room(1, UINT64_MAX);
    wt_ok(warm_free(take_on(1, SIZE)));
}

WT_TEST(test_B15_default_goes_to_another_node_visibly)
{
    void *block;

    set_room(0, 0);
    block = wt_pinned(runtime, SIZE);
    ck_assert_int_eq(node_told(block), 1);
    ck_assert_int_eq(node_really(block), 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    wt_ok(warm_free(block));
    /* Idle there, it serves the next one. */
    ck_assert_ptr_eq(take_on(WARM_NODE_ANY, SIZE), block);
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.allocated, 1);
    wt_ok(warm_free(block));
}

/* To ask a full node means to map, touch and unmap for nothing; be it the
 * request's own, or the next one as well. */
WT_LOOP_TEST(test_B15_full_node_is_asked_now_and_then, 2)
{
    enum { COUNT = 150, AGAIN = 64 };
    void *block[COUNT], *more[AGAIN];
    int asked = 0, full = _i + 1;
    uint64_t places;

    reopen(full + 1);
    places = wt_calls(runtime, "place");
    for (int i = 0; i < full; i++) {
        set_room(i, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        block[i] = take_on(WARM_NODE_ANY, MIB);
        ck_assert_int_eq(node_told(block[i]), full);
    }
    /* Each was placed once; a place on a full node is tried, and undone. */
    places = wt_calls(runtime, "place") - places - COUNT;
    ck_assert_uint_gt(places, 0);
    ck_assert_uint_le(places, 2 * 8 * (uint64_t)full);
    set_room(0, UINT64_MAX);
    do {
        more[asked] = take_on(WARM_NODE_ANY, MIB);
    } while (node_told(more[asked++]) != 0 && asked < AGAIN);
    ck_assert_int_eq(node_told(more[asked - 1]), 0);
    wt_free_all(block, COUNT);
    wt_free_all(more, asked);
}

/* What a node was asked in vain before it had memory is forgotten then. */
WT_TEST(test_B15_node_that_had_memory_again_is_asked_as_at_first)
{
    enum { LONG = 40, SOME = 8, MOST = LONG + 80 + SOME };
    void *block[MOST];
    uint64_t places;
    int count = 0;

    set_room(0, 0);
    while (count < LONG) {
        block[count++] = take_on(WARM_NODE_ANY, MIB);
    }
    set_room(0, UINT64_MAX);
    do {
        block[count] = take_on(WARM_NODE_ANY, MIB);
    } while (node_told(block[count++]) != 0 && count < LONG + 80);
    set_room(0, 0);
    places = wt_calls(runtime, "place");
    for (int i = 0; i < SOME; i++) {
        block[count++] = take_on(WARM_NODE_ANY, MIB);
    }
    /* One for each block, and two for each time that node 0 was asked. */
    ck_assert_uint_ge(wt_calls(runtime, "place") - places, SOME + 2 * 3);
    while (count > 0) {
        wt_ok(warm_free(block[--count]));
    }
}

static void set_limit(size_t bytes)
{
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, bytes, 0));
}

/* Nobody had to be asked for that; no node is full. */
WT_TEST(test_B15_node_that_the_limit_refused_is_asked_at_once)
{
    void *block[2], *pointer = NULL;

    reopen(2);
    block[0] = take_on(0, MIB);
    block[1] = take_on(1, MIB);
    set_limit(2 * MIB);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, MIB, &pointer));
    set_limit(0);
    wt_ok(warm_free(block[1]));
    pointer = take_on(WARM_NODE_ANY, MIB);
    ck_assert_int_eq(node_told(pointer), 0);
    wt_free(pointer, block[0]);
}

/* Idle memory of the last node in turn goes before the growth of another. */
WT_TEST(test_B15_what_any_other_node_has_idle_is_taken_first)
{
    void *block;

    reopen(3);
    wt_ok(warm_free(take_on(2, MIB)));
    set_room(0, 0);
    block = take_on(WARM_NODE_ANY, MIB);
    ck_assert_int_eq(node_told(block), 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.allocated, 1);
    wt_ok(warm_free(block));
}

/* As long as one node has some, the flag is not needed. */
WT_TEST(test_B15_B18_one_full_node_is_no_reason_for_pageable_memory)
{
    void *block[8];

    set_room(0, 0);
    for (int i = 0; i < 8; i++) {
        wt_ok(warm_pinned_alloc_on(runtime, MIB, WARM_NODE_ANY,
                                   WARM_ALLOC_PAGEABLE_OK, &block[i]));
        ck_assert_int_eq(node_told(block[i]), 1);
    }
    wt_free_all(block, 8);
}

WT_TEST(test_B11_B15_full_node_is_asked_again_once_memory_has_gone_back)
{
    void *block[8], *last;

    set_room(0, 0);
    for (int i = 0; i < 8; i++) {
        block[i] = take_on(WARM_NODE_ANY, MIB);
    }
    set_room(0, UINT64_MAX);
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    last = take_on(WARM_NODE_ANY, MIB);
    ck_assert_int_eq(node_told(last), 0);
    wt_ok(warm_free(last));
    wt_free_all(block, 8);
}

/* A thread that can have no window is served, and no error is left behind. */
static void take_without_window(void *argument, unsigned index)
{
    void **pointer = argument;
    warm_error error = {.size = sizeof error};

    wm_meta_fail(1, false);
    if (warm_pinned_alloc(runtime, SIZE, pointer) == WARM_OK &&
        (warm_last_error(&error), error.status != WARM_OK)) {
        (void)warm_free(*pointer);
        *pointer = NULL;
    }
    wm_meta_fail(0, false);
}

WT_TEST(test_G6_B15_thread_without_a_window_has_a_node)
{
    void *pointer = NULL;

    wt_threads(1, take_without_window, &pointer);
    ck_assert_ptr_nonnull(pointer);
    ck_assert_int_eq(node_told(pointer), 0);
    wt_ok(warm_free(pointer));
}

/* Nobody else will do, so that it is asked whatever was before. */
WT_TEST(test_B15_strict_request_asks_a_full_node)
{
    void *block = NULL;

    set_room(0, 0);
    for (int i = 0; i < 8; i++) {
        wt_fails(WARM_OUT_OF_MEMORY, try_on(0, MIB, &block));
    }
    set_room(0, UINT64_MAX);
    wt_ok(try_on(0, MIB, &block));
    wt_ok(warm_free(block));
}

/* There is room for the request, but not for a whole segment. */
WT_TEST(test_B9_B15_node_with_little_room_gives_that)
{
    void *block;

    set_room(1, MIB / 2);
    block = take_on(1, SIZE);
    ck_assert_int_eq(node_really(block), 1);
    ck_assert_uint_le(wt_pinned_stats(runtime).held_bytes.current, MIB / 2);
    wt_ok(warm_free(block));
}

WT_TEST(test_B12_B15_idle_segments_of_a_full_node_go_back_first)
{
    void *other = take_on(0, 2 * MIB);

    set_room(1, 2 * MIB);
    wt_ok(warm_free(take_on(1, MIB)));
    wt_ok(warm_free(other));
    /* Only node 1's own memory is in the way. */
    wt_ok(warm_free(take_on(1, 2 * MIB)));
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_free.count, 1);
    ck_assert_ptr_eq(take_on(0, 2 * MIB), other);
    wt_ok(warm_free(other));
}

WT_TEST(test_B12_B15_both_nodes_full_is_an_error)
{
    void *pointer = &pointer;

    set_room(0, 0);
    set_room(1, 0);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, SIZE, &pointer));
    wt_says("node 0 has no memory left");
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 1);
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 0);
}

/* A callback frees what another node has: no help for a strict request. */
static void *kept;

static int free_kept(void *context, size_t bytes)
{
    if (kept == NULL) {
        return 0;
    }
    wt_ok(warm_free(kept));
    kept = NULL;
    return 1;
}

WT_TEST(test_B12_B15_callback_helps_the_node_that_is_asked_for)
{
    void *block;

    set_room(1, MIB);
    kept = take_on(1, MIB);
    wt_ok(wt_short_add(runtime, free_kept, NULL));
    block = take_on(1, MIB);
    ck_assert_ptr_null(kept);
    ck_assert_int_eq(node_really(block), 1);
    wt_ok(warm_free(block));
}
