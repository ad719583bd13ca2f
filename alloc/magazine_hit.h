/* magazine_hit.h: hits of magazines, from end to end; see magazine.h.
 *
 * Inlined into the public functions (memory.c, memory_free.c,
 * device_memory.c), in which every instruction counts: tests/bench/PROFILE.md.
 * What is rare is at their end, as a call to which nothing comes back, so that
 * a hit saves no register. */
#ifndef WM_MAGAZINE_HIT_H
#define WM_MAGAZINE_HIT_H

#include "alloc/magazine.h"

/* A magazine's address is made once, and not again for each of its fields. */
#define WM_ONE_ADDRESS(m) __asm__("" : "+r"(m))

/* ---- hits: the caller is in the section ------------------------------- */

static inline wm_supply *wm_magazine_supply(wm_magazines *set,
                                            const wm_magazine *m)
{
    return &set->supply[m - set->of];
}

static inline wm_sums *wm_magazine_sort(wm_magazines *set, const wm_magazine *m)
{
    return (wm_sums *)(void *)((char *)set + m->sort);
}

/* The figures of a block that goes to a caller, and was the last entry: that
 * there is a new extreme is rare. laned: the set is of a lane. */
static inline __attribute__((always_inline)) void
wm_magazine_note_take(wm_magazines *set, wm_magazine *m, wm_entry *top,
                      size_t requested, bool laned)
{
    int64_t bytes = wm_magazines_bytes(set) - m->bytes;

    m->top = top;
    if (wm_unlikely((intptr_t)top < m->low)) {
        m->low = (intptr_t)top;
    }
    m->allocs++;
    m->taken += requested;
    if (wm_peak_lower(&m->asked_room, (int64_t)requested)) {
        wm_magazine_supply(set, m)->asked_most -= m->asked_room;
        m->asked_room = 0;
    }
    wm_magazines_set_bytes(set, bytes);
    if (wm_unlikely(bytes < set->bytes_low)) {
        set->bytes_low = bytes;
    }
    wm_peak_add(&set->blocks, 1);
    wm_peak_add(&set->asked, (int64_t)requested);
    if (laned) {
        wm_sums *sort = wm_magazine_sort(set, m);

        WM_ONE_ADDRESS(sort);
        wm_peak_add(&sort->blocks, 1);
        wm_peak_add(&sort->bytes, m->bytes);
        wm_peak_add(&sort->asked, (int64_t)requested);
    }
}

/* And of one that its caller gives back. */
static inline __attribute__((always_inline)) void
wm_magazine_note_give(wm_magazines *set, wm_magazine *m, size_t requested,
                      bool laned)
{
    m->asked_room += (int64_t)requested;
    wm_peak_sub(&set->blocks, 1);
    wm_peak_sub(&set->asked, (int64_t)requested);
    if (laned) {
        wm_sums *sort = wm_magazine_sort(set, m);

        WM_ONE_ADDRESS(sort);
        wm_peak_sub(&sort->blocks, 1);
        wm_peak_sub(&sort->bytes, m->bytes);
        wm_peak_sub(&sort->asked, (int64_t)requested);
    }
}

/* A block of a magazine for so many bytes, or null. Its entry is free, and as
 * it was. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop_from(wm_magazines *set, wm_magazine *m, size_t bytes,
                     bool laned)
{
    wm_entry *entry;
    wm_block *block;

    WM_ONE_ADDRESS(m);
    entry = m->top - 1;
    block = entry->block;

    /* Relaxed: written by this thread, or before the section was ours. */
    if (wm_unlikely(atomic_load_explicit(&block->state, memory_order_relaxed) !=
                    set->cached)) {
        return NULL;
    }
    wm_block_set_requested(block, bytes);
    /* Release pairs with the acquire of look-ups: fields before state. */
    atomic_store_explicit(&block->state, set->live, memory_order_release);
    wm_magazine_note_take(set, m, entry, bytes, laned);
    return entry;
}

/* A block of 1 … WM_CLASS_LIMIT bytes, or null; as above. */
static inline __attribute__((always_inline)) const wm_entry *
wm_magazine_pop(wm_magazines *set, size_t bytes, bool laned)
{
    return wm_magazine_pop_from(set, &set->of[wm_size_class_index(bytes)],
                                bytes, laned);
}

