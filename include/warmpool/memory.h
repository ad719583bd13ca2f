/* warmpool/memory.h: pinned buffers that stay safe.
 *
 * warm_pinned_alloc() allocates page-locked host memory from a cache. When work
 * queued on a stream uses a buffer, call warm_record_stream(), or use
 * warm_copy_async(), which records by itself. The buffer can then be freed at
 * once, and is allocated again only after that work has finished.
 *
 * Sizes. Requests are rounded up to size classes, eight to a doubling: by at
 * most 12.5 % from 4 KiB on, and to whole pages from 4 MiB on. Smaller ones are
 * rounded to a multiple of 512 bytes. If the thread has cached no block of a
 * class, it uses one of up to twice the size of the request, at most 1 MiB
 * more, rather than obtain memory; warm_block_get_info() returns the actual
 * size. Blocks are aligned to 512 bytes, those of whole pages to 4096.
 * Memory is not cleared.
 *
 * Pieces. No call page-locks more than option pin_chunk: some kernels and
 * drivers refuse more, and the driver holds a lock during the call. A larger
 * block is one range of addresses, locked in pieces of at most pin_chunk; a
 * block of at most pin_chunk (rounded up as above) is never cut. CUDA refuses a
 * copy whose range of host memory lies in more than one piece ("invalid
 * argument"): warm_copy_async() and warm_copy_2d_async() split it. For copies
 * of your own, warm_block_get_piece() returns the pieces, and
 * warm_pinned_alloc_rows() cuts between rows only. A block in pieces is mapped
 * and registered even with option pin:alloc, since cudaHostAlloc() cannot
 * allocate one piece behind another. But where the driver cannot register
 * memory (GH200, GB200, confidential computing: options.h), pin:alloc and
 * pin:auto allocate the block by one call, uncut. If a piece is refused the
 * request fails, and the pieces before it are returned; while a stream captures
 * no memory can be returned, and these pieces stay as idle memory until later.
 *
 * Nodes. On a machine with several NUMA nodes every node has its own cache.
 * Nodes have the operating system's numbers, as in numactl, in CUDA's
 * HOST_NUMA_ID and in warm_device_info.numa_node. A thread's own node is that
 * of its device: of the handle that it reserved last and did not hold before
 * (warm_handle_reserve(), warm_stream_reserve()); before its first handle, of
 * the CUDA device that is current when it first allocates. With one node the
 * driver is not queried.
 *
 * Threads. Each thread caches the blocks that it frees: a request that finds a
 * block there, and a free of a block without streams, take no lock and call no
 * driver. Together they cache a part of what the program needs (option keep;
 * with keep:off nothing), each at most 256 MiB. All caches, also
 * those of threads that do nothing, are flushed before the runtime obtains
 * memory above its bound (option slack) and before a request fails; a thread's
 * own also when it calls warm_thread_release(). When a thread exits, the next
 * thread gets its cache, unless the memory is needed before. Behind the
 * caches all threads share one arena for each node, and are distributed over
 * several once they contend often (at most one for each CPU). A request
 * may be served by any arena before the runtime obtains memory.
 *
 * Forks. A forked child does not get page-locked memory, which the first write
 * after the fork would move away from under a device: the regions are marked by
 * madvise(MADV_DONTFORK). An access to them ends the child by SIGSEGV. What is
 * registered is marked before it is locked. cudaHostAlloc() maps and locks in
 * one call, so that a fork beside it, before that memory is marked, gives the
 * child the pages, which the parent must not write until the child has called
 * exec() or ended; with option pin:register this concerns write-combined memory
 * alone.
 *
 * Any thread may call any function, and free what another thread allocated.
 * Common status: INVALID_ARGUMENT, RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_MEMORY_H
#define WARMPOOL_MEMORY_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates bytes of page-locked memory.
 * pointer: owned, ended with warm_free(); null for 0 bytes.
 * Status (nothing has changed then): OUT_OF_MEMORY, after warmpool has
 * collected completed frees, returned idle segments, called the memory
 * callbacks and, at a limit, waited (option limit_wait_ms); the message has the
 * bytes requested, held, live, idle and pending, and names the limit that was
 * met, its value and what to do: of the process (RLIMIT_MEMLOCK, RLIMIT_AS), of
 * a cgroup, of the machine or a node, of the kernel, else the driver's own.
 * DRIVER_ERROR (any other failure of the driver, such as to set the thread's
 * capture mode or to place a region on its node), UNSUPPORTED (the driver's
 * memory lies above 48 bits of address; or the thread's CUDA context is not a
 * primary one, see runtime.h).
 * Blocking. A request that misses the cache calls the driver and can take
 * milliseconds, or waits for another thread's driver call whose memory has room
 * for it; hits and other threads do not wait. If it returns segments (memory is
 * short, or option decay_ms says so, or a request larger than option segment
 * replaces idle segments that are too small for it), CUDA waits for the device.
 */
