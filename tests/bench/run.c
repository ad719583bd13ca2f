/* run.c: one figure, measured in a child of its own.
 *
 * `bench one SUBJECT WORK key=value…` prints a line key=value for each figure
 * and ends with 0, or says on standard error why it cannot. A label names a
 * subject and, for a malloc, the library that is preloaded. */
#include "tests/bench/plan.h"

#include <errno.h>
#include <fcntl.h>
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
    char text[9][64];
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
    snprintf(text[8], sizeof text[8], "made=%u/%u/%u/%u", setup->made.seed,
             setup->made.buffers, setup->made.slots, setup->made.streams);
    unsetenv("WARMPOOL_CONF");
    if (setup->conf != NULL) {
        setenv("WARMPOOL_CONF", setup->conf, 1);
    }
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
    if (setup->quiet && freopen("/dev/null", "w", stderr) == NULL) {
        _exit(127);
    }
    execl("/proc/self/exe", "bench", "one", subject, setup->work, text[0],
          text[1], text[2], text[3], text[4], text[5], text[6], text[7],
          text[8], (char *)NULL);
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

typedef struct child {
    pid_t pid; /* -1: there is none */
    FILE *out;
} child;

/* No other child has its ends, or what it says would not end with it. */
static child begin(const char *label, const bench_setup *setup)
{
    child c = {.pid = -1};
    int ends[2];

    if (is_missing(label, false) || pipe2(ends, O_CLOEXEC) != 0) {
        return c;
    }
    fflush(NULL);
    c.pid = fork();
    if (c.pid == 0) {
        become(label, setup, ends[1]);
    }
    close(ends[1]);
    c.out = fdopen(ends[0], "r");
    return c;
}

static bool collect(const child *c, bench_result *result)
{
    char line[128];
    int status = 0;

    while (c->out != NULL && fgets(line, sizeof line, c->out) != NULL) {
        parse(line, result);
    }
    if (c->out != NULL) {
        fclose(c->out);
    }
    while (c->pid > 0 && waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return c->pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool end(const child *c, const char *label, const bench_setup *setup,
                bench_result *result)
{
    *result = BENCH_RESULT_NONE;
    if (is_missing(label, false)) {
        return false;
    }
    if (!collect(c, result)) {
        fprintf(stderr, "skip: %s could not be measured (%s, %u threads)\n",
                label, setup->work, setup->threads);
        is_missing(label, true);
        *result = BENCH_RESULT_NONE;
        return false;
    }
    return true;
}

bool bench_run(const char *label, const bench_setup *setup,
               bench_result *result)
{
    child c = begin(label, setup);

    return end(&c, label, setup, result);
}

bool bench_run_quietly(const char *label, const bench_setup *setup,
                       bench_result *result)
{
    bench_setup quiet = *setup;
    child c;

    quiet.quiet = true;
    c = begin(label, &quiet);
    *result = BENCH_RESULT_NONE;
    return collect(&c, result);
}

bench_result bench_middle(const bench_result *result, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned below = 0;

        for (unsigned k = 0; k < count; k++) {
            below += result[k].ns < result[i].ns ||
                     (k < i && result[k].ns == result[i].ns);
        }
        if (below == count / 2) {
            return result[i];
        }
    }
    return BENCH_RESULT_NONE;
}

/* As many at a time as there are processors. */
void bench_run_all(bench_part *part, size_t count)
{
    size_t width = bench_cores(), ended = 0;
    child *c = calloc(count, sizeof *c);

    for (size_t i = 0; c != NULL && i < count; i++) {
        if (i >= width) {
            (void)end(&c[ended], part[ended].label, &part[ended].setup,
                      &part[ended].result);
            ended++;
        }
        c[i] = begin(part[i].label, &part[i].setup);
    }
    for (; c != NULL && ended < count; ended++) {
        (void)end(&c[ended], part[ended].label, &part[ended].setup,
                  &part[ended].result);
    }
    free(c);
}

static bench_setup setup_of(const bench_row *row, enum bench_load load,
                            unsigned s, unsigned t)
{
    const char *work = row->series[s].work;

    return (bench_setup){.work = work != NULL ? work : row->work,
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
}

/* Those of one count of threads next to each other: they are compared. */
static void measure_column(const bench_row *row, enum bench_load load,
                           const bench_figures *all, unsigned t,
                           bench_figures *figures)
{
    unsigned count = bench_series_count(row);

    for (unsigned s = 0; s < count; s++) {
        const bench_result *there = bench_series_of(row, s, all);
        const char *label = row->series[s].label;
        bench_setup setup = setup_of(row, load, s, t);

        figures->of[s][t] = there != NULL ? there[t] : BENCH_RESULT_NONE;
        if (there == NULL &&
            (load != BENCH_QUICK || !bench_series_unhurried(label))) {
            (void)bench_run(label, &setup, &figures->of[s][t]);
        }
    }
}

void bench_measure_row(const bench_row *row, enum bench_load load,
                       const bench_figures *all, bench_figures *figures)
{
    for (unsigned t = 0; t < bench_thread_counts(row); t++) {
        measure_column(row, load, all, t, figures);
    }
}
