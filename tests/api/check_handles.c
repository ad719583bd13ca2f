/* check_handles.c: the handle pool through the public interface (rows A1 to
 * A10, A14), with a user's kind that tests can stop and fail. */
/* memcheck: one process */
#include "wt_one_kind.h"

#include <stdio.h>
#include <string.h>

struct meeting {
    pthread_barrier_t barrier;
    void *handle[16];
    warm_status status[16];
};

static void meet(void *argument, unsigned index)
{
    struct meeting *m = argument;

    pthread_barrier_wait(&m->barrier);
    m->status[index] = warm_handle_reserve(runtime, kind, 0, &m->handle[index]);
    if (m->status[index] == WARM_OK) {
        wt_toy_use(m->handle[index]);
    }
    pthread_barrier_wait(&m->barrier);
    if (m->status[index] == WARM_OK) {
        wt_toy_leave(m->handle[index]);
    }
}

/* count threads that hold a handle each at the same time. */
static void hold_at_once(unsigned count)
{
    struct meeting m = {.handle = {NULL}};

    pthread_barrier_init(&m.barrier, NULL, count);
    wt_threads(count, meet, &m);
    pthread_barrier_destroy(&m.barrier);
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(m.status[i], WARM_OK);
        for (unsigned k = 0; k < i; k++) {
            ck_assert_ptr_ne(m.handle[i], m.handle[k]);
        }
    }
}

WT_CASE("pool", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A2_A3_five_threads_meet_while_four_handles_are_idle)
{
    hold_at_once(4);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 4);
    hold_at_once(5);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 5);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 5);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 5);
}

WT_TEST(test_A4_created_equals_most_held_at_once)
{
    for (unsigned round = 0; round < 20; round++) {
        hold_at_once(8);
    }
    ck_assert_uint_eq(toy.creates, 8);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 8);
    ck_assert(wt_balanced(runtime, kind, 0));
}

enum { CALLS_MAX = 64 };

static void count_calls(uint64_t *counts)
{
    const char *name;

    for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
        ck_assert_int_lt(i, CALLS_MAX);
        counts[i] = wt_calls(runtime, name);
    }
}

WT_TEST(test_A1_A7_same_thread_gets_same_handle_without_any_call)
{
    uint64_t before[CALLS_MAX] = {0}, after[CALLS_MAX] = {0};
    void *first = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &first));
    count_calls(before);
    for (int i = 0; i < 1000; i++) {
        void *again = NULL;

        ck_assert_int_eq(warm_handle_reserve(runtime, kind, 0, &again),
                         WARM_OK);
        ck_assert_ptr_eq(again, first);
    }
    count_calls(after);
    ck_assert_int_eq(memcmp(before, after, sizeof before), 0);
    ck_assert_uint_eq(toy.creates, 1);
    ck_assert_uint_eq(toy.resets, 0);
}

static void *hold_until_told(void *argument)
{
    pthread_barrier_t *barrier = argument;
    warm_stream stream = NULL;
    void *handle = NULL;

    (void)warm_stream_reserve(runtime, 0, &stream);
    (void)warm_handle_reserve_on(runtime, kind, 0, stream, &handle);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

WT_TEST(test_A4_an_exiting_thread_calls_nothing)
{
    uint64_t before[CALLS_MAX] = {0}, after[CALLS_MAX] = {0};
    pthread_barrier_t barrier;
    pthread_t thread;
    unsigned resets;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, hold_until_told, &barrier);
    pthread_barrier_wait(&barrier);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
    resets = toy.resets;
    count_calls(before);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    count_calls(after);
    ck_assert_int_eq(memcmp(before, after, sizeof before), 0);
    ck_assert_uint_eq(toy.resets, resets);
    ck_assert_uint_eq(toy.destroys, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, idle), 1);
    pthread_barrier_destroy(&barrier);
}

static void reserve_one(void *argument, unsigned index)
{
    void **handles = argument;

    (void)warm_handle_reserve(runtime, kind, 0, &handles[index]);
}

