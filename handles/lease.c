/* lease.c: leases handles for a scope and trims idle ones (rows A12, A13).
 *
 * A lease is a number: the pool's serial, then device and kind in the low bits.
 * The pool looks the serial up, so that a stale or invented lease is refused
 * without reading memory that a caller could corrupt. Takes no lock of its own.
 */
#include "handles/handle.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

enum { PLACE_BITS = 16, KIND_BITS = 5 };

static warm_lease number_of(warm_kind kind, int device, uint64_t serial)
{
    return (warm_lease){serial << PLACE_BITS | (unsigned)device << KIND_BITS |
                        (unsigned)kind};
}

struct request {
    bool bound;
    warm_stream stream;
    warm_lease *lease;
    void **handle;
};

static warm_status acquire_and_lease(warm_runtime *runtime,
                                     const wm_window_call *call,
                                     const struct request *request)
{
    wm_pool *pool =
        wm_kind_table_pool(runtime->kinds, call->kind, call->device);
    wm_stream_info info = {.device = WM_DEVICE_UNKNOWN};
    void *handle = NULL;
    warm_status status;

    if (request->bound) {
        status = wm_handle_check_stream(runtime, call->kind, call->device,
                                        request->stream, &info);
        if (status != WARM_OK) {
            return status;
        }
    }
    status = wm_handle_acquire(runtime, call, &handle);
    if (status != WARM_OK) {
        return status;
    }
    if (request->bound) {
        size_t bytes = 0;
        void *memory =
            wm_handle_workspace(runtime, call->kind, call->device, handle,
                                request->stream, &info, &bytes);

        status = wm_pool_bind(pool, handle, request->stream, memory, bytes);
        if (status != WARM_OK) {
            wm_pool_release(pool, handle, wm_clock_ns());
            return status;
        }
    }
    *request->lease =
        number_of(call->kind, call->device,
                  wm_pool_lease_out(pool, handle, request->bound));
    *request->handle = handle;
    return WARM_OK;
}

static warm_status lease_handle(warm_runtime *runtime, warm_kind kind,
                                int device, const struct request *request)
{
    wm_window_call call = {.kind = kind, .device = device};
    wm_window *window = NULL;
    int cancel = wm_cancel_off();
    warm_status status =
        wm_handle_check(runtime, kind, device, request->handle);

    if (status == WARM_OK && request->lease == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "lease is null");
    }
    if (status == WARM_OK) {
        status = wm_handle_begin(runtime, &call, &window);
    }
    if (status == WARM_OK) {
        status = acquire_and_lease(runtime, &call, request);
        wm_handle_end(window);
    }
    wm_cancel_restore(cancel);
    return status;
}

warm_status warm_handle_lease(warm_runtime *runtime, warm_kind kind, int device,
                              warm_lease *lease, void **handle)
{
    struct request request = {false, NULL, lease, handle};

    return lease_handle(runtime, kind, device, &request);
}

warm_status warm_handle_lease_on(warm_runtime *runtime, warm_kind kind,
                                 int device, warm_stream stream,
                                 warm_lease *lease, void **handle)
{
    struct request request = {true, stream, lease, handle};

    return lease_handle(runtime, kind, device, &request);
}

static warm_status end(warm_runtime *runtime, uint64_t number)
{
    unsigned place = (unsigned)(number & ((1u << PLACE_BITS) - 1));
    int kind = (int)(place & ((1u << KIND_BITS) - 1));
    int device = (int)(place >> KIND_BITS);

    if (kind >= wm_kind_table_count(runtime->kinds) ||
        device >= runtime->devices) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%llu is no lease of this runtime",
                       (unsigned long long)number);
    }
    return wm_pool_lease_end(wm_kind_table_pool(runtime->kinds, kind, device),
                             number >> PLACE_BITS);
}

warm_status warm_handle_return(warm_runtime *runtime, warm_lease lease)
{
    int cancel = wm_cancel_off();
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        status = end(runtime, lease.number);
    }
    wm_cancel_restore(cancel);
    return status;
}

static void trim_workspaces(warm_runtime *runtime, warm_kind kind, int device,
                            uint64_t idle_ns)
{
    const wm_kind *of = wm_kind_table_kind(runtime->kinds, kind);
    wm_breaking breaking;

    if (of->ops->workspace_bytes == NULL) {
        return;
    }
    wm_pool_detach_workspaces(wm_kind_table_pool(runtime->kinds, kind, device),
                              idle_ns);
    if (wm_captures_begin_break(of->captures, &breaking, device, NULL)) {
        wm_workspaces_trim(wm_kind_table_workspaces(runtime->kinds, device),
                           idle_ns);
        wm_captures_end_break(of->captures, &breaking);
    }
}

warm_status warm_handle_trim(warm_runtime *runtime, warm_kind kind, int device,
                             uint64_t keep, uint64_t idle_ns,
                             uint64_t *destroyed)
{
    int cancel = wm_cancel_off();
    warm_status status = wm_handle_check(runtime, kind, device, runtime);
    uint64_t count;

    if (status == WARM_OK) {
        wm_driver_notice_reset(runtime->driver, device);
        count = wm_pool_trim(wm_kind_table_pool(runtime->kinds, kind, device),
                             keep, idle_ns);
        trim_workspaces(runtime, kind, device, idle_ns);
        if (destroyed != NULL) {
            *destroyed = count;
        }
    }
    wm_cancel_restore(cancel);
    return status;
}
