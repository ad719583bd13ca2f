/* check_window.c: windows of threads, and their ends (rows A4, A5, A7, G1).
 * backends: host, standin */
#include "wt.h"
#include "wt_kind.h"

#include "handles/kind_table.h"
#include "runtime/base/meta.h"
#include "runtime/thread/window.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

static warm_runtime *runtime;
static wt_toy toy;
static warm_kind kind;

static void reserve_again(void *value);
/* Keys made before and after the library's own. */
static pthread_key_t older, newer;

static void set_up(void)
{
    warm_stream stream;

    pthread_key_create(&older, reserve_again);
    runtime = wt_runtime(NULL);
    wt_toy_init(&toy);
    kind = wt_toy_register(&toy, runtime, "toy");
    wt_ok(warm_stream_reserve(runtime, 0, &stream)); /* makes the key */
    wt_ok(warm_thread_release(runtime));
    pthread_key_create(&newer, reserve_again);
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
    wt_toy_end(&toy);
}

static unsigned windows_of(warm_runtime *r)
{
    unsigned count = 0;

    wm_lock_acquire(&r->windows_lock);
    for (wm_window *w = r->windows; w != NULL; w = w->next) {
        /* Relaxed: the threads that count have been joined, or wait. */
        count += atomic_load_explicit(&w->state, memory_order_relaxed) ==
                 WM_WINDOW_USED;
    }
    wm_lock_release(&r->windows_lock);
    return count;
}

WT_CASE("window", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A7_one_window_per_thread_and_runtime)
{
    warm_runtime *second = wt_runtime(NULL);
    warm_kind other = wt_toy_register(&toy, second, "toy");
    const wm_window *first_window;
    void *a = NULL, *b = NULL, *again = NULL;

    ck_assert_uint_eq(wm_window_current->devices, 0);
    wt_ok(warm_handle_reserve(runtime, kind, 0, &a));
    first_window = wm_window_current;
    wt_ok(warm_handle_reserve(second, other, 0, &b));
    ck_assert_ptr_ne(wm_window_current, first_window);
    for (int i = 0; i < 10; i++) {
        wt_ok(warm_handle_reserve(runtime, kind, 0, &again));
        ck_assert_ptr_eq(again, a);
        ck_assert_ptr_eq(wm_window_current, first_window);
        wt_ok(warm_handle_reserve(second, other, 0, &again));
        ck_assert_ptr_eq(again, b);
    }
    ck_assert_uint_eq(windows_of(runtime), 1);
    ck_assert_uint_eq(windows_of(second), 1);
    wt_runtime_end(second);
    /* The window of a runtime that has gone is met and let go. */
    wt_fails(WARM_RUNTIME_GONE, warm_handle_reserve(second, other, 0, &again));
    wt_ok(warm_handle_reserve(runtime, kind, 0, &again));
    ck_assert_ptr_eq(again, a);
}

static void end_runtime(void *argument, unsigned index)
{
    (void)warm_runtime_destroy(argument, NULL);
}

/* The window of a runtime that another thread destroyed is met by a call that
 * makes no other one the current one. */
WT_TEST(test_A5_a_window_that_was_let_go_is_not_the_current_one)
{
    warm_runtime *second = wt_runtime(NULL);
    const wm_window *gone;
    warm_stream stream = NULL;

    wt_ok(warm_stream_reserve(second, 0, &stream));
    gone = wm_window_current;
    wt_threads(1, end_runtime, second);
    ck_assert_ptr_eq(wm_window_current, gone);
    wt_ok(warm_thread_release(runtime));
    ck_assert_ptr_ne(wm_window_current, gone);
    ck_assert_uint_eq(wm_window_current->devices, 0);
}

WT_TEST(test_G1_release_ends_the_window)
{
    void *handle = NULL;
    int64_t live;

    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_ok(warm_thread_release(runtime));
    live = wm_meta_live();
    ck_assert_uint_eq(windows_of(runtime), 0);
    ck_assert_uint_eq(wm_window_current->devices, 0);
    wt_ok(warm_thread_release(runtime)); /* nothing held: nothing happens */
    wt_ok(warm_handle_reserve(runtime, kind, 0, &handle));
    wt_ok(warm_thread_release(runtime));
    ck_assert_int_eq(wm_meta_live(), live);
    ck_assert_uint_eq(toy.creates, 1);
}

/* Ways to end a thread that holds a handle. */
enum end { END_RETURN, END_PTHREAD_EXIT, END_CANCEL, END_RELEASE_FIRST, ENDS };

struct leaver {
    enum end end;
    pthread_barrier_t barrier;
    warm_status status;
};

