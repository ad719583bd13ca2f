/* report.c: what was measured, for people and as JSON lines. */
#include "tests/bench/plan.h"

#include <string.h>

static void print_calls(const bench_row *row, const bench_figures *f)
{
    for (unsigned s = 0; s < bench_series_count(row); s++) {
        for (unsigned t = 0; t < bench_thread_counts(row); t++) {
            const bench_result *r = &f->of[s][t];

            if (r->records >= 0) {
                printf("  %-12s %u threads: %.3f records, %.3f queries, %.3f "
                       "others a free\n",
                       row->series[s].label, row->threads[t], r->records,
                       r->queries, r->others);
            }
        }
    }
}

/* Processor time, which others on the machine do not add to; and how many
 * times that of the yardstick it is. */
static void print_cpu(const bench_row *row, const bench_figures *f)
{
    int yard = row->yard != NULL ? bench_series_find(row, row->yard) : -1;

    printf("  %-12s", "  cpu ns");
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        const bench_result *r = &f->of[0][t];
        double base = yard >= 0 ? f->of[yard][t].cpu : -1;
        char ratio[32] = "";

        if (base > 0) {
            snprintf(ratio, sizeof ratio, "%.1fx", r->cpu / base);
        }
        if (r->cpu < 0) {
            printf("%22s %7s", "-", "");
        } else {
            printf("%22.*f %7s", r->cpu < 100, r->cpu, ratio);
        }
    }
    printf("\n");
}

/* What was held for the speed of the line before. */
static void print_held(const bench_row *row, const bench_result *r)
{
    printf("  %-12s", "  held MiB");
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        char waste[32] = "";

        if (bench_waste(&r[t]) > 0) {
            snprintf(waste, sizeof waste, "%.2fx", bench_waste(&r[t]));
        }
        printf("%22.0f %7s", r[t].peak / 0x1p20, waste);
    }
    printf("\n");
}

/* What came before the runs: memory obtained, and all that this makes dear. */
static void print_warm_up(const bench_row *row, const bench_figures *f)
{
    printf("  %-12s", "  warm-up ns");
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        const bench_result *r = &f->of[0][t];
        char text[64] = "-";

        if (r->warm_obtains >= 0) {
            snprintf(text, sizeof text, "%.0f, %.0f calls, %.0fk", r->warm_ns,
                     r->warm_obtains, r->warm_ops / 1000);
        }
        printf("%22s %7s", text, "");
    }
    printf("\n");
}

static void print_ns(const bench_row *row, const bench_figures *f)
{
    printf("  %-12s", "ns, threads:");
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        printf("%30u", row->threads[t]);
    }
    printf("\n");
    for (unsigned s = 0; s < bench_series_count(row); s++) {
        if (!bench_measured(&f->of[s][0])) {
            continue;
        }
        printf("  %-12s", row->series[s].label);
        for (unsigned t = 0; t < bench_thread_counts(row); t++) {
            const bench_result *r = &f->of[s][t];
            char text[64] = "-", ratio[32] = "";

            if (bench_measured(r)) {
                snprintf(text, sizeof text, "%.*f (%.*f-%.*f)", r->ns < 100,
                         r->ns, r->ns < 100, r->min, r->ns < 100, r->max);
            }
            if (s > 0 && r->ns > 0 && f->of[0][t].ns > 0) {
                snprintf(ratio, sizeof ratio, "%.1fx", f->of[0][t].ns / r->ns);
            }
            printf("%22s %7s", text, ratio);
        }
        printf("\n");
        if (f->of[s][0].peak >= 0) {
            print_held(row, f->of[s]);
        }
        if (s == 0) {
            print_cpu(row, f);
            if (f->of[0][0].warm_obtains >= 0) {
                print_warm_up(row, f);
            }
        }
    }
}

void bench_print_row(const bench_row *row, const bench_figures *figures)
{
    char goal[64];

    bench_goal_text(row, goal, sizeof goal);
    printf("\n%s: %s%s%s\n", row->name, row->title,
           goal[0] != '\0' ? "; goal " : "", goal);
    if (row->goal == BENCH_CALLS) {
        print_calls(row, figures);
    } else {
        print_ns(row, figures);
    }
    if (row->peers != NULL) {
        printf("  elsewhere*   %s\n", row->peers);
    }
    fflush(stdout);
}

/* ---- JSON -------------------------------------------------------------- */

static void json_number(FILE *out, const char *name, double value)
{
    if (value >= 0) {
        fprintf(out, ",\"%s\":%.6g", name, value);
    }
}

