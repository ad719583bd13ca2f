/* check_node.c: memory of NUMA nodes, simulated where the machine has one (row
 * B15). On a GPU the memory is mapped and registered as on a real one. */
#include "wt.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, SIZE = 100000 };
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;
static int devices;

static void begin(warm_options *options)
{
    options->size = sizeof *options;
    options->test = wt_list("numa_nodes=%d", NODES);
    options->host_devices = 2;
    options->segment = MIB;
    runtime = wt_runtime(options);
    wt_ok(warm_device_count(runtime, &devices));
    stream = wt_stream(runtime, 0);
}

static void setup(void)
{
    warm_options options = {.slack = 1000}; /* no growth returns anything */

    begin(&options);
}

static void teardown(void)
{
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static void *take_on(size_t bytes, int node)
{
    void *pointer = NULL;

    wt_ok(warm_pinned_alloc_on(runtime, bytes, node, 0, &pointer));
    ck_assert_ptr_nonnull(pointer);
    memset(pointer, node, bytes);
    return pointer;
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

static int node_of(const void *pointer)
{
    return wt_block_info(pointer).node;
}

static warm_space_stats stats_of(int node)
{
    warm_space_stats stats = WARM_INIT(warm_space_stats);

    wt_ok(warm_pinned_get_node_stats(runtime, node, &stats));
    return stats;
}

/* ---- the node asked for ----------------------------------------------- */

static const size_t sizes[] = {1, 700, 6000, SIZE, 5 * MIB + 1};

WT_CASE("node", .setup = setup, .teardown = teardown);

WT_LOOP_TEST(test_B15_block_comes_from_the_node_asked_for,
             sizeof sizes / sizeof sizes[0])
{
    size_t bytes = sizes[_i];
    char *block[NODES];

    for (int i = 0; i < NODES; i++) {
        block[i] = take_on(bytes, i);
        ck_assert_int_eq(node_of(block[i]), i);
        ck_assert_int_eq(node_of(block[i] + bytes - 1), i);
        ck_assert_uint_eq(stats_of(i).live.current, 1);
    }
    for (int i = 0; i < NODES; i++) {
        ck_assert_int_eq(block[i][bytes - 1], i);
        wt_ok(warm_free(block[i]));
    }
    /* What one node has idle serves requests for that one only. */
    for (int i = NODES - 1; i >= 0; i--) {
        ck_assert_ptr_eq(take_on(bytes, i), block[i]);
        ck_assert_uint_eq(stats_of(i).cache_hits, 1);
        wt_ok(warm_free(block[i]));
    }
}

WT_TEST(test_B1_B15_no_bytes_give_null_on_any_node)
{
    void *pointer = &pointer;

    wt_ok(warm_pinned_alloc_on(runtime, 0, 1, 0, &pointer));
    ck_assert_ptr_null(pointer);
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated, 0);
}

static const struct {
    int node;
    unsigned flags;
    const char *named;
} wrong[] = {
    {NODES, 0, "node 3"},
    {-2, 0, "node -2"},
    {1000, 0, "node 1000"},
    {0, 0x80, "0x80"},
};

WT_LOOP_TEST(test_B15_node_that_is_none_is_named_and_changes_nothing,
             sizeof wrong / sizeof wrong[0])
{
    void *pointer = &pointer;
    warm_space_stats stats = WARM_INIT(warm_space_stats);

    wt_invalid(warm_pinned_alloc_on(runtime, SIZE, wrong[_i].node,
                                    wrong[_i].flags, &pointer));
    wt_says(wrong[_i].named);
    ck_assert_ptr_eq(pointer, &pointer);
    if (wrong[_i].flags == 0) {
        wt_invalid(warm_pinned_get_node_stats(runtime, wrong[_i].node, &stats));
        wt_says(wrong[_i].named);
    }
    wt_invalid(warm_pinned_alloc_on(runtime, SIZE, 0, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).live.allocated, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_alloc.count, 0);
}

WT_TEST(test_B15_machine_without_nodes_has_one)
{
    int count = 0;

    teardown();
    runtime = wt_runtime_with(.test = "numa_nodes=1");
    stream = wt_stream(runtime, 0);
    wt_ok(warm_node_count(runtime, &count));
    ck_assert_int_eq(count, 1);
    wt_ok(warm_free(take_on(SIZE, 0)));
    wt_ok(warm_free(take_on(SIZE, WARM_NODE_ANY)));
    wt_invalid(warm_pinned_alloc_on(runtime, SIZE, 1, 0, &(void *){NULL}));
    ck_assert_uint_eq(stats_of(0).live.allocated, 2);
    wt_invalid(warm_node_count(runtime, NULL));
}

/* ---- the thread's own node -------------------------------------------- */

struct visitor {
    int device; /* a handle of it is reserved first, -1: none */
    int node;   /* of a block taken then, -2: something failed */
};

static void *visit(void *argument)
{
    struct visitor *v = argument;
    warm_block_info info = WARM_INIT(warm_block_info);
    warm_stream own;
    void *pointer = NULL;

    v->node = -2;
    if ((v->device < 0 ||
         warm_stream_reserve(runtime, v->device, &own) == WARM_OK) &&
        warm_pinned_alloc(runtime, SIZE, &pointer) == WARM_OK &&
        warm_block_get_info(pointer, &info) == WARM_OK &&
        warm_free(pointer) == WARM_OK) {
        v->node = info.node;
    }
    return NULL;
}

static int node_for(int device)
{
    struct visitor v = {device, -2};
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, visit, &v), 0);
    pthread_join(thread, NULL);
    return v.node;
}

