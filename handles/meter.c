/* meter.c: free memory before and after creations (meter.h). */
#include "handles/meter.h"

void wm_meter_init(wm_meter *meter, wm_driver *driver, int device)
{
    meter->driver = driver;
    meter->device = device;
    wm_lock_init(&meter->lock, WM_RANK_METER);
}

/* Free memory of the device, or 0. device_info returns 0 for a device that the
 * program does not use yet and makes no context there (row B13); a creation
 * that makes the context is therefore not measured. */
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
        meter->mixed = false;
        meter->before_read = false;
    }
    meter->mixed = meter->mixed || owner == NULL || meter->owner != owner;
}

void wm_meter_begin(wm_meter *meter, const void *owner)
{
    uint64_t before;
    bool ask;

    wm_lock_acquire(&meter->lock);
    enter_locked(meter, owner);
    ask = !meter->before_read && !meter->mixed;
    wm_lock_release(&meter->lock);
    if (ask) {
        before = free_bytes(meter);
        wm_lock_acquire(&meter->lock);
        /* The first value is stored: no thread creates a handle before a value
         * is stored. */
        if (!meter->before_read) {
            meter->free_before = before;
            meter->before_read = true;
        }
        wm_lock_release(&meter->lock);
    }
}

/* Whether a valid measurement ends here. */
static bool leave_locked(wm_meter *meter, bool made)
{
    meter->handles += made;
    return --meter->running == 0 && !meter->mixed && meter->free_before > 0 &&
           meter->handles > 0;
}

bool wm_meter_end(wm_meter *meter, bool made, uint64_t *handles,
                  uint64_t *bytes)
{
    uint64_t number, before, after;
    bool valid;

    wm_lock_acquire(&meter->lock);
    valid = leave_locked(meter, made);
    number = meter->number;
    before = meter->free_before;
    *handles = meter->handles;
    wm_lock_release(&meter->lock);
    if (!valid) {
        return false;
    }
    after = free_bytes(meter);
    wm_lock_acquire(&meter->lock);
    /* A measurement that started since would be part of `after`. */
    valid = after > 0 && meter->number == number;
    wm_lock_release(&meter->lock);
    *bytes = before > after ? before - after : 0;
    return valid;
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
