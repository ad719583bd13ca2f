/* check_rebind.c: a handle on a few streams in turn: bindings that a thread
 * remembers are made again by the library's calls alone, until something that
 * ends them (row A10).
 *
 * backends: host standin */
#include "wt.h"

#include "handles/kind_table.h"
#include "runtime/base/clock.h"
#include "runtime/runtime.h"
#include "tests/unit/handles/bound_kind.h"
#include "wt_kind.h"

#include <stdio.h>

static warm_runtime *runtime;
static warm_kind kind;
static warm_stream a, b; /* adopted */
static void *of_a, *of_b;

static void *bind_to(warm_stream stream)
{
    void *handle = NULL;

    last.stream = NULL;
    last.workspace = NULL;
    wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
    return last.workspace;
}

/* Calls that look a stream up, or obtain and release a workspace. */
static uint64_t looks(void)
{
    static const char *const names[] = {
        "stream_info",  "stream_capture", "stream_query",  "event_create",
        "event_record", "event_mark",     "event_query",   "device_alloc",
        "device_free",  "capture_mode",   "current_device"};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        sum += wt_calls(runtime, names[i]);
    }
    return sum;
}

/* The binding is remembered, with that workspace; or it is looked up. */
static void expect_again(warm_stream stream, const void *workspace)
{
    uint64_t before = looks();

    ck_assert_ptr_eq(bind_to(stream), workspace);
    ck_assert_ptr_eq(last.stream, stream);
    ck_assert_uint_eq(looks(), before);
}

static void *expect_look(warm_stream stream)
{
    uint64_t before = looks();
    void *workspace = bind_to(stream);

    ck_assert_uint_gt(looks(), before);
    return workspace;
}

static uint64_t now;

static uint64_t set_clock(void)
{
    return now;
}

static long binds(void)
{
    return wt_stat(runtime, kind, 0, binds);
}

static void setup(void)
{
    runtime = wt_runtime(NULL);
    wt_ok(wm_kind_table_add(runtime->kinds, &bound_ops, NULL, &kind));
    a = wt_stream(runtime, 0);
    b = wt_stream(runtime, 0);
    of_a = bind_to(a);
    of_b = bind_to(b);
    expect_again(a, of_a);
    expect_again(b, of_b);
}

static void teardown(void)
{
    wm_clock_set(NULL);
    wt_ok(warm_stream_destroy(runtime, a));
    wt_ok(warm_stream_destroy(runtime, b));
    ck_assert(wm_kind_table_check(runtime->kinds));
    wt_runtime_end(runtime);
}

WT_CASE("rebind", .setup = setup, .teardown = teardown);

WT_TEST(test_A10_two_streams_in_turn_cost_the_librarys_calls_alone)
{
    warm_stream c = wt_stream(runtime, 0);
    void *of_c = bind_to(c);
    uint64_t before;

    (void)expect_look(a); /* a new stream may have an old one's address */
    (void)expect_look(b);
    for (int i = 0; i < 100; i++) {
        expect_again(a, of_a);
        expect_again(b, of_b);
    }
    ck_assert_ptr_null(bind_to(b)); /* a hit calls nothing */
    wt_ok(warm_stream_destroy(runtime, wt_stream(runtime, 0)));
    (void)expect_look(b); /* once */
    before = looks();
    ck_assert_ptr_null(bind_to(b));
    ck_assert_uint_eq(looks(), before);
    ck_assert_int_eq(binds(), 4 + 3 + 200);
    ck_assert_ptr_eq(expect_look(c), of_c); /* a third one costs a look */
    expect_again(b, of_b);
    wt_ok(warm_thread_release(runtime));
    ck_assert_int_eq(binds(), 4 + 3 + 200 + 2);
    wt_ok(warm_stream_destroy(runtime, c));
}

/* A retired stream, an announced capture and its end, and a private pool for
 * graphs: whatever was looked up before is looked up again. */
static void end_bindings(int way)
{
    warm_private_pool pool = {0};
    warm_stream other = NULL;
    warm_graph graph = NULL;

    switch (way) {
    case 0:
        other = wt_stream(runtime, 0);
        wt_ok(warm_stream_destroy(runtime, other));
        break;
    case 1:
        wt_ok(warm_capture_begin(runtime, a));
        wt_ok(warm_capture_end(runtime, a, &graph));
        wt_ok(warm_graph_destroy(runtime, graph));
        break;
    default:
        wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
        (void)expect_look(a); /* and is not remembered */
        (void)expect_look(b);
        (void)expect_look(a);
        (void)expect_look(b);
        wt_ok(warm_private_pool_end(runtime, pool));
        wt_ok(warm_private_pool_release(runtime, pool));
        break;
    }
}

WT_LOOP_TEST(test_A10_B6_bindings_are_looked_up_after_what_ends_them, 3)
{
    void *now_of_a;

    end_bindings(_i);
    now_of_a = expect_look(a);
    ck_assert_ptr_eq(now_of_a, of_a); /* the handle was bound to b */
    ck_assert_ptr_eq(expect_look(b), of_b);
    expect_again(a, now_of_a);
    expect_again(b, of_b);
}

