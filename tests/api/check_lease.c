/* check_lease.c: handles made ahead, trimmed and leased, through the public
 * interface (rows A11, A12, A13). */
/* memcheck: one process */
#include "wt_one_kind.h"
#include "wt_short.h"

#include <signal.h>
#include <sched.h>
#include <string.h>

static long stat_idle(void)
{
    return wt_stat(runtime, kind, 0, idle);
}

static void *lend(warm_lease *lease)
{
    void *handle = NULL;

    wt_ok(warm_handle_lease(runtime, kind, 0, lease, &handle));
    wt_toy_use(handle);
    return handle;
}

static void back(warm_lease lease, void *handle)
{
    wt_toy_leave(handle);
    wt_ok(warm_handle_return(runtime, lease));
}

WT_CASE("lease", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A13_a_lease_is_nobody_elses)
{
    warm_lease lease[5] = {{0}};
    void *handle[5] = {NULL};
    void *held = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &held));
    for (int i = 0; i < 5; i++) {
        handle[i] = lend(&lease[i]);
        ck_assert_ptr_ne(handle[i], held);
        ck_assert_uint_ne(lease[i].number, 0);
        for (int k = 0; k < i; k++) {
            ck_assert_ptr_ne(handle[i], handle[k]);
            ck_assert_uint_ne(lease[i].number, lease[k].number);
        }
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 5);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 6);
    ck_assert(wt_balanced(runtime, kind, 0));
    /* The thread's own handle goes back, those on lease do not. */
    wt_ok(warm_thread_release(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 5);
    ck_assert_int_eq(stat_idle(), 1);
    for (int i = 0; i < 5; i++) {
        back(lease[(i * 2) % 5], handle[(i * 2) % 5]);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 4 - i);
        ck_assert(wt_balanced(runtime, kind, 0));
    }
    ck_assert_int_eq(stat_idle(), 6);
    ck_assert_uint_eq(toy.creates, 6);
}

WT_TEST(test_A13_a_returned_handle_is_reset_for_the_next)
{
    warm_lease first = {0}, second = {0};
    void *handle = lend(&first), *again;

    back(first, handle);
    ck_assert_uint_eq(toy.resets, 0); /* a return calls nothing */
    again = lend(&second);
    ck_assert_ptr_eq(again, handle);
    ck_assert_uint_eq(toy.resets, 1);
    ck_assert_uint_ne(first.number, second.number);
    back(second, again);
    wt_ok(warm_handle_reserve(runtime, kind, 0, &again));
    ck_assert_ptr_eq(again, handle);
    ck_assert_uint_eq(toy.resets, 2);
    ck_assert_int_eq(((wt_toy_handle *)again)->setting, 0);
}

WT_TEST(test_A13_what_is_no_lease_cannot_be_returned)
{
    warm_runtime *other = wt_runtime(NULL);
    wt_toy toys;
    warm_kind same;
    warm_lease lease = {0}, foreign = {0};
    void *handle = lend(&lease), *theirs = NULL;

    wt_toy_init(&toys);
    same = wt_toy_register(&toys, other, "toy");
    ck_assert_int_eq(same, kind);
    wt_ok(warm_handle_lease(other, same, 0, &foreign, &theirs));
    wt_invalid(warm_handle_return(runtime, (warm_lease){0}));
    wt_invalid(warm_handle_return(runtime, (warm_lease){UINT64_MAX}));
    wt_invalid(warm_handle_return(
        runtime, (warm_lease){lease.number + 1})); /* the next kind's */
    wt_invalid(warm_handle_return(runtime, foreign));
    wt_invalid(warm_handle_return(other, lease));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 1);
    ck_assert_int_eq(stat_idle(), 0);
    back(lease, handle);
    wt_invalid(warm_handle_return(runtime, lease));
    wt_says("toy");
    /* The handle is with somebody else by now; the old lease stays over. */
    handle = lend(&foreign);
    wt_invalid(warm_handle_return(runtime, lease));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 1);
    back(foreign, handle);
    ck_assert_int_eq(stat_idle(), 1);
    ck_assert(wt_balanced(runtime, kind, 0));
    ck_assert_int_eq(wt_stat(other, same, 0, leased), 1);
    /* The runtime goes with the lease: it is reported, and left alone. */
    {
        warm_destroy_report report = WARM_INIT(warm_destroy_report);

        wt_ok(warm_runtime_destroy(other, &report));
        ck_assert_uint_eq(report.handles, 1);
        ck_assert_int_eq(toys.alive, 1);
        ck_assert_uint_eq(toys.destroys, 0);
        wt_fails(WARM_RUNTIME_GONE, warm_handle_return(other, (warm_lease){1}));
        wt_toy_free_left(&toys);
    }
}

