/* check_host_event.c: events of the host device (row G3). */
/* memcheck: one process */
#include "wt_one_host.h"

#include <sched.h>
#include <stdlib.h>

static void setup(void)
{
    wt_reopen(2, 0);
}

WT_CASE("device", .setup = setup, .teardown = wt_close);

WT_TEST(test_G3_event_never_recorded_is_complete)
{
    warm_stream s = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);

    wt_ok(wm_driver_event_query(d, event));
    wt_ok(wm_driver_event_synchronize(d, event));
    wt_hold(d, s);
    wt_ok(wm_driver_stream_wait_event(d, s, event));
    wt_ok(wm_driver_stream_query(d, s));
    wt_ok(wm_driver_event_destroy(d, event));
}

WT_TEST(test_G3_event_completes_with_the_work_before_it)
{
    warm_stream s = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);
    wt_door first = WT_DOOR_INIT, second = WT_DOOR_INIT;

    wt_ok(wm_driver_host_func(d, s, wt_door_run, &first));
    wt_ok(wm_driver_event_record(d, event, s));
    wt_ok(wm_driver_host_func(d, s, wt_door_run, &second));
    wt_fails(WARM_NOT_READY, wm_driver_event_query(d, event));
    wt_door_open(&first);
    wt_ok(wm_driver_event_synchronize(d, event));
    wt_ok(wm_driver_event_query(d, event));
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, s));
    wt_door_open(&second);
    wt_close();
}

WT_TEST(test_G3_record_on_idle_stream_is_complete_without_work)
{
    warm_stream s = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);

    wt_ok(wm_driver_event_record(d, event, s));
    wt_ok(wm_driver_event_query(d, event));
    ck_assert_uint_eq(wm_host_of(d)->workers, 0);
}

/* A query asks for the last record, a wait for the record at its call. */
WT_TEST(test_G3_recording_again_moves_queries_and_not_waits)
{
    warm_stream a = wt_host_stream(d, 0), b = wt_host_stream(d, 0),
                c = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note = {&order, 1};

    wt_hold(d, a);
    wt_hold(d, b);
    wt_ok(wm_driver_event_record(d, event, a));
    wt_ok(wm_driver_stream_wait_event(d, c, event));
    wt_post(d, c, &note);
    wt_ok(wm_driver_event_record(d, event, b));
    wt_step(d, a, 1);
    wt_ok(wm_driver_stream_synchronize(d, c));
    ck_assert_uint_eq(wt_order_count(&order), 1);
    wt_fails(WARM_NOT_READY, wm_driver_event_query(d, event));
    wt_step(d, b, 1);
    wt_ok(wm_driver_event_query(d, event));
}

/* The other way round: the later record completes first. */
WT_TEST(test_G3_wait_keeps_the_older_record)
{
    warm_stream a = wt_host_stream(d, 0), b = wt_host_stream(d, 0),
                c = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note = {&order, 1};

    wt_hold(d, a);
    wt_ok(wm_driver_event_record(d, event, a));
    wt_ok(wm_driver_stream_wait_event(d, c, event));
    wt_post(d, c, &note);
    wt_ok(wm_driver_event_record(d, event, b));
    wt_ok(wm_driver_event_query(d, event));
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, c));
    wt_ok(wm_driver_event_destroy(d, event));
    ck_assert_uint_eq(wt_order_count(&order), 0);
    wt_step(d, a, 1);
    wt_ok(wm_driver_stream_synchronize(d, c));
    ck_assert_uint_eq(wt_order_count(&order), 1);
}

WT_TEST(test_B5_G3_wait_stalls_one_stream_only)
{
    warm_stream held = wt_host_stream(d, 0), waits = wt_host_stream(d, 0),
                free = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note one = {&order, 1}, two = {&order, 2};

    wt_hold(d, held);
    wt_ok(wm_driver_event_record(d, event, held));
    wt_ok(wm_driver_stream_wait_event(d, waits, event));
    wt_post(d, waits, &two);
    wt_post(d, free, &one);
    wt_ok(wm_driver_stream_synchronize(d, free));
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, waits));
    wt_step(d, held, 1);
    wt_ok(wm_driver_stream_synchronize(d, waits));
    ck_assert_uint_eq(order.count, 2);
    ck_assert_int_eq(order.value[0], 1);
    ck_assert_int_eq(order.value[1], 2);
}

