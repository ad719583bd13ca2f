/* gpu.c: `bench gpu FOLDER`: what allocation costs on a GPU's driver, beside
 * what programs do without a cache, and others' caches.
 *
 * cuda         the library on the CUDA driver: page-locked memory
 * cuda-request cudaHostAlloc and cudaFreeHost for every request
 * cuda-async   cudaMallocAsync on the thread's stream: memory of the device
 * cuda-cub     CUB's allocator: memory of the device
 * The last two are for orientation: they hand out other memory. Every figure
 * comes from a process of its own, which may take a minute. */
#include "tests/bench/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHES                                                                 \
    {"cuda", NULL}, {"cuda-async", NULL}, {"cuda-cub", NULL},                  \
    {                                                                          \
        "floor", NULL                                                          \
    }
#define THREADS                                                                \
    {                                                                          \
        1, 2, 4, 8                                                             \
    }
#define OPS(n)                                                                 \
    {                                                                          \
        100, (n), (n)                                                          \
    }
#define RUNS                                                                   \
    {                                                                          \
        1, 3, 3                                                                \
    }

static const bench_row rows[] = {
    {.name = "gpu-hot64k",
     .title = "alloc + free 64 KiB, no stream",
     .work = "hot64k",
     .threads = THREADS,
     .ops = OPS(20000),
     .runs = RUNS,
     .series = {CACHES}},
    {.name = "gpu-hot64k-request",
     .title = "the same against page-locking every request",
     .work = "hot64k",
     .threads = {1, 2},
     .ops = OPS(200),
     .runs = RUNS,
     .series = {{"cuda", NULL}, {"cuda-request", NULL}}},
    {.name = "gpu-mixed",
     .title = "4 KiB to 4 MiB log-uniform, 64 live a thread, no stream",
     .work = "mixed",
     .threads = THREADS,
     .ops = OPS(10000),
     .runs = RUNS,
     .series = {CACHES}},
    {.name = "gpu-mixed-request",
     .title = "the same against page-locking every request",
     .work = "mixed",
     .threads = {1, 2},
     .ops = OPS(200),
     .runs = RUNS,
     .series = {{"cuda", NULL}, {"cuda-request", NULL}}},
    {.name = "gpu-mixeds",
     .title = "mixed, own stream recorded, events of the GPU",
     .work = "mixeds",
     .threads = THREADS,
     .ops = OPS(5000),
     .runs = RUNS,
     .series = {{"cuda", NULL}, {"cuda-async", NULL}, {"cuda-cub", NULL}}},
    {.name = "gpu-calls",
     .title = "driver calls a free in mixeds",
     .of = "gpu-mixeds",
     .threads = THREADS,
     .series = {{"cuda", NULL}},
     .goal = BENCH_CALLS,
     .limit = 0.125},
    {.name = "gpu-xthread",
     .title = "64 KiB, freed by another thread",
     .work = "xthread",
     .threads = {2, 4, 8},
     .ops = OPS(10000),
     .runs = RUNS,
     .series = {{"cuda", NULL}, {"none", NULL}}},
};
enum { ROWS = sizeof rows / sizeof *rows, PATIENCE = 60 };

static size_t row_of(size_t i)
{
    size_t k = 0;

    while (rows[i].of != NULL && strcmp(rows[k].name, rows[i].of) != 0) {
        k++;
    }
    return rows[i].of != NULL ? k : i;
}

bool bench_gpu(const char *folder, enum bench_load load)
{
    bench_figures *figures = calloc(ROWS, sizeof *figures);
    char path[4096];
    bool measured = false;
    FILE *json;

    snprintf(path, sizeof path, "%s/gpu.jsonl", folder);
    json = fopen(path, "we");
    if (figures == NULL || json == NULL) {
        fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
        free(figures);
        return false;
    }
    bench_run_patience(PATIENCE);
    for (size_t i = 0; i < ROWS; i++) {
        if (row_of(i) == i) {
            bench_measure_row(&rows[i], load, NULL, &figures[i]);
        }
        measured = measured || bench_measured(&figures[row_of(i)].of[0][0]);
        bench_print_row(&rows[i], &figures[row_of(i)]);
        bench_json_row(json, &rows[i], &figures[row_of(i)]);
        fflush(json);
    }
    free(figures);
    return fclose(json) == 0 && measured;
}
