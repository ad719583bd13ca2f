/* warmpool/device.h: devices, streams, events, host functions and graphs.
 *
 * A thin, portable face of the driver under a runtime, so that a program runs
 * unchanged on CUDA and on the host device. On CUDA a program may as well call
 * cudart itself: streams and events are cudart's own. Semantics are those of
 * the CUDA Runtime API unless said otherwise; on the host device all streams
 * are of the non-blocking sort, so that the legacy default stream does not wait
 * for the others.
 *
 * All functions: any thread. Common status: INVALID_ARGUMENT (null output or
 * runtime, device out of range), INVALID_STREAM (or an event, or a graph, that
 * the driver does not know), UNSUPPORTED (the thread's CUDA context, or the
 * stream's, is not a primary one, see runtime.h), OUT_OF_MEMORY (the driver has
 * none left),
 * DRIVER_ERROR (see warm_last_error()), CAPTURE_ERROR, RUNTIME_GONE, FORKED,
 * EXITING.
 */
#ifndef WARMPOOL_DEVICE_H
#define WARMPOOL_DEVICE_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* device: 0 … count - 1. */
WARM_API warm_status warm_device_count(warm_runtime *runtime, int *count);

typedef struct warm_device_info {
    size_t size;          /* sizeof(warm_device_info) */
    char name[128];       /* "NVIDIA H200", "host device 0" */
    uint64_t total_bytes; /* memory of the device */
    uint64_t free_bytes;  /* 0 while the program does not use the device yet:
                             asking would create a context */
    int compute_major;    /* CUDA compute capability; 0 on the host device */
    int compute_minor;
    int numa_node; /* the node next to the device, -1 if unknown; on the host
                      device unless option numa_nodes gives it some */
} warm_device_info;

WARM_API warm_status warm_device_get_info(warm_runtime *runtime, int device,
                                          warm_device_info *info);

/* Creates a stream that does not wait for the legacy default stream. Owned:
 * ended by warm_stream_destroy(), or by the program's own call after
 * warm_stream_retire(). It is adopted (memory.h). A pooled one comes from
 * warm_stream_reserve() (handle.h). */
WARM_API warm_status warm_stream_create(warm_runtime *runtime, int device,
                                        warm_stream *stream);

/* Retires (memory.h) and destroys a stream; returns at once, the work queued
 * on it goes on. Blocks that it uses stay stream-safe. Null does nothing.
 * Status: INVALID_ARGUMENT also for a default stream, and for one of the pool
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
 * driver. The function may not call the driver or wait for other work, nor for
 * a thread that may be inside a call which gives something back to CUDA: those
 * wait for the device, which waits for the function. They are
 * warm_pinned_trim(), warm_pinned_empty_cache() and those of a device, an
 * allocation when memory is short, or of more than option segment; with
 * decay_ms any that misses, and warm_poll(); the last
 * warm_private_pool_release(), and from then on a free of such a pool's memory,
 * and warm_poll(); warm_device_free_uncached(), warm_ipc_close(),
 * warm_handle_trim(), warm_runtime_destroy(), and a reserve or lease that
 * creates a handle, or destroys one that cannot be reset; and where a capture
 * begins or ends (warm_capture_announce(), warm_capture_announce_end(),
 * warm_private_pool_begin() and their like), which waits for such calls, or
 * makes those that were put off. CUDA may also run the functions of all streams
 * one after another. */
typedef void (*warm_host_fn)(void *argument);
WARM_API warm_status warm_stream_host_func(warm_runtime *runtime,
                                           warm_stream stream,
                                           warm_host_fn function,
                                           void *argument);

/* Events without timing. A query answers WARM_OK if the work before the last
 * record has finished, or nothing was ever recorded, else WARM_NOT_READY; to
 * synchronize waits for that. To destroy null does nothing. */
WARM_API warm_status warm_event_create(warm_runtime *runtime, int device,
                                       warm_event *event);
WARM_API warm_status warm_event_destroy(warm_runtime *runtime,
                                        warm_event event);
WARM_API warm_status warm_event_record(warm_runtime *runtime, warm_event event,
                                       warm_stream stream);
