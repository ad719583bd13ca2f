/* check_runtime.c: making and ending runtimes, options, log, default runtime,
 * devices, statistics as JSON, faults (rows A5, G2 to G4, G6, A14). */
#include "wt.h"

#include "warmpool/testing.h"
#include "wt_json.h"
#include "wt_kind.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
    unsigned lines[4];
    char last[4][512];
} logged;

static void log_line(void *context, warm_log_level level, const char *line)
{
    logged.lines[level]++;
    snprintf(logged.last[level], sizeof logged.last[level], "%s", line);
}

static void set_up(void)
{
    memset(&logged, 0, sizeof logged);
    warm_log_set(log_line, NULL);
}

static void tear_down(void)
{
    warm_log_set(NULL, NULL);
}

WT_CASE("runtime", .setup = set_up, .teardown = tear_down);

/* It is known for one release more. */
WT_TEST(test_G3_expandable_segments_have_no_effect_and_a_line_says_so)
{
    wt_runtime_end(wt_runtime_with(.expandable_segments = "off"));
    ck_assert_uint_eq(logged.lines[WARM_LOG_WARNING], 0);
    wt_runtime_end(wt_runtime_with(.expandable_segments = "on"));
    ck_assert_uint_eq(logged.lines[WARM_LOG_WARNING], 1);
    wt_contains(logged.last[WARM_LOG_WARNING], "expandable_segments",
                "no effect any more");
}

WT_TEST(test_G2_several_runtimes_live_at_once)
{
    warm_runtime *r[4];
    warm_stream s[4];
    warm_stream again = NULL;

    for (int i = 0; i < 4; i++) {
        r[i] = wt_runtime(NULL);
        wt_ok(warm_stream_reserve(r[i], 0, &s[i]));
    }
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_stream_reserve(r[i], 0, &again));
        ck_assert_ptr_eq(again, s[i]);
        ck_assert_int_eq(wt_stat(r[i], WARM_KIND_STREAM, 0, created), 1);
    }
    wt_runtime_end(r[1]);
    wt_runtime_end(r[0]);
    wt_ok(warm_stream_reserve(r[2], 0, &again));
    ck_assert_ptr_eq(again, s[2]);
    wt_fails(WARM_RUNTIME_GONE, warm_stream_reserve(r[1], 0, &again));
    wt_runtime_end(r[3]);
    wt_runtime_end(r[2]);
}

WT_TEST(test_A5_G2_a_gone_runtime_has_no_driver_and_is_destroyed_once)
{
    warm_runtime *r = wt_runtime(NULL);
    warm_destroy_report report = {.size = sizeof report, .handles = 77};

    ck_assert_str_eq(warm_runtime_driver(r), wt_on_host() ? "host" : "cuda");
    wt_runtime_end(r);
    ck_assert_str_eq(warm_runtime_driver(r), "gone");
    ck_assert_str_eq(warm_runtime_driver(NULL), "gone");
    wt_fails(WARM_RUNTIME_GONE, warm_runtime_destroy(r, &report));
    ck_assert_uint_eq(report.handles, 77);
}

struct holder {
    warm_runtime *runtime;
    pthread_barrier_t barrier;
    warm_status status;
};

static void *hold(void *argument)
{
    struct holder *h = argument;
    warm_stream stream = NULL;

    h->status = warm_stream_reserve(h->runtime, 0, &stream);
    pthread_barrier_wait(&h->barrier);
    pthread_barrier_wait(&h->barrier);
    return NULL;
}

WT_TEST(test_G2_what_is_in_use_is_reported_and_left_alone)
{
    struct holder h = {.runtime = wt_runtime(NULL)};
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_stream mine = NULL;
    void *block;
    pthread_t thread;

    pthread_barrier_init(&h.barrier, NULL, 2);
    pthread_create(&thread, NULL, hold, &h);
    pthread_barrier_wait(&h.barrier);
    /* The caller's own handles are given back, not reported. */
    wt_ok(warm_stream_reserve(h.runtime, 0, &mine));
    block = wt_pinned(h.runtime, 5000);
    wt_ok(warm_runtime_destroy(h.runtime, &report));
    ck_assert_uint_eq(report.handles, 1);
    ck_assert_uint_eq(report.live, 1);
    ck_assert_uint_ge(report.live_bytes, 5000);
    ck_assert_uint_eq(logged.lines[WARM_LOG_WARNING], 1);
    memset(block, 1, 5000); /* still there */
    pthread_barrier_wait(&h.barrier);
    pthread_join(thread, NULL);
    wt_ok(h.status);
    pthread_barrier_destroy(&h.barrier);
}

