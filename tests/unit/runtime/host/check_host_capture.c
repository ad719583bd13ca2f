/* check_host_capture.c: captures and graphs of the host device (B7, G3). */
/* memcheck: one process */
#include "wt_host.h"

#include <string.h>

struct device {
    wm_driver *d;
    warm_stream a, b;
    warm_event event;
    void *pinned, *memory; /* made before any capture */
    wt_order order;
    wt_note note[10];
};

static struct device x;

static void open_device(void)
{
    x = (struct device){.d = wt_host_open(2, 0),
                        .order = {.mutex = PTHREAD_MUTEX_INITIALIZER}};
    x.a = wt_host_stream(x.d, 0);
    x.b = wt_host_stream(x.d, 0);
    x.event = wt_host_event(x.d, 0);
    wt_ok(wm_driver_pinned_alloc(x.d, 4096, &x.pinned));
    wt_ok(wm_driver_device_alloc(x.d, 0, 4096, &x.memory));
}

static void close_device(void)
{
    wt_host_close(x.d, 0);
}

static void post(warm_stream s, int value)
{
    x.note[value] = (wt_note){&x.order, value};
    wt_post(x.d, s, &x.note[value]);
}

static wm_capture capturing(warm_stream s)
{
    wm_capture capture = WM_CAPTURE_BLOCKED;

    wt_ok(wm_driver_stream_capture(x.d, s, &capture));
    return capture;
}

WT_CASE("capture", .setup = open_device, .teardown = close_device);

/* Rows go into a graph as other copies do. */
WT_TEST(test_B19_G3_captured_rows_are_copied_with_each_launch)
{
    char from[4][8] = {{0}}, to[4][16] = {{0}};
    const wm_copy_2d rows = {to, 16, from, 8, 5, 4},
                     wide = {to, 4, from, 8, 5, 4};
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_copy_2d(x.d, &rows, x.a));
    wt_invalid(wm_driver_copy_2d(x.d, &wide, x.a));
    wt_host_error(1);
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    for (char round = 1; round <= 2; round++) {
        memset(from, round, sizeof from);
        wt_ok(wm_driver_graph_launch(x.d, graph, x.b));
        wt_ok(wm_driver_stream_synchronize(x.d, x.b));
        for (int i = 0; i < 4; i++) {
            ck_assert_int_eq(to[i][0], round);
            ck_assert_int_eq(to[i][4], round);
            ck_assert_int_eq(to[i][5], 0);
        }
    }
    wt_ok(wm_driver_graph_destroy(x.d, graph));
}

WT_TEST(test_G3_capture_runs_nothing_and_replays_in_order)
{
    warm_graph graph = NULL;
    int source = 5, middle = 0, end = 0;

    ck_assert_int_eq(capturing(x.a), WM_CAPTURE_NONE);
    wt_ok(wm_driver_capture_begin(x.d, x.a));
    ck_assert_int_eq(capturing(x.a), WM_CAPTURE_ACTIVE);
    ck_assert_int_eq(capturing(x.b), WM_CAPTURE_NONE);
    post(x.a, 0);
    wt_ok(wm_driver_copy(x.d, &middle, &source, sizeof source,
                         WARM_COPY_TO_DEVICE, x.a));
    wt_ok(wm_driver_copy(x.d, &end, &middle, sizeof source, WARM_COPY_TO_HOST,
                         x.a));
    post(x.a, 1);
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    ck_assert_int_eq(capturing(x.a), WM_CAPTURE_NONE);
    wt_ok(wm_driver_stream_synchronize(x.d, x.a));
    ck_assert_uint_eq(x.order.count, 0);
    ck_assert_int_eq(end, 0);
    for (int round = 1; round <= 3; round++) {
        source = round;
        wt_ok(wm_driver_graph_launch(x.d, graph, x.b));
        wt_ok(wm_driver_stream_synchronize(x.d, x.b));
        ck_assert_int_eq(end, round);
        ck_assert_uint_eq(x.order.count, (unsigned)round * 2);
        ck_assert_int_eq(x.order.value[round * 2 - 1], 1);
    }
    wt_ok(wm_driver_graph_destroy(x.d, graph));
    wt_fails(WARM_INVALID_STREAM, wm_driver_graph_launch(x.d, graph, x.b));
    wt_host_error(400);
}

