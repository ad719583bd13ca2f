/* warmpool/ipc.h: device memory shared with other processes.
 *
 *   this process                            another one, on the same device
 *   warm_device_alloc ─► block
 *   work that fills it has finished
 *   warm_ipc_export ─► handle ── pipe, file ──► warm_ipc_open ─► pointer
 *        …                                      work on it has finished
 *   warm_free ◄── "I have closed it" ────────── warm_ipc_close
 *
 * A handle is plain bytes, to be sent in any way. It shares the whole segment
 * that the block lies in (warm_device_base_allocation()), for reading and
 * writing: processes that share memory trust each other. The importing process
 * maps a segment once, however many of its blocks it opens, and unmaps it when
 * the last one is closed.
 *
 * The exporting process must not free the block while another process has it
 * open, as with cudaFree() of exported memory: a freed block may be allocated
 * again at once, and its segment may be returned to the driver. A segment with
 * a live block is not returned. The processes agree on the free by a channel of
 * their own; a process that has ended has closed everything. Streams and events
 * are not shared: wait for queued work before you notify the other process.
 *
 * On the host device the memory is shared through /proc: both processes must
 * see each other there and run as the same user. Any thread may call any
 * function. Common status: INVALID_ARGUMENT (null), RUNTIME_GONE, FORKED,
 * EXITING, DRIVER_ERROR.
 */
#ifndef WARMPOOL_IPC_H
#define WARMPOOL_IPC_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Programs set size before the export, and may read bytes; the other fields are
 * private to the library. */
typedef struct warm_ipc_handle {
    size_t size;     /* sizeof(warm_ipc_handle) */
    uint64_t bytes;  /* from the exported pointer to the end of its block */
    uint64_t offset; /* of that pointer in its segment */
    uint64_t segment_bytes;
    uint64_t process, pid;   /* of the exporter: the library's number for it,
                                and the operating system's */
    uint64_t segment_number; /* by which the exporter knows the segment */
    uint8_t device[16];      /* the device's id, the same in every process */
    uint8_t segment[64];     /* the driver's handle; it may differ from export
                                to export */
    uint64_t check;          /* checksum of all fields before */
} warm_ipc_handle;

/* Makes a handle of a pointer into a live block of warm_device_alloc(). Calls
 * the driver.
 * handle: size set. Two handles of one block name the same memory, though their
 * contents may differ, since CUDA's handles may.
 * Status: NOT_FOUND (not part of a live block of a device; pinned and uncached
 * memory is not), INVALID_ARGUMENT (size), DRIVER_ERROR (the driver cannot
 * share the memory), UNSUPPORTED (it shares none; or the memory is of a pool
 * that can be paused). */
WARM_API warm_status warm_ipc_export(const void *pointer,
                                     warm_ipc_handle *handle);

/* Opens memory that another process has exported from the same device, whatever
 * number the device has here. The first opening of a segment calls the driver;
 * concurrent openings of it wait for that call.
 * pointer: to the same place as the exported one; ended with warm_ipc_close(),
 * once for each opening. It is no block: warm_free() and warm_record_stream()
 * refuse it; copies accept it.
 * Status (nothing has changed then): INVALID_ARGUMENT (size, a damaged handle,
 * or one that this process exported: it has the pointer, and CUDA would refuse
 * the handle), UNAVAILABLE (the runtime has no such device; or the other
 * process has ended, has freed the memory or does not allow access to it),
 * OUT_OF_MEMORY, DRIVER_ERROR, UNSUPPORTED (the driver shares no memory; or it
 * mapped it above 48 bits of address, or not at the start of a page). */
WARM_API warm_status warm_ipc_open(warm_runtime *runtime,
                                   const warm_ipc_handle *handle,
                                   void **pointer);

/* Undoes one opening; the last one of a segment unmaps it.
 * pointer: from warm_ipc_open(); the work of this process that uses it has
 * finished. Null does nothing.
 * Status: INVALID_POINTER (not open in this runtime, or closed already),
 * DRIVER_ERROR (it is still open, and may be closed again). */
WARM_API warm_status warm_ipc_close(warm_runtime *runtime, void *pointer);

/* Memory of other processes that is open, on all devices of a runtime.
 * Destroying the runtime closes and reports it (warm_destroy_report.imports).
 * name, unit, meaning; of type uint64_t */
#define WARM_IPC_COUNT_MAP(X)                                                  \
    X(segments, "segments", "segments of other processes mapped here")         \
    X(bytes, "bytes", "bytes of those segments")                               \
    X(opened, "calls", "openings of their blocks that are not closed")

typedef struct warm_ipc_stats {
    size_t size; /* sizeof(warm_ipc_stats) */
#define WARM_IPC_COUNT_FIELD(name, unit, meaning) uint64_t name;
    WARM_IPC_COUNT_MAP(WARM_IPC_COUNT_FIELD)
#undef WARM_IPC_COUNT_FIELD
} warm_ipc_stats;

/* Reads the figures of a runtime. */
WARM_API warm_status warm_ipc_get_stats(warm_runtime *runtime,
                                        warm_ipc_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