WT_TEST(test_G2_destroy_checks_its_arguments)
{
    warm_runtime *r = wt_runtime(NULL);
    warm_destroy_report report = {.size = 0};

    wt_ok(warm_runtime_destroy(NULL, NULL));
    wt_invalid(warm_runtime_destroy(r, &report));
    report.size = offsetof(warm_destroy_report, live);
    report.live = 77; /* an older program's struct ends before */
    wt_ok(warm_runtime_destroy(r, &report));
    ck_assert_uint_eq(report.live, 77);
    wt_invalid(warm_runtime_create(NULL, NULL));
}

static void get_default(void *argument, unsigned index)
{
    warm_runtime **seen = argument;

    (void)warm_runtime_default(&seen[index]);
}

WT_TEST(test_G2_one_default_runtime_for_all_threads)
{
    warm_runtime *seen[8] = {NULL};
    warm_runtime *next = NULL;

    setenv("WARMPOOL_CONF", wt_on_host() ? "device:host" : "device:cuda", 1);
    wt_threads(8, get_default, seen);
    ck_assert_ptr_nonnull(seen[0]);
    for (int i = 1; i < 8; i++) {
        ck_assert_ptr_eq(seen[i], seen[0]);
    }
    wt_ok(warm_runtime_destroy(seen[0], NULL));
    wt_ok(warm_runtime_default(&next));
    ck_assert_ptr_ne(next, seen[0]);
    ck_assert_str_ne(warm_runtime_driver(next), "gone");
    wt_invalid(warm_runtime_default(NULL));
    wt_runtime_end(next);
    setenv("WARMPOOL_CONF", "device:none", 1);
    wt_fails(WARM_INVALID_OPTION, warm_runtime_default(&next));
    setenv("WARMPOOL_CONF", "device:host", 1); /* it can be tried again */
    wt_ok(warm_runtime_default(&next));
    wt_runtime_end(next);
}

WT_TEST(test_G3_device_can_be_forced_and_is_never_silent)
{
    warm_options options = {.size = sizeof options, .log = "info"};
    warm_runtime *r = NULL;

    options.device = "host";
    wt_ok(warm_runtime_create(&options, &r));
    ck_assert_str_eq(warm_runtime_driver(r), "host");
    ck_assert_uint_eq(logged.lines[WARM_LOG_WARNING], 0);
    wt_contains(logged.last[WARM_LOG_INFO], "host");
    wt_runtime_end(r);
}

/* A path that is no CUDA runtime: the same reason on every machine. */
WT_TEST(test_G3_without_cuda_auto_warns_once_and_takes_the_host)
{
    warm_options options = {.size = sizeof options,
                            .device = "auto",
                            .libraries = "cudart=/nonexistent/libcudart.so"};
    warm_runtime *r = NULL;

    wt_invalid(warm_device_count(NULL, NULL));
    wt_ok(warm_runtime_create(&options, &r));
    /* It has worked: the last error is what it was. */
    ck_assert_ptr_null(strstr(warm_last_error_message(), "nonexistent"));
    ck_assert_str_eq(warm_runtime_driver(r), "host");
    ck_assert_uint_eq(logged.lines[WARM_LOG_WARNING], 1);
    ck_assert_int_gt((int)strlen(logged.last[WARM_LOG_WARNING]), 50);
    wt_runtime_end(r);
    options.device = "cuda";
    r = NULL;
    ck_assert_int_ne(warm_runtime_create(&options, &r), WARM_OK);
    ck_assert_ptr_null(r);
    ck_assert_int_gt((int)strlen(warm_last_error_message()), 10);
}

/* Without a callback the first warning is printed, and nothing else but that
 * CUDA is not used, which is no mistake of the program's. */
