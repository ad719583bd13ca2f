/* driver.h: the contract between warmpool and the drivers, CUDA and host.
 *
 * A driver embeds a wm_driver and fills its ops. The rest of the library calls
 * the wm_driver_<call>() functions below, which guarantee for every call:
 *
 * - the driver is not called once the process exits (WARM_EXITING) or in a
 *   child of the process that opened the driver (WARM_FORKED);
 * - it is not called for a device that was reset (DRIVER_ERROR, see below);
 * - no lock of the library is held (checked in debug builds);
 * - the call is no cancellation point;
 * - the call is counted, and a test can make it fail before it has any effect.
 *
 * Callers guarantee that devices are in range, that streams and events come
 * from the driver, and that outputs are not null.
 *
 * Every driver guarantees: any thread may call; a call leaves the thread's
 * current device as it was; it makes no context on a device that the program
 * does not use, unless the call works on that very device; outputs are written
 * on success only; a failed call has changed nothing and has set the thread's
 * last error (wm_fail_code() with the driver's code and text); WARM_NOT_READY
 * is an answer, not an error. */
#ifndef WM_DRIVER_H
#define WM_DRIVER_H

#include "warmpool/device.h"
#include "warmpool/memory.h"
#include "runtime/base/counter.h"
#include "runtime/base/lock.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/driver/numa.h"

#include <limits.h>
#include <stdbool.h>

typedef struct wm_driver wm_driver;

/* Whether a stream captures now. BLOCKED: the stream does not capture, but
 * nothing may be queued on it because another one does (CUDA's legacy stream).
 */
typedef enum wm_capture {
    WM_CAPTURE_NONE,
    WM_CAPTURE_ACTIVE,
    WM_CAPTURE_BLOCKED
} wm_capture;

/* id identifies a stream for the life of the process, also among streams that
 * later get the same address. While a stream captures, CUDA reveals only that
 * it captures: device is then WM_DEVICE_UNKNOWN, and id stands for captures of
 * streams at that address. */
typedef struct wm_stream_info {
    uint64_t id;
    int device;
    wm_capture capture; /* at that moment */
} wm_stream_info;

/* Whether the name means a default stream: that of the current device, or of
 * the calling thread, so that one name stands for several streams. */
static inline bool wm_stream_is_default(warm_stream stream)
{
    return stream == NULL || stream == WARM_STREAM_LEGACY ||
           stream == WARM_STREAM_PER_THREAD;
}

/* In place of a device's number: unknown; page-locked host memory. */
enum { WM_DEVICE_UNKNOWN = -1, WM_DEVICE_HOST = -2 };

/* The id for captures of streams at an address. Never a stream's id: those
 * count up, and no address has the highest bit set. */
static inline uint64_t wm_stream_capture_id(warm_stream stream)
{
    return UINT64_C(1) << 63 | (uintptr_t)stream;
}

/* A copy between any kinds of memory: the driver knows them by address. */
#define WM_COPY_ANY ((warm_copy_direction)4)

/* Rows of width bytes, each so many bytes (pitch) after the one before. */
typedef struct wm_copy_2d {
    void *destination;
    size_t destination_pitch;
    const void *source;
    size_t source_pitch;
    size_t width, height;
} wm_copy_2d;

/* Bytes from the start of the first row to the end of the last. */
static inline size_t wm_copy_2d_extent(const wm_copy_2d *copy, size_t pitch)
{
    return (copy->height - 1) * pitch + copy->width;
}

/* wm_device_id identifies a device of this machine in every process;
 * wm_ipc_name is the driver's name of memory that another process may map. Both
 * are plain bytes. */
typedef struct wm_device_id {
    unsigned char bytes[16];
} wm_device_id;

typedef struct wm_ipc_name {
    unsigned char bytes[64];
} wm_ipc_name;

/* Managed memory of a device: BETTER than page-locked memory where the device
 * uses the host's page tables, so that it reads either at once. */
