/* stats_prometheus.c: all statistics as Prometheus scrapes them
 * (warmpool/stats.h).
 *
 * Prometheus wants all samples of a family in one piece, and the figures come
 * object by object: they are copied first, then written family by family. A
 * family is a field of a table under a prefix; tables that share a prefix and
 * have a field of the same name share the family. */
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/fields.h"
#include "runtime/thread/runtime_body.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The figures of one object. */
typedef struct copy {
    struct copy *next;
    wm_object object;
    const wm_field_table *table;
    char from[]; /* the struct, as far as the table's last field */
} copy;

typedef struct copies {
    wm_view view; /* first: leads to the rest */
    copy *first, *last;
    bool failed;
} copies;

/* ---- copying ------------------------------------------------------------- */

static size_t bytes_of(const wm_field_table *table)
{
    static const size_t bytes[] = {[WM_FIELD_PEAK] = sizeof(warm_stat),
                                   [WM_FIELD_STAT] = sizeof(warm_stat),
                                   [WM_FIELD_DURATION] = sizeof(warm_duration),
                                   [WM_FIELD_COUNT] = sizeof(uint64_t),
                                   [WM_FIELD_HISTOGRAM] =
                                       sizeof(warm_histogram)};
    size_t most = 0;

    for (size_t i = 0; i < table->count; i++) {
        size_t end = table->field[i].offset + bytes[table->field[i].type];

        most = end > most ? end : most;
    }
    return most;
}

static void keep(wm_view *view, const wm_object *object,
                 const wm_field_table *table, const void *from)
{
    copies *all = (copies *)(void *)view;
    size_t bytes = bytes_of(table);
    copy *made = wm_meta_alloc(sizeof *made + bytes);

    if (made == NULL) {
        all->failed = true;
        return;
    }
    made->next = NULL;
    made->object = *object;
    made->table = table;
    memcpy(made->from, from, bytes);
    *(all->last != NULL ? &all->last->next : &all->first) = made;
    all->last = made;
}

static void free_copies(copies *all)
{
    while (all->first != NULL) {
        copy *next = all->first->next;

        wm_meta_free(all->first);
        all->first = next;
    }
}

/* ---- names --------------------------------------------------------------- */

