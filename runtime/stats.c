/* stats.c: all statistics of a runtime as one JSON object (warmpool/stats.h).
 *
 * Written from the same X-macros as the structs. Kinds and size classes that
 * were never used are left out. Takes no lock of its own. */
#include "warmpool/stats.h"

#include "handles/pools.h"
#include "runtime/base/status.h"
#include "runtime/thread/control.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Text that is counted on past the end of its buffer. */
struct text {
    char *at;
    size_t bytes, used;
};

static void put(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
    size_t left = text->used < text->bytes ? text->bytes - text->used : 0;
    va_list list;
    int length;

    va_start(list, format);
    length =
        vsnprintf(left > 0 ? text->at + text->used : NULL, left, format, list);
    va_end(list);
    text->used += (size_t)length;
}

/* Bytes of the UTF-8 sequence at c that is longer than one byte, or 0. The
 * second byte decides what is too long, a surrogate or beyond Unicode. */
static int sequence(const unsigned char *c)
{
    static const struct {
        unsigned char first, last, from, to;
        int bytes;
    } rows[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
                {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    size_t i = 0;

    while (i < sizeof rows / sizeof rows[0] && c[0] > rows[i].last) {
        i++;
    }
    if (i == sizeof rows / sizeof rows[0] || c[0] < rows[i].first ||
        c[1] < rows[i].from || c[1] > rows[i].to) {
        return 0;
    }
    for (int k = 2; k < rows[i].bytes; k++) {
        if (c[k] < 0x80 || c[k] > 0xbf) {
            return 0;
        }
    }
    return rows[i].bytes;
}

/* A JSON string: kinds of the user may have any name. What is not UTF-8 in it
 * becomes the replacement character. */
static void put_string(struct text *text, const char *string)
{
    const unsigned char *c = (const unsigned char *)string;

    put(text, "\"");
    while (*c != '\0') {
        int bytes = *c < 0x80 ? 1 : sequence(c);

        if (bytes == 0) {
            put(text, "\\ufffd");
            bytes = 1;
        } else if (*c == '"' || *c == '\\') {
            put(text, "\\%c", *c);
        } else if (*c < 0x20) {
            put(text, "\\u%04x", *c);
        } else {
            put(text, "%.*s", bytes, (const char *)c);
        }
        c += bytes;
    }
    put(text, "\"");
}

static void put_count(struct text *text, const char *name, uint64_t value)
{
    put(text, ",\"%s\":%" PRIu64, name, value);
}

static void put_stat(struct text *text, const char *name, const warm_stat *stat)
{
    put(text,
        ",\"%s\":{\"current\":%" PRIu64 ",\"peak\":%" PRIu64
        ",\"allocated\":%" PRIu64 ",\"freed\":%" PRIu64 "}",
        name, stat->current, stat->peak, stat->allocated, stat->freed);
}

static void put_duration(struct text *text, const char *name,
                         const warm_duration *duration)
{
    put(text,
        ",\"%s\":{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64
        ",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64 "}",
        name, duration->count, duration->total_ns, duration->min_ns,
        duration->max_ns);
}

static void put_pool(struct text *text, const char *kind, int device,
                     const warm_handle_stats *stats)
{
    put(text, "{\"kind\":");
    put_string(text, kind);
    put(text, ",\"device\":%d", device);
#define PUT(name, unit, meaning) put_count(text, #name, stats->name);
    WARM_HANDLE_STATS_MAP(PUT)
#undef PUT
    put(text, "}");
}

static warm_status put_handles(struct text *text, warm_runtime *runtime)
{
    const char *separator = "";
    warm_status status = WARM_OK;

    put(text, ",\"handles\":[");
    for (int kind = 0; kind < wm_pools_kinds(runtime->pools); kind++) {
        for (int i = 0; i < runtime->devices && status == WARM_OK; i++) {
            warm_handle_stats stats = {.size = sizeof stats};

            status = warm_handle_get_stats(runtime, kind, i, &stats);
            if (status == WARM_OK && stats.created + stats.failed > 0) {
                put(text, "%s", separator);
                put_pool(text, wm_pools_kind(runtime->pools, kind)->ops->name,
                         i, &stats);
                separator = ",";
            }
        }
    }
    put(text, "]");
    return status;
}

static warm_status put_classes(struct text *text, warm_runtime *runtime)
{
    const char *separator = "";
    warm_status status = WARM_OK;

    put(text, ",\"classes\":[");
    for (int i = 0; i < warm_pinned_class_count() && status == WARM_OK; i++) {
        warm_class_stats stats = {.size = sizeof stats};

        status = warm_pinned_get_class_stats(runtime, i, &stats);
        if (status == WARM_OK && stats.requests.peak > 0) {
            put(text, "%s{\"block_bytes\":%zu", separator, stats.block_bytes);
            put_stat(text, "requests", &stats.requests);
            put_stat(text, "requested_bytes", &stats.requested_bytes);
            put_stat(text, "handed_bytes", &stats.handed_bytes);
            put(text, "}");
            separator = ",";
        }
    }
    put(text, "]");
    return status;
}

static warm_status put_pinned(struct text *text, warm_runtime *runtime)
{
    warm_space_stats stats = {.size = sizeof stats};
    warm_status status = warm_pinned_get_stats(runtime, &stats);

    if (status != WARM_OK) {
        return status;
    }
    put(text, ",\"pinned\":{\"space\":\"pinned\"");
#define STAT(name, unit, meaning)     put_stat(text, #name, &stats.name);
#define DURATION(name, unit, meaning) put_duration(text, #name, &stats.name);
#define COUNT(name, unit, meaning)    put_count(text, #name, stats.name);
    WARM_SPACE_STAT_MAP(STAT)
    WARM_SPACE_DURATION_MAP(DURATION)
    WARM_SPACE_COUNT_MAP(COUNT)
#undef STAT
#undef DURATION
#undef COUNT
    status = put_classes(text, runtime);
    put(text, "}");
    return status;
}

static warm_status put_all(struct text *text, warm_runtime *runtime)
{
    warm_status status;

    put(text, "{\"version\":\"%s\",\"driver\":\"%s\",\"devices\":%d",
        warm_version(), runtime->driver->name, runtime->devices);
    status = put_handles(text, runtime);
    if (status == WARM_OK) {
        status = put_pinned(text, runtime);
    }
    put(text, "}");
    return status;
}

warm_status warm_stats_json(warm_runtime *runtime, char *text, size_t bytes,
                            size_t *needed)
{
    struct text out = {text, text != NULL ? bytes : 0, 0};
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
