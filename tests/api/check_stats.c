/* check_stats.c: statistics as a struct, JSON, a table and Prometheus text, all
 * from one description (row G7). */
#include "wt_json.h"
#include "wt_kind.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { ROOM = 1 << 20 };

static warm_runtime *runtime;
static warm_stream stream;
static void *blocks[8];
static char text[ROOM];

/* A program that uses every space, with frees that are pending and idle. */
static void setup(void)
{
    warm_stream reserved = NULL;
    void **at = blocks;

    runtime = wt_runtime(NULL);
    stream = wt_stream(runtime, 0);
    wt_ok(warm_stream_reserve(runtime, 0, &reserved));
    wt_ok(warm_pinned_alloc(runtime, 100000, at++));
    wt_ok(warm_pinned_alloc(runtime, 3 * MIB, at++));
    wt_ok(warm_device_alloc(runtime, 0, stream, 1000, at++));
    wt_ok(warm_device_alloc(runtime, 0, stream, 5 * MIB, at++));
    wt_ok(warm_shared_alloc(runtime, 0, 5000, WARM_USAGE_PRIVATE, at++));
    wt_ok(warm_shared_alloc(runtime, 0, 2 * MIB, WARM_USAGE_SHARED, at++));
    for (int i = 0; i < 10; i++) {
        wt_ok(warm_free(wt_pinned(runtime, 5000)));
    }
    wt_ok(warm_free(blocks[3]));
    blocks[3] = NULL;
}

static void teardown(void)
{
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        wt_ok(warm_free(blocks[i]));
        blocks[i] = NULL;
    }
    wt_stream_end(runtime, stream);
    wt_ok(warm_thread_release(runtime));
    wt_runtime_end(runtime);
}

static warm_stats totals(void)
{
    warm_stats stats = WARM_INIT(warm_stats);

    wt_ok(warm_stats_get(runtime, &stats));
    return stats;
}

/* ---- a reader of Prometheus text ----------------------------------------- */

/* Sums the samples of a family; of: part of their labels. -1: there is none. */
static double sum_of(const char *family, const char *of)
{
    size_t length = strlen(family);
    double sum = -1;

    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n'), *behind = line + length;
        char one[512];

        ck_assert_ptr_nonnull(end);
        if (strncmp(line, family, length) == 0 &&
            (*behind == '{' || *behind == ' ')) {
            ck_assert_int_lt(end - line, (int)sizeof one);
            memcpy(one, line, (size_t)(end - line));
            one[end - line] = '\0';
            if (strstr(one, of) != NULL) {
                sum = (sum < 0 ? 0 : sum) + strtod(strrchr(one, ' '), NULL);
            }
        }
        line = end + 1;
    }
    return sum;
}

#define FAMILY_IS(family, of, wanted)                                          \
    ck_assert_msg(sum_of(family, of) == (double)(wanted),                      \
                  "%s{%s}: %f, not %f", family, of, sum_of(family, of),        \
                  (double)(wanted))

/* ---- equal in all views -------------------------------------------------- */

WT_CASE("views", .setup = setup, .teardown = teardown);

WT_TEST(test_G7_totals_are_the_sums_of_the_structs)
{
    warm_space_stats pinned = wt_pinned_stats(runtime);
    warm_space_stats own = WARM_INIT(warm_space_stats), both = own;
    warm_device_stats device = WARM_INIT(warm_device_stats);
    warm_stats sum;

    wt_ok(warm_device_get_stats(runtime, 0, &device));
    wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_PRIVATE, &own));
    wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_SHARED, &both));
    sum = totals();
    ck_assert_uint_eq(sum.live, 5);
    ck_assert_uint_eq(sum.requests, 16);
    ck_assert_uint_eq(sum.requested_bytes, 100000 + 1000 + 5000 + 5 * MIB);
    ck_assert_uint_eq(sum.held_bytes, pinned.held_bytes.current +
                                          own.held_bytes.current +
                                          both.held_bytes.current +
                                          device.all.held_bytes.current);
    ck_assert_uint_eq(sum.live_bytes, pinned.live_bytes.current +
                                          own.live_bytes.current +
                                          both.live_bytes.current +
                                          device.all.live_bytes.current);
    ck_assert_uint_eq(sum.needed_bytes, sum.live_bytes + sum.pending_bytes);
    ck_assert_uint_eq(sum.idle_bytes, sum.held_bytes - sum.needed_bytes);
    ck_assert_uint_eq(sum.driver_calls,
                      pinned.driver_alloc.count + pinned.driver_free.count +
                          own.driver_alloc.count + own.driver_free.count +
                          both.driver_alloc.count + both.driver_free.count +
                          device.driver_alloc.count + device.driver_free.count);
}

