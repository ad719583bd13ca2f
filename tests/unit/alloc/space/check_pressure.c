/* check_pressure.c: watermarks that follow the budget of the host, and idle
 * memory that goes when the kernel reports pressure (rows F7, F11, F12), with a
 * made-up tree of files. Host device. */
#include "wt.h"

#include "alloc/kinds/device_space.h"
#include "alloc/kinds/pinned.h"
#include "alloc/kinds/recommended.h"
#include "alloc/space/space_int.h"
#include "runtime/base/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)

static warm_runtime *runtime;
static wm_space *host;
static char root[WT_FOLDER];

static void put(const char *name, const char *text)
{
    wt_folder_put(root, name, text);
}

static void put_available(size_t bytes)
{
    char text[64];

    snprintf(text, sizeof text, "MemAvailable: %zu kB\n", bytes / 1024);
    put("/proc/meminfo", text);
    /* The next growth reads it. */
    atomic_store_explicit(&host->pressure.read_ns, 0, memory_order_relaxed);
}

static void make_folder(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s%s", root, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void setup(void)
{
    wt_folder(root);
    make_folder("/proc");
    make_folder("/proc/pressure");
    runtime = wt_runtime_with(.segment = MIB, .limit_wait_ms = 1);
    host = &runtime->pinned->space;
    host->pressure.root = root;
    put_available(100 * MIB);
}

static void teardown(void)
{
    wt_ok(warm_testing_check(runtime, -1));
    wt_runtime_end(runtime);
    wt_folder_end(root);
}

static warm_watermarks marks(void)
{
    warm_watermarks marks = WARM_INIT(warm_watermarks);

    wt_ok(warm_watermarks_get(runtime, WARM_MEMORY_OF_HOST, &marks));
    return marks;
}

static size_t held(void)
{
    return wt_pinned_stats(runtime).held_bytes.current;
}

WT_CASE("budget", .setup = setup, .teardown = teardown);

/* What is held, and what may still be had. */
WT_TEST(test_F7_F12_watermarks_follow_the_budget)
{
    warm_watermarks all = WARM_INIT(warm_watermarks), of_device = all;
    void *block;

    ck_assert_uint_eq(marks().recommended_bytes, 100 * MIB);
    wt_ok(warm_watermarks_get(runtime, WARM_MEMORY_OF_ALL, &all));
    wt_ok(warm_watermarks_get(runtime, 0, &of_device));
    ck_assert_uint_gt(of_device.recommended_bytes, 0);
    ck_assert_uint_eq(all.recommended_bytes,
                      100 * MIB + of_device.recommended_bytes);
    ck_assert_uint_eq(marks().high_bytes, 170 * MIB);
    ck_assert_uint_eq(marks().low_bytes, 100 * MIB);
    block = wt_pinned(runtime, 40 * MIB);
    put_available(20 * MIB);
    ck_assert_uint_eq(marks().recommended_bytes, 60 * MIB);
    ck_assert_uint_eq(marks().low_bytes, 60 * MIB);
    ck_assert_uint_eq(marks().high_bytes, 102 * MIB);
    wt_free(block);
}

/* Another program takes memory: what is idle goes before more comes, no request
 * fails, and beyond the high watermark one is refused. */
WT_TEST(test_F7_F12_second_program_makes_idle_memory_go)
{
    void *block[2], *refused = NULL;

    block[0] = wt_pinned(runtime, 40 * MIB);
    block[1] = wt_pinned(runtime, 30 * MIB);
    wt_free(block[1]);
    ck_assert_uint_eq(held(), 70 * MIB);
    put_available(0); /* all of it is ours now */
    block[1] = wt_pinned(runtime, 35 * MIB);
    ck_assert_uint_eq(held(), 75 * MIB);
    put_available(0);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_pinned_alloc(runtime, 200 * MIB, &refused));
    wt_says("200.0 MiB of pinned memory", "limit of");
    put_available(400 * MIB);
    refused = wt_pinned(runtime, 200 * MIB);
    wt_free(block[0], block[1], refused);
}