/* Captured past the library: with a pool that records nothing is remembered. */
WT_TEST(test_A10_B7_unannounced_capture_gets_no_eager_workspace)
{
    warm_private_pool pool = {0};
    warm_graph graph = NULL;
    void *of_graph;

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    ck_assert_ptr_eq(bind_to(a), of_a);
    ck_assert_ptr_eq(bind_to(b), of_b);
    wt_ok(wm_driver_capture_begin(runtime->driver, a));
    of_graph = bind_to(a);
    ck_assert_ptr_nonnull(of_graph);
    ck_assert_ptr_ne(of_graph, of_a);
    wt_ok(wm_driver_capture_end(runtime->driver, a, &graph));
    wt_ok(warm_graph_destroy(runtime, graph));
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
    ck_assert_ptr_eq(bind_to(a), of_a);
    ck_assert_ptr_eq(bind_to(b), of_b);
    expect_again(a, of_a);
}

/* The library may not rely on its life, nor on announcements. */
WT_TEST(test_A10_B6_stream_that_is_not_adopted_is_looked_up)
{
    warm_stream foreign = NULL;
    void *memory;

    wt_ok(wm_driver_stream_create(runtime->driver, 0, &foreign));
    memory = bind_to(foreign);
    expect_again(b, of_b); /* which was before */
    ck_assert_ptr_eq(expect_look(foreign), memory);
    expect_again(b, of_b);
    ck_assert_ptr_eq(expect_look(a), of_a);
    expect_again(b, of_b);
    wt_ok(warm_stream_adopt(runtime, foreign));
    ck_assert_ptr_eq(expect_look(foreign), memory);
    ck_assert_ptr_eq(expect_look(a), of_a);
    expect_again(foreign, memory);
    expect_again(a, of_a);
    wt_ok(warm_stream_retire(runtime, foreign));
    wt_ok(wm_driver_stream_destroy(runtime->driver, foreign));
}

static void trim_in_thread(void *argument, unsigned index)
{
    uint64_t *idle_ns = argument;

    (void)index;
    (void)warm_handle_trim(runtime, kind, 0, 0, *idle_ns, NULL);
}

/* Another thread trims: what the handle is bound to stays. */
WT_TEST(test_A10_A12_trimmed_workspace_is_not_bound_again)
{
    uint64_t idle_ns = 0;
    void *now_of_a;

    wt_threads(1, trim_in_thread, &idle_ns);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces), 1);
    ck_assert_int_eq(binds(), 4);
    now_of_a = expect_look(a);
    ck_assert_ptr_nonnull(now_of_a);
    ck_assert_ptr_ne(now_of_a, of_b);
    expect_again(b, of_b);
    wt_threads(1, trim_in_thread, &idle_ns);
    ck_assert_ptr_ne(expect_look(a), of_b);
    ck_assert_ptr_eq(bind_to(b), of_b);
}

/* The age is from the last binding, made again or looked up. */
WT_TEST(test_A10_A12_workspace_bound_again_ages_since_it_was_left)
{
    uint64_t idle_ns = 11;

    wm_clock_set(set_clock);
    now = UINT64_C(1) << 62; /* later than all before */
    expect_again(a, of_a);
    now += 40;
    expect_again(b, of_b);
    now += 10;
    wt_threads(1, trim_in_thread, &idle_ns);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces), 2);
    idle_ns = 10;
    wt_threads(1, trim_in_thread, &idle_ns);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, workspaces), 1);
    expect_look(a);
    expect_again(b, of_b);
}

/* The binding that was used longest ago goes, also if the thread made it again
 * since it looked it up. */
WT_TEST(test_A10_handle_lets_go_of_what_it_was_bound_to_again_longest_ago)
{
    warm_stream more[2] = {wt_stream(runtime, 0), wt_stream(runtime, 0)};
    void *memory;

    wm_kind_table_workspaces(runtime->kinds, 0)->limit = 3 * WORKSPACE;
    wm_clock_set(set_clock);
    now = UINT64_C(1) << 62;
    (void)bind_to(a);
    now += 10;
    memory = bind_to(more[0]);
    now += 10;
    (void)bind_to(b);
    now += 10;
    (void)bind_to(a);
    now += 10;
    expect_again(b, of_b);
    now += 10;
    expect_again(a, of_a);
    ck_assert_ptr_eq(bind_to(more[1]), memory);
    expect_again(a, of_a);
    ck_assert_ptr_eq(bind_to(b), of_b);
    for (int i = 0; i < 2; i++) {
        wt_ok(warm_stream_destroy(runtime, more[i]));
    }
}

/* The next holder of the handle has its own bindings, and what the thread bound
 * it to last stays known: it is unbound when that stream retires. The thread's
 * last binding was made without a look, to either of two streams in turn. */
