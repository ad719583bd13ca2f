/* driver.h: the contract between warmpool and what runs work: CUDA or host.
 *
 * A driver embeds a wm_driver and fills its ops. The rest of the library calls
 * only the wm_driver_<call>() functions below; they hold what is true of every
 * call, once:
 *
 * - nothing is called once the process exits (WARM_EXITING) or in a child of
 *   the process that opened the driver (WARM_FORKED);
 * - nothing of a device that was reset is called (DRIVER_ERROR, see below);
 * - no lock of the library is held (checked in debug);
 * - the call is no cancellation point;
 * - the call is counted, and may be made to fail by a test, before it does
 *   anything;
 * - devices are in range, streams and events as the driver gave them, outputs
 *   not null, and written on success only.
 *
 * What every driver promises in turn: any thread may call; the calling
 * thread's current device is as before when a call returns; no context is
 * made on a device that the program does not use, unless the call works on
 * that very device (row B13); a failed call has changed nothing and has left
 * the thread's last error (wm_fail_code with the driver's code and text);
 * WARM_NOT_READY is an answer, not an error.
 */
#ifndef WM_DRIVER_H
#define WM_DRIVER_H

#include "warmpool/device.h"
#include "warmpool/memory.h"
#include "runtime/base/counter.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/driver/numa.h"

#include <limits.h>
#include <stdbool.h>

typedef struct wm_driver wm_driver;

/* Whether a stream captures now. BLOCKED: it does not, but nothing may be
 * queued on it because another one does (the legacy stream in CUDA). */
typedef enum wm_capture {
    WM_CAPTURE_NONE,
    WM_CAPTURE_ACTIVE,
    WM_CAPTURE_BLOCKED
} wm_capture;

/* What tells a stream from every other one of the process's life, also from
 * one that gets a destroyed one's address later. While a stream captures CUDA
 * answers no question about it but that: device is then WM_DEVICE_UNKNOWN, and
 * id one for captures of streams at that address. */
typedef struct wm_stream_info {
    uint64_t id;
    int device;
    wm_capture capture; /* at that moment */
} wm_stream_info;

/* Not the number of a device: it is not known; and the host's memory. */
enum { WM_DEVICE_UNKNOWN = -1, WM_DEVICE_HOST = -2 };

/* The id of captures of streams at that address: the ids of streams count up,
 * and no address has the highest bit set. */
static inline uint64_t wm_stream_capture_id(warm_stream stream)
{
    return UINT64_C(1) << 63 | (uintptr_t)stream;
}

/* Between memory of any kind, which the driver tells by the addresses. */
#define WM_COPY_ANY ((warm_copy_direction)4)

/* What a device of this machine is known by in every process; and memory that
 * another process may map, as the driver names it. Plain bytes. */
typedef struct wm_device_id {
    unsigned char bytes[16];
} wm_device_id;

typedef struct wm_ipc_name {
    unsigned char bytes[64];
} wm_ipc_name;

