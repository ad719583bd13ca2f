/* warmpool/device_memory.h: memory of a device, cached.
 *
 * warm_device_alloc() hands out memory in the order of a stream. What is freed
 * may be handed out on that stream again at once: its queue puts the new work
 * behind the old. Other streams get it once the stream has passed that point.
 * Work on other streams is told by warm_record_stream(), as for pinned memory;
 * work on the stream of the allocation need not be. Blocks are freed with
 * warm_free(), both of memory.h, and described by warm_block_get_info().
 *
 *   alloc(stream 7) ─► kernel on 7 ─► free ─► alloc(stream 7): the same block
 *                                       └──► alloc(stream 9): once 7 has passed
 *
 * Streams. Those of warm_stream_create(), warm_stream_reserve() and those that
 * are adopted (warm_stream_adopt()) cost no driver call, and their idle memory
 * is there for all, by events that misses record. Of a stream that is not
 * adopted nobody knows whether it still exists: what was freed in its order
 * stays with it until it is retired (warm_stream_retire()) or the cache is
 * emptied. So it does for the default streams, which cannot be adopted. A
 * thread that allocates in the order of WARM_STREAM_PER_THREAD retires that
 * stream before it ends; else the runtime keeps a record of it (10 KiB). A
 * stream that goes on after it was retired is told as any other stream, for
 * what was allocated on it before; what is allocated while it is retired is in
 * its order or in nobody's.
 *
 * Threads keep what they free (option magazines), for each of the last eight
 * adopted streams that they allocated for, the legacy one among them: the next
 * allocation for that stream takes no lock. Before the cache grows, and in
 * warm_device_empty_cache(), that comes back from all threads. Nothing is kept
 * while a capture is announced, but for the legacy stream, which cannot
 * capture; nor where events are traced or a history is. Where a thread has
 * nothing of a size it takes what it keeps of one of the two next ones. Below
 * that threads share arenas as in memory.h (option arenas); a stream's memory
 * is one in all of them.
 *
 * Sizes are rounded as in memory.h, and may be up to two steps more, above 256
 * KiB one (in all 37.5 and 25 % of a request above 4 KiB); blocks are aligned
 * to 512 bytes at least. Requests of up to 512 KiB and larger ones have
 * segments apart, of at least 2 MiB. Memory is not cleared.
 *
 * Expandable segments (option expandable_segments:on). Memory comes at places
 * of long ranges of addresses, in each arena one for small requests and one for
 * large ones: growth adds to what lies idle there only what is missing, in
 * units (2 MiB), and what is idle goes back between live blocks as well. It
 * comes in pieces: steps of 64 MiB, and where less than one is missing a 128th
 * of what is held at a time; where the driver refuses a piece, half of it is
 * asked for, down to a unit. A piece goes back whole, once no part of it is in
 * use; until then the rest of it serves requests. For programs whose sizes
 * change, and those that fill a device: they hold less. It costs more calls to
 * the driver, of some microseconds each, and:
 *   - CUDA does not wait for work when such memory goes back. So warmpool does,
 *     for the streams, also those that freed blocks wait for before a request
 *     ends out of memory: for adopted ones, and the ends of retired ones, but
 *     for none that is not adopted, which may have gone. What was freed in the
 *     order of such a one, or a default one but the legacy one of the thread's
 *     current device, goes only when the cache is emptied or trimmed: the
 *     device is waited for then, unless a stream is known to capture
 *     (warm_capture_announce())
 *   - it cannot be shared with other processes (ipc.h), nor is it mapped for
 *     other devices; copies between devices work
 *   - a range counts as one segment while any memory is in it
 * Private pools have ordinary segments. A device without virtual memory has
 * them too, and a warning says so.
 *
 * Captures. A block that is allocated on a stream that captures, or recorded on
 * it then, belongs to a graph: once freed it is kept and counted as captured.
 * It comes from what all streams have passed, since graphs are launched on any.
 * A block that was allocated on the stream before the capture is no graph's
 * unless it is recorded while the stream captures (memory.h).
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
 * pointer: owned, given back with warm_free(); null for 0 bytes.
 * Status: OUT_OF_MEMORY, after finished work has been collected, idle segments
 * given back, the stream made to wait for what others have (below) and the
 * memory callbacks asked; the message says how much was asked, on which device,
 * its capacity and what is free there, held, live and idle. INVALID_ARGUMENT
 * (stream of another device; also from a memory callback), INVALID_STREAM,
 * DRIVER_ERROR, UNSUPPORTED (memory at an address above 48 bits, or not at a
 * page's start; or the thread's CUDA context, or the stream's, is not a primary
 * one, see runtime.h). Nothing has changed then. A miss may record events on
 * adopted streams, and calls the driver if the cache grows. Where segments go
 * back then (memory is short, or a request larger than option segment grows in
 * place of idle ones that are too small for it), CUDA waits for the device.
 * Before memory runs out the stream is made to wait (cudaStreamWaitEvent) for
 * up to 16 adopted streams that have idle memory, and takes it: from then on
 * its work comes after theirs. No thread waits for that. Not if one of the
 * streams captures, nor for a default stream. */
