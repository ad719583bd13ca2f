/* replay.c: the program that plays a trace again, installed as warmpool-replay.
 *
 *   replay FILE [SUBJECT] [conf=key:value,…] [against=[SUBJECT/]key:value,…]
 *       [lag=uses[/aging]] [events=record/query] [threads=1] [steps=n]
 *
 * Says what is in the trace, then a line name=value with its unit for each
 * figure. The same trace, subject and options give the same calls, in the same
 * order: time is that of the trace, for the library and for events, which are
 * done after lag later uses of their stream or, unless aging is 0, after 100
 * us. threads=1: one thread plays all, else as many as there were. steps: no
 * more than the first n. against: plays the trace once more with these options,
 * on another subject if there is a /, and prints both runs with their ratio.
 */
#include "tests/bench/play.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* For AddressSanitizer: what is live at the end of a trace stays so. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

typedef struct wish {
    bench_setup setup;
    const char *path, *conf;
    const char *against; /* null: one run */
    size_t steps;
} wish;

static int usage(FILE *to)
{
    fprintf(to,
            "usage: warmpool-replay FILE [SUBJECT] [conf=key:value,...]\n"
            "           [against=[SUBJECT/]key:value,...] "
            "[lag=uses[/aging]]\n"
            "           [events=record/query] [threads=1] [steps=n]\n"
            "\n"
            "Plays a trace (WARMPOOL_CONF=trace:FILE) again, under other "
            "options (conf) or on\n"
            "another allocator (SUBJECT: warmpool, warmpool-host, malloc, "
            "per-request, ...), and\n"
            "says what that takes. against: plays it twice, and compares.\n");
    return to == stdout ? 0 : 2;
}

static bool take(const char *word, wish *w)
{
    bench_setup *s = &w->setup;

    if (strncmp(word, "conf=", 5) == 0) {
        w->conf = word + 5;
        return true;
    }
    if (strncmp(word, "against=", 8) == 0) {
        w->against = word + 8;
        return true;
    }
    if (strchr(word, '=') == NULL) {
        s->subject = word;
        return true;
    }
    return sscanf(word, "events=%u/%u", &s->record_ns, &s->query_ns) == 2 ||
           sscanf(word, "lag=%u/%u", &s->lag, &s->aging) >= 1 ||
           sscanf(word, "steps=%zu", &w->steps) == 1 ||
           (sscanf(word, "threads=%u", &s->threads) == 1 && s->threads == 1);
}

/* What was asked for when the trace was recorded, on one line. */
static void print_options(const char *options)
{
    printf("recorded with");
    for (const char *c = options; *c != '\0'; c += strcspn(c, "\n") + 1) {
        int length = (int)strcspn(c, "\n");

        /* Texts that were not given have no value. */
        if (c[length] == '\n' && length > 0 && c[length - 1] != ':') {
            printf(" %.*s", length, c);
        }
        if (c[length] == '\0') {
            break;
        }
    }
    printf("\n");
}

static void print_trace(const wish *w, const bench_trace *t)
{
    printf("trace %s: steps: %zu, blocks: %u (of devices: %u, pageable: %u, "
           "shared: %u), threads: %u, streams: %u, private pools: %u, devices: "
           "%u; at most %.1f MiB live\n",
           w->path, t->steps, t->buffers, t->on_device, t->pageable, t->shared,
           t->workers, t->streams, t->pools,
           t->on_device + t->shared > 0 ? t->devices : 0,
           (double)t->peak / 0x1p20);
    printf("%s: %s\n", t->whole ? "complete" : "INCOMPLETE", t->ending);
    if (t->strays > 0) {
        printf("steps left out, since their blocks' allocations are missing: "
               "%zu\n",
               t->strays);
    }
    print_options(t->options);
    printf("replayed on %s, conf=%s\n", w->setup.subject,
           w->conf != NULL ? w->conf : "");
}

/* What the subject cannot do is done otherwise, and never in silence. */
static void print_limits(const bench_subject *subject, const bench_trace *t)
{
    unsigned other = t->on_device + t->pageable + t->shared;

    if (subject->place == NULL && other > 0) {
        printf("%s has memory of one sort: blocks of devices, pageable and "
               "shared ones (%u) are played as if they were of it, without "
               "streams\n",
               subject->name, other);
    } else if (subject->pool_end == NULL && t->on_device + t->shared > 0 &&
               (t->on_device < t->buffers || t->devices > 1)) {
        printf(
            "%s plays all blocks in memory of device 0; of the host were: %u, "
            "of devices (in number %u): %u, shared: %u\n",
            subject->name, t->buffers - t->on_device - t->shared, t->devices,
            t->on_device, t->shared);
    }
    if (subject->pool_end == NULL && t->pools > 0) {
        printf("%s has no private pools: theirs are played as other blocks\n",
               subject->name);
    }
}

/* Figures of a result: X(name, decimals, unit). */
#define FIGURES(X)                                                             \
    X(ns, 1, "ns a block, for its allocation, uses and free")                  \
    X(records, 6, "event records a free")                                      \
    X(queries, 6, "event queries a free")                                      \
    X(others, 6, "other driver calls a free")                                  \
    X(obtains, 0, "driver calls that obtained memory")                         \
    X(peak, 0, "bytes obtained from the driver, at the peak")                  \
    X(live, 0, "bytes requested, at the peak")

static const struct figure {
    const char *name, *unit;
    int decimals;
    size_t offset;
} figures[] = {
#define FIGURE(n, d, u) {#n, (u), (d), offsetof(bench_result, n)},
    FIGURES(FIGURE)};
enum { FIGURES_COUNT = sizeof figures / sizeof figures[0] };

