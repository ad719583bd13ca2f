/* warmpool/memory.h: pinned buffers that stay safe.
 *
 * warm_pinned_alloc() hands out page-locked host memory from a cache. When
 * work queued on a stream uses a buffer, say so with warm_record_stream() (or
 * use warm_copy_async(), which does it by itself); the buffer can then be
 * freed at once, and is handed out again only after that work has finished.
 *
 * Sizes. Requests are rounded to size classes, eight to a doubling: at most
 * 12.5 % above the request from 4 KiB on, and to whole pages from 4 MiB on.
 * Smaller ones are rounded to a multiple of 512 bytes. Where the thread has
 * nothing idle of a class one of the next two serves, within the same 12.5 %,
 * or for a smaller request up to 1024 bytes more; warm_block_get_info() tells.
 * Blocks are aligned to 512 bytes, those of whole pages to 4096. Memory is not
 * cleared.
 *
 * Nodes. On a machine with several NUMA nodes every node has a cache of its
 * own. Nodes have the operating system's numbers, as in numactl, in CUDA's
 * HOST_NUMA_ID and in warm_device_info.numa_node. A thread's own node is that
 * of the device that it uses: of the handle that it reserved last and did not
 * hold yet (warm_handle_reserve(), warm_stream_reserve()); before it has any,
 * of its current CUDA device when it first allocates. On one node nothing is
 * asked.
 *
 * Threads. Each keeps blocks that it frees ready for itself (options
 * magazines, magazine_blocks, magazine_bytes): a request that finds one there,
 * and a free without streams, takes no lock and calls nothing. Before the
 * cache grows, and before a request fails, that is taken back from all
 * threads; when one exits or calls warm_thread_release() it goes back as well.
 * Below that threads share an arena for each node, and part into several (at
 * most option arenas, 0: a CPU each) once they meet there often; given a number
 * they part from the first. Any thread is served from all of them before the
 * cache grows.
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
 * pointer: owned, given back with warm_free(); null for 0 bytes.
 * Status: OUT_OF_MEMORY, after finished work has been collected, idle segments
 * given back and the memory callbacks asked; the message says how much was
 * asked, held, live, idle and pending; DRIVER_ERROR (it failed for any other
 * reason: the thread's capture mode could not be set, or a region not be placed
 * on its node), UNSUPPORTED (its memory is at an address above 48 bits; or the
 * thread's CUDA context is not a primary one, see runtime.h). Nothing has
 * changed then. A miss calls the driver and can take milliseconds, or waits for
 * the growth of another thread that has room for it; hits and other threads go
 * on. Where it gives segments back (memory is short, or option decay_ms, or a
 * request larger than option segment grows in place of idle ones that are too
 * small for it), CUDA waits for the device. */
WARM_API warm_status warm_pinned_alloc(warm_runtime *runtime, size_t bytes,
                                       void **pointer);

#define WARM_NODE_ANY (-1)

/* Flag: pageable memory will do where page-locked memory cannot be had, that is
 * where the call would end with OUT_OF_MEMORY: also at option pinned_limit, and
 * on a node that is full. Then, and only then, the block is pageable, of no
 * node in particular: warm_block_info tells, and so do the statistics, apart
 * from all page-locked memory. While the driver has none it is not asked every
 * time: after 1, then 3, 7, … at most 63 requests with the flag, or at once
 * after warm_pinned_trim(). The block is freed, recorded on and kept from reuse
 * as every block; its pages go back to the system as soon as it is free and the
 * streams recorded on it have passed.
 *
 * CUDA copies from and to pageable memory, but not asynchronously: a copy to
 * the device may return late, one to the host returns when it is done. A
 * kernel cannot use the memory unless the device can access pageable memory. */
#define WARM_ALLOC_PAGEABLE_OK 1u

