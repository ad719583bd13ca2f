/* axes.c: what an operation costs and what is held for it, side by side, while
 * one thing varies at a time from a base: 8 threads with 4 streams each, 64
 * live buffers a thread of 4 KiB to 4 MiB, 100,000 of them in all, recorded,
 * events done after 4 later pieces of work on their stream.
 *
 *   ns     of the timed work, all threads at once: median of the rounds
 *   run    held / least of that work; least: the threads keep step
 *   trace  held / least of the made trace, threads in turns: mean of the seeds
 *
 * least: the most bytes that were live, or freed and not done, at a time. With
 * several rounds the subjects take turns. The default seeds were never used to
 * choose anything: do not. */
#include "tests/bench/axes.h"

#include "tests/bench/least.h"
#include "tests/bench/made.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is measured ---------------------------------------------------- */

enum { SEEDS_MAX = 16, SUBJECTS = 6, ROUNDS_MAX = 5, ROWS_MAX = 64 };
enum subject { PINNED, TORCH, DEVICE, TORCH_DEVICE, CUB, FLOOR };

static const unsigned fresh[] = {48611, 70123, 35797, 91463, 26029};

static const struct {
    const char *label;
    bool device, peer;
} subjects[SUBJECTS] = {[PINNED] = {"warmpool", false, false},
                        [TORCH] = {"torch", false, true},
                        [DEVICE] = {"device", true, false},
                        [TORCH_DEVICE] = {"torch-device", true, true},
                        [CUB] = {"cub", true, true},
                        [FLOOR] = {"floor", false, true}};

typedef struct row {
    const char *name, *trace, *work; /* null: none */
    unsigned threads, buffers, slots, streams, lag;
    unsigned record_ns, query_ns;
    bool quick; /* in the quick table, too */
} row;

#define MIXED "tmixed", "mixed"
#define BASE  "tmixeds", "mixeds"

