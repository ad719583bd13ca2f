/* workspace.h: device memory that libraries use between kernels (row A10).
 *
 * A workspace serves one handle on one stream: one library call may queue
 * several kernels that use it, and kernels of two handles would interleave even
 * on one stream. The handle's thread marks the workspace to which the handle is
 * bound, by one word that no lock guards; every other workspace is idle. An
 * idle one stays with its handle and stream until another pair needs it:
 *
 *   of the same stream          at once: work on a stream runs in order
 *   whose work has completed    at once
 *   any, the oldest first       the new stream waits for an event behind the
 *                               old one's work
 *
 * A new workspace is made before the third case while there are fewer than the
 * bound, or where none is idle. The bound is option workspace_limit, or one for
 * each handle, or each stream, that was in use at once since the last trim, and
 * two; workspaces of captures do not count.
 *
 * A workspace used in a capture may be part of a graph and serves nothing else,
 * not even its stream outside of captures. It lives as long as the private
 * pools that the captures allocated from, even after stream, handle and thread
 * are gone, and as long as its handle is bound to it. A capture outside of
 * every private pool gets no workspace: the library uses its own. No two live
 * handles have the same address. The per-thread default stream is the stream of
 * its thread, which alone can record an event there.
 *
 * Any thread, but one thread at a time for one handle; lock workspaces guards
 * the list and is not held around driver calls. */
#ifndef WM_WORKSPACE_H
#define WM_WORKSPACE_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"
#include "warmpool/runtime.h"

typedef struct wm_workspace wm_workspace;
typedef struct wm_workspaces wm_workspaces;

/* The functions of the runtime that workspaces call, with no lock held; each
 * may be null. */
typedef struct wm_workspace_hooks {
    /* The number of the private pool that a capture on the stream allocates
     * from; 0: none. */
    uint64_t (*pool_of)(warm_runtime *runtime, warm_stream stream);
    /* The program's memory limit of a device: bytes are reserved before an
     * allocation, which may fail, and unreserved after the free. */
    bool (*reserve)(warm_runtime *runtime, int device, size_t bytes);
    void (*unreserve)(warm_runtime *runtime, int device, size_t bytes);
    warm_runtime *runtime;
} wm_workspace_hooks;

/* Buckets of each hash table. */
enum { WM_WORKSPACE_LISTS = 128 };

/* The workspaces of one device; embedded, fields belong to workspace*.c. */
struct wm_workspaces {
    wm_driver *driver; /* const */
    int device;        /* const */
    wm_lock lock;
    wm_cond marked;             /* a workspace is not `marking` any more */
    wm_workspace *list;         /* lock workspaces: all of the device */
    wm_workspace *spare;        /* lock workspaces: records without memory */
    uint64_t count, held_bytes; /* lock workspaces */
    uint64_t above;             /* lock workspaces: made above the bound */
    uint64_t making;            /* lock workspaces: within it, not yet made */
    uint64_t streams_peak;    /* lock workspaces: streams in use since a trim */
    size_t limit;             /* const: option workspace_limit; 0: none */
    bool shortage_logged;     /* lock workspaces */
    wm_workspace_hooks hooks; /* const */
    const struct wm_captures *captures; /* const; null: none are known */
    bool leak_logged; /* lock workspaces: a leak to a graph was logged */
    bool leak_memory, leak_events; /* set by the closing thread */
    /* lock workspaces: by the handle, and the stream, served last */
    wm_workspace *by_handle[WM_WORKSPACE_LISTS];
    wm_workspace *by_stream[WM_WORKSPACE_LISTS];
};

void wm_workspaces_init(wm_workspaces *workspaces, wm_driver *driver,
                        int device);

/* Makes close leak the memory, since live handles may use it; events: and the
 * events, since a stream captures. */
void wm_workspaces_leave_allocated(wm_workspaces *workspaces, bool events);

/* Frees the workspaces, except those that graphs may use. */
void wm_workspaces_close(wm_workspaces *workspaces);

/* Adds the workspaces that graphs may use to the report. */
void wm_workspaces_report_graphs(wm_workspaces *workspaces,
                                 warm_destroy_report *report);

/* A handle and a stream that need a workspace. */
typedef struct wm_workspace_key {
    const void *handle;
    warm_stream stream;
    uint64_t stream_id; /* the driver's */
    bool known;         /* the runtime hears when the stream ends */
    uint64_t handles;   /* in use at once since the last trim */
} wm_workspace_key;

/* Returns the workspace of the key, at least `bytes` large, marked as bound:
 * the caller binds the handle to it next. Null if memory is short or a capture
 * outside of every private pool would use it: the library then uses its own.
 * Cannot fail. */
wm_workspace *wm_workspaces_get(wm_workspaces *workspaces,
                                const wm_workspace_key *key, size_t bytes);
void *wm_workspace_memory(const wm_workspace *workspace);

/* The handle is not bound any more to a workspace but that one (null: to none).
 * By the thread that may bind the handle. One lock. */
void wm_workspaces_leave_handle(wm_workspaces *workspaces, const void *handle,
                                const wm_workspace *but, uint64_t now_ns);

/* Gets at most `most` handles that have an idle workspace for the stream;
 * returns how many. */
unsigned wm_workspaces_handles_for(wm_workspaces *workspaces,
                                   warm_stream stream, uint64_t stream_id,
                                   const void **handles, unsigned most);

/* Releases the workspaces of a handle that no thread uses and that is about to
 * be destroyed. */
void wm_workspaces_detach(wm_workspaces *workspaces, const void *handle);

/* A capture on the stream has begun, or, unless begun, is announced: its graph
 * may use the workspaces of the stream, unless their handles are bound again in
 * the capture. */
void wm_workspaces_begin_capture(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id, bool begun);

/* The capture has ended: marked workspaces belong to its graph; or, unless
 * begun, it never began. */
void wm_workspaces_end_capture(wm_workspaces *workspaces, warm_stream stream,
                               bool begun);

/* The graphs of a private pool were destroyed (pool 0: of none): frees
 * workspaces that only they used, and those that earlier calls could not free.
 * later: frees none now, since a stream captures. Cannot fail. */
void wm_workspaces_end_private_pool(wm_workspaces *workspaces, uint64_t pool,
                                    bool later);

/* Calls wm_workspaces_begin_capture() if the stream has a workspace and
 * captures; returns whether it did. */
bool wm_workspaces_note_capture(wm_workspaces *workspaces, warm_stream stream,
                                uint64_t stream_id);

/* Releases the workspaces of a stream that is about to be destroyed; of the
 * per-thread default stream, those of the calling thread. Waits while another
 * thread records an event there, to reuse an idle workspace or to trim it. */
void wm_workspaces_retire_stream(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id);

/* Frees workspaces that were idle for idle_ns or longer, if their work has
 * completed and no graph uses them. Returns the bytes freed. Cannot fail. */
size_t wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns);
/* Counts streams in use from now on. */
void wm_workspaces_reset_peak(wm_workspaces *workspaces);

typedef struct wm_workspace_stats {
    uint64_t count, bytes;
    uint64_t idle, idle_bytes; /* of these */
    uint64_t above;            /* made above the bound so far */
} wm_workspace_stats;

void wm_workspaces_get_stats(wm_workspaces *workspaces,
                             wm_workspace_stats *stats);

#endif