/* A chain of waits over many streams; one step lets all of them go. */
WT_TEST(test_G3_chain_of_waits)
{
    enum { COUNT = 20 };
    warm_stream s[COUNT];
    warm_event event[COUNT];
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note[COUNT];

    for (int i = 0; i < COUNT; i++) {
        s[i] = wt_host_stream(d, i % 2);
        event[i] = wt_host_event(d, i % 2);
        note[i] = (wt_note){&order, i};
        if (i == 0) {
            wt_hold(d, s[0]);
        } else {
            wt_ok(wm_driver_stream_wait_event(d, s[i], event[i - 1]));
        }
        wt_post(d, s[i], &note[i]);
        wt_ok(wm_driver_event_record(d, event[i], s[i]));
    }
    wt_ok(wm_driver_stream_destroy(d, s[5]));
    ck_assert_uint_eq(wt_order_count(&order), 0);
    wt_resume(d, s[0]);
    wt_ok(wm_driver_event_synchronize(d, event[COUNT - 1]));
    ck_assert_uint_eq(wt_order_count(&order), COUNT);
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(order.value[i], i);
    }
}

/* A stalled stream that is held does not go on when its event completes. */
WT_TEST(test_G3_hold_of_a_stalled_stream)
{
    warm_stream a = wt_host_stream(d, 0), b = wt_host_stream(d, 0);
    warm_event event = wt_host_event(d, 0);
    wt_order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    wt_note note = {&order, 1};

    wt_hold(d, a);
    wt_ok(wm_driver_event_record(d, event, a));
    wt_ok(wm_driver_stream_wait_event(d, b, event));
    wt_post(d, b, &note);
    wt_hold(d, b);
    wt_resume(d, a);
    wt_ok(wm_driver_event_synchronize(d, event));
    wt_fails(WARM_NOT_READY, wm_driver_stream_query(d, b));
    wt_step(d, b, 1); /* the wait itself */
    ck_assert_uint_eq(wt_order_count(&order), 0);
    wt_step(d, b, 1);
    ck_assert_uint_eq(wt_order_count(&order), 1);
}

WT_TEST(test_G3_event_of_another_device_is_refused)
{
    warm_stream s = wt_host_stream(d, 1);
    warm_event event = wt_host_event(d, 0);

    wt_hold(d, s);
    wt_fails(WARM_INVALID_STREAM, wm_driver_event_record(d, event, s));
    wt_host_error(400);
    wt_ok(wm_driver_event_query(d, event));
    wt_ok(wm_driver_stream_query(d, s));
    wt_ok(wm_driver_stream_wait_event(d, s, event));
}

static warm_status with_event(int which, warm_event event)
{
    warm_stream s = wt_host_stream(d, 0);

    switch (which) {
    case 0:
        return wm_driver_event_query(d, event);
    case 1:
        return wm_driver_event_synchronize(d, event);
    case 2:
        return wm_driver_event_record(d, event, s);
    case 3:
        return wm_driver_stream_wait_event(d, s, event);
    default:
        return wm_driver_event_destroy(d, event);
    }
}

WT_LOOP_TEST(test_G3_dead_and_foreign_events_are_refused, 5)
{
    warm_event event = wt_host_event(d, 0);
    int local;

    wt_ok(wm_driver_event_destroy(d, event));
    wt_fails(WARM_INVALID_STREAM, with_event(_i, event));
    wt_host_error(400);
    wt_fails(WARM_INVALID_STREAM, with_event(_i, (warm_event)&local));
    wt_fails(WARM_INVALID_STREAM, with_event(_i, NULL));
    wt_fails(WARM_INVALID_STREAM, with_event(_i, wt_host_stream(d, 0)));
}

struct waiter {
    warm_event event;
    _Atomic unsigned about;
    warm_status status[4];
};

