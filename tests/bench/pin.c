/* pin.c: how fast memory is page-locked, and who waits meanwhile (row B9).
 *
 *   speed   GB/s by method, piece and page, beside mlock() alone and the
 *           kernel's own bound: pages that are touched and not locked
 *   way     eight threads allocate and copy while gigabytes are prewarmed, with
 *           the touching threads on half of the cores: the 99th percentile of a
 *           request beside that without, and the longest wait of a request, in
 *           which its thread neither ran nor could have run, beside one piece
 *
 * What the kernel says was locked (VmLck) is read back: what was not is skipped
 * aloud. On the default driver; with CUDA, which locks without counting, VmLck
 * is not looked at. pin FOLDER [MiB to prewarm]; one JSON line a figure. */
#include "runtime/base/budget.h"
#include "runtime/base/clock.h"
#include "warmpool/warmpool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { RUNS = 3 };
static const size_t total = 512 * MIB;

static FILE *json;
static bool counted; /* the driver locks as mlock() does */
static unsigned met, goals;

static void fail(const char *what)
{
    fprintf(stderr, "pin: %s: %s\n", what, warm_last_error_message());
    exit(1);
}

static void say(const char *name, const char *conf, const char *unit,
                double value)
{
    printf("%-30s %-38s %10.2f %s\n", name, conf, value, unit);
    if (json != NULL) {
        fprintf(json,
                "{\"bench\":\"pin\",\"case\":\"%s\",\"conf\":\"%s\","
                "\"unit\":\"%s\",\"value\":%.3f}\n",
                name, conf, unit, value);
    }
}

static void judge(const char *what, double value, double most, const char *unit)
{
    bool good = value <= most;

    goals++;
    met += good;
    printf("goal: %-46s %9.2f %s, at most %.2f: %s\n", what, value, unit, most,
           good ? "met" : "missed");
}

static warm_runtime *make(const char *conf)
{
    warm_runtime *runtime = NULL;

    setenv("WARMPOOL_CONF", conf, 1);
    return warm_runtime_create(NULL, &runtime) == WARM_OK ? runtime : NULL;
}

