/* driver.c: the common part of every driver call. */
#include "runtime/driver/driver.h"

#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "runtime/base/probe.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_data.h"

#include <string.h>

static const char *const call_names[WM_CALLS] = {
#define NAME(name, parameters, arguments, on) #name,
    WM_DRIVER_CALLS(NAME)
#undef NAME
};

/* Whether a test makes this call fail; counts the call down. A persistent fault
 * is never removed, not even for a moment: a concurrent call would succeed. */
static bool is_faulty(wm_driver *d, int call)
{
    /* Relaxed: a test arms faults before its calls. */
    int64_t left =
        atomic_load_explicit(&d->fail_in[call], memory_order_relaxed);
    int64_t next;

    do {
        if (left <= 0) {
            return false;
        }
        next = left == 1 && atomic_load_explicit(&d->fail_on[call],
                                                 memory_order_relaxed)
                   ? 1
                   : left - 1;
    } while (!atomic_compare_exchange_weak_explicit(&d->fail_in[call], &left,
                                                    next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return left == 1;
}

static warm_status injected(wm_driver *d, int call)
{
    warm_status status = WARM_DRIVER_ERROR;

    if (!is_faulty(d, call)) {
        return WARM_OK;
    }
    if (call == WM_CALL_pinned_alloc || call == WM_CALL_combined_alloc ||
        call == WM_CALL_pinned_register ||
        call == WM_CALL_pinned_register_read || call == WM_CALL_device_alloc ||
        call == WM_CALL_range_reserve || call == WM_CALL_range_commit) {
        status = WARM_OUT_OF_MEMORY;
    }
    return wm_fail_code(status, d->name, -1, "injected fault",
                        "%s was made to fail by a test", call_names[call]);
}

/* ---- devices that were reset -------------------------------------------- */

static uint64_t bit_of(int device)
{
    return UINT64_C(1) << (device < 63 ? device : 63);
}

/* The device whose context `device` stands for (WM_DEVICE_HOST: the one that
 * owns page-locked memory), or a negative number. */
static int context_of(const wm_driver *d, int device)
{
    return device == WM_DEVICE_HOST
               ? atomic_load_explicit(&d->host_home, memory_order_relaxed) - 1
               : device;
}

bool wm_driver_is_lost_slow(const wm_driver *d, int device)
{
    device = context_of(d, device);
    return device >= 0 &&
           (atomic_load_explicit(&d->lost, memory_order_relaxed) &
            bit_of(device)) != 0;
}

static warm_status fail_lost(const wm_driver *d, int device)
{
    if (device == WM_DEVICE_HOST) {
        return wm_fail(
            WARM_DRIVER_ERROR,
            "the runtime's pinned memory is lost: it belonged to the context "
            "of device %d, and device %d was reset (cudaDeviceReset()); "
            "destroy "
            "the runtime and make a new one",
            context_of(d, device), context_of(d, device));
    }
    return wm_fail(
        WARM_DRIVER_ERROR,
        "device %d was reset (cudaDeviceReset()) after the runtime used it: "
        "its memory and handles%s are lost, other devices are not affected; to "
        "use the device again, destroy the runtime and make a new one",
        device,
        context_of(d, WM_DEVICE_HOST) == device ? ", and all pinned memory,"
                                                : "");
}

warm_status wm_driver_check_lost(const wm_driver *d, int device)
{
    return wm_driver_is_lost(d, device) ? fail_lost(d, device) : WARM_OK;
}

void wm_driver_lose(wm_driver *d, int device)
{
    uint64_t bit = bit_of(device);

    if ((atomic_fetch_or_explicit(&d->lost, bit, memory_order_relaxed) & bit) !=
        0) {
        return;
    }
    if (d->on_lost != NULL) {
        d->on_lost(d->on_lost_context, device);
    }
    WM_KEEP_ERROR();
    (void)fail_lost(d, device);
    wm_log(WARM_LOG_WARNING, "%s", warm_last_error_message());
}

/* The device that an object of the driver belongs to. */
static int home_of(wm_driver *d, const void *object)
{
    return d->ops->home != NULL ? d->ops->home(d, object) : WM_DEVICE_UNKNOWN;
}

static int lost_home_of(wm_driver *d, const void *one, const void *other)
{
    int home = home_of(d, one);

    return wm_driver_is_lost(d, home) ? home : home_of(d, other);
}

#define WM_ON_NOTHING            WM_DEVICE_UNKNOWN
#define WM_ON_HOST               WM_DEVICE_HOST
#define WM_ON(object)            home_of(d, object)
#define WM_ON_EITHER(one, other) lost_home_of(d, one, other)

/* ---- calls --------------------------------------------------------------- */

/* OK unless the process exits or was forked; name: the call, for the message.
 */
static warm_status check(const wm_driver *d, const char *name)
{
    wm_assert(wm_lock_driver_call_allowed());
    if (wm_unlikely(wm_process_exiting())) {
        return wm_fail(WARM_EXITING, "%s: the process is exiting", name);
    }
    if (wm_unlikely(d->generation != wm_process_generation())) {
        return wm_fail(WARM_FORKED,
                       "%s: the runtime was made before this process was "
                       "forked; make a new one with device:host",
                       name);
    }
    return WARM_OK;
}

void wm_driver_break_begin(void)
{
    wm_thread_marks_now.breaks++;
}

void wm_driver_break_end(void)
{
    wm_assert(wm_thread_marks_now.breaks > 0);
    wm_thread_marks_now.breaks--;
}

bool wm_driver_may_break(const wm_driver *d)
{
    return !d->guarded || !d->breaks_captures || wm_thread_marks_now.breaks > 0;
}

static __attribute__((unused)) bool breaks(int call)
{
    return call == WM_CALL_pinned_free || call == WM_CALL_pinned_unregister ||
           call == WM_CALL_device_free || call == WM_CALL_device_synchronize ||
           call == WM_CALL_ipc_close || call == WM_CALL_range_decommit;
}

static warm_status call_begin(wm_driver *d, int call)
{
    wm_assert(!breaks(call) || wm_driver_may_break(d));
    wm_counter_add(&d->calls[call], 1);
    if (wm_unlikely(atomic_load_explicit(&d->armed, memory_order_relaxed))) {
        return injected(d, call);
    }
    return WARM_OK;
}

#define DEFINE(name, parameters, arguments, on)                                \
    warm_status wm_driver_##name parameters                                    \
    {                                                                          \
        WM_CANCEL_OFF();                                                       \
        warm_status status = check(d, #name);                                  \
                                                                               \
        if (status == WARM_OK && wm_driver_any_lost(d)) {                      \
            status = wm_driver_check_lost(d, on);                              \
        }                                                                      \
        if (status == WARM_OK) {                                               \
            status = call_begin(d, WM_CALL_##name);                            \
        }                                                                      \
        if (status == WARM_OK) {                                               \
            WM_USDT1(driver_call_begin, #name);                                \
            wm_range_begin(#name);                                             \
            status = d->ops->name arguments;                                   \
            wm_range_end();                                                    \
            WM_USDT2(driver_call_end, #name, (int)status);                     \
        }                                                                      \
        return status;                                                         \
    }
WM_DRIVER_CALLS(DEFINE)
#undef DEFINE

static void log_warning(wm_driver *d)
{
    /* Relaxed: see the field. */
    const char *text =
        wm_unlikely(atomic_load_explicit(&d->warning, memory_order_relaxed) !=
                    NULL)
            ? atomic_exchange_explicit(&d->warning, NULL, memory_order_relaxed)
            : NULL;

    if (text != NULL) {
        wm_log(WARM_LOG_WARNING, "%s", text);
    }
}

warm_status wm_driver_look_slow(wm_driver *d, int device)
{
    WM_CANCEL_OFF();
    warm_status status = check(d, "context");

    log_warning(d);
    if (status == WARM_OK) {
        status = d->ops->look(d, device);
    }
    return status;
}

bool wm_driver_capture_relaxed_begin(wm_driver *d, bool *mode)
{
    WM_KEEP_ERROR();
    *mode = true;
    return wm_driver_capture_mode(d, mode) == WARM_OK;
}

void wm_driver_capture_relaxed_end(wm_driver *d, bool *mode)
{
    WM_KEEP_ERROR();
    (void)wm_driver_capture_mode(d, mode);
}

warm_status wm_driver_stream_await(wm_driver *d, warm_stream stream)
{
    bool mode = true;
    warm_status status = wm_driver_capture_mode(d, &mode);

    if (status == WARM_OK) {
        status = wm_driver_stream_synchronize(d, stream);
        wm_driver_capture_relaxed_end(d, &mode);
    }
    return status;
}

warm_status wm_driver_event_await(wm_driver *d, warm_event event)
{
    bool mode = true;
    warm_status status = wm_driver_capture_mode(d, &mode);

    if (status == WARM_OK) {
        status = wm_driver_event_synchronize(d, event);
        wm_driver_capture_relaxed_end(d, &mode);
    }
    return status;
}

void wm_driver_init(wm_driver *d, const wm_driver_ops *ops, const char *name,
                    int devices)
{
    d->ops = ops;
    d->name = name;
    d->devices = devices;
    d->registers = d->register_locks = d->same_addresses = true;
    d->generation = wm_process_generation();
    wm_numa_init(&d->numa);
}

int wm_driver_device_node(const wm_driver *d, int device)
{
    int node = device < WM_NODE_DEVICES ? d->device_node[device] : 0;

    return wm_numa_usable(&d->numa, node) ? node : wm_numa_next(&d->numa, node);
}

void wm_driver_set_device_node(wm_driver *d, int device, int node)
{
    if (device < WM_NODE_DEVICES && wm_numa_usable(&d->numa, node)) {
        d->device_node[device] = (int8_t)node;
    }
}

/* Whether the driver may be called at all. */
static bool is_ours(const wm_driver *d)
{
    return !wm_process_exiting() && d->generation == wm_process_generation();
}

void wm_driver_notice_slow(wm_driver *d, int device)
{
    if (is_ours(d)) {
        WM_CANCEL_OFF();
        wm_assert(wm_lock_driver_call_allowed());
        log_warning(d);
        d->ops->notice(d, device);
    }
}

void wm_driver_drain(wm_driver *d)
{
    if (d->ops->drain != NULL && is_ours(d)) {
        WM_CANCEL_OFF();
        wm_assert(wm_lock_driver_call_allowed());
        d->ops->drain(d);
    }
}

uint64_t wm_driver_close(wm_driver *d)
{
    uint64_t dropped = 0;

    if (d != NULL && is_ours(d)) {
        WM_CANCEL_OFF();
        wm_numa_fini(&d->numa);
        d->ops->close(d, &dropped);
    }
    return dropped;
}

int wm_driver_call_index(const char *name)
{
    for (int i = 0; i < WM_CALLS; i++) {
        if (strcmp(call_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *wm_driver_call_name(int call)
{
    return call >= 0 && call < WM_CALLS ? call_names[call] : NULL;
}

void wm_driver_fail(wm_driver *d, int call, uint64_t n, bool persistent)
{
    atomic_store_explicit(&d->fail_on[call], persistent, memory_order_relaxed);
    atomic_store_explicit(&d->fail_in[call], (int64_t)n, memory_order_relaxed);
    atomic_store_explicit(&d->armed, true, memory_order_relaxed);
}
