/* kind_table.c: the table of kinds (kind_table.h). Takes WM_RANK_KINDS to add a
 * kind. */
#include "handles/kind_table.h"

#include "runtime/base/bytes.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <stdatomic.h>
#include <string.h>

/* A limit below one workspace would be passed by every handle. */
static warm_status check_limit(const struct wm_kind_table *table, wm_kind *kind)
{
    size_t limit = (size_t)table->options.workspace_limit;

    for (int i = 0; i < table->driver->devices && limit != 0; i++) {
        size_t bytes = kind->ops->workspace_bytes != NULL
                           ? kind->ops->workspace_bytes(kind, i)
                           : 0;

        if (limit < bytes) {
            return wm_fail(WARM_INVALID_ARGUMENT,
                           "option workspace_limit: %s is less than one "
                           "workspace of a %s handle of device %d, which has "
                           "%s",
                           wm_bytes(limit).text, kind->ops->name, i,
                           wm_bytes(bytes).text);
        }
    }
    return WARM_OK;
}

static warm_status add_locked(struct wm_kind_table *table,
                              const struct wm_kind_entry *entry,
                              warm_kind *kind)
{
    int count = wm_kind_table_count(table);

    if (count == WARM_KIND_MAX) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "no room for kind %s; a runtime has %d at most",
                       entry->kind.ops->name, WARM_KIND_MAX);
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(table->entries[i].kind.ops->name, entry->kind.ops->name) ==
            0) {
            return wm_fail(WARM_INVALID_ARGUMENT, "there is a kind %s already",
                           entry->kind.ops->name);
        }
    }
    table->entries[count] = *entry;
    table->entries[count].kind.index = count;
    for (int i = 0; i < table->driver->devices; i++) {
        wm_pool_init(&entry->pools[i], &table->entries[count].kind,
                     &table->devices[i].meter, &table->devices[i].workspaces,
                     i);
    }
    /* Release: pairs with the acquire in wm_kind_table_count(). */
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    *kind = count;
    return WARM_OK;
}

warm_status wm_kind_table_add(struct wm_kind_table *table,
                              const wm_kind_ops *ops, void *context,
                              warm_kind *kind)
{
    struct wm_kind_entry entry = {
        .kind = {.ops = ops,
                 .driver = table->driver,
                 .options = &table->options,
                 .captures = ops->of_host ? NULL : &table->hooks.captures,
                 .context = context},
    };
    warm_status status = check_limit(table, &entry.kind);

    if (status != WARM_OK) {
        return status;
    }
    entry.pools =
        wm_meta_alloc((size_t)table->driver->devices * sizeof *entry.pools);
    if (entry.pools == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for kind %s", ops->name);
    }
    wm_lock_acquire(&table->lock);
    status = add_locked(table, &entry, kind);
    wm_lock_release(&table->lock);
    if (status != WARM_OK) {
        wm_meta_free(entry.pools);
    }
    return status;
}

warm_status wm_kind_table_open(wm_driver *driver, const wm_options *options,
                               const wm_kind_ops *const *builtin,
                               const wm_kind_hooks *hooks,
                               struct wm_kind_table **out)
{
    struct wm_kind_table *table = wm_meta_alloc(sizeof *table);
    uint64_t in_use;
    warm_kind kind;

    if (table == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the handle pools");
    }
    table->driver = driver;
    table->options = *options;
    table->hooks = *hooks;
    wm_lock_init(&table->lock, WM_RANK_KINDS);
    wm_prewarm_init(&table->prewarm);
    table->devices =
        wm_meta_alloc((size_t)driver->devices * sizeof *table->devices);
    if (table->devices == NULL) {
        wm_meta_free(table);
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the workspaces");
    }
    for (int i = 0; i < driver->devices; i++) {
        wm_workspaces *workspaces = &table->devices[i].workspaces;

        wm_workspaces_init(workspaces, driver, i);
        workspaces->captures = &table->hooks.captures;
        workspaces->hooks = hooks->workspaces;
        workspaces->limit = (size_t)options->workspace_limit;
        wm_meter_init(&table->devices[i].meter, driver, i);
    }
    for (int i = 0; i < WARM_KIND_BUILTIN; i++) {
        warm_status status = wm_kind_table_add(table, builtin[i], NULL, &kind);

        if (status != WARM_OK) {
            wm_kind_table_close(table, &in_use);
            return status;
        }
    }
    if (hooks->streams.adopt != NULL) {
        wm_kind_set_context(&table->entries[WARM_KIND_STREAM].kind,
                            &table->hooks.streams);
    }
    *out = table;
    return WARM_OK;
}

