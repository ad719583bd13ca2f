/* workspace_int.h: what the files of workspaces share; see workspace.h.
 *
 *              ┌────────── the same stream wants one ───────┐
 *              ▼                                            │
 *   made ─► SERVING ─ the handle or stream is done with ─► PASSING ─► trimmed
 *           ▲ │ │     it, and an event is behind its work    ▲ │
 *           │ │ └── no event can be recorded now ─► UNMARKED ┘ │
 *           │ └──── graphs alone have it ─► LOST ─► OVER       │
 *           └──────── the event passed; another user ──────────┘
 *
 * Records stay in the list until the runtime goes, or a trim takes one out. */
#ifndef WM_WORKSPACE_INT_H
#define WM_WORKSPACE_INT_H

#include "handles/workspace.h"

#include "runtime/base/status.h"

enum wm_workspace_state {
    WM_WORKSPACE_SERVING,  /* a handle on a stream */
    WM_WORKSPACE_NO_EVENT, /* work may still use it; no event could be recorded
                              behind that so far */
    WM_WORKSPACE_PENDING,  /* the same, and the event was recorded */
    WM_WORKSPACE_CLAIMED,  /* by one thread that calls the driver about it */
    WM_WORKSPACE_RETAINED, /* kept: the driver did not tell when the work ends,
                          or only graphs have it */
    WM_WORKSPACE_UNUSED    /* to be given back */
};

/* Private pools that a workspace may belong to; with more it is kept for ever.
 */
enum { WM_WORKSPACE_POOLS = 4 };

/* How sure it is that a capture uses a workspace which served the stream before
 * it. Once the capture is over, NONE: if captured is set then, it stays so. */
enum wm_workspace_mark {
    WM_MARK_NONE,
    WM_MARK_ANNOUNCED, /* it is to begin: eager work has the workspace so far */
    WM_MARK_BEGUN /* unless the handle is bound to another one in the capture */
};

struct wm_workspace {
    wm_workspace *next;         /* lock workspaces; all below too */
    wm_workspace *next_serving; /* while SERVING: of handles nearby */
    wm_workspace **link;        /* what points to this one there */
    wm_workspace *next_taken;   /* of the thread that has it TAKEN */
    enum wm_workspace_state state;
    bool of_captures; /* stream_id is that of captures at an address */
    bool captured;    /* graphs have it */
    enum wm_workspace_mark mark;
    bool for_ever;  /* some of them are of no pool, or of too many */
    unsigned pools; /* whose graphs have it: that many of */
    uint64_t pool[WM_WORKSPACE_POOLS];
    const void *handle; /* that it serves */
    uint64_t turn;      /* when it was bound to that, among all of them */
    uint64_t stream_id;
    warm_stream stream;
    size_t bytes;
    void *memory;      /* const */
    uint64_t since_ns; /* when it was bound last; or another one of its handle;
                          or when its stream retired */
    warm_event event;  /* null until it was first let go; kept */
};

/* The list that those SERVING the handle are in, with those of others. */
static inline wm_workspace **wm_workspaces_bucket(wm_workspaces *workspaces,
                                                  const void *handle)
{
    /* 2^64 over the golden ratio. */
    uint64_t hash = (uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);

    _Static_assert(WM_WORKSPACE_LISTS == 1 << 8, "eight bits");
    return &workspaces->serving[hash >> 56];
}

void wm_workspace_set_state_locked(wm_workspaces *workspaces,
                                   wm_workspace *workspace,
                                   enum wm_workspace_state state);
void wm_workspace_set_state(wm_workspaces *workspaces, wm_workspace *w,
                            enum wm_workspace_state state);
/* Takes one of at least that size in a state, since before or earlier. */
wm_workspace *wm_workspace_claim(wm_workspaces *workspaces, size_t bytes,
                                 uint64_t before,
                                 enum wm_workspace_state state);
/* Takes a PASSING one whose event has passed. */
wm_workspace *wm_workspace_claim_completed(wm_workspaces *workspaces,
                                           size_t bytes, uint64_t before);
/* The driver failed to tell when the work of one that is TAKEN ends: it is
 * never handed out again. */
void wm_workspace_leak(wm_workspaces *workspaces, wm_workspace *workspace);
/* The memory went back: there is room below the limit. */
void wm_workspaces_unreserve(wm_workspaces *workspaces, size_t bytes);
/* Gives the memory of one that is TAKEN back. False: that would break a capture
 * now; it is in else_state, and goes when captures are over. */
bool wm_workspace_free(wm_workspaces *workspaces, wm_workspace *workspace,
                       enum wm_workspace_state else_state);

/* Before a handle gets one more: lets go of what it has kept longest, if it
 * keeps as many as it may. */
void wm_workspaces_evict_oldest(wm_workspaces *workspaces,
                                const wm_workspace_key *user);
/* Records the events of UNMARKED ones, where that is possible now. */
void wm_workspaces_record_events(wm_workspaces *workspaces);
/* Lets go of what handles keep beside what they are bound to, since before or
 * earlier. */
void wm_workspaces_release_unbound(wm_workspaces *workspaces, uint64_t before);

/* Whether a graph may hold what is queued on the stream now. An error counts
 * as yes: the memory is then kept, which is safe. */
bool wm_workspaces_stream_captures(wm_workspaces *workspaces,
                                   warm_stream stream);
/* The private pool that a capture on the stream allocates from; 0: none. */
uint64_t wm_workspaces_private_pool_of(wm_workspaces *workspaces,
                                       warm_stream stream);
/* A graph of the pool has it. */
void wm_workspace_add_graph_locked(wm_workspace *workspace, uint64_t pool);
/* Whether graphs of that pool have it, and no others. */
bool wm_workspace_is_of_pool(const wm_workspace *workspace, uint64_t pool);
/* The handle gets another workspace on the stream. In a capture: graphs do not
 * have what it was bound to before; outside: they may have. */
void wm_workspaces_rebound_locked(wm_workspaces *workspaces,
                                  const wm_workspace_key *user, bool captures);
/* Of those that serve the same handle, the one that it is bound to. */
bool wm_workspace_is_bound(wm_workspaces *workspaces, const wm_workspace *w);

#endif
