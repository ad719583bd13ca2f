/* cuda.h: what the files of the CUDA driver share, and what the CUDA kinds
 * may use of it.
 *
 * All work goes through libcuda, whose streams, events and memory are the ones
 * that cudart knows, and whose functions leave cudart's last error alone: what
 * fails here, or is "not ready", is not what the program finds there, and what
 * it has yet to find stays (row B20), unless cudart cannot name the thread's
 * device while an error of the program's is pending there: see
 * wm_cuda_current_device(). cudart is asked how many devices there are, since
 * it has the better words for why there are none, and which one a thread
 * without a context means. Every op runs like this:
 *
 *   enter (push a context if the thread has none or another device's is
 *   needed) ── libcuda's call ── result ── leave (pop)
 *
 * No default stream but the one that is named: the library is built without
 * CUDA_API_PER_THREAD_DEFAULT_STREAM, or NULL would be another one's.
 *
 * A primary context is retained by the first op of a runtime that needs it. The
 * process keeps one reference to each and never releases it, however many
 * runtimes come and go: handles and memory that outlive a runtime stay usable
 * (row G2), and cudart keeps a reference of its own for the life of the process
 * anyway. */
#ifndef WM_CUDA_H
#define WM_CUDA_H

#include "runtime/driver/driver.h"

#if !defined(WM_NO_CUDA) && defined(__has_include)
#if __has_include(<cuda_runtime_api.h>) && __has_include(<cuda.h>)
#define WM_HAVE_CUDA 1
#endif
#endif
#ifndef WM_HAVE_CUDA
#define WM_HAVE_CUDA 0
#endif

/* What push did and pop has to undo. */
typedef struct wm_cuda_scope {
    bool pushed;
} wm_cuda_scope;

/* True if d was opened by wm_cuda_open(); in every build. */
bool wm_cuda_is(const wm_driver *d);

/* Makes the primary context of device current until pop; it is created if the
 * device had none. Status: DRIVER_ERROR, EXITING; nothing changed then. */
warm_status wm_cuda_device_push(wm_driver *d, int device, wm_cuda_scope *scope);
void wm_cuda_device_pop(wm_driver *d, const wm_cuda_scope *scope);

/* The CUDA runtime in use: major number of its version, and its file (empty:
 * not known). Libraries of another one are never used beside it. */
int wm_cuda_major(const wm_driver *d);
const char *wm_cuda_file(const wm_driver *d);

/* Compute capability, major number; 0 if unknown. Makes no context. */
int wm_cuda_compute_major(wm_driver *d, int device);

#if WM_HAVE_CUDA
#include <cuda.h>
#include <cuda_runtime_api.h>

/* Functions whose binary interface is the same in CUDA 12 and 13. */
#define WM_CUDART_CALLS(X)                                                     \
    X(cudaRuntimeGetVersion)                                                   \
    X(cudaDriverGetVersion)                                                    \
    X(cudaGetErrorString)                                                      \
    X(cudaGetLastError)                                                        \
    X(cudaPeekAtLastError)                                                     \
    X(cudaGetDeviceCount)                                                      \
    X(cudaGetDevice)

/* Names as the library exports them, with their version. Its device handles
 * are the numbers of the devices. */
