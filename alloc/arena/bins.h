/* bins.h: idle runs by size, for a good fit at a fixed cost.
 *
 *   bins     32 K │ 36 K │ 40 K │ … │ 60 K │ 64 K │ 72 K │ …   eight to a
 *                    │                                         doubling
 *                  run ↔ run ↔ run       the last one freed goes first
 *
 * A run stands in the bin of the largest bound that it reaches. The sizes that
 * are asked for most are bounds themselves (size_class.h), so that every run
 * of their bin serves them, and they get the best fit but for an eighth. The
 * links are those of the runs: no allocation. The caller holds lock
 * arena. */
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
/* A run of at least bytes (whole pages), or null if there is none; it stays
 * where it is. */
wm_block *wm_bins_find(const wm_bins *bins, size_t bytes);

/* The first bin from this one on that has any; WM_BINS_COUNT: none. */
unsigned wm_bins_next(const wm_bins *bins, unsigned bin);

/* Bin of a run of so many bytes. */
unsigned wm_bins_index(size_t bytes);

#endif
