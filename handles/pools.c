/* pools.c: the table of kinds; see pools.h. WM_RANK_KINDS to add a kind. */
#include "handles/pools.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <stdatomic.h>
#include <string.h>

wm_kind *wm_pools_kind(struct wm_pools *pools, warm_kind kind)
{
    return &pools->entries[kind].kind;
}

wm_workspaces *wm_pools_workspaces(struct wm_pools *pools, int device)
{
    wm_assert(device >= 0 && device < pools->driver->devices);
    return &pools->parts[device].workspaces;
}

wm_prewarm *wm_pools_prewarm(struct wm_pools *pools)
{
    return &pools->prewarm;
}

static bool name_taken_locked(struct wm_pools *pools, const char *name)
{
    for (int i = 0; i < wm_pools_kinds(pools); i++) {
        if (strcmp(pools->entries[i].kind.ops->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static warm_status add_locked(struct wm_pools *pools,
                              const struct wm_pools_entry *entry,
                              warm_kind *kind)
{
    int count = wm_pools_kinds(pools);

    if (count == WARM_KIND_MAX) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "no room for kind %s; a runtime has %d at most",
                       entry->kind.ops->name, WARM_KIND_MAX);
    }
    if (name_taken_locked(pools, entry->kind.ops->name)) {
        return wm_fail(WARM_INVALID_ARGUMENT, "there is a kind %s already",
                       entry->kind.ops->name);
    }
    pools->entries[count] = *entry;
    pools->entries[count].kind.index = count;
    for (int i = 0; i < pools->driver->devices; i++) {
        wm_pool_init(&entry->pools[i], &pools->entries[count].kind,
                     &pools->parts[i].meter, &pools->parts[i].workspaces, i);
    }
    /* Release: see the field. */
    atomic_store_explicit(&pools->count, count + 1, memory_order_release);
    *kind = count;
    return WARM_OK;
}

warm_status wm_pools_add(struct wm_pools *pools, const wm_kind_ops *ops,
                         void *context, warm_kind *kind)
{
    struct wm_pools_entry entry = {
        .kind = {.ops = ops,
                 .driver = pools->driver,
                 .options = &pools->options,
                 .captures = ops->of_host ? NULL : &pools->captures,
                 .context = context},
    };
    warm_status status;

    entry.pools =
        wm_meta_alloc((size_t)pools->driver->devices * sizeof *entry.pools);
    if (entry.pools == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for kind %s", ops->name);
    }
    wm_lock_acquire(&pools->lock);
    status = add_locked(pools, &entry, kind);
    wm_lock_release(&pools->lock);
    if (status != WARM_OK) {
        wm_meta_free(entry.pools);
    }
    return status;
}

static warm_status add_builtin(struct wm_pools *pools,
                               const wm_kind_ops *const *builtin)
{
    warm_status status = WARM_OK;
    warm_kind kind;

    for (int i = 0; i < WARM_KIND_BUILTIN && status == WARM_OK; i++) {
        status = wm_pools_add(pools, builtin[i], NULL, &kind);
    }
    return status;
}

warm_status wm_pools_open(wm_driver *driver, const wm_options *options,
                          const wm_kind_ops *const *builtin,
                          struct wm_pools **out)
{
    struct wm_pools *pools = wm_meta_alloc(sizeof *pools);
    uint64_t in_use;

    if (pools == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the handle pools");
    }
    pools->driver = driver;
    pools->options = *options;
    wm_lock_init(&pools->lock, WM_RANK_KINDS);
    wm_prewarm_init(&pools->prewarm);
    pools->parts =
        wm_meta_alloc((size_t)driver->devices * sizeof *pools->parts);
    if (pools->parts == NULL) {
        wm_prewarm_fini(&pools->prewarm);
        wm_lock_fini(&pools->lock);
        wm_meta_free(pools);
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the workspaces");
    }
    for (int i = 0; i < driver->devices; i++) {
        wm_workspaces_init(&pools->parts[i].workspaces, driver, i);
        pools->parts[i].workspaces.captures = &pools->captures;
        wm_meter_init(&pools->parts[i].meter, driver, i);
    }
    if (add_builtin(pools, builtin) != WARM_OK) {
        wm_pools_close(pools, &in_use);
        return WARM_OUT_OF_MEMORY;
    }
    *out = pools;
    return WARM_OK;
}

/* Closes the pools of one kind. Where a handle that may have a workspace stays
 * in use, the workspaces of the device stay too. */
static uint64_t close_entry(struct wm_pools *pools,
                            struct wm_pools_entry *entry)
{
    const wm_kind_ops *ops = entry->kind.ops;
    uint64_t in_use = 0;

    for (int i = 0; i < pools->driver->devices; i++) {
        uint64_t count = wm_pool_close(&entry->pools[i]);

        in_use += count;
        if (count > 0 && ops->workspace_bytes != NULL) {
            wm_workspaces_keep(&pools->parts[i].workspaces, false);
        }
    }
    wm_meta_free(entry->pools);
    if (ops->close != NULL) {
        ops->close(&entry->kind);
    }
    return in_use;
}

void wm_pools_close(struct wm_pools *pools, uint64_t *in_use)
{
    *in_use = 0;
    pools->entries[WARM_KIND_STREAM].kind.context = NULL;
    /* Streams are kind 0 and go last: libraries may be bound to them. */
    for (int i = wm_pools_kinds(pools) - 1; i >= 0; i--) {
        *in_use += close_entry(pools, &pools->entries[i]);
    }
    for (int i = 0; i < pools->driver->devices; i++) {
        if (pools->captures.stays) {
            wm_workspaces_keep(&pools->parts[i].workspaces, true);
        }
        wm_workspaces_close(&pools->parts[i].workspaces);
        wm_meter_fini(&pools->parts[i].meter);
    }
    wm_meta_free(pools->parts);
    wm_prewarm_fini(&pools->prewarm);
    wm_lock_fini(&pools->lock);
    wm_meta_free(pools);
}

void wm_pools_set_streams(struct wm_pools *pools, const wm_stream_life *life)
{
    pools->streams = *life;
    pools->entries[WARM_KIND_STREAM].kind.context = &pools->streams;
}

void wm_pools_set_captures(struct wm_pools *pools, const wm_captures *captures)
{
    pools->captures = *captures;
}

void wm_pools_captures_over(struct wm_pools *pools)
{
    for (int i = 0; i < wm_pools_kinds(pools); i++) {
        for (int k = 0; k < pools->driver->devices; k++) {
            wm_pool_end_deferred(wm_pools_at(pools, i, k));
        }
    }
}

void wm_pools_stay(struct wm_pools *pools)
{
    pools->captures.stays = true;
}

void wm_pools_set_private(struct wm_pools *pools, wm_pool_of_fn pool_of,
                          void *context)
{
    for (int i = 0; i < pools->driver->devices; i++) {
        pools->parts[i].workspaces.pool_of = pool_of;
        pools->parts[i].workspaces.pools = context;
    }
}

void wm_pools_set_room(struct wm_pools *pools, const wm_workspace_room *room)
{
    for (int i = 0; i < pools->driver->devices; i++) {
        pools->parts[i].workspaces.room = *room;
    }
}

uint64_t wm_pools_leak(struct wm_pools *pools)
{
    uint64_t count = 0;

    for (int i = 0; i < wm_pools_kinds(pools); i++) {
        for (int k = 0; k < pools->driver->devices; k++) {
            count += wm_pool_leak(wm_pools_at(pools, i, k));
        }
    }
    return count;
}

uint64_t wm_pools_lost(struct wm_pools *pools)
{
    uint64_t count = 0;

    for (int i = 0; i < wm_pools_kinds(pools); i++) {
        for (int k = 0; k < pools->driver->devices; k++) {
            warm_handle_stats stats;

            wm_pool_get_stats(wm_pools_at(pools, i, k), &stats);
            count += stats.lost;
        }
    }
    return count;
}

bool wm_pools_own_stream(struct wm_pools *pools, int device, warm_stream stream)
{
    return wm_pool_owns(wm_pools_at(pools, WARM_KIND_STREAM, device), stream);
}

void wm_pools_unbind_stream(struct wm_pools *pools, int device,
                            warm_stream stream)
{
    for (int i = 0; i < wm_pools_kinds(pools); i++) {
        wm_pool_unbind_stream(wm_pools_at(pools, i, device), stream);
    }
}

bool wm_pools_check(struct wm_pools *pools)
{
    bool good = true;

    for (int i = 0; i < wm_pools_kinds(pools); i++) {
        for (int k = 0; k < pools->driver->devices; k++) {
            good = wm_pool_check(wm_pools_at(pools, i, k)) && good;
        }
    }
    return good;
}
