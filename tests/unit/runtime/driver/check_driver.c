/* check_driver.c: what is true of every driver call (rows A6, G5, G6). */
#include "wt_host.h"

#include "runtime/base/process.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t calls(wm_driver *d, const char *name)
{
    return wm_counter_read(&d->calls[wm_driver_call_index(name)]);
}

WT_CASE("driver");

WT_TEST(test_driver_names_lead_there_and_back)
{
    for (int i = 0; i < WM_CALLS; i++) {
        ck_assert_int_eq(wm_driver_call_index(wm_driver_call_name(i)), i);
    }
    ck_assert_ptr_null(wm_driver_call_name(WM_CALLS));
    ck_assert_ptr_null(wm_driver_call_name(-1));
    ck_assert_int_eq(wm_driver_call_index("event_recorded"), -1);
    ck_assert_str_eq(wm_driver_call_name(WM_CALL_event_record), "event_record");
}

WT_TEST(test_driver_counts_calls_and_failures)
{
    wm_driver *d = wt_host_open(1, 0);
    warm_event event = wt_host_event(d, 0);

    ck_assert_uint_eq(calls(d, "event_create"), 1);
    for (int i = 0; i < 5; i++) {
        wt_ok(wm_driver_event_query(d, event));
    }
    wt_fails(WARM_INVALID_STREAM, wm_driver_event_query(d, NULL));
    ck_assert_uint_eq(calls(d, "event_query"), 6);
    ck_assert_uint_eq(calls(d, "event_record"), 0);
    wt_host_close(d, 0);
}

enum { CALLERS = 4, CALLS = 200000 };

struct meeting {
    wm_driver *d;
    warm_event event;
    unsigned passed[CALLERS];
};

static void query_often(void *argument, unsigned index)
{
    struct meeting *m = argument;
    const unsigned many = wt_scaled(CALLS);

    for (unsigned i = 0; i < many; i++) {
        m->passed[index] += wm_driver_event_query(m->d, m->event) == WARM_OK;
    }
}

WT_TEST(test_G6_fault_that_stays_meets_every_thread)
{
    struct meeting m = {.d = wt_host_open(1, 0)};

    m.event = wt_host_event(m.d, 0);
    wm_driver_fail(m.d, WM_CALL_event_query, 1, true);
    wt_threads(CALLERS, query_often, &m);
    for (int i = 0; i < CALLERS; i++) {
        ck_assert_uint_eq(m.passed[i], 0);
    }
    wt_host_close(m.d, 0);
}

WT_TEST(test_G6_nth_call_of_a_name_fails_once)
{
    wm_driver *d = wt_host_open(1, 0);
    warm_event event = wt_host_event(d, 0);
    warm_error error = {.size = sizeof error};

    wm_driver_fail(d, WM_CALL_event_query, 3, false);
    wt_ok(wm_driver_event_query(d, event));
    wt_ok(wm_driver_event_synchronize(d, event));
    wt_ok(wm_driver_event_query(d, event));
    wt_fails(WARM_DRIVER_ERROR, wm_driver_event_query(d, event));
    warm_last_error(&error);
    ck_assert_int_eq(error.status, WARM_DRIVER_ERROR);
    ck_assert_str_eq(error.origin, "host");
    ck_assert_str_eq(error.code_text, "injected fault");
    wt_contains(error.message, "event_query");
    for (int i = 0; i < 10; i++) {
        wt_ok(wm_driver_event_query(d, event));
    }
    ck_assert_uint_eq(calls(d, "event_query"), 13);
    wt_host_close(d, 0);
}

WT_TEST(test_G6_calls_fail_from_the_nth_on)
{
    wm_driver *d = wt_host_open(1, 0);
    warm_event event = wt_host_event(d, 0);

    wm_driver_fail(d, WM_CALL_event_query, 2, true);
    wt_ok(wm_driver_event_query(d, event));
    for (int i = 0; i < 10; i++) {
        wt_fails(WARM_DRIVER_ERROR, wm_driver_event_query(d, event));
    }
    wm_driver_fail(d, WM_CALL_event_query, 0, false);
    wt_ok(wm_driver_event_query(d, event));
    wt_host_close(d, 0);
}