typedef enum wm_managed {
    WM_MANAGED_NONE, /* or host and device must not touch it at once */
    WM_MANAGED_WORKS,
    WM_MANAGED_BETTER
} wm_managed;

/* X(name, parameters, arguments, on). Every op returns a warm_status; each op
 * and each wm_driver_ function takes the driver first. on: the context that the
 * call needs, which a reset would have ended: a device's (its number), that of
 * page-locked memory (WM_ON_HOST), that of an object (WM_ON), of either of two
 * objects (WM_ON_EITHER), or none (WM_ON_NOTHING).
 *
 * device_info          fills *info but for size; makes no context
 * current_device       device of the calling thread (0 if never set)
 * pinned_alloc         page-locked memory visible to all devices, page-aligned;
 *                      no write moves a page after a fork
 * combined_alloc       pinned_alloc of write-combined memory
 * pinned_free          frees memory of either; bytes: its size, or 0
 * pinned_register      page-locks existing memory; a driver without
 *                      register_locks touches the pages instead
 * pinned_register_read pinned_register of memory that devices only read, which
 *                      may be mapped read-only; UNSUPPORTED: a device cannot
 * pinned_unregister    undoes either
 * place                sets the node of untouched pages (wm_numa_place())
 * node_of              the node of touched pages, or WM_NODE_UNKNOWN
 * device_address       where a device sees page-locked memory of the host
 * maps_host            whether a device can access it there; makes no context
 * device_alloc/_free   memory of a device; the free may wait for it
 * managed_alloc        memory that host and device may touch at once, freed by
 *                      device_free; only if managed_support says so
 * managed_support      see wm_managed; makes no context
 * device_memory        free and total bytes; makes a context if there is none
 * range_unit           granularity of ranges; 0: the device has none; makes no
 *                      context
 * range_reserve        reserves addresses for a device's memory: whole units,
 *                      aligned to units, without memory
 * range_commit         maps memory into all of a range. If it fails in the
 *                      middle and cannot be undone, *torn (may be null) is set:
 *                      the range may have memory and must not be used
 * range_decommit       removes the memory; the addresses stay. Waits for
 *                      nothing: queued work that accesses the memory faults
 * range_release        undoes range_reserve; the range has no memory any more
 * device_synchronize   waits for all work of a device; illegal while any
 *                      stream captures; NOT_READY: a test holds a stream
 * device_id            see wm_device_id; makes no context
 * ipc_export           names memory of device_alloc, by its first byte
 * ipc_open             maps memory of another process by its name; UNAVAILABLE
 *                      if there is none: that process has ended or freed it,
 *                      or is this one
 * ipc_close            undoes ipc_open; may wait for the device
 * stream_create        non-blocking stream
 * stream_destroy       returns at once; queued work still runs
 * stream_info          resolves the default streams for the calling thread and
 *                      its current device; INVALID_STREAM if unknown; legal
 *                      unless another thread begins a capture of the stream
 *                      meanwhile; see wm_stream_info
 * stream_query         OK or NOT_READY; not in a capture
 * stream_synchronize   waits; not in a capture
 * stream_wait_event    later work on stream waits for event
 * stream_capture       see wm_capture; legal at any time
 * event_create         no timing; belongs to device
 * event_record         event and stream of the same device
 * event_query          OK (also if never recorded) or NOT_READY; not in a
 *                      capture
 * event_synchronize    waits
 * event_mark           event_record that is legal whenever stream_info is:
 *                      writes *capture, and records only if that is NONE
 * event_passed         event_query that is legal at any time
 * stream_passed        stream_query that is legal whenever stream_info is:
 *                      writes *capture; the answer is valid only for NONE
 * copy                 asynchronous, WARM_COPY_TO_DEVICE, _TO_HOST or
 *                      WM_COPY_ANY; from host to host it may return late.
 *                      Refused if a range of host memory is registered in part
 *                      or lies across two registrations
 * copy_2d              the same of rows, WM_COPY_ANY; at least one
 * host_func            function(argument) in stream order
 * capture_begin        thread-local mode
 * capture_end          instantiates; *graph is executable
 * graph_launch, graph_destroy
 * capture_mode         exchanges the calling thread's capture mode: *relaxed
 *                      true lets it query and allocate while others capture
 *                      (cudaThreadExchangeStreamCaptureMode); pairs nest
 */