WT_TEST(test_A3_last_in_is_first_out)
{
    void *seen[1] = {NULL};
    void *last;

    hold_at_once(3);
    wt_threads(1, reserve_one, seen);
    last = seen[0];
    for (int i = 0; i < 5; i++) {
        wt_threads(1, reserve_one, seen);
        ck_assert_ptr_eq(seen[0], last);
    }
}

struct worker {
    pthread_t thread;
    void *handle;
    warm_status status;
    warm_error error;
};

static void *work(void *argument)
{
    struct worker *worker = argument;

    worker->status = warm_handle_reserve(runtime, kind, 0, &worker->handle);
    worker->error.size = sizeof worker->error;
    warm_last_error(&worker->error);
    return NULL;
}

static void start(struct worker *worker)
{
    worker->handle = NULL;
    ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void finish(struct worker *worker)
{
    ck_assert_int_eq(pthread_join(worker->thread, NULL), 0);
}

WT_TEST(test_A3_A8_creations_do_not_wait_for_each_other)
{
    enum { MAKERS = 5 };
    struct worker first, makers[MAKERS], c;

    start(&first); /* the pool's very first creation */
    finish(&first);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    wt_ok(
        warm_handle_reserve(runtime, kind, 0, &c.handle)); /* nothing is idle */
    wt_toy_close_gate(&toy);
    for (int i = 0; i < MAKERS; i++) {
        start(&makers[i]);
    }
    wt_toy_await(&toy, MAKERS); /* hangs if one waits for another */
    /* Meanwhile the pool answers, gives back and hands out. */
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
    wt_ok(warm_thread_release(runtime));
    start(&c);
    finish(&c);
    wt_ok(c.status);
    wt_toy_open_gate(&toy);
    for (int i = 0; i < MAKERS; i++) {
        finish(&makers[i]);
        wt_ok(makers[i].status);
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 1 + MAKERS);
    ck_assert(wt_balanced(runtime, kind, 0));
}

WT_TEST(test_A8_failed_creation_changes_nothing_and_tells_the_code)
{
    warm_error error = WARM_INIT(warm_error);
    void *handle = &toy;

    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve(runtime, kind, 0, &handle));
    ck_assert_ptr_eq(handle, &toy);
    warm_last_error(&error);
    ck_assert_int_eq(error.code, WT_TOY_CODE);
    ck_assert_str_eq(error.origin, "toy");
    ck_assert_str_eq(error.code_text, "the toy is broken");
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, failed), 1);
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 1);
}

/* Both threads fail on their own: the second is not told of the first's. */
WT_TEST(test_A8_after_a_failed_first_creation_the_next_thread_tries)
{
    struct worker a, b;

    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_toy_close_gate(&toy);
    start(&a);
    wt_toy_await(&toy, 1);
    start(&b);
    wt_toy_open_gate(&toy);
    finish(&a);
    finish(&b);
    ck_assert_int_eq((a.status == WARM_OK) + (b.status == WARM_OK), 1);
    ck_assert_uint_eq(toy.creates, 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, failed), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 1);
}