/* Negative: not measured. */
static double value_of(const bench_result *r, const struct figure *f)
{
    return *(const double *)(const void *)((const char *)r + f->offset);
}

/* Bytes held of each byte requested, both at their peaks; negative: unknown. */
static double waste_of(const bench_result *r)
{
    return r->peak >= 0 && r->live > 0 ? r->peak / r->live : -1;
}

static void print_result(const bench_result *r)
{
    for (int i = 0; i < FIGURES_COUNT; i++) {
        const struct figure *f = &figures[i];

        if (value_of(r, f) >= 0) {
            printf("%s=%.*f %s\n", f->name, f->decimals, value_of(r, f),
                   f->unit);
        }
    }
    if (waste_of(r) >= 0) {
        printf("waste=%.4f bytes obtained of each byte requested, at the "
               "peaks\n",
               waste_of(r));
    }
}

static void print_both(const char *name, int decimals, double one, double two,
                       const char *unit)
{
    if (one < 0 || two < 0) {
        return;
    }
    printf("%-8s %16.*f %16.*f ", name, decimals, one, decimals, two);
    if (one > 0) {
        printf("%8.3f", two / one);
    } else {
        printf("%8s", two > 0 ? "more" : "same");
    }
    printf("  %s\n", unit);
}

static void print_comparison(const bench_result *one, const bench_result *two)
{
    printf("%-8s %16s %16s %8s\n", "", "run 1", "run 2", "2 / 1");
    for (int i = 0; i < FIGURES_COUNT; i++) {
        const struct figure *f = &figures[i];

        print_both(f->name, f->decimals, value_of(one, f), value_of(two, f),
                   f->unit);
    }
    print_both("waste", 4, waste_of(one), waste_of(two),
               "bytes obtained of each byte requested, at the peaks");
}

static bool play(const wish *w, const bench_trace *t, bench_result *result)
{
    const bench_subject *subject = bench_subject_find(w->setup.subject);
    bench_play play = {.trace = t,
                       .subject = subject,
                       .steps = w->steps < t->steps ? w->steps : t->steps,
                       .alone = w->setup.threads == 1};

    if (w->conf != NULL) {
        setenv("WARMPOOL_CONF", w->conf, 1);
    }
    if (subject == NULL || !subject->open(&w->setup)) {
        return false;
    }
    print_limits(subject, t);
    fflush(stdout);
    return bench_play_all(&play, result);
}

/* Plays in a process of its own: what one run leaves behind, such as memory
 * that the C library keeps, is not there in the other. */
static bool play_apart(const wish *w, const bench_trace *t,
                       bench_result *result)
{
    int ends[2], status = 0;
    pid_t child;
    bool got;

    fflush(stdout);
    if (pipe(ends) != 0 || (child = fork()) < 0) {
        perror("replay");
        return false;
    }
    if (child == 0) {
        got = play(w, t, result) &&
              write(ends[1], result, sizeof *result) == sizeof *result;
        fflush(stdout);
        _exit(got ? 0 : 1);
    }
    (void)close(ends[1]);
    got = read(ends[0], result, sizeof *result) == sizeof *result;
    (void)close(ends[0]);
    return waitpid(child, &status, 0) == child && status == 0 && got;
}

/* The second run: against=[SUBJECT/]options. */
static wish other_of(const wish *w, char *subject, size_t bytes)
{
    wish other = *w;
    size_t length = strcspn(w->against, "/,:");

    other.conf = w->against;
    if (w->against[length] == '/') {
        snprintf(subject, bytes, "%.*s", (int)length, w->against);
        other.setup.subject = subject;
        other.conf = w->against + length + 1;
    }
    return other;
}

static bool compare(const wish *w, const bench_trace *t)
{
    bench_result one = BENCH_RESULT_NONE, two = BENCH_RESULT_NONE;
    char subject[64];
    wish other = other_of(w, subject, sizeof subject);

    printf("run 2 on %s, conf=%s\n", other.setup.subject, other.conf);
    if (!play_apart(w, t, &one) || !play_apart(&other, t, &two)) {
        return false;
    }
    print_comparison(&one, &two);
    return true;
}

static bool play_once(const wish *w, const bench_trace *t)
{
    bench_result result = BENCH_RESULT_NONE;
    bool played = play(w, t, &result);

    if (played) {
        print_result(&result);
    }
    return played;
}

int main(int argc, char **argv)
{
    wish w = {.setup = {.subject = "warmpool",
                        .work = "replay",
                        .lag = 4,
                        .aging = 1,
                        .clock = bench_play_clock},
              .steps = SIZE_MAX};
    bench_trace *trace;
    char error[256];
    bool played;

    for (int i = 2; i < argc; i++) {
        if (!take(argv[i], &w)) {
            fprintf(stderr, "replay: what is '%s'?\n", argv[i]);
            return 2;
        }
    }
    if (argc < 2) {
        return usage(stderr);
    }
    if (strcmp(argv[1], "--help") == 0) {
        return usage(stdout);
    }
    w.path = argv[1];
    trace = bench_trace_read(w.path, error, sizeof error);
    if (trace == NULL) {
        fprintf(stderr, "replay: %s: %s\n", w.path, error);
        return 1;
    }
    w.setup.size = trace->streams;
    w.setup.devices = trace->devices;
    w.setup.device_of = trace->device_of;
    w.setup.legacy = trace->legacy != BENCH_NO_STREAM ? trace->legacy + 1 : 0;
    print_trace(&w, trace);
    fflush(stdout);
    played = w.against != NULL ? compare(&w, trace) : play_once(&w, trace);
    bench_trace_end(trace);
    return played ? 0 : 1;
}
