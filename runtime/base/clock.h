/* clock.h: time that a test can drive. Any thread, no lock. */
#ifndef WM_CLOCK_H
#define WM_CLOCK_H

#include <stdint.h>

/* Monotonic time. */
uint64_t wm_clock_ns(void);

/* For tests: use clock instead of the system's; null for the system's. */
void wm_clock_set(uint64_t (*clock)(void));

#endif