/* Set in bytes, they do not follow. Unknown, there are none. */
WT_TEST(test_F7_F12_what_is_set_in_bytes_does_not_follow)
{
    warm_watermarks all = WARM_INIT(warm_watermarks);
    wm_options options;
    char path[128];

    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 9 * MIB, 8 * MIB));
    put_available(20 * MIB);
    ck_assert_uint_eq(marks().high_bytes, 9 * MIB);
    ck_assert_uint_eq(marks().low_bytes, 8 * MIB);
    wt_ok(warm_watermarks_set_ratio(runtime, WARM_MEMORY_OF_HOST, 1, 0.5));
    ck_assert_uint_eq(marks().high_bytes, 20 * MIB);
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    ck_assert_int_eq(remove(path), 0);
    atomic_store_explicit(&host->pressure.read_ns, 0, memory_order_relaxed);
    ck_assert_uint_eq(marks().recommended_bytes, 0);
    ck_assert_uint_eq(marks().high_bytes + marks().low_bytes, 0);
    wt_fails(WARM_UNSUPPORTED,
             warm_watermarks_set_ratio(runtime, WARM_MEMORY_OF_HOST, 1, 0.5));
    wt_says("recommended maximum is unknown");
    wt_fails(WARM_UNSUPPORTED,
             warm_watermarks_set_ratio(runtime, WARM_MEMORY_OF_HOST, 0, 0.5));
    wt_ok(warm_watermarks_set_ratio(runtime, WARM_MEMORY_OF_HOST, 0, 0));
    /* What is unknown of a part is unknown of all. */
    wt_ok(warm_watermarks_get(runtime, WARM_MEMORY_OF_ALL, &all));
    ck_assert_uint_eq(all.recommended_bytes, 0);
    wt_fails(WARM_UNSUPPORTED,
             warm_watermarks_set_ratio(runtime, WARM_MEMORY_OF_ALL, 1, 0.5));
    wt_ok(wm_options_resolve(NULL, "device:host,pinned_high:64M", &options));
    wt_ok(wm_watermarks_begin(runtime, &options));
    wt_ok(wm_options_resolve(NULL, "device:host,pinned_high:0.5", &options));
    wt_fails(WARM_INVALID_OPTION, wm_watermarks_begin(runtime, &options));
    wt_says("option pinned_high: 0.5", "only bytes are allowed");
}

/* A ratio that the maximum's fall has made too high can be set all the same. */
WT_TEST(test_F7_F12_a_ratio_that_is_read_can_be_set)
{
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_HOST, 200 * MIB, 0));
    put_available(40 * MIB);
    ck_assert_uint_eq(marks().high_bytes, 200 * MIB);
    ck_assert(marks().high_ratio == 2.0);
    wt_ok(warm_watermarks_set_ratio(runtime, WARM_MEMORY_OF_HOST,
                                    marks().high_ratio, 0));
    ck_assert_uint_eq(marks().high_bytes, 80 * MIB);
}

/* One in bytes, below one that follows: it is there again when that allows. */
WT_TEST(test_F7_F12_low_watermark_in_bytes_outlasts_a_shorter_budget)
{
    wm_watermark_set high = {.ratio = 1.7}, low = {.bytes = 80 * MIB};

    wm_watermarks_set(host, &host->marks, &high, &low, 100 * MIB);
    ck_assert_uint_eq(marks().low_bytes, 80 * MIB);
    put_available(10 * MIB);
    ck_assert_uint_eq(marks().low_bytes, 17 * MIB);
    put_available(100 * MIB);
    ck_assert_uint_eq(marks().low_bytes, 80 * MIB);
}

/* Nothing left is not the same as unknown. */
WT_TEST(test_F7_F12_no_budget_is_a_watermark)
{
    void *refused = NULL;

    put_available(0);
    ck_assert_uint_eq(marks().recommended_bytes, 1);
    ck_assert_uint_eq(marks().high_bytes, 1);
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 5000, &refused));
    put_available(100 * MIB);
    refused = wt_pinned(runtime, 5000);
    wt_free(refused);
}

/* Idle memory of any space that counts makes room for a workspace. */
WT_TEST(test_F7_F11_workspace_finds_room_beside_idle_memory)
{
    wt_ok(warm_watermarks_set(runtime, WARM_MEMORY_OF_ALL, 64 * MIB, 0));
    wt_free(wt_pinned(runtime, 60 * MIB));
    ck_assert(wm_device_space_claim(runtime, 0, 16 * MIB));
    ck_assert_uint_eq(held(), 0);
    ck_assert(!wm_device_space_claim(runtime, 0, 49 * MIB));
    wm_device_space_unclaim(runtime, 0, 16 * MIB);
}

/* ---- pressure ------------------------------------------------------------ */

#define STALL(us) "some avg10=0.00 avg60=0.00 avg300=0.00 total=" us "\n"

