/* warmpool/memory.h: pinned buffers that stay safe (rows B1 to B16).
 *
 * warm_pinned_alloc() hands out page-locked host memory from a cache. When
 * work queued on a stream uses a buffer, say so with warm_record_stream() (or
 * use warm_copy_async(), which does it by itself); the buffer can then be
 * freed at once, and is handed out again only after that work has finished.
 *
 * Sizes. Requests are rounded to size classes, eight to a doubling: at most
 * 12.5 % above the request from 4 KiB on, and to whole pages from 4 MiB on.
 * Smaller ones are rounded to a multiple of 512 bytes. Blocks are aligned to
 * 512 bytes, those of whole pages to 4096. Memory is not cleared.
 *
 * Any thread may call any function, and free what another has allocated.
 * Common status: INVALID_ARGUMENT, RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_MEMORY_H
#define WARMPOOL_MEMORY_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates bytes of page-locked memory.
 * pointer: owned, given back with warm_free(); null for 0 bytes (row B1).
 * Status: OUT_OF_MEMORY (row B12), after finished work has been collected,
 * idle segments given back and the memory callbacks asked; the message says
 * how much was asked, held, idle and pending. Nothing has changed then.
 * A miss calls the driver and can take milliseconds; where it gives segments
 * back (memory is short, or option decay_ms), CUDA waits for the device. */
WARM_API warm_status warm_pinned_alloc(warm_runtime *runtime, size_t bytes,
                                       void **pointer);

/* Frees a block of any runtime (rows B1, B2, B4).
 * pointer: taken; the start of a live block, or null (nothing happens).
 * Status: INVALID_POINTER (not one of ours, not the start of a block, or freed
 * already; nothing changes). Errors of the driver are not reported here: the
 * block is then kept for ever and counted as lost.
 * May record events on the streams recorded; never waits for a stream, unless
 * the driver fails to record. */
WARM_API warm_status warm_free(void *pointer);

/* Says that work queued on stream uses the block that holds pointer, which
 * may point into its middle (row B3).
 * stream: must live until the block is freed or the stream is retired. For
 * WARM_STREAM_PER_THREAD the stream of the calling thread is meant, and if
 * another thread frees the block, work queued up to this call.
 * Status: NOT_FOUND (not part of a live block; nothing changes),
 * INVALID_STREAM, OUT_OF_MEMORY, DRIVER_ERROR. */
WARM_API warm_status warm_record_stream(const void *pointer,
                                        warm_stream stream);

/* Says that a stream will be destroyed (row B6): to be called before
 * cudaStreamDestroy() on every stream that was recorded on a block still
 * live, or bound to a handle, for every runtime where it was.
 * warm_stream_destroy() does it by itself, for its own runtime. */
WARM_API warm_status warm_stream_retire(warm_runtime *runtime,
                                        warm_stream stream);

typedef enum warm_copy_direction {
    WARM_COPY_TO_DEVICE = 1, /* the values of cudaMemcpyKind */
    WARM_COPY_TO_HOST = 2
} warm_copy_direction;

/* Queues a copy and records the stream on whichever of the two is, or lies
 * in, a block of ours (row B16). Memory that is not ours must stay valid
 * until the copy has finished. bytes 0 does nothing.
 * Status: INVALID_ARGUMENT (null pointer, range passes the end of a block),
 * INVALID_STREAM, DRIVER_ERROR. */
WARM_API warm_status warm_copy_async(warm_runtime *runtime, void *destination,
                                     const void *source, size_t bytes,
                                     warm_copy_direction direction,
                                     warm_stream stream);

/* Takes back blocks whose streams have passed, and gives back segments idle
 * for longer than option decay_ms (not while another thread grows the cache).
 * Allocation does this by itself when it misses. Never waits for a stream;
 * giving a segment back to CUDA waits for the whole device (cudaFreeHost), here
 * and in the next two.
 * Status of all three: also DRIVER_ERROR (the driver did not let the thread
 * set its capture mode; nothing was done). */
WARM_API warm_status warm_poll(warm_runtime *runtime);

/* Returns every segment without live or pending blocks to the system (row
 * B11). Waits while another thread obtains memory. released: bytes returned,
 * may be null. */
WARM_API warm_status warm_empty_cache(warm_runtime *runtime, size_t *released);

/* As warm_empty_cache(), but stops once at most target bytes are held;
 * largest idle segments first. */
WARM_API warm_status warm_trim(warm_runtime *runtime, size_t target,
                               size_t *released);

/* Called when memory is short, before an allocation fails (row B12), with
 * bytes asked; answers whether a retry is worthwhile. No lock is held: it may
 * free blocks. It must not allocate from the same runtime. */
typedef int (*warm_memory_fn)(void *context, size_t bytes);
WARM_API warm_status warm_memory_callback_add(warm_runtime *runtime,
                                              warm_memory_fn function,
                                              void *context);
/* NOT_FOUND: that pair was not registered. A call under way may still run. */
WARM_API warm_status warm_memory_callback_remove(warm_runtime *runtime,
                                                 warm_memory_fn function,
                                                 void *context);

typedef struct warm_block_info {
    size_t size;      /* sizeof(warm_block_info) */
    void *base;       /* first address of the block */
    size_t bytes;     /* bytes handed out */
    size_t requested; /* bytes asked for */
    warm_runtime *runtime;
    unsigned streams; /* streams recorded so far */
} warm_block_info;

/* Describes the live block that holds pointer. Status: NOT_FOUND. */
WARM_API warm_status warm_block_get_info(const void *pointer,
                                         warm_block_info *info);

#ifdef __cplusplus
}
#endif
#endif
