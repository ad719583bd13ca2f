/* stats_table.c: all statistics as a table for people (warmpool/stats.h).
 *
 *   pinned                     current       peak  allocated      freed
 *     live                           3         14        100         97
 *     held_bytes               8.0 MiB    8.0 MiB   16.0 MiB    8.0 MiB
 *                                calls     in all       mean    longest
 *     driver_alloc                   2     1.2 ms     0.6 ms     0.9 ms */
#include "runtime/base/bytes.h"
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 24, WIDTH = 12, CELL = 32 };

typedef struct table {
    wm_view view; /* first: leads to the rest */
    wm_text *text;
    bool one_node;   /* its figures are those of all pinned memory */
    bool skips;      /* in a list that is left out */
    char title[256]; /* of the last rows */
} table;

static table *table_of(wm_view *view)
{
    return (table *)(void *)view;
}

/* ---- cells --------------------------------------------------------------- */

static void print_time(uint64_t ns, char cell[CELL])
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    size_t i = 0;

    while (i < 3 && (double)ns < units[i].ns) {
        i++;
    }
    snprintf(cell, CELL, "%.*f %s", i < 3, (double)ns / units[i].ns,
             units[i].name);
}

static void print_value(const char *unit, uint64_t value, char cell[CELL])
{
    if (strcmp(unit, "bytes") == 0) {
        snprintf(cell, CELL, "%s", wm_bytes(value).text);
    } else if (strcmp(unit, "ns") == 0) {
        print_time(value, cell);
    } else {
        snprintf(cell, CELL, "%" PRIu64, value);
    }
}

static void put_name(table *t, const char *name)
{
    wm_text_put(t->text, "  %-*s", NAME_WIDTH, name);
}

static void put_cell(table *t, const char *unit, uint64_t value)
{
    char cell[CELL];

    print_value(unit, value, cell);
    wm_text_put(t->text, " %*s", WIDTH, cell);
}

static void put_heads(table *t, const char *const heads[4])
{
    for (int i = 0; i < 4; i++) {
        wm_text_put(t->text, " %*s", WIDTH, heads[i]);
    }
    wm_text_put(t->text, "\n");
}

/* ---- rows; a row of zeros is left out ------------------------------------ */

static bool is_stat_used(const warm_stat *stat)
{
    return stat->peak != 0 || stat->allocated != 0;
}

static void put_stats(table *t, const wm_field_table *fields, const void *from)
{
    for (size_t i = 0; i < fields->count; i++) {
        const wm_field *field = &fields->field[i];

        if ((field->type == WM_FIELD_STAT || field->type == WM_FIELD_PEAK) &&
            is_stat_used(wm_field_stat(field, from))) {
            const warm_stat *stat = wm_field_stat(field, from);

            put_name(t, field->name);
            put_cell(t, field->unit, stat->current);
            if (field->type == WM_FIELD_PEAK) {
                put_cell(t, field->unit, stat->peak);
            } else {
                wm_text_put(t->text, " %*s", WIDTH, "");
            }
            put_cell(t, field->unit, stat->allocated);
            put_cell(t, field->unit, stat->freed);
            wm_text_put(t->text, "\n");
        }
    }
}

static void put_counts(table *t, const wm_field_table *fields, const void *from)
{
    for (size_t i = 0; i < fields->count; i++) {
        const wm_field *field = &fields->field[i];

        if (field->type == WM_FIELD_COUNT && wm_field_count(field, from) > 0) {
            put_name(t, field->name);
            put_cell(t, field->unit, wm_field_count(field, from));
            wm_text_put(t->text, "\n");
        }
    }
}

/* A row of calls or times; heads: once, before the first. */
static void put_times(table *t, const char *const **heads, const char *name,
                      const uint64_t figures[4])
{
    if (*heads != NULL) {
        put_name(t, "");
        put_heads(t, *heads);
        *heads = NULL;
    }
    put_name(t, name);
    put_cell(t, "calls", figures[0]);
    for (int i = 1; i < 4; i++) {
        put_cell(t, "ns", figures[i]);
    }
    wm_text_put(t->text, "\n");
}

static void put_durations(table *t, const wm_field_table *fields,
                          const void *from)
{
    static const char *const names[4] = {"calls", "in all", "mean", "longest"};
    const char *const *heads = names;

    for (size_t i = 0; i < fields->count; i++) {
        const wm_field *field = &fields->field[i];
        const warm_duration *d = wm_field_duration(field, from);

        if (field->type == WM_FIELD_DURATION && d->count > 0) {
            put_times(t, &heads, field->name,
                      (uint64_t[]){d->count, d->total_ns,
                                   d->total_ns / d->count, d->max_ns});
        }
    }
}

/* The time that 90 % of the entries do not exceed, as far as buckets tell. */
static uint64_t most_within(const warm_histogram *histogram)
{
    uint64_t count = 0;
    unsigned i = 0;

    while (i + 1 < WARM_HISTOGRAM_BUCKETS &&
           (count += histogram->bucket[i]) * 10 < histogram->count * 9) {
        i++;
    }
    return wm_bucket_ns(i);
}