/* Bytes of a line of /proc/self/status. */
static uint64_t status_bytes(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    uint64_t bytes = 0;
    char line[256];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            bytes = strtoull(line + strlen(name), NULL, 10) * 1024;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

/* ---- speed --------------------------------------------------------------- */

enum page { SMALL, HUGE_PAGE, TABLE, PAGES };
static const char *const page_names[] = {"4K", "huge", "hugetlb"};
static const char *const page_words[] = {"off", "try", "hugetlb_require"};

/* What one way to lock a piece does; false: it cannot. */
struct method {
    const char *name;
    bool (*lock)(char *base, size_t bytes);
    const char *conf; /* of the library; null: the two above */
};

static bool touch_piece(char *base, size_t bytes)
{
    return madvise(base, bytes, 23 /* MADV_POPULATE_WRITE */) == 0;
}

static bool lock_piece(char *base, size_t bytes)
{
    return mlock(base, bytes) == 0;
}

static const struct method methods[] = {
    {"touch only (bound)", touch_piece, NULL},
    {"mlock", lock_piece, NULL},
    {"alloc", NULL, "pin:alloc"},
    {"register", NULL, "pin:register"},
    {"register, one thread", NULL, "pin:register,test:pin_threads=1"},
};

/* Pages of hugetlb stay in memory by themselves, and are counted apart. */
static uint64_t locked_bytes(enum page page)
{
    return status_bytes(page == TABLE ? "HugetlbPages:" : "VmLck:");
}

/* Of the kernel alone: pieces one after the other. Returns ns, 0 if refused. */
static uint64_t time_plain(const struct method *method, size_t piece,
                           enum page page, uint64_t *locked)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS |
                (page == TABLE ? MAP_HUGETLB | 21 << 26 : 0);
    char *base = mmap(NULL, total, PROT_READ | PROT_WRITE, flags, -1, 0);
    uint64_t start = wm_clock_ns(), ns = 0;
    bool good = base != MAP_FAILED;

    if (!good) {
        return 0;
    }
    (void)madvise(base, total, page == SMALL ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    for (size_t at = 0; at < total && good; at += piece) {
        good = method->lock(base + at, piece);
    }
    ns = good ? wm_clock_ns() - start : 0;
    *locked = locked_bytes(page);
    munmap(base, total);
    return ns;
}

static uint64_t time_ours(const char *conf, enum page page, uint64_t *locked,
                          uint64_t *huge)
{
    warm_space_stats stats = WARM_INIT(warm_space_stats);
    warm_runtime *runtime = make(conf);
    uint64_t start = wm_clock_ns(), ns;
    bool good;

    if (runtime == NULL) {
        return 0;
    }
    good = warm_pinned_prewarm(runtime, total, WARM_NODE_ANY, 0) == WARM_OK;
    ns = wm_clock_ns() - start;
    *locked = locked_bytes(page);
    (void)warm_pinned_get_stats(runtime, &stats);
    *huge = stats.huge_bytes;
    (void)warm_runtime_destroy(runtime, NULL);
    return good ? ns : 0;
}

static void measure(const struct method *method, size_t piece, enum page page)
{
    uint64_t best = UINT64_MAX, locked = 0, huge = 0, ns = 1;
    bool locks = method->lock != touch_piece;
    char conf[128], name[64];

    if (method->conf != NULL && page != SMALL &&
        strcmp(method->conf, "pin:alloc") == 0) {
        return; /* cudaHostAlloc() cannot request huge pages */
    }
    snprintf(conf, sizeof conf, "%s,pin_chunk:%zuM,huge_pages:%s",
             method->conf != NULL ? method->conf : "", piece / MIB,
             method->conf != NULL && strcmp(method->conf, "pin:alloc") != 0
                 ? page_words[page]
                 : "off");
    snprintf(name, sizeof name, "%s, %s", method->name, page_names[page]);
    for (int i = 0; i < RUNS && ns > 0; i++) {
        ns = method->lock != NULL ? time_plain(method, piece, page, &locked)
                                  : time_ours(conf, page, &locked, &huge);
        best = ns < best ? ns : best;
    }
    snprintf(conf, sizeof conf, "piece %zu MiB", piece / MIB);
    if (ns == 0) {
        printf("skip: %s, %s: refused: %s\n", name, conf,
               method->lock != NULL ? "by the kernel"
                                    : warm_last_error_message());
    } else if (locks && counted && locked < total) {
        printf("skip: %s, %s: %" PRIu64 " of %zu MiB were locked (VmLck)\n",
               name, conf, locked / MIB, total / MIB);
    } else if (method->conf != NULL && page != SMALL && huge < total) {
        printf("skip: %s, %s: %" PRIu64 " of %zu MiB came as huge pages\n",
               name, conf, huge / MIB, total / MIB);
    } else {
        say(name, conf, "GB/s", (double)total / (double)best);
    }
}

#define TABLE_FILE "/proc/sys/vm/nr_hugepages"

static void set_table(uint64_t pages)
{
    FILE *file = fopen(TABLE_FILE, "we");

    if (file != NULL) {
        fprintf(file, "%" PRIu64 "\n", pages);
        fclose(file);
    }
}

/* Sets huge pages of hugetlb aside, which *before says how to undo. */
static bool have_table(uint64_t *before)
{
    uint64_t unused = 0;

    *before = 0;
    (void)wm_budget_figure("", "HugePages_Total:", before);
    set_table(*before + total / (2 * MIB));
    (void)wm_budget_figure("", "HugePages_Free:", &unused);
    if (unused * 2 * MIB < total) {
        set_table(*before);
        printf("skip: hugetlb: %" PRIu64 " of %zu huge pages are free (%s)\n",
               unused, total / (2 * MIB), TABLE_FILE);
        return false;
    }
    return true;
}

static void measure_all(void)
{
    static const size_t pieces[] = {4 * MIB, 64 * MIB, 256 * MIB};
    uint64_t before = 0;

    for (int page = SMALL; page < PAGES; page++) {
        if (page == TABLE && !have_table(&before)) {
            return;
        }
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
                measure(&methods[m], pieces[p], (enum page)page);
            }
        }
    }
    set_table(before);
}