static void wait_for_event(void *argument, unsigned index)
{
    struct waiter *w = argument;

    /* Relaxed: a count that the main thread only watches. */
    atomic_fetch_add_explicit(&w->about, 1, memory_order_relaxed);
    if (index < 4) {
        w->status[index] = wm_driver_event_synchronize(d, w->event);
    } else {
        while (atomic_load_explicit(&w->about, memory_order_relaxed) < 5) {
            sched_yield();
        }
        wm_driver_event_destroy(d, w->event);
        d->ops->control(d, WARM_STREAM_LEGACY, WM_CONTROL_RESUME);
    }
}

/* Threads that wait for an event survive its end. */
WT_TEST(test_G3_waiting_threads_and_a_destroyed_event)
{
    struct waiter w = {0};

    w.event = wt_host_event(d, 0);
    wt_hold(d, WARM_STREAM_LEGACY);
    wt_ok(wm_driver_event_record(d, w.event, WARM_STREAM_LEGACY));
    wt_threads(5, wait_for_event, &w);
    for (int i = 0; i < 4; i++) {
        /* One that came late found the event gone. */
        ck_assert(w.status[i] == WARM_OK || w.status[i] == WARM_INVALID_STREAM);
    }
    wt_fails(WARM_INVALID_STREAM, wm_driver_event_query(d, w.event));
}

/* ---- Random work by several threads, against the order it must have ---- */

enum { STREAMS = 6, EVENTS = 8, THREADS = 4 };

/* Each host function checks that the one before on the same stream is done,
 * and that what its stream waited for is done. */
struct lane {
    /* Relaxed: the driver has to order the functions, not this. */
    _Atomic uint64_t done;
};

struct task {
    struct lane *lane;
    uint64_t turn;
    const struct lane *other;
    uint64_t other_turn; /* has to be done before; 0: none */
    _Atomic unsigned *wrong;
};

static void do_task(void *argument)
{
    struct task *task = argument;
    uint64_t before =
        atomic_load_explicit(&task->lane->done, memory_order_relaxed);

    if (before != task->turn - 1 ||
        (task->other != NULL &&
         atomic_load_explicit(&task->other->done, memory_order_relaxed) <
             task->other_turn)) {
        atomic_fetch_add_explicit(task->wrong, 1, memory_order_relaxed);
    }
    atomic_store_explicit(&task->lane->done, task->turn, memory_order_relaxed);
    free(task);
}

struct player;
struct random_run {
    uint64_t seed;
    unsigned steps;
    _Atomic unsigned wrong, failed;
    struct player *player; /* freed after close: work of streams that were
                              destroyed goes on until then */
};

/* What one thread owns: streams and events that others do not touch, so that
 * it knows what has to hold. */
struct player {
    struct random_run *run;
    uint64_t random;
    warm_stream stream[STREAMS];
    struct lane *lane[STREAMS]; /* of the stream that is there now */
    uint64_t queued[STREAMS];
    bool held[STREAMS];
    warm_event event[EVENTS];
    struct lane *recorded[EVENTS]; /* null: complete */
    uint64_t turn[EVENTS];
    struct lane *wait_lane[STREAMS]; /* what the stream waited for last */
    uint64_t wait_turn[STREAMS];
    struct lane all[4096];
    unsigned lanes;
};

static void must(struct player *p, warm_status status)
{
    if (status != WARM_OK) {
        atomic_fetch_add_explicit(&p->run->failed, 1, memory_order_relaxed);
    }
}

static void fresh_stream(struct player *p, unsigned i)
{
    must(p, wm_driver_stream_create(d, 0, &p->stream[i]));
    p->lane[i] = &p->all[p->lanes++];
    p->queued[i] = 0;
    p->held[i] = false;
    p->wait_lane[i] = NULL;
}

static void queue_task(struct player *p, unsigned i)
{
    struct task *task = malloc(sizeof *task);

    if (task == NULL) {
        must(p, WARM_OUT_OF_MEMORY);
        return;
    }
    *task = (struct task){p->lane[i], ++p->queued[i], p->wait_lane[i],
                          p->wait_turn[i], &p->run->wrong};
    must(p, wm_driver_host_func(d, p->stream[i], do_task, task));
}

