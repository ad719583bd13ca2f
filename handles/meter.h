/* meter.h: device memory that creations of handles take (row A14).
 *
 * A device says how much memory is free, not who took it. What was free before
 * a creation and is not after it is counted for its pool if no creation of
 * another kind ran on the device in between; several of one kind at once are
 * measured together, from the beginning of the first to the end of the last.
 *
 *   first ──────────────►                one measurement: three handles
 *     second ─────►
 *          third ────────────────►
 *
 * One meter a device. Locks WM_RANK_METER for a few lines; the driver is asked
 * outside of it, once or twice for a creation, and nobody waits for anybody. */
#ifndef WM_METER_H
#define WM_METER_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"

typedef struct wm_meter {
    wm_driver *driver; /* const */
    int device;        /* const */
    wm_lock lock;
    const void *owner; /* lock meter: whose creations, of this measurement */
    uint64_t number;   /* lock meter: of the measurement, or of the last */
    uint64_t before;   /* lock meter: bytes free at its beginning; 0: unknown */
    uint64_t handles;  /* lock meter: made in it */
    unsigned running;  /* lock meter: creations under way */
    bool spoilt, begun; /* lock meter: tells nothing; before was asked for */
} wm_meter;

void wm_meter_init(wm_meter *meter, wm_driver *driver, int device);
void wm_meter_fini(wm_meter *meter);

/* A creation for owner, which is not null, begins. Cannot fail. */
void wm_meter_begin(wm_meter *meter, const void *owner);

/* It ends, with a handle or without. True if that was a measurement: *handles
 * took *bytes, of which this handle is the last. */
bool wm_meter_end(wm_meter *meter, bool made, uint64_t *handles,
                  uint64_t *bytes);

/* Around what gives device memory back: nothing is measured beside it. */
void wm_meter_exclude_begin(wm_meter *meter);
void wm_meter_exclude_end(wm_meter *meter);

#endif
