/* warmpool/options.h: how a runtime is set up.
 *
 * Every option can be given in a struct or in the environment variable
 * WARMPOOL_CONF as "key:value,key:value". A field that is not zero wins over
 * the variable, which wins over the default. Sizes in bytes may have a suffix
 * K, M, G or T (powers of 1024). In the variable
 * - blanks (also newlines) around keys, values and commas are ignored
 * - empty entries are ignored, as after a last comma: a script may append
 * - a value ends at the next comma, and may contain colons
 * - a key that occurs twice is refused, also with the same value
 * - a watermark may be a ratio of the recommended maximum (pressure.h), from
 *   0.0 to 2.0 with a point in it: device_high:0.9
 * - the word help alone is an entry too: the table of options is written to
 *   standard error, once in the process, when a runtime is created
 * No value may contain a newline, in the struct either.
 * An unknown key or a value that is not allowed is refused with
 * WARM_INVALID_OPTION and a message that lists what is allowed. The variable is
 * not read in a set-user-ID program (secure_getenv).
 *
 * What a program does can be watched without changing it, by the variable
 * alone: log, log_file and log_memory (lines), stats_at_exit, trace, history
 * with snapshot_signal. A file that cannot be written makes the creation of the
 * runtime fail. Each runtime writes files of its own, except log_file, which is
 * the process's: it is appended to, and is the one that a runtime named last.
 * Lines of log_memory have level debug. Options log and log_file take effect
 * once all options have been found valid, before a driver is opened: they also
 * show why the creation of a runtime fails after that, and stay in effect then.
 *
 * snapshot_signal installs a handler when the runtime is created, and removes
 * it when the last runtime with that signal is destroyed. A signal for which
 * the program has a handler is refused. The handler only wakes a thread of the
 * runtime, which writes what warm_snapshot_viz() (snapshot.h) writes: first to
 * a file with .part behind its name, which gets its own name when it is whole.
 *
 * Memory economy. Options slack and keep say how much page-locked memory, and
 * how much of each device's, is held for what the program needs: what it has
 * allocated, freed blocks that wait for streams, what threads cache, the
 * reserve, and memory obtained ahead and not yet used. The peak is the most of
 * that lately: what is needed no longer is forgotten, an eighth of it each
 * second.
 * - slack: the bound is the peak × (1 + slack / 100) + 4 MiB. A request that
 *   finds no block obtains memory at once if no more than the bound is held
 *   afterwards. Else it first tries all that is idle, in other threads' caches
 *   too, which takes microseconds, and obtains memory only if nothing fits
 *   (above_bound in stats.h). With more slack fewer requests take so long; with
 *   less, programs whose sizes change may call the driver more often.
 * - Memory that is obtained above the bound replaces idle segments: about as
 *   many bytes of them go back to the driver, the largest first. The reserve
 *   and what was prewarmed and not used stay. A small request does not use an
 *   idle segment of 32 MiB or more that was obtained for one large request: it
 *   returns that segment, and obtains one of its own.
 * - keep: all threads together cache at most the peak × keep / 1000 + 4 MiB;
 *   a thread that uses its cache more has more of that. With a larger keep more
 *   requests take no lock, and about as much more is held: with a peak of 1 GiB
 *   and keep:15 it is 19 MiB. With keep:off threads cache nothing.
 *
 * Watermarks (pressure.h). A request that only a high watermark refuses, and
 * that would fit beside what is live, waits for up to limit_wait_ms while frees
 * are under way: freed blocks wait for streams, or memory comes back. All that
 * count toward the watermark are served in the order in which they came, and a
 * request that would obtain more memory goes after them, though there may be
 * room for it; one that finds idle memory does not wait. No request waits in a
 * callback of the program, nor with WARM_ALLOC_PAGEABLE_OK. A host function of
 * a stream that allocates at a limit may wait for its own stream.
 *
 * Debugging. Option debug is off, or words joined by +, as in
 * debug:guard+fill+leaks. Each fault is a warning in the log, and no more: the
 * program goes on.
 * - guard: each block has 64 bytes or more behind what was requested, which no
 *   caller may write; they are checked when the block is freed. So all that is
 *   usable of a block is what was requested (warm_block_get_info()), figures of
 *   requested and usable bytes count the guards, and limits are reached
 *   earlier. A write before the start of a block is found too if it hits the
 *   guard of the block in front of it. Counted in statistics as overruns.
 * - fill: a freed block is filled with a pattern once all work of the streams
 *   recorded on it has completed. The pattern is checked when the memory is
 *   allocated again or returned to the system: a write by the host after the
 *   free is found, and one by a device whose stream was not recorded. Counted
 *   as late_writes.
 * - leaks: warm_runtime_destroy() logs what is live: the largest 32 groups of
 *   blocks of one memory, tag and call stack (without call stacks: and size).
 * Guard and fill work on memory that the host may touch at any time:
 * page-locked, pageable and shared memory, but not adopted memory (adopt.h);
 * leaks works on all memory. A warning about a block is followed by who
 * allocated and who freed it: thread, tag (warm_memory_tag_set()) and, with
 * history_frames:16, call stacks. Therefore a history of 1,024 events is kept
 * unless option history says how many. While no log callback is set every
 * warning is printed, not only the first. In a program that is built with
 * AddressSanitizer or runs under valgrind, accesses to filled memory and to
 * guards are errors that these tools report at once, also reads (valgrind: if
 * the library was compiled where its header is installed). With a word on, no
 * request is a hit of a thread's cache: programs run slower.
 *
 * Huge pages. Option huge_pages says which pages are behind page-locked memory
 * that warmpool maps itself. That is all of it with pin:register, and with
 * pin:auto on a machine with several nodes, or if the value is require,
 * hugetlb_try or hugetlb_require; else only blocks larger than pin_chunk
 * (memory.h). Where the driver cannot register memory (below) it is all with
 * pin:register, and none without.
 * - off: huge pages are not requested.
 * - try: transparent huge pages of 2 MiB are requested; small ones do as well.
 * - require: a region has transparent huge pages, except for a rest smaller
 *   than one, or it is refused with OUT_OF_MEMORY and the reason. A region that
 *   is smaller than a huge page is refused. After each region /proc/self/smaps
 *   is read, which takes longer the more memory the process has.
 * - hugetlb_try: pages set aside by sysctl vm.nr_hugepages, except for a rest
 *   smaller than one; if too few are free, as try.
 * - hugetlb_require: such pages, or the region is refused.
 * The pieces of a block (memory.h) may be no whole huge pages, because of
 * pin_chunk or of the block's rows: then hugetlb_try does what try does, and
 * hugetlb_require refuses the block.
 * cudaHostAlloc() cannot request huge pages: where it allocates, off, try and
 * hugetlb_try change nothing, and require and hugetlb_require are refused when
 * the runtime is created. huge_bytes (stats.h) is how many bytes are in huge
 * pages.
 *
 * Page-locking. With pin:alloc cudaHostAlloc() allocates all page-locked memory
 * but blocks larger than pin_chunk (memory.h); with several nodes the thread's
 * memory policy asks it for the node, and memory that came from another one is
 * returned. With pin:register all of it is mapped, touched and registered by
 * cudaHostRegister(). pin:auto registers on a machine with several nodes, and
 * if huge_pages asks for it, else it allocates. Some drivers cannot register:
 * - GH200 and GB200 page-lock nothing by it. pin:auto and pin:alloc allocate
 *   all memory; pin:register is obeyed, with a warning.
 * - Others refuse it: where the device says so, pin:register is refused when
 *   the runtime is created; where only the call does (confidential computing),
 *   each request is. pin:auto and pin:alloc allocate all memory, unless
 *   huge_pages requires huge pages.
 * With either the log says so at level info, once a runtime.
 *
 * Turns. Processes whose option pin_lock_file names the same file obtain memory
 * ahead of demand one at a time, region by region: prewarming, and
 * reserve_bytes, for which the creation of a runtime waits unless option
 * background is on. Between two regions a process pauses for at least 3 ms, so
 * that others get their turn. An allocation never waits for other processes.
 * The file is locked by flock(), and so is unlocked when a process that has its
 * turn ends, however it ends. The file is created if it does not exist; if it
 * cannot be opened the creation of the runtime fails.
 */
