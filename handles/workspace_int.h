/* workspace_int.h: the states of a workspace (workspace.h).
 *
 *                ┌──────────── a key of the same stream ───────┐
 *                ▼                                             │
 *   created ─► SERVING ── handle or stream released it, an ─► PENDING ─► freed
 *              ▲ │ │      event is recorded behind its work    ▲ │
 *              │ │ └── no event can be recorded now ► NO_EVENT ┘ │
 *              │ └──── only graphs use it ─► RETAINED ─► UNUSED  │
 *              └──────── event completed: another key ───────────┘
 *
 * A record stays in the list until a trim frees it or the runtime ends. */
#ifndef WM_WORKSPACE_INT_H
#define WM_WORKSPACE_INT_H

#include "handles/workspace.h"

#include "runtime/base/status.h"

enum wm_workspace_state {
    WM_WORKSPACE_SERVING,  /* cached for a handle on a stream */
    WM_WORKSPACE_NO_EVENT, /* work may use it; no event is recorded behind that
                              work yet */
    WM_WORKSPACE_PENDING,  /* work may use it; the event is recorded */
    WM_WORKSPACE_CLAIMED,  /* by one thread, which calls the driver */
    WM_WORKSPACE_RETAINED, /* only graphs use it; or leaked: the driver cannot
                              report when its work completes */
    WM_WORKSPACE_UNUSED    /* to be freed */
};

/* Private pools that a workspace may belong to; with more it is leaked. */
enum { WM_WORKSPACE_POOLS = 4 };

/* Whether a capture may use a workspace that served the stream before it. At
 * the end of the capture the mark becomes NONE, and `captured` keeps its value.
 */
enum wm_workspace_mark {
    WM_MARK_NONE,
    WM_MARK_ANNOUNCED, /* announced: eager work still uses the workspace */
    WM_MARK_BEGUN /* used, unless the capture binds the handle to another */
};

struct wm_workspace {
    wm_workspace *next;           /* lock workspaces, as all below */
    wm_workspace *next_of_handle; /* while SERVING: in the handle's bucket */
    wm_workspace **link;          /* the pointer to this one in the bucket */
    wm_workspace *next_claimed;   /* while CLAIMED: of the same thread */
    enum wm_workspace_state state;
    bool for_graphs; /* bound in a capture: stream_id is its capture id */
    bool captured;   /* graphs may use it */
    enum wm_workspace_mark mark;
    bool untracked; /* of no or too many private pools: no call reports their
                       end */
    unsigned pools; /* private pools of these graphs */
    uint64_t pool[WM_WORKSPACE_POOLS];
    const void *handle;      /* key */
    uint64_t binding_number; /* order of its last binding */
    uint64_t stream_id;
    warm_stream stream;
    size_t bytes;
    void *memory;      /* const */
    uint64_t since_ns; /* end of its last binding, or its stream's retirement */
    warm_event event;  /* null until its first release */
};

/* The bucket of the SERVING workspaces of the handle, and of other handles. */
static inline wm_workspace **wm_workspaces_bucket(wm_workspaces *workspaces,
                                                  const void *handle)
{
    /* 2^64 over the golden ratio. */
    uint64_t hash = (uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);

    _Static_assert(WM_WORKSPACE_LISTS == 1 << 8, "eight bits");
    return &workspaces->by_handle[hash >> 56];
}

void wm_workspace_set_state_locked(wm_workspaces *workspaces,
                                   wm_workspace *workspace,
                                   enum wm_workspace_state state);
void wm_workspace_set_state(wm_workspaces *workspaces, wm_workspace *w,
                            enum wm_workspace_state state);
/* Claims a workspace of at least `bytes` that is in `state` since `before` or
 * earlier, of the stream (null: of any); null: there is none. */
wm_workspace *wm_workspace_claim(wm_workspaces *workspaces,
                                 enum wm_workspace_state state, size_t bytes,
                                 uint64_t before, const uint64_t *stream_id);
/* Claims a PENDING workspace whose event has completed. */
wm_workspace *wm_workspace_claim_completed(wm_workspaces *workspaces,
                                           size_t bytes, uint64_t before);
/* Leaks a CLAIMED workspace: the driver cannot report when its work completes.
 */
void wm_workspace_leak(wm_workspaces *workspaces, wm_workspace *workspace);
/* Unreserves bytes of freed memory below the device's limit. */
void wm_workspaces_unreserve(wm_workspaces *workspaces, size_t bytes);
/* Frees a CLAIMED workspace. False: that would break a capture; the workspace
 * is in else_state and is freed after the captures. */
bool wm_workspace_free(wm_workspaces *workspaces, wm_workspace *workspace,
                       enum wm_workspace_state else_state);

/* Before a handle gets one more workspace: releases its oldest if it caches
 * WM_WORKSPACES_CACHED. */
void wm_workspaces_evict_oldest(wm_workspaces *workspaces,
                                const wm_workspace_key *key);
/* Records events for NO_EVENT workspaces where that is possible now. */
void wm_workspaces_record_events(wm_workspaces *workspaces);
/* Releases cached workspaces that no handle is bound to since `before` or
 * earlier. */
void wm_workspaces_release_unbound(wm_workspaces *workspaces, uint64_t before);

/* Whether the stream captures. True on an error: the workspace then counts as
 * captured, which is safe. */
bool wm_workspaces_stream_captures(wm_workspaces *workspaces,
                                   warm_stream stream);
/* The private pool that a capture on the stream allocates from; 0: none. */
uint64_t wm_workspaces_private_pool_of(wm_workspaces *workspaces,
                                       warm_stream stream);
/* Records that a graph of the private pool uses the workspace. */
void wm_workspace_add_graph_locked(wm_workspace *workspace, uint64_t pool);
/* Whether graphs of this private pool, and no other graphs, use the workspace.
 */
bool wm_workspace_is_of_pool(const wm_workspace *workspace, uint64_t pool);
/* The handle is bound to another workspace on the stream. In a capture: the
 * graph does not use the previous one; outside: it may. */
void wm_workspaces_rebound_locked(wm_workspaces *workspaces,
                                  const wm_workspace_key *key, bool captures);
/* The SERVING workspace with the latest binding of w's handle: w if none was
 * bound later. */
wm_workspace *wm_workspace_latest_locked(wm_workspaces *workspaces,
                                         wm_workspace *w);

#endif