/* Where a class is empty, one of the next two will do, and of large sizes of a
 * lane the next: to cut one costs thirty times as much as a hit. A request
 * finds one of three much more often than one of one; what is kept need not be
 * as much for that, so that less is held (tests/bench/PROFILE.md). Page-locked
 * memory of more than an eighth above the request will not do (row B8). Small
 * and large requests stay apart. */
enum { WM_LARGER = 2, WM_LARGER_LANED_BYTES = 256 << 10 };

static inline const wm_entry *wm_magazine_pop_larger(wm_magazines *set,
                                                     size_t bytes, bool laned)
{
    wm_magazine *m = &set->of[wm_size_class_fixed(bytes)];
    const wm_magazine *end = &set->of[WM_CLASSES];
    const wm_entry *entry = NULL;
    uint32_t sort = m->sort;

    for (int i = laned && bytes > WM_LARGER_LANED_BYTES ? 1 : WM_LARGER;
         i > 0 && entry == NULL; i--) {
        if (++m >= end || m->sort != sort ||
            (!laned && bytes > WM_PAGE &&
             (size_t)m->bytes > bytes + bytes / 8)) {
            break;
        }
        entry = wm_magazine_pop_from(set, m, bytes, laned);
    }
    return entry;
}

/* Takes a block back from its caller; false: there is no room. */
static inline __attribute__((always_inline)) bool
wm_magazine_push(wm_magazines *set, wm_block *block, char *base, bool laned)
{
    wm_magazine *m = &set->of[block->size_class];
    wm_entry *top;
    int64_t bytes;

    WM_ONE_ADDRESS(m);
    top = m->top;
    bytes = wm_magazines_bytes(set) + m->bytes;

    if (wm_unlikely(top == m->end) || wm_unlikely(bytes > set->bytes_max)) {
        return false;
    }
    top->block = block;
    /* Relaxed: who takes it out has the section; others only compare. (Here,
     * or the compiler makes one store of two and waits for both.) */
    atomic_store_explicit(&block->state, set->cached, memory_order_relaxed);
    top->base = base;
    m->top = top + 1;
    wm_magazines_set_bytes(set, bytes);
    wm_magazine_note_give(set, m, wm_block_requested(block), laned);
    return true;
}

/* The figures of a block that its caller gives back, and that goes elsewhere.
 */
static inline __attribute__((always_inline)) void
wm_magazine_count_free(wm_magazines *set, wm_block *block)
{
    wm_magazine *m = &set->of[block->size_class];
    int64_t bytes = m->bytes;

    /* Loaded alone: with what lies beside it, which is stored next, it would
     * have to wait for that store. */
    __asm__("" : "+r"(bytes));
    wm_magazine_supply(set, m)->base--;
    m->low -= (intptr_t)sizeof(wm_entry);
    set->bytes_base -= bytes;
    set->bytes_low -= bytes;
    wm_magazine_note_give(set, m, wm_block_requested(block), set->lane != NULL);
}

/* ---- whole hits -------------------------------------------------------- */

/* Whether a request may be a hit, if no pool is recording. A window of this
 * runtime means that it lives, as long as its section is open. */
static inline bool wm_magazine_may_hit(const wm_window *window,
                                       const warm_runtime *runtime,
                                       size_t bytes, void *const *pointer)
{
    return wm_likely(window->owner == runtime) &&
           wm_likely(bytes - 1 < WM_CLASS_LIMIT) && wm_likely(pointer != NULL);
}

static inline __attribute__((always_inline)) void
wm_magazine_hand_out(wm_window *window, const wm_entry *entry, void **pointer)
{
    char *base = entry->base;

    *pointer = base;
    *wm_window_recent(window, base) = entry->block;
}

/* The block that starts at base, if a hit handed that out lately; or another
 * one, or null. Looked at in the section: its record may be that of something
 * else by now, but there is one until the window is cut. If its state is one of
 * the window's sets and it starts at base, it is that block. (If only the state
 * is, it may be with another thread now, whom it was passed to.) */
static inline wm_block *wm_magazine_guess(wm_window *window, const void *base)
{
    return *wm_window_recent(window, base);
}

/* node: of the block, or WM_NODE_UNKNOWN for what the thread keeps. routing:
 * see wm_private_routing(). False: a miss. */
