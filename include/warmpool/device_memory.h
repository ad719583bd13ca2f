/* warmpool/device_memory.h: cached memory of a device.
 *
 * warm_device_alloc() allocates in the order of a stream. That stream may get a
 * freed block again at once, since it runs the new work after the old. Other
 * streams get the block once that stream has completed the old work.
 * warm_record_stream() names the other streams that use a block, as for pinned
 * memory; the stream of the allocation need not be recorded. warm_free() frees
 * a block, and warm_block_get_info() describes it (memory.h).
 *
 *   alloc(stream 7) ─► kernel on 7 ─► free ─► alloc(stream 7): the same block
 *                                       └──► alloc(stream 9): once 7 is done
 *
 * Streams. Adopted streams (warm_stream_adopt(), and those that
 * warm_stream_create() and warm_stream_reserve() return) cost no driver call,
 * and their idle memory serves all streams: allocations that miss the cache
 * record events for that. A stream that is not adopted may be destroyed without
 * warmpool's knowledge: memory freed in its order serves that stream alone
 * until the stream is retired (warm_stream_retire()) or the cache is emptied.
 * The same holds for the default streams, which cannot be adopted. A thread
 * that allocates in the order of WARM_STREAM_PER_THREAD retires that stream
 * before the thread ends; else the runtime keeps a record of it (10 KiB). If a
 * stream is used after it was retired, record it on the blocks that were
 * allocated on it before. A block that one thread allocates while another one
 * retires its stream may be in no stream's order: record the streams that use
 * it.
 *
 * Threads. Each thread caches what it frees (option keep) for the last
 * eight streams that it allocated for, adopted ones and the legacy stream: the
 * next allocation for such a stream takes no lock. A request that finds no
 * block of its size takes a larger cached one. All caches are flushed before
 * the runtime obtains memory above its bound (option slack) and by
 * warm_device_trim().
 * Threads cache nothing with option trace, history or debug, or once a memory
 * callback has asked for each allocation or free; while a capture is announced
 * they cache only for the legacy stream, which cannot capture. Behind the
 * caches threads share arenas; the order of a stream holds in all of them.
 *
 * Sizes are rounded as in memory.h. A cached block may be up to twice the size
 * of the request, at most 1 MiB more. Blocks are aligned to 512 bytes at least.
 * Requests of up to 512 KiB and larger requests have separate segments, of at
 * least 2 MiB. Memory is not cleared.
 *
 * Captures. A block that is allocated or recorded on a stream while that stream
 * captures belongs to the graph: once freed it is not allocated again, and
 * counts as captured. It comes from memory that is safe on all streams, since a
 * graph may be launched on any stream. A block that was allocated on the stream
 * before the capture belongs to no graph unless it is recorded during the
 * capture.
 *
 * Any thread may call any function. Common status: INVALID_ARGUMENT (device out
 * of range, null output), RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_DEVICE_MEMORY_H
#define WARMPOOL_DEVICE_MEMORY_H

#include "warmpool/snapshot.h"
#include "warmpool/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates bytes of a device's memory in the order of a stream.
 * stream: of that device; null is its legacy default stream.
 * pointer: owned, ended with warm_free(); null for 0 bytes.
 * Status (nothing has changed then): OUT_OF_MEMORY, after warmpool has
 * collected completed frees, returned idle segments and idle workspaces of
 * handles, made the stream wait for other streams (below) and called the memory
 * callbacks; the message has the bytes requested, the device, its capacity and
 * free memory, and the bytes held, live and idle, and of workspaces.
 * INVALID_ARGUMENT (stream of another device; call from a memory callback),
 * INVALID_STREAM, DRIVER_ERROR, UNSUPPORTED (the memory lies above 48 bits of
 * address or not at the start of a page; or the CUDA context of the thread or
 * the stream is not a primary one, see runtime.h).
 * Blocking. At a limit a request may wait (option limit_wait_ms). One that
 * misses the cache may record events on adopted streams, and calls the driver
 * if the cache grows. If it returns segments then (memory is short, more than
 * the bound is held, or a request larger than option segment replaces idle
 * segments that are too small for it), CUDA waits for the device. Before the
 * cache grows above its bound (option slack), and when memory would run out,
 * the stream is made to wait (cudaStreamWaitEvent) for up to 16 adopted streams
 * with idle memory, and then uses that memory: its later work runs after
 * theirs, and no thread waits. With option stream_wait:off it never waits.
 * A default stream is not made to wait, nor a stream that captures; and no
 * stream waits for one that captures. */
WARM_API warm_status warm_device_alloc(warm_runtime *runtime, int device,
                                       warm_stream stream, size_t bytes,
                                       void **pointer);

/* warm_device_alloc() for a block that begins at a multiple of alignment: a
 * power of two up to WARM_ALIGNMENT_MAX (memory.h), where the cost is
 * described. Status: as warm_device_alloc(); INVALID_ARGUMENT also for another
 * alignment. */
WARM_API warm_status warm_device_alloc_aligned(warm_runtime *runtime,
                                               int device, warm_stream stream,
                                               size_t bytes, size_t alignment,
                                               void **pointer);

/* Returns the segment that holds a pointer into a live block, as the driver
 * knows it.
 * Status: NOT_FOUND; RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_device_base_allocation(const void *pointer,
                                                 void **base, size_t *bytes);

typedef struct warm_device_cache {
    size_t size;          /* sizeof(warm_device_cache) */
    size_t idle_bytes;    /* held, and free to be allocated */
    size_t largest_bytes; /* of the largest idle block, on any stream */
} warm_device_cache;