WT_TEST(test_G7_json_has_the_totals_and_shared_buffers)
{
    warm_stats sum = totals();
    json_t *json;

    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    json = wt_json_read(text);
    ck_assert_ptr_nonnull(json);
#define EQUAL(name, unit, meaning)                                             \
    ck_assert_uint_eq(wt_json_number(wt_json_at(json, "total." #name)),        \
                      sum.name);
    WARM_STATS_MAP(EQUAL)
#undef EQUAL
    ck_assert_uint_eq(json_array_size(wt_json_at(json, "shared")), 2);
    ck_assert(wt_json_is(wt_json_at(json, "shared.0.usage"), "private"));
    ck_assert_uint_eq(
        wt_json_number(wt_json_at(json, "shared.0.requested_bytes.current")),
        5000);
    ck_assert_uint_eq(
        wt_json_number(wt_json_at(json, "shared.1.requested_bytes.current")),
        2 * MIB);
    json_decref(json);
}

WT_TEST(test_G7_prometheus_sums_equal_the_structs)
{
    warm_stats sum = totals();
    warm_space_stats pinned = wt_pinned_stats(runtime);
    warm_device_stats device = WARM_INIT(warm_device_stats);

    wt_ok(warm_device_get_stats(runtime, 0, &device));
    wt_ok(warm_stats_prometheus(runtime, text, sizeof text, NULL));
    FAMILY_IS("warmpool_live_blocks", "", sum.live);
    FAMILY_IS("warmpool_held_bytes", "", sum.held_bytes);
    FAMILY_IS("warmpool_live_bytes", "", sum.live_bytes);
    FAMILY_IS("warmpool_requested_bytes", "", sum.requested_bytes);
    FAMILY_IS("warmpool_live_allocated_blocks_total", "", sum.requests);
    FAMILY_IS("warmpool_cache_hits_total", "", sum.cache_hits);
    FAMILY_IS("warmpool_total_held_bytes", "", sum.held_bytes);
    FAMILY_IS("warmpool_held_bytes", "space=\"pinned\"",
              pinned.held_bytes.current);
    FAMILY_IS("warmpool_held_peak_bytes", "space=\"pinned\"",
              pinned.held_bytes.peak);
    FAMILY_IS("warmpool_live_freed_blocks_total", "space=\"pinned\"",
              pinned.live.freed);
    FAMILY_IS("warmpool_node_held_bytes", "", pinned.held_bytes.current);
    FAMILY_IS("warmpool_class_live_blocks", "", pinned.live.current);
    FAMILY_IS("warmpool_size_held_bytes", "size=\"small\"}",
              device.small.held_bytes.current);
    FAMILY_IS("warmpool_size_held_bytes", "device=\"0\"",
              device.all.held_bytes.current);
    FAMILY_IS("warmpool_requested_bytes", "{space=\"private\",device=\"0\"}",
              5000);
    FAMILY_IS("warmpool_handles_created_total", "", sum.handles_created);
    FAMILY_IS("warmpool_info", warm_runtime_driver(runtime), 1);
}

/* ---- histograms ---------------------------------------------------------- */

static void check_histogram(const warm_histogram *histogram,
                            const warm_duration *calls)
{
    uint64_t sum = 0;

    for (int i = 0; i < WARM_HISTOGRAM_BUCKETS; i++) {
        sum += histogram->bucket[i];
    }
    ck_assert_uint_eq(sum, histogram->count);
    ck_assert_uint_eq(histogram->count, calls->count);
    ck_assert_uint_eq(histogram->total_ns, calls->total_ns);
}

WT_TEST(test_G7_histograms_have_the_drivers_calls)
{
    warm_space_histograms pinned = WARM_INIT(warm_space_histograms);
    warm_space_histograms device = pinned, own = pinned, both = pinned;
    warm_device_stats of_device = WARM_INIT(warm_device_stats);
    warm_space_stats of_own = WARM_INIT(warm_space_stats), of_both = of_own;
    warm_space_stats of_pinned;
    json_t *json;

    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    of_pinned = wt_pinned_stats(runtime);
    wt_ok(warm_device_get_stats(runtime, 0, &of_device));
    wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_PRIVATE, &of_own));
    wt_ok(warm_shared_get_stats(runtime, 0, WARM_USAGE_SHARED, &of_both));
    wt_ok(warm_pinned_get_histograms(runtime, &pinned));
    wt_ok(warm_device_get_histograms(runtime, 0, &device));
    wt_ok(warm_shared_get_histograms(runtime, 0, WARM_USAGE_PRIVATE, &own));
    wt_ok(warm_shared_get_histograms(runtime, 0, WARM_USAGE_SHARED, &both));
    ck_assert_uint_ge(device.driver_free_time.count, 1);
    check_histogram(&pinned.driver_alloc_time, &of_pinned.driver_alloc);
    check_histogram(&device.driver_alloc_time, &of_device.driver_alloc);
    check_histogram(&device.driver_free_time, &of_device.driver_free);
    check_histogram(&own.driver_alloc_time, &of_own.driver_alloc);
    check_histogram(&both.driver_alloc_time, &of_both.driver_alloc);

    wt_ok(warm_stats_prometheus(runtime, text, sizeof text, NULL));
    FAMILY_IS("warmpool_driver_alloc_time_seconds_count", "",
              of_pinned.driver_alloc.count + of_device.driver_alloc.count +
                  of_own.driver_alloc.count + of_both.driver_alloc.count);
    FAMILY_IS("warmpool_driver_alloc_time_seconds_bucket", "le=\"+Inf\"",
              sum_of("warmpool_driver_alloc_time_seconds_count", ""));
    wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
    json = wt_json_read(text);
    ck_assert_uint_eq(wt_json_number(wt_json_at(
                          json, "pinned.histograms.driver_alloc_time.count")),
                      of_pinned.driver_alloc.count);
    json_decref(json);
}

