/* check_pool.c: the pool's first creation, its walk, trims, leases and
 * workspaces (rows A8, A10 to A14), with kinds made of internal operations.
 * backends: host, standin */
/* memcheck: one process */
#include "wt.h"
#include "wt_kind.h"

#include "handles/kinds/builtin.h"
#include "handles/kind_table.h"
#include "handles/pool_int.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/thread/runtime_body.h"
#include "tests/unit/handles/bound_kind.h"

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

/* Streams of the test; those that are left are destroyed at its end. */
static warm_stream streams[64];
static unsigned stream_count;

static warm_stream new_stream(void)
{
    warm_stream stream = NULL;

    wt_require(stream_count < 64, "more streams than a test may have");
    wt_ok(warm_stream_create(runtime, 0, &stream));
    streams[stream_count++] = stream;
    return stream;
}

static void end_stream(warm_stream stream)
{
    unsigned i = 0;

    while (streams[i] != stream) {
        i++;
    }
    streams[i] = streams[--stream_count];
    wt_ok(warm_stream_destroy(runtime, stream));
}

static void tear_down(void)
{
    while (stream_count > 0) {
        wt_ok(warm_stream_destroy(runtime, streams[--stream_count]));
    }
    ck_assert(wm_kind_table_check(runtime->kinds));
    wt_runtime_end(runtime);
    ck_assert_int_eq(toy.alive, 0);
}

struct worker {
    pthread_t thread;
    atomic_int tid;
    atomic_int status;
};

static void reserve_in(struct worker *worker, warm_runtime *of, warm_kind which)
{
    void *handle = NULL;

    worker->tid = (int)syscall(SYS_gettid);
    worker->status = (int)warm_handle_reserve(of, which, 0, &handle);
}

static void *work(void *worker)
{
    reserve_in(worker, runtime, kind);
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

static void start(struct worker *worker, void *(*fn)(void *))
{
    *worker = (struct worker){.status = -1};
    ck_assert_int_eq(pthread_create(&worker->thread, NULL, fn, worker), 0);
}

static void await_sleep(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        while (workers[i].tid == 0 || !sleeps(workers[i].tid)) {
            sched_yield();
        }
    }
}

WT_CASE("pool", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A8_first_creation_is_made_by_one_thread_alone)
{
    struct worker workers[6];

    wt_toy_close_gate(&toy);
    for (int i = 0; i < 6; i++) {
        start(&workers[i], work);
    }
    /* All stand still: one in the library, the others before it. That they
     * sleep may be for something else; then they have yet to come. */
    wt_toy_await(&toy, 1);
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

static warm_runtime *second;

static void *work_in_second(void *worker)
{
    reserve_in(worker, second, kind);
    return NULL;
}

static warm_kind other_kind;

static void *work_other(void *worker)
{
    reserve_in(worker, runtime, other_kind);
    return NULL;
}

static void *work_other_in_second(void *worker)
{
    reserve_in(worker, second, other_kind);
    return NULL;
}

/* The turn of one kind ends, while that of another goes on: neither another
 * thread nor another runtime creates a handle of that one. */
WT_TEST(test_A8_a_first_creation_lasts_while_those_of_others_end)
{
    static wt_toy other; /* its handles end with the runtime */
    struct worker workers[4];

    wt_toy_init(&other);
    other_kind = wt_toy_register(&other, runtime, "other");
    second = wt_runtime(NULL);
    ck_assert_int_eq(wt_toy_register(&toy, second, "toy"), kind);
    ck_assert_int_eq(wt_toy_register(&other, second, "other"), other_kind);
    wt_toy_close_gate(&toy);
    wt_toy_close_gate(&other);
    start(&workers[0], work);
    wt_toy_await(&toy, 1);
    start(&workers[1], work_other);
    wt_toy_await(&other, 1);
    wt_toy_open_gate(&toy);
    pthread_join(workers[0].thread, NULL);
    start(&workers[2], work_other);
    start(&workers[3], work_other_in_second);
    await_sleep(&workers[2], 2);
    ck_assert_uint_eq(other.creates, 1);
    wt_toy_open_gate(&other);
    for (int i = 1; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_int_eq(workers[i].status, WARM_OK);
    }
    wt_runtime_end(second);
}

WT_TEST(test_A8_G2_first_creations_of_two_runtimes_take_turns)
{
    struct worker workers[2];

    second = wt_runtime(NULL);
    ck_assert_int_eq(wt_toy_register(&toy, second, "toy"), kind);
    wt_toy_close_gate(&toy);
    start(&workers[0], work);
    wt_toy_await(&toy, 1);
    start(&workers[1], work_in_second);
    await_sleep(workers, 2);
    ck_assert_uint_eq(toy.creates, 1);
    ck_assert_uint_eq(wt_toy_inside(&toy), 1);
    wt_toy_open_gate(&toy);
    for (int i = 0; i < 2; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_int_eq(workers[i].status, WARM_OK);
    }
    wt_runtime_end(second);
}

/* A kind whose handles are each made with one of the other runtime. */
static int create_with_second(void *context, int device, void **handle)
{
    void *inner = NULL;

    *handle = malloc(1);
    return context == NULL ? 0
                           : (int)warm_handle_reserve(
                                 second, *(warm_kind *)context, device, &inner);
}

static int destroy_alone(void *context, int device, void *handle)
{
    (void)context;
    (void)device;
    free(handle);
    return 0;
}

WT_TEST(test_A8_G2_first_creation_inside_another_one_waits_for_none)
{
    warm_kind inner = -1, outer = -1;
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "nested",
                         .create = create_with_second,
                         .destroy = destroy_alone};
    void *handle = NULL;

    second = wt_runtime(NULL);
    wt_ok(warm_kind_register(second, &ops, &inner));
    ops.context = &inner;
    wt_ok(warm_kind_register(runtime, &ops, &outer));
    wt_ok(warm_handle_reserve(runtime, outer, 0, &handle));
    ck_assert_int_eq(wt_stat(second, inner, 0, created), 1);
    wt_runtime_end(second);
}

/* A kind of each runtime, whose handles are made with one of the other's. */
static struct crossing {
    warm_runtime *own, *other;
    warm_kind own_kind, other_kind;
} crossing[2];
static struct worker crossers[2];
static atomic_int crossed; /* threads inside their first callback */
static bool one_crosses;   /* the other one waits for its turn */

static int create_across(void *context, int device, void **handle)
{
    static _Thread_local bool nested;
    const struct crossing *c = context;
    void *inner = NULL;

    *handle = malloc(1);
    if (nested) {
        return 0;
    }
    nested = true;
    crossed++;
    if (one_crosses && c == &crossing[0]) {
        await_sleep(&crossers[1], 1);
    }
    while (!one_crosses && crossed < 2) {
        sched_yield();
    }
    return (int)warm_handle_reserve(c->other, c->other_kind, device, &inner);
}

static void reserve_across(void *none, unsigned index)
{
    const struct crossing *c = &crossing[index];
    void *handle = NULL;

    (void)none;
    while (one_crosses && index == 1 && crossed == 0) {
        sched_yield();
    }
    crossers[index].tid = (int)syscall(SYS_gettid);
    crossers[index].status =
        (int)warm_handle_reserve(c->own, c->own_kind, 0, &handle);
}

/* Neither waits for the other, whether both are inside (_i 0), or the second
 * one waits for the turn of the first. */
WT_LOOP_TEST(test_A8_G2_first_creations_of_two_threads_may_cross, 2)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "across",
                         .create = create_across,
                         .destroy = destroy_alone};

    one_crosses = _i == 1;
    crossed = 0;
    second = wt_runtime(NULL);
    for (int i = 0; i < 2; i++) {
        struct crossing *c = &crossing[i];

        c->own = i == 0 ? runtime : second;
        c->other = i == 0 ? second : runtime;
        ops.context = c;
        wt_ok(warm_kind_register(c->own, &ops, &c->own_kind));
        crossing[1 - i].other_kind = c->own_kind;
        ops.name = one_crosses ? ops.name : "back";
    }
    wt_threads(2, reserve_across, NULL);
    ck_assert_int_eq(crossers[0].status, WARM_OK);
    ck_assert_int_eq(crossers[1].status, WARM_OK);
    ck_assert(wt_balanced(runtime, crossing[0].own_kind, 0));
    ck_assert(wt_balanced(second, crossing[1].own_kind, 0));
    wt_runtime_end(second);
}

/* Created equals the high-water mark also if a handle comes back too late for
 * the thread that is making one already. */
WT_TEST(test_A4_A14_a_handle_given_back_during_a_creation_counts_as_held)
{
    struct worker worker;
    void *handle = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_toy_close_gate(&toy);
    start(&worker, work);
    wt_toy_await(&toy, 1);
    wt_ok(warm_thread_release(runtime));
    wt_toy_open_gate(&toy);
    pthread_join(worker.thread, NULL);
    ck_assert_int_eq(worker.status, WARM_OK);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 2);
}

