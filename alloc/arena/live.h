/* live.h: how many blocks and bytes callers hold of a space and how many bytes
 * the space holds for them, with peaks.
 *
 *   0 ├── with callers ──┤─ room ─┤─ room ─┤ claimed        peak
 *                         thread 1 thread 2
 *
 * A thread's cache claims room ahead: its hits use that room, its frees add to
 * it, and what it has beyond a bound is returned (cache/magazine.h). An arena
 * claims each block that it allocates for a caller, and returns it at the free.
 * A claim precedes its block. So claimed is never below what callers hold, and
 * above it by no more than the rooms; and a peak is the highest claim. What is
 * held is exact, so that it caps the peak of bytes.
 *
 * Atomic; no lock. */
#ifndef WM_LIVE_H
#define WM_LIVE_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct wm_claim {
    _Atomic int64_t claimed, peak;
} wm_claim;

typedef struct wm_live {
    _Alignas(64) wm_claim blocks, bytes;
    wm_claim held;
} wm_live;

/* Adds n, which may be negative, and raises the peak. */
void wm_claim_add(wm_claim *claim, int64_t n);
static inline void wm_live_claim(wm_live *live, int64_t blocks, int64_t bytes)
{
    wm_claim_add(&live->blocks, blocks);
    wm_claim_add(&live->bytes, bytes);
}

/* Resets the peaks to what is claimed now. */
void wm_live_reset(wm_live *live);

static inline int64_t wm_claimed(const wm_claim *claim)
{
    return atomic_load_explicit(&claim->claimed, memory_order_relaxed);
}

static inline int64_t wm_claim_peak(const wm_claim *claim)
{
    return atomic_load_explicit(&claim->peak, memory_order_relaxed);
}

#endif
