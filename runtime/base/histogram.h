/* histogram.h: times counted by powers of two (warm_histogram, stats.h).
 *
 * Any thread adds and reads; no lock. Only for calls that cost a microsecond or
 * more: an addition is two atomic ones. */
#ifndef WM_HISTOGRAM_H
#define WM_HISTOGRAM_H

#include "warmpool/stats.h"

#include <stdatomic.h>

/* Relaxed: the counts order nothing, and a reader may see a time in its bucket
 * before it is in the total. */
typedef struct wm_histogram {
    _Atomic uint64_t total_ns;
    _Atomic uint64_t bucket[WARM_HISTOGRAM_BUCKETS];
} wm_histogram;

/* The bucket of a time: 0 up to 1,024 ns, 1 up to 2,048 ns, … */
static inline unsigned wm_histogram_bucket(uint64_t ns)
{
    unsigned i = ns <= 1024 ? 0 : 54U - (unsigned)__builtin_clzll(ns - 1);

    return i < WARM_HISTOGRAM_BUCKETS ? i : WARM_HISTOGRAM_BUCKETS - 1;
}

static inline void wm_histogram_add(wm_histogram *histogram, uint64_t ns)
{
    atomic_fetch_add_explicit(&histogram->bucket[wm_histogram_bucket(ns)], 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->total_ns, ns, memory_order_relaxed);
}

/* Adds the histogram to *sum, whose count is that of its buckets. */
static inline void wm_histogram_sum(const wm_histogram *histogram,
                                    warm_histogram *sum)
{
    for (unsigned i = 0; i < WARM_HISTOGRAM_BUCKETS; i++) {
        uint64_t count =
            atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);

        sum->bucket[i] += count;
        sum->count += count;
    }
    sum->total_ns +=
        atomic_load_explicit(&histogram->total_ns, memory_order_relaxed);
}

static inline void wm_histogram_reset(wm_histogram *histogram)
{
    for (unsigned i = 0; i < WARM_HISTOGRAM_BUCKETS; i++) {
        atomic_store_explicit(&histogram->bucket[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&histogram->total_ns, 0, memory_order_relaxed);
}

#endif