/* Result type of every op is warm_status. X(name, parameters, arguments, on);
 * each op and each wm_driver_ function takes the driver first. on: what the
 * call needs of a context, which a reset ends: the number of a device, the
 * context of page-locked memory (WM_ON_HOST), that of an object that the driver
 * made (WM_ON), of one of two (WM_ON_EITHER), or none (WM_ON_NOTHING).
 *
 * device_info          fills *info but for size; makes no context
 * current_device       device of the calling thread (0 if never set)
 * pinned_alloc         page-locked memory visible to all devices, page-aligned
 * pinned_free          of pinned_alloc; bytes as there, or 0 if not known
 * pinned_register      page-locks memory that is there already; where the
 * driver says that it does not (register_locks), it touches it
 * pinned_unregister    of pinned_register
 * place                says on which node the untouched pages of mapped memory
 *                      are to be (wm_numa_place())
 * node_of              on which they are, or WM_NODE_UNKNOWN
 * device_alloc/_free   memory of a device; the free may wait for it
 * device_memory        free and total bytes; makes a context if there is none
 * range_unit           what the size of parts of a range is a multiple of; 0:
 *                      the device has no ranges; makes no context
 * range_reserve        addresses for memory of a device, whole units, aligned
 *                      to them; nothing is there yet
 * range_commit         puts one piece of memory into a part of a range, whole
 *                      units. OUT_OF_MEMORY: smaller pieces may still be had.
 *                      *torn (may be null) is set, and else left alone, where
 *                      it failed in the middle and could not be undone: the
 *                      part may have memory, and is to be left alone
 * range_decommit       takes memory out of there, whole pieces, as they were
 *                      committed; INVALID_ARGUMENT (or what the driver says)
 *                      for a part of one. It waits for nothing: work that is
 *                      queued and touches it breaks
 * range_release        of range_reserve; no memory is in it any more
 * device_synchronize   waits for all that is queued on a device; not in a
 *                      capture, whoever captures; NOT_READY: something is held
 *                      by a test
 * device_id            see wm_device_id; makes no context
 * ipc_export           names memory of device_alloc, by its first byte
 * ipc_open             maps memory that another process has named; UNAVAILABLE
 *                      if there is none of that name: the process has ended,
 *                      has freed it, or is this one
 * ipc_close            of ipc_open; may wait for the device
 * stream_create        non-blocking stream
 * stream_destroy       returns at once, the work goes on
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
 * event_mark           as event_record, legal as stream_info is: nothing is
 *                      recorded unless *capture, which is written, is NONE
 * event_passed         as event_query, legal at any time
 * stream_passed        as stream_query, legal as stream_info is: the answer
 *                      counts only if *capture, which is written, is NONE
 * copy                 asynchronous, WARM_COPY_TO_DEVICE, _TO_HOST or
 *                      WM_COPY_ANY; from host to host it may return late
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
    X(pinned_free, (wm_driver * d, void *pointer, size_t bytes),               \
      (d, pointer, bytes), WM_ON_HOST)                                         \
    X(pinned_register, (wm_driver * d, void *pointer, size_t bytes),           \
      (d, pointer, bytes), WM_ON_HOST)                                         \
    X(pinned_unregister, (wm_driver * d, void *pointer), (d, pointer),         \
      WM_ON_HOST)                                                              \
    X(place, (wm_driver * d, void *pointer, size_t bytes, int node),           \
      (d, pointer, bytes, node), WM_ON_NOTHING)                                \
    X(node_of, (wm_driver * d, void *pointer, size_t bytes, int *node),        \
      (d, pointer, bytes, node), WM_ON_NOTHING)                                \
    X(device_alloc, (wm_driver * d, int device, size_t bytes, void **pointer), \
      (d, device, bytes, pointer), device)                                     \
    X(device_free, (wm_driver * d, int device, void *pointer),                 \
      (d, device, pointer), device)                                            \
    X(device_memory, (wm_driver * d, int device, size_t *free, size_t *total), \
      (d, device, free, total), device)                                        \
    X(range_unit, (wm_driver * d, int device, size_t *bytes),                  \
      (d, device, bytes), WM_ON_NOTHING)                                       \
    X(range_reserve, (wm_driver * d, int device, size_t bytes, void **range),  \
      (d, device, bytes, range), device)                                       \
    X(range_commit,                                                            \
      (wm_driver * d, int device, void *range, size_t offset, size_t bytes,    \
       bool *torn),                                                            \
      (d, device, range, offset, bytes, torn), device)                         \
    X(range_decommit,                                                          \
      (wm_driver * d, int device, void *range, size_t offset, size_t bytes),   \
      (d, device, range, offset, bytes), device)                               \
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

typedef struct wm_driver_ops {
#define WM_DRIVER_OP(name, parameters, arguments, on)                          \
    warm_status(*name) parameters;
    WM_DRIVER_CALLS(WM_DRIVER_OP)
#undef WM_DRIVER_OP
    /* Ends the driver. Work still queued on the host device is finished,
     * except on held streams: *dropped counts those. Called unless the process
     * exits or was forked. */
    void (*close)(wm_driver *d, uint64_t *dropped);
    /* Waits for all work that close would finish, so that the memory which it
     * uses can go back before; null: close waits for none. */
    void (*drain)(wm_driver *d);
    /* See wm_driver_look(); null, as the next two: there are no contexts. */
    warm_status (*look)(wm_driver *d, int device);
    /* Calls wm_driver_lose() for the device (WM_DEVICE_UNKNOWN: for every one)
     * if it was reset since the driver used it first. */
    void (*notice)(wm_driver *d, int device);
    /* The device of a stream, event or graph that the driver made, or
     * WM_DEVICE_UNKNOWN. Calls nothing: the object may be gone. */
    int (*home)(wm_driver *d, const void *object);
    /* For tests, host device only, else null: hold (count 0), let count
     * pieces of work run and wait for them, or resume (UINT_MAX). */
    warm_status (*control)(wm_driver *d, warm_stream stream, unsigned count);
} wm_driver_ops;

