/* stats_json.c: all statistics as one JSON object (warmpool/stats.h). */
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"

#include <inttypes.h>

typedef struct json {
    wm_view view; /* first: leads to the rest */
    wm_text *text;
    const char *separator; /* before the next member or element */
} json;

static json *json_of(wm_view *view)
{
    return (json *)(void *)view;
}

/* Begins a member, or, without a name, an element of a list. */
static void begin(json *j, const char *name, const char *bracket)
{
    wm_text_put(j->text, "%s", j->separator);
    if (name != NULL) {
        wm_text_put(j->text, "\"%s\":", name);
    }
    wm_text_put(j->text, "%s", bracket);
    j->separator = *bracket != '\0' ? "" : ",";
}

static void end(json *j, const char *bracket)
{
    wm_text_put(j->text, "%s", bracket);
    j->separator = ",";
}

static void open_list(wm_view *view, const char *name)
{
    begin(json_of(view), name, "[");
}

static void close_list(wm_view *view)
{
    end(json_of(view), "]");
}

static void put_label(json *j, const wm_label *label)
{
    begin(j, label->in_json, "");
    if (label->text != NULL) {
        wm_text_put_string(j->text, label->text);
    } else {
        wm_text_put(j->text, "%" PRIu64, label->number);
    }
}

static void open(wm_view *view, const wm_object *object)
{
    json *j = json_of(view);

    begin(j, object->name, "{");
    for (int i = 0; i < WM_LABELS; i++) {
        if (object->label[i].in_json != NULL) {
            put_label(j, &object->label[i]);
        }
    }
}

static void close(wm_view *view)
{
    end(json_of(view), "}");
}

static void put_stat(wm_text *text, const warm_stat *stat, bool peak)
{
    wm_text_put(text, "{\"current\":%" PRIu64, stat->current);
    if (peak) {
        wm_text_put(text, ",\"peak\":%" PRIu64, stat->peak);
    }
    wm_text_put(text, ",\"allocated\":%" PRIu64 ",\"freed\":%" PRIu64 "}",
                stat->allocated, stat->freed);
}

static void put_duration(wm_text *text, const warm_duration *duration)
{
    wm_text_put(text,
                "{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64
                ",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64 "}",
                duration->count, duration->total_ns, duration->min_ns,
                duration->max_ns);
}

static void put_histogram(wm_text *text, const warm_histogram *histogram)
{
    wm_text_put(text,
                "{\"count\":%" PRIu64 ",\"total_ns\":%" PRIu64 ",\"buckets\":[",
                histogram->count, histogram->total_ns);
    for (int i = 0; i < WARM_HISTOGRAM_BUCKETS; i++) {
        wm_text_put(text, "%s%" PRIu64, i > 0 ? "," : "", histogram->bucket[i]);
    }
    wm_text_put(text, "]}");
}

static void show(wm_view *view, const wm_object *object,
                 const wm_field_table *table, const void *from)
{
    json *j = json_of(view);

    (void)object;
    for (size_t i = 0; i < table->count; i++) {
        const wm_field *field = &table->field[i];

        begin(j, field->name, "");
        switch (field->type) {
        case WM_FIELD_PEAK:
        case WM_FIELD_STAT:
            put_stat(j->text, wm_field_stat(field, from),
                     field->type == WM_FIELD_PEAK);
            break;
        case WM_FIELD_DURATION:
            put_duration(j->text, wm_field_duration(field, from));
            break;
        case WM_FIELD_HISTOGRAM:
            put_histogram(j->text, wm_field_histogram(field, from));
            break;
        case WM_FIELD_COUNT:
            wm_text_put(j->text, "%" PRIu64, wm_field_count(field, from));
            break;
        }
    }
}

warm_status wm_stats_put_json(warm_runtime *runtime, const void *what,
                              wm_text *text)
{
    json j = {.view = {open_list, close_list, open, close, show},
              .text = text,
              .separator = ","};
    warm_status status;

    (void)what;
    wm_text_put(text, "{\"version\":\"%s\",\"driver\":\"%s\",\"devices\":%d",
                warm_version(), runtime->driver->name, runtime->devices);
    status = wm_fields_show(runtime, &j.view);
    wm_text_put(text, "}");
    return status;
}

warm_status warm_stats_json(warm_runtime *runtime, char *text, size_t bytes,
                            size_t *needed)
{
    return wm_text_call(runtime, wm_stats_put_json, NULL, text, bytes, needed);
}
