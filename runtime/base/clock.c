/* clock.c: monotonic time, or the clock of a test. */
#include "runtime/base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

/* Set by tests before their threads start. Relaxed for that reason. */
static uint64_t (*_Atomic test_clock)(void);

uint64_t wm_clock_ns(void)
{
    uint64_t (*clock)(void) =
        atomic_load_explicit(&test_clock, memory_order_relaxed);
    struct timespec now;

    if (clock != NULL) {
        return clock();
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The system's last tick, and more than the time between two. */
enum { TICK_NS = 20000000 };

uint64_t wm_clock_rough_ns(void)
{
    uint64_t (*clock)(void) =
        atomic_load_explicit(&test_clock, memory_order_relaxed);
    struct timespec tick;

    if (clock != NULL) {
        return clock();
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_sec * 1000000000u + (uint64_t)tick.tv_nsec +
           TICK_NS;
}

void wm_clock_set(uint64_t (*clock)(void))
{
    atomic_store_explicit(&test_clock, clock, memory_order_relaxed);
}