#ifndef WARMPOOL_OPTIONS_H
#define WARMPOOL_OPTIONS_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a number that is off, where the table says "or off": the field
 * for "off" in WARMPOOL_CONF. */
#define WARM_OFF UINT64_MAX

/* The rows of the table of options: X_SIZE(name, unit, default, min, max, help)
 * for sizes, times and counts, X_ENUM(name, default, "choice|choice", help),
 * X_SET(name, "word|word", help) for "off" or words joined by +,
 * X_LIST(name, "name|name", help) for name=value joined by ':',
 * X_TEXT(name, help). */
#define WARM_OPTION_MAP(X_SIZE, X_ENUM, X_SET, X_TEXT, X_LIST)                 \
    X_ENUM(device, "auto", "auto|cuda|host",                                   \
           "which driver: CUDA where it works, else the host device")          \
    X_SIZE(host_devices, "devices", 1, 1, 64, "number of host devices")        \
    X_SIZE(host_memory, "bytes", (uint64_t)4 << 30, 4096, (uint64_t)1 << 46,   \
           "bytes of memory of each host device")                              \
    X_SIZE(segment, "bytes", (uint64_t)4 << 20, 1 << 16, (uint64_t)1 << 34,    \
           "least bytes obtained from the driver at once for pinned memory")   \
    X_SIZE(pinned_high, "bytes, ratio or off", 0, 0, (uint64_t)1 << 50,        \
           "most host memory held; 0: 1.7 times what machine and cgroups "     \
           "allow")                                                            \
    X_SIZE(pinned_low, "bytes, ratio or off", 0, 0, (uint64_t)1 << 50,         \
           "above it idle host memory is returned; 0: what machine and "       \
           "cgroups allow")                                                    \
    X_SIZE(                                                                    \
        device_high, "bytes, ratio or off", 0, 0, (uint64_t)1 << 50,           \
        "most memory of each device held; 0: 1.7 times what the device has")   \
    X_SIZE(device_low, "bytes, ratio or off", 0, 0, (uint64_t)1 << 50,         \
           "above it idle memory of a device is returned; 0: what the device " \
           "has")                                                              \
    X_SIZE(total_high, "bytes, ratio or off", 0, 0, (uint64_t)1 << 50,         \
           "most memory of host and devices held; 0: off")                     \
    X_SIZE(total_low, "bytes, ratio or off", 0, 0, (uint64_t)1 << 50,          \
           "above it idle memory of all is returned; 0: off")                  \
    X_ENUM(                                                                    \
        pin, "auto", "auto|alloc|register",                                    \
        "cudaHostAlloc, or map, touch and cudaHostRegister (auto: the second " \
        "with several nodes, where the driver can)")                           \
    X_SIZE(pin_chunk, "bytes", (uint64_t)256 << 20, 1 << 16,                   \
           (uint64_t)1 << 40,                                                  \
           "most bytes page-locked by one call; larger blocks have pieces")    \
    X_SIZE(reserve_bytes, "bytes", 0, 0, (uint64_t)1 << 46,                    \
           "bytes pinned at the start on the node of device 0; decay_ms does " \
           "not return them, background refills them")                         \
    X_ENUM(background, "off", "on|off",                                        \
           "a thread that polls streams, refills the reserve, returns idle "   \
           "memory")                                                           \
    X_TEXT(pin_lock_file,                                                      \
           "file that processes lock in turns: of those that name it one at "  \
           "a time pins memory ahead of demand (prewarming, reserve_bytes)")   \
    X_ENUM(                                                                    \
        huge_pages, "try", "off|try|require|hugetlb_try|hugetlb_require",      \
        "pages of pinned memory that is mapped here, not by cudaHostAlloc: "   \
        "transparent huge pages, or those of vm.nr_hugepages")                 \
    X_SIZE(decay_ms, "ms", 0, 0, (uint64_t)1 << 40,                            \
           "ms after which an idle segment is returned, 0: never")             \
    X_SIZE(workspace_limit, "bytes", 0, 0, (uint64_t)1 << 50,                  \
           "bytes of workspaces a kind of handles and device before idle "     \
           "ones move; 0: one for each handle or stream in use, and two")      \
    X_SIZE(limit_wait_ms, "ms or off", 100, 1, 60000,                          \
           "how long a request that only a limit refuses waits for frees "     \
           "that are under way")                                               \
    X_SIZE(slack, "percent", 15, 1, 1000,                                      \
           "of the recent peak of what is needed: so much more, and 4 MiB, "   \
           "is held before idle memory is tried ahead of growth")              \
    X_SIZE(keep, "permille or off", 15, 1, 1000,                               \
           "of the peak that slack means, and 4 MiB: what all threads cache "  \
           "together; off: threads cache nothing")                             \
    X_ENUM(expandable_segments, "off", "on|off",                               \
           "no effect, and will be refused: segments are not expanded")        \
    X_ENUM(stream_wait, "short", "off|short",                                  \
           "a device's streams wait for idle memory of each other: never, or " \
           "above the bound (slack) and when short")                           \
    X_ENUM(shared_memory, "auto", "auto|mapped|managed",                       \
           "memory of buffers that host and device share: mapped page-locked " \
           "memory, managed by the driver where both may touch it at once, "   \
           "or what suits the device")                                         \
    X_ENUM(log, "warning", "none|warning|info|debug",                          \
           "least severe message that is logged; given in WARMPOOL_CONF it "   \
           "goes to standard error if the program has no log callback")        \
    X_TEXT(log_file,                                                           \
           "file to which log lines are appended if the program has no log "   \
           "callback; in its name %p is the process id")                       \
    X_SET(log_memory, "profile|alloc|recycle|free|release|large",              \
          "log, whatever log says: growth with totals, blocks for which "      \
          "memory was obtained, blocks of memory held already, frees, memory " \
          "returned to the driver; large: only what has 1M or more")           \
    X_TEXT(stats_at_exit,                                                      \
           "file that gets the statistics as JSON when the runtime is "        \
           "destroyed or the process exits; %p and %r as in trace")            \
    X_ENUM(snapshot_signal, "none", "none|HUP|USR1|USR2",                      \
           "signal on which a snapshot of all memory is written")              \
    X_TEXT(snapshot_file,                                                      \
           "file of such a snapshot, warmpool-%p-%r-%n.json if not given; "    \
           "%p and %r as in trace, %n the number of the snapshot")             \
    X_TEXT(trace,                                                              \
           "file that records every allocation, free and stream use; in its "  \
           "name %p is the process id, %r the number of the runtime")          \
    X_SIZE(history, "events", 0, 0, 1 << 22,                                   \
           "memory events kept for snapshots: the last ones, 0: none")         \
    X_SIZE(history_frames, "addresses", 0, 0, 64,                              \
           "return addresses kept with each event and each live block")        \
    X_SET(debug, "guard|fill|leaks",                                           \
          "finds writes past the end of a block (guard) and after its free "   \
          "(fill), and names blocks that nobody freed (leaks)")                \
    X_SET(preload, "handles|pinned|device",                                    \
          "what libwarmpool-preload.so serves of a program that calls CUDA "   \
          "(under warmpool-run handles+pinned, if not given)")                 \
    X_ENUM(free, "defer", "defer|wait",                                        \
           "whether a free that libwarmpool-preload.so serves waits for the "  \
           "device as CUDA's does, or the memory does")                        \
    X_LIST(libraries, "cudart|cublas|cublaslt|cudnn|cusparse|cusolver",        \
           "paths of CUDA's libraries, as libraries:cudart=FILE:cublas=FILE; " \
           "a path has no colon in it")

