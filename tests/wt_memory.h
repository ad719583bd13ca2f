/* wt_memory.h: a runtime on the host device whose page-locking calls a test can
 * stop, and make fail above a size. Include it once in a program. */
#ifndef WT_MEMORY_H
#define WT_MEMORY_H

#include "wt.h"

#include "alloc/kinds/pinned.h"
#include "runtime/base/status.h"
#include "runtime/runtime.h"

#include <sched.h>

#define MIB ((size_t)1 << 20)

static struct {
    warm_runtime *runtime;
    wm_driver_ops ops;
    const wm_driver_ops *real;
    _Atomic bool closed;     /* the next pinned_alloc waits in the driver */
    _Atomic bool inside;     /* one waits; other calls do not */
    _Atomic bool breaks;     /* the call that waited fails */
    _Atomic size_t refusing; /* larger calls fail; 0: none do */
    _Atomic uint64_t refused;
    _Atomic size_t largest;              /* bytes of a call */
    _Atomic uint64_t obtained, returned; /* regions */
} wt_memory;

static inline bool wt_flag(_Atomic bool *value)
{
    return atomic_load_explicit(value, memory_order_acquire);
}

static inline void wt_set(_Atomic bool *value, bool to)
{
    atomic_store_explicit(value, to, memory_order_release);
}

static inline void wt_await(_Atomic bool *value)
{
    while (!wt_flag(value)) {
        sched_yield();
    }
}

static inline warm_status wt_memory_refuse(size_t bytes)
{
    atomic_fetch_add_explicit(&wt_memory.refused, 1, memory_order_relaxed);
    return wm_fail(WARM_OUT_OF_MEMORY, "%zu bytes are too much", bytes);
}

static inline warm_status wt_memory_count(warm_status status,
                                          _Atomic uint64_t *count)
{
    if (status == WARM_OK) {
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    }
    return status;
}

static inline warm_status wt_memory_alloc(wm_driver *d, size_t bytes,
                                          void **pointer)
{
    size_t most;

    if (bytes >
        atomic_load_explicit(&wt_memory.largest, memory_order_relaxed)) {
        atomic_store_explicit(&wt_memory.largest, bytes, memory_order_relaxed);
    }
    if (wt_flag(&wt_memory.closed) &&
        !atomic_exchange_explicit(&wt_memory.inside, true,
                                  memory_order_acq_rel)) {
        while (wt_flag(&wt_memory.closed)) {
            sched_yield();
        }
        wt_set(&wt_memory.inside, false);
        if (wt_flag(&wt_memory.breaks)) {
            return wt_memory_refuse(bytes);
        }
    }
    most = atomic_load_explicit(&wt_memory.refusing, memory_order_relaxed);
    if (most != 0 && bytes > most) {
        return wt_memory_refuse(bytes);
    }
    return wt_memory_count(wt_memory.real->pinned_alloc(d, bytes, pointer),
                           &wt_memory.obtained);
}

static inline warm_status wt_memory_free(wm_driver *d, void *pointer,
                                         size_t bytes)
{
    return wt_memory_count(wt_memory.real->pinned_free(d, pointer, bytes),
                           &wt_memory.returned);
}

/* Creates the runtime. The driver's ops are replaced before a thread of the
 * runtime can call one. options: may be null. */
static inline warm_runtime *wt_memory_begin(const warm_options *options)
{
    warm_options given = {.size = sizeof given};
    wm_options all;
    wm_driver *driver = NULL;

    if (options != NULL) {
        given = *options;
        given.size = sizeof given;
    }
    given.test = wt_test(&given);
    wt_ok(wm_options_resolve(&given, NULL, &all));
    wt_ok(wm_host_open(&all, &driver));
    wt_memory.obtained = wt_memory.returned = 0;
    wt_memory.largest = 0;
    wt_memory.real = driver->ops;
    wt_memory.ops = *wt_memory.real;
    wt_memory.ops.pinned_alloc = wt_memory_alloc;
    wt_memory.ops.pinned_free = wt_memory_free;
    driver->ops = &wt_memory.ops;
    wt_ok(wm_runtime_create_on(driver, &given, &wt_memory.runtime));
    return wt_memory.runtime;
}

static inline wm_space *wt_memory_space(void)
{
    return &wt_memory.runtime->pinned->space;
}

static inline warm_space_stats wt_memory_stats(void)
{
    return wt_pinned_stats(wt_memory.runtime);
}

static inline uint64_t wt_memory_calls(const char *call)
{
    return wt_calls(wt_memory.runtime, call);
}

static inline void *wt_memory_take(size_t bytes)
{
    return wt_pinned(wt_memory.runtime, bytes);
}

/* Waits until no growth call is registered: memory can be allocated a moment
 * before the thread that obtained it removes its call from the list. A call
 * that never ends makes the test time out. */
static inline void wt_memory_settle(void)
{
    wm_growth *growth = &wt_memory_space()->growth;
    bool busy;

    do {
        sched_yield();
        wm_lock_acquire(&growth->lock);
        busy = growth->calls != NULL;
        wm_lock_release(&growth->lock);
    } while (busy);
}

/* The background thread may obtain the reserve again at any time: then no
 * figure stands still. */
static inline void wt_memory_end(void)
{
    wm_space *space = wt_memory_space();
    bool refills = space->background.on && space->background.reserve_bytes != 0;

    wt_memory_settle();
    wt_ok(warm_testing_check(wt_memory.runtime, !space->background.on));
    if (!refills) {
        ck_assert_uint_eq(space->growth.coming, 0);
        /* Else a region is in no segment. */
        ck_assert_uint_eq(wt_memory.obtained - wt_memory.returned,
                          wt_memory_stats().segments.current);
    }
    wt_runtime_end(wt_memory.runtime);
    wt_memory.closed = wt_memory.inside = wt_memory.breaks = false;
    wt_memory.refusing = 0;
}

#endif