/* ---- in the way ---------------------------------------------------------- */

enum { THREADS = 8, HELD = 16, SAMPLES = 1 << 18, SIZES = 4 };

static const size_t sizes[SIZES] = {64 << 10, 128 << 10, 256 << 10, 512 << 10};

struct worker {
    pthread_t thread;
    warm_runtime *runtime;
    _Atomic bool *stop;
    uint64_t *ns; /* of requests, at most SAMPLES */
    size_t count;
    uint64_t longest_wait;
};

/* What the thread ran, and what it waited for a processor, in ns. */
static uint64_t scheduled_ns(int file)
{
    char text[128] = "", *end;
    uint64_t ran;

    if (pread(file, text, sizeof text - 1, 0) <= 0) {
        return 0;
    }
    ran = strtoull(text, &end, 10);
    return ran + strtoull(end, NULL, 10);
}

static warm_status request(struct worker *w, warm_stream stream, void *device,
                           size_t bytes, void **held)
{
    void *block = NULL;
    warm_status status = warm_pinned_alloc(w->runtime, bytes, &block);

    if (status == WARM_OK) {
        status = warm_copy_async(w->runtime, device, block, bytes,
                                 WARM_COPY_TO_DEVICE, stream);
        (void)warm_free(*held);
        *held = block;
    }
    return status;
}

static void note(struct worker *w, uint64_t ns, uint64_t scheduled)
{
    uint64_t waited = ns > scheduled ? ns - scheduled : 0;

    if (w->count < SAMPLES) {
        w->ns[w->count] = ns;
    }
    w->count++;
    w->longest_wait = waited > w->longest_wait ? waited : w->longest_wait;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    void *held[HELD] = {NULL}, *device = NULL;
    warm_stream stream = NULL;

    if (warm_stream_create(w->runtime, 0, &stream) != WARM_OK ||
        warm_device_alloc(w->runtime, 0, stream, sizes[SIZES - 1], &device) !=
            WARM_OK) {
        fail("a thread");
    }
    /* Relaxed: nothing else is told by it. */
    for (unsigned i = 0; !atomic_load_explicit(w->stop, memory_order_relaxed);
         i++) {
        uint64_t ran = scheduled_ns(file), start = wm_clock_ns(), ns;

        if (request(w, stream, device, sizes[i % SIZES], &held[i % HELD]) !=
            WARM_OK) {
            fail("a request");
        }
        ns = wm_clock_ns() - start;
        note(w, ns, scheduled_ns(file) - ran);
        if (i % HELD == 0) {
            (void)warm_stream_synchronize(w->runtime, stream);
        }
    }
    for (int i = 0; i < HELD; i++) {
        (void)warm_free(held[i]);
    }
    (void)warm_free(device);
    (void)warm_stream_synchronize(w->runtime, stream);
    (void)warm_stream_destroy(w->runtime, stream);
    close(file);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

struct figures {
    double p99_us, wait_ms, piece_ms, seconds;
};

static double p99_us(struct worker *workers, uint64_t *all)
{
    size_t count = 0, at;

    for (int i = 0; i < THREADS; i++) {
        size_t mine = workers[i].count < SAMPLES ? workers[i].count : SAMPLES;

        memcpy(all + count, workers[i].ns, mine * sizeof *all);
        count += mine;
    }
    qsort(all, count, sizeof *all, compare);
    at = count > 0 ? count - 1 - count / 100 : 0;
    return count > 0 ? (double)all[at] / 1e3 : 0;
}

/* Runs the threads while bytes are prewarmed; or, if that is 0, for seconds. */
static struct figures run(const char *conf, size_t bytes, uint64_t pause_ns,
                          double seconds)
{
    warm_prewarm_options how = WARM_INIT(warm_prewarm_options);
    warm_space_stats stats = WARM_INIT(warm_space_stats);
    uint64_t *all = calloc(2 * THREADS * SAMPLES, sizeof *all), start;
    struct worker workers[THREADS];
    struct figures f = {0, 0, 0, 0};
    warm_runtime *runtime = make(conf);
    _Atomic bool stop = false;

    if (runtime == NULL || all == NULL) {
        fail(conf);
    }
    memset(all, 1, 2 * THREADS * SAMPLES * sizeof *all); /* no fault later */
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){.runtime = runtime,
                            .stop = &stop,
                            .ns = all + (size_t)(THREADS + i) * SAMPLES};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    start = wm_clock_ns();
    how.pause_ns = pause_ns;
    if (bytes == 0) {
        usleep((useconds_t)(seconds * 1e6));
    } else if (warm_pinned_prewarm_with(runtime, bytes, WARM_NODE_ANY,
                                        WARM_PREWARM_BACKGROUND,
                                        &how) != WARM_OK ||
               warm_pinned_prewarm_wait(runtime) != WARM_OK) {
        fail("prewarm");
    }
    f.seconds = (double)(wm_clock_ns() - start) / 1e9;
    atomic_store_explicit(&stop, true, memory_order_relaxed);
    for (int i = 0; i < THREADS; i++) {
        double wait;

        pthread_join(workers[i].thread, NULL);
        wait = (double)workers[i].longest_wait / 1e6;
        f.wait_ms = wait > f.wait_ms ? wait : f.wait_ms;
    }
    (void)warm_pinned_get_stats(runtime, &stats);
    f.piece_ms = (double)stats.driver_alloc.max_ns / 1e6;
    f.p99_us = p99_us(workers, all);
    if (bytes > 0 && counted && status_bytes("VmLck:") < bytes) {
        printf("skip: not all of what was prewarmed is locked (VmLck)\n");
    }
    (void)warm_runtime_destroy(runtime, NULL);
    free(all);
    return f;
}

