/* check_workspace_bound.c: how many workspaces there are, and which one a
 * handle gets (row A10), with a kind whose handles say what they were bound to
 * last.
 *
 * backends: host standin */
#include "wt.h"

#include "handles/kind_table.h"
#include "runtime/base/clock.h"
#include "runtime/runtime.h"
#include "tests/unit/handles/bound_kind.h"
#include "wt_kind.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static warm_runtime *runtime;
static warm_kind kind;
static warm_stream a, b, c;

static void two_devices(void)
{
    setenv("STANDIN_DEVICES", "2", 1);
}

/* What a test has held up; tests may share a process. */
static void forget_held(void);

static void setup(void)
{
    warm_options options = {.size = sizeof options, .host_devices = 2};

    forget_held();
    runtime = wt_runtime(wt_on_host() ? &options : NULL);
    wt_ok(wm_kind_table_add(runtime->kinds, &bound_ops, NULL, &kind));
    a = wt_stream(runtime, 0);
    b = wt_stream(runtime, 0);
    c = wt_stream(runtime, 0);
}

static void teardown(void)
{
    wm_clock_set(NULL);
    wt_ok(warm_stream_destroy(runtime, a));
    wt_ok(warm_stream_destroy(runtime, b));
    wt_ok(warm_stream_destroy(runtime, c));
    ck_assert(wm_kind_table_check(runtime->kinds));
    wt_runtime_end(runtime);
}

static void limit_workspaces(int count)
{
    wm_kind_table_workspaces(runtime->kinds, 0)->limit =
        (size_t)count * WORKSPACE;
}

static uint64_t now;

static uint64_t tick(void)
{
    return now += 10;
}

/* What the thread's handle works with after it was reserved for the stream. */
static void *bind_to(warm_stream stream)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
    return last.workspace;
}

static void *lease_to(warm_stream stream, warm_lease *lease, void **handle)
{
    last.workspace = NULL;
    wt_ok(warm_handle_lease_on(runtime, kind, 0, stream, lease, handle));
    return last.workspace;
}

static long workspaces(void)
{
    return wt_stat(runtime, kind, 0, workspaces);
}

WT_CASE("workspace_bound", .once = two_devices, .setup = setup,
        .teardown = teardown);

/* Which may end unheard of, and so do not count. */
WT_TEST(test_A10_streams_of_no_known_end_share_three_workspaces)
{
    enum { MANY = 10 };
    warm_stream foreign[MANY];

    for (int i = 0; i < MANY; i++) {
        wt_ok(wm_driver_stream_create(runtime->driver, 0, &foreign[i]));
        ck_assert_ptr_nonnull(bind_to(foreign[i]));
        ck_assert_int_le(workspaces(), 3);
    }
    wt_ok(warm_thread_release(runtime));
    for (int i = 0; i < MANY; i++) {
        wt_ok(warm_stream_retire(runtime, foreign[i]));
        wt_ok(wm_driver_stream_destroy(runtime->driver, foreign[i]));
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_above), 0);
}

/* A thread that alternates between more streams than it remembers waits for
 * none: each known stream counts, beside the others. */
WT_TEST(test_A10_each_known_stream_has_a_workspace)
{
    enum { FOREIGN = 2, MANY = FOREIGN + 6 };
    warm_stream stream[MANY];
    void *memory[MANY];
    uint64_t waits = wt_calls(runtime, "stream_wait_event");

    for (int i = 0; i < MANY; i++) {
        if (i < FOREIGN) {
            wt_ok(wm_driver_stream_create(runtime->driver, 0, &stream[i]));
        } else {
            stream[i] = wt_stream(runtime, 0);
        }
        memory[i] = bind_to(stream[i]);
    }
    for (int i = 0; i < 3 * MANY; i++) {
        ck_assert_ptr_eq(bind_to(stream[i % MANY]), memory[i % MANY]);
    }
    ck_assert_int_eq(workspaces(), MANY);
    ck_assert_uint_eq(wt_calls(runtime, "stream_wait_event"), waits);
    for (int i = 0; i < MANY; i++) {
        wt_ok(warm_stream_destroy(runtime, stream[i]));
    }
}

