/* check_pool.c: the pool's first creation, its walk, and workspaces (rows A8,
 * A10, A14), with kinds made of internal operations.
 * backends: host, standin */
#include "wt.h"
#include "wt_kind.h"

#include "handles/pools.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/thread/control.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static warm_runtime *runtime;
static wt_toy toy;
static warm_kind kind;

static void set_up(void)
{
    warm_options options = {.size = sizeof options, .host_devices = 2};

    runtime = wt_runtime(wt_on_host() ? &options : NULL);
    wt_toy_init(&toy);
    kind = wt_toy_register(&toy, runtime, "toy");
}

static void tear_down(void)
{
    ck_assert(wm_pools_check(runtime->pools));
    wt_runtime_end(runtime);
    ck_assert_int_eq(toy.alive, 0);
}

struct worker {
    pthread_t thread;
    atomic_int tid;
    atomic_int status;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    void *handle = NULL;

    worker->tid = (int)syscall(SYS_gettid);
    worker->status = (int)warm_reserve(runtime, kind, 0, &handle);
    return NULL;
}

/* Whether the kernel says that the thread sleeps. */
static bool sleeps(int tid)
{
    char path[64], text[256] = "";
    FILE *file;
    const char *state;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    if (fgets(text, sizeof text, file) == NULL) {
        text[0] = '\0';
    }
    fclose(file);
    state = strrchr(text, ')');
    return state != NULL && state[2] == 'S';
}

static void await_sleep(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        while (workers[i].tid == 0 || !sleeps(workers[i].tid)) {
            sched_yield();
        }
    }
}

START_TEST(test_A8_first_creation_is_made_by_one_thread_alone)
{
    struct worker workers[6];

    memset(workers, 0, sizeof workers);
    wt_toy_close_gate(&toy);
    for (int i = 0; i < 6; i++) {
        workers[i].status = -1;
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    /* All stand still: one in the library, the others before it. */
    await_sleep(workers, 6);
    ck_assert_uint_eq(toy.creates, 1);
    ck_assert_uint_eq(wt_toy_inside(&toy), 1);
    wt_toy_open_gate(&toy);
    for (int i = 0; i < 6; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_int_eq(workers[i].status, WARM_OK);
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), toy.creates);
}
END_TEST

START_TEST(test_A8_a_failed_first_creation_fails_one_thread_only)
{
    struct worker workers[4];
    int failed = 0;

    memset(workers, 0, sizeof workers);
    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_toy_close_gate(&toy);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    await_sleep(workers, 4);
    ck_assert_uint_eq(toy.creates, 1);
    wt_toy_open_gate(&toy);
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        failed += workers[i].status == WARM_LIBRARY_ERROR;
    }
    ck_assert_int_eq(failed, 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, failed), 1);
}
END_TEST

static uint64_t now;

static uint64_t slow_clock(void)
{
    now += 1000;
    return now;
}

START_TEST(test_A14_creation_time_is_measured)
{
    void *handle = NULL;

    wm_clock_set(slow_clock);
    wt_ok(warm_reserve(runtime, kind, 0, &handle));
    wm_clock_set(NULL);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, create_ns), 1000);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, create_max_ns), 1000);
}
END_TEST

/* A kind with workspaces: a handle says what it was last bound to. */
struct bound {
    warm_stream stream;
    void *workspace;
    size_t bytes;
};

enum { WORKSPACE = 1 << 16 };

static warm_status bound_create(wm_kind *k, int device, void **handle)
{
    warm_status status =
        wm_driver_device_alloc(k->driver, device, 4096, handle);

    /* Held only as a measurable cost; what is bound is kept beside it. */
    return status;
}

static warm_status bound_destroy(wm_kind *k, int device, void *handle)
{
    return wm_driver_device_free(k->driver, device, handle);
}

static _Thread_local struct bound last;

static warm_status bound_bind(wm_kind *k, int device, void *handle,
                              warm_stream stream, void *workspace, size_t bytes)
{
    (void)k;
    (void)device;
    (void)handle;
    last = (struct bound){stream, workspace, bytes};
    return WARM_OK;
}

static size_t bound_bytes(wm_kind *k, int device)
{
    (void)k;
    (void)device;
    return WORKSPACE;
}