WT_TEST(test_G3_G6_only_the_first_warning_is_printed)
{
    warm_options options = {.size = sizeof options,
                            .libraries = "cudart=/nonexistent/libcudart.so",
                            .log = "debug"};
    FILE *file = tmpfile();
    char text[2048] = "";
    const char *first, *second;
    void *block = NULL;
    int error = dup(STDERR_FILENO);

    ck_assert_ptr_nonnull(file);
    warm_log_set(NULL, NULL);
    ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
    for (int i = 0; i < 3; i++) {
        warm_runtime *r = NULL;

        if (warm_runtime_create(&options, &r) == WARM_OK) {
            (void)warm_pinned_alloc(r, 5000, &block);
            (void)warm_runtime_destroy(r, NULL);
        }
    }
    dup2(error, STDERR_FILENO);
    close(error);
    rewind(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    fclose(file);
    first = strstr(text, "warmpool: warning: CUDA is not used");
    ck_assert_msg(first == text, "%s", text);
    second = strchr(text, '\n');
    ck_assert_ptr_nonnull(second);
    second++;
    ck_assert_msg(strncmp(second,
                          "warmpool: warning: a runtime was destroyed with 0 "
                          "handles and 1 block (",
                          69) == 0,
                  "%s", second);
    second = strchr(second, '\n');
    ck_assert_ptr_nonnull(second);
    ck_assert_str_eq(second + 1, "");
}

WT_TEST(test_G4_options_from_struct_and_environment)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_runtime *r = NULL;
    int count = 0;

    setenv("WARMPOOL_CONF", "host_devices:3,log:info", 1);
    wt_ok(warm_runtime_create(&options, &r));
    wt_ok(warm_device_count(r, &count));
    ck_assert_int_eq(count, 3);
    ck_assert_uint_gt(logged.lines[WARM_LOG_INFO], 0);
    wt_runtime_end(r);
    options.host_devices = 2;
    wt_ok(warm_runtime_create(&options, &r));
    wt_ok(warm_device_count(r, &count));
    ck_assert_int_eq(count, 2);
    wt_runtime_end(r);
    r = NULL;
    setenv("WARMPOOL_CONF", "colour:red", 1);
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &r));
    ck_assert_ptr_null(r);
    wt_says("colour", "host_devices");
    unsetenv("WARMPOOL_CONF");
    options.log = "loud";
    wt_fails(WARM_INVALID_OPTION, warm_runtime_create(&options, &r));
    options.log = NULL;
    options.size = 4;
    wt_invalid(warm_runtime_create(&options, &r));
}

WT_LOOP_TEST(test_G6_log_level_is_obeyed, 4)
{
    static const struct {
        const char *level;
        bool infos;
    } rows[] = {
        {"none", false}, {"warning", false}, {"info", true}, {"debug", true}};
    warm_options options = {
        .size = sizeof options, .device = "host", .log = rows[_i].level};
    warm_runtime *r = NULL;

    wt_ok(warm_runtime_create(&options, &r));
    ck_assert_int_eq(logged.lines[WARM_LOG_INFO] > 0, rows[_i].infos);
    wt_runtime_end(r);
}

WT_TEST(test_G6_last_error_has_code_and_text_of_the_driver)
{
    warm_runtime *r = wt_runtime(NULL);
    warm_error error = WARM_INIT(warm_error);
    warm_stream stream = NULL;

    wt_ok(warm_testing_fail(r, "stream_create", 1, 0));
    wt_fails(WARM_DRIVER_ERROR, warm_stream_reserve(r, 0, &stream));
    ck_assert_ptr_null(stream);
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_DRIVER_ERROR);
    ck_assert_int_eq(error.code, -1);
    ck_assert_str_eq(error.code_text, "injected fault");
    ck_assert_str_eq(error.origin, warm_runtime_driver(r));
    ck_assert_int_eq(wt_stat(r, WARM_KIND_STREAM, 0, failed), 1);
    wt_ok(warm_stream_reserve(r, 0, &stream)); /* keeps the last error */
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_DRIVER_ERROR);
    wt_runtime_end(r);
}

WT_TEST(test_G6_T2_destroy_leaves_the_last_error_whatever_fails)
{
    const char *call;

    for (int i = 0; (call = warm_testing_call_name(i)) != NULL; i++) {
        warm_runtime *runtime = wt_runtime(NULL);
        warm_error error = WARM_INIT(warm_error);

        wt_free(wt_pinned(runtime, 5000), wt_device(runtime, NULL, 70000));
        wt_fails(WARM_NOT_FOUND, warm_record_stream(&error, NULL));
        wt_ok(warm_testing_fail(runtime, call, 1, 1));
        wt_ok(warm_runtime_destroy(runtime, NULL));
        warm_last_error(&error);
        wt_require(error.status == WARM_NOT_FOUND, "%s: %s", call,
                   error.message);
    }
}

