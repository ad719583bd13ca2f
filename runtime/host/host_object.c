/* host_object.c: the live objects of the host device, free lists of their
 * records, and errors; makes cores, counts references to them and waits for
 * their items. host_worker.c fills and serves the queues of cores. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int code;
    warm_status status;
    const char *text;
} errors[] = {
#define ROW(name, code, status, text) {code, WARM_##status, text},
    WM_HOST_ERROR_MAP(ROW)
#undef ROW
};

warm_status wm_host_fail(enum wm_host_error error, const char *format, ...)
{
    char message[384];
    va_list list;

    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return wm_fail_code(errors[error].status, "host", errors[error].code,
                        errors[error].text, "%s", message);
}

bool wm_host_add_locked(wm_host *host, enum wm_host_type type, const void *key,
                        void *object)
{
    wm_map *map = &host->live[type];

    if (!wm_map_reserve(map, map->count + 1)) {
        return false;
    }
    wm_map_put(map, (uintptr_t)key, object);
    return true;
}

void wm_host_remove_locked(wm_host *host, enum wm_host_type type,
                           const void *key)
{
    (void)wm_map_take(&host->live[type], (uintptr_t)key);
    wm_map_shrink(&host->live[type]);
}

static void *pop(wm_host_cells *cells)
{
    void *cell = cells->free;

    if (cell != NULL) {
        memcpy(&cells->free, cell, sizeof cells->free);
        cells->kept--;
    }
    return cell;
}

void *wm_host_cell_take(wm_host_cells *cells)
{
    void *cell = pop(cells);

    if (cell != NULL) {
        memset(cell, 0, cells->bytes);
    } else {
        cell = wm_meta_alloc(cells->bytes);
    }
    cells->used += cell != NULL;
    return cell;
}

/* One record more is free and one fewer in use, so the bound may be exceeded
 * by two. */
void wm_host_cell_put(wm_host_cells *cells, void *cell)
{
    memcpy(cell, &cells->free, sizeof cells->free);
    cells->free = cell;
    cells->kept++;
    cells->used--;
    for (int i = 0; i < 2 && cells->kept > cells->used + WM_HOST_CELLS_KEEP;
         i++) {
        wm_meta_free(pop(cells));
    }
}

void wm_host_cells_fini(wm_host_cells *cells)
{
    while (cells->free != NULL) {
        wm_meta_free(pop(cells));
    }
}

/* ---- cores --------------------------------------------------------------- */

wm_host_core *wm_host_core_make_locked(wm_host *host, int device)
{
    wm_host_core *core = wm_host_cell_take(&host->cores);

    if (core == NULL) {
        return NULL;
    }
    core->references = 1;
    core->device = device;
    core->id = host->next_id++;
    core->limit = UINT64_MAX;
    core->next = host->all_cores;
    if (core->next != NULL) {
        core->next->previous = core;
    }
    host->all_cores = core;
    return core;
}

void wm_host_core_unref_locked(wm_host *host, wm_host_core *core)
{
    wm_assert(core->references > 0);
    if (--core->references > 0) {
        return;
    }
    if (core->next != NULL) {
        core->next->previous = core->previous;
    }
    if (core->previous != NULL) {
        core->previous->next = core->next;
    } else {
        host->all_cores = core->next;
    }
    wm_host_cell_put(&host->cores, core);
}

void wm_host_wait_locked(wm_host *host, wm_host_core *core, uint64_t done)
{
    if (core->done >= done) {
        return;
    }
    core->references++;
    core->waiters++;
    while (core->done < done) {
        wm_cond_wait(&core->cond, &host->root->lock);
    }
    core->waiters--;
    wm_host_core_unref_locked(host, core);
}
