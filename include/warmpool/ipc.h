/* warmpool/ipc.h: device memory shared with other processes.
 *
 *   this process                            another one, on the same device
 *   warm_device_alloc ─► block
 *   work that fills it has finished
 *   warm_ipc_export ─► handle ── pipe, file ──► warm_ipc_open ─► pointer
 *        …                                      work on it has finished
 *   warm_free ◄── "I have closed it" ────────── warm_ipc_close
 *
 * A handle is plain bytes, to be sent in any way. What is shared is the whole
 * segment that the block lies in (warm_device_base_allocation()), for reading
 * and writing: processes that share memory trust each other. The one that
 * opens maps a segment once, however many blocks of it come, and unmaps it
 * when the last one is closed.
 *
 * Who exports a block keeps it: its segment stays where it is as long as any
 * block in it lives. Freeing the block says that no other process has it open
 * any more, as cudaFree() of exported memory does in CUDA; it may be handed
 * out again at once then, and its segment may go back to the driver. The
 * processes agree on that by whatever they talk through; one that has ended
 * has closed all it had open. Streams and events do not reach over: what is
 * queued here is waited for before the other side is told.
 *
 * On the host device memory is shared by /proc: both processes see each other
 * there and run as the same user. Any thread may call any function. Common
 * status: INVALID_ARGUMENT (null), RUNTIME_GONE, FORKED, EXITING, DRIVER_ERROR.
 */
#ifndef WARMPOOL_IPC_H
#define WARMPOOL_IPC_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Only size is set by programs, before the export; bytes may be read, the rest
 * is the library's. */
typedef struct warm_ipc_handle {
    size_t size;     /* sizeof(warm_ipc_handle) */
    uint64_t bytes;  /* from the pointer that was exported to the end of
                        its block */
    uint64_t offset; /* of that pointer in its segment */
    uint64_t segment_bytes;
    uint64_t process, pid;   /* which exported it: a number of its own, and its
                                operating system's */
    uint64_t segment_number; /* what process knows the segment by */
    uint8_t device[16];      /* which it is of, in every process */
    uint8_t segment[64];     /* the driver's own handle, perhaps of other bytes
                                each time */
    uint64_t check;          /* of all before it, against damage on the way */
} warm_ipc_handle;

/* Makes a handle of a pointer into a live block of warm_device_alloc().
 * handle: size set. Two of the same block name the same memory, though their
 * bytes may differ: CUDA does not promise that they are the same.
 * Status: NOT_FOUND (not part of a live block of a device, which pinned and
 * uncached memory is not), INVALID_ARGUMENT (size). Calls the driver, which may
 * not be able to share: DRIVER_ERROR; UNSUPPORTED: memory of option
 * expandable_segments cannot be. */
WARM_API warm_status warm_ipc_export(const void *pointer,
                                     warm_ipc_handle *handle);

/* Opens what another process has exported, on the same device, whatever its
 * number is here.
 * pointer: of the place that was exported; ended with warm_ipc_close(), as
 * often as it was opened. It is no block: warm_free() and
 * warm_record_stream() refuse it, and copies may be given it.
 * Status: INVALID_ARGUMENT (size, a damaged handle, or one that this very
 * process exported: it has the pointer; CUDA would refuse), UNAVAILABLE (no
 * such device in this runtime; no such memory: the other process has ended, has
 * freed it, or may not be looked into), OUT_OF_MEMORY, DRIVER_ERROR,
 * UNSUPPORTED (mapped above 48 bits of address, or at no page's start). Nothing
 * has changed then. The first of a segment calls the driver, those that come
 * meanwhile wait for it. */
WARM_API warm_status warm_ipc_open(warm_runtime *runtime,
                                   const warm_ipc_handle *handle,
                                   void **pointer);

/* Closes what was opened once; the last of a segment unmaps it.
 * pointer: as it was given; the work of this process that uses it has finished.
 * Null does nothing.
 * Status: INVALID_POINTER (not open in this runtime, or closed already),
 * DRIVER_ERROR (it is still open, and may be closed again). */
WARM_API warm_status warm_ipc_close(warm_runtime *runtime, void *pointer);

/* Memory of other processes that is open, on all devices of a runtime.
 * Destroying the runtime closes it, and reports it
 * (warm_destroy_report.imports). */
/* name, unit, meaning; of type uint64_t */
#define WARM_IPC_COUNT_MAP(X)                                                  \
    X(segments, "segments", "segments of other processes mapped here")         \
    X(bytes, "bytes", "bytes of those")                                        \
    X(opened, "calls", "openings of blocks in those, to be closed")

typedef struct warm_ipc_stats {
    size_t size; /* sizeof(warm_ipc_stats) */
#define WARM_IPC_COUNT_FIELD(name, unit, meaning) uint64_t name;
    WARM_IPC_COUNT_MAP(WARM_IPC_COUNT_FIELD)
#undef WARM_IPC_COUNT_FIELD
} warm_ipc_stats;

WARM_API warm_status warm_ipc_get_stats(warm_runtime *runtime,
                                        warm_ipc_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
