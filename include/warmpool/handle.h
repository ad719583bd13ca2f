/* warmpool/handle.h: the handle pool.
 *
 * A handle is a stateful library context (cuBLAS, cuDNN, a stream, …) bound to
 * one device and used by one thread at a time. A thread that reserves one gets
 * the same handle on every call for as long as the thread lives. When it exits,
 * in whatever way, the handle returns to the pool by itself, is reset to the
 * library's default state and serves the next thread. There is no limit on
 * handles, and no thread waits for another, except that a runtime's first
 * handle of a kind on a device is created by one thread alone, and by one
 * runtime at a time.
 *
 * Handles are borrowed: never destroy one, never pass one to another thread,
 * unless it is leased. A lease lasts for a scope instead of a thread's life:
 * for a fiber, or a request of an asynchronous server.
 * Typed helpers are in warmpool/cublas.h, warmpool/cudnn.h and so on, which
 * include the vendor's header.
 *
 * Captures. Destroying a handle of most libraries waits for the device, which
 * breaks the captures of all threads there: it is deferred until no stream of
 * the device is known to capture (warm_capture_announce()), also for a handle
 * that cannot be reset. Creating a handle allocates memory, in CUDA's relaxed
 * mode, for which CUDA documents no wait for the device. But a library may load
 * code with its first handle on a device, for which CUDA may wait: prewarm
 * (warm_handle_prewarm()) before the first capture. A runtime that is destroyed
 * while an adopted stream captures leaks its idle handles and the workspaces,
 * and logs that.
 * A graph may run beside other work of the stream that captured it, so the two
 * must not share a workspace: reserve a handle again with
 * warm_handle_reserve_on() in the capture, before it is used there, and once
 * more after the capture; and use a leased handle either in the capture or for
 * other work. If a private pool records (warm_private_pool_begin()), the handle
 * gets a workspace for the graphs of that pool, which stays until the pool has
 * ended and no handle is bound to it; graphs of one pool must not run at once.
 * In a capture without a private pool no workspace is set, and cuBLAS obtains
 * its own, as memory nodes of the graph; CUDA allows no such nodes in child
 * graphs and in graphs that the device launches. If a handle was not reserved
 * again in the capture, its workspace belongs to the graph: until the pool has
 * ended, or without a pool for ever; the first such workspace on a device is
 * logged.
 *
 * Common status: INVALID_ARGUMENT (runtime or output null, kind or device out
 * of range), RUNTIME_GONE, FORKED, EXITING.
 */
#ifndef WARMPOOL_HANDLE_H
#define WARMPOOL_HANDLE_H

#include "warmpool/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds every runtime has; kinds of the user follow after them. Calls for a
 * built-in kind return UNAVAILABLE if its library or device is missing,
 * UNSUPPORTED if this build left it out. CUDA's libraries must be of the major
 * version of the CUDA runtime in use: if the program has loaded, or an option
 * names, a library of another version, calls for its kind return UNAVAILABLE,
 * and the message says so. */
enum {
    WARM_KIND_STREAM = 0,   /* warm_stream; adopted by the runtime */
    WARM_KIND_CUBLAS = 1,   /* cublasHandle_t */
    WARM_KIND_CUBLASLT = 2, /* cublasLtHandle_t; takes no stream */
    WARM_KIND_CUDNN = 3,    /* cudnnHandle_t */
    WARM_KIND_CUSPARSE = 4, /* cusparseHandle_t */
    WARM_KIND_CUSOLVER = 5, /* cusolverDnHandle_t */
    WARM_KIND_ONEDNN = 6,   /* dnnl_engine_t of the CPU; host device only */
    WARM_KIND_BUILTIN = 7,  /* number of built-in kinds */
    WARM_KIND_MAX = 32      /* most kinds of a runtime */
};
typedef int warm_kind;

/* The callbacks of a user's kind. Each returns 0 or the library's own error
 * code. Threads: a thread that reserves or leases may call any of them; one
 * that prewarms calls create, one that trims or destroys the runtime calls
 * destroy, and one that trims or retires a stream calls bind_stream with null
 * (the default stream), and destroy if that fails. A thread of the runtime,
 * with all signals blocked, calls create to prewarm in the background. A
 * deferred destroy is called by the threads that warm_handle_trim() names. No
 * lock of warmpool is held: a callback may call warmpool. Handles that create
 * reserves on a thread of the runtime are returned to the pool after it. If a
 * callback reserves or leases a handle of the kind and device of which its
 * thread is about to get one, it gets INVALID_ARGUMENT; if the runtime is being
 * destroyed, it gets RUNTIME_GONE for every handle. A callback ends by
 * returning: no exception, longjmp() or pthread_exit() may leave it.
 * Captures: while a stream of the device is known to capture
 * (warm_capture_announce()) destroy is deferred. create is called, in CUDA's
 * relaxed mode: it may allocate but must not wait for the device. No capture
 * waits for a destroy that is running when the capture is announced: if destroy
 * breaks captures, as that of most libraries does, the program must not run the
 * two at once. destroy is also called for a handle whose reset failed. */