static const row rows[] = {
    {"base", BASE, 8, 100000, 64, 4, 4, 0, 0, true},
    {"lag 0", BASE, 8, 100000, 64, 4, 0, 0, 0, true},
    {"lag 1", BASE, 8, 100000, 64, 4, 1, 0, 0, false},
    {"lag 32", BASE, 8, 100000, 64, 4, 32, 0, 0, false},
    {"lag 64", BASE, 8, 100000, 64, 4, 64, 0, 0, false},
    {"20k", "tmixeds", NULL, 8, 20000, 64, 4, 4, 0, 0, false},
    {"400k", "tmixeds", NULL, 8, 400000, 64, 4, 4, 0, 0, false},
    {"1 thread", BASE, 1, 100000, 64, 4, 4, 0, 0, false},
    {"2 threads", BASE, 2, 100000, 64, 4, 4, 0, 0, false},
    {"4 threads", BASE, 4, 50000, 64, 4, 4, 0, 0, false},
    {"16 threads", BASE, 16, 200000, 64, 4, 4, 0, 0, false},
    {"64 threads", BASE, 64, 400000, 64, 4, 4, 0, 0, false},
    {"events 1000/500", NULL, "mixeds", 8, 0, 64, 4, 4, 1000, 500, false},
    {"64 B to 64 KiB", "tsmalls", "smalls", 8, 0, 0, 4, 4, 0, 0, true},
    {"1 to 64 MiB", "tlarges", "larges", 8, 0, 0, 4, 4, 0, 0, false},
    {"bursts", "tbursts", "bursts", 8, 0, 1000, 4, 4, 0, 0, false},
    {"phases", "tphasess", "phasess", 8, 0, 0, 4, 4, 0, 0, false},
    {"8 begin, 8 exit", "tleaves", NULL, 64, 0, 0, 4, 4, 0, 0, false},
    {"1 x 16 streams", BASE, 1, 100000, 64, 16, 4, 0, 0, true},
    {"1 x 100 streams", BASE, 1, 100000, 64, 100, 4, 0, 0, false},
    {"1 x 1000 streams", BASE, 1, 100000, 64, 1000, 4, 0, 0, true},
    {"8 x 125 streams", BASE, 8, 100000, 64, 125, 4, 0, 0, false},
    /* One stream a thread. */
    {"own, lag 0, 20k", "tmixeds", NULL, 8, 20000, 64, 1, 0, 0, 0, false},
    {"own, lag 0", BASE, 8, 100000, 64, 1, 0, 0, 0, true},
    {"own, lag 0, 400k", "tmixeds", NULL, 8, 400000, 64, 1, 0, 0, 0, false},
    {"own, lag 1", BASE, 8, 100000, 64, 1, 1, 0, 0, false},
    {"own, lag 4", BASE, 8, 100000, 64, 1, 4, 0, 0, false},
    {"own, lag 32", BASE, 8, 100000, 64, 1, 32, 0, 0, false},
    {"own, 1 thread", BASE, 1, 100000, 64, 1, 4, 0, 0, false},
    {"own, 4 threads", BASE, 4, 50000, 64, 1, 4, 0, 0, false},
    {"own, 64 threads", BASE, 64, 400000, 64, 1, 4, 0, 0, false},
    {"own, 1000/500", NULL, "mixeds", 8, 0, 64, 1, 4, 1000, 500, false},
    {"own, tail, 1 thread", NULL, "tails", 1, 0, 64, 1, 4, 0, 0, true},
    {"own, 64B-64K, lag 0", "tsmalls", "smalls", 8, 0, 0, 1, 0, 0, 0, true},
    {"own, 64B-64K, lag 32", "tsmalls", "smalls", 8, 0, 0, 1, 32, 0, 0, false},
    {"own, 1-64M, lag 0", "tlarges", "larges", 8, 0, 0, 1, 0, 0, 0, false},
    {"own, 1-64M, lag 32", "tlarges", "larges", 8, 0, 0, 1, 32, 0, 0, false},
    {"own, 10k, 1000/500", NULL, "bursts", 1, 0, 10000, 1, 4, 1000, 500, true},
    {"server, lag 0", "tservers", NULL, 8, 0, 0, 1, 0, 0, 0, true},
    {"server, lag 1", "tservers", NULL, 8, 0, 0, 1, 1, 0, 0, false},
    {"server, lag 32", "tservers", NULL, 8, 0, 0, 1, 32, 0, 0, true},
    /* Nothing is recorded. */
    {"plain, 20k", "tmixed", NULL, 8, 20000, 64, 0, 4, 0, 0, true},
    {"plain", MIXED, 8, 100000, 64, 0, 4, 0, 0, true},
    {"plain, 400k", "tmixed", NULL, 8, 400000, 64, 0, 4, 0, 0, true},
    {"plain, 1 thread", MIXED, 1, 100000, 64, 0, 4, 0, 0, true},
    {"plain, 4 threads", MIXED, 4, 50000, 64, 0, 4, 0, 0, false},
    {"plain, 16 threads", MIXED, 16, 200000, 64, 0, 4, 0, 0, false},
    {"plain, 64 threads", MIXED, 64, 400000, 64, 0, 4, 0, 0, false},
    {"plain, 4 x 128 live", MIXED, 4, 200000, 128, 0, 4, 0, 0, false},
    {"plain, 64 x 8 live", MIXED, 64, 200000, 8, 0, 4, 0, 0, false},
    {"plain, 64B-64K", "tsmall", "small", 8, 0, 0, 0, 4, 0, 0, false},
    {"plain, 1-64M", "tlarge", "large", 8, 0, 0, 0, 4, 0, 0, true},
    {"plain, bursts", "tburst", "burst", 8, 0, 1000, 0, 4, 0, 0, false},
    {"plain, phases", "tphases", "phases", 8, 0, 0, 0, 4, 0, 0, false},
    {"plain, 8 of 64 at work", "trotate", NULL, 64, 0, 0, 0, 4, 0, 0, false},
    {"plain, 8 exit", "tleave", NULL, 64, 0, 0, 0, 4, 0, 0, false},
    {"plain, server", "tserver", NULL, 8, 0, 0, 0, 4, 0, 0, true},
    {"plain, short threads", NULL, "short", 1, 0, 0, 0, 4, 0, 0, false},
};

enum { ROWS = sizeof rows / sizeof *rows };