WT_TEST(test_A9_kinds_are_checked_when_registered)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "other",
                         .create = wt_toy_create,
                         .destroy = wt_toy_destroy};
    warm_kind_ops bad = ops;
    warm_kind made = -1;
    char name[16], longest[65] = "";

    bad.name = "toy";
    wt_invalid(warm_kind_register(runtime, &bad, &made));
    bad = ops;
    bad.destroy = NULL;
    wt_invalid(warm_kind_register(runtime, &bad, &made));
    bad = ops;
    memset(longest, 'n', sizeof longest - 1);
    bad.name = longest; /* 64 characters */
    wt_invalid(warm_kind_register(runtime, &bad, &made));
    bad.name = "";
    wt_invalid(warm_kind_register(runtime, &bad, &made));
    bad = ops;
    bad.size = 8;
    wt_invalid(warm_kind_register(runtime, &bad, &made));
    wt_invalid(warm_kind_register(runtime, NULL, &made));
    wt_invalid(warm_kind_register(runtime, &ops, NULL));
    ck_assert_int_eq(made, -1);
    ops.name = longest + 1;
    wt_ok(warm_kind_register(runtime, &ops, &made));
    ck_assert_str_eq(warm_kind_name(runtime, made), longest + 1);
    for (int i = kind + 2; i < WARM_KIND_MAX; i++) {
        snprintf(name, sizeof name, "k%d", i);
        ops.name = name;
        wt_ok(warm_kind_register(runtime, &ops, &made));
        ck_assert_int_eq(made, i);
    }
    ck_assert_str_eq(warm_kind_name(runtime, WARM_KIND_MAX - 1), "k31");
    ops.name = "one too many";
    wt_invalid(warm_kind_register(runtime, &ops, &made));
    ck_assert_ptr_null(warm_kind_name(runtime, WARM_KIND_MAX));
}

static int create_nothing(void *context, int device, void **handle)
{
    return 0;
}

WT_TEST(test_A8_A9_a_create_that_makes_nothing_is_an_error)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "nothing",
                         .create = create_nothing,
                         .destroy = wt_toy_destroy};
    warm_error error = WARM_INIT(warm_error);
    warm_kind made = -1;
    void *handle = &toy;

    wt_ok(warm_kind_register(runtime, &ops, &made));
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve(runtime, made, 0, &handle));
    ck_assert_ptr_eq(handle, &toy);
    wt_says("nothing: create made no handle on device ");
    warm_last_error(&error);
    ck_assert_int_eq(error.code, 0); /* the library gave none */
    ck_assert_int_eq(wt_stat(runtime, made, 0, created), 0);
    ck_assert_int_eq(wt_stat(runtime, made, 0, failed), 1);
}

/* What failed inside of a call that succeeds is nobody's last error. */
WT_LOOP_TEST(test_G6_a_recovered_failure_leaves_the_last_error, 3)
{
    warm_error error = WARM_INIT(warm_error);
    void *handle = NULL;

    wt_invalid(warm_handle_reserve(NULL, kind, 0, &handle));
    if (_i == 0) { /* nobody knows what the handle costs */
        wt_ok(warm_testing_fail(runtime, "device_info", 1, 1));
    } else { /* the idle one has to be destroyed, or cannot be */
        hold_at_once(1);
        wt_toy_fail(&toy, WT_RESET, 1, true);
        wt_toy_fail(&toy, WT_DESTROY, _i == 2 ? 1 : 0, false);
    }
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_INVALID_ARGUMENT);
    wt_contains(error.message, "null");
    wt_ok(warm_testing_fail(runtime, "device_info", 0, 0));
    if (_i == 2) {
        ck_assert_int_eq(wt_stat(runtime, kind, 0, leaked), 1);
        wt_runtime_end(runtime);
        wt_toy_free_left(&toy);
        runtime = wt_runtime(NULL); /* for tear_down() */
    }
}

static const struct {
    warm_kind kind;
    const char *name;
} builtin[] = {
    {WARM_KIND_STREAM, "stream"},     {WARM_KIND_CUBLAS, "cublas"},
    {WARM_KIND_CUBLASLT, "cublaslt"}, {WARM_KIND_CUDNN, "cudnn"},
    {WARM_KIND_CUSPARSE, "cusparse"}, {WARM_KIND_CUSOLVER, "cusolver"},
    {WARM_KIND_ONEDNN, "onednn"},
};

