/* warmpool/stats.h: statistics: structs of the pinned space and of the whole
 * runtime, and all statistics as JSON, as a table and for Prometheus.
 *
 * All figures of a struct are exact, and of one moment; each NUMA node, and
 * pageable memory, has a moment of its own. Any thread may call any function,
 * while other threads allocate and free. Each thread counts the requests that
 * its own cache serves; the functions here add these counts up, and threads
 * that allocate or free wait meanwhile.
 *
 * A freed block that streams used is pending until a call has noticed that they
 * have done the work: an allocation that misses, warm_poll(), or the background
 * thread. So a block may be pending long after its stream is idle.
 *
 * Peaks are those of a whole space (pinned, pageable, adopted, a device's, or
 * shared memory), of its live blocks, their bytes, and the bytes it holds, with
 * private pools; nodes, size classes, small and large requests have none. The
 * peak of held bytes is exact. Those of live blocks and bytes are never below
 * the true peak. Each thread that allocates or frees claims up to 64 blocks and
 * 2 MiB (2,097,152 bytes) ahead, so that its calls need no common counter: by
 * so much a thread the two may be above the true peak. It is no more with many
 * streams, with blocks that other threads free, or after a reset. A request for
 * an alignment above 4096 adds what it uses for a moment (memory.h).
 * The peak of live bytes is never above that of held bytes, but where pools are
 * paused (pause.h): paused memory is not held, and its blocks are live.
 *
 * Status: INVALID_ARGUMENT, RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_STATS_H
#define WARMPOOL_STATS_H

#include "warmpool/handle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* current = allocated - freed; peak: the highest current since the last reset
 * of peaks, as described at the top; 0 in a figure that has no peak. */
typedef struct warm_stat {
    uint64_t current, peak, allocated, freed;
} warm_stat;

/* Calls and their time since the last reset of totals; the shortest and the
 * longest one since the last reset of peaks, 0: none. */
typedef struct warm_duration {
    uint64_t count, total_ns, min_ns, max_ns;
} warm_duration;

/* name, unit, meaning; of type warm_stat, with a peak */
#define WARM_SPACE_PEAK_MAP(X)                                                 \
    X(live, "blocks", "allocated blocks that are not freed")                   \
    X(live_bytes, "bytes", "usable bytes of live blocks")                      \
    X(held_bytes, "bytes", "bytes of segments")                                \
    X(pageable, "blocks", "live pageable blocks; in no other figure")          \
    X(pageable_bytes, "bytes", "usable bytes of live pageable blocks")         \
    X(pageable_held, "bytes", "all bytes mapped for pageable blocks")          \
    X(adopted, "blocks", "live blocks of adopted memory; in no other figure")  \
    X(adopted_bytes, "bytes", "usable bytes of live blocks of adopted memory") \
    X(adopted_held, "bytes", "all bytes of adopted memory")

/* The same without a peak. */
#define WARM_SPACE_STAT_MAP(X)                                                 \
    X(requested_bytes, "bytes", "bytes requested for live blocks")             \
    X(segments, "segments", "regions obtained from the driver")                \
    X(pending, "blocks", "freed; streams not yet noticed to be done")          \
    X(pending_bytes, "bytes", "bytes of pending blocks")                       \
    X(pageable_pending, "blocks", "freed, streams not noticed to be done")     \
    X(adopted_pending, "blocks", "freed, streams not noticed to be done")

/* name, unit, meaning; of type warm_duration */
#define WARM_SPACE_DURATION_MAP(X)                                             \
    X(driver_alloc, "ns", "calls to the driver that obtain memory")            \
    X(driver_free, "ns", "calls to the driver that free memory")

/* name, unit, meaning; of type uint64_t */
#define WARM_SPACE_COUNT_MAP(X)                                                \
    X(idle_bytes, "bytes", "bytes held and free to be allocated")              \
    X(cache_hits, "calls", "requests served from memory already held")         \
    X(retries, "calls", "requests retried after memory was short")             \
    X(failures, "calls", "requests that ended out of memory")                  \
    X(spilled, "calls", "requests served by another node than their own")      \
    X(lost, "blocks", "blocks leaked after an error of the driver")            \
    X(lost_bytes, "bytes", "bytes of lost blocks")                             \
    X(captured, "blocks", "freed blocks that a captured graph may use")        \
    X(captured_bytes, "bytes", "bytes of captured blocks")                     \
    X(cached_bytes, "bytes", "idle bytes that threads cache")                  \
    X(double_frees, "blocks", "blocks that two threads freed at once")         \
    X(pageable_lost, "bytes", "pageable bytes leaked after such an error")     \
    X(reset_bytes, "bytes", "of held_bytes: lost by a reset of their device")  \
    X(above_bound, "bytes", "obtained above the bound (option slack)")         \
    X(overruns, "blocks", "written past their end (option debug:guard)")       \
    X(late_writes, "blocks", "written after their free (debug:fill)")          \
    X(huge_bytes, "bytes", "of held_bytes: huge pages (option huge_pages)")

