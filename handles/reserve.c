/* reserve.c: warm_reserve() and its neighbours.
 *
 * The hot path reads the thread's current window and nothing else: a window
 * cannot vanish under its own thread, and destroy only cuts its link to the
 * runtime. Everything else is in wm_reserve_slow(), with cancellation off. */
#include "handles/reserve.h"

#include "runtime/base/sized.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

static warm_status reserve_slow(warm_runtime *runtime, warm_kind kind,
                                int device, void **handle)
    __attribute__((noinline, cold));
static warm_status reserve_on_slow(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle)
    __attribute__((noinline, cold));

/* Whether the thread's current window has a slot for the kind and device. */
static inline __attribute__((always_inline)) bool
in_window(const wm_window *window, const warm_runtime *runtime, warm_kind kind,
          int device)
{
    /* Relaxed: the pointer is only compared; a thread that may call the
     * runtime at all already sees what its creation wrote. */
    return wm_likely(atomic_load_explicit(&window->runtime,
                                          memory_order_relaxed) == runtime) &&
           wm_likely((unsigned)device < window->devices) &&
           wm_likely((unsigned)kind < WARM_KIND_MAX);
}

warm_status warm_reserve(warm_runtime *runtime, warm_kind kind, int device,
                         void **handle)
{
    const wm_window *window = wm_window_current;

    if (in_window(window, runtime, kind, device)) {
        void *held = window->handles[wm_window_index(kind, device)];

        if (wm_likely(held != NULL) && wm_likely(handle != NULL)) {
            *handle = held;
            return WARM_OK;
        }
    }
    return reserve_slow(runtime, kind, device, handle);
}

warm_status warm_reserve_on(warm_runtime *runtime, warm_kind kind, int device,
                            warm_stream stream, void **handle)
{
    const wm_window *window = wm_window_current;

    if (in_window(window, runtime, kind, device)) {
        size_t index = wm_window_index(kind, device);
        const wm_binding *binding = &window->bindings[index];

        /* Relaxed: whoever uses a new stream that got an old one's address
         * got it from a thread that retired the old one before, so that this
         * thread sees an epoch at least that late. An unbound slot has epoch
         * 0, which the runtime's never is. */
        if (wm_likely(binding->stream == stream) &&
            wm_likely(binding->epoch ==
                      atomic_load_explicit(&runtime->stream_epoch,
                                           memory_order_relaxed)) &&
            wm_likely(handle != NULL)) {
            *handle = window->handles[index];
            return WARM_OK;
        }
    }
    return reserve_on_slow(runtime, kind, device, stream, handle);
}

static warm_status check_kind(warm_runtime *runtime, warm_kind kind)
{
    int kinds = wm_pools_kinds(runtime->pools);

    if (kind < 0 || kind >= kinds) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "kind %d is out of range; there are %d", kind, kinds);
    }
    return WARM_OK;
}

warm_status wm_handle_check(warm_runtime *runtime, warm_kind kind, int device,
                            const void *output)
{
    warm_status status = wm_runtime_check_device(runtime, device);

    if (status == WARM_OK && output == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "handle is null");
    }
    return status == WARM_OK ? check_kind(runtime, kind) : status;
}

static void put(wm_window *window, warm_kind kind, int device, void *handle)
{
    size_t index = wm_window_index(kind, device);

    window->handles[index] = handle;
    window->held[device] |= UINT32_C(1) << kind;
}

static void give(warm_runtime *runtime, wm_window *window, warm_kind kind,
                 int device)
{
    size_t index = wm_window_index(kind, device);
    void *handle = window->handles[index];

    window->handles[index] = NULL;
    window->held[device] &= ~(UINT32_C(1) << kind);
    window->bindings[index].epoch = 0;
    wm_pool_give(wm_pools_at(runtime->pools, kind, device), handle);
}

warm_status wm_handle_take(warm_runtime *runtime, const wm_window *window,
                           warm_kind kind, int device, void **handle)
{
    warm_status status = wm_handle_check_wanted(runtime, window, kind, device);

    return status == WARM_OK
               ? wm_pool_take(wm_pools_at(runtime->pools, kind, device), handle)
               : status;
}