static void *leave(void *argument)
{
    struct leaver *leaver = argument;
    warm_stream stream = NULL;
    void *handle = NULL;

    leaver->status = warm_handle_reserve(runtime, kind, 0, &handle);
    if (leaver->status == WARM_OK) {
        leaver->status = warm_stream_reserve(runtime, 0, &stream);
    }
    switch (leaver->end) {
    case END_PTHREAD_EXIT:
        pthread_exit(NULL);
    case END_CANCEL:
        pthread_barrier_wait(&leaver->barrier);
        for (;;) {
            pthread_testcancel();
        }
    case END_RELEASE_FIRST:
        leaver->status = warm_thread_release(runtime);
        break;
    case END_RETURN:
    case ENDS:
        break;
    }
    return NULL;
}

WT_LOOP_TEST(test_A4_G1_handles_go_back_however_the_thread_ends, ENDS)
{
    struct leaver leaver = {.end = (enum end)_i};
    int64_t live = 0;

    pthread_barrier_init(&leaver.barrier, NULL, 2);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, leave, &leaver), 0);
        if (leaver.end == END_CANCEL) {
            pthread_barrier_wait(&leaver.barrier);
            pthread_cancel(thread);
        }
        pthread_join(thread, NULL);
        wt_ok(leaver.status);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
        ck_assert_int_eq(wt_stat(runtime, WARM_KIND_STREAM, 0, in_use), 0);
        ck_assert_uint_eq(windows_of(runtime), 0);
        ck_assert(round == 0 || wm_meta_live() == live);
        live = wm_meta_live();
    }
    ck_assert_uint_eq(toy.creates, 1);
    pthread_barrier_destroy(&leaver.barrier);
}

/* A create that is cancelled from outside: it is no cancellation point. */
static void *reserve_gated(void *argument)
{
    void *handle = NULL;
    warm_status *status = argument;

    *status = warm_handle_reserve(runtime, kind, 0, &handle);
    pthread_testcancel();
    return argument;
}

WT_TEST(test_A4_cancelled_while_creating)
{
    warm_status status = WARM_NOT_FOUND;
    pthread_t thread;
    void *result = NULL;

    wt_toy_close_gate(&toy);
    ck_assert_int_eq(pthread_create(&thread, NULL, reserve_gated, &status), 0);
    wt_toy_await(&toy, 1);
    pthread_cancel(thread);
    wt_toy_open_gate(&toy);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    wt_ok(status);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
}

/* Destructors of the other keys, that reserve. */
static pthread_key_t armed;
static unsigned rounds_wanted;
static _Thread_local unsigned rounds;
static _Atomic unsigned refused;

static void reserve_again(void *value)
{
    void *handle = NULL;

    if (warm_handle_reserve(runtime, kind, 0, &handle) != WARM_OK) {
        refused++;
    }
    if (++rounds < rounds_wanted) {
        pthread_setspecific(armed, value);
    }
}

static void *exit_with_key(void *argument)
{
    void *handle = NULL;

    (void)warm_handle_reserve(runtime, kind, 0, &handle);
    pthread_setspecific(armed, argument);
    return NULL;
}

WT_TEST(test_A4_a_destructor_that_reserves_again)
{
    pthread_t thread;

    rounds_wanted = 1;
    for (int i = 0; i < 4; i++) {
        armed = i % 2 == 0 ? older : newer;
        pthread_create(&thread, NULL, exit_with_key, &armed);
        pthread_join(thread, NULL);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
        ck_assert_uint_eq(windows_of(runtime), 0);
    }
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_eq(toy.creates, 1);
}

/* One that reserves in every round: the last time it is refused, because
 * nothing would give the handle back any more. */
WT_LOOP_TEST(test_A4_a_destructor_that_never_stops_reserving, !WT_TSAN)
{
    pthread_t thread;

    rounds_wanted = UINT_MAX;
    for (int i = 0; i < 2; i++) {
        armed = i == 0 ? older : newer;
        pthread_create(&thread, NULL, exit_with_key, &armed);
        pthread_join(thread, NULL);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
        ck_assert_uint_eq(windows_of(runtime), 0);
        ck_assert_uint_eq(refused, (unsigned)i); /* by the newer one */
    }
}

struct outliver {
    pthread_barrier_t barrier;
    warm_status before, after, release;
    void *handle;
};

static void *outlive(void *argument)
{
    struct outliver *o = argument;
    void *again = NULL;

    o->before = warm_handle_reserve(runtime, kind, 0, &o->handle);
    pthread_barrier_wait(&o->barrier); /* holds the handle now */
    pthread_barrier_wait(&o->barrier); /* the runtime has gone */
    o->after = warm_handle_reserve(runtime, kind, 0, &again);
    o->release = warm_thread_release(runtime);
    return NULL;
}

