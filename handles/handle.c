/* handle.c: checks and bindings that the public calls of handles share, and the
 * small public calls. Takes no lock of its own. */
#include "handles/handle.h"
#include "handles/workspace_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

    status = wm_check_given(status, output, "handle");
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
                   "own thread is acquiring: it would wait for itself",
                   wm_kind_table_kind(runtime->kinds, call->kind)->ops->name,
                   call->device);
}

/* ---- bindings (row A10) -------------------------------------------------- */

/* The epoch of a binding with a workspace that a capture uses: never equal to
 * the runtime's, so that the next reserve queries the stream again. Once the
 * capture ends the stream needs another workspace, and no call reports the end
 * of a capture. */
#define EPOCH_OF_CAPTURE UINT64_MAX

/* While a stream captures, CUDA does not report its device: the device that the
 * caller named is trusted. */
static bool may_be_on(const wm_stream_info *info, int device)
{
    return info->device == device || info->device == WM_DEVICE_UNKNOWN;
}

warm_status wm_handle_check_stream(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   wm_stream_info *info)
{
    const wm_kind *k = wm_kind_table_kind(runtime->kinds, kind);
    warm_status status;

    if (k->ops->bind == NULL) {
        return wm_fail(WARM_UNSUPPORTED, "kind %s takes no streams",
                       k->ops->name);
    }
    status = wm_driver_stream_info(runtime->driver, stream, info);
    if (status == WARM_OK && !may_be_on(info, device) &&
        !wm_stream_is_default(stream)) {
        status =
            wm_fail(WARM_INVALID_ARGUMENT,
                    "stream %p belongs to device %d, the handle to device %d",
                    stream, info->device, device);
    }
    return status;
}

wm_workspace *wm_handle_workspace(warm_runtime *runtime, wm_window *window,
                                  wm_pool *pool, const void *handle,
                                  const wm_binding_request *want, size_t *bytes)
{
    const wm_stream_hooks *hooks = &runtime->kinds->hooks.streams;
    const wm_workspace_key key = {
        .handle = handle,
        .stream = want->stream,
        .stream_id = want->info.id,
        .known =
            wm_stream_is_default(want->stream) ||
            (hooks->is_known != NULL && hooks->is_known(runtime, want->stream)),
        .handles = wm_pool_recent_peak(pool)};
    wm_workspace *workspace = NULL;

    *bytes = pool->workspaces != NULL
                 ? pool->kind->ops->workspace_bytes(pool->kind, pool->device)
                 : 0;
    if (*bytes > 0 && may_be_on(&want->info, pool->device)) {
        workspace = wm_workspaces_get(pool->workspaces, &key, *bytes);
    }
    if (workspace == NULL) {
        *bytes = 0;
    } else if (want->stream == WARM_STREAM_PER_THREAD) {
        window->uses_default = true;
    }
    return workspace;
}

/* wm_binding_update() to a workspace. */
static warm_status update(warm_runtime *runtime, wm_binding *b, wm_pool *pool,
                          uint64_t *held, const wm_binding_request *want,
                          wm_workspace *with, size_t bytes)
{
    void *handle = (void *)(uintptr_t)held[WM_ROW_SECOND];
    uint64_t *row = held + WM_ROW_BOUND;
    wm_bound *present = b->present;
    bool was_bound = row[WM_ROW_SECOND] != 0;
    warm_status status;

    /* Same stream id and workspace: another stream raised the epoch, and the
     * binding is good. A retired stream that is still used has lost its
     * workspace, and the id of a capturing stream does not distinguish it from
     * an earlier stream at its address. */
    if (was_bound && row[0] == (uintptr_t)want->stream &&
        present->stream_id == want->info.id &&
        want->info.device != WM_DEVICE_UNKNOWN && present->workspace == with) {
        present->epoch = present->epoch != 0 ? want->epoch : 0;
        row[WM_ROW_SECOND] = want->epoch;
        return WARM_OK;
    }
    /* Unbound until the library call succeeds. */
    row[WM_ROW_SECOND] = 0;
    status = wm_pool_bind(pool, handle, want->stream, with, bytes);
    if (status == WARM_OK) {
        wm_binding_note(runtime, b, pool, want, handle, with, bytes,
                        was_bound && row[0] != (uintptr_t)want->stream);
        row[0] = (uintptr_t)want->stream;
        row[WM_ROW_SECOND] =
            with != NULL && want->info.capture == WM_CAPTURE_ACTIVE
                ? EPOCH_OF_CAPTURE
                : want->epoch;
    }
    return status;
}