WARM_API warm_status warm_pinned_alloc(warm_runtime *runtime, size_t bytes,
                                       void **pointer);

#define WARM_NODE_ANY (-1)

/* Flag: the block may be pageable if the call would otherwise end with
 * OUT_OF_MEMORY, also because of option pinned_high or a full node. Only then
 * is it pageable, on no particular node: warm_block_info says so, and the
 * statistics count it apart from page-locked memory. While the driver has no
 * memory not every request calls it: it is called again after 1, then 3, 7, …
 * at most 63 requests with the flag, or at once after warm_pinned_trim(). The
 * block is freed, recorded and kept stream-safe like any other; its pages
 * return to the system as soon as it is free and the streams recorded on it
 * have completed.
 *
 * CUDA copies from and to pageable memory, but not asynchronously: a copy to
 * the device may return late, one to the host returns when it is done. A
 * kernel cannot use the memory unless the device can access pageable memory. */
#define WARM_ALLOC_PAGEABLE_OK 1u

/* Flag: write-combined memory, as cudaHostAllocWriteCombined. Writes of the
 * host go past its caches, so that a device may read the memory faster; reads
 * of the host are slow. For buffers that the host only writes, from the first
 * byte to the last. Only requests with the flag get such memory, and they get
 * no other: once freed it stays idle for the next one, until it is trimmed. It
 * is locked by cudaHostAlloc() alone, whatever option pin says: on no
 * particular node, with no huge pages asked for, and never in pieces. Threads
 * do not cache it, so that each call takes a lock; private pools and prewarming
 * do not serve it, so that what a captured graph uses leaks when it is freed.
 * It counts in the statistics and limits of pinned memory, but in none of a
 * node or class, and in no histogram; a snapshot lists it with the first node.
 * The host device has no such memory: there it is ordinary memory, kept apart
 * all the same. */
#define WARM_ALLOC_WRITE_COMBINED 2u

/* Flag: every device must be able to access the memory, as
 * cudaHostAllocMapped. All page-locked memory is portable and mapped anyway,
 * and with unified addressing, as on 64-bit Linux, at the same address for host
 * and devices: the flag only makes the call fail where a device cannot map
 * memory of the host. The call takes the way of one that misses the thread's
 * cache. */
#define WARM_ALLOC_MAPPED 4u

/* Allocates bytes of page-locked memory of a node.
 * node: only this node serves the request. WARM_NODE_ANY: the thread's own
 * node, as for warm_pinned_alloc(); if that node has no more memory another
 * node, which warm_block_info names; the statistics count the block as spilled.
 * flags: 0, WARM_ALLOC_PAGEABLE_OK, or any of WARM_ALLOC_WRITE_COMBINED (then
 * node is WARM_NODE_ANY) and WARM_ALLOC_MAPPED, joined by |.
 * Status: as warm_pinned_alloc(); OUT_OF_MEMORY also if the node is full;
 * INVALID_ARGUMENT also for a node whose memory cannot be page-locked, such as
 * a GPU's own, and for a node that this process may not use, and for flags that
 * do not go together; UNSUPPORTED also for WARM_ALLOC_MAPPED on a device that
 * cannot map memory. */
