/* check_pool_edge.c: where handles are made, taken back and destroyed at the
 * same time, or the program ends in between (rows A2 to A4, A6, A8, A11 to
 * A14).
 */
/* memcheck: one process */
#include "wt.h"
#include "wt_kind.h"

#include "handles/kind_table.h"
#include "runtime/base/process.h"
#include "runtime/thread/runtime_body.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static warm_runtime *runtime;
static wt_toy toy;
static warm_kind kind;
static wm_pool *pool;

static void set_up(void)
{
    runtime = wt_runtime(NULL);
    wt_toy_init(&toy);
    kind = wt_toy_register(&toy, runtime, "toy");
    pool = wm_kind_table_pool(runtime->kinds, kind, 0);
}

static void tear_down(void)
{
    wt_runtime_end(runtime);
    ck_assert_int_eq(toy.alive, 0);
}

/* A kind of this test's callbacks, with the toy behind it. */
static warm_kind register_as(const char *name,
                             int (*create)(void *, int, void **),
                             int (*destroy)(void *, int, void *))
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = name,
                         .context = &toy,
                         .create = create != NULL ? create : wt_toy_create,
                         .destroy = destroy != NULL ? destroy : wt_toy_destroy};
    warm_kind made = -1;

    wt_ok(warm_kind_register(runtime, &ops, &made));
    pool = wm_kind_table_pool(runtime->kinds, made, 0);
    kind = made;
    return made;
}

/* ---- the ring of idle handles -------------------------------------------- */

WT_CASE("edge", .setup = set_up, .teardown = tear_down);

WT_TEST(test_A2_A3_a_ring_that_turned_grows_and_keeps_its_order)
{
    void *before[16], *handle;
    warm_lease lease[40];

    wt_ok(warm_handle_prewarm(runtime, kind, 0, 16, 0));
    ck_assert_uint_eq(pool->room, 16);
    wt_ok(warm_handle_trim(runtime, kind, 0, 6, 0, NULL));
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 16, 0));
    ck_assert_uint_eq(pool->room, 16);
    ck_assert_uint_ne(pool->oldest, 0); /* else all of this is for nought */
    for (unsigned i = 0; i < 16; i++) {
        before[i] = pool->idle[(pool->oldest + i) & 15].handle;
    }
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 40, 0));
    ck_assert_uint_gt(pool->room, 16);
    ck_assert(wm_pool_check(pool));
    for (unsigned i = 0; i < 16; i++) {
        ck_assert_ptr_eq(pool->idle[pool->oldest + i].handle, before[i]);
    }
    for (int i = 0; i < 40; i++) {
        wt_ok(warm_handle_lease(runtime, kind, 0, &lease[i], &handle));
        wt_toy_use(handle); /* one that is handed out twice is seen */
        ck_assert(i < 24 || handle == before[39 - i]);
    }
    ck_assert_int_eq(toy.shared, 0);
    for (int i = 0; i < 40; i++) {
        wt_ok(warm_handle_return(runtime, lease[i]));
    }
    ck_assert(wm_pool_check(pool));
    while (toy.live != NULL && toy.live->users > 0) {
        for (wt_toy_handle *h = toy.live; h != NULL; h = h->next) {
            wt_toy_leave(h);
        }
    }
}

WT_TEST(test_A13_as_many_leases_as_one_likes)
{
    enum { MANY = 3000 };
    static warm_lease lease[MANY];
    void *handle;
    uint64_t seed = wt_seed();

    for (int i = 0; i < MANY; i++) {
        wt_ok(warm_handle_lease(runtime, kind, 0, &lease[i], &handle));
    }
    for (int i = MANY; i > 0; i--) {
        int k = (int)(wt_random(&seed) % (unsigned)i);

        wt_ok(warm_handle_return(runtime, lease[k]));
        wt_invalid(warm_handle_return(runtime, lease[k]));
        lease[k] = lease[i - 1];
    }
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), MANY);
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
    ck_assert_int_eq(toy.alive, 0);
}

/* ---- creations ----------------------------------------------------------- */

struct reserver {
    pthread_barrier_t barrier;
    atomic_uint failures;
};

static void reserve(void *argument, unsigned index)
{
    struct reserver *r = argument;
    void *handle = NULL;

    (void)index;
    r->failures += warm_handle_reserve(runtime, kind, 0, &handle) != WARM_OK;
    pthread_barrier_wait(&r->barrier);
}

static atomic_uint inside, most;

/* Whoever comes second while the first one is inside is one too many. */
static int create_alone(void *context, int device, void **handle)
{
    unsigned now = ++inside;
    wt_linger linger = {0};
    int code;

    if (now > most) {
        most = now;
    }
    while (wt_lingers(&linger)) {
    }
    code = wt_toy_create(context, device, handle);
    inside--;
    return code;
}

