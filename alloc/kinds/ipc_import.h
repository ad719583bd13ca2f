/* ipc_import.h: memory of other processes, mapped once each (row C9).
 *
 *   imports ─► mapping of a segment ◄─ block in it, opened n times
 *      │            └─► …                  ▲
 *      └────────────────── by address ─────┘
 *
 * A mapping is busy while a thread is with the driver for it, to open or to
 * close it; whoever wants it waits, and looks again. The page map says of its
 * pages that they are imported, so that who takes them for blocks is told.
 * The list of segments is walked: they are few. Lock imports is never held
 * across the driver. */
#ifndef WM_IPC_IMPORT_H
#define WM_IPC_IMPORT_H

#include "runtime/base/lock.h"
#include "runtime/base/map.h"
#include "runtime/driver/driver.h"
#include "warmpool/ipc.h"

struct wm_mapping;

/* Those of one device. */
typedef struct wm_imports {
    wm_driver *driver; /* const */
    int device;        /* const */
    /* What knows of captures. Const; null: nothing is ever captured. */
    struct wm_timelines *timelines;
    wm_lock lock;
    wm_cond settled; /* a mapping is busy no more */
    struct wm_mapping *mappings;
    wm_map openings; /* lock imports: open blocks, by address */
    size_t promised; /* lock imports: of them, with room and not in it yet */
} wm_imports;

void wm_imports_init(wm_imports *imports, wm_driver *driver, int device);
void wm_imports_fini(wm_imports *imports);

/* handle: checked, of this device and another process.
 * Status: OUT_OF_MEMORY, and the driver's; nothing has changed then. */
warm_status wm_imports_open(wm_imports *imports, const warm_ipc_handle *handle,
                            void **pointer);

/* NOT_FOUND, and no error left: pointer is not open here. Else the driver's
 * status, with all as before. While a stream of the device captures, what is
 * closed stays mapped until somebody opens it again, or
 * wm_imports_captures_over(), which the runtime is told to call. */
warm_status wm_imports_close(wm_imports *imports, const void *pointer);

/* Unmaps what was put off, unless there is another capture: false. */
bool wm_imports_captures_over(wm_imports *imports);

/* Closes everything; nobody is inside. Returns what was opened. */
uint64_t wm_imports_stop(wm_imports *imports);

/* Adds its own to the figures. */
void wm_imports_add_stats(wm_imports *imports, warm_ipc_stats *stats);

#endif
