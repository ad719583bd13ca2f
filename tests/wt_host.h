/* wt_host.h: a bare host device for unit tests, without a runtime.
 *
 * Every test runs in a process of its own (Check forks), and ends with
 * wt_host_close(), which checks that no record is left. */
#ifndef WT_HOST_H
#define WT_HOST_H

#include "wt.h"

#include "runtime/base/meta.h"
#include "runtime/host/host.h"

/* Sanitizers replace mlock by nothing. */
#define WT_MLOCK_WORKS (!WT_TSAN && !WT_ASAN)

static inline wm_driver *wt_host_open(unsigned devices, uint64_t memory)
{
    warm_options given = {
        .size = sizeof given, .host_devices = devices, .host_memory = memory};
    wm_driver *d = NULL;
    wm_options o;

    wt_ok(wm_options_resolve(&given, NULL, &o));
    wt_ok(wm_host_open(&o, &d));
    return d;
}

/* Closes the device. dropped: how many held streams must have had work. */
static inline void wt_host_close(wm_driver *d, uint64_t dropped)
{
    ck_assert_uint_eq(wm_driver_close(d), dropped);
    ck_assert_int_eq(wm_meta_live(), 0);
}

static inline warm_stream wt_host_stream(wm_driver *d, int device)
{
    warm_stream stream = NULL;

    wt_ok(wm_driver_stream_create(d, device, &stream));
    return stream;
}

static inline warm_event wt_host_event(wm_driver *d, int device)
{
    warm_event event = NULL;

    wt_ok(wm_driver_event_create(d, device, &event));
    return event;
}

static inline void wt_hold(wm_driver *d, warm_stream stream)
{
    wt_ok(d->ops->control(d, stream, WM_CONTROL_HOLD));
}

static inline void wt_step(wm_driver *d, warm_stream stream, unsigned count)
{
    wt_ok(d->ops->control(d, stream, count));
}

static inline void wt_resume(wm_driver *d, warm_stream stream)
{
    wt_ok(d->ops->control(d, stream, WM_CONTROL_RESUME));
}

/* A log of the order in which host functions ran. */
typedef struct wt_order {
    pthread_mutex_t mutex;
    unsigned count;
    int value[256];
} wt_order;

typedef struct wt_note {
    wt_order *order;
    int value;
} wt_note;

static inline void wt_note_run(void *argument)
{
    wt_note *note = argument;
    wt_order *order = note->order;

    pthread_mutex_lock(&order->mutex);
    if (order->count < 256) {
        order->value[order->count++] = note->value;
    }
    pthread_mutex_unlock(&order->mutex);
}

static inline void wt_post(wm_driver *d, warm_stream stream, wt_note *note)
{
    wt_ok(wm_driver_host_func(d, stream, wt_note_run, note));
}

static inline unsigned wt_order_count(wt_order *order)
{
    unsigned count;

    pthread_mutex_lock(&order->mutex);
    count = order->count;
    pthread_mutex_unlock(&order->mutex);
    return count;
}

/* Asserts that the last error came from the host device, with that code. */
static inline void wt_host_error(int code)
{
    warm_error error = {.size = sizeof error};

    warm_last_error(&error);
    ck_assert_str_eq(error.origin, "host");
    ck_assert_int_eq(error.code, code);
    ck_assert_str_ne(error.code_text, "");
    ck_assert_str_ne(error.message, "");
}

#endif