typedef struct warm_kind_ops {
    size_t size;      /* sizeof(warm_kind_ops) */
    const char *name; /* copied; names the kind in errors and statistics; 1
                         to 63 bytes */
    void *context;    /* passed to every callback; outlives the runtime */
    /* Makes a handle that is not null. Required. */
    int (*create)(void *context, int device, void **handle);
    /* Required. */
    int (*destroy)(void *context, int device, void *handle);
    /* Makes the handle work on stream. Null: the kind takes no streams. */
    int (*bind_stream)(void *context, int device, void *handle,
                       warm_stream stream);
    /* Resets a handle of the pool that a thread is about to get, whether
     * another one used it or it was prewarmed: to its default state, which
     * includes that it works on the default stream, for bind_stream is not
     * called for that. If the reset fails the handle is destroyed. Null: there
     * is no state but the stream, which bind_stream with null resets. */
    int (*reset)(void *context, int device, void *handle);
    /* The library's text for a code. Null: no text. */
    const char *(*error_text)(void *context, int code);
} warm_kind_ops;

/* Adds a kind to the runtime.
 * ops: borrowed for the call. kind: valid as long as the runtime.
 * Status: INVALID_ARGUMENT (also: WARM_KIND_MAX reached, name taken),
 * OUT_OF_MEMORY. Nothing has changed then. */
WARM_API warm_status warm_kind_register(warm_runtime *runtime,
                                        const warm_kind_ops *ops,
                                        warm_kind *kind);

/* The kind's name, or null if there is none. Lives as long as the runtime. */
WARM_API const char *warm_kind_name(warm_runtime *runtime, warm_kind kind);

/* Writes the file of the library that the kind's handles come from, behind all
 * symbolic links: its name usually ends in the library's version. Loads the
 * library if that has not happened, as the first handle would; creates no
 * handle and no device context. May block.
 * file: gets at most bytes, terminated; written on success only.
 * Status: INVALID_ARGUMENT (also: bytes are too few), NOT_FOUND (the handles
 * come from no library: those of the program's own kinds, and streams of the
 * host device), UNAVAILABLE (the library is missing, or made for another CUDA;
 * the message says why, for each name tried), UNSUPPORTED (built without it),
 * OUT_OF_MEMORY, RUNTIME_GONE, FORKED, EXITING. */
WARM_API warm_status warm_kind_library(warm_runtime *runtime, warm_kind kind,
                                       char *file, size_t bytes);

/* The calling thread's handle of a kind on a device.
 * handle: borrowed until the thread exits or warm_thread_release().
 * Status: UNAVAILABLE, UNSUPPORTED (also: the thread's CUDA context is not a
 * primary one, see runtime.h), OUT_OF_MEMORY; LIBRARY_ERROR and DRIVER_ERROR
 * with the library's own code and text in warm_last_error(). A failed call
 * changes nothing.
 * Blocking: if the thread holds the handle already, the call takes no lock and
 * makes no system call and no driver call. Else it may create a handle, which
 * takes milliseconds, or destroy a handle that cannot be reset and deferred
 * ones, for which CUDA waits for the device.
 */
WARM_API warm_status warm_handle_reserve(warm_runtime *runtime, warm_kind kind,
                                         int device, void **handle);

/* As warm_handle_reserve(), and binds the handle to stream: for cuBLAS with a
 * workspace that no other stream and no other handle uses at the same time; see
 * Workspaces below, and Captures above for those of graphs. If the thread holds
 * no handle yet, it gets an idle one that has a workspace for the stream, if
 * there is one. If the handle is bound to the stream already, no library is
 * called, unless it is bound with a graph's workspace. While no stream is
 * adopted or retired (memory.h) and no capture is announced, a handle that
 * alternates between two adopted streams costs the library's calls alone.
 *
 * Workspaces. One that no handle is bound to is idle, and stays for its stream
 * and handle until another handle or stream needs it. There are as many on a
 * device as handles of the kind, or streams, were in use at once since the last
 * trim, whichever is more, and two; a stream is in use from its first binding
 * until it retires, if it is adopted or a default stream. Option
 * workspace_limit sets another bound, in bytes. Beyond the bound the workspace
 * that is idle longest is used, and stream is made to wait
 * (cudaStreamWaitEvent) for the work that uses it; no thread waits. If none is
 * idle, one more is obtained (workspaces_above). A handle leaves its workspace
 * only when it has the next one: where workspace_limit allows one for each
 * handle, every handle that changes its stream at the same time needs one
 * beyond the limit, which later changes use. One more may also be obtained
 * while a trim of another thread asks whether idle ones are done. Those of
 * graphs do not count. Idle ones are returned before a request for memory of
 * the device is refused.
 * If there is no memory for one, cuBLAS uses its own, which is logged once.
 * A workspace of the per-thread default stream is its thread's until the thread
 * exits or calls warm_thread_release(), which then record an event.
 * stream: borrowed; of the same device, or a default stream.
 * Status: also INVALID_STREAM; INVALID_ARGUMENT (the stream belongs to
 * another device); UNSUPPORTED (the kind takes no streams). */