typedef struct warm_space_stats {
    size_t size; /* sizeof(warm_space_stats) */
#define WARM_STAT_FIELD(name, unit, meaning)     warm_stat name;
#define WARM_DURATION_FIELD(name, unit, meaning) warm_duration name;
#define WARM_COUNT_FIELD(name, unit, meaning)    uint64_t name;
    WARM_SPACE_PEAK_MAP(WARM_STAT_FIELD)
    WARM_SPACE_STAT_MAP(WARM_STAT_FIELD)
    WARM_SPACE_DURATION_MAP(WARM_DURATION_FIELD)
    WARM_SPACE_COUNT_MAP(WARM_COUNT_FIELD)
#undef WARM_STAT_FIELD
#undef WARM_DURATION_FIELD
#undef WARM_COUNT_FIELD
} warm_space_stats;

/* Reads the statistics of pinned memory. huge_bytes is what /proc/self/smaps
 * reports of huge pages behind it. The file is read again, which takes as long
 * as the system needs to walk the page tables of the process, only if memory
 * was obtained or returned since the last call. In statistics of a node, or of
 * other memory, huge_bytes is 0. */
WARM_API warm_status warm_pinned_get_stats(warm_runtime *runtime,
                                           warm_space_stats *stats);

/* warm_pinned_get_stats() for the memory of one node, 0 … count - 1
 * (warm_node_count()). Peaks and figures of pageable and of adopted memory are
 * 0, and write-combined memory is in none. */
WARM_API warm_status warm_pinned_get_node_stats(warm_runtime *runtime, int node,
                                                warm_space_stats *stats);

/* Times counted by powers of two: bucket[0] has those of up to 1,024 ns,
 * bucket[1] those above of up to 2,048 ns, and so on; the last one has all
 * above 4.3 s. count is the sum of the buckets. */
#define WARM_HISTOGRAM_BUCKETS 24
typedef struct warm_histogram {
    uint64_t count, total_ns;
    uint64_t bucket[WARM_HISTOGRAM_BUCKETS];
} warm_histogram;

/* name, unit, meaning; of type warm_histogram */
#define WARM_HISTOGRAM_MAP(X)                                                  \
    X(driver_alloc_time, "ns", "calls to the driver that obtain memory")       \
    X(driver_free_time, "ns", "calls to the driver that free memory")          \
    X(growth_wait, "ns", "waits of a thread for a growth, or at a limit")      \
    X(reuse_delay, "ns", "from a free until a stream that used it is done")

typedef struct warm_space_histograms {
    size_t size; /* sizeof(warm_space_histograms) */
#define WARM_HISTOGRAM_FIELD(name, unit, meaning) warm_histogram name;
    WARM_HISTOGRAM_MAP(WARM_HISTOGRAM_FIELD)
#undef WARM_HISTOGRAM_FIELD
} warm_space_histograms;

/* Reads the histograms of pinned memory (those of a device: device_memory.h).
 * driver_alloc_time and driver_free_time have the calls that driver_alloc and
 * driver_free of warm_space_stats count. growth_wait has an entry for each time
 * that a thread waited until another one's call to the driver was over, and one
 * for each request that waited at a limit, with the whole time there (option
 * limit_wait_ms). reuse_delay is a sample: of about one in 16 batches of blocks
 * that adopted streams used, the time from its first free until a thread
 * noticed that the stream had completed its work. warm_pinned_reset_totals()
 * empties them. */
WARM_API warm_status warm_pinned_get_histograms(
    warm_runtime *runtime, warm_space_histograms *histograms);

/* One size class: its live blocks, and their bytes; no peaks. */
typedef struct warm_class_stats {
    size_t size;        /* sizeof(warm_class_stats) */
    size_t block_bytes; /* of a block of the class; 0 for the last class, of
                           any number of whole pages */
    warm_stat live, requested_bytes, live_bytes;
} warm_class_stats;

/* The number of size classes. */
WARM_API int warm_pinned_class_count(void);
/* Reads the figures of a size class of pinned memory.
 * index: 0 … warm_pinned_class_count() - 1, by increasing size. */
WARM_API warm_status warm_pinned_get_class_stats(warm_runtime *runtime,
                                                 int index,
                                                 warm_class_stats *stats);

