/* warmpool/handle.h: the handle pool.
 *
 * A handle is a stateful library context (cuBLAS, cuDNN, a stream, …) bound to
 * one device and used by one thread at a time. A thread that reserves one gets
 * the same handle on every call for as long as it lives; when it exits, in
 * whatever way, the handle goes back to the pool by itself, is put back into
 * the library's default state and serves the next thread. There is no cap and
 * no waiting for other threads, except that the very first handle of a kind
 * on a device is created by one thread alone.
 *
 * Handles are borrowed: never destroy one, never pass one to another thread,
 * unless it is leased. A lease is for a scope instead of a thread's life: of a
 * fiber, or a request of an asynchronous server.
 * Typed helpers stand in warmpool/cublas.h and its neighbours, which include
 * the vendor's header.
 *
 * Captures. To destroy a handle of most libraries waits for the device, which
 * breaks the capture of any thread there: it is deferred until no stream of the
 * device is known to capture (warm_capture_announce()), also where a handle
 * goes because it cannot be reset. To create one allocates, in CUDA's relaxed
 * mode, and CUDA documents no wait for the device. But a library may load code
 * with its first handle on a device, for which CUDA may wait: prewarm
 * (warm_handle_prewarm()) before the first capture. A runtime that is destroyed
 * while an adopted stream captures leaves its idle handles and the workspaces
 * with the process, and logs it.
 * A graph may run beside other work of the stream that captured it, so both
 * share no workspace: reserve a handle again with warm_handle_reserve_on() in
 * the capture, before it is used there, and once more after it; and lease one
 * for either the capture or other work. With a private pool
 * (warm_private_pool_begin()) what the graph uses stays until the pool goes and
 * no handle is bound to it; graphs of one pool must not run at once. In a
 * capture without one no workspace is set, and cuBLAS obtains its own, as
 * memory nodes of the graph; CUDA allows no such nodes in child graphs and in
 * graphs that the device launches. The workspace of a handle that was not
 * reserved again in the capture is left to the graph, without a pool for ever,
 * of which the first on a device is logged.
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

/* The kinds every runtime has; kinds of the user follow after them. A built-in
 * kind whose library or device is missing answers UNAVAILABLE, one that this
 * build left out UNSUPPORTED. CUDA's libraries are those of the CUDA version
 * whose runtime is in use: where the program has loaded, or an option names,
 * one of another version, the kind answers UNAVAILABLE and says so. */
enum {
    WARM_KIND_STREAM = 0,   /* warm_stream; adopted by the runtime */
    WARM_KIND_CUBLAS = 1,   /* cublasHandle_t */
    WARM_KIND_CUBLASLT = 2, /* cublasLtHandle_t; takes no stream */
    WARM_KIND_CUDNN = 3,    /* cudnnHandle_t */
    WARM_KIND_CUSPARSE = 4, /* cusparseHandle_t */
    WARM_KIND_CUSOLVER = 5, /* cusolverDnHandle_t */
    WARM_KIND_ONEDNN = 6,   /* dnnl_engine_t of the CPU; host device only */
    WARM_KIND_BUILTIN = 7,  /* how many are built in */
    WARM_KIND_MAX = 32      /* most kinds of a runtime */
};
typedef int warm_kind;

/* What a kind of the user consists of. Every callback answers 0 or the
 * library's own error code; it is called with no lock of warmpool held, from
 * the thread that reserves or leases (all of them), that prewarms (create),
 * that trims or destroys the runtime (destroy), that retires a stream
 * (bind_stream with null, the default stream; destroy if that fails), or one of
 * the runtime's own, with all signals blocked, that prewarms in the background
 * (create). It may call warmpool; what it reserves on that thread is given back
 * after it. The handle that its thread is about to get it cannot reserve or
 * lease: INVALID_ARGUMENT; nor anything of a runtime that is being destroyed:
 * RUNTIME_GONE. While a stream of the device is known to capture
 * (warm_capture_announce()) destroy is deferred; create is called, in CUDA's
 * relaxed mode: it may allocate, and not wait for the device. No capture waits
 * for a destroy that is running when it is announced: one that breaks captures,
 * as most libraries' do, must be kept apart from them by the program. A
 * callback ends by returning: no exception, longjmp() or pthread_exit() may
 * leave it. destroy is also what becomes of a handle whose reset failed. */