/* The first creation failed: the next one is alone again. */
WT_TEST(test_A8_who_comes_after_a_failed_first_creation_is_the_first)
{
    struct reserver r = {.failures = 0};
    void *handle = NULL;

    (void)register_as("alone", create_alone, NULL);
    wt_toy_fail(&toy, WT_CREATE, 1, false);
    wt_fails(WARM_LIBRARY_ERROR,
             warm_handle_reserve(runtime, kind, 0, &handle));
    ck_assert_int_eq(pool->first, WM_FIRST_NONE);
    most = 0;
    pthread_barrier_init(&r.barrier, NULL, 2);
    wt_threads(2, reserve, &r);
    ck_assert_uint_eq(r.failures, 0);
    ck_assert_uint_eq(most, 1);
    pthread_barrier_destroy(&r.barrier);
    ck_assert_int_eq(pool->first, WM_FIRST_DONE);
}

static warm_lease taken[16];
static unsigned takes;

static void *take_idle(void *argument)
{
    void *handle;

    if (wt_stat(runtime, kind, 0, idle) > 0) {
        (void)warm_handle_lease(runtime, kind, 0, &taken[takes++], &handle);
    }
    return argument;
}

/* Another thread takes what was made before this one is. */
static int create_robbed(void *context, int device, void **handle)
{
    pthread_t thread;

    if (takes < 8 && pthread_create(&thread, NULL, take_idle, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    return wt_toy_create(context, device, handle);
}

WT_TEST(test_A11_a_prewarm_makes_no_more_than_it_was_asked_for)
{
    (void)register_as("robbed", create_robbed, NULL);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 3, 0));
    ck_assert_uint_eq(toy.creates, 3);
    ck_assert_uint_eq(takes, 2);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    for (unsigned i = 0; i < takes; i++) {
        wt_ok(warm_handle_return(runtime, taken[i]));
    }
}

static void *prewarm_one(void *argument)
{
    *(warm_status *)argument = warm_handle_prewarm(runtime, kind, 0, 1, 0);
    return NULL;
}

/* The thread of the background finds that nothing is left to be made of what
 * it has read; but more has been asked for since. */
WT_TEST(test_A11_what_is_asked_for_meanwhile_is_made)
{
    warm_status status = WARM_NOT_FOUND;
    wt_linger linger = {0};
    pthread_t thread;

    wt_toy_close_gate(&toy);
    pthread_create(&thread, NULL, prewarm_one, &status);
    wt_toy_await(&toy, 1); /* the very first: others wait for it */
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 1, WARM_PREWARM_BACKGROUND));
    while (wt_lingers(&linger)) {
        /* It reads what is wanted, and waits for the first. */
    }
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 4, WARM_PREWARM_BACKGROUND));
    wt_toy_open_gate(&toy);
    pthread_join(thread, NULL);
    wt_ok(status);
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 4);
    ck_assert_uint_eq(toy.creates, 4);
}

WT_TEST(test_A11_A14_what_is_idle_need_not_be_made)
{
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 2, 0));
    wt_toy_close_gate(&toy);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 5, WARM_PREWARM_BACKGROUND));
    wt_toy_await(&toy, 1);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 3);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 2);
    wt_toy_open_gate(&toy);
    wt_ok(warm_handle_prewarm_wait(runtime));
    ck_assert_int_eq(wt_stat(runtime, kind, 0, prewarming), 0);
    ck_assert_uint_eq(toy.creates, 5);
}

/* ---- trims --------------------------------------------------------------- */

static unsigned torn;

static int destroy_counted(void *context, int device, void *handle)
{
    torn += !wt_balanced(runtime, kind, device);
    torn += wt_stat(runtime, kind, device, idle) < 1;
    return wt_toy_destroy(context, device, handle);
}

WT_TEST(test_A12_A14_what_is_being_destroyed_counts_as_idle)
{
    torn = 0;
    (void)register_as("counted", NULL, destroy_counted);
    wt_ok(warm_handle_prewarm(runtime, kind, 0, 4, 0));
    wt_ok(warm_handle_trim(runtime, kind, 0, 1, 0, NULL));
    ck_assert_uint_eq(toy.destroys, 3);
    ck_assert_uint_eq(torn, 0);
    ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
    /* The last one goes with the runtime, where nothing can be asked. */
    wt_ok(warm_handle_trim(runtime, kind, 0, 0, 0, NULL));
}

