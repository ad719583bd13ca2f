/* replay.c: the program that plays a trace again.
 *
 *   replay FILE [SUBJECT] [conf=key:value,…] [lag=uses[/aging]]
 *       [events=record/query] [threads=1] [steps=n]
 *
 * Says what is in the trace, then a line name=value for each figure. The same
 * trace, subject and options give the same calls, in the same order: time is
 * that of the trace, for the library and for events, which are done after lag
 * later uses of their stream or, unless aging is 0, after 100 us. threads=1:
 * one thread plays all, else as many as there were. steps: no more than the
 * first n.
 */
#include "tests/bench/play.h"

#include <stdlib.h>
#include <string.h>

/* For AddressSanitizer: what is live at the end of a trace stays so. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

typedef struct wish {
    bench_setup setup;
    const char *path, *conf;
    size_t steps;
} wish;

static bool take(const char *word, wish *w)
{
    bench_setup *s = &w->setup;

    if (strncmp(word, "conf=", 5) == 0) {
        w->conf = word + 5;
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
    printf("trace %s: %zu steps, %u blocks (%u of devices, %u pageable), "
           "%u threads, %u streams, %u private pools, %u devices; at most %.1f "
           "MiB live\n",
           w->path, t->steps, t->buffers, t->on_device, t->pageable, t->workers,
           t->streams, t->pools, t->on_device > 0 ? t->devices : 0,
           (double)t->peak / 0x1p20);
    printf("%s: %s\n", t->whole ? "complete" : "INCOMPLETE", t->ending);
    if (t->strays > 0) {
        printf("%zu steps are left out: their blocks' allocations are "
               "missing\n",
               t->strays);
    }
    print_options(t->options);
    printf("replayed on %s, conf=%s\n", w->setup.subject,
           w->conf != NULL ? w->conf : "");
}

/* What the subject cannot do is done otherwise, and never in silence. */
static void print_limits(const bench_subject *subject, const bench_trace *t)
{
    unsigned other = t->on_device + t->pageable;

    if (subject->place == NULL && other > 0) {
        printf("%s has memory of one sort: %u blocks of devices and pageable "
               "ones are played as if they were of it, without streams\n",
               subject->name, other);
    } else if (subject->pool_end == NULL && t->on_device > 0 &&
               (t->on_device < t->buffers || t->devices > 1)) {
        printf(
            "%s plays all blocks in memory of device 0: %u were of the host, "
            "%u of %u devices\n",
            subject->name, t->buffers - t->on_device, t->on_device, t->devices);
    }
    if (subject->pool_end == NULL && t->pools > 0) {
        printf("%s has no private pools: theirs are played as other blocks\n",
               subject->name);
    }
}

static void print_result(const bench_result *r)
{
    printf("ns=%.1f\n", r->ns);
    if (r->records >= 0) {
        printf("records=%.6f\nqueries=%.6f\nothers=%.6f\nobtains=%.0f\n",
               r->records, r->queries, r->others, r->obtains);
        printf("peak=%.0f\n", r->peak);
    }
    printf("live=%.0f\n", r->live);
    if (r->records >= 0 && r->live > 0) {
        printf("waste=%.4f\n", r->peak / r->live);
    }
}

static bool play(const wish *w, const bench_trace *t)
{
    const bench_subject *subject = bench_subject_find(w->setup.subject);
    bench_play play = {.trace = t,
                       .subject = subject,
                       .steps = w->steps < t->steps ? w->steps : t->steps,
                       .alone = w->setup.threads == 1};
    bench_result result = BENCH_RESULT_NONE;

    if (w->conf != NULL) {
        setenv("WARMPOOL_CONF", w->conf, 1);
    }
    if (subject == NULL || !subject->open(&w->setup)) {
        return false;
    }
    print_limits(subject, t);
    if (!bench_play_all(&play, &result)) {
        return false;
    }
    print_result(&result);
    return true;
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
        fprintf(stderr, "usage: replay FILE [SUBJECT] [conf=key:value,...] "
                        "[lag=uses[/aging]] [events=record/query] "
                        "[threads=1] [steps=n]\n");
        return 2;
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
    played = play(&w, trace);
    bench_trace_end(trace);
    return played ? 0 : 1;
}