#define WM_DRIVER_CALLS(X)                                                     \
    X(device_info, (wm_driver * d, int device, warm_device_info *info),        \
      (d, device, info), WM_ON_NOTHING)                                        \
    X(current_device, (wm_driver * d, int *device), (d, device),               \
      WM_ON_NOTHING)                                                           \
    X(pinned_alloc, (wm_driver * d, size_t bytes, void **pointer),             \
      (d, bytes, pointer), WM_ON_HOST)                                         \
    X(combined_alloc, (wm_driver * d, size_t bytes, void **pointer),           \
      (d, bytes, pointer), WM_ON_HOST)                                         \
    X(pinned_free, (wm_driver * d, void *pointer, size_t bytes),               \
      (d, pointer, bytes), WM_ON_HOST)                                         \
    X(pinned_register, (wm_driver * d, void *pointer, size_t bytes),           \
      (d, pointer, bytes), WM_ON_HOST)                                         \
    X(pinned_register_read, (wm_driver * d, void *pointer, size_t bytes),      \
      (d, pointer, bytes), WM_ON_HOST)                                         \
    X(pinned_unregister, (wm_driver * d, void *pointer), (d, pointer),         \
      WM_ON_HOST)                                                              \
    X(place, (wm_driver * d, void *pointer, size_t bytes, int node),           \
      (d, pointer, bytes, node), WM_ON_NOTHING)                                \
    X(node_of, (wm_driver * d, void *pointer, size_t bytes, int *node),        \
      (d, pointer, bytes, node), WM_ON_NOTHING)                                \
    X(device_address,                                                          \
      (wm_driver * d, int device, void *pointer, void **address),              \
      (d, device, pointer, address), device)                                   \
    X(maps_host, (wm_driver * d, int device, bool *maps), (d, device, maps),   \
      WM_ON_NOTHING)                                                           \
    X(device_alloc, (wm_driver * d, int device, size_t bytes, void **pointer), \
      (d, device, bytes, pointer), device)                                     \
    X(device_free, (wm_driver * d, int device, void *pointer),                 \
      (d, device, pointer), device)                                            \
    X(managed_alloc,                                                           \
      (wm_driver * d, int device, size_t bytes, void **pointer),               \
      (d, device, bytes, pointer), device)                                     \
    X(managed_support, (wm_driver * d, int device, wm_managed *support),       \
      (d, device, support), WM_ON_NOTHING)                                     \
    X(device_memory, (wm_driver * d, int device, size_t *free, size_t *total), \
      (d, device, free, total), device)                                        \
    X(range_unit, (wm_driver * d, int device, size_t *bytes),                  \
      (d, device, bytes), WM_ON_NOTHING)                                       \
    X(range_reserve, (wm_driver * d, int device, size_t bytes, void **range),  \
      (d, device, bytes, range), device)                                       \
    X(range_commit,                                                            \
      (wm_driver * d, int device, void *range, size_t bytes, bool *torn),      \
      (d, device, range, bytes, torn), device)                                 \
    X(range_decommit, (wm_driver * d, int device, void *range, size_t bytes),  \
      (d, device, range, bytes), device)                                       \
    X(range_release, (wm_driver * d, int device, void *range, size_t bytes),   \
      (d, device, range, bytes), device)                                       \
    X(device_synchronize, (wm_driver * d, int device), (d, device), device)    \
    X(device_id, (wm_driver * d, int device, wm_device_id *id),                \
      (d, device, id), WM_ON_NOTHING)                                          \
    X(ipc_export,                                                              \
      (wm_driver * d, int device, void *pointer, wm_ipc_name *name),           \
      (d, device, pointer, name), device)                                      \
    X(ipc_open,                                                                \
      (wm_driver * d, int device, const wm_ipc_name *name, void **pointer),    \
      (d, device, name, pointer), device)                                      \
    X(ipc_close, (wm_driver * d, int device, void *pointer),                   \
      (d, device, pointer), device)                                            \
    X(stream_create, (wm_driver * d, int device, warm_stream *stream),         \
      (d, device, stream), device)                                             \
    X(stream_destroy, (wm_driver * d, warm_stream stream), (d, stream),        \
      WM_ON(stream))                                                           \
    X(stream_info, (wm_driver * d, warm_stream stream, wm_stream_info * info), \
      (d, stream, info), WM_ON(stream))                                        \
    X(stream_query, (wm_driver * d, warm_stream stream), (d, stream),          \
      WM_ON(stream))                                                           \
    X(stream_synchronize, (wm_driver * d, warm_stream stream), (d, stream),    \
      WM_ON(stream))                                                           \
    X(stream_wait_event,                                                       \
      (wm_driver * d, warm_stream stream, warm_event event),                   \
      (d, stream, event), WM_ON_EITHER(event, stream))                         \
    X(stream_capture,                                                          \
      (wm_driver * d, warm_stream stream, wm_capture * capture),               \
      (d, stream, capture), WM_ON(stream))                                     \
    X(event_create, (wm_driver * d, int device, warm_event *event),            \
      (d, device, event), device)                                              \
    X(event_destroy, (wm_driver * d, warm_event event), (d, event),            \
      WM_ON(event))                                                            \
    X(event_record, (wm_driver * d, warm_event event, warm_stream stream),     \
      (d, event, stream), WM_ON_EITHER(event, stream))                         \
    X(event_query, (wm_driver * d, warm_event event), (d, event),              \
      WM_ON(event))                                                            \
    X(event_synchronize, (wm_driver * d, warm_event event), (d, event),        \
      WM_ON(event))                                                            \
    X(event_mark,                                                              \
      (wm_driver * d, warm_event event, warm_stream stream,                    \
       wm_capture * capture),                                                  \
      (d, event, stream, capture), WM_ON_EITHER(event, stream))                \
    X(event_passed, (wm_driver * d, warm_event event), (d, event),             \
      WM_ON(event))                                                            \
    X(stream_passed,                                                           \
      (wm_driver * d, warm_stream stream, wm_capture * capture),               \
      (d, stream, capture), WM_ON(stream))                                     \
    X(copy,                                                                    \
      (wm_driver * d, void *destination, const void *source, size_t bytes,     \
       warm_copy_direction direction, warm_stream stream),                     \
      (d, destination, source, bytes, direction, stream), WM_ON(stream))       \
    X(copy_2d, (wm_driver * d, const wm_copy_2d *copy, warm_stream stream),    \
      (d, copy, stream), WM_ON(stream))                                        \
    X(host_func,                                                               \
      (wm_driver * d, warm_stream stream, warm_host_fn function,               \
       void *argument),                                                        \
      (d, stream, function, argument), WM_ON(stream))                          \
    X(capture_begin, (wm_driver * d, warm_stream stream), (d, stream),         \
      WM_ON(stream))                                                           \
    X(capture_end, (wm_driver * d, warm_stream stream, warm_graph * graph),    \
      (d, stream, graph), WM_ON(stream))                                       \
    X(graph_launch, (wm_driver * d, warm_graph graph, warm_stream stream),     \
      (d, graph, stream), WM_ON_EITHER(graph, stream))                         \
    X(graph_destroy, (wm_driver * d, warm_graph graph), (d, graph),            \
      WM_ON(graph))                                                            \
    X(capture_mode, (wm_driver * d, bool *relaxed), (d, relaxed), WM_ON_NOTHING)

