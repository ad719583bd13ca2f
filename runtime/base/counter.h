/* counter.h: a count that many threads raise and few read.
 *
 * The count is split over WM_COUNTER_SHARDS cache lines, chosen by thread; a
 * read sums them. The sum is exact once no thread adds any more. */
#ifndef WM_COUNTER_H
#define WM_COUNTER_H

#include "runtime/base/thread_data.h"

#include <stdatomic.h>
#include <stdint.h>

enum { WM_COUNTER_LOG2 = 3, WM_COUNTER_SHARDS = 1 << WM_COUNTER_LOG2 };

typedef struct wm_counter {
    struct {
        _Alignas(64) _Atomic uint64_t value;
    } shard[WM_COUNTER_SHARDS];
} wm_counter;

/* The shard of the calling thread: a hash of an address that is its own. */
static inline unsigned wm_counter_shard(void)
{
    uint64_t thread = (uintptr_t)&wm_thread_marks_now;

    return (unsigned)((thread * UINT64_C(0x9E3779B97F4A7C15)) >>
                      (64 - WM_COUNTER_LOG2));
}

/* Relaxed: a count orders nothing. */
static inline void wm_counter_add(wm_counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->shard[wm_counter_shard()].value, n,
                              memory_order_relaxed);
}

static inline uint64_t wm_counter_read(wm_counter *counter)
{
    uint64_t sum = 0;

    for (int i = 0; i < WM_COUNTER_SHARDS; i++) {
        sum += atomic_load_explicit(&counter->shard[i].value,
                                    memory_order_relaxed);
    }
    return sum;
}

#endif
