/* check_host_stream.c: streams of the host device (row G3). */
/* memcheck: one process */
#include "wt_one_host.h"

#include "warmpool/testing.h"

#include <sched.h>
#include <signal.h>
#include <string.h>

static void setup(void)
{
    wt_reopen(2, 1 << 20);
}

WT_CASE("device", .setup = setup, .teardown = wt_close);

WT_TEST(test_G3_streams_keep_order_and_copy)
{
    warm_stream s = wt_host_stream(d, 0);
    char a[64] = "first", b[64] = "", c[64] = "";
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note[100];

    for (int i = 0; i < 100; i++) {
        note[i] = (wt_note){&order, i};
        wt_post(d, s, &note[i]);
    }
    wt_ok(wm_driver_copy(d, b, a, sizeof a, WARM_COPY_TO_DEVICE, s));
    wt_ok(wm_driver_copy(d, c, b, sizeof a, WARM_COPY_TO_HOST, s));
    wt_ok(wm_driver_stream_synchronize(d, s));
    wt_ok(wm_driver_stream_query(d, s));
    ck_assert_str_eq(c, "first");
    ck_assert_uint_eq(order.count, 100);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(order.value[i], i);
    }
    wt_ok(wm_driver_stream_destroy(d, s));
}

/* A copy is asynchronous: the source may still change before it runs. */
WT_TEST(test_G3_work_is_asynchronous)
{
    warm_stream s = wt_host_stream(d, 0);
    wt_door door = WT_DOOR_INIT;
    int source = 1, destination = 0;

    wt_ok(wm_driver_host_func(d, s, wt_door_run, &door));
    wt_ok(wm_driver_copy(d, &destination, &source, sizeof source,
                         WARM_COPY_TO_DEVICE, s));
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, s));
    source = 2;
    ck_assert_int_eq(destination, 0);
    wt_door_open(&door);
    wt_ok(wm_driver_stream_synchronize(d, s));
    ck_assert_int_eq(destination, 2);
}

/* No record of a thread: the work is refused, and may be queued again. */
WT_TEST(test_G3_no_memory_for_a_thread_is_out_of_memory)
{
    warm_stream s = wt_host_stream(d, 0);
    int source = 1, destination = 0;

    warm_testing_fail_metadata(1, 0);
    wt_fails(WARM_OUT_OF_MEMORY,
             wm_driver_copy(d, &destination, &source, sizeof source,
                            WARM_COPY_TO_DEVICE, s));
    wt_ok(wm_driver_copy(d, &destination, &source, sizeof source,
                         WARM_COPY_TO_DEVICE, s));
    wt_ok(wm_driver_stream_synchronize(d, s));
    ck_assert_int_eq(destination, 1);
}

/* Fewer threads than streams would hang here: every function waits until all
 * of them run. */
enum { MANY = 24 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    unsigned inside;
} together = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void meet(void *argument)
{
    pthread_mutex_lock(&together.mutex);
    together.inside++;
    pthread_cond_broadcast(&together.cond);
    while (together.inside < MANY) {
        pthread_cond_wait(&together.cond, &together.mutex);
    }
    pthread_mutex_unlock(&together.mutex);
}

WT_TEST(test_G3_blocked_function_stops_its_stream_only)
{
    warm_stream s[MANY];
    unsigned workers;

    ck_assert_uint_eq(wm_host_of(d)->workers, 0);
    for (int i = 0; i < MANY; i++) {
        s[i] = wt_host_stream(d, 0);
        wt_ok(wm_driver_host_func(d, s[i], meet, NULL));
    }
    for (int i = 0; i < MANY; i++) {
        wt_ok(wm_driver_stream_synchronize(d, s[i]));
    }
    workers = wm_host_of(d)->workers;
    ck_assert_uint_eq(workers, MANY);
    /* They are kept and used again: no more of them for more work. */
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++) {
            wt_ok(wm_driver_host_func(d, s[i], meet, NULL));
        }
    }
    for (int i = 0; i < MANY; i++) {
        wt_ok(wm_driver_stream_synchronize(d, s[i]));
    }
    ck_assert_uint_eq(wm_host_of(d)->workers, MANY);
}

