/* check_flags.c: write-combined and mapped memory of the host (row H1). */
/* memcheck: one process */
#include "wt.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

enum {
    SIZE = 100000,
    COMBINED = WARM_ALLOC_WRITE_COMBINED,
    MAPPED = WARM_ALLOC_MAPPED
};
#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;

static void setup(void)
{
    runtime = wt_runtime_with(.segment = MIB);
    stream = wt_stream(runtime, 0);
}

static void teardown(void)
{
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}

static warm_status try(size_t bytes, int node, unsigned flags, void **pointer)
{
    return warm_pinned_alloc_on(runtime, bytes, node, flags, pointer);
}

static void *take(size_t bytes, unsigned flags)
{
    void *pointer = NULL;

    wt_ok(try(bytes, WARM_NODE_ANY, flags, &pointer));
    ck_assert_ptr_nonnull(pointer);
    memset(pointer, 7, bytes);
    return pointer;
}

/* A function of the stand-in for libcuda; null on a GPU, and on the host. */
static void *of_standin(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    return library != NULL ? dlsym(library, name) : NULL;
}

WT_CASE("flags", .setup = setup, .teardown = teardown);

/* ---- write-combined ------------------------------------------------------ */

WT_TEST(test_H1_write_combined_memory_is_obtained_as_such)
{
    uint64_t ordinary = wt_calls(runtime, "pinned_alloc");
    void *block = take(SIZE, COMBINED);

    ck_assert_uint_eq(wt_calls(runtime, "combined_alloc"), 1);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_alloc"), ordinary);
    ck_assert_int_eq(wt_block_info(block).device, -1);
    ck_assert_int_eq(wt_block_info(block).node, -1);
    ck_assert_int_eq(wt_block_info(block).pageable, 0);
#ifdef CU_MEMHOSTALLOC_WRITECOMBINED
    unsigned (*flags)(const char *) = NULL;

    *(void **)(void *)&flags = of_standin("standin_flags");
    ck_assert(flags == NULL ||
              (flags("cuMemHostAlloc") ==
               (CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_PORTABLE |
                CU_MEMHOSTALLOC_DEVICEMAP)));
#endif
    wt_ok(warm_free(block));
}

/* Neither serves the other's requests, and each its own. */
WT_TEST(test_H1_write_combined_memory_is_never_mixed_with_other)
{
    void *other = take(SIZE, 0), *combined, *segment;

    wt_ok(warm_free(other));
    combined = take(SIZE, COMBINED);
    segment = wt_block_info(combined).segment;
    ck_assert_ptr_ne(wt_block_info(take(SIZE, 0)).segment, segment);
    wt_free(other, combined);
    for (int i = 0; i < 20; i++) {
        other = take((size_t)SIZE << (i % 5), 0);
        ck_assert_ptr_ne(wt_block_info(other).segment, segment);
        wt_ok(warm_free(other));
        ck_assert_ptr_eq(take(SIZE, COMBINED | MAPPED), combined);
        wt_ok(warm_free(combined));
    }
    ck_assert_uint_eq(wt_calls(runtime, "combined_alloc"), 1);
}

WT_TEST(test_H1_write_combined_memory_waits_for_its_streams)
{
    void *block = take(SIZE, COMBINED), *other;
    wt_gate *gate = wt_gate_hold(runtime, stream);

    wt_free_used(block, stream);
    other = take(SIZE, COMBINED);
    ck_assert_ptr_ne(other, block);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    ck_assert_ptr_eq(take(SIZE, COMBINED), block);
    wt_free(block, other);
    block = take(SIZE, COMBINED);
    gate = wt_gate_hold(runtime, stream);
    wt_ok(warm_free_deferred(block));
    other = take(SIZE, COMBINED);
    ck_assert_ptr_ne(other, block);
    wt_gate_open(gate);
    wt_settle(runtime, stream);
    wt_ok(warm_free(other));
}