enum wm_driver_call {
#define WM_DRIVER_ENUM(name, parameters, arguments, on) WM_CALL_##name,
    WM_DRIVER_CALLS(WM_DRIVER_ENUM)
#undef WM_DRIVER_ENUM
        WM_CALLS
};

/* See wm_driver_is_unchanged(). */
typedef enum wm_unchanged {
    WM_UNCHANGED_UNKNOWN,
    WM_UNCHANGED,        /* another context, or none, is current */
    WM_UNCHANGED_CURRENT /* the device's context is current */
} wm_unchanged;

typedef struct wm_driver_ops {
#define WM_DRIVER_OP(name, parameters, arguments, on)                          \
    warm_status(*name) parameters;
    WM_DRIVER_CALLS(WM_DRIVER_OP)
#undef WM_DRIVER_OP
    /* Ends the driver. The host device finishes its queued work, except on held
     * streams: *dropped counts those. Not called once the process exits or was
     * forked. */
    void (*close)(wm_driver *d, uint64_t *dropped);
    /* Waits for all work that close would finish, so that memory which the work
     * uses can be freed before close; null: close waits for no work. */
    void (*drain)(wm_driver *d);
    /* See wm_driver_look(). This op and the next three are null if the driver
     * has no contexts. */
    warm_status (*look)(wm_driver *d, int device);
    /* See wm_driver_is_unchanged(). */
    wm_unchanged (*is_unchanged)(wm_driver *d, int device);
    /* Calls wm_driver_lose() for the device (WM_DEVICE_UNKNOWN: for every one)
     * if it was reset since the driver used it first. */
    void (*notice)(wm_driver *d, int device);
    /* The device of a stream, event or graph that the driver made, or
     * WM_DEVICE_UNKNOWN. Calls nothing: the object may be gone. */
    int (*home)(wm_driver *d, const void *object);
    /* Makes a device current for the calling thread until leave(): the default
     * streams are its own then. NOT_READY, without a message: this process has
     * not used the device yet. Null if threads cannot choose a device. */
    warm_status (*enter)(wm_driver *d, int device, bool *entered);
    void (*leave)(wm_driver *d, bool entered);
    /* See wm_driver_has_stream(). Null: threads have default streams always. */
    bool (*has_default)(wm_driver *d);
    /* For tests, host device only, else null: hold (count 0), let count
     * pieces of work run and wait for them, or resume (UINT_MAX). */
    warm_status (*control)(wm_driver *d, warm_stream stream, unsigned count);
} wm_driver_ops;