/* ns of this series in those of the others, at as many threads. */
static void json_ratios(FILE *out, const bench_row *row, const bench_figures *f,
                        unsigned s, unsigned t)
{
    const char *comma = "";

    fprintf(out, ",\"ratio_to\":{");
    for (unsigned o = 0; o < bench_series_count(row); o++) {
        if (o != s && f->of[o][t].ns > 0) {
            fprintf(out, "%s\"%s\":%.4g", comma, row->series[o].label,
                    f->of[s][t].ns / f->of[o][t].ns);
            comma = ",";
        }
    }
    fprintf(out, "}");
}

static void json_line(FILE *out, const bench_row *row, const bench_figures *f,
                      unsigned s, unsigned t)
{
    const bench_result *r = &f->of[s][t];

    fprintf(out, "{\"bench\":\"%s\",\"case\":\"%s\",\"threads\":%u", row->name,
            row->series[s].label, row->threads[t]);
    fprintf(out, ",\"ns_per_op\":%.6g,\"ns_min\":%.6g,\"ns_max\":%.6g", r->ns,
            r->min, r->max);
    json_ratios(out, row, f, s, t);
    json_number(out, "cpu_ns_per_op", r->cpu);
    json_number(out, "records_per_free", r->records);
    json_number(out, "queries_per_free", r->queries);
    json_number(out, "other_calls_per_free", r->others);
    json_number(out, "obtains", r->obtains);
    json_number(out, "waits_per_alloc", r->waits);
    json_number(out, "work_later", r->later);
    json_number(out, "warm_up_ops", r->warm_ops);
    json_number(out, "warm_up_ns_per_op", r->warm_ns);
    json_number(out, "warm_up_obtains", r->warm_obtains);
    json_number(out, "peak_bytes", r->peak);
    json_number(out, "peak_live_bytes", r->live);
    json_number(out, "held_over_least", bench_waste(r));
    fprintf(out, "}\n");
}

void bench_json_row(FILE *out, const bench_row *row,
                    const bench_figures *figures)
{
    for (unsigned s = 0; s < bench_series_count(row); s++) {
        for (unsigned t = 0; t < bench_thread_counts(row); t++) {
            const bench_result *r = &figures->of[s][t];

            if (bench_measured(r)) {
                json_line(out, row, figures, s, t);
            }
        }
    }
}

/* ---- goals ------------------------------------------------------------- */

/* Yardsticks never wait: what they lack in processor time was taken by others
 * on the machine, and everybody's figures are that much too high. */
static void print_share(const bench_figures *figures)
{
    double sum = 0;
    unsigned count = 0;

    for (size_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];

        for (unsigned s = 0; s < bench_series_count(row); s++) {
            const char *label = row->series[s].label;

            if (strcmp(label, "floor") != 0 && strcmp(label, "tls") != 0) {
                continue;
            }
            for (unsigned t = 0; t < bench_thread_counts(row); t++) {
                const bench_result *r = &figures[i].of[s][t];

                if (row->threads[t] > 1 && r->cpu > 0 && !row->paired) {
                    sum += r->cpu / r->ns;
                    count++;
                }
            }
        }
    }
    if (count > 0) {
        printf("machine: with 2 and more threads the yardsticks got %.0f %% "
               "of the cores; far below 100,\n"
               "others were at work, and ns of "
               "those columns are too high by as much\n",
               100 * sum / count);
    }
}

void bench_print_goals(const bench_figures *figures, enum bench_load load,
                       unsigned met, unsigned goals)
{
    unsigned all = goals;

    printf("\n%-12s %-8s %-18s %s\n", "goal of", "", "goal",
           "measured, by threads");
    for (size_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];
        char goal[64], measured[160] = "";
        bool holds;

        if (row->goal == BENCH_NO_GOAL) {
            continue;
        }
        holds = bench_goal_met(row, &figures[i], measured, sizeof measured);
        bench_goal_text(row, goal, sizeof goal);
        printf("%-12s %-8s %-18s %s\n", row->name, holds ? "met" : "NOT MET",
               goal, measured);
        met += holds;
        all++;
    }
    printf("\nns an operation = wall time x min(threads, cores) / operations, "
           "median (least-most)\nof the runs. churn: ns a thread lives, "
           "above a bare one: difference of the medians, and how\nsure that "
           "is. An x: "
           "warmpool's is that many times the figure before it; in the line "
           "of\nprocessor time, which others on the machine do not add to: "
           "times the yardstick's.\nwarm-up: ns an operation before the first "
           "run, driver calls that obtained memory\nthen, and how many "
           "thousand operations of a thread it was.\n* published for another "
           "machine (2 vCPU "
           "Xeon 2.3 GHz, CUDA calls stood in for).\n");
    print_share(figures);
    if (load == BENCH_SMOKE) {
        printf("bench: a smoke run judges no goal (rows=%u)\n", all);
        return;
    }
    printf("bench: goals met=%u of=%u\n", met, all);
}