typedef struct figure {
    bench_result timed; /* ns -1: not measured */
    double held, least; /* of the traces: mean bytes; least 0: none */
    double mean, worst; /* held / least */
    double records, queries, later; /* a free; means. later: of all work, % */
    bool bounded;                   /* in each: <= 1.35 least + 16 MiB */
} figure;

typedef struct table {
    unsigned seed[SEEDS_MAX], seeds, rounds;
    const char *only, *conf;
    bool timed, peers, quick;
    figure of[ROWS][SUBJECTS];
    double equal[ROWS]; /* ns by torch's with no more memory; 0: no figure */
    unsigned met, goals;
} table;

/* Has a column. */
static bool is_shown(const table *t, int s)
{
    return s != FLOOR && (t->peers || !subjects[s].peer || s == CUB);
}

static bool is_measured(const table *t, const row *r, int s)
{
    if (s == FLOOR) {
        return r->work != NULL && strcmp(r->work, "mixed") == 0;
    }
    return (t->peers || !subjects[s].peer || s == CUB) &&
           (!subjects[s].device || r->streams > 0);
}

static bench_setup base_setup(const table *t, const row *r, unsigned seed)
{
    return (bench_setup){.threads = r->threads,
                         .ops = UINT64_MAX,
                         .runs = 1,
                         .lag = r->lag,
                         .conf = t->conf,
                         .made = {.seed = seed,
                                  .buffers = r->buffers,
                                  .slots = r->slots,
                                  .streams = r->streams}};
}

/* ---- memory: the traces, side by side ------------------------------------ */

static void sum_up(figure *f, const bench_part *part, unsigned seeds)
{
    f->bounded = true;
    for (unsigned i = 0; i < seeds; i++) {
        const bench_result *r = &part[i].result;

        if (r->least <= 0 || r->peak < 0) {
            f->least = 0;
            return;
        }
        f->held += r->peak / seeds;
        f->least += r->least / seeds;
        f->mean += r->peak / r->least / seeds;
        f->records += r->records / seeds;
        f->queries += r->queries / seeds;
        f->later += r->later > 0 ? 100 * r->later / seeds : 0;
        f->worst =
            r->peak / r->least > f->worst ? r->peak / r->least : f->worst;
        f->bounded = f->bounded && r->peak <= 1.35 * r->least + 0x1p24;
    }
}

static void play_row(table *t, const row *r, figure *f)
{
    bench_part part[SUBJECTS * SEEDS_MAX];
    size_t count = 0;

    for (int s = 0; s < SUBJECTS; s++) {
        for (unsigned i = 0; i < t->seeds && s != FLOOR && is_measured(t, r, s);
             i++) {
            part[count] = (bench_part){.label = subjects[s].label,
                                       .setup = base_setup(t, r, t->seed[i])};
            part[count++].setup.work = r->trace;
        }
    }
    bench_run_all(part, count);
    count = 0;
    for (int s = 0; s < SUBJECTS; s++) {
        if (s != FLOOR && is_measured(t, r, s)) {
            sum_up(&f[s], &part[count], t->seeds);
            count += t->seeds;
        }
    }
}

/* ---- time: one after the other, in turns --------------------------------- */

static bench_setup timed_setup(const table *t, const row *r)
{
    bench_setup setup = base_setup(t, r, t->seed[0]);

    setup.work = r->work;
    /* Or a thread that waits for a core keeps its last ones; of many streams,
     * events would be old before they are done, and the least too high. */
    setup.aging = r->streams <= 16;
    setup.size = r->streams > 1 ? r->threads * r->streams : 0;
    setup.record_ns = r->record_ns;
    setup.query_ns = r->query_ns;
    setup.ops = t->quick ? 60000 : 300000;
    setup.ms = t->quick ? 20 : 60;
    setup.warm = 16000000;
    setup.warm_ms = t->quick ? 60 : 300;
    setup.runs = 3;
    return setup;
}

static void time_row(const table *t, const row *r, figure *f)
{
    bench_result result[SUBJECTS][ROUNDS_MAX];
    bench_setup setup = timed_setup(t, r);

    for (unsigned i = 0; i < t->rounds; i++) {
        for (int s = 0; s < SUBJECTS; s++) {
            if (is_measured(t, r, s)) {
                (void)bench_run(subjects[s].label, &setup, &result[s][i]);
            }
        }
    }
    for (int s = 0; s < SUBJECTS; s++) {
        if (is_measured(t, r, s)) {
            f[s].timed = bench_middle(result[s], t->rounds);
        }
    }
}

