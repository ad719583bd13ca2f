/* soak.c: a mixed load for as long as is asked, in which nothing may pile up.
 *
 *   soak SECONDS
 *
 * Short threads with streams and blocks that others free, captures with private
 * pools, a block that stream after stream uses, leased handles, trims, a crowd
 * of a thousand threads at once, and statistics that are read all the while.
 * Every other short thread works in a second runtime, whose driver functions
 * fail once in a thousand calls, each at a time of its own: a refused call is
 * passed over, and what is to be given back is given back again.
 *
 * Every second five figures are taken: how many records the library has, what
 * malloc() has given out, what is resident beyond the memory that is held, and
 * how many descriptors and mappings there are. What is needed at the moment
 * swings, and records stay for the next moment that needs as many; what piles
 * up lifts all for ever. So the median of the last third must not exceed the
 * median of the first third after the warm-up (a minute, or half of the time)
 * by more than a sixteenth, an eighth where whole pages are counted; or, up to
 * a quarter, by 24 bytes or a quarter of a record for each thread, capture or
 * stream in between, of whichever there were fewest: a fast machine meets rare
 * peaks.
 * How long an allocation and a free take is shown, from the threads' view: on
 * two cores a thread that is preempted beside a crowd waits for seconds.
 *
 * The load bounds what is under way, however late the device is, and with it
 * the most that is ever needed at once. Before there were crowds and faults, in
 * 60 s on two cores shared by twenty busy processes the figures rose by 1, 2
 * and 1 %; with 64 bytes of malloc() left by each thread (155 a second) the
 * second by 13 %, by each stream (290 a second) 23 %; with a record of 64 bytes
 * left by each stream the first by 46 %. Prints the figures, and what was
 * done. */
#include "warmpool/warmpool.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKERS = 4,
    SLOTS = 256,
    STEPS = 500,
    CROWD = 1000,
    CROWD_STEPS = 20,
    CALLS = 128,
    SAMPLES = 100000
};

/* The first has no faults. */
static warm_runtime *runtime, *faulty;
static _Atomic(void *) slots[SLOTS], faulty_slots[SLOTS];
static _Atomic bool over;
static atomic_ulong threads, captures, streams, readings, crowds, refused;

static void try(const char *what, warm_status status)
{
    if (status != WARM_OK) {
        fprintf(stderr, "soak: %s: %s: %s\n", what, warm_status_name(status),
                warm_last_error_message());
        exit(1);
    }
}

#define TRY(call) try(#call, call)

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool is_over(void)
{
    return atomic_load_explicit(&over, memory_order_relaxed);
}

static void count(atomic_ulong *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

/* What is queued as work. */
static void nothing(void *argument)
{
}

/* ---- how long calls take ------------------------------------------------ */

enum { BUCKETS = 64 * 4 }; /* four in each power of two of nanoseconds */

static atomic_ulong taken[BUCKETS];

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void note_time(uint64_t ns)
{
    int bits = 63 - __builtin_clzll(ns | 4);

    count(&taken[bits * 4 + (int)(ns >> (bits - 2) & 3)]);
}

/* How many calls took up to 64 ns, 256 ns, and so on. */
static void print_times(void)
{
    unsigned long all = 0, seen = 0, longest = 0;

    for (int b = 0; b < BUCKETS; b++) {
        all += taken[b];
        longest = taken[b] > 0 ? (unsigned long)b : longest;
    }
    printf("soak: ns that an allocation or a free takes at most, of %lu:", all);
    for (unsigned long b = 0; b / 8 <= longest / 8; b++) {
        seen += taken[b];
        if (b >= 6 * 4 - 1 && b % 8 == 7) {
            printf(" %lu: %.5f %%", 2ul << b / 4,
                   100 * (double)seen / (double)all);
        }
    }
    printf("\n");
}

/* ---- faults -------------------------------------------------------------- */

/* Faults have warnings, one after the other. */
static void be_silent(void *context, warm_log_level level, const char *line)
{
}

/* False: refused, by a fault. */
static bool works(warm_status status)
{
    if (status == WARM_DRIVER_ERROR || status == WARM_OUT_OF_MEMORY) {
        count(&refused);
        return false;
    }
    try("a call beside faults", status);
    return true;
}

static void give_back(void *block)
{
    while (!works(warm_free(block))) {
    }
}

/* Each driver function fails once in a thousand of its calls. */
static void *run_faults(void *argument)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    static uint64_t due[CALLS];
    uint64_t seed = 7, calls;

    while (!is_over()) {
        const char *name;

        for (int i = 0; (name = warm_testing_call_name(i)) != NULL; i++) {
            TRY(warm_testing_calls(faulty, name, &calls));
            if (calls >= due[i % CALLS]) {
                uint64_t n = 1 + next(&seed) % 2000;

                due[i % CALLS] = calls + n;
                TRY(warm_testing_fail(faulty, name, n, 0));
            }
        }
        nanosleep(&pause, NULL);
    }
    for (int i = 0; warm_testing_call_name(i) != NULL; i++) {
        TRY(warm_testing_fail(faulty, warm_testing_call_name(i), 0, 0));
    }
    return argument;
}