/* Devices whose node is recorded; all others count as next to node 0. */
enum { WM_NODE_DEVICES = 64 };

enum { WM_CONTROL_HOLD = 0 };
#define WM_CONTROL_RESUME UINT_MAX

struct wm_driver {
    const wm_driver_ops *ops; /* const after open */
    const char *name;         /* const: "cuda" or "host" */
    int devices;              /* const: how many, at least 1 */
    /* Const after open: the devices say that pinned_register is supported, and
     * that it page-locks. */
    bool registers, register_locks;
    bool same_addresses;  /* const after open: every device sees registered
                             memory at the host's addresses */
    bool breaks_captures; /* const after open: some calls break the captures of
                             all threads, as CUDA's do */
    bool guarded; /* const: belongs to a runtime, see wm_driver_break_begin() */
    unsigned generation; /* const: wm_process_generation() at open */
    wm_numa numa;        /* as numa.h says */
    int8_t device_node[WM_NODE_DEVICES]; /* const after open: a usable node */
    wm_counter calls[WM_CALLS];
    /* Faults for tests. Relaxed: a test arms them before its calls. */
    _Atomic bool armed;
    _Atomic int64_t fail_in[WM_CALLS]; /* 0: never */
    _Atomic bool fail_on[WM_CALLS];
    /* Lost devices, a bit each; bit 63 stands for device 63 and all above.
     * Relaxed: a call that races with the reset counts as one before it. */
    _Atomic uint64_t lost;
    /* Of wm_driver_warn(), not yet logged; or null. Relaxed: of a literal. */
    _Atomic(const char *) warning;
    /* 1 + the device in whose context all page-locked memory is; 0: none yet.
     * Set once. Relaxed: a number, tied to no other data. */
    _Atomic int host_home;
    /* const after the runtime is made; may be null. The first thread that finds
     * a device lost calls it, with no lock held. */
    void (*on_lost)(void *context, int device);
    void *on_lost_context;
};