WARM_API warm_status warm_handle_reserve_on(warm_runtime *runtime,
                                            warm_kind kind, int device,
                                            warm_stream stream, void **handle);

/* The calling thread's own pooled stream: a handle of kind WARM_KIND_STREAM.
 * Work may still be queued on it when the thread exits. */
WARM_API warm_status warm_stream_reserve(warm_runtime *runtime, int device,
                                         warm_stream *stream);

/* Returns the handles and the cached memory of the calling thread to the
 * runtime now, as its exit would. The thread must not use handles that it
 * reserved before.
 * Status: INVALID_ARGUMENT also from a callback of the library. */
WARM_API warm_status warm_thread_release(warm_runtime *runtime);

/* A handle leased for a scope. */
typedef struct warm_lease {
    uint64_t number; /* never used twice, and never 0 */
} warm_lease;

/* Leases a handle until warm_handle_return(), which any thread may call. The
 * handle is in its default state, serves no other lease and is not the one that
 * the thread has reserved. One thread at a time may use it. No limit and no
 * wait, as with warm_handle_reserve().
 * lease: argument of warm_handle_return(). handle: borrowed until then.
 * Status: as warm_handle_reserve(). A failed call changes nothing. Takes at
 * least one lock; may create a handle, or destroy one that cannot be reset. */
WARM_API warm_status warm_handle_lease(warm_runtime *runtime, warm_kind kind,
                                       int device, warm_lease *lease,
                                       void **handle);

/* As warm_handle_lease(), and binds the handle to stream with a workspace, as
 * warm_handle_reserve_on() does.
 * stream: borrowed until the return; once the stream has retired the handle
 * must not be used, unless it is bound again. Status: as
 * warm_handle_reserve_on(). */
WARM_API warm_status warm_handle_lease_on(warm_runtime *runtime, warm_kind kind,
                                          int device, warm_stream stream,
                                          warm_lease *lease, void **handle);

/* Returns a leased handle. Work may still be queued with it.
 * Status: INVALID_ARGUMENT (no lease of this runtime, or returned already;
 * nothing changes). Any thread, also while it exits. Takes one lock, calls no
 * driver. */
WARM_API warm_status warm_handle_return(warm_runtime *runtime,
                                        warm_lease lease);

/* Finds the lease of a handle, for programs that keep handles alone, as those
 * of a library's own create and destroy do. Takes a lock for each device.
 * handle: compared, and not used; may be anything but null.
 * lease: argument of warm_handle_return() and warm_lease_bind().
 * Status: NOT_FOUND (no handle of that kind that is on lease). */
WARM_API warm_status warm_handle_find_lease(warm_runtime *runtime,
                                            warm_kind kind, const void *handle,
                                            warm_lease *lease);

/* Binds a leased handle to another stream with a workspace, as
 * warm_handle_lease_on() does; always calls the library. The thread that calls
 * is the one that may use the handle. Waits for a thread that is taking the
 * handle off a stream that it retires.
 * stream: borrowed until the lease ends or is bound again; of the same device,
 * or a default stream.
 * Status (the handle keeps its stream then, unless the library failed): as
 * warm_handle_reserve_on(); INVALID_ARGUMENT also as warm_handle_return(). */
WARM_API warm_status warm_lease_bind(warm_runtime *runtime, warm_lease lease,
                                     warm_stream stream);

/* Creates handles ahead of their first use, until at least count are idle, not
 * counting those that threads hold. If threads reserve some meanwhile, the call
 * replaces them, but creates at most count handles in all.
 * flags: 0, or WARM_PREWARM_BACKGROUND: returns at once, and a thread of the
 * runtime creates them, one kind and device after the other; for a kind and
 * device that are being prewarmed already the larger count applies. Statistics
 * show the progress (idle, prewarming, failed); a count of 0 does nothing.
 * Status: INVALID_ARGUMENT (also: unknown flags); else as
 * warm_handle_reserve(), and handles created until then stay. In the background
 * OUT_OF_MEMORY means that no thread could be started, and
 * warm_handle_prewarm_wait() returns why a creation failed. Takes milliseconds
 * for each handle, unless in the background. */
