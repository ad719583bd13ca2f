/* stats.c: all statistics of a runtime as one JSON object (warmpool/stats.h).
 *
 * Written from the same X-macros as the structs. Kinds and size classes that
 * were never used are left out. Takes no lock of its own. */
#include "warmpool/stats.h"

#include "handles/kind_table.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/thread/runtime_body.h"
#include "warmpool/device_memory.h"
#include "warmpool/ipc.h"

#include <inttypes.h>

static void put_count(wm_text *text, const char *name, uint64_t value)
{
    wm_text_put(text, ",\"%s\":%" PRIu64, name, value);
}

static void put_stat(wm_text *text, const char *name, const warm_stat *stat)
{
    wm_text_put(text,
                ",\"%s\":{\"current\":%" PRIu64 ",\"peak\":%" PRIu64
                ",\"allocated\":%" PRIu64 ",\"freed\":%" PRIu64 "}",
                name, stat->current, stat->peak, stat->allocated, stat->freed);
}

static void put_duration(wm_text *text, const char *name,
                         const warm_duration *duration)
{
    wm_text_put(text,
                ",\"%s\":{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64
                ",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64 "}",
                name, duration->count, duration->total_ns, duration->min_ns,
                duration->max_ns);
}

static void put_pool(wm_text *text, const char *kind, int device,
                     const warm_handle_stats *stats)
{
    wm_text_put(text, "{\"kind\":");
    wm_text_put_string(text, kind);
    wm_text_put(text, ",\"device\":%d", device);
#define PUT(name, unit, meaning) put_count(text, #name, stats->name);
    WARM_HANDLE_STATS_MAP(PUT)
#undef PUT
    wm_text_put(text, "}");
}

static warm_status put_handles(wm_text *text, warm_runtime *runtime)
{
    const char *separator = "";
    warm_status status = WARM_OK;

    wm_text_put(text, ",\"handles\":[");
    for (int kind = 0; kind < wm_kind_table_count(runtime->kinds); kind++) {
        for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
            warm_handle_stats stats = {.size = sizeof stats};

            status = warm_handle_get_stats(runtime, kind, i, &stats);
            if (status == WARM_OK &&
                stats.created + stats.failed + stats.prewarming > 0) {
                wm_text_put(text, "%s", separator);
                put_pool(text,
                         wm_kind_table_kind(runtime->kinds, kind)->ops->name, i,
                         &stats);
                separator = ",";
            }
        }
    }
    wm_text_put(text, "]");
    return status;
}

static warm_status put_classes(wm_text *text, warm_runtime *runtime)
{
    const char *separator = "";
    warm_status status = WARM_OK;

    wm_text_put(text, ",\"classes\":[");
    for (int i = 0; i < warm_pinned_class_count() && status == WARM_OK; i++) {
        warm_class_stats stats = {.size = sizeof stats};

        status = warm_pinned_get_class_stats(runtime, i, &stats);
        if (status == WARM_OK && stats.live.peak > 0) {
            wm_text_put(text, "%s{\"block_bytes\":%zu", separator,
                        stats.block_bytes);
            put_stat(text, "live", &stats.live);
            put_stat(text, "requested_bytes", &stats.requested_bytes);
            put_stat(text, "live_bytes", &stats.live_bytes);
            wm_text_put(text, "}");
            separator = ",";
        }
    }
    wm_text_put(text, "]");
    return status;
}

static void put_space(wm_text *text, const warm_space_stats *stats)
{
#define STAT(name, unit, meaning)     put_stat(text, #name, &stats->name);
#define DURATION(name, unit, meaning) put_duration(text, #name, &stats->name);
#define COUNT(name, unit, meaning)    put_count(text, #name, stats->name);
    WARM_SPACE_STAT_MAP(STAT)
    WARM_SPACE_DURATION_MAP(DURATION)
    WARM_SPACE_COUNT_MAP(COUNT)
#undef STAT
#undef DURATION
#undef COUNT
}

static warm_status put_nodes(wm_text *text, warm_runtime *runtime)
{
    const wm_numa *numa = &runtime->driver->numa;
    const char *separator = "";
    warm_status status = WARM_OK;

    wm_text_put(text, ",\"nodes\":[");
    for (int i = 0; i < numa->nodes && status == WARM_OK; i++) {
        warm_space_stats stats = {.size = sizeof stats};

        status = warm_pinned_get_node_stats(runtime, i, &stats);
        if (status == WARM_OK && wm_numa_usable(numa, i)) {
            wm_text_put(text, "%s{\"node\":%d", separator, i);
            put_space(text, &stats);
            wm_text_put(text, "}");
            separator = ",";
        }
    }
    wm_text_put(text, "]");
    return status;
}

