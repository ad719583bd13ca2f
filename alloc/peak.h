/* peak.h: a sum, and the most that it was, by who alone writes both.
 *
 *   0 ├──────── sum ────────┤── room ──┤ most
 *
 * What is kept is the room that is left below the most: to add is one
 * subtraction from memory, which says by its sign whether there is a new most.
 */
#ifndef WM_PEAK_H
#define WM_PEAK_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct wm_peak {
    int64_t room, most;
} wm_peak;

/* Whether it is below 0 then. */
static inline __attribute__((always_inline)) bool wm_peak_lower(int64_t *room,
                                                                int64_t n)
{
    bool below;

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                   \
    !defined(__SANITIZE_THREAD__)
    /* gcc 12 takes it through a register: three instructions. */
    __asm__("subq %2, %0" : "+m"(*room), "=@ccs"(below) : "er"(n) : "cc");
#else
    *room -= n;
    below = *room < 0;
#endif
    return wm_unlikely(below);
}

static inline __attribute__((always_inline)) void wm_peak_add(wm_peak *peak,
                                                              int64_t n)
{
    if (wm_peak_lower(&peak->room, n)) {
        peak->most -= peak->room;
        peak->room = 0;
    }
}

static inline void wm_peak_sub(wm_peak *peak, int64_t n)
{
    peak->room += n;
}

static inline int64_t wm_peak_now(const wm_peak *peak)
{
    return peak->most - peak->room;
}

#endif
