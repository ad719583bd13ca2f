/* lease.c: leases handles for a scope and trims idle ones (rows A12, A13).
 *
 * A lease is a number: the pool's serial, then device and kind in the low bits.
 * The pool looks the serial up, so that a stale or invented lease is refused
 * without reading memory that a caller could corrupt. Takes no lock of its own.
 */
#include "handles/handle.h"
#include "runtime/base/clock.h"
#include "runtime/base/sized.h"
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

/* With a workspace of its own, instead of the one that it has. */
static warm_status bind_handle(warm_runtime *runtime, wm_window *window,
                               wm_pool *pool, void *handle,
                               const wm_binding_request *want)
{
    size_t bytes;
    wm_workspace *with =
        wm_handle_workspace(runtime, window, pool, handle, want, &bytes);
    warm_status status = wm_pool_bind(pool, handle, want->stream, with, bytes);

    /* After a failure the handle may be bound to either. */
    if (status == WARM_OK && pool->workspaces != NULL) {
        wm_workspaces_leave_handle(pool->workspaces, handle, with,
                                   wm_clock_ns());
    }
    return status;
}

static warm_status acquire_and_lease(warm_runtime *runtime, wm_window *window,
                                     const wm_window_call *call,
                                     const struct request *request)
{
    wm_pool *pool =
        wm_kind_table_pool(runtime->kinds, call->kind, call->device);
    wm_binding_request want = {.stream = request->stream,
                               .info = {.device = WM_DEVICE_UNKNOWN}};
    void *handle = NULL;
    warm_status status;

    if (request->bound) {
        status = wm_handle_check_stream(runtime, call->kind, call->device,
                                        want.stream, &want.info);
        if (status != WARM_OK) {
            return status;
        }
    }
    status = wm_handle_acquire(runtime, call, request->bound ? &want : NULL,
                               &handle);
    if (status != WARM_OK) {
        return status;
    }
    if (request->bound) {
        status = bind_handle(runtime, window, pool, handle, &want);
        if (status != WARM_OK) {
            wm_pool_release_left(pool, handle, wm_clock_ns());
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
    warm_status status =
        wm_handle_check(runtime, kind, device, request->handle);

    status = wm_check_given(status, request->lease, "lease");
    if (status == WARM_OK &&
        (status = wm_handle_begin(runtime, &call, &window)) == WARM_OK) {
        status = acquire_and_lease(runtime, window, &call, request);
        wm_handle_end(window);
    }
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

/* Kind, device and serial of a lease. */
typedef struct place {
    int kind, device;
    uint64_t serial;
} place;

static warm_status find_place(warm_runtime *runtime, warm_lease lease, place *p)
{
    unsigned low = (unsigned)(lease.number & ((1u << PLACE_BITS) - 1));

    *p = (place){.kind = (int)(low & ((1u << KIND_BITS) - 1)),
                 .device = (int)(low >> KIND_BITS),
                 .serial = lease.number >> PLACE_BITS};
    return p->kind < wm_kind_table_count(runtime->kinds) &&
                   p->device < runtime->devices
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "%llu is no lease of this runtime",
                         (unsigned long long)lease.number);
}

warm_status warm_handle_return(warm_runtime *runtime, warm_lease lease)
{
    warm_status status = wm_runtime_check(runtime);
    place p;

    if (status != WARM_OK ||
        (status = find_place(runtime, lease, &p)) != WARM_OK) {
        return status;
    }
    return wm_pool_lease_end(
        wm_kind_table_pool(runtime->kinds, p.kind, p.device), p.serial);
}

/* A handle of a device that was reset is found last: a live one of another
 * device may have its address. */
static bool find(warm_runtime *runtime, warm_kind kind, const void *handle,
                 warm_lease *lease)
{
    bool found = false, lost = true;

    for (int device = 0; device < runtime->devices && lost; device++) {
        bool gone = false;
        uint64_t serial = wm_pool_lease_of(
            wm_kind_table_pool(runtime->kinds, kind, device), handle, &gone);

        if (serial != 0) {
            *lease = number_of(kind, device, serial);
            found = true;
            lost = gone;
        }
    }
    return found;
}

warm_status warm_handle_find_lease(warm_runtime *runtime, warm_kind kind,
                                   const void *handle, warm_lease *lease)
{
    warm_status status = wm_check_given(
        wm_handle_check(runtime, kind, 0, handle), lease, "lease");

    if (status == WARM_OK && !find(runtime, kind, handle, lease)) {
        status = wm_fail(WARM_NOT_FOUND, "%p is no leased handle of kind %s",
                         handle, warm_kind_name(runtime, kind));
    }
    return status;
}

static warm_status bind(warm_runtime *runtime, wm_window *window,
                        const place *p, warm_stream stream)
{
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, p->kind, p->device);
    wm_binding_request want = {.stream = stream,
                               .info = {.device = WM_DEVICE_UNKNOWN}};
    struct wm_unbinding u;
    warm_status status = wm_pool_rebind_begin(pool, p->serial, &u);

    if (status != WARM_OK) {
        return status;
    }
    status =
        wm_handle_check_stream(runtime, p->kind, p->device, stream, &want.info);
    if (status == WARM_OK) {
        status = bind_handle(runtime, window, pool, u.handle, &want);
    }
    wm_pool_rebind_end(pool, &u, status == WARM_OK);
    return status;
}

warm_status warm_lease_bind(warm_runtime *runtime, warm_lease lease,
                            warm_stream stream)
{
    warm_status status = wm_runtime_check(runtime);
    wm_window_call call = {.kind = 0}; /* in the window's list until the end */
    wm_window *window = NULL;
    place p;

    if (status != WARM_OK ||
        (status = find_place(runtime, lease, &p)) != WARM_OK) {
        return status;
    }
    call = (wm_window_call){.kind = p.kind, .device = p.device};
    status = wm_handle_begin(runtime, &call, &window);
    if (status == WARM_OK) {
        status = bind(runtime, window, &p, stream);
        wm_handle_end(window);
    }
    return status;
}

static void trim_workspaces(warm_runtime *runtime, warm_kind kind, int device,
                            uint64_t idle_ns)
{
    const wm_kind *of = wm_kind_table_kind(runtime->kinds, kind);
    wm_workspaces *workspaces =
        wm_kind_table_workspaces(runtime->kinds, device);
    wm_breaking breaking;

    if (of->ops->workspace_bytes == NULL) {
        return;
    }
    wm_workspaces_reset_peak(workspaces);
    if (wm_captures_begin_break(of->captures, &breaking, device, NULL)) {
        (void)wm_workspaces_trim(workspaces, idle_ns);
        wm_captures_end_break(of->captures, &breaking);
    }
}

warm_status warm_handle_trim(warm_runtime *runtime, warm_kind kind, int device,
                             uint64_t keep, uint64_t idle_ns,
                             uint64_t *destroyed)
{
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
    return status;
}