WT_TEST(test_A8_a_failed_first_creation_fails_one_thread_only)
{
    struct worker workers[4];
    int failed = 0;

    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_toy_close_gate(&toy);
    for (int i = 0; i < 4; i++) {
        start(&workers[i], work);
    }
    wt_toy_await(&toy, 1);
    await_sleep(workers, 4);
    ck_assert_uint_eq(toy.creates, 1);
    wt_toy_open_gate(&toy);
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        failed += workers[i].status == WARM_LIBRARY_ERROR;
    }
    ck_assert_int_eq(failed, 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, failed), 1);
    ck_assert_uint_eq(
        wm_kind_table_pool(runtime->kinds, kind, 0)->reserved_slots, 0);
}

/* A reset that fails takes the handle off the list of live ones. */
WT_LOOP_TEST(test_A3_what_was_discarded_is_forgotten, 2)
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, 0);
    void *old = NULL, *next = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &old));
    wt_ok(warm_thread_release(runtime));
    ck_assert(wm_pool_owns(pool, old));
    wt_toy_fail(&toy, WT_RESET, 1, false);
    wt_toy_fail(&toy, WT_DESTROY, (unsigned)_i, false); /* or leaked */
    wt_ok(warm_handle_reserve(runtime, kind, 0, &next));
    ck_assert(next == old || !wm_pool_owns(pool, old));
    ck_assert(wm_pool_owns(pool, next));
    ck_assert_uint_eq(pool->alive, 1);
    ck_assert(wm_pool_check(pool));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leaked), _i);
    if (_i == 1) {
        ck_assert_int_eq(toy.alive, 2);
        wt_ok(warm_thread_release(runtime));
        wt_runtime_end(runtime);
        wt_toy_free_left(&toy);
        runtime = wt_runtime(NULL); /* for tear_down() */
    }
}

/* What comes back after the end was counted is not counted again. */
WT_TEST(test_A6_A14_given_back_after_the_process_began_to_exit)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    ck_assert_uint_eq(wm_kind_table_leak(runtime->kinds), 1);
    wt_ok(warm_thread_release(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leaked), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 0);
    wt_toy_free_left(&toy);
}

static uint64_t now;

static uint64_t slow_clock(void)
{
    now += 1000;
    return now;
}

/* The second creation takes no time: the longest is the first. */
static uint64_t still_clock(void)
{
    return 1;
}

WT_TEST(test_A14_creation_time_is_measured)
{
    void *handle = NULL;
    warm_lease lease = {0};

    wm_clock_set(slow_clock);
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wm_clock_set(still_clock);
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease, &handle));
    wm_clock_set(NULL);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, create_ns), 1000);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, create_max_ns), 1000);
    wt_ok(warm_handle_return(runtime, lease));
}

static uint64_t set_clock(void)
{
    return now;
}

static warm_kind add_bound(void)
{
    warm_kind made = -1;

    wt_ok(wm_kind_table_add(runtime->kinds, &bound_ops, NULL, &made));
    return made;
}

static void *bind_to(warm_kind k, warm_stream stream)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve_on(runtime, k, 0, stream, &handle));
    ck_assert_ptr_eq(last.stream, stream);
    return last.workspace;
}

/* Trims, after which the kind has so many workspaces. */
static void trim_to(warm_kind k, uint64_t keep, uint64_t idle_ns,
                    int workspaces)
{
    wt_ok(warm_handle_trim(runtime, k, 0, keep, idle_ns, NULL));
    ck_assert_int_eq(wt_stat(runtime, k, 0, workspaces), workspaces);
}

/* Ends a capture whose graph nobody runs. */
static void end_capture(warm_stream stream)
{
    warm_graph graph = NULL;

    wt_ok(warm_capture_end(runtime, stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
}

WT_TEST(test_A14_device_memory_of_a_handle_is_measured)
{
    warm_kind bound = add_bound();
    void *pointer = NULL, *handle = NULL;

    /* The device is in use before: else the creation would make its context,
     * and nothing could be asked beforehand. */
    wt_ok(warm_device_alloc_uncached(runtime, 0, 4096, &pointer));
    wt_ok(warm_handle_reserve(runtime, bound, 0, &handle));
    ck_assert_int_ge(wt_stat(runtime, bound, 0, device_bytes), 4096);
    wt_ok(warm_device_free_uncached(runtime, 0, pointer));
}

WT_TEST(test_A10_two_streams_never_share_a_workspace)
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
}

static void bind_in_thread(void *argument, unsigned index)
{
    void **memory = argument;
    void *handle = NULL;
    warm_stream stream = memory[2];

    last.workspace = NULL;
    if (warm_handle_reserve_on(runtime, kind, 0, stream, &handle) == WARM_OK) {
        memory[index] = last.workspace;
    }
}

/* A handle beside that of the thread, bound to the stream; its workspace. */
static void *lease_to(warm_kind k, warm_stream stream, warm_lease *lease)
{
    void *handle = NULL;

    last.workspace = NULL;
    wt_ok(warm_handle_lease_on(runtime, k, 0, stream, lease, &handle));
    ck_assert_ptr_eq(last.stream, stream);
    return last.workspace;
}

/* One call may queue several kernels, and those of two would interleave. */
WT_TEST(test_A10_A2_two_handles_on_one_stream_share_no_workspace)
{
    warm_kind bound = add_bound();
    warm_stream on[] = {new_stream(), NULL};

    for (int i = 0; i < 2; i++) {
        warm_lease lease[2] = {{0}};
        void *memory[3] = {bind_to(bound, on[i])};

        memory[1] = lease_to(bound, on[i], &lease[0]);
        memory[2] = lease_to(bound, on[i], &lease[1]);
        for (int k = 0; k < 3; k++) {
            ck_assert_ptr_nonnull(memory[k]);
            ck_assert_ptr_ne(memory[k], memory[(k + 1) % 3]);
        }
        /* Those of the first stream are idle: the bound is 5. */
        ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 3 + 2 * i);
        wt_ok(warm_handle_return(runtime, lease[0]));
        wt_ok(warm_handle_return(runtime, lease[1]));
        /* A handle that serves the next one keeps what it has. */
        ck_assert_ptr_eq(lease_to(bound, on[i], &lease[0]), memory[2]);
        wt_ok(warm_handle_return(runtime, lease[0]));
    }
}

static uint64_t calls_for_workspaces(void)
{
    return wt_calls(runtime, "device_alloc") +
           wt_calls(runtime, "device_free") +
           wt_calls(runtime, "event_create") + wt_calls(runtime, "event_mark") +
           wt_calls(runtime, "event_record") + wt_calls(runtime, "event_query");
}

WT_TEST(test_A10_a_handle_to_and_fro_between_streams_obtains_nothing)
{
    enum { STREAMS = 4 };
    warm_kind bound = add_bound();
    warm_stream stream[STREAMS];
    void *memory[STREAMS];
    uint64_t calls;

    (void)bind_to(bound, NULL); /* does not count */
    for (int i = 0; i < STREAMS; i++) {
        stream[i] = new_stream();
        memory[i] = bind_to(bound, stream[i]);
    }
    (void)bind_to(bound, NULL);
    calls = calls_for_workspaces();
    for (int i = 0; i < 100; i++) {
        ck_assert_ptr_eq(bind_to(bound, stream[i * 7 % STREAMS]),
                         memory[i * 7 % STREAMS]);
    }
    ck_assert_uint_eq(calls_for_workspaces(), calls);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), 0); /* none was let go */
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), STREAMS + 1);
}

/* More handles than there are lists for them. */
WT_TEST(test_A10_A2_of_many_handles_no_two_share_a_workspace)
{
    enum { MANY = WM_WORKSPACE_LISTS + 1 };
    static warm_lease lease[MANY];
    warm_kind bound = add_bound();
    warm_stream stream = new_stream();

    for (int i = 0; i < MANY; i++) {
        ck_assert_ptr_nonnull(lease_to(bound, stream, &lease[i]));
    }
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), MANY);
    for (int i = 0; i < MANY; i++) {
        wt_ok(warm_handle_return(runtime, lease[i]));
    }
}

static void limit_workspaces(int count)
{
    wm_kind_table_workspaces(runtime->kinds, 0)->limit =
        (size_t)count * WORKSPACE;
}

