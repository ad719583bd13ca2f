/* warmpool/private_pool.h: memory for graphs, apart from all other.
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
 * that will use it again. Graphs that share a pool share its memory: what was
 * freed in the capture of the first serves that of the second, and both are
 * right if they are replayed in the order of their captures and never at the
 * same time.
 *
 * While a pool has references
 * - none of its memory is returned to the driver;
 * - a block that is freed is reused within the pool: page-locked memory by any
 *   thread, that of a device in the order of the stream it was allocated on;
 * - but a block that was recorded on a stream (warm_record_stream(); memory of
 *   a device on another than its own), captured or not, is not allocated again,
 *   and is counted as captured. No event is recorded or queried for it, except
 *   what a default stream needs.
 *
 * While a pool for graphs records, records and frees ask the driver whether
 * their streams capture, as while a capture is announced (device.h); no memory
 * is returned to the driver, of whatever pool or of none; and page-locked
 * memory that is routed to a pool for graphs is never replaced by pageable
 * memory (WARM_ALLOC_PAGEABLE_OK).
 *
 * After the last release blocks that are still live stay usable, and are
 * returned when they are freed (except those that a capture uses from then on,
 * which are kept). All other memory is returned to the driver once work that is
 * queued on streams recorded outside of captures has finished, and once no
 * capture is under way. CUDA waits for the device then; still, replays must
 * have ended before the release, as before cudaGraphExecDestroy().
 *
 * WARM_POOL_USER: a pool for a program's own use, not for graphs. Its memory is
 * apart from all other, and otherwise behaves like that: frees wait for
 * streams, idle segments are returned when memory is short or the cache is
 * emptied. What is said above of captures does not apply to it.
 *
 * While any pool records, every allocation calls the filters, and the threads'
 * own caches are not used. While none records, an allocation pays one load for
 * all of this.
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

/* Flag: see above. */
#define WARM_POOL_USER 1u

/* Whether an allocation is for the pool: not 0 if it is. stream: the one that
 * memory of a device is allocated on; for page-locked memory the thread's
 * current stream (warm_thread_set_stream()). Called in the thread that
 * allocates, or that takes a handle for a stream that captures, or begins a
 * capture on it; with a lock held: it must not call the library, nor wait for a
 * thread that may. */
typedef int (*warm_pool_filter_fn)(void *context, warm_stream stream);

/* Routes allocations to a pool from now on, and takes a reference to it, which
 * warm_private_pool_release() drops.
 * pool: in and out; number 0 makes a new pool and stores its number.
 * flags: 0 or WARM_POOL_USER; the same every time.
 * filter: which allocations, with its context, until warm_private_pool_end();
 * null: those of the calling thread, whatever their stream.
 * If several pools record, the one that began last of those whose filters match
 * gets the allocation.
 * Status: INVALID_ARGUMENT also for a pool that records already, or was begun
 * with other flags; OUT_OF_MEMORY. Nothing has changed then. */
WARM_API warm_status warm_private_pool_begin(warm_runtime *runtime,
                                             warm_private_pool *pool,
                                             unsigned flags,
                                             warm_pool_filter_fn filter,
                                             void *context);

/* Ends the routing, and keeps all references. After it has returned the filter
 * is not called. To be called also for a capture that failed or was abandoned.
 * Status: INVALID_ARGUMENT for a pool that does not record. */
WARM_API warm_status warm_private_pool_end(warm_runtime *runtime,
                                           warm_private_pool pool);

/* Takes one more reference, for another graph for example. */
WARM_API warm_status warm_private_pool_retain(warm_runtime *runtime,
                                              warm_private_pool pool);

/* Drops a reference; after the last one the number names no pool.
 * Status: INVALID_ARGUMENT for the last one of a pool that records. */
WARM_API warm_status warm_private_pool_release(warm_runtime *runtime,
                                               warm_private_pool pool);

typedef struct warm_private_pool_info {
    size_t size;             /* sizeof(warm_private_pool_info) */
    uint64_t references;     /* at least 1 */
    uint64_t segments;       /* regions obtained from drivers for it */
    uint64_t held_bytes;     /* bytes of its segments */
    uint64_t live;           /* allocated blocks */
    uint64_t live_bytes;     /* bytes of live blocks */
    uint64_t captured;       /* freed blocks that are kept for graphs */
    uint64_t captured_bytes; /* bytes of captured blocks */
    int recording;           /* 1: allocations are routed to it */
} warm_private_pool_info;

WARM_API warm_status warm_private_pool_get_info(warm_runtime *runtime,
                                                warm_private_pool pool,
                                                warm_private_pool_info *info);

/* Sets the stream for which the calling thread allocates page-locked memory, as
 * filters see it; at first it is null, the legacy default stream. It is used
 * only while a pool of that runtime records; the stream is only compared, and
 * the driver asked whether it captures. Status: OUT_OF_MEMORY. */
WARM_API warm_status warm_thread_set_stream(warm_runtime *runtime,
                                            warm_stream stream);

#ifdef __cplusplus
}
#endif
#endif
