/* workspace_int.h: what the files of workspaces share; see workspace.h. */
#ifndef WM_WORKSPACE_INT_H
#define WM_WORKSPACE_INT_H

#include "handles/workspace.h"

#include "runtime/base/status.h"

/* As workspace.c says. */
enum wm_workspace_state {
    WM_WORKSPACE_SERVING,
    WM_WORKSPACE_PASSING,
    WM_WORKSPACE_IDLE,
    WM_WORKSPACE_TAKEN,
    WM_WORKSPACE_LOST,
    WM_WORKSPACE_OVER
};

struct wm_workspace {
    wm_workspace *next;       /* lock workspaces; all below too */
    wm_workspace *next_asked; /* of the thread that has it TAKEN */
    enum wm_workspace_state state;
    bool captured;    /* graphs have it */
    bool of_captures; /* stream_id is that of captures at an address */
    uint64_t pool;    /* the private pool of those graphs; 0: of none, or of
                         several: they have it for ever */
    uint64_t stream_id;
    warm_stream stream; /* to compare only */
    size_t bytes;
    void *memory;      /* const */
    uint64_t since_ns; /* when its stream retired */
    warm_event event;  /* null until first retired; kept */
};

/* Takes one in a state whose stream retired at before, or earlier. */
wm_workspace *wm_workspace_take(wm_workspaces *workspaces, size_t bytes,
                                uint64_t before, enum wm_workspace_state state);
/* Gives the memory of one that is TAKEN back. */
void wm_workspace_drop(wm_workspaces *workspaces, wm_workspace *workspace);

/* Whether a graph may hold what is queued on the stream now. An error counts
 * as yes: the memory is then kept, which is safe. */
bool wm_workspace_captures(wm_workspaces *workspaces, warm_stream stream);
/* The private pool that a capture on the stream allocates from; 0: none. */
uint64_t wm_workspace_pool_of(wm_workspaces *workspaces, warm_stream stream);
/* A graph of the pool has it. */
void wm_workspace_capture_locked(wm_workspace *workspace, uint64_t pool);
/* The stream is about to go: what its graphs use stays with them. */
void wm_workspaces_leave_to_graphs(wm_workspaces *workspaces,
                                   warm_stream stream);

#endif
