/* check_prewarm_jobs.c: memory obtained ahead of demand (rows B9, B17). Host
 * device; its page-locking waits, and refuses, where a test wants that. */
/* memcheck: one process */
#include "wt_memory.h"

#include "alloc/space/space.h"
#include "runtime/base/meta.h"

#include <string.h>

static warm_runtime *runtime;

static void begin(warm_options *options)
{
    runtime = wt_memory_begin(options);
}

static void progress(uint64_t *done, uint64_t *wanted)
{
    wt_ok(warm_pinned_prewarm_progress(runtime, done, wanted));
}

/* ---- now -------------------------------------------------------------- */

WT_TEST(test_B17_prewarmed_memory_serves_requests_without_the_driver)
{
    void *block[4];

    begin(&(warm_options){.pin_chunk = 16 * MIB});
    wt_ok(warm_pinned_prewarm(runtime, 40 * MIB, WARM_NODE_ANY, 0));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 40 * MIB);
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 3);
    ck_assert_uint_eq(wt_memory.largest, 16 * MIB);
    for (int i = 0; i < 4; i++) {
        block[i] = wt_memory_take(8 * MIB);
    }
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 3);
    ck_assert_uint_eq(wt_memory_stats().cache_hits, 4);
    wt_free_all(block, 4);
    /* Idle memory counts. */
    wt_ok(warm_pinned_prewarm(runtime, 40 * MIB, 0, 0));
    wt_ok(warm_pinned_prewarm(runtime, 0, 0, 0));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 3);
    wt_memory_end();
}

WT_TEST(test_prewarm_counts_what_is_idle_not_what_is_used)
{
    void *block;

    begin(&(warm_options){.pin_chunk = 16 * MIB, .segment = 4 * MIB});
    block = wt_memory_take(10 * MIB);
    wt_ok(warm_pinned_prewarm(runtime, 1, 0, 0));
    /* Not less than a segment. */
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 4 * MIB);
    wt_ok(warm_pinned_prewarm(runtime, 6 * MIB, 0, 0));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 8 * MIB);
    wt_ok(warm_free(block));
    wt_memory_end();
}

WT_TEST(test_B17_region_that_is_refused_is_had_in_parts)
{
    begin(&(warm_options){.pin_chunk = 64 * MIB, .segment = 4 * MIB});
    wt_memory.refusing = 9 * MIB;
    wt_ok(warm_pinned_prewarm(runtime, 30 * MIB, 0, 0));
    ck_assert_uint_ge(wt_memory_stats().idle_bytes, 30 * MIB);
    ck_assert_uint_lt(wt_memory_stats().idle_bytes, 34 * MIB);
    wt_memory_end();
}

WT_TEST(test_B17_less_than_a_segment_where_there_is_no_more)
{
    begin(&(warm_options){.segment = 4 * MIB});
    wt_memory.refusing = 2 * MIB;
    wt_ok(warm_pinned_prewarm(runtime, 1 * MIB, 0, 0));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 2 * MIB);
    wt_memory_end();
}

/* Completed frees count, though no thread has polled: those that threads batch,
 * and those in timelines; now, and in the background. */
WT_LOOP_TEST(test_B10_B17_what_was_freed_and_is_done_need_not_be_had, 4)
{
    size_t bytes = _i < 2 ? MIB : 8 * MIB;
    unsigned flags = _i % 2 == 0 ? 0 : WARM_PREWARM_BACKGROUND;
    void *block[8];
    warm_stream stream;

    begin(&(warm_options){.segment = 8 * MIB});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    for (size_t i = 0; i < 8 * MIB / bytes; i++) {
        block[i] = wt_memory_take(bytes);
        wt_ok(warm_record_stream(block[i], stream));
    }
    wt_stop(runtime, stream);
    wt_free_all(block, 8 * MIB / bytes);
    wt_go(runtime, stream);
    ck_assert_uint_eq(wm_arena_idle(&wt_memory_space()->group.arenas[0]), 0);
    wt_ok(warm_pinned_prewarm(runtime, 8 * MIB, 0, flags));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(wm_arena_idle(&wt_memory_space()->group.arenas[0]),
                      8 * MIB);
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 1);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_memory_end();
}

/* While a region is obtained the one before it is allocated. */
static void *taken[24];
static unsigned takes;

static warm_status alloc_and_take(wm_driver *d, size_t bytes, void **pointer)
{
    warm_status status = wt_memory_alloc(d, bytes, pointer);

    if (takes < 24 && wm_arena_idle(&wt_memory_space()->group.arenas[0]) > 0) {
        (void)warm_pinned_alloc(runtime, 8 * MIB, &taken[takes++]);
    }
    return status;
}

WT_TEST(test_B17_what_is_taken_meanwhile_is_made_up_for_once)
{
    begin(&(warm_options){.pin_chunk = 8 * MIB, .keep = WARM_OFF});
    wt_memory.ops.pinned_alloc = alloc_and_take;
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, 0));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 4);
    while (takes > 0) {
        wt_ok(warm_free(taken[--takes]));
    }
    wt_memory_end();
}