static void *faulty_thread(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument * 0x9E3779B97F4A7C15u + 1;
    warm_stream stream;
    warm_lease lease = {0};
    void *handle = NULL;

    if (!works(warm_stream_reserve(faulty, 0, &stream))) {
        return NULL;
    }
    if (!works(
            warm_handle_lease(faulty, WARM_KIND_STREAM, 0, &lease, &handle))) {
        handle = NULL;
    }
    for (int i = 0; i < STEPS; i++) {
        uint64_t r = next(&seed);
        size_t bytes = 1 + next(&seed) % ((size_t)1 << (r % 20));
        void *block = NULL;

        if (!works((r >> 8 & 1) != 0
                       ? warm_pinned_alloc(faulty, bytes, &block)
                       : warm_device_alloc(faulty, 0, stream, bytes, &block))) {
            continue;
        }
        if (handle != NULL && (r >> 9 & 3) == 0) {
            (void)works(warm_record_stream(block, handle));
            (void)works(warm_stream_host_func(faulty, handle, nothing, NULL));
        }
        give_back(atomic_exchange_explicit(&faulty_slots[(r >> 20) % SLOTS],
                                           block, memory_order_acq_rel));
    }
    while (handle != NULL && !works(warm_stream_synchronize(faulty, handle))) {
    }
    while (handle != NULL && !works(warm_handle_return(faulty, lease))) {
    }
    return NULL;
}

/* ---- short threads ----------------------------------------------------- */

/* What it leaves in a slot another thread frees, perhaps after its exit. It
 * exits before its work is done, but begins when the last thread's work on the
 * leased stream is: however late the device is, a stream has one thread's work
 * to do. */
static void *short_thread(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument * 0x9E3779B97F4A7C15u + 1;
    warm_stream stream;
    warm_lease lease = {0};
    void *handle;

    TRY(warm_stream_reserve(runtime, 0, &stream));
    TRY(warm_handle_lease(runtime, WARM_KIND_STREAM, 0, &lease, &handle));
    TRY(warm_stream_synchronize(runtime, handle));
    for (int i = 0; i < STEPS; i++) {
        uint64_t r = next(&seed);
        size_t bytes = 1 + next(&seed) % ((size_t)1 << (r % 20));
        uint64_t begin = now_ns();
        void *block;

        if ((r >> 8 & 1) != 0) {
            TRY(warm_pinned_alloc(runtime, bytes, &block));
        } else {
            TRY(warm_device_alloc(runtime, 0, stream, bytes, &block));
        }
        note_time(now_ns() - begin);
        if ((r >> 9 & 3) == 0) {
            TRY(warm_record_stream(block, handle));
            TRY(warm_stream_host_func(runtime, handle, nothing, NULL));
        }
        block = atomic_exchange_explicit(&slots[(r >> 20) % SLOTS], block,
                                         memory_order_acq_rel);
        begin = now_ns();
        TRY(warm_free(block));
        note_time(now_ns() - begin);
    }
    TRY(warm_handle_return(runtime, lease));
    count(&threads);
    return NULL;
}