WT_LOOP_TEST(test_A9_builtin_kind_works_or_says_why_not,
             sizeof builtin / sizeof builtin[0])
{
    bool for_host = builtin[_i].kind == WARM_KIND_STREAM ||
                    (wt_on_host() && builtin[_i].kind == WARM_KIND_ONEDNN);
    bool for_cuda = builtin[_i].kind != WARM_KIND_ONEDNN;
    void *handle = NULL;
    warm_status status =
        warm_handle_reserve(runtime, builtin[_i].kind, 0, &handle);

    ck_assert_str_eq(warm_kind_name(runtime, builtin[_i].kind),
                     builtin[_i].name);
    if (status == WARM_OK) {
        ck_assert(for_host || for_cuda);
        ck_assert_ptr_nonnull(handle);
    } else {
        ck_assert(status == WARM_UNAVAILABLE || status == WARM_UNSUPPORTED);
        ck_assert_int_gt((int)strlen(warm_last_error_message()), 10);
        ck_assert_ptr_null(handle);
        ck_assert(builtin[_i].kind != WARM_KIND_STREAM);
    }
    /* A stream is not the reason, unless the kind takes none anywhere. */
    if (status != WARM_OK && for_cuda &&
        builtin[_i].kind != WARM_KIND_CUBLASLT) {
        warm_stream stream;
        char why[256];

        snprintf(why, sizeof why, "%s", warm_last_error_message());
        wt_ok(warm_stream_reserve(runtime, 0, &stream));
        ck_assert_int_eq(warm_handle_reserve_on(runtime, builtin[_i].kind, 0,
                                                stream, &handle),
                         status);
        ck_assert_str_eq(warm_last_error_message(), why);
    }
    /* CUDA's libraries need CUDA, and the CPU's engine the host device. */
    if (wt_on_host() ? !for_host : !for_cuda) {
        ck_assert_int_ne(status, WARM_OK);
    }
}

WT_TEST(test_A10_binding_again_costs_no_call)
{
    warm_stream a = wt_stream(runtime, 0), b = wt_stream(runtime, 0);
    wt_toy_handle *h = NULL;
    void *handle = NULL;

    for (int i = 0; i < 100; i++) {
        wt_ok(warm_handle_reserve_on(runtime, kind, 0, a, &handle));
    }
    ck_assert_uint_eq(toy.binds, 1);
    h = handle;
    ck_assert_ptr_eq(h->stream, a);
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, b, &handle));
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, b, &handle));
    ck_assert_ptr_eq(handle, h);
    ck_assert_ptr_eq(h->stream, b);
    ck_assert_uint_eq(toy.binds, 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, binds), 2);
    wt_ok(warm_handle_reserve(runtime, kind, 0,
                              &handle)); /* leaves the binding */
    ck_assert_ptr_eq(h->stream, b);
    wt_ok(warm_stream_destroy(runtime, a));
    /* Another stream retired: looked at again, but not bound again. */
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, b, &handle));
    ck_assert_uint_eq(toy.binds, 2);
    wt_ok(warm_stream_destroy(runtime, b));
}

/* A later stream may get the address of one that was destroyed. */
WT_TEST(test_A10_B6_a_new_stream_at_an_old_address_is_bound_again)
{
    void *handle = NULL;
    unsigned expected = 0;

    for (int i = 0; i < 50; i++) {
        warm_stream stream = wt_stream(runtime, 0);

        wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
        ck_assert_uint_eq(toy.binds, ++expected);
        ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, stream);
        wt_ok(warm_stream_destroy(runtime, stream));
        /* It is not left bound to what has gone. */
        ck_assert_uint_eq(toy.binds, ++expected);
        ck_assert_ptr_null(((wt_toy_handle *)handle)->stream);
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, binds), 50);
}

WT_TEST(test_A10_B7_binding_to_a_stream_that_captures_spoils_nothing)
{
    warm_stream a = wt_stream(runtime, 0), b = wt_stream(runtime, 0);
    warm_graph graph = NULL;
    void *handle = NULL;

    wt_ok(warm_handle_reserve_on(runtime, kind, 0, a, &handle));
    wt_ok(warm_capture_begin(runtime, b));
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, b, &handle));
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, b, &handle));
    ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, b);
    ck_assert_uint_eq(toy.binds, 2);
    wt_ok(warm_capture_end(runtime, b, &graph));
    wt_ok(warm_graph_launch(runtime, graph, b));
    wt_ok(warm_stream_synchronize(runtime, b));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, a));
    wt_ok(warm_stream_destroy(runtime, b));
}