WT_TEST(test_G3_graph_outlives_its_handle_while_launched)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    post(x.a, 3);
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    wt_hold(x.d, x.a);
    wt_ok(wm_driver_graph_launch(x.d, graph, x.a));
    wt_ok(wm_driver_graph_launch(x.d, graph, x.a));
    wt_ok(wm_driver_graph_destroy(x.d, graph));
    wt_step(x.d, x.a, 1); /* a launch is one piece of work */
    ck_assert_uint_eq(wt_order_count(&x.order), 1);
    wt_resume(x.d, x.a);
    wt_ok(wm_driver_stream_synchronize(x.d, x.a));
    ck_assert_uint_eq(x.order.count, 2);
}

/* One graph does not run beside itself; different ones do. */
WT_TEST(test_G3_launches_of_one_graph_take_turns)
{
    warm_stream c = wt_host_stream(x.d, 0);
    warm_graph same = NULL, other = NULL;

    wt_ok(wm_driver_capture_begin(x.d, c));
    post(c, 1);
    wt_ok(wm_driver_capture_end(x.d, c, &same));
    wt_ok(wm_driver_capture_begin(x.d, c));
    post(c, 2);
    wt_ok(wm_driver_capture_end(x.d, c, &other));
    wt_hold(x.d, x.a);
    wt_ok(wm_driver_graph_launch(x.d, same, x.a));
    wt_ok(wm_driver_graph_launch(x.d, same, x.b));
    wt_ok(wm_driver_graph_launch(x.d, other, c));
    wt_ok(wm_driver_stream_synchronize(x.d, c));
    ck_assert_uint_eq(wt_order_count(&x.order), 1);
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(x.d, x.b));
    wt_step(x.d, x.a, 1);
    wt_ok(wm_driver_stream_synchronize(x.d, x.b));
    ck_assert_uint_eq(x.order.count, 3);
    ck_assert_int_eq(x.order.value[0], 2);
}

WT_TEST(test_G3_graph_of_another_device_is_refused)
{
    warm_stream s = wt_host_stream(x.d, 1);
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    wt_invalid(wm_driver_graph_launch(x.d, graph, s));
    wt_ok(wm_driver_graph_launch(x.d, graph, x.b));
}

WT_TEST(test_G3_graph_inside_a_graph)
{
    warm_graph inner = NULL, outer = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    post(x.a, 2);
    wt_ok(wm_driver_capture_end(x.d, x.a, &inner));
    wt_ok(wm_driver_capture_begin(x.d, x.a));
    post(x.a, 1);
    wt_ok(wm_driver_graph_launch(x.d, inner, x.a));
    post(x.a, 3);
    wt_ok(wm_driver_capture_end(x.d, x.a, &outer));
    wt_ok(wm_driver_graph_destroy(x.d, inner));
    ck_assert_uint_eq(wt_order_count(&x.order), 0);
    wt_ok(wm_driver_graph_launch(x.d, outer, x.b));
    wt_ok(wm_driver_stream_synchronize(x.d, x.b));
    ck_assert_uint_eq(x.order.count, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(x.order.value[i], i + 1);
    }
}

/* a forks to b, b is joined back: one graph, in the recorded order. */
WT_TEST(test_G3_fork_and_join_in_a_capture)
{
    warm_event back = wt_host_event(x.d, 0);
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    post(x.a, 1);
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_stream_wait_event(x.d, x.b, x.event));
    ck_assert_int_eq(capturing(x.b), WM_CAPTURE_ACTIVE);
    post(x.b, 2);
    wt_ok(wm_driver_event_record(x.d, back, x.b));
    wt_ok(wm_driver_stream_wait_event(x.d, x.a, back));
    post(x.a, 3);
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    ck_assert_int_eq(capturing(x.b), WM_CAPTURE_NONE);
    wt_ok(wm_driver_graph_launch(x.d, graph, x.a));
    wt_ok(wm_driver_stream_synchronize(x.d, x.a));
    ck_assert_uint_eq(x.order.count, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(x.order.value[i], i + 1);
    }
}

/* Joined through a third stream counts as well; work after the join does
 * not; an empty fork has to be joined, too. */
