/* page_map.h: from any address to the record of what lies there, for the whole
 * process.
 *
 *   root ──► leaf of 1 GiB ─┬─ page    of 4 KiB:  what begins there
 *                           └─ granule of 2 MiB:  start, the large run that
 *                              begins there; cover, the segment of its first
 *                              page
 *
 * A radix tree of two levels over 48 bits of address: 2^18 leaves of 2^18 pages
 * or 2^9 granules. The entry of a run is that of the granule in which it begins
 * if the run is as large as a granule, else that of its first page. So a large
 * run takes no page of the leaf, and a segment 8 bytes for each granule. The
 * start of a block leads to its record by two dependent loads, without a lock.
 * For an inner address the map has the segment, and the segment the cells of
 * its address range in which runs start.
 *
 * A leaf is made when the first segment is added there and stays until the
 * process ends. Segments of all runtimes and spaces share the one map, since
 * addresses are unique in a process (also between devices, by unified
 * addressing). */
#ifndef WM_PAGE_MAP_H
#define WM_PAGE_MAP_H

#include "alloc/block/block.h"
#include "runtime/base/status.h"

enum {
    WM_PAGE_SHIFT = 12,
    WM_GRANULE_SHIFT = 21,
    WM_LEAF_SHIFT = 18,
    WM_ROOT_SHIFT = 18,
    WM_GRANULES = 1 << (WM_PAGE_SHIFT + WM_LEAF_SHIFT - WM_GRANULE_SHIFT)
};

#define WM_GRANULE ((size_t)1 << WM_GRANULE_SHIFT)

/* Kind of a map entry, in its low bits. IMPORTED: the record is a segment of
 * another process (ipc_import.h); or, with wm_page_gone as record, the memory
 * was left behind by a runtime that was destroyed. No block lies there. An
 * empty entry is 0, which differs from every RUN entry, so that a hit needs one
 * test. */
enum wm_entry_kind {
    WM_ENTRY_IMPORTED = 0, /* of a page, or of a whole granule in cover */
    WM_ENTRY_RUN = 1,      /* of a page, or in start */
    WM_ENTRY_SLAB = 2,     /* of a page */
    WM_ENTRY_INNER = 3     /* in cover: a segment */
};

/* Entries are written under the lock of what lies there. */
typedef struct wm_leaf {
    _Atomic(uintptr_t) page[(size_t)1 << WM_LEAF_SHIFT];
    /* Also WM_ENTRY_RUN without a record: a segment began there at some time,
     * or pages have entries. So an address far from any segment needs no
     * search. */
    _Atomic(uintptr_t) start[WM_GRANULES];
    _Atomic(uintptr_t) cover[WM_GRANULES];
} wm_leaf;

extern _Atomic(wm_leaf *) wm_page_root[(size_t)1 << WM_ROOT_SHIFT]
    __attribute__((visibility("hidden")));

/* The leaf of an address, or null. Acquire pairs with the release in
 * add_leaf(): the leaf is zeroed. */
static inline wm_leaf *wm_page_leaf(const void *address)
{
    uintptr_t leaf = (uintptr_t)address >> (WM_PAGE_SHIFT + WM_LEAF_SHIFT);

    return wm_likely(leaf >> WM_ROOT_SHIFT == 0)
               ? atomic_load_explicit(&wm_page_root[leaf], memory_order_acquire)
               : NULL;
}

/* The entries of an address in its leaf. */
static inline _Atomic(uintptr_t) *wm_page_entry(wm_leaf *leaf,
                                                const void *address)
{
    return &leaf->page[((uintptr_t)address >> WM_PAGE_SHIFT) &
                       (((uintptr_t)1 << WM_LEAF_SHIFT) - 1)];
}

static inline size_t wm_page_granule(const void *address)
{
    return ((uintptr_t)address >> WM_GRANULE_SHIFT) & (WM_GRANULES - 1);
}

/* The entry of the page that holds address, else the cover of its granule: a
 * segment that may end before the address; 0: neither. Acquire pairs with
 * wm_page_store(): the record behind the entry is initialised. */
static inline uintptr_t wm_page_map_get(const void *address)
{
    wm_leaf *leaf = wm_page_leaf(address);
    uintptr_t entry;

    if (wm_unlikely(leaf == NULL)) {
        return 0;
    }
    entry = atomic_load_explicit(wm_page_entry(leaf, address),
                                 memory_order_acquire);
    return entry != 0
               ? entry
               : atomic_load_explicit(&leaf->cover[wm_page_granule(address)],
                                      memory_order_acquire);
}

