/* host_driver.c: opening and closing the host device, and its table.
 *
 * The library runs on the host device where there is no GPU: asynchronous
 * streams on CPU threads, with events, captures, copies and a memory limit.
 * host.h has the picture. */
#include "runtime/host/host.h"

#include "runtime/base/log.h"
#include "runtime/base/meta.h"
#include "runtime/base/os_page.h"
#include "runtime/base/process.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FIRST_ID = 16 }; /* above the values of the default streams' names */

warm_status wm_host_device_info(wm_driver *d, int device,
                                warm_device_info *info)
{
    size_t free = 0, total = 0;

    wm_host_device_memory(d, device, &free, &total);
    snprintf(info->name, sizeof info->name, "host device %d", device);
    info->total_bytes = total;
    info->free_bytes = free;
    info->compute_major = 0;
    info->compute_minor = 0;
    info->host_memory = 0; /* it limits its devices as if they had their own */
    info->numa_node = d->numa.nodes > 1 ? wm_driver_device_node(d, device) : -1;
    return WARM_OK;
}

/* Threads cannot choose another device. */
warm_status wm_host_current_device(wm_driver *d, int *device)
{
    (void)d;
    *device = 0;
    return WARM_OK;
}

/* Frees the items that a core has not run. True if there were any. */
static bool drop_work(wm_host *host, wm_host_core *core)
{
    bool had = core->done < core->queued;

    while (core->first != NULL) {
        wm_host_item *item = core->first;

        core->first = item->next;
        wm_host_item_free_locked(host, item);
    }
    if (had) {
        core->queued = core->done;
        wm_host_core_unref_locked(host, core);
    }
    return had;
}

/* Drops the queued work of all cores. Each core gets one more reference, which
 * keeps it until all objects that name cores are closed. */
static uint64_t drop_cores(wm_host *host)
{
    uint64_t dropped = 0;

    for (wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        c->references++;
    }
    for (wm_host_core *c = host->all_cores; c != NULL; c = c->next) {
        dropped += drop_work(host, c);
    }
    return dropped;
}

static void host_free(wm_host *host)
{
    wm_host_file_close(host);
    for (int i = 0; i < WM_HOST_TYPES; i++) {
        wm_map_fini(&host->live[i]);
    }
    wm_host_cells_fini(&host->streams);
    wm_host_cells_fini(&host->cores);
    wm_host_cells_fini(&host->items);
    wm_host_cells_fini(&host->events);
    wm_host_cells_fini(&host->clocks);
    wm_meta_free(host->device);
    wm_host_root_release(host->root);
    wm_meta_free(host);
}

static uint64_t close_all_locked(wm_host *host)
{
    uint64_t dropped = drop_cores(host);
    const wm_map_entry *e;

    /* Streams first: they end captures, whose graphs are live objects too. */
    while ((e = wm_map_next(&host->live[WM_HOST_STREAM], NULL)) != NULL) {
        wm_host_stream_close_locked(host, e->value);
    }
    while ((e = wm_map_next(&host->live[WM_HOST_EVENT], NULL)) != NULL) {
        wm_host_event_close_locked(host, e->value);
    }
    while ((e = wm_map_next(&host->live[WM_HOST_GRAPH], NULL)) != NULL) {
        wm_host_graph_close_locked(host, e->value);
    }
    wm_host_memory_fini(host);
    while (host->all_cores != NULL) {
        wm_assert(host->all_cores->references == 1);
        wm_host_core_unref_locked(host, host->all_cores);
    }
    host->root->host = NULL;
    return dropped;
}

static void host_close(wm_driver *d, uint64_t *dropped)
{
    wm_host *host = wm_host_of(d);
    /* Relaxed: no other thread uses the driver any more. */
    uint64_t unlocked =
        atomic_load_explicit(&host->unlocked, memory_order_relaxed);

    wm_host_workers_end(host);
    wm_host_lock(host);
    *dropped = close_all_locked(host);
    wm_host_unlock(host);
    wm_host_thread_prune();
    host_free(host);
    if (unlocked > 0) {
        wm_log(WARM_LOG_INFO,
               "host device: %s of pinned memory were not page-locked: the "
               "limit on locked memory is too low; raise it with ulimit -l",
               wm_bytes(unlocked).text);
    }
}

static const wm_driver_ops host_ops = {
#define OP(name, parameters, arguments, on) .name = wm_host_##name,
    WM_DRIVER_CALLS(OP)
#undef OP
        .close = host_close,
    .drain = wm_host_drain,
    .control = wm_host_control,
};

static void init(wm_host *host, const wm_options *options)
{
    wm_driver_init(&host->driver, &host_ops, "host",
                   (int)options->host_devices);
    /* Without the option one node, whatever the machine has: host devices are
     * next to no node in particular. */
    wm_numa_open(&host->driver.numa,
                 options->numa_nodes != 0 ? (unsigned)options->numa_nodes : 1);
    for (int i = 0; i < host->driver.devices; i++) {
        wm_driver_set_device_node(&host->driver, i,
                                  i % host->driver.numa.nodes);
    }
    host->memory = options->host_memory;
    host->page = wm_os_page();
    wm_host_file_open(host);
    host->streams.bytes = sizeof(wm_host_stream);
    host->cores.bytes = sizeof(wm_host_core);
    host->items.bytes = sizeof(wm_host_item);
    host->events.bytes = sizeof(wm_host_event);
    host->clocks.bytes = WM_HOST_CAPTURE_STREAMS * sizeof(uint32_t);
    host->next_id = FIRST_ID;
    host->next_token = 1;
    /* Relaxed: no other thread has the root yet. */
    atomic_store_explicit(&host->root->references, 1, memory_order_relaxed);
    host->root->host = host;
    wm_lock_init(&host->root->lock, WM_RANK_DRIVER);
}

static bool make_default_streams(wm_host *host)
{
    bool made = true;

    wm_host_lock(host);
    for (int i = 0; i < host->driver.devices && made; i++) {
        host->device[i].legacy = wm_host_stream_make_locked(host, i);
        made = host->device[i].legacy != NULL;
        if (made) {
            host->device[i].legacy->core->fixed = true;
            host->device[i].legacy->core->legacy = true;
        }
    }
    wm_host_unlock(host);
    return made;
}

static void log_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY) {
        wm_log(WARM_LOG_INFO,
               "host device: an unprivileged process may page-lock %s; pinned "
               "memory beyond that is not locked (ulimit -l)",
               wm_bytes(limit.rlim_cur).text);
    }
}

warm_status wm_host_open(const wm_options *options, wm_driver **d)
{
    wm_host *host = wm_meta_alloc(sizeof *host);
    uint64_t dropped;

    wm_process_init();
    wm_host_streams_init();
    if (host == NULL) {
        goto fail;
    }
    host->root = wm_meta_alloc(sizeof *host->root);
    host->device = wm_meta_alloc(options->host_devices * sizeof *host->device);
    if (host->root == NULL || host->device == NULL) {
        wm_meta_free(host->root);
        wm_meta_free(host->device);
        wm_meta_free(host);
        goto fail;
    }
    init(host, options);
    if (!make_default_streams(host)) {
        host_close(&host->driver, &dropped);
        goto fail;
    }
    log_limit();
    *d = &host->driver;
    return WARM_OK;

fail:
    return wm_host_fail(WM_HOST_ERROR_MEMORY,
                        "no memory for the records of the host device");
}
