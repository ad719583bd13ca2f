/* testing.c: faults, call counts and held streams (warmpool/testing.h). */
#include "warmpool/testing.h"

#include "runtime/base/status.h"
#include "runtime/thread/control.h"

#include <limits.h>

static warm_status unknown_call(const char *call)
{
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "no driver call '%.64s': warm_testing_call_name() tells the "
                   "names of all",
                   call != NULL ? call : "(null)");
}

static warm_status find_call(warm_runtime *runtime, const char *call,
                             int *index)
{
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    *index = call != NULL ? wm_driver_call_index(call) : -1;
    return *index >= 0 ? WARM_OK : unknown_call(call);
}

warm_status warm_testing_fail(warm_runtime *runtime, const char *call,
                              uint64_t n, int persistent)
{
    int index;
    warm_status status = find_call(runtime, call, &index);

    if (status == WARM_OK) {
        wm_driver_fail(runtime->driver, index, n, persistent != 0);
    }
    return status;
}

warm_status warm_testing_calls(warm_runtime *runtime, const char *call,
                               uint64_t *count)
{
    int index;
    warm_status status = find_call(runtime, call, &index);

    if (status == WARM_OK && count == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "count is null");
    }
    if (status == WARM_OK) {
        *count = wm_counter_read(&runtime->driver->calls[index]);
    }
    return status;
}

const char *warm_testing_call_name(int index)
{
    return wm_driver_call_name(index);
}

static warm_status control(warm_runtime *runtime, warm_stream stream,
                           unsigned count)
{
    warm_status status = wm_runtime_check(runtime);
    int cancel;

    if (status != WARM_OK) {
        return status;
    }
    if (runtime->driver->ops->control == NULL) {
        return wm_fail(WARM_UNSUPPORTED,
                       "driver %s cannot hold a stream; the host device can",
                       runtime->driver->name);
    }
    cancel = wm_cancel_off();
    status = runtime->driver->ops->control(runtime->driver, stream, count);
    wm_cancel_restore(cancel);
    return status;
}

warm_status warm_testing_hold(warm_runtime *runtime, warm_stream stream)
{
    return control(runtime, stream, WM_CONTROL_HOLD);
}

warm_status warm_testing_step(warm_runtime *runtime, warm_stream stream,
                              unsigned count)
{
    /* The two ends of the range mean something else to the driver. */
    if (count == WM_CONTROL_HOLD) {
        return wm_runtime_check(runtime);
    }
    return control(runtime, stream,
                   count == WM_CONTROL_RESUME ? UINT_MAX - 1 : count);
}

warm_status warm_testing_resume(warm_runtime *runtime, warm_stream stream)
{
    return control(runtime, stream, WM_CONTROL_RESUME);
}