warm_status wm_binding_update(warm_runtime *runtime, wm_window *window,
                              const wm_window_call *call,
                              const wm_binding_request *want)
{
    wm_pool *pool =
        wm_kind_table_pool(runtime->kinds, call->kind, call->device);
    uint64_t *held = wm_window_words(window, call->kind, call->device);
    const void *handle = (const void *)(uintptr_t)held[WM_ROW_SECOND];
    wm_binding *b = wm_binding_get(window, pool);
    wm_workspace *with;
    size_t bytes;
    warm_status status;

    if (b == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for the record of a %s "
                       "handle's stream",
                       pool->kind->ops->name);
    }
    with = wm_handle_workspace(runtime, window, pool, handle, want, &bytes);
    window->has_bound = true;
    status = update(runtime, b, pool, held, want, with, bytes);
    if (status != WARM_OK && with != NULL && with != b->present->workspace) {
        /* Its record names the new stream: it is not the one of before. */
        b->before->epoch = 0;
        wm_workspace_leave(with, handle, wm_clock_ns());
    }
    return status;
}

/* Unbinds the handles that the calling thread holds; only it may bind them. */
static void unbind_held(warm_runtime *runtime, wm_window *window, int device,
                        warm_stream stream)
{
    wm_rows *rows = wm_window_rows(window, device);
    uint32_t kinds = *wm_window_kinds(window, device);

    for (; kinds != 0; kinds &= kinds - 1) {
        warm_kind kind = __builtin_ctz(kinds);
        size_t first = wm_window_index(kind, device);
        wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, device);
        void *handle = wm_window_held(window, kind, device);

        if (rows->bound[first + WM_ROW_SECOND] != 0 &&
            rows->bound[first] == (uintptr_t)stream) {
            rows->bound[first + WM_ROW_SECOND] = 0;
            if (wm_pool_unbind(pool, handle)) {
                wm_binding *b = *wm_window_binding(window, kind, device);

                b->present->workspace = NULL;
            }
        }
    }
}

void wm_binding_unbind_stream(warm_runtime *runtime, int device,
                              warm_stream stream)
{
    wm_window *window;

    if (wm_stream_is_default(stream)) {
        return;
    }
    window = wm_window_find(runtime);
    if (window != NULL) {
        unbind_held(runtime, window, device, stream);
    }
    wm_kind_table_unbind_stream(runtime->kinds, device, stream);
}

/* ---- public calls -------------------------------------------------------- */

warm_status warm_thread_release(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        wm_driver_notice_reset(runtime->driver, WM_DEVICE_UNKNOWN);
        status = wm_window_drop(runtime);
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

/* The name behind symbolic links usually ends in the library's version. */
static warm_status put_real(const char *file, char *out, size_t bytes)
{
    char real[PATH_MAX];
    const char *path = realpath(file, real) != NULL ? real : file;

    if (strlen(path) >= bytes) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%.300s needs more room than was given", path);
    }
    strcpy(out, path);
    return WARM_OK;
}

static warm_status find_library(wm_kind *kind, char *out, size_t bytes)
{
    char file[PATH_MAX] = "";
    warm_status status;

    WM_CANCEL_OFF();
    if (kind->ops->find == NULL) {
        return wm_fail(WARM_NOT_FOUND, "kind %s comes from no library",
                       kind->ops->name);
    }
    status = kind->ops->find(kind, file, sizeof file);
    if (status == WARM_OK && file[0] == '\0') {
        status = wm_fail(WARM_NOT_FOUND, "the file of kind %s is not known",
                         kind->ops->name);
    }
    return status == WARM_OK ? put_real(file, out, bytes) : status;
}

warm_status warm_kind_library(warm_runtime *runtime, warm_kind kind, char *file,
                              size_t bytes)
{
    warm_status status = wm_runtime_check(runtime);

    status = status != WARM_OK ? status : check_kind(runtime, kind);
    status = wm_check_given(status, file, "file");
    return status != WARM_OK
               ? status
               : find_library(wm_kind_table_kind(runtime->kinds, kind), file,
                              bytes);
}

warm_status warm_handle_get_stats(warm_runtime *runtime, warm_kind kind,
                                  int device, warm_handle_stats *stats)
{
    warm_handle_stats all;
    warm_status status = wm_runtime_check_read(runtime);

    if (status != WARM_OK || (status = check_kind(runtime, kind)) != WARM_OK ||
        (status = wm_runtime_check_range(runtime, device)) != WARM_OK ||
        (status = wm_sized_check(stats, sizeof all, "warm_handle_stats")) !=
            WARM_OK) {
        return status;
    }
    wm_pool_get_stats(wm_kind_table_pool(runtime->kinds, kind, device), &all);
    if (wm_kind_table_kind(runtime->kinds, kind)->ops->workspace_bytes !=
        NULL) {
        wm_workspace_stats w;

        wm_workspaces_get_stats(
            wm_kind_table_workspaces(runtime->kinds, device), &w);
        all.workspaces = w.count;
        all.workspace_bytes = w.bytes;
        all.workspaces_idle = w.idle;
        all.workspaces_above = w.above;
    }
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}
