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
    /* A huge page for a few entries would take 2 MiB of memory. */
    (void)madvise(leaf, sizeof *leaf, MADV_NOHUGEPAGE);
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

/* ---- entries ------------------------------------------------------------ */

static uintptr_t load(const _Atomic(uintptr_t) *entry)
{
    /* Acquire pairs with the release of wm_page_store(). */
    return atomic_load_explicit(entry, memory_order_acquire);
}

static void *record_of(uintptr_t entry)
{
    return (void *)(entry & ~(uintptr_t)3);
}

/* The first address of the next granule, or end. */
static const char *granule_end(const char *at, const char *end)
{
    size_t left = WM_GRANULE - (uintptr_t)at % WM_GRANULE;

    return left < (size_t)(end - at) ? at + left : end;
}

void wm_page_map_clear(const void *base, size_t bytes)
{
    const char *at = base, *end = at + bytes;

    for (; at < end; at += WM_PAGE) {
        wm_page_map_set(at, NULL, WM_ENTRY_RUN);
    }
}

void wm_page_map_move_run(const wm_block *run, size_t bytes)
{
    wm_page_map_set_run(run->base, bytes, run);
    wm_page_map_set_run(run->base, run->bytes, NULL);
}

/* Pages of a granule have, or get, entries. Other segments may begin there: the
 * thread that adds one stores its own entry, in no order with this one. */
static void mark(const char *at)
{
    _Atomic(uintptr_t) *start = &wm_page_leaf(at)->start[wm_page_granule(at)];
    uintptr_t none = 0;

    atomic_compare_exchange_strong_explicit(
        start, &none, WM_ENTRY_RUN, memory_order_relaxed, memory_order_relaxed);
}

/* Removes the entries of memory that was left behind, in granules that have
 * any: the driver returned its address again. */
static void clear_left_behind(const char *at, const char *end)
{
    for (const char *next; at < end; at = next) {
        wm_leaf *leaf = wm_page_leaf(at);
        bool any = load(&leaf->start[wm_page_granule(at)]) != 0;

        next = granule_end(at, end);
        for (; any && at < next; at += WM_PAGE) {
            _Atomic(uintptr_t) *entry = wm_page_entry(leaf, at);

            if (load(entry) == (uintptr_t)&wm_page_gone) {
                wm_page_store(entry, NULL, WM_ENTRY_RUN);
            }
        }
    }
}

void wm_page_map_fill(const void *base, size_t bytes, const void *record)
{
    const char *at = base, *end = at + bytes, *next;

    for (; at < end; at = next) {
        next = granule_end(at, end);
        if ((size_t)(next - at) == WM_GRANULE) {
            clear_left_behind(at, next);
            wm_page_store(&wm_page_leaf(at)->cover[wm_page_granule(at)], record,
                          WM_ENTRY_IMPORTED);
            continue;
        }
        mark(at);
        for (; at < next; at += WM_PAGE) {
            wm_page_map_set(at, record, WM_ENTRY_IMPORTED);
        }
    }
}

void wm_page_map_cover(const void *base, size_t bytes,
                       const wm_segment *segment)
{
    const char *at = base, *end = at + bytes;

    if (segment != NULL) {
        clear_left_behind(at, end);
        mark(at);
    } else if ((uintptr_t)end % WM_GRANULE != 0) {
        mark(end - WM_PAGE); /* what lies behind is covered no more */
    }
    if ((uintptr_t)at % WM_GRANULE != 0) {
        at = granule_end(at, end);
    }
    for (; at < end; at = granule_end(at, end)) {
        wm_page_store(&wm_page_leaf(at)->cover[wm_page_granule(at)], segment,
                      WM_ENTRY_INNER);
    }
}

/* The record may become another segment's meanwhile: if the base is the same
 * before and after the bytes are read, both are of one segment. Acquire pairs
 * with wm_segment_place(). */
static bool holds(const wm_segment *segment, const void *address)
{
    const char *base =
        atomic_load_explicit(&segment->base_seen, memory_order_acquire);
    size_t bytes =
        atomic_load_explicit(&segment->bytes_seen, memory_order_acquire);

    return (uintptr_t)address - (uintptr_t)base < bytes &&
           base == wm_segment_base(segment);
}

static bool is_known(uintptr_t entry, const void *address)
{
    if (entry == 0 || entry == (uintptr_t)&wm_page_gone) {
        return false;
    }
    return (entry & 3) != WM_ENTRY_INNER || holds(record_of(entry), address);
}