WARM_API warm_status warm_pinned_alloc_on(warm_runtime *runtime, size_t bytes,
                                          int node, unsigned flags,
                                          void **pointer);

/* Most bytes of an alignment. */
#define WARM_ALIGNMENT_MAX ((size_t)64 << 20)

/* warm_pinned_alloc() for a block that begins at a multiple of alignment.
 * alignment: bytes, a power of two up to WARM_ALIGNMENT_MAX. Up to 512, and up
 * to 4096 for 28673 bytes or more, the call costs what warm_pinned_alloc()
 * costs, since every block is aligned so; else it takes at least one lock, and
 * uses no block that a thread has cached. The block has as many bytes as bytes
 * rounded up to whole pages, or up to alignment if that is less than a page,
 * and at most 12.5 % more. Once freed, the block serves any request. For a
 * moment an alignment above 4096 takes up to alignment more bytes, and 32 KiB,
 * from what is idle or from the driver, and counts them in peaks. If these
 * bytes together are more than option pin_chunk, the block may have several
 * pieces. flags: as for warm_pinned_alloc_on(). Status: as
 * warm_pinned_alloc_on(); INVALID_ARGUMENT also for an alignment that is no
 * power of two up to WARM_ALIGNMENT_MAX; UNSUPPORTED also if the block would
 * need several pieces, and pin_chunk is less than twice the alignment. */
WARM_API warm_status warm_pinned_alloc_aligned(warm_runtime *runtime,
                                               size_t bytes, size_t alignment,
                                               unsigned flags, void **pointer);

/* warm_pinned_alloc() for a block of rows, one behind the other, the first at
 * the start of the block. If the block has several pieces, each but the last
 * ends between two rows: the size of a piece is a multiple of both row and page
 * size.
 * row: bytes of a row, at least 1; bytes need not be a multiple of it.
 * Status: as warm_pinned_alloc(); INVALID_ARGUMENT also if row is 0, or if the
 * block needs several pieces and the least common multiple of row and page size
 * is above option pin_chunk: pad the rows then. */
WARM_API warm_status warm_pinned_alloc_rows(warm_runtime *runtime, size_t bytes,
                                            size_t row, void **pointer);

/* Counts the NUMA nodes, which are numbered 0 … count - 1, perhaps with gaps (a
 * number in a gap counts too). The count is 1 if memory cannot be placed: a
 * container may refuse mbind(), which is logged. */
WARM_API warm_status warm_node_count(warm_runtime *runtime, int *count);

/* Frees a block of any runtime. Never waits for a stream, unless the driver
 * fails to record an event. May record events on the recorded streams (for
 * adopted streams a single event for many frees) and query earlier events.
 * pointer: taken; the start of a live block, or null (nothing happens).
 * Status (nothing has changed then): INVALID_POINTER (not one of warmpool's,
 * not the start of a block, or freed already), RUNTIME_GONE (the block was in
 * use when its runtime was destroyed: it stays usable, and is never freed). If
 * two threads free one block at the same moment both may get OK: one free
 * counts, and double_frees (warm_space_stats) counts the other. A second free
 * after the block was allocated again frees the new owner's block. Driver
 * errors are not returned: the block then leaks and counts as lost. */
WARM_API warm_status warm_free(void *pointer);

