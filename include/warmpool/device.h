/* warmpool/device.h: devices, streams, events, host functions and graphs.
 *
 * A thin, portable layer over the driver of a runtime, so that a program runs
 * unchanged on CUDA and on the host device. On CUDA a program may also call
 * cudart itself: streams and events are cudart's own. Semantics are those of
 * the CUDA Runtime API unless a function says otherwise. On the host device all
 * streams are non-blocking: its legacy default stream does not wait for them.
 *
 * Any thread may call any function. Common status: INVALID_ARGUMENT (null
 * output or runtime, device out of range), INVALID_STREAM (a stream, event or
 * graph that the driver does not know), UNSUPPORTED (the CUDA context of the
 * thread or the stream is not a primary one, see runtime.h), OUT_OF_MEMORY (the
 * driver has none left), DRIVER_ERROR (see warm_last_error()), CAPTURE_ERROR,
 * RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_DEVICE_H
#define WARMPOOL_DEVICE_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts the devices, which are numbered 0 … count - 1. */
WARM_API warm_status warm_device_count(warm_runtime *runtime, int *count);

typedef struct warm_device_info {
    size_t size;          /* sizeof(warm_device_info) */
    char name[128];       /* "NVIDIA H200", "host device 0" */
    uint64_t total_bytes; /* memory of the device */
    uint64_t free_bytes;  /* 0 while the program does not use the device yet:
                             a query would create a context */
    int compute_major;    /* CUDA compute capability; 0 on the host device */
    int compute_minor;
    int numa_node; /* the node next to the device; -1 if unknown, as on the
                      host device */
    uint64_t host_memory; /* 1: its memory is the host's (integrated devices),
                             or host and device use the same page tables */
} warm_device_info;

/* The calling thread's current device: of cudaGetDevice(), or 0 on the host
 * device, where threads cannot choose one.
 * Status: INVALID_ARGUMENT (also: device is null), DRIVER_ERROR. */
WARM_API warm_status warm_device_current(warm_runtime *runtime, int *device);

/* Describes a device. */
WARM_API warm_status warm_device_get_info(warm_runtime *runtime, int device,
                                          warm_device_info *info);

/* Creates an adopted stream (memory.h) that does not wait for the legacy
 * default stream. Owned: ended with warm_stream_destroy(), or by the program's
 * own call after warm_stream_retire(). For a pooled stream call
 * warm_stream_reserve() (handle.h).
 * Status: OUT_OF_MEMORY also if there is none for the record of the stream. */
WARM_API warm_status warm_stream_create(warm_runtime *runtime, int device,
                                        warm_stream *stream);

/* Retires (memory.h) and destroys a stream. Returns at once; queued work still
 * runs, and blocks that it uses stay stream-safe. Null does nothing.
 * Status: INVALID_ARGUMENT also for a default stream, and for a pooled one
 * (warm_stream_reserve()). */
WARM_API warm_status warm_stream_destroy(warm_runtime *runtime,
                                         warm_stream stream);

/* Waits until all work queued on the stream so far has finished. */
WARM_API warm_status warm_stream_synchronize(warm_runtime *runtime,
                                             warm_stream stream);

/* WARM_OK if all work queued so far has finished, else WARM_NOT_READY. */
WARM_API warm_status warm_stream_query(warm_runtime *runtime,
                                       warm_stream stream);

/* Makes later work on the stream wait for the event. */
WARM_API warm_status warm_stream_wait_event(warm_runtime *runtime,
                                            warm_stream stream,
                                            warm_event event);

/* Runs function(argument) in the order of the stream, on a thread of the
 * driver. CUDA may run the functions of all streams one after another.
 * The function must not call the driver, nor wait for other work, nor wait for
 * a thread that may be inside one of the calls below. They return memory or
 * handles to CUDA, which then waits for the device, and the device waits for
 * the function:
 *   - warm_pinned_trim(), warm_device_trim(), warm_device_free_uncached(),
 *     warm_ipc_close(), warm_handle_trim(), warm_runtime_destroy()
 *   - an allocation while memory is short, or of more than option segment; with
 *     option decay_ms also warm_poll() and any allocation that misses the cache
 *   - the last warm_private_pool_release() of a pool; after it a free of that
 *     pool's memory, and warm_poll()
 *   - a reserve or lease that creates a handle, or destroys one that cannot be
 *     reset
 *   - the begin or end of a capture or of a private pool's recording
 *     (warm_capture_begin(), warm_capture_announce(),
 *     warm_private_pool_begin(), and the functions that end these): it waits
 *     for such calls of other threads, or makes the calls that were put off */
typedef void (*warm_host_fn)(void *argument);
WARM_API warm_status warm_stream_host_func(warm_runtime *runtime,
                                           warm_stream stream,
                                           warm_host_fn function,
                                           void *argument);

/* Creates an event without timing. Owned: ended with warm_event_destroy(). */
WARM_API warm_status warm_event_create(warm_runtime *runtime, int device,
                                       warm_event *event);