WT_TEST(test_A10_default_streams_can_be_bound)
{
    void *handle = NULL;

    wt_ok(warm_handle_reserve_on(runtime, kind, 0, NULL, &handle));
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, WARM_STREAM_PER_THREAD,
                                 &handle));
    ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, WARM_STREAM_PER_THREAD);
    ck_assert_uint_eq(toy.binds, 2);
}

WT_TEST(test_A10_a_failed_binding_changes_nothing)
{
    warm_stream a = wt_stream(runtime, 0);
    warm_error error = WARM_INIT(warm_error);
    void *handle = &toy;

    wt_toy_fail(&toy, WT_BIND, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve_on(runtime, kind, 0, a, &handle));
    warm_last_error(&error);
    ck_assert_int_eq(error.code, WT_TOY_CODE);
    ck_assert_ptr_eq(handle, &toy);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
    ck_assert(wt_balanced(runtime, kind, 0));
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, a, &handle));
    ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, a);
    /* One that is held stays held, and is bound again by the next call. */
    wt_toy_fail(&toy, WT_BIND, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve_on(runtime, kind, 0, NULL, &handle));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, a, &handle));
    ck_assert_uint_eq(toy.binds, 4);
    wt_ok(warm_stream_destroy(runtime, a));
}

WT_TEST(test_A10_bad_streams_are_refused_before_anything_is_done)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "no streams",
                         .context = &toy,
                         .create = wt_toy_create,
                         .destroy = wt_toy_destroy};
    warm_kind plain = -1;
    warm_lease lease = {7};
    void *handle = &toy;

    wt_ok(warm_kind_register(runtime, &ops, &plain));
    wt_fails(WARM_UNSUPPORTED,
             warm_handle_reserve_on(runtime, plain, 0, NULL, &handle));
    wt_fails(WARM_UNSUPPORTED, warm_handle_reserve_on(runtime, WARM_KIND_STREAM,
                                                      0, NULL, &handle));
    wt_fails(WARM_UNSUPPORTED, warm_handle_lease_on(runtime, WARM_KIND_STREAM,
                                                    0, NULL, &lease, &handle));
    if (wt_on_host()) { /* CUDA does not promise to tell */
        wt_fails(WARM_INVALID_STREAM,
                 warm_handle_reserve_on(runtime, kind, 0, &toy, &handle));
    }
    ck_assert_ptr_eq(handle, &toy);
    ck_assert_uint_eq(toy.creates, 0);
}

WT_TEST(test_A9_B6_streams_are_a_kind_and_cannot_be_destroyed)
{
    warm_stream mine = NULL, again = NULL;

    wt_ok(warm_stream_reserve(runtime, 0, &mine));
    wt_ok(warm_stream_reserve(runtime, 0, &again));
    ck_assert_ptr_eq(mine, again);
    wt_invalid(warm_stream_destroy(runtime, mine));
    wt_ok(warm_thread_release(runtime));
    wt_invalid(warm_stream_destroy(runtime, mine));
    wt_invalid(warm_stream_destroy(runtime, WARM_STREAM_LEGACY));
    wt_ok(warm_stream_destroy(runtime, NULL));
    wt_ok(warm_stream_synchronize(runtime, mine));
}

struct leftover {
    warm_stream stream;
    wt_gate *gate;
};

static void leave_work(void *argument, unsigned index)
{
    struct leftover *l = argument;

    if (warm_stream_reserve(runtime, 0, &l->stream) == WARM_OK) {
        l->gate = wt_gate_close(runtime, l->stream);
    }
}

static void raise_flag(void *argument)
{
    *(atomic_int *)argument = 1;
}