WT_TEST(test_A10_A13_a_lease_can_be_bound_to_a_stream)
{
    warm_lease lease = {0}, none = {0};
    void *handle = NULL, *again = NULL;
    warm_stream stream = wt_stream(runtime, 0);
    warm_stream other = wt_stream(runtime, 0);

    wt_ok(warm_handle_lease_on(runtime, kind, 0, stream, &lease, &handle));
    ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, stream);
    wt_ok(warm_handle_return(runtime, lease));
    /* Bound anew: nothing is taken from an earlier holder. */
    wt_ok(warm_handle_lease_on(runtime, kind, 0, other, &lease, &again));
    ck_assert_ptr_eq(again, handle);
    ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, other);
    wt_ok(warm_handle_return(runtime, lease));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, binds), 2);
    /* A binding that fails leaves no lease behind. */
    wt_toy_fail(&toy, WT_BIND, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_lease_on(runtime, kind, 0, stream, &none, &again));
    ck_assert_uint_eq(none.number, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 0);
    ck_assert_int_eq(stat_idle(), 1);
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, other));
}

WT_TEST(test_H1_a_lease_is_found_by_its_handle)
{
    warm_runtime *other = wt_runtime(NULL);
    warm_lease lease[3] = {{0}}, found = {7};
    void *handle[3], *held = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &held));
    for (int i = 0; i < 3; i++) {
        handle[i] = lend(&lease[i]);
    }
    for (int i = 0; i < 3; i++) {
        wt_ok(warm_handle_find_lease(runtime, kind, handle[i], &found));
        ck_assert_uint_eq(found.number, lease[i].number);
    }
    found.number = 7;
    /* Held by a thread, of another kind or runtime, or nobody's. */
    wt_fails(WARM_NOT_FOUND,
             warm_handle_find_lease(runtime, kind, held, &found));
    wt_fails(WARM_NOT_FOUND, warm_handle_find_lease(runtime, WARM_KIND_STREAM,
                                                    handle[0], &found));
    wt_fails(WARM_NOT_FOUND, warm_handle_find_lease(other, WARM_KIND_STREAM,
                                                    handle[0], &found));
    wt_fails(WARM_NOT_FOUND,
             warm_handle_find_lease(runtime, kind, &found, &found));
    wt_says("toy");
    wt_invalid(warm_handle_find_lease(runtime, kind, NULL, &found));
    wt_invalid(warm_handle_find_lease(runtime, kind, handle[0], NULL));
    wt_invalid(warm_handle_find_lease(runtime, kind + 1, handle[0], &found));
    wt_invalid(warm_handle_find_lease(NULL, kind, handle[0], &found));
    ck_assert_uint_eq(found.number, 7);
    back(lease[1], handle[1]);
    wt_fails(WARM_NOT_FOUND,
             warm_handle_find_lease(runtime, kind, handle[1], &found));
    /* The same handle, leased again, has a new lease. */
    ck_assert_ptr_eq(lend(&lease[1]), handle[1]);
    wt_ok(warm_handle_find_lease(runtime, kind, handle[1], &found));
    ck_assert_uint_eq(found.number, lease[1].number);
    for (int i = 0; i < 3; i++) {
        back(lease[i], handle[i]);
    }
    wt_ok(warm_testing_check(runtime, 1));
    wt_runtime_end(other);
}

WT_TEST(test_H1_a_lease_is_bound_to_another_stream)
{
    warm_lease lease = {0}, stream_lease = {0};
    warm_stream stream = wt_stream(runtime, 0), other = wt_stream(runtime, 0);
    wt_toy_handle *handle = lend(&lease);
    void *pooled = NULL;

    wt_ok(warm_lease_bind(runtime, lease, stream));
    ck_assert_ptr_eq(handle->stream, stream);
    wt_ok(warm_lease_bind(runtime, lease, other));
    ck_assert_ptr_eq(handle->stream, other);
    wt_ok(warm_lease_bind(runtime, lease, WARM_STREAM_LEGACY));
    ck_assert_ptr_eq(handle->stream, WARM_STREAM_LEGACY);
    wt_ok(warm_lease_bind(runtime, lease, other));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, binds), 4);
    /* What is refused leaves the handle where it was. */
    wt_toy_fail(&toy, WT_BIND, 1, false);
    wt_fails(WARM_LIBRARY_ERROR, warm_lease_bind(runtime, lease, stream));
    wt_invalid(warm_lease_bind(runtime, (warm_lease){0}, stream));
    wt_invalid(warm_lease_bind(runtime, (warm_lease){UINT64_MAX}, stream));
    wt_invalid(warm_lease_bind(NULL, lease, stream));
    wt_ok(warm_handle_lease(runtime, WARM_KIND_STREAM, 0, &stream_lease,
                            &pooled));
    wt_fails(WARM_UNSUPPORTED, warm_lease_bind(runtime, stream_lease, stream));
    wt_ok(warm_handle_return(runtime, stream_lease));
    ck_assert_ptr_eq(handle->stream, other);
    /* A stream that retires takes its handles off, those bound later too. */
    wt_ok(warm_stream_retire(runtime, other));
    ck_assert_ptr_null(handle->stream);
    back(lease, handle);
    wt_invalid(warm_lease_bind(runtime, lease, stream));
    wt_says("toy");
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_ok(warm_stream_destroy(runtime, other));
}

