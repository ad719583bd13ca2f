/* check_thread_churn.c: many short-lived threads, few at a time (rows A1, A2,
 * A4, A10, A14, G1).
 *
 * Threads come in rounds of eight that hold their handles at the same time
 * (two barriers), so that the most held at once is exactly eight, and exactly
 * eight may be created for each kind and device. */
#include "wt.h"
#include "wt_kind.h"

enum { AT_ONCE = 8, MANY = 40, DEVICES = 2, TOYS = 2, THREADS = 10000 };

/* Beside the kinds of this test; where there is CUDA, or a stand-in for it. */
static const warm_kind libraries[] = {WARM_KIND_CUBLAS, WARM_KIND_CUBLASLT,
                                      WARM_KIND_CUDNN, WARM_KIND_CUSPARSE,
                                      WARM_KIND_CUSOLVER};
enum { LIBRARIES = sizeof libraries / sizeof libraries[0] };

static warm_runtime *runtime;
static wt_toy toys[TOYS];
static warm_kind kinds[TOYS];
static int devices;

static void set_up(void)
{
    warm_options options = {.size = sizeof options, .host_devices = DEVICES};
    static const char *const names[TOYS] = {"first", "second"};

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

struct round {
    pthread_barrier_t barrier;
    atomic_uint failures, changed;
};

struct held {
    warm_stream stream[DEVICES];
    void *handle[TOYS][DEVICES];
};

static bool reserve_library(warm_kind kind, int device, warm_stream stream)
{
    void *handle = NULL;

    return (kind == WARM_KIND_CUBLASLT
                ? warm_handle_reserve(runtime, kind, device, &handle)
                : warm_handle_reserve_on(runtime, kind, device, stream,
                                         &handle)) == WARM_OK;
}

static void reserve_all(struct round *round, struct held *held)
{
    for (int device = 0; device < devices; device++) {
        if (warm_stream_reserve(runtime, device, &held->stream[device]) !=
            WARM_OK) {
            round->failures++;
        }
        for (int i = 0; i < TOYS; i++) {
            if (warm_handle_reserve_on(runtime, kinds[i], device,
                                       held->stream[device],
                                       &held->handle[i][device]) != WARM_OK) {
                round->failures++;
            }
        }
        for (int i = 0; !wt_on_host() && i < LIBRARIES; i++) {
            round->failures +=
                !reserve_library(libraries[i], device, held->stream[device]);
        }
    }
}

/* The same handles again, whichever way they are asked for. */
static void check_same(struct round *round, const struct held *held)
{
    for (int device = 0; device < devices; device++) {
        for (int i = 0; i < TOYS; i++) {
            void *again = NULL;

            (void)warm_handle_reserve(runtime, kinds[i], device, &again);
            if (again != held->handle[i][device]) {
                round->changed++;
            }
        }
    }
}

static void live_shortly(void *argument, unsigned index)
{
    struct round *round = argument;
    struct held held = {.stream = {NULL}};

    reserve_all(round, &held);
    for (int k = 0; k < TOYS * devices; k++) {
        if (held.handle[k % TOYS][k / TOYS] != NULL) {
            wt_toy_use(held.handle[k % TOYS][k / TOYS]);
        }
    }
    pthread_barrier_wait(&round->barrier);
    check_same(round, &held);
    pthread_barrier_wait(&round->barrier);
    for (int k = 0; k < TOYS * devices; k++) {
        if (held.handle[k % TOYS][k / TOYS] != NULL) {
            wt_toy_leave(held.handle[k % TOYS][k / TOYS]);
        }
    }
}

static void check_pool(warm_kind kind, int device)
{
    ck_assert_int_eq(wt_stat(runtime, kind, device, created), AT_ONCE);
    ck_assert_int_eq(wt_stat(runtime, kind, device, idle), AT_ONCE);
    ck_assert_int_eq(wt_stat(runtime, kind, device, in_use), 0);
    ck_assert_int_eq(wt_stat(runtime, kind, device, in_use_peak), AT_ONCE);
    ck_assert_int_eq(wt_stat(runtime, kind, device, destroyed), 0);
    ck_assert(wt_balanced(runtime, kind, device));
}

WT_CASE("churn", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A1_A2_A4_A9_G1_ten_thousand_threads_create_eight_handles)
{
    struct round round = {.failures = 0};
    /* All of them under ThreadSanitizer too, once: it takes seconds. */
    unsigned rounds = WT_TSAN && wt_on_host() ? THREADS / AT_ONCE
                                              : wt_scaled(THREADS / AT_ONCE);

    pthread_barrier_init(&round.barrier, NULL, AT_ONCE);
    for (unsigned i = 0; i < rounds; i++) {
        wt_threads(AT_ONCE, live_shortly, &round);
    }
    pthread_barrier_destroy(&round.barrier);
    ck_assert_uint_eq(round.failures, 0);
    ck_assert_uint_eq(round.changed, 0);
    for (int device = 0; device < devices; device++) {
        check_pool(WARM_KIND_STREAM, device);
        for (int i = 0; i < TOYS; i++) {
            check_pool(kinds[i], device);
        }
        for (int i = 0; !wt_on_host() && i < LIBRARIES; i++) {
            check_pool(libraries[i], device);
        }
    }
    for (int i = 0; i < TOYS; i++) {
        ck_assert_uint_eq(toys[i].creates, (unsigned)(AT_ONCE * devices));
    }
}

/* No barrier: threads come and go as the scheduler likes. */
static void come_and_go(void *argument, unsigned index)
{
    struct round *round = argument;

    for (unsigned i = 0; i < wt_scaled(300); i++) {
        void *handle = NULL;
        int device = (int)((index + i) % (unsigned)devices);

        if (warm_handle_reserve(runtime, kinds[i % TOYS], device, &handle) !=
            WARM_OK) {
            round->failures++;
            continue;
        }
        wt_toy_use(handle);
        if (!wt_balanced(runtime, kinds[i % TOYS], device)) {
            round->changed++;
        }
        wt_toy_leave(handle);
        (void)warm_thread_release(runtime);
    }
}

WT_TEST(test_A2_A4_threads_that_release_at_any_moment)
{
    struct round round = {.failures = 0};

    /* So many that the pools grow while handles come back. */
    wt_threads(MANY, come_and_go, &round);
    ck_assert_uint_eq(round.failures, 0);
    ck_assert_uint_eq(round.changed, 0);
    for (int device = 0; device < devices; device++) {
        for (int i = 0; i < TOYS; i++) {
            ck_assert(wt_balanced(runtime, kinds[i], device));
            ck_assert_int_le(wt_stat(runtime, kinds[i], device, created), MANY);
            wt_ok(warm_testing_check(runtime, 1));
        }
    }
}
