/* grow.c: what obtaining memory costs, and which call waits (rows B9, B10).
 *
 *   pin      one region page-locked and given back: by the driver alone, or
 *            mapped, touched by threads, with huge pages or not, registered
 *   request  4 MiB blocks taken one after the other while the cache grows: what
 *            the slowest of them waited, with and without a reserve kept ahead
 *   idle     processor time and wake-ups of the background thread in a second
 *
 * On the default driver: the host device, or CUDA where there is some. Least of
 * a few runs where noise only adds; one JSON line a figure into the folder that
 * is given. */
#include "alloc/kinds/pinned.h"
#include "runtime/base/clock.h"
#include "warmpool/testing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

enum { RUNS = 5, BLOCKS = 64 };

static FILE *json;
static const double seconds = 2;

static void fail(const char *what)
{
    fprintf(stderr, "grow: %s: %s\n", what, warm_last_error_message());
    exit(1);
}

static warm_runtime *make(const char *conf)
{
    warm_runtime *runtime = NULL;

    setenv("WARMPOOL_CONF", conf, 1);
    if (warm_runtime_create(NULL, &runtime) != WARM_OK) {
        fail(conf);
    }
    return runtime;
}

static void say(const char *name, const char *conf, const char *unit,
                double value)
{
    printf("%-22s %-44s %12.2f %s\n", name, conf, value, unit);
    if (json != NULL) {
        fprintf(json,
                "{\"bench\":\"grow\",\"case\":\"%s\",\"conf\":\"%s\","
                "\"unit\":\"%s\",\"value\":%.3f}\n",
                name, conf, unit, value);
    }
}

/* ---- pin -------------------------------------------------------------- */

static void pin(const char *conf, size_t bytes)
{
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    char name[32];

    for (int i = 0; i < RUNS; i++) {
        warm_runtime *runtime = make(conf);
        uint64_t at[3];

        at[0] = wm_clock_ns();
        if (warm_pinned_prewarm(runtime, bytes, WARM_NODE_ANY, 0) != WARM_OK) {
            fail("prewarm");
        }
        at[1] = wm_clock_ns();
        (void)warm_pinned_trim(runtime, 0, NULL);
        at[2] = wm_clock_ns();
        for (int k = 0; k < 2; k++) {
            best[k] = at[k + 1] - at[k] < best[k] ? at[k + 1] - at[k] : best[k];
        }
        (void)warm_runtime_destroy(runtime, NULL);
    }
    snprintf(name, sizeof name, "pin %zu MiB", bytes / MIB);
    say(name, conf, "ms", (double)best[0] / 1e6);
    snprintf(name, sizeof name, "give back %zu MiB", bytes / MIB);
    say(name, conf, "ms", (double)best[1] / 1e6);
}

/* ---- request ---------------------------------------------------------- */

static void pass(uint64_t ns)
{
    struct timespec time = {0, (long)ns};

    nanosleep(&time, NULL);
}

static void request(const char *conf)
{
    warm_runtime *runtime = make(conf);
    warm_space_stats stats = {.size = sizeof stats};
    uint64_t most = 0, sum = 0;
    void *block[BLOCKS];

    (void)warm_pinned_prewarm_wait(runtime);
    pass(100000000);
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t from = wm_clock_ns();

        if (warm_pinned_alloc(runtime, 4 * MIB, &block[i]) != WARM_OK) {
            fail("alloc");
        }
        from = wm_clock_ns() - from;
        most = from > most ? from : most;
        sum += from;
        pass(5000000);
    }
    (void)warm_pinned_get_stats(runtime, &stats);
    say("request, mean", conf, "us", (double)sum / BLOCKS / 1e3);
    say("request, slowest", conf, "us", (double)most / 1e3);
    say("request, from cache", conf, "%",
        100.0 * (double)stats.cache_hits / BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        (void)warm_free(block[i]);
    }
    (void)warm_runtime_destroy(runtime, NULL);
}

/* ---- idle ------------------------------------------------------------- */

static uint64_t cpu_ns(wm_background *b)
{
    struct timespec time = {0, 0};
    clockid_t clock;

    if (pthread_getcpuclockid(b->thread, &clock) == 0) {
        clock_gettime(clock, &time);
    }
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void idle(const char *conf, bool stuck)
{
    warm_runtime *runtime = make(conf);
    wm_background *b = &runtime->pinned->space.background;
    struct timespec time = {(time_t)seconds, 0};
    warm_stream stream = NULL;
    uint64_t wakes, ns;
    void *block = NULL;

    if (warm_stream_create(runtime, 0, &stream) != WARM_OK ||
        (stuck && warm_testing_hold(runtime, stream) != WARM_OK) ||
        warm_pinned_alloc(runtime, 5000, &block) != WARM_OK ||
        warm_record_stream(block, stream) != WARM_OK ||
        warm_free(block) != WARM_OK) {
        fail("idle");
    }
    pass(200000000);
    wakes = wm_background_wakes(b);
    ns = cpu_ns(b);
    nanosleep(&time, NULL);
    say(stuck ? "stuck, wake-ups" : "idle, wake-ups", conf, "/s",
        (double)(wm_background_wakes(b) - wakes) / seconds);
    say(stuck ? "stuck, processor" : "idle, processor", conf, "us/s",
        (double)(cpu_ns(b) - ns) / seconds / 1e3);
    if (stuck) {
        (void)warm_testing_resume(runtime, stream);
    }
    (void)warm_stream_destroy(runtime, stream);
    (void)warm_runtime_destroy(runtime, NULL);
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {
        "pin:alloc",
        "pin:register,test:pin_threads=1,huge_pages:off",
        "pin:register,huge_pages:off",
        "pin:register,test:pin_threads=1",
        "pin:register",
    };
    static const size_t sizes[] = {4 * MIB, 64 * MIB, 256 * MIB};
    bool host;
    char path[512];
    warm_runtime *runtime;

    if (argc > 1) {
        snprintf(path, sizeof path, "%s/grow.jsonl", argv[1]);
        json = fopen(path, "w");
    }
    runtime = make("");
    printf("driver: %s\n", warm_runtime_driver(runtime));
    host = warm_runtime_driver(runtime)[0] == 'h';
    (void)warm_runtime_destroy(runtime, NULL);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            pin(ways[i], sizes[s]);
        }
    }
    request("background:off");
    request("background:on,reserve_bytes:32M");
    idle("background:on", false);
    idle("background:on,decay_ms:500", false);
    if (host) {
        idle("background:on", true);
    }
    if (json != NULL) {
        fclose(json);
    }
    return 0;
}