/* Work queued by a thread that has gone runs before that of the next one. */
WT_TEST(test_A9_a_pooled_stream_keeps_its_order_across_threads)
{
    struct leftover l = {.stream = NULL};
    warm_stream mine = NULL;
    atomic_int flag = 0;

    wt_threads(1, leave_work, &l);
    ck_assert_ptr_nonnull(l.gate);
    wt_ok(warm_stream_reserve(runtime, 0, &mine));
    ck_assert_ptr_eq(mine, l.stream);
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, created), 1);
    wt_ok(warm_stream_host_func(runtime, mine, raise_flag, &flag));
    wt_fails(WARM_NOT_READY, warm_stream_query(runtime, mine));
    ck_assert_int_eq(flag, 0);
    wt_gate_open(l.gate);
    wt_ok(warm_stream_synchronize(runtime, mine));
    ck_assert_int_eq(flag, 1);
}

static void leave_capturing(void *argument, unsigned index)
{
    warm_stream *stream = argument;

    if (warm_stream_reserve(runtime, 0, stream) != WARM_OK ||
        warm_capture_begin(runtime, *stream) != WARM_OK) {
        *stream = NULL;
    }
}

WT_TEST(test_A3_a_stream_left_capturing_serves_nobody)
{
    warm_stream left = NULL, next = NULL;

    wt_threads(1, leave_capturing, &left);
    ck_assert_ptr_nonnull(left);
    wt_ok(warm_stream_reserve(runtime, 0, &next));
    wt_ok(warm_stream_query(runtime, next));
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, created), 2);
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, destroyed) +
                         wt_stat(runtime, WARM_KIND_STREAM, 0, leaked),
                     1);
}

/* What uses it could not be told that it ends: it must not. */
WT_TEST(test_B6_a_stream_that_cannot_retire_is_not_destroyed)
{
    warm_stream left = NULL, next = NULL;
    uint64_t before = 0, after = 0;

    wt_threads(1, leave_capturing, &left);
    ck_assert_ptr_nonnull(left);
    before = wt_calls(runtime, "stream_destroy");
    wt_ok(warm_testing_fail(runtime, "stream_info", 1, 0));
    wt_ok(warm_stream_reserve(runtime, 0, &next));
    wt_ok(warm_testing_fail(runtime, "stream_info", 0, 0));
    after = wt_calls(runtime, "stream_destroy");
    ck_assert_uint_eq(after, before);
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, leaked), 1);
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, destroyed), 0);
    ck_assert(wt_balanced(runtime, WARM_KIND_STREAM, 0));
}

static void set_and_go(void *argument, unsigned index)
{
    void **handles = argument;

    if (warm_handle_reserve_on(runtime, kind, 0, NULL, &handles[index]) ==
        WARM_OK) {
        wt_toy_use(handles[index]);
        wt_toy_leave(handles[index]);
    }
}

WT_TEST(test_A3_the_next_thread_inherits_no_setting)
{
    void *seen[1] = {NULL};
    void *first;

    wt_threads(1, set_and_go, seen);
    first = seen[0];
    ck_assert_int_eq(((wt_toy_handle *)first)->setting, 1); /* not yet */
    ck_assert_uint_eq(toy.resets, 0);
    for (unsigned i = 1; i <= 10; i++) {
        wt_threads(1, set_and_go, seen); /* counts toy.unreset */
        ck_assert_ptr_eq(seen[0], first);
        ck_assert_uint_eq(toy.resets, i);
        ck_assert_uint_eq(toy.binds, i + 1); /* the binding is gone, too */
    }
}

WT_TEST(test_A3_a_handle_that_cannot_be_reset_is_destroyed)
{
    void *handle = NULL;

    hold_at_once(3);
    wt_toy_fail(&toy, WT_RESET, 1, true);
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    ck_assert_int_eq(((wt_toy_handle *)handle)->setting, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), 3);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 4);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
    ck_assert(wt_balanced(runtime, kind, 0));
    wt_toy_fail(&toy, WT_RESET, 0, false);
}

