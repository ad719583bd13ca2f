/* check_event_pool.c: the pool of idle events (row B4 rests on it). */
/* memcheck: one process */
#include "wt_one_host.h"

#include "runtime/driver/event_pool.h"

static void setup(void)
{
    wt_reopen(2, 0);
}

WT_CASE("device", .setup = setup, .teardown = wt_close);

static wm_event_counts counts(wm_event_pool *pool, int device)
{
    wm_event_counts c;

    wm_event_pool_counts(pool, device, &c);
    ck_assert_uint_eq(c.created, c.idle + c.out);
    return c;
}

WT_TEST(test_event_pool_last_in_first_out)
{
    wm_event_pool pool;
    warm_event a, b, c;

    wt_ok(wm_event_pool_init(&pool, d));
    wt_ok(wm_event_pool_take(&pool, 0, &a));
    wt_ok(wm_event_pool_take(&pool, 0, &b));
    ck_assert_ptr_ne(a, b);
    ck_assert_uint_eq(counts(&pool, 0).out, 2);
    wm_event_pool_put(&pool, 0, a);
    wm_event_pool_put(&pool, 0, b);
    ck_assert_uint_eq(counts(&pool, 0).idle, 2);
    wt_ok(wm_event_pool_take(&pool, 0, &c));
    ck_assert_ptr_eq(c, b);
    wt_ok(wm_event_pool_take(&pool, 0, &c));
    ck_assert_ptr_eq(c, a);
    ck_assert_uint_eq(counts(&pool, 0).created, 2);
    ck_assert_uint_eq(wm_event_pool_fini(&pool), 2);
}

WT_TEST(test_event_pool_never_crosses_devices)
{
    warm_stream s = wt_host_stream(d, 1);
    wm_event_pool pool;
    warm_event a, b;

    wt_ok(wm_event_pool_init(&pool, d));
    wt_ok(wm_event_pool_take(&pool, 0, &a));
    wm_event_pool_put(&pool, 0, a);
    wt_ok(wm_event_pool_take(&pool, 1, &b));
    ck_assert_ptr_ne(a, b);
    wt_ok(wm_driver_event_record(d, b, s));
    ck_assert_uint_eq(counts(&pool, 0).created, 1);
    ck_assert_uint_eq(counts(&pool, 1).created, 1);
    wm_event_pool_put(&pool, 1, b);
    ck_assert_uint_eq(wm_event_pool_fini(&pool), 0);
    ck_assert_uint_eq(wm_host_of(d)->live[WM_HOST_EVENT].count,
                      0); /* all events are gone */
}

/* Every failure on the way leaves the pool as it was. */
WT_TEST(test_event_pool_failed_take_changes_nothing)
{
    warm_event event = NULL, many[70];
    wm_event_pool pool;

    wm_meta_fail(1, false);
    wt_fails(WARM_OUT_OF_MEMORY, wm_event_pool_init(&pool, d));
    wt_ok(wm_event_pool_init(&pool, d));
    wm_meta_fail(1, false);
    wt_fails(WARM_OUT_OF_MEMORY, wm_event_pool_take(&pool, 0, &event));
    wm_driver_fail(d, WM_CALL_event_create, 1, false);
    wt_fails(WARM_DRIVER_ERROR, wm_event_pool_take(&pool, 0, &event));
    ck_assert_ptr_null(event);
    wm_driver_fail(d, WM_CALL_event_create, 1, true);
    for (int i = 0; i < 100; i++) {
        wt_fails(WARM_DRIVER_ERROR, wm_event_pool_take(&pool, 0, &event));
    }
    wm_driver_fail(d, WM_CALL_event_create, 0, false);
    ck_assert_uint_eq(counts(&pool, 0).created, 0);
    ck_assert_uint_eq(pool.device[0].promised, 0);
    for (int i = 0; i < 70; i++) {
        wt_ok(wm_event_pool_take(&pool, 0, &many[i]));
    }
    wm_meta_fail(1, true); /* put has its room */
    for (int i = 0; i < 70; i++) {
        wm_event_pool_put(&pool, 0, many[i]);
    }
    wm_meta_fail(0, false);
    ck_assert_uint_eq(counts(&pool, 0).idle, 70);
    wm_driver_fail(d, WM_CALL_event_create, 1, true);
    wt_ok(wm_event_pool_take(&pool, 0, &event));
    wm_driver_fail(d, WM_CALL_event_create, 0, false);
    ck_assert_ptr_eq(event, many[69]);
    ck_assert_uint_eq(wm_event_pool_fini(&pool), 1);
}

