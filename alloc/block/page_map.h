/* page_map.h: from any address to the record of what lies there, for the whole
 * process.
 *
 * A radix tree of two levels over 48 bits of address: 2^18 leaves of 2^18 pages
 * of 4 KiB. A look-up is two dependent loads and takes no lock. A leaf is made
 * when the first segment is added there and stays until the process ends.
 * Segments of all runtimes and spaces share the one map, since addresses are
 * unique in a process (also between devices, by unified addressing). */
#ifndef WM_PAGE_MAP_H
#define WM_PAGE_MAP_H

#include "alloc/block/block.h"
#include "runtime/base/status.h"

enum { WM_PAGE_SHIFT = 12, WM_LEAF_SHIFT = 18, WM_ROOT_SHIFT = 18 };

/* Kind of a map entry, in its low bits. IMPORTED: the record is a segment of
 * another process (ipc_import.h); or, with wm_page_gone as record, the memory
 * was left behind by a runtime that was destroyed. No block lies there. An
 * empty entry is 0, which differs from every RUN entry, so that a hit needs one
 * test. */
enum wm_entry_kind {
    WM_ENTRY_IMPORTED = 0,
    WM_ENTRY_RUN = 1,
    WM_ENTRY_SLAB = 2,
    WM_ENTRY_INNER = 3
};

typedef _Atomic(uintptr_t) wm_leaf[(size_t)1 << WM_LEAF_SHIFT];

extern _Atomic(wm_leaf *) wm_page_root[(size_t)1 << WM_ROOT_SHIFT]
    __attribute__((visibility("hidden")));

/* The entry of the page that holds address; 0: not warmpool's memory. Acquire
 * pairs with wm_page_map_set(): the record behind the entry is initialised. */
static inline uintptr_t wm_page_map_get(const void *address)
{
    uintptr_t page = (uintptr_t)address >> WM_PAGE_SHIFT;
    wm_leaf *leaf;

    if (wm_unlikely(page >> (WM_LEAF_SHIFT + WM_ROOT_SHIFT) != 0)) {
        return 0;
    }
    leaf = atomic_load_explicit(&wm_page_root[page >> WM_LEAF_SHIFT],
                                memory_order_acquire);
    if (wm_unlikely(leaf == NULL)) {
        return 0;
    }
    page &= ((uintptr_t)1 << WM_LEAF_SHIFT) - 1;
    return atomic_load_explicit(&(*leaf)[page], memory_order_acquire);
}

extern const uintptr_t wm_page_gone __attribute__((visibility("hidden")));

/* True if a runtime that was destroyed left the memory behind. */
static inline bool wm_is_left_behind(const void *address)
{
    return wm_page_map_get(address) == (uintptr_t)&wm_page_gone;
}

static inline bool wm_is_imported(const void *address)
{
    uintptr_t entry = wm_page_map_get(address);

    return entry != 0 && (entry & 3) == WM_ENTRY_IMPORTED &&
           entry != (uintptr_t)&wm_page_gone;
}

/* Makes the leaves for a range; entries do not change.
 * Status: OUT_OF_MEMORY; UNSUPPORTED (address above 48 bits, or not the start
 * of a page). */
warm_status wm_page_map_reserve(const void *base, size_t bytes);

/* True if the range holds a known record. Memory that a destroyed runtime left
 * behind does not count: the driver may reuse its address. */
bool wm_page_map_any(const void *base, size_t bytes);

/* Sets the entry of one page, or of every page of a range. The range was
 * reserved before. */
void wm_page_map_set(const void *address, const void *record,
                     enum wm_entry_kind kind);
void wm_page_map_fill(const void *base, size_t bytes, const void *record,
                      enum wm_entry_kind kind);

/* Sets the entries of a slab's pages. If slots have WM_PAGE bytes or more, a
 * page in which one begins has a RUN entry for that slot, as the first page of
 * a run has for the run. Every other page has a SLAB entry. */
void wm_page_map_fill_slab(wm_slab *slab);

/* Slots are multiples of WM_GRAIN. The division by a slot's size is a product
 * and a shift, exact for every offset in a slab (at most 64 slots). */
enum { WM_INVERSE_SHIFT = 20, WM_GRAIN_SHIFT = 9 };

static inline uint32_t wm_slot_inverse(size_t slot_bytes)
{
    uint32_t grains = (uint32_t)(slot_bytes >> WM_GRAIN_SHIFT);

    return ((UINT32_C(1) << WM_INVERSE_SHIFT) + grains - 1) / grains;
}

/* Index of the slot that holds address; at least slab->slots if the address is
 * not in the slab. */
static inline size_t wm_slot_index(const wm_slab *slab, const void *address)
{
    size_t grain =
        (size_t)((const char *)address - wm_slab_base(slab)) >> WM_GRAIN_SHIFT;

    return (grain *
            atomic_load_explicit(&slab->inverse, memory_order_relaxed)) >>
           WM_INVERSE_SHIFT;
}

/* A block that contains address if a block starts there, else any block or
 * null: the caller compares its base. Without a loop, for hits. */
static inline wm_block *wm_block_from(const void *address)
{
    uintptr_t page = (uintptr_t)address >> WM_PAGE_SHIFT;
    wm_leaf *leaf;
    uintptr_t entry;
    size_t i;
    wm_slab *slab;

    /* An address above 48 bits finds the block of a lower address, whose base
     * differs. Acquire: as in wm_page_map_get(). */
    leaf = atomic_load_explicit(
        &wm_page_root[(page >> WM_LEAF_SHIFT) &
                      (((uintptr_t)1 << WM_ROOT_SHIFT) - 1)],
        memory_order_acquire);
    if (wm_unlikely(leaf == NULL)) {
        return NULL;
    }
    entry = atomic_load_explicit(
        &(*leaf)[page & (((uintptr_t)1 << WM_LEAF_SHIFT) - 1)],
        memory_order_acquire);
    if (wm_likely(((entry - WM_ENTRY_RUN) & 3) == 0)) {
        if (entry == WM_ENTRY_RUN) {
            __builtin_unreachable(); /* a RUN entry has a record */
        }
        return (wm_block *)(entry - WM_ENTRY_RUN);
    }
    if ((entry & 3) != WM_ENTRY_SLAB) {
        return NULL;
    }
    slab = (wm_slab *)(entry & ~(uintptr_t)3);
    i = wm_slot_index(slab, address);
    return wm_likely(i < slab->slots) ? &slab->slot[i] : NULL;
}

/* The block that holds address, in any state, or null. The caller checks the
 * state first. */
wm_block *wm_block_at(const void *address);

#endif
