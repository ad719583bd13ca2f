/* warmpool/staging.h: copies between pageable memory and a device, through a
 * ring of page-locked slices.
 *
 * CUDA copies pageable memory late and slowly. A staging ring copies it to a
 * slice of page-locked memory on the CPU, and queues the copy from there:
 *
 *   pageable ──CPU──► │ queued │ queued │ open ··· │ idle │ ──DMA──► device
 *                       oldest             ▲ next copy
 *
 * Slices are used in turn, each again once the copies queued from it have
 * completed. One event is recorded for each slice and for each flush, none for
 * each copy. Copies to the host run the other way: the device writes into a
 * slice, and the CPU copies from there once the slice's event has completed, in
 * a later call on the ring that needs the slice, or in finish.
 *
 *   warm_staging *staging;
 *
 *   warm_staging_create(runtime, 0, NULL, &staging);
 *   for (i = 0; i < count; i++) {
 *       warm_staging_copy(staging, device + i * row, rows[i], row,
 *                         WARM_COPY_TO_DEVICE, stream, WARM_STAGING_MORE);
 *   }
 *   warm_staging_flush(staging);      now kernels on the stream may follow
 *     …
 *   warm_staging_destroy(staging);
 *
 * Gathering. A copy without WARM_STAGING_MORE is queued at once. A copy with it
 * may be queued later, together with the copies after it. A copy is gathered
 * with the copy before if it has the same stream and direction, its device
 * memory begins where that of the copy before ends, and the slice has room: all
 * of them become one copy of the driver. Where the memory of the host lies does
 * not matter. What is gathered is queued
 *   - by a copy that cannot be gathered with it, before that one;
 *   - by a copy without WARM_STAGING_MORE, which may be gathered with it;
 *   - when the slice is full, and by flush, finish and destroy.
 * Free its memory of the device only then: a free does not wait for a copy that
 * is not queued.
 * A copy that is larger than the rest of a slice is split, or, if it is at most
 * an eighth of a slice, goes whole to the next slice.
 *
 * Streams. A ring has one stream at a time: a copy on another stream leaves the
 * rest of the slice unused, so use a ring for each stream. A stream must live
 * until the flush, finish or destroy after the last copy on it. Copies on the
 * default streams are never gathered, and cost an event each. A stream that
 * captures is refused (CAPTURE_ERROR): when the graph is launched the slice has
 * other contents. Gathered copies stay gathered if their stream captures
 * meanwhile, and can be queued once the capture has ended.
 *
 * Threads. Any thread may use a ring, one at a time: a call while another
 * thread is inside is refused with INVALID_ARGUMENT, and changes nothing.
 * Common status of calls with a ring: INVALID_ARGUMENT (null; another thread is
 * inside), RUNTIME_GONE, FORKED (the ring is the parent's), EXITING;
 * DRIVER_ERROR also once the device was reset.
 */
#ifndef WARMPOOL_STAGING_H
#define WARMPOOL_STAGING_H

#include "warmpool/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct warm_staging warm_staging;

typedef struct warm_staging_options {
    size_t size;        /* sizeof(warm_staging_options) */
    size_t slice_bytes; /* of one slice: 4 KiB to 1 GiB, and at most option
                           pin_chunk; 0: 4 MiB, or pin_chunk if that is less */
    unsigned slices;    /* 2 to 256; 0: 4 */
    unsigned wait_ms;   /* longest wait of a call for slices; 0: 10,000 */
} warm_staging_options;

/* Creates a ring for copies to and from a device. Its slices are blocks of
 * page-locked memory, next to the device where there are several nodes, and
 * never of a private pool.
 * options: borrowed; null: all defaults.
 * staging: owned, ended with warm_staging_destroy().
 * Status (nothing has changed then): INVALID_ARGUMENT (device, options),
 * RUNTIME_GONE, FORKED, EXITING; OUT_OF_MEMORY, DRIVER_ERROR, UNSUPPORTED, as
 * for warm_pinned_alloc(). */
WARM_API warm_status warm_staging_create(warm_runtime *runtime, int device,
                                         const warm_staging_options *options,
                                         warm_staging **staging);

