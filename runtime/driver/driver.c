/* driver.c: what is true of every driver call, written once. */
#include "runtime/driver/driver.h"

#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <string.h>

static const char *const call_names[WM_CALLS] = {
#define NAME(name, parameters, arguments) #name,
    WM_DRIVER_CALLS(NAME)
#undef NAME
};

/* Counts the call; whether it is one that fails. A fault that stays is never
 * taken away, not for a moment: another thread's call would pass. */
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
    if (call == WM_CALL_pinned_alloc || call == WM_CALL_pinned_register ||
        call == WM_CALL_device_alloc || call == WM_CALL_range_reserve ||
        call == WM_CALL_range_commit) {
        status = WARM_OUT_OF_MEMORY;
    }
    return wm_fail_code(status, d->name, -1, "injected fault",
                        "%s was made to fail by a test", call_names[call]);
}

static warm_status fail_reset(int device)
{
    return wm_fail(WARM_DRIVER_ERROR,
                   "device %d was reset (cudaDeviceReset()) after the runtime "
                   "used it: what the runtime has is lost; destroy it and make "
                   "a new one",
                   device);
}

warm_status wm_driver_fail_reset(wm_driver *d, int device)
{
    int none = 0;
    warm_status status = fail_reset(device);

    if (atomic_compare_exchange_strong_explicit(
            &d->was_reset, &none, device + 1, memory_order_relaxed,
            memory_order_relaxed)) {
        wm_log(WARM_LOG_WARNING, "%s", warm_last_error_message());
    }
    return status;
}

/* OK unless the process exits or was forked; name is the call's, for the words
 * of the failure. */
static warm_status check_process(const wm_driver *d, const char *name)
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

/* As that, and DRIVER_ERROR once a device was found to have been reset. */
static warm_status check(const wm_driver *d, const char *name)
{
    warm_status status = check_process(d, name);

    if (status == WARM_OK && wm_driver_was_reset(d)) {
        /* Relaxed: it changes no more. */
        status = fail_reset(
            atomic_load_explicit(&d->was_reset, memory_order_relaxed) - 1);
    }
    return status;
}

/* checked: what a check said. */
static warm_status call_begin(wm_driver *d, int call, warm_status checked)
{
    if (checked != WARM_OK) {
        return checked;
    }
    wm_counter_add(&d->calls[call], 1);
    if (wm_unlikely(atomic_load_explicit(&d->armed, memory_order_relaxed))) {
        return injected(d, call);
    }
    return WARM_OK;
}

#define DEFINE(name, parameters, arguments)                                    \
    warm_status wm_driver_##name parameters                                    \
    {                                                                          \
        int cancel = wm_cancel_off();                                          \
        warm_status status = call_begin(d, WM_CALL_##name, check(d, #name));   \
                                                                               \
        if (status == WARM_OK) {                                               \
            status = d->ops->name arguments;                                   \
        }                                                                      \
        wm_cancel_restore(cancel);                                             \
        return status;                                                         \
    }
WM_DRIVER_CALLS(DEFINE)
#undef DEFINE

warm_status wm_driver_look_slow(wm_driver *d, int device)
{
    int cancel = wm_cancel_off();
    warm_status status = check(d, "context");

    if (status == WARM_OK) {
        status = d->ops->look(d, device);
    }
    wm_cancel_restore(cancel);
    return status;
}

void wm_driver_notice_reset(wm_driver *d)
{
    warm_error before = {.size = sizeof before};

    warm_last_error(&before);
    if (wm_driver_look(d, WM_DEVICE_UNKNOWN) != WARM_OK) {
        wm_error_restore(&before);
    }
}

bool wm_driver_relax(wm_driver *d, bool *mode)
{
    warm_error before = {.size = sizeof before};
    bool done;

    *mode = true;
    warm_last_error(&before);
    done = wm_driver_capture_mode(d, mode) == WARM_OK;
    if (!done) {
        wm_error_restore(&before);
    }
    return done;
}

/* After a reset as well, or the thread would stay relaxed for ever: the mode is
 * the thread's, not a context's. */
void wm_driver_unrelax(wm_driver *d, bool *mode)
{
    int cancel = wm_cancel_off();
    warm_error before = {.size = sizeof before};
    warm_status status;

    warm_last_error(&before);
    status = call_begin(d, WM_CALL_capture_mode,
                        check_process(d, call_names[WM_CALL_capture_mode]));
    if (status == WARM_OK) {
        status = d->ops->capture_mode(d, mode);
    }
    if (status != WARM_OK) {
        wm_error_restore(&before);
    }
    wm_cancel_restore(cancel);
}

warm_status wm_driver_stream_await(wm_driver *d, warm_stream stream)
{
    bool mode = true;
    warm_status status = wm_driver_capture_mode(d, &mode);

    if (status == WARM_OK) {
        status = wm_driver_stream_synchronize(d, stream);
        wm_driver_unrelax(d, &mode);
    }
    return status;
}

warm_status wm_driver_event_await(wm_driver *d, warm_event event)
{
    bool mode = true;
    warm_status status = wm_driver_capture_mode(d, &mode);

    if (status == WARM_OK) {
        status = wm_driver_event_synchronize(d, event);
        wm_driver_unrelax(d, &mode);
    }
    return status;
}

void wm_driver_init(wm_driver *d, const wm_driver_ops *ops, const char *name,
                    int devices)
{
    d->ops = ops;
    d->name = name;
    d->devices = devices;
    d->register_locks = true;
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

/* Whether it may be called at all. */
static bool is_ours(const wm_driver *d)
{
    return !wm_process_exiting() && d->generation == wm_process_generation();
}

void wm_driver_drain(wm_driver *d)
{
    if (d->ops->drain != NULL && is_ours(d)) {
        int cancel = wm_cancel_off();

        wm_assert(wm_lock_driver_call_allowed());
        d->ops->drain(d);
        wm_cancel_restore(cancel);
    }
}

uint64_t wm_driver_close(wm_driver *d)
{
    uint64_t dropped = 0;

    if (d != NULL && is_ours(d)) {
        int cancel = wm_cancel_off();

        wm_numa_fini(&d->numa);
        d->ops->close(d, &dropped);
        wm_cancel_restore(cancel);
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