static void start(pthread_t *thread, const pthread_attr_t *attributes,
                  void *(*run)(void *), void *argument)
{
    if (pthread_create(thread, attributes, run, argument) != 0) {
        perror("soak: pthread_create");
        exit(1);
    }
}

static void *run_workers(void *argument)
{
    uintptr_t number = 0;

    while (!is_over()) {
        pthread_t worker[WORKERS];

        for (int i = 0; i < WORKERS; i++) {
            start(&worker[i], NULL, i % 2 ? faulty_thread : short_thread,
                  (void *)++number);
        }
        for (int i = 0; i < WORKERS; i++) {
            pthread_join(worker[i], NULL);
        }
    }
    return argument;
}

/* ---- a crowd ------------------------------------------------------------- */

static pthread_barrier_t all_are_here;

/* Has memory while all others have. */
static void *one_of_a_crowd(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument * 0x9E3779B97F4A7C15u + 1;
    void *block[CROWD_STEPS];

    for (int i = 0; i < CROWD_STEPS; i++) {
        TRY(warm_pinned_alloc(runtime, 1 + next(&seed) % 5000, &block[i]));
    }
    pthread_barrier_wait(&all_are_here);
    for (int i = 0; i < CROWD_STEPS; i++) {
        TRY(warm_free(block[i]));
    }
    return NULL;
}

static void *run_crowds(void *argument)
{
    const struct timespec pause = {.tv_sec = 5};
    static pthread_t thread[CROWD];
    pthread_attr_t small;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_barrier_init(&all_are_here, NULL, CROWD);
    while (!is_over()) {
        for (int i = 0; i < CROWD; i++) {
            start(&thread[i], &small, one_of_a_crowd, (void *)(uintptr_t)i);
        }
        for (int i = 0; i < CROWD; i++) {
            pthread_join(thread[i], NULL);
        }
        count(&crowds);
        nanosleep(&pause, NULL);
    }
    pthread_attr_destroy(&small);
    return argument;
}

/* ---- captures ---------------------------------------------------------- */

/* A block that was used before and one of the graph's, both freed during the
 * capture; the graph runs once. */
static void capture(warm_stream stream, int turn)
{
    warm_private_pool pool = {0};
    warm_graph graph = NULL;
    void *before, *inside;

    if (turn % 2 == 0) {
        TRY(warm_pinned_alloc(runtime, 1 << 16, &before));
        TRY(warm_record_stream(before, stream));
    } else {
        TRY(warm_device_alloc(runtime, 0, stream, 1 << 16, &before));
    }
    if (turn % 3 != 0) {
        TRY(warm_stream_synchronize(runtime, stream));
    }
    TRY(warm_private_pool_begin(runtime, &pool, 0, NULL, NULL));
    TRY(warm_capture_begin(runtime, stream));
    TRY(warm_device_alloc(runtime, 0, stream, 5000, &inside));
    TRY(warm_stream_host_func(runtime, stream, nothing, NULL));
    TRY(warm_free(before));
    TRY(warm_free(inside));
    TRY(warm_capture_end(runtime, stream, &graph));
    TRY(warm_private_pool_end(runtime, pool));
    TRY(warm_graph_launch(runtime, graph, stream));
    TRY(warm_stream_synchronize(runtime, stream));
    TRY(warm_graph_destroy(runtime, graph));
    TRY(warm_private_pool_release(runtime, pool));
    count(&captures);
}