/* Counts that only a reset lowers. */
static bool is_counter(const char *name)
{
    static const char *const counters[] = {
        "cache_hits",      "retries",  "failures",     "spilled",
        "double_frees",    "requests", "above_bound",  "created",
        "handles_created", "failed",   "driver_calls", "driver_ns",
        "destroyed",       "leaked",   "binds",        "create_ns",
        "device_bytes",    "measured", "overruns",     "late_writes"};

    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (strcmp(name, counters[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A family of a field: all families of a stat come from one field. */
struct part {
    enum wm_field_type of;
    const char *infix;   /* in the family's name, before the unit */
    const char *type;    /* null: a counter or a gauge, by the field's name */
    const char *meaning; /* before the field's */
    size_t offset; /* of the value in the field; a summary's: of its sum */
};

static const struct part parts[] = {
    {WM_FIELD_STAT, "", "gauge", "", offsetof(warm_stat, current)},
    {WM_FIELD_PEAK, "_peak", "gauge", "highest: ", offsetof(warm_stat, peak)},
    {WM_FIELD_STAT, "_allocated", "counter",
     "begun so far: ", offsetof(warm_stat, allocated)},
    {WM_FIELD_STAT, "_freed", "counter",
     "ended so far: ", offsetof(warm_stat, freed)},
    {WM_FIELD_DURATION, "", "summary", "", offsetof(warm_duration, total_ns)},
    {WM_FIELD_DURATION, "_longest", "gauge",
     "longest: ", offsetof(warm_duration, max_ns)},
    {WM_FIELD_COUNT, "", NULL, "", 0},
    {WM_FIELD_HISTOGRAM, "", "histogram", "", 0}};

static bool has_part(const wm_field *field, const struct part *part)
{
    return part->of == field->type ||
           (field->type == WM_FIELD_PEAK && part->of == WM_FIELD_STAT);
}

typedef struct family {
    const copy *first; /* the first object with the field */
    const wm_field *field;
    const struct part *part;
    const char *type;
    char name[128];
} family;

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), most = strlen(end);

    return length >= most && strcmp(text + length - most, end) == 0;
}

/* warmpool_, prefix, the field's name without its unit, infix, unit, _total. */
static void name_family(family *f)
{
    const char *unit = f->field->unit, *base = f->field->name;
    size_t length = strlen(base);
    char suffix[32];

    snprintf(suffix, sizeof suffix, "_%s", unit);
    if (ends_with(base, suffix)) {
        length -= strlen(suffix);
    } else if (strcmp(base, unit) == 0 || strcmp(unit, "calls") == 0 ||
               strcmp(unit, "handles") == 0) {
        suffix[0] = '\0';
    }
    snprintf(f->name, sizeof f->name, "warmpool_%s%.*s%s%s%s",
             f->first->object.prefix, (int)length, base, f->part->infix,
             strcmp(unit, "ns") == 0 ? "_seconds" : suffix,
             strcmp(f->type, "counter") == 0 ? "_total" : "");
}

#define SECOND UINT64_C(1000000000) /* in ns */

/* ---- samples ------------------------------------------------------------- */

/* le: the highest time of a bucket in ns, UINT64_MAX of the last; 0: none. */
static void put_labels(wm_text *text, const wm_object *object, uint64_t le)
{
    const char *separator = "{";

    for (int i = 0; i < WM_LABELS; i++) {
        const wm_label *label = &object->label[i];

        if (label->name == NULL) {
            continue;
        }
        wm_text_put(text, "%s%s=", separator, label->name);
        if (label->text != NULL) {
            wm_text_put_label(text, label->text);
        } else {
            wm_text_put(text, "\"%" PRIu64 "\"", label->number);
        }
        separator = ",";
    }
    if (le == UINT64_MAX) {
        wm_text_put(text, "%sle=\"+Inf\"", separator);
    } else if (le != 0) {
        wm_text_put(text, "%sle=\"%" PRIu64 ".%09" PRIu64 "\"", separator,
                    le / SECOND, le % SECOND);
    }
    wm_text_put(text, "%s", *separator == ',' || le != 0 ? "}" : "");
}

/* Nanoseconds as seconds, without rounding. */
static void put_value(wm_text *text, const char *unit, uint64_t value)
{
    if (strcmp(unit, "ns") == 0) {
        wm_text_put(text, " %" PRIu64 ".%09" PRIu64 "\n", value / SECOND,
                    value % SECOND);
    } else {
        wm_text_put(text, " %" PRIu64 "\n", value);
    }
}

static uint64_t value_at(const copy *from, const wm_field *field, size_t offset)
{
    uint64_t value;

    memcpy(&value, from->from + field->offset + offset, sizeof value);
    return value;
}

/* A bucket counts what those below it count as well. */
static void put_buckets(wm_text *text, const family *f, const copy *from,
                        const wm_field *field)
{
    warm_histogram histogram;
    uint64_t count = 0;

    memcpy(&histogram, from->from + field->offset, sizeof histogram);
    for (unsigned i = 0; i < WARM_HISTOGRAM_BUCKETS; i++) {
        count += histogram.bucket[i];
        wm_text_put(text, "%s_bucket", f->name);
        put_labels(text, &from->object,
                   i + 1 < WARM_HISTOGRAM_BUCKETS ? wm_bucket_ns(i)
                                                  : UINT64_MAX);
        put_value(text, "calls", count);
    }
}

static void put_sample(wm_text *text, const family *f, const copy *from,
                       const wm_field *field)
{
    bool histogram = field->type == WM_FIELD_HISTOGRAM;
    bool summed = histogram || strcmp(f->type, "summary") == 0;
    size_t sum =
        histogram ? offsetof(warm_histogram, total_ns) : f->part->offset;

    if (histogram) {
        put_buckets(text, f, from, field);
    }
    wm_text_put(text, "%s%s", f->name, summed ? "_sum" : "");
    put_labels(text, &from->object, 0);
    put_value(text, field->unit, value_at(from, field, sum));
    if (summed) {
        wm_text_put(text, "%s_count", f->name);
        put_labels(text, &from->object, 0);
        put_value(text, "calls",
                  value_at(from, field,
                           histogram ? offsetof(warm_histogram, count)
                                     : offsetof(warm_duration, count)));
    }
}

/* ---- families ------------------------------------------------------------ */

/* The field with the name of this one, if the object is of the same prefix. */
static const wm_field *find(const copy *in, const copy *like,
                            const wm_field *field)
{
    if (strcmp(in->object.prefix, like->object.prefix) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < in->table->count; i++) {
        if (strcmp(in->table->field[i].name, field->name) == 0) {
            return &in->table->field[i];
        }
    }
    return NULL;
}

static void put_family(wm_text *text, family *f)
{
    f->type = f->part->type != NULL        ? f->part->type
              : is_counter(f->field->name) ? "counter"
                                           : "gauge";
    name_family(f);
    wm_text_put(text, "# HELP %s %s%s\n# TYPE %s %s\n", f->name,
                f->part->meaning, f->field->meaning, f->name, f->type);
    for (const copy *c = f->first; c != NULL; c = c->next) {
        const wm_field *field = find(c, f->first, f->field);

        if (field != NULL) {
            put_sample(text, f, c, field);
        }
    }
}

/* Writes the families of the object's fields that no earlier object has. */
static void put_families(wm_text *text, const copies *all, const copy *object)
{
    for (size_t i = 0; i < object->table->count; i++) {
        const wm_field *field = &object->table->field[i];
        const copy *first = all->first;

        while (first != object && find(first, object, field) == NULL) {
            first = first->next;
        }
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            family f = {.first = object, .field = field, .part = &parts[k]};

            if (first == object && has_part(field, &parts[k])) {
                put_family(text, &f);
            }
        }
    }
}

static warm_status write_families(warm_runtime *runtime, const void *what,
                                  wm_text *text)
{
    copies all = {.view = {.show = keep}};
    warm_status status = wm_fields_show(runtime, &all.view);

    (void)what;
    if (status == WARM_OK && all.failed) {
        status = wm_fail(WARM_OUT_OF_MEMORY, "no memory for the statistics");
    }
    if (status == WARM_OK) {
        wm_text_put(text,
                    "# HELP warmpool_info What runs.\n"
                    "# TYPE warmpool_info gauge\n"
                    "warmpool_info{version=\"%s\",driver=\"%s\"} 1\n"
                    "# HELP warmpool_devices devices of the runtime\n"
                    "# TYPE warmpool_devices gauge\nwarmpool_devices %d\n",
                    warm_version(), runtime->driver->name, runtime->devices);
        for (const copy *c = all.first; c != NULL; c = c->next) {
            put_families(text, &all, c);
        }
    }
    free_copies(&all);
    return status;
}

warm_status warm_stats_prometheus(warm_runtime *runtime, char *text,
                                  size_t bytes, size_t *needed)
{
    return wm_text_call(runtime, write_families, NULL, text, bytes, needed);
}