/* Not what it was bound to first. */
WT_TEST(test_A10_a_handle_lets_go_of_what_it_was_bound_to_longest_ago)
{
    enum { STREAMS = 5 };
    warm_kind bound = add_bound();
    warm_stream stream[STREAMS];
    void *memory[STREAMS];

    limit_workspaces(STREAMS - 1);
    wm_clock_set(set_clock);
    for (int i = 0; i < STREAMS; i++) {
        stream[i] = new_stream();
    }
    for (int i = 0; i < STREAMS; i++) {
        now++;
        if (i == STREAMS - 1) {
            ck_assert_ptr_eq(bind_to(bound, stream[0]), memory[0]);
        }
        memory[i] = bind_to(bound, stream[i]);
    }
    ck_assert_ptr_eq(memory[STREAMS - 1], memory[1]);
    ck_assert_ptr_eq(bind_to(bound, stream[0]), memory[0]);
    wm_clock_set(NULL);
}

/* The age of what a handle keeps is from when it was bound elsewhere. */
WT_TEST(test_A10_A12_what_a_handle_keeps_ages_since_it_used_it)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream(), b = new_stream();

    wm_clock_set(set_clock);
    now = 100;
    (void)bind_to(bound, a);
    now = 140;
    (void)bind_to(bound, b);
    now = 150;
    trim_to(bound, 9, 11, 2);
    trim_to(bound, 9, 10, 1);
    wm_clock_set(NULL);
}

/* Handles that are no memory of a device: to destroy one waits for nothing. */
static warm_status light_create(wm_kind *k, int device, void **handle)
{
    (void)k;
    (void)device;
    *handle = malloc(1);
    return *handle != NULL ? WARM_OK : WARM_OUT_OF_MEMORY;
}

static warm_status light_destroy(wm_kind *k, int device, void *handle)
{
    (void)k;
    (void)device;
    free(handle);
    return WARM_OK;
}

static warm_kind add_light(void)
{
    static wm_kind_ops ops;
    warm_kind made = -1;

    ops = bound_ops;
    ops.name = "light";
    ops.create = light_create;
    ops.destroy = light_destroy;
    wt_ok(wm_kind_table_add(runtime->kinds, &ops, NULL, &made));
    return made;
}

WT_TEST(test_A10_A12_workspaces_of_a_destroyed_handle_wait_for_its_work)
{
    warm_kind light = add_light();
    warm_stream a = new_stream(), b = new_stream();
    warm_lease lease = {0};
    wt_gate *gate;
    void *of_a = lease_to(light, a, &lease);

    gate = wt_gate_close(runtime, a);
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_handle_trim(runtime, light, 0, 0, 0, NULL));
    ck_assert_int_eq(wt_stat(runtime, light, 0, destroyed), 1);
    ck_assert_int_eq(wt_stat(runtime, light, 0, workspaces), 1);
    ck_assert_ptr_ne(lease_to(light, b, &lease), of_a);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, a));
    ck_assert_ptr_eq(bind_to(light, b), of_a);
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_handle_trim(runtime, light, 0, 0, 0, NULL));
    ck_assert_int_eq(wt_stat(runtime, light, 0, idle), 0);
    ck_assert_int_eq(wt_stat(runtime, light, 0, workspaces), 0);
}

/* A trim, or where memory is short another handle, gets what a handle in use
 * keeps, and never what it is bound to. */
WT_LOOP_TEST(test_A10_A12_what_a_handle_keeps_in_store_can_be_had, 2)
{
    bool by_trim = _i == 0;
    warm_kind bound = add_bound();
    warm_stream a = new_stream(), b = new_stream(), c = new_stream();
    warm_lease lease[2] = {{0}};
    void *of_a, *of_b, *handle = NULL;

    wt_ok(warm_handle_lease(runtime, bound, 0, &lease[0], &handle));
    wt_ok(warm_handle_return(runtime, lease[0]));
    of_a = bind_to(bound, a);
    of_b = bind_to(bound, b);
    if (by_trim) {
        trim_to(bound, 9, UINT64_MAX, 2);
        trim_to(bound, 9, 0, 1);
    } else {
        wt_ok(warm_handle_prewarm(runtime, bound, 0, 2, 0));
        wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 1));
        ck_assert_ptr_eq(lease_to(bound, c, &lease[0]), of_a);
        ck_assert_ptr_null(lease_to(bound, c, &lease[1]));
        wt_ok(warm_testing_fail(runtime, "device_alloc", 0, 0));
        wt_ok(warm_handle_return(runtime, lease[0]));
        wt_ok(warm_handle_return(runtime, lease[1]));
    }
    ck_assert_ptr_ne(bind_to(bound, a), of_b);
    ck_assert_ptr_eq(bind_to(bound, b), of_b);
}

/* Its name means the other device's meanwhile, or it may not be asked. */
static wm_driver_ops blocked_ops;

static warm_status other_device(wm_driver *d, int *device)
{
    (void)d;
    *device = 1;
    return WARM_OK;
}

static warm_status mark_nothing(wm_driver *d, warm_event event,
                                warm_stream stream, wm_capture *capture)
{
    (void)d;
    (void)event;
    (void)stream;
    *capture = WM_CAPTURE_BLOCKED;
    return WARM_OK;
}

WT_LOOP_TEST(test_A10_a_default_streams_workspace_is_marked_when_that_can_be, 2)
{
    const wm_driver_ops *real = runtime->driver->ops;
    warm_kind light = add_light();
    warm_lease lease = {0};

    ck_assert_ptr_nonnull(lease_to(light, NULL, &lease));
    wt_ok(warm_handle_return(runtime, lease));
    blocked_ops = *real;
    if (_i == 0) {
        blocked_ops.current_device = other_device;
    } else {
        blocked_ops.event_mark = mark_nothing;
    }
    runtime->driver->ops = &blocked_ops;
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_handle_trim(runtime, light, 0, 0, 0, NULL));
        ck_assert_int_eq(wt_stat(runtime, light, 0, idle), 0);
        ck_assert_int_eq(wt_stat(runtime, light, 0, workspaces), 1);
    }
    runtime->driver->ops = real;
    trim_to(light, 0, 0, 0);
}

WT_TEST(test_A10_B6_retired_workspace_waits_for_its_stream)
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
}

/* Retired, but not destroyed: or its destruction failed. */
WT_TEST(test_A10_B6_a_stream_used_on_after_it_retired_has_another)
{
    warm_stream a = new_stream(), b = new_stream();
    void *memory[3] = {NULL, NULL, b};
    void *of_a;

    kind = add_bound();
    of_a = bind_to(kind, a);
    wt_ok(warm_stream_retire(runtime, a));
    wt_ok(warm_stream_synchronize(runtime, a));
    wt_threads(1, bind_in_thread, memory);
    ck_assert_ptr_eq(memory[0], of_a);
    ck_assert_ptr_ne(bind_to(kind, a), of_a);
}

WT_LOOP_TEST(test_A10_a_workspace_of_a_capture_serves_no_other_stream, 2)
{
    bool before = _i == 0; /* bound before, or during, the capture */
    warm_kind bound = add_bound();
    warm_graph graph = NULL;
    warm_stream a = new_stream();
    warm_private_pool pool = {0};
    void *handle = NULL, *of_a = NULL;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_handle_reserve(runtime, bound, 0, &handle));
    if (before) {
        of_a = bind_to(bound, a);
    }
    wt_ok(warm_capture_begin(runtime, a));
    if (!before) {
        of_a = bind_to(bound, a);
    }
    ck_assert_ptr_nonnull(of_a);
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    end_stream(a);
    for (int i = 0; i < 4; i++) {
        warm_stream next = new_stream();

        ck_assert_ptr_ne(bind_to(bound, next), of_a);
        end_stream(next);
    }
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_private_pool_release(runtime, pool));
}

/* A stream that joins a capture through an event is part of the graph, too. */
WT_LOOP_TEST(test_A10_a_workspace_that_joined_a_capture_serves_no_other_stream,
             3)
{
    warm_kind bound = add_bound();
    warm_graph graph = NULL;
    warm_stream a = new_stream(), b = new_stream(), next;
    warm_event event = NULL;
    void *of_b = bind_to(bound, b), *of_graph;

    wt_ok(warm_event_create(runtime, 0, &event));
    wt_ok(warm_capture_begin(runtime, a));
    wt_ok(warm_event_record(runtime, event, a));
    if (_i != 0) { /* looked at since the capture began, and not joined yet */
        ck_assert_ptr_eq(bind_to(bound, b), of_b);
    }
    wt_ok(warm_stream_wait_event(runtime, b, event));
    of_graph = _i != 2 ? bind_to(bound, b) : of_b; /* of a handle in use */
    ck_assert(of_graph != of_b || _i == 2);
    wt_ok(warm_event_record(runtime, event, b));
    wt_ok(warm_stream_wait_event(runtime, a, event));
    wt_ok(warm_capture_end(runtime, a, &graph));
    end_stream(b);
    next = new_stream();
    ck_assert_ptr_ne(bind_to(bound, next), of_graph);
    wt_ok(warm_event_destroy(runtime, event));
    wt_ok(warm_graph_destroy(runtime, graph));
}