WT_TEST(test_A10_beyond_the_bound_the_workspace_left_first_moves)
{
    void *of_a, *of_b;
    wt_gate *gate;

    limit_workspaces(2);
    now = UINT64_C(1) << 62;
    wm_clock_set(tick);
    of_a = bind_to(a);
    gate = wt_gate_close(runtime, a);
    of_b = bind_to(b);
    ck_assert_ptr_eq(bind_to(c), of_a);
    ck_assert_int_eq(warm_stream_query(runtime, c), WARM_NOT_READY);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, c));
    ck_assert_ptr_eq(bind_to(a), of_b);
    ck_assert_ptr_eq(bind_to(c), of_a);
    ck_assert_int_eq(workspaces(), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_above), 0);
}

/* An event is recorded behind its work, which the next stream waits for. */
WT_TEST(test_A10_B6_workspace_of_a_stream_that_has_ended_moves)
{
    warm_stream brief = wt_stream(runtime, 0);
    void *of_brief;
    wt_gate *gate;

    limit_workspaces(2);
    of_brief = bind_to(brief);
    gate = wt_gate_close(runtime, brief);
    (void)bind_to(b);
    wt_ok(warm_stream_destroy(runtime, brief));
    ck_assert_ptr_eq(bind_to(c), of_brief);
    ck_assert_int_eq(warm_stream_query(runtime, c), WARM_NOT_READY);
    wt_gate_open(gate);
    wt_ok(warm_stream_synchronize(runtime, c));
    ck_assert_int_eq(workspaces(), 2);
}

WT_TEST(test_A10_where_none_is_idle_one_more_is_made_and_counted)
{
    warm_lease lease[3] = {{0}};
    warm_stream on[] = {a, b, c};
    void *memory[3], *handle = NULL;

    limit_workspaces(1);
    for (int i = 0; i < 3; i++) {
        memory[i] = lease_to(on[i], &lease[i], &handle);
        ck_assert_int_eq(workspaces(), i + 1);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_above), i);
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_idle), 0);
    wt_ok(warm_handle_return(runtime, lease[1]));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_idle), 1);
    ck_assert_ptr_eq(lease_to(a, &lease[1], &handle), memory[1]);
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_handle_return(runtime, lease[i]));
    }
    ck_assert_int_eq(workspaces(), 3);
}

/* A handle leaves its workspace when it has another one, which the next change
 * finds idle. */
WT_TEST(test_A10_a_limit_of_one_for_each_handle_is_exceeded_by_one_change)
{
    warm_lease lease = {0};
    warm_stream on[] = {b, c, b, c};
    void *handle = NULL;

    limit_workspaces(2);
    (void)bind_to(a);
    (void)lease_to(a, &lease, &handle);
    for (int i = 0; i < 4; i++) {
        (void)bind_to(on[i]);
        wt_ok(warm_lease_bind(runtime, lease, on[3 - i]));
        ck_assert_int_eq(workspaces(), 3);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_above), 1);
    }
    wt_ok(warm_handle_return(runtime, lease));
}

/* Not the handle that was returned last. */
WT_LOOP_TEST(test_A3_A10_idle_handle_with_the_streams_workspace_goes_first, 2)
{
    warm_lease lease[3] = {{0}};
    void *handle[3] = {NULL}, *got = NULL;
    void *of_a = lease_to(a, &lease[0], &handle[0]);

    (void)lease_to(b, &lease[1], &handle[1]);
    (void)lease_to(c, &lease[2], &handle[2]);
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_handle_return(runtime, lease[i]));
    }
    if (_i == 0) {
        ck_assert_ptr_eq(lease_to(a, &lease[0], &got), of_a);
        wt_ok(warm_handle_return(runtime, lease[0]));
    } else {
        wt_ok(warm_handle_reserve_on(runtime, kind, 0, a, &got));
        ck_assert_ptr_eq(last.workspace, of_a);
    }
    ck_assert_ptr_eq(got, handle[0]);
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease[1], &got));
    ck_assert_ptr_eq(got, handle[_i == 0 ? 0 : 2]);
    wt_ok(warm_handle_return(runtime, lease[1]));
}

