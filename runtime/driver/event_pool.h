/* event_pool.h: idle events of every device, so that a free creates none.
 *
 * An event belongs to the device it was made for and never serves another
 * one. The last one put back is taken first. Takes WM_RANK_EVENTS, one lock a
 * device; calls the driver with no lock held, and only when nothing is idle.
 *
 *   take ──► idle? pop : driver creates       put ──► push (cannot fail: room
 *   trim ──► driver destroys what a burst left            was reserved by take)
 *
 * Invariant, per device: created = idle + out, and room for all of them. */
#ifndef WM_EVENT_POOL_H
#define WM_EVENT_POOL_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"

typedef struct wm_event_idle {
    wm_lock lock;      /* WM_RANK_EVENTS */
    warm_event *event; /* lock: the idle ones, last in first out */
    size_t room;       /* lock: how many the array can hold */
    size_t promised;   /* lock: created, or being created right now */
    size_t created;    /* lock: created and not destroyed */
    size_t idle;       /* lock */
    size_t named;      /* lock: threads between name() and unname() */
} wm_event_idle;

typedef struct wm_event_pool {
    wm_driver *driver;     /* const after init */
    int devices;           /* const after init */
    wm_event_idle *device; /* const pointer, one for each device */
} wm_event_pool;

typedef struct wm_event_counts {
    uint64_t created; /* by the driver, and not destroyed */
    uint64_t idle;
    uint64_t out; /* taken and not put back */
} wm_event_counts;

/* Makes an empty pool on driver, which must outlive it. Calls no driver.
 * Status: OUT_OF_MEMORY (nothing to undo). */
warm_status wm_event_pool_init(wm_event_pool *pool, wm_driver *driver);

/* Between name() and unname() no idle event of device is taken or destroyed:
 * the thread may pass one to the driver that was recorded before, and that its
 * owner puts back meanwhile, perhaps as lost. It stands for the same work. */
void wm_event_pool_name(wm_event_pool *pool, int device);
void wm_event_pool_unname(wm_event_pool *pool, int device);

/* Takes an event of device, created if none is idle. Any thread.
 * Status: OUT_OF_MEMORY, or event_create's, also for a lost device; the pool
 * is then as it was. */
warm_status wm_event_pool_take(wm_event_pool *pool, int device,
                               warm_event *event);

/* Puts back an event that was taken for the same device and that no thread will
 * query any more. Any thread; cannot fail and calls no driver. */
void wm_event_pool_put(wm_event_pool *pool, int device, warm_event event);

/* A trim leaves idle as many events as are out, plus this many. */
enum { WM_EVENTS_KEEP = 64 };

/* Destroys the surplus idle events of every device. Any thread. An event that
 * the driver fails to destroy is leaked. */
void wm_event_pool_trim(wm_event_pool *pool);

/* The counts of one moment. Any thread. */
void wm_event_pool_counts(wm_event_pool *pool, int device,
                          wm_event_counts *counts);

/* Destroys the idle events and ends the pool; no other thread is inside.
 * Returns how many events were not put back: they are left alone, and so are
 * those of a device that was reset. An event that the driver fails to destroy
 * (a forked child, for one) is leaked. */
uint64_t wm_event_pool_fini(wm_event_pool *pool);

#endif
