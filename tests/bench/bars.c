/* bars.c: the bar chart of the table: what each row costs, beside its
 * yardsticks. */
#include "tests/bench/chart.h"
#include "tests/bench/plan.h"

#include <string.h>

_Static_assert((int)CHART_SERIES == (int)BENCH_SERIES, "one bar a series");

/* In ns; 0: none, or not in ns. */
static double goal_of(const bench_row *row, const bench_figures *f, unsigned t)
{
    int yard = row->yard != NULL ? bench_series_find(row, row->yard) : -1;

    if (row->goal == BENCH_RATIO && yard >= 0 && f->of[yard][t].ns > 0) {
        return row->limit * f->of[yard][t].ns;
    }
    return row->goal == BENCH_ABSOLUTE ? row->limit : 0;
}

static void panel_of(const bench_row *row, const bench_figures *f,
                     chart_panel *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->title, sizeof p->title, "%s: %s", row->name, row->title);
    p->x_label = "threads";
    p->y_label = strcmp(row->name, "churn") == 0 ? "ns per thread"
                                                 : "ns per operation (log)";
    p->groups = bench_thread_counts(row);
    p->series_count = bench_series_count(row);
    for (unsigned t = 0; t < p->groups; t++) {
        snprintf(p->group[t], sizeof p->group[t], "%u", row->threads[t]);
        p->goal[t] = goal_of(row, f, t);
    }
    for (unsigned s = 0; s < p->series_count; s++) {
        p->series[s] = row->series[s].label;
        for (unsigned t = 0; t < p->groups; t++) {
            p->value[s][t] = f->of[s][t].ns;
            p->low[s][t] = f->of[s][t].min;
            p->high[s][t] = f->of[s][t].max;
        }
    }
}

bool bench_bars(const char *path, const bench_figures *figures)
{
    static const char *const names[] = {"reserve",     "reserve_on", "hot64k",
                                        "mixed",       "xthread",    "mixeds",
                                        "mixeds-1000", "churn"};
    enum { NAMES = sizeof names / sizeof *names, COLUMNS = 2 };
    FILE *out = fopen(path, "w");
    chart_panel panel;

    if (out == NULL) {
        return false;
    }
    chart_begin(out, "warmpool beside its yardsticks and peers",
                "Measured in one run, on one machine. Thin lines: least to "
                "most of the runs. Dashed: the goal.",
                COLUMNS, NAMES / COLUMNS);
    for (unsigned i = 0; i < NAMES; i++) {
        size_t row = bench_row_find(names[i]);

        panel_of(&bench_rows[row], &figures[row], &panel);
        chart_add(out, &panel, i % COLUMNS, i / COLUMNS);
    }
    chart_end(out);
    return fclose(out) == 0;
}
