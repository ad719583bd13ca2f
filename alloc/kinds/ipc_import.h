/* ipc_import.h: memory of other processes, each segment mapped once (row C9).
 *
 *   imports ─► mapping of a segment ◄─ block in it, opened n times
 *      │            └─► …                  ▲
 *      └────────────────── by pointer ─────┘
 *
 * A mapping is busy while a thread maps or unmaps it; other threads wait, and
 * look it up again. The page map marks its pages as imported, so that the
 * functions of blocks refuse them with a reason. The list of mappings is
 * searched in order: they are few. Lock imports is never held across a driver
 * call. */
#ifndef WM_IPC_IMPORT_H
#define WM_IPC_IMPORT_H

#include "runtime/base/lock.h"
#include "runtime/base/map.h"
#include "runtime/driver/driver.h"
#include "warmpool/ipc.h"

struct wm_mapping;

/* The imports of one device. */
typedef struct wm_imports {
    wm_driver *driver;              /* const */
    int device;                     /* const */
    struct wm_timelines *timelines; /* const; null: nothing is ever captured */
    wm_lock lock;
    wm_cond settled; /* a mapping is no longer busy */
    struct wm_mapping *mappings;
    wm_map openings; /* lock imports: open blocks, by address */
    size_t promised; /* lock imports: slots reserved in it */
} wm_imports;

void wm_imports_init(wm_imports *imports, wm_driver *driver, int device);
void wm_imports_fini(wm_imports *imports);

/* handle: checked, of this device and another process.
 * Status: OUT_OF_MEMORY, and the driver's; nothing has changed then. */
warm_status wm_imports_open(wm_imports *imports, const warm_ipc_handle *handle,
                            void **pointer);

/* Status: NOT_FOUND, without a message: pointer is not open on this device; or
 * the driver's, and nothing has changed. While a stream of the device captures,
 * a closed segment stays mapped until it is opened again, or until
 * wm_imports_captures_over(). */
warm_status wm_imports_close(wm_imports *imports, const void *pointer);

/* Unmaps the segments that were closed during a capture. False: there is
 * another capture. */
bool wm_imports_captures_over(wm_imports *imports);

/* Closes all openings; no other thread uses the imports. Returns the openings
 * closed. */
uint64_t wm_imports_stop(wm_imports *imports);

/* Adds this device's figures to *stats. */
void wm_imports_add_stats(wm_imports *imports, warm_ipc_stats *stats);

#endif