WT_LOOP_TEST(test_G3_unjoined_stream_ends_the_capture_with_an_error, 3)
{
    warm_stream c = wt_host_stream(x.d, 0);
    warm_event to_c = wt_host_event(x.d, 0), back = wt_host_event(x.d, 0);
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_stream_wait_event(x.d, x.b, x.event));
    post(x.b, 1);
    wt_ok(wm_driver_event_record(x.d, to_c, x.b));
    wt_ok(wm_driver_stream_wait_event(x.d, c, to_c));
    wt_ok(wm_driver_event_record(x.d, back, c));
    if (_i != 0) {
        wt_ok(wm_driver_stream_wait_event(x.d, x.a, back));
    }
    if (_i == 2) {
        post(x.b, 2);
    }
    if (_i == 1) {
        wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
        ck_assert_ptr_nonnull(graph);
    } else {
        wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.a, &graph));
        wt_host_error(904);
        ck_assert_ptr_null(graph);
    }
    /* All of them are free again. */
    ck_assert_int_eq(capturing(x.a), WM_CAPTURE_NONE);
    ck_assert_int_eq(capturing(x.b), WM_CAPTURE_NONE);
    ck_assert_int_eq(capturing(c), WM_CAPTURE_NONE);
    wt_ok(wm_driver_stream_synchronize(x.d, x.b));
    ck_assert_uint_eq(x.order.count, 0);
}

/* ---- What is refused, and what that does to the capture ---- */

static char page[8192];

static warm_status call_query_own(void)
{
    return wm_driver_stream_query(x.d, x.a);
}

static warm_status call_synchronize_own(void)
{
    return wm_driver_stream_synchronize(x.d, x.a);
}

static warm_status call_query_other(void)
{
    return wm_driver_stream_query(x.d, x.b);
}

static warm_status call_synchronize_other(void)
{
    return wm_driver_stream_synchronize(x.d, x.b);
}

static warm_status call_event_query(void)
{
    return wm_driver_event_query(x.d, x.event);
}

static warm_status call_event_synchronize(void)
{
    return wm_driver_event_synchronize(x.d, x.event);
}

static warm_status call_captured_query(void)
{
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    return wm_driver_event_query(x.d, x.event);
}

static warm_status call_captured_synchronize(void)
{
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    return wm_driver_event_synchronize(x.d, x.event);
}

static warm_status call_pinned_alloc(void)
{
    void *pointer = NULL;

    return wm_driver_pinned_alloc(x.d, 4096, &pointer);
}

static warm_status call_pinned_free(void)
{
    return wm_driver_pinned_free(x.d, x.pinned, 4096);
}

static warm_status call_pinned_register(void)
{
    return wm_driver_pinned_register(x.d, page, sizeof page);
}

static warm_status call_device_alloc(void)
{
    void *pointer = NULL;

    return wm_driver_device_alloc(x.d, 0, 4096, &pointer);
}

static warm_status call_device_free(void)
{
    return wm_driver_device_free(x.d, 0, x.memory);
}

static warm_status call_wait_outside(void)
{
    wt_ok(wm_driver_event_record(x.d, x.event, x.b));
    return wm_driver_stream_wait_event(x.d, x.a, x.event);
}

static warm_status call_wait_pending(void)
{
    warm_status status;

    wt_hold(x.d, x.b);
    wt_ok(wm_driver_event_record(x.d, x.event, x.b));
    status = wm_driver_stream_wait_event(x.d, x.a, x.event);
    wt_resume(x.d, x.b);
    return status;
}

static warm_status call_join_legacy(void)
{
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    return wm_driver_stream_wait_event(x.d, WARM_STREAM_LEGACY, x.event);
}

static warm_status call_end_of_joined(void)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_stream_wait_event(x.d, x.b, x.event));
    return wm_driver_capture_end(x.d, x.b, &graph);
}

static const struct {
    warm_status (*call)(void);
    int code;
} refused[] = {
    /* legal for a thread in the relaxed mode */
    {call_query_other, 900},
    {call_synchronize_other, 900},
    {call_event_query, 900},
    {call_event_synchronize, 900},
    {call_pinned_alloc, 900},
    {call_pinned_free, 900},
    {call_pinned_register, 900},
    {call_device_alloc, 900},
    {call_device_free, 900},
    /* legal for none */
    {call_query_own, 900},
    {call_synchronize_own, 900},
    {call_captured_query, 907},
    {call_captured_synchronize, 907},
    {call_wait_outside, 905},
    {call_wait_pending, 905},
    {call_join_legacy, 900},
    {call_end_of_joined, 903},
};
enum { RELAXED = 9, REFUSED = sizeof refused / sizeof refused[0] };