struct churn {
    wm_event_pool pool;
    unsigned rounds;
    _Atomic unsigned failed;
};

enum { HELD = 5, THREADS = 4 };

static void take_and_put(void *argument, unsigned index)
{
    struct churn *c = argument;
    uint64_t random = wt_seed() + index;
    warm_event held[HELD] = {0};

    for (unsigned i = 0; i < c->rounds; i++) {
        unsigned k = (unsigned)(wt_random(&random) % HELD);

        if (held[k] != NULL) {
            wm_event_pool_put(&c->pool, (int)k % 2, held[k]);
            held[k] = NULL;
        } else if (wm_event_pool_take(&c->pool, (int)k % 2, &held[k]) !=
                   WARM_OK) {
            atomic_fetch_add_explicit(&c->failed, 1, memory_order_relaxed);
        }
    }
    for (unsigned k = 0; k < HELD; k++) {
        if (held[k] != NULL) {
            wm_event_pool_put(&c->pool, (int)k % 2, held[k]);
        }
    }
}

WT_TEST(test_event_pool_creates_no_more_than_were_out_at_once)
{
    struct churn c = {.rounds = wt_scaled(20000)};

    wt_ok(wm_event_pool_init(&c.pool, d));
    wt_threads(THREADS, take_and_put, &c);
    ck_assert_uint_eq(c.failed, 0);
    ck_assert_uint_eq(counts(&c.pool, 0).out, 0);
    ck_assert_uint_le(counts(&c.pool, 0).created, 3 * THREADS);
    ck_assert_uint_le(counts(&c.pool, 1).created, 2 * THREADS);
    ck_assert_uint_eq(wm_event_pool_fini(&c.pool), 0);
}

/* What goes beyond the bound is destroyed, and no event that is out; a driver
 * that fails is called no more often. */
WT_TEST(test_B25_a_trim_destroys_what_a_burst_left)
{
    enum { BURST = 1000, OUT = 20, LEFT = 2 * OUT + WM_EVENTS_KEEP };
    wm_event_pool pool;
    warm_event held[BURST], another;
    size_t before = wm_host_of(d)->live[WM_HOST_EVENT].count;

    wt_ok(wm_event_pool_init(&pool, d));
    for (int i = 0; i < BURST; i++) {
        wt_ok(wm_event_pool_take(&pool, 1, &held[i]));
    }
    wm_event_pool_trim(&pool);
    ck_assert_uint_eq(counts(&pool, 1).created, BURST);
    for (int i = OUT; i < BURST; i++) {
        wm_event_pool_put(&pool, 1, held[i]);
    }
    (void)wm_fail(WARM_INTERNAL, "an error of before");
    wm_event_pool_name(&pool, 1); /* a thread names one of them */
    wm_event_pool_trim(&pool);
    ck_assert_uint_eq(counts(&pool, 1).created, BURST);
    wt_ok(wm_event_pool_take(&pool, 1, &another));
    ck_assert_uint_eq(counts(&pool, 1).created, BURST + 1);
    wm_event_pool_put(&pool, 1, another);
    wm_event_pool_unname(&pool, 1);
    wm_event_pool_trim(&pool);
    ck_assert_str_eq(warm_last_error_message(), "an error of before");
    ck_assert_uint_eq(counts(&pool, 1).out, OUT);
    ck_assert_uint_eq(counts(&pool, 1).created, LEFT);
    ck_assert_uint_eq(pool.device[1].promised, LEFT);
    ck_assert_uint_eq(wm_host_of(d)->live[WM_HOST_EVENT].count - before, LEFT);
    /* Room for all of them again. */
    for (int i = OUT; i < BURST; i++) {
        wt_ok(wm_event_pool_take(&pool, 1, &held[i]));
    }
    for (int i = 0; i < BURST; i++) {
        wt_ok(wm_driver_event_query(d, held[i]));
        wm_event_pool_put(&pool, 1, held[i]);
    }
    wm_driver_fail(d, WM_CALL_event_destroy, 1, true);
    wm_event_pool_trim(&pool);
    ck_assert_str_eq(warm_last_error_message(), "an error of before");
    wm_driver_fail(d, WM_CALL_event_destroy, 0, false);
    ck_assert_uint_eq(counts(&pool, 1).idle, WM_EVENTS_KEEP);
    ck_assert_uint_eq(wm_event_pool_fini(&pool), 0);
}