typedef struct warm_kind_ops {
    size_t size;      /* sizeof(warm_kind_ops) */
    const char *name; /* copied; names the kind in errors and statistics; of 1
                         to 63 bytes */
    void *context;    /* passed to every callback; outlives the runtime */
    /* Makes a handle that is not null. Required. */
    int (*create)(void *context, int device, void **handle);
    /* Required. */
    int (*destroy)(void *context, int device, void *handle);
    /* Makes the handle work on stream. Null: the kind takes no streams. */
    int (*bind_stream)(void *context, int device, void *handle,
                       warm_stream stream);
    /* Puts a used handle back into its default state; one that fails is
     * destroyed. Null: there is no state. */
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

/* The calling thread's handle of a kind on a device.
 * handle: borrowed until the thread exits or warm_thread_release().
 * Status: UNAVAILABLE, UNSUPPORTED (also: the thread's CUDA context is not a
 * primary one, see runtime.h), OUT_OF_MEMORY; LIBRARY_ERROR and DRIVER_ERROR
 * with the library's own code and text in warm_last_error(). A failed call
 * changes nothing. Held already: no lock, no system call, no driver call. Else
 * it may create a handle, which takes milliseconds, or destroy one that cannot
 * be reset and those that were deferred, for which CUDA waits for the device.
 */
WARM_API warm_status warm_handle_reserve(warm_runtime *runtime, warm_kind kind,
                                         int device, void **handle);

/* As warm_handle_reserve(), and the handle is bound to stream: for cuBLAS with
 * a workspace that no other stream and no other handle uses; see Captures above
 * for those of graphs. A handle keeps those of the four streams that it was
 * bound to last, beside that of a default stream: bound to one of them again it
 * obtains nothing. Bound to the stream already: no call, unless it is with a
 * graph's workspace.
 * stream: borrowed; one of the same device, or a default stream.
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
 * runtime now, as its exit would. Handles that it reserved before must not be
 * used any more.
 * Status: INVALID_ARGUMENT also from a callback of a call that reserves. */
WARM_API warm_status warm_thread_release(warm_runtime *runtime);

/* A handle lent for a scope. */
typedef struct warm_lease {
    uint64_t number; /* never used twice, and never 0 */
} warm_lease;

/* Lends a handle until warm_handle_return(), by whichever thread. It is the
 * borrower's alone, is with one thread at a time and comes in its default
 * state, and is never the one that the thread has reserved. No cap and no wait,
 * as with warm_handle_reserve().
 * lease: to return it with. handle: borrowed until then.
 * Status: as warm_handle_reserve(). A failed call changes nothing. One lock at
 * least; may create a handle, or destroy one that cannot be reset. */
WARM_API warm_status warm_handle_lease(warm_runtime *runtime, warm_kind kind,
                                       int device, warm_lease *lease,
                                       void **handle);

/* The same, bound to stream as by warm_handle_reserve_on(), with its workspace.
 * stream: borrowed until the return; once it has retired the handle must be
 * used no more. Status: as warm_handle_reserve_on(). */
WARM_API warm_status warm_handle_lease_on(warm_runtime *runtime, warm_kind kind,
                                          int device, warm_stream stream,
                                          warm_lease *lease, void **handle);

/* Gives a leased handle back. Work may still be queued with it.
 * Status: INVALID_ARGUMENT (no lease of this runtime, or returned already):
 * nothing is changed. Any thread, at its exit too; one lock, no driver call. */
WARM_API warm_status warm_handle_return(warm_runtime *runtime,
                                        warm_lease lease);

/* Creates handles ahead of their first use, until at least count are idle,
 * beside those that threads hold. A handle that a thread takes meanwhile is
 * replaced only within count creations a call.
 * flags: 0, or WARM_PREWARM_BACKGROUND: returns at once and a thread of the
 * runtime creates them, one kind and device after the other; where one is being
 * prewarmed already the larger count holds. Statistics show the progress (idle,
 * prewarming, failed); a count of 0 does nothing.
 * Status: INVALID_ARGUMENT (also: unknown flags); else as
 * warm_handle_reserve(), and what was made until then stays. In the background
 * OUT_OF_MEMORY if there can be no thread; other failures are told by
 * warm_handle_prewarm_wait(). Takes milliseconds for each handle, unless in the
 * background. */
WARM_API warm_status warm_handle_prewarm(warm_runtime *runtime, warm_kind kind,
                                         int device, unsigned count,
                                         unsigned flags);

/* Waits until no handle is left to be created in the background.
 * Status: that of the first failure since the last wait, with the library's own
 * code and text in warm_last_error(); a failure ends the prewarming of its own
 * kind and device only. INVALID_ARGUMENT from a callback of a kind, for the
 * log, or for memory that is short. */
WARM_API warm_status warm_handle_prewarm_wait(warm_runtime *runtime);

/* Cancels the creations that are left to be made in the background. The handle
 * that is being created is finished; warm_handle_prewarm_wait() waits for it.
 */
WARM_API warm_status warm_handle_prewarm_cancel(warm_runtime *runtime);

/* Destroys idle handles, the oldest first, and never one in use.
 * keep: how many handles stay idle. idle_ns: only handles that have been idle
 * for that long are destroyed, in nanoseconds; 0: all. destroyed: how many
 * were, may be null; a handle that the library refuses to destroy counts as
 * leaked instead. For cuBLAS workspaces go too, whatever keep says, if the work
 * on them has ended and no graph holds
 * them: of handles that have been idle for that long, of streams that retired
 * that long ago, and what a handle in use has not been bound to for that long.
 * Calls the driver and the library; CUDA waits for the device to destroy most
 * handles, which breaks every capture of the device. So while a stream of it is
 * known to capture (warm_capture_announce()) the handles leave the pool and are
 * destroyed later: when an announced capture ends, or by the next call that
 * creates or trims such handles, warm_poll() or the thread of option
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
    X(in_use_peak, "handles", "most held, leased and being made at once")      \
    X(leaked, "handles", "handles left behind at exit or destroy")             \
    X(binds, "calls", "stream bindings that called the library")               \
    X(create_ns, "ns", "time spent creating handles, in all")                  \
    X(create_max_ns, "ns", "longest creation of a handle")                     \
    X(device_bytes, "bytes", "device memory taken by creations, as measured")  \
    X(workspaces, "workspaces", "workspaces held, kind cuBLAS only")           \
    X(workspace_bytes, "bytes", "device memory of those")                      \
    X(leased, "handles", "handles on lease")                                   \
    X(prewarming, "handles", "still to be made in the background")             \
    X(measured, "handles", "creations that device_bytes is the sum of")        \
    X(deferred, "handles", "to be destroyed when no stream captures")          \
    X(lost, "handles", "ended when their device was reset, and left alone")

typedef struct warm_handle_stats {
    size_t size; /* sizeof(warm_handle_stats) */
#define WARM_HANDLE_STATS_FIELD(name, unit, meaning) uint64_t name;
    WARM_HANDLE_STATS_MAP(WARM_HANDLE_STATS_FIELD)
#undef WARM_HANDLE_STATS_FIELD
} warm_handle_stats;

/* Can be read to the very end of the process, after exit() has begun, too.
 * created = destroyed + idle + in_use + leased + leaked + deferred + lost, at
 * any moment; one that is being destroyed by a trim still counts as idle. Once
 * a reset of the device was noticed (runtime.h) all that lived are lost, those
 * too that threads hold or lease.
 * device_bytes / measured is the device memory of a handle, as the fall of free
 * memory across its creation, told by the thread that creates. Creations of
 * one kind at once are measured together; not measured are those beside one of
 * another kind on the device, failed ones, and the one that makes the device's
 * context. It counts what others took or gave back in the meantime, other
 * runtimes and processes too, and not what a library takes later. */
WARM_API warm_status warm_handle_get_stats(warm_runtime *runtime,
                                           warm_kind kind, int device,
                                           warm_handle_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