/* What begins in a part of a granule, or is imported there. */
static bool any_in_granule(wm_leaf *leaf, const char *at, const char *end)
{
    uintptr_t start = load(&leaf->start[wm_page_granule(at)]);
    wm_block *run = record_of(start);

    if (run != NULL) {
        const char *base =
            atomic_load_explicit(&run->base_seen, memory_order_relaxed);

        if (base >= at && base < end) {
            return true;
        }
    }
    if ((start | load(&leaf->cover[wm_page_granule(at)])) == 0) {
        return false;
    }
    for (; at < end; at += WM_PAGE) {
        uintptr_t entry = load(wm_page_entry(leaf, at));

        if (entry != 0 && entry != (uintptr_t)&wm_page_gone) {
            return true;
        }
    }
    return false;
}

bool wm_page_map_any(const void *base, size_t bytes)
{
    const char *end = (const char *)base + bytes, *next;

    for (const char *at = base; at < end; at = next) {
        wm_leaf *leaf = wm_page_leaf(at);

        next = granule_end(at, end);
        if (leaf != NULL && (is_known(wm_page_map_get(at), at) ||
                             any_in_granule(leaf, at, next))) {
            return true;
        }
    }
    return false;
}

void wm_page_map_set_slot(wm_slab *slab, unsigned slot)
{
    size_t begin = slot * slab->slot_bytes, end = begin + slab->slot_bytes;

    for (size_t at = begin / WM_PAGE * WM_PAGE; at < end; at += WM_PAGE) {
        /* The first slot that begins at or after the start of the page. */
        unsigned i = slot + (at > begin);

        if (slab->slot_bytes >= WM_PAGE && i < slab->slots &&
            i * slab->slot_bytes < at + WM_PAGE) {
            wm_page_map_set(wm_slab_base(slab) + at, &slab->slot[i],
                            WM_ENTRY_RUN);
        } else {
            wm_page_map_set(wm_slab_base(slab) + at, slab, WM_ENTRY_SLAB);
        }
    }
}

/* ---- look-ups of inner addresses ---------------------------------------- */

/* The run that starts last at or before `at`, but not before `low`; or null.
 * Nothing else begins in a granule behind the start of a large run. But the
 * record of a large run that begins behind `at` may be recycled just now, with
 * a lower base: so pages come first. The run that holds a live address is found
 * by its own entry, which stays. */
static wm_block *start_before(const char *at, const char *low)
{
    for (;;) {
        wm_leaf *leaf = wm_page_leaf(at);
        const char *granule = at - (uintptr_t)at % WM_GRANULE, *base = NULL;
        wm_block *large;

        if (leaf == NULL) {
            return NULL;
        }
        large = record_of(load(&leaf->start[wm_page_granule(at)]));
        if (large != NULL) {
            base =
                atomic_load_explicit(&large->base_seen, memory_order_relaxed);
            base = base >= granule && base >= low && base <= at ? base : NULL;
        }
        for (; at >= granule && at >= low && at > base; at -= WM_PAGE) {
            uintptr_t entry = load(wm_page_entry(leaf, at));

            if (entry != 0) {
                wm_block *run = record_of(entry);

                /* Behind a slab or an imported page lies nothing. */
                return (entry & 3) == WM_ENTRY_RUN && run->slab == NULL ? run
                                                                        : NULL;
            }
        }
        if (base != NULL) {
            return large;
        }
        if (granule <= low) {
            return NULL;
        }
        /* The loop above has left `at` in the granule below. */
    }
}

/* The run that holds an address of a segment, or null. The cell of the first
 * page has a start, and so has each cell in which a run starts. */
static wm_block *run_around(wm_segment *segment, const char *address)
{
    const char *base = wm_segment_base(segment);
    unsigned shift = wm_segment_cell_shift(segment);
    size_t cell = (size_t)(address - base) >> shift, word = cell / 64;
    const char *at = base + ((size_t)(address - base) & ~(size_t)(WM_PAGE - 1));
    wm_block *run = NULL;
    uint64_t bits;

    if (wm_unlikely(word >= segment->words)) {
        return NULL; /* stale: the record serves another segment */
    }
    bits = atomic_load_explicit(&segment->starts[word], memory_order_relaxed) &
           (UINT64_MAX >> (63 - cell % 64));
    while (run == NULL) {
        const char *low;

        while (bits == 0 && word > 0) {
            word--;
            bits = atomic_load_explicit(&segment->starts[word],
                                        memory_order_relaxed);
        }
        if (bits == 0) {
            return NULL;
        }
        cell = word * 64 + 63 - (size_t)__builtin_clzll(bits);
        bits &= ~((uint64_t)1 << (cell % 64));
        low = base + (cell << shift);
        if (at - low >= (ptrdiff_t)1 << shift) {
            at = low + ((size_t)1 << shift) - WM_PAGE;
        }
        run = start_before(at, low);
    }
    return run;
}

/* The segment of which the granule's cover says that it holds the address. */
static wm_segment *covering(wm_leaf *leaf, const void *address)
{
    uintptr_t cover = load(&leaf->cover[wm_page_granule(address)]);

    return (cover & 3) == WM_ENTRY_INNER && holds(record_of(cover), address)
               ? record_of(cover)
               : NULL;
}