WT_TEST(test_A10_a_capture_that_cannot_be_noted_does_not_begin)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream(), next;
    warm_graph graph = NULL;
    warm_status status;
    void *of_a = bind_to(bound, a);

    wt_ok(warm_testing_fail(runtime, "stream_info", 1, 0));
    status = warm_capture_begin(runtime, a);
    wt_ok(warm_testing_fail(runtime, "stream_info", 0, 0));
    if (status == WARM_OK) {
        wt_ok(warm_capture_end(runtime, a, &graph));
    }
    end_stream(a);
    next = new_stream();
    /* No graph, or none of its memory for another stream. */
    ck_assert(graph == NULL || bind_to(bound, next) != of_a);
    end_stream(next);
    wt_ok(warm_graph_destroy(runtime, graph));
}

static size_t larger_bytes(wm_kind *k, int device)
{
    return 4 * bound_bytes(k, device);
}

WT_TEST(test_A10_a_workspace_is_as_large_as_the_kind_wants)
{
    static wm_kind_ops ops;
    warm_kind small = add_bound(), large = -1;
    warm_stream a = new_stream(), b = new_stream(), c = new_stream();
    void *of_a;

    ops = bound_ops;
    ops.name = "larger";
    ops.workspace_bytes = larger_bytes;
    wt_ok(wm_kind_table_add(runtime->kinds, &ops, NULL, &large));
    of_a = bind_to(small, a);
    wt_ok(warm_stream_retire(runtime, a));
    wt_ok(warm_stream_synchronize(runtime, a));
    ck_assert_ptr_ne(bind_to(large, b), of_a); /* that is free, but small */
    ck_assert_uint_eq(last.bytes, 4 * WORKSPACE);
    ck_assert_ptr_eq(bind_to(small, c), of_a);
    ck_assert_ptr_ne(bind_to(large, c), of_a); /* that is c's, but small */
    ck_assert_uint_eq(last.bytes, 4 * WORKSPACE);
}

static unsigned warnings;

static void count_warnings(void *context, warm_log_level level,
                           const char *line)
{
    (void)context;
    (void)line;
    warnings += level == WARM_LOG_WARNING;
}

WT_TEST(test_A10_G6_short_memory_for_workspaces_is_told_once)
{
    warm_kind bound = add_bound();
    void *handle = NULL;

    wt_ok(warm_handle_reserve(runtime, bound, 0, &handle));
    warm_log_set(count_warnings, NULL);
    wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 1));
    for (int i = 0; i < 3; i++) {
        warm_stream stream = new_stream();

        ck_assert_ptr_null(bind_to(bound, stream));
        ck_assert_uint_eq(warnings, 1);
        end_stream(stream);
    }
    wt_ok(warm_testing_fail(runtime, "device_alloc", 0, 0));
    warm_log_set(NULL, NULL);
}

/* Its id would be that of the thread's device, not of the handle's. */
WT_TEST(test_A10_no_workspace_for_the_default_stream_of_another_device)
{
    warm_kind bound = add_bound();
    void *handle = NULL;

    if (runtime->devices < 2) {
        wt_skip("needs two devices"); /* two host devices are asked for */
    }
    ck_assert_ptr_nonnull(bind_to(bound, NULL));
    last.workspace = &last;
    wt_ok(warm_handle_reserve_on(runtime, bound, 1, NULL, &handle));
    ck_assert_ptr_null(last.workspace);
}

/* Pools of their own on the runtime's driver: after their end it can still be
 * asked what became of things. */
static struct wm_kind_table *open_pools(warm_kind *bound)
{
    static const wm_kind_hooks none;
    struct wm_kind_table *pools = NULL;
    wm_options options;

    wt_ok(wm_options_resolve(NULL, NULL, &options));
    wt_ok(wm_kind_table_open(runtime->driver, &options, wm_kinds_builtin, &none,
                             &pools));
    wt_ok(wm_kind_table_add(pools, &bound_ops, NULL, bound));
    return pools;
}

WT_LOOP_TEST(test_A10_G2_a_handle_in_use_keeps_its_workspace, 2)
{
    bool in_use = _i != 0;
    warm_kind bound = -1;
    struct wm_kind_table *pools = open_pools(&bound);
    warm_stream stream = new_stream();
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    void *handle = NULL, *memory;
    wm_workspace *workspace;
    uint64_t freed, left = 99;

    wt_ok(wm_driver_stream_info(runtime->driver, stream, &info));
    wt_ok(wm_pool_acquire(wm_kind_table_pool(pools, bound, 0), &handle));
    workspace = wm_workspaces_get(wm_kind_table_workspaces(pools, 0),
                                  &(wm_workspace_key){.handle = handle,
                                                      .stream = stream,
                                                      .stream_id = info.id},
                                  WORKSPACE);
    ck_assert_ptr_nonnull(workspace);
    memory = wm_workspace_memory(workspace);
    if (!in_use) {
        wm_pool_release(wm_kind_table_pool(pools, bound, 0), handle,
                        wm_clock_ns());
    }
    freed = wt_calls(runtime, "device_free");
    wm_driver_break_begin();
    wm_kind_table_close(pools, &left);
    wm_driver_break_end();
    freed = wt_calls(runtime, "device_free") - freed;
    ck_assert_uint_eq(left, in_use ? 1 : 0);
    ck_assert_uint_eq(freed, in_use ? 0 : 2); /* handle and workspace */
    if (in_use) {
        wt_ok(warm_device_free_uncached(runtime, 0, memory));
        wt_ok(warm_device_free_uncached(runtime, 0, handle));
    }
}

struct grower {
    wm_pool *pool;
    atomic_bool ready, go;
    warm_status status;
    void *handle;
};

static void *take_one(void *argument)
{
    struct grower *g = argument;

    g->ready = true;
    while (!g->go) {
    }
    g->status = wm_pool_acquire(g->pool, &g->handle);
    return NULL;
}

/* A handle comes back while another thread finds the arrays full. */
WT_TEST(test_A3_A14_a_pool_that_grows_keeps_what_comes_back)
{
    for (unsigned round = 0; round < wt_scaled(300); round++) {
        struct grower g = {.status = WARM_NOT_FOUND};
        warm_kind bound = -1;
        struct wm_kind_table *pools = open_pools(&bound);
        void *held[16] = {NULL};
        pthread_t thread;
        uint64_t left = 0;

        g.pool = wm_kind_table_pool(pools, bound, 0);
        for (int i = 0; i < 16; i++) {
            wt_ok(wm_pool_acquire(g.pool, &held[i]));
        }
        ck_assert_uint_eq(g.pool->room,
                          16); /* else all of this is for nought */
        pthread_create(&thread, NULL, take_one, &g);
        while (!g.ready) {
            sched_yield();
        }
        g.go = true;
        for (unsigned i = 0; i < round * 7 % 256; i++) {
            (void)atomic_load(&g.go); /* now a little earlier, now later */
        }
        wm_pool_release(g.pool, held[15], wm_clock_ns());
        pthread_join(thread, NULL);
        wt_ok(g.status);
        ck_assert_ptr_nonnull(g.handle);
        ck_assert(wm_pool_check(g.pool));
        for (int i = 0; i < 15; i++) {
            wm_pool_release(g.pool, held[i], wm_clock_ns());
        }
        wm_pool_release(g.pool, g.handle, wm_clock_ns());
        ck_assert(wm_pool_check(g.pool));
        wm_kind_table_close(pools, &left);
        ck_assert_uint_eq(left, 0);
    }
}

/* A graph may run on any stream, beside eager work on the one that captured
 * it: what the graph uses is not what the stream uses. */
WT_TEST(test_A10_eager_work_and_graphs_share_no_workspace)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    warm_private_pool pool = {0};
    void *eager, *of_graph;

    eager = bind_to(bound, a);
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, a));
    of_graph = bind_to(bound, a);
    ck_assert_ptr_nonnull(of_graph);
    ck_assert_ptr_ne(of_graph, eager);
    ck_assert_ptr_eq(bind_to(bound, a), of_graph);
    end_capture(a);
    ck_assert_ptr_eq(bind_to(bound, a), eager);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
    /* The next capture of the stream costs no memory again. */
    wt_ok(warm_capture_begin(runtime, a));
    ck_assert_ptr_eq(bind_to(bound, a), of_graph);
    end_capture(a);
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
}

