/* meter.h: measures the device memory that creating handles takes (row A14).
 *
 * The driver reports how much memory is free, not which call allocated it. The
 * drop of free memory during a creation is counted for the handle's pool if no
 * creation of another kind ran on the device at the same time. Overlapping
 * creations of one kind are one measurement, from the start of the first to the
 * end of the last.
 *
 *   first ──────────────►                one measurement: three handles
 *     second ─────►
 *          third ────────────────►
 *
 * One meter per device. Takes lock meter for a few lines; queries the driver
 * outside of it, once or twice per creation. No thread waits for another. */
#ifndef WM_METER_H
#define WM_METER_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"

typedef struct wm_meter {
    wm_driver *driver; /* const */
    int device;        /* const */
    wm_lock lock;
    const void *owner;    /* lock meter: the pool that is measured */
    uint64_t number;      /* lock meter: of the current or last measurement */
    uint64_t free_before; /* lock meter: bytes free at its start; 0: unknown */
    uint64_t handles;     /* lock meter: created in it */
    unsigned running;     /* lock meter: creations in flight */
    bool mixed;       /* lock meter: creations of several pools: discard it */
    bool before_read; /* lock meter: free_before is set */
} wm_meter;

void wm_meter_init(wm_meter *meter, wm_driver *driver, int device);

/* Starts a creation for owner, not null. Cannot fail. */
void wm_meter_begin(wm_meter *meter, const void *owner);

/* Ends a creation; made: it created a handle. True if this ends a valid
 * measurement: *handles handles took *bytes. */
bool wm_meter_end(wm_meter *meter, bool made, uint64_t *handles,
                  uint64_t *bytes);

/* Bracket a call that frees device memory: overlapping measurements are
 * discarded. */
void wm_meter_exclude_begin(wm_meter *meter);
void wm_meter_exclude_end(wm_meter *meter);

#endif