/* Memory runs out; and a failed call has done nothing. */
WT_TEST(test_G6_memory_calls_fail_out_of_memory)
{
    wm_driver *d = wt_host_open(1, 1 << 20);
    void *pointer = NULL;
    size_t free = 0, total = 0;

    wm_driver_fail(d, WM_CALL_device_alloc, 1, false);
    wm_driver_fail(d, WM_CALL_pinned_alloc, 1, false);
    wm_driver_fail(d, WM_CALL_pinned_register, 1, false);
    wt_fails(WARM_OUT_OF_MEMORY, wm_driver_device_alloc(d, 0, 10, &pointer));
    wt_fails(WARM_OUT_OF_MEMORY, wm_driver_pinned_alloc(d, 10, &pointer));
    wt_fails(WARM_OUT_OF_MEMORY, wm_driver_pinned_register(d, &d, sizeof d));
    ck_assert_ptr_null(pointer);
    wt_ok(wm_driver_device_memory(d, 0, &free, &total));
    ck_assert_uint_eq(free, total);
    wt_fails(WARM_INVALID_POINTER, wm_driver_pinned_unregister(d, &d));
    wt_host_close(d, 0);
}

#ifndef NDEBUG
WT_CASE("aborts", .signal = SIGABRT);

WT_TEST(test_driver_call_under_a_lock_stops)
{
    wm_driver *d = wt_host_open(1, 0);
    static wm_lock lock = WM_LOCK_INIT(WM_RANK_ARENA);
    int device;

    wm_lock_acquire(&lock);
    wm_driver_current_device(d, &device);
}

WT_TEST(test_lock_taken_against_the_order_stops)
{
    static wm_lock inner = WM_LOCK_INIT(WM_RANK_ARENA);
    static wm_lock outer = WM_LOCK_INIT(WM_RANK_GROWTH);

    wm_lock_acquire(&inner);
    wm_lock_acquire(&outer);
}
#endif

/* A device of its own, with work on a thread of its own. */
static int open_and_use(void)
{
    wt_door door = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                    .cond = PTHREAD_COND_INITIALIZER,
                    .open = true};
    warm_options given = {.size = sizeof given};
    wm_stream_info info;
    wm_driver *d = NULL;
    wm_options o;

    if (wm_options_resolve(&given, NULL, &o) != WARM_OK ||
        wm_host_open(&o, &d) != WARM_OK ||
        wm_driver_stream_info(d, WARM_STREAM_PER_THREAD, &info) != WARM_OK) {
        return 4;
    }
    if (!WT_TSAN &&
        (wm_driver_host_func(d, NULL, wt_door_run, &door) != WARM_OK ||
         wm_driver_stream_synchronize(d, NULL) != WARM_OK || !door.entered)) {
        return 5;
    }
    return wm_driver_close(d) == 0 ? 0 : 6;
}

/* In the child of a fork; answers which step went wrong. */
static int child_of(wm_driver *d)
{
    int device = 7;

    if (wm_driver_current_device(d, &device) != WARM_FORKED || device != 7) {
        return 1;
    }
    if (wm_driver_stream_synchronize(d, NULL) != WARM_FORKED) {
        return 2;
    }
    if (wm_driver_close(d) != 0) {
        return 3;
    }
    return open_and_use();
}

WT_CASE("driver");