static warm_status with_stream(int which, warm_stream s)
{
    warm_event event = wt_host_event(d, 0);
    wm_stream_info info;
    wm_capture capture;
    warm_graph graph;
    int x = 0;

    switch (which) {
    case 0:
        return wm_driver_stream_query(d, s);
    case 1:
        return wm_driver_stream_synchronize(d, s);
    case 2:
        return wm_driver_stream_info(d, s, &info);
    case 3:
        return wm_driver_stream_wait_event(d, s, event);
    case 4:
        return wm_driver_event_record(d, event, s);
    case 5:
        return wm_driver_copy(d, &x, &x, sizeof x, WARM_COPY_TO_HOST, s);
    case 6:
        return wm_driver_host_func(d, s, meet, NULL);
    case 7:
        return wm_driver_capture_begin(d, s);
    case 8:
        return wm_driver_capture_end(d, s, &graph);
    case 9:
        return wm_driver_stream_capture(d, s, &capture);
    case 10:
        return d->ops->control(d, s, WM_CONTROL_HOLD);
    case 11:
        return wm_driver_stream_destroy(d, s);
    default:
        return WARM_OK;
    }
}

WT_LOOP_TEST(test_G3_dead_and_foreign_streams_are_refused, 12)
{
    warm_stream s = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);
    int local;

    wt_ok(wm_driver_stream_destroy(d, s));
    wt_fails(WARM_INVALID_STREAM, with_stream(_i, s));
    wt_host_error(400);
    wt_fails(WARM_INVALID_STREAM, with_stream(_i, &local));
    wt_fails(WARM_INVALID_STREAM, with_stream(_i, event));
}

/* Rows B6 and G3: work outlives its stream, and a new stream with the same
 * address has another id and is idle. */
WT_TEST(test_B6_G3_destroyed_stream_finishes_and_its_address_returns)
{
    warm_stream s = wt_host_stream(d, 0), again;
    wt_door door = WT_DOOR_INIT;
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note = {&order, 7};
    warm_event event = wt_host_event(d, 0);
    wm_stream_info first, second;

    wt_ok(wm_driver_stream_info(d, s, &first));
    wt_ok(wm_driver_host_func(d, s, wt_door_run, &door));
    wt_post(d, s, &note);
    wt_ok(wm_driver_event_record(d, event, s));
    wt_ok(wm_driver_stream_destroy(d, s));
    again = wt_host_stream(d, 0);
    ck_assert_ptr_eq(again, s);
    wt_ok(wm_driver_stream_info(d, again, &second));
    ck_assert_uint_ne(first.id, second.id);
    wt_ok(wm_driver_stream_query(d, again));
    wt_fails(WARM_NOT_READY, wm_driver_event_query(d, event));
    wt_door_open(&door);
    wt_ok(wm_driver_event_synchronize(d, event));
    ck_assert_uint_eq(wt_order_count(&order), 1);
}

struct identity {
    wm_stream_info info[2];
    warm_status status[2];
};

static void identify(void *argument, unsigned index)
{
    struct identity *id = argument;

    id->status[index] =
        wm_driver_stream_info(d, WARM_STREAM_PER_THREAD, &id->info[index]);
}

WT_TEST(test_B6_G3_default_streams)
{
    struct identity id;
    wm_stream_info null, legacy, mine, again, other;
    warm_stream s = NULL;

    wt_reopen(3, 0);
    wt_ok(wm_driver_stream_info(d, NULL, &null));
    wt_ok(wm_driver_stream_info(d, WARM_STREAM_LEGACY, &legacy));
    wt_ok(wm_driver_stream_info(d, WARM_STREAM_PER_THREAD, &mine));
    wt_ok(wm_driver_stream_info(d, WARM_STREAM_PER_THREAD, &again));
    ck_assert_uint_eq(null.id, legacy.id);
    ck_assert_uint_eq(mine.id, again.id);
    ck_assert_uint_ne(mine.id, legacy.id);
    ck_assert_int_eq(legacy.device, 0);
    wt_threads(2, identify, &id);
    wt_ok(id.status[0]);
    wt_ok(id.status[1]);
    ck_assert_uint_ne(id.info[0].id, id.info[1].id);
    ck_assert_uint_ne(id.info[0].id, mine.id);
    wt_fails(WARM_INVALID_STREAM,
             wm_driver_stream_destroy(d, WARM_STREAM_LEGACY));
    wt_fails(WARM_INVALID_STREAM, wm_driver_stream_destroy(d, NULL));
    wt_fails(WARM_INVALID_STREAM,
             wm_driver_stream_destroy(d, WARM_STREAM_PER_THREAD));
    /* By device, as the stand-in asks for them. */
    wt_ok(wm_host_default_stream(d, 2, false, &s));
    wt_ok(wm_driver_stream_info(d, s, &other));
    ck_assert_int_eq(other.device, 2);
    wt_fails(WARM_INVALID_STREAM, wm_driver_stream_destroy(d, s));
    wt_ok(wm_host_default_stream(d, 0, true, &s));
    wt_ok(wm_driver_stream_info(d, s, &other));
    ck_assert_uint_eq(other.id, mine.id);
}

