/* plan.c: the table of what is measured, against which goal. */
#include "tests/bench/plan.h"

#include <string.h>

#define THREADS                                                                \
    {                                                                          \
        1, 2, 4, 8                                                             \
    }
#define RUNS                                                                   \
    {                                                                          \
        1, 3, 5                                                                \
    }
#define YARDSTICKS                                                             \
    {"warmpool", NULL}, {"floor", NULL}, {"none", NULL}, {"glibc", NULL},      \
        {"mimalloc", NULL}, {"jemalloc", NULL},                                \
    {                                                                          \
        "jemalloc-8M", NULL                                                    \
    }
#define EVENTS(record, query) .record_ns = (record), .query_ns = (query)
#define LATE                  .lag = 4, .aging = 1
/* Slow peers do fewer operations, and everybody is given the same time. */
#define TIMED .ms = {0, 20, 300}
/* What is live repeats with the plan, every 65,536 operations, but a cache may
 * need many of those until it holds the most of every size. */
#define STEADY TIMED, .warm = {0, 4000000, 16000000}, .warm_ms = {0, 240, 1000}
/* A figure moves from machine to machine, its ratio to the floor less: so many
 * ns where the floor cost what it did when the goal was set. */
#define AT_FLOOR(ns, floor)                                                    \
    .goal = BENCH_RATIO, .yard = "floor", .limit = (ns) / (floor),             \
    .yard_ns = (floor), .flat = true
/* The goals of rows that have no other figure: ns, and times what a yardstick
 * takes. */
#define ABSOLUTE(ns)    .goal = BENCH_ABSOLUTE, .limit = (ns)
#define ABOVE(of, ns)   .goal = BENCH_ABOVE, .yard = (of), .limit = (ns)
#define RATIO(of, most) .goal = BENCH_RATIO, .yard = (of), .limit = (most)
#define FLOOR_64K       4.5
#define FLOOR_MIXED     7.5

