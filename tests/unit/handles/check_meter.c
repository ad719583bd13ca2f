/* check_meter.c: device memory of handles that are made at the same time, one
 * step after the other (row A14). */
/* memcheck: one process */
#include "wt.h"
#include "wt_kind.h"

#include "handles/meter.h"
#include "runtime/thread/runtime_body.h"

static warm_runtime *runtime;
static wm_meter meter;
static void *taken[16];
static unsigned count;
static int a, b; /* owners */

static void set_up(void)
{
    warm_options options = {.size = sizeof options, .host_devices = 2};

    runtime = wt_runtime(&options);
    wm_meter_init(&meter, runtime->driver, 0);
    count = 0;
}

static void tear_down(void)
{
    while (count > 0) {
        wt_ok(wm_driver_device_free(runtime->driver, 0, taken[--count]));
    }
    wt_runtime_end(runtime);
}

static void take(size_t bytes)
{
    wt_ok(wm_driver_device_alloc(runtime->driver, 0, bytes, &taken[count++]));
}

static void give(void)
{
    wt_ok(wm_driver_device_free(runtime->driver, 0, taken[--count]));
}

static void expect(bool told, uint64_t handles, uint64_t bytes, bool made)
{
    uint64_t h = 0, n = 0;

    ck_assert_int_eq(wm_meter_end(&meter, made, &h, &n), told);
    if (told) {
        ck_assert_uint_eq(h, handles);
        ck_assert_uint_eq(n, bytes);
    }
}

WT_CASE("meter", .setup = set_up, .teardown = tear_down);

WT_TEST(test_one_alone)
{
    wm_meter_begin(&meter, &a);
    take(1 << 20);
    expect(true, 1, 1 << 20, true);
    wm_meter_begin(&meter, &b);
    expect(true, 1, 0, true); /* takes nothing */
    wm_meter_begin(&meter, &b);
    take(1 << 20);
    give();
    give();
    expect(true, 1, 0, true); /* less than nothing is nothing */
}

WT_TEST(test_one_that_fails_is_not_counted)
{
    wm_meter_begin(&meter, &a);
    expect(false, 0, 0, false);
    wm_meter_begin(&meter, &a);
    wm_meter_begin(&meter, &a);
    take(1 << 20);
    expect(false, 0, 0, true);
    expect(true, 1, 1 << 20, false);
}

WT_TEST(test_those_of_one_kind_are_measured_together)
{
    wm_meter_begin(&meter, &a);
    take(1 << 20);
    wm_meter_begin(&meter, &a);
    expect(false, 0, 0, true); /* the first one is not the last */
    wm_meter_begin(&meter, &a);
    take(2 << 20);
    expect(false, 0, 0, true);
    take(4 << 20);
    expect(true, 3, 7 << 20, true);
    /* And the next one begins anew. */
    wm_meter_begin(&meter, &a);
    take(1 << 20);
    expect(true, 1, 1 << 20, true);
}

WT_TEST(test_two_kinds_at_once_tell_nothing)
{
    wm_meter_begin(&meter, &a);
    take(1 << 20);
    wm_meter_begin(&meter, &b);
    expect(false, 0, 0, true);
    wm_meter_begin(&meter, &a);
    expect(false, 0, 0, true);
    expect(false, 0, 0, true);
    wm_meter_begin(&meter, &b);
    take(1 << 20);
    expect(true, 1, 1 << 20, true);
}

WT_TEST(test_what_is_given_back_beside_it_spoils_it)
{
    take(1 << 20);
    wm_meter_begin(&meter, &a);
    wm_meter_exclude_begin(&meter);
    wm_meter_exclude_end(&meter);
    expect(false, 0, 0, true);
    wm_meter_exclude_begin(&meter);
    wm_meter_begin(&meter, &a);
    give();
    wm_meter_exclude_end(&meter);
    expect(false, 0, 0, true);
    wm_meter_begin(&meter, &a);
    take(1 << 20);
    expect(true, 1, 1 << 20, true);
}