WT_TEST(test_G6_unknown_driver_call_is_named)
{
    warm_runtime *r = wt_runtime(NULL);
    uint64_t count = 7;

    wt_invalid(warm_testing_fail(r, "coffee", 1, 0));
    wt_says("coffee", "warm_testing_call_name()");
    for (int i = 0; warm_testing_call_name(i) != NULL; i++) {
        count = wt_calls(r, warm_testing_call_name(i));
    }
    count = 7;
    wt_invalid(warm_testing_calls(r, NULL, &count));
    wt_invalid(warm_testing_calls(r, "copy", NULL));
    ck_assert_uint_eq(count, 7);
    ck_assert_ptr_null(warm_testing_call_name(-1));
    ck_assert_ptr_null(warm_testing_call_name(1000));
    wt_runtime_end(r);
}

WT_TEST(test_G3_a_device_has_a_name_and_null_may_be_destroyed)
{
    warm_runtime *r = wt_runtime(NULL);
    warm_device_info info = WARM_INIT(warm_device_info);
    void *pointer = &info;

    wt_ok(warm_device_get_info(r, 0, &info));
    ck_assert_int_gt((int)strlen(info.name), 0);
    ck_assert_uint_gt(info.total_bytes, 0);
    ck_assert_uint_eq(info.size, sizeof info);
    wt_ok(warm_device_alloc_uncached(r, 0, 0, &pointer));
    ck_assert_ptr_null(pointer);
    wt_ok(warm_device_free_uncached(r, 0, NULL));
    wt_ok(warm_event_destroy(r, NULL));
    wt_ok(warm_graph_destroy(r, NULL));
    wt_runtime_end(r);
}

static void set_flag(void *argument)
{
    *(atomic_int *)argument = 1;
}

WT_TEST(test_G3_streams_events_and_graphs_work_through_the_runtime)
{
    warm_runtime *r = wt_runtime(NULL);
    warm_event event = NULL;
    warm_graph graph = NULL;
    atomic_int flag = 0;
    warm_stream stream = wt_stream(r, 0);
    warm_stream other = wt_stream(r, 0);

    wt_ok(warm_event_create(r, 0, &event));
    wt_ok(warm_event_query(r, event));
    wt_ok(warm_stream_host_func(r, stream, set_flag, &flag));
    wt_ok(warm_event_record(r, event, stream));
    wt_ok(warm_stream_wait_event(r, other, event));
    wt_ok(warm_stream_synchronize(r, other));
    ck_assert_int_eq(flag, 1);
    wt_ok(warm_event_synchronize(r, event));
    wt_ok(warm_stream_synchronize(r, stream));
    wt_ok(warm_stream_query(r, stream));
    flag = 0;
    wt_ok(warm_capture_begin(r, stream));
    wt_ok(warm_stream_host_func(r, stream, set_flag, &flag));
    wt_ok(warm_capture_end(r, stream, &graph));
    ck_assert_int_eq(flag, 0);
    wt_ok(warm_graph_launch(r, graph, other));
    wt_ok(warm_stream_synchronize(r, other));
    ck_assert_int_eq(flag, 1);
    wt_ok(warm_graph_destroy(r, graph));
    wt_ok(warm_event_destroy(r, event));
    wt_ok(warm_stream_destroy(r, stream));
    wt_ok(warm_stream_destroy(r, other));
    wt_runtime_end(r);
}

WT_TEST(test_G3_held_streams_can_be_stepped)
{
    warm_runtime *r = wt_runtime(NULL);
    atomic_int flag = 0;
    warm_stream stream = wt_stream(r, 0);

    if (!wt_on_host()) {
        wt_fails(WARM_UNSUPPORTED, warm_testing_hold(r, stream));
    } else {
        wt_ok(warm_testing_hold(r, stream));
        wt_ok(warm_stream_host_func(r, stream, set_flag, &flag));
        wt_ok(warm_testing_step(r, stream, 0));
        wt_fails(WARM_NOT_READY, warm_stream_query(r, stream));
        wt_ok(warm_testing_step(r, stream, UINT_MAX));
        ck_assert_int_eq(flag, 1);
        wt_ok(warm_testing_resume(r, stream));
    }
    wt_ok(warm_stream_destroy(r, stream));
    wt_runtime_end(r);
}