WT_TEST(test_B15_default_is_the_node_of_the_device_used)
{
    warm_stream own;

    ck_assert_int_eq(node_for(-1), 0);
    for (int i = 0; i < devices; i++) {
        warm_device_info info = WARM_INIT(warm_device_info);

        wt_ok(warm_device_get_info(runtime, i, &info));
        ck_assert_int_eq(info.numa_node, i % NODES);
        ck_assert_int_eq(node_for(i), info.numa_node);
    }
    ck_assert_int_eq(node_for(-1), 0); /* its window was another thread's */
    /* One thread after the other device: the handle that came last counts. */
    for (int i = 0; i < devices; i++) {
        void *block;

        wt_ok(warm_stream_reserve(runtime, i, &own));
        block = take(SIZE);
        ck_assert_int_eq(node_of(block), i % NODES);
        wt_ok(warm_free(block));
        block = take_on(SIZE, WARM_NODE_ANY);
        ck_assert_int_eq(node_of(block), i % NODES);
        wt_ok(warm_free(block));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 0);
}

/* What the thread keeps ready goes with it to the other node. */
WT_TEST(test_B15_thread_that_changes_device_changes_node)
{
    enum { COUNT = 40 };
    void *before[2] = {take(6000), take(6000)};
    warm_stream own;

    for (int device = 0; device < devices; device++) {
        int node = device % NODES;
        void *block[COUNT];

        wt_ok(warm_stream_reserve(runtime, device, &own));
        for (int i = 0; i < COUNT; i++) {
            block[i] = i % 2 == 0 ? take(6000) : take_on(6000, node);
            ck_assert_int_eq(node_of(block[i]), node);
        }
        wt_free_all(block, COUNT);
        /* And what it frees of another node goes there. */
        for (int i = 0; i < NODES; i++) {
            wt_ok(warm_free(take_on(6000, i)));
        }
        wt_ok(warm_free(before[device % 2]));
        before[device % 2] = NULL;
    }
    wt_free(before[0], before[1]);
    wt_ok(warm_thread_release(runtime));
    for (int i = 0; i < NODES; i++) {
        ck_assert_uint_eq(stats_of(i).live.current, 0);
        ck_assert_uint_eq(stats_of(i).idle_bytes,
                          stats_of(i).held_bytes.current);
    }
}

/* ---- stream-safe ------------------------------------------------------ */

WT_TEST(test_B4_B15_pending_block_returns_to_its_node)
{
    char *block = take_on(SIZE, 2);
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_ok(warm_record_stream(block + SIZE / 2, stream));
    wt_ok(warm_free(block));
    ck_assert_uint_eq(stats_of(2).pending.current, 1);
    ck_assert_uint_eq(stats_of(0).pending.current, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).pending.current, 1);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_uint_eq(stats_of(2).pending.current, 0);
    ck_assert_ptr_eq(take_on(SIZE, 2), block);
    wt_ok(warm_free(block));
}