static const wm_kind_ops bound_ops = {
    .name = "bound",
    .create = bound_create,
    .destroy = bound_destroy,
    .bind = bound_bind,
    .workspace_bytes = bound_bytes,
};

static warm_kind add_bound(void)
{
    warm_kind made = -1;

    wt_ok(wm_pools_add(runtime->pools, &bound_ops, NULL, &made));
    return made;
}

static void *bind_to(warm_kind k, warm_stream stream)
{
    void *handle = NULL;

    wt_ok(warm_reserve_on(runtime, k, 0, stream, &handle));
    ck_assert_ptr_eq(last.stream, stream);
    return last.workspace;
}

static warm_stream new_stream(void)
{
    warm_stream stream = NULL;

    wt_ok(warm_stream_create(runtime, 0, &stream));
    return stream;
}

START_TEST(test_A14_device_memory_of_a_handle_is_measured)
{
    warm_kind bound = add_bound();
    void *pointer = NULL, *handle = NULL;

    /* The device is in use before: else the creation would make its context,
     * and nothing could be asked beforehand. */
    wt_ok(warm_device_alloc_uncached(runtime, 0, 4096, &pointer));
    wt_ok(warm_reserve(runtime, bound, 0, &handle));
    ck_assert_int_ge(wt_stat(runtime, bound, 0, device_bytes), 4096);
    wt_ok(warm_device_free_uncached(runtime, 0, pointer));
}
END_TEST

START_TEST(test_A10_two_streams_never_share_a_workspace)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream(), b = new_stream();
    void *of_a = bind_to(bound, a);
    void *of_b = bind_to(bound, b);

    ck_assert_ptr_nonnull(of_a);
    ck_assert_ptr_nonnull(of_b);
    ck_assert_ptr_ne(of_a, of_b);
    ck_assert_uint_eq(last.bytes, WORKSPACE);
    ck_assert_ptr_eq(bind_to(bound, a), of_a); /* a stream keeps its own */
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspace_bytes),
                     2 * WORKSPACE);
    /* The per-thread default stream is one name for many: none for it. */
    ck_assert_ptr_null(bind_to(bound, WARM_STREAM_PER_THREAD));
    wt_ok(warm_stream_destroy(runtime, a));
    wt_ok(warm_stream_destroy(runtime, b));
}
END_TEST

static void bind_in_thread(void *argument, unsigned index)
{
    void **memory = argument;
    void *handle = NULL;
    warm_stream stream = memory[2];

    last.workspace = NULL;
    if (warm_reserve_on(runtime, kind, 0, stream, &handle) == WARM_OK) {
        memory[index] = last.workspace;
    }
}

START_TEST(test_A10_two_threads_on_one_stream_share_its_workspace)
{
    warm_stream stream = new_stream();
    void *memory[3] = {NULL, NULL, stream};

    kind = add_bound();
    wt_threads(2, bind_in_thread, memory);
    ck_assert_ptr_nonnull(memory[0]);
    ck_assert_ptr_eq(memory[0], memory[1]);
    wt_ok(warm_stream_destroy(runtime, stream));
}
END_TEST

START_TEST(test_A10_B6_retired_workspace_waits_for_its_stream)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream(), b = new_stream(), c = new_stream();
    wt_gate *gate;
    void *of_a = bind_to(bound, a);

    gate = wt_gate_close(runtime, a);
    wt_ok(warm_stream_retire(runtime, a)); /* its work goes on */
    ck_assert_ptr_ne(bind_to(bound, b), of_a);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, a)); /* the event, too */
    ck_assert_ptr_eq(bind_to(bound, c), of_a);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
    wt_ok(warm_stream_destroy(runtime, a));
    wt_ok(warm_stream_destroy(runtime, b));
    wt_ok(warm_stream_destroy(runtime, c));
}
END_TEST