/* Allocates bytes of page-locked memory of a node.
 * node: of the machine; no other will do. WARM_NODE_ANY: as
 * warm_pinned_alloc(), the thread's own node, and where that can get no more
 * memory another one, which warm_block_info tells and the statistics count as
 * spilled.
 * flags: 0 or WARM_ALLOC_PAGEABLE_OK.
 * Status: as warm_pinned_alloc(), where OUT_OF_MEMORY may mean that the node
 * is full; INVALID_ARGUMENT also for a node without memory to page-lock, such
 * as a GPU's own, and for one that this process may not use. */
WARM_API warm_status warm_pinned_alloc_on(warm_runtime *runtime, size_t bytes,
                                          int node, unsigned flags,
                                          void **pointer);

/* Nodes are numbered 0 … count - 1, perhaps with gaps. 1 where memory cannot
 * be placed: a container may refuse mbind(), which is logged. */
WARM_API warm_status warm_node_count(warm_runtime *runtime, int *count);

/* Frees a block of any runtime.
 * pointer: taken; the start of a live block, or null (nothing happens).
 * Status: INVALID_POINTER (not one of ours, not the start of a block, or freed
 * already), RUNTIME_GONE (the block was in use when its runtime was destroyed:
 * it stays usable, and is never given back); nothing changes then. Where two
 * threads free one block in the very same moment both may be told OK: one of
 * the two counts, and double_frees (warm_space_stats) tells of the other. A
 * second free that comes when the block was handed out again is one by its new
 * owner. Errors of the driver are not reported here: the block is then kept for
 * ever and counted as lost. May record events on the streams recorded, and asks
 * about earlier ones; on adopted streams once for many frees. Never waits for a
 * stream, unless the driver fails to record. */
WARM_API warm_status warm_free(void *pointer);

/* Says that work queued on stream uses the block that holds pointer, which
 * may point into its middle. No driver call if the stream is adopted and no
 * capture is announced.
 * stream: must live until the block is freed or the stream is retired; if the
 * block is freed while the stream captures, until the stream is retired, or
 * warm_capture_end() or warm_capture_announce_end() has ended an announced
 * capture. For WARM_STREAM_PER_THREAD the stream of the calling thread is
 * meant, and if another thread frees the block, work queued up to this call. A
 * thread that exits while its own default stream captures, or while that is of
 * another device than the thread's current one, leaves blocks behind for which
 * no event can be recorded any more: they are kept for ever, and counted as
 * lost.
 * Captures. A record that is made while the stream captures says that the graph
 * uses the block, also where it was recorded before, or is a device's and was
 * allocated on that very stream. Such a block is kept once it is freed: while
 * its private pool lives, or until the process exits if it is of none; the
 * first one is logged. A block that was only recorded before the capture, and
 * is freed during it, waits for the end of the capture, and for the work that
 * was queued before it.
 * Status: NOT_FOUND (not part of a live block; nothing changes),
 * INVALID_STREAM, UNSUPPORTED (the stream's CUDA context is not a primary one,
 * see runtime.h), OUT_OF_MEMORY, DRIVER_ERROR. */
WARM_API warm_status warm_record_stream(const void *pointer,
                                        warm_stream stream);

/* Adopts a stream of the program: recording it and freeing what it used becomes
 * cheap, since the library may trust that it is there. Frees then share events,
 * which are recorded later than the frees, and a record calls no driver. The
 * streams of warm_stream_create() and warm_stream_reserve() are adopted from
 * birth. The caller promises two things:
 * - warm_stream_retire() is called before the stream is destroyed, also for
 *   one adopted from birth that the program destroys by itself. Else blocks
 *   that it used are lost, or CUDA is given a stream that is gone;
 * - captures on it are announced: warm_capture_begin() does, for those that
 *   begin otherwise see warm_capture_announce() (device.h). While no capture
 *   is announced, and no private pool for graphs records, warm_record_stream()
 *   does not ask whether the stream captures: a block that such a capture uses
 *   is not kept for its graph. Where a batch of frees is to get its event while
 *   the capture is under way, all blocks of that batch are kept for ever and
 *   counted as captured; a warning says so, once.
 * How long frees may wait for their event: options batch_count, batch_bytes
 * and batch_ms, the last one looked at by calls that miss the cache, by
 * warm_poll() and by the thread of option background; an allocation that would
 * otherwise obtain memory waits for none of these. Adopting it again does
 * nothing. Calls the driver. Status: INVALID_ARGUMENT (a default stream: one
 * name for several streams), INVALID_STREAM, UNSUPPORTED (its CUDA context is
 * not a primary one), CAPTURE_ERROR (it captures), OUT_OF_MEMORY,
 * DRIVER_ERROR. */