/* ---- at equal memory ----------------------------------------------------- */

/* How many times as fast as PyTorch the library is with no more memory. */
static const struct {
    const char *row;
    double times;
} equal_goals[] = {{"plain, 1 thread", 1.3},
                   {"plain", 2.5},
                   {"own, lag 4", 5},
                   {"own, 1000/500", 8}};

/* The library with more and more memory in its caches, beside the peers: what
 * speed costs. */
static void print_equal(table *t, const row *r, double *equal)
{
    static const char *const confs[] = {"keep:off", "",         "keep:30",
                                        "keep:60",  "keep:120", "keep:180",
                                        "keep:240", "keep:360", "keep:500"};
    const figure *f = t->of[r - rows];
    bench_setup setup = timed_setup(t, r);
    double most = bench_waste(&f[TORCH].timed), best = -1;

    printf("\nspeed against memory: %s\n", r->name);
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        bench_result result;

        setup.conf = confs[i];
        if (!bench_run_quietly("warmpool", &setup, &result)) {
            continue;
        }
        printf("  %-24s %7.1f ns at %.2f x least\n",
               confs[i][0] != '\0' ? confs[i] : "warmpool, default", result.ns,
               bench_waste(&result));
        if (bench_waste(&result) <= most && (best < 0 || result.ns < best)) {
            best = result.ns;
        }
    }
    if (most > 0) {
        printf("  %-24s %7.1f ns at %.2f x least: %.2f times what warmpool "
               "takes with no more\n",
               "torch", f[TORCH].timed.ns, most,
               best > 0 ? f[TORCH].timed.ns / best : 0);
        *equal = best > 0 ? best / f[TORCH].timed.ns : 1000;
    }
}

/* ---- printing ------------------------------------------------------------ */

static void print_number(double value, int width)
{
    char text[32] = "-";

    if (value > 0) {
        snprintf(text, sizeof text, value < 100 ? "%.2f" : "%.0f", value);
    }
    printf(" %*s", width, text);
}

static void print_figure(const figure *f)
{
    print_number(f->timed.ns, 7);
    print_number(bench_waste(&f->timed), 5);
    print_number(f->mean, 5);
    printf("%c", f->least > 0 && !f->bounded ? '!' : ' ');
}

static void print_row(const table *t, const row *r)
{
    const figure *f = t->of[r - rows];

    printf("%-22s", r->name);
    for (int s = 0; s < SUBJECTS; s++) {
        if (is_shown(t, s)) {
            print_figure(&f[s]);
        }
    }
    for (int s = 0; s < SUBJECTS; s++) {
        const bench_result *b = &f[s].timed;

        if (b->waits > 0) {
            printf(
                "\n  %-12s %.3f waits of streams a free, which delay %.1f %% "
                "of the work",
                subjects[s].label, b->waits, b->delay);
        }
        if (b->p50 > 0) {
            printf(
                "\n  %-12s alloc + record, ns: p50 %.0f, p90 %.0f, p99 %.0f, "
                "p99.9 %.0f, p99.99 %.0f",
                subjects[s].label, b->p50, b->p90, b->p99, b->p999, b->p9999);
        }
    }
    if (!t->timed && f[DEVICE].least > 0) {
        printf("  %.2f, %.2f; %.1f %%", f[DEVICE].records, f[DEVICE].queries,
               f[DEVICE].later);
    }
    printf("\n");
    fflush(stdout);
}

static void print_head(const table *t)
{
    printf("\none axis at a time from 8 threads x 4 streams, lag 4, 100k; own: "
           "one stream a thread; plain:\nnothing recorded. ns; held / least "
           "run, and in traces (mean), ! above 1.35 x least + 16 MiB\nseeds");
    for (unsigned i = 0; i < t->seeds; i++) {
        printf(" %u", t->seed[i]);
    }
    if (!t->timed) {
        printf("\nat the end, of the device: events and queries a free, and "
               "work that is done later");
    }
    printf("\n%-22s", "");
    for (int s = 0; s < SUBJECTS; s++) {
        if (is_shown(t, s)) {
            printf(" %19s ", subjects[s].label);
        }
    }
    printf("\n");
}