WT_TEST(test_prewarm_that_gets_a_part_says_so_and_keeps_it)
{
    begin(&(warm_options){.pin_chunk = 16 * MIB, .pinned_high = 50 * MIB});
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_prewarm(runtime, 100 * MIB, 0, 0));
    wt_says("limit", "prewarm of 100.0 MiB pinned memory");
    /* Down to a segment. */
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 48 * MIB);
    ck_assert_uint_eq(wt_memory_stats().failures, 0);
    wt_memory_end();
}

/* ---- in the background ------------------------------------------------ */

WT_TEST(test_B17_in_the_background_with_progress)
{
    static char text[1 << 16];
    uint64_t done = 1, wanted = 1;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 0);
    ck_assert_uint_eq(wanted, 0);
    wt_set(&wt_memory.closed, true);
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_await(&wt_memory.inside);
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 0);
    ck_assert_uint_eq(wanted, 32 * MIB);
    /* The larger job holds. */
    wt_ok(warm_pinned_prewarm(runtime, 40 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_set(&wt_memory.closed, false);
    wt_ok(warm_pinned_prewarm_wait(runtime));
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 40 * MIB);
    ck_assert_uint_eq(wanted, 40 * MIB);
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    ck_assert_ptr_nonnull(
        strstr(text, "\"prewarm\":{\"done\":41943040,\"wanted\":41943040}"));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 40 * MIB);
    wt_memory_end();
}

WT_TEST(test_B17_cancelled_request_stops_after_the_region_under_way)
{
    uint64_t done = 0, wanted = 0;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_set(&wt_memory.closed, true);
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_await(&wt_memory.inside);
    wt_ok(warm_pinned_prewarm_cancel(runtime));
    wt_set(&wt_memory.closed, false);
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 8 * MIB);
    progress(&done, &wanted);
    ck_assert_uint_eq(wanted, 32 * MIB);
    /* A new job may follow. */
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 16 * MIB);
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 16 * MIB);
    ck_assert_uint_eq(wanted, 16 * MIB);
    wt_memory_end();
}

/* The region of the cancelled job fails, which does not end the next job. */
WT_TEST(test_wish_after_a_cancelled_one_is_one_of_its_own)
{
    uint64_t done = 0, wanted = 0;

    begin(&(warm_options){.pin_chunk = 8 * MIB, .segment = 8 * MIB});
    wt_set(&wt_memory.breaks, true);
    wt_set(&wt_memory.closed, true);
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_await(&wt_memory.inside);
    wt_ok(warm_pinned_prewarm_cancel(runtime));
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_set(&wt_memory.closed, false);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 16 * MIB);
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 16 * MIB);
    /* Both: the first was under way when the second came. */
    ck_assert_uint_eq(wanted, 48 * MIB);
    wt_memory_end();
}

WT_TEST(test_failure_in_the_background_is_told_once_by_wait)
{
    uint64_t done = 0, wanted = 0;

    begin(&(warm_options){.pin_chunk = 8 * MIB, .pinned_high = 24 * MIB});
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_prewarm_wait(runtime));
    wt_says("24.0 MiB idle");
    wt_ok(warm_pinned_prewarm_wait(runtime));
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 24 * MIB);
    ck_assert_uint_eq(wanted, 32 * MIB);
    wt_memory_end();
}

static void await_no_job(void)
{
    wm_background *b = &wt_memory_space()->background;
    bool wanted;

    do {
        sched_yield();
        wm_lock_acquire(&b->waker.lock);
        wanted = wm_prewarm_has_jobs_locked(b) || b->obtaining;
        wm_lock_release(&b->waker.lock);
    } while (wanted);
}

WT_TEST(test_first_of_two_failures_is_told)
{
    begin(&(warm_options){.pin_chunk = 8 * MIB, .pinned_high = 24 * MIB});
    wt_memory.refusing = 1;
    wt_ok(warm_pinned_prewarm(runtime, 8 * MIB, 0, WARM_PREWARM_BACKGROUND));
    await_no_job();
    wt_memory.refusing = 0;
    wt_ok(warm_pinned_prewarm(runtime, 32 * MIB, 0, WARM_PREWARM_BACKGROUND));
    await_no_job();
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_prewarm_wait(runtime));
    wt_says("are too much");
    wt_ok(warm_pinned_prewarm_wait(runtime));
    wt_memory_end();
}

/* A request is served from a large region in flight. */
WT_TEST(test_request_finds_room_in_what_is_obtained_ahead)
{
    void *block;

    begin(&(warm_options){.pin_chunk = 64 * MIB, .segment = 4 * MIB});
    wt_ok(warm_pinned_prewarm(runtime, 64 * MIB, 0, WARM_PREWARM_BACKGROUND));
    block = wt_memory_take(32 * MIB);
    wt_ok(warm_pinned_prewarm_wait(runtime));
    wt_ok(warm_free(block));
    ck_assert_uint_ge(wt_memory_stats().held_bytes.current, 64 * MIB);
    wt_memory_end();
}