/* Frees a block as cudaFree() and cudaFreeHost() do, but without their wait:
 * its memory is allocated again only after all work has finished that was
 * queued before the call on
 * - the adopted streams of the block's device; for memory of the host, of all
 *   devices;
 * - the default streams of these devices, and every stream that waits for the
 *   legacy default stream, adopted or not;
 * - streams recorded on the block, as with warm_free().
 * A stream that was made with cudaStreamNonBlocking and is not adopted, or has
 * retired, is not known: adopt it, or record it before it retires. Nor are
 * per-thread default streams of the host device, where no stream waits for the
 * legacy one. A device that the process has not used yet gets no context.
 * Cost. A record for each adopted stream, which calls no driver; an event for
 * each device's legacy stream, for which CUDA makes the streams that wait for
 * it wait for each other, as any work on that stream does. Where the use of a
 * block is known, warm_record_stream() and warm_free() are better.
 * Captures. While a stream captures, what is queued on it belongs to its graph
 * and is not waited for; the block is allocated again only after the end of the
 * capture. It must not be a block that the graph uses.
 * Status: as warm_free(); also OUT_OF_MEMORY (for a record), DRIVER_ERROR,
 * UNSUPPORTED: the block is live then, and streams may have been recorded. */
WARM_API warm_status warm_free_deferred(void *pointer);

/* Whether pointer lies in a live block of any runtime of this process, for code
 * that must choose between warm_free() and another free. 1 or 0; takes no lock,
 * calls no driver, and sets no error. pointer: any value. Memory of another
 * process (ipc.h), and of a runtime that was destroyed, is in no block. */
WARM_API int warm_owns(const void *pointer);

/* Whether pointer lies in memory that any runtime of this process holds, in a
 * live block or not. A pointer for which warm_owns() is 0 and this is 1 was
 * freed already: do not pass it to another free, which might end the memory of
 * other blocks. 1 or 0; takes no lock, calls no driver, and sets no error.
 * pointer: any value. */
WARM_API int warm_holds(const void *pointer);

/* Records that work queued on stream uses the block that holds pointer, which
 * may point into its middle. All work counts that is queued there until the
 * block is freed, before this call or after it. Calls no driver if the stream
 * is adopted and no capture is announced. stream: must live until the block is
 * freed or the stream is retired; if the block is freed while the stream
 * captures, until the stream is retired, or an announced capture was ended with
 * warm_capture_end() or warm_capture_announce_end(). A default stream of a
 * device that the program has not used yet has no work: nothing is recorded,
 * and the device gets no context. WARM_STREAM_PER_THREAD is the calling
 * thread's stream; if another thread frees the block, the block waits for the
 * work queued up to this call. If a thread exits while its own default stream
 * captures, or is of another device than the thread's current one, no event can
 * be recorded there any more: blocks that it uses leak, and count as lost.
 * Captures. A record made while the stream captures says that the graph uses
 * the block, even if the stream was recorded before, or a device block was
 * allocated on it. Once freed such a block is not allocated again: as long as
 * its private pool lives, or, if it is in no private pool, until the process
 * exits; the first such block is logged. A block that was recorded only before
 * the capture, and is freed during it, waits for the end of the capture and for
 * the work queued before.
 * Status: NOT_FOUND (not part of a live block; nothing changes),
 * INVALID_STREAM, UNSUPPORTED (the stream's CUDA context is not a primary one,
 * see runtime.h), OUT_OF_MEMORY, DRIVER_ERROR. */
WARM_API warm_status warm_record_stream(const void *pointer,
                                        warm_stream stream);

/* Adopts a stream of the program: the library may then rely on the stream's
 * life, which makes records and frees cheap. A record calls no driver, and
 * frees share events, which are recorded later than the frees. Streams of
 * warm_stream_create() and warm_stream_reserve() are adopted from the start.
 * The caller promises two things:
 * - to call warm_stream_retire() before the stream is destroyed, also for one
 *   adopted from the start that the program destroys itself. Else blocks that
 *   it used are lost, or CUDA is called with a stream that was destroyed;
 * - to announce captures on it: warm_capture_begin() does so; before captures
 *   that begin otherwise call warm_capture_announce() (device.h). While no
 *   capture is announced, and no private pool for graphs records,
 *   warm_record_stream() does not query whether the stream captures: a block
 *   that an unannounced capture uses may be allocated again while its graph
 *   uses it. If a batch of frees should get its event while such a capture is
 *   under way, all blocks of the batch leak and count as captured; a warning
 *   says so, once.
 * Frees wait for their event until there are 64 of them, or 12 MiB (less where
 * keep allows less), or for 10 ms. Calls that miss the cache, warm_poll() and
 * the thread of option background check the time; an allocation that would
 * otherwise obtain memory waits for none of it. Adopting a stream again does
 * nothing.
 * Calls the driver.
 * Status: INVALID_ARGUMENT (a default stream: one name for several streams),
 * INVALID_STREAM, UNSUPPORTED (its CUDA context is not a primary one),
 * CAPTURE_ERROR (it captures), OUT_OF_MEMORY, DRIVER_ERROR. */