static void *run_captures(void *argument)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    warm_stream stream;

    TRY(warm_stream_create(runtime, 0, &stream));
    for (int turn = 0; !is_over(); turn++) {
        capture(stream, turn);
        nanosleep(&pause, NULL);
    }
    TRY(warm_stream_destroy(runtime, stream));
    return argument;
}

/* ---- many streams ------------------------------------------------------ */

/* A stream is destroyed with its work under way; one of many is waited for, so
 * that the device does not fall behind without end. */
static void *run_streams(void *argument)
{
    const struct timespec pause = {.tv_nsec = 500000};
    void *block;

    TRY(warm_pinned_alloc(runtime, 4096, &block));
    for (unsigned turn = 1; !is_over(); turn++) {
        warm_stream stream;

        TRY(warm_stream_create(runtime, 0, &stream));
        TRY(warm_record_stream(block, stream));
        TRY(warm_stream_host_func(runtime, stream, nothing, NULL));
        if (turn % 32 == 0) {
            TRY(warm_stream_synchronize(runtime, stream));
        }
        TRY(warm_stream_destroy(runtime, stream));
        count(&streams);
        nanosleep(&pause, NULL);
    }
    TRY(warm_free(block));
    return argument;
}

/* ---- figures ----------------------------------------------------------- */

static void *run_readings(void *argument)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    static char text[1 << 20];

    for (unsigned turn = 1; !is_over(); turn++) {
        warm_device_stats device = {.size = sizeof device};

        TRY(warm_stats_json(runtime, text, sizeof text, NULL));
        TRY(warm_device_get_stats(runtime, 0, &device));
        if (turn % 64 == 0) {
            (void)warm_snapshot_viz(runtime, text, sizeof text, NULL);
            TRY(warm_pinned_trim(runtime, (size_t)8 << 20, NULL));
        }
        count(&readings);
        nanosleep(&pause, NULL);
    }
    return argument;
}

enum { RECORDS, MALLOC, RESIDENT, DESCRIPTORS, MAPPINGS, FIGURES };

static const struct figure {
    const char *name, *unit;
    double scale;
    double part, each; /* growth allowed: of what it was, and for each thread */
} figures[FIGURES] = {
    {"records", "", 1, 1.0 / 16, 0.25},
    {"malloc", " KiB", 1024, 1.0 / 16, 24},
    {"resident beyond what is held", " KiB", 1024, 1.0 / 8, 24},
    {"descriptors", "", 1, 0, 0},
    {"mappings", "", 1, 1.0 / 8, 0}};

static double samples[SAMPLES][FIGURES];

static double resident_bytes(void)
{
    unsigned long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%lu %lu", &all, &resident) != 2) {
        perror("soak: /proc/self/statm");
        exit(1);
    }
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double count_entries(const char *folder)
{
    DIR *entries = opendir(folder);
    unsigned found = 0;

    if (entries == NULL) {
        perror(folder);
        exit(1);
    }
    while (readdir(entries) != NULL) {
        found++;
    }
    closedir(entries);
    return found;
}

static double count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned found = 0;
    int c;

    if (file == NULL) {
        perror(path);
        exit(1);
    }
    while ((c = getc(file)) != EOF) {
        found += c == '\n';
    }
    fclose(file);
    return found;
}

