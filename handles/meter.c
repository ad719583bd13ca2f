/* meter.c: see meter.h. */
#include "handles/meter.h"

void wm_meter_init(wm_meter *meter, wm_driver *driver, int device)
{
    meter->driver = driver;
    meter->device = device;
    wm_lock_init(&meter->lock, WM_RANK_METER);
}

void wm_meter_fini(wm_meter *meter)
{
    wm_lock_fini(&meter->lock);
}

/* Free memory of the device, or 0. Asked only through device_info, which
 * answers 0 for a device that the program does not use yet and makes no
 * context there (row B13); a creation that makes the context is therefore
 * not measured. */
static uint64_t free_bytes(const wm_meter *meter)
{
    warm_device_info info = {.size = sizeof info};

    if (wm_driver_device_info(meter->driver, meter->device, &info) != WARM_OK) {
        return 0;
    }
    return info.free_bytes;
}

static void enter_locked(wm_meter *meter, const void *owner)
{
    if (meter->running++ == 0) {
        meter->number++;
        meter->owner = owner;
        meter->handles = 0;
        meter->spoilt = false;
        meter->begun = false;
    }
    meter->spoilt = meter->spoilt || owner == NULL || meter->owner != owner;
}

void wm_meter_begin(wm_meter *meter, const void *owner)
{
    uint64_t before;
    bool ask;

    wm_lock_acquire(&meter->lock);
    enter_locked(meter, owner);
    ask = !meter->begun && !meter->spoilt;
    wm_lock_release(&meter->lock);
    if (ask) {
        before = free_bytes(meter);
        wm_lock_acquire(&meter->lock);
        /* Whoever is told first: until then no handle is being made. */
        if (!meter->begun) {
            meter->before = before;
            meter->begun = true;
        }
        wm_lock_release(&meter->lock);
    }
}

/* Whether the measurement that ends here tells anything. */
static bool leave_locked(wm_meter *meter, bool made)
{
    meter->handles += made;
    return --meter->running == 0 && !meter->spoilt && meter->before > 0 &&
           meter->handles > 0;
}

bool wm_meter_end(wm_meter *meter, bool made, uint64_t *handles,
                  uint64_t *bytes)
{
    uint64_t number, before, after;
    bool told;

    wm_lock_acquire(&meter->lock);
    told = leave_locked(meter, made);
    number = meter->number;
    before = meter->before;
    *handles = meter->handles;
    wm_lock_release(&meter->lock);
    if (!told) {
        return false;
    }
    after = free_bytes(meter);
    wm_lock_acquire(&meter->lock);
    /* None has begun since: it would be in what was free after this one. */
    told = after > 0 && meter->number == number;
    wm_lock_release(&meter->lock);
    *bytes = before > after ? before - after : 0;
    return told;
}

void wm_meter_exclude_begin(wm_meter *meter)
{
    wm_lock_acquire(&meter->lock);
    enter_locked(meter, NULL);
    wm_lock_release(&meter->lock);
}

void wm_meter_exclude_end(wm_meter *meter)
{
    wm_lock_acquire(&meter->lock);
    meter->running--;
    wm_lock_release(&meter->lock);
}