WARM_API warm_status warm_stream_adopt(warm_runtime *runtime,
                                       warm_stream stream);

/* Retires a stream. Call it before cudaStreamDestroy(), for each runtime that
 * knows the stream. A runtime knows it if the stream was adopted, if it was
 * bound to a handle, or if it was recorded on a block that is still live or was
 * freed while the stream captured. warm_stream_destroy() retires a stream of
 * its own runtime. A stream that the program goes on using is no longer
 * adopted, and no capture of it is announced. Handles bound to it that are
 * idle, on lease or held by the calling thread are bound to the default stream
 * instead, since a library may access a handle's old stream when the handle is
 * bound or destroyed. Other threads must bind their handles to another stream,
 * or release them, before. Calls the driver, and waits for the stream if it can
 * record no event there. It also waits for calls in which other threads are
 * taking handles off the stream, or record an event behind the work of a
 * workspace there.
 * Status (nothing has changed then): INVALID_STREAM (unknown to the driver),
 * DRIVER_ERROR (the driver failed to identify the stream). */
WARM_API warm_status warm_stream_retire(warm_runtime *runtime,
                                        warm_stream stream);

typedef enum warm_copy_direction {
    WARM_COPY_TO_DEVICE = 1, /* the values of cudaMemcpyKind */
    WARM_COPY_TO_HOST = 2
} warm_copy_direction;

/* Queues a copy and records the stream on the blocks that source and
 * destination lie in. Memory that is no block of warmpool must stay valid until
 * the copy has finished. Does not wait, unless the driver does so for memory
 * that is not page-locked. bytes 0 does nothing. A copy is split where a piece
 * of a block ends, on either side, and where a range that begins in other
 * memory enters or leaves a block. In a capture each part is a node of the
 * graph.
 * direction: from the host to a device, or back. From device to device, or on
 * one device, warm_copy_2d_async() copies, with height 1.
 * Status (nothing is queued then, except that the driver may refuse a part of a
 * split copy after others were queued; with the last three statuses the stream
 * may have been recorded): INVALID_ARGUMENT (null pointer; direction; a range
 * that begins in a block and goes beyond its end; a destination that was
 * adopted with WARM_ADOPT_READ_ONLY), INVALID_STREAM, OUT_OF_MEMORY (for the
 * record), CAPTURE_ERROR (a default stream beside a capture of others),
 * DRIVER_ERROR. */
WARM_API warm_status warm_copy_async(warm_runtime *runtime, void *destination,
                                     const void *source, size_t bytes,
                                     warm_copy_direction direction,
                                     warm_stream stream);

/* Copies height rows of width bytes between memory of any kind, as
 * cudaMemcpy2DAsync() with cudaMemcpyDefault: each row begins a pitch after the
 * one before. Records and splits as warm_copy_async() does, between rows where
 * that is possible. The range of each side, from the first byte of its first
 * row to the last byte of its last row, counts as used, the gaps between rows
 * included. width or height 0 does nothing.
 * destination_pitch, source_pitch: bytes, at least width.
 * Status: as warm_copy_async(); INVALID_ARGUMENT also for a pitch below width.
 */
WARM_API warm_status warm_copy_2d_async(warm_runtime *runtime,
                                        void *destination,
                                        size_t destination_pitch,
                                        const void *source, size_t source_pitch,
                                        size_t width, size_t height,
                                        warm_stream stream);

