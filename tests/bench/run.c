/* run.c: one figure, measured in a child of its own.
 *
 * `bench one SUBJECT WORK key=value…` prints a line key=value for each figure
 * and ends with 0, or says on standard error why it cannot. A label names a
 * subject and, for a malloc, the library that is preloaded. */
#include "tests/bench/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct peer {
    const char *label, *subject, *preload, *name, *value;
} peer;

static const peer peers[] = {
    {"glibc", "malloc", NULL, NULL, NULL},
    {"mimalloc", "malloc", "libmimalloc.so.2.0", NULL, NULL},
    {"jemalloc", "malloc", "libjemalloc.so.2", NULL, NULL},
    {"jemalloc-8M", "malloc", "libjemalloc.so.2", "MALLOC_CONF",
     "lg_tcache_max:23"},
    {"host", "warmpool-host", NULL, NULL, NULL},
    {"device", "warmpool-device", NULL, NULL, NULL},
    {"device-x", "warmpool-device", NULL, "WARMPOOL_CONF",
     "expandable_segments:on"},
};

enum { PEERS = sizeof peers / sizeof *peers, MISSING_MAX = 16 };

/* Labels that could not be measured: said once, not tried again. */
static const char *missing[MISSING_MAX];

static bool is_missing(const char *label, bool now)
{
    for (int i = 0; i < MISSING_MAX; i++) {
        if (missing[i] == NULL && now) {
            missing[i] = label;
        }
        if (missing[i] == NULL || strcmp(missing[i], label) == 0) {
            return missing[i] != NULL;
        }
    }
    return false;
}

/* A sanitizer wants to be loaded first, and has a malloc of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MAY_PRELOAD = 0 };
#else
enum { MAY_PRELOAD = 1 };
#endif

static unsigned patience;

void bench_run_patience(unsigned seconds)
{
    patience = seconds;
}

static void become(const char *label, const bench_setup *setup, int out)
{
    char text[8][64];
    const char *subject = label;
    const peer *p = NULL;

    for (int i = 0; i < PEERS; i++) {
        if (strcmp(peers[i].label, label) == 0) {
            p = &peers[i];
            subject = p->subject;
        }
    }
    snprintf(text[0], sizeof text[0], "threads=%u", setup->threads);
    snprintf(text[1], sizeof text[1], "ops=%llu",
             (unsigned long long)setup->ops);
    snprintf(text[2], sizeof text[2], "runs=%u", setup->runs);
    snprintf(text[3], sizeof text[3], "events=%u/%u", setup->record_ns,
             setup->query_ns);
    snprintf(text[4], sizeof text[4], "lag=%u/%u", setup->lag, setup->aging);
    snprintf(text[5], sizeof text[5], "size=%u", setup->size);
    snprintf(text[6], sizeof text[6], "warm=%llu/%u",
             (unsigned long long)setup->warm, setup->warm_ms);
    snprintf(text[7], sizeof text[7], "ms=%u", setup->ms);
    unsetenv("WARMPOOL_CONF");
    if (p != NULL && p->preload != NULL) {
        if (!MAY_PRELOAD) {
            _exit(1);
        }
        setenv("LD_PRELOAD", p->preload, 1);
        setenv("BENCH_PRELOAD", p->preload, 1);
    }
    if (p != NULL && p->name != NULL) {
        setenv(p->name, p->value, 1);
    }
    (void)alarm(patience); /* goes on in the program that is started */
    dup2(out, STDOUT_FILENO);
    close(out);
    execl("/proc/self/exe", "bench", "one", subject, setup->work, text[0],
          text[1], text[2], text[3], text[4], text[5], text[6], text[7],
          (char *)NULL);
    _exit(127);
}

static void parse(const char *line, bench_result *result)
{
    const char *equal = strchr(line, '=');
    size_t length = equal != NULL ? (size_t)(equal - line) : 0;

#define FIELD(name, meaning)                                                   \
    if (length == sizeof #name - 1 && memcmp(line, #name, length) == 0) {      \
        result->name = strtod(equal + 1, NULL);                                \
    }
    BENCH_RESULT_MAP(FIELD)
#undef FIELD
}

static bool collect(int in, pid_t child, bench_result *result)
{
    FILE *stream = fdopen(in, "r");
    char line[128];
    int status = 0;

    while (stream != NULL && fgets(line, sizeof line, stream) != NULL) {
        parse(line, result);
    }
    if (stream != NULL) {
        fclose(stream);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool bench_run(const char *label, const bench_setup *setup,
               bench_result *result)
{
    int ends[2];
    pid_t child;

    *result = BENCH_RESULT_NONE;
    if (is_missing(label, false) || pipe(ends) != 0) {
        return false;
    }
    fflush(NULL);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        become(label, setup, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return false;
    }
    if (!collect(ends[0], child, result)) {
        fprintf(stderr, "skip: %s could not be measured (%s, %u threads)\n",
                label, setup->work, setup->threads);
        is_missing(label, true);
        *result = BENCH_RESULT_NONE;
        return false;
    }
    return true;
}

void bench_measure_row(const bench_row *row, enum bench_load load,
                       bench_figures *figures)
{
    for (unsigned s = 0; s < bench_series_count(row); s++) {
        for (unsigned t = 0; t < bench_thread_counts(row); t++) {
            const char *work = row->series[s].work;
            bench_setup setup = {.work = work != NULL ? work : row->work,
                                 .threads = row->threads[t],
                                 .ops = row->ops[load],
                                 .ms = row->ms[load],
                                 .warm = row->warm[load],
                                 .warm_ms = row->warm_ms[load],
                                 .runs = row->runs[load],
                                 .record_ns = row->record_ns,
                                 .query_ns = row->query_ns,
                                 .lag = row->lag,
                                 .aging = row->aging};

            (void)bench_run(row->series[s].label, &setup, &figures->of[s][t]);
        }
    }
}
