/* host_core.c: makes cores, counts references to them, waits for their items.
 * host_worker.c fills and serves their queues. */
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
