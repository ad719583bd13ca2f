/* check_private_route.c: the warning of an allocation to a private pool on a
 * stream that does not capture (row E5): when another thread warns first, and
 * for a stream that CUDA blocks. Host device, with answers of the test. */
#include "wt.h"

#include "runtime/driver/driver.h"
#include "runtime/runtime.h"

#include <stdatomic.h>
#include <string.h>

static warm_runtime *runtime;
static warm_stream stream;
static wm_driver_ops ops;
static const wm_driver_ops *real;
static atomic_uint warnings, asked;

static void count_warnings(void *context, warm_log_level level,
                           const char *line)
{
    (void)context;
    if (level == WARM_LOG_WARNING && strstr(line, "does not capture") != NULL) {
        warnings++;
    }
}

static int always(void *context, warm_stream any)
{
    (void)context;
    (void)any;
    return 1;
}

static void setup(void)
{
    runtime = wt_runtime(
        &(warm_options){.size = sizeof(warm_options), .device = "host"});
    wt_ok(warm_stream_create(runtime, 0, &stream));
    real = runtime->driver->ops;
    ops = *real;
    runtime->driver->ops = &ops;
    warnings = asked = 0;
    warm_log_set(count_warnings, NULL);
}

static void teardown(void)
{
    warm_log_set(NULL, NULL);
    runtime->driver->ops = real;
    wt_ok(warm_stream_destroy(runtime, stream));
    wt_runtime_end(runtime);
}

static warm_private_pool begin(void)
{
    warm_private_pool pool = {0};

    wt_ok(warm_private_pool_begin(runtime, &pool, 0, always, NULL));
    return pool;
}

static void end(warm_private_pool pool)
{
    wt_ok(warm_private_pool_end(runtime, pool));
    wt_ok(warm_private_pool_release(runtime, pool));
}

static void take_and_free(warm_stream on)
{
    wt_ok(warm_free(wt_device(runtime, on, 4096)));
}

static void take_meanwhile(void *argument, unsigned index)
{
    void *block = NULL;

    (void)index;
    *(warm_status *)argument =
        warm_device_alloc(runtime, 0, stream, 4096, &block);
    (void)warm_free(block);
}

static warm_status status;

/* Another thread allocates from the pool while the driver is asked. */
static warm_status ask_while_another_comes(wm_driver *d, warm_stream about,
                                           wm_capture *capture)
{
    if (asked++ == 0) {
        wt_threads(1, take_meanwhile, &status);
    }
    return real->stream_capture(d, about, capture);
}

WT_CASE("warnings", .setup = setup, .teardown = teardown);

WT_TEST(test_E5_of_two_threads_that_meet_one_warns)
{
    warm_private_pool pool = begin();

    status = WARM_NOT_READY;
    ops.stream_capture = ask_while_another_comes;
    take_and_free(stream);
    ops.stream_capture = real->stream_capture;
    wt_ok(status);
    ck_assert_uint_eq(asked, 2);
    ck_assert_uint_eq(warnings, 1);
    end(pool);
}

/* The pool is released while the driver is asked. */
static warm_private_pool leaving;

static warm_status ask_while_it_goes(wm_driver *d, warm_stream about,
                                     wm_capture *capture)
{
    if (asked++ == 0) {
        end(leaving);
    }
    return real->stream_capture(d, about, capture);
}

WT_TEST(test_E5_a_pool_that_has_gone_meanwhile_warns_of_nothing)
{
    leaving = begin();
    ops.stream_capture = ask_while_it_goes;
    take_and_free(stream);
    ops.stream_capture = real->stream_capture;
    ck_assert_uint_eq(warnings, 0);
}

/* As CUDA's legacy stream beside a capture: it does not capture by itself. */
static warm_status is_blocked(wm_driver *d, warm_stream about,
                              wm_capture *capture)
{
    (void)d;
    (void)about;
    *capture = WM_CAPTURE_BLOCKED;
    return WARM_OK;
}

WT_TEST(test_E5_a_stream_that_a_capture_blocks_does_not_capture)
{
    warm_private_pool pool = begin();

    ops.stream_capture = is_blocked;
    take_and_free(NULL);
    take_and_free(NULL);
    ops.stream_capture = real->stream_capture;
    ck_assert_uint_eq(warnings, 1);
    end(pool);
    /* Each pool once. */
    pool = begin();
    take_and_free(stream);
    ck_assert_uint_eq(warnings, 2);
    end(pool);
}