/* One function for each call: wm_driver_event_record(d, event, stream), … */
#define WM_DRIVER_DECLARE(name, parameters, arguments, on)                     \
    warm_status wm_driver_##name parameters;
WM_DRIVER_CALLS(WM_DRIVER_DECLARE)
#undef WM_DRIVER_DECLARE

/* False: the stream is a default one of the calling thread, on a device that
 * this process has not used yet: it has no work. Makes no context, which a call
 * with the stream's name would. */
static inline bool wm_driver_has_stream(wm_driver *d, warm_stream stream)
{
    if (!wm_stream_is_default(stream) || d->ops->has_default == NULL) {
        return true;
    }
    WM_CANCEL_OFF();
    return d->ops->has_default(d);
}

/* Makes a device current for the calling thread, if threads can choose one; a
 * later leave() restores the one before. NOT_READY, without a message: this
 * process has not used the device yet, and nothing is queued there. */
static inline warm_status wm_driver_enter(wm_driver *d, int device,
                                          bool *entered)
{
    WM_CANCEL_OFF();
    *entered = false;
    return d->ops->enter != NULL ? d->ops->enter(d, device, entered) : WARM_OK;
}
static inline void wm_driver_leave(wm_driver *d, bool entered)
{
    if (entered) {
        WM_CANCEL_OFF();
        d->ops->leave(d, entered);
    }
}

/* ---- devices that were reset --------------------------------------------
 *
 * cudaDeviceReset() destroys a device's context and all objects in it. If the
 * driver has used the device before, the device is *lost* as soon as a call
 * notices the reset: calls that need its context fail with DRIVER_ERROR, name
 * the device and no longer reach CUDA. It stays lost until the driver is
 * closed, because CUDA may reuse its addresses: old pointers would refer to new
 * memory. Other devices are not affected. Page-locked memory is lost with the
 * one device in whose context all of it was allocated.
 *
 * device, below: WM_DEVICE_HOST means page-locked memory; WM_DEVICE_UNKNOWN and
 * all other negative numbers are never lost. */

bool wm_driver_is_lost_slow(const wm_driver *d, int device);
static inline bool wm_driver_any_lost(const wm_driver *d)
{
    return wm_unlikely(atomic_load_explicit(&d->lost, memory_order_relaxed) !=
                       0);
}
static inline bool wm_driver_is_lost(const wm_driver *d, int device)
{
    return wm_driver_any_lost(d) && wm_driver_is_lost_slow(d, device);
}

/* DRIVER_ERROR with a message if the device is lost; else OK. */
warm_status wm_driver_check_lost(const wm_driver *d, int device);

/* For a driver that notices a reset: the device is lost from now on, which is
 * logged once. No lock held: callbacks of the program are called. */
void wm_driver_lose(wm_driver *d, int device);

/* For a driver, whose calls log nothing themselves: a log callback may call the
 * library, which is in the middle of something. The text, a literal, is logged
 * by the next wm_driver_look() or wm_driver_notice_reset(). */
static inline void wm_driver_warn(wm_driver *d, const char *text)
{
    atomic_store_explicit(&d->warning, text, memory_order_relaxed);
}

/* The check of a call that hands out a handle or memory and does not hit: was
 * the device reset meanwhile, and can the thread's context be used? Status:
 * UNSUPPORTED (it cannot), wm_driver_check_lost()'s, EXITING, FORKED. For
 * page-locked memory and WM_DEVICE_UNKNOWN all devices are checked. Not counted
 * as a call. */
