/* host.h: inside the host device; for host_*.c and their tests only.
 *
 *   warm_stream ─► stream ─► core: FIFO of items ─► run list ─► workers
 *   warm_event ──► event ─► (core, position)          (elastic threads)
 *   warm_graph ──► graph ─► works, recorded by a capture
 *
 * A core counts its items: queued, started, done. Events, waits and
 * synchronization all rest on one condition, "the k-th item of that core has
 * finished" (done >= k): an event is a core and a position, a wait is an item
 * that may not start before that position is done. The handle that users hold
 * is separate from the core: it is freed at once when a stream is destroyed,
 * and a new stream may get its address while the old work still runs, as with
 * CUDA.
 *
 * All streams are non-blocking: the default stream waits for no other one.
 * One lock (WM_RANK_DRIVER) guards every field without another remark; no user
 * code and no copy runs under it. Error codes are the CUDA Runtime API's. */
#ifndef WM_HOST_H
#define WM_HOST_H

#include "runtime/base/lock.h"
#include "runtime/base/map.h"
#include "runtime/driver/driver.h"

#include <pthread.h>
#include <stdatomic.h>

/* name, code, status, text */
#define WM_HOST_ERROR_MAP(X)                                                   \
    X(VALUE, 1, INVALID_ARGUMENT, "invalid value")                             \
    X(POINTER, 1, INVALID_POINTER, "invalid value")                            \
    X(MEMORY, 2, OUT_OF_MEMORY, "out of memory")                               \
    X(NAME, 205, UNAVAILABLE, "mapping of buffer object failed")               \
    X(SYSTEM, 304, DRIVER_ERROR, "operating system call failed")               \
    X(HANDLE, 400, INVALID_STREAM, "invalid handle")                           \
    X(ILLEGAL_STATE, 401, CAPTURE_ERROR, "not allowed in this state")          \
    X(REGISTERED, 712, INVALID_ARGUMENT, "memory is registered already")       \
    X(NOT_REGISTERED, 713, INVALID_POINTER, "memory is not registered")        \
    X(CAPTURE_UNSUPPORTED, 900, CAPTURE_ERROR, "not permitted in a capture")   \
    X(CAPTURE_INVALIDATED, 901, CAPTURE_ERROR, "the capture was invalidated")  \
    X(CAPTURE_MERGE, 902, CAPTURE_ERROR, "would merge two captures")           \
    X(CAPTURE_UNMATCHED, 903, CAPTURE_ERROR, "began on another stream")        \
    X(CAPTURE_UNJOINED, 904, CAPTURE_ERROR, "a stream was not joined back")    \
    X(CAPTURE_ISOLATION, 905, CAPTURE_ERROR, "depends on work outside")        \
    X(CAPTURED_EVENT, 907, CAPTURE_ERROR, "the event belongs to a capture")    \
    X(CAPTURE_THREAD, 908, CAPTURE_ERROR, "began in another thread")

enum wm_host_error {
#define WM_HOST_ERROR_ENUM(name, code, status, text) WM_HOST_ERROR_##name,
    WM_HOST_ERROR_MAP(WM_HOST_ERROR_ENUM)
#undef WM_HOST_ERROR_ENUM
};