/* A handle that has none for the stream gets what another one left there. */
WT_TEST(test_A10_a_workspace_of_the_stream_needs_no_event)
{
    warm_lease lease[2] = {{0}};
    void *handle = NULL, *of_a;
    uint64_t marks = wt_calls(runtime, "event_mark");

    (void)lease_to(b, &lease[0], &handle);
    of_a = lease_to(a, &lease[1], &handle);
    wt_ok(warm_handle_return(runtime, lease[1]));
    wt_ok(warm_lease_bind(runtime, lease[0], a));
    ck_assert_ptr_eq(last.workspace, of_a);
    wt_ok(warm_handle_return(runtime, lease[0]));
    ck_assert_int_eq(workspaces(), 2);
    ck_assert_uint_eq(wt_calls(runtime, "event_mark"), marks);
}

static void take_both(void *argument, unsigned index)
{
    warm_stream stream = NULL;
    void *handle = NULL;

    (void)argument;
    for (unsigned i = 0; i <= index % 3; i++) {
        (void)warm_stream_reserve(runtime, 0, &stream);
    }
    (void)warm_handle_reserve_on(runtime, kind, 0, stream, &handle);
}

/* Handles and streams are paired anew by each thread. */
WT_TEST(test_A10_threads_that_come_and_go_need_one_workspace_each)
{
    enum { AT_ONCE = 6, ROUNDS = 40 };

    for (int i = 0; i < ROUNDS; i++) {
        wt_threads(AT_ONCE, take_both, NULL);
    }
    ck_assert_int_le(workspaces(), AT_ONCE + 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_above), 0);
}

struct turns {
    warm_stream *streams;
    atomic_bool wrong;
};

static void take_turns(void *argument, unsigned index)
{
    struct turns *turns = argument;
    void *handle = NULL;

    for (unsigned i = 0; i < 2000; i++) {
        warm_stream stream = turns->streams[3 * index + (i * i + i / 7) % 3];

        last.stream = stream;
        last.workspace = turns;
        if (warm_handle_reserve_on(runtime, kind, 0, stream, &handle) !=
                WARM_OK ||
            last.stream != stream || last.workspace == NULL) {
            turns->wrong = true;
        }
    }
}

/* Threads claim from each other what they do not use. */
WT_TEST(test_A10_threads_alternate_with_fewer_workspaces_than_streams)
{
    warm_stream s[9];
    struct turns turns = {.streams = s};

    limit_workspaces(4);
    for (int i = 0; i < 9; i++) {
        s[i] = wt_stream(runtime, 0);
    }
    wt_threads(3, take_turns, &turns);
    ck_assert(!turns.wrong);
    ck_assert_int_le(workspaces(), 6);
    for (int i = 0; i < 9; i++) {
        wt_ok(warm_stream_destroy(runtime, s[i]));
    }
}

/* ---- the per-thread default stream --------------------------------------- */

struct visitor {
    void *memory;
    wt_gate *gate;
    long before;
};

static void use_own_stream(void *argument, unsigned index)
{
    struct visitor *v = argument;
    void *handle = NULL;

    (void)index;
    last.workspace = NULL;
    if (warm_handle_reserve_on(runtime, kind, 0, WARM_STREAM_PER_THREAD,
                               &handle) == WARM_OK) {
        v->memory = last.workspace;
    }
    v->gate = wt_gate_close(runtime, WARM_STREAM_PER_THREAD);
}

/* One name, another stream in each thread: a workspace waits for the work of
 * its own thread's, also once that has ended. */
