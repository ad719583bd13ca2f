/* host_core.c: the queue behind a stream: items go in; hold and step. */
#include "runtime/host/host.h"

#include "runtime/base/status.h"

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
    wm_cond_init(&core->cond);
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
    wm_cond_fini(&core->cond);
    wm_host_cell_put(&host->cores, core);
}

void wm_host_item_free_locked(wm_host *host, wm_host_item *item)
{
    if (item->after != NULL) {
        wm_host_core_unref_locked(host, item->after);
    }
    if (item->work.kind == WM_HOST_LAUNCH) {
        wm_host_graph_unref_locked(host, item->work.as.graph);
    }
    wm_host_cell_put(&host->items, item);
}

warm_status wm_host_queue_locked(wm_host *host, wm_host_core *core,
                                 const wm_host_work *work, wm_host_core *after,
                                 uint64_t after_done)
{
    wm_host_item *item;

    if (!wm_host_workers_ready_locked(host)) {
        return wm_host_fail(WM_HOST_ERROR_SYSTEM,
                            "no thread could be started for the host device");
    }
    item = wm_host_cell_take(&host->items);
    if (item == NULL) {
        return wm_host_fail(WM_HOST_ERROR_MEMORY,
                            "no memory to queue work on a stream");
    }
    item->work = *work;
    if (after != NULL && after->done < after_done) {
        item->after = after;
        item->after_done = after_done;
        after->references++;
    }
    if (work->kind == WM_HOST_LAUNCH) {
        work->as.graph->references++;
    }
    if (core->queued == core->done) {
        core->references++;
    }
    if (core->last != NULL) {
        core->last->next = item;
    } else {
        core->first = item;
    }
    core->last = item;
    core->queued++;
    wm_host_schedule_locked(host, core);
    return WARM_OK;
}

static warm_status control_locked(wm_host *host, warm_stream stream,
                                  unsigned count)
{
    wm_host_core *core = NULL;
    warm_status status = wm_host_core_find_locked(host, stream, &core);
    uint64_t target;

    if (status != WARM_OK) {
        return status;
    }
    if (count == WM_CONTROL_RESUME) {
        core->limit = UINT64_MAX;
        wm_host_schedule_locked(host, core);
        return WARM_OK;
    }
    if (count == WM_CONTROL_HOLD) {
        core->limit = core->started;
        return WARM_OK;
    }
    if (core->limit == UINT64_MAX) {
        return wm_host_fail(WM_HOST_ERROR_VALUE,
                            "a step of a stream that is not held");
    }
    target = core->limit + count;
    target = target < core->queued ? target : core->queued;
    core->limit = target;
    wm_host_schedule_locked(host, core);
    wm_host_wait_locked(host, core, target);
    return WARM_OK;
}

warm_status wm_host_control(wm_driver *d, warm_stream stream, unsigned count)
{
    wm_host *host = wm_host_of(d);
    warm_status status;

    wm_host_lock(host);
    status = control_locked(host, stream, count);
    wm_host_unlock(host);
    return status;
}