/* Destroys an event. Null does nothing. */
WARM_API warm_status warm_event_destroy(warm_runtime *runtime,
                                        warm_event event);
/* Records the event behind the work queued on the stream so far. */
WARM_API warm_status warm_event_record(warm_runtime *runtime, warm_event event,
                                       warm_stream stream);
/* WARM_OK if the work before the last record of the event has finished, or if
 * there was no record, else WARM_NOT_READY. */
WARM_API warm_status warm_event_query(warm_runtime *runtime, warm_event event);
/* Waits for the work before the last record of the event. */
WARM_API warm_status warm_event_synchronize(warm_runtime *runtime,
                                            warm_event event);

/* An executable graph; owned, ended with warm_graph_destroy(). On CUDA it is
 * the cudaGraphExec_t, which points to the struct of this name. */
typedef struct CUgraphExec_st *warm_graph;

/* Captures the work queued on the stream, and on streams that wait for its
 * events, instead of running it, in CUDA's thread-local mode. The capture is
 * announced until warm_capture_end(), or until the stream is retired.
 * Status: also OUT_OF_MEMORY (for its record; no capture has begun). */
WARM_API warm_status warm_capture_begin(warm_runtime *runtime,
                                        warm_stream stream);

/* Ends the capture and makes a graph of it. A capture that was invalidated ends
 * too, with CAPTURE_ERROR and no graph; so does one of which the driver makes
 * no graph, with DRIVER_ERROR. */
WARM_API warm_status warm_capture_end(warm_runtime *runtime, warm_stream stream,
                                      warm_graph *graph);

/* Announces a capture that the program begins by its own call, such as
 * cudaStreamBeginCapture(), on the stream where it will begin. Any capture of
 * an adopted stream (memory.h) must be announced before it begins. Announcing a
 * stream again does nothing.
 *
 * While a capture is announced
 *   - every record and free in this runtime queries the driver whether its
 *     streams capture, as it always does for streams that are not adopted
 *   - the runtime makes no other query of the announced stream, since another
 *     thread may begin the capture at any moment: blocks that the stream uses,
 *     and that are freed meanwhile, return to the cache after
 *     warm_capture_announce_end()
 *   - handles bound to the stream must be reserved again, in the capture and
 *     after it (handle.h).
 *
 * Some calls break captures of a device, whichever thread makes them: returning
 * memory to CUDA, waiting for the device, destroying handles. The runtime puts
 * them off while a capture is known to be under way on the device: while one is
 * announced, or while a private pool for graphs records. Right before such a
 * call the runtime also queries whether these streams capture: adopted streams,
 * streams on which freed blocks wait for the end of a capture, and default
 * streams that blocks use (of the per-thread ones the calling thread's). An
 * unannounced capture that begins between the query and the call is broken.
 *
 * This function, warm_capture_begin(), and warm_private_pool_begin() of a pool
 * for graphs wait for such calls of other threads, but never for a callback of
 * the program; the first two also wait for calls of the library that name the
 * stream to the driver.
 * Status: CAPTURE_ERROR (the stream captures already), OUT_OF_MEMORY. */
WARM_API warm_status warm_capture_announce(warm_runtime *runtime,
                                           warm_stream stream);

/* Ends the announcement, after the capture has ended; not needed after
 * warm_capture_end(). Makes the driver calls that waited for the end of
 * captures: for blocks freed while the stream captured, and for memory of ended
 * private pools.
 * Status: INVALID_ARGUMENT (none was announced). */
WARM_API warm_status warm_capture_announce_end(warm_runtime *runtime,
                                               warm_stream stream);

/* warm_graph_launch() queues one run of the graph on the stream.
 * warm_graph_destroy() destroys a graph; runs that are queued still execute.
 * Null does nothing. */
WARM_API warm_status warm_graph_launch(warm_runtime *runtime, warm_graph graph,
                                       warm_stream stream);
WARM_API warm_status warm_graph_destroy(warm_runtime *runtime,
                                        warm_graph graph);

/* Allocates memory of a device with the driver, uncached and slow: for memory
 * that must not be a block of warmpool, and for comparison with
 * warm_device_alloc() (device_memory.h). Null for 0 bytes. If the driver has no
 * memory, idle workspaces of handles (handle.h) are returned to it first. */
WARM_API warm_status warm_device_alloc_uncached(warm_runtime *runtime,
                                                int device, size_t bytes,
                                                void **pointer);
/* Frees memory of warm_device_alloc_uncached(), and waits for the device, as
 * cudaFree() does. Null does nothing.
 * Status: also INVALID_POINTER, or DRIVER_ERROR on CUDA (no such memory);
 * CAPTURE_ERROR (nothing is freed: a capture, which cudaFree() would break, is
 * known to be under way on the device, see warm_capture_announce());
 * DRIVER_ERROR also if the driver cannot report whether one is (nothing is
 * freed). */
WARM_API warm_status warm_device_free_uncached(warm_runtime *runtime,
                                               int device, void *pointer);

#ifdef __cplusplus
}
#endif
#endif
