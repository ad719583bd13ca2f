/* handle.c: checks that all public calls of handles share, and the small public
 * calls. Takes no lock of its own. */
#include "handles/handle.h"

#include "runtime/base/sized.h"
#include "runtime/base/status.h"

static warm_status check_kind(warm_runtime *runtime, warm_kind kind)
{
    int kinds = wm_kind_table_count(runtime->kinds);

    if (kind < 0 || kind >= kinds) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "kind %d is out of range; there are %d", kind, kinds);
    }
    return WARM_OK;
}

warm_status wm_handle_check_slow(warm_runtime *runtime, warm_kind kind,
                                 int device, const void *output)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK && output == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "handle is null");
    }
    return status == WARM_OK ? check_kind(runtime, kind) : status;
}

warm_status wm_handle_check_nested(warm_runtime *runtime,
                                   const wm_window_call *call)
{
    const wm_window_call *outer = call->outer;

    while (outer != NULL &&
           (outer->kind != call->kind || outer->device != call->device)) {
        outer = outer->outer;
    }
    if (outer == NULL) {
        return WARM_OK;
    }
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "a callback reserves the %s handle of device %d that its "
                   "own thread is about to get: it would wait for itself",
                   wm_kind_table_kind(runtime->kinds, call->kind)->ops->name,
                   call->device);
}

warm_status warm_thread_release(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        int cancel = wm_cancel_off();

        wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
        status = wm_window_drop(runtime);
        wm_cancel_restore(cancel);
    }
    return status;
}

const char *warm_kind_name(warm_runtime *runtime, warm_kind kind)
{
    if (wm_runtime_check(runtime) != WARM_OK ||
        check_kind(runtime, kind) != WARM_OK) {
        return NULL;
    }
    return wm_kind_table_kind(runtime->kinds, kind)->ops->name;
}

warm_status warm_handle_get_stats(warm_runtime *runtime, warm_kind kind,
                                  int device, warm_handle_stats *stats)
{
    warm_handle_stats all;
    warm_status status = wm_runtime_check_read(runtime);

    if (status == WARM_OK) {
        status = check_kind(runtime, kind);
    }
    if (status == WARM_OK) {
        status = wm_runtime_check_range(runtime, device);
    }
    if (status == WARM_OK) {
        status = wm_sized_check(stats, sizeof all, "warm_handle_stats");
    }
    if (status != WARM_OK) {
        return status;
    }
    wm_pool_get_stats(wm_kind_table_pool(runtime->kinds, kind, device), &all);
    if (wm_kind_table_kind(runtime->kinds, kind)->ops->workspace_bytes !=
        NULL) {
        wm_workspaces_get_stats(
            wm_kind_table_workspaces(runtime->kinds, device), &all.workspaces,
            &all.workspace_bytes);
    }
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}