WT_TEST(test_F11_idle_memory_goes_when_the_kernel_reports_pressure)
{
    void *block = wt_pinned(runtime, 8 * MIB);

    atomic_store_explicit(&host->pressure.pause_ns, 0, memory_order_relaxed);
    put("/proc/pressure/memory", STALL("0"));
    wt_free(wt_pinned(runtime, 20 * MIB));
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    ck_assert_uint_eq(held(), 28 * MIB);
    put("/proc/pressure/memory", STALL("999999999"));
    ck_assert_uint_eq(wm_pressure_look(host), 20 * MIB);
    ck_assert_uint_eq(held(), 8 * MIB);
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    wt_free(block);
}

static int serves(void *context, warm_stream stream)
{
    return 1;
}

WT_TEST(test_F11_idle_memory_of_a_pool_goes_when_the_kernel_reports_pressure)
{
    warm_stream stream = wt_stream(runtime, 0);
    warm_private_pool pool = {0};

    atomic_store_explicit(&host->pressure.pause_ns, 0, memory_order_relaxed);
    put("/proc/pressure/memory", STALL("0"));
    wt_ok(warm_thread_set_stream(runtime, stream));
    wt_ok(
        warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, serves, NULL));
    wt_free(wt_pinned(runtime, 20 * MIB));
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    ck_assert_uint_eq(held(), 20 * MIB);
    put("/proc/pressure/memory", STALL("999999999"));
    ck_assert_uint_eq(wm_pressure_look(host), 20 * MIB);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    wt_ok(warm_thread_set_stream(runtime, NULL));
    wt_stream_end(runtime, stream);
}

WT_TEST(test_F11_the_reserve_stays_when_the_kernel_reports_pressure)
{
    void *reserve, *small;

    wt_runtime_end(runtime);
    runtime = wt_runtime_with(.segment = MIB, .slack = 1000,
                              .reserve_bytes = 3 * MIB);
    host = &runtime->pinned->space;
    host->pressure.root = root;
    atomic_store_explicit(&host->pressure.pause_ns, 0, memory_order_relaxed);
    put("/proc/pressure/memory", STALL("0"));
    reserve = wt_pinned(runtime, 3 * MIB);
    small = wt_pinned(runtime, MIB);
    wt_free(reserve, small);
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    put("/proc/pressure/memory", STALL("999999999"));
    ck_assert_uint_eq(wm_pressure_look(host), MIB);
    ck_assert_uint_eq(held(), 3 * MIB);
}

static _Atomic uint64_t now_ns;

static uint64_t test_clock(void)
{
    return atomic_load_explicit(&now_ns, memory_order_relaxed);
}

static void set_ms(uint64_t ms)
{
    atomic_store_explicit(&now_ns, ms * 1000000, memory_order_relaxed);
}

static void miss(void)
{
    void *block = NULL;

    wt_ok(warm_device_alloc(runtime, 0, NULL, 3 * MIB, &block));
    wt_free(block);
}

/* Without a background thread the requests that miss look, of any memory, but
 * not each of them. */
WT_TEST(test_F11_a_miss_looks_where_no_background_thread_does)
{
    void *block;

    wm_clock_set(test_clock);
    set_ms(100000);
    put("/proc/pressure/memory", STALL("0"));
    block = wt_pinned(runtime, 8 * MIB);
    wt_free(wt_pinned(runtime, 20 * MIB));
    set_ms(101000);
    miss();
    put("/proc/pressure/memory", STALL("60000"));
    set_ms(101099);
    miss();
    ck_assert_uint_eq(held(), 28 * MIB);
    set_ms(101100);
    miss();
    ck_assert_uint_eq(held(), 8 * MIB);
    wm_clock_set(NULL);
    wt_free(block);
}

/* Each time that it is read the clock has moved on. */
static uint64_t slow_clock(void)
{
    return atomic_fetch_add_explicit(&now_ns, 500000000, memory_order_relaxed);
}

/* A look that takes longer than the pause is not followed by another at once.
 */
WT_TEST(test_F11_looks_are_apart_from_end_to_begin)
{
    put("/proc/pressure/memory", STALL("0"));
    set_ms(200000);
    wm_clock_set(slow_clock);
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    wm_clock_set(NULL);
    ck_assert_uint_eq(
        atomic_load_explicit(&host->pressure.looked_ns, memory_order_relaxed) +
            500000000,
        test_clock());
    ck_assert_uint_ge(test_clock(), UINT64_C(201000000000));
}