static int destroy_last(void *context, int device, void *handle)
{
    wm_process_set_exiting();
    return wt_toy_destroy(context, device, handle);
}

/* In a process of its own, which begins to exit while it trims. */
WT_TEST(test_A6_A12_a_trim_stops_when_the_process_exits)
{
    uint64_t destroyed = 99;
    int status = -1;
    pid_t child;

    child = fork();
    if (child == 0) {
        set_up(); /* the runtime of the parent is not ours */
        (void)register_as("last", NULL, destroy_last);
        _exit(warm_handle_prewarm(runtime, kind, 0, 4, 0) == WARM_OK &&
                      warm_handle_trim(runtime, kind, 0, 0, 0, &destroyed) ==
                          WARM_OK &&
                      destroyed == 1 && toy.destroys == 1
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

/* ---- cancellation -------------------------------------------------------- */

static atomic_bool in_callback, cancelled;

static void be_cancelled(void)
{
    in_callback = true;
    while (!cancelled) {
        sched_yield();
    }
    pthread_testcancel();
}

static int testcancel_create(void *context, int device, void **handle)
{
    be_cancelled();
    return wt_toy_create(context, device, handle);
}

static int testcancel_reset(void *context, int device, void *handle)
{
    be_cancelled();
    return wt_toy_reset(context, device, handle);
}

static void *reserve_to_be_cancelled(void *argument)
{
    void *handle = NULL;

    *(warm_status *)argument = warm_handle_reserve(runtime, kind, 0, &handle);
    while (in_callback) {
        pthread_testcancel();
    }
    return NULL;
}

/* While a handle is made, and while one that was used before is reset: nobody
 * is cancelled in the library's hands. */
WT_TEST(test_A4_callbacks_are_no_cancellation_points)
{
    warm_kind_ops ops = {.size = sizeof ops,
                         .name = "points",
                         .context = &toy,
                         .create = testcancel_create,
                         .destroy = wt_toy_destroy,
                         .reset = testcancel_reset};

    wt_ok(warm_kind_register(runtime, &ops, &kind));
    for (int round = 0; round < 3; round++) { /* made, reset, reset */
        warm_status status = WARM_NOT_FOUND;
        void *result = NULL;
        pthread_t thread;

        in_callback = cancelled = false;
        pthread_create(&thread, NULL, reserve_to_be_cancelled, &status);
        while (!in_callback) {
            sched_yield();
        }
        pthread_cancel(thread);
        cancelled = true;
        pthread_join(thread, &result);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        wt_ok(status);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, idle), 1);
        ck_assert_int_eq(wt_stat(runtime, kind, 0, in_use), 0);
    }
    ck_assert_uint_eq(toy.creates, 1);
    ck_assert_uint_eq(toy.resets, 2);
}

/* ---- device memory ------------------------------------------------------- */

enum { BYTES = 1 << 20 };

static int create_heavy(void *context, int device, void **handle)
{
    (void)context;
    return (int)warm_device_alloc_uncached(runtime, device, BYTES, handle);
}

static int destroy_heavy(void *context, int device, void *handle)
{
    int code = (int)wm_driver_device_free(runtime->driver, device, handle);

    (void)context;
    wt_toy_gate(&toy);
    return code;
}

static void *trim_all(void *argument)
{
    (void)warm_handle_trim(runtime, *(warm_kind *)argument, 0, 0, 0, NULL);
    return NULL;
}

/* A handle of another kind gives memory back while one is made. */
WT_TEST(test_A14_what_runs_beside_a_trim_is_not_measured)
{
    warm_kind heavy = register_as("heavy", create_heavy, destroy_heavy);
    warm_kind other = register_as("other", create_heavy, destroy_heavy);
    pthread_t thread;
    void *handle = NULL;

    wt_ok(warm_handle_prewarm(runtime, heavy, 0, 1, 0));
    wt_toy_close_gate(&toy);
    pthread_create(&thread, NULL, trim_all, &heavy);
    wt_toy_await(&toy, 1);
    wt_ok(warm_handle_reserve(runtime, other, 0, &handle));
    ck_assert_int_eq(wt_stat(runtime, other, 0, created), 1);
    ck_assert_int_eq(wt_stat(runtime, other, 0, measured), 0);
    ck_assert_int_eq(wt_stat(runtime, other, 0, device_bytes), 0);
    wt_toy_open_gate(&toy);
    pthread_join(thread, NULL);
    wt_ok(warm_handle_prewarm(runtime, other, 0, 1, 0));
    ck_assert_int_eq(wt_stat(runtime, other, 0, measured), 1);
    ck_assert_int_eq(wt_stat(runtime, other, 0, device_bytes), BYTES);
}