/* The libraries themselves, where there are some. */
WT_LOOP_TEST(test_A13_A9_every_kind_can_be_leased_and_returned,
             WARM_KIND_BUILTIN)
{
    warm_lease lease[2] = {{0}};
    void *handle[2] = {NULL};
    uint64_t destroyed = 0;
    warm_status status =
        warm_handle_lease(runtime, _i, 0, &lease[0], &handle[0]);

    if (status != WARM_OK) {
        ck_assert(status == WARM_UNAVAILABLE || status == WARM_UNSUPPORTED);
        return;
    }
    wt_ok(warm_handle_lease(runtime, _i, 0, &lease[1], &handle[1]));
    ck_assert(handle[0] != handle[1] || _i == WARM_KIND_CUBLASLT);
    wt_ok(warm_handle_return(runtime, lease[0]));
    wt_ok(warm_handle_trim(runtime, _i, 0, 0, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 1);
    ck_assert_int_eq(wt_stat(runtime, _i, 0, leased), 1);
    wt_ok(warm_handle_return(runtime, lease[1]));
    wt_ok(warm_handle_prewarm(runtime, _i, 0, 3, 0));
    ck_assert_int_eq(wt_stat(runtime, _i, 0, idle), 3);
    ck_assert_int_eq(wt_stat(runtime, _i, 0, created), 4);
    wt_ok(warm_handle_trim(runtime, _i, 0, 1, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 2);
    wt_ok(warm_handle_lease(runtime, _i, 0, &lease[0], &handle[0]));
    wt_ok(warm_handle_return(runtime, lease[0]));
    ck_assert(wt_balanced(runtime, _i, 0));
}

struct passing {
    warm_lease lease;
    void *handle;
    warm_status status;
};

static void return_it(void *argument, unsigned index)
{
    struct passing *p = argument;

    wt_toy_leave(p->handle);
    p->status = warm_handle_return(runtime, p->lease);
}

static void lease_it(void *argument, unsigned index)
{
    struct passing *p = argument;

    p->status = warm_handle_lease(runtime, kind, 0, &p->lease, &p->handle);
    if (p->status == WARM_OK) {
        wt_toy_use(p->handle);
    }
}

WT_TEST(test_A13_a_lease_outlives_its_thread_and_ends_in_another)
{
    struct passing p = {.status = WARM_NOT_FOUND};
    void *held = NULL;

    wt_threads(1, lease_it, &p);
    wt_ok(p.status);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 1);
    wt_ok(warm_handle_reserve(runtime, kind, 0, &held));
    ck_assert_ptr_ne(held, p.handle);
    wt_threads(1, return_it, &p);
    wt_ok(p.status);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 0);
    ck_assert_int_eq(stat_idle(), 1);
}

WT_TEST(test_A11_prewarm_makes_what_is_missing)
{
    void *held = NULL;
    unsigned creates;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &held));
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 3, 0));
    ck_assert_int_eq(stat_idle(), 3);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, created), 4);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 1);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 2, 0));
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 0, 0));
    ck_assert_int_eq(stat_idle(), 3);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 40, 0)); /* arrays grow */
    ck_assert_int_eq(stat_idle(), 40);
    creates = toy.creates;
    for (int i = 0; i < 3; i++) {
        struct passing p = {.status = WARM_NOT_FOUND};

        wt_threads(1, lease_it, &p);
        wt_ok(p.status);
        wt_threads(1, return_it, &p);
        wt_ok(p.status);
    }
    ck_assert_uint_eq(toy.creates, creates);
    wt_invalid(warm_handle_prewarm(runtime, kind, 0, 1, 2));
    wt_invalid(warm_handle_prewarm(runtime, kind, 99, 1, 0));
    ck_assert_uint_eq(toy.creates, creates);
    ck_assert(wt_balanced(runtime, kind, 0));
}

WT_LOOP_TEST(test_A8_A11_a_failed_prewarm_leaves_what_it_made, 2)
{
    unsigned flags = _i != 0 ? WARM_PREWARM_BACKGROUND : 0;
    warm_error error = WARM_INIT(warm_error);
    warm_status status;

    wt_toy_fail(&toy, WT_CREATE, 3, false);
    status = warm_handle_prewarm(runtime, kind, 0, 5, flags);
    if (_i != 0) {
        wt_ok(status);
        status = warm_handle_prewarm_wait(runtime);
    }
    ck_assert_int_eq(status, WARM_LIBRARY_ERROR);
    warm_last_error(&error);
    ck_assert_int_eq(error.code, WT_TOY_CODE);
    ck_assert_str_eq(error.origin, "toy");
    ck_assert_int_eq(stat_idle(), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, failed), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 0);
    ck_assert(wt_balanced(runtime, kind, 0));
    wt_ok(warm_handle_prewarm_wait(runtime)); /* told once */
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 5, flags));
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(stat_idle(), 5);
}