WT_TEST(test_B15_B16_memory_of_a_node_is_copied_from_and_to)
{
    char *from = take_on(SIZE, 1), *to = take_on(SIZE, 2);
    void *device = NULL;

    wt_ok(warm_device_alloc_uncached(runtime, 0, SIZE, &device));
    wt_ok(warm_copy_async(runtime, device, from, SIZE, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(
        warm_copy_async(runtime, to, device, SIZE, WARM_COPY_TO_HOST, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(memcmp(from, to, SIZE), 0);
    wt_free(from, to);
    wt_ok(warm_device_free_uncached(runtime, 0, device));
}

/* ---- one space -------------------------------------------------------- */

/* Memory of a private pool is of a node as well. */
WT_TEST(test_B14_B15_figures_of_a_node_have_those_of_pools)
{
    uint64_t held = wt_pinned_stats(runtime).held_bytes.current;
    warm_private_pool pool = {0};
    void *block;

    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
    block = take_on(SIZE, 1);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_int_eq(node_of(block), 1);
    for (int i = 0; i < NODES; i++) {
        ck_assert_uint_eq(stats_of(i).live.current, i == 1);
        ck_assert_uint_eq(stats_of(i).driver_alloc.count, i == 1);
    }
    ck_assert_uint_eq(stats_of(1).requested_bytes.current, SIZE);
    ck_assert_uint_eq(stats_of(1).held_bytes.current,
                      wt_pinned_stats(runtime).held_bytes.current - held);
    wt_ok(warm_free(block));
    wt_ok(warm_private_pool_release(runtime, pool));
}

WT_TEST(test_B14_B15_figures_of_the_space_are_sums_over_nodes)
{
    warm_space_stats sum = WARM_INIT(warm_space_stats), all;
    void *block[NODES];

    for (int i = 0; i < NODES; i++) {
        block[i] = take_on((size_t)SIZE << i, i);
    }
    wt_ok(warm_free(block[0]));
    for (int i = 0; i < NODES; i++) {
        warm_space_stats one = stats_of(i);

        ck_assert_uint_eq(one.held_bytes.current,
                          one.live_bytes.current + one.idle_bytes);
        sum.idle_bytes += one.idle_bytes;
        sum.live.current += one.live.current;
        sum.held_bytes.current += one.held_bytes.current;
        sum.requested_bytes.allocated += one.requested_bytes.allocated;
        sum.driver_alloc.count += one.driver_alloc.count;
        sum.driver_alloc.total_ns += one.driver_alloc.total_ns;
    }
    all = wt_pinned_stats(runtime);
    ck_assert_uint_eq(all.live.current, 2);
    ck_assert_uint_eq(all.live.current, sum.live.current);
    ck_assert_uint_eq(all.idle_bytes, sum.idle_bytes);
    ck_assert_uint_eq(all.held_bytes.current, sum.held_bytes.current);
    ck_assert_uint_eq(all.held_bytes.peak, all.held_bytes.current);
    ck_assert_uint_eq(all.requested_bytes.allocated, 7 * SIZE);
    ck_assert_uint_eq(all.requested_bytes.allocated,
                      sum.requested_bytes.allocated);
    ck_assert_uint_eq(all.driver_alloc.count, NODES);
    ck_assert_uint_eq(all.driver_alloc.total_ns, sum.driver_alloc.total_ns);
    ck_assert_uint_gt(all.driver_alloc.min_ns, 0);
    ck_assert_uint_le(all.driver_alloc.min_ns, all.driver_alloc.max_ns);
    wt_ok(warm_pinned_reset_totals(runtime));
    wt_ok(warm_pinned_reset_peaks(runtime));
    for (int i = 0; i < NODES; i++) {
        ck_assert_uint_eq(stats_of(i).driver_alloc.count, 0);
        ck_assert_uint_eq(stats_of(i).live.allocated, i > 0);
    }
    wt_free(block[1], block[2]);
}

WT_TEST(test_B15_classes_count_over_nodes)
{
    void *block[NODES];
    uint64_t requests = 0;

    for (int i = 0; i < NODES; i++) {
        block[i] = take_on(SIZE, i);
    }
    for (int i = 0; i < warm_pinned_class_count(); i++) {
        warm_class_stats stats = WARM_INIT(warm_class_stats);

        wt_ok(warm_pinned_get_class_stats(runtime, i, &stats));
        ck_assert(stats.live.current == 0 || stats.live.current == NODES);
        requests += stats.live.current;
    }
    ck_assert_uint_eq(requests, NODES);
    wt_free_all(block, NODES);
}

WT_TEST(test_B11_B15_idle_segments_of_all_nodes_go_back)
{
    size_t released = 0;
    void *live = take_on(SIZE, 1);

    for (int i = 0; i < NODES; i++) {
        wt_ok(warm_free(take_on(3 * MIB, i)));
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 10 * MIB);
    wt_ok(warm_pinned_trim(runtime, 7 * MIB, &released));
    ck_assert_uint_eq(released, 3 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 7 * MIB);
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(released, 6 * MIB);
    ck_assert_uint_eq(stats_of(1).held_bytes.current, MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_free.count, NODES);
    wt_ok(warm_free(live));
}

/* What is above a low watermark goes, of one node after the other. */
WT_TEST(test_F7_B15_no_more_goes_than_a_low_watermark_wants)
{
    for (int i = 0; i < NODES; i++) {
        wt_ok(warm_free(take_on(3 * MIB, i)));
    }
    for (int i = NODES - 1; i > 0; i--) {
        wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 0,
                                  (size_t)i * 3 * MIB));
        ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current,
                          (size_t)i * 3 * MIB);
    }
}

/* With a reserve of 3 MiB, on the node that is returned. */
static int begin_with_reserve(void)
{
    warm_options options = {.slack = 1000, .reserve_bytes = 3 * MIB};
    int node = 0;

    teardown();
    begin(&options);
    while (stats_of(node).idle_bytes < 3 * MIB) {
        sched_yield();
        node = (node + 1) % NODES;
    }
    return node;
}

/* The reserve stays, also if its node comes first; and what is idle elsewhere
 * goes while it is in use. */
WT_LOOP_TEST(test_F7_B15_what_goes_above_a_low_watermark_is_not_the_reserve, 2)
{
    int node = begin_with_reserve();
    int other = node < NODES - 1 ? NODES - 1 : 0;
    void *live = _i == 0 ? NULL : take_on(3 * MIB, node);

    wt_ok(warm_free(take_on(3 * MIB, other)));
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 0, 3 * MIB));
    ck_assert_uint_eq(stats_of(node).driver_free.count, 0);
    ck_assert_uint_eq(stats_of(other).held_bytes.current, 0);
    wt_ok(warm_free(live));
}