WT_TEST(test_A14_creations_are_timed_and_counted)
{
    hold_at_once(2);
    ck_assert_int_gt(wt_stat(runtime, kind, 0, create_ns), 0);
    ck_assert_int_ge(wt_stat(runtime, kind, 0, create_ns),
                     wt_stat(runtime, kind, 0, create_max_ns));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces), 0);
}

/* The mode around a creation is the pool's affair: what a call that fails says
 * is why it failed, and one that works says nothing. */
WT_TEST(test_A8_G6_capture_mode_that_fails_does_not_hide_the_reason)
{
    warm_error error = WARM_INIT(warm_error);
    void *handle = NULL;

    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_ok(warm_testing_fail(runtime, "capture_mode", 2, 0));
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve(runtime, kind, 0, &handle));
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_LIBRARY_ERROR);
    ck_assert_int_eq(error.code, WT_TOY_CODE);
    wt_ok(warm_testing_fail(runtime, "capture_mode", 1, 1));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_ok(warm_testing_fail(runtime, "capture_mode", 0, 0));
    warm_last_error(&error);
    (void)wt_relaxed_end();
    ck_assert_int_eq(error.code, WT_TOY_CODE);
}

static int nested_create(void *context, int device, void **handle)
{
    void *inner = NULL;

    /* A kind may be made of another; its thread cannot be emptied meanwhile. */
    if (warm_handle_reserve(runtime, kind, device, &inner) != WARM_OK ||
        warm_thread_release(runtime) != WARM_INVALID_ARGUMENT) {
        return 1;
    }
    *handle = inner;
    return 0;
}

static int nested_destroy(void *context, int device, void *handle)
{
    return 0;
}

WT_TEST(test_A9_a_callback_may_reserve_another_kind)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "nested",
                         .create = nested_create,
                         .destroy = nested_destroy};
    warm_kind nested = -1;
    void *outer = NULL, *inner = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &nested));
    wt_ok(warm_handle_reserve(runtime, nested, 0, &outer));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &inner));
    ck_assert_ptr_eq(outer, inner);
    ck_assert_uint_eq(toy.creates, 1);
}

struct narcissus {
    warm_kind kind;
    warm_status own, other;
    unsigned depth;
    char message[384];
};

static int want_myself(void *context, int device, void **handle)
{
    struct narcissus *n = context;
    void *mine = NULL, *inner = NULL;

    if (n->depth++ == 0) {
        n->other = warm_handle_reserve(runtime, kind, device, &inner);
        n->own = warm_handle_reserve(runtime, n->kind, device, &mine);
        snprintf(n->message, sizeof n->message, "%s",
                 warm_last_error_message());
    }
    *handle = n;
    return 0;
}

/* It would wait for its own first creation for ever, or create without end. */
WT_TEST(test_A8_A9_a_callback_cannot_reserve_its_own_handle)
{
    struct narcissus n = {.own = WARM_OK, .other = WARM_NOT_FOUND};
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "narcissus",
                         .context = &n,
                         .create = want_myself,
                         .destroy = nested_destroy};
    void *handle = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &n.kind));
    wt_ok(warm_handle_reserve(runtime, n.kind, 0, &handle));
    ck_assert_ptr_eq(handle, &n);
    ck_assert_int_eq(n.own, WARM_INVALID_ARGUMENT);
    wt_contains(n.message, "narcissus");
    ck_assert_int_eq(n.other, WARM_OK);
    ck_assert_uint_eq(n.depth, 1);
    ck_assert_int_eq(wt_stat(runtime, n.kind, 0, created), 1);
    wt_ok(warm_thread_release(runtime)); /* no call is under way any more */
}

static int memory_create(void *context, int device, void **handle)
{
    return (int)warm_device_alloc_uncached(runtime, device, 4096, handle);
}

static int memory_destroy(void *context, int device, void *handle)
{
    return (int)warm_device_free_uncached(runtime, device, handle);
}

static int cannot_reset(void *context, int device, void *handle)
{
    return 1;
}