WARM_API warm_status warm_handle_prewarm(warm_runtime *runtime, warm_kind kind,
                                         int device, unsigned count,
                                         unsigned flags);

/* Waits until no handle is left to be created in the background.
 * Status: that of the first failure since the last wait, with the library's own
 * code and text in warm_last_error(); a failure ends the prewarming of its own
 * kind and device only. INVALID_ARGUMENT from a callback of a kind, for the
 * log, or for memory that is short. */
WARM_API warm_status warm_handle_prewarm_wait(warm_runtime *runtime);

/* Cancels all background creations that have not begun. The handle that is
 * being created is finished; warm_handle_prewarm_wait() waits for it.
 */
WARM_API warm_status warm_handle_prewarm_cancel(warm_runtime *runtime);

/* Destroys idle handles, the oldest first, and none in use.
 * keep: how many handles stay idle. idle_ns: only handles that have been idle
 * for that long are destroyed, in nanoseconds; 0: all. destroyed: gets how many
 * were destroyed, may be null; a handle that the library fails to destroy
 * counts as leaked instead.
 * For cuBLAS the call also frees workspaces that were idle for idle_ns,
 * whatever keep is, if their work has completed and no graph uses them, but for
 * those of other threads' per-thread default streams; and counts anew how many
 * handles and streams are in use at once.
 * Calls the driver and the library. For most handles CUDA waits for the device,
 * which breaks every capture of the device. So while a stream of it is known to
 * capture (warm_capture_announce()) the handles leave the pool and are
 * destroyed later: when an announced capture ends, or by the next call that
 * creates or trims such handles, by warm_poll() or by the thread of option
 * background. They count as deferred and not in *destroyed; workspaces stay. */
WARM_API warm_status warm_handle_trim(warm_runtime *runtime, warm_kind kind,
                                      int device, uint64_t keep,
                                      uint64_t idle_ns, uint64_t *destroyed);

/* Statistics of one kind on one device: name, unit, meaning. */
#define WARM_HANDLE_STATS_MAP(X)                                               \
    X(created, "handles", "handles created so far")                            \
    X(destroyed, "handles", "handles destroyed so far")                        \
    X(failed, "handles", "creations that failed")                              \
    X(idle, "handles", "handles in the pool")                                  \
    X(in_use, "handles", "handles held by threads")                            \
    X(in_use_peak, "handles", "most in use, leased and being made at once")    \
    X(leaked, "handles", "handles leaked at exit or destroy")                  \
    X(binds, "calls", "stream bindings that called the library")               \
    X(create_ns, "ns", "time spent creating handles, in all")                  \
    X(create_max_ns, "ns", "longest creation of a handle")                     \
    X(device_bytes, "bytes", "device memory taken by creations, as measured")  \
    X(workspaces, "workspaces", "workspaces held, kind cuBLAS only")           \
    X(workspace_bytes, "bytes", "device memory of workspaces")                 \
    X(leased, "handles", "handles on lease")                                   \
    X(prewarming, "handles", "still to be made in the background")             \
    X(measured, "handles", "creations that device_bytes is the sum of")        \
    X(deferred, "handles", "to be destroyed when no stream captures")          \
    X(lost, "handles", "ended by a reset of their device, never destroyed")    \
    X(workspaces_idle, "workspaces", "to which no handle in use is bound")     \
    X(workspaces_above, "workspaces", "made above their bound so far")

typedef struct warm_handle_stats {
    size_t size; /* sizeof(warm_handle_stats) */
#define WARM_HANDLE_STATS_FIELD(name, unit, meaning) uint64_t name;
    WARM_HANDLE_STATS_MAP(WARM_HANDLE_STATS_FIELD)
#undef WARM_HANDLE_STATS_FIELD
} warm_handle_stats;

/* Reads the figures of the handles of a kind on a device. Can be called until
 * the very end of the process, also after exit() has begun.
 * At any moment created = destroyed + idle + in_use + leased + leaked +
 * deferred + lost; a handle that a trim is destroying still counts as idle.
 * Once a reset of the device was noticed (runtime.h) all handles that existed
 * are lost, also those that threads hold or lease.
 * device_bytes / measured is the mean device memory of a handle: by how much
 * free memory fell during its creation, read by the creating thread.
 * Overlapping creations of one kind are measured together. Not measured are
 * creations that overlap one of another kind on the device, failed ones, and
 * the one that makes the device's context. The measure includes memory that
 * others allocated or freed meanwhile, in other runtimes and processes too, and
 * excludes memory that a library allocates later. */
WARM_API warm_status warm_handle_get_stats(warm_runtime *runtime,
                                           warm_kind kind, int device,
                                           warm_handle_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