WT_LOOP_TEST(test_B7_G3_illegal_call_is_refused_and_ends_the_capture, REFUSED)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_fails(WARM_CAPTURE_ERROR, refused[_i].call());
    wt_host_error(refused[_i].code);
    /* From now on the capture takes nothing, and its end says so. */
    ck_assert_int_eq(capturing(x.a), WM_CAPTURE_ACTIVE);
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_host_func(x.d, x.a, wt_note_run, NULL));
    wt_host_error(901);
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_event_record(x.d, x.event, x.a));
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.a, &graph));
    wt_host_error(901);
    ck_assert_ptr_null(graph);
    /* And then the stream works as ever. */
    post(x.a, 1);
    wt_ok(wm_driver_stream_synchronize(x.d, x.a));
    ck_assert_uint_eq(x.order.count, 1);
    wt_ok(wm_driver_pinned_free(x.d, x.pinned, 4096));
}

/* The mode of the thread lifts what is only unsafe, not what is impossible. */
WT_LOOP_TEST(test_B7_G3_relaxed_thread_may_query_and_allocate, REFUSED)
{
    warm_graph graph = NULL;
    bool relaxed = true;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_capture_mode(x.d, &relaxed));
    ck_assert(!relaxed);
    if (_i < RELAXED) {
        wt_ok(refused[_i].call());
    } else {
        wt_fails(WARM_CAPTURE_ERROR, refused[_i].call());
    }
    wt_ok(wm_driver_capture_mode(x.d, &relaxed));
    ck_assert(relaxed);
    if (_i < RELAXED) {
        wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    } else {
        wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.a, &graph));
    }
}

struct other_thread {
    int which;
    warm_status status;
    warm_graph graph;
};

static void run_in_other(void *argument, unsigned index)
{
    struct other_thread *o = argument;
    bool relaxed = true;

    /* So that the driver knows this thread. */
    wm_driver_capture_mode(x.d, &relaxed);
    wm_driver_capture_mode(x.d, &relaxed);
    o->status = o->which < REFUSED ? refused[o->which].call()
                                   : wm_driver_capture_end(x.d, x.a, &o->graph);
}

/* Thread-local mode: a call that is only unsafe, which the relaxed mode allows,
 * is refused to the capturing thread alone. */
WT_LOOP_TEST(test_B7_G3_capture_bars_its_own_thread_only, RELAXED)
{
    struct other_thread o = {.which = _i};
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_threads(1, run_in_other, &o);
    wt_ok(o.status);
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
}

WT_TEST(test_G3_capture_ends_in_its_own_thread)
{
    struct other_thread o = {.which = REFUSED};
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    post(x.a, 1);
    wt_threads(1, run_in_other, &o);
    ck_assert_int_eq(o.status, WARM_CAPTURE_ERROR);
    ck_assert_ptr_null(o.graph);
    /* Refused, and nothing has changed. */
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
}

WT_TEST(test_G3_capture_begin_and_end_out_of_place)
{
    warm_graph graph = NULL;

    wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_begin(x.d, NULL));
    wt_host_error(900);
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_capture_begin(x.d, WARM_STREAM_LEGACY));
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.a, &graph));
    wt_host_error(401);
    wt_ok(wm_driver_capture_begin(x.d, WARM_STREAM_PER_THREAD));
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_capture_begin(x.d, WARM_STREAM_PER_THREAD));
    wt_host_error(401);
    wt_ok(wm_driver_capture_end(x.d, WARM_STREAM_PER_THREAD, &graph));
}

WT_TEST(test_G3_two_captures_do_not_merge)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_capture_begin(x.d, x.b));
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_stream_wait_event(x.d, x.b, x.event));
    wt_host_error(902);
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.a, &graph));
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.b, &graph));
}

/* A captured event stays one until it is recorded again. */
WT_TEST(test_B7_G3_captured_event_after_its_capture)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_capture_end(x.d, x.a, &graph));
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_event_query(x.d, x.event));
    wt_host_error(907);
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_stream_wait_event(x.d, x.b, x.event));
    wt_host_error(907);
    ck_assert_int_eq(capturing(x.b), WM_CAPTURE_NONE);
    wt_ok(wm_driver_capture_begin(x.d, x.b));
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_stream_wait_event(x.d, x.b, x.event));
    wt_host_error(905);
    wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.b, &graph));
    wt_ok(wm_driver_event_record(x.d, x.event, x.b));
    wt_ok(wm_driver_event_query(x.d, x.event));
}

