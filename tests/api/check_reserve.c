/* check_reserve.c: the hit of warm_handle_reserve() and
 * warm_handle_reserve_on(): every kind and device has a slot of its own, and a
 * kind or device that does not exist is refused although every slot is in use
 * (rows A1, A5, A7, A10). */
/* memcheck: one process */
#include "wt.h"
#include "wt_kind.h"

#include <limits.h>

enum { DEVICES = 9, TOYS = 3 };

static warm_runtime *runtime;
static wt_toy toys[TOYS];
static warm_kind kinds[TOYS];
static int devices;
static warm_stream streams[DEVICES];
static void *held[TOYS][DEVICES];

static void set_up(void)
{
    warm_options options = {.size = sizeof options, .host_devices = DEVICES};
    static const char *const names[TOYS] = {"first", "second", "third"};

    runtime = wt_runtime(wt_on_host() ? &options : NULL);
    wt_ok(warm_device_count(runtime, &devices));
    devices = devices < DEVICES ? devices : DEVICES;
    for (int i = 0; i < TOYS; i++) {
        wt_toy_init(&toys[i]);
        kinds[i] = wt_toy_register(&toys[i], runtime, names[i]);
    }
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
    for (int i = 0; i < TOYS; i++) {
        wt_toy_end(&toys[i]);
    }
}

static void hold_all(void)
{
    for (int d = 0; d < devices; d++) {
        wt_ok(warm_stream_reserve(runtime, d, &streams[d]));
        for (int i = 0; i < TOYS; i++) {
            wt_ok(warm_handle_reserve_on(runtime, kinds[i], d, streams[d],
                                         &held[i][d]));
        }
    }
}

WT_CASE("reserve", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A1_A7_each_kind_and_device_has_a_place_of_its_own)
{
    hold_all();
    for (int d = 0; d < devices; d++) {
        for (int i = 0; i < TOYS; i++) {
            const wt_toy_handle *mine = held[i][d];
            void *again = NULL;

            ck_assert_ptr_eq(mine->toy, &toys[i]);
            ck_assert_int_eq(mine->device, d);
            ck_assert_ptr_eq(mine->stream, streams[d]);
            wt_ok(warm_handle_reserve(runtime, kinds[i], d, &again));
            ck_assert_ptr_eq(again, mine);
            again = NULL;
            wt_ok(warm_handle_reserve_on(runtime, kinds[i], d, streams[d],
                                         &again));
            ck_assert_ptr_eq(again, mine);
        }
    }
    for (int i = 0; i < TOYS; i++) {
        ck_assert_int_eq(toys[i].creates, devices);
        ck_assert_int_eq(toys[i].binds, devices);
    }
}

/* Some of them give a valid index if kind and device are only added up. */
static const struct {
    int kind, device;
} wrong[] = {{-1, 0},
             {-1, 1},
             {-1, 8},
             {WARM_KIND_MAX, 0},
             {WARM_KIND_MAX + 1, 0},
             {INT_MAX, 0},
             {INT_MIN, 0},
             {1 << 29, 0},
             {(1 << 29) + 1, 1},
             {INT_MIN / 2 + 1, 0},
             {-(1 << 29), 3},
             {0, -1},
             {1, -1},
             {1, -8},
             {0, DEVICES},
             {0, INT_MAX},
             {0, INT_MIN},
             {1, 1 << 30},
             {-1, 1 << 3},
             {-2, 2 << 3},
             {7, 4 << 26},
             {-(1 << 29) + 1, 1 << 30}};

WT_LOOP_TEST(test_what_is_no_place_is_refused, sizeof wrong / sizeof wrong[0])
{
    warm_kind kind = wrong[_i].kind;
    int device = wrong[_i].device;
    void *handle = &handle;

    hold_all();
    wt_invalid(warm_handle_reserve(runtime, kind, device, &handle));
    ck_assert_ptr_eq(handle, &handle);
    for (int d = 0; d < devices; d++) {
        wt_invalid(
            warm_handle_reserve_on(runtime, kind, device, streams[d], &handle));
        ck_assert_ptr_eq(handle, &handle);
    }
    wt_invalid(warm_handle_reserve(runtime, kind, device, NULL));
}

WT_TEST(test_a_kind_above_the_last_is_refused_on_every_device)
{
    void *handle = &handle;

    hold_all();
    for (int d = 0; d < devices; d++) {
        for (warm_kind kind = kinds[TOYS - 1] + 1; kind < 100; kind++) {
            wt_invalid(warm_handle_reserve(runtime, kind, d, &handle));
        }
    }
    for (int d = devices; d < 100; d++) {
        for (warm_kind kind = 0; kind < 100; kind++) {
            wt_invalid(warm_handle_reserve(runtime, kind, d, &handle));
        }
    }
    ck_assert_ptr_eq(handle, &handle);
}

WT_TEST(test_A5_a_runtime_that_has_gone_is_told_on_every_device)
{
    warm_runtime *gone = runtime;
    void *handle = NULL;
    int count = devices;

    hold_all();
    wt_ok(warm_runtime_destroy(gone, NULL));
    for (int round = 0; round < 2; round++) {
        for (int d = 0; d < count; d++) {
            wt_fails(WARM_RUNTIME_GONE,
                     warm_handle_reserve(gone, kinds[0], d, &handle));
            wt_fails(
                WARM_RUNTIME_GONE,
                warm_handle_reserve_on(gone, kinds[0], d, streams[d], &handle));
        }
        if (round == 0) {
            set_up();
            hold_all();
        }
    }
    ck_assert_ptr_null(handle);
}

struct gone {
    pthread_barrier_t barrier;
    warm_status before, near, far, bound;
};

static void *outlive(void *argument)
{
    struct gone *gone = argument;
    warm_stream stream = NULL;
    void *handle = NULL;

    gone->before = warm_stream_reserve(runtime, 0, &stream);
    if (gone->before == WARM_OK) {
        gone->before =
            warm_handle_reserve_on(runtime, kinds[0], 0, stream, &handle);
    }
    if (gone->before == WARM_OK) {
        gone->before =
            warm_handle_reserve(runtime, kinds[0], devices - 1, &handle);
    }
    pthread_barrier_wait(&gone->barrier);
    pthread_barrier_wait(&gone->barrier); /* it has been destroyed */
    gone->near = warm_handle_reserve(runtime, kinds[0], 0, &handle);
    gone->far = warm_handle_reserve(runtime, kinds[0], devices - 1, &handle);
    gone->bound = warm_handle_reserve_on(runtime, kinds[0], 0, stream, &handle);
    return NULL;
}

/* The window of a thread that did not destroy it is cut by the one that did. */
WT_TEST(test_A5_another_thread_is_told_that_the_runtime_has_gone)
{
    struct gone gone = {.before = WARM_NOT_FOUND};
    pthread_t thread;

    pthread_barrier_init(&gone.barrier, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, outlive, &gone), 0);
    pthread_barrier_wait(&gone.barrier);
    wt_ok(gone.before);
    wt_ok(warm_runtime_destroy(runtime, NULL));
    pthread_barrier_wait(&gone.barrier);
    pthread_join(thread, NULL);
    ck_assert_int_eq(gone.near, WARM_RUNTIME_GONE);
    ck_assert_int_eq(gone.far, WARM_RUNTIME_GONE);
    ck_assert_int_eq(gone.bound, WARM_RUNTIME_GONE);
    wt_toy_free_left(&toys[0]);
    pthread_barrier_destroy(&gone.barrier);
    set_up();
}