/* Most libraries allocate when a handle is made, which would spoil the capture
 * of the thread that happens to need one; and free when it goes, which would
 * spoil that of any thread, and is deferred. */
WT_TEST(test_A16_B7_A9_callbacks_may_allocate_while_the_thread_captures)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "memory",
                         .create = memory_create,
                         .destroy = memory_destroy,
                         .reset = cannot_reset};
    warm_stream stream = wt_stream(runtime, 0), pooled = NULL;
    warm_kind memory = -1;
    warm_graph graph = NULL;
    void *handle = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &memory));
    wt_ok(warm_handle_reserve(runtime, memory, 0, &handle));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_handle_reserve(runtime, memory, 0, &handle));
    wt_ok(warm_stream_reserve(runtime, 0, &pooled));
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 1);
    wt_ok(warm_capture_end(runtime, stream, &graph));
    ck_assert_int_eq(wt_stat(runtime, memory, 0, deferred), 0);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, destroyed), 1);
    ck_assert_int_eq(wt_stat(runtime, memory, 0, created), 2);
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_stream_destroy(runtime, stream));
}

/* Each of the calls that a thread makes fails, once and from then on. */
static const enum wt_toy_call faulty[] = {WT_CREATE, WT_BIND, WT_RESET,
                                          WT_DESTROY};

WT_LOOP_TEST(test_A8_A14_counters_balance_after_every_fault,
             2 * sizeof faulty / sizeof faulty[0])
{
    enum wt_toy_call call = faulty[_i / 2];
    bool on = _i % 2 != 0;
    void *seen[1];

    for (unsigned n = 1; n <= 4; n++) {
        wt_toy_fail(&toy, call, n, on);
        for (unsigned i = 0; i < 6; i++) {
            wt_threads(1, set_and_go, seen);
            ck_assert(wt_balanced(runtime, kind, 0));
            ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
        }
        wt_toy_fail(&toy, call, 0, false);
        wt_threads(1, set_and_go, seen);
        ck_assert_ptr_nonnull(seen[0]);
    }
    ck_assert_int_eq(toy.alive, wt_stat(runtime, kind, 0, idle));
}

int main(void)
{
    setenv("WARMPOOL_CONF", "host_devices:2", 0);
    return wt_run();
}

/* The library is loaded, and nothing else happens: no handle, no context. */
WT_TEST(test_A9_G8_the_library_of_a_kind_has_a_file)
{
    static const warm_kind kinds[] = {WARM_KIND_STREAM, WARM_KIND_CUBLAS,
                                      WARM_KIND_CUDNN};
    static const char *const names[] = {"/libcudart.so.", "/libcublas.so.",
                                        "/libcudnn.so."};
    warm_runtime *r = wt_runtime(NULL);
    char file[4096] = "as before";

    for (int i = 0; i < 3; i++) {
        if (wt_on_host()) {
            warm_status status =
                warm_kind_library(r, kinds[i], file, sizeof file);

            /* UNSUPPORTED: the library was built without CUDA's headers. */
            ck_assert_msg(
                status == (i == 0 ? WARM_NOT_FOUND : WARM_UNAVAILABLE) ||
                    (i > 0 && status == WARM_UNSUPPORTED),
                "%s", warm_last_error_message());
            ck_assert_str_eq(file, "as before");
        } else {
            warm_handle_stats stats = WARM_INIT(warm_handle_stats);

            wt_ok(warm_kind_library(r, kinds[i], file, sizeof file));
            wt_contains(file, names[i]);
            ck_assert_int_eq(file[0], '/');
            wt_ok(warm_handle_get_stats(r, kinds[i], 0, &stats));
            ck_assert_uint_eq(stats.created, 0);
            wt_invalid(warm_kind_library(r, kinds[i], file, 4));
        }
    }
    wt_invalid(warm_kind_library(r, WARM_KIND_MAX, file, sizeof file));
    wt_invalid(warm_kind_library(r, WARM_KIND_STREAM, NULL, 0));
    wt_runtime_end(r);
}