/* A pool for a program's own ends has no graph. */
WT_TEST(test_A10_E8_workspace_of_a_capture_is_no_users_pools)
{
    warm_kind bound = add_bound();
    warm_graph graph = NULL;
    warm_stream a = new_stream();
    warm_private_pool pool = {0};

    wt_ok(warm_private_pool_begin(runtime, &pool, WARM_POOL_USER, NULL, NULL));
    wt_ok(warm_capture_begin(runtime, a));
    ck_assert_ptr_null(bind_to(bound, a));
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 0);
    wt_ok(warm_graph_destroy(runtime, graph));
}

/* Graphs of two pools may run at once; those of one never do. What a pool's
 * graphs had goes with it, and nothing else. */
WT_LOOP_TEST(test_A10_E3_graphs_of_two_pools_share_no_workspace, 2)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    warm_private_pool pool[2] = {{0}};
    void *of_pool[2] = {NULL, NULL};

    for (int i = 0; i < 4; i++) {
        void *got;

        wt_ok(warm_private_pool_begin(runtime, &pool[i % 2], 0, NULL, NULL));
        wt_ok(warm_capture_begin(runtime, a));
        got = bind_to(bound, a);
        ck_assert(of_pool[i % 2] == NULL || got == of_pool[i % 2]);
        of_pool[i % 2] = got;
        end_capture(a);
        wt_ok(warm_private_pool_end(runtime, pool[i % 2]));
    }
    ck_assert_ptr_ne(of_pool[0], of_pool[1]);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
    /* Not even if the stream goes while it captures (_i 1). */
    if (_i != 0) {
        wt_ok(warm_capture_begin(runtime, a));
        wt_ok(warm_thread_release(runtime));
        end_stream(a);
        a = new_stream();
    }
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_private_pool_release(runtime, pool[i]));
        wt_ok(warm_private_pool_release(runtime, pool[i]));
        ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces),
                         _i != 0 ? 1 - i : 1);
    }
    /* The handle was bound to that of the last until now. */
    (void)bind_to(bound, a);
    trim_to(bound, 9, 0, 1);
}

/* Bound before the captures, and not again in them: graphs of several pools
 * have the workspace, and it goes with the last; with none if one graph is of
 * no pool (_i 1) or there are more pools than are counted (_i 2). */
WT_LOOP_TEST(test_A10_E3_a_workspace_of_several_pools_goes_with_the_last, 3)
{
    enum { MOST = 6 };
    int pools = _i == 2 ? MOST : 3;
    warm_kind bound = add_bound();
    warm_stream a = new_stream(), next;
    warm_private_pool pool[MOST] = {{0}};
    void *of_a = bind_to(bound, a);

    for (int i = 0; i < pools + 1; i++) {

        if (i < pools) {
            wt_ok(warm_private_pool_begin(runtime, &pool[i], 0, NULL, NULL));
        } else if (_i != 1) {
            break;
        }
        wt_ok(warm_capture_begin(runtime, a));
        end_capture(a);
        if (i < pools) {
            wt_ok(warm_private_pool_end(runtime, pool[i]));
        }
    }
    end_stream(a);
    next = new_stream();
    for (int i = 0; i < pools; i++) {
        ck_assert_int_ge(wt_stat(runtime, bound, 0, workspaces), 1);
        ck_assert_ptr_ne(bind_to(bound, next), of_a);
        end_stream(next);
        trim_to(bound, 9, 0, 1);
        next = new_stream();
        wt_ok(warm_private_pool_release(runtime, pool[i]));
    }
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), _i != 0);
}

/* As long as the pool, whatever becomes of the thread and of its handle; and a
 * new handle at the old one's address is another one. */
WT_TEST(test_A10_E3_workspace_of_a_graph_outlives_its_handle)
{
    warm_kind light = add_light();
    warm_stream a = new_stream();
    warm_private_pool pool = {0};
    warm_lease lease = {0};
    warm_graph graph = NULL;
    void *of_graph[3] = {NULL};

    for (int i = 0; i < 3; i++) {
        wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
        wt_ok(warm_capture_begin(runtime, a));
        of_graph[i] = lease_to(light, a, &lease);
        wt_ok(warm_capture_end(runtime, a, &graph));
        wt_ok(warm_graph_destroy(runtime, graph));
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_handle_return(runtime, lease));
        for (int k = 0; k < i; k++) {
            ck_assert_ptr_ne(of_graph[i], of_graph[k]);
        }
        wt_ok(warm_handle_trim(runtime, light, 0, 0, 0, NULL));
        ck_assert_int_eq(wt_stat(runtime, light, 0, idle), 0);
        ck_assert_int_eq(wt_stat(runtime, light, 0, workspaces), i + 1);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(wt_stat(runtime, light, 0, workspaces), 3);
        wt_ok(warm_private_pool_release(runtime, pool));
    }
    ck_assert_int_eq(wt_stat(runtime, light, 0, workspaces), 0);
}

/* The graph of a stream that is gone keeps its workspace for itself, also if
 * the stream went while it captured (_i 1). */
WT_LOOP_TEST(
    test_A10_B6_a_capture_at_an_old_address_gets_a_workspace_of_its_own, 2)
{
    warm_kind bound = add_bound();
    warm_private_pool pool = {0};
    warm_graph graph[8] = {NULL};
    void *of_graph[8] = {NULL};

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    for (int i = 0; i < 8; i++) {
        warm_stream a = new_stream();

        wt_ok(warm_capture_begin(runtime, a));
        of_graph[i] = bind_to(bound, a);
        if (_i == 0) {
            wt_ok(warm_capture_end(runtime, a, &graph[i]));
        }
        end_stream(a);
        for (int k = 0; k < i; k++) {
            ck_assert_ptr_ne(of_graph[i], of_graph[k]);
        }
    }
    for (int i = 0; i < 8; i++) {
        wt_ok(warm_graph_destroy(runtime, graph[i]));
    }
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
}

static uint64_t streams_ended;

static warm_status note_destroy(wm_kind *k, int device, void *handle)
{
    streams_ended = wt_calls(runtime, "stream_destroy");
    return bound_destroy(k, device, handle);
}

/* A library may look at the stream that its handle is bound to. */
WT_TEST(test_A9_G2_streams_are_destroyed_after_what_is_bound_to_them)
{
    static wm_kind_ops ops;
    warm_kind bound = -1, noting = -1;
    struct wm_kind_table *pools = open_pools(&bound);
    void *handle = NULL, *stream = NULL;
    uint64_t before = wt_calls(runtime, "stream_destroy"), left;

    ops = bound_ops;
    ops.name = "noting";
    ops.destroy = note_destroy;
    wt_ok(wm_kind_table_add(pools, &ops, NULL, &noting));
    wt_ok(wm_pool_acquire(wm_kind_table_pool(pools, WARM_KIND_STREAM, 0),
                          &stream));
    wt_ok(wm_pool_acquire(wm_kind_table_pool(pools, noting, 0), &handle));
    wm_pool_release(wm_kind_table_pool(pools, WARM_KIND_STREAM, 0), stream,
                    wm_clock_ns());
    wm_pool_release(wm_kind_table_pool(pools, noting, 0), handle,
                    wm_clock_ns());
    wm_kind_table_close(pools, &left);
    ck_assert_uint_eq(streams_ended, before);
    ck_assert_uint_eq(wt_calls(runtime, "stream_destroy"), before + 1);
}

WT_TEST(test_A10_handles_are_unbound_in_any_order)
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, 0);
    struct wm_unbinding u[3];

    for (int i = 0; i < 3; i++) {
        wt_ok(wm_pool_acquire(pool, &u[i].handle));
    }
    wm_lock_acquire(&pool->lock);
    for (int i = 0; i < 3; i++) {
        wm_pool_begin_unbinding_locked(pool, &u[i]);
    }
    wm_pool_end_unbinding_locked(pool, &u[0]);
    ck_assert_ptr_eq(pool->unbinding, &u[2]);
    wm_pool_end_unbinding_locked(pool, &u[1]);
    wm_pool_end_unbinding_locked(pool, &u[2]);
    ck_assert_ptr_null(pool->unbinding);
    wm_lock_release(&pool->lock);
    for (int i = 0; i < 3; i++) {
        wm_pool_release(pool, u[i].handle, wm_clock_ns());
    }
}

WT_TEST(test_A10_without_memory_the_library_uses_its_own)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    void *handle = NULL;
    warm_error error = {.size = sizeof error};

    wm_error_restore(&error);
    wt_ok(warm_handle_reserve(runtime, bound, 0, &handle));
    wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 1));
    ck_assert_ptr_null(bind_to(bound, a));
    ck_assert_uint_eq(last.bytes, 0);
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_OK); /* the call did not fail */
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 0);
    wt_ok(warm_testing_fail(runtime, "device_alloc", 0, 0));
}

static const char *const workspace_calls[] = {
    "capture_mode", "device_alloc", "stream_capture", "event_create",
    "event_mark",   "event_query",  "stream_info",    "current_device"};

