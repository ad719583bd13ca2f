/* kind_table.h: every kind of a runtime, and its pool on every device (row A9).
 *
 * Kinds are added, and removed only with the runtime. An entry is written
 * before the count that makes it visible, so that a lookup takes no lock. Any
 * thread. */
#ifndef WM_KIND_TABLE_H
#define WM_KIND_TABLE_H

#include "handles/pool.h"
#include "handles/prewarm.h"
#include "handles/workspace.h"

#include <stdatomic.h>

/* A kind and its pools. */
struct wm_kind_entry {
    wm_kind kind;
    wm_pool *pools; /* [device] */
};

/* Shared by all kinds on a device. */
struct wm_kind_device {
    wm_workspaces workspaces;
    wm_meter meter;
};

/* Called for streams that the pool creates: adopt() after a creation, which
 * fails if adopt() fails; retire() before a destruction, which is skipped if
 * retire() fails. The context of the
 * stream kind, or null. */
typedef struct wm_stream_hooks {
    warm_status (*adopt)(warm_runtime *runtime, warm_stream stream);
    warm_status (*retire)(warm_runtime *runtime, warm_stream stream);
    warm_runtime *runtime;
    /* Whether what was looked up of the stream holds until the runtime's
     * stream_epoch changes; may be null: never. */
    bool (*is_known)(warm_runtime *runtime, warm_stream stream);
} wm_stream_hooks;

/* The functions of the runtime that kinds and workspaces call; each may be
 * null. */
typedef struct wm_kind_hooks {
    wm_stream_hooks streams; /* not called when the table closes */
    wm_captures captures;
    wm_workspace_hooks workspaces;
} wm_kind_hooks;

struct wm_kind_table {
    wm_driver *driver;   /* const */
    wm_options options;  /* const */
    wm_kind_hooks hooks; /* const once live, except captures.leave_idle */
    wm_lock lock;
    /* Release by the thread that adds a kind under the lock; pairs with the
     * acquire in wm_kind_table_count(): a thread that reads the count sees the
     * entry. */
    _Atomic int count;
    struct wm_kind_entry entries[WARM_KIND_MAX]; /* const below count */
    struct wm_kind_device *devices;              /* const; [device] */
    wm_prewarm prewarm;
};

/* Status: OUT_OF_MEMORY. options and hooks are copied, driver is borrowed. */
warm_status wm_kind_table_open(wm_driver *driver, const wm_options *options,
                               const wm_kind_ops *const *builtin,
                               const wm_kind_hooks *hooks,
                               struct wm_kind_table **out);

/* Called when a capture ends: destroys deferred handles of all pools. */
void wm_kind_table_destroy_deferred(struct wm_kind_table *table);

/* Destroys idle handles; *in_use: handles in use or leased, which are leaked.
 */
void wm_kind_table_close(struct wm_kind_table *table, uint64_t *in_use);

/* Counts all handles as leaked (row A6); calls no library. */
uint64_t wm_kind_table_leak(struct wm_kind_table *table);

/* Number of handles lost in resets of their devices. */
uint64_t wm_kind_table_lost(struct wm_kind_table *table);

/* Adds the workspaces that graphs may use to the report. */
void wm_kind_table_report_graphs(struct wm_kind_table *table,
                                 warm_destroy_report *report);

/* Adds a kind. ops->close frees context; ops and the name live until then.
 * Status: INVALID_ARGUMENT (table full, name taken), OUT_OF_MEMORY; close is
 * not called then. */
warm_status wm_kind_table_add(struct wm_kind_table *table,
                              const wm_kind_ops *ops, void *context,
                              warm_kind *kind);

static inline int wm_kind_table_count(struct wm_kind_table *table)
{
    /* Acquire: pairs with the release in add_locked(). */
    return atomic_load_explicit(&table->count, memory_order_acquire);
}

/* kind in range. */
static inline wm_kind *wm_kind_table_kind(struct wm_kind_table *table,
                                          warm_kind kind)
{
    return &table->entries[kind].kind;
}

/* kind and device in range. */
static inline wm_pool *wm_kind_table_pool(struct wm_kind_table *table,
                                          warm_kind kind, int device)
{
    return &table->entries[kind].pools[device];
}

static inline wm_workspaces *
wm_kind_table_workspaces(struct wm_kind_table *table, int device)
{
    return &table->devices[device].workspaces;
}

/* Whether the stream is a handle of WARM_KIND_STREAM, idle or in use. */
bool wm_kind_table_owns_stream(struct wm_kind_table *table, int device,
                               warm_stream stream);

/* wm_pool_unbind_stream() for all pools of the device. */
void wm_kind_table_unbind_stream(struct wm_kind_table *table, int device,
                                 warm_stream stream);

/* For tests: whether the invariants of every pool hold. */
bool wm_kind_table_check(struct wm_kind_table *table);

#endif
