/* plan.h: the rows of the table, their goals, and the figures measured. */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include "tests/bench/bench.h"

enum { BENCH_SERIES = 9, BENCH_COUNTS = 4, BENCH_SIZES = 3 };

/* How much is done: `bench smoke`, quick or full. Workloads are the same but
 * for the number of operations. */
enum bench_load { BENCH_SMOKE, BENCH_QUICK, BENCH_FULL };

/* A column of a row: what is measured, and with which work if not the row's. */
typedef struct bench_series {
    const char *label; /* see run.c */
    const char *work;  /* or an earlier row that has these figures */
} bench_series;

enum bench_goal {
    BENCH_NO_GOAL,
    BENCH_RATIO,    /* ns / ns of series `yard` at most limit */
    BENCH_ABOVE,    /* ns - ns of series `yard` at most limit */
    BENCH_ABSOLUTE, /* ns at most limit */
    BENCH_CALLS     /* records and queries a free at most limit, no other */
};

typedef struct bench_row {
    const char *name, *title;
    const char *work; /* null: the figures are those of row `of` */
    const char *of;
    unsigned record_ns, query_ns, lag, aging;
    unsigned threads[BENCH_COUNTS];    /* 0: no more */
    unsigned ops[BENCH_SIZES];         /* by load; a thread and run */
    unsigned ms[BENCH_SIZES];          /* by load; of a run, or 0 */
    unsigned warm[BENCH_SIZES];        /* by load; a thread, at least a round */
    unsigned warm_ms[BENCH_SIZES];     /* by load */
    unsigned runs[BENCH_SIZES];        /* by load */
    bench_series series[BENCH_SERIES]; /* the first one has the goal */
    enum bench_goal goal;
    const char *yard;
    double limit;
    double yard_ns; /* what the yardstick cost where the goal was set in ns:
                       limit is of its ratio */
    bool paired;    /* ns is a difference, min and max how sure it is */
    bool unhurried; /* has no goal, and is left out of the quick table */
    bool flat;      /* the ratio at most 1.5 × the first, over the threads */
    const char *peers; /* elsewhere: see README.md */
} bench_row;

extern const bench_row bench_rows[];
extern const size_t bench_row_count;

typedef struct bench_figures {
    bench_result of[BENCH_SERIES][BENCH_COUNTS];
} bench_figures;

/* Index of the row of that name; it is there. */
size_t bench_row_find(const char *name);
/* Index of the series of that label in the row, or -1. */
int bench_series_find(const bench_row *row, const char *label);
/* Left out of the quick table: a series beside it says more. */
bool bench_series_unhurried(const char *label);
/* The figures of an earlier row that are this series', or null. */
const bench_result *bench_series_of(const bench_row *row, unsigned series,
                                    const bench_figures *figures);
unsigned bench_series_count(const bench_row *row);
unsigned bench_thread_counts(const bench_row *row);

/* Measures one figure in a child. False if the subject is missing here. */
bool bench_run(const char *label, const bench_setup *setup,
               bench_result *result);

/* One figure of many, whose times do not matter. */
typedef struct bench_part {
    const char *label;
    bench_setup setup;
    bench_result result;
} bench_part;

/* Measures all, side by side. */
void bench_run_all(bench_part *part, size_t count);

/* Nothing is said, and the label is not given up, if it cannot be measured. */
bool bench_run_quietly(const char *label, const bench_setup *setup,
                       bench_result *result);

/* The one of the median ns; -1 where nothing was measured. */
bench_result bench_middle(const bench_result *result, unsigned count);

/* No child may take longer than that many seconds; 0: no limit. */
void bench_run_patience(unsigned seconds);

/* Every figure of a row. all: what rows of the plan have so far. */
void bench_measure_row(const bench_row *row, enum bench_load load,
                       const bench_figures *all, bench_figures *figures);

/* Does the goal of the row hold? measured: in words, for people. */
bool bench_goal_met(const bench_row *row, const bench_figures *figures,
                    char *measured, size_t bytes);
void bench_goal_text(const bench_row *row, char *text, size_t bytes);

/* Whether there is a figure at all. */
static inline bool bench_measured(const bench_result *result)
{
    return result->ns != -1;
}

/* Held / least, or -1. */
double bench_waste(const bench_result *result);

/* report.c: a row for people, its JSON lines, and the table of goals, which
 * adds up met and goals of other tables and ends with `bench: goals met=<n>
 * of=<m>`. */
void bench_print_row(const bench_row *row, const bench_figures *figures);
void bench_json_row(FILE *out, const bench_row *row,
                    const bench_figures *figures);
void bench_print_goals(const bench_figures *figures, enum bench_load load,
                       unsigned met, unsigned goals);

/* chart.c draws; bars.c chooses what. */
bool bench_bars(const char *path, const bench_figures *figures);

/* scale.c: cost against size; true if all was measured and written. */
bool bench_scale(const char *folder, enum bench_load load);

/* gpu.c, kinds.c: on a GPU; true if something was measured and written. */
bool bench_gpu(const char *folder, enum bench_load load);
bool bench_kinds(const char *folder);

#endif