static void query_event(struct player *p, unsigned e)
{
    warm_status status = wm_driver_event_query(d, p->event[e]);
    uint64_t done = UINT64_MAX;

    if (p->recorded[e] != NULL) {
        done =
            atomic_load_explicit(&p->recorded[e]->done, memory_order_relaxed);
    }
    if (status == WARM_OK && done < p->turn[e]) {
        atomic_fetch_add_explicit(&p->run->wrong, 1, memory_order_relaxed);
    } else if (status != WARM_OK && status != WARM_NOT_READY) {
        must(p, status);
    }
}

static void control(struct player *p, unsigned i, unsigned count)
{
    must(p, d->ops->control(d, p->stream[i], count));
}

/* A held stream is resumed before anything waits for it, so that no step and
 * no end of the test can hang. */
static void resume(struct player *p, unsigned i)
{
    if (p->held[i]) {
        control(p, i, WM_CONTROL_RESUME);
        p->held[i] = false;
    }
}

static void play(struct player *p)
{
    uint64_t r = wt_random(&p->random);
    unsigned i = (unsigned)(r >> 8) % STREAMS, e = (unsigned)(r >> 20) % EVENTS;

    switch (r % 16) {
    case 0:
        control(p, i, WM_CONTROL_HOLD);
        p->held[i] = true;
        break;
    case 1:
    case 2:
        resume(p, i);
        break;
    case 3:
        for (unsigned k = 0; k < STREAMS; k++) {
            if (k != i) {
                resume(p, k);
            }
        }
        if (p->held[i]) {
            control(p, i, 1 + (unsigned)(r >> 32) % 3);
        }
        break;
    case 4:
    case 5:
        must(p, wm_driver_event_record(d, p->event[e], p->stream[i]));
        p->recorded[e] = p->lane[i];
        p->turn[e] = p->queued[i];
        break;
    case 6:
    case 7:
        must(p, wm_driver_stream_wait_event(d, p->stream[i], p->event[e]));
        if (p->recorded[e] != NULL) {
            p->wait_lane[i] = p->recorded[e];
            p->wait_turn[i] = p->turn[e];
        }
        break;
    case 8:
        query_event(p, e);
        break;
    case 9:
        must(p, wm_driver_event_destroy(d, p->event[e]));
        must(p, wm_driver_event_create(d, 0, &p->event[e]));
        p->recorded[e] = NULL;
        break;
    case 10:
        if (p->lanes < sizeof p->all / sizeof p->all[0]) {
            resume(p, i);
            must(p, wm_driver_stream_destroy(d, p->stream[i]));
            fresh_stream(p, i);
        }
        break;
    default:
        queue_task(p, i);
        break;
    }
}

static void random_player(void *argument, unsigned index)
{
    struct random_run *run = argument;
    struct player *p = &run->player[index];

    p->run = run;
    p->random = run->seed + index * 977;
    for (unsigned i = 0; i < STREAMS; i++) {
        fresh_stream(p, i);
    }
    for (unsigned e = 0; e < EVENTS; e++) {
        must(p, wm_driver_event_create(d, 0, &p->event[e]));
    }
    for (unsigned i = 0; i < run->steps; i++) {
        play(p);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        resume(p, i);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        must(p, wm_driver_stream_synchronize(d, p->stream[i]));
        if (atomic_load_explicit(&p->lane[i]->done, memory_order_relaxed) !=
            p->queued[i]) {
            atomic_fetch_add_explicit(&run->wrong, 1, memory_order_relaxed);
        }
    }
    for (unsigned e = 0; e < EVENTS; e++) {
        query_event(p, e);
    }
}

WT_LOOP_TEST(test_G3_random_work_keeps_its_order, 3)
{
    struct random_run run = {.seed = wt_seed() + (uint64_t)_i,
                             .steps = wt_scaled(20000)};

    run.player = calloc(THREADS, sizeof *run.player);
    ck_assert_ptr_nonnull(run.player);
    wt_threads(THREADS, random_player, &run);
    wt_close(); /* ends work of destroyed streams that uses the players */
    free(run.player);
    ck_assert_msg(run.wrong == 0 && run.failed == 0,
                  "seed %llu: %u wrong, %u failed",
                  (unsigned long long)run.seed, run.wrong, run.failed);
}
