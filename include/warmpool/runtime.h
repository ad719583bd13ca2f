/* warmpool/runtime.h: making and ending runtimes, log.
 *
 * Processes and threads. Any thread may call any function at any time, but
 * for warm_runtime_destroy(), which says what it asks for. A thread that
 * exits, in whatever way, gives its handles back by itself.
 * exit() runs handlers, and destructors of static objects, in reverse order of
 * their registration. The library's handler is registered when the process
 * makes its first runtime: those that were registered later run before it, and
 * all calls work there as they did. From it on the library calls no driver any
 * more, answers WARM_EXITING and leaks what is left on purpose. CUDA shuts down
 * in exit handlers, too, and must not be called after them; so the library's is
 * registered once more after CUDA was opened, after the first use of a device,
 * and after the first handle of each library of CUDA. A handler of the
 * program's that uses the library is best registered after those. quick_exit()
 * runs the library's handler as well, registered once with the first runtime;
 * _exit() and signals run none. In a child made by fork() every call on a
 * runtime of the parent answers WARM_FORKED; the child can make a new one with
 * device:host. Deferred cancellation (the default of pthreads) is safe
 * everywhere; asynchronous cancellation is not. The host device's threads, and
 * those of option background and of what is prewarmed in the background, keep a
 * process whose main thread has called pthread_exit() alive until the runtime
 * is destroyed, or somebody calls exit().
 *
 * CUDA contexts. The library works in the primary contexts of devices, which
 * are those that cudart uses. A call that hands out a handle, memory, a stream
 * or an event, and finds none that its thread has ready, looks at the thread's
 * current context first: where that is one of cuCtxCreate(), or a green one,
 * the call answers UNSUPPORTED with its name in the message, and changes
 * nothing. So does a call that keeps a stream in mind (to adopt, record,
 * capture or destroy it, to let it wait for an event, to reserve or allocate
 * for it), where the stream is one of such a context; and each call that is
 * given a default stream while one is current. To query or wait for any other
 * stream, to copy, to launch a graph or a host function goes to CUDA as it is:
 * no look is worth its cost there. An event is recorded in streams of its
 * device's primary context only; in others that is INVALID_STREAM. What the
 * thread has ready it gets
 * without a look (a handle that it holds, a block of a size that it freed): it
 * is of the primary context, and not to be used in another one. To free,
 * release, poll, trim and destroy is fine in any.
 *
 * cudaDeviceReset() ends all that a runtime has on the device: handles,
 * workspaces, memory, streams, events and graphs. The next such call for that
 * device, or for pinned memory, notices it, as do to release, poll, trim and
 * destroy, the exit of a thread that holds a handle of the device, and the
 * thread of option background. The first to notice says so in a warning. From
 * then on the device is lost to this runtime: calls for it, and with what the
 * runtime made there, answer DRIVER_ERROR with the device and the cause in the
 * message, and nothing of it is named to CUDA any more. Handles and memory of
 * it count as lost in the statistics (handle.h, device_memory.h). Its blocks
 * may be freed and its leases returned, which does nothing more. A hit looks at
 * nothing: what a thread holds, or keeps ready, of the device it still gets,
 * and must not use. Blocks of other memory that wait for a stream of the device
 * wait no longer: its work is over. The other devices work on. Pinned memory
 * does as well, unless it is of the context that was reset: all of it is of
 * one, that of the device on which the runtime first needed any. CUDA frees it
 * with that context, and the runtime's pinned memory is lost in the same way.
 * A lost device stays so until the runtime is destroyed, which frees nothing of
 * it and reports what was lost; a runtime that is made after the reset works.
 * The same one cannot: CUDA gives the addresses of lost memory anew, and a late
 * free of an old block would be one of a new block. So memory that comes at
 * such an address, for another device, is not used: the runtime asks for other
 * memory. A stream that the program makes, and that gets the address of one of
 * the runtime's that was lost, is taken for that one, and refused.
 */
#ifndef WARMPOOL_RUNTIME_H
#define WARMPOOL_RUNTIME_H