WT_TEST(test_A10_per_thread_default_stream_counts_as_its_threads)
{
    struct visitor v = {.memory = NULL};
    void *mine = bind_to(WARM_STREAM_PER_THREAD);

    ck_assert_ptr_nonnull(mine);
    wt_threads(1, use_own_stream, &v);
    ck_assert_ptr_nonnull(v.memory);
    ck_assert_ptr_ne(v.memory, mine);
    ck_assert_ptr_eq(bind_to(WARM_STREAM_PER_THREAD), mine);
    wt_ok(warm_handle_trim(runtime, kind, 0, 9, 0, NULL));
    ck_assert_int_eq(workspaces(), 2); /* work goes on, and mine is bound */
    ck_assert_ptr_ne(bind_to(a), v.memory);
    wt_gate_open(v.gate);
    wm_driver_break_begin();
    wt_ok(wm_driver_device_synchronize(runtime->driver, 0));
    wm_driver_break_end();
    ck_assert_ptr_eq(bind_to(b), v.memory);
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_handle_trim(runtime, kind, 0, 9, 0, NULL));
    ck_assert_int_eq(workspaces(), 0);
}

/* A stream, and the thread whose number is the stream's id. */
struct namesake {
    warm_stream stream;
    uint64_t id, last;
    void *of_stream, *own;
};

static void use_namesake(void *argument, unsigned index)
{
    struct namesake *n = argument;

    (void)index;
    n->last = wm_window_thread();
    if (n->last == n->id) {
        n->of_stream = bind_to(n->stream);
        n->own = bind_to(WARM_STREAM_PER_THREAD);
    }
}

WT_TEST(test_A10_a_thread_and_a_stream_of_one_number_have_two_workspaces)
{
    struct namesake n = {.id = 0};
    wm_stream_info info;

    wt_threads(1, use_namesake, &n); /* the number of the youngest thread */
    do {
        n.stream = wt_stream(runtime, 0);
        wt_ok(wm_driver_stream_info(runtime->driver, n.stream, &info));
        n.id = info.id;
    } while (n.id <= n.last && n.id < 10000);
    while (n.last < n.id) {
        wt_threads(1, use_namesake, &n);
    }
    ck_assert_uint_eq(n.last, n.id);
    ck_assert_ptr_nonnull(n.own);
    ck_assert_ptr_ne(n.own, n.of_stream);
    wt_ok(warm_stream_destroy(runtime, n.stream));
}

struct trim {
    uint64_t keep; /* handles */
    warm_status status;
};

static void trim_all(void *argument, unsigned index)
{
    struct trim *trim = argument;

    (void)index;
    trim->status = warm_handle_trim(runtime, kind, 0, trim->keep, 0, NULL);
}

/* Only this thread can tell when the work of its own stream is over. */
WT_TEST(test_A10_other_threads_leave_what_a_default_stream_used)
{
    struct trim trim = {.keep = 9, .status = WARM_UNSUPPORTED};
    void *mine = bind_to(WARM_STREAM_PER_THREAD);

    (void)bind_to(a);
    wt_threads(1, trim_all, &trim);
    wt_ok(trim.status);
    ck_assert_int_eq(workspaces(), 2);
    ck_assert_ptr_eq(bind_to(WARM_STREAM_PER_THREAD), mine);
    wt_ok(warm_handle_trim(runtime, kind, 0, 9, 0, NULL));
    ck_assert_int_eq(workspaces(), 1);
}

/* Not even when its handle ends: the thread's next one has it. */
WT_TEST(test_A10_handle_that_another_thread_ends_leaves_its_workspace)
{
    struct trim trim = {.keep = 0, .status = WARM_UNSUPPORTED};
    warm_lease lease = {0};
    void *handle = NULL;
    void *mine = lease_to(WARM_STREAM_PER_THREAD, &lease, &handle);

    wt_ok(warm_handle_return(runtime, lease));
    wt_threads(1, trim_all, &trim);
    wt_ok(trim.status);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), 1);
    ck_assert_ptr_eq(bind_to(WARM_STREAM_PER_THREAD), mine);
    ck_assert_int_eq(workspaces(), 1);
}

static void use_second_device(void *memory, unsigned index)
{
    wm_driver *driver = runtime->driver;
    bool entered = false;
    void *handle = NULL;

    (void)index;
    last.workspace = NULL;
    if (driver->ops->enter(driver, 1, &entered) == WARM_OK) {
        (void)warm_handle_reserve_on(runtime, kind, 1, WARM_STREAM_PER_THREAD,
                                     &handle);
        driver->ops->leave(driver, entered);
    }
    *(void **)memory = last.workspace;
}

