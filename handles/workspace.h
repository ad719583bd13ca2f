/* workspace.h: device memory that libraries use between kernels (row A10).
 *
 * A workspace serves one handle on one stream, found by the handle's address
 * and the driver's id of the stream: one call of a library may queue several
 * kernels that use it, and those of two handles would interleave there even on
 * one stream. A handle keeps the workspaces of its last bindings, so that one
 * that goes to and fro between streams obtains none; when a handle or a stream
 * is done with a workspace, an event behind the stream's last work says when it
 * may serve others. One that was used in a capture may be part of a graph and
 * serves nothing else, not even its stream outside of captures; it lives as
 * long as the private pools that the captures allocated from, whatever becomes
 * of stream, handle and thread, and as long as its handle is bound to it. For
 * graphs of no private pool none is handed out.
 * Handles are objects of a library: no two that are alive have one address.
 * Any thread, but for one handle one at a time; WM_RANK_WORKSPACES around the
 * list, not around driver calls. */
#ifndef WM_WORKSPACE_H
#define WM_WORKSPACE_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"

typedef struct wm_workspace wm_workspace;

/* The number of the private pool for graphs that what is captured on the stream
 * now belongs to; 0: of none. No lock is held. */
typedef uint64_t (*wm_pool_of_fn)(void *context, warm_stream stream);

/* Room for memory of a device below the limit that the program has set: claimed
 * before it is obtained, which may fail, and given up when it went back. No
 * lock is held. */
typedef struct wm_workspace_limit {
    bool (*claim)(void *context, int device, size_t bytes);
    void (*unclaim)(void *context, int device, size_t bytes);
    void *context;
} wm_workspace_limit;

/* How many bindings' workspaces a handle keeps, beside that of a default
 * stream; and lists that handles are spread over by address. */
enum { WM_WORKSPACES_CACHED = 4, WM_WORKSPACE_LISTS = 256 };

/* The workspaces of one device; embedded, fields belong to workspace.c. */
typedef struct wm_workspaces {
    wm_driver *driver; /* const */
    int device;        /* const */
    wm_lock lock;
    wm_workspace *list;         /* lock workspaces: all there are */
    uint64_t count, held_bytes; /* lock workspaces */
    uint64_t turn;              /* lock workspaces: of the last binding */
    bool warned;                /* lock workspaces: memory was short */
    wm_pool_of_fn pool_of;      /* const; null: there are none */
    void *pools;                /* const: its context */
    wm_workspace_limit room;    /* const; null functions: there is no limit */
    const struct wm_captures *captures; /* const; null: none is ever known */
    bool said;         /* lock workspaces: that graphs keep one for ever */
    bool keep, events; /* set while closing, by the one thread that does */
    wm_workspace *serving[WM_WORKSPACE_LISTS]; /* lock workspaces: by handle */
} wm_workspaces;

void wm_workspaces_init(wm_workspaces *workspaces, wm_driver *driver,
                        int device);

/* Handles that may use the workspaces outlive them: leave the memory. events:
 * and a stream captures: leave the events too. */
void wm_workspaces_leave_allocated(wm_workspaces *workspaces, bool events);

/* Gives the memory back. */
void wm_workspaces_close(wm_workspaces *workspaces);

/* Who wants a workspace. */
typedef struct wm_workspace_key {
    const void *handle;
    warm_stream stream;
    uint64_t stream_id;
} wm_workspace_key;

/* The workspace of the handle on the stream, at least bytes large; *memory is
 * null if there is no memory for one, or if a graph of no private pool would
 * have it: the library then uses its own. Cannot fail. The handle is bound to
 * it next. */
void wm_workspaces_get(wm_workspaces *workspaces, const wm_workspace_key *user,
                       size_t bytes, void **memory);

/* The handle, which nobody uses, uses its workspaces no more: its library has
 * none of them any longer, or the handle is about to be destroyed. */
void wm_workspaces_detach(wm_workspaces *workspaces, const void *handle);

/* The stream captures, or, unless begun, will: a graph may have what serves it,
 * unless the handle is bound again in the capture. */
void wm_workspaces_begin_capture(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id, bool begun);

/* It captures no more: graphs have what is still marked; or, unless begun, it
 * never did. */
void wm_workspaces_end_capture(wm_workspaces *workspaces, warm_stream stream,
                               bool begun);

/* The graphs of a private pool are gone: gives back what only they had, and
 * what was left by earlier calls. later: not now, since something is captured.
 * pool: 0 is none. Cannot fail. */
void wm_workspaces_end_private_pool(wm_workspaces *workspaces, uint64_t pool,
                                    bool later);

/* Asks whether the stream captures, and if so does the same. True if it had a
 * workspace and captures. */
bool wm_workspaces_note_capture(wm_workspaces *workspaces, warm_stream stream,
                                uint64_t stream_id);

/* The stream is about to be destroyed. */
void wm_workspaces_retire_stream(wm_workspaces *workspaces, warm_stream stream,
                                 uint64_t stream_id);

/* Frees those that have served nobody for idle_ns or longer, and those that a
 * handle keeps beside the one it is bound to, if their work has ended and no
 * graph has them. Cannot fail. */
void wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns);

void wm_workspaces_get_stats(wm_workspaces *workspaces, uint64_t *count,
                             uint64_t *bytes);

#endif