warm_status wm_handle_check_wanted(warm_runtime *runtime,
                                   const wm_window *window, warm_kind kind,
                                   int device)
{
    const wm_window_call *outer = window->call->outer;

    while (outer != NULL && outer->index != window->call->index) {
        outer = outer->outer;
    }
    if (outer == NULL) {
        return WARM_OK;
    }
    return wm_fail(WARM_INVALID_ARGUMENT,
                   "a callback asks for the %s handle of device %d that "
                   "its thread is about to get",
                   wm_pools_kind(runtime->pools, kind)->ops->name, device);
}

/* Makes the window hold the handle; *fresh: it did not before. */
static warm_status hold(warm_runtime *runtime, wm_window *window,
                        warm_kind kind, int device, bool *fresh)
{
    void *handle = NULL;
    warm_status status;

    *fresh = false;
    if (window->handles[wm_window_index(kind, device)] != NULL) {
        return WARM_OK;
    }
    status = wm_handle_take(runtime, window, kind, device, &handle);
    if (status == WARM_OK) {
        put(window, kind, device, handle);
        *fresh = true;
    }
    return status;
}

static bool is_default(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

/* While a stream captures, the caller's word is all there is. */
static bool may_be_on(const wm_stream_info *info, int device)
{
    return info->device == device || info->device == WM_DEVICE_UNKNOWN;
}

warm_status wm_handle_check_stream(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   wm_stream_info *info)
{
    const wm_kind *k = wm_pools_kind(runtime->pools, kind);
    warm_status status;

    if (k->ops->bind == NULL) {
        return wm_fail(WARM_UNSUPPORTED, "kind %s takes no streams",
                       k->ops->name);
    }
    status = wm_driver_stream_info(runtime->driver, stream, info);
    if (status == WARM_OK && !may_be_on(info, device) && !is_default(stream)) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "the stream belongs to device %d, the handle to %d",
                         info->device, device);
    }
    return status;
}

void *wm_handle_workspace(warm_runtime *runtime, warm_kind number, int device,
                          warm_stream stream, const wm_stream_info *info,
                          size_t *bytes)
{
    wm_kind *kind = wm_pools_kind(runtime->pools, number);
    void *memory = NULL;

    *bytes = kind->ops->workspace_bytes != NULL
                 ? kind->ops->workspace_bytes(kind, device)
                 : 0;
    if (*bytes > 0 && stream != WARM_STREAM_PER_THREAD &&
        may_be_on(info, device)) {
        wm_workspaces_get(wm_pools_workspaces(runtime->pools, device), stream,
                          info->id, *bytes, &memory);
    }
    *bytes = memory != NULL ? *bytes : 0;
    return memory;
}

static warm_status bind(warm_runtime *runtime, wm_window *window,
                        warm_kind kind, int device, warm_stream stream,
                        const wm_stream_info *info, uint64_t epoch)
{
    size_t index = wm_window_index(kind, device);
    wm_binding *binding = &window->bindings[index];
    size_t bytes = 0;
    void *memory =
        wm_handle_workspace(runtime, kind, device, stream, info, &bytes);
    warm_status status;

    /* Some other stream has retired since, not this one: same id. One that
     * retired and is used on has lost its workspace, perhaps to another; and
     * the id of one that captures does not tell it from an earlier one. */
    if (binding->epoch != 0 && binding->stream == stream &&
        binding->stream_id == info->id && info->device != WM_DEVICE_UNKNOWN &&
        binding->workspace == memory) {
        binding->epoch = epoch;
        return WARM_OK;
    }
    /* Not bound to anything until the call has worked. */
    binding->epoch = 0;
    status = wm_pool_bind(wm_pools_at(runtime->pools, kind, device),
                          window->handles[index], stream, memory, bytes);
    if (status == WARM_OK) {
        *binding = (wm_binding){stream, info->id, epoch, memory};
    }
    return status;
}