static void way(size_t bytes, uint64_t pause_ns)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t left = 0;
    char conf[128], name[64];
    struct figures with, without;

    if (wm_budget_figure("", "MemAvailable:", &left) &&
        left < bytes + bytes / 4) {
        printf("skip: in the way: %zu MiB to prewarm, and %" PRIu64
               " MiB are available\n",
               bytes / MIB, left / MIB);
        return;
    }
    snprintf(conf, sizeof conf, "pin:register,test:pin_threads=%ld",
             cores > 1 ? cores / 2 : 1);
    without = run(conf, 0, 0, 3);
    with = run(conf, bytes, pause_ns, 0);
    snprintf(name, sizeof name, "%zu MiB, %s", bytes / MIB,
             pause_ns > 0 ? "pauses" : "no pause");
    printf("\nin the way: %s, %d threads, %ld cores\n", name, THREADS, cores);
    say("prewarm beside the threads", name, "s", with.seconds);
    say("one piece, longest", name, "ms", with.piece_ms);
    say("longest wait, without", name, "ms", without.wait_ms);
    say("longest wait, with", name, "ms", with.wait_ms);
    say("p99 of a request, without", name, "us", without.p99_us);
    say("p99 of a request, with", name, "us", with.p99_us);
    judge("longest wait of a request, at most a piece", with.wait_ms,
          with.piece_ms, "ms");
    judge("p99 of a request beside that without prewarm",
          with.p99_us / without.p99_us, 2, "times");
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 8192) * MIB;
    warm_runtime *runtime = make("");
    char path[512];

    if (runtime == NULL) {
        fail("a runtime");
    }
    counted = warm_runtime_driver(runtime)[0] == 'h';
    printf("driver: %s\n", warm_runtime_driver(runtime));
    (void)warm_runtime_destroy(runtime, NULL);
    if (argc > 1) {
        snprintf(path, sizeof path, "%s/pin.jsonl", argv[1]);
        json = fopen(path, "w");
    }
    measure_all();
    way(bytes, 0);
    way(bytes, 1000000000);
    if (json != NULL) {
        fclose(json);
    }
    printf("bench: goals met=%u of=%u\n", met, goals);
    return 0;
}
