/* warmpool/shared.h: buffers that a device has to itself, or shares with the
 * host.
 *
 *   private   memory of the device; the host has no address for it
 *   shared    one allocation that the host and the device both see
 *
 * Shared memory is page-locked memory that the driver maps for the device, or
 * managed memory (option shared_memory): by default managed where the device
 * uses the host's page tables, which the log says at level info, else
 * page-locked. With shared_memory:managed, on a device where host and device
 * must not touch managed memory at once, it is page-locked, and a warning is
 * logged.
 *
 * Sizes. Buffers are cut from segments, best fit first: requests of up to 1 MiB
 * from segments of 8 MiB, larger ones from segments of 32 MiB; a request of
 * 10 MiB or more that no idle memory serves obtains a segment of its own size.
 * No page-locked segment is larger than option pin_chunk: a larger buffer has
 * pieces, as memory.h says, which adjoin for the device as for the host. Where
 * a device sees registered memory at other addresses than the host does, its
 * segments are locked by one call, whatever their size.
 * If the driver refuses a segment, half of it is tried, and so on down to what
 * the request needs. Private and shared buffers never lie in one segment, and
 * scalars (at most 16 bytes) have segments of 64 KiB. Buffers are rounded and
 * aligned as blocks of memory.h are, and not cleared.
 *
 * A buffer is a block (memory.h): warm_free() frees it, warm_record_stream()
 * names a stream that uses it, warm_block_get_info() describes it. It belongs
 * to no stream's order: record every stream that uses it, also if it is
 * private. Freed, it is allocated again once these streams have completed their
 * work and its last user has released it (warm_shared_retain()).
 *
 * Limits. Private and managed buffers count toward the watermarks of their
 * device, page-locked ones toward those of the host (pressure.h). The segments
 * are in workspace_bytes of warm_device_stats, and in no figure of the pinned
 * space.
 *
 * A private buffer is memory of its device in every other respect: it can be
 * shared with other processes (ipc.h), and warm_device_base_allocation() tells
 * its segment.
 *
 * In the functions below, pointer may point into the middle of a buffer. Once
 * a buffer is freed all of them but warm_shared_release() refuse it, also while
 * it has users: they call the others, and queue their work, before the free.
 * Any thread may call any function; calls of one runtime share a lock, which is
 * never held while the driver is called. Common status: INVALID_ARGUMENT (null
 * runtime or output, device out of range), NOT_FOUND (pointer is not in a live
 * buffer of this header, or in one of another runtime), RUNTIME_GONE, FORKED,
 * EXITING; DRIVER_ERROR if the device, or the memory, was lost by a reset.
 */
#ifndef WARMPOOL_SHARED_H
#define WARMPOOL_SHARED_H

#include "warmpool/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum warm_usage {
    WARM_USAGE_PRIVATE = 0, /* for the device alone */
    WARM_USAGE_SHARED = 1   /* for host and device */
} warm_usage;

/* Allocates a buffer for a device.
 * pointer: owned, ended with warm_free(); of a shared buffer its host address,
 * of a private one its device address; null for 0 bytes.
 * Status (nothing has changed then): OUT_OF_MEMORY, after warmpool has freed
 * inactive buffers, collected completed frees, returned idle segments, also
 * those of the pinned space, the device and other buffers that count toward the
 * same limit, called the memory callbacks and, at a limit, waited (option
 * limit_wait_ms); the message has the bytes requested, held, live and idle.
 * INVALID_ARGUMENT (usage), DRIVER_ERROR, UNSUPPORTED as for
 * warm_device_alloc(). Blocking: a request that finds no idle memory calls the
 * driver. */
WARM_API warm_status warm_shared_alloc(warm_runtime *runtime, int device,
                                       size_t bytes, warm_usage usage,
                                       void **pointer);

#define WARM_SCALAR_MAX 16 /* bytes */

/* Allocates a shared buffer of 1 to WARM_SCALAR_MAX bytes, from segments that
 * hold only scalars, and copies value into it.
 * Status: as warm_shared_alloc(); INVALID_ARGUMENT also for value null, and for
 * other sizes. */
WARM_API warm_status warm_shared_alloc_scalar(warm_runtime *runtime, int device,
                                              const void *value, size_t bytes,
                                              void **pointer);

typedef struct warm_shared_info {
    size_t size; /* sizeof(warm_shared_info) */
    int shared;  /* 1: host and device see it; 0: it is private */
    int managed; /* 1: it is managed memory */
    int device;
    uint64_t id;      /* of the buffer: no other one of the runtime gets it */
    size_t requested; /* bytes requested */
    size_t bytes;     /* usable bytes */
    void *host;       /* its first byte for the host; null: it is private */
    void *address;    /* its first byte for the device */
    unsigned users;   /* warm_shared_retain() less warm_shared_release() */
} warm_shared_info;