/* Reads how much memory of a device is idle. */
WARM_API warm_status warm_device_cache_info(warm_runtime *runtime, int device,
                                            warm_device_cache *info);

/* Figures, each for all requests, for small and for large ones.
 * name, unit, meaning; of type warm_stat, with a peak in those of all requests
 */
#define WARM_DEVICE_PEAK_MAP(X)                                                \
    X(live, "blocks", "allocated blocks that are not freed")                   \
    X(live_bytes, "bytes", "usable bytes of live blocks")                      \
    X(held_bytes, "bytes", "bytes of segments")

/* The same without a peak. */
#define WARM_DEVICE_STAT_MAP(X)                                                \
    X(requested_bytes, "bytes", "bytes requested for live blocks")             \
    X(active, "blocks", "live blocks, and freed ones that wait for streams")   \
    X(active_bytes, "bytes", "bytes of active blocks")                         \
    X(segments, "segments", "regions obtained from the driver")

/* name, unit, meaning; of type uint64_t */
#define WARM_DEVICE_COUNT_MAP(X)                                               \
    X(inactive_split, "blocks", "idle parts of segments that are in use")      \
    X(inactive_split_bytes, "bytes", "bytes of those parts")

typedef struct warm_device_figures {
#define WARM_DEVICE_STAT_FIELD(name, unit, meaning)  warm_stat name;
#define WARM_DEVICE_COUNT_FIELD(name, unit, meaning) uint64_t name;
    WARM_DEVICE_PEAK_MAP(WARM_DEVICE_STAT_FIELD)
    WARM_DEVICE_STAT_MAP(WARM_DEVICE_STAT_FIELD)
    WARM_DEVICE_COUNT_MAP(WARM_DEVICE_COUNT_FIELD)
#undef WARM_DEVICE_STAT_FIELD
#undef WARM_DEVICE_COUNT_FIELD
} warm_device_figures;

/* Of all requests together. type, name, unit, meaning.
 * reset_bytes: all.held_bytes + workspace_bytes once the runtime has noticed
 * that the device was reset (runtime.h): that memory is gone. Before: 0.
 * workspace_bytes: of the workspaces of handles and of the segments of private
 * and managed buffers (shared.h), which no figure of warm_device_figures
 * includes. They count toward the watermarks (pressure.h).
 */
#define WARM_DEVICE_TOTAL_MAP(X)                                               \
    X(uint64_t, retries, "calls", "requests retried after memory was short")   \
    X(uint64_t, failures, "calls", "requests that ended out of memory")        \
    X(uint64_t, captured, "blocks", "freed blocks that a graph may use")       \
    X(uint64_t, captured_bytes, "bytes", "bytes of captured blocks")           \
    X(uint64_t, lost, "blocks", "blocks leaked after an error of the driver")  \
    X(uint64_t, lost_bytes, "bytes", "bytes of lost blocks")                   \
    X(uint64_t, cache_hits, "calls", "requests served from memory held")       \
    X(warm_duration, driver_alloc, "ns", "driver calls that obtain memory")    \
    X(warm_duration, driver_free, "ns", "driver calls that free memory")       \
    X(uint64_t, reset_bytes, "bytes", "lost by a reset of the device")         \
    X(uint64_t, workspace_bytes, "bytes",                                      \
      "of workspaces, and of segments of "                                     \
      "private and managed buffers")                                           \
    X(uint64_t, above_bound, "bytes", "obtained above the bound")              \
    X(uint64_t, paused_bytes, "bytes", "of paused memory, which are not held")

typedef struct warm_device_stats {
    size_t size;                           /* sizeof(warm_device_stats) */
    warm_device_figures all, small, large; /* small: up to 512 KiB */
#define WARM_DEVICE_TOTAL_FIELD(type, name, unit, meaning) type name;
    WARM_DEVICE_TOTAL_MAP(WARM_DEVICE_TOTAL_FIELD)
#undef WARM_DEVICE_TOTAL_FIELD
} warm_device_stats;

/* Reads the figures of a device; memory of private pools is included
 * (private_pool.h). The figures of one pool, and those of memory in no pool,
 * are of one moment: threads that allocate or free wait meanwhile. Only
 * workspace_bytes and inactive_split are read later, while threads go on. The
 * figures of all requests have peaks, as stats.h describes them. */
WARM_API warm_status warm_device_get_stats(warm_runtime *runtime, int device,
                                           warm_device_stats *stats);

/* warm_pinned_get_histograms() for a device: of memory in no pool and of
 * private pools. */
WARM_API warm_status warm_device_get_histograms(
    warm_runtime *runtime, int device, warm_space_histograms *histograms);

/* warm_pinned_reset_peaks() for a device. */
WARM_API warm_status warm_device_reset_peaks(warm_runtime *runtime, int device);
/* warm_pinned_reset_totals() for a device. */
WARM_API warm_status warm_device_reset_totals(warm_runtime *runtime,
                                              int device);

/* Returns segments without live or pending blocks to the driver, whatever
 * streams their parts belong to, until at most target bytes are held; 0: all of
 * them. The largest idle segments go first, and last those that the driver
 * refused to free before. Segments are returned whole: fewer than target bytes
 * may be held afterwards. CUDA waits for the device. While a stream is known to
 * capture (warm_capture_announce()) the call returns nothing to the driver and
 * does not wait.
 * released: bytes returned, may be null. Status: also DRIVER_ERROR. */
WARM_API warm_status warm_device_trim(warm_runtime *runtime, int device,
                                      size_t target, size_t *released);

#ifdef __cplusplus
}
#endif
#endif