WT_TEST(test_F7_B15_a_segment_beside_the_reserve_goes_and_not_a_larger_one)
{
    int node = begin_with_reserve();
    void *reserve = take_on(3 * MIB, node), *small = take_on(MIB, node);

    wt_ok(warm_free(reserve)); /* idle longest */
    wt_ok(warm_free(small));
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 0, 3 * MIB));
    ck_assert_uint_eq(stats_of(node).idle_bytes, 3 * MIB);
}

/* Space for two requests of 3 MiB. */
static void limit(void)
{
    warm_options options = {.pinned_high = 6 * MIB, .pinned_low = WARM_OFF};

    teardown();
    begin(&options);
}

WT_TEST(test_B12_B15_idle_memory_of_other_nodes_makes_room_for_a_node)
{
    limit();
    wt_ok(warm_free(take_on(3 * MIB, 0)));
    wt_ok(warm_free(take_on(3 * MIB, 1)));
    wt_ok(warm_free(take_on(3 * MIB, 2)));
    ck_assert_uint_eq(stats_of(2).held_bytes.current, 3 * MIB);
    ck_assert_uint_le(wt_pinned_stats(runtime).held_bytes.current, 6 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 0);
}

WT_TEST(test_B12_B15_node_that_is_full_is_an_error_with_its_figures)
{
    void *pointer = &pointer;
    void *block[2];
    warm_space_stats stats;

    limit();
    block[0] = take_on(3 * MIB, 0);
    block[1] = take_on(3 * MIB, 1);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc_on(runtime, SIZE, 2, 0, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    wt_says("on node 2", "held 6.0 MiB");
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.failures, 1);
    ck_assert_uint_eq(stats_of(2).failures, 1);
    ck_assert_uint_eq(stats.live.current, 2);
    ck_assert_uint_eq(stats.held_bytes.current, 6 * MIB);
    wt_ok(warm_free(block[0]));
    wt_ok(warm_free(take_on(SIZE, 2)));
    wt_ok(warm_free(block[1]));
}

