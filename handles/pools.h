/* pools.h: every kind of a runtime, and its pool on every device (row A9).
 *
 * Kinds are added and never go before the runtime does; an entry is written
 * before the count that makes it visible, so that looking one up takes no
 * lock. Any thread. */
#ifndef WM_POOLS_H
#define WM_POOLS_H

#include "handles/pool.h"
#include "handles/prewarm.h"
#include "handles/workspace.h"

#include <stdatomic.h>

/* A kind, and its pools. */
struct wm_pools_entry {
    wm_kind kind;
    wm_pool *pools; /* [device] */
};

/* What all kinds share on a device. */
struct wm_pools_part {
    wm_workspaces workspaces;
    wm_meter meter;
};

/* What is to be told of the streams of the pool: one was created; one will be
 * destroyed, which it is not if that fails. The context of the stream kind, or
 * null. */
typedef struct wm_stream_life {
    void (*adopt)(void *context, warm_stream stream);
    warm_status (*retire)(void *context, warm_stream stream);
    void *context;
} wm_stream_life;

struct wm_pools {
    wm_driver *driver;      /* const */
    wm_options options;     /* const */
    wm_stream_life streams; /* const once the runtime is live */
    wm_captures captures;   /* the same, but for stays */
    wm_lock lock;
    /* Release by the thread that added a kind under the lock, partner of the
     * acquire in wm_pools_kinds(): who sees the count sees the entry. */
    _Atomic int count;
    struct wm_pools_entry entries[WARM_KIND_MAX]; /* const below count */
    struct wm_pools_part *parts;                  /* const; [device] */
    wm_prewarm prewarm;
};

/* Status: OUT_OF_MEMORY. options are copied, driver is borrowed. */
warm_status wm_pools_open(wm_driver *driver, const wm_options *options,
                          const wm_kind_ops *const *builtin,
                          struct wm_pools **out);

/* Called once, before anyone uses the pools. Not told when they close. */
void wm_pools_set_streams(struct wm_pools *pools, const wm_stream_life *life);

/* The same: who says which private pool has what is captured on a stream. */
void wm_pools_set_private(struct wm_pools *pools, wm_pool_of_fn pool_of,
                          void *context);

/* The same: what is known of captures. */
void wm_pools_set_captures(struct wm_pools *pools, const wm_captures *captures);

/* No capture is under way any more, perhaps: destroys what waited for that. */
void wm_pools_captures_over(struct wm_pools *pools);

/* Before they close while one is: nothing is destroyed. */
void wm_pools_stay(struct wm_pools *pools);

/* The same: where memory of a device is limited. */
void wm_pools_set_room(struct wm_pools *pools, const wm_workspace_room *room);

/* Destroys what is idle and reports what is in use. */
void wm_pools_close(struct wm_pools *pools, uint64_t *in_use);

/* Counts everything as leaked (row A6); calls nothing. */
uint64_t wm_pools_leak(struct wm_pools *pools);

/* Handles that ended when their devices were reset. */
uint64_t wm_pools_lost(struct wm_pools *pools);

/* Adds a kind. context is the kind's own, ended by ops->close; ops and name
 * live as long. Status: INVALID_ARGUMENT (no room, name taken),
 * OUT_OF_MEMORY; the kind is not closed then. */
warm_status wm_pools_add(struct wm_pools *pools, const wm_kind_ops *ops,
                         void *context, warm_kind *kind);

static inline int wm_pools_kinds(struct wm_pools *pools)
{
    /* Acquire: see the field. */
    return atomic_load_explicit(&pools->count, memory_order_acquire);
}

/* kind in range. */
wm_kind *wm_pools_kind(struct wm_pools *pools, warm_kind kind);

/* kind and device in range. */
static inline wm_pool *wm_pools_at(struct wm_pools *pools, warm_kind kind,
                                   int device)
{
    return &pools->entries[kind].pools[device];
}

wm_workspaces *wm_pools_workspaces(struct wm_pools *pools, int device);

wm_prewarm *wm_pools_prewarm(struct wm_pools *pools);

/* Whether the stream is a handle of WARM_KIND_STREAM, idle or in use. */
bool wm_pools_own_stream(struct wm_pools *pools, int device,
                         warm_stream stream);

/* The stream will go: see wm_pool_unbind_stream(). */
void wm_pools_unbind_stream(struct wm_pools *pools, int device,
                            warm_stream stream);

/* For tests: whether the invariants of every pool hold. */
bool wm_pools_check(struct wm_pools *pools);

#endif