static warm_status hold_bound(warm_runtime *runtime, wm_window *window,
                              warm_kind kind, int device, warm_stream stream)
{
    /* Before the stream is looked at: one that retires meanwhile makes the
     * binding stale. Relaxed: as in warm_reserve_on(). */
    uint64_t epoch =
        atomic_load_explicit(&runtime->stream_epoch, memory_order_relaxed);
    wm_stream_info info = {0, 0};
    bool fresh = false;
    warm_status status =
        wm_handle_check_stream(runtime, kind, device, stream, &info);

    if (status == WARM_OK) {
        status = hold(runtime, window, kind, device, &fresh);
    }
    if (status == WARM_OK) {
        status = bind(runtime, window, kind, device, stream, &info, epoch);
        if (status != WARM_OK && fresh) {
            give(runtime, window, kind, device);
        }
    }
    return status;
}

warm_status wm_handle_call(warm_runtime *runtime, warm_kind kind, int device,
                           wm_handle_fn *fn, void *argument)
{
    wm_window *window = NULL;
    warm_status status = wm_window_get(runtime, &window);

    if (status == WARM_OK) {
        wm_window_call call = {window->call, wm_window_index(kind, device)};

        window->call = &call;
        status = fn(runtime, window, kind, device, argument);
        window->call = call.outer;
    }
    return status;
}

/* What a slow call wants. */
struct want {
    bool bound;
    warm_stream stream;
    void **handle;
};

static warm_status hold_wanted(warm_runtime *runtime, wm_window *window,
                               warm_kind kind, int device, void *argument)
{
    const struct want *want = argument;
    bool fresh;
    warm_status status =
        want->bound ? hold_bound(runtime, window, kind, device, want->stream)
                    : hold(runtime, window, kind, device, &fresh);

    if (status == WARM_OK) {
        *want->handle = window->handles[wm_window_index(kind, device)];
    }
    return status;
}

static warm_status reserve(warm_runtime *runtime, warm_kind kind, int device,
                           struct want *want)
{
    int cancel = wm_cancel_off();
    warm_status status = wm_handle_check(runtime, kind, device, want->handle);

    if (status == WARM_OK) {
        status = wm_handle_call(runtime, kind, device, hold_wanted, want);
    }
    wm_cancel_restore(cancel);
    return status;
}

static warm_status reserve_slow(warm_runtime *runtime, warm_kind kind,
                                int device, void **handle)
{
    struct want want = {false, NULL, handle};

    return reserve(runtime, kind, device, &want);
}

static warm_status reserve_on_slow(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle)
{
    struct want want = {true, stream, handle};

    return reserve(runtime, kind, device, &want);
}

warm_status warm_stream_reserve(warm_runtime *runtime, int device,
                                warm_stream *stream)
{
    return warm_reserve(runtime, WARM_KIND_STREAM, device, stream);
}

void wm_reserve_release(warm_runtime *runtime, wm_window *window)
{
    for (unsigned device = 0; device < window->devices; device++) {
        while (window->held[device] != 0) {
            give(runtime, window, __builtin_ctz(window->held[device]),
                 (int)device);
        }
    }
}

warm_status warm_thread_release(warm_runtime *runtime)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK) {
        int cancel = wm_cancel_off();

        status = wm_window_drop(runtime);
        wm_cancel_restore(cancel);
    }
    return status;
}

warm_status warm_kind_register(warm_runtime *runtime, const warm_kind_ops *ops,
                               warm_kind *kind)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && kind == NULL) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "kind is null");
    }
    return status == WARM_OK ? wm_kind_user_add(runtime->pools, ops, kind)
                             : status;
}

const char *warm_kind_name(warm_runtime *runtime, warm_kind kind)
{
    if (wm_runtime_check(runtime) != WARM_OK ||
        check_kind(runtime, kind) != WARM_OK) {
        return NULL;
    }
    return wm_pools_kind(runtime->pools, kind)->ops->name;
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
    wm_pool_get_stats(wm_pools_at(runtime->pools, kind, device), &all);
    if (wm_pools_kind(runtime->pools, kind)->ops->workspace_bytes != NULL) {
        wm_workspaces_get_stats(wm_pools_workspaces(runtime->pools, device),
                                &all.workspaces, &all.workspace_bytes);
    }
    wm_sized_out(stats, &all, sizeof all);
    return WARM_OK;
}
