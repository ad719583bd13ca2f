/* workspace.h: device memory that libraries use between kernels (row A10).
 *
 * A workspace serves one handle on one stream, keyed by the handle's address
 * and the driver's id of the stream: one library call may queue several kernels
 * that use it, and kernels of two handles would interleave even on one stream.
 * A handle caches the workspaces of its last bindings, so that alternating
 * between streams allocates nothing. When the handle or the stream no longer
 * uses a workspace, an event recorded behind the stream's last work shows when
 * it may serve another key. A workspace used in a capture may be part of a
 * graph and serves nothing else, not even its stream outside of captures. It
 * lives as long as the private pools that the captures allocated from, even
 * after stream, handle and thread are gone, and as long as its handle is bound
 * to it. A capture outside of every private pool gets no workspace: the library
 * uses its own. No two live handles have the same address. Any thread, but one
 * thread at a time for one handle; lock workspaces guards the list and is not
 * held around driver calls. */
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
    /* With the lock held: brings the records of the last bindings up to date,
     * and makes threads forget the workspaces to which their handles are not
     * bound. False: these cannot be released now. */
    bool (*collect)(warm_runtime *runtime, wm_workspaces *workspaces);
    warm_runtime *runtime;
} wm_workspace_hooks;

/* Workspaces that a handle caches, beside that of a default stream; and buckets
 * of the hash table of handles. */
enum { WM_WORKSPACES_CACHED = 4, WM_WORKSPACE_LISTS = 256 };

/* The workspaces of one device; embedded, fields belong to workspace.c. */
struct wm_workspaces {
    wm_driver *driver; /* const */
    int device;        /* const */
    wm_lock lock;
    wm_workspace *list;         /* lock workspaces: all of the device */
    uint64_t count, held_bytes; /* lock workspaces */
    uint64_t binding_number;    /* lock workspaces: of the last binding */
    bool shortage_logged;       /* lock workspaces */
    wm_workspace_hooks hooks;   /* const */
    const struct wm_captures *captures; /* const; null: none are known */
    bool leak_logged; /* lock workspaces: a leak to a graph was logged */
    bool leak_memory, leak_events;               /* set by the closing thread */
    wm_workspace *by_handle[WM_WORKSPACE_LISTS]; /* lock workspaces: SERVING */
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

/* The handle and stream that a workspace serves. */
typedef struct wm_workspace_key {
    const void *handle;
    warm_stream stream;
    uint64_t stream_id;
} wm_workspace_key;

/* *memory: the workspace of the key, at least `bytes` large, which the caller
 * binds next; null if memory is short or a capture outside of every private
 * pool would use it: the library then uses its own. Cannot fail. */
void wm_workspaces_get(wm_workspaces *workspaces, const wm_workspace_key *key,
                       size_t bytes, void **memory);

/* For bindings that threads remember (rebind.c). Whether memory is still the
 * workspace of the key; latest: and the handle is bound to it. used(): the
 * handle was bound to it, later than the records show, until left_ns (0: it
 * still is). */
bool wm_workspaces_serves_locked(wm_workspaces *workspaces,
                                 const wm_workspace_key *key,
                                 const void *memory, bool latest);
void wm_workspaces_used_locked(wm_workspaces *workspaces,
                               const wm_workspace_key *key, const void *memory,
                               uint64_t left_ns);

/* Releases the workspaces of a handle that no thread uses and that is unbound,
 * or about to be destroyed. */
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

/* Releases the workspaces of a stream that is about to be destroyed. */
void wm_workspaces_retire_stream(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id);

/* Frees workspaces that were unused for idle_ns or longer, also cached ones of
 * live handles, if their work has completed and no graph uses them. Cannot
 * fail.
 */
void wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns);

void wm_workspaces_get_stats(wm_workspaces *workspaces, uint64_t *count,
                             uint64_t *bytes);

#endif