static inline __attribute__((always_inline)) bool
wm_magazine_alloc(wm_window *window, unsigned routing, size_t bytes, int node,
                  void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazines *set;

    if (wm_unlikely(!wm_section_enter_unless(&window->section, routing))) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL) &&
        (node == WM_NODE_UNKNOWN || node == set->arena->node)) {
        entry = wm_magazine_pop(set, bytes, false);
    }
    if (wm_likely(entry != NULL)) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* The same for who has missed: of one of the next classes. */
static inline bool wm_magazine_alloc_larger(wm_window *window, unsigned routing,
                                            size_t bytes, void **pointer)
{
    const wm_entry *entry = NULL;
    wm_magazines *set;

    if (!wm_section_enter_unless(&window->section, routing)) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL)) {
        entry = wm_magazine_pop_larger(set, bytes, false);
    }
    if (entry != NULL) {
        wm_magazine_hand_out(window, entry, pointer);
    }
    wm_section_leave(&window->section);
    return entry != NULL;
}

/* Whether that is the state of a block that is live and was handed out by the
 * window. */
static inline __attribute__((always_inline)) bool
wm_magazine_is_of(const wm_window *window, wm_state state)
{
    return wm_likely(
        state == atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether a block, which may be null, is live and was handed out by the window.
 * Acquire: its other fields are those of its owner then. */
static inline __attribute__((always_inline)) bool
wm_magazine_owns(const wm_window *window, wm_block *block)
{
    return wm_likely(block != NULL) &&
           wm_likely(
               atomic_load_explicit(&block->state, memory_order_acquire) ==
               atomic_load_explicit(&window->live_tag, memory_order_relaxed));
}

/* Whether nobody uses such a block but its owner, so that it may be kept. One
 * test for both. */
static inline __attribute__((always_inline)) bool
wm_magazine_may_keep(wm_block *block)
{
    /* Acquire pairs with the release of a record by another thread. Relaxed:
     * the caller orders records before the free. */
    uintptr_t uses =
        (uintptr_t)atomic_load_explicit(&block->uses, memory_order_acquire);
    uintptr_t captured =
        atomic_load_explicit(&block->captured, memory_order_relaxed);

    return wm_likely((uses | captured) == 0);
}

/* Such a block, which starts at base, in the section. False: there is no room.
 */
static inline __attribute__((always_inline)) bool
wm_magazine_free(wm_window *window, wm_block *block, char *base)
{
    /* There is a set: the state named it, and the section is open. */
    return wm_magazine_push(
        atomic_load_explicit(&window->magazines, memory_order_relaxed), block,
        base, false);
}

/* A block in the state that another thread was handed, perhaps, and that nobody
 * uses; claimed, since others may free it as well. False: the slow path. */
static inline __attribute__((always_inline)) bool
wm_magazine_free_other(wm_window *window, wm_block *block, wm_state state,
                       char *base)
{
    bool taken = false;
    wm_magazines *set;

    /* A window without a tag may be the constant one. Relaxed: the caller
     * orders records before the free. */
    if (wm_state_kind(state) != WM_BLOCK_LIVE || block->base != base ||
        atomic_load_explicit(&window->live_tag, memory_order_relaxed) ==
            WM_NO_TAG ||
        atomic_load_explicit(&block->own, memory_order_relaxed) != NULL ||
        !wm_magazine_may_keep(block) || block->size_class >= WM_CLASSES ||
        !wm_section_enter(&window->section)) {
        return false;
    }
    set = atomic_load_explicit(&window->magazines, memory_order_relaxed);
    if (wm_likely(set != NULL) &&
        wm_likely(wm_arena_beside(block->segment->arena, set->arena)) &&
        wm_likely(set->of[block->size_class].top !=
                  set->of[block->size_class].end) &&
        wm_likely(atomic_compare_exchange_strong_explicit(
            &block->state, &state, WM_BLOCK_FREEING, memory_order_acquire,
            memory_order_relaxed))) {
        /* The record of a stale pointer may serve another block. */
        taken =
            block->base == base && wm_magazine_push(set, block, base, false);
        if (wm_unlikely(!taken)) {
            atomic_store_explicit(&block->state, state, memory_order_release);
        }
    }
    wm_section_leave(&window->section);
    return taken;
}

#endif
