/* check_window_spare.c: windows that serve one thread after the other, and that
 * are freed with the runtime (rows A4, A5, G1, G2).
 * backends: host, standin */
#include "handles/kind_table.h"
#include "runtime/base/meta.h"
#include "runtime/thread/window.h"
#include "wt_one_kind.h"

#include <sched.h>

struct counts {
    unsigned all, used, spare, dirty;
};

static bool is_dirty(const wm_window *window)
{
    bool dirty = window->call != NULL;

    for (unsigned device = 0; device < window->devices; device++) {
        const wm_rows *rows = &window->rows[device / WM_ROW_DEVICES];

        dirty = dirty || window->kinds_held[device] != 0;
        for (warm_kind k = 0; k < WARM_KIND_MAX; k++) {
            size_t index = wm_window_index(k, (int)device);

            dirty = dirty || rows->held[index] != wm_window_none ||
                    rows->held[index + WM_ROW_SECOND] != 0 ||
                    rows->bound[index + WM_ROW_SECOND] != 0;
        }
    }
    return dirty;
}

/* Relaxed: the threads have been joined. */
static bool is_in(const wm_window *window, enum wm_window_state state)
{
    return atomic_load_explicit(&window->state, memory_order_relaxed) ==
           (int)state;
}

/* dirty: spare ones that hold anything, or are not where they belong. */
static struct counts count(warm_runtime *r)
{
    const wm_window *ready =
        atomic_load_explicit(&r->ready_window, memory_order_relaxed);
    struct counts c = {0, 0, 0, 0};
    unsigned listed = 0;

    wm_lock_acquire(&r->windows_lock);
    for (wm_window *w = r->windows; w != NULL; w = w->next) {
        bool spare = is_in(w, WM_WINDOW_SPARE);

        c.all++;
        c.used += is_in(w, WM_WINDOW_USED);
        c.spare += spare;
        c.dirty += spare && is_dirty(w);
    }
    for (wm_window *w = r->spare_windows; w != NULL; w = w->next_spare) {
        listed++;
        c.dirty += !is_in(w, WM_WINDOW_SPARE) || w == ready;
    }
    if (ready != NULL) {
        listed++;
        c.dirty += !is_in(ready, WM_WINDOW_SPARE);
    }
    c.dirty += listed != c.spare;
    wm_lock_release(&r->windows_lock);
    return c;
}

enum { AT_ONCE = 4, ROUNDS = 25 };

struct round {
    pthread_barrier_t barrier;
    atomic_uint failures;
    bool bound;
};

static void hold_shortly(void *argument, unsigned index)
{
    struct round *round = argument;
    warm_stream stream = NULL;
    void *handle = NULL;

    round->failures += warm_stream_reserve(runtime, 0, &stream) != WARM_OK;
    round->failures +=
        (round->bound
             ? warm_handle_reserve_on(runtime, kind, 0, stream, &handle)
             : warm_handle_reserve(runtime, kind, 0, &handle)) != WARM_OK;
    pthread_barrier_wait(&round->barrier);
}

WT_CASE("spare", .setup = set_up, .teardown = tear_down);

WT_LOOP_TEST(test_windows_are_as_many_as_threads_at_once, 2)
{
    struct round round = {.failures = 0};
    uint64_t calls = 0;
    unsigned held = 0;
    void *handle;

    if (_i != 0) {
        wt_ok(warm_handle_reserve(runtime, kind, 0,
                                  &handle)); /* of this thread */
        held = 1;
    }
    pthread_barrier_init(&round.barrier, NULL, AT_ONCE);
    for (int i = 0; i < ROUNDS; i++) {
        struct counts c;

        round.bound = i % 2 == 0;
        wt_threads(AT_ONCE, hold_shortly, &round);
        c = count(runtime);
        ck_assert_uint_eq(c.all, AT_ONCE + held);
        ck_assert_uint_eq(c.used, held);
        ck_assert_uint_eq(c.spare, AT_ONCE);
        ck_assert_uint_eq(c.dirty, 0);
        /* Nothing is allocated for a thread once there were as many. */
        ck_assert(i == 0 || wm_meta_calls() == calls);
        calls = wm_meta_calls();
    }
    ck_assert_uint_eq(round.failures, 0);
    ck_assert_uint_eq(toy.creates, AT_ONCE + held);
    pthread_barrier_destroy(&round.barrier);
}

WT_TEST(test_a_used_window_binds_anew)
{
    void *handle = NULL, *again = NULL;
    warm_stream stream = wt_stream(runtime, 0);

    for (unsigned i = 1; i <= 3; i++) {
        wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &handle));
        wt_ok(warm_handle_reserve_on(runtime, kind, 0, stream, &again));
        ck_assert_ptr_eq(again, handle);
        ck_assert_uint_eq(toy.binds, i);
        wt_ok(warm_thread_release(runtime));
    }
    ck_assert_uint_eq(count(runtime).all, 1);
    wt_ok(warm_stream_destroy(runtime, stream));
}

