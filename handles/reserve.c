/* reserve.c: warm_handle_reserve() and warm_handle_reserve_on().
 *
 * A hit reads the thread's current window only. A window lives as long as its
 * thread; warm_runtime_destroy() merely clears its link to the runtime. The
 * miss is reserve_slow().
 *
 * A hit of warm_handle_reserve() is 15 instructions (gcc 12):
 *
 *    1, 2   the thread's window       9        the index
 *    3, 4   of this runtime?         10, 11   a handle, and a place for it?
 *    5, 6   a near device?           12, 13   load it, store it
 *    7, 8   a kind below 32?         14, 15   return 0
 *
 * Runtime, device and kind are 128 bits that may all be wrong, and one compare
 * and jump checks 64 bits at most; device and kind arrive in two registers, and
 * merging them costs the compare that it saves. */
#include "handles/handle.h"

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

#include <stdatomic.h>

static warm_status reserve_slow(warm_runtime *runtime, warm_kind kind,
                                int device, void **handle)
    __attribute__((noinline));
static warm_status reserve_on_miss(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle) __attribute__((noinline));

/* Whether the window's first rows cover the kind and device. */
static inline __attribute__((always_inline)) bool
is_near(const wm_window *window, const warm_runtime *runtime, warm_kind kind,
        int device)
{
    return wm_likely(window->owner == runtime) &&
           wm_likely((unsigned)device < wm_window_near_devices(window)) &&
           wm_likely((unsigned)kind < WARM_KIND_MAX);
}

/* Whether any rows of the window cover them; whether the further ones do. */
static bool is_covered(const wm_window *window, const warm_runtime *runtime,
                       warm_kind kind, int device)
{
    return (unsigned)device < window->devices && window->owner == runtime &&
           wm_window_near_devices(window) != 0 &&
           (unsigned)kind < WARM_KIND_MAX;
}

static bool is_far(const wm_window *window, const warm_runtime *runtime,
                   warm_kind kind, int device)
{
    return (unsigned)device >= WM_ROW_DEVICES &&
           is_covered(window, runtime, kind, device);
}

/* Gets the held handle if there is one and `handle` is not null: held[index] is
 * 0 while a handle is held, else wm_window_none. */
static inline __attribute__((always_inline)) bool
get_held(const wm_rows *rows, size_t index, void **handle)
{
    if (wm_likely((uintptr_t)handle > rows->held[index])) {
        *handle = (void *)(uintptr_t)rows->held[index + WM_ROW_SECOND];
        return true;
    }
    return false;
}

/* get_held() if the handle is bound to the stream. */
static inline __attribute__((always_inline)) bool
get_bound(const wm_rows *rows, size_t index, const warm_runtime *runtime,
          warm_stream stream, void **handle)
{
    /* Relaxed: a thread that uses a new stream at a retired stream's address
     * got it from the thread that retired the old stream, so it sees that raise
     * of the epoch or a later one. An unbound handle has epoch 0, which the
     * runtime's never is. */
    return wm_likely(rows->bound[index] == (uintptr_t)stream) &&
           wm_likely(rows->bound[index + WM_ROW_SECOND] ==
                     atomic_load_explicit(&runtime->stream_epoch,
                                          memory_order_relaxed)) &&
           get_held(rows, index, handle);
}

/* wm_window_index() in the first rows, without its modulo. */
static inline size_t near_index(warm_kind kind, int device)
{
    return (unsigned)kind * WM_ROW_WORDS + (unsigned)device;
}

warm_status warm_handle_reserve(warm_runtime *runtime, warm_kind kind,
                                int device, void **handle)
{
    const wm_window *window = wm_window_current;

    if (is_near(window, runtime, kind, device) &&
        get_held(window->rows, near_index(kind, device), handle)) {
        return WARM_OK;
    }
    return reserve_slow(runtime, kind, device, handle);
}

warm_status warm_handle_reserve_on(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle)
{
    const wm_window *window = wm_window_current;

    if (is_near(window, runtime, kind, device) &&
        get_bound(window->rows, near_index(kind, device), runtime, stream,
                  handle)) {
        return WARM_OK;
    }
    return reserve_on_miss(runtime, kind, device, stream, handle);
}

/* Acquires a handle for the window and stores it in its words. Inlined into
 * both callers: the instructions of a thread that reserves once and exits are
 * measured. */
static inline __attribute__((always_inline)) warm_status
hold(warm_runtime *runtime, wm_window *window, const wm_window_call *call,
     const wm_binding_request *want, uint64_t *held)
{
    void *handle = NULL;
    warm_status status = wm_handle_acquire(runtime, call, want, &handle);

    if (wm_likely(status == WARM_OK)) {
        held[0] = 0;
        held[WM_ROW_SECOND] = (uintptr_t)handle;
        *wm_window_kinds(window, call->device) |= UINT32_C(1) << call->kind;
        wm_window_set_home(window, call->device);
    }
    return status;
}

static inline void give(warm_runtime *runtime, wm_window *window,
                        warm_kind kind, int device, uint64_t now)
{
    wm_rows *rows = wm_window_rows(window, device);
    size_t index = wm_window_index(kind, device);
    wm_pool *pool = wm_kind_table_pool(runtime->kinds, kind, device);
    void *handle = (void *)(uintptr_t)rows->held[index + WM_ROW_SECOND];

    if (wm_unlikely(window->has_bound)) {
        wm_binding_forget(runtime, window, kind, device, now);
    }
    rows->held[index] = wm_window_none;
    rows->held[index + WM_ROW_SECOND] = 0;
    rows->bound[index + WM_ROW_SECOND] = 0;
    wm_pool_release(pool, handle, now);
}