WT_TEST(test_G7_reset_of_totals_empties_the_histograms)
{
    warm_space_histograms times = {.size = sizeof times + 8};

    wt_invalid(warm_pinned_get_histograms(runtime, &times));
    wt_invalid(warm_pinned_get_histograms(NULL, &times));
    wt_invalid(warm_device_get_histograms(runtime, -1, &times));
    wt_invalid(warm_shared_get_histograms(runtime, 0, (warm_usage)2, &times));
    times.size = sizeof times;
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_ge(times.driver_alloc_time.count, 1);
    wt_ok(warm_pinned_reset_totals(runtime));
    wt_ok(warm_pinned_get_histograms(runtime, &times));
    ck_assert_uint_eq(times.driver_alloc_time.count, 0);
    ck_assert_uint_eq(times.driver_alloc_time.total_ns, 0);
    wt_ok(warm_device_get_histograms(runtime, 0, &times));
    ck_assert_uint_ge(times.driver_alloc_time.count, 1);
    wt_ok(warm_device_reset_totals(runtime, 0));
    wt_ok(warm_device_get_histograms(runtime, 0, &times));
    ck_assert_uint_eq(times.driver_alloc_time.count, 0);
}

/* ---- the calls ----------------------------------------------------------- */

WT_TEST(test_G7_labels_are_escaped)
{
    static wt_toy toy; /* outlives the test: the runtime ends later */
    void *handle = NULL;

    wt_toy_init(&toy);
    wt_ok(warm_handle_reserve(runtime,
                              wt_toy_register(&toy, runtime, "a \"b\"\\\n\374"),
                              0, &handle));
    wt_ok(warm_stats_prometheus(runtime, text, sizeof text, NULL));
    wt_contains(text, "{kind=\"a \\\"b\\\"\\\\\\n\357\277\275\",device=\"0\"}");
    wt_ok(warm_handle_trim(runtime, 0, 0, 0, 0, NULL));
}

