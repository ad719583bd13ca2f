/* scale.c: does an operation cost more when there is more of something?
 *
 * live     free one of n live blocks of 4 to 64 KiB, allocate another
 * streams  64 KiB, recorded on one of n streams in turn, freed
 * threads  64 KiB by n threads at once */
#include "tests/bench/chart.h"
#include "tests/bench/plan.h"

#include <string.h>

typedef struct scale_row {
    const char *name, *work, *x_label;
    unsigned size[CHART_GROUPS]; /* 0: no more */
    const char *label[3];
    bool threads; /* the size is the number of threads */
    unsigned ops; /* in all and run */
} scale_row;

static const scale_row rows[] = {
    {"live",
     "live",
     "live blocks (log)",
     {1000, 3000, 10000, 30000, 100000, 300000, 1000000},
     {"warmpool", "glibc", NULL},
     false,
     40000},
    {"streams",
     "streams",
     "streams (log)",
     {1, 3, 10, 30, 100, 300, 1000},
     {"warmpool", NULL, NULL},
     false,
     40000},
    {"threads",
     "hot64k",
     "threads (log)",
     {1, 3, 10, 30, 100, 300, 1000},
     {"warmpool", "floor", NULL},
     true,
     100000},
    {"threads-own-stream",
     "mixeds",
     "threads (log)",
     {1, 3, 10, 30, 100, 300},
     {"warmpool", NULL, NULL},
     true,
     40000},
};

enum { ROWS = sizeof rows / sizeof *rows };

static void measure(const scale_row *row, unsigned g, enum bench_load load,
                    chart_panel *p, FILE *json)
{
    unsigned size = row->size[g];
    unsigned threads = row->threads ? size : 1;
    unsigned ops = load == BENCH_SMOKE ? 200 : row->ops;

    snprintf(p->group[g], sizeof p->group[g], "%u", size);
    for (unsigned s = 0; s < p->series_count; s++) {
        bench_setup setup = {.work = row->work,
                             .threads = threads,
                             .ops = ops / threads + 1,
                             .runs = load == BENCH_SMOKE ? 1 : 5,
                             .lag = 4,
                             .aging = 1,
                             .size = row->threads ? 0 : size};
        bench_result result;

        if (bench_run(p->series[s], &setup, &result)) {
            fprintf(json,
                    "{\"bench\":\"scale-%s\",\"case\":\"%s\",\"threads\":%u,"
                    "\"size\":%u,\"ns_per_op\":%.6g,\"ns_min\":%.6g,"
                    "\"ns_max\":%.6g",
                    row->name, p->series[s], threads, size, result.ns,
                    result.min, result.max);
            if (result.queries >= 0) {
                fprintf(json, ",\"queries_per_free\":%.4g", result.queries);
            }
            fprintf(json, "}\n");
        }
        p->value[s][g] = result.ns;
        p->low[s][g] = result.min;
        p->high[s][g] = result.max;
    }
}

static void measure_row(const scale_row *row, enum bench_load load,
                        chart_panel *p, FILE *json)
{
    memset(p, 0, sizeof *p);
    snprintf(p->title, sizeof p->title, "cost against %s", row->name);
    p->x_label = row->x_label;
    p->y_label = "ns per operation (log)";
    p->lines = true;
    while (row->label[p->series_count] != NULL) {
        p->series[p->series_count] = row->label[p->series_count];
        p->series_count++;
    }
    while (p->groups < CHART_GROUPS && row->size[p->groups] != 0 &&
           (load != BENCH_SMOKE || p->groups < 2)) {
        measure(row, p->groups, load, p, json);
        p->groups++;
    }
}

static void print(const chart_panel *p)
{
    printf("\n%s, ns an operation: median (least-most)\n", p->title);
    for (unsigned g = 0; g < p->groups; g++) {
        printf("  %9s", p->group[g]);
        for (unsigned s = 0; s < p->series_count; s++) {
            printf("   %s %8.1f (%.1f-%.1f)", p->series[s], p->value[s][g],
                   p->low[s][g], p->high[s][g]);
        }
        printf("\n");
    }
    fflush(stdout);
}

bool bench_scale(const char *folder, enum bench_load load)
{
    char path[4096];
    FILE *json, *svg;
    bool written;

    snprintf(path, sizeof path, "%s/scale.jsonl", folder);
    json = fopen(path, "w");
    snprintf(path, sizeof path, "%s/scale.svg", folder);
    svg = fopen(path, "w");
    if (json == NULL || svg == NULL) {
        fprintf(stderr, "bench: cannot write to %s\n", folder);
        if (json != NULL) {
            fclose(json);
        }
        if (svg != NULL) {
            fclose(svg);
        }
        return false;
    }
    chart_begin(svg, "warmpool: cost against size",
                "Bench driver, events free, done after 4 records or 100 us.", 2,
                (ROWS + 1) / 2);
    for (unsigned i = 0; i < ROWS; i++) {
        chart_panel panel;

        measure_row(&rows[i], load, &panel, json);
        print(&panel);
        chart_add(svg, &panel, i % 2, i / 2);
    }
    chart_end(svg);
    written = fclose(json) == 0;
    return fclose(svg) == 0 && written;
}