struct leaver {
    wm_driver *d;
    wt_door *door;
    wt_note *note;
    warm_event event;
    warm_status status[3];
};

static void leave_work(void *argument, unsigned index)
{
    struct leaver *l = argument;

    l->status[0] =
        wm_driver_host_func(l->d, WARM_STREAM_PER_THREAD, wt_door_run, l->door);
    l->status[1] =
        wm_driver_host_func(l->d, WARM_STREAM_PER_THREAD, wt_note_run, l->note);
    l->status[2] =
        wm_driver_event_record(l->d, l->event, WARM_STREAM_PER_THREAD);
}

WT_TEST(test_B6_G3_work_of_a_gone_threads_stream_goes_on)
{
    wt_door door = WT_DOOR_INIT;
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note = {&order, 1};
    struct leaver l = {
        .d = d, .door = &door, .note = &note, .event = wt_host_event(d, 0)};

    wt_threads(1, leave_work, &l);
    wt_ok(l.status[0]);
    wt_ok(l.status[1]);
    wt_ok(l.status[2]);
    wt_fails(WARM_NOT_READY, wm_driver_event_query(d, l.event));
    wt_door_open(&door);
    wt_ok(wm_driver_event_synchronize(d, l.event));
    ck_assert_uint_eq(wt_order_count(&order), 1);
}

WT_TEST(test_G1_G3_threads_give_their_default_streams_back)
{
    struct identity id;
    size_t before = wm_host_of(d)->live[WM_HOST_STREAM].count;

    for (int i = 0; i < 50; i++) {
        wt_threads(2, identify, &id);
        wt_ok(id.status[0]);
        wt_ok(id.status[1]);
        ck_assert_uint_eq(wm_host_of(d)->live[WM_HOST_STREAM].count, before);
    }
}

/* The thread is still there when the driver goes, and exits later. */
struct outliver {
    wm_driver *d;
    wt_door used, gone;
    warm_status status;
};

static void *outlive(void *argument)
{
    struct outliver *o = argument;
    wm_stream_info info;

    o->status = wm_driver_stream_info(o->d, WARM_STREAM_PER_THREAD, &info);
    wt_door_open(&o->used);
    wt_door_run(&o->gone);
    return NULL;
}

WT_TEST(test_A5_G3_thread_may_outlive_the_device)
{
    struct outliver o = {.d = d, .used = WT_DOOR_INIT, .gone = WT_DOOR_INIT};
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, outlive, &o), 0);
    wt_door_run(&o.used);
    ck_assert_uint_eq(wm_driver_close(d), 0);
    d = NULL;
    wt_door_open(&o.gone);
    pthread_join(thread, NULL);
    wt_ok(o.status);
    ck_assert_int_eq(wm_meta_live(), 0);
}

/* Host function: the signals that its thread blocks. */
static void note_mask(void *argument)
{
    if (argument != NULL) {
        pthread_sigmask(SIG_SETMASK, NULL, argument);
    }
}

/* Threads exit, and give their default streams back, while the device goes. */
struct leavers {
    wm_driver *d;
    _Atomic unsigned done;
    _Atomic unsigned failed;
};

static void use_and_leave(void *argument, unsigned index)
{
    struct leavers *l = argument;
    unsigned bad = 0;

    if (index == 0) {
        /* Acquire: pairs with the release below, so that no call of another
         * thread is under way when the device closes. */
        while (atomic_load_explicit(&l->done, memory_order_acquire) < 3) {
            sched_yield();
        }
        bad += wm_driver_close(l->d) != 0;
    } else {
        bad += wm_driver_host_func(l->d, WARM_STREAM_PER_THREAD, note_mask,
                                   NULL) != WARM_OK;
        bad += wm_driver_stream_synchronize(l->d, WARM_STREAM_PER_THREAD) !=
               WARM_OK;
        atomic_fetch_add_explicit(&l->done, 1, memory_order_release);
    }
    atomic_fetch_add_explicit(&l->failed, bad, memory_order_relaxed);
}

