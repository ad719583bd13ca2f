/* stats.c: reads all statistics of a runtime, shows them to a view (fields.h),
 * and adds them up (warm_stats_get()).
 *
 * The tables of fields come from the X-macros of the structs. Kinds, devices
 * and size classes that were never used are left out. Takes no lock. */
#include "warmpool/stats.h"

#include "handles/kind_table.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"
#include "warmpool/device_memory.h"
#include "warmpool/ipc.h"
#include "warmpool/memory.h"
#include "warmpool/shared.h"

#include <string.h>

/* ---- the tables ---------------------------------------------------------- */

#define ROW(of, type, name, unit, meaning)                                     \
    {#name, unit, meaning, type, offsetof(of, name)},
#define TABLE(rows)                                                            \
    {                                                                          \
        rows, sizeof(rows) / sizeof(rows)[0]                                   \
    }

static const wm_field space_rows[] = {
#define PEAK(name, unit, meaning)                                              \
    ROW(warm_space_stats, WM_FIELD_PEAK, name, unit, meaning)
#define STAT(name, unit, meaning)                                              \
    ROW(warm_space_stats, WM_FIELD_STAT, name, unit, meaning)
#define DURATION(name, unit, meaning)                                          \
    ROW(warm_space_stats, WM_FIELD_DURATION, name, unit, meaning)
#define COUNT(name, unit, meaning)                                             \
    ROW(warm_space_stats, WM_FIELD_COUNT, name, unit, meaning)
    WARM_SPACE_PEAK_MAP(PEAK) WARM_SPACE_STAT_MAP(STAT)
        WARM_SPACE_DURATION_MAP(DURATION) WARM_SPACE_COUNT_MAP(COUNT)};

/* A node has no peaks. */
static const wm_field node_rows[] = {
    WARM_SPACE_PEAK_MAP(STAT) WARM_SPACE_STAT_MAP(STAT)
        WARM_SPACE_DURATION_MAP(DURATION) WARM_SPACE_COUNT_MAP(COUNT)
#undef PEAK
#undef STAT
#undef DURATION
#undef COUNT
};

static const wm_field device_figure_rows[] = {
#define PEAK(name, unit, meaning)                                              \
    ROW(warm_device_figures, WM_FIELD_PEAK, name, unit, meaning)
#define STAT(name, unit, meaning)                                              \
    ROW(warm_device_figures, WM_FIELD_STAT, name, unit, meaning)
#define COUNT(name, unit, meaning)                                             \
    ROW(warm_device_figures, WM_FIELD_COUNT, name, unit, meaning)
    WARM_DEVICE_PEAK_MAP(PEAK) WARM_DEVICE_STAT_MAP(STAT)
        WARM_DEVICE_COUNT_MAP(COUNT)};

/* Neither have small and large requests. */
static const wm_field size_rows[] = {WARM_DEVICE_PEAK_MAP(STAT)
                                         WARM_DEVICE_STAT_MAP(STAT)
                                             WARM_DEVICE_COUNT_MAP(COUNT)
#undef PEAK
#undef STAT
#undef COUNT
};

#define TYPE_uint64_t      WM_FIELD_COUNT
#define TYPE_warm_duration WM_FIELD_DURATION
static const wm_field device_rows[] = {
#define FIELD(type, name, unit, meaning)                                       \
    ROW(warm_device_stats, TYPE_##type, name, unit, meaning)
    WARM_DEVICE_TOTAL_MAP(FIELD)
#undef FIELD
};

static const wm_field handle_rows[] = {
#define COUNT(name, unit, meaning)                                             \
    ROW(warm_handle_stats, WM_FIELD_COUNT, name, unit, meaning)
    WARM_HANDLE_STATS_MAP(COUNT)
#undef COUNT
};

static const wm_field ipc_rows[] = {
#define COUNT(name, unit, meaning)                                             \
    ROW(warm_ipc_stats, WM_FIELD_COUNT, name, unit, meaning)
    WARM_IPC_COUNT_MAP(COUNT)
#undef COUNT
};

static const wm_field total_rows[] = {
#define COUNT(name, unit, meaning)                                             \
    ROW(warm_stats, WM_FIELD_COUNT, name, unit, meaning)
    WARM_STATS_MAP(COUNT)
#undef COUNT
};

static const wm_field class_rows[] = {
    ROW(warm_class_stats, WM_FIELD_STAT, live, "blocks",
        "allocated blocks that are not freed")
        ROW(warm_class_stats, WM_FIELD_STAT, requested_bytes, "bytes",
            "bytes requested for live blocks")
            ROW(warm_class_stats, WM_FIELD_STAT, live_bytes, "bytes",
                "usable bytes of live blocks")};

typedef struct prewarm {
    uint64_t done, wanted;
} prewarm;

static const wm_field prewarm_rows[] = {
    ROW(prewarm, WM_FIELD_COUNT, done, "bytes", "obtained by prewarm jobs") ROW(
        prewarm, WM_FIELD_COUNT, wanted, "bytes", "wanted by prewarm jobs")};

static const wm_field histogram_rows[] = {
#define HISTOGRAM(name, unit, meaning)                                         \
    ROW(warm_space_histograms, WM_FIELD_HISTOGRAM, name, unit, meaning)
    WARM_HISTOGRAM_MAP(HISTOGRAM)
#undef HISTOGRAM
};

static const wm_field_table space_table = TABLE(space_rows);
static const wm_field_table node_table = TABLE(node_rows);
static const wm_field_table device_figures_table = TABLE(device_figure_rows);
static const wm_field_table size_table = TABLE(size_rows);
static const wm_field_table device_table = TABLE(device_rows);
static const wm_field_table handle_table = TABLE(handle_rows);
static const wm_field_table ipc_table = TABLE(ipc_rows);
static const wm_field_table total_table = TABLE(total_rows);
static const wm_field_table class_table = TABLE(class_rows);
static const wm_field_table prewarm_table = TABLE(prewarm_rows);

static const wm_field_table histogram_table = TABLE(histogram_rows);

/* ---- showing ------------------------------------------------------------- */

typedef struct reader {
    warm_runtime *runtime;
    wm_view *view;
    warm_stats total; /* of what was read so far */
} reader;

static void open_list(reader *r, const char *name)
{
    if (r->view->open_list != NULL) {
        r->view->open_list(r->view, name);
    }
}

static void close_list(reader *r)
{
    if (r->view->close_list != NULL) {
        r->view->close_list(r->view);
    }
}

static void open(reader *r, const wm_object *object)
{
    if (r->view->open != NULL) {
        r->view->open(r->view, object);
    }
}

static void close(reader *r)
{
    if (r->view->close != NULL) {
        r->view->close(r->view);
    }
}

static void show(reader *r, const wm_object *object,
                 const wm_field_table *table, const void *from)
{
    if (r->view->show != NULL) {
        r->view->show(r->view, object, table, from);
    }
}

static void show_object(reader *r, const wm_object *object,
                        const wm_field_table *table, const void *from)
{
    open(r, object);
    show(r, object, table, from);
    close(r);
}

/* Of a space: an object inside its object, under the same labels. */
static void show_histograms(reader *r, const wm_object *space,
                            const warm_space_histograms *histograms)
{
    wm_object object = *space;

    object.name = "histograms";
    for (int i = 0; i < WM_LABELS; i++) {
        object.label[i].in_json = NULL;
    }
    show_object(r, &object, &histogram_table, histograms);
}

/* ---- handles ------------------------------------------------------------- */

static void add_handles(warm_stats *total, const warm_handle_stats *stats)
{
    total->handles_created += stats->created;
    total->handles_in_use += stats->in_use + stats->leased;
    total->handles_idle += stats->idle;
    total->workspace_bytes += stats->workspace_bytes;
}

static warm_status show_handles(reader *r)
{
    warm_status status = WARM_OK;
    int kinds = wm_kind_table_count(r->runtime->kinds);

    open_list(r, "handles");
    for (int i = 0; i < kinds * r->runtime->devices && status == WARM_OK; i++) {
        warm_handle_stats stats = {.size = sizeof stats};
        int kind = i / r->runtime->devices, device = i % r->runtime->devices;
        const char *name =
            wm_kind_table_kind(r->runtime->kinds, kind)->ops->name;

        status = warm_handle_get_stats(r->runtime, kind, device, &stats);
        if (status == WARM_OK &&
            stats.created + stats.failed + stats.prewarming > 0) {
            add_handles(&r->total, &stats);
            show_object(r,
                        &(wm_object){.prefix = "handles_",
                                     .label = {{"kind", "kind", name, 0},
                                               {"device", "device", NULL,
                                                (uint64_t)device}}},
                        &handle_table, &stats);
        }
    }
    close_list(r);
    return status;
}

/* ---- pinned and shared memory -------------------------------------------- */

static void add_duration(warm_stats *total, const warm_duration *duration)
{
    total->driver_calls += duration->count;
    total->driver_ns += duration->total_ns;
}

/* With pageable and adopted memory, which are in no other figure of the struct.
 */
static void add_space(warm_stats *total, const warm_space_stats *s)
{
    total->requests +=
        s->live.allocated + s->pageable.allocated + s->adopted.allocated;
    total->cache_hits += s->cache_hits;
    total->live += s->live.current + s->pageable.current + s->adopted.current;
    total->requested_bytes += s->requested_bytes.current;
    total->live_bytes += s->live_bytes.current + s->pageable_bytes.current +
                         s->adopted_bytes.current;
    total->pending_bytes += s->pending_bytes.current;
    total->held_bytes += s->held_bytes.current + s->pageable_held.current +
                         s->adopted_held.current;
    total->idle_bytes += s->idle_bytes;
    total->retries += s->retries;
    total->failures += s->failures;
    total->lost_bytes += s->lost_bytes + s->pageable_lost;
    add_duration(total, &s->driver_alloc);
    add_duration(total, &s->driver_free);
}

static warm_status show_nodes(reader *r)
{
    const wm_numa *numa = &r->runtime->driver->numa;
    warm_status status = WARM_OK;

    open_list(r, "nodes");
    for (int i = 0; i < numa->nodes && status == WARM_OK; i++) {
        warm_space_stats stats = {.size = sizeof stats};

        status = warm_pinned_get_node_stats(r->runtime, i, &stats);
        if (status == WARM_OK && wm_numa_usable(numa, i)) {
            show_object(
                r,
                &(wm_object){.prefix = "node_",
                             .label = {{"space", NULL, "pinned", 0},
                                       {"node", "node", NULL, (uint64_t)i}}},
                &node_table, &stats);
        }
    }
    close_list(r);
    return status;
}

static warm_status show_classes(reader *r)
{
    warm_status status = WARM_OK;

    open_list(r, "classes");
    for (int i = 0; i < warm_pinned_class_count() && status == WARM_OK; i++) {
        warm_class_stats stats = {.size = sizeof stats};

        status = warm_pinned_get_class_stats(r->runtime, i, &stats);
        if (status == WARM_OK && stats.live.allocated > 0) {
            show_object(r,
                        &(wm_object){.prefix = "class_",
                                     .label = {{"space", NULL, "pinned", 0},
                                               {"class", "block_bytes", NULL,
                                                stats.block_bytes}}},
                        &class_table, &stats);
        }
    }
    close_list(r);
    return status;
}

static warm_status show_pinned(reader *r)
{
    const wm_object object = {.name = "pinned",
                              .prefix = "",
                              .label = {{"space", "space", "pinned", 0}}};
    const wm_object jobs = {.name = "prewarm",
                            .prefix = "prewarm_",
                            .label = {{"space", NULL, "pinned", 0}}};
    warm_space_stats stats = {.size = sizeof stats};
    warm_space_histograms times = {.size = sizeof times};
    prewarm progress = {0, 0};
    warm_status status = warm_pinned_get_stats(r->runtime, &stats);

    if (status != WARM_OK) {
        return status;
    }
    (void)warm_pinned_get_histograms(r->runtime, &times);
    add_space(&r->total, &stats);
    open(r, &object);
    show(r, &object, &space_table, &stats);
    show_histograms(r, &object, &times);
    status = warm_pinned_prewarm_progress(r->runtime, &progress.done,
                                          &progress.wanted);
    show_object(r, &jobs, &prewarm_table, &progress);
    if (status == WARM_OK && (status = show_nodes(r)) == WARM_OK) {
        status = show_classes(r);
    }
    close(r);
    return status;
}

static warm_status show_usage(reader *r, int device, warm_usage usage)
{
    const wm_object object = {
        .prefix = "",
        .label = {{"space", "usage",
                   usage == WARM_USAGE_PRIVATE ? "private" : "shared", 0},
                  {"device", "device", NULL, (uint64_t)device}}};
    warm_space_stats stats = {.size = sizeof stats};
    warm_space_histograms times = {.size = sizeof times};
    warm_status status =
        warm_shared_get_stats(r->runtime, device, usage, &stats);

    if (status != WARM_OK || stats.segments.allocated == 0) {
        return status;
    }
    (void)warm_shared_get_histograms(r->runtime, device, usage, &times);
    add_space(&r->total, &stats);
    open(r, &object);
    show(r, &object, &space_table, &stats);
    show_histograms(r, &object, &times);
    close(r);
    return WARM_OK;
}

static warm_status show_shared(reader *r)
{
    warm_status status = WARM_OK;

    open_list(r, "shared");
    for (int i = 0; i < r->runtime->devices && status == WARM_OK; i++) {
        if ((status = show_usage(r, i, WARM_USAGE_PRIVATE)) == WARM_OK) {
            status = show_usage(r, i, WARM_USAGE_SHARED);
        }
    }
    close_list(r);
    return status;
}

/* ---- memory of devices --------------------------------------------------- */

static void add_device(warm_stats *total, const warm_device_stats *s,
                       size_t idle)
{
    const warm_device_figures *all = &s->all;

    total->requests += all->live.allocated;
    total->cache_hits += s->cache_hits;
    total->live += all->live.current;
    total->requested_bytes += all->requested_bytes.current;
    total->live_bytes += all->live_bytes.current;
    total->pending_bytes += all->active_bytes.current - all->live_bytes.current;
    total->held_bytes += all->held_bytes.current;
    total->idle_bytes += idle;
    total->retries += s->retries;
    total->failures += s->failures;
    total->lost_bytes += s->lost_bytes;
    add_duration(total, &s->driver_alloc);
    add_duration(total, &s->driver_free);
}

static void show_sort(reader *r, const wm_object *device, const char *sort,
                      const warm_device_figures *figures)
{
    wm_object object = *device;
    bool part = strcmp(sort, "all") != 0;

    object.name = sort;
    object.prefix = part ? "size_" : "";
    object.label[1].in_json = NULL;
    object.label[2] = (wm_label){part ? "size" : NULL, "sort", sort, 0};
    show_object(r, &object, part ? &size_table : &device_figures_table,
                figures);
}

static warm_status show_device(reader *r, int device)
{
    const wm_object object = {
        .prefix = "",
        .label = {{"space", NULL, "device", 0},
                  {"device", "device", NULL, (uint64_t)device}}};
    warm_device_stats stats = {.size = sizeof stats};
    warm_device_cache cache = {.size = sizeof cache};
    warm_space_histograms times = {.size = sizeof times};
    warm_status status = warm_device_get_stats(r->runtime, device, &stats);

    if (status != WARM_OK ||
        (stats.all.segments.allocated == 0 && stats.workspace_bytes == 0)) {
        return status;
    }
    status = warm_device_cache_info(r->runtime, device, &cache);
    (void)warm_device_get_histograms(r->runtime, device, &times);
    add_device(&r->total, &stats, cache.idle_bytes);
    open(r, &object);
    show_sort(r, &object, "all", &stats.all);
    show_sort(r, &object, "small", &stats.small);
    show_sort(r, &object, "large", &stats.large);
    show(r, &object, &device_table, &stats);
    show_histograms(r, &object, &times);
    close(r);
    return status;
}

static warm_status show_devices(reader *r)
{
    warm_status status = WARM_OK;

    open_list(r, "device_memory");
    for (int i = 0; i < r->runtime->devices && status == WARM_OK; i++) {
        status = show_device(r, i);
    }
    close_list(r);
    return status;
}

/* ---- all of it ----------------------------------------------------------- */

static warm_status show_ipc(reader *r)
{
    warm_ipc_stats stats = {.size = sizeof stats};
    warm_status status = warm_ipc_get_stats(r->runtime, &stats);

    if (status == WARM_OK) {
        show_object(r, &(wm_object){.name = "ipc", .prefix = "ipc_"},
                    &ipc_table, &stats);
    }
    return status;
}

static warm_status show_all(reader *r)
{
    static warm_status (*const parts[])(reader *) = {
        show_handles, show_pinned, show_devices, show_shared, show_ipc};
    warm_status status = WARM_OK;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        status = status == WARM_OK ? parts[i](r) : status;
    }
    r->total.needed_bytes = r->total.live_bytes + r->total.pending_bytes;
    if (status == WARM_OK) {
        show_object(r, &(wm_object){.name = "total", .prefix = "total_"},
                    &total_table, &r->total);
    }
    return status;
}

warm_status wm_fields_show(warm_runtime *runtime, wm_view *view)
{
    reader r = {.runtime = runtime, .view = view};
    warm_status status = wm_runtime_check(runtime);

    return status == WARM_OK ? show_all(&r) : status;
}

warm_status warm_stats_get(warm_runtime *runtime, warm_stats *stats)
{
    wm_view nothing = {.show = NULL};
    reader r = {.runtime = runtime,
                .view = &nothing,
                .total = {.size = sizeof r.total}};
    warm_status status = wm_check_out(wm_runtime_check(runtime), stats,
                                      sizeof r.total, "warm_stats");

    if (status == WARM_OK && (status = show_all(&r)) == WARM_OK) {
        wm_sized_out(stats, &r.total, sizeof r.total);
    }
    return status;
}
