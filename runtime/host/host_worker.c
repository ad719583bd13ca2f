/* host_worker.c: the queues of cores, and the threads that serve them.
 *
 * Elastic: a worker is started when a core becomes runnable and no worker is
 * idle. So a host function that blocks delays its own stream only, and there
 * are never more workers than streams that ran at once. Idle workers wait on a
 * condition variable and are joined at close. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_start.h"

/* Host functions of users run on this stack; untouched pages take no memory.
 * BURST: items run under the lock before it is released once. */
enum { STACK_BYTES = 1 << 20, BURST = 64 };

static void *worker_main(void *argument);

/* Starts a worker under the lock: at most once for each stream, and so that a
 * failure is known before anything is queued. Leaves the last error alone,
 * since some callers go on without another worker. */
static warm_status start_locked(wm_host *host)
{
    wm_host_worker *worker = wm_meta_alloc(sizeof *worker);
    pthread_attr_t attr;
    bool started;

    if (worker == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    started = wm_thread_start(&worker->thread, &attr, worker_main, host);
    pthread_attr_destroy(&attr);
    if (!started) {
        wm_meta_free(worker);
        return WARM_DRIVER_ERROR;
    }
    worker->next = host->worker;
    host->worker = worker;
    host->workers++;
    host->idle++;
    return WARM_OK;
}

/* Makes sure that workers serve the run list. A worker that was started or
 * woken but has not run yet counts as idle. Each takes one core and calls this
 * again if runnable cores remain, so a signal that finds no sleeper is not
 * lost. If a start fails, the next worker that finishes serves the core: there
 * is at least one worker. */
static void wake_locked(wm_host *host)
{
    if (host->runnable > host->idle) {
        (void)start_locked(host);
    }
    if (host->runnable > 0 && host->idle > 0) {
        wm_cond_signal(&host->work);
    }
}

static warm_status ready_locked(wm_host *host)
{
    warm_status status = host->workers > 0 ? WARM_OK : start_locked(host);

    return status == WARM_OK
               ? WARM_OK
               : wm_host_fail(status == WARM_OUT_OF_MEMORY
                                  ? WM_HOST_ERROR_MEMORY
                                  : WM_HOST_ERROR_SYSTEM,
                              "no thread could be started for the host device");
}

void wm_host_schedule_locked(wm_host *host, wm_host_core *core)
{
    if (core->state != WM_HOST_CORE_IDLE || core->first == NULL ||
        core->started >= core->limit) {
        return;
    }
    core->state = WM_HOST_CORE_RUNNABLE;
    core->run_next = NULL;
    if (host->run_last != NULL) {
        host->run_last->run_next = core;
    } else {
        host->run_first = core;
    }
    host->run_last = core;
    host->runnable++;
    host->busy++;
    wake_locked(host);
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
    warm_status status = ready_locked(host);

    if (status != WARM_OK) {
        return status;
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

static wm_host_core *next_runnable_locked(wm_host *host)
{
    wm_host_core *core = host->run_first;

    if (core == NULL) {
        return NULL;
    }
    host->run_first = core->run_next;
    if (host->run_first == NULL) {
        host->run_last = NULL;
    }
    host->runnable--;
    core->state = WM_HOST_CORE_RUNNING;
    if (host->runnable > 0) {
        wake_locked(host);
    }
    return core;
}

/* core->done has risen: wakes threads, stalled cores and zombies that wait. */
static void progress_locked(wm_host *host, wm_host_core *core)
{
    wm_host_core **link = &core->stalled;

    if (core->waiters > 0) {
        wm_cond_broadcast(&core->cond);
    }
    while (*link != NULL) {
        wm_host_core *stalled = *link;

        if (stalled->first->after_done <= core->done) {
            *link = stalled->run_next;
            stalled->state = WM_HOST_CORE_IDLE;
            wm_host_schedule_locked(host, stalled);
        } else {
            link = &stalled->run_next;
        }
    }
    wm_host_memory_progress_locked(host);
}

/* True if the item may not start yet; core is then in the stalled list of the
 * core that the item waits for. */
static bool stall_locked(wm_host_core *core, const wm_host_item *item)
{
    wm_host_core *after = item->after;

    if (after == NULL || after->done >= item->after_done) {
        return false;
    }
    core->state = WM_HOST_CORE_STALLED;
    core->run_next = after->stalled;
    after->stalled = core;
    return true;
}

static void run_locked(wm_host *host, wm_host_core *core, wm_host_item *item)
{
    core->first = item->next;
    if (core->first == NULL) {
        core->last = NULL;
    }
    core->started++;
    if (item->work.kind != WM_HOST_NOTHING) {
        wm_host_unlock(host);
        wm_host_work_run(&item->work);
        wm_host_lock(host);
    }
    core->done++;
    wm_host_item_free_locked(host, item);
    progress_locked(host, core);
    if (core->done == core->queued) {
        wm_host_core_unref_locked(host, core);
    }
    wm_host_memory_reap_locked(host);
}

/* Runs items of core until it stalls, is held or is empty. Event records and
 * waits run under the lock, which a long series of them releases now and then.
 */
static void serve_locked(wm_host *host, wm_host_core *core)
{
    unsigned count = 0;

    core->references++;
    while (core->first != NULL && core->started < core->limit) {
        if (stall_locked(core, core->first)) {
            break;
        }
        run_locked(host, core, core->first);
        if (++count % BURST == 0) {
            wm_host_unlock(host);
            wm_host_lock(host);
        }
    }
    if (core->state == WM_HOST_CORE_RUNNING) {
        core->state = WM_HOST_CORE_IDLE;
    }
    wm_host_core_unref_locked(host, core);
    if (--host->busy == 0) {
        wm_cond_broadcast(&host->quiet);
    }
}

static void *worker_main(void *argument)
{
    wm_host *host = argument;

    wm_host_lock(host);
    host->idle--;
    while (!host->stop) {
        wm_host_core *core = next_runnable_locked(host);

        if (core != NULL) {
            serve_locked(host, core);
        } else {
            host->idle++;
            wm_cond_wait(&host->work, &host->root->lock);
            host->idle--;
        }
    }
    wm_host_unlock(host);
    return NULL;
}

/* A core that is held, or waits for a held core, is not busy. */
void wm_host_quiet_locked(wm_host *host)
{
    while (host->busy > 0) {
        wm_cond_wait(&host->quiet, &host->root->lock);
    }
}

void wm_host_drain(wm_driver *d)
{
    wm_host *host = wm_host_of(d);

    wm_host_lock(host);
    wm_host_quiet_locked(host);
    wm_host_unlock(host);
}

void wm_host_workers_end(wm_host *host)
{
    wm_host_lock(host);
    wm_host_quiet_locked(host);
    host->stop = true;
    wm_cond_broadcast(&host->work);
    wm_host_unlock(host);
    while (host->worker != NULL) {
        wm_host_worker *worker = host->worker;

        host->worker = worker->next;
        pthread_join(worker->thread, NULL);
        wm_meta_free(worker);
    }
}