WT_TEST(test_A5_G3_threads_exit_while_the_device_closes)
{
    wt_close();
    for (unsigned i = 0; i < wt_scaled(200); i++) {
        struct leavers l = {.d = wt_host_open(1, 0)};

        wt_threads(4, use_and_leave, &l);
        ck_assert_uint_eq(l.failed, 0);
        ck_assert_int_eq(wm_meta_live(), 0);
    }
}

WT_TEST(test_G3_workers_take_no_signals)
{
    sigset_t mask, mine;

    sigemptyset(&mask);
    wt_ok(wm_driver_host_func(d, NULL, note_mask, &mask));
    wt_ok(wm_driver_stream_synchronize(d, NULL));
    ck_assert_int_eq(sigismember(&mask, SIGTERM), 1);
    ck_assert_int_eq(sigismember(&mask, SIGUSR1), 1);
    ck_assert_int_eq(sigismember(&mask, SIGALRM), 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    ck_assert_int_eq(sigismember(&mine, SIGTERM), 0);
}

WT_TEST(test_G3_hold_step_resume)
{
    warm_stream s = wt_host_stream(d, 0);
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note[5];
    warm_event event = wt_host_event(d, 0);

    wt_invalid(d->ops->control(d, s, 1));
    wt_hold(d, s);
    wt_ok(wm_driver_stream_query(d, s));
    /* A record is a piece of work, on a held stream as well. */
    wt_ok(wm_driver_event_record(d, event, s));
    wt_fails(WARM_NOT_READY, wm_driver_event_query(d, event));
    for (int i = 0; i < 5; i++) {
        note[i] = (wt_note){&order, i};
        wt_post(d, s, &note[i]);
    }
    wt_step(d, s, 1);
    wt_ok(wm_driver_event_query(d, event));
    ck_assert_uint_eq(wt_order_count(&order), 0);
    wt_step(d, s, 2);
    ck_assert_uint_eq(wt_order_count(&order), 2);
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, s));
    wt_step(d, s, 100);
    ck_assert_uint_eq(wt_order_count(&order), 5);
    /* Fewer than asked for were there; what comes later is held again. */
    wt_post(d, s, &note[0]);
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, s));
    wt_step(d, s, 1);
    ck_assert_uint_eq(wt_order_count(&order), 6);
    wt_post(d, s, &note[1]);
    wt_resume(d, s);
    wt_ok(wm_driver_stream_synchronize(d, s));
    ck_assert_uint_eq(wt_order_count(&order), 7);
}

WT_TEST(test_G3_hold_lets_running_work_finish)
{
    warm_stream s = wt_host_stream(d, 0);
    warm_event first = wt_host_event(d, 0), second = wt_host_event(d, 0);
    wt_door door = WT_DOOR_INIT;

    wt_ok(wm_driver_host_func(d, s, wt_door_run, &door));
    wt_door_wait_entered(&door);
    wt_ok(wm_driver_event_record(d, first, s));
    wt_ok(wm_driver_event_record(d, second, s));
    wt_hold(d, s);
    wt_door_open(&door);
    wt_step(d, s, 1);
    wt_ok(wm_driver_event_query(d, first));
    wt_fails(WARM_NOT_READY, wm_driver_event_query(d, second));
    wt_host_close(d, 1);
    d = NULL;
}

/* Held streams, and those that wait for them, are dropped; all others finish;
 * what the user forgot to destroy is freed. */