/* Two runtimes: a window never serves the other one. */
WT_TEST(test_windows_stay_with_their_runtime)
{
    warm_runtime *second = wt_runtime(NULL);
    warm_stream stream = NULL, other = NULL;

    wt_ok(warm_stream_reserve(runtime, 0, &stream));
    wt_ok(warm_thread_release(runtime));
    wt_ok(warm_stream_reserve(second, 0, &other));
    ck_assert_uint_eq(count(runtime).spare, 1);
    ck_assert_uint_eq(count(second).all, 1);
    ck_assert_ptr_ne(stream, other);
    wt_runtime_end(second);
    wt_ok(warm_stream_reserve(runtime, 0, &other));
    ck_assert_ptr_eq(stream, other);
    ck_assert_uint_eq(count(runtime).all, 1);
}

static void *reserve_once(void *argument)
{
    warm_status *status = argument;
    void *handle = NULL;

    *status = warm_handle_reserve(runtime, kind, 0, &handle);
    return NULL;
}

WT_TEST(test_a_window_without_memory_changes_nothing)
{
    warm_status status = WARM_OK;
    pthread_t thread;
    void *handle = NULL;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wm_meta_fail(1, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, reserve_once, &status), 0);
    pthread_join(thread, NULL);
    wm_meta_fail(0, false);
    ck_assert_int_eq(status, WARM_OUT_OF_MEMORY);
    ck_assert_uint_eq(count(runtime).all, 1);
    ck_assert_uint_eq(toy.creates, 1);
    /* A spare one needs none. */
    wt_ok(warm_thread_release(runtime));
    wm_meta_fail(1, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, reserve_once, &status), 0);
    pthread_join(thread, NULL);
    wm_meta_fail(0, false);
    wt_ok(status);
    ck_assert_uint_eq(count(runtime).all, 1);
}

struct leaver {
    pthread_barrier_t barrier;
    warm_status status;
    void *handle;
};

static void *leave_late(void *argument)
{
    struct leaver *leaver = argument;

    leaver->status = warm_handle_reserve(runtime, kind, 0, &leaver->handle);
    pthread_barrier_wait(&leaver->barrier);
    pthread_barrier_wait(&leaver->barrier);
    return NULL;
}

static void *destroy(void *argument)
{
    (void)warm_runtime_destroy(runtime, argument);
    return NULL;
}

/* Destroy has begun, but waits for a handle that is made in the background,
 * and has not come to the windows yet: the thread that exits then can give
 * nothing back, and its window must not serve anyone. */
WT_TEST(test_a_thread_that_exits_while_the_runtime_closes)
{
    struct leaver leaver = {.handle = NULL};
    warm_destroy_report report = {.size = sizeof report};
    pthread_t thread, destroyer;
    struct counts c;

    pthread_barrier_init(&leaver.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, leave_late, &leaver), 0);
    pthread_barrier_wait(&leaver.barrier);
    wt_ok(leaver.status);
    wt_toy_close_gate(&toy);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 1, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&toy, 1);
    pthread_create(&destroyer, NULL, destroy, &report);
    while (atomic_load(&runtime->state) == WM_RUNTIME_LIVE) {
        sched_yield();
    }
    pthread_barrier_wait(&leaver.barrier);
    pthread_join(thread, NULL);
    c = count(runtime);
    ck_assert_uint_eq(c.used, 1); /* of the thread in the background */
    ck_assert_uint_eq(c.all, 2);
    ck_assert_uint_eq(c.spare, 0);
    wt_toy_open_gate(&toy);
    pthread_join(destroyer, NULL);
    ck_assert_uint_eq(report.handles, 1); /* the leaver's */
    ck_assert_int_eq(toy.alive, 1);
    ck_assert_int_eq(wm_meta_live(), 1); /* the runtime's block alone */
    wt_toy_free_left(&toy);
    pthread_barrier_destroy(&leaver.barrier);
    set_up(); /* for tear_down() */
}

WT_TEST(test_destroy_frees_the_spare_windows_and_cuts_the_others)
{
    struct leaver leaver = {.handle = NULL};
    struct round round = {.failures = 0};
    warm_destroy_report report = {.size = sizeof report};
    pthread_t thread;

    pthread_barrier_init(&leaver.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, leave_late, &leaver), 0);
    pthread_barrier_wait(&leaver.barrier);
    pthread_barrier_init(&round.barrier, NULL, AT_ONCE);
    wt_threads(AT_ONCE, hold_shortly, &round);
    ck_assert_uint_eq(count(runtime).spare, AT_ONCE);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.handles, 1);
    ck_assert_uint_eq(count(runtime).all, 0);
    ck_assert_uint_eq(count(runtime).spare, 0);
    pthread_barrier_wait(&leaver.barrier);
    pthread_join(thread, NULL);
    ck_assert_int_eq(wm_meta_live(), 1);
    wt_toy_free_left(&toy);
    pthread_barrier_destroy(&leaver.barrier);
    pthread_barrier_destroy(&round.barrier);
    set_up();
}