static void json_row(FILE *out, const table *t, const row *r)
{
    for (int s = 0; s < SUBJECTS; s++) {
        const figure *f = &t->of[r - rows][s];

        if (!is_measured(t, r, s)) {
            continue;
        }
        fprintf(out, "{\"bench\":\"axes\",\"row\":\"%s\",\"case\":\"%s\"",
                r->name, subjects[s].label);
        fprintf(out, ",\"seeds\":%u,\"trace_held\":%.4g,\"trace_worst\":%.4g",
                t->seeds, f->mean, f->worst);
#define JSON(name, meaning)                                                    \
    if (f->timed.name >= 0) {                                                  \
        fprintf(out, ",\"" #name "\":%.6g", f->timed.name);                    \
    }
        BENCH_RESULT_MAP(JSON)
#undef JSON
        fprintf(out, "}\n");
    }
}

/* ---- goals --------------------------------------------------------------- */

static size_t row_of(const char *name)
{
    size_t i = 0;

    while (i < ROWS - 1 && strcmp(rows[i].name, name) != 0) {
        i++;
    }
    return i;
}

static const figure *find(const table *t, const char *name, int s)
{
    return &t->of[row_of(name)][s];
}

/* value < 0: it was not measured here, and is no goal of this run. */
static void goal(table *t, const char *what, double value, double limit)
{
    if (value > 0) {
        printf("%-56s %-8s %8.2f <= %.2f\n", what,
               value <= limit ? "met" : "NOT MET", value, limit);
        t->met += value <= limit;
        t->goals++;
    }
}

static double ratio(double a, double b)
{
    return a > 0 && b > 0 ? a / b : -1;
}

static double share_of(const table *t, const char *a, const char *b, int s)
{
    return ratio(find(t, a, s)->mean, find(t, b, s)->mean);
}

static double ns_of(const table *t, const char *name, int s)
{
    return find(t, name, s)->timed.ns;
}

/* What every row has to keep. */
static void goals_of_rows(table *t)
{
    unsigned above = 0, rows_held = 0, more = 0, pairs = 0;

    for (size_t i = 0; i < ROWS; i++) {
        for (int s = 0; s < SUBJECTS; s++) {
            const figure *f = &t->of[i][s];
            const figure *mine =
                &t->of[i][subjects[s].device ? DEVICE : PINNED];

            if (f->least > 0 && !subjects[s].peer) {
                above += !f->bounded;
                rows_held++;
            } else if (f->least > 0 && mine->least > 0) {
                more += mine->held > 1.03 * f->held + 0x1p24;
                pairs++;
            }
        }
    }
    printf(
        "\n%u of %u rows of traces hold more than 1.35 x least + 16 MiB in a "
        "seed; in %u of %u pairs\nwarmpool holds more than a peer by 3 %% + "
        "16 MiB\n",
        above, rows_held, more, pairs);
    t->goals += 1U + (pairs > 0);
    t->met += (unsigned)(above == 0) + (pairs > 0 && more == 0);
}

static void goals_of_memory(table *t)
{
    static const char *const lags[] = {"own, lag 0", "own, lag 1", "own, lag 4",
                                       "own, lag 32"};

    for (int s = 0; s < SUBJECTS; s++) {
        char what[80];

        if (subjects[s].peer) {
            continue;
        }
        for (size_t i = 0; i < sizeof lags / sizeof *lags; i++) {
            snprintf(what, sizeof what, "%s, %s: held / least",
                     subjects[s].label, lags[i]);
            goal(t, what, find(t, lags[i], s)->mean, 1.30);
        }
        snprintf(what, sizeof what, "%s, server, lag 0: held / least",
                 subjects[s].label);
        goal(t, what, find(t, "server, lag 0", s)->mean, 1.18);
        snprintf(what, sizeof what, "%s: 400k by 20k", subjects[s].label);
        goal(t, what, share_of(t, "own, lag 0, 400k", "own, lag 0, 20k", s),
             1.05);
        snprintf(what, sizeof what, "%s: 64 threads by 4", subjects[s].label);
        goal(t, what, share_of(t, "own, 64 threads", "own, 4 threads", s), 1.1);
    }
    goal(t, "nothing recorded: 400k by 20k",
         share_of(t, "plain, 400k", "plain, 20k", PINNED), 1.05);
    goal(t, "nothing recorded: 64 threads by 4",
         share_of(t, "plain, 64 threads", "plain, 4 threads", PINNED), 1.1);
}

/* What the ratio to the floor is at most, by what it is with one thread. */
static double flatness(const table *t)
{
    static const char *const counts[] = {
        "plain, 4 threads", "plain", "plain, 16 threads", "plain, 64 threads"};
    double one = ratio(ns_of(t, "plain, 1 thread", PINNED),
                       ns_of(t, "plain, 1 thread", FLOOR));
    double most = -1;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double here = ratio(
            ratio(ns_of(t, counts[i], PINNED), ns_of(t, counts[i], FLOOR)),
            one);

        most = here > most ? here : most;
    }
    return most;
}

