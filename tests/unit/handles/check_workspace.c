/* check_workspace.c: workspaces of handles before, in and after captures (row
 * A10), with a kind whose handles say what they were bound to last.
 *
 * backends: host standin */
#include "wt.h"

#include "handles/kind_table.h"
#include "runtime/runtime.h"
#include "tests/unit/handles/bound_kind.h"
#include "wt_kind.h"

#include <stdio.h>
#include <string.h>

static warm_runtime *runtime;
static warm_kind kind;
static warm_stream a; /* captures */
static char said[512];
static unsigned times_said;

static void hear(void *context, warm_log_level level, const char *line)
{
    (void)context;
    if (level == WARM_LOG_WARNING && strstr(line, "is leaked") != NULL) {
        snprintf(said, sizeof said, "%s", line);
        times_said++;
    }
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(wm_kind_table_add(runtime->kinds, &bound_ops, NULL, &kind));
    wt_ok(warm_stream_create(runtime, 0, &a));
    times_said = 0;
    warm_log_set(hear, NULL);
}

static void teardown(void)
{
    wt_ok(warm_stream_destroy(runtime, a));
    ck_assert(wm_kind_table_check(runtime->kinds));
    wt_runtime_end(runtime);
    warm_log_set(NULL, NULL);
}

/* What the thread's handle works with after it was reserved for the stream. */
static void *bind_to(warm_stream stream)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
    return last.workspace;
}

static void bind_in_thread(void *argument, unsigned index)
{
    void *handle = NULL;
    void **streams_then_memory = argument;

    last.workspace = NULL;
    if (warm_handle_reserve_on(runtime, kind, 0, streams_then_memory[index],
                               &handle) == WARM_OK) {
        streams_then_memory[index] = last.workspace;
    }
}

static long workspaces(void)
{
    return wt_stat(runtime, kind, 0, workspaces);
}

/* Captures that the program begins and ends itself. */
static void begin_past(void)
{
    wt_ok(wm_driver_capture_begin(runtime->driver, a));
}