/* Closes the pools of a kind. If a handle that may have a workspace is still in
 * use, the workspaces of its device stay allocated. */
static uint64_t close_entry(struct wm_kind_table *table,
                            struct wm_kind_entry *entry)
{
    const wm_kind_ops *ops = entry->kind.ops;
    uint64_t in_use = 0;

    for (int i = 0; i < table->driver->devices; i++) {
        uint64_t count = wm_pool_close(&entry->pools[i]);

        in_use += count;
        if (count > 0 && ops->workspace_bytes != NULL) {
            wm_workspaces_leave_allocated(&table->devices[i].workspaces, false);
        }
    }
    wm_meta_free(entry->pools);
    if (ops->close != NULL) {
        ops->close(&entry->kind);
    }
    return in_use;
}

void wm_kind_table_close(struct wm_kind_table *table, uint64_t *in_use)
{
    *in_use = 0;
    wm_kind_set_context(&table->entries[WARM_KIND_STREAM].kind, NULL);
    /* Streams are kind 0 and close last: handles may be bound to them. */
    for (int i = wm_kind_table_count(table) - 1; i >= 0; i--) {
        *in_use += close_entry(table, &table->entries[i]);
    }
    for (int i = 0; i < table->driver->devices; i++) {
        if (table->hooks.captures.leave_idle) {
            wm_workspaces_leave_allocated(&table->devices[i].workspaces, true);
        }
        wm_workspaces_close(&table->devices[i].workspaces);
    }
    wm_meta_free(table->devices);
    wm_meta_free(table);
}

void wm_kind_table_destroy_deferred(struct wm_kind_table *table)
{
    for (int i = 0; i < wm_kind_table_count(table); i++) {
        for (int k = 0; k < table->driver->devices; k++) {
            wm_pool_destroy_deferred(wm_kind_table_pool(table, i, k));
        }
    }
}

uint64_t wm_kind_table_leak(struct wm_kind_table *table)
{
    uint64_t count = 0;

    for (int i = 0; i < wm_kind_table_count(table); i++) {
        for (int k = 0; k < table->driver->devices; k++) {
            count += wm_pool_leak(wm_kind_table_pool(table, i, k));
        }
    }
    return count;
}

void wm_kind_table_report_graphs(struct wm_kind_table *table,
                                 warm_destroy_report *report)
{
    for (int i = 0; i < table->driver->devices; i++) {
        wm_workspaces_report_graphs(&table->devices[i].workspaces, report);
    }
}

uint64_t wm_kind_table_lost(struct wm_kind_table *table)
{
    uint64_t count = 0;

    for (int i = 0; i < wm_kind_table_count(table); i++) {
        for (int k = 0; k < table->driver->devices; k++) {
            warm_handle_stats stats;

            wm_pool_get_stats(wm_kind_table_pool(table, i, k), &stats);
            count += stats.lost;
        }
    }
    return count;
}

bool wm_kind_table_owns_stream(struct wm_kind_table *table, int device,
                               warm_stream stream)
{
    return wm_pool_owns(wm_kind_table_pool(table, WARM_KIND_STREAM, device),
                        stream);
}

void wm_kind_table_unbind_stream(struct wm_kind_table *table, int device,
                                 warm_stream stream)
{
    for (int i = 0; i < wm_kind_table_count(table); i++) {
        wm_pool_unbind_stream(wm_kind_table_pool(table, i, device), stream);
    }
}

bool wm_kind_table_check(struct wm_kind_table *table)
{
    bool good = true;

    for (int i = 0; i < wm_kind_table_count(table); i++) {
        for (int k = 0; k < table->driver->devices; k++) {
            good = wm_pool_check(wm_kind_table_pool(table, i, k)) && good;
        }
    }
    return good;
}