/* The devices whose node is known; the others count as next to node 0. */
enum { WM_NODE_DEVICES = 64 };

enum { WM_CONTROL_HOLD = 0 };
#define WM_CONTROL_RESUME UINT_MAX

struct wm_driver {
    const wm_driver_ops *ops; /* const after open */
    const char *name;         /* const: "cuda" or "host" */
    int devices;              /* const: how many, at least 1 */
    bool register_locks;      /* const after open: pinned_register page-locks */
    bool breaks_captures; /* const after open: some calls, as CUDA's, break the
                             captures of whichever thread */
    bool guarded;         /* const: of a runtime, see wm_driver_break_begin() */
    unsigned generation;  /* const: wm_process_generation() at open */
    wm_numa numa;         /* as numa.h says */
    int8_t device_node[WM_NODE_DEVICES]; /* const after open: a usable node */
    wm_counter calls[WM_CALLS];
    /* Faults for tests. Relaxed: a test arms them before its calls. */
    _Atomic bool armed;
    _Atomic int64_t fail_in[WM_CALLS]; /* 0: never */
    _Atomic bool fail_on[WM_CALLS];
    /* The devices that were found to have been reset, a bit each; the last bit
     * is that of all from there on. Relaxed: a call that races with the reset
     * was under way before it. */
    _Atomic uint64_t lost;
    /* 1 + the device in whose context page-locked memory is, 0: there is none
     * yet. Set once. Relaxed: a number. */
    _Atomic int host_home;
    /* const after the runtime is made; may be null. The first to find a device
     * lost calls it, with no lock held. */
    void (*on_lost)(void *context, int device);
    void *on_lost_context;
};

/* One function for each call: wm_driver_event_record(d, event, stream), … */
#define WM_DRIVER_DECLARE(name, parameters, arguments, on)                     \
    warm_status wm_driver_##name parameters;
WM_DRIVER_CALLS(WM_DRIVER_DECLARE)
#undef WM_DRIVER_DECLARE

/* ---- devices that were reset (row A17) ----------------------------------
 *
 * cudaDeviceReset() ends a device's context, and all that was made in it. A
 * driver's device that was used before is *lost* from the moment on at which
 * somebody notices: calls that need its context answer DRIVER_ERROR, with words
 * that name the device, and reach the driver no more. It stays lost until the
 * driver is closed: its addresses may be given anew, and pointers of before
 * would name memory of after. The other devices work on. Page-locked memory is
 * lost with the one device in whose context all of it was obtained.
 *
 * device, below: WM_DEVICE_HOST means that memory; WM_DEVICE_UNKNOWN is never
 * lost, and no other negative number is. */

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