WT_TEST(test_A5_G2_a_thread_that_outlives_the_runtime)
{
    struct outliver o = {.handle = NULL};
    warm_destroy_report report = {.size = sizeof report};
    pthread_t thread;

    pthread_barrier_init(&o.barrier, NULL, 2);
    pthread_create(&thread, NULL, outlive, &o);
    pthread_barrier_wait(&o.barrier);
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert_uint_eq(report.handles, 1);
    ck_assert_int_eq(toy.alive, 1); /* left alone */
    ck_assert_int_gt(wm_meta_live(), 1);
    pthread_barrier_wait(&o.barrier);
    pthread_join(thread, NULL);
    wt_ok(o.before);
    ck_assert_int_eq(o.after, WARM_RUNTIME_GONE);
    ck_assert_int_eq(o.release, WARM_RUNTIME_GONE);
    /* Its window and what the driver kept for it are gone. */
    ck_assert_int_eq(wm_meta_live(), 1);
    ck_assert_int_eq(toy.alive, 1);
    wt_toy_free_left(&toy);
    pthread_barrier_destroy(&o.barrier);
    runtime = wt_runtime(NULL); /* for tear_down() */
}

struct meeter {
    pthread_barrier_t barrier;
    warm_runtime *second;
    warm_status status;
    int64_t before, after;
};

static void *meet_gone(void *argument)
{
    struct meeter *m = argument;
    warm_stream stream = NULL;

    m->status = warm_stream_reserve(runtime, 0, &stream);
    if (m->status == WARM_OK) {
        m->status = warm_stream_reserve(m->second, 0, &stream);
    }
    pthread_barrier_wait(&m->barrier);
    pthread_barrier_wait(&m->barrier); /* the second has gone */
    m->before = wm_meta_live();
    if (m->status == WARM_OK) {
        m->status = warm_stream_reserve(runtime, 0, &stream);
    }
    m->after = wm_meta_live();
    return NULL;
}

WT_TEST(test_A5_G2_the_window_of_a_gone_runtime_is_let_go)
{
    struct meeter m = {.second = wt_runtime(NULL)};
    pthread_t thread;

    pthread_barrier_init(&m.barrier, NULL, 2);
    pthread_create(&thread, NULL, meet_gone, &m);
    pthread_barrier_wait(&m.barrier);
    wt_ok(warm_runtime_destroy(m.second, NULL));
    pthread_barrier_wait(&m.barrier);
    pthread_join(thread, NULL);
    wt_ok(m.status);
    ck_assert_int_eq(m.after, m.before - 1);
    pthread_barrier_destroy(&m.barrier);
}

struct racer {
    pthread_barrier_t barrier;
    _Atomic unsigned held;
    void *handle[8];
};

static void race(void *argument, unsigned index)
{
    struct racer *r = argument;
    warm_destroy_report report = {.size = sizeof report};

    if (index == 0) {
        pthread_barrier_wait(&r->barrier);
        if (warm_runtime_destroy(runtime, &report) == WARM_OK) {
            r->held = (unsigned)report.handles;
        }
        return;
    }
    /* Windows go from one thread to another on the way. */
    for (unsigned i = 0; i < index; i++) {
        (void)warm_handle_reserve(runtime, kind, 0, &r->handle[index]);
        (void)warm_thread_release(runtime);
    }
    (void)warm_handle_reserve(runtime, kind, 0, &r->handle[index]);
    pthread_barrier_wait(&r->barrier);
    /* Exits while the runtime is being destroyed. */
}

WT_TEST(test_A5_G2_destroy_while_threads_exit)
{
    int64_t live = 0;

    for (unsigned round = 0; round < wt_scaled(200); round++) {
        struct racer r = {.held = UINT_MAX};

        pthread_barrier_init(&r.barrier, NULL, 5);
        wt_threads(5, race, &r);
        pthread_barrier_destroy(&r.barrier);
        /* Every handle was given back and destroyed, or reported and left. */
        ck_assert_uint_le(r.held, 4);
        ck_assert_int_eq(toy.alive, (int)r.held);
        wt_toy_free_left(&toy);
        /* No window is lost, whosever it was: the runtimes' own blocks stay. */
        ck_assert(round == 0 || wm_meta_live() == live + 1);
        live = wm_meta_live();
        runtime = wt_runtime(NULL);
        kind = wt_toy_register(&toy, runtime, "toy");
    }
}

static int refused_without_key(void)
{
    warm_runtime *none = NULL;
    pthread_key_t more;

    (void)warm_runtime_create(NULL, NULL); /* words of errors have their key */
    while (pthread_key_create(&more, NULL) == 0) {
    }
    return warm_runtime_create(NULL, &none) == WARM_OUT_OF_MEMORY &&
                   none == NULL &&
                   strstr(warm_last_error_message(), "key") != NULL
               ? 0
               : 1;
}

WT_CASE("first");

/* The runtime is refused, not a thread's first call. In a process that has made
 * none yet: the key is made once. */
WT_TEST(test_a_runtime_without_a_key_is_refused)
{
    pid_t child = fork();
    int status = -1;

    wt_require(child >= 0, "no child");
    if (child == 0) {
        _exit(refused_without_key());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