/* Collects freed blocks whose streams have completed, and returns segments that
 * were idle for longer than decay_ms. An allocation that misses the cache does
 * both by itself. With background:on the background thread does both, and no
 * miss returns a segment because of its age. Never waits for a stream; but when
 * a segment is returned CUDA waits for the whole device (cudaFreeHost()). While
 * a stream is known to capture (warm_capture_announce()) segments stay until a
 * later call. The last two sentences hold for warm_pinned_trim(), too.
 * Status of both: also DRIVER_ERROR (the driver did not let the thread set its
 * capture mode; nothing was done). */
WARM_API warm_status warm_poll(warm_runtime *runtime);

/* Returns segments without live or pending blocks to the system, the largest
 * first, until at most target bytes are held; 0: all of them. It returns the
 * reserve, too, which the background thread (option background) obtains again
 * once an allocation finds it short. This call, and that of a device
 * (device_memory.h), also destroy surplus events after a burst of frees, and
 * free most of the records cached for future threads.
 * released: bytes returned, may be null. */
WARM_API warm_status warm_pinned_trim(warm_runtime *runtime, size_t target,
                                      size_t *released);

/* Obtains page-locked memory ahead of its first use, until at least bytes are
 * idle in the cache of node, including freed blocks whose streams have finished
 * by then. If memory is allocated meanwhile the call replaces it, but obtains
 * at most bytes in all. Memory comes in regions of at most option pin_chunk; if
 * the driver refuses a region, half its size is requested, and so on down to
 * option segment. A request larger than a region is served from several only if
 * these happen to adjoin. bytes 0 does nothing.
 * node: of the machine, or WARM_NODE_ANY: the node of warm_pinned_alloc().
 * flags: 0, or WARM_PREWARM_BACKGROUND: returns at once, and a thread of the
 * runtime obtains the memory. All such calls for one node are one job; the
 * largest counts.
 * Status: OUT_OF_MEMORY, NOT_READY (cancelled): what was obtained stays, and
 * the message has the bytes that are idle; INVALID_ARGUMENT (node, flags);
 * DRIVER_ERROR, UNSUPPORTED, as for warm_pinned_alloc(). In the background
 * OUT_OF_MEMORY means that no thread could be started, and
 * warm_pinned_prewarm_wait() returns why memory could not be obtained. */
WARM_API warm_status warm_pinned_prewarm(warm_runtime *runtime, size_t bytes,
                                         int node, unsigned flags);

/* The progress of a prewarm: ready of total bytes are idle, or were obtained by
 * it and are in use by now. Called when ready is more than at the last call; at
 * the end of a prewarm that succeeds it is total. Called by the thread that
 * prewarms, in the background one of the runtime, between two regions and with
 * no lock held: it may allocate, free and cancel, but not wait for prewarming
 * nor destroy a runtime. Returns 0; any other value cancels this prewarm, which
 * in the background is no failure that warm_pinned_prewarm_wait() returns. */
typedef int (*warm_prewarm_fn)(void *context, size_t ready, size_t total);

/* How memory is obtained ahead; a field that is zero has no effect. */
typedef struct warm_prewarm_options {
    size_t size;              /* sizeof(warm_prewarm_options) */
    warm_prewarm_fn progress; /* not called any more once the call, or in the
                                 background the job, has ended */
    void *context;
    uint64_t pause_ns; /* longest pause after a region: a pause lasts as long as
                          the region took, so that for half of the time other
                          threads find the driver's lock free */
} warm_prewarm_options;

/* warm_pinned_prewarm() with options (borrowed; null for none). In the
 * background a node's job has one callback, and its total is that of the
 * largest call. Status: also INVALID_ARGUMENT (size of the struct; in the
 * background, a callback for a node whose job has one already). */
WARM_API warm_status
warm_pinned_prewarm_with(warm_runtime *runtime, size_t bytes, int node,
                         unsigned flags, const warm_prewarm_options *options);

