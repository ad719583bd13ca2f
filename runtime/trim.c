/* trim.c: warm_trim(), over memory, workspaces and handles (pressure.h). */
#include "warmpool/pressure.h"

#include "alloc/kinds/pinned.h"
#include "alloc/space/space.h"
#include "handles/kind_table.h"
#include "handles/pool.h"
#include "handles/workspace.h"
#include "runtime/base/sized.h"
#include "runtime/thread/runtime_body.h"

static uint64_t held_in_all(const warm_runtime *runtime)
{
    return wm_whole_taken(&runtime->pinned->space.whole);
}

static uint64_t trim_workspaces(warm_runtime *runtime, int device)
{
    wm_workspaces *workspaces =
        wm_kind_table_workspaces(runtime->kinds, device);

    wm_workspaces_reset_peak(workspaces);
    return wm_workspaces_trim(workspaces, 0);
}

static uint64_t trim_handles(warm_runtime *runtime, int device)
{
    uint64_t destroyed = 0;

    for (int kind = 0; kind < wm_kind_table_count(runtime->kinds); kind++) {
        destroyed += wm_pool_trim(
            wm_kind_table_pool(runtime->kinds, kind, device), 0, 0);
    }
    return destroyed;
}

static warm_status trim(warm_runtime *runtime, uint64_t target,
                        warm_trim_report *report)
{
    size_t most = target < SIZE_MAX ? (size_t)target : SIZE_MAX;
    warm_status status;

    wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
    status = wm_pressure_trim(&runtime->pinned->space, most, report);
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        if (target == 0 || held_in_all(runtime) > target) {
            report->workspaces += trim_workspaces(runtime, i);
        }
    }
    for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
        if (target == 0 || held_in_all(runtime) > target) {
            report->handles += trim_handles(runtime, i);
        }
    }
    report->held_bytes = held_in_all(runtime);
    return status;
}

warm_status warm_trim(warm_runtime *runtime, uint64_t target,
                      warm_trim_report *report)
{
    warm_trim_report made = {.size = sizeof made};
    warm_status status = wm_runtime_check(runtime);

    if (report != NULL) {
        status = wm_check_out(status, report, sizeof made, "warm_trim_report");
    }
    if (status == WARM_OK &&
        (status = trim(runtime, target, &made)) == WARM_OK && report != NULL) {
        wm_sized_out(report, &made, sizeof made);
    }
    return status;
}
