/* workspace_int.h: the states of a workspace (workspace.h).
 *
 *                ┌──────── another pair ───────────────────────┐
 *                ▼                                             │
 *   created ─► SERVING ── handle or stream released it, an ─► PENDING ─► freed
 *              ▲ │ │      event is recorded behind its work    ▲ │
 *              │ │ └── no event can be recorded now ► NO_EVENT ┘ │
 *              │ └──── only graphs use it ─► RETAINED ─► UNUSED  │
 *              └──────── another pair of the same stream ────────┘
 *
 * The word `use` says which handle may be bound again to the workspace by its
 * thread, without a lock:
 *
 *   0 ◄── claimed ── handle ◄── leave ── handle | WM_WORKSPACE_BOUND
 *                      └──────── bind ───────────►
 *
 * Only the thread that may bind the handle sets and clears the mark, and a
 * workspace with the mark is never claimed. A record is never freed before the
 * runtime ends, since a thread may compare the word of one that it remembers.
 */
#ifndef WM_WORKSPACE_INT_H
#define WM_WORKSPACE_INT_H

#include "handles/workspace.h"

#include "runtime/base/status.h"

#include <stdatomic.h>

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

enum { WM_WORKSPACE_BOUND = 1 };

typedef struct wm_workspace_link {
    wm_workspace *next;  /* in the bucket */
    wm_workspace **back; /* the pointer to this one; null: in none */
} wm_workspace_link;

struct wm_workspace {
    /* Acquire by the thread that binds or claims: pairs with the release in
     * wm_workspace_leave(), after the last work was queued with it. */
    _Atomic uintptr_t use;
    /* When it was left last. Relaxed: ordered by use. */
    _Atomic uint64_t since_ns;
    void *memory; /* const until freed, as bytes */
    size_t bytes;
    wm_workspace *next;                     /* lock workspaces, as all below */
    wm_workspace_link of_handle, of_stream; /* of the pair served last */
    wm_workspace *next_claimed;             /* while CLAIMED: of one thread */
    uint64_t marking; /* while CLAIMED: the thread that records its event behind
                         its stream, which is not destroyed meanwhile; or 0 */
    bool ended;       /* the stream has ended since it was claimed for that */
    enum wm_workspace_state state;
    bool for_graphs; /* bound in a capture: stream_id is its capture id */
    bool captured;   /* graphs may use it */
    bool known;      /* the runtime hears when the stream ends */
    enum wm_workspace_mark mark;
    bool untracked; /* of no or too many private pools: no call reports their
                       end */
    unsigned pools; /* private pools of these graphs */
    uint64_t pool[WM_WORKSPACE_POOLS];
    const void *handle; /* the pair served last */
    uint64_t stream_id;
    warm_stream stream;
    warm_event event; /* null until its first release */
};

static inline bool wm_workspace_is_bound(const wm_workspace *w)
{
    /* Relaxed: for a decision, claiming it compares again. */
    return (atomic_load_explicit(&w->use, memory_order_relaxed) &
            WM_WORKSPACE_BOUND) != 0;
}

/* Marks the workspace as bound again to the handle. False: it serves another
 * pair by now, or none. */
static inline bool wm_workspace_bind(wm_workspace *w, const void *handle)
{
    uintptr_t idle = (uintptr_t)handle;

    /* Acquire: see use. */
    return atomic_compare_exchange_strong_explicit(
        &w->use, &idle, idle | WM_WORKSPACE_BOUND, memory_order_acquire,
        memory_order_relaxed);
}

/* The handle, which the workspace serves, is not bound to it any more. */
static inline void wm_workspace_leave(wm_workspace *w, const void *handle,
                                      uint64_t now_ns)
{
    atomic_store_explicit(&w->since_ns, now_ns, memory_order_relaxed);
    /* Release: see use. */
    atomic_store_explicit(&w->use, (uintptr_t)handle, memory_order_release);
}

static inline uint64_t wm_workspace_since(const wm_workspace *w)
{
    return atomic_load_explicit(&w->since_ns, memory_order_relaxed);
}

static inline uint64_t wm_workspace_hash(const void *address)
{
    _Static_assert(WM_WORKSPACE_LISTS == 1 << 7, "seven bits");
    /* 2^64 over the golden ratio. */
    return (uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> (64 - 7);
}

/* The bucket of the handle's workspaces, and of other handles. */
static inline wm_workspace **wm_workspaces_of_handle(wm_workspaces *workspaces,
                                                     const void *handle)
{
    return &workspaces->by_handle[wm_workspace_hash(handle)];
}

static inline wm_workspace **wm_workspaces_of_stream(wm_workspaces *workspaces,
                                                     warm_stream stream)
{
    /* One stream of two names. */
    return &workspaces->by_stream[wm_workspace_hash(
        stream == WARM_STREAM_LEGACY ? NULL : stream)];
}

/* The id by which workspaces tell streams apart: that of the per-thread default
 * stream is made of its thread's number, unless it captures. */
uint64_t wm_workspace_id(warm_stream stream, uint64_t stream_id);
/* That of the calling thread's per-thread default stream. */
uint64_t wm_workspace_thread_id(void);

/* Puts it into the lists of its handle and stream. */
void wm_workspace_link_locked(wm_workspaces *workspaces, wm_workspace *w);
void wm_workspace_set_state(wm_workspaces *workspaces, wm_workspace *w,
                            enum wm_workspace_state state);
/* Claims the workspace. False: a handle is bound to it. */
bool wm_workspace_claim_locked(wm_workspace *w);
/* Claims a workspace of at least `bytes` that is in `state` since `before` or
 * earlier; null: there is none. */
wm_workspace *wm_workspace_claim(wm_workspaces *workspaces,
                                 enum wm_workspace_state state, size_t bytes,
                                 uint64_t before);
/* Claims a PENDING workspace whose event has completed. */
wm_workspace *wm_workspace_claim_completed(wm_workspaces *workspaces,
                                           size_t bytes, uint64_t before);
/* Claims an idle workspace of the stream. */
wm_workspace *wm_workspace_claim_of_stream(wm_workspaces *workspaces,
                                           warm_stream stream,
                                           uint64_t stream_id, size_t bytes);
/* Claims the workspace that is idle longest, and makes the stream wait for its
 * work; null: none is idle, or the driver refused. */
wm_workspace *wm_workspace_claim_oldest(wm_workspaces *workspaces,
                                        warm_stream stream, size_t bytes);
/* Whether no graph uses it. */
bool wm_workspace_is_eager(const wm_workspace *w);
/* Leaks a CLAIMED workspace: the driver cannot report when its work completes.
 */
void wm_workspace_leak(wm_workspaces *workspaces, wm_workspace *workspace);
void wm_workspaces_log_leak(wm_workspaces *workspaces, size_t bytes);
/* Unreserves bytes of freed memory below the device's limit. */
void wm_workspaces_unreserve(wm_workspaces *workspaces, size_t bytes);
/* Frees a CLAIMED workspace. False: that would break a capture; the workspace
 * is in else_state and is freed after the captures. */
bool wm_workspace_free(wm_workspaces *workspaces, wm_workspace *workspace,
                       enum wm_workspace_state else_state);

/* Records events for NO_EVENT workspaces where that is possible now. */
void wm_workspaces_record_events(wm_workspaces *workspaces);
/* Releases workspaces that are idle since `before` or earlier. */
void wm_workspaces_release_idle(wm_workspaces *workspaces, uint64_t before);
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

#endif
