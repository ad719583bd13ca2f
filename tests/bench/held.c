/* held.c: how much is held, beside the least that could be: the most bytes that
 * were live, or freed and not done, at a time.
 *
 *   bench held [seeds=1,2,…] [only=PREFIX] [conf=key:value,…]
 *
 * One axis varies at a time, from 8 threads, 64 live buffers each, 100,000
 * buffers of 4 KiB to 4 MiB. Means over the seeds, and the worst of them; conf:
 * of the library. The goal of each row and seed: 1.35 × least + 16 MiB. The
 * default seeds were never used to choose anything: do not. */
#include "tests/bench/plan.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 16, SUBJECTS = 3 };

static const unsigned fresh[] = {48611, 70123, 35797, 91463, 26029};
static const char *const subjects[SUBJECTS] = {"warmpool", "device", "cub"};

typedef struct row {
    const char *name, *work;
    unsigned threads, buffers, slots, streams, lag;
} row;

static const row rows[] = {
    {"20k", "tmixed", 8, 20000, 64, 0, 0},
    {"100k", "tmixed", 8, 100000, 64, 0, 0},
    {"400k", "tmixed", 8, 400000, 64, 0, 0},
    {"1 thread", "tmixed", 1, 100000, 64, 0, 0},
    {"4 threads", "tmixed", 4, 50000, 64, 0, 0},
    {"16 threads", "tmixed", 16, 200000, 64, 0, 0},
    {"64 threads", "tmixed", 64, 400000, 64, 0, 0},
    {"4 threads, 512 live", "tmixed", 4, 200000, 128, 0, 0},
    {"64 threads, 512 live", "tmixed", 64, 200000, 8, 0, 0},
    {"server", "tserver", 8, 0, 0, 0, 0},
    {"64 B to 64 KiB", "tsmall", 8, 0, 0, 0, 0},
    {"1 to 64 MiB", "tlarge", 8, 0, 0, 0, 0},
    {"bursts", "tburst", 4, 0, 0, 0, 0},
    {"phases", "tphases", 8, 0, 0, 0, 0},
    {"8 of 64 in turn", "trotate", 64, 0, 0, 0, 0},
    {"8 begin, 8 exit", "tleave", 64, 0, 0, 0, 0},
    {"recorded, 20k", "tmixeds", 8, 20000, 64, 1, 0},
    {"recorded", "tmixeds", 8, 100000, 64, 1, 0},
    {"recorded, 400k", "tmixeds", 8, 400000, 64, 1, 0},
    {"recorded, lag 1", "tmixeds", 8, 100000, 64, 1, 1},
    {"recorded, lag 4", "tmixeds", 8, 100000, 64, 1, 4},
    {"recorded, lag 32", "tmixeds", 8, 100000, 64, 1, 32},
    {"recorded, lag 64", "tmixeds", 8, 100000, 64, 1, 64},
    {"4 streams, lag 0", "tmixeds", 8, 100000, 64, 4, 0},
    {"4 streams, lag 4", "tmixeds", 8, 100000, 64, 4, 4},
    {"16 streams, lag 4", "tmixeds", 8, 100000, 64, 16, 4},
    {"4 threads, lag 4", "tmixeds", 4, 50000, 64, 1, 4},
    {"64 threads, lag 4", "tmixeds", 64, 400000, 64, 1, 4},
    {"server, lag 0", "tservers", 8, 0, 0, 1, 0},
    {"server, lag 1", "tservers", 8, 0, 0, 1, 1},
    {"server, lag 32", "tservers", 8, 0, 0, 1, 32},
    {"64 B to 64 KiB, lag 0", "tsmalls", 8, 0, 0, 1, 0},
    {"64 B to 64 KiB, lag 32", "tsmalls", 8, 0, 0, 1, 32},
    {"1 to 64 MiB, lag 0", "tlarges", 8, 0, 0, 1, 0},
    {"1 to 64 MiB, lag 32", "tlarges", 8, 0, 0, 1, 32},
};

typedef struct wish {
    unsigned seed[SEEDS_MAX], seeds;
    const char *only, *conf;
    unsigned met, goals;
} wish;

/* A device's memory always has a stream. */
static bool applies(const row *r, const char *subject)
{
    return r->streams > 0 || strcmp(subject, "warmpool") == 0;
}

