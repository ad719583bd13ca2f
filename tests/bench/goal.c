/* goal.c: does a row's goal hold, and with which figures. */
#include "tests/bench/plan.h"

#include <stdarg.h>

static const double FLAT = 1.5;

/* Adds to text, which stays terminated. */
static void append(char *text, size_t bytes, size_t *used, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

static void append(char *text, size_t bytes, size_t *used, const char *format,
                   ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = *used < bytes ? vsnprintf(text + *used, bytes - *used, format, list)
                      : 0;
    va_end(list);
    *used += n > 0 ? (size_t)n : 0;
}

double bench_waste(const bench_result *result)
{
    return result->least > 0 && result->peak >= 0 ? result->peak / result->least
                                                  : -1;
}

/* What the goal is about, in the row's unit; negative: not measured. */
static double figure(const bench_row *row, const bench_figures *f, unsigned t)
{
    const bench_result *mine = &f->of[0][t];
    int yard;

    if (row->goal == BENCH_ABOVE && mine->ns >= 0) {
        yard = bench_series_find(row, row->yard);
        return yard >= 0 && f->of[yard][t].ns > 0 ? mine->ns - f->of[yard][t].ns
                                                  : -1;
    }
    if (row->goal == BENCH_RATIO && mine->ns >= 0) {
        yard = bench_series_find(row, row->yard);
        return yard >= 0 && f->of[yard][t].ns > 0 ? mine->ns / f->of[yard][t].ns
                                                  : -1;
    }
    return mine->ns;
}

static bool calls_met(const bench_row *row, const bench_figures *f,
                      char *measured, size_t bytes)
{
    bool met = true;
    size_t used = 0;

    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        const bench_result *r = &f->of[0][t];

        append(measured, bytes, &used, "%s%.2f+%.2f+%.2f", t ? " / " : "",
               r->records, r->queries, r->others);
        /* Less than one other call in a thousand frees: growth, not use. */
        met = met && r->records >= 0 && r->records <= row->limit &&
              r->queries <= row->limit && r->others < 0.001;
    }
    return met;
}

bool bench_goal_met(const bench_row *row, const bench_figures *figures,
                    char *measured, size_t bytes)
{
    bool met = true;
    size_t used = 0;
    double first = -1, most = -1;

    if (row->goal == BENCH_CALLS) {
        return calls_met(row, figures, measured, bytes);
    }
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        double value = figure(row, figures, t);
        double sure = figures->of[0][t].max - value;

        append(measured, bytes, &used,
               row->goal == BENCH_ABSOLUTE ? "%s%.0f"
               : row->goal == BENCH_ABOVE  ? "%s%.1f"
                                           : "%s%.2f",
               t ? " / " : "", value);
        /* A difference has a sign; one that drowns in noise shows nothing. */
        if (row->paired) {
            append(measured, bytes, &used, " (+-%.0f)", sure);
            met = met && sure > 0 && sure <= row->limit / 2;
        }
        met = met && (value >= 0 || row->paired) && value <= row->limit;
        first = t == 0 ? value : first;
        most = value > most ? value : most;
    }
    if (row->flat && most > FLAT * first) {
        append(measured, bytes, &used, ", not flat (%.1f)", most / first);
        met = false;
    }
    return met;
}

void bench_goal_text(const bench_row *row, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    switch (row->goal) {
    case BENCH_RATIO:
        append(text, bytes, &used, "<= %.3g x %s", row->limit, row->yard);
        if (row->yard_ns > 0) {
            append(text, bytes, &used, " (%.0f ns at %.3g)",
                   row->limit * row->yard_ns, row->yard_ns);
        }
        break;
    case BENCH_ABOVE:
        append(text, bytes, &used, "<= %.3g ns above %s", row->limit,
               row->yard);
        break;
    case BENCH_ABSOLUTE:
        append(text, bytes, &used, "<= %.3g ns", row->limit);
        break;
    case BENCH_CALLS:
        append(text, bytes, &used, "<= 1/8 + 1/8 + 0");
        break;
    case BENCH_NO_GOAL:
    default:
        break;
    }
    if (row->flat) {
        append(text, bytes, &used, ", flat");
    }
}