static warm_status put_pinned(wm_text *text, warm_runtime *runtime)
{
    warm_space_stats stats = {.size = sizeof stats};
    uint64_t done = 0, wanted = 0;
    warm_status status = warm_pinned_get_stats(runtime, &stats);

    if (status != WARM_OK) {
        return status;
    }
    wm_text_put(text, ",\"pinned\":{\"space\":\"pinned\"");
    put_space(text, &stats);
    status = warm_pinned_prewarm_progress(runtime, &done, &wanted);
    wm_text_put(text,
                ",\"prewarm\":{\"done\":%" PRIu64 ",\"wanted\":%" PRIu64 "}",
                done, wanted);
    if (status == WARM_OK) {
        status = put_nodes(text, runtime);
    }
    if (status == WARM_OK) {
        status = put_classes(text, runtime);
    }
    wm_text_put(text, "}");
    return status;
}

static void put_figures(wm_text *text, const char *name,
                        const warm_device_figures *figures)
{
    wm_text_put(text, ",\"%s\":{\"sort\":\"%s\"", name, name);
#define PUT(field, unit, meaning) put_stat(text, #field, &figures->field);
    WARM_DEVICE_STAT_MAP(PUT)
#undef PUT
#define PUT(field, unit, meaning) put_count(text, #field, figures->field);
    WARM_DEVICE_COUNT_MAP(PUT)
#undef PUT
    wm_text_put(text, "}");
}

/* Writes the memory of each device of which the program has used any. */
static warm_status put_device_memory(wm_text *text, warm_runtime *runtime)
{
    const char *separator = "";

    wm_text_put(text, ",\"device_memory\":[");
    for (int i = 0; i < runtime->devices; i++) {
        warm_device_stats stats = {.size = sizeof stats};
        warm_status status = warm_device_get_stats(runtime, i, &stats);

        if (status != WARM_OK) {
            return status;
        }
        if (stats.all.segments.allocated == 0 && stats.workspace_bytes == 0) {
            continue;
        }
        wm_text_put(text, "%s{\"device\":%d", separator, i);
        put_figures(text, "all", &stats.all);
        put_figures(text, "small", &stats.small);
        put_figures(text, "large", &stats.large);
        put_count(text, "retries", stats.retries);
        put_count(text, "failures", stats.failures);
        put_count(text, "captured", stats.captured);
        put_count(text, "captured_bytes", stats.captured_bytes);
        put_count(text, "lost", stats.lost);
        put_count(text, "lost_bytes", stats.lost_bytes);
        put_count(text, "cache_hits", stats.cache_hits);
        put_duration(text, "driver_alloc", &stats.driver_alloc);
        put_duration(text, "driver_free", &stats.driver_free);
        put_count(text, "reset_bytes", stats.reset_bytes);
        put_count(text, "workspace_bytes", stats.workspace_bytes);
        put_count(text, "above_bound", stats.above_bound);
        wm_text_put(text, "}");
        separator = ",";
    }
    wm_text_put(text, "]");
    return WARM_OK;
}

static warm_status put_ipc(wm_text *text, warm_runtime *runtime)
{
    warm_ipc_stats stats = {.size = sizeof stats};
    warm_status status = warm_ipc_get_stats(runtime, &stats);
    const char *separator = ",\"ipc\":{";

    if (status != WARM_OK) {
        return status;
    }
#define PUT(name, unit, meaning)                                               \
    wm_text_put(text, "%s\"%s\":%" PRIu64, separator, #name, stats.name);      \
    separator = ",";
    WARM_IPC_COUNT_MAP(PUT)
#undef PUT
    wm_text_put(text, "}");
    return status;
}

static warm_status put_all(wm_text *text, warm_runtime *runtime)
{
    warm_status status;

    wm_text_put(text, "{\"version\":\"%s\",\"driver\":\"%s\",\"devices\":%d",
                warm_version(), runtime->driver->name, runtime->devices);
    status = put_handles(text, runtime);
    if (status == WARM_OK) {
        status = put_pinned(text, runtime);
    }
    if (status == WARM_OK) {
        status = put_device_memory(text, runtime);
    }
    if (status == WARM_OK) {
        status = put_ipc(text, runtime);
    }
    wm_text_put(text, "}");
    return status;
}

warm_status warm_stats_json(warm_runtime *runtime, char *text, size_t bytes,
                            size_t *needed)
{
    wm_text out = {text, text != NULL ? bytes : 0, 0};
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && text == NULL && bytes > 0) {
        status = wm_fail(WARM_INVALID_ARGUMENT, "text is null");
    }
    if (status == WARM_OK) {
        status = put_all(&out, runtime);
    }
    if (status == WARM_OK && needed != NULL) {
        *needed = out.used + 1;
    }
    return status;
}