/* Waits until background prewarming has ended.
 * Status: the first failure since the last call; INVALID_ARGUMENT in a callback
 * of the library, which could wait for itself. */
WARM_API warm_status warm_pinned_prewarm_wait(warm_runtime *runtime);

/* Cancels all prewarming, also in calls of other threads, which then return
 * NOT_READY. The region that is being obtained stays (in the background
 * warm_pinned_prewarm_wait() waits for it), as do the regions before it; a
 * pause, and a wait for option pin_lock_file, end at once. Destroying the
 * runtime cancels and waits. */
WARM_API warm_status warm_pinned_prewarm_cancel(warm_runtime *runtime);

/* Returns the progress of prewarming: done of wanted bytes, summed over all
 * calls since prewarming was last idle; both stay readable after it has ended.
 * Returns at once, since no lock is held while memory is obtained. */
WARM_API warm_status warm_pinned_prewarm_progress(warm_runtime *runtime,
                                                  uint64_t *done,
                                                  uint64_t *wanted);

/* What happens to memory, of any space: name, value, meaning. */
#define WARM_MEMORY_EVENT_MAP(X)                                               \
    X(ALLOCATED, 1, "a block is handed out: its memory was obtained for it")   \
    X(RECYCLED, 2, "a block of memory that was held already is handed out")    \
    X(FREED, 4, "a block is freed; streams may still use it")                  \
    X(RELEASED, 8, "a segment was returned to the driver")                     \
    X(FAILED, 16, "memory is short: a request is about to fail")               \
    X(OBTAINED, 32, "a segment was obtained, and none of it handed out yet")   \
    X(RETURNING, 64, "a segment is about to be returned: nothing uses it")

typedef enum warm_memory_event {
#define WARM_MEMORY_EVENT(name, value, meaning) WARM_MEMORY_##name = (value),
    WARM_MEMORY_EVENT_MAP(WARM_MEMORY_EVENT)
#undef WARM_MEMORY_EVENT
} warm_memory_event;

/* Called for all events but OBTAINED and RETURNING (warm_segment_fn).
 * buffer: the block, or the address at which the segment was; null for FAILED.
 * bytes: requested for the block, or of the segment, or of the request.
 * Returns, for FAILED, nonzero if it freed memory, so that a retry is
 * worthwhile; for other events anything. Called with no lock held, by the
 * thread whose call it is, or for RELEASED by any thread, also the library's
 * own, a little later (and not at all without memory to note it). It may free
 * blocks, and add and remove callbacks. It
 * must not allocate from the same runtime: unless its thread has an idle block
 * cached the allocation returns INVALID_ARGUMENT, and nothing changes. What it
 * frees is reported to no callback. */
typedef int (*warm_memory_fn)(void *context, warm_memory_event event,
                              void *buffer, size_t bytes);

/* A region that was obtained from the driver, or was adopted (adopt.h), from
 * which blocks are allocated. */
typedef struct warm_segment {
    size_t size; /* sizeof(warm_segment) */
    void *base;  /* whole pages */
    size_t bytes;
    uint64_t id; /* never used twice in a runtime; not 0 */
    int device;  /* of its memory; -1 for memory of the host */
    int node;    /* of memory of the host; -1: none, or unknown */
} warm_segment;

