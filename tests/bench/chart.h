/* chart.h: panels of bars or lines, written as SVG; logarithmic values. */
#ifndef BENCH_CHART_H
#define BENCH_CHART_H

#include <stdbool.h>
#include <stdio.h>

enum { CHART_SERIES = 9, CHART_GROUPS = 8 };

typedef struct chart_panel {
    char title[96];
    const char *x_label, *y_label;
    const char *series[CHART_SERIES];
    unsigned series_count, groups;
    char group[CHART_GROUPS][16];             /* text below */
    double value[CHART_SERIES][CHART_GROUPS]; /* negative: missing */
    double low[CHART_SERIES][CHART_GROUPS];   /* of the runs, or negative */
    double high[CHART_SERIES][CHART_GROUPS];
    double goal[CHART_GROUPS]; /* a dashed line across the group; 0: none */
    bool lines;                /* points that are joined, not bars */
    bool linear;               /* the value axis is linear, from 0 */
} chart_panel;

/* columns × rows panels, filled one after the other; legend: series in the
 * order of their colours. */
void chart_begin(FILE *out, const char *title, const char *note,
                 unsigned columns, unsigned rows);
void chart_add(FILE *out, const chart_panel *panel, unsigned column,
               unsigned row);
void chart_end(FILE *out);

#endif