WT_TEST(test_G7_prometheus_without_memory_for_records_fails_and_leaks_nothing)
{
    int64_t before = wt_metadata_live();

    for (uint64_t n = 1;; n++) {
        warm_status status;

        warm_testing_fail_metadata(n, 0);
        status = warm_stats_prometheus(runtime, text, sizeof text, NULL);
        warm_testing_fail_metadata(0, 0);
        ck_assert_int_eq(wt_metadata_live(), before);
        if (status == WARM_OK) {
            ck_assert_uint_gt(n, 5);
            break;
        }
        ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
    }
}

/* ---- promtool ------------------------------------------------------------ */

/* The exit status of promtool with the text as its input; -1: there is none. */
static int promtool(void)
{
    char *const arguments[] = {(char[]){"promtool"}, (char[]){"check"},
                               (char[]){"metrics"}, NULL};
    posix_spawn_file_actions_t actions;
    FILE *file = tmpfile();
    int status = -1, error;
    pid_t child;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    rewind(file);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(file), 0);
    error =
        posix_spawnp(&child, "promtool", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == 0) {
        ck_assert_int_eq(waitpid(child, &status, 0), child);
    }
    fclose(file);
    return status;
}

WT_CASE("promtool", .setup = setup, .teardown = teardown, .tags = "programs");

WT_TEST(test_G7_promtool_accepts_the_text)
{
    int status;

    wt_ok(warm_stats_prometheus(runtime, text, sizeof text, NULL));
    status = promtool();
    if (status == -1) {
        puts("skip: promtool (Debian's package prometheus) is not here");
        return;
    }
    ck_assert_int_eq(status, 0);
}

/* ---- while threads run --------------------------------------------------- */

enum { THREADS = 3 };

static atomic_bool over;

typedef struct worker {
    pthread_t thread;
    uint64_t turns;
    warm_status bad;
} worker;

static void *work(void *argument)
{
    worker *w = argument;

    /* Relaxed: only says when to end. */
    while (!atomic_load_explicit(&over, memory_order_relaxed) &&
           w->bad == WARM_OK) {
        void *block = NULL, *other = NULL;

        w->bad = warm_pinned_alloc(runtime, 1000 + w->turns % 9000, &block);
        if (w->bad == WARM_OK) {
            w->bad =
                warm_shared_alloc(runtime, 0, 700, WARM_USAGE_SHARED, &other);
        }
        (void)warm_free(block);
        (void)warm_free(other);
        w->turns++;
    }
    return NULL;
}

WT_CASE("threads", .setup = setup, .teardown = teardown);

WT_TEST(test_G7_views_can_be_read_while_threads_run)
{
    static worker workers[THREADS];
    uint64_t turns = 0, rounds = wt_scaled(40), before = totals().requests;

    atomic_store(&over, false);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint64_t i = 0; i < rounds; i++) {
        warm_stats one = totals(), two = totals();

        ck_assert_uint_ge(two.requests, one.requests);
        ck_assert_uint_ge(one.needed_bytes, one.live_bytes);
        wt_ok(warm_stats_json(runtime, text, sizeof text, NULL));
        ck_assert(wt_json_is_valid(text));
        wt_ok(warm_stats_prometheus(runtime, text, sizeof text, NULL));
        FAMILY_IS("warmpool_node_held_bytes", "",
                  sum_of("warmpool_node_held_bytes", "space=\"pinned\""));
        ck_assert(sum_of("warmpool_live_allocated_blocks_total", "") >=
                  (double)two.requests);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        wt_ok(workers[i].bad);
        turns += workers[i].turns;
    }
    ck_assert_uint_eq(totals().requests, before + 2 * turns);
    ck_assert_uint_eq(totals().live, 5);
}
