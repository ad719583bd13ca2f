/* latency.c: see latency.h.
 *
 *   bucket   0 … 15   16 … 31           32 … 47           …
 *   µs       0 … 15   16, 17, … 31      32-33, 34-35, …   … */
#include "examples/inference_server/latency.h"

#include <inttypes.h>
#include <stdio.h>

static unsigned bucket_of(uint64_t us)
{
    unsigned power;

    if (us < LATENCY_PARTS) {
        return (unsigned)us;
    }
    if (us >> LATENCY_TOP != 0) {
        return LATENCY_BUCKETS - 1;
    }
    power = 63 - (unsigned)__builtin_clzll(us); /* 4 or more */
    return (power - 3) * LATENCY_PARTS +
           (unsigned)(us >> (power - 4)) % LATENCY_PARTS;
}

/* The largest time of a bucket. */
static uint64_t last_of(unsigned bucket)
{
    unsigned shift = bucket / LATENCY_PARTS;

    if (shift == 0) {
        return bucket;
    }
    shift -= 1;
    return ((uint64_t)(LATENCY_PARTS + bucket % LATENCY_PARTS + 1) << shift) -
           1;
}

void latency_record(latency *l, uint64_t us)
{
    l->count++;
    l->sum_us += us;
    l->max_us = us > l->max_us ? us : l->max_us;
    l->buckets[bucket_of(us)]++;
}

uint64_t latency_percentile_us(const latency *l, unsigned percent)
{
    uint64_t wanted = (l->count * percent + 99) / 100, seen = 0;

    for (unsigned i = 0; i + 1 < LATENCY_BUCKETS; i++) {
        seen += l->buckets[i];
        if (seen >= wanted) {
            return last_of(i) < l->max_us ? last_of(i) : l->max_us;
        }
    }
    return l->max_us;
}

char *latency_json(const latency *l)
{
    char *text = NULL;
    int length =
        asprintf(&text,
                 "{\"count\":%" PRIu64 ",\"mean_us\":%" PRIu64
                 ",\"p50_us\":%" PRIu64 ",\"p90_us\":%" PRIu64
                 ",\"p99_us\":%" PRIu64 ",\"max_us\":%" PRIu64 "}",
                 l->count, l->count > 0 ? l->sum_us / l->count : 0,
                 latency_percentile_us(l, 50), latency_percentile_us(l, 90),
                 latency_percentile_us(l, 99), l->max_us);

    return length < 0 ? NULL : text;
}