WT_TEST(test_A11_in_the_background_nobody_waits)
{
    wt_toy more;
    warm_kind second;

    wt_toy_init(&more);
    second = wt_toy_register(&more, runtime, "more");
    wt_toy_close_gate(&toy);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 2, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&toy, 1);
    wt_ok(warm_handle_prewarm(runtime, second, 0, 3, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 4, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 1, WARM_PREWARM_BACKGROUND));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 4);
    ck_assert_int_eq(wt_stat(runtime, second, 0, prewarming), 3);
    wt_toy_open_gate(&toy);
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(stat_idle(), 4);
    ck_assert_int_eq(wt_stat(runtime, second, 0, idle), 3);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 0);
    ck_assert_int_eq(wt_stat(runtime, second, 0, prewarming), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use_peak), 0);
    /* Again, by the same thread. */
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 6, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(stat_idle(), 6);
    wt_ok(warm_handle_trim(runtime, second, 0, 0, 0, NULL));
    ck_assert_int_eq(more.alive, 0);
}

WT_TEST(test_A11_of_two_failures_the_first_is_told)
{
    wt_toy more;
    warm_kind second;

    wt_toy_init(&more);
    second = wt_toy_register(&more, runtime, "more");
    wt_toy_fail(&toy, WT_CREATE, 1, true);
    wt_toy_fail(&more, WT_CREATE, 1, true);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 2, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_handle_prewarm(runtime, second, 0, 2, WARM_PREWARM_BACKGROUND));
    wt_fails(WARM_LIBRARY_ERROR, warm_handle_prewarm_wait(runtime));
    ck_assert_ptr_eq(strstr(warm_last_error_message(), "toy: create"),
                     warm_last_error_message());
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, failed), 1);
    ck_assert_int_eq(wt_stat(runtime, second, 0, failed), 1);
    wt_toy_fail(&toy, WT_CREATE, 0, false);
}

/* Signals are for the program's own threads. */
static int create_unless_signalled(void *context, int device, void **handle)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (!sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR1)) {
        return 1;
    }
    return wt_toy_create(context, device, handle);
}

WT_TEST(test_A11_background_thread_takes_no_signals)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "quiet",
                         .context = &toy,
                         .create = create_unless_signalled,
                         .destroy = wt_toy_destroy};
    warm_kind quiet = -1;
    sigset_t mine;

    wt_ok(warm_kind_register(runtime, &ops, &quiet));
    wt_ok(warm_handle_prewarm(runtime, quiet, 0, 1, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(wt_stat(runtime, quiet, 0, idle), 1);
    /* And the caller's are as they were. */
    pthread_sigmask(SIG_BLOCK, NULL, &mine);
    ck_assert(!sigismember(&mine, SIGUSR1));
}

WT_TEST(test_A11_without_a_thread_nothing_is_left_to_be_made)
{
    wt_refuse_threads(true);
    wt_fails(WARM_OUT_OF_MEMORY,
             warm_handle_prewarm(runtime, kind, 0, 2, WARM_PREWARM_BACKGROUND));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 0);
    wt_ok(warm_handle_prewarm_wait(runtime));
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 2, 0));
    wt_refuse_threads(false);
    ck_assert_int_eq(stat_idle(), 2);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 3, WARM_PREWARM_BACKGROUND));
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(stat_idle(), 3);
}

WT_LOOP_TEST(test_A11_what_is_left_can_be_called_off, 2)
{
    wt_toy_close_gate(&toy);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 9, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&toy, 1);
    wt_ok(warm_handle_prewarm_cancel(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 0);
    if (_i != 0) {
        /* Wanted after all. */
        wt_ok(
            warm_handle_prewarm(runtime, kind, 0, 2, WARM_PREWARM_BACKGROUND));
    }
    wt_toy_open_gate(&toy);
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(stat_idle(), _i != 0 ? 2 : 1);
    ck_assert_uint_eq(toy.creates, _i != 0 ? 2 : 1);
}

static void *opener(void *argument)
{
    warm_runtime *ending = argument;

    while (strcmp(warm_runtime_driver(ending), "gone") != 0) {
        sched_yield();
    }
    wt_toy_open_gate(&toy);
    return NULL;
}

/* destroy waits for the one that is being made, and for no other. */
WT_TEST(test_A11_G2_destroy_ends_what_goes_on_in_the_background)
{
    pthread_t thread;

    wt_toy_close_gate(&toy);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 1000, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&toy, 1);
    pthread_create(&thread, NULL, opener, runtime);
    wt_runtime_end(runtime);
    pthread_join(thread, NULL);
    ck_assert_int_eq(toy.alive, 0);
    ck_assert_uint_eq(toy.creates, 1);
    runtime = wt_runtime(NULL); /* for tear_down() */
}