#define WM_CUDA_API_CALLS(X)                                                   \
    X(cuInit)                                                                  \
    X(cuGetErrorString)                                                        \
    X(cuDeviceGetName)                                                         \
    X(cuDeviceTotalMem_v2)                                                     \
    X(cuDeviceGetAttribute)                                                    \
    X(cuDeviceGetPCIBusId)                                                     \
    X(cuDeviceGetUuid_v2)                                                      \
    X(cuDevicePrimaryCtxRetain)                                                \
    X(cuDevicePrimaryCtxRelease_v2)                                            \
    X(cuDevicePrimaryCtxGetState)                                              \
    X(cuCtxGetCurrent)                                                         \
    X(cuCtxPushCurrent_v2)                                                     \
    X(cuCtxPopCurrent_v2)                                                      \
    X(cuCtxGetId)                                                              \
    X(cuCtxGetDevice)                                                          \
    X(cuCtxSynchronize)                                                        \
    X(cuMemAddressReserve)                                                     \
    X(cuMemAddressFree)                                                        \
    X(cuMemGetAllocationGranularity)                                           \
    X(cuMemCreate)                                                             \
    X(cuMemRelease)                                                            \
    X(cuMemMap)                                                                \
    X(cuMemUnmap)                                                              \
    X(cuMemSetAccess)                                                          \
    X(cuMemGetInfo_v2)                                                         \
    X(cuMemHostAlloc)                                                          \
    X(cuMemFreeHost)                                                           \
    X(cuMemHostRegister_v2)                                                    \
    X(cuMemHostUnregister)                                                     \
    X(cuMemAlloc_v2)                                                           \
    X(cuMemFree_v2)                                                            \
    X(cuIpcGetMemHandle)                                                       \
    X(cuIpcOpenMemHandle_v2)                                                   \
    X(cuIpcCloseMemHandle)                                                     \
    X(cuMemcpyAsync)                                                           \
    X(cuMemcpyHtoDAsync_v2)                                                    \
    X(cuMemcpyDtoHAsync_v2)                                                    \
    X(cuStreamCreate)                                                          \
    X(cuStreamDestroy_v2)                                                      \
    X(cuStreamGetCtx)                                                          \
    X(cuStreamGetId)                                                           \
    X(cuStreamQuery)                                                           \
    X(cuStreamSynchronize)                                                     \
    X(cuStreamWaitEvent)                                                       \
    X(cuStreamIsCapturing)                                                     \
    X(cuStreamBeginCapture_v2)                                                 \
    X(cuStreamEndCapture)                                                      \
    X(cuEventCreate)                                                           \
    X(cuEventDestroy_v2)                                                       \
    X(cuEventRecord)                                                           \
    X(cuEventQuery)                                                            \
    X(cuEventSynchronize)                                                      \
    X(cuLaunchHostFunc)                                                        \
    X(cuGraphInstantiateWithFlags)                                             \
    X(cuGraphDestroy)                                                          \
    X(cuGraphExecDestroy)                                                      \
    X(cuGraphLaunch)                                                           \
    X(cuThreadExchangeStreamCaptureMode)

/* __typeof__: the header's own prototypes, so that arguments are checked. */
#define WM_CUDA_FIELD(name) __typeof__(name) *name;

/* Page-locked memory that CUDA does not begin at a page: a larger region, of
 * which the rest is not used. */
typedef struct wm_cuda_shifted {
    struct wm_cuda_shifted *next;
    void *pointer, *given; /* by us, null: nobody has it; by CUDA */
} wm_cuda_shifted;

/* Which device the streams, events and graphs that the driver made are of, so
 * that none of a device that was reset is named to CUDA (cuda_home.c). */
enum { WM_CUDA_HOME_BUCKETS = 1024 };
typedef struct wm_cuda_homes {
    wm_lock lock;                                      /* rank driver */
    struct wm_cuda_made *bucket[WM_CUDA_HOME_BUCKETS]; /* lock; by address */
} wm_cuda_homes;

typedef struct wm_cuda {
    wm_driver base; /* first: the two pointers are one */
    wm_lock shifted_lock;
    _Atomic(wm_cuda_shifted *) shifted; /* lock shifted; peeked at, relaxed */
    /* CUDA has begun memory elsewhere than at a page: a page more is asked for.
     * Relaxed: who does not know yet finds out. */
    _Atomic bool shifts;
    struct {
        WM_CUDART_CALLS(WM_CUDA_FIELD)
    } rt; /* const after open */
    struct {
        WM_CUDA_API_CALLS(WM_CUDA_FIELD)
    } cu; /* const after open */
    wm_cuda_homes homes;
    int version;         /* const after open: of cudart, as 13000 */
    char file[512];      /* const after open: of cudart; empty: not known */
    cudaError_t counted; /* what it said when devices were counted */
    /* By device: null, then the retained primary context for ever, and what
     * tells it from one that comes after a reset: any number, if it is known.
     */
    struct {
        _Atomic(CUcontext) context;
        _Atomic uint64_t id;
        _Atomic bool id_known;
    } primary[];
} wm_cuda;