WT_LOOP_TEST(test_A10_B6_released_handle_is_bound_to_no_retired_stream, 2)
{
    static wt_toy toy;
    warm_kind toys;
    wt_toy_handle *h;
    void *handle = NULL;
    warm_stream s[2] = {wt_stream(runtime, 0), wt_stream(runtime, 0)};
    bool odd = _i == 1;

    wt_toy_init(&toy);
    toys = wt_toy_register(&toy, runtime, "toy");
    for (int i = 0; i < 4 + odd; i++) {
        wt_ok(warm_handle_reserve_on(runtime, toys, 0, s[i % 2], &handle));
    }
    h = handle;
    ck_assert_ptr_eq(h->stream, s[!odd]);
    wt_ok(warm_thread_release(runtime));
    ck_assert_ptr_eq(h->stream, s[!odd]);
    wt_ok(warm_stream_destroy(runtime, s[!odd]));
    ck_assert_ptr_null(h->stream);
    wt_ok(warm_stream_destroy(runtime, s[odd]));
}

WT_TEST(test_A10_failed_binding_is_looked_up_next_time)
{
    static wt_toy toy;
    warm_kind toys;
    void *handle = NULL;
    warm_stream s[2] = {wt_stream(runtime, 0), wt_stream(runtime, 0)};

    wt_toy_init(&toy);
    toys = wt_toy_register(&toy, runtime, "toy");
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_handle_reserve_on(runtime, toys, 0, s[i % 2], &handle));
    }
    handle = &toy;
    wt_toy_fail(&toy, WT_BIND, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve_on(runtime, toys, 0, s[0], &handle));
    ck_assert_ptr_eq(handle, &toy);
    ck_assert_int_eq(wt_stat(runtime, toys, 0, in_use), 1);
    ck_assert_int_eq(wt_stat(runtime, toys, 0, binds), 5);
    wt_ok(warm_handle_reserve_on(runtime, toys, 0, s[1], &handle));
    ck_assert_uint_eq(toy.binds, 6);
    ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, s[1]);
    wt_ok(warm_stream_destroy(runtime, s[0]));
    wt_ok(warm_stream_destroy(runtime, s[1]));
}

/* More handles and streams than a window remembers: each is right. */
WT_TEST(test_A10_more_bindings_than_are_remembered)
{
    enum { KINDS = 5, STREAMS = 3 };
    static wt_toy toy[KINDS];
    warm_kind toys[KINDS];
    warm_stream s[STREAMS];
    void *handle = NULL;

    for (int i = 0; i < STREAMS; i++) {
        s[i] = wt_stream(runtime, 0);
    }
    for (int k = 0; k < KINDS; k++) {
        char name[16];

        snprintf(name, sizeof name, "toy %d", k);
        wt_toy_init(&toy[k]);
        toys[k] = wt_toy_register(&toy[k], runtime, name);
    }
    for (int i = 0; i < 60; i++) {
        for (int k = 0; k < KINDS; k++) {
            wt_ok(warm_handle_reserve_on(runtime, toys[k], 0, s[i % STREAMS],
                                         &handle));
            ck_assert_ptr_eq(((wt_toy_handle *)handle)->stream, s[i % STREAMS]);
        }
    }
    for (int k = 0; k < KINDS; k++) {
        ck_assert_int_eq(wt_stat(runtime, toys[k], 0, binds), 60);
        ck_assert_uint_eq(toy[k].binds, 60);
    }
    expect_look(a);
    expect_look(b);
    expect_again(a, of_a);
    for (int i = 0; i < STREAMS; i++) {
        wt_ok(warm_stream_destroy(runtime, s[i]));
    }
}

struct turns {
    warm_stream *streams;
    atomic_bool wrong;
};

static void take_turns(void *argument, unsigned index)
{
    struct turns *turns = argument;
    void *handle = NULL;

    for (int i = 0; i < 2000; i++) {
        warm_stream stream = turns->streams[2 * index + (unsigned)i % 2];

        last.stream = NULL;
        if (warm_handle_reserve_on(runtime, kind, 0, stream, &handle) !=
                WARM_OK ||
            last.stream != stream || last.workspace == NULL) {
            turns->wrong = true;
        }
    }
}

static void trim_and_turn(void *argument, unsigned index)
{
    if (index > 1) {
        for (int i = 0; i < 50; i++) {
            (void)warm_handle_trim(runtime, kind, 0, 0, 0, NULL);
        }
    } else {
        take_turns(argument, index);
    }
}

WT_TEST(test_A10_A12_threads_bind_in_turn_while_another_trims)
{
    warm_stream s[4];
    struct turns turns = {.streams = s};

    for (int i = 0; i < 4; i++) {
        s[i] = wt_stream(runtime, 0);
    }
    wt_threads(3, trim_and_turn, &turns);
    ck_assert(!turns.wrong);
    for (int i = 0; i < 4; i++) {
        wt_ok(warm_stream_destroy(runtime, s[i]));
    }
}