#include "warmpool/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a runtime.
 * options: borrowed; null means all defaults. runtime: owned by the caller,
 * ended with warm_runtime_destroy(). With device:auto (the default) and no
 * working CUDA the host device is taken, with one warning that says why.
 * CUDA: the runtime library (cudart) that the program has loaded, else the
 * newest of versions 13 and 12 that the machine's driver serves; one line at
 * log level info names it. Option cudart names the only one to try.
 * Status: INVALID_ARGUMENT (runtime null, size of options refused);
 * INVALID_OPTION (also: the file of option trace cannot be opened, or another
 * runtime writes it, or one of this process wrote it before); UNAVAILABLE
 * (device:cuda, and CUDA cannot be used: the message says of each library tried
 * why), UNSUPPORTED
 * (device:cuda, built without CUDA); OUT_OF_MEMORY (also: reserve_bytes cannot
 * be had); DRIVER_ERROR; EXITING (also: CUDA has shut down). Nothing is left of
 * it then; what was in the file of option trace stays. Loads libraries and may
 * take milliseconds; creates no device context. */
WARM_API warm_status warm_runtime_create(const warm_options *options,
                                         warm_runtime **runtime);

/* What was still in use when a runtime was destroyed. Such things are not
 * destroyed: handles and memory stay usable, and are never given back. */
typedef struct warm_destroy_report {
    size_t size;           /* sizeof(warm_destroy_report) */
    uint64_t handles;      /* held by live threads, or leased */
    uint64_t live;         /* blocks not freed by their owner */
    uint64_t live_bytes;   /* bytes of those */
    uint64_t pending;      /* freed, but not known to be safe by the end */
    uint64_t host_streams; /* host device: held streams dropped with work */
    uint64_t imports;      /* opened with warm_ipc_open() and not closed: these
                              are closed */
    uint64_t lost_handles; /* of devices that were reset: handles left alone,
                              in use or not; in no figure above */
    uint64_t lost_bytes;   /* of those, and pinned if that was lost: memory left
                              alone, in use or not */
} warm_destroy_report;

/* Ends a runtime: idle handles and memory are given back to the driver, what
 * is in use is left alone and reported. What the calling thread holds of it is
 * given back first.
 * runtime: null is ignored; destroyed twice answers RUNTIME_GONE.
 * report: null or borrowed with size set.
 * Waits for the one handle that is being made and the one region that is being
 * obtained in the background, if there are any; for work queued on the host
 * device; with CUDA for all work of the devices, if there is memory to give
 * back or a handle to destroy (cudaFreeHost, cublasDestroy and their like wait
 * for the device). Freed blocks that streams used go back as well if that work
 * has finished by then; for pending ones alone CUDA is not waited for. If a
 * stream that is adopted captures, all of that would break the capture: idle
 * handles and memory stay with the process, which is logged. No other
 * thread may be inside a call on the runtime, except by exiting. Status:
 * INVALID_ARGUMENT (also: from a callback of a kind, for the log, or for memory
 * that is short), RUNTIME_GONE; FORKED in a forked child and EXITING while the
 * process exits, where it changes nothing and touches no driver. */
WARM_API warm_status warm_runtime_destroy(warm_runtime *runtime,
                                          warm_destroy_report *report);

/* The process's default runtime, made with default options by the first call.
 * Borrowed; it may be destroyed, after which the next call makes a new one.
 * Status: as warm_runtime_create(). */
WARM_API warm_status warm_runtime_default(warm_runtime **runtime);

/* The name of the runtime's driver: "cuda" or "host"; "gone" after destroy.
 * Static string. */
WARM_API const char *warm_runtime_driver(const warm_runtime *runtime);

typedef enum warm_log_level {
    WARM_LOG_WARNING = 1,
    WARM_LOG_INFO = 2,
    WARM_LOG_DEBUG = 3
} warm_log_level;

/* Called by any thread, one line at a time, no lock of the library held. It
 * may call the library, except for creating and destroying runtimes, and for
 * waiting until something was prewarmed. */
typedef void (*warm_log_fn)(void *context, warm_log_level level,
                            const char *line);

/* Sets the process's log callback; null takes it away. Without one the first
 * warning goes to standard error, and nothing else is ever printed. Which
 * lines pass is said by option log of the runtime that was made last.
 * A call that is under way in another thread may still use the old one. */
WARM_API void warm_log_set(warm_log_fn log, void *context);

#ifdef __cplusplus
}
#endif
#endif