/* The peers' figures are of another machine: never in a ratio. */
const bench_row bench_rows[] = {
    {.name = "reserve",
     .title = "reserve a handle already held",
     .work = "reserve",
     .threads = THREADS,
     .ops = {1000, 10000000, 20000000},
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"tls", "tls"}},
     RATIO("tls", 1.5),
     .peers = "PyTorch 10.2 at every count, TLS read 1.4"},
    {.name = "reserve_on",
     .title = "reserve a handle held and bound to the same stream",
     .work = "reserve_on",
     .threads = THREADS,
     .ops = {1000, 10000000, 20000000},
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"tls", "tls"}},
     RATIO("tls", 3),
     .peers = "PyTorch 66, TLS read + set stream 4.4"},
    {.name = "reserve_two",
     .title = "the same on two streams in turn, above the library's two calls",
     .work = "reserve_two",
     .threads = THREADS,
     .ops = {1000, 3000000, 10000000},
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"floor", NULL}},
     ABOVE("floor", 20),
     .peers = "PyTorch 13 to 23, without its workspace"},
    {.name = "churn",
     .title = "thread that reserves once and exits, above a bare thread",
     .work = "churn",
     .threads = {8},
     .ops = {1, 6, 20},
     .runs = {3, 51, 501},
     .series = {{"warmpool", NULL}, {"tls", NULL}, {"bare", NULL}},
     ABSOLUTE(700),
     .paired = true,
     .peers = "PyTorch 1910 to 2490, TLS read 210 to 270"},
    {.name = "birth1",
     .title = "first reserve and exit of threads that come and go at once",
     .work = "birth1",
     .unhurried = true,
     .threads = THREADS,
     .ops = {10, 500, 5000},
     .runs = {1, 3, 5},
     .series = {{"warmpool", NULL}, {"mutex-stack", NULL}}},
    {.name = "birth5",
     .title = "the same with five kinds",
     .work = "birth5",
     .unhurried = true,
     .threads = THREADS,
     .ops = {10, 500, 5000},
     .runs = {1, 3, 5},
     .series = {{"warmpool", NULL}, {"mutex-stack", NULL}}},
    {.name = "hot64k",
     .title = "alloc + free 64 KiB, no stream",
     .work = "hot64k",
     LATE,
     .threads = THREADS,
     .ops = {500, 300000, 1000000},
     TIMED,
     .runs = RUNS,
     .series = {YARDSTICKS},
     RATIO("floor", 2.5),
     .flat = true,
     .peers = "PyTorch 114 / 400 / 454 / 953, RMM 147 / 593 / 565 / 632, "
              "floor 4.5, mimalloc 19"},
    {.name = "mixed",
     .title = "4 KiB to 4 MiB log-uniform, 64 live a thread, no stream",
     .work = "mixed",
     LATE,
     .threads = THREADS,
     .ops = {500, 200000, 300000},
     STEADY,
     .runs = RUNS,
     .series = {YARDSTICKS},
     RATIO("floor", 4),
     .flat = true,
     .peers = "PyTorch 116 / 549 / 527 / 686, RMM 380 / 1393 / 2338 / 2105, "
              "floor 7.5, mimalloc 184"},
    {.name = "xthread",
     .title = "64 KiB, freed by another thread",
     .work = "xthread",
     LATE,
     .threads = {2, 4, 8},
     .ops = {500, 30000, 300000},
     TIMED,
     .warm = {0, 400000, 4000000},
     .warm_ms = {0, 30, 300},
     .runs = RUNS,
     .series = {{"warmpool", NULL},
                {"none", NULL},
                {"glibc", NULL},
                {"mimalloc", NULL},
                {"jemalloc", NULL},
                {"jemalloc-8M", NULL}},
     ABSOLUTE(150),
     .peers = "2/4/8 threads: PyTorch 2186 / 828 / 1410, RMM 2767 / 777 / "
              "2366, mimalloc 587 / 452 / 295"},
    {.name = "mixeds",
     .title = "mixed, own stream recorded, events free",
     .work = "mixeds",
     LATE,
     .threads = THREADS,
     .ops = {500, 60000, 60000},
     STEADY,
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"floor", "mixed"}, {"cub", NULL}},
     AT_FLOOR(80, FLOOR_MIXED),
     .peers = "PyTorch 450 / 2179 / 1737 / 2773, RMM 386 / 1340 / 1836 / "
              "2505, CUB 345 / 1866 / 1115 / 1476"},
    {.name = "mixeds-1000",
     .title = "the same, a record costs 1000 ns and a query 500 ns",
     .work = "mixeds",
     EVENTS(1000, 500),
     LATE,
     .threads = THREADS,
     .ops = {500, 60000, 60000},
     STEADY,
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"floor", "mixed"}, {"cub", NULL}},
     ABSOLUTE(300),
     .peers = "PyTorch 2540 / 4509 / 4112 / 4006, RMM 1425 / 3775 / 4845 / "
              "4135, CUB 1385 / 5416 / 3392 / 3954"},
    {.name = "calls",
     .title = "driver calls a free in mixeds",
     .of = "mixeds",
     .threads = THREADS,
     .series = {{"warmpool", NULL}, {"floor", NULL}, {"cub", NULL}},
     .goal = BENCH_CALLS,
     .limit = 0.125,
     .peers = "PyTorch 1 record, 2 queries, 6 others; RMM 1 record"},
    {.name = "hot64ks",
     .title = "64 KiB, own stream recorded, events free",
     .work = "hot64ks",
     LATE,
     .threads = THREADS,
     .ops = {500, 60000, 60000},
     TIMED,
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"floor", "hot64k"}, {"cub", NULL}},
     .peers = "PyTorch 448 / 2077 / 1599 / 2823, RMM 149 / 563 / 613 / 649"},
    {.name = "xthreads",
     .title = "64 KiB, recorded and freed by another thread, events free",
     .work = "xthreads",
     LATE,
     .unhurried = true,
     .threads = {2, 4, 8},
     .ops = {500, 60000, 60000},
     TIMED,
     .runs = RUNS,
     .series = {{"warmpool", NULL}, {"cub", NULL}},
     .peers = "PyTorch 3331 / 3006 / 2838, RMM 1624 / 984 / 2112"},
    {.name = "events",
     .title = "the bench's own events: a use, a record and a query",
     .work = "events",
     LATE,
     .unhurried = true,
     .threads = THREADS,
     .ops = {500, 30000, 300000},
     .runs = RUNS,
     .series = {{"own", NULL}, {"shared", "events-shared"}}},
    {.name = "device-64k",
     .title = "memory of a device, 64 KiB, in the order of an own stream",
     .work = "hot64k",
     .threads = THREADS,
     .ops = {1000, 100000, 1000000},
     TIMED,
     .runs = RUNS,
     .series = {{"device", NULL}, {"floor", "hot64k"}, {"cub", NULL}},
     AT_FLOOR(30, FLOOR_64K),
     .peers = "PyTorch 317 to 951, RMM 142 to 626, CUB 122 to 598, cnmem 93 "
              "to 454"},
    {.name = "device-mix",
     .title = "the same, mixed sizes",
     .work = "mixed",
     .threads = THREADS,
     .ops = {300, 60000, 300000},
     STEADY,
     .runs = RUNS,
     .series = {{"device", NULL}, {"floor", "mixed"}, {"cub", NULL}},
     AT_FLOOR(60, FLOOR_MIXED),
     .peers = "PyTorch 583 to 1748, RMM 392 to 2168, CUB 323 to 1310, cnmem "
              "516 to 748"},
    {.name = "host-hot64k",
     .title = "on the host device: 64 KiB, against locking every request",
     .work = "hot64k",
     .threads = {1, 2},
     .ops = {20, 500, 5000},
     .runs = RUNS,
     .series = {{"host", NULL}, {"per-request", NULL}}},
    {.name = "host-mixeds",
     .title = "on the host device: mixed, own stream recorded",
     .work = "mixeds",
     .threads = {1, 2},
     .ops = {100, 4000, 20000},
     .runs = RUNS,
     .series = {{"host", NULL}}},
};