static void put_histograms(table *t, const wm_field_table *fields,
                           const void *from)
{
    static const char *const names[4] = {"times", "in all", "mean",
                                         "90 % within"};
    const char *const *heads = names;

    for (size_t i = 0; i < fields->count; i++) {
        const wm_field *field = &fields->field[i];
        const warm_histogram *h = wm_field_histogram(field, from);

        if (field->type == WM_FIELD_HISTOGRAM && h->count > 0) {
            put_times(t, &heads, field->name,
                      (uint64_t[]){h->count, h->total_ns,
                                   h->total_ns / h->count, most_within(h)});
        }
    }
}

/* Which rows an object has. */
struct rows {
    bool stats, others;
};

static struct rows rows_of(const wm_field_table *fields, const void *from)
{
    struct rows rows = {false, false};

    for (size_t i = 0; i < fields->count; i++) {
        const wm_field *field = &fields->field[i];

        switch (field->type) {
        case WM_FIELD_PEAK:
        case WM_FIELD_STAT:
            rows.stats |= is_stat_used(wm_field_stat(field, from));
            break;
        case WM_FIELD_DURATION:
            rows.others |= wm_field_duration(field, from)->count > 0;
            break;
        case WM_FIELD_HISTOGRAM:
            rows.others |= wm_field_histogram(field, from)->count > 0;
            break;
        case WM_FIELD_COUNT:
            rows.others |= wm_field_count(field, from) > 0;
            break;
        }
    }
    return rows;
}

/* ---- objects ------------------------------------------------------------- */

/* "pinned", "pinned, node 0", "device 0", "handles of cublas, device 0". */
static void print_title(const wm_object *object, char *title, size_t bytes)
{
    wm_text text = {title, bytes, 0};
    const char *separator = "";

    if (object->name != NULL && !wm_label_is_used(&object->label[0])) {
        wm_text_put(&text, "%s", object->name);
    }
    for (int i = 0; i < WM_LABELS; i++) {
        const wm_label *label = &object->label[i];
        bool is_space =
            label->name != NULL && strcmp(label->name, "space") == 0;

        /* "device 0" says that it is the memory of a device. */
        if (label->name == NULL ||
            (is_space && strcmp(label->text, "device") == 0)) {
            continue;
        }
        wm_text_put(&text, "%s%s", separator,
                    is_space                           ? ""
                    : label->text == NULL              ? label->name
                    : strcmp(label->name, "kind") == 0 ? "handles of "
                                                       : "");
        if (label->text != NULL) {
            wm_text_put(&text, "%s", label->text);
        } else {
            wm_text_put(&text, " %" PRIu64, label->number);
        }
        separator = ", ";
    }
    wm_shown(title, bytes);
}

/* The title, unless the rows before were of the same object. */
static void put_title(table *t, const wm_object *object, bool with_heads)
{
    static const char *const heads[4] = {"current", "peak", "allocated",
                                         "freed"};
    char title[sizeof t->title];

    print_title(object, title, sizeof title);
    if (strcmp(title, t->title) == 0) {
        return;
    }
    memcpy(t->title, title, sizeof title);
    if (with_heads) {
        wm_text_put(t->text, "\n%-*s", NAME_WIDTH + 2, title);
        put_heads(t, heads);
    } else {
        wm_text_put(t->text, "\n%s\n", title);
    }
}

static void open_list(wm_view *view, const char *name)
{
    table *t = table_of(view);

    t->skips = strcmp(name, "classes") == 0 ||
               (strcmp(name, "nodes") == 0 && t->one_node);
}

static void close_list(wm_view *view)
{
    table_of(view)->skips = false;
}

static void show(wm_view *view, const wm_object *object,
                 const wm_field_table *fields, const void *from)
{
    table *t = table_of(view);
    struct rows rows = rows_of(fields, from);

    if (!t->skips && (rows.stats || rows.others)) {
        put_title(t, object, rows.stats);
        put_stats(t, fields, from);
        put_counts(t, fields, from);
        put_durations(t, fields, from);
        put_histograms(t, fields, from);
    }
}

static warm_status write_table(warm_runtime *runtime, const void *what,
                               wm_text *text)
{
    table t = {.view = {.open_list = open_list,
                        .close_list = close_list,
                        .show = show},
               .text = text,
               .one_node = runtime->driver->numa.nodes == 1};

    (void)what;
    wm_text_put(text, "warmpool %s, driver %s, devices: %d\n", warm_version(),
                runtime->driver->name, runtime->devices);
    return wm_fields_show(runtime, &t.view);
}

warm_status warm_stats_table(warm_runtime *runtime, char *text, size_t bytes,
                             size_t *needed)
{
    return wm_text_call(runtime, write_table, NULL, text, bytes, needed);
}