WT_TEST(test_A14_B14_statistics_are_valid_json)
{
    static char text[1 << 16], part[64];
    warm_runtime *r = wt_runtime(NULL);
    void *handle = NULL, *block = NULL;
    wt_toy toy;
    warm_kind kind;
    size_t needed = 0;

    wt_toy_init(&toy);
    kind = wt_toy_register(&toy, r, "a \"toy\"\\\n");
    wt_ok(warm_handle_reserve(r, kind, 0, &handle));
    block = wt_pinned(r, 10000);
    wt_ok(warm_stats_json(r, text, sizeof text, &needed));
    ck_assert_uint_eq(needed, strlen(text) + 1);
    ck_assert_msg(wt_json_is_valid(text), "not JSON: %s", text);
    wt_contains(text, "a \\\"toy\\\"\\\\\\u000a", "\"in_use\":1",
                "\"live\":{\"current\":1", "\"held_bytes\":{",
                warm_runtime_driver(r));
    wt_ok(warm_stats_json(r, NULL, 0, &needed));
    ck_assert_uint_eq(needed, strlen(text) + 1);
    wt_fails(WARM_TRUNCATED, warm_stats_json(r, part, sizeof part, &needed));
    ck_assert_uint_eq(strlen(part), sizeof part - 1);
    ck_assert_int_eq(strncmp(part, text, sizeof part - 1), 0);
    wt_invalid(warm_stats_json(r, NULL, 8, &needed));
    wt_ok(warm_free(block));
    wt_runtime_end(r);
}

