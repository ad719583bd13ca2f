/* page_map.c: growth of the map, and look-ups inside a segment. */
#include "alloc/block/page_map.h"

#include "runtime/base/status.h"

#include <sys/mman.h>

_Atomic(wm_leaf *) wm_page_root[(size_t)1 << WM_ROOT_SHIFT];
const uintptr_t wm_page_gone;

static warm_status add_leaf(size_t index)
{
    wm_leaf *expected = NULL;
    wm_leaf *leaf;

    /* Acquire pairs with the release below in the thread that made the leaf:
     * the leaf is zeroed before this thread stores entries into it. */
    if (atomic_load_explicit(&wm_page_root[index], memory_order_acquire)) {
        return WARM_OK;
    }
    leaf = mmap(NULL, sizeof *leaf, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (leaf == MAP_FAILED) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for the page map");
    }
    /* Release: a thread that finds the leaf finds it zeroed. If another thread
     * stored its leaf first, acquire: this thread writes into that leaf. */
    if (!atomic_compare_exchange_strong_explicit(
            &wm_page_root[index], &expected, leaf, memory_order_release,
            memory_order_acquire)) {
        munmap(leaf, sizeof *leaf);
    }
    return WARM_OK;
}

warm_status wm_page_map_reserve(const void *base, size_t bytes)
{
    uintptr_t first = (uintptr_t)base >> WM_PAGE_SHIFT;
    uintptr_t last = ((uintptr_t)base + bytes - 1) >> WM_PAGE_SHIFT;

    if ((uintptr_t)base % WM_PAGE != 0) {
        return wm_fail(WARM_UNSUPPORTED,
                       "the driver returned memory at %p, which is not the "
                       "start of a page",
                       base);
    }
    if (last >> (WM_LEAF_SHIFT + WM_ROOT_SHIFT) != 0) {
        return wm_fail(WARM_UNSUPPORTED,
                       "the driver returned memory at %p: addresses above 48 "
                       "bits cannot be tracked",
                       base);
    }
    for (uintptr_t i = first >> WM_LEAF_SHIFT; i <= last >> WM_LEAF_SHIFT;
         i++) {
        warm_status status = add_leaf(i);

        if (status != WARM_OK) {
            return status;
        }
    }
    return WARM_OK;
}

bool wm_page_map_any(const void *base, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += WM_PAGE) {
        uintptr_t entry = wm_page_map_get((const char *)base + at);

        if (entry != 0 && entry != (uintptr_t)&wm_page_gone) {
            return true;
        }
    }
    return false;
}

void wm_page_map_set(const void *address, const void *record,
                     enum wm_entry_kind kind)
{
    uintptr_t page = (uintptr_t)address >> WM_PAGE_SHIFT;
    /* Acquire pairs with the release in add_leaf(), which may have run in
     * another thread than the one that reserved the range. */
    wm_leaf *leaf = atomic_load_explicit(&wm_page_root[page >> WM_LEAF_SHIFT],
                                         memory_order_acquire);

    page &= ((uintptr_t)1 << WM_LEAF_SHIFT) - 1;
    /* Release pairs with the acquire of wm_page_map_get(). */
    atomic_store_explicit(&(*leaf)[page],
                          record != NULL ? (uintptr_t)record | kind : 0,
                          memory_order_release);
}

void wm_page_map_fill(const void *base, size_t bytes, const void *record,
                      enum wm_entry_kind kind)
{
    for (size_t at = 0; at < bytes; at += WM_PAGE) {
        wm_page_map_set((const char *)base + at, record, kind);
    }
}

void wm_page_map_fill_slab(wm_slab *slab)
{
    size_t bytes = slab->slots * slab->slot_bytes;

    for (size_t at = 0; at < bytes; at += WM_PAGE) {
        /* The first slot that begins at or after the start of the page. */
        size_t i = (at + slab->slot_bytes - 1) / slab->slot_bytes;

        if (slab->slot_bytes >= WM_PAGE &&
            i * slab->slot_bytes < at + WM_PAGE) {
            wm_page_map_set(wm_slab_base(slab) + at, &slab->slot[i],
                            WM_ENTRY_RUN);
        } else {
            wm_page_map_set(wm_slab_base(slab) + at, slab, WM_ENTRY_SLAB);
        }
    }
}

static void *record_of(uintptr_t entry)
{
    return (void *)(entry & ~(uintptr_t)3);
}

/* The run that holds an inner page: the nearest start at or before the page.
 * The first page of a segment is always a start. */
static wm_block *run_around(wm_segment *segment, const void *address)
{
    size_t page = (size_t)((const char *)address - segment->base) / WM_PAGE;
    size_t word = page / 64;
    uintptr_t entry;
    uint64_t bits;

    if (wm_unlikely(word >= segment->words)) {
        return NULL; /* stale: the record serves another segment */
    }
    bits = atomic_load_explicit(&segment->starts[word], memory_order_relaxed) &
           (UINT64_MAX >> (63 - page % 64));
    while (bits == 0 && word > 0) {
        word--;
        bits =
            atomic_load_explicit(&segment->starts[word], memory_order_relaxed);
    }
    if (bits == 0) {
        return NULL;
    }
    page = word * 64 + 63 - (size_t)__builtin_clzll(bits);
    entry = wm_page_map_get(segment->base + page * WM_PAGE);
    /* If the entry is not a run, it is stale: the run was merged meanwhile. */
    return (entry & 3) == WM_ENTRY_RUN ? record_of(entry) : NULL;
}

static wm_block *slot_at(wm_slab *slab, const void *address)
{
    size_t i = wm_slot_index(slab, address);

    /* If i is beyond the slots, the slab is stale: its record serves another
     * run. */
    return wm_likely(i < slab->slots) ? &slab->slot[i] : NULL;
}

wm_block *wm_block_at(const void *address)
{
    uintptr_t entry = wm_page_map_get(address);
    wm_block *block;

    switch (entry & 3) {
    case WM_ENTRY_SLAB:
        return slot_at(record_of(entry), address);
    case WM_ENTRY_INNER:
        return run_around(record_of(entry), address);
    case WM_ENTRY_IMPORTED:
        return NULL;
    default:
        block = record_of(entry);
        return block->slab != NULL ? slot_at(block->slab, address) : block;
    }
}
