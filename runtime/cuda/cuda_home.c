/* cuda_home.c: the device of every object that the driver made.
 *
 * After a reset CUDA must not be called with an object of that device, not even
 * to ask for its device; so the table is kept here. Objects that are not in it
 * were made by the program, or there was no memory for an entry. One lock,
 * taken when an object is made or destroyed and, once a device is lost, by
 * calls that name an object. */
#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA
/* The map's values are 1 + the device. */
static int device_of(const void *value)
{
    return value != NULL ? (int)(uintptr_t)value - 1 : WM_DEVICE_UNKNOWN;
}

void wm_cuda_homes_init(wm_cuda_homes *homes)
{
    wm_lock_init(&homes->lock, WM_RANK_DRIVER);
}

void wm_cuda_homes_fini(wm_cuda_homes *homes)
{
    wm_map_fini(&homes->devices);
    wm_lock_fini(&homes->lock);
}

void wm_cuda_note_made(wm_cuda *c, const void *object, int device)
{
    wm_map *devices = &c->homes.devices;
    void *value = (void *)(uintptr_t)(unsigned)(device + 1);
    wm_map_entry *known;

    wm_lock_acquire(&c->homes.lock);
    known = wm_map_find(devices, (uintptr_t)object);
    if (known != NULL) {
        known->value = value;
    } else if (wm_map_reserve(devices, devices->count + 1)) {
        wm_map_put(devices, (uintptr_t)object, value);
    }
    wm_lock_release(&c->homes.lock);
}

int wm_cuda_note_gone(wm_cuda *c, const void *object)
{
    void *value;

    wm_lock_acquire(&c->homes.lock);
    value = wm_map_take(&c->homes.devices, (uintptr_t)object);
    wm_map_shrink(&c->homes.devices);
    wm_lock_release(&c->homes.lock);
    return device_of(value);
}

int wm_cuda_home(wm_driver *d, const void *object)
{
    wm_cuda *c = wm_cuda_of(d);
    void *value;

    wm_lock_acquire(&c->homes.lock);
    value = wm_map_get(&c->homes.devices, (uintptr_t)object);
    wm_lock_release(&c->homes.lock);
    return device_of(value);
}
#endif