extern const uintptr_t wm_page_gone __attribute__((visibility("hidden")));

/* True if a runtime that was destroyed left the memory behind. */
bool wm_is_left_behind(const void *address);

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

/* The ranges below were reserved before. Null as record: no entry. */

/* The leaf of an address in such a range. Acquire: as above, since another
 * thread may have reserved it. */
static inline wm_leaf *wm_page_leaf_reserved(const void *address)
{
    return atomic_load_explicit(
        &wm_page_root[(uintptr_t)address >> (WM_PAGE_SHIFT + WM_LEAF_SHIFT)],
        memory_order_acquire);
}

/* Sets the entry of one page; of a run; clear: of no page of a range. */
static inline void wm_page_store(_Atomic(uintptr_t) *entry, const void *record,
                                 enum wm_entry_kind kind)
{
    /* Release pairs with the acquire of look-ups. */
    atomic_store_explicit(entry, record != NULL ? (uintptr_t)record | kind : 0,
                          memory_order_release);
}

static inline void wm_page_map_set(const void *address, const void *record,
                                   enum wm_entry_kind kind)
{
    wm_page_store(wm_page_entry(wm_page_leaf_reserved(address), address),
                  record, kind);
}

void wm_page_map_clear(const void *base, size_t bytes);

/* Sets the entry of a run of so many bytes, or removes it (run null). The run
 * is in no slab. */
static inline void wm_page_map_set_run(const void *base, size_t bytes,
                                       const wm_block *run)
{
    wm_leaf *leaf = wm_page_leaf_reserved(base);

    if (wm_likely(bytes < WM_GRANULE)) {
        wm_page_store(wm_page_entry(leaf, base), run, WM_ENTRY_RUN);
    } else {
        /* A null record stays: see wm_leaf. */
        atomic_store_explicit(&leaf->start[wm_page_granule(base)],
                              (uintptr_t)run | WM_ENTRY_RUN,
                              memory_order_release);
    }
}

/* Moves the entry of a run that gets another number of bytes; move: between
 * that of its first page and that of its granule. */
void wm_page_map_move_run(const wm_block *run, size_t bytes);
static inline void wm_page_map_resize_run(const wm_block *run, size_t bytes)
{
    if (wm_unlikely((run->bytes < WM_GRANULE) != (bytes < WM_GRANULE))) {
        wm_page_map_move_run(run, bytes);
    }
}

/* Sets the segment that look-ups of inner addresses find in a range: all of the
 * segment, or a part that begins with a run. */
void wm_page_map_cover(const void *base, size_t bytes,
                       const wm_segment *segment);

/* Sets every address of a range to a record without blocks (IMPORTED). The
 * range has no other entries, except of memory that was left behind. */
void wm_page_map_fill(const void *base, size_t bytes, const void *record);

/* Sets the entries of the pages of a slot. A page of a slab in which exactly
 * one slot begins (only if slots have WM_PAGE bytes or more) has a RUN entry
 * for that slot, as the first page of a run has for the run. */
void wm_page_map_set_slot(wm_slab *slab, unsigned slot);

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
        &leaf->page[page & (((uintptr_t)1 << WM_LEAF_SHIFT) - 1)],
        memory_order_acquire);
    if (wm_likely(((entry - WM_ENTRY_RUN) & 3) == 0)) {
        if (entry == WM_ENTRY_RUN) {
            __builtin_unreachable(); /* a RUN entry has a record */
        }
        return (wm_block *)(entry - WM_ENTRY_RUN);
    }
    if ((entry & 3) != WM_ENTRY_SLAB) {
        /* Of a large run; null: none begins in the granule. */
        return (wm_block *)(atomic_load_explicit(
                                &leaf->start[wm_page_granule(address)],
                                memory_order_acquire) &
                            ~(uintptr_t)3);
    }
    slab = (wm_slab *)(entry & ~(uintptr_t)3);
    i = wm_slot_index(slab, address);
    return wm_likely(i < slab->slots) ? &slab->slot[i] : NULL;
}

/* The block that holds address, in any state, or null. If no block does, null
 * or a block before it: the caller checks the state first, then its bounds. */
wm_block *wm_block_at(const void *address);

/* Whether a segment of a runtime holds the address. */
bool wm_page_map_holds(const void *address);

/* Bytes from an address that is in no live block up to the next address where a
 * run or a slab begins; at most bytes. */
size_t wm_page_map_reach(const void *address, size_t bytes);

#endif