START_TEST(test_A10_a_workspace_of_a_capture_serves_no_other_stream)
{
    bool before = _i == 0; /* bound before, or during, the capture */
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    warm_graph graph = NULL;
    void *handle = NULL, *of_a = NULL;

    wt_ok(warm_reserve(runtime, bound, 0, &handle));
    if (before) {
        of_a = bind_to(bound, a);
    }
    wt_ok(warm_capture_begin(runtime, a));
    if (!before) {
        of_a = bind_to(bound, a);
    }
    ck_assert_ptr_nonnull(of_a);
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_stream_destroy(runtime, a));
    for (int i = 0; i < 4; i++) {
        warm_stream next = new_stream();

        ck_assert_ptr_ne(bind_to(bound, next), of_a);
        wt_ok(warm_stream_destroy(runtime, next));
    }
    wt_ok(warm_graph_destroy(runtime, graph));
}
END_TEST

/* A graph may run on any stream, beside eager work on the one that captured
 * it: what the graph uses is not what the stream uses. */
START_TEST(test_A10_eager_work_and_graphs_share_no_workspace)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    warm_graph graph = NULL;
    void *eager, *of_graph;

    eager = bind_to(bound, a);
    wt_ok(warm_capture_begin(runtime, a));
    of_graph = bind_to(bound, a);
    ck_assert_ptr_nonnull(of_graph);
    ck_assert_ptr_ne(of_graph, eager);
    ck_assert_ptr_eq(bind_to(bound, a), of_graph);
    wt_ok(warm_capture_end(runtime, a, &graph));
    ck_assert_ptr_eq(bind_to(bound, a), eager);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
    wt_ok(warm_graph_destroy(runtime, graph));
    /* The next capture of the stream costs no memory again. */
    wt_ok(warm_capture_begin(runtime, a));
    ck_assert_ptr_eq(bind_to(bound, a), of_graph);
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, a));
}
END_TEST

/* The graph of a stream that is gone keeps its workspace for itself, also if
 * the stream went while it captured (_i 1). */
START_TEST(test_A10_B6_a_capture_at_an_old_address_gets_a_workspace_of_its_own)
{
    warm_kind bound = add_bound();
    warm_graph graph[8] = {NULL};
    void *of_graph[8] = {NULL};

    for (int i = 0; i < 8; i++) {
        warm_stream a = new_stream();

        wt_ok(warm_capture_begin(runtime, a));
        of_graph[i] = bind_to(bound, a);
        if (_i == 0) {
            wt_ok(warm_capture_end(runtime, a, &graph[i]));
        }
        wt_ok(warm_stream_destroy(runtime, a));
        for (int k = 0; k < i; k++) {
            ck_assert_ptr_ne(of_graph[i], of_graph[k]);
        }
    }
    for (int i = 0; i < 8; i++) {
        wt_ok(warm_graph_destroy(runtime, graph[i]));
    }
}
END_TEST

START_TEST(test_A10_without_memory_the_library_uses_its_own)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    void *handle = NULL;
    warm_error error = {.size = sizeof error};

    wt_ok(warm_reserve(runtime, bound, 0, &handle));
    wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 1));
    ck_assert_ptr_null(bind_to(bound, a));
    ck_assert_uint_eq(last.bytes, 0);
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_OK); /* the call did not fail */
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 0);
    wt_ok(warm_testing_fail(runtime, "device_alloc", 0, 0));
    wt_ok(warm_stream_destroy(runtime, a));
}
END_TEST

static const char *const workspace_calls[] = {
    "capture_mode", "device_alloc", "stream_capture", "event_create",
    "event_record", "event_query",  "stream_info"};

/* Whatever fails, no two streams alive at once get the same memory. */
START_TEST(test_A10_A14_workspaces_stay_apart_after_every_fault)
{
    const char *call = workspace_calls[_i / 2];
    warm_kind bound = add_bound();

    for (unsigned n = 1; n <= 6; n++) {
        warm_stream s[3];
        void *memory[3];

        for (int k = 0; k < 3; k++) {
            s[k] = new_stream();
        }
        wt_ok(warm_testing_fail(runtime, call, n, _i % 2));
        for (int k = 0; k < 3; k++) {
            void *handle = NULL;
            warm_status status;

            last.workspace = NULL;
            status = warm_reserve_on(runtime, bound, 0, s[k], &handle);
            memory[k] = status == WARM_OK ? last.workspace : NULL;
            for (int j = 0; j < k; j++) {
                ck_assert(memory[k] == NULL || memory[k] != memory[j]);
            }
        }
        for (int k = 0; k < 2; k++) { /* s[2] is used on */
            if (warm_stream_retire(runtime, s[k]) == WARM_OK) {
                void *handle = NULL;
                warm_stream next = new_stream();

                last.workspace = NULL;
                if (warm_reserve_on(runtime, bound, 0, next, &handle) ==
                    WARM_OK) {
                    ck_assert(memory[2] == NULL || last.workspace != memory[2]);
                }
                (void)warm_stream_destroy(runtime, next);
            }
        }
        wt_ok(warm_testing_fail(runtime, call, 0, 0));
        for (int k = 0; k < 3; k++) {
            wt_ok(warm_stream_destroy(runtime, s[k]));
        }
        ck_assert(wm_pools_check(runtime->pools));
    }
}
END_TEST