/* Fails with the code, status and text of error. Any thread, any lock. */
warm_status wm_host_fail(enum wm_host_error error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Work ---- */

typedef struct wm_host wm_host;
typedef struct wm_host_core wm_host_core;
typedef struct wm_host_graph wm_host_graph;
typedef struct wm_host_capture wm_host_capture;

enum wm_host_work_kind {
    WM_HOST_NOTHING, /* an event record, or a wait */
    WM_HOST_COPY,
    WM_HOST_COPY_2D,
    WM_HOST_FUNC,
    WM_HOST_LAUNCH
};

typedef struct wm_host_work {
    enum wm_host_work_kind kind;
    union {
        struct {
            void *destination;
            const void *source;
            size_t bytes;
        } copy;
        wm_copy_2d copy_2d;
        struct {
            warm_host_fn function;
            void *argument;
        } func;
        wm_host_graph *graph; /* the item or node holds a reference */
    } as;
} wm_host_work;

typedef struct wm_host_item {
    struct wm_host_item *next;
    wm_host_work work;
    wm_host_core *after; /* null, or a reference: the item may not start */
    uint64_t after_done; /* before after->done reaches this */
} wm_host_item;

enum wm_host_core_state {
    WM_HOST_CORE_IDLE,     /* nothing to do, or held */
    WM_HOST_CORE_RUNNABLE, /* in the run list */
    WM_HOST_CORE_RUNNING,  /* with a worker */
    WM_HOST_CORE_STALLED   /* in the list of the core that it waits for */
};

/* The queue of a stream. done <= started <= queued; started <= limit.
 * references are held by the handle, by each event and item that names the
 * core, by each waiting thread, by the worker that serves it, and by the core
 * itself while it has work. */
struct wm_host_core {
    wm_host_core *previous, *next; /* in host.cores */
    unsigned references;
    int device;  /* const */
    uint64_t id; /* const */
    enum wm_host_core_state state;
    bool fixed;  /* const: a default stream, which cannot be destroyed */
    bool legacy; /* const: the legacy default stream */
    uint64_t queued, started, done;
    uint64_t limit; /* bound of started; UINT64_MAX: the stream is not held */
    wm_host_item *first, *last;
    wm_host_core *run_next;   /* in the run list or in stalled */
    wm_host_core *stalled;    /* cores whose first item waits for this one */
    unsigned waiters;         /* threads that wait on cond */
    wm_cond cond;             /* signalled when done rises */
    wm_host_capture *capture; /* null: the stream does not capture */
    unsigned capture_index;   /* index in the capture's streams */
};

/* What a warm_stream points to; in host.live while it lives. */
typedef struct wm_host_stream {
    wm_host_core *core;
} wm_host_stream;

/* What a warm_event points to. Complete if core is null or core->done >= done.
 */
typedef struct wm_host_event {
    int device;               /* const */
    wm_host_core *core;       /* where it was recorded last; a reference */
    uint64_t done;            /* position of that record */
    bool recorded;            /* it was recorded outside of a capture once */
    wm_host_capture *capture; /* if recorded last in a capture; a reference */
    uint32_t *clock;          /* the row of that capture's clock (below) */
} wm_host_event;

struct wm_host_graph {
    unsigned references; /* of handle or capture, launches, parent graphs */
    int device;          /* const */
    wm_host_work *node;  /* const once the capture has ended */
    size_t nodes, room;
    wm_host_core *core; /* of the last launch; a reference */
    uint64_t done;      /* its position; the next launch waits for it */
};

/* ---- Captures ---- */

enum { WM_HOST_CAPTURE_STREAMS = 64 }; /* most streams of one capture */

/* A vector clock: clock[i][k] is how many operations of stream k come before
 * the current end of stream i. Stream k has been joined back if the origin's
 * row, clock[0], covers its own count clock[k][k]. */
struct wm_host_capture {
    wm_host_capture *previous, *next; /* in host.captures until it ends */
    unsigned references;              /* of the list, and of events */
    uint64_t owner;                   /* token of the thread that began it */
    bool ended;
    bool global;           /* set by the stand-in: CUDA's global mode */
    const char *broken_by; /* the call that invalidated it; null: valid */
    bool broken_elsewhere; /* another thread than the owner made that call */
    wm_host_graph *graph;
    unsigned streams; /* stream[0] is the origin */
    wm_host_core *stream[WM_HOST_CAPTURE_STREAMS];
    uint32_t clock[WM_HOST_CAPTURE_STREAMS][WM_HOST_CAPTURE_STREAMS];
};

/* ---- Threads ---- */

/* Outlives the driver while a thread has a record that names it. */
typedef struct wm_host_root {
    wm_lock lock;                /* the lock of the driver */
    _Atomic unsigned references; /* of the driver and of threads' records */
    wm_host *host;               /* lock: null once closed */
} wm_host_root;

typedef struct wm_host_thread {
    struct wm_host_thread *next; /* owner thread */
    wm_host_root *root;          /* const; a reference */
    unsigned generation;         /* const */
    bool exits;                  /* owner thread: its destructor ran once */
    uint64_t token;              /* const: identifies the thread's record */
    bool relaxed;                /* owner thread: its capture mode */
    wm_host_stream *stream[];    /* lock: default stream of each device */
} wm_host_thread;

typedef struct wm_host_worker {
    struct wm_host_worker *next;
    pthread_t thread;
} wm_host_worker;

/* ---- Memory ---- */

/* Devices back memory in pieces of 2 MiB, as GPUs do. */
enum { WM_HOST_GRAIN = 2 << 20 };

enum wm_host_region_kind {
    WM_HOST_PINNED,
    WM_HOST_REGISTERED,
    WM_HOST_DEVICE,
    WM_HOST_IMPORTED, /* another process's WM_HOST_DEVICE */
    WM_HOST_RANGE     /* addresses, with memory or without */
};

typedef struct wm_host_mark {
    wm_host_core *core; /* a reference */
    uint64_t done;
} wm_host_mark;

/* One allocation. If it is freed while work is queued, it stays mapped until
 * that work has finished: live ─► zombie (until its marks are done) ─► reaped.
 */
typedef struct wm_host_region {
    struct wm_host_region *previous, *next;
    enum wm_host_region_kind kind; /* const */
    int device;                    /* const, if of a device */
    uint64_t offset;               /* const, for WM_HOST_DEVICE: in host.file */
    char *pointer;                 /* const */
    size_t bytes;                  /* const */
    bool locked;                   /* const: the pages cannot be paged out */
    bool committed;                /* a range with memory */
    size_t marks;
    wm_host_mark *mark; /* null in a zombie: mapped until close */
} wm_host_region;

/* ---- The host device ---- */

/* Types of the objects that users name. Each name is looked up in the map of
 * the live objects of its type, so that a stale or wrong pointer is refused and
 * never dereferenced. */
enum wm_host_type {
    WM_HOST_STREAM,
    WM_HOST_EVENT,
    WM_HOST_GRAPH,
    WM_HOST_REGION,
    WM_HOST_TYPES
};

/* A free list of records of one size, last in first out. It keeps at most as
 * many free records as are in use, plus WM_HOST_CELLS_KEEP. */
enum { WM_HOST_CELLS_KEEP = 256 };

typedef struct wm_host_cells {
    void *free;
    size_t used, kept;
    size_t bytes; /* const */
} wm_host_cells;

typedef struct wm_host_device {
    uint64_t used;          /* bytes that live allocations take */
    wm_host_stream *legacy; /* const after open */
} wm_host_device;

struct wm_host {
    wm_driver driver;   /* first */
    wm_host_root *root; /* const */
    uint64_t memory;    /* const: bytes of each device */
    size_t page;        /* const */
    wm_host_device *device;
    wm_map live[WM_HOST_TYPES]; /* by address */
    wm_host_cells streams, cores, items, events, clocks;
    uint64_t next_id, next_token;
    wm_host_core *all_cores;
    wm_host_capture *captures;
    /* workers */
    wm_host_core *run_first, *run_last;
    unsigned runnable; /* cores in the run list */
    unsigned busy;     /* cores runnable or running */
    unsigned idle; /* workers that sleep, or have just been started or woken */
    unsigned workers;
    wm_host_worker *worker;
    wm_cond work;  /* signalled: the run list is not empty, or stop */
    wm_cond quiet; /* signalled: busy is 0 */
    bool stop;
    /* memory */
    wm_host_region *regions, *zombies, *reaped;
    size_t registered;         /* regions of that kind in the list */
    _Atomic uint64_t unlocked; /* pinned bytes that could not be locked, ever */
    int file;                  /* const: file of all device memory, or -1 */
    uint64_t file_used;        /* end of the used offsets, none used twice */
};

static inline wm_host *wm_host_of(wm_driver *d)
{
    return (wm_host *)(void *)d;
}

static inline void wm_host_lock(wm_host *host)
{
    wm_lock_acquire(&host->root->lock);
}

static inline void wm_host_unlock(wm_host *host)
{
    wm_lock_release(&host->root->lock);
}

/* Defines an op as op_locked() of the same file under the lock. */
#define WM_HOST_LOCKED(op, parameters, arguments)                              \
    warm_status wm_host_##op parameters                                        \
    {                                                                          \
        wm_host *host = wm_host_of(d);                                         \
        warm_status status;                                                    \
                                                                               \
        wm_host_lock(host);                                                    \
        status = op##_locked arguments;                                        \
        wm_host_unlock(host);                                                  \
        return status;                                                         \
    }

/* Bytes rounded up to pages; 0 if the sum does not fit. */
static inline size_t wm_host_pages(const wm_host *host, size_t bytes)
{
    return (bytes + host->page - 1) & ~(host->page - 1);
}

/* The files, lowest first: a file calls only files above it in this list. */

/* host_thread.c */
/* Before anything else of this file: at_exit runs in every thread that ends
 * with records, and gets the first of them. */
void wm_host_thread_key(void (*at_exit)(void *first));
/* Called by at_exit: whether it runs once more, in the next round of the
 * thread's destructors. False at the second call. */
bool wm_host_thread_put_off(wm_host_thread *first);
/* The calling thread's record. Null if it has none and make is false, or if
 * there is no memory. */
wm_host_thread *wm_host_thread_locked(wm_host *host, bool make);
/* Frees the calling thread's records of drivers that are closed. */
void wm_host_thread_prune(void);
void wm_host_root_release(wm_host_root *root);

/* host_object.c */
/* False without memory. */
bool wm_host_add_locked(wm_host *host, enum wm_host_type type, const void *key,
                        void *object);
void wm_host_remove_locked(wm_host *host, enum wm_host_type type,
                           const void *key);
static inline void *wm_host_find_locked(const wm_host *host,
                                        enum wm_host_type type, const void *key)
{
    return wm_map_get(&host->live[type], (uintptr_t)key);
}
void *wm_host_cell_take(wm_host_cells *cells); /* zeroed, or null */
void wm_host_cell_put(wm_host_cells *cells, void *cell);
void wm_host_cells_fini(wm_host_cells *cells);
wm_host_core *wm_host_core_make_locked(wm_host *host, int device);
void wm_host_core_unref_locked(wm_host *host, wm_host_core *core);
/* Waits until core->done reaches done; releases the lock meanwhile. */
void wm_host_wait_locked(wm_host *host, wm_host_core *core, uint64_t done);

/* host_graph.c */
/* A live object from the start, so that the end of a capture needs no memory.
 */
wm_host_graph *wm_host_graph_make_locked(wm_host *host, int device);
bool wm_host_graph_add(wm_host_graph *graph, const wm_host_work *work);
void wm_host_graph_close_locked(wm_host *host, wm_host_graph *graph);
void wm_host_graph_unref_locked(wm_host *host, wm_host_graph *graph);
/* Runs work; no lock held. */
void wm_host_work_run(const wm_host_work *work);

/* host_region.c */
void wm_host_file_open(wm_host *host);
void wm_host_file_close(wm_host *host);
/* Zeroed pages, or MAP_FAILED and errno. */
void *wm_host_file_map(wm_host *host, size_t pages, wm_host_region *region);
/* Marks the region at offset as exported, until it is freed; false: the system
 * refuses. marked(): of the file of any process. */
bool wm_host_file_mark(const wm_host *host, uint64_t offset);
bool wm_host_file_marked(int file, uint64_t offset);
/* Unmaps the pages and frees the record. No lock held. */
void wm_host_region_dispose(wm_host *host, wm_host_region *region);
/* Adds a region, of which no other thread knows, to the map and the list;
 * pointer gets its pages. Without memory disposes of it. No lock held. */
warm_status wm_host_region_publish(wm_host *host, wm_host_region *region,
                                   void **pointer);
void wm_host_region_link(wm_host_region **list, wm_host_region *region);
void wm_host_region_unlink(wm_host_region **list, wm_host_region *region);
/* Frees a region, which has left its list and the map, once all work that is
 * queued by now has finished. */
void wm_host_region_bury_locked(wm_host *host, wm_host_region *region);
/* Moves zombies whose marks are done to the list of reaped regions. */
void wm_host_memory_progress_locked(wm_host *host);
/* Unmaps the reaped regions; releases the lock meanwhile. */
void wm_host_memory_reap_locked(wm_host *host);
void wm_host_memory_fini(wm_host *host);

/* host_worker.c */
void wm_host_item_free_locked(wm_host *host, wm_host_item *item);
/* Appends work to core's queue. It does not start before after (may be null)
 * has done after_done items. The item takes its own reference of a graph. */
warm_status wm_host_queue_locked(wm_host *host, wm_host_core *core,
                                 const wm_host_work *work, wm_host_core *after,
                                 uint64_t after_done);
void wm_host_schedule_locked(wm_host *host, wm_host_core *core);
/* Waits until no core is runnable or running; releases the lock meanwhile. A
 * core that is held, or waits for a held one, keeps its queue. */
void wm_host_quiet_locked(wm_host *host);
/* Waits until everything that can run has finished; and ends the workers. No
 * lock held. */
void wm_host_drain(wm_driver *d);
void wm_host_workers_end(wm_host *host);

/* host_capture.c */
/* Before a call that CUDA forbids during captures: if the calling thread has a
 * capture under way and is not relaxed, invalidates its captures and fails. */
warm_status wm_host_unsafe_locked(wm_host *host, const char *call);
/* wm_host_unsafe_locked() with no lock held. */
warm_status wm_host_unsafe(wm_host *host, const char *call);
/* Invalidates a capture. call, a constant string, is what later messages name;
 * the first call counts. */
void wm_host_capture_invalidate_locked(wm_host *host, wm_host_capture *capture,
                                       const char *call);
warm_status wm_host_capture_begin_locked(wm_host *host, wm_host_core *core);
warm_status wm_host_capture_end_locked(wm_host *host, wm_host_core *core,
                                       warm_graph *graph);
/* Adds work to the capture of core. */
warm_status wm_host_capture_add_locked(wm_host_core *core,
                                       const wm_host_work *work);
/* Marks the place that the capture of core has reached: *clock is a copy of
 * core's row, a cell of host->clocks; takes a reference of the capture. */
warm_status wm_host_capture_mark_locked(wm_host *host, wm_host_core *core,
                                        uint32_t **clock);
warm_status wm_host_capture_wait_locked(wm_host *host, wm_host_core *core,
                                        wm_host_event *event);
/* Ends the capture of core because its stream is destroyed. */
void wm_host_capture_leave_locked(wm_host *host, wm_host_core *core);
void wm_host_capture_unref(wm_host_capture *capture);

/* host_memory.c */
/* Counts bytes against the device's memory limit; errors name call. No lock
 * held. */
warm_status wm_host_charge(wm_host *host, int device, size_t bytes,
                           const char *call);
/* Whether a range of host memory lies across two regions of page-locked memory,
 * or in one and outside, and any memory is registered. */
bool wm_host_region_cuts_locked(const wm_host *host, const void *pointer,
                                size_t bytes);
/* Frees the region at pointer, which must have that kind, like's device, and
 * like's bytes unless they are 0. No lock held. */
warm_status wm_host_region_release(wm_host *host, void *pointer,
                                   enum wm_host_region_kind kind,
                                   const char *call,
                                   const wm_host_region *like);

/* host_stream.c */
/* Once in the process, before the first host device is opened. */
void wm_host_streams_init(void);
wm_host_stream *wm_host_stream_make_locked(wm_host *host, int device);
void wm_host_stream_close_locked(wm_host *host, wm_host_stream *stream);
warm_status wm_host_core_find_locked(wm_host *host, warm_stream name,
                                     wm_host_core **core);
/* The handle of a device's default stream, for the stand-in of the CUDA
 * runtime, which has a current device. */
warm_status wm_host_default_stream(wm_driver *d, int device, bool per_thread,
                                   warm_stream *stream);

/* host_event.c */
void wm_host_event_close_locked(wm_host *host, wm_host_event *event);

/* Every op; the table is in host_driver.c. */
#define WM_HOST_DECLARE(name, parameters, arguments, on)                       \
    warm_status wm_host_##name parameters;
WM_DRIVER_CALLS(WM_HOST_DECLARE)
#undef WM_HOST_DECLARE
warm_status wm_host_control(wm_driver *d, warm_stream stream, unsigned count);

#endif
