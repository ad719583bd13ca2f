/* page_map.h: from any address to what lies there, for the whole process.
 *
 * A radix tree of two levels over 48 bits of address: 2^18 leaves of 2^18
 * pages of 4 KiB. Look-ups are two dependent loads and take no lock. Leaves
 * are made when a segment is added and stay for ever. Segments of different
 * runtimes and spaces share the one map, since addresses are unique in a
 * process (also between devices, by unified addressing). */
#ifndef WM_PAGE_MAP_H
#define WM_PAGE_MAP_H

#include "alloc/block/block.h"
#include "runtime/base/status.h"

enum { WM_PAGE_SHIFT = 12, WM_LEAF_SHIFT = 18, WM_ROOT_SHIFT = 18 };

/* What an entry of the map says; the kind is in its low bits. IMPORTED: it is
 * a segment of another process (ipc_import.h), or, with wm_page_gone for its
 * record, one that a runtime left behind when it was destroyed: no block lies
 * there. An entry of nothing is 0: not that of a RUN, for which hits have one
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

/* The entry of the page that holds address, 0 if it is not ours. Acquire
 * pairs with wm_page_map_set(): the record behind it is initialised. */
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

/* Whether a runtime that was destroyed left the memory behind. */
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

/* Makes the leaves for a range; the entries stay as they are.
 * Status: OUT_OF_MEMORY; UNSUPPORTED (address above 48 bits). */
warm_status wm_page_map_reserve(const void *base, size_t bytes);

/* Whether something that is known of lies there: not memory that a runtime left
 * behind, whose address the driver may give anew. */
bool wm_page_map_any(const void *base, size_t bytes);

/* Sets the entry of one page, or of every page of a range; reserved before. */
void wm_page_map_set(const void *address, const void *record,
                     enum wm_entry_kind kind);
void wm_page_map_fill(const void *base, size_t bytes, const void *record,
                      enum wm_entry_kind kind);

/* Those of a slab's pages. Where one slot begins, as in all from WM_PAGE bytes
 * on, and nowhere two, its block is found as that of a run is. */
void wm_page_map_fill_slab(wm_slab *slab);

/* Slots are multiples of WM_GRAIN: a division by one of them is a product and
 * a shift, exact for every offset in a slab, of at most 64 slots. */
enum { WM_INVERSE_SHIFT = 20, WM_GRAIN_SHIFT = 9 };

static inline uint32_t wm_slot_inverse(size_t slot_bytes)
{
    uint32_t grains = (uint32_t)(slot_bytes >> WM_GRAIN_SHIFT);

    return ((UINT32_C(1) << WM_INVERSE_SHIFT) + grains - 1) / grains;
}

/* The slot that holds address. Beyond the slots if that is not in the slab. */
static inline size_t wm_slot_index(const wm_slab *slab, const void *address)
{
    size_t grain =
        (size_t)((const char *)address - wm_slab_base(slab)) >> WM_GRAIN_SHIFT;

    return (grain *
            atomic_load_explicit(&slab->inverse, memory_order_relaxed)) >>
           WM_INVERSE_SHIFT;
}

/* The block that starts at address if it starts at all there: one that holds
 * it, or null. Without a loop, for hits. */
static inline wm_block *wm_block_from(const void *address)
{
    uintptr_t page = (uintptr_t)address >> WM_PAGE_SHIFT;
    wm_leaf *leaf;
    uintptr_t entry;
    size_t i;
    wm_slab *slab;

    /* An address above 48 bits finds the block of one below: the caller looks
     * whether it starts at the address. Acquire: as in wm_page_map_get(). */
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
            __builtin_unreachable(); /* it has a record */
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

/* The block that holds address, whatever its state, or null. The caller looks
 * at the state before anything else. */
wm_block *wm_block_at(const void *address);

#endif