/* Its event is recorded while its device is current. */
WT_TEST(test_A10_a_thread_leaves_its_default_stream_of_another_device)
{
    warm_stream on_it = wt_stream(runtime, 1); /* the process uses the device */
    void *memory = NULL;

    wt_ok(warm_stream_destroy(runtime, on_it));
    if (runtime->driver->ops->enter == NULL) {
        wt_skip("threads of the host device choose no device");
    }
    wt_threads(1, use_second_device, &memory);
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_eq(wt_stat(runtime, kind, 1, workspaces), 1);
    wt_ok(warm_handle_trim(runtime, kind, 1, 9, 0, NULL));
    ck_assert_int_eq(wt_stat(runtime, kind, 1, workspaces), 0);
}

/* ---- two threads at once ------------------------------------------------- */

static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    warm_stream stream; /* whose first event is recorded late */
    atomic_bool holds, marks, ended, late;
} held;

static void forget_held(void)
{
    atomic_store(&held.marks, false);
    atomic_store(&held.ended, false);
    atomic_store(&held.late, false);
}

static bool waits_for_mark(void)
{
    return atomic_load(
               &wm_kind_table_workspaces(runtime->kinds, 0)->marked.waiters) !=
           0;
}

/* Until the stream is destroyed, or a thread waits for this call. */
static warm_status mark_late(wm_driver *d, warm_event event, warm_stream stream,
                             wm_capture *capture)
{
    if (stream == held.stream && atomic_exchange(&held.holds, false)) {
        atomic_store(&held.marks, true);
        while (!waits_for_mark() && !atomic_load(&held.ended)) {
            sched_yield();
        }
        atomic_store(&held.late, atomic_load(&held.ended));
    }
    return held.real->event_mark(d, event, stream, capture);
}

static warm_status note_end(wm_driver *d, warm_stream stream)
{
    if (stream == held.stream) {
        atomic_store(&held.ended, true);
    }
    return held.real->stream_destroy(d, stream);
}

/* Moves the workspace of the stream to another one, or trims it, while the
 * second thread destroys the stream. */
static void move_trim_or_destroy(void *argument, unsigned index)
{
    bool trims = *(int *)argument == 1;
    void *handle = NULL;

    if (index == 1) {
        while (!atomic_load(&held.marks)) {
            sched_yield();
        }
        (void)warm_stream_destroy(runtime, held.stream);
    } else if (trims) {
        (void)warm_handle_trim(runtime, kind, 0, 9, 0, NULL);
    } else {
        (void)warm_handle_reserve_on(runtime, kind, 0, c, &handle);
    }
}

WT_LOOP_TEST(test_A10_B6_no_event_is_recorded_behind_a_destroyed_stream, 2)
{
    limit_workspaces(2);
    held.stream = wt_stream(runtime, 0);
    (void)bind_to(held.stream);
    (void)bind_to(a);
    held.real = runtime->driver->ops;
    held.ops = *held.real;
    held.ops.event_mark = mark_late;
    held.ops.stream_destroy = note_end;
    atomic_store(&held.holds, true);
    runtime->driver->ops = &held.ops;
    wt_threads(2, move_trim_or_destroy, &_i);
    runtime->driver->ops = held.real;
    ck_assert(atomic_load(&held.ended));
    ck_assert(!atomic_load(&held.late));
    ck_assert_int_eq(workspaces(), _i == 0 ? 2 : 1);
}

/* A trim asks of which pool the stream's capture is, until another thread waits
 * for that. */
static int answer_late(void *context, warm_stream stream)
{
    (void)context;
    if (stream == held.stream && atomic_exchange(&held.holds, false)) {
        atomic_store(&held.marks, true);
        while (!waits_for_mark()) {
            sched_yield();
        }
    }
    return stream == held.stream;
}

