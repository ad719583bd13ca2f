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

struct wm_pools;

/* Status: OUT_OF_MEMORY. options are copied, driver is borrowed. */
warm_status wm_pools_open(wm_driver *driver, const wm_options *options,
                          struct wm_pools **out);

/* What is to be told before a stream of the pool is destroyed; the context of
 * the stream kind, or null. If it fails the stream is not destroyed. */
typedef struct wm_stream_end {
    warm_status (*retire)(void *context, warm_stream stream);
    void *context;
} wm_stream_end;

/* Called once, before anyone uses the pools. Not told when they close. */
void wm_pools_set_retire(struct wm_pools *pools, const wm_stream_end *retire);

/* Destroys what is idle and reports what is in use. */
void wm_pools_close(struct wm_pools *pools, uint64_t *in_use);

/* Counts everything as leaked (row A6); calls nothing. */
uint64_t wm_pools_leak(struct wm_pools *pools);

/* Adds a kind. context is the kind's own, ended by ops->close; ops and name
 * live as long. Status: INVALID_ARGUMENT (no room, name taken),
 * OUT_OF_MEMORY; the kind is not closed then. */
warm_status wm_pools_add(struct wm_pools *pools, const wm_kind_ops *ops,
                         void *context, warm_kind *kind);

/* As wm_pools_add(), for a kind made of callbacks (kind_user.c). */
warm_status wm_kind_user_add(struct wm_pools *pools, const warm_kind_ops *ops,
                             warm_kind *kind);

int wm_pools_kinds(struct wm_pools *pools);

/* kind in range. */
wm_kind *wm_pools_kind(struct wm_pools *pools, warm_kind kind);

/* kind and device in range. */
wm_pool *wm_pools_at(struct wm_pools *pools, warm_kind kind, int device);
wm_workspaces *wm_pools_workspaces(struct wm_pools *pools, int device);

wm_prewarm *wm_pools_prewarm(struct wm_pools *pools);

/* Whether the stream is a handle of WARM_KIND_STREAM, idle or in use. */
bool wm_pools_own_stream(struct wm_pools *pools, int device,
                         warm_stream stream);

/* For tests: whether the invariants of every pool hold. */
bool wm_pools_check(struct wm_pools *pools);

#endif