/* warm_pinned_reset_peaks() sets every peak to the current value, and min_ns
 * and max_ns of durations to 0. warm_pinned_reset_totals() sets allocated to
 * the current value, and sets to 0 freed, count and total_ns of durations,
 * cache_hits, retries, failures, spilled, double_frees, above_bound, overruns
 * and late_writes; all other counts describe the present state and stay.
 * Neither changes what the other sets.
 */
WARM_API warm_status warm_pinned_reset_peaks(warm_runtime *runtime);
WARM_API warm_status warm_pinned_reset_totals(warm_runtime *runtime);

/* ---- the whole runtime --------------------------------------------------- */

/* Sums over pinned, pageable, adopted, device and shared memory and over all
 * kinds of handles. requested_bytes, pending_bytes and idle_bytes leave out
 * pageable and adopted memory.
 * name, unit, meaning; of type uint64_t */
#define WARM_STATS_MAP(X)                                                      \
    X(handles_created, "handles", "handles created so far")                    \
    X(handles_in_use, "handles", "handles held by threads or on lease")        \
    X(handles_idle, "handles", "handles in pools")                             \
    X(requests, "calls", "allocations so far")                                 \
    X(cache_hits, "calls", "requests served from memory already held")         \
    X(live, "blocks", "allocated blocks that are not freed")                   \
    X(requested_bytes, "bytes", "bytes requested for live blocks")             \
    X(live_bytes, "bytes", "usable bytes of live blocks")                      \
    X(pending_bytes, "bytes", "freed; streams not yet noticed to be done")     \
    X(needed_bytes, "bytes", "live_bytes and pending_bytes")                   \
    X(held_bytes, "bytes", "bytes obtained from the driver")                   \
    X(idle_bytes, "bytes", "bytes held and free to be allocated")              \
    X(workspace_bytes, "bytes", "workspaces of handles; in no figure above")   \
    X(retries, "calls", "requests retried after memory was short")             \
    X(failures, "calls", "requests that ended out of memory")                  \
    X(lost_bytes, "bytes", "bytes leaked after an error of the driver")        \
    X(driver_calls, "calls", "calls to the driver for memory")                 \
    X(driver_ns, "ns", "time in these calls")

typedef struct warm_stats {
    size_t size; /* sizeof(warm_stats) */
#define WARM_STATS_FIELD(name, unit, meaning) uint64_t name;
    WARM_STATS_MAP(WARM_STATS_FIELD)
#undef WARM_STATS_FIELD
} warm_stats;

/* Reads the sums over all spaces and handles. The figures of each space are of
 * one moment, those of different spaces are not. */
WARM_API warm_status warm_stats_get(warm_runtime *runtime, warm_stats *stats);

/* Writes all statistics of the runtime as one JSON object: version, driver,
 * devices; handles, an object for each kind and device that were used; pinned,
 * with its NUMA nodes and size classes; device_memory, an object for each
 * device that was used, with those of small and of large requests; shared, an
 * object for each device and usage that were used (shared.h), each of these
 * spaces with its histograms; ipc; total (warm_stats). The members have the
 * names of the structs' fields. The figures of each part are of one moment.
 *
 * This and every other function that writes a text take the same arguments:
 * text: gets at most bytes, always terminated. bytes 0 asks for the size alone:
 * text is not used then and may be null, and nothing is TRUNCATED.
 * needed: bytes of the whole text with its terminator; may be null. Figures
 * that grow while nothing happens, such as ages, have a fixed width: blanks
 * before the number, as JSON allows. So the size is enough for the next call
 * unless memory or handles change meanwhile.
 * Status: TRUNCATED: the text did not fit; its beginning and *needed are
 * written, and a cut text is not valid JSON. */
WARM_API warm_status warm_stats_json(warm_runtime *runtime, char *text,
                                     size_t bytes, size_t *needed);

/* Writes all statistics in the text format 0.0.4 that Prometheus scrapes, in
 * bytes and seconds. text, needed: as for warm_stats_json(). Labels: space
 * (pinned, device, private, shared), device, kind; node, class (bytes of its
 * blocks) and size (small, large) in families of their own (warmpool_node_…,
 * warmpool_class_…, warmpool_size_…), so that sums over a family count nothing
 * twice. Status: also OUT_OF_MEMORY (no memory to hold the
 * figures meanwhile). */
WARM_API warm_status warm_stats_prometheus(warm_runtime *runtime, char *text,
                                           size_t bytes, size_t *needed);

#ifdef __cplusplus
}
#endif
#endif