WT_TEST(test_B15_default_takes_of_other_nodes_what_its_own_cannot_get)
{
    void *own, *held, *spilled, *pointer = NULL;

    limit();
    own = take_on(3 * MIB, 0);
    held = take_on(SIZE, 2);
    wt_ok(warm_free(take_on(2 * MIB, 2)));
    ck_assert_int_eq(node_for(-1), 2);
    ck_assert_uint_eq(stats_of(2).spilled, 1);
    /* Node 2 has SIZE in use, and the rest of its segment is idle. */
    spilled = take(SIZE);
    ck_assert_int_eq(node_of(spilled), 2);
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 2);
    ck_assert_uint_eq(stats_of(0).spilled, 0);
    ck_assert_uint_eq(wt_pinned_stats(runtime).failures, 0);
    wt_ok(warm_pinned_reset_totals(runtime));
    ck_assert_uint_eq(wt_pinned_stats(runtime).spilled, 0);
    /* No other will do for this one; of what is idle none can go back. */
    wt_ok(warm_free(spilled));
    spilled = take_on(2 * MIB, 2);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc_on(runtime, SIZE, 0, 0, &pointer));
    wt_free(spilled, held, own);
}

static const char *const steps[] = {"place", "node_of", "pinned_register"};

WT_LOOP_TEST(test_B15_node_that_cannot_be_placed_on_changes_nothing,
             sizeof steps / sizeof steps[0])
{
    void *pointer = &pointer;
    uint64_t registered = 0, unregistered = 0;

    wt_ok(warm_testing_fail(runtime, steps[_i], 1, 1));
    ck_assert_int_ne(warm_pinned_alloc_on(runtime, SIZE, 1, 0, &pointer),
                     WARM_OK);
    ck_assert_ptr_eq(pointer, &pointer);
    wt_says(steps[_i]);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.allocated, 0);
    wt_ok(warm_testing_fail(runtime, steps[_i], 0, 0));
    wt_ok(warm_free(take_on(SIZE, 1)));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    unregistered = wt_calls(runtime, "pinned_unregister");
    registered = wt_calls(runtime, "pinned_register");
    ck_assert_uint_eq(unregistered, 1);
    ck_assert_uint_ge(registered, 1);
}

WT_TEST(test_B15_memory_that_cannot_be_unregistered_stays_in_the_cache)
{
    void *block = take_on(SIZE, 1);
    size_t released = 1;

    wt_ok(warm_free(block));
    wt_ok(warm_testing_fail(runtime, "pinned_unregister", 1, 0));
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(released, 0);
    ck_assert_ptr_eq(take_on(SIZE, 1), block);
    wt_ok(warm_free(block));
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(released, MIB);
}

/* Others are had ahead with warm_pinned_prewarm(), which takes a node. */
WT_TEST(test_B9_B15_reserve_lies_on_the_node_of_the_first_device)
{
    warm_device_info info = WARM_INIT(warm_device_info);

    teardown();
    runtime = wt_runtime_with(.test = wt_list("numa_nodes=%d", NODES),
                              .segment = MIB, .reserve_bytes = 4 * MIB);
    stream = wt_stream(runtime, 0);
    wt_ok(warm_device_get_info(runtime, 0, &info));
    for (int i = 0; i < NODES; i++) {
        int home = info.numa_node >= 0 ? info.numa_node : 0;

        ck_assert_uint_eq(stats_of(i).idle_bytes, i == home ? 4 * MIB : 0);
    }
    wt_ok(warm_pinned_prewarm(runtime, MIB, NODES - 1, 0));
    ck_assert_uint_eq(stats_of(NODES - 1).idle_bytes, MIB);
}

WT_TEST(test_B14_B15_nodes_are_in_the_json)
{
    char text[16384], wanted[80];

    wt_ok(warm_free(take_on(SIZE, 1)));
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    for (int i = 0; i < NODES; i++) {
        snprintf(wanted, sizeof wanted,
                 "{\"node\":%d,\"live\":{\"current\":0,\"allocated\":%d", i,
                 i == 1);
        ck_assert_msg(strstr(text, wanted) != NULL, "%s", wanted);
    }
    wt_contains(text, "\"spilled\":0");
}

int main(void)
{
    setenv("STANDIN_DEVICES", "2", 1);
    return wt_run();
}