WT_TEST(test_a_device_that_does_not_say_is_not_measured)
{
    wt_ok(warm_testing_fail(runtime, "device_info", 1, 1));
    wm_meter_begin(&meter, &a);
    wt_ok(warm_testing_fail(runtime, "device_info", 0, 0));
    expect(false, 0, 0, true);
    wm_meter_begin(&meter, &a);
    wt_ok(warm_testing_fail(runtime, "device_info", 1, 1));
    expect(false, 0, 0, true);
    wt_ok(warm_testing_fail(runtime, "device_info", 0, 0));
}

static warm_status (*ask)(wm_driver *driver, int device,
                          warm_device_info *info);
static unsigned asked;

/* Between the end of a measurement and its last question another begins. */
static warm_status ask_late(wm_driver *driver, int device,
                            warm_device_info *info)
{
    if (++asked == 2) {
        wm_meter_begin(&meter, &b);
        take(1 << 20);
    }
    return ask(driver, device, info);
}

WT_TEST(test_what_begins_before_it_is_told_spoils_it)
{
    wm_driver_ops ops = *runtime->driver->ops;
    const wm_driver_ops *before = runtime->driver->ops;

    ask = ops.device_info;
    ops.device_info = ask_late;
    runtime->driver->ops = &ops;
    asked = 0;
    wm_meter_begin(&meter, &a);
    expect(false, 0, 0, true);
    ck_assert_uint_ge(asked, 2);
    runtime->driver->ops = before;
    expect(true, 1, 1 << 20, true);
}

/* ---- of a runtime -------------------------------------------------------- */

enum { AT_ONCE = 6, BYTES = 1 << 20 };

static pthread_barrier_t inside;
static atomic_uint left;

/* All of them take their memory while all of them are inside. */
static int create(void *context, int device, void **handle)
{
    warm_status status =
        warm_device_alloc_uncached(runtime, device, BYTES, handle);

    (void)context;
    if (left > 0) {
        left--;
        pthread_barrier_wait(&inside);
    }
    return (int)status;
}

static int destroy(void *context, int device, void *handle)
{
    (void)context;
    return (int)wm_driver_device_free(runtime->driver, device, handle);
}

struct reserver {
    warm_kind kind;
    pthread_barrier_t barrier;
    atomic_uint failures;
};

static void reserve(void *argument, unsigned index)
{
    struct reserver *r = argument;
    void *handle = NULL;

    (void)index;
    r->failures += warm_handle_reserve(runtime, r->kind, 0, &handle) != WARM_OK;
    pthread_barrier_wait(&r->barrier);
}

WT_TEST(test_A14_handles_made_at_once_are_measured)
{
    const warm_kind_ops ops = {.size = sizeof ops,
                               .name = "heavy",
                               .create = create,
                               .destroy = destroy};
    struct reserver r = {.failures = 0};
    void *handle = NULL;

    wt_ok(warm_kind_register(runtime, &ops, &r.kind));
    wt_ok(warm_handle_reserve(runtime, r.kind, 0, &handle)); /* the first one */
    ck_assert_int_eq(wt_stat(runtime, r.kind, 0, measured), 1);
    ck_assert_int_eq(wt_stat(runtime, r.kind, 0, device_bytes), BYTES);
    left = AT_ONCE;
    pthread_barrier_init(&inside, NULL, AT_ONCE);
    pthread_barrier_init(&r.barrier, NULL, AT_ONCE);
    wt_threads(AT_ONCE, reserve, &r);
    ck_assert_uint_eq(r.failures, 0);
    ck_assert_int_eq(wt_stat(runtime, r.kind, 0, created), 1 + AT_ONCE);
    ck_assert_int_eq(wt_stat(runtime, r.kind, 0, measured), 1 + AT_ONCE);
    ck_assert_int_eq(wt_stat(runtime, r.kind, 0, device_bytes),
                     (1 + AT_ONCE) * BYTES);
    pthread_barrier_destroy(&inside);
    pthread_barrier_destroy(&r.barrier);
}
