/* latency.h: how long requests took: count, mean, percentiles and maximum.
 *
 * Times are counted in buckets whose width is at most a sixteenth of the times
 * in them, so that a percentile is never below the truth and at most 6.25 %
 * above it. Not for several threads at once: the caller holds a lock. */
#ifndef EXAMPLE_LATENCY_H
#define EXAMPLE_LATENCY_H

#include <stdint.h>

enum {
    LATENCY_PARTS = 16, /* buckets for each power of two */
    LATENCY_TOP = 36,   /* 2^36 µs, 19 hours, and more: the last bucket */
    LATENCY_BUCKETS = (LATENCY_TOP - 3) * LATENCY_PARTS,
};

typedef struct latency {
    uint64_t count, sum_us, max_us;
    uint64_t buckets[LATENCY_BUCKETS];
} latency;

void latency_record(latency *l, uint64_t us);

/* The time in µs that percent of the requests did not exceed; 0 without any. */
uint64_t latency_percentile_us(const latency *l, unsigned percent);

/* A JSON object, {"count":…,"mean_us":…,"p50_us":…,"p90_us":…,"p99_us":…,
 * "max_us":…}; owned, free() it. Null: out of memory. */
char *latency_json(const latency *l);

#endif