WARM_API warm_status warm_stream_adopt(warm_runtime *runtime,
                                       warm_stream stream);

/* Says that a stream will be destroyed: to be called before cudaStreamDestroy()
 * on every stream that was adopted, recorded on a block still live or freed
 * while the stream captured, or bound to a handle, for every runtime where it
 * was. A stream that goes on is adopted no more, and is announced to capture no
 * more. warm_stream_destroy() does it by itself, for its own runtime. Handles
 * that are idle, on lease or held by the calling thread, and bound to it, are
 * bound to the default stream instead: a library may look at the stream of a
 * handle that is bound anew or destroyed. Other threads do that with what they
 * hold, by binding it to another stream or giving it back, before. Calls the
 * driver, and waits for the stream if it can record no event there.
 * Status: INVALID_STREAM (unknown to the driver), DRIVER_ERROR (the driver does
 * not tell which it is); nothing changes then. */
WARM_API warm_status warm_stream_retire(warm_runtime *runtime,
                                        warm_stream stream);

typedef enum warm_copy_direction {
    WARM_COPY_TO_DEVICE = 1, /* the values of cudaMemcpyKind */
    WARM_COPY_TO_HOST = 2
} warm_copy_direction;

/* Queues a copy and records the stream on whichever of the two is, or lies
 * in, a block of ours. Memory that is not ours must stay valid until the copy
 * has finished. bytes 0 does nothing.
 * Status: INVALID_ARGUMENT (null pointer, range passes the end of a block),
 * INVALID_STREAM, OUT_OF_MEMORY (no record of the use), CAPTURE_ERROR (a
 * default stream beside a capture of others), DRIVER_ERROR; nothing is queued
 * then, though stream may be recorded by the last three. Does not wait, unless
 * the driver does so for memory that is not page-locked. */
WARM_API warm_status warm_copy_async(warm_runtime *runtime, void *destination,
                                     const void *source, size_t bytes,
                                     warm_copy_direction direction,
                                     warm_stream stream);

/* Takes back blocks whose streams have passed, and gives back segments idle
 * for longer than option decay_ms.
 * Allocation does this by itself when it misses; with option background its
 * thread does, and a miss gives nothing back for its age. Never waits for a
 * stream; giving a segment back to CUDA waits for the whole device
 * (cudaFreeHost), here and in the next two. While a stream is known to capture
 * (warm_capture_announce()) none goes back; it does at a later call.
 * Status of all three: also DRIVER_ERROR (the driver did not let the thread
 * set its capture mode; nothing was done). */
WARM_API warm_status warm_poll(warm_runtime *runtime);

/* Returns every segment without live or pending blocks to the system, the
 * reserve among them; with option background it comes back once an allocation
 * finds it short. released: bytes returned, may be null. */
WARM_API warm_status warm_pinned_empty_cache(warm_runtime *runtime,
                                             size_t *released);

/* As warm_pinned_empty_cache(), but stops once at most target bytes are held;
 * largest idle segments first. Both calls, and those of a device
 * (device_memory.h), also destroy the events that a burst of frees left, and
 * free most of what is kept for threads to come. */