static bench_setup setup_of(const wish *w, const row *r, unsigned seed)
{
    return (bench_setup){.work = r->work,
                         .threads = r->threads,
                         .ops = UINT64_MAX,
                         .runs = 1,
                         .lag = r->lag,
                         .conf = w->conf,
                         .made = {.seed = seed,
                                  .buffers = r->buffers,
                                  .slots = r->slots,
                                  .streams = r->streams}};
}

/* Mean and worst of the seeds, and whether the goal holds in each of them. */
static void print_subject(wish *w, const bench_part *part, bool has_goal)
{
    double sum = 0, worst = 0;
    bool met = true;

    for (unsigned i = 0; i < w->seeds; i++) {
        const bench_result *r = &part[i].result;

        if (r->least <= 0 || r->peak < 0) {
            printf("%15s ", "-");
            return;
        }
        sum += r->peak / r->least;
        worst = r->peak / r->least > worst ? r->peak / r->least : worst;
        met = met && r->peak <= 1.35 * r->least + 0x1p24;
    }
    printf("%6.3f (%6.3f)%c", sum / w->seeds, worst, met ? ' ' : '!');
    w->goals += has_goal;
    w->met += has_goal && met;
}

static void print_row(wish *w, const row *r)
{
    bench_part part[SUBJECTS][SEEDS_MAX], run[SUBJECTS * SEEDS_MAX];
    double least = 0, live = 0;
    size_t count = 0;

    for (int s = 0; s < SUBJECTS; s++) {
        for (unsigned i = 0; i < w->seeds && applies(r, subjects[s]); i++) {
            run[count++] = (bench_part){.label = subjects[s],
                                        .setup = setup_of(w, r, w->seed[i])};
        }
    }
    bench_run_all(run, count);
    count = 0;
    for (int s = 0; s < SUBJECTS; s++) {
        for (unsigned i = 0; i < w->seeds; i++) {
            part[s][i].result = BENCH_RESULT_NONE;
            if (applies(r, subjects[s])) {
                part[s][i] = run[count++];
            }
        }
    }
    for (unsigned i = 0; i < w->seeds; i++) {
        least += part[0][i].result.least / w->seeds;
        live += part[0][i].result.live / w->seeds;
    }
    printf("%-23s %8.1f %5.2f ", r->name, least / 0x1p20, least / live);
    for (int s = 0; s < SUBJECTS; s++) {
        print_subject(w, part[s], strcmp(subjects[s], "cub") != 0);
    }
    printf("\n");
    fflush(stdout);
}

static bool take(const char *word, wish *w)
{
    if (strncmp(word, "only=", 5) == 0) {
        w->only = word + 5;
        return true;
    }
    if (strncmp(word, "conf=", 5) == 0) {
        w->conf = word + 5;
        return true;
    }
    if (strncmp(word, "seeds=", 6) != 0) {
        return false;
    }
    w->seeds = 0;
    for (word += 5; *word != '\0' && w->seeds < SEEDS_MAX;) {
        char *end;

        w->seed[w->seeds++] = (unsigned)strtoul(word + 1, &end, 10);
        if (end == word + 1 || (*end != ',' && *end != '\0')) {
            return false;
        }
        word = end;
    }
    return true;
}

bool bench_held(int argc, char **argv)
{
    wish w = {.seeds = sizeof fresh / sizeof *fresh, .only = ""};

    memcpy(w.seed, fresh, sizeof fresh);
    for (int i = 0; i < argc; i++) {
        if (!take(argv[i], &w)) {
            fprintf(stderr, "bench: what is '%s'?\n", argv[i]);
            return false;
        }
    }
    printf("held / least, mean of the seeds (worst), ! above 1.35 x least + 16 "
           "MiB; seeds");
    for (unsigned i = 0; i < w.seeds; i++) {
        printf(" %u", w.seed[i]);
    }
    printf("\n%-23s %8s %5s %15s %15s %15s\n", "", "MiB", "/live", subjects[0],
           subjects[1], subjects[2]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strstr(rows[i].name, w.only) != NULL ||
            strstr(rows[i].work, w.only) != NULL) {
            print_row(&w, &rows[i]);
        }
    }
    printf("held: goals met=%u of=%u\n", w.met, w.goals);
    return true;
}