WARM_API warm_status warm_device_alloc(warm_runtime *runtime, int device,
                                       warm_stream stream, size_t bytes,
                                       void **pointer);

/* The segment that holds a pointer into a live block: what the driver knows it
 * by. Of an expandable one the memory around the block without a hole, which
 * may be more or less a moment later, but for the block itself.
 * Status: NOT_FOUND. */
WARM_API warm_status warm_device_base_allocation(const void *pointer,
                                                 void **base, size_t *bytes);

typedef struct warm_device_cache {
    size_t size;          /* sizeof(warm_device_cache) */
    size_t idle_bytes;    /* held and free to be handed out */
    size_t largest_bytes; /* of one idle block, on some stream */
} warm_device_cache;

WARM_API warm_status warm_device_cache_info(warm_runtime *runtime, int device,
                                            warm_device_cache *info);

/* Figures of all requests, of small and of large ones.
 * name, unit, meaning; of type warm_stat */
#define WARM_DEVICE_STAT_MAP(X)                                                \
    X(live, "blocks", "blocks with their callers")                             \
    X(requested_bytes, "bytes", "bytes asked for in those")                    \
    X(live_bytes, "bytes", "bytes handed out in those")                        \
    X(active, "blocks", "those, and freed ones that wait for streams")         \
    X(active_bytes, "bytes", "bytes of those")                                 \
    X(segments, "segments", "regions obtained from the driver")                \
    X(held_bytes, "bytes", "bytes of those")

/* name, unit, meaning; of type uint64_t */
#define WARM_DEVICE_COUNT_MAP(X)                                               \
    X(inactive_split, "blocks", "idle parts of segments that are in use")      \
    X(inactive_split_bytes, "bytes", "bytes of those")

typedef struct warm_device_figures {
#define WARM_DEVICE_STAT_FIELD(name, unit, meaning)  warm_stat name;
#define WARM_DEVICE_COUNT_FIELD(name, unit, meaning) uint64_t name;
    WARM_DEVICE_STAT_MAP(WARM_DEVICE_STAT_FIELD)
    WARM_DEVICE_COUNT_MAP(WARM_DEVICE_COUNT_FIELD)
#undef WARM_DEVICE_STAT_FIELD
#undef WARM_DEVICE_COUNT_FIELD
} warm_device_figures;