/* A library that reserves, leases and waits while it makes a handle. */
struct nosy {
    wt_toy *toy;
    warm_kind own;
    warm_status reserve, own_reserve, own_lease, own_prewarm, wait, destroy;
};

static int nosy_create(void *context, int device, void **handle)
{
    struct nosy *n = context;
    warm_lease lease = {0};
    void *other = NULL;

    n->reserve = warm_handle_reserve(runtime, kind, device, &other);
    n->own_reserve = warm_handle_reserve(runtime, n->own, device, &other);
    n->own_lease = warm_handle_lease(runtime, n->own, device, &lease, &other);
    n->own_prewarm = warm_handle_prewarm(runtime, n->own, device, 1, 0);
    n->wait = warm_handle_prewarm_wait(runtime);
    n->destroy = warm_runtime_destroy(runtime, NULL);
    return wt_toy_create(n->toy, device, handle);
}

static int nosy_destroy(void *context, int device, void *handle)
{
    return wt_toy_destroy(((struct nosy *)context)->toy, device, handle);
}

WT_LOOP_TEST(test_A11_A13_A9_callbacks_cannot_wait_for_themselves, 3)
{
    static struct nosy n; /* destroyed by tear_down() */
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "nosy",
                         .context = &n,
                         .create = nosy_create,
                         .destroy = nosy_destroy};
    warm_lease lease = {0};
    void *handle = NULL;

    n.toy = &toy;
    wt_ok(warm_kind_register(runtime, &ops, &n.own));
    switch (_i) {
    case 0:
        wt_ok(warm_handle_lease(runtime, n.own, 0, &lease, &handle));
        wt_ok(warm_handle_return(runtime, lease));
        break;
    case 1:
        wt_ok(warm_handle_prewarm(runtime, n.own, 0, 1, 0));
        break;
    default:
        wt_ok(
            warm_handle_prewarm(runtime, n.own, 0, 1, WARM_PREWARM_BACKGROUND));
        wt_ok(warm_handle_prewarm_wait(runtime));
        /* What the callback reserved is not kept by the thread. */
        ck_assert_int_eq(stat_idle(), 1);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
        break;
    }
    ck_assert_int_eq(n.reserve, WARM_OK);
    ck_assert_int_eq(n.own_reserve, WARM_INVALID_ARGUMENT);
    ck_assert_int_eq(n.own_lease, WARM_INVALID_ARGUMENT);
    ck_assert_int_eq(n.own_prewarm, WARM_INVALID_ARGUMENT);
    ck_assert_int_eq(n.wait, WARM_INVALID_ARGUMENT);
    ck_assert_int_eq(n.destroy, WARM_INVALID_ARGUMENT);
    ck_assert_int_eq(wt_stat(runtime, n.own, 0, idle), 1);
}

/* What callbacks of every sort were told. */
static struct {
    unsigned called, wrong;
} told;

static void ask(unsigned sort)
{
    told.called |= 1u << sort;
    told.wrong += warm_handle_prewarm_wait(runtime) != WARM_INVALID_ARGUMENT ||
                  warm_pinned_prewarm_wait(runtime) != WARM_INVALID_ARGUMENT ||
                  warm_runtime_destroy(runtime, NULL) != WARM_INVALID_ARGUMENT;
}

enum {
    ASK_CREATE,
    ASK_DESTROY,
    ASK_BIND,
    ASK_RESET,
    ASK_TEXT,
    ASK_LOG,
    ASK_MEMORY,
    ASKS
};

static int asking_create(void *context, int device, void **handle)
{
    ask(ASK_CREATE);
    return wt_toy_create(context, device, handle);
}

static int asking_destroy(void *context, int device, void *handle)
{
    ask(ASK_DESTROY);
    return wt_toy_destroy(context, device, handle);
}

static int asking_bind(void *context, int device, void *handle,
                       warm_stream stream)
{
    ask(ASK_BIND);
    return wt_toy_bind(context, device, handle, stream);
}

static int asking_reset(void *context, int device, void *handle)
{
    ask(ASK_RESET);
    return wt_toy_reset(context, device, handle);
}

static const char *asking_text(void *context, int code)
{
    ask(ASK_TEXT);
    return wt_toy_text(context, code);
}

static void asking_log(void *context, warm_log_level level, const char *line)
{
    ask(ASK_LOG);
}

static int asking_memory(void *context, size_t bytes)
{
    ask(ASK_MEMORY);
    return 0;
}