/* Metadata fails at the n-th allocation, once and from then on. */
static void reserve_in_thread(void *argument, unsigned index)
{
    warm_status *status = argument;
    warm_stream stream = NULL;
    void *handle = NULL;

    (void)index;
    *status = warm_stream_reserve(runtime, 0, &stream);
    if (*status == WARM_OK) {
        *status = warm_reserve_on(runtime, kind, 0, stream, &handle);
    }
}

START_TEST(test_A8_A14_counters_balance_after_every_metadata_fault)
{
    warm_status status = WARM_OUT_OF_MEMORY;
    unsigned n = 0;

    kind = add_bound();
    while (status != WARM_OK && ++n < 50) {
        wm_meta_fail(n, _i != 0);
        wt_threads(1, reserve_in_thread, &status);
        wm_meta_fail(0, false);
        ck_assert(status == WARM_OK || status == WARM_OUT_OF_MEMORY);
        ck_assert(wm_pools_check(runtime->pools));
        ck_assert(wt_balanced(runtime, kind, 0));
        ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
    }
    ck_assert_uint_ge(n, 3);
    ck_assert_uint_lt(n, 50);
}
END_TEST

START_TEST(test_A9_registering_a_kind_without_memory_changes_nothing)
{
    warm_kind made = -1;

    for (unsigned n = 1; n <= 2; n++) {
        int kinds = wm_pools_kinds(runtime->pools);
        int64_t live = wm_meta_live();

        wm_meta_fail(n, false);
        ck_assert_int_eq(wt_toy_register(&toy, runtime, "second"), -1);
        wm_meta_fail(0, false);
        ck_assert_int_eq(wm_pools_kinds(runtime->pools), kinds);
        ck_assert_int_eq(wm_meta_live(), live);
    }
    made = wt_toy_register(&toy, runtime, "second");
    ck_assert_int_eq(made, kind + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_A8_first_creation_is_made_by_one_thread_alone);
    tcase_add_test(tcase,
                   test_A8_a_failed_first_creation_fails_one_thread_only);
    tcase_add_test(tcase, test_A14_creation_time_is_measured);
    tcase_add_test(tcase, test_A14_device_memory_of_a_handle_is_measured);
    tcase_add_test(tcase, test_A10_two_streams_never_share_a_workspace);
    tcase_add_test(tcase,
                   test_A10_two_threads_on_one_stream_share_its_workspace);
    tcase_add_test(tcase, test_A10_B6_retired_workspace_waits_for_its_stream);
    tcase_add_loop_test(
        tcase, test_A10_a_workspace_of_a_capture_serves_no_other_stream, 0, 2);
    tcase_add_test(tcase, test_A10_eager_work_and_graphs_share_no_workspace);
    tcase_add_loop_test(
        tcase,
        test_A10_B6_a_capture_at_an_old_address_gets_a_workspace_of_its_own, 0,
        2);
    tcase_add_test(tcase, test_A10_without_memory_the_library_uses_its_own);
    tcase_add_loop_test(tcase,
                        test_A10_A14_workspaces_stay_apart_after_every_fault, 0,
                        2 * sizeof workspace_calls / sizeof workspace_calls[0]);
    tcase_add_loop_test(
        tcase, test_A8_A14_counters_balance_after_every_metadata_fault, 0, 2);
    tcase_add_test(tcase,
                   test_A9_registering_a_kind_without_memory_changes_nothing);
    suite_add_tcase(suite, tcase);
    return wt_main(suite);
}
