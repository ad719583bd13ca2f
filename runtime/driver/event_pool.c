/* event_pool.c: see event_pool.h. */
#include "runtime/driver/event_pool.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

enum { FIRST_ROOM = 64, DESTROYED_AT_ONCE = 32 };

warm_status wm_event_pool_init(wm_event_pool *pool, wm_driver *driver)
{
    size_t devices = (size_t)driver->devices;
    wm_event_idle *device = wm_meta_alloc(devices * sizeof *device);

    if (device == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a pool of events");
    }
    for (size_t i = 0; i < devices; i++) {
        wm_lock_init(&device[i].lock, WM_RANK_EVENTS);
    }
    pool->driver = driver;
    pool->devices = driver->devices;
    pool->device = device;
    return WARM_OK;
}

/* Makes room for every event that exists or is being created, so that a put
 * always has a place. */
static bool promise_locked(wm_event_idle *d)
{
    if (d->promised == d->room) {
        size_t room = d->room > 0 ? d->room * 2 : FIRST_ROOM;
        warm_event *event = wm_meta_grow(d->event, d->idle * sizeof(warm_event),
                                         room * sizeof(warm_event));

        if (event == NULL) {
            return false;
        }
        d->event = event;
        d->room = room;
    }
    d->promised++;
    return true;
}

static warm_status create(wm_event_pool *pool, int device, warm_event *event)
{
    wm_event_idle *d = &pool->device[device];
    bool mode;
    bool relaxed = wm_driver_capture_relaxed_begin(pool->driver, &mode);
    warm_status status = wm_driver_event_create(pool->driver, device, event);

    if (relaxed) {
        wm_driver_capture_relaxed_end(pool->driver, &mode);
    }
    wm_lock_acquire(&d->lock);
    if (status == WARM_OK) {
        d->created++;
    } else {
        d->promised--;
    }
    wm_lock_release(&d->lock);
    return status;
}

warm_status wm_event_pool_take(wm_event_pool *pool, int device,
                               warm_event *event)
{
    wm_event_idle *d = &pool->device[device];
    warm_status status = wm_driver_check_lost(pool->driver, device);
    bool found = false;
    bool promised = false;

    wm_assert(device >= 0 && device < pool->devices);
    if (status != WARM_OK) { /* the idle events are lost too */
        return status;
    }
    wm_lock_acquire(&d->lock);
    if (d->idle > 0 && d->named == 0) {
        *event = d->event[--d->idle];
        found = true;
    } else {
        promised = promise_locked(d);
    }
    wm_lock_release(&d->lock);
    if (found) {
        return WARM_OK;
    }
    if (!promised) {
        return wm_fail(WARM_OUT_OF_MEMORY,
                       "no memory for another event of device %d", device);
    }
    return create(pool, device, event);
}

void wm_event_pool_put(wm_event_pool *pool, int device, warm_event event)
{
    wm_event_idle *d = &pool->device[device];

    wm_assert(device >= 0 && device < pool->devices);
    wm_lock_acquire(&d->lock);
    wm_assert(d->idle < d->created && d->idle < d->room);
    d->event[d->idle++] = event;
    wm_lock_release(&d->lock);
}

static void change_named(wm_event_pool *pool, int device, int change)
{
    wm_event_idle *d = &pool->device[device];

    wm_lock_acquire(&d->lock);
    d->named += (size_t)change; /* -1 wraps */
    wm_lock_release(&d->lock);
}

void wm_event_pool_name(wm_event_pool *pool, int device)
{
    change_named(pool, device, 1);
}

void wm_event_pool_unname(wm_event_pool *pool, int device)
{
    change_named(pool, device, -1);
}

/* Destroys surplus idle events, DESTROYED_AT_ONCE at most; returns how many. */
static unsigned destroy_some(wm_event_pool *pool, wm_event_idle *d)
{
    warm_event picked[DESTROYED_AT_ONCE];
    unsigned count = 0;
    bool mode, relaxed;

    wm_lock_acquire(&d->lock);
    while (count < DESTROYED_AT_ONCE && d->named == 0 &&
           d->idle > d->created - d->idle + WM_EVENTS_KEEP) {
        picked[count++] = d->event[--d->idle];
        d->created--;
        d->promised--;
    }
    wm_lock_release(&d->lock);
    if (count == 0) {
        return 0;
    }
    relaxed = wm_driver_capture_relaxed_begin(pool->driver, &mode);
    for (unsigned i = 0; i < count; i++) {
        wm_driver_event_destroy(pool->driver, picked[i]);
    }
    if (relaxed) {
        wm_driver_capture_relaxed_end(pool->driver, &mode);
    }
    return count;
}

void wm_event_pool_trim(wm_event_pool *pool)
{
    WM_KEEP_ERROR();
    for (int i = 0; i < pool->devices; i++) {
        while (destroy_some(pool, &pool->device[i]) == DESTROYED_AT_ONCE) {
        }
    }
}

void wm_event_pool_counts(wm_event_pool *pool, int device,
                          wm_event_counts *counts)
{
    wm_event_idle *d = &pool->device[device];

    wm_lock_acquire(&d->lock);
    counts->created = d->created;
    counts->idle = d->idle;
    counts->out = d->created - d->idle;
    wm_lock_release(&d->lock);
}

uint64_t wm_event_pool_fini(wm_event_pool *pool)
{
    uint64_t out = 0;

    for (int i = 0; i < pool->devices; i++) {
        wm_event_idle *d = &pool->device[i];

        out += d->created - d->idle;
        for (size_t k = 0; k < d->idle && !wm_driver_is_lost(pool->driver, i);
             k++) {
            wm_driver_event_destroy(pool->driver, d->event[k]);
        }
        wm_meta_free(d->event);
    }
    wm_meta_free(pool->device);
    *pool = (wm_event_pool){0};
    return out;
}