/* Whatever fails, no two streams alive at once get the same memory. */
WT_LOOP_TEST(test_A10_A14_workspaces_stay_apart_after_every_fault,
             2 * sizeof workspace_calls / sizeof workspace_calls[0])
{
    const char *call = workspace_calls[_i / 2];
    bool gated = wt_on_host(); /* CUDA waits for them where it frees */
    warm_kind bound = add_bound();

    for (unsigned n = 1; n <= 6; n++) {
        warm_stream s[3];
        wt_gate *gate[3];
        void *memory[3];

        for (int k = 0; k < 3; k++) {
            s[k] = new_stream();
        }
        for (int k = 0; k < 3; k++) { /* no event passes */
            gate[k] = gated ? wt_gate_close(runtime, s[k]) : NULL;
        }
        wt_ok(warm_testing_fail(runtime, call, n, _i % 2));
        for (int k = 0; k < 3; k++) {
            uint64_t waits = wt_calls(runtime, "stream_wait_event");
            void *handle = NULL;
            warm_status status;

            last.workspace = NULL;
            status = warm_handle_reserve_on(runtime, bound, 0, s[k], &handle);
            memory[k] = status == WARM_OK ? last.workspace : NULL;
            for (int j = 0; j < k; j++) { /* unless it waits for that work */
                ck_assert(!gated || memory[k] == NULL ||
                          memory[k] != memory[j] ||
                          wt_calls(runtime, "stream_wait_event") > waits);
            }
        }
        for (int k = 0; k < 3 && gated; k++) {
            wt_gate_open(gate[k]);
        }
        for (int k = 0; k < 2; k++) { /* s[2] is used on */
            warm_stream next = NULL;

            if (warm_stream_retire(runtime, s[k]) == WARM_OK &&
                warm_stream_create(runtime, 0, &next) == WARM_OK) {
                void *handle = NULL;

                last.workspace = NULL;
                if (warm_handle_reserve_on(runtime, bound, 0, next, &handle) ==
                    WARM_OK) {
                    ck_assert(memory[2] == NULL || last.workspace != memory[2]);
                }
                (void)warm_stream_destroy(runtime, next);
            }
        }
        wt_ok(warm_testing_fail(runtime, call, 0, 0));
        (void)wt_relaxed_end();
        for (int k = 0; k < 3; k++) {
            end_stream(s[k]);
        }
        ck_assert(wm_kind_table_check(runtime->kinds));
    }
}

/* Three handles that have been idle since 10, 20 and 30. */
static void idle_since(void **handle)
{
    warm_lease lease[3];

    wm_clock_set(set_clock);
    now = 1;
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_handle_lease(runtime, kind, 0, &lease[i], &handle[i]));
    }
    for (int i = 0; i < 3; i++) {
        now += now == 1 ? 9 : 10;
        wt_ok(warm_handle_return(runtime, lease[i]));
    }
}

static const struct {
    uint64_t now, keep, idle_ns, destroyed;
} ages[] = {
    {40, 0, 31, 0},         {40, 0, 30, 1}, {40, 0, 20, 2}, {40, 0, 11, 2},
    {40, 0, 10, 3},         {40, 2, 10, 1}, {40, 3, 0, 0},  {40, 1, 25, 1},
    {40, 0, UINT64_MAX, 0}, {9, 0, 0, 0}, /* came back since */
    {20, 0, 0, 2},          {20, 0, 1, 1},
};

WT_LOOP_TEST(test_A12_trim_goes_by_age, sizeof ages / sizeof ages[0])
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, 0);
    uint64_t destroyed = 99;
    void *handle[3];

    idle_since(handle);
    now = ages[_i].now;
    wt_ok(warm_handle_trim(runtime, kind, 0, ages[_i].keep, ages[_i].idle_ns,
                           &destroyed));
    wm_clock_set(NULL);
    ck_assert_uint_eq(destroyed, ages[_i].destroyed);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(wm_pool_owns(pool, handle[i]) == (i >= destroyed));
    }
    ck_assert(wm_pool_check(pool));
}

/* Bound by a lease, which is over; the workspace is its stream's. */
static warm_stream stream_with_workspace(warm_kind bound)
{
    warm_stream stream = new_stream();
    warm_lease lease = {0};
    void *handle = NULL;

    last.workspace = NULL;
    wt_ok(warm_handle_lease_on(runtime, bound, 0, stream, &lease, &handle));
    ck_assert_ptr_nonnull(last.workspace);
    wt_ok(warm_handle_return(runtime, lease));
    return stream;
}

/* Below the limit of a device's memory they count as what is held of it. */
WT_TEST(test_A10_C8_workspaces_count_below_the_limit)
{
    enum { LIMIT = 8 << 20 };
    warm_device_info info = {.size = sizeof info};
    warm_kind light = add_light();
    warm_stream a = new_stream();
    warm_lease lease = {0};
    void *block = NULL;

    wt_ok(warm_device_get_info(runtime, 0, &info));
    wt_limit(runtime, LIMIT);
    ck_assert_ptr_nonnull(lease_to(light, a, &lease));
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_device_alloc(runtime, 0, a, LIMIT, &block));
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_stream_synchronize(runtime, a));
    trim_to(light, 0, 0, 0);
    wt_ok(warm_device_alloc(runtime, 0, a, LIMIT, &block));
    ck_assert_ptr_null(lease_to(light, a, &lease)); /* no room */
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_free(block)); /* which is idle from now on */
    ck_assert_ptr_nonnull(lease_to(light, a, &lease));
    wt_ok(warm_handle_return(runtime, lease));
}

/* ---- handles and streams that go ----------------------------------------- */

/* Idle ones stay in their order, and are called about only if bound to it. */
WT_TEST(test_A10_B6_idle_handles_are_unbound_where_they_are)
{
    warm_stream a = new_stream(), b = new_stream();
    warm_stream on[] = {b, a, b, a, NULL};
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, 0);
    warm_lease lease[5];
    void *handle[5];
    unsigned binds;

    for (int i = 0; i < 5; i++) {
        wt_ok(warm_handle_lease_on(runtime, kind, 0, on[i], &lease[i],
                                   &handle[i]));
    }
    wm_clock_set(set_clock);
    for (int i = 0; i < 5; i++) {
        now = 10 + (unsigned)i;
        wt_ok(warm_handle_return(runtime, lease[i]));
    }
    wm_clock_set(NULL);
    binds = toy.binds;
    wt_ok(warm_stream_retire(runtime, a));
    ck_assert_uint_eq(toy.binds, binds + 2);
    wt_ok(warm_stream_retire(runtime, a)); /* there is nothing left to do */
    ck_assert_uint_eq(toy.binds, binds + 2);
    for (unsigned i = 0; i < 5; i++) {
        const wm_pool_idle *idle =
            &pool->idle[(pool->oldest + i) & (pool->room - 1)];

        ck_assert_ptr_eq(idle->handle, handle[i]);
        ck_assert_uint_eq(idle->since_ns, 10 + i);
        ck_assert_ptr_eq(((wt_toy_handle *)handle[i])->stream,
                         on[i] == a ? NULL : on[i]);
    }
    ck_assert(wm_pool_check(pool));
    end_stream(a);
    end_stream(b);
    ck_assert_uint_eq(toy.binds, binds + 4);
}

/* A handle that is leased unbound, or bound to another stream later, is none of
 * an earlier stream's. */
WT_TEST(test_A13_B6_what_is_bound_elsewhere_is_left_alone)
{
    warm_stream a = new_stream(), b = new_stream();
    warm_lease lease = {0};
    void *handle = NULL;
    unsigned binds;

    wt_ok(warm_handle_lease_on(runtime, kind, 0, a, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease, &handle));
    binds = toy.binds;
    end_stream(a);
    ck_assert_uint_eq(toy.binds, binds);
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_handle_lease_on(runtime, kind, 0, b, &lease, &handle));
    wt_ok(warm_stream_retire(runtime, b)); /* on lease: that must not be used */
    ck_assert_uint_eq(toy.binds, binds + 2);
    wt_ok(warm_handle_return(runtime, lease));
    end_stream(b);
    ck_assert_uint_eq(toy.binds, binds + 2);
}

/* The toy with another bind. */
static warm_kind_ops bound_by(int (*bind)(void *, int, void *, warm_stream),
                              const char *name)
{
    return (warm_kind_ops){.size = sizeof(warm_kind_ops),
                           .name = name,
                           .context = &toy,
                           .create = wt_toy_create,
                           .destroy = wt_toy_destroy,
                           .bind_stream = bind};
}

/* A lease that ends while its handle is unbound: once in the ring, and in
 * nobody's hands until then; gone if it could not be unbound (_i 1). */