WARM_API warm_status warm_pinned_trim(warm_runtime *runtime, size_t target,
                                      size_t *released);

/* Obtains page-locked memory ahead of its first use, until at least bytes are
 * idle in the cache of node; freed blocks whose streams have finished by then
 * count. Memory that is allocated meanwhile is replaced only within bytes a
 * call. It comes in regions of at most option pin_chunk, and of half as much,
 * and so on down to a segment, where the driver refuses; a request larger than
 * a region is not served from several.
 * node: of the machine, or WARM_NODE_ANY: as in warm_pinned_alloc(). flags: 0,
 * or WARM_PREWARM_BACKGROUND: returns at once and lets a thread of the runtime
 * obtain it; if memory for that node is being obtained already the larger wish
 * holds. bytes 0 asks for nothing.
 * Status: OUT_OF_MEMORY (what could be had stays, and the message says how much
 * is idle), INVALID_ARGUMENT (node, flags), DRIVER_ERROR, UNSUPPORTED, as for
 * warm_pinned_alloc(); in the background only: no thread; other failures are
 * told by warm_pinned_prewarm_wait(). */
WARM_API warm_status warm_pinned_prewarm(warm_runtime *runtime, size_t bytes,
                                         int node, unsigned flags);

/* Waits until no memory is left to be obtained in the background.
 * Status: the first failure since the last call; INVALID_ARGUMENT from a
 * callback of a kind, for the log, or for memory that is short. */
WARM_API warm_status warm_pinned_prewarm_wait(warm_runtime *runtime);

/* Cancels the memory that is left to be obtained in the background. The region
 * that is being obtained is finished; warm_pinned_prewarm_wait() waits for it.
 * Destroying the runtime does both. */
WARM_API warm_status warm_pinned_prewarm_cancel(warm_runtime *runtime);

/* Progress of prewarming: done of wanted bytes, summed over the calls since
 * nothing was in progress, also after their end. No lock is held while memory
 * is obtained: returns at once. */
WARM_API warm_status warm_pinned_prewarm_progress(warm_runtime *runtime,
                                                  uint64_t *done,
                                                  uint64_t *wanted);

/* Called when memory is short, page-locked or of a device, before an allocation
 * fails, with bytes asked; answers whether a retry is worthwhile. No lock is
 * held: it may free blocks. It must not allocate from the same runtime: what
 * its thread does not find idle at once is refused with INVALID_ARGUMENT, and
 * nothing changes. At most 16 at once, asked in no order that is promised; a
 * pair that is added twice is asked twice.
 * Status: INVALID_ARGUMENT (also: function null, one too many). */
typedef int (*warm_memory_fn)(void *context, size_t bytes);
WARM_API warm_status warm_memory_callback_add(warm_runtime *runtime,
                                              warm_memory_fn function,
                                              void *context);
/* Removes one such pair. NOT_FOUND: it was not registered. A call of it that
 * another thread has begun may still run. */
WARM_API warm_status warm_memory_callback_remove(warm_runtime *runtime,
                                                 warm_memory_fn function,
                                                 void *context);

typedef struct warm_block_info {
    size_t size;      /* sizeof(warm_block_info) */
    void *base;       /* first address of the block */
    size_t bytes;     /* bytes handed out */
    size_t requested; /* bytes asked for */
    warm_runtime *runtime;
    unsigned streams; /* recorded so far, but for those that were retired and
                         whose work is known to have passed */
    int node;         /* its memory is of; -1 if it is pageable */
    int pageable;     /* 1: not page-locked, as the caller allowed */
    int device;       /* whose memory it is; -1 for memory of the host */
    warm_private_pool pool; /* that its memory is of; number 0: of none */
} warm_block_info;

/* Describes the live block that holds pointer. Status: NOT_FOUND. */
WARM_API warm_status warm_block_get_info(const void *pointer,
                                         warm_block_info *info);

#ifdef __cplusplus
}
#endif
#endif
