/* kind_table.h: every kind of a runtime, and its pool on every device (row A9).
 *
 * Kinds are added and never go before the runtime does; an entry is written
 * before the count that makes it visible, so that looking one up takes no
 * lock. Any thread. */
#ifndef WM_KIND_TABLE_H
#define WM_KIND_TABLE_H

#include "handles/pool.h"
#include "handles/prewarm.h"
#include "handles/workspace.h"

#include <stdatomic.h>

/* A kind, and its pools. */
struct wm_kind_entry {
    wm_kind kind;
    wm_pool *pools; /* [device] */
};

/* What all kinds share on a device. */
struct wm_kind_device {
    wm_workspaces workspaces;
    wm_meter meter;
};

/* What is to be told of the streams of the pool: one was created; one will be
 * destroyed, which it is not if that fails. The context of the stream kind, or
 * null. */
typedef struct wm_stream_hooks {
    void (*adopt)(void *context, warm_stream stream);
    warm_status (*retire)(void *context, warm_stream stream);
    void *context;
} wm_stream_hooks;

struct wm_kind_table {
    wm_driver *driver;       /* const */
    wm_options options;      /* const */
    wm_stream_hooks streams; /* const once the runtime is live */
    wm_captures captures;    /* the same, but for stays */
    wm_lock lock;
    /* Release by the thread that added a kind under the lock, partner of the
     * acquire in wm_kind_table_count(): who sees the count sees the entry. */
    _Atomic int count;
    struct wm_kind_entry entries[WARM_KIND_MAX]; /* const below count */
    struct wm_kind_device *parts;                /* const; [device] */
    wm_prewarm prewarm;
};

/* Status: OUT_OF_MEMORY. options are copied, driver is borrowed. */
warm_status wm_kind_table_open(wm_driver *driver, const wm_options *options,
                               const wm_kind_ops *const *builtin,
                               struct wm_kind_table **out);

/* Called once, before anyone uses the pools. Not told when they close. */
void wm_kind_table_set_streams(struct wm_kind_table *table,
                               const wm_stream_hooks *life);

/* The same: who says which private pool has what is captured on a stream. */
void wm_kind_table_set_private_pools(struct wm_kind_table *table,
                                     wm_pool_of_fn pool_of, void *context);

/* The same: what is known of captures. */
void wm_kind_table_set_captures(struct wm_kind_table *table,
                                const wm_captures *captures);

/* No capture is under way any more, perhaps: destroys what waited for that. */
void wm_kind_table_destroy_deferred(struct wm_kind_table *table);

/* Before they close while one is: nothing is destroyed. */
void wm_kind_table_leave_idle(struct wm_kind_table *table);

/* The same: where memory of a device is limited. */
void wm_kind_table_set_limit(struct wm_kind_table *table,
                             const wm_workspace_limit *room);

/* Destroys what is idle and reports what is in use. */
void wm_kind_table_close(struct wm_kind_table *table, uint64_t *in_use);

/* Counts everything as leaked (row A6); calls nothing. */
uint64_t wm_kind_table_leak(struct wm_kind_table *table);

/* Handles that ended when their devices were reset. */
uint64_t wm_kind_table_lost(struct wm_kind_table *table);

/* Adds a kind. context is the kind's own, ended by ops->close; ops and name
 * live as long. Status: INVALID_ARGUMENT (no room, name taken),
 * OUT_OF_MEMORY; the kind is not closed then. */
warm_status wm_kind_table_add(struct wm_kind_table *table,
                              const wm_kind_ops *ops, void *context,
                              warm_kind *kind);

static inline int wm_kind_table_count(struct wm_kind_table *table)
{
    /* Acquire: see the field. */
    return atomic_load_explicit(&table->count, memory_order_acquire);
}

/* kind in range. */
wm_kind *wm_kind_table_kind(struct wm_kind_table *table, warm_kind kind);

/* kind and device in range. */
static inline wm_pool *wm_kind_table_pool(struct wm_kind_table *table,
                                          warm_kind kind, int device)
{
    return &table->entries[kind].pools[device];
}

wm_workspaces *wm_kind_table_workspaces(struct wm_kind_table *table,
                                        int device);

wm_prewarm *wm_kind_table_prewarm(struct wm_kind_table *table);

/* Whether the stream is a handle of WARM_KIND_STREAM, idle or in use. */
bool wm_kind_table_owns_stream(struct wm_kind_table *table, int device,
                               warm_stream stream);

/* The stream will go: see wm_pool_unbind_stream(). */
void wm_kind_table_unbind_stream(struct wm_kind_table *table, int device,
                                 warm_stream stream);

/* For tests: whether the invariants of every pool hold. */
bool wm_kind_table_check(struct wm_kind_table *table);

#endif