typedef struct warm_device_stats {
    size_t size;                           /* sizeof(warm_device_stats) */
    warm_device_figures all, small, large; /* small: up to 512 KiB */
    uint64_t retries;  /* requests retried after memory was short */
    uint64_t failures; /* requests that ended out of memory */
    uint64_t captured, captured_bytes; /* blocks kept for graphs */
    uint64_t lost, lost_bytes;         /* and after an error of the driver */
    uint64_t cache_hits; /* requests served without asking the driver */
    warm_duration driver_alloc, driver_free; /* its calls for segments */
    /* Of all.held_bytes and workspace_bytes: gone, since the device was
     * reset, and that was noticed (runtime.h). All or nothing. */
    uint64_t reset_bytes;
    /* Of workspaces that handles have, in no figure above: below the limit
     * beside what is held (warm_device_set_memory_fraction()). */
    uint64_t workspace_bytes;
} warm_device_stats;

/* Memory of private pools is included (private_pool.h). All figures of one
 * pool, or of what is in none, belong to one moment, for which threads that
 * allocate and free wait; but for workspace_bytes and what is inactive_split,
 * which are looked up after it, while threads go on. Peaks of live blocks,
 * active blocks and their bytes, of all, small and large
 * requests: never below what there was at one moment, and above it by no more
 * than 64 blocks and 1 MiB (of small or large ones 32 and 512 KiB) for each
 * thread that allocates, however many streams it has; see stats.h. That of all
 * held bytes is exact; of small and large ones, and of segments, it is a
 * sum where threads use several arenas: never below the whole, perhaps above.
 */
WARM_API warm_status warm_device_get_stats(warm_runtime *runtime, int device,
                                           warm_device_stats *stats);

/* As warm_pinned_reset_peaks() and warm_pinned_reset_totals(), of a device. */
WARM_API warm_status warm_device_reset_peaks(warm_runtime *runtime, int device);
WARM_API warm_status warm_device_reset_totals(warm_runtime *runtime,
                                              int device);

/* Returns every segment without live or pending blocks to the driver, whatever
 * streams its parts belong to: CUDA waits for the device. Of expandable ones
 * every piece without such blocks; see above. While a stream is known to
 * capture (warm_capture_announce()) nothing goes back, and nobody is waited
 * for.
 * released: bytes returned, may be null. Status: also DRIVER_ERROR. */
WARM_API warm_status warm_device_empty_cache(warm_runtime *runtime, int device,
                                             size_t *released);

/* The same, but stops once at most target bytes are held; largest idle segments
 * first, and last those that the driver did not take before. Segments, and
 * pieces of expandable ones, go whole: less than target may be held then. */
WARM_API warm_status warm_device_trim(warm_runtime *runtime, int device,
                                      size_t target, size_t *released);

/* Most that is held of a device's memory, as a fraction of all of it; more than
 * 0, at most 1. Workspaces of handles are part of it: where idle segments that
 * go back make no room for one, the library uses its own. Segments are
 * multiples of the 2 MiB in which a driver backs memory, so that what is held
 * is what is gone of the device; a limit is exact: the last segment is as large
 * as it leaves room for. What is held already stays. 1 is where it begins: no
 * limit but the device's own. Asks the driver how much that is, which makes a
 * context if there is none yet. Status: INVALID_ARGUMENT (fraction out of
 * range), DRIVER_ERROR. */
WARM_API warm_status warm_device_set_memory_fraction(warm_runtime *runtime,
                                                     int device,
                                                     double fraction);
WARM_API warm_status warm_device_get_memory_fraction(warm_runtime *runtime,
                                                     int device,
                                                     double *fraction);

/* The level above which idle segments are collected before the cache grows, as
 * a fraction of what may be held (the memory fraction): those idle longest go
 * first, until what comes fits below it or none is left. More than 0; 1, as it
 * begins, collects nothing before the limit is met. Asks the driver as
 * warm_device_set_memory_fraction() does.
 * Status: INVALID_ARGUMENT (out of range), DRIVER_ERROR. */
WARM_API warm_status warm_device_set_collect_threshold(warm_runtime *runtime,
                                                       int device,
                                                       double threshold);

#ifdef __cplusplus
}
#endif
#endif