static void goals_of_records(table *t)
{
    for (int s = PINNED; s <= DEVICE; s += DEVICE - PINNED) {
        double many = find(t, "1 x 1000 streams", s)->timed.metadata;
        double few = find(t, "1 x 16 streams", s)->timed.metadata;
        char what[80];

        snprintf(what, sizeof what, "%s: bytes of records a stream",
                 subjects[s].label);
        goal(t, what, many > few ? (many - few) / (1000 - 16) : -1, 1024);
        snprintf(what, sizeof what, "%s: waits delay work, %%",
                 subjects[s].label);
        goal(t, what, find(t, "base", s)->timed.delay + 1e-9, 1);
    }
    goal(t, "bytes of records a block of 1 to 64 MiB",
         find(t, "plain, 1-64M", PINNED)->timed.metadata / (8 * 64),
         2048 + 8 * 8);
}

static void goals_of_time(table *t)
{
    goal(t, "nothing recorded: flat, by the ratio to the floor", flatness(t),
         1.5);
    for (size_t k = 0; k < sizeof equal_goals / sizeof *equal_goals; k++) {
        char what[80];

        snprintf(what, sizeof what, "%s, torch's memory: ns by torch's",
                 equal_goals[k].row);
        goal(t, what, t->equal[row_of(equal_goals[k].row)],
             1 / equal_goals[k].times);
    }
    goal(t, "bursts of 10,000, events of 1000/500: ns",
         ns_of(t, "own, 10k, 1000/500", PINNED), 300);
    for (int s = 0; s < SUBJECTS; s++) {
        const bench_result *many = &find(t, "1 x 1000 streams", s)->timed;
        int peer = s == PINNED ? TORCH : CUB;
        char what[80];

        if (subjects[s].peer) {
            continue;
        }
#define GOAL(text, value, limit)                                               \
    snprintf(what, sizeof what, "%s, " text, subjects[s].label);               \
    goal(t, what, value, limit)
        GOAL("1000 streams by 16: ns",
             ratio(many->ns, ns_of(t, "1 x 16 streams", s)), 2);
        GOAL("1000 streams: records a free", many->records, 1.1);
        GOAL("1000 streams: queries a free", many->queries, 1.5);
        GOAL("1000 streams: ns by the peer's",
             ratio(many->ns, ns_of(t, "1 x 1000 streams", peer)), 0.5);
    }
    goal(t, "1 to 64 MiB, nothing recorded: ns by torch's",
         ratio(ns_of(t, "plain, 1-64M", PINNED),
               ns_of(t, "plain, 1-64M", TORCH)),
         1);
    goal(t, "1 to 64 MiB, recorded: ns by torch's",
         ratio(ns_of(t, "own, 1-64M, lag 0", PINNED),
               ns_of(t, "own, 1-64M, lag 0", TORCH)),
         1);
    goal(t, "alloc + record, p99.9 by torch's",
         ratio(find(t, "own, tail, 1 thread", PINNED)->timed.p999,
               find(t, "own, tail, 1 thread", TORCH)->timed.p999),
         1);
}

static bool is_peer(int s)
{
    return subjects[s].peer && s != FLOOR;
}

