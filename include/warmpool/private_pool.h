/* warmpool/private_pool.h: memory for graphs, separate from all other memory.
 *
 * A graph that was captured from a stream contains the addresses that were
 * allocated during the capture, and uses them at every replay: no other code
 * may get that memory while the graph can run. So it comes from a private pool,
 * to which allocations are routed while the pool records:
 *
 *   warm_private_pool pool = {0};
 *
 *   warm_private_pool_begin(runtime, &pool, 0, NULL, NULL);
 *   warm_capture_begin(runtime, stream);
 *     … warm_device_alloc(), kernels, warm_free() …
 *   warm_capture_end(runtime, stream, &graph);
 *   warm_private_pool_end(runtime, pool);
 *     … replay, many times …
 *   warm_graph_destroy(runtime, graph);
 *   warm_private_pool_release(runtime, pool);
 *
 * A pool serves page-locked memory and that of all devices. It has references:
 * one for every graph that was captured with it, one for every piece of code
 * that will use it again. Graphs that share a pool share its memory: a block
 * freed in the first capture may be allocated in the second. This is correct if
 * the graphs are replayed in the order of their captures and never at the same
 * time.
 *
 * While a pool has references
 * - none of its memory is returned to the driver;
 * - a block that is freed is reused within the pool: page-locked memory by any
 *   thread, memory of a device in the order of the stream on which it was
 *   allocated;
 * - but a block that was recorded on a stream (warm_record_stream(); for memory
 *   of a device: on another stream than its own), captured or not, is not
 *   allocated again, and counts as captured. No event is recorded or queried
 *   for it, except what a default stream needs.
 * While a stream captures, CUDA reveals only its address: a later stream at
 * that address counts as the same stream in captures.
 *
 * While a pool for graphs records, records and frees query whether their
 * streams capture, as while a capture is announced (device.h); no memory of any
 * pool, nor of none, is returned to the driver; and page-locked memory that is
 * routed to a pool for graphs is never replaced by pageable memory
 * (WARM_ALLOC_PAGEABLE_OK).
 *
 * After the last release blocks that are still live stay usable, and are
 * returned when they are freed (except blocks that a capture uses from then on,
 * which never are). All other memory is returned to the driver once work that
 * is queued on streams recorded outside of captures has finished, and once no
 * capture is under way. CUDA waits for the device then; still, replays must
 * have ended before the release, as before cudaGraphExecDestroy().
 *
 * WARM_POOL_USER: a pool for a program's own use, not for graphs. Its memory is
 * separate but behaves like memory of no pool: frees wait for streams, idle
 * segments are returned when memory is short or the cache is emptied. The rules
 * above for captures do not apply to it.
 *
 * While any pool records, every allocation calls the filters, and the threads'
 * own caches are not used. While none records, private pools cost each
 * allocation one load.
 *
 * Any thread may call any function. Common status: INVALID_ARGUMENT, NOT_FOUND
 * (no such pool, or its last reference is gone), RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_PRIVATE_POOL_H
#define WARMPOOL_PRIVATE_POOL_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flag: a pool for a program's own use, as described above. */
#define WARM_POOL_USER 1u

/* Flag, with WARM_POOL_USER: the pool's memory of devices can be paused
 * (pause.h), where the device has virtual memory management. */
#define WARM_POOL_PAUSABLE 2u

/* Returns not 0 if an allocation is for the pool. stream: the stream on which
 * memory of a device is allocated; for page-locked memory the thread's current
 * stream (warm_thread_set_stream()). Called in the thread that allocates,
 * reserves or leases a handle for a stream that captures, or begins a capture;
 * by several threads at the same time. The end of any recording, and a pause
 * (pause.h), wait for it: the filter must not call the library, nor wait for a
 * thread that may call it. */
typedef int (*warm_pool_filter_fn)(void *context, warm_stream stream);

/* Routes allocations to a pool from now on, and adds a reference to it, which
 * warm_private_pool_release() drops.
 * pool: in and out; number 0 makes a new pool and stores its number.
 * flags: 0, WARM_POOL_USER, or that and WARM_POOL_PAUSABLE; the same in every
 * call for one pool.
 * filter: chooses the allocations, until warm_private_pool_end(); null: all of
 * the calling thread, on any stream. context: argument of filter.
 * If the filters of several recording pools match, the pool that began last
 * gets the allocation.
 * Status: INVALID_ARGUMENT also for a pool that records already, or was begun
 * with other flags; OUT_OF_MEMORY; with WARM_POOL_PAUSABLE also DRIVER_ERROR
 * (the driver did not report whether a device supports it). Nothing has changed
 * then. */
WARM_API warm_status warm_private_pool_begin(warm_runtime *runtime,
                                             warm_private_pool *pool,
                                             unsigned flags,
                                             warm_pool_filter_fn filter,
                                             void *context);

/* Ends the routing; references stay. After it has returned the filter is not
 * called. Call it also if the capture failed or was abandoned.
 * Status: INVALID_ARGUMENT for a pool that does not record. */
WARM_API warm_status warm_private_pool_end(warm_runtime *runtime,
                                           warm_private_pool pool);

/* Adds a reference, for another graph for example. */
WARM_API warm_status warm_private_pool_retain(warm_runtime *runtime,
                                              warm_private_pool pool);

/* Drops a reference; after the last one is dropped the number names no pool.
 * Status: INVALID_ARGUMENT for the last one of a pool that records, or is
 * paused. */
WARM_API warm_status warm_private_pool_release(warm_runtime *runtime,
                                               warm_private_pool pool);

typedef struct warm_private_pool_info {
    size_t size;             /* sizeof(warm_private_pool_info) */
    uint64_t references;     /* at least 1 */
    uint64_t segments;       /* regions obtained from drivers for it */
    uint64_t held_bytes;     /* bytes of its segments */
    uint64_t live;           /* allocated blocks */
    uint64_t live_bytes;     /* bytes of live blocks */
    uint64_t captured;       /* freed blocks that graphs may use */
    uint64_t captured_bytes; /* bytes of captured blocks */
    int recording;           /* 1: allocations are routed to it */
    uint64_t paused_bytes;   /* of memory that is paused; not in held_bytes */
} warm_private_pool_info;

/* Describes a pool. */
WARM_API warm_status warm_private_pool_get_info(warm_runtime *runtime,
                                                warm_private_pool pool,
                                                warm_private_pool_info *info);

/* Sets the stream for which the calling thread allocates page-locked memory, as
 * filters see it; at first it is null, the legacy default stream. It is used
 * only while a pool of that runtime records: filters compare it, and the driver
 * is queried whether it captures. Status: OUT_OF_MEMORY. */
WARM_API warm_status warm_thread_set_stream(warm_runtime *runtime,
                                            warm_stream stream);

#ifdef __cplusplus
}
#endif
#endif