static const struct {
    const char *name, *shown;
} odd_names[] = {
    {"gr\303\274n \360\237\216\250", "\"gr\303\274n \360\237\216\250\""},
    {"gr\374n", "\"gr\\ufffdn\""}, /* Latin-1 */
    {"a\302", "\"a\\ufffd\""},     /* ends within a character */
    {"\360\237\216", "\"\\ufffd\\ufffd\\ufffd\""},
    {"\300\257", "\"\\ufffd\\ufffd\""},              /* '/' in two bytes */
    {"\355\240\200x", "\"\\ufffd\\ufffd\\ufffdx\""}, /* a surrogate */
    {"\364\220\200\200", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
    {"\1\t\177", "\"\\u0001\\u0009\177\""},
};

WT_LOOP_TEST(test_A14_json_is_utf8_whatever_a_kind_is_called,
             sizeof odd_names / sizeof odd_names[0])
{
    static char text[1 << 16];
    warm_runtime *r = wt_runtime(NULL);
    wt_toy toy;
    void *handle = NULL;

    wt_toy_init(&toy);
    wt_ok(warm_handle_reserve(r, wt_toy_register(&toy, r, odd_names[_i].name),
                              0, &handle));
    wt_ok(warm_stats_json(r, text, sizeof text, NULL));
    ck_assert_msg(wt_json_is_valid(text), "not JSON: %s", text);
    ck_assert_msg(strstr(text, odd_names[_i].shown) != NULL, "%s", text);
    wt_runtime_end(r);
}

/* ---- a thread that is cancelled while it waits --------------------------- */

enum { WAIT_BYTES = 8 << 20 };

/* Whatever a call may wait for: a stream's work, a handle and memory that are
 * being made in the background. */
static struct {
    warm_runtime *runtime, *other;
    warm_stream stream;
    warm_event event;
    wt_toy toy;
    wt_gate *gate;
    wt_door door;
    warm_staging *ring;
    warm_private_pool tag;
    void *buffer, *adopted, *block, *uncached, *weights;
    warm_status (*call)(void);
    atomic_bool begun, ended, cancelled;
    warm_status status;
} w;

static int wait_for_the_door(void *context, size_t ready, size_t total)
{
    wt_door_run(&w.door);
    return 0;
}

static void make_pausable(void)
{
    wt_ok(warm_private_pool_begin(
        w.runtime, &w.tag, WARM_POOL_USER | WARM_POOL_PAUSABLE, NULL, NULL));
    wt_ok(warm_device_alloc(w.runtime, 0, w.stream, 65536, &w.weights));
    wt_ok(warm_private_pool_end(w.runtime, w.tag));
}

static void make_waits(void)
{
    const warm_prewarm_options options = {.size = sizeof options,
                                          .progress = wait_for_the_door};
    const warm_staging_options slices = {
        .size = sizeof slices, .slice_bytes = 4096, .slices = 2};
    static char from[8192];

    wt_toy_init(&w.toy);
    w.door = (wt_door)WT_DOOR_INIT;
    w.runtime = wt_runtime_with(.limit_wait_ms = 60000, .log = "debug");
    w.other = wt_runtime_with(.log = "debug");
    w.stream = wt_stream(w.runtime, 0);
    w.block = wt_pinned(w.runtime, WAIT_BYTES);
    w.adopted = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wt_ok(warm_pinned_adopt(w.runtime, w.adopted, 65536, 0));
    wt_ok(warm_event_create(w.runtime, 0, &w.event));
    wt_ok(warm_staging_create(w.runtime, 0, &slices, &w.ring));
    wt_ok(warm_shared_alloc(w.runtime, 0, 4096, WARM_USAGE_SHARED, &w.buffer));
    wt_ok(warm_device_alloc_uncached(w.runtime, 0, 65536, &w.uncached));
    make_pausable();
    w.gate = wt_gate_hold(w.runtime, w.stream);
    wt_ok(warm_staging_copy(w.ring, w.uncached, from, sizeof from,
                            WARM_COPY_TO_DEVICE, w.stream, 0));
    wt_ok(warm_shared_record(w.runtime, &w.buffer, 1, w.stream, NULL));
    wt_ok(warm_record_stream(w.adopted, w.stream));
    wt_ok(warm_event_record(w.runtime, w.event, w.stream));
    wt_ok(warm_watermarks_set(w.runtime, WARM_MEMORY_OF_HOST,
                              wt_pinned_stats(w.runtime).held_bytes.current,
                              0));
    wt_free_used(w.block, w.stream);
    wt_toy_close_gate(&w.toy);
    wt_ok(warm_handle_prewarm(w.other, wt_toy_register(&w.toy, w.other, "toy"),
                              0, 1, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&w.toy, 1);
    wt_ok(warm_pinned_prewarm_with(w.other, WAIT_BYTES, 0,
                                   WARM_PREWARM_BACKGROUND, &options));
    wt_door_wait_entered(&w.door);
}

static warm_status wait_for_stream(void)
{
    return warm_stream_synchronize(w.runtime, w.stream);
}

static warm_status wait_for_event(void)
{
    return warm_event_synchronize(w.runtime, w.event);
}

static warm_status wait_for_buffer(void)
{
    return warm_shared_wait(w.runtime, &w.buffer, 1, NULL);
}

static warm_status wait_for_slice(void)
{
    static char from[1];

    return warm_staging_copy(w.ring, w.uncached, from, 1, WARM_COPY_TO_DEVICE,
                             w.stream, 0);
}

static warm_status wait_for_ring(void)
{
    return warm_staging_finish(w.ring);
}

static warm_status wait_to_end_ring(void)
{
    warm_status status = warm_staging_destroy(w.ring);

    w.ring = NULL;
    return status;
}

static warm_status wait_to_end_adoption(void)
{
    return warm_pinned_adopt_end(w.runtime, w.adopted, NULL, NULL);
}

static warm_status wait_at_limit(void)
{
    void *block = NULL;
    warm_status status = warm_pinned_alloc(w.runtime, WAIT_BYTES, &block);

    return status != WARM_OK ? status : warm_free(block);
}

static warm_status wait_to_trim(void)
{
    return warm_trim(w.runtime, 0, NULL);
}

static warm_status wait_for_device(void)
{
    warm_status status = warm_device_free_uncached(w.runtime, 0, w.uncached);

    w.uncached = NULL;
    return status;
}

static warm_status wait_to_pause(void)
{
    warm_status status = warm_memory_pause(w.runtime, w.tag, 0);

    return status != WARM_OK ? status : warm_memory_resume(w.runtime, w.tag);
}

static warm_status wait_for_handles(void)
{
    return warm_handle_prewarm_wait(w.other);
}

static warm_status wait_for_memory(void)
{
    return warm_pinned_prewarm_wait(w.other);
}

static warm_status wait_to_destroy(void)
{
    warm_status status = warm_runtime_destroy(w.other, NULL);

    w.other = NULL;
    return status;
}

static warm_status (*const waits[])(void) = {
    wait_for_stream, wait_for_event,   wait_for_buffer,      wait_for_slice,
    wait_for_ring,   wait_to_end_ring, wait_to_end_adoption, wait_at_limit,
    wait_to_trim,    wait_for_device,  wait_for_handles,     wait_for_memory,
    wait_to_destroy, wait_to_pause};

static void cancel_log(void *context, warm_log_level level, const char *line)
{
    pthread_testcancel();
}

static void *wait_here(void *argument)
{
    w.begun = true;
    w.status = w.call();
    w.ended = true;
    while (!w.cancelled) {
        sched_yield();
    }
    pthread_testcancel();
    return NULL;
}

static void end_waits(void)
{
    wt_ok(warm_watermarks_set(w.runtime, WARM_MEMORY_OF_HOST, 0, 0));
    wt_ok(warm_stream_synchronize(w.runtime, w.stream));
    if (w.ring != NULL) {
        wt_ok(warm_staging_destroy(w.ring));
    }
    if (w.uncached != NULL) {
        wt_ok(warm_device_free_uncached(w.runtime, 0, w.uncached));
    }
    if (w.call != wait_to_end_adoption) {
        wt_ok(wait_to_end_adoption());
    }
    munmap(w.adopted, 65536);
    wt_free(w.weights);
    wt_ok(warm_private_pool_release(w.runtime, w.tag));
    wt_free(w.buffer);
    wt_ok(warm_event_destroy(w.runtime, w.event));
    wt_ok(warm_testing_check(w.runtime, 1));
    wt_runtime_end(w.runtime);
    if (w.other != NULL) {
        wt_ok(warm_testing_check(w.other, 1));
        wt_runtime_end(w.other);
    }
    wt_toy_end(&w.toy);
}

/* The call ends as if nobody had cancelled its thread, and only then. Which
 * calls wait for a device when they return memory depends on the driver. */
WT_LOOP_TEST(test_A4_G6_T3_a_thread_is_not_cancelled_while_it_waits_in_a_call,
             sizeof waits / sizeof waits[0])
{
    wt_linger linger = {0};
    pthread_t thread;
    void *result = NULL;

    memset(&w, 0, sizeof w);
    warm_log_set(cancel_log, NULL);
    make_waits();
    w.call = waits[_i];
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_here, NULL), 0);
    while (!w.begun || wt_lingers(&linger)) {
    }
    pthread_cancel(thread);
    w.cancelled = true;
    for (linger = (wt_linger){0}; wt_lingers(&linger);) {
    }
    if (w.call != wait_to_trim && w.call != wait_for_device) {
        ck_assert(!w.ended);
    }
    wt_gate_open(w.gate);
    wt_toy_open_gate(&w.toy);
    wt_door_open(&w.door);
    pthread_join(thread, &result);
    ck_assert(w.ended && result == PTHREAD_CANCELED);
    wt_ok(w.status);
    end_waits();
}

int main(void)
{
    unsetenv("WARMPOOL_CONF");
    return wt_run();
}

/* What a program, or a person who looks into it, reads of the options. */
WT_TEST(test_G4_G8_options_in_force_are_read_back)
{
    warm_runtime *r = wt_runtime_with(.segment = 8 << 20, .limit_wait_ms = 7);
    char text[4096], small[16];
    size_t needed = 0;

    wt_ok(warm_runtime_options(r, text, sizeof text, &needed));
    ck_assert_uint_eq(needed, strlen(text) + 1);
    wt_contains(text, "\nsegment:8388608\n", "\nlimit_wait_ms:7\n",
                "\nslack:15\n", "\nlibraries:\n");
    wt_fails(WARM_TRUNCATED,
             warm_runtime_options(r, small, sizeof small, NULL));
    ck_assert_int_eq(strncmp(small, text, sizeof small - 1), 0);
    wt_ok(warm_runtime_options(r, NULL, 0, &needed));
    wt_invalid(warm_runtime_options(r, NULL, 5, NULL));
    wt_runtime_end(r);
    wt_fails(WARM_RUNTIME_GONE,
             warm_runtime_options(r, text, sizeof text, NULL));
}