static void end_past(void)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_end(runtime->driver, a, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

static void capture(void)
{
    wt_ok(warm_capture_begin(runtime, a));
}

static void end_capture(void)
{
    warm_graph graph = NULL;

    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

WT_CASE("captures", .setup = setup, .teardown = teardown);

/* A graph and eager work never use one workspace, whoever began and ended the
 * capture, and whether that was announced. */
WT_LOOP_TEST(test_A10_binding_of_a_capture_ends_with_it, 3)
{
    bool announced = _i == 1;
    warm_private_pool pool = {0};
    void *of_graph;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    if (announced) {
        wt_ok(warm_capture_announce(runtime, a));
    }
    _i == 2 ? capture() : begin_past();
    of_graph = bind_to(a);
    ck_assert_ptr_nonnull(of_graph);
    ck_assert_ptr_eq(bind_to(a), of_graph);
    _i == 2 ? end_capture() : end_past();
    if (announced) {
        wt_ok(warm_capture_announce_end(runtime, a));
    }
    ck_assert_ptr_ne(bind_to(a), of_graph);
    ck_assert_ptr_nonnull(last.workspace);
    ck_assert_int_eq(workspaces(), 2);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_ptr_ne(bind_to(a), of_graph);
    wt_ok(warm_private_pool_release(runtime, pool));
    ck_assert_int_eq(workspaces(), 1);
}

/* The handle was bound before the capture, and used in it as it was: whatever
 * comes, the graph alone has that workspace. */
WT_LOOP_TEST(test_A10_workspace_bound_before_a_capture_may_be_the_graphs, 3)
{
    enum { MORE = 4 + 1 };
    warm_stream s[MORE + 1];
    void *of_other[1], *of_graph = bind_to(a);

    for (int i = 0; i <= MORE; i++) {
        wt_ok(warm_stream_create(runtime, 0, &s[i]));
    }
    if (_i == 0) {
        capture();
        end_capture();
    } else {
        wt_ok(warm_capture_announce(runtime, a));
        if (_i == 2) { /* looked at once more, before the capture */
            ck_assert_ptr_eq(bind_to(a), of_graph);
            ck_assert_int_eq(workspaces(), 1);
        }
        begin_past();
        end_past();
        wt_ok(warm_capture_announce_end(runtime, a));
    }
    ck_assert_ptr_ne(bind_to(a), of_graph);
    for (int i = 0; i < MORE; i++) {
        ck_assert_ptr_ne(bind_to(s[i]), of_graph);
    }
    of_other[0] = s[MORE];
    wt_threads(1, bind_in_thread, of_other);
    ck_assert_ptr_ne(of_other[0], of_graph);
    for (int i = 0; i <= MORE; i++) {
        wt_ok(warm_stream_destroy(runtime, s[i]));
    }
    ck_assert_uint_eq(times_said, 0);
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(workspaces(), 1);
    ck_assert_uint_eq(times_said, 1);
    ck_assert_ptr_nonnull(strstr(said, "64.0 KiB"));
    ck_assert_ptr_nonnull(strstr(said, "warm_private_pool_begin()"));
}

/* Reserved again in the capture and after it: captures cost no workspace. */
WT_LOOP_TEST(test_A10_captures_take_no_workspace_of_a_handle_bound_again, 2)
{
    warm_private_pool pool = {0};
    void *eager = bind_to(a);

    for (int i = 0; i < 8; i++) {
        if (_i == 1) {
            wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
        }
        capture();
        ck_assert_ptr_ne(bind_to(a), eager);
        ck_assert(_i == 1 ||
                  last.workspace == NULL); /* else the library's own */
        end_capture();
        if (_i == 1) {
            wt_ok(warm_private_pool_end(runtime, pool));
        }
        ck_assert_ptr_eq(bind_to(a), eager);
        ck_assert_int_eq(workspaces(), 1 + _i);
    }
    for (int i = 0; i < 8 * _i; i++) {
        wt_ok(warm_private_pool_release(runtime, pool));
    }
    ck_assert_int_eq(workspaces(), 1);
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(workspaces(), 0);
    ck_assert_uint_eq(times_said, 0);
}

/* It has used nothing. */
WT_TEST(test_A10_capture_that_does_not_begin_takes_no_workspace)
{
    void *eager = bind_to(a);

    wt_ok(warm_testing_fail(runtime, "capture_begin", 1, 0));
    ck_assert_int_ne(warm_capture_begin(runtime, a), WARM_OK);
    wt_ok(warm_testing_fail(runtime, "capture_begin", 0, 0));
    ck_assert_ptr_eq(bind_to(a), eager);
    ck_assert_int_eq(workspaces(), 1);
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(workspaces(), 0);
}

/* A handle whose last binding is a pool's workspace may be in use with it. */
WT_LOOP_TEST(test_A10_A13_workspace_stays_as_long_as_its_handle_is_bound_to_it,
             2)
{
    warm_private_pool pool = {0};
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    capture();
    if (_i == 0) {
        wt_ok(warm_handle_lease_on(runtime, kind, 0, a, &lease, &handle));
    } else {
        (void)bind_to(a);
    }
    end_capture();
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(workspaces(), 1);
    if (_i == 0) {
        wt_ok(warm_handle_return(runtime, lease));
    } else {
        wt_ok(warm_thread_release(runtime));
    }
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(workspaces(), 0);
}

static wm_driver_ops looking_ops;
static const wm_driver_ops *true_ops;
static uint64_t epoch_at_free;

static warm_status look_and_free(wm_driver *d, int device, void *pointer)
{
    epoch_at_free = atomic_load(&runtime->stream_epoch);
    return true_ops->device_free(d, device, pointer);
}

/* A thread that binds meanwhile has none of the pool's, and stays bound. */
WT_TEST(test_A10_E3_bindings_end_before_a_pools_workspaces_go)
{
    warm_private_pool pool = {0};
    uint64_t epoch;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    capture();
    (void)bind_to(a);
    end_capture();
    (void)bind_to(a);
    wt_ok(warm_private_pool_end(runtime, pool));
    true_ops = runtime->driver->ops;
    looking_ops = *true_ops;
    looking_ops.device_free = look_and_free;
    runtime->driver->ops = &looking_ops;
    epoch = atomic_load(&runtime->stream_epoch);
    wt_ok(warm_private_pool_release(runtime, pool));
    runtime->driver->ops = true_ops;
    ck_assert_int_eq(workspaces(), 1);
    ck_assert_uint_gt(epoch_at_free, epoch);
}

static const void *of_graph;
static unsigned freed_of_graph;

static warm_status count_free(wm_driver *d, int device, void *pointer)
{
    freed_of_graph += pointer == of_graph;
    return true_ops->device_free(d, device, pointer);
}

WT_TEST(test_A10_G2_workspace_of_a_pool_stays_when_the_runtime_ends)
{
    warm_destroy_report report = WARM_INIT(warm_destroy_report);
    warm_private_pool pool = {0};
    warm_runtime *kept = runtime;
    warm_stream kept_stream = a;

    runtime = wt_runtime(NULL);
    wt_ok(wm_kind_table_add(runtime->kinds, &bound_ops, NULL, &kind));
    wt_ok(warm_stream_create(runtime, 0, &a));
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    capture();
    of_graph = bind_to(a);
    end_capture();
    ck_assert_ptr_ne(bind_to(a), of_graph);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_stream_destroy(runtime, a));
    true_ops = runtime->driver->ops;
    looking_ops = *true_ops;
    looking_ops.device_free = count_free;
    runtime->driver->ops = &looking_ops;
    freed_of_graph = 0;
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(freed_of_graph, 0);
    ck_assert_uint_eq(report.pools, 1);
    ck_assert_uint_gt(report.pool_bytes, 0);
    ck_assert_uint_eq(report.captured, 0);
    runtime = kept;
    a = kept_stream;
}

static void (*true_over)(warm_runtime *of, uint64_t pool, bool later);
static warm_stream announced;

/* The last capture ends after the pool's end found it under way, and before the
 * workspaces know of that end. */
static void end_then_over(warm_runtime *of, uint64_t pool, bool later)
{
    if (pool != 0) {
        (void)warm_capture_announce_end(of, announced);
    }
    true_over(of, pool, later);
}

WT_TEST(test_A10_E3_workspace_goes_if_captures_end_while_its_pool_does)
{
    warm_private_pool pool = {0};

    wt_ok(warm_stream_create(runtime, 0, &announced));
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    capture();
    (void)bind_to(a);
    end_capture();
    (void)bind_to(a);
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_int_eq(workspaces(), 2);
    wt_ok(warm_capture_announce(runtime, announced));
    true_over = runtime->pool_over;
    runtime->pool_over = end_then_over;
    wt_ok(warm_private_pool_release(runtime, pool));
    runtime->pool_over = true_over;
    ck_assert_int_eq(workspaces(), 1);
    wt_invalid(warm_capture_announce_end(runtime, announced));
    wt_ok(warm_stream_destroy(runtime, announced));
}

/* Without it such calls would break the capture. */
WT_LOOP_TEST(test_A10_B7_nothing_is_obtained_where_relaxed_mode_is_refused, 2)
{
    warm_private_pool pool = {0};
    warm_stream b = NULL;
    warm_graph graph = NULL;
    void *handle = NULL, *got;
    uint64_t before;

    wt_ok(warm_stream_create(runtime, 0, &b));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    capture();
    before = wt_calls(runtime, "device_alloc");
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    got = bind_to(_i == 0 ? a : b);
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    ck_assert_uint_eq(wt_calls(runtime, "device_alloc"), before);
    ck_assert_ptr_null(got);
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    ck_assert_ptr_nonnull(bind_to(b)); /* nothing captures */
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    wt_ok(warm_stream_destroy(runtime, b));
}