WT_TEST(test_A6_A11_no_callback_waits_for_what_may_wait_for_it)
{
    static const warm_kind_ops ops = {.size = sizeof ops,
                                      .name = "asking",
                                      .context = &toy,
                                      .create = asking_create,
                                      .destroy = asking_destroy,
                                      .bind_stream = asking_bind,
                                      .reset = asking_reset,
                                      .error_text = asking_text};
    warm_kind asking = -1;
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &asking));
    wt_ok(wt_short_add(runtime, asking_memory, NULL));
    warm_log_set(asking_log, NULL);
    for (int i = 0; i < 2; i++) { /* the second is reset */
        wt_ok(warm_handle_lease_on(runtime, asking, 0, NULL, &lease, &handle));
        wt_ok(warm_handle_return(runtime, lease));
    }
    wt_ok(warm_handle_trim(runtime, asking, 0, 0, 0, NULL));
    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_lease(runtime, asking, 0, &lease, &handle));
    wt_ok(warm_handle_lease(runtime, asking, 0, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    wt_toy_fail(&toy, WT_RESET, 1, false); /* logs that one is destroyed */
    wt_ok(warm_handle_lease(runtime, asking, 0, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 1, 1));
    wt_fails(WARM_OUT_OF_MEMORY, warm_pinned_alloc(runtime, 1 << 20, &handle));
    wt_ok(warm_testing_fail(runtime, "pinned_alloc", 0, 0));
    warm_log_set(NULL, NULL);
    ck_assert_uint_eq(told.called, (1u << ASKS) - 1);
    ck_assert_uint_eq(told.wrong, 0);
    wt_ok(warm_handle_prewarm_wait(runtime));
    wt_ok(warm_pinned_prewarm_wait(runtime));
}

/* ---- a library's call that may access a stream --------------------------- */

/* A call for this stream stops: a reset or an unbinding (null), a binding. */
static _Atomic(warm_stream) held_at;
static atomic_bool holds, is_held, is_retired;

static void hold_at(warm_stream stream)
{
    if (atomic_load(&holds) && atomic_load(&held_at) == stream) {
        atomic_store(&is_held, true);
        while (atomic_load(&holds)) {
            sched_yield();
        }
    }
}

static int held_reset(void *context, int device, void *handle)
{
    hold_at(NULL);
    return wt_toy_reset(context, device, handle);
}

static int held_bind(void *context, int device, void *handle,
                     warm_stream stream)
{
    hold_at(stream);
    return wt_toy_bind(context, device, handle, stream);
}

static int held_destroy(void *context, int device, void *handle)
{
    hold_at(WARM_STREAM_LEGACY);
    return wt_toy_destroy(context, device, handle);
}

static warm_kind held_kind;
static warm_lease held_lease;
static warm_stream from, to;

static void *acquire_one(void *none)
{
    warm_lease lease = {0};
    void *handle = NULL;

    wt_ok(warm_handle_lease(runtime, held_kind, 0, &lease, &handle));
    wt_ok(warm_handle_return(runtime, lease));
    return none;
}

static void *trim_all(void *none)
{
    wt_ok(warm_handle_trim(runtime, held_kind, 0, 0, 0, NULL));
    return none;
}

static void *bind_it(void *none)
{
    wt_ok(warm_lease_bind(runtime, held_lease, to));
    return none;
}

static void *retire_one(void *none)
{
    wt_ok(warm_stream_retire(runtime, from));
    atomic_store(&is_retired, true);
    pthread_testcancel();
    return none;
}

/* Registers the kind, with a reset or without, and leases a handle bound to
 * stream `from`. */
static wt_toy_handle *lend_held(bool resets)
{
    const warm_kind_ops ops = {.size = sizeof ops,
                               .name = "held",
                               .context = &toy,
                               .create = wt_toy_create,
                               .destroy = held_destroy,
                               .bind_stream = held_bind,
                               .reset = resets ? held_reset : NULL,
                               .error_text = wt_toy_text};
    void *handle = NULL;

    atomic_store(&is_retired, false);
    from = wt_stream(runtime, 0);
    to = wt_stream(runtime, 0);
    wt_ok(warm_kind_register(runtime, &ops, &held_kind));
    wt_ok(warm_handle_lease_on(runtime, held_kind, 0, from, &held_lease,
                               &handle));
    return handle;
}

/* Starts a thread, whose call for that stream stops. */
static pthread_t start_held(void *(*call)(void *), warm_stream at)
{
    pthread_t thread;

    atomic_store(&held_at, at);
    atomic_store(&is_held, false);
    atomic_store(&holds, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, call, NULL), 0);
    while (!atomic_load(&is_held)) {
        sched_yield();
    }
    return thread;
}

static void end_held(void)
{
    wt_ok(warm_testing_check(runtime, 1));
    wt_ok(warm_stream_destroy(runtime, from));
    wt_ok(warm_stream_destroy(runtime, to));
}

/* The library may access the stream until its call has returned. A thread that
 * is cancelled waits as well. */