/* Called for OBTAINED and RETURNING, so that a NIC, or another library, can
 * register a segment once instead of each of its blocks: for pinned, device,
 * shared and adopted memory, not for pageable memory, by the thread that
 * obtains or returns the segment.
 *
 * OBTAINED comes before any block of the segment is handed out. RETURNING has
 * the id of the segment's OBTAINED. It comes when no block of the segment is in
 * use, or its blocks are paused (pause.h), and no work queued on a stream uses
 * it (the device is waited for, if need be); the memory is still mapped. If the
 * driver then does not free the memory, the segment is OBTAINED again, with a
 * new id. A segment that was obtained before the callback was added, such as
 * one of option reserve_bytes, has a RETURNING only: register it when a block
 * of it is first used (warm_block_get_info() names the block's segment).
 * Segments with memory in use when a runtime is destroyed have no RETURNING.
 *
 * If a device was reset (runtime.h), each segment that ended with it has a
 * RETURNING when the runtime notices the reset, in the thread that does, with
 * live blocks or without: that memory is gone already, and only what was
 * registered for it can be ended.
 *
 * The rules of warm_memory_fn hold for this function. Other threads that
 * need memory may wait for it, so it must not wait for a thread that may
 * allocate from the same runtime, nor for a lock that a thread holds while it
 * allocates. */
typedef void (*warm_segment_fn)(void *context, warm_memory_event event,
                                const warm_segment *segment);

#define WARM_CALLBACK_NAME 48

typedef struct warm_memory_callback {
    size_t size;             /* sizeof(warm_memory_callback) */
    const char *name;        /* borrowed: fewer than WARM_CALLBACK_NAME bytes */
    warm_memory_fn function; /* null only if all events are of segments */
    void *context;
    void (*done)(void *context); /* null, or called once, when the callback is
                                    removed and no thread is inside it, or the
                                    runtime is destroyed: the context may end */
    unsigned events;             /* of warm_memory_event, joined by | */
    warm_segment_fn segment;     /* for OBTAINED and RETURNING, else null */
} warm_memory_callback;

/* Adds a memory callback; they are called in the order of their addition.
 * From the first one that asks for ALLOCATED, RECYCLED or FREED on every
 * allocation and free of the runtime takes longer; calls that begin before the
 * addition returns may not be heard.
 * Status: INVALID_ARGUMENT (also: the name is in use), OUT_OF_MEMORY,
 * UNSUPPORTED (such a one, and the kernel refuses membarrier(2), which a filter
 * of system calls forbids since the runtime was created). */
WARM_API warm_status warm_memory_callback_add(
    warm_runtime *runtime, const warm_memory_callback *callback);
/* Removes the callback of that name, and returns at once, also inside it: other
 * threads may still be inside, but none enters it any more. done() says when
 * the last one has left.
 * Status: INVALID_ARGUMENT, NOT_FOUND. */
WARM_API warm_status warm_memory_callback_remove(warm_runtime *runtime,
                                                 const char *name);

typedef struct warm_block_info {
    size_t size;      /* sizeof(warm_block_info) */
    void *base;       /* first address of the block */
    size_t bytes;     /* usable bytes */
    size_t requested; /* bytes requested */
    warm_runtime *runtime;
    unsigned streams; /* recorded so far, except retired ones whose work is
                         known to have completed */
    int node;         /* of its memory; -1 if it is pageable */
    int pageable;     /* 1: not page-locked (WARM_ALLOC_PAGEABLE_OK) */
    int device;       /* of its memory; -1 for memory of the host */
    warm_private_pool pool; /* of its memory; number 0: none */
    void *segment;          /* first address of its segment, or of the first of
                               several (warm_block_get_piece()), */
    size_t segment_bytes;   /* and bytes */
    uint64_t segment_id;    /* as in warm_segment; 0: of pageable memory, or of
                               memory that a reset of a device ended */
    size_t pieces; /* page-locked one by one; 1 if the block is not cut */
} warm_block_info;

/* Describes the live block that holds pointer. Status: NOT_FOUND. */
WARM_API warm_status warm_block_get_info(const void *pointer,
                                         warm_block_info *info);

/* Returns a piece of the live block that holds pointer: a part that was
 * page-locked by one call. All pieces but the first and the last have the same
 * size, and together they are the block. A block that is not page-locked is one
 * piece.
 * index: from 0 to pieces - 1 (warm_block_info).
 * Status: NOT_FOUND, INVALID_ARGUMENT (also: there is no such piece). */
WARM_API warm_status warm_block_get_piece(const void *pointer, size_t index,
                                          void **base, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
