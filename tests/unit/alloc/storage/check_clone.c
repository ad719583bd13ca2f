/* check_clone.c: a clone on a default stream that a capture blocks (rows B7,
 * D1). Host device, with answers of the test. */
#include "wt.h"

#include "runtime/driver/driver.h"
#include "runtime/runtime.h"

#include <string.h>

enum { SIZE = 4096 };

static warm_runtime *runtime;
static wm_driver_ops ops;
static const wm_driver_ops *real;

static void setup(void)
{
    runtime = wt_runtime_with(.device = "host");
    real = runtime->driver->ops;
    ops = *real;
    runtime->driver->ops = &ops;
}

static void teardown(void)
{
    runtime->driver->ops = real;
    wt_runtime_end(runtime);
}

WT_CASE("clone", .setup = setup, .teardown = teardown);

/* As CUDA's legacy stream beside a capture. */
static warm_status is_blocked(wm_driver *d, warm_stream stream,
                              wm_capture *capture)
{
    *capture = WM_CAPTURE_BLOCKED;
    return WARM_OK;
}

static const warm_memory own_memory[] = {WARM_MEMORY_PINNED,
                                         WARM_MEMORY_DEVICE};

/* CUDA would invalidate the capture. */
WT_LOOP_TEST(test_B7_D1_no_clone_on_a_stream_that_a_capture_blocks, 2)
{
    const warm_allocator *allocator = NULL;
    warm_data_pointer data = WARM_INIT(warm_data_pointer);
    void *source = wt_pinned(runtime, SIZE);
    uint64_t copies = wt_calls(runtime, "copy");

    wt_ok(warm_allocator_get(runtime, own_memory[_i], 0, &allocator));
    ops.stream_capture = is_blocked;
    wt_fails(
        WARM_CAPTURE_ERROR,
        warm_data_pointer_clone(runtime, allocator, source, SIZE, NULL, &data));
    ops.stream_capture = real->stream_capture;
    wt_says("default stream");
    ck_assert_uint_eq(wt_calls(runtime, "copy"), copies);
    ck_assert_ptr_null(data.data);
    ck_assert_uint_eq(wt_block_info(source).streams, 0);
    wt_ok(
        warm_data_pointer_clone(runtime, allocator, source, SIZE, NULL, &data));
    warm_data_pointer_free(&data);
    wt_ok(warm_free(source));
}