static void trim_or_retire(void *argument, unsigned index)
{
    if (index == 0) {
        (void)wm_workspaces_trim(wm_kind_table_workspaces(runtime->kinds, 0),
                                 0);
        return;
    }
    while (!atomic_load(&held.marks)) {
        sched_yield();
    }
    *(warm_status *)argument = warm_stream_retire(runtime, held.stream);
}

/* Only graphs use the workspace from then on: it ends with their pool. */
WT_TEST(test_A10_B6_a_capturing_stream_may_end_while_its_workspace_is_trimmed)
{
    warm_private_pool pool = {0};
    warm_status status = WARM_NOT_FOUND;
    warm_graph graph = NULL;

    held.stream = wt_stream(runtime, 0);
    (void)bind_to(held.stream);
    wt_ok(warm_thread_release(runtime));
    wt_ok(wm_driver_capture_begin(runtime->driver, held.stream));
    wt_ok(warm_private_pool_begin(runtime, &pool, 0, answer_late, NULL));
    atomic_store(&held.holds, true);
    wt_threads(2, trim_or_retire, &status);
    wt_ok(status);
    wt_ok(wm_driver_capture_end(runtime->driver, held.stream, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    ck_assert_int_eq(workspaces(), 1);
    wt_ok(warm_private_pool_release(runtime, pool));
    ck_assert_int_eq(workspaces(), 0);
    wt_ok(warm_stream_destroy(runtime, held.stream));
}

static warm_stream ending[2];

static void end_both(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    if (atomic_exchange(&held.holds, false)) {
        (void)warm_stream_destroy(runtime, ending[0]);
        (void)warm_stream_destroy(runtime, ending[1]);
        atomic_store(&held.ended, true);
    }
}

static warm_status note_late(wm_driver *d, warm_event event, warm_stream stream,
                             wm_capture *capture)
{
    if (atomic_load(&held.ended)) {
        atomic_store(&held.late, true);
    }
    return held.real->event_mark(d, event, stream, capture);
}

/* One of two events cannot be recorded: the program, which hears of it, ends
 * both streams. */
WT_TEST(test_A10_B6_a_leak_is_logged_when_all_events_are_recorded)
{
    for (int i = 0; i < 2; i++) {
        ending[i] = wt_stream(runtime, 0);
        (void)bind_to(ending[i]);
    }
    wt_ok(warm_thread_release(runtime));
    held.real = runtime->driver->ops;
    held.ops = *held.real;
    held.ops.event_mark = note_late;
    atomic_store(&held.holds, true);
    runtime->driver->ops = &held.ops;
    warm_log_set(end_both, NULL);
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 0));
    wt_ok(warm_handle_trim(runtime, kind, 0, 9, 0, NULL));
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    warm_log_set(NULL, NULL);
    runtime->driver->ops = held.real;
    ck_assert(atomic_load(&held.ended));
    ck_assert(!atomic_load(&held.late));
    ck_assert_int_eq(workspaces(), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_idle), 0);
}

static warm_status alloc_late(wm_driver *d, int device, size_t bytes,
                              void **pointer)
{
    if (bytes == WORKSPACE && atomic_exchange(&held.holds, false)) {
        atomic_store(&held.marks, true);
        while (!atomic_load(&held.ended)) {
            sched_yield();
        }
    }
    return held.real->device_alloc(d, device, bytes, pointer);
}

/* The second thread comes while the first one allocates. */
static void bind_one(void *argument, unsigned index)
{
    void *handle = NULL;

    while (index == 1 && !atomic_load(&held.marks)) {
        sched_yield();
    }
    (void)warm_handle_reserve_on(runtime, kind, 0,
                                 ((warm_stream *)argument)[index], &handle);
    if (index == 1) {
        atomic_store(&held.ended, true);
    }
}

/* What is being allocated counts: an idle workspace moves. */
WT_TEST(test_A10_two_threads_at_once_stay_within_the_bound)
{
    warm_stream on[] = {b, c};
    warm_lease lease = {0};
    void *handle = NULL;

    limit_workspaces(2);
    (void)lease_to(a, &lease, &handle);
    wt_ok(warm_handle_return(runtime, lease));
    held.real = runtime->driver->ops;
    held.ops = *held.real;
    held.ops.device_alloc = alloc_late;
    atomic_store(&held.holds, true);
    runtime->driver->ops = &held.ops;
    wt_threads(2, bind_one, on);
    runtime->driver->ops = held.real;
    ck_assert_int_eq(workspaces(), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_above), 0);
}

