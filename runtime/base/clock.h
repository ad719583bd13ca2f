/* clock.h: monotonic time, which a test can replace. Any thread, no lock. */
#ifndef WM_CLOCK_H
#define WM_CLOCK_H

#include <stdint.h>

/* Monotonic time. */
uint64_t wm_clock_ns(void);

/* The same for a tenth of the price: up to 20 ms ahead, never behind. */
uint64_t wm_clock_rough_ns(void);

/* For tests: replaces the system's clock; null restores it. */
void wm_clock_set(uint64_t (*clock)(void));

#endif
