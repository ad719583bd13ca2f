/* warmpool/runtime.h: creating and destroying runtimes; the log.
 *
 * Threads. Any thread may call any function at any time, except
 * warm_runtime_destroy(), which has conditions. A thread that exits, in
 * whatever way, releases its handles. Deferred cancellation (the default of
 * pthreads) is safe everywhere: no call is a cancellation point, also while it
 * waits or calls the program's functions; the thread is cancelled after it.
 * Asynchronous cancellation is not safe. The threads of the host device, of
 * option background and of background prewarming keep a process whose main
 * thread has called pthread_exit() alive until the runtime is destroyed, or a
 * thread calls exit().
 *
 * Exit. exit() runs handlers, and destructors of static objects, in reverse
 * order of their registration. The library registers a handler when the process
 * creates its first runtime. Handlers registered later run before it, and all
 * calls work in them. From that handler on the library calls no driver, returns
 * WARM_EXITING and leaks all that remains on purpose. CUDA shuts down in exit
 * handlers too, and must not be called after them; so the library registers its
 * handler again after CUDA was opened, after the first use of a device, and
 * after the first handle of each CUDA library. A program should register its
 * own handlers that use the library after those. quick_exit() runs the
 * library's handler too, registered once with the first runtime; _exit() and
 * signals run none. A signal handler may call _exit(), but not exit() or
 * quick_exit(), which are not async-signal-safe: if the signal has interrupted
 * a call of the library, the handlers could wait for a lock of that call for
 * ever. A plugin that has the library inside stays loaded after dlclose().
 *
 * Signals. The library's own threads block all signals, so that the program's
 * handlers run in the program's threads. They do not keep exit() from ending
 * the process. But if main() ends by pthread_exit() and no other thread of the
 * program is left while a runtime lives, the process goes on with the library's
 * threads alone, and no signal but SIGKILL ends it, SIGTERM neither: destroy
 * runtimes before, or let the last thread call exit().
 *
 * Forks. In a child made by fork() every call on a runtime of the parent
 * returns WARM_FORKED; the child can create a new one with device:host.
 *
 * CUDA contexts. The library works in the primary contexts of devices, which
 * cudart uses.
 *   - A call that returns a handle, memory, a stream or an event checks the
 *     thread's current context, unless the thread has the object cached (a
 *     handle that it holds, a block of a size that it freed): such an object is
 *     of the primary context, and must not be used in another one. If the
 *     current context is one of cuCtxCreate(), or a green one, the call returns
 *     UNSUPPORTED with its name in the message, and changes nothing.
 *   - UNSUPPORTED is also returned by a call that stores a stream of such a
 *     context (adopts, records, captures or destroys it, makes it wait for an
 *     event, reserves or allocates for it), and by every call on a default
 *     stream while such a context is current.
 *   - Other calls on a stream (query, wait, copy, launch a graph or a host
 *     function) go to CUDA unchecked, since a check would cost too much. An
 *     event is recorded only in streams of its device's primary context; in
 *     others that is INVALID_STREAM.
 *   - Free, release, poll, trim and destroy work in any context.
 *
 * cudaDeviceReset() ends all that a runtime has on the device: handles,
 * workspaces, memory, streams, events and graphs. The runtime notices it in the
 * next call that checks the context for that device or for pinned memory; in
 * release, poll, trim and destroy; when a thread that holds a handle of the
 * device exits; and in the thread of option background. A warning says so once.
 * From then on the device is lost to this runtime:
 *   - calls for it, and with objects that the runtime made there, return
 *     DRIVER_ERROR with the device and the cause in the message; CUDA is not
 *     called with any of these objects any more
 *   - its handles and memory count as lost in the statistics (handle.h,
 *     device_memory.h). Freeing its blocks and returning its leases is allowed,
 *     and has no effect on CUDA
 *   - a hit does not check: a thread still gets handles that it holds and
 *     blocks that it has cached of the device, and must not use them
 *   - memory of other devices, or of the host, that waits for a stream of the
 *     device waits no longer, since that work has ended
 *   - other devices are not affected. Nor is pinned memory, unless it belongs
 *     to the context that was reset: all of it belongs to one context, that of
 *     the device on which the runtime first needed pinned memory. CUDA frees it
 *     with that context, and the runtime's pinned memory is lost in the same
 *     way
 *   - the runtime's destruction frees nothing of the device, and reports what
 *     was lost. A runtime created after the reset works. The old one cannot use
 *     the device again: CUDA reuses the addresses of lost memory, and a late
 *     free of an old block would free a new one. For that reason the runtime
 *     does not use memory for another device that CUDA allocates at such an
 *     address: it allocates again. A stream that the program creates, and that
 *     has the address of a lost stream of the runtime, is refused like that
 *     one.
 */
#ifndef WARMPOOL_RUNTIME_H
#define WARMPOOL_RUNTIME_H

