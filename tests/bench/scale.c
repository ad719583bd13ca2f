/* scale.c: does an operation cost more when there is more of something?
 *
 * live     free one of n live blocks of 4 to 64 KiB, allocate another
 * streams  64 KiB, recorded on one of n streams in turn, freed; those of the
 *          library, and the program's own (foreign)
 * leases   n handles are on lease; one is returned, another taken
 * threads  64 KiB by n threads at once
 *
 * Wall time is drawn; what is judged is processor time, which others on the
 * machine do not add to: the last lines say how many times the cost at the
 * smallest size that at the largest is. It holds what the caches of the
 * processor cost as well; `make bench-instr` has instructions for some sizes.
 */
#include "tests/bench/chart.h"
#include "tests/bench/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct scale_row {
    const char *name, *work, *x_label;
    unsigned size[CHART_GROUPS]; /* 0: no more */
    const char *label[3];
    bool threads; /* the size is the number of threads */
    unsigned ops; /* in all and run */
} scale_row;

/* What is drawn, and processor time beside it. */
typedef struct scale_panel {
    chart_panel chart;
    double cpu[3][CHART_GROUPS];
} scale_panel;

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
    {"foreign-streams",
     "foreign",
     "streams (log)",
     {1, 3, 10, 30, 100, 300, 1000},
     {"warmpool", NULL, NULL},
     false,
     40000},
    {"leases",
     "leases",
     "leases out (log)",
     {100, 300, 1000, 3000, 10000, 30000, 100000},
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
                    scale_panel *panel, FILE *json)
{
    chart_panel *p = &panel->chart;
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
                    "\"ns_max\":%.6g,\"cpu_ns_per_op\":%.6g",
                    row->name, p->series[s], threads, size, result.ns,
                    result.min, result.max, result.cpu);
            if (result.queries >= 0) {
                fprintf(json, ",\"queries_per_free\":%.4g", result.queries);
            }
            fprintf(json, "}\n");
        }
        p->value[s][g] = result.ns;
        p->low[s][g] = result.min;
        p->high[s][g] = result.max;
        panel->cpu[s][g] = result.cpu;
    }
}

static void measure_row(const scale_row *row, enum bench_load load,
                        scale_panel *panel, FILE *json)
{
    chart_panel *p = &panel->chart;

    memset(panel, 0, sizeof *panel);
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
        measure(row, p->groups, load, panel, json);
        p->groups++;
    }
}

static void print(const scale_panel *panel)
{
    const chart_panel *p = &panel->chart;

    printf("\n%s, ns an operation: median (least-most), processor time\n",
           p->title);
    for (unsigned g = 0; g < p->groups; g++) {
        printf("  %9s", p->group[g]);
        for (unsigned s = 0; s < p->series_count; s++) {
            printf("   %s %8.1f (%.1f-%.1f) %8.1f", p->series[s],
                   p->value[s][g], p->low[s][g], p->high[s][g],
                   panel->cpu[s][g]);
        }
        printf("\n");
    }
    fflush(stdout);
}

/* Of the first series: how many times the cost at the smallest size that at
 * the largest is. */
static void print_growth(const scale_row *row, const scale_panel *panel)
{
    unsigned last = panel->chart.groups - 1;

    if (panel->cpu[0][0] > 0 && panel->cpu[0][last] > 0) {
        printf("scale: %-20s %7u to %7u: %5.1f times the processor time\n",
               row->name, row->size[0], row->size[last],
               panel->cpu[0][last] / panel->cpu[0][0]);
    }
}

bool bench_scale(const char *folder, enum bench_load load)
{
    char path[4096];
    scale_panel *panel = calloc(ROWS, sizeof *panel);
    FILE *json, *svg;
    bool written;

    snprintf(path, sizeof path, "%s/scale.jsonl", folder);
    json = fopen(path, "w");
    snprintf(path, sizeof path, "%s/scale.svg", folder);
    svg = fopen(path, "w");
    if (json == NULL || svg == NULL || panel == NULL) {
        fprintf(stderr, "bench: cannot write to %s\n", folder);
        if (json != NULL) {
            fclose(json);
        }
        if (svg != NULL) {
            fclose(svg);
        }
        free(panel);
        return false;
    }
    chart_begin(svg, "warmpool: cost against size",
                "Bench driver, events free, done after 4 records or 100 us.", 2,
                (ROWS + 1) / 2);
    for (unsigned i = 0; i < ROWS; i++) {
        measure_row(&rows[i], load, &panel[i], json);
        print(&panel[i]);
        chart_add(svg, &panel[i].chart, i % 2, i / 2);
    }
    printf("\n");
    for (unsigned i = 0; i < ROWS; i++) {
        print_growth(&rows[i], &panel[i]);
    }
    free(panel);
    chart_end(svg);
    written = fclose(json) == 0;
    return fclose(svg) == 0 && written;
}
