/* warmpool/pause.h: memory of devices that gives its physical pages back and
 * keeps its addresses.
 *
 * A trainer and an inference engine that share a GPU do not need their memory
 * at the same time. What one of them allocates with a tag can be paused: its
 * pages go back to the driver, for any process, while its blocks stay
 * allocated. When it is resumed pages are mapped again at the same addresses,
 * with the saved contents or, if these were dropped, with undefined ones; every
 * pointer, and every graph that was captured with it, is valid again.
 *
 * The tag is a private pool (private_pool.h) for the program's own use, begun
 * with WARM_POOL_PAUSABLE; what is allocated while it records has the tag:
 *
 *   warm_private_pool weights = {0};
 *
 *   warm_private_pool_begin(runtime, &weights,
 *                           WARM_POOL_USER | WARM_POOL_PAUSABLE, NULL, NULL);
 *     … warm_device_alloc() …
 *   warm_private_pool_end(runtime, weights);
 *     …
 *   warm_memory_pause(runtime, weights, 0);
 *     … others have the memory …
 *   warm_memory_resume(runtime, weights);
 *
 * Only memory of devices is paused, of all devices; page-locked memory that was
 * routed to the pool is not touched. It works on devices with virtual memory
 * management. There a segment of the pool is a range of addresses with memory
 * mapped into all of it, so
 *   - it is mapped for all devices that can be peers of its own one
 *     (cudaDeviceCanAccessPeer()), so that these copy it and use it in kernels.
 *     For other devices CUDA refuses cudaMemcpyAsync() of such memory
 *   - it cannot be shared with other processes (ipc.h)
 *   - to obtain and return a segment takes CUDA longer than cudaMalloc() and
 *     cudaFree() do: 206 us instead of 19 us for 2 MiB, on an H200
 *
 * While memory is paused
 * - using it is the caller's error: on CUDA an access faults;
 * - warm_free() of its blocks works. A segment that has no block in use when
 *   the memory is resumed is not mapped again;
 * - warm_device_alloc() that is routed to the pool fails with UNAVAILABLE;
 *   page-locked memory is allocated there as ever;
 * - snapshots and warm_block_get_info() show its blocks as before;
 * - paused_bytes (device_memory.h) counts its bytes, held_bytes does not, and
 *   they do not count toward the watermarks of the device; saved contents are
 *   page-locked memory, and count as such;
 * - the pool's last reference cannot be dropped (INVALID_ARGUMENT).
 * Segment callbacks (memory.h) are called for each segment that is unmapped
 * (RETURNING), and mapped again (OBTAINED, with a new id, before its contents
 * are back). A runtime can be destroyed meanwhile: saved contents are freed,
 * and blocks that are still live are reported and stay without memory.
 *
 * Any thread may call. Common status: NOT_FOUND (no such pool), RUNTIME_GONE,
 * FORKED, EXITING; INVALID_ARGUMENT (from a callback of the library; another
 * thread pauses or resumes the pool).
 */
#ifndef WARMPOOL_PAUSE_H
#define WARMPOOL_PAUSE_H

#include "warmpool/private_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flag: the contents are dropped instead of saved to page-locked memory. */
#define WARM_PAUSE_DROP 1u

/* Pauses the memory of a pool. Its idle memory is returned, and is not mapped
 * again. What is in use is copied to page-locked memory, unless flags say
 * otherwise, and unmapped.
 * tag: the pool, which may be recording.
 * flags: 0 or WARM_PAUSE_DROP.
 * Blocking: waits for requests that are routed to the pool, and for all work
 * queued on the devices that have memory of it. No work that uses the memory
 * may be queued meanwhile.
 * Status: INVALID_ARGUMENT also for a pool that is paused, and unknown flags;
 * UNSUPPORTED (begun without WARM_POOL_PAUSABLE, or a device that has memory of
 * it has no virtual memory management); CAPTURE_ERROR (a stream is known to
 * capture, warm_capture_announce()); NOT_READY (a test holds a stream of the
 * host device; or a request in the pool lasts for more than 10 s);
 * OUT_OF_MEMORY (for the saved contents), DRIVER_ERROR. After a failure the
 * memory is mapped and has its contents, except that with WARM_PAUSE_DROP what
 * was unmapped before the driver failed has lost them. If that memory cannot be
 * mapped again, because others have it by then, the pool is paused in spite of
 * the status, as the message says; call warm_memory_resume() later. */
WARM_API warm_status warm_memory_pause(warm_runtime *runtime,
                                       warm_private_pool tag, unsigned flags);

/* Maps the memory of a paused pool again, with its saved contents.
 * Blocking: returns idle memory of the device where the driver or a watermark
 * has too little room; waits for its own copies.
 * Status: INVALID_ARGUMENT also for a pool that is not paused; CAPTURE_ERROR,
 * OUT_OF_MEMORY (the driver has less memory, or a watermark leaves no room),
 * DRIVER_ERROR: the pool stays paused with its saved contents, and the call can
 * be repeated. But after a reset of a device (DRIVER_ERROR, runtime.h) the pool
 * is not paused any more: its memory of that device is lost, and that of others
 * is mapped, with its contents if all of them could be copied. */
WARM_API warm_status warm_memory_resume(warm_runtime *runtime,
                                        warm_private_pool tag);

#ifdef __cplusplus
}
#endif
#endif
