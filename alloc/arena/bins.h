/* bins.h: bins of runs, and a bitmap of the bins that are not empty (lane.h).
 * Inlined: each allocation and free of a run searches them, adds to them and
 * removes from them. Lock arena. */
#ifndef WM_BINS_H
#define WM_BINS_H

#include "alloc/arena/lane.h"
#include "runtime/base/status.h"

enum {
    WM_BINS_FIRST_LOG2 = 12,
    WM_BINS_STEP_MASK = (1 << WM_BINS_STEPS_LOG2) - 1
};

/* Runs of a bin that a search compares. With 1 the traces of the bench hold 1
 * to 3 % more memory; more than 4 make no difference beyond noise. */
enum { WM_BINS_TRIES = 4 };

/* Which run of a bin: their sizes differ by at most an eighth. */
enum wm_fit { WM_FIT_SMALLEST, WM_FIT_LOWEST };

/* Bin of a run of so many bytes. */
static inline unsigned wm_bins_index(size_t bytes)
{
    unsigned log2 = 63 - (unsigned)__builtin_clzll((uint64_t)bytes);
    unsigned step =
        (unsigned)(bytes >> (log2 - WM_BINS_STEPS_LOG2)) & WM_BINS_STEP_MASK;

    wm_assert(log2 >= WM_BINS_FIRST_LOG2);
    return ((log2 - WM_BINS_FIRST_LOG2) << WM_BINS_STEPS_LOG2) + step;
}

/* Adds a run to a doubly linked list, and removes it. */
static inline void wm_idle_link(wm_block **head, wm_block *run)
{
    run->previous_idle = NULL;
    run->next_idle = *head;
    if (*head != NULL) {
        (*head)->previous_idle = run;
    }
    *head = run;
}

static inline void wm_idle_unlink(wm_block **head, wm_block *run)
{
    if (run->next_idle != NULL) {
        run->next_idle->previous_idle = run->previous_idle;
    }
    if (run->previous_idle != NULL) {
        run->previous_idle->next_idle = run->next_idle;
    } else {
        wm_assert(*head == run);
        *head = run->next_idle;
    }
}

/* block is a run of whole pages; remove: it is in one of the bins. */
static inline void wm_bins_insert(wm_bins *bins, wm_block *block)
{
    unsigned bin = wm_bins_index(block->bytes);

    wm_idle_link(&bins->bin[bin], block);
    bins->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static inline void wm_bins_remove(wm_bins *bins, wm_block *block)
{
    bool first = block->previous_idle == NULL;
    unsigned bin = first ? wm_bins_index(block->bytes) : 0;

    wm_idle_unlink(&bins->bin[bin], block);
    if (first) {
        bins->filled[bin / 64] &=
            ~((uint64_t)(bins->bin[bin] == NULL) << (bin % 64));
    }
}

/* The first filled bin from bin on; WM_BINS_COUNT: none. */
static inline unsigned wm_bins_next(const wm_bins *bins, unsigned bin)
{
    unsigned word = bin / 64;
    uint64_t bits;

    if (bin >= WM_BINS_COUNT) {
        return WM_BINS_COUNT;
    }
    bits = bins->filled[word] & (UINT64_MAX << (bin % 64));
    while (bits == 0 && ++word < WM_BINS_WORDS) {
        bits = bins->filled[word];
    }
    return bits != 0 ? word * 64 + (unsigned)__builtin_ctzll(bits)
                     : WM_BINS_COUNT;
}

/* The smallest run that fits among the first tries runs of a list. */
static inline wm_block *wm_bins_smallest(wm_block *block, size_t bytes,
                                         unsigned tries)
{
    wm_block *best = NULL;

    for (; block != NULL && tries > 0; block = block->next_idle, tries--) {
        if (block->bytes >= bytes &&
            (best == NULL || block->bytes < best->bytes)) {
            best = block;
        }
    }
    return best;
}

/* One of the first WM_BINS_TRIES runs in the first filled bin from bin on,
 * where every run fits: the smallest, or that with the lowest address. */
static inline wm_block *wm_bins_first_from(const wm_bins *bins, unsigned bin,
                                           size_t bytes, enum wm_fit fit)
{
    wm_block *first, *block;

    bin = wm_bins_next(bins, bin);
    if (bin == WM_BINS_COUNT) {
        return NULL;
    }
    first = bins->bin[bin];
    if (fit == WM_FIT_SMALLEST) {
        return wm_bins_smallest(first, bytes, WM_BINS_TRIES);
    }
    block = first->next_idle;
    for (unsigned i = 1; i < WM_BINS_TRIES && block != NULL; i++) {
        first = block->base < first->base ? block : first;
        block = block->next_idle;
    }
    return first;
}

/* A run of at least bytes (whole pages), which stays in its bin, or null. */
static __attribute__((noinline, unused)) wm_block *
wm_bins_find(const wm_bins *bins, size_t bytes, enum wm_fit fit)
{
    unsigned bin = wm_bins_index(bytes);
    unsigned log2 = WM_BINS_FIRST_LOG2 + (bin >> WM_BINS_STEPS_LOG2);
    size_t step = (bin & WM_BINS_STEP_MASK) + WM_BINS_STEP_MASK + 1;
    wm_block *block;

    if (wm_likely(step << (log2 - WM_BINS_STEPS_LOG2) == bytes)) {
        return wm_bins_first_from(bins, bin, bytes, fit); /* lower bound */
    }
    block = wm_bins_smallest(bins->bin[bin], bytes, WM_BINS_TRIES);
    if (block == NULL) {
        block = wm_bins_first_from(bins, bin + 1, bytes, fit);
    }
    /* Searches the whole bin: no miss while a run fits. */
    return block != NULL ? block
                         : wm_bins_smallest(bins->bin[bin], bytes, UINT32_MAX);
}

/* ---- few runs, or bins --------------------------------------------------- */

/* Moves a lane's few runs to bins. Without memory for these they stay. */
void wm_runs_add_bins(wm_runs *runs);

static inline void wm_runs_insert(wm_runs *runs, wm_block *block)
{
    runs->count++;
    if (wm_unlikely(runs->bins == NULL) && runs->count > WM_RUNS_FEW) {
        wm_runs_add_bins(runs);
    }
    if (wm_likely(runs->bins != NULL)) {
        wm_bins_insert(runs->bins, block);
    } else {
        wm_idle_link(&runs->few, block);
    }
}

static inline void wm_runs_remove(wm_runs *runs, wm_block *block)
{
    runs->count--;
    if (wm_likely(runs->bins != NULL)) {
        wm_bins_remove(runs->bins, block);
    } else {
        wm_idle_unlink(&runs->few, block);
    }
}

/* As wm_bins_find(); of few runs the smallest. */
static inline wm_block *wm_runs_find(const wm_runs *runs, size_t bytes,
                                     enum wm_fit fit)
{
    if (runs->count == 0) {
        return NULL;
    }
    return wm_likely(runs->bins != NULL)
               ? wm_bins_find(runs->bins, bytes, fit)
               : wm_bins_smallest(runs->few, bytes, UINT32_MAX);
}

/* Walks the lists of runs: the first run of the next one, or null; *at begins
 * with 0. */
static inline wm_block *wm_runs_next(const wm_runs *runs, unsigned *at)
{
    if (runs->bins == NULL) {
        return (*at)++ == 0 ? runs->few : NULL;
    }
    *at = wm_bins_next(runs->bins, *at);
    return *at < WM_BINS_COUNT ? runs->bins->bin[(*at)++] : NULL;
}

#endif
