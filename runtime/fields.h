/* fields.h: one description of all statistics, from which every view of them
 * is written (row G7).
 *
 *   X-macros ─► wm_field tables ─┐
 *                                 ├─► wm_fields_show() ─► a view: JSON,
 *   structs of the getters ───────┘                        Prometheus
 *
 * The figures of one thing (a space, a node, a kind on a device, …) are an
 * object: its labels say which thing it is. Objects lie in lists or in other
 * objects, as in the JSON. Takes no lock and allocates nothing. */
#ifndef WM_FIELDS_H
#define WM_FIELDS_H

#include "runtime/thread/text_call.h"
#include "warmpool/stats.h"

#include <stdbool.h>

enum wm_field_type {
    WM_FIELD_PEAK, /* a warm_stat */
    WM_FIELD_STAT, /* a warm_stat without its peak */
    WM_FIELD_DURATION,
    WM_FIELD_COUNT,
    WM_FIELD_HISTOGRAM
};

/* One field of a struct; name, unit and meaning stand in the X-macro. */
typedef struct wm_field {
    const char *name, *unit, *meaning;
    enum wm_field_type type;
    size_t offset;
} wm_field;

typedef struct wm_field_table {
    const wm_field *field;
    size_t count;
} wm_field_table;

/* A label of an object, "device" 0 or "kind" "cublas". */
typedef struct wm_label {
    const char *name;    /* in Prometheus; null: not there */
    const char *in_json; /* its name there; null: not there */
    const char *text;    /* null: number */
    uint64_t number;
} wm_label;

enum { WM_LABELS = 3 };

typedef struct wm_object {
    const char *name;   /* in the object around it; null: it is in a list */
    const char *prefix; /* of its figures in Prometheus: "handles_" */
    wm_label label[WM_LABELS]; /* the used ones first */
} wm_object;

/* What the reader of all figures calls, in the order of the JSON. Each function
 * may be null. */
typedef struct wm_view {
    void (*open_list)(struct wm_view *view, const char *name);
    void (*close_list)(struct wm_view *view);
    void (*open)(struct wm_view *view, const wm_object *object);
    void (*close)(struct wm_view *view);
    /* Figures of the object, which is open. from: the struct. */
    void (*show)(struct wm_view *view, const wm_object *object,
                 const wm_field_table *table, const void *from);
} wm_view;

static inline const warm_stat *wm_field_stat(const wm_field *field,
                                             const void *from)
{
    return (const warm_stat *)(const void *)((const char *)from +
                                             field->offset);
}

static inline const warm_duration *wm_field_duration(const wm_field *field,
                                                     const void *from)
{
    return (const warm_duration *)(const void *)((const char *)from +
                                                 field->offset);
}

static inline const warm_histogram *wm_field_histogram(const wm_field *field,
                                                       const void *from)
{
    return (const warm_histogram *)(const void *)((const char *)from +
                                                  field->offset);
}

/* The highest time of a bucket of a histogram that is not the last. */
static inline uint64_t wm_bucket_ns(unsigned bucket)
{
    return UINT64_C(1024) << bucket;
}

static inline uint64_t wm_field_count(const wm_field *field, const void *from)
{
    return *(const uint64_t *)(const void *)((const char *)from +
                                             field->offset);
}

/* Reads all statistics of the runtime and shows them. Status: of the getters;
 * the view may have seen a part then. */
warm_status wm_fields_show(warm_runtime *runtime, wm_view *view);

/* Appends all statistics as a JSON object. what: null. */
wm_text_writer wm_stats_put_json;

#endif
