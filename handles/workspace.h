/* workspace.h: device memory that libraries use between kernels (row A10).
 *
 * A workspace belongs to a stream, found by the driver's id of it: handles
 * bound to one stream share it, because work on a stream is ordered, and so it
 * never serves two streams at once. When the stream retires, an event behind
 * its last work says when another stream may have the workspace. One that was
 * used in a capture may be part of a graph and never serves another stream; it
 * lives as long as the private pool that the capture allocated from.
 * Any thread; WM_RANK_WORKSPACES around the list, not around driver calls. */
#ifndef WM_WORKSPACE_H
#define WM_WORKSPACE_H

#include "runtime/base/lock.h"
#include "runtime/driver/driver.h"

typedef struct wm_workspace wm_workspace;

/* The number of the private pool for graphs that what is captured on the stream
 * now belongs to; 0: of none. No lock is held. */
typedef uint64_t (*wm_pool_of_fn)(void *context, warm_stream stream);

/* The workspaces of one device; embedded, fields belong to workspace.c. */
typedef struct wm_workspaces {
    wm_driver *driver; /* const */
    int device;        /* const */
    wm_lock lock;
    wm_workspace *list;         /* lock workspaces: serving a stream, or idle */
    uint64_t count, held_bytes; /* lock workspaces */
    bool warned;                /* lock workspaces: memory was short */
    wm_pool_of_fn pool_of;      /* const; null: there are none */
    void *pools;                /* const: its context */
    bool keep; /* set while closing, by the one thread that does */
} wm_workspaces;

void wm_workspaces_init(wm_workspaces *workspaces, wm_driver *driver,
                        int device);

/* Handles that may use the workspaces outlive them: leave the memory. */
void wm_workspaces_keep(wm_workspaces *workspaces);

/* Gives the memory back. */
void wm_workspaces_close(wm_workspaces *workspaces);

/* The workspace of the stream, at least bytes large; *memory is null if there
 * is no memory for one: the library then uses its own. Cannot fail. */
void wm_workspaces_get(wm_workspaces *workspaces, warm_stream stream,
                       uint64_t stream_id, size_t bytes, void **memory);

/* The stream captures, or will from now on. */
void wm_workspaces_captured(wm_workspaces *workspaces, warm_stream stream,
                            uint64_t stream_id);

/* The graphs of a private pool are gone: gives back what only they had, and
 * what was left by earlier calls. later: not now, since something is captured.
 * pool: 0 is none. Cannot fail. */
void wm_workspaces_pool_over(wm_workspaces *workspaces, uint64_t pool,
                             bool later);

/* Asks whether the stream captures, and if so does the same. True if it had a
 * workspace and captures. */
bool wm_workspaces_note(wm_workspaces *workspaces, warm_stream stream,
                        uint64_t stream_id);

/* The stream is about to be destroyed. */
void wm_workspaces_retire(wm_workspaces *workspaces, warm_stream stream,
                          uint64_t stream_id);

/* Frees those whose stream retired idle_ns ago or earlier, if its work has
 * ended and no graph has them. Cannot fail. */
void wm_workspaces_trim(wm_workspaces *workspaces, uint64_t idle_ns);

void wm_workspaces_get_stats(wm_workspaces *workspaces, uint64_t *count,
                             uint64_t *bytes);

#endif
