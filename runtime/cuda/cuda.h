/* cuda.h: what the files of the CUDA driver share, and what the CUDA kinds may
 * use of it.
 *
 * All work goes through libcuda: its streams, events and memory are the same as
 * cudart's, but its functions leave cudart's last error alone. So the program
 * never finds our failures or "not ready" in cudaGetLastError(), and its own
 * pending errors stay there; wm_cuda_current_device() has the one exception.
 * cudart counts the devices, since it explains best why there are none, and
 * says which device a thread without a context means. Every op runs like this:
 *
 *   enter (push a context if the thread has none or another device's is
 *   needed) ── libcuda's call ── result ── leave (pop)
 *
 * NULL means the legacy default stream: the library is built without
 * CUDA_API_PER_THREAD_DEFAULT_STREAM.
 *
 * The first op that needs a primary context retains it. The process holds one
 * reference to each context and never releases it, so that handles and memory
 * that outlive their runtime stay usable; cudart holds a reference of its own
 * for the life of the process anyway. */
#ifndef WM_CUDA_H
#define WM_CUDA_H

#include "runtime/base/map.h"
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

/* The CUDA runtime in use: major version and file (empty: not known). Libraries
 * of another major version are never used with it. */
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
    X(cuDeviceCanAccessPeer)                                                   \
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
    X(cuMemHostGetDevicePointer_v2)                                            \
    X(cuMemAlloc_v2)                                                           \
    X(cuMemAllocManaged)                                                       \
    X(cuMemFree_v2)                                                            \
    X(cuIpcGetMemHandle)                                                       \
    X(cuIpcOpenMemHandle_v2)                                                   \
    X(cuIpcCloseMemHandle)                                                     \
    X(cuMemcpyAsync)                                                           \
    X(cuMemcpy2DAsync_v2)                                                      \
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

/* __typeof__ takes the prototypes from CUDA's headers, which checks arguments.
 */
#define WM_CUDA_FIELD(name) __typeof__(name) *name;

/* Page-locked memory that CUDA did not align to a page: a larger region, of
 * which the library uses an aligned part. */
typedef struct wm_cuda_shifted {
    struct wm_cuda_shifted *next;
    void *pointer, *given; /* the aligned part, null: unused; CUDA's region */
} wm_cuda_shifted;

/* The device of every stream, event and graph that the driver made, so that no
 * object of a device that was reset is passed to CUDA (cuda_stream.c). */
typedef struct wm_cuda_homes {
    wm_lock lock;   /* rank driver */
    wm_map devices; /* lock; by the object's address */
    /* lock to change: noted captures in that map. Relaxed: the program orders
     * the threads that use a stream. */
    _Atomic unsigned captures;
} wm_cuda_homes;

typedef struct wm_cuda {
    wm_driver base; /* first: a wm_driver * is a wm_cuda * */
    wm_lock shifted_lock;
    _Atomic(wm_cuda_shifted *) shifted; /* lock shifted; peeked at, relaxed */
    /* CUDA has returned unaligned memory: later allocations are a page larger.
     * Relaxed: a thread that sees the old value finds out by itself. */
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
    cudaError_t counted; /* cudart's result of counting devices */
    /* By device: the retained primary context, or null before its first use.
     * Its id, if libcuda has one, differs from that of a context that replaces
     * it after a reset. */
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

/* Fills rt, cu, version, file, counted and base.devices. */
warm_status wm_cuda_load(const wm_options *options, wm_cuda *c);

/* Fails with EXITING: a library reports that it has shut down, before our exit
 * handler has run. what: the call. */
warm_status wm_cuda_unloading(const char *origin, int code, const char *what);

/* Turns a code into a status and, unless OK, sets the thread's last error.
 * what: the function. */
warm_status wm_cuda_result(wm_cuda *c, CUresult code, const char *what);
/* wm_cuda_result() with a given status, if the code means that one here. */
warm_status wm_cuda_fail(wm_cuda *c, warm_status status, CUresult code,
                         const char *what);

/* Enters a context for work of no particular device: the thread's if it is a
 * primary one, else any active one, else that of the thread's device; never one
 * of a lost device. */
warm_status wm_cuda_enter(wm_cuda *c, wm_cuda_scope *scope);
/* Enters the context that owns all page-locked memory. */
warm_status wm_cuda_enter_host(wm_cuda *c, wm_cuda_scope *scope);
/* wm_cuda_enter() for a call that names a stream: a default stream needs the
 * thread's own device. UNSUPPORTED if that stream's context is not primary. */
warm_status wm_cuda_enter_stream(wm_cuda *c, warm_stream stream,
                                 wm_cuda_scope *scope);
/* wm_cuda_enter_stream() for a stream that the runtime knows: its default
 * streams belong to the primary context of the thread's device, whatever
 * context is current. */
warm_status wm_cuda_enter_known(wm_cuda *c, warm_stream stream,
                                wm_cuda_scope *scope);

/* Whether the current context is not a primary one (null: no); and the failure
 * of a call that works in primary contexts only: UNSUPPORTED, with the context.
 */
bool wm_cuda_is_foreign(wm_cuda *c, CUcontext context);
warm_status wm_cuda_foreign(wm_cuda *c, CUcontext context, const char *whose);
warm_status wm_cuda_look(wm_driver *d, int device);
wm_unchanged wm_cuda_is_unchanged(wm_driver *d, int device);
void wm_cuda_notice(wm_driver *d, int device);

warm_status wm_cuda_enter_device(wm_driver *d, int device, bool *entered);
void wm_cuda_leave_device(wm_driver *d, bool entered);
bool wm_cuda_has_default(wm_driver *d);

void wm_cuda_homes_init(wm_cuda_homes *homes);
void wm_cuda_homes_fini(wm_cuda_homes *homes);
int wm_cuda_home(wm_driver *d, const void *object);

/* True if the device has a primary context already. */
bool wm_cuda_active(wm_cuda *c, int device);

/* The ops. */
#define WM_CUDA_OP(name, parameters, arguments, on)                            \
    warm_status wm_cuda_##name parameters;
WM_DRIVER_CALLS(WM_CUDA_OP)
#undef WM_CUDA_OP

/* One call of libcuda, and its result. */
#define WM_CUDA_RESULT(c, call, ...)                                           \
    wm_cuda_result((c), (c)->cu.call(__VA_ARGS__), #call)

/* One call inside a scope that was entered: result, leave, return. */
#define WM_CUDA_CALL(c, scope, call, ...)                                      \
    wm_cuda_leave((c), (scope), WM_CUDA_RESULT(c, call, __VA_ARGS__))

/* Leaves a scope and returns the status. */
static inline warm_status wm_cuda_leave(wm_cuda *c, const wm_cuda_scope *scope,
                                        warm_status status)
{
    wm_cuda_device_pop(&c->base, scope);
    return status;
}

/* Defines an op that is one call of libcuda. enter: the call that enters a
 * context for it. */
#define WM_CUDA_DEFINE(op, parameters, enter, call, ...)                       \
    warm_status wm_cuda_##op parameters                                        \
    {                                                                          \
        wm_cuda *c = wm_cuda_of(d);                                            \
        wm_cuda_scope scope;                                                   \
        warm_status status = (enter);                                          \
                                                                               \
        if (status == WARM_OK) {                                               \
            status = WM_CUDA_CALL(c, &scope, call, __VA_ARGS__);               \
        }                                                                      \
        return status;                                                         \
    }

#endif
#endif