/* The last run that begins in the granule before the address, or null. */
static wm_block *begun_before(wm_leaf *leaf, const char *address)
{
    if (load(&leaf->start[wm_page_granule(address)]) == 0) {
        return NULL;
    }
    address -= (uintptr_t)address % WM_PAGE;
    return start_before(address, address - (uintptr_t)address % WM_GRANULE);
}

static wm_block *inner_block(wm_leaf *leaf, const char *address)
{
    wm_segment *segment = covering(leaf, address);

    return segment != NULL ? run_around(segment, address)
                           : begun_before(leaf, address);
}

static wm_block *slot_at(wm_slab *slab, const void *address)
{
    size_t i = wm_slot_index(slab, address);

    /* If i is beyond the slots, the slab is stale: its record serves another
     * run. */
    return wm_likely(i < slab->slots) ? &slab->slot[i] : NULL;
}

/* The block that spans the run, if one does; that of a stale pointer may be any
 * block. Acquire pairs with wm_block_set_state(): the run's segment was set.
 * For spanned_by see struct wm_segment. */
static wm_block *spanning(wm_block *run)
{
    wm_block *block = NULL;

    if (run != NULL && wm_unlikely(wm_state_kind(atomic_load_explicit(
                                       &run->state, memory_order_acquire)) ==
                                   WM_BLOCK_SPANNED)) {
        block = atomic_load_explicit(&run->segment->spanned_by,
                                     memory_order_relaxed);
    }
    return block != NULL ? block : run;
}

wm_block *wm_block_at(const void *address)
{
    wm_leaf *leaf = wm_page_leaf(address);
    wm_block *block;
    uintptr_t entry;

    if (leaf == NULL) {
        return NULL;
    }
    entry = load(wm_page_entry(leaf, address));
    if (entry == 0) {
        return spanning(inner_block(leaf, address));
    }
    switch (entry & 3) {
    case WM_ENTRY_SLAB:
        return slot_at(record_of(entry), address);
    case WM_ENTRY_RUN:
        block = record_of(entry);
        return block->slab != NULL ? slot_at(block->slab, address)
                                   : spanning(block);
    default:
        return NULL;
    }
}

bool wm_page_map_holds(const void *address)
{
    wm_leaf *leaf = wm_page_leaf(address);
    uintptr_t entry = leaf != NULL ? load(wm_page_entry(leaf, address)) : 0;
    wm_block *run;

    if (leaf == NULL || entry != 0) {
        return entry != 0 && (entry & 3) != WM_ENTRY_IMPORTED;
    }
    if (covering(leaf, address) != NULL) {
        return true;
    }
    /* Relaxed: an older segment of the record is not at the address. */
    run = begun_before(leaf, address);
    return run != NULL &&
           holds(atomic_load_explicit(&run->segment_seen, memory_order_relaxed),
                 address);
}

/* The cover of a granule stays when the driver returns an address inside the
 * granule again: what begins there is not left behind. */
bool wm_is_left_behind(const void *address)
{
    return wm_page_map_get(address) == (uintptr_t)&wm_page_gone &&
           wm_block_at(address) == NULL;
}

/* ---- memory outside -------------------------------------------------------
 */

#define LEAF_BYTES ((uintptr_t)1 << (WM_PAGE_SHIFT + WM_LEAF_SHIFT))

/* The lowest address in a part of a granule where a run begins, or null. Both
 * ends are pages. */
static const char *first_run_in(wm_leaf *leaf, const char *at, const char *end)
{
    uintptr_t start = load(&leaf->start[wm_page_granule(at)]);
    wm_block *large = record_of(start);

    if (start == 0) {
        return NULL;
    }
    if (large != NULL) {
        const char *base =
            atomic_load_explicit(&large->base_seen, memory_order_relaxed);

        if (base >= at && base < end) {
            end = base;
        } else {
            large = NULL;
        }
    }
    for (; at < end; at += WM_PAGE) {
        uintptr_t entry = load(wm_page_entry(leaf, at));

        if (entry != 0 && (entry & 3) != WM_ENTRY_IMPORTED) {
            return at;
        }
    }
    return large != NULL ? end : NULL;
}

size_t wm_page_map_reach(const void *address, size_t bytes)
{
    const char *from = address, *end = from + bytes, *next;
    const char *at = from + WM_PAGE - (uintptr_t)from % WM_PAGE;

    for (; at < end; at = next) {
        wm_leaf *leaf = wm_page_leaf(at);
        const char *found = NULL;

        if (leaf == NULL) {
            next = at + LEAF_BYTES - (uintptr_t)at % LEAF_BYTES;
            continue;
        }
        next = granule_end(at, end);
        found = first_run_in(leaf, at, next);
        if (found != NULL) {
            return (size_t)(found - from);
        }
    }
    return bytes;
}