warm_status wm_driver_look_slow(wm_driver *d, int device);
static inline warm_status wm_driver_look(wm_driver *d, int device)
{
    return d->ops->look == NULL ? WARM_OK : wm_driver_look_slow(d, device);
}

/* A cheaper check of a device that the driver has used: whether
 * wm_driver_look() would succeed, as far as that is known at once. Not counted
 * as a call. */
static inline wm_unchanged wm_driver_is_unchanged(wm_driver *d, int device)
{
    if (wm_driver_any_lost(d)) {
        return WM_UNCHANGED_UNKNOWN;
    }
    return d->ops->is_unchanged == NULL ? WM_UNCHANGED_CURRENT
                                        : d->ops->is_unchanged(d, device);
}

/* The check before objects are returned to the driver or queried: was the
 * device (WM_DEVICE_UNKNOWN: any) reset meanwhile? wm_driver_is_lost() has the
 * answer then. Works in any context; leaves the thread's last error alone. */
void wm_driver_notice_slow(wm_driver *d, int device);
static inline void wm_driver_notice_reset(wm_driver *d, int device)
{
    if (d->ops->notice != NULL) {
        wm_driver_notice_slow(d, device);
    }
}

/* Around code that needs CUDA's relaxed capture mode but also works without it:
 * sets the calling thread's mode (true on success), and restores *mode. Neither
 * changes the thread's last error, which belongs to the code in between. */
bool wm_driver_capture_relaxed_begin(wm_driver *d, bool *mode);
void wm_driver_capture_relaxed_end(wm_driver *d, bool *mode);

/* Waits for an event, or for a stream that does not capture, even if other
 * streams capture. Fails without waiting if the relaxed capture mode cannot be
 * entered: the wait would break those captures. */
warm_status wm_driver_stream_await(wm_driver *d, warm_stream stream);
warm_status wm_driver_event_await(wm_driver *d, warm_event event);

/* Around calls that would break the captures of all threads: pinned_free,
 * pinned_unregister, device_free, device_synchronize, ipc_close,
 * range_decommit, and destroying a library's handle. The calling thread has
 * made sure that nothing captures (wm_timelines_begin_break(), which calls
 * these). Pairs nest. Debug builds stop if a runtime makes such a call outside.
 */
void wm_driver_break_begin(void);
void wm_driver_break_end(void);
/* For assertions: whether the thread may make such a call now. */
bool wm_driver_may_break(const wm_driver *d);

/* Opens a driver; *d is owned and ended by wm_driver_close().
 * Status: UNAVAILABLE with the reason in words, UNSUPPORTED (built without
 * CUDA), OUT_OF_MEMORY. No context is created. */
warm_status wm_cuda_open(const wm_options *options, wm_driver **d);
warm_status wm_host_open(const wm_options *options, wm_driver **d);

/* Waits for the work that wm_driver_close() would wait for; does nothing in a
 * forked child or while the process exits. */
void wm_driver_drain(wm_driver *d);

/* Closes a driver; does nothing in a forked child or while the process exits.
 * Returns how many host streams were dropped with work on them. */
uint64_t wm_driver_close(wm_driver *d);

/* Fills the common fields, with one node; for the two open functions. */
void wm_driver_init(wm_driver *d, const wm_driver_ops *ops, const char *name,
                    int devices);

/* The node next to a device, or the next usable one. */
int wm_driver_device_node(const wm_driver *d, int device);
/* While the driver is opened: records that a device is next to node, if that
 * node is usable. */
void wm_driver_set_device_node(wm_driver *d, int device, int node);

/* For tests: see warmpool/testing.h. call: index from wm_driver_call_index(),
 * -1 if there is none of that name. */
int wm_driver_call_index(const char *name);
const char *wm_driver_call_name(int call);
void wm_driver_fail(wm_driver *d, int call, uint64_t n, bool persistent);

#endif
