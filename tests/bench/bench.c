/* bench.c: the program.
 *
 *   bench smoke|quick|full [FOLDER]   the table; FOLDER gets bench.jsonl, .svg
 *   bench scale|scale-smoke [FOLDER]  cost against size; scale.jsonl, .svg
 *   bench one SUBJECT WORK [threads=n] [ops=n] [runs=n] [events=record/query]
 *       [lag=records/aging] [size=n]  one figure, in this process */
#include "tests/bench/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one figure -----------------------------------------------------------
 */

/* A library that could not be preloaded is skipped by the dynamic linker with
 * a message only; this would then measure another malloc. */
static bool preloaded(void)
{
    const char *name = getenv("BENCH_PRELOAD");
    FILE *maps = name != NULL ? fopen("/proc/self/maps", "r") : NULL;
    char line[4352];
    bool found = name == NULL;

    while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
        found = strstr(line, name) != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

bool bench_one(const bench_setup *setup, bench_result *result)
{
    *result = BENCH_RESULT_NONE;
    if (!preloaded()) {
        return false;
    }
    if (strcmp(setup->work, "churn") == 0) {
        return bench_work_churn(setup, result);
    }
    if (strcmp(setup->work, "tls") == 0 ||
        strncmp(setup->work, "reserve", 7) == 0) {
        return bench_work_handle(setup, result);
    }
    if (strncmp(setup->work, "tmixed", 6) == 0 ||
        strncmp(setup->work, "tserver", 7) == 0) {
        return bench_work_trace(setup, result);
    }
    return bench_work_alloc(setup, result);
}

static bool take(const char *word, bench_setup *s)
{
    unsigned long long ops = 0;

    if (sscanf(word, "ops=%llu", &ops) == 1) {
        s->ops = ops;
        return true;
    }
    return sscanf(word, "threads=%u", &s->threads) == 1 ||
           sscanf(word, "runs=%u", &s->runs) == 1 ||
           sscanf(word, "events=%u/%u", &s->record_ns, &s->query_ns) == 2 ||
           sscanf(word, "lag=%u/%u", &s->lag, &s->aging) == 2 ||
           sscanf(word, "size=%u", &s->size) == 1;
}

static int one(int argc, char **argv)
{
    bench_setup setup = {.subject = argv[2],
                         .work = argv[3],
                         .threads = 1,
                         .ops = 100000,
                         .runs = 5,
                         .lag = 4,
                         .aging = 1};
    bench_result result;

    for (int i = 4; i < argc; i++) {
        if (!take(argv[i], &setup)) {
            fprintf(stderr, "bench: what is '%s'?\n", argv[i]);
            return 2;
        }
    }
    if (setup.threads < 1 || setup.threads > BENCH_THREADS || setup.runs < 1 ||
        (setup.runs > BENCH_FIGURES_MAX && strcmp(setup.work, "churn") != 0) ||
        !bench_one(&setup, &result)) {
        return 1;
    }
#define PRINT(name, meaning) printf(#name "=%.9g\n", result.name);
    BENCH_RESULT_MAP(PRINT)
#undef PRINT
    /* Buffers and runtime are left as they are: taking down a million blocks
     * is not measured. */
    fflush(stdout);
    _exit(0);
}

/* ---- the table ------------------------------------------------------------
 */

static void measure_row(const bench_row *row, enum bench_load load,
                        bench_figures *figures)
{
    for (unsigned s = 0; s < bench_series_count(row); s++) {
        for (unsigned t = 0; t < bench_thread_counts(row); t++) {
            const char *work = row->series[s].work;
            bench_setup setup = {.work = work != NULL ? work : row->work,
                                 .threads = row->threads[t],
                                 .ops = row->ops[load],
                                 .runs = row->runs[load],
                                 .record_ns = row->record_ns,
                                 .query_ns = row->query_ns,
                                 .lag = row->lag,
                                 .aging = row->aging};

            (void)bench_run(row->series[s].label, &setup, &figures->of[s][t]);
        }
    }
}

static int table(enum bench_load load, const char *folder)
{
    bench_figures *figures = calloc(bench_row_count, sizeof *figures);
    char path[4096];
    FILE *json;
    bool written;

    snprintf(path, sizeof path, "%s/bench.jsonl", folder);
    json = fopen(path, "w");
    if (figures == NULL || json == NULL) {
        fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
        free(figures);
        return 1;
    }
    for (size_t i = 0; i < bench_row_count; i++) {
        const bench_row *row = &bench_rows[i];

        if (row->of != NULL) {
            figures[i] = figures[bench_row_find(row->of)];
        } else {
            measure_row(row, load, &figures[i]);
        }
        bench_print_row(row, &figures[i]);
        bench_json_row(json, row, &figures[i]);
    }
    written = fclose(json) == 0;
    snprintf(path, sizeof path, "%s/bench.svg", folder);
    written = bench_bars(path, figures) && written;
    if (written) {
        bench_print_goals(figures, load);
    }
    free(figures);
    return written ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const loads[] = {"smoke", "quick", "full"};
    const char *what = argc > 1 ? argv[1] : "";
    const char *folder = argc > 2 ? argv[2] : ".";

    if (strcmp(what, "one") == 0 && argc > 3) {
        return one(argc, argv);
    }
    (void)mkdir(folder, 0777);
    for (int i = 0; i < BENCH_SIZES; i++) {
        if (strcmp(what, loads[i]) == 0) {
            return table((enum bench_load)i, folder);
        }
    }
    if (strncmp(what, "scale", 5) == 0) {
        return bench_scale(folder, strcmp(what, "scale-smoke") == 0
                                       ? BENCH_SMOKE
                                       : BENCH_FULL)
                   ? 0
                   : 1;
    }
    fprintf(stderr, "usage: bench smoke|quick|full|scale [FOLDER]\n"
                    "       bench one SUBJECT WORK [key=value...]\n");
    return 2;
}