WT_LOOP_TEST(
    test_A10_A12_T3_a_retirement_waits_for_handles_taken_off_the_stream, 3)
{
    static void *(*const calls[])(void *) = {acquire_one, trim_all, bind_it};
    wt_toy_handle *handle = lend_held(true);
    wt_linger linger = {0};
    pthread_t other, retirer;

    if (_i < 2) {
        wt_ok(warm_handle_return(runtime, held_lease));
    }
    other = start_held(calls[_i], _i < 2 ? NULL : to);
    ck_assert_int_eq(pthread_create(&retirer, NULL, retire_one, NULL), 0);
    pthread_cancel(retirer);
    while (wt_lingers(&linger)) {
        ck_assert(!atomic_load(&is_retired));
    }
    atomic_store(&holds, false);
    pthread_join(other, NULL);
    pthread_join(retirer, NULL);
    ck_assert(atomic_load(&is_retired));
    if (_i == 2) {
        ck_assert_ptr_eq(handle->stream, to);
        wt_ok(warm_handle_return(runtime, held_lease));
    }
    end_held();
}

/* A binding that the library refuses leaves the handle where it was, for the
 * retirement that waits to take it off. */
WT_TEST(test_A10_H1_a_retirement_takes_off_what_could_not_be_bound)
{
    wt_toy_handle *handle = lend_held(true);
    pthread_t retirer;
    wt_linger linger = {0};

    wt_toy_fail(&toy, WT_BIND, 1, false);
    wt_fails(WARM_LIBRARY_ERROR, warm_lease_bind(runtime, held_lease, to));
    ck_assert_ptr_eq(handle->stream, from);
    retirer = start_held(retire_one, NULL);
    while (wt_lingers(&linger)) {
        ck_assert(!atomic_load(&is_retired));
    }
    atomic_store(&holds, false);
    pthread_join(retirer, NULL);
    ck_assert_ptr_null(handle->stream);
    wt_ok(warm_handle_return(runtime, held_lease));
    end_held();
}

/* No handle has two calls at once, and the last stream is the one asked for. */
WT_TEST(test_H1_a_lease_is_bound_after_its_stream_has_let_it_go)
{
    wt_toy_handle *handle = lend_held(true);
    pthread_t retirer = start_held(retire_one, NULL), binder;
    wt_linger linger = {0};

    ck_assert_int_eq(pthread_create(&binder, NULL, bind_it, NULL), 0);
    while (wt_lingers(&linger)) {
        ck_assert_uint_eq(toy.binds, 1);
    }
    atomic_store(&holds, false);
    pthread_join(retirer, NULL);
    pthread_join(binder, NULL);
    ck_assert_ptr_eq(handle->stream, to);
    wt_ok(warm_handle_return(runtime, held_lease));
    end_held();
}

/* The handle is nobody else's before the call has returned. */
WT_TEST(test_H1_a_lease_may_end_while_it_is_bound)
{
    wt_toy_handle *handle = lend_held(true);
    pthread_t binder = start_held(bind_it, to);
    warm_lease lease = {0}, found = {0};
    void *other = NULL;

    wt_ok(warm_handle_return(runtime, held_lease));
    wt_invalid(warm_lease_bind(runtime, held_lease, to));
    wt_fails(WARM_NOT_FOUND,
             warm_handle_find_lease(runtime, held_kind, handle, &found));
    wt_ok(warm_handle_lease(runtime, held_kind, 0, &lease, &other));
    ck_assert_ptr_ne(other, handle);
    atomic_store(&holds, false);
    pthread_join(binder, NULL);
    ck_assert_ptr_eq(handle->stream, to);
    ck_assert_int_eq(wt_stat(runtime, held_kind, 0, idle), 1);
    wt_ok(warm_stream_retire(runtime, to));
    ck_assert_ptr_null(handle->stream);
    wt_ok(warm_handle_return(runtime, lease));
    end_held();
}

/* Destroying waits for the device, which may wait for the thread that retires
 * the stream. */
WT_TEST(test_A10_no_retirement_waits_for_a_handle_that_is_destroyed)
{
    pthread_t acquirer;

    (void)lend_held(true);
    wt_ok(warm_handle_return(runtime, held_lease));
    wt_toy_fail(&toy, WT_RESET, 1, false);
    acquirer = start_held(acquire_one, WARM_STREAM_LEGACY);
    (void)retire_one(NULL);
    ck_assert_uint_eq(toy.destroys, 0);
    atomic_store(&holds, false);
    pthread_join(acquirer, NULL);
    ck_assert_uint_eq(toy.destroys, 1);
    end_held();
}

/* Nothing but the pool takes the handle of such a kind off a stream. */
WT_LOOP_TEST(test_A10_A13_a_kind_without_reset_gives_handles_without_stream, 2)
{
    wt_toy_handle *handle = lend_held(false);
    void *again = NULL;

    wt_ok(warm_handle_return(runtime, held_lease));
    wt_toy_fail(&toy, WT_BIND, (unsigned)_i, true);
    wt_ok(warm_handle_lease(runtime, held_kind, 0, &held_lease, &again));
    wt_toy_fail(&toy, WT_BIND, 0, false);
    ck_assert_int_eq((int)toy.destroys, _i);
    if (_i == 0) {
        ck_assert_ptr_eq(again, handle);
    }
    ck_assert_ptr_null(((wt_toy_handle *)again)->stream);
    wt_ok(warm_handle_return(runtime, held_lease));
    end_held();
}

