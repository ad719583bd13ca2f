/* bins.c: bins of runs, and a bitmap of the bins that are not empty. */
#include "alloc/arena/arena_int.h"

#include "runtime/base/meta.h"
#include "runtime/base/status.h"

enum { FIRST_LOG2 = 12, STEP_MASK = (1 << WM_BINS_STEPS_LOG2) - 1 };

/* Runs of a bin that a search compares. With 1 the traces of the bench hold 1
 * to 3 % more memory; more than 4 make no difference beyond noise. */
enum { TRIES = 4 };

unsigned wm_bins_index(size_t bytes)
{
    unsigned log2 = 63 - (unsigned)__builtin_clzll((uint64_t)bytes);
    unsigned step =
        (unsigned)(bytes >> (log2 - WM_BINS_STEPS_LOG2)) & STEP_MASK;

    wm_assert(log2 >= FIRST_LOG2);
    return ((log2 - FIRST_LOG2) << WM_BINS_STEPS_LOG2) + step;
}

void wm_idle_link(wm_block **head, wm_block *run)
{
    run->previous_idle = NULL;
    run->next_idle = *head;
    if (*head != NULL) {
        (*head)->previous_idle = run;
    }
    *head = run;
}

void wm_idle_unlink(wm_block **head, wm_block *run)
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

void wm_bins_insert(wm_bins *bins, wm_block *block)
{
    unsigned bin = wm_bins_index(block->bytes);

    wm_idle_link(&bins->bin[bin], block);
    bins->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
}

void wm_bins_remove(wm_bins *bins, wm_block *block)
{
    bool first = block->previous_idle == NULL;
    unsigned bin = first ? wm_bins_index(block->bytes) : 0;

    wm_idle_unlink(&bins->bin[bin], block);
    if (first) {
        bins->filled[bin / 64] &=
            ~((uint64_t)(bins->bin[bin] == NULL) << (bin % 64));
    }
}

unsigned wm_bins_next(const wm_bins *bins, unsigned bin)
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
static wm_block *smallest(wm_block *block, size_t bytes, unsigned tries)
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

/* The smallest of the first TRIES runs in the first filled bin from bin on,
 * where every run fits. */
static wm_block *smallest_from(const wm_bins *bins, unsigned bin, size_t bytes)
{
    bin = wm_bins_next(bins, bin);
    return bin < WM_BINS_COUNT ? smallest(bins->bin[bin], bytes, TRIES) : NULL;
}

wm_block *wm_bins_find(const wm_bins *bins, size_t bytes)
{
    unsigned bin = wm_bins_index(bytes);
    unsigned log2 = FIRST_LOG2 + (bin >> WM_BINS_STEPS_LOG2);
    size_t step = (bin & STEP_MASK) + STEP_MASK + 1;
    wm_block *block;

    if (wm_likely(step << (log2 - WM_BINS_STEPS_LOG2) == bytes)) {
        return smallest_from(bins, bin, bytes); /* the bin's lower bound */
    }
    block = smallest(bins->bin[bin], bytes, TRIES);
    if (block == NULL) {
        block = smallest_from(bins, bin + 1, bytes);
    }
    /* Searches the whole bin: no miss while a run fits. */
    return block != NULL ? block : smallest(bins->bin[bin], bytes, UINT32_MAX);
}

/* ---- few runs, or bins --------------------------------------------------- */

/* Without memory the runs stay in one list. */
static void add_bins(wm_runs *runs)
{
    wm_bins *bins = wm_meta_alloc(sizeof *bins);

    if (bins == NULL) {
        return;
    }
    for (wm_block *run = runs->few, *next; run != NULL; run = next) {
        next = run->next_idle;
        wm_bins_insert(bins, run);
    }
    runs->few = NULL;
    runs->bins = bins;
}

void wm_runs_insert(wm_runs *runs, wm_block *block)
{
    runs->count++;
    if (wm_unlikely(runs->bins == NULL) && runs->count > WM_RUNS_FEW) {
        add_bins(runs);
    }
    if (wm_likely(runs->bins != NULL)) {
        wm_bins_insert(runs->bins, block);
    } else {
        wm_idle_link(&runs->few, block);
    }
}

void wm_runs_remove(wm_runs *runs, wm_block *block)
{
    runs->count--;
    if (wm_likely(runs->bins != NULL)) {
        wm_bins_remove(runs->bins, block);
    } else {
        wm_idle_unlink(&runs->few, block);
    }
}

wm_block *wm_runs_find(const wm_runs *runs, size_t bytes)
{
    if (runs->count == 0) {
        return NULL;
    }
    return wm_likely(runs->bins != NULL)
               ? wm_bins_find(runs->bins, bytes)
               : smallest(runs->few, bytes, UINT32_MAX);
}

wm_block *wm_runs_next(const wm_runs *runs, unsigned *at)
{
    if (runs->bins == NULL) {
        return (*at)++ == 0 ? runs->few : NULL;
    }
    *at = wm_bins_next(runs->bins, *at);
    return *at < WM_BINS_COUNT ? runs->bins->bin[(*at)++] : NULL;
}
