/* check_prewarm.c: memory obtained ahead of demand, both ways of page-locking
 * it, and the thread of option background, on every backend (rows B9, B10,
 * B17). */
/* memcheck: one process */
#include "wt.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static warm_stream stream;

static void begin(const warm_options *options)
{
    runtime = wt_runtime(options);
    stream = wt_stream(runtime, 0);
}

static void end(void)
{
    wt_ok(warm_stream_synchronize(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_poll(runtime));
    wt_runtime_end(runtime);
}

static void *take(size_t bytes)
{
    return wt_pinned(runtime, bytes);
}

/* To the device and back into another block of the same size. */
static void copy_through(char *from, void *device, char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4096) {
        from[i] = (char)(i >> 12);
        to[i] = 0;
    }
    from[bytes - 1] = 77;
    wt_ok(warm_copy_async(runtime, device, from, bytes, WARM_COPY_TO_DEVICE,
                          stream));
    wt_ok(
        warm_copy_async(runtime, to, device, bytes, WARM_COPY_TO_HOST, stream));
    wt_ok(warm_stream_synchronize(runtime, stream));
    for (size_t i = 0; i + 1 < bytes; i += 4096) {
        wt_require(to[i] == (char)(i >> 12), "%zu of %zu bytes differs", i,
                   bytes);
    }
    ck_assert_int_eq(to[bytes - 1], 77);
}

static const char *const ways[] = {"alloc", "register"};

/* Whatever lies in a block can be copied by one call of ours, also if the block
 * is larger than what is locked at once and so has pieces, which are registered
 * in either way. */
WT_LOOP_TEST(test_B9_blocks_of_every_size_can_be_copied_whole, 2)
{
    static const size_t sizes[] = {100000, MIB / 2, MIB, 3 * MIB + 4096};
    void *device = NULL;

    begin(&(warm_options){.size = sizeof(warm_options),
                          .pin = ways[_i],
                          .pin_chunk = 1 * MIB,
                          .segment = 1 * MIB});
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc_uncached(runtime, 0, (size_t)1 << 45, &device));
    ck_assert_uint_eq(wt_calls(runtime, "device_alloc"), 1);
    wt_ok(warm_device_alloc_uncached(runtime, 0, 4 * MIB, &device));
    wt_ok(warm_pinned_prewarm(runtime, 4 * MIB, WARM_NODE_ANY, 0));
    ck_assert_uint_eq(wt_pinned_stats(runtime).segments.current, 4);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *from = take(sizes[i]), *to = take(sizes[i]);

        copy_through(from, device, to, sizes[i]);
        wt_free(from, to);
    }
    ck_assert_uint_gt(wt_calls(runtime, "pinned_register"), 0);
    ck_assert_int_eq(wt_calls(runtime, "pinned_alloc") > 0, _i == 0);
    wt_ok(warm_poll(runtime));
    wt_ok(warm_pinned_trim(runtime, 0, NULL));
    ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    ck_assert_uint_eq(wt_calls(runtime, "pinned_unregister"),
                      wt_calls(runtime, "pinned_register"));
    ck_assert_uint_eq(wt_calls(runtime, "pinned_free"),
                      wt_calls(runtime, "pinned_alloc"));
    wt_ok(warm_device_free_uncached(runtime, 0, device));
    end();
}

WT_LOOP_TEST(test_B17_prewarmed_memory_spares_requests_the_driver, 4)
{
    uint64_t done = 0, wanted = 0, before;
    void *block[8];

    begin(&(warm_options){.size = sizeof(warm_options),
                          .pin = ways[_i % 2],
                          .pin_chunk = 4 * MIB});
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, WARM_NODE_ANY,
                              _i / 2 == 0 ? 0 : WARM_PREWARM_BACKGROUND));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    wt_ok(warm_pinned_prewarm_progress(runtime, &done, &wanted));
    ck_assert_uint_eq(done, _i / 2 == 0 ? 0 : 16 * MIB);
    ck_assert_uint_eq(wanted, done);
    ck_assert_uint_eq(wt_pinned_stats(runtime).idle_bytes, 16 * MIB);
    before = wt_calls(runtime, "pinned_alloc") +
             wt_calls(runtime, "pinned_register");
    ck_assert_uint_eq(before, 4);
    for (int i = 0; i < 8; i++) {
        block[i] = take(2 * MIB);
    }
    ck_assert_uint_eq(wt_calls(runtime, "pinned_alloc") +
                          wt_calls(runtime, "pinned_register"),
                      before);
    wt_free_all(block, 8);
    end();
}

struct seen {
    size_t ready, total;
    unsigned calls;
    warm_status status; /* of an allocation */
};

