/* bins.h: idle runs by size, for a good fit at a fixed cost.
 *
 *   bins     32 K │ 36 K │ 40 K │ … │ 60 K │ 64 K │ 72 K │ …   eight to a
 *                    │                                         doubling
 *                  run ↔ run ↔ run       the run freed last is first
 *
 * A run stands in the bin with the largest lower bound that it reaches. The
 * class sizes are bounds themselves (size_class.h): every run of their bin
 * serves them, with at most an eighth wasted. Runs are linked through their
 * records: no allocation. The caller holds lock arena. */
#ifndef WM_BINS_H
#define WM_BINS_H

#include "alloc/block/block.h"

enum {
    WM_BINS_STEPS_LOG2 = 3,
    WM_BINS_COUNT = (46 - 12 + 1) << WM_BINS_STEPS_LOG2, /* WM_REQUEST_MAX */
    WM_BINS_WORDS = (WM_BINS_COUNT + 63) / 64
};

/* All zeros: empty. */
typedef struct wm_bins {
    uint64_t filled[WM_BINS_WORDS]; /* bit i: bin i has a run */
    wm_block *bin[WM_BINS_COUNT];
} wm_bins;

/* block is a run of whole pages. */
void wm_bins_insert(wm_bins *bins, wm_block *block);
/* block is in one of the bins. */
void wm_bins_remove(wm_bins *bins, wm_block *block);
/* A run of at least bytes (whole pages), which stays in its bin, or null if
 * there is none. */
wm_block *wm_bins_find(const wm_bins *bins, size_t bytes);

/* The first filled bin from bin on; WM_BINS_COUNT: none. */
unsigned wm_bins_next(const wm_bins *bins, unsigned bin);

/* Bin of a run of so many bytes. */
unsigned wm_bins_index(size_t bytes);

#endif