WARM_API warm_status warm_event_query(warm_runtime *runtime, warm_event event);
WARM_API warm_status warm_event_synchronize(warm_runtime *runtime,
                                            warm_event event);

/* An executable graph; owned, ended by warm_graph_destroy(). On CUDA the
 * cudaGraphExec_t itself, which points to the struct of this name. */
typedef struct CUgraphExec_st *warm_graph;

/* Captures what is queued on the stream (and on streams that wait for its
 * events) instead of running it; in the thread-local mode of CUDA. Announces
 * the capture until warm_capture_end(), or until the stream is retired.
 * Status: also OUT_OF_MEMORY (no record of it; nothing has begun). */
WARM_API warm_status warm_capture_begin(warm_runtime *runtime,
                                        warm_stream stream);

/* Ends the capture and makes a graph of it. A capture that was invalidated is
 * ended all the same, with CAPTURE_ERROR and no graph. */
WARM_API warm_status warm_capture_end(warm_runtime *runtime, warm_stream stream,
                                      warm_graph *graph);

/* Announces a capture that the program begins by itself, with
 * cudaStreamBeginCapture() for example, and any capture of a stream that was
 * adopted (memory.h) must be: before it begins, on the stream where it begins.
 * While one is announced, in this runtime, every record and free asks the
 * driver whether its streams capture, as it always does for streams that are
 * not adopted. Announcing it again does nothing. Of the stream itself nothing
 * is asked but that until warm_capture_announce_end(), since another thread may
 * begin the capture at any moment: blocks that it uses, and that are freed
 * meanwhile, come back after that. Handles that are bound to the
 * stream are to be reserved again in the capture, and after it (handle.h).
 * What breaks captures of a device, whichever thread does it, is put off while
 * one is known to be under way there: memory goes back to CUDA, the device is
 * waited for, handles are destroyed. Known are those that are announced, and
 * any at all while a private pool for graphs records; and right before such a
 * call the driver is asked whether the adopted streams capture, those on which
 * freed blocks wait for the end of a capture, and the default ones that blocks
 * use, of which the per-thread one is the calling thread's. A capture that
 * nobody announced and that begins between the question and the call is broken
 * all the same. This function, warm_capture_begin(), and
 * warm_private_pool_begin() of one for graphs wait for calls of that sort that
 * other threads are in, but never for a callback of the program; the first two
 * also for calls of the library that name the stream to the driver.
 * Status: CAPTURE_ERROR (the stream captures already), OUT_OF_MEMORY. */
WARM_API warm_status warm_capture_announce(warm_runtime *runtime,
                                           warm_stream stream);

/* The announced capture has ended; not needed after warm_capture_end().
 * Calls the driver for what waited for the end of captures: blocks freed while
 * the stream captured, memory of private pools that have gone.
 * Status: INVALID_ARGUMENT (none was announced). */
WARM_API warm_status warm_capture_announce_end(warm_runtime *runtime,
                                               warm_stream stream);

/* warm_graph_launch() queues one run of the graph on the stream.
 * warm_graph_destroy() ends a graph: runs that are queued go on, and null does
 * nothing. */
WARM_API warm_status warm_graph_launch(warm_runtime *runtime, warm_graph graph,
                                       warm_stream stream);
WARM_API warm_status warm_graph_destroy(warm_runtime *runtime,
                                        warm_graph graph);

/* Memory of a device straight from the driver, for what is to be no block of
 * warmpool, and to compare with warm_device_alloc() (device_memory.h): slow,
 * and not cached; null for 0 bytes. The free waits for the device, as cudaFree
 * does. Null does nothing. Status: also INVALID_POINTER, or DRIVER_ERROR on
 * CUDA, for a pointer that is none of these; CAPTURE_ERROR: a capture is known
 * to be under way on the device (warm_capture_announce()), which cudaFree would
 * break, and nothing is freed. */
WARM_API warm_status warm_device_alloc_uncached(warm_runtime *runtime,
                                                int device, size_t bytes,
                                                void **pointer);
WARM_API warm_status warm_device_free_uncached(warm_runtime *runtime,
                                               int device, void *pointer);

#ifdef __cplusplus
}
#endif
#endif
