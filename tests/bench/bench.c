/* bench.c: the program.
 *
 *   bench smoke|quick|full [FOLDER]   the table; FOLDER gets bench.jsonl, .svg
 *   bench scale|scale-smoke [FOLDER]  cost against size; scale.jsonl, .svg
 *   bench gpu|gpu-smoke [FOLDER]      on the CUDA driver; gpu.jsonl
 *   bench kinds [FOLDER]              handles of CUDA's libraries; kinds.jsonl
 *   bench one SUBJECT WORK [threads=n] [ops=n] [runs=n] [warm=n/ms] [ms=n]
 *       [events=record/query] [lag=uses/aging] [size=n]  one figure, in this
 *       process
 *   bench held|axes|axes-quick|peers [seeds=n,…] [only=NAME]
 *       [conf=key:value,…]   memory alone; and speed; beside peers, in turns
 *   bench peak NAME [lag [SUBJECT]]   where the bytes of a trace's peak are
 *   bench trace NAME FILE             the made trace of a row, for replay */
#include "tests/bench/axes.h"
#include "tests/bench/made.h"
#include "tests/bench/peak.h"
#include "tests/bench/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one figure -------------------------------------------------------- */

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
    if (strncmp(setup->work, "birth", 5) == 0) {
        return bench_work_birth(setup, result);
    }
    if (strcmp(setup->work, "tls") == 0 || strcmp(setup->work, "leases") == 0 ||
        strncmp(setup->work, "reserve", 7) == 0) {
        return bench_work_handle(setup, result);
    }
    if (bench_trace_known(setup->work)) {
        return bench_work_trace(setup, result);
    }
    if (strncmp(setup->work, "events", 6) == 0) {
        return bench_work_event(setup, result);
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
    if (sscanf(word, "warm=%llu/%u", &ops, &s->warm_ms) == 2) {
        s->warm = ops;
        return true;
    }
    return sscanf(word, "threads=%u", &s->threads) == 1 ||
           sscanf(word, "runs=%u", &s->runs) == 1 ||
           sscanf(word, "ms=%u", &s->ms) == 1 ||
           sscanf(word, "events=%u/%u", &s->record_ns, &s->query_ns) == 2 ||
           sscanf(word, "lag=%u/%u", &s->lag, &s->aging) == 2 ||
           sscanf(word, "size=%u", &s->size) == 1 ||
           sscanf(word, "made=%u/%u/%u/%u", &s->made.seed, &s->made.buffers,
                  &s->made.slots, &s->made.streams) == 4;
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

/* ---- a made trace ------------------------------------------------------ */

static int write_trace(const char *work, const char *path)
{
    bench_trace *trace = bench_trace_make(work, NULL);
    bool written;

    if (trace == NULL) {
        fprintf(stderr, "bench: no trace '%s', see tests/bench/made.h\n", work);
        return 2;
    }
    written = bench_trace_write(trace, path);
    bench_trace_end(trace);
    return written ? 0 : 1;
}

/* ---- the table --------------------------------------------------------- */

static int table(enum bench_load load, const char *folder)
{
    bench_figures *figures = calloc(bench_row_count, sizeof *figures);
    char path[4096];
    unsigned met = 0, goals = 0;
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

        if (row->unhurried && load == BENCH_QUICK) {
            continue;
        }
        if (row->of != NULL) {
            figures[i] = figures[bench_row_find(row->of)];
        } else {
            bench_measure_row(row, load, figures, &figures[i]);
        }
        bench_print_row(row, &figures[i]);
        bench_json_row(json, row, &figures[i]);
    }
    written = fclose(json) == 0;
    snprintf(path, sizeof path, "%s/bench.svg", folder);
    written = bench_bars(path, figures) && written;
    snprintf(path, sizeof path, "%s/axes.jsonl", folder);
    if (written && load != BENCH_SMOKE) {
        written =
            bench_axes(load == BENCH_QUICK ? BENCH_AXES_QUICK : BENCH_AXES_FULL,
                       path, NULL, &met, &goals);
    }
    if (written) {
        bench_print_goals(figures, load, met, goals);
    }
    free(figures);
    return written ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const loads[] = {"smoke", "quick", "full"};
    static const struct {
        const char *name;
        enum bench_axes which;
    } axes[] = {{"held", BENCH_AXES_HELD},
                {"axes", BENCH_AXES_FULL},
                {"axes-quick", BENCH_AXES_QUICK},
                {"peers", BENCH_AXES_PEERS}};
    const char *what = argc > 1 ? argv[1] : "";
    const char *folder = argc > 2 ? argv[2] : ".";

    if (strcmp(what, "one") == 0 && argc > 3) {
        return one(argc, argv);
    }
    if (strcmp(what, "trace") == 0 && argc == 4) {
        return write_trace(argv[2], argv[3]);
    }
    if (strcmp(what, "peak") == 0 && argc > 2) {
        return bench_peak(argc > 4 ? argv[4] : "warmpool", argv[2],
                          argc > 3 ? (unsigned)atoi(argv[3]) : 0)
                   ? 0
                   : 1;
    }
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (strcmp(what, axes[i].name) == 0) {
            return bench_axes(axes[i].which, NULL, argv + 2, NULL, NULL) ? 0
                                                                         : 1;
        }
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
    if (strcmp(what, "gpu") == 0 || strcmp(what, "gpu-smoke") == 0) {
        return bench_gpu(folder, what[3] == '-' ? BENCH_SMOKE : BENCH_FULL) ? 0
                                                                            : 1;
    }
    if (strcmp(what, "kinds") == 0) {
        return bench_kinds(folder) ? 0 : 1;
    }
    fprintf(stderr, "usage: bench smoke|quick|full|scale|gpu|kinds [FOLDER]\n"
                    "       bench one SUBJECT WORK [key=value...]\n"
                    "       bench held|axes|axes-quick|peers [seeds=n,...] "
                    "[only=NAME] [conf=...]\n"
                    "       bench peak tmixed[s]|tserver[s] [lag [SUBJECT]]\n"
                    "       bench trace NAME FILE\n");
    return 2;
}