static inline wm_cuda *wm_cuda_of(wm_driver *d)
{
    return (wm_cuda *)d;
}

/* Fills rt, cu and what stands beside them, and base.devices. */
warm_status wm_cuda_load(const wm_options *options, wm_cuda *c);

/* EXITING, with words: what answered with its code for that it has shut down,
 * though our exit handler has not run yet. */
warm_status wm_cuda_unloading(const char *origin, int code, const char *what);

/* Turns a code into a status; not OK: leaves the thread's last error. what
 * names the function. */
warm_status wm_cuda_result(wm_cuda *c, CUresult code, const char *what);
/* As that with the status given, for a code that means another one here. */
warm_status wm_cuda_fail(wm_cuda *c, warm_status status, CUresult code,
                         const char *what);

/* For work that belongs to no device in particular: the thread's context if
 * that is a primary one, else one that is active already, else that of its
 * device; never that of a device that was reset. */
warm_status wm_cuda_enter(wm_cuda *c, wm_cuda_scope *scope);
/* For page-locked memory, in whose context all of it is. */
warm_status wm_cuda_enter_host(wm_cuda *c, wm_cuda_scope *scope);
/* As wm_cuda_enter(), but a default stream means the thread's own device, and
 * one of a context that is not primary is refused with UNSUPPORTED. */
warm_status wm_cuda_enter_stream(wm_cuda *c, warm_stream stream,
                                 wm_cuda_scope *scope);
/* The same for a stream that the runtime knows: of the primary context of the
 * thread's device, whatever is current. */
warm_status wm_cuda_enter_known(wm_cuda *c, warm_stream stream,
                                wm_cuda_scope *scope);

/* Whether a context is none of the primary ones (null: no), and how a call that
 * works in primary ones only refuses it: UNSUPPORTED, which names it. It is
 * current. */
bool wm_cuda_is_foreign(wm_cuda *c, CUcontext context);
warm_status wm_cuda_foreign(wm_cuda *c, CUcontext context, const char *whose);
warm_status wm_cuda_look(wm_driver *d, int device);
void wm_cuda_notice(wm_driver *d, int device);

void wm_cuda_homes_init(wm_cuda_homes *homes);
void wm_cuda_homes_fini(wm_cuda_homes *homes);
/* The object was made, at what may be the address of one that a reset ended. */
void wm_cuda_note_made(wm_cuda *c, const void *object, int device);
/* It is about to be destroyed; returns its device. */
int wm_cuda_note_gone(wm_cuda *c, const void *object);
int wm_cuda_home(wm_driver *d, const void *object);

/* True if the device has a primary context already. */
bool wm_cuda_active(wm_cuda *c, int device);

/* The ops, by file. */
#define WM_CUDA_OP(name, parameters, arguments, on)                            \
    warm_status wm_cuda_##name parameters;
WM_DRIVER_CALLS(WM_CUDA_OP)
#undef WM_CUDA_OP

/* One call inside a scope that was entered: result, leave, return. */
#define WM_CUDA_CALL(c, scope, call, ...)                                      \
    wm_cuda_leave((c), (scope),                                                \
                  wm_cuda_result((c), (c)->cu.call(__VA_ARGS__), #call))

/* Leaves a scope and passes the status on. */
static inline warm_status wm_cuda_leave(wm_cuda *c, const wm_cuda_scope *scope,
                                        warm_status status)
{
    wm_cuda_device_pop(&c->base, scope);
    return status;
}

#endif
#endif