/* Describes the buffer that holds pointer. Queries the driver for the device's
 * address of page-locked memory. Status: also DRIVER_ERROR. */
WARM_API warm_status warm_shared_get_info(const void *pointer,
                                          warm_shared_info *info);

/* Counts one more user of the buffer. While a buffer has users it is not
 * allocated again, also once it is freed: its memory stays as it is.
 * warm_free() does not wait, and the figures count the buffer as pending.
 * Status: INVALID_ARGUMENT (it has as many users as can be counted). */
WARM_API warm_status warm_shared_retain(const void *pointer);
/* Counts one user of the buffer less. Calls no driver and frees nothing, so a
 * host function of a stream may call it (warm_stream_host_func()). pointer: the
 * buffer may be freed already. Status: INVALID_ARGUMENT (it has no user). */
WARM_API warm_status warm_shared_release(const void *pointer);

/* Frees the buffers of the device that were freed while they had users and have
 * none left. warm_shared_alloc() does so for all devices.
 * freed: their bytes, also of those that still wait for streams; may be null.
 */
WARM_API warm_status warm_shared_free_inactive(warm_runtime *runtime,
                                               int device, size_t *freed);

/* Frees inactive buffers, collects completed frees, and returns segments
 * without live or pending buffers to the driver, for which CUDA waits for the
 * device, until the buffers of the device hold at most target bytes; 0: all.
 * While a stream is known to capture (warm_capture_announce()) nothing is
 * returned. released: bytes returned; may be null. Status: also DRIVER_ERROR.
 */
WARM_API warm_status warm_shared_trim(warm_runtime *runtime, int device,
                                      size_t target, size_t *released);

/* Keeps a shape with the buffer, in place of an earlier one, until it is freed:
 * extents of so many dimensions, copied; 0 dimensions are the shape of a
 * scalar. What extents mean is the program's.
 * Status: INVALID_ARGUMENT (extents null, an extent below 0), OUT_OF_MEMORY;
 * nothing has changed then. */
WARM_API warm_status warm_shared_set_shape(const void *pointer,
                                           const int64_t *extents,
                                           size_t dimensions);

/* Reads the shape of a buffer, also by a pointer of a view into it.
 * extents: gets the first of them, at most room; may be null if room is 0.
 * dimensions: gets how many the shape has.
 * Status: NOT_FOUND also if no shape was set. */
WARM_API warm_status warm_shared_get_shape(const void *pointer,
                                           int64_t *extents, size_t room,
                                           size_t *dimensions);

/* Records on each shared buffer of a list that the work queued so far on stream
 * uses it, as warm_record_stream() does, and one event for all of them behind
 * that work, for warm_shared_wait(). Private buffers are passed over.
 * pointers: count of them, all in buffers of the runtime, which no thread frees
 * during the call; one may occur twice.
 * recorded: gets how many pointers were of shared buffers; may be null.
 * Status: as warm_record_stream() and warm_event_record(); OUT_OF_MEMORY. No
 * wait is for the work then, but the stream may have been recorded on some
 * buffers. CAPTURE_ERROR (nothing has changed): the stream captures, or a
 * capture blocks it. */
WARM_API warm_status warm_shared_record(warm_runtime *runtime,
                                        void *const *pointers, size_t count,
                                        warm_stream stream, size_t *recorded);

/* Waits until the work that was recorded on the shared buffers of a list before
 * the call has completed, on every stream. Private buffers, and those without a
 * record, are passed over; work of a device that was reset has ended.
 * waited: gets how many pointers were of buffers with a record that was not
 * known to have completed; may be null. Blocking.
 * Status: also OUT_OF_MEMORY, DRIVER_ERROR; buffers after that one were not
 * waited for. */
WARM_API warm_status warm_shared_wait(warm_runtime *runtime,
                                      void *const *pointers, size_t count,
                                      size_t *waited);

/* Reads the figures of a device's private or shared buffers; those of scalars
 * are added to the shared ones. Peaks of the sum are sums of both peaks.
 * Status: INVALID_ARGUMENT also for usage. */
WARM_API warm_status warm_shared_get_stats(warm_runtime *runtime, int device,
                                           warm_usage usage,
                                           warm_space_stats *stats);

/* Reads the histograms of private or of shared buffers, as
 * warm_pinned_get_histograms(). */
WARM_API warm_status
warm_shared_get_histograms(warm_runtime *runtime, int device, warm_usage usage,
                           warm_space_histograms *histograms);

#ifdef __cplusplus
}
#endif
#endif