/* Of a cgroup's events only those are pressure that leave less than is idle. */
WT_TEST(test_F11_F12_event_counts_if_less_is_left_than_is_idle)
{
    atomic_store_explicit(&host->pressure.pause_ns, 0, memory_order_relaxed);
    make_folder("/proc/self");
    make_folder("/sys");
    make_folder("/sys/fs");
    make_folder("/sys/fs/cgroup");
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.events.local", "high 0\nmax 0\noom 0\n");
    wt_free(wt_pinned(runtime, 20 * MIB));
    ck_assert_uint_eq(wm_pressure_look(host), 0);
    put("/sys/fs/cgroup/memory.events.local", "high 0\nmax 1\noom 0\n");
    ck_assert_uint_eq(wm_pressure_look(host), 0); /* page cache gave way */
    put_available(10 * MIB);
    put("/sys/fs/cgroup/memory.events.local", "high 0\nmax 2\noom 0\n");
    ck_assert_uint_eq(wm_pressure_look(host), 20 * MIB);
}

WT_TEST(test_F7_what_a_process_has_locked_is_locked_or_pinned)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);

    make_folder("/proc/self");
    put("/proc/self/status", "Name:\tx\nVmLck:\t      20 kB\n"
                             "VmPin:\t     300 kB\n");
    wt_ok(warm_memory_get_totals(runtime, WARM_MEMORY_OF_HOST, &totals));
    ck_assert_uint_eq(totals.process_bytes, (uint64_t)320 << 10);
    wt_free(wt_device(runtime, NULL, MIB)); /* of device 0: cached */
    wt_ok(warm_memory_get_totals(runtime, WARM_MEMORY_OF_ALL, &totals));
    ck_assert_uint_eq(totals.process_bytes,
                      totals.held_bytes + ((uint64_t)320 << 10));
    put("/proc/self/status", "Name:\tx\n");
    wt_ok(warm_memory_get_totals(runtime, WARM_MEMORY_OF_HOST, &totals));
    ck_assert_uint_eq(totals.process_bytes, 0);
}

/* ---- the background thread ----------------------------------------------- */

WT_CASE("background");

WT_TEST(test_F7_F11_background_thread_stays_below_the_low_watermark)
{
    void *block[2];

    runtime = wt_runtime_with(.segment = MIB, .background = "on");
    host = &runtime->pinned->space;
    block[0] = wt_pinned(runtime, 8 * MIB);
    block[1] = wt_pinned(runtime, 20 * MIB);
    wt_free(block[1]);
    /* Set in bytes, without the shrink of warm_watermarks_set(). */
    wm_watermarks_set(host, &host->marks, &(wm_watermark_set){.bytes = 0},
                      &(wm_watermark_set){.bytes = 10 * MIB}, 0);
    wm_waker_wake(&host->background.waker);
    while (held() > 10 * MIB) {
        sched_yield();
    }
    ck_assert_uint_eq(held(), 8 * MIB);
    wt_free(block[0]);
    wt_runtime_end(runtime);
}

/* Of every memory; the reserve stays, or it would come and go. */
WT_TEST(test_F7_F11_background_thread_looks_at_every_memory)
{
    warm_stream stream;
    warm_device_stats stats = WARM_INIT(warm_device_stats);
    wm_watermark_set none = {.bytes = 0}, little = {.bytes = 4 * MIB};
    wm_space *device;

    runtime = wt_runtime_with(.segment = MIB, .background = "on",
                              .reserve_bytes = 16 * MIB);
    host = &runtime->pinned->space;
    device = &runtime->device_spaces[0].space;
    stream = wt_stream(runtime, 0);
    while (held() < 16 * MIB) {
        sched_yield();
    }
    wt_free(wt_device(runtime, stream, 32 * MIB));
    wm_watermarks_set(device, &device->marks, &none, &little, 0);
    wm_watermarks_set(host, &host->marks, &none, &little, 0);
    do {
        wm_waker_wake(&host->background.waker);
        sched_yield();
        wt_ok(warm_device_get_stats(runtime, 0, &stats));
    } while (stats.all.held_bytes.current > 0);
    ck_assert_uint_ge(held(), 16 * MIB);
    ck_assert_uint_eq(wt_pinned_stats(runtime).driver_free.count, 0);
    wt_stream_end(runtime, stream);
    wt_runtime_end(runtime);
}