/* Row E7 will need it: streams that go during a capture leave nothing. */
WT_LOOP_TEST(test_G3_destroyed_stream_ends_its_capture, 2)
{
    warm_graph graph = NULL;

    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_stream_wait_event(x.d, x.b, x.event));
    wt_ok(wm_driver_stream_destroy(x.d, _i == 0 ? x.a : x.b));
    if (_i == 0) {
        ck_assert_int_eq(capturing(x.b), WM_CAPTURE_NONE);
        wt_ok(wm_driver_stream_query(x.d, x.b));
    } else {
        wt_fails(WARM_CAPTURE_ERROR, wm_driver_capture_end(x.d, x.a, &graph));
        wt_host_error(901);
    }
}

WT_TEST(test_G3_close_during_a_capture)
{
    wt_ok(wm_driver_capture_begin(x.d, x.a));
    post(x.a, 1);
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    wt_ok(wm_driver_stream_wait_event(x.d, x.b, x.event));
    ck_assert_uint_eq(x.order.count, 0);
}

WT_TEST(test_G3_too_many_streams_in_a_capture)
{
    wt_ok(wm_driver_capture_begin(x.d, x.a));
    wt_ok(wm_driver_event_record(x.d, x.event, x.a));
    for (int i = 1; i < WM_HOST_CAPTURE_STREAMS; i++) {
        wt_ok(
            wm_driver_stream_wait_event(x.d, wt_host_stream(x.d, 0), x.event));
    }
    wt_fails(WARM_CAPTURE_ERROR,
             wm_driver_stream_wait_event(x.d, x.b, x.event));
}

/* Several threads capture and launch at once, each its own. */
struct captures {
    unsigned rounds;
    _Atomic unsigned failed;
};

static void count_up(void *argument)
{
    ++*(unsigned *)argument;
}

static void capture_and_launch(void *argument, unsigned index)
{
    struct captures *c = argument;
    wm_driver *d = x.d;
    warm_stream s = NULL, t = NULL;
    unsigned count = 0, bad = 0, want = 0;

    bad += wm_driver_stream_create(d, 0, &s) != WARM_OK;
    bad += wm_driver_stream_create(d, 0, &t) != WARM_OK;
    for (unsigned i = 0; i < c->rounds; i++) {
        warm_graph graph = NULL;
        warm_event fork = NULL, join = NULL;

        bad += wm_driver_event_create(d, 0, &fork) != WARM_OK;
        bad += wm_driver_event_create(d, 0, &join) != WARM_OK;
        bad += wm_driver_capture_begin(d, s) != WARM_OK;
        bad += wm_driver_host_func(d, s, count_up, &count) != WARM_OK;
        bad += wm_driver_event_record(d, fork, s) != WARM_OK;
        bad += wm_driver_stream_wait_event(d, t, fork) != WARM_OK;
        bad += wm_driver_host_func(d, t, count_up, &count) != WARM_OK;
        bad += wm_driver_event_record(d, join, t) != WARM_OK;
        bad += wm_driver_stream_wait_event(d, s, join) != WARM_OK;
        bad += wm_driver_capture_end(d, s, &graph) != WARM_OK;
        bad += wm_driver_graph_launch(d, graph, s) != WARM_OK;
        bad += wm_driver_graph_launch(d, graph, t) != WARM_OK;
        bad += wm_driver_graph_launch(d, graph, s) != WARM_OK;
        bad += wm_driver_graph_destroy(d, graph) != WARM_OK;
        bad += wm_driver_event_destroy(d, fork) != WARM_OK;
        bad += wm_driver_event_destroy(d, join) != WARM_OK;
        bad += wm_driver_stream_synchronize(d, s) != WARM_OK;
        want += 6;
        bad += count != want;
    }
    atomic_fetch_add_explicit(&c->failed, bad, memory_order_relaxed);
}

WT_TEST(test_G3_threads_capture_beside_each_other)
{
    struct captures c = {.rounds = wt_scaled(300)};

    wt_threads(4, capture_and_launch, &c);
    ck_assert_uint_eq(c.failed, 0);
}