/* The host device's memory is not touched here, so not resident. */
static void take_sample(double *sample)
{
    warm_space_stats stats = {.size = sizeof stats};
    struct mallinfo2 info = mallinfo2();
    int64_t records = 0;

    warm_testing_metadata(NULL, &records);
    sample[RECORDS] = (double)records;
    sample[MALLOC] = (double)(info.uordblks + info.hblkhd);
    sample[RESIDENT] = resident_bytes();
    TRY(warm_pinned_get_stats(runtime, &stats));
    sample[RESIDENT] -= (double)stats.held_bytes.current;
    sample[DESCRIPTORS] = count_entries("/proc/self/fd");
    sample[MAPPINGS] = count_lines("/proc/self/maps");
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(int figure, unsigned from, unsigned to)
{
    static double sorted[SAMPLES];

    for (unsigned i = from; i < to; i++) {
        sorted[i - from] = samples[i][figure];
    }
    qsort(sorted, to - from, sizeof sorted[0], compare);
    return sorted[(to - from) / 2];
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* From the middle of the first third to that of the last. */
static double allowed(const struct figure *f, double before, unsigned warm,
                      unsigned all)
{
    double done =
        least(least((double)threads, (double)captures), (double)streams) *
        (all - warm) / all * 2 / 3;
    double for_each = least(done * f->each, before / 4);

    return for_each > before * f->part ? for_each : before * f->part;
}

static bool is_flat(int figure, unsigned warm, unsigned all)
{
    const struct figure *f = &figures[figure];
    unsigned part = (all - warm) / 3;
    double before = median(figure, warm, warm + part);
    double after = median(figure, all - part, all);
    bool flat = after - before <= allowed(f, before, warm, all);

    printf("soak: %s %.0f%s from second %u to %u, %.0f%s from %u to "
           "%u: %+.1f %%, %s\n",
           f->name, before / f->scale, f->unit, warm, warm + part,
           after / f->scale, f->unit, all - part, all,
           before > 0 ? 100 * (after / before - 1) : 0,
           flat ? "flat" : "GROWS");
    return flat;
}

/* All records are as they should be, and nothing is left. */
static void end(warm_runtime *which)
{
    warm_destroy_report report = {.size = sizeof report};

    TRY(warm_testing_check(which, 1));
    TRY(warm_runtime_destroy(which, &report));
    if (report.live + report.pending + report.handles + report.pools > 0) {
        fprintf(stderr, "soak: a runtime ends with something in use\n");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static void *(*const run[])(void *) = {run_workers, run_captures,
                                           run_streams, run_readings,
                                           run_crowds,  run_faults};
    enum { RUNS = sizeof run / sizeof run[0] };
    const struct timespec second = {.tv_sec = 1};
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    unsigned warm = seconds / 2 < 60 ? seconds / 2 : 60;
    warm_options options = {.size = sizeof options, .device = "host"};
    pthread_t thread[RUNS];
    bool good = true;

    if (seconds < 12 || seconds > SAMPLES) {
        fprintf(stderr, "soak: seconds: 12 to %d\n", SAMPLES);
        return 2;
    }
    /* What malloc() keeps for threads that have gone is not ours. */
    mallopt(M_ARENA_MAX, 1);
    warm_log_set(be_silent, NULL);
    TRY(warm_runtime_create(&options, &runtime));
    TRY(warm_runtime_create(&options, &faulty));
    for (int i = 0; i < RUNS; i++) {
        start(&thread[i], NULL, run[i], NULL);
    }
    for (unsigned i = 0; i < seconds; i++) {
        nanosleep(&second, NULL);
        take_sample(samples[i]);
    }
    atomic_store_explicit(&over, true, memory_order_relaxed);
    for (int i = 0; i < RUNS; i++) {
        pthread_join(thread[i], NULL);
    }
    printf("soak: %u s: %lu threads, %lu captures, %lu streams, figures read "
           "%lu times, %lu crowds of %d, %lu calls refused by a fault\n",
           seconds, threads, captures, streams, readings, crowds, CROWD,
           refused);
    print_times();
    for (int i = 0; i < FIGURES; i++) {
        good = is_flat(i, warm, seconds) && good;
    }
    if (threads == 0 || captures == 0 || streams == 0 || readings == 0 ||
        crowds == 0 || refused == 0) {
        fprintf(stderr, "soak: a part of the load was not played\n");
        good = false;
    }
    for (int i = 0; i < SLOTS; i++) {
        TRY(warm_free(slots[i]));
        TRY(warm_free(faulty_slots[i]));
    }
    end(runtime);
    end(faulty);
    return good ? 0 : 1;
}
