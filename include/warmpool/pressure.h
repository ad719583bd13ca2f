/* warmpool/pressure.h: how much memory a runtime may hold, how much it holds,
 * and how it gets smaller.
 *
 * Each memory has two watermarks. Host memory is page-locked: pinned memory,
 * adopted memory (adopt.h), and shared buffers (shared.h) in page-locked
 * memory. A device's memory includes workspaces of handles and private or
 * managed buffers, and leaves out what is paused (pause.h). The memory of a
 * device that is the host's (warm_device_info.host_memory) counts as host
 * memory, so that nothing counts twice: both names mean the same watermarks.
 * All memory together may have watermarks too.
 *
 *   held ──►        low                    high
 *   ├────────────────┼──────────────────────┤
 *   │ idle memory is │ before more is       │ nothing is obtained
 *   │ kept for reuse │ obtained, idle       │
 *   │                │ memory goes back     │
 *
 * - Low watermark: before a request would hold more than it, open batches of
 *   frees get their events at once, and if what is complete does not serve the
 *   request, idle segments are returned: those of its own memory that were idle
 *   longest first, then those of the other spaces that count. Option
 *   reserve_bytes stays. With option background:on the background thread does
 *   the same once a second, also without requests.
 * - High watermark: a request that would hold more makes room as above, waits
 *   up to option limit_wait_ms for frees that are under way, and then fails
 *   with OUT_OF_MEMORY. It is exact to the byte. What is held already stays.
 *
 * When the kernel reports that memory is short, idle host memory goes back, but
 * for reserve_bytes: if tasks wait for memory for more than a twentieth of the
 * time (PSI), or if a cgroup's limit was met and less is left than is idle.
 * With option background:on the background thread looks once a second; else
 * each request that the thread's cache does not serve does, at most every 100
 * ms.
 *
 * The recommended maximum: of a device, its memory as the driver reports it,
 * which excludes what the hardware keeps for itself. Of the host, what counts
 * toward the watermarks now and what the process may still have: the least of
 * MemAvailable in /proc/meminfo and, for each cgroup above the process, its
 * limit less what it cannot give up (it can give up its page cache). Managed
 * memory that nobody has touched yet has no pages: the process may still have
 * them, so that they are in the second sum and not in the first. The maximum
 * changes as other programs run, and watermarks that are ratios of it follow:
 * the library reads it again before it obtains memory, at most ten times a
 * second, and in the background thread. The maximum of all memory is the sum of
 * the others; ratios of it are computed once, when they are set.
 *
 * Default ratios: high 1.7; low 1.0, and 1.4 where a device's memory is the
 * host's. Of all memory together they are off, since the parts limit it.
 * Options pinned_high, pinned_low, device_high and so on set them in bytes, and
 * in WARMPOOL_CONF also as ratios (device_high:0.9); those of devices mean
 * devices with memory of their own. If one watermark is a ratio and the other
 * is not, the low one stays below the high one.
 *
 * No watermark is more than WARM_WATERMARK_MOST times the recommended maximum
 * when it is set, where that is known: a call is refused with INVALID_ARGUMENT,
 * an option with INVALID_OPTION. An option for devices may be as much as the
 * largest of them allows; a smaller device then has WARM_WATERMARK_MOST.
 *
 * Any thread may call any function; none makes a context. Status:
 * INVALID_ARGUMENT (named), the checks of every runtime call, DRIVER_ERROR (a
 * device's size), UNSUPPORTED (a ratio, while the recommended maximum is
 * unknown). A refused call changes nothing.
 */
#ifndef WARMPOOL_PRESSURE_H
#define WARMPOOL_PRESSURE_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which memory: the number of a device, or one of these. */
#define WARM_MEMORY_OF_HOST (-1)
#define WARM_MEMORY_OF_ALL  (-2)