static warm_lease ending_lease;

static size_t end_lease(wm_kind *k, int device)
{
    (void)k;
    (void)device;
    (void)warm_handle_return(runtime, ending_lease);
    return WORKSPACE;
}

/* The lease ends in the call that binds it, before that call has taken the
 * workspace. */
WT_TEST(test_A10_A13_a_lease_that_ends_while_it_is_bound_leaves_its_workspace)
{
    static wm_kind_ops ops;
    void *handle = NULL;

    ops = bound_ops;
    ops.name = "ends";
    ops.workspace_bytes = end_lease;
    wt_ok(wm_kind_table_add(runtime->kinds, &ops, NULL, &kind));
    wt_ok(warm_handle_lease(runtime, kind, 0, &ending_lease, &handle));
    wt_ok(warm_lease_bind(runtime, ending_lease, a));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    ck_assert_int_eq(workspaces(), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces_idle), 1);
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(workspaces(), 0);
}

static int cancel_state;

static void note_cancel(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    (void)line;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_setcancelstate(cancel_state, NULL);
}

/* A reserve destroys what waited for a capture, and logs what fails; a thread
 * that was cancelled in between would hold all captures back. */
WT_TEST(test_A4_A16_a_deferred_handle_is_destroyed_without_cancellation)
{
    warm_graph graph = NULL;
    warm_lease lease = {0};
    void *handle = NULL;

    (void)lease_to(a, &lease, &handle);
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(wm_driver_capture_begin(runtime->driver, b));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, deferred), 1);
    wt_ok(wm_driver_capture_end(runtime->driver, b, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    cancel_state = -1;
    warm_log_set(note_cancel, NULL);
    wt_ok(warm_testing_fail(runtime, "event_mark", 1, 0));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_ok(warm_testing_fail(runtime, "event_mark", 0, 0));
    warm_log_set(NULL, NULL);
    ck_assert_int_eq(cancel_state, PTHREAD_CANCEL_DISABLE);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), 1);
}

/* A query of an event breaks a capture of this thread, unless the thread's mode
 * is relaxed. */
WT_TEST(test_A10_B7_a_trim_without_the_relaxed_mode_queries_no_event)
{
    wm_workspaces *of_device = wm_kind_table_workspaces(runtime->kinds, 0);
    warm_stream stream = wt_stream(runtime, 0);
    uint64_t queries;

    (void)bind_to(stream);
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_stream_destroy(runtime, stream)); /* an event is recorded */
    wt_ok(warm_capture_begin(runtime, b));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    queries = wt_calls(runtime, "event_query");
    ck_assert_uint_eq(wm_workspaces_trim(of_device, 0), 0);
    ck_assert_uint_eq(wt_calls(runtime, "event_query"), queries);
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    wt_capture_drop(runtime, b);
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    ck_assert_uint_eq(wm_workspaces_trim(of_device, 0), WORKSPACE);
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
}

/* ---- short memory -------------------------------------------------------- */

/* Idle workspaces go back before a request is refused; the message counts what
 * stays. */