/* The options of a runtime. A field that is zero or null has the value of
 * WARMPOOL_CONF, else the default. Texts are borrowed for the call that takes
 * the struct. */
typedef struct warm_options {
    size_t size; /* sizeof(warm_options) */
#define WARM_OPTION_SIZE(name, unit, def, min, max, help) uint64_t name;
#define WARM_OPTION_ENUM(name, def, choices, help)        const char *name;
#define WARM_OPTION_SET(name, words, help)                const char *name;
#define WARM_OPTION_TEXT(name, help)                      const char *name;
#define WARM_OPTION_LIST(name, names, help)               const char *name;
    WARM_OPTION_MAP(WARM_OPTION_SIZE, WARM_OPTION_ENUM, WARM_OPTION_SET,
                    WARM_OPTION_TEXT, WARM_OPTION_LIST)
#undef WARM_OPTION_SIZE
#undef WARM_OPTION_ENUM
#undef WARM_OPTION_SET
#undef WARM_OPTION_TEXT
#undef WARM_OPTION_LIST
    const char *test; /* for the library's own tests: null */
} warm_options;

/* Writes the table of options into text (at most bytes, always terminated): for
 * each a line "name: default unit (least to most)" or "name: default
 * (choice|choice)", or "name: off (or words of word|word, joined by +)", or
 * "name: none (NAME=VALUE of name|name, joined by ':')", and its help below it,
 * indented; no line is longer than 96 characters. Returns the bytes that the
 * whole table needs, the terminator included; they are always the same. Any
 * thread. */
WARM_API size_t warm_options_help(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