WT_TEST(test_G2_G3_close_finishes_work_and_drops_held_streams)
{
    warm_stream held = wt_host_stream(d, 0), free = wt_host_stream(d, 1),
                waits = wt_host_stream(d, 1), idle = wt_host_stream(d, 0);
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note bad = {&order, -1}, good = {&order, 1};
    warm_event event = wt_host_event(d, 0);

    wt_hold(d, held);
    wt_hold(d, idle);
    wt_post(d, held, &bad);
    wt_ok(wm_driver_event_record(d, event, held));
    wt_post(d, waits, &good);
    wt_ok(wm_driver_stream_wait_event(d, waits, event));
    wt_post(d, waits, &bad);
    for (int i = 0; i < 50; i++) {
        wt_post(d, free, &good);
    }
    wt_ok(wm_driver_stream_destroy(d, free));
    wt_host_close(d, 2);
    d = NULL;
    ck_assert_uint_eq(order.count, 51);
    for (unsigned i = 0; i < order.count; i++) {
        ck_assert_int_eq(order.value[i], 1);
    }
}

WT_TEST(test_G3_open_without_memory_leaves_nothing)
{
    wm_options o;
    warm_options given = {.size = sizeof given, .host_devices = 3};
    uint64_t n = 1;

    wt_close();
    wt_ok(wm_options_resolve(&given, NULL, &o));
    for (; n < 100; n++) {
        wm_meta_fail(n, false);
        if (wm_host_open(&o, &d) == WARM_OK) {
            break;
        }
        ck_assert_int_eq(wm_meta_live(), 0);
    }
    ck_assert_uint_gt(n, 5);
    ck_assert_uint_lt(n, 100);
    wm_meta_fail(0, false);
}

/* More streams than one table holds at first, many of them destroyed. */
WT_TEST(test_G3_many_streams)
{
    enum { COUNT = 3000 };
    static warm_stream s[COUNT];
    uint64_t random = wt_seed();

    for (int i = 0; i < COUNT; i++) {
        s[i] = wt_host_stream(d, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        int k = (int)(wt_random(&random) % COUNT);

        if (s[k] != NULL) {
            wt_ok(wm_driver_stream_destroy(d, s[k]));
            wt_fails(WARM_INVALID_STREAM, wm_driver_stream_query(d, s[k]));
            s[k] = NULL;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        if (s[i] != NULL) {
            wt_ok(wm_driver_stream_query(d, s[i]));
        }
    }
}

static void nothing(void *argument)
{
}

/* What a burst needed does not stay for ever; what outlives it is found. */
WT_TEST(test_B25_G3_a_burst_leaves_few_records)
{
    enum { BURST = 4000, LEFT = 3 * WM_HOST_CELLS_KEEP };
    static warm_event event[BURST];
    warm_stream s = wt_host_stream(d, 0);
    size_t capacity;
    int64_t before;

    wt_ok(wm_driver_host_func(d, s, nothing, NULL));
    wt_ok(wm_driver_stream_synchronize(d, s));
    before = wm_meta_live();
    wt_hold(d, s);
    for (int i = 0; i < BURST; i++) {
        event[i] = wt_host_event(d, 0);
        wt_ok(wm_driver_event_record(d, event[i], s));
    }
    ck_assert_int_gt(wm_meta_live() - before, BURST);
    capacity = wm_host_of(d)->live[WM_HOST_EVENT].capacity;
    wt_resume(d, s);
    wt_ok(wm_driver_stream_synchronize(d, s));
    for (int i = 0; i < BURST; i++) {
        if (i % 100 != 0) {
            wt_ok(wm_driver_event_destroy(d, event[i]));
        }
    }
    ck_assert_int_le(wm_meta_live() - before, LEFT);
    ck_assert_uint_le(wm_host_of(d)->live[WM_HOST_EVENT].capacity,
                      capacity / 16);
    for (int i = 0; i < BURST; i++) {
        if (i % 100 == 0) {
            wt_ok(wm_driver_event_query(d, event[i]));
            wt_ok(wm_driver_event_destroy(d, event[i]));
        } else {
            wt_fails(WARM_INVALID_STREAM, wm_driver_event_query(d, event[i]));
        }
    }
}

WT_TEST(test_G3_device_info)
{
    warm_device_info info = {.size = sizeof info};
    int device = 7;

    wt_ok(wm_driver_device_info(d, 1, &info));
    ck_assert_str_eq(info.name, "host device 1");
    ck_assert_uint_eq(info.total_bytes, 1 << 20);
    ck_assert_uint_eq(info.size, sizeof info);
    wt_ok(wm_driver_current_device(d, &device));
    ck_assert_int_eq(device, 0);
    ck_assert_int_eq(d->devices, 2);
    ck_assert_str_eq(d->name, "host");
}