/* Figures in which the library is no worse than a peer: ns, and held. */
static void print_ahead(const table *t)
{
    unsigned ahead = 0, all = 0;

    for (size_t i = 0; i < ROWS; i++) {
        for (int s = 0; s < SUBJECTS; s++) {
            const figure *f = &t->of[i][s];
            const figure *mine =
                &t->of[i][subjects[s].device ? DEVICE : PINNED];

            if (is_peer(s) && f->timed.ns > 0 && mine->timed.ns > 0) {
                ahead += mine->timed.ns <= f->timed.ns;
                all++;
            }
            if (is_peer(s) && f->least > 0 && mine->least > 0) {
                ahead += mine->held <= f->held;
                all++;
            }
        }
    }
    printf("bench-peers: ahead=%u of=%u\n", ahead, all);
}

static bool is_wanted(const table *t, const row *r)
{
    return (!t->quick || r->quick) && (t->timed || r->trace != NULL) &&
           (strstr(r->name, t->only) != NULL ||
            (r->trace != NULL && strstr(r->trace, t->only) != NULL));
}

/* ---- the table ----------------------------------------------------------- */

static bool take(const char *word, table *t)
{
    if (strncmp(word, "only=", 5) == 0) {
        t->only = word + 5;
        return true;
    }
    if (strncmp(word, "conf=", 5) == 0) {
        t->conf = word + 5;
        return true;
    }
    if (strncmp(word, "seeds=", 6) != 0) {
        return false;
    }
    t->seeds = 0;
    for (word += 5; *word != '\0' && t->seeds < SEEDS_MAX;) {
        char *end;

        t->seed[t->seeds++] = (unsigned)strtoul(word + 1, &end, 10);
        if (end == word + 1 || (*end != ',' && *end != '\0')) {
            return false;
        }
        word = end;
    }
    return true;
}

static void measure(table *t, FILE *json)
{
    print_head(t);
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = &rows[i];

        if (!is_wanted(t, r)) {
            continue;
        }
        if (r->trace != NULL) {
            play_row(t, r, t->of[i]);
        }
        if (r->work != NULL && t->timed) {
            time_row(t, r, t->of[i]);
        }
        print_row(t, r);
        if (json != NULL) {
            json_row(json, t, r);
        }
    }
    for (size_t i = 0; i < ROWS && t->timed && !t->quick; i++) {
        for (size_t k = 0; k < sizeof equal_goals / sizeof *equal_goals; k++) {
            if (is_wanted(t, &rows[i]) &&
                strcmp(rows[i].name, equal_goals[k].row) == 0) {
                print_equal(t, &rows[i], &t->equal[i]);
            }
        }
    }
}

bool bench_axes(enum bench_axes which, const char *json, char **word,
                unsigned *met, unsigned *goals)
{
    table *t = calloc(1, sizeof *t);
    FILE *out = json != NULL ? fopen(json, "w") : NULL;

    if (t == NULL || (json != NULL && out == NULL)) {
        free(t);
        return false;
    }
    t->only = "";
    t->quick = which == BENCH_AXES_QUICK;
    t->timed = which != BENCH_AXES_HELD;
    t->peers = which == BENCH_AXES_PEERS;
    t->rounds = t->peers ? 3 : 1;
    t->seeds = t->quick ? 1 : sizeof fresh / sizeof *fresh;
    memcpy(t->seed, fresh, sizeof fresh);
    for (size_t i = 0; i < ROWS; i++) {
        for (int s = 0; s < SUBJECTS; s++) {
            t->of[i][s].timed = BENCH_RESULT_NONE;
        }
    }
    for (; word != NULL && *word != NULL; word++) {
        if (!take(*word, t)) {
            fprintf(stderr, "bench: what is '%s'?\n", *word);
            free(t);
            return false;
        }
    }
    measure(t, out);
    goals_of_rows(t);
    goals_of_memory(t);
    goals_of_time(t);
    goals_of_records(t);
    if (met != NULL) {
        *met += t->met;
        *goals += t->goals;
    } else {
        printf("bench: goals met=%u of=%u\n", t->met, t->goals);
    }
    if (t->peers) {
        print_ahead(t);
    }
    free(t);
    return out == NULL || fclose(out) == 0;
}