/* Allocates what only the driver has. */
static int see(void *context, size_t ready, size_t total)
{
    struct seen *seen = context;
    void *block = NULL;

    if (seen->status == WARM_OK && ready > seen->ready) {
        seen->status = warm_pinned_alloc(runtime, 24 * MIB, &block);
        (void)warm_free(block);
    }
    seen->ready = ready;
    seen->total = total;
    seen->calls++;
    return 0;
}

WT_LOOP_TEST(test_B9_requests_are_served_between_regions, 4)
{
    struct seen seen = {.status = WARM_OK};
    warm_prewarm_options how = {.size = sizeof how,
                                .progress = see,
                                .context = &seen,
                                .pause_ns = 1000};

    begin(&(warm_options){.size = sizeof(warm_options),
                          .pin = ways[_i % 2],
                          .pin_chunk = MIB * 4});
    wt_ok(warm_pinned_prewarm_with(runtime, 14 * MIB, WARM_NODE_ANY,
                                   _i / 2 == 0 ? 0 : WARM_PREWARM_BACKGROUND,
                                   &how));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_int_eq(seen.status, WARM_OK);
    ck_assert_uint_ge(seen.calls, 2);
    ck_assert_uint_eq(seen.ready, 14 * MIB);
    ck_assert_uint_eq(seen.total, 14 * MIB);
    end();
}

/* Nobody polls but the thread. */
WT_TEST(test_B10_thread_collects_what_has_passed)
{
    void *block;

    begin(&(warm_options){.size = sizeof(warm_options),
                          .background = "on",
                          .reserve_bytes = 8 * MIB});
    while (wt_pinned_stats(runtime).idle_bytes < 8 * MIB) {
        sched_yield();
    }
    for (int i = 0; i < 20; i++) {
        block = take(100000);
        wt_ok(warm_record_stream(block, stream));
        wt_ok(warm_free(block));
    }
    while (wt_pinned_stats(runtime).pending.current > 0) {
        sched_yield();
    }
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, 20);
    end();
}

WT_LOOP_TEST(test_B9_reserve_is_there_before_the_first_request, 2)
{
    void *block;

    begin(&(warm_options){.size = sizeof(warm_options),
                          .pin = ways[_i],
                          .reserve_bytes = 8 * MIB});
    ck_assert_uint_ge(wt_pinned_stats(runtime).idle_bytes, 8 * MIB);
    block = take(4 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).cache_hits, 1);
    wt_ok(warm_free(block));
    end();
}

/* ---- huge pages ---------------------------------------------------------- */

/* What the kernel can give: a region that requires them says so. */
static bool has_huge_pages(void)
{
    bool has =
        warm_pinned_prewarm(runtime, 4 * MIB, WARM_NODE_ANY, 0) == WARM_OK;

    if (!has) {
        printf("skip: huge pages: %s\n", warm_last_error_message());
        wt_says("huge_pages:require");
        ck_assert_uint_eq(wt_pinned_stats(runtime).held_bytes.current, 0);
    }
    return has;
}

WT_TEST(test_B21_statistics_have_the_huge_pages_obtained)
{
    begin(&(warm_options){.size = sizeof(warm_options),
                          .huge_pages = "require",
                          .pin_chunk = 8 * MIB});
    ck_assert_uint_eq(wt_pinned_stats(runtime).huge_bytes, 0);
    if (has_huge_pages()) {
        ck_assert_uint_eq(wt_pinned_stats(runtime).huge_bytes, 4 * MIB);
        wt_ok(warm_pinned_prewarm(runtime, 20 * MIB, WARM_NODE_ANY, 0));
        ck_assert_uint_eq(wt_pinned_stats(runtime).huge_bytes, 20 * MIB);
        wt_ok(warm_pinned_trim(runtime, 8 * MIB, NULL));
        ck_assert_uint_eq(wt_pinned_stats(runtime).huge_bytes,
                          wt_pinned_stats(runtime).held_bytes.current);
        wt_ok(warm_pinned_trim(runtime, 0, NULL));
        ck_assert_uint_eq(wt_pinned_stats(runtime).huge_bytes, 0);
    }
    end();
}

WT_TEST(test_B21_huge_pages_that_the_driver_cannot_request_are_an_error)
{
    warm_options options = {.size = sizeof options,
                            .device = wt_on_host() ? "host" : "cuda",
                            .pin = "alloc",
                            .huge_pages = "require"};
    warm_runtime *none = NULL;

    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &none));
    ck_assert_ptr_null(none);
    wt_says("huge_pages:require", "pin:register");
}
