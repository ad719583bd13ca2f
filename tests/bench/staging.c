/* staging.c: what it costs to copy pageable memory to a device and back (row
 * B26), by four ways in turn, so that ratios are of one run:
 *
 *   ring      warm_staging, its copies gathered
 *   hand N    N page-locked buffers of a slice's size, as people write it: wait
 *             for the buffer's event, memcpy(), queue, record
 *   pageable  the driver's own copy of pageable memory, waited for at the end
 *
 * On the default driver: the host device, or CUDA where there is some. On the
 * host device pageable memory is copied as page-locked memory is, so that the
 * figure beside it says nothing of CUDA. One JSON line a figure into the folder
 * that is given. */
#include "alloc/kinds/pinned.h"
#include "runtime/base/clock.h"
#include "warmpool/warmpool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { RUNS = 9, HANDS = 4, SLICE = 4 << 20, TOTAL = 64 << 20 };

static FILE *json;
static warm_runtime *runtime;
static warm_stream stream;
static char *host, *device;
static warm_staging *ring;

static struct hand {
    void *buffer;
    warm_event event;
} hands[HANDS];

static void fail(const char *what)
{
    fprintf(stderr, "staging: %s: %s\n", what, warm_last_error_message());
    exit(1);
}

static void must(warm_status status, const char *what)
{
    if (status != WARM_OK) {
        fail(what);
    }
}

/* ---- ways --------------------------------------------------------------- */

static void by_ring(size_t each, bool up)
{
    for (size_t at = 0; at < TOTAL; at += each) {
        must(warm_staging_copy(ring, up ? device + at : host + at,
                               up ? host + at : device + at, each,
                               up ? WARM_COPY_TO_DEVICE : WARM_COPY_TO_HOST,
                               stream, WARM_STAGING_MORE),
             "warm_staging_copy");
    }
    must(warm_staging_finish(ring), "warm_staging_finish");
}

/* A copy to the host is fetched from the buffer before that is used again. */
static void by_hand(size_t each, bool up, unsigned count)
{
    char *waiting[HANDS] = {NULL};
    size_t part = each < SLICE ? each : SLICE;
    unsigned turn = 0;

    for (size_t at = 0; at < TOTAL + count * part; at += part, turn++) {
        struct hand *hand = &hands[turn % count];
        char **there = &waiting[turn % count];

        must(wm_driver_event_synchronize(runtime->driver, hand->event),
             "event_synchronize");
        if (*there != NULL) {
            memcpy(*there, hand->buffer, part);
            *there = NULL;
        }
        if (at >= TOTAL) {
            continue;
        }
        if (up) {
            memcpy(hand->buffer, host + at, part);
        } else {
            *there = host + at;
        }
        must(wm_driver_copy(runtime->driver, up ? device + at : hand->buffer,
                            up ? hand->buffer : device + at, part,
                            up ? WARM_COPY_TO_DEVICE : WARM_COPY_TO_HOST,
                            stream),
             "copy");
        must(wm_driver_event_record(runtime->driver, hand->event, stream),
             "event_record");
    }
}

static void by_driver(size_t each, bool up)
{
    for (size_t at = 0; at < TOTAL; at += each) {
        must(wm_driver_copy(runtime->driver, up ? device + at : host + at,
                            up ? host + at : device + at, each,
                            up ? WARM_COPY_TO_DEVICE : WARM_COPY_TO_HOST,
                            stream),
             "copy");
    }
    must(warm_stream_synchronize(runtime, stream), "synchronize");
}

/* ---- runs --------------------------------------------------------------- */

enum way { RING, HAND4, HAND2, PAGEABLE, WAYS };

static const char *const names[WAYS] = {"ring", "hand 4", "hand 2", "pageable"};

static double one(enum way way, size_t each, bool up)
{
    uint64_t from = wm_clock_ns();

    if (way == RING) {
        by_ring(each, up);
    } else if (way == PAGEABLE) {
        by_driver(each, up);
    } else {
        by_hand(each, up, way == HAND4 ? 4 : 2);
    }
    return (double)(wm_clock_ns() - from);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(size_t each, bool up)
{
    double ns[WAYS][RUNS];

    for (int run = -1; run < RUNS; run++) { /* the first warms up */
        for (int way = 0; way < WAYS; way++) {
            double took = one((enum way)way, each, up);

            if (run >= 0) {
                ns[way][run] = took;
            }
        }
    }
    for (int way = 0; way < WAYS; way++) {
        qsort(ns[way], RUNS, sizeof ns[way][0], compare);
    }
    for (int way = 0; way < WAYS; way++) {
        double gib = (double)TOTAL / ns[way][RUNS / 2];
        double ratio = ns[HAND4][RUNS / 2] / ns[way][RUNS / 2];

        printf("%-9s %8zu KiB  %-9s %8.2f GB/s  %5.2f of hand 4\n",
               up ? "to device" : "to host", each / KIB, names[way], gib,
               ratio);
        if (json != NULL) {
            fprintf(json,
                    "{\"bench\":\"staging\",\"direction\":\"%s\",\"bytes\":%zu,"
                    "\"way\":\"%s\",\"gbs\":%.3f,\"of_hand_4\":%.3f}\n",
                    up ? "to_device" : "to_host", each, names[way], gib, ratio);
        }
    }
}

static void begin(void)
{
    warm_staging_options options = {
        .size = sizeof options, .slice_bytes = SLICE, .slices = HANDS};

    must(warm_runtime_create(NULL, &runtime), "warm_runtime_create");
    must(warm_stream_create(runtime, 0, &stream), "warm_stream_create");
    must(warm_device_alloc(runtime, 0, stream, TOTAL, (void **)&device),
         "warm_device_alloc");
    must(warm_staging_create(runtime, 0, &options, &ring),
         "warm_staging_create");
    for (int i = 0; i < HANDS; i++) {
        must(warm_pinned_alloc(runtime, SLICE, &hands[i].buffer),
             "warm_pinned_alloc");
        must(warm_event_create(runtime, 0, &hands[i].event),
             "warm_event_create");
    }
    host = malloc(TOTAL);
    if (host == NULL) {
        fail("no memory");
    }
    memset(host, 1, TOTAL);
}

static void end(void)
{
    must(warm_staging_destroy(ring), "warm_staging_destroy");
    for (int i = 0; i < HANDS; i++) {
        (void)warm_free(hands[i].buffer);
        (void)warm_event_destroy(runtime, hands[i].event);
    }
    (void)warm_free(device);
    (void)warm_stream_destroy(runtime, stream);
    (void)warm_runtime_destroy(runtime, NULL);
    free(host);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4 * KIB, 64 * KIB, 1 * MIB, 64 * MIB};
    char path[512];

    if (argc > 1) {
        snprintf(path, sizeof path, "%s/staging.jsonl", argv[1]);
        json = fopen(path, "w");
    }
    begin();
    printf("driver: %s; %d MiB in copies of so many bytes, median of %d\n",
           warm_runtime_driver(runtime), (int)(TOTAL / MIB), RUNS);
    for (int up = 1; up >= 0; up--) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            measure(sizes[i], up != 0);
        }
    }
    end();
    if (json != NULL) {
        fclose(json);
    }
    return 0;
}