const size_t bench_row_count = sizeof bench_rows / sizeof *bench_rows;

size_t bench_row_find(const char *name)
{
    size_t i = 0;

    while (i < bench_row_count - 1 && strcmp(bench_rows[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* glibc's malloc is the slowest, jemalloc is faster with more in its threads'
 * caches; bare threads cost nothing above bare ones. */
bool bench_series_unhurried(const char *label)
{
    return strcmp(label, "glibc") == 0 || strcmp(label, "jemalloc") == 0 ||
           strcmp(label, "bare") == 0;
}

const bench_result *bench_series_of(const bench_row *row, unsigned series,
                                    const bench_figures *figures)
{
    const char *name = row->series[series].work;
    size_t i = name != NULL ? bench_row_find(name) : 0;
    int of = -1;

    if (name != NULL && strcmp(bench_rows[i].name, name) == 0) {
        of = bench_series_find(&bench_rows[i], row->series[series].label);
    }
    return of >= 0 ? figures[i].of[of] : NULL;
}

int bench_series_find(const bench_row *row, const char *label)
{
    for (int i = 0; i < (int)bench_series_count(row); i++) {
        if (strcmp(row->series[i].label, label) == 0) {
            return i;
        }
    }
    return -1;
}

unsigned bench_series_count(const bench_row *row)
{
    unsigned n = 0;

    while (n < BENCH_SERIES && row->series[n].label != NULL) {
        n++;
    }
    return n;
}

unsigned bench_thread_counts(const bench_row *row)
{
    unsigned n = 0;

    while (n < BENCH_COUNTS && row->threads[n] != 0) {
        n++;
    }
    return n;
}