/* DRIVER_ERROR, with words, if it is; else OK. */
warm_status wm_driver_check_lost(const wm_driver *d, int device);

/* For a driver that finds one: it is lost from now on, which is logged once. */
void wm_driver_lose(wm_driver *d, int device);

/* What a call asks that hands something out and finds none with its thread: was
 * the device reset meanwhile, and may the thread's context be used? UNSUPPORTED
 * if it may not; as wm_driver_check_lost(). For page-locked memory and
 * WM_DEVICE_UNKNOWN every device is looked at. Counted as no call. Also
 * EXITING, FORKED. */
warm_status wm_driver_look_slow(wm_driver *d, int device);
static inline warm_status wm_driver_look(wm_driver *d, int device)
{
    return d->ops->look == NULL ? WARM_OK : wm_driver_look_slow(d, device);
}

/* What a call asks first that gives things back to the driver, or asks the
 * driver about them: was the device (WM_DEVICE_UNKNOWN: any) reset meanwhile?
 * In any context of the thread's; leaves its last error alone. The answer is
 * wm_driver_is_lost()'s. */
void wm_driver_notice_slow(wm_driver *d, int device);
static inline void wm_driver_notice_reset(wm_driver *d, int device)
{
    if (d->ops->notice != NULL) {
        wm_driver_notice_slow(d, device);
    }
}

/* Enters CUDA's relaxed capture mode if it can; and gives back what there was:
 * the mode is the thread's, not a context's. For a section that goes on without
 * it, too. *mode belongs to the section. A failure of either leaves the
 * thread's last error as it was: the section's own is what matters. */
bool wm_driver_relax(wm_driver *d, bool *mode);
void wm_driver_unrelax(wm_driver *d, bool *mode);

/* Waits for a stream that does not capture, or an event, whoever else captures:
 * not at all where the mode for that cannot be had, since a wait would break
 * the captures of others then. */
warm_status wm_driver_stream_await(wm_driver *d, warm_stream stream);
warm_status wm_driver_event_await(wm_driver *d, warm_event event);

/* Around calls that break captures of whichever thread: pinned_free,
 * pinned_unregister, device_free, device_synchronize, ipc_close,
 * range_decommit, and the end of a library's handle. The calling thread has
 * found that nothing captures (wm_timelines_begin_break(), which calls these).
 * Pairs nest. Debug builds stop where a runtime's driver is called without. */
void wm_driver_break_begin(void);
void wm_driver_break_end(void);
/* For an assertion: the call, or another one that is no op, may be made. */
bool wm_driver_may_break(const wm_driver *d);

/* Opens a driver; *d is owned and ended by wm_driver_close().
 * Status: UNAVAILABLE with the reason in words, UNSUPPORTED (built without
 * CUDA), OUT_OF_MEMORY. No context is created. */
warm_status wm_cuda_open(const wm_options *options, wm_driver **d);
warm_status wm_host_open(const wm_options *options, wm_driver **d);

/* Before it ends. In a forked child, or while the process exits, it waits for
 * nothing. */
void wm_driver_drain(wm_driver *d);

/* Ends a driver. In a forked child, or while the process exits, it leaves
 * everything as it is. Returns the host streams dropped with work. */
uint64_t wm_driver_close(wm_driver *d);

/* Fills what is common, with one node; called by the two open functions. */
void wm_driver_init(wm_driver *d, const wm_driver_ops *ops, const char *name,
                    int devices);

/* The usable node next to a device. */
int wm_driver_device_node(const wm_driver *d, int device);
/* Says that a device is next to node, if that is usable. For opening. */
void wm_driver_set_device_node(wm_driver *d, int device, int node);

/* For tests: see warmpool/testing.h. call: index from wm_driver_call_index(),
 * -1 if there is none of that name. */
int wm_driver_call_index(const char *name);
const char *wm_driver_call_name(int call);
void wm_driver_fail(wm_driver *d, int call, uint64_t n, bool persistent);

#endif