static warm_lease lease_to_end;
static long idle_meanwhile;

static int end_lease_and_bind(void *context, int device, void *handle,
                              warm_stream stream)
{
    if (stream == NULL) {
        void *other = NULL;
        warm_lease next = {0};

        if (warm_handle_return(runtime, lease_to_end) != WARM_OK ||
            warm_handle_lease(runtime, kind, 0, &next, &other) != WARM_OK ||
            other == handle || warm_handle_return(runtime, next) != WARM_OK) {
            return 1;
        }
        idle_meanwhile = wt_stat(runtime, kind, 0, idle);
    }
    return wt_toy_bind(context, device, handle, stream);
}

WT_LOOP_TEST(test_A13_B6_a_lease_may_end_while_its_handle_is_unbound, 2)
{
    warm_kind_ops ops = bound_by(end_lease_and_bind, "ends");
    warm_stream a = new_stream();
    void *handle = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &kind));
    wt_ok(warm_handle_lease_on(runtime, kind, 0, a, &lease_to_end, &handle));
    wt_toy_fail(&toy, WT_BIND, (unsigned)_i, false);
    end_stream(a);
    ck_assert_int_eq(idle_meanwhile, 2); /* as if it were */
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 2 - _i);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), _i);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 0);
    ck_assert(wt_balanced(runtime, kind, 0));
}

static warm_stream inner_stream;

/* Binds the lease again in its bind, and ends it in the inner one. */
static int nest_and_end(void *context, int device, void *handle,
                        warm_stream stream)
{
    if (stream == inner_stream) {
        return warm_handle_return(runtime, lease_to_end) != WARM_OK;
    }
    if (stream != NULL) {
        if (warm_lease_bind(runtime, lease_to_end, inner_stream) != WARM_OK ||
            wm_kind_table_pool(runtime->kinds, kind, 0)->stats.idle != 0) {
            return 1;
        }
    }
    return wt_toy_bind(context, device, handle, stream);
}

WT_TEST(test_A13_a_lease_may_end_inside_the_inner_of_two_binds)
{
    warm_kind_ops ops = bound_by(nest_and_end, "nests");
    warm_stream outer = new_stream();
    void *handle = NULL;

    inner_stream = new_stream();
    wt_ok(warm_kind_register(runtime, &ops, &kind));
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease_to_end, &handle));
    wt_ok(warm_lease_bind(runtime, lease_to_end, outer));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 0);
    ck_assert(wt_balanced(runtime, kind, 0));
}

/* While one thread binds a lease, another one retires a stream that a nested
 * bind has left on the handle. */
static struct {
    warm_stream outer, nested;
    atomic_bool binds, overlaps, over;
} beside;

static int bind_beside(void *context, int device, void *handle,
                       warm_stream stream)
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, 0);

    if (stream == beside.outer) {
        (void)warm_lease_bind(runtime, lease_to_end, beside.nested);
        atomic_store(&beside.binds, true);
        while (atomic_load(&pool->unbound.waiters) == 0 &&
               !atomic_load(&beside.overlaps)) {
            sched_yield();
        }
        atomic_store(&beside.over, true);
    } else if (stream == NULL) {
        atomic_store(&beside.overlaps,
                     atomic_load(&beside.binds) && !atomic_load(&beside.over));
    }
    return wt_toy_bind(context, device, handle, stream);
}

static void bind_or_retire(void *argument, unsigned index)
{
    warm_status *status = argument;

    if (index == 0) {
        status[0] = warm_lease_bind(runtime, lease_to_end, beside.outer);
    } else {
        while (!atomic_load(&beside.binds)) {
            sched_yield();
        }
        status[1] = warm_stream_retire(runtime, beside.nested);
    }
}

WT_TEST(test_A13_B6_two_threads_never_bind_one_lease_at_once)
{
    warm_kind_ops ops = bound_by(bind_beside, "beside");
    warm_status status[2] = {WARM_INTERNAL, WARM_INTERNAL};
    void *handle = NULL;

    beside.outer = new_stream();
    beside.nested = new_stream();
    atomic_store(&beside.binds, false);
    atomic_store(&beside.overlaps, false);
    atomic_store(&beside.over, false);
    wt_ok(warm_kind_register(runtime, &ops, &kind));
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease_to_end, &handle));
    wt_threads(2, bind_or_retire, status);
    wt_ok(status[0]);
    wt_ok(status[1]);
    ck_assert(!atomic_load(&beside.overlaps));
    wt_ok(warm_handle_return(runtime, lease_to_end));
    ck_assert(wt_balanced(runtime, kind, 0));
}

/* The first creation fails since the device is reset; the other thread waits
 * for it, and does not create another handle. */
static int reset_and_fail(void *context, int device, void **handle)
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, device);

    (void)handle;
    toy.creates++;
    while (atomic_load(&pool->first_ended.waiters) == 0) {
        sched_yield();
    }
    wm_driver_lose(runtime->driver, device);
    (void)context;
    return WT_TOY_CODE;
}

static void reserve_first(void *argument, unsigned index)
{
    warm_status *status = argument;
    void *handle = NULL;

    status[index] = warm_handle_reserve(runtime, kind, 0, &handle);
}

WT_TEST(test_A8_A17_nothing_is_created_on_a_device_that_was_reset_meanwhile)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "resets",
                         .context = &toy,
                         .create = reset_and_fail,
                         .destroy = wt_toy_destroy};
    warm_status status[2] = {WARM_OK, WARM_OK};

    toy.creates = 0;
    wt_ok(warm_kind_register(runtime, &ops, &kind));
    wt_threads(2, reserve_first, status);
    ck_assert_int_ne(status[0], WARM_OK);
    ck_assert_int_ne(status[1], WARM_OK);
    ck_assert_uint_eq(toy.creates, 1);
}

static int lose_and_fail(void *context, int device, void *handle)
{
    wm_driver_lose(runtime->driver, device);
    (void)context;
    (void)handle;
    return WT_TOY_CODE;
}

/* The reset of a handle fails because its device was reset. */
WT_TEST(test_A17_a_handle_whose_device_is_lost_meanwhile_is_not_destroyed)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "loses",
                         .context = &toy,
                         .create = wt_toy_create,
                         .destroy = wt_toy_destroy,
                         .reset = lose_and_fail};
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &kind));
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    wt_fails(WARM_DRIVER_ERROR,
             warm_handle_lease(runtime, kind, 0, &lease, &handle));
    ck_assert_uint_eq(toy.destroys, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, lost), 1);
    wt_toy_free_left(&toy);
}

/* Another thread notices the reset once this one has looked. */
WT_TEST(test_A17_an_idle_handle_of_a_lost_device_is_not_handed_out)
{
    wm_pool *pool;
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_handle_lease(runtime, kind, 0, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    pool = wm_kind_table_pool(runtime->kinds, kind, 0);
    wm_driver_lose(runtime->driver, 0);
    wt_fails(WARM_DRIVER_ERROR, wm_pool_acquire(pool, &handle));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, lost), 1);
    wt_toy_free_left(&toy);
}

static int create_alike(void *context, int device, void **handle)
{
    (void)device;
    *handle = context;
    return 0;
}

static int destroy_alike(void *context, int device, void *handle)
{
    return context != handle || device < 0;
}

/* No call has looked at the lost device's pool since. */
WT_TEST(test_A17_a_lease_is_looked_for_on_the_devices_that_are_left)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "alike",
                         .context = &toy,
                         .create = create_alike,
                         .destroy = destroy_alike};
    warm_lease lease[2], found = {0};
    void *handle;

    if (runtime->devices < 2) {
        wt_skip("needs two devices"); /* two host devices are asked for */
    }
    wt_ok(warm_kind_register(runtime, &ops, &kind));
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease[0], &handle));
    wm_driver_lose(runtime->driver, 0);
    wt_ok(warm_handle_lease(runtime, kind, 1, &lease[1], &handle));
    wt_ok(warm_handle_find_lease(runtime, kind, handle, &found));
    ck_assert_uint_eq(found.number, lease[1].number);
    wt_ok(warm_handle_return(runtime, lease[0]));
    wt_ok(warm_handle_return(runtime, lease[1]));
}

/* It is destroyed while its stream is there; not one that is on lease. */
WT_LOOP_TEST(test_A10_B6_a_handle_that_cannot_be_unbound, 2)
{
    bool leased = _i != 0;
    warm_stream a = new_stream();
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_handle_lease_on(runtime, kind, 0, a, &lease, &handle));
    if (!leased) {
        wt_ok(warm_handle_return(runtime, lease));
    }
    wt_toy_fail(&toy, WT_BIND, 1, true);
    end_stream(a);
    wt_toy_fail(&toy, WT_BIND, 0, false);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), !leased);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), leased);
    if (leased) {
        wt_ok(warm_handle_return(runtime, lease));
    }
    ck_assert(wt_balanced(runtime, kind, 0));
}