WT_TEST(test_A12_trim_keeps_the_newest_and_what_is_in_use)
{
    warm_lease lease[4] = {{0}};
    void *handle[4], *held = NULL, *again = NULL;
    uint64_t destroyed = 99;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &held));
    for (int i = 0; i < 4; i++) {
        handle[i] = lend(&lease[i]);
    }
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 0);
    for (int i = 0; i < 3; i++) {
        back(lease[i], handle[i]);
    }
    wt_ok(warm_handle_trim(runtime, kind, 0, 3, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 0);
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, UINT64_MAX, &destroyed));
    ck_assert_uint_eq(destroyed, 0);
    wt_ok(warm_handle_trim(runtime, kind, 0, 1, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leased), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 1);
    back(lease[3], handle[3]);
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease[0], &again));
    ck_assert_ptr_eq(again, handle[3]);
    wt_ok(warm_handle_lease(runtime, kind, 0, &lease[1], &again));
    ck_assert_ptr_eq(again, handle[2]); /* not 0 or 1: those were older */
    wt_ok(warm_handle_return(runtime, lease[0]));
    wt_ok(warm_handle_return(runtime, lease[1]));
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(toy.alive, 1);
    ck_assert(wt_balanced(runtime, kind, 0));
    wt_invalid(warm_handle_trim(runtime, 99, 0, 0, 0, &destroyed));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &again));
    ck_assert_ptr_eq(again, held);
}

WT_TEST(test_A12_one_that_cannot_be_destroyed_is_counted)
{
    uint64_t destroyed = 0;

    wt_ok(warm_handle_prewarm(runtime, kind, 0, 3, 0));
    wt_toy_fail(&toy, WT_DESTROY, 2, false);
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, &destroyed));
    ck_assert_uint_eq(destroyed, 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, destroyed), 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, leaked), 1);
    ck_assert_int_eq(stat_idle(), 0);
    ck_assert(wt_balanced(runtime, kind, 0));
    wt_runtime_end(runtime);
    wt_toy_free_left(&toy);
    runtime = wt_runtime(NULL); /* for tear_down() */
}

/* A stream that is trimmed retires first: blocks freed on it come back. */
WT_LOOP_TEST(test_A12_B6_trimmed_streams_retire, 2)
{
    warm_space_stats stats;
    warm_lease lease = {0};
    warm_stream stream = NULL;
    uint64_t destroyed = 0;
    void *block;

    wt_ok(warm_handle_lease(runtime, WARM_KIND_STREAM, 0, &lease, &stream));
    block = wt_pinned(runtime, 4096);
    wt_ok(warm_record_stream(block, stream));
    wt_ok(warm_handle_return(runtime, lease));
    /* A stream that cannot retire is leaked, never destroyed. */
    if (_i != 0) {
        wt_ok(warm_testing_fail(runtime, "stream_info", 1, 0));
    }
    wt_ok(warm_handle_trim(runtime, WARM_KIND_STREAM, 0, 0, 0, &destroyed));
    ck_assert_uint_eq(destroyed, _i != 0 ? 0 : 1);
    ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, leaked), _i);
    wt_ok(warm_free(block));
    wt_ok(warm_poll(runtime));
    stats = wt_pinned_stats(runtime);
    ck_assert_uint_eq(stats.pending.current, 0);
    ck_assert_uint_eq(stats.lost, 0);
}

WT_TEST(test_A12_A13_B7_nothing_spoils_a_capture)
{
    warm_stream stream;
    warm_lease lease = {0};
    void *handle = NULL;
    int which = wt_on_host() ? kind : WARM_KIND_CUBLAS;

    if (warm_handle_prewarm(runtime, which, 0, 1, 0) != WARM_OK) {
        which = kind;
    }
    stream = wt_stream(runtime, 0);
    wt_ok(warm_capture_begin(runtime, stream));
    wt_ok(warm_handle_prewarm(runtime, which, 0, 3, 0));
    wt_ok(warm_handle_lease_on(runtime, which, 0, stream, &lease, &handle));
    wt_ok(warm_handle_trim(runtime, which, 0, 0, 0, NULL));
    wt_ok(warm_handle_trim(runtime, WARM_KIND_STREAM, 0, 0, 0, NULL));
    wt_ok(warm_handle_return(runtime, lease));
    wt_capture_drop(runtime, stream);
    wt_ok(warm_stream_destroy(runtime, stream));
    ck_assert(wt_balanced(runtime, which, 0));
}