typedef struct warm_watermarks {
    size_t size;                  /* sizeof(warm_watermarks) */
    uint64_t high_bytes;          /* 0: off */
    uint64_t low_bytes;           /* 0: off */
    double high_ratio, low_ratio; /* of recommended_bytes; 0: off; at most
                                     WARM_WATERMARK_MOST, also if the maximum
                                     has fallen since bytes were set */
    uint64_t recommended_bytes;   /* 0: unknown; of all memory too, if it is
                                     unknown of a part */
} warm_watermarks;

/* The highest ratio. */
#define WARM_WATERMARK_MOST 2.0

/* Reads the watermarks as they are now. */
WARM_API warm_status warm_watermarks_get(warm_runtime *runtime, int memory,
                                         warm_watermarks *watermarks);

/* Sets both watermarks, in bytes; 0: off. Each must be at most
 * WARM_WATERMARK_MOST times the recommended maximum, and low not above high,
 * unless that is off. If more than low is held, idle memory is returned at
 * once. */
WARM_API warm_status warm_watermarks_set(warm_runtime *runtime, int memory,
                                         uint64_t high, uint64_t low);

/* warm_watermarks_set() in ratios of the recommended maximum, 0 to
 * WARM_WATERMARK_MOST. A ratio above 0 is at least one byte. */
WARM_API warm_status warm_watermarks_set_ratio(warm_runtime *runtime,
                                               int memory, double high,
                                               double low);

/* Bytes that may be obtained before the low watermark is reached: 0 once it is,
 * UINT64_MAX if it is off. */
WARM_API warm_status warm_low_watermark_value(warm_runtime *runtime, int memory,
                                              uint64_t *bytes);

typedef struct warm_memory_totals {
    size_t size;                /* sizeof(warm_memory_totals) */
    uint64_t in_use_bytes;      /* usable bytes of live blocks */
    uint64_t held_bytes;        /* by the runtime: what counts toward the
                                   watermarks; being obtained included */
    uint64_t process_bytes;     /* by the driver: of a device, all its memory
                                   that is not free, on CUDA that of every
                                   process; of the host, what this process has
                                   locked (VmLck and VmPin), which leaves out
                                   what a driver locks unseen by the kernel; at
                                   least held_bytes */
    uint64_t recommended_bytes; /* as in warm_watermarks */
    uint64_t largest_bytes;     /* the largest block; 0: as much as there is,
                                   as on CUDA and the host device */
} warm_memory_totals;

/* Reads the totals of a memory, each of a moment of its own. */
WARM_API warm_status warm_memory_get_totals(warm_runtime *runtime, int memory,
                                            warm_memory_totals *totals);

/* What warm_trim() made of each source, in the order in which they are tried:
 * name, unit, meaning. */
#define WARM_TRIM_MAP(X)                                                       \
    X(idle_caches, "bytes", "made idle: cached by threads that do nothing")    \
    X(completed, "bytes", "made idle: frees whose streams have completed")     \
    X(cached, "bytes", "made idle: cached by other threads, and by this one")  \
    X(segments, "bytes", "returned to the driver: idle segments")              \
    X(workspaces, "bytes", "returned to the driver: idle workspaces")          \
    X(handles, "handles", "destroyed: idle handles")

typedef struct warm_trim_report {
    size_t size; /* sizeof(warm_trim_report) */
#define WARM_TRIM_FIELD(name, unit, meaning) uint64_t name;
    WARM_TRIM_MAP(WARM_TRIM_FIELD)
#undef WARM_TRIM_FIELD
    uint64_t held_bytes; /* afterwards */
} warm_trim_report;

/* Makes the runtime hold at most target bytes in all, if it can: returns the
 * segments that are idle, then tries the sources of WARM_TRIM_MAP in order,
 * with the segments again after each of the first three, and stops once the
 * target is met; target 0 empties every cache.
 * Nothing in use is touched. Each call of the driver may wait for a device, and
 * none is made that would break a capture (device.h). report may be null. */
WARM_API warm_status warm_trim(warm_runtime *runtime, uint64_t target,
                               warm_trim_report *report);

#ifdef __cplusplus
}
#endif
#endif