/* Flags of warm_staging_copy(). MORE: more copies follow, or a flush: the copy
 * may be gathered. TRY: never wait for a slice. */
#define WARM_STAGING_MORE 1u
#define WARM_STAGING_TRY  2u

/* Copies bytes between pageable memory and memory of the ring's device, in the
 * order of a stream of that device. Memory of the device that is a block of
 * warmpool is recorded on the stream (warm_record_stream()).
 * WARM_COPY_TO_DEVICE: source is pageable, and may change as soon as the call
 * returns. WARM_COPY_TO_HOST: destination is pageable, is written at the latest
 * by warm_staging_finish(), and must stay valid until then.
 * flags: 0, WARM_STAGING_MORE, WARM_STAGING_TRY.
 * Blocking: copies on the CPU; if all slices are in use, waits for the oldest,
 * at most wait_ms. bytes 0 does nothing.
 * Status: INVALID_ARGUMENT also for a stream of another device, and for a range
 * beyond the end of a block; INVALID_STREAM, CAPTURE_ERROR; NOT_READY (all
 * slices stayed in use); OUT_OF_MEMORY, DRIVER_ERROR (from queueing). Nothing
 * has changed then, except that what was gathered before may be queued, and
 * that a part of a copy larger than the rest of a slice may be. The call can be
 * repeated; the destination of such a part must stay valid until a finish. */
WARM_API warm_status warm_staging_copy(warm_staging *staging, void *destination,
                                       const void *source, size_t bytes,
                                       warm_copy_direction direction,
                                       warm_stream stream, unsigned flags);

/* Queues what is gathered and records an event behind it; the streams used so
 * far may then be destroyed. Does not wait. Status: of queueing, as for
 * warm_staging_copy(); what could not be queued stays gathered then. */
WARM_API warm_status warm_staging_flush(warm_staging *staging);

/* Flushes, waits until all copies have completed, and writes the destinations
 * of copies to the host. Status: as warm_staging_flush(); NOT_READY (after
 * wait_ms: the destinations of what has completed are written, and the call can
 * be repeated). */
WARM_API warm_status warm_staging_finish(warm_staging *staging);

/* Of one ring, since it was created. name, unit, meaning; uint64_t */
#define WARM_STAGING_STAT_MAP(X)                                               \
    X(copies, "calls", "copies that succeeded")                                \
    X(bytes, "bytes", "bytes of these copies")                                 \
    X(queued, "calls", "copies that the driver was given for them")            \
    X(gathered_bytes, "bytes", "bytes in a slice that are not queued, now")    \
    X(events, "calls", "events recorded")                                      \
    X(busy_slices, "slices", "slices with copies not known to have passed")    \
    X(waits, "calls", "times a call waited for a slice")                       \
    X(wait_ns, "ns", "time of these waits")

typedef struct warm_staging_stats {
    size_t size; /* sizeof(warm_staging_stats) */
#define WARM_STAGING_STAT_FIELD(name, unit, meaning) uint64_t name;
    WARM_STAGING_STAT_MAP(WARM_STAGING_STAT_FIELD)
#undef WARM_STAGING_STAT_FIELD
} warm_staging_stats;

/* Reads the figures of a ring, also while another thread is inside; each is
 * right by itself. Calls no driver. */
WARM_API warm_status warm_staging_get_stats(warm_staging *staging,
                                            warm_staging_stats *stats);

/* Finishes all copies, then ends the ring and frees its slices.
 * staging: taken, but for the first five statuses; null does nothing.
 * Status: NOT_READY, CAPTURE_ERROR, as for warm_staging_finish(),
 * INVALID_ARGUMENT (another thread is inside), FORKED, EXITING: the ring lives
 * on, and the call can be repeated. With any other status the ring is gone:
 * copies that could not be queued are dropped (INVALID_POINTER: their device
 * memory was freed before they were queued), and a slice is never freed if the
 * driver does not report that its copies have completed. DRIVER_ERROR after a
 * reset of the device: all slices are freed. RUNTIME_GONE: the runtime was
 * destroyed first, and has reported the slices; only the ring's records are
 * freed. */
WARM_API warm_status warm_staging_destroy(warm_staging *staging);

#ifdef __cplusplus
}
#endif
#endif