/* Of an idle handle a trim takes what it has, without a call of the library:
 * the next thread resets the handle first. */
WT_TEST(test_A12_A10_trim_takes_the_workspaces_of_idle_handles)
{
    warm_kind bound = add_bound();
    warm_stream a = new_stream();
    warm_lease lease[2] = {{0}};
    void *handle = NULL;
    long binds;

    wm_clock_set(set_clock);
    now = 100;
    ck_assert_ptr_nonnull(lease_to(bound, a, &lease[0]));
    ck_assert_ptr_nonnull(lease_to(bound, NULL, &lease[1]));
    wt_ok(warm_handle_return(runtime, lease[0]));
    now = 110;
    wt_ok(warm_handle_return(runtime, lease[1]));
    now = 150;
    binds = wt_stat(runtime, bound, 0, binds);
    trim_to(bound, 9, 51, 2);
    trim_to(bound, 9, 50, 1);
    trim_to(bound, 9, 0, 0);
    wm_clock_set(NULL);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, binds), binds);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, idle), 2);
    wt_ok(warm_handle_lease(runtime, bound, 0, &lease[1], &handle));
    ck_assert_ptr_null(last.stream); /* taken off before it is handed out */
    ck_assert_ptr_null(last.workspace);
    wt_ok(warm_handle_return(runtime, lease[1]));
    ck_assert_ptr_nonnull(lease_to(bound, a, &lease[0]));
    wt_ok(warm_handle_return(runtime, lease[0]));
}

WT_TEST(test_A12_A10_trim_frees_workspaces_of_retired_streams)
{
    warm_kind bound = add_bound();
    warm_stream a = stream_with_workspace(bound);
    warm_stream b = stream_with_workspace(bound);
    wt_gate *gate = NULL;
    uint64_t freed, events;

    if (wt_on_host()) {
        gate = wt_gate_close(runtime, a);
        wt_gate_await(gate);
    }
    wm_clock_set(set_clock);
    now = 100;
    wt_ok(warm_stream_retire(runtime, a));
    now = 150;
    freed = wt_calls(runtime, "device_free");
    if (wt_on_host()) { /* its work goes on */
        trim_to(bound, 9, 51, 2);
        wt_gate_open(gate);
    }
    wt_ok(warm_stream_synchronize(runtime, a));
    wt_ok(warm_handle_trim(runtime, bound, 0, 9, 51, NULL)); /* too young */
    ck_assert_uint_eq(wt_calls(runtime, "device_free"), freed);
    events = wt_calls(runtime, "event_destroy");
    wt_ok(warm_handle_trim(runtime, bound, 0, 9, 50, NULL));
    wm_clock_set(NULL);
    ck_assert_uint_eq(wt_calls(runtime, "device_free"), freed + 1);
    ck_assert_uint_ge(wt_calls(runtime, "event_destroy"), events + 1);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 1); /* of b */
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspace_bytes), WORKSPACE);
    end_stream(b);
    /* One that the driver does not take back is kept, and asked about once. */
    wt_ok(warm_testing_fail(runtime, "device_free", 1, 0));
    trim_to(bound, 9, 0, 1);
    freed = wt_calls(runtime, "device_free");
    wt_ok(warm_handle_trim(runtime, bound, 0, 9, 0, NULL));
    ck_assert_uint_eq(wt_calls(runtime, "device_free"), freed);
    end_stream(a);
    (void)stream_with_workspace(bound);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, workspaces), 2);
}

/* However many streams that are stuck retired after it. */
WT_LOOP_TEST(test_A10_A12_a_passed_workspace_is_found_behind_many_that_are_not,
             wt_on_host())
{
    enum { STUCK = 40 };
    warm_kind bound = add_bound();
    warm_stream passed = stream_with_workspace(bound);
    warm_stream stuck[STUCK];

    limit_workspaces(STUCK +
                     1); /* else streams would wait for the stuck ones */

    for (int i = 0; i < STUCK; i++) {
        stuck[i] = stream_with_workspace(bound);
        wt_ok(warm_testing_hold(runtime, stuck[i]));
        wt_ok(warm_stream_retire(runtime, stuck[i]));
    }
    wt_ok(warm_stream_retire(runtime, passed));
    wt_ok(warm_stream_synchronize(runtime, passed));
    trim_to(bound, 9, 0, STUCK);
    for (int i = 0; i < STUCK; i++) {
        wt_ok(warm_testing_resume(runtime, stuck[i]));
        wt_ok(warm_stream_synchronize(runtime, stuck[i]));
        end_stream(stuck[i]);
    }
    trim_to(bound, 9, 0, 0);
}

WT_TEST(test_A12_A10_trim_leaves_workspaces_of_graphs)
{
    warm_kind bound = add_bound();
    warm_graph graph = NULL;
    warm_lease lease = {0};
    warm_stream a = stream_with_workspace(bound);

    /* A handle that nobody uses has no part in the capture. */
    wt_ok(warm_capture_begin(runtime, a));
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    trim_to(bound, 0, 0, 0);
    (void)lease_to(bound, a, &lease);
    wt_ok(warm_capture_begin(runtime, a));
    wt_ok(warm_capture_end(runtime, a, &graph));
    wt_ok(warm_handle_return(runtime, lease));
    end_stream(a);
    trim_to(bound, 0, 0, 1);
    ck_assert_int_eq(wt_stat(runtime, bound, 0, idle), 0);
    wt_ok(warm_graph_destroy(runtime, graph));
}

static void *make_one_ahead(void *argument)
{
    struct worker *worker = argument;

    worker->tid = (int)syscall(SYS_gettid);
    worker->status = (int)warm_handle_prewarm(runtime, kind, 0, 1, 0);
    return NULL;
}

/* One is made first, ahead or for a thread; who comes meanwhile waits for it,
 * and makes another one only if it needs to. */
WT_LOOP_TEST(test_A4_A8_A11_a_first_creation_ahead_is_alone_too, 2)
{
    bool ahead = _i == 0;
    struct worker workers[2];

    wt_toy_close_gate(&toy);
    start(&workers[0], ahead ? make_one_ahead : work);
    wt_toy_await(&toy, 1);
    start(&workers[1], ahead ? work : make_one_ahead);
    await_sleep(workers, 2);
    ck_assert_uint_eq(toy.creates, 1);
    wt_toy_open_gate(&toy);
    for (int i = 0; i < 2; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_int_eq(workers[i].status, WARM_OK);
    }
    ck_assert_int_ge(wt_stat(runtime, kind, 0, idle), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 1);
    /* Who waited takes what was made ahead; for one that is held another is
     * made, unless its thread has ended by then. */
    ck_assert_int_le(wt_stat(runtime, kind, 0, created), ahead ? 1 : 2);
}

/* With leases, and what is being made ahead while exit begins. */
WT_TEST(test_A6_A11_A13_leases_count_as_leaked_at_exit)
{
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_handle_lease(runtime, kind, 0, &lease, &handle));
    wt_toy_close_gate(&toy);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 1, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&toy, 1);
    ck_assert_uint_eq(wm_kind_table_leak(runtime->kinds), 1);
    wt_toy_open_gate(&toy);
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leaked), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 0);
    wt_fails(WARM_EXITING, warm_handle_return(runtime, lease));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert(wt_balanced(runtime, kind, 0));
    ck_assert_uint_eq(toy.destroys, 0);
    wt_toy_free_left(&toy);
}

/* Metadata fails while handles are made ahead and leased. */
WT_LOOP_TEST(test_A11_A13_counters_balance_after_every_metadata_fault, 2)
{
    enum { MANY = 40 };
    warm_lease lease[MANY];
    void *handle = NULL;
    unsigned n = 0, leased;
    warm_status status = WARM_OUT_OF_MEMORY;

    while (status != WARM_OK && ++n < 50) {
        wm_meta_fail(n, _i != 0);
        status = warm_handle_prewarm(runtime, kind, 0, MANY / 2, 0);
        for (leased = 0; status == WARM_OK && leased < MANY; leased++) {
            status =
                warm_handle_lease(runtime, kind, 0, &lease[leased], &handle);
        }
        leased -= status != WARM_OK && leased > 0;
        wm_meta_fail(0, false);
        ck_assert(status == WARM_OK || status == WARM_OUT_OF_MEMORY);
        ck_assert(wm_kind_table_check(runtime->kinds));
        ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), leased);
        while (leased > 0) {
            wt_ok(warm_handle_return(runtime, lease[--leased]));
        }
        ck_assert(wt_balanced(runtime, kind, 0));
    }
    ck_assert_uint_ge(n, 3);
    ck_assert_uint_lt(n, 50);
}