WT_TEST(test_G5_forked_child_gets_an_error_and_can_open_its_own)
{
    wm_driver *d;
    warm_stream s;
    wm_stream_info info;
    wt_door door = WT_DOOR_INIT;
    int pipes[2], answer = -1;
    pid_t pid;

    wt_needs(!wt_emulated(), WT_EMULATED);
    d = wt_host_open(1, 0);
    s = wt_host_stream(d, 0);
    ck_assert_int_eq(pipe(pipes), 0);
    /* With a worker, a record of this thread and work under way. */
    wt_ok(wm_driver_stream_info(d, WARM_STREAM_PER_THREAD, &info));
    wt_ok(wm_driver_host_func(d, s, wt_door_run, &door));
    wt_door_wait_entered(&door);
    pid = fork();
    if (pid == 0) {
        answer = child_of(d);
        if (write(pipes[1], &answer, sizeof answer) == sizeof answer) {
            /* No exit: what only the parent's threads had in hand is lost
             * here by nature, and a checker of leaks would say so. */
            kill(getpid(), SIGKILL);
        }
        _exit(1);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(read(pipes[0], &answer, sizeof answer), sizeof answer);
    ck_assert_int_eq(answer, 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    close(pipes[0]);
    close(pipes[1]);
    wt_door_open(&door);
    wt_ok(wm_driver_stream_synchronize(d, s));
    wt_host_close(d, 0);
}

/* A thread of the parent forks and exits in the child, where the device's
 * lock is held for ever by a thread that is not there. */
static struct {
    wm_driver *d;
    wt_door known, locked;
    int pipes[2];
    pthread_key_t key;
    warm_status status;
} forker = {.known = WT_DOOR_INIT, .locked = WT_DOOR_INIT};

/* Runs after the destructor of the device's own, older key. */
static void answer_and_end(void *argument)
{
    if (write(forker.pipes[1], argument, 1) == 1) {
        kill(getpid(), SIGKILL);
    }
    _exit(1);
}

static void *fork_and_exit(void *argument)
{
    wm_stream_info info;
    pid_t pid;

    forker.status =
        wm_driver_stream_info(forker.d, WARM_STREAM_PER_THREAD, &info);
    wt_door_open(&forker.known);
    wt_door_run(&forker.locked);
    pid = fork();
    if (pid == 0) {
        pthread_setspecific(forker.key, "y");
        return NULL;
    }
    waitpid(pid, NULL, 0);
    return argument;
}

WT_TEST(test_A6_G5_thread_that_exits_in_a_forked_child_leaves_all_alone)
{
    pthread_t thread;
    char answer = 'n';

    forker.d = wt_host_open(1, 0);
    ck_assert_int_eq(pipe(forker.pipes), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, fork_and_exit, NULL), 0);
    wt_door_run(&forker.known);
    ck_assert_int_eq(pthread_key_create(&forker.key, answer_and_end), 0);
    wm_host_lock(wm_host_of(forker.d));
    wt_door_open(&forker.locked);
    ck_assert_int_eq(read(forker.pipes[0], &answer, 1), 1);
    ck_assert_int_eq(answer, 'y');
    wm_host_unlock(wm_host_of(forker.d));
    pthread_join(thread, NULL);
    wt_ok(forker.status);
    wt_host_close(forker.d, 0);
}

WT_TEST(test_A6_nothing_is_called_once_the_process_exits)
{
    static wm_driver *d; /* static: what is left behind can be reached */
    int device = 7;

    d = wt_host_open(1, 0);
    wm_process_set_exiting();
    wt_fails(WARM_EXITING, wm_driver_current_device(d, &device));
    ck_assert_int_eq(device, 7);
    ck_assert_uint_eq(calls(d, "current_device"), 0);
    ck_assert_uint_eq(wm_driver_close(d), 0);
    ck_assert_int_gt(wm_meta_live(), 0); /* left behind on purpose */
}

/* A thread is cancelled in a call that waits: the call ends first. */
struct canceled {
    wt_door door;
    warm_stream stream;
    wm_driver *d;
    warm_status status;
    bool returned;
};

static void *wait_for_stream(void *argument)
{
    struct canceled *c = argument;
    int old;

    wt_door_open(&c->door);
    c->status = wm_driver_stream_synchronize(c->d, c->stream);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    c->returned = old == PTHREAD_CANCEL_ENABLE;
    return NULL;
}

WT_TEST(test_driver_call_is_no_cancellation_point)
{
    struct canceled c = {.door = WT_DOOR_INIT, .d = wt_host_open(1, 0)};
    pthread_t thread;

    c.stream = wt_host_stream(c.d, 0);
    wt_hold(c.d, c.stream);
    wt_ok(wm_driver_event_record(c.d, wt_host_event(c.d, 0), c.stream));
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_stream, &c), 0);
    wt_door_run(&c.door);
    pthread_cancel(thread);
    wt_resume(c.d, c.stream);
    pthread_join(thread, NULL);
    ck_assert(c.returned);
    wt_ok(c.status);
    wt_host_close(c.d, 0);
}