/* A small request does not wait for a large region. */
WT_TEST(test_request_does_not_wait_for_much_more_than_it_would_obtain)
{
    void *block;

    begin(&(warm_options){.pin_chunk = 64 * MIB, .segment = 4 * MIB});
    wt_set(&wt_memory.closed, true);
    wt_ok(warm_pinned_prewarm(runtime, 64 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_await(&wt_memory.inside);
    block = wt_memory_take(5000);
    ck_assert(wt_flag(&wt_memory.inside));
    ck_assert_uint_eq(wt_memory_stats().held_bytes.current, 4 * MIB);
    wt_set(&wt_memory.closed, false);
    wt_ok(warm_pinned_prewarm_wait(runtime));
    wt_ok(warm_free(block));
    wt_memory_end();
}

/* One region is in flight while destroy cancels the job. */
static warm_status alloc_until_stopped(wm_driver *d, size_t bytes,
                                       void **pointer)
{
    wm_background *b = &wt_memory_space()->background;
    bool stopped;

    wt_set(&wt_memory.inside, true);
    do {
        sched_yield();
        wm_lock_acquire(&b->waker.lock);
        stopped = b->stop;
        wm_lock_release(&b->waker.lock);
    } while (!stopped);
    return wt_memory_alloc(d, bytes, pointer);
}

WT_TEST(test_B17_destroy_calls_off_what_is_under_way)
{
    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_memory.ops.pinned_alloc = alloc_until_stopped;
    wt_ok(warm_pinned_prewarm(runtime, (size_t)1 << 40, 0,
                              WARM_PREWARM_BACKGROUND));
    wt_await(&wt_memory.inside);
    wt_ok(warm_runtime_destroy(runtime, NULL));
    ck_assert_uint_eq(wt_memory.obtained, 1);
    wt_fails(WARM_RUNTIME_GONE, warm_pinned_prewarm_wait(runtime));
}

WT_TEST(test_wish_without_a_thread_is_refused_and_leaves_nothing)
{
    uint64_t done = 1, wanted = 1;

    begin(&(warm_options){.pin_chunk = 8 * MIB});
    wt_refuse_threads(true);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_prewarm(runtime, 16 * MIB, 0,
                                                     WARM_PREWARM_BACKGROUND));
    wt_says("background thread");
    progress(&done, &wanted);
    ck_assert_uint_eq(done, 0);
    ck_assert_uint_eq(wanted, 0);
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(wt_memory_calls("pinned_alloc"), 0);
    wt_refuse_threads(false);
    wt_ok(warm_pinned_prewarm(runtime, 16 * MIB, 0, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_pinned_prewarm_wait(runtime));
    ck_assert_uint_eq(wt_memory_stats().idle_bytes, 16 * MIB);
    wt_memory_end();
}

WT_TEST(test_runtime_whose_thread_cannot_be_had_is_not_made)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .background = "on",
                            .reserve_bytes = 1 * MIB};
    int64_t live = wm_meta_live();
    warm_runtime *none = NULL;

    wt_refuse_threads(true);
    wt_fails(WARM_OUT_OF_MEMORY, warm_runtime_create(&options, &none));
    wt_refuse_threads(false);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(wm_meta_live(), live);
}

/* ---- a reserve -------------------------------------------------------- */

WT_TEST(test_B9_reserve_above_the_limit_is_a_bad_option)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .reserve_bytes = 64 * MIB,
                            .pinned_high = 32 * MIB};
    warm_runtime *none = NULL;

    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &none));
    wt_says("64.0 MiB", "pinned_high");
    ck_assert_ptr_null(none);
}

/* Whichever call fails: there is a runtime with its reserve, or none. */
static bool make_with_fault(const char *background, uint64_t call)
{
    warm_options options = {.size = sizeof options,
                            .device = "host",
                            .background = background,
                            .pin_chunk = 1 * MIB,
                            .segment = 1 * MIB,
                            .reserve_bytes = 3 * MIB};
    int64_t live = wm_meta_live();
    wm_driver *driver = NULL;
    warm_runtime *made = NULL;
    wm_options resolved;

    wt_ok(wm_options_resolve(&options, NULL, &resolved));
    wt_ok(wm_host_open(&resolved, &driver));
    wm_driver_fail(driver, WM_CALL_pinned_alloc, call, true);
    if (wm_runtime_create_on(driver, &options, &made) == WARM_OK) {
        wt_ok(warm_runtime_destroy(made, NULL));
        return true;
    }
    wt_require(made == NULL, "no runtime, and yet one");
    (void)wm_driver_close(driver);
    wt_require(wm_meta_live() == live, "%ld records are left behind",
               (long)(wm_meta_live() - live));
    return false;
}

WT_TEST(test_runtime_whose_reserve_the_driver_refuses_is_not_made)
{
    for (uint64_t n = 1; n <= 4; n++) {
        ck_assert_int_eq(make_with_fault("off", n), n == 4);
    }
    /* The background thread tries; create does not wait for it. */
    ck_assert(make_with_fault("on", 1));
}