WT_LOOP_TEST(test_A10_C2_idle_workspaces_make_room_for_memory, 2)
{
    enum { LIMIT = 8 << 20 };
    bool by_limit = _i == 0;
    warm_error error = WARM_INIT(warm_error);
    warm_lease lease[2] = {{0}};
    void *block = NULL, *handle = NULL;

    wt_ok(warm_device_alloc(runtime, 0, a, 4096, &block)); /* and its context */
    wt_ok(warm_free(block));
    wt_ok(warm_device_trim(runtime, 0, 0, NULL));
    (void)lease_to(a, &lease[0], &handle);
    (void)lease_to(b, &lease[1], &handle);
    if (by_limit) {
        wt_limit(runtime, LIMIT);
        wt_ok(warm_handle_return(runtime, lease[0]));
        wt_fails(WARM_OUT_OF_MEMORY,
                 warm_device_alloc(runtime, 0, a, LIMIT, &block));
        warm_last_error(&error);
        wt_contains(error.message, "workspaces 64.0 KiB (0 B idle)");
        wt_contains(error.message, "idle workspaces ");
        ck_assert_int_eq(workspaces(), 1);
    } else {
        wt_ok(warm_handle_return(runtime, lease[0]));
        /* The driver has nothing for the request, until one has gone. */
        wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 0));
    }
    if (by_limit) {
        wt_ok(warm_handle_return(runtime, lease[1]));
    }
    wt_ok(warm_device_alloc(runtime, 0, a, LIMIT, &block));
    ck_assert_int_eq(workspaces(), by_limit ? 0 : 1);
    wt_ok(warm_free(block));
    if (!by_limit) {
        wt_ok(warm_testing_fail(runtime, "device_alloc", 0, 0));
        wt_ok(warm_handle_return(runtime, lease[1]));
    }
}

WT_TEST(test_A10_G6_a_second_try_that_succeeds_leaves_the_last_error)
{
    warm_lease lease = {0};
    void *memory = NULL, *handle = NULL;

    (void)lease_to(a, &lease, &handle);
    wt_ok(warm_handle_return(runtime, lease));
    wt_fails(WARM_INVALID_ARGUMENT,
             warm_device_alloc_aligned(runtime, 0, a, 1, 3, &memory));
    wt_ok(warm_testing_fail(runtime, "device_alloc", 1, 0));
    wt_ok(warm_device_alloc_uncached(runtime, 0, 4096, &memory));
    ck_assert_int_eq(workspaces(), 0);
    wt_says("no power of two");
    wt_ok(warm_device_free_uncached(runtime, 0, memory));
}

/* ---- the trim of everything ---------------------------------------------- */

WT_TEST(test_F11_A12_trim_returns_workspaces_before_it_destroys_handles)
{
    warm_memory_totals totals = WARM_INIT(warm_memory_totals);
    warm_trim_report report = WARM_INIT(warm_trim_report);
    warm_lease lease = {0};
    void *handle = NULL;

    (void)lease_to(a, &lease, &handle);
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_memory_get_totals(runtime, WARM_MEMORY_OF_ALL, &totals));
    ck_assert_uint_ge(totals.held_bytes, WORKSPACE);
    wt_ok(warm_trim(runtime, totals.held_bytes - 1, &report));
    ck_assert_uint_eq(report.workspaces, WORKSPACE);
    ck_assert_uint_eq(report.handles, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    wt_ok(warm_trim(runtime, 0, &report));
    ck_assert_uint_eq(report.workspaces, 0);
    ck_assert_uint_eq(report.handles, 1);
}

/* Memory, workspaces and handles, on the last device as on the first. */
WT_TEST(test_F11_A12_I6_trim_empties_every_device)
{
    int device = runtime->devices - 1;
    warm_device_stats stats = WARM_INIT(warm_device_stats);
    warm_trim_report report = WARM_INIT(warm_trim_report);
    warm_stream stream = wt_stream(runtime, device);
    warm_lease lease = {0};
    void *handle = NULL, *block = NULL;

    ck_assert_int_gt(device, 0);
    wt_ok(warm_handle_lease_on(runtime, kind, device, stream, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_device_alloc(runtime, device, stream, 4 << 20, &block));
    wt_ok(warm_free(block));
    wt_ok(warm_trim(runtime, 0, &report));
    ck_assert_uint_eq(report.workspaces, WORKSPACE);
    ck_assert_uint_ge(report.segments, 4 << 20);
    ck_assert_uint_eq(report.handles, 1);
    ck_assert_int_eq(wt_stat(runtime, kind, device, workspaces), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, device, destroyed), 1);
    wt_ok(warm_device_get_stats(runtime, device, &stats));
    ck_assert_uint_eq(stats.all.held_bytes.current, 0);
    wt_ok(warm_stream_destroy(runtime, stream));
}