#include "warmpool/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a runtime. Loads libraries and may take milliseconds; creates no
 * device context.
 * options: borrowed; null means all defaults. With device:auto (the default)
 * and no working CUDA the runtime uses the host device, and one warning says
 * why. CUDA's runtime library (cudart) is the one that the program has loaded,
 * else the newest of versions 13 and 12 that the machine's driver serves; a
 * line at log level info names it. If option libraries names one, only that
 * one is tried.
 * runtime: owned by the caller, ended with warm_runtime_destroy().
 * Status (no runtime exists then; an earlier content of the file of option
 * trace stays): INVALID_ARGUMENT (runtime null, size of options refused);
 * INVALID_OPTION (also: the file of option trace cannot be opened, or another
 * runtime writes it, or one of this process wrote it before; the file of
 * another option cannot be written; the program has a handler for
 * snapshot_signal); UNAVAILABLE (device:cuda, and CUDA cannot be used: the
 * message says why, for each library tried); UNSUPPORTED (device:cuda, built
 * without CUDA); OUT_OF_MEMORY (also for reserve_bytes); DRIVER_ERROR; EXITING
 * (also: CUDA has shut down). */
WARM_API warm_status warm_runtime_create(const warm_options *options,
                                         warm_runtime **runtime);

/* What was still in use when a runtime was destroyed. These handles and this
 * memory stay usable, and are never returned to the driver; so a graph whose
 * memory is in the report can still be launched. */
typedef struct warm_destroy_report {
    size_t size;           /* sizeof(warm_destroy_report) */
    uint64_t handles;      /* held by live threads, or leased */
    uint64_t live;         /* blocks that were not freed */
    uint64_t live_bytes;   /* bytes of live blocks */
    uint64_t pending;      /* freed, but a stream may still use them */
    uint64_t host_streams; /* host device: held streams dropped with work */
    uint64_t imports;      /* opened with warm_ipc_open() and not closed: these
                              are closed */
    uint64_t lost_handles; /* of devices that were reset: not destroyed, in use
                              or not; in no figure above */
    uint64_t lost_bytes;   /* memory of those devices, and pinned memory if it
                              was lost: not freed, in use or not */
    uint64_t pools;        /* private pools for graphs with references */
    uint64_t pool_bytes;   /* their memory, live blocks in it and workspaces of
                              their captures included */
    uint64_t captured;     /* freed blocks, and workspaces, that graphs of no
                              private pool may use */
    uint64_t captured_bytes; /* bytes of those */
} warm_destroy_report;

/* Destroys a runtime: releases the handles and caches of the calling thread,
 * returns idle handles and memory to the driver, and reports what is in use,
 * which it does not touch. No other thread may be inside a call on the runtime,
 * except by exiting.
 * runtime: null is ignored; one that was destroyed returns RUNTIME_GONE.
 * report: null or borrowed with size set.
 * Blocking. Waits for the handle and the region that the background threads are
 * creating, if any; for work queued on the host device; with CUDA for all work
 * of the devices, if there is memory to return or a handle to destroy
 * (cudaFreeHost(), cublasDestroy() and their like wait for the device). Freed
 * blocks that streams used are returned too if that work has finished by then;
 * the call does not wait for CUDA because of such blocks alone. While an
 * adopted stream captures, to return memory or to destroy a handle would break
 * the capture: idle handles and memory are leaked then, which is logged.
 * Status: INVALID_ARGUMENT (also: from a callback of a kind, for the log, or
 * for memory that is short), RUNTIME_GONE; FORKED in a forked child and EXITING
 * while the process exits, where it changes nothing and calls no driver. */
WARM_API warm_status warm_runtime_destroy(warm_runtime *runtime,
                                          warm_destroy_report *report);

/* Returns the process's default runtime, which the first call creates with
 * default options. Borrowed; it may be destroyed, and the next call then
 * creates a new one. Status: as warm_runtime_create(). */
WARM_API warm_status warm_runtime_default(warm_runtime **runtime);

/* Returns the name of the runtime's driver: "cuda" or "host"; "gone" after
 * destroy. Static string. */
WARM_API const char *warm_runtime_driver(const warm_runtime *runtime);

/* Writes the options in force as "name:value\n", in the order of the table
 * (options.h): what the struct, WARMPOOL_CONF and the defaults came to. A text
 * that was not given has no value. text, bytes, needed and TRUNCATED are as in
 * warm_stats_json() (stats.h). Any thread; calls no driver. Status:
 * INVALID_ARGUMENT, RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_runtime_options(warm_runtime *runtime, char *text,
                                          size_t bytes, size_t *needed);

typedef enum warm_log_level {
    WARM_LOG_WARNING = 1,
    WARM_LOG_INFO = 2,
    WARM_LOG_DEBUG = 3
} warm_log_level;

/* Called by any thread, one line at a time, while no lock of the library is
 * held. It may call the library, except to create or destroy runtimes, to
 * release its thread and to wait for prewarming. */
typedef void (*warm_log_fn)(void *context, warm_log_level level,
                            const char *line);

/* Sets the process's log callback; null removes it. Without one lines go to the
 * file of option log_file, if there is one; else to standard error, if
 * WARMPOOL_CONF gives option log or log_memory; else the first warning goes
 * there, with option debug every warning, and nothing else is ever printed but,
 * once, that the host device is used since CUDA cannot be (device:host silences
 * that).
 * Option log of the runtime created last says which lines are logged. Calls
 * that are under way in other threads may still use the old callback. */
WARM_API void warm_log_set(warm_log_fn log, void *context);

#ifdef __cplusplus
}
#endif
#endif