WT_TEST(test_H1_write_combined_memory_is_copied_and_captured)
{
    void *block = take(SIZE, COMBINED);
    void *device = wt_device(runtime, stream, SIZE), *back = take(SIZE, 0);
    warm_graph graph = NULL;

    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_copy_async(runtime, device, block, SIZE, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(warm_free(take(3 * MIB, COMBINED))); /* the driver is called */
    wt_ok(warm_capture_end(runtime, stream, &graph));
    memset(back, 0, SIZE);
    wt_ok(warm_graph_launch(runtime, graph, stream));
    wt_ok(warm_copy_async(runtime, back, device, SIZE, WARM_COPY_TO_HOST,
                          stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    ck_assert_int_eq(memcmp(back, block, SIZE), 0);
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_free(block, device, back);
}

WT_TEST(test_H1_write_combined_memory_counts_as_pinned)
{
    warm_space_stats before = wt_pinned_stats(runtime), now;
    warm_space_stats node = WARM_INIT(warm_space_stats);
    void *block = take(3 * MIB, COMBINED);
    size_t released = 0;

    now = wt_pinned_stats(runtime);
    ck_assert_uint_eq(now.live.current, before.live.current + 1);
    ck_assert_uint_eq(now.held_bytes.current,
                      before.held_bytes.current + 3 * MIB);
    wt_ok(warm_pinned_get_node_stats(runtime, 0, &node));
    ck_assert_uint_eq(node.held_bytes.current, before.held_bytes.current);
    /* In use, then idle. */
    wt_ok(warm_free(take(8 * MIB, 0)));
    wt_ok(warm_pinned_trim(runtime, 5 * MIB, &released));
    ck_assert_uint_eq(released, before.held_bytes.current + 8 * MIB);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes, 3 * MIB);
    wt_ok(warm_pinned_trim(runtime, 3 * MIB, &released));
    ck_assert_uint_eq(released, 0);
    wt_ok(warm_pinned_trim(runtime, 0, &released));
    ck_assert_uint_eq(released, 3 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_free"), 2);
}

WT_TEST(test_H1_private_pools_do_not_serve_write_combined_memory)
{
    warm_private_pool pool = {0};
    void *block;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    block = take(SIZE, COMBINED);
    ck_assert_uint_eq(wt_block_info(block).pool.number, 0);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    wt_ok(warm_free(block));
}

WT_LOOP_TEST(test_H1_write_combined_memory_is_aligned, 12)
{
    size_t alignment = (size_t)1024 << _i, bytes = _i % 2 == 0 ? 5000 : 3 * MIB;
    void *block = NULL, *again = NULL;

    wt_ok(warm_pinned_alloc_aligned(runtime, bytes, alignment,
                                    COMBINED | MAPPED, &block));
    ck_assert_uint_eq((uintptr_t)block % alignment, 0);
    ck_assert_ptr_eq(wt_block_info(block).base, block);
    ck_assert_uint_eq(wt_block_info(block).requested, bytes);
    ck_assert_uint_eq(wt_calls(runtime, "combined_alloc"), 1);
    wt_ok(warm_free(block));
    wt_ok(
        warm_pinned_alloc_aligned(runtime, bytes, alignment, COMBINED, &again));
    ck_assert_ptr_eq(again, block);
    wt_ok(warm_free(again));
    wt_invalid(warm_pinned_alloc_aligned(
        runtime, bytes, alignment, COMBINED | WARM_ALLOC_PAGEABLE_OK, &again));
}

/* ---- refusals ------------------------------------------------------------ */

WT_TEST(test_H1_flags_that_do_not_go_together_are_refused)
{
    static const struct {
        unsigned flags;
        int node;
        const char *says[2];
    } bad[] = {
        {8, WARM_NODE_ANY, {"0x8", "WARM_ALLOC_MAPPED"}},
        {WARM_ALLOC_PAGEABLE_OK | COMBINED, WARM_NODE_ANY, {"0x3", "pageable"}},
        {WARM_ALLOC_PAGEABLE_OK | MAPPED, WARM_NODE_ANY, {"0x5", "pageable"}},
        {COMBINED, 0, {"node 0", "WARM_NODE_ANY"}}};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        void *pointer = &pointer;

        /* Also where a thread's cache has a block. */
        wt_ok(warm_free(take(SIZE, 0)));
        wt_invalid(try(SIZE, bad[i].node, bad[i].flags, &pointer));
        wt_says(bad[i].says[0], bad[i].says[1]);
        ck_assert_ptr_eq(pointer, &pointer);
    }
    wt_invalid(try(SIZE, WARM_NODE_ANY, COMBINED, NULL));
    ck_assert_uint_eq(wt_calls(runtime, "combined_alloc"), 0);
}

WT_TEST(test_H1_a_refusal_says_that_the_memory_is_write_combined)
{
    void *pointer = &pointer;

    wt_ok(warm_testing_fail(runtime, "combined_alloc", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, try(SIZE, WARM_NODE_ANY, COMBINED, &pointer));
    wt_says("of write-combined memory", "97.7 KiB");
    ck_assert_ptr_eq(pointer, &pointer);
    wt_ok(warm_free(take(SIZE, 0)));
    wt_ok(warm_testing_fail(runtime, "combined_alloc", 0, 0));
    wt_ok(warm_free(take(SIZE, COMBINED)));
}

WT_TEST(test_H1_no_bytes_and_too_many_are_answered_as_always)
{
    void *pointer = &pointer;

    wt_ok(try(0, WARM_NODE_ANY, COMBINED | MAPPED, &pointer));
    ck_assert_ptr_null(pointer);
    wt_fails(WARM_OUT_OF_MEMORY,
             try(SIZE_MAX, WARM_NODE_ANY, COMBINED, &pointer));
}

/* ---- mapped -------------------------------------------------------------- */

WT_TEST(test_H1_mapped_memory_needs_devices_that_map_it)
{
    void (*maps)(int) = NULL;
    void *block = take(SIZE, MAPPED), *pointer = &pointer;

    wt_ok(warm_free(block));
    ck_assert_ptr_eq(take(SIZE, MAPPED), block); /* of the usual cache */
    wt_ok(warm_free(block));
    *(void **)(void *)&maps = of_standin("standin_maps_host");
    if (maps != NULL) {
        maps(0);
        wt_fails(WARM_UNSUPPORTED, try(SIZE, WARM_NODE_ANY, MAPPED, &pointer));
        wt_says("device 0", "WARM_ALLOC_MAPPED");
        ck_assert_ptr_eq(pointer, &pointer);
        wt_ok(warm_free(take(SIZE, COMBINED))); /* was not asked for */
        maps(1);
    }
}

/* ---- limits, debug, ends ------------------------------------------------- */

WT_CASE("own options");

WT_TEST(test_H1_write_combined_memory_counts_against_the_limit)
{
    void *block, *pointer = NULL;

    runtime = wt_runtime_with(.segment = MIB, .pinned_high = 4 * MIB);
    block = take(3 * MIB, 0);
    wt_fails(WARM_OUT_OF_MEMORY,
             try(2 * MIB, WARM_NODE_ANY, COMBINED, &pointer));
    wt_says("write-combined", "limit 4.0 MiB");
    wt_ok(warm_free(block));
    block = take(3 * MIB, COMBINED); /* in the place of what is idle */
    wt_fails(WARM_OUT_OF_MEMORY, try(2 * MIB, WARM_NODE_ANY, 0, &pointer));
    wt_ok(warm_free(block));
    wt_ok(warm_free(take(3 * MIB, 0)));
    wt_runtime_end(runtime);
}

static void ignore(void *context, warm_log_level level, const char *message)
{
    (void)context;
    (void)level;
    (void)message;
}

#if WT_ASAN
#define UNCHECKED __attribute__((no_sanitize("address"), noinline))
#else
#define UNCHECKED
#endif

static UNCHECKED void write_behind(char *block)
{
    *(volatile char *)(block + SIZE) = 1;
}

WT_TEST(test_H1_live_write_combined_memory_is_reported_at_the_end)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    char *block;

    runtime = wt_runtime_with(.segment = MIB);
    block = take(SIZE, COMBINED);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.live, 1);
    block[SIZE - 1] = 1; /* it stays usable */
    wt_fails(WARM_RUNTIME_GONE, warm_free(block));
}

/* Memcheck would report it. */
WT_CASE("fault", .tags = "programs");

WT_TEST(test_H1_faults_of_a_program_are_found_in_write_combined_memory)
{
    char *block;

    warm_log_set(ignore, NULL);
    runtime = wt_runtime_with(.debug = "guard+fill");
    block = take(SIZE, COMBINED);
    write_behind(block);
    wt_ok(warm_free(block));
    ck_assert_uint_eq(wt_pinned_stats(runtime).overruns, 1);
    wt_runtime_end(runtime);
    warm_log_set(NULL, NULL);
}