static void give_back(warm_runtime *runtime, wm_window *window,
                      const wm_window_call *call)
{
    *wm_window_kinds(window, call->device) &= ~(UINT32_C(1) << call->kind);
    give(runtime, window, call->kind, call->device, wm_clock_ns());
}

static inline __attribute__((always_inline)) warm_status
reserve(warm_runtime *runtime, wm_window *window, const wm_window_call *call,
        const wm_binding_request *want, void **handle)
{
    uint64_t *held = wm_window_words(window, call->kind, call->device);
    warm_status status = held[WM_ROW_SECOND] != 0
                             ? WARM_OK
                             : hold(runtime, window, call, want, held);

    if (status == WARM_OK) {
        *handle = (void *)(uintptr_t)held[WM_ROW_SECOND];
    }
    return status;
}

static warm_status reserve_slow(warm_runtime *runtime, warm_kind kind,
                                int device, void **handle)
{
    wm_window_call call = {.kind = kind, .device = device};
    wm_window *window = wm_window_mine();
    warm_status status;

    if (is_far(window, runtime, kind, device) &&
        get_held(wm_window_rows(window, device), wm_window_index(kind, device),
                 handle)) {
        return WARM_OK;
    }
    status = wm_handle_check(runtime, kind, device, handle);
    if (status == WARM_OK &&
        (status = wm_handle_begin(runtime, &call, &window)) == WARM_OK) {
        status = reserve(runtime, window, &call, NULL, handle);
        wm_handle_end(window);
    }
    return status;
}

static warm_status reserve_bound(warm_runtime *runtime, wm_window *window,
                                 const wm_window_call *call, warm_stream stream,
                                 void **handle)
{
    /* Relaxed: as in get_bound(). */
    wm_binding_request want = {
        .stream = stream,
        .epoch =
            atomic_load_explicit(&runtime->stream_epoch, memory_order_relaxed)};
    bool fresh;
    warm_status status = wm_handle_check_stream(
        runtime, call->kind, call->device, stream, &want.info);

    if (status != WARM_OK) {
        return status;
    }
    fresh = wm_window_held(window, call->kind, call->device) == NULL;
    status = reserve(runtime, window, call, &want, handle);
    if (status == WARM_OK) {
        status = wm_binding_update(runtime, window, call, &want);
        if (status != WARM_OK && fresh) {
            give_back(runtime, window, call);
        }
    }
    return status;
}

static warm_status reserve_on_slow(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle) __attribute__((noinline));
static warm_status reserve_on_slow(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle)
{
    wm_window_call call = {.kind = kind, .device = device};
    wm_window *window = NULL;
    void *held = NULL;
    warm_status status = wm_handle_check(runtime, kind, device, handle);

    if (status == WARM_OK &&
        (status = wm_handle_begin(runtime, &call, &window)) == WARM_OK) {
        status = reserve_bound(runtime, window, &call, stream, &held);
        if (status == WARM_OK) {
            *handle = held;
        }
        wm_handle_end(window);
    }
    return status;
}

static warm_status reserve_on_miss(warm_runtime *runtime, warm_kind kind,
                                   int device, warm_stream stream,
                                   void **handle)
{
    wm_window *window = wm_window_mine();
    warm_status status = WARM_NOT_FOUND;
    wm_binding *binding;

    if (wm_likely(is_covered(window, runtime, kind, device))) {
        if ((unsigned)device >= WM_ROW_DEVICES &&
            get_bound(wm_window_rows(window, device),
                      wm_window_index(kind, device), runtime, stream, handle)) {
            return WARM_OK;
        }
        binding = *wm_window_binding(window, kind, device);
        if (binding != NULL) {
            status = wm_binding_again(window, binding, stream, handle);
        }
    }
    return wm_likely(status != WARM_NOT_FOUND)
               ? status
               : reserve_on_slow(runtime, kind, device, stream, handle);
}

warm_status warm_stream_reserve(warm_runtime *runtime, int device,
                                warm_stream *stream)
{
    return warm_handle_reserve(runtime, WARM_KIND_STREAM, device, stream);
}

static void release_device(warm_runtime *runtime, wm_window *window, int device,
                           uint64_t now)
{
    uint32_t kinds = *wm_window_kinds(window, device);

    *wm_window_kinds(window, device) = 0;
    for (; kinds != 0; kinds &= kinds - 1) {
        give(runtime, window, __builtin_ctz(kinds), device, now);
    }
}

void wm_handles_release(warm_runtime *runtime, wm_window *window)
{
    int device = 0, devices = (int)window->devices;
    uint64_t now;

    while (device < devices && *wm_window_kinds(window, device) == 0) {
        device++;
    }
    if (device == devices && !window->uses_default) {
        return;
    }
    now = wm_clock_ns();
    for (; device < devices; device++) {
        if (*wm_window_kinds(window, device) != 0) {
            /* Handles lost in a reset must not serve the next thread. */
            wm_driver_notice_reset(runtime->driver, device);
            release_device(runtime, window, device, now);
        }
    }
    window->has_bound = false;
    if (wm_unlikely(window->uses_default)) {
        wm_bindings_leave_thread(runtime, window);
    }
}
